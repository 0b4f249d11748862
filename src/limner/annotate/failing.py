"""Human judgements of failures (Lymperaiou et al. 2022, section 4.2): what disagrees with the query, and a rating.

People see the query, its relevant image and the returned image, and mark what is wrong among object class, colour,
enumeration, action, size and details, or call the answer a successful alternative. Only what the query mentions counts.
They rate the answer from 1 to 10. The paper's results are its Table 2 (share of each class), figure 9 (ratings) and
figure 10 (classes per failure).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from limner.annotate.store import Store
from limner.annotate.store.failures import (
    RATINGS,
    STUDY,
    FailureAnswer,
    failure_answers,
    failure_progress,
    failure_studies,
)
from limner.core.collection import Collection
from limner.core.errors import LimnerError, UnknownName
from limner.explain.failure_classes import ALTERNATIVE, CLASSES
from limner.explain.failure_rules import Rule, rules
from limner.explain.failures import Failure
from limner.language.word_overlap import content_words
from limner.stats import Interval, mean_interval

CHOICES = {
    "object": "object class: another kind of thing",
    "colour": "object colour",
    "number": "object enumeration: too many or too few",
    "action": "action",
    "size": "size",
    "detail": "details",
    ALTERNATIVE: "nothing: a successful alternative",
}
"""Class -> label on the page."""
KEYS = {name: "x" if name == ALTERNATIVE else name[0] for name in CHOICES}
"""Class -> key on the page."""
QUESTION = "How similar in meaning are both images, given the query? 1 is not at all, 10 is the same."
COMMON = 2
"""Minimum number of words that a query shares with its image's other captions; the paper excludes "very few"."""


def with_keywords(found: Sequence[Failure], collection: Collection, *, min_common: int = COMMON) -> list[Failure]:
    """The failures whose query shares enough words with the other captions of its own image.

    The paper leaves out the others: if the captions of the relevant image do not mention what the query asks for, the
    data is at fault and not the system. Words are stemmed, without stop words.

    Args:
        found: The failures.
        collection: The collection with the captions of each image.
        min_common: Minimum number of common words; 0 keeps all.

    >>> import limner
    >>> world = limner.load("scenes", images=20)
    >>> one = Failure(world.texts.ids[0], world.texts.values[0], world.images.ids[0], world.images.ids[1])
    >>> len(with_keywords([one], world, min_common=1)), len(with_keywords([one], world, min_common=99))
    (1, 0)
    """
    if min_common < 0:
        raise LimnerError(f"{min_common} common words: expected 0 or more")
    captions = _captions(collection)
    return [f for f in found if common_words(f, captions) >= min_common]


def _captions(collection: Collection) -> dict[str, list[tuple[str, str]]]:
    """The captions of every image, with id and words."""
    said = dict(zip(collection.texts.ids, collection.texts.values, strict=True))
    found: dict[str, list[tuple[str, str]]] = {}
    for image, text, _ in collection.judgements.relevant:
        found.setdefault(image, []).append((text, said.get(text, "")))
    return found


def common_words(failure: Failure, captions: Mapping[str, Sequence[tuple[str, str]]]) -> int:
    """How many words of a failure's text occur in the other captions of the relevant image."""
    asked = set(content_words(failure.text))
    others = [text for key, text in captions.get(failure.truth, ()) if key != failure.query and text != failure.text]
    return len(asked & {word for text in others for word in content_words(text)})


# --- results of the answers -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClassShare:
    """How many failures have a class, their share, and its 95% interval; None if there are too few."""

    failures: int
    share: float
    interval: Interval | None


@dataclass(frozen=True)
class FailureStudy:
    """The results of a study of failures.

    Args:
        study: Its name.
        labels: The classes of each judged failure, by query: those that at least half of its judges marked.
        shares: Share of each class, over the judged failures (the paper's Table 2).
        ratings: How many answers gave each rating from 1 to 10 (figure 9).
        mean_rating: Their mean.
        rating_interval: Its 95% interval, with failures treated as independent.
        numbers: How many failures have 0, 1, 2, ... classes that disagree (figure 10).
        rules: Rules of the form: if one class disagrees, so does another.
        answers: How many answers there are.
        asked: Number of requested answers.
    """

    study: str
    labels: Mapping[str, frozenset[str]]
    shares: Mapping[str, ClassShare]
    ratings: Mapping[int, int]
    mean_rating: float
    rating_interval: Interval | None
    numbers: Mapping[int, int]
    rules: Sequence[Rule]
    answers: int
    asked: int


def results(store: Store, *, study: str = STUDY) -> FailureStudy:
    """Table 2 and figures 9 and 10 of the paper, computed from the answers so far."""
    if study not in failure_studies(store):
        raise UnknownName("study of failures", study, failure_studies(store))
    return summed_up(
        failure_answers(store, study=study), study=study, asked=failure_progress(store, study=study)["asked"]
    )


def summed_up(given: Sequence[FailureAnswer], *, study: str = STUDY, asked: int = 0) -> FailureStudy:
    """The same, for answers from any source."""
    labels = labelled(given)
    rated = np.array([a.rating for a in given], dtype=float)
    queries = np.unique([a.query for a in given], return_inverse=True)[1] if given else np.zeros(0)
    several = len(labels) > 1
    interval = mean_interval(rated, clusters=queries, bounds=(1, 10)) if several else None
    counted = Counter(int(rating) for rating in rated)
    disagreeing = Counter(len(each - {ALTERNATIVE}) for each in labels.values())
    return FailureStudy(
        study,
        labels,
        {name: _share([name in each for each in labels.values()]) for name in CLASSES},
        {rating: counted[rating] for rating in RATINGS},
        float(rated.mean()) if len(rated) else float("nan"),
        interval,
        {number: disagreeing[number] for number in range(max(disagreeing, default=0) + 1)},
        rules(labels.values()) if labels else (),
        len(given),
        asked,
    )


def _share(has: Sequence[bool]) -> ClassShare:
    values = np.array(has, dtype=float)
    if not len(values):
        return ClassShare(0, float("nan"), None)
    interval = mean_interval(values, bounds=(0, 1)) if len(values) > 1 else None
    return ClassShare(int(values.sum()), float(values.mean()), interval)


def labelled(given: Iterable[FailureAnswer]) -> dict[str, frozenset[str]]:
    """The classes of each failure, by query: those marked by at least half of the people who judged it.

    If more than half call it a successful alternative, it is one. If half do and half mark faults, the faults count.
    """
    by_query: dict[str, list[frozenset[str]]] = {}
    for answer in given:
        by_query.setdefault(answer.query, []).append(answer.classes)
    return {query: _majority(said) for query, said in by_query.items()}


def _majority(said: Sequence[frozenset[str]]) -> frozenset[str]:
    if 2 * sum(ALTERNATIVE in each for each in said) > len(said):
        return frozenset({ALTERNATIVE})
    counts = Counter(name for each in said for name in each if name != ALTERNATIVE)
    return frozenset(name for name, count in counts.items() if 2 * count >= len(said))
