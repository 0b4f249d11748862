"""What is judged: images and captions of a collection, and the pairs that systems proposed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limner.annotate._sql import inserted, sa
from limner.annotate.store import Store
from limner.annotate.store.schema import caption, image, pair, proposal, system, task, task_item
from limner.collection import Collection, Items
from limner.errors import LimnerError, UnknownId, UnknownName, shown
from limner.ranking import Ranking

DIRECTIONS = ("i2t", "t2i")
DEPTH = 25
"""Places of every list that are kept: the first few are pooled, the rest says what is no known negative."""
_BATCH = 500
Key = tuple[str, str]


@dataclass(frozen=True)
class Proposal:
    """One system's proposal of one pair: in which direction, at which rank, with which score, in which turn."""

    system: str
    direction: str
    image: str
    caption: str
    rank: int
    score: float | None
    turn: int


@dataclass(frozen=True)
class Pair:
    """A pair in the store: where it came from, and whether a task asks for it."""

    id: int
    image: str
    caption: str
    origin: str
    turn: int
    asked: bool


def add_collection(
    store: Store,
    collection: Collection,
    *,
    spec: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, int]:
    """Adds images and captions with the hash of their contents; what is there already must be the same.

    Args:
        store: The store.
        collection: Its images and texts; ids are kept.
        spec: How `limner.load` finds the collection again, for the page that shows its pictures.
        progress: Told how many images are done.

    Returns:
        How many images and captions are new.
    """
    hashes = list(_image_hashes(collection.images, progress))
    images = [{"key": key, "hash": value} for key, value in zip(collection.images.ids, hashes, strict=True)]
    texts = [
        {"key": key, "hash": _digest(text.encode()), "text": text}
        for key, text in zip(collection.texts.ids, collection.texts.values, strict=True)
    ]
    with store.writing() as connection:
        added = {"images": _add(connection, image, images), "captions": _add(connection, caption, texts)}
    store.set("collection", {"name": collection.name, "spec": spec})
    return added


def _image_hashes(images: Items, progress: Callable[[int, int], None] | None) -> Iterator[str | None]:
    for number, value in enumerate(images.values):
        if progress is not None:
            progress(number, len(images))
        yield _image_hash(images, number, value)


def _image_hash(images: Items, row: int, value: Any) -> str | None:
    """Of the file as it is; a drawn picture's of its pixels."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return _digest(value)
    if isinstance(value, (str, Path)):
        if not Path(value).is_file():
            raise LimnerError(f"image {images.ids[row]!r}: no file {value}; check the folder with images")
        return _digest(Path(value).read_bytes())
    picture = images.open(row)
    return _digest(repr(picture.size).encode() + picture.tobytes())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _add(connection: sa.Connection, table: sa.Table, rows: Sequence[dict[str, Any]]) -> int:
    known = {row.key: row.hash for row in connection.execute(sa.select(table.c.key, table.c.hash))}
    changed = [row["key"] for row in rows if known.get(row["key"]) not in (None, row["hash"]) and row["hash"]]
    if changed:
        raise LimnerError(
            f"{len(changed)} of the {table.name}s have other contents than in the store ({shown(changed)}): answers "
            "were given for the old ones; use a new store, or give the changed ones new ids"
        )
    new = [row for row in rows if row["key"] not in known]
    _insert(connection, table, new)
    return len(new)


def _insert(connection: sa.Connection, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
    for start in range(0, len(rows), _BATCH):
        connection.execute(sa.insert(table), rows[start : start + _BATCH])


def add_proposals(
    store: Store,
    name: str,
    ranking: Ranking,
    *,
    direction: str,
    depth: int = DEPTH,
    turn: int = 1,
    about: str | None = None,
) -> int:
    """Keeps the first `depth` places of one system's lists in one direction.

    Args:
        store: The store.
        name: The system.
        ranking: Queries are images for "i2t" and captions for "t2i"; all ids must be in the store.
        direction: "i2t" or "t2i".
        depth: Places kept per list.
        turn: The turn of the annotation they are proposed in.
        about: A sentence about the system.

    Returns:
        How many proposals were added.
    """
    if direction not in DIRECTIONS:
        raise UnknownName("direction", direction, DIRECTIONS)
    if depth < 1:
        raise LimnerError(f"depth {depth}: expected 1 or more")
    with store.writing() as connection:
        number = _system(store, connection, name, about)
        same = (proposal.c.system_id == number, proposal.c.direction == direction, proposal.c.turn == turn)
        if connection.scalar(sa.select(proposal.c.id).where(*same).limit(1)) is not None:
            raise LimnerError(f"{name!r} has proposed {direction} pairs in turn {turn} already: name another system")
        ids = keys(connection, image), keys(connection, caption)
        same_for_all = {"system_id": number, "direction": direction, "turn": turn}
        rows = [row | same_for_all for row in _proposed(ranking.top(depth), direction, ids)]
        _insert(connection, proposal, rows)
        return len(rows)


def _system(store: Store, connection: sa.Connection, name: str, about: str | None) -> int:
    if not name:
        raise LimnerError("a system needs a name")
    found = connection.scalar(sa.select(system.c.id).where(system.c.name == name))
    if found is not None:
        return int(found)
    return inserted(connection, system, name=name, about=about, added=store.now())


def _proposed(ranking: Ranking, direction: str, ids: tuple[dict[str, int], dict[str, int]]) -> Iterator[dict[str, Any]]:
    for row, query in enumerate(ranking.queries):
        for place, column in enumerate(ranking.indices[row].tolist()):
            if column < 0:
                break
            candidate = ranking.candidates[column]
            names = (query, candidate) if direction == "i2t" else (candidate, query)
            score = None if ranking.scores is None else float(ranking.scores[row, place])
            found = {"image_id": number(ids[0], names[0], "image"), "caption_id": number(ids[1], names[1], "caption")}
            yield {**found, "rank": place + 1, "score": score}


def keys(connection: sa.Connection, table: sa.Table) -> dict[str, int]:
    """The store's numbers of all images or captions, by id."""
    return {row.key: row.id for row in connection.execute(sa.select(table.c.key, table.c.id))}


def number(known: dict[str, int], key: str, what: str) -> int:
    """One of `keys`, refused by name where it is not there."""
    if key not in known:
        raise UnknownId(f"{what} {key!r} is not in the store: add its collection first ('limner annotate pool')")
    return known[key]


def add_pairs(store: Store, pairs: Iterable[Key], *, origin: str = "pool", turn: int = 1) -> int:
    """Adds (image, caption) pairs; those that are there stay as they are. Returns how many are new."""
    with store.writing() as connection:
        before = connection.scalar(sa.select(sa.func.count()).select_from(pair)) or 0
        pair_numbers(store, connection, pairs, origin=origin, turn=turn)
        return (connection.scalar(sa.select(sa.func.count()).select_from(pair)) or 0) - before


def pair_numbers(
    store: Store, connection: sa.Connection, pairs: Iterable[Key], *, origin: str, turn: int
) -> dict[Key, int]:
    """The store's numbers of pairs, which are added where they are missing."""
    images, captions = keys(connection, image), keys(connection, caption)
    wanted = {p: (number(images, p[0], "image"), number(captions, p[1], "caption")) for p in dict.fromkeys(pairs)}
    known = _known_pairs(connection)
    more = {"origin": origin, "turn": turn, "added": store.now()}
    new = [{"image_id": i, "caption_id": c, **more} for i, c in wanted.values() if (i, c) not in known]
    _insert(connection, pair, new)
    known = _known_pairs(connection) if new else known
    found = {key: known[both] for key, both in wanted.items()}
    if origin == "pool":  # a pair that was only a control until now
        same = sa.and_(pair.c.origin == "control", pair.c.id == sa.bindparam("number"))
        promoted = [{"number": key} for key in _controls(connection) & set(found.values())]
        if promoted:
            connection.execute(sa.update(pair).where(same).values(origin=origin, turn=turn), promoted)
    return found


def _controls(connection: sa.Connection) -> set[int]:
    return set(connection.scalars(sa.select(pair.c.id).where(pair.c.origin == "control")))


def _known_pairs(connection: sa.Connection) -> dict[tuple[int, int], int]:
    rows = connection.execute(sa.select(pair.c.image_id, pair.c.caption_id, pair.c.id))
    return {(row.image_id, row.caption_id): row.id for row in rows}


def proposals(store: Store, *, depth: int | None = None, turn: int | None = None) -> list[Proposal]:
    """Every proposal, by system, direction, query and rank; up to a rank, of one turn."""
    query = (
        sa.select(
            system.c.name.label("system"),
            proposal.c.direction,
            image.c.key.label("image"),
            caption.c.key.label("caption"),
            proposal.c.rank,
            proposal.c.score,
            proposal.c.turn,
        )
        .join_from(proposal, system)
        .join(image)
        .join(caption)
        .order_by(proposal.c.id)
    )
    query = query if depth is None else query.where(proposal.c.rank <= depth)
    return [Proposal(**row) for row in store.rows(query if turn is None else query.where(proposal.c.turn == turn))]


def pairs(store: Store, *, turn: int | None = None) -> list[Pair]:
    """Every pair in the order it came, and whether some task asks for it."""
    asked = sa.exists().where(task_item.c.pair_id == pair.c.id, task_item.c.role == "real")
    columns = (pair.c.id, image.c.key.label("image"), caption.c.key.label("caption"), pair.c.origin, pair.c.turn)
    query = sa.select(*columns, asked.label("asked")).join_from(pair, image).join(caption).order_by(pair.c.id)
    rows = store.rows(query if turn is None else query.where(pair.c.turn == turn))
    return [Pair(**{**row, "asked": bool(row["asked"])}) for row in rows]


def caption_text(store: Store, key: str) -> str:
    """The words of a caption."""
    with store.reading() as connection:
        text = connection.scalar(sa.select(caption.c.text).where(caption.c.key == key))
    if text is None:
        raise UnknownId(f"caption {key!r} is not in the store")
    return str(text)


def counts(store: Store) -> dict[str, int]:
    """How many of everything there are."""
    tables = {"images": image, "captions": caption, "systems": system, "proposals": proposal, "pairs": pair}
    with store.reading() as connection:
        return {
            name: connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0
            for name, table in {**tables, "tasks": task}.items()
        }
