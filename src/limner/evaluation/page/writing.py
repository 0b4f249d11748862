"""Renders a template to one file with its style and script, and a policy that allows nothing else."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files


def written(template: str, **content: object) -> str:
    """Renders a page. All external text is escaped, and only the page's own script may run.

    Args:
        template: A file in `templates`.
        content: The values for the template.
    """
    import jinja2
    from markupsafe import Markup

    sources = files("limner.evaluation.page") / "templates"
    style, script = ((sources / f"report.{ending}").read_text(encoding="utf-8") for ending in ("css", "js"))
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("limner.evaluation.page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = environment.get_template(template)
    return page.render(style=Markup(style), script=Markup(script), allowed=allowed, **content)
