"""limner mixed: does a joint space still find matches if images and texts are in one pool?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from limner.cli.commands.evaluate import COLLECTION
from limner.cli.console import answer, progress, tell_notes
from limner.cli.inputs import vectors_of
from limner.cli.options import Json, Loading, Split, Trust, load, out_word, part, refuse_ending, saved, word
from limner.cli.training import SYSTEM, encoded_sides, system_word


def mixed(
    collection: Annotated[str, typer.Argument(metavar="COLLECTION", help=COLLECTION)],
    system: Annotated[str | None, system_word(f"One space for images and texts: {SYSTEM}")] = None,
    images: Annotated[Path | None, word("Or embeddings of the images.", metavar="FILE")] = None,
    texts: Annotated[Path | None, word("Embeddings of the texts, of the same model.", metavar="FILE")] = None,
    split: Split = None,
    option: Loading = None,
    save: Annotated[list[Path] | None, out_word("Write it: .json .csv .md .tex .txt. Repeatable.")] = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Evaluate a pool of images and texts together, for queries of both modalities.

    R@k counts queries whose match of the other modality is among the first k: in a pool of that modality alone, in the
    mixed pool, and in the mixed pool after subtracting the mean of each modality. 'any R@k' also counts matches of the
    query's own modality, such as another caption of its image. 'other@10' is the share of the other modality among the
    first 10.

    Examples:
      $ limner mixed scenes --system 'clip(model=DIR)'
      $ limner mixed captions.csv --images images.npy --texts texts.npy --save mixed.csv
    """
    from limner.evaluation.mixed_pool import evaluate_mixed
    from limner.evaluation.tables import FORMATS

    if (images is None) != (texts is None) or (images is None) == (system is None):
        raise typer.BadParameter("give --system, or --images and --texts")
    refuse_ending(save, tuple(FORMATS), "table")
    whole = load(collection, option)
    if system is not None:
        sides, held, notes = encoded_sides(system, whole, split, trust=trust)
        tell_notes(notes)
    else:
        held = part(whole, split)
        sides = [vectors_of(str(file), items) for file, items in ((images, held.images), (texts, held.texts))]
    with progress(f"ranking {len(held.images) + len(held.texts):,} candidates", "queries") as told:
        made = evaluate_mixed(held, *sides, progress=told)
    saved([made.save(file) for file in save or []])
    answer(str(made), made.describe(), as_json=as_json)
