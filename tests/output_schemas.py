"""Every JSON that a test prints through the command line is held against the schema of its command."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match as best

from limner.cli import console, shell


@cache
def _validator(command: str) -> Draft202012Validator:
    return Draft202012Validator(shell.output_schema(command.split()))


def command_of(words: Sequence[str]) -> str | None:
    """The command with a schema that words of a command line start with, options aside."""
    names, commands = [word for word in words if not word.startswith("-")], shell.schema_files()
    return next((" ".join(names[:n]) for n in (3, 2, 1) if " ".join(names[:n]) in commands), None)


@contextmanager
def misfits() -> Iterator[list[str]]:
    """What does not fit, while commands run in this process."""
    unfit: list[str] = []
    main, as_text = shell.Shell.main, console.as_text
    running: list[str | None] = [None]

    def noted(self: shell.Shell, args: Sequence[str] | None = None, *rest: object, **options: object) -> object:
        running[0] = command_of([str(word) for word in args or ()])
        return main(self, args, *rest, **options)

    def checked(data: Mapping[str, object]) -> str:
        text = as_text(data)
        if (command := running[0]) is not None and (error := best(_validator(command).iter_errors(json.loads(text)))):
            unfit.append(f"limner {command} --json: {error.json_path}: {error.message[:300]}")
        return text

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shell.Shell, "main", noted)
        patch.setattr(console, "as_text", checked)
        yield unfit
