"""Randomness in a training run: seeds that leave the caller's random state unchanged, and states that can be saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor


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


def states(device: torch.device) -> dict[str, Tensor]:
    """The states of the random generators that a run on this device uses."""
    generator_states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        generator_states["cuda"] = torch.cuda.get_rng_state(device)
    return generator_states


def restore(generator_states: Mapping[str, Tensor], device: torch.device) -> None:
    """Restores the saved random states."""
    torch.set_rng_state(generator_states["cpu"])
    if device.type == "cuda" and "cuda" in generator_states:
        torch.cuda.set_rng_state(generator_states["cuda"], device)


def order(count: int, *, seed: int, epoch: int) -> np.ndarray:
    """The order of an epoch: it depends only on seed and epoch, so that a resumed run can continue in the middle.

    >>> order(4, seed=0, epoch=1).tolist() == order(4, seed=0, epoch=1).tolist()
    True
    """
    return np.random.default_rng([seed, epoch]).permutation(count)
