"""Judging: one pair at a time, by keyboard, touch, or plain form; an answer is stored before it is shown as saved.

Annotators never see scores, other people's answers, or which pairs are controls. The guideline is shown before the
first pair, with three practice pairs, and edited by an admin.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from starlette.responses import JSONResponse, RedirectResponse, Response

from limner.annotate.guideline import Guideline, GuidelineExample, known_version, newest, revise, scale_of
from limner.annotate.scale import Scale, check_comment, relevant
from limner.annotate.store.answers import Saved, submit, undo
from limner.annotate.store.reservations import tasks_left
from limner.annotate.store.schema import Row
from limner.annotate.store.tasks import (
    AssignedTask,
    Item,
    assignment_of,
    assignments_of,
    give_back,
    lease,
    progress,
    progress_of,
)
from limner.core.errors import LimnerError, UnknownId, count
from limner.web.estimating import can_stop
from limner.web.site import Ask, page, query

NUMBER = 2**31 - 1
LAST = 999_999
"""A position after the last pair of any task: the last pair is shown."""
_KEY = re.compile(r"[A-Za-z0-9_-]{8,64}")


def judge_page(ask: Ask) -> Response:
    """The next pair to judge, or one of the annotator's earlier pairs; the progress if none is left."""
    store, me = ask.site.store, ask.site.annotator(ask.visitor)
    assigned_task = _asked_task(ask, me)
    own_progress = progress_of(store, me)
    if assigned_task is None or not assigned_task.items:
        return _no_pair(ask, own_progress)
    if assigned_task.kind == "captions":
        return RedirectResponse(f"/captions?{ask.request.url.query}".rstrip("?"), 303)
    at, scale = min(ask.number("at", _first(assigned_task)), len(assigned_task.items) - 1), scale_of(store)
    return page(
        ask, "judge.html", held=assigned_task, at=at, item=assigned_task.items[at], mine=own_progress, scale=scale,
        choices=json.dumps(scale_choices(scale)), guideline=newest(store), collection=judged_collection(ask),
        key=secrets.token_urlsafe(16), task=json.dumps(task_of(ask, assigned_task)),
        source=image_url_of(judged_collection(ask), assigned_task.items[at]), exact="at" in ask.request.query_params,
        done=sum(item.grade is not None for item in assigned_task.items), enough=can_stop(ask),
        assigned=tasks_left(store, me),
    )  # fmt: skip


def _no_pair(ask: Ask, own_progress: Mapping[str, int]) -> Response:
    finished = f"{count(own_progress['finished'], 'task')} and given {count(own_progress['answers'], 'answer')}"
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
    """A page of a study's form, with a new key for its answer; with an error, what was sent stays in it."""
    form = {"done": done, "total": total, "error": error, "key": secrets.token_urlsafe(16)}
    return page(ask, template, status=400 if error else 200, headers=None, **form, **known)


def scale_choices(scale: Scale) -> dict[str, object]:
    """The scale for the browser: what each grade and reason is called, and its key."""
    return {
        "own": scale.custom,
        **{name: [vars(each) for each in getattr(scale, name)] for name in ("grades", "reasons")},
    }


def _asked_task(ask: Ask, me: int) -> AssignedTask | None:
    """The task in the URL if it belongs to the annotator; otherwise the current one."""
    number = ask.number("assignment", 0, high=NUMBER)
    return assignment_of(ask.site.store, me, number) if number else lease(ask.site.store, me)


def _first(assigned_task: AssignedTask) -> int:
    """The first pair without an answer."""
    return next(
        (place for place, item in enumerate(assigned_task.items) if item.grade is None), len(assigned_task.items) - 1
    )


def _neighbours(ask: Ask, assigned_task: AssignedTask) -> tuple[int | None, int | None]:
    """The annotator's previous and next task."""
    assignments = assignments_of(ask.site.store, assigned_task.annotator)
    place = assignments.index(assigned_task.id) if assigned_task.id in assignments else len(assignments)
    return (assignments[place - 1] if place else None), (
        assignments[place + 1] if place + 1 < len(assignments) else None
    )


def judged_collection(ask: Ask) -> str:
    """The name of the collection whose pairs are judged: that of the store if it is served, else the first one."""
    site = ask.site
    setting = site.store.setting("collection") or {}
    specs = tuple(filter(None, (setting.get("spec"), setting.get("name"))))
    served = site.library.collections
    return next(
        (name for name in served if name in specs or served[name] in specs), site.library.known_collection(None)
    )


def image_url_of(collection: str, item: Item) -> str:
    """The URL of a pair's image: small enough for a phone; zooming loads the full size."""
    return f"/image?{query(c=collection, id=item.image, size='view')}"


def task_of(ask: Ask, assigned_task: AssignedTask) -> dict[str, object]:
    """A task for the browser: texts, images, and the annotator's answers so far."""
    collection = judged_collection(ask)
    earlier, later = _neighbours(ask, assigned_task)
    return {
        "assignment": assigned_task.id,
        "earlier": earlier,
        "later": later,
        "kind": assigned_task.kind,
        "expires": assigned_task.expires,
        "reasons": assigned_task.reasons,
        "order": [
            item.id for item in sorted(assigned_task.items, key=lambda item: item.answered or 0) if item.answered
        ],
        "items": [
            {
                "id": item.id,
                "text": item.text,
                "picture": image_url_of(collection, item),
                "grade": item.grade,
                "reasons": list(item.reasons),
                "comment": item.comment,
            }
            for item in assigned_task.items
        ],
    }


# --- plain forms, for browsers without scripts ------------------------------------------------------------------


def judge_form(ask: Ask) -> Response:
    """An answer sent as a form; sending the same form again changes nothing."""
    action, item = ask.field("act", "save"), whole_number(ask.field("item"), "item")
    at = whole_number(ask.field("at") or "0", "at", low=0)
    assignment_id = whole_number(ask.field("assignment") or "0", "assignment", low=0)
    if action in ("back", "next", "skip"):
        return RedirectResponse(_moved(ask, assignment_id, at - 1 if action == "back" else at + 1), 303)
    if action == "undo":
        _withdraw(ask, item, ask.field("key"), assignment_id or None)
        return RedirectResponse(f"/judge?{query(assignment=assignment_id or None, at=at)}", 303)
    reasons = [value for value in ask.form.getlist("reason") if isinstance(value, str)]
    grade = whole_number(ask.field("grade"), "grade", high=4)
    why = reasons if scale_of(ask.site.store).asks(grade) else []
    values = {"grade": grade, "reasons": why, "comment": ask.field("comment")}
    _save(ask, item, ask.field("key"), values, ask.field("guideline"), assignment_id or None)
    return RedirectResponse("/judge", 303)


def _moved(ask: Ask, assignment_id: int, at: int) -> str:
    """The URL of a pair of a task; before its first or after its last pair, that of the neighbouring task."""
    if not assignment_id:
        return f"/judge?at={max(0, at)}"
    assigned_task = assignment_of(ask.site.store, ask.site.annotator(ask.visitor), assignment_id)
    earlier, later = _neighbours(ask, assigned_task)
    if at < 0 and earlier is not None:
        return f"/judge?{query(assignment=earlier, at=LAST)}"
    if at >= len(assigned_task.items):
        return f"/judge?{query(assignment=later, at=0 if later else None)}".rstrip("?")
    return f"/judge?{query(assignment=assignment_id, at=max(0, at))}"


def whole_number(value: object, field: str, *, low: int = 1, high: int = NUMBER) -> int:
    """An integer that the store can hold; 3.0 counts as one in JSON."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 12:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise LimnerError(f"{field} = {str(value)[:20]!r}: expected a whole number from {low} to {high:,}")
    return value


class Conflict(LimnerError):
    """A well-formed request that conflicts with the stored state."""


@contextmanager
def as_conflicts() -> Iterator[None]:
    """Turns conflicts with the stored state into `Conflict`, unlike malformed answers."""
    try:
        yield
    except LimnerError as error:
        if type(error) is LimnerError:
            raise Conflict(str(error)) from error
        raise


def _save(ask: Ask, item: int, key: object, values: Row, guideline: object, assignment: int | None) -> Saved:
    """Stores an answer (grade, reasons, milliseconds, comment) under the version of the guideline that was read."""
    me, scale = ask.site.annotator(ask.visitor), scale_of(ask.site.store)
    scale.check_reasons(values["reasons"], scale.check_grade(values["grade"]))
    check_comment(values["comment"])
    checked, version = answer_key(key), known_version(ask.site.store, guideline)
    with as_conflicts():
        return submit(ask.site.store, me, item, key=checked, guideline=version, assignment_id=assignment, **values)


def _withdraw(ask: Ask, item: int, key: object, assignment: int | None) -> Saved:
    me, checked = ask.site.annotator(ask.visitor), answer_key(key)
    version = newest(ask.site.store).version
    with as_conflicts():
        return undo(ask.site.store, me, item, key=checked, guideline=version, assignment_id=assignment)


def answer_key(value: object) -> str:
    """The key of an answer, as created by the client."""
    if not isinstance(value, str) or not _KEY.fullmatch(value):
        raise LimnerError("key: expected 8 to 64 letters, digits, - or _, new for every answer")
    return value


# --- the same as JSON -------------------------------------------------------------------------------------------


def body(ask: Ask, allowed: tuple[str, ...], needed: tuple[str, ...]) -> Mapping[str, object]:
    """The JSON object of a request, checked for allowed and required fields."""
    fields = ask.json
    if not isinstance(fields, dict):
        raise LimnerError("expected a JSON object")
    missing = [name for name in needed if name not in fields]
    unknown = [name for name in fields if name not in allowed]
    if missing or unknown:
        raise LimnerError(
            f"expected {', '.join(needed)}{' and perhaps ' if len(allowed) > len(needed) else ''}"
            f"{', '.join(name for name in allowed if name not in needed)}"
        )
    return fields


def api_task(ask: Ask) -> Response:
    """Leases a task, or returns the current one."""
    body(ask, (), ())
    assigned_task = lease(ask.site.store, ask.site.annotator(ask.visitor))
    return JSONResponse({"task": None if assigned_task is None else task_of(ask, assigned_task)})


def api_answer(ask: Ask) -> Response:
    """Stores an answer. The response is sent when the answer is on disk."""
    allowed = ("item", "key", "grade", "reasons", "comment", "milliseconds", "guideline", "assignment")
    fields = body(ask, allowed, ("item", "key", "grade"))
    reasons = fields.get("reasons", [])
    if not isinstance(reasons, list) or not all(isinstance(reason, str) for reason in reasons):
        raise LimnerError("reasons: expected a list of names")
    took = fields.get("milliseconds")
    milliseconds = None if took is None else whole_number(took, "milliseconds", low=0, high=86_400_000)
    item, grade = json_whole(fields["item"], "item"), json_whole(fields["grade"], "grade", high=4)
    values = {"grade": grade, "reasons": reasons, "milliseconds": milliseconds, "comment": fields.get("comment", "")}
    return _saved_response(_save(ask, item, fields["key"], values, fields.get("guideline"), _assignment_in(fields)))


def _assignment_in(fields: Mapping[str, object]) -> int | None:
    """The assignment that an answer names; a program may leave it out."""
    return json_whole(fields["assignment"], "assignment") if "assignment" in fields else None


def json_whole(value: object, field: str, *, high: int = NUMBER) -> int:
    """An integer from JSON; a string that looks like a number is refused."""
    if isinstance(value, str):
        raise LimnerError(f"{field} = {value[:20]!r}: expected a whole number")
    return whole_number(value, field, high=high)


def api_undo(ask: Ask) -> Response:
    """Withdraws an answer, as a new revision."""
    fields = body(ask, ("item", "key", "assignment"), ("item", "key"))
    return _saved_response(_withdraw(ask, json_whole(fields["item"], "item"), fields["key"], _assignment_in(fields)))


def _saved_response(saved: Saved) -> Response:
    return JSONResponse(
        {"saved": saved.id, "revision": saved.revision, "repeated": saved.repeated, "finished": saved.finished}
    )


def api_return(ask: Ask) -> Response:
    """Returns a task early."""
    fields = body(ask, ("assignment",), ("assignment",))
    give_back(ask.site.store, ask.site.annotator(ask.visitor), json_whole(fields["assignment"], "assignment"))
    return JSONResponse({"returned": True})


def api_mine(ask: Ask) -> Response:
    """The visitor's own progress, and the account to send back with what is for this visitor alone."""
    own_progress = progress_of(ask.site.store, ask.site.annotator(ask.visitor))
    return JSONResponse({**own_progress, "account": ask.site.account(ask.visitor)})


PRACTICE = 3
FROM_LABELS = {True: "The caption was written for this image.", False: "The caption was written for another image."}
SEPARATOR = "|"


@dataclass(frozen=True)
class Feedback:
    """The feedback on a practice answer."""

    agrees: bool
    words: str


def practice_page(ask: Ask) -> Response:
    """One practice pair; with a grade, the guideline's feedback on it. Nothing is stored."""
    scale = scale_of(ask.site.store)
    pairs = _pairs(ask, newest(ask.site.store))
    number = ask.number("n", 1, low=1, high=len(pairs))
    grade = ask.number("grade", 0, high=4)
    pair = pairs[number - 1]
    return page(
        ask, "practice.html", pair=pair, number=number, total=len(pairs), grade=grade,
        scale=scale, collection=judged_collection(ask), feedback=feedback(pair, grade, scale) if grade else None,
    )  # fmt: skip


def feedback(pair: GuidelineExample, grade: int, scale: Scale) -> Feedback:
    """Whether a grade equals the guideline's, or is next to it on the same side of yes and no."""
    agrees, right = relevant(grade) == relevant(pair.grade), scale.by_value[pair.grade]
    named = f"{right.key}, {right.label}"
    if grade == pair.grade:
        return Feedback(True, f"Yes: {named}. {pair.why}".strip())
    return Feedback(agrees, f"{'Close. ' if agrees else ''}The guideline says {named}. {pair.why}".strip())


def _pairs(ask: Ask, guideline: Guideline) -> Sequence[GuidelineExample]:
    """The first examples; if there are not enough, labelled pairs and a mismatched pair."""
    examples = guideline.examples[:PRACTICE]
    if len(examples) == PRACTICE:
        return examples
    evaluated = ask.site.library.loaded(judged_collection(ask)).evaluated
    own_captions: dict[str, str] = {}
    for image, text, grade in evaluated.judgements:
        if grade > 0 and text in evaluated.texts.ids:
            own_captions.setdefault(image, str(evaluated.texts.values[evaluated.texts.ids.index(text)]))
    images = list(own_captions)
    id_pairs = [
        (images[n], images[n if n != 1 else (len(images) // 2 + 1) % len(images)])
        for n in range(min(PRACTICE, len(images)))
    ]
    labelled = [GuidelineExample(i, own_captions[j], 4 if i == j else 1, FROM_LABELS[i == j]) for i, j in id_pairs]
    return [*examples, *labelled][:PRACTICE]


def edit(ask: Ask) -> Response:
    """Creates a new version of the guideline from an admin's form."""
    scale = scale_of(ask.site.store)
    examples = [_example(ask, line, scale) for line in ask.field("examples").splitlines() if line.strip()]
    revise(ask.site.store, ask.field("text").replace("\r\n", "\n"), examples)
    return RedirectResponse("/admin#guideline", 303)


def _example(ask: Ask, line: str, scale: Scale) -> GuidelineExample:
    """An example: image | caption | key of the grade | why."""
    parts = [part.strip() for part in line.split(SEPARATOR)]
    if len(parts) not in (3, 4):
        raise LimnerError(f"example {line[:60]!r}: expected image | caption | grade | why")
    images = ask.site.library.loaded(judged_collection(ask)).whole.images
    if parts[0] not in images.ids:
        raise UnknownId(f"example {line[:60]!r}: no image {parts[0][:80]!r}")
    return GuidelineExample(parts[0], parts[1], scale.with_key(parts[2].lower()), parts[3] if len(parts) == 4 else "")


def as_lines(guideline: Guideline, scale: Scale) -> str:
    """The examples in the format of the form."""
    rows = [(each.image, each.text, scale.by_value[each.grade].key, each.why) for each in guideline.examples]
    return "\n".join(f" {SEPARATOR} ".join(row) for row in rows)
