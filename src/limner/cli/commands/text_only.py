"""limner text-only: find an image by one caption among the other captions, without using the image."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.commands.encode import named_encoder, pace
from limner.cli.commands.evaluate import COLLECTION, ENDINGS, summary
from limner.cli.console import answer, progress
from limner.cli.options import Json, Loading, Split, Trust, load, loading, part, refuse_ending, saved, word

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.evaluation.report import Report


def text_only(
    collection: Annotated[str, typer.Argument(metavar="COLLECTION", help=COLLECTION)],
    encoder: Annotated[str, word("An encoder of texts, a saved model, or module:thing.")],
    encoder_option: Annotated[
        list[str] | None,
        word("Option of the encoder: -E model=DIR. Repeatable.", "--encoder-option", "-E", metavar="NAME=VALUE"),
    ] = None,
    query: Annotated[
        str, word("Caption of each image to use as the query, from 0; or 'each' for all in turn.", metavar="N")
    ] = "0",
    corpus: Annotated[
        str, word("Representation of an image: mean (of vectors) or joined (captions).", metavar="HOW")
    ] = "mean",
    measures: Annotated[str | None, word("Such as 'R@1 MRR@10 MedR'.", metavar="LIST")] = None,
    cache: Annotated[Path | None, word("Cache folder for vectors.", metavar="DIR", show_default="none")] = None,
    split: Split = None,
    option: Loading = None,
    save: Annotated[
        list[Path] | None, word("Write the report: .json .csv .md .tex .html. Repeatable.", metavar="FILE")
    ] = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Find an image by one of its captions among the other captions of all images.

    The choice of the query caption matters if captions are not in random order: in Flickr30k they are sorted by length.

    Examples:
      $ limner text-only flickr8k:DIR --encoder minilm --corpus joined
      $ limner text-only flickr30k:DIR --encoder minilm --query each --cache vectors/
      $ limner text-only scenes --encoder word-vectors -E file=glove.txt --query 4
    """
    refuse_ending(save, ENDINGS, "report")
    chosen = part(load(collection, option), split)
    numbers = _numbers(query, chosen)
    if save and len(numbers) > 1:
        raise typer.BadParameter("--save is for one report: choose the query caption with --query N")
    work = _encoder(encoder, loading(encoder_option), cache, trust=trust)
    reports = [_measured(chosen, work, number, corpus, measures, encoder) for number in numbers]
    for file in save or []:
        reports[0].save(file)
    saved(save or [])
    answer("\n\n".join(map(str, reports)), _data(reports, numbers), as_json=as_json)


def _numbers(query: str, collection: Collection) -> list[int]:
    """The query captions, by number."""
    if query == "each":
        return list(range(int(min(collection.judgements.relevant.counts, default=0))))
    if not query.isdigit():
        raise typer.BadParameter(f"--query {query}: expected the number of a caption, from 0, or 'each'")
    return [int(query)]


def _encoder(name: str, options: dict[str, Any], cache: Path | None, *, trust: bool) -> Any:
    from limner.encoders.cache import Cached

    made = named_encoder(name, options, trust=trust)
    return made if cache is None else Cached(made, cache)


def _measured(
    collection: Collection, work: Any, number: int, corpus: str, measures: str | None, encoder: str
) -> Report:
    import limner
    from limner.encoders import encoded
    from limner.explain.textonly import MEASURES, length_note
    from limner.explain.textonly import text_only as scored

    with pace(f"encoding, caption {number} asks", "texts") as told:
        scores, right = scored(
            collection, lambda texts: encoded(work, texts, progress=told).matrix, query=number, corpus=corpus
        )
    name = f"{encoder}, caption {number} asks, {corpus} corpus"
    with progress("evaluating"):
        report = limner.evaluate(scores, right, measures=measures or MEASURES, name=name)
    return replace(report, collection=collection.name, notes=(*report.notes, *length_note(collection, number)))


def _data(reports: list[Report], numbers: list[int]) -> dict[str, Any]:
    told = [{"query": number, **summary(report)} for number, report in zip(numbers, reports, strict=True)]
    return told[0] if len(told) == 1 else {"captions": told}


COMMANDS = {"text-only": text_only}
