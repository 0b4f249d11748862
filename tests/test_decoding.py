"""Pictures: upright whatever their EXIF says, right in every mode, damaged ones told, and never too many at once."""

from __future__ import annotations

import io
import os
import re
import struct
import threading
import time
import zlib

import numpy as np
import pytest
from PIL import Image

import limner
from limner import LimnerError
from limner.core import images as decoding
from limner.core.images import Turns, Unreadable, open_image, opened
from limner.web import served_images

SCENE = np.array(
    [
        [[250, 0, 0], [0, 250, 0], [0, 0, 250]],
        [[250, 250, 0], [0, 250, 250], [250, 0, 250]],
    ],
    dtype=np.uint8,
)
"""Two rows of three colours, as they are meant to be seen."""


def stored_as(upright: np.ndarray, orientation: int) -> np.ndarray:
    """How a camera lays out the pixels, written down from the EXIF standard: where row 0 and column 0 are seen."""
    high, wide = upright.shape[:2]
    rows, columns = (high, wide) if orientation <= 4 else (wide, high)
    out = np.empty((rows, columns, 3), dtype=np.uint8)
    for r in range(rows):
        for c in range(columns):
            y, x = {
                1: (r, c),  # row 0 at the top, column 0 on the left
                2: (r, wide - 1 - c),  # top, right
                3: (high - 1 - r, wide - 1 - c),  # bottom, right
                4: (high - 1 - r, c),  # bottom, left
                5: (c, r),  # row 0 on the left, column 0 at the top
                6: (c, wide - 1 - r),  # right, top
                7: (high - 1 - c, wide - 1 - r),  # right, bottom
                8: (high - 1 - c, r),  # left, bottom
            }[orientation]
            out[r, c] = upright[y, x]
    return out


def file_of(pixels: np.ndarray, form: str, *, orientation: int | None = None, **options) -> bytes:
    out = io.BytesIO()
    exif = Image.Exif()
    if orientation is not None:
        exif[0x0112] = orientation
    Image.fromarray(pixels).save(out, form, exif=exif, **options)
    return out.getvalue()


def enlarged(pixels: np.ndarray, times: int) -> np.ndarray:
    return pixels.repeat(times, axis=0).repeat(times, axis=1)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", ["PNG", "WEBP"])
def test_every_orientation_is_turned_upright(orientation, form):
    lossless = {"lossless": True} if form == "WEBP" else {}
    data = file_of(stored_as(SCENE, orientation), form, orientation=orientation, **lossless)
    assert np.array_equal(np.asarray(open_image(data, name="x")), SCENE)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_photographs_are_turned_everywhere(orientation, tmp_path):
    """A JPEG through collection, thumbnail, page, upload and encoder: all see the same upright picture."""
    from limner.encoders.image_descriptors import Histograms
    from limner.evaluation.reports.page.gallery import thumbnail
    from limner.search.items import small
    from limner.web.served_images import encoded, of_collection

    big = enlarged(SCENE, 80)
    data = file_of(stored_as(big, orientation), "JPEG", orientation=orientation, quality=95, subsampling=0)
    (tmp_path / "a.jpg").write_bytes(data)
    images = limner.Items(["a"], [tmp_path / "a.jpg"])
    world = limner.Collection("x", images, limner.Items(["t"], ["x"], kind="text"), limner.Judgements.from_pairs([]))

    def shrunk(picture: Image.Image) -> np.ndarray:
        return np.asarray(picture.convert("RGB").resize((3, 2), Image.Resampling.BOX)).astype(int)

    import base64

    embedded = base64.b64decode(thumbnail(world, "a")[0].partition(",")[2])
    copies = {
        "collection": images.open(0),
        "scaled": images.open(0, side=60),
        "report": Image.open(io.BytesIO(embedded)),
        "page": Image.open(io.BytesIO(encoded(of_collection("x", world)("a", 220)).data)),
        "upload": served_images.accepted(data),
        "index": Image.open(io.BytesIO(small(tmp_path / "a.jpg", name="a"))),
    }
    for name, picture in copies.items():
        assert np.abs(shrunk(picture) - SCENE).max() < 60, name
        assert (picture.width > picture.height) and not picture.getexif(), name
    straight = limner.Items(["a"], [file_of(big, "JPEG", quality=95, subsampling=0)])
    assert np.allclose(Histograms().encode(images), Histograms().encode(straight), atol=0.05)


def test_a_damaged_exif_block_leaves_the_picture_as_it_is():
    out = io.BytesIO()
    Image.fromarray(SCENE).save(out, "PNG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff" + b"\x01" * 40)
    assert np.array_equal(np.asarray(open_image(out.getvalue(), name="x")), SCENE)


# --- modes ------------------------------------------------------------------------------------------------------


def png16(values: np.ndarray) -> bytes:
    """A grey PNG of 16 bits, written by hand."""
    high, wide = values.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", wide, high, 16, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )  # fmt: skip


def test_grey_of_16_bits_is_scaled_and_not_cut():
    values = np.array([[0, 257, 32768, 65535, 128 * 257, 1000]], dtype=np.uint16)
    pixels = np.asarray(open_image(png16(values), name="x"))
    assert pixels[0, :, 0].tolist() == [round(v / 257) for v in values[0].tolist()]
    assert (pixels[..., 0] == pixels[..., 1]).all() and (pixels[..., 0] == pixels[..., 2]).all()


def saved(picture: Image.Image, form: str, **options) -> bytes:
    out = io.BytesIO()
    picture.save(out, form, **options)
    return out.getvalue()


def blended(colour: tuple[int, ...], alpha: int) -> list[int]:
    """The colour over white, by the definition of transparency."""
    return [round((c * alpha + 255 * (255 - alpha)) / 255) for c in colour]


def palette(transparent: int | None = None) -> bytes:
    picture = Image.new("P", (2, 1))
    picture.putpalette([200, 10, 10, 10, 10, 200])
    picture.putdata([0, 1])
    return saved(picture, "PNG", **({} if transparent is None else {"transparency": transparent}))


def grey_with_transparent_value() -> bytes:
    picture = Image.new("L", (2, 1))
    picture.putdata([40, 90])
    return saved(picture, "PNG", transparency=40)


def rgb_with_transparent_colour() -> bytes:
    picture = Image.new("RGB", (2, 1))
    picture.putdata([(1, 2, 3), (90, 80, 70)])
    return saved(picture, "PNG", transparency=(1, 2, 3))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (saved(Image.new("1", (1, 1), 1), "PNG"), [[255, 255, 255]]),
        (saved(Image.new("1", (1, 1), 0), "PNG"), [[0, 0, 0]]),
        (saved(Image.new("L", (1, 1), 77), "PNG"), [[77, 77, 77]]),
        (saved(Image.new("L", (1, 1), 77), "BMP"), [[77, 77, 77]]),
        (saved(Image.new("LA", (1, 1), (40, 128)), "PNG"), [blended((40, 40, 40), 128)]),
        (saved(Image.new("RGBA", (1, 1), (10, 20, 30, 0)), "PNG"), [[255, 255, 255]]),
        (saved(Image.new("RGBA", (1, 1), (10, 20, 30, 255)), "PNG"), [[10, 20, 30]]),
        (saved(Image.new("RGBA", (1, 1), (200, 20, 30, 51)), "PNG"), [blended((200, 20, 30), 51)]),
        (saved(Image.new("RGBA", (1, 1), (200, 20, 30, 51)), "WEBP", lossless=True, exact=True),
         [blended((200, 20, 30), 51)]),
        (palette(), [[200, 10, 10], [10, 10, 200]]),
        (palette(transparent=0), [[255, 255, 255], [10, 10, 200]]),
        (grey_with_transparent_value(), [[255, 255, 255], [90, 90, 90]]),
        (rgb_with_transparent_colour(), [[255, 255, 255], [90, 80, 70]]),
        (saved(Image.new("RGB", (1, 1), (5, 6, 7)), "BMP"), [[5, 6, 7]]),
    ],
)  # fmt: skip
def test_every_mode(data, expected):
    image = open_image(data, name="x")
    assert image.mode == "RGB"
    np.testing.assert_allclose(np.asarray(image)[0], expected, atol=1)


def test_photographs_in_other_colour_spaces():
    for mode, colour in (("CMYK", (0, 255, 255, 0)), ("L", 76), ("RGB", (254, 0, 0))):
        data = saved(Image.new(mode, (16, 16), colour), "JPEG", quality=95)
        pixel = np.asarray(open_image(data, name="x"))[8, 8]
        expected = [76] * 3 if mode == "L" else [254, 0, 0]
        np.testing.assert_allclose(pixel, expected, atol=4, err_msg=mode)


@pytest.mark.parametrize("form", ["GIF", "PNG", "WEBP"])
def test_of_an_animation_the_first_frame_is_seen(form):
    frames = [Image.new("RGB", (8, 8), c) for c in ((255, 0, 0), (0, 255, 0))]
    options = {"lossless": True} if form == "WEBP" else {}
    data = saved(frames[0], form, save_all=True, append_images=frames[1:], duration=50, **options)
    with Image.open(io.BytesIO(data)) as picture:
        assert picture.n_frames == 2
    assert open_image(data, name="x").getpixel((3, 3)) == (255, 0, 0)


def test_a_transparent_gif_is_white_there():
    picture = Image.new("P", (2, 1))
    picture.putpalette([0, 0, 0, 9, 9, 99])
    picture.putdata([0, 1])
    image = open_image(saved(picture, "GIF", transparency=0), name="x")
    assert [image.getpixel((x, 0)) for x in (0, 1)] == [(255, 255, 255), (9, 9, 99)]


def test_what_a_function_draws_is_upright_and_rgb_too():
    drawn = limner.Items(["a"], [lambda: Image.new("LA", (3, 2), (0, 0))])
    assert drawn.open(0).getpixel((0, 0)) == (255, 255, 255)
    assert drawn.open(0, side=2).size == (2, 1)


# --- bounds -----------------------------------------------------------------------------------------------------


def header(width: int, height: int) -> bytes:
    """A PNG that promises so many pixels and holds next to none."""
    good = png16(np.zeros((1, 1)))
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 16, 0, 0, 0, 0)
    return good[:12] + head + struct.pack(">I", zlib.crc32(head)) + good[33:]


@pytest.mark.parametrize(("width", "height"), [(20_000, 20_000), (12_000, 11_000), (2**31 - 1, 1)])
def test_too_many_pixels_are_refused_before_they_are_decoded(width, height):
    began = time.process_time()
    with pytest.raises(LimnerError, match=r"does not open"):
        open_image(header(width, height), name="x")
    assert time.process_time() - began < 5  # a bomb of this size takes minutes


def line(width: int, height: int) -> bytes:
    return saved(Image.new("L", (width, height), 99), "PNG")


@pytest.mark.parametrize("size", [(20_000, 1), (1, 20_000), (101, 1)])
@pytest.mark.parametrize("drawn", [False, True])
def test_a_line_of_pixels_is_no_input_for_a_model(size, drawn):
    """20,000 x 1 pixels take 143 bytes; scaled to a short side of 224 they would be 4.5 million x 224."""
    value = Image.new("RGB", size) if drawn else line(*size)
    items = limner.Items(["line"], [value])
    for opening in (lambda: items.open(0), lambda: items.opened(0, shortest=224).__enter__()):
        with pytest.raises(Unreadable, match=r"'line' .*one side may be 100 times the other"):
            opening()
    assert max(items.open(0, side=100).size) <= 100  # it can be shown


def test_a_banner_is_an_input():
    assert limner.Items(["banner"], [line(400, 4)]).open(0).size == (400, 4)


def test_a_photograph_of_a_hundred_megapixels_opens(tmp_path):
    """64 to 128 million pixels: today's telephones."""
    Image.new("L", (10_000, 10_000), 99).save(tmp_path / "large.jpg", quality=20)
    images = limner.Items(["large"], [tmp_path / "large.jpg"])
    small = images.open(0, side=220)
    assert small.size == (220, 220) and abs(small.getpixel((5, 5))[0] - 99) <= 2


def test_a_filter_that_makes_an_error_of_pillows_warning_is_borne(tmp_path):
    import warnings

    Image.new("L", (10_000, 10_000), 99).save(tmp_path / "large.jpg", quality=20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Unreadable, match="does not open"):
            open_image(tmp_path / "large.jpg", name="x")


def test_a_very_wide_photograph_is_made_small(tmp_path):
    Image.new("RGB", (6000, 3)).save(tmp_path / "a.jpg")
    assert open_image(tmp_path / "a.jpg", name="a", side=200).size == (200, 1)


def test_a_scaled_jpeg_is_decoded_at_a_smaller_scale(tmp_path, monkeypatch):
    sizes = []
    turn = decoding._waiting.turn
    monkeypatch.setattr(decoding._waiting, "turn", lambda size: sizes.append(size) or turn(size))
    Image.new("RGB", (4000, 3000)).save(tmp_path / "a.jpg")
    assert open_image(tmp_path / "a.jpg", name="a", side=200).size == (200, 150)
    assert sizes == [500 * 375]


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d[: len(d) // 2],
        lambda d: d[:-1],
        lambda d: d[:20],
        lambda d: b"",
        lambda d: d[:40] + bytes(len(d) - 40),
        lambda d: b"\x89PNG\r\n\x1a\n" + d[8:],
        lambda d: d[:24] + b"\xff" * 8 + d[32:],
    ],
)
@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "GIF", "BMP"])
def test_damaged_pictures_are_refused_or_opened_never_worse(form, damage):
    good = saved(Image.effect_noise((40, 30), 90).convert("RGB"), form)
    try:
        opened_all_the_same = open_image(damage(good), name="x")
    except Unreadable:
        return
    assert opened_all_the_same.mode == "RGB"


def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.jpg")
    with pytest.raises(LimnerError, match="is a named pipe, expected a file"):
        open_image(tmp_path / "a.jpg", name="a")


def test_no_more_at_once_than_the_total():
    turns, under_way, totals, lock = Turns(100, free=1), [], [], threading.Lock()

    def work(size: int) -> None:
        with turns.turn(size):
            if size == 1:
                return  # never waits, and does not count
            with lock:
                under_way.append(size)
                totals.append(sum(under_way))
            time.sleep(0.002)
            with lock:
                under_way.remove(size)

    sizes = [60, 60, 30, 10, 1, 100, 40, 40, 40, 5, 150] * 6
    threads = [threading.Thread(target=work, args=(size,)) for size in sizes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert max(m for m in totals if m != 150) <= 100 and totals.count(150) == 6
    assert turns.taken == 0


def test_whoever_holds_a_picture_may_open_another_one():
    one = saved(Image.new("L", (2000, 1500)), "PNG")
    with opened(one, name="a"), opened(one, name="b") as second:
        assert second.size == (2000, 1500)


def test_a_failed_or_interrupted_wait_lets_the_next_one_in():
    turns = Turns(1)
    with pytest.raises(KeyError), turns.turn(1):
        raise KeyError
    with turns.turn(1):
        assert turns.taken == 1


# --- data describe -O check_images=true------------------------------------------------------------------------------


def test_check_images_lists_what_is_damaged_and_says_nothing_else(tmp_path):
    import subprocess
    import sys

    Image.new("L", (10_000, 9_500), 99).save(tmp_path / "large.jpg", quality=20)
    good = saved(Image.effect_noise((40, 30), 90).convert("RGB"), "PNG")
    broken_exif = io.BytesIO()
    Image.fromarray(SCENE).save(broken_exif, "PNG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff" + b"\x01" * 40)
    files = {
        "good.png": good,
        "exif.png": broken_exif.getvalue(),
        "cut.png": good[:60],
        "empty.png": b"",
        "text.png": b"hello",
        "bomb.png": header(60_000, 60_000),
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    listed = "".join(f"{name},a caption\n" for name in [*files, "large.jpg"])
    (tmp_path / "captions.csv").write_text("image,caption\n" + listed)
    words = [
        sys.executable,
        "-m",
        "limner",
        "data",
        "describe",
        str(tmp_path / "captions.csv"),
        "-O",
        "check_images=true",
    ]
    done = subprocess.run(words, capture_output=True, text=True)
    warned = [line for line in done.stderr.splitlines() if not re.search(r": \d+ s(,|$)", line)]  # progress, if slow
    assert (done.returncode, warned) == (0, [])
    for name in ("cut.png", "empty.png", "text.png", "bomb.png"):
        line = next(line for line in done.stdout.splitlines() if f"'{name}'" in line)
        assert "does not open: " in line and "left out" in line
    assert "3600000000 pixels" in done.stdout
    assert re.search(r"images +3\b", done.stdout)
    assert subprocess.run([*words, "--strict"], capture_output=True).returncode == 1


@pytest.mark.long
def test_twelve_large_pictures_at_once_take_bounded_memory(tmp_path):
    """Twelve threads ask for thumbnails of twelve pictures of 100 million pixels; 5.3 GB before there were turns."""
    import subprocess
    import sys

    for number in range(6):
        Image.new("RGB", (10_000, 10_000), (number, 9, 9)).save(tmp_path / f"{number}.png", compress_level=1)
        Image.new("RGB", (10_000, 10_000), (number, 9, 9)).save(tmp_path / f"{number}.jpg")
    code = f"""
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import limner
files = sorted(Path({str(tmp_path)!r}).glob("*.*"))
images = limner.Items([f.name for f in files], files)
with ThreadPoolExecutor(12) as pool:
    sizes = list(pool.map(lambda row: images.open(row, side=220).size, range(12)))
assert sizes == [(220, 220)] * 12
print(int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""
    # the mark of the process itself: `ru_maxrss` begins with the peak of the process that starts it
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 1500, "megabytes"
