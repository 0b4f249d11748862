"""Failures: queries whose first answer is wrong, the rank of the relevant one, the reasons, and the pages of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from starlette.responses import Response

from limner.core.collection import Collection
from limner.core.errors import LimnerError, UnknownName
from limner.evaluation.reports.page.gallery import size_of
from limner.systems.system_spec import OpenSystem
from limner.web.jobs import NOTICED, Job, Pending
from limner.web.library import Library
from limner.web.ready_system import Loaded
from limner.web.search_request import HELD_OUT
from limner.web.site import Ask, page, query

if TYPE_CHECKING:
    from limner.explain.concept_agreement import ConceptAgreement
    from limner.explain.failures import Explanations, Failure
    from limner.scores import Scores

DIRECTIONS = ("t2i", "i2t")
ORDERS = {"far": "truth farthest away", "near": "truth nearest", "query": "order of the queries"}
_AT_ONCE = 256  # queries whose scores are in memory at once


@dataclass(frozen=True)
class Box:
    """A box around an object, in pixels of the original image."""

    name: str
    x: float
    y: float
    width: float
    height: float
    common: bool


@dataclass(frozen=True)
class FailurePanel:
    """An image with its boxes; the size is left out in a list."""

    image: str
    width: float = 0.0
    height: float = 0.0
    boxes: Sequence[Box] = ()


@dataclass(frozen=True)
class Place:
    """The rank of the relevant candidate of a query."""

    query: str
    rank: int
    truth: float
    first: str
    returned: float


@dataclass(frozen=True)
class Story:
    """One failure, ready for display.

    Args:
        query: Id of the query.
        text: The query caption, or the caption that was returned.
        by_text: Whether the text is the query.
        classes: Failure classes, once they are known.
        truth: The relevant image.
        returned: The returned image.
        distance: Rank of the relevant candidate, and both scores.
        words: The explanation, line by line.
        captions: Captions of the relevant and of the returned image.
    """

    query: str
    text: str
    by_text: bool
    classes: tuple[str, ...]
    truth: FailurePanel
    returned: FailurePanel
    distance: Place
    words: Sequence[str]
    captions: tuple[Sequence[str], Sequence[str]] = ((), ())


@dataclass(frozen=True, eq=False)
class ExplainedFailures:
    """All failures of a system in one direction.

    Args:
        found: The failures, in the order of the queries.
        distances: The rank of the relevant candidate of each.
        labels: Failure classes by query: from annotated objects, or from captions once they are read (`with_classes`).
        explained: All explanations, if objects are annotated; otherwise each failure is explained from the captions of
            both images when it is shown.
        queries: Total number of queries.
        candidates: Number of candidates per query.
    """

    found: Sequence[Failure]
    distances: Sequence[Place]
    labels: Mapping[str, frozenset[str]]
    explained: Explanations | None
    queries: int
    candidates: int

    @property
    def rates(self) -> dict[str, int]:
        """How many failures there are of each class; empty while no class is known."""
        if not self.labels:
            return {}
        counts = Counter(name for classes in self._named for name in classes)
        return {name: counts[name] for name in class_names(annotated=self.explained is not None)}

    def of_class(self, name: str) -> list[int]:
        """Indices of the failures of a class; all failures without a name."""
        names = class_names(annotated=self.explained is not None)
        if name and name not in names:
            raise UnknownName("class of failure", name[:80], names)
        return [number for number, classes in enumerate(self._named) if not name or name in classes]

    @property
    def _named(self) -> list[frozenset[str]]:
        from limner.explain.failure_classes import NONE

        return [self.labels.get(failure.query) or frozenset({NONE}) for failure in self.found]

    def listed(self, kind: str = "", words: str = "", order: str = "far") -> list[int]:
        """Indices of the failures to show.

        Args:
            kind: A failure class; all classes by default.
            words: Only captions that contain all of these words.
            order: "far": the worst rank of the relevant candidate first; "near"; or "query": in query order.
        """
        if order not in ORDERS:
            raise UnknownName("order", order[:20], ORDERS)
        terms = words.lower().split()
        chosen = [n for n in self.of_class(kind) if all(word in self.found[n].text.lower() for word in terms)]
        if order == "query":
            return chosen
        return sorted(chosen, key=lambda n: (-self.distances[n].rank if order == "far" else self.distances[n].rank, n))

    def number(self, query: str) -> int:
        """The index of a query's failure."""
        index = next((n for n, failure in enumerate(self.found) if failure.query == query), None)
        if index is None:
            raise LimnerError(
                f"{query[:80]!r} is not a failed query: its first answer is relevant, or it has no answer"
            )
        return index


def failures_of(library: Library, collection: str, system: str, direction: str) -> ExplainedFailures:
    """Failures of a system; computed once.

    Raises:
        limner.web.jobs.Pending: While they are being explained.
    """
    if direction not in DIRECTIONS:
        raise LimnerError(f"direction {direction[:20]!r}: expected {' or '.join(DIRECTIONS)}")
    ready, loaded = library.system(collection, system), library.loaded(collection)
    return library.jobs.value(
        ("failures", collection, system, direction),
        f"explaining the failures of {system}",
        lambda job: _explained(ready, loaded, direction, job),
        patience=NOTICED,
    )


def class_names(*, annotated: bool) -> tuple[str, ...]:
    """The classes of failures: of annotated objects, or of captions."""
    from limner.explain.failure_classes import ALTERNATIVE, CAPTION_CLASSES, CLASSES, NONE

    return (*CLASSES, NONE) if annotated else (*CAPTION_CLASSES, ALTERNATIVE)


def with_classes(
    library: Library, collection: str, system: str, direction: str, *, patience: float = 3.0
) -> ExplainedFailures:
    """Failures of a system with their classes; where objects are not annotated, from captions, which are read once.

    Raises:
        limner.web.jobs.Pending: While the captions are being read, after `patience` seconds.
    """
    failed, loaded = failures_of(library, collection, system, direction), library.loaded(collection)
    if failed.explained is not None or not failed.found:
        return failed

    def work(job: Job) -> ExplainedFailures:
        from limner.explain.embedding_map import classified

        predicted = classified(failed.found, loaded.evaluated, loaded.whole, progress=job)
        return replace(failed, labels={query: frozenset({name}) for query, name in predicted.items()})

    title = f"reading the captions of the failures of {system} for their classes"
    key = ("classes", collection, system, direction)
    with_labels: ExplainedFailures = library.jobs.value(key, title, work, patience=patience)
    return with_labels


def _explained(ready: OpenSystem, loaded: Loaded, direction: str, job: Job) -> ExplainedFailures:
    from limner.explain.failures import explain, failures

    evaluated = loaded.evaluated
    scores = ready.scores.T if direction == "t2i" else ready.scores
    failed = failures(scores, evaluated, direction=direction, judgements=evaluated.judgements.name)
    distances = placed(scores, evaluated, direction, [failure.query for failure in failed], job)
    sides = (evaluated.texts, evaluated.images) if direction == "t2i" else (evaluated.images, evaluated.texts)
    sizes = (len(sides[0]), len(sides[1]))
    from limner.language.wordnet import WordNet

    wordnet = WordNet.load()
    if "objects" not in evaluated.images.fields:
        return ExplainedFailures(failed, distances, {}, None, *sizes)
    from limner.explain.failure_classes import ClaimReader, label_all, setting_words

    done = explain(failed, evaluated, wordnet=wordnet)
    reader = ClaimReader(wordnet, setting_words(loaded.whole, wordnet))
    return ExplainedFailures(failed, distances, label_all(done.failures, done.concepts, reader), done, *sizes)


def placed(scores: Scores, evaluated: Collection, direction: str, queries: Sequence[str], job: Job) -> list[Place]:
    """Rank and score of the best relevant candidate of every query, and its first answer; ties in candidate order."""
    pairs = evaluated.judged(evaluated.judgements.name, direction).relevant
    columns = {key: column for column, key in enumerate(scores.candidates)}
    places = []
    for low in range(0, len(queries), _AT_ONCE):
        some = queries[low : low + _AT_ONCE]
        block = np.asarray(scores.restrict(queries=some).block(0, len(some)))
        for query_id, row in zip(some, block, strict=True):
            right = [columns[key] for key in pairs.relevant_to(query_id)]
            best = max(right, key=lambda column: (row[column], -column))
            rank = 1 + int((row > row[best]).sum()) + int((row[:best] == row[best]).sum())
            first = int(row.argmax())
            places.append(Place(query_id, rank, float(row[best]), scores.candidates[first], float(row[first])))
        job(low + len(some), len(queries))
    return places


def story(failures: ExplainedFailures, number: int, loaded: Loaded, *, brief: bool = False) -> Story:
    """One failure with its images, boxes and words.

    Args:
        failures: All failures.
        number: Index of the failure.
        loaded: The collection.
        brief: Whether to leave out the explanation, for a list.
    """
    from limner.explain.failure_classes import NONE

    failure = failures.found[number]
    classes = tuple(sorted(failures.labels.get(failure.query) or {NONE})) if failures.labels else ()
    panels = (FailurePanel(failure.truth), FailurePanel(failure.returned))
    brief_story = Story(failure.query, failure.text, failure.by_text, classes, *panels, failures.distances[number], ())
    return brief_story if brief else _full_story(brief_story, failures, number, loaded)


def _full_story(brief: Story, failures: ExplainedFailures, number: int, loaded: Loaded) -> Story:
    """A failure with boxes, captions and explanation: from objects, or from the captions of both images."""
    from limner.explain.failures import describe_failure, explain

    failure = failures.found[number]
    sides = (failure.truth, failure.returned)
    if failures.explained is None:
        part = loaded.evaluated.restrict(list(dict.fromkeys(sides)))
        done, agreement = explain([failure], part), None
        each = done.agreements[0]
    else:
        done = failures.explained
        each = agreement = done.agreements[number]
    panels = [_panel(i, loaded, () if agreement is None else _boxes(done, i, agreement)) for i in sides]
    lines = [line for line in describe_failure(failure, each, done.words).split("\n")[2:] if "undefined" not in line]
    captions = (_captions(loaded, failure.truth), _captions(loaded, failure.returned))
    return replace(brief, truth=panels[0], returned=panels[1], words=lines, captions=captions)


def _captions(loaded: Loaded, image: str) -> list[str]:
    """The captions of an image."""
    evaluated = loaded.evaluated
    captions = evaluated.judged(evaluated.judgements.name, "i2t").relevant_to(image)
    return [str(evaluated.texts.values[evaluated.texts.ids.index(key)]) for key in captions]


def _boxes(done: Explanations, image: str, agreement: ConceptAgreement) -> list[tuple[str, tuple[float, ...], bool]]:
    common = frozenset(agreement.common)
    return [
        (detected.concept.partition(".")[0].replace("_", " "), detected.box, detected.concept in common)
        for detected in done.concepts[image].things
        if detected.box is not None and detected.area
    ]


def _panel(image: str, loaded: Loaded, boxes: Sequence[tuple[str, tuple[float, ...], bool]]) -> FailurePanel:
    width, height = size_of(loaded.evaluated, image)
    drawn = [_clipped_box(name, box, common, width, height) for name, box, common in boxes]
    return FailurePanel(image, width, height, drawn)


def _clipped_box(name: str, box: tuple[float, ...], common: bool, width: float, height: float) -> Box:
    left, right = (round(min(max(0.0, side), width), 1) for side in (box[0], box[2]))
    top, bottom = (round(min(max(0.0, side), height), 1) for side in (box[1], box[3]))
    return Box(name, left, top, right - left, bottom - top, common)


STEP = 24
"""Number of failures per page."""


@dataclass(frozen=True)
class FailureList:
    """The settings of a failures page: system, filter and order."""

    collection: str
    system: str
    direction: str
    kind: str = ""
    words: str = ""
    order: str = "far"

    @classmethod
    def from_url(cls, ask: Ask) -> FailureList:
        """The list settings in a URL."""
        library = ask.site.library
        source = library.known_collection(ask.get("c")), ask.get("s") or library.names[0], ask.get("d") or "t2i"
        return cls(*source, ask.get("class"), ask.get("q")[:200], ask.get("order") or "far")

    def link(self, **more: int | str) -> str:
        """The query parameters of a link within this list."""
        parameters = {"c": self.collection, "s": self.system, "d": self.direction, "q": self.words, "class": self.kind}
        order = "" if self.order == "far" else self.order
        return query(**{**parameters, "order": order, **more})


def failures_page(ask: Ask) -> Response:
    """Failures of a system, the worst rank of the relevant item first."""
    library, listed = ask.site.library, FailureList.from_url(ask)
    failures, reading = _failures(library, listed)
    start = ask.number("start", 0)
    numbers = failures.listed(listed.kind, listed.words, listed.order)
    loaded = library.loaded(listed.collection)
    stories = [story(failures, n, loaded, brief=True) for n in numbers[start : start + STEP]]
    return page(
        ask, "failures.html", failures=failures, stories=stories, listed=listed, start=start, step=STEP,
        total=len(numbers), orders=ORDERS, collections=library.collections, systems=library.names, reading=reading,
    )  # fmt: skip


def _failures(library: Library, listed: FailureList) -> tuple[ExplainedFailures, Job | None]:
    """The failures with their classes; or, while captions are read and no class is asked for, without, and the job."""
    source = listed.collection, listed.system, listed.direction
    failures = failures_of(library, *source)
    try:
        return with_classes(library, *source, patience=NOTICED if listed.kind else 0.3), None
    except Pending as pending:
        if listed.kind:
            raise
        return failures, pending.job


def failure_page(ask: Ask) -> Response:
    """One failure, explained by boxes on the images and by text."""
    library, listed = ask.site.library, FailureList.from_url(ask)
    failures, _ = _failures(library, listed)
    number = failures.number(ask.get("query"))
    failure_story = story(failures, number, library.loaded(listed.collection))
    order = failures.listed(listed.kind, listed.words, listed.order)
    place = order.index(number) if number in order else 0
    earlier, further = (
        [failures.found[n].query for n in positions] for positions in (order[:place][-1:], order[place + 1 :][:1])
    )
    same_query = {"q": failure_story.text} if failure_story.by_text else {"image": failure_story.truth.image}
    return page(
        ask, "failure.html", story=failure_story, listed=listed, failures=failures, place=place + 1, total=len(order),
        again=query(c=listed.collection, s=listed.system, split=HELD_OUT, **same_query), earlier=earlier,
        further=further,
    )  # fmt: skip
