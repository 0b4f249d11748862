"""Why the max loss can make all embeddings equal: what that costs, and small towers that do it.

If all embeddings are one point, every violation is the margin. With the hardest negative alone (max) that is less than
random embeddings cost, whose hardest negative is far above the mean; summed over all negatives it is as much. So where
the two sides are weakly related, a step of the max loss first pulls everything together. Two layers on each side learn
to match two noisy views of the same 16 numbers, with three seeds: max from the start, max after some steps of the sum
loss, and limner's adaptive loss. The mean cosine of unseen items tells whether they are one point.

MCProp did the same on the task of `file_names.py`. Needs torch and half a minute.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from claims import Claim, log, main

MARGIN, BATCH, DIMENSIONS = 0.2, 128, 384
TRAINED, UNSEEN, LATENT, SEEN, WIDTH = 2000, 300, 16, 64, 128
STEPS, SUM_STEPS, RATE = 250, 60, 1e-3
STRONG, WEAK = 1.0, 2.5
"""Noise of a view, as a multiple of what the two views share."""
WAYS = {"max": ("max", 0), "max after sum": ("max", SUM_STEPS), "adaptive": ("adaptive", 0)}


def costs(name: str) -> tuple[float, float]:
    """The loss of a batch of equal embeddings, and of random ones, for each pair."""
    import torch
    from torch.nn.functional import normalize

    from limner.systems.towers.losses import LOSSES

    random = torch.Generator().manual_seed(0)
    sides = [normalize(torch.randn(BATCH, DIMENSIONS, generator=random), dim=1) for _ in range(2)]
    right = torch.eye(BATCH, dtype=torch.bool)
    found = (LOSSES[name](scores, right, margin=MARGIN) for scores in (torch.ones(BATCH, BATCH), sides[0] @ sides[1].T))
    equal, other = (float(each) / BATCH for each in found)
    return equal, other


def views(noise: float, seed: int) -> Any:
    """Two noisy views of the same numbers."""
    import torch

    random = torch.Generator().manual_seed(seed)
    shared = torch.randn(TRAINED + UNSEEN, LATENT, generator=random)
    return [
        shared @ torch.randn(LATENT, SEEN, generator=random) / LATENT**0.5
        + noise * torch.randn(TRAINED + UNSEEN, SEEN, generator=random)
        for _ in range(2)
    ]


def trained(way: str, noise: float, seed: int) -> tuple[float, float]:
    """The mean cosine of different unseen items of one side, and their R@10 in percent."""
    import torch
    from torch.nn.functional import normalize

    from limner.systems.towers.losses import LOSSES

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    loss, first = WAYS[way]
    seen = views(noise, seed)
    layers = [
        torch.nn.Sequential(torch.nn.Linear(SEEN, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, SEEN))
        for _ in range(2)
    ]
    optimizer = torch.optim.Adam([p for each in layers for p in each.parameters()], lr=RATE)
    right = torch.eye(BATCH, dtype=torch.bool)
    for step in range(STEPS):
        rows = torch.randint(0, TRAINED, (BATCH,))
        one, other = (normalize(layer(side[rows]), dim=1) for layer, side in zip(layers, seen, strict=True))
        cost = LOSSES[loss if step >= first else "sum"](one @ other.T, right, margin=MARGIN) / BATCH
        optimizer.zero_grad()
        cost.backward()
        optimizer.step()
    with torch.no_grad():
        one, other = (normalize(layer(side[TRAINED:]), dim=1) for layer, side in zip(layers, seen, strict=True))
        places = (one @ other.T).topk(10, dim=1).indices
        hits = (places == torch.arange(UNSEEN)[:, None]).any(dim=1).float().mean()
        alike = ((one @ one.T).sum() - UNSEEN) / (UNSEEN * (UNSEEN - 1))
    return float(alike), 100 * float(hits)


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """What equal embeddings cost, then what is learned."""
    for name, goal in (("max", "<= 0.7"), ("sum", ">= 0.95"), ("adaptive", ">= 0.9")):
        equal, random = costs(name)
        note = f"batches of {BATCH}, {DIMENSIONS} dimensions, margin {MARGIN}"
        yield Claim(f"{name}: loss of equal embeddings, over that of random ones", equal, random, goal, note,
                    source="theory")  # fmt: skip
    for noise, views_are in ((WEAK, "weakly"), (STRONG, "strongly")):
        for way in WAYS:
            rows = [trained(way, noise, seed) for seed in range(1 if options.quick else 3)]
            alike, hits = np.array(rows).T
            note = f"{len(rows)} seeds, cosines {', '.join(f'{a:.2f}' for a in alike)}; R@10 {hits.mean():.0f}%"
            log(f"{way}, {views_are} related: {note}")
            fails = way == "max" and noise == WEAK
            value, goal = (alike.min(), ">= 0.8") if fails else (alike.max(), "<= 0.2")
            what = f"{way}, {views_are} related sides: mean cosine of unseen items, {'least' if fails else 'most'}"
            yield Claim(what, float(value), goal=goal, note=note)


if __name__ == "__main__":
    main(run, __doc__)
