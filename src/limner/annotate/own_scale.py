"""Own grades and reasons of a store, from a small TOML or JSON file.

Each grade counts as yes, weak yes, weak no or no; at most one each, and always with a yes and a no. So measures,
controls, agreement and designs work as with the built-in grades.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from limner.annotate.guideline import newest, revise
from limner.annotate.scale import COUNTS_AS, QUESTION, SCALE, Grade, Reason, Scale
from limner.annotate.store import Store
from limner.annotate.store.scales import keep_scale
from limner.core.errors import LimnerError
from limner.core.paths import parse_json, parse_toml, read_text
from limner.explain.failure_classes import ALTERNATIVE, CLASSES

RESERVED = {
    "r": "reasons", "z": "zoom", "s": "skip", "u": "undo", "h": "guideline", "k": "comment",
}  # fmt: skip
"""Letters that already mean something on the page."""
MOST_REASONS = 20
MOST_FILE = 50_000
_LABEL, _MEANING, _QUESTION, _NAME = 60, 300, 200, re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_VALUES = {words: value for value, words in COUNTS_AS.items()}
_TOP = ("question", "guideline", "grades", "reasons")
_GRADE = ("label", "counts_as", "key", "reasons", "meaning")
_REASON = ("label", "key", "name", "group", "failure")
_HINT = "see 'limner annotate scale STORE' for an example"


def set_scale(store: Store, scale: Scale, *, guideline: str = "") -> None:
    """Gives a store its own grades and reasons, and a guideline that names them as its newest version.

    Args:
        store: A store without answers.
        scale: The grades and reasons, e.g. from `read_scale`.
        guideline: The rules, one in each line; by default they are made from the grades' meanings.
    """
    keep_scale(store, scale)
    kept = [each for each in newest(store).examples if each.grade in scale.by_value]
    revise(store, guideline.strip() or default_guideline(scale), kept)


def default_guideline(scale: Scale) -> str:
    """The rules for a scale without its own guideline."""
    said = [f"{grade.label}: {grade.meaning}" for grade in scale.grades if grade.meaning]
    rest = "Judge what is there, not how well it is written. Zoom in before you say that something is missing."
    return "\n".join([f"Read the caption, look at the image, and answer: {scale.question}", *said, rest])


# --- files ------------------------------------------------------------------------------------------------------


def read_scale(path: str | Path) -> tuple[Scale, str]:
    """Reads grades and reasons from a .toml or .json file.

    Returns:
        The scale, and the text of the guideline (empty if the file has none).
    """
    return parse_scale(read_text(path, what="scale"), where=str(path), form=Path(path).suffix.lower().lstrip("."))


def parse_scale(text: str, *, where: str = "the scale", form: str = "toml") -> tuple[Scale, str]:
    """Reads grades and reasons from text; what the text leaves out is as in the built-in scale.

    Args:
        text: TOML or JSON.
        where: Its origin, for error messages.
        form: "toml" or "json".

    >>> made, _ = parse_scale('grades = [{label = "fits", counts_as = "yes"}, {label = "does not", counts_as = "no"}]')
    >>> print(*made.grades, sep=", ")
    2 fits, 1 does not
    """
    try:
        given = _table(_parsed(text, where, form), _TOP, "the file")
        question = _words(given, "question", _QUESTION) or QUESTION
        rules = given.get("guideline", "")
        if not isinstance(rules, str):
            raise LimnerError(f"guideline is {rules!r:.40}: expected text, one rule in each line")
        reasons = _reasons(given["reasons"]) if "reasons" in given else SCALE.reasons
        grades = _grades(given["grades"], bool(reasons)) if "grades" in given else _usual_grades(bool(reasons))
        _refuse_shared_keys(grades, reasons)
    except LimnerError as error:
        raise LimnerError(f"{where}: {error}; {_HINT}") from None
    return Scale(grades, reasons, question), rules


def _parsed(text: str, where: str, form: str) -> object:
    if form not in ("toml", "json"):
        raise LimnerError(f"a file ending in .{form}: expected .toml or .json")
    if len(text) > MOST_FILE:
        raise LimnerError(f"{len(text):,} characters: expected at most {MOST_FILE:,}")
    return parse_json(text, where="it") if form == "json" else parse_toml(text, where="it")


def _table(given: object, known: Sequence[str], what: str) -> Mapping[str, object]:
    if not isinstance(given, dict):
        raise LimnerError(f"{what} is {given!r:.40}: expected a table with {', '.join(known)}")
    unknown = [name for name in given if name not in known]
    if unknown:
        raise LimnerError(f"{what} has an unknown key {unknown[0]!r}: expected {', '.join(known)}")
    return given


def _rows(given: object, known: Sequence[str], what: str) -> list[Mapping[str, Any]]:
    if not isinstance(given, list):
        raise LimnerError(f"{what}s is {given!r:.40}: expected a list of tables")
    return [_table(each, known, f"{what} {number}") for number, each in enumerate(given, start=1)]


def _words(given: Mapping[str, object], name: str, most: int, *, needed: bool = False) -> str:
    text = given.get(name, "")
    if not isinstance(text, str) or len(text) > most or not text.isprintable() or (needed and not text.strip()):
        raise LimnerError(f"{name} {text!r:.80}: expected {1 if needed else 0} to {most} characters on one line")
    return text.strip()


def _key(given: Mapping[str, object], allowed: str, default: str = "") -> str:
    key = given.get("key", default)
    if not isinstance(key, str) or not re.fullmatch(allowed, key.lower()):
        expected = "one letter" if "0-9" not in allowed else "one letter or digit"
        raise LimnerError(f"key {key!r:.20} of {given['label']!r}: expected {expected}")
    if key.lower() in RESERVED:
        raise LimnerError(f"key {key!r} of {given['label']!r} already means {RESERVED[key.lower()]} on the page")
    return key.lower()


def _grades(given: object, reasoned: bool) -> tuple[Grade, ...]:
    rows = _rows(given, _GRADE, "grade")
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


def _reasons(given: object) -> tuple[Reason, ...]:
    rows = _rows(given, _REASON, "reason")
    if len(rows) > MOST_REASONS:
        raise LimnerError(f"{len(rows)} reasons: expected at most {MOST_REASONS}")
    made = tuple(map(_reason, rows))
    _refuse_repeated((each.name for each in made), "two reasons have the name {!r}: expected different ones")
    return made


def _reason(row: Mapping[str, object]) -> Reason:
    label = _words(row, "label", _LABEL, needed=True)
    name = row.get("name") or re.sub(r"[^a-z0-9]+", "-", label.lower())[:40].strip("-")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise LimnerError(f"name {name!r:.60} of {label!r}: give one of 1 to 40 small letters, digits and -")
    failure = row.get("failure", "")
    if failure not in ("", *CLASSES) or failure == ALTERNATIVE:
        known = ", ".join(each for each in CLASSES if each != ALTERNATIVE)
        raise LimnerError(f"failure {failure!r:.40} of {label!r}: expected one of {known}")
    return Reason(name, label, _key(row, "[a-z]"), _words(row, "group", _LABEL), failure)


def _refuse_repeated(values: Iterable[str], words: str) -> None:
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise LimnerError(words.format(value))
        seen.add(value)


def _refuse_shared_keys(grades: Iterable[Grade], reasons: Iterable[Reason]) -> None:
    used: dict[str, str] = {}
    for key, label in [*((each.key, each.label) for each in grades), *((each.key, each.label) for each in reasons)]:
        if key in used:
            raise LimnerError(f"{used[key]!r} and {label!r} have the same key {key!r}")
        used[key] = label


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
