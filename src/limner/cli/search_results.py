"""Hits of a search on the terminal: a list, thumbnails where the terminal shows images, a gallery in a browser."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from limner.cli.console import answer, put, tell
from limner.cli.photo_folders import PhotoFolder
from limner.core.errors import LimnerError

if TYPE_CHECKING:
    from PIL.Image import Image

    from limner.search import Hit, Hits, Index

THUMBNAIL = 320
"""The longer side of a thumbnail in pixels, before the terminal scales it."""
MOST_QUERIES = 3
"""Queries up to which thumbnails are shown."""


def show_hits(hits: Hits, path: str, place: Index | PhotoFolder, *, gallery: bool, as_json: bool) -> None:
    """Prints the hits, and opens them in a browser if that is asked for.

    Args:
        hits: The hits.
        path: What was searched, as the user named it.
        place: The index, or the folder of photographs.
        gallery: Whether to open a gallery.
        as_json: Whether to print JSON.
    """
    about = place.as_dict() if isinstance(place, PhotoFolder) else {"index": path}
    if not as_json:
        _show_thumbnails(hits)
    listed = _photo_list(hits, path) if isinstance(place, PhotoFolder) else str(hits)
    answer(listed, {**about, **hits.as_dict()}, as_json=as_json)
    if gallery:
        _open_gallery(hits)


def _photo_list(hits: Hits, folder: str) -> str:
    """Ranks, scores and paths, per query."""
    parts = []
    for key, value in zip(hits.queries.ids, hits.queries.values, strict=True):
        lines = [f"{hit.rank:>4}  {hit.score:>8.4f}  {os.path.join(folder, hit.id)}" for hit in hits[key]]
        parts.append("\n".join([str(value or key), *(lines or ["      nothing here matches"])]))
    return "\n\n".join([*parts, hits.summary])


def _show_thumbnails(hits: Hits) -> None:
    """Shows the images of the hits, if the terminal can."""
    from limner.cli.terminal_images import terminal_images

    if hits.kind != "image" or len(hits.queries) > MOST_QUERIES:
        return
    terminal = terminal_images()
    if terminal is None:
        return
    for key in hits.queries.ids:
        if listed := hits[key]:
            put(terminal.grid([(_thumbnail(hit), f"{hit.rank}  {Path(hit.id).name}") for hit in listed]))


def _thumbnail(hit: Hit) -> Image | None:
    from limner.core.images import open_image

    source = hit.picture if hit.value is None else hit.value
    try:
        return open_image(source, name=hit.id, side=THUMBNAIL)
    except LimnerError:
        return None


def _open_gallery(hits: Hits) -> None:
    """Writes the hits as a page into the cache, and opens it."""
    from limner.core.cache_dir import cache_folder, private_folder

    folder = cache_folder("galleries") or private_folder()
    if folder is None:
        raise LimnerError("no folder for the gallery: write it with -o FILE.html, and open that")
    query = next(iter(hits.queries.values), None) or hits.queries.ids[0]
    name = re.sub(r"\W+", "-", Path(str(query)).name.lower()).strip("-")[:60] or "hits"
    page = hits.save_gallery(folder / f"{name}.html")
    tell(f"wrote {page}")
    typer.launch(page.as_uri())
