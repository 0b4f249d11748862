"""How well metrics of captions agree with people on Flickr8k: published correlations, their reading, and intervals.

Hessel et al. (2021, CLIPScore) print tau-c on Flickr8k-Expert and tau-b on Flickr8k-CF, later papers such as PAC-S
(Sarto et al. 2023) both; none has intervals. Here the same numbers come with intervals by image and tests of the
differences, and with other readings of the judgements. With `--peers DIR`, a folder with pycocoevalcap, METEOR 1.5
joins (needs java). `docs/caption_metrics.md` says what the tables mean.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from claims import Claim, log, main
from limner.datasets.candidate_captions import JudgedCaptions, read_judged
from limner.datasets.flickr import load_flickr8k
from limner.evaluation.captions.caption_metrics import MetricInputs, caption_metrics
from limner.evaluation.captions.rating_agreement import AgreementReport, metric_agreement
from limner.language.caption_overlap import treebank_words
from limner.stats.jackknife import clustered_correlation

Scores = dict[str, npt.NDArray[np.float64]]

CLASSICAL = "BLEU-1 BLEU-4 ROUGE-L CIDEr-D"
FURTHER = f"{CLASSICAL} CIDEr concept-F"
PRINTED = {
    "flickr8k-expert": {
        "BLEU-1": ("32.2", "32.3"), "BLEU-4": ("30.6", "30.8"), "ROUGE-L": ("32.1", "32.3"),
        "METEOR": ("41.5", "41.8"), "CIDEr-D": ("43.6", "43.9"),
    },
    "flickr8k-cf": {
        "BLEU-1": ("17.9", "9.3"), "BLEU-4": ("16.9", "8.7"), "ROUGE-L": ("19.9", "10.3"),
        "METEOR": ("22.2", "11.5"), "CIDEr-D": ("24.6", "12.7"),
    },
}  # fmt: skip
"""Tau-b and tau-c in print, times 100. What papers call CIDEr is CIDEr-D."""
READINGS = {
    "each image loses its judged own captions as references": "image-references",
    "own captions left out": "leave-out",
    "own captions compared with the other references": "other-references",
    "own captions kept, all five references": "keep",
}


def scored(judged: JudgedCaptions, names: str | None) -> Scores:
    """The metrics of every judged caption."""
    inputs = MetricInputs(judged)
    return {metric.name: metric.of(inputs) for metric in caption_metrics(names, inputs.sources)}


def meteor(judged: JudgedCaptions, peers: Path | None) -> Scores:
    """METEOR 1.5 of pycocoevalcap, if it is there."""
    if peers is None:
        return {}
    sys.path.insert(0, str(peers))
    from pycocoevalcap.meteor.meteor import Meteor

    def words(text: str) -> str:
        return " ".join(treebank_words(text))

    rows = range(len(judged))
    theirs = {row: [words(text) for text in judged.references[row]] for row in rows}
    return {"METEOR": np.array(Meteor().compute_score(theirs, {row: [words(judged.captions[row])] for row in rows})[1])}


def against_print(judged: JudgedCaptions, scores: Scores) -> Iterator[Claim]:
    """Both taus of every metric in print, with ours."""
    for metric, taus in PRINTED[judged.name].items():
        if metric not in scores:
            continue
        for coefficient, printed in zip(("tau-b", "tau-c"), taus, strict=True):
            report = metric_agreement(judged, {metric: scores[metric]}, coefficient=coefficient, every=False)
            value = report.value(metric)
            ends = f"95% interval by image {100 * value.low:.1f} to {100 * value.high:.1f}"
            name = f"{judged.name}: {coefficient} of {metric}, {judged.aggregation} rating, times 100"
            yield Claim(name, 100 * value.estimate, float(printed), "within 0.05", ends, source="print")


def readings(source: str, folder: Path) -> str:
    """The classical metrics under each reading of own captions."""
    lines = [
        f"{source}: usual coefficient, times 100",
        f"  {'reading':58}" + "".join(f"{m:>9}" for m in CLASSICAL.split()),
    ]
    for about, treatment in READINGS.items():
        lines.append(row(about, read_judged(f"{source}:{folder}", own=treatment)))
    lines.append(row("the four captions that were never judged as references", four_references(source, folder)))
    return "\n".join(lines)


def row(about: str, judged: JudgedCaptions) -> str:
    """One reading."""
    report = metric_agreement(judged, scored(judged, CLASSICAL), every=False)
    return f"  {about:58}" + "".join(f"{100 * report.value(metric).estimate:9.2f}" for metric in CLASSICAL.split())


def four_references(source: str, folder: Path) -> JudgedCaptions:
    """All pairs, with the captions of each image whose number is not that of the pool as references."""
    collection = load_flickr8k(folder, captions=(0, 1, 3, 4), captions_per_image=None)
    texts: dict[str, list[str]] = {}
    for image, text, _ in collection.judgements:
        texts.setdefault(image, []).append(collection.texts.values[collection.texts.ids.index(text)])
    judged = read_judged(f"{source}:{folder}", own="keep")
    return replace(judged, references=tuple(tuple(texts[image]) for image in judged.images))


def widening(judged: JudgedCaptions, scores: npt.NDArray[np.float64]) -> float:
    """The standard error if captions are clusters too (Cameron, Gelbach & Miller 2011), divided by that by image."""
    people = np.array([np.mean(ratings) for ratings in judged.ratings])
    pairs = [f"{image} {caption}" for image, caption in zip(judged.images, judged.captions, strict=True)]
    image, caption, pair = (
        clustered_correlation(scores, people, clusters=clusters, coefficient="tau-b").standard_error
        for clusters in (judged.images, judged.captions, pairs)
    )
    return float(np.sqrt(image**2 + caption**2 - pair**2) / image)


def orders(report: AgreementReport, published: Mapping[str, tuple[str, str]]) -> Iterator[Claim]:
    """Which orders of metrics in print are significant."""
    column = ("tau-b", "tau-c").index(report.coefficient)
    printed = {metric: float(taus[column]) for metric, taus in published.items()}
    pairs = [
        d for d in report.differences if {d.first, d.second} <= printed.keys() and printed[d.first] != printed[d.second]
    ]
    lost = [d for d in pairs if d.p_value >= 0.05]
    listed = "; ".join(f"{d.first} and {d.second} ({d.difference}, p {d.p_value:.2g})" for d in lost)
    note = f"not separable: {listed}" if lost else ""
    name = f"{report.name}: orders of two metrics in print that are significant, of {len(pairs)}"
    yield Claim(name, len(pairs) - len(lost), goal=">= 1", note=note)


def run(options: argparse.Namespace) -> Iterator[Claim]:
    if options.data is None:
        sys.exit("no data: give --data DIR (or LIMNER_DATA) with flickr8k/ in it")
    folder = options.data / "flickr8k" if (options.data / "flickr8k").is_dir() else options.data
    for source in PRINTED if not options.quick else ("flickr8k-expert",):
        judged = read_judged(f"{source}:{folder}")
        scores = scored(judged, CLASSICAL if options.quick else FURTHER) | meteor(judged, options.peers)
        yield from against_print(judged, scores)
        report = metric_agreement(judged, scores, every=source == "flickr8k-expert" and not options.quick)
        log(f"\n{report}\n")
        yield from orders(report, PRINTED[source])
        name = f"{source}: standard error of tau-b of CIDEr-D by image and caption, against by image"
        yield Claim(name, widening(judged, scores["CIDEr-D"]), goal="<= 1.5")
        if not options.quick:
            log(readings(source, folder))


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--peers", type=Path, help="a folder with pycocoevalcap, for METEOR (needs java)")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
