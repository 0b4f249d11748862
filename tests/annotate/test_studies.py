"""What people see of a study: systems against each other, intervals so far, strata, what reports say of labels."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import labelling
import limner
from limner.annotate import open_store, plan, quality
from limner.annotate.allocation import distinguishing_units, narrow, shares_for
from limner.annotate.estimate import difference
from limner.annotate.results import studies
from limner.annotate.sample import kept_study, read_sample, stored_collection
from limner.annotate.store import NotAllowed
from limner.annotate.store.answers import answers
from limner.annotate.store.contents import add_collection
from limner.annotate.store.designs import designs
from limner.annotate.store.exclusions import exclude
from limner.annotate.store.tasks import lease
from limner.core.errors import LimnerError
from limner.stats import stratified
from limner.stats.sampling import draw


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "work.db") as opened:
        add_collection(opened, labelling.study()[0])
        yield opened


@pytest.fixture
def labelled(store):
    """A study of two systems, drawn and labelled."""
    collection, systems, truth = labelling.study()
    plan(store, collection, systems, measures="R@1", direction="t2i", budget=45, half_width=9)
    labelling.label(store, truth)
    return store


def reports(store, **more):
    collection, systems, _ = labelling.study()
    return [limner.evaluate(s.T, collection, labels=store, name=name, **more) for name, s in systems.items()]


def true_difference(direction="t2i"):
    _, systems, truth = labelling.study()
    tops = [np.asarray((s if direction == "i2t" else s.T).top(1).indices)[:, 0] for s in systems.values()]
    side = truth if direction == "i2t" else truth.T
    hits = [side[np.arange(len(side)), top].mean() for top in tops]
    return hits[0] - hits[1]


# --- kept with the plan -----------------------------------------------------------------------------------------


def test_a_plan_keeps_what_its_systems_return_and_which_pairs_are_given(database):
    """In both kinds of stores; nothing else is needed to estimate later."""
    collection, systems, _ = labelling.study()
    with open_store(database) as store:
        add_collection(store, collection)
        plan(store, collection, systems, measures="R@1 P@3", budget=20, half_width=3)
        stored = stored_collection(store)
        assert stored.judged("pairs", "i2t").relevant == collection.judged("pairs", "i2t").relevant
        for design in designs(store):
            study = kept_study(store, design)
            assert study.half_width == 3
            for name, scores in systems.items():
                ranking = (scores if design.direction == "i2t" else scores.T).top(3)
                assert dict(study.lists[name]) == dict(ranking)


# --- one system against another ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["fixed", "anytime"])
def test_compare_shows_the_difference_under_the_complete_truth(labelled, mode):
    collection, systems, _ = labelling.study()
    evaluated = reports(labelled)
    compared = limner.compare(evaluated, labels=labelled, mode=mode)
    (gap,) = compared.estimated
    sides = [s.T for s in systems.values()]
    assert gap.estimate == difference(labelled, *sides, collection, "R@1", direction="t2i", mode=mode)
    assert gap.estimate.low <= true_difference() <= gap.estimate.high
    assert gap.change_by_pairs == pytest.approx(
        evaluated[0].value("R@1", direction="t2i") - evaluated[1].value("R@1", direction="t2i")
    )
    text = str(compared)
    assert "estimated, text -> image" in text and f"{mode} intervals" in text and str(gap) in text
    (row,) = [row for row in compared.rows() if row["view"] == "estimated"]
    assert row["difference"] == gap.estimate.value and row["p"] is None and row["a"] == "good"


def test_a_difference_is_marked_only_where_its_interval_excludes_nothing_else(labelled):
    """The same system against itself differs by nothing, whatever the labels say."""
    one = reports(labelled)[0]
    (gap,) = limner.compare([one, one], labels=labelled).estimated
    assert gap.estimate.value == 0 and not gap.significant


def test_three_systems_are_compared_pair_by_pair_with_a_correction(labelled):
    good, bad = reports(labelled)
    compared = limner.compare([good, bad, good], labels=labelled)
    assert [(each.a, each.b) for each in compared.estimated] == [(0, 1), (0, 2), (1, 2)]
    assert "corrected over these 3 comparisons (Bonferroni)" in str(compared)


def test_reports_with_estimates_say_when_a_comparison_leaves_them_out(labelled, tmp_path):
    compared = limner.compare(reports(labelled))
    assert compared.estimated == () and any("--estimate STORE" in note for note in compared.notes)
    with open_store(tmp_path / "empty.db") as empty:
        add_collection(empty, labelling.study()[0])
        with pytest.raises(LimnerError, match="no design"):
            limner.compare(reports(labelled), labels=empty, collection=labelling.study()[0])


def test_compare_at_the_shell(labelled, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from limner.cli import app

    monkeypatch.chdir(tmp_path)
    for report in reports(labelled):
        report.save(f"{report.system}.json")

    def run(*words):
        done = CliRunner().invoke(app, list(words))
        return done.exit_code, done.output

    code, output = run("compare", "good.json", "bad.json", "--estimate", "work.db", "--samples", "500")
    assert code == 0 and "estimated, text -> image" in output and "labels" in output
    command = ("compare", "good.json", "bad.json", "--samples", "500", "--estimate", "work.db")
    code, output = run(*command, "-O", "mode=anytime", "--json")
    (row,) = [
        row
        for row in json.loads(output[output.index("{") : output.rindex("}") + 1])["rows"]
        if row["view"] == "estimated"
    ]
    assert code == 0 and row["low"] <= true_difference() <= row["high"] and "anytime" in row["test"]
    run(*command, "-o", "both.csv", "-o", "both.md", "-o", "both.tex")
    assert all("estimated" in (tmp_path / f"both.{ending}").read_text() for ending in ("csv", "md", "tex"))
    code, output = run("report", "good.json", "bad.json", "--estimate", "work.db", "-o", "both.html")
    page = (tmp_path / "both.html").read_text()
    assert code == 0 and "Text → image, estimated" in page and "estimated, 45 labels" in page
    code, output = run("report", "good.json", "--estimate", "work.db", "-o", "one.html")
    assert code == 2 and "several reports" in output
    code, output = run("compare", "good.json", "bad.json", "--estimate", "none.db")
    assert code == 3 and "no store none.db" in output
    code, output = run("compare", "good.json", "bad.json", "--estimate", "work.db", "-O", "mode=sometimes")
    assert code in (2, 3) and "mode" in output and "Traceback" not in output


# --- what a report says of its labels ---------------------------------------------------------------------------


class PartlyRight:
    """A judge that is right three times of four."""

    name = "known"

    def probabilities(self, pairs):
        truth = labelling.study()[2]
        answers = [truth[int(i[1:]), int(t[1:])] ^ (hash_of(i, t) % 4 == 0) for i, t in pairs]
        return np.where(answers, 0.9, 0.1)


def hash_of(image, caption):
    return 7 * int(image[1:]) + 3 * int(caption[1:])


def test_a_report_says_how_many_labels_how_people_agree_and_how_good_the_judge_is(store, tmp_path):
    collection, systems, truth = labelling.study()
    plan(store, collection, systems, measures="R@1", direction="t2i", budget=24, judge=PartlyRight(), replication=2)
    labelling.label(store, truth, name="ada")
    labelling.label(store, truth, name="bob")
    report = reports(store)[1]
    reloaded = limner.Report.load(report.save(tmp_path / "r.json"))
    about = reloaded.settings["labels"]
    assert about["labels"] == {"t2i": report.estimates[0].labels} and about["waiting"] == {"t2i": 0}
    assert about["agreement"]["alpha"] == 1 and about["agreement"]["pairs"] >= 24
    judge = about["judges"]["t2i"]
    drawn = [designs(store)[0].units[n] for n in designs(store)[0].drawn]
    predicted = np.array([unit.score >= 0.5 for unit in drawn])
    right = np.array([truth[int(u.candidates[0][1:]), int(u.query[1:])] for u in drawn])
    assert judge["judge"] == "known" and judge["units"] == len(drawn)
    assert judge["right"]["yes"] == (predicted & right).sum() and judge["right"]["of"] == predicted.sum()
    assert judge["found"]["of"] == right.sum()
    assert judge["right"]["low"] <= judge["right"]["yes"] / judge["right"]["of"] <= judge["right"]["high"]
    text = str(report)
    assert "design effect" in text and "alpha 1.00" in text and "judge 'known'" in text and "fixed intervals" in text


def test_an_exact_number_survives_a_file(store, tmp_path):
    """With everything labelled there is no design effect; a file holds that too, and the page can be made of it."""
    collection, systems, truth = labelling.study()
    plan(store, collection, systems, measures="R@1", direction="t2i", half_width=0.001)
    labelling.label(store, truth)
    report = reports(store)[0]
    reloaded = limner.Report.load(report.save(tmp_path / "r.json"))
    (one,), (loaded_row,) = report.estimates, reloaded.estimates
    assert np.isnan(one.estimate.effect) and np.isnan(loaded_row.estimate.effect)
    assert replace(one.estimate, effect=0.0) == replace(loaded_row.estimate, effect=0.0)
    assert "Under the complete truth" in reloaded.save(tmp_path / "r.html").read_text()


# --- how far it is ----------------------------------------------------------------------------------------------


def test_a_study_narrows_until_it_is_narrow_enough(store):
    collection, systems, truth = labelling.study()
    plan(store, collection, systems, measures="R@1", direction="t2i", half_width=1)
    (before,) = studies(store)
    assert before.labels == 0 and not before.narrow and before.widest is None
    assert all("label some of the drawn pairs first" in row.missing for row in before.rows)
    widths = []
    for _ in range(20):
        labelling.label(store, truth, tasks=1)
        (study,) = studies(store)
        widths.append(study.widest)
        if not study.waiting:
            break
    assert widths == sorted(widths, reverse=True) and widths[-1] < widths[0]
    assert [(row.system, row.measure) for row in study.rows] == [("bad", "R@1"), ("good", "R@1")]
    assert sum(each.answered for each in study.strata) == sum(each.drawn for each in study.strata)
    assert study.anytime and study.narrow == (study.widest <= 1)


def test_a_fixed_interval_never_says_that_people_can_stop(labelled):
    (anytime,) = studies(labelled, mode="anytime")
    (once,) = studies(labelled, mode="fixed")
    assert once.widest < anytime.widest and not once.anytime and not once.narrow
    wide = [row.narrow(100.0) for row in once.rows]
    assert wide == [False, False] and all(row.narrow(100.0) for row in anytime.rows)


def test_a_measure_without_an_anytime_interval_is_shown_with_a_fixed_one(labelled, monkeypatch):
    from limner.annotate import results

    usual = results.estimates

    def only_fixed(*args, mode, **more):
        if mode == "anytime":
            raise LimnerError("no anytime interval for this")
        return usual(*args, mode=mode, **more)

    monkeypatch.setattr(results, "estimates", only_fixed)
    (study,) = studies(labelled)
    assert not study.anytime and not study.narrow and all(row.found is not None for row in study.rows)
    assert any("valid for one look" in note for note in study.notes)


def test_a_store_without_a_plan_has_no_study(store):
    assert studies(store) == []


# --- what is asked again ----------------------------------------------------------------------------------------


def drawn_of(store):
    """What a design is made of, beside the answers."""
    (design,) = designs(store)
    return design.shares, [(n, design.units[n].place, design.units[n].probability) for n in design.drawn]


def estimate_of(store, mode="fixed"):
    collection, systems, _ = labelling.study()
    (row,) = limner.evaluate({"t2i": systems["bad"].T}, collection, labels=store, mode=mode).estimates
    return row


def test_an_excluded_annotators_pairs_are_asked_again_and_the_design_stays(database):
    """In both kinds of stores: the sample shrinks to what was drawn before the gap, and comes back whole."""
    collection, systems, truth = labelling.study()
    with open_store(database) as store:
        add_collection(store, collection)
        plan(store, collection, systems, measures="R@1", direction="t2i", half_width=0.5)
        before = drawn_of(store)
        labelling.label(store, truth, name="ada", tasks=1)
        liar = labelling.label(store, ~truth, name="liar", tasks=1)
        labelling.label(store, truth, name="ada")
        exclude(store, "annotator", liar, reason="answers the contrary")
        (shrunk,) = studies(store)
        early = estimate_of(store).labels
        assert 0 < early == shrunk.labels and shrunk.waiting > 0, "what was drawn before the gap counts, and no more"
        assert drawn_of(store) == before
        with pytest.raises(NotAllowed, match="is excluded"):
            lease(store, liar)
        labelling.label(store, truth, name="bob")  # somebody who has not seen these pairs
        (restored,) = studies(store)
        assert restored.waiting == 0 and restored.labels == len(before[1]) and drawn_of(store) == before
        full = estimate_of(store)
    top = np.asarray(systems["bad"].T.top(1).indices)[:, 0]
    true = truth.T[np.arange(len(top)), top].mean()
    assert full.estimate.low - 1e-9 <= true <= full.estimate.high + 1e-9, "the liar left no trace"


def test_a_rejected_task_is_asked_again(database):
    collection, systems, truth = labelling.study()
    with open_store(database) as store:
        add_collection(store, collection)
        plan(store, collection, systems, measures="R@1", direction="t2i", budget=30, half_width=0.5)
        before = drawn_of(store)
        hasty = labelling.label(store, ~truth, name="hasty", tasks=1)
        labelling.label(store, truth, name="ada")
        wrong = estimate_of(store)
        (number,) = {a.assignment for a in answers(store) if a.annotator == "hasty"}
        quality.review(store, number, "reject", reason="controls wrong")
        assert studies(store)[0].labels < wrong.labels and lease(store, hasty) is None
        labelling.label(store, truth, name="bob")
        relabelled = estimate_of(store)
        assert relabelled.labels == wrong.labels and drawn_of(store) == before
        assert relabelled.estimate.value != wrong.estimate.value


def test_with_two_people_for_each_pair_the_other_answer_counts_meanwhile(database):
    collection, systems, truth = labelling.study()
    with open_store(database) as store:
        add_collection(store, collection)
        plan(store, collection, systems, measures="R@1", direction="t2i", budget=30, half_width=0.5, replication=2)
        labelling.label(store, truth, name="ada")
        labelling.label(store, truth, name="bob")
        full = estimate_of(store)
        exclude(store, "annotator", "bob", reason="left")
        assert estimate_of(store).estimate == full.estimate
        assignment = lease(store, labelling.label(store, truth, name="eve", tasks=0))
        assert assignment is not None, "every pair is asked of a second person again"


def test_labels_are_counted_in_the_order_of_the_draw_after_an_exclusion(store):
    """An interval that may be looked at any time is valid only if no answer chooses what counts."""
    collection, systems, truth = labelling.study()
    plan(store, collection, systems, measures="R@1", direction="t2i", half_width=0.5)
    liar = labelling.label(store, ~truth, name="liar", tasks=1, items=7)  # leaves a task half done
    labelling.label(store, truth, name="ada")
    exclude(store, "annotator", liar, reason="answers the contrary")
    labelling.label(store, truth, name="bob")
    (design,) = designs(store)
    sample = read_sample(store, collection, "t2i")
    assert list(sample.units) == design.drawn
    units = [design.units[n] for n in sample.units]
    answers_drawn = [sample.said[pair] for unit in units for pair in unit.pairs("t2i")]
    assert answers_drawn == [bool(truth[int(u.candidates[0][1:]), int(u.query[1:])]) for u in units]


# --- where to look next -----------------------------------------------------------------------------------------


class ByNumber:
    """A judge whose belief follows the image: strata that differ in what they hold of a comparison."""

    name = "by-number"

    def probabilities(self, pairs):
        return np.array([int(image[1:]) / 60 for image, _ in pairs])


def test_the_next_labels_go_where_the_systems_differ(database):
    """In both kinds of stores: one more draw of the same design, whose probabilities are known."""
    collection, systems, truth = labelling.study()
    with open_store(database) as store:
        add_collection(store, collection)
        plan(store, collection, systems, measures="R@1", direction="t2i", budget=30, half_width=0.5, judge=ByNumber())
        labelling.label(store, truth)
        before = designs(store)[0].drawn
        (narrowed,) = narrow(store, collection, systems, 12)
        (design,) = designs(store)
        new = design.drawn[len(before) :]
        assert design.drawn[: len(before)] == before and len(new) == sum(narrowed.drawn) == narrowed.labels == 12
        assert len(design.shares) == 2 and sum(design.shares[1]) == pytest.approx(1)
        check_probabilities(design, before, new)
        labelling.label(store, truth)
        for mode in ("fixed", "anytime"):
            sides = [s.T for s in systems.values()]
            gap = difference(store, *sides, collection, "R@1", direction="t2i", mode=mode)
            assert gap.low - 1e-9 <= true_difference() <= gap.high + 1e-9


def check_probabilities(design, before, new):
    """Each draw had the probability that its stratum's share and what was left of it say, by a slow count."""
    left = {h: sum(u.stratum == h for u in design.units) for h in range(len(design.shares[1]))}
    for n in before:
        left[design.units[n].stratum] -= 1
    for n in new:
        h = design.units[n].stratum
        open_ = sum(share for k, share in enumerate(design.shares[1]) if left[k])
        assert design.units[n].probability == pytest.approx(design.shares[1][h] / open_ / left[h])
        left[h] -= 1


def test_what_both_systems_return_is_not_worth_a_label(store):
    collection, systems, _ = labelling.study()
    plan(store, collection, systems, measures="R@1", direction="t2i", budget=20)
    (design,) = designs(store)
    originals = collection.judged("pairs", "t2i")
    good, bad = ({(q, ranking[q][0]) for q in ranking.queries} for ranking in (s.T.top(1) for s in systems.values()))
    pairs = [(unit.query, unit.candidates[0]) for unit in design.units]
    assert distinguishing_units(design, systems, originals).tolist() == [
        float((p in good) != (p in bad)) for p in pairs
    ]
    alone = distinguishing_units(design, {"good": systems["good"]}, originals)
    assert alone.tolist() == [float(p in good) for p in pairs]


def test_shares_narrow_a_difference_more_than_shares_by_size_and_cover():
    """Simulated: two strata, of which one holds nearly all that can tell two systems apart."""
    random = np.random.default_rng(3)
    codes = np.repeat([0, 1], [300, 300])
    differing = (random.random(600) < np.where(codes == 0, 0.9, 0.05)).astype(float)
    sign = np.where(random.random(600) < 0.5, 1.0, -1.0)
    truth = (random.random(600) < 0.4) * sign * differing
    true, widths, coverage = truth[differing > 0].sum() / 600, {}, {}
    sizes = np.array([differing[codes == h].sum() for h in (0, 1)])
    for allocation in ("size", "narrow"):
        covered, wide = [], []
        for seed in range(300):
            first = draw(codes, 40, pilot=2, seed=seed).units
            first_answers = {int(n): float(truth[n] != 0) for n in first}
            shares = shares_for(codes, differing, first_answers) if allocation == "narrow" else None
            further = draw(codes, 80, shares=shares, before=first, seed=1000 + seed).units
            differing_units = np.array([n for n in (*first, *further) if differing[n]])
            e = stratified(truth[differing_units], codes[differing_units], sizes, bounds=(-1.0, 1.0)).scaled(
                sizes.sum() / 600
            )
            covered.append(e.low <= true <= e.high)
            wide.append(e.half_width)
        widths[allocation], coverage[allocation] = np.mean(wide), np.mean(covered)
    assert widths["narrow"] < 0.93 * widths["size"] and coverage["narrow"] > 0.92


def test_narrowing_refuses_what_it_cannot_do(store):
    collection, systems, _ = labelling.study()
    with pytest.raises(LimnerError, match="no design to add to"):
        narrow(store, collection, systems, 5)
    plan(store, collection, systems, measures="R@1", direction="t2i", budget=20)
    with pytest.raises(LimnerError, match="got 3 systems"):
        narrow(store, collection, {**systems, "third": systems["good"]}, 5)
    with pytest.raises(LimnerError, match="1 or more"):
        narrow(store, collection, systems, 0)


def test_a_turn_narrows_at_the_shell(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from limner.cli import app

    monkeypatch.chdir(tmp_path)
    test_split = limner.load("scenes", images=60).test
    random = np.random.default_rng(0)
    for name in ("a", "b"):
        np.save(f"{name}.npy", random.normal(size=(len(test_split.images), len(test_split.texts))))
    common = ["scenes", "-O", "images=60", "--scores", "a=a.npy", "--scores", "b=b.npy"]
    run = CliRunner().invoke
    assert run(app, ["annotate", "plan", "work.db", *common, "--direction", "t2i", "--budget", "20"]).exit_code == 0
    done = run(app, ["annotate", "pool", "work.db", *common, "--new-pairs", "10", "-O", "strategy=narrow"])
    assert done.exit_code == 0 and "10 further units drawn" in done.output and "limner annotate serve" in done.output
    done = run(app, ["annotate", "pool", "other.db", *common, "--new-pairs", "10", "-O", "strategy=narrow"])
    assert done.exit_code == 3 and "limner annotate plan" in done.output


def test_nothing_is_drawn_where_one_direction_cannot_be_narrowed(tmp_path):
    collection, systems, _ = labelling.study()
    with open_store(tmp_path / "w.db") as store:
        add_collection(store, collection)
        plan(store, collection, systems, measures="R@1", direction="t2i", budget=20, half_width=9)
        plan(store, collection, systems, measures="mAP@R", direction="i2t", budget=4000, half_width=30)
        before = [each.drawn for each in designs(store)]
        with pytest.raises(LimnerError, match="levels cannot be narrowed"):
            narrow(store, collection, systems, 12)
        assert [each.drawn for each in designs(store)] == before
