"""Automatic judges of pairs: from scores, an image's other captions, a system, a pair scorer, a stored run, or several.

A judge needs only a `name` and `probabilities(pairs) -> array` for (image, caption) pairs, from 0 to 1. Its output
defines strata, and predicts within them as far as people's answers confirm it (`limner.stats.power_tuning`), so any
number that correlates with the probability of a match works. It is a label only where a test on people's answers
bounds its errors (`limner.annotate.trusted_labels`). `limner.annotate.endpoint` has the judge that asks a
vision-language model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
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
        order = np.unique(_scores_of(self.scores, pairs), return_inverse=True)[1]
        return np.asarray(order / max(order.max(), 1), dtype=np.float64)


def _scores_of(scores: Scores, pairs: Sequence[Key]) -> FloatArray:
    """The score of each pair."""
    sides: tuple[Any, Any] = (scores.queries, scores.candidates)
    rows, columns = (np.array([ids.index(p[side]) for p in pairs]) for side, ids in enumerate(sides))
    values = np.empty(len(pairs))
    for start in range(0, len(scores.queries), scores.block_rows):
        stop = min(start + scores.block_rows, len(scores.queries))
        in_block = np.flatnonzero((rows >= start) & (rows < stop))
        if len(in_block):
            values[in_block] = np.asarray(scores.block(start, stop))[rows[in_block] - start, columns[in_block]]
    return values


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
class SystemJudge:
    """An encoder or another system as a judge, by its scores: no server is needed.

    The logistic function maps the mean score of the given pairs to 0.88 and that of all pairs to 0.12, so that a score
    does not depend on which pairs are asked together.

    Args:
        scores: Images by texts.
        collection: The collection with the given pairs.
        name: Name in reports.
    """

    scores: Scores
    collection: Collection
    name: str = "system"

    def probabilities(self, pairs: Sequence[Key]) -> FloatArray:
        """`1 / (1 + exp(-4 (s - m) / d))`: m halfway between the two means, d their difference."""
        low, high = self._means
        values = _scores_of(self.scores, pairs)
        steepness = 4 / (high - low) if high > low else 0.0
        return np.asarray(1 / (1 + np.exp(-np.clip(steepness * (values - (low + high) / 2), -50, 50))))

    @cached_property
    def _means(self) -> tuple[float, float]:
        """The mean score of all pairs, and of the given pairs."""
        rows = len(self.scores.queries)
        blocks = range(0, rows, self.scores.block_rows)
        sums = [np.sum(self.scores.block(at, min(at + self.scores.block_rows, rows)), dtype=float) for at in blocks]
        given_pairs = [(image, caption) for image, caption, _ in self.collection.judgements.relevant]
        scored = [p for p in given_pairs if p[0] in self.scores.queries and p[1] in self.scores.candidates]
        if not scored:
            raise LimnerError(f"{self.name}: the system scores none of the given pairs, so its scores cannot be scaled")
        mean_of_all = float(np.sum(sums)) / (rows * len(self.scores.candidates))
        return mean_of_all, float(_scores_of(self.scores, scored).mean())


@dataclass(frozen=True)
class MeanJudge:
    """Several judges as one: the mean of their probabilities.

    Args:
        judges: The judges.
        name: Name in reports.
    """

    judges: tuple[Any, ...]
    name: str

    @classmethod
    def of(cls, judges: Sequence[Any]) -> MeanJudge:
        """Several judges, with all their names."""
        return cls(tuple(judges), " + ".join(judge.name for judge in judges))

    def probabilities(self, pairs: Sequence[Key]) -> FloatArray:
        """The mean over the judges."""
        return np.asarray(np.mean([judge.probabilities(pairs) for judge in self.judges], axis=0))


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
    name: str,
    *,
    collection: Collection,
    systems: Mapping[str, Any],
    store: Store,
    trusted: bool = True,
    trust: bool = False,
) -> Any:
    """A judge by name.

    Args:
        name: "captions" (a sentence encoder on the image's other captions), "scores=NAME" (a system's scores),
            "model=NAME" (an encoder or another system, opened for this), "scorer=NAME" (a pair scorer), "stored=NAME"
            (saved answers of 'limner annotate judge'), or "module:thing", called with the collection.
        collection: The collection to judge.
        systems: Scores by name.
        store: The store.
        trusted: Whether "module:thing" is allowed; False for a name read from a file.
        trust: Whether the files of a model may name custom code.
    """
    kind, _, argument = name.partition("=")
    if kind == "model" and argument:
        return SystemJudge(_system_scores(argument, collection, trust=trust), collection, name)
    if kind == "scorer" and argument:
        from limner.match import scorer

        return ScorerJudge(scorer(argument), collection, name)
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


def _system_scores(name: str, collection: Collection, *, trust: bool) -> Scores:
    """The scores of a system on the images and texts of a collection."""
    from limner.systems.opening import find_system, open_system
    from limner.systems.system_spec import TRAINED

    spec = find_system(name, trust=trust)
    if spec.kind == TRAINED:
        raise LimnerError(f"judge model={name}: it must be trained first ('limner train ... -o FILE'); name that file")
    source = open_system(spec, collection, split="all", trust=trust).source
    if not isinstance(source, Scores):
        raise LimnerError(f"{name} gives lists without scores of all pairs: expected an encoder, a model or scores")
    missing = set(collection.images.ids) - set(source.queries)
    if missing:
        raise LimnerError(
            f"judge model={name} was trained on {len(missing):,} of the images: expected one without them"
        )
    return source
