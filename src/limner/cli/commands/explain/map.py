"""limner explain map: a map of the embeddings of images and texts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from limner.cli.commands.evaluate import COLLECTION
from limner.cli.commands.explain.failures import opened_system
from limner.cli.console import answer, progress, tell
from limner.cli.inputs import SYSTEM, SystemOptions, system_word
from limner.cli.options import (
    Json,
    Loading,
    Split,
    Trust,
    command_options,
    load,
    out_word,
    refuse_ending,
    saved,
    switch,
    text_option,
    word,
)
from limner.cli.photo_folders import is_photo_folder, photo_model

Out = Annotated[list[Path] | None, out_word("Write the map: .html .json. Repeatable.")]


def map_embeddings(
    collection: Annotated[str, typer.Argument(metavar="COLLECTION", help=COLLECTION)],
    images: Annotated[Path | None, word("Embeddings of the images.", metavar="FILE")] = None,
    texts: Annotated[Path | None, word("Embeddings of the texts.", metavar="FILE")] = None,
    system: Annotated[str | None, system_word(f"Or a system: {SYSTEM}")] = None,
    method: Annotated[str, word("The projection: tsne or pca.")] = "tsne",
    limit: Annotated[int, word("Points at most; a random choice of more.", metavar="N", min=3)] = 5000,
    seed: Annotated[int, word("Seed of the choice and of the projection.", metavar="N", min=0)] = 0,
    out: Out = None,
    split: Split = None,
    option: Loading = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Draw images and texts as points in two dimensions, coloured by failure, hubness, split or field.

    A folder of images needs no captions, and no model has to be named for it.

    On the page you can zoom, select a region and list its items. Distances on a map are not distances in the embedding
    space; its trustworthiness shows how reliable neighbours are. 'limner serve' has the same map with thumbnails. -O
    failures=false does not look for failures to colour by.

    Examples:
      $ limner explain map scenes --model histograms -o map.html
      $ limner explain map photos/ -o map.html
      $ limner explain map captions.csv --images images.npy --texts texts.npy --method pca -o map.json
    """
    from limner.explain.embedding_map import ENDINGS, embedding_map, failure_classes
    from limner.search.photo_fields import with_photo_fields

    refuse_ending(out, ENDINGS, "map")
    settings, loader = command_options(option, "map")
    if system is None and images is None and is_photo_folder(collection):
        chosen_model = photo_model(None)
        tell(f"model: {chosen_model.line}")
        system = chosen_model.name
    full_collection = load(collection, loader)
    if not len(full_collection.texts):
        full_collection = replace(full_collection, images=with_photo_fields(full_collection.images))
    system_options = SystemOptions(
        images, texts, system=system, trust=trust, features=text_option(settings, "features")
    )
    source, chosen = opened_system(system_options, full_collection, split, None)
    scores: Any = source["i2t"]
    classes = None
    if switch(settings, "failures", default=True) and len(chosen.texts):
        with progress("looking for failures") as step:
            classes = failure_classes(scores, chosen, full_collection, progress=step)
    count = min(len(chosen.images) + len(chosen.texts), limit)
    with progress(f"projecting {count:,} vectors by {method}", "iterations") as step:
        projection = embedding_map(
            scores, chosen, classes=classes, method=method, limit=limit, seed=seed, progress=step
        )
    if out:
        saved([projection.save(file) for file in out])
    answer(str(projection), projection.head(), as_json=as_json)
