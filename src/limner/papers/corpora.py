"""Texts that papers use in place of captions: summaries, Visual Genome's region descriptions, and translations.

Lymperaiou et al. (2022, section 3.2) summarise the captions of an image with T5 or Pegasus before they embed them, and
on the images that Visual Genome shares with COCO they take the region descriptions as captions. Messina et al. (2022,
appendix B) translate captions and the names of files into English before MCProp and CRank read them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.paths import damage_told, read_json
from limner.core.registry import Registry
from limner.datasets.wikipedia import image_names
from limner.language.word_overlap import content_words

Summarise = Callable[[Sequence[str]], str]
SAME = 0.95
"""Sentences with a higher cosine similarity count as duplicates: only one of them is used."""


class Extractive:
    """Extractive summaries without a model: the sentences of a corpus that are most similar to all others.

    Centrality is the mean cosine similarity between a sentence's content words and those of every other sentence
    (degree centrality of LexRank, Erkan and Radev 2004). Sentences that duplicate one already chosen are skipped.

    Args:
        sentences: Maximum number of sentences in a summary.

    >>> Extractive()(["A dog runs on grass.", "A brown dog runs over the grass.", "The sky."])
    'A dog runs on grass.'
    """

    def __init__(self, *, sentences: int = 1) -> None:
        if sentences < 1:
            raise LimnerError(f"sentences={sentences}: expected 1 or more")
        self.sentences = sentences

    def __call__(self, texts: Sequence[str]) -> str:
        """The summary of one corpus."""
        if not texts:
            raise LimnerError("no text to summarise: expected at least one")
        bags = [Counter(content_words(text)) for text in texts]
        alike = [[_cosine(one, second) for second in bags] for one in bags]
        order = sorted(range(len(texts)), key=lambda at: (-sum(alike[at]) + alike[at][at], at))
        chosen: list[int] = []
        for at in order:
            if len(chosen) < self.sentences and all(alike[at][before] <= SAME for before in chosen):
                chosen.append(at)
        return " ".join(texts[at] for at in sorted(chosen))


def _cosine(one: Counter[str], second: Counter[str]) -> float:
    """Cosine similarity of two bags of words; 0 if one is empty.

    >>> round(_cosine(Counter("aab"), Counter("abb")), 3)
    0.8
    """
    norm = math.sqrt(sum(n * n for n in one.values()) * sum(n * n for n in second.values()))
    return sum(n * second[word] for word, n in one.items()) / norm if norm else 0.0


SUMMARISERS: Registry[Callable[..., Summarise]] = Registry(
    "summariser",
    {"extractive": "limner.papers.corpora:Extractive", "transformers": "limner.encoders.encoder_decoders:Summariser"},
)


def summariser(name: str, *, trusted: bool = True, **options: object) -> Summarise:
    """A summariser by name: "extractive", or "transformers" with `model=` a folder or name of T5, Pegasus or BART.

    Args:
        name: One of `SUMMARISERS`, or "module:thing" for a custom one.
        trusted: Whether "module:thing" may be imported.
        options: Options of the summariser.

    >>> summariser("extractive", sentences=2).sentences
    2
    """
    return SUMMARISERS.find(name, trusted=trusted)(**SUMMARISERS.checked(name, options, trusted=trusted))


def translated(collection: Collection, translate: Callable[[Sequence[str]], Sequence[str]]) -> Collection:
    """The collection with translated captions, and the translated names of its images as their field "file_name".

    Args:
        collection: The collection.
        translate: A function from texts to their translations, such as `limner.encoders.encoder_decoders.Translator`.

    >>> import limner
    >>> world = limner.load("scenes", images=2)
    >>> loud = translated(world, lambda texts: [text.upper() for text in texts])
    >>> loud.texts.values[0] == world.texts.values[0].upper(), loud.images.field("file_name")
    (True, ('SCENE-000000', 'SCENE-000001'))
    """
    names, captions = image_names(collection.images), list(collection.texts.values)
    translations = list(translate([*names, *captions]))
    images = collection.images.with_fields(file_name=translations[: len(names)])
    return replace(collection, images=images, texts=replace(collection.texts, values=translations[len(names) :]))


def read_regions(path: str | Path, *, image_data: str | Path | None = None) -> dict[str, list[str]]:
    """The region descriptions of each image from Visual Genome's `region_descriptions.json`, by image id.

    Args:
        path: The file.
        image_data: Visual Genome's `image_data.json`: images are then identified by their COCO id, and those without
            one are left out.
    """
    content = read_json(path, what="Visual Genome JSON")
    if not isinstance(content, list):
        raise LimnerError(f"{path}: expected a list of images as in Visual Genome's region_descriptions.json")
    names = None if image_data is None else _coco_ids(image_data)
    regions: dict[str, list[str]] = {}
    with damage_told(path, what="Visual Genome JSON"):
        for number, image in enumerate(content):
            key, listed = image.get("id", image.get("image_id")), image.get("regions")
            if key is None or not isinstance(listed, list):
                raise LimnerError(f"{path}: image {number} has no id or no regions; expected both")
            name = str(key) if names is None else names.get(str(key))
            phrases = [" ".join(str(region["phrase"]).split()) for region in listed]
            if name is not None:
                regions[name] = [phrase for phrase in phrases if phrase]
    return regions


def _coco_ids(path: str | Path) -> Mapping[str, str]:
    content = read_json(path, what="Visual Genome JSON")
    if not isinstance(content, list):
        raise LimnerError(f"{path}: expected a list of images as in Visual Genome's image_data.json")
    with damage_told(path, what="Visual Genome JSON"):
        rows = [(image.get("image_id", image.get("id")), image.get("coco_id")) for image in content]
        return {str(key): str(coco) for key, coco in rows if key is not None and coco is not None}
