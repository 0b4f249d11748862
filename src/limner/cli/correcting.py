"""Corrections on the command line: a name, a name with options, or a file of saved statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.console import progress, tell
from limner.cli.options import word
from limner.core.errors import LimnerError

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.scores import Scores

    Dev = Callable[[str], tuple[Scores, Collection]]

Correct = Annotated[
    str | None,
    word(
        "Correct hubs: 'limner list corrections', module:class, statistics FILE.npz. -O bank=FILES, -O tune=dev.",
        "--correct",
        metavar="HOW",
    ),
]


def corrected(
    source: object,
    correction: str | None,
    *,
    dev: Dev,
    bank: Sequence[Path] = (),
    keep: Sequence[Path] = (),
    trust: bool = False,
) -> object:
    """Applies the correction options.

    Args:
        source: The scores.
        correction: The value of --correct.
        dev: Returns the scores and the collection of a split.
        bank: The files of its query bank.
        keep: Files to write the statistics of the bank to.
        trust: Whether a file of statistics may name a correction that is not registered.
    """
    from limner.scores import Scores
    from limner.scores.correction import CORRECTIONS

    if correction is None:
        named = [name for name, value in (("-O bank", bank), ("-o FILE.npz", keep)) if value]
        raise typer.BadParameter(f"{', '.join(named)} without a correction: name one with --correct")
    if not isinstance(source, Scores):
        raise LimnerError(
            "--correct needs scores: give --images with --texts, --scores or --model; a run has no scores to correct"
        )
    name, options = CORRECTIONS.parsed(correction)
    if "tune" in options:
        options = _tuned(name, options, str(options.pop("tune")), dev)
    corrected_scores: Any = source.correct(name, bank=_bank(bank), trust=trust, **options)
    for file in keep:
        with progress(f"gathering statistics for {name}", "queries") as task:
            statistics = corrected_scores.gather(progress=task)
            statistics.save(
                file, reverse=corrected_scores.T.gather(progress=task.step("in the other direction", "queries"))
            )
    return corrected_scores


def _bank(files: Sequence[Path]) -> object:
    """A bank from files: two files of vectors (images, then texts), or one file with both or with saved statistics."""
    from limner.core.embeddings import Embeddings

    if not files:
        return None
    if len(files) > 2:
        raise typer.BadParameter(f"got {len(files)} files for -O bank: expected vectors of images and of texts")
    if len(files) == 2:
        return Embeddings.load(files[0]), Embeddings.load(files[1])
    if files[0].suffix.lower() != ".npz":
        raise typer.BadParameter(
            f"-O bank={files[0]} is one file of vectors: give two for both directions, -O "
            "bank=images.npy,texts.npy; or one .npz with arrays 'images' and 'texts', or with saved statistics"
        )
    from limner.core.paths import read_arrays

    arrays = read_arrays(files[0], what="a bank")
    return (arrays["images"], arrays["texts"]) if {"images", "texts"} <= set(arrays) else files[0]


def _tuned(name: str, fixed: dict[str, object], split: str, dev: Dev) -> dict[str, object]:
    from limner.evaluation.tuning import tune

    scores, collection = dev(split)
    with progress(f"tuning {name} on {collection.name}", "settings") as step:
        chosen: dict[str, object] = tune(name, scores, collection, fixed=fixed, progress=step)
    tell(f"{name} is best on {collection.name} with {', '.join(f'{k} = {v}' for k, v in chosen.items())}")
    return chosen
