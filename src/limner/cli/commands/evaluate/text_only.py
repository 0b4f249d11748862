"""An image found by one of its captions among the other captions of all images, without using the image."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from limner.cli.commands.encode import named_encoder
from limner.cli.commands.evaluate.one_system import summary
from limner.cli.console import progress
from limner.cli.inputs import known_encoder
from limner.cli.options import saved

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.evaluation.reports.report import Report


def text_only(
    collection: Collection,
    encoder: str,
    options: dict[str, Any],
    *,
    measures: str | None,
    cache: Path | None,
    files: list[Path],
    trust: bool,
) -> tuple[list[Report], dict[str, object]]:
    """The results of an encoder of texts, and the same as plain values."""
    from limner.encoders.cache import Cached

    model: Any = named_encoder(known_encoder(encoder), {}, trust=trust)
    query, corpus = str(options.get("query", 0)), str(options.get("corpus", "mean"))
    numbers = _numbers(query, collection)
    if files and len(numbers) > 1:
        raise typer.BadParameter("-o writes a single report: choose the query caption with -O query=N")
    corpus_options = {
        "corpus": corpus,
        "summarise": _summariser(corpus, options.get("summariser"), trust=trust),
        "regions": _regions(options.get("regions"), options.get("image_data")),
    }
    work = model if cache is None else Cached(model, cache)
    reports = [_measured(collection, work, number, measures, encoder, corpus_options) for number in numbers]
    for file in files:
        reports[0].save(file)
    saved(files)
    return reports, _data(reports, numbers)


def _numbers(query: str, collection: Collection) -> list[int]:
    """The indices of the query captions."""
    if query == "each":
        return list(range(int(min(collection.judgements.relevant.counts, default=0))))
    if not query.isdigit():
        raise typer.BadParameter(f"-O query={query}: expected the number of a caption, from 0, or 'each'")
    return [int(query)]


def _summariser(corpus: str, name: str | None, *, trust: bool) -> object:
    """The summariser for the corpus "summary"; refused for any other corpus, where it has no effect."""
    from limner.core.options import parsed_call
    from limner.papers.corpora import summariser

    if corpus != "summary":
        if name is not None:
            raise typer.BadParameter(f"-O summariser is for corpus=summary, and this is corpus={corpus}: leave it out")
        return None
    chosen, options = parsed_call(name or "extractive", what="summariser")
    with progress("loading the summariser"):
        return summariser(chosen, trusted=trust, **options)


def _regions(file: str | None, image_data: str | None) -> dict[str, list[str]] | None:
    from limner.papers.corpora import read_regions

    if file is None and image_data is not None:
        raise typer.BadParameter("-O image_data=FILE is for -O regions=FILE: give both or neither")
    return (
        None if file is None else read_regions(Path(file), image_data=None if image_data is None else Path(image_data))
    )


def _measured(
    collection: Collection, work: Any, number: int, measures: str | None, encoder: str, corpus_options: dict[str, Any]
) -> Report:
    import limner
    from limner.encoders import encoded
    from limner.papers.text_only import MEASURES, length_note
    from limner.papers.text_only import text_only as scored

    with progress(f"encoding, caption {number} is the query", "texts") as step:
        scores, right = scored(
            collection, lambda texts: encoded(work, texts, progress=step).matrix, query=number, **corpus_options
        )
    regions = " of region descriptions" if corpus_options["regions"] is not None else ""
    name = f"{encoder}, caption {number} is the query, {corpus_options['corpus']} corpus{regions}"
    with progress("evaluating") as step:
        report = limner.evaluate(scores, right, measures=measures or MEASURES, name=name, progress=step)
    return replace(report, collection=collection.name, notes=(*report.notes, *length_note(collection, number)))


def _data(reports: list[Report], numbers: list[int]) -> dict[str, object]:
    records = [{"query": number, **summary(report)} for number, report in zip(numbers, reports, strict=True)]
    return records[0] if len(records) == 1 else {"captions": records}
