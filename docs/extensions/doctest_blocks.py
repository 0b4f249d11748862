"""Shows the doctests of docstrings as code on the reference page; without it, Markdown takes `>>>` for quotations."""

from __future__ import annotations

import re
from typing import Any

import griffe

# From a prompt to the next empty line.
EXAMPLE = re.compile(r"^(?P<indent> *)>>> .*?(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)


def fenced(docstring: str) -> str:
    r"""Puts a fence around every doctest.

    >>> fenced("Adds.\n\n>>> 1 + 1\n2\n\nEnd.")
    'Adds.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nEnd.'
    """
    return EXAMPLE.sub(r"\g<indent>```pycon\n\g<0>\n\g<indent>```", docstring)


class DoctestBlocks(griffe.Extension):
    """Rewrites each docstring once, when its object is found."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
