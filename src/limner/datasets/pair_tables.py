"""Tables and JSON files of pairs: a query, a candidate and a number, as other programs store runs and judgements.

A table is csv, tsv, jsonl or parquet with a header, such as the qrels of BEIR and MTEB (query-id, corpus-id, score),
ir_datasets (query_id, doc_id, relevance) and ranx (q_id, doc_id, score).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from limner.core.errors import shown
from limner.datasets.text_files import (
    At,
    JsonObject,
    existing,
    filled_lines,
    json_file,
    json_lines,
    number,
    refuse,
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
