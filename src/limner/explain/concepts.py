"""Concepts of images and of captions: objects, counts, positions, attributes and relations.

An object is a dict, as in the image field "objects" of `scenes` and COCO: "synset" or "name", and where known
"box" (left, top, right, bottom), attributes such as "colour" and "size", or a list "attributes". Visual Genome's JSON
and a csv are read into the same form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from limner.core.collection import Collection, Items
from limner.core.errors import LimnerError, shown
from limner.core.paths import damage_told, read_json
from limner.core.progress import ProgressLike, as_progress, counting
from limner.datasets.text_files import JsonObject, table
from limner.explain.noun_phrases import phrases
from limner.language.wordnet import WordNet

Box = tuple[float, float, float, float]
Relation = tuple[str, str, str]

ATTRIBUTES = ("colour", "color", "size", "material", "place", "action")
SPELLING = {"color": "colour"}


@dataclass(frozen=True)
class ImageObject:
    """One object of an image.

    Args:
        concept: Its synset, or its plain name if WordNet has no synset for it.
        box: Left, top, right, bottom; None if unknown.
        attributes: (what, value) pairs, such as ("colour", "red"); ("", value) where only the value is known.
        area: Area as a share of the image, or in pixels where its size is unknown; None without a box.
    """

    concept: str
    box: Box | None = None
    attributes: frozenset[tuple[str, str]] = frozenset()
    area: float | None = None

    def value(self, attribute: str) -> str | None:
        """The value of one attribute, if known."""
        return next((value for name, value in self.attributes if name == attribute), None)


@dataclass(frozen=True)
class Concepts:
    """The content of an image.

    Args:
        things: Its objects.
        relations: (concept, relation, concept).
        setting: The background, if known.
    """

    things: tuple[ImageObject, ...] = ()
    relations: frozenset[Relation] = frozenset()
    setting: str | None = None

    @cached_property
    def counts(self) -> Counter[str]:
        """How many objects there are of each concept."""
        return Counter(item.concept for item in self.things)

    @property
    def names(self) -> frozenset[str]:
        """V(.): the set of concepts."""
        return frozenset(self.counts)

    def only(self, names: Iterable[str]) -> Concepts:
        """The content restricted to these concepts."""
        chosen = frozenset(names)
        relations = frozenset(r for r in self.relations if r[0] in chosen and r[2] in chosen)
        return Concepts(tuple(t for t in self.things if t.concept in chosen), relations, self.setting)


@dataclass(eq=False)
class Faults:
    """Counts of problems with the objects; none of them prevents an explanation."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, problem: str, example: str) -> None:
        """Records one problem."""
        self.counts[problem] += 1
        self.examples.setdefault(problem, example)

    def notes(self) -> list[str]:
        """One line for each kind of problem, with its first example."""
        return [f"{n:,} {problem}, e.g. {self.examples[problem]}" for problem, n in self.counts.most_common()]


def of_images(
    images: Items,
    wordnet: WordNet,
    *,
    faults: Faults | None = None,
    objects: str = "objects",
    progress: ProgressLike = None,
) -> dict[str, Concepts]:
    """The concepts of every image, by id, from its field "objects" (and "relations", "background", "width", "height").

    Unknown names, boxes without an area and images without objects are counted in `faults`.
    """
    if objects not in images.fields:
        raise LimnerError(
            f"the images have no field {objects!r} (they have {', '.join(images.fields) or 'none'}): explanations need "
            "objects. Load COCO with objects=True, or read them with limner.explain.concepts.read_csv or "
            "read_visual_genome and add them: images.with_fields(objects=[...])"
        )
    noted = faults or Faults()
    rows = enumerate(counting(images.ids, progress))
    return {image: _concepts(images, row, wordnet, noted, objects) for row, image in rows}


def with_caption_objects(collection: Collection, wordnet: WordNet, *, progress: ProgressLike = None) -> Collection:
    """A collection with image objects taken from the captions: nouns with number, colour and size.

    Objects that no caption mentions may still be present, so these are less informative than annotated objects.
    """
    progress = as_progress(progress)
    named: dict[str, dict[str, list[dict[str, object]]]] = {image: {} for image in collection.images.ids}
    pairs = list(collection.judgements)
    step = progress.step("reading the captions", "captions", total=len(pairs))
    for image, text, grade in counting(pairs, step):
        if grade > 0 and text in collection.texts.ids:
            for noun, entries in _named_in(collection.texts.values[collection.texts.ids.index(text)], wordnet).items():
                if len(entries) > len(named[image].get(noun, ())):
                    named[image][noun] = entries
    listed = [[entry for entries in named[image].values() for entry in entries] for image in collection.images.ids]
    return replace(collection, images=collection.images.with_fields(objects=listed, relations=[()] * len(listed)))


def _named_in(text: str, wordnet: WordNet) -> dict[str, list[dict[str, object]]]:
    entries: dict[str, list[dict[str, Any]]] = {}
    for phrase in phrases(text, wordnet):
        entry = {"name": phrase.noun, "synset": phrase.senses[0] if phrase.senses else "", "colour": phrase.colour,
                 "size": phrase.size}  # fmt: skip
        entries.setdefault(phrase.noun, []).extend([entry] * min(phrase.number, 20))
    return entries


def own_words(images: Items, wordnet: WordNet, *, objects: str = "objects") -> dict[str, str]:
    """Concept -> its most frequent name among the objects, such as "boy" instead of WordNet's "male child"."""
    named: dict[str, Counter[str]] = {}
    for entry in (entry for listed in images.field(objects) for entry in listed or ()):
        if entry.get("name"):
            concept = concept_of(entry, wordnet, Faults())
            named.setdefault(concept, Counter())[str(entry["name"]).strip().lower()] += 1
    return {concept: names.most_common(1)[0][0] for concept, names in named.items()}


def _concepts(images: Items, row: int, wordnet: WordNet, faults: Faults, objects: str) -> Concepts:
    listed = images.field(objects)[row] or ()
    if not listed:
        faults.add("images without any object", images.ids[row])
    sides = [images.fields[side][row] if side in images.fields else None for side in ("width", "height")]
    image_area = float(np.prod([float(side) for side in sides if side])) if all(sides) else 1.0
    image_objects = tuple(_image_object(entry, wordnet, faults, images.ids[row], image_area) for entry in listed)
    given_relations = images.fields["relations"][row] if "relations" in images.fields else ()
    relations = frozenset(_relations(given_relations or (), image_objects, faults, images.ids[row]))
    setting = images.fields["background"][row] if "background" in images.fields else None
    return Concepts(image_objects, relations, setting)


def _relations(
    given_relations: Iterable[tuple[int, str, int]], image_objects: Sequence[ImageObject], faults: Faults, image: str
) -> Iterator[Relation]:
    for one, word, second in given_relations:
        if max(one, second) < len(image_objects):
            yield image_objects[one].concept, str(word), image_objects[second].concept
        else:
            faults.add("relations of missing objects", f"{one} {word} {second} in {image}")


def _image_object(entry: JsonObject, wordnet: WordNet, faults: Faults, image: str, image_area: float) -> ImageObject:
    box = entry.get("box")
    area = None
    if box is not None:
        area = max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1]) / image_area
        if not area > 0:
            faults.add("boxes without an area", f"{list(box)} in {image}")
            area = None
    return ImageObject(
        concept_of(entry, wordnet, faults, image), None if box is None else tuple(box), _attributes(entry), area
    )


def concept_of(entry: Mapping[str, object], wordnet: WordNet, faults: Faults, image: str = "") -> str:
    """The synset of an object: as given, or the usual sense of its name; the name itself if WordNet has neither."""
    synset = str(entry.get("synset") or "")
    name = str(entry.get("name") or synset.partition(".")[0]).strip().lower()
    if synset in wordnet:
        return synset
    if synset:
        faults.add("unknown synsets", f"{synset!r} in {image}")
    if not name:
        faults.add("objects without a name", f"in {image}")
        return "object.n.01"
    usual = name_to_synset(name, wordnet)
    if usual is None:
        faults.add("names that WordNet does not have", f"{name!r} in {image}")
    return usual or name


def name_to_synset(name: str, wordnet: WordNet) -> str | None:
    """The usual sense of a name, or of its last words if WordNet does not have the whole name.

    >>> name_to_synset("sports ball", WordNet.load()), name_to_synset("qwzx", WordNet.load())
    ('ball.n.01', None)
    """
    words = name.split()
    for start in range(len(words)):
        base = wordnet.base(" ".join(words[start:]))
        if base:
            return wordnet.synsets(base)[0].name
    return None


def _attributes(entry: JsonObject) -> frozenset[tuple[str, str]]:
    named = {
        (SPELLING.get(attribute, attribute), str(entry[attribute]).lower())
        for attribute in ATTRIBUTES
        if entry.get(attribute)
    }
    return frozenset(named | {("", str(value).lower()) for value in entry.get("attributes") or ()})


# --- files ------------------------------------------------------------------------------------------------------


def read_csv(path: str | Path) -> dict[str, list[dict[str, object]]]:
    """Objects of each image from a csv.

    Columns: image, name or synset, and optionally left, top, right, bottom, colour, size, material, place, action, and
    attributes separated by `;`.
    """
    objects: dict[str, list[dict[str, object]]] = {}
    for number, row in _rows(Path(path)):
        if not row.get("image") or not (row.get("name") or row.get("synset")):
            raise LimnerError(f"{path}, line {number}: expected an image and a name or synset; got {row}")
        entry: dict[str, object] = {k: v for k, v in row.items() if v and k not in (*_SIDES, "image", "attributes")}
        if all(row.get(side) for side in _SIDES):
            try:
                entry["box"] = tuple(float(row[side]) for side in _SIDES)
            except ValueError:
                raise LimnerError(f"{path}, line {number}: left, top, right and bottom must be numbers") from None
        entry["attributes"] = [v.strip() for v in (row.get("attributes") or "").split(";") if v.strip()]
        objects.setdefault(row["image"], []).append(entry)
    return objects


_SIDES = ("left", "top", "right", "bottom")


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    if not path.is_file():
        raise LimnerError(f"no file {path}: expected a csv with the columns image, name or synset")
    return ((at.line or 0, row) for at, row in table(path, delimiter=","))


def read_visual_genome(path: str | Path) -> dict[str, list[dict[str, object]]]:
    """Objects of each image from Visual Genome's `objects.json` (or `attributes.json`): synsets, boxes, attributes."""
    content = read_json(path, what="Visual Genome JSON")
    if not isinstance(content, list):
        raise LimnerError(f"{path}: expected a list of images as in Visual Genome's objects.json")
    objects = {}
    with damage_told(path, what="Visual Genome JSON"):
        for number, image in enumerate(content):
            key, listed = image.get("image_id", image.get("id")), image.get("objects", image.get("attributes"))
            if key is None or not isinstance(listed, list):
                raise LimnerError(f"{path}: image {number} has no image_id or no objects; it has {shown(image)}")
            objects[str(key)] = [_visual_genome(entry) for entry in listed]
    return objects


def _visual_genome(entry: JsonObject) -> dict[str, object]:
    x, y, w, h = (float(entry.get(side, 0)) for side in "xywh")
    first: Mapping[str, Sequence[str]] = {k: entry.get(k) or [""] for k in ("synsets", "names")}
    return {
        "synset": first["synsets"][0],
        "name": first["names"][0],
        "box": (x, y, x + w, y + h),
        "attributes": list(entry.get("attributes") or ()),
    }
