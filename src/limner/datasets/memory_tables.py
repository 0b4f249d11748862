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
from limner.core.arrow import arrow_module
from limner.core.collection import Collection
from limner.core.errors import LimnerError, shown
from limner.core.paths import damage_told, read_json, refuse_irregular
from limner.datasets.assembly import Assembly, Check
from limner.datasets.caption_tables import TableReader
from limner.datasets.text_files import At, existing

Row = Mapping[str, Any]
_AT_ONCE = 1000  # rows of an Arrow table converted to Python values at once


def load_object(
    given: object,
    *,
    split: str | None = None,
    name: str | None = None,
    images: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    check_images: Check = False,
    strict: bool = False,
) -> Collection:
    """Loads a collection from a table in memory.

    Args:
        given: A table, or a mapping from split names to tables.
        split: Only this split.
        name: Name in reports; the kind of table by default.
        images: Folder that file names are relative to; the working directory by default.
        columns: Column names of the table, e.g. `{"image": "photo", "caption": "alt"}`.
        check_images: Open every image; skip and list those that cannot be opened.
        strict: Raise an error instead of listing a warning.

    >>> load_object({"image": ["dog.jpg", "cat.jpg"], "caption": ["A dog.", "A cat."]})
    Collection('dict': 2 images, 2 texts)
    """
    called = name or type(given).__name__
    made = Assembly(called, strict=strict)
    reader = TableReader(made, columns or {})
    for part, table in _parts(given).items():
        place = Path(called if part is None else f"{called}[{part!r}]")
        reader.add_all(_placed(rows(table), place, part), place)
    return made.finish(split=split, images=images, beside=[Path()], check_images=check_images)


def load_saved(
    path: str | Path,
    *,
    split: str | None = None,
    images: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
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
    made = Assembly(folder.resolve().name, strict=strict)
    reader = TableReader(made, columns or {})
    for part, place in _saved_parts(folder).items():
        reader.add_all(_placed(_saved_rows(place), place, part), place)
    return made.finish(split=split, images=images, beside=[folder, Path()], check_images=check_images)


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


def _parts(given: object) -> dict[str | None, object]:
    """Tables by split; {None: table} if there is only one."""
    if isinstance(given, Mapping) and given and all(_is_table(table) for table in given.values()):
        return dict(given)
    return {None: given}


def _is_table(given: object) -> bool:
    return hasattr(given, "column_names") or (hasattr(given, "columns") and hasattr(given, "shape"))


def _placed(found: Iterable[Row], place: Path, split: str | None) -> Iterator[tuple[At, dict[str, object]]]:
    """Rows with their numbers, from 1, and their split."""
    for number, row in enumerate(found, start=1):
        yield At(place, number), {**row, **({} if split is None or "split" in row else {"split": split})}


def rows(given: Any) -> Iterator[Row]:
    """The rows of any table, each as {column: value}."""
    if is_lazy(given):
        given = given.collect()
    if hasattr(given, "with_format") and hasattr(given, "iter") and hasattr(given, "num_rows"):  # a Dataset
        parts = given.with_format("arrow").iter(_AT_ONCE)
        return (row for part in parts for row in _arrow_rows(part))
    if hasattr(given, "to_pylist") or hasattr(given, "__arrow_c_stream__"):
        return _arrow_rows(given)
    if hasattr(given, "columns") and hasattr(given, "to_dict"):  # pandas before version 2.2
        return _filled(given.to_dict("records"))
    if isinstance(given, Mapping):
        return _by_column(given)
    if isinstance(given, Iterable) and not isinstance(given, (str, bytes)):
        return _listed(given)
    raise LimnerError(
        f"got {type(given).__name__}: expected the name of a data set, a path, or a table (a DataFrame, an Arrow "
        "table, a Dataset, {column: values}, a list of rows or of (image, caption) pairs)"
    )


def _arrow_rows(given: Any) -> Iterator[Row]:
    pa = arrow_module("a table of another library")

    if hasattr(given, "dtypes") and any(str(kind) == "object" for kind in getattr(given.dtypes, "values", ())):
        yield from _filled(given.to_dict("records"))  # pandas with images, which Arrow does not support
        return
    held = given if hasattr(given, "to_pylist") else pa.table(given)
    parts = held.to_batches(max_chunksize=_AT_ONCE) if hasattr(held, "to_batches") else [held]
    for part in parts:
        yield from part.to_pylist()


def _filled(found: Iterable[dict[object, object]]) -> Iterator[Row]:
    """Rows of a pandas table, with None instead of NaN for missing values."""
    for row in found:
        yield {str(name): None if isinstance(cell, float) and cell != cell else cell for name, cell in row.items()}


def _by_column(given: Mapping[str, Any]) -> Iterator[Row]:
    lengths = {str(name): len(column) for name, column in given.items()}
    if len(set(lengths.values())) != 1:
        counts = ", ".join(f"{name}: {length:,}" for name, length in lengths.items())
        raise LimnerError(f"columns of different lengths ({counts}): expected one value per row in each")
    for cells in zip(*given.values(), strict=True):
        yield dict(zip(lengths, cells, strict=True))


def _listed(given: Iterable[object]) -> Iterator[Row]:
    for number, row in enumerate(given):
        if isinstance(row, Mapping):
            yield row
        elif isinstance(row, (tuple, list)) and len(row) == 2:
            yield {"image": row[0], "caption": row[1]}
        else:
            raise LimnerError(
                f"row {number} is {shown([str(row)])}: expected {{column: value}}, or an (image, caption) pair"
            )
