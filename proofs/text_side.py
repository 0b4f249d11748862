"""The text side of the ranking paper's Tri5Sem alone: what each ingredient and the size of the outside corpus matter.

Hodosh, Young & Hockenmaier (2013), section 3.5. `lexical_ablation.py` compares whole systems; there the images decide
most of what is found. Here an image is replaced by what people say of it: the four captions of each test image that no
query uses. The text kernel, with weights and similarities from the captions of all 6,000 training images, compares
caption #2 of each of the 1,000 test images with these, in both tasks: R@10 of the original item, R-precision with the
crowd's pairs. Nothing is learned of images, so that a difference comes from the text kernel only.

The paper's outside corpus, the British National Corpus (100 million words), cannot be passed on. Two others are given
in growing parts: COCO's captions, and with `--glosses FOLDER` general English (see `lexical_ablation.py`). The gain for
each doubling, with its 95% interval, is extrapolated to the size of the paper's corpus: an upper end below what is
missing says that size alone does not explain it.

Needs `--data`; `--opennlp FOLDER` adds the paper's tagger.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import lexical_ablation
from lexical_ablation import ENGLISH, FULL, by_opennlp, corpora, kernels, per_query
from ranking_bench import FOUND, PROTOCOL, TASKS, Data, Reports, crowd, timed

from claims import Claim, log, main, result_file
from limner.evaluation.evaluate import evaluate
from limner.scores import Scores
from limner.stats import bootstrap

QUERY = 2
"""The caption that people judged; the others stand for the image."""
BRITISH = 100e6
"""Words of the British National Corpus."""
MEASURES = ("R@10", "RP")
PARTS = {"COCO": ("COCO", 16, 4, 1), ENGLISH: (ENGLISH, 16, 4, 1)}
"""Every how-manieth sentence of a corpus is used, from few to many."""


def reports(kernel: object, data: Data, name: str) -> Reports:
    """What the text kernel finds, with the other captions of each image in place of the image."""
    fitted = kernel.fit(data.documents)  # type: ignore[attr-defined]
    images = [[text for at, text in enumerate(each) if at != QUERY] for each in data.references]
    table = fitted(images, [[text] for text in data.test.texts.values])
    scores = Scores.from_matrix(table, data.test.images.ids, data.test.texts.ids)
    found = evaluate(scores, data.test, measures=FOUND, name=name)
    return found, crowd(evaluate(scores, data.judged, protocol=PROTOCOL, name=name))


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Every variant, then the growth of each corpus."""
    if options.data is None:
        raise SystemExit("--data DIR: expected the folder that holds flickr8k/ and coco/")
    data = lexical_ablation.read(options)
    outside = {n: lines for n, lines in corpora(options.data, options.glosses).items() if "quarter" not in n}
    sizes = {}
    for title, (name, *steps) in PARTS.items():
        parts = {f"1/{step} of {title}": outside[name][::step] for step in steps if name in outside}
        sizes[title] = {part: sum(len(line.split()) for line in lines) for part, lines in parts.items()}
        outside |= {part: lines for part, lines in parts.items() if part != f"1/1 of {title}"}
    rows: dict[str, Reports] = {}
    for name, kernel in kernels(outside, data.reader, by_opennlp(data, options.opennlp)):
        if not options.variants or name in (FULL, "Tri5", *options.variants):
            rows[name] = timed(name, lambda kernel=kernel, name=name: reports(kernel, data, name))
    text = lexical_ablation.table(rows, len(data.train.images), "other captions in place of the image")
    log(text)
    if options.save and not options.quick:
        result_file(Path(__file__), options, ".md").write_text(text + "\n", encoding="utf-8")
    yield from lexical_ablation.single_changes(rows)
    for title, parts in sizes.items():
        if parts and all(_row(part) in rows for part in parts):
            yield from growth(rows, title, parts)


def growth(rows: Mapping[str, Reports], title: str, sizes: Mapping[str, int]) -> Iterator[Claim]:
    """Points that each doubling of a corpus brings, and what would be gained with a corpus as large as the paper's."""
    named = {part: _row(part) for part in sizes}
    doublings = np.log2(BRITISH / sizes[f"1/1 of {title}"])
    for task, said in TASKS.items():
        for measure in MEASURES:
            each = slopes([per_query(rows[named[part]], measure, task) for part in sizes], list(sizes.values()))
            interval = bootstrap(each)
            ends = ", ".join(f"{bound * doublings:+.1f}" for bound in (interval.low, interval.high))
            note = f"{each.mean():+.2f} [{interval.low:+.2f}, {interval.high:+.2f}]; "
            note += f"{doublings:.1f} doublings, to the size of the British National Corpus, would be "
            note += f"{each.mean() * doublings:+.1f} [{ends}]"
            what = f"{measure}, {said}: gained by each doubling of {title}"
            yield Claim(f"{what}, lower end of the 95% interval, points", interval.low, goal="> 0", note=note)


def slopes(values: Sequence[np.ndarray], sizes: Sequence[int]) -> np.ndarray:
    """The least-squares slope of each query's values over the doublings of the corpus.

    >>> slopes([np.array([0.0, 2.0]), np.array([1.0, 2.0]), np.array([2.0, 2.0])], [100, 200, 400]).tolist()
    [1.0, 0.0]
    """
    steps = np.log2(np.asarray(sizes, dtype=float))
    steps -= steps.mean()
    return np.asarray(steps @ np.stack(values) / (steps @ steps))


def _row(part: str) -> str:
    """The variant that uses a part of a corpus."""
    whole = {f"1/1 of {ENGLISH}": f"outside corpus: {ENGLISH}", "1/1 of COCO": FULL}
    return whole.get(part, f"outside corpus: {part}")


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of the ablation, with all training images."""
    lexical_ablation.configure(parser)


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
