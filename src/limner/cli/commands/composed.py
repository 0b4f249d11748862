"""limner composed: evaluates queries that consist of an image and a text modification."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.console import answer, progress, warn
from limner.cli.inputs import SYSTEM, TrainOn, encoded_by_model, system_word, training_parts
from limner.cli.options import Json, Trust, out_word, refuse_ending, saved, word

if TYPE_CHECKING:
    from limner.datasets.composed_queries import ComposedQueries


def composed(
    source: Annotated[
        str,
        typer.Argument(
            metavar="QUERIES", help="A file in the form of CIRR, CIRCO or FashionIQ, or JSON lines; or scenes."
        ),
    ],
    image_folder: Annotated[Path | None, word("The folder of the images.", metavar="DIR")] = None,
    pool: Annotated[
        Path | None,
        word("The list of all candidates: JSON.", metavar="FILE", show_default="the split file beside the queries"),
    ] = None,
    system: Annotated[str | None, system_word(f"One space for images and texts: {SYSTEM}")] = None,
    train_on: TrainOn = None,
    images: Annotated[Path | None, word("Or embeddings of the pool, with ids.", metavar="FILE")] = None,
    texts: Annotated[Path | None, word("Embeddings of the words, by query id or in order.", metavar="FILE")] = None,
    scores: Annotated[
        Path | None, word("Or scores of your own composition, queries by images: npy.", metavar="FILE")
    ] = None,
    measures: Annotated[str | None, word("Such as 'R@1 R@10 MAP@5(capped)'.", metavar="MEASURES")] = None,
    weight: Annotated[float, word("Weight of the words in the sum.", metavar="SHARE", min=0.0, max=1.0)] = 0.5,
    queries: Annotated[int, word("Of scenes: how many queries.", metavar="N", min=1)] = 120,
    seed: Annotated[int, word("Of scenes: seed.", metavar="N", min=0)] = 0,
    name: Annotated[str | None, word("Name of --scores in the table.")] = None,
    save: Annotated[list[Path] | None, out_word("Write it: .json .csv .md .tex .txt. Repeatable.")] = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Evaluate composed queries: a reference image, and a text that describes what should be different.

    With embeddings of images and words, three simple compositions are compared: the image alone, the words alone, and
    the sum of both. The reference image is left out of the pool of its query. MAP@k(capped) divides by min(k, answers),
    as CIRCO does; 'subset R@k' ranks the answer among the similar images of CIRR's subset alone.

    Examples:
      $ limner composed captions/cap.rc2.val.json --image-folder img_raw --system 'clip(model=DIR)'
      $ limner composed circo/val.json --pool image_info_unlabeled2017.json --images pool.npz --texts words.npz
      $ limner composed scenes --system histograms
      $ limner composed cap.dress.val.json --image-folder images --system towers --train-on captions.csv
    """
    from limner.evaluation.diagnostics.composed import MEASURES, evaluate_composed
    from limner.evaluation.tables import FORMATS

    refuse_ending(save, tuple(FORMATS), "table")
    asked = _queries(source, image_folder, pool, queries, seed)
    warn(asked.warnings)
    found = _system(asked, source, system, train_on, images, texts, scores, trust)
    with progress(f"ranking {len(asked.images):,} images for {len(asked.queries):,} queries", "queries") as told:
        made = evaluate_composed(
            asked,
            found,
            name=name or "system",
            measures=MEASURES if measures is None else measures,
            weight=weight,
            progress=told,
        )
    saved([made.save(file) for file in save or []])
    answer(str(made), made.describe(), as_json=as_json)


def _queries(source: str, folder: Path | None, pool: Path | None, count: int, seed: int) -> ComposedQueries:
    from limner.datasets.composed_queries import read_composed
    from limner.datasets.scenes.scene_changes import scenes_composed

    if source == "scenes" and not Path(source).exists():
        if folder is not None or pool is not None:
            raise typer.BadParameter("--image-folder and --pool with scenes: its images are generated; leave them out")
        return scenes_composed(count, seed=seed)
    return read_composed(source, images=folder, pool=pool)


def _system(
    asked: ComposedQueries,
    source: str,
    system: str | None,
    train_on: str | None,
    images: Path | None,
    texts: Path | None,
    scores: Path | None,
    trust: bool,
) -> Any:
    if (images is None) != (texts is None):
        raise typer.BadParameter("--images and --texts belong together: give the embeddings of both")
    if train_on is not None and system is None:
        raise typer.BadParameter("--train-on is for --system")
    if sum(given is not None for given in (system, images, scores)) != 1:
        raise typer.BadParameter("give one of --system, --images with --texts, --scores")
    if scores is not None:
        from limner.scores import Scores

        return Scores.load(scores, asked.texts.ids, asked.images.ids)
    if system is None:
        from limner.systems.system_files import embeddings_of

        return tuple(embeddings_of(str(file), items) for file, items in ((images, asked.images), (texts, asked.texts)))
    if all(value is None for value in asked.images.values):
        raise typer.BadParameter("--system reads the images themselves: give --image-folder DIR")
    return _encoded(asked, source, system, train_on, trust)


def _encoded(asked: ComposedQueries, source: str, system: str, train_on: str | None, trust: bool) -> Any:
    """Vectors of the pool and of the words, by a model, an encoder or a system that is trained now."""
    from limner.core.collection import Collection
    from limner.core.judgements import Judgements
    from limner.systems.opening import find_system

    spec = find_system(system, trust=trust)
    none = Judgements.from_pairs([], queries=asked.images.ids, candidates=asked.texts.ids)
    held = Collection(asked.name, asked.images, asked.texts, none)
    model = spec.trained(training_parts(spec, source, train_on, held), stage=progress)
    return tuple(encoded_by_model(system, model, (asked.images, asked.texts)))
