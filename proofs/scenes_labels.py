"""How many true matches the usual labels miss, measured on `scenes`, where every true match is known.

A collection of captions labels one image per caption and five captions per image; on photographs nobody knows what else
is true. In the built-in world it is known. The last column of the table is what follows: the R@1 that the usual labels
give to a perfect system, one that ranks all true answers first, in random order among themselves.

No data is needed. `--picture FILE` also draws the contact sheet of the documentation.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from claims import Claim, Task, interleaved, main
from limner.core.collection import Collection, Items
from limner.datasets import scenes

if TYPE_CHECKING:
    from PIL.Image import Image

DIRECTIONS = {"i2t": "image to text", "t2i": "text to image"}
SHOWN = (50, 384, 413, 309, 55, 185, 64, 218, 430, 255, 401, 357, 209, 526, 88)


@dataclass(frozen=True)
class Row:
    """What the usual labels miss for the queries of one direction."""

    part: str
    direction: str
    queries: int
    labelled: int
    true: int
    median: float
    incomplete: float
    perfect: float

    @property
    def missed(self) -> float:
        """Share of the true matches that the usual labels miss."""
        return 1 - self.labelled / self.true

    def line(self) -> str:
        """The row of the Markdown table."""
        counts = f"{self.queries:,} | {self.labelled:,} | {self.true:,} | **{self.missed:.1%}**"
        each = f"{self.true / self.queries:.1f} | {self.median:.0f} | {self.incomplete:.1%} | {self.perfect:.1%}"
        return f"| {self.part} | {DIRECTIONS[self.direction]} | {counts} | {each} |"


HEADER = (
    "| part | direction | queries | labelled | true | missed | true per query, mean | median "
    "| queries with a missed match | R@1 of a perfect system |\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def row(collection: Collection, part: str, direction: str) -> Row:
    """Counts the labelled and the true matches of one direction."""
    labelled = collection.judged("pairs", direction).counts
    true = collection.judged("complete", direction).counts
    return Row(
        part,
        direction,
        len(true),
        int(labelled.sum()),
        int(true.sum()),
        float(np.median(true)),
        float((true > labelled).mean()),
        float((labelled / true).mean()),
    )


def rows(collection: Collection) -> list[Row]:
    """The table for the whole world and its test split, both directions."""
    parts = {"whole": collection, "test": collection.test}
    return [row(part, name, direction) for name, part in parts.items() for direction in DIRECTIONS]


def table(table_rows: list[Row]) -> str:
    """The table as Markdown, as docs/scenes.md shows it."""
    return "\n".join([HEADER, *(r.line() for r in table_rows)])


def prepare_loading(images: int) -> Callable[[], object]:
    """Loading: composing, captions, judgements, no drawing."""
    return lambda: len(scenes.load(images=images).texts)


def prepare_drawing(images: int) -> Callable[[], object]:
    """Drawing every picture of a loaded world."""
    pictures = scenes.load(images=images).images
    return lambda: [pictures.open(at).size for at in range(images)] and images


def contact_sheet(collection: Collection) -> Image:
    """Fifteen pictures, each with one of its captions."""
    from PIL import Image, ImageDraw, ImageFont

    side, gap, under, across = scenes.SIDE, 12, 44, 5
    down = -(-len(SHOWN) // across)
    sheet = Image.new("RGB", (across * (side + gap) + gap, down * (side + under) + gap), "white")
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(size=11)
    for place, index in enumerate(SHOWN):
        x, y = gap + place % across * (side + gap), gap + place // across * (side + under)
        sheet.paste(collection.images.open(index), (x, y))
        caption = _example_caption(collection.texts[5 * index : 5 * index + 5], font)
        pen.multiline_text((x, y + side + 4), caption, fill=(40, 40, 48), font=font)
    return sheet


def _example_caption(texts: Items, font: object) -> str:
    """The caption that fits under a picture and says most, by preference one with a relation."""
    captions = [(m.relation is not None, len(t), t) for t, m in zip(texts.values, texts.field("meaning"), strict=True)]
    return next(text for *_, t in sorted(captions, reverse=True) if (text := _wrapped(t, font)).count("\n") < 2)


def _wrapped(text: str, font: object) -> str:
    """The text in lines no wider than a picture."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if font.getlength(longer) <= scenes.SIDE:  # type: ignore[attr-defined]  # Pillow has two font classes
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(lines)


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Prints the table, then measures loading and drawing, each in fresh processes on one thread."""
    world = scenes.load()
    table_rows = rows(world)
    print(table(table_rows), flush=True)
    if options.picture:
        contact_sheet(world).save(options.picture, optimize=True)
    for r, reverse in zip(
        table_rows[::2], table_rows[1::2], strict=True
    ):  # what is missed is the same in both directions
        note = f"so a perfect system has R@1 {r.perfect:.1%} (image to text), {reverse.perfect:.1%} (text to image)"
        yield Claim(f"{r.part}: share of true pairs that the usual labels miss", r.missed, goal="> 0.5", note=note)
    images = len(world.images)
    tasks = {"load": Task(prepare_loading, images), "draw": Task(prepare_drawing, images)}
    costs = interleaved(tasks, rounds=1 if options.quick else 3, threads=1)
    yield Claim(f"drawing {images:,} images on one core, CPU seconds", costs["draw"].cpu, goal="<= 20")
    yield Claim(f"loading {images:,} images without drawing, CPU seconds", costs["load"].cpu, goal="<= 3")


def configure(parser: argparse.ArgumentParser) -> None:
    """The one option of this script."""
    parser.add_argument("--picture", type=Path, help="also draw the contact sheet of the documentation into this file")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
