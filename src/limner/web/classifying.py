"""Failures on the page: the query, its relevant image, the returned image, and the classes that disagree."""

from __future__ import annotations

from starlette.responses import JSONResponse, RedirectResponse, Response

from limner.core.errors import LimnerError, count
from limner.web.judging import answer_key, body, empty_page, fitting, form_page, json_whole, judged_collection, whole
from limner.web.site import Ask, page


def classify_page(ask: Ask, error: str = "") -> Response:
    """The next failure, or the progress of the study; with an error, the answer that was refused."""
    from limner.annotate.failing import CHOICES, KEYS, QUESTION
    from limner.annotate.store.failures import RATINGS, failure_progress, next_failure

    store = ask.site.store
    failure, done = next_failure(store, ask.site.annotator(ask.visitor)), failure_progress(store)
    if not done["asked"]:
        lead = "A study shows wrong first answers beside the right ones. Make one with: limner annotate failures"
        return empty_page(ask, "Rate failures", "No failure to rate yet", lead)
    if failure is None:
        lead = f"{done['answers']:,} of {count(done['asked'], 'answer')} given."
        return empty_page(
            ask, "Rate failures", "No failure is left to rate", lead, [("/classes", "See what people said")]
        )
    classes, rating = _sent(ask, failure.id)
    return form_page(
        ask, "classify.html", name="Rate failures", failure=failure, done=done["answers"], total=done["asked"],
        error=error, collection=judged_collection(ask), choices=CHOICES, keys=KEYS, question=QUESTION, ratings=RATINGS,
        classes=classes, rating=rating,
    )  # fmt: skip


def _sent(ask: Ask, number: int) -> tuple[list[str], str]:
    """The classes and the rating that were sent about this failure; empty if they were about another one."""
    return (_marked(ask), ask.field("rating")) if ask.field("failure") == str(number) else ([], "")


def _marked(ask: Ask) -> list[str]:
    return [value for value in ask.form.getlist("class") if isinstance(value, str)]


def classify_form(ask: Ask) -> Response:
    """An answer sent as a form; sending the same form again changes nothing."""
    from limner.annotate.store.failures import check_classes

    number, rating = whole(ask.field("failure"), "failure"), whole(ask.field("rating"), "rating", high=10)
    try:
        check_classes(_marked(ask))
    except LimnerError as error:
        return classify_page(ask, str(error))
    _judge(ask, number, ask.field("key"), _marked(ask), rating, None)
    return RedirectResponse("/classify", 303)


def _judge(ask: Ask, number: int, key: object, classes: list[str], rating: int, milliseconds: int | None) -> bool:
    from limner.annotate.store.failures import check_classes, judge_failure

    me, checked, named = ask.site.annotator(ask.visitor), answer_key(key), check_classes(classes)
    with fitting():
        return judge_failure(
            ask.site.store, me, number, key=checked, classes=named, rating=rating, milliseconds=milliseconds
        )


def api_failure_answer(ask: Ask) -> Response:
    """Stores an answer about a failure."""
    given = body(ask, ("failure", "key", "classes", "rating", "milliseconds"), ("failure", "key", "classes", "rating"))
    classes, took = given["classes"], given.get("milliseconds")
    if not isinstance(classes, list) or not all(isinstance(name, str) for name in classes):
        raise LimnerError("classes: expected a list of names")
    milliseconds = None if took is None else whole(took, "milliseconds", low=0, high=86_400_000)
    number, rating = json_whole(given["failure"], "failure"), json_whole(given["rating"], "rating", high=10)
    new = _judge(ask, number, given["key"], classes, rating, milliseconds)
    return JSONResponse({"saved": True, "repeated": not new})


def classes_page(ask: Ask) -> Response:
    """The results: shares, ratings, classes per failure, rules."""
    from limner.annotate.failing import results
    from limner.annotate.store.failures import failure_studies

    store = ask.site.store
    return page(ask, "classes.html", found=[results(store, study=name) for name in failure_studies(store)])
