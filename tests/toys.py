"""A toy collection with known structure, and systems of known quality on it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from limner import Collection, Embeddings, Items, Judgements, Scores


def collection(n: int = 60, per_image: int = 5, *, folds: int = 0, extra: bool = False) -> Collection:
    """n images with the same number of captions each; image i and i + 1 also match under "complete"."""
    images, texts = [f"i{k}" for k in range(n)], [f"t{k}" for k in range(n * per_image)]
    pairs = [(f"i{k // per_image}", f"t{k}") for k in range(n * per_image)]
    fields = [
        {"fold": [k * folds // n for k in range(n)]},
        {"fold": [k // per_image * folds // n for k in range(n * per_image)]},
    ]
    neighbours = [(f"i{(k // per_image + 1) % n}", f"t{k}") for k in range(n * per_image)]
    return Collection(
        "toy",
        Items(images, [None] * n, fields[0] if folds else {}),
        Items(texts, [f"caption {k}" for k in range(n * per_image)], fields[1] if folds else {}, "text"),
        Judgements.from_pairs(pairs),
        extra={"complete": Judgements.from_pairs(pairs + neighbours)} if extra else {},
    )


def scores(of: Collection, *, noise: float = 1.0, seed: int = 0, dim: int = 16) -> Scores:
    """Images and texts near one point per image; more noise, worse system."""
    rng = np.random.default_rng(seed)
    n, per_image = len(of.images), len(of.texts) // len(of.images)
    centre = rng.standard_normal((n, dim))
    image = centre + noise * rng.standard_normal((n, dim))
    text = np.repeat(centre, per_image, axis=0) + noise * rng.standard_normal((n * per_image, dim))
    return Scores.from_embeddings(Embeddings(of.images.ids, image), Embeddings(of.texts.ids, text))


def named(world: Collection) -> Collection:
    """The collection with file names of images: every other word of the first caption."""
    first = dict.fromkeys(world.images.ids)
    for image, text in zip(world.judgements.rows, world.judgements.columns, strict=True):
        key = world.images.ids[int(image)]
        first[key] = first[key] or " ".join(world.texts.values[int(text)].split()[::2])
    return replace(world, images=world.images.with_fields(file_name=list(first.values())))
