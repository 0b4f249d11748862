"""Expected false negatives: matches that the judgements of a collection do not have.

Copies and repeated captions must match, so they give a lower bound. With further judgements of some images, people's or
a complete truth, the number of all missing matches can be estimated: their mean for a judged image, times the number of
images. This assumes that the further judgements have all matches of the images they judge, and that these images are a
random sample of the collection. If matches are missing there as well, the estimate is too low.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from limner.core.arrays import FloatArray
from limner.core.collection import Collection
from limner.core.judgements import Judgements
from limner.explain.audit.findings import Defect
from limner.stats import Interval, bootstrap

LEAST = 20
"""Estimates need at least so many judged images."""


def missing(collection: Collection, further: Mapping[str, Judgements], copied: int) -> tuple[list[Defect], list[str]]:
    """The pairs that must match and are not judged, and estimates of all missing matches.

    Args:
        collection: The collection.
        further: Further judgements by name, images by texts.
        copied: The number of pairs that must match since images or captions are copies.

    Returns:
        Findings, and notes on what was not estimated.
    """
    findings, notes = [], []
    for name, judged in further.items():
        values = missed(collection, judged)
        if len(values) < LEAST:
            notes.append(f"missing matches were not estimated from {name}: {len(values)} images, {LEAST} are needed")
        elif values.any():
            detail = _in_words(expected(collection, values), values, collection)
            findings.append(Defect("false-negatives", (name,), detail))
        else:
            notes.append(f"{name}: no match is missing among the captions of {len(values):,} judged images")
    if copied:
        why = "" if further else ", since an estimate needs further judgements"
        bound = "" if findings else f": a lower bound{why}"
        detail = f"{copied:,} pairs of copies and repeats{bound}"
        findings.append(Defect("missing-matches", (collection.name,), detail))
    return findings, notes


def missed(collection: Collection, judged: Judgements) -> FloatArray:
    """For each image of further judgements, how many of their matches the collection does not have.

    Args:
        collection: The collection.
        judged: Further judgements, images by texts.
    """
    images, texts = set(collection.images.ids), set(collection.texts.ids)
    judged_pairs = {(image, text) for image, text, _ in collection.judgements.relevant}
    counts: dict[str, int] = {}
    for image, text, grade in judged:
        if image in images and text in texts:
            counts[image] = counts.get(image, 0) + (grade > 0 and (image, text) not in judged_pairs)
    return np.array(list(counts.values()), dtype=np.float64)


def expected(collection: Collection, values: FloatArray) -> Interval:
    """The expected number of missing matches of all images, with a 95% bootstrap interval over images.

    Only the images that are not judged are uncertain: the interval is narrowed by the root of their share, the finite
    population correction (Cochran 1977), and never goes below what was counted. It is rough, since the numbers of
    missing matches are skewed: it covers 80 to 92% with 20 images, 90 to 94% with 100 or 200.

    Args:
        collection: The collection.
        values: Missing matches of the judged images.
    """
    estimate = bootstrap(values * len(collection.images))
    share = math.sqrt(1 - len(values) / len(collection.images))
    low = estimate.estimate - share * (estimate.estimate - estimate.low)
    high = estimate.estimate + share * (estimate.high - estimate.estimate)
    return replace(estimate, low=max(low, float(values.sum())), high=high)


def _in_words(estimate: Interval, values: FloatArray, collection: Collection) -> str:
    """The number of missing matches in words; it is exact if all images are judged."""
    if len(values) == len(collection.images):
        return f"{values.sum():,.0f} matches are missing (all images are judged), if these judgements have all matches"
    interval_text = f"rough 95% interval {estimate.low:,.0f} to {estimate.high:,.0f}"
    share = f"{len(values):,} of {len(collection.images):,} images judged"
    return (
        f"about {estimate.estimate:,.0f} matches are missing ({interval_text}; {share}), if these judgements have all "
        "matches and their images are a random sample"
    )
