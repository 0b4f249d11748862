"""Permuted labels: images that have each other's captions, found by all of a system's scores at once.

One label alone says little: a wrong caption often fits an image about as well as a vague right one. But the captions of
a permuted label belong to another image, whose captions belong elsewhere too. So all labels are judged together:

- A logistic regression of own captions against those of other images turns a score into the log-odds L of a match.
- An assignment of captions to images has the weight exp(sum of L - c m), where m is the number of labels that moved.
  With c = log n, every number of moved labels is about equally likely before the scores are seen.
- Sinkhorn's scaling (1964) gives the approximate probability that a label stays in its place, over all assignments
  (Kosowsky & Yuille 1994). Labels that probably moved are left out of the next regression, a few times.

Captions that belong to no image of the collection are found by `labels.wrong`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from limner.core.arrays import FloatArray, IntArray
from limner.core.collection import Collection
from limner.explain.audit.findings import Finding
from limner.explain.audit.labels import LEAST, Fit

MOST = 5_000
"""With more images, only so many are compared: those whose own captions fit worst."""
ROUNDS = 12
SCALINGS = 60
CHANGE = 1e-3
"""Both end when no probability changes by more."""
OTHERS = 20
"""Captions of so many other images are compared with the own ones in the regression."""
BOUND = 15.0
"""Log-odds are cut here: no single score decides."""
STAYS = 0.5
"""A label is reported if its probability to be in its place is lower."""
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


def permuted(collection: Collection, found: Fit, taken: set[int]) -> tuple[list[Finding], set[int], set[int]]:
    """Images whose captions belong to another image of the collection, in exchange for others.

    Args:
        collection: Images, texts and pairs.
        found: How well each image fits the captions of each.
        taken: Rows of images that are reported already.

    Returns:
        The findings, the rows of their images, and the rows of images whose captions are not in their place either but
        fit no other image clearly.
    """
    rows = np.array([row for row in range(len(found.own)) if np.isfinite(found.own[row]) and row not in taken])
    if len(rows) < LEAST:
        return [], set(), set()
    if len(rows) > MOST:
        rows = np.sort(rows[np.argsort(found.own[rows], kind="stable")[:MOST]])
    made, ids = places(found.local(rows)), collection.images.ids
    bad, clear = made.stays < STAYS, made.fits >= FITS
    if bad.sum() < 2:  # nobody exchanges captions alone
        return [], set(), set()
    findings = [
        Finding("permuted-labels", (ids[rows[at]],), f"its captions fit {ids[rows[made.best[at]]]}")
        for at in np.flatnonzero(bad & clear)
    ]
    return findings, set(rows[bad & clear].tolist()), set(rows[bad & ~clear].tolist())


def places(table: FloatArray) -> Places:
    """Which labels are in their place.

    Args:
        table: (images, images): how well each row image fits the captions of each column image; the diagonal is as
            labelled.

    >>> table = np.random.default_rng(0).normal(0, 1, (60, 60)) + 8 * np.eye(60)[[1, 0, *range(2, 60)]]
    >>> made = places(table)
    >>> np.flatnonzero(made.stays < 0.5), made.best[:2]
    (array([0, 1]), array([1, 0]))
    """
    many = len(table)
    price, stays = np.log(many), np.ones(many)
    for _ in range(ROUNDS):
        found = _log_odds(table, stays)
        odds = np.exp(np.clip(found, -BOUND, BOUND) - price * (1 - np.eye(many)))
        by_image, by_label = _scaled(odds)
        before, stays = stays, np.minimum(by_image * np.diag(odds) * by_label, 1.0)
        if np.abs(stays - before).max() < CHANGE:
            break
    moved = odds * by_image[:, None]
    np.fill_diagonal(moved, 0)
    best = moved.argmax(axis=0)
    return Places(stays, best, found[best, np.arange(many)])


def _scaled(odds: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Factors of rows and columns that make all sums 1."""
    by_image, by_label = np.zeros(len(odds)), np.ones(len(odds))
    for _ in range(SCALINGS):
        sums = odds @ by_label
        if np.abs(by_image * sums - 1).max() < CHANGE:
            break
        by_image = 1 / sums
        by_label = 1 / (by_image @ odds)
    return by_image, by_label


def _log_odds(table: FloatArray, weights: FloatArray) -> FloatArray:
    """Log-odds of a match for every pair, by a logistic regression of the weighted own labels against other pairs."""
    many = len(table)
    rows = np.arange(many)
    steps = np.unique(np.linspace(1, many - 1, min(OTHERS, many - 1)).astype(int))
    others = np.concatenate([table[rows, (rows + step) % many] for step in steps])
    values = np.concatenate([np.diag(table), others])
    spread = max(float(values.std()), 1e-12)
    own = np.maximum(weights, 1e-3)
    each = np.concatenate([own / own.sum(), np.full(len(others), 1 / len(others))])
    right = np.concatenate([np.ones(many), np.zeros(len(others))])
    inputs = np.stack([values / spread, np.ones(len(values))], axis=1)
    found = np.zeros(2)
    for _ in range(25):  # Newton's method; the small constant keeps it finite where one score separates all
        says = 1 / (1 + np.exp(-np.clip(inputs @ found, -30, 30)))
        slope = inputs.T @ (each * (says - right)) + 1e-4 * found
        curve = (inputs * (each * says * (1 - says))[:, None]).T @ inputs + 1e-4 * np.eye(2)
        found = found - np.linalg.solve(curve, slope)
    return np.asarray(table / spread * found[0] + found[1])
