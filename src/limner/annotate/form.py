"""The form of a study: a question, what is shown, and the possible answers. A form is data: see the files in `forms`.

What is shown is a list of named things: a text, an image or a caption of the collection by its id, several of them, or
the query and the ranking of a direction of search. An answer has parts: one option, several options, a whole number,
or a few words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from limner.annotate.scale import check_comment
from limner.core.errors import LimnerError, UnknownName

SHOWN_KINDS = ("text", "image", "images", "caption", "captions", "query", "ranking")
SEVERAL = ("images", "captions", "ranking")
"""The kinds that show a list."""
PART_KINDS = ("one", "several", "number", "text")
ANALYSES = {"preference": "limner.annotate.preference_results", "failures": "limner.annotate.failure_study"}
"""`StudyForm.results` -> the module with its `study_results`."""
Answer = Mapping[str, object]
"""An answer by part: a name, a list of names, a whole number, or words."""


@dataclass(frozen=True)
class ShownField:
    """One thing that is shown: its name in a question, its kind (one of `SHOWN_KINDS`), and the words beside it."""

    name: str
    kind: str
    caption: str = ""


@dataclass(frozen=True)
class AnswerOption:
    """One possible answer: the name that is stored, and its label and key on the page."""

    name: str
    label: str
    key: str = ""


@dataclass(frozen=True)
class AnswerPart:
    """One part of an answer.

    Args:
        name: Stored with the answer.
        kind: One of `PART_KINDS`.
        label: Words above it on the page.
        noun: What one option is called in messages.
        options: The options, in the order of the page.
        options_from: Or the thing of the question whose ids are the options.
        least: The smallest number of options of "several".
        alone: An option of "several" that excludes the others.
        low: The smallest number.
        high: The largest number.
        only_with: A part and those of its options that this part belongs to; it is empty for the others.
    """

    name: str
    kind: str
    label: str = ""
    noun: str = "choice"
    options: tuple[AnswerOption, ...] = ()
    options_from: str = ""
    least: int = 1
    alone: str = ""
    low: int = 1
    high: int = 10
    only_with: tuple[str, tuple[str, ...]] | None = None

    @property
    def numbers(self) -> range:
        """The numbers that may be chosen."""
        return range(self.low, self.high + 1)

    def check(self, value: object, options: Sequence[str]) -> object:
        """The value in the form that is stored; refused if it is none of the possible ones."""
        if self.kind == "one":
            if value not in options:
                raise UnknownName(self.noun, str(value)[:80], options)
            return value
        if self.kind == "several":
            return self._several(value, options)
        if self.kind == "text":
            return check_comment(value)
        if isinstance(value, bool) or not isinstance(value, int) or value not in self.numbers:
            raise LimnerError(
                f"{self.name} {str(value)[:20]!r}: expected a whole number from {self.low} to {self.high}"
            )
        return value

    def _several(self, value: object, options: Sequence[str]) -> list[str]:
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise LimnerError(f"{self.name} {value!r:.40}: expected a list of names")
        marked = list(dict.fromkeys(value))
        for name in marked:
            if name not in options:
                raise UnknownName(self.noun, str(name)[:80], options)
        if len(marked) < self.least:
            raise LimnerError(f"no {self.noun} is marked: expected some of {', '.join(options)}")
        if self.alone in marked and len(marked) > 1:
            conflicting = ", ".join(sorted(name for name in marked if name != self.alone))
            raise LimnerError(f"{self.alone!r} with {conflicting}: choose {self.alone!r} alone, or only the others")
        return [name for name in options if name in marked]


@dataclass(frozen=True)
class StudyForm:
    """The form of a study.

    Args:
        name: Its name: that of its file.
        question: The question that people answer.
        shown: What is shown, in the order of the page.
        parts: The parts of an answer.
        hint: A remark beside the progress.
        rules: The rules, one in each line.
        guideline: Version of the rules, stored with answers that become grades of pairs.
        beside: Whether the answer is beside what is shown, not below.
        identity: The values that identify a question in a file; by default all single things that are shown.
        sides: Two options and things that a file may name in either order.
        results: How the answers are analysed: one of `ANALYSES`, or by default each part on its own.
    """

    name: str
    question: str
    shown: tuple[ShownField, ...]
    parts: tuple[AnswerPart, ...]
    hint: str = ""
    rules: tuple[str, ...] = ()
    guideline: str = ""
    beside: bool = False
    identity: tuple[str, ...] = ()
    sides: tuple[str, ...] = ()
    results: str = ""

    @property
    def identified_by(self) -> tuple[str, ...]:
        """The names of the values that identify a question."""
        return self.identity or tuple(each.name for each in self.shown if each.kind not in SEVERAL)

    def part(self, name: str) -> AnswerPart:
        """A part by name."""
        parts = {part.name: part for part in self.parts}
        if name not in parts:
            raise UnknownName("part of the answer", name[:80], parts)
        return parts[name]

    def options(self, part: AnswerPart, content: Mapping[str, object]) -> list[str]:
        """The names of a part's options, for a question."""
        listed = content.get(part.options_from)
        return [str(key) for key in listed] if isinstance(listed, (list, tuple)) else [o.name for o in part.options]

    def check(self, answer: Answer, content: Mapping[str, object]) -> dict[str, object]:
        """An answer to a question in the form that is stored; refused if it does not fit the form."""
        for name in answer:
            self.part(str(name))
        checked: dict[str, object] = {}
        for part in self.parts:
            value = answer.get(part.name, () if part.kind == "several" else "" if part.kind == "text" else None)
            if part.only_with and value and str(checked[part.only_with[0]]) not in part.only_with[1]:
                raise LimnerError(f"{part.name} are only for {', '.join(part.only_with[1])}: leave them out")
            checked[part.name] = part.check(value, self.options(part, content))
        return checked

    def without_option(self, part: str, option: str) -> StudyForm:
        """The form without an option of a part."""
        left = tuple(each for each in self.part(part).options if each.name != option)
        parts = tuple(replace(each, options=left) if each.name == part else each for each in self.parts)
        return replace(self, parts=parts)

    def to_json(self) -> dict[str, object]:
        """The form as plain values."""
        return asdict(self)


def form_from_json(stored: Mapping[str, object]) -> StudyForm:
    """A form from `StudyForm.to_json`."""
    plain: dict[str, object] = {name: tuple(v) if isinstance(v, list) else v for name, v in stored.items()}
    plain["shown"] = tuple(ShownField(**each) for each in _rows(plain["shown"]))
    plain["parts"] = tuple(_part(each) for each in _rows(plain["parts"]))
    return StudyForm(**plain)  # type: ignore[arg-type]


def _part(row: Mapping[str, object]) -> AnswerPart:
    only = row.get("only_with")
    options = tuple(AnswerOption(**each) for each in _rows(row.get("options", ())))
    with_ = (str(only[0]), tuple(only[1])) if isinstance(only, (list, tuple)) else None
    return AnswerPart(**{**row, "options": options, "only_with": with_})  # type: ignore[arg-type]


def _rows(value: object) -> list[dict[str, str]]:
    return [dict(each) for each in value] if isinstance(value, (list, tuple)) else []
