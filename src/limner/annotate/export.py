"""Converts a store's answers to files and back, to judgements, and to the failure classes of `limner.explain`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from limner.annotate._sql import inserted, sa
from limner.annotate.aggregate import METHODS, majority
from limner.annotate.failing import labelled
from limner.annotate.forms import FORMS, form_of, write
from limner.annotate.guideline import newest
from limner.annotate.label_studio import IMAGE_URL, tasks, write_tasks
from limner.annotate.merge import to_judgements
from limner.annotate.scale import Given, Scale
from limner.annotate.store import Store
from limner.annotate.store.answers import Answer, answers
from limner.annotate.store.contents import Key, pair_numbers
from limner.annotate.store.contents import pairs as stored_pairs
from limner.annotate.store.failures import failure_answers
from limner.annotate.store.people import annotator_ids
from limner.annotate.store.scales import refuse_changed, scale_of
from limner.annotate.store.schema import assignment, caption, judgement, task, task_item
from limner.core.errors import LimnerError, UnknownName
from limner.core.judgements import Judgements
from limner.explain.failures import Failure
from limner.explain.labels import ALTERNATIVE

__all__ = ["FORMS", "export", "failure_labels", "import_answers", "judgements"]


def export(
    store: Store,
    path: str | Path,
    *,
    form: str | None = None,
    method: str = "majority",
    counted: bool = True,
    image_url: str = IMAGE_URL,
) -> int:
    """Writes a store's answers (csv, jsonl, crowd, label-studio) or labels (qrels, eccv); returns the number of rows.

    Args:
        store: The store.
        path: A file, or a folder for the ECCV Caption format.
        form: One of `FORMS`; by default from the file ending.
        method: How answers are aggregated: "majority" or "dawid-skene".
        counted: Whether to leave out excluded answers.
        image_url: For Label Studio, whose tasks are all pooled pairs: address of an image, with `{image}` for its id.
    """
    if method not in METHODS:
        raise UnknownName("way to aggregate", method, METHODS)
    given = answers(store, counted=counted)
    if form_of(path, form) == "label-studio":
        pooled = [(p.image, p.caption) for p in stored_pairs(store) if p.origin != "control"]
        said = [answer for answer in given if answer.role == "real"]
        texts = {row["key"]: row["text"] for row in store.rows(sa.select(caption.c.key, caption.c.text))}
        scale = scale_of(store)
        return write_tasks(tasks(pooled, texts, answers=said, image_url=image_url, scale=scale), path, scale=scale)
    if image_url != IMAGE_URL:
        raise LimnerError("image_url is for the form label-studio only: leave it out")
    if not given:
        raise LimnerError("no answers yet: nothing to write")
    return write(given, lambda: METHODS[method](given), path, form=form, scale=scale_of(store))


def judgements(store: Store, *, method: str = "majority", name: str = "annotated") -> Judgements:
    """The store's answers as judgements, image -> text."""
    if method not in METHODS:
        raise UnknownName("way to aggregate", method, METHODS)
    return to_judgements(METHODS[method](answers(store)), name=name)


def import_answers(store: Store, given: Iterable[Given], *, key: str) -> int:
    """Imports answers from a file into a store with their images and captions, as finished tasks.

    Pairs judged by the same people form one task; no pair may already be in another task. A second import under the
    same key is refused, so that nothing is counted twice. The answers get the newest version of the store's guideline.

    Args:
        store: The store.
        given: The answers; their grades and reasons must be those of the store's scale.
        key: Name of the import, e.g. the file's name and hash.

    Returns:
        How many answers were added.
    """
    by_pair: dict[Key, dict[str, Given]] = {}
    scale, version = scale_of(store), newest(store).version
    for each in given:
        scale.check_reasons(each.reasons, scale.check_grade(each.grade))
        said = by_pair.setdefault((each.image, each.caption), {})
        if each.annotator in said:
            raise LimnerError(
                f"{each.annotator!r} answers image {each.image!r}, caption {each.caption!r} twice: keep one"
            )
        said[each.annotator] = each
    people = annotator_ids(store, sorted({name for said in by_pair.values() for name in said}))
    groups: dict[tuple[str, ...], list[Key]] = {}
    for pair, said in by_pair.items():
        groups.setdefault(tuple(sorted(said)), []).append(pair)
    with store.writing() as connection:
        refuse_changed(store, connection, scale)
        if connection.scalar(
            sa.select(judgement.c.id)
            .where(judgement.c.client_key.startswith(f"import:{key}:", autoescape=True))
            .limit(1)
        ):
            raise LimnerError(f"{key!r} was already imported: it is not counted twice")
        numbers = pair_numbers(store, connection, by_pair, origin="pool", turn=1)
        for group, pairs in groups.items():
            _import_task(store, connection, group, [(numbers[p], by_pair[p]) for p in pairs], people, key, version)
    return sum(map(len, by_pair.values()))


def _import_task(
    store: Store,
    connection: sa.Connection,
    group: Sequence[str],
    pairs: Sequence[tuple[int, dict[str, Given]]],
    people: dict[str, int],
    key: str,
    version: str,
) -> None:
    now = store.now()
    number = inserted(connection, task, kind="pairs", seed=0, turn=1, replication=len(group), done=True, added=now)
    times = {"leased": now, "expires": now, "finished": now}
    held = {
        name: inserted(connection, assignment, task_id=number, annotator_id=people[name], **times) for name in group
    }
    for place, (pair, said) in enumerate(pairs):
        try:
            item = inserted(connection, task_item, task_id=number, position=place, pair_id=pair, role="real")
        except sa.exc.IntegrityError as error:
            one = next(iter(said.values()))
            raise LimnerError(f"image {one.image!r}, caption {one.caption!r} is already in another task") from error
        rows = [
            {
                "assignment_id": held[name], "item_id": item, "revision": 1,
                "client_key": f"import:{key}:{item}:{name}",
                "grade": each.grade, "reasons": json.dumps(each.reasons), "milliseconds": each.milliseconds,
                "guideline": version, "added": now, "comment": each.comment or None,
            }
            for name, each in said.items()
        ]  # fmt: skip
        connection.execute(sa.insert(judgement), rows)


# --- failures ---------------------------------------------------------------------------------------------------


def failure_labels(store: Store, found: Iterable[Failure]) -> dict[str, frozenset[str]]:
    """Human failure classes by query, for failures whose pair has answers in the store.

    If people judged the failures themselves (`limner.annotate.failing`), those classes are used. Otherwise a pair that
    the majority grades "100% yes" is an acceptable alternative, and so is one graded "partially yes" without a reason.
    Otherwise the classes are those of the reasons given by at least half of the people who did not say yes. Failures
    that nobody judged, or with no class, are left out. The format is that of `limner.explain.labels.read_labels`.
    """
    by_pair: dict[Key, list[Answer]] = {}
    for answer in answers(store):
        if answer.role == "real":
            by_pair.setdefault((answer.image, answer.caption), []).append(answer)
    texts: dict[str, list[str]] = {}
    for row in store.rows(sa.select(caption.c.key, caption.c.text)):
        texts.setdefault(row["text"], []).append(row["key"])
    labels, scale = {}, scale_of(store)
    failed = list(found)
    wanted = {(failure.query, failure.returned) for failure in failed}
    judged = labelled(a for a in failure_answers(store) if (a.query, a.returned) in wanted)
    for failure in failed:
        if judged.get(failure.query):
            labels[failure.query] = judged[failure.query]
            continue
        keys = [(failure.returned, failure.query)] if failure.by_text else _of_text(failure, texts)
        given = next((by_pair[key] for key in keys if key in by_pair), [])
        if given and (classes := _classes(given, scale)):
            labels[failure.query] = classes
    return labels


def _of_text(failure: Failure, texts: dict[str, list[str]]) -> list[Key]:
    """The pair of the query image and the returned caption, looked up by its text."""
    return [(failure.query, key) for key in texts.get(failure.text, ())]


def _classes(given: Sequence[Answer], scale: Scale) -> frozenset[str]:
    grade, _ = majority([a.grade for a in given])
    doubters = [a for a in given if a.grade < 4]
    class_of = scale.classes
    counts = Counter(name for a in doubters for name in {class_of[r] for r in a.reasons if r in class_of})
    named = frozenset(name for name, count in counts.items() if 2 * count >= len(doubters))
    if grade == 4 or (grade == 3 and not named):
        return frozenset({ALTERNATIVE})
    return named
