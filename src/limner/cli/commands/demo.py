"""limner demo: a short tour."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from limner.cli.console import answer, progress
from limner.cli.options import Json, flag, out_word, word, writable


def demo(
    out: Annotated[Path, out_word("Output folder.", metavar="DIR", callback=writable)] = Path("limner-demo"),
    images: Annotated[int, word("Number of images.", metavar="N", min=25)] = 1000,
    seed: Annotated[int, word("Which world.", metavar="N", min=0)] = 0,
    show: Annotated[bool, flag("--open", "Open the report in a browser.")] = False,
    as_json: Json = False,
) -> None:
    """Generate a synthetic data set, train two systems, evaluate them, and write the report.

    Everything runs on this machine; nothing is downloaded.

    Examples:
      $ limner demo
      $ limner demo --images 500 -o /tmp/small --open
    """
    import gc

    from limner.cli.story import story

    gc.set_threshold(100_000, 50, 50)  # the scenes are many small objects that stay: looking through them frees nothing
    told = {}
    for number, chapter in enumerate(story(out, images=images, seed=seed, stage=progress), start=1):
        told[chapter.title] = chapter.data
        if not as_json:
            lines = [f"{number}. {chapter.title}", *(f"   {line}" for line in chapter.text.splitlines())]
            answer("\n".join(lines) + "\n", {}, as_json=False)
    if as_json:
        answer("", told, as_json=True)
    if show:
        typer.launch((out / "report.html").resolve().as_uri())
