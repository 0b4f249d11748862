"""Detects collapse: a loss with hard negatives can make all embeddings nearly equal; warns if that happens.

With only the hardest negative (loss "max"), one point for everything costs `2 * margin`, which is less than random
vectors cost. Early in training the gradient leads there, whatever the learning rate is, and is small there, so training
hardly leaves that point. Losses that use more negatives ("sum", "adaptive") do not end there.
"""

from __future__ import annotations

import warnings

from torch import Tensor
from torch.nn.functional import normalize

from limner.core.errors import LimnerWarning

NEARLY = 0.85
"""Mean cosine of different items from which on they count as nearly equal; of trained towers it is near 0."""
FEWEST = 8
"""Items from which on it is asked."""


def mean_cosine(vectors: Tensor) -> float:
    """The mean cosine of two different rows; of items with several vectors, of all of these joined.

    >>> import torch
    >>> round(mean_cosine(torch.tensor([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]])), 3)
    0.333
    """
    rows = normalize(vectors.detach().float().flatten(1), dim=-1)
    count = len(rows)
    return (float(rows.sum(0).square().sum()) - count) / (count * (count - 1))


def warn_if_collapsed(images: Tensor, texts: Tensor, *, loss: object) -> None:
    """Warns if all images, and all texts, have nearly the same vector after training.

    Args:
        images: Vectors of the images of a training batch, a row per item.
        texts: Those of its texts.
        loss: The loss, as the user named it.
    """
    if len(images) < FEWEST:
        return
    found = {"images": mean_cosine(images), "texts": mean_cosine(texts)}
    if min(found.values()) < NEARLY:
        return
    told = " and ".join(f"of two {name} {value:.3f}" for name, value in found.items())
    others = "" if loss == "pcme" else "with loss='adaptive' or loss='sum', or "
    name = loss if isinstance(loss, str) else getattr(loss, "__name__", "?")
    warnings.warn(
        f"all embeddings have become nearly equal after training with loss={name!r} (mean cosine {told}): ranks are "
        f"close to chance. Train {others}for more epochs",
        LimnerWarning,
        stacklevel=4,
    )
