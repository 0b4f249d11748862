"""Items on the page: captions, thumbnails, and failures, two images with the boxes of their objects."""

from __future__ import annotations

from collections.abc import Sequence
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


Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Marked:
    """A box around an object: its name, and whether both images show such an object."""

    name: str
    box: Box
    common: bool


@dataclass(frozen=True)
class Case:
    """One failure.

    Args:
        query: The id of the query.
        text: The caption.
        classes: Descriptions of the failure, by class.
        truth: The id of the relevant image.
        returned: The id of the returned image.
        boxes: Objects of the relevant and of the returned image.
        words: The explanation, line by line.
    """

    query: str
    text: str
    classes: tuple[str, ...]
    truth: str
    returned: str
    boxes: tuple[Sequence[Marked], Sequence[Marked]]
    words: Sequence[str]


@dataclass(frozen=True)
class Failures:
    """The content of the section.

    Args:
        about: An introductory sentence.
        rates: (class, failures, share in percent).
        scores: Rows of the table of scores: name, mean, interval, better, undefined.
        rules: Rules as text.
        cases: The failures to show, in order.
    """

    about: str
    rates: Sequence[tuple[str, str, str]]
    scores: Sequence[Sequence[str]]
    rules: Sequence[str]
    cases: Sequence[Case]


@dataclass(frozen=True)
class ImagePanel:
    """One image with boxes, in the units of its thumbnail."""

    item: PageItem
    boxes: Sequence[tuple[str, str, str, str, Marked]]


@dataclass(frozen=True)
class Row:
    """One failure, ready for the template."""

    case: Case
    truth: ImagePanel
    returned: ImagePanel


@dataclass(frozen=True)
class Section:
    """The section, ready for the template: failures by class, with the size of each class."""

    given: Failures
    groups: Sequence[tuple[str, Sequence[Row]]] = field(default_factory=tuple)


def section(failures: Failures | None, collection: Collection | None, gallery: Gallery) -> Section | None:
    """Groups failures by class; a failure of two classes is shown under both."""
    if failures is None:
        return None
    if collection is None:
        raise LimnerError("failures are shown with images: give the page the collection too")
    groups = []
    for name, *_ in failures.rates:
        rows = [_row(case, collection, gallery) for case in failures.cases if name in case.classes]
        if rows:
            groups.append((name, rows))
    return Section(failures, groups)


def _row(case: Case, collection: Collection, gallery: Gallery) -> Row:
    sides = zip((case.truth, case.returned), case.boxes, strict=True)
    truth, returned = (_panel(image, boxes, collection, gallery) for image, boxes in sides)
    return Row(case, truth, returned)


def _panel(image: str, boxes: Sequence[Marked], collection: Collection, gallery: Gallery) -> ImagePanel:
    item = gallery.candidate("t2i", image)
    if item.thumbnail is None:
        return ImagePanel(item, ())
    width, height = size_of(collection, image)
    across, down = item.thumbnail.width / width, item.thumbnail.height / height
    return ImagePanel(item, [_scaled(marked, across, down) for marked in boxes])


def _scaled(marked: Marked, across: float, down: float) -> tuple[str, str, str, str, Marked]:
    left, top, right, bottom = marked.box
    numbers = left * across, top * down, (right - left) * across, (bottom - top) * down
    x, y, w, h = (f"{max(0.0, number):.1f}" for number in numbers)
    return x, y, w, h, marked


def size_of(collection: Collection, image: str) -> tuple[float, float]:
    """Width and height of the image that the boxes refer to, in pixels."""
    row = collection.images.ids.index(image)
    fields = collection.images.fields
    if "width" in fields and "height" in fields:
        return float(fields["width"][row]), float(fields["height"][row])
    return collection.images.open(row).size
