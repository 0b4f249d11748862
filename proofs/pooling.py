"""Pooling bias on Flickr8k: answers that the ranking paper's crowd would have judged, had its systems returned them.

Hodosh, Young & Hockenmaier (2013), section 4.3.2: the crowd judged pairs that one of the paper's thirty systems
returned among its first ten, where BLEU with stems and without stop words (BLEU-pre) is at least 0.25; pairs below this
filter count as not relevant. So a first answer of another system is judged; or not judged and below the filter, as for
the paper's own systems; or not judged although it passes, because none of the thirty systems returned it. Only the last
kind is pooling bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from limner.core.collection import Collection
from limner.core.judgements import Judgements
from limner.evaluation.protocols import HALF_OF_THE_VOTES
from limner.language.overlap import bleu_table, content_words

FILTER = 0.25
"""The lowest BLEU-pre of a pair that the crowd was asked about."""
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Bias:
    """The first answers by kind, in percent, and R-precision in percent: as judged, and if the last kind were right."""

    judged: float
    below_filter: float
    never_judged: float
    precision: float
    if_right: float


@dataclass(frozen=True)
class Pool:
    """Of each image (rows) and caption: whether it was judged, is relevant, and passes the filter."""

    judged: Mask
    relevant: Mask
    passes: Mask

    @classmethod
    def of(cls, test: Collection, references: Sequence[Sequence[str]]) -> Pool:
        """The test pool with one caption for each image.

        Args:
            test: Images and captions with the crowd's votes.
            references: The five captions of each image.
        """
        crowd = test.ratings["crowd"].restrict(queries=test.images.ids, candidates=test.texts.ids)
        own = _mask(test.judgements.relevant)
        passes = bleu_table(list(test.texts.values), references, words=content_words).T >= FILTER
        return cls(own | _mask(crowd), own | _mask(crowd.at_least(HALF_OF_THE_VOTES).relevant), passes)

    @property
    def T(self) -> Pool:
        """Captions by images."""
        return Pool(self.judged.T, self.relevant.T, self.passes.T)

    def bias(self, scores: npt.NDArray[np.floating], *, depth: int = 10) -> Bias:
        """What was judged of the first answers of each row.

        Args:
            scores: Queries by candidates.
            depth: How many answers of each query count.
        """
        order = np.argsort(-scores, axis=1, kind="stable")
        first = order[:, :depth]
        judged, passes = (np.take_along_axis(mask, first, axis=1) for mask in (self.judged, self.passes))
        never = ~judged & passes
        right = self.relevant.copy()
        np.put_along_axis(right, first, np.take_along_axis(right, first, axis=1) | never, axis=1)
        shares = (100 * float(mask.mean()) for mask in (judged, ~judged & ~passes, never))
        return Bias(*shares, r_precision(self.relevant, order), r_precision(right, order))


def first_answers(scores: npt.NDArray[np.floating], *, depth: int = 10) -> Mask:
    """Which candidates are among the first of each row.

    Args:
        scores: Queries by candidates.
        depth: How many answers of each query count.
    """
    found = np.zeros(scores.shape, dtype=bool)
    np.put_along_axis(found, np.argsort(-scores, axis=1, kind="stable")[:, :depth], True, axis=1)
    return found


def r_precision(relevant: Mask, order: npt.NDArray[np.integer]) -> float:
    """The mean share of relevant candidates among the first R, where R is their number; in percent."""
    held = np.take_along_axis(relevant, order, axis=1)
    sizes = relevant.sum(axis=1)
    inside = np.arange(held.shape[1])[None] < sizes[:, None]
    return 100 * float(((held & inside).sum(axis=1) / sizes).mean())


def _mask(judgements: Judgements) -> Mask:
    """Which pairs are in judgements."""
    found = np.zeros((len(judgements.queries), len(judgements.candidates)), dtype=bool)
    found[judgements.rows, judgements.columns] = True
    return found
