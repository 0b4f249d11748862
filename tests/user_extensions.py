"""Extensions of a user's own, as one file of theirs would hold them."""

from dataclasses import dataclass

import numpy as np

from limner import Collection, Items, Judgements, Scores
from limner.match import Correction, mean


@dataclass(frozen=True)
class MeanShift(Correction):
    """s(i, t) - weight * mean over the bank's queries j of s(j, t)."""

    weight: float = 1.0
    centre: str = "mean"
    grid = {"weight": (1.0, 0.25, 0.5)}  # noqa: RUF012  # as a user would write it

    def gather(self, bank):
        return {"middle": getattr(np, self.centre)(bank.matrix(), axis=0)}

    def apply(self, block, statistics, rows):
        return block - self.weight * statistics["middle"].astype(block.dtype)


@dataclass(frozen=True)
class Plain(Correction):
    """Changes nothing, and has nothing to tune."""

    def gather(self, bank):
        return {"head": np.zeros(bank.shape[1])}

    def apply(self, block, statistics, rows):
        return block


def weighted(systems, *, depth: int | None = None, normalise: str = "minmax"):
    """The mean of normalised scores."""
    fused = mean(systems, normalise=normalise)
    return fused.top(depth or fused.shape[1])


class SharedWords:
    """How many words two texts share."""

    fingerprint = "shared words 1"

    def __init__(self, *, scale: float = 1.0) -> None:
        self.scale = scale

    def score_pairs(self, queries, candidates):
        shared = (len(set(q.split()) & set(c.split())) for q, c in zip(queries, candidates, strict=True))
        return np.array([self.scale * n for n in shared])


class Letters:
    """How often each letter occurs in a text."""

    def __init__(self, *, letters: int = 26) -> None:
        self.dim = letters

    def encode(self, items):
        letters = [chr(97 + n) for n in range(self.dim)]
        return np.array([[text.lower().count(letter) for letter in letters] for text in items.values], dtype=float)


def load(path, *, split: str | None = None, shout: bool = False):
    """Lines of 'image<TAB>caption'."""
    with open(path, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    texts = [caption.upper() if shout else caption for _, caption in rows]
    pairs = Judgements.from_pairs((image, str(n)) for n, (image, _) in enumerate(rows))
    images = Items(list(dict.fromkeys(image for image, _ in rows)), [None] * len({i for i, _ in rows}))
    return Collection("lines", images, Items(range(len(rows)), texts, kind="text"), pairs)


class Model:
    """Scores that only know how many letters a text has."""

    def scores(self, collection, /):
        lengths = np.array([len(text) for text in collection.texts.values], dtype=float)
        matrix = np.tile(lengths, (len(collection.images), 1))
        return Scores.from_matrix(matrix, collection.images.ids, collection.texts.ids)


def train(collection, *, seed: int = 0):
    """Learns nothing."""
    return Model()


def infonce(scores, positives, *, margin: float = 0.2):
    """The cross entropy of a softmax with temperature `margin`."""
    import torch

    matching = scores.masked_fill(~positives, -torch.inf) / margin
    return sum((torch.logsumexp(scores / margin, d) - torch.logsumexp(matching, d)).sum() for d in (0, 1))
