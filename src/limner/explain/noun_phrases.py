"""Reading captions: the noun phrases of an English sentence, and which concepts it mentions.

Needs no model and no download: WordNet, a list of function words, and tables of colours, sizes and numbers. A phrase is
read from left to right: an article or number, sizes and colours, a participle, then the longest noun that WordNet
knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from limner.language.wordnet import WordNet

WORD = re.compile(r"[A-Za-z]+(?:['-][A-Za-z]+)*|\d+")

NUMBERS = {
    word: at
    for at, word in enumerate(("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"), 1)
}
GROUPS = {"single": (1, True), "pair": (2, True), "couple": (2, True), "both": (2, True), "some": (2, False),
          "several": (3, False), "few": (3, False), "group": (3, False), "many": (3, False)}  # fmt: skip
COLOURS = frozenset((
    "red", "orange", "yellow", "green", "blue", "purple", "violet", "pink", "brown", "black", "white", "gray",
    "grey", "tan", "beige", "gold", "silver",
))  # fmt: skip
COLOUR_SPELLING = {"violet": "purple", "grey": "gray"}
BIG = ("big", "large", "huge", "enormous", "giant", "great")
SMALL = ("small", "little", "tiny", "minor", "mini", "miniature")
SIZES = {**dict.fromkeys(BIG, "large"), **dict.fromkeys(SMALL, "small"), "medium-sized": "medium"}
FUNCTION = frozenset((
    "a", "an", "the", "this", "that", "these", "those", "his", "her", "its", "their", "my", "our", "your", "some",
    "any", "no", "and", "or", "but", "with", "without", "of", "in", "on", "at", "by", "to", "from", "for", "into",
    "onto", "over", "under", "above", "below", "beneath", "beside", "behind", "near", "next", "up", "down", "out",
    "off", "through", "across", "along", "around", "between", "while", "as", "is", "are", "was", "were", "be",
    "being", "been", "has", "have", "had", "do", "does", "there", "it", "he", "she", "they", "them", "him", "who",
    "which", "what", "where", "when", "how", "not", "very", "two-tone", "left", "right", "front", "top", "high",
    "outside", "inside", "outdoors", "indoors", "at", "least", "each", "other", "another", "all", "one's",
))  # fmt: skip
NO_OBJECTS = frozenset((
    "picture", "drawing", "image", "scene", "photo", "photograph", "view", "left", "right", "front", "top",
    "group", "pair", "couple", "few", "piece", "pieces",
))  # fmt: skip
"""Nouns that do not name an object: words such as "photo", sides, and words for quantities."""


@dataclass(frozen=True)
class Phrase:
    """What one noun phrase claims.

    Args:
        noun: The noun in its base form, with spaces.
        senses: Its meanings, the usual one first.
        colour: A colour, or None.
        size: "small", "medium", "large", or None.
        number: Minimum (or exact) number of objects.
        exact: Whether the number is exact.
        actions: Participles that describe it, in their base form.
        start: Position of the first word of the noun.
        stop: Position of the word after it.
    """

    noun: str
    senses: tuple[str, ...]
    colour: str | None = None
    size: str | None = None
    number: int = 1
    exact: bool = False
    actions: tuple[str, ...] = ()
    start: int = 0
    stop: int = 0


def words(text: str) -> list[str]:
    """The words of a text, unchanged."""
    return WORD.findall(text)


@lru_cache(maxsize=65536)
def phrases(text: str, wordnet: WordNet) -> tuple[Phrase, ...]:
    """The noun phrases of a caption.

    >>> listed = phrases("Two small red dogs and a pair of cats on one table.", WordNet.load())
    >>> [(p.number, p.size, p.colour, p.noun) for p in listed]
    [(2, 'small', 'red', 'dog'), (2, None, None, 'cat'), (1, None, None, 'table')]
    """
    listed: list[Phrase] = []
    modifiers: dict[str, object] = {}
    tokens = [token.lower() for token in words(text)]
    at = 0
    while at < len(tokens):
        length, noun = _noun(tokens, at, wordnet)
        if noun:
            listed.append(_phrase(noun, tokens, at, at + length, modifiers, wordnet))
            modifiers = {}
        elif not _qualify(tokens[at], modifiers, wordnet) and tokens[at] not in (
            "of",
            "the",
            "least",
            "piece",
            "pieces",
            "group",
        ):
            modifiers = {"article": True} if tokens[at] in ("a", "an") else {}
        at += max(1, length)
    return tuple(listed)


def _noun(tokens: list[str], at: int, wordnet: WordNet) -> tuple[int, str]:
    """The longest noun that starts here, and its number of words."""
    for length in (3, 2, 1):
        part = tokens[at : at + length]
        if len(part) < length or part[0] in FUNCTION or part[-1] in FUNCTION:
            continue
        if length == 1 and (
            is_modifier(part[0]) or part[0] in NO_OBJECTS or _is_participle(part[0], tokens, at, wordnet)
        ):
            continue
        if length > 1 and (is_modifier(part[0]) or part[0] in ("flying", "floating")):  # WordNet has "flying bird"
            continue
        base = wordnet.base(" ".join(part))
        if base and len(base) > 1:
            return length, base.replace("_", " ")
    return 0, ""


def is_modifier(word: str) -> bool:
    """Whether a word is a colour, size or number."""
    return word in COLOURS or word in SIZES or word in NUMBERS or word in GROUPS or word.isdigit()


def _is_participle(word: str, tokens: list[str], at: int, wordnet: WordNet) -> bool:
    return word.endswith("ing") and wordnet.base(word, "v") not in (None, word)


def _qualify(word: str, modifiers: dict[str, object], wordnet: WordNet) -> bool:
    """Consumes a modifier of the following noun; False for any other word."""
    if word in COLOURS:
        modifiers["colour"] = COLOUR_SPELLING.get(word, word)
    elif word in SIZES:
        modifiers["size"] = SIZES[word]
    elif word in NUMBERS or word.isdigit():
        modifiers["number"] = NUMBERS.get(word) or max(1, int(word[:4]))
        modifiers["exact"] = True
    elif word in GROUPS:
        modifiers["number"], modifiers["exact"] = GROUPS[word]
    elif word.endswith("ing") and (base := wordnet.base(word, "v")):
        modifiers["actions"] = (base,)
    else:
        return wordnet.has(word, "a") and word not in FUNCTION
    return True


def _phrase(
    noun: str, tokens: list[str], start: int, stop: int, modifiers: dict[str, object], wordnet: WordNet
) -> Phrase:
    last = tokens[stop - 1]
    senses = tuple(synset.name for synset in wordnet.synsets(noun))
    number, exact = int(modifiers.get("number", 1)), bool(modifiers.get("exact", False))  # type: ignore[call-overload]  # an int
    if "number" not in modifiers and "article" not in modifiers and noun.split()[-1] != last and last.endswith("s"):
        number = 2  # a bare plural: "dogs"
    if modifiers.get("article") and not modifiers.get("number"):
        number, exact = 1, False
    colour, size = (modifiers.get(attribute) for attribute in ("colour", "size"))
    actions = modifiers.get("actions", ())
    return Phrase(noun, senses, colour, size, number, exact, actions, start, stop)  # type: ignore[arg-type]  # as `_qualify` put them


@lru_cache(maxsize=1 << 18)
def stands_for(phrase: Phrase, concept: str, wordnet: WordNet) -> bool:
    """Whether a noun can refer to a concept: as one of its names, or as a hypernym.

    >>> (dog,) = phrases("an animal", WordNet.load())
    >>> stands_for(dog, "dog.n.01", WordNet.load()), stands_for(dog, "table.n.02", WordNet.load())
    (True, False)
    """
    if concept not in wordnet:
        return concept == phrase.noun
    if concept in phrase.senses:
        return True
    return any(wordnet.is_a(concept, sense) for sense in phrase.senses[:2])


def mentioned(text: str, concepts: Iterable[str], wordnet: WordNet) -> frozenset[str]:
    """The concepts that a text mentions, by name or by a more general word ("animal" mentions dogs)."""
    claims = phrases(text, wordnet)
    return frozenset(c for c in concepts if any(stands_for(phrase, c, wordnet) for phrase in claims))
