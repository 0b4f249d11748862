"""The answer scale: grades, and the reasons that some of them may have.

The built-in scale, in `forms/pairs.toml`, is that of Chun et al. (2022, appendix B.1): four grades, and reasons for
the middle two. There are four grades and not three, so that nobody can choose a neutral middle every time. A store can
have its own grades and reasons (`limner.annotate.form_files`). Every grade of a scale has one of the four values
4 (yes) to 1 (no), which are what a store keeps and what all measures and designs use.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from limner.core.errors import LimnerError, UnknownName

FORMS = Path(__file__).parent / "forms"
"""The folder of limner's forms."""

COUNTS_AS = {4: "yes", 3: "weak yes", 2: "weak no", 1: "no"}
"""Grade -> what it counts as in every scale; yes and weak yes are relevant."""

RELEVANCE = {4: 1.0, 3: 0.5, 2: 0.0, 1: 0.0}
"""Grade -> grade of the judgement: yes and weak yes are both positives, with different grades."""

GUIDELINE = "1"
"""Version of the question and the meanings of the grades in `forms/pairs.toml`, raised whenever they change.

Every answer stores the version that its annotator read.
"""

COMMENT_LENGTH = 500
"""Most characters of a comment with an answer."""


@dataclass(frozen=True)
class ImportedAnswer:
    """An answer from a file: annotator, pair, grade, reasons, time and comment."""

    annotator: str
    image: str
    caption: str
    grade: int
    reasons: tuple[str, ...] = ()
    milliseconds: int | None = None
    comment: str = ""


def check_comment(comment: object) -> str:
    r"""A comment on one line; characters that cannot be shown become spaces. Too long a comment is refused.

    >>> check_comment("  two boats,\n not one ")
    'two boats, not one'
    """
    if not isinstance(comment, str):
        raise LimnerError(f"comment {comment!r:.20}: expected text")
    line = " ".join("".join(each if each.isprintable() else " " for each in comment).split())
    if len(line) > COMMENT_LENGTH:
        raise LimnerError(f"a comment of {len(line):,} characters: expected at most {COMMENT_LENGTH}")
    return line


def relevant(grade: int) -> bool:
    """Whether a grade is a yes.

    >>> [relevant(grade) for grade in (4, 3, 2, 1)]
    [True, True, False, False]
    """
    return grade >= 3


@dataclass(frozen=True)
class Grade:
    """One answer that annotators can choose.

    Args:
        value: 4 (yes), 3 (weak yes), 2 (weak no) or 1 (no): what is stored, and what measures use.
        label: Words on the page.
        key: Its key on the page.
        reasons: Whether this answer may have reasons.
        meaning: When to choose it, in one sentence, for the guideline.
    """

    value: int
    label: str
    key: str
    reasons: bool = False
    meaning: str = ""

    def __str__(self) -> str:
        """Key and label, e.g. "4 100% yes"."""
        return f"{self.key} {self.label}"


@dataclass(frozen=True)
class Reason:
    """One reason that annotators can choose.

    Args:
        name: Stored with the answers and exported.
        label: Words on the page.
        key: Its letter on the page.
        group: Heading under which it is shown; none if empty.
        failure: The failure class of `limner.explain` that it means; none if empty.
    """

    name: str
    label: str
    key: str
    group: str = ""
    failure: str = ""


@dataclass(frozen=True)
class Scale:
    """The grades and reasons of a store.

    Args:
        grades: Best first; always with a yes and a no.
        reasons: In the order of the page.
        question: The question that the grades answer.

    >>> print(*SCALE.grades, sep=", ")
    4 100% yes, 3 partially yes, 2 mostly no, 1 100% no
    """

    grades: tuple[Grade, ...]
    reasons: tuple[Reason, ...]
    question: str = "Does the caption describe the image?"

    @property
    def custom(self) -> bool:
        """Whether it differs from the built-in scale."""
        return self != SCALE

    @property
    def by_value(self) -> dict[int, Grade]:
        """Value -> grade, in the order of the page: the worst first."""
        return {grade.value: grade for grade in reversed(self.grades)}

    @property
    def reasoned(self) -> tuple[Grade, ...]:
        """The grades that may have reasons."""
        return tuple(grade for grade in self.grades if grade.reasons)

    @property
    def classes(self) -> dict[str, str]:
        """Reason -> failure class, for reasons that have one."""
        return {reason.name: reason.failure for reason in self.reasons if reason.failure}

    def display(self, value: int) -> str:
        """Key and label of a value; the number alone if the scale has no such grade."""
        return str(self.by_value.get(value, value))

    def label(self, value: int) -> str:
        """The label of a value; what it counts as if the scale has no such grade."""
        grade = self.by_value.get(value)
        return COUNTS_AS[value] if grade is None else grade.label

    def asks(self, value: int) -> bool:
        """Whether a grade may have reasons."""
        return value in self.by_value and self.by_value[value].reasons

    def with_key(self, key: str) -> int:
        """The value of the grade with this key."""
        value = next((grade.value for grade in self.grades if grade.key == key), None)
        if value is None:
            raise LimnerError(f"grade {key[:20]!r}: expected {', '.join(map(str, self.by_value.values()))}")
        return value

    def check_grade(self, value: object) -> int:
        """Checks that a value is one of the scale's."""
        if isinstance(value, bool) or not isinstance(value, int) or value not in self.by_value:
            named = ", ".join(f"{grade.value} ({grade.label})" for grade in self.grades)
            raise LimnerError(f"grade {value!r}: expected {named}")
        return value

    def check_reasons(self, reasons: Iterable[str], value: int) -> tuple[str, ...]:
        """The reasons in the order of the scale, without duplicates; only some grades may have reasons.

        >>> SCALE.check_reasons(["wrong-colour", "not-in-image"], 3)
        ('not-in-image', 'wrong-colour')
        """
        marked, names = list(reasons), [reason.name for reason in self.reasons]
        for reason in marked:
            if reason not in names:
                raise UnknownName("reason", str(reason), names)
        if marked and not self.asks(value):
            allowed = " and ".join(sorted(str(grade.value) for grade in self.reasoned)) or "no grade"
            raise LimnerError(f"grade {value} with reasons: they are only for {allowed}; leave them out")
        return tuple(name for name in names if name in marked)


def _built_in() -> Scale:
    """The scale of `forms/pairs.toml`."""
    table = tomllib.loads((FORMS / "pairs.toml").read_text(encoding="utf-8"))
    values = {words: value for value, words in COUNTS_AS.items()}
    grades = [
        Grade(values[row["counts_as"]], row["label"], row["key"], row.get("reasons", False)) for row in table["grades"]
    ]
    return Scale(tuple(grades), tuple(Reason(**row) for row in table["reasons"]), table["question"])


SCALE = _built_in()
"""The built-in scale."""
