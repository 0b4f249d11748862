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

from limner.core.arrays import array
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.files import replacing
from limner.core.ids import Ids, IntArray
from limner.core.paths import damage_told, parse_json, read_arrays
from limner.match import _columns
from limner.match._columns import Limit
from limner.scores import Best, Block, Scores, number_type, on_host

if TYPE_CHECKING:
    from limner.core.collection import Collection

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Correction(ABC):
    """The options of one correction, what it must know of each candidate, and how it changes a block of scores."""

    @abstractmethod
    def gather(self, bank: Scores) -> dict[str, Array]:
        """One pass over the bank: numbers per candidate, by name."""

    @abstractmethod
    def apply(self, block: Block, known: Mapping[str, Array], rows: IntArray | None) -> Block:
        """Corrected scores of a block; a score of -inf stays -inf.

        Args:
            block: Scores of some queries; may be changed in place.
            known: What `gather` found.
            rows: Which of the bank's queries each of these is, -1 for none; None where the whole bank counts.
        """

    @property
    @abstractmethod
    def reach(self) -> float:
        """How many times the largest score a corrected score may be."""

    def limit(self, scores: Scores) -> Limit:
        """What it refuses of these scores."""
        return Limit.of(scores, self.reach)

    @property
    def name(self) -> str:
        """Its name in `CORRECTIONS`."""
        return next(name for name, kind in CORRECTIONS.items() if kind is type(self))

    def __post_init__(self) -> None:
        """Refuses options that are not above 0, and parts of whole numbers."""
        for each in fields(self):
            value, whole = getattr(self, each.name), each.type == "int"
            if not isinstance(value, (int, float)) or not 0 < value < np.inf or (whole and value != int(value)):
                kind = "whole number" if whole else "number"
                raise LimnerError(f"{self.name}: option {each.name} is {value!r}, expected a {kind} above 0")
            object.__setattr__(self, each.name, int(value) if whole else float(value))

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value:g}' for name, value in asdict(self).items())})"


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

    @property
    def reach(self) -> float:
        """Twice a score and two means."""
        return 4.0

    def gather(self, bank: Scores) -> dict[str, Array]:
        """Mean of the k best bank scores of each candidate."""
        return {"near": _columns.mean_of_best(bank, self.k, limit=self.limit(bank))}

    def apply(self, block: Block, known: Mapping[str, Array], rows: IntArray | None) -> Block:
        """Subtracts both neighbourhoods."""
        near = _columns.split(known["near"], 2.0, number_type(block))
        _columns.loops(block).subtract_neighbourhoods(block, *near, min(self.k, block.shape[1]))
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

    @property
    def reach(self) -> float:
        """beta times a score, and as much for the sum."""
        return 4.0 * self.beta

    def gather(self, bank: Scores) -> dict[str, Array]:
        """The sums of each candidate with and without the highest term, whose that is, and how to tell the queries."""
        places = _some(bank.shape[1])
        sums = _columns.log_sums(bank, self.beta, limit=self.limit(bank), seen=places)
        return {
            "whole": _columns.neutral(sums.whole),
            "without_owner": _columns.neutral(sums.without_owner),
            "owner": sums.owner,
            "seen": sums.seen,
        }

    def apply(self, block: Block, known: Mapping[str, Array], rows: IntArray | None) -> Block:
        """Divides by the sum over the others, in log space."""
        if rows is None or not (rows >= 0).any():
            return _columns.shifted(block, self.beta, known["whole"])
        kind = number_type(block)
        places = np.full(max(int(known["owner"].max()), int(rows.max())) + 1, -1)
        places[rows[rows >= 0]] = np.flatnonzero(rows >= 0)
        _columns.loops(block).share_of_others(
            block,
            kind.type(self.beta),
            *_columns.split(known["whole"], self.beta, kind),
            known["without_owner"],
            places[known["owner"]],
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

    beta: float = 30.0

    @property
    def reach(self) -> float:
        """Twice beta times a score, and as much for the sums."""
        return 8.0 * self.beta

    def gather(self, bank: Scores) -> dict[str, Array]:
        """The sum of each candidate over the bank."""
        return {"whole": _columns.neutral(_columns.log_sums(bank, self.beta, limit=self.limit(bank)).whole)}

    def apply(self, block: Block, known: Mapping[str, Array], rows: IntArray | None) -> Block:
        """Divides by the sums of row and column."""
        return _columns.shifted(block, 2 * self.beta, known["whole"], _columns.row_log_sums(block, self.beta))


@dataclass(frozen=True)
class DynamicInvertedSoftmax(Correction):
    """Inverted softmax, only for queries whose best candidate is the best of some query of the bank (QB-Norm).

    A query whose nearest candidate is no hub of the bank keeps its scores. Bogolin et al. 2022.

    >>> hub = Scores.from_matrix(np.array([[0.9, 0.8], [0.9, 0.1]]), ["a", "b"], ["hub", "fit"])
    >>> hub.correct("dynamic_inverted_softmax").top(1)["a"]
    ['fit']
    """

    beta: float = 20.0

    @property
    def reach(self) -> float:
        """beta times a score, and as much for the sum."""
        return 4.0 * self.beta

    def gather(self, bank: Scores) -> dict[str, Array]:
        """The sum of each candidate, and whether any query of the bank has it first."""
        whole = _columns.neutral(_columns.log_sums(bank, self.beta, limit=self.limit(bank)).whole)
        active, first = np.zeros(bank.shape[1], dtype=bool), bank.top(1)
        active[first.indices[np.asarray(first.scores) > -np.inf]] = True
        return {"whole": whole, "active": active}

    def apply(self, block: Block, known: Mapping[str, Array], rows: IntArray | None) -> Block:
        """Divides the rows whose best candidate is active."""
        first_choice, _ = Best(1)(0, block)
        chosen = np.flatnonzero(known["active"][first_choice[:, 0]])
        block[chosen] = _columns.shifted(block[chosen], self.beta, known["whole"])
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

    @property
    def reach(self) -> float:
        """A score and a share of a mean."""
        return 2.0 + self.alpha

    def gather(self, bank: Scores) -> dict[str, Array]:
        """Mean of the k best bank scores of each candidate."""
        return {"near": _columns.mean_of_best(bank, self.k, limit=self.limit(bank))}

    def apply(self, block: Block, known: Mapping[str, Array], rows: IntArray | None) -> Block:
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

    @property
    def reach(self) -> float:
        """beta times a score, and twice as much that every round may add."""
        return 4.0 * self.beta * (self.rounds + 1)

    def gather(self, bank: Scores) -> dict[str, Array]:
        """v after all rounds."""
        potential, limit = np.zeros(bank.shape[1]), self.limit(bank)
        for _ in range(self.rounds):
            whole = _columns.log_sums(bank, self.beta, limit=limit, shift=potential).whole
            known = whole > -np.inf
            potential = potential - np.where(known, whole, 0.0)
        return {"potential": _columns.neutral(np.where(known, potential, -np.inf))}

    def apply(self, block: Block, known: Mapping[str, Array], rows: IntArray | None) -> Block:
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


_OTHER = "other direction: "  # before the names of arrays in a file for both directions
SEEN = 16
"""So many scores of a query tell whether it is the one of the bank that has its id."""


def _some(width: int) -> IntArray:
    """Places of a few candidates, all over."""
    return np.unique(np.linspace(0, width - 1, min(SEEN, width)).round().astype(np.int64))


@dataclass(frozen=True, eq=False)
class Statistics:
    """What a correction knows of each candidate: enough to correct any further query.

    Args:
        correction: The correction with its options; statistics serve no other.
        candidates: The candidates the numbers belong to.
        known: Numbers per candidate, by name. "seen" are numbers per query of the bank: its scores of a few candidates.
        bank: Ids of the bank's queries where the bank was the scores' own queries, None where it was another. A query
            that is one of them, by its id and by its scores, is corrected without its own term, all others with the
            whole bank.
    """

    correction: Correction
    candidates: Ids
    known: Mapping[str, Array]
    bank: Ids | None = None

    @classmethod
    def gathered(cls, correction: Correction, bank: Scores, *, own: bool) -> Statistics:
        """One or more passes over the bank."""
        known = correction.gather(bank)
        if not own:
            known.pop("seen", None)
        return cls(correction, bank.candidates, known, bank.queries if "seen" in known else None)

    def rows(self, queries: Ids, block: Block) -> IntArray | None:
        """Which of the bank's queries these are, -1 for none; None where it does not matter.

        Args:
            queries: Their ids.
            block: Their scores.
        """
        if self.bank is None:
            return None
        found, seen = self.bank.find(queries), self.known["seen"]
        scores = on_host(block[:, _some(block.shape[1])])
        same = np.isclose(scores, seen[np.maximum(found, 0)], rtol=1e-5, atol=1e-6).all(axis=1)
        return np.where(same, found, -1)

    def refuse_other(self, correction: Correction) -> None:
        """Refuses to stand in for another correction, or for the same with other options."""
        if correction != self.correction:
            raise LimnerError(
                f"the statistics are of {self.correction}, asked is {correction}: expected the same; gather them "
                "again for these options, or leave the options out"
            )

    def save(self, path: str | Path, *, other: Statistics | None = None) -> Path:
        """Writes an npz file; `load` reads it, and `scores.correct(path)` applies it.

        Args:
            path: The file.
            other: Of the other direction: one file then corrects both.
        """
        target = Path(path)
        arrays = self._arrays() | ({} if other is None else {_OTHER + k: v for k, v in other._arrays().items()})
        with replacing(target) as draft, draft.open("wb") as file:
            np.savez(file, **arrays)
        return target

    def _arrays(self) -> dict[str, Any]:
        head = {"correction": self.correction.name, **asdict(self.correction)}
        arrays: dict[str, Any] = {"head": np.array(json.dumps(head)), "candidates": _words(self.candidates)}
        return arrays | dict(self.known) | ({} if self.bank is None else {"bank": _words(self.bank)})

    @classmethod
    def load(cls, path: str | Path) -> Statistics:
        """Reads statistics that were saved; of a file for both directions, those of the first."""
        found = cls.load_all(path)
        return found[0] if isinstance(found, tuple) else found

    @classmethod
    def load_all(cls, path: str | Path) -> Statistics | tuple[Statistics, Statistics]:
        """Reads statistics that were saved, of one direction or of both."""
        if not Path(path).exists():
            raise LimnerError(f"no saved statistics {path}: make them with scores.correct(...).statistics.save(...)")
        arrays = read_arrays(path, what="statistics of a correction")
        with damage_told(path, what="file of statistics", mend="gather them again"):
            other = {k.removeprefix(_OTHER): arrays.pop(k) for k in list(arrays) if k.startswith(_OTHER)}
            first = cls._read(arrays, path)
            return (first, cls._read(other, path)) if other else first

    @classmethod
    def _read(cls, arrays: dict[str, Any], path: str | Path) -> Statistics:
        head = parse_json(str(arrays.pop("head")), where=f"statistics of a correction {path}")
        candidates = Ids(arrays.pop("candidates").tolist(), what="candidate")
        bank = Ids(arrays.pop("bank").tolist(), what="query") if "bank" in arrays else None
        return cls(named(head.pop("correction"), **head), candidates, arrays, bank)


def _words(ids: Ids) -> Array:
    return np.array(list(ids), dtype=np.str_)


def named(name: str, **options: Any) -> Correction:
    """A correction by name; refuses unknown names and options."""
    if name not in CORRECTIONS:
        raise UnknownName("correction", name, CORRECTIONS)
    allowed = [f.name for f in fields(CORRECTIONS[name])]
    for option in options:
        if option not in allowed:
            raise UnknownName(f"option of {name}", option, allowed)
    return CORRECTIONS[name](**options)


Bank = tuple[Embeddings, Embeddings] | tuple[Statistics, Statistics] | Embeddings | Scores | Statistics


@dataclass(frozen=True, eq=False)
class CorrectedScores(Scores):
    """Scores seen through a correction; statistics are gathered on first use, blocks are corrected as they are read."""

    base: Scores
    correction: Correction
    bank: Bank | None = None

    def __post_init__(self) -> None:
        """Takes over the ids; refuses statistics of anything else."""
        for known in self.bank if isinstance(self.bank, tuple) else (self.bank,):
            if isinstance(known, Statistics):
                known.refuse_other(self.correction)
        object.__setattr__(self, "queries", self.base.queries)
        object.__setattr__(self, "candidates", self.base.candidates)

    @property
    def dtype(self) -> np.dtype[Any]:
        """As the scores below."""
        return self.base.dtype

    @cached_property
    def statistics(self) -> Statistics:
        """What the bank says of each candidate."""
        known = self.bank[0] if isinstance(self.bank, tuple) else self.bank
        if isinstance(known, Statistics):
            if known.candidates != self.candidates:
                raise LimnerError(
                    f"saved statistics are of {len(known.candidates)} candidates, the scores of "
                    f"{len(self.candidates)}, or in another order: gather them again for these candidates"
                )
            return known
        bank = self._bank_scores()
        if bank.shape[0] < 2:
            raise LimnerError(
                f"a bank of {bank.shape[0]} query: expected two or more; give training queries as the bank"
            )
        return Statistics.gathered(self.correction, bank, own=self.bank is None)

    def _bank_scores(self) -> Scores:
        """The bank's scores of these candidates."""
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
            return CorrectedScores(self.base.T, self.correction, (self.bank[1], self.bank[0]))  # type: ignore[arg-type]
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
        statistics, block = self.statistics, self.base.block(start, stop, out)
        if self.bank is None:  # looked through when the statistics were gathered
            return self.correction.apply(block, statistics.known, np.arange(start, stop))
        self.correction.limit(self.base)(block, start)
        return self.correction.apply(block, statistics.known, statistics.rows(self.queries[start:stop], block))


def correct(
    scores: Scores,
    how: str | Path | Correction | Statistics,
    *,
    bank: Any = None,
    tune: tuple[Scores, Collection] | None = None,
    **options: Any,
) -> CorrectedScores:
    """Corrected scores.

    Args:
        scores: What to correct.
        how: A name in `CORRECTIONS`, a correction, statistics, or the file of saved statistics.
        bank: Whose view of the candidates counts: None for the queries themselves; vectors of other queries (and of
            other candidates, for both directions), as embeddings or arrays; scores of other queries, or a matrix of
            them where the scores are a matrix; saved statistics, of this correction, or their file.
        tune: Scores and collection of a dev split, on which options that are not given are chosen; see
            `limner.evaluation.tune`.
        options: Options of the named correction. With statistics they may be left out; others are refused.
    """
    if isinstance(how, Path) or (isinstance(how, str) and how.endswith(".npz")):
        held = Statistics.load_all(how)
        if isinstance(held, tuple):
            return _with_statistics(scores, held[0].correction.name, _facing(held, scores), options)
        how = held
    bank = _as_bank(bank, scores)
    if isinstance(how, Statistics):
        if bank is not None:
            raise LimnerError("statistics, and a bank: the statistics are what a bank said; leave out the bank")
        return _with_statistics(scores, how.correction.name, how, options)
    if isinstance(how, Correction):
        if options:
            raise LimnerError(f"{how} with options {shown(options)}: give them to the correction itself")
        return CorrectedScores(scores, how, bank)
    if isinstance(bank, Statistics) or (isinstance(bank, tuple) and isinstance(bank[0], Statistics)):
        return _with_statistics(scores, how, bank, options)
    if tune is not None:
        from limner.evaluation.tuning import tune as tuned

        options = dict(tuned(how, *tune, fixed=options))
    return CorrectedScores(scores, named(how, **options), bank)


def _as_bank(given: Any, scores: Scores) -> Bank | None:
    """A bank from what people have: arrays are vectors, or scores of the same candidates where scores are a matrix."""
    if given is None or isinstance(given, (Embeddings, Scores, Statistics)):
        return given
    if isinstance(given, (str, Path)):
        held = Statistics.load_all(given)
        return _facing(held, scores) if isinstance(held, tuple) else held
    by_vectors = hasattr(scores, "with_queries")
    if isinstance(given, tuple) and len(given) == 2 and by_vectors:
        return Embeddings.of(given[0], prefix="bank-"), Embeddings.of(given[1], prefix="bank-")
    rows = array(given, "bank")
    if by_vectors:
        return Embeddings.of(rows, prefix="bank-")
    if rows.ndim != 2 or rows.shape[1] != len(scores.candidates):
        raise LimnerError(
            f"a bank of shape {rows.shape} for scores that are no products of vectors: expected the bank's own scores "
            f"of the same {len(scores.candidates)} candidates, a row per bank query"
        )
    return Scores.from_matrix(rows, [f"bank-{row}" for row in range(len(rows))], scores.candidates)


def _facing(both: tuple[Statistics, Statistics], scores: Scores) -> tuple[Statistics, Statistics]:
    """Statistics of both directions, those of these candidates first."""
    return both if both[0].candidates == scores.candidates else (both[1], both[0])


def _with_statistics(
    scores: Scores, name: str, known: Statistics | tuple[Statistics, Statistics], options: Mapping[str, Any]
) -> CorrectedScores:
    """Options that are not given are those of the statistics."""
    correction = known[0].correction if isinstance(known, tuple) else known.correction
    own = asdict(correction) if name == correction.name else {}
    return CorrectedScores(scores, named(name, **(own | dict(options))), known)
