"""A copy of the vectors of photographs in plain files: a search of an unchanged folder opens no database.

To import LanceDB takes longer than all the rest of such a search. The copy is deleted before the index changes and
written after that, so it is never that of another version. What it cannot answer, such as filters, opens the database.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from limner.core.arrays import Float32
from limner.core.errors import LimnerError
from limner.core.files import replacing, write_text
from limner.core.paths import read_json
from limner.core.registry import checked
from limner.core.tensors import read_array
from limner.search.index import MEMORY, Index
from limner.search.index_table import About
from limner.search.store import VectorStore
from limner.search.stored_vectors import HeldVersion

HEAD, VECTORS = "snapshot.json", "snapshot.npy"


class SnapshotStore(VectorStore):
    """A store whose database is opened when something else than its vectors and ids is asked for.

    Args:
        path: The folder of the index.
        folder: The folder of the photographs.
        head: What `write_snapshot` wrote beside the vectors.
    """

    def __init__(self, path: Path, folder: Path, head: dict[str, Any]) -> None:
        self.path, self.pinned = str(path), None
        self.about = About(**checked(About, head["about"], what=f"the index {path}"))
        self._writes, self._counts = False, None
        self._version, self._ids, self._folder = int(head["version"]), list(map(str, head["ids"])), folder
        self._state = self._version, len(self._ids)

    @cached_property
    def table(self) -> Any:
        """The table of the database, which is still that of the copy."""
        opened = VectorStore.open(self.path)
        if opened.version != self._version:
            raise LimnerError("the folder of photographs has changed during this search: search again")
        return opened.table

    @property
    def notes(self) -> dict[str, Any]:
        """None: photographs have no approximate index."""
        return {}

    def ids(self) -> list[str]:
        """All ids, in order."""
        return self._ids

    def take(self, places: Iterable[int]) -> list[dict[str, Any]]:
        """Id, value and thumbnail of the rows at these positions, in this order."""
        keys = [self._ids[int(place)] for place in places]
        return [{"id": key, "value": str(self._folder / key), "picture": None} for key in keys]


def write_snapshot(index: Index, path: Path) -> None:
    """Writes the copy of an index, if its vectors fit into memory."""
    about, store = index.about, index.store
    if about.has_sets or store.size > MEMORY:
        return
    vectors = np.concatenate(list(store.vectors()))
    with replacing(path / VECTORS) as draft, draft.open("wb") as stream:
        np.save(stream, vectors)
    head = {"version": index.version, "about": asdict(about), "ids": store.ids()}
    write_text(path / HEAD, json.dumps(head, ensure_ascii=False))


def delete_snapshot(path: Path) -> None:
    """Deletes the copy, before the index changes."""
    (path / HEAD).unlink(missing_ok=True)


def open_snapshot(path: Path, folder: Path, *, model: Any = None) -> Index | None:
    """The index of the copy, with its vectors in memory; None if there is no sound copy.

    Args:
        path: The folder of the index.
        folder: The folder of the photographs.
        model: Encodes queries.
    """
    if not (path / HEAD).is_file():
        return None
    try:
        head = read_json(path / HEAD, what="copy of the vectors")
        store = SnapshotStore(path, folder, head)
        vectors: Float32 = read_array(path / VECTORS, what="copy of the vectors")
    except (LimnerError, ValueError, KeyError, TypeError):
        return None
    if vectors.shape != (len(store), store.about.dim) or vectors.dtype != np.float32:
        return None
    index = Index(store, model, _held=HeldVersion(store.version, vectors, None))
    index.refuse_other(model)
    return index
