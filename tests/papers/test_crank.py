"""CRank: balanced batches with true negatives, with and without pictures, one process or two, saved and loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))
sys.path[:0] = [str(Path(__file__).parents[1] / "encoders"), str(Path(__file__).parents[1] / "towers")]

from tower_toys import DEVICE  # noqa: E402

import limner  # noqa: E402
from limner.core.errors import LimnerError  # noqa: E402
from limner.datasets.wikipedia import image_names  # noqa: E402
from limner.match import cascade  # noqa: E402
from limner.papers.file_name_models import crank  # noqa: E402
from toys import named  # noqa: E402

SMALL = {
    "hidden_dim": 16,
    "layers": 1,
    "heads": 2,
    "batch_size": 32,
    "device": DEVICE,
    "max_tokens": 24,
    "tensorboard": False,
}
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def world():
    return named(limner.load("scenes", images=40))


@pytest.fixture(scope="module")
def model(world):
    return crank.train(world.train, dev=world.dev, epochs=3, learning_rate=3e-3, **SMALL)


def test_batches_are_balanced_and_negatives_are_none_of_the_images_own(world, model):
    data = crank.CrankData.of(world.train, model.judge, None, torch.device(DEVICE))
    from limner.systems.towers.distributed import Group
    from limner.systems.towers.settings import Training

    options = {"training": Training(batch_size=32, epochs=1), "device": torch.device(DEVICE)}
    right = set(zip(data.rows.tolist(), data.columns.tolist(), strict=True))
    halves = [crank.CrankTask(model.judge, data, None, group=Group(rank, 2), **options) for rank in (0, 1)]
    task = crank.CrankTask(model.judge, data, None, group=Group(), **options)
    assert task.steps == len(data.rows) // 16
    for batch, *parts in zip(task.batches(0, 0), *(half.batches(0, 0) for half in halves), strict=True):
        pairs = list(zip(batch.rows.tolist(), batch.columns.tolist(), strict=True))
        assert [pair in right for pair in pairs] == batch.match.bool().tolist()
        assert batch.match.sum() == 16 and len(pairs) == 32
        shared = [pair for part in parts for pair in zip(part.rows.tolist(), part.columns.tolist(), strict=True)]
        assert sorted(shared) == sorted(pairs)
    first_batch = next(iter(task.batches(0, 0)))
    assert (first_batch.columns == next(iter(task.batches(0, 0))).columns).all()


def test_a_proposers_mistakes_are_drawn_as_often_as_asked(world, model, tmp_path):
    data = crank.CrankData.of(world.train, model.judge, None, torch.device(DEVICE))
    ids = world.train.images.ids, world.train.texts.ids
    proposer = limner.Scores.from_matrix(np.random.default_rng(0).random((len(ids[0]), len(ids[1]))), *ids)
    right = set(zip(data.rows.tolist(), data.columns.tolist(), strict=True))
    lists = proposer.ranking()
    expected = []  # the slow way: down each list, passing over the image's own
    for row, image in enumerate(ids[0]):
        columns = [world.train.texts.ids.index(text) for text in lists[image]]
        expected.append([column for column in columns if (row, column) not in right][:3])
    file = lists.save(tmp_path / "proposer.json")
    for ranking in (proposer, lists, file):
        hard = data.with_proposed(world.train, ranking, depth=3, share=1.0)
        assert hard.proposed.tolist() == expected
    drawn = hard.negatives(np.repeat(np.arange(len(ids[0])), 200), np.random.default_rng(1)).reshape(len(ids[0]), 200)
    assert [sorted(set(row)) for row in drawn.tolist()] == [sorted(row) for row in expected]
    half = data.with_proposed(world.train, proposer, depth=3, share=0.5)
    images = np.repeat(np.arange(len(ids[0])), 400)
    drawn = half.negatives(images, np.random.default_rng(2))
    among = np.mean([column in expected[row] for row, column in zip(images, drawn, strict=True)])
    assert 0.5 < among < 0.6  # half, and a few by chance
    with pytest.raises(LimnerError, match="no ranking for"):
        data.with_proposed(
            world.train, limner.Scores.from_matrix(np.ones((1, len(ids[1]))), ids[0][:1], ids[1]), depth=3, share=0.5
        )
    with pytest.raises(LimnerError, match="hard_negative_share=2"):
        crank.train(world.train, proposer=proposer, hard_negative_share=2, **SMALL)


def test_training_with_a_proposers_mistakes(world):
    ids = world.train.images.ids, world.train.texts.ids
    proposer = limner.Scores.from_matrix(np.random.default_rng(0).random((len(ids[0]), len(ids[1]))), *ids)
    options = {"epochs": 1, "learning_rate": 3e-3, **SMALL}
    plain, hard = crank.train(world.train, **options), crank.train(world.train, proposer=proposer, **options)
    assert plain.fingerprint != hard.fingerprint
    assert crank.train(world.train, proposer=proposer, **options).fingerprint == hard.fingerprint


def test_it_learns(model):
    history = model.trained["history"]
    assert history[-1]["loss"] < history[0]["loss"] and history[-1]["AUC"] > 0.5


def test_auc_is_the_share_of_right_order(model, world):
    task_dev = crank.CrankData.of(world.dev, model.judge, None, torch.device(DEVICE))
    from limner.systems.towers.distributed import Group
    from limner.systems.towers.settings import Training

    task = crank.CrankTask(
        model.judge, task_dev, task_dev, training=Training(), group=Group(), device=torch.device(DEVICE)
    )
    wrong = task_dev.negatives(task_dev.rows, np.random.default_rng(0))
    right, rivals = (crank._in_batches(model.judge, task_dev, task_dev.rows, c) for c in (task_dev.columns, wrong))
    expected = np.mean([(a > b) + 0.5 * (a == b) for a in right for b in rivals])
    assert task.measure()["AUC"] == pytest.approx(expected)


@pytest.mark.parametrize("pictures", [False, True])
def test_scores_saved_and_loaded(world, pictures, tmp_path):
    model = crank.train(world.train, epochs=1, use_images=pictures, **SMALL)
    loaded = crank.CrankModel.load(model.save(tmp_path / "m"), device=DEVICE)
    assert loaded.fingerprint == model.fingerprint
    queries, texts = model.queries(world.test), list(world.test.texts.values)
    matrix = model.scores(world.test).matrix()
    single = loaded.score_pairs([loaded.queries(world.test)[2]] * 3, texts[:3])
    np.testing.assert_allclose(matrix[2, :3], single, atol=1e-5 if DEVICE == "cpu" else 1e-2)  # a card halves
    assert isinstance(queries[0], tuple) == pictures
    if pictures:
        unlike = (queries[0][0], queries[0][1] + 1)
        assert model.score_pairs([queries[0]], texts[:1]) != model.score_pairs([unlike], texts[:1])
        with pytest.raises(LimnerError, match="uses images"):
            model.score_pairs(["a name"], texts[:1])


@pytest.mark.parametrize("pictures", [False, True])
def test_a_pretrained_transformer_is_tuned_saved_and_loaded(world, pictures, tmp_path):
    pytest.importorskip("transformers")
    import tiny

    folder = tiny.backbone(tmp_path / "bert")
    model = crank.train(world.train, backbone=str(folder), epochs=1, use_images=pictures, learning_rate=1e-3, **SMALL)
    loaded = crank.CrankModel.load(model.save(tmp_path / "m"), device=DEVICE)
    pairs = model.queries(world.test)[:4], list(world.test.texts.values[:4])
    np.testing.assert_allclose(model.score_pairs(*pairs), loaded.score_pairs(*pairs), atol=1e-6)
    assert model.score_pairs(*pairs).std() > 0
    states = (
        model.judge.first_states([pairs[1][0]]).detach().numpy()[0],
        model.judge.first_states([image_names(world.test.images)[0]]).detach().numpy()[0],
    )
    cosine = states[0] @ states[1] / np.linalg.norm(states[0]) / np.linalg.norm(states[1])
    assert model.similarity(world.test).matrix()[0, 0] == pytest.approx(cosine, abs=1e-5)


def test_a_saved_model_is_trained_further(world, tmp_path):
    first = crank.train(world.train, epochs=2, use_images=True, **SMALL)
    first.save(tmp_path / "first")
    before = {name: tensor.clone() for name, tensor in first.judge.state_dict().items()}
    settings = {"epochs": 1, "device": DEVICE, "tensorboard": False}
    unchanged = crank.train(world.train, init_from=tmp_path / "first", learning_rate=1e-12, **settings)
    assert np.allclose(unchanged.scores(world.test).matrix(), first.scores(world.test).matrix(), atol=1e-4)
    moved = crank.train(world.test, init_from=first, learning_rate=3e-3, **settings)
    assert all(torch.equal(before[name], tensor) for name, tensor in first.judge.state_dict().items())
    assert not np.allclose(moved.scores(world.test).matrix(), first.scores(world.test).matrix(), atol=1e-4)
    assert moved.settings["layers"] == first.settings["layers"] and moved.judge.picture is not None
    assert moved.trained_on.saw(world).sum() == len(world.train.images) + len(world.test.images)
    wide_features = limner.Embeddings(world.images.ids, np.ones((len(world.images), 3)))
    for options, message in (
        ({"hidden_dim": 64}, r"hidden_dim=64 with init_from=: that model has 16; leave it out"),
        ({"use_images": False}, r"use_images=False with init_from=: that model has True"),
        ({"backbone": "words"}, r"backbone= with init_from=: that model brings its own"),
        ({"features": wide_features}, r"the image features have 3 numbers: the model of init_from= expects \d+"),
    ):
        with pytest.raises(LimnerError, match=message):
            crank.train(world.train, init_from=first, **options)


def test_a_judge_over_a_frozen_backbone_has_no_similarity_of_its_own(world, model):
    with pytest.raises(LimnerError, match="has no tuned transformer"):
        model.similarity(world.test)


def test_a_cascade_with_its_cache(world, model, tmp_path):
    proposer = limner.train(world, "colours").scores(world.test)
    options = {"queries": model.queries(world.test), "candidates": world.test.texts, "cache": tmp_path}
    first_run = cascade(proposer, model, depth=0.2, **options)
    second_run = cascade(proposer, model, depth=0.2, **options)
    assert first_run.pairs == second_run.reused > 0 and second_run.pairs == 0
    assert (first_run.indices == second_run.indices).all()


def test_two_processes_train_as_one(world, tmp_path):
    if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        pytest.skip("this torch has no gloo")
    code = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "import limner, torch\nfrom toys import named\nfrom limner.papers.file_name_models import crank\n"
        "world = named(limner.load('scenes', images=40))\n"
        "m = crank.train(world.train, epochs=1, dropout=0.0, hidden_dim=16, layers=1, heads=2, batch_size=32,\n"
        "                device='cpu', max_tokens=24, tensorboard=False)\n"
        "if __import__('os').environ['RANK'] == '0': m.save(sys.argv[1])\n"
    )
    (tmp_path / "script.py").write_text(code)
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    words = [
        str(tmp_path / "script.py"),
        str(tmp_path / "two"),
        str(ROOT / "tests"),
        str(ROOT / "tests" / "towers"),
    ]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    two = crank.CrankModel.load(tmp_path / "two", device="cpu")
    one = crank.train(world.train, epochs=1, dropout=0.0, **SMALL | {"device": "cpu"})
    # Not weight by weight: where a gradient is nothing but rounding (the bias of keys), Adam makes whole steps of it.
    pairs = one.queries(world.test), list(world.test.texts.values[: len(world.test.images)])
    np.testing.assert_allclose(one.score_pairs(*pairs), two.score_pairs(*pairs), atol=1e-3)
    assert one.trained["history"][0]["steps"] == two.trained["history"][0]["steps"]
    fresh = crank.train(world.train, epochs=1, dropout=0.0, seed=1, **SMALL)
    assert np.abs(one.score_pairs(*pairs) - fresh.score_pairs(*pairs)).max() > 1e-2


def test_refusals(world):
    with pytest.raises(LimnerError, match="features= without use_images=True"):
        crank.train(world.train, features="x.npy")
