"""How a correction is written on the command line: a name, a name with options, or a file of saved statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.console import progress, tell
from limner.cli.options import word
from limner.core.errors import LimnerError
from limner.core.written import call

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.scores import Scores

    Dev = Callable[[str], tuple[Scores, Collection]]

Correct = Annotated[
    str | None,
    word(
        "Correct hubs: a name of 'limner corrections', 'nnn(k=8)', module:class, or saved statistics FILE.npz.",
        "--correct",
        metavar="HOW",
    ),
]
Tune = Annotated[str | None, word("Choose the correction's options on this split, e.g. dev.", metavar="SPLIT")]


def corrected(source: Any, how: str | None, tune: str | None, dev: Dev, *, trust: bool = False) -> Any:
    """The scores, corrected as asked.

    Args:
        source: What was named as the system.
        how: The word after --correct.
        tune: The word after --tune.
        dev: Gives scores and collection of a split.
        trust: Whether a file of statistics may name a correction that is not registered.
    """
    from limner.scores import Scores

    if how is None:
        if tune is not None:
            raise typer.BadParameter("--tune chooses the options of a correction: name one with --correct")
        return source
    if not isinstance(source, Scores):
        raise LimnerError(
            "--correct needs scores: give --images with --texts, --scores or --system; a run is only an order"
        )
    name, options = call(how, what="--correct")
    if tune is not None:
        options = _tuned(name, options, tune, dev)
    with progress(f"correcting with {name}"):
        return source.correct(name, trust=trust, **options)


def _tuned(name: str, fixed: dict[str, Any], split: str, dev: Dev) -> dict[str, Any]:
    from limner.evaluation.tuning import tune

    scores, collection = dev(split)
    with progress(f"tuning {name} on {collection.name}"):
        chosen: dict[str, Any] = tune(name, scores, collection, fixed=fixed)
    tell(f"{name} is best on {collection.name} with {', '.join(f'{k} = {v}' for k, v in chosen.items())}")
    return chosen
