"""The scale that a store keeps: the built-in one, or its own grades and reasons, fixed before the first answer."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from limner.annotate._sql import sa
from limner.annotate.scale import SCALE, Grade, Reason, Scale
from limner.annotate.store import Store, alone
from limner.annotate.store.schema import judgement, setting
from limner.core.errors import LimnerError, count

_NAME = "scale"
# Built once, since building a query takes as long as running it.
_ANY_ANSWER = sa.select(judgement.c.id).limit(1)
_KEPT = sa.select(setting.c.value).where(setting.c.name == _NAME)


def scale_of(store: Store) -> Scale:
    """The grades and reasons of a store."""
    return _scale(store.setting(_NAME))


def _scale(stored: Any) -> Scale:
    """A scale from its stored form; the built-in one if nothing is stored."""
    if stored is None:
        return SCALE
    grades = tuple(Grade(**each) for each in stored["grades"])
    return Scale(grades, tuple(Reason(**each) for each in stored["reasons"]), stored["question"])


def refuse_changed(store: Store, connection: sa.Connection, scale: Scale) -> None:
    """Refuses answers that were checked against a scale which the store no longer has.

    Only a store without answers can get another scale, so only the first answer has to exclude that.
    """
    if connection.scalar(_ANY_ANSWER) is None:
        alone(store, connection)
    value = connection.scalar(_KEPT)
    if _scale(None if value is None else json.loads(value)) != scale:
        raise LimnerError("the grades were changed meanwhile: load the page again, and answer with the new ones")


def keep_scale(store: Store, scale: Scale) -> None:
    """Stores a scale; refused if there are answers under another one, because their meaning would change."""
    if scale == scale_of(store):
        return
    with store.writing() as connection:
        alone(store, connection)
        n_answers = connection.scalar(sa.select(sa.func.count()).select_from(judgement)) or 0
        if n_answers:
            raise LimnerError(
                f"the store has {count(n_answers, 'answer')} under its present grades, which stay: use a new store"
            )
        connection.execute(sa.delete(setting).where(setting.c.name == _NAME))
        connection.execute(sa.insert(setting).values(name=_NAME, value=json.dumps(asdict(scale))))
