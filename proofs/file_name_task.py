"""The task of `file_names.py`: captions to be found by an image and its file name, from Flickr8k and its translations.

Images are Flickr8k's, with an English caption and its German and French translations (Multi30K); splits are Flickr8k's,
since Multi30K's train overlaps Flickr8k's test. Each image gets a file name in one language, drawn at random: a
caption's words, each kept with 60%, 15% of those with a typing slip, joined by underscores, percent-encoded, with an
ending; 15% of the images get a camera's name, which says nothing. The target is the image's caption, in the language of
the name for a share of the images and in another one for the rest. The paper does not say how often name and caption
share a language, but it says what Levenshtein similarity finds, nDCG@5 0.356: the share was chosen so that it finds as
much on the dev images, and the test images are the check. The pool is the captions of all test images. The name is
cleaned as for Wikipedia. Training has every image with a name in each language, and captions in all three.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from urllib.parse import quote

import numpy as np

from limner.core.collection import Collection, Items
from limner.core.embeddings import Embeddings
from limner.core.judgements import Judgements
from limner.datasets.multilingual import load_multi30k
from limner.datasets.wikipedia import clean_file_name

LANGUAGES = ("en", "de", "fr")
SEED = 5
KEPT, SLIP, CAMERA = 0.6, 0.15, 0.15
SAME = 0.45
"""Share of targets in the language of the name: Levenshtein similarity then has the paper's nDCG@5 on dev."""


def file_name(caption: str, rng: np.random.Generator) -> str:
    """A file name as people and cameras give them, made from a caption."""
    ending = rng.choice([".jpg", ".JPG", ".png", ".jpeg"])
    if rng.random() < CAMERA:
        return f"{rng.choice(['DSC', 'IMG_', 'P10'])}{rng.integers(1000, 99999)}{ending}"
    words = [w.strip(".,!?;:\"'") for w in caption.split()]
    words = [w for w in words if w]
    kept_words = [w for w in words if rng.random() < KEPT] or words[:2]
    slipped = [_slip(w, rng) if rng.random() < SLIP else w for w in kept_words]
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
def build(data: Path, split: str, limit: int | None = None) -> Collection:
    """The task of a split: "train" has names and captions in every language, the others one of each.

    Args:
        data: The folder of data sets.
        split: Of Flickr8k.
        limit: Only so many images.
    """
    table = data / "flickr8k" / "multilingual_en_de_fr_cs.tsv"
    collection = load_multi30k(table, split=split, languages=LANGUAGES, splits="flickr8k")
    rng = np.random.default_rng([SEED, len(split)])
    caption = dict(zip(collection.texts.ids, collection.texts.values, strict=True))
    names: dict[str, str] = {}
    texts: dict[str, str] = {}
    pairs = []
    for image in list(collection.images.ids)[:limit]:
        query_languages = LANGUAGES if split == "train" else (str(rng.choice(LANGUAGES)),)
        keys = [f"{image}#{language}" for language in query_languages]
        names |= {key: clean_file_name(file_name(caption[key], rng)) for key in keys}
        target_languages = LANGUAGES if split == "train" else (_target(query_languages[0], rng),)
        texts |= {
            f"{image}#{target_language}": caption[f"{image}#{target_language}"] for target_language in target_languages
        }
        pairs += [(key, f"{image}#{target_language}") for key in keys for target_language in target_languages]
    images = Items(list(names), [None] * len(names), {"file_name": list(names.values())})
    return Collection(f"file names/{split}", images, Items(list(texts), list(texts.values()), kind="text"),
                      Judgements.from_pairs(pairs))  # fmt: skip


def _target(query_language: str, rng: np.random.Generator) -> str:
    """The language of the target."""
    alike, other_language = (
        rng.random() < SAME,
        str(rng.choice([each for each in LANGUAGES if each != query_language])),
    )
    return query_language if alike else other_language


def features(data: Path, *collections: Collection) -> Embeddings:
    """The pictures' vectors under the ids of the task."""
    folder = data / "flickr8k" / "features"
    rows = np.load(folder / "efficientnet_lite0_pool1280_fp16.npy").astype(np.float32)
    place = {name: row for row, name in enumerate((folder / "image_names.txt").read_text().split())}
    ids = list(dict.fromkeys(key for c in collections for key in c.images.ids))
    return Embeddings(ids, rows[[place[key.partition("#")[0]] for key in ids]])
