"""Spelling correction with an installed speller: hunspell or aspell, through the protocol of `ispell -a`."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache, lru_cache
from threading import Lock

from limner.core.errors import LimnerError

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
    found = next((command for command in SPELLERS if shutil.which(command[0])), None)
    if found is None:
        names = " or ".join(command[0] for command in SPELLERS)
        raise LimnerError(
            f"spelling=True needs {names} on the PATH, and neither was found: install one, or leave it out"
        )
    process = subprocess.Popen(found, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if process.stdout is None or not process.stdout.readline():  # the greeting
        raise LimnerError(f"{found[0]} does not answer: check that it has an English dictionary")
    return process
