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

from limner.annotate.form import StudyForm
from limner.annotate.form_files import read_form
from limner.annotate.store import Store
from limner.annotate.store.studies import Question, add_questions, add_study, studies, study_answers, study_named
from limner.annotate.store.studies import study_progress as progress_of
from limner.annotate.study_results import ResultTable, StudyResults, ends, percent, percents
from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.explain.failure_classes import ALTERNATIVE, CLASSES, Rule, rules
from limner.explain.failures import Failure
from limner.language.word_overlap import content_words
from limner.stats import Interval, mean_interval

STUDY = "failures"
"""Name of the form, and default name of a study."""
COMMON = 2
"""Minimum number of words that a query shares with its image's other captions; the paper excludes "very few"."""


@dataclass(frozen=True)
class FailureAnswer:
    """One person's answer about one failure: the classes that disagree, and a rating from 1 to 10."""

    query: str
    returned: str
    classes: frozenset[str]
    rating: int
    annotator: str


def add_failures(
    store: Store,
    failures: Iterable[Failure],
    *,
    study: str = STUDY,
    people: int = 1,
    form: StudyForm | None = None,
) -> int:
    """Adds failures to judge; queries that the study has already are left out. Returns the number of new failures.

    Args:
        store: The store.
        failures: The failures.
        study: Name of the study.
        people: Number of people who judge each failure.
        form: The form "failures" in other words.
    """
    add_study(store, study, form or read_form(STUDY))
    new = [
        Question(
            {"text": each.text, "returned": each.returned, "truth": each.truth},
            {"query": each.query, "by_text": each.by_text},
        )
        for each in failures
    ]
    return add_questions(store, study, new, people=people)


def failure_answers(store: Store, *, study: str | None = None) -> list[FailureAnswer]:
    """All answers of a study of failures, or of all such studies, in order."""
    names = [each.name for each in studies(store).values() if each.form.results == "failures"]
    return [
        FailureAnswer(
            each.question.hidden["query"], each.question.shown["returned"], frozenset(_marked(each.answer)),
            int(str(each.answer["rating"])), each.annotator,
        )
        for each in study_answers(store, study)
        if each.question.study in names
    ]  # fmt: skip


def _marked(answer: Mapping[str, object]) -> list[str]:
    marked = answer["classes"]
    return [str(name) for name in marked] if isinstance(marked, list) else []


def with_keywords(failures: Sequence[Failure], collection: Collection, *, min_common: int = COMMON) -> list[Failure]:
    """The failures whose query shares enough words with the other captions of its own image.

    The paper leaves out the others: if the captions of the relevant image do not mention what the query asks for, the
    data is at fault and not the system. Words are stemmed, without stop words.

    Args:
        failures: The failures.
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
    return [f for f in failures if common_words(f, captions) >= min_common]


def _captions(collection: Collection) -> dict[str, list[tuple[str, str]]]:
    """The captions of every image, with id and words."""
    captions_by_id = dict(zip(collection.texts.ids, collection.texts.values, strict=True))
    by_image: dict[str, list[tuple[str, str]]] = {}
    for image, text, _ in collection.judgements.relevant:
        by_image.setdefault(image, []).append((text, captions_by_id.get(text, "")))
    return by_image


def common_words(failure: Failure, captions: Mapping[str, Sequence[tuple[str, str]]]) -> int:
    """How many words of a failure's text occur in the other captions of the relevant image."""
    query_words = set(content_words(failure.text))
    siblings = [text for key, text in captions.get(failure.truth, ()) if key != failure.query and text != failure.text]
    return len(query_words & {word for text in siblings for word in content_words(text)})


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
    study_named(store, study)
    return summed_up(failure_answers(store, study=study), study=study, n_asked=progress_of(store, study)["asked"])


def summed_up(answers: Sequence[FailureAnswer], *, study: str = STUDY, n_asked: int = 0) -> FailureStudy:
    """The same, for answers from any source."""
    labels = labelled(answers)
    rated = np.array([a.rating for a in answers], dtype=float)
    queries = np.unique([a.query for a in answers], return_inverse=True)[1] if answers else np.zeros(0)
    several = len(labels) > 1
    interval = mean_interval(rated, clusters=queries, bounds=(1, 10)) if several else None
    counted = Counter(int(rating) for rating in rated)
    disagreeing = Counter(len(each - {ALTERNATIVE}) for each in labels.values())
    return FailureStudy(
        study,
        labels,
        {name: _share([name in each for each in labels.values()]) for name in CLASSES},
        {rating: counted[rating] for rating in read_form(STUDY).part("rating").numbers},
        float(rated.mean()) if len(rated) else float("nan"),
        interval,
        {number: disagreeing[number] for number in range(max(disagreeing, default=0) + 1)},
        rules(labels.values()) if labels else (),
        len(answers),
        n_asked,
    )


def _share(has: Sequence[bool]) -> ClassShare:
    values = np.array(has, dtype=float)
    if not len(values):
        return ClassShare(0, float("nan"), None)
    interval = mean_interval(values, bounds=(0, 1)) if len(values) > 1 else None
    return ClassShare(int(values.sum()), float(values.mean()), interval)


def labelled(answers: Iterable[FailureAnswer]) -> dict[str, frozenset[str]]:
    """The classes of each failure, by query: those marked by at least half of the people who judged it.

    If more than half call it a successful alternative, it is one. If half do and half mark faults, the faults count.
    """
    by_query: dict[str, list[frozenset[str]]] = {}
    for answer in answers:
        by_query.setdefault(answer.query, []).append(answer.classes)
    return {query: _majority(marked) for query, marked in by_query.items()}


def _majority(marked: Sequence[frozenset[str]]) -> frozenset[str]:
    if 2 * sum(ALTERNATIVE in each for each in marked) > len(marked):
        return frozenset({ALTERNATIVE})
    counts = Counter(name for each in marked for name in each if name != ALTERNATIVE)
    return frozenset(name for name, count in counts.items() if 2 * count >= len(marked))


# --- as tables --------------------------------------------------------------------------------------------------


def study_results(store: Store, name: str, *, samples: int = 0, measures: Sequence[str] = ()) -> StudyResults:
    """The results of a study as tables; nothing is drawn, and no measure is compared."""
    summary, question = results(store, study=name), study_named(store, name).form.question
    total = max(1, len(summary.labels))
    shares = [
        (label, f"{each.failures:,}", percent(each.share), percents(each.interval))
        for label, each in summary.shares.items()
    ]
    numbers = [(str(n), f"{failures:,}", percent(failures / total)) for n, failures in summary.numbers.items()]
    ratings = [(str(rating), f"{answers:,}") for rating, answers in summary.ratings.items()]
    interval = summary.rating_interval
    mean = f"mean rating {summary.mean_rating:.2f}" if summary.answers else "no ratings yet"
    mean += f" ({interval.low:.2f} to {interval.high:.2f})" if interval else ""
    tables = [
        ResultTable("Share of failures with each class", ("class", "failures", "share", "95% interval"), shares),
        ResultTable("Classes that disagree per failure", ("classes that disagree", "failures", "share"), numbers),
        ResultTable("Ratings", ("rating", "answers"), ratings),
    ]
    notes = [mean, *(f"rule: {rule}" for rule in summary.rules)]
    return StudyResults(name, question, summary.answers, summary.asked, tables, notes, _data(summary))


def _data(summary: FailureStudy) -> dict[str, object]:
    shares = {
        name: {"failures": each.failures, "share": each.share, "interval": ends(each.interval)}
        for name, each in summary.shares.items()
    }
    return {
        "study": summary.study, "answers": summary.answers, "asked": summary.asked, "failures": len(summary.labels),
        "classes": shares, "ratings": dict(summary.ratings), "mean_rating": summary.mean_rating,
        "rating_interval": ends(summary.rating_interval), "numbers": dict(summary.numbers),
        "rules": [vars(rule) for rule in summary.rules],
        "labels": {query: sorted(names) for query, names in summary.labels.items()},
    }  # fmt: skip
