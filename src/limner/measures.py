"""Every measure of the field as a value that prints as it parses: `R@1`, `mAP@R`, `nDCG@5`, `MedR(floor)`.

A measure is one row in `KINDS`: a function from `Placements` to one number per query, how these are summed up, and
how deep a list must reach for the number to be known. Where candidates are tied, every function gives the expectation
over random orders of the tied ones (McSherry & Najork, ECIR 2008), so a constant scorer gets chance, not luck.

Symbols: R = relevant candidates of the query; rank_1 = rank of the best placed relevant one; rel_i = 1 where the i-th
candidate is relevant; P@i = share of relevant ones among the first i.

One query whose second and fourth of five candidates are relevant, the fourth by half:

>>> import limner
>>> run = limner.Ranking.from_lists({"q": "abcde"}, candidates="abcde")
>>> truth = limner.Judgements.from_pairs([("q", "b", 1), ("q", "d", 0.5)])
>>> for name in ("R@1 R@2 S@2 Recall@2 P@2", "MeanR MRR nDCG@5 MAP", "mAP@R RP PMRP RP(graded)"):
...     print({str(r.measure): round(r.value, 3) for r in limner.evaluate(run, truth, measures=name).results})
{'R@1': 0.0, 'R@2': 1.0, 'S@2': 1.0, 'Recall@2': 0.5, 'P@2': 0.5}
{'MeanR': 2.0, 'MRR': 0.5, 'nDCG@5': 0.642, 'MAP': 0.5}
{'mAP@R': 0.25, 'RP': 0.5, 'PMRP': 0.5, 'RP(graded)': 0.5}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from limner.errors import LimnerError, TooShort, UnknownName
from limner.ids import IntArray
from limner.judgements import FloatArray
from limner.placements import NEVER, Placements

Reach = Callable[[Placements, "Measure"], IntArray]
"""How many candidates of each query's list a measure must see."""


@dataclass(frozen=True)
class Kind:
    """One row of the table of measures.

    Args:
        name: As it is written before the cut.
        compute: One value per query, from placements.
        reach: How deep a list must be known for the value to be certain.
        formula: The definition in one line.
        source: Where it comes from.
        cut: Whether `@k` is "required", "optional" or "none".
        options: Names allowed in parentheses, each with its default.
        summary: How values become one number: "mean", "median" or "median floor".
        share: Whether the value is a share in 0..1, which tables show in percent.
        better: 1 where higher is better, -1 where lower is better.
    """

    name: str
    compute: Callable[[Placements, Measure], FloatArray]
    reach: Reach
    formula: str
    source: str
    cut: str = "none"
    options: Mapping[str, Any] = field(default_factory=dict)
    summary: str = "mean"
    share: bool = True
    better: int = 1


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
        if cut == 0:
            raise LimnerError(f"measure {text!r}: the cut must be 1 or more")
        return cls(kind.name, cut, options)

    @property
    def kind(self) -> Kind:
        """The row of the table that this measure is of."""
        return KINDS[self.name]

    def option(self, name: str) -> Any:
        """The value of an option, or its default."""
        return dict(self.options).get(name, self.kind.options[name])

    def __call__(self, placements: Placements) -> FloatArray:
        """One value per query of `counted`; refuses where a truncated list does not reach deep enough."""
        placements = self.counted(placements)
        needed = self.kind.reach(placements, self)
        short = np.flatnonzero(placements.unlocated & (placements.known < needed))
        if len(short):
            raise TooShort(self._too_short(placements, needed, short))
        return self.kind.compute(placements, self)

    def counted(self, placements: Placements) -> Placements:
        """What this measure looks at: positives of its `min_grade`, and the queries that have one."""
        grade = self.option("min_grade") if "min_grade" in self.kind.options else 0
        return placements.at_least(grade).with_positives() if grade else placements

    def _too_short(self, placements: Placements, needed: IntArray, short: IntArray) -> str:
        first = int(short[0])
        depth = int(placements.known[first])
        wanted = "every relevant candidate" if needed[first] >= NEVER else f"the first {needed[first]}"
        return (
            f"{self} cannot be computed from a truncated ranking: it needs {wanted} of query "
            f"{placements.queries[first]!r}, whose list ends at {depth} ({len(short)} such queries). Rank deeper, "
            f"choose a measure that is cut at {depth} or less, or take what is not listed as never found "
            "(unretrieved='never')"
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

    def __str__(self) -> str:
        cut = "" if self.k is None else f"@{self.k}"
        options = ", ".join(name if value is True else f"{name}={value:g}" for name, value in self.options)
        return f"{self.name}{cut}{f'({options})' if options else ''}"

    def __repr__(self) -> str:
        return f"Measure({str(self)!r})"


def parse(measures: str | Measure | Iterable[str | Measure]) -> tuple[Measure, ...]:
    """Reads several measures, from a list or from one text with white space or commas between them.

    >>> parse("R@1, R@5 MedR")
    (Measure('R@1'), Measure('R@5'), Measure('MedR'))
    """
    listed = re.split(r"[\s,]+(?![^(]*\))", measures.strip()) if isinstance(measures, str) else measures
    return tuple(dict.fromkeys(map(Measure.parse, [listed] if isinstance(listed, Measure) else listed)))


_MOST_DIGITS = 9  # of a cut: no list is longer
_WRITTEN = re.compile(r"(?P<name>[A-Za-z]+(?:@R)?)(?:@(?P<cut>\d+))?(?:\((?P<options>[^()]*)\))?", re.IGNORECASE)


def _split(text: str) -> tuple[Kind, int | None, tuple[tuple[str, Any], ...]]:
    match = _WRITTEN.fullmatch(text.strip())
    folded = {name.lower(): kind for name, kind in KINDS.items()}
    if match is None or match["name"].lower() not in folded:
        raise UnknownName("measure", text, (f"{k.name}@k" if k.cut == "required" else k.name for k in KINDS.values()))
    kind = folded[match["name"].lower()]
    options = tuple(_option(kind, text, part) for part in (match["options"] or "").split(",") if part.strip())
    if len(match["cut"] or "") > _MOST_DIGITS:
        raise LimnerError(f"measure {text[:40]!r}: the cut has {len(match['cut'])} digits: expected 1 to 1,000,000,000")
    return kind, int(match["cut"]) if match["cut"] else None, tuple(sorted(options))


def _option(kind: Kind, text: str, part: str) -> tuple[str, Any]:
    name, _, value = (piece.strip() for piece in part.partition("="))
    if name not in kind.options:
        raise UnknownName(f"option of {kind.name}", name, kind.options or ("none",))
    try:
        return name, float(value) if value else True
    except ValueError:
        raise LimnerError(f"measure {text!r}: option {name} is {value!r}, expected a number") from None


# --- how deep a list must reach ---------------------------------------------------------------------------------


def _to_cut(p: Placements, measure: Measure) -> IntArray:
    return np.asarray(np.minimum(NEVER if measure.k is None else measure.k, p.pool))


def _to_r(p: Placements, measure: Measure) -> IntArray:
    return np.minimum(p.relevant, p.pool)


def _to_capped_r(p: Placements, measure: Measure) -> IntArray:
    return np.minimum(p.relevant, int(measure.option("cap")))


def _to_first(p: Placements, measure: Measure) -> IntArray:
    """A list is deep enough once it holds one relevant candidate."""
    found = np.zeros(len(p.queries), dtype=bool)
    found[p.query[p.above < NEVER]] = True
    return np.where(found, 0, _to_cut(p, measure))


# --- one value per query ----------------------------------------------------------------------------------------


def _sum(p: Placements, values: FloatArray) -> FloatArray:
    return np.bincount(p.query, weights=values, minlength=len(p.queries)).astype(np.float64)


def _within(p: Placements, cut: Any) -> FloatArray:
    """The chance of each positive to stand within its query's cut."""
    return np.asarray(np.clip((cut - p.above) / p.tied, 0.0, 1.0))


def _weights(p: Placements, measure: Measure) -> FloatArray:
    return p.grades if measure.option("graded") else np.ones(len(p.grades))


def _any_within(p: Placements, cut: int) -> FloatArray:
    """The chance that at least one positive stands within the cut: 1 - C(t - m, f) / C(t, f).

    Only the best placed group matters: m positives among t tied candidates, f of whose places are within the cut.
    """
    has = p.relevant > 0
    first = p.indptr[:-1][has]
    tied, m = p.tied[first], p.group[1][first]
    free = np.clip(cut - p.above[first], 0, tied)
    missed = np.ones(len(first))
    for i in range(int(m.max(initial=0))):
        missed *= np.where(i < m, np.clip((tied - free - i) / np.maximum(tied - i, 1), 0, 1), 1.0)
    values = np.zeros(len(p.queries))
    values[has] = np.where(free > 0, 1 - missed, 0.0)  # several that are never found share no real place
    return values


def _hit(p: Placements, measure: Measure) -> FloatArray:
    cut = int(measure.k or 0)
    if not measure.option("graded"):
        return _any_within(p, cut)
    levels = np.unique(
        np.concatenate([[0.0], p.grades])
    )  # E[best grade found] = sum of steps times the chance to reach them
    return np.asarray(
        sum(step * _any_within(p.at_least(level), cut) for level, step in zip(levels[1:], np.diff(levels), strict=True))
    )


def _recall(p: Placements, measure: Measure) -> FloatArray:
    weights = _weights(p, measure)
    return _sum(p, weights * _within(p, int(measure.k or 0))) / _sum(p, weights)


def _precision(p: Placements, measure: Measure) -> FloatArray:
    return _sum(p, _weights(p, measure) * _within(p, int(measure.k or 0))) / int(measure.k or 1)


def _r_precision(p: Placements, measure: Measure) -> FloatArray:
    return _sum(p, _weights(p, measure) * _within(p, p.relevant[p.query])) / p.relevant


def _capped_r_precision(p: Placements, measure: Measure) -> FloatArray:
    capped = np.minimum(p.relevant, int(measure.option("cap")))
    return _sum(p, _weights(p, measure) * _within(p, capped[p.query])) / capped


def _first_rank(p: Placements, measure: Measure) -> FloatArray:
    """The expected rank of the first of m positives among t tied places: above + (t + 1) / (m + 1)."""
    first = p.indptr[:-1]
    lost = p.above[first] >= NEVER
    ranks = p.above[first] + (p.tied[first] + 1) / (p.group[1][first] + 1)
    return np.where(lost, np.inf, ranks)


def _reciprocal_rank(p: Placements, measure: Measure) -> FloatArray:
    cut = NEVER if measure.k is None else measure.k
    first = p.indptr[:-1]
    above, tied, m = p.above[first], p.tied[first], p.group[1][first]
    values = np.where(above < min(cut, NEVER), 1.0 / (above + 1.0), 0.0)
    for q in np.flatnonzero((tied > 1) & (above < cut)):
        values[q] = _expected_reciprocal(int(above[q]), int(tied[q]), int(m[q]), cut)
    return values


def _expected_reciprocal(above: int, tied: int, m: int, cut: int) -> float:
    """Mean of 1 / rank when m positives fall at random among `tied` places that begin after `above`."""
    j = np.arange(1, tied - m + 2)
    chance = np.cumprod(np.concatenate([[m / tied], (tied - m - j[:-1] + 1) / (tied - j[:-1])]))
    return float(np.sum(np.where(above + j <= cut, chance / (above + j), 0.0)))


def _average_precision(p: Placements, cut: IntArray) -> FloatArray:
    """Sum of rel_i P@i over the first `cut` places, divided by R."""
    before, m = p.group
    limit = cut[p.query]
    values = np.where(p.above < limit, (before + 1.0) / (p.above + 1.0), 0.0)
    open_ = (p.tied > 1) & (p.above < limit)
    if open_.any():
        values[open_] = _tied_precision(before[open_], m[open_], p.above[open_], p.tied[open_], limit[open_])
    return _sum(p, values) / p.relevant


def _tied_precision(before: IntArray, m: IntArray, above: IntArray, tied: IntArray, limit: IntArray) -> FloatArray:
    """(1/t) sum over j = 1..J of (b + 1 + (j - 1)(m - 1)/(t - 1)) / (a + j), the sums as harmonic numbers."""
    from scipy.special import digamma

    places = np.minimum(limit - above, tied)
    harmonic = digamma(above + places + 1.0) - digamma(above + 1.0)
    rising = places - (above + 1.0) * harmonic
    return np.asarray(((before + 1) * harmonic + (m - 1) / (tied - 1) * rising) / tied)


def _map(p: Placements, measure: Measure) -> FloatArray:
    return _average_precision(p, np.full(len(p.queries), NEVER if measure.k is None else measure.k))


def _map_at_r(p: Placements, measure: Measure) -> FloatArray:
    return _average_precision(p, p.relevant)


def _ndcg(p: Placements, measure: Measure) -> FloatArray:
    cut = NEVER if measure.k is None else measure.k
    gains = p.grades if measure.option("linear") else np.exp2(p.grades) - 1
    ideal = gains[np.lexsort((-gains, p.query))]
    best = _sum(p, np.where(p.order < cut, ideal / np.log2(p.order + 2.0), 0.0))
    return _sum(p, gains * _discount(p.above, p.tied, cut)) / best


def _discount(above: IntArray, tied: IntArray, cut: int) -> FloatArray:
    """The mean discount 1 / log2(rank + 1) over the places a positive may take, 0 beyond the cut."""
    values = np.where(above < cut, 1.0 / np.log2(np.minimum(above, NEVER) + 2.0), 0.0)
    values[above >= NEVER] = 0.0
    open_ = (tied > 1) & (above < min(cut, NEVER))
    if open_.any():
        last = np.minimum(above[open_] + tied[open_], cut)
        running = np.concatenate([[0.0], np.cumsum(1.0 / np.log2(np.arange(1, int(last.max()) + 1) + 1.0))])
        values[open_] = (running[last] - running[above[open_]]) / tied[open_]
    return values


def _rsum(p: Placements, measure: Measure) -> FloatArray:
    raise LimnerError("rsum adds R@1, R@5 and R@10 of both directions: ask for it in evaluate(), which has both")


_BINARY = {"min_grade": 0.0}
_GRADED = {"min_grade": 0.0, "graded": False}
_FIELD = "Hodosh, Young & Hockenmaier 2013"

KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            Kind("R", _hit, _to_cut, "1 if any of the first k is relevant, else 0", _FIELD, "required", _GRADED),
            Kind("S", _hit, _to_cut, "as R@k, on people's judgements", _FIELD, "required", _GRADED),
            Kind("Recall", _recall, _to_cut, "relevant in the first k / R", "van Rijsbergen 1979", "required", _GRADED),
            Kind("P", _precision, _to_cut, "relevant in the first k / k", "van Rijsbergen 1979", "required", _GRADED),
            Kind(
                "MedR",
                _first_rank,
                _to_first,
                "median of rank_1; (floor): floor(median of rank_1 - 1) + 1, as the VSE++ code prints it",
                _FIELD,
                "none",
                {"min_grade": 0.0, "floor": False},
                "median",
                False,
                -1,
            ),
            Kind(
                "MeanR",
                _first_rank,
                _to_first,
                "mean of rank_1",
                "Faghri et al. 2018",
                "none",
                _BINARY,
                "mean",
                False,
                -1,
            ),
            Kind(
                "MRR",
                _reciprocal_rank,
                _to_first,
                "mean of 1 / rank_1, 0 beyond k",
                "Voorhees 1999",
                "optional",
                _BINARY,
            ),
            Kind(
                "nDCG",
                _ndcg,
                _to_cut,
                "DCG / ideal DCG, gain 2^grade - 1 (linear: the grade, as in trec_eval), discount log2(rank + 1)",
                "Burges et al. 2005; Järvelin & Kekäläinen 2002",
                "optional",
                {"linear": False},
            ),
            Kind(
                "MAP", _map, _to_cut, "(1/R) sum of rel_i P@i (i <= k)", "Buckley & Voorhees 2000", "optional", _BINARY
            ),
            Kind(
                "mAP@R",
                _map_at_r,
                _to_r,
                "(1/R) sum of rel_i P@i over i <= R",
                "Musgrave et al. 2020; Chun et al. 2022",
                "none",
                _BINARY,
            ),
            Kind("RP", _r_precision, _to_r, "relevant in the first R / R", "Buckley & Voorhees 2000", "none", _GRADED),
            Kind(
                "PMRP",
                _capped_r_precision,
                _to_capped_r,
                "R-precision with R = min(R, 50), on plausible matches",
                "Musgrave et al. 2020; Chun et al. 2021",
                "none",
                {**_GRADED, "cap": 50.0},
            ),
            Kind(
                "rsum",
                _rsum,
                _to_cut,
                "100 (R@1 + R@5 + R@10), both directions added",
                "Faghri et al. 2018",
                "none",
                {},
                "mean",
                False,
            ),
        )
    }
)
"""All measures by name. To add one, write a function from placements to values, and a row here."""

RSUM_PARTS = parse("R@1 R@5 R@10")
DEFAULT = parse("R@1 R@5 R@10 MedR MRR mAP@R RP rsum")
