"""Four walks through the package: which files they touch and how often they cross from one file into another.

    python tools/walks.py                  # the table
    python tools/walks.py --json           # the same for machines, with the files of every walk in order
    python tools/walks.py --source DIR     # of another checkout: the folder that holds the package
    python tools/walks.py --before DIR     # a Markdown table: another checkout beside this one

1. caption: a table of captions becomes a collection, an evaluation, and a saved report.
2. answer: a key pressed on the page becomes an answer in the store, a merged relevance judgement, and mAP@R.
3. embedding: rows of an npy file become corrected scores and the ten best candidates.
4. training: two towers are trained, saved to a folder, opened again, and score the test images.

A file counts when one of its functions runs. A hop is a pair of files of which the first calls the second, counted once
however often it happens. Every walk runs twice and the second is counted, so that imports and compiling do not show.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "limner"
Walk = dict[str, Any]
"""What one walk met, as JSON: files in order, hops, and what they belong to at the root of the package."""


class Trace:
    """Files of the package in the order in which they are first entered, and the hops between them."""

    def __init__(self, package: Path) -> None:
        self.package = package
        self.files: dict[str, int] = {}
        self.hops: dict[tuple[str, str], int] = {}

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        """Called by the interpreter whenever a function is entered."""
        target = self._module(frame) if event == "call" else None
        if target is None:
            return
        self.files.setdefault(target, len(self.files))
        source = self._caller(frame)
        if source is not None and source != target:
            self.hops[source, target] = self.hops.get((source, target), 0) + 1

    def _module(self, frame: FrameType) -> str | None:
        """The file of a function; None outside the package, and for what runs on import."""
        path = Path(frame.f_code.co_filename)
        if frame.f_code.co_name == "<module>" or path.suffix != ".py" or not path.is_relative_to(self.package):
            return None
        return path.relative_to(self.package).as_posix()

    def _caller(self, frame: FrameType) -> str | None:
        """The nearest function of the package up the stack: what is between (numpy, a thread pool) is no stop."""
        up = frame.f_back
        while up is not None:
            if (caller := self._module(up)) is not None:
                return caller
            up = up.f_back
        return None


@contextmanager
def traced(trace: Trace) -> Iterator[None]:
    """Calls the trace in this thread and in those started meanwhile."""
    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _vectors(folder: Path, images: int, texts: int) -> None:
    """Embeddings of a model of one's own: noisy copies of one vector per image."""
    import numpy as np

    dice = np.random.default_rng(0)
    centre = dice.standard_normal((images, 16)).astype(np.float32)
    np.save(folder / "images.npy", centre)
    np.save(folder / "texts.npy", np.repeat(centre, texts // images, axis=0) + dice.standard_normal((texts, 16)) / 2)


def prepare(folder: Path) -> None:
    """What the walks start from: a folder of images with a table of captions, and embeddings."""
    import limner
    from limner.datasets import write

    world = limner.load("scenes", images=60)
    write(world.restrict(world.images.ids[:20]), folder / "photos")
    _vectors(folder, 20, 100)


def caption(folder: Path) -> None:
    """From captions.csv to a saved report."""
    import limner

    pairs = limner.load(str(folder / "photos" / "captions.csv"))
    images = limner.Embeddings.load(folder / "images.npy", ids=pairs.images.ids)
    texts = limner.Embeddings.load(folder / "texts.npy", ids=pairs.texts.ids)
    report = limner.evaluate(limner.Scores.from_embeddings(images, texts), pairs, measures="R@1 mAP@R")
    report.save(folder / "report.json")


def answer(folder: Path) -> None:
    """From a key press to mAP@R: the page's own request, the store, the merge, the measure."""
    import limner
    from limner.annotate.merge import by_majority, merge
    from limner.annotate.store.answers import answers

    pairs = limner.load(str(folder / "photos" / "captions.csv"))
    store, client = _page(folder, pairs)
    task = client.post("/api/task", json={}).json()
    item = task["items"][0]["id"] if "items" in task else task["task"]["items"][0]["id"]
    reply = client.post("/api/answers", json={"item": item, "key": f"walk-{item:08}", "grade": 4})
    reply.raise_for_status()
    with store:
        merged = merge(by_majority(answers(store)), pairs.judgements).judgements
    images = limner.Embeddings.load(folder / "images.npy", ids=pairs.images.ids)
    texts = limner.Embeddings.load(folder / "texts.npy", ids=pairs.texts.ids)
    limner.evaluate(limner.Scores.from_embeddings(images, texts), merged, measures="mAP@R")


def _page(folder: Path, pairs: object):  # type: ignore[no-untyped-def]
    """A store with a task, and a client of the page that serves it; made without being traced."""
    from starlette.testclient import TestClient

    from limner.annotate.store import open_store, tasks
    from limner.annotate.store.contents import add_collection
    from limner.web import make_app

    profile, path = sys.getprofile(), Path(tempfile.mkdtemp(dir=folder)) / "work.db"
    sys.setprofile(None)
    with open_store(path) as store:
        add_collection(store, pairs, spec=str(folder / "photos"))
        image, text = pairs.images.ids[0], pairs.texts.ids[7]  # type: ignore[attr-defined]
        pair = tasks.TaskPair
        tasks.add_tasks(store, [tasks.Draft((pair(image, text),))], replication=1)
    client = TestClient(make_app([pairs], store=path), base_url="http://localhost")
    client.get("/judge")  # signs the annotator in
    sys.setprofile(profile)
    return open_store(path), client


def embedding(folder: Path) -> None:
    """From an npy file to the ten best candidates, corrected for hubs."""
    import limner

    images, texts = (limner.Embeddings.load(folder / f"{side}.npy") for side in ("images", "texts"))
    limner.Scores.from_embeddings(images, texts).correct("csls").top(10)


def training(folder: Path) -> None:
    """A training run to its folder and back."""
    import limner

    world = limner.load("scenes", images=60)
    sizes = {"word_dim": 8, "hidden_dim": 8, "embedding_dim": 6}
    model = limner.train(world, "towers", device="cpu", epochs=1, batch_size=16, **sizes)
    model.save(folder / "model")
    _opened(folder / "model").scores(world.test).top(10)


def _opened(path: Path):  # type: ignore[no-untyped-def]
    """A saved model, by the way of each version."""
    import limner.systems as systems

    return systems.load(path)


WALKS: dict[str, Callable[[Path], None]] = {
    "caption": caption,
    "answer": answer,
    "embedding": embedding,
    "training": training,
}


def measured(name: str, source: Path) -> Walk:
    """One walk, in this process."""
    trace = Trace(source.resolve() / PACKAGE)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        prepare(folder)
        WALKS[name](folder)
        with traced(trace):
            WALKS[name](folder)
    return {
        "walk": name,
        "at the root": sorted({file.split("/")[0] for file in trace.files}),
        "files": list(trace.files),
        "hops": [f"{source} -> {target}" for source, target in trace.hops],
    }


def each(source: Path) -> Iterator[Walk]:
    """All walks, each in a process of its own."""
    for name in WALKS:
        command = [sys.executable, __file__, "--source", str(source), "--walk", name]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"the walk {name!r} failed:\n{done.stderr}")
        yield json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--source", type=Path, default=ROOT / "src", help="the folder that holds the package")
    parser.add_argument("--before", type=Path, help="the folder that holds an older package: print both as a table")
    parser.add_argument("--walk", choices=WALKS, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.walk:
        sys.path.insert(0, str(chosen.source.resolve()))
        print(json.dumps(measured(chosen.walk, chosen.source)))
        return
    walks = list(each(chosen.source))
    if chosen.json:
        print(json.dumps(walks, indent=2))
    elif chosen.before:
        print(compared(list(each(chosen.before)), walks))
    else:
        for walk in walks:
            counts = (f"{len(walk[name]):4} {name}" for name in ("files", "hops", "at the root"))
            print(f"{walk['walk']:12}{'  '.join(counts)}: {' '.join(walk['at the root'])}")


def compared(before: list[Walk], after: list[Walk]) -> str:
    """A Markdown table of the walks in two checkouts."""
    counted = ("files", "hops", "at the root")
    head = ["| walk | files | hops | modules and packages of the root |", "|---|---:|---:|---:|"]
    rows = (
        f"| {new['walk']} | " + " | ".join(f"{len(old[name])} → {len(new[name])}" for name in counted) + " |"
        for old, new in zip(before, after, strict=True)
    )
    return "\n".join([*head, *rows])


if __name__ == "__main__":
    main()
