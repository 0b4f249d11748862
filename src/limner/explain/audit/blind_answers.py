"""What answers without looking: items solvable blind, and measures won by a scorer that knows nothing of the query.

An item is solvable blind if its captions can be told from its judged negatives without looking at the image.

An item is an image with matching captions and captions that were judged not to match (grade 0), as in sets of hard
negatives. Baselines that see no image score every caption. The language model that scores a caption was trained on
captions of other images.

- Bigrams and length: the margin of an item is the score of the matching caption with most words in common minus that of
  the negative. Where an image is needed to tell them apart, margins are as often negative as positive. The number of
  margins below -t therefore estimates how many of those above t are chance. The smallest t is used for which they are
  at most `FDR` of the findings (Barber & Candès 2015).
- Word order: what the order of its words adds to the score of the negative. The same score of all matching captions
  tells how likely so low a value is for a caption that somebody wrote, a p-value; the procedure of Benjamini & Hochberg
  (1995) selects the findings. This needs no matching caption beside the negative, whose own score adds only noise.

Scorers that know nothing of the query: random answers, equal scores, one list for all queries. Equal scores have the
expected value of random answers, since measures take the expectation over the orders of tied candidates. One list for
all queries ranks candidates by the number of queries that they match: no other list has a higher R@1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from limner.core.arrays import FloatArray, IntArray
from limner.core.collection import Collection
from limner.core.judgements import Judgements
from limner.datasets.probe_files import ProbeCase
from limner.evaluation.measures import DEFAULT, MEASURES, Measure
from limner.evaluation.placements import NEVER, Placements
from limner.explain.audit.findings import Defect
from limner.language.bigram import BigramModel, words
from limner.stats import false_discovery

FDR = 0.05
"""For each baseline, at most this share of its findings is expected to be chance."""
LEAST = 20
"""With fewer items, so small a share cannot be shown."""
FOLDS = 5
CaptionScore = Callable[[str], float]


def solvable(collection: Collection) -> tuple[list[Defect], list[str]]:
    """Images whose matching captions are told from their judged negatives by a baseline that sees no image.

    Args:
        collection: Its judgements have grades of 0 for captions that do not match.

    Returns:
        The findings, and a note if there are judged negatives but too few items.
    """
    cases = _cases(collection)
    if len(cases) < LEAST:
        note = (
            f"items solvable blind were not looked for: {len(cases)} images with judged negatives, {LEAST} are needed"
        )
        return [], [note] if cases else []
    reasons: dict[str, list[str]] = {}
    model = _CrossFitted(collection, cases)
    for name, score in {"bigrams": model.score, "length": lambda text: -float(len(words(text)))}.items():
        margins = np.array([_margin(case, score) for case in cases])
        for row in np.flatnonzero(margins >= threshold(margins)):
            reasons.setdefault(cases[row].id, []).append(f"margin of {name} {margins[row]:+.2f}")
    values = model.order_p_values(cases)
    for row in np.flatnonzero(false_discovery(values, method="bh") <= FDR):
        reasons.setdefault(cases[row].id, []).append(f"word order of the negative, p = {values[row]:.2g}")
    return [Defect("solvable-blind", (key,), "; ".join(listed)) for key, listed in reasons.items()], []


def _cases(collection: Collection) -> list[ProbeCase]:
    """Every image with matching captions and judged negatives."""
    texts, judged, ids = collection.texts, collection.judgements, collection.images.ids
    sides: dict[int, tuple[list[str], list[str]]] = {}
    for row, column, grade in zip(judged.rows, judged.columns, judged.grades, strict=True):
        if column < len(texts):
            sides.setdefault(int(row), ([], []))[int(grade <= 0)].append(str(texts.values[column]))
    return [
        ProbeCase(ids[row], "judged", (ids[row],), tuple(right), tuple(foils))
        for row, (right, foils) in sides.items()
        if right and foils
    ]


class _CrossFitted:
    """Bigram models of the matching captions; each caption is scored by one trained on captions of other images.

    Args:
        collection: Its matching captions are the training data.
        cases: Their negatives can be scored too.
    """

    def __init__(self, collection: Collection, cases: list[ProbeCase]) -> None:
        texts, pairs = collection.texts.values, collection.judgements.relevant
        fold: dict[str, int] = {}
        for row, column in zip(pairs.rows, pairs.columns, strict=True):
            if column < len(texts):
                fold.setdefault(str(texts[column]), int(row) % FOLDS)
        self._captions = dict(fold)
        for case in cases:  # an edited caption has the fold of the caption that it was made from
            for foil in case.foils:
                fold.setdefault(foil, fold[case.right[0]])
        self._fold = fold
        self._models = [BigramModel(text for text, f in self._captions.items() if f != each) for each in range(FOLDS)]

    def score(self, text: str) -> float:
        """The mean log probability of the words."""
        return self._models[self._fold[text]].score(text)

    def order(self, text: str) -> float:
        """What the order of the words adds to it."""
        return self._models[self._fold[text]].order_score(text)

    def order_p_values(self, cases: list[ProbeCase]) -> FloatArray:
        """For each case: the share of matching captions whose word order is as unlikely as that of the negatives."""
        written = np.sort([self.order(text) for text in self._captions])
        foils = np.array([np.mean([self.order(foil) for foil in case.foils]) for case in cases])
        return np.asarray((1 + np.searchsorted(written, foils, side="right")) / (1 + len(written)))


def _margin(case: ProbeCase, score: CaptionScore) -> float:
    """The mean over the negatives, each compared with the matching caption that shares most words with it."""
    return float(np.mean([score(_nearest(case.right, foil)) - score(foil) for foil in case.foils]))


def _nearest(right: tuple[str, ...], foil: str) -> str:
    foil_words = set(words(foil))
    return max(right, key=lambda text: len(foil_words & set(words(text))) / max(len(foil_words | set(words(text))), 1))


def threshold(margins: FloatArray, *, fdr: float = FDR) -> float:
    """The smallest margin from which on at most this share of the items is expected to be chance; infinite if none.

    Args:
        margins: The margin of every item.
        fdr: The share, a false discovery rate.

    >>> threshold(np.array([3.0] * 25 + [0.5, -0.5, 0.2, -0.2]))
    3.0
    >>> threshold(np.array([1.0, -1.0] * 50))
    inf
    """
    up, down = np.sort(margins[margins > 0]), np.sort(-margins[margins < 0])
    cuts = np.unique(np.append(up, down))
    positive, negative = (len(side) - np.searchsorted(side, cuts) for side in (up, down))
    good = np.flatnonzero((1 + negative) <= fdr * positive)
    return float(cuts[good[0]]) if len(good) else float("inf")


CHANCE = 0.2
"""A measure is reported if such a scorer reaches this share of its range."""
GOOD_RANK = 10
"""Measures of ranks, of which lower is better, are reported if such a scorer has this rank or a lower one."""
CUTS = (1, 5, 10)
DIRECTIONS = ("i2t", "t2i")


@dataclass(frozen=True)
class Reached:
    """What scorers that know nothing of the query reach.

    Args:
        measure: The measure.
        direction: "i2t", "t2i", or "" for a sum over both.
        by_chance: The value of random answers, and of equal scores.
        one_list: The value of one list for all queries.
    """

    measure: Measure
    direction: str
    by_chance: float
    one_list: float

    @property
    def wins(self) -> bool:
        """Whether one of them is high."""
        best = max(self.by_chance, self.one_list, key=lambda value: self.measure.kind.better * value)
        if self.measure.kind.rank:
            return best <= GOOD_RANK
        low, high = _range(self.measure)
        return best - low >= CHANCE * (high - low)

    def __str__(self) -> str:
        values = self.measure.show(self.by_chance), self.measure.show(self.one_list)
        return f"random answers and equal scores reach {values[0]}, one list for all queries {values[1]}"


def by_chance(collection: Collection) -> Iterator[Defect]:
    """Measures on which a scorer that knows nothing of the query scores well: few candidates, or many relevant ones."""
    for level in reached(collection):
        if level.wins:
            yield Defect("won-by-chance", (f"{level.measure} {level.direction}".strip(),), str(level))


def reached(collection: Collection) -> Iterator[Reached]:
    """Every measure in both directions, for scorers that know nothing of the query.

    Args:
        collection: Its judgements decide.

    >>> pairs = Collection.in_order(["a", "b", "c", "d"], ["w", "x", "y", "z"])
    >>> {str(r.measure): r.by_chance for r in reached(pairs) if r.measure.name in ("R", "MedR")}
    {'R@1': 0.25, 'R@5': 1.0, 'R@10': 1.0, 'MedR': 2.5}
    """
    placed = {}
    for direction in DIRECTIONS:
        judged = collection.judged(collection.judgements.name, direction).relevant
        if len(judged.rows):
            placed[direction] = _placed(judged)
    for measure in _measures() if placed else ():
        if measure.kind.composite is not None:
            yield Reached(measure, "", *(_sum(measure, scorer) for scorer in zip(*placed.values(), strict=True)))
            continue
        for direction, scorers in placed.items():
            yield Reached(measure, direction, *(_value(measure, scorer) for scorer in scorers))


Scorer = tuple[Placements, IntArray]
"""Ranks of some queries, and for every query the one of these that has the same value."""


def _placed(judged: Judgements) -> tuple[Scorer, Scorer]:
    """Ranks of the relevant candidates among tied ones, and in one list for all queries."""
    n_candidates = len(judged.candidates)
    popular = np.argsort(-np.bincount(judged.columns, minlength=n_candidates), kind="stable")
    rank = np.empty(n_candidates, dtype=np.int64)
    rank[popular] = np.arange(n_candidates)
    tied = np.full(len(judged.rows), n_candidates, dtype=np.int64)
    one_list = _placements(judged, rank[judged.columns], np.ones_like(tied))
    return _of_each_kind(_placements(judged, np.zeros_like(tied), tied)), (one_list, np.arange(len(one_list.queries)))


def _of_each_kind(placed: Placements) -> Scorer:
    """One query for each set of grades: if all candidates are tied, the others have the same values."""
    first: dict[bytes, int] = {}
    groups = [first.setdefault(each.tobytes(), row) for row, each in enumerate(_split(placed))]
    representatives, at = np.unique(groups, return_inverse=True)
    return placed.of(representatives), at


def _split(placed: Placements) -> list[FloatArray]:
    return [np.sort(each) for each in np.split(placed.grades, placed.indptr[1:-1])]


def _placements(judged: Judgements, ranks_above: IntArray, tied: IntArray) -> Placements:
    order, n = np.lexsort((ranks_above, judged.rows)), len(judged.queries)
    pool, judged_ranks = (np.full(n, each, dtype=np.int64) for each in (len(judged.candidates), NEVER))
    placements = Placements(
        judged.queries, judged.indptr, ranks_above[order], tied[order], judged.grades[order], pool, judged_ranks
    )
    return placements.with_positives()


def _value(measure: Measure, scorer: Scorer) -> float:
    placed, at = scorer
    return measure.summarise(measure(placed)[at])


def _measures() -> Iterator[Measure]:
    """Measures of any judgements, cut where they can be unless they are defaults; of equal functions the first."""
    functions: list[object] = []
    for name, kind in MEASURES.items():
        shared = kind.bounds is None or kind.compute in functions
        if kind.judged or kind.judgements or (not kind.rank and kind.composite is None and shared):
            continue
        functions.append(kind.compute)
        cuts = CUTS if kind.cut == "required" else CUTS[-1:] if kind.cut == "optional" else ()
        bare = not cuts or any(measure.name == name and measure.k is None for measure in DEFAULT)
        yield from [Measure.parse(name)] if bare else (Measure.parse(f"{name}@{cut}") for cut in cuts)


def _sum(measure: Measure, directions: tuple[Scorer, ...]) -> float:
    composite = measure.kind.composite
    return composite.value(_value(p, each) for p in measure.parts for each in directions) if composite else 0.0


def _range(measure: Measure) -> tuple[float, float]:
    """The lowest and the highest value."""
    composite = measure.kind.composite
    if composite is None:
        return measure.kind.bounds or (0.0, 1.0)
    n_terms = composite.weight * len(composite.parts) * len(DIRECTIONS)
    return n_terms * composite.bounds[0], n_terms * composite.bounds[1]
