"""Tables in memory, as in notebooks, and folders saved by the datasets library.

Any table is read like a table in a file (see `limner.datasets.caption_tables`): a pandas or polars DataFrame, an Arrow
table, a Dataset or DatasetDict of the datasets library, {column: values}, a list of rows, or a list of (image, caption)
pairs. Images may be paths, bytes, Pillow images or arrays of pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from limner.core.arrays import is_lazy
from limner.core.arrow_tables import arrow_module
from limner.core.collection import Collection
from limner.core.errors import LimnerError, shown
from limner.core.paths import damage_told, read_json, refuse_irregular
from limner.datasets.assembly import Assembly, Check
from limner.datasets.caption_tables import Columns, TableReader
from limner.datasets.text_files import At, JsonObject, existing

Row = JsonObject
_AT_ONCE = 1000  # rows of an Arrow table converted to Python values at once


def load_object(
    source: object,
    *,
    split: str | None = None,
    name: str | None = None,
    images: str | Path | None = None,
    columns: Columns | None = None,
    check_images: Check = False,
    strict: bool = False,
) -> Collection:
    """Loads a collection from a table in memory.

    Args:
        source: A table, or a mapping from split names to tables.
        split: Only this split.
        name: Name in reports; the kind of table by default.
        images: Folder that file names are relative to; the working directory by default.
        columns: Column names of the table, e.g. `{"image": "photo", "caption": "alt"}`.
        check_images: Open every image; skip and list those that cannot be opened.
        strict: Raise an error instead of listing a warning.

    >>> load_object({"image": ["dog.jpg", "cat.jpg"], "caption": ["A dog.", "A cat."]})
    Collection('dict': 2 images, 2 texts)
    """
    called = name or type(source).__name__
    assembly = Assembly(called, strict=strict)
    reader = TableReader(assembly, columns or {})
    for part, table in _parts(source).items():
        place = Path(called if part is None else f"{called}[{part!r}]")
        reader.add_all(_placed(rows(table), place, part), place)
    return assembly.finish(split=split, images=images, folders=[Path()], check_images=check_images)


def load_saved(
    path: str | Path,
    *,
    split: str | None = None,
    images: str | Path | None = None,
    columns: Columns | None = None,
    check_images: Check = False,
    strict: bool = False,
) -> Collection:
    """Loads a folder written by `Dataset.save_to_disk` or `DatasetDict.save_to_disk`, without the datasets library.

    Args:
        path: The folder.
        split: Only this split.
        images: Folder that file names are relative to.
        columns: As in `limner.datasets.caption_tables.load_table`.
        check_images: Open every image; skip and list those that cannot be opened.
        strict: Raise an error instead of listing a warning.
    """
    folder = existing(path, what="folder of the datasets library")
    assembly = Assembly(folder.resolve().name, strict=strict)
    reader = TableReader(assembly, columns or {})
    for part, place in _saved_parts(folder).items():
        reader.add_all(_placed(_saved_rows(place), place, part), place)
    return assembly.finish(split=split, images=images, folders=[folder, Path()], check_images=check_images)


def _saved_parts(folder: Path) -> dict[str | None, Path]:
    listing = folder / "dataset_dict.json"
    if not listing.is_file():
        return {None: folder}
    named = read_json(listing, what="list of splits")
    splits = named.get("splits") if isinstance(named, dict) else None
    if not isinstance(splits, list) or not all(isinstance(s, str) and Path(s).name == s for s in splits):
        raise LimnerError(f"{listing}: expected {{'splits': [names of folders next to it]}}")
    return {split: folder / split for split in splits}


def _saved_rows(folder: Path) -> Iterator[Row]:
    """The rows of one split, from the Arrow files listed in its state."""
    pa = arrow_module("a saved Dataset")

    state = read_json(folder / "state.json", what="state of a saved Dataset")
    with damage_told(folder, what="saved Dataset", mend="save it again with save_to_disk"):
        names = [Path(entry["filename"]).name for entry in state["_data_files"]]
    for name in names:
        refuse_irregular(folder / name, what="saved Dataset")
        with damage_told(folder / name, what="Arrow file"), pa.memory_map(str(folder / name)) as file:
            for batch in pa.ipc.open_stream(file):
                yield from _arrow_rows(batch)


def _parts(source: object) -> dict[str | None, object]:
    """Tables by split; {None: table} if there is only one."""
    if isinstance(source, Mapping) and source and all(_is_table(table) for table in source.values()):
        return dict(source)
    return {None: source}


def _is_table(source: object) -> bool:
    return hasattr(source, "column_names") or (hasattr(source, "columns") and hasattr(source, "shape"))


def _placed(table_rows: Iterable[Row], place: Path, split: str | None) -> Iterator[tuple[At, dict[str, object]]]:
    """Rows with their numbers, from 1, and their split."""
    for number, row in enumerate(table_rows, start=1):
        yield At(place, number), {**row, **({} if split is None or "split" in row else {"split": split})}


def rows(source: Any) -> Iterator[Row]:
    """The rows of any table, each as {column: value}."""
    if is_lazy(source):
        source = source.collect()
    if hasattr(source, "with_format") and hasattr(source, "iter") and hasattr(source, "num_rows"):  # a Dataset
        parts = source.with_format("arrow").iter(_AT_ONCE)
        return (row for part in parts for row in _arrow_rows(part))
    if hasattr(source, "to_pylist") or hasattr(source, "__arrow_c_stream__"):
        return _arrow_rows(source)
    if hasattr(source, "columns") and hasattr(source, "to_dict"):  # pandas before version 2.2
        return _filled(source.to_dict("records"))
    if isinstance(source, Mapping):
        return _by_column(source)
    if isinstance(source, Iterable) and not isinstance(source, (str, bytes)):
        return _listed(source)
    raise LimnerError(
        f"got {type(source).__name__}: expected the name of a data set, a path, or a table (a DataFrame, an Arrow "
        "table, a Dataset, {column: values}, a list of rows or of (image, caption) pairs)"
    )


def _arrow_rows(source: Any) -> Iterator[Row]:
    pa = arrow_module("a table of another library")

    if hasattr(source, "dtypes") and any(str(kind) == "object" for kind in getattr(source.dtypes, "values", ())):
        yield from _filled(source.to_dict("records"))  # pandas with images, which Arrow does not support
        return
    table = source if hasattr(source, "to_pylist") else pa.table(source)
    parts = table.to_batches(max_chunksize=_AT_ONCE) if hasattr(table, "to_batches") else [table]
    for part in parts:
        yield from part.to_pylist()


def _filled(records: Iterable[dict[object, object]]) -> Iterator[Row]:
    """Rows of a pandas table, with None instead of NaN for missing values."""
    for row in records:
        yield {str(name): None if isinstance(cell, float) and cell != cell else cell for name, cell in row.items()}


def _by_column(columns: Row) -> Iterator[Row]:
    lengths = {str(name): len(column) for name, column in columns.items()}
    if len(set(lengths.values())) != 1:
        counts = ", ".join(f"{name}: {length:,}" for name, length in lengths.items())
        raise LimnerError(f"columns of different lengths ({counts}): expected one value per row in each")
    for cells in zip(*columns.values(), strict=True):
        yield dict(zip(lengths, cells, strict=True))


def _listed(listed: Iterable[object]) -> Iterator[Row]:
    for number, row in enumerate(listed):
        if isinstance(row, Mapping):
            yield row
        elif isinstance(row, (tuple, list)) and len(row) == 2:
            yield {"image": row[0], "caption": row[1]}
        else:
            raise LimnerError(
                f"row {number} is {shown([str(row)])}: expected {{column: value}}, or an (image, caption) pair"
            )
