"""Compiled loops for assignments on a square matrix in memory, with reusable prices.

As in `_paths`, bidders are rows, items are columns, and a row's profit is its highest worth minus price. Every row gets
a column here, so any initial prices work.
"""

from __future__ import annotations

import numpy as np

from limner.core.paths import compiled

_jit = compiled(nogil=True)


@_jit
def total(worths, columns):  # type: ignore[no-untyped-def]
    """The total worth of an assignment."""
    total = 0.0
    for i in range(columns.shape[0]):
        total += worths[i, columns[i]]
    return total


@_jit
def _distances(worths, prices, owners, root, first, allowed, distance, before, stop_at_free):  # type: ignore[no-untyped-def]
    """Shortest paths of exchanges from a row, over rows from `first` on.

    Args:
        worths: The matrix.
        prices: Prices of the columns.
        owners: The row of each column, -1 for a free one, which ends a path; rows below `first` keep their column.
        root: The starting row. Its profit is that of the best column allowed for it.
        first: The first row that may change.
        allowed: Columns allowed for the root.
        distance: Output, per column; inf if no path leads there.
        before: Output, the row from which a column was reached.
        stop_at_free: Whether to stop at the nearest free column.

    Returns:
        The nearest free column, or -1, and the root's profit.
    """
    m = worths.shape[0]
    done = np.zeros(m, np.bool_)
    distance[:] = np.inf
    i, low, begin = root, 0.0, -np.inf
    for j in range(m):
        if allowed[j] and (owners[j] < 0 or owners[j] >= first):
            begin = max(begin, worths[root, j] - prices[j])
    profit = begin
    while profit > -np.inf:
        nearest = -1
        for j in range(m):
            if done[j] or (0 <= owners[j] < first):
                continue
            if i != root or allowed[j]:
                reach = low + max(profit - (worths[i, j] - prices[j]), 0.0)
                if reach < distance[j]:
                    distance[j], before[j] = reach, i
            if distance[j] < np.inf and (nearest < 0 or distance[j] < distance[nearest]):
                nearest = j
        if nearest < 0:
            break
        done[nearest] = True
        if owners[nearest] < 0 and stop_at_free:
            return nearest, begin
        low, i = distance[nearest], owners[nearest]
        if i < 0:
            break
        profit = worths[i, nearest] - prices[nearest]
    return -1, begin


@_jit
def assign_row(worths, columns, prices, row, first, allowed):  # type: ignore[no-untyped-def]
    """Assigns a column to a row along a shortest path, changing only rows from `first` on; -inf if there is none.

    Args:
        worths: The matrix.
        columns: The column of each row or -1; changed in place.
        prices: Prices of the columns, at which every assigned row has its best column; raised in place.
        row: The row.
        first: The first row that may change.
        allowed: Columns allowed for the row.
    """
    m = worths.shape[0]
    owners, before, distance = np.full(m, -1, np.int64), np.empty(m, np.int64), np.empty(m)
    for i in range(m):
        if columns[i] >= 0:
            owners[columns[i]] = i
    end, _ = _distances(worths, prices, owners, row, first, allowed, distance, before, True)
    if end < 0:
        return -np.inf
    goal = distance[end]
    for j in range(m):
        if distance[j] < goal:
            prices[j] += goal - distance[j]
    while True:
        i = before[end]
        given_up = columns[i]
        columns[i] = end
        if i == row:
            return goal
        end = given_up


@_jit
def least_loss(worths, columns, prices, row, allowed):  # type: ignore[no-untyped-def]
    """A lower bound on the loss in total worth if a row may have only some other columns.

    The row takes another column, and another row takes its old one. These are two different steps of any path of
    exchanges, and each loses at least as much as its best choice. Rows above keep their columns.
    """
    given_up = columns[row]
    taken_loss, left = np.inf, np.inf
    profit = worths[row, given_up] - prices[given_up]
    for i in range(row + 1, columns.shape[0]):
        column = columns[i]
        if allowed[column]:
            taken_loss = min(taken_loss, profit - (worths[row, column] - prices[column]))
        left = min(left, worths[i, column] - prices[column] - (worths[i, given_up] - prices[given_up]))
    return max(taken_loss, 0.0) + max(left, 0.0)


@_jit
def losses(worths, columns, prices):  # type: ignore[no-untyped-def]
    """The loss in total score if a row is forced to take a column: (rows, columns), 0 for pairs of the assignment.

    If row i takes column j, the row that had j needs another column, along a shortest path that ends at the column that
    i gives up.
    """
    m = worths.shape[0]
    lost, distance, before = np.empty((m, m)), np.empty(m), np.empty(m, np.int64)
    owners = np.empty(m, np.int64)
    for i in range(m):
        owners[columns[i]] = i
    all_columns = np.ones(m, np.bool_)
    for j in range(m):
        _distances(worths, prices, owners, owners[j], 0, all_columns, distance, before, False)
        distance[j] = 0.0
        for i in range(m):
            profit = worths[i, columns[i]] - prices[columns[i]]
            lost[i, j] = max(profit - (worths[i, j] - prices[j]), 0.0) + distance[columns[i]]
    return lost
