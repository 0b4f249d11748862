"""Sheets: pairs without an answer as csv, to be filled in with a spreadsheet and imported again."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from limner.annotate._sql import sa
from limner.annotate.scale import Scale
from limner.annotate.store import Store
from limner.annotate.store.answers import answers
from limner.annotate.store.contents import Key
from limner.annotate.store.free_tasks import taken_out
from limner.annotate.store.schema import caption, image, pair, task, task_item
from limner.core.errors import LimnerError
from limner.core.files import replacing
from limner.core.markup import guarded_row

COLUMNS = ("image", "caption", "text", "grade", "reasons", "comment", "annotator")


def open_pairs(store: Store) -> list[Key]:
    """The pairs with fewer answers than their task asks for, or than one if they are in no task, in order.

    Excluded pairs and answers do not count.
    """
    needs = sa.func.coalesce(sa.func.max(task.c.replication), 1)
    barred = taken_out(pair=pair.c.id, image=pair.c.image_id, caption=pair.c.caption_id)
    query = (
        sa.select(image.c.key.label("image"), caption.c.key.label("caption"), needs.label("needs"))
        .select_from(pair)
        .join(image)
        .join(caption)
        .outerjoin(task_item, sa.and_(task_item.c.pair_id == pair.c.id, task_item.c.role == "real"))
        .outerjoin(task, task.c.id == task_item.c.task_id)
        .where(pair.c.origin != "control", sa.not_(barred))
        .group_by(pair.c.id, image.c.key, caption.c.key)
        .order_by(pair.c.id)
    )
    counts = Counter((a.image, a.caption) for a in answers(store) if a.role == "real")
    rows = store.rows(query)
    return [key for row in rows if counts[key := (row["image"], row["caption"])] < row["needs"]]


def write_sheet(pairs: Iterable[tuple[str, str]], texts: Mapping[str, str], path: str | Path) -> int:
    """Writes a row for every pair, with empty columns for the answer; returns how many there are.

    Args:
        pairs: Ids of images and captions.
        texts: Text of each caption, by id.
        path: The file.
    """
    rows = [{"image": image, "caption": caption, "text": texts[caption]} for image, caption in dict.fromkeys(pairs)]
    if not rows:
        raise LimnerError("every pair has its answers: nothing to write")
    with replacing(path) as draft, draft.open("w", encoding="utf-8-sig", newline="") as file:  # as spreadsheets expect
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(guarded_row(row) for row in rows)
    return len(rows)


def sheet_grade(cell: object, scale: Scale) -> int:
    """The grade in a cell: its value, or its words in the scale.

    >>> from limner.annotate.scale import SCALE
    >>> sheet_grade("4.0", SCALE), sheet_grade("Mostly no", SCALE)
    (4, 2)
    """
    text = str(cell).strip()
    words = {grade.label.casefold(): grade.value for grade in scale.grades}
    if text.casefold() in words:
        return words[text.casefold()]
    try:
        number = float(text)
    except ValueError:
        number = 0.5
    return scale.check_grade(int(number) if number.is_integer() else text)
