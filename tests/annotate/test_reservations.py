"""Tasks assigned to one person: offered first, a place kept, moved or released, never more people than wanted."""

from __future__ import annotations

import itertools
import json
import random
from contextlib import suppress

import pytest
from typer.testing import CliRunner

import websites
from limner.annotate.store import open_store
from limner.annotate.store.answers import answers, submit
from limner.annotate.store.exclusions import exclude
from limner.annotate.store.people import add_annotator, set_active
from limner.annotate.store.reservations import assign_tasks, assigned_work, move_tasks, release_tasks, tasks_left
from limner.annotate.store.tasks import give_back, lease, progress
from limner.cli import app as command
from limner.core.errors import LimnerError, UnknownId

KEYS = itertools.count()


@pytest.fixture
def store(database):
    """Four tasks of two pairs, each for two people."""
    with open_store(websites.filled(database, tasks=4, size=2)) as opened:
        yield opened


@pytest.fixture
def people(store):
    return {name: add_annotator(store, name).id for name in ("ada", "bob", "eve")}


def work(store, annotator, *, pairs=2):
    """Answers the next task, or its first pairs; its number, or None if nothing is left."""
    assignment = lease(store, annotator)
    for item in assignment.items[:pairs] if assignment else ():
        submit(store, annotator, item.id, key=f"k{next(KEYS)}", grade=4)
    return assignment and assignment.task


def state(store):
    return {each.annotator: (each.assigned, each.finished, list(each.left)) for each in assigned_work(store)}


def test_assigned_tasks_come_first_and_a_place_is_kept(store, people):
    ada, bob, eve = people.values()
    assert assign_tasks(store, ada, tasks=[3]) == [3]
    assert assign_tasks(store, bob, tasks=[3, 4]) == [3, 4]
    assert [work(store, eve) for _ in range(4)] == [1, 2, 4, None]  # both places of task 3 are kept
    assert state(store) == {"ada": (1, 0, [3]), "bob": (2, 0, [3, 4])}
    assert tasks_left(store, bob) == 2 and tasks_left(store, eve) == 0
    assert [work(store, bob) for _ in range(5)] == [3, 4, 1, 2, None]
    assert state(store)["bob"] == (2, 2, [])
    assert [work(store, ada) for _ in range(2)] == [3, None]
    assert progress(store)["done"] == 4


def test_a_number_of_tasks_or_a_round_is_assigned_where_there_is_a_place(store, people):
    ada, bob, eve = people.values()
    assert work(store, ada) == 1
    assert assign_tasks(store, ada, number=2) == [2, 3]  # the first is done by ada
    assert assign_tasks(store, ada, number=2) == [4]
    with pytest.raises(LimnerError, match="no open task has a place for 'ada'"):
        assign_tasks(store, ada)
    assert assign_tasks(store, bob, turn=1) == [1, 2, 3, 4]
    with pytest.raises(LimnerError, match="no open task"):
        assign_tasks(store, eve)
    for number, error in ((9, UnknownId), (2, LimnerError)):
        with pytest.raises(error, match=f"task {number}"):
            assign_tasks(store, eve, tasks=[number])
    with pytest.raises(LimnerError, match="1 or more"):
        assign_tasks(store, eve, number=0)
    assert "eve" not in state(store)


def test_what_is_not_answered_is_moved_or_released_and_answers_stay(store, people):
    ada, bob, eve = people.values()
    assign_tasks(store, ada, number=3)
    assert work(store, bob) == 1
    assert work(store, ada) == 1  # both people of the first task
    assert work(store, ada, pairs=1) == 2
    assert move_tasks(store, ada, bob) == ([2, 3], [])
    assert state(store) == {"ada": (1, 1, []), "bob": (2, 0, [2, 3])}
    assert work(store, bob) == 2
    assert release_tasks(store, bob) == [3]
    assert move_tasks(store, bob, eve) == ([], [])
    assert [work(store, eve) for _ in range(4)] == [2, 3, 4, None]
    while work(store, ada) or work(store, bob):
        pass
    assert progress(store)["done"] == 4
    assert sorted(a.pair for a in answers(store)) == sorted(2 * list({a.pair for a in answers(store)}))
    with pytest.raises(LimnerError, match="expected another person"):
        move_tasks(store, ada, ada)


def test_a_task_that_the_other_has_judged_is_only_released(store, people):
    ada, bob, _ = people.values()
    assert work(store, bob) == 1
    assign_tasks(store, ada, tasks=[1, 2])
    assert move_tasks(store, ada, bob) == ([2], [1])


@pytest.mark.parametrize("departure", ["exclude", "close"])
def test_the_place_of_somebody_who_left_is_free(store, people, departure):
    ada, bob, eve = people.values()
    assign_tasks(store, ada)
    assign_tasks(store, bob)
    assert lease(store, eve) is None
    if departure == "exclude":
        exclude(store, "annotator", ada, reason="gone")
    else:
        set_active(store, ada, False)
        with pytest.raises(LimnerError, match="closed"):
            assign_tasks(store, ada)
        with pytest.raises(LimnerError, match="open account"):
            move_tasks(store, bob, ada)
    assert [work(store, eve) for _ in range(5)] == [1, 2, 3, 4, None]


@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_lead_does_every_pair_gets_its_two_answers_and_no_more(database, seed):
    """Random leases, answers, returns, assignments, moves and releases by four people; then all work on to the end."""
    draw = random.Random(seed)
    with open_store(websites.filled(database, tasks=6, size=2)) as store:
        people = [add_annotator(store, name).id for name in "abcd"]
        for _ in range(60):
            person, colleague = draw.sample(people, 2)
            act = draw.choice(["work", "work", "part", "back", "assign", "move", "release"])
            if act == "work":
                work(store, person)
            elif act == "part":
                work(store, person, pairs=1)
            elif act == "back":
                assignment = lease(store, person)
                if assignment:
                    give_back(store, person, assignment.id)
            elif act == "release":
                release_tasks(store, person)
            elif act == "move":
                move_tasks(store, person, colleague)
            else:
                with suppress(LimnerError):  # no open task has a place
                    assign_tasks(store, person, number=draw.randint(1, 3))
        for person in people:
            release_tasks(store, person)
        while sum(work(store, person) is not None for person in people):
            pass
        stored = answers(store)
        assert progress(store)["done"] == 6 and len(stored) == 24
        assert len({(a.pair, a.annotator) for a in stored}) == 24


def test_the_shell_assigns_moves_and_releases(tmp_path):
    database = str(websites.filled(tmp_path / "work.db", tasks=3, size=2))
    with open_store(database) as store:
        add_annotator(store, "ada")
        add_annotator(store, "bob")

    def run(*words):
        return CliRunner().invoke(command, ["annotate", "people", "assign", database, *words])

    assert "no task is assigned" in run().output
    assert "2 tasks assigned to ada" in run("ada", "--tasks", "2").output
    assert "1 task assigned to bob" in run("bob", "--task", "3").output
    assert json.loads(run("--json").output) == {
        "people": [
            {"annotator": "ada", "assigned": 2, "finished": 0, "left": [1, 2]},
            {"annotator": "bob", "assigned": 1, "finished": 0, "left": [3]},
        ]
    }
    assert "2 tasks moved from ada to bob, 0 released" in run("ada", "--to", "bob").output
    assert "3 tasks of bob released" in run("bob", "--release").output
    for words in (["ada"], ["--tasks", "2"], ["ada", "--tasks", "2", "--release"]):
        assert run(*words).exit_code == 2
    assert run("nobody", "--tasks", "1").exit_code == 3
