"""Builds a Collection row by row, and handles all errors and warnings of loaders."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np

from limner.core.arrays import Array
from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.core.judgements import Judgements
from limner.datasets.text_files import At, Notes, filled_lines, refuse

Check = bool | Callable[[Iterable[int]], Iterable[int]]
"""True opens every image; a function such as `tqdm` or `rich.progress.track` does so too and shows progress."""

Fields = Mapping[str, object]
_NONE: Fields = MappingProxyType({})
_SPLITS = {"val": "dev", "valid": "dev", "validation": "dev", "development": "dev", "training": "train"}


def split_name(name: str) -> str:
    """Canonical split names: "val" and "validation" become "dev".

    >>> split_name("val"), split_name("test")
    ('dev', 'test')
    """
    return _SPLITS.get(name.lower(), name)


class _Rows:
    """Ids, values and fields of one kind of item, and where each was first seen."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.row: dict[str, int] = {}
        self.values: list[object] = []
        self.places: list[At] = []
        self.fields: dict[str, list[object]] = {}

    def add(self, key: str, value: object, at: At, fields: Fields) -> None:
        if not key:
            refuse(at, f"no {self.kind} id; every row needs one")
        self.row[key] = row = len(self.values)
        self.values.append(value)
        self.places.append(at)
        for name, entry in fields.items():
            column = self.fields.setdefault(name, [])
            column.extend([None] * (row - len(column)))  # earlier items do not have this field
            column.append(entry)

    def items(self, values: list[object]) -> Items:
        size = len(self.values)
        columns = {name: column + [None] * (size - len(column)) for name, column in self.fields.items()}
        return Items(Ids(self.row, what=self.kind), values, columns, self.kind)


class Assembly:
    """A collection under construction: loaders add rows, `finish` checks and freezes it.

    Args:
        name: Name of the collection in reports.
        strict: Raise an error instead of listing a warning.
    """

    def __init__(self, name: str, *, strict: bool = False) -> None:
        """Creates an empty assembly."""
        self.name = name
        self.notes = Notes(strict=strict)
        self.splits: dict[str, list[str]] = {}
        self.images = _Rows("image")
        self.texts = _Rows("text")
        self.split_of: dict[str, str] = {}
        self._numbered: Counter[str] = Counter()
        self._pairs: dict[tuple[int, int], float] = {}

    def image(
        self, key: str, at: At, *, split: str | None = None, value: object = None, fields: Fields = _NONE
    ) -> None:
        """Adds an image, or checks that an image seen before is still in the same split.

        Args:
            key: The image's id.
            at: Where it is mentioned.
            split: Its split, if the row has one.
            value: Its file name in the folder of images (a string), or bytes; the id by default.
            fields: Further columns; those of the first row are used.
        """
        if key not in self.images.row:
            self.images.add(key, key if value is None else value, at, fields)
        if split:
            self._put_in_split(key, split_name(split), at)

    def _put_in_split(self, key: str, split: str, at: At) -> None:
        before = self.split_of.get(key)
        if before is None:
            self.split_of[key] = split
            self.splits.setdefault(split, []).append(key)
        elif before != split:
            first = self.images.places[self.images.row[key]]
            refuse(at, f"image {key!r} is in split {split!r} here and in {before!r} at {first}; an image has one split")

    def text(
        self,
        key: str,
        text: str,
        image: str,
        at: At,
        *,
        grade: float = 1.0,
        fields: Fields = _NONE,
        blank: bool = False,
    ) -> bool:
        """Adds a text and pairs it with an image that was added before; False if the text is empty and left out.

        With `blank`, an empty text is kept (only its id is known).
        """
        if not text.strip() and not blank:
            self.notes.add(at, "empty caption, left out")
            return False
        if key in self.texts.row:
            first = self.texts.places[self.texts.row[key]]
            refuse(at, f"caption id {key!r} was already used at {first}; ids must be unique")
        self.texts.add(key, text, at, fields)
        self.pair(image, key, grade)
        return True

    def next_text(self, image: str) -> str:
        """An id for a text without one: the id of the image and a counter."""
        self._numbered[image] += 1
        return f"{image}#{self._numbered[image] - 1}"

    def pair(self, image: str, text: str, grade: float = 1.0) -> None:
        """Adds a judgement for an image and a text."""
        self._pairs[self.images.row[image], self.texts.row[text]] = grade

    def paired(self, image: str, text: str) -> bool:
        """Whether the image and the text were already judged."""
        return (self.images.row[image], self.texts.row[text]) in self._pairs

    def split_list(self, file: Path, split: str) -> None:
        """Assigns the images listed in a file, one per line, to a split; does nothing without such a file."""
        if not file.is_file():
            return
        for line, text in filled_lines(file):
            if text.strip() in self.images.row:
                self.image(text.strip(), At(file, line), split=split)
            else:
                self.notes.add(At(file, line), f"image of split {split!r} without captions; left out")

    def refuse_wrong_counts(self, expected: int | None) -> None:
        """Refuses an image with an unexpected number of texts."""
        if expected is None:
            return
        counts = np.bincount([p[0] for p in self._pairs], minlength=len(self.images.row))
        wrong = np.flatnonzero(counts != expected)
        if len(wrong):
            at, key = self.images.places[wrong[0]], list(self.images.row)[wrong[0]]
            refuse(
                at,
                f"image {key!r} has {counts[wrong[0]]} captions, expected {expected} ({len(wrong):,} images have a "
                "wrong number); fix the file, or pass captions_per_image=None to allow any number",
            )

    def finish(
        self,
        *,
        split: str | None = None,
        images: str | Path | None = None,
        folders: Iterable[Path] = (),
        check_images: Check = False,
        extra: Mapping[str, Judgements] | None = None,
        reverse: Mapping[str, Judgements] | None = None,
        ratings: Mapping[str, Judgements] | None = None,
    ) -> Collection:
        """Creates the collection.

        Args:
            split: Only this split.
            images: Folder with the images, as the user gave it; refused if it contains none of them.
            folders: Folders to try if no folder was given; they need not contain images.
            check_images: Open every image; skip and list those that cannot be opened.
            extra: Further judgements, image -> text.
            reverse: Judgements text -> image, if they are not the transpose.
            ratings: Raw human ratings, before any threshold.
        """
        values = self._images(images, folders)
        rows, columns = np.array(list(self._pairs), dtype=np.int64).reshape(-1, 2).T
        grades = np.array(list(self._pairs.values()), dtype=np.float64)
        image_items, text_items = self.images.items(values), self.texts.items(self.texts.values)
        pairs = Judgements(image_items.ids, text_items.ids, rows, columns, grades)
        further = extra or {}, reverse or {}, ratings or {}
        collection = Collection(self.name, image_items, text_items, pairs, self.splits, *further)
        chosen = collection if split is None else collection.split(split_name(split))
        if check_images:
            chosen = _leaving_out(chosen, self._broken(chosen.images, check_images))
        return replace(chosen, warnings=self.notes.listed())

    def _images(self, images: str | Path | None, folders: Iterable[Path]) -> list[object]:
        if images is None:
            folder = next((f for f in folders if f.is_dir() and any(map(_is_file, self._paths(f)))), None)
        else:
            folder = Path(images)
            if not any(map(_is_file, self._paths(folder))):
                example = next(iter(self._paths(folder)), folder)
                raise LimnerError(
                    f"none of the {len(self.images.row):,} images is in {folder}: expected e.g. {example}"
                )
        if folder is None:
            return [None if isinstance(v, (str, Path)) else v for v in self.images.values]
        return [self._image(path, row, folder) for row, path in enumerate(self._paths(folder))]

    def _paths(self, folder: Path) -> Iterable[object]:
        return (folder / v if isinstance(v, (str, Path)) else v for v in self.images.values)

    def _image(self, path: object, row: int, folder: Path) -> object:
        if not isinstance(path, Path) or _is_file(path):
            return path
        self.notes.add(self.images.places[row], f"the image is not in {folder}; kept without pixels")
        return None

    def _broken(self, items: Items, check: Check) -> set[str]:
        if all(value is None for value in items.values):
            raise LimnerError(f"check_images: {self.name!r} has only ids, no images; give their folder: images=DIR")
        rows: Iterable[int] = range(len(items))
        broken = set()
        for row in check(rows) if callable(check) else rows:
            try:
                with items.opened(row):
                    pass
            except LimnerError as error:
                at = self.images.places[self.images.row[items.ids[row]]]
                self.notes.add(at, f"{error}; left out with its captions")
                broken.add(items.ids[row])
        return broken


def _is_file(path: object) -> bool:
    return isinstance(path, Path) and os.path.isfile(path)  # unlike Path.is_file, False for a name that is too long


def _leaving_out(collection: Collection, broken: set[str]) -> Collection:
    """The collection without these images, and without texts that belong only to them."""
    if not broken:
        return collection
    images = collection.images.subset([i for i in collection.images.ids if i not in broken])
    before, after = collection.judgements.T.counts, collection.judgements.restrict(queries=images.ids).T.counts
    texts = collection.texts[np.flatnonzero((after > 0) | (before == 0))]
    return replace(
        collection,
        images=images,
        texts=texts,
        judgements=collection.judgements.restrict(queries=images.ids, candidates=texts.ids),
        splits={name: [i for i in ids if i not in broken] for name, ids in collection.splits.items()},
        extra={k: j.restrict(queries=images.ids, candidates=texts.ids) for k, j in collection.extra.items()},
        reverse={k: j.restrict(queries=texts.ids, candidates=images.ids) for k, j in collection.reverse.items()},
    )


def keep_texts(collection: Collection, rows: Array) -> Collection:
    """The collection with only these rows of its texts; images and splits are unchanged."""
    texts = collection.texts[rows]
    return replace(
        collection,
        texts=texts,
        judgements=collection.judgements.restrict(candidates=texts.ids),
        extra={k: j.restrict(candidates=texts.ids) for k, j in collection.extra.items()},
        reverse={k: j.restrict(queries=texts.ids) for k, j in collection.reverse.items()},
    )
