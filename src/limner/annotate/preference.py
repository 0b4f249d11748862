"""Preference studies: rankings with known errors, or systems, are shown side by side, and people choose one.

The study of Chun et al. (2022, appendix D.1): 40 captions with five to eight matching images, five rankings of each
with known errors, every pair of them shown side by side to eight people; `limner.annotate.preference_results` counts.

The paper's counts are `limner.papers.published_tables.table("eccv-d1")`. The scores of its rows A to E are 10.66, 4.89,
70.85, 13.15 and 0.44, which are the values of the paper's text with different labels (A 70.85, B 13.15, C 10.66, D
4.89, E 0.44). The totals show which row is ranking C: with five right answers C counts as E, so every pair with C lacks
24 votes of 320, every other pair with E has 24 more, and 24 are E against E. That is row D, with 13.15. So according to
the counts people prefer C (13.15) to B, contrary to the text.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from limner.annotate.form import StudyForm
from limner.annotate.form_files import read_form
from limner.annotate.store import Store
from limner.annotate.store.contents import DIRECTIONS
from limner.annotate.store.studies import Question, add_questions, questions, studies, study_answers
from limner.annotate.store.studies import add_study as add_form
from limner.core.errors import LimnerError, UnknownName
from limner.core.judgements import Judgements
from limner.core.ranking import Ranking
from limner.stats.inputs import Vector

FAULTS = {
    "A": "only the first is wrong",
    "B": "only the first is right",
    "C": "the first five are wrong",
    "D": "only the fifth is right",
    "E": "all are wrong",
}
"""The five rankings of the paper's study."""
STUDY = "preference"
"""Name of the form, and default name of a study."""
QUERIES, LEAST, MOST, PEOPLE = 40, 5, 8, 8
"""The paper's study: number of queries, right answers per query, people who compare each pair of rankings."""


@dataclass(frozen=True)
class Rivals:
    """Two rankings for one query; their names are stored but must not be shown.

    Args:
        query: Id of the query: a caption ("t2i") or image ("i2t").
        left: Name of the ranking on the left.
        right: Name of the ranking on the right.
        left_items: Ids of the ranking on the left, best first.
        right_items: Ids of the ranking on the right, best first.
        direction: "t2i" or "i2t".
    """

    query: str
    left: str
    right: str
    left_items: tuple[str, ...]
    right_items: tuple[str, ...]
    direction: str = "t2i"


@dataclass(frozen=True)
class Vote:
    """One preference: which of two rankings was preferred for a query, or neither ("tie")."""

    study: str
    query: str
    left: str
    right: str
    choice: str
    annotator: str
    added: int


@dataclass(frozen=True)
class PreferenceStudy:
    """The comparisons of a study, and the right answers of its queries.

    Args:
        rivals: The comparisons.
        positives: The right answers of each query, so that measures of the shown lists can be computed.
        direction: "t2i" or "i2t".
        ties: Whether people may say that neither is better. The paper's study is binary.
    """

    rivals: tuple[Rivals, ...]
    positives: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    direction: str = "t2i"
    ties: bool = False

    @property
    def queries(self) -> tuple[str, ...]:
        """The queries of the study, in order."""
        return tuple(dict.fromkeys(each.query for each in self.rivals))


def counted(
    votes: Iterable[Vote],
    names: Sequence[str] | None = None,
    *,
    identical: Mapping[tuple[str, str], str] | None = None,
) -> tuple[tuple[str, ...], Vector]:
    """How often each ranking (row) was preferred to each other (column); a tie counts half for both.

    Args:
        votes: The votes.
        names: Order of the rankings; all that occur, sorted, by default.
        identical: (query, ranking) -> the ranking it counts as, if both show the same list for that query.
    """
    merged = identical or {}
    listed = [(merged.get((v.query, v.left), v.left), merged.get((v.query, v.right), v.right), v) for v in votes]
    rankings = tuple(names) if names is not None else tuple(sorted({n for one, two, _ in listed for n in (one, two)}))
    row = {name: number for number, name in enumerate(rankings)}
    counts = np.zeros((len(rankings), len(rankings)))
    for one, two, vote in listed:
        share = {"left": 1.0, "right": 0.0, "tie": 0.5}[vote.choice]
        counts[row[one], row[two]] += share
        counts[row[two], row[one]] += 1 - share
    return rankings, counts


# --- rankings with known errors ---------------------------------------------------------------------------------


def study(
    positives: Sequence[str], negatives: Sequence[str], query: str, *, length: int | None = None, direction: str = "t2i"
) -> list[Rivals]:
    """The ten comparisons of the paper's study for one query: rankings A to E, each with its known error.

    With five ranks, rankings C and E are identical; the paper still asks all ten comparisons, and counts C as E there.

    Args:
        positives: Right answers, at least five.
        negatives: Wrong answers, at least as many as are shown.
        query: The query's id.
        length: Number of ranks shown; the number of positives by default.
        direction: "t2i" or "i2t".
    """
    size = len(positives) if length is None else length
    if not LEAST <= size <= min(len(positives), len(negatives)):
        raise LimnerError(
            f"{size} places of {len(positives)} right and {len(negatives)} wrong answers: expected {LEAST} places or "
            "more, and at least as many right and wrong answers"
        )
    places = {
        "A": [place != 0 for place in range(size)],
        "B": [place == 0 for place in range(size)],
        "C": [place >= 5 for place in range(size)],
        "D": [place == 4 for place in range(size)],
        "E": [False] * size,
    }
    lists = {name: _mixed(right, positives, negatives) for name, right in places.items()}
    return [Rivals(query, one, two, lists[one], lists[two], direction) for one, two in combinations(lists, 2)]


def _mixed(right: Sequence[bool], positives: Sequence[str], negatives: Sequence[str]) -> tuple[str, ...]:
    good, bad = iter(positives), iter(negatives)
    return tuple(next(good) if each else next(bad) for each in right)


def study_of_rankings(
    judgements: Judgements,
    *,
    queries: int = QUERIES,
    min_relevant: int = LEAST,
    max_relevant: int = MOST,
    direction: str = "t2i",
    ties: bool = False,
    seed: int = 0,
) -> PreferenceStudy:
    """The paper's study: random queries with five to eight right answers, and rankings A to E of each.

    Wrong answers are drawn at random from the candidates that are not judged relevant; the paper does not say how it
    chose them.

    Args:
        judgements: Query -> candidate, complete enough that nearly all right answers are known.
        queries: Number of queries.
        min_relevant: Minimum number of right answers of a query; 5 or more, since ranking D needs a fifth place.
        max_relevant: Maximum number of right answers of a query.
        direction: "t2i" (caption queries) or "i2t" (image queries).
        ties: Whether people may say that neither is better.
        seed: Seed of the random queries and lists.
    """
    if not LEAST <= min_relevant <= max_relevant:
        raise LimnerError(
            f"{min_relevant} to {max_relevant} right answers: expected {LEAST} or more, the smaller number first"
        )
    if queries < 1:
        raise LimnerError(f"{queries} queries: expected 1 or more")
    draw = random.Random(seed)
    counts = zip(judgements.queries, judgements.counts.tolist(), strict=True)
    eligible = [query for query, count in counts if min_relevant <= count <= max_relevant]
    if len(eligible) < queries:
        raise LimnerError(
            f"{len(eligible):,} queries of {judgements.name!r} have {min_relevant} to {max_relevant} right answers, "
            f"{queries:,} are wanted: ask for fewer queries, or use judgements that know more right answers"
        )
    right = _right(judgements, draw.sample(eligible, queries))
    rivals = [r for query, good in right.items() for r in _comparisons_of(query, good, judgements, direction, draw)]
    return PreferenceStudy(tuple(rivals), right, direction, ties)


def _right(judgements: Judgements, queries: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The right answers of some queries."""
    return {query: tuple(judgements.relevant_to(query)) for query in queries}


def _comparisons_of(
    query: str, positives: Sequence[str], judgements: Judgements, direction: str, draw: random.Random
) -> list[Rivals]:
    positive_set = set(positives)
    drawn = draw.sample(list(judgements.candidates), min(len(judgements.candidates), 2 * len(positive_set)))
    return study(
        draw.sample(positives, len(positives)), [c for c in drawn if c not in positive_set], query, direction=direction
    )


# --- systems ----------------------------------------------------------------------------------------------------


def study_of_systems(
    lists: Mapping[str, Ranking],
    *,
    judgements: Judgements | None = None,
    queries: int = QUERIES,
    length: int = LEAST,
    direction: str = "t2i",
    ties: bool = True,
    seed: int = 0,
) -> PreferenceStudy:
    """The top ranks of every pair of systems side by side, for queries where they differ.

    Args:
        lists: Each system's ranking, query -> candidate, over the same queries.
        judgements: Query -> candidate; only needed to compare measures with the votes.
        queries: Number of random queries.
        length: Number of ranks shown.
        direction: "t2i" or "i2t".
        ties: Whether people may say that neither is better.
        seed: Seed of the random queries.
    """
    if len(lists) < 2:
        raise LimnerError(f"{len(lists)} systems: a study needs at least two")
    if length < 1 or queries < 1:
        raise LimnerError(f"{queries} queries, {length} places: expected 1 or more of both")
    common = [q for q in next(iter(lists.values())).queries if all(q in r for r in lists.values())]
    if not common:
        raise LimnerError("the systems have no query in common: expected lists of the same queries")
    drawn = random.Random(seed).sample(common, min(queries, len(common)))
    top_lists = {name: {q: tuple(ranking[q][:length]) for q in drawn} for name, ranking in lists.items()}
    rivals = tuple(
        Rivals(q, one, two, top_lists[one][q], top_lists[two][q], direction)
        for q in drawn
        for one, two in combinations(top_lists, 2)
        if top_lists[one][q] != top_lists[two][q]
    )
    if not rivals:
        raise LimnerError("all systems show the same lists: there is nothing to compare")
    return PreferenceStudy(rivals, {} if judgements is None else _right(judgements, drawn), direction, ties)


# --- into the store ---------------------------------------------------------------------------------------------


def add_study(
    store: Store,
    study: PreferenceStudy,
    *,
    name: str = STUDY,
    people: int = 1,
    seed: int = 0,
    form: StudyForm | None = None,
) -> int:
    """Adds a study to a store that contains its images and captions. Returns the number of comparisons.

    Args:
        store: The store.
        study: The study.
        name: Name of the study; an existing name is refused.
        people: Number of people who vote on each comparison.
        seed: Seed that decides which ranking is shown on the left.
        form: The form "preference" in other words.
    """
    if not name or name in studies(store):
        raise LimnerError(f"study {name!r}: expected a name that is not used by another study of the store")
    positives = {query: list(good) for query, good in study.positives.items()}
    form = form or read_form(STUDY)
    form = form if study.ties else form.without_option("choice", "tie")
    add_form(store, name, form, {"direction": study.direction, "positives": positives})
    return add_comparisons(store, study.rivals, study=name, people=people, seed=seed)


def add_comparisons(
    store: Store, rivals: Iterable[Rivals], *, study: str = STUDY, people: int = 1, seed: int = 0
) -> int:
    """Adds comparisons to a study, with left and right randomised. Returns the number of added comparisons."""
    if study not in studies(store):
        add_form(store, study, read_form(STUDY))
    draw = random.Random(seed)
    new = []
    for each in rivals:
        if each.direction not in DIRECTIONS:
            raise UnknownName("direction", each.direction, DIRECTIONS)
        if each.left == each.right:
            raise LimnerError(f"ranking {each.left!r} is compared with itself: expected two rankings")
        sides = [(each.left, each.left_items), (each.right, each.right_items)]
        (left, left_items), (right, right_items) = sides if draw.random() < 0.5 else sides[::-1]
        content = {"query": each.query, "left": left_items, "right": right_items, "direction": each.direction}
        new.append(Question(content, {"left": left, "right": right}))
    return add_questions(store, study, new, people=people)


def comparisons(store: Store, *, study: str = STUDY) -> dict[int, Rivals]:
    """All comparisons of a study by id, with left and right as shown, and the names of the rankings."""
    return {each.id: _rivals(each) for each in questions(store, study)}


def _rivals(of: Question) -> Rivals:
    left, right = (tuple(of.shown[side]) for side in ("left", "right"))
    return Rivals(of.shown["query"], of.hidden["left"], of.hidden["right"], left, right, of.shown["direction"])


def votes(store: Store, *, study: str = STUDY) -> list[Vote]:
    """All votes of a study, in order."""
    return [
        Vote(study, rivals.query, rivals.left, rivals.right, str(each.answer["choice"]), each.annotator, each.added)
        for each in study_answers(store, study)
        for rivals in (_rivals(each.question),)
    ]
