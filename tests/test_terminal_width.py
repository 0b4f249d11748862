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

import limner
from limner.cli import app, console
from limner.evaluation.tables import Document, Grid, blocks_text

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
        broken = console.in_columns(line, width).split("\n")
        long = [each for each in broken if len(each) > width]
        assert all(len(max(each.split(), key=len)) > width // 2 for each in long)
        if line.strip("-"):
            assert " ".join(broken).split() == line.split()
    assert console.in_columns("\n".join(LINES), 400) == "\n".join(LINES)


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
    outputs = {}
    for path in commands(typer.main.get_command(app)):
        for width in (80, 300):
            done = CliRunner().invoke(app, [*path, "--help"], terminal_width=width, env={"COLUMNS": str(width)})
            outputs[width] = done.output
        assert max(map(len, outputs[80].splitlines())) <= 80, path
        words = {width: set(re.findall(r"[^\s│╭╮╰╯─]+", text)) for width, text in outputs.items()}
        assert words[300] <= words[80], path
    assert len(list(commands(typer.main.get_command(app)))) > 40


def test_examples_are_indented_and_can_be_copied_into_a_shell():
    """A line that is too long ends in a backslash; joined again, it is the line of the docstring."""
    count = 0
    for path in commands(typer.main.get_command(app)):
        command = typer.main.get_command(app)
        for name in path:
            command = command.get_command(click.Context(command), name)
        source = inspect.getdoc(command.callback) or ""
        expected = [line.strip() for line in source.split("\n") if line.startswith("  $ ")]
        done = CliRunner().invoke(app, [*path, "--help"], terminal_width=80, env={"COLUMNS": "80"}).output
        lines = [line.rstrip() for line in done.partition("Examples:")[2].partition("╭")[0].split("\n")]
        printed = re.sub(r" \\\n +", " ", "\n".join(lines)).split("\n")
        assert [line.strip() for line in printed if "$ " in line] == expected, path
        assert all(line.startswith("   $ ") for line in printed if "$ " in line), path
        count += len(expected)
    assert count > 100


def test_long_tables_are_cut_into_parts_that_fit():
    from limner.papers.published_tables import ranks_of, scores

    ranks = ranks_of(scores("mean"))
    lines = str(ranks).split("\n")
    assert max(map(len, lines)) <= 80
    heads = [line for line in lines if line.startswith(" ")]
    assert " ".join(heads).split().count("R@1") == sum(name.endswith("R@1") for name in ranks.columns)
    assert sum(line.startswith("BLIP ") for line in lines) == len(heads) // 2


def test_the_table_of_an_attack_fits():
    from limner.explain.adversarial import FURTHER, KINDS, Edit
    from limner.explain.blind_baselines import Attack, table

    edit, places = Edit("colour-in", "a red dog", "a blue dog", 2, "red", "blue", "red"), np.ones(12_345)
    attacks = [Attack(kind, (edit,) * 12_345, 12_345, places, places, places, places[:0]) for kind in KINDS]
    text = table(attacks, dict.fromkeys(KINDS, 0.5))
    assert max(map(len, text.split("\n"))) <= 80 and len({line[:1] for line in text.split("\n")}) > 3
    assert FURTHER  # `antonym-wordnet`, the longest name, is asked for by name


TABLE = (
    ("pairs, text -> image", "a long name of a system", "histograms", "difference", "p (Holm, table)", "test"),
    ("R@1", "19.0", "20.0", "-1.0 [-7.0, 5.0] *", "0.0100", "Fisher randomisation"),
    ("MedR", "7.0", "5.0", "+2.0 [-0.5, 3.5]", "1.0000", "McNemar, exact"),
)


def printed(blocks, width, colour=False):
    return "\n\n".join(console.in_columns(block, width, colour) for block in blocks)


def words_of(text):
    return sorted(word for word in text.split() if word.strip("-"))


@pytest.mark.parametrize("width", [70, 80, 100])
def test_cells_of_a_wide_table_are_wrapped_and_stay_in_their_column(width):
    blocks = ["before", Grid("", TABLE), "note: after"]
    lines = printed(blocks, width).split("\n")
    assert max(map(len, lines)) <= width and lines[:2] == ["before", ""] and lines[-1] == "note: after"
    assert words_of(" ".join(lines)) == words_of(blocks_text(blocks))
    one, median_line = (next(line for line in lines if line.startswith(name)) for name in ("R@1", "MedR"))
    assert median_line[one.index("-1.0") :].startswith("+2.0 [-0.5, 3.5]")
    assert any(line[one.index("-1.0") :].startswith("difference") for line in lines)


def test_a_table_of_many_columns_is_cut_into_parts_with_its_first_column():
    names = [f"system-{n:02}" for n in range(12)]
    rows = [("pairs", *names), ("R@1", *["21.5 ab"] * 12)]
    lines = console.in_columns(Grid("", tuple(rows)), 80).split("\n")
    assert max(map(len, lines)) <= 80 and sum(line.startswith("R@1") for line in lines) > 1
    assert [name for line in lines for name in line.split() if name in names] == names


def test_tables_of_compare_board_and_slices_fit_a_terminal():
    """Real tables in 80 columns: no line is longer, no word is broken or lost, and columns stay columns."""
    from limner.evaluation.boards.board import entries_of, ranked
    from limner.evaluation.slices import slices

    collection, by = limner.load("scenes", images=200).test, ["objects", "length"]
    truth = np.array(
        [[(collection.judgements.grade(i, t) or 0) > 0 for t in collection.texts.ids] for i in collection.images.ids]
    )
    noise = [np.random.default_rng(seed).normal(size=truth.shape) for seed in (0, 1, 2)]
    scored = [
        limner.Scores.from_matrix(2 * truth + each, collection.images.ids, collection.texts.ids) for each in noise
    ]
    names = ("colours", "histograms", "another-system-with-a-long-name")
    reports = [limner.evaluate(each, collection, name=name) for each, name in zip(scored, names, strict=True)]
    entries = [entry for each in reports for entry in entries_of(each)]
    tables = [
        limner.compare(reports[:2], samples=200),
        limner.compare(reports, samples=200),
        ranked(entries),
        slices(reports[0], collection, by=by),
        slices(reports[0], collection, by=by, against=reports[1]),
    ]
    assert max(len(line) for table in tables for line in str(table).split("\n")) > 100
    for table in tables:
        text, lines = str(table), printed(table.blocks(), 80).split("\n")
        assert max(map(len, lines)) <= 80
        assert {*words_of("\n".join(lines))} == {*words_of(text)}
        for rule in (n for n, line in enumerate(lines) if len(line) > 7 and not line.strip("-")):
            end = next((n for n in range(rule, len(lines)) if not lines[n]), len(lines))
            rows = [line for line in lines[rule + 1 : end] if not line.startswith(" ")]
            first = {re.match(r"\S+(?: \S+)* +", line).end() for line in rows if "  " in line}
            assert len(first) == 1, rows
            assert all(lines[rule - 1].ljust(at)[at - 2 : at] == "  " for at in first)


def test_colour_helps_on_a_terminal_only(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    rows = (("R@1", "difference"), ("1.0", "-0.2 [-0.3, -0.1] *"), ("2.0", "+0.1 [-0.1, 0.3]"))
    document = Document("", [Grid("", rows)], ["a note"], is_titled=False)
    text = blocks_text(document.blocks())
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    outputs = []
    for stream, quiet in ((Terminal(), ""), (Terminal(), "1"), (io.StringIO(), "")):
        monkeypatch.setenv("NO_COLOR", quiet)
        monkeypatch.setattr("sys.stdout", stream)
        monkeypatch.setattr("sys.stderr", stream)
        console.answer([document], {}, as_json=False)
        console.tell("error: no file")
        outputs.append(stream.getvalue())
    assert outputs[1] == outputs[2] == text + "\nlimner: error: no file\n"
    assert re.sub(r"\x1b\[\d+m", "", outputs[0]) == outputs[1]
    assert outputs[0].count("\x1b[31m") == 2 and "\x1b[32m" not in outputs[0]  # a loss and the error; no gain is sure
    assert "\x1b[1mR@1" in outputs[0] and "\x1b[2mnote" in outputs[0]
