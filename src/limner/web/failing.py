"""Failures for the page: wrong first answers of a system by class, with the objects of both images drawn on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from limner.core.errors import LimnerError, UnknownName
from limner.systems.opening import OpenSystem
from limner.web.jobs import Job
from limner.web.library import Library, Loaded
from limner.web.pictures import size_of

if TYPE_CHECKING:
    from limner.explain.agreement import ConceptAgreement
    from limner.explain.failures import Explanations, Failure

DIRECTIONS = ("t2i", "i2t")


@dataclass(frozen=True)
class Box:
    """A box around an object, in pixels of the picture as the collection knows it."""

    name: str
    x: float
    y: float
    width: float
    height: float
    common: bool


@dataclass(frozen=True)
class FailurePanel:
    """A picture and what is drawn on it."""

    image: str
    width: float
    height: float
    boxes: Sequence[Box]


@dataclass(frozen=True)
class Story:
    """One failure, ready to be shown."""

    query: str
    text: str
    by_text: bool
    classes: tuple[str, ...]
    truth: FailurePanel
    returned: FailurePanel
    words: Sequence[str]


@dataclass(frozen=True, eq=False)
class ExplainedFailures:
    """All failures of a system in one direction, explained if the collection has objects."""

    found: Sequence[Failure]
    labels: Mapping[str, frozenset[str]]
    explained: Explanations | None
    queries: int

    @property
    def rates(self) -> dict[str, int]:
        """How many failures there are of each class."""
        if self.explained is None:
            return {}
        from limner.explain.rules import rates

        return {name: count for name, (count, _) in rates(self.labels).items()}

    def of_class(self, name: str) -> list[int]:
        """Numbers of the failures of a class; all of them without a name."""
        from limner.explain.labels import CLASSES
        from limner.explain.rules import NONE

        if name and name not in (*CLASSES, NONE):
            raise UnknownName("class of failure", name[:80], (*CLASSES, NONE))
        named = [self.labels.get(failure.query) or frozenset({NONE}) for failure in self.found]
        return [number for number, classes in enumerate(named) if not name or name in classes]

    def number(self, query: str) -> int:
        """The number of a query's failure."""
        found = next((n for n, failure in enumerate(self.found) if failure.query == query), None)
        if found is None:
            raise LimnerError(f"{query[:80]!r} is no query that failed: its first answer is right, or there is none")
        return found


def failures_of(library: Library, collection: str, system: str, direction: str) -> ExplainedFailures:
    """Failures of a system; made once.

    Raises:
        limner.web.jobs.Pending: While they are being explained.
    """
    if direction not in DIRECTIONS:
        raise LimnerError(f"direction {direction[:20]!r}: expected {' or '.join(DIRECTIONS)}")
    ready, loaded = library.system(collection, system), library.loaded(collection)
    found: ExplainedFailures = library.jobs.value(
        ("failures", collection, system, direction),
        f"explaining the failures of {system}",
        lambda job: _explained(ready, loaded, direction, job),
        patience=3.0,
    )
    return found


def _explained(ready: OpenSystem, loaded: Loaded, direction: str, job: Job) -> ExplainedFailures:
    from limner.explain.failures import explain, failures

    held = loaded.held
    scores = ready.scores.T if direction == "t2i" else ready.scores
    found = failures(scores, held, direction=direction, judgements=held.judgements.name)
    queries = len(held.texts if direction == "t2i" else held.images)
    if "objects" not in held.images.fields:
        return ExplainedFailures(found, {}, None, queries)
    from limner.explain.labels import ClaimReader, label_all, setting_words
    from limner.language.wordnet import WordNet

    wordnet = WordNet.load()
    done = explain(found, held, wordnet=wordnet)
    reader = ClaimReader(wordnet, setting_words(loaded.whole, wordnet))
    return ExplainedFailures(found, label_all(done.failures, done.concepts, reader), done, queries)


def story(failures: ExplainedFailures, number: int, loaded: Loaded) -> Story:
    """One failure with its pictures, boxes and words."""
    from limner.explain.failures import told
    from limner.explain.rules import NONE

    failure = failures.found[number]
    classes = tuple(sorted(failures.labels.get(failure.query) or {NONE})) if failures.explained else ()
    if failures.explained is None:
        truth, returned = (_panel(image, loaded, ()) for image in (failure.truth, failure.returned))
        return Story(failure.query, failure.text, failure.by_text, classes, truth, returned, ())
    agreement: ConceptAgreement = failures.explained.agreements[number]
    truth, returned = (
        _panel(image, loaded, _boxes(failures.explained, image, agreement))
        for image in (failure.truth, failure.returned)
    )
    words = told(failure, agreement).split("\n")[2:]
    return Story(failure.query, failure.text, failure.by_text, classes, truth, returned, words)


def _boxes(done: Explanations, image: str, agreement: ConceptAgreement) -> list[tuple[str, tuple[float, ...], bool]]:
    common = frozenset(agreement.common)
    return [
        (thing.concept.partition(".")[0].replace("_", " "), thing.box, thing.concept in common)
        for thing in done.concepts[image].things
        if thing.box is not None and thing.area
    ]


def _panel(image: str, loaded: Loaded, boxes: Sequence[tuple[str, tuple[float, ...], bool]]) -> FailurePanel:
    width, height = size_of(loaded.held, image)
    drawn = [_within(name, box, common, width, height) for name, box, common in boxes]
    return FailurePanel(image, width, height, drawn)


def _within(name: str, box: tuple[float, ...], common: bool, width: float, height: float) -> Box:
    left, right = (round(min(max(0.0, side), width), 1) for side in (box[0], box[2]))
    top, bottom = (round(min(max(0.0, side), height), 1) for side in (box[1], box[3]))
    return Box(name, left, top, right - left, bottom - top, common)
