"""Which columns of a table of a hub are images, captions and ids, and its rows in the form of limner's own tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from limner.core.errors import LimnerError, UnknownName, shown
from limner.datasets.caption_tables import COLUMNS
from limner.datasets.text_files import JsonObject

_IMAGES = ("image", "img", "picture", "photo", "jpg", "jpeg", "png", "webp", *COLUMNS["image"][1:])
_CAPTIONS = (
    *("caption", "captions", "text", "texts", "raw", "sentence", "sentences", "sentences_raw", "description", "prompt"),
    *("query", "alt_text", "title"),
)
_CAPTION_IDS = ("sentids", "sentid", "caption_ids", "caption_id", "captions_id", "text_id")
_IMAGE_IDS = ("cocoid", "filename", "file_name", "image_filename", "image_id", "img_id", "imgid", "image_name", "key")
_NUMBERED = re.compile(r"(?:caption|text|sentence|description|raw)[_ -]?\d+")
_ROLES = ("image", "caption", "caption_id", "image_id", "split", "language")
_FIELD_TYPES = (str, int, float, bool)


@dataclass(frozen=True)
class HubColumns:
    """The columns of a table by what they hold.

    Args:
        image: The image, or the name of its file.
        captions: One column, of a caption or a list of them; or several columns with a caption each.
        caption_id: Ids of the captions, one or a list.
        image_id: The id of the image.
        split: The split.
        language: The language of the captions.
        fields: Further columns.
    """

    image: str | None
    captions: tuple[str, ...]
    caption_id: str | None = None
    image_id: str | None = None
    split: str | None = None
    language: str | None = None
    fields: tuple[str, ...] = ()

    def row(self, cells: JsonObject, image: object, key: str | None) -> dict[str, object]:
        """A row in the form of `limner.datasets.caption_tables`.

        Args:
            cells: The cells by column, without the image itself.
            image: The image.
            key: Its id, if no column has it.
        """
        captions, ids = _captions([cells.get(name) for name in self.captions])
        if self.caption_id is not None:
            ids = [str(each) for each in listed(cells.get(self.caption_id))]
        about = {name: cells[name] for name in self.fields if isinstance(cells.get(name), _FIELD_TYPES)}
        named = key if self.image_id is None else str(cells.get(self.image_id) or key or "")
        row = {**about, "image": image, "image_id": named, "captions": captions}
        if ids and len(ids) >= len(captions):
            row["captions_id"] = ids[: len(captions)]
        for role, name in (("split", self.split), ("language", self.language)):
            if name is not None and cells.get(name) is not None:
                row[role] = cells[name]
        return row


def hub_columns(
    names: Sequence[str],
    *,
    images: Sequence[str],
    texts: Iterable[str],
    place: str,
    chosen_columns: Mapping[str, str] | None = None,
) -> HubColumns:
    """Finds the columns of a table by their types and names.

    Args:
        names: All columns.
        images: Columns whose type is an image.
        texts: Columns whose type is a text or a list of texts.
        chosen_columns: Columns that the user named, by role.
        place: The repository, for error messages.
    """
    chosen = dict(chosen_columns or {})
    for role, name in chosen.items():
        if role not in _ROLES:
            raise UnknownName("column role", role, _ROLES)
        if name not in names:
            raise UnknownName("column", name, names, of=place)
    readable = set(texts)
    captions = _caption_columns(names, readable, chosen.get("caption"))
    image = chosen.get("image") or _first(_IMAGES, images) or next(iter(images), None) or _first(_IMAGES, readable)
    caption_id = chosen.get("caption_id") or _first(_CAPTION_IDS, names)
    used_columns = {image, caption_id, *captions}
    image_id = chosen.get("image_id") or _first(
        _IMAGE_IDS, [name for name in names if name not in used_columns - {image}]
    )
    split, language = (
        chosen.get(role) or _first(COLUMNS[role], [name for name in names if name not in used_columns])
        for role in ("split", "language")
    )
    used_columns |= {image_id, split, language}
    reserved = {name for role in COLUMNS.values() for name in role}
    fields = [
        name for name in names if name not in used_columns | set(images) | reserved and not name.startswith("captions_")
    ]
    return HubColumns(image, captions, caption_id, image_id, split, language, tuple(fields))


def refuse_incomplete(columns: HubColumns, names: Sequence[str], *, place: str) -> None:
    """Refuses a table without images, or without captions."""
    role = "image" if columns.image is None else "" if columns.captions else "caption"
    if role:
        expected = " or ".join((_IMAGES if role == "image" else _CAPTIONS)[:4])
        raise LimnerError(
            f"{place} has no column of {role}s: it has {shown(names, most=12)}, expected {expected}; name it with "
            f'columns={{"{role}": NAME}}'
        )


def _caption_columns(names: Sequence[str], texts: set[str], chosen: str | None) -> tuple[str, ...]:
    if chosen is not None:
        return (chosen,)
    numbered = tuple(name for name in names if name in texts and _NUMBERED.fullmatch(name.lower()))
    first = _first(_CAPTIONS, texts)
    return numbered if numbered and first is None else () if first is None else (first,)


def _first(candidates: Sequence[str], names: Iterable[str]) -> str | None:
    """The first candidate that is one of the names, whatever its case."""
    by_lower = {name.lower(): name for name in names}
    return next((by_lower[each] for each in candidates if each in by_lower), None)


def _captions(cells: Sequence[object]) -> tuple[list[str], list[str]]:
    """The captions of a row, and their ids where a caption comes as {raw, sentid}."""
    each = [entry for cell in cells for entry in listed(cell)]
    texts = [_text(entry) for entry in each]
    ids = [str(entry["sentid"]) for entry in each if isinstance(entry, Mapping) and "sentid" in entry]
    return texts, ids if len(ids) == len(texts) else []


def _text(entry: object) -> str:
    value = entry.get("raw", entry.get("caption", entry.get("text", ""))) if isinstance(entry, Mapping) else entry
    return "" if value is None else str(value).strip()


def listed(cell: object) -> list[object]:
    """The values of a cell: those of a list, also of one that is written as JSON; else the cell itself.

    >>> listed('["a dog", "it runs"]'), listed("a dog"), listed(None)
    (['a dog', 'it runs'], ['a dog'], [])
    """
    if cell is None or cell == "":
        return []
    if isinstance(cell, str) and cell.startswith("[") and cell.endswith("]"):
        try:
            value = json.loads(cell)
        except (ValueError, RecursionError):
            return [cell]
        return list(value) if isinstance(value, list) else [cell]
    return list(cell) if isinstance(cell, (list, tuple)) else [cell]
