"""PDF files as a collection of pages: an image of each page, drawn when it is opened."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError, count
from limner.core.extras import needed
from limner.core.ids import Ids
from limner.core.images import RATIO_LIMIT, upright
from limner.core.judgements import Judgements
from limner.datasets.image_folder import files_below
from limner.datasets.text_files import At, Notes, existing

if TYPE_CHECKING:
    from PIL.Image import Image

LONGEST = 4000
"""The longest side of a page in pixels, whatever its size on paper."""
_POINTS = 72  # per inch
_ONE_AT_A_TIME = threading.Lock()  # PDFium may not run in two threads at once


@dataclass(frozen=True)
class InPdf:
    """A page of a PDF file, drawn when it is called.

    Args:
        path: The file.
        page: The page, from 0.
        resolution: Pixels per inch.
    """

    path: str
    page: int
    resolution: float

    def __call__(self) -> Image:
        """Draws the page."""
        with _document(self.path) as document:
            page = document[self.page]
            scale = min(self.resolution / _POINTS, LONGEST / max(page.get_size()))
            return upright(page.render(scale=scale).to_pil())


def load_pdfs(
    path: str | Path, *, split: str | None = None, resolution: float = 144.0, strict: bool = False
) -> Collection:
    """Loads the pages of PDF files: a collection without texts, one image per page.

    A page has the id `report.pdf#1` and the fields "document" and "page", from 1. Files that do not open, such as
    encrypted ones, are left out and listed.

    Args:
        path: A PDF file, or a folder with some, also in folders below it.
        split: Not supported: there are no splits.
        resolution: Pixels per inch; a side is at most 4,000 pixels long.
        strict: Raise an error instead of listing a warning.
    """
    if split is not None:
        raise LimnerError(f"split={split!r}: PDF files have no splits")
    if not 1 <= resolution <= 1200 or not math.isfinite(resolution):
        raise LimnerError(f"resolution={resolution:g}: expected 1 to 1200 pixels per inch")
    needed("pypdfium2", what="a PDF file")
    source, notes = existing(path, what="PDF file or folder of them"), Notes(strict=strict)
    root = source.parent if source.is_file() else source
    names = [source.name] if source.is_file() else pdf_names(source)
    pages = [page for name in names for page in _pages(root, name, resolution, notes)]
    if not pages:
        raise LimnerError(f"no pages in {source}: " + ("; ".join(notes.listed()) or "expected files that end in .pdf"))
    ids = Ids((f"{name}#{page.page + 1}" for name, page in pages), what="image")
    fields = {"document": [name for name, _ in pages]}
    images = Items(ids, [page for _, page in pages], fields).with_fields(page=[page.page + 1 for _, page in pages])
    texts = Items(Ids((), what="text"), [], kind="text")
    pairs = Judgements.from_pairs((), queries=images.ids, candidates=texts.ids)
    return Collection(source.resolve().stem, images, texts, pairs, warnings=notes.listed())


def pdf_names(folder: Path) -> list[str]:
    """The PDF files below a folder."""
    return [name for name in files_below(folder) if name.lower().endswith(".pdf")]


def _pages(root: Path, name: str, resolution: float, notes: Notes) -> list[tuple[str, InPdf]]:
    """The pages of a file; none if it does not open."""
    path = os.path.join(root, name)
    try:
        with _document(path) as document:
            sizes = [document.get_page_size(page) for page in range(len(document))]
    except LimnerError as error:
        notes.add(At(Path(path)), f"{str(error).removeprefix(path).strip()}; left out")
        return []
    narrow = [page for page, size in enumerate(sizes) if max(size) > RATIO_LIMIT * min(size) or min(size) <= 0]
    if narrow:
        notes.add(At(root), f"{name}: {count(len(narrow), 'page')} without a usual shape; left out")
    return [(name, InPdf(path, page, resolution)) for page in range(len(sizes)) if page not in narrow]


@contextmanager
def _document(path: str) -> Iterator[Any]:
    """An open PDF file."""
    library = needed("pypdfium2", what="a PDF file")
    with _ONE_AT_A_TIME:
        try:
            document = library.PdfDocument(path)
        except (library.PdfiumError, OSError, ValueError) as error:
            raise LimnerError(f"{path} does not open as a PDF: {error}") from error
        try:
            yield document
        except library.PdfiumError as error:
            raise LimnerError(f"{path}: a page cannot be drawn ({error})") from error
        finally:
            document.close()
