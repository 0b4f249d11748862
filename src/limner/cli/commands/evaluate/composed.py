"""Queries that consist of a reference image and a text that describes what should be different."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from limner.cli.console import progress, warn
from limner.cli.inputs import encoded_by_model, training_parts
from limner.cli.options import number

if TYPE_CHECKING:
    from limner.cli.inputs import SystemOptions
    from limner.datasets.composed_queries import ComposedQueries


def composed(
    system: SystemOptions, source: str, options: dict[str, Any], *, measures: str | None, name: str | None
) -> Any:
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


def _queries(source: str, options: dict[str, Any]) -> ComposedQueries:
    from limner.datasets.composed_queries import read_composed
    from limner.datasets.scenes.scene_changes import scenes_composed

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


def _encoded(queries: ComposedQueries, source: str, system: str, train_on: str | None, *, trust: bool) -> Any:
    """Vectors of the pool and of the words, by a model, an encoder or a system that is trained now."""
    from limner.core.collection import Collection
    from limner.core.judgements import Judgements
    from limner.systems.opening import find_system

    spec = find_system(system, trust=trust)
    none = Judgements.from_pairs([], queries=queries.images.ids, candidates=queries.texts.ids)
    pool = Collection(queries.name, queries.images, queries.texts, none)
    model = spec.trained(training_parts(spec, source, train_on, pool), stage=progress)
    return tuple(encoded_by_model(system, model, (queries.images, queries.texts)))
