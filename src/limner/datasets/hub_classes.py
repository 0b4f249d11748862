"""Data sets of a hub with columns of their own: classes, and corpus, queries and judgements.

Classes are Parquet files with a class label, or shards of CLIP_benchmark. Corpus, queries and judgements are the layout
of MTEB and ViDoRe, with images or texts on either side.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from limner.core.arrow_tables import parquet_batches, parquet_module
from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.core.paths import damage_told
from limner.datasets.assembly import Assembly
from limner.datasets.caption_tables import COLUMNS
from limner.datasets.class_images import ClassRow, add_classes, read_templates
from limner.datasets.hub_repository import BySplit, HubData, InParquet
from limner.datasets.text_files import At, JsonObject, filled_lines, number, refuse
from limner.datasets.webdataset import samples

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
            f'columns={{"{role}": NAME}} (-O columns={role}=NAME)'
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
        features: JsonObject = json.loads(described)["info"]["features"] if described else {}
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


_KEYS = ("_id", "id", "corpus-id", "corpus_id", "query-id", "query_id", "docid", "doc-id")
_TEXTS = ("text", "query", "caption", "title")
_QUERY, _CANDIDATE, _GRADE = ("query-id", "query_id"), ("corpus-id", "corpus_id"), ("score", "relevance", "grade")
_SPLITS = ("test", "dev", "validation", "train")


def load_retrieval(
    data: HubData, sides: Mapping[str, BySplit], *, name: str, split: str | None = None, direction: str | None = None
) -> Collection:
    """Loads corpus, queries and judgements of one split.

    Args:
        data: The repository.
        sides: Files by split of "corpus", "queries" and "qrels".
        name: Name of the collection.
        split: The split; "test" by default, or the only one.
        direction: "t2i" if the corpus is the images, "i2t" if the queries are; by default the side with images.
    """
    if direction not in (None, "i2t", "t2i"):
        raise UnknownName("direction", str(direction), ("i2t", "t2i"))
    part = _part(sides["qrels"], split, data.listing.name)
    files = {side: _files(by_split, part) for side, by_split in sides.items()}
    folder = data.fetched([path for paths in files.values() for path in paths])
    items = {side: _Side([folder / path for path in files[side]]) for side in ("queries", "corpus")}
    task = direction or _direction(items, data.listing.name)
    images, texts = ("corpus", "queries") if task == "t2i" else ("queries", "corpus")
    pairs = Judgements.from_pairs(
        _pairs([folder / path for path in files["qrels"]], items),
        queries=items["queries"].ids,
        candidates=items["corpus"].ids,
    )
    image_items = Items(Ids(items[images].ids, what="image"), items[images].images)
    text_items = Items(Ids(items[texts].ids, what="text"), items[texts].texts, kind="text")
    return Collection(name, image_items, text_items, pairs.T if task == "t2i" else pairs)


def _part(qrels: BySplit, split: str | None, name: str) -> str:
    if split is not None and split in qrels:
        return split
    if split is not None and set(qrels) != {""}:
        raise UnknownName("split", split, qrels, of=repr(name))
    return next((each for each in _SPLITS if each in qrels), next(iter(qrels)))


def _files(by_split: BySplit, part: str) -> tuple[str, ...]:
    """The files of a side: those of the split, or all, where corpus and queries are one split of any name."""
    return by_split[part] if part in by_split else tuple(path for paths in by_split.values() for path in paths)


def _direction(items: Mapping[str, _Side], name: str) -> str:
    with_images = [side for side, each in items.items() if any(image is not None for image in each.images)]
    if len(with_images) != 1:
        problem = "images on both sides" if with_images else "no images"
        raise LimnerError(
            f"{name} has {problem}: give direction='t2i' (the corpus is the images) or 'i2t' (the queries)"
        )
    return "t2i" if with_images == ["corpus"] else "i2t"


class _Side:
    """Ids, images and texts of the queries or of the corpus."""

    def __init__(self, files: Iterable[Path]) -> None:
        self.ids: list[str] = []
        self.images: list[InParquet | None] = []
        self.texts: list[str] = []
        for file in files:
            self._add(file)

    def _add(self, file: Path) -> None:
        import pyarrow.types as kinds

        with damage_told(file, what="parquet file"), parquet_module("a data set of the hub").ParquetFile(file) as table:
            schema = table.schema_arrow
        image = next((f.name for f in schema if kinds.is_struct(f.type) or kinds.is_binary(f.type)), None)
        image = "image" if "image" in schema.names and not kinds.is_null(schema.field("image").type) else image
        key = _one_of(_KEYS, schema.names, At(file))
        light = [name for name in schema.names if name in (key, *_TEXTS)]
        has_pixels = list(_present(file, image)) if image is not None else None
        for row, (_, cells) in enumerate(_rows(file, light)):
            name = str(cells[key])
            self.ids.append(name)
            shown_image = image is not None and (has_pixels is None or has_pixels[row])
            self.images.append(InParquet(str(file), row, str(image), name) if shown_image else None)
            self.texts.append(next((str(cells[each]) for each in _TEXTS if cells.get(each)), ""))


def _present(file: Path, image: str) -> Iterator[bool]:
    """Whether each row has an image, without keeping any."""
    with parquet_module("a data set of the hub").ParquetFile(file, memory_map=True) as table:
        for batch in table.iter_batches(16, columns=[image], use_threads=False):
            yield from batch.column(0).is_valid().to_pylist()


def _pairs(files: Iterable[Path], items: Mapping[str, _Side]) -> Iterator[tuple[str, str, float]]:
    ids = {side: set(each.ids) for side, each in items.items()}
    for file in files:
        for at, row in _rows(file, None):
            query, candidate = (str(row[_one_of(names, row, at)]) for names in (_QUERY, _CANDIDATE))
            for key, side in ((query, "queries"), (candidate, "corpus")):
                if key not in ids[side]:
                    refuse(at, f"{key!r} is not in the {side}")
            grade = next((row[name] for name in _GRADE if name in row), 1)
            yield query, candidate, number(grade, at, what="score")


def _rows(file: Path, columns: list[str] | None) -> Iterator[tuple[At, JsonObject]]:
    row = 0
    with damage_told(file, what="parquet file"):
        for batch in parquet_batches(file, columns=columns):
            for cells in batch.to_pylist():
                row += 1
                yield At(file, row), cells


def _one_of(names: tuple[str, ...], row: Iterable[str], at: At) -> str:
    columns = list(row)
    name = next((each for each in names if each in columns), None)
    if name is None:
        refuse(at, f"no column {' or '.join(names)}; there are {shown(columns, most=8)}")
    return name
