"""Converts a store's answers to files and back, to judgements, and to the failure classes of `limner.explain`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from limner.annotate.answer_files import FORMS, form_of, write, write_sheet
from limner.annotate.failure_study import failure_answers, labelled
from limner.annotate.guideline import newest, refuse_changed, scale_of
from limner.annotate.labelling_tools import IMAGE_URL, tasks, write_records, write_tasks
from limner.annotate.merge import METHODS, aggregate, majority, to_judgements
from limner.annotate.scale import ImportedAnswer, Scale
from limner.annotate.store import Store
from limner.annotate.store.answers import Answer, answers, by_pair
from limner.annotate.store.contents import Key, caption_texts, pair_numbers
from limner.annotate.store.contents import pairs as stored_pairs
from limner.annotate.store.people import annotator_ids
from limner.annotate.store.reservations import taken_out
from limner.annotate.store.schema import Row, assignment, caption, image, inserted, judgement, sa, task, task_item
from limner.annotate.store.schema import pair as pair_table
from limner.annotate.store.tasks import settle, state_of
from limner.core.errors import LimnerError, UnknownName
from limner.core.judgements import Judgements
from limner.explain.failure_classes import ALTERNATIVE
from limner.explain.failures import Failure

__all__ = ["FORMS", "export", "failure_labels", "import_answers", "judgements"]


def export(
    store: Store,
    path: str | Path,
    *,
    form: str | None = None,
    method: str = "majority",
    counted: bool = True,
    image_url: str = IMAGE_URL,
    only_open: bool = False,
) -> int:
    """Writes a store's answers (csv, jsonl, crowd), labels (qrels, eccv) or pairs to judge (label-studio, argilla).

    Args:
        store: The store.
        path: A file, or a folder for the ECCV Caption format.
        form: One of `FORMS`; by default from the file ending.
        method: How answers are aggregated: "majority" or "dawid-skene".
        counted: Whether to leave out excluded answers.
        image_url: For Label Studio and Argilla, whose tasks are all pooled pairs: address of an image, with `{image}`
            for its id.
        only_open: Whether to write only the pairs that need answers: for a spreadsheet (csv), Label Studio or Argilla.

    Returns:
        The number of rows.
    """
    if method not in METHODS:
        raise UnknownName("way to aggregate", method, METHODS)
    chosen = form_of(path, form)
    if chosen == "argilla" or only_open:
        return _export_pairs(store, path, chosen, image_url, only_open=only_open)
    collected = answers(store, counted=counted)
    if chosen == "label-studio":
        pooled = [(p.image, p.caption) for p in stored_pairs(store) if p.origin != "control"]
        real_answers = [answer for answer in collected if answer.role == "real"]
        texts, scale = caption_texts(store), scale_of(store)
        return write_tasks(
            tasks(pooled, texts, answers=real_answers, image_url=image_url, scale=scale), path, scale=scale
        )
    if image_url != IMAGE_URL:
        raise LimnerError("image_url is for the forms label-studio and argilla: leave it out")
    if not collected:
        raise LimnerError("no answers yet: nothing to write")
    return write(collected, lambda: aggregate(collected, method), path, form=form, scale=scale_of(store))


def _export_pairs(store: Store, path: str | Path, form: str, image_url: str, *, only_open: bool) -> int:
    """Writes pairs without their answers."""
    if form not in ("csv", "label-studio", "argilla"):
        raise LimnerError(f"pairs that need answers are written as csv, label-studio or argilla, not as {form}")
    pooled = [(p.image, p.caption) for p in stored_pairs(store) if p.origin != "control"]
    chosen, texts = open_pairs(store) if only_open else pooled, caption_texts(store)
    if form == "csv":
        return write_sheet(chosen, texts, path)
    if form == "argilla":
        return write_records(chosen, texts, path, image_url=image_url)
    scale = scale_of(store)
    return write_tasks(tasks(chosen, texts, image_url=image_url, scale=scale), path, scale=scale)


def open_pairs(store: Store) -> list[Key]:
    """The pairs with fewer answers than their task asks for, or than one if they are in no task, in order.

    Excluded pairs and answers do not count.
    """
    needs = sa.func.coalesce(sa.func.max(task.c.replication), 1)
    barred = taken_out(pair=pair_table.c.id, image=pair_table.c.image_id, caption=pair_table.c.caption_id)
    query = (
        sa.select(image.c.key.label("image"), caption.c.key.label("caption"), needs.label("needs"))
        .select_from(pair_table)
        .join(image)
        .join(caption)
        .outerjoin(task_item, sa.and_(task_item.c.pair_id == pair_table.c.id, task_item.c.role == "real"))
        .outerjoin(task, task.c.id == task_item.c.task_id)
        .where(pair_table.c.origin != "control", sa.not_(barred))
        .group_by(pair_table.c.id, image.c.key, caption.c.key)
        .order_by(pair_table.c.id)
    )
    counts = Counter((a.image, a.caption) for a in answers(store) if a.role == "real")
    rows = store.rows(query)
    return [key for row in rows if counts[key := (row["image"], row["caption"])] < row["needs"]]


def judgements(store: Store, *, method: str = "majority", name: str = "annotated") -> Judgements:
    """The store's answers as judgements, image -> text."""
    return to_judgements(aggregate(answers(store), method), name=name)


def import_answers(store: Store, file_answers: Iterable[ImportedAnswer], *, key: str) -> int:
    """Imports answers from a file into a store with their images and captions.

    An answer to a pair that is in a task goes to this task, also if it has all the answers that were asked for. The
    other pairs form a finished task for all that the same people judged. An answer that the store has already is
    skipped; another one by the same person to the same pair is refused, and so is a second import under the same key.
    The answers get the newest version of the store's guideline.

    Args:
        store: The store.
        file_answers: The answers; their grades and reasons must be those of the store's scale.
        key: Name of the import, e.g. the file's name and hash.

    Returns:
        How many answers were added.
    """
    by_pair: dict[Key, dict[str, ImportedAnswer]] = {}
    scale = scale_of(store)
    for each in file_answers:
        checked = replace(each, reasons=scale.check_reasons(each.reasons, scale.check_grade(each.grade)))
        by_person = by_pair.setdefault((each.image, each.caption), {})
        if each.annotator in by_person:
            raise LimnerError(
                f"{each.annotator!r} answers image {each.image!r}, caption {each.caption!r} twice: keep one"
            )
        by_person[each.annotator] = checked
    people = annotator_ids(store, sorted({name for by_person in by_pair.values() for name in by_person}))
    source = _Source(key, newest(store).version, people)
    with store.writing() as connection:
        refuse_changed(store, connection, scale)
        if connection.scalar(
            sa.select(judgement.c.id)
            .where(judgement.c.client_key.startswith(f"import:{key}:", autoescape=True))
            .limit(1)
        ):
            raise LimnerError(f"{key!r} was already imported: it is not counted twice")
        numbers = pair_numbers(store, connection, by_pair, origin="pool", turn=1)
        items = _items(
            store, connection, {numbers[pair]: tuple(sorted(by_person)) for pair, by_person in by_pair.items()}
        )
        by_task: dict[int, dict[int, dict[str, ImportedAnswer]]] = {}
        for pair, by_person in by_pair.items():
            task_id, item = items[numbers[pair]]
            by_task.setdefault(task_id, {})[item] = by_person
        added = sum(_into_task(store, connection, each, by_item, source) for each, by_item in by_task.items())
        if by_pair and not added:
            raise LimnerError(f"{key!r}: all its answers are already in the store")
    return added


@dataclass(frozen=True)
class _Source:
    """What imported answers have in common: the key of the import, the guideline, and the annotators' ids."""

    key: str
    guideline: str
    people: Mapping[str, int]


def _items(
    store: Store, connection: sa.Connection, people_of: Mapping[int, tuple[str, ...]]
) -> dict[int, tuple[int, int]]:
    """Task and item of every pair; pairs without a task get one for all that the same people judged."""
    query = sa.select(task_item.c.pair_id, task_item.c.task_id, task_item.c.id).where(task_item.c.role == "real")
    items = {pair: (number, item) for pair, number, item in connection.execute(query) if pair in people_of}
    groups: dict[tuple[str, ...], list[int]] = {}
    for pair, group in people_of.items():
        if pair not in items:
            groups.setdefault(group, []).append(pair)
    for group, pairs in groups.items():
        values = {"kind": "pairs", "seed": 0, "turn": 1, "replication": len(group), "done": False}
        number = inserted(connection, task, **values, added=store.timestamp())
        for place, pair in enumerate(pairs):
            item_values = {"task_id": number, "position": place, "pair_id": pair, "role": "real"}
            items[pair] = number, inserted(connection, task_item, **item_values)
    return items


def _into_task(
    store: Store,
    connection: sa.Connection,
    number: int,
    by_item: Mapping[int, Mapping[str, ImportedAnswer]],
    source: _Source,
) -> int:
    """Adds answers to the items of one task; returns how many are new."""
    timestamp = store.timestamp()
    state = state_of(connection, number, lock=True)
    assignment_ids = {row["annotator_id"]: int(row["id"]) for row in state.assignments}
    for name in sorted({name for by_person in by_item.values() for name in by_person}):
        if (person := source.people[name]) not in assignment_ids:
            values = {"task_id": number, "annotator_id": person, "leased": timestamp, "expires": timestamp}
            assignment_ids[person] = inserted(connection, assignment, **values)
    rows: list[Row] = [
        {
            "assignment_id": assignment_ids[source.people[name]], "item_id": item, "revision": revision,
            "client_key": f"import:{source.key}:{item}:{name}",
            "grade": each.grade, "reasons": json.dumps(each.reasons), "milliseconds": each.milliseconds,
            "guideline": source.guideline, "added": timestamp, "comment": each.comment or None,
        }
        for item, by_person in by_item.items()
        for name, each in by_person.items()
        if (revision := _next_revision(state.latest.get((assignment_ids[source.people[name]], item)), each))
    ]  # fmt: skip
    if rows:
        connection.execute(sa.insert(judgement), rows)
        settle(connection, number, {row["assignment_id"] for row in rows}, timestamp)
    return len(rows)


def _next_revision(last: Mapping[str, object] | None, each: ImportedAnswer) -> int:
    """The number of the revision that an imported answer is; 0 if it is stored already."""
    if last is None or last["grade"] is None:
        return 1 if last is None else int(str(last["revision"])) + 1
    if (last["grade"], json.loads(str(last["reasons"]))) != (each.grade, list(each.reasons)):
        raise LimnerError(
            f"{each.annotator!r} has already given image {each.image!r}, caption {each.caption!r} another answer "
            f"(grade {last['grade']}, not {each.grade}): keep one of them"
        )
    return 0


# --- failures ---------------------------------------------------------------------------------------------------


def failure_labels(store: Store, failures: Iterable[Failure]) -> dict[str, frozenset[str]]:
    """Human failure classes by query, for failures whose pair has answers in the store.

    If people judged the failures themselves (`limner.annotate.failure_study`), those classes are used. Otherwise a pair
    that the majority grades "100% yes" is an acceptable alternative, and so is "partially yes" without a reason.
    Otherwise the classes are those of the reasons given by at least half of the people who did not say yes. Failures
    that nobody judged, or with no class, are left out. The format is that of
    `limner.explain.failure_classes.read_labels`.
    """
    answers_of = by_pair(answers(store))
    texts: dict[str, list[str]] = {}
    for key, text in caption_texts(store).items():
        texts.setdefault(text, []).append(key)
    labels, scale = {}, scale_of(store)
    failed = list(failures)
    failed_pairs = {(failure.query, failure.returned) for failure in failed}
    judged = labelled(a for a in failure_answers(store) if (a.query, a.returned) in failed_pairs)
    for failure in failed:
        if judged.get(failure.query):
            labels[failure.query] = judged[failure.query]
            continue
        keys = [(failure.returned, failure.query)] if failure.by_text else _of_text(failure, texts)
        pair_answers = next((answers_of[key] for key in keys if key in answers_of), [])
        if pair_answers and (classes := _classes(pair_answers, scale)):
            labels[failure.query] = classes
    return labels


def _of_text(failure: Failure, texts: dict[str, list[str]]) -> list[Key]:
    """The pair of the query image and the returned caption, looked up by its text."""
    return [(failure.query, key) for key in texts.get(failure.text, ())]


def _classes(answers: Sequence[Answer], scale: Scale) -> frozenset[str]:
    grade, _ = majority([a.grade for a in answers])
    doubters = [a for a in answers if a.grade < 4]
    class_of = scale.classes
    counts = Counter(name for a in doubters for name in {class_of[r] for r in a.reasons if r in class_of})
    named = frozenset(name for name, count in counts.items() if 2 * count >= len(doubters))
    if grade == 4 or (grade == 3 and not named):
        return frozenset({ALTERNATIVE})
    return named
