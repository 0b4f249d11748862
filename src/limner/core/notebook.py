"""How notebooks show the nouns: small HTML tables with everything escaped, and thumbnails as data URIs."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from limner.core.errors import LimnerError

if TYPE_CHECKING:
    from PIL.Image import Image

    from limner.core.collection import Collection

SIDE = 128
SHOWN = 5
"""How many rows of a long table a notebook shows."""


def html_table(title: str, rows: Sequence[Sequence[str]]) -> str:
    """A table with a caption; the first row is its head.

    >>> html_table("a < b", [["R@1"], ["50.0"]])[:57]
    '<table><caption>a &lt; b</caption><thead><tr><th>R@1</th>'
    """
    head, *body = rows
    heads = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    lines = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in body)
    caption = f"<caption>{escape(title)}</caption>"
    return f"<table>{caption}<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"


def data_uri(picture: Image) -> str:
    """A picture as a data URI: WebP where Pillow can write it, else JPEG."""
    from PIL import features

    form = "webp" if features.check("webp") else "jpeg"
    out = io.BytesIO()
    picture.save(out, form, quality=76)
    return f"data:image/{form};base64,{base64.b64encode(out.getvalue()).decode()}"


def collection_html(collection: Collection) -> str:
    """What a collection is, with its first images and captions."""
    counts = {"images": len(collection.images), "texts": len(collection.texts)}
    counts |= {f"judgements: {name}": len(j) for name, j in collection.all_judgements.items()}
    counts |= {f"split: {name}": len(ids) for name, ids in collection.splits.items()}
    table = html_table(collection.name, [("", "count"), *((name, f"{n:,}") for name, n in counts.items())])
    shown = "".join(_figure(collection, row) for row in range(min(SHOWN, len(collection.images))))
    return f'{table}<div style="display:flex;gap:8px;flex-wrap:wrap">{shown}</div>'


def _figure(collection: Collection, row: int) -> str:
    """One image with its first caption; an image that does not open is named."""
    name = collection.images.ids[row]
    captions = collection.judgements.columns[collection.judgements.rows == row]
    caption = str(collection.texts.values[int(captions[0])]) if len(captions) else name
    try:
        source = data_uri(collection.images.open(row, side=SIDE))
        shown = f'<img src="{source}" alt="{escape(name, quote=True)}">'
    except (LimnerError, OSError):
        shown = f"<code>{escape(name)}</code>"
    return f'<figure style="width:{SIDE}px;margin:0">{shown}<figcaption>{escape(caption)}</figcaption></figure>'
