"""Templates of web pages, from the files of a package."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Template


def template(package: str, name: str, *, folder: str = ".") -> Template:
    """A template that escapes all values; an unknown value is an error.

    Args:
        package: The package that has the file, such as "limner.search".
        name: The file.
        folder: Its folder in the package; templates there may extend and include each other.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template(name)
