"""LanceDB's approximate indexes: built on request, always with a measured recall.

Rows that were added after the index was built are searched exhaustively, so none is missed; `compact` rebuilds the
index with them. (LanceDB's own optimisation merges small clusters but keeps the old codes, which loses most of the
recall with product quantisation.)
"""

from __future__ import annotations

import timeit
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownName
from limner.core.ids import Ids
from limner.core.options import checked
from limner.core.paths import damage_told
from limner.core.progress import Progress, ProgressLike, counting
from limner.scores.parallel_blocks import TILE_ROWS
from limner.scores.vectors import VectorScores
from limner.search.index_table import About
from limner.search.items import Row
from limner.search.store import VectorStore

KINDS: Mapping[str, str] = MappingProxyType(
    {
        "ivf_hnsw_sq": "HnswSq",
        "ivf_sq": "IvfSq",
        "ivf_pq": "IvfPq",
        "ivf_rq": "IvfRq",
        "ivf_flat": "IvfFlat",
    }
)
"""Kinds of approximate index by name: an inverted file (IVF) with full vectors (flat), 8-bit scalar quantisation
(sq), product quantisation (pq) or one bit per dimension (rq), or a graph (hnsw)."""
FEWEST = 256
"""Minimum number of rows for training the clusters and codes."""
REFINE = 5
"""Refine factor: this many times k candidates are retrieved by code and re-ranked by their full vectors."""
PROBES = (4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Recall:
    """Recall of an approximate search against the exact one.

    Args:
        value: Mean share of the exact k best that are among the k returned.
        k: Number of neighbours.
        queries: Number of queries.
        of: Source of the queries: "stored" (rows of the index itself, the easier case) or "given".
        rows: Rows of the index when it was measured.
        seconds: Mean time of one of these searches.
        version: The measured version; the next version stores this figure, and any later one invalidates it.
    """

    value: float
    k: int
    queries: int
    of: str
    rows: int
    seconds: float = field(default=0.0, compare=False)
    version: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return f"recall@{self.k} {self.value:.3f} ({self.queries:,} {self.of} queries, {self.rows:,} rows)"


@dataclass(frozen=True)
class Ann:
    """An approximate index in use: its kind, the number of probed clusters, and the recall.

    Args:
        kind: A key of `KINDS`.
        probes: Number of clusters to probe.
        recall: The measured recall; None if the index has changed since.
        wanted: The target recall.
        seconds: Time of an approximate search for one query.
        exact_seconds: Time of an exact search for one query, and of every further query of the same search.
    """

    kind: str
    probes: int
    recall: Recall | None
    wanted: float
    seconds: float
    exact_seconds: tuple[float, float]

    def __post_init__(self) -> None:
        """Checks the values."""
        if self.kind not in KINDS:
            raise UnknownName("approximate index", self.kind, KINDS)
        if self.probes not in PROBES:
            raise LimnerError(f"an approximate index of {self.probes} probed clusters: expected one of {PROBES}")

    def is_faster(self, queries: int) -> bool:
        """Whether so many queries take less time than in an exact search, by what was measured when it was built."""
        first, further = self.exact_seconds
        return queries * self.seconds < first + (queries - 1) * further

    @classmethod
    def noted(cls, store: VectorStore) -> Ann | None:
        """The approximate index of a store; None if it has none."""
        note = store.notes.get("ann")
        if note is None:
            return None
        with damage_told(store.path, what="index: notes of its approximate index", mend="build that again with --ann"):
            recall = Recall(**checked(Recall, note["recall"], what="recall", objects=False)) if note["recall"] else None
            fresh = recall if recall and recall.version + 1 == store.version else None
            settings = checked(cls, {**note, "recall": None}, what="the approximate index", objects=False)
            return replace(cls(**settings), recall=fresh)

    def keep(self, store: VectorStore) -> None:
        """Saves the settings in the store."""
        store.note(ann=asdict(self))


def refuse_sets(about: About) -> None:
    """Refuses an index with several vectors per item."""
    if about.has_sets:
        raise LimnerError(
            "an approximate index compares single vectors, but this index has several per item: leave it out (--ann, "
            "--approximate, exact=False); late interaction is searched exactly"
        )


def build(store: VectorStore, kind: str) -> None:
    """Builds an approximate index over all rows."""
    if kind not in KINDS:
        raise UnknownName("approximate index", kind, KINDS)
    if len(store) < FEWEST:
        raise LimnerError(f"{len(store)} rows: an approximate index needs {FEWEST} or more; use exact search")
    from lancedb import index as kinds

    clusters = max(1, round(len(store) ** 0.5 / (8 if kind == "ivf_hnsw_sq" else 1)))
    config = getattr(kinds, KINDS[kind])(distance_type="dot", num_partitions=clusters)
    store.table.create_index("vector", config=config, replace=True)


def nearest_rows(
    store: VectorStore, queries: Embeddings, k: int, probes: int, *, progress: ProgressLike = None
) -> Iterator[list[Row]]:
    """Approximately the k best rows of every query, best first: id, value, thumbnail and score."""
    for low in range(0, len(queries), TILE_ROWS):
        part = Embeddings(queries.ids[low : low + TILE_ROWS], queries.matrix[low : low + TILE_ROWS])
        row_lists = [_probed(store, part.matrix[row], k, probes) for row in counting(range(len(part)), progress)]
        yield from _graded(part, row_lists)


def _probed(store: VectorStore, vector: npt.NDArray[np.float32], k: int, probes: int) -> list[Row]:
    query = store.table.search(vector, vector_column_name="vector").distance_type("dot").nprobes(probes)
    query = query.refine_factor(REFINE).limit(k)
    columns = ["id", "vector", "value", "picture", "_distance"]
    return list(query.select(columns).with_row_id(True).to_arrow().to_pylist())


def _graded(queries: Embeddings, row_lists: list[list[Row]]) -> Iterator[list[Row]]:
    """The same rows with the scores of an exact search; equal scores keep the order of the store."""
    rows = {row["id"]: row for listed in row_lists for row in listed}
    if not rows:
        yield from row_lists
        return
    matrix = np.array([row["vector"] for row in rows.values()], dtype=np.float32)
    scores = VectorScores(queries, Embeddings(Ids(rows), matrix)).matrix()
    at = {key: column for column, key in enumerate(rows)}
    for number, listed in enumerate(row_lists):
        scored = [{**row, "score": float(scores[number, at[row["id"]]])} for row in listed]
        yield sorted(scored, key=lambda row: (-row["score"], row["_rowid"]))


def joined(listed: list[list[Row]]) -> tuple[list[Row], Array, Array]:
    """Unique rows, and for every query the positions of its rows among them, with scores; short lists are padded."""
    rows = {row["id"]: row for each in listed for row in each}
    at = {key: number for number, key in enumerate(rows)}
    width = max(map(len, listed), default=0)
    indices = np.full((len(listed), width), -1, dtype=np.int64)
    scores = np.full((len(listed), width), -np.inf)
    for number, each in enumerate(listed):
        indices[number, : len(each)] = [at[row["id"]] for row in each]
        scores[number, : len(each)] = [row["score"] for row in each]
    return list(rows.values()), indices, scores


def sample(store: VectorStore, count: int) -> Array:
    """Vectors of some rows, the same each time."""
    chosen = np.sort(np.random.default_rng(0).choice(len(store), min(count, len(store)), replace=False))
    rows = store.table.take_offsets(chosen.tolist()).select(["vector"]).to_arrow()["vector"].combine_chunks()
    return np.asarray(rows.flatten().to_numpy(zero_copy_only=False).reshape(len(chosen), -1))


def measured(
    store: VectorStore,
    queries: Embeddings,
    of: str,
    answer: Array,
    k: int,
    probes: int,
    progress: ProgressLike = None,
) -> Recall:
    """The recall of these queries with this number of clusters; `answer` has the exact k best of each."""
    truth = [[row["id"] for row in store.take(places)] for places in answer]
    began = perf_counter()
    proposed = [{row["id"] for row in listed} for listed in nearest_rows(store, queries, k, probes, progress=progress)]
    seconds = (perf_counter() - began) / len(queries)
    shares = [len(ids.intersection(right)) / len(right) for ids, right in zip(proposed, truth, strict=True)]
    return Recall(float(np.mean(shares)), k, len(queries), of, len(store), seconds, store.version)


def timed_exact(
    queries: Embeddings, of_all: Callable[[], Array], of_one: Callable[[Embeddings], object]
) -> tuple[Array, tuple[float, float]]:
    """The exact answer; the time of a search for one query, and of every further query of the same search."""
    began = perf_counter()
    answer = of_all()
    seconds = perf_counter() - began
    one = Embeddings(queries.ids[:1], queries.matrix[:1])
    first = min(timeit.repeat(lambda: of_one(one), number=1, repeat=2))
    return answer, (first, max(0.0, seconds - first) / max(1, len(queries) - 1))


def fewest_probes(
    store: VectorStore,
    queries: Embeddings,
    of: str,
    answer: Array,
    k: int,
    recall: float,
    progress: Progress,
) -> tuple[int, Recall]:
    """The fewest probed clusters that reach a recall, or else the maximum; and the recall."""
    for probes in PROBES:
        step = progress.step(f"measuring recall, {probes} clusters probed", "queries", total=len(queries))
        measurement = measured(store, queries, of, answer, k, probes, step)
        if measurement.value >= recall:
            break
    return probes, measurement
