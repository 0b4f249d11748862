"""Runs of a judge: several requests at once, faults, kills, the cache, prompts, cost, and the judge beside people."""

from __future__ import annotations

import itertools
import json
import random
import time
import uuid

import numpy as np
import pytest

import limner
from judge_stub import pairs_of, reply_to, running
from killing import CHILDREN
from limner.annotate import open_store, plan
from limner.annotate.endpoint import BudgetSpent, EndpointJudge
from limner.annotate.endpoint_requests import ReplyCache, RequestPace
from limner.annotate.judge_prompts import NoAnswer, Prompt, WrongForm, user_message
from limner.annotate.judge_report import judge_reports, order_effect
from limner.annotate.judge_runs import ask_all, forecast, recorded
from limner.annotate.judges import MeanJudge, SystemJudge, judge_named
from limner.annotate.scale import SCALE
from limner.annotate.store.answers import submit
from limner.annotate.store.contents import add_collection
from limner.annotate.store.designs import add_machine_answers, designs, machine_answers
from limner.annotate.store.people import add_annotator
from limner.annotate.store.tasks import lease
from limner.core.errors import LimnerError, UnknownName

KILLS = 20


@pytest.fixture(scope="module")
def world():
    return limner.load("scenes", images=40)


@pytest.fixture(scope="module")
def pairs(world):
    every = list(itertools.product(world.images.ids, world.texts.ids))
    return random.Random(0).sample(every, 240)


@pytest.fixture
def store(tmp_path, world):
    with open_store(tmp_path / "work.db") as opened:
        add_collection(opened, world)
        yield opened


def judge_of(stub, world, **settings):
    return EndpointJudge(stub.url, "stub", world, **{"wait": 0.01, **settings})


# --- at once, with faults, killed -------------------------------------------------------------------------------


def test_requests_run_at_once_and_never_more_than_allowed(store, world, pairs):
    with running(latency=0.05) as stub:
        counts = ask_all(store, judge_of(stub, world, concurrency=6), pairs[:40])
    assert counts["new"] == 40 and 2 <= stub.highest <= 6
    assert set(stub.asked.values()) == {1}


def test_faults_are_asked_again_and_every_pair_is_stored_once(store, world, pairs):
    with running(faults=0.3) as stub:
        judge = judge_of(stub, world, concurrency=8, tries=12)
        counts = ask_all(store, judge, pairs)
        assert (counts["new"], counts["failed"]) == (len(pairs), 0)
        assert len(stub.statuses) == 5 and set(stub.answered.values()) == {1}  # each kind of fault, and answers
        assert ask_all(store, judge, pairs)["before"] == len(pairs)
    assert sorted(machine_answers(store, judge.name)) == sorted(pairs)


def asking(place, url, pairs, started):
    """A run in a process of its own, with a cache."""
    folder = place.parent / "cache"
    folder.mkdir(exist_ok=True)
    collection = limner.load("scenes", images=40)
    with open_store(place) as store:
        judge = EndpointJudge(url, "stub", collection, concurrency=8, wait=0.01, cache=ReplyCache(folder))
        started.set()
        ask_all(store, judge, pairs)


def test_kills_lose_no_answer_and_ask_no_answered_pair_again(tmp_path, world, pairs):
    """What was in flight at a kill is asked once more, and nothing else."""
    place = tmp_path / "work.db"
    with open_store(place) as store:
        add_collection(store, world)
    chance, finished, repeated = random.Random(1), 0, 0
    with running(latency=0.03, faults=0.1) as stub:
        for _ in range(KILLS):
            started = CHILDREN.Event()
            child = CHILDREN.Process(target=asking, args=(place, stub.url, pairs, started))
            child.start()
            assert started.wait(120)
            child.join(chance.uniform(0.0, 0.12))
            finished += child.exitcode == 0
            child.kill()
            child.join(60)
            with open_store(place) as store:
                stored = len(machine_answers(store, "endpoint stub"))
            repeated = sum(n - 1 for n in stub.answered.values())
            assert repeated <= 8 * KILLS and stored <= len(stub.answered)
        with open_store(place) as store:
            answered_before = dict(machine_answers(store, "endpoint stub"))
            asking(place, stub.url, pairs, CHILDREN.Event())
            answers_after = machine_answers(store, "endpoint stub")
    assert finished < KILLS and sorted(answers_after) == sorted(pairs)
    assert {pair: answers_after[pair] for pair in answered_before} == answered_before
    assert set(stub.answered) == set(stub.asked) and len(stub.answered) == len(pairs)


def test_an_endpoint_with_a_limit_gets_fewer_requests_until_it_takes_them(store, world, pairs):
    with running(per_second=30) as stub:
        judge = judge_of(stub, world, concurrency=16, tries=20, wait=0.05)
        counts = ask_all(store, judge, pairs[:90])
    assert counts["failed"] == 0 and counts["new"] == 90 and stub.statuses["429"] > 0


def test_a_refusal_pauses_all_requests_and_the_pace_becomes_that_of_the_answers():
    time_now, slept = [100.0], []

    def sleep(seconds):
        slept.append(round(seconds, 3))
        time_now[0] += seconds

    pace = RequestPace(None, clock=lambda: time_now[0], sleep=sleep)
    for _ in range(3):
        pace.wait()
    assert slept == []
    for _ in range(3):  # several refusals ask for one pause
        pace.count_refusal(5.0)
    pace.wait()
    pace.wait()
    assert slept == [5.0]
    for _ in range(20):  # 20 answers and 7 refusals in 2 seconds: ten requests a second
        pace.count_answer()
    for _ in range(3):
        pace.count_refusal(0.0)
    time_now[0] += 2.0
    pace.count_refusal(0.0)
    pace.wait()
    pace.wait()
    assert slept == [5.0, 0.1]
    for _ in range(60):
        time_now[0] += 1.0
        for _ in range(10):
            pace.count_answer()
    for _ in range(5):
        pace.wait()
    assert slept == [5.0, 0.1]  # answers alone: no time between two requests


def test_few_refusals_change_no_pace():
    time_now, slept = [0.0], []
    pace = RequestPace(None, clock=lambda: time_now[0], sleep=slept.append)
    for _ in range(50):
        time_now[0] += 0.1
        for _ in range(15):
            pace.count_answer()
        pace.count_refusal(0.0)
        pace.wait()
    assert slept == []


# --- the cache, together, prompts -------------------------------------------------------------------------------


def test_a_question_is_asked_once_for_all_stores_and_again_if_the_prompt_changes(tmp_path, world, pairs):
    cache = ReplyCache(tmp_path)
    with running() as stub:
        for name in ("one", "two"):
            with open_store(tmp_path / f"{name}.db") as store:
                add_collection(store, world)
                judge = judge_of(stub, world, cache=ReplyCache(tmp_path))
                counts = ask_all(store, judge, pairs[:30])
                assert counts["new"] == 30 and counts["cached"] == (30 if name == "two" else 0)
        assert sum(stub.asked.values()) == 30
        judge_of(stub, world, cache=cache, prompt=Prompt.named("yes")).ask(pairs[0])
        judge_of(stub, world, cache=cache, is_reversed=True).ask(pairs[0])
    assert sum(stub.asked.values()) == 32


def test_a_damaged_cache_is_an_empty_one(tmp_path):
    (tmp_path / "answers.db").write_bytes(b"no database" * 100)
    cache = ReplyCache(tmp_path)
    cache.put({"a": 0.5})
    assert cache.get("a") is None


@pytest.mark.parametrize("side", [0, 1], ids=["captions of an image", "images of a caption"])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_pairs_of_one_query_are_asked_together_with_the_same_answers(world, side, is_reversed):
    first, rest = list(world.images.ids[:1]), list(world.texts.ids[:7])
    questions = [(i, t) for i in first for t in rest] if side == 0 else [(i, rest[0]) for i in world.images.ids[:7]]
    with running() as stub:
        alone = judge_of(stub, world)
        together = judge_of(stub, world, pairs_per_request=4, is_reversed=is_reversed)
        assert [len(group) for group in together.requests(questions)] == [4, 3]
        expected = {pair: alone.ask(pair) for pair in questions}
        got = {pair: p for group in together.requests(questions) for pair, p in together.ask_together(group).items()}
    assert got == expected and together.spent.requests == 2


def test_a_model_that_cannot_answer_together_is_asked_one_by_one(world, monkeypatch):
    import judge_stub

    def one_entry(body, pairs):
        return reply_to(body, pairs[:1])

    monkeypatch.setattr(judge_stub, "reply_to", one_entry)
    questions = [(world.images.ids[0], text) for text in world.texts.ids[:3]]
    with running() as stub:
        judge = judge_of(stub, world, pairs_per_request=3)
        assert len(judge.ask_together(questions)) == 3 and judge.spent.requests == 4


def test_the_grades_of_the_store_are_asked_and_become_scores():
    prompt = Prompt.named("grades", SCALE)
    words = prompt.system_message(1)
    assert SCALE.question in words and all(f'"{grade.key}": {grade.label}' in words for grade in SCALE.grades)
    assert [prompt.read(f'{{"answer": "{key}"}}', 1)[0] for key in "4321"] == pytest.approx([1, 2 / 3, 1 / 3, 0])
    assert prompt.read(" 4\n", 1) == prompt.read("[4]", 1) == prompt.read('```json\n{"answer": 4}\n```', 1) == [1.0]
    upwards = Prompt.named("grades", SCALE, is_reversed=True).system_message(1)
    assert upwards.index('"1"') < upwards.index('"4"') and words.index('"1"') > words.index('"4"')
    with pytest.raises(UnknownName, match="prompt 'grade'"):
        Prompt.named("grade")


@pytest.mark.parametrize(
    "content", ["", "5", "maybe", '{"answer": true}', '{"answer": null}', '{"answer": ["4", "1"]}', "{" * 4000,
                "I think 4", '{"match": 1}'],
)  # fmt: skip
def test_another_form_of_answer_is_refused(content):
    with pytest.raises(WrongForm):
        Prompt.named("grades", SCALE).read(content, 1)


def token(word, **alternatives):
    listed = [{"token": each, "logprob": float(np.log(p))} for each, p in alternatives.items()]
    return {"token": word, "logprob": -0.1, "top_logprobs": listed}


def test_probabilities_of_tokens_make_a_score_between_the_answers():
    prompt = Prompt.named("yes")
    tokens = [token('{"'), token("answer"), token('":'), token(' "Yes', Yes=0.6, no=0.2, maybe=0.2), token('"}')]
    assert prompt.read('{"answer": "Yes"}', 1, tokens) == pytest.approx([0.75])
    both = [token("yes", yes=0.9, no=0.1), token("no", no=0.5, yes=0.5)]
    assert prompt.read('{"answer": ["yes", "no"]}', 2, both) == pytest.approx([0.9, 0.5])


@pytest.mark.parametrize(
    "tokens",
    [None, [], "x", [1], [{"token": "yes"}], [{"token": "yes", "top_logprobs": [{"token": "yes", "logprob": "x"}]}],
     [token("no", no=1.0)], [token("yes", yes=0.5), token("yes", yes=0.5)],
     [{"token": "yes", "top_logprobs": [{"token": "yes", "logprob": float("nan")}]}]],
)  # fmt: skip
def test_unclear_probabilities_leave_the_word_of_the_answer(tokens):
    assert Prompt.named("yes").read('{"answer": "yes"}', 1, tokens) == [1.0]


def test_order_can_be_reversed():
    kinds = [part["type"] for part in user_message(["data:"], ["a"])]
    assert kinds == ["image_url", "text"]
    assert [part["type"] for part in user_message(["data:"], ["a"], is_reversed=True)] == kinds[::-1]
    effect = order_effect({"a": 0.2, "b": 0.9, "c": 0.5}, {"a": 0.6, "b": 1.0})
    assert effect.pairs == 2 and effect.flips == 0.5 and effect.change.value == pytest.approx(0.25)
    assert order_effect({"a": 1.0}, {"a": 1.0}) is None


def test_an_image_is_scaled_once(world, monkeypatch):
    from limner.core.collection import Items

    opened, plain = [], Items.open
    monkeypatch.setattr(Items, "open", lambda self, key, **more: opened.append(key) or plain(self, key, **more))
    questions = [(world.images.ids[0], text) for text in world.texts.ids[:5]]
    with running() as stub:
        judge_of(stub, world).probabilities(questions)
    assert opened == [world.images.ids[0]]


def test_pairs_of_an_unreadable_image_are_counted_and_the_others_asked(tmp_path, world):
    from dataclasses import replace

    broken = [b"no image" if n == 1 else world.images.open(n) for n in range(len(world.images))]
    collection = replace(world, images=replace(world.images, values=broken))
    texts = world.texts.ids[:15]
    questions = [(image, text) for image in world.images.ids[:3] for text in texts]
    with running() as stub, open_store(tmp_path / "broken.db") as store:
        add_collection(store, world)
        counts = ask_all(store, judge_of(stub, collection, concurrency=1), questions)
    assert (counts["new"], counts["failed"]) == (30, 15) and "cannot be read" in counts["why"]
    assert sum(stub.asked.values()) == 30


def test_the_stub_names_pairs_by_image_and_caption(world):
    with running() as stub:
        judge = judge_of(stub, world)
        questions = list(itertools.product(world.images.ids[:3], world.texts.ids[:3]))
        names = [pairs_of(judge._request([pair]))[0] for pair in questions]
    assert len(set(names)) == 9


# --- what is recorded, and what it costs ------------------------------------------------------------------------


def test_prompt_and_model_are_recorded_and_another_prompt_needs_another_name(store, world, pairs):
    with running() as stub:
        judge = judge_of(stub, world, label="mine")
        ask_all(store, judge, pairs[:2])
        about = recorded(store, "mine")
        assert about["model"] == "stub" and "probability" in about["prompt"] and about["url"] == stub.url
        changed = judge_of(stub, world, label="mine", prompt=Prompt.named("yes"))
        with pytest.raises(LimnerError, match="'mine' with another prompt.*-O name=NAME"):
            ask_all(store, changed, pairs[:3])
    assert judge_of(stub, world, prompt=Prompt.named("yes"), logprobs=True).name == (
        "endpoint stub, yes, token probabilities"
    )


def test_the_time_is_foretold_from_the_time_of_each_request(world):
    sample = {"requests": 4, "busy_seconds": 2.0, "tokens": 40, "seconds": 9.0}
    words = forecast(EndpointJudge("http://localhost/v1", "m", world, concurrency=5), sample, 100)
    assert words == "100 further pairs: about 100 requests, 10 s, 1,000 tokens"


def test_a_budget_ends_the_run_and_keeps_the_answers(store, world, pairs):
    with running() as stub:
        judge = judge_of(stub, world, concurrency=2, price=1e6, budget=5 * 408)
        with pytest.raises(BudgetSpent, match="budget of 2040 is spent"):
            ask_all(store, judge, pairs)
    assert 5 <= len(machine_answers(store, judge.name)) <= 7


def test_the_forecast_is_that_of_the_sample(store, world, pairs):
    with running() as stub:
        judge = judge_of(stub, world, concurrency=4, price=2.0, output_price=4.0)
        sample = ask_all(store, judge, pairs[:4])
        assert sample["cost"] == pytest.approx(4 * (2 * 400 + 4 * 8) / 1e6)
        words = forecast(judge, sample, 100)
        further = ask_all(store, judge, pairs[4:104])
    assert "about 100 requests" in words and f"{further['tokens']:,} tokens, cost {further['cost']:.3g}" in words


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"concurrency": 0}, "concurrency 0"), ({"pairs_per_request": -1}, "pairs_per_request"),
     ({"budget": 1.0}, "price"), ({"logprobs": True}, "use the prompt"), ({"per_minute": 0}, "per_minute 0")],
)  # fmt: skip
def test_settings_that_cannot_work_are_refused(world, settings, message):
    with pytest.raises(LimnerError, match=message):
        EndpointJudge("http://localhost/v1", "m", world, **settings)


# --- without a server -------------------------------------------------------------------------------------------


def test_a_system_and_a_scorer_judge_without_a_server(store, tmp_path):
    collection = limner.load("scenes", images=150)
    limner.train(collection, "histograms").save(tmp_path / "h.npz")
    context = {"systems": {}, "store": store}
    with pytest.raises(LimnerError, match="was trained on"):
        judge_named(f"model={tmp_path / 'h.npz'}", collection=collection, **context)
    world = context["collection"] = collection.test
    system = judge_named(f"model={tmp_path / 'h.npz'}", **context)
    assert isinstance(system, SystemJudge)
    pairs = list(itertools.product(world.images.ids, world.texts.ids))[:300]
    values = system.probabilities(pairs)
    np.testing.assert_allclose(values[:5], system.probabilities(pairs[:5]))  # the same in another company
    given = [(image, text) for image, text, _ in world.judgements.relevant]
    assert system.probabilities(given).mean() > values.mean() + 0.2
    scorer = judge_named("scorer=levenshtein", **context)
    assert scorer.name == "scorer=levenshtein"
    mean = MeanJudge.of([system, system])
    np.testing.assert_allclose(mean.probabilities(pairs[:4]), values[:4])
    with pytest.raises(LimnerError, match="trained first"):
        judge_named("model=histograms", **context)


# --- beside people ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """A study of two systems whose drawn pairs are all answered by the truth: all units, so that nothing is unknown."""
    collection = limner.load("scenes", images=120)
    random_scores = np.random.default_rng(0)
    sides = collection.images.ids, collection.texts.ids
    systems = {
        name: limner.Scores.from_matrix(random_scores.normal(size=tuple(map(len, sides))), *sides) for name in "AB"
    }
    truth = {(image, text) for image, text, _ in collection.judged("complete", "i2t").relevant}
    place = tmp_path_factory.mktemp("labelled") / "work.db"
    with open_store(place) as store:
        add_collection(store, collection)
        plan(store, collection, systems, measures="R@1", direction="t2i", half_width=0.01)
        ada = add_annotator(store, "ada").id
        while (task := lease(store, ada)) is not None:
            for item in task.items:
                grade = 4 if (item.image, item.caption) in truth else 1
                submit(store, ada, item.id, key=uuid.uuid4().hex, grade=grade)
        (design,) = designs(store)
        units = [pair for unit in design.units for pair in unit.pairs("t2i")]
        tops = {
            name: dict(zip(s.T.queries, s.T.top(1).indices[:, 0].tolist(), strict=True)) for name, s in systems.items()
        }
        of = {n: [p for p in units if tops[n][p[1]] == collection.images.ids.index(p[0])] for n in "AB"}
        add_machine_answers(store, "fair", {p: 0.9 if p in truth else 0.1 for p in units})
        add_machine_answers(store, "partial", {p: 0.9 if p in truth or p in set(of["A"]) else 0.1 for p in units})
        yield store, collection, units, of, truth


def test_a_judge_that_errs_for_one_system_is_told_with_the_exact_numbers(labelled):
    store, collection, units, of, truth = labelled
    (report,) = judge_reports(store, collection, ["partial"])
    wrong = [pair for pair in of["A"] if pair not in truth]
    assert report.agreement.units == len(units)
    assert report.agreement.value == pytest.approx(1 - len(wrong) / len(units))
    assert report.by_system["A"].value == pytest.approx(1 - len(wrong) / len(of["A"]))
    assert report.excess["A"].value == pytest.approx(len(wrong) / len(of["A"]))
    only_b = [pair for pair in of["B"] if pair in set(wrong)]
    assert report.excess["B"].value == pytest.approx(len(only_b) / len(of["B"]))
    (favour,) = report.favours
    queries = len(collection.texts)
    assert favour.excess.value == pytest.approx((len(wrong) - len(only_b)) / queries)
    assert report.by_class["people say yes"].value == 1.0
    share_of_no = 1 - len(wrong) / sum(pair not in truth for pair in units)
    assert report.by_class["people say no"].value == pytest.approx(share_of_no)
    (warning,) = report.warnings
    assert "it favours A over B" in warning and "estimates from people's labels stay valid" in warning


def test_a_judge_that_agrees_with_people_gets_no_warning(labelled):
    store, collection, *_ = labelled
    (report,) = judge_reports(store, collection, ["fair"])
    assert report.agreement.value == 1.0 and report.warnings == []
    assert [each.judge for each in judge_reports(store, collection)] == ["fair", "partial"]


def test_the_warning_stands_under_the_estimates_too(labelled, tmp_path):
    from limner.annotate.estimate import estimates
    from limner.annotate.judges import StoredJudge

    store, collection, _, of, _ = labelled
    images, texts = collection.images.ids, collection.texts.ids
    matrices = {name: np.zeros((len(images), len(texts))) for name in "AB"}
    for name, matrix in matrices.items():
        for image, text in of[name]:
            matrix[images.index(image), texts.index(text)] = 1.0
    systems = {name: limner.Scores.from_matrix(matrix, images, texts) for name, matrix in matrices.items()}
    judge = StoredJudge(store, "partial")
    plan(store, collection, systems, measures="R@1", direction="t2i", half_width=0.01, judge=judge)
    ada = next(iter(store.rows(limner.annotate.store.people.sa.select(limner.annotate.store.schema.annotator.c.id))))[
        "id"
    ]
    while (task := lease(store, ada)) is not None:
        for item in task.items:
            submit(store, ada, item.id, key=uuid.uuid4().hex, grade=1)
    notes = estimates(store, {"t2i": systems["A"].T}, collection)[1]
    assert any("its errors depend on the system" in note for note in notes)


# --- at the shell -----------------------------------------------------------------------------------------------


@pytest.fixture
def shell(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from limner.cli import app

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LIMNER_CACHE", str(tmp_path / "cache"))
    test_split = limner.load("scenes", images=60).test
    np.save("S.npy", np.random.default_rng(0).normal(size=(len(test_split.images), len(test_split.texts))))

    def run(*words):
        done = CliRunner().invoke(app, ["annotate", *map(str, words)])
        return done.exit_code, done.output

    common = ("scenes", "-O", "images=60", "--scores", "mine=S.npy", "--direction", "t2i")
    assert run("plan", "work.db", *common, "--measure", "R@1", "--budget", 12)[0] == 0
    return run


def test_a_judge_is_asked_in_both_orders_told_before_and_compared(shell, tmp_path):
    with running() as stub:
        options = ("url=" + stub.url, "model=m", "prompt=yes", "swap=true", "concurrency=2", "price=1", "together=1")
        command = ("judge", "work.db", "--judge", "endpoint", *itertools.chain(*(("-O", each) for each in options)))
        code, output = shell(*command)
        assert code == 0, output
        assert "m, yes in reverse order: scores " in output and "change between yes and no" in output
        assert "further pairs: about" in output and "new answers of endpoint m, yes, reversed" in output
        code, data = shell(*command, "--json")
        document = json.loads(data[data.index("{") : data.rindex("}") + 1])
    assert document["new"] == document["reversed"]["new"] == 0 and document["settings"]["model"] == "m"
    code, output = shell("judge", "work.db", "--judge", "stored=endpoint m, yes")
    assert code == 0 and "m, yes in reverse order: scores " in output
    words = ("plan", "work.db", "scenes", "-O", "images=60", "--scores", "mine=S.npy", "--direction", "t2i")
    judges = ("--judge", "stored=endpoint m, yes", "--judge", "stored=endpoint m, yes, reversed")
    code, output = shell(*words, "--measure", "R@1", "--budget", 12, *judges)
    assert code == 0, output
    with open_store(tmp_path / "work.db") as store:
        assert designs(store)[-1].settings["judge"] == "endpoint m, yes + endpoint m, yes, reversed"


@pytest.mark.parametrize(("agrees", "number"), [(False, 2), (True, 20)])
def test_a_judge_with_a_price_goes_on_only_if_the_user_agrees(store, world, pairs, monkeypatch, agrees, number):
    from limner.cli import judging

    questions = []
    monkeypatch.setattr(judging, "_costs_unasked", lambda judge: judge.price is not None and judge.budget is None)
    monkeypatch.setattr(judging.typer, "confirm", lambda text, **_: questions.append(text) or agrees)
    with running() as stub:
        judge = judge_of(stub, world, concurrency=2, price=1.0)
        counts = judging.judge_pairs(store, judge, pairs[:20])
    assert len(questions) == 1 and counts["new"] == len(machine_answers(store, judge.name)) == number
    assert counts["before"] == 0 and counts["requests"] == number and counts["cost"] == pytest.approx(number * 408e-6)


def test_a_wrong_option_of_the_endpoint_is_refused_in_words(shell):
    base = ("judge", "work.db", "--judge", "endpoint", "-O", "url=http://127.0.0.1:1/v1", "-O", "model=m")
    messages = {"prompt=graded": "unknown prompt", "concurrency=0": "whole number, 1 or more"}
    messages |= {"budget=2": "price of a million tokens", "logprobs=maybe": "true or false"}
    for option, message in messages.items():
        code, output = shell(*base, "-O", option)
        assert code != 0 and message in output.replace("\n", " ") and "Traceback" not in output, output


def test_the_time_between_tries_grows(world, pairs):
    slept = []
    with running(faults=1.0, seed=3) as stub:
        judge = EndpointJudge(stub.url, "m", world, wait=1.0, sleep=slept.append, clock=time.monotonic)
        with pytest.raises(NoAnswer, match="no answer in 4 tries"):
            judge.ask(pairs[0])
    waits = [seconds for seconds in slept if seconds >= 0.5]
    assert len(waits) == 3 and 0.5 <= waits[0] <= 1 <= waits[1] <= 2 <= waits[2] <= 4
