"""limner gap: how far apart are the image and text embeddings of a joint space?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from limner.cli.commands.evaluate import COLLECTION
from limner.cli.console import answer, tell_notes
from limner.cli.options import Json, Loading, Split, Trust, load, word
from limner.cli.training import SYSTEM, encoded_sides, system_word
from limner.core.embeddings import Embeddings


def gap(
    collection: Annotated[str | None, typer.Argument(metavar="COLLECTION", help=COLLECTION)] = None,
    system: Annotated[str | None, system_word(f"One space for images and texts: {SYSTEM}")] = None,
    images: Annotated[Path | None, word("Or embeddings of images.", metavar="FILE")] = None,
    texts: Annotated[Path | None, word("Embeddings of texts, of the same model.", metavar="FILE")] = None,
    split: Split = None,
    option: Loading = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Measure the modality gap: the distance between the centroids of images and texts, and their linear separability.

    The distance is that of unit vectors, from 0 to 2 (Liang et al. 2022). Separability is the balanced accuracy of a
    linear classifier of images and texts on held-out vectors: 0.5 is chance, 1 means linearly separable. The correction
    'centred' of 'limner evaluate --correct' removes the distance.

    Examples:
      $ limner gap scenes --system 'clip(model=DIR)'
      $ limner gap --images images.npy --texts texts.npy
    """
    from limner.evaluation.gap import modality_gap

    if (images is None) != (texts is None) or (images is None) == (system is None):
        raise typer.BadParameter("give --images and --texts, or a COLLECTION and --system")
    if (collection is None) != (system is None):
        raise typer.BadParameter("--system encodes a COLLECTION, and embeddings need none: give both or neither")
    if system is not None:
        sides, _, notes = encoded_sides(system, load(str(collection), option), split, trust=trust)
        tell_notes(notes)
    else:
        sides = [Embeddings.load(str(file)) for file in (images, texts)]
    found = modality_gap(*sides)
    text = (
        f"{found.images:,} images and {found.texts:,} texts\n"
        f"distance of the centres  {found.distance:.3f}  (0 to 2)\n"
        f"separability             {found.separability:.3f}  (0.5 is chance)"
    )
    answer(text, vars(found), as_json=as_json)
