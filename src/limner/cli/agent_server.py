"""A server of the Model Context Protocol: tools for an agent, as JSON-RPC messages on standard input and output.

One message per line. Tools run one after the other in a thread, so that the server answers a ping while one runs.
Standard output carries messages alone: what a tool or a library prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, TextIO

from limner.core.errors import LimnerError
from limner.core.version import VERSION

REVISIONS = ("2025-06-18", "2025-03-26", "2024-11-05")
"""Revisions of the protocol, the newest first."""
PARSE, INVALID, METHOD, ARGUMENTS = -32700, -32600, -32601, -32602
"""Codes of JSON-RPC: not JSON, not a request, no such method, wrong arguments."""
READ_ONLY = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True}

Message = dict[str, Any]


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
    arguments: Mapping[str, Any]
    call: Callable[[Mapping[str, Any]], Mapping[str, Any]]

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


def refuse_mismatch(arguments: object, schema: Mapping[str, Any]) -> None:
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


def _refuse_kind(name: str, value: object, schema: Mapping[str, Any]) -> None:
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
