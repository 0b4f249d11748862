"""Failures of a system, explained one by one and summarised."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from limner.core.arrays import Array, FloatArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.progress import Progress, ProgressLike, as_progress, counting
from limner.core.ranking import Ranking
from limner.evaluation.inputs import direction_of
from limner.evaluation.results import LEAST
from limner.explain.concept_agreement import (
    HIGHER,
    SCORES,
    SHARES,
    THRESHOLD,
    ConceptAgreement,
    agreement,
    similarities,
)
from limner.explain.concepts import Concepts, Faults, of_images, own_words, with_caption_objects
from limner.explain.noun_phrases import mentioned
from limner.language.wordnet import WordNet
from limner.scores import Scores
from limner.stats import bootstrap, mean_interval

PER_FAILURE = "wrong counts per failure"
FROM_CAPTIONS = (
    "the images have no annotated objects: objects are taken from the captions, so those that no caption "
    "mentions are unknown; for more, give --objects FILE (or images with the field 'objects')"
)


@dataclass(frozen=True)
class Failure:
    """A query whose first answer is wrong: the relevant image, and the returned one.

    Args:
        query: Id of the query, a text or an image.
        text: The query caption, or the caption returned for an image.
        truth: Image id.
        returned: Image id.
        alternative: Whether more complete judgements count the answer as relevant; None without them.
        by_text: Whether the text is the query. For an image query, the text is the result and belongs to `returned`.
    """

    query: str
    text: str
    truth: str
    returned: str
    alternative: bool | None = None
    by_text: bool = True


def failures(
    system: Scores | Ranking,
    collection: Collection,
    *,
    direction: str | None = None,
    judgements: str = "pairs",
    fuller: str | None = "complete",
    progress: ProgressLike = None,
) -> list[Failure]:
    """Every query whose first answer is not relevant.

    Args:
        system: Scores or a ranking, from texts to images or from images to texts.
        collection: Images, texts and their pairs.
        direction: "t2i" for text queries, "i2t" for image queries; needed only if they share ids.
        judgements: The relevance judgements.
        fuller: Judgements with more relevant pairs, to find acceptable alternatives.
        progress: Called with (queries ranked, queries in total).
    """
    progress = as_progress(progress)
    direction = direction_of(system, collection, direction)
    top, forward = _first(system, progress), direction == "t2i"
    right = collection.judged(judgements, direction)
    fuller_judgements = collection.judged(fuller, direction) if fuller in collection.all_judgements else None
    home = _homes(collection)
    failed = []
    for query, row in zip(top.queries, top.indices, strict=True):
        answer = top.candidates[int(row[0])]
        if row[0] < 0 or (right.grade(query, answer) or 0) > 0:
            continue
        text, truth, returned = (query, home.get(query), answer) if forward else (answer, query, home.get(answer))
        if truth is None or returned is None:
            raise LimnerError(f"text {text!r} belongs to no image in {collection.name!r}: there is nothing to compare")
        words = collection.texts.values[collection.texts.ids.index(text)]
        alternative = None if fuller_judgements is None else (fuller_judgements.grade(query, answer) or 0) > 0
        failed.append(Failure(query, words, truth, returned, alternative, forward))
    return failed


def _first(system: Scores | Ranking, progress: Progress) -> Ranking:
    """The first answer of every query."""
    return system.top(1) if isinstance(system, Ranking) else system.top(1, progress=progress)


def _homes(collection: Collection) -> dict[str, str]:
    """The first image of every text."""
    pairs = collection.judgements.relevant
    return {
        pairs.candidates[int(c)]: pairs.queries[int(r)]
        for r, c in zip(pairs.rows[::-1], pairs.columns[::-1], strict=True)
    }


@dataclass(frozen=True)
class Explanations:
    """All failures with their explanations.

    Args:
        failures: The failures.
        agreements: The comparison of images for each failure.
        concepts: The content of every image.
        informed: Whether only concepts that the query mentions were compared.
        notes: Problems with the objects.
        words: Names of the objects, by concept.
    """

    failures: Sequence[Failure]
    agreements: Sequence[ConceptAgreement]
    concepts: Mapping[str, Concepts]
    informed: bool
    notes: tuple[str, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.failures)

    def values(self, score: str) -> FloatArray:
        """One score for every failure; NaN if undefined."""
        return np.array([each[score] for each in self.agreements], dtype=np.float64)

    @cached_property
    def summary(self) -> dict[str, dict[str, float]]:
        """Mean of every score with its 95% interval, and how many are undefined.

        Failures with the same relevant image form one cluster, as in all of limner's intervals. Scores that are no
        shares have no interval over fewer than 20 images.
        """
        images = np.array([failure.truth for failure in self.failures], dtype=str)
        return {score: _summed(self.values(score), images, share=score in SHARES) for score in SCORES}

    @cached_property
    def totals(self) -> dict[str, float | int]:
        """Object hits and misses (counts), share of matched synsets, and how often a common concept has a wrong count.

        Wrong counts are divided by three totals: the common concepts; the concepts of the relevant images, as the text
        of Lymperaiou et al. (2022) defines it; and the failures, as in their Table 3 (69,595 / 28,817 = 2.42).
        """
        hits = sum(len(each.common) for each in self.agreements)
        misses = sum(len(each.missing) for each in self.agreements)
        wrong = sum(a != b for each in self.agreements for a, b in each.counts.values())
        lonely = sum(len(each.missing) + len(each.added) for each in self.agreements)
        matched = sum(len(each.matched) for each in self.agreements)
        return {
            "object hits": hits,
            "object misses": misses,
            "matched synsets": matched / lonely if lonely else math.nan,
            "wrong counts": wrong / hits if hits else math.nan,
            "wrong counts of the truth's objects": wrong / (hits + misses) if hits + misses else math.nan,
            PER_FAILURE: wrong / len(self) if len(self) else math.nan,
        }

    def __str__(self) -> str:
        """The global table."""
        mode = "query-informed" if self.informed else "query-agnostic"
        head = f"{'score':8} {'mean':>7}  {'95% interval by image':21} better  undefined"
        lines = [f"{len(self):,} failures, {mode}", head]
        for score, row in self.summary.items():
            span = "–" if math.isnan(row["low"]) else f"[{row['low']:.3f}, {row['high']:.3f}]"
            mean = "–" if math.isnan(row["mean"]) else f"{row['mean']:.3f}"
            better = "higher" if score in HIGHER else "lower"
            lines.append(f"{score:8} {mean:>7}  {span:21} {better:6}  {int(row['undefined']):,}")
        lines += [f"{name}: {_total(value, number=name == PER_FAILURE)}" for name, value in self.totals.items()]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])


def _total(value: float | int, *, number: bool = False) -> str:
    """Formats a total: counts as integers, all others as percentages, except the one that may exceed 1."""
    if number and not math.isnan(value):
        return f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else "–" if math.isnan(value) else f"{value:.1%}"


def _summed(values: FloatArray, images: Array, *, share: bool) -> dict[str, float]:
    defined = ~np.isnan(values)
    values_defined, by = values[defined], images[defined]
    mean = float(values_defined.mean()) if len(values_defined) else math.nan
    statistics = {"mean": mean, "low": math.nan, "high": math.nan, "undefined": float((~defined).sum())}
    if len(values_defined) and (share or (np.ptp(values_defined) > 0 and len(np.unique(by)) >= LEAST)):
        interval = mean_interval(values_defined, clusters=by) if share else bootstrap(values_defined, clusters=by)
        statistics |= {"low": interval.low, "high": interval.high}
    return statistics


def explain(
    failed: Sequence[Failure],
    collection: Collection,
    *,
    informed: bool = False,
    threshold: float = THRESHOLD,
    wordnet: WordNet | None = None,
    progress: ProgressLike = None,
) -> Explanations:
    """Explains failures by comparing the relevant and the returned image.

    Args:
        failed: The failures, from `failures`.
        collection: Images with the field "objects"; without it, objects are taken from the captions.
        informed: Compare only concepts that the query mentions, by their words, synonyms and hypernyms.
        threshold: Relative difference above which two areas disagree (T of the binary SD).
        wordnet: The graph; limner's own by default.
        progress: Called with (failures done, failures in total).
    """
    progress = as_progress(progress)
    graph = wordnet or WordNet.load()
    faults = Faults()
    annotated = "objects" in collection.images.fields
    collection = collection if annotated else with_caption_objects(collection, graph, progress=progress)
    step = progress.step("reading the objects", "images", total=len(collection.images))
    concepts = of_images(collection.images, graph, faults=faults, progress=step)
    similar = similarities(concepts.values(), graph)
    agreements = []
    comparing = progress.step("comparing images", "failures", total=len(failed), main=True)
    for failure in counting(failed, comparing):
        truth, returned = concepts[failure.truth], concepts[failure.returned]
        if informed:
            concepts_named = mentioned(failure.text, truth.names | returned.names, graph)
            truth, returned = truth.only(concepts_named), returned.only(concepts_named)
        agreements.append(agreement(truth, returned, similar, threshold=threshold))
    notes = (*faults.notes(), *(() if annotated else (FROM_CAPTIONS,)))
    return Explanations(tuple(failed), agreements, concepts, informed, notes, own_words(collection.images, graph))


def describe_failure(failure: Failure, each: ConceptAgreement, words: Mapping[str, str] | None = None) -> str:
    """One failure as text. The query comes first, then missing objects, then counts and sizes.

    Args:
        failure: The failure.
        each: The comparison of the two images.
        words: Names of concepts; WordNet's first word by default.
    """

    def _word(concept: str) -> str:
        return (words or {}).get(concept) or concept.partition(".")[0].replace("_", " ")

    question = f"asked for {failure.text!r}" if failure.by_text else f"answered with {failure.text!r}"
    lines = [question, f"truth {failure.truth}, returned {failure.returned}"]
    if failure.alternative:
        lines.append("more complete judgements count the answer as relevant: an acceptable alternative")
    common, missing, added = (
        ", ".join(map(_word, side)) or "nothing" for side in (each.common, each.missing, each.added)
    )
    lines += [
        f"both show {common}",
        f"only the truth shows {missing}; only the answer shows {added} (CA {_rounded(each['CA'])})",
    ]
    nearest = ", ".join(f"{_word(a)} ~ {_word(b)} {s:.2f}" for a, b, s in each.matched)
    if nearest:
        lines.append(f"nearest in meaning: {nearest} (NCS {_rounded(each['NCS'])})")
    wrong = [f"{a} {_word(name)} became {b}" for name, (a, b) in each.counts.items() if a != b]
    if each.counts:
        lines.append(f"counts: {', '.join(wrong) or 'the same'} (CE {_rounded(each['CE'])})")
    sizes = [f"{_word(name)} differs {gap:.1f} times" for name, gap in each.sizes if gap >= THRESHOLD]
    if each.sizes:
        lines.append(f"sizes: {', '.join(sizes) or 'alike'} (SD {_rounded(each['SD'])})")
    lines.append(f"attributes agree {_rounded(each['AA'])}, relations agree {_rounded(each['RA'])}")
    return "\n".join(lines)


def _rounded(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:.3g}"
