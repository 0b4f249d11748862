"""Table 6 of the ranking paper: do kernels, outside corpus or settings decide how many variants beat Tri5?

Hodosh, Young & Hockenmaier (2013) find all fourteen variants of Tri5 with lexical similarities better than Tri5 in
R-precision. `thirty_systems.py` finds 8 of them in annotation and 10 in search with exact kernels, WordNet's
definitions and all settings, 12 and 10 with text kernels cut to 1,000 eigenvectors, captions of COCO and fewer
settings. Three things differ at once; here they are changed one by one, in every combination, over Tri5 and those
variants that only the second run finds. Settings are of three kinds: all that dev chose from in the first run; of
these d = 1; of these also p = 2 and no kappa of 5, as in the second run. Fifteen models are chosen on dev from each.
Tri5 and variants without BNC in their name use no outside corpus; what the corpus does is told of the others only. An
effect is the mean over all combinations of the two other things; its interval draws the 1,000 queries anew.

Needs `--data`, `--corpus FOLDER` (WordNet's data files) and COCO's captions; with 6,000 images also `--gpu`.
`--histograms`, `--keep` and the grid are those of `ranking_paper.py`; `--rank` is the cut (1,000 by default).
`--workers N` solves N systems at once, and `--minutes N` begins no further system after so many minutes; with `--keep`
the next run goes on from there.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import ranking_bench
from lexical_ablation import per_query
from ranking_bench import PROTOCOL, TASKS, Bench, crowd, opened, timed

from claims import THREADS, Claim, log, main, result_file
from limner.evaluation.evaluate import evaluate
from limner.stats import bootstrap, randomisation
from limner.systems.classic.models import KccaModel, TwoWayScores
from limner.systems.classic.paper_systems import System, system
from limner.systems.classic.selection import Dev, Setting, trials
from limner.systems.classic.training import GridSearch

BASE = "Tri5"
VARIANTS = ("Tri5-ic", "Tri5-A", "Tri5-BNC+ic", "Tri5-A-BNC-idf")
"""Beyond chance in annotation in the run with cut kernels, and not in the run with exact ones."""
KERNELS = ("exact", "cut")
CORPORA = ("WordNet's definitions", "captions of COCO")
FEWER: Mapping[str, Callable[[Setting], bool]] = {
    "all": lambda setting: True,
    "d = 1": lambda setting: setting.diagonal == 1,
    "d = 1, p = 2, kappa up to 1": lambda setting: setting.diagonal == 1 and setting.power == 2 and setting.kappa <= 1,
}
SETTINGS = tuple(FEWER)
FACTORS = {"kernels": KERNELS, "corpus": CORPORA, "settings": (SETTINGS[0], SETTINGS[-1])}
"""What differs between the two runs: the first one's level, then the second one's."""
LEVEL = 0.05

Vector = npt.NDArray[np.float64]
Cell = tuple[str, str, str]
"""Kernels, corpus and settings."""
Found = Mapping[tuple[str, str], Mapping[Cell, Vector]]
"""By system and task the R-precision of each query, in percent, in every cell."""
Work = tuple[argparse.Namespace, str, str, float | None]
"""Options, a system, the outside corpus, and when no system is begun any more."""


def needs_corpus(name: str) -> bool:
    """Whether a system compares words by an outside corpus."""
    return "corpus" in system(name).text.similarities


def searched(bench: Bench, asked: System) -> dict[str, GridSearch]:
    """Every setting solved once and measured on dev; fifteen models are chosen from each kind of settings."""
    (_, dev_images, _), (own, dev_texts, _) = bench.images("words", asked.images), bench.texts(asked)
    found, texts = {kind: GridSearch(fuse=True) for kind in FEWER}, bench.decomposed(own)
    for power in bench.options.powers:
        pair = bench.pair("words", asked.images, power, texts)
        how: dict[str, Any] = {"kappas": bench.options.kappas, "diagonals": bench.options.diagonals, "power": power}
        for directions, measured in trials(pair, Dev.of(bench.data.dev), dev_images**power, dev_texts, **how):
            for kind, wanted in FEWER.items():
                if wanted(measured[0].setting):
                    found[kind].add(pair, directions, measured)
    return found


def precisions(bench: Bench, asked: System) -> dict[tuple[str, str], Vector]:
    """R-precision of every query in percent, by settings and task."""
    images, texts = bench.images("words", asked.images)[2], bench.texts(asked)[2]
    ids = bench.data.test.images.ids, bench.data.test.texts.ids
    found = {}
    for kind, search in searched(bench, asked).items():
        model = KccaModel(asked.name, None, None, None, bench.data.documents, search.spaces(), search.settings)
        both = model.fuse(images, texts, *ids)
        scores = TwoWayScores(*ids, both.forward, both.backward)
        judged = crowd(evaluate(scores, bench.data.judged, protocol=PROTOCOL, name=asked.name))
        found |= {(kind, task): per_query((judged,), "RP", task) for task in TASKS}
    return found


def solved(work: Work) -> dict[tuple[str, str, str], Vector]:
    """A system with one corpus, exact and cut, in a process of its own: by kernels, settings and task."""
    options, name, corpus, deadline = work
    how = (options.rank, *options.kappas, *options.diagonals, *options.powers, "quick" if options.quick else "")
    file = options.keep / f"{name}, {corpus}, {' '.join(map(str, how)).strip()}.npz"
    if file.is_file():
        with np.load(file) as held:
            return {tuple(key.split("|")): held[key] for key in held}  # type: ignore[misc]
    if deadline is not None and time.time() > deadline:
        log(f"{name}, {corpus}: not begun, the time is over")
        return {}
    bench = opened(argparse.Namespace(**{**vars(options), "rank": None}))
    bench.images("words", system(name).images)
    own = argparse.Namespace(**{**vars(options), "keep": options.keep / corpus})
    own.corpus = options.corpus if corpus == CORPORA[0] else None
    found = {}
    for kernels in KERNELS:
        rank = None if kernels == "exact" else own.rank
        each = replace(bench, options=argparse.Namespace(**{**vars(own), "rank": rank}), _held={})
        made = timed(f"{name}, {corpus}, {kernels}", lambda each=each: precisions(each, system(name)))
        found |= {(kernels, *key): values for key, values in made.items()}
    np.savez(file, **{"|".join(key): values for key, values in found.items()})  # type: ignore[arg-type]
    return found


def every(options: argparse.Namespace, names: Sequence[str]) -> Found:
    """All systems in all cells; one that needs no corpus is solved once and stands in the cells of both."""
    deadline = None if options.minutes is None else time.time() + 60 * options.minutes
    bench = opened(argparse.Namespace(**{**vars(options), "rank": None}))
    bench.images("words", "pyramid")  # kept: no worker computes it again
    work: list[Work] = [(options, name, corpus, deadline) for name in names for corpus in CORPORA
                        if needs_corpus(name) or corpus == CORPORA[0]]  # fmt: skip
    order = sorted(work, key=lambda each: -len(system(each[1]).text.similarities) if each[1] != BASE else -9)
    if options.workers == 1:
        done = [solved(each) for each in order]
    else:
        os.environ.update(dict.fromkeys(THREADS, str(max(1, len(os.sched_getaffinity(0)) // options.workers))))
        with multiprocessing.get_context("spawn").Pool(options.workers, maxtasksperchild=1) as pool:
            done = pool.map(solved, order, chunksize=1)
    found: dict[tuple[str, str], dict[Cell, Vector]] = {}
    for (_, name, corpus, _), part in zip(order, done, strict=True):
        for (kernels, kind, task), values in part.items():
            for each in (corpus,) if needs_corpus(name) else CORPORA:
                found.setdefault((name, task), {})[kernels, each, kind] = values
    return found


def gains(found: Found, task: str) -> dict[str, dict[Cell, Vector]]:
    """What each variant has more than Tri5, query by query, in every cell."""
    base = found[BASE, task]
    names = [name for name, each in found if each == task and name != BASE]
    return {name: {cell: values - base[cell] for cell, values in found[name, task].items()} for name in names}


def mean_gain(found: Found, task: str, factor: str = "") -> dict[Cell, Vector]:
    """The mean of the variants' gains; for the corpus only of those that use one."""
    each = [one for name, one in gains(found, task).items() if factor != "corpus" or needs_corpus(name)]
    return {cell: np.mean([one[cell] for one in each], axis=0) for cell in (each[0] if each else {})}


def factors(found: Found) -> dict[str, tuple[str, str]]:
    """What can be told apart: the corpus only if a variant uses one."""
    return {name: levels for name, levels in FACTORS.items() if mean_gain(found, "i2t", name)}


def effect(cells: Mapping[Cell, Vector], factor: str) -> Vector:
    """What the second level of a factor has more than the first, over all combinations of the others, by query."""
    place = list(FACTORS).index(factor)
    others = [levels for name, levels in FACTORS.items() if name != factor]
    differences = []
    for rest in product(*others):
        first, second = ((*rest[:place], level, *rest[place:]) for level in FACTORS[factor])
        differences.append(cells[second] - cells[first])  # type: ignore[index]
    return np.asarray(np.mean(differences, axis=0))


def beyond(difference: Vector) -> bool:
    """Whether a gain is above 0 with p of at most 0.05, by Fisher's randomisation test."""
    return bool(difference.mean() > 0 and randomisation(difference, 0 * difference).p_value <= LEVEL)


def number(found: Found, task: str) -> dict[Cell, int]:
    """How many variants beat Tri5 in each cell."""
    each = gains(found, task).values()
    return {cell: sum(beyond(one[cell]) for one in each) for cell in mean_gain(found, task)}


def told(difference: Vector) -> str:
    """A mean with its 95% interval."""
    ends = bootstrap(difference)
    return f"{difference.mean():+.1f} [{ends.low:+.1f}, {ends.high:+.1f}]"


def table(found: Found) -> str:
    """A row per task and cell; then what each factor changes."""
    names = list(gains(found, "i2t"))
    lines = [f"| R-precision | kernels | outside corpus | settings | Tri5 | {' | '.join(names)} | beyond chance |"]
    lines.append("|---|---|---|---" + "|---:" * (len(names) + 2) + "|")
    for task, title in TASKS.items():
        each, base, counted = gains(found, task), found[BASE, task], number(found, task)
        for cell in sorted(counted, key=lambda cell: [levels.index(level) for levels, level in zip(
                (KERNELS, CORPORA, SETTINGS), cell, strict=True)]):  # fmt: skip
            cells = [f"{base[cell].mean():.1f}", *(told(one[cell]) for one in each.values())]
            lines.append(f"| {title} | {' | '.join(cell)} | {' | '.join(cells)} | {counted[cell]} of {len(names)} |")
    lines += [
        "",
        "| changed | R-precision | Tri5 | the variants, mean | their gain over Tri5, mean |",
        "|---|---|---:|---:|---:|",
    ]
    for factor, (first, second) in factors(found).items():
        for task, title in TASKS.items():
            gain, base = effect(mean_gain(found, task, factor), factor), effect(found[BASE, task], factor)
            cells = " | ".join(told(each) for each in (base, gain + base, gain))
            lines.append(f"| {factor}: {second} instead of {first} | {title} | {cells} |")
    return "\n".join(lines)


def claims(found: Found) -> Iterator[Claim]:
    """What each factor adds to the gain over Tri5, and to Tri5 itself; how many variants are found where."""
    for task, title in TASKS.items():
        counted, names = number(found, task), list(gains(found, task))
        for factor, (first, second) in factors(found).items():
            gain, base = effect(mean_gain(found, task, factor), factor), effect(found[BASE, task], factor)
            moved = [name for name in names if factor != "corpus" or needs_corpus(name)]
            place = list(FACTORS).index(factor)
            by_level = [[count for cell, count in counted.items() if cell[place] == level] for level in (first, second)]
            note = f"{told(gain)}; Tri5 itself {told(base)}; variants beyond chance, mean over cells: "
            note += " and ".join(f"{np.mean(each):.1f}" for each in by_level) + f" of {len(names)}"
            what = f"{factor}, {second} instead of {first}: added to the mean gain of {len(moved)} variants over Tri5"
            low = bootstrap(gain).low
            yield Claim(
                f"{what}, R-precision, {title}, points: lower end of the 95% interval", low, goal="> 0", note=note
            )
        best = max(counted, key=lambda cell: counted[cell])
        note = f"{', '.join(best)}; {', '.join(names)}"
        what = f"variants that beat Tri5 in R-precision (p <= {LEVEL}), {title}, best of {len(counted)} combinations"
        yield Claim(what, counted[best], len(names), ">= 1", note, source="print")


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Tri5 and the variants in every combination."""
    if options.corpus is None or not options.corpus.is_dir():
        raise SystemExit("--corpus FOLDER: expected the folder of WordNet's data files")
    options.rank = options.rank or (200 if options.quick else 1000)
    with tempfile.TemporaryDirectory() as instead:
        options.keep = options.keep or Path(instead)
        options.keep.mkdir(parents=True, exist_ok=True)
        found = every(options, (BASE, *options.systems))
    grid = {"kappa": options.kappas, "d": options.diagonals, "p": options.powers}
    shown = "; ".join(f"{name} {', '.join(f'{each:g}' for each in values)}" for name, values in grid.items())
    text = f"{table(found)}\n\nAll settings: {shown}. Cut: {options.rank:,} leading eigenvectors of the text kernel.\n"
    log(text)
    if options.save and not options.quick:
        result_file(Path(__file__), options, ".md").write_text(text, encoding="utf-8")
    yield from claims(found)


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of the kernels, which variants, and how many processes."""
    ranking_bench.configure(parser)
    parser.add_argument("--systems", nargs="+", default=VARIANTS, help="variants beside Tri5")
    parser.add_argument("--workers", type=int, default=1, help="how many systems are solved at once")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
