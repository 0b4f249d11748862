"""limner demo: a short tour."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from limner.cli.console import answer, progress
from limner.cli.options import Json, Loading, flag, named_options, number, out_word, writable


def demo(
    out: Annotated[Path, out_word("Output folder.", metavar="DIR", callback=writable)] = Path("limner-demo"),
    option: Loading = None,
    show: Annotated[bool, flag("--open", "Open the report in a browser.")] = False,
    as_json: Json = False,
) -> None:
    """Generate a synthetic data set, train two systems, evaluate them, and write the report.

    Everything runs on this machine; nothing is downloaded. -O images=N is the number of images, -O seed=N the world.

    Examples:
      $ limner demo
      $ limner demo -O images=500 -o /tmp/small --open
    """
    import gc

    from limner.cli.demo_chapters import chapters

    demo_options = named_options(option, ("images", "seed"), of="demo")
    images, seed = number(demo_options, "images", 1000), number(demo_options, "seed", 0)
    if images < 25 or seed < 0:
        raise typer.BadParameter(f"-O images={images} -O seed={seed}: expected 25 images or more, and a seed from 0")

    gc.set_threshold(100_000, 50, 50)  # the scenes are many small objects that stay: looking through them frees nothing
    chapter_data = {}
    for position, chapter in enumerate(chapters(out, images=images, seed=seed, stage=progress), start=1):
        chapter_data[chapter.title] = chapter.data
        if not as_json:
            lines = [f"{position}. {chapter.title}", *(f"   {line}" for line in chapter.text.splitlines())]
            answer("\n".join(lines) + "\n", {}, as_json=False)
    if as_json:
        answer("", chapter_data, as_json=True)
    if show:
        typer.launch((out / "report.html").resolve().as_uri())
