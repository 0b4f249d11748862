"""The inputs of fine-tuning: vectors, preprocessed images or tokens, in batches of given rows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import torch
from torch import Tensor

from limner.core.arrays import Float32, IntArray
from limner.core.collection import Items
from limner.encoders.batching import padded
from limner.encoders.torch_encoders import JointEncoder, on_device, stacked
from limner.scores.parallel_blocks import usable_cores

PIXEL_MEMORY = 2 << 30
"""Bytes of preprocessed images that are kept in memory; the others are decoded again in every epoch."""
_AHEAD = 3  # batches that are decoded before the model asks for them


class RowBatches(Protocol):
    """The images or the texts of a collection as model input."""

    def batches(self, rows: Iterable[IntArray]) -> Iterator[Any]:
        """A batch for each of these groups of rows, on the device."""


class VectorRows:
    """Vectors of a frozen encoder."""

    def __init__(self, vectors: Float32, device: torch.device) -> None:
        self.vectors = torch.from_numpy(vectors.copy()).to(device)

    def batches(self, rows: Iterable[IntArray]) -> Iterator[Tensor]:
        """The vectors of each group."""
        for each in rows:
            yield self.vectors[torch.from_numpy(each).to(self.vectors.device)]


class TokenRows:
    """Texts as tokens, padded to the longest of a batch."""

    def __init__(self, encoder: JointEncoder, texts: Sequence[str], device: torch.device) -> None:
        self.tokens, self.fill, self.device = encoder.tokens(list(texts)), encoder.fill, device

    def batches(self, rows: Iterable[IntArray]) -> Iterator[tuple[Tensor, Tensor]]:
        """Tokens and mask of each group."""
        for each in rows:
            matrix, filled = padded([self.tokens[row] for row in each], fill=self.fill)
            yield torch.from_numpy(matrix).to(self.device), torch.from_numpy(filled).to(self.device)


class PixelRows:
    """Preprocessed images, decoded on threads while the model processes earlier ones.

    Args:
        encoder: Provides the preprocessing.
        items: The images.
        device: Device of the batches.
        memory: Maximum number of bytes that are kept for the next epoch.
    """

    def __init__(
        self, encoder: JointEncoder, items: Items, device: torch.device, *, memory: int = PIXEL_MEMORY
    ) -> None:
        self.encoder, self.items, self.device, self.left = encoder, items, device, memory
        self.kept: dict[int, object] = {}

    def batches(self, rows: Iterable[IntArray]) -> Iterator[Any]:
        """The pixels of each group."""
        with ThreadPoolExecutor(usable_cores()) as pool:
            waiting: deque[list[tuple[int, Future[object] | None]]] = deque()
            for each in rows:
                requests = [(row, None if row in self.kept else pool.submit(self._read, row)) for row in each.tolist()]
                waiting.append(requests)
                if len(waiting) >= _AHEAD:
                    yield self._batch(waiting.popleft())
            while waiting:
                yield self._batch(waiting.popleft())

    def _batch(self, requests: list[tuple[int, Future[object] | None]]) -> object:
        return on_device(stacked([self._read_once(row, future) for row, future in requests]), self.device)

    def _read_once(self, row: int, future: Future[Any] | None) -> object:
        if future is None:
            return self.kept[row]
        inputs = future.result()
        size = sum(part.nbytes for part in (inputs.values() if isinstance(inputs, dict) else (inputs,)))
        if row not in self.kept and size <= self.left:
            self.kept[row] = inputs
            self.left -= size
        return inputs

    def _read(self, row: int) -> object:
        with self.items.opened(row, shortest=self.encoder.shortest) as image:
            return self.encoder.pixels(image)
