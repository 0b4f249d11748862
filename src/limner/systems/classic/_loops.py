"""Compiled loops for kernels, for the choice of settings, and over the pixels of an image.

All release the interpreter lock. Rows of kernels are compared four at a time over strips of columns that stay in the L1
cache, in inner loops without calls or branches, so that they vectorise. Sums over pixels are never reordered, and only
exactly rounded functions are used: the same image gives the same words on every CPU and with any number of threads.
"""

from __future__ import annotations

import math

import numpy as np

from limner.core.paths import compiled
from limner.core.reproducible_math import arctangent, logarithm

_summing = compiled(nogil=True, fastmath={"contract", "reassoc", "nsz", "nnan", "ninf"}, boundscheck=False)
_jit = compiled(nogil=True, fastmath=False, boundscheck=False, error_model="numpy")
_F, _I = np.float32, np.int32
STRIP = 2048
"""Columns per strip."""
_AT_ONCE = 64  # points whose energies fit into the L1 cache
_log = _jit(logarithm)
_arctangent = _jit(arctangent)


@_jit
def intersections(a, b, out):  # type: ignore[no-untyped-def]  # numba infers the types
    """out[i, j] = sum_v min(a[i, v], b[j, v]) for 32-bit integers, so that the sum does not depend on the order."""
    rows, b_rows, width = a.shape[0], b.shape[0], a.shape[1]
    out[:] = 0
    for low in range(0, width, STRIP):
        high = min(low + STRIP, width)
        for j in range(0, b_rows - b_rows % 4, 4):
            b0, b1, b2, b3 = b[j, low:high], b[j + 1, low:high], b[j + 2, low:high], b[j + 3, low:high]
            for i in range(rows):
                x = a[i, low:high]
                s0, s1, s2, s3 = _I(0), _I(0), _I(0), _I(0)
                for v in range(np.uint64(high - low)):
                    s0 = _I(s0 + (x[v] if x[v] < b0[v] else b0[v]))
                    s1 = _I(s1 + (x[v] if x[v] < b1[v] else b1[v]))
                    s2 = _I(s2 + (x[v] if x[v] < b2[v] else b2[v]))
                    s3 = _I(s3 + (x[v] if x[v] < b3[v] else b3[v]))
                out[i, j] += s0
                out[i, j + 1] += s1
                out[i, j + 2] += s2
                out[i, j + 3] += s3
        for j in range(b_rows - b_rows % 4, b_rows):
            b0 = b[j, low:high]
            for i in range(rows):
                x = a[i, low:high]
                s0 = _I(0)
                for v in range(np.uint64(high - low)):
                    s0 = _I(s0 + (x[v] if x[v] < b0[v] else b0[v]))
                out[i, j] += s0


@_summing
def chi_squares(a, b, out):  # type: ignore[no-untyped-def]
    """out[i, j] = sum_v (a[i, v] - b[j, v])^2 / (a[i, v] + b[j, v]), where 0 / 0 is 0."""
    for i in range(a.shape[0]):
        x = a[i]
        for j in range(b.shape[0]):
            y = b[j]
            total = _F(0.0)
            for v in range(np.uint64(x.shape[0])):
                gap, pair_sum = x[v] - y[v], x[v] + y[v]
                total += gap * gap / (pair_sum + _F(1e-30))
            out[i, j] = total


@_jit
def places(products, lengths, indptr, columns, out):  # type: ignore[no-untyped-def]
    """The rank of each query's best positive among all candidates by cosine, from 1; ties share the mean rank.

    Args:
        products: Dot products, queries by candidates. The query norm does not affect the order, so it is not needed.
        lengths: Norms of the candidates.
        indptr: Positives of query q are `indptr[q]:indptr[q + 1]`.
        columns: The column of each positive.
        out: One rank per query.
    """
    values = np.empty(products.shape[1], np.float64)
    for q in range(products.shape[0]):
        row = products[q]
        for c in range(np.uint64(values.shape[0])):
            values[c] = row[c] / lengths[c]
        best = -np.inf
        for p in range(indptr[q], indptr[q + 1]):
            best = max(best, values[columns[p]])
        higher, equal = 0, 0
        for c in range(np.uint64(values.shape[0])):
            higher += values[c] > best
            equal += values[c] == best
        out[q] = higher + (equal + 1) / 2


@_jit
def places_of_columns(products, lengths, indptr, columns, out):  # type: ignore[no-untyped-def]
    """Like `places`, for queries that are the columns of the products: `lengths` are norms of the rows."""
    width = products.shape[1]
    best, higher, equal = np.full(width, -np.inf), np.zeros(width), np.zeros(width)
    for q in range(width):
        for p in range(indptr[q], indptr[q + 1]):
            best[q] = max(best[q], products[columns[p], q] / lengths[columns[p]])
    for c in range(products.shape[0]):
        row, length = products[c], lengths[c]
        for q in range(np.uint64(width)):
            value = row[q] / length
            higher[q] += value > best[q]
            equal[q] += value == best[q]
    for q in range(np.uint64(width)):  # a loop: an expression of arrays takes seconds to compile
        out[q] = higher[q] + (equal[q] + 1) / 2


@_jit
def across(source, kernel, start, step, out):  # type: ignore[no-untyped-def]  # numba infers the types
    """Filters along rows at every `step`-th column from `start`; edge pixels are repeated beyond the border.

    The image is turned first, so that whole columns are summed at once.
    """
    height, width = source.shape
    turned, column = np.empty((width, height), np.float32), np.empty(height, np.float32)
    for y in range(np.uint64(height)):
        for x in range(np.uint64(width)):
            turned[x, y] = source[y, x]
    for i in range(out.shape[1]):
        x = start + i * step - kernel.shape[0] // 2
        column[:] = _F(0.0)
        for t in range(kernel.shape[0]):
            neighbour, weight = turned[min(max(x + t, 0), width - 1)], kernel[t]
            for y in range(np.uint64(height)):
                column[y] += weight * neighbour[y]
        for y in range(np.uint64(height)):
            out[y, i] = column[y]


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
    turn = _arctangent(min(down, across) / max(down, across))
    turn = 0.25 - turn if down > across else turn
    turn = 0.5 - turn if dx < 0 else turn
    return 1.0 - turn if dy < 0 else turn


@_jit
def orientations(grey, maps):  # type: ignore[no-untyped-def]
    """Gradient magnitude, split between the two nearest of `len(maps)` directions of the full circle."""
    kinds, height, width = maps.shape
    for y in range(height):
        upper, lower = max(y - 1, 0), min(y + 1, height - 1)
        for x in range(width):
            left, right = max(x - 1, 0), min(x + 1, width - 1)
            dy = (grey[lower, x] - grey[upper, x]) / _F(max(lower - upper, 1))
            dx = (grey[y, right] - grey[y, left]) / _F(max(right - left, 1))
            strength = math.sqrt(dx * dx + dy * dy)
            if strength > _F(0.0):
                turn = _turn(float(dy), float(dx)) * kinds
                low = int(turn)
                share = turn - low
                low = low if low < kinds else 0  # a full turn
                maps[low, y, x] += _F(strength * (1.0 - share))
                maps[low + 1 if low + 1 < kinds else 0, y, x] += _F(strength * share)


@_jit
def sift(maps, size, step, weights, min_norm, out):  # type: ignore[no-untyped-def]
    """Descriptors on a grid: 4 x 4 bins of the filtered maps, normalised, clipped at 0.2, normalised again, times 512.

    A row of the grid is processed at once: each descriptor is summed in order, and neighbours side by side.

    Args:
        maps: Directions by rows by columns, already smoothed over a bin with a triangular filter.
        size: Distance between bins in pixels of the maps.
        step: Distance between descriptors in pixels of the maps.
        weights: Weights of the bins, (4, 4).
        min_norm: Descriptors with a smaller norm count as without contrast and become 0.
        out: (rows of the grid, columns of the grid, 16 * directions), integers.
    """
    kinds, columns = maps.shape[0], out.shape[1]
    values = np.empty((16 * kinds, columns), np.float32)
    squares = np.empty(columns, np.float64)
    for gy in range(out.shape[0]):
        squares[:] = 0.0
        for at in range(16 * kinds):
            by, bx, k = at // kinds // 4, at // kinds % 4, at % kinds
            row, weight, descriptor = maps[k, gy * step + by * size, bx * size :], weights[by, bx], values[at]
            for gx in range(np.uint64(columns)):
                value = row[gx * np.uint64(step)] * weight
                descriptor[gx] = value
                squares[gx] += value * value
        _scaled(values, squares, min_norm, out[gy])


@_jit
def _scaled(values, squares, min_norm, out):  # type: ignore[no-untyped-def]
    """Normalises descriptors side by side: (values, descriptors) to (descriptors, integers)."""
    lengths, clipped_squares = np.sqrt(squares), np.zeros(squares.shape[0], np.float64)
    for i in range(values.shape[0]):
        descriptor = values[i]
        for g in range(np.uint64(descriptor.shape[0])):
            cut = min(descriptor[g] / lengths[g], 0.2)
            descriptor[g] = cut
            clipped_squares[g] += cut * cut
    for g in range(values.shape[1]):
        if lengths[g] < min_norm:
            out[g] = 0
            continue
        scale = 512.0 / math.sqrt(clipped_squares[g])
        for i in range(values.shape[0]):
            out[g, i] = np.uint8(min(values[i, g] * scale + 0.5, 255.0))


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
    values = np.empty((scales * kinds, _AT_ONCE), np.float64)
    for low in range(0, out.shape[0], _AT_ONCE):
        some = out[low : low + _AT_ONCE]
        count = some.shape[0]
        squares = np.zeros(count, np.float64)
        for at in range(scales * kinds):
            s, c, n, response = at // kinds, cosines[at % kinds], sines[at % kinds], values[at]
            dx, dy = slopes[s, 0, low : low + count], slopes[s, 1, low : low + count]
            xx, xy, yy = bends[s, 0, low:], bends[s, 1, low:], bends[s, 2, low:]
            for p in range(np.uint64(count)):
                odd = c * dx[p] + n * dy[p]
                even = c * c * xx[p] + 2 * c * n * xy[p] + n * n * yy[p]
                energy = odd * odd + even * even
                response[p] = math.sqrt(energy)
                squares[p] += energy
        for p in range(count):
            length = math.sqrt(squares[p])
            gain = scale * _log(1 + length / noise) / length if length > 0 else 0.0
            for i in range(values.shape[0]):
                some[p, i] = np.uint8(min(values[i, p] * gain + 0.5, 255.0))


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
