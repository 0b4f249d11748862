"""Filling shapes: every pixel against the definition, in exact fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner.datasets import scenes
from limner.datasets.scenes.drawing import sticker
from limner.datasets.scenes.layout import extent
from limner.datasets.scenes.raster import STEPS, Form, Sheet

SIDE = 9
COLOUR = (200, 7, 90)
INSIDE = st.integers(-3 * STEPS, (SIDE + 3) * STEPS)


def painted(shape, numbers):
    """Which pixels of a sheet are filled."""
    sheet = Sheet(SIDE, SIDE, 1)
    sheet.paint(Form.of(shape, numbers), COLOUR)
    sums = sheet.sums()
    assert set(map(tuple, sums.reshape(-1, 4).tolist())) <= {(0, 0, 0, 0), (*COLOUR, 1)}
    return sums[..., 3].astype(bool)


def filled(inside):
    """The same by the definition: where the middle of a pixel lies inside."""
    middle = [Fraction(2 * i + 1, 2) * STEPS for i in range(SIDE)]
    return np.array([[inside(x, y) for x in middle] for y in middle])


def in_oval(x, y, x0, y0, x1, y1):
    across, down = Fraction(x1 - x0, 2), Fraction(y1 - y0, 2)
    return ((x - x0 - across) / across) ** 2 + ((y - y0 - down) / down) ** 2 <= 1


def near_stretch(x, y, half, a, b):
    """Whether (x, y) is no further than `half` from the stretch from a to b."""
    run, fall = b[0] - a[0], b[1] - a[1]
    long = run**2 + fall**2
    share = Fraction((x - a[0]) * run + (y - a[1]) * fall, long) if long else Fraction(0)
    share = min(max(share, Fraction(0)), Fraction(1))
    return (x - a[0] - share * run) ** 2 + (y - a[1] - share * fall) ** 2 <= half**2


corners = st.tuples(INSIDE, INSIDE, st.integers(2, 8 * STEPS), st.integers(2, 8 * STEPS)).map(
    lambda n: (n[0], n[1], n[0] + n[2], n[1] + n[3])
)


@given(corners)
def test_an_oval_is_an_ellipse(box):
    assert (painted("oval", box) == filled(lambda x, y: in_oval(x, y, *box))).all()


@given(corners, st.integers(1, STEPS))
def test_a_ring_is_an_ellipse_without_a_smaller_one(box, width):
    x0, y0, x1, y1 = box
    inner = (x0 + width, y0 + width, x1 - width, y1 - width)
    if inner[0] >= inner[2] or inner[1] >= inner[3]:
        return
    expected = filled(lambda x, y: in_oval(x, y, *box) and not in_oval(x, y, *inner))
    assert (painted("ring", (*box, width)) == expected).all()


@given(corners, st.integers(0, 3 * STEPS))
def test_a_box_has_round_corners(box, radius):
    x0, y0, x1, y1 = box
    corner = min(radius, (x1 - x0) // 2, (y1 - y0) // 2)

    def inside(x, y):
        across, down = max(x0 + corner - x, x - x1 + corner, 0), max(y0 + corner - y, y - y1 + corner, 0)
        return across**2 + down**2 <= corner**2

    assert (painted("box", (*box, radius)) == filled(inside)).all()


@given(st.lists(st.tuples(INSIDE, INSIDE), min_size=3, max_size=7))
def test_a_polygon_is_what_a_ray_crosses_an_odd_number_of_times(points):
    def inside(x, y):
        crossings = 0
        for (ax, ay), (bx, by) in pairwise([*points, points[0]]):
            if (ay <= y) != (by <= y):
                crossings += x > ax + (y - ay) * Fraction(bx - ax, by - ay)
        return crossings % 2 == 1

    assert (painted("poly", [n for point in points for n in point]) == filled(inside)).all()


@given(st.integers(1, 2 * STEPS), st.lists(st.tuples(INSIDE, INSIDE), min_size=1, max_size=4))
def test_a_line_has_round_ends_and_joints(half, points):
    stretches = list(pairwise(points)) or [(points[0], points[0])]
    expected = filled(lambda x, y: any(near_stretch(x, y, half, *stretch) for stretch in stretches))
    assert (painted("line", [half, *(n for point in points for n in point)]) == expected).all()


def test_the_same_form_can_be_put_down_many_times():
    once, often = Sheet(SIDE, SIDE, 2), Sheet(SIDE, SIDE, 2)
    numbers, places = (0, 0, 3 * STEPS, 2 * STEPS), [(2, 3), (-1, 7), (30, 30), (17, 1)]
    often.strew(Form.of("oval", numbers), COLOUR, places)
    for x, y in places:
        moved = [n + (y if i % 2 else x) * STEPS for i, n in enumerate(numbers)]
        once.paint(Form.of("oval", moved), COLOUR)
    assert (once.sums() == often.sums()).all()


def test_a_shade_goes_from_one_colour_to_the_other_and_may_reach_beyond_the_sheet():
    sheet = Sheet(4, 4, 1)
    sheet.shade(0, 0, 4, 4, (0, 0, 0), (30, 60, 90))
    assert sheet.image()[:, 1, :3].tolist() == [[0, 0, 0], [10, 20, 30], [20, 40, 60], [30, 60, 90]]
    sheet.shade(-2, -2, 2, 6, (0, 0, 0), (70, 7, 0))
    assert sheet.image()[:, 1, 0].tolist() == [20, 30, 40, 50]
    assert sheet.image()[:, 2, 0].tolist() == [0, 10, 20, 30]


def test_a_picture_is_the_rounded_mean():
    sheet = Sheet(1, 1, 2)
    for x, level in enumerate((10, 11)):
        sheet.shade(x, 0, x + 1, 2, (level, 0, 255), (level, 0, 255))
    assert sheet.image().tolist()[0][0][:3] == [11, 0, 255]  # 10.5 and up
    assert sheet.sums().tolist() == [[[42, 0, 1020, 4]]]


@pytest.mark.parametrize("kind", scenes.KINDS)
def test_every_drawing_fills_its_box(kind):
    for size in scenes.SIZES:
        for stretch in (0.93, 1.0, 1.07):
            width, height = extent(scenes.KINDS[kind], size, stretch=stretch)
            for place in ("ground", "air"):
                drawn_object = scenes.SceneObject(kind, "red", size, (0, 0, width, height), place)
                assert sticker(drawn_object).getchannel("A").getbbox() == (0, 0, width, height)
