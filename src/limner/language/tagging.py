"""A small part-of-speech tagger that finds nouns and verbs in captions, based on rules and WordNet.

Hodosh et al. (2013) used OpenNLP's tagger. This one needs only WordNet: every word gets the most frequent part of
speech of its base form in WordNet's tagged texts, and a few rules about English captions decide when a form can be both
("a man rides", "two rides"). It distinguishes only nouns and verbs. Any other tagger, such as spaCy's, is a function
with the same signature and is named as "module:function".
"""

from __future__ import annotations

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
