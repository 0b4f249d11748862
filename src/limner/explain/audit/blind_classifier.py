"""Items solvable blind: the captions of an image can be told from its judged negatives without looking at the image.

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
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from limner.core.arrays import FloatArray
from limner.core.collection import Collection
from limner.datasets.probe_files import ProbeCase
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
