"""The tasks of limner evaluate: one caption finds an image by the others, composed queries, languages one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from limner.cli.attached_options import TASK_OPTIONS, task_of
from limner.cli.commands.encode import named_encoder
from limner.cli.commands.evaluate.one_system import summary
from limner.cli.console import progress, warn
from limner.cli.inputs import SystemOptions, encoded_by_model, known_encoder, training_parts
from limner.cli.options import by_ending, number, own_options, saved
from limner.core.display_names import display_name
from limner.core.options import OptionValues

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.core.embeddings import Embeddings
    from limner.datasets.composed_queries import ComposedQueries
    from limner.evaluation.diagnostics.breakdown import LanguageReport
    from limner.evaluation.diagnostics.composed import ComposedReport
    from limner.evaluation.reports.report import Report
    from limner.scores import Scores
    from limner.systems.system_spec import OpenSystem

RUN = ".run"
DEPTH = 1000
"""Candidates of each query in a run, as is usual in TREC."""


def text_only(
    collection: Collection,
    encoder: str,
    options: OptionValues,
    *,
    measures: str | None,
    cache: Path | None,
    files: list[Path],
    trust: bool,
) -> tuple[list[Report], dict[str, object]]:
    """The results of an encoder of texts, and the same as plain values."""
    from limner.encoders.cache import Cached

    model: Any = named_encoder(known_encoder(encoder), {}, trust=trust)
    query = str(options.get("query", 0))
    numbers = _numbers(query, collection)
    if files and len(numbers) > 1:
        raise typer.BadParameter("-o writes a single report or run: choose the query caption with -O query=N")
    corpus_options = _corpus_options(options, trust=trust)
    work = model if cache is None else Cached(model, cache)
    results = [_measured(collection, work, number, measures, encoder, corpus_options) for number in numbers]
    reports = [report for report, _ in results]
    runs, pages = by_ending(files, RUN)
    for file in pages:
        reports[0].save(file)
    for file in runs:
        _save_run(results[0][1], file, tag=encoder)
    saved(files)
    return reports, _data(reports, numbers)


def _save_run(scores: Scores, file: Path, *, tag: str) -> None:
    with progress(f"writing {file}", "queries") as step:
        scores.top(min(DEPTH, len(scores.candidates)), progress=step).save(file, tag=tag)


def text_only_options(collection: str, words: list[str] | None) -> tuple[str, OptionValues | None, list[str]]:
    """What is loaded, the options of text-only retrieval or None for another task, and the options of the loader."""
    task, spec = task_of(collection)
    if task != "text-only":
        return collection, None, list(words or [])
    return spec, *own_options(words, TASK_OPTIONS[task])


def open_text_only(collection: Collection, system: SystemOptions, options: OptionValues) -> OpenSystem:
    """Text-only retrieval as a system: the captions that are queries, against the other captions of all images."""
    from limner.encoders import encoded
    from limner.encoders.cache import remembering
    from limner.papers.text_only import queries_of
    from limner.papers.text_only import text_only as scored
    from limner.systems.system_spec import OpenSystem

    encoder = system.system
    if encoder is None or system.images or system.texts or system.scores or system.runs:
        raise typer.BadParameter("text-only needs an encoder of texts: give --model")
    numbers = _numbers(str(options.get("query", 0)), collection)
    if len(numbers) > 1:
        raise typer.BadParameter("-O query=each: expected the number of one caption, from 0")
    model: Any = remembering(named_encoder(known_encoder(encoder), {}, trust=system.trust))
    with progress(f"encoding, caption {numbers[0]} is the query", "texts") as step:
        scores, _ = scored(
            collection,
            lambda texts: encoded(model, texts, progress=step).matrix,
            query=numbers[0],
            **_corpus_options(options, trust=system.trust),
        )
    return OpenSystem(encoder, scores.T, queries_of(collection, scores), model)


def _corpus_options(options: OptionValues, *, trust: bool) -> OptionValues:
    corpus = str(options.get("corpus", "mean"))
    return {
        "corpus": corpus,
        "summarise": _summariser(corpus, options.get("summariser"), trust=trust),
        "regions": _regions(options.get("regions"), options.get("image_data")),
    }


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
    collection: Collection, work: Any, number: int, measures: str | None, encoder: str, corpus_options: OptionValues
) -> tuple[Report, Scores]:
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
    return replace(report, collection=collection.name, notes=(*report.notes, *length_note(collection, number))), scores


def _data(reports: list[Report], numbers: list[int]) -> dict[str, object]:
    records = [{"query": number, **summary(report)} for number, report in zip(numbers, reports, strict=True)]
    return records[0] if len(records) == 1 else {"captions": records}


def composed(
    system: SystemOptions, source: str, options: OptionValues, *, measures: str | None, name: str | None
) -> ComposedReport:
    """Composed queries of a file in the form of CIRR, CIRCO or FashionIQ, of JSON lines, or of scenes.

    With embeddings of images and words, three simple compositions are compared: the image alone, the words alone, and
    the sum of both. The reference image is left out of the pool of its query.
    """
    from limner.evaluation.diagnostics.composed import MEASURES, evaluate_composed

    queries = _queries(source, options)
    warn(queries.warnings)
    source_of_scores = _system(queries, system, source, options.get("train_on"))
    with progress(f"ranking {len(queries.images):,} images for {len(queries.queries):,} queries", "queries") as step:
        return evaluate_composed(
            queries,
            source_of_scores,
            name=name or "system",
            measures=MEASURES if measures is None else measures,
            weight=number(options, "weight", 0.5),
            progress=step,
        )


def _queries(source: str, options: OptionValues) -> ComposedQueries:
    from limner.datasets.composed_queries import read_composed
    from limner.datasets.scenes.scene_probes import scenes_composed

    if source == "scenes" and not Path(source).exists():
        if "images" in options or "pool" in options:
            raise typer.BadParameter("-O images and -O pool with scenes: its images are generated; leave them out")
        return scenes_composed(number(options, "queries", 120), seed=number(options, "seed", 0))
    if "queries" in options or "seed" in options:
        raise typer.BadParameter("-O queries and -O seed are for scenes: a file has the queries that it has")
    folder, pool = options.get("images"), options.get("pool")
    return read_composed(
        source, images=None if folder is None else Path(str(folder)), pool=None if pool is None else Path(str(pool))
    )


def _system(queries: ComposedQueries, system: SystemOptions, source: str, train_on: str | None) -> Any:
    kind = system.kind
    if train_on is not None and kind != "system":
        raise typer.BadParameter("-O train_on is for a --model that is trained now")
    if kind == "matrix":
        from limner.scores import Scores

        return Scores.load(Path(str(system.scores)), queries.texts.ids, queries.images.ids)
    if kind == "embeddings":
        from limner.systems.system_files import embeddings_of

        sides = ((system.images, queries.images), (system.texts, queries.texts))
        return tuple(embeddings_of(str(file), items) for file, items in sides)
    if kind == "runs":
        raise typer.BadParameter("--run with composed queries: give --model, --images with --texts, or --scores")
    if all(value is None for value in queries.images.values):
        raise typer.BadParameter("--model reads the images themselves: give -O images=DIR")
    return _encoded(queries, source, str(system.system), train_on, trust=system.trust)


def _encoded(
    queries: ComposedQueries, source: str, system: str, train_on: str | None, *, trust: bool
) -> tuple[Embeddings, ...]:
    """Vectors of the pool and of the words, by a model, an encoder or a system that is trained now."""
    from limner.core.collection import Collection
    from limner.core.judgements import Judgements
    from limner.systems.opening import find_system

    spec = find_system(system, trust=trust)
    none = Judgements.from_pairs([], queries=queries.images.ids, candidates=queries.texts.ids)
    pool = Collection(queries.name, queries.images, queries.texts, none)
    model = spec.trained(training_parts(spec, source, train_on, pool), stage=progress)
    return tuple(encoded_by_model(system, model, (queries.images, queries.texts)))


def languages(
    system: SystemOptions,
    collection: Collection,
    options: OptionValues,
    *,
    split: str | None,
    measures: str | None,
    name: str | None,
) -> LanguageReport:
    """A system on every language: languages by measures, with intervals and the macro mean.

    For each language the texts are those of that language alone; the images are the same for all.
    """
    from limner.evaluation.diagnostics.breakdown import MEASURES, evaluate_languages

    opened = system.open(collection, split)
    warn(opened.notes)
    label, field = name or display_name(system.label), str(options.get("field", "language"))
    with progress(f"evaluating {label} by {field}", "queries") as step:
        return evaluate_languages(
            opened.scores, opened.collection, measures=measures or MEASURES, name=label, field=field, progress=step
        )
