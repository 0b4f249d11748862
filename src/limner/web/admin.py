"""The admin's view: progress, agreement, suspicious annotators, assigned tasks, and actions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.responses import JSONResponse, RedirectResponse, Response

from limner.annotate.form_files import as_toml, parse_scale
from limner.annotate.guideline import newest, scale_of, set_scale
from limner.annotate.overview import PeopleOverview, people_overview
from limner.annotate.pool import drawn, fill, waiting
from limner.annotate.quality import review
from limner.annotate.scale import COUNTS_AS
from limner.annotate.store.answers import latest
from limner.annotate.store.contents import caption_texts, counts, proposals
from limner.annotate.store.contents import pairs as stored_pairs
from limner.annotate.store.exclusions import exclude, exclusions, lift
from limner.annotate.store.people import annotators
from limner.annotate.store.reservations import assign_tasks, assigned_work, move_tasks, release_tasks
from limner.annotate.store.schema import ROLES
from limner.annotate.store.studies import studies, study_progress
from limner.annotate.store.tasks import add_tasks, progress
from limner.annotate.tasks import make_tasks as cut
from limner.core.errors import LimnerError, UnknownName, count
from limner.web import study_pages
from limner.web.accounts import accounts_of
from limner.web.answer_effect import FORMS
from limner.web.jobs import NOTICED, Job, Pending
from limner.web.judging import as_lines, judged_collection, whole_number
from limner.web.site import Ask, Handler, page, status_of

MOST = 50
"""Maximum number of rows of a table that grows with the number of people or tasks."""

FEW = 5
"""Tasks to review and comments that are shown at once; the others open with a click, so that the page stays short."""

MOST_SQUARE = 12
"""Maximum number of people in the agreement matrix; with more, the lowest values are listed."""
STEP = 20
"""Number of disagreements per page."""

_calls = itertools.count()


def people_of(ask: Ask) -> tuple[PeopleOverview | None, Job | None]:
    """The latest overview of people, computed in the background once for everyone, and the job if it is outdated."""
    store = ask.site.store
    return ask.site.library.jobs.latest(
        ("people", ask.site.store_at),
        "comparing answers",
        lambda: latest(store),
        lambda: people_overview(store),
        patience=NOTICED,
    )


@dataclass
class Work:
    """A background job started by an admin, with its result; the last one is shown."""

    key: Hashable = None
    message: str = ""
    failed: bool = False


def admin_page(ask: Ask, *, form: str = "", error: Exception | None = None) -> Response:
    """The progress page with all tables and forms.

    Args:
        ask: The request.
        form: The form that was refused; it keeps what was sent.
        error: Why it was refused.
    """
    site, store = ask.site, ask.site.store
    job, message, failed = _state(ask)
    people, comparing = people_of(ask)
    scale, rules = scale_of(store), newest(store)
    content = {
        "progress": progress(store),
        "counts": counts(store),
        "studies": {name: study_progress(store, name) for name in studies(store)},
        "systems": site.library.names,
        "collection": judged_collection(ask),
        "refused": form,
        "error": error,
        "sent": ask.form if form else {},
        "job": job,
        "message": message,
        "failed": failed,
        "roles": ROLES,
        "admin": ask.visitor.may("admin"),
        "number": _number_text,
        "work": _work,
        "moment": _moment,
        "forms": FORMS,
        "people": people,
        "comparing": comparing,
        "most": MOST,
        "few": FEW,
        "lowest": _lowest,
        "exclusions": exclusions(store),
        "guideline": rules,
        "examples": as_lines(rules, scale),
        "matrix": _matrix(people),
        "texts": _texts(ask, people),
        "scale": scale,
        "counts_as": COUNTS_AS,
        "scale_text": as_toml(scale, guideline=rules.text if scale.custom else ""),
        "ids": {each.name: each.id for each in annotators(store)},
        **assigned_of(ask),
        **(accounts_of(ask) if site.team else {}),
    }
    content["live"] = job is not None or (comparing is not None and (people is None or not people.answers))
    return page(ask, "admin.html", status=200 if error is None else status_of(error)[0], headers=None, **content)


def with_form(form: str, handler: Handler) -> Handler:
    """A handler of one of the page's forms: a refused one keeps its values, and the page says why beside it."""

    def answer(ask: Ask) -> Response:
        try:
            return handler(ask)
        except LimnerError as error:
            return admin_page(ask, form=form, error=error)

    return answer


def _matrix(people: PeopleOverview | None) -> list[tuple[str, list[tuple[float, int] | None]]]:
    """Kappa of every pair of people as a square matrix; None on the diagonal and if two share no pair."""
    kappas = people.agreed.kappas if people and people.agreed else {}
    names = sorted({name for pair in kappas for name in pair})
    if len(names) > MOST_SQUARE:
        return []
    kappa_of = {**kappas, **{(second, first): value for (first, second), value in kappas.items()}}
    return [(first, [kappa_of.get((first, second)) for second in names]) for first in names]


def _texts(ask: Ask, people: PeopleOverview | None) -> dict[str, str]:
    """The texts of the captions in the review queue and in the list of comments."""
    if people is None:
        return {}
    wrong = [answer for each in people.queue[:MOST] for answer in each.wrong]
    return caption_texts(ask.site.store, [answer.caption for answer in [*wrong, *people.comments[:MOST]]])


def disagreements_page(ask: Ask) -> Response:
    """Pairs that people graded differently, with everyone's answers."""
    people, comparing = people_of(ask)
    disputed, start = people.disputed if people else [], ask.number("start", 0)
    listed = disputed[start : start + STEP]
    return page(
        ask, "disagreements.html", listed=listed, start=start, step=STEP, total=len(disputed), comparing=comparing,
        texts=caption_texts(ask.site.store, [each.caption for each in listed]), scale=scale_of(ask.site.store),
        collection=judged_collection(ask), headers={"Refresh": "2"} if comparing and not people else None,
    )  # fmt: skip


def _number_text(value: float, digits: int = 2) -> str:
    """A number as text, or a dash if it is undefined."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def _work(hours: float) -> str:
    """A time of work in words.

    >>> _work(0.001), _work(0.5), _work(2.25)
    ('a minute', '30 minutes', '2.2 hours')
    """
    minutes = max(1, round(60 * hours))
    return f"{hours:.1f} hours" if minutes >= 60 else "a minute" if minutes == 1 else f"{minutes} minutes"


def _lowest(kappas: Mapping[tuple[str, str], tuple[float, int]]) -> list[tuple[tuple[str, str], tuple[float, int]]]:
    """The lowest agreement values, if there are many; undefined ones last."""
    if len(kappas) <= MOST:
        return list(kappas.items())
    return sorted(kappas.items(), key=lambda each: (math.isnan(each[1][0]), each[1][0]))[:MOST]


def _moment(milliseconds: int) -> str:
    """A time, in UTC.

    >>> _moment(1_700_000_000_000)
    '2023-11-14 22:13 UTC'
    """
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M} UTC"


def _state(ask: Ask) -> tuple[Job | None, str, bool]:
    """The running job, or the result of the last one."""
    work: Work = ask.request.app.state.work
    job = None if work.key is None else _waited(ask, work, "", lambda job: "")
    return job, "" if job else work.message, work.failed


def _waited(ask: Ask, work: Work, description: str, make: Callable[[Job], str]) -> Job | None:
    """The job, if it is still running."""
    try:
        work.message, work.failed = str(ask.site.library.jobs.value(work.key, description, make, patience=0.2)), False
    except Pending as pending:
        return pending.job
    except (LimnerError, RuntimeError, OSError) as error:
        work.message, work.failed = str(error), True
    work.key = None
    return None


def begin(ask: Ask, description: str, work: Callable[[Job], str]) -> Response:
    """Starts a job and redirects to the page that shows its progress."""
    state: Work = ask.request.app.state.work
    if state.key is not None and _state(ask)[0] is not None:
        raise LimnerError("another job is running: send this again when it is done")
    state.key = ("admin", next(_calls))
    _waited(ask, state, description, work)
    return RedirectResponse("/admin", 303)


# --- tasks and studies ------------------------------------------------------------------------------------------


def make_tasks(ask: Ask) -> Response:
    """Pools the top answers of systems and splits the pool into tasks."""
    systems = [value for value in ask.form.getlist("s") if isinstance(value, str)] or ask.site.library.names
    depth = whole_number(ask.field("depth") or "5", "depth", high=25)
    max_pairs = whole_number(ask.field("pairs") or "180", "pairs", high=1_000_000)
    replication = whole_number(ask.field("people") or "2", "people", high=20)
    name = judged_collection(ask)
    return begin(
        ask,
        f"pooling {', '.join(systems)} on {name}",
        lambda job: _pooled(ask, job, name, systems, depth, max_pairs, replication),
    )


def _pooled(ask: Ask, job: Job, name: str, systems: list[str], depth: int, max_pairs: int, replication: int) -> str:
    site, store = ask.site, ask.site.store
    loaded = site.library.loaded(name, patience=None)
    ready = {each: site.library.system(name, each, patience=None) for each in systems}
    site.library.record(name, store, job)
    old, room = {(each.image, each.caption) for each in stored_pairs(store)}, max(0, max_pairs - len(waiting(store)))
    fill(
        store, {each: system.scores for each, system in ready.items()}, depth=depth,
        filtered=lambda pool: drawn([pair for pair in pool if pair not in old], room),
    )  # fmt: skip
    pairs = waiting(store)[:max_pairs]
    if not pairs:
        return "no pair is left: every pair that the systems propose to this depth is in a task"
    proposed = {(each.image, each.caption) for each in proposals(store)}
    tasks = add_tasks(store, cut(pairs, loaded.evaluated.judgements, avoid=proposed), replication=replication)
    return f"{count(len(tasks), 'task')} created of {count(len(pairs), 'pair')}"


def own_scale(ask: Ask) -> Response:
    """Gives the store its own grades and reasons, before the first answer."""
    scale, rules = parse_scale(ask.field("scale").replace("\r\n", "\n"))
    set_scale(ask.site.store, scale, guideline=rules)
    return RedirectResponse("/admin#scale", 303)


def make_study(ask: Ask) -> Response:
    """Creates a preference study of every pair of systems, or of rankings with known errors."""
    settings = study_pages.requested_study(ask)
    name = judged_collection(ask)
    return begin(ask, f"making a study on {name}", lambda job: study_pages.make(ask, job, settings))


# --- people -----------------------------------------------------------------------------------------------------


def aside(ask: Ask) -> Response:
    """Excludes an annotator, with a reason, or lifts an exclusion."""
    me = ask.site.annotator(ask.visitor)
    if ask.field("lift"):
        lift(ask.site.store, whole_number(ask.field("lift"), "exclusion"))
    else:
        number = whole_number(ask.field("annotator"), "annotator")
        exclude(ask.site.store, "annotator", number, reason=ask.field("reason")[:500], by=me)
    return RedirectResponse("/admin#annotators", 303)


def review_task(ask: Ask) -> Response:
    """Accepts or rejects a task with wrong controls."""
    number, decision = whole_number(ask.field("assignment"), "assignment"), ask.field("decision")
    review(ask.site.store, number, decision, reason=ask.field("reason")[:500], by=ask.site.annotator(ask.visitor))
    return RedirectResponse("/admin#review", 303)


def api_status(ask: Ask) -> Response:
    """Progress and people, as JSON."""
    return JSONResponse({"progress": progress(ask.site.store), "counts": counts(ask.site.store)})


BACK = "/admin#assigned"
ACTS = ("assign", "move", "release")


def assigned_of(ask: Ask) -> dict[str, object]:
    """Who has which assigned tasks, and everyone who can get some."""
    store = ask.site.store
    return {"assigned": assigned_work(store), "workers": [each for each in annotators(store) if each.active]}


def assign(ask: Ask) -> Response:
    """Assigns a number of tasks to a person, or moves or releases what they have not finished."""
    store, me = ask.site.store, ask.site.annotator(ask.visitor)
    act, person_id = ask.field("act", "assign"), whole_number(ask.field("annotator"), "annotator")
    if act not in ACTS:
        raise UnknownName("act", act[:40], ACTS)
    if act == "assign":
        assign_tasks(store, person_id, number=whole_number(ask.field("tasks"), "tasks", high=100_000), by=me)
    elif act == "move":
        if not ask.field("to"):
            raise LimnerError("choose who gets the tasks")
        move_tasks(store, person_id, whole_number(ask.field("to"), "to"), by=me)
    else:
        release_tasks(store, person_id)
    return RedirectResponse(BACK, 303)
