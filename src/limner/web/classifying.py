"""Failures on the page: the query, its relevant image, the returned image, and the classes that disagree."""

from __future__ import annotations

import secrets

from starlette.responses import JSONResponse, RedirectResponse, Response

from limner.core.errors import LimnerError
from limner.web.judging import answer_key, body, fitting, json_whole, judged_collection, whole
from limner.web.site import Ask, page


def classify_page(ask: Ask) -> Response:
    """The next failure, or the progress of the study."""
    from limner.annotate.failing import CHOICES, QUESTION
    from limner.annotate.store.failures import RATINGS, failure_progress, next_failure

    asked = next_failure(ask.site.store, ask.site.annotator(ask.visitor))
    return page(
        ask, "classify.html", asked=asked, done=failure_progress(ask.site.store), collection=judged_collection(ask),
        choices=CHOICES, question=QUESTION, ratings=RATINGS,
        key=secrets.token_urlsafe(16), looks=ask.visitor.may("reviewer"),
    )  # fmt: skip


def classify_form(ask: Ask) -> Response:
    """An answer sent as a form; sending the same form again changes nothing."""
    classes = [value for value in ask.form.getlist("class") if isinstance(value, str)]
    number, rating = whole(ask.field("failure"), "failure"), whole(ask.field("rating"), "rating", high=10)
    _judge(ask, number, ask.field("key"), classes, rating, None)
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
