"""Two stages of training as in the ECCV Caption paper: what the second one, with the image encoder unfrozen, gains.

Chun et al. (2022), appendix: VSE0, PVSE and PCME are trained for 30 epochs with a frozen image encoder and for 30 more
with all weights, with AdamP and a cosine schedule. Here on Flickr8k with EfficientNet-Lite0, whose weights come in a
package (the paper: COCO with ResNet-152): 6,000 training images with five captions each, the best epoch by rsum on the
1,000 dev images, tested on the 1,000 test images with all 5,000 captions as one pool. The control is fair: the model of
the first stage trained for as many epochs again, with the same learning rate of the second stage, and the encoder still
frozen. Two learning rates are tried in each stage, with dropout, and the better one on dev counts, for the control as
well. A stage ends after 6 epochs without a better dev rsum. If the control gains much by being trained again, the first
stage had not converged, and what the second gains says little.

Needs `--data` with the photographs and a GPU: six models for each system and seed, trained `--workers N` at once.
`--kept FOLDER` keeps what every model found and goes on from what is there; `--minutes N` starts no further model after
so many minutes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from training_runs import DIRECTIONS, MEASURES, QUICK_IMAGES, SMALLEST, data_folder, keep_tables, query_values

from claims import Claim, log, main
from limner import load, train

SYSTEMS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "VSE0": ("towers", {"loss": "sum"}),
    "PVSE": ("pvse", {"loss": "max"}),
    "PCME": ("pcme", {}),
}
ENCODER = "efficientnet-lite"
COMMON: Mapping[str, Any] = {"optimizer": "adamp", "schedule": "cosine", "min_count": 4, "tensorboard": False}
PATIENCE = 6
"""Every stage ends after so many epochs without a better dev rsum."""
FIRST: Mapping[str, dict[str, Any]] = {
    "0.0002, dropout 0.5": {"learning_rate": 2e-4, "dropout": 0.5},
    "0.001, dropout 0.5": {"learning_rate": 1e-3, "dropout": 0.5},
}
"""What is tried in the first stage; a model keeps its dropout in the second."""
RATES = (1e-4, 3e-4)
"""The learning rates of the second stage."""
EPOCHS = 30
FROZEN, WHOLE = "frozen again", "whole"


@dataclass(frozen=True)
class Task:
    """A system with a seed: where its models are kept, and what they are trained with."""

    name: str
    seed: int
    data: Path
    kept: Path
    options: Mapping[str, Any]
    epochs: tuple[int, int]
    deadline: float | None
    quick: bool
    tried: tuple[str, ...]

    def file(self, stage: str) -> Path:
        """Where what the model of a stage found is kept."""
        return self.kept / f"{self.name}-{self.seed}-{_plain(stage)}.npz"

    def model(self, tried: str) -> Path:
        """The folder of a model of the first stage."""
        return self.kept / f"{self.name}-{self.seed}-{_plain(tried)}-model"

    @property
    def first(self) -> str | None:
        """What was tried in the first stage with the highest dev rsum, of what has been trained."""
        runs_of = {tried: run_values for tried in self.tried if (run_values := read(self, tried)) is not None}
        return max(runs_of, key=lambda tried: float(runs_of[tried]["dev"]), default=None)


def _plain(label: str) -> str:
    return label.replace(", ", "-").replace(" ", "-")


def stage_two() -> list[tuple[str, float]]:
    """Every second stage: frozen or whole, with each learning rate."""
    return [(kind, rate) for kind in (WHOLE, FROZEN) for rate in RATES]


def trained(task_options: tuple[Task, str, Mapping[str, Any]]) -> None:
    """Trains one model, in a process of its own, and keeps what it found.

    Args:
        task_options: The task; what is tried in the first stage, or the second with its learning rate; its options.
    """
    import torch

    task, label, options = task_options
    if task.file(label).is_file():
        return
    if task.deadline is not None and time.time() > task.deadline:
        log(f"{task.name}, seed {task.seed}, {label}: not trained, the time was over")
        return
    torch.set_num_threads(2)
    pairs = load(f"flickr8k:{task.data}", check_images=False)
    learned = pairs.train.restrict(pairs.train.images.ids[:QUICK_IMAGES]) if task.quick else pairs.train
    system, system_options = SYSTEMS[task.name]
    training_options: dict[str, Any] = {
        **COMMON,
        **system_options,
        **task.options,
        **options,
        "seed": task.seed,
        "dev": pairs.dev,
    }
    began = time.perf_counter()
    model = train(learned, system, **training_options, patience=PATIENCE)
    if label in FIRST:
        model.save(task.model(label))
    values_of = {f"{d} {m}": values for (d, m), values in query_values(model.scores(pairs.test), pairs.test).items()}
    history = [float(row["rsum"]) for row in model.trained["history"]]
    np.savez(task.file(label), dev=np.array(model.trained["metrics"]["rsum"]), history=np.array(history), **values_of)
    log(f"{task.name}, seed {task.seed}, {label}: {time.perf_counter() - began:.0f} s, dev rsum "
        f"{history[0]:.1f} to {max(history):.1f} at epoch {model.trained['best_epoch']}")  # fmt: skip


def first_stages(task: Task) -> list[tuple[Task, str, Mapping[str, Any]]]:
    """What is tried in the first stage."""
    common = {"epochs": task.epochs[0], "features": {"encoder": ENCODER}}
    return [(task, tried, {**common, **FIRST[tried]}) for tried in task.tried]


def second_stages(task: Task) -> list[tuple[Task, str, Mapping[str, Any]]]:
    """Every second stage of the best first one."""
    if task.first is None or not task.model(task.first).is_dir():
        return []
    first_options = {name: value for name, value in FIRST[task.first].items() if name != "learning_rate"}
    common = {**first_options, "epochs": task.epochs[1], "init_from": str(task.model(task.first))}
    extra: Mapping[str, dict[str, Any]] = {WHOLE: {"unfreeze": True}, FROZEN: {}}
    return [(task, f"{kind} {rate:g}", {**common, **extra[kind], "learning_rate": rate}) for kind, rate in stage_two()]


def read(task: Task, label: str) -> dict[str, np.ndarray] | None:
    """What a model found, if it was trained."""
    if not task.file(label).is_file():
        return None
    with np.load(task.file(label)) as saved_arrays:
        return dict(saved_arrays)


def best(task: Task, kind: str) -> tuple[float, dict[str, np.ndarray]] | None:
    """The learning rate that is best on dev, with what its model found."""
    runs_by_rate = [(rate, each) for rate in RATES if (each := read(task, f"{kind} {rate:g}")) is not None]
    return max(runs_by_rate, key=lambda pair: float(pair[1]["dev"])) if len(runs_by_rate) == len(RATES) else None


def rsum(values_of: Mapping[str, np.ndarray]) -> float:
    """Of the test pool."""
    return sum(100 * float(values_of[f"{d} {m}"].mean()) for d in DIRECTIONS for m in MEASURES)


def gained(better: list[Mapping[str, np.ndarray]], worse: list[Mapping[str, np.ndarray]], measure: str) -> np.ndarray:
    """The difference in points with its 95% interval; queries and seeds are drawn anew."""
    rng = np.random.default_rng(0)
    moved = np.array([100 * (a[measure] - b[measure]) for a, b in zip(better, worse, strict=True)])
    queries, seeds = moved.shape[1], len(moved)
    means = [moved[rng.integers(0, seeds, seeds)][:, rng.integers(0, queries, queries)].mean() for _ in range(4000)]
    return np.array([moved.mean(), *np.quantile(means, (0.025, 0.975))])


def table(tasks: list[Task]) -> str:
    """A row for each system and stage: means over seeds."""
    heads = " | ".join(f"{measure}, {title}" for title in DIRECTIONS.values() for measure in MEASURES)
    lines = [f"| system | stage | seeds | dev rsum | {heads} |", "|---|---|" + "---:|" * 8]
    for name in dict.fromkeys(task.name for task in tasks):
        tasks_of_name = [task for task in tasks if task.name == name]
        for kind in ("first", FROZEN, WHOLE):
            runs = [
                read(t, t.first or "") if kind == "first" else (best(t, kind) or (0, None))[1] for t in tasks_of_name
            ]
            done_runs = [each for each in runs if each is not None]
            if done_runs:
                cells = [f"{np.mean([100 * each[f'{d} {m}'].mean() for each in done_runs]):.1f}"
                         for d in DIRECTIONS for m in MEASURES]  # fmt: skip
                dev = np.mean([float(each["dev"]) for each in done_runs])
                lines.append(f"| {name} | {kind} | {len(done_runs)} | {dev:.1f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def claimed(tasks: list[Task]) -> Iterator[Claim]:
    """What the second stage gains over the control, and whether it had converged."""
    for name in dict.fromkeys(task.name for task in tasks):
        pairs = [(best(t, WHOLE), best(t, FROZEN)) for t in tasks if t.name == name]
        done = [(a, b) for a, b in pairs if a is not None and b is not None]
        if not done:
            continue
        rates = ", ".join(f"{a[0]:g} and {b[0]:g}" for a, b in done)
        second_stages, control = [a[1] for a, _ in done], [b[1] for _, b in done]
        for direction, title in DIRECTIONS.items():
            for measure in ("R@1", "R@10"):
                moved = gained(second_stages, control, f"{direction} {measure}")
                note = "{:+.1f} [{:+.1f}, {:+.1f}]".format(*moved)
                note += f"; {len(done)} seeds; learning rates chosen on dev (whole, frozen): {rates}"
                claim_text = f"{name}, {measure} gained by the second stage over a frozen one, {title}"
                yield Claim(
                    f"{claim_text}: lower end of the 95% interval, points", float(moved[1]), goal="> 0", note=note
                )
        late = max(_late(each["history"]) for each in (*second_stages, *control))
        claim_text = f"{name}: largest rise of dev rsum in the last fifth of the second stage, percent"
        yield Claim(claim_text, late, goal="<= 1", note="a model that still rises has not converged")
        began = [(t, read(t, t.first or "")) for t in tasks if t.name == name]
        frozen_gains = [
            100 * (float(frozen_run[1]["dev"]) / float(first_run["dev"]) - 1)
            for t, first_run in began
            if first_run is not None and (frozen_run := best(t, FROZEN)) is not None
        ]
        chosen = "; ".join(f"{t.first}, of {len(t.tried)} tried" for t, _ in began)
        claim_text = f"{name}: dev rsum that the frozen model gains by being trained again, percent"
        yield Claim(
            claim_text, max(frozen_gains), goal="<= 2", note=f"the first stage had converged if it is little; {chosen}"
        )


def _late(history: np.ndarray) -> float:
    before = history[: -max(len(history) // 5, 1)].max(initial=0.0)
    return float(100 * max(history.max() - before, 0.0) / history.max())


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """The first stages, then all second ones."""
    folder = data_folder(options)
    work_folder = Path(options.kept or tempfile.mkdtemp())
    work_folder.mkdir(parents=True, exist_ok=True)
    deadline = None if options.minutes is None else time.time() + 60 * options.minutes
    small = {k: v for k, v in SMALLEST.items() if k.endswith("dim")}
    run_options: dict[str, Any] = {
        "device": options.device,
        **(small if options.quick else {"precision": options.precision}),
    }
    epochs = (1, 1) if options.quick else (options.first, options.second)
    tried = tuple(FIRST)[:1] if options.quick else tuple(options.tried)
    tasks = [Task(name, seed, folder, work_folder, run_options, epochs, deadline, options.quick, tried)
             for seed in range(1 if options.quick else options.seeds) for name in options.systems]  # fmt: skip
    with multiprocessing.get_context("spawn").Pool(options.workers, maxtasksperchild=1) as pool:
        for stage in (first_stages, second_stages):
            pool.map(trained, [each for task in tasks for each in stage(task)], chunksize=1)
    text = f"{table(tasks)}\n\nAt most {epochs[0]} epochs of the first stage and {epochs[1]} of the second."
    log(text)
    if options.save and not options.quick:
        keep_tables(text + "\n", options)
    yield from claimed(tasks)


def configure(parser: argparse.ArgumentParser) -> None:
    """What to train, and where it is kept."""
    parser.add_argument("--systems", nargs="+", choices=list(SYSTEMS), default=list(SYSTEMS), help="which are trained")
    parser.add_argument("--tried", nargs="+", choices=list(FIRST), default=list(FIRST), help="in the first stage")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--precision", default="bfloat16", help="float32 or bfloat16")
    parser.add_argument("--first", type=int, default=EPOCHS, help="epochs of the first stage at most")
    parser.add_argument("--second", type=int, default=EPOCHS, help="epochs of the second stage at most")
    parser.add_argument("--seeds", type=int, default=1, help="how often each system is trained")
    parser.add_argument("--workers", type=int, default=1, help="how many are trained at once")
    parser.add_argument("--kept", type=Path, help="folder that keeps what every model found")
    parser.add_argument("--minutes", type=float, help="no further model is begun after so many minutes")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
