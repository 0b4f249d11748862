"""Seconds from Ctrl-C until a command has ended: each command is interrupted at several moments of its work.

Every command runs in a process group of its own, which gets the signal as from a terminal. Moments are seconds after
the first line of limner runs, which comes after the start of Python itself; a command that has ended by then is not
interrupted any more. It must end with status 130, and without a traceback. `--only WORD` runs the commands whose names
contain the word.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import limner
from claims import Claim, log, main

LIMNER = [sys.executable, "-m", "limner"]
MOMENTS = (0, 0.3, 1, 2, 4, 8, 16)
LATE = (30, 60)
"""Moments of commands that take minutes."""
LONGEST = 60.0
"""Seconds to wait for a process that does not hear."""


@dataclass(frozen=True)
class Case:
    """A command, in words, and its arguments; "NEW" stands for another name each time."""

    name: str
    arguments: tuple[str, ...]
    moments: tuple[float, ...] = MOMENTS


@dataclass(frozen=True)
class Ending:
    """How an interrupted process ended: when it was interrupted, and how long it took; or how it failed before."""

    moment: float
    seconds: float
    status: int | None
    said: str

    @property
    def clean(self) -> bool:
        """Whether it ended as it should: as interrupted, or by itself if its work was done."""
        return self.status in (0, 130) and "Traceback" not in self.said


def interrupted(case: Case, moment: float, folder: Path) -> Ending | None:
    """Starts a command and interrupts it after so many seconds; None if it has ended before."""
    words = [word.replace("NEW", f"new{moment:g}") for word in case.arguments]
    process = subprocess.Popen(
        [*LIMNER, *words], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    _wait_for_limner(process)
    try:
        process.wait(moment)
    except subprocess.TimeoutExpired:
        pass
    else:
        said = process.communicate()[1]
        return None if process.returncode == 0 else Ending(moment, 0.0, process.returncode, said)
    began = time.perf_counter()
    os.killpg(process.pid, signal.SIGINT)
    try:
        said = process.communicate(timeout=LONGEST)[1]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said = process.communicate()[1]
    return Ending(moment, time.perf_counter() - began, process.returncode, said)


def _wait_for_limner(process: subprocess.Popen[str]) -> None:
    """Waits until Python has started: the first thing that limner does is to start a thread that waits for Ctrl-C."""
    threads = Path(f"/proc/{process.pid}/task")
    if not threads.parent.exists():
        time.sleep(1)
    while process.poll() is None and threads.exists() and len(list(threads.iterdir())) < 2:
        time.sleep(0.005)


def made(folder: Path, quick: bool) -> None:
    """The files that the commands read."""
    rng = np.random.default_rng(0)
    images, width, stored = (1_000, 64, 20_000) if quick else (10_000, 256, 400_000)
    pictures = rng.standard_normal((images, width), dtype=np.float32)
    noise = rng.standard_normal((5 * images, width), dtype=np.float32)
    np.save(folder / "images.npy", pictures)
    np.save(folder / "texts.npy", np.repeat(pictures, 5, axis=0) + 3 * noise)
    np.save(folder / "queries.npy", noise[: 2 * images])
    np.save(folder / "stored.npy", rng.standard_normal((stored, width), dtype=np.float32))
    np.save(folder / "square.npy", rng.standard_normal((images // 2, images // 2), dtype=np.float32))
    (folder / "lines.txt").write_text("".join(f"two red dogs run on grass number {n}\n" for n in range(20 * images)))
    _commands(
        folder,
        ["train", "histograms", "scenes", "-O", "images=300", "-o", "model"],
        ["index", "small.index", "scenes", "-O", "images=300", "--system", "model"],
        ["index", "large.index", "--embeddings", "stored.npy", "--exact"],
        ["annotate", "pool", "pool.db", "scenes", "-O", "images=300", "--system", "histograms", "--system", "colours"],
        ["annotate", "plan", "answers.db", "scenes", "-O", "images=1000", "--system", "histograms", "--measure", "P@5",
         "--half-width", "0.1", "--budget", "4000"],
    )  # fmt: skip
    _answered(folder / "answers.db")
    _reports(folder, 2_000 if quick else 20_000)


def _commands(folder: Path, *given: list[str]) -> None:
    for arguments in given:
        log(f"making: limner {' '.join(arguments)}")
        done = subprocess.run([*LIMNER, *arguments], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"limner {' '.join(arguments)}:\n{done.stderr}")


def _answered(file: Path) -> None:
    """Answers every pair of a design."""
    from few_labels import _answer
    from limner.annotate import open_store

    _answer(open_store(file))


def _reports(folder: Path, queries: int) -> None:
    """Reports of several systems on the same queries, for what compares them."""
    rng = np.random.default_rng(1)
    images = rng.standard_normal((queries // 5, 32), dtype=np.float32)
    np.save(folder / "report-images.npy", images)
    for name, spread in (("a", 1.5), ("b", 1.6), ("c", 1.7), ("d", 1.8)):
        texts = np.repeat(images, 5, axis=0) + spread * rng.standard_normal((len(images) * 5, 32), dtype=np.float32)
        np.save(folder / "report-texts.npy", texts)
        _commands(folder, ["evaluate", "--per-image", "5", "--images", "report-images.npy", "--texts",
                           "report-texts.npy", "--name", name, "--save", f"{name}.json"])  # fmt: skip


def cases(folder: Path, data: Path | None) -> Iterator[Case]:
    """The commands that may take long."""
    world = ("scenes", "-O", "images=1000")
    vectors = ("--per-image", "5", "--images", "images.npy", "--texts", "texts.npy")
    reports = tuple(f"{name}.json" for name in "abcd")
    yield Case("demo", ("demo", "--out", "demo-NEW"))
    yield Case("train histograms", ("train", "histograms", "scenes", "-O", "images=2000", "-o", "trained-NEW"))
    yield Case("train kcca", ("train", "kcca", *world, "-o", "trained-NEW"))
    yield Case("train towers", ("train", "towers", *world, "-o", "trained-NEW"))
    yield Case("evaluate vectors", ("evaluate", *vectors))
    yield Case("evaluate vectors, csls", ("evaluate", *vectors, "--correct", "csls"))
    yield Case("evaluate, system trained now", ("evaluate", *world, "--system", "histograms"))
    yield Case("evaluate --estimate", ("evaluate", *world, "--system", "model", "--estimate", "answers.db"))
    yield Case("compare", ("compare", *reports, "--samples", "100000"))
    yield Case("board", ("board", *reports, "--samples", "100000"))
    yield Case("ranks", ("ranks", *reports))
    yield Case("report", ("report", "a.json", "-o", "page.html"))
    yield Case("explain", ("explain", *world, "--system", "histograms"))
    yield Case("attack", ("attack", *world, "--system", "histograms"))
    yield Case("gap", ("gap", "--images", "images.npy", "--texts", "texts.npy"))
    yield Case("map", ("map", *world, "--system", "histograms", "-o", "map.html"))
    yield Case("assign, dense", ("assign", "square.npy", "--method", "dense", "-o", "out.run"))
    yield Case("assign, sparse", ("assign", "square.npy", "--method", "sparse", "-o", "out.run"))
    yield Case("audit", ("audit", *world))
    yield Case("encode texts", ("encode", "lines.txt", "--encoder", "minilm", "-o", "out.npy"))
    yield Case("encode images", ("encode", *world[:1], "-L", "images=1000", "--side", "images", "--encoder",
                                 "efficientnet-lite", "-o", "out.npy"))  # fmt: skip
    yield Case("text-only", ("text-only", *world, "--encoder", "minilm"))
    yield Case("index, vectors", ("index", "NEW.index", "--embeddings", "stored.npy", "--exact"))
    yield Case("index, from a system", ("index", "other-NEW.index", *world, "--system", "histograms"))
    for kind in ("ivf_sq", "ivf_pq", "ivf_hnsw_sq", "ivf_rq", "ivf_flat"):
        yield Case(f"index --ann {kind}", ("index", "large.index", "--ann", kind))
    yield Case("index --compact", ("index", "large.index", "--compact"))
    yield Case("search", ("search", "large.index", "--queries", "queries.npy", "--json"))
    yield Case("annotate pool", ("annotate", "pool", "NEW.db", *world, "--system", "histograms", "--system", "colours"))
    yield Case("annotate plan", ("annotate", "plan", "plan-NEW.db", *world, "--system", "histograms"))
    yield Case("annotate judge", ("annotate", "judge", "answers.db", "--judge", "captions"))
    yield Case("annotate bias", ("annotate", "bias", "pool.db"))
    yield Case("serve", ("serve", *world, "--system", "histograms", "--store", "serve-NEW.db", "--port", "0"))
    if data is not None and (data / "flickr8k").is_dir():
        yield from real(folder, data / "flickr8k")


def real(folder: Path, flickr: Path) -> Iterator[Case]:
    """On 8,091 photographs, and CNN features of them."""
    names = (flickr / "features" / "image_names.txt").read_text().split()
    (matrix,) = (np.load(file) for file in (flickr / "features").glob("*.npy") if np.load(file).ndim == 2)
    limner.Embeddings(names, matrix.astype(np.float32)).save(folder / "cnn.npz")
    place = f"flickr8k:{flickr}"
    for kernel in ("linear", "chi2", "rbf"):
        features = ("-s", "features=cnn.npz", "-s", f"images={kernel}")
        yield Case(f"train kcca on CNN features, {kernel}", ("train", "kcca", place, *features, "-o", "trained-NEW"),
                   MOMENTS + LATE)  # fmt: skip
    yield Case("train kcca on photographs", ("train", "kcca", place, "-o", "trained-NEW"), MOMENTS + LATE)
    yield Case("audit of photographs", ("audit", place))
    yield Case("encode photographs", ("encode", place, "--side", "images", "--encoder", "efficientnet-lite",
                                      "-o", "out.npy"))  # fmt: skip


def run(options: argparse.Namespace) -> Iterator[Claim]:
    ended: list[Ending] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made(folder, options.quick)
        for case in cases(folder, options.data):
            if options.only not in case.name:
                continue
            found = _endings(case, folder, options.quick)
            ended += found
            if found:
                slowest = max(found, key=lambda each: each.seconds)
                note = f"interrupted at {len(found)} moments; the slowest after {slowest.moment:g} s of work"
                yield Claim(f"limner {case.name}, slowest end after Ctrl-C, seconds", slowest.seconds, goal="< 2",
                            note=note)  # fmt: skip
    wrong = sum(not each.clean for each in ended)
    yield Claim(f"ends with another status than 130 or a traceback, of {len(ended)}", wrong, goal="== 0")


def _endings(case: Case, folder: Path, quick: bool) -> list[Ending]:
    found: list[Ending] = []
    for moment in case.moments[: 4 if quick else None]:
        ending = interrupted(case, moment, folder)
        if ending is None:
            break
        found.append(ending)
        odd = "" if ending.clean else f", status {ending.status}: {ending.said[-300:]}"
        log(f"{case.name} at {moment:g} s: {ending.seconds:.2f} s{odd}")
    return found


if __name__ == "__main__":
    main(run, __doc__, configure=lambda parser: parser.add_argument("--only", default="", metavar="WORD"))
