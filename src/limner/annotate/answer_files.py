"""File formats of judgements: csv, jsonl, qrels, ECCV Caption's and Flickr8k's crowd format, Label Studio, Argilla.

csv, jsonl and the JSON of Label Studio and Argilla contain answers and can be imported into a store. The others contain
one label per pair. All are image -> text; every reader returns `Judgements`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path

from limner.annotate.labelling_tools import read_tasks
from limner.annotate.merge import Label, majority, to_judgements
from limner.annotate.scale import SCALE, ImportedAnswer, Scale, check_comment, relevant
from limner.annotate.store.answers import Answer, by_pair
from limner.annotate.store.contents import Key
from limner.annotate.store.schema import Row
from limner.core.errors import LimnerError, UnknownName
from limner.core.files import replacing, replacing_folder, write_text
from limner.core.judgements import Judgements
from limner.core.markup import guarded_row, unguarded
from limner.datasets.coco_judgements import read_eccv
from limner.datasets.flickr import crowd_votes
from limner.datasets.text_files import filled_lines, json_lines, table
from limner.datasets.trec import read_qrels, write_qrels

ENDINGS = {
    ".csv": "csv", ".jsonl": "jsonl", ".qrels": "qrels", ".txt": "crowd", ".json": "label-studio", "": "eccv",
}  # fmt: skip
FORMS = ("csv", "jsonl", "qrels", "eccv", "crowd", "label-studio", "argilla")
COLUMNS = (*(field.name for field in fields(Answer)), "label")
SHEET = ("image", "caption", "text", "grade", "reasons", "comment", "annotator")
"""The columns of pairs to be filled in with a spreadsheet and imported again."""
ECCV_FILES = ("eccv_image_to_caption.json", "eccv_caption_to_image.json")


def form_of(path: str | Path, form: str | None = None) -> str:
    """The given format, else the one of the file ending; a folder means the ECCV Caption format."""
    chosen = form or ENDINGS.get(Path(path).suffix.lower())
    if chosen is None:
        raise LimnerError(f"{path}: cannot tell the format from its ending; name one of {', '.join(FORMS)}")
    if chosen not in FORMS:
        raise UnknownName("form", chosen, FORMS)
    return chosen


# --- writing ----------------------------------------------------------------------------------------------------


def write_answers(answers: Sequence[Answer], path: str | Path, *, form: str | None = None, scale: Scale = SCALE) -> int:
    """Writes answers as csv or jsonl, one per row; several reasons are separated by `;` in a csv.

    The column `label` has the words of the grade in the scale.
    """
    rows = [{**asdict(answer), "label": scale.label(answer.grade)} for answer in answers]
    if form_of(path, form) == "jsonl":
        write_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        return len(rows)
    with replacing(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        writer.writeheader()
        writer.writerows(guarded_row({**row, "reasons": ";".join(row["reasons"])}) for row in rows)
    return len(rows)


def write_eccv(judgements: Judgements, folder: str | Path) -> int:
    """Writes the positives for ECCV Caption: two JSON files, `{query id: [candidate ids]}`, one per direction."""
    with replacing_folder(folder, head=ECCV_FILES[0], own=ECCV_FILES) as draft:
        for name, side in zip(ECCV_FILES, (judgements, judgements.T), strict=True):
            positives: dict[str, list[int | str]] = {}
            for query, candidate, grade in side:
                if grade > 0:
                    positives.setdefault(query, []).append(_numbered(candidate))
            write_text(draft / name, json.dumps(positives))
    return len(judgements)


def _numbered(key: str) -> int | str:
    """The id as a number, as for COCO; an id that is not a plain number stays a string."""
    return int(key) if key.isascii() and key.isdigit() and str(int(key)) == key else key


def write_crowd(answers: Sequence[Answer], path: str | Path) -> int:
    """Writes Flickr8k's crowd format: image, caption, share of yes, yes, no; yes and weak yes both count as yes."""
    votes = {key: [relevant(answer.grade) for answer in listed] for key, listed in by_pair(answers).items()}
    lines = [f"{i}\t{c}\t{sum(v) / len(v)!r}\t{sum(v)}\t{len(v) - sum(v)}\n" for (i, c), v in votes.items()]
    write_text(path, "".join(lines))
    return len(lines)


def write(
    answers: Sequence[Answer],
    labels: Callable[[], Sequence[Label]],
    path: str | Path,
    *,
    form: str | None = None,
    scale: Scale = SCALE,
) -> int:
    """Writes answers (csv, jsonl, crowd) or labels (qrels, eccv) in the requested format; returns the number of rows.

    Args:
        answers: The answers.
        labels: A function that returns the labels, called if the format needs them.
        path: A file, or a folder for the ECCV Caption format.
        form: The format; by default from the file ending.
        scale: The scale of the answers.
    """
    chosen = form_of(path, form)
    if chosen in ("csv", "jsonl"):
        return write_answers(answers, path, form=chosen, scale=scale)
    if chosen == "crowd":
        return write_crowd(answers, path)
    judgements = to_judgements(labels())
    if chosen == "eccv":
        return write_eccv(judgements, path)
    with replacing(path) as draft:
        write_qrels(judgements, draft)
    return len(judgements.grades)


def write_sheet(pairs: Iterable[tuple[str, str]], texts: Mapping[str, str], path: str | Path) -> int:
    """Writes a row for every pair, with empty columns for the answer; returns how many there are."""
    rows = [{"image": image, "caption": caption, "text": texts[caption]} for image, caption in dict.fromkeys(pairs)]
    if not rows:
        raise LimnerError("every pair has its answers: nothing to write")
    with replacing(path) as draft, draft.open("w", encoding="utf-8-sig", newline="") as file:  # as spreadsheets expect
        writer = csv.DictWriter(file, SHEET, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(guarded_row(row) for row in rows)
    return len(rows)


# --- reading ----------------------------------------------------------------------------------------------------


def read_answers(path: str | Path, *, form: str | None = None, scale: Scale | None = SCALE) -> list[ImportedAnswer]:
    """Reads answers from a csv or jsonl with at least image, caption and grade; other columns are optional.

    A grade is a number from 1 to 4, or its words in the scale; rows without one are left out, as are controls (a column
    `role` other than "real"). An export of Label Studio or Argilla is read too; `read_tasks` has options for it.

    Args:
        path: The file.
        form: The format; by default from the file ending.
        scale: The scale that the answers must fit; None accepts every grade of the built-in scale and all reasons.
    """
    return read_filled(path, form=form, scale=scale)[0]


def read_filled(
    path: str | Path, *, form: str | None = None, scale: Scale | None = SCALE, annotator: str = "unknown"
) -> tuple[list[ImportedAnswer], tuple[str, ...]]:
    """Reads answers like `read_answers`, and says what was left out.

    Args:
        path: The file.
        form: The format; by default from the file ending.
        scale: As for `read_answers`.
        annotator: Who answered, in rows that do not say so.

    Returns:
        The answers, and what was left out, one sentence each.
    """
    chosen = form_of(path, form)
    if chosen in ("label-studio", "argilla"):
        return read_tasks(path, scale=scale or SCALE)
    if chosen not in ("csv", "jsonl"):
        raise LimnerError(
            f"{path}: the format {chosen} contains labels, not answers; expected csv, jsonl, label-studio or argilla"
        )
    source = Path(path)
    if not source.is_file():
        raise LimnerError(f"no file {source}: expected a {chosen} file of answers")
    rows = [
        (line, row)
        for line, row in (_csv_rows(source) if chosen == "csv" else _json_rows(source))
        if row.get("role") in (None, "", "real")
    ]
    filled = [(line, row) for line, row in rows if "grade" not in row or row["grade"] not in (None, "")]
    if rows and not filled:
        raise LimnerError(f"{source}: none of {len(rows):,} rows has a grade: fill in the column grade")
    unfilled = len(rows) - len(filled)
    left_out = (f"{unfilled:,} rows without a grade left out",) if unfilled else ()
    return [_imported_answer(row, source, line, scale, annotator) for line, row in filled], left_out


def _csv_rows(source: Path) -> Iterator[tuple[int, Row]]:
    _, head = next(filled_lines(source), (0, ""))
    delimiter = ";" if ";" in head and "," not in head else ","  # spreadsheets of some languages write semicolons
    for at, cells in table(source, delimiter=delimiter):
        row = {name: unguarded(cell) for name, cell in cells.items()}
        yield at.line or 0, {**row, "reasons": [r for r in (row.get("reasons") or "").split(";") if r]}


def _json_rows(source: Path) -> Iterator[tuple[int, Row]]:
    return ((at.line or 0, row) for at, row in json_lines(source))


def _imported_answer(row: Row, source: Path, line: int, scale: Scale | None, annotator: str) -> ImportedAnswer:
    missing = [name for name in ("image", "caption", "grade") if row.get(name) in (None, "")]
    if missing:
        raise LimnerError(f"{source}, line {line}: no {missing[0]}; expected image, caption, grade, and annotator")
    try:
        grade = sheet_grade(row["grade"], scale or SCALE)
        reasons = scale.check_reasons(row.get("reasons") or (), grade) if scale else ()
        took = row.get("milliseconds")
        milliseconds = None if took in (None, "") else int(float(str(took)))
        comment = check_comment(row.get("comment") or "")
    except (ValueError, TypeError, OverflowError) as error:
        raise LimnerError(f"{source}, line {line}: {error}") from error
    person = str(row.get("annotator") or annotator)
    return ImportedAnswer(person, str(row["image"]), str(row["caption"]), grade, reasons, milliseconds, comment)


def sheet_grade(cell: object, scale: Scale) -> int:
    """The grade in a cell: its value, or its words in the scale.

    >>> from limner.annotate.scale import SCALE
    >>> sheet_grade("4.0", SCALE), sheet_grade("Mostly no", SCALE)
    (4, 2)
    """
    text = str(cell).strip()
    words = {grade.label.casefold(): grade.value for grade in scale.grades}
    if text.casefold() in words:
        return words[text.casefold()]
    try:
        number = float(text)
    except ValueError:
        number = 0.5
    return scale.check_grade(int(number) if number.is_integer() else text)


def read_judgements(path: str | Path, *, form: str | None = None) -> Judgements:
    """Reads any of the formats as judgements, image -> text.

    Answers are aggregated by majority; the crowd format gives the share of yes as the grade; for ECCV Caption, the
    union of both directions is used.
    """
    chosen = form_of(path, form)
    name = Path(path).stem
    if chosen == "qrels":
        return read_qrels(path, name=name)
    if chosen == "eccv":
        forward, backward = read_eccv(path)
        return (forward | backward.T).with_name(name)
    if chosen == "crowd":
        raw = crowd_votes(path)
        shares = (raw.values[:, 0] / raw.values.sum(axis=1)).tolist()
        return Judgements.from_pairs(zip(raw.images, raw.captions, shares, strict=True), name=name)
    return to_judgements(_majorities(read_answers(path, form=chosen, scale=None)), name=name)


def _majorities(answers: Iterable[ImportedAnswer]) -> list[Label]:
    grades: dict[Key, list[int]] = {}
    for each in answers:
        grades.setdefault((each.image, each.caption), []).append(each.grade)
    return [Label(*key, *majority(pair_grades), len(pair_grades)) for key, pair_grades in grades.items()]
