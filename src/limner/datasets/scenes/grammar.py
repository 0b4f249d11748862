"""Turns a meaning into English. Words and sentence forms are chosen at random without changing the meaning."""

from __future__ import annotations

from dataclasses import dataclass

from limner.datasets.scenes.dice import Dice
from limner.datasets.scenes.meaning import Entity, Meaning
from limner.datasets.scenes.world import CATEGORIES, KINDS, kinds_of

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
