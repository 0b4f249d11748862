"""What becomes of an error: one clear line and an exit status that means something, never a traceback."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperGroup

from limner.cli.console import tell
from limner.errors import LimnerError

# Typer has brought its parser along under different names; a bad parameter has always been a usage error.
UsageError: Any = typer.BadParameter.__bases__[0]


class Status(IntEnum):
    """Exit statuses."""

    DONE = 0
    FAILED_CHECK = 1
    USAGE = 2
    INPUT = 3
    FAULT = 70
    INTERRUPTED = 130
    BROKEN_PIPE = 141


STATUSES = {
    Status.DONE: "done",
    Status.FAILED_CHECK: "done, but a check failed: compare --fail-if-worse, data describe --strict",
    Status.USAGE: "the command line is wrong",
    Status.INPUT: "an input or a file is not as it should be",
    Status.FAULT: "a fault in limner; LIMNER_DEBUG=1 shows it",
    Status.INTERRUPTED: "interrupted",
}
"""What each status means, for the help."""


class Shell(TyperGroup):
    """The top command: runs the one that is asked for and turns whatever goes wrong into a line and a status."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = "limner",
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Parses and runs; in standalone mode ends the process with a `Status`."""
        rest = (prog_name, complete_var, False, windows_expand_args)
        if not standalone_mode:
            return super().main(args, *rest, **extra)
        try:
            status = super().main(args, *rest, **extra)
        except UsageError as error:
            status = _misused(error)
        sys.exit(status if isinstance(status, int) else Status.DONE)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command, with everything that may go wrong in one place."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # here, where a closed pipe can still be handled
            return result
        except (typer.Exit, typer.Abort, UsageError):
            raise
        except KeyboardInterrupt:
            tell("interrupted; files are written whole or not at all, so nothing is half done")
            raise typer.Exit(Status.INTERRUPTED) from None
        except Exception as error:
            if ctx.params.get("debug"):
                traceback.print_exc()
            raise typer.Exit(_failed(error)) from None


def _misused(error: Any) -> int:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return Status.USAGE
    path = error.ctx.command_path if error.ctx else "limner"
    tell(f"error: {error.format_message()} (see '{path} --help')")
    return Status.USAGE


def _failed(error: Exception) -> int:
    if isinstance(error, LimnerError):
        tell(f"error: {error}")
        return Status.INPUT
    if isinstance(error, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to flush when Python ends
        return Status.BROKEN_PIPE
    if isinstance(error, OSError):
        named = f"{error.filename}: " if error.filename else ""
        tell(f"error: {named}{error.strerror or error}")
        return Status.INPUT
    tell(f"error: a fault in limner, not in your input ({type(error).__name__}: {error}); see it with LIMNER_DEBUG=1")
    return Status.FAULT
