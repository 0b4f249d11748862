"""Items with several vectors each: parts, files, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner import Embeddings, Ids, LimnerError
from limner.scores import VectorSets
from limner.scores.vector_sets import holds_sets


def ragged(counts, dim=3, seed=0) -> VectorSets:
    """Items "i0", "i1", ... with so many vectors each."""
    rng = np.random.default_rng(seed)
    return VectorSets.of({f"i{n}": rng.standard_normal((count, dim), np.float32) for n, count in enumerate(counts)})


def equal_sets(left: VectorSets, right: VectorSets) -> bool:
    return (
        left.ids == right.ids
        and left.starts.tolist() == right.starts.tolist()
        and np.array_equal(left.vectors.matrix, right.vectors.matrix)
    )


@pytest.mark.parametrize("ending", [".npz", ".safetensors"])
@given(counts=st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_a_file_holds_what_was_saved(tmp_path_factory, ending, counts):
    sets = ragged(counts)
    file = sets.save(tmp_path_factory.mktemp("sets") / f"pages{ending}")
    assert holds_sets(file) and equal_sets(VectorSets.load(file), sets)


def test_a_part_is_a_view_of_these_items():
    sets = ragged([2, 1, 3, 1])
    part = sets.part(1, 3)
    assert equal_sets(part, sets.subset(["i1", "i2"])) and part.counts.tolist() == [1, 3]
    assert np.shares_memory(part.vectors.matrix, sets.vectors.matrix)
    assert list(part.vectors.ids) == ["i1#0", "i2#0", "i2#1", "i2#2"] and part.dim == 3


def test_a_file_of_another_program_needs_no_ids(tmp_path):
    np.savez(tmp_path / "v.npz", vectors=np.eye(3, dtype=np.float64), counts=np.array([1, 2], np.uint8))
    assert list(VectorSets.load(tmp_path / "v.npz").ids) == ["0", "1"]
    (tmp_path / "ids.txt").write_text("page one\npage two\n")
    assert list(VectorSets.load(tmp_path / "v.npz", ids=tmp_path / "ids.txt").ids) == ["page one", "page two"]


EYE = np.eye(3, dtype=np.float32)


@pytest.mark.parametrize("starts", [[0, 3], [0, 0, 3], [1, 2, 3], [0, 2, 4], [0, 2, 1], [[0, 2, 3]]])
def test_starts_that_are_not_those_of_the_items_are_refused(starts):
    with pytest.raises(LimnerError, match="2 items with 3 vectors begin at '.*: expected starts from 0"):
        VectorSets(Ids(["a", "b"]), Embeddings(range(3), EYE), np.array(starts))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"vectors": EYE}, "holds 'vectors': expected the arrays 'vectors'.* and 'counts'"),
        ({"vectors": EYE, "counts": [2]}, r"counts add up to 2, but there are 3 vectors"),
        ({"vectors": EYE, "counts": [2, 2]}, r"counts add up to 4, but there are 3 vectors"),
        ({"vectors": EYE, "counts": [3, 0]}, r"item '1' has 0 of 3 vectors: expected at least one"),
        ({"vectors": EYE, "counts": [-1, 4]}, r"item '0' has -1 of 3 vectors"),
        ({"vectors": EYE, "counts": [2**62] * 4 + [3]}, r"item '0' has .* of 3 vectors"),
        ({"vectors": EYE, "counts": np.array([2**64 - 1, 4], np.uint64)}, "a count is 18,446"),
        ({"vectors": EYE, "counts": [1.0, 2.0]}, "counts have shape .2,. and type float64"),
        ({"vectors": EYE, "counts": [[1, 2]]}, "counts have shape .1, 2."),
        ({"vectors": EYE, "counts": np.empty(0, np.int64)}, "no items: expected at least one"),
        ({"vectors": EYE, "counts": [1, 2], "ids": ["a"]}, "2 counts for 1 items"),
        ({"vectors": EYE, "counts": [1, 2], "ids": ["a", "a"]}, "duplicate item id 'a' in rows 0 and 1"),
        ({"vectors": EYE, "counts": [1, 2], "ids": ["a", ""]}, "empty item id in row 1"),
        ({"vectors": EYE[0], "counts": [3]}, r"vectors have shape \(3,\): expected one row per vector"),
        ({"vectors": EYE * np.nan, "counts": [1, 2]}, r"id '0#0'. holds NaN or an infinite value"),
        ({"vectors": EYE - np.inf, "counts": [1, 2]}, "holds NaN or an infinite value"),
        ({"vectors": EYE * [[1], [0], [1]], "counts": [1, 2]}, r"row 1 .id '1#0'. is all zeros"),
        ({"vectors": EYE.astype(np.float64) * 1e39, "counts": [1, 2]}, "too large for single precision"),
        ({"vectors": EYE.astype("U3"), "counts": [1, 2]}, "embeddings are of type <U3"),
        ({"vectors": EYE.astype(object), "counts": [1, 2]}, "no npz file of vector sets|Object arrays"),
    ],
)
def test_a_bad_file_is_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(LimnerError, match=message) as caught:
        VectorSets.load(tmp_path / "bad.npz")
    assert str(tmp_path / "bad.npz") in str(caught.value)


def test_bad_places_and_damaged_files_are_refused(tmp_path):
    with pytest.raises(LimnerError, match="unknown ending of a file of vector sets '.npy'"):
        ragged([1]).save(tmp_path / "v.npy")
    with pytest.raises(LimnerError, match="no file .*nothing.npz"):
        VectorSets.load(tmp_path / "nothing.npz")
    for ending in (".npz", ".safetensors"):
        file = ragged([1, 2]).save(tmp_path / f"v{ending}")
        file.write_bytes(file.read_bytes()[:60])
        assert not holds_sets(file)
        with pytest.raises(LimnerError, match=f"v{ending}"):
            VectorSets.load(file)
    assert not holds_sets(tmp_path / "nothing.npz") and not holds_sets(tmp_path)


def test_ids_of_a_safetensors_file_must_be_a_list(tmp_path):
    from safetensors.numpy import save_file

    arrays = {"vectors": EYE, "counts": np.array([1, 2])}
    save_file(arrays, tmp_path / "v.safetensors", {"ids": json.dumps({"a": 1})})
    with pytest.raises(LimnerError, match="are of type dict: expected a list"):
        VectorSets.load(tmp_path / "v.safetensors")
    save_file(arrays, tmp_path / "v.safetensors")
    assert list(VectorSets.load(tmp_path / "v.safetensors").ids) == ["0", "1"]
