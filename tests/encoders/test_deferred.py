"""An encoder whose vectors are cached stays closed, and is opened as soon as anything that decides them changes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny

import limner
from limner.core.errors import LimnerError
from limner.encoders import encoder
from limner.encoders.cache import Cached
from limner.encoders.opening import DeferredEncoder, open_encoder

pytest.importorskip("transformers")
TEXTS = ["a black dog", "two children"]


@pytest.fixture
def model(tmp_path):
    return tiny.clip(tmp_path / "clip")


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "vectors"


def stored(cache: Path) -> Path:
    return next(cache.glob("encoder-*.json"))


def test_the_second_time_the_encoder_is_deferred_and_gives_the_same(model, cache):
    first = open_encoder("clip", {"model": str(model)}, cache)
    deferred = open_encoder(f"clip(model={model})", {}, cache)
    assert not isinstance(first, DeferredEncoder) and isinstance(deferred, DeferredEncoder)
    assert (deferred.fingerprint, deferred.identity, deferred.dim, deferred.kinds) == (
        first.fingerprint, first.identity, first.dim, first.kinds)  # fmt: skip
    np.testing.assert_array_equal(deferred.encode(TEXTS), first.encode(TEXTS))


def test_cached_vectors_do_not_open_it(model, cache):
    rows = Cached(open_encoder("clip", {"model": str(model)}, cache), cache).encode(TEXTS)
    closed = open_encoder("clip", {"model": str(model)}, cache)
    np.testing.assert_array_equal(Cached(closed, cache).encode(TEXTS), rows)
    assert "encoder" not in vars(closed)
    assert Cached(closed, cache).encode([*TEXTS, "a new text"]).shape == (3, rows.shape[1])
    assert "encoder" in vars(closed)


def test_a_changed_file_opens_it(model, cache):
    open_encoder("clip", {"model": str(model)}, cache)
    config = model / "preprocessor_config.json"
    config.write_text(config.read_text() + "\n")
    assert not isinstance(open_encoder("clip", {"model": str(model)}, cache), DeferredEncoder)


def test_other_options_and_a_gpu_hidden_or_shown_open_it(model, cache, monkeypatch):
    open_encoder("clip", {"model": str(model)}, cache)
    assert not isinstance(open_encoder("clip", {"model": str(model), "precision": "bfloat16"}, cache), DeferredEncoder)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert not isinstance(open_encoder("clip", {"model": str(model)}, cache), DeferredEncoder)


def test_the_same_relative_path_elsewhere_is_another_model(model, cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    open_encoder("clip", {"model": "clip"}, cache)
    (tmp_path / "other").mkdir()
    shutil.copytree(model, tmp_path / "other" / "clip")
    monkeypatch.chdir(tmp_path / "other")
    assert not isinstance(open_encoder("clip", {"model": "clip"}, cache), DeferredEncoder)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"fingerprint": 1}', "\x00"])
def test_a_damaged_record_is_ignored(model, cache, content):
    open_encoder("clip", {"model": str(model)}, cache)
    stored(cache).write_text(content)
    assert not isinstance(open_encoder("clip", {"model": str(model)}, cache), DeferredEncoder)
    assert isinstance(open_encoder("clip", {"model": str(model)}, cache), DeferredEncoder)  # it was written again


def test_a_record_of_another_model_is_refused_before_anything_is_encoded(model, cache):
    open_encoder("clip", {"model": str(model)}, cache)
    record = json.loads(stored(cache).read_text())
    stored(cache).write_text(json.dumps(record | {"fingerprint": "other", "dim": record["dim"]}))
    with pytest.raises(LimnerError, match=r"written by 'other'.*encoder-\*\.json"):
        open_encoder("clip", {"model": str(model)}, cache).encode(TEXTS)


def test_models_of_a_hub_and_encoders_without_files_are_opened_every_time(model, cache, tmp_path):
    snapshot = tmp_path / "models--a--b" / "snapshots" / "1"
    shutil.copytree(model, snapshot)
    for _ in range(2):
        assert not isinstance(open_encoder("clip", {"model": str(snapshot)}, cache), DeferredEncoder)
        assert type(open_encoder("histograms", {}, cache)) is type(encoder("histograms"))
    assert not list(cache.glob("*")) if cache.exists() else True


def test_one_command_with_all_vectors_in_the_cache_does_not_import_torch(model, tmp_path):
    words = ["evaluate", "scenes", "-O", "images=20", "--model", f"clip(model={model})", "--cache", "kept", "--json"]
    print_torch = "print('torch' in sys.modules, file=sys.stderr)"
    code = f"import sys; from limner.cli import app\ntry: app({words!r})\nfinally: {print_torch}"
    environment = {**os.environ, "PYTHONPATH": str(Path(limner.__file__).parents[1])}
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=environment, check=True
        )
        for _ in range(2)
    ]
    assert [run.stderr.split()[-1] for run in runs] == ["True", "False"]
    assert runs[0].stdout == runs[1].stdout
