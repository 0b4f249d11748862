"""Adversarial queries: one word of a query is changed to contradict the original; grammar is kept.

After Lymperaiou et al. (2022), with the kinds they suggest as future work. Every edit changes one claim, depends only
on the seed and the text, and records its position and the original words.

| kind | change |
|---|---|
| antonym | an adjective becomes its antonym, from an allow-list (WordNet's green -> ripe denies no colour) |
| colour-all | a colour becomes any other that English has a plain word for and that is far from it in RGB |
| colour-in | the same, among the colours that the data mentions |
| size | big words become small ones and the reverse |
| number | a number word becomes another one |
| verb | a verb becomes its antonym, in the same form |
| plural | one thing becomes several, or several one, with article, number and verb in agreement |
| synonym | a noun becomes the rarest word of its usual meaning: this denies nothing, so a reader should not move |
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from limner.core.cache_dir import settle_matplotlib
from limner.core.errors import UnknownName
from limner.explain.reading import BIG, FUNCTION, GROUPS, NUMBERS, SMALL, WORD
from limner.language.wordnet import WordNet

PLAIN = (
    "black", "gray", "silver", "white", "maroon", "red", "crimson", "orange", "gold", "yellow", "khaki", "olive",
    "lime", "green", "teal", "turquoise", "cyan", "aqua", "navy", "blue", "indigo", "violet", "purple", "magenta",
    "fuchsia", "pink", "brown", "tan", "beige", "ivory", "lavender",
)  # fmt: skip
"""Colours that people write: CSS has others, such as rosybrown, that are not English words, or that name objects."""

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
"""Adjectives of captions and their opposites. WordNet lists most of these; those that it lists wrongly for a picture
(green -> ripe) or as a rare sense are left out, and a few that it lacks are added."""

VERBS = {
    "run": "walk", "walk": "run", "sit": "stand", "stand": "sit", "lie": "stand", "sleep": "wake", "smile": "frown",
    "laugh": "cry", "cry": "laugh", "open": "close", "close": "open", "push": "pull", "pull": "push", "rise": "fall",
    "fall": "rise", "throw": "catch", "catch": "throw", "enter": "leave", "leave": "enter", "climb": "descend",
    "ascend": "descend", "descend": "climb", "win": "lose", "lose": "win", "jump": "crouch", "swim": "sink",
    "float": "sink", "fly": "land", "land": "fly", "give": "take", "take": "give", "start": "stop", "stop": "start",
    "arrive": "depart", "hide": "show", "show": "hide", "lift": "drop", "drop": "lift", "raise": "lower",
    "lower": "raise", "wear": "remove", "stay": "move", "move": "stay",
}  # fmt: skip
"""Verbs of captions in their base form and their opposites in an image; WordNet's verb antonyms where it has any."""

PAST = {
    "run": "ran", "sit": "sat", "stand": "stood", "lie": "lay", "sleep": "slept", "wake": "woke", "rise": "rose",
    "fall": "fell", "throw": "threw", "catch": "caught", "leave": "left", "win": "won", "lose": "lost", "swim": "swam",
    "sink": "sank", "fly": "flew", "give": "gave", "take": "took", "hide": "hid", "show": "showed", "wear": "wore",
}  # fmt: skip


@dataclass(frozen=True)
class Edit:
    """One adversarial query.

    Args:
        kind: The kind of change.
        before: The original text.
        after: The changed text.
        start: Start position of the change.
        old: The original words.
        new: The new words.
        word: The claim that was changed, such as "red".
    """

    kind: str
    before: str
    after: str
    start: int
    old: str
    new: str
    word: str


@dataclass(frozen=True)
class Token:
    """A word of a text and its position."""

    text: str
    start: int

    @property
    def low(self) -> str:
        """In lower case."""
        return self.text.lower()

    @property
    def stop(self) -> int:
        """Its end position."""
        return self.start + len(self.text)


@dataclass(frozen=True)
class Context:
    """Resources for an edit: WordNet, randomness, the colours of the data."""

    wordnet: WordNet
    dice: np.random.Generator
    colours: Sequence[str]

    def choose(self, options: Sequence[str]) -> str:
        """A random choice."""
        return options[int(self.dice.integers(len(options)))]


Change = tuple[Token, str]
Proposer = Callable[[list[Token], int, Context], str | None]


def attack(
    text: str, kind: str, *, seed: int = 0, colours: Iterable[str] = (), wordnet: WordNet | None = None
) -> Edit | None:
    """Changes one word of a query, or returns None if nothing can be changed.

    Args:
        text: The query, in English.
        kind: One of `KINDS`.
        seed: Random seed; the same seed gives the same edit.
        colours: For "colour-in", the colours that the data mentions (`colours_in`).
        wordnet: The graph; limner's own by default.

    >>> edit = attack("A big dog sits.", "size", seed=1)
    >>> edit.old, edit.new in ("small", "little", "minor", "tiny")
    ('big', True)
    >>> attack("A dog.", "size") is None
    True
    """
    if kind not in KINDS:
        raise UnknownName("kind of adversarial query", kind, KINDS)
    context = Context(wordnet or WordNet.load(), _dice(text, kind, seed), tuple(colours))
    tokens = [Token(m.group(), m.start()) for m in WORD.finditer(text)]
    order = context.dice.permutation(len(tokens))
    for at in (int(number) for number in order):
        edit = _plural(text, tokens, at, context) if kind == "plural" else _swap(text, kind, tokens, at, context)
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
    changes = [(tokens[at], _cased(tokens[at].text, new)), *_article(tokens, at, new)]
    return _edit(text, kind, changes, tokens[at].low)


def _edit(text: str, kind: str, changes: Sequence[Change], word: str) -> Edit:
    """Applies changes to one span of the text."""
    ordered = sorted(changes, key=lambda change: change[0].start)
    start, stop = ordered[0][0].start, ordered[-1][0].stop
    new, place = "", start
    for token, replacement in ordered:
        new += text[place : token.start] + replacement
        place = token.stop
        if not replacement and text[place : place + 1] == " ":
            place += 1
    stop = max(stop, place)
    after = text[:start] + new + text[stop:]
    if start == 0:
        after = after[:1].upper() + after[1:] if text[:1].isupper() else after
    return Edit(kind, text, after, start, text[start:stop].strip(), after[start : start + len(new)].strip(), word)


def _cased(old: str, new: str) -> str:
    return new[:1].upper() + new[1:] if old[:1].isupper() else new


def _article(tokens: list[Token], at: int, new: str) -> list[Change]:
    """The article before a changed word, where it must change too."""
    if at == 0 or tokens[at - 1].low not in ("a", "an"):
        return []
    right = article(new)
    return [(tokens[at - 1], _cased(tokens[at - 1].text, right))] if tokens[at - 1].low != right else []


def article(word: str) -> str:
    """The indefinite article before a word.

    >>> article("orange"), article("unicycle"), article("hour"), article("red")
    ('an', 'a', 'an', 'a')
    """
    low = word.lower()
    if low.startswith(("uni", "use", "usu", "eur", "one", "u-")) and not low.startswith(("unin", "unim", "unid")):
        return "a"
    return "an" if low[:1] in "aeiou" or low.startswith(("hour", "honest", "heir", "honor")) else "a"


# --- one word for another ---------------------------------------------------------------------------------------


def _antonym(tokens: list[Token], at: int, context: Context) -> str | None:
    word = tokens[at].low
    listed = ANTONYMS.get(word)
    if word in BIG or word in SMALL or word in css_colours():
        return None
    # Only before a noun or another adjective, so that "a light" and "to open" are unchanged.
    follows = at + 1 < len(tokens) and _is_nominal(tokens[at + 1].low, context.wordnet) and tokens[at + 1].low != "air"
    return listed if follows else None


def _is_nominal(word: str, wordnet: WordNet) -> bool:
    return word not in FUNCTION and (wordnet.base(word) is not None or wordnet.has(word, "a"))


@cache
def css_colours() -> dict[str, tuple[float, float, float]]:
    """The named colours of CSS that are one plain word or two, with their RGB values."""
    settle_matplotlib()
    from matplotlib.colors import CSS4_COLORS, to_rgb

    return {name: to_rgb(value) for name, value in CSS4_COLORS.items()}


def colours_in(texts: Iterable[str]) -> tuple[str, ...]:
    """The colours that texts mention, the most frequent first."""
    known = css_colours()
    counted = Counter(word for text in texts for word in map(str.lower, WORD.findall(text)) if word in known)
    return tuple(word for word, _ in counted.most_common())


def _far_from(word: str, pool: Iterable[str]) -> list[str]:
    known = css_colours()
    here = np.array(known[word])
    return [c for c in pool if c in known and float(np.linalg.norm(here - known[c])) >= FAR]


def _colour_all(tokens: list[Token], at: int, context: Context) -> str | None:
    word = tokens[at].low
    if word not in css_colours() or not _is_colour_here(tokens, at, context.wordnet):
        return None
    return context.choose(_far_from(word, PLAIN))


def _colour_in(tokens: list[Token], at: int, context: Context) -> str | None:
    word = tokens[at].low
    if word not in css_colours() or not _is_colour_here(tokens, at, context.wordnet):
        return None
    pool = _far_from(word, context.colours)
    return context.choose(pool) if pool else None


def _is_colour_here(tokens: list[Token], at: int, wordnet: WordNet) -> bool:
    """Orange, chocolate and salmon are also things: such a word is a colour only before a noun."""
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
    """Two becomes three: never one, so that nouns and verbs need no change."""
    word = tokens[at].low
    if word not in NUMBERS or word == "one":
        return None
    if at + 1 < len(tokens) and tokens[at + 1].low in ("of", "way", "wheel", "year"):
        return None
    return context.choose([other for other in NUMBERS if other not in ("one", word)])


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
        return verb + ("es" if verb.endswith(("s", "x", "ch", "sh")) else "s")
    return PAST.get(verb) or (verb + "d" if verb.endswith("e") else doubled + "ed")


def _synonym(tokens: list[Token], at: int, context: Context) -> str | None:
    """The rarest single word of the usual meaning, for a noun with a clearly dominant meaning."""
    word = tokens[at].low
    if word in FUNCTION or word in css_colours() or (at and tokens[at - 1].low not in ("a", "an", "the", "one")):
        return None
    synsets = context.wordnet.synsets(word)
    if not synsets or not any(lemma == word for lemma in synsets[0].lemmas):
        return None
    usual = synsets[0]
    own = usual.counts[usual.lemmas.index(word)]
    others = [
        (count, lemma)
        for lemma, count in zip(usual.lemmas, usual.counts, strict=True)
        if lemma.isalpha() and lemma.islower()
    ]
    rare = [
        lemma for count, lemma in sorted(others) if lemma != word and count < max(own, 1) and not lemma.endswith("s")
    ]
    # The word must be the head of its phrase: before a noun it may be part of a name ("dog house").
    alone = at + 1 == len(tokens) or context.wordnet.base(tokens[at + 1].low) is None or tokens[at + 1].low in FUNCTION
    return rare[0] if rare and own > 0 and alone else None


# --- one and several --------------------------------------------------------------------------------------------

IRREGULAR = {
    "man": "men", "woman": "women", "child": "children", "person": "people", "foot": "feet", "tooth": "teeth",
    "mouse": "mice", "goose": "geese", "snowman": "snowmen", "fireman": "firemen", "policeman": "policemen",
}  # fmt: skip
SAME = frozenset(("sheep", "fish", "deer", "water", "grass", "snow", "sand", "hair", "clothing", "air", "ice", "dirt"))
SINGULAR = {many: one for one, many in IRREGULAR.items()}
AGREE = {"is": "are", "are": "is", "was": "were", "were": "was", "has": "have", "have": "has"}


def plural(noun: str) -> str:
    """The plural of a noun.

    >>> plural("dog"), plural("woman"), plural("puppy"), plural("bench")
    ('dogs', 'women', 'puppies', 'benches')
    """
    if noun in IRREGULAR:
        return IRREGULAR[noun]
    if noun.endswith("y") and noun[-2:-1] not in tuple("aeiou"):
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch", "sh")) else "s")


def _plural(text: str, tokens: list[Token], at: int, context: Context) -> Edit | None:
    """One becomes several ("a dog is" -> "several dogs are"), two or more become one ("two dogs" -> "one dog")."""
    lead = tokens[at].low
    to_many = lead in ("a", "an")
    if not to_many and (lead not in NUMBERS or lead == "one"):
        return None
    if at + 1 < len(tokens) and tokens[at + 1].low in GROUPS:  # "a few dogs" are several already
        return None
    head = _head(text, tokens, at, context.wordnet, singular=to_many)
    if head is None or _in_compound(tokens, head, context.wordnet):
        return None
    noun = tokens[head].low
    new = plural(noun) if to_many else SINGULAR.get(noun) or context.wordnet.base(noun)
    if new is None or new == noun:
        return None
    changes = [(tokens[at], _cased(tokens[at].text, "several" if to_many else "one")), (tokens[head], new)]
    return _edit(text, "plural", changes + _verb_after(text, tokens, head, context.wordnet, many=to_many), noun)


def _head(text: str, tokens: list[Token], at: int, wordnet: WordNet, *, singular: bool) -> int | None:
    """The noun that an article or number belongs to: the last noun before a word of another kind, at most four away."""
    found = None
    for place in range(at + 1, min(at + 5, len(tokens))):
        word = tokens[place].low
        if "," in text[tokens[place - 1].stop : tokens[place].start] or word in FUNCTION:
            break
        base = SINGULAR.get(word) or wordnet.base(word)
        participle = word.endswith(("ing", "ed")) and wordnet.base(word, "v") not in (None, word)
        settled = found is not None and _one(tokens[found].low, wordnet) == singular
        if settled and (participle or _one(word, wordnet) != singular):
            break  # "a woman walks": the noun is found, and this is no noun of the same number
        if base is not None and not participle:
            found = place
        elif not wordnet.has(word, "a") and word not in NUMBERS and not participle:
            break
    if found is None or tokens[found].low in SAME:
        return None
    word = tokens[found].low
    base = SINGULAR.get(word) or wordnet.base(word)
    of = found + 1 < len(tokens) and tokens[found + 1].low == "of"  # "a group of dogs" is several already
    usual = word not in css_colours() and (base == word) == singular
    adjective = wordnet.has(word, "a") and found + 1 == at + 2 and word in (*BIG, *SMALL)
    return found if usual and not of and not adjective else None


def _in_compound(tokens: list[Token], head: int, wordnet: WordNet) -> bool:
    """Whether a noun in -ing follows a thing, as in "head covering": the first noun alone has no plural there."""
    if head + 1 >= len(tokens) or not tokens[head + 1].low.endswith("ing"):
        return False
    usual = wordnet.synsets(wordnet.base(tokens[head].low) or tokens[head].low)
    living = any(wordnet.is_a(synset.name, "living_thing.n.01") for synset in usual[:1])
    return not living and wordnet.base(tokens[head + 1].low) == tokens[head + 1].low


def _one(word: str, wordnet: WordNet) -> bool:
    """Whether a noun is singular."""
    return (SINGULAR.get(word) or wordnet.base(word)) == word


def _verb_after(text: str, tokens: list[Token], head: int, wordnet: WordNet, *, many: bool) -> list[Change]:
    """The verb that must agree with the new number, if it follows directly."""
    if head + 1 >= len(tokens):
        return []
    verb = tokens[head + 1]
    if verb.low in AGREE:
        return [(verb, AGREE[verb.low])] if (verb.low in ("is", "was", "has")) == many else []
    base = wordnet.base(verb.low, "v") if verb.low not in FUNCTION else None
    if base is None or verb.low.endswith(("ing", "ed")):
        return []
    if many and verb.low == inflect(base, "s"):
        return [(verb, base)]
    return [(verb, inflect(base, "s"))] if not many and verb.low == base else []


PROPOSERS: dict[str, Proposer] = {
    "antonym": _antonym,
    "colour-all": _colour_all,
    "colour-in": _colour_in,
    "size": _size,
    "number": _number,
    "verb": _verb,
    "synonym": _synonym,
}
KINDS = ("antonym", "colour-all", "colour-in", "size", "number", "verb", "plural", "synonym")
DENIES = frozenset(KINDS) - {"synonym"}
"""Kinds whose edits contradict the query; a rare synonym keeps the meaning."""


def attack_all(
    texts: Sequence[str], kinds: Iterable[str] = KINDS, *, seed: int = 0, wordnet: WordNet | None = None
) -> Iterator[tuple[str, list[Edit | None]]]:
    """For every kind, one edit per text, or None if nothing in it can be changed."""
    graph = wordnet or WordNet.load()
    colours = colours_in(texts)
    for kind in kinds:
        yield kind, [attack(text, kind, seed=seed, colours=colours, wordnet=graph) for text in texts]
