"""A cut-off that guarantees precision: only hits above it are shown.

The precision is the share of right hits among those that a query shows, on average over queries that show any. A query
counts as much as any other, however many judged queries its image has (`limner.stats.precision_threshold`).

A hit's score is corrected for hubs first: the mean score of the item's nearest queries in a bank is subtracted, as in
CSLS. Two confidences are made of it (`confidences_of`): the CSLS score, and the hit's share of the ten best in a
softmax, which is small where other hits score nearly as high. A third of the judged images are the bank, choose between
the two and propose thresholds; the others test them, with and without their answers
(`limner.stats.precision_threshold`). An unjudged answer counts as wrong, so the true precision can only be higher.

With `one_right`, the hits of a query are shown together or not at all, and a set is right if one of its hits is. The
confidence of a set is that of its best hit, or the logarithm of the sum of their exponentials: with shares, the share
of the whole set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Literal

import numpy as np

from limner.core.arrays import Array, FloatArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.judgements import Judgements
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.core.ranking import Ranking
from limner.scores import Scores
from limner.scores.corrected import correct

if TYPE_CHECKING:
    from limner.stats.selective import Answers, Threshold

NEIGHBOURS = 10
"""Number of scores in a neighbourhood, as in CSLS."""
DEPTH = 50
"""The longest list of hits that a cut-off supports."""
MOST = 5_000
"""Maximum number of judged queries; if there are more, images are sampled at random."""
BANK_SHARE = 3
"""The queries of one image in this many go to the bank, and propose thresholds."""
PROMISES = (0.5, 0.7, 0.9)
"""The precisions by which the confidence is chosen."""
Confidence = Literal["csls", "share"]
SetConfidence = Literal["best", "sum"]
ABSENT = 0.2
"""The default share of queries without an answer that a guarantee allows for."""

Near = Callable[[Sequence[str]], FloatArray]
"""Mean score of each item's nearest bank queries, by item id."""


@dataclass(frozen=True)
class CutOff:
    """A cut-off with its guarantee.

    Args:
        threshold: The lowest confidence, and what it guarantees.
        k: The length of the lists that it applies to.
        sets: How the confidence of the k hits together is computed (`confidence_of_sets`), if they are shown together
            and one of them is right; None if each hit has its own.
    """

    threshold: Threshold
    k: int
    sets: SetConfidence | None = None

    def __str__(self) -> str:
        """The guarantee as a sentence."""
        cut = self.threshold
        each = f", at most {cut.largest:,} of one image" if cut.largest > 1 else ""
        right, level, absent = (f"{100 * share:g}%" for share in (cut.precision, cut.level, cut.absent))
        promise = f"at least {right} of what is shown is right, on average over the queries that get an answer"
        if self.sets is not None:
            promise = f"of the queries that get an answer, at least {right} have a right one among the {self.k} shown"
        return (
            f"{promise} (confidence {level}, for queries drawn like the judged ones{each}, if at most {absent} "
            f"have no match here; {cut.answered:.0%} of the judged ones that test it are answered)"
        )

    def as_dict(self) -> dict[str, object]:
        """The cut-off as plain values."""
        return {**asdict(self.threshold), "k": self.k, "sets": self.sets}

    def reached(self, confidences: FloatArray) -> Array:
        """The positions of the hits of a query that are shown, from the confidences of its best."""
        first, threshold = confidences[: self.k], float(self.threshold.value or 0)
        if self.sets is None:
            return np.flatnonzero(first >= threshold)
        return np.arange(len(first)) if confidence_of_sets(self.sets, first[None])[0] >= threshold else np.arange(0)


@dataclass(frozen=True, eq=False)
class Calibration:
    """The calibration of an index or of scores, from judged queries.

    Args:
        answers: Confidences of the hits of judged queries, with and without their answers.
        near: The statistics of the bank.
        absent: The share of queries without an answer that guarantees allow for.
        confidence: How the confidence of a hit is computed (`confidences_of`).
        spread: The typical standard deviation of the scores of a list.
    """

    answers: Answers
    near: Near
    absent: float = ABSENT
    confidence: Confidence = "csls"
    spread: float = 1.0

    def cut_off(
        self, precision: float, *, k: int = 10, level: float = 0.95, lowest: float = 0.0, one_right: bool = False
    ) -> CutOff:
        """The cut-off that guarantees a precision; raises an error if there is none.

        Args:
            precision: The precision.
            k: Number of answers of a query.
            level: The confidence of the guarantee.
            lowest: The lowest precision that can be asked for; the error proposes none below it.
            one_right: Whether the k answers are shown together, and it is enough that one of them is right.
        """
        from limner.stats.selective import precision_threshold, precision_within_reach

        if not 1 <= k <= DEPTH:
            raise LimnerError(f"a cut-off for the {k} best: expected 1 to {DEPTH}")
        sets = self._best_sets(k, precision) if one_right else None
        answers = self.answers.first(k) if sets is None else self._sets(k, sets)
        threshold = precision_threshold(answers, precision=precision, absent=self.absent, level=level)
        if threshold.value is None:
            reach = precision_within_reach(answers, absent=self.absent, level=level)
            best = f"about {reach:.0%} is" if reach else "no precision is"
            unit = "images" if answers.sizes.max() > 1 else "queries"
            advice = "ask for less, " if reach and reach >= lowest else ""
            raise LimnerError(
                f"no cut-off guarantees a precision of {100 * precision:g}% with this system and "
                f"{threshold.clusters:,} judged {unit} to test it{_uneven(answers)}: {best} within reach; {advice}"
                "judge more queries, or use a better system"
            )
        return CutOff(threshold, k, sets)

    def _best_sets(self, k: int, precision: float) -> SetConfidence:
        """The confidence of sets by which the bank answers more."""
        kinds: tuple[SetConfidence, ...] = ("sum", "best")
        return max(kinds, key=lambda kind: self._sets(k, kind).proposed_answered(precision, absent=self.absent))

    def _sets(self, k: int, sets: SetConfidence) -> Answers:
        return self.answers.sets(k, lambda confidences: confidence_of_sets(sets, confidences))

    def rule(self, cut_off: CutOff, ids: Sequence[str]) -> dict[str, object]:
        """The cut-off as JSON, to apply to the same vectors in another search engine.

        Args:
            cut_off: The result of `cut_off`.
            ids: The items to search; the rule has one number of each.
        """
        means = np.asarray(self.near(ids)).tolist()
        return {
            **cut_off.as_dict(),
            "confidence": self.confidence,
            "spread": self.spread,
            "neighbours": NEIGHBOURS,
            "neighbourhood_means": dict(zip(ids, means, strict=True)),
        }

    def confidences(self, ids: Sequence[str], scores: FloatArray) -> FloatArray:
        """The confidence of each hit of one query; needs at least its ten best, best first."""
        row, nearness = np.asarray(scores, dtype=np.float64)[None], np.asarray(self.near(ids))[None]
        every = np.ones(row.shape, dtype=bool)
        return np.asarray(confidences_of(self.confidence, row, nearness, every, self.spread)[0])

    def cut(self, ranking: Ranking, cut_off: CutOff) -> Ranking:
        """The answers above the cut-off; a query may have none.

        Args:
            ranking: An exact ranking without a correction, with at least ten answers and the k of the cut-off.
            cut_off: The result of `cut_off`.
        """
        needed = max(cut_off.k, NEIGHBOURS)
        if ranking.depth < min(needed, ranking.n_candidates or 0):
            raise LimnerError(f"a cut-off needs the {needed} best answers of each query: got {ranking.depth}")
        places = [self._rows_above_cut_off(ranking, row, cut_off) for row in range(len(ranking.queries))]
        return _only(ranking, places, cut_off.k)

    def _rows_above_cut_off(self, ranking: Ranking, row: int, cut_off: CutOff) -> Array:
        places = ranking.indices[row][ranking.indices[row] >= 0]
        ids = [ranking.candidates[int(place)] for place in places]
        return self.above_cut_off(ids, np.asarray(ranking.scores)[row, : len(places)], cut_off)

    def above_cut_off(self, ids: Sequence[str], scores: FloatArray, cut_off: CutOff) -> Array:
        """The positions of the hits of one query that are shown, among its k best.

        Args:
            ids: At least its ten best hits, best first.
            scores: Their scores.
            cut_off: The result of `cut_off`.
        """
        return cut_off.reached(self.confidences(ids, scores))


def _uneven(answers: Answers) -> str:
    """A word on images with many more queries than others, each of which counts no more than the largest."""
    sizes = answers.sizes
    if sizes.max() <= 3 * sizes.mean():
        return ""
    return f" (with {sizes.mean():.1f} queries on average and up to {sizes.max():,}: leave out the largest)"


def _only(ranking: Ranking, places_of_rows: Sequence[Array], k: int) -> Ranking:
    """A ranking with only some of its entries."""
    indices = np.full((len(places_of_rows), k), -1, dtype=ranking.indices.dtype)
    scores = np.full(indices.shape, -np.inf, dtype=np.asarray(ranking.scores).dtype)
    for row, places in enumerate(places_of_rows):
        indices[row, : len(places)] = ranking.indices[row][places]
        scores[row, : len(places)] = np.asarray(ranking.scores)[row][places]
    return replace(ranking, indices=indices, scores=scores)


def calibrate(
    scores: Scores,
    judgements: Judgements,
    *,
    images: Iterable[object] | None = None,
    absent: float = ABSENT,
    seed: int = 0,
    progress: ProgressLike = None,
) -> Calibration:
    """Computes a calibration from judged queries.

    Args:
        scores: Scores of judged queries, of images drawn at random from those of future queries, against all items.
        judgements: The right answers.
        images: The image that each query belongs to, one label per query; queries of one image are not independent. By
            default all queries are independent.
        absent: The share of future queries that have no right answer.
        seed: Seed of the random bank.
        progress: Called with (queries done, queries in total).

    >>> rng = np.random.default_rng(0)
    >>> right, other = rng.standard_normal((2, 900, 16))
    >>> ids = range(900)
    >>> scores = Scores.from_embeddings(right + 0.5 * other, right)
    >>> known = calibrate(scores, Judgements.from_pairs((i, i) for i in ids))
    >>> cut = known.cut_off(0.9, k=1)
    >>> cut.threshold.answered > 0.2
    True
    """
    progress = as_progress(progress)
    labels = np.arange(len(scores.queries)) if images is None else np.unique(list(images), return_inverse=True)[1]
    if len(labels) != len(scores.queries):
        raise LimnerError(f"{len(labels):,} labels of {len(scores.queries):,} queries: expected one each")
    right = judgements.relevant
    judged = np.isin(np.arange(len(scores.queries)), scores.queries.find(right.queries)[np.unique(right.rows)])
    bank, test_rows = _parted(labels, judged, seed)
    rows = np.concatenate([bank[judged[bank]], test_rows])
    judged_scores = _some(scores, rows)
    judged_pairs = right.restrict(
        queries=judged_scores.queries, candidates=[c for c in scores.candidates if c in right.candidates]
    )
    bank_means, left_out = _bank_statistics(_some(scores, bank))
    lists = _judged_lists(judged_scores, judged_pairs, progress)
    nearness = bank_means[lists.places]
    proposing = np.arange(len(rows)) < len(rows) - len(test_rows)
    nearness[proposing] += left_out(lists.places[proposing], lists.scores[proposing])
    spread = max(float(np.median(lists.scores[:, :DEPTH].std(axis=1))), float(np.finfo(np.float32).tiny))
    choices: dict[Confidence, Answers] = {
        name: _answers(lists, nearness, name, spread, labels[rows], proposing) for name in ("share", "csls")
    }
    worth = {
        name: sum(answers.first(NEIGHBOURS).proposed_answered(each, absent=absent) for each in PROMISES)
        for name, answers in choices.items()
    }
    confidence = max(choices, key=lambda name: worth[name])
    positions = scores.candidates.positions
    return Calibration(
        choices[confidence], lambda ids: bank_means[positions(list(ids))], absent, confidence=confidence, spread=spread
    )


def judged_queries(collection: Collection, direction: str) -> tuple[Judgements, list[str]]:
    """The pairs that any judgements of a collection call relevant, and the image of each query.

    Args:
        collection: The collection.
        direction: "t2i" if texts are the queries, "i2t" if images are.
    """
    every = [collection.judged(name, direction).relevant for name in collection.all_judgements]
    if direction == "i2t":
        return reduce(or_, every), list(collection.images.ids)
    pairs = collection.judged(collection.judgements.name, "t2i").relevant
    written = {pairs.queries[int(r)]: pairs.candidates[int(c)] for r, c in zip(pairs.rows, pairs.columns, strict=True)}
    return reduce(or_, every), [written.get(key, key) for key in collection.texts.ids]


def _some(scores: Scores, rows: Array) -> Scores:
    return scores.restrict(queries=[scores.queries[int(row)] for row in rows])


def _parted(labels: Array, judged: Array, seed: int) -> tuple[Array, Array]:
    """Rows of the bank, and rows of the judged queries that test cut-offs; they share no images.

    Images come in random order until there are enough queries; the queries of the last one stay together.
    """
    order = np.random.default_rng(seed).permutation(int(labels.max(initial=-1)) + 1)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    by_rank = np.argsort(rank[labels], kind="stable")
    cut = len(order) // BANK_SHARE
    bank = by_rank[rank[labels[by_rank]] < cut]
    test_rows = by_rank[(rank[labels[by_rank]] >= cut) & judged[by_rank]]
    if not len(bank) or not len(test_rows):
        raise LimnerError(f"{int(judged.sum()):,} judged queries: expected a few hundred to calibrate a cut-off")

    def whole_images(rows: Array) -> Array:
        return np.sort(rows[rank[labels[rows]] <= rank[labels[rows[:MOST][-1]]]])

    return whole_images(bank), whole_images(test_rows)


def _bank_statistics(bank_scores: Scores) -> tuple[FloatArray, Callable[[Array, FloatArray], FloatArray]]:
    """The mean score of each item's nearest bank queries, and how it changes if a query is left out of the bank."""
    size = len(bank_scores.queries)
    k = min(NEIGHBOURS, size)

    def nearest(count: int) -> FloatArray:
        return np.asarray(correct(bank_scores, "csls", bank=bank_scores, k=count).statistics.known["near"], np.float64)

    means = nearest(k)
    following = (k + 1) * nearest(k + 1) - k * means if size > k else means  # the first score that is not in the mean

    def left_out(places: Array, scores: FloatArray) -> FloatArray:
        return np.where(scores > following[places], (following[places] - scores) / k, 0.0)

    return means, left_out


@dataclass(frozen=True, eq=False)
class _JudgedLists:
    """The best answers of judged queries: positions, scores, and which are right."""

    places: Array
    scores: FloatArray
    right: Array


def _judged_lists(judged_scores: Scores, right: Judgements, progress: Progress) -> _JudgedLists:
    """Lists that are long enough to leave `DEPTH` answers when the right ones are removed."""
    max_right = int(right.counts.max(initial=0))
    ranking = judged_scores.top(min(DEPTH + max_right, len(judged_scores.candidates)), progress=progress)
    places, scores = ranking.indices.astype(np.int64), np.asarray(ranking.scores, dtype=np.float64)
    columns = judged_scores.candidates.positions(right.candidates)
    rows = judged_scores.queries.positions(right.queries)
    right_cells = np.unique(rows[right.rows] * len(judged_scores.candidates) + columns[right.columns])
    cells = np.arange(len(places))[:, None] * len(judged_scores.candidates) + places
    return _JudgedLists(places, scores, np.isin(cells, right_cells))


def _answers(
    lists: _JudgedLists, nearness: FloatArray, confidence: Confidence, spread: float, labels: Array, proposing: Array
) -> Answers:
    """Confidences with and without the right answers, and which hits are right."""
    from limner.stats.selective import Answers

    every = np.ones(lists.right.shape, dtype=bool)
    as_is = confidences_of(confidence, lists.scores, nearness, every, spread)
    order = np.argsort(lists.right, axis=1, kind="stable")
    wrong, scores, nearness = (
        np.take_along_axis(each, order, axis=1) for each in (~lists.right, lists.scores, nearness)
    )
    confidence_without = confidences_of(confidence, scores, nearness, wrong, spread)
    return Answers(as_is[:, :DEPTH], lists.right[:, :DEPTH], confidence_without[:, :DEPTH], labels, proposing)


def confidences_of(
    confidence: Confidence, scores: FloatArray, nearness: FloatArray, counted: Array, spread: float
) -> FloatArray:
    """The confidences of hits, one row per query.

    `csls`: 2 s - n - mean of s over the ten best. `share`: the logarithm of exp(x) / sum of exp(x) over the ten best,
    with x = (2 s - n) / spread.

    Args:
        confidence: Which of the two.
        scores: The scores s, best first.
        nearness: The mean score n of each item's nearest bank queries.
        counted: Whether each hit is there; those that are not come last, and get -inf.
        spread: The typical standard deviation of the scores of a list.

    >>> scores, nearness = np.array([[0.9, 0.5]]), np.array([[0.4, 0.4]])
    >>> confidences_of("csls", scores, nearness, scores > 0, 1.0).round(2)
    array([[ 0.7, -0.1]])
    >>> confidences_of("share", scores, nearness, scores > 0, 0.2).round(2)
    array([[-0.02, -4.02]])
    """
    first = counted[:, :NEIGHBOURS]
    corrected = 2 * scores - nearness
    if confidence == "csls":
        mean = (scores[:, :NEIGHBOURS] * first).sum(axis=1) / np.maximum(first.sum(axis=1), 1)
        return np.where(counted, corrected - mean[:, None], -np.inf)
    scaled = corrected / spread
    best = np.where(first, scaled[:, :NEIGHBOURS], -np.inf)
    highest = best.max(axis=1, initial=-np.inf, keepdims=True)
    highest = np.where(np.isfinite(highest), highest, 0.0)
    total = np.exp(best - highest).sum(axis=1, keepdims=True)
    return np.where(counted, scaled - highest - np.log(np.maximum(total, np.finfo(np.float64).tiny)), -np.inf)


def confidence_of_sets(kind: SetConfidence, confidences: FloatArray) -> FloatArray:
    """The confidence that one of several hits is right, for each row of hits.

    >>> confidence_of_sets("best", np.array([[-1.0, -2.0]])), confidence_of_sets("sum", np.log([[0.5, 0.25]]))
    (array([-1.]), array([-0.28768207]))
    """
    if kind == "best":
        return np.asarray(confidences.max(axis=1, initial=-np.inf))
    return np.asarray(np.logaddexp.reduce(confidences, axis=1))
