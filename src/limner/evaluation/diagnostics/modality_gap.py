"""The modality gap: images and texts form separate clusters in an embedding space (Liang et al. 2022).

In a mixed pool, images and texts are candidates together, as in a search over pages that contain both, and a query is
left out of its own pool. With a gap, candidates of the query's own modality come first whatever they show, and matches
of the other modality are pushed down the list. So each number is given three times: in a pool of the other modality
alone, in the mixed pool, and in the mixed pool after each modality has been centred.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from limner import stats
from limner.core.arrays import Array, Float32, FloatArray, IntArray
from limner.core.collection import Collection
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.core.progress import Progress, ProgressLike, Stages
from limner.evaluation.evaluate import evaluate
from limner.evaluation.tables import Document, Grid, TableReport, json_ready, percent
from limner.scores import Scores

RIDGE = 1e-3
"""Regularisation of the within-modality covariance, as a share of its mean variance, so that it is invertible."""


@dataclass(frozen=True)
class ModalityGap:
    """The gap between images and texts in an embedding space.

    Args:
        distance: ||mean of the unit image vectors - mean of the unit text vectors||, from 0 to 2.
        separability: Balanced accuracy of a linear classifier of images against texts, on held-out vectors; about 0.5
            if the two cannot be told apart, 1 if they are linearly separable.
        images: Number of image vectors.
        texts: Number of text vectors.
    """

    distance: float
    separability: float
    images: int
    texts: int


def modality_gap(images: object, texts: object) -> ModalityGap:
    """Measures the modality gap of image and text embeddings.

    The distance is ||1/n sum x_i/||x_i|| - 1/m sum y_j/||y_j|| ||, the length of the gap of Liang et al. 2022, "Mind
    the gap". Separability is measured with Fisher's linear discriminant, w = S^-1 (mx - my), where S is the covariance
    within modalities and the threshold is halfway between the means. It is fitted to every second vector and tested on
    the others, then the other way round.

    Args:
        images: Embeddings or an array, one row per image; four or more rows.
        texts: Embeddings or an array, one row per text, with the same dimension.

    >>> gap = modality_gap([[1, 0.1], [1, -0.1], [1, 0.2], [1, 0]], [[0.1, 1], [0, 1], [-0.1, 1], [0.2, 1]])
    >>> round(gap.distance, 2), gap.separability
    (1.33, 1.0)
    """
    first, second = _unit_rows(images, "images"), _unit_rows(texts, "texts")
    if first.shape[1] != second.shape[1]:
        raise LimnerError(
            f"images of {first.shape[1]} dimensions and texts of {second.shape[1]}: expected the same; encode both "
            "with the same model"
        )
    distance = float(np.linalg.norm(first.mean(axis=0) - second.mean(axis=0)))
    return ModalityGap(distance, _separability(first, second), len(first), len(second))


def _unit_rows(vectors: object, noun: str) -> FloatArray:
    """Normalised vectors; `Embeddings` refuses zero vectors."""
    rows = np.asarray(Embeddings.of(vectors), dtype=np.float64)
    if len(rows) < 4:
        raise LimnerError(f"{len(rows)} vectors of {noun}: expected four or more; encode more items")
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def _separability(first: FloatArray, second: FloatArray) -> float:
    """Balanced accuracy over both halves; a vector on the boundary counts half."""
    right = []
    for half in (0, 1):
        plane, threshold = _discriminant(first[half::2], second[half::2])
        sides = (first[1 - half :: 2] @ plane - threshold, threshold - second[1 - half :: 2] @ plane)
        right.append([((side > 0) + 0.5 * (side == 0)) for side in sides])
    return float(np.mean([np.concatenate(side).mean() for side in zip(*right, strict=True)]))


def _discriminant(first: FloatArray, second: FloatArray) -> tuple[Array, float]:
    means = first.mean(axis=0), second.mean(axis=0)
    centred = np.concatenate([first - means[0], second - means[1]])
    covariance = centred.T @ centred / len(centred)
    ridge = RIDGE * max(float(np.trace(covariance)) / len(covariance), np.finfo(np.float64).eps)
    plane = np.linalg.solve(covariance + ridge * np.eye(len(covariance)), means[0] - means[1])
    return plane, float(plane @ (means[0] + means[1]) / 2)


MEASURES = "R@1 R@5 R@10"
DEPTH = 10
"""Length of the lists whose modalities are counted."""
ALONE, MIXED, CENTRED = "other modality", "mixed", "mixed, centred"
POOLS = (ALONE, MIXED, CENTRED)
MODALITIES = ("image", "text")
PASSES = (ALONE, *(f"{pool} {what}" for pool in (MIXED, CENTRED) for what in ("cross", "any", "share")))
"""Passes over the queries of a modality."""


@dataclass(frozen=True)
class MixedLine:
    """One measure of one pool.

    Args:
        query: Modality of the queries: "image" or "text".
        pool: One of `POOLS`.
        measure: Such as "R@10"; "any R@10" if matches of the query's own modality count too; or "other@10", the share
            of the other modality among the first 10.
        queries: Number of queries.
        value: The mean, with its interval; texts of the same image count as one cluster.
    """

    query: str
    pool: str
    measure: str
    queries: int
    value: stats.Interval


@dataclass(frozen=True)
class MixedPoolReport(TableReport):
    """The results in mixed pools. Prints as a table.

    Args:
        name: Name of the collection.
        lines: By modality of the query, pool and measure.
        shares: Modality of the query -> the share of the other modality in its mixed pool: "other@10" by chance.
        notes: Notes for readers.
    """

    kind = "mixed pool"
    name: str
    lines: tuple[MixedLine, ...]
    shares: Mapping[str, float]
    notes: tuple[str, ...] = ()

    def value(self, query: str, pool: str, measure: str) -> stats.Interval:
        """The value with its interval."""
        for line in self.lines:
            if (line.query, line.pool, line.measure) == (query, pool, measure):
                return line.value
        available = "; ".join(f"{line.query}, {line.pool}, {line.measure}" for line in self.lines)
        raise LimnerError(f"no value for {query}, {pool}, {measure}: there are {available}")

    def rows(self) -> list[dict[str, object]]:
        """One flat record per line: the form of the CSV file."""
        return [
            {"query": line.query, "pool": line.pool, "measure": line.measure, "queries": line.queries,
             "value": line.value.estimate, "low": line.value.low, "high": line.value.high}
            for line in self.lines
        ]  # fmt: skip

    def describe(self) -> dict[str, object]:
        """Plain values that hold the whole report."""
        shares = dict(self.shares)
        return {"collection": self.name, "lines": json_ready(self.rows()), "shares": shares, "notes": list(self.notes)}

    def document(self) -> Document:
        """What the report shows."""
        measures = list(dict.fromkeys(line.measure for line in self.lines))
        values = {(line.measure, line.query, line.pool): percent(line.value) for line in self.lines}
        title = f"{self.name}: images and texts in one pool"
        grids = []
        for query in MODALITIES:
            rows: list[tuple[str, ...]] = [(f"{query} queries", *POOLS)]
            rows += [(m, *(values.get((m, query, pool), "") for pool in POOLS)) for m in measures]
            grids.append(Grid(title, tuple(rows)))
        return Document(title, grids, self.notes)


def evaluate_mixed(
    collection: Collection, images: object, texts: object, *, progress: ProgressLike = None
) -> MixedPoolReport:
    """Evaluates a joint space with images and texts in one pool.

    R@k counts a query whose match of the other modality is among the first k; "any R@k" also counts matches of its own
    modality: texts of the same image, images of the same text. To centre, the mean of the unit vectors of each modality
    is subtracted from them, and they are normalised again; the means are those of this collection.

    Args:
        collection: Images, texts and which belong together.
        images: Embeddings of the images, by id or in order.
        texts: Embeddings of the texts, in the same space.
        progress: Called with (queries done, queries in total); each is ranked seven times.
    """
    sides = _unit(images, collection.images.ids, "image"), _unit(texts, collection.texts.ids, "text")
    if sides[0].shape[1] != sides[1].shape[1]:
        raise LimnerError(
            f"images of {sides[0].shape[1]} dimensions and texts of {sides[1].shape[1]}: expected the same; encode "
            "both with the same model"
        )
    matches = _Matches.of(collection)
    spaces = {MIXED: np.concatenate(sides), CENTRED: np.concatenate([_centred(side) for side in sides])}
    sizes = {"image": len(matches.images), "text": len(matches.texts)}
    passes = Stages(progress, **{f"{query} {name}": sizes[query] for query in MODALITIES for name in PASSES})
    lines = [line for query in MODALITIES for line in _lines(matches, query, spaces, passes)]
    total = len(matches.images) + len(matches.texts) - 1
    shares = {"image": len(matches.texts) / total, "text": len(matches.images) / total}
    notes = [
        f"other@{DEPTH} by chance: {shares['image']:.1%} for image queries, {shares['text']:.1%} for text queries",
        "a query is left out of its pool; centred: minus the mean of its modality in this collection",
    ]
    return MixedPoolReport(collection.name, tuple(lines), shares, tuple(notes))


@dataclass(frozen=True, eq=False)
class _Matches:
    """Which candidates of the mixed pool, images first, belong together.

    Args:
        images: Ids of the images.
        texts: Ids of the texts.
        cross: Pairs of positions in the pool, an image and a text, that match.
        within: Pairs of the same modality that match the same item of the other; both orders, none with itself.
    """

    images: Ids
    texts: Ids
    cross: IntArray
    within: IntArray

    @classmethod
    def of(cls, collection: Collection) -> _Matches:
        pairs = collection.judgements.relevant
        cross = np.stack([pairs.rows, pairs.columns + len(collection.images)], axis=1)
        symmetric = np.concatenate([cross, cross[:, ::-1]])
        return cls(collection.images.ids, collection.texts.ids, symmetric, _of_one_modality(symmetric))

    @property
    def pool(self) -> Ids:
        """Ids of the mixed pool; an image and a text may have the same id."""
        return Ids([*(f"image {key}" for key in self.images), *(f"text {key}" for key in self.texts)])

    def of_queries(self, query: str) -> range:
        """The positions of the queries in the pool."""
        n = len(self.images)
        return range(n) if query == "image" else range(n, n + len(self.texts))

    def clusters(self, places: Sequence[int]) -> list[int]:
        """The first item that each query matches if it is a text, else the query itself."""
        first = dict(reversed(self.cross.tolist()))
        return [place if place < len(self.images) else first.get(place, place) for place in places]


def _of_one_modality(cross: IntArray) -> IntArray:
    """Pairs that share an item of the other modality."""
    by_item: dict[int, list[int]] = {}
    for item, partner in cross.tolist():
        by_item.setdefault(item, []).append(partner)
    same_item = {(a, b) for group in by_item.values() for a in group for b in group if a != b}
    return np.array(sorted(same_item), dtype=np.int64).reshape(-1, 2)


def _unit(vectors: object, ids: Ids, kind: str) -> Float32:
    """Unit vectors in the order of the collection."""
    embeddings = Embeddings.of(vectors)
    if all(key in embeddings.ids for key in ids):
        return embeddings.subset(ids).normalised().matrix
    if len(embeddings) != len(ids) or any(key != str(row) for row, key in enumerate(embeddings.ids)):
        raise LimnerError(
            f"{len(embeddings)} {kind} embeddings for {len(ids)} {kind}s: expected one for each, by id or in order"
        )
    return embeddings.normalised().matrix


def _centred(vectors: Float32) -> Float32:
    """Unit vectors minus their mean; one that is the mean itself stays 0, and matches nothing more than anything."""
    moved = vectors.astype(np.float64)
    moved -= moved.mean(axis=0)
    lengths = np.linalg.norm(moved, axis=1, keepdims=True)
    return np.asarray(moved / np.where(lengths > 0, lengths, 1.0), dtype=np.float32)


def _lines(matches: _Matches, query: str, spaces: Mapping[str, Float32], passes: Stages) -> Iterator[MixedLine]:
    places, pool, n = matches.of_queries(query), matches.pool, len(matches.images)
    partners = range(n, len(pool)) if query == "image" else range(n)
    full_pool, all_matches = range(len(pool)), np.concatenate([matches.cross, matches.within])
    for name in POOLS:
        vectors = spaces[CENTRED if name == CENTRED else MIXED]
        scores = _scores(vectors, pool, places, partners if name == ALONE else full_pool)
        step = passes[f"{query} {name}" if name == ALONE else f"{query} {name} cross"]
        yield from _measured(matches, (query, name), scores, matches.cross, "", step)
        if name != ALONE:
            yield from _measured(matches, (query, name), scores, all_matches, "any ", passes[f"{query} {name} any"])
            yield _share(matches, (query, name), scores, partners, passes[f"{query} {name} share"])


def _scores(vectors: Float32, pool: Ids, rows: range, columns: range) -> Scores:
    """Cosine similarity of some items of the pool; a query and itself are excluded."""
    return excluding(*((pool[list(part)], vectors[list(part)], part) for part in (rows, columns)))


def _measured(
    matches: _Matches,
    query_and_pool: tuple[str, str],
    scores: Scores,
    pairs: IntArray,
    prefix: str,
    progress: Progress,
) -> Iterator[MixedLine]:
    names, place = matches.pool, {key: number for number, key in enumerate(matches.pool)}
    queries, candidates = ({place[key] for key in ids} for ids in (scores.queries, scores.candidates))
    matching = [(names[a], names[b]) for a, b in pairs.tolist() if a in queries and b in candidates]
    report = evaluate(scores, Judgements.from_pairs(matching), measures=MEASURES, keep=0, progress=progress)
    for result in report.results:
        clusters = matches.clusters([place[key] for key in result.queries])
        value = stats.mean_interval(result.values, clusters=clusters)
        yield MixedLine(*query_and_pool, f"{prefix}{result.measure}", len(result.queries), value)


def _share(
    matches: _Matches, query_and_pool: tuple[str, str], scores: Scores, partners: range, progress: Progress
) -> MixedLine:
    """How much of each list has the other modality."""
    top = scores.top(min(DEPTH, scores.shape[1] - 1), progress=progress)
    values = ((top.indices >= partners.start) & (top.indices < partners.stop)).mean(axis=1)
    clusters = matches.clusters(matches.of_queries(query_and_pool[0]))
    return MixedLine(*query_and_pool, f"other@{DEPTH}", len(values), stats.mean_interval(values, clusters=clusters))


Side = tuple[Ids, Float32, npt.ArrayLike]
"""Ids, unit vectors and positions."""


def excluding(queries: Side, candidates: Side) -> Scores:
    """Dot products, block by block; -inf where the position of the query, which it excludes, is that of the candidate.

    >>> ids, vectors = Ids(["a", "b"]), np.eye(2, dtype=np.float32)
    >>> excluding((ids, vectors, [1, 0]), (ids, vectors, [0, 1])).matrix()
    array([[  1., -inf],
           [-inf,   1.]])
    """
    sides = [np.column_stack([v, np.asarray(at)]).astype(np.float32) for _, v, at in (queries, candidates)]
    return Scores.from_kernel(_products, *sides, queries=queries[0], candidates=candidates[0])


def _products(rows: Float32, columns: Float32) -> Float32:
    """The last number of each vector is a position."""
    block = rows[:, :-1] @ columns[:, :-1].T
    block[rows[:, -1:] == columns[:, -1]] = -np.inf
    return block
