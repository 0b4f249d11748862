"""The command `limner`, also as `python -m limner`."""

from __future__ import annotations

from limner.cli.interrupts import end_soon, heard, leave, raise_no_more


def main() -> None:
    """Runs the command. Ctrl-C ends it soon, whatever it does, and without a traceback while it is imported."""
    try:
        try:
            end_soon()
            from limner.cli import app

            app(prog_name="limner")
        finally:
            raise_no_more()
    except BaseException as error:
        if not heard.is_set() and not isinstance(error, KeyboardInterrupt):
            raise
        leave()


if __name__ == "__main__":
    main()
