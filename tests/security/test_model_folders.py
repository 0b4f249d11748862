"""A folder of a model runs nothing: a corpus of hostile ones, which every encoder that reads such folders refuses.

The installed versions are the newest; `make oldest` installs the lowest allowed ones into a folder, with which the long
test runs this file again. LIMNER_OLDEST names another such folder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from limner.core.errors import LimnerError
from limner.encoders import encoder, offline

torch = pytest.importorskip("torch")
for place in ("security", "encoders"):
    sys.path.insert(0, str(Path(__file__).parents[1] / place))

import hostile_folders as hostile  # noqa: E402
import tiny  # noqa: E402

OF_SENTENCES = ("sentence-transformers", "sentence-transformers-multimodal", "multi-vector")
OF_TEXTS = ("transformers", "clip", *OF_SENTENCES)
OF_IMAGES = ("clip", "sentence-transformers-multimodal")
CASES = [
    *(("sentences", name, change, OF_SENTENCES) for name, change in hostile.SENTENCES.items()),
    *(("backbone", name, change, OF_TEXTS) for name, change in hostile.BACKBONE.items()),
    *(("clip", name, change, OF_IMAGES) for name, change in hostile.IMAGES.items()),
]
MAJOR = int(version("sentence-transformers").partition(".")[0]) if find_spec("sentence_transformers") else 0
NAMED = [pytest.param(*case, id=f"{case[0]}: {case[1]}") for case in CASES]


@pytest.fixture(scope="module", autouse=True)
def library():
    return pytest.importorskip("sentence_transformers")


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A good folder of each kind."""
    place = tmp_path_factory.mktemp("good")
    for kind in ("backbone", "sentences"):
        tiny.backbone(place / kind)
    pooling = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}
    (place / "sentences" / "1_Pooling").mkdir()
    (place / "sentences" / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    types = ("Transformer", "Pooling")
    modules = [
        {"idx": n, "name": str(n), "path": "" if n == 0 else "1_Pooling", "type": f"sentence_transformers.models.{t}"}
        for n, t in enumerate(types)
    ]
    (place / "sentences" / "modules.json").write_text(json.dumps(modules))
    (place / "sentences" / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 32}))
    tiny.clip(place / "clip")
    return place


@pytest.fixture
def canary(tmp_path, monkeypatch):
    """Whether the module was imported, or anything was written into the working folder."""
    modules, desk = tmp_path / "modules", tmp_path / "desk"
    modules.mkdir()
    desk.mkdir()
    code = f"from pathlib import Path\nPath({str(tmp_path / 'mark')!r}).touch()\nclass Encoder:\n    pass\n"
    (modules / "canary.py").write_text(code)
    monkeypatch.syspath_prepend(str(modules))
    monkeypatch.chdir(desk)
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "cache"))
    yield lambda: (tmp_path / "mark").exists() or "canary" in sys.modules or any(desk.iterdir())
    for name in [name for name in sys.modules if name.partition(".")[0] in ("canary", "transformers_modules")]:
        del sys.modules[name]


def spoiled(good: Path, kind: str, change: hostile.Change, tmp_path: Path) -> Path:
    folder = tmp_path / "folders" / "model"
    shutil.copytree(good / kind, folder)
    change(folder)
    return folder


def test_the_corpus_is_large_enough():
    assert len(CASES) >= 120
    assert len({(kind, name) for kind, name, _, _ in CASES}) == len(CASES)


@pytest.mark.parametrize(("kind", "name", "change", "encoders"), NAMED)
def test_a_hostile_folder_is_refused_and_runs_nothing(kind, name, change, encoders, good, tmp_path, canary):
    folder = spoiled(good, kind, change, tmp_path)
    for each in encoders:
        with pytest.raises(LimnerError) as caught:
            encoder(each, model=folder, device="cpu")
        assert not canary(), f"{name}: {each} ran code"
        if "MultiVectorEncoder" not in str(caught.value):  # which old versions do not have
            assert str(folder) in str(caught.value)
            assert "its library can load" not in str(caught.value), "the guard refuses it, and not the library"


def test_the_canary_sings(good, tmp_path, canary):
    """Otherwise the tests above show nothing."""
    folder = spoiled(good, "backbone", hostile.pickle("pytorch_model.bin"), tmp_path)
    assert not canary()
    torch.load(folder / "pytorch_model.bin", weights_only=False)
    assert canary()


@pytest.mark.skipif(MAJOR >= 6, reason="sentence-transformers refuses this itself from 6.0 on")
@pytest.mark.parametrize(
    "name", ["a foreign module, lone surrogate", "a foreign module", "a router", "a foreign function"]
)
def test_an_old_library_runs_it_without_the_guard(name, good, tmp_path, canary, monkeypatch):
    monkeypatch.setattr(offline, "refuse_code", lambda folder: folder)
    folder = spoiled(good, "sentences", hostile.SENTENCES[name], tmp_path)
    with pytest.raises(LimnerError):
        encoder("sentence-transformers", model=folder, device="cpu")
    assert canary()


@pytest.mark.parametrize(
    ("kind", "each"), [("backbone", "transformers"), ("sentences", "sentence-transformers"), ("clip", "clip")]
)
def test_a_good_folder_is_read(kind, each, good, canary):
    assert encoder(each, model=good / kind, device="cpu").encode(["a dog", "two"]).shape[0] == 2
    assert not canary()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        (
            "tokens named like keys",
            hostile.merged("vocab.json", auto_map=7, type=8, backbone=9, types=10, weight_map=11),
        ),
        ("a plain function", hostile.merged("config.json", activation_function="gelu_new", hidden_act="gelu")),
        ("attention of the library", hostile.merged("config.json", attn_implementation="eager")),
        ("nothing of its own", hostile.merged("config.json", auto_map={})),
        ("old weights", None),
        ("a part with a function", hostile.dense(activation_function="torch.nn.modules.activation.Tanh")),
        (
            "length of the tokenizer",
            hostile.merged("sentence_bert_config.json", tokenizer_args={"model_max_length": 9}),
        ),
    ],
)
def test_what_only_looks_hostile_is_read(name, change, good, tmp_path):
    folder = spoiled(good, "sentences", change or with_old_weights, tmp_path)
    if name == "a part with a function":
        part = torch.nn.Linear(32, 4)
        torch.save(
            {f"linear.{key}": value for key, value in part.state_dict().items()}, folder / "2_Part/pytorch_model.bin"
        )
    model = encoder("sentence-transformers", model=folder, device="cpu")
    assert model.encode(["a dog"]).shape == (1, 4 if name == "a part with a function" else 32)


def with_old_weights(folder: Path) -> None:
    """Writes the weights in the format of torch, as older repositories have them."""
    from safetensors.torch import load_file

    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize("name", hostile.UNREAD)
def test_a_hostile_file_that_no_library_reads_runs_nothing(name, good, tmp_path, canary, monkeypatch):
    folder = spoiled(good, "backbone", hostile.UNREAD[name], tmp_path)
    assert encoder("transformers", model=folder, device="cpu").encode(["a dog"]).shape == (1, 32)
    assert not canary()


def test_weights_that_are_code_are_refused_in_words(good, tmp_path, canary):
    folder = spoiled(good, "backbone", hostile.pickle("pytorch_model.bin"), tmp_path)
    with pytest.raises(LimnerError, match=r"pytorch_model.bin holds more than tensors, or is damaged: expected"):
        encoder("transformers", model=folder)


def test_the_cache_of_the_hub_may_link_to_its_own_files(good, tmp_path):
    """As the hub's library lays it out: a snapshot is links into a folder beside it."""
    snapshot, blobs = tmp_path / "snapshots" / "abc", tmp_path / "blobs"
    shutil.copytree(good / "backbone", blobs)
    snapshot.mkdir(parents=True)
    for file in blobs.iterdir():
        (snapshot / file.name).symlink_to(Path("../../blobs", file.name))
    assert offline.folder_of(snapshot, purpose="a test") == snapshot
    (tmp_path / "config.json").write_text("{}")
    (snapshot / "config.json").unlink()
    (snapshot / "config.json").symlink_to("../../config.json")
    with pytest.raises(LimnerError, match=r"config.json is a link to .*, outside of the model's folder"):
        offline.folder_of(snapshot, purpose="a test")


HUB = Path(__file__).parents[1] / "encoders" / "test_hub.py"
OLDEST = Path(os.environ.get("LIMNER_OLDEST") or Path(sys.prefix) / "oldest")


@pytest.mark.long
@pytest.mark.skipif(not OLDEST.is_dir(), reason="no oldest versions: 'make oldest' installs them")
def test_the_same_with_the_lowest_allowed_versions():
    """Fetching models from a hub is tested with them too."""
    paths = [str(OLDEST), *sys.path]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not long", __file__, str(HUB)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
