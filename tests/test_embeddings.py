"""Embeddings: files round trip, bad rows are named."""

import numpy as np
import pytest

from limner import Embeddings, LimnerError

FORMS = ("npy", "npz", "safetensors", "parquet")


@pytest.fixture
def vectors():
    return Embeddings(["a", "b", "ü/3"], np.random.default_rng(0).standard_normal((3, 5)))


@pytest.mark.parametrize("form", FORMS)
def test_round_trip(vectors, tmp_path, form):
    reloaded = Embeddings.load(vectors.save(tmp_path / f"e.{form}"))
    assert (
        reloaded.ids == vectors.ids
        and np.array_equal(reloaded.matrix, vectors.matrix)
        and reloaded.matrix.dtype == np.float32
    )


def test_npy_stays_on_disk(vectors, tmp_path):
    loaded = Embeddings.load(vectors.save(tmp_path / "e.npy")).matrix
    assert isinstance(loaded, np.memmap) or isinstance(loaded.base, np.memmap)


def test_ids_from_a_file_or_none_at_all(tmp_path):
    np.save(tmp_path / "e.npy", np.ones((2, 2)))
    (tmp_path / "names.txt").write_text("x\ny\n")
    assert list(Embeddings.load(tmp_path / "e.npy").ids) == ["0", "1"]
    assert list(Embeddings.load(tmp_path / "e.npy", ids=tmp_path / "names.txt").ids) == ["x", "y"]


def test_an_npy_file_is_one_for_others_and_knows_its_ids_here(vectors, tmp_path):
    path = vectors.save(tmp_path / "e.npy")
    for mode in (None, "r"):
        assert np.array_equal(np.load(path, mmap_mode=mode), vectors.matrix)
    ids_file = tmp_path / "e.ids.txt"
    assert ids_file.read_text(encoding="utf-8").splitlines() == list(vectors.ids)
    ids_file.write_text("x\ny\nz\n")
    with pytest.raises(LimnerError, match=r"e.ids.txt is not the list of ids that .*e.npy was saved with"):
        Embeddings.load(path)
    assert list(Embeddings.load(path, ids=ids_file).ids) == ["x", "y", "z"]
    ids_file.unlink()
    assert Embeddings.load(path).ids == vectors.ids


@pytest.mark.parametrize("size", [0, 8, 15])
def test_an_npy_file_that_ends_like_nothing_known(tmp_path, size):
    np.save(tmp_path / "e.npy", np.ones((1, 1)))
    (tmp_path / "e.npy").write_bytes((tmp_path / "e.npy").read_bytes() + b"limnerid"[-size:])
    assert list(Embeddings.load(tmp_path / "e.npy").ids) == ["0"]


def with_row(value):
    matrix = np.ones((4, 3))
    matrix[2] = value
    return matrix


@pytest.mark.parametrize(
    ("ids", "matrix", "message"),
    [
        ("abcd", with_row([1, np.nan, 1]), r"row 2 \(id 'c'\) holds NaN"),
        ("abcd", with_row([1, -np.inf, 1]), "row 2 .* infinite"),
        ("abcd", with_row(0), "row 2 .* all zeros"),
        ("abc", np.ones((4, 3)), "3 ids for 4 rows"),
        ("abca", np.ones((4, 3)), "duplicate embedding id 'a' in rows 0 and 3"),
        ("abcd", np.ones(4), "expected rows by dimensions"),
        ("abcd", np.ones((4, 3), dtype=bool), "floating point or whole numbers"),
        ("abcd", np.full((4, 3), 2**24 + 1), "row 0, column 0 is 16777217, which single precision cannot hold"),
    ],
)
def test_refused(ids, matrix, message):
    with pytest.raises(LimnerError, match=message):
        Embeddings(ids, matrix)


@pytest.mark.parametrize("form", FORMS)
def test_damaged_files_are_named(tmp_path, form):
    (tmp_path / f"e.{form}").write_bytes(b"nothing of the sort")
    with pytest.raises(LimnerError, match=rf"e\.{form}"):
        Embeddings.load(tmp_path / f"e.{form}")


def test_files_refused(tmp_path):
    with pytest.raises(LimnerError, match="no embeddings file"):
        Embeddings.load(tmp_path / "none.npy")
    (tmp_path / "e.txt").write_text("1 2")
    with pytest.raises(LimnerError, match="unknown embeddings file ending"):
        Embeddings.load(tmp_path / "e.txt")
    np.savez(tmp_path / "two.npz", a=np.ones((1, 1)), b=np.ones((1, 1)))
    with pytest.raises(LimnerError, match="one named 'embeddings'"):
        Embeddings.load(tmp_path / "two.npz")


def test_subset_and_length(vectors):
    assert np.array_equal(vectors.subset(["b", "a"]).matrix, vectors.matrix[[1, 0]])
    assert np.allclose(np.linalg.norm(vectors.normalised().matrix, axis=1), 1)


@pytest.mark.parametrize("dimensions", [1, 2, 34, 700])
def test_on_the_grid_every_dot_product_is_exact(dimensions):
    """In whatever order single precision adds up: the products and sums are those of whole numbers."""
    rng = np.random.default_rng(dimensions)
    vectors = rng.standard_normal((60, dimensions))
    vectors[1] = vectors[0]  # a product of 1 must not go beyond what is held exactly
    rounded = Embeddings.of_length_one(range(60), vectors).matrix
    steps = np.rint(rounded.astype(np.float64) * 4096).astype(np.int64)
    np.testing.assert_array_equal(steps / 4096, rounded)
    assert (steps**2).sum(axis=1).max() <= 4096**2
    exact = steps @ steps.T / 2**24
    for order in (np.arange(dimensions), np.arange(dimensions)[::-1], rng.permutation(dimensions)):
        moved = np.ascontiguousarray(rounded[:, order])
        np.testing.assert_array_equal(moved @ moved.T, exact)
        one_by_one = np.zeros((60, 60), np.float32)
        for column in moved.T:
            one_by_one += np.multiply.outer(column, column)
        np.testing.assert_array_equal(one_by_one, exact)


def test_on_the_grid_vectors_are_near_and_the_last_digits_do_not_matter():
    vectors = np.random.default_rng(0).standard_normal((300, 34)) * 1e3
    rounded = Embeddings.of_length_one(range(300), vectors).matrix
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(rounded, unit, atol=3.1e-4)
    noise = 1 + 1e-13 * np.random.default_rng(1).standard_normal(vectors.shape)
    np.testing.assert_array_equal(rounded, Embeddings.of_length_one(range(300), vectors * noise).matrix)


def test_vectors_in_single_precision_are_not_rounded():
    vectors = np.random.default_rng(0).standard_normal((5, 7)).astype(np.float32)
    normalised = Embeddings.of_length_one("abcde", vectors).matrix
    np.testing.assert_allclose(normalised, Embeddings("abcde", vectors).normalised().matrix, atol=1e-7)


@pytest.mark.parametrize("ids", ["5", '"abc"', '{"a": 1}', "null", "true"])
def test_metadata_whose_ids_are_not_a_list_is_refused(tmp_path, ids):
    from safetensors.numpy import save_file

    save_file({"embeddings": np.ones((3, 2), np.float32)}, tmp_path / "e.safetensors", metadata={"ids": ids})
    with pytest.raises(LimnerError, match="expected a list"):
        Embeddings.load(tmp_path / "e.safetensors")
