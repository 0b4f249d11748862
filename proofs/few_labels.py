"""The true number from few labels: do the intervals cover, how wide are they, what does a judge save?

Thousands of studies, each of one measure, are simulated where the truth is known: units are drawn in strata, the
truth answers, the interval is made as `limner evaluate --estimate` makes it. Worlds: `scenes` (complete truth); COCO's
captions with ECCV Caption's positives as the truth, images standing for their first caption; Flickr8k's pairs that
experts judged. Judges: none, a good one (the truth with noise), useless (random numbers), adversarial (one less the
good one); on COCO also one that reads the candidate's other captions.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import limner
from claims import Claim, log, main, result_file
from limner.annotate.frames import frame, needed, values
from limner.core.judgements import Judgements
from limner.core.ranking import Ranking
from limner.evaluation.measures import Measure, parse
from limner.scores import Scores
from limner.stats import Estimate, draw, sequential, strata_of, stratified

BUDGETS = (100, 300, 1000)
STRATA = 5


@dataclass(frozen=True)
class World:
    """Lists of some systems in one direction, what is labelled, and what is true."""

    name: str
    lists: Mapping[str, Ranking]
    known: Judgements
    truth: Judgements
    captions: Any = None

    @cached_property
    def matches(self) -> set[tuple[str, str]]:
        """All true pairs."""
        return {(query, candidate) for query, candidate, _ in self.truth.relevant}


@dataclass(frozen=True)
class Target:
    """A number to be estimated: values of its units, and how they make the number."""

    name: str
    units: np.ndarray
    values: np.ndarray
    scale: float
    shift: float
    bounds: tuple[float, float] = (0.0, 1.0)

    @property
    def true(self) -> float:
        """The number itself."""
        return self.shift + self.scale * float(self.values.mean())


# --- worlds -----------------------------------------------------------------------------------------------------


def scenes() -> Iterator[World]:
    """Two systems of the built-in world, both directions."""
    whole = limner.load("scenes")
    held = whole.test
    scores = {name: limner.train(whole, name).scores(held) for name in ("histograms", "colours")}
    for direction in ("i2t", "t2i"):
        lists = {n: (s if direction == "i2t" else s.T).top(5) for n, s in scores.items()}
        yield World(f"scenes {direction}", lists, held.judged("pairs", direction), held.judged("complete", direction))


def coco(data: Path) -> Iterator[World]:
    """Captions as queries, images as their first caption: two ways to compare texts; the truth is ECCV Caption's."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    from limner.datasets.extended import read_coco_pairs, read_eccv

    rows = [line.split("\t") for line in (data / "coco/karpathy_test_5k.tsv").read_text().splitlines()[1:]]
    by_image: dict[str, list[str]] = {}
    for image, caption, _ in rows:
        by_image.setdefault(image, []).append(caption)
    at = {caption: n for n, (_, caption, _) in enumerate(rows)}
    firsts = {captions[0] for captions in by_image.values()}
    (_, eccv), (_, pairs) = read_eccv(), read_coco_pairs()
    queries, images = [q for q in eccv.queries if q in at and q not in firsts], list(by_image)
    ids = {"queries": queries, "candidates": images}
    texts = [text for _, _, text in rows]
    words = TfidfVectorizer(stop_words="english", sublinear_tf=True).fit_transform(texts)
    letters = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3)).fit_transform(texts)
    asked, shown = [at[q] for q in queries], [at[c[0]] for c in by_image.values()]
    made = {name: (m[asked] @ m[shown].T).toarray() for name, m in (("words", words), ("letters", letters))}
    lists = {name: Scores.from_matrix(matrix, queries, images).top(5) for name, matrix in made.items()}
    known, truth = (judged.restrict(**ids) for judged in (pairs, eccv))

    def captions(asked: list[tuple[str, str]]) -> np.ndarray:
        others = [[at[c] for c in by_image[image][1:] if c != query] for query, image in asked]
        return np.array([(words[o] @ words[at[q]].T).max() for o, (q, _) in zip(others, asked, strict=True)])

    yield World("COCO/ECCV t2i", lists, known, known.relevant | truth.relevant, captions)


# --- targets ----------------------------------------------------------------------------------------------------


def targets(world: World, measures: tuple[Measure, ...]) -> tuple[list[tuple[str, tuple[str, ...]]], list[Target]]:
    """The units of a study and every number it estimates, differences of the two systems among them."""
    made = frame(world.lists, world.known, measures)
    pair = made.unit == "pair"
    index = {(q, c[0]) if pair else q: n for n, (q, c) in enumerate(made.units)}
    found = []
    for measure in measures:
        parts = {}
        for name, ranking in world.lists.items():
            asked = needed(ranking, world.known, measure)
            rows = {q: row for row, q in enumerate(ranking.queries)}
            total = len(ranking.queries) * (measure.k or 1 if pair else 1)
            true = values(ranking, world.truth, measure)
            given = values(ranking, world.known, measure)
            if pair:
                wanted = [(q, c) for q, cs in asked.items() for c in cs]
                right = np.array([p in world.matches for p in wanted], dtype=float)
                shift = float(given.mean())
            else:
                wanted = list(asked)
                right = np.array([true[rows[q]] for q in wanted])
                shift = float(given.sum() - sum(given[rows[q]] for q in wanted)) / len(given)
            units = np.array([index[w] for w in wanted])
            target = Target(f"{measure} {name}", units, right, len(units) / total, shift)
            assert abs(target.true - true.mean()) < 1e-9
            parts[name] = target
            found.append(target)
        if len(parts) == 2:
            found.append(_difference(str(measure), *parts.values(), total))
    return list(made.units), found


def _difference(name: str, one: Target, other: Target, total: float) -> Target:
    both: dict[int, float] = {}
    for sign, each in ((1, one), (-1, other)):
        for unit, value in zip(each.units.tolist(), each.values.tolist(), strict=True):
            both[unit] = both.get(unit, 0.0) + sign * value
    units = np.array(list(both))
    made = np.array(list(both.values()))
    return Target(f"{name} difference", units, made, len(units) / total, one.shift - other.shift, (-1.0, 1.0))


def judges(world: World, units: list[Any]) -> dict[str, np.ndarray | None]:
    """What each judge says of each unit: of its likeliest pair."""
    random = np.random.default_rng(1)
    true = np.array([any((q, c) in world.matches for c in cs) for q, cs in units], dtype=float)
    good = np.clip(0.7 * true + 0.15 + 0.25 * random.normal(size=len(true)), 0, 1)
    found = {"none": None, "good": good, "useless": random.random(len(true)), "adversarial": 1 - good}
    if world.captions is not None:
        ends = np.cumsum([0, *(len(cs) for _, cs in units)])
        found["captions"] = np.maximum.reduceat(world.captions([(q, c) for q, cs in units for c in cs]), ends[:-1])
    return found


# --- studies ----------------------------------------------------------------------------------------------------


def coverage(
    targets: list[Target], judge: np.ndarray | None, number: int, units: int, studies: int, mode: str = "fixed"
) -> dict[str, dict[str, float]]:
    """Of so many studies: how often the interval holds the truth, its half-width and the bias."""
    codes = np.zeros(units, dtype=np.int64) if judge is None else strata_of(judge, STRATA)
    ends: dict[str, list[tuple[float, float, float]]] = {t.name: [] for t in targets}
    prepared = [_Prepared.of(target, codes) for target in targets]
    for seed in range(studies):
        found = draw(codes, number, pilot=2, seed=seed)
        for each in prepared:
            e = each.estimate(codes, found, mode)
            ends[each.target.name].append((e.value, e.low, e.high))
    rows = {}
    for target in targets:
        value, low, high = np.array(ends[target.name]).T
        half = float((high - low).mean() / 2)
        rows[target.name] = {
            "covered": float(((low <= target.true + 1e-12) & (target.true <= high + 1e-12)).mean()),
            "half": 100 * half,
            "bias": float(value.mean() - target.true) / half if half else 0.0,
        }
    return rows


@dataclass(frozen=True)
class _Prepared:
    """A target with all that does not change from study to study."""

    target: Target
    values: np.ndarray
    size: np.ndarray
    compact: np.ndarray

    @classmethod
    def of(cls, target: Target, codes: np.ndarray) -> _Prepared:
        values = np.full(len(codes), np.nan)
        values[target.units] = target.values
        size = np.bincount(codes[target.units], minlength=codes.max() + 1)
        return cls(target, values, size, np.searchsorted(np.flatnonzero(size), codes))

    def estimate(self, codes: np.ndarray, found: Any, mode: str) -> Estimate:
        bounds, units = self.target.bounds, found.units
        mine = ~np.isnan(self.values[units])
        if mode == "fixed":
            chosen = units[mine]
            e = stratified(self.values[chosen], self.compact[chosen], self.size[self.size > 0], bounds=bounds)
        else:
            share, pilot = np.bincount(codes) / len(codes), int((found.probabilities == 1).argmin())
            e = sequential(np.nan_to_num(self.values[units]), codes[units], self.size, shares=share, pilot=pilot,
                           frame=np.bincount(codes), member=mine, bounds=bounds)  # fmt: skip
        return e.scaled(self.target.scale, self.target.shift)


def labels_for(half: float, target: Target, judge: np.ndarray | None, units: int) -> int:
    """The least number of labels whose mean half-width is this many points, by halving, 40 studies each."""
    low, high = 20, units
    while high - low > max(low // 20, 5):
        middle = (low + high) // 2
        wide = coverage([target], judge, middle, units, 40)[target.name]["half"] > half
        low, high = (middle, high) if wide else (low, middle)
    return high


# --- claims -----------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Every table of the page, and a claim for what each has to show."""
    studies = 200 if options.quick else options.studies
    only = options.only.lower()
    worlds = list(scenes()) if only.startswith("scenes"[: len(only)]) else []
    if options.data is not None and only.startswith("coco"[: len(only)]):
        worlds += list(coco(options.data))
    worlds = [world for world in worlds if world.name.lower().startswith(only)]
    kept: list[dict[str, Any]] = []
    for world in worlds:
        for measures in ("R@1", "P@5", "R@5", "MRR@5"):
            kept += _table(world, parse(measures), studies)
    if options.data is not None and "flickr8k".startswith(only):
        kept += _flickr(options.data, studies)
    yield from _summed(kept)
    for world in worlds:
        if world.name.endswith("t2i"):
            yield from _anytime(world, studies)
            yield from _efficiency(world)
            yield from _pool(world)
    if options.save:
        target = result_file(Path(__file__), options, ".table.json")
        target.write_text(json.dumps(kept, indent=0) + "\n")


def _table(world: World, measures: tuple[Measure, ...], studies: int) -> list[dict[str, Any]]:
    units, found = targets(world, measures)
    rows = []
    for name, judge in judges(world, units).items():
        for budget in BUDGETS:
            each = np.mean([len(c) for _, c in units])
            number = int(min(budget / each, len(units)))
            if number < 20:
                continue
            for target, row in coverage(found, judge, number, len(units), studies).items():
                rows.append({"world": world.name, "judge": name, "labels": budget, "units": len(units),
                             "drawn": number, "target": target, **row})  # fmt: skip
                log(" ".join(f"{k}={v:.3f}" if isinstance(v, float) else f"{v}" for k, v in rows[-1].items()))
    return rows


def _flickr(data: Path, studies: int) -> list[dict[str, Any]]:
    """The share of matches among the pairs that experts judged; the judge is the crowd's share of yes."""
    held = limner.load(f"flickr8k:{data / 'flickr8k'}")
    expert, crowd = held.extra["expert"], held.ratings["crowd"]
    pairs = [(i, t) for i, t, _ in expert]
    true = np.array([grade > 0 for _, _, grade in expert], dtype=float)
    said = {(i, t): grade for i, t, grade in crowd}
    judge = np.array([said.get(pair, 0.0) for pair in pairs])
    target = Target("share of matches", np.arange(len(pairs)), true, 1.0, 0.0)
    random = np.random.default_rng(0).random(len(pairs))
    rows = []
    for name, scores in {"none": None, "crowd": judge, "useless": random, "adversarial": 1 - judge}.items():
        for budget in BUDGETS:
            row = coverage([target], scores, budget, len(pairs), studies)[target.name]
            rows.append({"world": "Flickr8k experts", "judge": name, "labels": budget, "units": len(pairs),
                         "drawn": budget, "target": target.name, **row})  # fmt: skip
            log(str(rows[-1]))
    return rows


def _summed(rows: list[dict[str, Any]]) -> Iterator[Claim]:
    """What the tables say in one line each."""
    for world in dict.fromkeys(r["world"] for r in rows):
        mine = [r for r in rows if r["world"] == world]
        covered = np.array([r["covered"] for r in mine])
        inside = float(((covered >= 0.935) & (covered <= 0.965)).mean())
        note = f"{len(mine)} rows; lowest {100 * covered.min():.1f}, highest {100 * covered.max():.1f}"
        yield Claim(
            f"{world}: mean coverage of 95% intervals, %",
            100 * float(covered.mean()),
            95,
            "within 1.5",
            note,
            source="theory",
        )
        yield Claim(f"{world}: share of rows covered 93.5 to 96.5%", inside, goal=">= 1", note=note)
        yield Claim(f"{world}: largest bias / half-width", float(max(abs(r["bias"]) for r in mine)), goal="< 0.1")
        for judge in ("useless", "adversarial"):
            ratios = [
                r["half"] / o["half"]
                for r in mine
                for o in mine
                if r["judge"] == judge and o["judge"] == "none" and r["target"] == o["target"]
                and r["labels"] == o["labels"] and o["half"] > 0
            ]  # fmt: skip
            if ratios:
                yield Claim(f"{world}: width with the {judge} judge over none, at most", max(ratios), goal="<= 1.05")


def _anytime(world: World, studies: int) -> Iterator[Claim]:
    many = min(studies, 500)
    units, (target, *_) = targets(world, parse("R@1"))
    for name, judge in judges(world, units).items():
        row = coverage([target], judge, 300, len(units), many, "anytime")[target.name]
        note = f"half-width {row['half']:.2f} points; {many} studies"
        what = f"{world.name}: anytime coverage, R@1, 300 labels, judge {name}, %"
        yield Claim(what, 100 * row["covered"], goal=">= 95", note=note)


def _efficiency(world: World) -> Iterator[Claim]:
    """Labels for a half-width of two points of the first system's R@1, in a study of that system alone."""
    name, ranking = next(iter(world.lists.items()))
    pooled = len({(q, c) for r in world.lists.values() for q in r.queries for c in r[q][:5]})
    units, (target,) = targets(replace(world, lists={name: ranking}), parse("R@1"))
    free = 1.96**2 * target.true * (1 - target.true)
    simple = free / (0.02**2 + free / len(ranking.queries))
    for judge, scores in judges(world, units).items():
        ours = labels_for(2.0, target, scores, len(units))
        note = f"+- 2 points of R@1 of {name}; simple random queries {simple:.0f}, pool of two systems {pooled:,}"
        what = f"{world.name}: labels, judge {judge}"
        yield Claim(f"{what}, against simple random queries", ours, simple, "<= 0.2", note, source="theory")
        yield Claim(f"{what}, against a pool of the first five", ours, pooled, "<= 0.1", note, source="limner")


def _pool(world: World) -> Iterator[Claim]:
    """R@1 of a system that was not in the pool, on labels pooled by the other."""
    one, other = world.lists.values()
    pool = {(q, c) for q in one.queries for c in one[q][:5]}
    yes = [(q, c) for q, c in pool if (q, c) in world.matches]
    ids = {"queries": world.known.queries, "candidates": world.known.candidates}
    pooled = world.known.relevant | Judgements.from_pairs(yes, **ids)
    measure = Measure.parse("R@1")
    true, seen = (100 * values(other, j, measure).mean() for j in (world.truth, pooled))
    units, found = targets(world, parse("R@1"))
    ours = coverage([found[1]], None, 300, len(units), 400)[found[1].name]
    bias = abs(ours["bias"]) * ours["half"]
    note = f"true R@1 {true:.1f}, by the other system's pool {seen:.1f}; ours from 300 labels of both systems' design"
    yield Claim(
        f"{world.name}: bias in points of R@1, designed against pooled",
        bias,
        abs(true - seen),
        "<= 0.1",
        note,
        source="limner",
    )


def configure(parser: argparse.ArgumentParser) -> None:
    """How many studies, of which world."""
    parser.add_argument("--only", default="", help="only worlds whose name begins so, e.g. 'scenes t2i' or 'coco'")
    parser.add_argument("--studies", type=int, default=2000, help="simulated studies of each row (default: 2000)")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
