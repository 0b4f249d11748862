"""Estimates while people label: intervals so far, remaining labels per stratum, and whether labelling can stop.

Only admins see numbers; annotators see only that the intervals are narrow enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup
from starlette.responses import JSONResponse, Response

from limner.annotate.results import Study, StudyRow, stamp, studies
from limner.annotate.store import Store
from limner.core.errors import LimnerError
from limner.evaluation.reports.page.estimates import both_drawn, legend
from limner.evaluation.reports.page.words import direction_title
from limner.evaluation.reports.page.words import plain as shown_value
from limner.web.jobs import NOTICED, Job
from limner.web.site import Ask, page

SECONDS = 5
"""Seconds between two updates of an open page."""


@dataclass(frozen=True)
class KnownStudies:
    """The computed studies.

    Args:
        studies: One for each direction.
        error: The error message if the store could not be read.
    """

    studies: Sequence[Study]
    error: str = ""

    @property
    def narrow(self) -> bool:
        """Whether labelling can stop."""
        return bool(self.studies) and all(study.narrow for study in self.studies)


def studies_of(ask: Ask, *, patience: float = NOTICED) -> tuple[KnownStudies | None, Job | None]:
    """The latest computed studies, and the running job if they are outdated."""
    site, store = ask.site, ask.site.store
    return site.library.jobs.latest(
        ("studies", site.store_at), "estimating", lambda: stamp(store), lambda: _worked_out(store), patience=patience
    )


def _worked_out(store: Store) -> KnownStudies:
    try:
        return KnownStudies(studies(store))
    except LimnerError as error:
        return KnownStudies((), str(error))


def can_stop(ask: Ask) -> bool:
    """Whether every interval is narrow enough, by the latest computed studies; never waits."""
    latest, _ = studies_of(ask, patience=0.0)
    return latest is not None and latest.narrow


# --- the page ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StudyPart:
    """One direction of a study, as shown on the page."""

    name: str
    title: str
    study: Study
    figure: Markup | None
    rows: Sequence[tuple[StudyRow, dict[str, str]]]


def estimate_page(ask: Ask) -> Response:
    """The intervals so far; an open page updates itself."""
    latest, job = studies_of(ask)
    parts = [_part(study) for study in latest.studies] if latest else []
    return page(
        ask, "estimate.html", parts=parts, job=job, known=latest, legend=legend(), seconds=SECONDS,
        headers={"Refresh": "2"} if latest is None else None,
    )  # fmt: skip


def _part(study: Study) -> StudyPart:
    title = direction_title(study.direction)
    drawn = [(f"{row.system}, {row.measure}", row.found) for row in study.rows if row.found is not None]
    name = f"study-{study.direction}"
    figure = both_drawn(f"{name}-figure", f"{title}: usual numbers and estimates", drawn) if drawn else None
    return StudyPart(name, title, study, figure, [(row, _cells(row)) for row in study.rows])


def _cells(row: StudyRow) -> dict[str, str]:
    """The numbers of a row as text."""
    if row.found is None:
        return {}
    e, show = row.found.estimate, row.found.measure.show
    effect = f"{e.effect:.2f}" if e.effect == e.effect else "–"
    return {
        "usual": show(row.found.given), "value": shown_value(row.found.measure, e.value),
        "span": f"{show(e.low)} to {show(e.high)}", "half": f"{100 * e.half_width:.1f}", "mode": e.mode,
        "effect": effect,
    }  # fmt: skip


def api_study(ask: Ask) -> Response:
    """The same as JSON."""
    latest, job = studies_of(ask)
    study_list = [] if latest is None else [study.to_json() for study in latest.studies]
    return JSONResponse({"newest": job is None, "narrow": latest is not None and latest.narrow, "studies": study_list})
