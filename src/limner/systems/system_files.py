"""Scores of a system from its files: embeddings of images and texts, a similarity matrix, or runs.

Rows are matched by id; rows without ids are used in the order of the collection, if the counts agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array
from limner.core.collection import Collection, Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.ids import Ids
from limner.core.paths import read_text
from limner.core.ranking import Ranking
from limner.core.tensors import read_array
from limner.datasets.runs import read_run
from limner.scores import Scores
from limner.systems.hold_out import Division

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class EmbeddingFiles:
    """Embeddings of images and texts.

    Args:
        images: Embeddings, or their file.
        texts: Likewise.
        image_ids: The file of the images' ids, one per line, for embeddings without ids.
        text_ids: Likewise.
    """

    what: ClassVar[str] = "embeddings"
    images: Embeddings | str | Path
    texts: Embeddings | str | Path
    image_ids: Path | None = None
    text_ids: Path | None = None

    @cached_property
    def _sides(self) -> tuple[tuple[Embeddings, Ids | None], tuple[Embeddings, Ids | None]]:
        """The embeddings of images and texts, read once, with their ids if they have any."""
        return _embeddings(self.images, self.image_ids), _embeddings(self.texts, self.text_ids)

    @property
    def without_ids(self) -> list[str]:
        """The files whose rows have no ids."""
        return [str(file) for file, (_, ids) in zip((self.images, self.texts), self._sides, strict=True) if ids is None]

    def scores(self, parts: Division) -> Scores:
        """The scores of the evaluated items."""
        _refuse_arbitrary_order(self.without_ids, parts.evaluated)
        sides = []
        for file, (vectors, ids), items, every in zip(
            (self.images, self.texts), self._sides, _sides_of(parts.evaluated), _sides_of(parts.collection), strict=True
        ):
            rows = _rows(file, len(vectors), ids, items.ids, every.ids)
            matrix = vectors.matrix if _all_in_order(rows, len(vectors)) else vectors.matrix[rows]
            sides.append(Embeddings(items.ids, matrix))
        return Scores.from_embeddings(*sides)

    def collection(self, per_image: int) -> Collection:
        """A collection of n images and `per_image` texts of each, in the order of the files."""
        sizes = [(len(vectors), ids) for vectors, ids in self._sides]
        return _collection_in_order(self.images, sizes, per_image)


@dataclass(frozen=True, eq=False)
class ScoreFile:
    """A similarity matrix, images by texts.

    Args:
        matrix: Its npy file.
        image_ids: The file of the ids of the rows, one per line.
        text_ids: The file of the ids of the columns.
    """

    what: ClassVar[str] = "scores"
    matrix: Path
    image_ids: Path | None = None
    text_ids: Path | None = None

    @property
    def without_ids(self) -> list[str]:
        """The file, if its rows or columns have no ids."""
        return [str(self.matrix)] if self.image_ids is None or self.text_ids is None else []

    def scores(self, parts: Division) -> Scores:
        """The scores of the evaluated items."""
        _refuse_arbitrary_order(self.without_ids, parts.evaluated)
        part, collection = parts.evaluated, parts.collection
        matrix = _read_matrix(self.matrix)
        if self.image_ids is None and self.text_ids is None:
            _refuse_shape(self.matrix, matrix.shape, _shape(part), _shape(collection), part.name)
        rows, columns = (
            _rows(self.matrix, size, _read_ids(file, size, items.ids.what), items.ids, every.ids, axis=axis)
            for axis, size, file, items, every in (
                ("rows", matrix.shape[0], self.image_ids, part.images, collection.images),
                ("columns", matrix.shape[1], self.text_ids, part.texts, collection.texts),
            )
        )
        if not (_all_in_order(rows, matrix.shape[0]) and _all_in_order(columns, matrix.shape[1])):
            matrix = matrix[np.ix_(rows, columns)]
        return Scores.from_matrix(matrix, part.images.ids, part.texts.ids)

    def collection(self, per_image: int) -> Collection:
        """A collection of n images and `per_image` texts of each, in the order of the rows and columns."""
        sizes = zip(_read_matrix(self.matrix).shape, (self.image_ids, self.text_ids), ("image", "text"), strict=True)
        sides = [(size, _read_ids(file, size, kind)) for size, file, kind in sizes]
        return _collection_in_order(self.matrix, sides, per_image)


@dataclass(frozen=True, eq=False)
class RunFiles:
    """Runs of one or both directions: TREC runs or JSON lists.

    Args:
        paths: The files.
        directions: The direction of each, "i2t" or "t2i"; by default told by its ids.
    """

    what: ClassVar[str] = "runs"
    paths: Sequence[Path]
    directions: Sequence[str] = ()
    without_ids: Sequence[str] = ()

    def scores(self, parts: Division) -> dict[str, Ranking]:
        """The rankings of the evaluated items, by direction."""
        if self.directions and len(self.directions) != len(self.paths):
            raise LimnerError(f"got {len(self.directions)} directions for {len(self.paths)} run(s): give one for each")
        directions: Sequence[str | None] = self.directions or [None] * len(self.paths)
        runs = [
            _read_run(path, parts.evaluated, direction) for path, direction in zip(self.paths, directions, strict=True)
        ]
        by_direction = dict(runs)
        if len(by_direction) != len(runs):
            raise LimnerError(
                f"{len(runs)} runs, all of them {' or '.join(by_direction)}: give at most one per direction, i2t and "
                "t2i; to compare systems, evaluate each with -o and use 'limner compare'"
            )
        return by_direction


def embeddings_of(file: str, items: Items) -> Embeddings:
    """Embeddings with the ids of the items; rows without ids are used in the order of the items."""
    vectors = Embeddings.load(file)
    if all(item in vectors.ids for item in items.ids):
        return vectors
    if _is_numbered(vectors) and len(vectors) == len(items):
        return Embeddings(items.ids, vectors.matrix)
    missing = next(item for item in items.ids if item not in vectors.ids)
    raise LimnerError(
        f"{file} lacks {missing!r}: expected a vector for each of the {len(items):,} {items.kind}s, by id or in order"
    )


# --- rows and ids -----------------------------------------------------------------------------------------------


def _sides_of(collection: Collection) -> tuple[Items, Items]:
    return collection.images, collection.texts


def _shape(collection: Collection) -> tuple[int, int]:
    return len(collection.images), len(collection.texts)


def _is_numbered(vectors: Embeddings) -> bool:
    """Whether the ids are the numbers of the rows, as those of a file without ids."""
    return all(key == str(row) for row, key in enumerate(vectors.ids))


def _embeddings(source: Embeddings | str | Path, ids: Path | None) -> tuple[Embeddings, Ids | None]:
    if isinstance(source, Embeddings):
        return source, source.ids
    vectors = Embeddings.load(str(source), ids=ids)
    return vectors, None if ids is None and _is_numbered(vectors) else vectors.ids


def _refuse_arbitrary_order(files: Sequence[str], part: Collection) -> None:
    """Refuses rows without ids if the collection is a file of judgements, whose order is arbitrary."""
    if files and not part.ordered:
        raise LimnerError(
            f"{' and '.join(files)} without ids for {part.name!r}, a file of judgements, whose order "
            f"is arbitrary: evaluate the COLLECTION of these rows, with --judgements FILE; or name rows and "
            "columns with --ids FILE --ids FILE"
        )


def _rows(file: object, count: int, ids: Ids | None, part: Ids, collection_ids: Ids, *, axis: str = "rows") -> Rows:
    """The rows (or columns) of a file for the evaluated items: by id if there are ids, else in collection order."""
    if ids is None:
        if count not in (len(part), len(collection_ids)):
            kind = part.what
            raise LimnerError(
                f"{file} has {count:,} {axis} and no ids for {len(part):,} {kind}s: expected {len(part):,} in the "
                f"order of the collection; or name the {axis} with --ids FILE, one id per line"
            )
        ids = part if count == len(part) else collection_ids
    rows = ids.find(part)
    if (rows < 0).any():
        missing = [key for key, row in zip(part, rows, strict=True) if row < 0]
        raise LimnerError(
            f"{file} lacks {len(missing):,} of the {len(part):,} {part.what}s ({shown(missing)}); it has ids such "
            f"as {shown(ids, most=2)}: use the collection's ids, or choose another --split"
        )
    return rows


def _all_in_order(rows: Rows, count: int) -> bool:
    """Whether all rows are used in order, so that a memory-mapped file need not be copied."""
    return len(rows) == count and bool((rows == np.arange(count)).all())


def _read_ids(file: Path | None, count: int, kind: str) -> Ids | None:
    if file is None:
        return None
    lines = read_text(file, what="file of ids").splitlines()
    try:
        ids = Ids(lines, what=kind)
    except LimnerError as error:
        raise LimnerError(f"{file}: {error}") from error
    if len(ids) != count:
        raise LimnerError(f"{file} has {len(ids):,} ids for {count:,} {kind}s: expected one per row")
    return ids


def _collection_in_order(file: object, sides: Sequence[tuple[int, Ids | None]], per_image: int) -> Collection:
    ids = [
        ids or [f"{kind}-{row}" for row in range(size)]
        for kind, (size, ids) in zip(("image", "text"), sides, strict=True)
    ]
    return Collection.in_order(*ids, per_image=per_image, name=Path(str(file)).stem)


# --- matrices and runs ------------------------------------------------------------------------------------------


def _read_matrix(file: Path) -> Array:
    """A similarity matrix, memory-mapped from its npy file."""
    matrix = read_array(file, what="similarity matrix")
    if matrix.ndim != 2 or not matrix.size:
        raise LimnerError(f"{file} has an array of shape {matrix.shape}: expected a matrix, images by texts")
    return matrix


def _refuse_shape(
    file: Path, shape: tuple[int, ...], part: tuple[int, int], collection: tuple[int, int], name: str
) -> None:
    """Refuses a matrix without ids that fits neither the evaluated part nor the whole collection."""
    if shape in (part, collection):
        return
    hint = "choose another --split, or name rows and columns with --ids FILE --ids FILE"
    if shape[::-1] in (part, collection):
        hint = "it looks transposed; save matrix.T"
    elif shape in ((part[0], part[0]), (collection[0], collection[0])):
        hint = (
            "if it has one caption of each image, such as the judged captions of Flickr8k (number 2), load these alone "
            "with -O captions=[2], or name rows and columns with --ids FILE --ids FILE"
        )
    raise LimnerError(f"{file} is a matrix of {shape}, expected {part}, images by texts of {name!r}: {hint}")


def _read_run(path: Path, part: Collection, direction: str | None) -> tuple[str, Ranking]:
    """A run and its direction, as given or by its ids; unlisted candidates are treated as cut off."""
    if direction not in (None, "i2t", "t2i"):
        raise UnknownName("direction", direction, ("i2t", "t2i"))
    run = read_run(path)
    sides = {"i2t": (part.images.ids, part.texts.ids), "t2i": (part.texts.ids, part.images.ids)}
    fits = [d for d, (queries, pool) in sides.items() if direction in (None, d) and _has_ids(run, queries, pool)]
    if len(fits) != 1:
        raise LimnerError(f"{path}: {_unclear_direction(run, part, direction, is_ambiguous=bool(fits))}")
    pool = sides[fits[0]][1]
    indices = np.where(run.indices >= 0, pool.positions(run.candidates)[run.indices], -1)
    return fits[0], Ranking(run.queries, pool, indices, run.scores, len(pool), notes=run.notes)


def _has_ids(run: Ranking, queries: Ids, pool: Ids) -> bool:
    return all(key in queries for key in run.queries) and all(key in pool for key in run.candidates)


def _unclear_direction(run: Ranking, part: Collection, direction: str | None, *, is_ambiguous: bool) -> str:
    """Explains why the direction of a run is unclear."""
    images, texts = shown(part.images.ids, most=2), shown(part.texts.ids, most=2)
    queries, candidates = shown(run.queries, most=2), shown(run.candidates, most=2)
    if is_ambiguous:
        return (
            f"its queries ({queries}) could be images or texts of {part.name!r}, which share ids: say which they are "
            "with --run i2t=FILE (images) or --run t2i=FILE (texts), or --direction"
        )
    mismatch = {
        "i2t": "are not images and texts",
        "t2i": "are not texts and images",
        None: "are neither images nor texts",
    }
    return (
        f"its queries ({queries}) and candidates ({candidates}) {mismatch[direction]} of {part.name!r} (images "
        f"{images}, texts {texts}): use its ids, or choose another --split"
    )
