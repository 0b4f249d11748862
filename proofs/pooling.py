"""Pooling bias on Flickr8k: answers that the ranking paper's crowd would have judged, had its systems returned them.

Hodosh, Young & Hockenmaier (2013), section 4.3.2: the crowd judged pairs that one of the paper's thirty systems
returned among its first ten, where BLEU with stems and without stop words (BLEU-pre) is at least 0.25; pairs below this
filter count as not relevant. So a first answer of another system is judged; or not judged and below the filter, as for
the paper's own systems; or not judged although it passes, because none of the thirty systems returned it. Only the last
kind is pooling bias. R-precision if all of these were right is an upper bound. What is to be expected of them is what
people said of judged answers that are like them: of the same BLEU-pre, and of the same system at a similar rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from limner.core.collection import Collection
from limner.core.judgements import Judgements
from limner.evaluation.protocols import HALF_OF_THE_VOTES
from limner.language.word_overlap import bleu_table, content_words

FILTER = 0.25
"""The lowest BLEU-pre of a pair that the crowd was asked about."""
BANDS = (FILTER, 0.3, 0.4, 0.5, 0.6, 0.75)
"""Where bands of BLEU-pre begin."""
RANKS = (1, 3, 6)
"""Where groups of ranks begin."""
DRAWS = 200
Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Bias:
    """The first answers by kind, in percent, and R-precision in percent: as judged, and if the last kind were right."""

    judged: float
    below_filter: float
    never_judged: float
    precision: float
    if_right: float


@dataclass(frozen=True)
class Rates:
    """Of the judged pairs in each cell: how many there are, and how many of them are relevant."""

    judged: npt.NDArray[np.int64]
    right: npt.NDArray[np.int64]

    @property
    def share(self) -> Floats:
        """Relevant ones among the judged; those of the whole band where a cell has none, 0 where the band has none."""
        judged, right = np.atleast_2d(self.judged), np.atleast_2d(self.right)
        bands = right.sum(axis=0) / np.maximum(judged.sum(axis=0), 1)
        return np.where(judged > 0, right / np.maximum(judged, 1), bands).reshape(self.judged.shape)


@dataclass(frozen=True)
class Pool:
    """Of each image (rows) and caption: whether it was judged, is relevant, is an original, and its BLEU-pre."""

    judged: Mask
    relevant: Mask
    own: Mask
    overlap: Floats

    @property
    def passes(self) -> Mask:
        """Which pairs pass the filter."""
        return self.overlap >= FILTER

    @classmethod
    def of(cls, test: Collection, references: Sequence[Sequence[str]]) -> Pool:
        """The test pool with one caption for each image.

        Args:
            test: Images and captions with the crowd's votes.
            references: The five captions of each image.
        """
        crowd = test.ratings["crowd"].restrict(queries=test.images.ids, candidates=test.texts.ids)
        originals = _mask(test.judgements.relevant)
        overlap = bleu_table(list(test.texts.values), references, words=content_words).T
        relevant = originals | _mask(crowd.at_least(HALF_OF_THE_VOTES).relevant)
        return cls(originals | _mask(crowd), relevant, originals, np.asarray(overlap, dtype=np.float64))

    @property
    def T(self) -> Pool:
        """Captions by images."""
        return Pool(self.judged.T, self.relevant.T, self.own.T, self.overlap.T)

    def rates(self) -> Rates:
        """By band of BLEU-pre, of all judged pairs that pass the filter and are no originals."""
        filtered = self.judged & self.passes & ~self.own
        band, count = _group(BANDS, self.overlap[filtered]), len(BANDS)
        return Rates(np.bincount(band, minlength=count), np.bincount(band[self.relevant[filtered]], minlength=count))

    def rates_of(self, scores: npt.NDArray[np.floating], *, depth: int = 10) -> Rates:
        """The same of one system's first answers, by group of ranks (rows) and band.

        Args:
            scores: Queries by candidates.
            depth: How many answers of each query count.
        """
        first = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
        top_masks = (
            np.take_along_axis(m, first, axis=1) for m in (self.judged & self.passes & ~self.own, self.relevant)
        )
        filtered, right = top_masks
        at = self._cells(first)
        counts = (np.bincount(at[mask], minlength=len(RANKS) * len(BANDS)) for mask in (filtered, filtered & right))
        judged, relevant = (each.reshape(len(RANKS), len(BANDS)) for each in counts)
        return Rates(judged, relevant)

    def chances(self, scores: npt.NDArray[np.floating], rates: Rates, *, depth: int = 10) -> Floats:
        """Of each pair how likely it is to be right: 0 but for answers that pass the filter and were never judged.

        Args:
            scores: Queries by candidates.
            rates: By band, or by group of ranks and band.
            depth: How many answers of each query count.
        """
        first = np.argsort(-scores, axis=1, kind="stable")[:, :depth]
        unjudged = np.take_along_axis(~self.judged & self.passes, first, axis=1)
        share = np.broadcast_to(np.atleast_2d(rates.share), (len(RANKS), len(BANDS)))
        likelihood = np.zeros(scores.shape)
        np.put_along_axis(likelihood, first, np.where(unjudged, share.ravel()[self._cells(first)], 0.0), axis=1)
        return likelihood

    def expected(self, scores: npt.NDArray[np.floating], chances: Floats, *, draws: int = DRAWS) -> float:
        """R-precision in percent, the mean over draws of which of the never judged answers are right.

        Args:
            scores: Queries by candidates.
            chances: Of each pair how likely it is to be right.
            draws: How many draws.
        """
        rng = np.random.default_rng(0)
        order = np.argsort(-scores, axis=1, kind="stable")
        drawn = (self.relevant | (rng.random(chances.shape) < chances) for _ in range(draws))
        return float(np.mean([r_precision(right, order) for right in drawn]))

    def _cells(self, first: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """The cell of ranks and bands of each first answer."""
        bands = _group(BANDS, np.take_along_axis(self.overlap, first, axis=1))
        ranks = _group(RANKS, np.arange(1, first.shape[1] + 1))
        return np.asarray(ranks[None] * len(BANDS) + bands, dtype=np.int64)

    def bias(self, scores: npt.NDArray[np.floating], *, depth: int = 10) -> Bias:
        """What was judged of the first answers of each row.

        Args:
            scores: Queries by candidates.
            depth: How many answers of each query count.
        """
        order = np.argsort(-scores, axis=1, kind="stable")
        first = order[:, :depth]
        judged, passes = (np.take_along_axis(mask, first, axis=1) for mask in (self.judged, self.passes))
        unjudged = ~judged & passes
        right = self.relevant.copy()
        np.put_along_axis(right, first, np.take_along_axis(right, first, axis=1) | unjudged, axis=1)
        shares = (100 * float(mask.mean()) for mask in (judged, ~judged & ~passes, unjudged))
        return Bias(*shares, r_precision(self.relevant, order), r_precision(right, order))


def first_answers(scores: npt.NDArray[np.floating], *, depth: int = 10) -> Mask:
    """Which candidates are among the first of each row.

    Args:
        scores: Queries by candidates.
        depth: How many answers of each query count.
    """
    is_first = np.zeros(scores.shape, dtype=bool)
    np.put_along_axis(is_first, np.argsort(-scores, axis=1, kind="stable")[:, :depth], True, axis=1)
    return is_first


def r_precision(relevant: Mask, order: npt.NDArray[np.integer]) -> float:
    """The mean share of relevant candidates among the first R, where R is their number; in percent."""
    ranked_relevance = np.take_along_axis(relevant, order, axis=1)
    sizes = relevant.sum(axis=1)
    inside = np.arange(ranked_relevance.shape[1])[None] < sizes[:, None]
    return 100 * float(((ranked_relevance & inside).sum(axis=1) / sizes).mean())


def _group(begins: Sequence[float], values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The group of each value; what lies below the first counts to it."""
    return np.maximum(np.searchsorted(begins, values, side="right") - 1, 0)


def _mask(judgements: Judgements) -> Mask:
    """Which pairs are in judgements."""
    mask = np.zeros((len(judgements.queries), len(judgements.candidates)), dtype=bool)
    mask[judgements.rows, judgements.columns] = True
    return mask
