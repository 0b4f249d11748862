"""The guideline of the pair form, which annotators read before they judge, and the scale that a store keeps.

A change of the wording is a new version. Old versions are kept, and every answer stores the version that was read. The
scale is the built-in one, or the store's own grades and reasons, fixed before the first answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import count, takewhile

from limner.annotate.scale import GUIDELINE, SCALE, Grade, Reason, Scale
from limner.annotate.store import Store, alone
from limner.annotate.store.schema import Row, judgement, sa, setting
from limner.core.errors import LimnerError
from limner.core.errors import count as count_words

TEXT = """\
Read the caption, look at the image, and decide whether the caption describes it.
100% yes: everything the caption says can be seen. It need not mention everything in the image.
Partially yes: the main thing is right, and a detail is wrong or cannot be seen.
Mostly no: a detail is right, and the main thing is wrong.
100% no: the caption describes another image.
Judge what is there, not how well it is written. Zoom in before you say that something is missing.
"""
MOST_TEXT, MOST_EXAMPLES = 20_000, 50


@dataclass(frozen=True)
class GuidelineExample:
    """A pair with the grade it should get."""

    image: str
    text: str
    grade: int
    why: str = ""


@dataclass(frozen=True)
class Guideline:
    """One version of the guideline.

    Args:
        version: "1" for the built-in version, then "2", "3", ...
        text: One rule in each line.
        examples: Pairs with their grades.
    """

    version: str
    text: str
    examples: tuple[GuidelineExample, ...] = ()

    @property
    def lines(self) -> list[str]:
        """The rules."""
        return [line.strip() for line in self.text.splitlines() if line.strip()]


def guidelines(store: Store) -> list[Guideline]:
    """All versions, oldest first; the first one is built into limner."""
    settings = takewhile(lambda setting: setting is not None, (store.setting(_name(number)) for number in count(2)))
    revised = [
        Guideline(str(number), setting["text"], tuple(GuidelineExample(**each) for each in setting["examples"]))
        for number, setting in enumerate(settings, start=2)
    ]
    return [Guideline(GUIDELINE, TEXT), *revised]


def newest(store: Store) -> Guideline:
    """The newest version, which annotators read now."""
    return guidelines(store)[-1]


def revise(store: Store, text: str, examples: Iterable[GuidelineExample] = ()) -> Guideline:
    """Creates a new version; without a change the newest one stays.

    Args:
        store: The store.
        text: One rule in each line.
        examples: Pairs with their grades.
    """
    listed = tuple(examples)
    _refuse_bad(text, listed, scale_of(store))
    current = newest(store)
    if (text.strip(), listed) == (current.text.strip(), current.examples):
        return current
    words = text.strip() + "\n"
    content = {"text": words, "examples": [asdict(each) for each in listed]}
    for number in count(len(guidelines(store)) + 1):
        if store.set(_name(number), content, replace=False) == content:  # someone else may have been first
            return Guideline(str(number), words, listed)
    raise AssertionError("there is always a free number")


def known_version(store: Store, version: object) -> str:
    """The version that an annotator has read; the newest by default."""
    if version in (None, ""):
        return newest(store).version
    if version not in [each.version for each in guidelines(store)]:
        raise LimnerError(f"guideline {str(version)[:20]!r}: there is no such version; load the page again")
    return str(version)


def _name(number: int) -> str:
    return f"guideline {number}"


def _refuse_bad(text: str, examples: tuple[GuidelineExample, ...], scale: Scale) -> None:
    if not text.strip() or len(text) > MOST_TEXT:
        raise LimnerError(f"a guideline of {len(text):,} characters: expected 1 to {MOST_TEXT:,}")
    if len(examples) > MOST_EXAMPLES:
        raise LimnerError(f"{len(examples)} examples: expected at most {MOST_EXAMPLES}")
    for each in examples:
        scale.check_grade(each.grade)
        if not each.image or not each.text.strip():
            raise LimnerError("an example needs an image and a caption")


def set_scale(store: Store, scale: Scale, *, guideline: str = "") -> None:
    """Gives a store its own grades and reasons, and a guideline that names them as its newest version.

    Args:
        store: A store without answers.
        scale: The grades and reasons, e.g. from `form_files.read_scale`.
        guideline: The rules, one in each line; by default they are made from the grades' meanings.
    """
    keep_scale(store, scale)
    examples = [each for each in newest(store).examples if each.grade in scale.by_value]
    revise(store, guideline.strip() or default_guideline(scale), examples)


def default_guideline(scale: Scale) -> str:
    """The rules for a scale without its own guideline."""
    meanings = [f"{grade.label}: {grade.meaning}" for grade in scale.grades if grade.meaning]
    advice = "Judge what is there, not how well it is written. Zoom in before you say that something is missing."
    return "\n".join([f"Read the caption, look at the image, and answer: {scale.question}", *meanings, advice])


_NAME = "scale"
# Built once, since building a query takes as long as running it.
_ANY_ANSWER = sa.select(judgement.c.id).limit(1)
_KEPT = sa.select(setting.c.value).where(setting.c.name == _NAME)


def scale_of(store: Store) -> Scale:
    """The grades and reasons of a store."""
    return _scale(store.setting(_NAME))


def _scale(stored: Row | None) -> Scale:
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
                f"the store has {count_words(n_answers, 'answer')} under its present grades, which stay: use "
                "a new store"
            )
        connection.execute(sa.delete(setting).where(setting.c.name == _NAME))
        connection.execute(sa.insert(setting).values(name=_NAME, value=json.dumps(asdict(scale))))
