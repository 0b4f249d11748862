"""Renders a template to one file with its style and script, and a policy that allows nothing else."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files

from limner.core.pages import template

NOTES = ("notes", "Notes")
"""Anchor and title of the section in `notes.html`."""


def written(file: str, /, **content: object) -> str:
    """Renders a page. All external text is escaped, and only the page's own script may run.

    Args:
        file: A file in `templates`.
        content: The values for the template; `page.html` needs `version` and `contents`, the (anchor, title)
            of each section.
    """
    from markupsafe import Markup

    sources = files("limner.evaluation.reports.page") / "templates"
    style, script = ((sources / f"report.{ending}").read_text(encoding="utf-8") for ending in ("css", "js"))
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = template("limner.evaluation.reports.page", file, folder="templates")
    return page.render(style=Markup(style), script=Markup(script), allowed=allowed, **content)
