"""Loaders for your own data: plain tables (csv, tsv, jsonl, parquet) and folders of images with a table of captions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from limner.core.arrow_tables import parquet_batches
from limner.core.collection import Collection
from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.images import Value, as_value
from limner.core.paths import damage_told, refuse_irregular
from limner.datasets.assembly import Assembly, Check
from limner.datasets.image_folder import IMAGE_ENDINGS, has_images, load_images
from limner.datasets.text_files import (
    At,
    JsonObject,
    existing,
    json_lines,
    json_list,
    lines,
    number,
    optional_file,
    refuse,
    table,
)

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "image": (
        *("image", "file_name", "filename", "image_path", "filepath", "image_name", "image_file"),
        *("path", "img", "file", "image_id"),
    ),
    "caption": ("caption", "text", "sentence", "description"),
    "captions": ("captions",),
    "id": ("id", "caption_id", "text_id", "sentid"),
    "image_id": ("image_id",),
    "split": ("split",),
    "language": ("language", "lang"),
    "grade": ("grade",),
}
"""Role -> accepted column names; the first one found is used."""

Columns = Mapping[str, str] | str
"""Column names by role: {"image": "path", "caption": "alt"}, or "image=path, caption=alt"."""

ENDINGS = (".csv", ".tsv", ".txt", ".jsonl", ".ndjson", ".json", ".parquet")
_EACH = "captions_"
"""Columns whose names begin so have a list with a value for each of the `captions` of a row."""
_CAPTION_FILES = tuple(f"{stem}{ending}" for stem in ("captions", "metadata") for ending in ENDINGS)


def load_table(
    path: str | Path,
    *,
    split: str | None = None,
    images: str | Path | None = None,
    columns: Columns | None = None,
    quoted: bool = True,
    encoding: str = "utf-8",
    check_images: Check = False,
    strict: bool = False,
) -> Collection:
    r"""Loads a csv, tsv, txt, jsonl, json or parquet table, one caption per row; text files may be gzipped.

    A csv or txt is separated by commas, semicolons or tabs, by its header. A json file is a list of objects, as BLIP's.

    Columns: `image` (a file name, path or any id) and `caption`; optional `id` of the caption, `image_id`, `split`,
        `language` and `grade` (1 by default; 0 means judged and not relevant). jsonl and parquet may have a list
        `captions` instead of `caption`, with lists `captions_id`, `captions_grade` and so on beside it. Further columns
        become fields of the texts, or of the images if they begin with `image_` or name a file (`file_name`). Without
        ids, captions are named `dog.jpg#0`, `dog.jpg#1`, ... With a column of grades, several rows may judge the same
        caption for different images: rows with the same id or, without ids, with the same words.

    Args:
        path: The table.
        split: Only this split.
        images: Folder that the names in `image` are relative to; the table's own folder and its `images/` by default.
        columns: Column names of the table, e.g. `{"image": "photo", "caption": "alt"}` or "image=photo,caption=alt".
        quoted: Whether double quotes enclose cells; with False they are ordinary characters.
        encoding: Encoding of a text table; never guessed.
        check_images: Open every image; skip and list those that cannot be opened.
        strict: Raise an error instead of listing a warning.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "captions.csv")
    ...     _ = file.write_text("image,caption\ndog.jpg,A dog.\ndog.jpg,It runs.\n")
    ...     load_table(file)
    Collection('captions': 1 images, 2 texts)
    """
    file = existing(path, what="table")
    assembly = Assembly(file.name.split(".")[0], strict=strict)
    TableReader(assembly, columns or {}).add_all(table_rows(file, quoted=quoted, encoding=encoding), file)
    folders = [file.parent, file.parent / "images"]
    return assembly.finish(split=split, images=images, folders=folders, check_images=check_images)


def load_folder(
    path: str | Path,
    *,
    split: str | None = None,
    captions: str | Path | None = None,
    columns: Columns | None = None,
    quoted: bool = True,
    encoding: str = "utf-8",
    check_images: Check = False,
    strict: bool = False,
) -> Collection:
    """Loads a folder of images with a table of captions in it or next to it (`captions.csv`, `metadata.jsonl`, ...).

    Images without a caption are listed as a warning. If a table next to the folder names none of its images, it is a
    folder of images without captions.

    Args:
        path: The folder, or one that contains `images/`.
        split: Only this split.
        captions: The table, if it has another name.
        columns: As in `load_table`, like the arguments below.
        quoted: Whether double quotes enclose cells.
        encoding: Encoding of a text table.
        check_images: Open every image; skip and list those that cannot be opened.
        strict: Raise an error instead of listing a warning.
    """
    folder = existing(path, what="folder of images")
    file = _captions_beside(folder) if captions is None else existing(captions, what="table of captions")
    assembly = Assembly(folder.resolve().name, strict=strict)
    TableReader(assembly, columns or {}).add_all(table_rows(file, quoted=quoted, encoding=encoding), file)
    named = list(map(str, assembly.images.values))
    places = (folder, folder / "images")
    images = next((place for place in places if any(os.path.isfile(place / name) for name in named)), None)
    if images is None and captions is None and file.parent != folder and has_images(folder):
        return load_images(folder, split=split, check_images=check_images, strict=strict)  # the captions of others
    images = images or folder
    _note_uncaptioned(assembly, images, set(named), places)
    return assembly.finish(split=split, images=images, check_images=check_images)


def holds_pairs(file: Path) -> bool:
    """Whether a table has an image column and a caption column with the usual names."""
    try:
        _, first = next(iter(table_rows(file)))
    except (StopIteration, LimnerError):
        return False
    has = [any(name in first for name in COLUMNS[role]) for role in ("image", "caption", "captions")]
    return has[0] and (has[1] or has[2])


def _captions_beside(folder: Path) -> Path:
    file = optional_file(folder, _CAPTION_FILES) or optional_file(folder.parent, _CAPTION_FILES)
    if file is None:
        raise LimnerError(f"no table of captions in {folder} or next to it: expected captions.csv, metadata.jsonl, ...")
    return file


def _note_uncaptioned(assembly: Assembly, images: Path, named: set[str], places: Iterable[Path]) -> None:
    captioned = {images / name for name in named}
    files = (file for place in places if place.is_dir() for file in sorted(place.iterdir()))
    bare = [file.name for file in files if file.suffix.lower() in IMAGE_ENDINGS and file not in captioned]
    if bare:
        assembly.notes.add(At(images), f"images without a caption: {len(bare):,} ({shown(bare)}); left out")


def table_rows(file: Path, *, quoted: bool = True, encoding: str = "utf-8") -> Iterator[tuple[At, JsonObject]]:
    """The rows of a table by the ending of its file, each with its position."""
    refuse_irregular(file, what="table")
    suffixes = [s.lower() for s in file.suffixes]
    ending = suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else "".join(suffixes[-1:])
    if ending not in ENDINGS:
        raise LimnerError(f"{file}: a table must end in {', '.join(ENDINGS)}; got {ending or 'no ending'!r}")
    if ending == ".parquet":
        return _parquet_rows(file)
    if ending in (".jsonl", ".ndjson"):
        return json_lines(file)
    if ending == ".json":
        return json_list(file)
    return table(file, delimiter=_delimiter(file, ending, encoding), quoted=quoted, encoding=encoding)


def _delimiter(file: Path, ending: str, encoding: str) -> str:
    """The separator of the header: of a csv a comma, else a semicolon or a tab; of a txt a tab first."""
    if ending == ".tsv":
        return "\t"
    _, header = next(lines(file, encoding=encoding), (1, ""))
    order = "\t,;" if ending == ".txt" else ",;\t"
    return next((each for each in order if each in header), ",")


def _parquet_rows(file: Path) -> Iterator[tuple[At, JsonObject]]:
    row = 0
    refuse_irregular(file, what="table")
    with damage_told(file, what="parquet table"):
        for batch in parquet_batches(file):
            for entry in batch.to_pylist():
                row += 1
                yield At(file, row), entry


def columns_by_role(columns: Columns) -> dict[str, str]:
    """The names of columns by role, also as they are written on a command line.

    >>> columns_by_role("image=path, caption=alt")
    {'image': 'path', 'caption': 'alt'}
    """
    if not isinstance(columns, str):
        return dict(columns)
    pairs = [each.partition("=") for each in columns.split(",")]
    if not all(role.strip() and name.strip() for role, _, name in pairs):
        raise LimnerError(f"columns={columns!r}: expected ROLE=NAME, ..., such as columns=image=path,caption=alt")
    return {role.strip(): name.strip() for role, _, name in pairs}


class TableReader:
    """Adds table rows to an assembly, by column role."""

    def __init__(self, assembly: Assembly, columns: Columns) -> None:
        self.assembly = assembly
        self.columns = columns_by_role(columns)
        for role in self.columns:
            if role not in COLUMNS:
                raise UnknownName("column role", role, COLUMNS)
        self.key_of: dict[str, str] = {}
        self.image_of: dict[object, str] = {}

    def add_all(self, rows: Iterator[tuple[At, JsonObject]], file: Path) -> None:
        """Adds all rows; refuses an empty table."""
        empty = True
        for at, row in rows:
            self._add(row, at)
            empty = False
        if empty:
            refuse(At(file), "no rows; expected one caption per row below the header")

    def _add(self, row: Mapping[str, object], at: At) -> None:
        named = _named(row, self.columns, at)
        cells = {role: row[name] for role, name in named.items()}
        value, image = _image(cells, at)
        if not image:
            self.assembly.notes.add(at, "no image in this row; caption left out")
            return
        if image == f"row-{at.line}" and value is not None:
            image = self.image_of.setdefault(_content(value), image)
        about_image, about_text = _fields(row, named)
        self.assembly.image(image, at, split=str(cells.get("split") or ""), value=value, fields=about_image)
        captions = _captions(cells, at)
        for place, caption in enumerate(captions):
            caption_cells, about = _of_caption(row, place, len(captions), cells, about_text, at)
            self._add_caption(caption, image, caption_cells, at, about)

    def _add_caption(
        self, caption: str, image: str, cells: Mapping[str, object], at: At, fields: Mapping[str, object]
    ) -> None:
        grade = _grade(cells, at)
        key = "" if cells.get("id") is None else str(cells["id"])
        if "grade" in cells:
            key = key or self.key_of.get(caption, "")
            if self._judged_again(caption, image, key):
                self.assembly.pair(image, key, grade)
                return
        key = key or self.assembly.next_text(image)
        if self.assembly.text(key, caption, image, at, grade=grade, fields=fields):
            self.key_of.setdefault(caption, key)

    def _judged_again(self, caption: str, image: str, key: str) -> bool:
        texts = self.assembly.texts
        same_text = key in texts.row and texts.values[texts.row[key]] == caption
        return same_text and not self.assembly.paired(image, key)


def _named(row: Mapping[str, object], columns: Mapping[str, str], at: At) -> dict[str, str]:
    """The column name of each role in this row."""
    for role, name in columns.items():
        if name not in row:
            refuse(at, f"no column {name!r} for {role!r}; there are {shown(row, most=12)}")
    by_role = {role: next((n for n in names if n in row), None) for role, names in COLUMNS.items()} | dict(columns)
    named = {role: name for role, name in by_role.items() if name is not None}
    if "image" not in named or not {"caption", "captions"} & set(named):
        role_missing = "image" if "image" not in named else "caption"
        names = " or ".join(map(repr, COLUMNS[role_missing]))
        refuse(
            at,
            f"no column {names}; there are {shown(row, most=12)}; name it with columns={{{role_missing!r}: NAME}} "
            f"(-O columns={role_missing}=NAME)",
        )
    return named


def _fields(row: Mapping[str, object], named: Mapping[str, str]) -> tuple[dict[str, object], dict[str, object]]:
    """The columns without a role, as fields of the image and fields of the text."""
    role_columns = set(named.values())
    further = {name: cell for name, cell in row.items() if name not in role_columns}
    about_image = {name.removeprefix("image_"): cell for name, cell in further.items() if _is_of_image(name)}
    about_text = {name: cell for name, cell in further.items() if not _is_of_image(name)}
    if "language" in named:
        about_text["language"] = row[named["language"]]
    return about_image, about_text


def _is_of_image(column: str) -> bool:
    """Whether a column without a role says something about the image, such as the name of its file."""
    return column.startswith("image_") or column in COLUMNS["image"]


def _of_caption(
    row: Mapping[str, object],
    place: int,
    count: int,
    cells: Mapping[str, object],
    fields: Mapping[str, object],
    at: At,
) -> tuple[Mapping[str, object], Mapping[str, object]]:
    """The cells and fields of one of several captions: `captions_id`, `captions_grade`, ... have a value for each."""
    lists = {name.removeprefix(_EACH): cell for name, cell in row.items() if name.startswith(_EACH)}
    if "captions" not in cells or not lists:
        return cells, fields
    for name, cell in lists.items():
        if not isinstance(cell, list) or len(cell) != count:
            refuse(
                at, f"{_EACH}{name} is {shown([str(cell)])}, expected a list with a value for each of {count} captions"
            )
    of_caption = {name: cell[place] for name, cell in lists.items() if isinstance(cell, list)}
    roles = {name: cell for name, cell in of_caption.items() if name in ("id", "grade")}
    about = {name: cell for name, cell in fields.items() if not name.startswith(_EACH)}
    return {**cells, **roles}, about | {name: cell for name, cell in of_caption.items() if name not in roles}


def _image(cells: Mapping[str, object], at: At) -> tuple[Value, str]:
    """The image (a file name, bytes, or a decoded image) and its id."""
    cell, key = cells["image"], cells.get("image_id")
    if isinstance(cell, dict):  # the format of the datasets library for images in parquet
        name, content = cell.get("path"), cell.get("bytes")
        if not isinstance(name, str | None) or not isinstance(content, bytes | None):
            refuse(at, f"the image is {shown(cell.values())}, expected a path (text) and bytes")
        return content or name, str(key or name or f"row-{at.line}")
    if isinstance(cell, list):
        refuse(at, f"the image is a list of {len(cell)}, expected the name of a file, or its bytes")
    if isinstance(cell, (bytes, bytearray, np.ndarray)) or callable(cell) or hasattr(cell, "getexif"):
        return as_value(cell, name=f"{at}"), str(key or getattr(cell, "filename", "") or f"row-{at.line}")
    name = "" if cell is None else str(cell).strip()
    return name, str(key) if key not in (None, "") and name else name


def _content(value: object) -> object:
    """A key for an image without a name; rows with the same content share a key."""
    return value.tobytes() if hasattr(value, "getexif") and hasattr(value, "tobytes") else value


def _captions(cells: JsonObject, at: At) -> list[str]:
    given_captions = cells["caption"] if "caption" in cells else cells["captions"]
    listed = list(given_captions) if isinstance(given_captions, (list, tuple, np.ndarray)) else [given_captions]
    for caption in listed:
        if caption is not None and not isinstance(caption, str):
            refuse(at, f"the caption is {caption!r}, expected text")
    return [caption or "" for caption in listed]


def _grade(cells: Mapping[str, object], at: At) -> float:
    if cells.get("grade") in (None, ""):
        return 1.0
    grade = number(cells["grade"], at, what="grade")
    if grade < 0:
        refuse(at, f"grade {grade:g} is negative; expected 0 (not relevant) or above")
    return grade
