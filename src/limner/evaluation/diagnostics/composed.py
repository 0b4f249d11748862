"""Evaluates composed queries: how well do an image and a text together find the requested images?

The reference image is left out of the pool of its query. R@k and MAP@k count all known answers; the subset recall of
CIRR ranks the answer among only a few similar images. The three simple compositions are always included as baselines:
if the text alone, or the image alone, does as well as both, the data set does not test composition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from limner import stats
from limner.core.arrays import Float32, FloatArray
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownName
from limner.core.progress import Progress, ProgressLike, Stages
from limner.datasets.composed_queries import ComposedQueries, ComposedQuery
from limner.evaluation.diagnostics.modality_gap import excluding
from limner.evaluation.evaluate import evaluate
from limner.evaluation.tables import Document, Grid, TableReport, json_ready, percent
from limner.scores import Scores

COMPOSITIONS = ("image", "text", "sum")
MEASURES = "R@1 R@5 R@10 R@50 MAP@10(capped)"
GROUP_CUTS = (1, 2, 3)
"""Cut-offs of the recall within CIRR's subsets."""


@dataclass(frozen=True)
class ComposedLine:
    """One measure of one composition.

    Args:
        system: The composition, or the name of the system.
        subset: The kind of change; "all" for all queries.
        measure: Such as "R@10", or "subset R@1" within the group of similar images.
        queries: Number of queries.
        value: The mean, with its interval; queries with the same reference image count as one cluster.
    """

    system: str
    subset: str
    measure: str
    queries: int
    value: stats.Interval


@dataclass(frozen=True)
class ComposedReport(TableReport):
    """The results of composed queries. Prints as a table.

    Args:
        name: Name of the queries.
        lines: By system, subset and measure.
        notes: Notes for readers.
    """

    kind = "composed"
    name: str
    lines: tuple[ComposedLine, ...]
    notes: tuple[str, ...] = ()

    def value(self, system: str, measure: str, *, subset: str = "all") -> stats.Interval:
        """The value with its interval."""
        for line in self.lines:
            if (line.system, line.measure, line.subset) == (system, measure, subset):
                return line.value
        available = "; ".join(dict.fromkeys(f"{line.system} {line.subset} {line.measure}" for line in self.lines))
        raise LimnerError(f"no value {system} {subset} {measure}: there are {available}")

    def rows(self) -> list[dict[str, object]]:
        """One flat record per line: the form of the CSV file."""
        return [
            {"system": line.system, "subset": line.subset, "measure": line.measure, "queries": line.queries,
             "value": line.value.estimate, "low": line.value.low, "high": line.value.high}
            for line in self.lines
        ]  # fmt: skip

    def describe(self) -> dict[str, object]:
        """Plain values that hold the whole report."""
        return {"queries": self.name, "lines": json_ready(self.rows()), "notes": list(self.notes)}

    def document(self) -> Document:
        """What the report shows."""
        measures = list(dict.fromkeys(line.measure for line in self.lines))
        rows = [("subset", "queries", "system", *measures)]
        for subset in dict.fromkeys(line.subset for line in self.lines):
            for system in dict.fromkeys(line.system for line in self.lines):
                by_measure = {
                    line.measure: line for line in self.lines if (line.subset, line.system) == (subset, system)
                }
                count = f"{max(line.queries for line in by_measure.values()):,}"
                cells = (percent(by_measure[m].value) if m in by_measure else "" for m in measures)
                rows.append((subset, count, system, *cells))
        title = f"{self.name}: composed queries"
        return Document(title, [Grid(title, tuple(rows))], self.notes)


def composed(
    queries: ComposedQueries, images: object, texts: object, *, composition: str = "sum", weight: float = 0.5
) -> Embeddings:
    """Vectors of composed queries by a simple baseline.

    With unit vectors of the reference x and of the words t: "image" is x, "text" is t, and "sum" is
    (1 - weight) x + weight t.

    Args:
        queries: The queries.
        images: Embeddings of the pool, in the joint space.
        texts: Embeddings of the words, by query id.
        composition: A key of `COMPOSITIONS`.
        weight: The weight of the words in "sum", from 0 to 1.
    """
    if composition not in COMPOSITIONS:
        raise UnknownName("composition", composition, COMPOSITIONS)
    if not 0 <= weight <= 1:
        raise LimnerError(f"weight={weight}: expected a share from 0 to 1")
    sides = Embeddings.of(images).normalised(), Embeddings.of(texts).normalised()
    share = {"image": 0.0, "text": 1.0, "sum": weight}[composition]
    if sides[0].dim != sides[1].dim:
        raise LimnerError(
            f"images of {sides[0].dim} dimensions and texts of {sides[1].dim}: expected the same; encode both with the "
            "same model"
        )
    words = sides[1].subset(queries.texts.ids).matrix
    references = sides[0].matrix[sides[0].ids.positions([query.reference for query in queries.queries])]
    return Embeddings(queries.texts.ids, np.asarray((1 - share) * references + share * words, dtype=np.float32))


def evaluate_composed(
    queries: ComposedQueries,
    system: Scores | tuple[object, object],
    *,
    name: str = "system",
    measures: str = MEASURES,
    weight: float = 0.5,
    progress: ProgressLike = None,
) -> ComposedReport:
    """Evaluates composed queries.

    Args:
        queries: The queries.
        system: Embeddings of the images and of the texts, for the three simple compositions; or scores of your own
            system, queries by images.
        name: Name of that system.
        measures: Measures over the whole pool.
        weight: The weight of the words in "sum".
        progress: Called with (queries done, queries in total), over all compositions.

    Returns:
        A line for each system, kind of change and measure.
    """
    scores_of: Mapping[str, Scores]
    if isinstance(system, Scores):
        scores_of = {name: _left_out(queries, system)}
    else:
        images, texts = system
        pool = Embeddings.of(images).subset(queries.images.ids)
        scores_of = {
            composition: _cosines(queries, composed(queries, pool, texts, composition=composition, weight=weight), pool)
            for composition in COMPOSITIONS
        }
    stages = Stages(progress, **dict.fromkeys(scores_of, len(queries.queries)))
    lines = [
        line for each, scores in scores_of.items() for line in _lines(queries, each, scores, measures, stages[each])
    ]
    notes = ["the reference image of a query is left out of its pool"]
    if not queries.complete:
        notes.append("images that are not known answers count as wrong, though some may be right")
    return ComposedReport(queries.name, tuple(lines), tuple(notes))


def _cosines(queries: ComposedQueries, vectors: Embeddings, pool: Embeddings) -> Scores:
    """Cosine similarity of all queries and images; the reference of a query comes last."""
    places = pool.ids.positions([query.reference for query in queries.queries])
    unit = vectors.normalised().matrix, pool.normalised().matrix
    return excluding((vectors.ids, unit[0], places), (pool.ids, unit[1], np.arange(len(pool))))


def _left_out(queries: ComposedQueries, scores: Scores) -> Scores:
    """Scores of a system without the reference images."""
    restricted = scores.restrict(queries=queries.texts.ids, candidates=queries.images.ids)
    matrix = np.array(restricted.matrix(), dtype=np.float32)
    places = queries.images.ids.positions([query.reference for query in queries.queries])
    matrix[np.arange(len(matrix)), places] = -np.inf
    return Scores.from_matrix(matrix, queries.texts.ids, queries.images.ids)


def _lines(
    queries: ComposedQueries, name: str, scores: Scores, measures: str, progress: Progress
) -> list[ComposedLine]:
    groups = {query.id: query.reference for query in queries.queries}
    report = evaluate(
        scores, queries.judgements, measures=measures, groups=groups, name=name, keep=0, progress=progress
    )
    subsets = list(dict.fromkeys(query.subset for query in queries.queries if query.subset))
    values = {str(result.measure): dict(zip(result.queries, result.values, strict=True)) for result in report.results}
    values |= _within_groups(queries.queries, scores)
    return [
        _line(name, subset, measure, [q for q in queries.queries if subset in ("all", q.subset)], by_query)
        for subset in ["all", *(subsets if len(subsets) > 1 else [])]
        for measure, by_query in values.items()
    ]


def _line(
    name: str, subset: str, measure: str, queries: Sequence[ComposedQuery], by_query: Mapping[str, float]
) -> ComposedLine:
    measured = [query for query in queries if query.id in by_query]
    clusters = [query.reference for query in measured]
    interval = stats.mean_interval([by_query[query.id] for query in measured], clusters=clusters)
    return ComposedLine(name, subset, measure, len(measured), interval)


def _within_groups(queries: Sequence[ComposedQuery], scores: Scores) -> dict[str, dict[str, float]]:
    """Recall of the answer among only the similar images of its group, by measure and query."""
    values: dict[str, dict[str, float]] = {}
    for row, query in enumerate(queries):
        if not query.group:
            continue
        block = np.asarray(scores.block(row, row + 1))[0]
        places = scores.candidates.positions(list(dict.fromkeys((*query.answers, *query.group))))
        for cut in GROUP_CUTS:
            hit = _expected_hit(block[places], len(query.answers), cut)
            values.setdefault(f"subset R@{cut}", {})[query.id] = hit
    return values


def _expected_hit(scores: FloatArray | Float32, right: int, cut: int) -> float:
    """The probability that one of the first `right` is among the best `cut`, with ties in random order.

    >>> _expected_hit(np.array([0.5, 0.5, 0.1]), 1, 1), _expected_hit(np.array([0.2, 0.9, 0.1]), 1, 2)
    (0.5, 1.0)
    """
    best = scores[:right].max()
    n_above, tied = int((scores > best).sum()), int((scores == best).sum())
    n_tied_right, left = int((scores[:right] == best).sum()), cut - n_above
    if left <= 0:
        return 0.0
    missed = float(np.prod([(tied - n_tied_right - n) / (tied - n) for n in range(min(left, tied))]))
    return 1 - max(missed, 0.0)
