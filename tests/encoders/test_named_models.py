"""Models by their bare name, in the layouts of the real hub: found, fetched in part, used again without the hub."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner.cli import app
from limner.core import hub_downloads
from limner.core.errors import LimnerError, MissingExtra
from limner.encoders import encoder
from limner.encoders.named_models import adapter_of, named_model, with_revision
from limner.match import scorer
from limner.systems.opening import find_system

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
safetensors_torch = pytest.importorskip("safetensors.torch")
sys.path.insert(0, str(Path(__file__).parent))

import repositories  # noqa: E402
import tiny  # noqa: E402

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
def repository_of(tmp_path_factory):
    """The repository of a layout, which is made when it is first used."""
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
def test_a_name_is_enough(layout, operators, repository_of, hub, monkeypatch):
    row = LAYOUTS[layout]
    hub.models[row.name] = repository_of(layout)
    assert named_model(row.name).adapter.name == row.adapter
    report = evaluated("--model", row.name)
    assert report["settings"]["model"] == f"{row.name}@{hub.commit(row.name)}"
    assert set(hub.fetched) == row.files and len(hub.fetched) == len(row.files)
    hub.fetched.clear()
    off(monkeypatch)
    second_run = evaluated("--model", row.name)
    assert second_run["results"] == report["results"] and not hub.fetched


# --- names and adapters -----------------------------------------------------------------------------------------


def test_a_folder_is_read_as_its_repository_is(repository_of, hub):
    folder = repository_of("SigLIP 2")
    hub.models["somebody/model"] = folder
    expected = encoder("siglip", model=folder, device="cpu").encode(["a dog"])
    names = (str(folder), "somebody/model", "hf-hub:somebody/model", "somebody/model@main", "hf:somebody/model")
    for name in (*names, "somebody/model(device=cpu)"):
        np.testing.assert_array_equal(encoder(name, device="cpu").encode(["a dog"]), expected)


@pytest.mark.parametrize(
    ("config", "adapter"),
    [
        ({"model_type": "clip"}, "clip"), ({"model_type": "altclip"}, "clip"), ({"model_type": "chinese_clip"}, "clip"),
        ({"model_type": "siglip2"}, "siglip"), ({"model_type": "colqwen2"}, "multi-vector"),
        ({"model_type": "blip", "architectures": ["BlipForImageTextRetrieval"]}, "blip-itm"),
        ({"model_type": "blip-2", "architectures": ["Blip2ForImageTextRetrieval"]}, "blip-itm"),
        ({"model_type": "vilt", "architectures": ["ViltForImageAndTextRetrieval"]}, "vilt"),
        ({"model_type": "bert", "architectures": ["BertForSequenceClassification"], "id2label": {"0": "x"}},
         "cross-encoder"),
        ({"architecture": "resnet10t", "pretrained_cfg": {}}, "timm"),
    ],
)  # fmt: skip
def test_adapters_by_config(config, adapter):
    assert adapter_of(["config.json", "model.safetensors"], lambda _: config, model="a/b").name == adapter


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"model_type": "bert"},
            r"name the adapter: 'transformers\(model=a/b, pooling=mean\)' or 'transformers\(.*first",
        ),
        ({"model_type": "blip", "architectures": ["BlipForConditionalGeneration"]}, "no head for image-text matching"),
        ({"model_type": "vit", "architectures": ["ViTModel"]}, r"type 'vit' \(ViTModel\): .*name the adapter: 'clip\("),
        ({}, "no model whose files tell its type.*name the adapter: 'clip"),
    ],
)
def test_what_cannot_be_told_is_asked_for(config, message):
    with pytest.raises(LimnerError, match=message):
        adapter_of(["config.json", "model.safetensors"], lambda _: config, model="a/b")


@pytest.mark.parametrize("kind", ["altclip", "chinese_clip", "metaclip_2"])
def test_towers_with_other_tokenizers_equal_their_library(kind, tmp_path):
    from transformers import AutoImageProcessor, AutoModel, AutoTokenizer

    folder = tiny.clip_of_another_tokenizer(tmp_path / "model", kind=kind)
    ours = encoder(str(folder), device="cpu")
    images, texts = limner.load("scenes", images=3).images, [*tiny.SENTENCES, "the dog " * 40]
    opened = [images.open(row) for row in range(3)]
    model = AutoModel.from_pretrained(folder).eval()
    pixels = AutoImageProcessor.from_pretrained(folder)(images=opened, return_tensors="pt")
    tokens = AutoTokenizer.from_pretrained(folder)(
        texts, padding=True, truncation=True, max_length=ours.max_tokens, return_tensors="pt"
    )
    with torch.no_grad():
        sides = [model.get_image_features(**pixels)]
        sides += [model.get_text_features(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"])]
    vectors = [getattr(side, "pooler_output", side).numpy() for side in sides]
    expected = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in vectors]
    np.testing.assert_allclose(ours.encode(images), expected[0], atol=1e-5)
    np.testing.assert_allclose(ours.encode(texts), expected[1], atol=1e-5)


def test_an_adapter_of_another_model_says_so():
    config = {"base_model_name_or_path": "vidore/colpaligemma-3b-pt-448-base"}
    with pytest.raises(LimnerError, match="is an adapter of vidore/colpaligemma.*on the hub as vidore/colpali-v1.2-hf"):
        adapter_of(["adapter_config.json", "adapter_model.safetensors"], lambda _: config, model="vidore/colpali-v1.2")


@pytest.mark.parametrize(("pooling", "option"), [("mean_tokens", "mean"), ("cls_token", "first")])
def test_the_pooling_of_an_export_is_that_of_the_model(pooling, option):
    files = {"config.json": {"model_type": "bert"}, "1_Pooling/config.json": {f"pooling_mode_{pooling}": True}}
    adapter = adapter_of([*files, "onnx/model.onnx"], files.__getitem__, model="a/b")
    assert (adapter.name, adapter.options) == ("onnx-sentences", {"pooling": option})
    with pytest.raises(LimnerError, match="name the adapter: 'onnx-sentences.model=a/b, pooling=mean"):
        adapter_of(["config.json", "onnx/model.onnx"], files.__getitem__, model="a/b")


def test_without_torch_the_export_is_read(monkeypatch):
    files = ["config.json", "model.safetensors", "onnx/text_model.onnx", "onnx/vision_model.onnx"]
    assert adapter_of(files, lambda _: {"model_type": "clip"}, model="a/b").name == "clip"
    monkeypatch.setattr("limner.encoders.named_models.missing", lambda module: module)
    assert adapter_of(files, lambda _: {"model_type": "clip"}, model="a/b").name == "onnx-clip"


def test_tags_of_open_clip_without_it(monkeypatch):
    monkeypatch.setattr("limner.encoders.named_models._architectures", lambda: ())
    monkeypatch.setattr("limner.encoders.named_models.missing", lambda module: module)
    for name in ("ViT-B-32", "ViT-B-32/laion2b_s34b_b79k", "convnext_base_w/laion2b_s13b_b82k"):
        with pytest.raises(MissingExtra, match=r"open_clip model .*pip install 'limner\[models\]'"):
            find_system(name)


@pytest.fixture
def tagged(monkeypatch):
    """NOT open_clip: a module of that name that lists an architecture and two tags."""
    library = types.ModuleType("open_clip")
    library.list_pretrained_tags_by_model = lambda name: ["openai", "laion2b_s34b_b79k"]
    monkeypatch.setitem(sys.modules, "open_clip", library)
    monkeypatch.setattr("limner.encoders.named_models.missing", lambda module: None)
    monkeypatch.setattr("limner.encoders.named_models._architectures", lambda: {"ViT-B-32"})


def test_tags_of_open_clip(tagged):
    model = named_model("ViT-B-32/openai(device=cpu)")
    assert model.adapter.name == "open-clip" and not model.adapter.notes
    assert model.settings == {"model": "ViT-B-32", "weights": "openai", "device": "cpu"}
    untagged = named_model("ViT-B-32")
    assert (
        untagged.settings["weights"] == "laion2b_s34b_b79k"
        and "ViT-B-32/laion2b_s34b_b79k" in untagged.adapter.notes[0]
    )


def test_a_short_name_suggests_the_whole_one():
    with pytest.raises(LimnerError, match="did you mean 'openai/clip-vit-base-patch32'"):
        find_system("clip-vit-base-patch32")


@pytest.mark.parametrize("name", ["./nowhere/model", "nowhere/", "/nowhere"])
def test_a_path_that_is_not_there(name):
    with pytest.raises(LimnerError, match=f"no file or folder {name}: expected a saved model, the folder of a model"):
        find_system(name)


@pytest.mark.parametrize("revision", ["", "../x", "a//b", "."])
def test_a_revision_is_no_path(revision, hub):
    with pytest.raises(LimnerError, match="expected a branch, a tag or a commit after @"):
        encoder("clip", model=f"somebody/model@{revision}")


# --- revisions --------------------------------------------------------------------------------------------------


def test_revisions(repository_of, hub, tmp_path):
    changed = tmp_path / "changed"
    shutil.copytree(repository_of("SigLIP 2"), changed)
    weights = safetensors_torch.load_file(changed / "model.safetensors")
    doubled = {name: value * 2 for name, value in weights.items()}
    safetensors_torch.save_file(doubled, changed / "model.safetensors", metadata={"format": "pt"})
    hub.models["somebody/model"] = {"main": repository_of("SigLIP 2"), "v2": changed}
    expected = encoder("siglip", model=changed, device="cpu").encode(["a dog"])
    for revision in ("v2", hub.commit("somebody/model", "v2")):
        np.testing.assert_array_equal(encoder(f"somebody/model@{revision}", device="cpu").encode(["a dog"]), expected)
    by_option = evaluated("--model", "somebody/model", "--revision", "v2")["settings"]["model"]
    assert by_option == f"somebody/model@{hub.commit('somebody/model', 'v2')}"
    assert (
        evaluated("--model", "somebody/model")["settings"]["model"] == f"somebody/model@{hub.commit('somebody/model')}"
    )
    with pytest.raises(LimnerError, match=r"has no revision 'v3' of it \(404\)"):
        encoder("somebody/model@v3")
    with pytest.raises(LimnerError, match="revision 'v1' with clip/: expected the name of a model on the hub"):
        with_revision("clip/", "v1")
    run = CliRunner().invoke(app, ["evaluate", "scenes", "--revision", "v2", "--model", "somebody/model"])
    assert run.exit_code == 3 and "--revision without a --model before it" in run.output


def test_a_model_does_not_change_by_itself(repository_of, hub, tmp_path):
    """What is in the cache is used, until another revision is named."""
    folder = tmp_path / "repository"
    shutil.copytree(repository_of("SigLIP 2"), folder)
    hub.models["somebody/model"] = folder
    first = hub.commit("somebody/model")
    encoder("somebody/model", device="cpu")
    (folder / "README.md").write_text("changed")
    assert evaluated("--model", "somebody/model")["settings"]["model"] == f"somebody/model@{first}"


def test_an_index_names_the_commit(repository_of, hub, tmp_path, monkeypatch):
    pytest.importorskip("lancedb")
    hub.models["somebody/model"] = repository_of("SigLIP 2")
    words = ["index", str(tmp_path / "i"), "scenes", "-O", "images=20", "--model", "somebody/model", "--json"]
    run = CliRunner().invoke(app, words)
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout)["system"] == f"somebody/model@{hub.commit('somebody/model')}"
    off(monkeypatch)
    search = CliRunner().invoke(app, ["search", str(tmp_path / "i"), "a red square", "--json"])
    assert search.exit_code == 0, search.output


# --- fetching ---------------------------------------------------------------------------------------------------


def test_another_variant_of_an_export(repository_of, hub, capsys):
    hub.models["somebody/model"] = repository_of("ONNX of transformers.js")
    spec = find_system("somebody/model")
    assert (
        "the variant 'quantized' is used (variant=...: bnb4, fp16, full, int8, q4, quantized, uint8)" in spec.notes[0]
    )
    encoder("somebody/model", variant="fp16")
    networks = [name for name in hub.fetched if name.endswith(".onnx")]
    assert {name.partition("model_")[2] for name in networks} == {"quantized.onnx", "fp16.onnx"} and len(networks) == 4
    assert encoder("somebody/model").fingerprint == spec.origin.fingerprint  # other variants beside it change nothing
    with pytest.raises(LimnerError, match="unknown variant 'q8'.*did you mean 'q4'"):
        encoder("somebody/model", variant="q8")


def test_the_size_is_said_before(repository_of, hub, capsys):
    hub.models["somebody/model"] = repository_of("SigLIP 2")
    encoder("somebody/model", device="cpu")
    printed = capsys.readouterr().err
    assert re.search(
        r"^downloading [\d.]+ kB from somebody/model \(4 files, commit [0-9a-f]{12}\)$", printed, re.MULTILINE
    )
    encoder("somebody/model", device="cpu")
    assert "downloading" not in capsys.readouterr().err


def test_an_incomplete_snapshot_of_another_program_is_completed(repository_of, hub):
    """The config alone would say that it is a bare BERT: the list of modules is not there yet."""
    import huggingface_hub

    hub.models["somebody/model"] = repository_of("sentence encoder")
    huggingface_hub.snapshot_download("somebody/model", allow_patterns=["config.json", "*.safetensors", "tokenizer*"])
    assert named_model("somebody/model").adapter.name == "sentence-transformers"
    assert encoder("somebody/model", device="cpu").encode(["a dog"]).shape == (1, 32)


def test_a_connection_that_breaks_off_is_continued(repository_of, hub):
    hub.models["somebody/model"] = repository_of("SigLIP 2")
    hub.breaks, hub.break_after = 3, 4_000
    encoder("somebody/model", device="cpu")
    pieces = [start for name, start in zip(hub.fetched, hub.starts, strict=True) if name == "model.safetensors"]
    assert (
        len(hub.fetched) == len(LAYOUTS["SigLIP 2"].files) + 3 and pieces == sorted(pieces) and len(set(hub.starts)) > 1
    )


def test_a_download_that_breaks_off_for_good_is_continued_by_the_next_run(repository_of, hub, capsys, monkeypatch):
    hub.models["somebody/model"] = repository_of("SigLIP 2")
    monkeypatch.setattr(hub_downloads, "TRIES", 1)
    hub.breaks, hub.break_after = 1, 4_000
    with pytest.raises(LimnerError, match="connection to its hub broke off. Try again: what was downloaded is kept"):
        encoder("somebody/model", device="cpu")
    assert "of which" not in capsys.readouterr().err
    encoder("somebody/model", device="cpu")
    assert "of which" in capsys.readouterr().err and max(hub.starts) == 4_000


def test_a_damaged_part_is_not_used(repository_of, hub, tmp_path):
    hub.models["somebody/model"] = repository_of("SigLIP 2")
    named_model("somebody/model")
    blobs = tmp_path / "cache" / "models--somebody--model" / "blobs"
    digest = hashlib.sha256((repository_of("SigLIP 2") / "model.safetensors").read_bytes()).hexdigest()
    (blobs / f"{digest}.incomplete").write_bytes(b"of another file")
    with pytest.raises(LimnerError, match="model.safetensors of somebody/model arrived damaged, and was deleted"):
        encoder("somebody/model", device="cpu")
    assert encoder("somebody/model", device="cpu").encode(["a dog"]).shape[0] == 1


def test_weights_that_are_code_are_refused_by_name(hub, tmp_path):
    folder = repositories.clip_bin(tmp_path / "model")
    content = torch.load(folder / "pytorch_model.bin", weights_only=True)
    torch.save({**content, "more": Path("x")}, folder / "pytorch_model.bin")
    hub.models["somebody/model"] = folder
    with pytest.raises(LimnerError, match=r"pytorch_model.bin holds more than tensors, or is damaged"):
        encoder("somebody/model")


def test_a_killed_download_is_continued(hub, tmp_path):
    """In another process, which is interrupted as by Ctrl-C in the middle of the weights."""
    folder = tiny.clip(tmp_path / "model")
    weights = safetensors_torch.load_file(folder / "model.safetensors")
    padded = {**weights, "unused": torch.zeros(500_000)}
    safetensors_torch.save_file(padded, folder / "model.safetensors", metadata={"format": "pt"})
    hub.models["somebody/model"], hub.rate = folder, 1_000_000
    code = "from limner.encoders.hub import HubModel; print(HubModel.named('somebody/model').folder())"
    environment = hub.environment(tmp_path / "home", PYTHONPATH=os.pathsep.join(sys.path))
    words = [sys.executable, "-c", code]
    for signal_number in (signal.SIGINT, signal.SIGKILL):
        with subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True) as process:
            blobs, before = tmp_path / "home" / "hf" / "hub", len(hub.fetched)
            while "model.safetensors" not in hub.fetched[before:] or not _has_arrived(blobs, 200_000):
                assert process.poll() is None, process.stderr.read()
                time.sleep(0.02)
            process.send_signal(signal_number)
            process.wait(30)
    hub.rate = None
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    starts = [start for name, start in zip(hub.fetched, hub.starts, strict=True) if name == "model.safetensors"]
    assert len(starts) == 3 and starts[0] == 0 < starts[1] <= starts[2] and "of which" in done.stderr
    assert Path(done.stdout.strip(), "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


def _has_arrived(place: Path, size: int) -> bool:
    return sum(file.stat().st_size for file in place.rglob("*.incomplete")) >= size


# --- what goes wrong --------------------------------------------------------------------------------------------


def test_a_missing_model_suggests_others(repository_of, hub):
    hub.models["somebody/clip-tiny"] = repository_of("SigLIP 2")
    with pytest.raises(
        LimnerError, match=r"no such model \(401\)\. Check the name \(did you mean 'somebody/clip-tiny'\?\)"
    ):
        find_system("somebdy/clip-tiny")
    with pytest.raises(LimnerError, match=r"did you mean 'openai/clip-vit-base-patch32'"):
        find_system("openai/clip-vit-bas-patch32")


def test_a_gated_model_says_how_to_log_in(repository_of, hub, monkeypatch):
    hub.models["somebody/closed"] = repository_of("SigLIP 2")
    hub.gated.add("somebody/closed")
    run = CliRunner().invoke(app, ["evaluate", "scenes", "-O", "images=30", "--model", "somebody/closed"])
    message = " ".join(run.output.split())
    assert run.exit_code == 3 and f"accepted its terms. Accept them at {hub.address}/somebody/closed, then" in message
    assert "log in with 'hf auth login', or set HF_TOKEN" in message
    monkeypatch.setenv("HF_TOKEN", loopback_hub.TOKEN)
    assert evaluated("--model", "somebody/closed")["results"]


def test_a_full_disk_is_refused_before(repository_of, hub, monkeypatch):
    hub.models["somebody/model"] = repository_of("SigLIP 2")
    named_model("somebody/model")
    full = shutil.disk_usage("/")._replace(free=100)
    monkeypatch.setattr(hub_downloads.shutil, "disk_usage", lambda _: full)
    with pytest.raises(LimnerError, match=r"the disk of .*cache is full \([\d.]+ kB are needed, 100 bytes are free\)"):
        encoder("somebody/model", device="cpu")
    assert "model.safetensors" not in hub.fetched


def test_no_network_says_what_to_do(hub, monkeypatch):
    off(monkeypatch)
    with pytest.raises(
        LimnerError, match="is not on this machine and its hub cannot be reached. To work offline, give"
    ):
        find_system("somebody/model")


def test_a_scorer_is_no_encoder_and_an_encoder_no_scorer(repository_of, hub):
    hub.models |= {"somebody/blip": repository_of("BLIP"), "somebody/model": repository_of("SigLIP 2")}
    with pytest.raises(LimnerError, match=r"scores pairs, .*'blip-itm\(model=somebody/blip"):
        encoder("somebody/blip")
    with pytest.raises(LimnerError, match="read by 'siglip', which encodes items and scores no pairs"):
        scorer("somebody/model")
    world = limner.load("scenes", images=4)
    assert np.isfinite(scorer("somebody/blip", device="cpu").scores(world).matrix()).all()


def test_evaluate_takes_a_name(repository_of, hub):
    hub.models["somebody/model"] = repository_of("SigLIP 2")
    report = limner.evaluate("somebody/model", limner.load("scenes", images=10), measures="R@1")
    assert report.settings["model"] == f"somebody/model@{hub.commit('somebody/model')}"
