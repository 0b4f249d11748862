"""Compiled loops of the assignment: bidding, then shortest augmenting paths, on lists of candidates.

The smaller side bids for the other: bidders i, items j, worth s(i, j), prices p(j). A bidder's profit is the maximum of
s(i, j) - p(j) over its list. An assignment is optimal under two conditions: every bidder has an item that gives its
profit, and unassigned items have price 0. Prices never fall, so the second holds if all prices start at 0. Prices are
float64: float32 worths are exact in it, and sums of a few thousand differences keep ten digits.

A bidder may also stay without an item, which is worth `null`; -inf means that it must be assigned.
"""

from __future__ import annotations

import numpy as np

from limner.core.paths import compiled

_jit = compiled(nogil=True, boundscheck=False)
_loose = compiled(nogil=True, fastmath={"nnan", "nsz", "reassoc"})

FREE, CONTENT = -1, -2
"""Markers: a bidder without an item so far, and one that is better off without an item."""
UNSEEN, SETTLED = -1, -2
"""Heap markers: items not reached yet, and items whose distance is final."""


@_jit
def _two_best(graph, prices, i):  # type: ignore[no-untyped-def]
    """The edge with the highest profit of bidder i, the next one, and both profits."""
    indptr, columns, values = graph
    best, second = -np.inf, -np.inf
    edge, runner_up = -1, -1
    for e in range(indptr[i], indptr[i + 1]):
        profit = values[e] - prices[columns[e]]
        if profit > best:
            best, second, edge, runner_up = profit, best, e, edge
        elif profit > second:
            second, runner_up = profit, e
    return edge, runner_up, best, second


@_jit
def best_profits(graph, prices, profits):  # type: ignore[no-untyped-def]
    """The highest score minus price in every bidder's list; -inf if the list is empty."""
    for i in range(profits.shape[0]):
        profits[i] = _two_best(graph, prices, i)[2]


@_jit
def _take_best(graph, state, null, i):  # type: ignore[no-untyped-def]
    """Bidder i takes its best item and raises its price until the next best is as good; returns its old owner, or FREE.

    No bidder loses an item on a tie: bidder i then stays free, unless one of its two best items is free.
    """
    columns = graph[1]
    prices, edge_of, owners = state
    edge, runner_up, best, second = _two_best(graph, prices, i)
    if best <= null:
        edge_of[i] = CONTENT if null > -np.inf else FREE
        return FREE
    second = max(second, null)
    rise = best - second if second > -np.inf else 0.0
    if rise == 0.0 and owners[columns[edge]] != FREE:
        edge = runner_up
        if edge < 0 or owners[columns[edge]] != FREE:
            return FREE
    item = columns[edge]
    loser = owners[item]
    prices[item] += rise
    edge_of[i], owners[item] = edge, i
    if loser != FREE:
        edge_of[loser] = FREE
    return loser


@_jit
def bid(graph, state, null, max_bids, first, last):  # type: ignore[no-untyped-def]
    """Every free bidder from `first` to `last` takes its best item; a bidder that loses its item bids again at once.

    This is the augmenting row reduction of Jonker & Volgenant 1987. It leaves few bidders free, but can take very long
    if many bidders want the same few items. So it stops after `max_bids` bids and leaves the rest to `augment`.

    Args:
        graph: (indptr, items, worths): the edges of bidder i are `indptr[i]:indptr[i + 1]`.
        state: (prices of items, the edge of each bidder or FREE or CONTENT, the owner of each item or FREE);
            changed in place.
        null: The worth of staying without an item.
        max_bids: Maximum number of bids.
        first: Where to begin.
        last: Where to end, exclusive.
    """
    edge_of = state[1]
    for root in range(first, last):
        i = root if edge_of[root] == FREE else -1
        while i >= 0 and max_bids > 0:
            i = _take_best(graph, state, null, i)
            max_bids -= 1


@_jit
def _rise(heap, places, distance, place, item):  # type: ignore[no-untyped-def]
    """Moves an item up the heap until its parent is nearer."""
    while place > 0:
        parent = (place - 1) >> 1
        if distance[heap[parent]] <= distance[item]:
            break
        heap[place] = heap[parent]
        places[heap[place]] = place
        place = parent
    heap[place] = item
    places[item] = place


@_jit
def _take_nearest(heap, places, distance, size):  # type: ignore[no-untyped-def]
    """Removes the nearest item from a heap of this size."""
    top, last = heap[0], heap[size - 1]
    size -= 1
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and distance[heap[child + 1]] < distance[heap[child]]:
            child += 1
        if distance[heap[child]] >= distance[last]:
            break
        heap[place] = heap[child]
        places[heap[place]] = place
        place = child
    if size:
        heap[place] = last
        places[last] = place
    places[top] = SETTLED
    return top


@_jit
def _search(graph, state, null, dead, work, root):  # type: ignore[no-untyped-def]
    """Shortest paths of exchanges from a free bidder, until the nearest end is known.

    Returns:
        Distance of the end (inf if there is none), the free item at the end or -1, the bidder that gives up its item or
        -1, the number of items seen, and the number of items whose distance is final.
    """
    indptr, columns, values = graph
    prices, edge_of, owners = state
    distance, places, heap, edges, bidders, reached, done = work
    n_seen, n_done, size, end, quitter = 0, 0, 0, -1, -1
    i, low, goal = root, 0.0, np.inf
    while True:
        profit = (
            max(_two_best(graph, prices, root)[2], null)
            if i == root
            else values[edge_of[i]] - prices[columns[edge_of[i]]]
        )
        if low + (profit - null) < goal:
            goal, quitter, end = low + (profit - null), i, -1
        for e in range(indptr[i], indptr[i + 1]):
            j = columns[e]
            reach = low + max(profit - (values[e] - prices[j]), 0.0)
            if reach >= distance[j] or reach >= goal or dead[j] or places[j] == SETTLED:
                continue
            if distance[j] == np.inf:
                reached[n_seen] = j
                n_seen += 1
            distance[j], edges[j], bidders[j] = reach, e, i
            if owners[j] == FREE:
                goal, end, quitter = reach, j, -1
            else:
                size += places[j] == UNSEEN
                _rise(heap, places, distance, size - 1 if places[j] == UNSEEN else places[j], j)
        if size == 0 or distance[heap[0]] >= goal:
            return goal, end, quitter, n_seen, n_done
        j = _take_nearest(heap, places, distance, size)
        size -= 1
        done[n_done] = j
        n_done += 1
        low, i = distance[j], owners[j]


@_jit
def _exchange(graph, state, work, root, end, quitter):  # type: ignore[no-untyped-def]
    """Exchanges items along the path found, back to the bidder where it began."""
    columns, edge_of, owners = graph[1], state[1], state[2]
    edges, bidders = work[3], work[4]
    if quitter >= 0:
        end = columns[edge_of[quitter]] if quitter != root else -1
        edge_of[quitter] = CONTENT
    while end >= 0:
        i, edge = bidders[end], edges[end]
        given_up = columns[edge_of[i]] if i != root else -1
        edge_of[i] = edge
        owners[end] = i
        end = given_up


@_jit
def augment(graph, state, null, dead, first, last):  # type: ignore[no-untyped-def]
    """Assigns an item to every free bidder from `first` to `last`, along a shortest path of exchanges.

    Edmonds & Karp 1972, with Dijkstra's search on reduced costs.

    If a search reaches no free item, it has found a set of bidders that share too few items. Those items are marked
    dead, and later searches skip them.

    Args:
        graph: As in `bid`, with `state` and `null`.
        state: Prices, held edges and owners.
        null: The worth of staying without an item.
        dead: Items from which no free item can be reached; updated in place.
        first: Where to begin.
        last: Where to end, exclusive.

    Returns:
        The number of bidders left without an item.
    """
    prices, edge_of = state[0], state[1]
    m, stuck = prices.shape[0], 0
    distance, places = np.full(m, np.inf), np.full(m, UNSEEN, np.int64)
    heap, edges, bidders = np.empty(m, np.int64), np.empty(m, np.int64), np.empty(m, np.int64)
    reached, done = np.empty(m, np.int64), np.empty(m, np.int64)
    work = (distance, places, heap, edges, bidders, reached, done)
    for root in range(first, last):
        if edge_of[root] != FREE:
            continue
        goal, end, quitter, n_seen, n_done = _search(graph, state, null, dead, work, root)
        if goal < np.inf:
            for j in done[:n_done]:
                prices[j] += goal - distance[j]
            _exchange(graph, state, work, root, end, quitter)
        else:
            dead[done[:n_done]] = True
            stuck += 1
        distance[reached[:n_seen]] = np.inf
        places[reached[:n_seen]] = UNSEEN
    return stuck


@_jit
def _insert(items, worths, profits, item, worth, profit):  # type: ignore[no-untyped-def]
    """Inserts an edge into a list sorted by profit, after equal ones, and drops the last one."""
    at = items.shape[0] - 1
    while at > 0 and profits[at - 1] < profit:
        items[at], worths[at], profits[at] = items[at - 1], worths[at - 1], profits[at - 1]
        at -= 1
    items[at], worths[at], profits[at] = item, worth, profit


@_loose
def _highest(values, prices):  # type: ignore[no-untyped-def]
    """The highest value minus price."""
    highest = values[0] - prices[0]
    for c in range(1, values.shape[0]):
        highest = max(highest, values[c] - prices[c])
    return highest


@_jit
def collect_rows(block, prices, floors, items, worths, profits):  # type: ignore[no-untyped-def]
    """Collects the best edges of every row of a block: value minus price above the row's floor.

    Segments of a row are first checked in the precision of the block, with a margin for rounding; only those that may
    contain an edge are checked again.
    """
    rough = prices.astype(block.dtype)
    largest = 0.0
    for price in prices:
        largest = max(largest, abs(price)) if price < np.inf else largest
    eps = 4 * np.finfo(block.dtype).eps
    last = items.shape[1] - 1
    for r in range(block.shape[0]):
        row = block[r]
        if floors[r] == np.inf:
            continue
        for low in range(0, row.shape[0], 256):
            stop = min(low + 256, row.shape[0])
            bar = max(floors[r], profits[r, last])
            highest = float(_highest(row[low:stop], rough[low:stop]))
            if highest == -np.inf or highest + eps * (abs(highest) + 2 * largest) < bar:
                continue
            for c in range(low, stop):
                profit = row[c] - prices[c]
                if profit > max(floors[r], profits[r, last]):
                    _insert(items[r], worths[r], profits[r], c, row[c], profit)


@_jit
def collect_columns(block, first, prices, floors, items, worths, profits):  # type: ignore[no-untyped-def]
    """Like `collect_rows` for every column; row r of the block is item `first` + r."""
    last = items.shape[1] - 1
    bars = np.empty(block.shape[1])
    for c in range(block.shape[1]):
        bars[c] = max(floors[c], profits[c, last])
    for r in range(block.shape[0]):
        row = block[r]
        for c in range(block.shape[1]):
            profit = row[c] - prices[r]
            if profit > bars[c]:
                _insert(items[c], worths[c], profits[c], first + r, row[c], profit)
                bars[c] = max(floors[c], profits[c, last])
