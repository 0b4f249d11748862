"""Image preprocessing in numpy, as configured by the processor of a saved model: resize, crop, scale, normalise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.core.arrays import Array, Float32
from limner.core.errors import LimnerError
from limner.core.model_store import Content
from limner.core.paths import damage_told, read_json

if TYPE_CHECKING:
    from PIL.Image import Image

_FILES = ("preprocessor_config.json", "processor_config.json")
_EXTREME = 1e6  # numbers above this, or below its inverse, are not valid
_LARGEST = 4096  # pixels per side; a damaged file could contain any number
_LONG = 8  # from this ratio of its sides on, only the part of an image that the crop keeps is scaled


@dataclass(frozen=True)
class Preprocessing:
    """The preprocessing of an image for a model.

    Args:
        resize: (height, width), or one number for the shorter side; None to keep the size.
        resample: Pillow's number for the filter.
        crop: (height, width) of the centre crop; None for no crop.
        scale: Factor that pixels are multiplied by.
        mean: Mean of each channel, subtracted after scaling.
        std: Standard deviation of each channel, which pixels are then divided by.
    """

    resize: tuple[int, int] | int | None
    resample: int
    crop: tuple[int, int] | None
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, folder: Path) -> Preprocessing:
        """Reads `preprocessor_config.json`, or the image part of `processor_config.json`."""
        file = next((folder / name for name in _FILES if (folder / name).is_file()), None)
        if file is None:
            raise LimnerError(f"{folder} does not say how to preprocess images: expected {' or '.join(_FILES)} in it")
        config = read_json(file, what="image processor")
        with damage_told(file, what="description of an image processor"):
            return cls._from(config.get("image_processor", config))

    @classmethod
    def _from(cls, config: Content) -> Preprocessing:
        scaled, normal = config.get("do_rescale", True), config.get("do_normalize", True)
        mean, std = (tuple(map(float, config[name])) for name in ("image_mean", "image_std"))
        if len(mean) != 3 or len(std) != 3:
            raise ValueError(f"image_mean {mean} and image_std {std}: expected three numbers each")
        resample, scale = int(config.get("resample", 3)), float(config.get("rescale_factor", 1 / 255))
        if not 0 <= resample <= 5 or not all(abs(number) <= _EXTREME for number in (*mean, *std, scale)):
            raise ValueError(f"resample {resample}, rescale_factor {scale}: expected a Pillow filter and small numbers")
        if not all(abs(number) >= 1 / _EXTREME for number in std):
            raise ValueError(f"image_std {std}: expected numbers that are not close to 0")
        crop = _size(config["crop_size"], square=True) if config.get("do_center_crop") else None
        return cls(
            _size(config["size"]) if config.get("do_resize", True) else None,
            resample,
            crop if isinstance(crop, tuple) else None,
            scale if scaled else 1.0,
            mean if normal else (0.0,) * 3,
            std if normal else (1.0,) * 3,
        )

    @property
    def shape(self) -> tuple[int, int] | None:
        """(height, width) of the result; None if it depends on the image."""
        return self.crop or (self.resize if isinstance(self.resize, tuple) else None)

    def __call__(self, image: Image) -> Float32:
        """The pixels of an RGB image: channels by height by width."""
        pixels = np.asarray(self._resized(image))
        if self.crop is not None:  # before the type is changed: what is cut off takes no memory as floats
            pixels = _centre(pixels, *self.crop)
        mean, std = (np.asarray(each, dtype=np.float32) for each in (self.mean, self.std))
        scaled = (pixels.astype(np.float32) * np.float32(self.scale) - mean) / std
        return np.ascontiguousarray(scaled.transpose(2, 0, 1), dtype=np.float32)

    def _resized(self, image: Image) -> Image:
        """The scaled image; of a long one whose short side is scaled, only what the centre crop keeps.

        Otherwise 20,000 x 1 pixels, a file of 143 bytes, would grow to gigabytes.
        """
        if self.resize is None:
            return image
        target = self._target(image.size)
        if self.crop is None or max(target) < _LONG * min(target):
            return image.resize(target, self.resample)
        width, height = (min(whole, side) for whole, side in zip(target, self.crop[::-1], strict=True))
        left, top = (target[0] - width) // 2, (target[1] - height) // 2
        across, down = image.width / target[0], image.height / target[1]
        right, bottom = min((left + width) * across, image.width), min((top + height) * down, image.height)
        return image.resize((width, height), self.resample, box=(left * across, top * down, right, bottom))

    def _target(self, size: tuple[int, int]) -> tuple[int, int]:
        """(width, height) after resizing."""
        if isinstance(self.resize, tuple):
            return self.resize[1], self.resize[0]
        short, long = min(size), max(size)
        short_side = int(self.resize or short)
        long_side = int(short_side * long / short)
        return (short_side, long_side) if size[0] <= size[1] else (long_side, short_side)


def _size(size: Any, *, square: bool = False) -> tuple[int, int] | int:
    """A size in the format of a processor: a number, {"shortest_edge": n}, or {"height": h, "width": w}."""
    if isinstance(size, Mapping):
        sides = size["shortest_edge"] if "shortest_edge" in size else (int(size["height"]), int(size["width"]))
    else:
        sides = (int(size), int(size)) if square else int(size)
    for side in sides if isinstance(sides, tuple) else (int(sides),):
        if not 1 <= side <= _LARGEST:
            raise ValueError(f"a side of {side} pixels: expected 1 to {_LARGEST}")
    return sides if isinstance(sides, tuple) else int(sides)


def _centre(pixels: Array, height: int, width: int) -> Array:
    """The centre crop of an image; a smaller image is padded with zeros."""
    out = np.zeros((height, width, pixels.shape[2]), dtype=pixels.dtype)
    top, left = (pixels.shape[0] - height) // 2, (pixels.shape[1] - width) // 2
    if top >= 0 and left >= 0:
        return pixels[top : top + height, left : left + width]
    visible = pixels[max(top, 0) : max(top, 0) + height, max(left, 0) : max(left, 0) + width]
    down, right = (height - visible.shape[0] + 1) // 2, (width - visible.shape[1] + 1) // 2
    out[down : down + visible.shape[0], right : right + visible.shape[1]] = visible
    return out
