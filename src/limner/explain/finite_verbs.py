"""Whether a word of a caption is the verb of its clause, and not the last noun of "the monkey bars".

Many forms are both ("leaves", "steps"). A form is a verb only where its clause has no verb yet, and where the words
before it cannot be the start of its own noun phrase: "a monkey bars" is a monkey that bars.
"""

from __future__ import annotations

from limner.explain.noun_heads import is_animal, is_person, tags
from limner.explain.noun_phrases import FUNCTION
from limner.explain.plurals import CLAUSES
from limner.explain.text_edits import Token
from limner.language.tagging import AGREE, singular, usual_part
from limner.language.wordnet import WordNet

ONE = frozenset(("a", "an", "one", "another", "each", "every", "this"))
"""Words that begin a singular noun phrase, so that a plural is not its last noun."""
OF_ANY_NUMBER = frozenset(("the", "his", "her", "its", "their"))
ARTICLES = ONE | OF_ANY_NUMBER


def is_finite(tokens: list[Token], at: int, wordnet: WordNet) -> bool:
    """Whether a form that can be a finite verb is one here; the word before it is a noun."""
    if wordnet.base(tokens[at].low, "v") == tokens[at].low:
        return _is_verb_of_several(tokens, at, wordnet)
    first = _phrase_start(tokens, at)
    if tokens[first].low in ONE:
        return not _has_verb(tokens, _clause_start(tokens, at, {"and", "or"}), at, wordnet) and not _in_compound(
            tokens, at, wordnet
        )
    if usual_part(tokens[at].low) != "v" or _has_verb(tokens, _clause_start(tokens, at), at, wordnet):
        return False
    return _follows_subject(tokens, at, first, wordnet)


def _is_verb_of_several(tokens: list[Token], at: int, wordnet: WordNet) -> bool:
    """Whether a base form has a plural subject; not "watching two dogs play"."""
    start = _clause_start(tokens, at)
    several = _is_plural(tokens[at - 1].low, wordnet) or "and" in {token.low for token in tokens[start:at]}
    return several and "v" not in tags(tokens)[start:at] and not _has_verb(tokens, start, at, wordnet)


def _follows_subject(tokens: list[Token], at: int, first: int, wordnet: WordNet) -> bool:
    """Whether the noun phrase before a form in -s is a subject or ends one, where it does not begin with "a"."""
    start, noun = _clause_start(tokens, at, {"and", "or"}), tokens[at - 1].low
    after = tokens[at + 1].low if at + 1 < len(tokens) else ""
    definite = tokens[first].low in OF_ANY_NUMBER
    if first == start:
        living = is_person(noun, wordnet) or is_animal(noun, wordnet)
        return not _is_plural(noun, wordnet) and (definite or living) and after not in AGREE
    led = tokens[start].low in ARTICLES or tokens[start].low not in FUNCTION  # not "on the concrete steps a man sits"
    return led and (_is_plural(noun, wordnet) or (definite and after in ARTICLES))


def _clause_start(tokens: list[Token], at: int, others: set[str] | None = None) -> int:
    """The position of the first word of a clause."""
    return max((place + 1 for place in range(at) if tokens[place].low in CLAUSES | (others or set())), default=0)


def _phrase_start(tokens: list[Token], at: int) -> int:
    """The position of the first word of the noun phrase before a word."""
    first = at - 1
    while first and tokens[first].low not in ARTICLES:
        word, kind = tokens[first - 1].low, tags(tokens)[first - 1]
        if kind == "v" or (word in FUNCTION and word not in ARTICLES) or word in CLAUSES:
            break
        first -= 1
    return first


def _has_verb(tokens: list[Token], start: int, at: int, wordnet: WordNet) -> bool:
    """Whether a clause has a finite verb before a position, or a word that may be one."""
    for place in range(start + 1, at):
        word = tokens[place].low
        base = wordnet.base(word, "v")
        inflected = base != word and word.endswith("s")
        if word in AGREE or (base and inflected and usual_part(word) == "v"):
            return True
        if base == word and tags(tokens)[place] == "v":
            return True
    return False


def _in_compound(tokens: list[Token], at: int, wordnet: WordNet) -> bool:
    """Whether the noun before a verb is a part of it: "a man karate kicks"."""
    before = tokens[at - 2].low if at > 1 else ""
    return is_person(before, wordnet) and not is_person(tokens[at - 1].low, wordnet)


def _is_plural(noun: str, wordnet: WordNet) -> bool:
    return (singular(noun, wordnet) or noun) != noun
