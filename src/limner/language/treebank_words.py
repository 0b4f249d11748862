"""The words of a caption as the field's metrics count them: Penn Treebank tokens in lower case, without punctuation.

The usual scripts for BLEU, ROUGE-L and CIDEr (coco-caption, pycocoevalcap) run Stanford's PTBTokenizer 3.4.1, a Java
program. This module gives the same words for captions: contractions and possessives are words of their own, compounds
with a hyphen stay together, brackets become words such as `-lrb-`, and punctuation is left out.
"""

from __future__ import annotations

import re
from functools import lru_cache

PUNCTUATION = frozenset("\" '' ' `` ` . ? ! , : - -- ... ;".split())  # noqa: SIM905
"""The tokens that are left out, as in pycocoevalcap. It lists brackets too, but in upper case, so that they stay."""

BRACKETS = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-"}
SPLIT = {
    each.replace(" ", ""): each.split()
    for each in ("can not", "gon na", "wan na", "got ta", "gim me", "lem me", "'t is", "'t was")
}
"""Words that the treebank writes as two."""
ABBREVIATIONS = (
    "mr mrs ms dr prof sr jr st sts mt ft gen col capt lt sgt rev hon gov sen rep co corp inc ltd ave blvd rd dept est "
    "vs etc al jan feb mar apr jun jul aug sep sept oct nov dec bros assn univ"
)

_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d\u2013\u2014", "''\"\"--")
_TOKEN = re.compile(
    r"(?P<address>https?://\S+|www\.[\w.\-/]+|[\w.\-]+@[\w\-]+\.[\w.\-]+)"
    r"|(?P<initials>(?:[a-z]\.){2,}(?![a-z])|\b[a-z]\.(?=\s|$))"
    rf"|(?P<abbreviation>\b(?:{'|'.join(ABBREVIATIONS.split())})\.|\bno\.(?=\s*\d))"
    r"|(?P<clitic>(?:n't|'(?:s|re|ve|ll|d|m))(?!\w))"
    r"|(?P<number>\d+(?:[.,:/]\d+)+)"
    r"|(?P<word>'\d\ds?\b|'t(?:is|was)\b|[^\W_]+?(?=n't\b|'(?:s|re|ve|ll|d|m)\b)|[^\W_]+(?:[-/&'_.][^\W_]+)*\+*)"
    r"|(?P<mark>[()\[\]{}]|[?!]+|\.{3}|--|\S)"
)


@lru_cache(maxsize=1 << 16)
def treebank_words(text: str) -> tuple[str, ...]:
    """The words of a text, in lower case and without punctuation.

    >>> treebank_words("The dogs aren't on the man's black-and-white T-shirt (yet).")
    ('the', 'dogs', 'are', "n't", 'on', 'the', 'man', "'s", 'black-and-white', 't-shirt', '-lrb-', 'yet', '-rrb-')
    """
    lowered = text.translate(_QUOTES).lower()
    tokens = (BRACKETS.get(piece, piece) for piece in map(re.Match.group, _TOKEN.finditer(lowered)))
    return tuple(word for token in tokens for word in SPLIT.get(token, (token,)) if word not in PUNCTUATION)
