"""A small labelling study whose truth is known, for tests of what people see of it."""

from __future__ import annotations

import uuid
from functools import cache

import numpy as np

from limner.annotate.store import Store
from limner.annotate.store.answers import submit
from limner.annotate.store.people import add_annotator
from limner.annotate.store.tasks import lease
from limner.core.collection import Collection, Items
from limner.core.judgements import Judgements
from limner.scores import Scores


@cache
def study(
    n: int = 60, seed: int = 0, *, unlabelled: float = 0.05, noise: tuple[float, float] = (0.4, 1.0)
) -> tuple[Collection, dict[str, Scores], np.ndarray]:
    """Images and texts in pairs, of which more match than are labelled; two systems, one better; the truth."""
    random = np.random.default_rng(seed)
    images, texts = [f"i{k:03}" for k in range(n)], [f"t{k:03}" for k in range(n)]
    truth = np.eye(n, dtype=bool) | (random.random((n, n)) < unlabelled)
    pairs = Judgements.from_pairs(zip(images, texts, strict=True), queries=images, candidates=texts, name="pairs")
    collection = Collection("toy", Items(images, [None] * n), Items(texts, texts, kind="text"), pairs)
    systems = {
        name: Scores.from_matrix(truth + spread * random.normal(size=(n, n)), images, texts)
        for name, spread in zip(("good", "bad"), noise, strict=True)
    }
    return collection, systems, truth


def label(store: Store, truth: np.ndarray, *, name: str = "ada", tasks: int = 10_000, items: int = 10_000) -> int:
    """Lets a person answer by the truth: so many tasks, so many pairs of each; gives the person's number."""
    annotator = add_annotator(store, name, existing=True).id
    for _ in range(tasks):
        task = lease(store, annotator)
        if task is None:
            break
        for item in task.items[:items]:
            right = truth[int(item.image[1:]), int(item.caption[1:])]
            submit(store, annotator, item.id, key=uuid.uuid4().hex, grade=4 if right else 1, milliseconds=900)
    return annotator
