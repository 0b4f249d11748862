"""The reference of JSON: a line `<!-- schemas -->` becomes what every command prints with --json, as an outline.

The outlines are read from the schemas that `limner help --schema COMMAND` prints.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from limner.cli.shell import ERROR, output_schema, schema_files

MARK = "<!-- schemas -->"
ANY = "anything"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    return markdown.replace(MARK, reference()) if MARK in markdown else markdown


def reference() -> str:
    """A section for every command."""
    return "\n".join(section(command) for command in sorted(schema_files()))


def section(command: str) -> str:
    """The outline of one command; several forms are in blocks of their own."""
    forms = [form for form in output_schema(command.split())["anyOf"] if form != ERROR]
    blocks = ["```text\n" + "\n".join(outline(form)) + "\n```\n" for form in forms]
    return f"## limner {command}\n\n" + "\nor\n\n".join(blocks)


def outline(schema: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """The names in an object with their types, one per line; those within them are indented."""
    for name, inner in schema.get("properties", {}).items():
        if name == "warnings" and not indent:  # common to all
            continue
        optional = "" if name in schema["required"] else " (optional)"
        yield f"{indent}{name}: {kind(inner)}{optional}"
        yield from outline(item(inner), indent + "  ")


def item(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is within lists and objects with any names."""
    inner = schema.get("items") or schema.get("additionalProperties")
    return schema if inner is None else item(inner)


def kind(schema: Mapping[str, Any]) -> str:
    """The type in words.

    >>> kind({"type": ["null", "number"]}), kind({"type": "array", "items": {"type": "string"}})
    ('number or null', 'list of string')
    """
    types = schema.get("type", ANY)
    names = sorted([types] if isinstance(types, str) else types, key=lambda name: name == "null")
    return " or ".join(_word(name, schema) for name in names)


def _word(name: str, schema: Mapping[str, Any]) -> str:
    if name == "array":
        return f"list of {kind(schema.get('items', {}))}"
    values = schema.get("additionalProperties")
    return f"map of {kind(values)}" if name == "object" and values is not None else name
