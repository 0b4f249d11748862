"""A wins, B loses: the queries that one system answers better than another, filtered and sorted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import Response

from limner.core.errors import LimnerError, UnknownName
from limner.web.failures import DIRECTIONS, Place, class_names, placed, with_classes
from limner.web.jobs import NOTICED
from limner.web.library import Library
from limner.web.site import Ask, page, query

if TYPE_CHECKING:
    from limner.core.collection import Collection

STEP = 24
"""Queries on a page."""
WINS = {
    "first": "A right at rank 1, B not",
    "better": "A ranks the truth higher",
}
ORDERS = {
    "difference": "largest difference of ranks",
    "close": "smallest difference of ranks",
    "query": "order of the queries",
}


@dataclass(frozen=True)
class WinFilter:
    """Which queries to show.

    Args:
        words: Captions that contain all of these words.
        by: A field, or "length", "words" or "objects".
        value: The group of that field; all groups by default.
        failure: Failure class, by objects or by captions, of the losing system's answer; all classes by default.
    """

    words: str = ""
    by: str = ""
    value: str = ""
    failure: str = ""


@dataclass(frozen=True)
class Win:
    """A query that A answers better than B: the rank of the relevant item for both, and the first results."""

    text: str
    image: str
    a: Place
    b: Place
    firsts: tuple[str, str]

    @property
    def difference(self) -> int:
        """How many ranks lower B places the relevant item."""
        return self.b.rank - self.a.rank


def wins_page(ask: Ask) -> Response:
    """The queries where A wins and B loses, with images."""
    library = ask.site.library
    collection, names = library.known_collection(ask.get("c")), library.names
    if len(names) < 2:
        raise LimnerError("only one system is served: to compare queries, serve two")
    a, b = library.known_system(ask.get("a") or names[0]), library.known_system(ask.get("b") or names[1])
    direction, kind, order = ask.get("d") or "t2i", ask.get("kind") or "first", ask.get("order") or "difference"
    for option, value, choices in (
        ("direction", direction, DIRECTIONS),
        ("kind", kind, WINS),
        ("order", order, ORDERS),
    ):
        if value not in choices:
            raise UnknownName(option, value[:20], choices)
    start = ask.number("start", 0)
    chosen = WinFilter(ask.get("q")[:200], ask.get("by")[:80], ask.get("value")[:80], ask.get("class")[:40])
    win_list = wins(library, collection, a, b, direction, kind=kind, order=order, chosen=chosen)
    parameters = {"c": collection, "a": a, "b": b, "d": direction, "kind": kind, "order": order, "q": chosen.words,
            "by": chosen.by, "value": chosen.value, "class": chosen.failure}  # fmt: skip
    evaluated = library.loaded(collection).evaluated
    annotated = "objects" in evaluated.images.fields
    return page(
        ask, "wins.html", listed=win_list[start : start + STEP], total=len(win_list), start=start, step=STEP,
        kept=parameters,
        link=lambda **more: query(**{**parameters, **more}), collections=library.collections, systems=names, kinds=WINS,
        orders=ORDERS, choices=choices_of(evaluated), classes=class_names(annotated=annotated), annotated=annotated,
        by_text=direction == "t2i", queries=len(evaluated.texts if direction == "t2i" else evaluated.images),
    )  # fmt: skip


def wins(
    library: Library, collection: str, a: str, b: str, direction: str, *, kind: str, order: str, chosen: WinFilter
) -> list[Win]:
    """Queries for which A ranks the relevant item higher than B.

    Args:
        library: Collections and systems.
        collection: Its name.
        a: The system that wins.
        b: The system that loses.
        direction: "t2i" or "i2t".
        kind: "first" (A right at rank 1, B not) or "better".
        order: "difference" (largest first), "close" (smallest first) or "query".
        chosen: Filter of the queries.
    """
    evaluated = library.loaded(collection).evaluated
    sides = [_places(library, collection, name, direction) for name in (a, b)]
    texts = dict(zip(evaluated.texts.ids, map(str, evaluated.texts.values), strict=True))
    allowed = _allowed(library, collection, b, direction, [place.query for place in sides[0]], chosen)
    query_words, listed = chosen.words.lower().split(), []
    for one, loser in zip(*sides, strict=True):
        if one.rank >= loser.rank or (kind == "first" and one.rank > 1) or one.query not in allowed:
            continue
        win = _win(evaluated, texts, direction, one, loser)
        if all(word in win.text.lower() for word in query_words):
            listed.append(win)
    if order == "query":
        return listed
    return sorted(listed, key=lambda win: -win.difference if order == "difference" else win.difference)


def choices_of(evaluated: Collection) -> list[str]:
    """The fields that queries can be grouped by."""
    from limner.evaluation.query_groups import known_kinds

    return known_kinds(evaluated)


def _allowed(
    library: Library, collection: str, loser: str, direction: str, queries: Sequence[str], chosen: WinFilter
) -> set[str]:
    """The queries of a group, restricted to a failure class of the losing system."""
    from limner.core.ids import Ids
    from limner.evaluation.query_groups import query_groups, refuse_unknown

    allowed, evaluated = set(queries), library.loaded(collection).evaluated
    if chosen.by and chosen.value:
        refuse_unknown(evaluated, [chosen.by])
        groups = query_groups(evaluated, direction, Ids(queries), [chosen.by], min_size=1)
        matching = [group for group in groups if group.value.lower() == chosen.value.lower()]
        if not matching:
            raise UnknownName("value", chosen.value, [group.value for group in groups], of=chosen.by)
        allowed &= {key for key, inside in zip(queries, matching[0].members, strict=True) if inside}
    if chosen.failure:
        failed = with_classes(library, collection, loser, direction)
        allowed &= {failed.found[n].query for n in failed.of_class(chosen.failure)}
    return allowed


def _win(evaluated: Collection, texts: dict[str, str], direction: str, one: Place, loser: Place) -> Win:
    if direction == "t2i":
        pairs = evaluated.judged(evaluated.judgements.name, "t2i").relevant
        truth = pairs.candidates[int(pairs.columns[pairs.indptr[pairs.queries.index(one.query)]])]
        return Win(texts[one.query], truth, one, loser, (one.first, loser.first))
    firsts = (texts[one.first], texts[loser.first])
    return Win(" / ".join(firsts), one.query, one, loser, firsts)


def _places(library: Library, collection: str, system: str, direction: str) -> list[Place]:
    """The rank of the relevant item of every query, computed once per system."""
    ready, evaluated = library.system(collection, system), library.loaded(collection).evaluated
    scores = ready.scores.T if direction == "t2i" else ready.scores
    pairs = evaluated.judged(evaluated.judgements.name, direction).relevant
    judged_queries = [key for row, key in enumerate(pairs.queries) if pairs.indptr[row + 1] > pairs.indptr[row]]
    return library.jobs.value(
        ("places", collection, system, direction),
        f"ranking with {system}",
        lambda job: placed(scores, evaluated, direction, judged_queries, job),
        patience=NOTICED,
    )
