"""Classification data sets of a hub: Parquet files with a class label, and shards of CLIP_benchmark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limner.core.arrow_tables import parquet_batches, parquet_module
from limner.core.paths import damage_told
from limner.datasets.assembly import Assembly
from limner.datasets.class_images import ClassRow, add_classes, read_templates
from limner.datasets.hub_columns import HubColumns
from limner.datasets.hub_layout import BySplit
from limner.datasets.hub_repository import HubData
from limner.datasets.parquet_images import InParquet
from limner.datasets.text_files import At, filled_lines, refuse
from limner.datasets.webdataset import samples

CLASS_NAMES = "classnames.txt"
TEMPLATE_FILE = "zeroshot_classification_templates.txt"
_LABELS = ("label", "labels", "fine_label", "class")


@dataclass(frozen=True)
class ClassLabel:
    """The column of classes of a Parquet file.

    Args:
        column: Its name.
        names: The names of the classes by number.
    """

    column: str
    names: tuple[str, ...]


def class_label(file: Path) -> ClassLabel | None:
    """The column of classes that the datasets library describes in a Parquet file; None if there is none."""
    with damage_told(file, what="parquet file"), parquet_module("a data set of the hub").ParquetFile(file) as table:
        described = (table.schema_arrow.metadata or {}).get(b"huggingface")
    try:
        about: Any = json.loads(described) if described else {}
        features: Mapping[str, Any] = about["info"]["features"]
        labels = {
            name: ClassLabel(name, tuple(map(str, each["names"])))
            for name, each in features.items()
            if isinstance(each, dict) and each.get("_type") == "ClassLabel"
        }
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    return next((labels[name] for name in (*_LABELS, *labels) if name in labels), None)


def add_labelled(
    assembly: Assembly,
    files: Sequence[tuple[str, Path]],
    label: ClassLabel,
    columns: HubColumns,
    templates: str | Path | Sequence[str] | None,
) -> None:
    """Adds the images of Parquet files and a text for each class.

    Args:
        assembly: The collection under construction.
        files: The files, each with its split.
        label: The column of classes.
        columns: The columns of the images and their ids.
        templates: Prompts; see `limner.datasets.class_images.load_classes`.
    """
    rows = (row for split, file in files for row in _labelled_rows(file, split, label, columns))
    add_classes(assembly, rows, templates=read_templates(Path(assembly.name), templates))


def _labelled_rows(file: Path, split: str, label: ClassLabel, columns: HubColumns) -> Iterator[ClassRow]:
    light = [name for name in (label.column, columns.image_id) if name is not None]
    row = 0
    for batch in parquet_batches(file, columns=light):
        for cells in batch.to_pylist():
            key = str(cells.get(columns.image_id or "") or f"{file.stem}:{row}")
            at = At(file, row + 1)
            yield (
                at,
                key,
                InParquet(str(file), row, str(columns.image), key),
                _name(cells[label.column], label, at),
                split,
            )
            row += 1


def _name(number: object, label: ClassLabel, at: At) -> str:
    """The name of a class; "" for the -1 of images without one."""
    if number is None or number == -1:
        return ""
    if not isinstance(number, int) or not 0 <= number < len(label.names):
        refuse(at, f"{label.column} is {number!r}, expected a number below {len(label.names):,}")
    return label.names[number]


def add_class_shards(
    assembly: Assembly, data: HubData, files: BySplit, templates: str | Path | Sequence[str] | None, *, has_splits: bool
) -> None:
    """Adds the images of shards with a class number each, whose names are in `classnames.txt`.

    Args:
        assembly: The collection under construction.
        data: The repository.
        files: The shards by split.
        templates: Prompts; by default those of the repository.
        has_splits: Whether splits may use the same names.
    """
    further = [path for path in (CLASS_NAMES, TEMPLATE_FILE) if path in data.paths]
    folder = data.fetched([*(path for paths in files.values() for path in paths), *further])
    names = tuple(text.strip() for _, text in filled_lines(folder / CLASS_NAMES))
    rows = (
        row
        for split, paths in files.items()
        for path in paths
        for row in _shard_rows(folder / path, split, names, f"{split}/" if split and has_splits else "")
    )
    add_classes(assembly, rows, templates=read_templates(folder, templates))


def _shard_rows(shard: Path, split: str, names: tuple[str, ...], prefix: str) -> Iterator[ClassRow]:
    label = ClassLabel(".cls", names)
    for key, parts in samples(shard):
        number, at = str(parts.get(".cls", "")).strip(), At(shard)
        if "image" in parts:
            name = _name(int(number) if number.isdecimal() else number or None, label, at)
            yield at, prefix + key, parts["image"], name, split
