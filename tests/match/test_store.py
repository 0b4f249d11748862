"""The store of an index: whole commits, killed and crowded writers, versions, and what it says of bad places."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import sys
import time
from contextlib import suppress

import numpy as np
import pytest

from limner import Embeddings, Items, LimnerError, MissingExtra
from limner.search import index, open_index

pytest.importorskip("lancedb")
DIM = 4
# Importing LanceDB takes seconds: children are forked from a server that has done it, and that has used nothing of it.
CHILDREN = multiprocessing.get_context("forkserver")
CHILDREN.set_forkserver_preload(["limner.search", "lancedb", "filelock", "pyarrow.compute"])
BATCH = 50


def vectors(prefix: str, count: int = BATCH) -> Embeddings:
    """Every row of a batch is the same number over and over, so that half a batch or a mixed row would show."""
    value = 1 + sum(map(ord, prefix)) % 97
    return Embeddings([f"{prefix}-{row}" for row in range(count)], np.full((count, DIM), value, dtype=np.float32))


@pytest.fixture
def place(tmp_path):
    index(tmp_path / "i", vectors("first"), similarity="dot")
    return tmp_path / "i"


def contents(path) -> dict[str, int]:
    """How many rows there are of every batch; refuses a row that was not written so."""
    store = open_index(path).store
    counts: dict[str, int] = {}
    for key, row in zip(store.ids(), np.concatenate([block.copy() for block in store.vectors()]), strict=True):
        prefix = key.rsplit("-", 1)[0]
        assert row.tolist() == vectors(prefix, 1).matrix[0].tolist()
        counts[prefix] = counts.get(prefix, 0) + 1
    assert len(store) == sum(counts.values()) == len(set(store.ids()))
    return counts


def keep_adding(path, name: str, pipe, count: int) -> None:
    """A child: adds batches, deletes and compacts now and then, and acknowledges each batch after it is added."""
    opened = open_index(path)
    for number in range(count):
        prefix = f"{name}.{number}"
        opened.add(vectors(prefix))
        pipe.send(prefix)
        if number % 5 == 4:
            opened.compact()


def wait_for(pipe, seconds: float = 120) -> list[str]:
    """The acknowledgements so far, at least one."""
    assert pipe.poll(seconds), "the child acknowledged nothing"
    heard = []
    while pipe.poll(0):
        try:
            heard.append(pipe.recv())
        except EOFError:
            break
    return heard


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL and the fork server are of Unix")
def test_a_killed_writer_loses_nothing_that_was_acknowledged_and_leaves_nothing_half_there(place):
    rng = random.Random(7)
    acknowledged: list[str] = []
    for round_ in range(12):
        receiver, sender = CHILDREN.Pipe(duplex=False)
        child = CHILDREN.Process(target=keep_adding, args=(place, f"r{round_}", sender, 10_000))
        child.start()
        sender.close()
        acknowledged += wait_for(receiver)
        time.sleep(rng.uniform(0, 0.12))
        os.kill(child.pid, signal.SIGKILL)
        child.join(30)
        assert child.exitcode == -signal.SIGKILL
        acknowledged += wait_for(receiver, 0) if receiver.poll(0) else []
        counts = contents(place)
        assert set(acknowledged) <= set(counts)
        assert set(counts.values()) == {BATCH}
        assert len(counts) - 1 - len(acknowledged) <= round_ + 1  # at most one batch of each round is there unheard
    after = open_index(place)
    assert after.add(vectors("after")) == BATCH  # nothing is locked, nothing in the way
    assert contents(place)["after"] == BATCH


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL and the fork server are of Unix")
def test_an_index_whose_making_was_killed_can_be_made_again(tmp_path):
    rng = random.Random(3)
    for round_ in range(6):
        path = tmp_path / str(round_)
        receiver, sender = CHILDREN.Pipe(duplex=False)
        child = CHILDREN.Process(target=make_slowly, args=(path, sender))
        child.start()
        sender.close()
        assert receiver.recv() == "begun"
        time.sleep(rng.uniform(0, 0.06))
        os.kill(child.pid, signal.SIGKILL)
        child.join(30)
        with suppress(LimnerError):  # refused: there is one, and it is whole
            index(path, vectors("made", 2000), similarity="dot")
        assert contents(path) == {"made": 2000}


def make_slowly(path, pipe) -> None:
    embeddings = vectors("made", 2000)
    pipe.send("begun")
    index(path, embeddings, similarity="dot")
    time.sleep(60)


@pytest.mark.skipif(sys.platform == "win32", reason="the fork server is of Unix")
def test_processes_that_add_at_once_lose_nothing_while_others_read(place):
    pipes, children = [], []
    for number in range(3):
        receiver, sender = CHILDREN.Pipe(duplex=False)
        children.append(CHILDREN.Process(target=keep_adding, args=(place, f"p{number}", sender, 6)))
        pipes.append(receiver)
        children[-1].start()
        sender.close()
    while any(child.is_alive() for child in children):
        assert set(contents(place).values()) == {BATCH}  # a reader sees whole batches at any time
    assert [child.exitcode for child in children] == [0, 0, 0]
    assert contents(place) == {"first": BATCH} | {f"p{n}.{b}": BATCH for n in range(3) for b in range(6)}


def add_once(path, pipe) -> None:
    try:
        pipe.send(open_index(path).add(vectors("same")))
    except LimnerError as error:
        pipe.send(str(error))


@pytest.mark.skipif(sys.platform == "win32", reason="the fork server is of Unix")
def test_of_processes_that_add_the_same_ids_at_once_one_is_taken(place):
    receiver, sender = CHILDREN.Pipe(duplex=False)
    children = [CHILDREN.Process(target=add_once, args=(place, sender)) for _ in range(3)]
    for child in children:
        child.start()
    answers = [receiver.recv() for _ in children]
    for child in children:
        child.join(30)
    assert answers.count(BATCH) == 1
    assert sum("in the index already" in str(answer) for answer in answers) == 2
    assert contents(place) == {"first": BATCH, "same": BATCH}


# --- changes ------------------------------------------------------------------------------------------------------


def test_existing_ids_are_refused_replaced_or_skipped(place):
    opened = open_index(place)
    mixed = Embeddings(["first-0", "new"], np.ones((2, DIM)))
    with pytest.raises(LimnerError, match=r"1 of 2 ids are in the index already \('first-0'\)"):
        opened.add(mixed)
    assert len(opened) == BATCH
    assert opened.add(mixed, existing="skip") == 1
    assert (len(opened), opened.ids[-1]) == (BATCH + 1, "new")
    assert opened.add(Embeddings(["first-0"], np.full((1, DIM), 9.0)), existing="replace") == 1
    assert len(opened) == BATCH + 1
    assert np.concatenate(list(opened.store.vectors()))[-1].tolist() == [9.0] * DIM
    with pytest.raises(LimnerError, match="unknown policy for existing ids 'overwrite'"):
        opened.add(mixed, existing="overwrite")


def test_deleting_takes_any_id_and_refuses_unknown_ones(place):
    opened = open_index(place)
    odd = ["it's", "a'; DROP", 'say "x"', "100%", "ü \N{DOG}", "a,b"]
    opened.add(Embeddings(odd, np.ones((len(odd), DIM))))
    with pytest.raises(LimnerError, match=r"1 of 2 ids are not in the index \('nobody'\)"):
        opened.delete(["it's", "nobody"])
    assert opened.holds(["it's", "nobody"]) == [True, False]
    assert opened.delete(odd[:5]) == 5
    assert set(opened.ids) == {"a,b"} | {f"first-{row}" for row in range(BATCH)}


def test_older_versions_stay_readable_and_unchanged(place):
    opened = open_index(place)
    before = opened.version
    opened.add(vectors("second"))
    opened.delete(["first-3"])
    opened.compact()
    old = open_index(place, version=before)
    assert contents(place) == {"first": BATCH - 1, "second": BATCH}
    assert (len(old), list(old.ids)) == (BATCH, list(vectors("first").ids))
    assert [v.rows for v in opened.versions()][:3] == [BATCH, 2 * BATCH, 2 * BATCH - 1]
    with pytest.raises(LimnerError, match=f"opened at version {before}: open the newest"):
        old.add(vectors("third"))
    with pytest.raises(LimnerError, match="unknown version '99' of "):
        open_index(place, version=99)


def test_the_order_of_the_store_survives_additions_and_compaction(place):
    opened = open_index(place)
    rng = np.random.default_rng(0)
    expected = list(vectors("first").ids)
    for number in range(12):
        added = vectors(f"b{number}", int(rng.integers(1, 40)))
        opened.add(added)
        expected += list(added.ids)
    gone = {expected[i] for i in rng.choice(len(expected), 20, replace=False)}
    opened.delete(gone)
    expected = [key for key in expected if key not in gone]
    assert list(opened.ids) == expected
    places = rng.permutation(len(expected))[:17]
    assert [row["id"] for row in opened.store.take(places)] == [expected[p] for p in places]
    opened.compact()
    assert list(opened.ids) == expected


def test_an_open_index_sees_other_changes_when_it_is_refreshed(place):
    reader, writer = open_index(place), open_index(place)
    writer.add(vectors("second"))
    assert len(reader) == BATCH
    reader.refresh()
    assert len(reader) == 2 * BATCH


# --- places -------------------------------------------------------------------------------------------------------


def test_addresses_are_passed_through(tmp_path):
    address = f"file://{tmp_path}/by-address"
    index(address, vectors("first"), similarity="dot")
    assert contents(address) == contents(tmp_path / "by-address") == {"first": BATCH}
    vector_index = index("memory://somewhere", vectors("first"))
    assert vector_index.add(vectors("second")) == BATCH
    assert len(vector_index) == 2 * BATCH


def test_bad_places_are_refused(tmp_path, place):
    with pytest.raises(LimnerError, match="no index at .*nowhere: make one"):
        open_index(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(LimnerError, match="no index at .*empty"):
        open_index(tmp_path / "empty")
    with pytest.raises(LimnerError, match="there is already an index at"):
        index(place, vectors("second"))
    (tmp_path / "file").write_text("x")
    with pytest.raises(LimnerError, match="is a file, but an index is a folder"):
        index(tmp_path / "file", vectors("first"))


def test_tables_of_others_and_of_other_formats_are_refused(tmp_path):
    import lancedb
    import pyarrow as pa

    lancedb.connect(tmp_path / "a").create_table("items", pa.table({"x": [1]}))
    with pytest.raises(LimnerError, match="that limner did not create"):
        open_index(tmp_path / "a")
    head = {"limner": json.dumps({"format": 99, "dim": 1})}
    lancedb.connect(tmp_path / "b").create_table("items", pa.table({"x": [1]}).replace_schema_metadata(head))
    with pytest.raises(LimnerError, match="an index of format 99; this limner reads format 1"):
        open_index(tmp_path / "b")


def test_a_damaged_store_is_told_in_one_line(place):
    for file in (place / "items.lance" / "data").iterdir():
        file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(LimnerError, match="the store at .* cannot do this") as caught:
        open_index(place).store.ids()
    assert "\n" not in str(caught.value)


def test_without_the_package_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "lancedb", None)
    with pytest.raises(MissingExtra, match=r"the index needs the package 'lancedb'.*limner\[store\]"):
        index(tmp_path / "i", vectors("first"))


def test_what_does_not_fit_is_refused(place):
    opened = open_index(place)
    with pytest.raises(LimnerError, match="vectors have 3 dimensions, the index 4"):
        opened.add(Embeddings(["x"], np.ones((1, 3))))
    with pytest.raises(LimnerError, match="text items for an index of items"):
        opened.add(Embeddings(["x"], np.ones((1, DIM))), Items(["x"], ["a text"], kind="text"))
    assert len(opened) == BATCH
