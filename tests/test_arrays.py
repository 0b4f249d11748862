"""What people give as numbers: lists, tensors, sparse and masked matrices, whole numbers of any size."""

import numpy as np
import pytest
from scipy import sparse

from limner import Embeddings, LimnerError, Ranking, Scores

PLAIN = np.array([[0.25, -1.0, 3.0], [2.0, 0.0, 0.5]])


def scores(matrix):
    return Scores.from_matrix(matrix, ["a", "b"], ["x", "y", "z"])


@pytest.mark.parametrize(
    "matrix",
    [
        PLAIN.tolist(),
        tuple(map(tuple, PLAIN.tolist())),
        np.asmatrix(PLAIN),
        sparse.csr_matrix(PLAIN),
        sparse.coo_array(PLAIN),
        np.ma.masked_array(PLAIN),
    ],
    ids=["list", "tuple", "np.matrix", "csr_matrix", "coo_array", "nothing masked"],
)
def test_a_matrix_of_any_kind(matrix):
    assert np.array_equal(scores(matrix).matrix(), PLAIN)
    assert np.array_equal(scores(matrix).T.matrix(), PLAIN.T)
    part = scores(matrix).restrict(queries=["b"], candidates=["z", "x"])
    assert part.matrix().tolist() == [[0.5, 2.0]]


def test_what_a_sparse_matrix_leaves_out_is_zero():
    assert scores(sparse.csr_matrix(([5.0], ([0], [1])), shape=(2, 3))).matrix().tolist() == [[0, 5, 0], [0, 0, 0]]


def test_tensors():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    for kind in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        tensor = torch.tensor(PLAIN, dtype=kind, requires_grad=True)
        assert np.array_equal(scores(tensor).matrix(), PLAIN), kind
        assert np.array_equal(Embeddings(["a", "b"], tensor).matrix, PLAIN.astype(np.float32)), kind
    assert np.array_equal(scores(torch.tensor(PLAIN).T.contiguous().T).matrix(), PLAIN)
    assert scores(torch.tensor([[1, 2, 3], [4, 5, 2**53]])).matrix()[1, 2] == 2**53


def test_a_masked_pair_is_a_pair_that_must_not_be():
    masked = np.ma.masked_array(PLAIN, mask=[[0, 0, 1], [0, 1, 0]])
    masked_scores = scores(masked)
    assert masked_scores.matrix().tolist() == [[0.25, -1.0, -np.inf], [2.0, -np.inf, 0.5]]
    assert masked_scores.top(1)["a"] == ["x"]
    integers = np.ma.masked_array([[1, 2, 3], [4, 5, 6]], mask=[[1, 0, 0], [0, 0, 0]])
    assert scores(integers).matrix().tolist() == [[-np.inf, 2, 3], [4, 5, 6]]
    hidden = np.ma.masked_invalid([[np.nan, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert scores(hidden).matrix()[0, 0] == -np.inf


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_whole_numbers_that_double_precision_cannot_hold_are_refused(dtype):
    ties = np.array([[2**53, 2**53 + 1, 0], [0, 1, 2]], dtype=dtype)
    with pytest.raises(LimnerError, match=r"row 0, column 1.* is 9007199254740993.*double precision"):
        scores(ties)
    exact = scores(np.array([[2**53, 2**54, 2**62], [0, 1, 2]], dtype=dtype))  # these it can hold
    assert exact.matrix()[0].tolist() == [2.0**53, 2.0**54, 2.0**62]
    with pytest.raises(LimnerError, match="9007199254740993"):
        Ranking(["q"], ["x", "y"], np.array([[0, 1]]), ties[:1, [1, 0]], 2)
    with pytest.raises(LimnerError, match="9007199254740993"):
        scores(ties.astype(object).tolist())


def test_extended_precision_is_not_rounded_in_silence():
    fine = np.array([[1, 2, 3], [4, 5, 6]], dtype=np.longdouble)
    assert np.array_equal(scores(fine).matrix(), fine.astype(np.float64))
    fine[0, 1] += np.finfo(np.longdouble).eps * 4
    if np.finfo(np.longdouble).eps < np.finfo(np.float64).eps:
        with pytest.raises(LimnerError, match="double precision"):
            scores(fine)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([[1.0, 2.0, 3.0], [1.0, 2.0]], "rows of one length"),
        ([["a", "b", "c"], ["d", "e", "f"]], "expected real numbers"),
        ([[None, 1.0, 2.0], [1.0, 2.0, 3.0]], "expected real numbers"),
        ([[1j, 1.0, 2.0], [1.0, 2.0, 3.0]], "expected real numbers"),
        ([[10**400, 1, 2], [1, 2, 3]], "expected real numbers"),
        ([1.0, 2.0, 3.0], r"shape \(3,\)"),
        (3.0, r"shape \(\)"),
        (None, "expected real numbers"),
        ([[np.nan, 1.0, 2.0], [1.0, 2.0, 3.0]], "row 0, column 0"),
        (sparse.csr_matrix(([np.nan], ([1], [2])), shape=(2, 3)), "row 1, column 2"),
    ],
    ids=str,
)
def test_what_is_no_matrix_of_numbers_is_refused(value, message):
    with pytest.raises(LimnerError, match=message):
        scores(value)


def test_masks_elsewhere_are_refused():
    masked = np.ma.masked_array(np.ones((2, 3)), mask=[[0, 0, 1], [0, 0, 0]])
    with pytest.raises(LimnerError, match="row 0, column 2.*masked"):
        Embeddings(["a", "b"], masked)
    with pytest.raises(LimnerError, match="masked"):
        Ranking(["a"], "xyz", np.ma.masked_array([[0, 1, 2]], mask=[[0, 0, 1]]))
    with pytest.raises(LimnerError, match="masked"):
        Ranking(["a"], "xyz", np.array([[0, 1, 2]]), np.ma.masked_array([[3.0, 2.0, 1.0]], mask=[[0, 0, 1]]))


def test_embeddings_from_lists_and_whole_numbers():
    assert Embeddings(["a"], [[3.0, 4.0]]).matrix.tolist() == [[3.0, 4.0]]
    with pytest.raises(LimnerError, match="too large for single precision"):
        Embeddings(["a", "b"], np.array([[1.0, 2.0], [1e39, 0.0]]))


def test_a_mapped_matrix_stays_on_disk(tmp_path):
    np.save(tmp_path / "m.npy", PLAIN)
    mapped = np.load(tmp_path / "m.npy", mmap_mode="r")
    assert isinstance(scores(mapped).values, np.memmap)
