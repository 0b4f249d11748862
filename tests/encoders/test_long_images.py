"""Long and narrow images in the preprocessing of a model: the pixels of the plain way, without building all of it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from limner.encoders.preprocessing import Preprocessing

PREPARE = Preprocessing(224, 3, (224, 224), 1.0, (0.0,) * 3, (1.0,) * 3)


def smooth(height, width):
    """Colours that change as slowly as in a photograph: noise is clipped differently on the way."""
    rows, columns = np.ogrid[:height, :width]
    waves = [np.sin(rows / 9 + phase) + np.cos(columns / 11 + phase) for phase in range(3)]
    return (127 + 40 * np.stack(waves, axis=2)).astype(np.uint8)


def centre(pixels):
    """The centre crop of the whole scaled image."""
    height, width = pixels.shape[:2]
    scale = 224 / min(height, width)
    whole = np.asarray(Image.fromarray(pixels).resize((int(width * scale), int(height * scale)), 3))
    top, left = ((side - 224) // 2 for side in whole.shape[:2])
    return whole[top : top + 224, left : left + 224]


@pytest.mark.parametrize("shape", [(37, 2_000), (2_000, 37), (224, 1_795), (300, 200)])
def test_the_centre_of_an_image_is_that_of_the_whole_scaled_image(shape):
    pixels = smooth(*shape)
    difference = np.abs(PREPARE(Image.fromarray(pixels)).transpose(1, 2, 0) - centre(pixels))
    assert difference.max() <= (1 if max(shape) > 8 * min(shape) else 0)


@pytest.mark.parametrize("turned", [False, True])
def test_the_centre_of_a_line_of_pixels_is_that_of_its_middle(turned):
    pixels = smooth(1, 20_000)
    line, middle = (each.transpose(1, 0, 2) if turned else each for each in (pixels, pixels[:, 9_950:10_050]))
    result = PREPARE(Image.fromarray(np.ascontiguousarray(line))).transpose(1, 2, 0)
    assert np.abs(result - centre(np.ascontiguousarray(middle))).max() <= 1


def test_a_line_of_pixels_takes_little_memory():
    code = """
import resource
from PIL import Image
from limner.encoders.preprocessing import Preprocessing
prepare = Preprocessing(224, 3, (224, 224), 1.0, (0.0,) * 3, (1.0,) * 3)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert prepare(Image.new("RGB", (20_000, 1), "red")).shape == (3, 224, 224)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout) < 50_000  # KiB; scaled as a whole it takes 3 GB
