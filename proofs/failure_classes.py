"""The automatic failure classes against the true differences, on `scenes`, where the meaning of every caption is known.

The labeller sees what it would see anywhere: the words of the query and what is known of the two images. The truth
comes from the meaning behind the caption, which it never sees. Failures are drawn at random: every caption with images
that are not its own, half of which share a kind of object with it. No data is needed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from claims import Claim, log, main
from limner.core.ids import Ids
from limner.datasets import scenes
from limner.datasets.scenes.meaning import Entity, Meaning
from limner.datasets.scenes.scene import Scene, SceneObject
from limner.datasets.scenes.world import SETTINGS, kinds_of
from limner.explain.concepts import Concepts, of_images
from limner.explain.failure_classes import CLASSES, ClaimReader, label, setting_words
from limner.explain.failures import Failure
from limner.language.wordnet import WordNet


def true_classes(meaning: Meaning, text: str, scene: Scene) -> frozenset[str]:
    """What is truly wrong with a scene as the answer to a caption."""
    classes = {name for entity in meaning.entities for name in _of_entity(entity, text, scene)}
    if meaning.setting and scene.background not in SETTINGS[meaning.setting]:
        classes.add("detail")
    if meaning.relation and _unrelated(meaning, scene):
        classes.add("detail")
    if not classes and not meaning.true_of(scene):
        classes.add("detail")  # all that is left is the relation, of too few of them
    return frozenset(classes or {"alternative"})


def _unrelated(meaning: Meaning, scene: Scene) -> bool:
    """Whether both things are there, and none stands in the relation to the other."""
    sides = [{i for i, o in enumerate(scene.objects) if o.kind in kinds_of(e.noun)} for e in meaning.entities]
    holding = [(i, j) for i, relation, j in scene.relations if relation == meaning.relation]
    return all(sides) and not any(i in sides[0] and j in sides[1] for i, j in holding)


def _of_entity(entity: Entity, text: str, scene: Scene) -> list[str]:
    kin = [scene_object for scene_object in scene.objects if scene_object.kind in kinds_of(entity.noun)]
    if not kin:
        return ["object"]
    faults = [_faults(entity, text, scene_object) for scene_object in kin]
    matching = sum(not each for each in faults)
    if not matching:
        return min(faults, key=len)
    return [] if entity.suits(matching) else ["number"]


def _faults(entity: Entity, text: str, scene_object: SceneObject) -> list[str]:
    wrong_attributes = [
        attribute
        for attribute in ("colour", "size")
        if getattr(entity, attribute) not in (None, getattr(scene_object, attribute))
    ]
    acting = any(word in text.lower() for word in ("flying", "floating", "swimming"))
    return wrong_attributes + ([] if entity.place in (None, scene_object.place) else ["action" if acting else "detail"])


def compared(images: int, each: int, seed: int = 0) -> list[tuple[frozenset[str], frozenset[str]]]:
    """(found, true) classes of random failures."""
    world = scenes.load(images=images)
    wordnet = WordNet.load()
    concepts = of_images(world.images, wordnet)
    reader = ClaimReader(wordnet, setting_words(world, wordnet))
    log(f"words for backgrounds: {', '.join(sorted(reader.settings))}")
    dice = np.random.default_rng(seed)
    cases = []
    for text, meaning, home in zip(
        world.texts.values, *(world.texts.field(f) for f in ("meaning", "image")), strict=True
    ):
        for row in _drawn(home, concepts, world.images.ids, dice, each):
            other_image = world.images.ids[row]
            guess = label(Failure("q", text, home, other_image), concepts[home], concepts[other_image], reader)
            cases.append(
                (guess or frozenset({"alternative"}), true_classes(meaning, text, world.images.field("scene")[row]))
            )
    return cases


def _drawn(home: str, concepts: dict[str, Concepts], ids: Ids, dice: np.random.Generator, each: int) -> list[int]:
    """Rows of other images, half of them with a kind of object in common, as wrong answers have."""
    kin = [row for row, i in enumerate(ids) if i != home and concepts[i].names & concepts[home].names]
    similar_rows = dice.choice(kin, min(len(kin), each // 2), replace=False) if kin else []
    far = [row for row in dice.choice(len(ids), each - each // 2, replace=False) if ids[int(row)] != home]
    return [int(row) for row in (*similar_rows, *far)]


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Precision and recall of every class."""
    class_pairs = compared(200 if options.quick else 600, 4)
    log(f"{len(class_pairs):,} failures; all classes right in {np.mean([g == t for g, t in class_pairs]):.1%}")
    for name in CLASSES:
        agreed, guessed, true = (
            sum(cases)
            for cases in zip(*((name in g and name in t, name in g, name in t) for g, t in class_pairs), strict=True)
        )
        note = f"{true:,} true, {guessed:,} found"
        yield Claim(
            f"scenes: class {name}, precision", agreed / guessed if guessed else float("nan"), None, ">= 0.9", note
        )
        yield Claim(f"scenes: class {name}, recall", agreed / true if true else float("nan"), None, ">= 0.9", note)


if __name__ == "__main__":
    main(run, __doc__)
