"""Labels of a judge that need no people: the certificate by a slow oracle, and the way through a store."""

from __future__ import annotations

import math
import uuid

import numpy as np
import pytest
from typer.testing import CliRunner

from labelling import study
from limner.annotate import open_store
from limner.annotate.design import plan
from limner.annotate.export import import_answers
from limner.annotate.merge import by_majority
from limner.annotate.pool import waiting
from limner.annotate.scale import ImportedAnswer
from limner.annotate.store.answers import answers, submit
from limner.annotate.store.contents import add_collection, add_pairs, pairs
from limner.annotate.store.designs import add_machine_answers
from limner.annotate.store.exclusions import exclude
from limner.annotate.store.people import add_annotator
from limner.annotate.store.tasks import add_tasks, lease
from limner.annotate.tasks import make_tasks
from limner.annotate.trusted_labels import accept, drawn_sample, remember_sample, trusted_labels
from limner.cli import app
from limner.core.errors import LimnerError, UnknownId


def world(n, seed, *, noise=0.15, low=0.0):
    """Probabilities of a judge, and the truth, which the judge knows more or less."""
    random = np.random.default_rng(seed)
    chances = {(f"i{k:04}", "t"): float(p) for k, p in enumerate(low + (1 - low) * random.random(n))}
    return chances, {pair: bool(p + noise * random.normal() > 0.5) for pair, p in chances.items()}


def sample_of(truth, n, seed):
    """The answers of people to a random sample."""
    pairs = list(truth)
    rows = np.random.default_rng([seed, n]).choice(len(pairs), n, replace=False)
    return {pairs[row]: truth[pairs[row]] for row in rows}


def binomial_tail(wrong, n, rate):
    """The probability of so few errors among n, summed term by term."""
    return sum(math.comb(n, k) * rate**k * (1 - rate) ** (n - k) for k in range(wrong + 1))


# --- the certificate --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_labels_are_those_beyond_thresholds_that_the_sample_supports(seed):
    """The slow way: each label by a loop, and the exact test of all sampled pairs beyond a threshold, term by term.

    Two thirds of the sample test a threshold, so that all of it supports it at least nearly as well.
    """
    chances, truth = world(3000, seed)
    people = sample_of(truth, 900, seed)
    trusted = trusted_labels(chances, people, errors=0.1, seed=seed)
    expected = {}
    for pair, p in chances.items():
        if pair in people:
            continue
        if trusted.yes.value is not None and p >= trusted.yes.value:
            expected[pair] = True
        if trusted.no.value is not None and 1 - p >= trusted.no.value:
            expected[pair] = False
    assert dict(trusted.labels) == expected and len(expected) > 500
    assert trusted.left == 3000 - 900 - len(expected) and trusted.sample == 900 and trusted.unanswered == 0
    for is_yes, threshold in ((True, trusted.yes), (False, trusted.no)):
        beyond = [pair for pair in people if _confidence(chances[pair], is_yes) >= threshold.value]
        wrong = sum(people[pair] != is_yes for pair in beyond)
        assert binomial_tail(wrong, len(beyond), 0.1) <= 0.05


def _confidence(p, is_yes):
    """The confidence of a pair on one side."""
    return p if is_yes else 1 - p


def test_the_promise_is_broken_in_at_most_five_percent_of_draws():
    """On either side, over all pairs beyond its threshold; and a useless judge is hardly ever trusted."""
    chances, truth = world(4000, 0, noise=0.2)
    useless = dict(zip(chances, np.random.default_rng(1).random(4000).tolist(), strict=True))
    broken = taken = accepted = 0
    for seed in range(100):
        people = sample_of(truth, 500, seed)
        trusted = trusted_labels(chances, people, errors=0.1, seed=seed)
        rates = []
        for is_yes, threshold in ((True, trusted.yes), (False, trusted.no)):
            beyond = [
                p for p in chances if threshold.value is not None and _confidence(chances[p], is_yes) >= threshold.value
            ]
            rates.append(np.mean([truth[pair] != is_yes for pair in beyond]) if beyond else 0.0)
        broken, accepted = broken + (max(rates) > 0.1), accepted + len(trusted.labels)
        taken += bool(trusted_labels(useless, people, errors=0.1, seed=seed).labels)
    assert broken <= 9 and accepted > 100 * 500  # more than 9 of 100 are seen in 3 of 100 tests at exactly 5 percent
    assert taken <= 9


def test_pairs_without_an_answer_count_as_errors():
    chances, truth = world(2000, 0, noise=0.0)
    people = sample_of(truth, 600, 0)
    some = {pair: None if n % 2 else value for n, (pair, value) in enumerate(people.items())}
    assert len(trusted_labels(chances, people).labels) > 1000
    trusted = trusted_labels(chances, some)
    assert not trusted.labels and trusted.unanswered == 300 and "300 pairs without an answer" in str(trusted)


def test_clusters_are_the_unit_that_is_drawn():
    """Every pair of an image alike: 600 answers about 12 images are 12 answers."""
    chances, truth = world(1000, 0, noise=0.0)
    people = sample_of(truth, 600, 0)
    images = {pair: f"{truth[pair]} {n % 6}" for n, pair in enumerate(people)}
    assert not trusted_labels(chances, people, clusters=images).labels
    assert trusted_labels(chances, people, clusters={pair: pair[0] for pair in people}).labels


def test_a_judge_that_says_one_thing_only_is_trusted_where_it_is_right():
    chances, truth = world(2000, 0, noise=0.0, low=0.6)
    trusted = trusted_labels(chances, sample_of(truth, 300, 0))
    assert trusted.no.value is None and set(trusted.labels.values()) == {True}


def test_where_both_sides_overlap_the_larger_one_is_used():
    """Nearly all pairs are no match, and the judge knows the few that are: no from 0 up, yes from above."""
    chances = {(f"i{k:04}", "t"): k / 4000 for k in range(4000)}
    truth = {pair: p >= 0.9 for pair, p in chances.items()}
    trusted = trusted_labels(chances, sample_of(truth, 2000, 0), errors=0.3)
    assert trusted.yes.value is None and trusted.no.value is not None and set(trusted.labels.values()) == {False}
    wrong = np.mean([truth[pair] != label for pair, label in trusted.labels.items()])
    assert 0.05 < wrong < 0.3


def test_the_scale_of_a_judge_does_not_matter():
    chances, truth = world(2000, 0)
    people = sample_of(truth, 600, 0)
    usual = trusted_labels(chances, people, errors=0.1)
    squeezed = trusted_labels({pair: 0.7 + 0.2 * p for pair, p in chances.items()}, people, errors=0.1)
    assert usual.labels and set(usual.labels.values()) == {True, False}
    assert len(usual.labels.items() ^ squeezed.labels.items()) < 10  # thresholds lie between two numbers


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"errors": 0.0}, "errors: got 0.0, expected a number between 0 and 1"),
        ({"errors": 1.5}, "errors: got 1.5"),
        ({"errors": float("nan")}, "errors: got nan"),
        ({"level": 1.0}, "level: got 1.0"),
        ({"people": {}}, "people have judged none"),
        ({"people": {("elsewhere", "t"): True}}, "people have judged none"),
        ({"probabilities": {("i", "t"): float("nan")}}, "got nan, expected a number from 0 to 1"),
        ({"probabilities": {("i", "t"): 1.2}}, "got 1.2, expected a number from 0 to 1"),
    ],
)
def test_bad_input_ends_in_a_sentence(change, words):
    chances, truth = world(50, 0)
    with pytest.raises(LimnerError, match=words):
        trusted_labels(**{"probabilities": chances, "people": truth, **change})


def test_three_answers_certify_nothing():
    chances, truth = world(50, 0)
    assert not trusted_labels(chances, sample_of(truth, 3, 0)).labels


# --- in a store -------------------------------------------------------------------------------------------------


@pytest.fixture
def pooled(tmp_path):
    """A store whose pool is every pair of a world, with the answers of a judge; its address, and the truth."""
    collection, _, truth = study(60)
    every = [(image, text) for image in collection.images.ids for text in collection.texts.ids]
    random = np.random.default_rng(0)
    noisy = np.clip(truth * 0.8 + 0.1 + 0.15 * random.normal(size=truth.shape), 0, 1)
    with open_store(tmp_path / "w.db") as store:
        add_collection(store, collection)
        add_pairs(store, every)
        scores = {(i, t): float(noisy[int(i[1:]), int(t[1:])]) for i, t in every}
        add_machine_answers(store, "machine", scores)
    return tmp_path / "w.db", truth


def ask_sample(store, size):
    """Tasks for a random sample, as the command makes them."""
    population = waiting(store)
    drawn = drawn_sample(population, size)
    task_ids = add_tasks(store, make_tasks(drawn, study(60)[0].judgements, positives=0, negatives=0))
    remember_sample(store, population, task_ids)


def answer_all(store, truth, name):
    """Answers of a person to all pairs that are in a task and have none."""
    judged = {(each.image, each.caption) for each in answers(store)}
    open_pairs = [(p.image, p.caption) for p in pairs(store) if p.asked and (p.image, p.caption) not in judged]
    rows = [ImportedAnswer(name, i, t, 4 if truth[int(i[1:]), int(t[1:])] else 1) for i, t in open_pairs]
    import_answers(store, rows, key=name)


def test_a_store_from_sample_to_what_is_left_for_people(pooled):
    address, truth = pooled
    with open_store(address) as store:
        ask_sample(store, 900)
        answer_all(store, truth, "ada")
        trusted = accept(store, "machine", errors=0.05)
        labels = by_majority(answers(store))
        people = {(a.image, a.caption) for a in answers(store) if a.annotator == "ada"}
        assert len(people) == 900 and len(labels) == 900 + len(trusted.labels) and len(trusted.labels) > 1500
        wrong = [truth[int(i[1:]), int(t[1:])] != yes for (i, t), yes in trusted.labels.items()]
        assert np.mean(wrong) < 0.05
        assert len(waiting(store)) == trusted.left == 3600 - 900 - len(trusted.labels)
        add_tasks(store, make_tasks(waiting(store), study(60)[0].judgements, positives=0, negatives=0))
        answer_all(store, truth, "bob")
        assert len(by_majority(answers(store))) == 3600


def test_a_plan_is_refused_where_a_judge_has_labelled(pooled):
    """In both orders: the intervals of a plan need people's answers, and a judge's would count as such."""
    address, truth = pooled
    collection, systems, _ = study(60)
    with open_store(address) as store:
        ask_sample(store, 900)
        answer_all(store, truth, "ada")
        assert accept(store, "machine").labels
        with pytest.raises(LimnerError, match="has labels of judge machine, and a plan's intervals need people"):
            plan(store, collection, systems, half_width=8)
        exclude(store, "annotator", "judge machine", reason="a plan needs people")
        assert plan(store, collection, systems, direction="i2t", half_width=8)
        with pytest.raises(LimnerError, match="the store has a plan"):
            accept(store, "machine")


def test_pairs_that_came_after_the_sample_get_no_label(pooled):
    address, truth = pooled
    collection = study(60)[0]
    with open_store(address.with_name("late.db")) as store:
        add_collection(store, collection)
        early = [(image, text) for image in collection.images.ids[:40] for text in collection.texts.ids]
        late = [(image, text) for image in collection.images.ids[40:] for text in collection.texts.ids]
        add_pairs(store, early)
        ask_sample(store, 900)
        add_pairs(store, late)
        certain = {(i, t): 0.9 if truth[int(i[1:]), int(t[1:])] else 0.1 for i, t in early + late}
        add_machine_answers(store, "machine", certain)
        answer_all(store, truth, "ada")
        trusted = accept(store, "machine")
        assert trusted.labels and not trusted.labels.keys() & set(late)
        assert len(waiting(store)) >= len(late)


def test_a_store_that_is_not_ready_says_what_to_do(pooled, tmp_path):
    address, _ = pooled
    with open_store(address) as store:
        with pytest.raises(LimnerError, match=r"no random sample: draw one with .*sample=N"):
            accept(store, "machine")
        with pytest.raises(LimnerError, match="a sample of 9,999 pairs: 3,600 pooled pairs are without a task"):
            ask_sample(store, 9999)
        ask_sample(store, 100)
        with pytest.raises(UnknownId, match="no judge 'nobody'"):
            accept(store, "nobody")
        trusted = accept(store, "machine")
        assert not trusted.labels and trusted.unanswered == 100 and "draw a larger sample" in str(trusted)


def call(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_way_in_the_shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call("data", "convert", "scenes", "world", "--to", "folder", "-O", "images=120").exit_code == 0
    assert call("annotate", "judge", "work.db", "-O", "errors=0.1").exit_code != 0
    assert call("annotate", "pool", "work.db", "world", "--model", "histograms", "--model", "colours").exit_code == 0
    done = call("annotate", "tasks", "work.db", "-O", "sample=40", "-O", "positives=0", "-O", "negatives=0")
    assert done.exit_code == 0 and "for 40 pairs" in done.output and "still without a task" in done.output, done.output
    done = call("annotate", "tasks", "work.db", "-O", "sample=4", "--direction", "i2t")
    assert done.exit_code != 0 and "leave --direction out" in done.output
    (tmp_path / "mine.py").write_text(
        "class Sure:\n    name = 'sure'\n    def probabilities(self, pairs):\n        return [0.01] * len(pairs)\n"
        "def sure(collection):\n    return Sure()\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    done = call("annotate", "judge", "work.db", "--judge", "mine:sure", "-O", "errors=0.1")
    assert done.exit_code == 0 and "no label is certain enough" in done.output, done.output
    with open_store("work.db") as store:
        ada = add_annotator(store, "ada").id
        while (task := lease(store, ada)) is not None:
            for item in task.items:
                submit(store, ada, item.id, key=uuid.uuid4().hex, grade=1)
    done = call("annotate", "judge", "work.db", "--judge", "stored=sure", "-O", "errors=0.2", "-O", "level=0.8")
    assert done.exit_code == 0 and "yes" not in done.output.partition("labels of the judge")[2].partition(";")[0]
    assert " no (probability 0.01 or less); at most 20% errors with 80% confidence" in done.output, done.output
    done = call("annotate", "tasks", "work.db")
    assert done.exit_code != 0 and "every pooled pair already has a task" in done.output
    assert call("annotate", "judge", "work.db", "--judge", "stored=sure", "-O", "level=0.8").exit_code != 0
