"""The content to judge: images and captions of a collection, and the pairs that systems proposed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from limner.annotate.store import Store, alone
from limner.annotate.store.schema import Row, caption, image, inserted, pair, proposal, sa, system, task, task_item
from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError, UnknownId, UnknownName, shown
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.core.ranking import Ranking

DIRECTIONS = ("i2t", "t2i")
DEPTH = 25
"""Number of stored ranks of every list: the first few are pooled, the rest helps to choose known negatives."""
_BATCH = 500
Key = tuple[str, str]


@dataclass(frozen=True)
class Proposal:
    """One system's proposal of one pair: direction, rank, score and round."""

    system: str
    direction: str
    image: str
    caption: str
    rank: int
    score: float | None
    turn: int


@dataclass(frozen=True)
class Pair:
    """A stored pair: its origin, and whether a task contains it."""

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
    progress: ProgressLike = None,
) -> dict[str, int]:
    """Adds images and captions with the hash of their contents; existing ones must be identical.

    Args:
        store: The store.
        collection: Its images and texts; ids are kept.
        spec: The argument with which `limner.load` opens the collection again, for the page that shows its images.
        progress: Called with the number of images done.

    Returns:
        The numbers of new images and captions.
    """
    progress = as_progress(progress)
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


def _image_hashes(images: Items, progress: Progress) -> Iterator[str | None]:
    for number, value in enumerate(images.values):
        progress(number, len(images))
        yield _image_hash(images, number, value)


def _image_hash(images: Items, row: int, value: object) -> str | None:
    """Hash of the file, or of the pixels for a generated image."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return _digest(value)
    if isinstance(value, (str, Path)):
        if not Path(value).is_file():
            raise LimnerError(f"image {images.ids[row]!r}: no file {value}; check the folder with images")
        return _digest(Path(value).read_bytes())
    pixels = images.open(row)
    return _digest(repr(pixels.size).encode() + pixels.tobytes())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _add(connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> int:
    hashes = {row.key: row.hash for row in connection.execute(sa.select(table.c.key, table.c.hash))}
    changed = [row["key"] for row in rows if hashes.get(row["key"]) not in (None, row["hash"]) and row["hash"]]
    if changed:
        raise LimnerError(
            f"{len(changed)} of the {table.name}s have different contents in the store ({shown(changed)}): "
            f"answers refer to the stored version; use a new store, or give changed items new ids"
        )
    new = [row for row in rows if row["key"] not in hashes]
    insert(connection, table, new)
    return len(new)


def insert(connection: sa.Connection, table: sa.Table, rows: Sequence[Row]) -> None:
    """Adds rows in batches of a few hundred."""
    for start in range(0, len(rows), _BATCH):
        _insert_batch(connection, table, rows[start : start + _BATCH])


def _insert_batch(connection: sa.Connection, table: sa.Table, rows: Sequence[dict[str, object]]) -> None:
    connection.execute(sa.insert(table), list(rows))


@dataclass(frozen=True)
class Listed:
    """One system's lists in one direction.

    Args:
        system: Its name.
        direction: "i2t" or "t2i".
        ranking: Queries are images for "i2t" and captions for "t2i"; all ids must be in the store.
        depth: Number of ranks of each list to store.
    """

    system: str
    direction: str
    ranking: Ranking
    depth: int = DEPTH

    def __post_init__(self) -> None:
        """Checks the values."""
        if self.direction not in DIRECTIONS:
            raise UnknownName("direction", self.direction, DIRECTIONS)
        if self.depth < 1:
            raise LimnerError(f"depth {self.depth}: expected 1 or more")
        if not self.system:
            raise LimnerError("a system needs a name")


def add_pool(store: Store, lists: Sequence[Listed], pairs: Iterable[Key] = (), *, turn: int = 1) -> tuple[int, int]:
    """Stores the systems' lists and the pooled pairs in one transaction.

    Existing data stays, so that a pool can be repeated with a larger depth or more systems. Different lists under the
    name of a system that already proposed pairs in this round are refused.

    Returns:
        The numbers of new proposals and pairs.
    """
    with store.reading() as connection:
        ids = keys(connection, image), keys(connection, caption)
    # Prepared before the lock is taken, since that takes longer than writing.
    rows = [list(_proposed(each.ranking.top(each.depth), each.direction, ids)) for each in lists]
    with store.writing() as connection:
        alone(store, connection)  # otherwise two concurrent pools of one system would both find it empty
        proposed = sum(_add_lists(store, connection, *each, turn) for each in zip(lists, rows, strict=True))
        before = _count(connection, pair)
        pair_numbers(store, connection, pairs, origin="pool", turn=turn)
        return proposed, _count(connection, pair) - before


def _count(connection: sa.Connection, table: sa.Table) -> int:
    return connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0


def _add_lists(store: Store, connection: sa.Connection, lists: Listed, rows: Sequence[Row], turn: int) -> int:
    """Adds missing list entries."""
    query = "image_id" if lists.direction == "i2t" else "caption_id"
    key_values = {"system_id": _system(store, connection, lists.system), "direction": lists.direction, "turn": turn}
    places = _known_places(connection, key_values, query)
    new = []
    for row in rows:
        stored = places.get((row[query], row["rank"]))
        if stored is None:
            new.append(row | key_values)
        elif stored != (row["image_id"], row["caption_id"]):
            raise LimnerError(
                f"{lists.system!r} proposed other {lists.direction} pairs in round {turn}: the store has another "
                f"system of that name; choose a different name"
            )
    insert(connection, proposal, new)
    return len(new)


def _known_places(
    connection: sa.Connection, key_values: dict[str, object], query: str
) -> dict[tuple[int, int], tuple[int, int]]:
    """The pair at each rank of each query, as proposed by a system in this direction and round."""
    columns = (proposal.c.image_id, proposal.c.caption_id, proposal.c.rank, proposal.c[query].label("query"))
    statement = sa.select(*columns).where(*(proposal.c[name] == value for name, value in key_values.items()))
    return {(row.query, row.rank): (row.image_id, row.caption_id) for row in connection.execute(statement)}


def _system(store: Store, connection: sa.Connection, name: str) -> int:
    system_id = connection.scalar(sa.select(system.c.id).where(system.c.name == name))
    if system_id is not None:
        return int(system_id)
    return inserted(connection, system, name=name, about=None, added=store.timestamp())


def _proposed(
    ranking: Ranking, direction: str, ids: tuple[dict[str, int], dict[str, int]]
) -> Iterator[dict[str, object]]:
    for row, query in enumerate(ranking.queries):
        for place, column in enumerate(ranking.indices[row].tolist()):
            if column < 0:
                break
            candidate = ranking.candidates[column]
            names = (query, candidate) if direction == "i2t" else (candidate, query)
            score = None if ranking.scores is None else float(ranking.scores[row, place])
            item_ids = {
                "image_id": number(ids[0], names[0], "image"),
                "caption_id": number(ids[1], names[1], "caption"),
            }
            yield {**item_ids, "rank": place + 1, "score": score}


def keys(connection: sa.Connection, table: sa.Table, only: Iterable[str] | None = None) -> dict[str, int]:
    """The store's ids of all images or captions by their ids in the collection; of a few names, at least theirs."""
    query, names = sa.select(table.c.key, table.c.id), None if only is None else sorted(set(only))
    if names is not None and len(names) <= _BATCH:
        query = query.where(table.c.key.in_(names))
    return {row.key: row.id for row in connection.execute(query)}


def number(ids: dict[str, int], key: str, kind: str) -> int:
    """The store's id of one item; a missing item is refused by name."""
    if key not in ids:
        raise UnknownId(f"{kind} {key!r} is not in the store: add its collection first ('limner annotate pool')")
    return ids[key]


def add_pairs(store: Store, pairs: Iterable[Key], *, turn: int = 1) -> int:
    """Adds (image, caption) pairs; existing ones are unchanged. Returns the number of new pairs."""
    return add_pool(store, (), pairs, turn=turn)[1]


def pair_numbers(
    store: Store, connection: sa.Connection, pairs: Iterable[Key], *, origin: str, turn: int
) -> dict[Key, int]:
    """The store's ids of pairs; missing pairs are added."""
    images, captions = keys(connection, image), keys(connection, caption)
    id_pairs = {p: (number(images, p[0], "image"), number(captions, p[1], "caption")) for p in dict.fromkeys(pairs)}
    numbers = _known_pairs(connection)
    columns = {"origin": origin, "turn": turn, "added": store.timestamp()}
    new = [{"image_id": i, "caption_id": c, **columns} for i, c in id_pairs.values() if (i, c) not in numbers]
    insert(connection, pair, new)
    numbers = _known_pairs(connection) if new else numbers
    by_key = {key: numbers[id_pair] for key, id_pair in id_pairs.items()}
    if origin == "pool":  # a pair that was only used as a control so far
        promotable = sa.and_(pair.c.origin == "control", pair.c.id == sa.bindparam("number"))
        promoted = [{"number": key} for key in _controls(connection) & set(by_key.values())]
        if promoted:
            connection.execute(sa.update(pair).where(promotable).values(origin=origin, turn=turn), promoted)
    return by_key


def _controls(connection: sa.Connection) -> set[int]:
    return set(connection.scalars(sa.select(pair.c.id).where(pair.c.origin == "control")))


def _known_pairs(connection: sa.Connection) -> dict[tuple[int, int], int]:
    rows = connection.execute(sa.select(pair.c.image_id, pair.c.caption_id, pair.c.id))
    return {(row.image_id, row.caption_id): row.id for row in rows}


def proposals(store: Store, *, depth: int | None = None, turn: int | None = None) -> list[Proposal]:
    """All proposals, sorted by system, direction, query and rank; optionally up to a rank, or of one round."""
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


def pairs(store: Store) -> list[Pair]:
    """Every pair in order of insertion, and whether it is in a task."""
    in_task = sa.exists().where(task_item.c.pair_id == pair.c.id, task_item.c.role == "real")
    columns = (pair.c.id, image.c.key.label("image"), caption.c.key.label("caption"), pair.c.origin, pair.c.turn)
    query = sa.select(*columns, in_task.label("asked")).join_from(pair, image).join(caption).order_by(pair.c.id)
    return [Pair(**{**row, "asked": bool(row["asked"])}) for row in store.rows(query)]


def caption_text(store: Store, key: str) -> str:
    """The text of a caption."""
    with store.reading() as connection:
        text = connection.scalar(sa.select(caption.c.text).where(caption.c.key == key))
    if text is None:
        raise UnknownId(f"caption {key!r} is not in the store")
    return str(text)


def caption_texts(store: Store, keys: Iterable[str] | None = None) -> dict[str, str]:
    """The texts of captions by id; of all by default."""
    query = sa.select(caption.c.key, caption.c.text)
    query = query if keys is None else query.where(caption.c.key.in_(list(dict.fromkeys(keys))))
    return {row["key"]: row["text"] for row in store.rows(query)}


def counts(store: Store) -> dict[str, int]:
    """The number of rows of each kind."""
    tables = {"images": image, "captions": caption, "systems": system, "proposals": proposal, "pairs": pair}
    with store.reading() as connection:
        return {name: _count(connection, table) for name, table in {**tables, "tasks": task}.items()}
