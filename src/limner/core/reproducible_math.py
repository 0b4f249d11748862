"""Numerics that are identical on every CPU: elementary functions, signs of decompositions, rounding to a grid.

Math libraries and SIMD units disagree on the last bit of a sine or a logarithm, and a pixel, a visual word or a rank
can depend on it. These functions use only sums, products and quotients, which IEEE 754 rounds exactly, so every machine
gives the same bits. They are accurate to about 1e-14, take single numbers, and can be compiled.

Linear algebra sums in a different order on every CPU, so its results differ in the last digits. Rounded to a grid far
coarser than those digits, they are the same everywhere, and so is everything computed from them, as long as every sum
is exact.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from limner.core.arrays import Array

PI = 3.141592653589793
LOG_2 = 0.6931471805599453


def sine(turns: float) -> float:
    """The sine of an angle in full turns.

    >>> round(sine(1 / 12), 12), round(sine(0.75), 12), round(sine(7.125) ** 2, 12)
    (0.5, -1.0, 0.5)
    """
    left = turns - round(turns)
    if left > 0.25:
        left = 0.5 - left
    elif left < -0.25:
        left = -0.5 - left
    x = 2 * PI * left
    square, total = x * x, 1.0
    for k in range(20, 0, -2):  # x - x^3/3! + ... - x^19/19! + x^21/21!, from the last term on
        total = 1.0 - total * square / (k * (k + 1))
    return x * total


def cosine(turns: float) -> float:
    """The cosine of an angle in full turns.

    >>> round(cosine(1 / 6), 12), round(cosine(0.5), 12)
    (0.5, -1.0)
    """
    return sine(turns + 0.25)


def exponential(x: float) -> float:
    """e to the power of x.

    >>> round(exponential(1.0), 12), round(exponential(-0.5), 12), exponential(0.0)
    (2.718281828459, 0.606530659713, 1.0)
    """
    twos = round(x / LOG_2)
    f, total = x - twos * LOG_2, 1.0
    for k in range(14, 0, -1):  # 1 + f + f^2/2! + ... + f^14/14!, from the last term on
        total = 1.0 + total * f / k
    for _ in range(abs(twos)):
        total = total * 2.0 if twos > 0 else total / 2.0
    return total


def logarithm(x: float) -> float:
    """The natural logarithm of a number above 0.

    >>> round(logarithm(2.718281828459045), 12), logarithm(1.0), round(logarithm(0.125), 12)
    (1.0, 0.0, -2.07944154168)
    """
    twos = 0
    while x > 1.4142135623730951:
        x, twos = x / 2.0, twos + 1
    while x < 0.7071067811865476:
        x, twos = x * 2.0, twos - 1
    s = (x - 1.0) / (x + 1.0)
    square, total = s * s, 0.0
    for k in range(19, -1, -2):  # log x = 2 (s + s^3/3 + s^5/5 + ...), s = (x - 1) / (x + 1), |s| < 0.172
        total = total * square + 1.0 / k
    return 2.0 * s * total + twos * LOG_2


def arctangent(x: float) -> float:
    """The angle whose tangent is x, for x from 0 to 1, in full turns: 0 to 1/8.

    >>> arctangent(0.0), round(arctangent(1.0), 12), round(arctangent(0.5773502691896258) * 12, 12)
    (0.0, 0.125, 1.0)
    """
    offset = 0.125 if x > 0.41421356237309503 else 0.0  # above tan(pi/8): atan x = pi/4 + atan s
    s = (x - 1.0) / (x + 1.0) if offset else x
    square, total = s * s, 0.0
    for k in range(35, 0, -2):  # atan s = s - s^3/3 + s^5/5 - ..., from the last term on
        total = 1.0 / k - total * square
    return offset + s * total / (2 * PI)


def signs(vectors: Array) -> Array:
    """A sign, 1 or -1, for each column of a decomposition, which determines columns only up to sign.

    After multiplication, the first entry with at least half of the largest magnitude is positive.

    >>> signs(np.array([[0.1, -0.4], [-0.9, 0.6]]))
    array([-1., -1.])
    """
    large = 2 * np.abs(vectors) >= np.abs(vectors).max(axis=0, initial=0)
    first = np.take_along_axis(vectors, large.argmax(axis=0)[None], axis=0)[0]
    return np.where(first < 0, -1.0, 1.0).astype(vectors.dtype)


def rounded_to_bits(values: npt.NDArray[np.float64], bits: int) -> npt.NDArray[np.float64]:
    """Rounds values to multiples of a power of two, with the largest below 2 ** bits.

    >>> rounded_to_bits(np.array([0.3, -1.7]), 4)
    array([ 2., -14.])
    """
    exponent = int(np.frexp(np.abs(values).max(initial=0.0))[1])
    return np.rint(np.ldexp(values, bits - exponent))
