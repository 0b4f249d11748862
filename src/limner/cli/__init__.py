"""The command `limner`: parses arguments, calls the public API, prints."""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["app"]

if TYPE_CHECKING:
    from limner.cli.shell import app
else:

    def __getattr__(name: str) -> object:
        """Imports the command on first use: Ctrl-C is handled before the libraries that it needs are imported."""
        if name != "app":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from limner.cli.shell import app

        return app
