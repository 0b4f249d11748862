"""Models by their bare name, in the layouts of the real hub: found, fetched in part, used again without the hub."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from limner.cli import app
from limner.core import hub_downloads
from limner.encoders.named_models import named_model

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
sys.path.insert(0, str(Path(__file__).parent))

import repositories  # noqa: E402

import loopback_hub  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # torch's tracing exporter warns
TOKENS = {"tokenizer.json", "tokenizer_config.json"}
CLIP = {"config.json", "preprocessor_config.json", *TOKENS}


@dataclass(frozen=True)
class Row:
    """A repository in one layout, the adapter that reads it, and the files that are fetched.

    Args:
        make: Makes the repository.
        adapter: The name of its adapter.
        files: All files that are fetched.
        modules: What its library imports; without it the row is skipped.
        name: Its name on the hub.
    """

    make: Callable[[Path], Path]
    adapter: str
    files: set[str]
    modules: tuple[str, ...] = ()
    name: str = "somebody/model"


LAYOUTS = {
    "CLIP with .bin only": Row(repositories.clip_bin, "clip", CLIP | {"pytorch_model.bin"}),
    "SigLIP 2": Row(lambda f: repositories.clip(f, kind="siglip2"), "siglip", CLIP | {"model.safetensors"}),
    "sentence-transformers CLIP, old": Row(
        lambda f: repositories.sentence_clip(f, old=True),
        "sentence-transformers-multimodal",
        {"modules.json", "config_sentence_transformers.json"}
        | {f"0_CLIPModel/{name}" for name in (CLIP | {"processor_config.json", "model.safetensors"})},
        ("sentence_transformers",),
    ),
    "sentence-transformers CLIP, new": Row(
        lambda f: repositories.sentence_clip(f, old=False),
        "sentence-transformers-multimodal",
        {"modules.json", "config_sentence_transformers.json", "sentence_bert_config.json", "config.json"}
        | {"processor_config.json", "model.safetensors", *TOKENS},
        ("sentence_transformers",),
    ),
    "sentence encoder": Row(
        repositories.sentences,
        "sentence-transformers",
        {"config.json", "modules.json", "1_Pooling/config.json", "model.safetensors", *TOKENS},
        ("sentence_transformers",),
    ),
    "open_clip": Row(
        repositories.open_clip,
        "open-clip",
        {"open_clip_config.json", "open_clip_model.safetensors"},
        ("torchvision", "open_clip"),
    ),
    "timm": Row(
        repositories.timm, "timm", {"config.json", "model.safetensors"}, ("torchvision", "timm"), "timm/tiny.a"
    ),
    "ONNX of transformers.js": Row(
        repositories.onnx_clip,
        "onnx-clip",
        CLIP | {"onnx/text_model_quantized.onnx", "onnx/vision_model_quantized.onnx"},
        ("onnxruntime", "onnx"),
    ),
    "ColPali": Row(
        repositories.colpali,
        "multi-vector",
        {"config.json", "processor_config.json", "model.safetensors", *TOKENS},
        ("sentence_transformers",),
    ),
    "BLIP": Row(repositories.blip, "blip-itm", CLIP | {"model.safetensors"}),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The repository of a layout, made when it is first used."""
    folders: dict[str, Path] = {}

    def find(layout: str) -> Path:
        for module in LAYOUTS[layout].modules:
            pytest.importorskip(module, exc_type=ImportError)
        if layout not in folders:
            folders[layout] = LAYOUTS[layout].make(tmp_path_factory.mktemp("repository") / "model")
        return folders[layout]

    return find


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub without repositories, and caches of its own."""
    monkeypatch.setenv("LIMNER_CACHE", str(tmp_path / "limner"))
    monkeypatch.setattr(hub_downloads, "PAUSE", 0.0)
    with loopback_hub.hub_of({}) as each:
        each.point(monkeypatch, tmp_path / "cache")
        yield each


@pytest.fixture
def operators():
    """Declares two operators that torchvision registers, where its build and torch's do not fit together."""
    declared = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            declared.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return declared


def off(monkeypatch) -> None:
    """Takes the hub away."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")


def evaluated(*words: str) -> dict:
    """What `limner evaluate scenes` prints as JSON."""
    run = CliRunner().invoke(app, ["evaluate", "scenes", "-O", "images=30", "--measures", "R@1", "--json", *words])
    assert run.exit_code == 0, run.output
    return json.loads(run.stdout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_name_is_enough(layout, operators, made, hub, monkeypatch):
    row = LAYOUTS[layout]
    hub.models[row.name] = made(layout)
    assert named_model(row.name).adapter.name == row.adapter
    report = evaluated("--model", row.name)
    assert report["settings"]["model"] == f"{row.name}@{hub.commit(row.name)}"
    assert set(hub.fetched) == row.files and len(hub.fetched) == len(row.files)
    hub.fetched.clear()
    off(monkeypatch)
    again = evaluated("--model", row.name)
    assert again["results"] == report["results"] and not hub.fetched
