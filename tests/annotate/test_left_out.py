"""Estimates where some queries have no given match: the same queries as in the usual views; a word on the others."""

from __future__ import annotations

import re

import numpy as np
import pytest

import labelling
import limner
from limner.annotate import open_store, plan
from limner.annotate.estimate import difference, estimates
from limner.annotate.store.contents import add_collection
from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError
from limner.core.judgements import Judgements
from limner.scores import Scores

IMAGES, OUTSIDE = 60, 60
"""Images, each with one text; and texts without an image."""


def world(matched: float, seed: int = 0):
    """A collection, two systems and the truth; the share of texts without an image that match one all the same."""
    random = np.random.default_rng(seed)
    images, texts = [f"i{n:03}" for n in range(IMAGES)], [f"t{n:03}" for n in range(IMAGES + OUTSIDE)]
    truth = np.zeros((IMAGES, IMAGES + OUTSIDE), dtype=bool)
    truth[:, :IMAGES] = np.eye(IMAGES, dtype=bool) | (random.random((IMAGES, IMAGES)) < 0.05)
    unmatched = IMAGES + random.permutation(OUTSIDE)[: int(matched * OUTSIDE)]
    truth[random.integers(0, IMAGES, len(unmatched)), unmatched] = True
    pairs = Judgements.from_pairs(zip(images, texts, strict=False), queries=images, candidates=texts, name="pairs")
    collection = Collection("half", Items(images, [None] * IMAGES), Items(texts, texts, kind="text"), pairs)
    systems = {
        name: Scores.from_matrix(truth + spread * random.normal(size=truth.shape), images, texts)
        for name, spread in (("good", 0.45), ("bad", 0.9))
    }
    return collection, systems, truth


def complete(scores: Scores, truth: np.ndarray, measure: str, *, matched_only: bool) -> float:
    """The measure with the whole truth, over the texts that have a match; or over those with an image of their own."""
    rows = truth.T[: IMAGES if matched_only else None]
    right = Judgements.from_pairs((f"t{t:03}", f"i{i:03}") for t, i in np.argwhere(rows))
    texts = scores.T.restrict(queries=[f"t{t:03}" for t in np.flatnonzero(rows.any(axis=1))])
    return limner.evaluate(texts, right, measures=measure).results[0].value


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "work.db") as opened:
        yield opened


@pytest.mark.parametrize("measures", ["R@1 P@3", "R@3 MRR@3", "mAP@R"])
def test_texts_without_a_match_are_left_out_as_in_the_usual_views(store, measures):
    collection, systems, truth = world(matched=0.0)
    add_collection(store, collection)
    plan(store, collection, systems, measures=measures, direction="t2i", half_width=0.001)
    labelling.label(store, truth)
    report = limner.evaluate({"t2i": systems["good"].T}, collection, labels=store, measures=measures)
    for each in report.estimates:
        right = complete(systems["good"], truth, str(each.measure), matched_only=False)
        assert each.estimate.value == pytest.approx(right), "the value of the view complete"
        assert each.given == pytest.approx(report.value(str(each.measure), view="pairs", direction="t2i"))
        assert (each.queries, each.left_out, each.row()["left_out"]) == (IMAGES, OUTSIDE, OUTSIDE)
        sides = [system.T for system in systems.values()]
        gap = difference(store, *sides, collection, each.measure, direction="t2i")
        weaker = complete(systems["bad"], truth, str(each.measure), matched_only=False)
        assert gap.value == pytest.approx(right - weaker)
    assert any("60 of 120 queries have no given match" in note for note in report.notes)


@pytest.mark.parametrize("measure", ["R@1", "R@3", "P@3"])
def test_the_number_without_a_match_and_the_value_over_all_with_one_lie_in_what_is_printed(store, measure):
    collection, systems, truth = world(matched=0.6)
    add_collection(store, collection)
    plan(store, collection, systems, measures=measure, direction="t2i", half_width=0.001)
    labelling.label(store, truth)
    report = limner.evaluate({"t2i": systems["good"].T}, collection, labels=store, measures=measure)
    (row,) = report.estimates
    assert row.estimate.value == pytest.approx(complete(systems["good"], truth, measure, matched_only=True))
    (note,) = [note for note in report.notes if "no given match" in note]
    max_unmatched = int(re.search(r"at most (\d+) have no match at all", note)[1])
    assert (~truth.T.any(axis=1)).sum() == 24 <= max_unmatched < 60
    low, high = map(float, re.search(rf"{measure} is between ([\d.]+) and ([\d.]+)", note).groups())
    assert low - 0.05 <= 100 * complete(systems["good"], truth, measure, matched_only=False) <= high + 0.05
    assert high < 100


def test_part_of_the_labels_covers(tmp_path):
    """Budgets as people have them: the interval of the row, and the range over all texts with a match."""
    row, over_all, count = [], [], []
    for seed in range(16):
        collection, systems, truth = world(matched=0.3, seed=seed)
        with open_store(tmp_path / f"{seed}.db") as store:
            add_collection(store, collection)
            plan(store, collection, systems, measures="R@1", direction="t2i", budget=70, seed=seed)
            labelling.label(store, truth)
            (estimated,), notes = estimates(store, {"t2i": systems["good"].T}, collection)
        low, high = map(float, re.search(r"R@1 is between ([\d.]+) and ([\d.]+)", " ".join(notes)).groups())
        max_unmatched = int(re.search(r"at most (\d+) have no match at all", " ".join(notes))[1])
        row.append(
            estimated.estimate.low
            <= complete(systems["good"], truth, "R@1", matched_only=True)
            <= estimated.estimate.high
        )
        over_all.append(low <= 100 * complete(systems["good"], truth, "R@1", matched_only=False) <= high)
        count.append((~truth.T.any(axis=1)).sum() <= max_unmatched)
    assert sum(row) >= 14 and sum(over_all) >= 15 and sum(count) >= 15


def test_unanswered_texts_without_a_match_are_said_to_be_unknown(store):
    collection, systems, truth = world(matched=0.3)
    add_collection(store, collection)
    plan(store, collection, systems, measures="mAP@R", direction="t2i", half_width=0.001)
    labelling.label(store, truth)
    (note,) = [
        n for n in limner.evaluate({"t2i": systems["good"].T}, collection, labels=store).notes if "no given" in n
    ]
    assert "60 of 120 queries have no given match and are left out" in note and "none of their pairs is drawn" in note


def test_a_collection_in_which_no_query_has_a_match_is_refused(store):
    collection, systems, _ = world(matched=0.0)
    none = Judgements.from_pairs([], queries=collection.images.ids, candidates=collection.texts.ids, name="pairs")
    empty = Collection("empty", collection.images, collection.texts, none)
    add_collection(store, empty)
    with pytest.raises(LimnerError, match="no query has a given positive"):
        plan(store, empty, systems, measures="R@1", direction="t2i", budget=20)
