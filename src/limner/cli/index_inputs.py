"""What an index is built from: items and their vectors, judged queries for its cut-offs, the bank of a correction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from limner.cli.console import progress, tell
from limner.cli.inputs import open_index, unusable_files
from limner.cli.options import load, part
from limner.core.errors import LimnerError

if TYPE_CHECKING:
    from limner.core.collection import Collection, Items
    from limner.search.index_table import Vectors


class IndexSource:
    """The items or vectors to index, as given on the command line.

    Attributes:
        items: The items: of the split of a collection, of a list or of a folder; None for vectors alone.
        whole: The collection with all its splits; None without one.
        unopened: Images that do not open, and why.
    """

    def __init__(
        self,
        collection: str | None,
        items: str | None,
        embeddings: Path | None,
        ids: Path | None,
        side: str,
        split: str,
        option: list[str] | None,
    ) -> None:
        if side not in ("images", "texts"):
            raise typer.BadParameter(f"--side {side}: expected images or texts")
        if ids and not embeddings:
            raise typer.BadParameter("--ids can only be used with --embeddings")
        from limner.search import with_captions

        self.embeddings, self.ids = embeddings, ids
        self.unopened: dict[str, str] = {}
        if collection and not option and _is_plain_folder(collection):
            collection, items = None, collection
        self.whole = load(collection, option) if collection else None
        self.items = self._listed(items) if items else None
        if self.whole is not None:
            chosen: Collection = part(self.whole, split)
            self.items = with_captions(chosen, side)

    def _listed(self, path: str) -> Items:
        """The items of a list or a folder; photographs with the fields of their files."""
        from limner.core.collection import Items
        from limner.search.items import read
        from limner.search.photo_fields import with_photo_fields

        self.unopened |= unusable_files(path)
        contents = read(path)
        if not isinstance(contents, Items):
            raise LimnerError(f"--items {path} contains vectors: give them with --embeddings")
        return with_photo_fields(contents)

    def vectors(self) -> Vectors:
        """The given vectors; if their file has no ids, they get the ids of the items."""
        from limner.core.embeddings import Embeddings
        from limner.scores import VectorSets
        from limner.scores.vector_sets import holds_sets

        file = str(self.embeddings)
        sets = holds_sets(file)
        read = VectorSets.load(file, ids=self.ids) if sets else Embeddings.load(file, ids=self.ids)
        numbered = self.ids is None and all(key == str(row) for row, key in enumerate(read.ids))
        if self.items is None or not numbered or self.items.ids == read.ids:
            return read
        if len(read) != len(self.items):
            raise LimnerError(
                f"{self.embeddings} has {len(read):,} {'sets' if sets else 'rows'} and no ids for {len(self.items):,} "
                f"{self.items.kind}s: expected one each, in their order; or name them with --ids FILE"
            )
        named = "sets" if sets else "rows"
        tell(f"warning: {self.embeddings} has no ids: its {named} are used in the order of the {self.items.kind}s")
        if isinstance(read, VectorSets):
            return VectorSets.in_order(self.items.ids, read.vectors.matrix, read.counts)
        return Embeddings(self.items.ids, read.matrix)


def _is_plain_folder(collection: str) -> bool:
    """Whether a collection is a folder of images without captions."""
    from limner.datasets import detect

    return Path(collection).is_dir() and detect(collection).name == "images"


SHOWN = (0.5, 0.7, 0.8, 0.9, 0.95)
"""Precisions to try, to report which are reachable."""


def calibrated(
    path: str,
    collection: str,
    split: str,
    option: list[str] | None,
    system: str | None,
    *,
    features: str | None,
    trust: bool,
) -> dict[str, object]:
    """Calibrates the cut-offs of an index with judged queries that its system was not trained on.

    Args:
        path: The index.
        collection: The judged queries: its texts for an index of images, its images for one of texts.
        split: Their split.
        option: Options of the loader of the collection.
        system: Encodes the queries; by default the system of the index.
        features: A file of the images' features, or the encoder that computes them, for a system that reads features.
        trust: Whether the system may name code as "module:thing".

    Returns:
        The share of queries that get an answer at each precision in `SHOWN`, as text.
    """
    from limner.search import calibrate_index
    from limner.search.cut_off import judged_queries
    from limner.search.items import encoded_known

    index = open_index(path, system, features=features, trust=trust)
    judged = _unseen(part(load(collection, option), split), index.system, index.about.kind)
    direction, queries = ("t2i", judged.texts) if index.about.kind == "image" else ("i2t", judged.images)
    index.refuse_other(index.system)
    judgements, query_images = judged_queries(judged, direction)
    with progress(f"encoding {len(queries):,} judged queries", f"{queries.kind}s") as task:
        several = index.about.has_sets
        vectors, encoded, left = encoded_known(index.system, queries, sets=several, queries=True, progress=task)
        left_out(left, len(queries))
        if vectors is None:
            raise LimnerError(f"no query of {judged.name!r} is known to the system: calibrate with other queries")
        image_of = dict(zip(queries.ids, query_images, strict=True))  # queries of one image depend on each other
        step = task.step(f"calibrating with {len(encoded):,} judged queries", "queries")
        calibration = calibrate_index(
            index,
            vectors,
            judgements.restrict(queries=encoded.ids),
            [image_of[key] for key in encoded.ids],
            progress=step,
        )
    tell(f"calibrated with {len(encoded):,} queries of {judged.name}, relevant by {' or '.join(judged.all_judgements)}")
    return {"calibrated": {str(precision): reached(calibration, precision) for precision in SHOWN}}


def with_correction(
    path: str, correction: str, bank: Path, system: str | None, *, features: str | None, trust: bool
) -> dict[str, object]:
    """Keeps a correction in an index; returns what to say about it."""
    from limner.core.collection import Items
    from limner.search import keep_correction
    from limner.search.items import read

    queries = read(bank)
    index = open_index(path, system, encodes=isinstance(queries, Items), features=features, trust=trust)
    with progress(f"gathering the statistics of {correction} with {len(queries):,} queries", "queries") as step:
        keep_correction(index, correction, queries, progress=step)
    return {"corrected": f"{correction}, with {len(queries):,} queries of {bank}"}


def left_out(items: Items, total: int) -> None:
    """Warns of items that a system knows nothing of."""
    if not len(items):
        return
    example = str(items.values[0])[:60] if items.kind == "text" else items.ids[0]
    why = "have no word that the system knows" if items.kind == "text" else "have a vector of zeros"
    tell(f"warning: {len(items):,} of {total:,} {items.kind}s {why}, such as {example!r}: they are left out")


def _unseen(collection: Collection, system: object, kind: str) -> Collection:
    """The part of a collection that a system was not trained on."""
    if kind == "item":
        raise LimnerError("the index contains vectors without images or texts: relevant answers are unknown")
    trained = getattr(system, "trained_on", None)
    if trained is None:
        return collection
    fresh = [
        key
        for key, was_trained_on in zip(collection.images.ids, trained.saw(collection), strict=True)
        if not was_trained_on
    ]
    if not fresh:
        raise LimnerError(f"the system was trained on all images of {collection.name!r}: calibrate with other queries")
    return collection.restrict(fresh, name=f"{collection.name}, not trained on")


def reached(calibration: Any, precision: float) -> str:
    """The share of queries that get an answer for a given precision, as text."""
    try:
        return f"{calibration.cut_off(precision).threshold.answered:.0%} answered"
    except LimnerError:
        return "out of reach"
