"""Future work of the ranking paper: captions compared by their syntax, and images by their objects, beside Tri5Sem.

Hodosh, Young & Hockenmaier (2013) name syntactic analyses and detectors' responses as kernels. Flickr8k with a twelfth
of its training images (500 of 6,000) and its dev and test images with one caption each. KCCA with settings chosen on
dev. Texts: `chunks` is the string kernel of noun phrases and of the line of nouns and verbs; Tri5-idf that of whole
captions; Tri5Sem adds similarities of words. All have the same images, features of EfficientNet-Lite0. Objects: no
detector's boxes are among the data, so the label of each image is the one that this network gives it (one of
ImageNet's 1,000), in the table that `object_features` reads, and texts are compared by Tri5-idf.

Differences are paired over the test items, with intervals; goals are set on their ends.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from ranking_bench import TASKS, Data

from claims import Claim, log, main
from limner.core.embeddings import Embeddings
from limner.evaluation.comparison import compare
from limner.evaluation.evaluate import evaluate
from limner.evaluation.reports.report import Report
from limner.papers.chunk_kernel import ChunkKernel
from limner.papers.thirty_systems import system
from limner.systems.classic.object_features import object_features
from limner.systems.classic.strings import StringKernel
from limner.systems.classic.training import train

MEASURES = ("R@1", "R@5", "R@10")


def objects(names: list[str], classes: np.ndarray) -> Embeddings:
    """The label of each image, as a table of a detector has it."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "objects.csv"
        rows = [f"{name},{label}\n" for name, label in zip(names, classes.tolist(), strict=True)]
        file.write_text("image,label\n" + "".join(rows), encoding="utf-8")
        return object_features(file)


def reports(folder: Path) -> dict[str, Report]:
    """What each system finds of the test items."""
    data = Data.read(folder, quick=True)
    place = folder / "flickr8k/features"
    names = [line.split("\t")[0].strip() for line in (place / "image_names.txt").read_text().splitlines()]
    network = Embeddings(names, np.load(place / "efficientnet_lite0_pool1280_fp16.npy").astype(np.float32))
    labels = objects(names, np.load(place / "efficientnet_lite0_imagenet_top1.npy"))
    captions = json.loads((folder / "coco/captions_val2017.json").read_text(encoding="utf-8"))["annotations"]
    corpus = tuple(row["caption"].strip() for row in captions)
    meaning: Any = system("Tri5Sem").text.kernel(reader=data.reader, corpus=corpus)
    strings = StringKernel(weights="root idf", reader=data.reader)
    systems: dict[str, tuple[Any, str, Embeddings]] = {
        "Tri5Sem": (meaning, "rbf", network),
        "Tri5-idf": (strings, "rbf", network),
        "chunks": (ChunkKernel(strings), "rbf", network),
        "labels of objects": (strings, "linear", labels),
    }
    by_name, part = {}, data.train.restrict(list(data.train.images.ids)[::2])
    for name, (texts, images, features) in systems.items():
        options: Any = {"texts": texts, "images": images, "features": features, "powers": (1.0,)}
        model = train(part, dev=data.dev, name=name, **options)
        by_name[name] = evaluate(model.scores(data.test, features=features), data.test, measures=MEASURES, name=name)
        log(f"{name}: {figures(by_name[name])}")
    return by_name


def figures(report: Report) -> str:
    """All numbers of a report, in percent."""
    return ", ".join(f"{TASKS[r.direction]} {r.measure} {100 * r.value:.1f}" for r in report.results)


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Every system, and the differences."""
    if options.data is None:
        raise SystemExit("--data DIR: expected the folder that holds flickr8k/ and coco/")
    by_name = reports(options.data)
    for name, than in (("chunks", "Tri5-idf"), ("chunks", "Tri5Sem")):
        for task, title in TASKS.items():
            note = f"{name}: {figures(by_name[name])}; {than}: {figures(by_name[than])}; 500 training images"
            difference = compare([by_name[name], by_name[than]]).line("R@10", direction=task).between(0, 1)
            low, high = (100 * bound for bound in (difference.interval.low, difference.interval.high))
            claim, interval = f"{name} less {than}, R@10, {title}", f"[{low:+.1f}, {high:+.1f}]"
            note = f"{100 * difference.value:+.1f} {interval}; {note}"
            yield Claim(f"{claim}: lower end of the 95% interval, points", low, goal="> 0", note=note)
    report = by_name["labels of objects"]
    for result in report.results:
        if str(result.measure) == "R@10":
            chance = 100 * 10 / 1000
            claim = f"labels of objects, R@10, {TASKS[result.direction]}, percent, beside chance"
            yield Claim(claim, 100 * result.value, chance, goal=">= 3", note=figures(report), source="theory")


if __name__ == "__main__":
    main(run, __doc__)
