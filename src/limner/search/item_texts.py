"""The texts and fields of indexed items, for search by words and for filters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from limner.core.arrays import Array
from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError, UnknownName
from limner.core.judgements import Judgements
from limner.language.bm25 import BM25
from limner.search.items import CAPTIONS
from limner.search.query_terms import FieldFilter, Terms

if TYPE_CHECKING:
    from limner.search.index import Index

SPLIT = "split"
MOST_CHOICES = 30
"""Values of a field up to which a form lists them."""


@dataclass(frozen=True, eq=False)
class ItemTexts:
    """Texts and fields of items, in the order of the items.

    Args:
        kind: "image" or "text".
        texts: The texts of each item: the captions of an image, or the text itself.
        fields: The fields of each item, by name.
    """

    kind: str
    texts: Sequence[Sequence[str]]
    fields: Sequence[Mapping[str, object]]

    @classmethod
    def of_index(cls, index: Index) -> ItemTexts:
        """Reads the texts and fields from an index."""
        is_text, store = index.about.kind == "text", index.store
        columns = ["value" if is_text else CAPTIONS, "fields"]
        texts: list[Sequence[str]] = []
        fields: list[Mapping[str, object]] = []
        for batch in store.scan(columns):
            texts += [([each] if is_text else each) if each else () for each in batch[columns[0]].to_pylist()]
            fields += [read_fields(each, store.path) if each else {} for each in batch["fields"].to_pylist()]
        return cls(index.about.kind, texts, fields)

    @classmethod
    def of_items(cls, items: Items) -> ItemTexts:
        """The texts and fields of images with a field "captions" (see `with_captions`), or of texts."""
        from limner.search.items import kept_fields

        no_texts: Sequence[Sequence[str]] = [()] * len(items)
        texts = [[text] for text in items.values] if items.kind == "text" else items.fields.get(CAPTIONS, no_texts)
        return cls(items.kind, texts, [kept_fields(items, row) for row in range(len(items))])

    @property
    def is_empty(self) -> bool:
        """Whether no item has any text."""
        return not any(self.texts)

    @cached_property
    def names(self) -> list[str]:
        """The fields that any item has."""
        return sorted({name for each in self.fields for name in each})

    @cached_property
    def bm25(self) -> BM25:
        """The words of the texts."""
        return BM25.of(self.texts)

    @cached_property
    def choices(self) -> dict[str, list[str]]:
        """The values of every field with few different values, by name, for a form."""
        values_by_name = {
            name: sorted({value for each in self.fields for value in _values(each, name)}) for name in self.names
        }
        return {name: values for name, values in values_by_name.items() if 1 < len(values) <= MOST_CHOICES}

    def allowed(self, terms: Terms) -> Array | None:
        """Which items pass the filters and the minus terms; None if there are neither.

        A minus term removes an item if the texts of the item together contain all words of the term.
        """
        if terms.plain:
            return None
        mask = np.ones(len(self.texts), dtype=bool)
        for (_, excluded, _), group in groupby(sorted(terms.where, key=_condition), key=_condition):
            mask &= self._having(list(group)) != excluded
        for words in terms.without:
            mask &= ~self.bm25.having(words)
        return mask

    def _having(self, alternatives: Sequence[FieldFilter]) -> Array:
        """Which items have one of several values of the same field."""
        name = alternatives[0].field
        if name not in self.names:
            raise UnknownName("field", name[:80], self.names, of=f"the {self.kind}s")
        values = [_values(each, name) for each in self.fields]
        return np.array([any(each.accepts(listed) for each in alternatives) for listed in values])

    def best_text(self, terms: Terms, row: int) -> str:
        """The text of an item that contains most words of a query; "" if no text contains any."""
        scored = [(len(BM25.of([[text]]).matched(terms.words, 0)), -n, text) for n, text in enumerate(self.texts[row])]
        best = max(scored, default=(0, 0, ""))
        return best[2] if best[0] else ""


def read_fields(written: str, path: str) -> Mapping[str, object]:
    """The fields of an item, as stored in an index."""
    try:
        return dict(json.loads(written))
    except (ValueError, TypeError, RecursionError):
        raise LimnerError(f"the index {path} is damaged: {written[:40]!r} are no fields; index again") from None


def _condition(each: FieldFilter) -> tuple[str, bool, str]:
    """What alternatives share: a comparison has none."""
    return each.field, each.excluded, each.value if each.compares else ""


def _values(fields: Mapping[str, object], name: str) -> list[str]:
    """The values of a field of an item, as a user would type them.

    >>> _values({"year": 2019, "tags": ["a", "b"], "new": True}, "year"), _values({"new": True}, "new")
    (['2019'], ['true'])
    """
    value = fields.get(name)
    listed = value if isinstance(value, list) else [] if value is None else [value]
    return [str(each).lower() if isinstance(each, bool) else str(each) for each in listed]


def with_captions(collection: Collection, side: str = "images") -> Items:
    """The images with their captions and splits as fields, or the texts with their splits, for an index.

    Args:
        collection: The collection; captions of an image are the texts that its judgements call relevant.
        side: "images" or "texts".
    """
    if side not in ("images", "texts"):
        raise LimnerError(f"side {side!r}: expected images or texts")
    pairs = collection.judged(collection.judgements.name, "i2t").relevant
    splits: dict[str, list[str]] = {}
    for name, ids in collection.splits.items():
        for key in ids:
            splits.setdefault(key, []).append(name)
    if side == "texts":
        return _with_split(collection.texts, {t: splits.get(i, []) for i, t in _pairs(pairs)})
    written: dict[str, list[str]] = {key: [] for key in collection.images.ids}
    values = dict(zip(collection.texts.ids, collection.texts.values, strict=True))
    for image, text in _pairs(pairs):
        if image in written and values.get(text):
            written[image].append(values[text])
    images = collection.images
    if CAPTIONS not in images.fields and any(written.values()):
        images = images.with_fields(captions=list(written.values()))
    return _with_split(images, splits)


def _pairs(pairs: Judgements) -> list[tuple[str, str]]:
    rows = zip(pairs.rows.tolist(), pairs.columns.tolist(), strict=True)
    return [(pairs.queries[row], pairs.candidates[column]) for row, column in rows]


def _with_split(items: Items, splits: Mapping[str, list[str]]) -> Items:
    if SPLIT in items.fields or not any(splits.values()):
        return items
    return items.with_fields(split=[splits.get(key, []) for key in items.ids])
