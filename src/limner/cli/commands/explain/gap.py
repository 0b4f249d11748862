"""limner explain gap: how far images and texts are apart in one space, and whether one pool of both still works."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.commands.evaluate import COLLECTION
from limner.cli.console import answer, progress, tell_notes
from limner.cli.inputs import SYSTEM, encoded_sides, system_word
from limner.cli.options import Json, Loading, Split, Trust, load, out_word, part, refuse_ending, saved, word
from limner.core.embeddings import Embeddings

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.evaluation.diagnostics.mixed_pool import MixedPoolReport


def gap(
    collection: Annotated[str | None, typer.Argument(metavar="COLLECTION", help=COLLECTION)] = None,
    system: Annotated[str | None, system_word(f"One space for images and texts: {SYSTEM}")] = None,
    images: Annotated[Path | None, word("Or embeddings of images.", metavar="FILE")] = None,
    texts: Annotated[Path | None, word("Embeddings of texts, of the same model.", metavar="FILE")] = None,
    split: Split = None,
    option: Loading = None,
    save: Annotated[
        list[Path] | None, out_word("Write the table of the pool: .json .csv .md .tex .txt. Repeatable.")
    ] = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Measure the gap between images and texts in one space; with a COLLECTION, also search in one pool of both.

    The distance is that of the centroids of unit vectors, from 0 to 2 (Liang et al. 2022). Separability is the balanced
    accuracy of a linear classifier of images and texts on held-out vectors: 0.5 is chance, 1 means linearly separable.
    The correction 'centred' of 'limner evaluate --correct' removes the distance.

    In the pool, R@k counts queries whose match of the other modality is among the first k: in a pool of that modality
    alone, in the mixed pool, and in the mixed pool after subtracting the mean of each modality. 'any R@k' also counts
    matches of the query's own modality. 'other@10' is the share of the other modality among the first 10.

    Examples:
      $ limner explain gap scenes --model 'clip(model=DIR)'
      $ limner explain gap --images images.npy --texts texts.npy
      $ limner explain gap captions.csv --images images.npy --texts texts.npy -o pool.csv
    """
    from limner.evaluation.diagnostics.modality_gap import modality_gap
    from limner.evaluation.tables import FORMATS

    if (images is None) != (texts is None) or (images is None) == (system is None):
        raise typer.BadParameter("give --images and --texts, or a COLLECTION and --model")
    if collection is None and (system or save or option or split):
        raise typer.BadParameter("--model, --split, --option and -o are for a COLLECTION: give one")
    refuse_ending(save, tuple(FORMATS), "table")
    if collection is None:
        sides, pool = [Embeddings.load(str(file)) for file in (images, texts)], None
    else:
        sides, pool = _pool(load(collection, option), system, (images, texts), split, trust=trust)
    distance = modality_gap(*sides)
    text = (
        f"{distance.images:,} images and {distance.texts:,} texts\n"
        f"distance of the centres  {distance.distance:.3f}  (0 to 2)\n"
        f"separability             {distance.separability:.3f}  (0.5 is chance)"
    )
    if pool is None:
        return answer(text, vars(distance), as_json=as_json)
    saved([pool.save(file) for file in save or []])
    return answer([text, pool], {**vars(distance), "pool": pool.describe()}, as_json=as_json)


def _pool(
    full_collection: Collection,
    system: str | None,
    files: tuple[Path | None, Path | None],
    split: str | None,
    *,
    trust: bool,
) -> tuple[Any, MixedPoolReport]:
    """The vectors of images and texts, and the results of searching in one pool of both."""
    from limner.evaluation.diagnostics.mixed_pool import evaluate_mixed

    sides: list[Any]
    if system is not None:
        sides, chosen, notes = encoded_sides(system, full_collection, split, trust=trust)
        tell_notes(notes)
    else:
        from limner.systems.system_files import embeddings_of

        chosen = part(full_collection, split)
        sides = [
            embeddings_of(str(file), items) for file, items in zip(files, (chosen.images, chosen.texts), strict=True)
        ]
    with progress(f"ranking {len(chosen.images) + len(chosen.texts):,} candidates", "queries") as step:
        return sides, evaluate_mixed(chosen, *sides, progress=step)
