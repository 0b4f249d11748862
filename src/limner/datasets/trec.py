"""Qrels: judgements as lines of `query 0 candidate grade`, the format of TREC, and in the forms of other programs.

Those are tables and JSON files of pairs: a query, a candidate and a number, as other programs store them.
A table is csv, tsv, jsonl or parquet with a header, such as the qrels of BEIR and MTEB (query-id, corpus-id, score),
ir_datasets (query_id, doc_id, relevance) and ranx (q_id, doc_id, score).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.files import replacing
from limner.core.judgements import Judgements
from limner.datasets.text_files import (
    At,
    JsonObject,
    existing,
    filled_lines,
    json_file,
    json_lines,
    number,
    refuse,
    split_lines,
    table,
)

COLUMNS = {
    "query": ("query", "query_id", "query-id", "q_id", "qid"),
    "candidate": ("candidate", "candidate_id", "corpus-id", "corpus_id", "doc_id", "docno", "docid"),
    "number": ("grade", "relevance", "rel", "score"),
}
"""The names of columns in tables of runs and judgements, in limner and other programs."""
_DELIMITERS = ("\t", ",", ";")
_FIRST_BYTES = 4096


class PairRow(NamedTuple):
    """A row of a table: where it is, its ids, and its grade or score; 1 without one."""

    at: At
    query: str
    candidate: str
    number: float


def has_columns(names: Iterable[str]) -> bool:
    """Whether columns of these names are a table of queries and candidates.

    >>> has_columns(["query-id", "corpus-id", "score"]), has_columns(["image", "caption"])
    (True, False)
    """
    listed = set(names)
    return all(listed & set(COLUMNS[role]) for role in ("query", "candidate"))


def cell(row: Mapping[str, object], role: str) -> object:
    """The value of a row in the column of a role: "query", "candidate" or "number"; None if there is no such column."""
    return next((row[name] for name in COLUMNS[role] if name in row), None)


def is_pair_file(path: str | Path) -> bool:
    """Whether a file is a table of pairs, or a JSON object {query: {candidate: number}}, by its content."""
    file = Path(path)
    kind = _ending(file)
    if not file.is_file():
        return False
    if kind == ".parquet":
        from limner.core.arrow_tables import parquet_columns

        return has_columns(parquet_columns(file))
    if kind == ".json":
        return any(map(_is_graded, islice(json_file(file).values(), 1)))
    if kind in (".jsonl", ".ndjson"):
        return has_columns(next((row for _, row in json_lines(file)), {}))
    return _delimiter(file) is not None


def _is_graded(row: object) -> bool:
    return isinstance(row, Mapping) and bool(row) and all(isinstance(grade, (int, float)) for grade in row.values())


def is_table(path: str | Path) -> bool:
    """Whether a file is read by `pair_rows`: a table by its ending, or by the names in its first line."""
    return _ending(Path(path)) in (".parquet", ".jsonl", ".ndjson") or _delimiter(Path(path)) is not None


def _ending(file: Path) -> str:
    return Path(file.stem).suffix.lower() if file.suffix.lower() == ".gz" else file.suffix.lower()


def _delimiter(file: Path) -> str | None:
    """The separator of a table whose first line names columns of queries and candidates."""
    _, head = next(filled_lines(file), (0, ""))
    head = head[:_FIRST_BYTES]
    return next((d for d in _DELIMITERS if has_columns(name.strip().strip('"') for name in head.split(d))), None)


def pair_rows(path: str | Path, *, what: str) -> Iterator[PairRow]:
    """The rows of a table of pairs.

    Args:
        path: A csv, tsv, jsonl or parquet file, with any of the names in `COLUMNS`; csv, tsv and jsonl may be gzipped.
        what: What the number is, for messages: "grade" or "score".
    """
    file = existing(path, what="table")
    for at, row in _rows(file):
        query, candidate, value = (cell(row, role) for role in COLUMNS)
        if query is None or candidate is None:
            refuse(at, f"columns {shown(row, most=8)}: expected query and candidate, or query-id and corpus-id")
        yield PairRow(at, str(query), str(candidate), 1.0 if value is None else number(value, at, what=what))


def _rows(file: Path) -> Iterator[tuple[At, JsonObject]]:
    kind = _ending(file)
    if kind == ".parquet":
        yield from _parquet_rows(file)
    elif kind in (".jsonl", ".ndjson"):
        yield from json_lines(file)
    else:
        delimiter = _delimiter(file) or _DELIMITERS[0]
        yield from table(file, delimiter=delimiter, quoted=delimiter != "\t")


def _parquet_rows(file: Path) -> Iterator[tuple[At, JsonObject]]:
    from limner.core.arrow_tables import parquet_batches
    from limner.core.paths import damage_told

    place = 0
    with damage_told(file, what="Parquet file"):
        for batch in parquet_batches(file, columns=[name for names in COLUMNS.values() for name in names]):
            for row in batch.to_pylist():
                place += 1
                yield At(file, place), row


_DIRECTIONS = ("i2t", "t2i")


def read_qrels(path: str | Path, *, name: str = "pairs", negative: str = "refuse") -> Judgements:
    r"""Reads judgements from a qrels file. Grades may be decimal; the second column is ignored.

    Tables with a header are read too: tsv, csv, jsonl or parquet with the columns of BEIR and MTEB (query-id,
    corpus-id, score), ir_datasets or ranx; and JSON, {query: {candidate: grade}} or {query: [relevant candidates]}.

    Args:
        path: The file; text files gzipped or not.
        name: Name of the judgements in reports.
        negative: What to do with negative grades, which mark spam in some TREC tracks: "refuse", or "zero" for grade 0.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "pairs.qrels")
    ...     _ = file.write_text("dog.jpg 0 dog.jpg#0 1\ndog.jpg 0 cat.jpg#0 0\n")
    ...     read_qrels(file)
    Judgements('pairs': 1 relevant pairs, 1 queries x 2 candidates)
    """
    if negative not in ("refuse", "zero"):
        raise UnknownName("choice for negative grades", negative, ("refuse", "zero"))
    grades: dict[tuple[str, str], float] = {}
    for at, query, candidate, grade in _graded_pairs(existing(path, what="qrels file")):
        if (query, candidate) in grades:
            refuse(at, f"query {query!r} and candidate {candidate!r} are judged a second time")
        if grade < 0 and negative == "refuse":
            refuse(at, f"grade {grade:g} is negative; pass negative='zero' to treat it as not relevant")
        grades[query, candidate] = max(grade, 0.0)
    if not grades:
        refuse(At(Path(path)), "no judgements; expected lines of query, 0, candidate, grade")
    return Judgements.from_pairs(((q, c, grade) for (q, c), grade in grades.items()), name=name)


def _graded_pairs(file: Path) -> Iterator[PairRow]:
    if file.name.lower().endswith((".json", ".json.gz")):
        yield from _json_pairs(file)
    elif is_table(file):
        yield from pair_rows(file, what="grade")
    else:
        for at, (query, _, candidate, cell) in split_lines(file, None, 4):
            yield PairRow(at, query, candidate, number(cell, at, what="grade"))


def _json_pairs(file: Path) -> Iterator[PairRow]:
    at = At(file)
    for query, row in json_file(file).items():
        if not isinstance(row, (Mapping, list)):
            refuse(at, f"judgements of query {query!r} are {str(row)[:40]!r}: expected {{query: {{candidate: grade}}}}")
        graded = row.items() if isinstance(row, Mapping) else ((candidate, 1.0) for candidate in row)
        for candidate, grade in graded:
            if not isinstance(candidate, (str, int)):
                refuse(at, f"a candidate of query {query!r} is {str(candidate)[:40]!r}: expected an id")
            yield PairRow(at, query, str(candidate), number(grade, at, what=f"grade of {candidate!r}"))


def read_groups(path: str | Path) -> dict[str, str]:
    r"""Reads the group of each query, such as the image of each caption, for `limner.evaluate(..., groups=...)`.

    Args:
        path: Lines of `query group`; a csv with the columns query and group; or a JSON object, group by query.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "images.txt")
    ...     _ = file.write_text("dog.jpg#0 dog.jpg\ndog.jpg#1 dog.jpg\n")
    ...     read_groups(file)
    {'dog.jpg#0': 'dog.jpg', 'dog.jpg#1': 'dog.jpg'}
    """
    file = existing(path, what="file of groups")
    if file.suffix.lower() == ".json":
        return {query: str(group) for query, group in json_file(file).items()}
    groups: dict[str, str] = {}
    for at, (query, group) in _columns(file):
        if query in groups:
            refuse(at, f"query {query!r} is already in a group")
        groups[query] = group
    return groups


def _columns(file: Path) -> Iterator[tuple[At, tuple[str, str]]]:
    if file.suffix.lower() != ".csv":
        yield from ((at, (cells[0], cells[1])) for at, cells in split_lines(file, None, 2))
        return
    for at, row in table(file, delimiter=","):
        if not {"query", "group"} <= row.keys():
            refuse(at, f"columns {', '.join(row)}: expected query and group")
        yield at, (row["query"], row["group"])


def write_qrels(judgements: Judgements, path: str | Path) -> None:
    """Writes judgements as qrels, including pairs with grade 0.

    Integral grades are written as integers, as `trec_eval` requires; others as decimals, which limner and `ir_measures`
    can read.
    """
    for ids in (judgements.queries, judgements.candidates):
        blank = next((key for key in ids if len(key.split()) != 1), None)
        if blank is not None:
            raise LimnerError(f"id {blank!r} contains a blank, which separates columns in qrels: rename it first")
    with replacing(path) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        for query, candidate, grade in judgements:
            file.write(f"{query} 0 {candidate} {int(grade) if grade.is_integer() else grade!r}\n")


def load_qrels(
    path: str | Path, *, split: str | None = None, direction: str = "i2t", negative: str = "refuse"
) -> Collection:
    """Loads a collection of ids only from a qrels file: enough to evaluate scores and runs; texts are empty.

    Args:
        path: The file.
        split: Not supported: qrels have no splits.
        direction: Whether the queries are images ("i2t") or texts ("t2i").
        negative: As in `read_qrels`.
    """
    if split is not None:
        raise LimnerError(f"split={split!r}: qrels have no splits")
    if direction not in _DIRECTIONS:
        raise UnknownName("direction", direction, _DIRECTIONS)
    read = read_qrels(path, negative=negative)
    pairs = read if direction == "i2t" else read.T
    images = Items(pairs.queries, [None] * len(pairs.queries))
    texts = Items(pairs.candidates, [""] * len(pairs.candidates), kind="text")
    note = f"{path}: ids only: every text is empty, and images have no pixels"
    return Collection(Path(path).name.split(".")[0], images, texts, pairs, warnings=[note], ordered=False)
