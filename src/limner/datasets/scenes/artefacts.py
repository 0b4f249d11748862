"""Drawings of all kinds of objects, plants and animals, facing right, in the grid coordinates of each kind."""

from __future__ import annotations

from collections.abc import Iterable

from limner.core.reproducible_math import cosine, sine
from limner.datasets.scenes.pen import CREAM, GLASS, GREY, INK, LEAF, WOOD, Pen, Point, mix
from limner.datasets.scenes.raster import Colour

_LIT = (255, 236, 150)
_POT = (186, 96, 62)
_CHAIR_LEGS = ((6, 8, 0), (50, 8, 0), (18, 6, 1), (40, 6, 1))


def _around(x: float, y: float, rx: float, ry: float, turns: Iterable[float]) -> list[Point]:
    """Points of an ellipse; a turn of 0 is to the right, a quarter turn is below."""
    return [(x + rx * cosine(turn), y + ry * sine(turn)) for turn in turns]


def _wheel(pen: Pen, x: float, y: float, radius: float) -> None:
    pen.dot(x, y, radius)
    pen.dot(x, y, radius * 0.5, GREY)
    pen.dot(x, y, radius * 0.18)


def car(pen: Pen) -> None:
    """Side view: cabin with two windows, two wheels, lights."""
    cabin = ("poly", (26, 32), (42, 5), (86, 5), (106, 32))
    pen.join(cabin, ("box", 2, 28, 130, 58, 11))
    windows = ("poly", (36, 29), (46, 11), (61, 11), (61, 29)), ("poly", (67, 11), (83, 11), (96, 29), (67, 29))
    pen.fill(*windows, fill=GLASS)
    pen.fill(("line", 1.6, (64, 32), (64, 54)), ("line", 2.2, (70, 38), (77, 38)), fill=pen.dark)
    pen.fill(("box", 120, 36, 129, 45, 3), fill=_LIT)
    pen.fill(("box", 3, 36, 9, 45, 2), fill=(200, 40, 40))
    _wheel(pen, 33, 57, 14)
    _wheel(pen, 100, 57, 14)


def truck(pen: Pen) -> None:
    """Side view: a large load box behind a cab, three wheels."""
    pen.fill(("box", 8, 54, 126, 66, 2), fill=INK)
    pen.join(("poly", (86, 62), (86, 24), (112, 24), (128, 44), (128, 62)), fill=mix(pen.body, pen.dark, 0.3))
    pen.join(("box", 2, 3, 82, 60, 3))
    pen.fill(*(("line", 2, (x, 9), (x, 54)) for x in (18, 34, 50, 66)), fill=pen.light)
    pen.fill(("poly", (95, 30), (110, 30), (120, 43), (95, 43)), fill=GLASS)
    pen.fill(("box", 122, 50, 129, 57, 2), fill=_LIT)
    for x in (24, 58, 106):
        _wheel(pen, x, 67, 13)


def bicycle(pen: Pen) -> None:
    """Side view: two spoked wheels, a frame, saddle and handlebar."""
    for x in (26, 96):
        pen.fill(("ring", x, 54, 23, 4.5), fill=INK)
        rim = _around(x, 54, 22, 22, (k / 8 for k in range(8)))
        pen.fill(*(("line", 0.8, (x, 54), end) for end in rim), fill=GREY)
    rear, pedal, saddle, front = (26, 54), (56, 54), (48, 24), (84, 22)
    frame = (
        ("line", 5, rear, saddle),
        ("line", 5, rear, pedal, saddle, front),
        ("line", 5, pedal, front),
        ("line", 5, (96, 54), front, (81, 8)),
    )
    pen.join(*frame)
    pen.fill(("line", 4.5, (70, 8), (84, 7), (91, 12)), ("box", 37, 16, 58, 23, 3), fill=INK)
    pen.dot(56, 54, 6)


def boat(pen: Pen) -> None:
    """A sailing boat: hull, mast, two sails, a pennant."""
    pen.fill(("line", 4, (54, 2), (54, 84)), fill=WOOD)
    pen.join(("poly", (60, 8), (60, 74), (102, 74)), fill=CREAM, edge=mix(CREAM, INK, 0.5))
    pen.join(("poly", (48, 20), (48, 74), (14, 74)), fill=mix(CREAM, pen.light, 0.6), edge=mix(CREAM, INK, 0.5))
    pen.fill(("poly", (54, 2), (36, 7), (54, 13)), fill=pen.body)
    pen.join(("poly", (3, 82), (107, 82), (92, 110), (20, 110)))
    pen.fill(("poly", (11, 91), (102, 91), (99, 97), (15, 97)), fill=pen.light)


def airplane(pen: Pen) -> None:
    """Side view: body with a row of windows, tail fin, wing."""
    pen.join(("poly", (60, 30), (82, 30), (60, 6), (50, 6)), fill=mix(pen.body, pen.dark, 0.35))
    pen.join(("poly", (22, 34), (2, 4), (16, 4), (42, 30)), ("box", 10, 26, 130, 52, 13))
    pen.fill(("poly", (112, 31), (122, 32), (127, 38), (112, 38)), fill=GLASS)
    for x in range(36, 106, 11):
        pen.dot(x, 35, 3, GLASS)
    pen.fill(("line", 2.5, (18, 45), (122, 45)), fill=pen.light)
    pen.join(("poly", (52, 42), (84, 42), (52, 70), (38, 70)), fill=mix(pen.body, pen.dark, 0.35))


def ball(pen: Pen) -> None:
    """A beach ball: light and dark panels that meet in a white cap."""
    pen.join(("oval", 2, 2, 68, 68))
    for start in range(-1, 11, 4):
        rim = _around(35, 35, 32, 32, ((start + k / 2) / 12 for k in range(5)))
        pen.fill(("poly", (27, 25), *rim), fill=pen.light)
    pen.join(("oval", 20, 18, 34, 32), fill=(255, 255, 255))


def kite(pen: Pen) -> None:
    """A diamond with crossed spars and a tail of bows."""
    pen.fill(("line", 2.2, (40, 78), (48, 88), (38, 97), (46, 110)), fill=INK)
    pen.join(("poly", (40, 2), (78, 34), (40, 80), (2, 34)))
    pen.fill(("poly", (40, 5), (40, 34), (6, 34)), ("poly", (40, 34), (74, 34), (40, 76)), fill=pen.light)
    pen.fill(("line", 2.4, (40, 3), (40, 79)), ("line", 2.4, (3, 34), (77, 34)), fill=pen.dark)
    for x, y in ((46, 88), (40, 98)):
        pen.join(("poly", (x, y), (x - 9, y - 5), (x - 9, y + 5)), ("poly", (x, y), (x + 9, y - 5), (x + 9, y + 5)))


def balloon(pen: Pen) -> None:
    """An egg-shaped balloon on a string."""
    pen.fill(("line", 2.2, (32, 78), (37, 90), (28, 100), (32, 111)), fill=mix(INK, GREY, 0.4))
    pen.join(("poly", (32, 68), (25, 80), (39, 80)), ("oval", 3, 2, 61, 74))
    pen.fill(("oval", 14, 12, 27, 32), fill=pen.light)


def tree(pen: Pen) -> None:
    """A trunk under a round crown."""
    pen.join(("poly", (39, 66), (53, 66), (58, 118), (34, 118)), fill=WOOD, edge=mix(WOOD, INK, 0.6))
    pen.join(("oval", 4, 34, 50, 80), ("oval", 42, 34, 88, 80), ("oval", 16, 2, 76, 62), ("oval", 26, 40, 66, 84))
    shine = ((28, 14, 20), (14, 46, 16), (56, 44, 16))
    pen.fill(*(("oval", x, y, x + w, y + w * 0.6) for x, y, w in shine), fill=pen.light)


def flower(pen: Pen) -> None:
    """Petals around a disc on a stem with two leaves."""
    pen.join(("line", 4, (30, 50), (30, 102)), fill=LEAF, edge=mix(LEAF, INK, 0.5))
    leaves = ("poly", (30, 88), (12, 70), (8, 76), (16, 88)), ("poly", (30, 94), (48, 76), (52, 82), (44, 94))
    pen.join(*leaves, fill=LEAF, edge=mix(LEAF, INK, 0.5))
    for x, y in _around(30, 29, 18, 18, (k / 7 for k in range(7))):
        pen.join(("oval", x - 10, y - 10, x + 10, y + 10))
    centre: Colour = (250, 206, 60) if pen.body != (250, 210, 50) else (150, 90, 40)
    pen.join(("oval", 20, 19, 40, 39), fill=centre, edge=mix(centre, INK, 0.4))


def cactus(pen: Pen) -> None:
    """A column with two raised arms in a clay pot."""
    arms = ("line", 14, (40, 66), (14, 62), (14, 38)), ("line", 14, (40, 54), (66, 50), (66, 26))
    pen.join(*arms, ("box", 29, 3, 52, 96, 11))
    spines = [(x, y) for x in (36, 45) for y in range(14, 80, 13)] + [(14, 40), (14, 54), (66, 28), (66, 42)]
    pen.fill(*(("line", 2, (x, y), (x, y + 4)) for x, y in spines), fill=pen.light)
    pot = ("poly", (20, 88), (61, 88), (55, 109), (26, 109)), ("box", 17, 83, 64, 91, 2)
    pen.join(*pot, fill=_POT, edge=mix(_POT, INK, 0.5))


def chair(pen: Pen) -> None:
    """Seen from the front: back with slats, seat, legs."""
    posts = ("box", 6, 3, 14, 60, 3), ("box", 50, 3, 58, 60, 3)
    slats = [("box", 8, y, 56, y + 9, 2) for y in (5, 21, 37)]
    pen.join(*posts, *slats)
    pen.join(*(("box", x, 60, x + width, 98 - 8 * back, 2) for x, width, back in _CHAIR_LEGS))
    pen.join(("poly", (8, 53), (56, 53), (62, 65), (2, 65)), fill=mix(pen.body, pen.light, 0.5))


def table(pen: Pen) -> None:
    """A plain table: top and four legs."""
    inner = ("box", 26, 14, 33, 60, 1), ("box", 87, 14, 94, 60, 1)
    pen.join(*inner, fill=mix(pen.body, pen.dark, 0.45))
    pen.join(("box", 7, 12, 16, 70, 2), ("box", 104, 12, 113, 70, 2), ("box", 10, 12, 110, 22, 1))
    pen.join(("box", 1, 2, 119, 13, 3), fill=mix(pen.body, pen.light, 0.5))


def lamp(pen: Pen) -> None:
    """A shade on a stand with a pull cord."""
    pen.join(("box", 29, 40, 35, 92, 2), ("box", 14, 90, 50, 98, 4), fill=GREY, edge=mix(GREY, INK, 0.6))
    pen.fill(("oval", 24, 36, 40, 52), fill=_LIT)
    pen.fill(("line", 1.6, (48, 42), (48, 58)), fill=INK)
    pen.dot(48, 59, 2.6)
    pen.join(("poly", (18, 3), (46, 3), (62, 44), (2, 44)))
    pen.fill(("poly", (22, 8), (28, 8), (20, 39), (10, 39)), fill=pen.light)


def house(pen: Pen) -> None:
    """Walls, a pitched roof, chimney, door and windows."""
    roof = mix(pen.body, pen.dark, 0.75)
    pen.join(("box", 78, 10, 91, 40, 1), fill=mix(GREY, INK, 0.3), edge=INK)
    pen.join(("box", 12, 42, 100, 100, 1))
    pen.join(("poly", (2, 50), (56, 3), (110, 50)), fill=roof, edge=mix(roof, INK, 0.5))
    pen.join(("box", 47, 66, 66, 100, 1), fill=WOOD, edge=mix(WOOD, INK, 0.6))
    pen.dot(62, 84, 1.8, _LIT)
    for x in (20, 74):
        pen.join(("box", x, 60, x + 18, 78, 1), fill=_LIT)
        pen.fill(("line", 1.8, (x + 9, 60), (x + 9, 78)), ("line", 1.8, (x, 69), (x + 18, 69)), fill=pen.dark)


def umbrella(pen: Pen) -> None:
    """An open umbrella with a hooked handle."""
    hook = _around(47, 92, 8, 8, (k / 16 for k in range(9)))
    pen.fill(("line", 4, (55, 40), (55, 92), *hook), ("line", 3, (55, 2), (55, 8)), fill=INK)
    half = [0.5 + k / 32 for k in range(17)]
    arcs = [_around(94.75 - 26.5 * i, 58, 13.25, 8, (-k / 12 for k in range(7))) for i in range(4)]
    pen.join(("poly", *_around(55, 58, 53, 52, half), *(point for arc in arcs for point in arc)))
    pen.fill(("poly", *_around(55, 52, 26, 46, half)), fill=pen.light)
    pen.fill(("poly", *_around(55, 52, 8, 46, half)), fill=pen.body)
    pen.fill(*(("line", 1.6, (55, 6), (x, 54)) for x in (29, 81)), fill=pen.dark)


_PINK = (244, 160, 172)
_BEAK = (240, 160, 40)


def dog(pen: Pen) -> None:
    """Side view: floppy ear, long snout, wagging tail."""
    legs = [("box", x, 58, x + 11, 95, 4) for x in (16, 30, 64, 78)]
    tail = ("line", 8, (18, 46), (8, 36), (5, 20))
    head = ("oval", 68, 10, 104, 50)
    snout = ("box", 88, 28, 118, 48, 9)
    pen.join(tail, *legs, ("box", 14, 38, 90, 72, 15), ("poly", (68, 50), (76, 30), (94, 40), (89, 62)), head, snout)
    pen.join(("oval", 66, 10, 82, 46), fill=mix(pen.body, pen.dark, 0.55))
    pen.fill(("line", 5, (78, 53), (89, 57)), fill=(214, 60, 60) if pen.body[0] < 200 else (50, 90, 200))
    pen.dot(116, 33, 4.5)
    pen.eye(94, 25, 3.6)


def cat(pen: Pen) -> None:
    """Front view, sitting: pointed ears, whiskers, a tail curling to the side."""
    tail = ("line", 9, (56, 92), (72, 88), (77, 74), (72, 60))
    ears = ("poly", (12, 30), (12, 3), (36, 16)), ("poly", (64, 30), (64, 3), (40, 16))
    pen.join(tail, ("oval", 16, 46, 62, 99), *ears, ("oval", 8, 12, 68, 58))
    pen.fill(("poly", (17, 22), (17, 11), (28, 17)), ("poly", (59, 22), (59, 11), (48, 17)), fill=_PINK)
    pen.fill(("oval", 27, 64, 50, 94), fill=pen.light)
    pen.join(("box", 22, 84, 36, 99, 6), ("box", 42, 84, 56, 99, 6))
    for start, end in ((28, 6), (48, 70)):
        pen.fill(*(("line", 1.2, (start, 42 + d), (end, 38 + 3 * d)) for d in (0, 3)), fill=pen.dark)
    pen.fill(("poly", (34, 40), (42, 40), (38, 45)), fill=_PINK)
    pen.eye(26, 33, 4.4)
    pen.eye(50, 33, 4.4)


def rabbit(pen: Pen) -> None:
    """Front view: two long ears, round cheeks, two teeth."""
    ears = ("oval", 14, 1, 31, 50), ("oval", 39, 1, 56, 50)
    pen.join(*ears, ("oval", 7, 56, 63, 99), ("oval", 9, 32, 61, 72))
    pen.fill(("oval", 18, 7, 27, 40), ("oval", 43, 7, 52, 40), fill=_PINK)
    pen.fill(("oval", 21, 70, 49, 97), fill=pen.light)
    pen.join(("oval", 6, 88, 30, 99), ("oval", 40, 88, 64, 99))
    pen.fill(("box", 31, 60, 39, 68, 1), fill=(255, 255, 255))
    pen.fill(("poly", (30, 54), (40, 54), (35, 59)), fill=_PINK)
    pen.eye(24, 48, 4)
    pen.eye(46, 48, 4)


def sheep(pen: Pen) -> None:
    """Side view: a cloud of wool on thin legs with a pale face."""
    legs = [("box", x, 56, x + 8, 83, 3) for x in (22, 36, 62, 76)]
    pen.join(*legs, fill=mix(CREAM, INK, 0.45), edge=INK)
    upper = ((18, 40, 16), (30, 24, 17), (50, 18, 17), (70, 22, 16), (82, 36, 15))
    puffs = (*upper, (76, 52, 15), (56, 56, 16), (36, 56, 16), (22, 50, 14))
    wool = [("oval", x - r, y - r, x + r, y + r) for x, y, r in puffs]
    pen.join(*wool, ("oval", 20, 16, 82, 66))
    curls = [("line", 2, (x, y), (x + 5, y + 5), (x + 11, y + 1)) for x, y in ((30, 30), (52, 26), (40, 46), (62, 44))]
    pen.fill(*curls, fill=pen.light)
    pen.join(("oval", 72, 22, 86, 32), ("oval", 80, 18, 108, 54), fill=CREAM, edge=mix(CREAM, INK, 0.6))
    pen.join(("oval", 76, 8, 98, 28))
    pen.eye(97, 34, 3.4)
    pen.fill(("line", 1.6, (99, 46), (105, 44)), fill=INK)


def bird(pen: Pen) -> None:
    """Side view; wings up when flying, folded when not."""
    if pen.flying:
        pen.join(("poly", (50, 34), (26, 2), (16, 4), (28, 44)), fill=mix(pen.body, pen.dark, 0.35))
    else:
        pen.fill(("line", 3, (44, 66), (44, 82), (52, 83)), ("line", 3, (56, 66), (56, 82), (64, 83)), fill=_BEAK)
    pen.join(("poly", (86, 20), (103, 28), (86, 34)), fill=_BEAK, edge=mix(_BEAK, INK, 0.5))
    pen.join(("poly", (30, 48), (1, 34), (3, 60), (30, 58)), ("oval", 18, 28, 80, 72), ("oval", 58, 8, 92, 46))
    pen.fill(("oval", 46, 50, 76, 69), fill=pen.light)
    wing = ("poly", (36, 42), (62, 40), (40, 4), (30, 3)) if pen.flying else ("oval", 24, 36, 58, 60)
    pen.join(wing, fill=mix(pen.body, pen.dark, 0.35))
    pen.eye(77, 24, 3.8)


def fish(pen: Pen) -> None:
    """Side view: oval body, forked tail, fins."""
    fins = ("poly", (44, 14), (56, 1), (72, 12)), ("poly", (48, 46), (54, 58), (66, 46))
    pen.join(*fins, ("poly", (32, 30), (2, 6), (12, 30), (2, 54)), fill=mix(pen.body, pen.dark, 0.35))
    pen.join(("oval", 22, 8, 102, 52))
    stripes = ("poly", (46, 14), (54, 12), (54, 48), (46, 46)), ("poly", (62, 10), (69, 10), (69, 50), (62, 50))
    pen.fill(*stripes, fill=pen.light)
    pen.eye(86, 24, 4.6)
    pen.fill(("line", 2, (92, 38), (98, 35)), fill=pen.dark)


def butterfly(pen: Pen) -> None:
    """From above: four spotted wings, body, feelers."""
    pen.fill(("line", 2.4, (49, 20), (40, 4), (36, 2)), ("line", 2.4, (51, 20), (60, 4), (64, 2)), fill=INK)
    lower = ("oval", 12, 40, 48, 82), ("oval", 52, 40, 88, 82)
    pen.join(*lower, fill=mix(pen.body, pen.dark, 0.3))
    pen.join(("oval", 2, 6, 49, 52), ("oval", 51, 6, 98, 52))
    for x, y, radius in ((22, 26, 9), (78, 26, 9), (30, 62, 7), (70, 62, 7)):
        pen.dot(x, y, radius, pen.light)
    pen.fill(("oval", 45, 14, 55, 76), fill=INK)


def teddy(pen: Pen) -> None:
    """Front view, sitting: round ears, muzzle, arms and legs spread."""
    ears = ("oval", 11, 2, 33, 24), ("oval", 55, 2, 77, 24)
    arms = ("line", 17, (26, 58), (10, 70)), ("line", 17, (62, 58), (78, 70))
    pen.join(*ears, *arms, ("oval", 20, 44, 68, 96), ("oval", 14, 6, 74, 56))
    pen.join(("oval", 8, 76, 34, 99), ("oval", 54, 76, 80, 99))
    patch = mix(pen.body, CREAM, 0.75)
    pen.fill(
        ("oval", 30, 58, 58, 86),
        ("oval", 30, 30, 58, 53),
        ("oval", 14, 81, 28, 95),
        ("oval", 60, 81, 74, 95),
        fill=patch,
    )
    pen.fill(("oval", 17, 8, 27, 18), ("oval", 61, 8, 71, 18), fill=patch)
    pen.fill(("oval", 38, 33, 50, 42), ("line", 1.8, (44, 42), (44, 47)), fill=mix(INK, WOOD, 0.2))
    pen.eye(31, 27, 3.6)
    pen.eye(57, 27, 3.6)
