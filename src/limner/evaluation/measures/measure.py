"""A measure with its cut and options: how it is written and read, and what it makes of placements."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from limner.core.errors import LimnerError, TooShort, UnknownName
from limner.core.ids import IntArray
from limner.core.judgements import FloatArray
from limner.evaluation.measures.kinds import KINDS, Kind
from limner.evaluation.placements import Placements

DEEPEST = 1_000_000_000
"""The largest cut that is read."""


@dataclass(frozen=True)
class Measure:
    """A measure with its cut and options.

    >>> Measure.parse("ndcg@5"), Measure.parse("R@1(graded)").k, str(Measure.parse("mAP@R"))
    (Measure('nDCG@5'), 1, 'mAP@R')
    """

    name: str
    k: int | None = None
    options: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def parse(cls, text: str | Measure) -> Measure:
        """Reads `Name`, `Name@k` or `Name@k(option, option=value)`; refuses what does not exist and says what does."""
        if isinstance(text, Measure):
            return text
        kind, cut, options = _split(text)
        if cut is None and kind.cut == "required":
            raise LimnerError(f"measure {text!r} needs a cut: write for example '{kind.name}@10'")
        if cut is not None and kind.cut == "none":
            raise LimnerError(f"measure {text!r}: {kind.name} takes no cut; write '{kind.name}'")
        if cut is not None and not 1 <= cut <= DEEPEST:
            raise LimnerError(f"measure {text!r}: the cut must be 1 to {DEEPEST:,}")
        return cls(kind.name, cut, options)

    @property
    def kind(self) -> Kind:
        """The row of the table that this measure is of."""
        return KINDS[self.name]

    def option(self, name: str) -> Any:
        """The value of an option, or its default."""
        return dict(self.options).get(name, self.kind.options[name])

    def __call__(self, placements: Placements) -> FloatArray:
        """One value per query of `counted`; refuses where what follows a truncated list could change it."""
        low, high = bounds(placements, self)
        open_ = np.flatnonzero(low != high)
        if len(open_):
            raise TooShort(self._too_short(self.counted(placements), open_, low, high))
        return low

    def counted(self, placements: Placements) -> Placements:
        """What this measure looks at: positives of its `min_grade`, and the queries that have one."""
        grade = self.option("min_grade") if "min_grade" in self.kind.options else 0
        return placements.at_least(grade).with_positives() if grade else placements

    def _too_short(self, placements: Placements, open_: IntArray, low: FloatArray, high: FloatArray) -> str:
        first = int(open_[0])
        depth = int(placements.known[first])
        return (
            f"{self} cannot be computed from a truncated ranking: the list of query {placements.queries[first]!r} ends "
            f"at {depth}, and what follows decides between {self.show(low[first])} and {self.show(high[first])} "
            f"({len(open_)} such queries). Rank deeper, choose a measure that is cut at {depth} or less, or take what "
            "is not listed as never found (unretrieved='never')"
        )

    def summarise(self, values: FloatArray) -> float:
        """One number from the values of many queries."""
        if not len(values):
            return float("nan")
        if self.name == "MedR":
            return float(np.floor(np.median(values - 1)) + 1 if self.option("floor") else np.median(values))
        return float(np.mean(values))

    def show(self, value: float) -> str:
        """The number as tables show it: shares in percent."""
        return f"{100 * value:.1f}" if self.kind.share else f"{value:.1f}"

    def show_change(self, value: float) -> str:
        """A difference of two numbers as tables show it, with its sign; nothing is neither up nor down.

        >>> Measure("R", 1).show_change(0.013), Measure("MRR").show_change(-0.0001), Measure("MedR").show_change(-2.5)
        ('+1.3', '0.0', '-2.5')
        """
        shown = self.show(value)
        return shown.lstrip("-") if shown.strip("-0.") == "" else shown if shown.startswith("-") else f"+{shown}"

    def __str__(self) -> str:
        cut = "" if self.k is None else f"@{self.k}"
        options = ", ".join(name if value is True else f"{name}={_written(value)}" for name, value in self.options)
        return f"{self.name}{cut}{f'({options})' if options else ''}"

    def __repr__(self) -> str:
        return f"Measure({str(self)!r})"


def bounds(placements: Placements, measure: Measure) -> tuple[FloatArray, FloatArray]:
    """The least and the greatest value of each query, over all ways in which cut-off lists may go on.

    Relevant candidates that a list does not hold come next at best, and last of the pool at worst (never, where the
    pool is unknown). Where both ends are equal, the value is certain.

    Args:
        placements: Where relevant candidates stand.
        measure: What is measured.

    Returns:
        Two values for each query of `measure.counted(placements)`; the very same array twice where nothing is cut off.

    >>> from limner import Judgements, Ranking
    >>> from limner.evaluation.placements import Asked, place
    >>> run = Ranking.from_lists({"q": "ab"}, candidates="abcde")
    >>> (placed,), _ = place(run, [Asked(Judgements.from_pairs([("q", "a"), ("q", "d")]))])
    >>> [(str(m), *(end.tolist() for end in bounds(placed, m))) for m in parse("R@5 Recall@5 P@4")]
    [('R@5', [1.0], [1.0]), ('Recall@5', [1.0], [1.0]), ('P@4', [0.25], [0.5])]
    """
    counted = measure.counted(placements)
    if not counted.unlocated.any():
        values = measure.kind.compute(counted, measure)
        return values, values
    worst, best = (measure.kind.compute(counted.continued(best=best), measure) for best in (False, True))
    return np.minimum(worst, best), np.maximum(worst, best)


def parse(measures: str | Measure | Iterable[str | Measure]) -> tuple[Measure, ...]:
    """Reads several measures, from a list or from one text with white space or commas between them.

    >>> parse("R@1, R@5 MedR")
    (Measure('R@1'), Measure('R@5'), Measure('MedR'))
    """
    listed = re.split(r"[\s,]+(?![^(]*\))", measures.strip()) if isinstance(measures, str) else measures
    return tuple(dict.fromkeys(map(Measure.parse, [listed] if isinstance(listed, Measure) else listed)))


_WRITTEN = re.compile(r"(?P<name>[A-Za-z]+(?:@R)?)(?:@(?P<cut>\d+))?(?:\((?P<options>[^()]*)\))?", re.IGNORECASE)


def _split(text: str) -> tuple[Kind, int | None, tuple[tuple[str, Any], ...]]:
    match = _WRITTEN.fullmatch(text.strip())
    folded = {name.lower(): kind for name, kind in KINDS.items()}
    if match is None or match["name"].lower() not in folded:
        raise UnknownName("measure", text, (f"{k.name}@k" if k.cut == "required" else k.name for k in KINDS.values()))
    kind = folded[match["name"].lower()]
    options = [_option(kind, text, part) for part in (match["options"] or "").split(",") if part.strip()]
    names = [name for name, _ in options]
    for name in names:
        if names.count(name) > 1:
            raise LimnerError(f"measure {text!r}: option {name} is given twice")
    if {"linear", "exponential"} <= set(names):
        raise LimnerError(f"measure {text!r}: give one of linear and exponential")
    told = sorted((name, value) for name, value in options if value != kind.options[name])
    return kind, int(match["cut"][:12]) if match["cut"] else None, tuple(told)


def _option(kind: Kind, text: str, part: str) -> tuple[str, Any]:
    name, equals, value = (piece.strip() for piece in part.partition("="))
    if name not in kind.options:
        raise UnknownName(f"option of {kind.name}", name, kind.options or ("none",))
    default = kind.options[name]
    if isinstance(default, bool):
        if equals:
            raise LimnerError(f"measure {text!r}: option {name} takes no value; write {name} alone, or leave it out")
        return name, True
    if not value:
        raise LimnerError(f"measure {text!r}: option {name} needs a value; write for example {name}=1")
    return name, _number(value, f"measure {text!r}: option {name} is {value!r}", whole=isinstance(default, int))


def _number(value: str, what: str, *, whole: bool) -> float | int:
    """A number of 0 or above, or a whole one of 1 or above."""
    try:
        read = float(value)
    except ValueError:
        raise LimnerError(f"{what}, expected a number") from None
    if whole and not (read.is_integer() and 1 <= read <= DEEPEST):
        raise LimnerError(f"{what}, expected a whole number, 1 or above")
    if not 0 <= read < np.inf:
        raise LimnerError(f"{what}, expected a finite number, 0 or above")
    return int(read) if whole else read


def _written(value: float) -> str:
    """A number in as few digits as tell it from all others.

    >>> _written(2.0), _written(0.1234567), _written(1e-07)
    ('2', '0.1234567', '1e-07')
    """
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


RSUM_PARTS = parse("R@1 R@5 R@10")
DEFAULT = parse("R@1 R@5 R@10 MedR MRR mAP@R RP rsum")
