"""Results of a preference study: Bradley-Terry scores of the rankings, and which measure agrees with the votes.

A measure agrees with a vote if it gives the preferred list the higher value. Chun et al. (2022, section 4.1) compare
R@k and mAP@R with the scores of five rankings, and find that people's preferences agree with mAP@R.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from limner.annotate.preference import FAULTS, STUDY, Rivals, Vote, comparisons, counted, votes
from limner.annotate.store import Store
from limner.annotate.store.studies import study_named, study_progress
from limner.annotate.study_results import ResultTable, StudyResults, ends, percents
from limner.core.errors import LimnerError
from limner.core.judgements import Judgements
from limner.core.ranking import Ranking
from limner.evaluation.evaluate import evaluate
from limner.stats import Interval, bradley_terry, kendall_tau_b, mean_interval
from limner.stats.bradley_terry import Preference
from limner.stats.inputs import Vector

MEASURES = ("R@1", "R@5", "mAP@R")


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
    positives = study_named(store, study).settings.get("positives") or {}
    rivals, cast_votes, far = comparisons(store, study=study), votes(store, study=study), study_progress(store, study)
    shown_lists = _lists(rivals.values())
    identical = same_lists(shown_lists)
    rankings = sorted({name for name, _ in shown_lists})
    names, counts = counted(cast_votes, rankings, identical=identical)
    by_query: dict[str, list[Vote]] = {}
    for vote in cast_votes:
        by_query.setdefault(vote.query, []).append(vote)
    clusters = [counted(some, rankings, identical=identical)[1] for some in by_query.values()]
    scores, notes = _scores(counts, names, samples, clusters)
    if identical:
        notes.append(
            f"{len(identical)} lists are identical to another ranking of the same query, and count as that one"
        )
    agreements, further_notes = _agreements(shown_lists, cast_votes, scores, positives, measures)
    return Preferred(study, names, counts, scores, agreements, far["answers"], far["asked"], (*notes, *further_notes))


def _lists(rivals: Iterable[Rivals]) -> dict[tuple[str, str], tuple[str, ...]]:
    """The list of each ranking for each query, by (ranking, query)."""
    sides = (
        (each.query, side) for each in rivals for side in ((each.left, each.left_items), (each.right, each.right_items))
    )
    return {(name, query): items for query, (name, items) in sides}


def same_lists(shown_lists: Mapping[tuple[str, str], tuple[str, ...]]) -> dict[tuple[str, str], str]:
    """(query, ranking) -> the last ranking by name with the same list: C counts as E if there are five right answers.

    >>> same_lists({("C", "q"): ("x",), ("E", "q"): ("x",), ("A", "q"): ("y",)})
    {('q', 'C'): 'E'}
    """
    last: dict[tuple[str, tuple[str, ...]], str] = {}
    for name, query in sorted(shown_lists):
        last[query, shown_lists[name, query]] = name
    pairs = (((query, name), last[query, items]) for (name, query), items in shown_lists.items())
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
    shown_lists: Mapping[tuple[str, str], tuple[str, ...]],
    votes: Sequence[Vote],
    scores: Preference | None,
    positives: Mapping[str, Sequence[str]],
    measures: Sequence[str],
) -> tuple[tuple[MeasureAgreement, ...], list[str]]:
    if not any(positives.values()):
        return (), ["the right answers are unknown: no measure can be compared with the votes"]
    agreements, notes = [], []
    for measure in measures:
        try:
            values = _values(shown_lists, positives, measure)
        except LimnerError as error:
            notes.append(f"{measure}: {error}")
            continue
        agreements.append(_agreement(measure, values, votes, scores))
    return tuple(agreements), notes


def _values(
    shown_lists: Mapping[tuple[str, str], tuple[str, ...]], positives: Mapping[str, Sequence[str]], measure: str
) -> dict[str, dict[str, float]]:
    """The measure of every list: ranking -> query -> value."""
    candidates = sorted(
        {i for items in shown_lists.values() for i in items} | {i for good in positives.values() for i in good}
    )
    truth = Judgements.from_pairs(
        [(query, item) for query, good in positives.items() for item in good], queries=positives, candidates=candidates
    )
    values = {}
    for name in sorted({name for name, _ in shown_lists}):
        lists = {query: items for (owner, query), items in shown_lists.items() if owner == name}
        ranking = Ranking.from_lists(lists, candidates=candidates)
        result = evaluate(ranking, truth, measures=[measure], missing="skip").results[0]
        values[name] = dict(zip(result.queries, result.values.tolist(), strict=True))
    return values


def _agreement(
    measure: str, values: Mapping[str, Mapping[str, float]], votes: Sequence[Vote], scores: Preference | None
) -> MeasureAgreement:
    means = {name: float(np.mean(list(of.values()))) if of else float("nan") for name, of in values.items()}
    decided = [each for each in (_with(vote, values) for vote in votes) if each is not None]
    agreed = np.array([yes for yes, _ in decided], dtype=float)
    queries = np.unique([query for _, query in decided], return_inverse=True)[1] if decided else None
    interval = mean_interval(agreed, clusters=queries, bounds=(0, 1)) if len({q for _, q in decided}) > 1 else None
    share = float(agreed.mean()) if decided else float("nan")
    return MeasureAgreement(measure, means, _tau(means, scores), len(decided), share, interval)


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


# --- as tables --------------------------------------------------------------------------------------------------


def study_results(store: Store, name: str, *, samples: int = 1000, measures: Sequence[str] = ()) -> StudyResults:
    """The results of a study as tables."""
    preferred = preferences(store, study=name, measures=measures or MEASURES, samples=samples)
    tables = [
        *([] if preferred.scores is None else [_scores_table(preferred, preferred.scores)]),
        *_measures_table(preferred),
    ]
    question = study_named(store, name).form.question
    return StudyResults(name, question, preferred.votes, preferred.asked, tables, preferred.notes, _data(preferred))


def _scores_table(preferred: Preferred, scores: Preference) -> ResultTable:
    title = "Bradley-Terry scores, which sum to 100, and how often each was preferred"
    rows = [
        (
            f"{name} ({FAULTS[name]})" if name in FAULTS else name,
            f"{scores.scores[i]:.2f}",
            "-" if scores.low[i] != scores.low[i] else f"{scores.low[i]:.2f} to {scores.high[i]:.2f}",
            *(f"{votes:g}" for votes in preferred.counts[i]),
        )
        for i, name in enumerate(preferred.names)
    ]
    return ResultTable(title, ("ranking", "score", "95% interval", *(f"over {name}" for name in preferred.names)), rows)


def _measures_table(preferred: Preferred) -> list[ResultTable]:
    title = "Mean of each measure, its rank correlation with the scores, and the votes it agrees with"
    head = ("measure", *preferred.names, "tau-b with the scores", "votes it agrees with")
    rows = [
        (each.measure, *(_number(each.values[name]) for name in preferred.names), _number(each.tau), _share(each))
        for each in preferred.measures
    ]
    return [ResultTable(title, head, rows)] if rows else []


def _number(value: float) -> str:
    return "-" if value != value else f"{value:.3f}"


def _share(agreement: MeasureAgreement) -> str:
    if agreement.agreed != agreement.agreed:
        return "-"
    interval = f" ({percents(agreement.interval)})" if agreement.interval else ""
    return f"{100 * agreement.agreed:.1f}%{interval} of {agreement.decided:,}"


def _data(preferred: Preferred) -> dict[str, object]:
    scores = preferred.scores and {
        name: {"score": preferred.scores.scores[i], "low": preferred.scores.low[i], "high": preferred.scores.high[i]}
        for i, name in enumerate(preferred.names)
    }
    measures = [
        {**vars(each), "values": dict(each.values), "interval": ends(each.interval)} for each in preferred.measures
    ]
    counts = {
        name: dict(zip(preferred.names, preferred.counts[i].tolist(), strict=True))
        for i, name in enumerate(preferred.names)
    }
    return {"study": preferred.study, "answers": preferred.votes, "asked": preferred.asked, "scores": scores,
            "counts": counts, "measures": measures, "notes": list(preferred.notes)}  # fmt: skip
