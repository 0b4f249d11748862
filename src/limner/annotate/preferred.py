"""Results of a preference study: Bradley-Terry scores of the rankings, and which measure agrees with the votes.

A measure agrees with a vote if it gives the preferred list the higher value. Chun et al. (2022, section 4.1) compare
R@k and mAP@R with the scores of five rankings, and find that people's preferences agree with mAP@R.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from limner.annotate.preference import counted
from limner.annotate.store import Store
from limner.annotate.store.people import annotator_ids
from limner.annotate.store.votes import (
    CHOICES,
    STUDY,
    Rivals,
    Vote,
    add_votes,
    comparisons,
    studies,
    study_progress,
    study_setting,
    votes,
)
from limner.core.errors import LimnerError, UnknownName
from limner.core.files import replacing
from limner.core.judgements import Judgements
from limner.core.ranking import Ranking
from limner.core.spreadsheet import guarded_row, unguarded
from limner.datasets.text_files import table
from limner.evaluation.evaluate import evaluate
from limner.stats import Interval, Preference, bradley_terry, kendall_tau_b, mean_interval
from limner.stats.inputs import Vector

MEASURES = ("R@1", "R@5", "mAP@R")
COLUMNS = ("query", "left", "right", "choice", "annotator")


@dataclass(frozen=True)
class MeasureAgreement:
    """The agreement of a measure with the votes.

    Args:
        measure: Its name.
        values: Its mean over the queries, by ranking.
        tau: Kendall's tau-b of these means and the Bradley-Terry scores; NaN if either is missing or constant.
        decided: Number of votes on two lists that the measure can distinguish; votes for neither are left out.
        agreed: Share of these votes for the list with the higher value.
        interval: 95% interval of that share, with queries treated as independent; None if there are too few.
    """

    measure: str
    values: Mapping[str, float]
    tau: float
    decided: int
    agreed: float
    interval: Interval | None


@dataclass(frozen=True)
class Preferred:
    """The result of a study.

    Args:
        study: Its name.
        names: The rankings.
        counts: How often each ranking (row) was preferred to each other (column).
        scores: Bradley-Terry scores with intervals; None if they cannot be computed from the votes.
        measures: Measures of the same lists; empty if the right answers are unknown.
        votes: Number of votes given.
        asked: Number of requested votes.
        notes: Remarks on the results.
    """

    study: str
    names: tuple[str, ...]
    counts: Vector
    scores: Preference | None
    measures: tuple[MeasureAgreement, ...]
    votes: int
    asked: int
    notes: tuple[str, ...]


def preferences(
    store: Store, *, study: str = STUDY, measures: Sequence[str] = MEASURES, samples: int = 1000
) -> Preferred:
    """The results of a study so far.

    Args:
        store: The store.
        study: The study's name.
        measures: Measures to compare with the votes, if the right answers are known.
        samples: Bootstrap samples for the intervals of the scores.
    """
    if study not in studies(store):
        raise UnknownName("study", study, studies(store))
    asked, given, far = comparisons(store, study=study), votes(store, study=study), study_progress(store, study=study)
    shown = _lists(asked.values())
    same = same_lists(shown)
    known = sorted({name for name, _ in shown})
    names, counts = counted(given, known, same=same)
    by_query: dict[str, list[Vote]] = {}
    for vote in given:
        by_query.setdefault(vote.query, []).append(vote)
    clusters = [counted(some, known, same=same)[1] for some in by_query.values()]
    scores, notes = _scores(counts, names, samples, clusters)
    if same:
        notes.append(f"{len(same)} lists are identical to another ranking of the same query, and count as that one")
    found, more = _agreements(shown, given, scores, study_setting(store, study).get("positives") or {}, measures)
    return Preferred(study, names, counts, scores, found, far["votes"], far["asked"], (*notes, *more))


def _lists(asked: Iterable[Rivals]) -> dict[tuple[str, str], tuple[str, ...]]:
    """The list of each ranking for each query, by (ranking, query)."""
    sides = (
        (each.query, side) for each in asked for side in ((each.left, each.left_items), (each.right, each.right_items))
    )
    return {(name, query): items for query, (name, items) in sides}


def same_lists(shown: Mapping[tuple[str, str], tuple[str, ...]]) -> dict[tuple[str, str], str]:
    """(query, ranking) -> the last ranking by name with the same list: C counts as E if there are five right answers.

    >>> same_lists({("C", "q"): ("x",), ("E", "q"): ("x",), ("A", "q"): ("y",)})
    {('q', 'C'): 'E'}
    """
    last: dict[tuple[str, tuple[str, ...]], str] = {}
    for name, query in sorted(shown):
        last[query, shown[name, query]] = name
    pairs = (((query, name), last[query, items]) for (name, query), items in shown.items())
    return {key: counts_as for key, counts_as in pairs if key[1] != counts_as}


def _scores(
    counts: Vector, names: Sequence[str], samples: int, clusters: Sequence[Vector]
) -> tuple[Preference | None, list[str]]:
    """The scores, and a note if there are none; the votes on one query are not independent."""
    if not clusters:
        return None, ["there are no votes yet"]
    try:
        return bradley_terry(counts, names, clusters=np.array(clusters), samples=samples), []
    except LimnerError as error:
        return None, [str(error)]


# --- measures ---------------------------------------------------------------------------------------------------


def _agreements(
    shown: Mapping[tuple[str, str], tuple[str, ...]],
    given: Sequence[Vote],
    scores: Preference | None,
    positives: Mapping[str, Sequence[str]],
    measures: Sequence[str],
) -> tuple[tuple[MeasureAgreement, ...], list[str]]:
    if not any(positives.values()):
        return (), ["the right answers are unknown: no measure can be compared with the votes"]
    found, notes = [], []
    for measure in measures:
        try:
            values = _values(shown, positives, measure)
        except LimnerError as error:
            notes.append(f"{measure}: {error}")
            continue
        found.append(_agreement(measure, values, given, scores))
    return tuple(found), notes


def _values(
    shown: Mapping[tuple[str, str], tuple[str, ...]], positives: Mapping[str, Sequence[str]], measure: str
) -> dict[str, dict[str, float]]:
    """The measure of every list: ranking -> query -> value."""
    candidates = sorted(
        {i for items in shown.values() for i in items} | {i for good in positives.values() for i in good}
    )
    truth = Judgements.from_pairs(
        [(query, item) for query, good in positives.items() for item in good], queries=positives, candidates=candidates
    )
    values = {}
    for name in sorted({name for name, _ in shown}):
        lists = {query: items for (own, query), items in shown.items() if own == name}
        ranking = Ranking.from_lists(lists, candidates=candidates)
        found = evaluate(ranking, truth, measures=[measure], missing="skip").results[0]
        values[name] = dict(zip(found.queries, found.values.tolist(), strict=True))
    return values


def _agreement(
    measure: str, values: Mapping[str, Mapping[str, float]], given: Sequence[Vote], scores: Preference | None
) -> MeasureAgreement:
    means = {name: float(np.mean(list(of.values()))) if of else float("nan") for name, of in values.items()}
    told = [each for each in (_with(vote, values) for vote in given) if each is not None]
    agreed = np.array([yes for yes, _ in told], dtype=float)
    queries = np.unique([query for _, query in told], return_inverse=True)[1] if told else None
    interval = mean_interval(agreed, clusters=queries, bounds=(0, 1)) if len({q for _, q in told}) > 1 else None
    share = float(agreed.mean()) if told else float("nan")
    return MeasureAgreement(measure, means, _tau(means, scores), len(told), share, interval)


def _with(vote: Vote, values: Mapping[str, Mapping[str, float]]) -> tuple[bool, str] | None:
    """Whether the measure agrees with a vote; None if the measure or the vote is a tie."""
    left, right = (values[name].get(vote.query) for name in (vote.left, vote.right))
    if left is None or right is None or left == right or vote.choice == "tie":
        return None
    return (left > right) == (vote.choice == "left"), vote.query


def _tau(means: Mapping[str, float], scores: Preference | None) -> float:
    if scores is None:
        return float("nan")
    try:
        return kendall_tau_b(scores.scores, [means[name] for name in scores.names])
    except LimnerError:  # constant, or an unknown mean
        return float("nan")


# --- files ------------------------------------------------------------------------------------------------------


def write_votes(store: Store, path: str | Path, *, study: str = STUDY) -> int:
    """Writes the votes of a study as a csv: query, both rankings, choice, annotator. Returns the number of votes."""
    rows = [{name: asdict(vote)[name] for name in COLUMNS} for vote in votes(store, study=study)]
    with replacing(path) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        writer.writeheader()
        writer.writerows(guarded_row(row) for row in rows)
    return len(rows)


def read_votes(store: Store, path: str | Path, *, study: str = STUDY) -> int:
    """Adds votes from a csv (query, left, right, choice, annotator) to the store, all or none.

    `left` and `right` name the rankings in any order; `choice` is left, right or tie, as in the row. Votes
    that are already stored are skipped.

    Returns:
        The number of new votes.
    """
    source = Path(path)
    if not source.is_file():
        raise LimnerError(f"no file {source}: expected a csv with the columns {', '.join(COLUMNS)}")
    numbers = {(r.query, r.left, r.right): number for number, r in comparisons(store, study=study).items()}
    if not numbers:
        raise UnknownName("study", study, studies(store))
    rows = [
        _checked(at, {k: unguarded(v) for k, v in row.items()}, numbers) for at, row in table(source, delimiter=",")
    ]
    people = annotator_ids(store, (row[2] for row in rows))
    return add_votes(store, [(number, people[who], choice) for number, choice, who in rows], study=study)


def _checked(at: object, row: Mapping[str, str], numbers: Mapping[tuple[str, str, str], int]) -> tuple[int, str, str]:
    missing = [name for name in COLUMNS if not row.get(name)]
    if missing:
        raise LimnerError(f"{at}: no {missing[0]}; expected {', '.join(COLUMNS)}")
    query, left, right, choice, who = (row[name] for name in COLUMNS)
    if choice not in CHOICES:
        raise LimnerError(f"{at}: choice {choice!r}; expected {', '.join(CHOICES)}")
    if (query, left, right) in numbers:
        return numbers[query, left, right], choice, who
    if (query, right, left) not in numbers:
        raise LimnerError(f"{at}: the study does not compare {left!r} with {right!r} for query {query!r}")
    return numbers[query, right, left], {"left": "right", "right": "left"}.get(choice, choice), who
