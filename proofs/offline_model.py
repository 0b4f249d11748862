"""The model for photographs that needs no hub, on Flickr8k: recall and median rank in both directions, and its speed.

`offline` joins an image classifier and a sentence encoder from packages by convex combination of semantic embeddings
(Norouzi et al. 2014), without a single pair of an image and a caption. By chance R@10 of a caption is 1.0 among 1,000
photographs. The trained system Tri5Sem of Hodosh, Young & Hockenmaier (2013) has 30.1, with one caption per photograph;
it is no goal. Settings were chosen on the split `dev`; `--split dev` measures that.

Needs Flickr8k with images (`--data`) and `pip install 'limner[onnx]'`. Encoding takes a minute of a CPU.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

import limner
from claims import Claim, log, main, set_part
from limner.core.collection import Collection
from limner.core.errors import MissingExtra
from limner.encoders.offline_model import OfflineModel
from limner.evaluation.results import Result
from limner.scores import Scores

DIRECTIONS = {"t2i": "caption to photograph", "i2t": "photograph to caption"}
LEAST = {"R@1": 5.0, "R@5": 15.0, "R@10": 30.0}
"""The least recall in percent, in both directions."""
SECONDS = 0.1
"""CPU-seconds for a photograph: 20 per second on two cores."""
QUICK = 200
"""Photographs of a quick run."""


def photographs(options: argparse.Namespace) -> Collection:
    """The photographs and captions of a split, or 200 of them."""
    if options.data is None or not (options.data / "flickr8k" / "images").is_dir():
        raise SystemExit("offline_model needs --data DIR with flickr8k/images in it (or LIMNER_DATA)")
    collection = limner.load(f"flickr8k:{options.data / 'flickr8k'}")
    part = collection.test if options.split == "test" else collection.dev
    return part.restrict(part.images.ids[:QUICK]) if options.quick else part


def claim_of(result: Result) -> Claim:
    """One measure of one direction, with its interval in the note."""
    name = str(result.measure)
    factor = 1 if name == "MedR" else 100
    interval = result.interval
    note = "" if interval is None else f"95% interval {factor * interval.low:.1f} to {factor * interval.high:.1f}"
    least = LEAST.get(name)
    goal = "<= 100" if least is None else f">= {least:g}"
    title = f"{DIRECTIONS[result.direction]}: {name}{'' if name == 'MedR' else ' in percent'}"
    return Claim(title, factor * result.value, goal=goal, note=note)


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Recall and ranks in both directions, then the speed."""
    collection = photographs(options)
    try:
        model = OfflineModel(threads=options.threads)
    except MissingExtra as error:
        raise SystemExit(str(error)) from None
    if options.split != "test":
        set_part(options, options.split)
    log(f"{len(collection.images):,} photographs, {len(collection.texts):,} captions")
    start = time.process_time()
    images = model.encode_images(collection.images)
    seconds = (time.process_time() - start) / len(collection.images)
    scores = Scores.from_embeddings(images, model.encode_texts(collection.texts))
    report = limner.evaluate(scores, collection, measures="R@1,R@5,R@10,MedR")
    for result in report.results:
        if result.view == "pairs":
            yield claim_of(result)
    note = f"{1 / seconds:.0f} per second and core; with decoding; photographs with a short side of 192 pixels"
    yield Claim("CPU-seconds to encode a photograph", seconds, goal=f"<= {SECONDS:g}", note=note)


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of this script."""
    parser.add_argument("--split", choices=("test", "dev"), default="test", help="part of Flickr8k (default: test)")
    parser.add_argument("--threads", type=int, help="photographs at a time (default: one for each core)")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
