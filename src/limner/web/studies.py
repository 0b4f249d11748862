"""Preference studies for admins: created from systems or rankings with known errors, and their results."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from limner.core.errors import LimnerError, count
from limner.web.jobs import Job
from limner.web.judging import judged_collection, whole
from limner.web.people_overview import SAMPLES
from limner.web.recording import record_collection
from limner.web.site import Ask, page

if TYPE_CHECKING:
    from limner.annotate.preference import PreferenceStudy
    from limner.web.loaded import Loaded

KINDS = ("systems", "rankings")
"""What a study compares: every pair of systems, or the rankings A to E of the paper."""


def studies_page(ask: Ask) -> Response:
    """All studies: progress, the scores of the rankings, and the measures that agree with the votes."""
    from limner.annotate.preference import FAULTS
    from limner.annotate.preferred import preferences
    from limner.annotate.store.votes import studies

    store = ask.site.store
    found = [preferences(store, study=name, samples=SAMPLES) for name in studies(store)]
    return page(ask, "studies.html", found=found, number=_number, meaning=FAULTS, admin=ask.visitor.may("admin"))


def _number(value: float, digits: int = 2) -> str:
    return "–" if value != value else f"{value:.{digits}f}"


def asked_for(ask: Ask) -> dict[str, object]:
    """The requested kind of study, validated."""
    kind = ask.field("kind") or "systems"
    if kind not in KINDS:
        raise LimnerError(f"kind = {kind[:20]!r}: expected {' or '.join(KINDS)}")
    return {
        "kind": kind,
        "queries": whole(ask.field("queries") or "20", "queries", high=10_000),
        "people": whole(ask.field("people") or "1", "people", high=100),
        "judgements": ask.field("judgements")[:100],
        "name": ask.field("name").strip()[:80] or _free_name(ask, kind),
    }


def _free_name(ask: Ask, kind: str) -> str:
    """The default name of a kind of study, with a number from the second study on."""
    from limner.annotate.store.votes import STUDY, studies

    usual, taken = STUDY if kind == "systems" else kind, set(studies(ask.site.store))
    return next(
        name for name in itertools.chain([usual], (f"{usual} {n}" for n in itertools.count(2))) if name not in taken
    )


def make(ask: Ask, job: Job, how: Mapping[str, Any]) -> str:
    """Creates the study; returns the result as text."""
    from limner.annotate.preference import add_study

    library, name = ask.site.library, judged_collection(ask)
    loaded = library.loaded(name, patience=None)
    made = (_of_systems if how["kind"] == "systems" else _of_rankings)(ask, name, loaded, how)
    record_collection(ask, name, loaded, job)
    added = add_study(ask.site.store, made, name=how["name"], people=how["people"])
    return f"{count(added, 'comparison')} made"


def _of_systems(ask: Ask, name: str, loaded: Loaded, how: Mapping[str, Any]) -> PreferenceStudy:
    from limner.annotate.preference import study_of_systems

    library = ask.site.library
    ready = {each: library.system(name, each, patience=None).scores for each in library.names}
    lists = {each: scores.T.top(5) for each, scores in ready.items()}
    truth = loaded.held.judged(how["judgements"] or loaded.held.judgements.name, "t2i")
    return study_of_systems(lists, judgements=truth, queries=how["queries"])


def _of_rankings(ask: Ask, name: str, loaded: Loaded, how: Mapping[str, Any]) -> PreferenceStudy:
    from limner.annotate.preference import study_of_rankings

    richest = max(loaded.held.all_judgements.items(), key=lambda each: len(each[1]))[0]
    truth = loaded.held.judged(how["judgements"] or richest, "t2i")
    return study_of_rankings(truth, queries=how["queries"])
