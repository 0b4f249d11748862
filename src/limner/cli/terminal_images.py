"""Thumbnails in a terminal that shows images: by kitty's protocol, iTerm2's protocol or sixel.

kitty, Ghostty, WezTerm, iTerm2 and mintty say what they are in the environment; other terminals are asked whether they
show sixel graphics. Several thumbnails side by side are one image, with a line of labels under it.
"""

from __future__ import annotations

import base64
import io
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from limner.cli.console import escaped

if TYPE_CHECKING:
    from PIL.Image import Image

COLUMNS, ROWS = 20, 8
"""The place of a thumbnail, in characters."""
CELL = (10, 20)
"""Width and height of a character in pixels, where the terminal does not say."""
PATIENCE = 0.3
"""Seconds to wait for the answer of a terminal."""
_GAP = 1  # characters between two thumbnails
_CHUNK = 4096  # bytes of an image in one message to kitty
_SIXEL = "4"  # among the attributes of a terminal
_MULTIPLEXERS = ("screen", "tmux")


@dataclass(frozen=True)
class TerminalImages:
    """A terminal that shows images.

    Args:
        protocol: A key of `PROTOCOLS`.
        columns: Width of the terminal in characters.
        cell: Width and height of a character in pixels.
    """

    protocol: str
    columns: int
    cell: tuple[int, int] = CELL

    def grid(self, thumbnails: Sequence[tuple[Image | None, str]]) -> str:
        """Thumbnails with their labels, as text with escape sequences; an image that is None leaves its place empty."""
        per_row = max(1, (self.columns - 1) // (COLUMNS + _GAP))
        rows = [thumbnails[low : low + per_row] for low in range(0, len(thumbnails), per_row)]
        return "\n".join(f"{self._strip([image for image, _ in row])}\n{_labels(row)}" for row in rows)

    def _strip(self, images: Sequence[Image | None]) -> str:
        """Images side by side, as one."""
        from PIL import Image as pillow

        width, height = self.cell
        columns = len(images) * (COLUMNS + _GAP) - _GAP
        strip = pillow.new("RGBA", (columns * width, ROWS * height))
        for place, image in enumerate(images):
            if image is not None:
                small = image.convert("RGB")
                small.thumbnail((COLUMNS * width, ROWS * height))
                left = place * (COLUMNS + _GAP) * width + (COLUMNS * width - small.width) // 2
                strip.paste(small, (left, (ROWS * height - small.height) // 2))
        return PROTOCOLS[self.protocol](strip, columns)


def terminal_images() -> TerminalImages | None:
    """The terminal of the standard output, if it shows images; None otherwise."""
    if sys.stdout is None or not sys.stdout.isatty() or os.name != "posix":
        return None
    protocol = protocol_of(os.environ) or ("sixel" if _shows_sixel() else None)
    if protocol is None:
        return None
    columns, cell = _size()
    return TerminalImages(protocol, columns, cell)


def protocol_of(environment: Mapping[str, str]) -> str | None:
    """The protocol that a terminal announces; None if it announces none, or is behind a multiplexer.

    >>> protocol_of({"TERM": "xterm-kitty"}), protocol_of({"TERM_PROGRAM": "iTerm.app"}), protocol_of({"TERM": "xterm"})
    ('kitty', 'iterm2', None)
    """
    name, program = environment.get("TERM", ""), environment.get("TERM_PROGRAM", "")
    if environment.get("TMUX") or name.startswith(_MULTIPLEXERS):
        return None
    if "kitty" in name or "ghostty" in name or environment.get("KITTY_WINDOW_ID") or program == "ghostty":
        return "kitty"
    if program in ("iTerm.app", "WezTerm", "mintty") or environment.get("LC_TERMINAL") == "iTerm2":
        return "iterm2"
    return None


def _labels(row: Sequence[tuple[Image | None, str]]) -> str:
    cut = [
        label if len(label) <= COLUMNS else f"{label[: COLUMNS - 1]}…" for label in (escaped(text) for _, text in row)
    ]
    return (" " * _GAP).join(label.ljust(COLUMNS) for label in cut).rstrip()


# --- asking the terminal ------------------------------------------------------------------------------------------


def _size() -> tuple[int, tuple[int, int]]:
    """Columns of the terminal, and the size of a character."""
    import fcntl
    import struct
    import termios

    try:
        answer = fcntl.ioctl(sys.stdout.fileno(), termios.TIOCGWINSZ, bytes(8))
        rows, columns, width, height = struct.unpack("HHHH", answer)
    except OSError:
        rows = columns = width = height = 0
    if not rows or not columns:
        return 80, CELL
    return columns, (width // columns or CELL[0], height // rows or CELL[1])


def _shows_sixel() -> bool:
    """Whether the terminal lists sixel graphics among its attributes."""
    if sys.stdin is None or not sys.stdin.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "linux"):
        return False
    attributes = re.search(r"\x1b\[\?([\d;]+)c", _reply("\x1b[c", end="c"))
    return attributes is not None and _SIXEL in attributes[1].split(";")


def _reply(question: str, *, end: str) -> str:
    """What the terminal answers; "" if it says nothing."""
    import select
    import termios
    import tty

    source = sys.stdin.fileno()
    try:
        before = termios.tcgetattr(source)
        tty.setcbreak(source)
    except termios.error:
        return ""
    reply = ""
    try:
        os.write(sys.stdout.fileno(), question.encode())
        while not reply.endswith(end) and select.select([source], [], [], PATIENCE)[0]:
            reply += os.read(source, 1).decode("latin-1")
    finally:
        termios.tcsetattr(source, termios.TCSADRAIN, before)
    return reply


# --- protocols ----------------------------------------------------------------------------------------------------


def _png(image: Image) -> str:
    out = io.BytesIO()
    image.save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


def kitty(image: Image, columns: int) -> str:
    """An image for kitty's protocol, so many characters wide.

    https://sw.kovidgoyal.net/kitty/graphics-protocol/
    """
    data = _png(image)
    chunks = [data[low : low + _CHUNK] for low in range(0, len(data), _CHUNK)]
    continues = [1] * (len(chunks) - 1) + [0]
    heads = [f"a=T,f=100,q=2,c={columns},r={ROWS},"] + [""] * (len(chunks) - 1)
    parts = zip(heads, continues, chunks, strict=True)
    return "".join(f"\x1b_G{head}m={follows};{chunk}\x1b\\" for head, follows, chunk in parts)


def iterm2(image: Image, columns: int) -> str:
    """An image for iTerm2's protocol, so many characters wide: https://iterm2.com/documentation-images.html."""
    data = _png(image)
    size = 3 * len(data) // 4 - data.count("=")
    return f"\x1b]1337;File=inline=1;size={size};width={columns};height={ROWS};preserveAspectRatio=1:{data}\x07"


def sixel(image: Image, columns: int) -> str:
    """An image as sixel graphics (DEC VT330/VT340 manual, chapter 14) of 255 colours; transparent pixels stay."""
    palette_image = image.convert("RGB").quantize(255)
    numbers = np.where(np.asarray(image.getchannel("A")) > 0, np.asarray(palette_image, dtype=np.int64), -1)
    palette = np.asarray(palette_image.getpalette() or [0, 0, 0]).reshape(-1, 3)
    shares = np.rint(palette * 100 / 255).astype(int)
    colours = "".join(f"#{n};2;{red};{green};{blue}" for n, (red, green, blue) in enumerate(shares.tolist()))
    bands = [_band(numbers[top : top + 6]) for top in range(0, len(numbers), 6)]
    return f'\x1bP0;1q"1;1;{image.width};{image.height}{colours}{"-".join(bands)}\x1b\\'


def _band(numbers: np.ndarray) -> str:
    """Six rows of pixels: for each colour, one character per column whose bits are the rows."""
    weights = 1 << np.arange(len(numbers))[:, None]
    lines = []
    for colour in np.unique(numbers[numbers >= 0]).tolist():
        bits = ((numbers == colour) * weights).sum(axis=0)
        starts = np.flatnonzero(np.diff(bits, prepend=-1))
        lengths = np.diff(starts, append=len(bits))
        runs = (_run(chr(63 + int(bits[start])), int(n)) for start, n in zip(starts, lengths, strict=True))
        lines.append(f"#{colour}{''.join(runs)}")
    return "$".join(lines)


def _run(character: str, length: int) -> str:
    return f"!{length}{character}" if length > 3 else character * length


PROTOCOLS: Mapping[str, Callable[[Image, int], str]] = MappingProxyType(
    {"kitty": kitty, "iterm2": iterm2, "sixel": sixel}
)
"""How an image is sent to a terminal, by the name of the protocol."""
