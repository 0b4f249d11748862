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

from file_name_models import SUM_EPOCHS, Run, Work, all_trained, backbone_folder, kept
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
    found = []
    for seed in range(seeds):
        held = [kept(each, work) for each in tries(run, seed) if (work.kept / each.file).is_file()]
        if len(held) == len(SUM_EPOCHS):
            found.append(max(held, key=lambda each: float(each["dev"])))
    return found


def shares(held: list[Mapping[str, np.ndarray]]) -> np.ndarray:
    """The image's weight as a share of the name's after the last epoch, seed by seed.

    >>> shares([{"weights": np.array([[0.2, 0.9], [0.5, 0.25]])}])
    array([0.5])
    """
    return np.array([each["weights"][-1, 1] / each["weights"][-1, 0] for each in held])


def table(found: Mapping[str, list[Mapping[str, np.ndarray]]]) -> str:
    """A row for each kind of training: means over seeds, and the share of every seed."""
    lines = ["| model | seeds | weight of the name | of the image | image / name | by seed | nDCG@5 on dev |"]
    lines.append("|---|" + "---:|" * 6)
    for name, held in found.items():
        last, each = np.array([one["weights"][-1] for one in held]), shares(held)
        cells = [str(len(held)), f"{last[:, 0].mean():.3f}", f"{last[:, 1].mean():.3f}", f"{each.mean():.2f}"]
        cells += [", ".join(f"{share:.2f}" for share in each), f"{np.mean([one['dev'] for one in held]):.3f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"In print the image has {PRINTED:.0%} of the name's weight."])


def claimed(found: Mapping[str, list[Mapping[str, np.ndarray]]]) -> Iterator[Claim]:
    """The share beside the print, and whether the other trainings move it, seed by seed."""
    ours = shares(found[SEEN.name])
    epochs = shares([{"weights": one["weights"][:at]} for one in found[SEEN.name] for at in (5, 10)]).reshape(-1, 2)
    note = f"{len(ours)} seeds, {ours.min():.2f} to {ours.max():.2f}; after 5 and 10 epochs "
    note += f"{epochs[:, 0].mean():.2f} and {epochs[:, 1].mean():.2f}"
    yield Claim("weight of the image / weight of the name (figure 3)", float(ours.mean()), PRINTED, "within 0.1", note,
                source="print")  # fmt: skip
    whole = found.get(OTHERS[0].name)
    for run in OTHERS[1:] if whole else ():
        if held := found.get(run.name):
            less = shares(held)
            note = f"{less.mean():.2f} against {shares(whole).mean():.2f}; the largest of {len(less)} seeds"
            yield Claim(f"image / name: {run.name}, beside all images as they are", float(less.max()),
                        float(shares(whole).min()), "<= 1.0", note, source="limner")  # fmt: skip


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
    found = {run.name: best(run, options.seeds, work) for run in every}
    found = {name: held for name, held in found.items() if held}
    if SEEN.name not in found:
        raise SystemExit(f"no {SEEN.name} has been trained with every try: give it more --minutes, or fewer --workers")
    text = table(found)
    log(text)
    if options.save and not options.quick:
        result_file(Path(sys.argv[0]), options, ".md").write_text(text + "\n", encoding="utf-8")
    yield from claimed(found)


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
