"""How large the command line is: verbs, commands, options, and the length of every help."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from limner.cli import app
from limner.cli.command_table import GROUPS, ORDER

VERBS, COMMANDS, OPTIONS, SPELLINGS = 14, 45, 289, 110
LINES, COLUMNS = 80, 80
"""Of a help."""


def leaves(command, path=()):
    """Every command that runs something, with its words."""
    subcommands = getattr(command, "commands", None)
    for name in subcommands or ():
        yield from leaves(subcommands[name], (*path, name))
    if subcommands is None:
        yield path, command


PROGRAM = typer.main.get_command(app)
LEAVES = dict(leaves(PROGRAM))


def options(command):
    return [param for param in command.params if param.param_type_name == "option" and param.name != "help"]


def test_the_verbs_are_those_of_the_groups():
    assert len(ORDER) == VERBS == len({path[0] for path in LEAVES}) and {path[0] for path in LEAVES} == set(ORDER)
    help_text = CliRunner().invoke(app, ["help"], env={"COLUMNS": "100", "NO_COLOR": "1"}).output
    assert all(f" {group} ─" in help_text for group in GROUPS)


def test_there_are_few_commands_and_options():
    """Options of the program, such as --json and --version, count once."""
    every = [option for command in (PROGRAM, *LEAVES.values()) for option in options(command)]
    assert len(LEAVES) <= COMMANDS and len(every) <= OPTIONS
    assert len({"/".join(option.opts) for option in every}) <= SPELLINGS
    assert len(options(LEAVES["evaluate",])) <= 24


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_no_help_is_long(path):
    """`limner help COMMAND` shows the same."""
    wide = {"COLUMNS": str(COLUMNS), "NO_COLOR": "1"}
    help_text = CliRunner().invoke(app, ["help", *path], terminal_width=COLUMNS, env=wide).output
    assert help_text == CliRunner().invoke(app, [*path, "--help"], terminal_width=COLUMNS, env=wide).output
    assert len(help_text.strip().splitlines()) <= LINES


def test_what_is_written_and_which_model_have_one_name():
    names = {name for command in LEAVES.values() for option in options(command) for name in option.opts}
    assert not names & {"--save", "--out", "--system", "--encoder", "--set", "--loader", "--encoder-option"}
