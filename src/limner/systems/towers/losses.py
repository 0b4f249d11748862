"""Margin losses: they pull an image and its texts together and push others away.

A loss is a function `(scores, positives, *, margin) -> tensor`. Scores are images by texts, higher is better; positives
mark the matching pairs. The loss sums both directions over all positive pairs, and a matching pair is never a negative:
neither the other texts of an image, nor the texts of an image that occurs twice in a batch. A custom loss needs no
registration: name it as "module:function".

With h(i, t, t') = [margin - s(i, t) + s(i, t')]+ for a positive pair (i, t) and a negative t' of the same image, the
losses differ only in which negatives they use. The other direction swaps images and texts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Protocol

import torch
from torch import Tensor
from torch.nn.functional import normalize

from limner.core.errors import LimnerError, LimnerWarning
from limner.core.registry import checked
from limner.systems import LOSSES

MARGIN = 0.2
NEARLY = 0.85
"""Embeddings count as nearly equal from this mean cosine similarity of different items; for trained towers it is near
0."""
FEWEST = 8
"""Minimum number of items for this check."""


class Loss(Protocol):
    """The interface of a loss."""

    def __call__(self, scores: Tensor, positives: Tensor, *, margin: float) -> Tensor:
        """The loss value."""


def sum_margin(scores: Tensor, positives: Tensor, *, margin: float = MARGIN) -> Tensor:
    """Uses all negatives of the batch (Kiros et al. 2014; VSE0 in Faghri et al. 2018).

    Sum over positive pairs (i, t) and negatives t' of h(i, t, t'), and likewise over images for each text.

    >>> scores, positives = torch.tensor([[0.9, 0.8], [0.1, 0.5]]), torch.eye(2, dtype=torch.bool)
    >>> round(float(sum_margin(scores, positives)), 3)  # 0.1 (row 1) + 0.5 (column 2)
    0.6
    """
    return _summed(_all, scores, positives, margin)


def max_margin(scores: Tensor, positives: Tensor, *, margin: float = MARGIN) -> Tensor:
    """Uses only the hardest negative of each positive pair (VSE++: Faghri et al. 2018).

    Sum over positive pairs (i, t) of max over negatives t' of h(i, t, t'), and likewise over images for each text.

    >>> scores = torch.tensor([[0.5, 0.4, 0.6], [0.0, 0.9, 0.0], [0.0, 0.0, 0.9]])
    >>> round(float(max_margin(scores, torch.eye(3, dtype=torch.bool))), 3)  # 0.3 of row 1; columns keep their distance
    0.3
    """
    return _nearest(scores, positives, margin, k=1)


def semi_hard(scores: Tensor, positives: Tensor, *, margin: float = MARGIN) -> Tensor:
    """Uses the negatives that score below the positive but within the margin (Schroff et al. 2015).

    Sum over positive pairs (i, t) and negatives t' with s(i, t) - margin < s(i, t') < s(i, t) of h(i, t, t').

    >>> scores = torch.tensor([[0.5, 0.4, 0.6], [0.0, 0.9, 0.0], [0.0, 0.0, 0.9]])
    >>> round(float(semi_hard(scores, torch.eye(3, dtype=torch.bool))), 3)  # 0.4 counts, 0.6 is too hard
    0.1
    """
    return _summed(_below_positive, scores, positives, margin)


def knn_margin(scores: Tensor, positives: Tensor, *, margin: float = MARGIN, k: int = 3) -> Tensor:
    """Uses the k hardest negatives of each positive pair (Liu & Ye 2019).

    Sum over positive pairs (i, t) and the k negatives t' nearest to i of h(i, t, t'), and likewise over images for each
    text. k = 1 gives the max loss, and k = batch size the sum loss.

    >>> scores = torch.tensor([[0.5, 0.4, 0.6], [0.0, 0.9, 0.0], [0.0, 0.0, 0.9]])
    >>> round(float(knn_margin(scores, torch.eye(3, dtype=torch.bool), k=2)), 3)
    0.4
    """
    if k < 1:
        raise LimnerError(f"k={k}: expected at least 1 nearest negative")
    return _nearest(scores, positives, margin, k=k)


def adaptive_margin(scores: Tensor, positives: Tensor, *, margin: float = MARGIN) -> Tensor:
    """Each positive pair gets its own k from the distribution of its violations, and the mean of the k hardest counts.

    With the violations h_1 >= h_2 >= ... of a positive pair,

        k = round((h_1 + h_2 + ...)^2 / (h_1^2 + h_2^2 + ...)),   loss of the pair = (h_1 + ... + h_k) / k

    k is the effective number of violators (Kish 1965): 1 if a single hard negative stands out, as in the max loss;
    the number of violators if none does, because training has just started or because the pair itself is wrong, as in
    the sum loss. The mean prevents a wrong pair, which all negatives violate, from dominating the right ones. Liu & Ye
    2019 mention a self-adapting k as future work; this is limner's own design.

    >>> one = torch.tensor([[0.5, 0.6, 0.31, 0.31]])  # violations 0.3, 0.01, 0.01: one stands out
    >>> two = torch.tensor([[0.5, 0.6, 0.6, 0.31]])  # 0.3, 0.3, 0.01: two do
    >>> positives = torch.tensor([[True, False, False, False]])
    >>> [round(float(adaptive_margin(s, positives)), 3) for s in (one, two)]
    [0.3, 0.3]
    """
    return _summed(_standing_out, scores, positives, margin)


def loss(
    name: str | Callable[..., Tensor], *, margin: float = MARGIN, trusted: bool = True, **options: object
) -> Callable[..., Tensor]:
    """A loss by name, with its options set: `loss("knn", k=5)(scores, positives)`.

    Args:
        name: A key of `LOSSES`, "module:function", either with options such as "knn(k=5)", or a function.
        margin: The margin.
        trusted: Whether "module:function" is allowed; False for a name read from a file.
        options: Options of this loss, such as `k` of "knn".

    >>> scores = torch.tensor([[0.9, 0.8], [0.1, 0.5]])
    >>> round(float(loss("knn", k=1, margin=0.3)(scores, torch.eye(2, dtype=torch.bool))), 3)
    0.8
    """
    if not margin > 0:
        raise LimnerError(f"margin={margin}: expected a number above 0")
    if isinstance(name, str):
        name, options = LOSSES.parsed(name, options)
    function = name if callable(name) else LOSSES.find(name, trusted=trusted)
    loss_name = f"loss {name if isinstance(name, str) else LOSSES.name_of(name)!r}"
    return partial(function, **checked(function, {"margin": margin, **options}, what=loss_name, filled=LOSSES.filled))


_Choice = Callable[[Tensor, Tensor, float], Tensor]
"""From positive scores (pairs) and scores of all negatives (pairs by negatives, -inf for non-negatives): the loss."""


def _summed(choice: _Choice, scores: Tensor, positives: Tensor, margin: float) -> Tensor:
    """Applies a choice of negatives in both directions and sums the losses."""
    _refuse_unfit(scores, positives)
    rows, columns = positives.nonzero(as_tuple=True)
    pair_scores = scores[rows, columns]
    negatives = scores.masked_fill(positives, -torch.inf)
    return choice(pair_scores, negatives[rows], margin) + choice(pair_scores, negatives.T[columns], margin)


def _nearest(scores: Tensor, positives: Tensor, margin: float, *, k: int) -> Tensor:
    """The k hardest negatives in both directions.

    They are the same for all positives of an item, so the loss is computed for every cell and then masked: selecting
    the positives first would synchronise the GPU in every step.
    """
    _refuse_unfit(scores, positives)
    if k >= max(scores.shape):
        return _summed(_all, scores, positives, margin)
    negatives = scores.masked_fill(positives, -torch.inf)
    return _hardest(scores, negatives, positives, margin, k) + _hardest(scores.T, negatives.T, positives.T, margin, k)


def _hardest(scores: Tensor, negatives: Tensor, positives: Tensor, margin: float, k: int) -> Tensor:
    nearest = negatives.topk(min(k, negatives.shape[1]), dim=1, sorted=False).values
    violations = (margin - scores[:, :, None] + nearest[:, None, :]).clamp(min=0)
    return violations.masked_fill(~positives[:, :, None], 0.0).sum()


def _refuse_unfit(scores: Tensor, positives: Tensor) -> None:
    if scores.shape != positives.shape or scores.ndim != 2 or positives.dtype != torch.bool:
        raise LimnerError(
            f"scores of shape {tuple(scores.shape)} with positives of shape {tuple(positives.shape)} and type "
            f"{positives.dtype}: expected two matrices of the same shape, images by texts, the second of booleans"
        )


def _violations(pair_scores: Tensor, negatives: Tensor, margin: float) -> Tensor:
    return (margin - pair_scores[:, None] + negatives).clamp(min=0)


def _all(pair_scores: Tensor, negatives: Tensor, margin: float) -> Tensor:
    return _violations(pair_scores, negatives, margin).sum()


def _below_positive(pair_scores: Tensor, negatives: Tensor, margin: float) -> Tensor:
    is_below_positive = negatives < pair_scores[:, None]  # pairs beyond the margin have no loss anyway
    return (_violations(pair_scores, negatives, margin) * is_below_positive).sum()


def _standing_out(pair_scores: Tensor, negatives: Tensor, margin: float) -> Tensor:
    ordered = _violations(pair_scores, negatives, margin).sort(dim=1, descending=True).values
    with torch.no_grad():
        squares = ordered.square().sum(1, keepdim=True)
        k = (ordered.sum(1, keepdim=True).square() / squares.clamp(min=1e-12)).round().clamp(min=1)
        in_top_k = torch.arange(ordered.shape[1], device=ordered.device) < k
    return (ordered * in_top_k / k).sum()


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

    With only the hardest negative (loss "max"), mapping everything to one point has a loss of `2 * margin`, which is
    lower than that of random vectors. Early in training the gradient leads there at any learning rate, and it is small
    there, so training rarely escapes. Losses that use more negatives ("sum", "adaptive") do not collapse.

    Args:
        images: Vectors of the images of a training batch, a row per item.
        texts: Vectors of the texts of the same batch.
        loss: The loss, as the user named it.
    """
    if len(images) < FEWEST:
        return
    cosines = {"images": mean_cosine(images), "texts": mean_cosine(texts)}
    if min(cosines.values()) < NEARLY:
        return
    facts = " and ".join(f"of two {name} {value:.3f}" for name, value in cosines.items())
    advice = "" if loss == "pcme" else "with loss='adaptive' or loss='sum', or "
    name = loss if isinstance(loss, str) else getattr(loss, "__name__", "?")
    warnings.warn(
        f"all embeddings have become nearly equal after training with loss={name!r} (mean cosine {facts}): ranks are "
        f"close to chance. Train {advice}for more epochs",
        LimnerWarning,
        stacklevel=4,
    )
