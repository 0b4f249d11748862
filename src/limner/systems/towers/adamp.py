"""AdamP: Adam whose steps do not increase the norm of scale-invariant weights (Heo et al. 2021)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

DELTA = 0.1
"""Weights count as scale-invariant if the gradient is orthogonal to them up to this threshold."""
DECAY_SHARE = 0.1
"""Factor of the weight decay for such weights."""
_EPS = 1e-8
Shape = tuple[int, int]


class AdamP(torch.optim.Optimizer):
    """Adam with decoupled weight decay; if a gradient is orthogonal to its weights, so is the step.

    The norm of weights before a normalisation layer has no effect: their gradients are orthogonal to them, and a plain
    step increases the norm, which makes later steps smaller. With u the step of Adam and w the weights of a row, or of
    the whole matrix, such that |cos(g, w)| < delta / sqrt(dim):

        u' = u - (w/|w| . u) w/|w|

    Args:
        parameters: The parameters to train.
        lr: Learning rate.
        betas: Decay rates of the two moments.
        weight_decay: Decoupled weight decay.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        """Updates all parameters that have a gradient."""
        for group in self.param_groups:
            if trained_weights := [weights for weights in group["params"] if weights.grad is not None]:
                self._move(trained_weights, group)

    def _move(self, trained_weights: list[Tensor], group: dict[str, Any]) -> None:
        """All parameters at once: a GPU is sent a few large pieces of work, not a dozen for each parameter."""
        states = [self._state_of(weights) for weights in trained_weights]
        gradients = _gradients(trained_weights)
        means, squares = ([state[name] for state in states] for name in ("mean", "square"))
        (first, second), rate, shapes = group["betas"], group["lr"], orthogonal(trained_weights)
        for state in states:
            state["step"] += 1
        numbers = [float(state["step"]) for state in states]
        torch._foreach_lerp_(means, gradients, 1 - first)
        torch._foreach_mul_(squares, second)
        torch._foreach_addcmul_(squares, gradients, gradients, 1 - second)
        spreads = torch._foreach_div(squares, [1 - second**number for number in numbers])
        torch._foreach_sqrt_(spreads)
        torch._foreach_add_(spreads, _EPS)
        steps = torch._foreach_div(means, [1 - first**number for number in numbers])
        torch._foreach_div_(steps, spreads)
        turned = [step if shape is None else projected(weights, step, shape)
                  for weights, step, shape in zip(trained_weights, steps, shapes, strict=True)]  # fmt: skip
        if decay := rate * group["weight_decay"]:
            torch._foreach_mul_(
                trained_weights, [1 - decay * (1.0 if shape is None else DECAY_SHARE) for shape in shapes]
            )
        torch._foreach_sub_(trained_weights, turned, alpha=rate)

    def _state_of(self, weights: Tensor) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self.state[weights]
        if not state:
            state |= {"step": torch.zeros(()), "mean": torch.zeros_like(weights), "square": torch.zeros_like(weights)}
        return state


def orthogonal(parameters: Sequence[Tensor]) -> list[Shape | None]:
    """For each parameter the shape whose rows are orthogonal to their gradients, or None if they are not.

    All angles are computed before the first is looked at: a GPU is waited for once, not once for each parameter.

    >>> weights = nn.Parameter(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    >>> weights.grad = torch.tensor([[0.0, 2.0], [1.0, 0.0]])
    >>> orthogonal([weights])
    [(2, -1)]
    """
    angled = [weights for weights in parameters if weights.ndim > 1 and weights.grad is not None]
    largest = iter(_angles(angled).tolist() if angled else ())
    chosen: list[Shape | None] = []
    for weights in parameters:
        orthogonal_shapes = []
        if weights.ndim > 1 and weights.grad is not None:
            shapes, angles = _shapes(weights), next(largest)
            orthogonal_shapes = [shape for shape, angle in zip(shapes, angles, strict=True)
                     if angle < DELTA / math.sqrt(weights.numel() // shape[0])]  # fmt: skip
        chosen.append(orthogonal_shapes[0] if orthogonal_shapes else None)
    return chosen


def _angles(parameters: Sequence[Tensor]) -> Tensor:
    """|cos| between each parameter and its gradient: the largest of its rows, and that of the whole."""
    gradients, weights = _gradients(parameters), list(parameters)
    products = torch._foreach_mul(gradients, weights)
    rows = [tuple(range(1, each.ndim)) for each in weights]
    dots = [product.sum(dims) for product, dims in zip(products, rows, strict=True)]
    lengths = [torch.cat([torch.linalg.vector_norm(each, dim=dims) for each, dims in zip(side, rows, strict=True)])
               for side in (gradients, weights)]  # fmt: skip
    cosines = torch.cat(dots).abs() / (lengths[0].clamp(min=_EPS) * lengths[1].clamp(min=_EPS))
    by_row = torch._foreach_max(torch.split(cosines, [len(each) for each in weights]))
    norms = [torch.stack(torch._foreach_norm(side)).clamp(min=_EPS) for side in (gradients, weights)]
    cosine = torch.stack([dot.sum() for dot in dots]).abs() / (norms[0] * norms[1])
    return torch.stack((torch.stack(by_row), cosine), dim=1)


def _gradients(parameters: Sequence[Tensor]) -> list[Tensor]:
    return [weights.grad for weights in parameters if weights.grad is not None]


def projected(weights: Tensor, step: Tensor, shape: Shape) -> Tensor:
    """The step without its component along the weights, row by row of this shape.

    >>> projected(torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 4.0]]), (1, -1))
    tensor([[0., 4.]])
    """
    row_view, moved = weights.reshape(shape), step.reshape(shape)
    unit = row_view / (row_view.norm(dim=1, keepdim=True) + _EPS)
    turned: Tensor = (moved - unit * (unit * moved).sum(1, keepdim=True)).reshape(weights.shape)
    return turned


def _shapes(weights: Tensor) -> tuple[Shape, Shape]:
    """Row by row, and the whole matrix as one row."""
    return (len(weights), -1), (1, -1)
