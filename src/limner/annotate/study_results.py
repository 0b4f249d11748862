"""The results of a study as tables, for the shell and the page; each form may have an analysis of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module

import numpy as np

from limner.annotate.form import ANALYSES, AnswerPart, StudyForm
from limner.annotate.store import Store
from limner.annotate.store.studies import StudyAnswer, study_answers, study_named, study_progress
from limner.core.errors import LimnerError
from limner.stats import Interval, krippendorff_alpha, mean_interval


@dataclass(frozen=True)
class ResultTable:
    """A table of results: its title, the heads of its columns, and its cells as text."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class StudyResults:
    """The results of a study so far."""

    study: str
    question: str
    answers: int
    asked: int
    tables: Sequence[ResultTable]
    notes: Sequence[str] = ()
    data: Mapping[str, object] = field(default_factory=dict)


def study_results(store: Store, name: str, *, samples: int = 1000, measures: Sequence[str] = ()) -> StudyResults:
    """The results of a study, by the analysis of its form.

    Args:
        store: The store.
        name: The study.
        samples: Bootstrap samples, for the analyses that draw some.
        measures: For a preference study: measures to compare with the votes; by default R@1, R@5 and mAP@R.
    """
    form = study_named(store, name).form
    if measures and form.results != "preference":
        raise LimnerError(f"study {name!r} compares no rankings: leave the measures out")
    if form.results in ANALYSES:
        analyse: Callable[..., StudyResults] = import_module(ANALYSES[form.results]).study_results
        return analyse(store, name, samples=samples, measures=measures)
    answers, requested = study_answers(store, name), study_progress(store, name)["asked"]
    tables, alphas = [], {}
    for part in form.parts:
        tables.append(_table(part, form, answers))
        alphas[part.name] = _agreement(part, answers)
    notes = [f"agreement of people on {name}: alpha {alpha:.3f}" for name, alpha in alphas.items() if alpha == alpha]
    data = {"parts": {each.title: [dict(zip(each.head, row, strict=True)) for row in each.rows] for each in tables}}
    agreed = {name: alpha if alpha == alpha else None for name, alpha in alphas.items()}
    result = {"study": name, "answers": len(answers), "asked": requested, "alpha": agreed, **data}
    return StudyResults(name, form.question, len(answers), requested, tables, notes, result)


def _table(part: AnswerPart, form: StudyForm, answers: Sequence[StudyAnswer]) -> ResultTable:
    """How often each value of a part was given."""
    values = [each.answer[part.name] for each in answers]
    if part.kind == "text":
        return ResultTable(part.name, ("question", "annotator", part.name), [
            (", ".join(each.question.identity(form)), each.annotator, str(each.answer[part.name]))
            for each in answers if each.answer[part.name]
        ])  # fmt: skip
    listed = Counter(str(name) for value in values for name in (value if isinstance(value, list) else [value]))
    names = [str(n) for n in part.numbers] if part.kind == "number" else [option.name for option in part.options]
    queries = [each.question.id for each in answers]
    rows = []
    for name in names or sorted(listed):
        has = [float(name in (v if isinstance(v, list) else [str(v)])) for v in values]
        share = float(np.mean(has)) if has else float("nan")
        interval = mean_interval(has, clusters=np.unique(queries, return_inverse=True)[1], bounds=(0, 1)) if (
            len(set(queries)) > 1
        ) else None  # fmt: skip
        rows.append((name, f"{listed[name]:,}", percent(share), percents(interval)))
    return ResultTable(part.name, (part.noun if names else part.name, "answers", "share", "95% interval"), rows)


def _agreement(part: AnswerPart, answers: Sequence[StudyAnswer]) -> float:
    """Krippendorff's alpha of the people who answered; NaN if it is undefined."""
    people = {name: row for row, name in enumerate(dict.fromkeys(each.annotator for each in answers))}
    columns = {key: column for column, key in enumerate(dict.fromkeys(each.question.id for each in answers))}
    if part.kind in ("several", "text") or len(people) < 2:
        return float("nan")
    codes = {option.name: float(place) for place, option in enumerate(part.options)}
    ratings = np.full((len(people), len(columns)), np.nan)
    for each in answers:
        value = each.answer[part.name]
        ratings[people[each.annotator], columns[each.question.id]] = codes.get(str(value), float(_number(value)))
    try:
        return krippendorff_alpha(ratings, level="interval" if part.kind == "number" else "nominal", raters=len(people))
    except LimnerError:
        return float("nan")


def _number(value: object) -> int:
    return value if isinstance(value, int) else -1


def percent(share: float) -> str:
    """A share as text.

    >>> percent(0.125), percent(float("nan"))
    ('12.50%', '-')
    """
    return "-" if share != share else f"{100 * share:.2f}%"


def percents(interval: Interval | None) -> str:
    """The ends of an interval of a share, in percent."""
    return "-" if interval is None else f"{100 * interval.low:.1f} to {100 * interval.high:.1f}"


def ends(interval: Interval | None) -> list[float] | None:
    """The ends of an interval as plain values."""
    return None if interval is None else [interval.low, interval.high]
