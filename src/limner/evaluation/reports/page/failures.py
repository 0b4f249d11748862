"""Failures on the page: the relevant and the returned image with bounding boxes, an explanation, and classes.

They are plain values, which `limner.explain` computes and passes to the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.evaluation.reports.page.gallery import Gallery, PageItem

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
