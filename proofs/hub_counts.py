"""What `hub_causes.py` measures of one pool of images and captions: ranks, corrections, hubs.

Corrections are written out here with numpy, apart from limner's own, because one reading changes what they count: five
copies of an image among the ten neighbours of a caption.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from tower_losses import HUBS
from training_runs import DIRECTIONS, MEASURES, among_nearest

Matrix = npt.NDArray[np.float32]
Vector = npt.NDArray[np.float64]
Queries = dict[tuple[str, str], Vector]
"""Of each query a value, by direction and measure."""
EACH = 5
"""Captions of an image."""
NEAREST = among_nearest(HUBS)
"""The shares of Table 5 among the items that are nearest to some query."""
WAYS = ("inverted softmax (β = 30)", "CSLS (k = 10)")


@dataclass(frozen=True)
class Side:
    """Images and their captions, five each and in the images' order, as vectors of length 1."""

    images: Matrix
    texts: Matrix

    @property
    def scores(self) -> Matrix:
        """Images by captions."""
        return self.images @ self.texts.T

    def part(self, places: npt.NDArray[np.intp]) -> Side:
        """Some of the images, and their captions."""
        return Side(
            self.images[places],
            self.texts.reshape(-1, EACH, self.texts.shape[1])[places].reshape(-1, self.texts.shape[1]),
        )

    def pools(self, size: int) -> list[Side]:
        """As many pools of a size as there are without an image in two of them."""
        count = max(len(self.images) // size, 1)
        return [self.part(np.arange(len(self.images))[start::count][:size]) for start in range(count)]

    def moved(self, share: float) -> Side:
        """Every image moves towards the mean of its captions: a stronger model, whose captions stay as they are."""
        own = self.texts.reshape(-1, EACH, self.texts.shape[1]).mean(axis=1)
        return Side(unit(self.images + share * unit(own)), self.texts)

    @classmethod
    def together(cls, sides: Sequence[Side]) -> Side:
        """Several models as one: the mean of their scores."""
        parts = ([getattr(side, name) for side in sides] for name in ("images", "texts"))
        return cls(*(np.hstack(part) / np.float32(np.sqrt(len(sides))) for part in parts))


def unit(rows: Matrix) -> Matrix:
    """Rows of length 1."""
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def ranks(scores: Matrix) -> dict[str, Vector]:
    """Of every query the rank of what belongs to it, from 1; of an image that of its best caption."""
    count = len(scores)
    own = scores.reshape(count, count, EACH)[np.arange(count), np.arange(count)]
    best, each = own.max(axis=1, keepdims=True), own.ravel()
    return {"i2t": 1.0 + (scores > best).sum(axis=1), "t2i": 1.0 + (scores > each).sum(axis=0)}


def hits(scores: Matrix) -> Queries:
    """Whether each query found what belongs to it, in percent."""
    return {(d, m): 100.0 * (found <= int(m[2:])) for d, found in ranks(scores).items() for m in MEASURES}


def best_mean(scores: Matrix, k: int, axis: int) -> Matrix:
    """The mean of the k best scores along an axis."""
    count = scores.shape[axis]
    best = np.partition(scores, count - min(k, count), axis=axis)
    return np.asarray(np.take(best, range(count - min(k, count), count), axis=axis).mean(axis=axis, keepdims=True))


def csls(scores: Matrix, *, k: int = 10, copies: int = 1) -> Matrix:
    """CSLS; with copies of images the k nearest images of a text are only k / copies different ones."""
    return 2 * scores - best_mean(scores, k, 1) - best_mean(scores, k // copies, 0)


def softened(scores: Matrix, direction: str, *, beta: float = 30.0) -> Matrix:
    """Inverted softmax in logarithms: the queries of the direction are summed over."""
    return beta * scores - np.log(np.exp(beta * scores).sum(axis=0 if direction == "i2t" else 1, keepdims=True))


def gained(side: Side, way: str, *, copies: int = 1) -> Queries:
    """What a way to correct gains, query by query, in points."""
    plain, scores = hits(side.scores), side.scores
    if way == WAYS[1]:
        after = hits(csls(scores, copies=copies))
    else:
        after = {
            key: hits(softened(scores, direction))[key]
            for direction in DIRECTIONS
            for key in plain
            if key[0] == direction
        }
    return {key: after[key] - plain[key] for key in plain}


def counts(side: Side) -> npt.NDArray[np.int64]:
    """To how many captions each image is the nearest."""
    return np.bincount(side.scores.argmax(axis=0), minlength=len(side.images))


def apart(side: Side) -> npt.NDArray[np.int64]:
    """The same of five copies of each image, one of which is the nearest by chance."""
    nearest = side.scores.argmax(axis=0)
    return np.bincount(
        EACH * nearest + np.random.default_rng(0).integers(0, EACH, len(nearest)), minlength=EACH * len(side.images)
    )


def turned(side: Side) -> npt.NDArray[np.int64]:
    """The other direction: to how many of the five copies of each image each caption is the nearest."""
    return EACH * np.bincount(side.scores.argmax(axis=1), minlength=len(side.texts))


def shares(found: npt.NDArray[np.int64]) -> dict[str, float]:
    """Table 5 in percent of the items that are nearest to some query."""
    held = found[found > 0]
    bounds = {name: int(name.lstrip(">=")) for name in NEAREST}
    return {
        name: 100 * float((held >= least if ">=" in name else held == least).mean()) for name, least in bounds.items()
    }
