"""The one format of saved models: every kind, round trip, versions, damage; and what a model knows of its training."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

import limner
from limner import LimnerError, systems
from limner.core import model_store
from limner.systems.hold_out import TrainedOn

CONTENT = {"name": "m", "deep": {"list": [1, np.arange(3)], "flag": True}, "nothing": None}
SMALL = {
    "histograms": {"dimensions": 4},
    "aligned": {"dimensions": 4},
    "nearest": {"side": 48, "points": 20},
    "kcca": {"side": 48, "points": 20, "fuse": False, "kappas": (0.1,), "powers": (1.0,), "diagonals": (1.0,)},
    "towers": {"word_dim": 4, "hidden_dim": 4, "embedding_dim": 4, "epochs": 1},
    "mcprop": {"hidden_dim": 8, "layers": 1, "heads": 2, "epochs": 1},
    "crank": {"hidden_dim": 8, "layers": 1, "heads": 2, "epochs": 1},
}


@pytest.fixture(scope="module")
def world():
    return limner.load("scenes", images=40)


def test_what_is_written_is_read(tmp_path):
    weights = {"layer.weight": np.ones((2, 3), dtype=np.float32)}
    model_store.write(
        tmp_path / "m", "toy", CONTENT, weights=weights, beside=lambda f: (f / "README.md").write_text("x")
    )
    saved = model_store.read(tmp_path / "m", "toy")
    assert (saved.kind, saved.content["name"], saved.content["nothing"]) == ("toy", "m", None)
    np.testing.assert_array_equal(saved.content["deep"]["list"][1], [0, 1, 2])
    np.testing.assert_array_equal(saved.weights["layer.weight"], weights["layer.weight"])
    assert list(saved.weights) == ["layer.weight"] and (tmp_path / "m" / "README.md").read_text() == "x"
    assert model_store.kind_of(tmp_path / "m") == "toy" and model_store.is_model(tmp_path / "m")
    np.testing.assert_array_equal(model_store.part(tmp_path / "m", "deep")["list"][1], [0, 1, 2])
    assert model_store.part(tmp_path / "m", "other") is None


def test_what_is_no_model_is_refused(tmp_path):
    model_store.write(tmp_path / "m", "toy", CONTENT)
    for kind, change, message in (
        ("other", {}, "is a model of kind 'toy', format 1: expected 'other'"),
        ("toy", {"format": 3}, "format 3: expected 'toy', format 1"),
        ("toy", {"format": "x"}, "format x"),
    ):
        config = json.loads((tmp_path / "m" / "config.json").read_text())
        (tmp_path / "m" / "config.json").write_text(json.dumps({**config, **change}))
        with pytest.raises(LimnerError, match=message):
            model_store.read(tmp_path / "m", kind)
        (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    (tmp_path / "m" / "config.json").write_text("[]")
    with pytest.raises(LimnerError, match="does not describe a model"):
        model_store.read(tmp_path / "m", "toy")
    with pytest.raises(LimnerError, match="no model"):
        model_store.read(tmp_path / "none", "toy")
    assert not model_store.is_model(tmp_path) and not model_store.is_model(tmp_path / "none")


def test_the_same_model_is_the_same_bytes(tmp_path):
    for name in "abc":
        model_store.write(tmp_path / name, "toy", CONTENT, weights={"b": np.ones(2), "a": np.zeros(2)})
    for file in ("config.json", "model.safetensors"):
        assert len({(tmp_path / name / file).read_bytes() for name in "abc"}) == 1


def test_a_changed_number_is_noticed(tmp_path):
    model_store.write(tmp_path / "m", "toy", CONTENT)
    file = tmp_path / "m" / "model.safetensors"
    good = file.read_bytes()
    file.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(LimnerError, match="its contents do not match its fingerprint"):
        model_store.read(tmp_path / "m", "toy")


def test_the_fingerprint_is_that_of_torch(tmp_path):
    """A model that was written from tensors is checked without torch."""
    torch = pytest.importorskip("torch")
    from limner.systems.towers import checkpoints

    tensors = {"b": torch.arange(4), "a": torch.ones(2, 2), "c": torch.tensor([True, False])}
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    assert model_store.fingerprint(arrays, "{}") == checkpoints.fingerprint(tensors, "{}")


@pytest.mark.parametrize("kind", SMALL)
def test_every_kind_says_what_it_is_and_what_it_was_trained_on(world, tmp_path, kind):
    if kind in ("towers", "mcprop", "crank"):
        pytest.importorskip("torch")
    model = limner.train(world, kind, **SMALL[kind])
    config = json.loads((model.save(tmp_path / "m") / "config.json").read_text())
    assert {"limner": config["limner"], "format": config["format"]} == {"limner": kind, "format": model_store.FORMAT}
    assert config["trained_on"]["collection"] == "scenes/train"
    reloaded = systems.load(tmp_path / "m")
    assert reloaded.fingerprint == model.fingerprint
    assert reloaded.trained_on.saw(world).tolist() == [key in world.splits["train"] for key in world.images.ids]


def test_an_image_is_known_again_by_its_id_and_a_caption(world):
    record = TrainedOn.of(world.train)
    assert record.saw(world.train).all() and not record.saw(world.test).any()
    other_world = limner.load("scenes", images=40, seed=5)
    assert set(other_world.images.ids) == set(world.images.ids), "the same ids, other pictures and captions"
    shared = set(world.train.texts.values) & set(other_world.texts.values)
    saw = record.saw(other_world)
    for row, key in enumerate(other_world.images.ids):
        captions = set(other_world.restrict([key]).texts.values)
        assert saw[row] == (key in world.splits["train"] and bool(captions & shared))
    assert not saw.all()


CHANGES = (
    "delete",
    None,
    [],
    {},
    "x",
    1e308,
    10**30,
    -1,
    True,
    "histograms",
    "hashing",
    {"tensor": "nope"},
    [[1, [2]]],
)
"""What is put in the place of each value of a config.json."""


def places(value, place=()):
    """The path of every value in nested dicts and lists; of the first two entries of a list."""
    entries = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, entry in entries:
        yield (*place, key)
        yield from places(entry, (*place, key))


def changed(config, place, change):
    """A copy of a config in which one value is another, or is missing."""
    copy = json.loads(json.dumps(config))
    node = copy
    for key in place[:-1]:
        node = node[key]
    if change == "delete":
        del node[place[-1]]
    else:
        node[place[-1]] = change
    return copy


@pytest.mark.parametrize("kind", ["histograms", "aligned", "nearest", "kcca"])
def test_a_config_with_any_other_value_is_refused_or_works(world, tmp_path, kind):
    """A damaged file is told by its name when it is opened, or the model works; it never ends in a bug."""
    folder = limner.train(world, kind, **SMALL[kind]).save(tmp_path / "m")
    config, part = json.loads((folder / "config.json").read_text()), world.test.restrict(world.test.images.ids[:2])
    refused = []
    every = [(place, change) for place in places(config) for change in CHANGES]
    for place, change in random.Random(0).sample(every, min(len(every), 400)):
        (folder / "config.json").write_text(json.dumps(changed(config, place, change)))
        try:
            model = systems.load(folder)
        except LimnerError as error:
            refused.append(str(error))
        else:
            if place[-1] == "spelling":
                continue  # needs a spelling checker on the machine
            assert model.trained_on is None or model.trained_on.saw(part).shape == (2,), (place, change)
            assert model.fingerprint and model.scores(part).matrix().shape == (2, len(part.texts)), (place, change)
    assert len(refused) > 150 and all(str(folder) in error for error in refused)


def test_the_length_of_texts_in_a_config_is_a_number(world, tmp_path):
    pytest.importorskip("torch")
    folder = limner.train(world, "towers", **SMALL["towers"]).save(tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    for change in ("delete", None, [], "x", 1.5, -1, 0, True):
        copy = changed(config, ("settings", "inputs", "max_tokens"), change)
        (folder / "config.json").write_text(json.dumps(copy))
        with pytest.raises(LimnerError, match="max_tokens"):
            systems.load(folder)


def test_documents_of_a_kernel_model_are_texts(world, tmp_path):
    folder = limner.train(world, "nearest", **SMALL["nearest"]).save(tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    for place in (("documents",), ("documents", 0), ("documents", 0, 0)):
        for change in (None, 5, [[1, [2]]], {"a": 1}):
            (folder / "config.json").write_text(json.dumps(changed(config, place, change)))
            with pytest.raises(LimnerError, match=str(folder)):
                systems.load(folder)


def test_the_encoder_of_a_saved_model_is_named_by_a_text(world, tmp_path):
    pytest.importorskip("torch")
    folder = limner.train(world, "towers", **SMALL["towers"]).save(tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    for change in ("delete", [], {}, "", "x", -1, True, [[1, [2]]]):
        (folder / "config.json").write_text(json.dumps(changed(config, ("features", "encoder"), change)))
        with pytest.raises(LimnerError, match=str(folder)):
            systems.load(folder)
