"""English inflection: articles, verb forms and plurals."""

from __future__ import annotations

import re

from limner.language.wordnet import WordNet

PAST = {
    "run": "ran", "sit": "sat", "stand": "stood", "lie": "lay", "sleep": "slept", "wake": "woke", "rise": "rose",
    "fall": "fell", "throw": "threw", "catch": "caught", "leave": "left", "win": "won", "lose": "lost", "swim": "swam",
    "sink": "sank", "fly": "flew", "give": "gave", "take": "took", "hide": "hid", "show": "showed", "wear": "wore",
    "kneel": "knelt", "eat": "ate", "ride": "rode", "hold": "held", "lay": "laid",
}  # fmt: skip


def article(word: str) -> str:
    """The indefinite article before a word.

    >>> article("orange"), article("unicycle"), article("hour"), article("red")
    ('an', 'a', 'an', 'a')
    """
    low = word.lower()
    if low.startswith(("uni", "use", "usu", "eur", "one", "u-")) and not low.startswith(("unin", "unim", "unid")):
        return "a"
    return "an" if low[:1] in "aeiou" or low.startswith(("hour", "honest", "heir", "honor")) else "a"


def inflect(verb: str, form: str) -> str:
    """A form of a verb: "ing", "s" or "past".

    >>> inflect("sit", "ing"), inflect("lie", "ing"), inflect("push", "s"), inflect("fly", "s"), inflect("run", "past")
    ('sitting', 'lying', 'pushes', 'flies', 'ran')
    """
    doubled = verb + verb[-1] if re.fullmatch(r"[^aeiou]*[aeiou][bdgmnprt]", verb) else verb
    if form == "ing":
        if verb.endswith("ie"):
            return verb[:-2] + "ying"
        return (verb[:-1] if verb.endswith("e") and not verb.endswith("ee") else doubled) + "ing"
    if form == "s":
        if verb.endswith("y") and verb[-2] not in "aeiou":
            return verb[:-1] + "ies"
        return verb + ("es" if verb.endswith(("s", "x", "z", "o", "ch", "sh")) else "s")
    return PAST.get(verb) or (verb + "d" if verb.endswith("e") else doubled + "ed")


AGREE = {
    "is": "are",
    "are": "is",
    "was": "were",
    "were": "was",
    "has": "have",
    "have": "has",
    "does": "do",
    "do": "does",
}
IRREGULAR = {
    "man": "men", "woman": "women", "child": "children", "person": "people", "foot": "feet", "tooth": "teeth",
    "mouse": "mice", "goose": "geese", "ox": "oxen", "knife": "knives", "wife": "wives", "life": "lives",
    "leaf": "leaves", "wolf": "wolves", "calf": "calves", "half": "halves", "shelf": "shelves", "loaf": "loaves",
    "thief": "thieves", "elf": "elves", "scarf": "scarves", "hoof": "hooves", "potato": "potatoes",
    "tomato": "tomatoes", "hero": "heroes", "echo": "echoes", "torpedo": "torpedoes", "mosquito": "mosquitoes",
    "volcano": "volcanoes", "superhero": "superheroes", "domino": "dominoes", "buffalo": "buffaloes",
    "mango": "mangoes", "tornado": "tornadoes", "quiz": "quizzes",
    "cactus": "cacti",
}  # fmt: skip
SAME = frozenset((
    "sheep", "deer", "fish", "moose", "elk", "bison", "salmon", "trout", "aircraft", "spacecraft", "hovercraft",
    "series", "species", "swine", "offspring", "shrimp", "reindeer", "goldfish", "starfish", "swordfish",
))  # fmt: skip
"""Nouns whose plural is the same word."""
NOT_MEN = ("human", "german", "roman", "talisman", "shaman", "ottoman", "caiman", "norman")


def plural(noun: str) -> str:
    """The plural of a noun; of a compound, the plural of its last part ("fisherman", "bookshelf").

    >>> plural("dog"), plural("woman"), plural("puppy"), plural("bench"), plural("knife"), plural("sheep")
    ('dogs', 'women', 'puppies', 'benches', 'knives', 'sheep')
    >>> plural("leaf"), plural("potato"), plural("fisherman"), plural("human"), plural("bookshelf"), plural("photo")
    ('leaves', 'potatoes', 'fishermen', 'humans', 'bookshelves', 'photos')
    """
    if noun in SAME:
        return noun
    for part in PARTS:
        if noun.endswith(part) and (noun == part or part in COMPOUND) and noun not in NOT_MEN:
            return noun[: -len(part)] + IRREGULAR[part]
    if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou"):
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "z", "ch", "sh")) else "s")


COMPOUND = frozenset(("man", "woman", "child", "person", "tooth", "mouse", "goose", "knife", "wife", "shelf", "wolf"))
"""Irregular nouns that also end other nouns: "fisherman", "bookshelf"."""
PARTS = tuple(sorted(IRREGULAR, key=len, reverse=True))
SINGULAR = {many: one for one, many in IRREGULAR.items()}


def singular(noun: str, wordnet: WordNet) -> str | None:
    """The singular of a noun, or None if WordNet does not know the noun.

    >>> singular("knives", WordNet.load()), singular("roads", WordNet.load()), singular("dress", WordNet.load())
    ('knife', 'road', 'dress')
    """
    if noun in SAME:
        return noun
    stems = [noun[: -len(end)] + new for end, new in PLURAL_ENDS if noun.endswith(end) and len(noun) > 3]
    regular = (stem for stem in stems if wordnet.has(stem) and plural(stem) == noun)
    return next(regular, None) or SINGULAR.get(noun) or wordnet.base(noun)


PLURAL_ENDS = (("ies", "y"), ("es", ""), ("s", ""), ("men", "man"), ("ves", "f"), ("ves", "fe"), ("children", "child"))
