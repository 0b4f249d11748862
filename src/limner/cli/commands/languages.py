"""limner languages: evaluates a system on every language of a collection, in one table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from limner.cli.commands.evaluate import COLLECTION
from limner.cli.console import answer, progress, warn
from limner.cli.inputs import SYSTEM, SystemOptions, system_word
from limner.cli.options import Json, Loading, Split, Trust, load, out_word, refuse_ending, saved, word


def languages(
    collection: Annotated[str, typer.Argument(metavar="COLLECTION", help=COLLECTION)],
    system: Annotated[str | None, system_word(f"The system: {SYSTEM}")] = None,
    encoder: Annotated[str | None, system_word("Or an encoder, 'clip(model=DIR)', whose vectors are kept.")] = None,
    images: Annotated[Path | None, word("Or embeddings of the images.", metavar="FILE")] = None,
    texts: Annotated[Path | None, word("Embeddings of the texts of all languages.", metavar="FILE")] = None,
    scores: Annotated[Path | None, word("Or a matrix of scores, images by texts: npy.", metavar="FILE")] = None,
    measures: Annotated[str | None, word("Such as 'R@1 R@10 MRR'.", metavar="LIST")] = None,
    field: Annotated[str, word("The field of the texts that names their language.", metavar="FIELD")] = "language",
    split: Split = None,
    option: Loading = None,
    name: Annotated[str | None, word("Name of the system in the table.")] = None,
    save: Annotated[list[Path] | None, out_word("Write it: .json .csv .md .tex .txt. Repeatable.")] = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Evaluate a system on every language of a collection: languages by measures, with intervals and the macro mean.

    For each language the texts are those of that language alone; the images are the same for all. The macro mean gives
    every language the same weight, and its interval treats an image with its captions in all languages as one cluster.

    Examples:
      $ limner languages xtd10:DIR -O images=val2014 --encoder 'clip(model=DIR)'
      $ limner languages crossmodal-3600:DIR --encoder 'clip(model=DIR)' --measures "R@1 R@10" -o table.csv
      $ limner languages multi30k:DIR --images I.npy --texts T.npy --split test
    """
    from limner.evaluation.diagnostics.languages import MEASURES, evaluate_languages
    from limner.evaluation.tables import FORMATS

    refuse_ending(save, tuple(FORMATS), "table")
    system_options = SystemOptions(images, texts, None, None, scores, (), system, trust, encoder=encoder)
    opened = system_options.open(load(collection, option), split)
    warn(opened.notes)
    label = name or system_options.label
    with progress(f"evaluating {label} by {field}", "queries") as told:
        made = evaluate_languages(
            opened.scores, opened.collection, measures=measures or MEASURES, name=label, field=field, progress=told
        )
    saved([made.save(file) for file in save or []])
    answer(str(made), made.describe(), as_json=as_json)
