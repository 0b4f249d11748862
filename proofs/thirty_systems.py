"""All thirty systems of the ranking paper on Flickr8k: the pool for the crowd, Table 6, Table 7.

Hodosh, Young & Hockenmaier (2013). The crowd was to judge every pair that one of the thirty systems returns among its
first ten answers in either task: 113,006 distinct pairs (section 4.3.2), of which the filter (BLEU-pre of at least
0.25 with the captions of the image) leaves 30,781. Here the same is counted for our thirty systems, five of which are
our reading of the text: KCCA with histograms of whole images. Another reading has nearest neighbours with histograms
among the five; the five of these eight that bring most pairs are counted too. Table 6 compares by R-precision what
idf, alignment and distributional similarities add to Tri5; of its cells our copy of the text has kept three, and of
Table 7, the rank correlations between measures over all systems, none: what is compared is what the text says about
them. Intervals draw the queries anew.

Kernels, KCCA and options are those of `ranking_paper.py`. Needs `--data` and, for a run within an hour, `--gpu`;
systems that a run with the same options and `--keep FOLDER` has solved are not solved again. `--workers N` solves in N
processes, which share the cores.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import ranking_bench
from ranking_bench import FOUND, JUDGED, TASKS, Bench, Reports, opened, values
from ranking_paper import PUBLISHED, SOURCES, markdown, settings, tables

from claims import THREADS, Claim, log, main, result_file
from limner.evaluation.comparison import compare
from limner.papers.thirty_systems import ALIASES, SYSTEMS, System, system
from limner.stats import kendall_tau_b, spearman

POOL, FILTERED = 113_006, 30_781
WELL = {"R@5": ("RP", "S@5"), "R@10": ("RP", "S@10"), "MedR": ("RP",)}
"""The measures that agree well with people's, section 4.3.5; R@1 does not."""
DRAWS = 2_000
KINDS = ("pyramid", "histogram")
ASSUMED = tuple(name for name in SYSTEMS if name.endswith("/histogram"))
"""Our reading: the text does not name these five."""
OTHERS = {f"{name}/histogram": System(f"{name}/histogram", "nearest", each.text, "histogram")
          for name, each in SYSTEMS.items() if each.method == "nearest"}  # fmt: skip
"""Another reading of the text: nearest neighbours with histograms of whole images."""
SIMILARITIES = tuple(
    name for name, each in SYSTEMS.items()
    if name.startswith("Tri5-") and each.images == "pyramid" and {*each.text.similarities} - {"lin"}
)  # fmt: skip
"""The fourteen variants of Tri5 in Table 6 with lexical similarities of any kind."""
PEOPLE = {"R@1": ("S@1", "RP"), "R@5": ("S@5", "RP"), "R@10": ("S@10", "RP")}
"""The measures of people that each is compared with in Table 7."""

Levels = Mapping[str, Mapping[str, float]]
"""Of each system the value of each measure."""


def pool_of(bench: Bench) -> Iterator[Claim]:
    """How many distinct pairs the thirty systems return first, and how many of them the filter leaves."""
    masks = first_ten(bench, SYSTEMS)
    returned = np.sum([*masks.values()], axis=0)
    is_returned = returned > 0
    pool, passes = int(is_returned.sum()), is_returned & bench.pool.passes
    title = "distinct pairs among the first ten answers of the thirty systems in both tasks"
    yield Claim(title, pool, POOL, "within 11301", "the goal is 10%", source="print")
    named = int(np.any([mask for name, mask in masks.items() if name not in ASSUMED], axis=0).sum())
    alone = added(masks)
    largest = max(alone, key=lambda name: alone[name])
    needed = (POOL - named) / len(ASSUMED)
    title = "pairs that each of five other systems would have to add to our 25 that the text names, for 113,006"
    note = f"beside: what {largest} adds to the 29 others, the most of all; our 25 have {named:,}"
    yield Claim(title, needed, alone[largest], "<= 1", note, source="limner")
    given_masks = [mask for name, mask in masks.items() if name not in ASSUMED]
    most_pairs, names = widest(given_masks, first_ten(bench, [*ASSUMED, *OTHERS]), len(ASSUMED))
    title = (
        "the same with those five of eight systems with histograms, three of them nearest neighbours, that bring most"
    )
    yield Claim(title, most_pairs, POOL, "within 11301", f"the goal is 10%; {', '.join(names)}", source="print")
    removed = 100 * (1 - passes.sum() / max(pool, 1))
    yield Claim("share of them that the filter removes, percent", removed, 72.8, "within 5", source="print")
    judged = 100 * float((passes & bench.pool.judged).sum() / max(passes.sum(), 1))
    note = f"the goal is 10%; people judged {judged:.1f}% of ours, the others none of the paper's systems returned"
    yield Claim("pairs that the filter leaves", int(passes.sum()), FILTERED, "within 3078", note, source="print")


def first_ten(bench: Bench, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Of each of these systems the pairs among the first ten answers of either task, images by captions."""
    return {name: bench.answers[name, "words"] for name in names}


def widest(
    base_masks: Sequence[np.ndarray], added_masks: Mapping[str, np.ndarray], count: int
) -> tuple[int, tuple[str, ...]]:
    """The most distinct pairs that systems have with so many of some others, and with which."""
    base = np.any(base_masks, axis=0)
    counts_by_names = {names: int(np.any([base, *(added_masks[name] for name in names)], axis=0).sum())
             for names in combinations(added_masks, count)}  # fmt: skip
    best = max(counts_by_names, key=lambda names: counts_by_names[names])
    return counts_by_names[best], best


def added(masks: Mapping[str, np.ndarray]) -> dict[str, int]:
    """How many pairs each system returns that no other returns."""
    once = np.sum([*masks.values()], axis=0) == 1
    return {name: int((mask & once).sum()) for name, mask in masks.items()}


def contributions(masks: Mapping[str, np.ndarray]) -> str:
    """What each system brings into the pool, those that bring most first."""
    alone = added(masks)
    lines = ["", "| system | pairs among its first ten answers | returned by no other |", "|---|---:|---:|"]
    lines += [f"| {name} | {int(masks[name].sum()):,} | {alone[name]:,} |"
              for name in sorted(alone, key=lambda name: -alone[name])]  # fmt: skip
    return "\n".join(lines)


def table_six(reports: Mapping[str, Reports]) -> Iterator[Claim]:
    """What the text says of Table 6: which additions to Tri5 are more than chance."""
    for task, title in TASKS.items():
        base = values(*reports["Tri5"])[task, "RP"]
        p, gains = {}, {}
        for name in (*SIMILARITIES, "Tri5-idf"):
            test = compare([reports[name][1], reports["Tri5"][1]]).line("RP", direction=task).between(0, 1).test
            p[name], gains[name] = test.p_value, values(*reports[name])[task, "RP"] - base
        better = [name for name in SIMILARITIES if p[name] <= 0.05 and gains[name] > 0]
        gains_text = ", ".join(f"{n} {gains[n]:+.1f} (p = {p[n]:.2g})" for n in SIMILARITIES if n not in better)
        claim_text = f"variants with lexical similarities that beat Tri5 in R-precision (p <= 0.05), {title}"
        yield Claim(
            claim_text,
            len(better),
            len(SIMILARITIES),
            ">= 1",
            gains_text and f"not beyond chance: {gains_text}",
            source="print",
        )
        printed = {"i2t": ("<= 0.05", "p < 0.03 published"), "t2i": ("> 0.05", "published: not significant")}[task]
        note = f"{gains['Tri5-idf']:+.1f} points; {printed[1]}"
        yield Claim(f"p of the gain of idf weights alone, {title}", p["Tri5-idf"], goal=printed[0], note=note)
    printed_cell = PUBLISHED["Tri5-A-idf", "t2i", "RP"]
    note = "the only cell that the text marks for both idf and alignment"
    ours = values(*reports["Tri5-A-idf"])["t2i", "RP"]
    yield Claim("Tri5-A-idf RP, search", ours, printed_cell, ">= 1", note, source="print")


def per_query(reports_by_name: Mapping[str, Reports], task: str) -> dict[str, np.ndarray]:
    """Of every measure systems by queries; median ranks from the ranks."""
    values_of: dict[str, list[np.ndarray]] = {}
    for reports in reports_by_name.values():
        for result in (r for report in reports for r in report.results if r.direction == task):
            values_of.setdefault(str(result.measure), []).append(np.asarray(result.values, dtype=float))
    return {measure: np.array(rows) for measure, rows in values_of.items()}


def levels(values_of: Mapping[str, np.ndarray], queries: np.ndarray) -> dict[str, np.ndarray]:
    """Each measure of each system on these queries; a low median rank is good, so its sign is turned."""
    return {m: -np.median(v[:, queries], axis=1) if m == "MedR" else v[:, queries].mean(axis=1)
            for m, v in values_of.items()}  # fmt: skip


def table_seven(reports: Mapping[str, Reports]) -> Iterator[Claim]:
    """Rank correlations over the systems, as far as the text tells them."""
    rng = np.random.default_rng(0)
    for task, title in TASKS.items():
        values_of = per_query(reports, task)
        count = values_of["R@1"].shape[1]
        full_levels = levels(values_of, np.arange(count))
        drawn = [levels(values_of, rng.integers(0, count, count)) for _ in range(DRAWS)]
        for measure, human in ((m, h) for m, each in WELL.items() for h in each):
            base = "S@1" if human.startswith("S") else human
            pair, weak = (measure, human), ("R@1", base)
            rho, tau = (f(full_levels[measure], full_levels[human]) for f in (spearman, kendall_tau_b))
            low = np.quantile([spearman(*(d[m] for m in pair)) - spearman(*(d[m] for m in weak)) for d in drawn], 0.025)
            first = spearman(*(full_levels[m] for m in weak))
            note = f"rho {rho:.2f}, tau {tau:.2f}; R@1 with {base} rho {first:.2f}; higher by {rho - first:+.2f}; "
            note += "the cells of Table 7 are lost in our copy of the text"
            claim_text = f"rho of {measure} and {human} minus that of R@1 and {base}, {title}"
            yield Claim(f"{claim_text}: lower end of the 95% interval", float(low), goal="> 0", note=note)


def groups(names: Sequence[str]) -> dict[str, list[str]]:
    """All systems, and those that are nearer to each other."""
    trained = [name for name in names if system(name).method == "kcca"]
    pyramids = [name for name in trained if system(name).images == "pyramid"]
    similar = [name for name in pyramids if ALIASES.get(name, name) in SIMILARITIES]
    return {"all": list(names), "without nearest neighbours": trained, "with pyramids of visual words": pyramids,
            "with lexical similarities": similar}  # fmt: skip


def by_group(by_task: Mapping[str, Levels]) -> str:
    """Spearman's rho of each measure with those of people, over each group; tasks by systems by measures."""
    heads = [f"{measure}, {human}" for measure, each in PEOPLE.items() for human in each]
    parts = []
    for task, title in TASKS.items():
        parts += ["", f"| rho, {title} | systems | {' | '.join(heads)} |", "|---|---:" + "|---:" * len(heads) + "|"]
        for label, names in groups(list(by_task[task])).items():
            cells = [f"{agreement(by_task[task], names, a, b):.2f}" for a, each in PEOPLE.items() for b in each]
            parts.append(f"| {label} | {len(names)} | {' | '.join(cells)} |")
    return "\n".join(parts)


def agreement(levels: Levels, names: Sequence[str], measure: str, human: str) -> float:
    """Spearman's rho of two measures over these systems."""
    return spearman(*(np.array([levels[name][each] for name in names]) for each in (measure, human)))


def correlations(reports: Mapping[str, Reports], names: Sequence[str] = (*FOUND, *JUDGED)) -> str:
    """Spearman's rho over all systems, measures by measures."""
    parts = []
    for task, title in TASKS.items():
        values_of = per_query(reports, task)
        full_levels = levels(values_of, np.arange(values_of["R@1"].shape[1]))
        parts += ["", f"| rho, {title} | {' | '.join(names)} |", "|---" + "|---:" * len(names) + "|"]
        parts += [
            f"| {a} | " + " | ".join(f"{spearman(full_levels[a], full_levels[b]):.2f}" for b in names) + " |"
            for a in names
        ]
    return "\n".join(parts)


Begin = Callable[[argparse.Namespace], Bench]
"""How a bench is opened; a function of a module, so that every process can."""


def solve(task: tuple[Begin, argparse.Namespace, Sequence[str]]) -> None:
    """Solves systems that share a text kernel, in a process of its own; kernels and scores are kept."""
    begin, options, names = task
    bench = begin(options)
    for name in names:
        bench.scores(system(name), "words")


def solve_at_once(
    options: argparse.Namespace, order: Sequence[str], begin: Begin = opened, kinds: Sequence[str] = KINDS
) -> None:
    """Solves all systems in several processes; text kernels with similarities take longest and are begun first."""
    options.keep = options.keep or Path(tempfile.mkdtemp())
    share = str(max(1, len(os.sched_getaffinity(0)) // options.workers))
    os.environ.update(dict.fromkeys(THREADS, share))
    bench = begin(options)
    for kind in kinds:
        bench.images("words", kind)  # kept: no worker computes it again
    groups: dict[str, list[str]] = {}
    for name in order:
        groups.setdefault(repr(system(name).text), []).append(name)
    begun = sorted(groups.values(), key=lambda names: -len(system(names[0]).text.similarities))
    with multiprocessing.get_context("spawn").Pool(options.workers, maxtasksperchild=1) as pool:
        pool.map(solve, [(begin, options, names) for names in begun], chunksize=1)


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Every system, then the counts and the tables."""
    # Systems that share a text kernel follow each other, so that it is computed once.
    order = sorted([*SYSTEMS.values(), *OTHERS.values()], key=lambda each: (repr(each.text), each.name))
    if options.workers > 1:
        solve_at_once(options, [each.name for each in order if each.name in SYSTEMS])
    bench = opened(options)
    reports = {each.name: bench.reports(each, "words") for each in order}
    reports = {name: reports[name] for name in SYSTEMS}
    short = {full: name for name, full in ALIASES.items()}
    named = {short.get(name, name): each for name, each in reports.items()}
    table_text = markdown(tables(named, "Tri5Sem", 1000 if options.quick else 10_000))
    levels = {task: {name: {m: value for (t, m), value in values(*each).items() if t == task}
                     for name, each in reports.items()} for task in TASKS}  # fmt: skip
    parts = table_text, correlations(reports), by_group(levels), contributions(first_ten(bench, SYSTEMS))
    text = f"**{SOURCES['words']}**\n" + "\n".join(parts) + f"\n\n{settings(options)}\n"
    log(text)
    if options.save and not options.quick:
        result_file(Path(__file__), options, ".md").write_text(text, encoding="utf-8")
    yield from pool_of(bench)
    yield from table_six(reports)
    yield from table_seven(reports)


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of the kernels, and how many processes."""
    ranking_bench.configure(parser)
    parser.add_argument("--workers", type=int, default=1, help="how many systems are solved at once")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
