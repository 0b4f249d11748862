"""Fast reading of TREC run files: columns by pyarrow, order checked and mended in bulk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from limner.errors import LimnerError
from limner.ids import Ids

COLUMNS = ("query", "Q0", "candidate", "rank", "score", "tag")
Columns = tuple[
    npt.NDArray[np.object_], npt.NDArray[np.int32], npt.NDArray[np.object_], npt.NDArray[np.int32], npt.NDArray[np.float64]
]


@dataclass(frozen=True)
class Run:
    """What a run file holds: padded lists, best first."""

    queries: Ids
    candidates: Ids
    indices: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float64]


def read_run(path: Path) -> Run:
    """Reads a run; lists are ordered by score, and equal scores keep the order of the file."""
    queries, rows, candidates, columns, scores = _columns(path)
    if not len(rows):
        raise LimnerError(f"{path} holds no lines: expected a run, 'query Q0 candidate rank score tag'")
    if np.isnan(scores).any():
        raise LimnerError(f"{path}, line {int(np.isnan(scores).argmax()) + 1}: the score is NaN; expected a number")
    order = _order(rows, scores)
    if order is not None:
        rows, columns, scores = rows[order], columns[order], scores[order]
    starts = np.flatnonzero(np.diff(rows, prepend=-1))
    lengths = np.diff(starts, append=len(rows))
    shape = (len(starts), int(lengths.max(initial=0)))
    indices = _padded(columns, lengths, shape, -1)
    return Run(Ids(queries[rows[starts]], what="query"), Ids(candidates, what="candidate"), indices, _padded(scores, lengths, shape, -np.inf))


def _order(rows: npt.NDArray[np.int32], scores: npt.NDArray[np.float64]) -> npt.NDArray[np.int64] | None:
    """The order by query and falling score, or None where the file is in that order already (as most are)."""
    same = rows[1:] == rows[:-1]
    grouped = int((~same).sum()) + 1 == (int(rows.max()) + 1 if len(rows) else 1)
    if grouped and not ((scores[1:] > scores[:-1]) & same).any():
        return None
    return np.lexsort((-scores, rows))


def _padded(flat: npt.NDArray[Any], lengths: npt.NDArray[np.int64], shape: tuple[int, int], fill: float) -> npt.NDArray[Any]:
    if (lengths == shape[1]).all():
        return flat.reshape(shape)
    full = np.full(shape, fill, dtype=flat.dtype)
    full[np.arange(shape[1]) < lengths[:, None]] = flat
    return full


def _columns(path: Path) -> Columns:
    """Names of queries and candidates, the code of each line, and its score."""
    import pyarrow as pa

    text = pa.dictionary(pa.int32(), pa.string())
    try:
        columns = _coded(_fast_table(path, text))
        mixed = any(name.split() != [name] for names in (columns[0], columns[2]) for name in names)
    except pa.ArrowInvalid:
        mixed = True
    if not mixed:
        return columns
    schema = pa.schema([("query", text), ("candidate", text), ("score", pa.float64())])
    return _coded(pa.table(_slow_columns(path)).cast(schema))


def _fast_table(path: Path, text: Any) -> Any:
    """All lines at once; only right where one kind of white space stands between columns."""
    import pyarrow as pa
    from pyarrow import csv

    return csv.read_csv(
        path,
        read_options=csv.ReadOptions(column_names=COLUMNS, block_size=1 << 24),
        parse_options=csv.ParseOptions(delimiter=_delimiter(path), quote_char=False),
        convert_options=csv.ConvertOptions(
            column_types={"query": text, "candidate": text, "score": pa.float64()},
            include_columns=["query", "candidate", "score"],
            strings_can_be_null=False,
            null_values=[],
        ),
    )


def _coded(table: Any) -> Columns:
    coded = [table[name].unify_dictionaries().combine_chunks() for name in ("query", "candidate")]
    codes = [np.asarray(c.indices) for c in coded]
    names = [c.dictionary.to_numpy(zero_copy_only=False) for c in coded]
    return names[0], codes[0], names[1], codes[1], table["score"].to_numpy()


def _delimiter(path: Path) -> str:
    with path.open("rb") as file:
        return "\t" if b"\t" in file.readline() else " "


def _slow_columns(path: Path) -> dict[str, list[Any]]:
    """Any white space between columns; says which line is wrong."""
    held: dict[str, list[Any]] = {"query": [], "candidate": [], "score": []}
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                for name, value in zip(held, _slow_line(path, number, line), strict=True):
                    held[name].append(value)
    return held


def _slow_line(path: Path, number: int, line: bytes) -> tuple[str, str, float]:
    try:
        parts = line.decode("utf-8").split()
    except UnicodeDecodeError as error:
        raise LimnerError(f"{path}, line {number}: not UTF-8 ({error.reason} at byte {error.start}); save the file as UTF-8") from None
    if len(parts) != len(COLUMNS):
        raise LimnerError(f"{path}, line {number}: {len(parts)} columns; expected 6: query Q0 candidate rank score tag")
    try:
        return parts[0], parts[2], float(parts[4])
    except ValueError:
        raise LimnerError(f"{path}, line {number}: the score is {parts[4]!r}; expected a number") from None
