"""Table 7 of the ranking paper, with the queries drawn anew: how well 1,000 queries know the order of near systems.

Hodosh, Young & Hockenmaier (2013), section 4.3.5: over thirty systems the order by R@1 does not correlate highly with
that by R-precision or S@1, while R@5, R@10 and the median rank do. Over ours R@1 correlates as well as these
(`thirty_systems.py`). Is R@1, with about 50 to 80 hits in 1,000 queries, so unsure of the order of systems that differ
in their text kernels only (`table_seven.py`) that its correlation comes out high or low by chance?

Three answers, for both tasks. (1) The queries are drawn anew with replacement: the 95% interval of each correlation,
and in how many draws R@1 agrees less with people than the other measures do, as in the paper. A draw adds its noise to
that of the queries it draws from, so that such intervals lie too low. (2) The queries are split into random halves:
how well a measure on one half agrees with itself on the other (its reliability), and with a measure of people on the
same half and on the other. What a query finds first counts for both measures of the same half; on different halves only
what distinguishes the systems is left, and noise allows at most the square root of the product of both reliabilities.
(3) The queries of the paper are the same 1,000, its systems are others: how well the order of our systems agrees with
that of the same systems with exact kernels and another outside corpus, from the saved table of `thirty_systems.py`.

Kernels, settings and options are those of `ranking_paper.py`. Needs `--data`; with `--rank 1000` a CPU is enough.
`--every` takes all thirty systems, as the paper does, in place of those that differ in their text kernels only.
`--count N` takes the first N systems in an order drawn at random, `--images N` trains with fewer images (such results
are saved in files of their own); `--keep FOLDER` keeps what is solved for the next run, `--workers N` solves in N
processes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import ranking_bench
import table_seven
from lexical_ablation import read
from ranking_bench import FOUND, JUDGED, TASKS, Bench, on_gpu
from ranking_paper import settings
from scipy.stats import rankdata
from table_seven import LIKE, groups
from thirty_systems import KINDS, levels, per_query, solve_at_once

from claims import Claim, log, main, result_file, set_part
from limner.stats import spearman
from limner.systems.classic.paper_systems import ALIASES, SYSTEMS, system

Pair = tuple[str, str]
Vector = npt.NDArray[np.float64]
Held = Mapping[str, Vector]
"""Of every measure systems by queries."""

PAIRS: Mapping[str, tuple[Pair, ...]] = {
    "S@k": (("R@1", "S@1"), ("R@5", "S@5"), ("R@10", "S@10")),
    "R-precision": (("R@1", "RP"), ("R@5", "RP"), ("R@10", "RP"), ("MedR", "RP")),
}
"""What Table 7 compares, its two parts; R@1 first."""
ALL = tuple(pair for each in PAIRS.values() for pair in each)
MEASURES = (*FOUND, *JUDGED)
DRAWS, SPLITS = 2_000, 1_000
HIGH = 0.7
"""Our bound for "do not correlate highly": the text gives none."""


def order(seed: int = 0, *, every: bool = False) -> list[str]:
    """The systems with pyramids of visual words, or all, in an order drawn at random, which knows no results."""
    names = list(SYSTEMS) if every else groups(list(SYSTEMS))[LIKE]
    return [names[place] for place in np.random.default_rng(seed).permutation(len(names))]


def redrawn(held: Held, draws: int = DRAWS, seed: int = 0) -> dict[Pair, Vector]:
    """Spearman's rho of every pair in each draw of the queries."""
    rng, count = np.random.default_rng(seed), held["R@1"].shape[1]
    found: dict[Pair, list[float]] = {pair: [] for pair in ALL}
    for _ in range(draws):
        own = levels(held, rng.integers(0, count, count))
        for pair, each in found.items():
            each.append(spearman(*(own[measure] for measure in pair)))
    return {pair: np.array(each) for pair, each in found.items()}


@dataclass(frozen=True)
class Halves:
    """Mean rho between measures over random halves of the queries, measures by measures."""

    same: Vector
    other: Vector

    @classmethod
    def of(cls, held: Held, splits: int = SPLITS, seed: int = 1) -> Halves:
        """Splits the queries; a measure on one half is compared with all on the same and on the other half."""
        rng, count, size = np.random.default_rng(seed), held["R@1"].shape[1], len(MEASURES)
        whole = np.zeros((2 * size, 2 * size))
        for _ in range(splits):
            places = rng.permutation(count)
            each = [levels(held, part) for part in (places[: count // 2], places[count // 2 :])]
            whole += np.corrcoef(rankdata([half[measure] for half in each for measure in MEASURES], axis=1))
        whole /= splits
        same, other = whole[:size, :size] + whole[size:, size:], whole[:size, size:] + whole[size:, :size]
        return cls(same / 2, other / 2)

    def reliability(self, measure: str) -> float:
        """How well the order of systems on one half agrees with that on the other."""
        return float(self.other[MEASURES.index(measure), MEASURES.index(measure)])

    def agreement(self, pair: Pair, *, same: bool) -> float:
        """How well two measures agree, on the same half or on different halves."""
        one, two = map(MEASURES.index, pair)
        return float((self.same if same else self.other)[one, two])

    def most(self, pair: Pair) -> float:
        """What both reliabilities allow on different halves, if but for noise two measures have the same order."""
        return float(np.sqrt(np.prod([max(self.reliability(measure), 0.0) for measure in pair])))


@dataclass(frozen=True)
class Found:
    """What was measured of one task."""

    title: str
    what: str
    held: Held
    saved: Mapping[str, Vector]
    drawn: Mapping[Pair, Vector]
    halves: Halves

    @property
    def count(self) -> int:
        """How many systems."""
        return len(self.held["R@1"])

    @property
    def whole(self) -> dict[str, Vector]:
        """Each measure of each system on all queries."""
        return levels(self.held, np.arange(self.held["R@1"].shape[1]))

    def rho(self, pair: Pair) -> float:
        """On all queries."""
        return spearman(*(self.whole[measure] for measure in pair))

    def ends(self, pair: Pair, than: Pair | None = None) -> tuple[float, float]:
        """The 95% interval of rho, or of the difference to that of another pair."""
        own = self.drawn[pair] - (0.0 if than is None else self.drawn[than])
        low, high = np.quantile(own, (0.025, 0.975))
        return float(low), float(high)

    def as_published(self, part: str) -> float:
        """In how many draws R@1 agrees less with people than every other measure does, in percent."""
        first, *others = (self.drawn[pair] for pair in PAIRS[part])
        return 100 * float((first < np.min(others, axis=0)).mean())

    def again(self, measure: str) -> float:
        """Rho of a measure's order with that of the same systems in the saved table."""
        return spearman(self.whole[measure], self.saved[measure])


def head(found: Found, *titles: str) -> list[str]:
    """The first two lines of a table."""
    return [f"| {found.title}, {found.count} systems | {' | '.join(titles)} |", "|---" + "|---:" * len(titles) + "|"]


def table(found: Found) -> str:
    """A row for each pair of measures, then one for each measure."""
    lines = head(found, "rho, 1,000 queries", "same half", "different halves", "most that noise allows")
    for pair in ALL:
        low, high = found.ends(pair)
        halves = [*(found.halves.agreement(pair, same=same) for same in (True, False)), found.halves.most(pair)]
        cells = [f"{found.rho(pair):.2f} [{low:.2f}, {high:.2f}]", *(f"{each:.2f}" for each in halves)]
        lines.append(f"| {' and '.join(pair)} | {' | '.join(cells)} |")
    lines += ["", *head(found, "systems' values", "reliability of a half", "rho with the saved table")]
    for measure in MEASURES:
        values = np.abs(found.whole[measure]) * (1 if measure == "MedR" else 100)
        cells = [f"{values.min():.1f} to {values.max():.1f}", f"{found.halves.reliability(measure):.2f}"]
        lines.append(f"| {measure} | {' | '.join(cells)} | {found.again(measure):.2f} |")
    return "\n".join(lines)


def claimed(found: Found) -> Iterator[Claim]:
    """Whether chance decides how well R@1 agrees with people, and whether R@10 agrees better."""
    for part, pairs in PAIRS.items():
        first, tenth = pairs[0], pairs[2]
        human, (low, high) = first[1], found.ends(first)
        what = f"{found.count} systems{found.what}, {found.title}"
        note = f"rho {found.rho(first):.2f} [{low:.2f}, {high:.2f}]; the paper calls it not high, without a figure"
        yield Claim(f"{what}: rho of R@1 and {human}: lower end of the 95% interval", low, goal=f"< {HIGH}", note=note)
        low, high = found.ends(tenth, first)
        note = f"{found.rho(tenth) - found.rho(first):+.2f} [{low:+.2f}, {high:+.2f}]"
        note += "; met means that R@10 agrees better for sure, as in the paper"
        claim = f"{what}: rho of {' and '.join(tenth)} minus that of R@1 and {human}"
        yield Claim(f"{claim}: lower end of the 95% interval", low, goal="> 0", note=note)
        claim = f"{what}: draws of the queries in which R@1 agrees less with {part} than every other measure, percent"
        note = "as in the paper; met means that its order of measures may be chance of the queries"
        yield Claim(claim, found.as_published(part), goal=">= 5", note=note)
    first, tenth = (found.halves.reliability(measure) for measure in ("R@1", "R@10"))
    note = "; ".join(f"{measure} {found.halves.reliability(measure):.2f}" for measure in MEASURES)
    claim = f"{what}: reliability of R@1 on half of the queries, beside that of R@10"
    yield Claim(claim, first, tenth, goal="<= 0.9", note=note, source="limner")


def begun(options: argparse.Namespace) -> Bench:
    """The bench with so many training images."""
    if options.gpu:
        on_gpu()
    return Bench(read(options), options)


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """The systems asked for, each of which has a text kernel of its own."""
    names = order(every=options.every)[: 5 if options.quick else options.count]
    if options.data is None:
        raise SystemExit("--data DIR: expected the folder that holds flickr8k/")
    if options.workers > 1:
        solve_at_once(options, names, begun, KINDS if options.every else KINDS[:1])
    bench = begun(options)
    images = len(bench.data.train.images)
    parts = ("every-system" if options.every else "", f"{images}-images" if images < 6000 else "")
    set_part(options, "-".join(filter(None, parts)))
    what = ("" if options.every else f" {LIKE}") + (f", {images:,} training images" if images < 6000 else "")
    reports = {name: bench.reports(system(name), "words") for name in names}
    saved, short = table_seven.read(table_seven.TABLE.read_text(encoding="utf-8")), {v: k for k, v in ALIASES.items()}
    told = []
    for task, title in TASKS.items():
        held, own = per_query(reports, task), [saved[task][short.get(name, name)] for name in names]
        again = {m: np.array([each[m] * (-1 if m == "MedR" else 1) for each in own]) for m in MEASURES}
        sizes = (100, 50) if options.quick else (DRAWS, SPLITS)
        told.append(Found(title, what, held, again, redrawn(held, sizes[0]), Halves.of(held, sizes[1])))
    about = f"{', '.join(names)}. {images:,} training images. {settings(options)}"
    text = "\n\n".join([*map(table, told), about]) + "\n"
    log(text)
    if options.save and not options.quick:
        result_file(Path(__file__), options, ".md").write_text(text, encoding="utf-8")
    for each in told:
        yield from claimed(each)


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of the kernels, how many systems, and how many processes."""
    ranking_bench.configure(parser)
    parser.add_argument("--every", action="store_true", help="all thirty systems, not only those with pyramids")
    parser.add_argument("--count", type=int, help="how many of these systems; all by default")
    parser.add_argument("--images", type=int, default=6000, help="training images that are used, drawn evenly")
    parser.add_argument("--workers", type=int, default=1, help="how many systems are solved at once")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
