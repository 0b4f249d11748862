"""Search for the page: images by text and texts by image, with plain and corrected scores.

The pool is small enough to be scored whole (the part of a collection that is held out), so every answer is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.core.errors import LimnerError
from limner.core.ids import Ids
from limner.systems.opening import OpenSystem
from limner.web.jobs import Job
from limner.web.library import Library, Loaded

if TYPE_CHECKING:
    from limner.scores import Scores, Statistics

BANK = 5000
"""Maximum number of bank queries from the training part."""
QUERY = 500
"""Characters of a query."""
MOST = 50
"""Maximum number of results."""


@dataclass(frozen=True)
class SearchRequest:
    """A search request.

    Args:
        collection: Its name.
        words: Text query for images; or
        image: the id of an image to find texts for; or
        picture: an uploaded image, as checked bytes.
        system: Names of the systems to ask.
        correction: A name that the library knows, or "" for none.
        k: How many answers.
    """

    collection: str
    words: str = ""
    image: str = ""
    picture: bytes | None = None
    systems: tuple[str, ...] = ()
    correction: str = ""
    k: int = 12

    def __post_init__(self) -> None:
        """Checks the values."""
        if len(self.words) > QUERY:
            raise LimnerError(f"the query has {len(self.words):,} characters: at most {QUERY} are read")
        if not 1 <= self.k <= MOST:
            raise LimnerError(f"k = {self.k}: expected 1 to {MOST}")

    @property
    def direction(self) -> str:
        """The direction: a text query ("t2i") or an image query ("i2t")."""
        return "i2t" if self.image or self.picture is not None else "t2i"

    @property
    def empty(self) -> bool:
        """Whether the query is empty."""
        return not (self.words.strip() or self.image or self.picture is not None)


@dataclass(frozen=True)
class SearchAnswer:
    """One result.

    Args:
        rank: From 1.
        id: Its id.
        score: What the system gave it.
        text: A caption; empty for an image.
        right: Whether it is relevant; None if the query is not judged.
        before: Its rank without the correction; None if nothing was corrected.
    """

    rank: int
    id: str
    score: float
    text: str = ""
    right: bool | None = None
    before: int | None = None


@dataclass(frozen=True)
class Column:
    """What one system found, plain or corrected."""

    system: str
    correction: str
    answers: Sequence[SearchAnswer]


def search(library: Library, asked: SearchRequest) -> list[Column]:
    """Every system's answers, with the corrected ones if a correction is selected.

    Raises:
        limner.web.jobs.Pending: While a system is being trained.
    """
    if asked.empty:
        return []
    loaded = library.loaded(asked.collection)
    known = _known(loaded, asked)
    columns = []
    for name in asked.systems:
        ready = library.system(asked.collection, name)
        plain = _row(ready, loaded, asked, known)
        order = np.argsort(-plain, kind="stable")
        columns.append(Column(name, "", _answers(loaded, asked, known, plain, order)))
        if asked.correction:
            changed = _corrected(library, ready, loaded, asked, known)
            places = {int(column): rank for rank, column in enumerate(order, start=1)}
            ranked = np.argsort(-changed, kind="stable")
            columns.append(
                Column(name, asked.correction, _answers(loaded, asked, known, changed, ranked, before=places))
            )
    return columns


def _known(loaded: Loaded, asked: SearchRequest) -> str | None:
    """The id of the query in the collection, where it is one of its texts or images."""
    if asked.image:
        return loaded.held.images.ids[loaded.held.images.ids.index(asked.image)]
    if asked.picture is not None:
        return None
    texts = loaded.held.texts
    words = asked.words.strip()
    return next((key for key, text in zip(texts.ids, texts.values, strict=True) if text == words), None)


def _scores(ready: OpenSystem, loaded: Loaded, asked: SearchRequest, known: str | None) -> Scores:
    """Scores of the one query: from its own words or picture, or its row of the scores."""
    from limner.core.collection import Items
    from limner.scores import Scores

    if asked.direction == "t2i":
        if ready.encodes:
            query = ready.encode(Items(Ids(["query"]), [asked.words.strip()], kind="text"))
            return Scores.from_embeddings(query, _side(ready, "image"))
        if known is None:
            raise LimnerError(
                f"{ready.name} has scores of this collection only: ask with one of its captions, or choose a system "
                "that encodes"
            )
        return ready.scores.T.restrict(queries=[known])
    if known is not None:
        return ready.scores.restrict(queries=[known])
    if not ready.encodes:
        raise LimnerError(f"{ready.name} has scores of this collection only: choose a system that encodes pictures")
    return Scores.from_embeddings(ready.encode(Items(Ids(["query"]), [asked.picture])), _side(ready, "text"))


def _side(ready: OpenSystem, kind: str) -> Any:
    """Vectors of the images or texts that are searched."""
    scores: Any = ready.scores
    return scores.query_vectors if kind == "image" else scores.candidate_vectors


def _row(ready: OpenSystem, loaded: Loaded, asked: SearchRequest, known: str | None) -> Any:
    return np.asarray(_scores(ready, loaded, asked, known).block(0, 1))[0]


def _corrected(library: Library, ready: OpenSystem, loaded: Loaded, asked: SearchRequest, known: str | None) -> Any:
    statistics: Statistics = library.jobs.value(
        ("bank", asked.collection, ready.name, asked.direction, asked.correction),
        f"gathering the statistics of {asked.correction} for {ready.name}",
        lambda job: _bank(ready, loaded, asked, job),
        patience=3.0,
    )
    return np.asarray(_scores(ready, loaded, asked, known).correct(statistics).block(0, 1))[0]


def _bank(ready: OpenSystem, loaded: Loaded, asked: SearchRequest, job: Job) -> Statistics:
    """Statistics of each candidate from bank queries; from the pool itself if there are none."""
    from limner.scores import correct

    scores = ready.scores.T if asked.direction == "t2i" else ready.scores
    if not ready.encodes or not loaded.divided:
        return correct(scores, asked.correction).statistics
    items = loaded.seen.texts if asked.direction == "t2i" else loaded.seen.images
    some = items[: BANK if asked.direction == "t2i" else BANK // 5]
    return correct(scores, asked.correction, bank=ready.encode(some)).statistics


def _answers(
    loaded: Loaded,
    asked: SearchRequest,
    known: str | None,
    row: Any,
    order: Any,
    *,
    before: dict[int, int] | None = None,
) -> list[SearchAnswer]:
    pool = loaded.held.images if asked.direction == "t2i" else loaded.held.texts
    right = _right(loaded, asked.direction, known)
    found = []
    for rank, column in enumerate(map(int, order[: asked.k]), start=1):
        key = pool.ids[column]
        text = pool.values[column] if pool.kind == "text" else ""
        called = None if right is None else key in right
        found.append(
            SearchAnswer(rank, key, float(row[column]), text, called, None if before is None else before[column])
        )
    return found


def _right(loaded: Loaded, direction: str, known: str | None) -> frozenset[str] | None:
    """All relevant items of a known query."""
    if known is None:
        return None
    pairs = loaded.held.judged(loaded.held.judgements.name, direction).relevant
    row = pairs.queries.index(known)
    columns = pairs.columns[pairs.indptr[row] : pairs.indptr[row + 1]]
    return frozenset(pairs.candidates[int(column)] for column in columns)
