"""KCCA as a system: trained, chosen on dev, fused, saved, loaded, and used on new images and captions."""

from __future__ import annotations

import json

import numpy as np
import pytest

import limner
from limner import systems
from limner.core import model_store
from limner.core.collection import Collection, Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownName
from limner.core.judgements import Judgements
from limner.match.fusion import borda
from limner.scores import Scores
from limner.systems.classic import kernel_model, training
from limner.systems.classic.kcca import centred
from limner.systems.classic.kernel_model import documents_of
from limner.systems.classic.kernels import Features, Pyramid
from limner.systems.classic.models import KccaModel, TwoWayScores
from limner.systems.classic.selection import Dev
from limner.systems.classic.strings import StringKernel
from limner.systems.classic.visualwords import WordHistograms

SMALL = {"side": 64, "points": 40}
FEW = {"kappas": (0.1, 1.0), "text_kappas": (1.0, 4.0), "powers": (1.0, 2.0), "dimensions": (10, 40)}
"""Sixteen settings: one more than are fused."""
ONE = {"kappas": (0.1,), "text_kappas": (1.0,), "powers": (1.0,)}


@pytest.fixture(scope="module")
def world() -> Collection:
    return limner.load("scenes", images=150)


@pytest.fixture(scope="module")
def image_histograms(world) -> WordHistograms:
    """What every test sees of the pictures, computed once."""
    return Pyramid(**SMALL).fit(world.train.images).features(world.images)


@pytest.fixture(scope="module")
def model(world, image_histograms) -> KccaModel:
    return limner.train(world, "kcca", features=image_histograms)


@pytest.fixture(scope="module")
def features(world) -> Embeddings:
    """Features from which a caption's words can be told: what a very good picture encoder would give."""
    documents = [" ".join(d) for d in documents_of(world)]
    vocabulary = sorted({word for d in documents for word in d.lower().strip(".").split()})
    rows = np.array([[d.lower().count(word) for word in vocabulary] for d in documents], dtype=np.float32)
    return Embeddings(world.images.ids, rows + 0.01)


def _mean_recall(scores, collection) -> float:
    report = limner.evaluate(scores, collection, measures="R@10")
    return (
        report.value("R@10", direction="i2t", view="pairs") + report.value("R@10", direction="t2i", view="pairs")
    ) / 2


def test_kcca_learns_what_pictures_and_captions_share(model, world):
    scores_matrix = _mean_recall(model.scores(world.test), world.test)
    assert scores_matrix > 0.5  # 10 of 30 pictures, and of 150 captions with 5 true ones, are a third by chance


def test_it_scores_by_the_cosine_of_projections(model, world):
    (setting,) = model.settings["i2t"]
    (space,) = [s for s in model.spaces if s.has(setting)]
    rows = model.image_rows(world.test.images) ** setting.power
    assert rows.shape == (30, 90) and setting.n == len(space.correlations)
    train = model.image_kernel(model.images) ** setting.power
    x = (rows - train.mean(axis=0)) @ space.images.weights.astype(float)
    documents = documents_of(world.train)
    y = (model.text_rows(world.test.texts) - model.text_kernel(documents).mean(axis=0)) @ space.texts.weights
    x, y = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, y))
    np.testing.assert_allclose(model.scores(world.test).matrix(), x @ y.T, atol=6e-4)  # in steps of 1 / 4096


def test_projections_of_training_pairs_correlate_as_said(model, world):
    space = model.spaces[0]
    train = model.image_kernel(model.images) ** space.setting.power
    x = space.images(train, len(space.correlations))
    documents = documents_of(world.train)
    y = space.texts(model.text_kernel(documents), len(space.correlations))
    # With the ridge, a'K_x K_y b = lambda while a'(K_x^2 + kappa K_x)a = 1.
    products = (x * y).sum(axis=0)
    np.testing.assert_allclose(products, space.correlations, atol=2e-3)
    kernel = centred(train)
    ridge = np.einsum("ij,ij->j", space.images.weights, kernel @ space.images.weights)
    np.testing.assert_allclose((x**2).sum(axis=0) + space.setting.kappa * ridge, 1, atol=2e-3)


def test_projections_are_embeddings_so_corrections_and_search_work(model, world):
    scores = model.scores(world.test)
    images, texts = model.encode_images(world.test.images), model.encode_texts(world.test.texts)
    assert images.dim == texts.dim == model.settings["i2t"][0].n
    np.testing.assert_allclose(scores.matrix(), Scores.from_embeddings(images, texts).matrix(), atol=6e-4)
    assert limner.evaluate(scores.correct("csls"), world.test, measures="R@1").rows()
    one = model.scores(world.test.restrict([world.test.images.ids[3]])).matrix()
    np.testing.assert_allclose(one[0, :5], scores.matrix()[3, 15:20], atol=1e-4)  # whoever is in the collection


def test_the_setting_is_the_best_of_the_grid_on_dev(world, image_histograms):
    options = {"kappas": (0.1, 2.0), "text_kappas": (1.0, 4.0), "powers": (1.0, 2.0), "dimensions": (5, 20)}
    model = limner.train(world, "kcca", features=image_histograms, **options)
    chosen = model.settings["i2t"][0]
    sums = {}
    for kappa in (0.1, 2.0):
        for text_kappa in (1.0, 4.0):
            for power in (1.0, 2.0):
                for n in (5, 20):
                    alone = training.train(
                        world.train,
                        kappas=(kappa,),
                        text_kappas=(text_kappa,),
                        powers=(power,),
                        dimensions=n,
                        features=image_histograms,
                    )
                    report = limner.evaluate(
                        alone.scores(world.dev, features=image_histograms), world.dev, measures="R@1 R@5 R@10"
                    )
                    values = [
                        report.value(f"R@{k}", direction=d, view="pairs") for k in (1, 5, 10) for d in ("i2t", "t2i")
                    ]
                    sums[kappa, text_kappa, power, n] = sum(values)
    best = max(sums.values())
    assert sums[chosen.kappa, chosen.text_kappa, chosen.power, chosen.n] == pytest.approx(best, abs=0.02)


def test_fifteen_models_for_each_task_are_fused_by_borda(world, image_histograms, tmp_path):
    model = limner.train(world, "kcca", fuse=True, features=image_histograms, **FEW)
    assert {task: len(set(s)) for task, s in model.settings.items()} == {"i2t": 15, "t2i": 15}
    scores = model.scores(world.test)
    assert isinstance(scores, TwoWayScores)
    for task, oriented in (("i2t", scores), ("t2i", scores.T)):
        singles = []
        for setting in model.settings[task]:
            alone = KccaModel(
                "one", model.image_kernel, model.text_kernel, model.images, model.documents, model.spaces,
                {"i2t": (setting,), "t2i": (setting,)},
            )  # fmt: skip
            one = alone.scores(world.test, features=image_histograms)
            singles.append(one if task == "i2t" else one.T)
        fused = borda(singles)
        assert [oriented.ranking()[q] for q in oriented.queries] == [fused[q] for q in fused.queries]
    assert _mean_recall(scores, world.test) > 0.5
    with pytest.raises(LimnerError, match="fuse=False"):
        model.encode_texts(world.test.texts)
    reloaded = systems.load(model.save(tmp_path / "fused"))
    np.testing.assert_array_equal(reloaded.scores(world.test).matrix(), scores.matrix())
    np.testing.assert_array_equal(reloaded.scores(world.test).T.matrix(), scores.T.matrix())


def test_a_saved_model_scores_new_images_and_captions_alike(model, world, tmp_path):
    folder = model.save(tmp_path / "model")
    assert sorted(p.name for p in folder.iterdir()) == ["config.json", "model.safetensors"]
    reloaded = systems.load(folder)
    assert isinstance(reloaded, KccaModel) and reloaded.settings == model.settings
    np.testing.assert_array_equal(reloaded.scores(world.test).matrix(), model.scores(world.test).matrix())


def test_damaged_models_are_refused(model, tmp_path):
    folder = model.save(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "limner": "nearest"}))
    with pytest.raises(LimnerError, match="kind 'nearest'"):
        KccaModel.load(folder)
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k != "spaces"}))
    with pytest.raises(LimnerError, match="damaged"):
        KccaModel.load(folder)
    (folder / "config.json").write_text(json.dumps({**config, "image_kernel": {"class": "json:loads", "state": {}}}))
    with pytest.raises(LimnerError, match="named by a file"):
        KccaModel.load(folder)
    with pytest.raises(LimnerError, match="not a kernel"):
        KccaModel.load(folder, trust=True)
    (folder / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(LimnerError, match="sav(?:e|ing) it again|put back a good copy"):
        KccaModel.load(folder)
    with pytest.raises(LimnerError, match="no model"):
        KccaModel.load(tmp_path / "other")
    (tmp_path / "file").write_text("")
    with pytest.raises(LimnerError, match="is a file"):
        model.save(tmp_path / "file")


@pytest.mark.parametrize("kind", ["linear", "rbf", "chi2"])
def test_features_in_place_of_pictures(world, features, tmp_path, kind):
    file = features.save(tmp_path / "features.npz")
    model = limner.train(world, "kcca", images=kind, features=str(file), kappas=(0.1, 1.0), powers=(1.0,))
    scores = model.scores(world.test, features=features)
    assert _mean_recall(scores, world.test) > 0.8
    reloaded = systems.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(reloaded.scores(world.test, features=file).matrix(), scores.matrix())
    np.testing.assert_array_equal(model.scores(world.test).matrix(), scores.matrix())  # the file is remembered
    file.unlink()
    with pytest.raises(LimnerError, match="without features"):
        systems.load(tmp_path / "model").scores(world.test)


def test_histograms_of_a_file_in_place_of_pictures(world, image_histograms, tmp_path):
    file = image_histograms.save(tmp_path / "histograms.safetensors")
    from_file = limner.train(world, "kcca", features=file, **ONE)
    expected = from_file.scores(world.test, features=image_histograms).matrix()
    np.testing.assert_allclose(from_file.scores(world.test).matrix(), expected, atol=1e-5)  # the file has the words
    pictures = limner.train(world, "kcca", **SMALL, **ONE)
    np.testing.assert_allclose(pictures.scores(world.test).matrix(), expected, atol=1e-5)
    bare = limner.train(world, "kcca", features=WordHistograms(image_histograms.ids, image_histograms.counts), **ONE)
    np.testing.assert_allclose(bare.scores(world.test, features=image_histograms).matrix(), expected, atol=1e-5)
    with pytest.raises(LimnerError, match="not known"):
        bare.scores(world.test)


def test_kernels_may_be_given_and_dev_left_out(world, image_histograms):
    model = training.train(
        world.train, images=Pyramid(levels=2, side=64, points=20), texts=StringKernel(length=1), kappas=(0.5,)
    )
    assert model.settings["i2t"][0].n == len(model.spaces[0].correlations)
    by_rank = training.train(world.train, method="cholesky", rank=15, dimensions=8, features=image_histograms)
    assert by_rank.settings["i2t"][0].n == 8
    assert _mean_recall(by_rank.scores(world.test), world.test) > 0.4


def test_what_cannot_be_trained_is_refused(world):
    with pytest.raises(UnknownName, match="option '.*' of system 'kcca'"):
        limner.train(world, "kcca", kapas=(1.0,))
    with pytest.raises(UnknownName, match="text kernel"):
        limner.train(world, "kcca", texts="bag")
    with pytest.raises(UnknownName, match="image kernel"):
        limner.train(world, "kcca", images="piramid")
    with pytest.raises(LimnerError, match="give features="):
        limner.train(world, "kcca", images="rbf")
    with pytest.raises(LimnerError, match="with a kernel object"):
        limner.train(world, "kcca", texts=StringKernel(), weights="idf")
    with pytest.raises(LimnerError, match="no kappas"):
        limner.train(world, "kcca", kappas=(), **SMALL)
    with pytest.raises(LimnerError, match="at least 5"):
        training.train(world.train.restrict(world.train.images.ids[:3]))
    with pytest.raises(LimnerError, match="needs a dev split"):
        training.train(world.train, fuse=True, **SMALL)


def test_images_without_texts_are_named():
    images = Items([f"i{k}" for k in range(6)], [None] * 6)
    texts = Items(["t"], ["a dog"], kind="text")
    pairs = Judgements.from_pairs([("i0", "t")], queries=images.ids, candidates=texts.ids)
    with pytest.raises(LimnerError, match="5 images of 'x' have no text, e.g. 'i1'"):
        training.train(Collection("x", images, texts, pairs))


def test_a_search_needs_dev_rows(world):
    with pytest.raises(LimnerError, match="kernels between dev and training items"):
        training.search(training.Rows(np.eye(5), np.eye(5)), Dev.of(world.dev), training.KccaGrid())


def test_states_of_kernels_survive_packing():
    tensors: dict = {}
    state = {"kind": "x", "nested": {"numbers": np.arange(3), "list": [1, np.float32(2)]}}
    packed = json.loads(json.dumps(model_store.pack(state, tensors, "k")))
    back = model_store.unpack(packed, tensors)
    assert back["nested"]["list"] == [1, 2.0]
    np.testing.assert_array_equal(back["nested"]["numbers"], [0, 1, 2])
    kernel = Features("rbf").fit(np.random.default_rng(0).random((4, 2)))
    assert kernel_model.kernel_from(kernel_model.kernel_state(kernel), trust=False) == kernel
