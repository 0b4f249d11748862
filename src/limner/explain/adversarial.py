"""Adversarial queries: one claim of a query is changed to contradict the original; the text stays grammatical.

After Lymperaiou et al. (2022), with the kinds they suggest as future work. Every edit changes one claim, depends only
on the seed and the text, and records its position and the original words.

| kind | change |
|---|---|
| antonym | an adjective becomes its opposite, from a list that names the nouns of which both are said |
| antonym-wordnet | any adjective becomes one of its antonyms in WordNet, drawn at random, as in the paper; on request |
| colour-all | a colour becomes any other common English colour that is far from it in RGB |
| colour-in | the same, but only with colours that occur in the data |
| size | big words become small ones and the reverse |
| number | a number word becomes another one |
| verb | a verb becomes one that excludes it, in the same form |
| plural | a singular noun becomes plural or the reverse; article, verbs and pronouns agree with it |
| negation | a verb is negated ("is not running"), or "with" becomes "without" |
| word-order | two nouns swap roles, or two things swap colours or sizes; no word is added or removed |
| relation | a spatial relation becomes its opposite: "behind" becomes "in front of" |
| synonym | a noun becomes another usual word for the same thing; the meaning stays, so the rank should too |
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from limner.core.errors import UnknownName
from limner.core.progress import ProgressLike, as_progress
from limner.explain.attributes import antonym, colour_all, colour_in, number, size
from limner.explain.clauses import negation, relation, word_order
from limner.explain.noun_heads import colours_in, head_after, leads, tags
from limner.explain.noun_phrases import FUNCTION, WORD
from limner.explain.plurals import plural_edit
from limner.explain.text_edits import Context, Edit, Token, agreeing_article, cased, edited
from limner.explain.word_pairs import synonym, verb
from limner.language.tagging import usual_part
from limner.language.wordnet import WordNet

Proposer = Callable[[str, list[Token], int, Context], str | None]
"""The replacement for the word at a position, or None."""
Editor = Callable[[str, list[Token], int, Context], Edit | None]
"""An edit that starts at a position and changes more than one word, or None."""


def attack(
    text: str, kind: str, *, seed: int = 0, colours: Iterable[str] = (), wordnet: WordNet | None = None
) -> Edit | None:
    """Changes one claim of a query, or returns None if nothing can be changed.

    Args:
        text: The query, in English.
        kind: One of `KINDS` or `FURTHER`.
        seed: Seed of the random choice; the same seed gives the same edit.
        colours: For "colour-in", the colours that the data mentions (`colours_in`).
        wordnet: The graph; limner's own by default.

    >>> edit = attack("A big dog sits.", "size", seed=1)
    >>> edit.old, edit.new in ("small", "little", "minor", "tiny")
    ('big', True)
    >>> attack("A dog chases a cat.", "word-order").after, attack("A dog is asleep.", "negation").after
    ('A cat chases a dog.', 'A dog is not asleep.')
    >>> attack("A dog.", "size") is None
    True
    """
    if kind not in (*KINDS, *FURTHER):
        raise UnknownName("kind of adversarial query", kind, (*KINDS, *FURTHER))
    context = Context(wordnet or WordNet.load(), _dice(text, kind, seed), tuple(colours))
    tokens = [Token(m.group(), m.start()) for m in WORD.finditer(text)]
    order = context.dice.permutation(len(tokens))
    editor = EDITORS.get(kind)
    for at in map(int, order):
        edit = editor(text, tokens, at, context) if editor else _swap(text, kind, tokens, at, context)
        if edit is not None:
            return edit
    return None


def _dice(text: str, kind: str, seed: int) -> np.random.Generator:
    digest = hashlib.blake2b(f"{seed}\0{kind}\0{text}".encode(), digest_size=8).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def _swap(text: str, kind: str, tokens: list[Token], at: int, context: Context) -> Edit | None:
    new = PROPOSERS[kind](text, tokens, at, context)
    if new is None or new.lower() == tokens[at].low:
        return None
    changes = [(tokens[at], cased(tokens[at].text, new)), *agreeing_article(tokens, at, new)]
    return edited(text, kind, changes, tokens[at].low)


def _antonym_wordnet(text: str, tokens: list[Token], at: int, context: Context) -> str | None:
    """As in the paper: an adjective is replaced by a WordNet antonym of any of its senses."""
    antonyms = context.wordnet.antonyms(tokens[at].low, "a") if _is_adjective(text, tokens, at) else ()
    return context.choose(antonyms).replace("_", " ") if antonyms else None


def _is_adjective(text: str, tokens: list[Token], at: int) -> bool:
    """Whether a word is an adjective here, and not the verb of "is standing" or the noun of "a fair"."""
    word = tokens[at].low
    noun = leads(tokens, at) in ("a", "an", "the") and head_after(text, tokens, at) is None
    return word not in FUNCTION and tags(tokens)[at] == "x" and usual_part(word) == "a" and not noun


PROPOSERS: dict[str, Proposer] = {
    "antonym": antonym,
    "antonym-wordnet": _antonym_wordnet,
    "colour-all": colour_all,
    "colour-in": colour_in,
    "size": size,
    "number": number,
    "synonym": synonym,
}
EDITORS: dict[str, Editor] = {
    "verb": verb,
    "plural": plural_edit,
    "negation": negation,
    "word-order": word_order,
    "relation": relation,
}
KINDS = (
    "antonym", "colour-all", "colour-in", "size", "number", "verb", "plural", "negation", "word-order", "relation",
    "synonym",
)  # fmt: skip
FURTHER = ("antonym-wordnet",)
"""Kinds that are used only on request: the paper's method, where limner's own lists work better."""
DENIES = frozenset((*KINDS, *FURTHER)) - {"synonym"}
"""Kinds whose edits contradict the query; a synonym keeps its meaning."""


def attack_all(
    texts: Sequence[str],
    kinds: Iterable[str] = KINDS,
    *,
    seed: int = 0,
    wordnet: WordNet | None = None,
    progress: ProgressLike = None,
) -> Iterator[tuple[str, list[Edit | None]]]:
    """For every kind, one edit per text, or None if nothing in it can be changed.

    Args:
        texts: The texts.
        kinds: Keys of `KINDS` or `FURTHER`.
        seed: Random seed.
        wordnet: The graph; limner's own by default.
        progress: Called with (texts done, texts in total), over all kinds.
    """
    progress = as_progress(progress)
    graph, listed = wordnet or WordNet.load(), list(kinds)
    colours = colours_in(texts)
    for kinds_done, kind in enumerate(listed):
        edits = []
        for done, text in enumerate(texts, start=1):
            edits.append(attack(text, kind, seed=seed, colours=colours, wordnet=graph))
            progress(kinds_done * len(texts) + done, len(listed) * len(texts))
        yield kind, edits
