"""Untrusted text in pages, notebooks and spreadsheets: escaped HTML, templates, and CSV cells that are no formulas.

A spreadsheet evaluates text that begins like a formula. A cell like that gets a leading apostrophe, the convention for
plain text; limner's reader removes it again.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Template
    from PIL.Image import Image


SIDE = 128
SHOWN = 5
"""The number of rows that a notebook shows of a long table."""


def html_table(title: str, rows: Sequence[Sequence[str]]) -> str:
    """A table with a caption; the first row is the header.

    >>> html_table("a < b", [["R@1"], ["50.0"]])[:57]
    '<table><caption>a &lt; b</caption><thead><tr><th>R@1</th>'
    """
    head, *body = rows
    heads = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    lines = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in body)
    caption = f"<caption>{escape(title)}</caption>"
    return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"


def data_uri(image: Image) -> str:
    """An image as a data URI: WebP if Pillow supports it, else JPEG."""
    from PIL import features

    form = "webp" if features.check("webp") else "jpeg"
    out = io.BytesIO()
    image.save(out, form, quality=76)
    return f"data:image/{form};base64,{base64.b64encode(out.getvalue()).decode()}"


def overview_html(name: str, counts: Mapping[str, int], images: Sequence[tuple[str, str, Image | None]]) -> str:
    """A table of counts with images below it.

    Args:
        name: The caption of the table.
        counts: Rows of the table.
        images: Id, caption and image of each item; None for an image that cannot be opened.
    """
    table = html_table(name, [("", "count"), *((label, f"{n:,}") for label, n in counts.items())])
    figures = "".join(_figure(*image) for image in images)
    return f'{table}<div style="display:flex;gap:8px;flex-wrap:wrap">{figures}</div>'


def _figure(name: str, caption: str, image: Image | None) -> str:
    """One image with its caption, or the id if there is no image."""
    content = f"<code>{escape(name)}</code>"
    if image is not None:
        content = f'<img src="{data_uri(image)}" alt="{escape(name, quote=True)}">'
    return f'<figure style="width:{SIDE}px;margin:0">{content}<figcaption>{escape(caption)}</figcaption></figure>'


def template(package: str, name: str, *, folder: str = ".") -> Template:
    """A template that escapes all values; an unknown value is an error.

    Args:
        package: The package that has the file, such as "limner.search".
        name: The file.
        folder: Its folder in the package; templates there may extend and include each other.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template(name)


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")


def guarded(cell: object) -> object:
    """The cell as text that a spreadsheet does not evaluate; numbers are unchanged.

    >>> guarded("=1+1"), guarded("a dog"), guarded(-1.5), guarded("-1.5")
    ("'=1+1", 'a dog', -1.5, '-1.5')
    """
    return f"'{cell}" if isinstance(cell, str) and _is_formula(cell) else cell


def unguarded(cell: str) -> str:
    """The inverse of `guarded`.

    >>> [unguarded(guarded(text)) for text in ("=1", "'=1", "''@x", "'a'", "-", "")]
    ['=1', "'=1", "''@x", "'a'", '-', '']
    """
    return cell[1:] if cell.startswith("'") and _is_formula(cell[1:]) else cell


def guarded_row(row: Mapping[str, object]) -> dict[str, object]:
    """A row with every cell guarded."""
    return {name: guarded(cell) for name, cell in row.items()}


def _is_formula(cell: str) -> bool:
    return cell.lstrip("'").startswith(_FORMULA) and not is_number(cell)


def is_number(cell: str) -> bool:
    """Whether a cell holds a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True
