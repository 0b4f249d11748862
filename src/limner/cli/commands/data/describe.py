"""limner data describe: counts the items of a collection and lists its warnings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.console import answer, progress, table
from limner.cli.errors import Status
from limner.cli.options import Json, Loading, command_options, flag, loading, part, switch, word
from limner.core.progress import SILENT, Progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from limner.core.collection import Collection

Spec = Annotated[
    str,
    typer.Argument(
        metavar="COLLECTION", help="scenes, flickr8k:DIR, captions.csv, a folder, ...: see 'limner list datasets'."
    ),
]


def describe(
    spec: Spec,
    split: Annotated[str | None, word("Only this split.")] = None,
    option: Loading = None,
    strict: Annotated[bool, flag("--strict", "Exit with status 1 if there are warnings.")] = False,
    as_json: Json = False,
) -> None:
    """Count the items of a collection, show an example, and list all warnings.

    -O check_images=true opens every image, and lists those that cannot be opened.

    Examples:
      $ limner data describe scenes -O images=100
      $ limner data describe captions.csv -O check_images=true --strict
    """
    settings, loader = command_options(option, "describe")
    checks = switch(settings, "check_images")
    with progress(f"loading {spec}") as step:
        full_collection = _loaded(spec, loader, step if checks else SILENT)
    chosen = full_collection if split is None else part(full_collection, split)
    counts = {**chosen.describe(), "warnings": list(chosen.warnings), "example": _example(chosen)}
    answer(_described(counts), counts, as_json=as_json)
    if strict and chosen.warnings:
        raise typer.Exit(Status.FAILED_CHECK)


def _loaded(spec: str, words: list[str] | None, check: Progress) -> Collection:
    """Loads without showing warnings, which `describe` lists itself; with `check`, opens every image."""
    import limner

    checking: dict[str, Any] = {} if check is SILENT else {"check_images": lambda rows: _counted(list(rows), check)}
    return limner.load(spec, **loading(words), **checking)


def _counted(rows: list[object], step: Progress) -> Iterator[object]:
    for number, row in enumerate(rows):
        step(number, len(rows))
        yield row


def _example(collection: Collection) -> dict[str, object] | None:
    """The first image with its texts."""
    pairs = collection.judgements.relevant
    if not len(pairs):
        return None
    first = int(pairs.rows[0])
    columns = pairs.columns[pairs.rows == first][:5]
    return {"image": collection.images.ids[first], "texts": [collection.texts.values[int(c)] for c in columns]}


def _described(counts: dict[str, Any]) -> str:
    per_image, example = counts["texts per image"], counts["example"]
    spread = (
        f"{per_image['least']} to {per_image['most']}" if per_image["least"] != per_image["most"] else per_image["most"]
    )
    rows = [
        ("images", f"{counts['images']:,}"),
        ("texts", f"{counts['texts']:,} ({spread} per image)"),
        *((f"judgements '{name}'", f"{size:,} relevant pairs") for name, size in counts["judgements"].items()),
        *((f"split '{name}'", f"{size:,} images") for name, size in counts["splits"].items()),
        ("warnings", str(len(counts["warnings"]))),
    ]
    lines = [counts["name"], table(rows, indent="  ")]
    if example:
        lines += [f"  for example {example['image']}:", *(f"    {text}" for text in example["texts"])]
    return "\n".join([*lines, *(f"  warning: {warning}" for warning in counts["warnings"])])
