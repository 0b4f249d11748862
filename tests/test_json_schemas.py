"""JSON schemas of what commands print: real outputs fit them, and they say what there is."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import json_samples
from limner.cli import app
from limner.cli.shell import FOLDER, output_schema

jsonschema = pytest.importorskip("jsonschema", reason="schemas are tested with jsonschema")
COMMANDS = sorted({command for command, _ in json_samples.samples()})


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
    tool = runpy.run_path(str(Path(__file__).parents[1] / "tools" / "json_schemas.py"))
    made = {command.replace(" ", "-"): schema for command, schema in tool["schemas"](printed).items()}
    written = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in FOLDER.glob("*.json")}
    assert made == written, "an output has changed: python tools/json_schemas.py"


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_output_does_not_fit(command):
    for wrong in ({}, {"error": "text"}, [], {"system": 3}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, output_schema(command.split()))


def test_the_command_prints_a_schema():
    done = CliRunner().invoke(app, ["help", "--schema", "data", "describe"])
    assert done.exit_code == 0 and json.loads(done.stdout) == output_schema(["data", "describe"])
    error = CliRunner().invoke(app, ["data", "describe", "nothing.csv", "--json"])
    jsonschema.validate(json.loads(error.stdout), output_schema(["data", "describe"]))
    unknown = CliRunner().invoke(app, ["help", "--schema", "data", "descibe"])
    assert unknown.exit_code == 3 and "did you mean 'data describe'" in unknown.stderr
    assert CliRunner().invoke(app, ["help", "--schema"]).exit_code == 3
    assert sys.modules["limner.cli.shell"] and "Usage" in CliRunner().invoke(app, ["help", "search"]).stdout
