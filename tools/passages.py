"""Draws passages of prose at random, for a reader's test: docstrings, messages and paragraphs of the documentation.

    python tools/passages.py --seed 1
    python tools/passages.py --seed 2 --number 50 --without src/limner/web

Each passage is printed with its place. A reader who does not know limner judges whether it is natural and clear.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GENERATED = {"changelog.md"}
WORDS = 4  # a shorter text is a name, not a passage


def main() -> None:
    """Prints the drawn passages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--number", type=int, default=20)
    parser.add_argument("--without", nargs="*", default=[], help="folders to leave out")
    options = parser.parse_args()
    drawn_from = [one for one in passages() if not any(one[0].startswith(f"{folder}/") for folder in options.without)]
    print(f"{options.number} of {len(drawn_from):,} passages, seed {options.seed}")
    drawn = random.Random(options.seed).sample(drawn_from, options.number)
    for number, (place, kind, text) in enumerate(drawn, start=1):
        print(f"\n{number}. {place} ({kind})\n   {text}")


def passages() -> list[tuple[str, str, str]]:
    """Every passage with its place and kind."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    places = [(path, *one) for path in sorted((ROOT / "src").rglob("*.py")) for one in _of_code(path)]
    places += [(path, *one) for path in pages if path.name not in GENERATED for one in _of_page(path)]
    return [
        (f"{path.relative_to(ROOT)}:{line}", kind, text)
        for path, line, kind, text in places
        if len(re.findall(r"[A-Za-z]{2,}", text)) >= WORDS
    ]


def _of_code(path: Path) -> Iterator[tuple[int, str, str]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node) or ""
            yield getattr(node, "lineno", 1), "docstring", " ".join(docstring.partition("\n>>> ")[0].split())
        elif (
            isinstance(node, ast.Raise)
            and isinstance(node.exc, ast.Call)
            and "Unknown" not in ast.unparse(node.exc.func)
        ):
            for argument in node.exc.args:
                yield node.lineno, "message", _message_text(argument)


def _message_text(node: ast.expr) -> str:
    """A literal or f-string as text, with what is filled in in braces."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(
            _message_text(each) or "{" + ast.unparse(getattr(each, "value", each)) + "}" for each in node.values
        )
    return ""


def _of_page(path: Path) -> Iterator[tuple[int, str, str]]:
    line, fenced = 1, False
    for block in re.split(r"(\n{2,})", path.read_text(encoding="utf-8")):
        fences = block.count("```")
        if not fenced and not fences and not block.lstrip().startswith(("|", "#", "<", "!")) and block.strip():
            yield line, "documentation", " ".join(block.split())
        fenced ^= bool(fences % 2)
        line += block.count("\n")


if __name__ == "__main__":
    main()
