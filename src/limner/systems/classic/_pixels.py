"""Compiled loops over the pixels of one image. All release the interpreter lock, so images run on threads.

Sums are never reordered, and only exactly rounded functions are used: the same image gives the same words on every CPU
and with any number of threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from limner.core.cache_dir import compiled
from limner.core.portable import arctangent, logarithm

_jit: Any = compiled(nogil=True, fastmath=False, boundscheck=False)
_F = np.float32
_log: Any = _jit(logarithm)
_arctangent: Any = _jit(arctangent)


@_jit
def across(source, kernel, start, step, out):  # type: ignore[no-untyped-def]  # numba infers the types
    """Filters along rows at every `step`-th column from `start`; edge pixels are repeated beyond the border."""
    height, width = source.shape
    taps, radius = kernel.shape[0], kernel.shape[0] // 2
    padded = np.empty(width + 2 * radius, np.float32)
    for y in range(height):
        padded[:radius] = source[y, 0]
        padded[radius : radius + width] = source[y]
        padded[radius + width :] = source[y, width - 1]
        row = out[y]
        for i in range(row.shape[0]):
            row[i] = _F(0.0)
        for t in range(taps):  # tap by tap over the whole row, so that the loop vectorises
            weight = kernel[t]
            if step == 1:
                shifted = padded[start + t : start + t + row.shape[0]]
                for i in range(np.uint64(row.shape[0])):
                    row[i] += weight * shifted[i]
            else:
                for i in range(row.shape[0]):
                    row[i] += weight * padded[start + i * step + t]


@_jit
def down(source, kernel, start, step, out):  # type: ignore[no-untyped-def]
    """Filters along columns at every `step`-th row from `start`; whole rows at once."""
    height, width = source.shape
    radius = kernel.shape[0] // 2
    for i in range(out.shape[0]):
        y = start + i * step
        for x in range(width):
            out[i, x] = _F(0.0)
        for t in range(kernel.shape[0]):
            row, weight = source[min(max(y - radius + t, 0), height - 1)], kernel[t]
            for x in range(width):
                out[i, x] += weight * row[x]


@_jit
def _turn(dy, dx):  # type: ignore[no-untyped-def]
    """The direction of a gradient in full turns, from 0 to 1; undefined for a zero gradient."""
    across, down = abs(dx), abs(dy)
    turn = _arctangent(down / across) if down <= across else 0.25 - _arctangent(across / down)
    turn = 0.5 - turn if dx < 0 else turn
    return 1.0 - turn if dy < 0 else turn


@_jit
def orientations(grey, maps):  # type: ignore[no-untyped-def]
    """Gradient magnitude, split between the two nearest of `len(maps)` directions of the full circle."""
    kinds, height, width = maps.shape
    for y in range(height):
        above, below = max(y - 1, 0), min(y + 1, height - 1)
        for x in range(width):
            left, right = max(x - 1, 0), min(x + 1, width - 1)
            dy = (grey[below, x] - grey[above, x]) / _F(max(below - above, 1))
            dx = (grey[y, right] - grey[y, left]) / _F(max(right - left, 1))
            strength = math.sqrt(dx * dx + dy * dy)
            if strength > _F(0.0):
                turn = _turn(float(dy), float(dx)) * kinds
                low = int(turn)
                share = turn - low
                maps[low % kinds, y, x] += _F(strength * (1.0 - share))
                maps[(low + 1) % kinds, y, x] += _F(strength * share)


@_jit
def sift(maps, size, step, weights, least, out):  # type: ignore[no-untyped-def]
    """Descriptors on a grid: 4 x 4 bins of the filtered maps, normalised, clipped at 0.2, normalised again, times 512.

    Args:
        maps: Directions by rows by columns, already smoothed over a bin with a triangular filter.
        size: Distance between bins in pixels.
        step: Distance between descriptors in pixels.
        weights: Weights of the bins, (4, 4).
        least: Descriptors with a smaller norm count as without contrast and become 0.
        out: (rows of the grid, columns of the grid, 16 * directions), integers.
    """
    kinds = maps.shape[0]
    values = np.empty(16 * kinds, np.float32)
    for gy in range(out.shape[0]):
        for gx in range(out.shape[1]):
            squares, at = 0.0, 0
            for by in range(4):
                for bx in range(4):
                    y, x, weight = size // 2 + gy * step + by * size, size // 2 + gx * step + bx * size, weights[by, bx]
                    for k in range(kinds):
                        value = maps[k, y, x] * weight
                        values[at] = value
                        squares += value * value
                        at += 1
            _scaled(values, squares, least, out[gy, gx])


@_jit
def _scaled(values, squares, least, out):  # type: ignore[no-untyped-def]
    length = math.sqrt(squares)
    if length < least:
        for i in range(values.shape[0]):
            out[i] = 0
        return
    again = 0.0
    for i in range(values.shape[0]):
        cut = min(values[i] / length, 0.2)
        values[i] = cut
        again += cut * cut
    scale = 512.0 / math.sqrt(again)
    for i in range(values.shape[0]):
        out[i] = np.uint8(min(values[i] * scale + 0.5, 255.0))


@_jit
def energies(slopes, bends, cosines, sines, noise, scale, out):  # type: ignore[no-untyped-def]
    """Oriented energies of every point as integers; see `descriptors.texture`.

    Args:
        slopes: First derivatives, (scales, 2, points): along x and y.
        bends: Second derivatives, (scales, 3, points): xx, xy, yy.
        cosines: Cosines of the directions.
        sines: Sines of the directions.
        noise: Noise level of the contrast.
        scale: Steps per unit.
        out: (points, scales * directions).
    """
    scales, kinds = slopes.shape[0], cosines.shape[0]
    values = np.empty(scales * kinds, np.float64)
    for p in range(out.shape[0]):
        squares = 0.0
        for s in range(scales):
            for k in range(kinds):
                c, n = cosines[k], sines[k]
                odd = c * slopes[s, 0, p] + n * slopes[s, 1, p]
                even = c * c * bends[s, 0, p] + 2 * c * n * bends[s, 1, p] + n * n * bends[s, 2, p]
                energy = odd * odd + even * even
                values[s * kinds + k] = math.sqrt(energy)
                squares += energy
        length = math.sqrt(squares)
        gain = scale * _log(1 + length / noise) / length if length > 0 else 0.0
        for i in range(values.shape[0]):
            out[p, i] = np.uint8(min(values[i] * gain + 0.5, 255.0))


@_jit
def count_words(words, rows, columns, height, width, grid, counts):  # type: ignore[no-untyped-def]
    """Counts visual words in each cell of a grid x grid division of the image.

    Args:
        words: One word per point.
        rows: The point's distance from the top, in pixels.
        columns: The point's distance from the left.
        height: Height of the image.
        width: Width of the image.
        grid: Cells along each side.
        counts: Output, to which the counts are added: (cells, words).
    """
    for i in range(words.shape[0]):
        cell = int(rows[i] * grid / height) * grid + int(columns[i] * grid / width)
        counts[cell, words[i]] += 1
