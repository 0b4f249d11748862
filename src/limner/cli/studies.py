"""Shared code of the annotation commands: several systems at once, and the collection of a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from limner.cli.commands.answers import ORIGINAL, opened
from limner.cli.console import progress, tell

if TYPE_CHECKING:
    from limner.annotate.pool import Lists
    from limner.annotate.store import Store
    from limner.core.collection import Collection


def remember(store: Store, held: Collection, spec: str, options: dict[str, Any], split: str | None) -> None:
    """Stores the collection, how to load it again, and its original pairs."""
    from limner.annotate.store.contents import add_collection

    with progress(f"reading {len(held.images):,} images") as told:
        add_collection(store, held, spec=spec, progress=told)
    store.set("loading", {"options": options, "split": split})
    store.set(ORIGINAL, [[i, t, g] for i, t, g in held.judgements.relevant])


def several(
    names: list[str],
    scores: list[str],
    runs: list[str],
    whole: Collection,
    split: str | None,
    *,
    features: str | None = None,
    trust: bool,
) -> tuple[dict[str, Lists], Collection]:
    """Systems by name, from the options of a command, and the part of the collection they are about."""
    from limner.cli.inputs import Way
    from limner.cli.inputs import opened as read
    from limner.cli.training import opened_together

    if not names and not scores and not runs:
        raise typer.BadParameter("no system: give --system, --scores NAME=FILE or --run NAME=FILE")
    systems, held, notes = opened_together(names, whole, split, features=features, trust=trust)
    for note in notes:
        tell(note)
    found: dict[str, Lists] = {Path(system.name).stem: system.scores for system in systems}
    for name, file in _named(scores):
        found[name] = _lists(read(Way(scores=file), whole, held))
    by_name: dict[str, list[Path]] = {}
    for name, file in _named(runs):
        by_name.setdefault(name, []).append(file)
    for name, files in by_name.items():
        found[name] = _lists(read(Way(runs=tuple(files)), whole, held))
    return found, held


def _lists(source: Any) -> Lists:
    found: Lists = source  # scores of both directions, or rankings by direction
    return found


def _named(words: list[str]) -> Iterator[tuple[str, Path]]:
    for each in words:
        name, equals, file = each.partition("=")
        if not name or not equals or not file:
            raise typer.BadParameter(f"got {each!r}: expected NAME=FILE, e.g. mine=S.npy")
        yield name, Path(file)


def pictures(store: str, collection: str | None, options: dict[str, Any], *, trust: bool) -> tuple[str, dict[str, Any]]:
    """What to load and how: as the user gave it, else as the store has it, which may only name limner's own loaders."""
    from limner.datasets import refuse_foreign

    with opened(store) as db:
        kept = (db.setting("collection") or {}).get("spec"), (db.setting("loading") or {}).get("options") or {}
    spec, chosen = collection or kept[0], options or kept[1]
    if spec is None:
        raise typer.BadParameter("the store does not know where its images are: give the COLLECTION")
    if not trust and (spec != collection or chosen != options):
        refuse_foreign(spec, chosen)
    return spec, chosen
