"""A system that is trained on the spot, or was saved: what it may learn from, and what it is measured on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limner.cli.console import progress
from limner.cli.options import part
from limner.core.errors import LimnerError
from limner.systems.held_out import SEED, TEST_SHARE, dev_of, drawn, outside

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.scores import Progress, Scores
    from limner.systems import Model


def trained(
    name: str, whole: Collection, split: str | None, *, trust: bool = False
) -> tuple[Scores, Collection, list[str]]:
    """Trains a system and scores what it has not seen: the split asked for, "test", or a part drawn with a fixed seed.

    A saved model, by its path, scores the split asked for or "test"; what it was trained on is not known here. With
    `trust` it may name code of its own.

    Returns:
        The scores, the part they are for, and what a reader must know of it.
    """
    from limner.systems import SYSTEMS, load, train

    if name not in SYSTEMS and Path(name).exists():
        held = part(whole, split)
        return _scored(load(name, trust=trust), name, held), held, []
    trainer = SYSTEMS.find(name)
    seen, held, notes = halves(whole, split)
    with progress(f"training {name} on {len(seen.images):,} images") as told:
        model = train(seen, name, **told_to(trainer, told), **dev_of(trainer, whole, held))
    return _scored(model, name, held), held, notes


def _scored(model: Model, name: str, held: Collection) -> Scores:
    with progress(f"scoring {len(held.images):,} images with {name}") as told:
        return model.scores(held, **told_to(model.scores, told))


def halves(whole: Collection, split: str | None) -> tuple[Collection, Collection, list[str]]:
    """What to train on, what to evaluate on, and a note where the collection does not say."""
    if split == "all":
        raise LimnerError("--split all with --system would test on what was trained on: name a split, or leave it out")
    if whole.splits:
        return _by_split(whole, split or "test")
    if split is not None:
        raise LimnerError(
            f"{whole.name!r} has no splits: leave out --split {split}, and one image in {TEST_SHARE} is held out"
        )
    seen, held = drawn(whole)
    many = f"trained on {len(seen.images):,} images, measured on {len(held.images):,} others (seed {SEED})"
    return seen, held, [f"{whole.name} has no splits: {many}"]


def _by_split(whole: Collection, name: str) -> tuple[Collection, Collection, list[str]]:
    held = part(whole, name)
    if "train" in whole.splits and name != "train":
        return whole.train, held, []
    return outside(whole, held), held, [f"trained on every image outside the split {name!r}"]


def told_to(function: Callable[..., Any], told: Progress) -> dict[str, Any]:
    """The progress as an argument, where the function takes one."""
    return {"progress": told} if "progress" in inspect.signature(function).parameters else {}
