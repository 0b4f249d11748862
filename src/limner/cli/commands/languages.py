"""limner languages: evaluates a system on every language of a collection, in one table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from limner.cli.commands.evaluate import COLLECTION
from limner.cli.console import answer, progress, warn
from limner.cli.inputs import Way, opened, unnamed
from limner.cli.options import Json, Loading, Split, Trust, load, out_word, part, refuse_ending, saved, word
from limner.cli.training import SYSTEM, encoded_by, system_word, trained


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
      $ limner languages crossmodal-3600:DIR --encoder 'clip(model=DIR)' --measures "R@1 R@10" --save table.csv
      $ limner languages multi30k:DIR --images I.npy --texts T.npy --split test
    """
    from limner.evaluation.diagnostics.languages import MEASURES, evaluate_languages
    from limner.evaluation.tables import FORMATS

    refuse_ending(save, tuple(FORMATS), "table")
    way = Way(images, texts, None, None, scores, (), system, trust, encoder=encoder)
    found, truth, notes = _opened(way, collection, option, split)
    warn(notes)
    label = name or str(way.encoder or way.system or Path(str(way.scores or way.images)).stem)
    with progress(f"evaluating {label} by {field}", "queries") as told:
        made = evaluate_languages(found, truth, measures=measures or MEASURES, name=label, field=field, progress=told)
    saved([made.save(file) for file in save or []])
    answer(str(made), made.describe(), as_json=as_json)


def _opened(way: Way, collection: str, option: list[str] | None, split: str | None) -> tuple[Any, Any, list[str]]:
    """The scores, the evaluated part, and notes."""
    kind, whole = way.kind, load(collection, option)
    if kind == "encoder":
        return encoded_by(str(way.encoder), whole, split, trust=way.trust)
    if kind == "system":
        return trained(str(way.system), whole, split, trust=way.trust)
    chosen = part(whole, split)
    return opened(way, whole, chosen), chosen, unnamed(way)
