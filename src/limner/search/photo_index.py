"""The index of a folder of photographs: kept in the cache, and brought up to date before each search.

Nothing is written into the folder. Beside the vectors is a list of the files with their sizes and times, so that only
new and changed files are encoded. Every half minute of work is one commit, and an interrupted run continues where it
stopped.

A copy of the vectors in plain files serves the search of an unchanged folder, which opens no database.
To import LanceDB takes longer than all the rest of such a search. The copy is deleted before the index changes and
written after that, so it is never that of another version. What it cannot answer, such as filters, opens the database.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from limner.core.arrays import Float32
from limner.core.collection import Items
from limner.core.errors import LimnerError, count
from limner.core.files import replacing, write_text
from limner.core.image_faults import image_fault
from limner.core.paths import cache_folder, folder_for, private_folder, read_json
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.core.registry import checked
from limner.core.tensors import read_array
from limner.datasets.image_folder import IMAGE_ENDINGS, Photos, photos
from limner.encoders.batching import paced
from limner.encoders.contract import digest, gives_sets, identity
from limner.search.index import MEMORY, Index, index, open_index
from limner.search.index_table import About, Vectors
from limner.search.items import Row, encoded_known, encoded_readable
from limner.search.photo_fields import with_photo_fields
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

    def __init__(self, path: Path, folder: Path, head: Row) -> None:
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
    def notes(self) -> Row:
        """None: photographs have no approximate index."""
        return {}

    def ids(self) -> list[str]:
        """All ids, in order."""
        return self._ids

    def take(self, places: Iterable[int]) -> list[Row]:
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


FILES = "files.json"
"""The list of files in the folder of the index."""
FORMAT = 1
AT_ONCE = 1_024
"""Photographs that are encoded between two commits, at most."""
COMMIT_SECONDS = 30.0
"""Seconds of work between two commits: so much is lost if the process is killed, and each commit has a cost."""
_MANY_COMMITS = 20


@dataclass(frozen=True)
class PhotoFile:
    """A file as it was when it was last looked at.

    Args:
        size: Bytes.
        modified: Time of its last change in nanoseconds.
        fault: Why it does not open; None if it is in the index.
    """

    size: int
    modified: int
    fault: str | None = None

    def is_unchanged(self, earlier: PhotoFile | None) -> bool:
        """Whether the file has not changed since."""
        return earlier is not None and (self.size, self.modified) == (earlier.size, earlier.modified)


@dataclass(frozen=True)
class PhotoChanges:
    """How a folder differs from its index.

    Args:
        files: All files that may be photographs, by name.
        new: Names of files that were never looked at.
        changed: Names of files that have another size or time now.
        deleted: Names of files that are gone.
        unlisted: Names that cannot be used, each with the reason.
    """

    files: Mapping[str, PhotoFile]
    new: tuple[str, ...]
    changed: tuple[str, ...]
    deleted: tuple[str, ...]
    unlisted: tuple[tuple[str, str], ...] = ()

    @property
    def to_encode(self) -> tuple[str, ...]:
        """The files to look at."""
        return (*self.new, *self.changed)

    def __str__(self) -> str:
        """The changes in a few words, such as "3 new, 1 deleted"; "" if there are none."""
        sizes = {"new": len(self.new), "changed": len(self.changed), "deleted": len(self.deleted)}
        return ", ".join(f"{size:,} {name}" for name, size in sizes.items() if size)


@dataclass(frozen=True)
class PhotoIndex:
    """The index of a folder of photographs for one model.

    Args:
        folder: The folder.
        model_name: Name of the model, as `limner index --model` takes it.
        path: The folder of the index.
    """

    folder: Path
    model_name: str
    path: Path

    @classmethod
    def of(cls, folder: str | Path, model_name: str) -> PhotoIndex:
        """The index of a folder in the cache; in a private temporary folder where there is no cache."""
        place = Path(os.path.realpath(folder))
        base = cache_folder("photos") or (temporary / "photos" if (temporary := private_folder()) else None)
        if base is None:
            raise LimnerError("no folder for the index of the photographs: set LIMNER_CACHE to a folder to write in")
        named = str(Path(model_name).resolve()) if Path(model_name).exists() else model_name
        return cls(place, model_name, base / f"{place.name or 'photos'}-{digest(str(place), named)}")

    @cached_property
    def listed(self) -> Photos:
        """The photographs in the folder, by their names."""
        return photos(self.folder)

    def changes(self) -> PhotoChanges:
        """How the folder differs from the index; opens no photograph."""
        before, current = self._files(), {}
        for name in self.listed.names:
            file = _file_at(self.folder / name)
            current[name] = before[name] if file.is_unchanged(before.get(name)) else file
        return PhotoChanges(
            current,
            tuple(name for name in current if name not in before),
            tuple(name for name, file in current.items() if name in before and not file.is_unchanged(before[name])),
            tuple(name for name in before if name not in current),
            self.listed.left_out,
        )

    def left_out(self) -> dict[str, str]:
        """The files that are not in the index, each with the reason."""
        faults = {name: file.fault for name, file in self._files().items() if file.fault is not None}
        return {**dict(self.listed.left_out), **faults}

    def open(self, *, model: Any = None) -> Index:
        """The index as it is, from the copy of its vectors if there is one."""
        copied = open_snapshot(self.path, self.folder, model=model)
        return open_index(self.path, system=model) if copied is None else copied

    def refresh(self, model: Any, *, progress: ProgressLike = None) -> Index:
        """Brings the index up to date.

        Args:
            model: The model of that name.
            progress: Called with (photographs done, photographs in total).
        """
        display = as_progress(progress)
        with self._alone(display):  # another process may have encoded them meanwhile
            return _Refresh(self, model, self.changes()).run(display)

    @property
    def exists(self) -> bool:
        """Whether anything is in the index."""
        return (self.path / "items.lance").is_dir()

    def is_of(self, model: Any) -> bool:
        """Whether the index was made with this model, as far as both can be told; True if there is no index."""
        if not self.exists:
            return True
        index_model, model_now = self.open().about.model, identity(model, self.model_name)
        return None in (index_model, model_now) or index_model == model_now

    def discard(self) -> None:
        """Deletes the index, such as one of another model of the same name."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _files(self) -> dict[str, PhotoFile]:
        """The files that the index knows; none where there is no index, or its list is damaged."""
        file = self.path / FILES
        if not file.is_file() or not self.exists:
            return {}
        try:
            stored = read_json(file, what="list of photographs")
            if stored["format"] != FORMAT:
                return {}
            return {name: PhotoFile(*entry) for name, entry in stored["files"].items()}
        except (LimnerError, KeyError, TypeError, AttributeError):
            return {}

    def write_files(self, files: Mapping[str, PhotoFile]) -> None:
        """Stores the files that the index knows."""
        entries = {name: [file.size, file.modified, file.fault] for name, file in files.items()}
        head = {"format": FORMAT, "folder": str(self.folder), "model": self.model_name}
        write_text(self.path / FILES, json.dumps({**head, "files": entries}, ensure_ascii=False))

    @contextmanager
    def _alone(self, display: Progress) -> Iterator[None]:
        """Waits until no other process refreshes this index."""
        from filelock import FileLock, Timeout

        lock = FileLock(folder_for(self.path.parent) / f".{self.path.name}.lock")
        try:
            lock.acquire(blocking=False)
        except Timeout:
            display.note("waiting for another search that encodes them")
            lock.acquire()
        display.note("")
        try:
            yield
        finally:
            lock.release()


def _file_at(path: Path) -> PhotoFile:
    """A file as it is now; a link to nothing has no size, and is listed when it is looked at."""
    try:
        about = os.stat(path)
    except OSError:
        return PhotoFile(-1, -1)
    return PhotoFile(about.st_size, about.st_mtime_ns)


class _Refresh:
    """One run that brings an index up to date.

    Args:
        photo_index: The index.
        model: Its model.
        changes: How the folder differs from it.
    """

    def __init__(self, photo_index: PhotoIndex, model: Any, changes: PhotoChanges) -> None:
        self.target, self.model, self.changes = photo_index, model, changes
        waiting = set(changes.to_encode)
        self.files = {name: file for name, file in changes.files.items() if name not in waiting}
        self.commits = 0

    def run(self, display: Progress) -> Index:
        """Encodes and stores, half a minute of work at a time, and deletes what is gone."""
        names = self.changes.to_encode
        delete_snapshot(self.target.path)
        stored_index = self._opened()
        for rows in paced(len(names), max_items=AT_ONCE, seconds=COMMIT_SECONDS):
            stored_index = self._encoded(names[rows], stored_index, display.part(rows.start, len(names)))
            display(min(rows.stop, len(names)), len(names))
        if stored_index is None or all(file.fault is not None for file in self.files.values()):
            raise LimnerError(self._refusal())
        surplus = [key for key in stored_index.ids if key not in self.files or self.files[key].fault is not None]
        if surplus:
            stored_index.delete(surplus, measure=False)
        self.target.write_files(self.files)
        if self.commits > _MANY_COMMITS:
            stored_index.compact(progress=display)
        write_snapshot(stored_index, self.target.path)
        return stored_index

    def _opened(self) -> Index | None:
        """The index; None if there is none, or only the beginning of one."""
        if self.target.exists and (self.target.path / FILES).is_file():
            return open_index(self.target.path, system=self.model)
        self.target.discard()
        return None

    def _encoded(self, names: tuple[str, ...], stored_index: Index | None, progress: Progress) -> Index | None:
        """Encodes a few photographs and adds them; a file that does not open is noted with the reason."""
        faults = {name: image_fault(self.target.folder / name) for name in names}
        sound = tuple(name for name in names if faults[name] is None)
        if sound:
            items = with_photo_fields(replace(self.target.listed, names=sound).items())
            result, _, broken = encoded_readable(
                lambda piece: encoded_known(self.model, piece, sets=gives_sets(self.model), progress=progress), items
            )
            faults |= broken
            if result is not None:
                vectors, encoded_items, unknown = result
                faults |= dict.fromkeys(unknown.ids, "the model finds nothing in it")
                if vectors is not None:
                    stored_index = self._stored(vectors, encoded_items, stored_index)
        for name in names:
            self.files[name] = replace(self.changes.files[name], fault=faults[name])
        if stored_index is not None:
            self.target.write_files(self.files)
        return stored_index

    def _stored(self, vectors: Vectors, items: Items, stored_index: Index | None) -> Index:
        self.commits += 1
        if stored_index is None:
            name = self.target.model_name
            return index(self.target.path, vectors, items, system=self.model, system_name=name, model_label=name)
        stored_index.add(vectors, items, existing="replace", measure=False)
        return stored_index

    def _refusal(self) -> str:
        """Why there is nothing to search."""
        reasons = [f"{name}: {reason}" for name, reason in self.target.listed.left_out]
        reasons += [f"{name}: {file.fault}" for name, file in self.files.items()]
        if not reasons:
            return f"no images in {self.target.folder}: expected files that end in {', '.join(IMAGE_ENDINGS)}"
        return f"none of {count(len(reasons), 'image')} in {self.target.folder} opens: {'; '.join(reasons[:3])}"
