"""Drawings of animals and the teddy bear, facing right, in the grid coordinates of each kind."""

from __future__ import annotations

from limner.datasets.scenes.pen import CREAM, INK, WOOD, Pen, mix

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
