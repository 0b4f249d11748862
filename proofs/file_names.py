"""The order of Messina et al. (2022) in miniature: captions found by picture and file name, across languages.

The task is built from real data, and this is how. Images are Flickr8k's, with an English caption and its German and
French translations (Multi30K); splits are Flickr8k's, since Multi30K's train overlaps Flickr8k's test. Each image gets
a file name in one language, drawn at random: a caption's words, each kept with 60%, 15% of those with a typing slip,
joined by underscores, percent-encoded, with an ending; 15% of the images get a camera's name, which says nothing. The
target is the image's caption in another language, drawn at random; the pool is the captions of all test images. The
name is cleaned as for Wikipedia. Training has every image with a name in each language, and captions in all three. The
frozen text backbone is the packaged multilingual universal sentence encoder; pictures are EfficientNet-Lite0 features.

MCProp was trained on an H200 (45 seconds each), and so was the CRank with pictures (20 seconds); the CRank without
on one core (about 20 minutes). `--scores DIR` keeps what was trained and scored, and goes on from what is there. CRank
learns from every training image with its names and captions in all languages; pairs that do not match are drawn at
random, or from the first 50 captions of the raw backbone (half of them, without pictures) or of the attentive proposer
(four fifths, with pictures). It re-ranks the first places of the attentive proposer's lists: alone, as in the paper, 10
of them, which is the paper's share (1,000 of 92,367), and 50; and 50 with a weight beside the proposer, the one of nine
that finds most on the dev images.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from claims import Claim, log, main
from limner.core.collection import Collection, Items
from limner.core.embeddings import Embeddings
from limner.core.judgements import Judgements
from limner.datasets.multilingual import load_multi30k
from limner.datasets.wikipedia import clean_file_name
from limner.scores import Scores

LANGUAGES = ("en", "de", "fr")
FUSIONS = ("text", "concat", "attentive")
LEARNING: dict[str, Any] = {"lr_decay": 0.3, "max_tokens": 32, "max_grad_norm": 1.0, "backbone": "use-multilingual"}
JUDGES: dict[str, dict[str, Any]] = {
    "crank": {"hidden_dim": 96, "layers": 1, "epochs": 2, "batch_size": 128, "learning_rate": 1e-3, "lr_decay_every": 1,
              "dropout": 0.1},
    "crank with pictures": {"hidden_dim": 256, "layers": 3, "epochs": 5, "batch_size": 512, "learning_rate": 5e-4,
                            "lr_decay_every": 2, "dropout": 0.3, "hard_negative_share": 0.8, "precision": "bfloat16",
                            "use_images": True},
}  # fmt: skip
"""The first trains on one CPU core, the second in 20 seconds on a GPU."""
MEASURES = "nDCG@5 R@1 R@5 R@10"
SEED = 5
KEPT, SLIP, CAMERA = 0.6, 0.15, 0.15
FEW, MANY = 10, 50
WEIGHTS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


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


def build(data: Path, split: str, *, limit: int | None = None) -> Collection:
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
        others = [other for other in LANGUAGES if split == "train" or other != asked[0]]
        found = others if split == "train" else [str(rng.choice(others))]
        texts |= {f"{image}#{other}": caption[f"{image}#{other}"] for other in found}
        pairs += [(f"{image}#{asking}", f"{image}#{other}") for asking in asked for other in found]
    images = Items(list(names), [None] * len(names), {"file_name": list(names.values())})
    return Collection(f"file names/{split}", images, Items(list(texts), list(texts.values()), kind="text"),
                      Judgements.from_pairs(pairs))  # fmt: skip


def features(data: Path, *collections: Collection) -> Embeddings:
    """The pictures' vectors under the ids of the task."""
    folder = data / "flickr8k" / "features"
    rows = np.load(folder / "efficientnet_lite0_pool1280_fp16.npy").astype(np.float32)
    place = {name: row for row, name in enumerate((folder / "image_names.txt").read_text().split())}
    ids = list(dict.fromkeys(key for c in collections for key in c.images.ids))
    return Embeddings(ids, rows[[place[key.partition("#")[0]] for key in ids]])


# --- training ---------------------------------------------------------------------------------------------------


def proposed(options: argparse.Namespace, folder: Path) -> None:
    """Trains MCProp with every fusion, and keeps its vectors; what is there is not trained again."""
    pools = {split: _pool(options, split) for split in ("train", "dev", "test")}
    train = pools["train"]
    vectors = features(options.data, *pools.values())
    for seed in range(1 if options.quick else options.seeds):
        for fusion in FUSIONS:
            if not _file(folder, "test", f"{fusion}-{seed}").is_file():
                model = _proposer(train, vectors, fusion, seed, options)
                for split, pool in pools.items():  # those of train are for the judges
                    held = {"queries": model.encode_images(pool.images).matrix}
                    held["captions"] = model.encode_texts(pool.texts).matrix
                    held["weights"] = np.array([[row["a_u"], row["a_v"]] for row in model.trained["history"]])
                    np.savez_compressed(_file(folder, split, f"{fusion}-{seed}"), **held)


def judged(options: argparse.Namespace, folder: Path, name: str) -> Any:
    """A trained CRank, from the folder where it was kept."""
    from limner.systems.towers import crank

    kept = folder / name.replace(" ", "-")
    if not (kept / "config.json").is_file():
        train = _pool(options, "train")
        pictures = JUDGES[name].get("use_images", False)
        proposer = _proposer_of_train(folder, train) if pictures else raw_backbone(train)
        seen = {"features": features(options.data, train)} if pictures else {}
        small = {"hidden_dim": 32, "layers": 1, "epochs": 1, "precision": "float32"} if options.quick else {}
        log(f"training {name}")
        made = crank.train(train, proposer=proposer, progress=_quiet, **{**LEARNING, **JUDGES[name], **seen, **small})
        log(f"  loss {[round(row['loss'], 3) for row in made.trained['history']]}")
        made.save(kept)
    return crank.CrankModel.load(kept)


def _proposer_of_train(folder: Path, train: Collection) -> Scores:
    """What the attentive proposer says of what it learned from."""
    kept = proposals(folder, "train", "attentive", train)
    if not kept:
        again = f"remove {folder}/test/attentive-0.npz and it is trained again"
        raise SystemExit(
            f"{folder}/train has no vectors of the attentive proposer, whose mistakes CRank needs: {again}"
        )
    return kept[0]


def _file(folder: Path, split: str, name: str) -> Path:
    (folder / split).mkdir(parents=True, exist_ok=True)
    return folder / split / f"{name.replace(' ', '-')}.npz"


def _proposer(train: Collection, vectors: Embeddings, fusion: str, seed: int, options: argparse.Namespace) -> Any:
    from limner.systems.towers import mcprop

    small = {"epochs": 1, "hidden_dim": 64, "layers": 1} if options.quick else {"epochs": 10, "hidden_dim": 384}
    log(f"training MCProp, fusion {fusion}, seed {seed}")
    how: dict[str, Any] = {
        "learning_rate": 3e-4,
        "lr_decay_every": 7,
        "weight_decay": 0.01,
        "dropout": 0.2,
        "max_grad_norm": 2.0,
    }
    how |= {"batch_size": 256, "loss": "max", "backbone": "use-multilingual"}
    model = mcprop.train(train, features=vectors, fusion=fusion, seed=seed, progress=_quiet, **how, **small)
    log(f"  loss {[round(row['loss'], 3) for row in model.trained['history']]}")
    return model


def _quiet(done: int, total: int) -> None:
    """The lines of the log say enough."""


# --- measuring --------------------------------------------------------------------------------------------------


def systems(pool: Collection, options: argparse.Namespace, kept: Path) -> Iterator[tuple[str, list[Any], str]]:
    """Every system's answers, one for each seed, and what is to be known of it."""
    from limner.systems.levenshtein import Levenshtein

    names, captions = list(pool.images.field("file_name")), list(pool.texts.values)
    letters = Levenshtein().scores(names, captions, queries=pool.images.ids, candidates=pool.texts.ids)
    yield "Levenshtein", [letters], ""
    yield "raw backbone", [raw_backbone(pool)], ""
    for fusion in FUSIONS:
        yield f"MCProp {fusion}", proposals(kept, options.split, fusion, pool), ""
    for name in JUDGES if not options.without_judges else ():
        judge = judged(options, kept, name)
        first = _Cascading(judge, proposals(kept, options.split, "attentive", pool)[0], pool, options.data, kept)
        for depth in (FEW, MANY):
            yield f"cascade, {name}, first {depth}", [first.ranked(1.0, depth)], ""
        weight = _best_weight(judge, options, kept)
        yield f"cascade, {name} and proposer", [first.ranked(weight, MANY)], f"weight {weight}, chosen on dev; "


def raw_backbone(pool: Collection) -> Scores:
    """Cosines of names and captions as the frozen backbone has them."""
    from limner.encoders import encoder

    raw = encoder("use-multilingual")
    names, captions = list(pool.images.field("file_name")), list(pool.texts.values)
    return Scores.from_embeddings(
        Embeddings(pool.images.ids, raw.encode(names)), Embeddings(pool.texts.ids, raw.encode(captions))
    )


def proposals(kept: Path, split: str, fusion: str, pool: Collection) -> list[Scores]:
    """What MCProp says, for each seed."""
    return [_cosines(pool, np.load(file)) for file in sorted((kept / split).glob(f"{fusion}-*.npz"))]


@dataclass(frozen=True)
class _Cascading:
    """A judge behind a proposer; scores of pairs are kept, so that another weight costs nothing."""

    judge: Any
    proposer: Scores
    pool: Collection
    data: Path
    kept: Path

    def ranked(self, weight: float, depth: int) -> Any:
        from limner.match import cascade

        seen = features(self.data, self.pool) if self.judge.judge.picture is not None else None
        queries = self.judge.queries(self.pool, features=seen)
        asked = {"queries": queries, "candidates": list(self.pool.texts.values), "cache": self.kept / "pairs"}
        found = cascade(self.proposer, self.judge, depth=depth, rest=True, weight=weight, **asked)
        log(repr(found))
        return found


def _best_weight(judge: Any, options: argparse.Namespace, kept: Path) -> float:
    """The weight that finds most on the dev images."""
    import limner

    pool = _pool(options, "dev")
    first = _Cascading(judge, proposals(kept, "dev", "attentive", pool)[0], pool, options.data, kept)

    def found(weight: float) -> float:
        return _value(limner.evaluate({"i2t": first.ranked(weight, MANY)}, pool, measures=MEASURES), "nDCG@5")

    return max(WEIGHTS, key=found)


def _cosines(pool: Collection, held: Any) -> Scores:
    sides = Embeddings(pool.images.ids, held["queries"]), Embeddings(pool.texts.ids, held["captions"])
    return Scores.from_embeddings(*sides)


def _pool(options: argparse.Namespace, split: str) -> Collection:
    return build(options.data, split, limit=60 if options.quick else None)


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Trains what is not kept, measures, and holds the published order."""
    if options.data is None:
        raise SystemExit("file_names needs Flickr8k with its translations and features: --data DIR")
    kept = Path(options.scores or tempfile.mkdtemp())
    proposed(options, kept)
    if not options.train_only:
        yield from claimed(_pool(options, options.split), options, kept)


def claimed(pool: Collection, options: argparse.Namespace, kept: Path) -> Iterator[Claim]:
    """The published order, pair by pair, each with the interval of the difference."""
    import limner

    log(f"{len(pool.images):,} queries, {len(pool.texts):,} captions")
    reports, about = {}, {}
    for name, seeds, known in systems(pool, options, kept):
        about[name] = known
        reports[name] = [limner.evaluate({"i2t": s}, pool, measures=MEASURES, name=name) for s in seeds]
        log(f"{name}: " + ", ".join(f"{m} {_mean(reports[name], m)}" for m in MEASURES.split()))
    order = [
        ("Levenshtein", "MCProp attentive", "> 1"),
        *(("MCProp attentive", f"cascade, {name}, first {depth}", "> 1") for name in JUDGES for depth in (FEW, MANY)),
        ("MCProp attentive", "cascade, crank and proposer", "> 1"),
        ("MCProp attentive", "cascade, crank with pictures and proposer", "> 1"),
        (f"cascade, crank, first {FEW}", f"cascade, crank with pictures, first {FEW}", "> 1"),
        ("MCProp concat", "MCProp attentive", ">= 1"),
        ("MCProp text", "MCProp concat", ">= 1"),
        ("raw backbone", "MCProp attentive", "> 1"),
    ]
    for worse, better, goal in (row for row in order if row[0] in reports and row[1] in reports):
        common = min(len(reports[better]), len(reports[worse]))
        for measure in ("nDCG@5", "R@1", "R@10"):
            if measure == "R@10" and better.endswith(f"first {FEW}"):
                continue  # the first 10 in another order are the first 10
            ours, theirs = (float(np.mean([_value(r, measure) for r in reports[n][:common]])) for n in (better, worse))
            note = about[better] + _difference(reports[better], reports[worse], measure)
            yield Claim(f"{measure} of {better} against {worse}", ours, theirs, goal, note)


def _value(report: Any, measure: str) -> float:
    return float(report.value(measure, direction="i2t"))


def _mean(reports: list[Any], measure: str) -> str:
    values = [_value(report, measure) for report in reports]
    interval = reports[0].find(measure, direction="i2t").interval
    spread = f" (seeds {min(values):.3f} to {max(values):.3f})" if len(values) > 1 else ""
    return f"{np.mean(values):.3f} [{interval.low:.3f}, {interval.high:.3f}]{spread}"


def _difference(better: list[Any], worse: list[Any], measure: str) -> str:
    """The paired difference of the first seeds with its 95% interval."""
    found = better[0].compare(worse[0]).line(measure, direction="i2t").between(0, 1)
    low, high = found.interval.low, found.interval.high
    return f"seed 0: difference {found.value:+.3f} [{low:+.3f}, {high:+.3f}], p = {found.test.p_value:.2g}"


def configure(parser: argparse.ArgumentParser) -> None:
    """Where scores are kept, and what to train."""
    parser.add_argument("--scores", type=Path, help="folder that keeps what every system says")
    parser.add_argument("--train-only", action="store_true", help="train and keep, measure later (on another machine)")
    parser.add_argument("--split", default="test", choices=("dev", "test"), help="what to measure on")
    parser.add_argument("--seeds", type=int, default=1, help="of MCProp")
    parser.add_argument("--without-judges", action="store_true", help="measure the proposers only")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
