"""Repositories in the layouts of real models on the hub, with tiny models in them and with files that nobody needs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import tiny

UNNEEDED = ("README.md", ".gitattributes", "tf_model.h5", "flax_model.msgpack", "training_args.bin")
VARIANTS = ("", "_fp16", "_int8", "_uint8", "_q4", "_bnb4", "_quantized")
"""Suffixes of the files of an export for transformers.js."""


def with_unneeded(folder: Path) -> Path:
    """Adds files that a repository has for other programs."""
    for name in UNNEEDED:
        (folder / name).write_bytes(b"not needed")
    return folder


def old_weights(folder: Path) -> Path:
    """Replaces the weights by those in the format of torch, as older repositories have them."""
    import torch
    from safetensors.torch import load_file

    for file in folder.rglob("model.safetensors"):
        torch.save(load_file(file), file.with_name("pytorch_model.bin"))
        file.unlink()
    return folder


def clip(folder: Path, *, kind: str = "clip") -> Path:
    """A model of transformers with safetensors, and the same weights in the format of torch beside them."""
    tiny.clip(folder, kind=kind)
    shutil.copy(folder / "model.safetensors", folder / "keep")
    old_weights(folder)
    (folder / "keep").rename(folder / "model.safetensors")
    return with_unneeded(folder)


def clip_bin(folder: Path) -> Path:
    """The main branch of an old repository: weights in the format of torch alone."""
    return with_unneeded(old_weights(tiny.clip(folder)))


def sentences(folder: Path) -> Path:
    """A sentence encoder as sentence-transformers saves it, with an export for ONNX Runtime beside it."""
    tiny.backbone(folder)
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (path, kind) in enumerate(kinds.items())
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (folder / "onnx").mkdir()
    for name in ("model.onnx", "model_O4.onnx"):
        (folder / "onnx" / name).write_bytes(b"not needed")
    return with_unneeded(folder)


def sentence_clip(folder: Path, *, old: bool) -> Path:
    """CLIP of sentence-transformers: in a folder `0_CLIPModel`, or as newer versions save it."""
    from sentence_transformers import SentenceTransformer
    from transformers import AutoImageProcessor, AutoTokenizer, CLIPProcessor

    base = tiny.clip(folder.with_name(f"{folder.name}-base"))
    parts = (each.from_pretrained(base) for each in (AutoImageProcessor, AutoTokenizer))
    CLIPProcessor(*parts).save_pretrained(base)
    if not old:
        SentenceTransformer(str(base), device="cpu").save(str(folder))
        return with_unneeded(folder)
    shutil.copytree(base, folder / "0_CLIPModel")
    module = {"idx": 0, "name": "0", "path": "0_CLIPModel", "type": "sentence_transformers.models.CLIPModel"}
    (folder / "modules.json").write_text(json.dumps([module]))
    (folder / "config_sentence_transformers.json").write_text('{"__version__": {"sentence_transformers": "2.0.0"}}')
    return with_unneeded(folder)


def onnx_clip(folder: Path) -> Path:
    """An export for transformers.js: both towers in all variants, and no weights for torch."""
    import onnx
    import torch
    from transformers import AutoModel

    tiny.clip(folder)
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    (folder / "onnx").mkdir()
    inputs = {"text": torch.ones(2, 24, dtype=torch.long), "image": torch.zeros(2, 3, 32, 32)}
    for side, file in (("text", "text_model"), ("image", "vision_model")):
        name = "input_ids" if side == "text" else "pixel_values"
        axes = {name: {0: "batch", 1: "tokens"} if side == "text" else {0: "batch"}}
        place = folder / "onnx" / f"{file}.onnx"
        named = {"input_names": [name], "output_names": [f"{side}_embeds"], "dynamic_axes": axes, "dynamo": False}
        torch.onnx.export(_tower(model, side, name), (inputs[side],), str(place), **named)
        for variant in VARIANTS[1:]:
            copy = onnx.load(place)
            copy.producer_name = variant
            onnx.save(copy, folder / "onnx" / f"{file}{variant}.onnx")
    (folder / "model.safetensors").unlink()
    return with_unneeded(folder)


def _tower(model, side: str, name: str):
    import torch

    class Tower(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, tensor):
            features = getattr(model, f"get_{side}_features")(**{name: tensor})
            return features if torch.is_tensor(features) else features.pooler_output

    return Tower()


def colpali(folder: Path) -> Path:
    """A model of late interaction."""
    return with_unneeded(tiny.colpali(folder))


def blip(folder: Path) -> Path:
    """BLIP with a head for image-text matching, with weights of both formats."""
    tiny.blip(folder)
    return with_unneeded(folder)


def open_clip(folder: Path) -> Path:
    """A model of open_clip with both formats of weights."""
    import open_clip as library
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    shape = {"layers": 1, "width": 32}
    config = {"embed_dim": 16, "vision_cfg": {**shape, "image_size": 32, "patch_size": 8, "head_width": 16}}
    config["text_cfg"] = {**shape, "context_length": 16, "vocab_size": 49408, "heads": 2}
    preprocess = {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}
    about = {"model_cfg": config, "preprocess_cfg": preprocess}
    (folder / "open_clip_config.json").write_text(json.dumps(about))
    torch.manual_seed(2)
    weights = library.CLIP(**config).state_dict()
    save_file(weights, folder / "open_clip_model.safetensors")
    torch.save(weights, folder / "open_clip_pytorch_model.bin")
    return with_unneeded(folder)


def timm(folder: Path) -> Path:
    """A model of timm with both formats of weights."""
    import timm as library
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    model = library.create_model("resnet10t", num_classes=3)
    config = {"architecture": "resnet10t", "num_classes": 3, "num_features": 512}
    config["pretrained_cfg"] = {
        "input_size": [3, 64, 64],
        "mean": [0.5, 0.5, 0.5],
        "std": [0.5, 0.5, 0.5],
        "crop_pct": 1.0,
    }
    (folder / "config.json").write_text(json.dumps(config))
    save_file(model.state_dict(), folder / "model.safetensors")
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return with_unneeded(folder)
