"""How the page shows items: captions as text, images as thumbnails, each embedded only once."""

from __future__ import annotations

from dataclasses import dataclass, field

from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.markup import data_uri

KINDS = {"i2t": ("image", "text"), "t2i": ("text", "image")}
"""The kinds of queries and candidates in each direction."""

SIDE = 144
"""The longer side of a thumbnail in pixels: 96 on the page, with a reserve for high-resolution screens."""

BUDGET = 2_000_000
"""Maximum size of all thumbnails together, in characters, to keep the file small."""


@dataclass(frozen=True)
class Thumbnail:
    """One embedded thumbnail: its name on the page, its size, and its data."""

    name: str
    width: int
    height: int
    uri: str


@dataclass(frozen=True)
class PageItem:
    """One item as the page shows it.

    Args:
        id: Its id.
        kind: "image", "text", or "id" if only the id is known.
        text: The caption of a text, or a placeholder for a missing image.
        alt: Alternative text of the image.
        thumbnail: The thumbnail of an image.
    """

    id: str
    kind: str
    text: str
    alt: str = ""
    thumbnail: Thumbnail | None = None


@dataclass(eq=False)
class Gallery:
    """Renders items, and caches their thumbnails.

    Args:
        collection: The collection with captions and images; without it, ids are shown.
    """

    collection: Collection | None
    budget: int = BUDGET
    thumbnails: dict[str, Thumbnail] = field(default_factory=dict)
    unopened: dict[str, str] = field(default_factory=dict)
    left_out: int = 0

    def query(self, direction: str, item: str) -> PageItem:
        """A query of a direction; an image and a text may have the same id."""
        return self._show(item, KINDS.get(direction, ("", ""))[0])

    def candidate(self, direction: str, item: str) -> PageItem:
        """A candidate of a direction."""
        return self._show(item, KINDS.get(direction, ("", ""))[1])

    def _show(self, item: str, kind: str) -> PageItem:
        collection = self.collection
        if collection is not None and kind == "text" and item in collection.texts.ids:
            return PageItem(item, "text", collection.texts.values[collection.texts.ids.index(item)])
        if collection is not None and kind == "image" and item in collection.images.ids:
            return PageItem(item, "image", item, self._alt(item, collection), self._thumbnail(item, collection))
        return PageItem(item, "id", item)

    def _alt(self, image: str, collection: Collection) -> str:
        """Alternative text from the image's own captions."""
        labels = collection.judgements.relevant
        row = labels.queries.index(image)
        columns = labels.columns[labels.indptr[row] : labels.indptr[row + 1]]
        captions = [collection.texts.values[int(c)] for c in columns[:1] if c < len(collection.texts)]
        return f"Image {image}" + (f", labelled: {shortened(captions[0])}" if captions else "")

    def _thumbnail(self, image: str, collection: Collection) -> Thumbnail | None:
        if image in self.thumbnails or image in self.unopened:
            return self.thumbnails.get(image)
        try:
            uri, width, height = thumbnail(collection, image)
        except (LimnerError, OSError) as error:
            self.unopened[image] = str(error)
            return None
        if len(uri) > self.budget:
            self.left_out += 1
            return None
        self.budget -= len(uri)
        self.thumbnails[image] = Thumbnail(f"p{len(self.thumbnails)}", width, height, uri)
        return self.thumbnails[image]

    def notes(self) -> list[str]:
        """Notes on missing images."""
        first = next(iter(self.unopened.values()), "")
        unopened_notes = (
            [f"{len(self.unopened)} images could not be shown; the first: {first}"] if self.unopened else []
        )
        return unopened_notes + (
            [f"{self.left_out} images are left out to keep the file small"] if self.left_out else []
        )


def thumbnail(collection: Collection, image: str) -> tuple[str, int, int]:
    """A small copy of an image as a data URI, with its width and height."""
    small = collection.images.open(image, side=SIDE)
    return data_uri(small), small.width, small.height


def shortened(text: str, limit: int = 140) -> str:
    """Shortens a text at a word boundary, with an ellipsis.

    >>> shortened("two dogs in the snow", 12)
    'two dogs in…'
    """
    return text if len(text) <= limit else text[: limit + 1].rsplit(" ", 1)[0][:limit] + "…"
