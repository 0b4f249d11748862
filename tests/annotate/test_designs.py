"""Plans, draws and estimates in a store, beside the truth of a world that is known."""

from __future__ import annotations

import re
import uuid
from dataclasses import replace

import numpy as np
import pytest

import labelling
import limner
from limner.annotate import open_store, plan
from limner.annotate.design import unit_values
from limner.annotate.estimate import difference
from limner.annotate.sample import needed, unit_of, values
from limner.annotate.store.answers import submit
from limner.annotate.store.contents import add_collection
from limner.annotate.store.designs import add_machine_answers, designs, machine_answers
from limner.annotate.store.exclusions import exclude
from limner.annotate.store.people import add_annotator
from limner.annotate.store.tasks import lease
from limner.core.errors import LimnerError
from limner.core.judgements import Judgements
from limner.evaluation.measures import Measure
from limner.evaluation.reports.page.system_comparison import contests

N = 120


@pytest.fixture(scope="module")
def world():
    """Images and texts in pairs, of which more match than are labelled; two systems, one better."""
    return labelling.study(N, unlabelled=0.02, noise=(0.45, 0.8))


class Oracle:
    """A judge that knows much, or the contrary of it."""

    def __init__(self, truth, sign=1):
        self.name, self.truth, self.sign = f"oracle{sign}", truth, sign

    def probabilities(self, pairs):
        true = np.array([self.truth[int(i[1:]), int(t[1:])] for i, t in pairs], dtype=float)
        return true if self.sign > 0 else 1 - true


@pytest.fixture
def store(world, tmp_path):
    with open_store(tmp_path / "work.db") as opened:
        add_collection(opened, world[0])
        yield opened


def label(store, truth, name="ada", tasks=10_000):
    annotator = add_annotator(store, name).id
    done = 0
    while done < tasks and (task := lease(store, annotator)) is not None:
        for item in task.items:
            right = truth[int(item.image[1:]), int(item.caption[1:])]
            submit(store, annotator, item.id, key=uuid.uuid4().hex, grade=4 if right else 1, milliseconds=900)
        done += 1
    return annotator


def true_value(scores, truth, measure, direction):
    complete = Judgements.from_pairs([(f"i{i:03}", f"t{t:03}") for i, t in np.argwhere(truth)])
    ranking = (scores if direction == "i2t" else scores.T).top(5)
    return values(ranking, complete if direction == "i2t" else complete.T, Measure.parse(measure)).mean()


# --- frames -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("measure", ["R@1", "R@3", "MRR@3", "P@3"])
def test_labelling_what_is_needed_decides_the_measure(world, measure):
    """With the truth of the needed pairs alone, every query has its true value."""
    collection, systems, truth = world
    parsed = Measure.parse(measure)
    for direction in ("i2t", "t2i"):
        ranking = (systems["bad"] if direction == "i2t" else systems["bad"].T).top(5)
        judged = collection.judged("pairs", direction)
        needed_pairs = needed(ranking, judged, parsed)
        side = truth if direction == "i2t" else truth.T
        yes = [(q, c) for q, cs in needed_pairs.items() for c in cs if side[int(q[1:]), int(c[1:])]]
        positives = Judgements.from_pairs(yes, queries=judged.queries, candidates=judged.candidates)
        assert values(ranking, judged.relevant | positives, parsed).mean() == true_value(
            systems["bad"], truth, measure, direction
        )


# --- plans ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("like", "unit"), [("R@3", "query"), ("P@3", "pair"), ("MRR@3", "query"), ("Recall@3", "level")]
)
def test_a_measure_of_ones_own_is_sampled_by_its_traits_not_by_its_name(world, like, unit):
    collection, systems, _ = world
    built_in = Measure.parse(like)
    custom = Measure("Mine", built_in.k, given=replace(built_in.kind, name="Mine"))
    assert unit_of([custom]) == unit_of([built_in]) == unit
    ranking = systems["bad"].top(5)
    assert needed(ranking, collection.judgements, custom) == needed(ranking, collection.judgements, built_in)


def test_a_plan_draws_asks_and_remembers(world, store):
    collection, systems, truth = world
    (planned,) = plan(store, collection, systems, measures="R@1", direction="t2i", half_width=4)
    assert planned.unit == "pair" and 0 < planned.drawn <= planned.units
    assert planned.labels == planned.drawn and max(planned.expected.values()) <= 4.01
    (design,) = designs(store)
    assert design.queries == N and len(design.drawn) == planned.drawn
    drawn = [design.units[n] for n in design.drawn]
    assert [u.place for u in drawn] == list(range(len(drawn)))
    assert all(0 < u.probability <= 1 and u.phase == 0 for u in drawn)
    label(store, truth)
    assert len(unit_values(store, design)) == planned.drawn


def test_a_small_draw_makes_few_strata(world, store):
    """A judge of no use must not cost width: 25 units for each stratum, or fewer strata."""
    collection, systems, truth = world
    for budget, max_strata in ((30, 1), (60, 2)):
        (planned,) = plan(
            store,
            collection,
            systems,
            measures="R@1",
            direction="t2i",
            budget=budget,
            strata=9 - max_strata,
            judge=Oracle(truth),
        )
        assert len(planned.strata) <= max_strata and sum(planned.strata) == planned.units


def test_a_further_plan_adds_to_the_draw(world, database):
    """In both kinds of stores."""
    with open_store(database) as store:
        add_collection(store, world[0])
        check_further_plan(world, store)


def check_further_plan(world, store):
    collection, systems, truth = world
    plan(store, collection, systems, measures="R@1", direction="t2i", budget=20)
    label(store, truth)
    (second_plan,) = plan(store, collection, systems, measures="R@1", direction="t2i", half_width=1)
    (design,) = designs(store)
    assert second_plan.drawn > 20 and len(design.shares) == 2
    assert {design.units[n].phase for n in design.drawn[:20]} == {0}
    assert {design.units[n].phase for n in design.drawn[20:]} == {1}


def test_the_same_seed_draws_the_same(world, tmp_path):
    drawn = []
    for name in ("a.db", "b.db"):
        with open_store(tmp_path / name) as store:
            add_collection(store, world[0])
            plan(store, world[0], world[1], measures="R@3", direction="i2t", budget=40, seed=5)
            drawn.append(designs(store)[0].drawn)
    assert drawn[0] == drawn[1]


# --- estimates --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("measures", ["R@1 P@3", "R@1 R@3 MRR@3"])
def test_with_everything_labelled_the_estimate_is_the_truth(world, store, measures):
    collection, systems, truth = world
    plan(store, collection, systems, measures=measures, half_width=0.001)
    label(store, truth)
    for name, scores in systems.items():
        report = limner.evaluate(scores, collection, labels=store, name=name)
        assert len(report.estimates) == 2 * len(measures.split())
        for each in report.estimates:
            expected = true_value(scores, truth, str(each.measure), each.direction)
            assert each.estimate.value == pytest.approx(expected, abs=1e-9)
            assert each.estimate.low == pytest.approx(each.estimate.high, abs=1e-9)
    for direction in ("i2t", "t2i"):
        for measure in measures.split():
            sides = [s if direction == "i2t" else s.T for s in systems.values()]
            estimate = difference(store, *sides, collection, measure, direction=direction)
            gap = np.subtract(*(true_value(s, truth, measure, direction) for s in systems.values()))
            assert estimate.value == pytest.approx(gap, abs=1e-9)


def test_an_estimate_is_in_table_json_csv_and_page(world, store, tmp_path):
    collection, systems, truth = world
    plan(store, collection, systems, measures="R@1", budget=60, judge=Oracle(truth))
    label(store, truth)
    report = limner.evaluate(systems["good"], collection, labels=store, mode="anytime")
    text = str(report)
    assert "estimated" in text and "labels)" in text and "anytime intervals" in text and "design effect" in text
    assert "judge 'oracle1'" in text and "people's agreement is unknown" in text
    reloaded = limner.Report.load(report.save(tmp_path / "r.json"))
    assert reloaded.estimates == report.estimates
    for ending in ("csv", "md", "tex"):
        assert "estimated" in report.save(tmp_path / f"r.{ending}").read_text()
    assert '<span class="view">estimated</span>' in report.save(tmp_path / "r.html").read_text()
    low, high = report.estimates[0].estimate.low, report.estimates[0].estimate.high
    assert low <= true_value(systems["good"], truth, "R@1", report.estimates[0].direction) <= high


def test_a_gap_in_the_answers_ends_the_sample(world, store):
    collection, systems, truth = world
    plan(store, collection, systems, measures="R@1", direction="t2i", half_width=2)
    label(store, truth, tasks=1)
    report = limner.evaluate(systems["good"].T, collection, labels=store)
    (row,) = report.estimates
    assert 0 < row.labels <= 18
    assert any("wait for answers" in note for note in report.notes)


def test_an_excluded_annotators_pairs_are_asked_again(world, store):
    collection, systems, truth = world
    plan(store, collection, systems, measures="R@1", direction="t2i", budget=30)
    label(store, ~truth, name="liar")
    wrong = limner.evaluate(systems["good"].T, collection, labels=store).estimates[0]
    exclude(store, "annotator", "liar", reason="answers the contrary")
    with pytest.raises(LimnerError, match="label some of the drawn pairs first"):
        limner.evaluate(systems["good"].T, collection, labels=store)
    label(store, truth, name="ada")
    right = limner.evaluate(systems["good"].T, collection, labels=store).estimates[0]
    assert right.labels == wrong.labels  # the same sample, answered again
    assert right.estimate.value != wrong.estimate.value


def test_a_system_that_came_later_gets_a_wider_interval_and_no_point(world, store, tmp_path):
    collection, systems, truth = world
    plan(store, collection, {"good": systems["good"]}, measures="R@1", direction="t2i", half_width=1)
    label(store, truth)
    report = limner.evaluate(systems["bad"].T, collection, labels=store)
    (unseen,) = report.estimates
    assert unseen.outside > 0 and any("outside the design" in note for note in report.notes)
    assert unseen.estimate.high - unseen.estimate.low >= unseen.outside
    assert unseen.estimate.low <= true_value(systems["bad"], truth, "R@1", "t2i") <= unseen.estimate.high
    assert np.isnan(unseen.estimate.value), "nothing is known of pairs outside the design: no point"
    interval = f"[{100 * unseen.estimate.low:.1f}, {100 * unseen.estimate.high:.1f}]"
    assert f" {interval} (given" in str(report) and "nan" not in str(report)
    assert unseen.row()["value"] is None
    saved = report.save(tmp_path / "r.json")
    assert np.isnan(limner.Report.load(saved).estimates[0].estimate.value) and "NaN" not in saved.read_text()
    for name in ("r.html", "r.csv", "r.md"):
        assert not re.search(r"[>,|]\s*[+-]?nan|nan to", report.save(tmp_path / name).read_text())
    gap = difference(store, systems["good"].T, systems["bad"].T, collection, "R@1", direction="t2i")
    true = true_value(systems["good"], truth, "R@1", "t2i") - true_value(systems["bad"], truth, "R@1", "t2i")
    assert np.isnan(gap.value) and gap.low <= true <= gap.high
    reports = [limner.evaluate(systems[name].T, collection, name=name) for name in ("good", "bad")]
    compared = limner.compare(reports, labels=store, collection=collection)
    assert "nan" not in str(compared) and "nan" not in compared.save(tmp_path / "c.csv").read_text()
    (row,) = contests(compared)[-1].rows
    assert (row.difference, row.bar, row.values[1]) == ("–", None, "–") and row.verdict in ("better", "unclear")


def test_no_design_is_said_and_other_labels_are_refused(world, store):
    report = limner.evaluate(world[1]["good"], world[0], labels=store)
    assert report.estimates == () and any("no design in the store" in note for note in report.notes)
    with pytest.raises(LimnerError, match="expected a store of answers"):
        limner.evaluate(world[1]["good"], world[0], labels={"a": 1})
    with pytest.raises(LimnerError, match="mode"):
        limner.evaluate(world[1]["good"], world[0], labels=store, mode="whenever")


# --- machines ---------------------------------------------------------------------------------------------------


def test_machines_answers_are_apart_and_never_count_as_people(world, store):
    collection, systems, _ = world
    plan(store, collection, systems, measures="R@1", direction="t2i", budget=20)
    pairs = [p for n in designs(store)[0].drawn for p in designs(store)[0].units[n].pairs("t2i")]
    assert add_machine_answers(store, "vlm", dict.fromkeys(pairs, 0.9)) == len(pairs)
    assert add_machine_answers(store, "vlm", {pairs[0]: 0.1}) == 0  # the first answer stays
    assert machine_answers(store, "vlm")[pairs[0]] == 0.9
    assert unit_values(store, designs(store)[0]) == {}


# --- from the shell ---------------------------------------------------------------------------------------------


def test_plan_judge_and_estimate_from_the_shell(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from limner.cli import app

    def run(*words):
        done = CliRunner().invoke(app, [str(w) for w in words])
        return done.exit_code, done.output

    monkeypatch.chdir(tmp_path)
    test_split = limner.load("scenes", images=60).test
    matrix = np.random.default_rng(0).normal(size=(len(test_split.images), len(test_split.texts)))
    np.save("S.npy", matrix)
    common = ("work.db", "scenes", "-O", "images=60", "--scores", "mine=S.npy", "--direction", "t2i")
    code, output = run("annotate", "plan", *common, "--measure", "R@1", "--budget", 12, "--judge", "scores=mine")
    assert code == 0 and "labels to give now" in output and "Next:" in output
    for wrong, message in (("--half-width=nan", "above 0"), ("--measure=nonsense", "unknown measure 'nonsense'")):
        code, output = run("annotate", "plan", "new.db", "not-a-file.csv", "--model", "colours", wrong)
        assert code == 3 and message in output, "said before the collection is read and a system is trained"
    code, output = run("annotate", "plan", *common, "--measure", "MedR")
    assert code == 3 and "cannot be estimated from few labels" in output
    code, output = run("annotate", "plan", *common, "--measure", "mAP@R", "--budget", 12)
    assert code == 3 and "too few for measures that need all matches of a query" in output
    code, output = run("annotate", "judge", "work.db", "--judge", "endpoint")
    assert code == 2 and "needs -O url=URL and -O model=NAME" in output
    code, output = run("evaluate", "scenes", "-O", "images=60", "--scores", "S.npy", "--estimate", "work.db")
    assert code == 3 and "label some of the drawn pairs first" in output
    true = {(i, t) for i, t, _ in test_split.judged("complete", "i2t").relevant}
    with open_store("work.db") as store:
        annotator = add_annotator(store, "ada").id
        while (task := lease(store, annotator)) is not None:
            for item in task.items:
                grade = 4 if (item.image, item.caption) in true else 1
                submit(store, annotator, item.id, key=uuid.uuid4().hex, grade=grade)
    code, output = run("evaluate", "scenes", "-O", "images=60", "--scores", "S.npy", "--estimate", "work.db", "--json")
    assert code == 0 and '"estimated"' in output
    code, output = run("evaluate", "scenes", "-O", "images=60", "--scores", "S.npy", "--estimate", "none.db")
    assert code == 3 and "no store none.db" in output
