"""Judging: one pair at a time, by keyboard, touch, or plain form; an answer is stored before it is shown as saved.

Annotators never see scores, other people's answers, or which pairs are controls.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, RedirectResponse, Response

from limner.core.errors import LimnerError, count
from limner.web.estimating import can_stop
from limner.web.site import Ask, page, query

if TYPE_CHECKING:
    from limner.annotate.scale import Scale
    from limner.annotate.store.answers import Saved
    from limner.annotate.store.tasks import AssignedTask, Item

NUMBER = 2**31 - 1
LAST = 999_999
"""A position after the last pair of any task: the last pair is shown."""
_KEY = re.compile(r"[A-Za-z0-9_-]{8,64}")


def judge_page(ask: Ask) -> Response:
    """The next pair to judge, or one of the annotator's earlier pairs; the progress if none is left."""
    from limner.annotate.guideline import newest
    from limner.annotate.store.reservations import tasks_left
    from limner.annotate.store.scales import scale_of
    from limner.annotate.store.tasks import progress_of

    store, me = ask.site.store, ask.site.annotator(ask.visitor)
    held = _asked_task(ask, me)
    mine = progress_of(store, me)
    if held is None or not held.items:
        return _no_pair(ask, mine)
    if held.kind == "captions":
        return RedirectResponse(f"/captions?{ask.request.url.query}".rstrip("?"), 303)
    at, scale = min(ask.number("at", _first(held)), len(held.items) - 1), scale_of(store)
    return page(
        ask, "judge.html", held=held, at=at, item=held.items[at], mine=mine, scale=scale,
        choices=json.dumps(shown(scale)), guideline=newest(store), collection=judged_collection(ask),
        key=secrets.token_urlsafe(16), task=json.dumps(task_of(ask, held)),
        source=image_url_of(judged_collection(ask), held.items[at]), exact="at" in ask.request.query_params,
        done=sum(item.grade is not None for item in held.items), enough=can_stop(ask), assigned=tasks_left(store, me),
    )  # fmt: skip


def _no_pair(ask: Ask, mine: Mapping[str, int]) -> Response:
    from limner.annotate.store.tasks import progress

    finished = f"{count(mine['finished'], 'task')} and given {count(mine['answers'], 'answer')}"
    if progress(ask.site.store)["tasks"]:
        links = [("/admin", "See progress, or make tasks")]
        return empty_page(
            ask, "Judge", "Nothing left to judge", f"You have finished {finished}.", links, enough=can_stop(ask)
        )
    lead = "A task is a set of images with captions. None is made yet; an admin makes them under Progress."
    return empty_page(ask, "Judge", "No task yet", lead, [("/admin#make", "Make tasks")])


def empty_page(
    ask: Ask, name: str, title: str, lead: str, links: Sequence[tuple[str, str]] = (), *, enough: bool = False
) -> Response:
    """A page for work that has nothing to do: why, and where a reviewer or admin goes on."""
    role = {path: "admin" if "#" in path else "reviewer" for path, _ in links}
    allowed = [(path, words) for path, words in links if ask.visitor.may(role[path])]
    return page(ask, "empty.html", name=name, title=title, lead=lead, links=allowed, enough=enough)


def form_page(ask: Ask, template: str, *, done: int, total: int, error: str = "", **known: object) -> Response:
    """A page of a study's form, with a new key for its answer; with an error, what was sent stays in it.

    Args:
        ask: The request.
        template: It extends form.html.
        done: How many answers are given.
        total: How many are asked for.
        error: Why the answer was refused.
        known: What the template shows.
    """
    form = {"done": done, "total": total, "error": error, "key": secrets.token_urlsafe(16)}
    return page(ask, template, status=400 if error else 200, headers=None, **form, **known)


def shown(scale: Scale) -> dict[str, object]:
    """The scale for the browser: what each grade and reason is called, and its key."""
    return {
        "own": scale.custom,
        **{name: [vars(each) for each in getattr(scale, name)] for name in ("grades", "reasons")},
    }


def _asked_task(ask: Ask, me: int) -> AssignedTask | None:
    """The task in the URL if it belongs to the annotator; otherwise the current one."""
    from limner.annotate.store.tasks import assignment_of, lease

    number = ask.number("assignment", 0, high=NUMBER)
    return assignment_of(ask.site.store, me, number) if number else lease(ask.site.store, me)


def _first(held: AssignedTask) -> int:
    """The first pair without an answer."""
    return next((place for place, item in enumerate(held.items) if item.grade is None), len(held.items) - 1)


def _beside(ask: Ask, held: AssignedTask) -> tuple[int | None, int | None]:
    """The annotator's previous and next task."""
    from limner.annotate.store.tasks import assignments_of

    mine = assignments_of(ask.site.store, held.annotator)
    place = mine.index(held.id) if held.id in mine else len(mine)
    return (mine[place - 1] if place else None), (mine[place + 1] if place + 1 < len(mine) else None)


def judged_collection(ask: Ask) -> str:
    """The name of the collection whose pairs are judged: that of the store if it is served, else the first one."""
    site = ask.site
    kept = site.store.setting("collection") or {}
    specs = tuple(filter(None, (kept.get("spec"), kept.get("name"))))
    served = site.library.collections
    return next(
        (name for name in served if name in specs or served[name] in specs), site.library.known_collection(None)
    )


def image_url_of(collection: str, item: Item) -> str:
    """The URL of a pair's image: small enough for a phone; zooming loads the full size."""
    return f"/image?{query(c=collection, id=item.image, size='view')}"


def task_of(ask: Ask, held: AssignedTask) -> dict[str, object]:
    """A task for the browser: texts, images, and the annotator's answers so far."""
    collection = judged_collection(ask)
    earlier, later = _beside(ask, held)
    return {
        "assignment": held.id,
        "earlier": earlier,
        "later": later,
        "kind": held.kind,
        "expires": held.expires,
        "reasons": held.reasons,
        "order": [item.id for item in sorted(held.items, key=lambda item: item.answered or 0) if item.answered],
        "items": [
            {
                "id": item.id,
                "text": item.text,
                "picture": image_url_of(collection, item),
                "grade": item.grade,
                "reasons": list(item.reasons),
                "comment": item.comment,
            }
            for item in held.items
        ],
    }


# --- plain forms, for browsers without scripts ------------------------------------------------------------------


def judge_form(ask: Ask) -> Response:
    """An answer sent as a form; sending the same form again changes nothing."""
    from limner.annotate.store.scales import scale_of

    action, item = ask.field("act", "save"), whole(ask.field("item"), "item")
    at = whole(ask.field("at") or "0", "at", low=0)
    there = whole(ask.field("assignment") or "0", "assignment", low=0)
    if action in ("back", "next", "skip"):
        return RedirectResponse(_moved(ask, there, at - 1 if action == "back" else at + 1), 303)
    if action == "undo":
        _withdraw(ask, item, ask.field("key"), there or None)
        return RedirectResponse(f"/judge?{query(assignment=there or None, at=at)}", 303)
    reasons = [value for value in ask.form.getlist("reason") if isinstance(value, str)]
    grade = whole(ask.field("grade"), "grade", high=4)
    why = reasons if scale_of(ask.site.store).asks(grade) else []
    given = {"grade": grade, "reasons": why, "comment": ask.field("comment")}
    _save(ask, item, ask.field("key"), given, ask.field("guideline"), there or None)
    return RedirectResponse("/judge", 303)


def _moved(ask: Ask, there: int, at: int) -> str:
    """The URL of a pair of a task; before its first or after its last pair, that of the neighbouring task."""
    from limner.annotate.store.tasks import assignment_of

    if not there:
        return f"/judge?at={max(0, at)}"
    held = assignment_of(ask.site.store, ask.site.annotator(ask.visitor), there)
    earlier, later = _beside(ask, held)
    if at < 0 and earlier is not None:
        return f"/judge?{query(assignment=earlier, at=LAST)}"
    if at >= len(held.items):
        return f"/judge?{query(assignment=later, at=0 if later else None)}".rstrip("?")
    return f"/judge?{query(assignment=there, at=max(0, at))}"


def whole(value: Any, what: str, *, low: int = 1, high: int = NUMBER) -> int:
    """An integer that the store can hold; 3.0 counts as one in JSON."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise LimnerError(f"{what} = {str(value)[:20]!r}: expected a whole number from {low} to {high:,}")
    return value


class Conflict(LimnerError):
    """A well-formed request that conflicts with the stored state."""


@contextmanager
def fitting() -> Iterator[None]:
    """Turns conflicts with the stored state into `Conflict`, unlike malformed answers."""
    try:
        yield
    except LimnerError as error:
        if type(error) is LimnerError:
            raise Conflict(str(error)) from error
        raise


def _save(ask: Ask, item: int, key: object, given: dict[str, Any], guideline: object, assignment: int | None) -> Saved:
    """Stores an answer (grade, reasons, milliseconds, comment) under the version of the guideline that was read."""
    from limner.annotate.guideline import known_version
    from limner.annotate.scale import check_comment
    from limner.annotate.store.answers import submit
    from limner.annotate.store.scales import scale_of

    me, scale = ask.site.annotator(ask.visitor), scale_of(ask.site.store)
    scale.check_reasons(given["reasons"], scale.check_grade(given["grade"]))
    check_comment(given["comment"])
    checked, version = answer_key(key), known_version(ask.site.store, guideline)
    with fitting():
        return submit(ask.site.store, me, item, key=checked, guideline=version, assignment_id=assignment, **given)


def _withdraw(ask: Ask, item: int, key: object, assignment: int | None) -> Saved:
    from limner.annotate.guideline import newest
    from limner.annotate.store.answers import undo

    me, checked = ask.site.annotator(ask.visitor), answer_key(key)
    version = newest(ask.site.store).version
    with fitting():
        return undo(ask.site.store, me, item, key=checked, guideline=version, assignment_id=assignment)


def answer_key(value: object) -> str:
    """The key of an answer, as created by the client."""
    if not isinstance(value, str) or not _KEY.fullmatch(value):
        raise LimnerError("key: expected 8 to 64 letters, digits, - or _, new for every answer")
    return value


# --- the same as JSON -------------------------------------------------------------------------------------------


def body(ask: Ask, known: tuple[str, ...], needed: tuple[str, ...]) -> Mapping[str, object]:
    """The JSON object of a request, checked for allowed and required fields."""
    given = ask.json
    if not isinstance(given, dict):
        raise LimnerError("expected a JSON object")
    lacking = [name for name in needed if name not in given]
    unknown = [name for name in given if name not in known]
    if lacking or unknown:
        raise LimnerError(
            f"expected {', '.join(needed)}{' and perhaps ' if len(known) > len(needed) else ''}"
            f"{', '.join(name for name in known if name not in needed)}"
        )
    return given


def api_task(ask: Ask) -> Response:
    """Leases a task, or returns the current one."""
    from limner.annotate.store.tasks import lease

    body(ask, (), ())
    held = lease(ask.site.store, ask.site.annotator(ask.visitor))
    return JSONResponse({"task": None if held is None else task_of(ask, held)})


def api_answer(ask: Ask) -> Response:
    """Stores an answer. The response is sent when the answer is on disk."""
    known = ("item", "key", "grade", "reasons", "comment", "milliseconds", "guideline", "assignment")
    given = body(ask, known, ("item", "key", "grade"))
    reasons = given.get("reasons", [])
    if not isinstance(reasons, list) or not all(isinstance(reason, str) for reason in reasons):
        raise LimnerError("reasons: expected a list of names")
    took = given.get("milliseconds")
    milliseconds = None if took is None else whole(took, "milliseconds", low=0, high=86_400_000)
    item, grade = json_whole(given["item"], "item"), json_whole(given["grade"], "grade", high=4)
    said = {"grade": grade, "reasons": reasons, "milliseconds": milliseconds, "comment": given.get("comment", "")}
    return _told(_save(ask, item, given["key"], said, given.get("guideline"), _assignment_in(given)))


def _assignment_in(given: Mapping[str, object]) -> int | None:
    """The assignment that an answer names; a program may leave it out."""
    return json_whole(given["assignment"], "assignment") if "assignment" in given else None


def json_whole(value: object, what: str, *, high: int = NUMBER) -> int:
    """An integer from JSON; a string that looks like a number is refused."""
    if isinstance(value, str):
        raise LimnerError(f"{what} = {value[:20]!r}: expected a whole number")
    return whole(value, what, high=high)


def api_undo(ask: Ask) -> Response:
    """Withdraws an answer, as a new revision."""
    given = body(ask, ("item", "key", "assignment"), ("item", "key"))
    return _told(_withdraw(ask, json_whole(given["item"], "item"), given["key"], _assignment_in(given)))


def _told(saved: Saved) -> Response:
    return JSONResponse(
        {"saved": saved.id, "revision": saved.revision, "repeated": saved.repeated, "finished": saved.finished}
    )


def api_return(ask: Ask) -> Response:
    """Returns a task early."""
    from limner.annotate.store.tasks import give_back

    given = body(ask, ("assignment",), ("assignment",))
    give_back(ask.site.store, ask.site.annotator(ask.visitor), json_whole(given["assignment"], "assignment"))
    return JSONResponse({"returned": True})


def api_mine(ask: Ask) -> Response:
    """The visitor's own progress, and the account to send back with what is for this visitor alone."""
    from limner.annotate.store.tasks import progress_of

    mine = progress_of(ask.site.store, ask.site.annotator(ask.visitor))
    return JSONResponse({**mine, "account": ask.site.account(ask.visitor)})
