"""Answers become labels, and labels judgements, with a report of the changes (Chun et al. 2022, section 3.3).

Several answers become one label per pair: by majority, or by the model of Dawid and Skene. Yes and weak yes become
positives with grades 1 and 0.5; rejected pairs are kept as judged pairs with grade 0. Excluded captions and images are
removed. Original pairs stay unless people rejected them; other judgements are merged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan

import numpy as np

from limner.annotate.scale import RELEVANCE, relevant
from limner.annotate.store import Store
from limner.annotate.store.answers import Answer, by_pair
from limner.annotate.store.contents import Key
from limner.annotate.store.exclusions import exclusions
from limner.core.errors import LimnerError, UnknownName, count
from limner.core.judgements import Judgements
from limner.stats import dawid_skene

GRADE_VALUES = (1, 2, 3, 4)


@dataclass(frozen=True)
class Label:
    """The grade of a pair, its confidence (0 to 1), and the number of answers."""

    image: str
    caption: str
    grade: int
    confidence: float
    answers: int


def majority(grades: Sequence[int]) -> tuple[int, float]:
    """The most frequent grade and its share; on a tie, the lower grade.

    >>> majority([4, 4, 2]), majority([4, 1])
    ((4, 0.6666666666666666), (1, 0.5))
    """
    if not grades:
        raise LimnerError("no answers to take a majority of: expected at least one")
    counted = Counter(grades)
    top_count = max(counted.values())
    return min(grade for grade, count in counted.items() if count == top_count), top_count / len(grades)


def by_majority(answers: Sequence[Answer]) -> list[Label]:
    """The majority of every pair's answers; controls are left out."""
    return [
        Label(*key, *majority([answer.grade for answer in pair_answers]), len(pair_answers))
        for key, pair_answers in by_pair(answers).items()
    ]


def by_dawid_skene(answers: Sequence[Answer]) -> list[Label]:
    """Dawid and Skene's most probable grade; controls are used to estimate error rates, but get no label."""
    if not answers:
        return []
    names = {name: row for row, name in enumerate(dict.fromkeys(a.annotator for a in answers))}
    keys = {key: row for row, key in enumerate(dict.fromkeys((a.image, a.caption) for a in answers))}
    rows = [(names[a.annotator], keys[a.image, a.caption], a.grade - 1) for a in answers]
    fit = dawid_skene(*np.array(rows).T, n_classes=len(GRADE_VALUES))
    counts = {key: len(pair_answers) for key, pair_answers in by_pair(answers).items()}
    best = fit.classes.argmax(axis=1)
    return [
        Label(*key, int(best[keys[key]]) + 1, float(fit.classes[keys[key], best[keys[key]]]), count)
        for key, count in counts.items()
    ]


METHODS: dict[str, Callable[[Sequence[Answer]], list[Label]]] = {
    "majority": by_majority,
    "dawid-skene": by_dawid_skene,
}


def aggregate(answers: Sequence[Answer], method: str = "majority") -> list[Label]:
    """One label per pair, by one of `METHODS`."""
    if method not in METHODS:
        raise UnknownName("way to aggregate", method, METHODS)
    return METHODS[method](answers)


def boolean_labels(labels: Iterable[Label]) -> dict[Key, bool]:
    """Whether each pair is a match."""
    return {(x.image, x.caption): relevant(x.grade) for x in labels}


@dataclass(frozen=True)
class Counted:
    """Positives in one direction, before and after.

    Args:
        direction: "i2t" or "t2i".
        queries: Queries with a judged pair; only these are counted.
        original: Positives of the original judgements.
        verified: Positives that people found.
        merged: Positives of the union.
        precision: Share of judged original positives that people confirm, mean over queries.
        recall: Share of the positives that people found that are in the original judgements, mean over queries.
    """

    direction: str
    queries: int
    original: int
    verified: int
    merged: int
    precision: float
    recall: float

    @property
    def verified_factor(self) -> float:
        """Ratio of the positives that people found to the original ones."""
        return self.verified / self.original if self.original else float("nan")

    @property
    def factor(self) -> float:
        """Ratio of the positives of the union to the original ones."""
        return self.merged / self.original if self.original else float("nan")


@dataclass(frozen=True)
class Merged:
    """The new judgements with statistics.

    Args:
        judgements: Image -> text; grades 1, 0.5 and 0.
        verified: Only the pairs that people judged.
        refuted: Number of original pairs that people rejected; they are no longer positives.
        removed: Number of excluded images and captions.
        counted: The figures, one per direction.
        quality: Precision and recall of the original and of each further set of judgements against `verified`, by name
            and direction (the paper's Table 2).
    """

    judgements: Judgements
    verified: Judgements
    refuted: int
    removed: int
    counted: tuple[Counted, Counted]
    quality: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)

    def __str__(self) -> str:
        """A small table."""
        rows = ["direction  queries  original  verified           merged             precision  recall"]
        for c in self.counted:
            verified, merged = _times(c.verified, c.verified_factor), _times(c.merged, c.factor)
            shares = f"{_percent(c.precision):>9}  {_percent(c.recall):>6}"
            rows.append(f"{c.direction:9}  {c.queries:7,}  {c.original:8,}  {verified:17}  {merged:17}  {shares}")
        for name, sides in list(self.quality.items())[1:]:  # that of the original is in the table
            parts = (f"{d} precision {_percent(p)}, recall {_percent(r)}" for d, (p, r) in sides.items())
            rows.append(f"{name}: {'; '.join(parts)}")
        refuted = count(self.refuted, "original pair was", "original pairs were")
        rows.append(f"{refuted} refuted; {self.removed:,} images and captions excluded")
        return "\n".join(rows)


def _times(number: int, factor: float) -> str:
    """A number and how many times the original one it is, where there is an original."""
    return f"{number:,}" if isnan(factor) else f"{number:,} (x{factor:.2f})"


def _percent(share: float) -> str:
    return "-" if isnan(share) else f"{100 * share:.1f}"


def to_judgements(
    labels: Iterable[Label],
    *,
    images: Iterable[str] | None = None,
    captions: Iterable[str] | None = None,
    name: str = "annotated",
) -> Judgements:
    """Judgements (image -> text) from labels: 1 for yes, 0.5 for weak yes, 0 for the rest.

    >>> found = to_judgements([Label("a.jpg", "a cat", 4, 1.0, 3), Label("a.jpg", "a dog", 2, 0.7, 3)])
    >>> found.grade("a.jpg", "a cat"), found.grade("a.jpg", "a dog"), len(found)
    (1.0, 0.0, 1)
    """
    rows = [(x.image, x.caption, RELEVANCE[x.grade]) for x in labels]
    return Judgements.from_pairs(rows, queries=images, candidates=captions, name=name)


def merge(
    labels: Sequence[Label],
    original: Judgements,
    *,
    further: Iterable[Judgements] = (),
    invalid_images: Iterable[str] = (),
    invalid_captions: Iterable[str] = (),
    name: str = "merged",
) -> Merged:
    """Merges the human labels with the original pairs and other judgements.

    Args:
        labels: One per judged pair.
        original: The original pairs, image -> text.
        further: Other judgements, image -> text, whose positives are added; unknown ids are left out.
        invalid_images: Images to exclude, e.g. duplicates.
        invalid_captions: Captions to exclude, e.g. "there is no image here".
        name: Name of the new judgements in reports.
    """
    bad_images, bad_captions = set(invalid_images), set(invalid_captions)
    images = [key for key in original.queries if key not in bad_images]
    captions = [key for key in original.candidates if key not in bad_captions]
    valid_labels = [x for x in labels if x.image not in bad_images and x.caption not in bad_captions]
    verified = to_judgements(valid_labels, images=images, captions=captions, name="verified")
    base = original.restrict(queries=images, candidates=captions)
    joined, refuted = _unless_refuted(base, verified)
    further_judgements = [extra.restrict(queries=images, candidates=captions) for extra in further]
    for extra in further_judgements:
        joined = joined | extra.relevant
    counted = tuple(_counted(d, base, verified, joined) for d in ("i2t", "t2i"))
    removed = len(original.queries) + len(original.candidates) - len(images) - len(captions)
    quality = {"original": _quality(base, verified)}
    for number, extra in enumerate(further_judgements):
        quality[extra.name if extra.name not in quality else f"{extra.name} {number + 1}"] = _quality(extra, verified)
    return Merged(joined.with_name(name), verified, refuted, removed, (counted[0], counted[1]), quality)


def _quality(judged: Judgements, verified: Judgements) -> dict[str, tuple[float, float]]:
    return {"i2t": precision_recall(judged, verified), "t2i": precision_recall(judged.T, verified.T)}


def _unless_refuted(original: Judgements, verified: Judgements) -> tuple[Judgements, int]:
    """The union without the original pairs that people rejected."""
    width = max(len(original.candidates), 1)
    said_no = verified.grades == 0
    refused = (verified.rows * width + verified.columns)[said_no]
    keep = ~np.isin(original.rows * width + original.columns, refused) | (original.grades == 0)
    remaining = Judgements(
        original.queries, original.candidates, original.rows[keep], original.columns[keep], original.grades[keep]
    )
    return remaining | verified, int((~keep).sum())


def _counted(direction: str, original: Judgements, verified: Judgements, joined: Judgements) -> Counted:
    sides = [j if direction == "i2t" else j.T for j in (original, verified, joined)]
    judged_queries = np.flatnonzero(np.diff(sides[1].indptr) > 0)
    before, n_verified, after = (int(side.counts[judged_queries].sum()) for side in sides)
    return Counted(direction, len(judged_queries), before, n_verified, after, *precision_recall(sides[0], sides[1]))


def precision_recall(original: Judgements, judged: Judgements) -> tuple[float, float]:
    """Precision and recall of the original positives, compared with the pairs that people found.

    With t_i the positives that people found for query i, h_i all pairs they judged and r_i the original ones,
    `r'_i = r_i & h_i`: `precision = mean |r'_i & t_i| / |r'_i|` and `recall = mean (1 - |t_i - r'_i| / |t_i|)`, each
    over the queries for which it is defined. Source: Chun et al. 2022, section 3.3.

    Args:
        original: Positives of the data set under test, query -> candidate.
        judged: The human judgements over the same ids, including judged negatives.

    >>> old = Judgements.from_pairs([("q", "a"), ("q", "b")], candidates="abc")
    >>> new = Judgements.from_pairs([("q", "a"), ("q", "b", 0), ("q", "c")], candidates="abc")
    >>> precision_recall(old, new)
    (0.5, 0.5)
    """
    if original.queries != judged.queries or original.candidates != judged.candidates:
        raise LimnerError("judgements over different ids: restrict one to the ids of the other first")
    width = max(len(original.candidates), 1)
    old = original.relevant.rows * width + original.relevant.columns
    judged_key, positive = judged.rows * width + judged.columns, judged.grades > 0
    in_old = np.isin(judged_key, old)
    n = len(judged.queries)
    n_judged, right, n_positive = (
        np.bincount(judged.rows[mask], minlength=n).astype(np.float64) for mask in (in_old, in_old & positive, positive)
    )
    precision = right[n_judged > 0] / n_judged[n_judged > 0]
    recall = right[n_positive > 0] / n_positive[n_positive > 0]
    return _mean(precision), _mean(recall)


def _mean(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    return float(values.mean()) if len(values) else float("nan")


def taken_out(store: Store) -> tuple[list[str], list[str]]:
    """The excluded images and captions of the store."""
    excluded = exclusions(store)
    return [e.name for e in excluded if e.kind == "image"], [e.name for e in excluded if e.kind == "caption"]
