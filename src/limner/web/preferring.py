"""The preference study on the page: two anonymous lists for one query, side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse, RedirectResponse, Response

from limner.core.errors import LimnerError, count
from limner.web.judging import answer_key, body, empty_page, form_page, json_whole, judged_collection, whole
from limner.web.site import Ask

if TYPE_CHECKING:
    from limner.annotate.store.votes import ListComparison


def prefer_page(ask: Ask) -> Response:
    """The next comparison, or the progress of the study."""
    from limner.annotate.store.votes import next_comparison, study_progress, study_setting

    asked = next_comparison(ask.site.store, ask.site.annotator(ask.visitor))
    done = study_progress(ask.site.store)
    if asked is None and not done["asked"]:
        lead = "A preference study shows two rankings for the same query, and people say which is better."
        return empty_page(ask, "Prefer", "No study yet", lead, [("/admin#study", "Make a study")])
    if asked is None:
        lead = f"{done['votes']:,} of {count(done['asked'], 'vote')} given."
        return empty_page(ask, "Prefer", "Nothing left to compare", lead, [("/studies", "See what the votes say")])
    return form_page(
        ask, "prefer.html", name="Prefer", comparison=asked, shown=_shown(ask, asked), done=done["votes"],
        total=done["asked"], collection=judged_collection(ask),
        ties=study_setting(ask.site.store, asked.study).get("ties", True),
    )  # fmt: skip


def _shown(ask: Ask, asked: ListComparison) -> dict[str, object]:
    """The query and both lists as images or texts."""
    from limner.annotate.store.contents import caption_text

    texts = asked.direction == "i2t"
    lists = {
        side: [caption_text(ask.site.store, key) if texts else key for key in listed]
        for side, listed in (("left", asked.left_items), ("right", asked.right_items))
    }
    return {"query": asked.query if texts else caption_text(ask.site.store, asked.query), **lists}


def prefer_form(ask: Ask) -> Response:
    """A vote by form."""
    _vote(ask, whole(ask.field("comparison"), "comparison"), ask.field("key"), ask.field("choice"), None)
    return RedirectResponse("/prefer", 303)


def _vote(ask: Ask, comparison: int, key: object, choice: object, milliseconds: int | None) -> bool:
    from limner.annotate.store.votes import cast_vote

    if not isinstance(choice, str):
        raise LimnerError("choice: expected left, right or tie")
    me, checked = ask.site.annotator(ask.visitor), answer_key(key)
    return cast_vote(ask.site.store, me, comparison, key=checked, choice=choice, milliseconds=milliseconds)


def api_comparison(ask: Ask) -> Response:
    """The next comparison."""
    from limner.annotate.store.votes import next_comparison, study_setting

    asked = next_comparison(ask.site.store, ask.site.annotator(ask.visitor))
    if asked is None:
        return JSONResponse({"comparison": None})
    ties = study_setting(ask.site.store, asked.study).get("ties", True)
    known = {"id": asked.id, "direction": asked.direction, "ties": ties}
    return JSONResponse({"comparison": {**known, **_shown(ask, asked)}})


def api_vote(ask: Ask) -> Response:
    """Stores a vote."""
    given = body(ask, ("comparison", "key", "choice", "milliseconds"), ("comparison", "key", "choice"))
    took = given.get("milliseconds")
    milliseconds = None if took is None else whole(took, "milliseconds", low=0, high=86_400_000)
    new = _vote(ask, json_whole(given["comparison"], "comparison"), given["key"], given["choice"], milliseconds)
    return JSONResponse({"saved": True, "repeated": not new})
