"""limner serve --mcp: an agent's conversation with the server, over its standard input and output."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import limner
import toys
from limner.cli import app
from limner.cli.agent_server import REVISIONS, AgentServer, Tool, agent_tools
from limner.cli.shell import output_schema

CALL = "tools/call"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two reports, a run with judgements, and an index of vectors."""
    place = tmp_path_factory.mktemp("agent")
    toy = toys.collection()
    for name, noise in (("good", 0.5), ("poor", 2.5)):
        limner.evaluate(toys.scores(toy, noise=noise), toy, name=name, measures="R@1").save(place / f"{name}.json")
    (place / "run.json").write_text('{"q": {"a": 2, "b": 1}}')
    (place / "qrels.json").write_text('{"q": {"a": 1, "b": 0}}')
    return place


def conversation(folder, *messages, words=()):
    """The server's answers by id, and everything on its standard output."""
    lines = "".join(
        (each if isinstance(each, str) else json.dumps({"jsonrpc": "2.0", **each})) + "\n" for each in messages
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(limner.__file__).parents[1])}
    command = [sys.executable, "-m", "limner", "serve", "--mcp", *words]
    done = subprocess.run(
        command, input=lines, capture_output=True, text=True, cwd=folder, env=environment, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(answer["jsonrpc"] == "2.0" for answer in answers), "standard output carries the protocol alone"
    return {answer["id"]: answer for answer in answers}


def call(number, name, **arguments):
    return {"id": number, "method": CALL, "params": {"name": name, "arguments": arguments}}


def test_a_whole_conversation(folder):
    hello = {"protocolVersion": REVISIONS[0], "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    answers = conversation(
        folder,
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": "two", "method": "tools/list"},
        {"id": 3, "method": "ping"},
        call(4, "describe", collection="scenes", options=["images=30"]),
        call(5, "evaluate", collection="qrels.json", runs=["run.json"], measures="R@1"),
        call(6, "compare", reports=["good.json", "poor.json"]),
        call(7, "evaluate", collection="qrels.json", runs=["none.run"]),
        call(8, "evaluate", collection="scenes", models=["os:system"]),
    )
    assert set(answers) == {1, "two", 3, 4, 5, 6, 7, 8}
    assert answers[1]["result"]["protocolVersion"] == REVISIONS[0]
    assert answers[1]["result"]["serverInfo"]["name"] == "limner"
    tools = {tool["name"]: tool for tool in answers["two"]["result"]["tools"]}
    assert set(tools) == {"search", "evaluate", "compare", "describe"}
    assert all(tool["annotations"]["readOnlyHint"] for tool in tools.values())
    assert answers[3]["result"] == {}
    results = {number: answers[number]["result"] for number in range(4, 9)}
    assert [results[number]["isError"] for number in range(4, 9)] == [False, False, False, True, True], results
    assert results[4]["structuredContent"]["images"] == 30
    assert results[5]["structuredContent"]["results"][0]["value"] == 1
    assert json.loads(results[6]["content"][0]["text"]) == results[6]["structuredContent"]
    assert results[6]["structuredContent"]["systems"] == ["good", "poor"]
    jsonschema = pytest.importorskip("jsonschema", reason="schemas are tested with jsonschema")
    for number, command in ((4, "data describe"), (5, "evaluate"), (6, "compare")):
        jsonschema.validate(results[number]["structuredContent"], output_schema(command.split()))
    assert "no ranking file none.run" in results[7]["content"][0]["text"]
    assert "names code" in results[8]["content"][0]["text"]


def test_a_search(tmp_path):
    pytest.importorskip("lancedb", reason="an index needs lancedb")
    made = CliRunner().invoke(
        app, ["index", str(tmp_path / "i.index"), "scenes", "-O", "images=40", "--model", "colours"]
    )
    assert made.exit_code == 0, made.stderr
    tool = next(tool for tool in agent_tools() if tool.name == "search")
    hits = tool.call({"index": str(tmp_path / "i.index"), "text": "a green field", "k": 3})["hits"]
    assert [hit["rank"] for hit in hits] == [1, 2, 3]


def answered(message, tools=()):
    output = io.StringIO()
    AgentServer(tools, output).run(io.StringIO(message if isinstance(message, str) else json.dumps(message) + "\n"))
    lines = output.getvalue().splitlines()
    return json.loads(lines[0]) if lines else None


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("{nonsense\n", -32700),
        ("[" * 10_000 + "\n", -32700),
        ([{"jsonrpc": "2.0", "id": 1, "method": "ping"}], -32600),
        ({"id": 1}, -32600),
        ({"id": 1, "method": "tools/delete"}, -32601),
        ({"id": 1, "method": CALL, "params": {"name": "delete"}}, -32602),
        ({"id": 1, "method": CALL, "params": ["describe"]}, -32602),
    ],
)
def test_bad_messages(message, code):
    assert answered(message)["error"]["code"] == code


@pytest.mark.parametrize(
    "message", ["\n", '{"method": "notifications/cancelled", "params": {}}\n', '{"id": 1, "result": {}}\n']
)
def test_messages_without_an_answer(message):
    assert answered(message) is None


def test_an_unknown_revision_gets_the_newest():
    message = {"id": 1, "method": "initialize", "params": {"protocolVersion": "1999-01-01"}}
    assert answered(message)["result"]["protocolVersion"] == REVISIONS[0]
    old = {"id": 1, "method": "initialize", "params": {"protocolVersion": REVISIONS[-1]}}
    assert answered(old)["result"]["protocolVersion"] == REVISIONS[-1]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("describe", {}, "no argument 'collection'"),
        ("describe", {"collection": 3}, "argument 'collection' is 3: expected string"),
        ("describe", {"collection": "scenes", "output": "x"}, "unknown argument 'output'"),
        ("search", {"index": "i", "text": "x", "k": 0}, "argument 'k' is 0: expected 1 to 1000"),
        ("search", {"index": "i", "text": "x", "k": True}, "argument 'k' is True: expected integer"),
        ("compare", {"reports": "a.json"}, "expected array"),
        ("compare", {"reports": ["a.json", 4]}, "argument 'reports' is 4: expected string"),
        ("compare", {"reports": ["--output=x.md", "a.json"]}, "begins with a dash"),
        ("evaluate", {"collection": "-oreport.html"}, "begins with a dash"),
        ("evaluate", {"collection": "scenes", "measures": "os:system"}, "names code"),
        ("describe", {"collection": "os:getcwd"}, "unknown data set 'os'"),
    ],
)
def test_arguments_that_are_refused(name, arguments, message):
    request = {"id": 1, "method": CALL, "params": {"name": name, "arguments": arguments}}
    result = answered(request, agent_tools())["result"]
    assert result["isError"] and message in result["content"][0]["text"]


def test_a_fault_of_a_tool_does_not_end_the_server():
    def broken(_):
        raise ZeroDivisionError("by zero")

    tool = Tool("broken", "Fails.", {"type": "object", "properties": {}}, broken)
    result = answered({"id": 1, "method": CALL, "params": {"name": "broken"}}, [tool])["result"]
    assert result["isError"] and "a bug in limner" in result["content"][0]["text"]


def test_a_text_that_looks_like_an_option_is_a_text():
    from limner.cli.attached_options import attached
    from limner.cli.command_table import Commands

    words = ["--json", "-k", "3", "i.index", "--", "-octopus"]
    assert attached(words, Commands()["search"]) == words


def test_other_options_are_refused_with_mcp():
    done = CliRunner().invoke(app, ["serve", "--mcp", "--port", "1"])
    assert done.exit_code == 2 and "port with --mcp" in done.stderr


def test_a_server_that_is_left_by_its_client_ends(folder):
    assert conversation(folder) == {}
