"""Late interaction on one GPU: exact top-10 of MaxSim, beside the bare product, a loop over queries and `fast-plaid`.

Needs torch and a GPU. 256 queries of 32 vectors over 10,000 items of 300 vectors, 128 dimensions; vectors are around
the topic of their item. `fast-plaid` searches an index that it has built before, and is approximate: its recall is
beside its time; it is left out where it is not installed, or fails. `--quick` takes a tenth of the size.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from claims import Claim, log, main
from late_interaction import TOPICS, K, tokens
from limner.scores import Scores
from match_gpu import lists, timed

EACH, DIMENSIONS = (32, 300), 128
STEP = 256
"""Items whose products a loop has in memory at once."""
Sides = tuple[dict[str, np.ndarray], dict[str, np.ndarray]]


def run(options: argparse.Namespace) -> Iterator[Claim]:
    import torch

    device, rounds = options.device, options.rounds
    n, m = (26, 1_000) if options.quick else (256, 10_000)
    sides = tokens(n, EACH[0], DIMENSIONS, 0, TOPICS), tokens(m, EACH[1], DIMENSIONS, 1, TOPICS)
    rows, columns = (torch.as_tensor(np.stack(list(side.values())), device=device) for side in sides)
    size = f"{n} queries of {EACH[0]} over {m:,} items of {EACH[1]} vectors, d = {DIMENSIONS}"

    def product() -> None:
        for low in range(0, m, STEP):
            torch.mm(rows.flatten(0, 1), columns[low : low + STEP].flatten(0, 1).T)

    def loop() -> Any:
        parts = [by_hand(rows, columns[low : low + STEP]) for low in range(0, m, STEP)]
        return torch.cat(parts, dim=1).topk(K, dim=1).indices.cpu()

    scores = Scores.from_sets(*sides, similarity="dot", pooling="maxsim", device=device)
    found = lists(scores, K)
    same = (np.asarray(loop()) == found[0]).all(axis=1).mean()
    log("the bare float32 product, a loop over blocks of items, and limner")
    bare, by_loop, ours = (timed(work, rounds) for work in (product, loop, lambda: lists(scores, K)))
    yield Claim(f"{size}: seconds vs the bare product", ours, bare, goal="<= 1.5")
    note = f"{same:.2%} of the lists are the same; torch breaks ties, and rounds, as it likes"
    yield Claim(f"{size}: seconds vs a loop over blocks of items", ours, by_loop, goal="<= 1.05", note=note)
    os.environ["LIMNER_LOW_PRECISION"] = "always"
    near = lists(scores, K)
    low = timed(lambda: lists(scores, K), rounds)
    os.environ["LIMNER_LOW_PRECISION"] = "never"
    yield Claim(f"{size}, low precision: seconds vs the bare product", low, bare, goal="<= 0.7")
    differ = sum((one != other).any(axis=1).sum() for one, other in zip(near, found, strict=True))
    yield Claim(f"{size}, low precision: lists and scores that differ in any bit", float(differ), goal="== 0")
    yield from beside_fast_plaid(sides, found[0], min(ours, low), options, size)


def by_hand(rows: Any, columns: Any) -> Any:
    """The scores as one would write them."""
    products = rows.flatten(0, 1) @ columns.flatten(0, 1).T
    return products.unflatten(0, rows.shape[:2]).unflatten(2, columns.shape[:2]).amax(dim=3).sum(dim=1)


def beside_fast_plaid(
    sides: Sides, exact: np.ndarray, ours: float, options: argparse.Namespace, size: str
) -> Iterator[Claim]:
    """The package's search, its index built before."""
    if not find_spec("fast_plaid"):
        log("fast_plaid is not installed: no claim beside it")
        return
    import torch
    from fast_plaid import search

    queries, items = (torch.as_tensor(np.stack(list(side.values()))) for side in sides)
    try:
        index = search.FastPlaid(index=tempfile.mkdtemp(), device=options.device)
        index.create(documents_embeddings=list(items))
        found = index.search(queries_embeddings=queries, top_k=K)
    except Exception as error:  # a package of others, which may fail in its own ways
        log(f"fast_plaid failed: no claim beside it\n{error}")
        return
    seconds = timed(lambda: index.search(queries_embeddings=queries, top_k=K), options.rounds)
    shares = [len({at for at, _ in row} & set(best)) / K for row, best in zip(found, exact.tolist(), strict=True)]
    note = f"{np.mean(shares):.3f} of the exact top-{K} are in its lists"
    yield Claim(f"{size}: seconds vs fast-plaid", ours, seconds, goal="< 1", note=note)


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", default="cuda", help="torch device (default: cuda)")
    parser.add_argument("--rounds", type=int, default=5)


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
