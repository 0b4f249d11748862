"""A disk cache of computed rows, keyed by model and item, so that a killed run can resume.

Vectors of items and scores of pairs are stored in the same way: in parts that are written atomically. Each part is a
safetensors file of keys (128-bit hashes) and rows of numbers, with a checksum. Several processes may write to one
folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array, Float32
from limner.core.collection import Items
from limner.core.cut_texts import collected, count
from limner.core.errors import LimnerError
from limner.core.files import replacing, write_text
from limner.core.images import Value, open_image
from limner.core.paths import damage_told, folder_for, read_bytes, vectors_folder
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.encoders.batching import paced
from limner.encoders.contract import encoded, identity, notes_of

Keys = npt.NDArray[np.uint64]
"""Keys: two 64-bit integers per entry."""
ABOUT = "about.json"
_CHECKSUM, _LAYOUT = "blake2b", 2  # parts of another layout are in another folder


def content_key(value: Value, *, kind: str, name: str = "image") -> bytes:
    """A hash of an item's content: the text, the bytes of the file, or the drawn pixels.

    Args:
        value: As `Items.values` holds it.
        kind: "image" or "text".
        name: Name of an image in error messages.

    >>> content_key("a dog", kind="text") == content_key("a dog", kind="text") != content_key("a cat", kind="text")
    True
    """
    if kind == "text":
        content = str(value).encode()
    elif isinstance(value, bytes):
        content = value
    elif isinstance(value, (str, Path)) and Path(value).is_file():
        content = read_bytes(value, what="image")
    else:
        image = open_image(value, name=name)
        content = repr(image.size).encode() + image.tobytes()
    return hashlib.blake2b(content, digest_size=16, person=kind.encode()).digest()


def keys_of(values: Iterable[bytes]) -> Keys:
    """Keys as pairs of integers.

    >>> keys_of([bytes(15) + b"a"]).shape
    (1, 2)
    """
    joined = b"".join(values)
    return np.frombuffer(joined, dtype=np.uint64).reshape(-1, 2)


def checksum(keys: Array, rows: Array) -> str:
    """A checksum of the contents of a part."""
    total = hashlib.blake2b(digest_size=8)
    for array in (keys, rows):
        total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()


class RowStore:
    """Rows of numbers by key, in a folder of parts.

    Args:
        folder: Created if missing; its parent must exist.
        owner: The model that computes the rows; each owner has its own subfolder.
        width: Values per row.
        dtype: Type of the numbers.
    """

    def __init__(self, folder: str | Path, *, owner: str, width: int, dtype: str = "float32") -> None:
        named = hashlib.blake2b(f"{owner} {width} {dtype} {_LAYOUT}".encode(), digest_size=8).hexdigest()
        self.folder = folder_for(folder_for(folder) / named)
        self.width, self.dtype = width, np.dtype(dtype)
        if not (self.folder / ABOUT).is_file():
            write_text(self.folder / ABOUT, json.dumps({"owner": owner, "width": width, "dtype": dtype}, indent=1))
        self.keys, self.rows = np.empty((0, 2), dtype=np.uint64), np.empty((0, width), dtype=self.dtype)
        self._new = [self._read(file) for file in sorted(self.folder.glob("part-*.safetensors"))]

    def _sort(self) -> None:
        """Merges new rows into the sorted ones; done on lookup, because sorting is slower than appending."""
        if self._new:
            sorted_part = (self.keys, self.rows)
            keys, rows = (np.concatenate(each) for each in zip(sorted_part, *self._new, strict=True))
            order = np.argsort(keys[:, 0], kind="stable")
            self.keys, self.rows, self._new = keys[order], rows[order], []

    def __len__(self) -> int:
        return len(self.keys) + sum(len(keys) for keys, _ in self._new)

    def _read(self, file: Path) -> tuple[Keys, object]:
        from safetensors import safe_open

        with damage_told(file, what="part of a cache", mend="delete it; it will be recomputed"):
            with safe_open(file, framework="numpy") as part:
                keys, rows = (part.get_tensor(name) for name in ("keys", "rows"))
                expected = (part.metadata() or {}).get(_CHECKSUM)
            if rows.shape != (len(keys), self.width) or rows.dtype != self.dtype:
                raise ValueError(f"{len(keys)} keys with rows of shape {rows.shape}")
            if checksum(keys, rows) != expected:
                raise ValueError("its contents do not match its checksum")
            return keys.view(np.uint64).reshape(-1, 2), rows

    def get(self, keys: Keys) -> tuple[npt.NDArray[np.bool_], Array]:
        """Which keys are known, and a row for each key (undefined for unknown ones)."""
        self._sort()
        rows = np.zeros((len(keys), self.width), dtype=self.dtype)
        if not len(self.keys) or not len(keys):
            return np.zeros(len(keys), dtype=bool), rows
        places = np.searchsorted(self.keys[:, 0], keys[:, 0]).clip(max=len(self.keys) - 1)
        is_stored = (self.keys[places] == keys).all(axis=1)  # a second key with the same first half counts as unknown
        rows[is_stored] = self.rows[places[is_stored]]
        return is_stored, rows

    def put(self, keys: Keys, rows: Array) -> None:
        """Writes rows to disk immediately, as a new part."""
        from safetensors.numpy import save_file

        if not len(keys):
            return
        stored_rows = np.ascontiguousarray(rows, dtype=self.dtype).reshape(len(keys), self.width)
        name = f"part-{len(self):012d}-{os.getpid()}-{uuid.uuid4().hex[:8]}.safetensors"
        written = {"keys": np.ascontiguousarray(keys).view(np.int64), "rows": stored_rows}
        with replacing(self.folder / name) as file:
            save_file(written, file, {_CHECKSUM: checksum(**written)})
        self._new.append((keys, stored_rows))


def owner_of(model: object, name: str | None = None) -> str:
    """What identifies a model in a cache: the given name, or else its fingerprint."""
    owner = name or getattr(model, "fingerprint", None)
    if owner is None:
        kind = type(model).__name__
        raise LimnerError(
            f"{kind} has no fingerprint, which tells the cache which model made a result: add a text that changes with "
            f"the model to the class, as in fingerprint = '{kind.lower()} 1', or leave out the cache"
        )
    return str(owner)


class Cached:
    """An encoder with a disk cache: no item is encoded twice by the same model.

    Args:
        encoder: The encoder; it must have `dim`, and `fingerprint` unless a name is given.
        folder: Folder of the cache.
        name: Name of the model and its settings, for an encoder without a `fingerprint`.
        every: Number of items between writes, or fewer if they take more than a few seconds. This is how much is lost
            if a run is killed.
    """

    def __init__(self, encoder: Any, folder: str | Path, *, name: str | None = None, every: int = 2048) -> None:
        owner = owner_of(encoder, name)
        if not hasattr(encoder, "dim"):
            raise LimnerError(
                f"{type(encoder).__name__} has no dim, which a cache needs: add the dimension of its vectors to the "
                "class, as in dim = 512, or leave out the cache"
            )
        self.encoder, self.every, self.dim, self.folder = encoder, every, int(encoder.dim), Path(folder)
        self.fingerprint = owner
        self.store = RowStore(folder, owner=owner, width=self.dim)
        self.reused = 0

    @property
    def identity(self) -> str:
        """The identity of the encoder, or else the name."""
        return identity(self.encoder) or self.fingerprint

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of the encoder."""
        return notes_of(self.encoder)

    def encode(self, items: Items | Sequence[str], *, progress: ProgressLike = None) -> Float32:
        """Vectors of items; known items are read from the cache, the others are encoded and stored."""
        progress = as_progress(progress)
        checked_items = items if isinstance(items, Items) else Items(range(len(items)), items, kind="text")  # type: ignore[arg-type]
        keys = keys_of(
            content_key(v, kind=checked_items.kind, name=key)
            for key, v in zip(checked_items.ids, checked_items.values, strict=True)
        )
        is_stored, out = self.store.get(keys)
        self.reused = int(is_stored.sum())
        first = _firsts(keys, is_stored)
        done = self.reused
        for piece in paced(len(first), max_items=self.every):
            rows = first[piece]
            with collected() as cut:
                vectors = self._encoded(checked_items[rows], progress.part(done, len(checked_items)))
            self._keep_lengths(
                keys[rows], cut.lengths(checked_items[rows].values if checked_items.kind == "text" else [])
            )
            self.store.put(keys[rows], vectors)
            done += len(rows)
        self._count(keys, checked_items)
        return np.asarray(out if not len(first) else self.store.get(keys)[1])

    def _keep_lengths(self, keys: Keys, lengths: list[tuple[int, int]]) -> None:
        """Stores which texts were cut, with the limit and their length."""
        rows = np.array(lengths, dtype=np.int32).reshape(-1, 2)
        if cut := np.flatnonzero(rows[:, 0]).tolist():
            self.cut.put(keys[cut], rows[cut])

    def _count(self, keys: Keys, items: Items) -> None:
        """Counts the texts that were cut, now or when they were stored."""
        if items.kind != "text":
            return
        was_cut, rows = self.cut.get(keys)
        if was_cut.any():
            count(items.values, rows[:, 1].tolist(), limit=int(rows[was_cut, 0].max()))

    @cached_property
    def cut(self) -> RowStore:
        """The limit and the length of each text that was cut."""
        return RowStore(self.folder, owner=f"{self.fingerprint} cut texts", width=2, dtype="int32")

    def _encoded(self, items: Items, progress: Progress) -> Float32:
        return encoded(self.encoder, items, progress=progress).matrix


def _firsts(keys: Keys, is_stored: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """The first row of every unknown key."""
    _, first = np.unique(keys, axis=0, return_index=True)
    return np.sort(first[~is_stored[first]])


def remembering(encoder: object) -> object:
    """The encoder with the cache shared by all commands, if it has a fingerprint and a cache folder exists.

    See `limner.core.paths.vectors_folder`.
    """
    if isinstance(encoder, Cached) or identity(encoder) is None or not hasattr(encoder, "dim"):
        return encoder
    folder = vectors_folder() if getattr(encoder, "fingerprint", None) else None
    return encoder if folder is None else Cached(encoder, folder)
