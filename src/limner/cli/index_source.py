"""What 'limner index' indexes: the items of a collection or a list, or vectors."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from limner.cli.console import tell
from limner.cli.inputs import unusable_files
from limner.cli.options import load, part
from limner.core.errors import LimnerError

if TYPE_CHECKING:
    from limner.core.collection import Collection, Items
    from limner.search.queries import Vectors


class IndexSource:
    """The items or vectors to index, as given on the command line."""

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
        self.unopened: dict[str, str] = {}  # images that do not open, and why
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
