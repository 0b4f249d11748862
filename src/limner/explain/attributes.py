"""Adversarial edits of what a noun is said to be: its quality, its colour, its size and its number.

Every opposite is limited to the nouns of which both words are said: a turn is sharp, but its opposite is not blunt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from limner.explain.noun_heads import (
    COAT,
    PLAIN,
    SHADED,
    YOUNG,
    css_colours,
    far_from,
    follows,
    head_after,
    is_animal,
    is_person,
    leads,
    names_a,
    tags,
)
from limner.explain.noun_phrases import BIG, FUNCTION, NUMBERS, SMALL
from limner.explain.text_edits import Context, Token, word_set
from limner.language.tagging import singular
from limner.language.wordnet import WordNet


@dataclass(frozen=True)
class Opposite:
    """One opposite of an adjective.

    Args:
        word: The opposite.
        nouns: The nouns with which both are said, in the singular; empty for all.
        concepts: Kinds of nouns with which both are said.
        never: Nouns with which it is not said.
        absent: Words of a caption with which it is not said.
    """

    word: str
    nouns: frozenset[str] = frozenset()
    concepts: tuple[str, ...] = ()
    never: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()

    def fits(self, noun: str, wordnet: WordNet) -> bool:
        """Whether this opposite can be said of a noun."""
        if noun in self.never:
            return False
        anything = not self.nouns and not self.concepts
        if "person.n.01" in self.concepts and is_person(noun, wordnet):
            return True
        if "animal.n.01" in self.concepts and is_animal(noun, wordnet):
            return True
        return anything or noun in self.nouns or any(names_a(noun, concept, wordnet) for concept in self.concepts)


WATERS = word_set("water ocean sea lake river stream pool creek wave surf")
GROUNDS = word_set(
    "ground sand grass road street pavement sidewalk floor path trail dirt surface beach field rock track lawn"
)
HEIGHTS = word_set(
    "wall cliff fence rock bridge hill mountain platform building ledge ramp slide tree branch grass ceiling shelf bar"
)
STREETS = word_set(
    "street road city intersection market sidewalk restaurant room beach park area station bar cafe mall plaza store"
)
HOLLOW = word_set("bottle cup glass bucket bowl box cart basket bag stadium container can mug jar pail tub bathtub")
BODIES = word_set(
    """
    hair sleeve leg arm tail ear tongue skirt dress fence bridge pole stick line shadow shorts coat jacket road hallway
    table rope leash tunnel beard fur scarf robe pants sock grass wall object branch board
    """
)
CLOSING = word_set("door window mouth box book umbrella gate container eye hand suitcase drawer trunk hood curtain")
SLOPES = word_set("slope hill incline path trail mountainside hillside ramp road descent bank dune embankment")
DAYS = word_set("day sky afternoon morning weather")
LOADS = word_set(
    "coat jacket bag backpack box load rain snow traffic object equipment clothing sweater machinery stone"
)
HINDS = word_set("yard door leg paw wheel tire seat row porch flip foot lawn tooth")
FOR_SNOW = word_set(
    """
    snow ski skis skier skiers skiing snowboard snowboards snowboarder snowboarders snowboarding sled sleds sledding
    sledge sledding innertube tubing uncut mowing flowers bloom
    """
)
SOAKED = word_set(
    """
    water swim swims swimming lake river ocean pool splash splashes splashing rain sea surf sprinkler hose shakes
    shaking
    """
)
PLENTY = word_set("many lots crowd crowds crowded people traffic full")
HE_OR_SHE = word_set("he she his her him hers himself herself bearded beard pregnant")
OUTSIDE = word_set("hill field area slope hillside mountain path trail yard ground")
MAN = ("person.n.01",)
LIVING = ("person.n.01", "animal.n.01")

ANTONYMS: dict[str, tuple[Opposite, ...]] = {
    "young": (Opposite("old", concepts=LIVING, never=YOUNG),),
    "old": (
        Opposite("young", concepts=LIVING, never=YOUNG),
        Opposite("new", concepts=("artifact.n.01",), never=word_set("picture photo photograph film movie")),
    ),
    "elderly": (Opposite("young", concepts=MAN),),
    "older": (Opposite("younger", concepts=LIVING),),
    "younger": (Opposite("older", concepts=LIVING),),
    "new": (Opposite("old", concepts=("artifact.n.01",)),),
    "hot": (Opposite("cold", word_set("day water coffee drink tea soup weather drink")),),
    "cold": (Opposite("hot", word_set("day water coffee drink tea soup weather")), Opposite("warm", DAYS)),
    "warm": (Opposite("cold", word_set("day water weather room")),),
    "wet": (Opposite("dry", concepts=("artifact.n.01", *LIVING), nouns=GROUNDS | {"hair", "fur"}, absent=SOAKED),),
    "dry": (Opposite("wet", concepts=("artifact.n.01", *LIVING), nouns=GROUNDS | {"hair", "fur", "leaf"}),),
    "open": (Opposite("closed", CLOSING),),
    "closed": (Opposite("open", CLOSING),),
    "empty": (Opposite("full", HOLLOW), Opposite("crowded", STREETS)),
    "full": (Opposite("empty", HOLLOW),),
    "crowded": (Opposite("empty", STREETS, absent=PLENTY),),
    "busy": (Opposite("quiet", STREETS, absent=PLENTY),),
    "quiet": (Opposite("busy", STREETS),),
    "happy": (Opposite("sad", concepts=LIVING, nouns=word_set("family face")),),
    "sad": (Opposite("happy", concepts=LIVING, nouns=word_set("family face")),),
    "dark": (
        Opposite("bright", word_set("room area place tunnel hallway")),
        Opposite("light", concepts=("clothing.n.01", "animal.n.01"),
        nouns=word_set("hair skin clothes sunglasses fur")),
    ),
    "light": (Opposite("dark", concepts=("clothing.n.01", "animal.n.01"), nouns=word_set("hair skin clothes fur")),),
    "bright": (Opposite("dim", word_set("light room lamp")),),
    "clean": (Opposite("dirty", concepts=("artifact.n.01", *LIVING), nouns=WATERS | GROUNDS),),
    "dirty": (Opposite("clean", concepts=("artifact.n.01", *LIVING), nouns=WATERS | GROUNDS),),
    "long": (Opposite("short", BODIES),),
    "short": (Opposite("long", BODIES), Opposite("tall", concepts=MAN)),
    "tall": (
        Opposite("short", concepts=("person.n.01", "structure.n.01", "plant.n.02"), nouns=word_set("grass building")),
    ),
    "high": (Opposite("low", HEIGHTS),),
    "low": (Opposite("high", HEIGHTS),),
    "wide": (Opposite("narrow", word_set("street road path river bridge field sidewalk trail stream beach")),),
    "narrow": (Opposite("wide", word_set("street road path river bridge field sidewalk trail stream alley")),),
    "thick": (Opposite("thin", word_set("rope coat branch ice snow stick book hair fur grass brush")),),
    "thin": (Opposite("thick", word_set("rope coat branch ice snow stick book hair fur")), Opposite("fat",
    concepts=LIVING)),
    "fat": (Opposite("thin", concepts=LIVING),),
    "overweight": (Opposite("thin", concepts=MAN),),
    "skinny": (Opposite("fat", concepts=LIVING),),
    "heavy": (Opposite("light", LOADS),),
    "smooth": (Opposite("rough", word_set("surface rock ground stone")),),
    "rough": (Opposite("calm", WATERS), Opposite("smooth", word_set("surface rock ground stone terrain"))),
    "calm": (Opposite("rough", WATERS),),
    "deep": (Opposite("shallow", WATERS | {"snow", "end", "puddle"}),),
    "shallow": (Opposite("deep", WATERS | {"end", "puddle"}),),
    "fast": (Opposite("slow", word_set("car runner boat motorcycle vehicle river")),),
    "male": (Opposite("female", concepts=LIVING, absent=HE_OR_SHE),),
    "female": (Opposite("male", concepts=LIVING, absent=HE_OR_SHE),),
    "rocky": (Opposite("sandy", word_set("beach shore shoreline path trail ground coast terrain")),),
    "sandy": (Opposite("rocky", word_set("beach shore shoreline path trail ground coast terrain")),),
    "sunny": (Opposite("cloudy", DAYS),),
    "cloudy": (Opposite("clear", word_set("sky")), Opposite("sunny", word_set("day afternoon morning"))),
    "clear": (Opposite("cloudy", word_set("sky day")), Opposite("muddy", word_set("water stream river"))),
    "muddy": (Opposite("clean", concepts=LIVING, nouns=word_set("truck car bike boot")), Opposite("clear",
    word_set("water"))),
    "shirtless": (Opposite("clothed", concepts=MAN),),
    "naked": (Opposite("clothed", concepts=MAN),),
    "indoor": (Opposite("outdoor"),),
    "outdoor": (Opposite("indoor"),),
    "dead": (Opposite("living", concepts=("animal.n.01",), nouns=word_set("tree plant")),),
    "public": (Opposite("private", word_set("pool beach park place garden bathroom area")),),
    "beautiful": (Opposite("ugly"),),
    "colorful": (Opposite("drab", concepts=("artifact.n.01", "animal.n.01"), nouns=word_set("flower clothes attire")),),
    "front": (Opposite("back", HINDS),),
    "back": (Opposite("front", HINDS),),
    "steep": (Opposite("gentle", SLOPES),),
    "full-grown": (Opposite("young", concepts=LIVING),),
    "long-haired": (Opposite("short-haired"),),
    "short-haired": (Opposite("long-haired"),),
    "dark-haired": (Opposite("fair-haired", concepts=MAN),),
    "blond": (Opposite("dark-haired", concepts=MAN),),
    "blonde": (Opposite("dark-haired", concepts=MAN),),
    "bald": (Opposite("long-haired", concepts=MAN),),
    "adult": (Opposite("baby", concepts=("animal.n.01",)),),
    "wooden": (Opposite("metal", concepts=("artifact.n.01",)),),
    "metal": (Opposite("wooden",
    word_set("bench fence pole chair table rail railing ladder gate bridge structure ramp")),),
    "snowy": (Opposite("grassy", OUTSIDE, absent=FOR_SNOW),),
    "grassy": (Opposite("snowy", OUTSIDE | {"plain"}, absent=FOR_SNOW),),
}  # fmt: skip
"""Adjectives of captions, their opposites, and of which nouns both are said. WordNet's antonyms where they fit images,
and pairs that exclude each other: a hill is not grassy and snowy."""


def antonym(text: str, tokens: list[Token], at: int, context: Context) -> str | None:
    """The opposite of an adjective before its noun."""
    opposites = ANTONYMS.get(tokens[at].low, ())
    head = head_after(text, tokens, at) if opposites else None
    if head is None or _is_name(tokens, at, head, context.wordnet) or tags(tokens)[at] == "v":
        return None
    between = [token.low for token in tokens[at + 1 : head]]
    if between and (between[0] in css_colours() or between[0] in ("blond", "blonde")) and tokens[at].low in SHADES:
        return _shade(tokens[at].low, between[0])
    if (
        leads(tokens, at) in ("and", "-") or "and" in between or any(word.endswith("haired") for word in between)
    ):  # "young and old men"
        return None
    noun = singular(tokens[head].low, context.wordnet) or tokens[head].low
    if not is_person(noun, context.wordnet) and any(is_person(word, context.wordnet) for word in between):
        return None  # "an old man play violin"
    if leads(tokens, at).endswith("ly") and leads(tokens, at) not in DEGREES:  # "partly cloudy"
        return None
    after = follows(tokens, head)
    if after == "of" or (after.endswith("ing") and tags(tokens)[head + 1] == "n"):
        return None
    everyone = {token.low for token in tokens[at + 1 : head + 1]}
    present = {token.low for token in tokens if token is not tokens[at]}
    options = [
        each.word
        for each in opposites
        if each.fits(noun, context.wordnet) and not everyone & each.never and not present & each.absent
    ]
    return options[0] if options and options[0] not in present else None


SHADES = {"light": "dark", "dark": "light", "bright": "dark"}


def _shade(word: str, colour: str) -> str | None:
    """The opposite of the shade of a colour; there is no light black."""
    return None if colour in ("black", "white", "gold", "silver", "beige", "tan") else SHADES[word]


def _is_name(tokens: Sequence[Token], at: int, head: int, wordnet: WordNet) -> bool:
    """Whether an adjective and its noun are one word of WordNet, such as "hot dog"; "old man" is no such name."""
    after = tokens[at + 1].low
    if tokens[at].low in ("young", "old", "back", "front", "long", "little", "blond", "blonde") or is_person(
        after, wordnet
    ):
        return False
    return at + 1 <= head and wordnet.has(f"{tokens[at].low} {singular(after, wordnet) or after}")


# --- colours ----------------------------------------------------------------------------------------------------

NOT_ALONE = word_set("orange gold silver olive lime lavender ivory tan violet")
"""Colours that are also things: colours only before a noun."""
SHADE_WORDS = frozenset(("light", "dark", "bright", "pale", "deep"))
NAMED_SHADES = word_set(
    """
    navy sky baby royal forest lime olive neon army hot off jet snow burnt mint electric rose blood chocolate
    florescent fluorescent golden sea steel teal hunter pearl cream lemon salmon peach turquoise bluish reddish
    """
)
"""Words that name one shade of the next colour: "navy blue"."""
COLOUR_NAMES = frozenset((
    "white water", "white rapids", "white wine", "red wine", "red sox", "gold medal", "silver medal", "black belt",
    "white house", "red cross", "red carpet", "orange juice", "yellow lab", "black lab", "chocolate lab", "blue ray",
    "red light", "green light", "white foam", "white cap", "green grass", "green tea", "red head", "silver lake",
    "orange slice", "orange slices", "white caps", "brown lab", "yellow labrador", "black labrador", "brown bear",
    "polar bear", "yellow pages", "green lawn", "white snow", "red bull", "white christmas",
))  # fmt: skip
"""Names in which a colour cannot be exchanged."""


def new_colours(text: str, tokens: list[Token], at: int, context: Context, pool: Sequence[str]) -> list[str]:
    """The colours of a pool that contradict the colour at a position; empty where the word is no colour of a thing."""
    word, before, after = tokens[at].low, leads(tokens, at), follows(tokens, at)
    if word not in css_colours() or before in NAMED_SHADES or f"{word} {after}" in COLOUR_NAMES:
        return []
    if word in NAMED_SHADES and after in css_colours():  # "navy blue"
        return []
    if tokens[at].text[:1].isupper() and at:  # a name
        return []
    gap = text[tokens[at].stop :].lstrip()[:1]
    head = head_after(text, tokens, at)
    if head is None and after == "and":  # "brown and cream dog"
        head = head_after(text, tokens, at + 1)
    if head is None and (word in NOT_ALONE or gap == "-" or after.endswith("ed")):
        return []
    if head is not None and is_person(tokens[head].low, context.wordnet) and "and" not in (before, after):
        return []
    if head is not None and any(is_person(token.low, context.wordnet) for token in tokens[at + 1 : head + 1]):
        return []
    present = {token.low for token in tokens}
    return [colour for colour in far_from(word, _fitting(tokens, at, head, context, pool)) if colour not in present]


def _fitting(tokens: list[Token], at: int, head: int | None, context: Context, pool: Sequence[str]) -> Sequence[str]:
    """The colours of a pool that are said of this noun and in this shade."""
    coat = head is not None and any(is_animal(token.low, context.wordnet) for token in tokens[at + 1 : head + 1])
    fitting: Sequence[str] = COAT if coat and set(pool) >= set(COAT) else pool
    return [colour for colour in fitting if colour in SHADED] if leads(tokens, at) in SHADE_WORDS else fitting


def colour_all(text: str, tokens: list[Token], at: int, context: Context) -> str | None:
    """Any common colour that is far from this one."""
    pool = new_colours(text, tokens, at, context, PLAIN)
    return context.choose(pool) if pool else None


def colour_in(text: str, tokens: list[Token], at: int, context: Context) -> str | None:
    """A colour of the data that is far from this one."""
    pool = new_colours(text, tokens, at, context, context.colours)
    return context.choose(pool) if pool else None


# --- sizes and numbers ------------------------------------------------------------------------------------------

NO_SIZE = word_set(
    """
    bit while snow water grass dirt air hair league top rig one amount food sister brother wheel ben screen wave
    surf
    """
)
"""Nouns with which a word for a size says something else: "a little bit", "big brother"."""
COMPARED = {
    "larger": "smaller", "bigger": "smaller", "smaller": "larger", "largest": "smallest", "biggest": "smallest",
    "smallest": "largest",
}  # fmt: skip
GATHERED = word_set("group crowd number body area amount gathering audience pile bunch")


def size(text: str, tokens: list[Token], at: int, context: Context) -> str | None:
    """The opposite of a size before a noun."""
    word = tokens[at].low
    if word not in (*BIG, *SMALL, *COMPARED) or word in ("great", "minor"):
        return None
    head = head_after(text, tokens, at)
    if head is None or tokens[head].low in NO_SIZE or _is_name(tokens, at, head, context.wordnet):
        return None
    if word in COMPARED:
        return None if "than" in {t.low for t in tokens} else COMPARED[word]
    if any(token.low in (*BIG, *SMALL) for token in tokens[at + 1 : head + 1]):
        return None
    noun, present = tokens[head].low, {token.low for token in tokens}
    person = any(is_person(token.low, context.wordnet) for token in tokens[at + 1 : head + 1])
    plain = noun in GATHERED or leads(tokens, at) in DEGREES
    if leads(tokens, at) == "a" and word == "little" and tags(tokens)[at + 1] == "x":  # "a little too big"
        return None
    if word in BIG:
        options: tuple[str, ...] = ("small",) if plain or person else ("small", "tiny")
    else:
        options = ("large",) if plain else ("big",) if person else ("big", "large", "huge")
    return context.choose(options) if not present & {*options} else None


DEGREES = word_set("very really quite rather extremely fairly pretty so too")
WHOLE = word_set(
    """
    both other another one each former latter couple pair twin twins opposite
    """
)
"""Words that tell how many there are in another place of the caption."""
OF_BODIES = word_set(
    """
    hand arm leg eye ear finger thumb knee wheel foot year day piece way story sport hour side half people's
    fist time end
    """
)
"""Nouns whose number is fixed, or is part of a name."""


def number(text: str, tokens: list[Token], at: int, context: Context) -> str | None:
    """Replaces a number by another, but never by one, so that nouns and verbs need no change."""
    word = tokens[at].low
    if word not in NUMBERS or word == "one" or leads(tokens, at) in ("the", "number", "all", "of", "these"):
        return None
    head = head_after(text, tokens, at)
    if head is None or follows(tokens, at) in FUNCTION or WHOLE & {token.low for token in tokens}:
        return None
    noun = singular(tokens[head].low, context.wordnet) or tokens[head].low
    if noun in OF_BODIES or (noun == tokens[head].low and noun not in ("people", "sheep", "fish", "deer")):
        return None
    present = {token.low for token in tokens}
    return context.choose([each for each in NUMBERS if each != "one" and each not in present])
