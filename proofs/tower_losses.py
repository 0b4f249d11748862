"""Losses and corrections of Liu & Ye (2019) on Flickr8k: two towers trained with each loss over several seeds.

The 6,000 training images with five captions each, EfficientNet-Lite0 features and a GRU; the best epoch by rsum on the
1,000 dev images; tested on the 1,000 test images with all 5,000 captions as one pool. The paper's sizes (300-d words,
GRU 1024, joint space 1024, Adam 0.001, batch 128, margin 0.2), in 12 epochs with the rate divided by 10 every 5, where
the paper has 30 and 10 for five times the images; dropout 0.5 and words of at least 4 texts, which the kNN loss liked
best on the dev images. Then the towers of the kNN loss without a correction, with inverted softmax and with CSLS.

Needs `--data`. On a processor alone the towers are smaller and learn less long (128-d words, GRU and joint space 256, 5
epochs at 0.002, dropout 0.2, tried once on dev with the kNN loss): four minutes of one core for each. `--workers N`
trains N at once, which a GPU bears well; `--variants` adds a PVSE and a PCME. With `--kept FOLDER` the
results of every model are kept, and what is there is not trained again. The tables are written beside the claims, and
the page of the documentation shows them.
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

from claims import Claim, log, main, result_file
from limner import Collection, Embeddings, Scores, evaluate, load, train
from limner.evaluation.tuning import tune
from limner.stats import bootstrap

RIDGE = 48.3
"""Text to image R@10 of ridge regression from bags of words to the same features, on the same pool."""
LOSSES: Mapping[str, dict[str, Any]] = {
    "sum": {"loss": "sum"},
    "max": {"loss": "max"},
    "kNN (k = 3)": {"loss": "knn", "k": 3},
    "semi-hard": {"loss": "semi-hard"},
    "adaptive k": {"loss": "adaptive"},
}
BEST = "kNN (k = 3)"
REGULAR = {"dropout": 0.5, "min_count": 4, "epochs": 12, "lr_decay_every": 5}
SMALL = {
    "word_dim": 128,
    "hidden_dim": 256,
    "embedding_dim": 256,
    "epochs": 5,
    "lr_decay_every": 4,
    "learning_rate": 0.002,
    "dropout": 0.2,
}
SMALLEST = {
    "word_dim": 64,
    "hidden_dim": 128,
    "embedding_dim": 128,
    "epochs": 3,
    "lr_decay_every": 3,
    "learning_rate": 0.002,
    "dropout": 0.0,
}
QUICK = {**SMALLEST, "epochs": 2}
QUICK_IMAGES = 500
DIRECTIONS = {"i2t": "image → text", "t2i": "text → image"}
MEASURES = ("R@1", "R@5", "R@10")
PUBLISHED = {"sum": (30.2, 22.9), "max": (30.7, 22.4), BEST: (34.1, 25.1)}
"""R@1 of the paper on Flickr30k with VGG19: image to text, text to image."""


@dataclass(frozen=True)
class Job:
    """One model to train."""

    label: str
    seed: int
    options: Mapping[str, Any]
    system: str = "towers"
    noise: float = 0.0
    images: int | None = None


@dataclass(frozen=True)
class Trained:
    """What came of it: for each way to rank the test pool, the share found per query, by direction and measure."""

    job: Job
    device: str
    seconds: float
    epoch: int
    dev: float
    test: Mapping[str, Mapping[tuple[str, str], np.ndarray]]

    def mean(self, how: str, direction: str, measure: str) -> float:
        """In percent."""
        return 100 * float(self.test[how][direction, measure].mean())

    def rsum(self, how: str = "none") -> float:
        """Of the test pool."""
        return sum(self.mean(how, d, m) for d in DIRECTIONS for m in MEASURES)


@cache
def world(folder: Path) -> tuple[Collection, Embeddings]:
    """Flickr8k and the features of its images."""
    pairs = load(f"flickr8k:{folder}", check_images=False)
    names = (folder / "features" / "image_names.txt").read_text().split()
    stored = np.load(folder / "features" / "efficientnet_lite0_pool1280_fp16.npy").astype(np.float32)
    return pairs, Embeddings(names, stored)


def found(scores: Scores, part: Collection) -> dict[tuple[str, str], np.ndarray]:
    """Whether each query found what belongs to it, by direction and measure."""
    report = evaluate(scores, part, measures=MEASURES)
    return {(d, m): report.find(m, direction=d, view="pairs").values for d in DIRECTIONS for m in MEASURES}


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


def trained(task: tuple[Job, Path, bool, Callable[[Collection, Job], Collection] | None, Path | None]) -> Trained:
    """Trains one model, in a process of its own, and ranks the test pool with it."""
    import torch

    job, folder, every_way, changed, kept = task
    if kept is not None and kept.is_file() and (every_way <= (len((held := read(kept)).test) > 1)):
        return held
    torch.set_num_threads(1)
    pairs, features = world(folder)
    learned = pairs.train if job.images is None else pairs.train.restrict(pairs.train.images.ids[: job.images])
    learned = learned if changed is None else changed(learned, job)
    began = time.perf_counter()
    model = train(learned, job.system, dev=pairs.dev, features=features, seed=job.seed, **job.options)
    seconds = time.perf_counter() - began
    chosen = (
        ways(model, pairs, tuned=str(job.options["device"]) != "cpu")
        if every_way
        else [("none", model.scores(pairs.test))]
    )
    test = {how: found(scores, pairs.test) for how, scores in chosen}
    about: Any = model.trained  # type: ignore[attr-defined]
    device = torch.cuda.get_device_name() if str(job.options["device"]).startswith("cuda") else "the processor"
    result = Trained(job, device, seconds, about["best_epoch"], about["metrics"]["rsum"], test)
    log(f"{job.label}, seed {job.seed}, noise {job.noise:.0%}: {seconds:.0f} s, dev rsum {result.dev:.1f}")
    if kept is not None:
        kept.write_bytes(pickle.dumps(result))
    return result


def all_trained(
    jobs: Sequence[Job],
    folder: Path,
    *,
    workers: int,
    kept: Path | None = None,
    every_way: bool = False,
    changed: Callable[[Collection, Job], Collection] | None = None,
) -> list[Trained]:
    """Trains many models, some at once. What is compiled and read is so before the processes part."""
    pairs, _ = world(folder)
    one = np.random.default_rng(0).standard_normal((len(pairs.dev.images) + len(pairs.dev.texts), 4))
    cut = len(pairs.dev.images)
    found(Scores.from_embeddings(*_halves(pairs.dev, one, cut)), pairs.dev)
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
    tasks = [(job, folder, every_way, changed, None if kept is None else kept / _name(job)) for job in jobs]
    if workers == 1:
        return [trained(task) for task in tasks]
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        return list(pool.imap(trained, tasks, chunksize=1))


def _name(job: Job) -> str:
    """The same for the same model."""
    return (
        hashlib.sha256(
            repr((job.label, job.seed, job.system, job.noise, job.images, sorted(job.options.items()))).encode()
        ).hexdigest()[:16]
        + ".pickle"
    )


def _halves(part: Collection, rows: np.ndarray, cut: int) -> tuple[Embeddings, Embeddings]:
    return Embeddings(part.images.ids, rows[:cut]), Embeddings(part.texts.ids, rows[cut:])


def sizes(options: argparse.Namespace) -> dict[str, Any]:
    """The settings for what the machine can bear."""
    chosen = {} if options.device.startswith("cuda") else SMALL
    return {**REGULAR, **(QUICK if options.quick else chosen), "device": options.device}


def spread(values: Iterable[float]) -> str:
    """Mean and half a 95% interval over seeds (Student's t)."""
    from scipy.stats import t

    held = np.array(list(values))
    if len(held) < 2:
        return f"{held.mean():.1f}"
    half = t.ppf(0.975, len(held) - 1) * held.std(ddof=1) / np.sqrt(len(held))
    return f"{held.mean():.1f} ± {half:.1f}"


def loss_table(runs: Mapping[str, list[Trained]]) -> str:
    """A row per loss: mean over seeds with the interval of that mean."""
    head = " | ".join(f"{shown} {m}" for shown in DIRECTIONS.values() for m in MEASURES)
    lines = [f"| loss | dev rsum | {head} | rsum | best epochs |", "|---|" + "---|" * 9]
    for label, each in runs.items():
        cells = [spread(r.mean("none", d, m) for r in each) for d in DIRECTIONS for m in MEASURES]
        epochs = ", ".join(str(r.epoch) for r in each)
        rsums = spread(r.dev for r in each), spread(r.rsum() for r in each)
        lines.append(f"| {label} | {rsums[0]} | {' | '.join(cells)} | {rsums[1]} | {epochs} |")
    return "\n".join(lines)


def change(
    runs: list[Trained], how: str, base: str, direction: str, measure: str, images: np.ndarray
) -> tuple[float, float, float]:
    """Change in points, seeds averaged, with its 95% interval: queries drawn anew, captions of an image together."""
    differences = np.mean([r.test[how][direction, measure] - r.test[base][direction, measure] for r in runs], axis=0)
    interval = bootstrap(100 * differences, clusters=None if direction == "i2t" else images)
    return 100 * float(differences.mean()), interval.low, interval.high


def correction_table(runs: list[Trained], images: np.ndarray) -> str:
    """A row per way and direction."""
    lines = ["| direction | ranked by | R@1 | change | R@5 | change | R@10 | change |", "|---|---|" + "---|" * 6]
    for direction, shown in DIRECTIONS.items():
        for how in runs[0].test:
            cells = []
            for measure in MEASURES:
                cells.append(f"{np.mean([r.mean(how, direction, measure) for r in runs]):.1f}")
                moved = change(runs, how, "none", direction, measure, images)
                cells.append("" if how == "none" else f"{moved[0]:+.1f} [{moved[1]:+.1f}, {moved[2]:+.1f}]")
            lines.append(f"| {shown} | {how} | {' | '.join(cells)} |")
    return "\n".join(lines)


def loss_claims(runs: Mapping[str, list[Trained]]) -> Iterator[Claim]:
    ours = runs[BEST]
    n = len(ours)
    r10 = float(np.mean([r.mean("none", "t2i", "R@10") for r in ours]))
    note = "small towers, 5 epochs: what a processor bears" if ours[0].device == "the processor" else ""
    yield Claim(f"text → image R@10, kNN loss, mean of {n} seeds, vs ridge regression", r10, RIDGE, ">= 1.2", note)
    for other in runs:
        if other == BEST:
            continue
        wins = sum(a.rsum() > b.rsum() for a, b in zip(ours, runs[other], strict=True))
        note = f"kNN is better in {wins} of {n} seeds"
        if other in PUBLISHED:
            note += "; the paper's Flickr30k R@1: kNN {} and {}, {other} {} and {}".format(
                *PUBLISHED[BEST], *PUBLISHED[other], other=other
            )
        means = [float(np.mean([r.rsum() for r in each])) for each in (ours, runs[other])]
        yield Claim(f"kNN vs {other} loss: test rsum, mean of {n} seeds", *means, goal=">= 1", note=note)


def correction_claims(runs: list[Trained], images: np.ndarray) -> Iterator[Claim]:
    for how in runs[0].test:
        if how == "none":
            continue
        for direction, shown in DIRECTIONS.items():
            moved = change(runs, how, "none", direction, "R@1", images)
            means = [float(np.mean([r.mean(h, direction, "R@1") for r in runs])) for h in (how, "none")]
            note = f"change {moved[0]:+.2f} points, 95% interval {moved[1]:+.2f} to {moved[2]:+.2f}"
            yield Claim(f"{how}: {shown} R@1 vs no correction", *means, goal="> 1", note=note)


def variant_table(runs: list[Trained]) -> str:
    """One run of each of the other kinds."""
    head = " | ".join(f"{shown} {m}" for shown in DIRECTIONS.values() for m in MEASURES)
    lines = [f"| system | dev rsum | {head} | rsum |", "|---|" + "---|" * 8]
    for r in runs:
        cells = [f"{r.mean('none', d, m):.1f}" for d in DIRECTIONS for m in MEASURES]
        lines.append(f"| {r.job.label} | {r.dev:.1f} | {' | '.join(cells)} | {r.rsum():.1f} |")
    return "\n".join(lines)


def run(options: argparse.Namespace) -> Iterator[Claim]:
    folder = data_folder(options)
    seeds = range(2) if options.quick else range(options.first, options.first + options.seeds)
    settings = sizes(options)
    losses = list(LOSSES)[:3] if options.quick else options.losses
    few = QUICK_IMAGES if options.quick else None
    jobs = [Job(label, seed, {**settings, **LOSSES[label]}, images=few) for label in losses for seed in seeds]
    others = [Job(name.upper(), 0, settings, system=name) for name in ("pvse", "pcme")] if options.variants else []
    done = all_trained([*jobs, *others], folder, workers=options.workers, kept=options.kept, every_way=True)
    runs = {label: [r for r in done if r.job.label == label] for label in losses}
    images = np.repeat(np.arange(len(world(folder)[0].test.images)), 5)
    took = f"Trained on {done[0].device}"
    if options.kept is None:  # what was kept may have been trained beside other work
        took += f", {np.median([r.seconds for r in done]):.0f} s each, {options.workers} at once"
    tables = [
        loss_table(runs),
        f"Means over {len(seeds)} seeds ± half the 95% interval of the mean. {took}.",
        correction_table(runs[BEST], images),
        *([variant_table([r for r in done if r.job.system != "towers"])] if others else []),
    ]
    text = "\n\n".join(tables) + "\n"
    log(text)
    if options.save and not options.quick:
        keep_tables(text, options)
    yield from loss_claims(runs)
    yield from correction_claims(runs[BEST], images)


def keep_tables(text: str, options: argparse.Namespace) -> None:
    """Writes tables beside the claims, for the page of the documentation."""
    result_file(Path(sys.argv[0]), options, ".md").write_text(text, encoding="utf-8")


def data_folder(options: argparse.Namespace) -> Path:
    """The folder of Flickr8k; also finds out which device there is, without waking it in this process."""
    if options.data is None:
        raise SystemExit("this proof needs --data DIR, the folder of real data sets (or LIMNER_DATA)")
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # a process that has woken the card cannot be forked
    import torch

    if options.device == "auto":
        options.device = "cuda" if torch.cuda.is_available() else "cpu"
    return options.data / "flickr8k"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--losses", nargs="+", choices=list(LOSSES), default=list(LOSSES), help="which are trained")
    parser.add_argument("--seeds", type=int, default=3, help="how often each loss is trained")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=1, help="how many are trained at once")
    parser.add_argument("--kept", type=Path, help="folder in which the results of every model are kept and found")
    parser.add_argument("--variants", action="store_true", help="also train a PVSE and a PCME")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
