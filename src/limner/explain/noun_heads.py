"""Which noun an article, adjective or participle belongs to, what kind of thing it names, and which colours clash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache

import numpy as np

from limner.explain.noun_phrases import FUNCTION, NUMBERS, SIZES, WORD
from limner.explain.text_edits import Token, word_set
from limner.language.tagging import singular, tag
from limner.language.wordnet import WordNet

PLAIN = ("black", "gray", "white", "red", "orange", "yellow", "green", "blue", "purple", "pink", "brown", "turquoise")
"""New colours: words that are commonly used of things. CSS has others that are rare or that name things."""
USUAL = (
    *PLAIN, "grey", "silver", "gold", "tan", "beige", "maroon", "navy", "teal", "violet", "lavender", "crimson",
)  # fmt: skip
"""Colours of the data that can be new colours: words that people use of things."""
COAT = ("black", "white", "gray", "brown")
"""New colours of animals."""
SHADED = ("red", "green", "blue", "purple", "pink", "brown", "gray")
"""New colours after "light" and "dark"."""
ALIKE = (
    {"brown", "tan", "beige", "gold", "orange", "khaki", "maroon"}, {"gray", "grey", "silver"}, {"white", "silver"},
    {"yellow", "gold", "beige"}, {"purple", "violet", "lavender", "pink", "magenta", "indigo"}, {"red", "maroon",
    "crimson", "pink", "orange"},
    {"blue", "navy", "indigo", "turquoise", "teal", "cyan", "aqua"}, {"green", "olive", "lime", "teal", "turquoise"},
    {"black", "navy"}, {"white", "ivory", "beige"},
)  # fmt: skip
"""Colours that people may call by each other's name."""
FAR = 0.5
"""How far a new colour must be from the old one: Euclidean distance in RGB, each channel from 0 to 1."""
THINGS = frozenset(("chocolate", "salmon", "tomato", "snow", "wheat", "orchid", "plum", "peru", "linen", "coral",
    "sienna",
                    "thistle"))  # fmt: skip
"""Names of CSS colours that mean a thing in captions."""


@cache
def css_colours() -> dict[str, tuple[float, float, float]]:
    """The named CSS colours, with their RGB values; not those that are rather the names of things, such as "snow"."""
    from PIL.ImageColor import colormap, getrgb

    red_green_blue = {name: getrgb(name)[:3] for name in colormap if name not in THINGS}
    return {name: (r / 255, g / 255, b / 255) for name, (r, g, b) in red_green_blue.items()}


def colours_in(texts: Iterable[str]) -> tuple[str, ...]:
    """The colours that texts mention and that people use of things, the most frequent first."""
    css = css_colours()
    counted = Counter(
        word for text in texts for word in map(str.lower, WORD.findall(text)) if word in css and word in USUAL
    )
    return tuple(word for word, _ in counted.most_common())


def far_from(word: str, pool: Iterable[str]) -> list[str]:
    """The colours of a pool that are far from the given colour in RGB and have no name in common with it."""
    css = css_colours()
    rgb = np.array(css[word])
    alike = set().union(*(colours for colours in ALIKE if word in colours))
    return [c for c in pool if c in css and c not in alike and float(np.linalg.norm(rgb - css[c])) >= FAR]


POSSESSIVES = frozenset(("his", "her", "its", "their"))
OTHER_PEOPLE = word_set(
    """
    people climber runner rider biker guy snowboarder skateboarder motorcyclist toddler player kid lady female
    male adult friend team crowd group model couple someone individual kayaker catcher pitcher umpire goalie
    skier surfer wakeboarder
    """
)
"""Words for people whose usual sense in WordNet is another, or that WordNet lacks."""
OTHER_ANIMALS = word_set("lab labrador retriever collie shepherd terrier boxer pup husky")
YOUNG = word_set(
    """
    boy girl child kid baby toddler infant son daughter teenager teen puppy kitten youth student schoolgirl
    schoolboy adolescent youngster
    """
)
"""Nouns that say themselves that someone is young: "an old child" is no opposite."""


@lru_cache(maxsize=4096)
def _tags(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(tag(words))


def tags(tokens: Sequence[Token]) -> tuple[str, ...]:
    """The part of speech of every word, as in `limner.language.tagging`."""
    return _tags(tuple(token.low for token in tokens))


def head_after(text: str, tokens: Sequence[Token], at: int) -> int | None:
    """The position of the noun that the word at a position describes: the last noun of its phrase, or None.

    A phrase ends at a comma, a verb or a function word; "and" between two colours does not end it.
    """
    kinds, head = tags(tokens), None
    for place in range(at + 1, min(at + 7, len(tokens))):
        word = tokens[place].low
        if text[tokens[place - 1].stop : tokens[place].start].strip():
            break
        if word == "and" and head is None and _joins_colours(tokens, place):
            continue
        if word in FUNCTION or kinds[place] == "v" or (kinds[place] == "x" and head is not None):
            break
        if follows(tokens, place) in css_colours():  # "a neon yellow vest"
            continue
        if kinds[place] == "n" and word not in SIZES and word not in NUMBERS:
            head = place
    return head


def _joins_colours(tokens: Sequence[Token], place: int) -> bool:
    colours = css_colours()
    return place + 1 < len(tokens) and tokens[place - 1].low in colours and tokens[place + 1].low in colours


def is_person(word: str, wordnet: WordNet) -> bool:
    """Whether a noun usually names a person or people."""
    if word in css_colours():  # "white" is a person in WordNet too
        return False
    base = singular(word, wordnet) or word
    return word in OTHER_PEOPLE or base in OTHER_PEOPLE or base in YOUNG or names_a(word, "person.n.01", wordnet)


def is_animal(word: str, wordnet: WordNet) -> bool:
    """Whether a noun usually names an animal."""
    base = singular(word, wordnet) or word
    return word in OTHER_ANIMALS or base in OTHER_ANIMALS or names_a(word, "animal.n.01", wordnet)


def names_a(word: str, concept: str, wordnet: WordNet) -> bool:
    """Whether the usual sense of a noun is a kind of a concept."""
    return any(wordnet.is_a(sense.name, concept) for sense in wordnet.synsets(singular(word, wordnet) or word)[:1])


def follows(tokens: Sequence[Token], at: int) -> str:
    """The next word, or "" at the end."""
    return tokens[at + 1].low if at + 1 < len(tokens) else ""


def leads(tokens: Sequence[Token], at: int) -> str:
    """The word before, or "" at the start."""
    return tokens[at - 1].low if at else ""
