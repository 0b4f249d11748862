"""Pool, tasks, review, merge, forms, several turns and the command: from proposals to judgements."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner.annotate.answer_files import read_answers, read_judgements
from limner.annotate.export import export, failure_labels, import_answers, judgements
from limner.annotate.further_rounds import STRATEGIES, candidates, choose, in_turns, probabilities
from limner.annotate.merge import Label, aggregate, merge, precision_recall
from limner.annotate.pool import alike, fill, merged, proposed, waiting
from limner.annotate.quality import review, review_queue, set_aside
from limner.annotate.scale import SCALE, ImportedAnswer
from limner.annotate.store import open_store
from limner.annotate.store.answers import answers, submit
from limner.annotate.store.contents import add_collection, add_pairs, proposals
from limner.annotate.store.exclusions import exclude
from limner.annotate.store.people import add_annotator, annotators
from limner.annotate.store.tasks import add_tasks, lease
from limner.annotate.tasks import make_caption_tasks, make_tasks
from limner.cli import app
from limner.core.errors import LimnerError, UnknownName
from limner.core.ids import Ids
from limner.datasets.coco_judgements import read_eccv
from limner.explain.failure_classes import CLASSES
from limner.explain.failures import Failure
from limner.language.word_overlap import bleu, content_words


@pytest.fixture(scope="module")
def world():
    return limner.load("scenes", images=40, seed=7).test


@pytest.fixture(scope="module")
def systems(world):
    """Three that see the truth through different noise."""
    draw = np.random.default_rng(1)
    complete = world.extra["complete"]
    truth = np.zeros((len(world.images), len(world.texts)))
    truth[complete.rows, complete.columns] = complete.grades > 0
    return {
        name: limner.Scores.from_matrix(truth + draw.normal(0, noise, truth.shape), world.images.ids, world.texts.ids)
        for name, noise in (("sharp", 0.4), ("blurred", 0.8), ("blind", 3.0))
    }


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "work.db") as opened:
        yield opened


def answer_all(store, world, *, people=("ada", "bob"), noise=0.0, seed=0):
    """People who know the truth, but for some noise."""
    truth, draw = world.extra["complete"], random.Random(seed)
    for name in people:
        annotator = add_annotator(store, name, existing=True).id
        while (task := lease(store, annotator)) is not None:
            for item in task.items:
                yes = ((truth.grade(item.image, item.caption) or 0) > 0) != (draw.random() < noise)
                submit(store, annotator, item.id, key=f"{annotator}-{item.id}", grade=4 if yes else 1)


# --- pool and tasks ---------------------------------------------------------------------------------------------


def test_the_pool_is_the_union_of_all_lists(world, systems):
    pool = merged(proposed(systems, depth=5), depth=5)
    expected = {}
    for name, scores in systems.items():
        for direction, side in (("i2t", scores), ("t2i", scores.T)):
            for query in side.queries:
                for rank, candidate in enumerate(side.top(5)[query], start=1):
                    pair = (query, candidate) if direction == "i2t" else (candidate, query)
                    expected.setdefault(pair, set()).add((name, direction, rank))
    assert {
        pair: {(p.system, p.direction, p.rank) for p in proposals_of_pair} for pair, proposals_of_pair in pool.items()
    } == expected


def test_a_store_is_filled_and_remembers_more_than_is_pooled(store, world, systems):
    add_collection(store, world)
    done = fill(store, systems, depth=2, keep=4)
    assert done["new"] == done["merged"] == len(waiting(store)) == len(merged(proposed(systems, depth=2), depth=2))
    assert max(p.rank for p in proposals(store)) == 4
    with pytest.raises(LimnerError, match="at least the depth"):
        fill(store, systems, depth=5, keep=3)


def test_two_stages_by_direction_reach_every_pooled_pair(store, world, systems):
    """However deep the pool is: the ranks that are stored below it put no pair into a stage."""
    add_collection(store, world)
    fill(store, systems, depth=7, keep=9)
    every, by_direction = waiting(store), {d: waiting(store, direction=d) for d in ("i2t", "t2i")}
    for direction, pairs in by_direction.items():
        sides = [scores if direction == "i2t" else scores.T for scores in systems.values()]
        pooled = {(q, c) for side in sides for q in side.queries for c in side.top(7)[q]}
        assert {*pairs} == {(q, c) if direction == "i2t" else (c, q) for q, c in pooled}
    assert {*by_direction["i2t"], *by_direction["t2i"]} == {*every} and len(by_direction["i2t"]) < len(every)
    assert len(waiting(store, direction="i2t", depth=5)) < len(by_direction["i2t"])


def test_the_filter_keeps_what_shares_words(world):
    captions_of = {image: [] for image in world.images.ids}
    texts = dict(zip(world.texts.ids, world.texts.values, strict=True))
    for image, caption, _ in world.judgements:
        captions_of[image].append(texts[caption])
    pool = [(image, caption) for image in list(captions_of)[:4] for caption in texts]
    similar = alike(pool, world, min_bleu=0.25)
    slow = [p for p in pool if bleu([texts[p[1]]], [captions_of[p[0]]], words=content_words)[0] >= 0.25]
    assert similar == slow
    assert 0 < len(similar) < len(pool)


def test_tasks_hold_the_pool_once_and_sound_controls(world, systems):
    pool = list(merged(proposed(systems, depth=3), depth=3))
    close_pairs = {(p.image, p.caption) for p in proposed(systems, depth=6)}
    drafts = make_tasks(pool, world.judgements, avoid=close_pairs, seed=7)
    assert (
        drafts
        == make_tasks(pool, world.judgements, avoid=close_pairs, seed=7)
        != make_tasks(pool, world.judgements, seed=8)
    )
    real = Counter((i.image, i.caption) for d in drafts for i in d.items if i.role == "real")
    assert real == Counter(pool)
    assert {len(d.items) for d in drafts[:-1]} == {20}
    places = {
        role: [n for d in drafts for n, i in enumerate(d.items) if i.role == role] for role in ("gold_pos", "gold_neg")
    }
    assert {len(positions) for positions in places.values()} == {len(drafts)}
    assert len(set(places["gold_pos"])) > 1  # shuffled
    for draft in drafts:
        pairs = [(i.image, i.caption) for i in draft.items]
        assert len(set(pairs)) == len(pairs)
        for item in draft.items:
            grade = world.judgements.grade(item.image, item.caption) or 0
            if item.role == "gold_pos":
                assert grade > 0
            elif item.role == "gold_neg":
                assert grade == 0 and (item.image, item.caption) not in close_pairs


def test_a_world_without_negatives_is_told(world):
    all_pairs = {(i, t) for i in world.images.ids for t in world.texts.ids}
    with pytest.raises(LimnerError, match="no known negative"):
        make_tasks([("x", "y")], world.judgements, avoid=all_pairs)
    (draft,) = make_tasks([("x", "y")], world.judgements, avoid=all_pairs, negatives=0)
    assert [i.role for i in draft.items].count("gold_neg") == 0


def test_the_flickr8k_form_has_ten_captions_per_image_and_a_control(world, systems):
    pool = list(merged(proposed(systems, depth=3), depth=3))
    drafts = make_caption_tasks(pool, world.judgements, seed=1)
    pair_counts = Counter((i.image, i.caption) for d in drafts for i in d.items if i.role == "real")
    assert set(pool) <= set(pair_counts) and set(pair_counts.values()) == {1}
    for draft in drafts:
        blocks = [draft.items[n : n + 10] for n in range(0, len(draft.items), 10)]
        assert all(len(block) == 10 and len({i.image for i in block}) == 1 for block in blocks)
        (control,) = [block for block in blocks if block[0].role != "real"]
        right = [i for i in control if i.role == "gold_pos"]
        assert 1 <= len(right) <= 3
        assert all(((world.judgements.grade(i.image, i.caption) or 0) > 0) == (i.role == "gold_pos") for i in control)


# --- quality ----------------------------------------------------------------------------------------------------


def judged(store, world, systems, **how):
    add_collection(store, world)
    fill(store, systems, depth=2, keep=4)
    close_pairs = {(p.image, p.caption) for p in proposals(store)}
    add_tasks(
        store, make_tasks(waiting(store), world.judgements, avoid=close_pairs), replication=how.pop("replication", 1)
    )
    answer_all(store, world, **how)


def test_a_wrong_control_goes_to_review_and_a_rejected_task_is_asked_again(store, world, systems):
    judged(store, world, systems, people=("eve",), noise=0.5)
    queue = review_queue(store)
    assert queue and all(d.annotator == "eve" and d.controls == 2 for d in queue)
    review(store, queue[0].assignment, "accept", reason="the picture is hard")
    review(store, queue[1].assignment, "reject", reason="guessed")
    assert [d.assignment for d in review_queue(store)] == [d.assignment for d in queue[2:]]
    next_task = lease(store, add_annotator(store, "ada").id)
    assert next_task.task == queue[1].task
    for bad in ({"decision": "shrug", "reason": "x"}, {"decision": "accept", "reason": " "}):
        with pytest.raises(LimnerError):
            review(store, queue[2].assignment, **bad)
    with pytest.raises(LimnerError, match="no assignment"):
        review(store, 10_000, "accept", reason="x")
    with pytest.raises(LimnerError, match="not finished"):
        review(store, next_task.id, "reject", reason="x")
    assert lease(store, next_task.annotator).id == next_task.id, "whoever works on it keeps it"


def test_poor_annotators_are_set_aside_and_replaced(store, world, systems):
    judged(store, world, systems, people=("ada",), replication=2)
    answer_all(store, world, people=("eve",), noise=0.5)
    assert set_aside(store, threshold=0.8) == ["eve"]
    assert {a.annotator for a in answers(store)} == {"ada"}
    answer_all(store, world, people=("bob",))
    per_pair = Counter(a.item for a in answers(store) if a.role == "real")
    assert set(per_pair.values()) == {2}


# --- labels, merge, forms ---------------------------------------------------------------------------------------


def test_answers_become_judgements_that_measures_take(store, world, systems):
    judged(store, world, systems)
    labelled = judgements(store)
    truth = world.extra["complete"]
    assert {(i, t): g > 0 for i, t, g in labelled} == {
        p: (truth.grade(*p) or 0) > 0 for p in merged(proposed(systems, depth=2), depth=2)
    }
    aggregated = aggregate(answers(store), "dawid-skene")
    joined = merge(aggregated, world.judgements)
    assert len(joined.judgements) > len(world.judgements)  # the original pairs miss some
    labelled = limner.evaluate(systems["blind"], joined.judgements, measures="R@5").results[0].value
    tops = systems["blind"].top(5)
    hits = [any((truth.grade(q, c) or 0) > 0 for c in tops[q]) for q in tops.queries]
    assert labelled == pytest.approx(np.mean(hits))


def test_merging_counts_what_changed():
    original = limner.Judgements.from_pairs([("i", "a"), ("i", "b"), ("j", "c"), ("k", "d")])
    labels = [Label("i", "a", 4, 1, 1), Label("i", "b", 1, 1, 1), Label("i", "c", 3, 1, 1), Label("j", "d", 2, 1, 1)]
    further = limner.Judgements.from_pairs([("j", "a"), ("elsewhere", "a"), ("k", "b")])
    done = merge(labels, original, further=[further], invalid_images=["k"], invalid_captions=["d"])
    assert {(i, t): g for i, t, g in done.judgements} == {
        ("i", "a"): 1.0, ("i", "b"): 0.0, ("i", "c"): 0.5, ("j", "c"): 1.0, ("j", "a"): 1.0,
    }  # fmt: skip
    assert (done.refuted, done.removed) == (1, 2)
    forward, back = done.counted
    assert (forward.queries, forward.original, forward.verified, forward.merged) == (1, 2, 2, 2)
    assert (forward.precision, forward.recall) == (0.5, 0.5)
    assert (back.queries, back.original, back.verified, back.merged) == (3, 3, 2, 4)


def test_merging_without_answers_prints_no_nan():
    done = merge([], limner.Judgements.from_pairs([("i", "a")]), further=[limner.Judgements.from_pairs([("i", "b")])])
    assert "nan" not in str(done) and str(done).splitlines()[1].split() == ["i2t", "0", "0", "0", "0", "-", "-"]


def test_precision_and_recall_are_the_papers():
    """Query by query, as the paper writes it."""
    draw = np.random.default_rng(0)
    keys = [f"q{n}" for n in range(30)], [f"c{n}" for n in range(12)]
    cells = [(q, c) for q in keys[0] for c in keys[1]]
    old = limner.Judgements.from_pairs(
        [p for p in cells if draw.random() < 0.15], queries=keys[0], candidates=keys[1]
    )  # fmt: skip
    new = limner.Judgements.from_pairs(
        [(*p, float(draw.random() < 0.5)) for p in cells if draw.random() < 0.5], queries=keys[0], candidates=keys[1]
    )
    precision, recall = [], []
    for q in keys[0]:
        r = {c for c in keys[1] if (old.grade(q, c) or 0) > 0 and new.grade(q, c) is not None}
        t = {c for c in keys[1] if (new.grade(q, c) or 0) > 0}
        precision += [len(r & t) / len(r)] if r else []
        recall += [1 - len(t - r) / len(t)] if t else []
    assert precision_recall(old, new) == pytest.approx((np.mean(precision), np.mean(recall)))


@pytest.fixture(scope="module")
def answered(world, systems, tmp_path_factory):
    """Two people's answers, not always right; for tests that only read."""
    with open_store(tmp_path_factory.mktemp("answered") / "work.db") as opened:
        judged(opened, world, systems, replication=2, noise=0.1)
        yield opened


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.qrels", "folder", "a.txt"])
def test_every_form_gives_the_same_judgements_back(answered, tmp_path, name):
    store = answered
    target = tmp_path / name
    assert export(store, target) > 0
    read = read_judgements(target)
    ours = {(i, t): g for i, t, g in judgements(store)}
    back = {(i, t): g for i, t, g in read}
    if name == "folder":
        assert {p for p, g in back.items() if g > 0} == {p for p, g in ours.items() if g > 0}
        assert read_eccv(target)[0].relevant == read_eccv(target)[1].T.restrict(
            queries=read_eccv(target)[0].queries, candidates=read_eccv(target)[0].candidates
        )
    elif name == "a.txt":
        votes = {}
        for a in answers(store):
            if a.role == "real":
                votes.setdefault((a.image, a.caption), []).append(a.grade >= 3)
        assert back == {p: sum(v) / len(v) for p, v in votes.items()}
    else:
        assert back == ours


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_answers_come_back_into_another_store(answered, world, tmp_path, name):
    store = answered
    export(store, tmp_path / name)
    with open_store(tmp_path / "other.db") as second_store:
        add_collection(second_store, world)
        imported = read_answers(tmp_path / name)
        assert import_answers(second_store, imported, key=name) == len(imported)
        assert judgements(second_store) == judgements(store)
        with pytest.raises(LimnerError, match="already imported"):
            import_answers(second_store, imported, key=name)
        with pytest.raises(LimnerError, match="already"):
            import_answers(second_store, imported, key="under another name")
        assert len(answers(second_store)) == len(imported)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image,caption\ni,t\n", "line 2: no grade"),
        ("image,caption,grade\ni,t,\n", "none of 1 rows has a grade"),
        ("image,caption,grade\ni,t,3.7\n", "line 2: grade '3.7': expected 4"),
        ("image,caption,grade\ni,t,5\n", "line 2: grade 5"),
        ("image,caption,grade\ni,t,many\n", "line 2"),
        ("image,caption,grade,reasons\ni,t,3,ugly\n", "unknown reason 'ugly'"),
    ],
)
def test_bad_files_are_told_by_line(tmp_path, text, message):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(LimnerError, match=message):
        read_answers(tmp_path / "a.csv")


def test_unknown_forms_are_told(store, tmp_path):
    with pytest.raises(LimnerError, match="no answers yet"):
        export(store, tmp_path / "a.csv")
    with pytest.raises(LimnerError, match="cannot tell the format"):
        read_judgements("a.doc")
    with pytest.raises(UnknownName):
        read_judgements("a.csv", form="doc")
    with pytest.raises(UnknownName):
        aggregate([], "guess")


# --- failure classes --------------------------------------------------------------------------------------------


def test_reasons_become_failure_classes(store):
    texts = {"t0": "a red ball", "t1": "two dogs", "t2": "a man", "t3": "a cup"}
    items = limner.Items(list(texts), list(texts.values()), kind="text")
    pictures = limner.Items(["i0", "i1"], [None, None])
    originals = limner.Judgements.from_pairs([("i0", "t0"), ("i1", "t1")], candidates=list(texts))
    add_collection(store, limner.Collection("toy", pictures, items, originals))
    votes_of = {
        ("i1", "t0"): [(2, ["wrong-colour"]), (1, []), (2, ["wrong-colour", "wrong-age"])],
        ("i0", "t1"): [(4, []), (4, []), (2, ["grammar"])],
        ("i0", "t2"): [(3, []), (3, []), (3, ["wrong-quantity"])],
        ("i0", "t3"): [(1, []), (1, []), (2, ["grammar"])],
    }
    from limner.annotate.answer_files import ImportedAnswer

    imported = [
        ImportedAnswer(name, *pair, grade, tuple(why))
        for pair, all_of in votes_of.items()
        for name, (grade, why) in zip(("ada", "bob", "eve"), all_of, strict=True)
    ]
    import_answers(store, imported, key="toy")
    failures = [
        Failure("t0", "a red ball", "i0", "i1"),
        Failure("i0", "two dogs", "i0", "i1", by_text=False),
        Failure("t2", "a man", "i1", "i0"),
        Failure("t3", "a cup", "i1", "i0"),
        Failure("t1", "two dogs", "i1", "i1"),
    ]
    assert failure_labels(store, failures) == {
        "t0": frozenset({"colour"}), "i0": frozenset({"alternative"}), "t2": frozenset({"alternative"}),
    }  # fmt: skip


def test_every_reason_but_grammar_has_a_class():
    class_of = SCALE.classes
    assert {reason.name for reason in SCALE.reasons} - set(class_of) == {"grammar"}
    assert set(class_of.values()) <= set(CLASSES)


# --- several turns ----------------------------------------------------------------------------------------------


def test_candidates_know_scores_and_ranks(systems):
    pool_scores = candidates(systems, depth=6)
    first = systems["sharp"].queries[0]
    row = pool_scores.pairs.index((first, systems["sharp"].top(1)[first][0]))
    assert pool_scores.said[row, 0, 1] == 1.0
    pool = merged(proposed(systems, depth=3), depth=3)
    assert {pool_scores.pairs[r] for r in pool_scores.top(3)} == set(pool)


def test_likeness_to_what_was_accepted_is_the_slow_one(systems):
    """The last four columns: caption beside accepted captions of the image, then image beside those of the caption."""
    pool_scores = candidates(systems, depth=4)
    draw = random.Random(3)
    accepted = {pair: draw.random() < 0.5 for pair in draw.sample(pool_scores.pairs, 60)}
    (images, rows), (texts, columns) = pool_scores.profiles
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1)
    table = pool_scores.features(accepted)[:, -4:]
    for row, (image, caption) in enumerate(pool_scores.pairs):
        captions_of_image = [
            columns[texts.index(t)] for (i, t), yes in accepted.items() if yes and i == image and t != caption
        ]
        images_of_caption = [
            rows[images.index(i)] for (i, t), yes in accepted.items() if yes and t == caption and i != image
        ]
        one, image_profile = columns[texts.index(caption)], rows[images.index(image)]
        expected = [max((one @ x for x in captions_of_image), default=0), bool(captions_of_image)]
        expected += [max((image_profile @ x for x in images_of_caption), default=0), bool(images_of_caption)]
        np.testing.assert_allclose(table[row], expected, atol=1e-12)
    lists = {name: {"i2t": scores.top(4), "t2i": scores.T.top(4)} for name, scores in systems.items()}
    assert candidates(lists, depth=4).features(accepted)[:, -4:].sum() == 0  # lists alone say nothing of the rest


def test_the_weighing_trusts_the_system_that_is_right(world, systems):
    pool_scores = candidates(systems, depth=10)
    truth = world.extra["complete"]
    answers_given = {p: (truth.grade(*p) or 0) > 0 for p in pool_scores.pairs}
    half = dict(list(answers_given.items())[::2])
    chance = probabilities(pool_scores, half)
    open_rows = [r for r, p in enumerate(pool_scores.pairs) if p not in half]
    right = [answers_given[pool_scores.pairs[r]] for r in open_rows]
    blind = pool_scores.said[open_rows, 2, 0]
    assert _auc(chance[open_rows], right) > max(0.85, _auc(blind, right))
    assert set(probabilities(pool_scores, {pool_scores.pairs[0]: True})) == {2 / 3}


def _auc(values, right):
    from sklearn.metrics import roc_auc_score

    return roc_auc_score(right, values)


def test_several_turns_gain_more_per_answer_than_one(world, systems):
    pool_scores = candidates(systems, depth=20)
    truth = world.extra["complete"]
    requested = []

    def ask(pairs):
        requested.extend(pairs)
        return {p: (truth.grade(*p) or 0) > 0 for p in pairs}

    _, one = in_turns(pool_scores, ask, budget=160, turns=1, start_depth=5)
    assert len(requested) == len(set(requested)) == 160
    requested.clear()
    answered_pairs, several = in_turns(pool_scores, ask, budget=160, turns=4)
    assert len(requested) == len(set(requested)) == len(answered_pairs) == several[-1].answers <= 160
    assert several[-1].per_answer > one[-1].per_answer


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_chosen_is_new_and_in_order(world, systems, strategy):
    pool_scores = candidates(systems, depth=10)
    truth = world.extra["complete"]
    answered_pairs = {p: (truth.grade(*p) or 0) > 0 for p in pool_scores.pairs[:80]}
    chosen = choose(pool_scores, answered_pairs, 30, strategy=strategy, floor=0.0)
    assert len(chosen) == len(set(chosen)) == 30 and not set(chosen) & set(answered_pairs)
    chance = dict(zip(pool_scores.pairs, probabilities(pool_scores, answered_pairs), strict=True))
    open_chances = [chance[p] for p in pool_scores.pairs if p not in answered_pairs]
    if strategy == "sure":
        assert [chance[p] for p in chosen] == sorted(open_chances, reverse=True)[:30]
    if strategy == "unsure":
        assert [abs(chance[p] - 0.5) for p in chosen] == sorted(abs(x - 0.5) for x in open_chances)[:30]
    assert choose(pool_scores, answered_pairs, 30, strategy=strategy, floor=1.1) == []
    with pytest.raises(LimnerError, match="start with 'limner annotate pool'"):
        choose(pool_scores, {}, 3, strategy=strategy)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_last_digits_of_a_score_decide_nothing(world, systems, strategy):
    """Pairs with the same scores are asked in their order, whatever the CPU makes of the last digits."""
    pool_scores = candidates(systems, depth=10)
    even_count = len(pool_scores.pairs) // 2 * 2
    none = (Ids([]), np.zeros((0, 0)))
    twins = replace(
        pool_scores,
        pairs=pool_scores.pairs[:even_count],
        said=np.repeat(pool_scores.said[:even_count:2], 2, axis=0),
        profiles=(none,) * 2,
    )
    ulps = np.random.default_rng(3).integers(-2, 3, twins.said.shape)
    nudged = replace(twins, said=twins.said * (1 + ulps * 2.0**-52))
    answered_pairs = {p: (world.extra["complete"].grade(*p) or 0) > 0 for p in twins.pairs[:80]}
    one, chosen_nudged = (choose(each, answered_pairs, 60, strategy=strategy, floor=0.0) for each in (twins, nudged))
    assert one == chosen_nudged
    assert np.abs(probabilities(twins, answered_pairs) - probabilities(nudged, answered_pairs)).max() <= 2.0**-30


# --- the command ------------------------------------------------------------------------------------------------


def run(*args, status=0):
    done = CliRunner().invoke(app, ["annotate", *args])
    assert done.exit_code == status, done.output
    return done


def data(*args):
    return json.loads(run(*args, "--json").stdout)


def test_the_story_at_the_shell(tmp_path, monkeypatch, systems, world):
    monkeypatch.chdir(tmp_path)
    limner.datasets.write(world, tmp_path / "world.csv")
    for name, scores in systems.items():
        np.save(tmp_path / f"{name}.npy", scores.matrix())
    systems["blurred"].ranking().save(tmp_path / "i2t.run")
    systems["blurred"].T.ranking().save(tmp_path / "t2i.run")
    named = ["--scores", "sharp=sharp.npy", "--run", "blurred=i2t.run", "--run", "blurred=t2i.run"]
    world_args = ["scenes", "-O", "images=40", "-O", "seed=7"]
    first = data("pool", "work.db", *world_args, *named, "--depth", "2", "-O", "keep=4")
    assert first["proposals"] == 2 * (8 + 40) * 2
    stage = run("tasks", "work.db", "--people", "2", "--direction", "i2t")
    left = first["new"] - int(re.search(r"for (\d+) pairs", stage.stdout)[1])
    assert left > 0 and f"; {left} pooled pairs still without a task" in stage.stdout
    stage = data("tasks", "work.db", "--people", "2", "--direction", "t2i")
    assert (stage["pairs"], stage["left"]) == (left, 0)
    assert "every pooled pair already has" in run("tasks", "work.db", status=3).stderr
    assert (
        "no answer has found a match yet" in run("study", "bias", "work.db").stdout
        and not data("study", "bias", "work.db")["sizes"]
    )
    with open_store(tmp_path / "work.db") as store:
        answer_all(store, world, noise=0.05)
    status = data("status", "work.db")
    assert status["done"] == status["tasks"] and status["answers"] == status["asked"] == 2 * first["new"]
    assert 0.5 < status["alpha"] < 1
    queue = data("people", "review", "work.db")["queue"]
    assert len(queue) == status["to_review"]
    if queue:
        args = ("people", "review", "work.db", str(queue[0]["number"]), "--accept", "--reason", "fine")
        assert len(data(*args)["queue"]) == len(queue) - 1
    bad = world.texts.ids[0]
    assert "--reason" in run("people", "review", "work.db", "--exclude", f"caption={bad}", status=2).output
    assert "expected image=ID" in run("people", "review", "work.db", "--exclude", bad, "--reason", "x", status=2).output
    assert data("people", "review", "work.db", "--exclude", f"caption={bad}", "--reason", "x")["taken_out"] == [
        f"caption={bad}"
    ]
    assert data("estimate", "work.db")["pairs"] < first["new"]
    merged_data = data("merge", "work.db", "-o", "better.qrels")
    assert len(read_judgements("better.qrels")) == merged_data["directions"][0]["merged"]
    assert set(data("study", "bias", "work.db")["sizes"]) == {"1"}
    assert data("export", "work.db", "answers.csv")["rows"] > 2 * first["new"]
    second_turn = data("pool", "work.db", *world_args, *named, "--new-pairs", "15")
    assert second_turn["turn"] == 2 and 0 < second_turn["new"] <= 15  # what is surely no match is not asked
    assert data("tasks", "work.db")["pairs"] == second_turn["new"]
    assert "no store" in run("status", "none.db", status=3).stderr
    assert "NAME=FILE" in run("pool", "work.db", *world_args, "--scores", "S.npy", status=2).output


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """Labels the pairs of a store elsewhere: adds annotations of two people to tasks of Label Studio."""
    monkeypatch.chdir(tmp_path)

    def labelled(part=slice(None), people=(1, 2)):
        run("export", "work.db", "tasks.json")
        tasks = json.loads(Path("tasks.json").read_text(encoding="utf-8"))[part]
        for task in tasks:
            chosen = {"from_name": "grade", "to_name": "image", "type": "choices", "value": {"choices": ["100% yes"]}}
            task["annotations"] += [{"result": [chosen], "completed_by": person} for person in people]
        Path("done.json").write_text(json.dumps(tasks), encoding="utf-8")
        return len(tasks)

    return labelled


SMALL = ("scenes", "-O", "images=40", "-O", "seed=7")


@pytest.mark.parametrize("replication", [None, "1", "2", "3"])
def test_pooled_pairs_are_judged_elsewhere_and_imported(outside, replication):
    data("pool", "work.db", *SMALL, "--model", "colours", "--depth", "2")
    if replication:
        data("tasks", "work.db", "--people", replication)
    tasks = data("status", "work.db")["tasks"]
    pairs = outside()
    assert data("import", "work.db", "done.json")["added"] == 2 * pairs
    status = data("status", "work.db")
    assert status["answers"] == 2 * pairs and status["tasks"] == (tasks or 1)
    assert status["asked"] == max(2, int(replication or 2)) * pairs
    assert status["done"] == (0 if replication == "3" else status["tasks"])
    assert data("estimate", "work.db")["pairs"] == pairs
    assert "already imported" in run("import", "work.db", "done.json", status=3).stderr
    assert "every pooled pair already has" in run("tasks", "work.db", status=3).stderr


def test_planned_pairs_are_judged_elsewhere_and_imported(outside):
    plan = ("plan", "work.db", *SMALL, "--model", "colours", "--budget", "40")
    run(*plan)
    tasks = data("status", "work.db")["tasks"]
    pairs = outside()
    assert data("import", "work.db", "done.json")["added"] == 2 * pairs
    status = data("status", "work.db")
    assert (status["tasks"], status["done"], status["answers"]) == (tasks, tasks, 2 * pairs)
    run(*plan)  # the next draw is based on these answers
    with open_store("work.db") as store:
        add_pairs(store, [(a.image, a.caption) for a in answers(store)])
        assert not set(waiting(store)) & {(a.image, a.caption) for a in answers(store)}


def test_one_part_is_judged_elsewhere_and_the_rest_here(outside):
    data("pool", "work.db", *SMALL, "--model", "colours", "--depth", "2")
    data("tasks", "work.db")
    with open_store("work.db") as store:
        ada = add_annotator(store, "ada").id
        first = lease(store, ada)
        for item in first.items[:3]:
            submit(store, ada, item.id, key=f"here-{item.id}", grade=1, comment="blurred")
    outside(slice(None, None, 2))
    added = data("import", "work.db", "done.json")["added"]
    with open_store("work.db") as store:
        before = answers(store)
        assert added == 2 * len({(a.image, a.caption) for a in before if a.annotator != "ada"})
        assert [(a.grade, a.comment) for a in before if a.annotator == "ada"] == [(1, "blurred")] * 3
        while task := lease(store, ada):
            for item in task.items:
                submit(store, ada, item.id, key=f"again-{item.id}", grade=4)
    status = data("status", "work.db")
    assert status["done"] == status["tasks"]
    with open_store("work.db") as store:
        judged = Counter((a.image, a.caption) for a in answers(store) if a.role == "real")
    assert set(judged.values()) <= {1, 2, 3} and len(judged) == status["asked"]


def test_answers_that_a_store_has_are_skipped_and_others_refused(outside):
    data("pool", "work.db", *SMALL, "--model", "colours", "--depth", "2")
    pairs = outside(people=(1,))
    assert data("import", "work.db", "done.json")["added"] == pairs
    outside(people=(2,))
    assert data("import", "work.db", "done.json")["added"] == pairs, "those of the first person came back"
    run("export", "work.db", "answers.csv")
    assert "already in the store" in run("import", "work.db", "answers.csv", status=3).stderr
    text = Path("answers.csv").read_text(encoding="utf-8")
    Path("answers.csv").write_text(text.replace(",4,", ",1,", 1), encoding="utf-8")
    changed = run("import", "work.db", "answers.csv", status=3).stderr
    assert "another answer (grade 4, not 1): keep one of them" in changed
    assert data("status", "work.db")["answers"] == 2 * pairs


def test_systems_trained_again_at_the_shell_still_find_pairs_to_ask(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    world_args = ["scenes", "-O", "images=60", "-O", "seed=7"]
    named = ["--model", "colours", "--model", "histograms"]
    data("pool", "work.db", *world_args, *named, "--depth", "2", "-O", "keep=4")
    data("tasks", "work.db")
    with open_store(tmp_path / "work.db") as store:
        answer_all(store, limner.load("scenes", images=60, seed=7).test, noise=0.05)
    second_turn = data("pool", "work.db", *world_args, *named, "--new-pairs", "25", "-O", "retrain=true")
    assert second_turn["turn"] == 2 and second_turn["new"] == 25
    assert (
        "-O retrain only works in a further round"
        in run("pool", "work.db", *world_args, *named, "-O", "retrain=true", status=2).output
    )


def test_taken_out_captions_leave_the_judgements(store, world, systems, tmp_path):
    judged(store, world, systems)
    bad = answers(store)[0].caption
    exclude(store, "caption", bad, reason="there is no image here")
    assert bad not in {c for _, c, _ in judgements(store)}


def test_a_control_can_be_pooled_later(store, world):
    add_collection(store, world)
    pairs_of = [(world.images.ids[0], world.texts.ids[n]) for n in range(2)]
    originals = limner.Judgements.from_pairs([pairs_of[1]])
    add_tasks(store, make_tasks([pairs_of[0]], originals, negatives=0))
    assert waiting(store) == []
    add_pairs(store, [pairs_of[1]], turn=2)
    assert waiting(store) == [pairs_of[1]]


def test_one_name_written_in_two_ways_is_refused(tmp_path, world):
    duplicates = [ImportedAnswer(name, world.images.ids[0], world.texts.ids[0], 4) for name in ("Ada", "ada")]
    with open_store(tmp_path / "work.db") as store:
        add_collection(store, world)
        with pytest.raises(LimnerError, match="'Ada' and 'ada' are one name"):
            import_answers(store, duplicates, key="a")
        assert annotators(store) == []


# --- real files -------------------------------------------------------------------------------------------------


def test_the_crowd_of_flickr8k_is_read(shared_data):
    file = shared_data / "flickr8k" / "text" / "CrowdFlowerAnnotations.txt"
    crowd_judgements = read_judgements(file)
    lines = [line.split("\t") for line in file.read_text().splitlines()]
    assert len(crowd_judgements.grades) == len(lines) == 47_830
    for image, caption, share, _, _ in lines[::1000]:
        assert crowd_judgements.grade(image, caption) == pytest.approx(float(share), abs=1e-6)


def test_eccv_caption_is_read_and_written_as_it_is(tmp_path):
    pytest.importorskip("eccv_caption")
    from limner.annotate.answer_files import write_eccv
    from limner.datasets.coco_judgements import eccv_folder

    eccv_judgements = read_judgements(eccv_folder(), form="eccv")
    forward, backward = read_eccv()
    assert len(eccv_judgements) == len(forward | backward.T) > len(forward)
    write_eccv(eccv_judgements, tmp_path)
    assert (
        read_judgements(tmp_path).restrict(queries=eccv_judgements.queries, candidates=eccv_judgements.candidates)
        == eccv_judgements
    )
