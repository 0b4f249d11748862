"""Tasks with the crowd's form (`forms/captions.toml`): a tick is a yes (grade 4), no tick is a no (grade 1)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby

from limner.annotate.form import StudyForm
from limner.annotate.form_files import read_form
from limner.annotate.store import AlreadyFull, Store
from limner.annotate.store.answers import submit
from limner.annotate.store.tasks import Item
from limner.core.errors import LimnerError

YES, NO = 4, 1


def crowd_form() -> StudyForm:
    """The question, the rules and their version, which is stored with every answer."""
    return read_form("captions")


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
    finished, guideline = False, crowd_form().guideline
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
                guideline=guideline,
            )
        except AlreadyFull:  # someone else gave the last answer in the meantime
            continue
        finished = finished or saved.finished
    return finished
