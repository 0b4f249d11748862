"""The command `limner`, also as `python -m limner`."""

from __future__ import annotations

import sys

from limner.core.interrupts import INTERRUPTED, end_soon, heard, say_interrupted


def main() -> None:
    """Runs the command. Ctrl-C ends it soon, whatever it does, and without a traceback while it is imported."""
    try:
        end_soon()
        from limner.cli import app

        app(prog_name="limner")
    except BaseException as error:
        if not heard.is_set() and not isinstance(error, KeyboardInterrupt):
            raise
        say_interrupted()
        exec("")  # Python forgets an interrupt during an `exec` of text, for which it would kill itself by the signal
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
