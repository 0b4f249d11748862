"""Reads Croissant files (JSON-LD of MLCommons) that describe images and captions on this machine.

Only the description is followed: nothing is downloaded, nothing is executed, and no path leads out of the folder of the
Croissant file. Tables are csv, tsv, jsonl or parquet. A field may name a column of one table; an image may also be a
file of a FileSet whose name is in the table. limner makes no other joins and no transforms, and says so.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from limner.core.collection import Collection
from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.judgements import Judgements
from limner.datasets.assembly import Assembly, Check
from limner.datasets.caption_tables import COLUMNS, Columns, TableReader, columns_by_role, table_rows
from limner.datasets.croissant_writing import HEAD
from limner.datasets.text_files import At, JsonObject, existing, json_file, number, refuse

OWN = ("images", "captions", "judgements")
"""Record sets of a folder that limner wrote."""
Node = JsonObject
Row = tuple[At, JsonObject]
_HASH = re.compile(r"[0-9a-fA-F]{64}")


def load_croissant(
    path: str | Path,
    *,
    split: str | None = None,
    record_set: str | None = None,
    columns: Columns | None = None,
    images: str | Path | None = None,
    check_images: Check = False,
    strict: bool = False,
) -> Collection:
    """Loads images and captions that a Croissant file describes, from local files.

    A folder that `limner data convert --to croissant` wrote comes back with its splits and all its judgements. Of
    another one, a record set with a field of images and a field of captions is read; further fields as in `load_table`.

    Args:
        path: The Croissant file, or the folder with `croissant.json`.
        split: Only this split.
        record_set: The record set to read; by default the only one with images and captions.
        columns: Field names by role, e.g. `{"image": "photo", "caption": "alt"}`.
        images: Folder with the images; the folder of the Croissant file by default.
        check_images: Open every image; skip and list those that cannot be opened.
        strict: Raise an error instead of listing a warning.
    """
    source = existing(path, what="Croissant file")
    file = source / HEAD if source.is_dir() else source
    read = _Croissant(existing(file, what="Croissant file"), strict=strict)
    roles = columns_by_role(columns or {})
    if record_set is None and not roles and set(OWN) <= read.sets.keys():
        return _read_own(read, split, images, check_images)
    chosen = read.chosen(record_set, roles)
    rows = read.records(chosen)
    first = next(rows, None)  # by now the folders of the images are known
    candidates = [*read.folders, read.root, read.root / "images"]
    folders = candidates if images is None else [existing(images, what="folder of images")]
    names = (roles["image"],) if "image" in roles else COLUMNS["image"]
    every = () if first is None else chain([first], rows)
    TableReader(read.assembly, roles).add_all(((at, _confined(row, names, folders, at)) for at, row in every), file)
    return read.assembly.finish(split=split, images=images, folders=candidates, check_images=check_images)


class _Croissant:
    """A parsed Croissant file: its record sets, and the local files they come from."""

    def __init__(self, file: Path, *, strict: bool) -> None:
        self.file, self.root = file, file.parent
        about = json_file(file)
        if not isinstance(_get(about, "recordSet"), list):
            refuse(At(file), "no record sets (recordSet); expected a Croissant file of version 1.0 or later")
        self.sets = {_short(each): each for each in self._nodes(about, "recordSet")}
        self.sources = {_name(each): each for each in self._nodes(about, "distribution")}
        self.assembly = Assembly(str(about.get("name") or file.resolve().parent.name), strict=strict)
        self.folders: list[Path] = []

    def _nodes(self, parent: Node, key: str) -> list[Node]:
        nodes = _get(parent, key) or []
        listed = nodes if isinstance(nodes, list) else [nodes]
        if not all(isinstance(each, dict) for each in listed):
            refuse(At(self.file), f"{key} is {str(nodes)[:60]!r}; expected objects")
        return listed

    def fields(self, name: str) -> dict[str, Node]:
        """The fields of a record set by name."""
        return {_short(each): each for each in self._nodes(self.sets[name], "field")}

    def chosen(self, record_set: str | None, columns: Mapping[str, str]) -> str:
        """The record set with images and captions."""
        if record_set is not None:
            if record_set not in self.sets:
                raise UnknownName("record set", record_set, self.sets, of=self.file.name)
            return record_set
        fits = [name for name in self.sets if _has_pairs(self.fields(name), columns)]
        if len(fits) != 1:
            listed = "; ".join(f"{name}: {shown(self.fields(name), most=9)}" for name in self.sets)
            problem = f"{len(fits)} record sets have" if fits else "no record set has"
            raise LimnerError(
                f"{self.file}: {problem} images and captions ({listed}); name record_set=..., and columns={{'image': "
                "..., 'caption': ...}"
            )
        return fits[0]

    def records(self, name: str) -> Iterator[Row]:
        """The records of a record set, by field name."""
        inline = _get(self.sets[name], "data")
        if inline is not None:
            for count, row in enumerate(self._nodes(self.sets[name], "data"), start=1):
                yield At(self.file, count), {key.rpartition("/")[2]: cell for key, cell in row.items()}
            return
        columns, holder = self._columns(name)
        for file in self._tables(holder):
            for at, row in table_rows(file):
                missing = [column for column in columns.values() if column not in row]
                if missing:
                    refuse(at, f"no column {missing[0]!r}, which {self.file.name} names; there are {shown(row)}")
                yield at, {field: row[column] for field, column in columns.items()}

    def _columns(self, name: str) -> tuple[dict[str, str], str]:
        """The column of each field, and the table that has them."""
        columns, holders, left = {}, {}, []
        for field, node in self.fields(name).items():
            source = _node(node, "source")
            extract, holder = _node(source, "extract"), _holder(source)
            if holder and isinstance(_get(extract, "column"), str):
                self._refuse_transform(field, source)
                columns[field], holders[holder] = _get(extract, "column"), field
                self._note_folder(_holder(_node(node, "references")))
            elif _get(extract, "fileProperty") == "content" and holder:
                self._note_folder(holder)
            else:
                left.append(field)
        if left:
            self.assembly.notes.add(
                At(self.file), f"fields that are no columns of a table were left out: {shown(left)}"
            )
        if len(holders) != 1:
            problem = f"several tables ({shown(holders)})" if holders else "no table"
            refuse(
                At(self.file), f"record set {name!r} comes from {problem}; limner reads one table and makes no joins"
            )
        return columns, next(iter(holders))

    def _refuse_transform(self, field: str, source: Node) -> None:
        for each in self._nodes(source, "transform"):
            if _get(each, "jsonPath") != "bytes":  # the bytes of an image, which every table may have
                refuse(At(self.file), f"field {field!r} has a transform ({shown(each)}), which limner does not make")

    def _note_folder(self, holder: str | None) -> None:
        """Remembers the folder of a FileSet of images."""
        for pattern in self._patterns(self.sources.get(holder or "", {})):
            self.folders.append(_inside(self.root, pattern.rpartition("/")[0], At(self.file)))

    def _patterns(self, node: Node) -> list[str]:
        includes = _get(node, "includes")
        return [str(each) for each in includes] if isinstance(includes, list) else [str(includes)] if includes else []

    def _tables(self, holder: str) -> list[Path]:
        """The local files of a FileObject or FileSet."""
        node = self.sources.get(holder)
        if node is None:
            refuse(At(self.file), f"source {holder!r} is not in the distribution; there are {shown(self.sources)}")
        patterns = self._patterns(node)
        if patterns:
            paths = [_inside(self.root, each, At(self.file)) for each in patterns]
            files = sorted({file for each in paths for file in self.root.glob(str(each.relative_to(self.root)))})
        else:
            files = [file for file in self._candidates(node, holder) if file.is_file()][:1]
        if not files:
            missing = patterns[0] if patterns else holder
            refuse(At(self.file), f"no file {missing!r} in {self.root}: download it there first; limner does not")
        for file in files:
            _inside(self.root, str(file.relative_to(self.root)), At(self.file))
        self._note_hash(files[0], node)
        return files

    def _candidates(self, node: Node, holder: str) -> Iterator[Path]:
        """Where a FileObject may lie: its address if that is a path, else its name or the end of the address."""
        address = str(_get(node, "contentUrl") or "")
        names = [address.rpartition("/")[2]] if "://" in address else [address]
        for name in (*names, holder, str(node.get("name") or "")):
            if name and "://" not in name:
                yield _inside(self.root, name, At(self.file))

    def _note_hash(self, file: Path, node: Node) -> None:
        expected = str(_get(node, "sha256") or "")
        if not _HASH.fullmatch(expected) or not file.is_file():
            return
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        if digest != expected.lower():
            self.assembly.notes.add(At(file), f"its SHA-256 is not the one in {self.file.name}: the file was changed")


# --- JSON-LD ----------------------------------------------------------------------------------------------------


def _get(node: Node, key: str) -> Any:
    """A value by its name, with or without the prefix of Croissant or schema.org."""
    return next((node[name] for name in (key, f"cr:{key}", f"sc:{key}") if name in node), None)


def _node(parent: Node, key: str) -> Node:
    node = _get(parent, key)
    return node if isinstance(node, dict) else {}


def _name(node: Node) -> str:
    return str(node.get("@id") or _get(node, "name") or "")


def _short(node: Node) -> str:
    """The last part of an id: `caption` of `pairs/caption`."""
    return _name(node).rpartition("/")[2]


def _holder(source: Node) -> str | None:
    """The id of the FileObject or FileSet that a field comes from."""
    reference = _get(source, "fileObject") or _get(source, "fileSet")
    name = reference.get("@id") if isinstance(reference, dict) else reference
    return str(name) if name else None


def _has_pairs(fields: Mapping[str, Node], columns: Mapping[str, str]) -> bool:
    image, *texts = (
        columns[role] in fields if role in columns else any(name in fields for name in COLUMNS[role])
        for role in ("image", "caption", "captions")
    )
    return image and any(texts)


def _inside(root: Path, name: str, at: At) -> Path:
    """A path below a folder; one that leads out of it is refused."""
    if "\0" in name or Path(name).is_absolute() or not (root / name).resolve().is_relative_to(root.resolve()):
        refuse(at, f"{name[:80]!r} leads out of {root}; only files below it are read")
    return root / name


def _confined(row: JsonObject, names: Sequence[str], folders: Sequence[Path], at: At) -> JsonObject:
    """The row, if the name of its image leads out of none of the folders that it may be in."""
    cell = next((row[name] for name in names if name in row), None)
    name = cell.get("path") if isinstance(cell, dict) and not cell.get("bytes") else cell
    if isinstance(name, str):
        for folder in folders:
            _inside(folder, name.strip(), at)
    return row


# --- folders that limner wrote ----------------------------------------------------------------------------------


def _read_own(read: _Croissant, split: str | None, images: str | Path | None, check_images: Check) -> Collection:
    """A folder that `write_croissant` wrote."""
    assembly = read.assembly
    for at, row in read.records("images"):
        file = row.get("file")
        value = f"images/{file}" if isinstance(file, str) and images is None else file
        _inside(read.root, str(value or ""), at)
        assembly.image(
            str(row.get("id") or ""), at, split=str(row.get("split") or ""), value=value or str(row.get("id"))
        )
    for at, row in read.records("captions"):
        key = str(row.get("id") or "")
        if key in assembly.texts.row:
            refuse(at, f"caption id {key!r} was already used at {assembly.texts.places[assembly.texts.row[key]]}")
        assembly.texts.add(key, str(row.get("text") or ""), at, {})
    further: dict[str, list[tuple[str, str, float]]] = {}
    for at, row in read.records("judgements"):
        pair = str(row.get("image")), str(row.get("caption"))
        for key, table in zip(pair, (assembly.images, assembly.texts), strict=True):
            if key not in table.row:
                refuse(at, f"{table.kind} {key!r} of a judgement is not in the table of {table.kind}s")
        grade = number(row.get("grade"), at, what="grade")
        if str(row.get("set")) != "pairs":
            further.setdefault(str(row.get("set")), []).append((*pair, grade))
        elif assembly.paired(*pair):
            refuse(at, f"image {pair[0]!r} and caption {pair[1]!r} are judged a second time")
        else:
            assembly.pair(*pair, grade)
    extra = {name: Judgements.from_pairs(pairs, name=name) for name, pairs in further.items()}
    return assembly.finish(split=split, images=images, folders=[read.root], check_images=check_images, extra=extra)
