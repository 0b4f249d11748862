"""Assigning tasks to one person, from the lead's page."""

from __future__ import annotations

from typing import Any

from starlette.responses import RedirectResponse, Response

from limner.core.errors import LimnerError, UnknownName
from limner.web.judging import whole_number
from limner.web.site import Ask

BACK = "/admin#assigned"
ACTS = ("assign", "move", "release")


def assigned_of(ask: Ask) -> dict[str, Any]:
    """Who has which assigned tasks, and everyone who can get some."""
    from limner.annotate.store.people import annotators
    from limner.annotate.store.reservations import assigned_work

    store = ask.site.store
    return {"assigned": assigned_work(store), "workers": [each for each in annotators(store) if each.active]}


def assign(ask: Ask) -> Response:
    """Assigns a number of tasks to a person, or moves or releases what they have not finished."""
    from limner.annotate.store.reservations import assign_tasks, move_tasks, release_tasks

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
