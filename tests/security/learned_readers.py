"""Readers that need torch, LanceDB or SQLAlchemy, or take longer: models, indexes, caches, stores."""

from __future__ import annotations

import atexit
import json
import random
import shutil
import sqlite3
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import mutations as spoil
import numpy as np
from readers import READERS, Files, Reader, seeds

import limner


def _tree(folder: Path) -> Files:
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def _folder_files(make: Callable[[Path], Any]) -> Callable[[], Files]:
    def build() -> Files:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder))
            return _tree(Path(folder))

    return seeds(build)


def _small_world() -> Any:
    return limner.load("scenes", images=10)


def _features(world: Any) -> Any:
    rows = np.random.default_rng(0).random((len(world.images), 4), dtype=np.float32)
    return limner.Embeddings(world.images.ids, rows)


def _train(name: str, **options: Any) -> Callable[[Path], Any]:
    def make(folder: Path) -> None:
        world = _small_world()
        features = {"features": _features(world)} if options.pop("featured", True) else {}
        limner.train(world, name, **features, **options).save(folder / "m")

    return make


@cache
def _clip() -> Path:
    """A tiny pretrained CLIP that lies outside of the saved model."""
    import tempfile

    sys.path.insert(0, str(Path(__file__).parents[1] / "encoders"))
    import tiny

    folder = Path(tempfile.mkdtemp(prefix="limner-clip-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return tiny.clip(folder)


def _finetuned(folder: Path) -> None:
    options = {"mode": "head", "epochs": 1, "batch_size": 4, "device": "cpu"}
    limner.train(_small_world(), "finetune", encoder=f"clip(model={_clip()})", **options).save(folder / "m")


def _model(name: str) -> Callable[[Path], Any]:
    return lambda folder: limner.systems.load(folder / name)


QUICK = {"epochs": 1, "batch_size": 8, "device": "cpu", "tensorboard": False}
TINY = {**QUICK, "hidden_dim": 8, "layers": 1, "heads": 2, "max_tokens": 6}
TOWER = {**QUICK, "word_dim": 4, "hidden_dim": 4, "embedding_dim": 4, "min_count": 1}
CONFIG = {"config.json": spoil.of_json, "model.safetensors": spoil.of_safetensors, "vocabulary.txt": spoil.of_text}


def _resigned(rng: random.Random, data: bytes) -> bytes:
    """Weights of a model, spoilt and signed again, so that the fingerprint fits what nobody wrote."""
    from safetensors.numpy import load, save

    from limner.core.model_store import FORMAT, fingerprint

    if rng.random() < 0.3:
        return spoil.of_safetensors(rng, data)
    tensors = load(data)
    names = sorted(tensors)
    chosen = rng.choice(names)
    kinds = [np.zeros(0, np.float32), np.zeros(3, np.int64), np.full((2, 2), np.nan, np.float32)]
    tensors[rng.choice((chosen, "x", chosen + "."))] = rng.choice([*kinds, tensors[rng.choice(names)].copy()])
    if rng.random() < 0.3:
        del tensors[chosen]
    kind = rng.choice(("towers", "kcca", ""))
    head = {"kind": kind, "format": FORMAT, "sha256": fingerprint(tensors, kind)}
    spoilt = spoil.spoilt_value(rng, dict(head)) if rng.random() < 0.3 else head
    return bytes(save(tensors, {"limner": json.dumps(spoilt)}))


SIGNED = {**CONFIG, "model.safetensors": _resigned}


def _gru(folder: Path) -> None:
    from limner.encoders.gru import GruEncoder

    GruEncoder.fresh(["a dog", "a cat"], dim=4, word_dim=4, min_count=1).save(folder / "g")


def _read_gru(folder: Path) -> Any:
    from limner.encoders.gru import GruEncoder

    return GruEncoder(folder / "g", device="cpu")


def _cache(folder: Path) -> None:
    from limner.encoders.cache import RowStore

    RowStore(folder / "c", owner="x", width=3).put(
        np.arange(8, dtype=np.uint64).reshape(4, 2), np.ones((4, 3), np.float32)
    )


def _read_cache(folder: Path) -> Any:
    from limner.encoders.cache import RowStore

    return RowStore(folder / "c", owner="x", width=3).get(np.arange(8, dtype=np.uint64).reshape(4, 2))


def _words(folder: Path) -> None:
    from limner.systems.classic.kernels import Pyramid

    world = _small_world()
    Pyramid(side=48, points=20).fit(world.images).features(world.images).save(folder / "h.safetensors")


def _read_words(folder: Path) -> Any:
    from limner.systems.classic.kernel_model import read_features

    return read_features(folder / "h.safetensors")


def _index(folder: Path) -> None:
    from limner import search

    search.index(folder / "i", limner.Embeddings(["a", "b", "c"], np.eye(3, 4, dtype=np.float32)))


def _read_index(folder: Path) -> Any:
    from limner.search import open_index

    index = open_index(folder / "i")
    return index.search(np.ones((1, 4), np.float32), 2).records(), index.about, index.versions()


def _set_index(folder: Path) -> None:
    from limner import search
    from limner.scores import VectorSets

    rows = np.arange(1, 25, dtype=np.float32).reshape(6, 4)
    search.index(folder / "i", VectorSets.in_order(["a", "b", "c"], rows, [1, 3, 2]))


def _read_set_index(folder: Path) -> Any:
    from limner.search import open_index

    reports = []
    for memory in (2**30, 0):
        index = open_index(folder / "i", memory=memory)
        reports.append(index.search({"q": np.ones((2, 4), np.float32)}, 2).records())
    return reports, index.about, index.versions()


def _calibrated(folder: Path) -> None:
    from limner import search
    from limner.core.judgements import Judgements

    rows = np.random.default_rng(0).standard_normal((60, 4)).astype(np.float32)
    fields = {"captions": [["a dog", "a cat"]] * 60, "colour": ["red", "blue"] * 30}
    index = search.index(folder / "i", limner.Embeddings(range(60), rows), limner.Items(range(60), [None] * 60, fields))
    pairs = Judgements.from_pairs((n, n) for n in range(60))
    search.calibrate_index(index, limner.Embeddings(range(60), rows), pairs)


def _read_calibrated(folder: Path) -> Any:
    from limner.search import open_index, search_words
    from limner.search.index_statistics import calibration_of

    index = open_index(folder / "i")
    hits = search_words(index, np.ones((1, 4), np.float32), 2, by="vectors", where=["colour=red"])
    calibration = calibration_of(index)
    return hits.records(), calibration.confidences([hit.id for hit in hits["0"]], np.ones(2)), calibration.cut_off(0.1)


def _store(folder: Path) -> None:
    from limner.annotate.pool import fill
    from limner.annotate.store import open_store
    from limner.annotate.store.contents import add_collection, pairs
    from limner.annotate.store.tasks import add_tasks
    from limner.annotate.tasks import make_tasks

    world = _small_world()
    scores = limner.Scores.from_matrix(np.random.default_rng(0).random((10, 50)), world.images.ids, world.texts.ids)
    with open_store(folder / "s.db") as store:
        add_collection(store, world, spec="scenes")
        store.set("original", [[i, t, g] for i, t, g in world.judgements.relevant])
        fill(store, {"x": scores}, depth=2, keep=4)
        waiting = [(p.image, p.caption) for p in pairs(store)]
        add_tasks(store, make_tasks(waiting, world.judgements, avoid=set(waiting), seed=0, pooled=5))
    with sqlite3.connect(folder / "s.db") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode=DELETE")
    connection.close()


def _of_sqlite(rng: random.Random, data: bytes) -> bytes:
    """A database: its bytes, or some values of a table."""
    if rng.random() < 0.5:
        return spoil.of_bytes(rng, data)
    connection = sqlite3.connect(":memory:")
    connection.deserialize(data)
    connection.execute("PRAGMA ignore_check_constraints=ON")
    tables = [
        r[0]
        for r in connection.execute("SELECT name FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite%'")
    ]
    for _ in range(rng.choice((1, 1, 3))):
        table = rng.choice(tables)
        column = rng.choice([r[1] for r in connection.execute(f"PRAGMA table_info({table})")])
        value = rng.choice([None, -1, 2**62, 1.5, "", "x", b"\xff\x00", "{", "[[1]]", '"a"', "[" * 500, "1" * 400])
        try:
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid % ? = 0", (value, rng.choice((1, 2, 5))))
        except sqlite3.Error:
            connection.execute(f"DELETE FROM {table} WHERE rowid % 3 = 0")
    connection.commit()
    return connection.serialize()


def _read_store(folder: Path) -> Any:
    from typer.testing import CliRunner

    from limner.cli import app
    from limner.core.errors import LimnerError

    for words in (("status",), ("estimate",), ("people", "review"), ("study", "bias"), ("study", "list")):
        done = CliRunner().invoke(app, ["annotate", *words, str(folder / "s.db")])
        if done.exit_code not in (0, 3):
            raise AssertionError(f"{words}: status {done.exit_code}: {done.output[-300:]}")
    raise LimnerError("read as far as it goes")


LEARNED = {
    "histograms model": Reader(_folder_files(_train("histograms", featured=False)), SIGNED, _model("m"), 3),
    "kcca model": Reader(_folder_files(_train("kcca", images="linear")), SIGNED, _model("m"), 3),
    "nearest model": Reader(_folder_files(_train("nearest", images="linear")), SIGNED, _model("m"), 2),
    "towers model": Reader(_folder_files(_train("towers", **TOWER)), SIGNED, _model("m"), 0.3),
    "pvse model": Reader(_folder_files(_train("pvse", **TOWER)), SIGNED, _model("m"), 0.2),
    "pcme model": Reader(_folder_files(_train("pcme", **TOWER)), SIGNED, _model("m"), 0.2),
    "mcprop model": Reader(_folder_files(_train("mcprop", **TINY)), SIGNED, _model("m"), 0.15),
    "crank model": Reader(_folder_files(_train("crank", use_images=True, **TINY)), SIGNED, _model("m"), 0.15),
    "finetuned model": Reader(_folder_files(_finetuned), SIGNED, _model("m"), 0.1),
    "gru": Reader(_folder_files(_gru), CONFIG, _read_gru, 0.7),
    "cache": Reader(
        _folder_files(_cache), {".safetensors": spoil.of_safetensors, ".json": spoil.of_json}, _read_cache, 3
    ),
    "visual words": Reader(_folder_files(_words), {"": spoil.of_safetensors}, _read_words, 2),
    "index": Reader(_folder_files(_index), {"": spoil.of_bytes}, _read_index, 0.08),
    "set index": Reader(_folder_files(_set_index), {"": spoil.of_bytes}, _read_set_index, 0.08),
    "calibrated index": Reader(_folder_files(_calibrated), {"": spoil.of_bytes}, _read_calibrated, 0.08),
    "store": Reader(_folder_files(_store), {"": _of_sqlite}, _read_store, 0.05),
}
"""Those that need torch, LanceDB or SQLAlchemy, or take longer."""

EVERY = {**READERS, **LEARNED}


def read_one(name: str, number: int, folder: Path) -> Any:
    """Reads the input of a number with a reader, in a folder that is empty before and after."""
    reader = EVERY[name]
    try:
        reader.written(folder, number)
        return reader.read(folder)
    finally:
        for entry in folder.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
