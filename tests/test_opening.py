"""One way to open a system, and one hold-out rule, from Python, the shell and the page."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner import LimnerError, Scores
from limner.cli import app
from limner.cli.shell import Status
from limner.datasets import write
from limner.systems.opening import find_model, find_system, open_system


def run(*words, status=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == status, done.output
    return done


class Ones:
    """An encoder of your own."""

    dim = 2

    def encode(self, items):
        return np.array([[1.0, len(str(key))] for key in items.ids])


def trainer(collection):
    """A system of your own, trained by a function."""
    return limner.train(collection, "colours", dimensions=2)


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """A folder of 30 pictures with captions, and no splits."""
    folder = tmp_path_factory.mktemp("photos")
    world = limner.load("scenes", images=30, seed=3)
    write(world.restrict(world.images.ids), folder / "photos")
    return folder / "photos"


@pytest.fixture(scope="module")
def photo_collection(photos):
    return limner.load(str(photos))


@pytest.fixture(scope="module")
def foreign_model(tmp_path_factory):
    """A model that was trained on other pictures; many of its ids are those of the photos."""
    folder = tmp_path_factory.mktemp("elsewhere") / "model"
    limner.train(limner.load("scenes", images=40), "colours", dimensions=4).save(folder)
    return folder


@pytest.fixture(scope="module")
def half(photo_collection, tmp_path_factory):
    """A model that was trained on the first 18 of the 30 photos."""
    folder = tmp_path_factory.mktemp("half") / "model"
    limner.train(photo_collection.restrict(photo_collection.images.ids[:18]), "colours", dimensions=4).save(folder)
    return folder


# --- what is measured ---------------------------------------------------------------------------------------------


def test_a_model_trained_elsewhere_is_measured_on_everything(photo_collection, foreign_model):
    for split in (None, "all"):
        opened = open_system(foreign_model, photo_collection, split=split)
        assert list(opened.collection.images.ids) == list(photo_collection.images.ids) and opened.notes == ()


def test_a_saved_model_is_never_measured_on_what_it_was_trained_on(photo_collection, half):
    opened = open_system(half, photo_collection, split="all")
    assert list(opened.collection.images.ids) == list(photo_collection.images.ids[18:])
    assert opened.scores.queries == opened.collection.images.ids
    assert "was trained on 18 of the 30 images: measured on the 12 others" in opened.notes[0]


def test_a_model_that_saw_everything_is_refused(photo_collection, tmp_path):
    limner.train(photo_collection, "colours", dimensions=4).save(tmp_path / "m")
    with pytest.raises(LimnerError, match=r"was trained on all 30 images .* hold out some images"):
        open_system(tmp_path / "m", photo_collection)


def test_a_name_is_trained_on_a_stated_hold_out(photo_collection):
    opened = open_system("colours", photo_collection)
    assert (len(opened.training.images), len(opened.collection.images)) == (24, 6)
    assert not set(opened.training.images.ids) & set(opened.collection.images.ids)
    assert "has no splits: trained on 24 images, measured on 6 others (seed 0)" in opened.notes[0]
    with pytest.raises(LimnerError, match="would test on training items"):
        open_system("colours", photo_collection, split="all")


def test_splits_are_used_where_there_are_some(foreign_model):
    world = limner.load("scenes", images=30, seed=3)
    for system in ("colours", foreign_model):
        assert open_system(system, world).collection.name == "scenes/test"
    opened = open_system("colours", world, split="val")
    assert opened.collection.name == "scenes/dev" and opened.training.name == "scenes/train"


def test_too_few_images_are_refused_by_shell_and_page_alike(photo_collection):
    from limner.web.jobs import Job
    from limner.web.library import Library, ready_system

    small_collection = photo_collection.restrict(photo_collection.images.ids[:8])
    with pytest.raises(LimnerError, match="has 8 images and no splits: expected at least 10") as shell:
        open_system("colours", small_collection)
    library = Library({"few": small_collection}, {"colours": "colours"})
    loaded = library.loaded("few", patience=None)
    assert len(loaded.evaluated.images) == 8, "the pictures are shown all the same"
    with pytest.raises(LimnerError) as page:
        ready_system(library.specs["colours"], loaded, Job("open"))
    assert str(page.value) == str(shell.value)


# --- what can be opened -------------------------------------------------------------------------------------------


def test_everything_that_scores_or_encodes_is_opened(photo_collection, foreign_model, tmp_path):
    """A name, a folder, a model, an encoder, a class, a function, scores, a file of scores, two sets of embeddings."""
    model = limner.systems.load(foreign_model)
    scores = model.scores(photo_collection)
    np.save(tmp_path / "scores.npy", scores.matrix())
    vectors = model.encode_images(photo_collection.images), model.encode_texts(photo_collection.texts)
    for side, name in zip(vectors, ("i.npz", "t.npz"), strict=True):
        side.save(tmp_path / name)
    sources = (foreign_model, model, scores, tmp_path / "scores.npy", vectors, (tmp_path / "i.npz", tmp_path / "t.npz"))
    for source in sources:
        opened = open_system(source, photo_collection)
        np.testing.assert_allclose(opened.scores.matrix(), scores.matrix(), atol=2e-3)
        assert len(opened.collection.images) == 30
    ones = Scores.from_embeddings(
        *(limner.Embeddings(i.ids, Ones().encode(i)) for i in (photo_collection.images, photo_collection.texts))
    )
    for source in (Ones(), f"{__name__}:Ones"):
        np.testing.assert_allclose(open_system(source, photo_collection).scores.matrix(), ones.matrix())
    assert open_system(f"{__name__}:trainer", photo_collection).training is not None
    assert find_system("colours").is_trained_now and not find_system(foreign_model).is_trained_now


def test_an_index_is_a_system(photos, photo_collection, foreign_model, tmp_path):
    pytest.importorskip("lancedb")
    run("index", tmp_path / "i", photos, "--model", foreign_model)
    opened = open_system(tmp_path / "i", photo_collection)
    np.testing.assert_allclose(
        opened.scores.matrix(), open_system(foreign_model, photo_collection).scores.matrix(), atol=2e-3
    )
    run("index", tmp_path / "j", photos, "--model", "colours")
    with pytest.raises(LimnerError, match="was trained on all 30 images"):
        open_system(tmp_path / "j", photo_collection)


def test_an_encoder_is_named_with_its_options(photo_collection, tmp_path):
    pytest.importorskip("torch")
    from limner.encoders.gru import GruEncoder

    GruEncoder.fresh(photo_collection.texts.values, dim=4).save(tmp_path / "gru")
    encoder = find_model(f"gru(model={tmp_path / 'gru'})")
    assert encoder.dim == 4


@pytest.mark.parametrize(
    ("system", "message"),
    [
        ("colour", "did you mean 'colours'"),
        ("no/such/model", "unknown system, saved model or file 'no/such/model'"),
        (3, "a system that is int: expected a name"),
    ],
)
def test_what_is_no_system_is_refused(photo_collection, system, message):
    with pytest.raises(LimnerError, match=message):
        open_system(system, photo_collection)


def test_a_matrix_of_other_items_is_refused(photo_collection, tmp_path):
    np.save(tmp_path / "s.npy", np.zeros((3, 4)))
    with pytest.raises(LimnerError, match=r"is a matrix of \(3, 4\), expected \(30, 150\)"):
        open_system(tmp_path / "s.npy", photo_collection)


# --- the shell ----------------------------------------------------------------------------------------------------


def test_pooling_with_a_saved_model_on_a_folder_without_splits(photos, foreign_model, tmp_path):
    for split in ((), ("--split", "all")):
        store = tmp_path / f"w{len(split)}.db"
        words = ("annotate", "pool", store, photos, "--model", foreign_model, "--depth", "2", "--json", *split)
        document = json.loads(run(*words).stdout)
        assert document["new"] > 0
    from limner.annotate.store import open_store
    from limner.annotate.store.contents import pairs

    with open_store(store, create=False) as db:
        images = {pair.image for pair in pairs(db)}
    assert len(images) == 30


def test_pooling_with_a_name_and_a_saved_model(photos, half, tmp_path):
    """All systems are pooled on what none of them has seen."""
    words = ("annotate", "pool", tmp_path / "w.db", photos, "--model", half, "--model", "colours", "--depth", "1")
    done = run(*words, "--json")
    assert json.loads(done.stdout)["new"] > 0 and "was trained on" in done.stderr


def test_evaluating_a_saved_model_on_a_folder(photos, foreign_model, half):
    document = json.loads(run("evaluate", photos, "--model", foreign_model, "--json").stdout)
    assert document["results"][0]["queries"] == 30 and document["notes"] == []
    document = json.loads(run("evaluate", photos, "--model", half, "--split", "all", "--json").stdout)
    assert document["results"][0]["queries"] == 12 and "measured on the 12 others" in document["notes"][-1]


def test_training_with_a_hold_out(photos, tmp_path):
    document = json.loads(run("train", "colours", photos, "-o", tmp_path / "m", "--hold-out", "--json").stdout)
    assert document["images"] == 24
    document = json.loads(run("evaluate", photos, "--model", tmp_path / "m", "--json").stdout)
    assert document["results"][0]["queries"] == 6
    run("train", "colours", photos, "-o", tmp_path / "all")
    done = run("evaluate", photos, "--model", tmp_path / "all", status=Status.INPUT)
    assert "limner train ... --hold-out" in done.stderr.replace("\n", " ")


def test_attacking_a_saved_model(photos, half):
    done = run("explain", "attack", photos, "--model", half, "--kind", "colour-in", "--json")
    assert "measured on the 12 others" in done.stderr.replace("\n", " ")
    assert json.loads(done.stdout)["attacks"]


def test_a_folder_of_eight_is_refused_with_what_to_do(photo_collection, tmp_path):
    write(photo_collection.restrict(photo_collection.images.ids[:8]), tmp_path / "few")
    done = run("evaluate", tmp_path / "few", "--model", "colours", status=Status.INPUT)
    assert "has 8 images and no splits" in done.stderr and "trained elsewhere" in done.stderr.replace("\n", " ")


# --- the page -----------------------------------------------------------------------------------------------------


def test_the_page_searches_everything_that_was_not_trained_on(photo_collection, foreign_model, half):
    from limner.web.library import Library

    for systems, count in (({"a": foreign_model}, 30), ({"a": half}, 12), ({"a": half, "c": "colours"}, None)):
        library = Library({"photos": photo_collection}, {name: str(model) for name, model in systems.items()})
        evaluated = library.loaded("photos", patience=None).evaluated
        shared = set(evaluated.images.ids)
        assert count in (None, len(shared))
        for name in systems:
            ready = library.system("photos", name, patience=None)
            assert set(ready.scores.queries) == shared
        if "c" in systems:
            assert shared <= set(photo_collection.images.ids[18:]), (
                "both are compared on the same pictures, new to both"
            )
