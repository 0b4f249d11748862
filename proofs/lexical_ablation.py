"""What each ingredient of the ranking paper's Tri5Sem is worth: similarities, corpus, kernel cut, weights.

Hodosh, Young & Hockenmaier (2013), section 3.5 and Table 6: Tri5Sem is Tri5 with root idf, distributional similarities
from the captions and from the British National Corpus, and similarities from alignment. Here one ingredient at a time
is taken away or changed. The image side is the same for all, EfficientNet-Lite0 features with an RBF kernel, so that
only the text side differs; KCCA with kappa 0.1 or 1, diagonal 1 and any n, the one best on dev. Measured on the 1,000
test images with one caption each: the mean of both tasks' R@10, and the 95% interval of the difference to Tri5Sem.

Needs `--data`. `--images N` is how many training images are used, drawn evenly (default 1,000; all: 6000).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from ranking_paper import Data, timed

from claims import Claim, log, main, result_file
from limner.core.embeddings import Embeddings
from limner.evaluation.evaluate import evaluate
from limner.stats import bootstrap
from limner.systems.classic import training
from limner.systems.classic.alignment import Alignment
from limner.systems.classic.lexical import LexicalKernel
from limner.systems.classic.similarity import Distributional, Lin, Maximum, Mean, Similarity
from limner.systems.classic.strings import StringKernel

FULL = "Tri5Sem"
PRINTED = {"annotation": (11.6, 13.4), "search": (11.0, 13.7)}
"""R-precision of Tri5 and Tri5Sem: the gain of all ingredients together."""
HOW: Mapping[str, Any] = {"kappas": (0.1, 1.0), "text_kappas": None, "diagonals": (1.0,), "powers": (1.0,)}


def corpora(folder: Path) -> dict[str, tuple[str, ...]]:
    """Outside corpora: COCO's captions, a quarter of them, and those with another 25,010 of COCO."""
    rows = json.loads((folder / "coco" / "captions_val2017.json").read_text(encoding="utf-8"))["annotations"]
    coco = tuple(row["caption"].strip() for row in rows)
    lines = (folder / "coco" / "karpathy_test_5k.tsv").read_text(encoding="utf-8").splitlines()
    more = tuple(line.split("\t")[-1].strip() for line in lines[1:])
    return {"COCO": coco, "a quarter of COCO": coco[::4], "twice as much of COCO": coco + more}


def kernels(folder: Path, reader: Any) -> Iterator[tuple[str, Any]]:
    """Every variant, Tri5Sem first: its name and its text kernel."""
    outside = corpora(folder)
    plain, weighed = (StringKernel(weights=weights, reader=reader) for weights in ("none", "root idf"))

    def company(corpus: str = "COCO", cut: float = 0.01) -> list[Similarity]:
        return [Distributional(outside[corpus], threshold=cut), Distributional(threshold=cut)]

    def joined(parts: list[Similarity], alignment: Alignment | None = Alignment()) -> Similarity:  # noqa: B008
        mean = Mean(tuple(parts)) if len(parts) > 1 else parts[0]
        return mean if alignment is None else Maximum((mean, alignment))

    yield FULL, LexicalKernel(joined(company()), weighed)
    yield "Tri5", plain
    yield "Tri5-idf", weighed
    yield "without root idf", LexicalKernel(joined(company()), plain)
    yield "idf for root idf", LexicalKernel(joined(company()), StringKernel(weights="idf", reader=reader))
    yield "without alignment", LexicalKernel(joined(company(), None), weighed)
    yield "alignment only", LexicalKernel(Alignment(), weighed)
    yield "without the outside corpus", LexicalKernel(joined(company()[1:]), weighed)
    yield "without the captions' company", LexicalKernel(joined(company()[:1]), weighed)
    for name in ("a quarter of COCO", "twice as much of COCO"):
        yield f"outside corpus: {name}", LexicalKernel(joined(company(name)), weighed)
    yield "cut of distributional kernels 0.05", LexicalKernel(joined(company(cut=0.05)), weighed)
    yield "cut of distributional kernels 0.2", LexicalKernel(joined(company(cut=0.2)), weighed)
    yield "cut of alignment 0.01", LexicalKernel(joined(company(), Alignment(threshold=0.01)), weighed)
    yield "cut of alignment 0.2", LexicalKernel(joined(company(), Alignment(threshold=0.2)), weighed)
    every = Alignment(nouns=(2, 0.0), verbs=(2, 0.0))
    yield "alignment of every noun and verb seen twice", LexicalKernel(joined(company(), every), weighed)
    yield "Lin in place of all", LexicalKernel(Lin(), weighed)


def found(data: Data, features: Embeddings, kernel: Any) -> tuple[np.ndarray, float]:
    """For each test pair the mean of both tasks' hits among the first 10, and the mean R@1 in percent."""
    model: Any = training.train(data.train, dev=data.dev, images="rbf", features=features, texts=kernel, **HOW)
    report = evaluate(model.scores(data.test, features=features), data.test, measures="R@1 R@10")
    hits = [report.find("R@10", direction=task).values for task in ("i2t", "t2i")]
    first = [report.value("R@1", direction=task) for task in ("i2t", "t2i")]
    return np.mean(hits, axis=0), 100 * float(np.mean(first))


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Every variant beside Tri5Sem."""
    if options.data is None:
        raise SystemExit("--data DIR: expected the folder that holds flickr8k/ and coco/")
    data = Data.read(options.data, quick=False)
    step = max(len(data.train.images) // (300 if options.quick else options.images), 1)
    data = Data(data.train.restrict(list(data.train.images.ids)[::step]), data.dev, data.test, data.judged, data.reader)
    folder = options.data / "flickr8k" / "features"
    names = (folder / "image_names.txt").read_text().split()
    features = Embeddings(names, np.load(folder / "efficientnet_lite0_pool1280_fp16.npy").astype(np.float32))
    rows: dict[str, tuple[np.ndarray, float]] = {}
    for name, kernel in kernels(options.data, data.reader):
        rows[name] = timed(name, lambda kernel=kernel: found(data, features, kernel))
        log(f"  R@10 {100 * rows[name][0].mean():.1f}, R@1 {rows[name][1]:.1f}")
    text = table(rows, len(data.train.images))
    log(text)
    if options.save and not options.quick:
        result_file(Path(__file__), options, ".md").write_text(text + "\n", encoding="utf-8")
    yield from claims(rows)


def _gain(rows: Mapping[str, tuple[np.ndarray, float]], name: str) -> tuple[float, float, float]:
    """Points of R@10 that a variant has more than Tri5Sem, and their 95% interval."""
    difference = 100 * (rows[name][0] - rows[FULL][0])
    interval = bootstrap(difference)
    return float(difference.mean()), interval.low, interval.high


def table(rows: Mapping[str, tuple[np.ndarray, float]], images: int) -> str:
    """A row per variant."""
    lines = ["| text side | R@1 | R@10 | difference of R@10 to Tri5Sem |", "|---|---:|---:|---:|"]
    for name, (hits, first) in rows.items():
        gain = "" if name == FULL else "{:+.1f} [{:+.1f}, {:+.1f}]".format(*_gain(rows, name))
        lines.append(f"| {name} | {first:.1f} | {100 * hits.mean():.1f} | {gain} |")
    return "\n".join([*lines, "", f"{images:,} training images; means of both tasks, in percent."])


def claims(rows: Mapping[str, tuple[np.ndarray, float]]) -> Iterator[Claim]:
    """The gain over Tri5, and which single change would bring more."""
    full = 100 * float(rows[FULL][0].mean())
    for name, (hits, _) in rows.items():
        if name != FULL:
            note = "difference of the other to Tri5Sem {:+.1f} [{:+.1f}, {:+.1f}]".format(*_gain(rows, name))
            yield Claim(f"R@10 of Tri5Sem vs {name}", full, 100 * float(hits.mean()), ">= 1", note, source="limner")


def configure(parser: argparse.ArgumentParser) -> None:
    """How many images."""
    parser.add_argument("--images", type=int, default=1000, help="training images that are used")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
