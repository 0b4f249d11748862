"""Labels that belong to other items, found by a system's scores.

For every image: how much higher do its own captions score than those of other images, in standard deviations of all
scores? A run of images is shifted if their captions fit the images a constant number of rows away far better.
An image has wrong labels if its own captions score no better than those of a random image, where the scores of its
nearest captions and of their nearest images are taken off (CSLS; Conneau et al. 2018): the captions of an unusual image
score low with every image. The better the system, the more is found. Labels that were exchanged are found first, by
`permuted`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Set
from dataclasses import dataclass

import numpy as np

from limner.core.arrays import FloatArray, IntArray
from limner.core.collection import Collection
from limner.explain.audit.findings import Defect
from limner.explain.audit.item_checks import images_of

SHIFTS = (-3, -2, -1, 1, 2, 3)
RUN = 4
"""A shift must affect at least this many consecutive images."""
LEAST = 50
"""Wrong labels are looked for only with at least this many images."""
NEAREST = 10
"""So many nearest captions of an image, and nearest images of its captions, are taken off."""
OTHERS = 20
"""Captions of so many other images are compared with the own ones in a regression."""
FIRST_SHARE, LEAST_SHARE, MOST_SHARE = 0.05, 1e-5, 0.5
"""The share of wrong labels before any score is seen, and its bounds afterwards."""
WRONG = 0.5
"""A label is reported if its probability to be wrong is higher."""
LEAST_SEPARATION = 0.9
"""Labels are judged if scores tell own captions from those of another image in this share of comparisons."""
TO_INSPECT = (
    "wrong-labels is a list to inspect: where captions were planted in three data sets, about one in eight of the "
    "images listed had the right captions, and one in five of those with wrong captions was not listed"
)
UNIT = "standard deviations above the mean of all pairs"
"""What scores are measured in, after the means of their image and of their caption are taken off."""
ROUNDS = 60
CHANGE = 1e-3
"""Rounds end when no probability changes by more."""


@dataclass(frozen=True, eq=False)
class Fit:
    """How well images fit captions.

    Args:
        table: (images, images): mean centred score of each row image with the captions of each column image.
        own: The diagonal: each image with its own captions; NaN without captions.
    """

    table: FloatArray
    own: FloatArray

    def local(self, rows: IntArray, *, without_diagonal: bool = False) -> FloatArray:
        """The table of these rows, twice each value minus the means of the largest of its row and of its column.

        Args:
            rows: Images with captions.
            without_diagonal: Whether the own captions of an image are left out of these means. What is taken off does
                then not depend on whether a label is right, as it does where wrong captions belong to no image.

        >>> Fit(np.array([[4.0, 0.0], [1.0, 2.0]]), np.array([4.0, 2.0])).local(np.array([0, 1]))
        array([[ 3.5, -3. ],
               [-2. ,  1.5]])
        """
        part = self.table[np.ix_(rows, rows)]
        values, count = part, min(NEAREST, len(rows))
        if without_diagonal:
            values, count = np.where(np.eye(len(rows), dtype=bool), -np.inf, part), min(NEAREST, len(rows) - 1)
        by_row, by_column = (np.partition(values, -count, axis=a).take(range(-count, 0), axis=a) for a in (1, 0))
        return np.asarray(2 * part - by_row.mean(axis=1, keepdims=True) - by_column.mean(axis=0, keepdims=True))


def fit(collection: Collection, scores: FloatArray) -> Fit:
    """Centres scores by caption and image, and averages them over the captions of each image, in standard deviations.

    Args:
        collection: Images, texts and pairs.
        scores: Images by texts.
    """
    centred = scores - scores.mean(axis=0)
    standard = centred / (centred.std() or 1.0)  # not caption by caption: vague captions vary less, and say less
    standard = standard - standard.mean(axis=1, keepdims=True)  # some images score high with all captions
    n = len(collection.images)
    sums, counts = np.zeros((n, n)), np.zeros(n)
    for column, owners in enumerate(images_of(collection)):
        for owner in owners:
            sums[:, owner] += standard[:, column]
            counts[owner] += 1
    with np.errstate(invalid="ignore", divide="ignore"):
        table = sums / counts[None, :]
    return Fit(table, np.diag(table).copy())


def separation(label_fit: Fit, left_out: Set[int] = frozenset()) -> float:
    """The share of comparisons in which an image fits its own captions better than captions fit other images.

    Wrong labels lower it too, so images that are reported are left out: what is low then are the scores.

    Args:
        label_fit: How well each image fits the captions of each.
        left_out: Rows of images that do not count.

    >>> separation(Fit(np.array([[4.0, 0.0], [3.0, 2.0]]), np.array([4.0, 2.0])))
    0.75
    """
    rows = np.array(
        [row for row in range(len(label_fit.own)) if np.isfinite(label_fit.own[row]) and row not in left_out]
    )
    if len(rows) < 2:
        return 1.0
    table = label_fit.table[np.ix_(rows, rows)]
    other_values = np.sort(table[~np.eye(len(rows), dtype=bool)])
    lower, upper = (np.searchsorted(other_values, label_fit.own[rows], side=side) for side in ("left", "right"))
    return float((lower + upper).mean() / (2 * len(other_values)))


def shifted(collection: Collection, label_fit: Fit) -> tuple[list[Defect], set[int]]:
    """Runs of images whose captions fit the image a constant number of rows away; and all rows in them.

    They must fit it about as well as captions fit their own image. Captions that were permuted fit a neighbour by
    chance a little better than their image, too.
    """
    ids, shifted_rows, findings = collection.images.ids, set[int](), []
    usual = float(np.nanmedian(label_fit.own)) if np.isfinite(label_fit.own).any() else 0.0
    for shift in SHIFTS:
        at = np.arange(len(ids)) + shift
        inside = (at >= 0) & (at < len(ids))
        fits, gain = np.full(len(ids), np.nan), np.full(len(ids), -np.inf)
        fits[inside] = label_fit.table[at[inside], np.flatnonzero(inside)]
        gain[inside] = fits[inside] - label_fit.own[inside]
        for run in _runs(gain):
            rows = [row for row in run if row not in shifted_rows]
            if len(rows) >= RUN and np.nanmean(fits[rows]) > usual / 2:
                shifted_rows |= set(rows)
                detail = (
                    f"{len(rows)} images: captions fit the image {abs(shift)} {'later' if shift > 0 else 'earlier'}"
                )
                findings.append(Defect("shifted-labels", tuple(ids[row] for row in rows), detail))
    return findings, shifted_rows


def _runs(gain: FloatArray) -> Iterator[list[int]]:
    """Runs of rows with a gain, allowing single exceptions, whose mean gain is far above chance."""
    start, rows = 0, len(gain)
    while start < rows:
        if not gain[start] > 0:
            start += 1
            continue
        end, misses = start, 0
        for row in range(start, rows):
            if gain[row] > 0:
                end, misses = row, 0
            elif (misses := misses + 1) > 1:
                break
        run = list(range(start, end + 1))
        gains = gain[start : end + 1]
        if len(run) >= RUN and gains[np.isfinite(gains)].mean() > 1.0:
            yield run
        start = end + 1


def wrong(
    collection: Collection, label_fit: Fit, reported: set[int], misplaced: Set[int] = frozenset()
) -> tuple[list[Defect], str]:
    """Images whose own captions fit no better than those of a random image; and a note on how sure that is.

    The scores of other images' captions show how wrong labels score: a logistic regression turns a score into the
    log-odds of a match. With the share of wrong labels they give the probability that a label is wrong, and the mean of
    these is the next estimate of the share, until nothing changes. Labels are reported that are more probably wrong
    than right.

    Args:
        collection: Images, texts and pairs.
        label_fit: How well each image fits the captions of each.
        reported: Rows of images that are reported already.
        misplaced: Rows of images with wrong labels that were found in another way.
    """
    rows = np.array(
        [row for row in range(len(label_fit.own)) if np.isfinite(label_fit.own[row]) and row not in reported]
    )
    if len(rows) < LEAST:
        return [], f"wrong labels were not looked for: at least {LEAST} images with captions are needed"
    suspects = rows[doubts(label_fit, rows) > WRONG]
    ids = collection.images.ids
    findings = [
        Defect("wrong-labels", (ids[row],), f"its own captions score {label_fit.own[row]:.2f} {UNIT}")
        for row in np.union1d(suspects, np.array(sorted(misplaced), dtype=rows.dtype))
    ]
    return findings, TO_INSPECT if findings else ""


def doubts(label_fit: Fit, rows: IntArray) -> FloatArray:
    """The probability that a label is wrong, for each of these rows, by its own score alone.

    Their sum is the expected number of wrong labels. It is near the truth even with weak scores, which do not tell
    which labels are wrong.

    Args:
        label_fit: How well each image fits the captions of each.
        rows: Images with captions.
    """
    table, share, doubt = label_fit.local(rows, without_diagonal=True), FIRST_SHARE, np.zeros(len(rows))
    for _ in range(ROUNDS):
        odds = np.diag(log_odds(table, 1 - doubt)) - math.log(share / (1 - share))
        before, doubt = doubt, 1 / (1 + np.exp(np.clip(odds, -30, 30)))
        share = float(np.clip(doubt.mean(), LEAST_SHARE, MOST_SHARE))
        if np.abs(doubt - before).max() < CHANGE:
            break
    return np.asarray(doubt)


def log_odds(table: FloatArray, weights: FloatArray) -> FloatArray:
    """Log-odds of a match for every pair, by a logistic regression of the weighted own labels against other pairs.

    Args:
        table: (images, images): how well each row image fits the captions of each column image.
        weights: For each row, the probability that its own captions match.
    """
    n_images = len(table)
    rows = np.arange(n_images)
    steps = np.unique(np.linspace(1, n_images - 1, min(OTHERS, n_images - 1)).astype(int))
    other_pairs = np.concatenate([table[rows, (rows + step) % n_images] for step in steps])
    values = np.concatenate([np.diag(table), other_pairs])
    spread = max(float(values.std()), 1e-12)
    own_weights = np.maximum(weights, 1e-3)
    each = np.concatenate([own_weights / own_weights.sum(), np.full(len(other_pairs), 1 / len(other_pairs))])
    right = np.concatenate([np.ones(n_images), np.zeros(len(other_pairs))])
    inputs = np.stack([values / spread, np.ones(len(values))], axis=1)
    coefficients = np.zeros(2)
    for _ in range(25):  # Newton's method; the small constant keeps it finite where one score separates all
        says = 1 / (1 + np.exp(-np.clip(inputs @ coefficients, -30, 30)))
        slope = inputs.T @ (each * (says - right)) + 1e-4 * coefficients
        curve = (inputs * (each * says * (1 - says))[:, None]).T @ inputs + 1e-4 * np.eye(2)
        coefficients = coefficients - np.linalg.solve(curve, slope)
    return np.asarray(table / spread * coefficients[0] + coefficients[1])
