"""Folders of clip-retrieval: read in several parts, written, evaluated row by row, and refused."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner.cli import app
from limner.core.errors import LimnerError
from limner.datasets.clip_retrieval import load_clip_retrieval, write_clip_retrieval

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402


@pytest.fixture
def folder(tmp_path):
    """Eleven parts, so that the order of names is not that of numbers; one row has no caption."""
    rng = np.random.default_rng(0)
    for name in ("img_emb", "text_emb", "metadata"):
        (tmp_path / name).mkdir()
    for part in range(11):
        rows = [{"image_path": f"p/{part}-{n}.jpg", "caption": f"{part} {n}", "url": "x"} for n in range(2)]
        rows[1]["caption"] = "" if part == 3 else rows[1]["caption"]
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / "metadata" / f"metadata_{part}.parquet")
        vectors = rng.standard_normal((2, 4)).astype(np.float16)
        vectors[:, 0] = part
        np.save(tmp_path / "img_emb" / f"img_emb_{part}.npy", vectors)
        np.save(tmp_path / "text_emb" / f"text_emb_{part}.npy", vectors)
    return tmp_path


def test_parts_are_in_the_order_of_their_numbers_and_no_row_is_lost(folder):
    loaded = limner.load(folder)
    assert [i.split("/")[1] for i in loaded.images.ids][-2:] == ["10-0.jpg", "10-1.jpg"]
    assert len(loaded.texts) == 22 and loaded.texts.values[7] == "" and loaded.texts.values[20] == "10 0"
    vectors = limner.Embeddings.load(folder / "img_emb")
    assert vectors.matrix[:, 0].tolist() == [n // 2 for n in range(22)]


def test_it_is_evaluated_row_by_row(folder):
    words = ["--images", str(folder / "img_emb"), "--texts", str(folder / "text_emb"), "--measures", "R@1", "--json"]
    done = CliRunner().invoke(app, ["evaluate", f"clip-retrieval:{folder}", *words])
    assert done.exit_code == 0 and '"value": 1.0' in done.stdout, done.output


def test_what_is_written_comes_back(tmp_path):
    world = limner.load("scenes", images=6)
    rng = np.random.default_rng(1)
    sides = [
        limner.Embeddings(items.ids, rng.standard_normal((len(items), 3)).astype(np.float32))
        for items in (world.images, world.texts)
    ]
    lost = write_clip_retrieval(world, *sides, tmp_path / "out")
    assert any("several texts" in message for message in lost)
    reloaded = load_clip_retrieval(tmp_path / "out")
    assert reloaded.texts.values == world.texts.values and len(reloaded.images) == 30
    embeddings = limner.Embeddings.load(tmp_path / "out" / "img_emb")
    assert np.array_equal(embeddings.matrix, np.repeat(sides[0].matrix, 5, axis=0))
    assert np.array_equal(limner.Embeddings.load(tmp_path / "out" / "text_emb").matrix, sides[1].matrix)
    with pytest.raises(LimnerError, match="is not empty"):
        write_clip_retrieval(world, *sides, tmp_path / "out")


def test_from_the_shell(tmp_path):
    np.save(tmp_path / "i.npy", np.eye(5, 4, dtype=np.float32) + 1)
    np.save(tmp_path / "t.npy", np.ones((25, 4), dtype=np.float32))
    files = ["--images", str(tmp_path / "i.npy"), "--texts", str(tmp_path / "t.npy")]
    words = ["data", "convert", "scenes", str(tmp_path / "out"), "--to", "clip-retrieval", "-O", "images=5"]
    done = CliRunner().invoke(app, [*words, *files])
    assert done.exit_code == 0 and (tmp_path / "out" / "text_emb" / "text_emb_0.npy").is_file(), done.output
    norms = np.linalg.norm(np.load(tmp_path / "out" / "img_emb" / "img_emb_0.npy"), axis=1)
    assert np.allclose(norms, 1)  # the command writes unit vectors
    assert CliRunner().invoke(app, words).exit_code == 2
    assert CliRunner().invoke(app, ["data", "convert", "scenes", str(tmp_path / "o.csv"), *files]).exit_code == 2


def test_bad_folders(folder):
    np.save(folder / "img_emb" / "img_emb_4.npy", np.zeros((2, 5)))
    with pytest.raises(LimnerError, match=r"img_emb_4.npy has shape \(2, 5\)"):
        limner.Embeddings.load(folder / "img_emb")
    (folder / "text_emb" / "text_emb_0.npy").write_bytes(b"\x80\x04pickle")
    with pytest.raises(LimnerError, match="text_emb_0.npy"):
        limner.Embeddings.load(folder / "text_emb")
    pq.write_table(pa.table({"url": ["x"]}), folder / "metadata" / "metadata_0.parquet")
    with pytest.raises(LimnerError, match="expected caption"):
        load_clip_retrieval(folder)
    (folder / "metadata" / "metadata_0.parquet").write_bytes(b"PAR1")
    with pytest.raises(LimnerError, match="metadata_0.parquet"):
        load_clip_retrieval(folder)
    with pytest.raises(LimnerError, match="contains no embeddings"):
        limner.Embeddings.load(folder)
    with pytest.raises(LimnerError, match="no splits"):
        load_clip_retrieval(folder, split="test")
