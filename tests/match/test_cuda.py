"""The loops of torch against those of the processor; on a GPU too, if there is one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

torch = pytest.importorskip("torch", reason="torch is not installed")

from limner import Embeddings, Judgements, LimnerError, Scores  # noqa: E402
from limner.evaluation.placements import RankOptions, RankRequest, place  # noqa: E402
from limner.match import CORRECTIONS, _correction_kernels  # noqa: E402
from limner.scores import block_kernels as _kernels  # noqa: E402
from limner.scores import torch_kernels as _cuda  # noqa: E402

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


def vectors(n, seed, d=24):
    return Embeddings([f"{seed}-{k}" for k in range(n)], np.random.default_rng(seed).standard_normal((n, d)) + 0.3)


def pair(device, n=530, m=2100):
    queries, candidates = vectors(n, 1), vectors(m, 2)
    return Scores.from_embeddings(queries, candidates), Scores.from_embeddings(queries, candidates, device=device)


def test_the_same_scores(device):
    on_cpu, on_device = pair(device)
    assert np.abs(on_cpu.matrix() - on_device.matrix()).max() < 1e-6
    assert np.abs(on_cpu.T.matrix() - on_device.T.matrix()).max() < 1e-6


def test_the_same_lists(device):
    """Random vectors have no near-ties at this size: the lists are equal, not only alike."""
    on_cpu, on_device = pair(device)
    assert np.array_equal(on_cpu.top(10).indices, on_device.top(10).indices)


blocks = arrays.arrays(
    np.float32, st.tuples(st.integers(1, 6), st.integers(1, 40)), elements=st.integers(-2, 2).map(float)
)


@settings(max_examples=60, deadline=None)
@given(blocks, st.integers(1, 45))
def test_ties_keep_candidate_order(block, k):
    k = min(k, block.shape[1])
    indices, scores = np.zeros((len(block), k), np.int32), np.zeros((len(block), k), np.float32)
    _cuda.best(torch.as_tensor(block), indices, scores)
    expected = np.argsort(-block, axis=1, kind="stable")[:, :k]
    assert np.array_equal(indices, expected)
    assert np.array_equal(scores, np.take_along_axis(block, expected, axis=1))


@pytest.mark.parametrize("k", [1, 3, 10])
@pytest.mark.parametrize("kinds", [2, 30, 100_000])
def test_ties_in_wide_rows(device, k, kinds):
    """Wide enough to be searched by chunks; few kinds of values, so that cuts fall into ties."""
    block = np.random.default_rng(kinds).integers(0, kinds, (17, 4 * _cuda.CHUNK * k + 77)).astype(np.float32)
    indices, scores = np.zeros((17, k), np.int32), np.zeros((17, k), np.float32)
    _cuda.best(torch.as_tensor(block, device=device), indices, scores)
    assert np.array_equal(indices, np.argsort(-block, axis=1, kind="stable")[:, :k])


def test_equal_vectors_tie_wherever_they_stand(device):
    matrix = np.random.default_rng(3).standard_normal((5000, 64)).astype(np.float32)
    matrix[[0, 1023, 2047, 4999]] = matrix[7]
    scores = Scores.from_embeddings(vectors(300, 4, 64), Embeddings(range(5000), matrix), device=device).matrix()
    assert all(np.array_equal(scores[:, 7], scores[:, c]) for c in (0, 1023, 2047, 4999)) or device == "cpu"


def test_positives_are_counted_alike(device):
    on_cpu, on_device = pair(device, 300, 700)
    rng = np.random.default_rng(0)
    pairs = {
        (on_cpu.queries[int(q)], on_cpu.candidates[int(c)])
        for q, c in zip(rng.integers(0, 300, 900), rng.integers(0, 700, 900), strict=True)
    }
    judged = Judgements.from_pairs(sorted(pairs), queries=on_cpu.queries, candidates=on_cpu.candidates)
    folds = RankRequest(judged, np.arange(300) % 3, np.arange(700) % 3)
    (a, b), ranking = place(on_cpu, [RankRequest(judged), folds], RankOptions(keep=5))
    (c, d), also = place(on_device, [RankRequest(judged), folds], RankOptions(keep=5))
    assert np.array_equal(a.above, c.above) and np.array_equal(b.above, d.above) and np.array_equal(a.tied, c.tied)
    assert np.array_equal(ranking.indices, also.indices)


@settings(max_examples=60, deadline=None)
@given(blocks, st.data())
def test_counts_with_ties(block, data):
    rows, width = block.shape
    columns = [sorted(data.draw(st.sets(st.integers(0, width - 1), max_size=3))) for _ in range(rows)]
    indptr = np.concatenate([[0], np.cumsum([len(c) for c in columns])]).astype(np.int64)
    flat = np.array([c for row in columns for c in row], dtype=np.int64)
    ours, theirs = np.zeros((len(flat), 3), np.int64), np.zeros((len(flat), 3), np.int64)
    _kernels.count_all(block, indptr, flat, ours)
    _cuda.count_all(torch.as_tensor(block), indptr, flat, theirs)
    assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("name", CORRECTIONS)
def test_corrections_alike(device, name):
    on_cpu, on_device = pair(device)
    assert np.abs(on_cpu.correct(name).matrix() - on_device.correct(name).matrix()).max() < 5e-5
    assert np.abs(on_cpu.T.correct(name).matrix() - on_device.T.correct(name).matrix()).max() < 5e-5


@pytest.mark.parametrize("name", CORRECTIONS)
def test_corrections_with_another_bank(device, name, tmp_path):
    on_cpu, on_device = pair(device)
    bank = vectors(300, 9)
    expected = on_cpu.correct(name, bank=bank).matrix()
    corrected = on_device.correct(name, bank=bank)
    assert np.abs(corrected.matrix() - expected).max() < 5e-5
    path = corrected.statistics.save(tmp_path / "bank.npz")
    assert np.abs(on_cpu.correct(str(path)).matrix() - expected).max() < 5e-5


@pytest.mark.parametrize("rows", [16, 100, 530, 600])
def test_rows_per_block_do_not_matter(device, rows):
    """The lists are the same; sums over other groups of rows round differently, by no more than the last digits."""
    from dataclasses import replace

    _, on_device = pair(device)
    regrouped = replace(on_device, rows=rows)
    assert np.array_equal(on_device.top(5).indices, regrouped.top(5).indices)
    for name in CORRECTIONS:
        assert np.abs(on_device.correct(name).matrix() - regrouped.correct(name).matrix()).max() < 2e-5, name


def test_columns_against_the_compiled_loops():
    block = np.random.default_rng(1).standard_normal((64, 300)).astype(np.float32)
    outputs = []
    for loops, values in ((_correction_kernels, block.copy()), (_cuda, torch.as_tensor(block))):
        buffers = np.empty(300), np.empty(300, np.int32), np.empty(300), np.empty(300)
        loops.add_columns(values, np.float32(3.0), *buffers)
        outputs.append(buffers)
    assert all(np.array_equal(outputs[0][n], outputs[1][n]) for n in range(3))
    assert np.allclose(outputs[0][3], outputs[1][3], rtol=1e-6)


def test_tensors_as_they_are(device):
    rows, columns = (torch.as_tensor(np.array(vectors(n, n).matrix), device=device) for n in (20, 30))
    scores = Scores.from_tensors(rows, columns, range(20), range(30), similarity="dot")
    assert np.abs(scores.matrix() - (rows.cpu().double() @ columns.cpu().double().T).numpy()).max() < 1e-4
    part = scores.restrict(queries=["3", "1"], candidates=["7"])
    assert np.allclose(part.matrix(), scores.matrix()[[3, 1]][:, [7]], atol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Scores.from_tensors(torch.ones(2, 3), torch.ones(2, 4), "ab", "xy"), "rows of one length"),
        (lambda: Scores.from_tensors(torch.ones(2, 3), torch.ones(2, 3), "abc", "xy"), "one id for each"),
        (
            lambda: Scores.from_tensors(torch.zeros(2, 3), torch.ones(2, 3), "ab", "xy"),
            "vector of 'a' .row 0. is all zeros",
        ),
        (
            lambda: Scores.from_tensors(torch.ones(2, 3), torch.ones(2, 3), "ab", "xy", similarity="dto"),
            "did you mean 'dot'",
        ),
    ],
)
def test_refused(make, message):
    with pytest.raises(LimnerError, match=message):
        make()


def test_no_card_is_said():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(LimnerError, match="torch sees no GPU"):
        Scores.from_embeddings(vectors(2, 1), vectors(2, 2), device="cuda")
