"""Corpus, queries and judgements as Parquet files, the layout of MTEB and ViDoRe: images or texts on either side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from limner.core.arrow_tables import parquet_batches, parquet_module
from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.core.paths import damage_told
from limner.datasets.hub_layout import BySplit
from limner.datasets.hub_repository import HubData
from limner.datasets.parquet_images import InParquet
from limner.datasets.text_files import At, number, refuse

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


def _rows(file: Path, columns: list[str] | None) -> Iterator[tuple[At, dict[str, Any]]]:
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
