"""Studies on the page: questions of any form, the crowd's form of a task, results, and making a preference study."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, RedirectResponse, Response

from limner.annotate.form import AnswerPart, StudyForm
from limner.annotate.overview import SAMPLES
from limner.annotate.preference import STUDY, PreferenceStudy, add_study, study_of_rankings, study_of_systems
from limner.annotate.scale import relevant
from limner.annotate.store.contents import caption_text
from limner.annotate.store.schema import Row
from limner.annotate.store.studies import (
    Question,
    check_answer,
    form_of_question,
    give_answer,
    next_question,
    studies,
    study_progress,
)
from limner.annotate.store.tasks import assignment_of, lease
from limner.annotate.study_results import study_results
from limner.annotate.tasks import blocks, crowd_form, submit_block
from limner.core.errors import LimnerError, count
from limner.web.jobs import Job
from limner.web.judging import (
    answer_key,
    as_conflicts,
    body,
    empty_page,
    form_page,
    image_url_of,
    json_whole,
    judged_collection,
    whole_number,
)
from limner.web.site import Ask, page, query

if TYPE_CHECKING:
    from limner.web.ready_system import Loaded

KINDS = ("systems", "rankings")
"""What a preference study compares: every pair of systems, or the rankings A to E of the paper."""


@dataclass(frozen=True)
class StudyRequest:
    """A preference study to make: one of `KINDS`, its name, its sizes, and the judgements with the right answers."""

    kind: str
    name: str
    queries: int
    people: int
    judgements: str


@dataclass(frozen=True)
class ShownThing:
    """One thing on the page: its words, and its texts or the addresses of its images."""

    kind: str
    name: str
    caption: str
    entries: Sequence[str]


@dataclass(frozen=True)
class PartField:
    """One part of an answer on the page: (value, label, key) of its options, and what is marked."""

    part: AnswerPart
    options: Sequence[tuple[str, str, str]]
    marked: Sequence[str] = ()


# --- questions ----------------------------------------------------------------------------------------------------


def study_page(ask: Ask, error: str = "") -> Response:
    """The next question of a study, or of any; with an error, the answer that was refused."""
    store, stored_studies = ask.site.store, studies(ask.site.store)
    requested = ask.field("study") or ask.get("study")
    name = requested if requested in stored_studies else None
    question, done = next_question(store, ask.site.annotator(ask.visitor), name=name), study_progress(store, name)
    if not done["asked"]:
        lead = "A study asks a question about images and texts, and people answer it."
        return empty_page(ask, "Studies", "No study yet", lead, [("/admin#study", "Make a study")])
    if question is None:
        lead = f"{done['answers']:,} of {count(done['asked'], 'answer')} given."
        return empty_page(ask, "Studies", "Nothing left to answer", lead, [("/studies", "See what people answered")])
    form = stored_studies[question.study].form
    resent = ask.field("question") == str(question.id)
    fields = [_field(ask, form, part, question, resent=resent) for part in form.parts]
    place = f"{done['answers']:,} of {count(done['asked'], 'answer')} given. {form.hint}"
    return form_page(
        ask, "form.html", name="Studies", form=form, rows=_rows(ask, form, question), fields=fields, place=place,
        hidden={"question": question.id, "study": name or ""}, error=error, back="",
        others=[study for study in stored_studies if study != question.study],
        done=done["answers"], total=done["asked"],
    )  # fmt: skip


def _rows(ask: Ask, form: StudyForm, question: Question) -> list[list[ShownThing]]:
    """What is shown, in rows of things of one kind."""
    panels = [_panel(ask, each.kind, each.name, each.caption, question.shown) for each in form.shown]
    return [list(row) for _, row in itertools.groupby(panels, key=lambda thing: thing.kind)]


def _panel(ask: Ask, kind: str, name: str, caption: str, content: Row) -> ShownThing:
    """A thing as "text", "image", "asked" (the image of a query), "texts" or "images"."""
    finds_images = content.get("direction") != "i2t"
    kind = {"query": "caption" if finds_images else "asked", "ranking": "images" if finds_images else "captions"}.get(
        kind, kind
    )
    keys = content[name] if isinstance(content[name], list) else [content[name]]
    if kind in ("caption", "captions"):
        return ShownThing(
            kind.replace("caption", "text"), name, caption, [caption_text(ask.site.store, k) for k in keys]
        )
    size = "card" if kind == "images" else "view"
    collection = judged_collection(ask)
    addresses = keys if kind == "text" else [f"/image?{query(c=collection, id=key, size=size)}" for key in keys]
    return ShownThing(kind, name, caption, addresses)


def _field(ask: Ask, form: StudyForm, part: AnswerPart, question: Question, *, resent: bool) -> PartField:
    """A part with its options; what was sent about this question stays marked."""
    marked = [value for value in ask.form.getlist(part.name) if isinstance(value, str)] if resent else []
    if part.kind == "number":
        keyed = part.high <= 10
        return PartField(part, [(str(n), str(n), str(n % 10) if keyed else "") for n in part.numbers], marked)
    if part.options_from in question.shown:
        keys = form.options(part, question.shown)
        options = [(k, caption_text(ask.site.store, k), _key(place)) for place, k in enumerate(keys, start=1)]
        return PartField(part, options, marked)
    return PartField(part, [(o.name, o.label, o.key) for o in part.options], marked)


def _key(place: int) -> str:
    return str(place % 10) if place <= 10 else ""


def study_form(ask: Ask) -> Response:
    """An answer sent as a form; sending the same form again changes nothing."""
    number = whole_number(ask.field("question"), "question")
    answer = {part.name: _sent(ask, part) for part in form_of_question(ask.site.store, number).parts}
    try:
        check_answer(ask.site.store, number, answer)
    except LimnerError as error:
        return study_page(ask, str(error))
    _give(ask, number, ask.field("key"), answer, None)
    return RedirectResponse(f"/study?{query(study=ask.field('study')[:200])}".rstrip("?"), 303)


def _sent(ask: Ask, part: AnswerPart) -> object:
    """A part of an answer from the fields of a form."""
    if part.kind == "several":
        return [value for value in ask.form.getlist(part.name) if isinstance(value, str)]
    text = ask.field(part.name)
    return int(text) if part.kind == "number" and text.isascii() and text.isdigit() and len(text) < 12 else text


def _give(ask: Ask, number: int, key: object, answer: Mapping[str, object], milliseconds: int | None) -> bool:
    me, checked = ask.site.annotator(ask.visitor), answer_key(key)
    fitted = check_answer(ask.site.store, number, answer)
    with as_conflicts():
        return give_answer(ask.site.store, me, number, key=checked, answer=fitted, milliseconds=milliseconds)


def api_question(ask: Ask) -> Response:
    """The next question, with the parts of its answer."""
    store = ask.site.store
    question = next_question(store, ask.site.annotator(ask.visitor), name=ask.get("study") or None)
    if question is None:
        return JSONResponse({"question": None})
    form = studies(store)[question.study].form
    panels = {panel.name: panel.entries for row in _rows(ask, form, question) for panel in row}
    parts = [
        {"name": p.name, "kind": p.kind, "options": form.options(p, question.shown), "low": p.low, "high": p.high}
        for p in form.parts
    ]
    question_json = {
        "id": question.id,
        "study": question.study,
        "question": form.question,
        "shown": panels,
        "parts": parts,
    }
    return JSONResponse({"question": question_json})


def api_study_answer(ask: Ask) -> Response:
    """Stores an answer to a question."""
    fields = body(ask, ("question", "key", "answer", "milliseconds"), ("question", "key", "answer"))
    answer, took = fields["answer"], fields.get("milliseconds")
    if not isinstance(answer, dict):
        raise LimnerError("answer: expected an object with the parts of the answer")
    milliseconds = None if took is None else whole_number(took, "milliseconds", low=0, high=86_400_000)
    new = _give(ask, json_whole(fields["question"], "question"), fields["key"], answer, milliseconds)
    return JSONResponse({"saved": True, "repeated": not new})


# --- the crowd's form of a task -----------------------------------------------------------------------------------


def captions_page(ask: Ask) -> Response:
    """The next image of a task with unanswered captions, or the requested one."""
    store, me, form = ask.site.store, ask.site.annotator(ask.visitor), crowd_form()
    task = lease(store, me)
    if task is None or task.kind != "captions":
        return RedirectResponse("/judge", 303)
    images = blocks(task.items)
    first = next((n for n, block in enumerate(images) if any(item.grade is None for item in block)), len(images) - 1)
    at = min(ask.number("at", first), len(images) - 1)
    panel = ShownThing("image", "image", form.shown[0].caption, [image_url_of(judged_collection(ask), images[at][0])])
    options = [(str(item.id), item.text, _key(place)) for place, item in enumerate(images[at], start=1)]
    ticked = [str(item.id) for item in images[at] if item.grade is not None and relevant(item.grade)]
    return form_page(
        ask, "form.html", name="Judge", form=form, rows=[[panel]], fields=[PartField(form.parts[0], options, ticked)],
        place=f"Image {at + 1} of {len(images)}", hidden={"assignment": task.id, "image": images[at][0].image},
        back=f"/captions?at={at - 1}" if at else "", others=(), total=len(images),
        done=sum(all(item.grade is not None for item in block) for block in images),
    )  # fmt: skip


def captions_form(ask: Ask) -> Response:
    """Stores the ticks of one image; sending the same form again changes nothing."""
    me, key = ask.site.annotator(ask.visitor), answer_key(ask.field("key"))
    task = assignment_of(ask.site.store, me, whole_number(ask.field("assignment"), "assignment"))
    image = ask.field("image")
    block = next((each for each in blocks(task.items) if each[0].image == image), None)
    if task.kind != "captions" or block is None:
        raise LimnerError("this task has no such image with captions to tick: request a task again")
    ticked = [whole_number(value, "caption") for value in ask.form.getlist("fits")]
    with as_conflicts():
        submit_block(ask.site.store, me, block, ticked, key=key)
    return RedirectResponse("/judge", 303)


# --- results, and a study of preferences --------------------------------------------------------------------------


def studies_page(ask: Ask) -> Response:
    """What people answered in every study."""
    store = ask.site.store
    results = [study_results(store, name, samples=SAMPLES) for name in studies(store)]
    return page(ask, "studies.html", results=results, admin=ask.visitor.may("admin"))


def requested_study(ask: Ask) -> StudyRequest:
    """The requested study, validated."""
    kind = ask.field("kind") or "systems"
    if kind not in KINDS:
        raise LimnerError(f"kind = {kind[:20]!r}: expected {' or '.join(KINDS)}")
    queries = whole_number(ask.field("queries") or "20", "queries", high=10_000)
    people = whole_number(ask.field("people") or "1", "people", high=100)
    name = ask.field("name").strip()[:80] or _free_name(ask, kind)
    return StudyRequest(kind, name, queries, people, ask.field("judgements")[:100])


def _free_name(ask: Ask, kind: str) -> str:
    """The default name of a kind of study, with a number from the second study on."""
    usual, used_names = STUDY if kind == "systems" else kind, set(studies(ask.site.store))
    return next(
        name
        for name in itertools.chain([usual], (f"{usual} {n}" for n in itertools.count(2)))
        if name not in used_names
    )


def make(ask: Ask, job: Job, settings: StudyRequest) -> str:
    """Creates the study; returns the result as text."""
    library, name = ask.site.library, judged_collection(ask)
    loaded = library.loaded(name, patience=None)
    study = (_of_systems if settings.kind == "systems" else _of_rankings)(ask, name, loaded, settings)
    library.record(name, ask.site.store, job)
    added = add_study(ask.site.store, study, name=settings.name, people=settings.people)
    return f"{count(added, 'comparison')} made"


def _of_systems(ask: Ask, name: str, loaded: Loaded, settings: StudyRequest) -> PreferenceStudy:
    library = ask.site.library
    ready = {each: library.system(name, each, patience=None).scores for each in library.names}
    lists = {each: scores.T.top(5) for each, scores in ready.items()}
    truth = loaded.evaluated.judged(settings.judgements or loaded.evaluated.judgements.name, "t2i")
    return study_of_systems(lists, judgements=truth, queries=settings.queries)


def _of_rankings(ask: Ask, name: str, loaded: Loaded, settings: StudyRequest) -> PreferenceStudy:
    richest = max(loaded.evaluated.all_judgements.items(), key=lambda each: len(each[1]))[0]
    truth = loaded.evaluated.judged(settings.judgements or richest, "t2i")
    return study_of_rankings(truth, queries=settings.queries)
