"""limner explain map, gap and uncertainty: the space of a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.commands.evaluate import COLLECTION
from limner.cli.commands.explain.failures import opened_system
from limner.cli.console import answer, progress, tell, tell_notes
from limner.cli.inputs import SYSTEM, SystemOptions, encoded_sides, system_word
from limner.cli.options import (
    Json,
    Loading,
    Split,
    Trust,
    command_options,
    load,
    out_word,
    part,
    refuse_ending,
    saved,
    switch,
    text_option,
    whole_numbers,
    word,
)
from limner.cli.photo_folders import is_photo_folder, photo_model
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownName
from limner.core.progress import progress_for

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.evaluation.diagnostics.modality_gap import MixedPoolReport


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


def gap(
    collection: Annotated[str | None, typer.Argument(metavar="COLLECTION", help=COLLECTION)] = None,
    system: Annotated[str | None, system_word(f"One space for images and texts: {SYSTEM}")] = None,
    images: Annotated[Path | None, word("Or embeddings of images.", metavar="FILE")] = None,
    texts: Annotated[Path | None, word("Embeddings of texts, of the same model.", metavar="FILE")] = None,
    split: Split = None,
    option: Loading = None,
    save: Annotated[
        list[Path] | None, out_word("Write the table of the pool: .json .csv .md .tex .txt. Repeatable.")
    ] = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Measure the gap between images and texts in one space; with a COLLECTION, also search in one pool of both.

    The distance is that of the centroids of unit vectors, from 0 to 2 (Liang et al. 2022). Separability is the balanced
    accuracy of a linear classifier of images and texts on held-out vectors: 0.5 is chance, 1 means linearly separable.
    The correction 'centred' of 'limner evaluate --correct' removes the distance.

    In the pool, R@k counts queries whose match of the other modality is among the first k: in a pool of that modality
    alone, in the mixed pool, and in the mixed pool after subtracting the mean of each modality. 'any R@k' also counts
    matches of the query's own modality. 'other@10' is the share of the other modality among the first 10.

    Examples:
      $ limner explain gap scenes --model 'clip(model=DIR)'
      $ limner explain gap --images images.npy --texts texts.npy
      $ limner explain gap captions.csv --images images.npy --texts texts.npy -o pool.csv
    """
    from limner.evaluation.diagnostics.modality_gap import modality_gap
    from limner.evaluation.tables import FORMATS

    if (images is None) != (texts is None) or (images is None) == (system is None):
        raise typer.BadParameter("give --images and --texts, or a COLLECTION and --model")
    if collection is None and (system or save or option or split):
        raise typer.BadParameter("--model, --split, --option and -o are for a COLLECTION: give one")
    refuse_ending(save, tuple(FORMATS), "table")
    if collection is None:
        sides, pool = [Embeddings.load(str(file)) for file in (images, texts)], None
    else:
        sides, pool = _pool(load(collection, option), system, (images, texts), split, trust=trust)
    distance = modality_gap(*sides)
    text = (
        f"{distance.images:,} images and {distance.texts:,} texts\n"
        f"distance of the centres  {distance.distance:.3f}  (0 to 2)\n"
        f"separability             {distance.separability:.3f}  (0.5 is chance)"
    )
    if pool is None:
        return answer(text, vars(distance), as_json=as_json)
    saved([pool.save(file) for file in save or []])
    return answer([text, pool], {**vars(distance), "pool": pool.describe()}, as_json=as_json)


def _pool(
    full_collection: Collection,
    system: str | None,
    files: tuple[Path | None, Path | None],
    split: str | None,
    *,
    trust: bool,
) -> tuple[Any, MixedPoolReport]:
    """The vectors of images and texts, and the results of searching in one pool of both."""
    from limner.evaluation.diagnostics.modality_gap import evaluate_mixed

    sides: list[Any]
    if system is not None:
        sides, chosen, notes = encoded_sides(system, full_collection, split, trust=trust)
        tell_notes(notes)
    else:
        from limner.systems.system_files import embeddings_of

        chosen = part(full_collection, split)
        sides = [
            embeddings_of(str(file), items) for file, items in zip(files, (chosen.images, chosen.texts), strict=True)
        ]
    with progress(f"ranking {len(chosen.images) + len(chosen.texts):,} candidates", "queries") as step:
        return sides, evaluate_mixed(chosen, *sides, progress=step)


DIRECTIONS = ("i2t", "t2i")


def uncertainty(
    collection: Annotated[str, typer.Argument(metavar="COLLECTION", help=COLLECTION)],
    model: Annotated[Path, word("A saved model that predicts its uncertainty: pcme.", metavar="DIR")],
    judgements: Annotated[
        str | None, word("Judgements of the collection, by name.", show_default="those with the most relevant pairs")
    ] = None,
    direction: Annotated[str, word("i2t (image queries) or t2i.")] = "i2t",
    split: Split = None,
    option: Loading = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Compare the uncertainty of a model with the number of relevant candidates per query (figure 3b of ECCV Caption).

    -O bins=10 is the number of groups in the table.

    Examples:
      $ limner explain uncertainty scenes --model pcme/
      $ limner explain uncertainty coco-5k --model pcme/ --judgements eccv --direction i2t --json
    """
    from limner.papers.uncertainty import multiplicity
    from limner.systems import load as load_model

    if direction not in DIRECTIONS:
        raise UnknownName("direction", direction, DIRECTIONS)
    settings, loader = command_options(option, "uncertainty")
    whole_numbers(settings, bins=1)
    chosen = part(load(collection, loader), split)
    loaded_model: object = load_model(model, trust=trust)
    if not hasattr(loaded_model, "uncertainty"):
        raise LimnerError(f"{model}: this kind of model does not predict uncertainty; train 'pcme'")
    items = chosen.images if direction == "i2t" else chosen.texts
    richest = max(chosen.all_judgements.items(), key=lambda each: len(each[1]))[0]
    name = judgements or richest
    with progress(f"predicting the uncertainty of {len(items):,} queries", f"{items.kind}s") as step:
        progress_option = progress_for(loaded_model.uncertainty, step)
        values = dict(zip(items.ids, map(float, loaded_model.uncertainty(items, **progress_option)), strict=True))
        result = multiplicity(values, chosen.judged(name, direction), bins=settings.get("bins", 10))
    data = {
        "judgements": name, "direction": direction, "queries": len(result.queries), "rho": result.rho,
        "interval": None if result.interval is None else [result.interval.low, result.interval.high],
        "bins": [vars(b) for b in result.bins],
    }  # fmt: skip
    answer(f"{direction}, judgements {name!r}, {len(result.queries):,} queries\n{result}", data, as_json=as_json)
