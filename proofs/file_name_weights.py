"""How much MCProp's attentive fusion listens to the image: the weights of Messina et al. (2022), figure 3.

The paper's text says that the weight of the image stays at 65% of that of the file name; the figure itself is a
drawing without numbers. MCProp with attentive fusion is trained as for `file_names.py` (with two epochs of the sum loss
or none, whichever is better on dev), and the mean weights over the dev images are read after every epoch; those of the
last one count. The weights scale their parts freely, so that a share above 65% alone does not say that images tell
more. Other trainings show what moves it: without camera's names, so that every name says something, and with a half or
three quarters of the images exchanged for another one of their split, so that images say less.

Needs `--data` and a GPU; for `--kept`, `--workers` and `--minutes` see `file_names.py`. Few workers: eight on one GPU
slow each other down.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from file_name_models import SUM_EPOCHS, Run, Work, all_trained, backbone_folder, saved_outputs
from file_names import configure, device_of

from claims import Claim, log, main, result_file

NAMED: Mapping[str, Any] = {"camera": 0.0, "same": 0.37}
"""The task without camera's names: Levenshtein similarity has nDCG@5 0.36 on dev."""
PRINTED = 0.65
"""The weight of the image as a share of that of the file name, in the text beside figure 3."""
SEEN = Run("MCProp", "mcprop", {"fusion": "attentive"})
OTHERS = (
    replace(SEEN, name="MCProp, every name says something", task=NAMED),
    replace(SEEN, name="MCProp, half of the images exchanged", task=NAMED, pictures=0.5),
    replace(SEEN, name="MCProp, three quarters exchanged", task=NAMED, pictures=0.25),
)


def tries(run: Run, seed: int) -> list[Run]:
    """With and without epochs of the sum loss."""
    return [replace(run, seed=seed, sum_epochs=epochs) for epochs in SUM_EPOCHS]


def best(run: Run, seeds: int, work: Work) -> list[Mapping[str, np.ndarray]]:
    """What is kept of the try that is better on dev, for every seed of which all tries have been trained."""
    by_seed = []
    for seed in range(seeds):
        outputs = [saved_outputs(each, work) for each in tries(run, seed) if (work.kept / each.file).is_file()]
        if len(outputs) == len(SUM_EPOCHS):
            by_seed.append(max(outputs, key=lambda each: float(each["dev"])))
    return by_seed


def shares(outputs: list[Mapping[str, np.ndarray]]) -> np.ndarray:
    """The image's weight as a share of the name's after the last epoch, seed by seed.

    >>> shares([{"weights": np.array([[0.2, 0.9], [0.5, 0.25]])}])
    array([0.5])
    """
    return np.array([each["weights"][-1, 1] / each["weights"][-1, 0] for each in outputs])


def table(outputs_by_name: Mapping[str, list[Mapping[str, np.ndarray]]]) -> str:
    """A row for each kind of training: means over seeds, and the share of every seed."""
    lines = ["| model | seeds | weight of the name | of the image | image / name | by seed | nDCG@5 on dev |"]
    lines.append("|---|" + "---:|" * 6)
    for name, outputs in outputs_by_name.items():
        last, each = np.array([one["weights"][-1] for one in outputs]), shares(outputs)
        cells = [str(len(outputs)), f"{last[:, 0].mean():.3f}", f"{last[:, 1].mean():.3f}", f"{each.mean():.2f}"]
        cells += [", ".join(f"{share:.2f}" for share in each), f"{np.mean([one['dev'] for one in outputs]):.3f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"In print the image has {PRINTED:.0%} of the name's weight."])


def claimed(outputs_by_name: Mapping[str, list[Mapping[str, np.ndarray]]]) -> Iterator[Claim]:
    """The share beside the print, and whether the other trainings move it, seed by seed."""
    ours = shares(outputs_by_name[SEEN.name])
    epochs = shares([{"weights": one["weights"][:at]} for one in outputs_by_name[SEEN.name] for at in (5, 10)]).reshape(
        -1, 2
    )
    note = f"{len(ours)} seeds, {ours.min():.2f} to {ours.max():.2f}; after 5 and 10 epochs "
    note += f"{epochs[:, 0].mean():.2f} and {epochs[:, 1].mean():.2f}"
    yield Claim("weight of the image / weight of the name (figure 3)", float(ours.mean()), PRINTED, "within 0.1", note,
                source="print")  # fmt: skip
    full_outputs = outputs_by_name.get(OTHERS[0].name)
    for run in OTHERS[1:] if full_outputs else ():
        if outputs := outputs_by_name.get(run.name):
            share_values = shares(outputs)
            means = f"{share_values.mean():.2f} against {shares(full_outputs).mean():.2f}"
            note = f"{means}; the largest of {len(share_values)} seeds"
            yield Claim(f"image / name: {run.name}, beside all images as they are", float(share_values.max()),
                        float(shares(full_outputs).min()), "<= 1.0", note, source="limner")  # fmt: skip


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Trains what is not kept, and reads the weights."""
    if options.data is None:
        raise SystemExit("file_name_weights needs Flickr8k with its translations and features: --data DIR")
    folder = Path(options.kept or tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    deadline = None if options.minutes is None else time.time() + 60 * options.minutes
    backbone = backbone_folder(options.minilm, folder)
    work = Work(options.data, folder, backbone, device_of(options), options.quick, deadline)
    every = (SEEN, *OTHERS)
    all_trained(
        [each for run in every for seed in range(options.seeds) for each in tries(run, seed)],
        work,
        workers=options.workers,
    )
    outputs_by_name = {run.name: best(run, options.seeds, work) for run in every}
    outputs_by_name = {name: outputs for name, outputs in outputs_by_name.items() if outputs}
    if SEEN.name not in outputs_by_name:
        raise SystemExit(f"no {SEEN.name} has been trained with every try: give it more --minutes, or fewer --workers")
    text = table(outputs_by_name)
    log(text)
    if options.save and not options.quick:
        result_file(Path(sys.argv[0]), options, ".md").write_text(text + "\n", encoding="utf-8")
    yield from claimed(outputs_by_name)


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
