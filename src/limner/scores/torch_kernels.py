"""The hot loops for torch tensors on any device, with the same names and results as the compiled ones.

Nothing here needs a GPU: the same code runs on CPU tensors, which is how it is tested. Small outputs per row or column
are numpy arrays; torch is imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from limner.core.arrays import Array
from limner.core.tensors import on_host, torch_module

if TYPE_CHECKING:
    from limner.core.tensors import Tensor

CHUNK = 64
"""Chunk size: the maximum of a chunk is checked before its values."""
AT_ONCE = 1 << 27
"""Number of values compared at once: half a gigabyte in single precision."""


def like_block(array: Array, block: Tensor) -> Tensor:
    """Values as a tensor with the type and device of a block."""
    tensor: Tensor = torch_module().as_tensor(np.ascontiguousarray(array)).to(device=block.device, dtype=block.dtype)
    return tensor


def best(block: Tensor, indices: Array, scores: Array) -> None:
    """The k best of every row, best first, equal scores in candidate order; k is the width of the outputs."""
    values, places = _best(block, indices.shape[1])
    indices[:], scores[:] = on_host(places), on_host(values)


def _best(block: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Searches only the k chunks with the highest maxima.

    Any value in another chunk has at least k values ranked before it: the k maxima.
    """
    torch = torch_module()
    rows, width = block.shape
    if width < 4 * CHUNK * max(k, 1):
        return _in_order(block, k)
    body = torch.unflatten(block[:, : width - width % CHUNK], 1, (-1, CHUNK))
    chunks = _in_order(body.amax(dim=2), k)[1].sort(dim=1).values
    inside = body.gather(1, chunks[:, :, None].expand(-1, -1, CHUNK)).flatten(1)
    places = (chunks[:, :, None] * CHUNK + torch.arange(CHUNK, device=block.device)).flatten(1)
    tail = torch.arange(width - width % CHUNK, width, device=block.device).expand(rows, -1)
    values, order = _in_order(torch.cat([inside, block[:, width - width % CHUNK :]], dim=1), k)
    return values, torch.cat([places, tail], dim=1).gather(1, order)


def _in_order(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """torch's top-k, which breaks ties arbitrarily, corrected where that matters."""
    torch = torch_module()
    if values.shape[1] <= k + 1:
        ordered = values.sort(dim=1, descending=True, stable=True)
        return ordered.values[:, :k], ordered.indices[:, :k]
    chosen, places = values.topk(k + 1, dim=1)
    unclear = (chosen[:, k] == chosen[:, k - 1]).nonzero()[:, 0]  # ties on both sides of the cut-off
    places = places[:, :k]
    if len(unclear):
        step = max(1, AT_ONCE // (8 * values.shape[1]))
        for part in torch.split(unclear, step):
            places[part] = values[part].sort(dim=1, descending=True, stable=True).indices[:, :k]
    places = places.sort(dim=1).values
    order = values.gather(1, places).sort(dim=1, descending=True, stable=True)
    return order.values, torch.gather(places, 1, order.indices)


def count_all(block: Tensor, indptr: Array, columns: Array, counts: Array) -> None:
    """Counts the candidates above and equal to every positive of a block; see `block_kernels.count_all`."""
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    step = max(1, AT_ONCE // max(block.shape[1], 1))
    for low in range(0, len(rows), step):
        counts[low : low + step] = _counts(block, rows[low : low + step], columns[low : low + step])


def _counts(block: Tensor, rows: Array, columns: Array) -> Array:
    torch = torch_module()
    at, place = (torch.as_tensor(np.asarray(x), device=block.device) for x in (rows, columns))
    values, score = block[at], block[at, place][:, None]
    equal = values == score
    before = equal & (torch.arange(block.shape[1], device=block.device) < place[:, None])
    return on_host(torch.stack([(values > score).sum(1), equal.sum(1), before.sum(1)], dim=1))


def count_pool(
    block: Tensor,
    indptr: Array,
    places: Array,
    counts: Array,
    pools: Array,
    pool_indptr: Array,
    pool_columns: Array,
) -> None:
    """Like `count_all`, but each row is ranked within its own pool of columns; `places` are positions in the pool."""
    torch = torch_module()
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    for pool in np.unique(pools[rows]):
        in_pool = np.flatnonzero(pools[rows] == pool)
        columns = torch.as_tensor(pool_columns[pool_indptr[pool] : pool_indptr[pool + 1]], device=block.device)
        used, local = np.unique(rows[in_pool], return_inverse=True)
        part = block[torch.as_tensor(used, device=block.device)][:, columns]
        counts[in_pool] = _counts(part, local, places[in_pool])


def lowest(k: int, block: Tensor) -> Tensor:
    """Initial value of the k best of every column."""
    initial: Tensor = torch_module().full((k, block.shape[1]), -np.inf, dtype=block.dtype, device=block.device)
    return initial


def keep_best(block: Tensor, previous: Tensor) -> Tensor:
    """The k best of every column, over a block and the previous best; (k, columns), highest first."""
    torch = torch_module()
    k = len(previous)
    inside = _best(block.T.contiguous(), min(k, len(block)))[0].T
    best: Tensor = torch.cat([previous, inside]).topk(k, dim=0).values
    return best


def add_columns(block: Tensor, beta: float, highest: Array, owner: Array, second: Array, tail_sum: Array) -> None:
    """For every column: the highest value, its row, the highest of the other rows, and their sum relative to it."""
    torch = torch_module()
    top = block.max(dim=0)
    without_top = block.scatter(0, top.indices[None], -np.inf)
    next_best = without_top.amax(dim=0)
    highest[:], owner[:], second[:] = on_host(top.values), on_host(top.indices), on_host(next_best)
    base = torch.where(next_best > -np.inf, next_best, 0.0)
    tail_sum[:] = on_host((without_top - base).mul_(float(beta)).exp_().sum(dim=0, dtype=torch.float64))


def add_rows(block: Tensor, beta: float, sums: Array) -> None:
    """log sum of exp(beta value) along every row; 0 for a row that is all -inf."""
    torch = torch_module()
    top = block.amax(dim=1, keepdim=True)
    base = torch.where(top > -np.inf, top, 0.0)
    total = (block - base).mul_(float(beta)).exp_().sum(dim=1, dtype=torch.float64).log()
    sums[:] = on_host(torch.where(top[:, 0] > -np.inf, base[:, 0].double().mul(float(beta)) + total, 0.0))


def tops(block: Tensor, high: Array, highest: Array) -> None:
    """The highest s(i, t) - high(t) of every row; 0 for a row that is all -inf."""
    top = (block - like_block(high, block)).amax(dim=1)
    highest[:] = on_host(torch_module().where(top > -np.inf, top, 0.0))


def shift(block: Tensor, scale: float, high: Array, low: Array, own_high: Array, own_low: Array) -> None:
    """In place: scale (s(i, t) - high(t) - own_high(i)) - low(t) - own_low(i)."""
    block.sub_(like_block(high, block)).sub_(like_block(own_high, block)[:, None]).mul_(float(scale))
    block.sub_(like_block(low, block) + like_block(own_low, block)[:, None])


def subtract_neighbourhoods(block: Tensor, high: Array, low: Array, k: int) -> None:
    """In place: 2 (s(i, t) - high(t)) - low(t) - the mean of the k best of row i that are not -inf."""
    best = _best(block, k)[0].double()
    finite = best > -np.inf
    neighbourhood = torch_module().where(finite, best, 0.0).sum(dim=1) / finite.sum(dim=1).clamp(min=1)
    own_high = (neighbourhood / 2).to(block.dtype)
    own_low = (neighbourhood - 2 * own_high.double()).to(block.dtype)
    block.sub_(like_block(high, block)).sub_(own_high[:, None]).mul_(2).sub_(like_block(low, block) + own_low[:, None])


def share_of_others(
    block: Tensor, beta: float, high: Array, low: Array, without_owner: Array, owned_by: Array, in_bank: Array
) -> None:
    """In place: beta s(i, t) - log sum over the bank without i itself; see `_correction_kernels`."""
    torch = torch_module()
    columns = np.flatnonzero(owned_by >= 0)
    at, column_index = (torch.as_tensor(x, device=block.device) for x in (owned_by[columns].astype(np.int64), columns))
    owned = block[at, column_index].double() * float(beta) - torch.as_tensor(
        without_owner[columns], device=block.device
    )
    block.sub_(like_block(high, block)).mul_(float(beta)).sub_(like_block(low, block))
    log_share = block.clamp(max=-np.log(2)).exp_().neg_().log1p_()
    block.sub_(log_share.mul_(like_block(in_bank, block)[:, None]))
    block[at, column_index] = owned.to(block.dtype)


def first_beyond(block: Tensor, limit: float) -> tuple[int, int]:
    """Finds (row, column) of the first value that is neither -inf nor within -limit to limit; (-1, -1) if none is."""
    beyond = (~(block.abs() <= float(limit)) & (block != -np.inf)).flatten()
    if not bool(beyond.any()):
        return -1, -1
    row, column = divmod(int(beyond.to(torch_module().uint8).argmax()), block.shape[1])
    return row, column
