"""limner text-only: find an image by one caption among the other captions, without using the image."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.commands.encode import named_encoder
from limner.cli.commands.evaluate import COLLECTION, summary
from limner.cli.console import answer, progress
from limner.cli.inputs import known_encoder
from limner.cli.options import (
    Json,
    Loading,
    Split,
    Trust,
    cache_word,
    load,
    loading,
    out_word,
    part,
    refuse_report_ending,
    saved,
    word,
)

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.evaluation.reports.report import Report


def text_only(
    collection: Annotated[str, typer.Argument(metavar="COLLECTION", help=COLLECTION)],
    encoder: Annotated[str, word("An encoder of texts, a saved model, or module:thing.", callback=known_encoder)],
    encoder_option: Annotated[
        list[str] | None,
        word("Option of the encoder: -E model=DIR. Repeatable.", "--encoder-option", "-E", metavar="NAME=VALUE"),
    ] = None,
    query: Annotated[
        str,
        word("Which caption of each image is the query, from 0; or 'each' for all, one after the other.", metavar="N"),
    ] = "0",
    corpus: Annotated[
        str, word("Representation of an image: mean (of vectors), joined (captions) or summary.", metavar="HOW")
    ] = "mean",
    summariser: Annotated[
        str | None, word("With summary: extractive, transformers, or module:thing.", show_default="extractive")
    ] = None,
    summariser_option: Annotated[
        list[str] | None, word("Option of the summariser, such as model=t5-small. Repeatable.", metavar="NAME=VALUE")
    ] = None,
    regions: Annotated[
        Path | None, word("Region descriptions instead of captions: Visual Genome's json.", metavar="FILE")
    ] = None,
    image_data: Annotated[
        Path | None, word("Visual Genome's image_data.json, to identify images by COCO id.", metavar="FILE")
    ] = None,
    measures: Annotated[str | None, word("Such as 'R@1 MRR@10 MedR'.", metavar="LIST")] = None,
    cache: Annotated[Path | None, cache_word("Cache folder for vectors.")] = None,
    split: Split = None,
    option: Loading = None,
    save: Annotated[list[Path] | None, out_word("Write the report: .json .csv .md .tex .html. Repeatable.")] = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Find an image by one of its captions among the other captions of all images.

    The choice of the query caption matters if captions are not in random order: in Flickr30k they are sorted by length.

    Examples:
      $ limner text-only flickr8k:DIR --encoder minilm --corpus joined
      $ limner text-only flickr30k:DIR --encoder minilm --query each --cache vectors/
      $ limner text-only flickr8k:DIR --encoder minilm --corpus summary --summariser extractive
      $ limner text-only coco:DIR --encoder minilm --regions region_descriptions.json --image-data image_data.json
      $ limner text-only scenes --encoder word-vectors -E file=glove.txt --query 4
    """
    refuse_report_ending(save)
    chosen = part(load(collection, option), split)
    numbers = _numbers(query, chosen)
    if save and len(numbers) > 1:
        raise typer.BadParameter("--save writes a single report: choose the query caption with --query N")
    work = _encoder(encoder, loading(encoder_option), cache, trust=trust)
    how = {
        "corpus": corpus,
        "summarise": _summariser(corpus, summariser, loading(summariser_option), trust=trust),
        "regions": _regions(regions, image_data),
    }
    reports = [_measured(chosen, work, number, measures, encoder, how) for number in numbers]
    for file in save or []:
        reports[0].save(file)
    saved(save or [])
    answer("\n\n".join(map(str, reports)), _data(reports, numbers), as_json=as_json)


def _numbers(query: str, collection: Collection) -> list[int]:
    """The indices of the query captions."""
    if query == "each":
        return list(range(int(min(collection.judgements.relevant.counts, default=0))))
    if not query.isdigit():
        raise typer.BadParameter(f"--query {query}: expected the number of a caption, from 0, or 'each'")
    return [int(query)]


def _encoder(name: str, options: dict[str, object], cache: Path | None, *, trust: bool) -> object:
    from limner.encoders.cache import Cached

    made = named_encoder(name, options, trust=trust)
    return made if cache is None else Cached(made, cache)


def _summariser(corpus: str, name: str | None, options: dict[str, object], *, trust: bool) -> object:
    """The summariser for the corpus "summary"; refused for any other corpus, where it has no effect."""
    from limner.papers.corpora import summariser

    if corpus != "summary":
        if name is not None or options:
            raise typer.BadParameter(
                f"--summariser is for --corpus summary, and this is --corpus {corpus}: leave it out"
            )
        return None
    with progress("loading the summariser"):
        return summariser(name or "extractive", trusted=trust, **options)


def _regions(file: Path | None, image_data: Path | None) -> dict[str, list[str]] | None:
    from limner.papers.corpora import read_regions

    if file is None and image_data is not None:
        raise typer.BadParameter("--image-data is for --regions FILE: give both or neither")
    return None if file is None else read_regions(file, image_data=image_data)


def _measured(
    collection: Collection, work: Any, number: int, measures: str | None, encoder: str, how: dict[str, Any]
) -> Report:
    import limner
    from limner.encoders import encoded
    from limner.papers.text_only import MEASURES, length_note
    from limner.papers.text_only import text_only as scored

    with progress(f"encoding, caption {number} is the query", "texts") as told:
        scores, right = scored(
            collection, lambda texts: encoded(work, texts, progress=told).matrix, query=number, **how
        )
    regions = " of region descriptions" if how["regions"] is not None else ""
    name = f"{encoder}, caption {number} is the query, {how['corpus']} corpus{regions}"
    with progress("evaluating") as told:
        report = limner.evaluate(scores, right, measures=measures or MEASURES, name=name, progress=told)
    return replace(report, collection=collection.name, notes=(*report.notes, *length_note(collection, number)))


def _data(reports: list[Report], numbers: list[int]) -> dict[str, object]:
    told = [{"query": number, **summary(report)} for number, report in zip(numbers, reports, strict=True)]
    return told[0] if len(told) == 1 else {"captions": told}


COMMANDS = {"text-only": text_only}
