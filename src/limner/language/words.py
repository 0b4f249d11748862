"""Splits captions into words: tokens, compounds, spelling, stop words, lemmas, nouns and verbs.

In Hodosh et al. (2013), captions "are preprocessed by spellchecking with Linux spell, normalizing compound words (e.g.,
t-shirt, t shirt, and tee-shirt -> t-shirt), stop word removal, and lemmatization", and nouns and verbs come from a
tagger before lemmatisation (Hodosh, Young & Hockenmaier 2013, sections 3.5.4 and 4.1.1). A `Reader` does the same with
WordNet 3.0, which limner ships, or a lexicon learned from a file of lemmas such as Flickr8k's own.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from threading import Lock
from typing import Any

from limner.core.errors import LimnerError
from limner.core.options import checked
from limner.language.tagging import TAGGERS, Tagger
from limner.language.word_overlap import STOP_WORDS
from limner.language.wordnet import WordNet

_TOKEN = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_CLITIC = re.compile(r"(?<=\w)(?:n't|'(?:s|re|ve|ll|d|m))\b")

COMPOUNDS: Mapping[tuple[str, ...], str] = {
    tuple(said.strip().split()): joined
    for joined, ways in {
        "t-shirt": "t shirt, tee shirt, tee-shirt, tshirt, teeshirt",
        "t-shirts": "t shirts, tee shirts, tee-shirts, tshirts, teeshirts",
        "backpack": "back pack",
        "baseball": "base ball",
        "basketball": "basket ball",
        "football": "foot ball",
        "frisbee": "frisby, frisbie",
        "half-pipe": "half pipe, halfpipe",
        "hula-hoop": "hula hoop",
        "merry-go-round": "merry go round",
        "mid-air": "mid air, midair",
        "motorbike": "motor bike, motor-bike",
        "motorcycle": "motor cycle, motor-cycle",
        "playground": "play ground",
        "sailboat": "sail boat",
        "sidewalk": "side walk",
        "skateboard": "skate board",
        "skateboarder": "skate boarder",
        "snowboard": "snow board",
        "snowboarder": "snow boarder",
        "sunglasses": "sun glasses",
        "sweatshirt": "sweat shirt",
        "trampoline": "trampolene",
        "tug-of-war": "tug of war, tug-o-war",
        "wakeboard": "wake board",
        "waterfall": "water fall",
        "wetsuit": "wet suit, wet-suit",
        "wheelchair": "wheel chair",
    }.items()
    for said in ways.split(",")
}
"""Spellings of a compound, and the canonical one."""

_LONGEST = max(map(len, COMPOUNDS))


@dataclass(frozen=True)
class Reader:
    """Turns captions into lists of words. Saved models store it as a plain value.

    Args:
        stop: Words to leave out, either inflected forms or lemmas.
        lexicon: Lemmas by form, as `lemma_lexicon` learns them; other forms get WordNet's base form.
        tagger: "wordnet" (rules and WordNet's counts), or "module:function" for your own tagger.
        spelling: Whether to correct words that are in neither the lexicon nor WordNet. This needs hunspell or aspell on
            the PATH.

    >>> Reader()("Two men in tee shirts are climbing up the rocks .")
    ['two', 'man', 't-shirt', 'climb', 'rock']
    """

    stop: frozenset[str] = STOP_WORDS
    lexicon: Mapping[str, str] = field(default_factory=dict)
    tagger: str = "wordnet"
    spelling: bool = False

    def __call__(self, caption: str) -> list[str]:
        """The lemmas of a caption's words, without stop words."""
        return [lemma for lemma, _ in self.tagged(caption)]

    def tagged(self, caption: str) -> list[tuple[str, str]]:
        """Each word's lemma with "n" (noun), "v" (verb) or "x" (anything else), without stop words.

        >>> Reader().tagged("A dog runs with a red ball")
        [('dog', 'n'), ('run', 'v'), ('red', 'x'), ('ball', 'n')]
        """
        if caption not in self._read:
            self._read[caption] = self.read(caption)
        return self._read[caption]

    def read(self, caption: str) -> list[tuple[str, str]]:
        """Like `tagged`, but not cached: for a large corpus."""
        forms = [self._spelt(word) for word in compounds(tokens(caption))]
        chosen = [
            (self._lemma(form, tag), tag)
            for form, tag in zip(forms, self._tag(forms), strict=True)
            if form not in self.stop
        ]
        return [(lemma, tag) for lemma, tag in chosen if lemma not in self.stop]

    @cached_property
    def _tag(self) -> Tagger:
        return TAGGERS.find(self.tagger)

    @cached_property
    def _read(self) -> dict[str, list[tuple[str, str]]]:
        """Cached, because every kernel reads the same captions."""
        return {}

    def _lemma(self, form: str, tag: str) -> str:
        base_form = self.lexicon.get(form)
        return lemma(form, tag) if base_form is None else base_form

    def _spelt(self, word: str) -> str:
        if not self.spelling or word in self.lexicon or "-" in word or _in_wordnet(word):
            return word

        return correct(word)

    def state(self) -> dict[str, object]:
        """The state for `from_state`: plain JSON values."""
        return {
            "stop": sorted(self.stop),
            "lexicon": dict(self.lexicon),
            "tagger": self.tagger,
            "spelling": self.spelling,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], *, trust: bool = False) -> Reader:
        """Restores a reader from its state.

        Args:
            state: The output of `state`, usually from a file.
            trust: Whether it may name a custom tagger, as "module:function".
        """
        options = {name: state[name] for name in ("stop", "lexicon", "tagger", "spelling")}
        reader = cls(**checked(cls, options, what="reader of captions"))
        TAGGERS.find(reader.tagger, trusted=trust)
        return reader


def tokens(caption: str) -> list[str]:
    """Lower-case words; hyphenated words stay whole, and endings attached with an apostrophe are removed.

    >>> tokens("A dog 's T-shirt isn't red .")
    ['a', 'dog', 's', 't-shirt', 'is', 'red']
    """
    return _TOKEN.findall(_CLITIC.sub("", caption.lower().replace("\u2019", "'")))


def compounds(words: Sequence[str]) -> list[str]:
    """Unifies the spelling of compounds: those in `COMPOUNDS`, and `skate-board` if WordNet has `skateboard`.

    >>> compounds(["a", "tee", "shirt", "and", "a", "snow-board"])
    ['a', 't-shirt', 'and', 'a', 'snowboard']
    """
    joined: list[str] = []
    at = 0
    while at < len(words):
        span = next((n for n in range(_LONGEST, 0, -1) if tuple(words[at : at + n]) in COMPOUNDS), 0)
        joined.append(COMPOUNDS[tuple(words[at : at + span])] if span else _unhyphened(words[at]))
        at += max(span, 1)
    return joined


@cache
def _unhyphened(word: str) -> str:
    joined = word.replace("-", "")
    return joined if "-" in word and WordNet.load().base(joined) else word


@cache
def lemma(form: str, tag: str) -> str:
    """WordNet's base form of a word for its part of speech; the form itself if it is not in WordNet.

    >>> lemma("geese", "n"), lemma("running", "v"), lemma("xyzzy", "n")
    ('goose', 'run', 'xyzzy')
    """
    order = {"n": "nva", "v": "vna"}.get(tag, "anv")
    if tag == "x" and form.endswith(("ing", "ed")):
        order = "van"  # participles before a noun: "running water", "a spotted dog"
    wordnet = WordNet.load()
    return next((base for pos in order if (base := wordnet.base(form, pos))), form).replace("_", " ")


@cache
def _in_wordnet(word: str) -> bool:
    wordnet = WordNet.load()
    return not word.isalpha() or word in STOP_WORDS or any(wordnet.base(word, pos) for pos in "nvar")


def lemma_lexicon(captions: Iterable[str], lemmas: Iterable[str | None]) -> dict[str, str]:
    """The usual lemma of every form, from captions and their lemmatised versions (`Flickr8k.lemma.token.txt`).

    Lines that differ in their number of words are left out. Each form has one lemma, so that other captions are read in
    the same way.

    >>> lemma_lexicon(["People run", "Some people"], ["person run", "Some person"])["people"]
    'person'
    """
    counts: dict[str, Counter[str]] = {}
    for caption, lemmatised in zip(captions, lemmas, strict=True):
        forms, bases = caption.lower().split(), (lemmatised or "").lower().split()
        for form, base in zip(forms, bases, strict=True) if len(forms) == len(bases) else ():
            if form not in STOP_WORDS and len(compounds([form])) == 1:
                counts.setdefault(compounds([form])[0], Counter())[compounds([base])[0]] += 1
    if not counts:
        raise LimnerError("no caption has the same number of words as its lemmas: expected them line by line")
    return {form: lemmas.most_common(1)[0][0] for form, lemmas in counts.items()}


SPELLERS = (("hunspell", "-a", "-d", "en_US"), ("aspell", "-a", "--lang=en_US"))
"""Commands to look for on the PATH, in this order."""

_LOCK = Lock()


@lru_cache(maxsize=1 << 16)
def correct(word: str) -> str:
    """The speller's first single-word suggestion for a word that it does not know; otherwise the word itself.

    Args:
        word: A lower-case word.
    """
    with _LOCK:  # one request at a time: the speller has a single pipe
        answer = _ask(word)
    if answer.startswith("&"):  # & word count offset: first, second, ...
        suggested = [s.strip() for s in answer.partition(":")[2].split(",")]
        return next((s.lower() for s in suggested if s.isalpha()), word)
    return word


def _ask(word: str) -> str:
    process = _speller()
    if process.stdin is None or process.stdout is None:
        raise LimnerError("the speller has no pipes")
    process.stdin.write(f"^{word}\n")
    process.stdin.flush()
    lines = []
    while (line := process.stdout.readline()).strip():
        lines.append(line.strip())
    return lines[0] if lines else ""


@cache
def _speller() -> subprocess.Popen[str]:
    speller = next((command for command in SPELLERS if shutil.which(command[0])), None)
    if speller is None:
        names = " or ".join(command[0] for command in SPELLERS)
        raise LimnerError(
            f"spelling=True needs {names} on the PATH, and neither was found: install one, or leave it out"
        )
    process = subprocess.Popen(speller, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if process.stdout is None or not process.stdout.readline():  # the greeting
        raise LimnerError(f"{speller[0]} does not answer: check that it has an English dictionary")
    return process
