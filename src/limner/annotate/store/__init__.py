"""The store: every answer of every annotator, in one SQLite file or a PostgreSQL database.

`open_store("work.db")` or `open_store("postgresql://user@host/name")` creates or opens one and migrates its tables.
Everything else is a function whose first argument is the store. People, tasks and answers are identified by the store's
own ids (`id`); images and captions by their ids in the collection (`image`, `caption`: strings). Invalid input raises a
`LimnerError`, with subclasses that a page can distinguish: `LeaseLost`, `AlreadyFull`, `NotAllowed`.

How a page labels: `task = lease(store, annotator.id)` (None if nothing is left; a task that the annotator already holds
is returned first, with its answers); for each `item` of `task.items` (image, caption, text, and the current `answer`;
never its role) `submit(store, annotator.id, item.id, key=..., grade=4, milliseconds=900)`. The same key again changes
nothing (`Saved.repeated`); a new key on the same item is a new revision. `undo` withdraws an answer, as a revision.

Every answer is appended; `current_answer` and `counted_answer` are views. A lease ends after `minutes`; then the rest
of the task goes to someone else, and given answers stay. A pair never gets more valid answers than its task's
replication, except by an import; controls are answered by everyone who holds the task.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from limner.annotate.store.schema import VERSION, Row, Unreachable, create_tables, out_of_reach, sa, setting
from limner.core.errors import LimnerError, NotWritten
from limner.core.extras import needed
from limner.core.paths import parse_json, refuse_irregular

if not TYPE_CHECKING:
    from limner.core.extras import submodules

    __getattr__ = submodules(__name__)

MIGRATIONS = Path(__file__).parent / "migrations"
BUSY = 30.0
"""Seconds a writer waits for another process to finish."""
POOL = 32
"""Size of the connection pool; more callers wait."""
_DAMAGE = ("malformed", "not a database", "no such table", "no such column", "Could not decode", "corrupt")
_PATIENCE = 10  # milliseconds between two attempts to take SQLite's lock
_ADVISORY = 0x6C696D  # key of limner's advisory lock in PostgreSQL
_SETTING = sa.select(setting.c.value).where(setting.c.name == sa.bindparam("wanted", type_=sa.Text))
# Messages of SQLite, of a file size limit, of PostgreSQL.
_NO_ROOM = ("disk is full", "disk i/o error", "no space left")
_ADDRESS = re.compile(r"((?:[a-z][a-z0-9+]*:(?=//)|postgres[a-z+]*:)/*)(.*)", re.IGNORECASE | re.DOTALL)
_WORDS = re.compile(r"(^|\s)(host|hostaddr|dbname|user|password|service)\s*=")  # libpq's other form of an address
_PASSWORD_WORD = re.compile(r"(?i)(\w*(?:pass|pwd|secret|token)\w*)\s*=\s*(?:'[^']*'|[^\s&]*)")


class LeaseLost(LimnerError):
    """The lease of a task expired and someone else holds the task now."""


class AlreadyFull(LimnerError):
    """The pair already has all its answers."""


class NotAllowed(LimnerError):
    """The annotator is not allowed to do this."""


class _Queue:
    """A fair semaphore: waiting threads are served in order of arrival.

    A database, a connection pool and a plain lock all wake waiting threads in random order: under load, one of fifty
    people may wait for a minute.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()

    def __enter__(self) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            called = threading.Event()
            self._waiting.append(called)
        try:
            called.wait()
        except BaseException:  # interrupted: pass the turn on, or leave the queue
            with self._lock:
                left = called in self._waiting
                if left:
                    self._waiting.remove(called)
            if not left:
                self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._free += 1


class Store:
    """An open store. Threads may share it; each call is one transaction.

    Args:
        engine: The database.
        now: The clock, in seconds; tests pass their own.
    """

    estimator = "limner.annotate.estimate:estimates"
    """How `limner.evaluate(..., labels=store)` estimates from the answers."""
    comparer = "limner.annotate.results:differences"
    """How `limner.compare(..., labels=store)` estimates differences of systems."""
    describer = "limner.annotate.results:described"
    """The answers as described in a report: their number, the agreement of people, the quality of a judge."""

    def __init__(self, engine: sa.Engine, *, clock: Callable[[], float] = time.time) -> None:
        """Use `open_store` to create one."""
        self.engine = engine
        self.clock = clock
        self.lite = engine.dialect.name == "sqlite"
        self._writers = _Queue(1 if self.lite else POOL // 2)
        self._readers = _Queue(POOL // 2)

    @property
    def location(self) -> str:
        """The path or address, without a password."""
        if self.lite:
            return str(self.engine.url.database)
        return without_password(self.engine.url.render_as_string(hide_password=True))

    def timestamp(self) -> int:
        """The time in milliseconds."""
        return int(self.clock() * 1000)

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction that only reads."""
        with self._sound(), self._readers, self.engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A write transaction: atomic, and on disk when it ends."""
        with (
            self._sound(),
            self._writers,
            self._with_room(),
            self.engine.connect().execution_options(limner_writes=True) as connection,
        ):
            connection.begin()
            yield connection
            connection.commit()

    @contextmanager
    def _with_room(self) -> Iterator[None]:
        """Adds the store's name to the error if a write fails for lack of space."""
        try:
            yield
        except sa.exc.OperationalError as error:
            if any(words in str(error.orig).lower() for words in _NO_ROOM):
                raise NotWritten(self.location, _message(error)) from error
            raise

    @contextmanager
    def _sound(self) -> Iterator[None]:
        """Reports a damaged file, unexpected tables or a database out of reach in one line."""
        try:
            yield
        except (sa.exc.DBAPIError, sqlite3.DatabaseError) as error:
            message = str(getattr(error, "orig", error)).strip().partition("\n")[0]
            if not self.lite and out_of_reach(error):
                raise Unreachable(
                    f"the database {self.location} cannot be reached ({_message(error)}): try again"
                ) from error
            if not self.lite or not any(words in message for words in _DAMAGE):
                raise
            raise LimnerError(f"the store {self.location} is damaged ({message}): restore a good copy") from error

    def rows(self, query: sa.Executable, **values: object) -> list[Row]:
        """The rows of a query as dicts."""
        with self.reading() as connection:
            return [dict(row) for row in connection.execute(query, values).mappings()]

    def setting(self, name: str, default: object = None) -> Any:
        """A setting of the store, such as its collection or a page's secret."""
        with self.reading() as connection:
            value = connection.scalar(_SETTING, {"wanted": name})
        return default if value is None else parse_json(value, where=f"setting {name!r} of the store {self.location}")

    def set(self, name: str, value: object, *, replace: bool = True) -> Any:
        """Saves a JSON value under a name; with `replace=False` an existing value stays. Returns the stored value."""
        with self.writing() as connection:
            alone(self, connection)
            old = connection.scalar(sa.select(setting.c.value).where(setting.c.name == name))
            if old is not None and not replace:
                return parse_json(old, where=f"setting {name!r} of the store {self.location}")
            connection.execute(sa.delete(setting).where(setting.c.name == name))
            connection.execute(sa.insert(setting).values(name=name, value=json.dumps(value)))
        return value

    def close(self) -> None:
        """Closes all connections."""
        self.engine.dispose()

    def __enter__(self) -> Store:
        """The store itself."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({self.location!r})"


def open_store(target: str | Path, *, create: bool = True, clock: Callable[[], float] = time.time) -> Store:
    """Opens a store, creating it if missing; tables of an older limner are migrated.

    Args:
        target: A file for SQLite, or the address of a PostgreSQL database, `postgresql://user:password@host/name`.
        create: Whether to create a missing file; False refuses instead.
        clock: The clock, in seconds.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, open_store(Path(folder, "work.db")) as store:
    ...     _ = store.set("collection", "scenes")
    ...     store.setting("collection")
    'scenes'
    """
    engine = _engine(str(target), create)
    try:
        store = Store(engine, clock=clock)
        _move_up(store)
        return store
    except (sa.exc.OperationalError, sa.exc.DatabaseError) as error:
        engine.dispose()
        raise LimnerError(f"cannot open the store {without_password(str(target))}: {_message(error)}") from error
    except BaseException:
        engine.dispose()
        raise


def _engine(target: str, create: bool) -> sa.Engine:
    if target.startswith(("postgresql:", "postgres:", "postgresql+psycopg:")):
        return _postgres(target)
    if "://" in target and not target.startswith("sqlite:///"):
        raise LimnerError(f"store {without_password(target)}: expected a file, or postgresql://user@host/name")
    path = Path(target.removeprefix("sqlite:///"))
    if _WORDS.search(target) and not path.exists():
        raise LimnerError(f"store {without_password(target)}: this is not a file; expected postgresql://user@host/name")
    refuse_irregular(path, what="store")
    if not create and not path.is_file():
        raise LimnerError(f"no store {without_password(str(path))}: create one with 'limner annotate pool'")
    if not path.parent.is_dir():
        raise LimnerError(f"store {path}: no folder {path.parent}; create it first")
    _close_to_others(path)
    return _sqlite(path)


def _close_to_others(path: Path) -> None:
    """Makes the file readable by its owner only, since it contains password hashes.

    SQLite's auxiliary files get the same permissions. Explicitly chosen permissions, such as a group's, are kept.
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return
    except FileExistsError:
        pass
    except OSError as error:
        raise LimnerError(f"cannot create the store {path}: {error.strerror or error}") from error
    for each in (path, *(path.with_name(path.name + ending) for ending in ("-wal", "-shm", "-journal"))):
        with suppress(OSError):  # someone else's file, or no file
            if each.is_file() and each.stat().st_mode & 0o007:
                each.chmod(0o600)


def _sqlite(path: Path) -> sa.Engine:
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=str(path.resolve())),
        connect_args={"timeout": BUSY, "check_same_thread": False},
        hide_parameters=True,  # an error is logged without names and hashes
        pool_size=POOL,
        max_overflow=0,
        pool_timeout=2 * BUSY,
    )
    sa.event.listen(engine, "connect", _prepare)
    sa.event.listen(engine, "begin", _begin)
    return engine


def _prepare(connection: sqlite3.Connection, _: object) -> None:
    """Sets durability, checks, timeouts and a safe schema; the driver must not start transactions itself."""
    connection.isolation_level = None
    durable = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", f"busy_timeout={int(BUSY * 1000)}")
    try:
        for pragma in ("trusted_schema=OFF", *durable):
            connection.execute(f"PRAGMA {pragma}").close()
    except UnicodeDecodeError as error:  # SQLite's message quotes damaged bytes
        raise sqlite3.DatabaseError("malformed schema") from error


def _begin(connection: sa.Connection) -> None:
    """Begins a transaction; a writer takes the lock at once, since upgrading a read lock could fail."""
    if not connection.get_execution_options().get("limner_writes", False):
        connection.exec_driver_sql("BEGIN")
        return
    raw = cast("sqlite3.Connection", connection.connection.dbapi_connection)
    raw.execute(f"PRAGMA busy_timeout={_PATIENCE}").close()
    try:
        _take_lock(raw, time.monotonic() + BUSY)
    finally:
        raw.execute(f"PRAGMA busy_timeout={int(BUSY * 1000)}").close()


def _take_lock(raw: sqlite3.Connection, until: float) -> None:
    """Takes the lock, retrying at a constant rate: SQLite's own back-off can starve one of several processes."""
    while True:
        try:
            raw.execute("BEGIN IMMEDIATE").close()
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            if time.monotonic() > until:
                raise LimnerError(
                    f"the store is busy: another program has been writing for {BUSY:.0f} seconds"
                ) from error


def _postgres(target: str) -> sa.Engine:
    needed("psycopg", what="a store in PostgreSQL")
    if set(target.partition("//")[2].rpartition("@")[0]) & set("@/?#"):  # an error would show its end as a host
        hint = "in a password, write @ as %40, / as %2F, ? as %3F and # as %23"
        raise LimnerError(f"store {without_password(target)}: expected postgresql://user:password@host/name; {hint}")
    try:
        url = sa.make_url(target).set(drivername="postgresql+psycopg")
    except (sa.exc.ArgumentError, ValueError) as error:
        raise LimnerError(f"store {without_password(target)}: expected postgresql://user@host/name") from error
    hidden = url.query.get("password")
    if isinstance(hidden, str):  # SQLAlchemy hides a password only where it expects one
        url = url.set(password=hidden).difference_update_query(["password"])
    return sa.create_engine(
        url, pool_size=POOL, max_overflow=0, pool_timeout=2 * BUSY, pool_pre_ping=True, hide_parameters=True
    )


def _move_up(store: Store) -> None:
    """Makes the tables of a new store, or runs missing migrations; programs that open a store at once take turns."""
    if _version(store) == VERSION:
        return
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    with store.writing() as connection:
        alone(store, connection)
        config.attributes["connection"] = connection
        try:
            if not sa.inspect(connection).get_table_names():
                create_tables(connection)
                command.stamp(config, "head")
            command.upgrade(config, "head")
        except CommandError as error:
            raise LimnerError(
                f"the store {store.location} was written by a newer version of limner ({error}); "
                "upgrade limner to open it"
            ) from error


def alone(store: Store, connection: sa.Connection) -> None:
    """Locks the database until the transaction ends; SQLite's writers are exclusive anyway."""
    if not store.lite:
        connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({_ADVISORY})"))


def _version(store: Store) -> str | None:
    """The number of the last migration; None for a database without tables; a foreign database is refused."""
    with store.reading() as connection:
        tables = set(sa.inspect(connection).get_table_names())
        if "alembic_version" in tables and "task_item" in tables:
            return str(connection.scalar(sa.text("SELECT version_num FROM alembic_version")))
    if tables:
        raise LimnerError(
            f"{store.location} contains other tables ({', '.join(sorted(tables)[:3])}): use a new database"
        )
    return None


def refuse_unwritable(store: Store) -> None:
    """Checks that the store is writable, before the first answer. Expired sessions are removed."""
    from limner.annotate.store.schema import session

    try:
        with store.writing() as connection:
            connection.execute(sa.delete(session).where(session.c.expires <= store.timestamp()))
    except sa.exc.DBAPIError as error:
        raise LimnerError(f"cannot write to the store {store.location}: {_message(error)}") from error


def without_password(target: str) -> str:
    """A path or an address for display; an address without its password and without everything after a `?`.

    >>> without_password("postgresql://ada:secret@host/name?password=secret"), without_password("work.db")
    ('postgresql://ada:***@host/name?...', 'work.db')
    """
    address = _ADDRESS.match(target)
    if address is None:
        return _PASSWORD_WORD.sub(r"\1=***", target)
    scheme, remainder = address.groups()
    credentials, at, place = remainder.rpartition("@")  # a password may contain one too
    if "?" in credentials:  # or it is in a password after the question mark
        return f"{scheme}..."
    name, colon, _ = credentials.partition(":")
    path, question, _ = place.partition("?")
    return f"{scheme}{name}{':***' if colon else ''}{at}{path}{'?...' if question else ''}"


def _message(error: Exception) -> str:
    return _PASSWORD_WORD.sub(r"\1=***", str(getattr(error, "orig", error)).strip().splitlines()[0])
