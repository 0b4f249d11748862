"""Words that contradict a word of a caption: opposite adjectives and verbs, and distant colours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache

import numpy as np

from limner.explain.noun_phrases import WORD

PLAIN = (
    "black", "gray", "silver", "white", "maroon", "red", "crimson", "orange", "gold", "yellow", "khaki", "olive",
    "lime", "green", "teal", "turquoise", "cyan", "aqua", "navy", "blue", "indigo", "violet", "purple", "magenta",
    "fuchsia", "pink", "brown", "tan", "beige", "ivory", "lavender",
)  # fmt: skip
"""Common colour words: CSS has others, such as rosybrown, that are not English words or that name things."""
FAR = 0.5
"""How far a new colour must be from the old one: Euclidean distance in RGB, each channel from 0 to 1."""
ANTONYMS = {
    "young": "old", "old": "young", "new": "old", "hot": "cold", "cold": "hot", "warm": "cool", "cool": "warm",
    "wet": "dry", "dry": "wet", "open": "closed", "closed": "open", "empty": "full", "full": "empty", "happy": "sad",
    "sad": "happy", "dark": "light", "light": "dark", "bright": "dim", "clean": "dirty", "dirty": "clean",
    "long": "short", "short": "long", "tall": "short", "high": "low", "low": "high", "wide": "narrow",
    "narrow": "wide", "thick": "thin", "thin": "thick", "fat": "thin", "heavy": "light", "hard": "soft",
    "soft": "hard", "smooth": "rough", "rough": "smooth", "deep": "shallow", "shallow": "deep", "fast": "slow",
    "slow": "fast", "loud": "quiet", "quiet": "loud", "calm": "stormy", "busy": "idle", "male": "female",
    "female": "male", "rocky": "smooth", "sunny": "cloudy", "cloudy": "sunny", "asleep": "awake", "awake": "asleep",
    "alone": "accompanied", "shirtless": "clothed", "naked": "clothed", "indoor": "outdoor", "outdoor": "indoor",
    "same": "different", "different": "same", "alive": "dead", "dead": "living", "crowded": "uncrowded",
    "public": "private", "strong": "weak", "rich": "poor", "beautiful": "ugly", "colorful": "colorless",
    "first": "last", "last": "first", "front": "back", "hairy": "hairless", "sharp": "blunt", "steep": "gradual",
}  # fmt: skip
"""Adjectives in captions and their opposites. WordNet lists most of these; those that do not fit images (green -> ripe)
or are rare senses are left out, and a few that it lacks are added."""
VERBS = {
    "run": "walk", "walk": "run", "sit": "stand", "stand": "sit", "lie": "stand", "sleep": "wake", "smile": "frown",
    "laugh": "cry", "cry": "laugh", "open": "close", "close": "open", "push": "pull", "pull": "push", "rise": "fall",
    "fall": "rise", "throw": "catch", "catch": "throw", "enter": "leave", "leave": "enter", "climb": "descend",
    "ascend": "descend", "descend": "climb", "win": "lose", "lose": "win", "jump": "crouch", "swim": "sink",
    "float": "sink", "fly": "land", "land": "fly", "give": "take", "take": "give", "start": "stop", "stop": "start",
    "arrive": "depart", "hide": "show", "show": "hide", "lift": "drop", "drop": "lift", "raise": "lower",
    "lower": "raise", "wear": "remove", "stay": "move", "move": "stay",
}  # fmt: skip
"""Verbs in captions in their base form and their opposites in an image; WordNet's verb antonyms where they exist."""


@cache
def css_colours() -> dict[str, tuple[float, float, float]]:
    """The named CSS colours that are plain English words, with their RGB values."""
    from PIL.ImageColor import colormap, getrgb

    red_green_blue = {name: getrgb(name)[:3] for name in colormap}
    return {name: (r / 255, g / 255, b / 255) for name, (r, g, b) in red_green_blue.items()}


def colours_in(texts: Iterable[str]) -> tuple[str, ...]:
    """The colours that texts mention, the most frequent first."""
    css = css_colours()
    counted = Counter(word for text in texts for word in map(str.lower, WORD.findall(text)) if word in css)
    return tuple(word for word, _ in counted.most_common())


def far_from(word: str, pool: Iterable[str]) -> list[str]:
    """The colours of a pool that are far from the given colour in RGB."""
    css = css_colours()
    rgb = np.array(css[word])
    return [c for c in pool if c in css and float(np.linalg.norm(rgb - css[c])) >= FAR]
