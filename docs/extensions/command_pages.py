"""The command-line reference: a line `<!-- commands -->` becomes every command of limner with its options.

The text is that of `--help`, read from the program when the site is built.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

import typer

from limner.cli import app

MARK = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    return markdown.replace(MARK, reference()) if MARK in markdown else markdown


def reference() -> str:
    """Every command as a section: what it does, its examples, a table of its options."""
    everything = dict(commands())
    verbs = dict.fromkeys(name.split()[1] for name in everything)
    parts = []
    for verb in verbs:
        parts.append(f"## limner {verb}\n")
        for name, command in everything.items():
            if name.split()[1] == verb:
                parts.append(section(name, command))
    return "\n".join(parts)


def commands() -> Iterator[tuple[str, Any]]:
    """The name of every command that runs, and the command."""
    yield from _below("limner", typer.main.get_command(app))


def _below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield name, command
        return
    for each, inner in command.commands.items():
        if not inner.hidden:
            yield from _below(f"{name} {each}", inner)


def section(name: str, command: Any) -> str:
    """One command in Markdown; a verb without further commands needs no heading of its own."""
    text, _, examples = inspect.cleandoc(command.help or "").partition("Examples:\n")
    parts = [f"### {name}\n"] if len(name.split()) > 2 else []
    parts.append(_escaped(re.sub(r"\n{3,}", "\n\n", text.replace("\b", ""))).strip() + "\n")
    if examples.strip():
        parts.append(f"```console\n{inspect.cleandoc(examples)}\n```\n")
    parts.append("| argument or option | meaning |\n|---|---|")
    parts += [_row(each) for each in command.params if not getattr(each, "hidden", False) and each.name != "help"]
    return "\n".join(parts) + "\n"


def _row(parameter: Any) -> str:
    is_argument = parameter.param_type_name == "argument"
    spellings = [parameter.metavar or parameter.name.upper()] if is_argument else parameter.opts
    shown = ", ".join(f"`{each}`" for each in spellings)
    flag = getattr(parameter, "is_flag", False)
    value = "" if is_argument or flag or not parameter.metavar else f" `{parameter.metavar}`"
    required = " (required)" if parameter.required and not is_argument else ""
    return f"| {_cell(shown + value)} | {_cell(_escaped(parameter.help or ''))}{required} |"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("[", "\\[").replace("*", "\\*").replace("_", "\\_")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
