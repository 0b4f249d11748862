"""The built-in corrections for hubs. Each takes two passes over the scores, or one, and memory for a few rows.

    corrected = scores.correct("csls")
    corrected = scores.correct("inverted_softmax", beta=20, bank=(train_images, train_texts))
    scores.correct("nnn").statistics.save("bank.npz");  live.correct("bank.npz")

The base class and the corrected scores are in `limner.scores.correction`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from limner.core.arrays import Array, IntArray
from limner.core.progress import ProgressLike, Stages, as_progress
from limner.match import _bank_statistics
from limner.scores import Scores
from limner.scores.base import Best
from limner.scores.correction import Correction, Grid, some_places
from limner.scores.parallel_blocks import Block, number_type

_SHARP = (30.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0)


@dataclass(frozen=True)
class Csls(Correction):
    """Cross-domain similarity local scaling: 2 s(i, t) - mean of the k best of t - mean of the k best of i.

    A candidate that is near everything is penalised by its own neighbourhood. Conneau et al. 2018; for image-text
    matching Liu & Ye 2019.

    >>> hub = Scores.from_matrix(np.array([[0.9, 0.8], [0.9, 0.1]]), ["a", "b"], ["hub", "fit"])
    >>> hub.top(1)["a"], hub.correct("csls", k=2).top(1)["a"]
    (['hub'], ['fit'])
    """

    grid: ClassVar[Grid] = MappingProxyType({"k": (10, 1, 2, 5, 20, 50)})
    k: int = 10

    @property
    def reach(self) -> float:
        """The bound for twice a score plus two means."""
        return 4.0

    def fits(self, queries: int) -> bool:
        """Whether the neighbourhood is not larger than the number of queries."""
        return self.k <= queries

    def gather(self, bank: Scores, *, progress: ProgressLike = None) -> dict[str, Array]:
        """Mean of the k best bank scores of each candidate."""
        progress = as_progress(progress)
        return {"near": _bank_statistics.mean_of_best(bank, self.k, limit=self.limit(bank), progress=progress)}

    def shift(self, statistics: Mapping[str, Array]) -> tuple[float, Array, int]:
        """Twice the score minus the mean of the candidate's neighbourhood and of the query's k best."""
        return 2.0, statistics["near"], self.k

    def apply(self, block: Block, statistics: Mapping[str, Array], rows: IntArray | None) -> Block:
        """Subtracts both neighbourhoods."""
        neighbourhoods = _bank_statistics.split(statistics["near"], 2.0, number_type(block))
        _bank_statistics.loops(block).subtract_neighbourhoods(block, *neighbourhoods, min(self.k, block.shape[1]))
        return block


@dataclass(frozen=True)
class InvertedSoftmax(Correction):
    """beta s(i, t) - log sum_{j != i} exp(beta s(j, t)): the share of candidate t that goes to query i.

    Smith et al. 2017; for image-text matching Liu & Ye 2019, with beta = 30. If the bank is not the queries themselves,
    the sum is over the whole bank.

    >>> hub = Scores.from_matrix(np.array([[0.9, 0.8], [0.9, 0.1]]), ["a", "b"], ["hub", "fit"])
    >>> hub.correct("inverted_softmax").top(1)["a"]
    ['fit']
    """

    grid: ClassVar[Grid] = MappingProxyType({"beta": _SHARP})
    beta: float = 30.0

    @property
    def reach(self) -> float:
        """The bound for beta times a score plus the logarithm of a sum."""
        return 4.0 * self.beta

    def gather(self, bank: Scores, *, progress: ProgressLike = None) -> dict[str, Array]:
        """The sums of each candidate with and without the highest term, its query, and values that identify queries."""
        progress = as_progress(progress)
        places = some_places(bank.shape[1])
        sums = _bank_statistics.log_sums(
            bank, self.beta, limit=self.limit(bank), stored_columns=places, progress=progress
        )
        return {
            "whole": _bank_statistics.neutral(sums.log_total),
            "without_owner": _bank_statistics.neutral(sums.without_owner),
            "owner": sums.owner,
            "seen": sums.seen,
        }

    def shift(self, statistics: Mapping[str, Array]) -> tuple[float, Array, int] | None:
        """The order of s - log(whole sum) / beta.

        With x = beta s - log(whole sum), the sum without the query's own term is the whole times 1 - exp(x). So the
        corrected score is x - log(1 - exp(x)), whose derivative 1 / (1 - exp(x)) is at least 1.
        """
        return (1.0, statistics["whole"] / self.beta, 0) if self.beta > 0 else None

    @property
    def rounding(self) -> float:
        """The error of exp and log in single precision (4e-6 at most), in units of the scores."""
        return 2.0**-16 / self.beta

    def apply(self, block: Block, statistics: Mapping[str, Array], rows: IntArray | None) -> Block:
        """Divides by the sum over the others, in log space."""
        if rows is None or not (rows >= 0).any():
            return _bank_statistics.shifted(block, self.beta, statistics["whole"])
        kind = number_type(block)
        places = np.full(max(int(statistics["owner"].max()), int(rows.max())) + 1, -1)
        places[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
        _bank_statistics.loops(block).share_of_others(
            block,
            kind.type(self.beta),
            *_bank_statistics.split(statistics["whole"], self.beta, kind),
            statistics["without_owner"],
            places[statistics["owner"]],
            rows >= 0,
        )
        return block


@dataclass(frozen=True)
class DualSoftmax(Correction):
    """The product of softmax over candidates and softmax over queries, in log space.

    2 beta s(i, t) - log sum_t' exp(beta s(i, t')) - log sum_j exp(beta s(j, t)). Cheng et al. 2021.

    >>> hub = Scores.from_matrix(np.array([[0.9, 0.89], [0.95, 0.1]]), ["a", "b"], ["hub", "fit"])
    >>> hub.correct("dual_softmax").top(1)["a"]
    ['fit']
    """

    grid: ClassVar[Grid] = MappingProxyType({"beta": _SHARP})
    beta: float = 30.0

    @property
    def reach(self) -> float:
        """The bound for twice beta times a score plus the logarithms of two sums."""
        return 8.0 * self.beta

    def gather(self, bank: Scores, *, progress: ProgressLike = None) -> dict[str, Array]:
        """The sum of each candidate over the bank."""
        progress = as_progress(progress)
        sums = _bank_statistics.log_sums(bank, self.beta, limit=self.limit(bank), progress=progress)
        return {"whole": _bank_statistics.neutral(sums.log_total)}

    def apply(self, block: Block, statistics: Mapping[str, Array], rows: IntArray | None) -> Block:
        """Divides by the sums of row and column."""
        return _bank_statistics.shifted(
            block, 2 * self.beta, statistics["whole"], _bank_statistics.row_log_sums(block, self.beta)
        )


@dataclass(frozen=True)
class DynamicInvertedSoftmax(Correction):
    """Inverted softmax for queries whose best candidate is also the best of some query in the bank (QB-Norm).

    A query whose nearest candidate is not a hub of the bank keeps its scores. Bogolin et al. 2022.

    >>> hub = Scores.from_matrix(np.array([[0.9, 0.8], [0.9, 0.1]]), ["a", "b"], ["hub", "fit"])
    >>> hub.correct("dynamic_inverted_softmax").top(1)["a"]
    ['fit']
    """

    grid: ClassVar[Grid] = MappingProxyType({"beta": (20.0, 5.0, 10.0, 30.0, 50.0, 100.0, 200.0)})
    beta: float = 20.0

    @property
    def reach(self) -> float:
        """The bound for beta times a score plus the logarithm of a sum."""
        return 4.0 * self.beta

    def gather(self, bank: Scores, *, progress: ProgressLike = None) -> dict[str, Array]:
        """The log-sum-exp of each candidate over the bank, and whether any query of the bank ranks it first."""
        stages = Stages(progress, sums=len(bank.queries), first=len(bank.queries))
        sums = _bank_statistics.log_sums(bank, self.beta, limit=self.limit(bank), progress=stages["sums"])
        active, first = np.zeros(bank.shape[1], dtype=bool), bank.top(1, progress=stages["first"])
        active[first.indices[np.asarray(first.scores) > -np.inf]] = True
        return {"whole": _bank_statistics.neutral(sums.log_total), "active": active}

    def apply(self, block: Block, statistics: Mapping[str, Array], rows: IntArray | None) -> Block:
        """Divides the rows whose best candidate is active, that is, first for some query of the bank."""
        first_choice, _ = Best(1)(0, block)
        chosen = np.flatnonzero(statistics["active"][first_choice[:, 0]])
        block[chosen] = _bank_statistics.shifted(block[chosen], self.beta, statistics["whole"])
        return block


@dataclass(frozen=True)
class Nnn(Correction):
    """Nearest neighbour normalisation: s(i, t) - alpha * mean of the k best bank scores of t. Chowdhury et al. 2024.

    >>> hub = Scores.from_matrix(np.array([[0.9, 0.8], [0.9, 0.1]]), ["a", "b"], ["hub", "fit"])
    >>> hub.correct("nnn", k=2).top(1)["a"]
    ['fit']
    """

    grid: ClassVar[Grid] = MappingProxyType({"k": (16, 1, 4, 64), "alpha": (0.75, 0.25, 0.5, 1.0)})
    k: int = 16
    alpha: float = 0.75

    @property
    def reach(self) -> float:
        """The bound for a score plus a share of a mean."""
        return 2.0 + self.alpha

    def fits(self, queries: int) -> bool:
        """Whether the neighbourhood is not larger than the number of queries."""
        return self.k <= queries

    def gather(self, bank: Scores, *, progress: ProgressLike = None) -> dict[str, Array]:
        """Mean of the k best bank scores of each candidate."""
        progress = as_progress(progress)
        return {"near": _bank_statistics.mean_of_best(bank, self.k, limit=self.limit(bank), progress=progress)}

    def shift(self, statistics: Mapping[str, Array]) -> tuple[float, Array, int]:
        """The score minus a share of the candidate's neighbourhood."""
        return 1.0, self.alpha * statistics["near"], 0

    def apply(self, block: Block, statistics: Mapping[str, Array], rows: IntArray | None) -> Block:
        """Subtracts a share of the candidate's neighbourhood."""
        return _bank_statistics.shifted(block, 1.0, self.alpha * statistics["near"])


@dataclass(frozen=True)
class Centred(Correction):
    """s(i, t) - alpha * mean of the bank scores of t: closes the modality gap (Liang et al. 2022).

    For dot products and alpha = 1, with mq the mean of the bank's queries and mc that of the candidates, this is
    (q - mq)(c - mc) plus a number that depends only on the query. The ranking is that of mean-centred vectors, each
    side with its own mean, without normalising them again.

    >>> hub = Scores.from_matrix(np.array([[0.9, 0.8], [0.9, 0.1]]), ["a", "b"], ["hub", "fit"])
    >>> hub.correct("centred").top(1)["a"]
    ['fit']
    """

    grid: ClassVar[Grid] = MappingProxyType({"alpha": (1.0, 0.25, 0.5, 0.75)})
    alpha: float = 1.0

    @property
    def reach(self) -> float:
        """The bound for a score plus a share of a mean."""
        return 2.0 + self.alpha

    def gather(self, bank: Scores, *, progress: ProgressLike = None) -> dict[str, Array]:
        """Mean of the bank scores of each candidate."""
        progress = as_progress(progress)
        return {"mean": _bank_statistics.means(bank, limit=self.limit(bank), progress=progress)}

    def shift(self, statistics: Mapping[str, Array]) -> tuple[float, Array, int]:
        """The score minus a share of the candidate's mean."""
        return 1.0, self.alpha * statistics["mean"], 0

    def apply(self, block: Block, statistics: Mapping[str, Array], rows: IntArray | None) -> Block:
        """Subtracts a share of the candidate's mean."""
        return _bank_statistics.shifted(block, 1.0, self.alpha * statistics["mean"])


@dataclass(frozen=True)
class Sinkhorn(Correction):
    """Balanced marginals: u_i + v_t + beta s(i, t), with u and v such that its exp has equal row and column sums.

    Each round is one pass: rows are normalised with the v so far, then columns (Sinkhorn 1964; Cuturi 2013). A live
    query is normalised along its own row with the bank's v.

    >>> hub = Scores.from_matrix(np.array([[0.9, 0.8], [0.9, 0.1]]), ["a", "b"], ["hub", "fit"])
    >>> hub.correct("sinkhorn").top(1)["a"]
    ['fit']
    """

    grid: ClassVar[Grid] = MappingProxyType({"beta": _SHARP, "rounds": (5, 1, 20)})
    beta: float = 30.0
    rounds: int = 5

    @property
    def reach(self) -> float:
        """The bound for beta times a score plus the potentials of all rounds."""
        return 4.0 * self.beta * (self.rounds + 1)

    def gather(self, bank: Scores, *, progress: ProgressLike = None) -> dict[str, Array]:
        """v after all rounds."""
        potential, limit = np.zeros(bank.shape[1]), self.limit(bank)
        stages = Stages(progress, **{str(number): len(bank.queries) for number in range(self.rounds)})
        for number in range(self.rounds):
            step = stages[str(number)]
            log_totals = _bank_statistics.log_sums(
                bank, self.beta, limit=limit, shift=potential, progress=step
            ).log_total
            finite = log_totals > -np.inf
            potential = potential - np.where(finite, log_totals, 0.0)
        return {"potential": _bank_statistics.neutral(np.where(finite, potential, -np.inf))}

    def apply(self, block: Block, statistics: Mapping[str, Array], rows: IntArray | None) -> Block:
        """Adds v and normalises rows."""
        return _bank_statistics.normalised_rows(block, self.beta, statistics["potential"])
