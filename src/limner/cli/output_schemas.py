"""The JSON schemas of what commands print with --json: `limner help --schema COMMAND`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from limner.core.errors import UnknownName

FOLDER = Path(__file__).parent / "schemas"
"""A file for each command, written by `tools/json_schemas.py`."""
ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {"message": {"type": "string"}, "status": {"type": "integer"}},
            "required": ["message", "status"],
        }
    },
    "required": ["error"],
}
"""What every command prints with --json if it fails."""


def output_schema(words: Sequence[str]) -> dict[str, Any]:
    """The schema of the output of a command; an error has another form.

    Args:
        words: The command, such as ["data", "describe"].

    >>> sorted(output_schema(["annotate", "import"])["anyOf"][0]["properties"])
    ['added', 'left_out']
    """
    files = {file.stem.replace("-", " "): file for file in FOLDER.glob("*.json")}
    command = " ".join(words)
    if command not in files:
        raise UnknownName("command with a schema", command, files)
    file = files[command]
    schema: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return {**schema, "anyOf": [*schema["anyOf"], ERROR]}
