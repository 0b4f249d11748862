"""Infers true classes from the answers of several raters with individual error rates (Dawid & Skene 1979)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from limner.core.arrays import IntArray
from limner.core.errors import LimnerError
from limner.stats.inputs import Vector


@dataclass(frozen=True)
class DawidSkene:
    """The fitted Dawid-Skene model.

    Args:
        classes: (items, classes) probability of each class for each item.
        priors: The prior probability of each class.
        errors: (raters, classes, classes) probability that a rater answers the column's class if the row's is true.
        iterations: Number of EM iterations.
    """

    classes: Vector
    priors: Vector
    errors: Vector
    iterations: int


def dawid_skene(
    raters: npt.ArrayLike,
    items: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    n_classes: int | None = None,
    rounds: int = 200,
    tolerance: float = 1e-7,
) -> DawidSkene:
    """Estimates true classes and every rater's error rates jointly, by expectation-maximisation.

    `p(item is c) ~ prior_c prod_r error_r[c, answer]`, where errors and priors are weighted counts of the answers.
    Starts from the vote shares. Dawid & Skene 1979, *Maximum likelihood estimation of observer error-rates
    using the EM algorithm*.

    Args:
        raters: Number (0, 1, ...) of the rater of each answer.
        items: Number of the item of each answer.
        labels: Class (0, 1, ...) of each answer.
        n_classes: Number of classes; the highest label + 1 by default.
        rounds: Maximum number of rounds.
        tolerance: Stop when the mean log-likelihood per answer improves by less than this.

    >>> found = dawid_skene([0, 1, 2, 0, 1, 2], [0, 0, 0, 1, 1, 1], [1, 1, 0, 0, 0, 0])
    >>> found.classes.argmax(axis=1)
    array([1, 0])
    """
    rater_codes, item_codes, label_codes = (np.asarray(a, dtype=np.int64) for a in (raters, items, labels))
    _refuse_bad(rater_codes, item_codes, label_codes)
    k = int(label_codes.max()) + 1 if n_classes is None else n_classes
    classes: Vector = np.zeros((int(item_codes.max()) + 1, k))
    np.add.at(classes, (item_codes, label_codes), 1.0)
    classes /= classes.sum(axis=1, keepdims=True)
    before, step = -np.inf, 0
    while step < max(rounds, 1):
        step += 1
        priors, errors = _maximised(classes, rater_codes, item_codes, label_codes)
        logs = _log_joint(priors, errors, rater_codes, item_codes, label_codes, len(classes))
        top = logs.max(axis=1, keepdims=True)
        joint = np.exp(logs - top)
        classes = joint / joint.sum(axis=1, keepdims=True)
        fit = float((np.log(joint.sum(axis=1)) + top[:, 0]).sum()) / len(label_codes)
        if fit - before < tolerance:
            break
        before = fit
    return DawidSkene(classes, priors, errors, step)


def _refuse_bad(raters: IntArray, items: IntArray, labels: IntArray) -> None:
    if not (raters.ndim == 1 and raters.shape == items.shape == labels.shape and len(raters)):
        raise LimnerError(
            f"got {raters.shape}, {items.shape}, {labels.shape}: expected rater, item and class of each answer"
        )
    if min(raters.min(), items.min(), labels.min()) < 0:
        raise LimnerError("raters, items and classes are numbered from 0: got a negative number")
    if len(np.unique(items)) != items.max() + 1:
        raise LimnerError("some items have no answer: number the answered items without gaps")


def _maximised(classes: Vector, raters: IntArray, items: IntArray, labels: IntArray) -> tuple[Vector, Vector]:
    errors = np.zeros((int(raters.max()) + 1, classes.shape[1], classes.shape[1]))
    np.add.at(errors.transpose(0, 2, 1), (raters, labels), classes[items])
    total = errors.sum(axis=2, keepdims=True)
    return classes.mean(axis=0), np.divide(errors, total, out=np.zeros_like(errors), where=total > 0)


def _log_joint(priors: Vector, errors: Vector, raters: IntArray, items: IntArray, labels: IntArray, n: int) -> Vector:
    """Log of `prior_c prod_r error_r[c, answer]`; zero counts get the smallest positive number, not -inf."""
    tiny = np.finfo(np.float64).tiny
    logs = np.tile(np.log(np.maximum(priors, tiny)), (n, 1))
    np.add.at(logs, items, np.log(np.maximum(errors[raters, :, labels], tiny)))
    return logs
