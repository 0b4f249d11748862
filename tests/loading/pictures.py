"""Small pictures for the tests of this folder."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image


def png(colour: str = "red") -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (4, 3), colour).save(buffer, "PNG")
    return buffer.getvalue()


def put(folder: Path, **files: str | bytes) -> Path:
    """Writes files; a double underscore in a keyword stands for a dot."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name.replace("__", ".")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder
