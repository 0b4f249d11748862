"""Re-ranking in pairs per second on a GPU: limner's scorer of pairs beside sentence-transformers' predict.

Model, workloads and turns as in `rerank.py`; predict also gets half precision with two sizes of batch: the better
counts.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from claims import Claim, log, main
from rerank import agree, claim, configure, interleaved, model_folder, workloads


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Both workloads on the card."""
    import torch

    if not torch.cuda.is_available():
        raise SystemExit("rerank_gpu needs a GPU: rerank.py measures the processor")
    options.device = "cuda"
    folder = model_folder(options)
    for name, pairs in workloads(options, 20 if options.quick else 200).items():
        log(f"{name}: {len(pairs[0]):,} pairs")
        yield from on_card(folder, name, pairs)


def on_card(folder: Path, name: str, pairs: tuple[list[str], list[str]]) -> Iterator[Claim]:
    """predict as it comes, and at its best in half precision; ours in half and in single precision."""
    import torch
    from sentence_transformers import CrossEncoder

    from limner.systems.towers.pairs import CrossEncoderScorer

    listed, plain = list(zip(*pairs, strict=True)), torch.nn.Identity()
    usual = CrossEncoder(str(folder), device="cuda")
    half = CrossEncoder(str(folder), device="cuda", model_kwargs={"dtype": torch.float16})
    ours, exact = (CrossEncoderScorer(folder, device="cuda", precision=p) for p in ("float16", "float32"))
    quiet = {"activation_fn": plain, "show_progress_bar": False}
    works: dict[str, Callable[[], Any]] = {"predict": lambda: usual.predict(listed, **quiet)}
    for size in (512, 2048):
        works[f"predict, half, {size}"] = lambda size=size: half.predict(listed, batch_size=size, **quiet)
    works |= {"limner": lambda: ours.score_pairs(*pairs), "limner, single": lambda: exact.score_pairs(*pairs)}
    for model in (usual, half):
        model.predict(listed[:2000], **quiet)
    for scorer in (ours, exact):
        scorer.score_pairs(pairs[0][:2000], pairs[1][:2000])
    found = interleaved(works, 3, "cuda")
    agree(found["limner, single"][2], found["predict"][2], 1e-3)
    best = min((n for n in found if "half" in n), key=lambda n: found[n][0])
    least = float(np.corrcoef(found["limner"][2], found["predict"][2])[0, 1])
    count, told = len(listed), f"correlation of half with single precision {least:.6f}"
    yield claim(f"{name}, H200, pairs/s, half precision against predict as it comes", count, found["limner"][0],
                 found["predict"][0], told)  # fmt: skip
    yield claim(f"{name}, H200, pairs/s, half precision on both sides", count, found["limner"][0], found[best][0],
                 f"predict at the better of two sizes of batch: {best}")  # fmt: skip
    yield claim(f"{name}, H200, pairs/s, single precision on both sides", count, found["limner, single"][0],
                 found["predict"][0], "scores within 1e-3")  # fmt: skip


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
