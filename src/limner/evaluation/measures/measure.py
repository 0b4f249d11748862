"""A measure with its cut-off and options: parsing, printing, and computing values from placements."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from limner.core.arrays import FloatArray, IntArray
from limner.core.errors import LimnerError, TooShort, UnknownName
from limner.evaluation.measures.kinds import MEASURES, STATISTICS, TRAITS, UNKNOWN, MeasureKind, Statistic
from limner.evaluation.placements import Placements

DEEPEST = 1_000_000_000
"""The largest accepted cut-off."""
ROUNDING = 2.0**-40
"""How far rounding may move a value beyond its bounds, relative to their distance."""


@dataclass(frozen=True)
class Measure:
    """A measure with its cut-off and options.

    Args:
        name: The name of its kind.
        k: The cut-off; None without one.
        options: Options that differ from the defaults.
        given: Its kind, if it is not in `MEASURES`.

    >>> Measure.parse("ndcg@5"), Measure.parse("R@1(graded)").k, str(Measure.parse("mAP@R"))
    (Measure('nDCG@5'), 1, 'mAP@R')
    """

    name: str
    k: int | None = None
    options: tuple[tuple[str, float], ...] = ()
    given: MeasureKind | None = field(default=None, compare=False, repr=False)

    @classmethod
    def parse(cls, text: str | Measure | MeasureKind, *, trusted: bool = True) -> Measure:
        """Parses `Name`, `Name@k` or `Name@k(option, option=value)`, also for your own kind of measure.

        Args:
            text: A measure as text, with a name in `MEASURES` or "module:kind"; or a kind itself.
            trusted: Whether "module:kind" may be imported; False for text from a file.
        """
        if isinstance(text, Measure):
            return text
        kind, cut, options = (text, None, ()) if isinstance(text, MeasureKind) else _split(text, trusted)
        written = kind.name if isinstance(text, MeasureKind) else text
        if cut is None and kind.cut == "required":
            raise LimnerError(f"measure {written!r} needs a cut-off: write for example '{kind.name}@10'")
        if cut is not None and kind.cut == "none":
            raise LimnerError(f"measure {written!r}: {kind.name} takes no cut-off; write '{kind.name}'")
        if cut is not None and not 1 <= cut <= DEEPEST:
            raise LimnerError(f"measure {written!r}: the cut-off must be 1 to {DEEPEST:,}")
        registered = MEASURES.get(kind.name)
        if registered is not None and registered is not kind:
            raise LimnerError(f"measure {written!r}: limner has another measure {kind.name!r}; give yours another name")
        return cls(kind.name, cut, options, None if registered is kind else kind)

    @classmethod
    def foreign(cls, text: str, traits: Mapping[str, object]) -> Measure:
        """A measure named in a file: the one defined in this process, or else only its traits."""
        try:
            return cls.parse(text, trusted=False)
        except LimnerError:
            return cls(text, given=MeasureKind.foreign(text, traits))

    @property
    def kind(self) -> MeasureKind:
        """The function and the traits of this measure."""
        kind: MeasureKind = self.given or MEASURES[self.name]
        return kind

    def option(self, name: str) -> float:
        """The value of an option, or its default."""
        return dict(self.options).get(name, self.kind.options[name])

    @property
    def statistic(self) -> Statistic:
        """The summary statistic, in the form `limner.stats` accepts."""
        chosen = [summary for name, summary in self.kind.variants.items() if self.option(name)]
        return chosen[0] if chosen else self.kind.summary

    def traits(self) -> dict[str, object]:
        """The traits stored in a report. If the summary has no name, the report stores the value instead."""
        named = isinstance(self.statistic, str) and self.kind.composite is None
        traits = {name: getattr(self.kind, name) for name in TRAITS}
        bounds = None if self.kind.bounds is None else list(self.kind.bounds)
        return {**traits, "bounds": bounds, "summary": self.statistic if named else UNKNOWN}

    @property
    def parts(self) -> tuple[Measure, ...]:
        """The parts of a composite measure; refuses parts that allow no interval for the sum."""
        composite = self.kind.composite
        members = _parts(tuple(composite.parts)) if composite else ()
        for part in members:
            if part.kind.composite or part.statistic != "mean" or (composite and part.kind.bounds != composite.bounds):
                raise LimnerError(f"part {part} of {self}: expected a mean of values between the bounds of {self}")
        return members

    @property
    def sees_whole_list(self) -> bool:
        """Whether it depends on the whole list, so that it can distinguish bad queries from worse ones."""
        return self.k is None and self.kind.sees == "list" and self.kind.composite is None

    def __call__(self, placements: Placements) -> FloatArray:
        """One value per query of `counted`; raises an error if the rest of a truncated list could change it."""
        low, high = bounds(placements, self)
        open_ = np.flatnonzero(low != high)
        if len(open_):
            raise TooShort(self._too_short(self.counted(placements), open_, low, high))
        return low

    def counted(self, placements: Placements) -> Placements:
        """The placements it uses: positives of its `min_grade` and the queries that have one; or all judged ones."""
        if self.kind.judged:
            return placements.judged_alone
        grade = self.option("min_grade") if "min_grade" in self.kind.options else 0
        return placements.with_min_grade(grade).with_positives() if grade else placements

    def _too_short(self, placements: Placements, open_: IntArray, low: FloatArray, high: FloatArray) -> str:
        first = int(open_[0])
        depth = int(placements.known[first])
        return (
            f"{self} cannot be computed from a truncated ranking: the list of query {placements.queries[first]!r} ends "
            f"at {depth}, so the value may be anything between {self.show(low[first])} and {self.show(high[first])} "
            f"({len(open_)} such queries). Rank deeper, choose a measure that is cut at {depth} or less, or count "
            "missing candidates as never found (unretrieved='never')"
        )

    def summarise(self, values: FloatArray) -> float:
        """One number from the values of many queries."""
        if not len(values):
            return float("nan")
        statistic = self.statistic
        if statistic == UNKNOWN:
            raise LimnerError(f"measure {self}: its summary over queries is unknown in this process")
        return float(STATISTICS[statistic](values) if isinstance(statistic, str) else statistic(values))

    def show(self, value: float) -> str:
        """The number as tables show it."""
        return f"{100 * value if self.kind.percent else value:.{self.kind.decimals}f}"

    def show_change(self, value: float) -> str:
        """A difference of two numbers as tables show it, with its sign; zero has no sign.

        >>> Measure("R", 1).show_change(0.013), Measure("MRR").show_change(-0.0001), Measure("MedR").show_change(-2.5)
        ('+1.3', '0.0', '-2.5')
        """
        text = self.show(value)
        return text.lstrip("-") if text.strip("-0.") == "" else text if text.startswith("-") else f"+{text}"

    def __str__(self) -> str:
        cut = "" if self.k is None else f"@{self.k}"
        options = ", ".join(name if value is True else f"{name}={_written(value)}" for name, value in self.options)
        return f"{self.name}{cut}{f'({options})' if options else ''}"

    def __repr__(self) -> str:
        return f"Measure({str(self)!r})"


def bounds(placements: Placements, measure: Measure) -> tuple[FloatArray, FloatArray]:
    """The lowest and the highest value of each query, over all possible continuations of truncated lists.

    Relevant candidates missing from a list come next at best, and last in the pool at worst (never, if the pool is
    unknown). If both bounds are equal, the value is certain.

    Args:
        placements: Ranks of the relevant candidates.
        measure: The measure.

    Returns:
        Two values for each query of `measure.counted(placements)`; the same array twice if nothing is truncated.

    >>> from limner import Judgements, Ranking
    >>> from limner.evaluation.placements import RankRequest, place
    >>> run = Ranking.from_lists({"q": "ab"}, candidates="abcde")
    >>> (placed,), _ = place(run, [RankRequest(Judgements.from_pairs([("q", "a"), ("q", "d")]))])
    >>> [(str(m), *(end.tolist() for end in bounds(placed, m))) for m in parse("R@5 Recall@5 P@4")]
    [('R@5', [1.0], [1.0]), ('Recall@5', [1.0], [1.0]), ('P@4', [0.25], [0.5])]
    """
    counted = measure.counted(placements)
    if not counted.unlocated.any():
        values = computed(measure, counted)
        return values, values
    worst, best = (computed(measure, counted.continued(best=best)) for best in (False, True))
    return np.minimum(worst, best), np.maximum(worst, best)


def computed(measure: Measure, placements: Placements) -> FloatArray:
    """Computes one value per query, and checks the output of user-defined functions."""
    if measure.kind.compute is None:
        raise LimnerError(f"{measure} sums measures of both directions: use it in evaluate(), which has both")
    values = np.asarray(measure.kind.compute(placements, measure), dtype=np.float64)
    if values.shape != (len(placements.queries),) or np.isnan(values).any():
        n_queries = len(placements.queries)
        shape = "NaN" if values.shape == (n_queries,) else f"an array of shape {values.shape}"
        raise LimnerError(f"measure {measure} gave {shape}: expected one number for each of {n_queries} queries")
    return values if measure.kind.bounds is None else _on_bounds(values, *measure.kind.bounds)


def _on_bounds(values: FloatArray, low: float, high: float) -> FloatArray:
    """Puts values that rounding moved beyond a bound on it; a mean of grades may be far beyond it and stays."""
    slack = ROUNDING * (high - low)
    values = np.where((values > high) & (values <= high + slack), high, values)
    return np.where((values < low) & (values >= low - slack), low, values)


def parse(measures: str | Measure | MeasureKind | Iterable[str | Measure | MeasureKind]) -> tuple[Measure, ...]:
    """Parses several measures, from a list or from one text separated by white space or commas.

    >>> parse("R@1, R@5 MedR")
    (Measure('R@1'), Measure('R@5'), Measure('MedR'))
    """
    listed = re.split(r"[\s,]+(?![^(]*\))", measures.strip()) if isinstance(measures, str) else measures
    return tuple(dict.fromkeys(map(Measure.parse, [listed] if isinstance(listed, (Measure, MeasureKind)) else listed)))


@cache
def _parts(written: tuple[str, ...]) -> tuple[Measure, ...]:
    return parse(written)


_WRITTEN = re.compile(
    r"(?P<module>[A-Za-z_][\w.]*:)?(?P<name>[A-Za-z_][\w-]*(?:@R)?)(?:@(?P<cut>\d+))?(?:\((?P<options>[^()]*)\))?",
    re.IGNORECASE,
)


def _split(text: str, trusted: bool) -> tuple[MeasureKind, int | None, tuple[tuple[str, float], ...]]:
    match = _WRITTEN.fullmatch(text.strip())
    if match is None:
        raise UnknownName("measure", text, _names())
    kind = _kind_named(text, match["module"] or "", match["name"], trusted)
    options = [_option(kind, text, part) for part in (match["options"] or "").split(",") if part.strip()]
    names = [name for name, _ in options]
    for name in names:
        if names.count(name) > 1:
            raise LimnerError(f"measure {text!r}: option {name} is given twice")
    if sum(name in kind.alternatives for name in names) > 1:
        raise LimnerError(f"measure {text!r}: give one of {' and '.join(kind.alternatives)}")
    changed = sorted((name, value) for name, value in options if value != kind.options[name])
    return kind, int(match["cut"][:12]) if match["cut"] else None, tuple(changed)


def kind_named(text: str) -> MeasureKind:
    """The kind of a measure given as text, with or without cut-off and options: "nDCG", "my_module:RBP"."""
    return _split(text, trusted=True)[0]


def _kind_named(text: str, module: str, name: str, trusted: bool) -> MeasureKind:
    """The kind with this name, ignoring case, or that of "module:kind"."""
    names = {each.lower(): each for each in MEASURES}
    if not module and name.lower() not in names:
        if meant := limner_name(text):
            raise LimnerError(f"unknown measure {text!r}: another program's name of {meant!r}; write {meant!r}")
        raise UnknownName("measure", text, _names())
    kind = MEASURES.find(f"{module}{name}" if module else names[name.lower()], trusted=trusted)
    if not isinstance(kind, MeasureKind):
        raise LimnerError(
            f"measure {text!r} is {type(kind).__name__}: expected a MeasureKind, which holds a function and its "
            "traits; see 'Add a measure' in the documentation"
        )
    return kind


def _names() -> list[str]:
    return [f"{kind.name}@k" if kind.cut == "required" else kind.name for kind in MEASURES.values()]


def _option(kind: MeasureKind, text: str, part: str) -> tuple[str, float]:
    name, equals, value = (piece.strip() for piece in part.partition("="))
    if name not in kind.options:
        raise UnknownName("option", name, kind.options, of=kind.name)
    default = kind.options[name]
    if isinstance(default, bool):
        if equals:
            raise LimnerError(f"measure {text!r}: option {name} takes no value; write {name} alone, or leave it out")
        return name, True
    if not value:
        raise LimnerError(f"measure {text!r}: option {name} needs a value; write for example {name}=1")
    return name, _number(value, f"measure {text!r}: option {name} is {value!r}", is_integer=isinstance(default, int))


def _number(value: str, option: str, *, is_integer: bool) -> float | int:
    """Parses a number of 0 or above, or a whole number of 1 or above."""
    try:
        read = float(value)
    except ValueError:
        raise LimnerError(f"{option}, expected a number") from None
    if is_integer and not (read.is_integer() and 1 <= read <= DEEPEST):
        raise LimnerError(f"{option}, expected a whole number, 1 or above")
    if not 0 <= read < np.inf:
        raise LimnerError(f"{option}, expected a finite number, 0 or above")
    return int(read) if is_integer else read


def _written(value: float) -> str:
    """The shortest decimal that round-trips.

    >>> _written(2.0), _written(0.1234567), _written(1e-07)
    ('2', '0.1234567', '1e-07')
    """
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


OTHER_NAMES = (
    (r"ndcg(?:_at_|_cut_)(\d+)", "nDCG@{}(linear)"),
    (r"(?:retrieval_?)?(?:normalized_?dcg|normalizeddcg)", "nDCG(linear)"),
    (r"ndcg_burges@(\d+)", "nDCG@{}"),
    (r"map(?:_at_|_cut_)(\d+)|AP@(\d+)", "MAP@{}"),
    (r"AP|average_precision", "MAP"),
    (r"(?:cv_recall|hit_rate|accuracy|hits|success)(?:_at_|@|_)(\d+)", "R@{}"),
    (r"recall(?:_at_|_)(\d+)", "Recall@{}"),
    (r"(?:precision(?:_at_|_|@)|P_)(\d+)", "P@{}"),
    (r"(?:mrr_at_|RR@)(\d+)", "MRR@{}"),
    (r"recip_rank|RR|mean_reciprocal_rank", "MRR"),
    (r"r[-_]?prec(?:ision)?", "RP"),
    (r"median_rank|med_?r", "MedR"),
    (r"mean_rank", "MeanR"),
)
"""Patterns of names, and the measure of limner that they mean."""


def limner_name(text: str) -> str:
    """The measure that a name of another program means; "" if there is none.

    >>> limner_name("ndcg_at_10"), limner_name("P_5"), limner_name("hit_rate@1"), limner_name("R@1")
    ('nDCG@10(linear)', 'P@5', 'R@1', '')
    """
    for pattern, name in OTHER_NAMES:
        match = re.fullmatch(pattern, text.strip(), re.IGNORECASE)
        if match is not None:
            return name.format(next((cut for cut in match.groups() if cut), ""))
    return ""
