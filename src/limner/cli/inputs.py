"""Inputs of commands: embeddings, a similarity matrix, run files, or a system that limner trains itself.

Rows are matched by id; rows without ids are used in the order of the collection, if the counts agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import typer

from limner.core.arrays import Array
from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.ids import Ids
from limner.core.paths import read_array, read_text
from limner.datasets.runs import read_run

if TYPE_CHECKING:
    from limner.core.collection import Collection, Items
    from limner.core.embeddings import Embeddings
    from limner.core.ranking import Ranking
    from limner.evaluation.evaluate import Source
    from limner.scores import Scores

    Vectors = tuple[Embeddings, Ids | None]


@dataclass(frozen=True)
class Way:
    """The input, as given on the command line."""

    images: Path | None = None
    texts: Path | None = None
    image_ids: Path | None = None
    text_ids: Path | None = None
    scores: Path | None = None
    runs: tuple[Path, ...] = ()
    system: str | None = None
    trust: bool = False
    features: str | None = None
    encoder: str | None = None
    cache: Path | None = None

    @property
    def kind(self) -> str:
        """The kind of input, one of five; missing, multiple and incomplete inputs are refused."""
        if (self.images is None) != (self.texts is None):
            raise typer.BadParameter("--images and --texts belong together: give the embeddings of both")
        given = {"embeddings": self.images, "matrix": self.scores, "runs": self.runs, "system": self.system}
        given["encoder"] = self.encoder
        named = [kind for kind, value in given.items() if value]
        if len(named) != 1:
            raise typer.BadParameter(
                f"got {' and '.join(named) or 'no system'} to evaluate: give one of --images with --texts, --scores, "
                "--run, --system, --encoder"
            )
        if self.features is not None and named[0] != "system":
            raise typer.BadParameter("--features is only for a --system that was trained on a file of features")
        if self.cache is not None and named[0] != "encoder":
            raise typer.BadParameter("--cache is only for --encoder: other inputs are not encoded")
        if named[0] in ("runs", "system", "encoder") and (self.image_ids or self.text_ids):
            raise typer.BadParameter("--image-ids and --text-ids are for --images with --texts, and for --scores")
        return named[0]

    @cached_property
    def vectors(self) -> tuple[Vectors, Vectors]:
        """The embeddings of images and texts, read and validated once."""
        return _vectors(self.images, self.image_ids), _vectors(self.texts, self.text_ids)


def _vectors(file: Path | None, ids: Path | None) -> Vectors:
    """Embeddings, with their ids if they are in the file or in a file of ids."""
    from limner.core.embeddings import Embeddings

    read = Embeddings.load(str(file), ids=ids)
    numbered = all(key == str(row) for row, key in enumerate(read.ids))
    return read, None if numbered and ids is None else read.ids


def opened(
    way: Way, whole: Collection, part: Collection, directions: Sequence[str] = ()
) -> Source | Mapping[str, Source]:
    """The system on one part of a collection.

    Args:
        way: The input; not a system to train.
        whole: The whole collection; a file may cover all of it.
        part: The part to evaluate.
        directions: The direction of each run, if given.
    """
    if directions and way.kind != "runs":
        raise typer.BadParameter("--direction is only for a --run: scores are always images by texts here")
    _refuse_incidental(way, part)
    if way.kind == "embeddings":
        return _from_embeddings(way, whole, part)
    if way.kind == "matrix":
        return _from_matrix(way, whole, part)
    if directions and len(directions) != len(way.runs):
        raise typer.BadParameter(f"got {len(directions)} directions for {len(way.runs)} run(s): give one for each")
    said: Sequence[str | None] = directions or [None] * len(way.runs)
    return _both([_run(path, part, direction) for path, direction in zip(way.runs, said, strict=True)])


def _refuse_incidental(way: Way, part: Collection) -> None:
    """Refuses rows without ids if the collection is a file of judgements, whose order is arbitrary."""
    files = [] if part.ordered else unnamed_files(way)
    if files:
        raise LimnerError(
            f"{' and '.join(map(str, files))} without ids for {part.name!r}, a file of judgements, whose order "
            f"is arbitrary: evaluate the COLLECTION of these rows, with --judgements FILE; or name rows and "
            "columns with --image-ids and --text-ids"
        )


def by_direction(source: Source | Mapping[str, Source], collection: Collection) -> Mapping[str, Source]:
    """Sources by direction. Scores are images by texts here, so images and texts may share ids."""
    from limner.evaluation.evaluate import directions
    from limner.scores import Scores

    images = isinstance(source, Scores) and all(query in collection.images.ids for query in source.queries)
    return directions(source, collection, "i2t" if images else None)


def unnamed(way: Way) -> list[str]:
    """A note for every file without ids, whose rows are matched by order only."""
    return [f"{file} has no ids: its rows are used in the order of the collection" for file in unnamed_files(way)]


def unnamed_files(way: Way) -> list[Path | None]:
    """The files without ids."""
    if way.kind == "matrix":
        return [way.scores] if way.image_ids is None or way.text_ids is None else []
    if way.kind == "embeddings":
        return [f for f, (_, ids) in zip((way.images, way.texts), way.vectors, strict=True) if ids is None]
    return []


# --- rows and ids -----------------------------------------------------------------------------------------------


def _rows(
    file: Path, count: int, ids: Ids | None, wanted: Ids, whole: Ids, *, axis: str = "rows"
) -> npt.NDArray[np.int64]:
    """The rows (or columns) of a file for the requested items: by id if there are ids, else in collection order."""
    if ids is None:
        if count not in (len(wanted), len(whole)):
            kind = wanted.what
            raise LimnerError(
                f"{file} has {count:,} {axis} and no ids for {len(wanted):,} {kind}s: expected {len(wanted):,} in the "
                f"order of the collection; or name the {axis} with --{kind}-ids FILE, one id per line"
            )
        ids = wanted if count == len(wanted) else whole
    found = ids.find(wanted)
    if (found < 0).any():
        lacking = [key for key, row in zip(wanted, found, strict=True) if row < 0]
        raise LimnerError(
            f"{file} lacks {len(lacking):,} of the {len(wanted):,} {wanted.what}s ({shown(lacking)}); it has ids such "
            f"as {shown(ids, most=2)}: use the collection's ids, or choose another --split"
        )
    return found


def _read_ids(file: Path | None, count: int, what: str) -> Ids | None:
    if file is None:
        return None
    listed = read_text(file, what="file of ids").splitlines()
    try:
        ids = Ids(listed, what=what)
    except LimnerError as error:
        raise LimnerError(f"{file}: {error}") from error
    if len(ids) != count:
        raise LimnerError(f"{file} has {len(ids):,} ids for {count:,} {what}s: expected one per row")
    return ids


# --- embeddings and matrices ------------------------------------------------------------------------------------


def _from_embeddings(way: Way, whole: Collection, part: Collection) -> Scores:
    from limner.core.embeddings import Embeddings
    from limner.scores import Scores

    sides = []
    wanted = ((way.images, part.images.ids, whole.images.ids), (way.texts, part.texts.ids, whole.texts.ids))
    for (read, ids), (file, here, every) in zip(way.vectors, wanted, strict=True):
        rows = _rows(Path(str(file)), len(read), ids, here, every)
        sides.append(Embeddings(here, read.matrix if _all_in_order(rows, len(read)) else read.matrix[rows]))
    return Scores.from_embeddings(*sides)


def _from_matrix(way: Way, whole: Collection, part: Collection) -> Scores:
    from limner.scores import Scores

    file = Path(str(way.scores))
    matrix = _read_matrix(file)
    if way.image_ids is None and way.text_ids is None:
        _refuse_shape(file, matrix.shape, (len(part.images), len(part.texts)), (len(whole.images), len(whole.texts)))
    rows, columns = (
        _rows(file, size, _read_ids(named, size, wanted.ids.what), wanted.ids, every.ids, axis=axis)
        for axis, size, named, wanted, every in (
            ("rows", matrix.shape[0], way.image_ids, part.images, whole.images),
            ("columns", matrix.shape[1], way.text_ids, part.texts, whole.texts),
        )
    )
    as_it_is = _all_in_order(rows, matrix.shape[0]) and _all_in_order(columns, matrix.shape[1])
    return Scores.from_matrix(matrix if as_it_is else matrix[np.ix_(rows, columns)], part.images.ids, part.texts.ids)


def _refuse_shape(file: Path, got: tuple[int, ...], wanted: tuple[int, int], whole: tuple[int, int]) -> None:
    """Refuses a matrix without ids that fits neither the part nor the whole collection."""
    if got in (wanted, whole):
        return
    hint = "choose another --split, or name rows and columns with --image-ids and --text-ids"
    if got[::-1] in (wanted, whole):
        hint = "it looks transposed; save matrix.T"
    elif got in ((wanted[0], wanted[0]), (whole[0], whole[0])):
        hint = (
            "if it has one caption of each image, such as the judged captions of Flickr8k (number 2), load these alone "
            "with -O captions=[2], or name the columns with --text-ids"
        )
    raise LimnerError(f"{file} is a matrix of {got}, expected {wanted}, images by texts: {hint}")


def _read_matrix(file: Path) -> Array:
    """A similarity matrix, memory-mapped from its npy file."""
    matrix = read_array(file, what="similarity matrix")
    if matrix.ndim != 2 or not matrix.size:
        raise LimnerError(f"{file} has an array of shape {matrix.shape}: expected a matrix, images by texts")
    return matrix


def _all_in_order(rows: npt.NDArray[np.int64], count: int) -> bool:
    """Whether all rows are used in order, so that a memory-mapped file need not be copied."""
    return len(rows) == count and bool((rows == np.arange(count)).all())


# --- runs -------------------------------------------------------------------------------------------------------


def _both(runs: list[tuple[str, Ranking]]) -> dict[str, Ranking]:
    found = dict(runs)
    if len(found) != len(runs):
        raise LimnerError(
            f"{len(runs)} runs, all of them {' or '.join(found)}: give at most one per direction, i2t and t2i; to "
            "compare systems, evaluate each with --save and use 'limner compare'"
        )
    return found


def _run(path: Path, part: Collection, direction: str | None) -> tuple[str, Ranking]:
    """A run and its direction, as given or by its ids; unlisted candidates are treated as cut off."""
    from limner.core.ranking import Ranking

    if direction not in (None, "i2t", "t2i"):
        raise UnknownName("direction", direction, ("i2t", "t2i"))
    read = read_run(path)
    sides = {"i2t": (part.images.ids, part.texts.ids), "t2i": (part.texts.ids, part.images.ids)}
    fits = [d for d, (queries, pool) in sides.items() if direction in (None, d) and _of(read, queries, pool)]
    if len(fits) != 1:
        raise LimnerError(f"{path}: {_unfit(read, part, direction, both=bool(fits))}")
    pool = sides[fits[0]][1]
    indices = np.where(read.indices >= 0, pool.positions(read.candidates)[read.indices], -1)
    return fits[0], Ranking(read.queries, pool, indices, read.scores, len(pool), notes=read.notes)


def _unfit(read: Ranking, part: Collection, direction: str | None, *, both: bool) -> str:
    """Explains why the direction of a run is unclear."""
    images, texts = shown(part.images.ids, most=2), shown(part.texts.ids, most=2)
    queries, candidates = shown(read.queries, most=2), shown(read.candidates, most=2)
    if both:
        return (
            f"its queries ({queries}) could be images or texts of {part.name!r}, which share ids: say which they are "
            "with --direction i2t (images) or t2i (texts)"
        )
    wanted = {
        "i2t": "are not images and texts",
        "t2i": "are not texts and images",
        None: "are neither images nor texts",
    }
    return (
        f"its queries ({queries}) and candidates ({candidates}) {wanted[direction]} of {part.name!r} (images {images}, "
        f"texts {texts}): use its ids, or choose another --split"
    )


def _of(ranking: Ranking, queries: Ids, pool: Ids) -> bool:
    return all(key in queries for key in ranking.queries) and all(key in pool for key in ranking.candidates)


def is_qrels(spec: str) -> bool:
    """Whether a collection is a qrels file: by its name, or by its first line, `query 0 candidate grade`."""
    from limner.datasets import detect

    if spec.startswith("qrels:"):
        return True
    path = Path(spec)
    if not path.is_file():
        return False
    if path.suffix.lower() not in ("", ".txt"):
        return detect(path).name == "qrels"
    with path.open("rb") as file:
        cells = file.readline().split()
    return len(cells) == 4 and cells[3].replace(b".", b"", 1).lstrip(b"-").isdigit()


# --- embeddings without a collection ----------------------------------------------------------------------------


def in_order(way: Way, per_image: int) -> Collection:
    """A collection of ids for files with n images and `per_image` texts of each in the same order."""
    from limner.core.collection import Collection

    named = zip(("image", "text"), _sizes(way), strict=True)
    sides = [ids or [f"{what}-{row}" for row in range(size)] for what, (size, ids) in named]
    return Collection.in_order(*sides, per_image=per_image, name=Path(str(way.images or way.scores)).stem)


def _sizes(way: Way) -> tuple[tuple[int, Ids | None], tuple[int, Ids | None]]:
    if way.kind == "matrix":
        rows, columns = _read_matrix(Path(str(way.scores))).shape
        return (rows, _read_ids(way.image_ids, rows, "image")), (columns, _read_ids(way.text_ids, columns, "text"))
    if way.kind != "embeddings":
        raise typer.BadParameter("--per-image is for --images with --texts, and for --scores")
    (images, image_ids), (texts, text_ids) = way.vectors
    return (len(images), image_ids), (len(texts), text_ids)


def vectors_of(file: str, items: Items) -> Embeddings:
    """Embeddings with the ids of the items; rows without ids are used in the order of the items."""
    from limner.core.embeddings import Embeddings

    read = Embeddings.load(file)
    if all(item in read.ids for item in items.ids):
        return read
    if all(key == str(row) for row, key in enumerate(read.ids)) and len(read) == len(items):
        return Embeddings(items.ids, read.matrix)
    lost = next(item for item in items.ids if item not in read.ids)
    raise LimnerError(
        f"{file} lacks {lost!r}: expected a vector for each of the {len(items):,} {items.kind}s, by id or in order"
    )
