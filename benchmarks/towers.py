"""A step of the tower trainer against a plain PyTorch loop of the same model, and what a checkpoint costs.

The plain loop is what one writes by hand: padded words on the device, packed by torch, the same module, the kNN loss of
the diagonal, the same fused Adam. limner's has everything on: several captions per image, generators, progress, log and
best weights. Random features and texts as long as captions are; whole epochs of both, taking turns. `--device cuda` for
a GPU.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from claims import Claim, log, main
from limner import Collection, Embeddings, Items, Judgements

WORDS, FEATURES, BATCH = 4000, 1280, 128


def world(steps: int) -> tuple[Collection, Embeddings]:
    """Five captions of 5 to 20 random words for each of so many images that an epoch has `steps` steps."""
    rng = np.random.default_rng(0)
    images = -(-steps * BATCH // 5)
    texts = [" ".join(f"w{n}" for n in rng.integers(0, WORDS, rng.integers(5, 21))) for _ in range(5 * images)]
    names, ids = [f"t{n}" for n in range(len(texts))], [f"i{n}" for n in range(images)]
    pairs = Judgements.from_pairs([(f"i{n // 5}", name) for n, name in enumerate(names)])
    collection = Collection("random", Items(ids, [None] * images), Items(names, texts, kind="text"), pairs)
    return collection, Embeddings(ids, rng.standard_normal((images, FEATURES)).astype(np.float32))


def task_of(steps: int, sizes: dict[str, int], device: str) -> Any:
    """What limner trains, with its module."""
    from limner.core.tensors import device_named
    from limner.systems.towers.distributed import Group
    from limner.systems.towers.settings import Inputs, Margin, Shape, Training
    from limner.systems.towers.training import Plan, TowerInputs, TowersTask

    collection, features = world(steps)
    inputs = Inputs(features=features, min_count=1)
    margin, training = Margin(loss="knn"), Training(epochs=1, batch_size=BATCH, device=device)
    plan = Plan("towers", inputs, Shape(**sizes), training, (margin,))
    reading = TowerInputs.of(inputs, collection, None)
    return TowersTask(plan, reading, collection, None, device=device_named(device), group=Group())


def ours(task: Any) -> Callable[[], int]:
    """An epoch by limner's trainer."""
    from limner.systems.towers.fit import fit

    def work() -> int:
        fit(task, task.plan.training)
        return int(task.steps)

    return work


def plain(task: Any) -> Callable[[], int]:
    """An epoch by hand."""
    import torch
    from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_sequence

    pairs, module = task.pairs, task.module
    tokens = pairs.texts
    rows = [torch.from_numpy(tokens.flat[a:b]) for a, b in zip(tokens.starts[:-1], tokens.starts[1:], strict=True)]
    padded, lengths = pad_sequence(rows, batch_first=True).to(pairs.device), torch.from_numpy(tokens.lengths)
    image_of = torch.from_numpy(pairs.image_of.copy()).to(pairs.device)
    diagonal = torch.eye(BATCH, dtype=torch.bool, device=pairs.device)

    def loss_of(scores: Any) -> Any:
        positive_scores = scores.diagonal()[:, None]
        negative_scores = scores.masked_fill(diagonal, -torch.inf)
        hardest = negative_scores.topk(3, 1).values, negative_scores.T.topk(3, 1).values
        return sum((0.2 - positive_scores + each).clamp(min=0).sum() for each in hardest)

    def work() -> int:
        optimiser = torch.optim.Adam(module.parameters(), lr=1e-3, fused=True)
        module.train()
        order = torch.randperm(len(padded))
        for low in range(0, task.steps * BATCH, BATCH):
            batch = order[low : low + BATCH]
            batch = batch[lengths[batch].argsort(descending=True)]
            device_batch = batch.to(pairs.device)
            words = pack_padded_sequence(padded[device_batch], lengths[batch], batch_first=True)
            texts = module.text_vectors(PackedSequence(words.data, words.batch_sizes))[0]
            images = module.image_vectors(pairs.features[image_of[device_batch]])[0]
            loss = loss_of(images @ texts.T)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
        float(loss)
        return int(task.steps)

    return work


def seconds(work: Callable[[], int], device: str) -> tuple[float, float]:
    """Seconds by the clock and CPU-seconds for each step."""
    import torch

    if device.startswith("cuda"):
        torch.cuda.synchronize()
    wall, cpu = time.perf_counter(), time.process_time()
    steps = work()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return (time.perf_counter() - wall) / steps, (time.process_time() - cpu) / steps


def run(options: argparse.Namespace) -> Iterator[Claim]:
    import torch

    from limner.systems.towers import checkpoints

    card = options.device.startswith("cuda")
    torch.set_num_threads(options.threads)
    small = {"word_dim": 128, "hidden_dim": 256, "embedding_dim": 256}
    sizes = {"word_dim": 300, "hidden_dim": 1024, "embedding_dim": 1024} if card else small
    task = task_of(4 if options.quick else 100 if card else 12, sizes, options.device)
    works = {"limner": ours(task), "plain": plain(task)}
    for work in works.values():
        work()
    timings: dict[str, list[tuple[float, float]]] = {name: [] for name in works}
    for number in range(2 if options.quick else options.rounds):
        for name in works if number % 2 else reversed(works):  # who begins, changes
            timings[name].append(seconds(works[name], options.device))
            log(f"round {number + 1}: {name} {1000 * timings[name][-1][0]:.2f} ms a step")
    machine_note = torch.cuda.get_device_name() if card else f"processor, {options.threads} thread"
    label = f"GRU {sizes['hidden']}, batch {BATCH}, {machine_note}"
    middle = {
        name: [1000 * statistics.median(each) for each in zip(*rows, strict=True)] for name, rows in timings.items()
    }
    yield Claim(
        f"a training step ({label}) vs a plain loop, ms", middle["limner"][0], middle["plain"][0], goal="<= 1.05"
    )
    if not card:
        yield Claim(
            f"a training step ({label}) vs a plain loop, CPU ms",
            middle["limner"][1],
            middle["plain"][1],
            goal="<= 1.05",
        )
    target = Path(options.scratch) / "towers-benchmark.safetensors"
    began = time.perf_counter()
    checkpoints.write(target, task.module.state_dict(), {})
    checkpoints.read(target)
    took = time.perf_counter() - began
    target.unlink()
    yield Claim(f"writing and checking a file of all weights ({label}), seconds", took, goal="<= 1")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--threads", type=int, default=1, help="of the processor")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--scratch", default=".", help="folder for a file that is removed again")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
