"""Detects collapse: a loss with hard negatives can make all embeddings nearly equal; warns if that happens.

With only the hardest negative (loss "max"), mapping everything to one point has a loss of `2 * margin`, which is lower
than that of random vectors. Early in training the gradient leads there at any learning rate, and it is small there, so
training rarely escapes. Losses that use more negatives ("sum", "adaptive") do not collapse.
"""

from __future__ import annotations

import warnings

from torch import Tensor
from torch.nn.functional import normalize

from limner.core.errors import LimnerWarning

NEARLY = 0.85
"""Embeddings count as nearly equal from this mean cosine similarity of different items; for trained towers it is near
0."""
FEWEST = 8
"""Minimum number of items for this check."""


def mean_cosine(vectors: Tensor) -> float:
    """The mean cosine similarity of different rows; several vectors of an item are concatenated.

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
        texts: Vectors of the texts of the same batch.
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
