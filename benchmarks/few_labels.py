"""Few labels at size: planning for a collection as large as COCO's test split, and estimating from 100,000 answers.

5,000 images and 25,000 captions, two systems (vectors of 64 numbers). Planned are R@1, and mAP@R, which needs all
matches of a query. The estimate of P@5 over 25,000 queries reads 100,000 answers from the store (SQLite).
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import limner
from claims import Claim, Task, log, main, measured
from limner import Embeddings
from limner.annotate import open_store, plan
from limner.annotate.estimate import estimates
from limner.annotate.store import Store
from limner.annotate.store.contents import add_collection, insert
from limner.annotate.store.people import add_annotator
from limner.annotate.store.schema import assignment, judgement, task_item
from limner.core.collection import Collection, Items
from limner.core.judgements import Judgements


def world(images: int) -> tuple[Collection, dict[str, Any]]:
    """Images with five captions each, and two systems of which one sees less."""
    random = np.random.default_rng(0)
    names, texts = [f"i{n:05}" for n in range(images)], [f"t{n:06}" for n in range(5 * images)]
    pairs = [(names[n // 5], text) for n, text in enumerate(texts)]
    judged = Judgements.from_pairs(pairs, queries=names, candidates=texts, name="pairs")
    made = Collection("large", Items(names, [None] * images), Items(texts, texts, kind="text"), judged)
    pictures = random.normal(size=(images, 64))
    words = np.repeat(pictures, 5, axis=0) + 1.5 * random.normal(size=(5 * images, 64))
    systems = {
        name: limner.Scores.from_embeddings(Embeddings(names, pictures[:, :width]), Embeddings(texts, words[:, :width]))
        for name, width in (("wide", 64), ("narrow", 32))
    }
    return made, systems


def planning(folder: str, images: int, measure: str) -> Callable[[], object]:
    """Plans and draws, tasks and all."""
    made, systems = world(images)
    store = open_store(Path(folder) / f"plan-{measure.replace('@', '')}.db")
    add_collection(store, made)
    for scores in systems.values():
        scores.top(5)  # compiled
    return lambda: [str(each) for each in plan(store, made, systems, measures=measure, direction="t2i", half_width=5)]


def estimating(folder: str, images: int, answers: int) -> Callable[[], object]:
    """Estimates from as many answers as there are; they are written beforehand."""
    made, systems = world(images)
    store = open_store(Path(folder) / "answers.db")
    add_collection(store, made)
    plan(store, made, systems, measures="P@5", direction="t2i", half_width=0.01, budget=answers)
    _answer(store)
    source = {"t2i": systems["wide"].T}
    systems["wide"].top(5)

    def work() -> dict[str, Any]:
        (found,), _ = estimates(store, source, made)
        return {"labels": found.labels, "queries": found.queries, "text": str(found)}

    return work


def _answer(store: Store) -> None:
    """One person answers every task, one in four with yes; straight into the tables."""
    who = add_annotator(store, "ada").id
    random, now = np.random.default_rng(1), store.now()
    with store.reading() as connection:
        items = [
            tuple(row)
            for row in connection.execute(task_item.select().with_only_columns(task_item.c.id, task_item.c.task_id))
        ]
    tasks = {task: n for n, task in enumerate(dict.fromkeys(task for _, task in items), start=1)}
    held = [{"id": n, "task_id": task, "annotator_id": who, "leased": now, "expires": now, "finished": now}
            for task, n in tasks.items()]  # fmt: skip
    said = np.where(random.random(len(items)) < 0.25, 4, 1).tolist()
    given = [
        {"assignment_id": tasks[task], "item_id": item, "revision": 1, "client_key": str(item), "grade": grade,
         "reasons": "[]", "milliseconds": 900, "guideline": "", "added": now}
        for (item, task), grade in zip(items, said, strict=True)
    ]  # fmt: skip
    with store.writing() as connection:
        insert(connection, assignment, held)
        insert(connection, judgement, given)


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Seconds of work and peak memory of both."""
    images, answers = (500, 5_000) if options.quick else (5_000, 100_000)
    with tempfile.TemporaryDirectory() as folder:
        for measure, goal in (("R@1", "<= 60"), ("mAP@R", "<= 60")):
            cost = measured(Task(planning, folder, images, measure))
            log("\n".join(cost.value))
            note = f"{5 * images:,} captions as queries, {images:,} images, two systems; "
            note += f"{cost.wall:.1f} s on the clock, peak {cost.peak:,.0f} MB"
            yield Claim(f"plan for {measure}, CPU seconds", cost.cpu, goal=goal, note=note)
        cost = measured(Task(estimating, folder, images, answers))
        log(str(cost.value))
        note = f"{cost.value['labels']:,} labels over {cost.value['queries']:,} queries; {cost.wall:.1f} s on the clock"
        yield Claim("estimate of P@5, CPU seconds", cost.cpu, goal="<= 10", note=note)
        yield Claim("estimate of P@5, peak memory, MB", cost.peak, goal="<= 2000", note=note)


if __name__ == "__main__":
    main(run, __doc__)
