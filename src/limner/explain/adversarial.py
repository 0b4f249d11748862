"""Adversarial queries: one claim of a query is changed to contradict the original; the text stays grammatical.

After Lymperaiou et al. (2022), with the kinds they suggest as future work. Every edit changes one claim, depends only
on the seed and the text, and records its position and the original words.

| kind | change |
|---|---|
| antonym | an adjective becomes its antonym, from a fixed list (WordNet's green -> ripe does not contradict a colour) |
| antonym-wordnet | any adjective becomes one of its antonyms in WordNet, drawn at random, as in the paper; on request |
| colour-all | a colour becomes any other common English colour that is far from it in RGB |
| colour-in | the same, but only with colours that occur in the data |
| size | big words become small ones and the reverse |
| number | a number word becomes another one |
| verb | a verb becomes its antonym, in the same form |
| plural | a singular noun becomes plural or the reverse; article, number and verb agree with it |
| negation | a verb is negated ("is not running"), or "with" becomes "without" |
| word-order | two nouns swap roles, or two things swap colours or sizes; no word is added or removed |
| relation | a spatial relation becomes its opposite: "behind" becomes "in front of" |
| synonym | a noun becomes the rarest synonym of its usual sense; the meaning stays, so the rank should too |
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from limner.core.errors import UnknownName
from limner.core.progress import ProgressLike, as_progress
from limner.explain.clauses import negation, relation, word_order
from limner.explain.noun_phrases import BIG, FUNCTION, GROUPS, NUMBERS, SMALL, WORD
from limner.explain.opposites import ANTONYMS, PLAIN, VERBS, colours_in, css_colours, far_from
from limner.explain.text_edits import Change, Context, Edit, Token, agreeing_article, cased, edited
from limner.language.inflection import AGREE, PAST, SINGULAR, inflect, plural
from limner.language.wordnet import WordNet

Proposer = Callable[[list[Token], int, Context], str | None]
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
    for at in (int(number) for number in order):
        edit = editor(text, tokens, at, context) if editor else _swap(text, kind, tokens, at, context)
        if edit is not None:
            return edit
    return None


def _dice(text: str, kind: str, seed: int) -> np.random.Generator:
    digest = hashlib.blake2b(f"{seed}\0{kind}\0{text}".encode(), digest_size=8).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def _swap(text: str, kind: str, tokens: list[Token], at: int, context: Context) -> Edit | None:
    new = PROPOSERS[kind](tokens, at, context)
    if new is None or new.lower() == tokens[at].low:
        return None
    changes = [(tokens[at], cased(tokens[at].text, new)), *agreeing_article(tokens, at, new)]
    return edited(text, kind, changes, tokens[at].low)


# --- one word for another ---------------------------------------------------------------------------------------


def _antonym(tokens: list[Token], at: int, context: Context) -> str | None:
    word = tokens[at].low
    listed = ANTONYMS.get(word)
    if word in BIG or word in SMALL or word in css_colours():
        return None
    # Only before a noun or another adjective, so that "a light" and "to open" are unchanged.
    follows = at + 1 < len(tokens) and _is_nominal(tokens[at + 1].low, context.wordnet) and tokens[at + 1].low != "air"
    return listed if follows else None


def _antonym_wordnet(tokens: list[Token], at: int, context: Context) -> str | None:
    """As in the paper: an adjective is replaced by a WordNet antonym of any of its senses."""
    word = tokens[at].low
    antonyms = () if word in FUNCTION else context.wordnet.antonyms(word, "a")
    return context.choose(antonyms).replace("_", " ") if antonyms else None


def _is_nominal(word: str, wordnet: WordNet) -> bool:
    return word not in FUNCTION and (wordnet.base(word) is not None or wordnet.has(word, "a"))


def _colour_all(tokens: list[Token], at: int, context: Context) -> str | None:
    word = tokens[at].low
    if word not in css_colours() or not _is_colour_here(tokens, at, context.wordnet):
        return None
    return context.choose(far_from(word, PLAIN))


def _colour_in(tokens: list[Token], at: int, context: Context) -> str | None:
    word = tokens[at].low
    if word not in css_colours() or not _is_colour_here(tokens, at, context.wordnet):
        return None
    pool = far_from(word, context.colours)
    return context.choose(pool) if pool else None


def _is_colour_here(tokens: list[Token], at: int, wordnet: WordNet) -> bool:
    """Whether a word is a colour here: "orange", "chocolate" and "salmon" are colours only before a noun."""
    word = tokens[at].low
    if word in ("chocolate", "salmon", "tomato", "snow", "wheat", "orchid", "plum", "peru", "linen", "orange"):
        return (
            at + 1 < len(tokens) and tokens[at + 1].low not in FUNCTION and wordnet.base(tokens[at + 1].low) is not None
        )
    return True


def _size(tokens: list[Token], at: int, context: Context) -> str | None:
    word = tokens[at].low
    if word in ("large", "big", "enormous", "huge", "giant"):
        return context.choose(("small", "little", "tiny"))
    if word in ("small", "little", "tiny", "minor"):
        return context.choose(("large", "big", "enormous", "huge"))
    return None


def _number(tokens: list[Token], at: int, context: Context) -> str | None:
    """Replaces a number by another, but never by one, so that nouns and verbs need no change."""
    word = tokens[at].low
    if word not in NUMBERS or word == "one":
        return None
    if at + 1 < len(tokens) and tokens[at + 1].low in ("of", "way", "wheel", "year"):
        return None
    return context.choose([number for number in NUMBERS if number not in ("one", word)])


def _verb(tokens: list[Token], at: int, context: Context) -> str | None:
    word = tokens[at].low
    base = context.wordnet.base(word, "v") if word not in FUNCTION else None
    if base is None or at == 0 or tokens[at - 1].low in ("a", "an", "the", "of"):
        return None
    opposite = VERBS.get(base)
    if opposite is None:
        return None
    form = _form(word, base)
    return inflect(opposite, form) if form else None


def _form(word: str, base: str) -> str | None:
    if word.endswith("ing"):
        return "ing"
    if word == base:
        return None  # as likely a noun: "a run", "the climb"
    if word.endswith("s"):
        return "s"
    return "past" if word.endswith("ed") or PAST.get(base) == word else None


def _synonym(tokens: list[Token], at: int, context: Context) -> str | None:
    """The rarest one-word synonym of a noun's usual sense, if one sense is clearly dominant."""
    word = tokens[at].low
    if word in FUNCTION or word in css_colours() or (at and tokens[at - 1].low not in ("a", "an", "the", "one")):
        return None
    synsets = context.wordnet.synsets(word)
    if not synsets or not any(lemma == word for lemma in synsets[0].lemmas):
        return None
    usual = synsets[0]
    own_count = usual.counts[usual.lemmas.index(word)]
    candidates = [
        (count, lemma)
        for lemma, count in zip(usual.lemmas, usual.counts, strict=True)
        if lemma.isalpha() and lemma.islower()
    ]
    rare = [
        lemma
        for count, lemma in sorted(candidates)
        if lemma != word and count < max(own_count, 1) and not lemma.endswith("s")
    ]
    # The word must be the head of its phrase: before a noun it may be part of a name ("dog house").
    alone = at + 1 == len(tokens) or context.wordnet.base(tokens[at + 1].low) is None or tokens[at + 1].low in FUNCTION
    return rare[0] if rare and own_count > 0 and alone else None


# --- one and several --------------------------------------------------------------------------------------------

SAME = frozenset(("sheep", "fish", "deer", "water", "grass", "snow", "sand", "hair", "clothing", "air", "ice", "dirt"))


def _plural(text: str, tokens: list[Token], at: int, context: Context) -> Edit | None:
    """Turns one into several ("a dog is" -> "several dogs are"), or several into one ("two dogs" -> "one dog")."""
    lead = tokens[at].low
    pluralised = lead in ("a", "an")
    if not pluralised and (lead not in NUMBERS or lead == "one"):
        return None
    if at + 1 < len(tokens) and tokens[at + 1].low in GROUPS:  # "a few dogs" is plural already
        return None
    head = _head(text, tokens, at, context.wordnet, singular=pluralised)
    if head is None or _in_compound(tokens, head, context.wordnet):
        return None
    noun = tokens[head].low
    new = plural(noun) if pluralised else SINGULAR.get(noun) or context.wordnet.base(noun)
    if new is None or new == noun:
        return None
    changes = [(tokens[at], cased(tokens[at].text, "several" if pluralised else "one")), (tokens[head], new)]
    return edited(
        text, "plural", changes + _verb_after(text, tokens, head, context.wordnet, pluralised=pluralised), noun
    )


def _head(text: str, tokens: list[Token], at: int, wordnet: WordNet, *, singular: bool) -> int | None:
    """The noun that an article or number belongs to: the last noun of its phrase, at most four words away."""
    head = None
    for place in range(at + 1, min(at + 5, len(tokens))):
        word = tokens[place].low
        if "," in text[tokens[place - 1].stop : tokens[place].start] or word in FUNCTION:
            break
        base = SINGULAR.get(word) or wordnet.base(word)
        participle = word.endswith(("ing", "ed")) and wordnet.base(word, "v") not in (None, word)
        settled = head is not None and _one(tokens[head].low, wordnet) == singular
        if settled and (participle or _one(word, wordnet) != singular):
            break  # "a woman walks": the noun is found, and "walks" is not a singular noun
        if base is not None and not participle:
            head = place
        elif not wordnet.has(word, "a") and word not in NUMBERS and not participle:
            break
    if head is None or tokens[head].low in SAME:
        return None
    word = tokens[head].low
    base = SINGULAR.get(word) or wordnet.base(word)
    of = head + 1 < len(tokens) and tokens[head + 1].low == "of"  # "a group of dogs" is plural already
    usual = word not in css_colours() and (base == word) == singular
    adjective = wordnet.has(word, "a") and head + 1 == at + 2 and word in (*BIG, *SMALL)
    return head if usual and not of and not adjective else None


def _in_compound(tokens: list[Token], head: int, wordnet: WordNet) -> bool:
    """Whether a noun in -ing follows the noun, as in "head covering": the first noun cannot become plural."""
    if head + 1 >= len(tokens) or not tokens[head + 1].low.endswith("ing"):
        return False
    usual = wordnet.synsets(wordnet.base(tokens[head].low) or tokens[head].low)
    living = any(wordnet.is_a(synset.name, "living_thing.n.01") for synset in usual[:1])
    return not living and wordnet.base(tokens[head + 1].low) == tokens[head + 1].low


def _one(word: str, wordnet: WordNet) -> bool:
    """Whether a noun is singular."""
    return (SINGULAR.get(word) or wordnet.base(word)) == word


def _verb_after(text: str, tokens: list[Token], head: int, wordnet: WordNet, *, pluralised: bool) -> list[Change]:
    """The verb that must agree with the new number, if it follows directly."""
    if head + 1 >= len(tokens):
        return []
    verb = tokens[head + 1]
    if verb.low in AGREE:
        return [(verb, AGREE[verb.low])] if (verb.low in ("is", "was", "has")) == pluralised else []
    base = wordnet.base(verb.low, "v") if verb.low not in FUNCTION else None
    if base is None or verb.low.endswith(("ing", "ed")):
        return []
    if pluralised and verb.low == inflect(base, "s"):
        return [(verb, base)]
    return [(verb, inflect(base, "s"))] if not pluralised and verb.low == base else []


PROPOSERS: dict[str, Proposer] = {
    "antonym": _antonym,
    "antonym-wordnet": _antonym_wordnet,
    "colour-all": _colour_all,
    "colour-in": _colour_in,
    "size": _size,
    "number": _number,
    "verb": _verb,
    "synonym": _synonym,
}
EDITORS: dict[str, Editor] = {
    "plural": _plural,
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
"""Kinds whose edits contradict the query; a rare synonym keeps its meaning."""


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
        wordnet: The installed WordNet by default.
        progress: Called with (texts done, texts in total), over all kinds.
    """
    progress = as_progress(progress)
    graph, listed = wordnet or WordNet.load(), list(kinds)
    colours = colours_in(texts)
    for number, kind in enumerate(listed):
        edits = []
        for done, text in enumerate(texts, start=1):
            edits.append(attack(text, kind, seed=seed, colours=colours, wordnet=graph))
            progress(number * len(texts) + done, len(listed) * len(texts))
        yield kind, edits
