"""The crowd form on the page: one image, ten captions with a checkbox each, and the guideline next to them."""

from __future__ import annotations

from starlette.responses import RedirectResponse, Response

from limner.core.errors import LimnerError
from limner.web.judging import answer_key, fitting, form_page, image_url_of, judged_collection, whole
from limner.web.site import Ask


def captions_page(ask: Ask) -> Response:
    """The next image of a task with unanswered captions, or the requested one."""
    from limner.annotate.crowd import WORDS, blocks
    from limner.annotate.store.tasks import lease

    store, me = ask.site.store, ask.site.annotator(ask.visitor)
    held = lease(store, me)
    if held is None or held.kind != "captions":
        return RedirectResponse("/judge", 303)
    shown = blocks(held.items)
    first = next((n for n, block in enumerate(shown) if any(item.grade is None for item in block)), len(shown) - 1)
    at = min(ask.number("at", first), len(shown) - 1)
    return form_page(
        ask, "captions.html", name="Judge", held=held, at=at, block=shown[at], guideline=WORDS, total=len(shown),
        source=image_url_of(judged_collection(ask), shown[at][0]),
        done=sum(all(item.grade is not None for item in block) for block in shown),
    )  # fmt: skip


def captions_form(ask: Ask) -> Response:
    """Stores the ticks of one image; sending the same form again changes nothing."""
    from limner.annotate.crowd import blocks, submit_block
    from limner.annotate.store.tasks import assignment_of

    me, key = ask.site.annotator(ask.visitor), answer_key(ask.field("key"))
    held = assignment_of(ask.site.store, me, whole(ask.field("assignment"), "assignment"))
    image = ask.field("image")
    block = next((each for each in blocks(held.items) if each[0].image == image), None)
    if held.kind != "captions" or block is None:
        raise LimnerError("this task has no such image with captions to tick: request a task again")
    ticked = [whole(value, "caption") for value in ask.form.getlist("fits")]
    with fitting():
        submit_block(ask.site.store, me, block, ticked, key=key)
    return RedirectResponse("/judge", 303)
