"""Writes a Collection as a table, as a folder of images with captions, or as qrels.

Each function returns what the format cannot store, one sentence each, so that nothing is lost silently.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Literal

import numpy as np

from limner.core.arrow_tables import arrow_module, parquet_module
from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.files import replacing, replacing_folder
from limner.core.progress import ProgressLike, counting
from limner.datasets.beir import write_beir
from limner.datasets.croissant_writing import write_croissant
from limner.datasets.image_folder import new_folder, write_image
from limner.datasets.text_files import JsonObject
from limner.datasets.trec import write_qrels
from limner.datasets.webdataset import write_webdataset

_SCALARS = (str, int, float, bool, type(None), np.generic)
_TABLES = (".csv", ".tsv", ".jsonl", ".parquet")
_QRELS = (".qrels", ".trec")
_TAKEN = ("image", "caption", "captions", "id", "image_id", "split", "grade", "lang")
"""Reserved column names; a field of that name would be misread."""


def write(
    collection: Collection, path: str | Path, *, form: str | None = None, progress: ProgressLike = None
) -> tuple[str, ...]:
    """Writes the format of the file extension: .csv, .tsv, .jsonl, .parquet, .qrels, .tar, or none for a folder.

    Args:
        collection: The collection.
        path: The file or folder.
        form: A key of `FOLDERS`, for a folder in another format than images with captions.
        progress: Called with (images written, images in total) if images are written.

    Returns:
        What the format cannot store, one sentence each.
    """
    path = Path(path)
    if form is not None:
        if form not in FOLDERS:
            raise UnknownName("form of a folder", form, FOLDERS)
        return FOLDERS[form](collection, path, progress=progress)
    if path.suffix in _TABLES:
        return write_table(collection, path)
    if path.suffix in _QRELS:
        write_qrels(collection.judgements, path)
        further = [f"qrels store only judgements: no texts, images or splits of {collection.name!r}"]
        return tuple(further + _further_judgements(collection))
    if path.suffix == "":
        return write_folder(collection, path, progress=progress)
    if path.suffix == ".tar":
        return write_webdataset(collection, path, progress=progress)
    endings = ", ".join((*_TABLES, *_QRELS, ".tar"))
    raise LimnerError(f"{path}: cannot write {path.suffix!r}; expected {endings}, or a folder")


def write_table(collection: Collection, path: str | Path) -> tuple[str, ...]:
    """Writes a table with one row per judged pair, for `tables.load_table`; image files are not copied.

    Args:
        collection: The collection.
        path: A file ending in .csv, .tsv, .jsonl or .parquet.

    Returns:
        What a table cannot store: images without text, further judgements, images that are not files, ...
    """
    path = Path(path)
    files = [_file_beside(value, path.parent) for value in collection.images.values]
    return _write_rows(collection, path, files) + _lost_images(collection, files)


def write_folder(collection: Collection, path: str | Path, *, progress: ProgressLike = None) -> tuple[str, ...]:
    """Writes every image to `images/` in a new folder, with `captions.csv` next to it.

    Files are copied, and drawn images are written as PNG. If the file name differs from the id, the column `image_id`
    has the id.

    Returns:
        What the folder cannot store, one sentence each.
    """
    folder = new_folder(path)
    with replacing_folder(folder, head="captions.csv", own=()) as draft:
        (draft / "images").mkdir()
        rows = counting(range(len(collection.images)), progress)
        files = [write_image(collection.images, row, draft / "images") for row in rows]
        return _write_rows(collection, draft / "captions.csv", files) + _lost_images(collection, files)


def write_saved(collection: Collection, path: str | Path, *, progress: ProgressLike = None) -> tuple[str, ...]:
    """Writes a new folder as `Dataset.save_to_disk` of the library datasets does: `datasets.load_from_disk` opens it.

    One row per image, with the image as it is in its file, in one part per split. If an image has several captions,
    columns of captions hold lists: `captions`, and `captions_id`, `captions_grade`, ... beside it.

    Returns:
        What the folder cannot store, one sentence each.
    """
    folder = new_folder(path)
    fields = {
        "": _storable(collection.texts, "", nested=False),
        "image_": _storable(collection.images, "image_", nested=False),
    }
    parts: dict[str, list[dict[str, object]]] = {}
    for row in _by_image(collection, fields):
        parts.setdefault(str(row.pop("split", "")), []).append(row)
    if not parts:
        raise LimnerError(f"{collection.name!r} has no judged pairs, so a data set of it would be empty")
    for split in parts:  # a split is a folder of that name
        if split in (".", "..", "rest") or Path(split).name != split:
            raise LimnerError(f"split {split!r} cannot be the name of a folder, or is taken: rename it")
    head = "dataset_dict.json" if set(parts) != {""} else "state.json"
    with replacing_folder(folder, head=head, own=()) as draft, tempfile.TemporaryDirectory() as images:
        named = {split: split or "rest" for split in parts}
        if head == "dataset_dict.json":
            (draft / head).write_text(json.dumps({"splits": list(named.values())}) + "\n", encoding="utf-8")
        count = iter(counting(range(sum(map(len, parts.values()))), progress))
        for split, rows in parts.items():
            place = draft if head == "state.json" else draft / named[split]
            place.mkdir(exist_ok=True)
            pictures = (_picture(collection.images, int(str(row["image"])), Path(images), count) for row in rows)
            _write_arrow(place, rows, pictures, named[split] if split else None)
        next(count, None)
    unseen = sum(value is None for value in collection.images.values)
    missing = (f"{unseen:,} images have no picture: only their ids were written",) if unseen else ()
    return tuple(_lost(collection, fields)) + missing


def _by_image(collection: Collection, fields: JsonObject) -> Iterator[dict[str, object]]:
    """One row per image; what belongs to its captions becomes lists if an image has several."""
    rows_by_image: dict[object, list[dict[str, object]]] = {}
    for row in _rows(collection, [str(n) for n in range(len(collection.images))], fields):
        row.setdefault("image_id", collection.images.ids[int(str(row["image"]))])
        rows_by_image.setdefault(row["image"], []).append(row)
    of_text, several = ("caption", "id", "grade", *fields[""]), any(len(rows) > 1 for rows in rows_by_image.values())
    for rows in rows_by_image.values():
        if not several:
            yield rows[0]
            continue
        lists = {name: [row[name] for row in rows] for name in of_text if name in rows[0]}
        about = {name: cell for name, cell in rows[0].items() if name not in lists}
        yield about | {"captions" if name == "caption" else f"captions_{name}": cells for name, cells in lists.items()}


_ARROW = "data-00000-of-00001.arrow"
_AT_ONCE = 256
"""Rows whose images are in memory at once."""


def _write_arrow(
    place: Path, rows: list[dict[str, object]], pictures: Iterator[dict[str, object]], split: str | None
) -> None:
    """One part of a saved Dataset: its rows, what their columns are, and its state."""
    pa = arrow_module("a saved Dataset")
    types = {name: _column_type(pa, [row[name] for row in rows]) for name in rows[0] if name != "image"}
    picture = pa.struct({"bytes": pa.binary(), "path": pa.string()})
    schema = pa.schema({"image": picture, **{name: kind for name, (kind, _) in types.items()}})
    with pa.OSFile(str(place / _ARROW), "wb") as file, pa.ipc.new_stream(file, schema) as out:
        for low in range(0, len(rows), _AT_ONCE):
            part = rows[low : low + _AT_ONCE]
            columns = [pa.array(list(islice(pictures, len(part))), picture)]
            columns += [
                pa.array([_cell(row[name], feature) for row in part], kind) for name, (kind, feature) in types.items()
            ]
            out.write_batch(pa.record_batch(columns, schema=schema))
    info = {"features": {"image": {"_type": "Image"}, **{name: feature for name, (_, feature) in types.items()}}}
    (place / "dataset_info.json").write_text(json.dumps(info, indent=1) + "\n", encoding="utf-8")
    state: dict[str, object] = {
        "_data_files": [{"filename": _ARROW}],
        "_fingerprint": _fingerprint(rows, split),
        "_split": split,
    }
    state |= {"_format_columns": None, "_format_kwargs": {}, "_format_type": None, "_output_all_columns": False}
    (place / "state.json").write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")


def _column_type(pa: ModuleType, cells: list[object]) -> tuple[object, JsonObject]:
    """The type of a column of values or of lists, and what the library datasets calls it."""
    if not isinstance(cells[0], list):
        kind, dtype = _arrow_type(pa, cells)
        return kind, {"dtype": dtype, "_type": "Value"}
    kind, dtype = _arrow_type(pa, [cell for each in cells if isinstance(each, list) for cell in each])
    return pa.list_(kind), {"feature": {"dtype": dtype, "_type": "Value"}, "_type": "Sequence"}


def _cell(cell: object, feature: JsonObject) -> object:
    """A value as its column holds it: in a column of texts, numbers become texts."""
    if isinstance(cell, list):
        return [_cell(each, feature["feature"]) for each in cell]
    return cell if feature["dtype"] != "string" or cell is None else str(cell)


def _fingerprint(rows: list[dict[str, object]], split: str | None) -> str:
    """The same for the same rows; the library datasets names its caches after it."""
    return sha256(json.dumps([rows, split]).encode()).hexdigest()[:16]


def _arrow_type(pa: ModuleType, cells: list[object]) -> tuple[object, str]:
    """The type of a column, and its name in the library datasets; what is not numbers alone becomes text."""
    for kinds, arrow_type in (((bool,), (pa.bool_(), "bool")), ((int,), (pa.int64(), "int64"))):
        if all(type(cell) in kinds for cell in cells if cell is not None):
            return arrow_type
    if all(type(cell) in (int, float) for cell in cells if cell is not None):
        return pa.float64(), "float64"
    return pa.string(), "string"


def _picture(images: Items, row: int, folder: Path, count: Iterator[int]) -> dict[str, object]:
    """The bytes of an image, as in its file; it is counted."""
    next(count)
    name = write_image(images, row, folder)
    if name is None:
        return {"bytes": None, "path": images.ids[row]}
    content = (folder / name).read_bytes()
    (folder / name).unlink()
    return {"bytes": content, "path": name}


def _file_beside(value: object, folder: Path) -> str | None:
    """The path of an image in a table: relative if inside the folder, else absolute."""
    if not isinstance(value, (str, Path)):
        return None
    file = Path(value).resolve()
    root = folder.resolve()
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else str(file)


def _write_rows(collection: Collection, path: Path, files: list[str | None]) -> tuple[str, ...]:
    nested = path.suffix == ".jsonl"
    fields = {"": _storable(collection.texts, "", nested), "image_": _storable(collection.images, "image_", nested)}
    rows = list(_rows(collection, files, fields))
    if not rows:
        raise LimnerError(f"{collection.name!r} has no judged pairs, so a table of it would be empty")
    _WRITERS[path.suffix](path, rows)
    return tuple(_lost(collection, fields))


def _storable(items: Items, prefix: str, nested: bool) -> dict[str, object]:
    """Fields that the format can store."""
    return {
        name: column
        for name, column in items.fields.items()
        if prefix + name not in _TAKEN and all(_holds(entry, nested) for entry in column)
    }


def _holds(entry: object, nested: bool) -> bool:
    """Whether a cell can store this entry: a plain value, or with `nested` also lists and dicts of plain values."""
    if isinstance(entry, _SCALARS):
        return True
    if not nested or not isinstance(entry, (list, tuple, dict)):
        return False
    inside = entry.values() if isinstance(entry, dict) else entry
    return all(_holds(part, nested) for part in inside)


def _rows(collection: Collection, files: list[str | None], fields: JsonObject) -> Iterator[dict[str, object]]:
    images, texts, pairs = collection.images, collection.texts, collection.judgements
    split_of = {key: name for name, keys in collection.splits.items() for key in keys}
    named = any(file not in (None, key) for file, key in zip(files, images.ids, strict=True))
    graded = bool((pairs.grades != 1).any() or (pairs.T.counts > 1).any())
    for i, t, grade in zip(pairs.rows.tolist(), pairs.columns.tolist(), pairs.grades.tolist(), strict=True):
        row = {"image": files[i] or images.ids[i], "caption": texts.values[t], "id": texts.ids[t]}
        if named:
            row["image_id"] = images.ids[i]
        if split_of:
            row["split"] = split_of.get(images.ids[i], "")
        if graded:
            row["grade"] = grade
        row |= {name: _plain(column[t]) for name, column in fields[""].items()}
        yield row | {f"image_{name}": _plain(column[i]) for name, column in fields["image_"].items()}


def _plain(entry: object) -> object:
    """The same value without numpy types, which JSON does not support."""
    if isinstance(entry, np.generic):
        return entry.item()
    if isinstance(entry, dict):
        return {key: _plain(part) for key, part in entry.items()}
    return [_plain(part) for part in entry] if isinstance(entry, (list, tuple)) else entry


def _lost(collection: Collection, fields: JsonObject) -> Iterator[str]:
    yield from _further_judgements(collection)
    for prefix, items in (("", collection.texts), ("image_", collection.images)):
        lost = [name for name in items.fields if name not in fields[prefix]]
        reserved = [name for name in lost if prefix + name in _TAKEN]
        if reserved:
            yield f"fields of {items.kind}s with names of columns were left out: {shown(reserved)}"
        if len(lost) > len(reserved):
            unstorable = shown((name for name in lost if name not in reserved), most=9)
            left_out = f"fields of {items.kind}s that this format cannot store were left out: {unstorable}"
            yield f"{left_out} (.jsonl can store lists and dicts)"
    bare = collection.images.ids[np.flatnonzero(np.diff(collection.judgements.indptr) == 0)]
    if len(bare):
        yield f"images without any text were left out: {len(bare):,} ({shown(bare)})"
    listed = [key for keys in collection.splits.values() for key in keys]
    if len(set(listed)) < len(listed):
        yield "some images are in several splits; each row has the last one"
    blank = sum(not text.strip() for text in collection.texts.values)
    if blank:
        yield f"{blank:,} texts are empty and will be left out on reading"


def _further_judgements(collection: Collection) -> list[str]:
    further = [*collection.extra, *(f"{name} (text to image)" for name in collection.reverse)]
    return [f"further judgements were left out: {shown(further, most=9)}; write each as .qrels"] if further else []


def _lost_images(collection: Collection, files: Iterable[str | None]) -> tuple[str, ...]:
    lost = sum(file is None and value is not None for file, value in zip(files, collection.images.values, strict=True))
    return (f"{lost:,} images are not files, so the table has only their ids; write a folder instead",) if lost else ()


def _write_separated(path: Path, rows: list[dict[str, object]], delimiter: str) -> None:
    with replacing(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        # Every text is quoted: the csv module does not quote a lone carriage return.
        quoting: Literal[2] = csv.QUOTE_NONNUMERIC
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter, lineterminator="\n", quoting=quoting)
        writer.writeheader()
        writer.writerows(rows)


def _write_jsonl(path: Path, rows: list[dict[str, object]]) -> None:
    with replacing(path) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _write_parquet(path: Path, rows: list[dict[str, object]]) -> None:
    pa, pq = arrow_module("a Parquet file"), parquet_module()

    try:
        with replacing(path) as draft:
            pq.write_table(pa.Table.from_pylist(rows), draft)
    except pa.ArrowException as error:
        raise LimnerError(f"{path}: a column mixes types ({error}); write .jsonl instead") from error


_WRITERS = {
    ".csv": lambda path, rows: _write_separated(path, rows, ","),
    ".tsv": lambda path, rows: _write_separated(path, rows, "\t"),
    ".jsonl": _write_jsonl,
    ".parquet": _write_parquet,
}

FOLDERS: dict[str, Callable[..., tuple[str, ...]]] = {
    "beir": write_beir,
    "croissant": write_croissant,
    "huggingface": write_saved,
}
"""Folders of other forms than images with captions."""
