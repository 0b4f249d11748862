"""Trained systems, vectors and corrections on disk, so that a server that starts again computes none of them again.

Everything has a key of what it was made from: the bytes of the data, the system with its options, and the version of
limner. Files are read with their checksums; a damaged one is made again, and the log says so.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.files import replacing
from limner.core.ids import Ids
from limner.core.paths import damage_told, read_arrays, read_bytes
from limner.core.progress import ProgressLike, counting
from limner.core.version import VERSION
from limner.encoders.cache import content_key

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.scores import Scores
    from limner.scores.correction import Statistics
    from limner.systems.hold_out import Division

Value = TypeVar("Value")
_log = logging.getLogger("limner.web")


Noted = tuple["Scores", tuple[str, ...]]
"""Scores, and notes on them."""


class KeptSystems:
    """A folder of values by key.

    Args:
        folder: Created when something is kept; None to keep nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def value(
        self,
        key: str | None,
        name: str,
        make: Callable[[], Value],
        *,
        read: Callable[[Path], Value],
        write: Callable[[Value, Path], object],
    ) -> Value:
        """The value that is kept; if there is none or it is damaged, it is made and kept.

        Args:
            key: What it is made from; None for what cannot be told apart, which is not kept.
            name: Its file or folder.
            make: Makes it.
            read: Reads it; raises `LimnerError` if it is damaged.
            write: Writes it. What cannot be written, for example on a full disk, is not kept.
        """
        if self.folder is None or key is None:
            return make()
        path = self.folder / key / name
        if path.exists():
            try:
                return read(path)
            except LimnerError as error:
                _log.warning("what was kept is damaged and is made again: %s", error)
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        new = make()
        with suppress(LimnerError, OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write(new, path)
        return new

    def model(self, key: str | None, make: Callable[[], object]) -> object:
        """A trained system."""
        from limner.systems import load

        return self.value(key, "model", make, read=load, write=_save_model)

    def scores(self, key: str | None, part: Collection, make: Callable[[], Noted]) -> Noted:
        """The vectors of a part of a collection, with notes on them; other scores are not kept."""
        named = None if key is None else key_of(key, *part.images.ids, "", *part.texts.ids)
        return self.value(named, "vectors.npz", make, read=_read_vectors, write=_write_vectors)

    def statistics(self, key: str | None, make: Callable[[], Statistics]) -> Statistics:
        """The statistics of a correction."""
        from limner.scores.correction import Statistics

        return self.value(key, "statistics.npz", make, read=Statistics.load, write=Statistics.save)


NOTHING_KEPT = KeptSystems(None)


def key_of(*parts: str | bytes) -> str:
    """A key of texts and bytes; each counts with its length.

    >>> key_of("ab", "c") == key_of("a", "bc"), key_of("ab") == key_of(b"ab")
    (False, True)
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def data_key(collection: Collection, progress: ProgressLike = None) -> str | None:
    """A key of a collection: the bytes of its images, its texts, judgements and splits; None if an image is missing."""
    images, texts = collection.images, collection.texts
    try:
        contents = [
            content_key(images.values[row], kind="image", name=images.ids[row])
            for row in counting(range(len(images)), progress)
        ]
    except (LimnerError, OSError):
        return None
    judgements = (
        key_of(name, *(each.tobytes() for each in (pairs.rows, pairs.columns, pairs.grades)))
        for name, pairs in sorted(collection.all_judgements.items())
    )
    splits = (key_of(name, *ids) for name, ids in sorted(collection.splits.items()))
    lists = (images.ids, contents, texts.ids, map(str, texts.values), judgements, splits)
    return key_of(*(key_of(*each) for each in lists))


def system_key(recipe: str | None, data: str | None, parts: Division, features: object) -> str | None:
    """A key of a system that is trained now; None if its name and options do not tell how it is made.

    Args:
        recipe: See `limner.web.ready_system.recipe_of`.
        data: See `data_key`.
        parts: The training items and the held-out items.
        features: Image vectors that it is trained on.
    """
    training = () if parts.training is None else parts.training.images.ids
    return (
        None
        if recipe is None
        else model_key(key_of(recipe, *training, "", *parts.evaluated.images.ids), data, features)
    )


def model_key(model: str | None, data: str | None, features: object) -> str | None:
    """A key of a model on data; None if it cannot be told from others.

    Args:
        model: What tells the model from others.
        data: See `data_key`.
        features: Vectors of the images, or their file.
    """
    if model is None or data is None or not (features is None or isinstance(features, (str, Path))):
        return None
    return key_of(VERSION, model, data, b"" if features is None else read_bytes(features, what="features"))


def _save_model(model: object, path: Path) -> None:
    getattr(model, "save", lambda _: None)(path)


def _write_vectors(noted: Noted, path: Path) -> None:
    from limner.scores.vectors import VectorScores

    scores, notes = noted
    if type(scores) is not VectorScores:
        return
    sides = {"image": scores.query_vectors, "text": scores.candidate_vectors}
    arrays: dict[str, Any] = {}
    for side, each in sides.items():
        arrays |= {f"{side}_ids": np.array(list(each.ids), dtype=np.str_), f"{side}_vectors": each.matrix}
    with replacing(path) as draft, draft.open("wb") as file:
        np.savez(file, similarity=np.array(scores.similarity), notes=np.array(notes, dtype=np.str_), **arrays)


def _read_vectors(path: Path) -> Noted:
    from limner.scores.vectors import VectorScores

    arrays = read_arrays(path, what="file of vectors")
    with damage_told(path, what="file of vectors", mend="delete it; it will be made again"):
        images, texts = (
            Embeddings(Ids(arrays[f"{side}_ids"].tolist()), arrays[f"{side}_vectors"]) for side in ("image", "text")
        )
        return VectorScores(images, texts, str(arrays["similarity"])), tuple(arrays["notes"].tolist())
