"""Captions of a scene: partial descriptions that are true of it, in English.

Words and sentence forms are chosen at random without changing the meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from limner.datasets.scenes.layout import CAPTIONS
from limner.datasets.scenes.meaning import Entity, Meaning, exclusive
from limner.datasets.scenes.scene import Scene, SceneObject
from limner.datasets.scenes.world import CATEGORIES, KINDS, Dice, kinds_of

IRREGULAR = {"fish": "fish", "sheep": "sheep", "cactus": "cacti", "piece of furniture": "pieces of furniture"}
NUMBERS = dict(enumerate(("one", "two", "three", "four", "five", "six", "seven", "eight", "nine"), start=1))

COLOUR_WORDS = {"purple": ("purple", "purple", "violet")}
SIZE_WORDS = {
    "small": ("small", "small", "little", "tiny"),
    "medium": ("medium-sized",),
    "large": ("large", "large", "big", "big", "huge"),
}
SETTING_WORDS = {
    "beach": ("on a beach", "at the beach", "at the seaside", "by the sea"),
    "meadow": ("in a meadow", "in a grassy field", "in a green field", "in the countryside"),
    "snow": ("in the snow", "in a snowy landscape", "in deep snow"),
    "street": ("on a street", "in a street", "in the city", "in town"),
    "room": ("in a room", "indoors", "inside"),
    "night": ("at night", "under the stars", "under a night sky"),
    "outdoors": ("outdoors", "outside", "in the open air"),
}
RELATION_WORDS = {
    "left of": ("to the left of", "left of", "on the left of"),
    "right of": ("to the right of", "right of", "on the right of"),
    "above": ("above", "over", "high above"),
    "below": ("below", "under", "beneath"),
    "in front of": ("in front of",),
    "behind": ("behind",),
    "next to": ("next to", "beside", "near", "by"),
    "on": ("on", "on top of"),
}
PARTICIPLES = {
    "bird": "flying",
    "butterfly": "flying",
    "airplane": "flying",
    "kite": "flying",
    "balloon": "floating",
    "fish": "swimming",
}
LEADS = ("a picture of", "a drawing of", "an image of", "a scene with")


def plural(noun: str) -> str:
    """The plural of a noun of the vocabulary.

    >>> plural("butterfly"), plural("sheep"), plural("teddy bear")
    ('butterflies', 'sheep', 'teddy bears')
    """
    if noun in IRREGULAR:
        return IRREGULAR[noun]
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def article(word: str) -> str:
    """The indefinite article before a word of the vocabulary, where every initial vowel is pronounced as one.

    >>> article("orange"), article("red")
    ('an', 'a')
    """
    return "an" if word[0] in "aeiou" else "a"


@dataclass(frozen=True)
class NounPhrase:
    """A noun phrase and whether it takes a plural verb."""

    text: str
    many: bool

    @property
    def verb(self) -> str:
        """The form of "to be" that agrees with the phrase."""
        return "are" if self.many else "is"


def phrase(entity: Entity, dice: Dice) -> NounPhrase:
    """A noun phrase for an entity."""
    words = KINDS[entity.noun].words if entity.noun in KINDS else CATEGORIES[entity.noun].words
    noun = words[0] if dice.chance(0.6) else dice.choose(words)
    before, after = _location(entity, dice)
    size = dice.choose(SIZE_WORDS[entity.size]) if entity.size else ""
    colour = dice.choose(COLOUR_WORDS.get(entity.colour, (entity.colour,))) if entity.colour else ""
    count, is_plural = _count(entity, dice)
    several = entity.number > 1
    core = [w for w in (size, before, colour, plural(noun) if several else noun) if w]
    lead = count if several or entity.exact else article(core[0])
    return NounPhrase(" ".join(w for w in (lead, *core, after) if w), is_plural)


def _count(entity: Entity, dice: Dice) -> tuple[str, bool]:
    """Words for the number, and whether the phrase is plural ("a pair of dogs" is singular)."""
    number = NUMBERS.get(entity.number, str(entity.number))
    if entity.exact:
        options = {1: ("one", "one", "a single"), 2: ("two", "two", "two", "a pair of")}
        words = dice.choose(options.get(entity.number, (number,)))
    else:
        options = {1: ("",), 2: ("some", "some", ""), 3: ("several", "several", "a group of", "a few")}
        words = dice.choose(options.get(entity.number, (f"at least {number}",)))
    return words, entity.number > 1 and not words.endswith(" of")


def _location(entity: Entity, dice: Dice) -> tuple[str, str]:
    """Words for the place, before the noun ("flying") or after it ("in the air")."""
    if not entity.place:
        return "", ""
    if entity.noun in PARTICIPLES and dice.chance(0.6):
        return PARTICIPLES[entity.noun], ""
    if entity.place == "air":
        return "", "in the air"
    return "", "on the water" if "boat" in kinds_of(entity.noun) else "in the water"


def sentence(meaning: Meaning, dice: Dice) -> str:
    """One sentence for a meaning."""
    phrases = [phrase(entity, dice) for entity in meaning.entities]
    setting = dice.choose(SETTING_WORDS[meaning.setting]) if meaning.setting else ""
    if meaning.relation is None:
        words = _listing(phrases, setting, dice)
    elif meaning.relation == "under":
        words = _carrying(phrases, setting, dice)
    else:
        words = _relating(phrases, dice.choose(RELATION_WORDS[meaning.relation]), setting, dice)
    text = " ".join(w for w in words if w)
    return text[0].upper() + text[1:] + "."


def _listing(phrases: list[NounPhrase], setting: str, dice: Dice) -> tuple[str, ...]:
    """Sentences for entities without a relation."""
    texts = [p.text for p in phrases]
    joined = " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
    verb = "are" if len(phrases) > 1 else phrases[0].verb
    forms: list[tuple[str, ...]] = [
        (joined, setting),
        (joined, setting),
        ("there", phrases[0].verb, joined, setting),
        (dice.choose(LEADS), joined, setting),
    ]
    if setting:
        forms.append((f"{setting},", "there", phrases[0].verb, joined))
    if setting and setting != "at night":  # an object is never "at night"
        forms.append((joined, verb, setting))
    if len(phrases) == 2:
        forms.append((texts[0], "with", texts[1], setting))
    return dice.choose(forms)


def _relating(phrases: list[NounPhrase], relation: str, setting: str, dice: Dice) -> tuple[str, ...]:
    """Sentences for two entities with a relation."""
    first, second = phrases
    forms: list[tuple[str, ...]] = [
        (first.text, relation, second.text, setting),
        (first.text, relation, second.text, setting),
        (first.text, first.verb, relation, second.text, setting),
        ("there", first.verb, first.text, relation, second.text, setting),
        (dice.choose(LEADS), first.text, relation, second.text, setting),
    ]
    if setting:
        forms.append((f"{setting},", first.text, first.verb, relation, second.text))
    return dice.choose(forms)


def _carrying(phrases: list[NounPhrase], setting: str, dice: Dice) -> tuple[str, ...]:
    """Sentences for an object that carries another."""
    first, second = phrases
    on_it = "on them" if first.many else "on it"
    forms: list[tuple[str, ...]] = [
        (first.text, "with", second.text, on_it, setting),
        ("there", first.verb, first.text, "with", second.text, "on top", setting),
    ]
    if setting:
        forms.append((f"{setting},", "there", first.verb, first.text, "with", second.text, on_it))
    return dice.choose(forms)


_SALIENCE = {"on": 6.0, "under": 2.0, "in front of": 5.0, "behind": 3.0, "above": 3.0, "below": 2.0, "next to": 3.0}
"""The weight of each relation if several hold; left and right nearly always hold and are least informative."""


def captions(scene: Scene, *, count: int = 5) -> list[tuple[str, Meaning]]:
    """Captions for a scene, all with different meanings; the same (seed, index) gives the same captions."""
    dice = Dice(scene.seed, scene.index, CAPTIONS)
    sentences: dict[Meaning, str] = {}
    while len(sentences) < count:
        meaning = plan(scene, dice)
        if meaning not in sentences:
            sentences[meaning] = sentence(meaning, dice)
    return [(text, meaning) for meaning, text in sentences.items()]


def plan(scene: Scene, dice: Dice) -> Meaning:
    """A meaning that is true of the scene: a relation between two things, or a list of up to three."""
    meaning = _relation_meaning(scene, dice) if dice.chance(0.45) else None
    meaning = meaning or Meaning(_entities(scene, dice))
    bare = len(meaning.entities) == 1 and meaning.entities[0].vague
    return replace(meaning, setting=_setting(scene, dice)) if bare or dice.chance(0.3) else meaning


def _entities(scene: Scene, dice: Dice) -> tuple[Entity, ...]:
    """One to three entities that cannot refer to the same object."""
    count = dice.weighted((1, 2, 3), (0.4, 0.45, 0.15))
    entities: tuple[Entity, ...] = ()
    for item in dice.shuffled(scene.objects):
        entity = _describe(scene, item, dice)
        if exclusive((*entities, entity)):
            entities += (entity,)
        if len(entities) == count:
            break
    return entities


def _relation_meaning(scene: Scene, dice: Dice) -> Meaning | None:
    """A relation between objects of different kinds that the two descriptions allow, if there is one."""
    kinds = [item.kind for item in scene.objects]
    triples = [(i, relation, j) for i, relation, j in scene.relations if kinds[i] != kinds[j]]
    names = sorted({relation for _, relation, _ in triples})
    if not names:
        return None
    relation = dice.weighted(names, [_SALIENCE.get(name, 1.0) for name in names])
    i, _, j = dice.choose([triple for triple in triples if triple[1] == relation])
    first, second = (_describe(scene, scene.objects[at], dice) for at in (i, j))
    if not first.excludes(second):
        return None
    return next(m for m in _relation_meanings(first, second, relation) if m.true_of(scene))


def _relation_meanings(first: Entity, second: Entity, relation: str) -> Iterator[Meaning]:
    """Versions of the relation that say less and less about numbers: all dogs, a dog, ..."""
    one, second_entity = (replace(entity, number=1, exact=False) for entity in (first, second))
    for pair in ((first, second), (one, second), (first, second_entity), (one, second_entity)):
        if any(entity.number == 1 or entity.exact for entity in pair):
            yield Meaning(pair, relation)


def _describe(scene: Scene, item: SceneObject, dice: Dice) -> Entity:
    """A partial description of an object, and the number of objects in the scene that it fits."""
    noun = _category(item.kind, dice) if dice.chance(0.25) else item.kind
    colour = item.colour if noun == "object" or dice.chance(0.4) else None
    size = item.size if dice.chance(0.05 if item.size == "medium" else 0.2) else None
    place = item.place if item.place in ("air", "water") and dice.chance(0.12) else None
    fits = Entity(noun, colour, size, place).fits
    return Entity(noun, colour, size, place, *_number(sum(map(fits, scene.objects)), dice))


def _category(kind: str, dice: Dice) -> str:
    """A hypernym of a kind; "object" fits everything and is rarely used."""
    names = [c.name for c in CATEGORIES.values() if kind in c.kinds]
    return dice.weighted(names, [0.15 if name == "object" else 1.0 for name in names])


def _number(count: int, dice: Dice) -> tuple[int, bool]:
    """A number, and whether it is exact, such that the phrase is true of `count` objects."""
    if count == 1:
        return 1, dice.chance(0.1)
    options = [(2, False, 0.25)]
    if count >= 3:
        options.append((3, False, 0.3))
    if count <= 5:
        options.append((count, True, 0.6))
    number, exact, _ = dice.weighted(options, [weight for *_, weight in options])
    return number, exact


def _setting(scene: Scene, dice: Dice) -> str:
    """The background, or a vaguer word for it."""
    return "outdoors" if scene.background != "room" and dice.chance(0.12) else scene.background
