"""A pool is there whole or not at all, and may be asked for again: after a kill, deeper, or with one more system."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner.annotate.pool import fill, merged, proposed, waiting
from limner.annotate.store import contents, open_store
from limner.annotate.store.contents import add_collection, counts, proposals
from limner.annotate.store.tasks import add_tasks
from limner.annotate.tasks import make_tasks
from limner.cli import app
from limner.core.errors import LimnerError


@pytest.fixture(scope="module")
def world():
    return limner.load("scenes", images=40, seed=7).test


@pytest.fixture(scope="module")
def systems(world):
    return {name: noise(world, seed) for seed, name in enumerate(("one", "two"))}


def noise(world, seed):
    drawn = np.random.default_rng(seed).normal(size=(len(world.images), len(world.texts)))
    return limner.Scores.from_matrix(drawn, world.images.ids, world.texts.ids)


@pytest.fixture
def store(database, world):
    with open_store(database) as opened:
        add_collection(opened, world)
        yield opened


def pooled(store):
    """Every proposal, and every pair that waits."""
    return sorted((p.system, p.direction, p.image, p.caption, p.rank) for p in proposals(store)), set(waiting(store))


def test_the_same_pool_again_changes_nothing(store, systems):
    first = fill(store, systems, depth=2, keep=4)
    before = pooled(store)
    repeated = fill(store, systems, depth=2, keep=4)
    assert pooled(store) == before and repeated == {**first, "new": 0}


def test_a_deeper_pool_adds_what_is_missing(store, systems, tmp_path, world):
    fill(store, systems, depth=1, keep=2)
    counted = fill(store, systems, depth=3, keep=5)
    assert (
        set(waiting(store)) == set(merged(proposed(systems, depth=3), depth=3)) and 0 < counted["new"] < counted["kept"]
    )
    with open_store(tmp_path / "at-once.db") as second_store:
        add_collection(second_store, world)
        fill(second_store, systems, depth=3, keep=5)
        assert pooled(store) == pooled(second_store)


def test_a_further_system_joins(store, systems, world):
    fill(store, systems, depth=2, keep=4)
    before = pooled(store)[0]
    fill(store, {**systems, "three": noise(world, 9)}, depth=2, keep=4)
    after = pooled(store)[0]
    assert set(before) < set(after) and {row[0] for row in set(after) - set(before)} == {"three"}


def test_other_lists_under_the_same_name_are_refused_and_leave_nothing(store, systems, world):
    fill(store, systems, depth=2, keep=4)
    before = pooled(store)
    with pytest.raises(LimnerError, match="'two' proposed other .* in round 1"):
        fill(store, {"new": noise(world, 5), "two": noise(world, 6)}, depth=2, keep=4)
    assert pooled(store) == before and counts(store)["systems"] == 2


@pytest.mark.parametrize("batch", range(0, 12, 2))
def test_a_pool_that_ends_early_leaves_nothing_and_can_be_made(store, systems, monkeypatch, batch):
    monkeypatch.setattr(contents, "_BATCH", 25)
    real, batches = contents._insert_batch, []

    def dies(*given):
        batches.append(given)
        if len(batches) > batch:
            raise KeyboardInterrupt
        real(*given)

    monkeypatch.setattr(contents, "_insert_batch", dies)
    with pytest.raises(KeyboardInterrupt):
        fill(store, systems, depth=2, keep=4)
    monkeypatch.setattr(contents, "_insert_batch", real)
    assert pooled(store) == ([], set()) and counts(store)["systems"] == 0
    counted = fill(store, systems, depth=2, keep=4)
    assert counted["new"] == len(waiting(store)) > 0


def test_tasks_of_the_rest_after_tasks_of_some(store, systems, world):
    """What the page does when its button is pressed again."""
    fill(store, systems, depth=3, keep=4)
    first = waiting(store)
    add_tasks(store, make_tasks(first[:18], world.judgements))
    fill(store, systems, depth=3, keep=4)
    remaining = waiting(store)
    assert remaining == first[18:]
    add_tasks(store, make_tasks(remaining, world.judgements))
    assert waiting(store) == []


def run(*words, status=0):
    done = CliRunner().invoke(app, ["annotate", *map(str, words)])
    assert done.exit_code == status, done.output
    return done


def test_a_store_that_a_killed_pool_left_is_taken_by_pool_and_then_by_tasks(database, monkeypatch):
    world_args = ("scenes", "-O", "images=40", "--model", "colours", "--depth", "2")
    real, written = contents._insert_batch, []

    def dies(connection, table, rows):
        if table.name == "pair":
            written.append(rows)
            raise KeyboardInterrupt
        real(connection, table, rows)

    with monkeypatch.context() as patched:
        patched.setattr(contents, "_insert_batch", dies)
        run("pool", database, *world_args, status=130)
    assert written
    assert "run 'limner annotate pool'" in run("tasks", database, status=3).stderr.replace("\n", " ")
    document = json.loads(run("pool", database, *world_args, "--json").stdout)
    assert json.loads(run("tasks", database, "--json").stdout)["pairs"] == document["new"] > 0
    assert json.loads(run("pool", database, *world_args, "--json").stdout)["new"] == 0
