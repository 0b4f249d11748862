"""The guideline on the page: shown before the first pair, with three practice pairs, and edited by an admin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.responses import RedirectResponse, Response

from limner.core.errors import LimnerError, UnknownId
from limner.web.judging import judged_collection
from limner.web.site import Ask, page

if TYPE_CHECKING:
    from limner.annotate.guideline import Guideline, GuidelineExample
    from limner.annotate.scale import Scale

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
    from limner.annotate.guideline import newest
    from limner.annotate.store.scales import scale_of

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
    from limner.annotate.scale import relevant

    agrees, right = relevant(grade) == relevant(pair.grade), scale.by_value[pair.grade]
    named = f"{right.key}, {right.label}"
    if grade == pair.grade:
        return Feedback(True, f"Yes: {named}. {pair.why}".strip())
    return Feedback(agrees, f"{'Close. ' if agrees else ''}The guideline says {named}. {pair.why}".strip())


def _pairs(ask: Ask, guideline: Guideline) -> Sequence[GuidelineExample]:
    """The first examples; if there are not enough, labelled pairs and a mismatched pair."""
    from limner.annotate.guideline import GuidelineExample

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
    from limner.annotate.guideline import revise
    from limner.annotate.store.scales import scale_of

    scale = scale_of(ask.site.store)
    examples = [_example(ask, line, scale) for line in ask.field("examples").splitlines() if line.strip()]
    revise(ask.site.store, ask.field("text").replace("\r\n", "\n"), examples)
    return RedirectResponse("/admin#guideline", 303)


def _example(ask: Ask, line: str, scale: Scale) -> GuidelineExample:
    """An example: image | caption | key of the grade | why."""
    from limner.annotate.guideline import GuidelineExample

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
