"""Distributed training: ranks, communication between processes, and random generators.

Started with `torchrun --nproc-per-node 2 script.py` or `accelerate launch`, every process runs the same script; each
encodes its share of a batch, all vectors are gathered, and each process computes the loss of the whole batch. A batch
is therefore the same, including its negatives, for any number of processes.

Randomness in a training run: seeds that leave the caller's random state unchanged, and random_states that can be saved.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from limner.core.errors import LimnerError

Value = TypeVar("Value")


@dataclass(frozen=True)
class Group:
    """The process group; a single process if nothing was launched.

    Args:
        rank: Rank of this process.
        size: Number of processes.
    """

    rank: int = 0
    size: int = 1

    @property
    def main(self) -> bool:
        """Whether this process evaluates, logs and saves."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """This process's part of a batch."""
        if count % self.size:
            raise LimnerError(
                f"a batch of {count} pairs cannot be split evenly between {self.size} processes: choose a multiple"
            )
        each = count // self.size
        return slice(self.rank * each, (self.rank + 1) * each)

    def gather(self, tensor: Tensor) -> Tensor:
        """The rows of all processes, concatenated; gradients flow back to their source."""
        if self.size == 1:
            return tensor
        gathered: Tensor = _Gather.apply(tensor, self.rank, self.size)  # type: ignore[no-untyped-call]
        return gathered

    def average(self, parameters: Sequence[nn.Parameter]) -> None:
        """Replaces every gradient by its mean over the processes.

        Each process computed the loss of the whole batch, and `gather` summed over them, so the mean is the gradient.
        """
        if self.size == 1:
            return
        gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters]
        flat = torch.cat([g.ravel() for g in gradients])
        dist.all_reduce(flat)
        flat /= self.size
        for parameter, part in zip(parameters, torch.split(flat, [g.numel() for g in gradients]), strict=True):
            parameter.grad = part.view_as(parameter)

    def agree(self, value: Value | None) -> Value:
        """Broadcasts a value from the main process."""
        values = [value]
        if self.size > 1:
            dist.broadcast_object_list(values, src=0)
        return cast("Value", values[0])

    def everyone(self, value: Value) -> list[Value]:
        """Gathers a value from every process, by rank."""
        if self.size == 1:
            return [value]
        values = [value] * self.size
        dist.all_gather_object(values, value)
        return values


def joined(device: torch.device) -> Group:
    """The process group; initialises communication if needed."""
    if not dist.is_available():
        return Group()
    if not dist.is_initialized():
        if int(os.environ.get("WORLD_SIZE", "1")) < 2:
            return Group()
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    return Group(dist.get_rank(), dist.get_world_size())


class _Gather(torch.autograd.Function):
    """Gathers the rows of all processes; gradients are summed over them, and each keeps those of its own rows."""

    @staticmethod
    def forward(context: Any, tensor: Tensor, rank: int, size: int) -> Tensor:
        context.rank, context.rows = rank, len(tensor)
        parts = [torch.empty_like(tensor) for _ in range(size)]
        dist.all_gather(parts, tensor.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        flat = gradients[0].contiguous()
        dist.all_reduce(flat)
        return flat[context.rank * context.rows : (context.rank + 1) * context.rows], None, None


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Uses this seed inside the block; outside, torch's random state is unchanged.

    >>> with seeded(1):
    ...     one = torch.rand(2)
    >>> with seeded(1):
    ...     bool((one == torch.rand(2)).all())
    True
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def random_states(device: torch.device) -> dict[str, Tensor]:
    """The random_states of the random generators that a run on this device uses."""
    generator_states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        generator_states["cuda"] = torch.cuda.get_rng_state(device)
    return generator_states


def restore_random(generator_states: Mapping[str, Tensor], device: torch.device) -> None:
    """Restores the saved random random_states."""
    torch.set_rng_state(generator_states["cpu"])
    if device.type == "cuda" and "cuda" in generator_states:
        torch.cuda.set_rng_state(generator_states["cuda"], device)


def epoch_order(count: int, *, seed: int, epoch: int) -> np.ndarray:
    """The epoch_order of an epoch: it depends only on seed and epoch, so that a resumed run can continue in the middle.

    >>> epoch_order(4, seed=0, epoch=1).tolist() == epoch_order(4, seed=0, epoch=1).tolist()
    True
    """
    return np.random.default_rng([seed, epoch]).permutation(count)
