"""Corrections for hubs: `Scores -> Scores`, each in two streaming passes and a few rows of extra memory.

A correction looks at each candidate through the eyes of a *bank* of queries: the test queries themselves by default,
or training queries, or statistics saved earlier, with which a single live query can be corrected too.

    corrected = scores.correct("csls")
    corrected = scores.correct("inverted_softmax", beta=20, bank=(train_images, train_texts))
    scores.correct("nnn").statistics.save("bank.npz");  live.correct("bank.npz")
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from limner.embeddings import Embeddings
from limner.errors import LimnerError, UnknownName
from limner.files import replacing
from limner.ids import Ids
from limner.match import _columns
from limner.paths import damage_told, parse_json, read_arrays
from limner.scores import Best, Block, Scores, number_type

if TYPE_CHECKING:
    from limner.collection import Collection

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Correction(ABC):
    """The options of one correction, what it must know of each candidate, and how it changes a block of scores."""

    @abstractmethod
    def gather(self, bank: Scores) -> dict[str, Array]:
        """One pass over the bank: numbers per candidate, by name."""

    @abstractmethod
    def apply(self, block: Block, known: Mapping[str, Array], first: int | None) -> Block:
        """Corrected scores of a block.

        Args:
            block: Scores of some queries; may be changed in place.
            known: What `gather` found.
            first: The place of the block's first query in the bank, where the bank is the queries themselves.
        """

    @property
    def name(self) -> str:
        """Its name in `CORRECTIONS`."""
        return next(name for name, kind in CORRECTIONS.items() if kind is type(self))

    def __post_init__(self) -> None:
        """Refuses options that are not above 0."""
        for option, value in asdict(self).items():
            if not isinstance(value, (int, float)) or not value > 0:
                raise LimnerError(f"{self.name}: option {option} is {value!r}, expected a number above 0")


@dataclass(frozen=True)
class Csls(Correction):
    """Cross-domain similarity local scaling: 2 s(i, t) - mean of the k best of t - mean of the k best of i.

    A candidate that is near to everything loses what its neighbours give it. Conneau et al. 2018; for image-text
    matching Liu & Ye 2019.

    >>> hub = Scores.from_matrix(np.array([[0.9, 0.8], [0.9, 0.1]]), ["a", "b"], ["hub", "fit"])
    >>> hub.top(1)["a"], hub.correct("csls", k=2).top(1)["a"]
    (['hub'], ['fit'])
    """

    k: int = 10

    def gather(self, bank: Scores) -> dict[str, Array]:
        """Mean of the k best bank scores of each candidate."""
        return {"near": _columns.mean_of_best(bank, self.k)}

    def apply(self, block: Block, known: Mapping[str, Array], first: int | None) -> Block:
        """Subtracts both neighbourhoods."""
        near, k = known["near"].astype(number_type(block)), min(self.k, block.shape[1])
        _columns.loops(block).subtract_neighbourhoods(block, near, k)
        return block


@dataclass(frozen=True)
class InvertedSoftmax(Correction):
    """beta s(i, t) - log sum_{j != i} exp(beta s(j, t)): how much of candidate t's attention query i gets.

    Smith et al. 2017; for image-text matching Liu & Ye 2019, with beta = 30. With a bank that is not the queries
    themselves, the sum is over the whole bank.

    >>> hub = Scores.from_matrix(np.array([[0.9, 0.8], [0.9, 0.1]]), ["a", "b"], ["hub", "fit"])
    >>> hub.correct("inverted_softmax").top(1)["a"]
    ['fit']
    """

    beta: float = 30.0

    def gather(self, bank: Scores) -> dict[str, Array]:
        """The sums of each candidate, its highest term apart."""
        sums = _columns.log_sums(bank, self.beta)
        return {"whole": sums.whole, "without_owner": sums.without_owner, "owner": sums.owner}

    def apply(self, block: Block, known: Mapping[str, Array], first: int | None) -> Block:
        """Divides by the sum over the others, in log space."""
        if first is None:
            return _columns.shifted(block, self.beta, known["whole"])
        kind = number_type(block)
        others = known["whole"].astype(kind), known["without_owner"], known["owner"]
        _columns.loops(block).share_of_others(block, kind.type(self.beta), *others, first)
        return block


@dataclass(frozen=True)
class DualSoftmax(Correction):
    """The product of softmax over candidates and softmax over queries, in log space.

    2 beta s(i, t) - log sum_t' exp(beta s(i, t')) - log sum_j exp(beta s(j, t)). Cheng et al. 2021.

    >>> hub = Scores.from_matrix(np.array([[0.9, 0.89], [0.95, 0.1]]), ["a", "b"], ["hub", "fit"])
    >>> hub.correct("dual_softmax").top(1)["a"]
    ['fit']
    """

    beta: float = 30.0

    def gather(self, bank: Scores) -> dict[str, Array]:
        """The sum of each candidate over the bank."""
        return {"whole": _columns.log_sums(bank, self.beta).whole}

    def apply(self, block: Block, known: Mapping[str, Array], first: int | None) -> Block:
        """Divides by the sums of row and column."""
        rows = _columns.row_log_sums(block, self.beta)
        return _columns.shifted(block, 2 * self.beta, known["whole"], rows)


@dataclass(frozen=True)
class DynamicInvertedSoftmax(Correction):
    """Inverted softmax, only for queries whose best candidate is the best of some query of the bank (QB-Norm).

    A query whose nearest candidate is no hub of the bank keeps its scores. Bogolin et al. 2022.

    >>> hub = Scores.from_matrix(np.array([[0.9, 0.8], [0.9, 0.1]]), ["a", "b"], ["hub", "fit"])
    >>> hub.correct("dynamic_inverted_softmax").top(1)["a"]
    ['fit']
    """

    beta: float = 20.0

    def gather(self, bank: Scores) -> dict[str, Array]:
        """The sum of each candidate, and whether any query of the bank has it first."""
        active = np.zeros(bank.shape[1], dtype=bool)
        active[bank.top(1).indices[:, 0]] = True
        return {"whole": _columns.log_sums(bank, self.beta).whole, "active": active}

    def apply(self, block: Block, known: Mapping[str, Array], first: int | None) -> Block:
        """Divides the rows whose best candidate is active."""
        first_choice, _ = Best(1)(0, block)
        rows = np.flatnonzero(known["active"][first_choice[:, 0]])
        block[rows] = _columns.shifted(block[rows], self.beta, known["whole"])
        return block


@dataclass(frozen=True)
class Nnn(Correction):
    """Nearest neighbour normalisation: s(i, t) - alpha * mean of the k best bank scores of t. Chowdhury et al. 2024.

    >>> hub = Scores.from_matrix(np.array([[0.9, 0.8], [0.9, 0.1]]), ["a", "b"], ["hub", "fit"])
    >>> hub.correct("nnn", k=2).top(1)["a"]
    ['fit']
    """

    k: int = 16
    alpha: float = 0.75

    def gather(self, bank: Scores) -> dict[str, Array]:
        """Mean of the k best bank scores of each candidate."""
        return {"near": _columns.mean_of_best(bank, self.k)}

    def apply(self, block: Block, known: Mapping[str, Array], first: int | None) -> Block:
        """Subtracts a share of the candidate's neighbourhood."""
        return _columns.shifted(block, 1.0, self.alpha * known["near"])


@dataclass(frozen=True)
class Sinkhorn(Correction):
    """Balanced marginals: u_i + v_t + beta s(i, t), with u and v such that rows and columns of its exp sum up evenly.

    Each round is one pass: rows are normalised with the v so far, then columns (Sinkhorn 1964; Cuturi 2013). A live
    query is normalised along its own row with the bank's v.

    >>> hub = Scores.from_matrix(np.array([[0.9, 0.8], [0.9, 0.1]]), ["a", "b"], ["hub", "fit"])
    >>> hub.correct("sinkhorn").top(1)["a"]
    ['fit']
    """

    beta: float = 30.0
    rounds: int = 5

    def gather(self, bank: Scores) -> dict[str, Array]:
        """v after all rounds."""
        potential = np.zeros(bank.shape[1])
        for _ in range(self.rounds):
            potential = potential - _columns.log_sums(bank, self.beta, shift=potential).whole
        return {"potential": potential}

    def apply(self, block: Block, known: Mapping[str, Array], first: int | None) -> Block:
        """Adds v and normalises rows."""
        return _columns.normalised_rows(block, self.beta, known["potential"])


CORRECTIONS: Mapping[str, type[Correction]] = MappingProxyType(
    {
        "csls": Csls,
        "inverted_softmax": InvertedSoftmax,
        "dual_softmax": DualSoftmax,
        "dynamic_inverted_softmax": DynamicInvertedSoftmax,
        "nnn": Nnn,
        "sinkhorn": Sinkhorn,
    }
)
"""All corrections by name."""


@dataclass(frozen=True, eq=False)
class Statistics:
    """What a correction knows of each candidate: enough to correct any further query.

    Args:
        correction: The correction with its options.
        candidates: The candidates the numbers belong to.
        known: Numbers per candidate, by name.
        own: Whether the bank was the scores' own queries (their own terms are then taken out).
    """

    correction: Correction
    candidates: Ids
    known: Mapping[str, Array]
    own: bool = False

    def save(self, path: str | Path) -> Path:
        """Writes an npz file; `load` reads it, and `scores.correct(path)` applies it."""
        target = Path(path)
        head = {"correction": self.correction.name, **asdict(self.correction)}
        arrays: dict[str, Any] = {"candidates": np.array(list(self.candidates), dtype=np.str_), **self.known}
        with replacing(target) as draft, draft.open("wb") as file:
            np.savez(file, head=np.array(json.dumps(head)), **arrays)
        return target

    @classmethod
    def load(cls, path: str | Path) -> Statistics:
        """Reads statistics that were saved."""
        if not Path(path).exists():
            raise LimnerError(f"no saved statistics {path}: make them with scores.correct(...).statistics.save(...)")
        arrays = read_arrays(path, what="statistics of a correction")
        with damage_told(path, what="file of statistics", mend="gather them again"):
            head = parse_json(str(arrays.pop("head")), where=f"statistics of a correction {path}")
            candidates = Ids(arrays.pop("candidates").tolist(), what="candidate")
            return cls(named(head.pop("correction"), **head), candidates, arrays)


def named(name: str, **options: Any) -> Correction:
    """A correction by name; refuses unknown names and options."""
    if name not in CORRECTIONS:
        raise UnknownName("correction", name, CORRECTIONS)
    allowed = [f.name for f in fields(CORRECTIONS[name])]
    for option in options:
        if option not in allowed:
            raise UnknownName(f"option of {name}", option, allowed)
    return CORRECTIONS[name](**options)


Bank = tuple[Embeddings, Embeddings] | Embeddings | Scores | Statistics


@dataclass(frozen=True, eq=False)
class CorrectedScores(Scores):
    """Scores seen through a correction; statistics are gathered on first use, blocks are corrected as they are read."""

    base: Scores
    correction: Correction
    bank: Bank | None = None

    def __post_init__(self) -> None:
        """Takes over the ids."""
        object.__setattr__(self, "queries", self.base.queries)
        object.__setattr__(self, "candidates", self.base.candidates)

    @property
    def dtype(self) -> np.dtype[Any]:
        """As the scores below."""
        return self.base.dtype

    @cached_property
    def statistics(self) -> Statistics:
        """What the bank says of each candidate."""
        if isinstance(self.bank, Statistics):
            if self.bank.candidates != self.candidates:
                raise LimnerError(
                    f"saved statistics are of {len(self.bank.candidates)} candidates, the scores of "
                    f"{len(self.candidates)}, or in another order: gather them again for these candidates"
                )
            return self.bank
        bank = self._bank_scores()
        if bank.shape[0] < 2:
            raise LimnerError(
                f"a bank of {bank.shape[0]} query: expected two or more; give training queries as the bank"
            )
        return Statistics(self.correction, self.candidates, self.correction.gather(bank), own=self.bank is None)

    def _bank_scores(self) -> Scores:
        if self.bank is None:
            return self.base
        if isinstance(self.bank, Scores):
            if self.bank.candidates != self.candidates:
                raise LimnerError(
                    "the bank scores other candidates than these: give scores of its queries against the same ones"
                )
            return self.bank
        queries = self.bank[0] if isinstance(self.bank, tuple) else self.bank
        with_queries = getattr(self.base, "with_queries", None)
        if with_queries is None:
            raise LimnerError(
                "a bank of embeddings needs scores from embeddings: give Scores of the bank's queries instead"
            )
        return cast(Scores, with_queries(queries))

    @property
    def T(self) -> CorrectedScores:
        """The same correction in the other direction, with the other side of the bank."""
        if self.bank is None:
            return CorrectedScores(self.base.T, self.correction)
        if isinstance(self.bank, tuple):
            return CorrectedScores(self.base.T, self.correction, self.bank[::-1])
        raise LimnerError(
            "this bank knows one direction only: give bank=(embeddings of bank queries, embeddings of bank candidates) "
            "for both, or correct each direction on its own"
        )

    def prepare(self) -> None:
        """Gathers the statistics, those of the scores below first."""
        self.base.prepare()
        _ = self.statistics

    @property
    def block_rows(self) -> int:
        """As the scores below."""
        return self.base.block_rows

    def memory(self) -> Any:
        """As the scores below."""
        return self.base.memory()

    def workers(self, wanted: int | None) -> AbstractContextManager[Callable[..., Iterator[Any]]]:
        """As the scores below."""
        return self.base.workers(wanted)

    def block(self, start: int, stop: int, out: npt.NDArray[np.float32] | None = None) -> Block:
        """Corrected scores of these queries."""
        statistics = self.statistics
        return self.correction.apply(
            self.base.block(start, stop, out), statistics.known, start if statistics.own else None
        )


def correct(
    scores: Scores,
    how: str | Path | Correction | Statistics,
    *,
    bank: Bank | None = None,
    tune: tuple[Scores, Collection] | None = None,
    **options: Any,
) -> CorrectedScores:
    """Corrected scores.

    Args:
        scores: What to correct.
        how: A name in `CORRECTIONS`, a correction, statistics, or the file of saved statistics.
        bank: Whose view of the candidates counts: None for the queries themselves; embeddings of other queries (and of
            other candidates, for both directions); scores of other queries; saved statistics.
        tune: Scores and collection of a dev split, on which options that are not given are chosen; see
            `limner.match.tune`.
        options: Options of the named correction.
    """
    if isinstance(how, Statistics):
        return CorrectedScores(scores, how.correction, how)
    if isinstance(how, Correction):
        return CorrectedScores(scores, how, bank)
    if str(how).endswith(".npz"):
        return correct(scores, Statistics.load(how))
    if tune is not None:
        from limner.match.tuning import tune as tuned

        options = dict(tuned(str(how), *tune, fixed=options))
    return CorrectedScores(scores, named(str(how), **options), bank)
