"""Data sets of the Hugging Face hub by name: hf:OWNER/NAME, as tables, as corpus and queries, or as shards."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from limner.core.arrow_tables import parquet_batches, parquet_module
from limner.core.collection import Collection
from limner.core.errors import LimnerError, MissingExtra, UnknownName, shown
from limner.core.extras import missing
from limner.core.images import open_image
from limner.core.paths import damage_told, refuse_bomb
from limner.datasets.assembly import Assembly, Check, split_name
from limner.datasets.caption_tables import Columns, TableReader, columns_by_role, table_rows
from limner.datasets.hub_classes import (
    CLASS_NAMES,
    HubColumns,
    add_class_shards,
    add_labelled,
    class_label,
    hub_columns,
    load_retrieval,
    refuse_incomplete,
)
from limner.datasets.hub_repository import CONVERTED, BySplit, HubData, HubLayout, InParquet, content_hashes, hub_layout
from limner.datasets.image_folder import IMAGE_ENDINGS
from limner.datasets.text_files import At, JsonObject
from limner.datasets.webdataset import add_shard

if TYPE_CHECKING:
    import pyarrow as pa
    from PIL.Image import Image


def load_hub(
    path: str | Path,
    *,
    split: str | None = None,
    config: str | None = None,
    revision: str | None = None,
    columns: Columns | None = None,
    direction: str | None = None,
    templates: str | Path | Sequence[str] | None = None,
    check_images: Check = False,
    strict: bool = False,
) -> Collection:
    """Loads a data set of the hub: fetched once, file by file, and read from the cache of the hub's library afterwards.

    Read are tables (Parquet, or csv and jsonl with images beside them or in a zip file), corpus, queries and qrels as
    MTEB and ViDoRe have them, and shards of WebDataset. Images stay where they are and are read one by one. The commit
    is in `Collection.origin` and in reports.

    Args:
        path: OWNER/NAME, or OWNER/NAME@REVISION.
        split: Only this split; the files of others are not fetched.
        config: The configuration, such as a language; by default the only one, or the one that the data set declares.
        revision: A branch, a tag or a commit; "main" by default.
        columns: Columns by role (image, caption, caption_id, image_id, split, language), if limner does not find them.
        direction: For corpus and queries with images on both sides or none: "t2i" if the corpus is the images.
        templates: For images with classes and no captions: prompts with {} or {c} for the class, as for `classes:DIR`.
        check_images: Open every image; skip and list those that cannot be opened.
        strict: Raise an error instead of listing a warning.
    """
    absent = missing("huggingface_hub", "pyarrow", "yaml")
    if absent:
        raise MissingExtra("a data set of the hub", absent, "hub")
    name, at, named_revision = str(path).partition("@")
    if at and (revision or not named_revision):
        raise LimnerError(f"hf:{path}: expected one revision, as hf:OWNER/NAME@REVISION or revision=REVISION")
    data, layout = _located(name, revision or named_revision or None)
    called = PurePosixPath(name).name
    sides = layout.retrieval(config) if layout.kind == "parquet" else None
    if sides is not None:
        loaded = load_retrieval(data, sides, name=f"{called}-{config}" if config else called, split=split,
                                direction=direction)  # fmt: skip
        return replace(loaded, origin=data.origin)
    part, files = layout.chosen(config, name=name)
    assembly = Assembly(called if len(layout.configs) == 1 else f"{called}-{part}", strict=strict)
    selection = _Selection(
        layout.kind, _of_split(files, split, name), columns_by_role(columns or {}), templates, len(files) > 1
    )
    _add_files(assembly, data, selection)
    loaded = assembly.finish(split=split, check_images=check_images)
    return replace(loaded, origin=data.origin)


def _located(name: str, revision: str | None) -> tuple[HubData, HubLayout]:
    """The repository and its data files; those that the hub converted, if it has no others."""
    data = HubData.named(name, revision)
    layout = hub_layout(data.paths, data.card())
    if layout is not None:
        return data, layout
    present = shown(data.paths, most=6)
    refusal = f"data set {name!r} has no files that limner reads: expected Parquet, tar, csv or jsonl; it has {present}"
    if revision is not None:
        raise LimnerError(refusal)
    data.remember()  # the list of files, so that the next run needs no hub
    try:
        converted = HubData.named(name, CONVERTED)
    except LimnerError as error:
        raise LimnerError(f"{refusal}; and the hub has not converted it") from error
    layout = hub_layout(converted.paths, {})
    if layout is None:
        raise LimnerError(refusal)
    return converted, layout


def _of_split(files: BySplit, split: str | None, name: str) -> BySplit:
    """The files of a split, if they are named by split."""
    if split is None or set(files) == {""}:
        return files
    chosen_split = split_name(split)
    if chosen_split in files:
        return {chosen_split: files[chosen_split]}
    if len(files) == 1:  # all in one file, whose rows may have a split
        return files
    raise UnknownName("split", split, files, of=repr(name))


@dataclass(frozen=True)
class _Selection:
    """What is read of a repository: the kind and names of its files, and the options of the loader.

    Args:
        kind: "parquet", "tar" (shards of WebDataset) or "table" (csv and jsonl with files of images).
        files: Paths by split, of the chosen splits.
        columns: Columns by role.
        templates: Prompts for images with classes.
        has_splits: Whether the repository has files of several splits, which may use the same names.
    """

    kind: str
    files: BySplit
    columns: Mapping[str, str]
    templates: str | Path | Sequence[str] | None
    has_splits: bool


def _add_files(assembly: Assembly, data: HubData, selection: _Selection) -> None:
    if selection.kind == "tar":
        _add_shards(assembly, data, selection)
        return
    paths = [path for each in selection.files.values() for path in each]
    if selection.kind == "table":
        paths += [path for path in data.paths if path.lower().endswith((*IMAGE_ENDINGS, ".zip"))]
    folder = data.fetched(paths)
    named = [(split, path) for split, each in selection.files.items() for path in each]
    if selection.kind == "table":
        images = _Images(folder, data.paths)
        for split, path in named:
            place = f"{path} of {data.listing.name}"
            _add_table(assembly, folder / path, images, selection.columns, split=split, place=place)
    else:
        _add_parquet_files(assembly, folder, named, selection, name=data.listing.name)


def _add_shards(assembly: Assembly, data: HubData, selection: _Selection) -> None:
    if CLASS_NAMES in data.paths:
        add_class_shards(assembly, data, selection.files, selection.templates, has_splits=selection.has_splits)
        return
    folder = data.fetched([path for each in selection.files.values() for path in each])
    # This file marks the shards of CLIP_benchmark, where each line of a text is a caption.
    by_line = any(PurePosixPath(path).name == "nshards.txt" for path in data.paths)
    for split, each in selection.files.items():
        prefix = f"{split}/" if split and selection.has_splits else ""
        for path in each:
            add_shard(assembly, folder / path, split=split or None, captions_by_line=by_line, prefix=prefix)


# --- Parquet ----------------------------------------------------------------------------------------------------


def _add_parquet_files(
    assembly: Assembly, folder: Path, named: Sequence[tuple[str, str]], selection: _Selection, *, name: str
) -> None:
    """Adds Parquet files of captions, or of classes if they have none."""
    first = folder / named[0][1]
    roles, images = parquet_roles(first, selection.columns, place=name)
    label = None if roles.captions or roles.image not in images else class_label(first)
    if label is not None:
        add_labelled(assembly, [(split, folder / path) for split, path in named], label, roles, selection.templates)
        return
    for split, path in named:
        place, one_split = f"{path} of {name}", len(selection.files) == 1
        _add_parquet(assembly, folder / path, selection.columns, split=split, place=place, one_split=one_split)


def _add_parquet(
    assembly: Assembly, file: Path, columns: Mapping[str, str], *, split: str, place: str, one_split: bool
) -> None:
    chosen, images = parquet_roles(file, columns, place=place)
    with parquet_module("a data set of the hub").ParquetFile(file) as table:
        names = list(table.schema_arrow.names)
    refuse_incomplete(chosen, names, place=place)
    has_pixels = chosen.image in images
    keys = _keys(file, chosen, has_pixels=has_pixels)
    TableReader(assembly, {}).add_all(
        _parquet_rows(file, chosen, images, keys, split=split, one_split=one_split, has_pixels=has_pixels), file
    )


def parquet_roles(file: Path, columns: Mapping[str, str], *, place: str) -> tuple[HubColumns, list[str]]:
    """The columns of a Parquet file by what they hold, and those whose type is an image."""
    with damage_told(file, what="parquet file"), parquet_module("a data set of the hub").ParquetFile(file) as table:
        schema = table.schema_arrow
    images = [field.name for field in schema if _is_image(field.type)]
    texts = [field.name for field in schema if _is_text(field.type)]
    return hub_columns(schema.names, images=images, texts=texts, chosen_columns=columns, place=place), images


def _is_image(kind: pa.DataType) -> bool:
    import pyarrow.types as kinds

    if kinds.is_struct(kind):
        return any(field.name == "bytes" and _is_image(field.type) for field in kind)
    return bool(kinds.is_binary(kind) or kinds.is_large_binary(kind))


def _is_text(kind: pa.DataType) -> bool:
    """Whether a column has texts, lists of them, or captions as {raw, sentid}."""
    import pyarrow.types as kinds

    if kinds.is_list(kind) or kinds.is_large_list(kind):
        return _is_text(kind.value_type)
    if kinds.is_struct(kind):
        return any(field.name in ("raw", "caption", "text") for field in kind)
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind))


def _keys(file: Path, columns: HubColumns, *, has_pixels: bool) -> Iterator[str] | None:
    """Hashes of the images of a table without ids, in which an image may come once for each of its captions."""
    if columns.image_id is not None or not has_pixels:
        return None
    return content_hashes(str(file), str(columns.image))


def _parquet_rows(
    file: Path,
    columns: HubColumns,
    images: list[str],
    keys: Iterator[str] | None,
    *,
    split: str,
    one_split: bool,
    has_pixels: bool,
) -> Iterator[tuple[At, dict[str, object]]]:
    row = 0
    with parquet_module("a data set of the hub").ParquetFile(file) as table:
        light = [name for name in table.schema_arrow.names if name not in images]
    for batch in parquet_batches(file, columns=light):
        for cells in batch.to_pylist():
            key = f"{file.stem}:{row}" if keys is None else next(keys)
            name = str(cells.get(columns.image_id or "") or key)
            image = (
                InParquet(str(file), row, str(columns.image), name) if has_pixels else cells.get(columns.image or "")
            )
            yield At(file, row + 1), _with_split(columns.row(cells, image, key), split, one_split=one_split)
            row += 1


def _with_split(row: dict[str, object], split: str, *, one_split: bool) -> dict[str, object]:
    """The row with the split of its file, unless all are in one file and rows have their own."""
    if not split or (one_split and row.get("split")):
        return row
    return {**row, "split": split}


# --- tables with files of images --------------------------------------------------------------------------------


@dataclass(frozen=True)
class InZip:
    """An image in a zip file, read when it is called."""

    path: str
    name: str

    def __call__(self) -> Image:
        """Opens the image."""
        archive = _archive(self.path)
        entry = archive.getinfo(self.name)
        refuse_bomb(entry.file_size, entry.compress_size, where=f"{self.name} in {self.path}")
        with damage_told(self.path, what="zip file"):
            return open_image(archive.read(entry), name=self.name)


@lru_cache(maxsize=4)
def _archive(path: str) -> zipfile.ZipFile:
    with damage_told(path, what="zip file", mend="download it again"):
        return zipfile.ZipFile(path)


class _Images:
    """The images of a repository, as files and in zip files, by the last part of their names."""

    def __init__(self, folder: Path, paths: list[str]) -> None:
        self._by_name: dict[str, str | InZip] = {}
        for path in paths:
            if path.lower().endswith(IMAGE_ENDINGS):
                self._by_name[PurePosixPath(path).name] = str(folder / path)
            elif path.lower().endswith(".zip"):
                for entry in _archive(str(folder / path)).namelist():
                    if entry.lower().endswith(IMAGE_ENDINGS) and not entry.startswith("__MACOSX/"):
                        self._by_name[PurePosixPath(entry).name] = InZip(str(folder / path), entry)

    def find(self, name: object) -> str | InZip | None:
        return self._by_name.get(PurePosixPath(str(name)).name)


def _add_table(
    assembly: Assembly, file: Path, images: _Images, columns: Mapping[str, str], *, split: str, place: str
) -> None:
    rows = list(table_rows(file))
    names = list(rows[0][1]) if rows else []
    texts = [name for name in names if any(isinstance(cells.get(name), (str, list)) for _, cells in rows[:100])]
    chosen = hub_columns(names, images=[], texts=texts, chosen_columns=columns, place=place)
    refuse_incomplete(chosen, names, place=place)
    TableReader(assembly, {}).add_all(_table_rows(rows, chosen, images, split), file)


def _table_rows(
    rows: list[tuple[At, JsonObject]], columns: HubColumns, images: _Images, split: str
) -> Iterator[tuple[At, dict[str, object]]]:
    for at, cells in rows:
        name = str(cells.get(columns.image or "") or "")
        image = images.find(name)
        yield at, _with_split(columns.row(cells, name if image is None else image, name), split, one_split=True)
