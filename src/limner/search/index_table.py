"""The table of an index (the description in its head, and its columns), and the queries that fit it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.core.arrays import Array, Float32, IntArray, array, is_matrix
from limner.core.collection import Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownName
from limner.core.ids import Ids
from limner.core.paths import parse_json
from limner.core.progress import Progress
from limner.core.registry import checked
from limner.encoders.contract import identity
from limner.scores import VectorSets
from limner.scores.set_scores import item_ranges
from limner.search.items import stored_item

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1
"""Formats of new stores with one vector per item, and with several; formats 1 (without the model) and 2 (without
captions and fields) can be read too."""
POOLINGS = ("maxsim",)
"""How the products of several vectors per item become one score."""
COUNT = "count"
"""The column with the number of vectors of an item, if there are several."""
COLUMNS = ("value", "picture", "captions", "fields")
"""What is kept of an item beside its id and vector."""
Kept = Mapping[str, object]
"""The columns of one item by name; None where nothing is known."""


@dataclass(frozen=True)
class About:
    """The description of an index, written when it is created.

    Args:
        dim: Dimension of the vectors.
        kind: "image", "text", or "item" if only ids are known.
        similarity: "cosine" (vectors are stored with length 1) or "dot".
        system: The query encoder: a file, a name inside the index, or "module:thing"; None if unknown.
        model: The identity of the model that made the vectors (`limner.encoders.contract.identity`); None if unknown.
        made_by: The name the user gave for that model.
        pooling: One of `POOLINGS` if every item has several vectors; None if it has one.
    """

    dim: int
    kind: str = "item"
    similarity: str = "cosine"
    system: str | None = None
    model: str | None = None
    made_by: str | None = None
    pooling: str | None = None

    def __post_init__(self) -> None:
        """Checks the values."""
        if self.similarity not in ("cosine", "dot"):
            raise UnknownName("similarity", self.similarity, ("cosine", "dot"))
        if self.kind not in ("image", "text", "item"):
            raise UnknownName("kind of items", self.kind, ("image", "text", "item"))
        if self.pooling is not None and self.pooling not in POOLINGS:
            raise UnknownName("pooling", self.pooling, POOLINGS)

    @property
    def has_sets(self) -> bool:
        """Whether every item has several vectors."""
        return self.pooling is not None

    @property
    def head(self) -> dict[str, object]:
        """What is written into the store."""
        return {"format": FORMAT, **asdict(self)}


def schema(about: About, names: Sequence[str] = ()) -> pa.Schema:
    """Columns of the table, or some of them.

    They are id, vector, value (a text or the path of an image), picture (a thumbnail), captions (texts about an image)
    and fields (JSON). With several vectors per item, "vector" is a list of them, and "count" their number.
    """
    import pyarrow as pa

    one = pa.list_(pa.float32(), about.dim)
    columns = [
        pa.field("id", pa.string(), nullable=False),
        pa.field("vector", pa.list_(one) if about.has_sets else one, nullable=False),
        *([pa.field(COUNT, pa.int32(), nullable=False)] if about.has_sets else []),
        pa.field("value", pa.string()),
        pa.field("picture", pa.binary()),
        pa.field("captions", pa.list_(pa.string())),
        pa.field("fields", pa.string()),
    ]
    chosen = [column for column in columns if not names or column.name in names]
    return pa.schema(chosen, metadata={"limner": json.dumps(about.head)})


def batch(
    about: About, ids: list[str], vectors: Float32, stored: Sequence[Kept], starts: IntArray | None = None
) -> pa.RecordBatch:
    """Rows in the format of the table.

    Args:
        about: The description of the store.
        ids: One per item.
        vectors: All vectors of the items.
        stored: What is kept of every item.
        starts: Where the vectors of each item begin, and where the last ones end; None for one vector per item.
    """
    import pyarrow as pa

    flat = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).ravel())
    rows = pa.FixedSizeListArray.from_arrays(flat, about.dim)
    if starts is None:
        vector = [rows]
    else:
        vector = [pa.ListArray.from_arrays(starts.astype(np.int32), rows), pa.array(np.diff(starts), pa.int32())]
    kinds = [schema(about).field(name).type for name in COLUMNS]
    columns = [
        pa.array(ids, pa.string()),
        *vector,
        *(pa.array([row[name] for row in stored], kind) for name, kind in zip(COLUMNS, kinds, strict=True)),
    ]
    return pa.record_batch(columns, schema=schema(about))


def about_of(table: Any, source: str) -> About:
    """The description of a table; refuses a table that limner did not create."""
    try:
        metadata = parse_json((table.schema.metadata or {})[b"limner"].decode(), where=source)
        version = metadata.pop("format")
    except (KeyError, ValueError, AttributeError):
        raise LimnerError(
            f"{source} contains a table {table.name!r} that limner did not create: choose another path for the index"
        ) from None
    if version != FORMAT:
        raise LimnerError(f"{source} is an index of format {version}; this limner reads format {FORMAT}: index again")
    return About(**checked(About, metadata, what=f"the index {source}"))


AT_ONCE = 8_192
"""Rows per batch when writing; all batches are one commit."""
VECTORS_AT_ONCE = 65_536
"""Vectors per batch, where items have several; an item that has more is a batch of its own."""
NOTHING: Kept = dict.fromkeys(COLUMNS)


def batches(
    about: About, vectors: Embeddings | VectorSets, items: Items | None, progress: Progress
) -> Iterator[object]:
    """Yields the rows of the table, a few thousand at a time. Errors are raised before the first row is written."""
    places = None if items is None else items.ids.positions(vectors.ids)

    def batches() -> Iterator[pa.RecordBatch]:
        for low, high in _cuts(vectors):
            described = [NOTHING] * (high - low)
            if items is not None and places is not None:
                described = [stored_item(items, int(place)) for place in places[low:high]]
            yield _batch(about, _part(vectors, low, high), described)
            progress(high, len(vectors))

    return batches()


def _cuts(vectors: Embeddings | VectorSets) -> list[tuple[int, int]]:
    """Ranges of items that are written at once."""
    if isinstance(vectors, VectorSets):
        return item_ranges(vectors.starts, VECTORS_AT_ONCE, max_items=AT_ONCE)
    return [(low, min(low + AT_ONCE, len(vectors))) for low in range(0, len(vectors), AT_ONCE)]


def _part(vectors: Embeddings | VectorSets, low: int, high: int) -> Embeddings | VectorSets:
    if isinstance(vectors, VectorSets):
        return vectors.part(low, high)
    return Embeddings(vectors.ids[low:high], vectors.matrix[low:high])


def _batch(about: About, part: Embeddings | VectorSets, described: list[Kept]) -> pa.RecordBatch:
    unit = part.normalised() if about.similarity == "cosine" else part
    if isinstance(unit, VectorSets):
        return batch(about, list(unit.ids), unit.vectors.matrix, described, unit.starts)
    return batch(about, list(unit.ids), unit.matrix, described)


Queries = object
"""Queries: vectors (embeddings, an array or tensor, a list of rows), several vectors per query (`VectorSets`, or {id:
vectors}) for an index of such items, or anything `limner.Items.of` accepts."""
Vectors = Embeddings | VectorSets
"""One vector per item, or several."""


def as_vectors(queries: object, *, sets: bool = False) -> Vectors | None:
    """The queries as vectors; None if they are items.

    Args:
        queries: The queries.
        sets: Whether the index has several vectors per item; vectors of the other kind are returned as they are, and
            refused by `refuse_unlike`.
    """
    if isinstance(queries, (Embeddings, VectorSets)):
        return queries
    if isinstance(queries, Mapping) and sets:
        return VectorSets.of({str(key): vectors for key, vectors in queries.items()})
    if isinstance(queries, (str, bytes, Items)) or not hasattr(queries, "__len__") or not len(queries):
        return None
    if is_matrix(queries):
        return numbered(array(queries, "queries"))
    if isinstance(queries, (list, tuple)) and not isinstance(queries[0], (int, float, np.number)):
        return None
    matrix = array(queries, "query")
    return numbered(matrix) if matrix.ndim == 1 and np.issubdtype(matrix.dtype, np.number) else None


def numbered(vectors: Array) -> Embeddings:
    """One vector, or rows of vectors, with row numbers as ids."""
    matrix = np.atleast_2d(vectors)
    return Embeddings(Ids(range(len(matrix)), what="query"), matrix)


def refuse_other_model(about: About, system: object, name: str | None = None) -> None:
    """Refuses a system that differs from the model of the index; unknown models are accepted.

    Args:
        about: The description of the index.
        system: The encoder.
        name: The name the user gave.
    """
    index_model, query_model = about.model, identity(system, name)
    if index_model is not None and query_model is not None and index_model != query_model:
        called = name or getattr(system, "name", None) or type(system).__name__
        raise LimnerError(
            f"the index was made with {str(about.made_by)!r} ({index_model}), and {str(called)!r} is another model "
            f"({query_model}): vectors of two models cannot be compared; use the first, or make a separate index"
        )


def refuse_unlike(about: About, vectors: Vectors, items: Items | None = None) -> None:
    """Refuses vectors and items that do not fit an index."""
    if about.has_sets and not isinstance(vectors, VectorSets):
        raise LimnerError(
            f"one vector for each of {len(vectors):,} items, but the index has several vectors per item: give "
            "limner.scores.VectorSets, a file with the arrays 'vectors' and 'counts', or texts for its system"
        )
    if isinstance(vectors, VectorSets) and not about.has_sets:
        raise LimnerError(
            f"several vectors for each of {len(vectors):,} items, but the index has one vector per item: give "
            "Embeddings, or make a separate index"
        )
    if vectors.dim != about.dim:
        raise LimnerError(
            f"vectors have {vectors.dim} dimensions, the index {about.dim}: encode them with the system "
            "that the index was made with"
        )
    if items is not None and items.kind != about.kind:
        raise LimnerError(f"{items.kind} items for an index of {about.kind}s: make a separate index")
