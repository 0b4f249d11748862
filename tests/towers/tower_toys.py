"""A world of vectors that can be learned in a second, and options small enough for it."""

from __future__ import annotations

import os

import numpy as np

from limner import Collection, Embeddings, Items, Judgements

DEVICE = os.environ.get("LIMNER_TEST_DEVICE", "cpu")
"""`LIMNER_TEST_DEVICE=cuda pytest tests/towers` trains everything on a GPU."""
OPTIONS = {
    "word_dim": 8,
    "hidden_dim": 16,
    "embedding_dim": 16,
    "batch_size": 16,
    "min_count": 1,
    "device": DEVICE,
    "learning_rate": 0.01,
}
COLOURS, THINGS = (
    ("red", "blue", "green", "black", "white"),
    ("dog", "cat", "car", "tree", "boat", "hat", "cup", "ball"),
)


def world(images: int = 40, *, per_image: int = 2, seed: int = 0) -> tuple[Collection, Embeddings]:
    """Images of one coloured thing each, seen as noisy one-hot vectors, with texts that say so; two splits."""
    rng = np.random.default_rng(seed)
    kinds = rng.permutation(np.resize(np.arange(len(COLOURS) * len(THINGS)), images))
    colour, object_kind = np.divmod(kinds, len(THINGS))
    features = np.concatenate([np.eye(len(COLOURS))[colour], np.eye(len(THINGS))[object_kind]], axis=1)
    ids = [f"i{n}" for n in range(images)]
    frames = ("a {} {}", "one {} {} here", "the {} {} that stands there", "there is some {} {}")
    texts = [
        frames[n % 4].format(COLOURS[colour[i]], THINGS[object_kind[i]])
        for i in range(images)
        for n in range(per_image)
    ]
    names = [f"t{n}" for n in range(len(texts))]
    pairs = Judgements.from_pairs([(f"i{n // per_image}", name) for n, name in enumerate(names)])
    cut = images * 3 // 4
    collection = Collection(
        "small", Items(ids, [None] * images), Items(names, texts, kind="text"), pairs,
        {"train": ids[:cut], "dev": ids[cut:]},
    )  # fmt: skip
    return collection, Embeddings(ids, (features + 0.05 * rng.standard_normal(features.shape)).astype(np.float32))
