"""The vector store of an index: vectors and their items, in a LanceDB table.

Every change is one atomic commit, even if the process is killed, and older versions stay
readable. Writers on one machine use a lock that the system releases when its process ends; readers never wait.
A path may be a folder or any address that LanceDB opens (s3://, gs://, az://, file://, memory://).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.core.arrays import Float32, IntArray
from limner.core.errors import LimnerError, UnknownName
from limner.core.extras import require
from limner.core.paths import folder_for, parse_json
from limner.search.index_table import COUNT, About, about_of, schema
from limner.search.items import Row

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType

    import pyarrow as pa

TABLE = "items"
CATALOGUE_CLIENT = "lance_namespace_urllib3_client"
"""The client of a catalogue server, half of LanceDB's import; LanceDB itself needs only the classes of its messages."""
ROWS = 65_536
"""Rows per batch when reading."""
LOCK = ".limner.lock"
RETRYING = {"client_max_retries": "8", "client_retry_timeout": "60", "connect_timeout": "10s"}
"""Requests to object storage that fail are sent again with growing pauses, for a minute at most."""


@dataclass(frozen=True)
class Version:
    """A version of the store that can still be read."""

    number: int
    time: datetime
    rows: int


@dataclass(eq=False)
class VectorStore:
    """One table, opened at one version; `refresh` moves to the newest.

    Args:
        path: The path as the user gave it.
        table: The LanceDB table.
        about: Its description.
        pinned: An older version, if requested; such a store is read-only.
    """

    path: str
    table: Any
    about: About
    pinned: int | None = None
    _writes: bool = field(default=False, init=False, repr=False)
    _state: tuple[int, int] | None = field(default=None, init=False, repr=False)  # cached version and number of rows
    _counts: tuple[int, IntArray] | None = field(default=None, init=False, repr=False)  # cached version and counts

    @classmethod
    def create(cls, path: str | Path, about: About, batches: Iterable[pa.RecordBatch]) -> VectorStore:
        """Creates a store with its first rows, in one commit; refuses a path that already has one."""
        require_store()
        address = _address(path)
        with _turn(address), _explained(address):
            database = connect(address)
            if _opened(database) is not None:
                raise LimnerError(f"there is already an index at {address}: add to it, or choose another path")
            table = database.create_table(TABLE, _reader(schema(about), batches), schema=schema(about))
        return cls(address, table, about)

    @classmethod
    def open(cls, path: str | Path, *, version: int | None = None) -> VectorStore:
        """Opens a store at its newest version, or at an older one."""
        require_store()
        address = _address(path)
        if _is_local(address) and not Path(address.removeprefix("file://")).is_dir():
            raise LimnerError(_missing(address))
        with _explained(address):
            table = _opened(connect(address))
            if table is None:
                raise LimnerError(_missing(address))
            if version is not None:
                _checked_out(table, version, address)
            return cls(address, table, about_of(table, address), version)

    def __len__(self) -> int:
        return self._current()[1]

    @property
    def version(self) -> int:
        """The number of the version that is read."""
        return self._current()[0]

    def _current(self) -> tuple[int, int]:
        """The current version and its number of rows; cached until something is written or refreshed."""
        state = self._state or (int(self.table.version), int(self.table.count_rows()))
        self._state = None if self._writes else state
        return state

    def versions(self) -> list[Version]:
        """The versions that can still be read, oldest first."""
        with _explained(self.path):
            listed = self.table.list_versions()
        return [Version(v["version"], v["timestamp"], int(v["metadata"].get("total_rows", 0))) for v in listed]

    def refresh(self) -> None:
        """Moves to the newest version, which other processes may have written."""
        if self.pinned is None:
            self.table.checkout_latest()
            self._state = None

    # --- reading ---------------------------------------------------------------------------------------------------

    def scan(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Record batches of all rows, in the order of the store."""
        with _explained(self.path):
            yield from self.table.search().select(columns).to_batches(ROWS)

    def vectors(self) -> Iterator[Float32]:
        """All vectors of a store with one per item, in order, some thousands at a time, with small fragments merged."""
        pending: list[Float32] = []
        for batch in self.scan(["vector"]):
            pending.append(batch["vector"].flatten().to_numpy(zero_copy_only=False).reshape(-1, self.about.dim))
            if sum(map(len, pending)) >= ROWS // 8:
                yield pending[0] if len(pending) == 1 else np.concatenate(pending)
                pending = []
        if pending:
            yield np.concatenate(pending)

    def counts(self) -> IntArray:
        """The number of vectors of every item, in order, of a store with several."""
        version = self.version
        if self._counts is None or self._counts[0] != version:
            parts = [batch[COUNT].to_numpy() for batch in self.scan([COUNT])]
            self._counts = version, np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64)
        return self._counts[1]

    def sets(self, places: IntArray) -> tuple[list[str], Float32, IntArray]:
        """Ids, vectors and numbers of vectors of the items at these positions, which ascend; reads no others."""
        with _explained(self.path):
            table = self.table.take_offsets(places.tolist()).select(["id", "vector"]).to_arrow()
            vectors = table["vector"].combine_chunks()
            counts = vectors.value_lengths().to_numpy(zero_copy_only=False)
            flat = vectors.flatten().flatten().to_numpy(zero_copy_only=False)
        return table["id"].to_pylist(), flat.reshape(-1, self.about.dim), counts.astype(np.int64)

    @property
    def size(self) -> int:
        """Bytes of all vectors."""
        rows = int(self.counts().sum()) if self.about.has_sets else len(self)
        return 4 * rows * self.about.dim

    def ids(self) -> list[str]:
        """All ids, in order."""
        return [key for batch in self.scan(["id"]) for key in batch["id"].to_pylist()]

    def has_thumbnails(self) -> bool:
        """Whether any row has a thumbnail."""
        with _explained(self.path):
            return bool(self.table.count_rows("picture IS NOT NULL"))

    def present(self, ids: Iterable[str]) -> set[str]:
        """Which of the ids are in the store; reads the stored ids in pieces."""
        import pyarrow as pa
        import pyarrow.compute as pc

        keys = pa.array(list(ids), pa.string())
        stored: set[str] = set()
        for batch in self.scan(["id"]) if len(keys) else ():
            stored.update(batch["id"].filter(pc.is_in(batch["id"], value_set=keys)).to_pylist())
        return stored

    def take(self, places: Iterable[int]) -> list[Row]:
        """Id, value and thumbnail of the rows at these positions, in this order."""
        offsets = [int(place) for place in places]
        unique = sorted(set(offsets))
        if not unique:
            return []
        with _explained(self.path):
            rows = self.table.take_offsets(unique).select(["id", "value", "picture"]).to_arrow().to_pylist()
        at = dict(zip(unique, rows, strict=True))
        return [at[place] for place in offsets]

    def rows(self, ids: Iterable[str], *, columns: Sequence[str] = ("id", "value", "picture")) -> dict[str, Row]:
        """Columns of the rows with these ids, by id; ids that are not in the store are left out."""
        keys = [str(key) for key in ids]
        if not keys:
            return {}
        with _explained(self.path):
            table = self.table.search().where(among(keys)).select(list(columns)).limit(len(keys)).to_arrow()
        return {row["id"]: row for row in table.to_pylist()}

    # --- writing ---------------------------------------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Takes the write lock and moves to the newest version."""
        if self.pinned is not None:
            raise LimnerError(f"{self.path} is opened at version {self.pinned}: open the newest to change it")
        with _turn(self.path), _explained(self.path):
            self.refresh()
            self._writes = True
            try:
                yield
            finally:
                self._writes, self._state = False, None

    def append(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Adds rows in one commit."""
        self.table.add(_reader(schema(self.about), batches))

    def replace(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Adds rows in one commit; a row with an existing id replaces that row (and moves to the end)."""
        merge = self.table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(_reader(schema(self.about), batches))

    def delete(self, ids: Iterable[str]) -> None:
        """Removes rows in one commit."""
        self.table.delete(among(ids))

    def compact(self, *, keep: timedelta) -> None:
        """Merges small fragments and drops versions older than `keep`; there must be no approximate index."""
        self.table.optimize(cleanup_older_than=keep)

    def drop_index(self) -> None:
        """Removes the approximate index, if there is one; searches then compare all rows."""
        for existing in self.table.list_indices():
            self.table.drop_index(existing.name)

    # --- notes -----------------------------------------------------------------------------------------------------

    @property
    def notes(self) -> Row:
        """The measurements stored with the vectors."""
        metadata = self.table.schema.field("vector").metadata or {}
        return dict(parse_json(metadata.get(b"limner", b"{}").decode(), where=f"the notes of the index {self.path}"))

    def note(self, **notes: object) -> None:
        """Saves a measurement in the store."""
        encoded = json.dumps({**self.notes, **notes})
        self.table.update_field_metadata({"path": "vector", "metadata": {"limner": encoded}})

    def explained(self) -> AbstractContextManager[None]:
        """Turns LanceDB errors into one clear message."""
        return _explained(self.path)


def require_store() -> None:
    """Refuses an index before any work for it, unless the packages of the extra are installed."""
    require("lancedb", "filelock", "pyarrow", what="the index")


def lancedb() -> ModuleType:
    """The package; the client of a catalogue server is imported when one of its names is first used."""
    require_store()
    if not {"lancedb", CATALOGUE_CLIENT} & sys.modules.keys() and (spec := find_spec(CATALOGUE_CLIENT)):
        sys.modules[CATALOGUE_CLIENT] = _postponed(spec)
    import lancedb as package

    return package


def _postponed(spec: ModuleSpec) -> ModuleType:
    """A module whose code runs when one of its names is first used; its submodules can be imported before."""
    module = module_from_spec(spec)

    def load(name: str) -> object:
        del module.__dict__["__getattr__"]
        if spec.loader is not None:
            spec.loader.exec_module(module)
        return getattr(module, name)

    module.__dict__["__getattr__"] = load
    return module


def among(ids: Iterable[str]) -> str:
    """The SQL condition for rows with one of these ids."""
    listed = ", ".join("'" + key.replace("'", "''") + "'" for key in ids)
    return f"id IN ({listed})"


def connect(address: str) -> Any:
    """The LanceDB database at an address; keys for object storage come from the environment."""
    return lancedb().connect(address, storage_options=None if _is_local(address) else dict(RETRYING))


def _reader(columns: pa.Schema, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader:
    import pyarrow as pa

    return pa.RecordBatchReader.from_batches(columns, iter(batches))


def _opened(database: Any) -> Any | None:
    """The table; None if there is none (or its creation was killed before the first commit)."""
    try:
        return database.open_table(TABLE)
    except (ValueError, FileNotFoundError) as error:
        if "not found" in str(error) or isinstance(error, FileNotFoundError):
            return None
        raise


def _checked_out(table: Any, version: int, address: str) -> None:
    try:
        table.checkout(version)
    except ValueError:
        versions = [str(v["version"]) for v in table.list_versions()]
        raise UnknownName("version", str(version), versions, of=address) from None


def _missing(address: str) -> str:
    """That there is no index at an address, and how to make one."""
    from limner.datasets.image_folder import has_images

    folder = Path(address.removeprefix("file://"))
    if _is_local(address) and has_images(folder):
        return (
            f"no index at {address}, but images: search them with 'limner search {folder} TEXT', or make an index of "
            f"them with 'limner index {folder.name}.index {folder}'"
        )
    return f"no index at {address}: make one with 'limner index {address} ...'"


def _address(path: str | Path) -> str:
    address = str(path)
    if "://" not in address:
        return os.path.abspath(os.path.expanduser(path))
    scheme, _, tail = address.partition("://")
    if "@" in tail.partition("/")[0]:  # addresses are shown in messages and kept in files
        raise LimnerError(
            f"a key in the address {scheme}://...@{tail.partition('@')[2]}: leave it out, and set AWS_ACCESS_KEY_ID "
            "and AWS_SECRET_ACCESS_KEY (or what the storage uses) in the environment"
        )
    return address


def _is_local(address: str) -> bool:
    return "://" not in address or address.startswith("file://")


def _turn(address: str) -> AbstractContextManager[object]:
    """The lock of a local store. A remote store has no lock: no commit is lost, but an id may be added twice."""
    if not _is_local(address):
        return nullcontext()
    from filelock import FileLock

    folder = Path(address.removeprefix("file://"))
    if folder.exists() and not folder.is_dir():
        raise LimnerError(f"{folder} is a file, but an index is a folder; choose another path")
    return FileLock(folder_for(folder) / LOCK)


@contextmanager
def _explained(address: str) -> Iterator[None]:
    """Turns a LanceDB error into one clear message."""
    try:
        yield
    except LimnerError:
        raise
    except BaseException as error:
        is_expected = isinstance(error, (ValueError, RuntimeError, OSError))
        if not is_expected and "Panic" not in type(error).__name__:  # raised by compiled code on a damaged file
            raise
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise LimnerError(f"the store at {address} cannot do this: {first}") from error
