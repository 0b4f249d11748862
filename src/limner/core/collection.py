"""Items and Collection: images and texts with their ids, and the judgements between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.core.arrow_tables import Tabular
from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.ids import Ids
from limner.core.images import as_value, open_image, opened
from limner.core.judgements import Judgements
from limner.core.markup import SHOWN, SIDE, overview_html

if TYPE_CHECKING:
    from PIL.Image import Image

Column = Sequence[Any]
"""Texts, images, or the values of a field."""


@dataclass(frozen=True, eq=False)
class Items:
    """Images or texts with their ids and further fields.

    Args:
        ids: One unique id per item.
        values: Texts as strings; images as paths, bytes, Pillow images, arrays of pixels, or functions that draw
            them (opened lazily), or None if the image itself is not available (scores and judgements do not need it).
        fields: Further columns by name ("language", "file_name", "objects", ...), one entry per item.
        kind: "image" or "text".

    >>> texts = Items(["t0", "t1"], ["a red ball", "two dogs"], kind="text", fields={"language": ["en", "en"]})
    >>> texts[1:].values, texts.subset(["t1"]).field("language")
    (('two dogs',), ('en',))
    """

    ids: Ids
    values: Column
    fields: Mapping[str, Column] = field(default_factory=dict)
    kind: str = "image"

    def __post_init__(self) -> None:
        """Checks lengths and freezes the columns."""
        if self.kind not in ("image", "text"):
            raise UnknownName("kind of items", self.kind, ("image", "text"))
        object.__setattr__(self, "ids", Ids(self.ids, what=self.kind))
        object.__setattr__(self, "values", tuple(self.values))
        columns = {
            name: column if isinstance(column, np.ndarray) else tuple(column) for name, column in self.fields.items()
        }
        for name, column in {"values": self.values, **columns}.items():
            if len(column) != len(self.ids):
                raise LimnerError(
                    f"{self.kind} items have {len(self.ids)} ids but {len(column)} {name}: expected one each"
                )
        if self.kind == "text":
            self._refuse_non_text()
        elif any(value is not None and not isinstance(value, (str, Path)) for value in self.values):
            images = tuple(as_value(v, name=self.ids[row]) for row, v in enumerate(self.values))
            object.__setattr__(self, "values", images)
        object.__setattr__(self, "fields", MappingProxyType(columns))

    def _refuse_non_text(self) -> None:
        for row, value in enumerate(self.values):
            if not isinstance(value, str):
                raise LimnerError(f"text {self.ids[row]!r} (row {row}) is {type(value).__name__}, expected a string")

    def field(self, name: str) -> Column:
        """One extra column; for an unknown name, the error lists the known ones."""
        if name not in self.fields:
            raise UnknownName("field", name, self.fields, of=f"the {self.kind}s")
        return self.fields[name]

    def subset(self, ids: Iterable[object]) -> Items:
        """These items, in this order."""
        return self[self.ids.positions(list(ids))]

    def open(self, key: int | str, *, side: int | None = None) -> Image:
        """Opens one image by position or id, as upright RGB; an error for an undecodable image names the file.

        Args:
            key: The position or id.
            side: Downscale so that no side is longer than this; much faster for a large JPEG.
        """
        row = self.ids.index(key) if isinstance(key, str) else key
        return open_image(self.values[row], name=self.ids[row], side=side)

    def opened(self, row: int, *, shortest: int | None = None) -> AbstractContextManager[Image]:
        """Context manager for one image, decoded as by `open`; other threads with large images wait until it exits.

        Args:
            row: The position.
            shortest: The length its short side will be scaled to; a large JPEG is then decoded at a smaller scale.
        """
        return opened(self.values[row], name=self.ids[row], shortest=shortest)

    def with_fields(self, **columns: Sequence[object]) -> Items:
        """The same items with additional or replaced columns."""
        return replace(self, fields={**self.fields, **columns})

    def __getitem__(self, key: Any) -> Items:
        rows = np.atleast_1d(np.arange(len(self))[key])
        columns = {
            name: column[rows] if isinstance(column, np.ndarray) else [column[r] for r in rows]
            for name, column in self.fields.items()
        }
        return Items(self.ids[rows], [self.values[r] for r in rows], columns, self.kind)

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Any]:
        """Iterates over the values: texts, or images as they are stored."""
        return iter(self.values)

    @classmethod
    def of(cls, data: Any, *, kind: str | None = None) -> Items:
        """Converts texts or images to `Items`; `Items` are returned unchanged.

        Args:
            data: One text, path or image; a list or column of them; or {id: value}. Strings are texts unless `kind`
                says that they are paths; `Path`, bytes, Pillow images and arrays of pixels are images.
            kind: "image" or "text", if known.

        >>> Items.of(["a dog", "a cat"]), Items.of({"d": Path("dog.jpg")}).ids[0]
        (Items(2 texts), 'd')
        """
        if isinstance(data, Items):
            return data
        if isinstance(data, Mapping) and not {"bytes", "path"} >= set(data):
            return cls(Ids(data), list(data.values()), kind=kind or _kind(list(data.values())))
        if hasattr(data, "column_names") or (hasattr(data, "columns") and hasattr(data, "shape")):
            names = list(getattr(data, "column_names", getattr(data, "columns", ())))
            raise LimnerError(
                f"got {type(data).__name__}, a table of {shown(map(str, names))}: expected one column of it, such as "
                f"table[{names[0] if names else 'caption'!r}]; limner.load(table) loads the whole table"
            )
        one = isinstance(data, (str, Path, bytes, Mapping)) or hasattr(data, "getexif")
        one = one or getattr(data, "ndim", 1) in (2, 3)  # the pixels of one image
        if not one and not isinstance(data, Iterable):
            raise LimnerError(f"got {type(data).__name__}: expected texts or images, a list of them, or {{id: value}}")
        values = [data] if one else list(data.to_pylist() if hasattr(data, "to_pylist") else data)
        kind = kind or _kind(values)
        named = kind == "image" and all(isinstance(v, (str, Path)) for v in values) and len(set(values)) == len(values)
        return cls(Ids(map(str, values) if named else range(len(values)), what=kind), values, kind=kind)

    def __repr__(self) -> str:
        return f"Items({len(self):,} {self.kind}s{', ' + ', '.join(self.fields) if self.fields else ''})"


def _kind(values: Sequence[object]) -> str:
    """The kind of items in a list: strings are texts, everything else is images; a mixture is refused."""
    texts = [isinstance(value, str) for value in values]
    if any(texts) and not all(texts):
        row = texts.index(False)
        raise LimnerError(
            f"row {row} is {type(values[row]).__name__} and others are strings: expected only texts or only images; "
            "write paths as pathlib.Path, or pass kind='image'"
        )
    return "text" if any(texts) else "image"


@dataclass(frozen=True, eq=False)
class Collection(Tabular):
    """Images, texts and the relevance judgements between them.

    Args:
        name: Name in reports.
        images: The images.
        texts: The texts.
        judgements: Image -> text, the usual pairs.
        splits: Image ids by split name; texts go with the images they are paired with. Empty splits are left out.
        extra: Further judgements (image -> text) by name: "complete", "cxc", "eccv", "expert", ...
        reverse: Judgements text -> image by the same names, only if they are not the transpose of the others
            (ECCV Caption judged its caption queries and image queries separately).
        ratings: Raw human ratings (image -> text) by name, each on its own scale: the lowest grade may mean
            "unrelated", so they are not used as ground truth until `.at_least()` turns them into binary judgements.
        warnings: Problems that the loader skipped or repaired, each with file and line.
        ordered: Whether images and texts are in the order of the data set. False if the order is incidental, such
            as the order in which a file of judgements first names them: data without ids cannot be aligned with it.
        origin: Where it is from, if that can change: "hf:nlphuji/flickr30k@COMMIT". Reports record it.
    """

    name: str
    images: Items
    texts: Items
    judgements: Judgements
    splits: Mapping[str, Sequence[str]] = field(default_factory=dict)
    extra: Mapping[str, Judgements] = field(default_factory=dict)
    reverse: Mapping[str, Judgements] = field(default_factory=dict)
    ratings: Mapping[str, Judgements] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    ordered: bool = True
    origin: str = ""

    def __post_init__(self) -> None:
        """Aligns every judgement with the items and checks the splits."""
        for kind, items in (("image", self.images), ("text", self.texts)):
            if items.kind != kind:
                raise LimnerError(
                    f"collection {self.name!r}: {kind}s are items of kind {items.kind!r}; images come first, then texts"
                )
        object.__setattr__(self, "judgements", self._aligned(self.judgements))
        for group in ("extra", "ratings"):
            aligned = {k: self._aligned(j).with_name(k) for k, j in getattr(self, group).items()}
            object.__setattr__(self, group, MappingProxyType(aligned))
        mirrored = {k: self._aligned(j.T).with_name(k).T for k, j in self.reverse.items()}
        object.__setattr__(self, "reverse", MappingProxyType(mirrored))
        object.__setattr__(
            self, "splits", MappingProxyType({name: tuple(ids) for name, ids in self.splits.items() if len(ids)})
        )
        object.__setattr__(self, "warnings", tuple(self.warnings))
        for name, ids in self.splits.items():
            missing = [i for i in ids if i not in self.images.ids]
            if missing:
                raise LimnerError(
                    f"split {name!r} of {self.name!r} names {len(missing)} unknown images, e.g. {missing[0]!r}"
                )

    @classmethod
    def in_order(
        cls, images: Iterable[object], texts: Iterable[object], *, per_image: int = 1, name: str = "pairs"
    ) -> Collection:
        """Builds a collection of ids only: the first `per_image` texts belong to the first image, and so on.

        If the number of images is divisible by 5, the items get a field "fold", 0 to 4, for the 1K protocol.

        Args:
            images: Ids of the images.
            texts: Ids of the texts.
            per_image: Texts of each image.
            name: Name in reports.

        >>> Collection.in_order(["a", "b"], ["a1", "a2", "b1", "b2"], per_image=2).judgements.grade("b", "b1")
        1.0
        """
        image_ids, text_ids = Ids(images, what="image"), Ids(texts, what="text")
        n_images, n_texts = len(image_ids), len(text_ids)
        if n_texts != per_image * n_images:
            raise LimnerError(
                f"{n_images:,} images and {n_texts:,} texts, {per_image} per image: expected {per_image * n_images:,} "
                "texts, those of the first image first"
            )
        columns = np.arange(n_texts)
        pairs = Judgements(image_ids, text_ids, columns // per_image, columns, np.ones(n_texts))
        sides = Items(image_ids, [None] * n_images), Items(text_ids, [""] * n_texts, kind="text")
        folds = n_images % 5 == 0  # five folds in order, as in COCO's 1K protocol
        folded = [s.with_fields(fold=[row * 5 // len(s) for row in range(len(s))]) if folds else s for s in sides]
        return cls(name, folded[0], folded[1], pairs)

    def _aligned(self, judgements: Judgements) -> Judgements:
        """Judgements aligned with the item ids; judged ids outside the collection stay as further candidates."""
        if judgements.queries == self.images.ids and judgements.candidates == self.texts.ids:
            return judgements
        outside = [c for c in judgements.candidates if c not in self.texts.ids]
        candidates = [*self.texts.ids, *outside] if outside else self.texts.ids
        return judgements.restrict(queries=self.images.ids, candidates=candidates)

    def split(self, name: str) -> Collection:
        """The images of one split with the texts paired with them."""
        if not self.splits:
            raise LimnerError(f"no split {name!r}: {self.name!r} has no splits; leave out the split to use all of it")
        if name not in self.splits:
            raise UnknownName("split", name, self.splits, of=repr(self.name))
        return self.restrict(self.splits[name], name=f"{self.name}/{name}")

    def restrict(self, image_ids: Iterable[str], *, name: str | None = None) -> Collection:
        """These images, the texts paired with them, and the judgements among them."""
        images = self.images.subset(image_ids)
        pairs = self.judgements.relevant.restrict(queries=images.ids)
        texts = self.texts[np.unique(pairs.columns)]
        judgements = self.judgements.restrict(queries=images.ids, candidates=texts.ids)
        extra, ratings = (
            {k: j.restrict(queries=images.ids, candidates=texts.ids) for k, j in further.items()}
            for further in (self.extra, self.ratings)
        )
        reverse = {k: j.restrict(queries=texts.ids, candidates=images.ids) for k, j in self.reverse.items()}
        about = self.warnings, self.ordered, self.origin
        return Collection(name or self.name, images, texts, judgements, {}, extra, reverse, ratings, *about)

    @property
    def train(self) -> Collection:
        """The training split."""
        return self.split("train")

    @property
    def dev(self) -> Collection:
        """The development split."""
        return self.split("dev")

    @property
    def test(self) -> Collection:
        """The test split."""
        return self.split("test")

    @property
    def all_judgements(self) -> dict[str, Judgements]:
        """The usual pairs and all further judgements (image -> text), by name."""
        return {self.judgements.name: self.judgements, **self.extra}

    def judged(self, name: str, direction: str) -> Judgements:
        """Judgements by name for one direction, "i2t" (image queries) or "t2i" (text queries)."""
        judgements = self.all_judgements
        if name not in judgements:
            raise UnknownName("judgements", name, judgements, of=repr(self.name))
        if direction == "t2i" and name in self.reverse:
            return self.reverse[name]
        return judgements[name] if direction == "i2t" else judgements[name].T

    def describe(self) -> dict[str, object]:
        """Summary statistics of this collection, as plain values."""
        per_image = self.judgements.counts
        return {
            "name": self.name,
            "images": len(self.images),
            "texts": len(self.texts),
            "texts per image": {"least": int(min(per_image, default=0)), "most": int(max(per_image, default=0))},
            "judgements": {name: len(j) for name, j in self.all_judgements.items()},
            "ratings": {name: len(j.grades) for name, j in self.ratings.items()},
            "splits": {name: len(ids) for name, ids in self.splits.items()},
            "warnings": len(self.warnings),
            **({"origin": self.origin} if self.origin else {}),
        }

    def _columns(self) -> dict[str, list[object]]:
        """One row per pair of an image and its text, for `to_pandas`, `to_polars` and `to_arrow`."""
        split = {image: name for name, ids in self.splits.items() for image in ids}
        images = [self.images.ids[row] for row in self.judgements.rows]
        texts = self.judgements.columns
        pairs = {"image": images, "text": [self.texts.ids[column] for column in texts]}
        captions = {"caption": [str(self.texts.values[column]) for column in texts]}
        return {**pairs, **captions, **({"split": [split.get(image) for image in images]} if split else {})}

    def _repr_html_(self) -> str:
        """A table of counts, and the first images with one caption each."""
        counts = {"images": len(self.images), "texts": len(self.texts)}
        counts |= {f"judgements: {name}": len(j) for name, j in self.all_judgements.items()}
        counts |= {f"split: {name}": len(ids) for name, ids in self.splits.items()}
        return overview_html(self.name, counts, [self._preview(row) for row in range(min(SHOWN, len(self.images)))])

    def _preview(self, row: int) -> tuple[str, str, Image | None]:
        """Id and first caption of an image, and the image itself if it can be opened."""
        captions = self.judgements.columns[self.judgements.rows == row]
        name = self.images.ids[row]
        caption = str(self.texts.values[int(captions[0])]) if len(captions) else name
        try:
            return name, caption, self.images.open(row, side=SIDE)
        except (LimnerError, OSError):
            return name, caption, None

    def __repr__(self) -> str:
        return f"Collection({self.name!r}: {len(self.images):,} images, {len(self.texts):,} texts)"
