"""Everything fits a terminal of 80 columns, and no word is broken."""

from __future__ import annotations

import inspect
import io
import re

import click
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from limner.cli import app, console

WIDE = (
    "R@k       1 if any of the first k is relevant, else 0" + 40 * " " + "[Hodosh, Young & Hockenmaier 2013, section 5]"
)
LINES = [
    "csls                      Cross-domain similarity local scaling: 2 s(i, t) - mean of the k best of t - mean of i",
    "   a story without columns that is longer than the terminal is wide, with an indent that stays where it was",
    WIDE,
    "-" * 120,
    "/a/very/long/path/" + "x" * 100,
    "short",
]


@pytest.mark.parametrize("width", [40, 80, 100])
def test_lines_are_broken_between_words_and_nothing_is_lost(width):
    for line in LINES:
        broken = console.fitted(line, width).split("\n")
        long = [each for each in broken if len(each) > width]
        assert all(len(max(each.split(), key=len)) > width // 2 for each in long)
        if line.strip("-"):
            assert " ".join(broken).split() == line.split()
    assert console.fitted("\n".join(LINES), 400) == "\n".join(LINES)


def test_a_terminal_gets_broken_lines_and_a_pipe_whole_ones(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("COLUMNS", "80")
    for stream, longest in ((Terminal(), 80), (io.StringIO(), len(WIDE))):
        monkeypatch.setattr("sys.stdout", stream)
        console.answer(WIDE, {}, as_json=False)
        assert max(map(len, stream.getvalue().splitlines())) <= longest
    assert WIDE in stream.getvalue()


def commands(command, path=()):
    """The words of every command."""
    yield path
    if hasattr(command, "list_commands"):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from commands(command.get_command(context, name), (*path, name))


def test_help_fits_eighty_columns_without_breaking_words():
    """Words of a very wide help are all there in the narrow one."""
    shown = {}
    for path in commands(typer.main.get_command(app)):
        for width in (80, 300):
            done = CliRunner().invoke(app, [*path, "--help"], terminal_width=width, env={"COLUMNS": str(width)})
            shown[width] = done.output
        assert max(map(len, shown[80].splitlines())) <= 80, path
        words = {width: set(re.findall(r"[^\s│╭╮╰╯─]+", text)) for width, text in shown.items()}
        assert words[300] <= words[80], path
    assert len(list(commands(typer.main.get_command(app)))) > 40


def test_examples_are_indented_and_can_be_copied_into_a_shell():
    """A line that is too long ends in a backslash; joined again, it is the line of the docstring."""
    seen = 0
    for path in commands(typer.main.get_command(app)):
        command = typer.main.get_command(app)
        for name in path:
            command = command.get_command(click.Context(command), name)
        source = inspect.getdoc(command.callback) or ""
        wanted = [line.strip() for line in source.split("\n") if line.startswith("  $ ")]
        done = CliRunner().invoke(app, [*path, "--help"], terminal_width=80, env={"COLUMNS": "80"}).output
        lines = [line.rstrip() for line in done.partition("Examples:")[2].partition("╭")[0].split("\n")]
        shown = re.sub(r" \\\n +", " ", "\n".join(lines)).split("\n")
        assert [line.strip() for line in shown if "$ " in line] == wanted, path
        assert all(line.startswith("   $ ") for line in shown if "$ " in line), path
        seen += len(wanted)
    assert seen > 100


def test_long_tables_are_cut_into_parts_that_fit():
    from limner.evaluation.published import scores
    from limner.evaluation.ranks import of_table

    ranks = of_table(scores("mean"))
    lines = str(ranks).split("\n")
    assert max(map(len, lines)) <= 80
    heads = [line for line in lines if line.startswith(" ")]
    assert " ".join(heads).split().count("R@1") == sum(name.endswith("R@1") for name in ranks.columns)
    assert sum(line.startswith("BLIP ") for line in lines) == len(heads) // 2


def test_the_table_of_an_attack_fits():
    from limner.explain.adversarial import FURTHER, KINDS, Edit
    from limner.explain.blindness import Attack, table

    edit, places = Edit("colour-in", "a red dog", "a blue dog", 2, "red", "blue", "red"), np.ones(12_345)
    attacks = [Attack(kind, (edit,) * 12_345, 12_345, places, places, places, places[:0]) for kind in KINDS]
    text = table(attacks, dict.fromkeys(KINDS, 0.5))
    assert max(map(len, text.split("\n"))) <= 80 and len({line[:1] for line in text.split("\n")}) > 3
    assert FURTHER  # `antonym-wordnet`, the longest name, is asked for by name


def test_colour_helps_on_a_terminal_only(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    text = "R@1  difference\n---------------\n1.0  -0.2 [-0.3, -0.1] *\n2.0  +0.1 [-0.1, 0.3]\n\nnote: a note"
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    found = []
    for stream, quiet in ((Terminal(), ""), (Terminal(), "1"), (io.StringIO(), "")):
        monkeypatch.setenv("NO_COLOR", quiet)
        monkeypatch.setattr("sys.stdout", stream)
        monkeypatch.setattr("sys.stderr", stream)
        console.answer(text, {}, as_json=False)
        console.tell("error: no file")
        found.append(stream.getvalue())
    assert found[1] == found[2] == text + "\nlimner: error: no file\n"
    assert re.sub(r"\x1b\[\d+m", "", found[0]) == found[1]
    assert found[0].count("\x1b[31m") == 2 and "\x1b[32m" not in found[0]  # a loss and the error; no gain is sure
    assert "\x1b[1mR@1" in found[0] and "\x1b[2mnote" in found[0]
