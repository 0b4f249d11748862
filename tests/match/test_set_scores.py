"""Items with several vectors: empty sides, tiles for a few rows, and scores on a torch device."""

import numpy as np
import pytest
from standing import DEVICE
from test_low_precision import vectors

from limner import LimnerError, Scores
from limner.scores.exact_products import _equal_tiles, tile_for

POOLINGS = ["max", "maxsim", "smooth"]


def sets(rng, kind, items, d, max_size):
    """Items with 1 to `max_size` vectors each; some have vectors in common."""
    sizes = rng.integers(1, max_size + 1, items)
    rows = vectors(rng, kind, int(sizes.sum()), d)
    rows[rng.random(len(rows)) < 0.1] = rows[0]
    return dict(zip(map(str, range(items)), np.split(rows, np.cumsum(sizes)[:-1]), strict=True))


def test_the_tile_for_some_rows_has_room_for_them():
    for rows in (1, 8, 9, 33, 65, 256):
        for columns in (1, 100, 5000):
            tile = tile_for(rows, columns, 48)
            assert tile[0] >= rows and tile in _equal_tiles(48)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("device", [None, DEVICE])
def test_no_candidates_and_no_queries(device, pooling):
    if device is not None:
        pytest.importorskip("torch", reason="torch is not installed")
    rng = np.random.default_rng(6)
    scores = Scores.from_sets(
        sets(rng, "random", 4, 8, 3), sets(rng, "random", 6, 8, 5), pooling=pooling, device=device
    )
    none, nobody = scores.restrict(candidates=[]), scores.restrict(queries=[])
    assert none.matrix().shape == none.top(2).indices.shape == (4, 0)
    assert (nobody.matrix().shape, nobody.top(2).indices.shape) == ((0, 6), (0, 2))


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_scores_on_a_device_are_those_of_the_cpu(pooling, turned, monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed")
    from limner.scores import device_sets

    monkeypatch.setattr(device_sets, "ROWS", 256)
    monkeypatch.setattr(device_sets, "FEW", 16)
    monkeypatch.setattr(device_sets, "COLUMNS", 1024)
    rng = np.random.default_rng(3)
    queries, candidates = sets(rng, "random", 40, 24, 9), sets(rng, "random", 90, 24, 30)
    on_cpu, on_device = (
        Scores.from_sets(queries, candidates, pooling=pooling, device=device) for device in (None, DEVICE)
    )
    on_cpu, on_device = (on_cpu.T, on_device.T) if turned else (on_cpu, on_device)
    matrix = on_device.matrix()
    assert np.abs(matrix - on_cpu.matrix()).max() < 1e-5
    part = on_device.restrict(queries=["7", "3"], candidates=["30", "1", "2"])
    assert np.array_equal(
        part.matrix(), on_device.restrict(queries=["3", "7"], candidates=["2", "1", "30"]).matrix()[::-1, ::-1]
    )
    for query in ("0", "3"):  # a few vectors take a smaller product
        assert np.array_equal(on_device.restrict(queries=[query]).matrix()[0], matrix[int(query)])
    assert np.array_equal(on_device.top(5).indices, on_cpu.top(5).indices)
    monkeypatch.setattr(device_sets, "TOGETHER", 1)
    assert np.array_equal(on_device.matrix(), matrix)


def test_items_with_more_vectors_than_a_tile(monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed")
    from limner.scores import device_sets

    monkeypatch.setattr(device_sets, "ROWS", 8)
    monkeypatch.setattr(device_sets, "COLUMNS", 16)
    rng = np.random.default_rng(4)
    queries, candidates = sets(rng, "random", 5, 8, 20), sets(rng, "random", 30, 8, 40)
    for pooling in POOLINGS:
        on_cpu, on_device = (Scores.from_sets(queries, candidates, pooling=pooling, device=d) for d in (None, DEVICE))
        assert np.abs(on_device.matrix() - on_cpu.matrix()).max() < 1e-5


@pytest.mark.parametrize(("size", "pooling"), [(3e19, "max"), (3e19, "smooth"), (3e19, "maxsim"), (8e18, "maxsim")])
def test_scores_that_single_precision_does_not_hold_are_refused(size, pooling):
    pytest.importorskip("torch", reason="torch is not installed")
    huge = {"a": np.full((2, 4), size, np.float32)}  # products reach 3.6e39, or 2.6e38 and their sum 5.1e38
    with pytest.raises(LimnerError, match="single precision does not hold"):
        Scores.from_sets(huge, huge, similarity="dot", pooling=pooling, device=DEVICE)


def test_large_products_that_are_not_summed_are_compared_on_a_device():
    pytest.importorskip("torch", reason="torch is not installed")
    large = {"a": np.full((2, 4), 8e18, np.float32), "b": np.full((2, 4), 7e18, np.float32)}
    scores = Scores.from_sets(large, large, similarity="dot", pooling="max", device=DEVICE)
    assert scores.top(1)["b"] == ["a"]
