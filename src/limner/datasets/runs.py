"""Rankings from files: TREC runs, JSON files of lists or scores, MTEB's predictions, and tables.

Compiled loops split each line of a run, number the ids and parse plain scores. The file is read in pieces, and pyarrow
parses scores with many digits. The order is checked, and fixed where needed, for all lists at once.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array, FloatArray, Int32
from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.ids import Ids
from limner.core.paths import read_json, refuse_irregular
from limner.core.ranking import Ranking
from limner.datasets.text_files import JsonObject, refuse
from limner.datasets.trec import is_table, pair_rows

COLUMNS = ("query", "Q0", "candidate", "rank", "score", "tag")
PREDICTIONS = "mteb_model_meta"
"""The key of MTEB's predictions under which the model is named."""
_HEAD = 4096
_MODEL = re.compile(rb'\s*\{\s*"mteb_model_meta"\s*:\s*\{\s*"model_name"\s*:\s*("[^"\\]*")')
_SHORTEST_LINE = 12  # bytes: six columns of one letter, five blanks, an end
_POWERS = np.array([float(10**n) for n in range(19)])
_PIECE = 1 << 20
_MOST_CELLS, _MOST_TIMES = 200_000_000, 200  # limits of the table of lists: cells in total, and cells per filled place
_AHEAD = 2  # threads and pieces: numbering the ids takes one thread about as long as everything else

Bytes = npt.NDArray[np.uint8]
Piece = TypeVar("Piece")
Done = TypeVar("Done")


def read_run(path: str | Path, *, candidates: Iterable[object] | None = None) -> Ranking:
    r"""Reads a ranking from a file.

    The file is a TREC run (`query Q0 candidate rank score tag`); JSON, {query: [candidates, best first]} or {query:
    {candidate: score}}; MTEB's `TASK_predictions.json`; or a table with a header (csv, tsv, jsonl, parquet) and columns
    such as query-id, corpus-id and score.

    A run is ordered by score, higher first; equal scores keep the order of the file. If the rank column disagrees,
    `notes` says so.

    Args:
        path: The file. Predictions of several subsets or splits need the name of one: "FILE#SUBSET" or
            "FILE#SUBSET/SPLIT".
        candidates: Names the whole pool, so that truncation is known.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "system.run")
    ...     _ = file.write_text("dog Q0 dog#0 1 0.9 clip\ndog Q0 cat#1 2 0.4 clip\n")
    ...     read_run(file)["dog"]
    ['dog#0', 'cat#1']
    """
    source, part = _file_and_part(path)
    refuse_irregular(source, what="ranking")
    if not source.exists():
        raise LimnerError(f"no ranking file {source}: expected a TREC run, JSON, MTEB's predictions or a table")
    if source.suffix.lower() == ".json":
        return Ranking.from_lists(_read_json(source, part), candidates=candidates)
    if part:
        raise LimnerError(f"{source}#{part}: only MTEB's predictions (.json) have subsets; leave out #{part}")
    if source.is_file():
        if is_table(source):
            return Ranking.from_lists(_read_table(source), candidates=candidates)
        return _read_trec(source, candidates)
    with tempfile.NamedTemporaryFile(prefix="limner-", suffix=".run") as copy, source.open("rb") as piped:
        shutil.copyfileobj(piped, copy)  # a shell pipe can be read only once, from start to end
        copy.flush()
        return _read_trec(Path(copy.name), candidates)


def run_name(path: str | Path) -> str:
    """The name of the system of a run: the model of MTEB's predictions, else the name of the file.

    >>> run_name("results/clip.run")
    'clip'
    """
    source, _ = _file_and_part(path)
    if source.suffix.lower() == ".json" and source.is_file():
        with source.open("rb") as file:
            model = _MODEL.match(file.read(_HEAD))
        if model is not None:
            return str(json.loads(model[1]))
    return source.stem


def _file_and_part(path: str | Path) -> tuple[Path, str]:
    """The file, and the subset that follows its name after a #; a file whose own name has one comes first."""
    name, _, part = str(path).rpartition("#")
    return (Path(name), part) if name.lower().endswith(".json") and not Path(path).exists() else (Path(path), "")


Lists = dict[str, list[object]] | dict[str, dict[str, float]]


def _read_json(path: Path, part: str) -> Lists:
    content = read_json(path, what="ranking")
    if isinstance(content, dict) and PREDICTIONS in content:
        place, content = _predictions(path, content, part)
    elif part:
        raise LimnerError(f"{path}#{part}: only MTEB's predictions have subsets, and this is a plain run: leave it out")
    else:
        place = str(path)
    rows = list(content.values()) if isinstance(content, dict) else [None]
    lists = all(isinstance(row, list) and all(isinstance(key, (str, int)) for key in row) for row in rows)
    if not lists and not all(isinstance(row, dict) for row in rows):
        raise LimnerError(
            f"{place}: expected a run, {{query: [candidates, best first]}} or {{query: {{candidate: score}}}}"
        )
    return content  # type: ignore[no-any-return]  # checked above


def _predictions(path: Path, content: JsonObject, part: str) -> tuple[str, object]:
    """One subset and split of MTEB's predictions, {subset: {split: {query: {candidate: score}}}}."""
    subsets = {name: splits for name, splits in content.items() if name != PREDICTIONS and isinstance(splits, dict)}
    parts = {f"{subset}/{split}": run for subset, splits in subsets.items() for split, run in splits.items()}
    matches = [name for name in parts if not part or part in (name, name.split("/")[0], name.split("/")[-1])]
    if len(matches) == 1:
        return f"{path}#{matches[0]}", parts[matches[0]]
    if part and not matches:
        raise UnknownName("subset", part, parts, of=path.name)
    raise LimnerError(f"{path} has {len(matches)} subsets ({shown(matches)}): name one, as in {path}#{_first(parts)}")


def _first(parts: Iterable[str]) -> str:
    return next(iter(parts), "SUBSET/SPLIT")


def _read_table(path: Path) -> dict[str, dict[str, float]]:
    run: dict[str, dict[str, float]] = {}
    for at, query, candidate, score in pair_rows(path, what="score"):
        row = run.setdefault(query, {})
        if candidate in row:
            refuse(at, f"query {query!r} ranks candidate {candidate!r} a second time")
        row[candidate] = score
    return run


def _read_trec(path: Path, whole_pool: Iterable[object] | None) -> Ranking:
    from limner.datasets.run_kernels import measure_lists

    queries, candidates = _Words(), _Words()
    rows, columns, scores, ranks = _columns(path, queries, candidates)
    if np.isnan(scores).any():
        _refuse(path)
    try:
        names, pool = queries.strings(), Ids(candidates.strings(), what="candidate")
    except UnicodeDecodeError:
        _refuse(path)
    notes = _rank_notes(path, rows, ranks, scores, names)
    lengths = np.zeros(len(names), dtype=np.int64)
    if not measure_lists(rows, scores, lengths):
        order = np.lexsort((-scores, rows))
        columns, scores = columns[order], scores[order]
    _refuse_uneven(path, lengths)
    indices, scores = _padded(columns, lengths, -1), _padded(scores, lengths, -np.inf)
    if whole_pool is None:
        return Ranking(Ids(names, what="query"), pool, indices, scores, notes=notes)
    given_pool = Ids(whole_pool, what="candidate")
    indices = np.where(indices >= 0, given_pool.positions(pool)[indices], -1)
    return Ranking(Ids(names, what="query"), given_pool, indices, scores, len(given_pool), notes=notes)


def _rank_notes(path: Path, rows: Int32, ranks: FloatArray, scores: FloatArray, names: list[str]) -> tuple[str, ...]:
    """Counts the lists in which the rank column contradicts the scores."""
    same_query = rows[1:] == rows[:-1]
    sorted_already = bool((rows[1:] >= rows[:-1]).all())
    if sorted_already and not (same_query & ((ranks[1:] < ranks[:-1]) | (scores[1:] > scores[:-1]))).any():
        return ()
    order = np.lexsort((-scores, ranks, rows))
    row, rank, score = rows[order], ranks[order], scores[order]
    against = (row[1:] == row[:-1]) & (rank[1:] > rank[:-1]) & (score[1:] > score[:-1])
    if not against.any():
        return ()
    lists = np.unique(row[1:][against])
    return (
        f"{path.name}: in {len(lists):,} of {len(names):,} lists the rank column contradicts the scores (query "
        f"{names[int(lists[0])]!r}); lists are ordered by score",
    )


class _Words:
    """Distinct words in order of appearance, in the format of the compiled loops."""

    def __init__(self) -> None:
        self.slots = np.full(1 << 10, -1, dtype=np.int64)
        self.starts = np.zeros(1, dtype=np.int64)
        self.word_bytes = np.zeros(0, dtype=np.uint8)
        self.count = np.zeros(1, dtype=np.int64)

    def number(self, text: Bytes, spans: Int32, hashes: npt.NDArray[np.uint64], numbers: Int32) -> None:
        """Writes the number of the word in each span of the text, adding new words."""
        from limner.datasets.run_kernels import number_words

        self._make_room(len(spans), len(text))
        number_words(text, spans, hashes, self.slots, self.starts, self.word_bytes, self.count, numbers)

    def _make_room(self, words: int, size: int) -> None:
        from limner.datasets.run_kernels import place_words

        count = int(self.count[0])
        if len(self.starts) <= count + words:
            self.starts = np.resize(self.starts, 2 * (count + words) + 1)
        if len(self.word_bytes) < self.starts[count] + size:
            self.word_bytes = np.resize(self.word_bytes, 2 * (int(self.starts[count]) + size))
        if len(self.slots) < 2 * (count + words):
            self.slots = np.full(1 << (2 * (count + words)).bit_length(), -1, dtype=np.int64)
            place_words(self.slots, self.starts, self.word_bytes, self.count)

    def strings(self) -> list[str]:
        """The words as text."""
        ends = self.starts[: int(self.count[0]) + 1].tolist()
        content = self.word_bytes[: ends[-1]].tobytes()
        return [content[low:high].decode("utf-8") for low, high in pairwise(ends)]


def _columns(path: Path, queries: _Words, candidates: _Words) -> tuple[Int32, Int32, FloatArray, FloatArray]:
    """Query number, candidate number, score and rank of every line. Threads parse the next pieces in advance."""
    n_lines = path.stat().st_size // _SHORTEST_LINE + 1  # pages that are never written take no memory
    rows, columns, scores = np.empty(n_lines, np.int32), np.empty(n_lines, np.int32), np.empty(n_lines, np.float64)
    ranks = np.empty(n_lines, np.float64)
    done = 0
    with ThreadPoolExecutor(_AHEAD) as pool:
        for piece, spans, hashes, numbers, places in _ahead(pool, partial(_split, path), _pieces(path)):
            part = slice(done, done + len(numbers))
            queries.number(piece, spans[0], hashes[0], rows[part])
            candidates.number(piece, spans[1], hashes[1], columns[part])
            scores[part], ranks[part] = numbers, places
            done = part.stop
    return rows[:done], columns[:done], scores[:done], ranks[:done]


def _ahead(pool: Executor, work: Callable[[Piece], Done], pieces: Iterable[Piece]) -> Iterator[Done]:
    """Like `pool.map`, but only a few pieces ahead of the consumer, so that memory stays bounded."""
    waiting: deque[Future[Done]] = deque()
    for piece in pieces:
        waiting.append(pool.submit(work, piece))
        if len(waiting) > _AHEAD:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _split(path: Path, piece: Bytes) -> tuple[Bytes, Int32, npt.NDArray[np.uint64], FloatArray, FloatArray]:
    """Splits a piece: the spans of its queries and candidates, their hashes, the scores and the ranks."""
    from limner.datasets.run_kernels import read_run_lines

    n_lines = len(piece) // _SHORTEST_LINE + 1
    spans, hashes, scores = np.empty((3, n_lines, 2), np.int32), np.empty((2, n_lines), np.uint64), np.empty(n_lines)
    ranks = np.empty(n_lines)
    read, plain = read_run_lines(piece, _POWERS, spans, hashes, scores, ranks)
    if read < 0:
        _refuse(path)
    numbers = scores[:read] if plain else _numbers(path, piece, spans[2, :read])
    return piece, spans[:2, :read], hashes[:, :read], numbers, ranks[:read]


def _pieces(path: Path) -> Iterator[Bytes]:
    """The bytes of a file in pieces of whole lines."""
    unfinished = b""
    with path.open("rb") as file:
        while chunk := file.read(_PIECE):
            text = unfinished + chunk
            end = text.rfind(b"\n") + 1
            unfinished = text[end:]
            if end:
                yield np.frombuffer(text, dtype=np.uint8, count=end)
    if unfinished:
        yield np.frombuffer(unfinished + b"\n", dtype=np.uint8)


def _numbers(path: Path, text: Bytes, spans: Int32) -> FloatArray:
    """Parses scores to the nearest float64, like Python."""
    from limner.datasets.run_kernels import gather_words

    digits, ends = np.empty(len(text), dtype=np.uint8), np.zeros(len(spans) + 1, dtype=np.int32)
    gather_words(text, spans, digits, ends)
    if (parsed := _by_arrow(digits, ends)) is not None:
        return parsed
    written = digits.tobytes()
    try:
        return np.array([float(written[low:high]) for low, high in pairwise(ends)])
    except ValueError:
        _refuse(path)


def _by_arrow(digits: Bytes, ends: Int32) -> FloatArray | None:
    """The numbers by pyarrow, which is several times faster; None if it is not installed, or does not read them."""
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        return None
    try:
        texts = pa.StringArray.from_buffers(len(ends) - 1, pa.py_buffer(ends), pa.py_buffer(digits))
        return texts.cast(pa.float64()).to_numpy()  # type: ignore[no-any-return]  # pyarrow is untyped
    except pa.ArrowInvalid:  # Python accepts more forms: "+1", "1_000"
        return None


def _refuse(path: Path) -> NoReturn:
    """Reads the file line by line and reports the first invalid line."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                _refuse_bad_line(f"{path}, line {number}", line)
    raise LimnerError(f"{path}: the file changed while it was read; read it again")


def _refuse_bad_line(place: str, line: bytes) -> None:
    try:
        parts = [part.decode("utf-8") for part in line.split()]
    except UnicodeDecodeError as error:
        raise LimnerError(f"{place}: not UTF-8 ({error.reason}); save the file as UTF-8") from None
    if len(parts) != len(COLUMNS):
        raise LimnerError(f"{place}: {len(parts)} columns; expected 6: query Q0 candidate rank score tag")
    try:
        score = float(parts[4])
    except ValueError:
        raise LimnerError(f"{place}: the score is {parts[4]!r}; expected a number") from None
    if np.isnan(score):
        raise LimnerError(f"{place}: the score is NaN; expected a number")


def _refuse_uneven(path: Path, lengths: npt.NDArray[np.int64]) -> None:
    """Refuses lists whose lengths differ so much that a padded table would be mostly empty and too large."""
    cells = len(lengths) * int(lengths.max(initial=0))
    if cells > max(_MOST_CELLS, _MOST_TIMES * int(lengths.sum())):
        raise LimnerError(
            f"{path}: {len(lengths):,} lists, the longest of {lengths.max():,}, {lengths.sum():,} places in total: as "
            f"a table that is {cells:,} cells, nearly all of them empty; cut the long lists, or split the file"
        )


def _padded(flat: Array, lengths: npt.NDArray[np.int64], fill: float) -> Array:
    shape = (len(lengths), int(lengths.max(initial=0)))
    if (lengths == shape[1]).all():
        return flat.reshape(shape)
    full = np.full(shape, fill, dtype=flat.dtype)
    full[np.arange(shape[1]) < lengths[:, None]] = flat
    return full
