"""JSON schemas of what commands print: real outputs fit them, and they say what there is."""

from __future__ import annotations

import importlib
import json
import runpy
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import json_samples
from limner.cli import app
from limner.cli.console import answer
from limner.cli.shell import FOLDER, output_schema, schema_files

jsonschema = pytest.importorskip("jsonschema", reason="schemas are tested with jsonschema")
ROOT = Path(__file__).parents[1]
COMMANDS = sorted({command for command, _ in json_samples.samples()})


@pytest.fixture
def outputs_fit_their_schemas():
    """The tests here look themselves, and print what does not fit."""


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What the commands print in small runs."""
    pytest.importorskip("lancedb", reason="an index needs lancedb")
    pytest.importorskip("sqlalchemy", reason="a store of answers needs sqlalchemy")
    return json_samples.outputs(tmp_path_factory.mktemp("samples"))


def closed(schema):
    """The schema with no other names than those it lists."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: closed(each) for name, each in schema.items()}
    return (
        {**inner, "additionalProperties": False}
        if "required" in inner and isinstance(inner["required"], list)
        else inner
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_outputs_fit_their_schema_and_have_no_further_names(printed, command):
    schema = output_schema(command.split())
    jsonschema.Draft202012Validator.check_schema(schema)
    outputs = [values for each, values in printed if each == command]
    assert outputs
    for values in outputs:
        jsonschema.validate(values, closed(schema))


def test_the_files_are_what_the_tool_writes(printed):
    tool = runpy.run_path(str(ROOT / "tools" / "json_schemas.py"))
    made = {command.replace(" ", "-"): schema for command, schema in tool["schemas"](printed).items()}
    written = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in FOLDER.glob("*.json")}
    assert made == written, "an output has changed: python tools/json_schemas.py"


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_output_does_not_fit(command):
    for wrong in ({}, {"error": "text"}, [], {"system": 3}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, output_schema(command.split()))


def extension(name, monkeypatch):
    """A module of the documentation's extensions."""
    monkeypatch.syspath_prepend(ROOT / "docs/extensions")
    return importlib.import_module(name)


def test_every_command_has_a_schema(monkeypatch):
    commands = [name.removeprefix("limner ") for name, _ in extension("command_pages", monkeypatch).commands()]
    assert sorted(commands) == sorted(schema_files()) == COMMANDS


def test_the_reference_shows_what_every_command_prints(monkeypatch):
    pages = extension("schema_pages", monkeypatch)
    page = pages.on_page_markdown((ROOT / "docs/reference/json_output.md").read_text(encoding="utf-8"))
    assert [line[10:] for line in page.splitlines() if line.startswith("## limner ")] == COMMANDS
    of_import = pages.section("annotate import")
    assert of_import == "## limner annotate import\n\n```text\nadded: integer\nleft_out: list of anything\n```\n"
    assert "\n  value: number or null\n" in page and "\ncounts: map of map of number or null\n" in page
    assert "text: string (optional)" in pages.section("search") and "\nor\n" in pages.section("evaluate")


def test_an_output_that_does_not_fit_is_seen_wherever_a_test_prints_it(monkeypatch, tmp_path):
    from output_schemas import command_of, misfits

    assert (
        command_of(["--json", "data", "describe", "scenes"]) == "data describe" and command_of(["my-command"]) is None
    )
    with misfits() as unfit:
        CliRunner().invoke(app, ["list", "systems", "--json"])
        assert not unfit
        monkeypatch.setattr(
            "limner.cli.commands.list.answer", lambda text, data, as_json: answer(text, {}, as_json=True)
        )
        CliRunner().invoke(app, ["list", "systems", "--json"])
        CliRunner().invoke(app, ["list", "nothing", "--json"])  # an error, which any command may print
    assert len(unfit) == 1 and unfit[0].startswith("limner list --json: $")


def test_the_command_prints_a_schema():
    done = CliRunner().invoke(app, ["help", "--schema", "data", "describe"])
    assert done.exit_code == 0 and json.loads(done.stdout) == output_schema(["data", "describe"])
    error = CliRunner().invoke(app, ["data", "describe", "nothing.csv", "--json"])
    jsonschema.validate(json.loads(error.stdout), output_schema(["data", "describe"]))
    unknown = CliRunner().invoke(app, ["help", "--schema", "data", "descibe"])
    assert unknown.exit_code == 3 and "did you mean 'data describe'" in unknown.stderr
    assert CliRunner().invoke(app, ["help", "--schema"]).exit_code == 3
    assert sys.modules["limner.cli.shell"] and "Usage" in CliRunner().invoke(app, ["help", "search"]).stdout
