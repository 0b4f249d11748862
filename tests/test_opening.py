"""One way to open a system, and one hold-out rule, from Python, the shell and the page."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner import LimnerError, Scores
from limner.cli import app
from limner.cli.errors import Status
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
def own(photos):
    return limner.load(str(photos))


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """A model that was trained on other pictures; many of its ids are those of the photos."""
    folder = tmp_path_factory.mktemp("elsewhere") / "model"
    limner.train(limner.load("scenes", images=40), "colours", dimensions=4).save(folder)
    return folder


@pytest.fixture(scope="module")
def half(own, tmp_path_factory):
    """A model that was trained on the first 18 of the 30 photos."""
    folder = tmp_path_factory.mktemp("half") / "model"
    limner.train(own.restrict(own.images.ids[:18]), "colours", dimensions=4).save(folder)
    return folder


# --- what is measured ---------------------------------------------------------------------------------------------


def test_a_model_trained_elsewhere_is_measured_on_everything(own, elsewhere):
    for split in (None, "all"):
        opened = open_system(elsewhere, own, split=split)
        assert list(opened.collection.images.ids) == list(own.images.ids) and opened.notes == ()


def test_a_saved_model_is_never_measured_on_what_it_was_trained_on(own, half):
    opened = open_system(half, own, split="all")
    assert list(opened.collection.images.ids) == list(own.images.ids[18:])
    assert opened.scores.queries == opened.collection.images.ids
    assert "was trained on 18 of the 30 images: measured on the 12 others" in opened.notes[0]


def test_a_model_that_saw_everything_is_refused(own, tmp_path):
    limner.train(own, "colours", dimensions=4).save(tmp_path / "m")
    with pytest.raises(LimnerError, match=r"was trained on all 30 images .* hold out some images"):
        open_system(tmp_path / "m", own)


def test_a_name_is_trained_on_a_stated_hold_out(own):
    opened = open_system("colours", own)
    assert (len(opened.training.images), len(opened.collection.images)) == (24, 6)
    assert not set(opened.training.images.ids) & set(opened.collection.images.ids)
    assert "has no splits: trained on 24 images, measured on 6 others (seed 0)" in opened.notes[0]
    with pytest.raises(LimnerError, match="would test on training items"):
        open_system("colours", own, split="all")


def test_splits_are_used_where_there_are_some(elsewhere):
    world = limner.load("scenes", images=30, seed=3)
    for given in ("colours", elsewhere):
        assert open_system(given, world).collection.name == "scenes/test"
    opened = open_system("colours", world, split="val")
    assert opened.collection.name == "scenes/dev" and opened.training.name == "scenes/train"


def test_too_few_images_are_refused_by_shell_and_page_alike(own):
    from limner.web.jobs import Job
    from limner.web.library import Library, ready_system

    few = own.restrict(own.images.ids[:8])
    with pytest.raises(LimnerError, match="has 8 images and no splits: expected at least 10") as shell:
        open_system("colours", few)
    library = Library({"few": few}, {"colours": "colours"})
    loaded = library.loaded("few", patience=None)
    assert len(loaded.evaluated.images) == 8, "the pictures are shown all the same"
    with pytest.raises(LimnerError) as page:
        ready_system(library.specs["colours"], loaded, Job("open"))
    assert str(page.value) == str(shell.value)


# --- what can be opened -------------------------------------------------------------------------------------------


def test_everything_that_scores_or_encodes_is_opened(own, elsewhere, tmp_path):
    """A name, a folder, a model, an encoder, a class, a function, scores, a file of scores, two sets of embeddings."""
    model = limner.systems.load(elsewhere)
    scores = model.scores(own)
    np.save(tmp_path / "scores.npy", scores.matrix())
    vectors = model.encode_images(own.images), model.encode_texts(own.texts)
    for side, name in zip(vectors, ("i.npz", "t.npz"), strict=True):
        side.save(tmp_path / name)
    same = (elsewhere, model, scores, tmp_path / "scores.npy", vectors, (tmp_path / "i.npz", tmp_path / "t.npz"))
    for given in same:
        opened = open_system(given, own)
        np.testing.assert_allclose(opened.scores.matrix(), scores.matrix(), atol=2e-3)
        assert len(opened.collection.images) == 30
    ones = Scores.from_embeddings(*(limner.Embeddings(i.ids, Ones().encode(i)) for i in (own.images, own.texts)))
    for given in (Ones(), f"{__name__}:Ones"):
        np.testing.assert_allclose(open_system(given, own).scores.matrix(), ones.matrix())
    assert open_system(f"{__name__}:trainer", own).training is not None
    assert find_system("colours").is_trained_now and not find_system(elsewhere).is_trained_now


def test_an_index_is_a_system(photos, own, elsewhere, tmp_path):
    pytest.importorskip("lancedb")
    run("index", tmp_path / "i", photos, "--model", elsewhere)
    opened = open_system(tmp_path / "i", own)
    np.testing.assert_allclose(opened.scores.matrix(), open_system(elsewhere, own).scores.matrix(), atol=2e-3)
    run("index", tmp_path / "j", photos, "--model", "colours")
    with pytest.raises(LimnerError, match="was trained on all 30 images"):
        open_system(tmp_path / "j", own)


def test_an_encoder_is_named_with_its_options(own, tmp_path):
    pytest.importorskip("torch")
    from limner.encoders.gru import GruEncoder

    GruEncoder.fresh(own.texts.values, dim=4).save(tmp_path / "gru")
    encoder = find_model(f"gru(model={tmp_path / 'gru'})")
    assert encoder.dim == 4


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("colour", "did you mean 'colours'"),
        ("no/such/model", "unknown system, saved model or file 'no/such/model'"),
        (3, "a system that is int: expected a name"),
    ],
)
def test_what_is_no_system_is_refused(own, given, said):
    with pytest.raises(LimnerError, match=said):
        open_system(given, own)


def test_a_matrix_of_other_items_is_refused(own, tmp_path):
    np.save(tmp_path / "s.npy", np.zeros((3, 4)))
    with pytest.raises(LimnerError, match=r"is a matrix of \(3, 4\), expected \(30, 150\)"):
        open_system(tmp_path / "s.npy", own)


# --- the shell ----------------------------------------------------------------------------------------------------


def test_pooling_with_a_saved_model_on_a_folder_without_splits(photos, elsewhere, tmp_path):
    for split in ((), ("--split", "all")):
        store = tmp_path / f"w{len(split)}.db"
        words = ("annotate", "pool", store, photos, "--model", elsewhere, "--depth", "2", "--json", *split)
        told = json.loads(run(*words).stdout)
        assert told["new"] > 0
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


def test_evaluating_a_saved_model_on_a_folder(photos, elsewhere, half):
    told = json.loads(run("evaluate", photos, "--model", elsewhere, "--json").stdout)
    assert told["results"][0]["queries"] == 30 and told["notes"] == []
    told = json.loads(run("evaluate", photos, "--model", half, "--split", "all", "--json").stdout)
    assert told["results"][0]["queries"] == 12 and "measured on the 12 others" in told["notes"][-1]


def test_training_with_a_hold_out(photos, tmp_path):
    told = json.loads(run("train", "colours", photos, "-o", tmp_path / "m", "--hold-out", "--json").stdout)
    assert told["images"] == 24
    told = json.loads(run("evaluate", photos, "--model", tmp_path / "m", "--json").stdout)
    assert told["results"][0]["queries"] == 6
    run("train", "colours", photos, "-o", tmp_path / "all")
    done = run("evaluate", photos, "--model", tmp_path / "all", status=Status.INPUT)
    assert "limner train ... --hold-out" in done.stderr.replace("\n", " ")


def test_attacking_a_saved_model(photos, half):
    done = run("explain", "attack", photos, "--model", half, "--kind", "colour-in", "--json")
    assert "measured on the 12 others" in done.stderr.replace("\n", " ")
    assert json.loads(done.stdout)["attacks"]


def test_a_folder_of_eight_is_refused_with_what_to_do(own, tmp_path):
    write(own.restrict(own.images.ids[:8]), tmp_path / "few")
    done = run("evaluate", tmp_path / "few", "--model", "colours", status=Status.INPUT)
    assert "has 8 images and no splits" in done.stderr and "trained elsewhere" in done.stderr.replace("\n", " ")


# --- the page -----------------------------------------------------------------------------------------------------


def test_the_page_searches_everything_that_was_not_trained_on(own, elsewhere, half):
    from limner.web.library import Library

    for systems, count in (({"a": elsewhere}, 30), ({"a": half}, 12), ({"a": half, "c": "colours"}, None)):
        library = Library({"photos": own}, {name: str(given) for name, given in systems.items()})
        held = library.loaded("photos", patience=None).evaluated
        shared = set(held.images.ids)
        assert count in (None, len(shared))
        for name in systems:
            ready = library.system("photos", name, patience=None)
            assert set(ready.scores.queries) == shared
        if "c" in systems:
            assert shared <= set(own.images.ids[18:]), "both are compared on the same pictures, new to both"
