"""Corrections: `Scores -> Scores`. What a correction is, what it knows of each candidate, and scores seen through one.

A correction looks at each candidate through the eyes of a *bank* of queries: the test queries themselves by default,
or training queries, or statistics saved earlier, with which a single live query can be corrected too. Those that limner
brings are in `limner.match.corrections`; one of your own is a frozen dataclass with `gather`, `apply` and, to be tuned,
`grid`.
"""

from __future__ import annotations

import json
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, cast

import numpy as np
import numpy.typing as npt

from limner.core.arrays import array
from limner.core.collection import Collection
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, shown
from limner.core.files import replacing
from limner.core.ids import Ids, IntArray
from limner.core.paths import damage_told, parse_json, read_arrays
from limner.core.registry import Registry, checked
from limner.scores.base import KINDS, LARGEST, Scores
from limner.scores.running import Block, Float32, kernels, number_type, on_host

Array = npt.NDArray[Any]
Grid = Mapping[str, Sequence[object]]
RESERVED = ("head", "candidates", "bank")
"""Names in a file of statistics that are not those of a correction's numbers."""


@dataclass(frozen=True)
class Limit:
    """Refuses scores that a correction cannot weigh: NaN, +inf, and those whose multiples would overflow.

    Args:
        reach: How many times the largest score the correction may come to; 0 where there is nothing to look for.
    """

    reach: float

    @classmethod
    def of(cls, scores: Scores, reach: float) -> Limit:
        """Scores that are known to be small enough are not looked through."""
        return cls(0.0 if reach * scores.bound < LARGEST else reach)

    def __call__(self, block: Block, start: int) -> None:
        """Looks through a block."""
        if not self.reach:
            return
        kind = number_type(block)
        row, column = kernels(block).first_beyond(block, kind.type(float(np.finfo(kind).max) / self.reach))
        if row >= 0:
            value = float(block[row, column])
            what = "times a correction's weight overflows" if np.isfinite(value) else "weighs against nothing"
            raise LimnerError(
                f"the score in row {start + row}, column {column} is {value:+g}, which {what} in {kind}: divide all "
                "scores by a constant, or give a lower number (-inf is a pair that must not be)"
            )


@dataclass(frozen=True)
class Correction(ABC):
    """The options of one correction, what it must know of each candidate, and how it changes a block of scores.

    Its options are the fields of a frozen dataclass; numbers must be above 0, unless `__post_init__` says otherwise.
    """

    grid: ClassVar[Grid] = MappingProxyType({})
    """The values that tuning tries of each option, the default first."""

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
    def reach(self) -> float:
        """How many times the largest score a corrected score may be; larger scores are refused before they overflow."""
        return 4.0

    def fits(self, queries: int) -> bool:
        """Whether tuning should try these options with so many queries."""
        return True

    def limit(self, scores: Scores) -> Limit:
        """What it refuses of these scores."""
        return Limit.of(scores, self.reach)

    @property
    def name(self) -> str:
        """Its name in `CORRECTIONS`, or "module:class"."""
        return CORRECTIONS.name_of(type(self))

    def __post_init__(self) -> None:
        """Refuses numbers that are not above 0, and parts of whole numbers."""
        hints = typing.get_type_hints(type(self))
        for name, value in asdict(self).items():
            if hints[name] not in (int, float):
                continue
            whole = hints[name] is int
            if not isinstance(value, (int, float)) or not 0 < value < np.inf or (whole and value != int(value)):
                kind = "whole number" if whole else "number"
                raise LimnerError(f"{self.name}: option {name} is {value!r}, expected a {kind} above 0")
            object.__setattr__(self, name, int(value) if whole else float(value))

    def __str__(self) -> str:
        told = (f"{k}={v:g}" if isinstance(v, (int, float)) else f"{k}={v}" for k, v in asdict(self).items())
        return f"{self.name}({', '.join(told)})"


CORRECTIONS: Registry[type[Correction]] = Registry(
    "correction",
    {
        "csls": "limner.match.corrections:Csls",
        "inverted_softmax": "limner.match.corrections:InvertedSoftmax",
        "dual_softmax": "limner.match.corrections:DualSoftmax",
        "dynamic_inverted_softmax": "limner.match.corrections:DynamicInvertedSoftmax",
        "nnn": "limner.match.corrections:Nnn",
        "sinkhorn": "limner.match.corrections:Sinkhorn",
    },
)
"""All corrections by name."""


class Tuner(Protocol):
    """Chooses the options of a correction on a dev split."""

    def __call__(
        self, how: str | type[Correction], scores: Scores, collection: Collection, /, *, fixed: Mapping[str, object]
    ) -> Mapping[str, Any]:
        """The options, with those that are fixed."""


TUNERS: Registry[Tuner] = Registry("tuner", {"grid": "limner.evaluation.tuning:tune"})
"""What `tune=` of `correct` calls: evaluation stands above scores, and is reached by name."""


def correction(how: str | type[Correction], *, trusted: bool = True, **options: Any) -> Correction:
    """A correction with its options; refuses unknown names and options.

    Args:
        how: A name in `CORRECTIONS`, "module:class", or the class itself.
        trusted: Whether "module:class" may be named; False for a name that a file gives.
        options: Of the correction.

    >>> correction("csls", k=5)
    Csls(k=5)
    """
    kind = CORRECTIONS.find(how, trusted=trusted) if isinstance(how, str) else how
    if not (isinstance(kind, type) and issubclass(kind, Correction)):
        raise LimnerError(f"{how!r} is no correction: expected a subclass of limner.match.Correction")
    return kind(**checked(kind, options, what=f"correction {CORRECTIONS.name_of(kind)!r}"))


_OTHER = "other direction: "  # before the names of arrays in a file for both directions
SEEN = 16
"""So many scores of a query tell whether it is the one of the bank that has its id."""


def some_places(width: int) -> IntArray:
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

    def named(self, queries: Ids) -> IntArray | None:
        """Which of the bank's queries have the ids of these, -1 for none; None where it does not matter."""
        return None if self.bank is None else self.bank.find(queries)

    def rows(self, named: IntArray | None, block: Block) -> IntArray | None:
        """Which of the bank's queries these are, -1 for none; None where it does not matter.

        Args:
            named: Which of them have their ids.
            block: Their scores.
        """
        if named is None:
            return None
        found, seen = named, self.known["seen"]
        scores = on_host(block[:, some_places(block.shape[1])])
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
        self._refuse_unfit()
        head = {"correction": self.correction.name, **asdict(self.correction)}
        arrays: dict[str, Any] = {"head": np.array(json.dumps(head)), "candidates": _words(self.candidates)}
        return arrays | dict(self.known) | ({} if self.bank is None else {"bank": _words(self.bank)})

    def _refuse_unfit(self) -> None:
        """Refuses what could not be read again."""
        if taken := [name for name in self.known if name in RESERVED]:
            raise LimnerError(f"{self.correction.name}: gather gives numbers called {taken[0]!r}: choose another name")
        if not CORRECTIONS.finds(type(self.correction)):
            raise LimnerError(
                f"{self.correction.name} cannot be found again when the file is read: define the class at the top of a "
                "module, or register it with @limner.match.CORRECTIONS.register('name')"
            )

    @classmethod
    def load(cls, path: str | Path, *, trust: bool = False) -> Statistics:
        """Reads statistics that were saved; of a file for both directions, those of the first.

        Args:
            path: The file. It is data: nothing in it is run.
            trust: Whether it may name a correction that is not registered, as "module:class", which is then imported.
        """
        found = cls.load_all(path, trust=trust)
        return found[0] if isinstance(found, tuple) else found

    @classmethod
    def load_all(cls, path: str | Path, *, trust: bool = False) -> Statistics | tuple[Statistics, Statistics]:
        """Reads statistics that were saved, of one direction or of both."""
        if not Path(path).exists():
            raise LimnerError(f"no saved statistics {path}: make them with scores.correct(...).statistics.save(...)")
        arrays = read_arrays(path, what="statistics of a correction")
        with damage_told(path, what="file of statistics", mend="gather them again"):
            other = {k.removeprefix(_OTHER): arrays.pop(k) for k in list(arrays) if k.startswith(_OTHER)}
            first = cls._read(arrays, path, trust)
            return (first, cls._read(other, path, trust)) if other else first

    @classmethod
    def _read(cls, arrays: dict[str, Any], path: str | Path, trust: bool) -> Statistics:
        head = parse_json(str(arrays.pop("head")), where=f"statistics of a correction {path}")
        candidates = Ids(arrays.pop("candidates").tolist(), what="candidate")
        bank = Ids(arrays.pop("bank").tolist(), what="query") if "bank" in arrays else None
        made = correction(head.pop("correction"), trusted=trust, **head)
        return cls(made, candidates, arrays, bank)


def _words(ids: Ids) -> Array:
    return np.array(list(ids), dtype=np.str_)


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

    @cached_property
    def _named(self) -> IntArray | None:
        """Found here and not block by block, since a worker of a cluster knows no ids."""
        return self.statistics.named(self.queries)

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
        found = cast(Scores, with_queries(queries))
        sides: list[Any] = [queries, getattr(self.base, "candidate_vectors", queries)]
        sizes = [np.shape(side)[1] for side in sides]
        if sizes[0] != sizes[1]:
            raise LimnerError(
                f"a bank of vectors of {sizes[0]} dimensions for candidates of {sizes[1]}: expected the same; encode "
                "the bank with the same model"
            )
        return found

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
        _ = self.statistics, self._named

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

    def block(self, start: int, stop: int, out: Float32 | None = None) -> Block:
        """Corrected scores of these queries."""
        statistics, block = self.statistics, self.base.block(start, stop, out)
        if self.bank is None:  # looked through when the statistics were gathered
            return self.correction.apply(block, statistics.known, np.arange(start, stop))
        self.correction.limit(self.base)(block, start)
        named = None if self._named is None else self._named[start:stop]
        return self.correction.apply(block, statistics.known, statistics.rows(named, block))


@KINDS.register("corrected")
def correct(
    scores: Scores,
    how: str | Path | type[Correction] | Correction | Statistics,
    *,
    bank: Any = None,
    tune: tuple[Scores, Collection] | None = None,
    trust: bool = False,
    **options: Any,
) -> CorrectedScores:
    """Corrected scores.

    Args:
        scores: What to correct.
        how: A name in `CORRECTIONS`, "module:class", a correction or its class, statistics, or the file of saved ones.
        bank: Whose view of the candidates counts: None for the queries themselves; vectors of other queries (and of
            other candidates, for both directions), as embeddings or arrays; scores of other queries, or a matrix of
            them where the scores are a matrix; saved statistics, of this correction, or their file.
        tune: Scores and collection of a dev split, on which options that are not given are chosen; see
            `limner.evaluation.tune`.
        trust: Whether a file of statistics may name a correction that is not registered.
        options: Options of the correction. With statistics they may be left out; others are refused.
    """
    if isinstance(how, Path) or (isinstance(how, str) and how.endswith(".npz")):
        held = Statistics.load_all(how, trust=trust)
        if isinstance(held, tuple):
            return _with_statistics(scores, type(held[0].correction), _facing(held, scores), options)
        how = held
    bank = _as_bank(bank, scores, trust)
    if tune is not None and isinstance(how, (Correction, Statistics)):
        raise LimnerError(f"{how if isinstance(how, Correction) else how.correction} has its options: leave out tune=")
    if isinstance(how, Statistics):
        if bank is not None:
            raise LimnerError("statistics, and a bank: the statistics are what a bank said; leave out the bank")
        return _with_statistics(scores, type(how.correction), how, options)
    if isinstance(how, Correction):
        if options:
            raise LimnerError(f"{how} with options {shown(options)}: give them to the correction itself")
        return CorrectedScores(scores, how, bank)
    if isinstance(bank, Statistics) or (isinstance(bank, tuple) and isinstance(bank[0], Statistics)):
        return _with_statistics(scores, how, bank, options)
    if tune is not None:
        options = dict(TUNERS["grid"](how, *tune, fixed=options))
    return CorrectedScores(scores, correction(how, **options), bank)


def _as_bank(given: Any, scores: Scores, trust: bool) -> Bank | None:
    """A bank from what people have: arrays are vectors, or scores of the same candidates where scores are a matrix."""
    if given is None or isinstance(given, (Embeddings, Scores, Statistics)):
        return given
    if isinstance(given, (str, Path)):
        held = Statistics.load_all(given, trust=trust)
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
    scores: Scores,
    how: str | type[Correction],
    known: Statistics | tuple[Statistics, Statistics],
    options: Mapping[str, Any],
) -> CorrectedScores:
    """Options that are not given are those of the statistics."""
    kind = how if isinstance(how, type) else CORRECTIONS.find(how)
    known_as = known[0].correction if isinstance(known, tuple) else known.correction
    own = asdict(known_as) if kind is type(known_as) else {}
    return CorrectedScores(scores, correction(kind, **(own | dict(options))), known)
