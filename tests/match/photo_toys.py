"""A folder of photographs in plain colours, an encoder that tells them apart, and files that are no photographs."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}


class MeanColour:
    """Encodes an image as its mean colour, a text as the colour it names; counts what it encodes."""

    kinds, dim, fingerprint = ("image", "text"), 3, "mean colour"

    def __init__(self):
        self.encoded = []

    def encode(self, items):
        if items.kind == "text":
            return np.array(
                [np.sum([COLOURS.get(w, (1, 1, 1)) for w in text.split()], axis=0) for text in items.values]
            )
        self.encoded += items.ids
        return np.array([np.asarray(items.open(row)).mean((0, 1)) + 1 for row in range(len(items))])


def photograph(path, colour, *, exif=None, size=(40, 30), form="JPEG"):
    path.parent.mkdir(parents=True, exist_ok=True)
    options = {} if exif is None else {"exif": exif}
    Image.new("RGB", size, colour).save(path, form, **options)


def bad_files(folder):
    """Writes files that are found among photographs; returns their names."""
    out = io.BytesIO()
    Image.new("L", (20_000, 1)).save(out, "PNG")
    whole = (folder / "2019" / "red.jpg").read_bytes()
    files = {
        "empty.jpg": b"", "cut.jpg": whole[: len(whole) // 2], "._red.jpg": b"\0\5\26\7" + bytes(80),
        "page.jpg": b"<html>", "line.png": out.getvalue(), "raw.cr2": b"II*\0",
    }  # fmt: skip
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "gone.jpg").symlink_to(folder / "nowhere.jpg")
    return {*files, "gone.jpg"}
