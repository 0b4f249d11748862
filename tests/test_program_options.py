"""Options of the program are given before the command, or after it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from limner.cli import app

COMMANDS = {"list fusions": "fusions", "data describe scenes -O images=30": "dataset"}


@pytest.mark.parametrize("command", COMMANDS)
def test_json_is_an_option_before_and_after_the_command(command):
    answers = [CliRunner().invoke(app, words.split()) for words in (f"--json {command}", f"{command} --json")]
    assert answers[0].exit_code == 0 and answers[0].output == answers[1].output
    assert json.loads(answers[0].stdout)
    assert not CliRunner().invoke(app, command.split()).stdout.startswith("{")


def test_help_names_them_in_one_line():
    wide = {"COLUMNS": "100", "NO_COLOR": "1"}
    program = CliRunner().invoke(app, ["help"], env=wide).output
    assert "Options of every command" in program and program.count("--json") == program.count("--trust") == 1
    of_list = CliRunner().invoke(app, ["list", "--help"], env=wide).output
    assert of_list.count("--json") == 1 and "limner help" in of_list
