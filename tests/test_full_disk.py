"""A full disk: every command that writes names the file, keeps the one before, and goes on once there is room."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
import websites
from killing import no_larger
from limner import Embeddings
from limner.annotate.store import open_store
from limner.annotate.store.answers import answers, submit
from limner.annotate.store.people import add_annotator
from limner.annotate.store.tasks import lease
from limner.cli import app
from limner.cli.shell import Status

WORLD = ("scenes", "-O", "images=60")


def run(*words):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert "Traceback" not in done.output
    return done


def contents(folder):
    """Every file but those of SQLite's, which are compared by what is in them."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and ".db" not in file.name and ".lock" not in file.name
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """What the commands read."""
    folder = tmp_path_factory.mktemp("given")
    world = limner.load("scenes", images=60)
    model = limner.train(world, "colours")
    model.save(folder / "m.npz")
    scores = model.scores(world.test)
    scores.top(20).save(folder / "a.run")
    limner.train(world).scores(world.test).top(20).save(folder / "b.run")
    np.save(folder / "s.npy", scores.matrix())
    limner.evaluate(scores, world.test).save(folder / "r.json")
    (folder / "texts.txt").write_text("\n".join(world.texts.values))
    assert run("annotate", "pool", folder / "w.db", *WORLD, "--model", folder / "m.npz", "--depth", "1").exit_code == 0
    assert run("annotate", "tasks", folder / "w.db").exit_code == 0
    with open_store(folder / "w.db") as store:
        annotator = add_annotator(store, "ada").id
        for item in lease(store, annotator).items:
            submit(store, annotator, item.id, key=f"k{item.id}", grade=4)
        yield folder  # the store stays open, so that reading it writes nothing


def commands(inputs, out):
    """Every command that writes a file: the words, and the file or folder it writes."""
    m, db = inputs / "m.npz", inputs / "w.db"
    return {
        "encode": (["encode", inputs / "texts.txt", "--model", m, "-o", out / "v.npy"], "v.npy"),
        "train": (["train", "colours", *WORLD, "-o", out / "m.npz"], "m.npz"),
        "train kcca": (["train", "kcca", *WORLD, "-o", out / "k", "-O", "fuse=false"], "k"),
        "index": (["index", out / "i", *WORLD, "--model", m], "i"),
        "evaluate": (["evaluate", *WORLD, "--model", m, "-o", out / "r.json"], "r.json"),
        "report": (["report", inputs / "r.json", "-o", out / "r.html"], "r.html"),
        "fuse": (["match", "fuse", inputs / "a.run", inputs / "b.run", "-o", out / "f.run"], "f.run"),
        "assign": (["match", "assign", inputs / "s.npy", "-o", out / "g.run"], "g.run"),
        "rerank": (
            [
                "match",
                "rerank",
                inputs / "a.run",
                *WORLD,
                "--scorer",
                "levenshtein",
                "--depth",
                "20",
                "-o",
                out / "c.run",
            ],
            "c.run",
        ),
        "explain": (["explain", "failures", *WORLD, "--model", m, "-o", out / "e.html"], "e.html"),
        "attack": (["explain", "attack", *WORLD, "-o", out / "a.csv"], "a.csv"),
        "merge": (["annotate", "merge", db, "-o", out / "better.qrels"], "better.qrels"),
        "merge eccv": (["annotate", "merge", db, "-o", out / "eccv"], "eccv"),
        "export": (["annotate", "export", db, out / "answers.csv"], "answers.csv"),
        "data": (["data", "convert", *WORLD, out / "world.csv"], "world.csv"),
        "data folder": (["data", "convert", *WORLD, out / "world"], "world"),
        "pool": (["annotate", "pool", out / "w.db", *WORLD, "--model", m, "--depth", "3"], "w.db"),
    }


OFTEN = ("encode", "index", "fuse", "merge eccv", "pool", "data folder")
NAMES = [pytest.param(n, marks=() if n in OFTEN else pytest.mark.long) for n in commands(Path(), Path())]


@pytest.mark.parametrize("name", NAMES)
def test_no_room_names_the_file_and_keeps_the_one_before(files, tmp_path, name):
    (tmp_path / "first").mkdir()
    assert run(*commands(files, tmp_path / "first")[name][0]).exit_code == 0  # what is compiled is compiled now
    words, target = commands(files, tmp_path)[name]
    repeated = [*words, "--replace"] if name == "index" else words
    with no_larger(600):  # smaller than anything that is written
        done = run(*words)
    assert done.exit_code == Status.INPUT, done.output
    assert str(tmp_path / target) in done.stderr.replace("\n", ""), done.stderr
    assert run(*words).exit_code == 0, "once there is room"
    before = contents(tmp_path)
    with no_larger(600):
        done = run(*repeated)
    if name == "data folder":
        assert "is not empty" in done.stderr
    elif name != "pool":  # where nothing new has to be written
        assert done.exit_code == Status.INPUT and str(tmp_path / target) in done.stderr.replace("\n", ""), done.stderr
    assert {name: content for name, content in contents(tmp_path).items() if name in before} == before
    assert not list(tmp_path.rglob("*.draft"))


def test_a_cache_without_room_names_its_part_and_keeps_the_others(files, tmp_path):
    (tmp_path / "few.txt").write_text("\n".join((files / "texts.txt").read_text().splitlines()[:5]))
    (tmp_path / "glove.txt").write_text("red " + "1 " * 200 + "\ndog " + "2 " * 200 + "\n")
    words = ["--model", "word-vectors", "-O", f"file={tmp_path / 'glove.txt'}", "--cache", tmp_path / "c", "--json"]
    assert run("encode", tmp_path / "few.txt", *words, "-o", tmp_path / "v.npz").exit_code == 0
    with no_larger(5000):
        done = run("encode", files / "texts.txt", *words, "-o", tmp_path / "w.npz")
    assert done.exit_code == Status.INPUT and "part-" in done.stderr and "is not written" in done.stderr
    summary = json.loads(run("encode", files / "texts.txt", *words, "-o", tmp_path / "w.npz").stdout)
    assert summary["from the cache"] >= 5


def test_a_checkpoint_without_room_names_itself_and_the_run_goes_on_later(tmp_path):
    pytest.importorskip("torch", reason="training needs torch")
    words = [
        "train",
        "towers",
        *WORLD,
        "-o",
        tmp_path / "m",
        "-O",
        f"checkpoint_dir={tmp_path / 'run'}",
        "-O",
        "epochs=2",
    ]
    words += ["-O", "tensorboard=false", "-O", "hidden_dim=8", "-O", "embedding_dim=8", "-O", "word_dim=8"]
    with no_larger(4096):
        done = run(*words)
    assert done.exit_code == Status.INPUT
    assert f"{tmp_path / 'run' / 'checkpoint.safetensors'} is not written" in done.stderr.replace("\n", "")
    assert not (tmp_path / "m").exists()
    assert run(*words).exit_code == 0


def test_an_answer_without_room_is_refused_and_the_others_stay(files, tmp_path):
    assert run("annotate", "pool", tmp_path / "w.db", *WORLD, "--model", files / "m.npz").exit_code == 0
    assert run("annotate", "tasks", tmp_path / "w.db").exit_code == 0
    acknowledged = []
    with open_store(tmp_path / "w.db") as store:
        annotator = add_annotator(store, "ada").id
        items = lease(store, annotator).items
        size = (tmp_path / "w.db-wal").stat().st_size + 30_000
        with no_larger(size), pytest.raises(limner.LimnerError, match=r"w.db is not written"):  # noqa: PT012
            for item in items:
                submit(store, annotator, item.id, key=f"k{item.id}", grade=4)
                acknowledged.append(item.id)
        assert 0 < len(acknowledged) < len(items), "the limit came too late or too early to test anything"
        left = [item for item in items if item.id not in acknowledged]
        for item in left:
            submit(store, annotator, item.id, key=f"k{item.id}", grade=4)
        assert sorted(answer.item for answer in answers(store)) == sorted(item.id for item in items)


def test_a_browser_is_told_to_keep_its_answer_and_sends_it_again(tmp_path):
    """The page keeps what it sent after 507, as after any status from 500 on; after 400 it would give it up."""
    client = websites.client(websites.filled(tmp_path / "a.db"))
    items = client.post("/api/task", json={}).json()["task"]["items"]
    sent = {"item": items[0]["id"], "key": "a-key-of-its-own", "grade": 4}
    with no_larger((tmp_path / "a.db-wal").stat().st_size):
        refused = client.post("/api/answers", json=sent)
    assert refused.status_code == 507 and "disk is full" in refused.json()["error"]
    assert str(tmp_path) not in refused.text
    assert client.post("/api/answers", json=sent).status_code == 200
    assert client.post("/api/answers", json=sent).json()["repeated"] is True


# --- a disk that is really full -------------------------------------------------------------------------------------

FILL = """
import os, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
os.chdir(sys.argv[1])
with open("filler", "wb", buffering=0) as filler:
    try:
        while True:
            filler.write(b"x" * 4096)
    except OSError:
        pass
from test_full_disk import full_disk
full_disk(Path(sys.argv[1]))
"""


def test_a_disk_that_is_really_full(files, tmp_path):
    """The same on a small file system of its own, where the system lets us mount one."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "fill.py").write_text(FILL)
    inputs = tmp_path / "given"
    inputs.mkdir()
    shutil.copytree(files / "m.npz", inputs / "m.npz")
    for name in ("a.run", "b.run"):
        (inputs / name).write_bytes((files / name).read_bytes())
    script = f"mount -t tmpfs -o size=4m limner {tmp_path / 'disk'} && cp -r {inputs} {tmp_path / 'disk'} && exec "
    script += f"{sys.executable} {tmp_path / 'fill.py'} {tmp_path / 'disk'} {Path(__file__).parent}"
    environment = os.environ | {"PYTHONPATH": str(Path(limner.__file__).parents[1]), "TMPDIR": str(tmp_path)}
    try:
        done = subprocess.run(
            ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script],
            capture_output=True, text=True, env=environment,
        )  # fmt: skip
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no file system of our own can be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stdout + done.stderr


def full_disk(disk):
    """On a disk without a byte left: what is there stays, and the file is named."""
    inputs, before = disk / "given", contents(disk / "given")
    for target in ("f.run", "f.json"):
        done = run("match", "fuse", inputs / "a.run", inputs / "b.run", "-o", disk / target)
        assert done.exit_code == Status.INPUT, done.output
        assert f"{disk / target} is not written (No space left on device)" in done.stderr.replace("\n", ""), done.stderr
    done = run("match", "fuse", inputs / "a.run", inputs / "b.run", "-o", inputs / "a.run")
    assert done.exit_code == Status.INPUT and contents(inputs) == before
    done = run("train", "colours", *WORLD, "-o", inputs / "m.npz")
    assert done.exit_code == Status.INPUT and "m.npz is not written" in done.stderr.replace("\n", "")
    done = run("index", disk / "i", *WORLD, "--model", inputs / "m.npz")
    assert done.exit_code == Status.INPUT and str(disk / "i") in done.stderr, done.output
    done = run("annotate", "pool", disk / "w.db", *WORLD, "--model", inputs / "m.npz")
    assert done.exit_code == Status.INPUT and str(disk / "w.db") in done.stderr.replace("\n", ""), done.output
    for ending in ("npy", "npz", "safetensors", "parquet"):
        with pytest.raises(limner.LimnerError, match=f"v.{ending} is not written"):
            Embeddings(range(90), np.ones((90, 90), dtype=np.float32)).save(disk / f"v.{ending}")
    assert contents(inputs) == before and not list(disk.rglob("*.draft"))
