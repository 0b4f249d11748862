"""Forms from files: those of limner (`forms/*.toml`), and your own as TOML or JSON.

A file with `grades` and `reasons` is the form of pairs: each grade counts as yes, weak yes, weak no or no; at most one
each, and always with a yes and a no. So measures, controls, agreement and designs work as with the built-in grades.
A file with `shown` and `parts` is any other form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from limner.annotate.form import (
    ANALYSES,
    PART_KINDS,
    SEVERAL,
    SHOWN_KINDS,
    AnswerOption,
    AnswerPart,
    ShownField,
    StudyForm,
)
from limner.annotate.scale import COUNTS_AS, FORMS, SCALE, Grade, Reason, Scale
from limner.core.errors import LimnerError
from limner.core.paths import parse_json, parse_toml, read_text
from limner.explain.failure_classes import ALTERNATIVE, CLASSES

RESERVED = {
    "r": "reasons", "z": "zoom", "s": "skip", "u": "undo", "h": "guideline", "k": "comment",
}  # fmt: skip
"""Letters that already mean something on the page of pairs."""
MOST_OPTIONS = 20
MOST_FILE = 50_000
_LABEL, _MEANING, _QUESTION, _NAME = 60, 300, 200, re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_PART_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_VALUES = {words: value for value, words in COUNTS_AS.items()}
_TOP = ("question", "guideline", "grades", "reasons")
_GRADE = ("label", "counts_as", "key", "reasons", "meaning")
_REASON = ("label", "key", "name", "group", "failure")
_FORM = ("question", "shown", "parts", "hint", "rules", "guideline", "beside", "identity", "sides", "results")
_SHOWN = ("name", "kind", "caption")
_PART = ("name", "kind", "label", "noun", "options", "options_from", "least", "alone", "low", "high")
_OPTION = ("name", "label", "key")
_HINT = "see 'limner annotate study form' for examples"


# --- any form -----------------------------------------------------------------------------------------------------


def built_in_forms() -> tuple[str, ...]:
    """The names of limner's forms."""
    return tuple(sorted(path.stem for path in FORMS.glob("*.toml")))


def form_text(name: str) -> str:
    """The file of a form of limner, or your own one, as text."""
    path = FORMS / f"{name}.toml" if name in built_in_forms() else Path(name)
    if path.suffix.lower() not in (".toml", ".json"):
        raise LimnerError(f"form {name[:80]!r}: expected {', '.join(built_in_forms())}, or a .toml or .json file")
    return read_text(path, what="form")


def read_form(name: str) -> StudyForm:
    """A form of limner by name, or one from your own .toml or .json file."""
    path = Path(name)
    form = parse_form(form_text(name), source=name, form=path.suffix.lower().lstrip(".") or "toml")
    if form.results and name not in built_in_forms():
        _refuse_other_parts(form, read_form(form.results), name)
    return replace(form, name=path.stem)


def _refuse_other_parts(form: StudyForm, usual: StudyForm, source: str) -> None:
    """Refuses a form that its analysis does not fit: words and keys may differ from limner's form, but nothing else."""
    if _without_words(form) != _without_words(usual):
        raise LimnerError(
            f"{source}: results = {form.results!r} needs the names, kinds and options of the form {usual.name!r}: "
            "change its words alone, or leave results out"
        )


def _without_words(form: StudyForm) -> StudyForm:
    shown = tuple(replace(each, caption="") for each in form.shown)
    parts = tuple(
        replace(part, label="", noun="", options=tuple(AnswerOption(each.name, "") for each in part.options))
        for part in form.parts
    )
    return StudyForm("", "", shown, parts, identity=form.identity, sides=form.sides)


def parse_form(text: str, *, source: str = "the form", form: str = "toml") -> StudyForm:
    """A form from text.

    >>> study_form = parse_form('''
    ... question = "Is the image sharp?"
    ... shown = [{name = "image", kind = "image"}]
    ... parts = [{name = "sharp", kind = "one", options = [{name = "yes", label = "Yes"}, {name = "no", label = "No"}]}]
    ... ''')
    >>> study_form.check({"sharp": "yes"}, {"image": "1"})
    {'sharp': 'yes'}
    """
    try:
        parsed = _parsed(text, source, form)
        if isinstance(parsed, dict) and "parts" not in parsed:
            return form_of_scale(parse_scale(text, source=source, form=form)[0])
        row = _table(parsed, _FORM, "the file")
        study_form = StudyForm(
            source, _words(row, "question", _QUESTION, needed=True),
            tuple(map(_shown_field, _rows(row, "shown", _SHOWN))),
            tuple(map(_part, _rows(row, "parts", _PART))), _words(row, "hint", _MEANING),
            _names(row, "rules", _MEANING),
            _words(row, "guideline", _LABEL), row.get("beside", False) is True, _names(row, "identity", _LABEL),
            _names(row, "sides", _LABEL), _choice(row, "results", ("", *ANALYSES)),
        )  # fmt: skip
        _refuse_unfit(study_form)
    except LimnerError as error:
        raise LimnerError(f"{source}: {error}; {_HINT}" if _HINT not in str(error) else str(error)) from None
    return study_form


def form_of_scale(scale: Scale) -> StudyForm:
    """The form of pairs with the grades and reasons of a scale."""
    grades = tuple(AnswerOption(str(value), grade.label, grade.key) for value, grade in scale.by_value.items())
    parts = [AnswerPart("grade", "one", noun="grade", options=grades)]
    if scale.reasons:
        reasons = tuple(AnswerOption(each.name, each.label, each.key) for each in scale.reasons)
        grade_condition = ("grade", tuple(str(grade.value) for grade in scale.reasoned))
        parts.append(AnswerPart("reasons", "several", "Reasons", "reason", reasons, least=0, only_with=grade_condition))
    fields = (ShownField("image", "image"), ShownField("caption", "caption"))
    return StudyForm("pairs", scale.question, fields, tuple(parts))


def _shown_field(row: Mapping[str, object]) -> ShownField:
    return ShownField(_name(row), _choice(row, "kind", SHOWN_KINDS), _words(row, "caption", _QUESTION))


def _part(row: Mapping[str, object]) -> AnswerPart:
    name, kind = _name(row), _choice(row, "kind", PART_KINDS)
    options = tuple(_option(each) for each in _rows(row, "options", _OPTION))
    if len(options) > MOST_OPTIONS:
        raise LimnerError(f"{name!r} has {len(options)} options: expected at most {MOST_OPTIONS}")
    source = _words(row, "options_from", _LABEL)
    if (kind in ("one", "several")) != bool(options or source):
        raise LimnerError(f"part {name!r} is {kind!r}: expected options for one and several, and none for the others")
    alone = _words(row, "alone", _LABEL)
    if alone and alone not in [each.name for each in options]:
        raise LimnerError(f"alone {alone!r} of {name!r}: expected one of its options")
    _refuse_repeated((each.name for each in options), "two options have the name {!r}: expected different ones")
    min_marked, low, high = _number(row, "least", 1), _number(row, "low", 1), _number(row, "high", 10)
    if not 0 <= low < high <= 100:
        raise LimnerError(f"{name!r} from {low} to {high}: expected 0 to 100, the smaller number first")
    label, noun = _words(row, "label", _QUESTION), _words(row, "noun", _LABEL) or "choice"
    return AnswerPart(name, kind, label, noun, options, source, min_marked, alone, low, high)


def _option(row: Mapping[str, object]) -> AnswerOption:
    label, key = _words(row, "label", _QUESTION, needed=True), row.get("key", "")
    if not isinstance(key, str) or not re.fullmatch("[a-z0-9]?", key):
        raise LimnerError(f"key {key!r:.20} of {label!r}: expected one small letter or digit")
    return AnswerOption(_stored_name(row.get("name"), label), label, key)


def _stored_name(name: object, label: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise LimnerError(f"name {name!r:.60} of {label!r}: give one of 1 to 40 small letters, digits and -")
    return name


def _refuse_unfit(form: StudyForm) -> None:
    """Refuses a form whose parts do not fit together."""
    if not form.shown or not form.parts:
        raise LimnerError("expected at least one thing that is shown, and one part of an answer")
    names = [*(each.name for each in form.shown), *(part.name for part in form.parts)]
    _refuse_repeated((*names, "annotator", "milliseconds"), "the name {!r} is used twice: expected different ones")
    lists = [each.name for each in form.shown if each.kind in SEVERAL]
    for part in form.parts:
        if part.options_from and part.options_from in names and part.options_from not in lists:
            raise LimnerError(f"options_from {part.options_from!r}: expected the name of a list")
    _refuse_shared_keys(option for part in form.parts for option in part.options if option.key)


# --- grades and reasons -------------------------------------------------------------------------------------------


def read_scale(path: str | Path) -> tuple[Scale, str]:
    """Grades and reasons: those of a form of limner ("pairs", "experts"), or from a .toml or .json file.

    Returns:
        The scale, and the text of the guideline (empty if the file has none).
    """
    source = str(path)
    return parse_scale(form_text(source), source=source, form=Path(path).suffix.lower().lstrip(".") or "toml")


def parse_scale(text: str, *, source: str = "the scale", form: str = "toml") -> tuple[Scale, str]:
    """Reads grades and reasons from text; what the text leaves out is as in the built-in scale.

    Args:
        text: TOML or JSON.
        source: Its origin, for error messages.
        form: "toml" or "json".

    >>> made, _ = parse_scale('grades = [{label = "fits", counts_as = "yes"}, {label = "does not", counts_as = "no"}]')
    >>> print(*made.grades, sep=", ")
    2 fits, 1 does not
    """
    try:
        table = _table(_parsed(text, source, form), _TOP, "the file")
        question = _words(table, "question", _QUESTION) or SCALE.question
        rules = table.get("guideline", "")
        if not isinstance(rules, str):
            raise LimnerError(f"guideline is {rules!r:.40}: expected text, one rule in each line")
        reasons = _reasons(table) if "reasons" in table else SCALE.reasons
        grades = _grades(table, bool(reasons)) if "grades" in table else _usual_grades(bool(reasons))
        _refuse_shared_keys([*grades, *reasons])
    except LimnerError as error:
        raise LimnerError(f"{source}: {error}; {_HINT}") from None
    return Scale(grades, reasons, question), rules


def _parsed(text: str, source: str, form: str) -> object:
    if form not in ("toml", "json"):
        raise LimnerError(f"a file ending in .{form}: expected .toml or .json")
    if len(text) > MOST_FILE:
        raise LimnerError(f"{len(text):,} characters: expected at most {MOST_FILE:,}")
    return parse_json(text, where="it") if form == "json" else parse_toml(text, where="it")


def _table(value: object, allowed: Sequence[str], subject: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise LimnerError(f"{subject} is {value!r:.40}: expected a table with {', '.join(allowed)}")
    unknown = [name for name in value if name not in allowed]
    if unknown:
        raise LimnerError(f"{subject} has an unknown key {unknown[0]!r}: expected {', '.join(allowed)}")
    return value


def _rows(table: Mapping[str, object], name: str, columns: Sequence[str]) -> list[Mapping[str, Any]]:
    """The tables of a list; an empty list if there is none."""
    listed = table.get(name, [])
    if not isinstance(listed, list):
        raise LimnerError(f"{name} is {listed!r:.40}: expected a list of tables")
    one = name.removesuffix("s")
    return [_table(each, columns, f"{one} {number}") for number, each in enumerate(listed, start=1)]


def _names(table: Mapping[str, object], name: str, max_length: int) -> tuple[str, ...]:
    """A list of short texts."""
    listed = table.get(name, [])
    if not isinstance(listed, list):
        raise LimnerError(f"{name} is {listed!r:.40}: expected a list of texts")
    return tuple(_words({name: each}, name, max_length, needed=True) for each in listed)


def _name(table: Mapping[str, object]) -> str:
    name = table.get("name")
    if not isinstance(name, str) or not _PART_NAME.fullmatch(name):
        raise LimnerError(f"name {name!r:.60}: expected 1 to 40 small letters, digits and _, a letter first")
    return name


def _choice(table: Mapping[str, object], name: str, choices: Sequence[str]) -> str:
    value = table.get(name, "")
    if value not in choices:
        raise LimnerError(f"{name} {value!r:.40}: expected {', '.join(filter(None, choices))}")
    return str(value)


def _number(table: Mapping[str, object], name: str, default: int) -> int:
    value = table.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise LimnerError(f"{name} {value!r:.40}: expected a whole number")
    return value


def _words(table: Mapping[str, object], name: str, max_length: int, *, needed: bool = False) -> str:
    text = table.get(name, "")
    if not isinstance(text, str) or len(text) > max_length or not text.isprintable() or (needed and not text.strip()):
        raise LimnerError(f"{name} {text!r:.80}: expected {1 if needed else 0} to {max_length} characters on one line")
    return text.strip()


def _key(table: Mapping[str, object], allowed: str, default: str = "") -> str:
    key = table.get("key", default)
    if not isinstance(key, str) or not re.fullmatch(allowed, key.lower()):
        expected = "one letter" if "0-9" not in allowed else "one letter or digit"
        raise LimnerError(f"key {key!r:.20} of {table['label']!r}: expected {expected}")
    if key.lower() in RESERVED:
        raise LimnerError(f"key {key!r} of {table['label']!r} already means {RESERVED[key.lower()]} on the page")
    return key.lower()


def _grades(table: Mapping[str, object], reasoned: bool) -> tuple[Grade, ...]:
    rows = _rows(table, "grades", _GRADE)
    for row in rows:
        _words(row, "label", _LABEL, needed=True)
        if row.get("counts_as") not in list(_VALUES):
            raise LimnerError(
                f"grade {row['label']!r} has counts_as = {row.get('counts_as')!r:.40}: expected one of "
                f"{', '.join(_VALUES)}"
            )
        if not isinstance(row.get("reasons", False), bool):
            raise LimnerError(f"grade {row['label']!r} has reasons = {row['reasons']!r:.40}: expected true or false")
    rows = sorted(rows, key=lambda row: -_VALUES[row["counts_as"]])
    _refuse_repeated((row["counts_as"] for row in rows), "two grades count as {}: expected one each")
    _refuse_repeated((row["label"] for row in rows), "two grades have the label {!r}: expected different ones")
    if len(rows) < 2 or (rows[0]["counts_as"], rows[-1]["counts_as"]) != ("yes", "no"):
        raise LimnerError("grades: expected one that counts as yes and one that counts as no")
    return tuple(_grade(row, str(len(rows) - place), reasoned) for place, row in enumerate(rows))


def _usual_grades(reasoned: bool) -> tuple[Grade, ...]:
    return tuple(replace(grade, reasons=grade.reasons and reasoned) for grade in SCALE.grades)


def _grade(row: Mapping[str, Any], key: str, reasoned: bool) -> Grade:
    value = _VALUES[row["counts_as"]]
    asks = row.get("reasons", value in (2, 3) and reasoned)
    if asks and not reasoned:
        raise LimnerError(f"grade {row['label']!r} asks for reasons, but there are none")
    return Grade(value, row["label"].strip(), _key(row, "[a-z0-9]", key), asks, _words(row, "meaning", _MEANING))


def _reasons(table: Mapping[str, object]) -> tuple[Reason, ...]:
    rows = _rows(table, "reasons", _REASON)
    if len(rows) > MOST_OPTIONS:
        raise LimnerError(f"{len(rows)} reasons: expected at most {MOST_OPTIONS}")
    reasons = tuple(map(_reason, rows))
    _refuse_repeated((each.name for each in reasons), "two reasons have the name {!r}: expected different ones")
    return reasons


def _reason(row: Mapping[str, object]) -> Reason:
    label = _words(row, "label", _LABEL, needed=True)
    name = row.get("name") or re.sub(r"[^a-z0-9]+", "-", label.lower())[:40].strip("-")
    failure = row.get("failure", "")
    if failure not in ("", *CLASSES) or failure == ALTERNATIVE:
        allowed = ", ".join(each for each in CLASSES if each != ALTERNATIVE)
        raise LimnerError(f"failure {failure!r:.40} of {label!r}: expected one of {allowed}")
    return Reason(_stored_name(name, label), label, _key(row, "[a-z]"), _words(row, "group", _LABEL), failure)


def _refuse_repeated(values: Iterable[str], words: str) -> None:
    previous: set[str] = set()
    for value in values:
        if value in previous:
            raise LimnerError(words.format(value))
        previous.add(value)


def _refuse_shared_keys(options: Iterable[AnswerOption | Grade | Reason]) -> None:
    used: dict[str, str] = {}
    for each in options:
        if each.key in used:
            raise LimnerError(f"{used[each.key]!r} and {each.label!r} have the same key {each.key!r}")
        used[each.key] = each.label


def as_toml(scale: Scale, *, guideline: str = "") -> str:
    """The scale as a TOML file that `read_scale` reads again."""
    lines = [f"question = {_quoted(scale.question)}"]
    rules = [_quoted(line)[1:-1] for line in guideline.strip().splitlines()]
    lines += ['guideline = """', *rules, '"""'] if rules else []
    lines += [] if scale.reasons else ["reasons = []"]
    for grade in scale.grades:
        lines += ["", "[[grades]]", f"label = {_quoted(grade.label)}", f'counts_as = "{COUNTS_AS[grade.value]}"']
        lines += [f'key = "{grade.key}"', f"reasons = {str(grade.reasons).lower()}"]
        lines += [f"meaning = {_quoted(grade.meaning)}"] * bool(grade.meaning)
    for reason in scale.reasons:
        lines += ["", "[[reasons]]", f"label = {_quoted(reason.label)}", f'key = "{reason.key}"']
        lines += [f'name = "{reason.name}"', *([f"group = {_quoted(reason.group)}"] * bool(reason.group))]
        lines += [f'failure = "{reason.failure}"'] * bool(reason.failure)
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
