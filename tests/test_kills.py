"""Kills: whatever is killed, whenever it is killed, what was acknowledged is there, and what was begun goes on."""

from __future__ import annotations

import json
import os
from contextlib import suppress

import numpy as np
import pytest

import limner
from killing import deaths
from limner import Embeddings, Judgements, systems
from limner.annotate.answer_files import read_judgements, write_eccv

# --- models -------------------------------------------------------------------------------------------------------

SMALL = {
    "histograms": {"dimensions": 4},
    "kcca": {"fuse": False},
    "nearest": {},
    "towers": {"epochs": 1, "hidden_dim": 4, "embedding_dim": 4, "word_dim": 4, "tensorboard": False},
    "pvse": {"epochs": 1, "hidden_dim": 4, "embedding_dim": 4, "word_dim": 4, "tensorboard": False},
    "pcme": {"epochs": 1, "hidden_dim": 4, "embedding_dim": 4, "word_dim": 4, "tensorboard": False},
    "mcprop": {"epochs": 1, "hidden_dim": 8, "heads": 2, "layers": 1, "tensorboard": False},
    "crank": {"epochs": 1, "hidden_dim": 8, "heads": 2, "layers": 1, "tensorboard": False},
}
"""Every kind of system, as small as it gets."""
LEARNED = ("towers", "pvse", "pcme", "mcprop", "crank")
IMPORTS = {"kcca": "limner.systems.classic.models", "nearest": "limner.papers.nearest_neighbours"} | dict.fromkeys(
    LEARNED, "torch"
)


@pytest.fixture(scope="module")
def world():
    return limner.load("scenes", images=60)


def save_again(source, target):
    systems.load(source).save(target)


def kinds(*often):
    """Every kind; those that share the code of another one only in the long form."""
    return [pytest.param(kind, marks=() if kind in often else pytest.mark.long) for kind in SMALL]


@pytest.mark.parametrize("kind", kinds("histograms", "kcca", "towers"))
def test_a_killed_save_leaves_the_old_or_the_new_model(world, tmp_path, kind):
    if kind in LEARNED:
        pytest.importorskip("torch", reason="training needs torch")
    seed = {} if kind == "histograms" else {"seed": 3}
    models = {
        "old": limner.train(world, kind, name="old", **SMALL[kind]),
        "new": limner.train(world.test, kind, name="new", **SMALL[kind], **seed),
    }
    ending = ".npz" if kind == "histograms" else ""
    paths = {name: model.save(tmp_path / f"{name}{ending}") for name, model in models.items()}
    marks = {name: model.fingerprint for name, model in models.items()}
    place = tmp_path / "there" / f"m{ending}"
    place.parent.mkdir()
    models["old"].save(place)
    for step in deaths(save_again, paths["new"], place, folder=place.parent, imports=[IMPORTS.get(kind, "limner")]):
        loaded = systems.load(place)
        assert loaded.fingerprint == marks[loaded.name], f"step {step}: {loaded.name!r} with other weights"
        card = place / "README.md"
        assert not card.exists() or card.read_text().startswith(f"# {loaded.name}"), "the card of another model"
        if loaded.name == "new":
            models["old"].save(place)


# --- files that belong together -----------------------------------------------------------------------------------


def vectors(name):
    return Embeddings([f"{name}{n}" for n in range(5)], np.full((5, 3), {"old": 1, "new": 2}[name], dtype=np.float32))


def save_vectors(path):
    vectors("new").save(path)


@pytest.mark.parametrize("ending", ["npy", "npz", "safetensors", "parquet"])
def test_vectors_never_get_the_ids_of_others(tmp_path, ending):
    """An npy file has its ids beside it: before, a kill in between gave the old vectors the new ids."""
    path = tmp_path / f"v.{ending}"
    vectors("old").save(path)
    for _ in deaths(save_vectors, path, folder=tmp_path, imports=["limner.core.embeddings", "pyarrow.parquet"]):
        embeddings = _load_repaired(path)
        name = embeddings.ids[0][:3]
        assert list(embeddings.ids) == list(vectors(name).ids) and (embeddings.matrix == vectors(name).matrix).all()
        if name == "new":
            vectors("old").save(path)


def _load_repaired(path):
    """As somebody would read it who does what the message says."""
    with suppress(limner.LimnerError):
        return Embeddings.load(path)
    with pytest.raises(limner.LimnerError, match="v.ids.txt is not the list of ids that .* was saved with: remove it"):
        Embeddings.load(path)
    (path.parent / "v.ids.txt").unlink()
    return Embeddings.load(path)


def judged(name):
    return Judgements.from_pairs([(f"{name}-i{n}", f"{name}-t{n}") for n in range(3)])


def save_eccv(folder):
    write_eccv(judged("new"), folder)


def test_both_directions_of_judgements_are_of_one_export(tmp_path):
    folder = tmp_path / "there" / "eccv"
    folder.parent.mkdir()
    write_eccv(judged("old"), folder)
    for _ in deaths(save_eccv, folder, folder=folder.parent, imports=["limner.annotate.answer_files"]):
        prefixes = {key[:3] for file in sorted(os.listdir(folder)) for key in _keys(folder / file)}
        assert prefixes in ({"old"}, {"new"}) and len(os.listdir(folder)) == 2
        if prefixes == {"new"}:
            write_eccv(judged("old"), folder)
    assert len(read_judgements(folder)) == 3


def _keys(file):
    return json.loads(file.read_text())


def write_world(folder):
    limner.datasets.write(limner.load("scenes", images=6), folder)


def test_a_data_set_folder_is_there_whole_or_not_at_all(tmp_path):
    """Before, a killed write left a folder with some pictures, which the next one refused as not empty."""
    folder = tmp_path / "there" / "data"
    folder.parent.mkdir()
    steps = 0
    for _ in deaths(write_world, folder, folder=folder.parent, limit=100, imports=["limner.datasets.scenes"]):
        steps += 1
        if folder.exists():
            assert len(os.listdir(folder / "images")) == 6 and (folder / "captions.csv").is_file()
            break
    assert steps > 8
