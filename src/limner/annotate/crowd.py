"""The crowd form of Flickr8k (Hodosh et al. 2013, section 4.3.2): one image, ten captions, a tick for each that fits.

A tick is a yes (grade 4), no tick is a no (grade 1). A caption with minor mistakes may be ticked, unlike a "100% yes"
of the pair form, so these answers have their own guideline version. The paper's guideline is in an unpublished
appendix; the wording here follows its description in the paper.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby

from limner.annotate.store import AlreadyFull, Store
from limner.annotate.store.answers import submit
from limner.annotate.store.tasks import Item
from limner.core.errors import LimnerError

GUIDELINE = "crowd-1"
"""Version of the wording below; it is stored with every answer given on this form."""
WORDS = (
    "Tick every caption that describes the image. Several may fit, or none.",
    "Minor mistakes are allowed, for example in the number of people or things.",
    "Do not tick a caption that describes only some part of the image and could not stand under it.",
    "Do not tick a caption that has nothing to do with the image.",
)
YES, NO = 4, 1


def blocks(items: Sequence[Item]) -> list[tuple[Item, ...]]:
    """The captions of each image, in the order they are shown."""
    return [tuple(block) for _, block in groupby(items, key=lambda item: item.image)]


def submit_block(
    store: Store,
    annotator_id: int,
    block: Sequence[Item],
    ticked: Collection[int],
    *,
    key: str,
    milliseconds: int | None = None,
) -> bool:
    """Stores the answers to all captions of one image; returns True if they finish the task.

    Args:
        store: The store.
        annotator_id: The annotator.
        block: The captions of one image, from `blocks`.
        ticked: Ids (`Item.id`) of the captions that describe the image.
        key: Created by the client; the same when the block is sent again.
        milliseconds: Time spent on the whole block; it is divided equally among the captions.
    """
    strange = set(ticked) - {item.id for item in block}
    if strange:
        raise LimnerError(
            f"caption {min(strange)} does not belong to this image: expected some of the {len(block)} shown"
        )
    took = None if milliseconds is None else milliseconds // max(1, len(block))
    finished = False
    for item in block:
        grade = YES if item.id in ticked else NO
        try:
            saved = submit(
                store,
                annotator_id,
                item.id,
                key=f"{key}-{item.id}",
                grade=grade,
                milliseconds=took,
                guideline=GUIDELINE,
            )
        except AlreadyFull:  # someone else gave the last answer in the meantime
            continue
        finished = finished or saved.finished
    return finished
