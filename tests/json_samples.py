"""Small runs of the commands with --json: what their schemas are made from, and tested with.

Each row is the command and the words after it.
"""

from __future__ import annotations

import csv
import json
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from core_only import world
from limner.annotate.store import open_store
from limner.annotate.store.answers import submit
from limner.annotate.store.people import add_annotator
from limner.annotate.store.studies import add_answers, questions
from limner.annotate.store.tasks import lease
from limner.cli import app
from limner.cli.commands.list import KINDS
from limner.evaluation.results import Result

SMALL = ("scenes", "-O", "images=20")
SCENES = ("scenes", "-O", "images=40")
COMPLETE = ("--split", "all", "--judgements", "complete")
DOG = '{"mteb_model_meta": {"model_name": "m", "revision": "1"}, "default": {"test": {"q": {"a": 2, "b": 1}}}}'


def samples() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Commands and their arguments, in an order in which each finds the files that it reads."""
    yield from starting()
    yield from measuring()
    yield from understanding()
    yield from building()
    yield from labelling()


def starting() -> Iterator[tuple[str, tuple[str, ...]]]:
    """The demo, data sets and lists."""
    yield "demo", ("-O", "images=25", "-o", "demo")
    yield "data describe", SMALL
    yield "data describe", ("photos", "--split", "all")
    yield "data convert", (*SMALL, "table.csv")
    yield "data audit", SMALL
    yield "list", ()
    for kind in KINDS:
        yield "list", (kind,)
    for kind, name in (
        *(("measures", "R"), ("protocols", "eccv"), ("systems", "histograms"), ("systems", "towers")),
        *(("encoders", "clip"), ("corrections", "csls"), ("fusions", "borda"), ("scorers", "levenshtein")),
        *(("losses", "sum"), ("datasets", "scenes"), ("datasets", "flickr30k")),
    ):
        yield "list", (kind, name)


def measuring() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Evaluations and comparisons."""
    yield "evaluate", (*SMALL, "--scores", "S.npy", "-o", "a.json", "--name", "a")
    yield "evaluate", (*SMALL, "--images", "I.npy", "--texts", "T.npy", "-o", "b.json", "--name", "b")
    yield "evaluate", (*SCENES, "--model", "histograms", "--measures", "R@1 MedR rsum")
    yield "evaluate", (*SCENES, "--model", "histograms", "--model", "colours", "--measures", "R@1")
    yield "evaluate", ("q.json", "--run", "r.json", "--measures", "R@1 MAP", "--missing", "never")
    yield "evaluate", (*SMALL, "--scores", "S.npy", "-o", "c.json", "--name", "c")
    yield "evaluate", (*SMALL, "--scores", "S.npy", "--by", "meaning", "--measures", "R@1")
    yield "evaluate", (*SMALL, "--scores", "S.npy", "--by", "background", "--measures", "R@1")
    yield "evaluate", ("languages:scenes", *SMALL[1:], "-O", "field=meaning", "--scores", "S.npy")
    yield "evaluate", ("composed:scenes", "-O", "queries=20", "-O", "train_on=photos", "--model", "histograms")
    for query in ("0", "each"):
        yield "evaluate", ("text-only:scenes", "-O", f"query={query}", "--model", "word-vectors(file=words.txt)")
    yield "evaluate", ("captions:scenes", *SMALL[1:], "--run", "captions.json", "--measures", "BLEU-4 CIDEr-D")
    yield "evaluate", ("captions:scenes", *SMALL[1:], "--run", "a=captions.json", "--run", "b=captions.json")
    yield "evaluate", ("caption-metrics:rated.csv", "--measures", "BLEU-4 CIDEr-D")
    yield "compare", ("a.json", "b.json")
    yield "compare", ("a.json", "b.json", "c.json", "--show", "agreement")
    yield "compare", ("a.json", "b.json", "--show", "board")
    yield "compare", ("a.json", "b.json", "--show", "ranks")
    yield "compare", ("a.json", "b.json", "--show", "systems")
    yield "compare", ("placed.json", "--show", "published")
    yield "report", ("a.json", "-o", "a.html")
    yield "report", ("a.json", "b.json", "-o", "rows.tex")
    yield "report", ("a.json", "-o", "README.md")


def understanding() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Explanations."""
    yield "explain failures", (*SCENES, "--model", "histograms")
    yield "explain slices", ("a.json", *SMALL, "--by", "length", "-O", "min_size=3")
    yield "explain probe", ("scenes", "-O", "cases=20", "-O", "train_on=photos", "--model", "histograms")
    yield "explain probe", ("scenes", "-O", "cases=20")
    yield "explain attack", (*SCENES, "--model", "histograms")
    yield "explain attack", (*SCENES, "-o", "edits.csv")
    yield "explain gap", ("--images", "I.npy", "--texts", "T.npy")
    yield "explain gap", (*SCENES, "--model", "histograms")
    yield "explain uncertainty", (*SCENES, "--model", "pcme", "--split", "all")
    yield "explain map", (*SCENES, "--model", "histograms", "-o", "map.html")


def building() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Models, vectors, indexes and pages."""
    yield "train", ("histograms", *SCENES, "-o", "model.npz")
    yield "encode", (*SMALL, "--side", "images", "--model", "histograms", "-o", "images.npz")
    yield "match fuse", ("a.run", "b.run", "-o", "fused.run")
    yield "match assign", ("S.npy", "-o", "assigned.csv")
    yield (
        "match rerank",
        ("a.run", *SMALL, "--split", "all", "--scorer", "levenshtein", "--depth", "1", "-o", "reranked.run"),
    )
    yield "index", ("i.index", *SCENES, "--model", "colours")
    yield "index", ("i.index", "--calibrate", "scenes", "--model", "colours")
    yield "index", ("i.index", "--correct", "csls", "-O", "bank=texts.txt", "--model", "colours")
    yield "index", ("i.index", "--compact")
    yield "index", ("i.index",)
    yield "search", ("i.index", "a green field", "-k", "3")
    yield "search", ("i.index", "a green field", "-k", "3", "--by", "hybrid")
    yield "search", ("shots", "a green field", "--model", "model.npz")
    yield "index", ("v.index", *SMALL, "--embeddings", "I.npy")
    yield "search", ("v.index", "--queries", "T.npy", "-k", "2")
    yield "serve", (*SMALL, "--port", "0", "--store", "page.db")


def labelling() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Annotation, from the pool to labels."""
    yield "annotate pool", ("work.db", *SCENES, "--model", "colours", "--model", "histograms", "--depth", "2")
    yield "annotate tasks", ("work.db",)
    yield "annotate people assign", ("work.db", "ada", "--tasks", "1")
    yield "annotate export", ("work.db", "sheet.csv", "--unanswered")
    yield "annotate import", ("work.db", "filled.csv")
    yield "annotate status", ("work.db",)
    yield "annotate estimate", ("work.db",)
    yield "annotate merge", ("work.db", "-o", "labels.qrels")
    yield "annotate pool", ("work.db", *SCENES, "--model", "colours", "--model", "histograms", "--new-pairs", "5")
    yield "annotate people list", ("work.db",)
    yield "annotate people review", ("work.db",)
    yield "annotate people review", ("work.db", "--exclude-below", "0.9", "--exclude", "annotator=ann", "--reason", "x")
    yield "annotate serve", ("work.db", "--port", "0")
    yield "annotate study list", ("work.db",)
    yield "annotate study bias", ("work.db",)
    yield "annotate study tables", ("work.db",)
    yield from planned()
    yield "annotate study scale", ("scale.db", "experts")
    yield "annotate study form", ()
    yield "annotate study form", ("failures",)
    yield "annotate study add", ("preference.db", "preference", *SCENES, *COMPLETE, "--limit", "3", "--people", "2")
    yield (
        "annotate study add",
        ("failures.db", "failures", *SCENES, "--model", "colours", "-O", "keywords=0", "--people", "2"),
    )
    yield "annotate study add", ("own.db", "own.toml", *SCENES, "--items", "items.csv", "--people", "2")
    for study, store in STUDIES.items():
        yield "annotate study export", (store, study, "-o", "answers.csv")
        yield "annotate study import", (store, study, "answers.csv")
        yield "annotate study results", (store, study)
        yield "annotate study list", (store,)


def planned() -> Iterator[tuple[str, tuple[str, ...]]]:
    """A sample of pairs, its judges, and estimates from its answers."""
    systems = ("--model", "colours", "--model", "histograms")
    yield "annotate plan", ("plan.db", *SCENES, *systems, "--budget", "60")
    yield "annotate judge", ("plan.db", "--judge", "captions", "--limit", "5")
    yield "annotate estimate", ("plan.db",)
    yield "annotate judge", ("plan.db", "--judge", "captions")
    yield "annotate status", ("plan.db",)
    yield "annotate pool", ("plan.db", *SCENES, *systems, "--new-pairs", "5", "-O", "strategy=narrow")
    yield "annotate merge", ("plan.db", "-o", "planned.qrels")
    yield "annotate plan", ("judged.db", *SCENES, *systems, "--budget", "60", "--judge", "captions")
    yield "annotate estimate", ("judged.db",)
    for store in ("plan.db", "judged.db"):
        yield "evaluate", (*SCENES, "--model", "colours", "--estimate", store)


STUDIES = {"preference": "preference.db", "failures": "failures.db", "own": "own.db"}
OWN_FORM = """
question = "Is it sharp?"
shown = [{ name = "photo", kind = "image" }]

[[parts]]
name = "sharp"
kind = "one"
label = "Is it sharp?"
options = [{ name = "yes", label = "Yes" }, { name = "no", label = "No" }]

[[parts]]
name = "beauty"
kind = "number"
low = 1
high = 5

[[parts]]
name = "remark"
kind = "text"
"""


def outputs(folder: Path) -> list[tuple[str, dict[str, object]]]:
    """What every command prints, run in a folder with the files of a small world."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("LIMNER_CACHE", str(folder / "cache"))
        world()
        _further_files()
        return [(command, _printed(command, words)) for command, words in samples()]


def _further_files() -> None:
    Path("q.json").write_text('{"q": {"a": 1, "b": 0}}')
    Path("r.json").write_text(DOG)
    collection = limner.load("scenes", images=20)
    first = [{"image_id": image, "caption": "a red circle"} for image in collection.images.ids]
    shutil.copytree("photos", "shots", ignore=shutil.ignore_patterns("*.csv"))
    Path("captions.json").write_text(json.dumps(first))
    with Path("rated.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("image", "caption", "references", "rating"))
        rows.writerows(
            (n, text, " ".join(reversed(text.split())), n % 4) for n, text in enumerate(collection.texts.values[:8])
        )
    mapr = Result("eccv", "i2t", limner.Measure.parse("mAP@R"), limner.Ids("ab", what="query"), np.full(2, 0.4))
    limner.Report("placed", "coco", (mapr,)).save("placed.json")
    Path("own.toml").write_text(OWN_FORM)
    Path("items.csv").write_text("photo\n0\n1\n")
    limner.train(limner.load("scenes", images=40), "pcme", epochs=1, embedding_dim=8).save("pcme")


def _printed(command: str, words: tuple[str, ...]) -> dict[str, object]:
    BEFORE.get(command, lambda _: None)(words)
    if command.endswith("serve"):
        return _address(command, words)
    done = CliRunner().invoke(app, [*command.split(), *words, "--json"])
    if done.exit_code:
        raise AssertionError(f"limner {command} {' '.join(words)}: {done.output}")
    values: dict[str, object] = json.loads(done.stdout)
    return values


def _fill_sheet(words: tuple[str, ...]) -> None:
    """A grade for every second pair of the sheet."""
    head, *rows = Path("sheet.csv").read_text(encoding="utf-8-sig").splitlines()
    filled = [row.replace(",,,,", f",{1 + number % 4},,,ann") for number, row in enumerate(rows[::2])]
    Path("filled.csv").write_text("\n".join([head, *filled]) + "\n")


def _register(words: tuple[str, ...]) -> None:
    with open_store(words[0]) as store:
        add_annotator(store, "ada", existing=True)


def _answer_tasks(words: tuple[str, ...]) -> None:
    """One person answers every task by the truth."""
    true = limner.load("scenes", images=40).judged("complete", "i2t")
    with open_store(words[0]) as store:
        ada = add_annotator(store, "ada", existing=True).id
        while (task := lease(store, ada)) is not None:
            for item in task.items:
                grade = 4 if item.caption in true.relevant_to(item.image) else 1
                submit(store, ada, item.id, key=uuid.uuid4().hex, grade=grade, milliseconds=900)


def _answer_study(words: tuple[str, ...]) -> None:
    """Two people answer every question of a study in the same way."""
    answers = {
        "preference": {"choice": "left"},
        "failures": {"classes": ["alternative"], "rating": 3},
        "own": {"sharp": "yes", "beauty": 4, "remark": "fine"},
    }
    path, study, *_ = words
    with open_store(path) as store:
        people = [add_annotator(store, name, existing=True).id for name in ("ann", "bob")]
        add_answers(store, study, [(q.id, who, answers[study], 900) for who in people for q in questions(store, study)])


BEFORE: dict[str, Callable[[tuple[str, ...]], None]] = {
    "annotate estimate": _answer_tasks,
    "annotate import": _fill_sheet,
    "annotate people assign": _register,
    "annotate study export": _answer_study,
}
"""What has to be there before a command runs, besides what earlier commands wrote."""


def _address(command: str, words: tuple[str, ...]) -> dict[str, object]:
    """What a server prints when it has started; it is then stopped."""
    program = [sys.executable, "-m", "limner", *command.split(), *words, "--json"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        printed = ""
        for line in server.stdout:
            printed += line
            if line.startswith("}"):
                break
        server.send_signal(signal.SIGINT)
    values: dict[str, object] = json.loads(printed)
    return values
