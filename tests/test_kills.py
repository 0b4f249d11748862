"""Kills: whatever is killed, whenever it is killed, what was acknowledged is there, and what was begun goes on."""

from __future__ import annotations

import pytest

import limner
from killing import deaths
from limner import systems

# --- models -------------------------------------------------------------------------------------------------------

SMALL = {
    "histograms": {"dimensions": 4},
    "kcca": {"fuse": False},
    "nearest": {},
    "towers": {"epochs": 1, "hidden": 4, "joint": 4, "words": 4, "tensorboard": False},
    "pvse": {"epochs": 1, "hidden": 4, "joint": 4, "words": 4, "tensorboard": False},
    "pcme": {"epochs": 1, "hidden": 4, "joint": 4, "words": 4, "tensorboard": False},
    "mcprop": {"epochs": 1, "width": 8, "heads": 2, "layers": 1, "tensorboard": False},
    "crank": {"epochs": 1, "width": 8, "heads": 2, "layers": 1, "tensorboard": False},
}
"""Every kind of system, as small as it gets."""
LEARNED = ("towers", "pvse", "pcme", "mcprop", "crank")
IMPORTS = {"kcca": "limner.classic.models", "nearest": "limner.classic.nearest"} | dict.fromkeys(LEARNED, "torch")


@pytest.fixture(scope="module")
def world():
    return limner.load("scenes", images=60)


def save_again(source, target):
    systems.load(source).save(target)


@pytest.mark.parametrize("kind", SMALL)
def test_a_killed_save_leaves_the_old_or_the_new_model(world, tmp_path, kind):
    if kind in LEARNED:
        pytest.importorskip("torch", reason="training needs torch")
    seed = {} if kind == "histograms" else {"seed": 3}
    made = {
        "old": limner.train(world, kind, name="old", **SMALL[kind]),
        "new": limner.train(world.test, kind, name="new", **SMALL[kind], **seed),
    }
    ending = ".npz" if kind == "histograms" else ""
    kept = {name: model.save(tmp_path / f"{name}{ending}") for name, model in made.items()}
    scores = {name: model.scores(world.test).matrix() for name, model in made.items()}
    place = tmp_path / "there" / f"m{ending}"
    place.parent.mkdir()
    made["old"].save(place)
    for step in deaths(save_again, kept["new"], place, within=place.parent, imports=[IMPORTS.get(kind, "limner")]):
        found = systems.load(place)
        assert (found.scores(world.test).matrix() == scores[found.name]).all(), f"{found.name} with other weights"
        card = place / "README.md"
        assert not card.exists() or card.read_text().startswith(f"# {found.name}"), "the card of another model"
        assert step == 1 or found.name in scores
        if found.name == "new":
            made["old"].save(place)
