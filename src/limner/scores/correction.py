"""Corrections, which turn scores into corrected scores: the base class and the registry.

A correction compares each candidate with a *bank* of queries: the test queries themselves by default,
or training queries, or statistics saved earlier, which can also correct a single live query. The built-in corrections
are in `limner.match.corrections`; your own is a frozen dataclass with `gather`, `apply` and, for tuning, `grid`.
"""

from __future__ import annotations

import json
import typing
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import numpy as np

from limner.core.arrays import Array, IntArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.files import replacing
from limner.core.ids import Ids
from limner.core.paths import damage_told, parse_json, read_arrays
from limner.core.progress import ProgressLike, progress_for
from limner.core.registry import Registry, checked
from limner.scores.base import LARGEST, Scores
from limner.scores.parallel_blocks import Block, kernels, number_type, on_host

Grid = Mapping[str, Sequence[object]]

SMALLEST_OPTION = 1e-30
"""The smallest number of an option; it and its inverse, times any logarithm of a sum, are finite in float32."""


@dataclass(frozen=True)
class Limit:
    """A check that refuses scores a correction cannot handle: NaN, +inf, and values that would overflow.

    Args:
        reach: Largest factor by which the correction may scale a score; 0 for no check.
    """

    reach: float

    @classmethod
    def of(cls, scores: Scores, reach: float) -> Limit:
        """The check for these scores; nothing is checked if they are known to be small enough."""
        return cls(0.0 if reach * scores.bound < LARGEST else reach)

    def __call__(self, block: Block, start: int) -> None:
        """Checks a block."""
        if not self.reach:
            return
        kind = number_type(block)
        limit = float(np.finfo(kind).max) / max(self.reach, 1.0)  # a finite limit, which +inf is beyond
        row, column = kernels(block).first_beyond(block, kind.type(limit))
        if row >= 0:
            value = float(block[row, column])
            problem = "times a correction's weight overflows" if np.isfinite(value) else "cannot be corrected"
            raise LimnerError(
                f"the score in row {start + row}, column {column} is {value:+g}, which {problem} in {kind}: divide all "
                "scores by a constant, or give a lower number (-inf marks an excluded pair)"
            )


@dataclass(frozen=True)
class Correction(ABC):
    """A correction: its options, the statistics it gathers, and how it changes a block of scores.

    Its options are the fields of a frozen dataclass; numbers must be above 0, unless `__post_init__` is overridden.
    """

    grid: ClassVar[Grid] = MappingProxyType({})
    """The values that tuning tries for each option, the default first."""

    @abstractmethod
    def gather(self, bank: Scores) -> dict[str, Array]:
        """One pass over the bank: statistics per candidate, by name."""

    @abstractmethod
    def apply(self, block: Block, statistics: Mapping[str, Array], rows: IntArray | None) -> Block:
        """Corrected scores of a block; a score of -inf stays -inf.

        Args:
            block: Scores of some queries; may be changed in place.
            statistics: The result of `gather`.
            rows: Row of each query in the bank, -1 for none; None to use the whole bank.
        """

    def shift(self, statistics: Mapping[str, Array]) -> tuple[float, Array, int] | None:
        """The scale, the shifts and k of a correction of the form scale s - shift - a value of the row.

        s is a score, and the shift is a number per candidate. The k best scores of a row determine the value of the row
        (0 for no such value). The best of such scores can also be found exactly from low-precision products. So can
        those of a correction that grows with scale s - shift, at least as fast. None for other corrections.
        """
        return None

    @property
    def rounding(self) -> float:
        """How far rounding can move a corrected score beyond the rounding of scale s - shift; see `shift`."""
        return 0.0

    @property
    def reach(self) -> float:
        """The largest factor by which the correction may scale a score; scores that could overflow are refused."""
        return 4.0

    def fits(self, queries: int) -> bool:
        """Whether tuning should try these options with this many queries."""
        return True

    def limit(self, scores: Scores) -> Limit:
        """The check for these scores."""
        return Limit.of(scores, self.reach)

    @property
    def name(self) -> str:
        """Its name in `CORRECTIONS`, or "module:class"."""
        return CORRECTIONS.name_of(type(self))

    def __post_init__(self) -> None:
        """Checks that numbers are positive, and integers where required."""
        hints = typing.get_type_hints(type(self))
        for name, value in asdict(self).items():
            if hints[name] not in (int, float):
                continue
            is_integer = hints[name] is int
            if not isinstance(value, (int, float)) or not 0 < value < np.inf or (is_integer and value != int(value)):
                kind = "whole number" if is_integer else "number"
                raise LimnerError(f"{self.name}: option {name} is {value!r}, expected a {kind} above 0")
            if not is_integer and not SMALLEST_OPTION <= value <= 1 / SMALLEST_OPTION:
                ends = f"{SMALLEST_OPTION:g} to {1 / SMALLEST_OPTION:g}"
                raise LimnerError(f"{self.name}: option {name} is {value!r}, expected a number from {ends}")
            object.__setattr__(self, name, int(value) if is_integer else float(value))

    def __str__(self) -> str:
        options = (f"{k}={v:g}" if isinstance(v, (int, float)) else f"{k}={v}" for k, v in asdict(self).items())
        return f"{self.name}({', '.join(options)})"


CORRECTIONS: Registry[type[Correction]] = Registry(
    "correction",
    {
        "centred": "limner.match.corrections:Centred",
        "csls": "limner.match.corrections:Csls",
        "dual_softmax": "limner.match.corrections:DualSoftmax",
        "dynamic_inverted_softmax": "limner.match.corrections:DynamicInvertedSoftmax",
        "inverted_softmax": "limner.match.corrections:InvertedSoftmax",
        "nnn": "limner.match.corrections:Nnn",
        "sinkhorn": "limner.match.corrections:Sinkhorn",
    },
)
"""All corrections by name."""


class Tuner(Protocol):
    """Chooses the options of a correction on a dev split."""

    def __call__(
        self, method: str | type[Correction], scores: Scores, collection: Collection, /, *, fixed: Mapping[str, object]
    ) -> Mapping[str, object]:
        """The chosen options, including the fixed ones."""


TUNERS: Registry[Tuner] = Registry("tuner", {"grid": "limner.evaluation.tuning:tune"})
"""The tuner behind `tune=`, by import path, since evaluation is a higher layer."""


def correction(method: str | type[Correction], *, trusted: bool = True, **options: object) -> Correction:
    """A correction with its options; refuses unknown names and options.

    Args:
        method: A name in `CORRECTIONS` or "module:class", either with options such as "csls(k=5)"; or the class itself.
        trusted: Whether "module:class" is allowed; False for a name from a file.
        options: Options of the correction.

    >>> correction("csls", k=5), correction("csls(k=5)")
    (Csls(k=5), Csls(k=5))
    """
    if isinstance(method, str):
        method, options = CORRECTIONS.parsed(method, options)
    kind = CORRECTIONS.find(method, trusted=trusted) if isinstance(method, str) else method
    if not (isinstance(kind, type) and issubclass(kind, Correction)):
        raise LimnerError(f"{method!r} is not a correction: expected a subclass of limner.match.Correction")
    return kind(**checked(kind, options, what=f"correction {CORRECTIONS.name_of(kind)!r}"))


RESERVED = ("head", "candidates", "bank")
"""Reserved names in a file of statistics."""
_OTHER = "other direction: "  # prefix of array names in a file for both directions
SEEN = 16
"""Number of scores compared to check that a query is the one in the bank with the same id."""


def some_places(width: int) -> IntArray:
    """Positions of a few candidates, evenly spaced."""
    return np.unique(np.linspace(0, width - 1, min(SEEN, width)).round().astype(np.int64))


@dataclass(frozen=True, eq=False)
class Statistics:
    """The statistics of a correction for each candidate: enough to correct any further query.

    Args:
        correction: The correction with its options; statistics are valid for this correction only.
        candidates: The candidates the numbers belong to.
        known: Numbers per candidate, by name. "seen" holds, per query of the bank, its scores of a few candidates.
        bank: Ids of the bank's queries if the bank was the queries of the scores themselves, else None. A query that is
            one of them, by its id and its scores, is corrected without its own term, all others with the whole bank.
    """

    correction: Correction
    candidates: Ids
    known: Mapping[str, Array]
    bank: Ids | None = None

    @classmethod
    def gathered(
        cls, correction: Correction, bank: Scores, *, identify_rows: bool, progress: ProgressLike = None
    ) -> Statistics:
        """Gathers the statistics in one or more passes over the bank."""
        arrays = correction.gather(bank, **progress_for(correction.gather, progress))
        if not identify_rows:
            arrays.pop("seen", None)
        return cls(correction, bank.candidates, arrays, bank.queries if "seen" in arrays else None)

    def positions(self, queries: Ids) -> IntArray | None:
        """The position of each of these ids among the bank's queries, -1 if absent; None if it makes no difference."""
        return None if self.bank is None else self.bank.find(queries)

    def rows(self, positions: IntArray | None, block: Block) -> IntArray | None:
        """The position of each of these queries in the bank, -1 if absent; None if it makes no difference.

        Args:
            positions: The result of `positions` for their ids.
            block: Their scores.
        """
        if positions is None:
            return None
        bank_rows, bank_scores = positions, self.known["seen"]
        scores = on_host(block[:, some_places(block.shape[1])])
        matches = np.isclose(scores, bank_scores[np.maximum(bank_rows, 0)], rtol=1e-5, atol=1e-6).all(axis=1)
        return np.where(matches, bank_rows, -1)

    def refuse_other(self, correction: Correction) -> None:
        """Refuses another correction, or the same one with other options."""
        if correction != self.correction:
            raise LimnerError(
                f"the statistics are for {self.correction}, but {correction} was requested: gather them "
                "again for these options, or leave the options out"
            )

    def save(self, path: str | Path, *, reverse: Statistics | None = None) -> Path:
        """Writes an npz file; `load` reads it, and `scores.correct(path)` applies it.

        Args:
            path: The file.
            reverse: Statistics of the other direction: one file then corrects both.
        """
        target = Path(path)
        arrays = self._arrays() | ({} if reverse is None else {_OTHER + k: v for k, v in reverse._arrays().items()})
        with replacing(target) as draft, draft.open("wb") as file:
            np.savez(file, **arrays)
        return target

    def _arrays(self) -> dict[str, Any]:
        self._refuse_unfit()
        head = {"correction": self.correction.name, **asdict(self.correction)}
        arrays: dict[str, Array] = {"head": np.array(json.dumps(head)), "candidates": _words(self.candidates)}
        return arrays | dict(self.known) | ({} if self.bank is None else {"bank": _words(self.bank)})

    def _refuse_unfit(self) -> None:
        """Refuses statistics that could not be loaded again."""
        if reserved := [name for name in self.known if name in RESERVED]:
            raise LimnerError(
                f"{self.correction.name}: gather returns the reserved name {reserved[0]!r}: choose another"
            )
        if not CORRECTIONS.finds(type(self.correction)):
            raise LimnerError(
                f"{self.correction.name} cannot be found again when the file is read: define the class at the top of a "
                "module, or register it with @limner.match.CORRECTIONS.register('name')"
            )

    @classmethod
    def load(cls, path: str | Path, *, trust: bool = False) -> Statistics:
        """Loads saved statistics; from a file for both directions, those of the first.

        Args:
            path: The file. It is data: nothing in it is run.
            trust: Whether it may name a correction that is not registered, as "module:class", which is then imported.
        """
        statistics = cls.load_all(path, trust=trust)
        return statistics[0] if isinstance(statistics, tuple) else statistics

    @classmethod
    def load_all(cls, path: str | Path, *, trust: bool = False) -> Statistics | tuple[Statistics, Statistics]:
        """Loads saved statistics, of one direction or of both."""
        if not Path(path).exists():
            raise LimnerError(f"no saved statistics {path}: create them with scores.correct(...).statistics.save(...)")
        arrays = read_arrays(path, what="statistics of a correction")
        with damage_told(path, what="file of statistics", mend="gather them again"):
            reverse = {k.removeprefix(_OTHER): arrays.pop(k) for k in list(arrays) if k.startswith(_OTHER)}
            first = cls._read(arrays, path, trust)
            return (first, cls._read(reverse, path, trust)) if reverse else first

    @classmethod
    def _read(cls, arrays: dict[str, Array], path: str | Path, trust: bool) -> Statistics:
        head = parse_json(str(arrays.pop("head")), where=f"statistics of a correction {path}")
        candidates = Ids(arrays.pop("candidates").tolist(), what="candidate")
        bank = Ids(arrays.pop("bank").tolist(), what="query") if "bank" in arrays else None
        loaded = correction(head.pop("correction"), trusted=trust, **head)
        return cls(loaded, candidates, arrays, bank)


def _words(ids: Ids) -> Array:
    return np.array(list(ids), dtype=np.str_)
