"""Worlds for `few_labels.py` whose truth is known, as arrays of units that studies can be simulated on.

`scenes` (complete truth, two systems); COCO's captions with ECCV Caption's positives as the truth, an image standing
for its first caption and systems that compare texts; Flickr8k's pairs that experts judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import limner
from limner.annotate import levels
from limner.annotate.sample import SamplingFrame, frame, needed, values
from limner.core.judgements import Judgements
from limner.core.ranking import Ranking
from limner.evaluation.measures import Measure, parse
from limner.evaluation.placements import RankRequest, place
from limner.scores import Scores

WHOLE = parse("mAP@R RP Recall@5 nDCG@10 MAP")
"""Measures that need all matches of a query."""


@dataclass(frozen=True)
class World:
    """Scores of some systems in one direction, what is labelled, and what is true."""

    name: str
    scores: Mapping[str, Scores]
    known: Judgements
    truth: Judgements
    captions: Callable[[list[tuple[str, str]]], np.ndarray] | None = None

    @cached_property
    def matches(self) -> set[tuple[str, str]]:
        """All true pairs."""
        return {(query, candidate) for query, candidate, _ in self.truth.relevant}

    @cached_property
    def lists(self) -> dict[str, Ranking]:
        """The first places of each system."""
        return {name: scores.top(5) for name, scores in self.scores.items()}


@dataclass(frozen=True)
class Target:
    """A number to be estimated: values of its units, and how they make the number.

    Args:
        name: Measure and system, or "difference".
        units: The numbers of the units that matter.
        values: Their true values.
        scale: Share of the number that they are.
        shift: What is known without them.
        bounds: Of a unit's value.
        outside: Share of the number that pairs outside the design decide.
        beyond: What these add to it.
        signs: Of a difference of pairs: 1 for those of one system, -1 for those of the other, whose value is that
            they are no match.
    """

    name: str
    units: np.ndarray
    values: np.ndarray
    scale: float
    shift: float
    bounds: tuple[float, float] = (0.0, 1.0)
    outside: float = 0.0
    beyond: float = 0.0
    signs: np.ndarray | None = None

    @property
    def true(self) -> float:
        """The number itself."""
        return self.shift + self.scale * float(self.values.mean()) + self.beyond


# --- worlds -----------------------------------------------------------------------------------------------------


def scenes() -> Iterator[World]:
    """Two systems of the built-in world, both directions."""
    collection = limner.load("scenes")
    test_split = collection.test
    scores = {name: limner.train(collection, name).scores(test_split) for name in ("histograms", "colours")}
    for direction in ("i2t", "t2i"):
        sides = {n: s if direction == "i2t" else s.T for n, s in scores.items()}
        positives, truth = (test_split.judged(view, direction).relevant for view in ("pairs", "complete"))
        yield World(f"scenes {direction}", sides, positives, truth)


def coco(data: Path) -> Iterator[World]:
    """Captions and images of COCO's test split; an image is its first caption, which is no caption of the world."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    from limner.datasets.coco_judgements import read_coco_pairs, read_eccv

    rows = [line.split("\t") for line in (data / "coco/karpathy_test_5k.tsv").read_text().splitlines()[1:]]
    by_image: dict[str, list[str]] = {}
    for image, caption, _ in rows:
        by_image.setdefault(image, []).append(caption)
    at = {caption: n for n, (_, caption, _) in enumerate(rows)}
    firsts = {captions[0] for captions in by_image.values()}
    place_of = {image: at[captions[0]] for image, captions in by_image.items()} | at
    captions_shown = [caption for _, caption, _ in rows if caption not in firsts]
    texts = [text for _, _, text in rows]
    words = TfidfVectorizer(stop_words="english", sublinear_tf=True).fit_transform(texts)
    letters = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3)).fit_transform(texts)
    for direction, eccv, pairs in zip(("i2t", "t2i"), read_eccv(), read_coco_pairs(), strict=True):
        images = direction == "i2t"
        queries = [q for q in eccv.queries if q in (by_image if images else at) and q not in firsts]
        ids = {"queries": queries, "candidates": captions_shown if images else list(by_image)}
        query_rows, candidate_rows = ([place_of[each] for each in side] for side in ids.values())
        system_scores = {
            name: Scores.from_matrix((m[query_rows] @ m[candidate_rows].T).toarray(), *ids.values())
            for name, m in (("words", words), ("letters", letters))
        }
        positives, truth = (judged.restrict(**ids).relevant for judged in (pairs, eccv))
        likeness = _likeness(words, at, by_image, images)
        yield World(f"COCO/ECCV {direction}", system_scores, positives, positives | truth, likeness)


def _likeness(words: Any, at: dict[str, int], by_image: dict[str, list[str]], images: bool) -> Any:
    """A judge that compares a caption with the captions of the image that nobody else has seen: all but the first."""

    def similarities(queried_pairs: list[tuple[str, str]]) -> np.ndarray:
        likeness = np.zeros(len(queried_pairs))
        for n, (query, candidate) in enumerate(queried_pairs):
            image, caption = (query, candidate) if images else (candidate, query)
            other_captions = [at[c] for c in by_image[image][1:] if c != caption]
            likeness[n] = (words[other_captions] @ words[at[caption]].T).max() if other_captions else 0.0
        return likeness

    return similarities


def flickr(data: Path) -> tuple[Target, dict[str, np.ndarray | None]]:
    """The share of matches among the pairs that experts judged; the judge is the crowd's share of yes."""
    photographs = limner.load(f"flickr8k:{data / 'flickr8k'}")
    expert, crowd = photographs.extra["expert"], photographs.ratings["crowd"]
    pairs = [(i, t) for i, t, _ in expert]
    true = np.array([grade > 0 for _, _, grade in expert], dtype=float)
    crowd_grade = {(i, t): grade for i, t, grade in crowd}
    judge = np.array([crowd_grade.get(pair, 0.0) for pair in pairs])
    random = np.random.default_rng(0).random(len(pairs))
    target = Target("share of matches", np.arange(len(pairs)), true, 1.0, 0.0)
    return target, {"none": None, "crowd": judge, "useless": random, "adversarial": 1 - judge}


# --- targets of pairs and queries -------------------------------------------------------------------------------


def targets(
    world: World, measures: tuple[Measure, ...], planned: Mapping[str, Ranking] | None = None
) -> tuple[SamplingFrame, list[Target]]:
    """The units of a study of the planned systems and every number it estimates, differences among them."""
    sampling = frame(planned or world.lists, world.known, measures)
    pair = sampling.unit == "pair"
    index = {(q, c[0]) if pair else q: n for n, (q, c) in enumerate(sampling.units)}
    all_targets: list[Target] = []
    for measure in measures:
        total = len(world.known.queries) * ((measure.k or 1) if pair else 1)
        parts = [_target(world, name, measure, index, pair, total) for name in world.lists]
        all_targets += parts
        if len(parts) == 2 and not any(each.outside for each in parts):
            all_targets.append(_difference(str(measure), *parts, total, pair))
    return sampling, all_targets


def _target(world: World, name: str, measure: Measure, index: dict[Any, int], pair: bool, total: int) -> Target:
    ranking = world.lists[name]
    needed_pairs = needed(ranking, world.known, measure)
    rows = {q: row for row, q in enumerate(ranking.queries)}
    true, first_values = (values(ranking, judged, measure) for judged in (world.truth, world.known))
    if pair:
        unit_keys: list[Any] = [(q, c) for q, cs in needed_pairs.items() for c in cs]
        shift = float(first_values.mean())
        right = {w: float(w in world.matches) for w in unit_keys}
    else:
        unit_keys = list(needed_pairs)
        shift = float(first_values.sum() - sum(first_values[rows[q]] for q in unit_keys)) / len(first_values)
        right = {q: float(true[rows[q]]) for q in unit_keys}
    inside = [w for w in unit_keys if w in index]
    units, unit_values = np.array([index[w] for w in inside]), np.array([right[w] for w in inside])
    outside, beyond = (len(unit_keys) - len(inside)) / total, sum(right[w] for w in unit_keys if w not in index) / total
    target = Target(f"{measure} {name}", units, unit_values, len(units) / total, shift, outside=outside, beyond=beyond)
    assert abs(target.true - true.mean()) < 1e-9
    return target


def _difference(name: str, one: Target, rival: Target, total: float, pair: bool) -> Target:
    """One system less the other; pairs that both return cancel out, and of the other's counts that they are wrong."""
    values = dict(zip(one.units.tolist(), one.values.tolist(), strict=True))
    theirs = dict(zip(rival.units.tolist(), rival.values.tolist(), strict=True))
    name, shift = f"{name} difference", one.shift - rival.shift
    if not pair:
        differences = {n: values.get(n, 0.0) - theirs.get(n, 0.0) for n in values.keys() | theirs.keys()}
        units, unit_values = np.array(list(differences)), np.array(list(differences.values()))
        return Target(name, units, unit_values, len(units) / total, shift, (-1.0, 1.0))
    only_first, back = (
        [n for n in each if n not in opposite] for each, opposite in ((values, theirs), (theirs, values))
    )
    unit_values = np.array([*(values[n] for n in only_first), *(1 - theirs[n] for n in back)])
    signs = np.repeat([1.0, -1.0], [len(only_first), len(back)])
    units, shift = np.array([*only_first, *back]), shift - len(back) / total
    return Target(name, units, unit_values, len(units) / total, shift, signs=signs)


def judges(world: World, sampling: SamplingFrame) -> dict[str, np.ndarray | None]:
    """What each judge says of each unit: of its likeliest pair."""
    random, units = np.random.default_rng(1), sampling.units
    true = np.array([any((q, c) in world.matches for c in cs) for q, cs in units], dtype=float)
    good = np.clip(0.7 * true + 0.15 + 0.25 * random.normal(size=len(true)), 0, 1)
    by_judge: dict[str, np.ndarray | None] = {"none": None, "good": good}
    by_judge |= {"useless": random.random(len(true)), "adversarial": 1 - good}
    if world.captions is not None:
        ends = np.cumsum([0, *(len(cs) for _, cs in units)])
        by_judge["captions"] = np.maximum.reduceat(world.captions([(q, c) for q, cs in units for c in cs]), ends[:-1])
    return by_judge


# --- levels -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leveled:
    """Numbers that need all matches: the value of every query with the labels of every level.

    Args:
        name: Measure and system.
        values: (1 + levels, queries): by the given positives, and with each level; the last is the true value.
        costs: Labels of a query at each level.
    """

    name: str
    values: np.ndarray
    costs: np.ndarray

    @property
    def true(self) -> float:
        """The number itself."""
        return float(self.values[-1].mean())


def leveled(world: World, planned: tuple[str, ...] | None = None) -> list[Leveled]:
    """Every number of a study by levels of the planned systems."""
    names = planned or tuple(world.scores)
    lists = {n: world.scores[n].top(levels.depth_of(WHOLE)) for n in names}
    upper = levels.levels(lists, world.known)
    costs = levels.costs(upper, world.known)
    positives = world.known
    revealed = [positives, *(_revealed(world, each) for each in upper), positives | world.truth]
    placed = {n: place(each, [RankRequest(judged) for judged in revealed])[0] for n, each in world.scores.items()}
    results = []
    for measure in WHOLE:
        steps = {n: np.array([measure(at) for at in each]) for n, each in placed.items()}
        one, second = steps.values()
        for name, each in {**steps, "difference": one - second}.items():
            results.append(Leveled(f"{measure} {name}", each, costs))
    return results


def _revealed(world: World, labelled: list[tuple[str, ...]]) -> Judgements:
    yes = [
        (q, c)
        for q, candidates in zip(world.known.queries, labelled, strict=True)
        for c in candidates
        if (q, c) in world.matches
    ]
    ids = {"queries": world.known.queries, "candidates": world.known.candidates}
    return world.known | Judgements.from_pairs(yes, **ids)
