"""The map on the page: projected once per system, streamed, and a selected region sent to labelling."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.responses import Response, StreamingResponse

from limner.annotate.pool import fill, merged, proposed, waiting
from limner.annotate.store.contents import DEPTH, proposals
from limner.annotate.store.tasks import add_tasks
from limner.annotate.tasks import make_tasks
from limner.core.errors import LimnerError, UnknownName, count
from limner.core.ranking import Ranking
from limner.web.admin import begin
from limner.web.failures import DIRECTIONS, with_classes
from limner.web.jobs import NOTICED, Job
from limner.web.judging import judged_collection, whole_number
from limner.web.library import Library
from limner.web.search_request import HELD_OUT
from limner.web.site import Ask, page, query

if TYPE_CHECKING:
    from limner.explain.embedding_map import EmbeddingMap

PARTS = {"map.js": "text/javascript", "map.css": "text/css"}
MOST_SENT = 500
"""Items of a region that are sent to labelling."""


def map_page(ask: Ask) -> Response:
    """The page of the map; its points are loaded separately."""
    library = ask.site.library
    collection, system = library.known_collection(ask.get("c")), library.known_system(ask.get("s") or library.names[0])
    drawn_map = map_of(library, collection, system)
    may = ask.visitor.may("admin") and judged_collection(ask) == collection
    return page(
        ask, "map.html", found=drawn_map, collection=collection, system=system, collections=library.collections,
        systems=library.names, points=f"/map/points?{query(c=collection, s=system)}", may=may,
        item=f"/item?{query(c=collection, s=system, split=HELD_OUT)}",
        image=f"/image?{query(c=collection, size='thumb')}&id=",
        by_captions="objects" not in library.loaded(collection).evaluated.images.fields,
    )  # fmt: skip


def map_points(ask: Ask) -> Response:
    """The points as lines of JSON, a thousand at a time."""
    library = ask.site.library
    drawn_map = map_of(
        library, library.known_collection(ask.get("c")), library.known_system(ask.get("s") or library.names[0])
    )
    return StreamingResponse(drawn_map.lines(), media_type="application/x-ndjson")


def map_part(ask: Ask) -> Response:
    """The script and the style of the map, which files of `limner explain map` contain."""
    name = ask.request.path_params["part"]
    if name not in PARTS:
        raise UnknownName("part of the map", name[:40], PARTS)
    text = files("limner.explain").joinpath(name).read_text(encoding="utf-8")
    return Response(text, media_type=PARTS[name], headers={"Cache-Control": "no-cache"})


def map_of(library: Library, collection: str, system: str) -> EmbeddingMap:
    """The map of a system on the searched part; computed once.

    Raises:
        limner.web.jobs.Pending: While it is being computed.
    """
    ready = library.system(collection, system)
    failed = {each: with_classes(library, collection, system, each) for each in DIRECTIONS}

    def work(job: Job) -> EmbeddingMap:
        from limner.explain.embedding_map import class_of, embedding_map

        classes = {
            name: {each.query: class_of(failures.labels.get(each.query)) for each in failures.found}
            for name, failures in failed.items()
        }
        return embedding_map(ready.scores, ready.collection, classes=classes, progress=job)

    return library.jobs.value(
        ("map", collection, system), f"projecting the vectors of {system} onto two dimensions", work, patience=NOTICED
    )


def label_region(ask: Ask) -> Response:
    """Creates tasks from a system's answers to the images and texts of a region."""
    name, system = judged_collection(ask), ask.site.library.known_system(ask.field("s"))
    chosen = list(dict.fromkeys(ask.field("items").replace("\r", "").split("\n")))
    if not all(each[:1] in ("i", "t") and each[1:] for each in chosen):
        raise LimnerError("nothing is selected: drag over a region of the map first")
    if len(chosen) > MOST_SENT:
        raise LimnerError(f"{len(chosen):,} images and texts: at most {MOST_SENT} are sent to labelling at once")
    depth = whole_number(ask.field("depth") or "3", "depth", high=25)
    people = whole_number(ask.field("people") or "2", "people", high=20)
    description = f"making tasks of {len(chosen):,} images and texts of {name}"
    return begin(ask, description, lambda job: _tasks(ask, job, name, system, chosen, depth, people))


def _tasks(ask: Ask, job: Job, name: str, system: str, chosen: list[str], depth: int, people: int) -> str:
    """Pools the first answers to these queries, and creates tasks for pairs without one."""
    site, store = ask.site, ask.site.store
    loaded = site.library.loaded(name, patience=None)
    lists = _lists(site.library, name, system, chosen)
    site.library.record(name, store, job)
    fill(store, {system: lists}, depth=depth)
    proposed_pairs = merged(proposed({system: lists}, depth=depth), depth=depth)
    pairs = [pair for pair in waiting(store) if pair in proposed_pairs]
    proposed_ids = {(p.image, p.caption) for p in proposals(store)}
    tasks = add_tasks(store, make_tasks(pairs, loaded.evaluated.judgements, avoid=proposed_ids), replication=people)
    region = count(len(proposed_pairs), "pair")
    return f"{region} of the region, {len(pairs):,} without a task; {count(len(tasks), 'task')} created"


def _lists(library: Library, name: str, system: str, chosen: list[str]) -> dict[str, Ranking]:
    """The system's answers to the images and texts of a region, by direction."""
    scores = library.system(name, system, patience=None).scores
    rankings = {}
    for mark, direction, side_scores in (("i", "i2t", scores), ("t", "t2i", scores.T)):
        ids = [each[1:] for each in chosen if each[0] == mark]
        unknown = [key for key in ids if key not in side_scores.queries]
        if unknown:
            raise LimnerError(f"{unknown[0][:80]!r} is not on the map of {name}: open the map again")
        if ids:
            rankings[direction] = side_scores.restrict(queries=ids).top(min(DEPTH, len(side_scores.candidates)))
    return rankings
