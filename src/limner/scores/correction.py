"""Corrections, which turn scores into corrected scores: the base class and the registry.

A correction compares each candidate with a *bank* of queries: the test queries themselves by default,
or training queries, or statistics saved earlier, which can also correct a single live query. The built-in corrections
are in `limner.match.corrections`; your own is a frozen dataclass with `gather`, `apply` and, for tuning, `grid`.
"""

from __future__ import annotations

import typing
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import ClassVar, Protocol

import numpy as np

from limner.core.arrays import Array, IntArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.registry import Registry, checked
from limner.scores.base import LARGEST, Scores
from limner.scores.parallel_blocks import Block, kernels, number_type

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
        most = float(np.finfo(kind).max) / max(self.reach, 1.0)  # a finite limit, which +inf is beyond
        row, column = kernels(block).first_beyond(block, kind.type(most))
        if row >= 0:
            value = float(block[row, column])
            what = "times a correction's weight overflows" if np.isfinite(value) else "cannot be corrected"
            raise LimnerError(
                f"the score in row {start + row}, column {column} is {value:+g}, which {what} in {kind}: divide all "
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
    def apply(self, block: Block, known: Mapping[str, Array], rows: IntArray | None) -> Block:
        """Corrected scores of a block; a score of -inf stays -inf.

        Args:
            block: Scores of some queries; may be changed in place.
            known: The result of `gather`.
            rows: Row of each query in the bank, -1 for none; None to use the whole bank.
        """

    def shift(self, known: Mapping[str, Array]) -> tuple[float, Array, int] | None:
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
            whole = hints[name] is int
            if not isinstance(value, (int, float)) or not 0 < value < np.inf or (whole and value != int(value)):
                kind = "whole number" if whole else "number"
                raise LimnerError(f"{self.name}: option {name} is {value!r}, expected a {kind} above 0")
            if not whole and not SMALLEST_OPTION <= value <= 1 / SMALLEST_OPTION:
                ends = f"{SMALLEST_OPTION:g} to {1 / SMALLEST_OPTION:g}"
                raise LimnerError(f"{self.name}: option {name} is {value!r}, expected a number from {ends}")
            object.__setattr__(self, name, int(value) if whole else float(value))

    def __str__(self) -> str:
        told = (f"{k}={v:g}" if isinstance(v, (int, float)) else f"{k}={v}" for k, v in asdict(self).items())
        return f"{self.name}({', '.join(told)})"


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
        self, how: str | type[Correction], scores: Scores, collection: Collection, /, *, fixed: Mapping[str, object]
    ) -> Mapping[str, object]:
        """The chosen options, including the fixed ones."""


TUNERS: Registry[Tuner] = Registry("tuner", {"grid": "limner.evaluation.tuning:tune"})
"""The tuner behind `tune=`, by import path, since evaluation is a higher layer."""


def correction(how: str | type[Correction], *, trusted: bool = True, **options: object) -> Correction:
    """A correction with its options; refuses unknown names and options.

    Args:
        how: A name in `CORRECTIONS` or "module:class", either with options such as "csls(k=5)"; or the class itself.
        trusted: Whether "module:class" is allowed; False for a name from a file.
        options: Options of the correction.

    >>> correction("csls", k=5), correction("csls(k=5)")
    (Csls(k=5), Csls(k=5))
    """
    if isinstance(how, str):
        how, options = CORRECTIONS.parsed(how, options)
    kind = CORRECTIONS.find(how, trusted=trusted) if isinstance(how, str) else how
    if not (isinstance(kind, type) and issubclass(kind, Correction)):
        raise LimnerError(f"{how!r} is not a correction: expected a subclass of limner.match.Correction")
    return kind(**checked(kind, options, what=f"correction {CORRECTIONS.name_of(kind)!r}"))
