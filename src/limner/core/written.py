"""Values and options as text: on the command line, and in names such as "clip(model=DIR)"."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from limner.core.errors import LimnerError

_WORDS = {"true": True, "false": False, "none": None}
_BRACKETS = {"(": ")", "[": "]", "{": "}"}
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def value(text: str) -> Any:
    """Parses a number, true, false, null (None), or a JSON list or object; everything else is text.

    >>> [value(text) for text in ("3", "true", "False", "None", "[1, 2]", "photos", "1e-3", '"3"')]
    [3, True, False, None, [1, 2], 'photos', 0.001, '3']
    """
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # also a number of thousands of digits
        return text


def truth(given: object) -> bool | None:
    """Parses true, false, yes, no, 1 or 0, in any case; None for anything else.

    >>> [truth(each) for each in (True, "Yes", "no", 1, 0, "FALSE", 2, "maybe")]
    [True, True, False, True, False, False, None, None]
    """
    return _TRUTH.get(str(given).strip().lower()) if isinstance(given, (bool, int, str)) else None


def options(words: Iterable[str], *, what: str = "option") -> dict[str, Any]:
    """Parses NAME=VALUE options; one that is given twice is refused.

    >>> options(["images=photos", "seed=3", "graded=True"])
    {'images': 'photos', 'seed': 3, 'graded': True}
    """
    read: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or not name.strip():
            raise LimnerError(f"{what} got {word!r}: expected NAME=VALUE, e.g. images=DIR")
        if name.strip() in read:
            raise LimnerError(f"{what} gives {name.strip()!r} twice: give it once")
        read[name.strip()] = value(text.strip())
    return read


def call(text: str, *, what: str) -> tuple[str, dict[str, object]]:
    """Parses `name`, or `name(option=value, ...)`; a value may be a list, or a name with options of its own.

    >>> call("nnn(k=8, alpha=0.5)", what="correction")
    ('nnn', {'k': 8, 'alpha': 0.5})
    >>> call("aligned(images=timm(model=a, size=64), texts=minilm)", what="system")
    ('aligned', {'images': 'timm(model=a, size=64)', 'texts': 'minilm'})
    """
    match = re.fullmatch(r"(?P<name>[^()]+)(?:\((?P<options>.*)\))?", text.strip(), flags=re.DOTALL)
    listed = None if match is None else _listed(match["options"] or "")
    if match is None or listed is None:
        raise LimnerError(f"{what} {text!r}: expected a name, or a name with options such as 'csls(k=5)'")
    return match["name"].strip(), options(listed, what=f"{what} {match['name']}")


def _listed(text: str) -> list[str] | None:
    """What stands between commas outside of all brackets; None if brackets do not match."""
    parts, closing = [""], []
    for letter in text:
        if letter in _BRACKETS:
            closing.append(_BRACKETS[letter])
        elif letter in _BRACKETS.values() and (not closing or closing.pop() != letter):
            return None
        if letter == "," and not closing:
            parts.append("")
        else:
            parts[-1] += letter
    return None if closing else [part for part in parts if part.strip()]
