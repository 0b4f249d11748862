"""Agreement of raters beyond chance: Cohen's kappa, Krippendorff's alpha; and the classes that they mean.

Both are undefined if every rating is the same; alpha is also undefined if no item has two ratings. In these cases
`Undefined` is raised instead of returning 0 or 1. `dawid_skene` infers true classes from the answers of several raters
with individual error rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array, IntArray
from limner.core.errors import LimnerError
from limner.stats.bootstrap import Interval
from limner.stats.inputs import Vector, numbers, one_of, share

Level = Literal["nominal", "ordinal", "interval", "ratio"]


class Undefined(LimnerError):
    """The agreement of these ratings is undefined."""


def cohen_kappa(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    weights: Literal["linear", "quadratic"] | None = None,
    labels: Sequence[object] | None = None,
) -> float:
    """Cohen's kappa of two raters (Cohen 1960; weighted: Cohen 1968).

    `1 - sum(w o) / sum(w e)` over pairs of labels: o are the observed shares, e those expected of independent raters,
    and w is 1 off the diagonal, or the distance of the labels, or its square. Numeric labels differ by their values: 2
    and 4 by two, even if nobody used 3. With `labels`, the whole scale in order, the distance is the number of steps.
    Raises `Undefined` if both raters give the same label to every item.

    Args:
        a: the first rater's label of each item: numbers or names.
        b: the second rater's label of each item.
        weights: None, `linear` or `quadratic`.
        labels: the whole scale in order, including unused labels; required for weighted kappa of names.

    Returns:
        1 for full agreement, 0 for chance, below 0 for less.

    >>> cohen_kappa([1, 1, 0, 0], [1, 0, 0, 0])
    0.5
    >>> cohen_kappa([1, 2, 4], [1, 4, 4], weights="linear") == cohen_kappa(
    ...     ["a", "b", "d"], ["a", "d", "d"], weights="linear", labels=["a", "b", "c", "d"])
    True
    """
    first, second = _labels(a, "a"), _labels(b, "b")
    if len(first) != len(second):
        raise LimnerError(f"got {len(first)} labels for a and {len(second)} for b, expected the same items in order")
    if (first.dtype.kind == "U") != (second.dtype.kind == "U"):
        raise LimnerError(f"got labels of type {first.dtype} for a and {second.dtype} for b, expected the same type")
    if weights is not None:
        one_of(weights, ("linear", "quadratic"), "weights")
    used, positions = np.unique(np.concatenate([first, second]), return_inverse=True)
    if len(used) == 1:
        raise Undefined(
            f"kappa is undefined: both raters gave {used[0]} to all {len(first)} items, so chance agreement is 1; "
            "expected at least two labels in use; report the raw agreement instead"
        )
    places = _places(used, weights, labels)
    weight = _disagreement_weights(places, weights)
    observed = np.zeros((len(used), len(used)))
    np.add.at(observed, (positions[: len(first)], positions[len(first) :]), 1.0)
    chance = np.outer(observed.sum(axis=1), observed.sum(axis=0)) / len(first)
    return 1 - float((weight * observed).sum()) / float((weight * chance).sum())


def _places(used: Array, weights: str | None, labels: Sequence[object] | None) -> Vector:
    """The position of each label on its scale."""
    if labels is not None:
        scale = list(np.asarray(labels).tolist())
        repeated = [label for label in scale if scale.count(label) > 1]
        if repeated:
            raise LimnerError(f"labels: got {repeated[0]} twice, expected the whole scale in order, each label once")
        unknown = [label for label in used.tolist() if label not in scale]
        if unknown:
            raise LimnerError(f"got the label {unknown[0]}, expected one of {', '.join(map(str, scale))}")
        return np.array([scale.index(label) for label in used.tolist()], dtype=np.float64)
    if used.dtype.kind != "U":
        return used.astype(np.float64)
    if weights is not None:
        raise LimnerError(
            f"weights={weights!r} with names such as {used[0]!r}: the order of the names is unknown; give the whole "
            "scale with labels=[...], or numbers"
        )
    return np.arange(len(used), dtype=np.float64)


def _disagreement_weights(places: Vector, weights: str | None) -> Vector:
    distance = np.abs(places[:, None] - places[None, :])
    return (distance > 0).astype(np.float64) if weights is None else distance ** (2 if weights == "quadratic" else 1)


def _labels(labels: npt.ArrayLike, name: str) -> Array:
    """Labels as one column of numbers or text; missing labels are refused."""
    array: Array = np.asarray(labels)
    if array.ndim != 1 or not len(array):
        raise LimnerError(f"{name}: got an array of shape {array.shape}, expected one label per item, at least one")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise LimnerError(f"{name}: got a label that is not finite, expected one for every item; leave those items out")
    return array.astype(str) if array.dtype.kind == "O" else array


def krippendorff_alpha(ratings: npt.ArrayLike, *, level: Level = "nominal", raters: int | None = None) -> float:
    """Krippendorff's alpha of any number of raters, some of whom may have skipped items (Krippendorff 2011).

    `1 - D_o / D_e` with `D_o = sum_ck o_ck d(c,k) / n`, `D_e = sum_ck n_c n_k d(c,k) / (n (n - 1))`; o are coincidences
    of values within items, each item's pairs weighted by 1 / (its ratings - 1). Squared distances d: nominal `c != k`;
    ordinal `(sum_{g=c..k} n_g - (n_c + n_k) / 2)^2`; interval `(c - k)^2`; ratio `((c - k) / (c + k))^2`.

    Rows are raters, columns are items. More rows than columns is nearly always a transposed table, and is refused
    unless `raters` confirms it.

    Args:
        ratings: raters by items, NaN where a rater gave no answer.
        level: what the numbers mean: `nominal`, `ordinal`, `interval` or `ratio`.
        raters: the number of raters, to be checked against the rows.

    Returns:
        1 for full agreement, 0 for chance, below 0 for less.

    >>> round(krippendorff_alpha([[1, 2, 3, 3], [1, 2, 3, 4]], level="ordinal"), 3)
    0.91
    """
    values, counts = _counted(ratings, level, raters)
    return _alpha(values, _coincidences(counts), level)


def alpha_interval(
    ratings: npt.ArrayLike,
    *,
    level: Level = "nominal",
    raters: int | None = None,
    samples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Krippendorff's alpha with the percentile interval of a bootstrap over items (Efron & Tibshirani 1993).

    Items with two or more ratings are drawn with replacement. Samples in which every rating is the same have no alpha
    and are left out.

    Args:
        ratings: raters by items, NaN where a rater gave no answer.
        level: as for `krippendorff_alpha`.
        raters: the number of raters, to be checked against the rows.
        samples: bootstrap samples.
        confidence: coverage of the interval.
        seed: seed of the bootstrap.

    >>> found = alpha_interval([[1, 2, 3, 3, 1, 2], [1, 2, 3, 4, 1, 2]], level="ordinal")
    >>> found.low < found.estimate <= found.high
    True
    """
    values, counts = _counted(ratings, level, raters)
    estimate = _alpha(values, _coincidences(counts), level)
    patterns, times = np.unique(counts, axis=0, return_counts=True)
    draws = np.random.default_rng(seed).multinomial(len(counts), times / len(counts), size=samples)
    drawn = [_alpha(values, o, level) for o in (_coincidences(patterns, row) for row in draws) if _varied(o)]
    tail = 50 * (1 - share(confidence, "confidence"))
    low, high = np.percentile(drawn, [tail, 100 - tail]) if drawn else (np.nan, np.nan)
    return Interval(estimate, float(low), float(high), confidence, samples, "percentile", "items", len(counts))


def _counted(ratings: npt.ArrayLike, level: Level, raters: int | None) -> tuple[Vector, Vector]:
    table = numbers(ratings, "ratings")
    one_of(level, ("nominal", "ordinal", "interval", "ratio"), "level")
    _check_orientation(table, raters)
    _refuse_unfit(table, level)
    return _value_counts(table)


def _varied(coincidences: Vector) -> bool:
    """Whether at least two different values occur."""
    return int((coincidences.sum(axis=1) > 0).sum()) > 1


def _alpha(values: Vector, coincidences: Vector, level: Level) -> float:
    marginals = coincidences.sum(axis=1)
    if not _varied(coincidences):
        raise Undefined(f"alpha is undefined: every rating is {values[0]:g}; expected at least two different values")
    distance = _squared_distance(values, marginals, level)
    expected = float(marginals @ distance @ marginals) / (float(marginals.sum()) - 1)
    return 1 - float((coincidences * distance).sum()) / expected


def _check_orientation(table: Vector, raters: int | None) -> None:
    if table.ndim != 2 or table.shape[0] < 2:
        raise LimnerError(f"ratings: got shape {table.shape}, expected raters by items with at least two raters")
    rows, columns = table.shape
    if raters is not None and raters != rows:
        raise LimnerError(f"ratings: got {rows} rows for {raters} raters, expected a row per rater; transpose it")
    if raters is None and rows > columns:
        raise LimnerError(
            f"ratings: got {rows} rows and {columns} columns, expected rows to be raters and columns items; "
            f"transpose the table, or confirm with raters={rows}"
        )


def _refuse_unfit(table: Vector, level: str) -> None:
    if np.isinf(table).any():
        raise LimnerError("ratings: got an infinite rating, expected numbers, or NaN where a rater gave no answer")
    if level == "ratio" and (table < 0).any():
        raise LimnerError(f"ratings: got {np.nanmin(table):g} at level 'ratio', expected none below 0; use 'interval'")
    if (np.isfinite(table).sum(axis=0) < 2).all():
        raise Undefined("alpha is undefined: no item has two ratings; expected some items with two or more ratings")


def _value_counts(table: Vector) -> tuple[Vector, Vector]:
    """The distinct values and, for each item with two or more ratings, how often each value was given."""
    pairable = table[:, np.isfinite(table).sum(axis=0) >= 2]
    rater, item = np.nonzero(np.isfinite(pairable))
    values, code = np.unique(pairable[rater, item], return_inverse=True)
    shape = (pairable.shape[1], len(values))
    counts = np.bincount(item * shape[1] + code, minlength=shape[0] * shape[1])
    return values, counts.reshape(shape).astype(np.float64)


def _coincidences(counts: Vector, times: npt.ArrayLike = 1) -> Vector:
    """`o_ck`: pairs of values within items; a rating is not paired with itself. Each row counts `times` times."""
    weight = np.asarray(times) / (counts.sum(axis=1) - 1)
    matrix: Vector = (counts * weight[:, None]).T @ counts - np.diag(weight @ counts)
    return matrix


def _squared_distance(values: Vector, marginals: Vector, level: str) -> Vector:
    """`d(c, k)` for all pairs of values."""
    if level == "nominal":
        return 1 - np.eye(len(values))
    if level == "ordinal":
        middle = np.cumsum(marginals) - marginals / 2  # the sum from c to k, with both ends counted half
        values = middle
    gap: Vector = (values[:, None] - values[None, :]) ** 2
    if level == "ratio":
        total = (values[:, None] + values[None, :]) ** 2
        return np.divide(gap, total, out=np.zeros_like(gap), where=total > 0)
    return gap


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
