"""Groups of queries: by caption length, by words, by annotated objects, or by any field of the collection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from limner.core.arrays import BoolArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError, UnknownName
from limner.core.ids import Ids

MOST = 40
"""Groups of one kind, the largest first; their values are not looked at."""
DISTINCT = 12
"""A column of numbers with more different values is cut into thirds."""


@dataclass(frozen=True, eq=False)
class QueryGroup:
    """A group of queries.

    Args:
        by: The grouping: "length", "words", "objects" or a field.
        value: The value that the queries share.
        members: One boolean per query.
    """

    by: str
    value: str
    members: BoolArray

    @property
    def name(self) -> str:
        """`length: 9 to 12 words`."""
        return f"{self.by}: {self.value}"


@dataclass(frozen=True, eq=False)
class _Queries:
    """The queries of one direction, with their captions and images."""

    collection: Collection
    direction: str
    ids: Ids

    @cached_property
    def images(self) -> list[str]:
        """The image of each query: its own id, or the image that a caption was written for; "" if there is none."""
        if self.direction == "i2t":
            return list(self.ids)
        return [(partners or [""])[0] for partners in self._partners]

    @cached_property
    def captions(self) -> list[list[str]]:
        """The captions of each query: its own text, or those written for an image."""
        texts = self.collection.texts
        if self.direction == "t2i":
            return [[texts.values[texts.ids.index(query)]] for query in self.ids]
        return [[texts.values[texts.ids.index(text)] for text in partners] for partners in self._partners]

    @cached_property
    def _partners(self) -> list[list[str]]:
        pairs = self.collection.judged(self.collection.judgements.name, self.direction).relevant
        return [
            [pairs.candidates[int(c)] for c in pairs.columns[pairs.indptr[row] : pairs.indptr[row + 1]]]
            for row in (pairs.queries.index(query) for query in self.ids)
        ]

    def column(self, field: str) -> Sequence[object] | None:
        """A field of the queries, or of their images; None if there is no such field."""
        items = self.collection.images if self.direction == "i2t" else self.collection.texts
        if field in items.fields:
            return _looked_up(items.ids, items.field(field), self.ids)
        images = self.collection.images
        return _looked_up(images.ids, images.field(field), self.images) if field in images.fields else None


def _looked_up(ids: Ids, column: Sequence[object], keys: Iterable[str]) -> list[object]:
    return [column[ids.index(each)] if each in ids else None for each in keys]


def default_kinds(collection: Collection) -> list[str]:
    """The default groupings: length, language, and objects or else words."""
    fields = {*collection.images.fields, *collection.texts.fields}
    return ["length", *(["language"] if "language" in fields else []), "objects" if "objects" in fields else "words"]


def query_groups(
    collection: Collection, direction: str, queries: Ids, by: Sequence[str], *, min_size: int
) -> list[QueryGroup]:
    """Groups of the queries with at least `min_size` queries inside and outside, by each of `by` in turn.

    Args:
        collection: The collection with captions and fields.
        direction: "i2t" or "t2i".
        queries: The queries.
        by: "length" (words of the caption, in thirds), "words", "objects" (annotated ones) or a field of the images or
            texts. A caption also has the fields of its image. Numbers are split into thirds.
        min_size: The minimum number of queries in a group, and in the rest.
    """
    described = _Queries(collection, direction, queries)
    return [group for kind in by for group in _of_kind(described, kind, min_size)]


def _of_kind(queries: _Queries, kind: str, min_size: int) -> list[QueryGroup]:
    labels = _labels_by(queries, kind)
    counted = Counter(label for group_names in labels for label in group_names)
    enough = [name for name, n in counted.most_common() if min_size <= n <= len(labels) - min_size][:MOST]
    order = list(dict.fromkeys(label for names in labels for label in sorted(names)))
    return [
        QueryGroup(kind, name, np.array([name in names for names in labels]))
        for name in sorted(enough, key=order.index if kind == "length" else None)
    ]


def _labels_by(queries: _Queries, kind: str) -> list[set[str]]:
    """The groups of each query; empty if the queries have no such field."""
    if kind not in ("length", "words"):
        column = queries.column(kind)
        return [] if column is None else _labels(column)
    from limner.language.word_overlap import STOP_WORDS
    from limner.language.words import tokens

    words_of = [[tokens(text) for text in captions] for captions in queries.captions]
    if kind == "words":
        return [{word for words in captions for word in words} - STOP_WORDS for captions in words_of]
    lengths = [float(np.mean([len(words) for words in captions])) if captions else None for captions in words_of]
    return _thirds(lengths, "words")


def _labels(column: Sequence[object]) -> list[set[str]]:
    """The labels of each query in a column: several if it contains lists, such as the objects of an image."""
    values = [value for value in column if value is not None]
    numeric = values and all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)
    if numeric and len(set(values)) > DISTINCT:
        return _thirds(column, "")
    return [_labels_of(value) for value in column]


def _labels_of(value: object) -> set[str]:
    if isinstance(value, Mapping):
        named = value.get("name") or value.get("synset")
        return {str(named)} if named else set()
    if isinstance(value, (list, tuple, set, frozenset)):
        return {label for each in value for label in _labels_of(each)}
    empty = value is None or value != value or value == ""
    return set() if empty or len(str(value)) > 80 else {str(value)}


def _thirds(column: Sequence[Any], unit: str) -> list[set[str]]:
    """Splits values into low, middle and high, in about equal numbers."""
    numbers = np.array([np.nan if value is None else float(value) for value in column])
    finite = numbers[np.isfinite(numbers)]
    if not len(finite):
        return [set() for _ in column]
    low, high = np.quantile(finite, [1 / 3, 2 / 3])
    ends = [f"up to {low:.4g}", f"above {low:.4g} to {high:.4g}", f"above {high:.4g}"]
    names = [f"{end} {unit}".strip() for end in ends]
    return [{names[int(v > low) + int(v > high)]} if np.isfinite(v) else set() for v in numbers]


def known_kinds(collection: Collection) -> list[str]:
    """The possible groupings of queries in a collection."""
    return ["length", "words", *sorted({*collection.images.fields, *collection.texts.fields})]


def refuse_unknown(collection: Collection, by: Sequence[str]) -> None:
    """Refuses unknown groupings."""
    kinds = known_kinds(collection)
    for kind in by:
        if kind not in kinds:
            raise UnknownName("group of queries", kind, kinds, of=repr(collection.name))
    if len(set(by)) < len(by):
        raise LimnerError(f"by: got {', '.join(by)}, expected each only once")
