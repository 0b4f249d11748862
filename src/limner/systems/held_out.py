"""What a system learns from and what it is measured on are never the same images."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.core.errors import LimnerError

if TYPE_CHECKING:
    from limner.core.collection import Collection

SEED = 0
TEST_SHARE = 5
"""One image in so many is for testing, where a collection says nothing."""


def drawn(whole: Collection) -> tuple[Collection, Collection]:
    """What to learn from and what to measure on: four parts and one, drawn with a fixed seed."""
    if len(whole.images) < 2 * TEST_SHARE:
        raise LimnerError(
            f"{whole.name!r} has {len(whole.images)} images: expected at least {2 * TEST_SHARE} to train on"
        )
    order = np.random.default_rng(SEED).permutation(len(whole.images))
    cut = len(order) // TEST_SHARE
    seen, held = (whole.restrict(whole.images.ids[np.sort(rows)]) for rows in (order[cut:], order[:cut]))
    return seen, held


def outside(whole: Collection, held: Collection) -> Collection:
    """Every image that is not held out."""
    return whole.restrict([key for key in whole.images.ids if key not in held.images.ids])


def dev_of(trainer: Callable[..., Any], whole: Collection, held: Collection) -> dict[str, Any]:
    """The dev split as an argument, for a system that chooses its settings on one, unless it is what is measured."""
    wanted = "dev" in inspect.signature(trainer).parameters and "dev" in whole.splits
    if not wanted or set(whole.dev.images.ids) & set(held.images.ids):
        return {}
    return {"dev": whole.dev}
