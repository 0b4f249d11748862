"""Kill loops: every long command is killed at random moments, and loses nothing that was there.

Half of the kills come at a random time, half before a random touch of the folder that the command writes in. After each
kill everything that was acknowledged is there, and the next run goes on from what the killed one left, or starts again.
The short form kills a few commands a few times; the long form (`pytest -m long`) all of them, 20 times each.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import limner
import serve as benchmark
from killing import Done, command
from limner import Embeddings, systems
from limner.annotate.pool import waiting
from limner.annotate.store import open_store
from limner.annotate.store.answers import submit
from limner.annotate.store.contents import counts
from limner.annotate.store.people import add_annotator
from limner.annotate.store.tasks import lease
from limner.encoders.cache import RowStore
from limner.search import open_index

WORLD = ("scenes", "-O", "images=60")
KILLS, FEW = 20, 2


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """What the commands read; none of them writes here."""
    folder = tmp_path_factory.mktemp("inputs")
    world = limner.load("scenes", images=60)
    for name in ("colours", "histograms"):
        model = limner.train(world, name)
        model.save(folder / f"{name}.npz")
        model.scores(world.test).top(60).save(folder / f"{name}.run")
    np.save(folder / "s.npy", model.scores(world.test).matrix())
    limner.evaluate(model.scores(world.test), world.test).save(folder / "r.json")
    (folder / "texts.txt").write_text("\n".join(f"{text} {n}" for n in range(8) for text in world.texts.values))
    _answered(folder / "answered.db", folder)
    return folder


def _answered(path, inputs):
    for words in (("pool", path, *WORLD, "--model", inputs / "colours.npz", "--depth", "2"), ("tasks", path)):
        assert command(["annotate", *words], folder=inputs).status == 0
    with open_store(path) as store:
        annotator = add_annotator(store, "ada").id
        while (task := lease(store, annotator)) is not None:
            for item in task.items:
                submit(store, annotator, item.id, key=f"k{item.id}", grade=4 if item.id % 3 else 1)


# --- what is killed, and what must hold ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Loop:
    """A command to kill.

    Args:
        words: The command line; GIVEN and OUT stand for the folder that is read and the one that is written.
        holds: Called after every kill with the folder, that of a run that was not killed, and what was found the last
            time; says what is there now, and fails where something is lost, mixed or half written.
        whole: Whether what `holds` found is all there is to do.
        before: Puts into the folder what an earlier run wrote there.
    """

    words: tuple[str, ...]
    holds: Callable[[Path, Path, Any], Any]
    whole: Callable[[Any], bool]
    before: Callable[[Path, Path], None] = lambda inputs, out: None

    def run(self, inputs: Path, out: Path, **moment: Any) -> Done:
        """Runs the command, and kills it at a moment."""
        words = [word.replace("GIVEN", str(inputs)).replace("OUT", str(out)) for word in self.words]
        return command(words, folder=out, **moment)


def one_file(*words, name):
    """A command that writes a file, or a folder, at once: it is the old one or the new one."""

    def holds(out, reference, last):
        content = _bytes(out / name)
        assert content in (OLD, _bytes(reference / name)), "neither the old nor the new one"
        return content != OLD

    return Loop(words, holds, bool, lambda inputs, out: _old(out / name))


OLD = {"": b"what an earlier run wrote"}


def _old(path):
    path.write_bytes(OLD[""])


def _bytes(path):
    """The contents of a file, or of every file of a folder."""
    if path.is_dir():
        return {str(file.relative_to(path)): _content(file) for file in sorted(path.rglob("*")) if file.is_file()}
    return {"": _content(path)} if path.exists() else None


def _content(file):
    """What a file says: a report keeps its lists of ids under numbers that change from run to run."""
    if file.name == "r.json" and file.read_bytes() != OLD[""]:
        return limner.Report.load(file).rows()
    return file.read_bytes()


def _folder(out, name):
    """A model that was there before."""
    shutil.rmtree(out / name, ignore_errors=True)
    limner.train(limner.load("scenes", images=30), "nearest", name="old").save(out / name)


def model_folder(kind, *settings):
    """Training that cannot be resumed: the model is the old one or the new one."""

    def holds(out, reference, last):
        model = systems.load(out / "m")
        assert model.name == "old" or model.fingerprint == systems.load(reference / "m").fingerprint
        return model.name != "old"

    words = ("train", kind, *WORLD, "-o", "OUT/m", *(word for each in settings for word in ("-O", each)))
    return Loop(words, holds, bool, lambda inputs, out: _folder(out, "m"))


def learned(kind, *settings):
    """Training in steps: a run that was killed goes on, and comes to the very weights of one that was not."""
    settings = (
        "checkpoint_dir=OUT/run",
        "checkpoint_every=1",
        "tensorboard=false",
        "epochs=2",
        "batch_size=32",
        *settings,
    )
    return model_folder(kind, *settings)


SMALL = ("hidden_dim=4", "embedding_dim=4", "word_dim=4")
HEADS = ("hidden_dim=8", "heads=2", "layers=1")


def encoded(out, reference, last):
    """Every part of the cache is whole, and none is lost."""
    state = [len(RowStore(out / "c", owner="slow 1", width=3))] if (out / "c").is_dir() else [0]
    assert state[0] >= (last or [0])[0]
    if (out / "v.npy").exists() and (out / "v.ids.txt").exists():
        assert (Embeddings.load(out / "v.npy").matrix == Embeddings.load(reference / "v.npy").matrix).all()
        state.append("written")
    return state


def indexed(out, reference, last):
    """The rows that are there are right, in order, and none is lost."""
    if not (out / "i" / "items.lance" / "_versions").is_dir():  # before the first commit
        assert last is None
        return None
    index = open_index(out / "i")
    reference_index = open_index(reference / "i")
    ids = list(index.ids)
    assert ids == list(reference_index.ids)[: len(ids)] and len(ids) >= (last or 0)
    rows = np.concatenate(list(index.store.vectors()))
    assert np.allclose(rows, np.concatenate(list(reference_index.store.vectors()))[: len(ids)], atol=1e-6)
    return len(ids)


def pooled(out, reference, last):
    """The whole pool or nothing of it."""
    if not (out / "w.db").exists():
        return 0
    with open_store(out / "w.db") as store, open_store(reference / "w.db") as reference_store:
        actual, expected = (counts(each) for each in (store, reference_store))
        assert (actual["proposals"], actual["pairs"]) in ((0, 0), (expected["proposals"], expected["pairs"]))
        assert not actual["pairs"] or set(waiting(store)) == set(waiting(reference_store))
        return actual["pairs"]


def tasked(out, reference, last):
    """All tasks or none."""
    with open_store(out / "w.db") as store, open_store(reference / "w.db") as reference_store:
        actual, expected = counts(store)["tasks"], counts(reference_store)["tasks"]
    assert actual in (0, expected)
    return actual


def reranked(out, reference, last):
    """Every kept score is whole and none is lost; the run is not there or whole."""
    state = [len(RowStore(out / "c", owner="pairs judge 1", width=1, dtype="float64"))] if (out / "c").is_dir() else [0]
    assert state[0] >= (last or [0])[0]
    if (out / "c.run").exists():
        assert (out / "c.run").read_bytes() == (reference / "c.run").read_bytes()
        state.append("written")
    return state


def _copied(inputs, out):
    for name in ("w.db", "w.db-wal", "w.db-shm"):
        (out / name).unlink(missing_ok=True)
    done = command(["annotate", "pool", out / "w.db", *WORLD, "--model", inputs / "colours.npz"], folder=out)
    assert done.status == 0, done.said


SYSTEM = ("--model", "GIVEN/colours.npz")
RUNS = ("GIVEN/colours.run", "GIVEN/histograms.run")
TEXTS, SLOW = "GIVEN/texts.txt", "killing:Slow"
JUDGE = ("--scorer", "killing:Judge", "--depth", "60")
LOOPS = {
    "encode": Loop(
        ("encode", TEXTS, "--model", SLOW, "--cache", "OUT/c", "-o", "OUT/v.npy"),
        encoded,
        lambda found: "written" in found,
    ),
    "index": Loop(("index", "OUT/i", *WORLD, "--model", "histograms", "--resume"), indexed, lambda found: found == 60),
    "index --resume": Loop(
        ("index", "OUT/i", "--items", TEXTS, "--model", SLOW, "--resume"), indexed, lambda found: found == 2400
    ),
    "train histograms": model_folder("histograms"),
    "train kcca": model_folder("kcca", "fuse=false"),
    "train nearest": model_folder("nearest"),
    "train towers": learned("towers", *SMALL),
    "train pvse": learned("pvse", *SMALL),
    "train pcme": learned("pcme", *SMALL),
    "train mcprop": learned("mcprop", *HEADS),
    "train crank": learned("crank", *HEADS),
    "annotate pool": Loop(
        ("annotate", "pool", "OUT/w.db", *WORLD, *SYSTEM, "--model", "GIVEN/histograms.npz"), pooled, bool
    ),
    "annotate tasks": Loop(("annotate", "tasks", "OUT/w.db"), tasked, bool, _copied),
    "annotate merge": one_file("annotate", "merge", "GIVEN/answered.db", "-o", "OUT/b.qrels", name="b.qrels"),
    "annotate export": one_file("annotate", "export", "GIVEN/answered.db", "OUT/a.csv", name="a.csv"),
    "evaluate": one_file("evaluate", *WORLD, *SYSTEM, "-o", "OUT/r.json", name="r.json"),
    "report": one_file("report", "GIVEN/r.json", "-o", "OUT/r.html", name="r.html"),
    "fuse": one_file("match", "fuse", *RUNS, "-o", "OUT/f.run", name="f.run"),
    "assign": one_file("match", "assign", "GIVEN/s.npy", "-o", "OUT/g.run", name="g.run"),
    "explain": one_file("explain", "failures", *WORLD, *SYSTEM, "-o", "OUT/e.html", name="e.html"),
    "attack": one_file("explain", "attack", *WORLD, "--model", "colours", "-o", "OUT/a.csv", name="a.csv"),
    "rerank": Loop(
        ("rerank", RUNS[0], *WORLD, *JUDGE, "--cache", "OUT/c", "-o", "OUT/c.run"),
        reranked,
        lambda found: "written" in found,
    ),
}
OFTEN = ("encode", "index", "train towers", "annotate pool", "evaluate")


def killed(loop, inputs, tmp_path, kills, seed=0):
    """Kills a command so many times, and lets it come to its end; returns how many runs it took."""
    draw, reference, out = random.Random(seed), tmp_path / "reference", tmp_path / "out"
    for folder in (reference, out):
        folder.mkdir()
        loop.before(inputs, folder)
    complete_run = loop.run(inputs, reference)
    assert complete_run.status == 0 and complete_run.touches > 0, complete_run.said
    last, runs, met = None, 0, 0
    while met < kills:
        moments = {"after": draw.uniform(0, complete_run.seconds)}, {"at": draw.randint(1, complete_run.touches)}
        done = loop.run(inputs, out, **draw.choice(moments))
        runs, met = runs + 1, met + (done.status == -9)
        assert done.status in (0, -9), f"run {runs}, after {met} kills: {done.said}"
        assert runs < 10 * kills + 20, "it always ends before it is killed"
        last = loop.holds(out, reference, last)
        assert done.status == -9 or loop.whole(last), f"run {runs} ended without its result: {done.said}"
        if loop.whole(last):
            last = None
            shutil.rmtree(out)
            out.mkdir()
            loop.before(inputs, out)
    done = loop.run(inputs, out)
    assert done.status == 0, done.said
    assert loop.whole(loop.holds(out, reference, last))
    assert not list(out.rglob("*.draft")), "what the killed runs left behind is gone"
    return runs


@pytest.mark.parametrize("name", OFTEN)
def test_a_few_kills(inputs, tmp_path, name):
    killed(LOOPS[name], inputs, tmp_path, FEW)


@pytest.mark.long
@pytest.mark.parametrize("name", LOOPS)
def test_twenty_kills(inputs, tmp_path, name):
    print(f"{name}: {KILLS} kills in {killed(LOOPS[name], inputs, tmp_path, KILLS, seed=1)} runs")


@pytest.mark.long
def test_twenty_kills_of_a_server(tmp_path):
    result = benchmark.storm(tmp_path, annotators=10, tasks=20, size=12, replication=2, kills=KILLS, images=50)
    assert result.again > 0 and result.acknowledged == 480
    assert (result.lost, result.doubled, result.over, result.errors) == (0, 0, 0, [])
