"""Measures that need all matches of a query, estimated level by level, beside all samples there are."""

from __future__ import annotations

import uuid
from itertools import combinations, product

import numpy as np
import pytest

import limner
from limner.annotate import levels, open_store, plan
from limner.annotate.estimate import difference, label_quality
from limner.annotate.estimate_notes import label_recall
from limner.annotate.store.answers import answers, submit
from limner.annotate.store.contents import add_collection
from limner.annotate.store.designs import LEVEL, Design, designs
from limner.annotate.store.people import add_annotator
from limner.annotate.store.tasks import lease
from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError
from limner.core.judgements import Judgements
from limner.evaluation.measures import parse
from limner.scores import Scores
from limner.stats import Estimate, chained_means
from limner.stats.estimators import sum_of_means

N, M = 40, 30
MEASURES = "mAP@R RP Recall@3 nDCG@5 MAP R@1 P@3 MRR"


@pytest.fixture(scope="module")
def world():
    """Images and texts, one given pair for each image, about three true ones; two systems, one better."""
    random = np.random.default_rng(3)
    images, texts = [f"i{n:03}" for n in range(N)], [f"t{n:03}" for n in range(M)]
    originals = [(f"i{n:03}", f"t{n % M:03}") for n in range(N)]
    truth = random.random((N, M)) < 0.08
    truth[np.arange(N), np.arange(N) % M] = True
    pairs = Judgements.from_pairs(originals, queries=images, candidates=texts, name="pairs")
    collection = Collection("toy", Items(images, [None] * N), Items(texts, texts, kind="text"), pairs)
    systems = {
        name: Scores.from_matrix(truth + noise * random.normal(size=(N, M)), images, texts)
        for name, noise in (("good", 0.5), ("bad", 1.0))
    }
    return collection, systems, truth


@pytest.fixture
def store(world, tmp_path):
    with open_store(tmp_path / "work.db") as opened:
        add_collection(opened, world[0])
        yield opened


class Coin:
    """A judge that knows nothing."""

    name = "coin"

    def probabilities(self, pairs):
        return np.full(len(pairs), 0.5)


def label(store, truth):
    annotator = add_annotator(store, f"ada{uuid.uuid4().hex[:4]}").id
    while (task := lease(store, annotator)) is not None:
        for item in task.items:
            right = truth[int(item.image[1:]), int(item.caption[1:])]
            submit(store, annotator, item.id, key=uuid.uuid4().hex, grade=4 if right else 1)


def complete(truth, direction="i2t"):
    judgements = Judgements.from_pairs(
        [(f"i{i:03}", f"t{t:03}") for i, t in np.argwhere(truth)],
        queries=[f"i{n:03}" for n in range(N)],
        candidates=[f"t{n:03}" for n in range(M)],
    )
    return judgements if direction == "i2t" else judgements.T


def true_value(scores, truth, measure, direction="i2t"):
    source = scores if direction == "i2t" else scores.T
    return limner.evaluate(source, complete(truth, direction), measures=measure).results[0].value


def all_levels(world, measures, names=("good", "bad")):
    """A design with all units known: the values without and with the labels of each, by measure."""
    collection, systems, truth = world
    originals = levels.with_positives(collection.judged("pairs", "i2t"))
    lists = {n: systems[n].top(levels.depth_of(measures)) for n in names}
    units = levels.units_of(levels.levels(lists, originals), originals)
    full = [
        u if u.candidates else type(u)(u.query, levels.all_candidates(originals, u.query), u.stratum) for u in units
    ]
    design = Design(1, "i2t", LEVEL, {}, N, tuple(full), ())
    answers_of = {(f"i{i:03}", f"t{t:03}"): bool(truth[i, t]) for i in range(N) for t in range(M)}
    changes = levels.before_and_after(systems["bad"], design, range(len(full)), originals, answers_of, measures)
    return changes, levels.given_values(systems["bad"], originals, measures), design


def test_the_changes_of_all_levels_add_up_to_the_true_value(world):
    measures = parse(MEASURES)
    changes, start_values, _ = all_levels(world, measures)
    for measure in measures:
        mean = sum(after - before for before, after in changes[measure].values()) / N
        assert start_values[measure] + mean == pytest.approx(
            true_value(world[1]["bad"], world[2], str(measure)), abs=1e-12
        )


def test_a_system_that_was_not_planned_for_has_no_bias_either(world):
    """Levels made from the other system's lists alone."""
    measures = parse("mAP@R nDCG@5")
    changes, start_values, _ = all_levels(world, measures, names=("good",))
    for measure in measures:
        mean = sum(after - before for before, after in changes[measure].values()) / N
        assert start_values[measure] + mean == pytest.approx(
            true_value(world[1]["bad"], world[2], str(measure)), abs=1e-12
        )


def test_over_all_samples_of_a_tiny_world_the_estimate_is_the_truth(world):
    """Every sample of two of five queries at each of three levels: 1,000 studies, each as likely as the others."""
    measures = parse("mAP@R Recall@3")
    changes, _, design = all_levels(world, measures)
    for measure in measures:
        by_level = [[changes[measure][n] for n, u in enumerate(design.units) if u.stratum == k][:5] for k in range(3)]
        start, true = np.mean([step[0] for step in by_level[0]]), np.mean([step[1] for step in by_level[2]])
        samples = [np.ravel(s).reshape(-1, 2).T for s in product(*(list(combinations(each, 2)) for each in by_level))]
        at, bounds = np.repeat([0, 1, 2], 2), (-9, 9)
        estimates = [chained_means(*s, at, [5, 5, 5], start=start, bounds=bounds).value for s in samples]
        assert len(samples) == 1000 and np.mean(estimates) == pytest.approx(true, abs=1e-12)


def test_levels_hold_each_other_and_no_given_positive(world):
    collection, systems, _ = world
    originals = levels.with_positives(collection.judged("pairs", "i2t"))
    first, second = levels.levels({n: s.top(M) for n, s in systems.items()}, originals)
    for row, query in enumerate(originals.queries):
        assert first[row] == second[row][: len(first[row])] and len(set(second[row])) == len(second[row])
        best = {s.top(1)[query][0] for s in systems.values()}
        assert best <= {*first[row], *(c for _, c, _ in originals.restrict(queries=[query]))}
        assert not any(originals.grade(query, c) for c in second[row])


# --- in a store -------------------------------------------------------------------------------------------------


def test_a_plan_says_which_measures_alone_would_need_far_fewer_labels(world, store, tmp_path):
    collection, systems, _ = world
    (joint,) = plan(store, collection, systems, measures="R@1 mAP@R", direction="i2t", half_width=5, judge=Coin())
    assert "the judge is not used" in str(joint) and "R@1 alone would need about" in str(joint)
    labels_alone = int(joint.notes[0].split("about ")[1].split()[0].replace(",", ""))
    with open_store(tmp_path / "alone.db") as second_store:
        add_collection(second_store, collection)
        (alone,) = plan(second_store, collection, systems, measures="R@1", direction="i2t", half_width=5)
    assert alone.notes == () and labels_alone == alone.labels < joint.labels
    (only,) = plan(store, collection, systems, measures="mAP@R", direction="t2i", half_width=50)
    assert only.notes == ()


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
def test_with_everything_labelled_the_estimate_is_the_truth(world, store, direction):
    collection, systems, truth = world
    plan(store, collection, systems, measures=MEASURES, direction=direction, half_width=0.0001)
    label(store, truth)
    for scores in systems.values():
        source = scores if direction == "i2t" else scores.T
        report = limner.evaluate(source, collection, labels=store)
        assert [str(e.measure) for e in report.estimates] == MEASURES.split()
        for each in report.estimates:
            expected = true_value(scores, truth, str(each.measure), direction)
            assert each.estimate.value == pytest.approx(expected, abs=1e-9)
            assert each.estimate.high - each.estimate.low == pytest.approx(0, abs=1e-9)
    sides = [s if direction == "i2t" else s.T for s in systems.values()]
    gap = difference(store, *sides, collection, "mAP@R", direction=direction)
    assert gap.value == pytest.approx(
        np.subtract(*(true_value(s, truth, "mAP@R", direction) for s in systems.values())), abs=1e-9
    )


def test_a_part_gives_an_interval_and_a_further_plan_a_narrower_one(world, store):
    collection, systems, truth = world
    (planned,) = plan(store, collection, systems, measures="mAP@R RP", direction="i2t", budget=1214)
    assert planned.unit == "level" and planned.drawn >= 3 * levels.LEAST and planned.strata == (N, N, N)
    assert planned.labels <= 1214 and "queries down to a level" in str(planned)
    label(store, truth)
    before = limner.evaluate(systems["good"], collection, labels=store)
    assert all(e.estimate.low <= true_value(systems["good"], truth, str(e.measure)) <= e.estimate.high
               for e in before.estimates)  # fmt: skip
    (second_plan,) = plan(store, collection, systems, measures="mAP@R RP", direction="i2t", half_width=3)
    assert second_plan.drawn > planned.drawn and len(designs(store)) == 1
    label(store, truth)
    after = limner.evaluate(systems["good"], collection, labels=store)
    widths = [[e.estimate.half_width for e in each.estimates] for each in (before, after)]
    assert (np.array(widths[1]) < np.array(widths[0])).all()


def test_what_the_design_cannot_give_is_refused_with_a_reason(world, store):
    collection, systems, truth = world
    with pytest.raises(LimnerError, match="too few for measures that need all matches"):
        plan(store, collection, systems, measures="mAP@R", direction="i2t", budget=1213)
    for measure in ("MedR", "rsum", "nDCG@5(linear)", "Judged@5"):
        with pytest.raises(LimnerError, match="cannot be estimated from few labels"):
            plan(store, collection, systems, measures=measure)
    plan(store, collection, systems, measures="mAP@R", direction="i2t", budget=1214)
    with pytest.raises(LimnerError, match="at least 2 per level"):
        limner.evaluate(systems["good"], collection, labels=store)
    label(store, truth)
    with pytest.raises(LimnerError, match="use mode 'fixed'"):
        limner.evaluate(systems["good"], collection, labels=store, mode="anytime")
    with pytest.raises(LimnerError, match="truncated ranking"):
        limner.evaluate(systems["good"].top(2), collection, labels=store)


def test_a_plan_without_a_budget_has_at_least_the_smallest_design(world, store):
    collection, systems, _ = world
    (planned,) = plan(store, collection, systems, measures="mAP@R", direction="i2t", half_width=40)
    counts = np.bincount([designs(store)[0].units[n].stratum for n in designs(store)[0].drawn])
    assert planned.drawn == counts.sum() >= 27 + 17 + 15  # smallest(costs) is 27.6, 17.3 and 15.6
    assert (counts >= levels.LEAST).all()


def test_intervals_cover(world):
    """400 studies of ten queries at each level; the truth is that of this world."""
    (measure,) = parse("mAP@R")
    changes, _, design = all_levels(world, (measure,))
    values = np.array(list(changes[measure].values())).reshape(3, N, 2)
    start, true = values[0, :, 0].mean(), values[2, :, 1].mean()
    random, covered, at = np.random.default_rng(0), 0, np.repeat([0, 1, 2], 10)
    for _ in range(400):
        drawn = np.concatenate([random.choice(each, 10, replace=False) for each in values])
        interval = chained_means(*drawn.T, at, [N] * 3, start=start, prior=levels.PRIOR)
        covered += interval.low <= true <= interval.high
    assert covered >= 370 and len(design.units) == 3 * N


def test_labels_are_allocated_by_what_the_level_above_does_not_predict():
    """A level whose values are a fixed share of those above has little left; a level of noise has all."""
    random = np.random.default_rng(0)
    codes = np.repeat([0, 1, 2], 30)
    first = random.random(30)
    values = np.array([first, random.random(30), random.random(30), random.random(30)])
    values[3] = values[2] / 2
    observed = {int(n): (values[k][n % 30], values[k + 1][n % 30]) for n, k in enumerate(codes)}
    spreads = levels.spread([observed], codes, 3)
    assert spreads[2] < 0.05 < spreads[1]
    assert spreads[0] < spreads[1]  # what is not predicted at the second level counts little for the first
    assert levels.spread([{}], codes, 3) == pytest.approx(levels.EXPECTED)


# --- the given labels -------------------------------------------------------------------------------------------


def test_with_everything_labelled_recall_of_the_given_labels_is_exact(world, store):
    collection, systems, truth = world
    plan(store, collection, systems, measures="mAP@R", direction="i2t", half_width=0.0001)
    label(store, truth)
    quality = label_quality(store, collection, direction="i2t")
    assert quality.recall.value == pytest.approx(N / truth.sum()) and quality.recall.variance < 1e-4
    assert quality.matches.value == pytest.approx(truth.sum() / N)
    assert quality.precision.value == quality.precision.low == 1  # all given pairs were controls
    report = limner.evaluate(systems["good"], collection, labels=store)
    assert any("recall of the given labels" in note for note in report.notes)


def test_a_report_says_that_intervals_of_levels_are_approximate(world, store):
    collection, systems, truth = world
    plan(store, collection, systems, measures="mAP@R", direction="i2t", half_width=20)
    label(store, truth)
    report = limner.evaluate(systems["good"], collection, labels=store)
    assert any(e.estimate.low < e.estimate.high for e in report.estimates)
    assert any("held the truth in 90 to 100%" in note for note in report.notes)


def test_precision_of_the_given_labels_is_that_of_the_controls(world, store):
    """People call four of the given pairs wrong; without levels there is no recall."""
    collection, systems, truth = world
    wrong = truth.copy()
    wrong[:20, :20][np.eye(20, dtype=bool)] = False
    plan(store, collection, systems, measures="P@3", direction="i2t", half_width=1)
    label(store, wrong)
    quality = label_quality(store, collection, direction="i2t")
    controls = {(a.image, a.caption) for a in answers(store) if a.role == "gold_pos"}
    right = [wrong[int(i[1:]), int(t[1:])] for i, t in controls]
    assert quality.precision.value == pytest.approx(np.mean(right)) and 0 < quality.precision.value < 1
    assert quality.recall is None and "recall" not in str(quality)


def test_the_linearised_recall_covers(world):
    """400 studies of ten queries at each level."""
    changes, start_values, design = all_levels(world, parse("mAP@R"))
    truth = world[2]
    answers_of = {(f"i{i:03}", f"t{t:03}"): bool(truth[i, t]) for i in range(N) for t in range(M)}
    new_matches = np.array(levels.matches_found(design, range(3 * N), answers_of)).reshape(3, N)
    assert new_matches.sum() == truth.sum() - N
    certain = Estimate(1.0, 1.0, 1.0, 0.95, 0.0, 0, 0, 1.0)
    random, covered = np.random.default_rng(1), 0
    for _ in range(400):
        drawn = [random.choice(each, 10, replace=False) for each in new_matches]
        hidden = sum_of_means(np.ravel(drawn), np.repeat([0, 1, 2], 10), [N] * 3, bounds=(0, M))
        recall = label_recall(1.0, certain, hidden)
        covered += recall.low <= N / truth.sum() <= recall.high
    assert covered >= 366 and changes and start_values
