"""Table 6 of the ranking paper: with what probability a test with 1,000 queries finds the gains over Tri5.

Hodosh, Young & Hockenmaier (2013), section 4.3.4: every variant of Tri5 with lexical similarities is better than Tri5
in R-precision, with p < 0.0001 in annotation and p <= 0.02 in search. Here not all are (`thirty_systems.py`). Is this
because 1,000 queries are too few? What a variant has more than Tri5, query by query, is moved so that its mean is the
gain in question, 1,000 queries are drawn anew with replacement, and Fisher's randomisation test is applied to them: its
p by the normal approximation of the sums with random signs. The share of draws with p of at most 0.05 is the
probability. How much the differences scatter from query to query is thus taken from our systems; that of the paper's
is not published.

Kernels, settings and options are those of `ranking_paper.py`. Needs `--data`; with `--rank 1000` a CPU is enough.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import ranking_bench
import table_seven
from lexical_ablation import per_query
from ranking_bench import TASKS, Reports, opened
from ranking_paper import EXCHANGED, PUBLISHED, settings
from scipy.stats import norm
from table_seven import SIMILARITIES

from claims import Claim, log, main, result_file
from limner.stats import bootstrap
from limner.systems.classic.paper_systems import ALIASES, system

BASE, BEST = "Tri5", "Tri5Sem"
VARIANTS = ("Tri5-ic", "Tri5-A", BEST)
LEVEL, LIKELY = 0.05, 0.8
PRINTED_P = {"i2t": 0.0001, "t2i": 0.02}
"""Of every variant with lexical similarities against Tri5."""
DRAWS = 20_000

Vector = npt.NDArray[np.float64]


class Drawn:
    """Queries drawn anew from differences between two systems, in points; their mean can be moved to any gain."""

    def __init__(self, difference: Vector, *, draws: int = DRAWS, seed: int = 0) -> None:
        """Draws; sums and squares of the centred differences serve every gain."""
        self.queries, centred = len(difference), difference - difference.mean()
        places = np.random.default_rng(seed).integers(0, self.queries, (draws, self.queries), dtype=np.int32)
        self.sums, self.squares = centred[places].sum(axis=1), (centred**2)[places].sum(axis=1)

    def p_values(self, gain: float) -> Vector:
        """p of the randomisation test of each draw; 1 where its mean is not above 0, as no gain is found then."""
        whole = self.sums + self.queries * gain
        squares = self.squares + 2 * gain * self.sums + self.queries * gain**2
        return np.where(whole > 0, 2 * norm.sf(whole / np.sqrt(squares)), 1.0)

    def found(self, gain: float, level: float = LEVEL) -> float:
        """The probability that a test finds this gain, in percent."""
        return 100 * float((self.p_values(gain) <= level).mean())

    def least(self, level: float = LEVEL, likely: float = LIKELY) -> float:
        """The gain that a test finds with probability `likely`, in points."""
        gains = np.linspace(0, 10, 201)
        return float(np.interp(100 * likely, [self.found(gain, level) for gain in gains], gains))


def published_gain(task: str, table: Mapping[tuple[str, str, str], float]) -> float:
    """What Tri5Sem has more than Tri5 in print, in points; Tri5 is not part of what may be exchanged."""
    return table[BEST, task, "RP"] - PUBLISHED[BASE, task, "RP"]


def differences(rows: Mapping[str, Reports], task: str) -> dict[str, Vector]:
    """R-precision of each variant minus that of Tri5, query by query, in percent."""
    base = per_query(rows[BASE], "RP", task)
    return {name: per_query(rows[name], "RP", task) - base for name in rows if name != BASE}


def table(rows: Mapping[str, Reports]) -> str:
    """A row for each variant and task: its gain, p, and with what probability a test finds which gain."""
    heads = ("gain over Tri5", "p", "scatter", "finds this gain", "finds the published gain of Tri5Sem",
             "gain found with 80%")  # fmt: skip
    lines = [f"| R-precision | {' | '.join(heads)} |", "|---" + "|---:" * len(heads) + "|"]
    for task, title in TASKS.items():
        for name, each in differences(rows, task).items():
            ends, own, drawn = bootstrap(each), float(each.mean()), Drawn(each)
            p = 2 * norm.sf(abs(each.sum()) / np.sqrt((each**2).sum()))
            shares = [f"{drawn.found(gain):.0f}%" for gain in (own, published_gain(task, PUBLISHED))]
            cells = [f"{own:+.1f} [{ends.low:+.1f}, {ends.high:+.1f}]", f"{p:.2g}", f"{each.std(ddof=1):.1f}", *shares]
            lines.append(f"| {name}, {title} | {' | '.join(cells)} | {drawn.least():.1f} |")
    return "\n".join(lines)


def saved_gains(task: str) -> list[float]:
    """Gains of the fourteen variants over Tri5 with exact kernels, from the saved table of all thirty systems."""
    levels = table_seven.read(table_seven.TABLE.read_text(encoding="utf-8"))[task]
    short = {full: name for name, full in ALIASES.items()}
    return [levels[short.get(name, name)]["RP"] - levels[BASE]["RP"] for name in SIMILARITIES]


def claimed(rows: Mapping[str, Reports]) -> Iterator[Claim]:
    """Whether a test with 1,000 queries finds the published gain, and ours; what it needs for the published p."""
    for task, title in TASKS.items():
        each, printed, exchanged = (
            differences(rows, task)[BEST],
            *(published_gain(task, t) for t in (PUBLISHED, EXCHANGED)),
        )
        drawn, own, level = Drawn(each), float(each.mean()), PRINTED_P[task]
        what = f"probability that 1,000 queries find the published gain of {BEST} over {BASE}"
        note = f"{printed:+.1f} points of R-precision; {exchanged:+.1f} if the text exchanges the two tasks: "
        note += f"{drawn.found(exchanged):.0f}%"
        yield Claim(f"{what} (p <= {LEVEL}), {title}, percent", drawn.found(printed), goal=">= 80", note=note)
        yield Claim(
            f"the same of our gain, {title}, percent", drawn.found(own), goal=">= 80", note=f"{own:+.1f} points"
        )
        gains, bound = saved_gains(task), drawn.least()
        note = f"{sum(gain < bound for gain in gains)} of the {len(gains)} variants with similarities gain less here"
        expected = sum(drawn.found(gain) for gain in gains) / 100
        note += f" (exact kernels, {min(gains):+.1f} to {max(gains):+.1f}); of gains like these, with the scatter of "
        note += f"{BEST}, {expected:.1f} are found on average; beside: the published gain of {BEST}"
        what = f"gain of R-precision over {BASE} that 1,000 queries find with 80%, {title}, points"
        yield Claim(what, bound, printed, "<= 1", note, source="print")
        note = f"80% need a gain of {drawn.least(level):.1f} points; the paper has this p for every variant with "
        note += f"similarities, and {printed:+.1f} points for {BEST}"
        what = f"probability that the published gain of {BEST} has the published p (<= {level:g}), {title}, percent"
        yield Claim(what, drawn.found(printed, level), goal=">= 80", note=note)


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Tri5 and the variants asked for."""
    bench = opened(options)
    rows = {name: bench.reports(system(name), "words") for name in (BASE, *options.systems)}
    text = f"{table(rows)}\n\n{settings(options)}\n"
    log(text)
    if options.save and not options.quick:
        result_file(Path(__file__), options, ".md").write_text(text, encoding="utf-8")
    yield from claimed(rows)


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of the kernels, and which variants."""
    ranking_bench.configure(parser)
    parser.add_argument("--systems", nargs="+", default=VARIANTS, help="variants beside Tri5; Tri5Sem is one of them")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
