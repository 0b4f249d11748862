"""A forward pass of BERT and similar models that computes only what pair scoring needs.

All tokens of a batch are in one row, without padding; only attention is computed pair by pair, for all pairs of one
length at once. Queries, keys and values are computed by one product. In the last layer only the first token is
computed, since only its state is used: of the twelve d x d products per token of a layer, two remain. Weights are
stored transposed compared with the library: some CPUs multiply 20% faster that way. The results equal those of the
library, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import layer_norm, scaled_dot_product_attention

from limner.core.arrays import IntArray

ATTENTION = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""Without cuDNN: it builds a plan for every new shape, and varying lengths give many shapes."""
FIRST_POSITION = {"bert": 0, "roberta": 2, "xlm-roberta": 2, "camembert": 2}
"""Supported model types, which share the same layers, with the index of the first position."""


@dataclass(frozen=True)
class Norm:
    """A layer norm: weight, bias and epsilon."""

    weight: Tensor
    bias: Tensor
    eps: float

    @classmethod
    def of(cls, module: nn.LayerNorm) -> Norm:
        """The weights of the library's layer norm."""
        return cls(module.weight, module.bias, module.eps)

    def __call__(self, rows: Tensor) -> Tensor:
        """Normalised rows."""
        return layer_norm(rows, self.weight.shape, self.weight, self.bias, self.eps)


@dataclass(frozen=True)
class Linear:
    """A linear map: weights with one row per input dimension, and the bias."""

    weight: Tensor
    bias: Tensor

    @classmethod
    def of(cls, *modules: nn.Linear) -> Linear:
        """The weights of one or several of the library's linear layers, concatenated."""
        weight, bias = torch.cat([m.weight for m in modules]), torch.cat([m.bias for m in modules])
        return cls(weight.t().contiguous(), bias)

    def part(self, start: int, stop: int | None = None) -> Linear:
        """The map to some of the output dimensions."""
        return Linear(self.weight[:, start:stop], self.bias[start:stop])

    def __call__(self, rows: Tensor) -> Tensor:
        """Mapped rows."""
        return torch.addmm(self.bias, rows, self.weight)


@dataclass(frozen=True)
class Layer:
    """The weights of one layer, with queries, keys and values combined."""

    qkv: Linear
    out: Linear
    norm: Norm
    up: Linear
    down: Linear
    last_norm: Norm
    act: Callable[[Tensor], Tensor]
    heads: int

    @classmethod
    def of(cls, layer: Any, heads: int) -> Layer:
        """The weights of the library's layer."""
        attention, after = layer.attention.self, layer.attention.output
        return cls(
            Linear.of(attention.query, attention.key, attention.value),
            Linear.of(after.dense),
            Norm.of(after.LayerNorm),
            Linear.of(layer.intermediate.dense),
            Linear.of(layer.output.dense),
            Norm.of(layer.output.LayerNorm),
            layer.intermediate.intermediate_act_fn,
            heads,
        )

    def __call__(self, rows: Tensor, groups: Sequence[LengthGroup]) -> Tensor:
        """Applies the layer to all tokens."""
        context = torch.empty_like(rows)
        qkv = self.qkv(rows)
        for group in groups:
            q, k, v = self._heads(qkv[group.slice], group.length, 3)
            (target,) = self._heads(context[group.slice], group.length, 1)
            target.copy_(scaled_dot_product_attention(q, k, v))
        return self._after(rows, context)

    def first(self, rows: Tensor, groups: Sequence[LengthGroup]) -> Tensor:
        """Applies the layer to the first token of every pair."""
        width = rows.shape[1]
        starts = torch.cat([group.starts(rows.device) for group in groups])
        firsts = rows[starts]
        queries, keys_and_values = self.qkv.part(0, width)(firsts), self.qkv.part(width)(rows)
        context, done = torch.empty_like(firsts), 0
        for group in groups:
            group_rows = slice(done, done + group.count)
            ((q,), (target,)) = (self._heads(side[group_rows], 1, 1) for side in (queries, context))
            k, v = self._heads(keys_and_values[group.slice], group.length, 2)
            target.copy_(scaled_dot_product_attention(q, k, v))
            done = group_rows.stop
        return self._after(firsts, context)

    def _heads(self, rows: Tensor, length: int, parts: int) -> Tensor:
        """A view as pairs by heads by tokens, for each of the parts, without a copy."""
        return rows.view(-1, length, parts, self.heads, rows.shape[1] // parts // self.heads).permute(2, 0, 3, 1, 4)

    def _after(self, rows: Tensor, context: Tensor) -> Tensor:
        rows = self.norm(self.out(context).add_(rows))
        return self.last_norm(self.down(self.act(self.up(rows))).add_(rows))


@dataclass(frozen=True)
class LengthGroup:
    """Consecutive pairs of one length.

    Args:
        start: The row of the first token of the first pair.
        count: Pairs.
        length: Tokens of each.
    """

    start: int
    count: int
    length: int

    @property
    def slice(self) -> slice:
        """The slice of the tokens."""
        return slice(self.start, self.start + self.count * self.length)

    def starts(self, device: torch.device) -> Tensor:
        """The row indices of the first tokens."""
        return torch.arange(self.start, self.slice.stop, self.length, device=device)


def groups_of(lengths: IntArray) -> list[LengthGroup]:
    """Groups of consecutive pairs of equal length.

    >>> groups_of(np.array([5, 5, 3]))
    [LengthGroup(start=0, count=2, length=5), LengthGroup(start=10, count=1, length=3)]
    """
    cuts = [0, *(np.flatnonzero(np.diff(lengths)) + 1).tolist(), len(lengths)]
    rows = np.concatenate([[0], np.cumsum(lengths)])
    return [LengthGroup(int(rows[low]), high - low, int(lengths[low])) for low, high in pairwise(cuts)]


class UnpaddedEncoder:
    """The packed encoder of a model type in `FIRST_POSITION`.

    Args:
        encoder: The library's `BertModel`, `RobertaModel` or `XLMRobertaModel`, in the target precision.
    """

    def __init__(self, encoder: Any) -> None:
        parts = encoder.embeddings
        self.tables = [t.weight for t in (parts.word_embeddings, parts.position_embeddings)]
        self.types = parts.token_type_embeddings.weight
        self.norm = Norm.of(parts.LayerNorm)
        heads = int(encoder.config.num_attention_heads)
        self.layers = [Layer.of(layer, heads) for layer in encoder.encoder.layer]
        self.first_position = FIRST_POSITION[encoder.config.model_type]

    def __call__(self, tokens: Tensor, types: Tensor, lengths: IntArray) -> Tensor:
        """The last state of the first token of every pair.

        Args:
            tokens: Tokens of all pairs, one after the other.
            types: Which text of the pair each token belongs to.
            lengths: Tokens of each pair; pairs of one length are consecutive.
        """
        groups = groups_of(lengths)
        places = np.concatenate([np.tile(np.arange(g.length), g.count) for g in groups]) + self.first_position
        words, positions = self.tables
        rows = words[tokens] + positions[torch.from_numpy(places).to(tokens.device)] + self.types[types]
        rows = self.norm(rows)
        with sdpa_kernel(ATTENTION):
            for layer in self.layers[:-1]:
                rows = layer(rows, groups)
            return self.layers[-1].first(rows, groups)


def fits(config: object) -> bool:
    """Whether the packed forward pass supports this kind of model."""
    return (
        getattr(config, "model_type", None) in FIRST_POSITION
        and getattr(config, "position_embedding_type", None) in (None, "absolute")
        and not getattr(config, "is_decoder", False)
    )


def lengths_in_batches(lengths: IntArray, *, budget: int) -> Iterator[IntArray]:
    """Rows sorted by length, longest first, in batches within the token budget; nothing is padded.

    >>> [rows.tolist() for rows in lengths_in_batches(np.array([3, 9, 2, 4, 8]), budget=17)]
    [[1, 4], [3, 0, 2]]
    """
    order = np.argsort(-lengths, kind="stable")
    ends = np.cumsum(lengths[order])
    start, before = 0, 0
    while start < len(order):
        stop = max(start + 1, int(np.searchsorted(ends, before + budget, side="right")))
        yield order[start:stop]
        start, before = stop, int(ends[stop - 1])
