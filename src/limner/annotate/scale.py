"""The answer scale: four grades, and for the middle two a reason (Chun et al. 2022, appendix B.1).

A grade's number is its key on the page, and higher is better: 4 is "100% yes", 1 is "100% no". There are four grades
and not three, so that nobody can choose a neutral middle every time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from limner.core.errors import LimnerError, UnknownName

GRADES = {4: "100% yes", 3: "partially yes", 2: "mostly no", 1: "100% no"}
"""Grade -> label on the page."""

RELEVANCE = {4: 1.0, 3: 0.5, 2: 0.0, 1: 0.0}
"""Grade -> grade of the judgement: yes and weak yes are both positives, with different grades."""

WRONG = (
    "quantity", "colour", "size", "species", "gender", "age", "action", "emotion", "location", "orientation", "other",
)  # fmt: skip
"""How a description can be wrong: as in ECCV Caption, plus size, which is also a failure class."""

REASONS = {
    "not-in-image": "the caption tells of what is not in the image",
    "not-in-caption": "the caption leaves out the main thing of the image",
    **{f"wrong-{what}": f"the caption describes it wrongly: {what}" for what in WRONG},
    "grammar": "the caption is no correct sentence",
}
"""Reason -> label on the page."""

GUIDELINE = "2"
"""Version of the wording above; every answer stores the version it was given under."""


@dataclass(frozen=True)
class Given:
    """An answer from a file: annotator, pair, grade and reasons."""

    annotator: str
    image: str
    caption: str
    grade: int
    reasons: tuple[str, ...] = ()
    milliseconds: int | None = None


def relevant(grade: int) -> bool:
    """Whether a grade is a yes.

    >>> [relevant(grade) for grade in (4, 3, 2, 1)]
    [True, True, False, False]
    """
    return grade >= 3


def check_grade(grade: object) -> int:
    """Checks that a grade is one of the four."""
    if isinstance(grade, bool) or not isinstance(grade, int) or grade not in GRADES:
        named = ", ".join(f"{number} ({words})" for number, words in GRADES.items())
        raise LimnerError(f"grade {grade!r}: expected {named}")
    return grade


def check_reasons(reasons: Iterable[str], grade: int) -> tuple[str, ...]:
    """The reasons in the order of `REASONS`, without duplicates; only the two middle grades may have reasons.

    >>> check_reasons(["wrong-colour", "not-in-image"], 3)
    ('not-in-image', 'wrong-colour')
    """
    given = list(reasons)
    for reason in given:
        if reason not in REASONS:
            raise UnknownName("reason", str(reason), REASONS)
    if given and grade not in (2, 3):
        raise LimnerError(f"grade {grade} with reasons: they are only for 2 and 3; leave them out")
    return tuple(reason for reason in REASONS if reason in given)
