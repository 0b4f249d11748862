"""A server of the Model Context Protocol: tools for an agent, as JSON-RPC messages on standard input and output.

One message per line. Tools run one after the other in a thread, so that the server answers a ping while one runs.
Standard output carries messages alone: what a tool or a library prints goes to standard error.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TextIO

from limner.core.errors import LimnerError
from limner.core.options import OptionValues
from limner.core.paths import JsonObject
from limner.core.version import VERSION

REVISIONS = ("2025-06-18", "2025-03-26", "2024-11-05")
"""Revisions of the protocol, the newest first."""
PARSE, INVALID, METHOD, ARGUMENTS = -32700, -32600, -32601, -32602
"""Codes of JSON-RPC: not JSON, not a request, no such method, wrong arguments."""
READ_ONLY = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True}

Message = OptionValues


@dataclass(frozen=True)
class Tool:
    """Something that an agent can call.

    Args:
        name: Its name.
        about: What it does and when to use it.
        arguments: The JSON schema of its arguments, an object.
        call: Called with checked arguments; returns values, or raises `LimnerError`.
    """

    name: str
    about: str
    arguments: JsonObject
    call: Callable[[JsonObject], JsonObject]

    def described(self) -> Message:
        """The tool as `tools/list` shows it."""
        return {
            "name": self.name,
            "description": self.about,
            "inputSchema": dict(self.arguments),
            "annotations": {"title": self.name, **READ_ONLY},
        }


@dataclass
class AgentServer:
    """Answers messages.

    Args:
        tools: The tools.
        output: Where messages are written.
        instructions: What an agent should know first.
    """

    tools: Sequence[Tool]
    output: TextIO
    instructions: str = ""
    _lock: Lock = field(default_factory=Lock)

    def run(self, lines: TextIO) -> None:
        """Answers every line until the input ends."""
        with ThreadPoolExecutor(1) as pool:
            for line in lines:
                if line.strip():
                    self._receive(line, pool)

    def _receive(self, line: str, pool: ThreadPoolExecutor) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return self._send({"id": None, "error": _error(PARSE, "not JSON: expected one message per line")})
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            is_answer = isinstance(message, dict) and ("result" in message or "error" in message)
            return None if is_answer else self._send({"id": None, "error": _error(INVALID, "expected one request")})
        if "id" not in message:  # a notification
            return None
        if message["method"] == "tools/call":
            pool.submit(self._respond, message)
            return None
        return self._respond(message)

    def _respond(self, message: Message) -> None:
        params = message.get("params") or {}
        methods: dict[str, Callable[[Message], Message]] = {
            "initialize": self._initialize,
            "ping": lambda _: {},
            "tools/list": lambda _: {"tools": [tool.described() for tool in self.tools]},
            "tools/call": self._call,
        }
        try:
            if message["method"] not in methods:
                raise _Refused(METHOD, f"no method {message['method']!r}: expected {', '.join(methods)}")
            if not isinstance(params, dict):
                raise _Refused(ARGUMENTS, "params: expected an object")
            self._send({"id": message["id"], "result": methods[message["method"]](params)})
        except _Refused as refusal:
            self._send({"id": message["id"], "error": _error(refusal.code, str(refusal))})

    def _initialize(self, params: Message) -> Message:
        asked_revision = params.get("protocolVersion")
        return {
            "protocolVersion": asked_revision if asked_revision in REVISIONS else REVISIONS[0],
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": {"name": "limner", "version": VERSION},
            "instructions": self.instructions,
        }

    def _call(self, params: Message) -> Message:
        tool = next((tool for tool in self.tools if tool.name == params.get("name")), None)
        if tool is None:
            names = ", ".join(tool.name for tool in self.tools)
            raise _Refused(ARGUMENTS, f"unknown tool {params.get('name')!r}: expected one of {names}")
        arguments = params.get("arguments") or {}
        try:
            refuse_mismatch(arguments, tool.arguments)
            values = tool.call(arguments)
        except LimnerError as error:
            return {"content": [{"type": "text", "text": str(error)}], "isError": True}
        except Exception as error:  # the agent is told, and the server goes on
            text = f"a bug in limner, not in your input ({type(error).__name__}: {error})"
            return {"content": [{"type": "text", "text": text}], "isError": True}
        text = json.dumps(values, ensure_ascii=False, allow_nan=False)
        return {"content": [{"type": "text", "text": text}], "structuredContent": dict(values), "isError": False}

    def _send(self, message: Message) -> None:
        with self._lock:
            self.output.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            self.output.flush()


class _Refused(Exception):
    """A request that gets an error of the protocol."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def _error(code: int, message: str) -> Message:
    return {"code": code, "message": message}


_KINDS: Mapping[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float), "array": (list,)}


def refuse_mismatch(arguments: object, schema: JsonObject) -> None:
    """Refuses arguments that the schema of a tool does not allow.

    >>> refuse_mismatch({"k": "ten"}, {"properties": {"k": {"type": "integer"}}})
    Traceback (most recent call last):
    limner.core.errors.LimnerError: argument 'k' is 'ten': expected integer
    """
    if not isinstance(arguments, dict):
        raise LimnerError(f"arguments {arguments!r}: expected an object")
    properties = schema["properties"]
    for name in schema.get("required", ()):
        if name not in arguments:
            raise LimnerError(f"no argument {name!r}: expected {', '.join(schema['required'])}")
    for name, value in arguments.items():
        if name not in properties:
            raise LimnerError(f"unknown argument {name!r}: expected one of {', '.join(properties)}")
        _refuse_kind(name, value, properties[name])


def _refuse_kind(name: str, value: object, schema: JsonObject) -> None:
    if not isinstance(value, _KINDS[schema["type"]]) or isinstance(value, bool):
        raise LimnerError(f"argument {name!r} is {value!r}: expected {schema['type']}")
    if isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        raise LimnerError(f"argument {name!r} is {value}: expected {schema['minimum']} to {schema['maximum']}")
    for each in value if isinstance(value, list) else ():
        _refuse_kind(name, each, schema["items"])


def serve_agent(tools: Sequence[Tool], *, instructions: str = "") -> None:
    """Serves tools on standard input and output until the input ends.

    Args:
        tools: The tools.
        instructions: What an agent should know first.
    """
    output = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    os.dup2(2, 1)  # what compiled libraries print must not mix with messages
    sys.stdout = sys.stderr
    sys.stdin.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]  # a file, not a test's stream
    AgentServer(tools, output, instructions).run(sys.stdin)


INSTRUCTIONS = (
    "limner measures how well a model matches images with texts, with confidence intervals. 'describe' says what a "
    "data set has, 'evaluate' measures models or runs, 'compare' tells whether saved reports differ significantly, and "
    "'search' finds images or texts in an index. All tools read and write nothing but caches. Values are shares of 1 "
    "unless they are ranks; a difference is significant where its adjusted p-value is below 0.05."
)
_COLLECTION = {
    "type": "string",
    "description": (
        "A data set: a path (captions.csv, a folder), NAME:DIR (flickr8k:DIR), 'scenes' (built in), or a file of qrels "
        "for runs."
    ),
}
_WORDS = {"type": "array", "items": {"type": "string"}}


def _object(*required: str, **properties: JsonObject) -> OptionValues:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


SPLIT = {"type": "string", "description": "Only this split, such as test."}
LOADING = {**_WORDS, "description": "Options of the data set's loader, as NAME=VALUE."}
DESCRIBE = _object("collection", collection=_COLLECTION, split=SPLIT, options=LOADING)
EVALUATE = _object(
    "collection",
    collection=_COLLECTION,
    models={**_WORDS, "description": "Models: a folder, or a name of 'limner list systems' or 'encoders'."},
    runs={**_WORDS, "description": "Or files of a run: TREC, JSON, or MTEB's predictions."},
    measures={"type": "string", "description": "Such as 'R@1 R@10 MedR nDCG@10'; the usual ones by default."},
    split=SPLIT,
    options=LOADING,
)
COMPARE = _object(
    "reports", reports={**_WORDS, "description": "Two or more reports that 'limner evaluate -o FILE.json' wrote."}
)
SEARCH = _object(
    "index",
    "text",
    index={"type": "string", "description": "An index that 'limner index' built."},
    text={"type": "string", "description": "The words to search for."},
    k={"type": "integer", "minimum": 1, "maximum": 1000, "description": "Number of hits; 10 by default."},
    where={**_WORDS, "description": "Only items whose field has a value: FIELD=VALUE."},
)


def agent_tools(*, trust: bool = False) -> list[Tool]:
    """The tools.

    Args:
        trust: Whether names may be code, `module:thing`.
    """
    about = {
        "describe": "Count the images, texts, judgements and splits of a data set, and list its warnings.",
        "evaluate": "Measure models, or a run, on a data set: recall and other measures with confidence intervals.",
        "compare": "Compare saved reports query by query: differences with intervals and p-values.",
        "search": "Find the images or texts of an index that match a text best.",
    }
    calls = {"describe": (DESCRIBE, _describe), "evaluate": (EVALUATE, _evaluate), "compare": (COMPARE, _compare)}
    calls["search"] = (SEARCH, _search)
    return [Tool(name, about[name], schema, partial(call, trust)) for name, (schema, call) in calls.items()]


def _describe(trust: bool, arguments: JsonObject) -> JsonObject:
    return run_command("data", "describe", *_collection(arguments, trust))


def _evaluate(trust: bool, arguments: JsonObject) -> JsonObject:
    models, measures = arguments.get("models", ()), arguments.get("measures", "")
    if not trust:
        for name in (*models, measures):
            refuse_code(name)
    words = [f"--model={each}" for each in models] + [f"--run={each}" for each in arguments.get("runs", ())]
    words += [f"--measures={measures}"] if measures else []
    return run_command("evaluate", *_collection(arguments, trust), *words)


def _compare(_: bool, arguments: JsonObject) -> JsonObject:
    return run_command("compare", *map(_positional, arguments["reports"]))


def _search(_: bool, arguments: JsonObject) -> JsonObject:
    filters = [f"--where={each}" for each in arguments.get("where", ())]
    return run_command(
        "search", f"-k{arguments.get('k', 10)}", *filters, _positional(arguments["index"]), "--", arguments["text"]
    )


def _collection(arguments: JsonObject, trust: bool) -> list[str]:
    from limner.datasets import refuse_foreign

    collection, options = _positional(arguments["collection"]), arguments.get("options", ())
    if not trust and not collection.startswith("qrels:") and not Path(collection).exists():
        refuse_foreign(collection, {})
    split = [f"--split={arguments['split']}"] if "split" in arguments else []
    return [collection, *(word for each in options for word in ("-O", each)), *split]


def _positional(word: str) -> str:
    if word.startswith("-"):
        raise LimnerError(f"{word!r} begins with a dash: expected a name or a path")
    return word


def refuse_code(name: str) -> None:
    """Refuses a name that would import code.

    >>> refuse_code("clip(model=DIR)"), refuse_code("hf-hub:org/model")
    (None, None)
    >>> refuse_code("os:system")
    Traceback (most recent call last):
    limner.core.errors.LimnerError: 'os:system' names code: start the server with --trust to allow it
    """
    if ":" in name.removeprefix("hf-hub:").removeprefix("hf:") and not Path(name).exists():
        raise LimnerError(f"{name!r} names code: start the server with --trust to allow it")


def run_command(*words: str) -> JsonObject:
    """What a command prints with --json; raises its error."""
    from limner.cli.shell import app

    printed = io.StringIO()
    at = 2 if words[0] == "data" else 1
    with redirect_stdout(printed), suppress(SystemExit):  # with --json an error is printed too
        app([*words[:at], "--json", *words[at:]])
    values = json.loads(printed.getvalue())
    if set(values) == {"error"}:
        raise LimnerError(values["error"]["message"])
    result: JsonObject = values
    return result
