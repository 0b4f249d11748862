"""English inflection, and a small part-of-speech tagger that finds nouns and verbs in captions by rules and WordNet.

Hodosh et al. (2013) used OpenNLP's tagger. This one needs only WordNet: every word gets the most frequent part of
speech of its base form in WordNet's tagged texts, and a few rules about English captions decide when a form can be both
("a man rides", "two rides"). It distinguishes only nouns and verbs. Any other tagger, such as spaCy's, is a function
with the same signature and is named as "module:function".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from limner.core.registry import Registry
from limner.language.wordnet import WordNet

Tagger = Callable[[Sequence[str]], list[str]]
"""Maps the lower-case words of a caption to "n" (noun), "v" (verb) or "x" (anything else)."""

_DETERMINERS = frozenset(
    "a an the this that these those his her its their my our your some any no each another every both".split()  # noqa: SIM905
)
_AUXILIARIES = frozenset("is are was were be been being has have had do does did can will s re".split())  # noqa: SIM905
_FUNCTION = (
    _DETERMINERS
    | _AUXILIARIES
    | frozenset(
        """
    and or but nor as than while with without of in on at by to from for into onto over under above below beneath
    beside besides behind near next up down out off through across along around among between toward towards against
    during before after until upon about inside outside past via within it he she they them him himself herself
    itself themselves i we you me us who whom whose which what where when why how not very too also there here then
    so such all other others more most few many much one two three four five six seven eight nine ten several
    together away back ahead apart alongside underneath atop amongst just only almost
    """.split()  # noqa: SIM905
    )
)
_COLOURS = frozenset(
    "red orange yellow green blue purple pink brown black white gray grey tan beige blond blonde".split()  # noqa: SIM905
)
_SUBJECTS = frozenset("he she it they who that which we i you".split())  # noqa: SIM905
_NEITHER = _FUNCTION | _COLOURS


def tag(words: Sequence[str]) -> list[str]:
    """Tags words with rules and WordNet.

    >>> tag("two men ride a bike past a parked car".split())
    ['x', 'n', 'v', 'x', 'n', 'x', 'x', 'x', 'n']
    """
    tags: list[str] = []
    for at, word in enumerate(words):
        tags.append(_tag(words, at, tags) if word not in _NEITHER and not word.isdecimal() else "x")
    return tags


def _tag(words: Sequence[str], at: int, tags: Sequence[str]) -> str:
    word = words[at]
    counts = _counts(word)
    if not any(counts.values()):
        return "n" if not _is_listed(word) else _first(word)
    if not counts["v"] or not _verbal(words, at, tags):
        return _noun_or_other(words, at, counts)
    return "v"


def _verbal(words: Sequence[str], at: int, tags: Sequence[str]) -> bool:
    """Whether a form that can be a verb is in a verb position."""
    word, before = words[at], words[at - 1] if at else ""
    after = words[at + 1] if at + 1 < len(words) else ""
    ends = after == "" or after in _FUNCTION
    if before == "to" or before in _SUBJECTS or before in _AUXILIARIES:
        return True
    if _form(word) == "participle":
        # "a man running down", "dogs playing"; but "a spotted dog", "running water", "the painting of"
        return before not in _DETERMINERS and (ends or bool(at and tags[-1] == "n"))
    if _form(word) == "third":
        return bool(at) and tags[-1] == "n" and _subject(words, at, tags) and (ends or not _can_be(after, "n", "v"))
    return bool(at) and tags[-1] == "n" and _plural(before) and (ends or after.endswith("ing"))


def _subject(words: Sequence[str], at: int, tags: Sequence[str]) -> bool:
    """Whether the clause has no third-person verb so far, so that its subject still needs one."""
    last = max((i for i in range(at) if words[i] in ("and", "as", "while", "that", "who", "which", ",")), default=-1)
    return not any(tags[i] == "v" and _form(words[i]) == "third" for i in range(last + 1, at))


def _noun_or_other(words: Sequence[str], at: int, counts: Mapping[str, int]) -> str:
    after = words[at + 1] if at + 1 < len(words) else ""
    if _form(words[at]) == "participle" and after and _can_be(after, "n") and after not in _FUNCTION:
        return "x"
    modifiers = counts["a"] + counts["r"]
    if counts["n"] and (counts["n"] >= modifiers or (after == "" or after in _FUNCTION)):
        return "n"
    return "x" if modifiers else "v"


def _can_be(word: str, *parts: str) -> bool:
    return word not in _FUNCTION and any(_counts(word)[part] for part in parts)


@cache
def _plural(word: str) -> bool:
    base = WordNet.load().base(word)
    return base is not None and base != word


@cache
def _form(word: str) -> str:
    """The kind of an inflected verb form: "participle" (also the past), "third" person, or "base"."""
    base = WordNet.load().base(word, "v")
    if base is None or base == word:
        return "base"
    return "third" if word.endswith("s") and not word.endswith("ss") else "participle"


@cache
def _counts(word: str) -> dict[str, int]:
    """How often WordNet's texts use the base forms of a word as each part of speech, plus one if it is possible."""
    wordnet = WordNet.load()
    counts = dict.fromkeys("nvar", 0)
    for pos in counts:
        base = wordnet.base(word, pos)
        for synset in wordnet.synsets(base, pos) if base else ():
            tagged = [count for lemma, count in zip(synset.lemmas, synset.counts, strict=True) if lemma.lower() == base]
            counts[pos] += 1 + sum(tagged)
    return counts


def usual_part(word: str) -> str:
    """The part of speech that WordNet's tagged texts use a word as most often: "n", "v", "a" or "r".

    >>> usual_part("jumps"), usual_part("benches")
    ('v', 'n')
    """
    counts = _counts(word)
    return max("nvar", key=lambda part: counts[part])


def _is_listed(word: str) -> bool:
    return any(WordNet.load().base(word, pos) for pos in "nvar")


def _first(word: str) -> str:
    return next(("n" if pos == "n" else "v" if pos == "v" else "x") for pos in "nvar" if WordNet.load().base(word, pos))


TAGGERS: Registry[Tagger] = Registry("tagger", {"wordnet": "limner.language.tagging:tag"})
"""Taggers by name; "module:function" names your own, such as one that calls spaCy."""


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
