"""Indexes on the page: whole collections, searched by `limner.search`; no request loads their vectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from limner.core.collection import Items
from limner.core.display_names import display_name
from limner.core.errors import LimnerError, UnknownId
from limner.core.ids import Ids
from limner.core.images import open_image
from limner.web.search_request import LOWEST_PROMISE, SearchRequest, no_new_image

if TYPE_CHECKING:
    from PIL.Image import Image

    from limner.scores.correction import Statistics
    from limner.search import Hit, Hits, Index
    from limner.search.cut_off import Calibration
    from limner.search.index_table import Vectors
    from limner.search.item_texts import ItemTexts


@dataclass(frozen=True)
class IndexAnswer:
    """Hits, their kind, the search words, and descriptions of the search and the cut-off."""

    hits: Sequence[Hit]
    kind: str
    how: str
    words: str = ""
    promise: str = ""
    note: str = ""


@dataclass(frozen=True, eq=False)
class ServedIndex:
    """An open index under its display name.

    Args:
        name: The name.
        index: The index, with its encoder if it names one.
    """

    name: str
    index: Index

    @classmethod
    def open(cls, name: str, path: str | Index, *, trust: bool = False) -> ServedIndex:
        """Opens an index with the model that built it, and searches it once in every way to warm it up.

        Args:
            name: Its display name.
            path: Its folder, or the index itself, with its model.
            trust: Whether the index may name custom code.
        """
        from limner.systems.opening import open_index_with_model

        index = open_index_with_model(path, trust=trust) if isinstance(path, str) else path
        if index.about.kind == "item":
            raise LimnerError(f"the index {path} contains vectors without images or texts: there is nothing to show")
        served = cls(name, index)
        for _ in range(2):  # the first time LanceDB scans; the second time vectors are read into memory
            index.search(served.sample(), 1)
        if index.system is not None:
            with suppress(LimnerError):  # a model without texts: said when somebody asks
                index.search(["a red dog"], 1)
        return served

    def sample(self) -> Vectors:
        """The vector of one row."""
        first = self.index.store.take([0])[0]["id"]
        return self.vector(first)

    def some(self, count: int) -> list[str]:
        """Ids of a few items from the whole of the index, to start from."""
        places = range(0, len(self.index), max(1, len(self.index) // count))
        return [row["id"] for row in self.index.store.take(places[:count])]

    @property
    def kind(self) -> str:
        """The kind of its items: "image" or "text"."""
        return self.index.about.kind

    @property
    def encoder(self) -> str:
        """The display name of its model; never a path on the server."""
        called = self.index.about.made_by or self.index.about.system or "vectors"
        return display_name(called).replace("\\", "/").rstrip("/").rpartition("/")[2]

    def unknown_words(self, text: str) -> list[str]:
        """The words of a text that its model does not know."""
        find = getattr(self.index.system, "unknown_words", None)
        return [] if find is None else list(find(text))

    def vector(self, key: str) -> Vectors:
        """The stored vector of an item, or its vectors."""
        from limner.search.stored_vectors import stored_vectors

        try:
            return stored_vectors(self.index.store, [key])
        except UnknownId:
            raise UnknownId(f"no {self.kind} {key[:80]!r} in {self.name!r}") from None

    def row(self, key: str) -> dict[str, Any]:
        """Id, text or path, and thumbnail of an item."""
        rows = self.index.store.rows([key])
        if key not in rows:
            raise UnknownId(f"no {self.kind} {key[:80]!r} in {self.name!r}")
        return rows[key]

    def described(self, key: str) -> tuple[Sequence[str], Mapping[str, object]]:
        """The captions and the fields of an item, as far as the index has them."""
        from limner.search.item_texts import read_fields

        store = self.index.store
        row = store.rows([key], columns=("id", "captions", "fields")).get(key, {})
        return row.get("captions") or (), read_fields(row["fields"], store.path) if row.get("fields") else {}

    def open_image(self, key: str, side: int) -> Image:
        """An image of the index: from its file, or the stored thumbnail."""
        row = self.row(key)
        source = row["value"] if row["value"] is not None else row["picture"]
        if self.kind != "image" or source is None:
            raise UnknownId(f"{self.name!r} has no image {key[:80]!r} to show")
        return open_image(source, name=key, side=side)

    def search(
        self, served: Mapping[str, ServedIndex], request: SearchRequest, texts: Callable[[str], ItemTexts]
    ) -> IndexAnswer:
        """The best items of the requested kind, from this index or the other one of the same model.

        Args:
            served: All indexes by name.
            request: The request.
            texts: Returns the stored texts of an index by its name; called only if words or fields are used.
        """
        target = self._holding("image" if request.finds_images else "text", served)
        query = self._query(request)
        if request.precision is not None and request.crosses:
            return replace(target._promised(query, request.k, request.precision), words=request.words.strip())
        alike = target is self and bool(request.image)
        hits, words = target._hits(request, query, request.k + alike, texts)
        listed = [hit for hit in hits[hits.queries.ids[0]] if not (alike and hit.id == request.image)]
        return IndexAnswer(listed[: request.k], target.kind, hits.description, words, note="; ".join(hits.notes))

    def _hits(
        self, request: SearchRequest, query: object, k: int, texts: Callable[[str], ItemTexts]
    ) -> tuple[Hits, str]:
        """Hits by vectors, or with words, minus terms and filters; and the words that were looked for."""
        if not request.has_terms:
            return self.index.search(query, k), request.words.strip()
        from limner.search import search_words
        from limner.search.query_terms import read_terms

        item_texts = texts(self.name)
        hits = search_words(self.index, query, k, by=request.by, where=request.where, texts=item_texts)
        return hits, read_terms(request.words, item_texts.names).words

    def _promised(self, query: object, k: int, precision: float) -> IndexAnswer:
        """The hits that reach a given precision; the calibration of the index is read once."""
        from limner.search.cut_off import NEIGHBOURS
        from limner.search.index_statistics import cut_hits

        calibration, version = self.calibration
        if version != self.index.version:
            raise LimnerError(f"{self.name} has changed since the server started: restart the server")
        cut_off = calibration.cut_off(precision, k=k, lowest=LOWEST_PROMISE)
        hits = self.index.search(query, max(k, NEIGHBOURS), exact=True)
        listed = cut_hits(calibration, cut_off, hits)[hits.queries.ids[0]]
        return IndexAnswer(listed, self.kind, hits.summary, promise=str(cut_off))

    @cached_property
    def correction(self) -> tuple[Statistics, int] | None:
        """The correction that the index keeps, and of which version of the index; None if there is none."""
        from limner.search import kept_correction

        try:
            return kept_correction(self.index), self.index.version
        except LimnerError:
            return None

    def corrected(
        self, served: Mapping[str, ServedIndex], request: SearchRequest, plain: IndexAnswer
    ) -> tuple[Sequence[Hit], dict[str, int], str]:
        """The hits with the correction that the index keeps, their ranks without it where known, and how."""
        target = self._holding("image" if request.finds_images else "text", served)
        stored = target.correction
        if stored is None or stored[0].correction.name != request.correction:
            raise LimnerError(
                f"{target.name} keeps no correction {request.correction!r}: run 'limner index INDEX --correct "
                f"{request.correction} -O bank=FILE', then start the server again"
            )
        if stored[1] != target.index.version:
            raise LimnerError(f"{target.name} has changed since the server started: start it again")
        hits = target.index.search(self._query(request), request.k, correct=stored[0])
        return hits[hits.queries.ids[0]], {hit.id: hit.rank for hit in plain.hits}, hits.description

    @cached_property
    def calibration(self) -> tuple[Calibration, int]:
        """The calibration of its hits from judged queries, and the version of the index it belongs to."""
        from limner.search.index_statistics import calibration_of

        try:
            return calibration_of(self.index), self.index.version
        except LimnerError as error:
            raise LimnerError(
                f"{self.name} is not calibrated, so no precision can be guaranteed: run 'limner index INDEX "
                "--calibrate COLLECTION', then start the server again"
            ) from error

    def _holding(self, kind: str, served: Mapping[str, ServedIndex]) -> ServedIndex:
        model = self.index.about.model
        same_model = [each for each in (self, *served.values()) if each is self or each.index.about.model == model]
        match = next((each for each in same_model if each.kind == kind), None)
        if match is None or (match is not self and model is None):
            raise LimnerError(
                f"{self.name} contains {self.kind}s: to find {kind}s, serve an index of {kind}s built with the "
                f"same model"
            )
        return match

    def _query(self, request: SearchRequest) -> object:
        """The query vector: the vector of one of its items, or the output of its model."""
        if request.image:
            return self.vector(request.image)
        if self.index.system is None and request.by != "words":
            raise LimnerError(f"{self.name} names no encoder: use one of its {self.kind}s as the query")
        if request.uploaded is None:
            return Items(Ids(["query"]), [request.words.strip()], kind="text")
        try:
            return self.index.read_queries(Items(Ids(["query"]), [request.uploaded]))[1]
        except LimnerError as error:
            raise no_new_image(self.name) from error
