"""Files of a study: its questions, and the answers to them, as csv; questions also as JSON lines."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from limner.annotate.form import SEVERAL, Answer, StudyForm
from limner.annotate.store import Store
from limner.annotate.store.people import annotator_ids
from limner.annotate.store.studies import Question, add_answers, questions, study_answers, study_named
from limner.core.errors import LimnerError
from limner.core.files import replacing
from limner.core.markup import guarded_row, unguarded
from limner.datasets.text_files import json_lines, table


def read_questions(path: str | Path, form: StudyForm) -> list[Question]:
    """Reads the questions of a form: a csv or JSON lines with a column for each thing that is shown.

    Several things are separated by `;` in a csv. Other columns are kept, and not shown.
    """
    lists = {each.name for each in form.shown if each.kind in SEVERAL} | {part.options_from for part in form.parts}
    needed = [*(each.name for each in form.shown), *filter(None, (part.options_from for part in form.parts))]
    new = []
    for at, row in _rows(Path(path)):
        missing = [name for name in needed if row.get(name) in (None, "", [])]
        if missing:
            raise LimnerError(f"{at}: no {missing[0]}; expected the columns {', '.join(needed)}")
        content = {name: _listed(row[name]) if name in lists else str(row[name]) for name in needed}
        new.append(Question(content, {name: value for name, value in row.items() if name not in content}))
    if not new:
        raise LimnerError(f"{path}: no question; expected a row for each, with the columns {', '.join(needed)}")
    return new


def _rows(source: Path) -> Iterator[tuple[object, Mapping[str, object]]]:
    if not source.is_file():
        raise LimnerError(f"no file {source}: expected a csv or jsonl with one question in each row")
    if source.suffix.lower() == ".jsonl":
        yield from json_lines(source)
        return
    for at, row in table(source, delimiter=","):
        yield at, {name: unguarded(cell) for name, cell in row.items()}


def _listed(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [k for k in str(value).split(";") if k]


def write_study_answers(store: Store, path: str | Path, name: str) -> int:
    """Writes the answers of a study as a csv: what identifies the question, the answer, who and how long."""
    form = study_named(store, name).form
    rows = [
        {
            **dict(zip(form.identified_by, each.question.identity(form), strict=True)),
            **{part: ";".join(value) if isinstance(value, list) else value for part, value in each.answer.items()},
            "annotator": each.annotator,
            "milliseconds": each.milliseconds,
        }
        for each in study_answers(store, name)
    ]
    with replacing(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns(form), lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        writer.writeheader()
        writer.writerows(guarded_row(row) for row in rows)
    return len(rows)


def columns(form: StudyForm) -> tuple[str, ...]:
    """The columns of a file of answers."""
    return (*form.identified_by, *(part.name for part in form.parts), "annotator", "milliseconds")


def read_study_answers(store: Store, path: str | Path, name: str) -> int:
    """Adds answers from a csv with the columns of `write_study_answers`, all or none; the time may be left out.

    Where a form has two sides, a row may name them in either order. Answers that are already stored are skipped.

    Returns:
        The number of new answers.
    """
    form, source = study_named(store, name).form, Path(path)
    if not source.is_file():
        raise LimnerError(f"no file {source}: expected a csv with the columns {', '.join(columns(form)[:-1])}")
    by_identity = {each.identity(form): each for each in questions(store, name)}
    rows = [
        _answer_of(at, {k: unguarded(v) for k, v in row.items()}, form, by_identity)
        for at, row in table(source, delimiter=",")
    ]
    people = annotator_ids(store, (annotator for _, annotator, _, _ in rows))
    return add_answers(
        store, name, [(number, people[annotator], answer, took) for number, annotator, answer, took in rows]
    )


def _answer_of(
    at: object, row: Mapping[str, str], form: StudyForm, by_identity: Mapping[tuple[str, ...], Question]
) -> tuple[int, str, Answer, int | None]:
    optional = ("milliseconds", *(part.name for part in form.parts if part.kind == "text" or not part.least))
    missing = [name for name in columns(form) if not row.get(name) and name not in optional]
    if missing:
        raise LimnerError(f"{at}: no {missing[0]}; expected {', '.join(columns(form)[:-1])}")
    identity = tuple(row[name] for name in form.identified_by)
    if identity not in by_identity and form.sides:
        row = _turned(row, form.sides, (part.name for part in form.parts))
    question = by_identity.get(tuple(row[name] for name in form.identified_by))
    if question is None:
        named = ", ".join(f"{name} {value!r}" for name, value in zip(form.identified_by, identity, strict=True))
        raise LimnerError(f"{at}: the study has no question with {named}")
    try:
        answer = form.check(
            {part.name: _value(part.kind, row.get(part.name, "")) for part in form.parts}, question.shown
        )
        took = int(row["milliseconds"]) if row.get("milliseconds") else None
    except (LimnerError, ValueError) as error:
        raise LimnerError(f"{at}: {error}") from error
    return question.id, row["annotator"], answer, took


def _turned(row: Mapping[str, str], sides: tuple[str, ...], parts: Iterable[str]) -> dict[str, str]:
    """A row with its two sides exchanged, in the columns and in the answers."""
    opposite = dict(zip(sides, reversed(sides), strict=True))
    turned = {name: row[opposite.get(name, name)] for name in row}
    return turned | {part: opposite.get(row[part], row[part]) for part in parts if part in row}


def _value(kind: str, cell: str) -> object:
    if kind == "number":
        return int(cell) if cell.isascii() and cell.isdigit() else cell
    return [name for name in cell.split(";") if name] if kind == "several" else cell
