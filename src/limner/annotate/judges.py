"""Automatic judges of pairs: from scores, from an image's other captions, from a pair scorer, from a stored run.

A judge needs only a `name` and `probabilities(pairs) -> array` for (image, caption) pairs, from 0 to 1. Its output is
never a label: it defines strata, and predicts within them as far as people's answers confirm it
(`limner.stats.power_tuning`). So any number that correlates with the probability of a match works.
`limner.annotate.endpoint` has the judge that asks a vision-language model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from limner.annotate.store import Store
from limner.annotate.store.contents import Key
from limner.annotate.store.designs import machine_answers, refuse_unknown_judge
from limner.core.arrays import FloatArray
from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError, UnknownName
from limner.core.ids import Ids
from limner.core.registry import Registry
from limner.scores import Scores

JUDGES: Registry[object] = Registry("judge", {})
"""Custom judges: given as "module:thing", or registered under a name."""


@dataclass(frozen=True)
class ScoresJudge:
    """A system's scores as a judge: the quantile of a pair's score among all requested scores.

    Args:
        scores: Images by texts.
        name: Name in reports.

    >>> made = Scores.from_matrix(np.array([[3.0, 1.0], [0.0, 2.0]]), ["a", "b"], ["x", "y"])
    >>> ScoresJudge(made).probabilities([("a", "x"), ("b", "x"), ("b", "y")])
    array([1. , 0. , 0.5])
    """

    scores: Scores
    name: str = "scores"

    def probabilities(self, pairs: Sequence[Key]) -> FloatArray:
        """The share of lower scores."""
        if not pairs:
            return np.empty(0)
        rows, columns = (np.array([ids.index(p[side]) for p in pairs]) for side, ids in enumerate(self._ids))
        values = np.empty(len(pairs))
        for start in range(0, len(self.scores.queries), self.scores.block_rows):
            stop = min(start + self.scores.block_rows, len(self.scores.queries))
            in_block = np.flatnonzero((rows >= start) & (rows < stop))
            if len(in_block):
                values[in_block] = np.asarray(self.scores.block(start, stop))[rows[in_block] - start, columns[in_block]]
        order = np.unique(values, return_inverse=True)[1]
        return np.asarray(order / max(order.max(), 1), dtype=np.float64)

    @property
    def _ids(self) -> tuple[object, Any]:
        return self.scores.queries, self.scores.candidates


@dataclass(frozen=True)
class CaptionsJudge:
    """The maximum cosine similarity of a caption to the image's other captions, by a sentence encoder.

    Args:
        collection: The collection with the captions of each image.
        encoder: With `encode(items) -> array`, such as `limner.encoders.encoder("minilm")`.
        name: Name in reports.
    """

    collection: Collection
    encoder: Any
    name: str = "captions"

    def probabilities(self, pairs: Sequence[Key]) -> FloatArray:
        """`(1 + cosine) / 2`, 0 for an image without other captions."""
        texts = dict(zip(self.collection.texts.ids, self.collection.texts.values, strict=True))
        captions_of: dict[str, list[str]] = {}
        for image, caption, _ in self.collection.judgements.relevant:
            captions_of.setdefault(image, []).append(caption)
        needed = {c for image, caption in pairs for c in (caption, *captions_of.get(image, ()))}
        used = sorted(needed & texts.keys())
        vectors = np.asarray(
            self.encoder.encode(Items(Ids(used), [texts[c] for c in used], kind="text")), dtype=np.float64
        )
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        row = {caption: n for n, caption in enumerate(used)}
        values = np.zeros(len(pairs))
        for place, (image, caption) in enumerate(pairs):
            other_rows = [row[c] for c in captions_of.get(image, ()) if c != caption]
            if other_rows:
                values[place] = (1 + float((vectors[other_rows] @ vectors[row[caption]]).max())) / 2
        return np.clip(values, 0, 1)


@dataclass(frozen=True)
class ScorerJudge:
    """A pair scorer (`score_pairs(queries, candidates)`) as a judge; its numbers go through the logistic function.

    Args:
        scorer: Receives the values of the images and the texts of the captions.
        collection: Source of the images and captions.
        name: Name in reports.
    """

    scorer: Any
    collection: Collection
    name: str = "scorer"

    def probabilities(self, pairs: Sequence[Key]) -> FloatArray:
        """`1 / (1 + exp(-score))`."""
        images, texts = self.collection.images, self.collection.texts
        first = [images.values[images.ids.index(image)] for image, _ in pairs]
        second = [texts.values[texts.ids.index(caption)] for _, caption in pairs]
        scores = np.asarray(self.scorer.score_pairs(first, second), dtype=np.float64)
        if scores.shape != (len(pairs),):
            raise LimnerError(
                f"the scorer gave shape {scores.shape}: expected one number for each of {len(pairs)} pairs"
            )
        return np.asarray(1 / (1 + np.exp(-np.clip(scores, -50, 50))))


@dataclass(frozen=True)
class StoredJudge:
    """The stored answers of a judge; unanswered pairs get its mean.

    Args:
        store: The store.
        name: The judge's name in the store.
    """

    store: Store
    name: str

    def probabilities(self, pairs: Sequence[Key]) -> FloatArray:
        """The stored probabilities."""
        refuse_unknown_judge(self.store, self.name)
        stored = machine_answers(self.store, self.name)
        middle = float(np.mean(list(stored.values()))) if stored else 0.5
        return np.array([stored.get(pair, middle) for pair in pairs])


def judge_named(
    name: str, *, collection: Collection, systems: Mapping[str, Any], store: Store, trusted: bool = True
) -> Any:
    """A judge by name.

    Args:
        name: "captions" (a sentence encoder on the image's other captions), "scores=NAME" (a system's scores),
            "stored=NAME" (saved answers of 'limner annotate judge'), or "module:thing", called with the collection.
        collection: The collection to judge.
        systems: Scores by name.
        store: The store.
        trusted: Whether "module:thing" is allowed; False for a name read from a file.
    """
    kind, _, argument = name.partition("=")
    if kind == "captions" and not argument:
        from limner.encoders import encoder

        return CaptionsJudge(collection, encoder("minilm"))
    if kind == "stored":
        refuse_unknown_judge(store, argument)
        return StoredJudge(store, argument)
    if kind == "scores":
        if not isinstance(systems.get(argument), Scores):
            raise UnknownName("system with scores", argument, [n for n, s in systems.items() if isinstance(s, Scores)])
        return ScoresJudge(systems[argument], name)
    judge = JUDGES.find(name, trusted=trusted)
    return judge(collection) if callable(judge) else judge
