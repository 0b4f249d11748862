"""Words that contradict a word of a caption: distant colours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache

import numpy as np

from limner.explain.noun_phrases import WORD

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
