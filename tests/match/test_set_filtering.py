"""Late interaction by filter and verify: the same lists as in float32 to the bit, and bounds that hold.

The low-precision way is forced with every format, as in `test_low_precision.py`, on the vectors drawn there to hurt.
"""

import numpy as np
import pytest
from hypothesis import strategies as st
from standing import DEVICE, standing
from test_low_precision import BFLOAT16, FORMATS, INT8, KINDS, force, vectors

from limner import LimnerError, Scores
from limner.scores import Best, filtering, set_filtering
from limner.scores.set_filtering import SetFilter
from limner.scores.tiles import _equal_tiles, tile_for

each_format = pytest.mark.parametrize("form", [BFLOAT16, INT8], ids=lambda form: form.name)


def sets(rng, kind, items, d, most):
    """Items with 1 to `most` vectors each; some have vectors in common."""
    sizes = rng.integers(1, most + 1, items)
    rows = vectors(rng, kind, int(sizes.sum()), d)
    rows[rng.random(len(rows)) < 0.1] = rows[0]
    return dict(zip(map(str, range(items)), np.split(rows, np.cumsum(sizes)[:-1]), strict=True))


class Case:
    """Two collections of items with several vectors each."""

    def __init__(self, data):
        self.rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
        n, m = data.draw(st.sampled_from([1, 3, 20])), data.draw(st.sampled_from([1, 2, 60, 300]))
        d, most = data.draw(st.sampled_from([1, 7, 16, 129])), data.draw(st.sampled_from([1, 3, 40]))
        queries, candidates = (sets(self.rng, data.draw(st.sampled_from(KINDS)), size, d, most) for size in (n, m))
        if data.draw(st.booleans()):  # queries that have vectors of candidates
            queries = {name: np.concatenate([q, candidates[str(int(name) % m)]]) for name, q in queries.items()}
        options = {
            "similarity": data.draw(st.sampled_from(["cosine", "dot"])),
            "pooling": data.draw(st.sampled_from(["max", "maxsim"])),
        }
        scores = Scores.from_sets(queries, candidates, **options)
        self.scores = scores.T if data.draw(st.booleans()) else scores
        self.k = data.draw(st.sampled_from([1, 3, 10, 400]))
        self.form = data.draw(st.sampled_from(FORMATS))


def same_lists(data):
    case = Case(data)
    plain = case.scores.top(case.k)
    with pytest.MonkeyPatch.context() as patch:
        force(patch, case.form)
        patch.setattr(set_filtering, "MOST_VERIFIED", data.draw(st.sampled_from([0.25, 1.0])))
        patch.setattr(set_filtering, "WIDTH", data.draw(st.sampled_from([1, 50, 4096])))
        patch.setattr(set_filtering, "TILE", data.draw(st.sampled_from([1, 50, 1024])))
        found = case.scores.top(case.k)
    assert np.array_equal(found.indices, plain.indices)
    assert np.array_equal(found.scores, plain.scores)


def bounds_hold(data):
    case = Case(data)
    if not filtering._fits(case.scores.singles):
        return
    near, exact = SetFilter(case.scores, case.form), case.scores.matrix().astype(np.float64)
    parts = [near._bounded(near._rows(0, len(exact)), chunk) for chunk in near._stored[0]]
    lower, upper = (np.concatenate(each, axis=1) for each in zip(*parts, strict=True))
    assert (lower <= exact).all() and (exact <= upper).all()


@each_format
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("pooling", ["max", "maxsim"])
def test_few_pairs_are_verified(pooling, turned, form, monkeypatch):
    rng = np.random.default_rng(0)
    candidates = {str(n): rng.standard_normal((rng.integers(1, 30), 64)).astype(np.float32) for n in range(400)}
    queries = {str(n): candidates[str(n)] + 0.1 * np.float32(rng.standard_normal()) for n in range(30)}
    scores = Scores.from_sets(queries, candidates, pooling=pooling)
    if turned:
        scores = Scores.from_sets(candidates, queries, pooling=pooling).T
    plain, asked = scores.top(3), []
    force(monkeypatch, form)
    verified = SetFilter._verified
    monkeypatch.setattr(
        SetFilter,
        "_verified",
        lambda self, query, columns: asked.append(len(columns)) or verified(self, query, columns),
    )
    found = scores.top(3)
    assert np.array_equal(found.indices, plain.indices) and np.array_equal(found.scores, plain.scores)
    assert len(asked) == 30 and np.mean(asked) < 0.2 * 400


def test_too_many_undecided_pairs_are_read_in_float32(monkeypatch):
    rng = np.random.default_rng(1)
    point = rng.standard_normal(32)
    candidates = {str(n): (point + 1e-5 * rng.standard_normal((5, 32))).astype(np.float32) for n in range(200)}
    scores = Scores.from_sets({str(n): candidates[str(n)] for n in range(20)}, candidates, pooling="maxsim")
    plain, seen = scores.top(4), []
    force(monkeypatch, BFLOAT16)
    monkeypatch.setattr(SetFilter, "_verified", lambda *given: pytest.fail("verified"))
    found = scores.top(4, progress=lambda *at: seen.append(at))
    assert np.array_equal(found.indices, plain.indices) and np.array_equal(found.scores, plain.scores)
    assert seen == [(4, 20), (20, 20)]


def test_a_smooth_maximum_has_no_filter(monkeypatch):
    force(monkeypatch, BFLOAT16)
    one = {"a": np.eye(3)}
    assert Scores.from_sets(one, one, pooling="smooth").filter(None, Best(1)) is None
    assert Scores.from_sets(one, one, pooling="maxsim").filter(None, Best(1)) is not None


def test_the_tile_for_some_rows_has_room_for_them():
    for rows in (1, 8, 9, 33, 65, 256):
        for columns in (1, 100, 5000):
            tile = tile_for(rows, columns, 48)
            assert tile[0] >= rows and tile in _equal_tiles(48)


@pytest.mark.parametrize("word", ["never", "always"])
@pytest.mark.parametrize("pooling", ["max", "maxsim", "smooth"])
@pytest.mark.parametrize("device", [None, DEVICE])
def test_no_candidates_and_no_queries(device, pooling, word, monkeypatch):
    if device is not None:
        pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setenv(filtering.SETTING, word)
    rng = np.random.default_rng(6)
    scores = Scores.from_sets(
        sets(rng, "random", 4, 8, 3), sets(rng, "random", 6, 8, 5), pooling=pooling, device=device
    )
    none, nobody = scores.restrict(candidates=[]), scores.restrict(queries=[])
    assert none.matrix().shape == none.top(2).indices.shape == (4, 0)
    assert (nobody.matrix().shape, nobody.top(2).indices.shape) == ((0, 6), (0, 2))


# --- on a torch device --------------------------------------------------------------------------------------------


POOLINGS = ["max", "maxsim", "smooth"]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_scores_on_a_device_are_those_of_the_cpu(pooling, turned, monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed")
    from limner.scores import device_sets

    monkeypatch.setattr(device_sets, "ROWS", 256)
    monkeypatch.setattr(device_sets, "COLUMNS", 1024)
    rng = np.random.default_rng(3)
    queries, candidates = sets(rng, "random", 40, 24, 9), sets(rng, "random", 90, 24, 30)
    here, there = (Scores.from_sets(queries, candidates, pooling=pooling, device=device) for device in (None, DEVICE))
    here, there = (here.T, there.T) if turned else (here, there)
    whole = there.matrix()
    assert np.abs(whole - here.matrix()).max() < 1e-5
    part = there.restrict(queries=["7", "3"], candidates=["30", "1", "2"])
    assert np.array_equal(
        part.matrix(), there.restrict(queries=["3", "7"], candidates=["2", "1", "30"]).matrix()[::-1, ::-1]
    )
    assert np.array_equal(there.top(5).indices, here.top(5).indices)
    monkeypatch.setattr(device_sets, "TOGETHER", 1)
    assert np.array_equal(there.matrix(), whole)


def test_items_with_more_vectors_than_a_tile(monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed")
    from limner.scores import device_sets

    monkeypatch.setattr(device_sets, "ROWS", 8)
    monkeypatch.setattr(device_sets, "COLUMNS", 16)
    rng = np.random.default_rng(4)
    queries, candidates = sets(rng, "random", 5, 8, 20), sets(rng, "random", 30, 8, 40)
    for pooling in POOLINGS:
        here, there = (Scores.from_sets(queries, candidates, pooling=pooling, device=d) for d in (None, DEVICE))
        assert np.abs(there.matrix() - here.matrix()).max() < 1e-5


def same_lists_on_a_device(data):
    pytest.importorskip("torch", reason="torch is not installed")
    from limner.scores import device_sets

    case = Case(data)
    if case.scores.singles.may_overflow:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_sets, "ROWS", 64)
        patch.setattr(device_sets, "FEW", data.draw(st.sampled_from([16, 64])))
        patch.setattr(device_sets, "COLUMNS", 256)
        scores = device_sets.TorchSetScores.sent(case.scores, device=DEVICE)
        plain = scores.top(case.k)
        patch.setenv(filtering.SETTING, "always")
        patch.setattr(device_sets, "MOST_VERIFIED", data.draw(st.sampled_from([0.25, 1.0])))
        found = scores.top(case.k)
    assert np.array_equal(found.indices, plain.indices)
    assert np.array_equal(found.scores, plain.scores)


def test_few_candidates_are_verified_on_a_device(monkeypatch):
    pytest.importorskip("torch", reason="torch is not installed")
    from limner.scores import device_sets

    rng = np.random.default_rng(0)
    candidates = {str(n): rng.standard_normal((rng.integers(1, 30), 64)).astype(np.float32) for n in range(400)}
    queries = {str(n): candidates[str(n)] for n in range(3)}
    scores = Scores.from_sets(queries, candidates, pooling="maxsim", device=DEVICE)
    plain, asked = scores.top(1), []
    items = device_sets.TorchSetScores.items
    monkeypatch.setattr(
        device_sets.TorchSetScores, "items", lambda self, which: asked.append(len(which)) or items(self, which)
    )
    monkeypatch.setenv(filtering.SETTING, "always")
    found = scores.top(1)
    assert np.array_equal(found.indices, plain.indices) and np.array_equal(found.scores, plain.scores)
    assert asked and max(asked) < 100


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


test_lists_are_the_same, test_lists_are_the_same_long = standing(same_lists)
test_no_score_is_outside_its_bounds, test_no_score_is_outside_its_bounds_long = standing(bounds_hold)
test_lists_on_a_device_are_the_same, test_lists_on_a_device_are_the_same_long = standing(same_lists_on_a_device)
