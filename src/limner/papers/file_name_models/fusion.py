"""Fusion of the two parts of a query, the text u of a file name and the image v, into one vector (Messina 2022)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from limner.core.errors import UnknownName

FUSIONS = ("attentive", "concat", "text", "image")


class Fused(NamedTuple):
    """The output of a fusion for a batch.

    Args:
        query: One vector per query.
        weights: Weights of text and image, queries by two.
    """

    query: Tensor
    weights: Tensor


class Attentive(nn.Module):
    """Weights for both parts, chosen for each query (Messina et al. 2022, after Hori et al. 2017).

    (a_u, a_v) = sigmoid(MLP([u, v])),   q = a_u u / |u| + a_v v / |v|

    The two weights need not sum to one, so the model can also scale the query.

    >>> with torch.random.fork_rng():
    ...     _ = torch.manual_seed(0)
    ...     fused = Attentive(3)(torch.ones(2, 3), torch.zeros(2, 3))
    >>> tuple(fused.query.shape), bool(((fused.weights > 0) & (fused.weights < 1)).all())
    ((2, 3), True)
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weigh = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 2))

    def forward(self, text: Tensor, image: Tensor) -> Fused:
        """Fuses a batch."""
        weights = torch.sigmoid(self.weigh(torch.cat([text, image], -1)))
        both = torch.stack([normalize(text, dim=-1), normalize(image, dim=-1)], 1)
        return Fused((weights[..., None] * both).sum(1), weights)


class Concatenation(nn.Module):
    """Concatenation with one linear map for all queries: q = W [u / |u|, v / |v|] + b."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.map = nn.Linear(2 * width, width)

    def forward(self, text: Tensor, image: Tensor) -> Fused:
        """Fuses a batch; both parts always have weight 1."""
        joined = torch.cat([normalize(text, dim=-1), normalize(image, dim=-1)], -1)
        return Fused(self.map(joined), torch.ones(len(text), 2, device=text.device))


class One(nn.Module):
    """A single part: q = u, or q = v.

    >>> One(0)(torch.tensor([[3.0, 4.0]]), torch.zeros(1, 2)).query.tolist()
    [[3.0, 4.0]]
    """

    def __init__(self, which: int) -> None:
        super().__init__()
        self.which = which

    def forward(self, text: Tensor, image: Tensor) -> Fused:
        """Takes the part."""
        weights = torch.zeros(len(text), 2, device=text.device)
        weights[:, self.which] = 1
        return Fused((text, image)[self.which], weights)


def fusion(name: str, width: int) -> nn.Module:
    """A fusion by name: "attentive", "concat", "text" or "image".

    >>> type(fusion("concat", 4)).__name__
    'Concatenation'
    """
    if name not in FUSIONS:
        raise UnknownName("fusion", name, FUSIONS)
    if name in ("text", "image"):
        return One(FUSIONS.index(name) - 2)
    return Attentive(width) if name == "attentive" else Concatenation(width)
