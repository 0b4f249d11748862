"""Towers trained on Flickr8k many at a time: what `tower_losses.py` and `noisy_pairs.py` share.

One job is one model; jobs run in processes of their own, several at once on one GPU or on the cores of the CPU. With a
`kept` folder the result of every job is written there, and what is there is not trained again. After the deadline no
further job starts, so that a run ends inside the time that a machine is lent for.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from claims import log, result_file
from limner import Collection, Embeddings, Hubs, Scores, evaluate, load, train
from limner.evaluation.tuning import tune

SMALLEST = {
    "word_dim": 64,
    "hidden_dim": 128,
    "embedding_dim": 128,
    "epochs": 3,
    "lr_decay_every": 3,
    "learning_rate": 0.002,
    "dropout": 0.0,
}
QUICK_IMAGES = 100
DIRECTIONS = {"i2t": "image → text", "t2i": "text → image"}
MEASURES = ("R@1", "R@5", "R@10")
SUM_RATE = 0.001
"""Of the epochs with the sum loss before a warm start."""


@dataclass(frozen=True)
class Job:
    """One model to train; with `warm`, so many epochs of the sum loss come first.

    With `components`, image features are reduced to so many principal components of those of the training images.
    """

    label: str
    seed: int
    options: Mapping[str, Any]
    system: str = "towers"
    noise: float = 0.0
    images: int | None = None
    warm: int = 0
    components: int | None = None


@dataclass(frozen=True)
class Trained:
    """What came of it: for each way to rank the test pool, the share found per query, by direction and measure."""

    job: Job
    device: str
    seconds: float
    epoch: int
    dev: float
    history: tuple[float, ...]
    test: Mapping[str, Mapping[tuple[str, str], np.ndarray]]
    hubs: Mapping[str, float]

    def mean(self, correction: str, direction: str, measure: str) -> float:
        """In percent."""
        return 100 * float(self.test[correction][direction, measure].mean())

    def rsum(self, correction: str = "none") -> float:
        """Of the test pool."""
        return sum(self.mean(correction, d, m) for d in DIRECTIONS for m in MEASURES)

    @property
    def still_rising(self) -> float:
        """By how many percent the best dev rsum rose in the last fifth of the epochs."""
        before = max(self.history[: -max(len(self.history) // 5, 1)], default=0.0)
        return 100 * (max(self.history) - min(before, max(self.history))) / max(self.history)


@dataclass(frozen=True)
class Task:
    """A job with what a process needs to do it."""

    job: Job
    folder: Path
    every_way: bool
    changed: Callable[[Collection, Job], Collection] | None
    kept: Path | None
    deadline: float | None


@cache
def world(folder: Path) -> tuple[Collection, Embeddings]:
    """Flickr8k and the features of its images."""
    pairs = load(f"flickr8k:{folder}", check_images=False)
    names = (folder / "features" / "image_names.txt").read_text().split()
    stored = np.load(folder / "features" / "efficientnet_lite0_pool1280_fp16.npy").astype(np.float32)
    return pairs, Embeddings(names, stored)


@cache
def weaker(folder: Path, components: int) -> Embeddings:
    """The features projected onto the first principal components of those of the training images."""
    pairs, features = world(folder)
    learned = np.asarray(features.subset(pairs.train.images.ids))
    _, axes = np.linalg.eigh(np.cov(learned, rowvar=False))
    centred = np.asarray(features) - learned.mean(axis=0)
    return Embeddings(features.ids, centred @ axes[:, -components:].astype(np.float32))


def query_values(scores: Scores, part: Collection) -> dict[tuple[str, str], np.ndarray]:
    """Whether each query found what belongs to it, by direction and measure."""
    report = evaluate(scores, part, measures=MEASURES)
    return {(d, m): report.find(m, direction=d, view="pairs").values for d in DIRECTIONS for m in MEASURES}


def hub_shares(scores: Scores) -> dict[str, float]:
    """The paper's Table 5, text to image, in percent: one item for each pair of text and image.

    Every image is an item as often as it has texts, and only one of these equal items is taken to be the nearest: with
    five texts each, 80% of the items are nearest to no query by construction. `among_nearest` leaves these out.
    """
    hubs = Hubs.of(scores.T.top(1), k=1)
    copies = len(scores.candidates) // len(scores.queries)
    counts = np.concatenate([hubs.counts, np.zeros((copies - 1) * len(hubs.counts), dtype=np.int64)])
    shares = Hubs(hubs.candidates, counts, 1).shares()
    return {name: 100 * share for name, share in shares.items()} | {"largest": float(hubs.largest)}


def among_nearest(shares: Mapping[str, float]) -> dict[str, float]:
    """Shares in percent of the items that are nearest to some query: copies of images do not count."""
    return {name: 100 * share / (100 - shares["0"]) for name, share in shares.items() if name not in ("0", "largest")}


def ways(model: Any, pairs: Collection, *, tuned: bool) -> Iterator[tuple[str, Scores]]:
    """The ways to rank that the paper compares, and inverted softmax with a temperature chosen on the dev images."""
    scores = model.scores(pairs.test)
    yield "none", scores
    yield "inverted softmax (β = 30)", scores.correct("inverted_softmax", beta=30)
    yield "CSLS (k = 10)", scores.correct("csls", k=10)
    if tuned:
        options = tune("inverted_softmax", model.scores(pairs.dev), pairs.dev)
        yield "inverted softmax (β tuned on dev)", scores.correct("inverted_softmax", **options)


def read(path: Path) -> Trained:
    """What was kept of a model."""
    with path.open("rb") as file:
        return pickle.load(file)  # type: ignore[no-any-return]


def trained(task: Task) -> Trained | None:
    """Trains one model, in a process of its own, and ranks the test pool with it; None after the deadline."""
    import torch

    job, result_file = task.job, task.kept
    if (
        result_file is not None
        and result_file.is_file()
        and (task.every_way <= (len((saved_run := read(result_file)).test) > 1))
    ):
        return saved_run
    if task.deadline is not None and time.time() > task.deadline:
        return None
    torch.set_num_threads(1)
    pairs, _ = world(task.folder)
    began = time.perf_counter()
    model = model_of(task)
    seconds = time.perf_counter() - began
    first = model.scores(pairs.test)
    chosen = ways(model, pairs, tuned=str(job.options["device"]) != "cpu") if task.every_way else [("none", first)]
    test = {correction: query_values(scores, pairs.test) for correction, scores in chosen}
    about: Any = model.trained
    device = torch.cuda.get_device_name() if str(job.options["device"]).startswith("cuda") else "the CPU"
    history = tuple(float(row["rsum"]) for row in about["history"])
    result = Trained(
        job, device, seconds, about["best_epoch"], about["metrics"]["rsum"], history, test, hub_shares(first)
    )
    log(f"{job.label}, seed {job.seed}, noise {job.noise:.0%}: {seconds:.0f} s, dev rsum {result.dev:.1f}")
    if result_file is not None:
        result_file.write_bytes(pickle.dumps(result))
    return result


def model_of(task: Task) -> Any:
    """The trained model of a job."""
    job = task.job
    pairs, features = world(task.folder)
    learned = pairs.train if job.images is None else pairs.train.restrict(pairs.train.images.ids[: job.images])
    learned = learned if task.changed is None else task.changed(learned, job)
    features = features if job.components is None else weaker(task.folder, job.components)
    training_options: dict[str, Any] = {"dev": pairs.dev, "features": features, "seed": job.seed, **job.options}
    if job.warm:
        first = {
            **training_options,
            "loss": "sum",
            "epochs": job.warm,
            "learning_rate": SUM_RATE,
            "lr_decay_every": job.warm,
        }
        training_options["init_from"] = train(learned, job.system, **first)
    return train(learned, job.system, **training_options)


def prepare(folder: Path) -> None:
    """Reads the data, and compiles what an evaluation needs: processes that part from this one have both."""
    pairs, _ = world(folder)
    one = np.random.default_rng(0).standard_normal((len(pairs.dev.images) + len(pairs.dev.texts), 4))
    cut = len(pairs.dev.images)
    query_values(Scores.from_embeddings(*_halves(pairs.dev, one, cut)), pairs.dev)


def all_trained(
    jobs: Sequence[Job],
    folder: Path,
    *,
    workers: int,
    kept: Path | None = None,
    every_way: bool = False,
    changed: Callable[[Collection, Job], Collection] | None = None,
    deadline: float | None = None,
) -> list[Trained]:
    """Trains many models, some at once. What is compiled and read is so before the processes part."""
    prepare(folder)
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
    tasks = [
        Task(job, folder, every_way, changed, None if kept is None else kept / name_of(job), deadline) for job in jobs
    ]
    if workers == 1:
        done = [trained(task) for task in tasks]
    else:
        with multiprocessing.get_context("fork").Pool(workers) as pool:
            done = list(pool.imap(trained, tasks, chunksize=1))
    missing = sum(each is None for each in done)
    if missing:
        log(f"{missing} of {len(jobs)} models were not trained: the time was over")
    return [each for each in done if each is not None]


def name_of(job: Job) -> str:
    """The same for the same model."""
    chosen = sorted(job.options.items())
    about: tuple[object, ...] = (job.label, job.seed, job.system, job.noise, job.images, job.warm, chosen)
    about += () if job.components is None else (job.components,)
    return hashlib.sha256(repr(about).encode()).hexdigest()[:16] + ".pickle"


def _halves(part: Collection, rows: np.ndarray, cut: int) -> tuple[Embeddings, Embeddings]:
    return Embeddings(part.images.ids, rows[:cut]), Embeddings(part.texts.ids, rows[cut:])


def spread(values: Iterable[float]) -> str:
    """Mean and half a 95% interval over seeds (Student's t)."""
    from scipy.stats import t

    value_array = np.array(list(values))
    if len(value_array) < 2:
        return f"{value_array.mean():.1f}"
    half = t.ppf(0.975, len(value_array) - 1) * value_array.std(ddof=1) / np.sqrt(len(value_array))
    return f"{value_array.mean():.1f} ± {half:.1f}"


def keep_tables(text: str, options: argparse.Namespace) -> None:
    """Writes tables beside the claims, for the page of the documentation."""
    result_file(Path(sys.argv[0]), options, ".md").write_text(text, encoding="utf-8")


def data_folder(options: argparse.Namespace) -> Path:
    """The folder of Flickr8k; also finds out which device there is, without waking it in this process."""
    if options.data is None:
        raise SystemExit("this proof needs --data DIR, the folder of real data sets (or LIMNER_DATA)")
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # a process that has woken the GPU cannot be forked
    import torch

    if options.device == "auto":
        options.device = "cuda" if torch.cuda.is_available() else "cpu"
    return options.data / "flickr8k"


def configure(parser: argparse.ArgumentParser, losses: Sequence[str] = ()) -> None:
    """Options of every proof that trains towers; `--losses` where they can be chosen."""
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    if losses:
        parser.add_argument("--losses", nargs="+", choices=list(losses), default=list(losses), help="which are trained")
    parser.add_argument("--seeds", type=int, default=3, help="how often each loss is trained")
    parser.add_argument("--workers", type=int, default=1, help="how many are trained at once")
    parser.add_argument("--kept", type=Path, help="folder in which the results of every model are kept and found")
