"""The command `limner` itself: its options, its help, and one clear line and an exit status for any error."""

from __future__ import annotations

import atexit
import gc
import io
import json
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from limner import __version__
from limner.cli import interrupts
from limner.cli.command_table import Commands, Json, Trust
from limner.cli.console import Unprinted, as_text, put, tell
from limner.core.cut_texts import warned_once
from limner.core.errors import LimnerError, LimnerWarning, UnknownName
from limner.core.extras import of_an_extra
from limner.core.options import OptionValues

# Typer has vendored its parser under different names; a bad parameter is always a usage error.
UsageError: Any = typer.BadParameter.__bases__[0]


class Status(IntEnum):
    """Exit statuses."""

    DONE = 0
    FAILED_CHECK = 1
    USAGE = 2
    INPUT = 3
    FAULT = 70
    INTERRUPTED = interrupts.INTERRUPTED
    BROKEN_PIPE = 141


STATUSES = {
    Status.DONE: "done",
    Status.FAILED_CHECK: "done, but a check failed: compare --fail-if-worse, data describe --strict",
    Status.USAGE: "the command line is invalid",
    Status.INPUT: "an input or a file is invalid",
    Status.FAULT: "a bug in limner; LIMNER_DEBUG=1 shows it",
    Status.INTERRUPTED: "interrupted",
}
"""The meaning of each exit status, for the help."""


class Shell(TyperGroup):
    """The top-level command: runs a subcommand and turns any error into one line and an exit status."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = cast(Any, Commands())

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = "limner",
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> object:
        """Parses the arguments and runs the command; in standalone mode exits with a `Status`."""
        main_arguments = (prog_name, complete_var, False, windows_expand_args)
        args = list(sys.argv[1:] if args is None else args)
        if not standalone_mode:
            return super().main(args, *main_arguments, **extra)
        _bear_any_character()
        _end_quickly()
        schema_of = args[2:] if args[:2] == ["help", "--schema"] else None
        if args[:1] == ["help"]:  # `limner help COMMAND` is `limner COMMAND --help`
            args = [*args[1:], "--help"]
        self.as_json = "--json" in args
        try:
            status = super().main(args, *main_arguments, **extra) if schema_of is None else _put_schema(schema_of)
        except UsageError as error:
            status = self._misused(error)
        except Exception as error:  # an option that exits during parsing, such as --version
            status = self._failed(error)
        sys.exit(status if isinstance(status, int) else Status.DONE)

    def invoke(self, ctx: Any) -> object:
        """Runs the command, with all error handling in one place."""
        try:
            with _warnings_on_stderr(), warned_once():
                result = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()  # here, where a closed pipe can still be handled
            return result
        except (typer.Exit, typer.Abort, UsageError):
            raise
        except KeyboardInterrupt:
            raise typer.Exit(self._interrupted()) from None
        except Exception as error:
            if ctx.params.get("debug") and not interrupts.heard.is_set():
                traceback.print_exc()
            raise typer.Exit(self._failed(error)) from None

    as_json = False

    def _misused(self, error: Any) -> int:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
            return Status.USAGE
        path = error.ctx.command_path if error.ctx else "limner"
        return self._report(f"error: {error.format_message()} (see '{path} --help')", Status.USAGE)

    def _failed(self, error: Exception) -> int:
        if interrupts.heard.is_set():
            return self._interrupted()
        if isinstance(error, BrokenPipeError):
            _abandon_stdout()
            return Status.BROKEN_PIPE
        if isinstance(error, Unprinted):
            _abandon_stdout()
            tell(f"error: {error}")
            return Status.INPUT
        if isinstance(error, LimnerError):
            return self._report(f"error: {error}", Status.INPUT)
        if isinstance(error, OSError):
            named = f"{error.filename}: " if error.filename else ""
            return self._report(f"error: {named}{error.strerror or error}", Status.INPUT)
        if isinstance(error, MemoryError):
            return self._report(f"error: not enough memory ({error})".replace(" ()", ""), Status.INPUT)
        if (absent := of_an_extra(error, what="this command")) is not None:
            return self._report(f"error: {absent}", Status.INPUT)
        fault = f"a bug in limner, not in your input ({type(error).__name__}: {error})"
        return self._report(f"error: {fault}; see it with LIMNER_DEBUG=1", Status.FAULT)

    def _interrupted(self) -> int:
        interrupts.reported.set()
        return self._report(interrupts.MESSAGE, Status.INTERRUPTED)

    def _report(self, message: str, status: Status) -> Status:
        """Reports an error: on stderr, and with --json on stdout too."""
        tell(message)
        if self.as_json and sys.stdout is not None:
            try:
                put(as_text({"error": {"message": message.removeprefix("error: "), "status": int(status)}}))
            except (OSError, Unprinted):
                _abandon_stdout()
        return status


def _put_schema(command: Sequence[str]) -> int:
    """Prints the JSON schema of what a command prints with --json."""
    put(as_text(output_schema(command)))
    return Status.DONE


@contextmanager
def _warnings_on_stderr() -> Iterator[None]:
    """Shows each of limner's warnings as one line on stderr."""

    def show(message: Warning | str, category: type[Warning], *place: Any, **details: Any) -> None:
        if issubclass(category, LimnerWarning):
            tell(f"warning: {message}")
        else:
            python_way(message, category, *place, **details)

    with warnings.catch_warnings():
        warnings.simplefilter("always", LimnerWarning)
        python_way, warnings.showwarning = warnings.showwarning, show
        yield


def _abandon_stdout() -> None:
    """Discards buffered output, so that nothing is flushed at exit."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@cache
def _end_quickly() -> None:
    """At the end of the process, leaves memory to the system: a last search for garbage takes 0.2 s."""
    atexit.register(gc.freeze)


def _bear_any_character() -> None:
    """Escapes characters that the terminal's encoding does not support, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


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


WARNINGS = {"type": "array", "items": {"type": "string"}}
"""What any command adds if texts were cut."""


def schema_files() -> dict[str, Path]:
    """The file of every command with a schema, by the name of the command."""
    return {file.stem.replace("-", " "): file for file in FOLDER.glob("*.json")}


def output_schema(words: Sequence[str]) -> OptionValues:
    """The schema of the output of a command; an error has another form.

    Args:
        words: The command, such as ["data", "describe"].

    >>> sorted(output_schema(["annotate", "import"])["anyOf"][0]["properties"])
    ['added', 'left_out', 'warnings']
    """
    files, command = schema_files(), " ".join(words)
    if command not in files:
        raise UnknownName("command with a schema", command, files)
    schema: OptionValues = json.loads(files[command].read_text(encoding="utf-8"))
    for form in schema["anyOf"]:
        form["properties"]["warnings"] = WARNINGS
    return {**schema, "anyOf": [*schema["anyOf"], ERROR]}


__all__ = ["app"]

app = typer.Typer(
    name="limner",
    cls=Shell,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _version(is_set: bool) -> None:
    if is_set:
        put(f"limner {__version__}")
        raise typer.Exit


_STATUSES = "\n".join(["Exit status:", *(f"{status:>5}  {meaning}" for status, meaning in STATUSES.items())])


@app.callback(epilog=_STATUSES)
def limner(
    version: Annotated[
        bool, typer.Option("--version", metavar="", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    trust: Trust = False,
    as_json: Json = False,
    debug: Annotated[bool, typer.Option("--debug", envvar="LIMNER_DEBUG", hidden=True)] = False,
) -> None:
    """Match images with text, evaluate the result, and explain failures.

    Start with [bold]limner demo[/]; every command has help with examples: [bold]limner evaluate --help[/].
    """
