"""Where chance comes from in a training run: seeds that leave the caller's alone, and states that can be kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draws from this seed inside; outside, the state of torch is unchanged.

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
    """The states of the generators that a run on this device draws from."""
    kept = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        kept["cuda"] = torch.cuda.get_rng_state(device)
    return kept


def restore(kept: Mapping[str, Tensor], device: torch.device) -> None:
    """Continues drawing from the saved states."""
    torch.set_rng_state(kept["cpu"])
    if device.type == "cuda" and "cuda" in kept:
        torch.cuda.set_rng_state(kept["cuda"], device)


def order(count: int, *, seed: int, epoch: int) -> np.ndarray:
    """The order of an epoch: known from seed and epoch alone, so that a resumed run finds its place in it.

    >>> order(4, seed=0, epoch=1).tolist() == order(4, seed=0, epoch=1).tolist()
    True
    """
    return np.random.default_rng([seed, epoch]).permutation(count)
