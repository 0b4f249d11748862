"""The second stage of training beside the best frozen model of all that were trained, with whatever first stage.

`two_stages.py` compares both second stages, with the encoder trained and frozen, after the same first one. A frozen
model of another run may be better. Here the best model of all with a trained encoder is compared with the best frozen
one of all, each chosen by dev rsum, from what the models found for each query (`records/two_stages.npz`, trained on one
H200, one seed: 15 and 12 epochs without dropout, 30 and 8 or 10 with it). Needs nothing but the records; `--pack
NAME=FOLDER ...` adds folders of `two_stages.py --kept` to them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from training_runs import DIRECTIONS, MEASURES

from claims import Claim, log, main, result_file

RECORDS = Path(__file__).parent / "records" / "two_stages.npz"
SYSTEMS = ("VSE0", "PVSE", "PCME")
QUERIES = {"i2t": 1000, "t2i": 5000}
DRAWS = 4000

Model = Mapping[str, np.ndarray]
"""The dev rsum, and for each direction and measure which queries were answered."""


def packed(folders: Mapping[str, Path]) -> dict[str, np.ndarray]:
    """What all models of some folders found, a bit for each query."""
    kept: dict[str, np.ndarray] = {}
    for name, folder in folders.items():
        for file in sorted(folder.glob("*.npz")):
            with np.load(file) as held:
                kept |= {f"{name}/{file.stem}/{key}": np.packbits(held[key] > 0) for key in held if " " in key}
                kept[f"{name}/{file.stem}/dev"] = held["dev"]
    return kept


def read() -> dict[str, dict[str, np.ndarray]]:
    """The models of the records by name."""
    models: dict[str, dict[str, np.ndarray]] = {}
    with np.load(RECORDS) as held:
        for key in held:
            name, _, what = key.rpartition("/")
            bits = held[key]
            whole = bits if what == "dev" else np.unpackbits(bits, count=QUERIES[what[:3]]).astype(float)
            models.setdefault(name, {})[what] = whole
    return models


def best(models: Mapping[str, Model], system: str, *, whole: bool) -> str:
    """The model with the highest dev rsum, with a trained encoder or a frozen one."""
    own = [name for name in models if f"/{system}-" in name and ("-whole-" in name) == whole]
    return max(own, key=lambda name: float(models[name]["dev"]))


def gain(one: Model, other: Model, what: str) -> np.ndarray:
    """The difference in points with its 95% interval; queries are drawn anew."""
    rng = np.random.default_rng(0)
    moved = 100 * (one[what] - other[what])
    means = [moved[rng.integers(0, len(moved), len(moved))].mean() for _ in range(DRAWS)]
    return np.array([moved.mean(), *np.quantile(means, (0.025, 0.975))])


def table(models: Mapping[str, Model]) -> str:
    """Every measure of the best frozen and the best whole model, and what is gained."""
    heads = " | ".join(f"{measure}, {title}" for title in DIRECTIONS.values() for measure in MEASURES)
    lines = [f"| system | model | dev rsum | {heads} |", "|---|---|" + "---:|" * 7]
    for system in SYSTEMS:
        names = [best(models, system, whole=whole) for whole in (False, True)]
        for name in names:
            cells = [f"{100 * models[name][f'{d} {m}'].mean():.1f}" for d in DIRECTIONS for m in MEASURES]
            lines.append(f"| {system} | {name} | {float(models[name]['dev']):.1f} | {' | '.join(cells)} |")
        moved = [gain(models[names[1]], models[names[0]], f"{d} {m}") for d in DIRECTIONS for m in MEASURES]
        cells = ["{:+.1f} [{:+.1f}, {:+.1f}]".format(*each) for each in moved]
        lines.append(f"| {system} | gained | | {' | '.join(cells)} |")
    return "\n".join(lines)


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """The best models beside each other."""
    if options.pack:
        with np.load(RECORDS) as held:
            kept = dict(held)
        np.savez_compressed(RECORDS, **kept | packed({name: Path(folder) for name, _, folder in options.pack}))
    models = read()
    text = table(models)
    log(text)
    if options.save and not options.quick:
        result_file(Path(__file__), options, ".md").write_text(text + "\n", encoding="utf-8")
    for system in SYSTEMS:
        frozen, whole = (best(models, system, whole=each) for each in (False, True))
        for direction, title in DIRECTIONS.items():
            for measure in ("R@1", "R@10"):
                moved = gain(models[whole], models[frozen], f"{direction} {measure}")
                note = "{:+.1f} [{:+.1f}, {:+.1f}]; ".format(*moved) + f"{whole} and {frozen}, one seed"
                what = f"{system}, {measure} gained over the best frozen model of all, {title}"
                yield Claim(f"{what}: lower end of the 95% interval, points", float(moved[1]), goal="> 0", note=note)


def _pair(text: str) -> tuple[str, str, str]:
    return text.partition("=")


def configure(parser: argparse.ArgumentParser) -> None:
    """Where records come from."""
    parser.add_argument("--pack", nargs="+", type=_pair, help="add NAME=FOLDER of what two_stages.py has kept")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
