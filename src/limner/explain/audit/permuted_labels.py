"""Permuted labels: images that have each other's captions, found by all of a system's scores at once.

One label alone says little: a wrong caption often fits an image about as well as a vague right one. But the captions of
a permuted label belong to another image, whose captions belong elsewhere too. So all labels are judged together:

- A logistic regression of own captions against those of other images turns a score into the log-odds L of a match.
- An assignment of captions to images has the weight exp(sum of L - c m), where m is the number of labels that moved.
  With c = log(n - m), every number of moved labels is equally likely before the scores are seen; c is lower by `GAIN`,
  which was chosen on other data than those of the proof.
- Belief propagation gives the approximate probability that a label stays in its place, over all assignments (Huang &
  Jebara 2009; Vontobel 2013). Labels that probably moved are left out of the next regression, a few times.

Captions of no image of the collection have no place to go. The labels that seem to be in their place are therefore
judged again with Sinkhorn's scaling (1964; Kosowsky & Yuille 1994) instead of belief propagation and with c = log n. It
gives captions shares of several images at once. Labels that are improbable even so are doubtful.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from limner.core.arrays import FloatArray, IntArray
from limner.core.collection import Collection
from limner.explain.audit.findings import Defect
from limner.explain.audit.label_doubts import LEAST, Fit, doubts, log_odds

MOST = 5_000
"""With more images, only so many are compared: those whose own captions fit worst."""
ROUNDS = 12
MESSAGES = 40
SCALINGS = 60
CHANGE = 1e-2
"""Rounds end when no probability changes by more; messages and scalings when none changes by a tenth of it."""
NEAREST = 200
"""For each image and each label, so many of the best pairs take part in belief propagation; 50 were too few."""
GAIN = 1.0
MOST_MOVED = 0.5
"""The largest share of moved labels that the price takes into account."""
BOUND = 15.0
"""Log-odds are cut here: no single score decides."""
STAYS = 0.5
"""A label is reported if its probability to be in its place is lower."""
LITTLE = 0.5
"""An expected number of wrong labels that is lower is none."""
FITS = 3.0
"""Log-odds from which on captions fit another image, 20 to 1. If lower, it is not known whose captions they are."""


@dataclass(frozen=True, eq=False)
class Places:
    """Where labels belong.

    Args:
        stays: For each row, the probability that its captions are in their place.
        best: For each row, the other row whose image the captions fit best, all labels considered.
        fits: The log-odds that the captions match that image.
    """

    stays: FloatArray
    best: IntArray
    fits: FloatArray


def permuted(collection: Collection, label_fit: Fit, reported: set[int]) -> tuple[list[Defect], set[int], set[int]]:
    """Images whose captions belong to another image of the collection, in exchange for others.

    Args:
        collection: Images, texts and pairs.
        label_fit: How well each image fits the captions of each.
        reported: Rows of images that are reported already.

    Returns:
        The findings, the rows of their images, and the rows of images whose captions are not in their place either but
        fit no other image clearly, or belong to none.
    """
    rows = np.array(
        [row for row in range(len(label_fit.own)) if np.isfinite(label_fit.own[row]) and row not in reported]
    )
    if len(rows) < LEAST:
        return [], set(), set()
    if len(rows) > MOST:
        rows = np.sort(rows[np.argsort(label_fit.own[rows], kind="stable")[:MOST]])
    placed, ids = places(label_fit.local(rows)), collection.images.ids
    bad, clear = placed.stays < STAYS, placed.fits >= FITS
    limit = _limit(label_fit, rows)
    if bad.sum() > limit:
        bad[np.lexsort((label_fit.own[rows], placed.stays))[limit:]] = False
    if bad.sum() < 2:  # nobody exchanges captions alone
        bad[:] = False
    doubtful = {*rows[bad & ~clear].tolist(), *_alone(label_fit, rows[~bad], limit - int(bad.sum()))}
    findings = [
        Defect("permuted-labels", (ids[rows[at]],), f"its captions fit {ids[rows[placed.best[at]]]}")
        for at in np.flatnonzero(bad & clear)
    ]
    return findings, set(rows[bad & clear].tolist()), doubtful


def _limit(label_fit: Fit, rows: IntArray) -> int:
    """At most so many labels are reported: the expected number of wrong ones by their own scores, and its root more.

    Weak scores fit many captions to other images better than to their own, although all are right.
    """
    expected = float(doubts(label_fit, rows).sum())
    return 0 if expected < LITTLE else math.ceil(expected + math.sqrt(expected))


def _alone(label_fit: Fit, rows: IntArray, limit: int) -> list[int]:
    """Rows whose captions may belong to no image, at most so many; a single one is not reported, as for exchanges."""
    if len(rows) < LEAST or limit < 1:
        return []
    stays = places(label_fit.local(rows), alone=True).stays
    order = np.argsort(stays, kind="stable")[:limit]
    alone = rows[np.sort(order[stays[order] < STAYS])]
    return alone.tolist() if len(alone) > 1 else []


def places(table: FloatArray, *, alone: bool = False) -> Places:
    """Which labels are in their place.

    Args:
        table: (images, images): how well each row image fits the captions of each column image; the diagonal is as
            labelled.
        alone: Whether captions may belong to no image.

    >>> table = np.random.default_rng(0).normal(0, 1, (60, 60)) + 8 * np.eye(60)[[1, 0, *range(2, 60)]]
    >>> made = places(table)
    >>> np.flatnonzero(made.stays < 0.5), made.best[:2]
    (array([0, 1]), array([1, 0]))
    """
    n_images = len(table)
    stays, away = np.ones(n_images), 1 - np.eye(n_images)
    for _ in range(ROUNDS):
        fits = log_odds(table, stays)
        price = (
            np.log(n_images)
            if alone
            else np.log(n_images) - GAIN + np.log1p(-min(float(np.mean(1 - stays)), MOST_MOVED))
        )
        odds = np.exp(np.clip(fits, -BOUND, BOUND) - price * away)
        shares = _scaled(odds) if alone else _beliefs(odds)
        before, stays = stays, np.minimum(np.diag(shares), 1.0)
        if np.abs(stays - before).max() < CHANGE:
            break
    np.fill_diagonal(shares, -1)
    best = shares.argmax(axis=0)
    return Places(stays, best, fits[best, np.arange(n_images)])


def _scaled(odds: FloatArray) -> FloatArray:
    """The odds with rows and columns multiplied by factors that make all sums 1."""
    by_image, by_label = np.zeros(len(odds)), np.ones(len(odds))
    for _ in range(SCALINGS):
        sums = odds @ by_label
        if np.abs(by_image * sums - 1).max() < CHANGE / 10:
            break
        by_image = 1 / sums
        by_label = 1 / (by_image @ odds)
    return np.asarray(by_image[:, None] * odds * by_label)


def _beliefs(odds: FloatArray) -> FloatArray:
    """The probability of every pair, over all assignments weighted by the product of their odds.

    Each row tells each column how little its other choices are worth, and the reverse, until the diagonal is settled.
    Only pairs with high odds in their row or column take part.
    """
    rows, columns = _pairs(odds)
    size, diagonal, weights = len(odds), rows == columns, odds[rows, columns]
    by_column, before = np.ones(len(rows)), np.full(size, np.inf)
    for _ in range(MESSAGES):
        by_row = 1 / _sums_without_own(weights * by_column, rows, size)
        by_column = 1 / _sums_without_own(weights * by_row, columns, size)
        ratio = weights * by_row * by_column
        on_diagonal = ratio[diagonal] / (1 + ratio[diagonal])
        if np.abs(on_diagonal - before).max() < CHANGE / 10:
            break
        before = on_diagonal
    beliefs = np.zeros_like(odds)
    beliefs[rows, columns] = ratio / (1 + ratio)
    return beliefs


def _pairs(odds: FloatArray) -> tuple[IntArray, IntArray]:
    """Rows and columns of the largest odds of each row and each column, and of the diagonal."""
    chosen = np.eye(len(odds), dtype=bool)
    count = min(NEAREST, len(odds))
    for axis in (0, 1):
        np.put_along_axis(
            chosen, np.argpartition(-odds, count - 1, axis=axis).take(range(count), axis=axis), True, axis
        )
    rows, columns = np.nonzero(chosen)
    return rows, columns


def _sums_without_own(values: FloatArray, group: IntArray, n_groups: int) -> FloatArray:
    """For each value, the sum of the others of its group.

    >>> _sums_without_own(np.array([1.0, 2.0, 1e20, 5.0]), np.array([0, 0, 0, 1]), 2)[:3]
    array([1.e+20, 1.e+20, 3.e+00])
    """
    sums = np.bincount(group, values, n_groups)[group]
    large = values > sums / 2  # subtracting it would leave rounding errors only
    small_sums = np.bincount(group, np.where(large, 0.0, values), n_groups)[group]
    return np.maximum(np.where(large, small_sums, sums - values), 1e-300)
