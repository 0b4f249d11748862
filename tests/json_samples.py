"""Small runs of the commands with --json: what their schemas are made from, and tested with.

Each row is the command, the words after it, and whether it only writes what later rows read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from typer.testing import CliRunner

from core_only import world
from limner.cli import app

SMALL = ("scenes", "-O", "images=20")
SCENES = ("scenes", "-O", "images=40")
DOG = '{"mteb_model_meta": {"model_name": "m", "revision": "1"}, "default": {"test": {"q": {"a": 2, "b": 1}}}}'


def samples() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Commands and their arguments, in an order in which each finds the files that it reads."""
    yield from starting()
    yield from measuring()
    yield from understanding()
    yield from building()
    yield from labelling()


def starting() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Data sets and lists."""
    yield "data describe", SMALL
    yield "data describe", ("photos", "--split", "all")
    yield "data convert", (*SMALL, "table.csv")
    yield "data audit", SMALL
    for kind in (
        "measures",
        "protocols",
        "systems",
        "encoders",
        "corrections",
        "fusions",
        "scorers",
        "losses",
        "datasets",
    ):
        yield "list", (kind,)
    yield "list", ("systems", "histograms")
    yield "list", ("measures", "R")


def measuring() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Evaluations and comparisons."""
    yield "evaluate", (*SMALL, "--scores", "S.npy", "-o", "a.json", "--name", "a")
    yield "evaluate", (*SMALL, "--images", "I.npy", "--texts", "T.npy", "-o", "b.json", "--name", "b")
    yield "evaluate", (*SCENES, "--model", "histograms", "--measures", "R@1 MedR rsum")
    yield "evaluate", (*SCENES, "--model", "histograms", "--model", "colours", "--measures", "R@1")
    yield "evaluate", ("q.json", "--run", "r.json", "--measures", "R@1 MAP", "--missing", "never")
    yield "evaluate", (*SMALL, "--scores", "S.npy", "-o", "c.json", "--name", "c")
    yield "compare", ("a.json", "b.json")
    yield "compare", ("a.json", "b.json", "c.json", "--show", "agreement")
    yield "compare", ("a.json", "b.json", "--show", "board")
    yield "compare", ("a.json", "b.json", "--show", "ranks")
    yield "compare", ("a.json", "b.json", "--show", "systems")
    yield "report", ("a.json", "-o", "a.html")
    yield "report", ("a.json", "b.json", "-o", "rows.tex")


def understanding() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Explanations."""
    yield "explain failures", (*SCENES, "--model", "histograms")
    yield "explain slices", ("a.json", *SMALL, "--by", "length", "-O", "min_size=3")
    yield "explain gap", ("--images", "I.npy", "--texts", "T.npy")
    yield "explain map", (*SCENES, "--model", "histograms", "-o", "map.html")


def building() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Models, vectors and indexes."""
    yield "train", ("histograms", *SCENES, "-o", "model.npz")
    yield "encode", (*SMALL, "--side", "images", "--model", "histograms", "-o", "images.npz")
    yield "match fuse", ("a.run", "b.run", "-o", "fused.run")
    yield "match assign", ("S.npy", "-o", "assigned.csv")
    yield "index", ("i.index", *SCENES, "--model", "colours")
    yield "search", ("i.index", "a green field", "-k", "3")
    yield "search", ("i.index", "a green field", "-k", "3", "--by", "hybrid")


def labelling() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Annotation, from the pool to labels."""
    yield "annotate pool", ("work.db", *SCENES, "--model", "colours", "--depth", "2")
    yield "annotate tasks", ("work.db",)
    yield "annotate export", ("work.db", "sheet.csv", "--unanswered")
    yield "annotate import", ("work.db", "filled.csv")
    yield "annotate status", ("work.db",)
    yield "annotate estimate", ("work.db",)
    yield "annotate merge", ("work.db", "-o", "labels.qrels")
    yield "annotate people list", ("work.db",)
    yield "annotate study list", ("work.db",)
    yield "annotate plan", ("plan.db", *SCENES, "--model", "colours", "--budget", "30")
    yield "annotate status", ("plan.db",)


def outputs(folder: Path) -> list[tuple[str, dict[str, object]]]:
    """What every command prints, run in a folder with the files of a small world."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        world()
        Path("q.json").write_text('{"q": {"a": 1, "b": 0}}')
        Path("r.json").write_text(DOG)
        return [(command, _printed(command, words)) for command, words in samples()]
    finally:
        os.chdir(before)


def _printed(command: str, words: tuple[str, ...]) -> dict[str, object]:
    if command == "annotate import":  # a grade for every second pair of the sheet
        head, *rows = Path("sheet.csv").read_text(encoding="utf-8-sig").splitlines()
        filled = [row.replace(",,,,", f",{1 + number % 4},,,ann") for number, row in enumerate(rows[::2])]
        Path("filled.csv").write_text("\n".join([head, *filled]) + "\n")
    done = CliRunner().invoke(app, [*command.split(), *words, "--json"])
    if done.exit_code:
        raise AssertionError(f"limner {command} {' '.join(words)}: {done.output}")
    values: dict[str, object] = json.loads(done.stdout)
    return values
