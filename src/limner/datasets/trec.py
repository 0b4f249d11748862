"""Qrels: judgements as lines of `query 0 candidate grade`, the format of TREC, and in the forms of other programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError, UnknownName
from limner.core.files import replacing
from limner.core.judgements import Judgements
from limner.datasets.pair_tables import PairRow, is_table, pair_rows
from limner.datasets.text_files import At, existing, json_file, number, refuse, split_lines, table

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
