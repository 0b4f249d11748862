"""A model, index, store, data set or file of options is data: nothing that it names is imported or run.

Every attack here ran a command before names from files were held to limner's own catalogue. Each leaves a mark in the
file system when it succeeds; the tests look for the mark.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner import LimnerError, systems
from limner.cli import app
from limner.cli.shell import Status
from limner.core.errors import Untrusted
from limner.core.registry import Registry

sys.path.insert(0, str(Path(__file__).parents[1] / "towers"))
sys.path.insert(0, str(Path(__file__).parents[1] / "encoders"))

CODE = ("os:system", "subprocess:call", "transformers:pipeline", "builtins:exec", "stranger:encode")
MARK = "a-command-was-run"


@pytest.fixture(autouse=True)
def _stranger(tmp_path, monkeypatch):
    """A module that leaves a mark as soon as it is imported, and encodes when it is asked to."""
    folder = tmp_path / "modules"
    folder.mkdir()
    code = f"""
from pathlib import Path
Path({str(tmp_path / MARK)!r}).touch()
class Encoder:
    dim = 4
    def __init__(self, **options): self.options = options
    def encode(self, items):
        import numpy as np
        return np.ones((len(items), 4), dtype=np.float32) + np.arange(len(items))[:, None]
def encode(**options): return Encoder(**options)
def tag(words): return ["n" for _ in words]
def loss(scores, positives, *, margin): return scores.sum()
def load(path=None, *, split=None, **options):
    import limner
    return limner.load("scenes", images=10)
"""
    (folder / "stranger.py").write_text(code)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    yield
    sys.modules.pop("stranger", None)


@pytest.fixture
def mark(tmp_path):
    """Whether anything was run."""
    return lambda: (tmp_path / MARK).exists()


def command(tmp_path) -> dict[str, str]:
    return {"command": f"touch {tmp_path / MARK}"}


def shell(*words):
    return CliRunner().invoke(app, [str(w) for w in words])


def refused(done) -> None:
    assert done.exit_code == Status.INPUT, done.output
    assert "--trust" in done.stderr
    assert done.stderr.count("\n") == 1, "one clear line"


# --- the one function -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CODE)
def test_a_name_from_a_file_is_looked_up_and_never_imported(name, mark):
    registry = Registry("thing", {"reader": "json:loads"})
    assert registry.find("reader", trusted=False) is json.loads
    with pytest.raises(Untrusted, match=f"thing '{name}' is named by a file.*--trust.*reader"):
        registry.find(name, trusted=False)
    assert not mark()


@pytest.mark.parametrize("name", [None, 3, ["os:system"], {"os": "system"}, ":::", "", ":", "a:", ":b", "..:x", "os:"])
@pytest.mark.parametrize("trusted", [True, False])
def test_what_is_no_name_is_refused(name, trusted):
    with pytest.raises(LimnerError):
        Registry("thing", {"reader": "json:loads"}).find(name, trusted=trusted)


# --- models -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A saved model of every kind that names something in its config."""
    pytest.importorskip("torch")
    from tower_toys import OPTIONS, world

    from toys import named

    folder = tmp_path_factory.mktemp("models")
    small, features = world(20)
    quick = {**OPTIONS, "epochs": 1, "tensorboard": False}
    tiny = {
        "hidden_dim": 16,
        "layers": 1,
        "heads": 2,
        "batch_size": 24,
        "device": "cpu",
        "max_tokens": 12,
        "tensorboard": False,
    }
    for name in ("towers", "pvse", "pcme"):
        limner.train(small, name, features=features, **quick).save(folder / name)
    scenes = named(limner.load("scenes", images=20))
    limner.train(scenes, "mcprop", epochs=1, **tiny).save(folder / "mcprop")
    limner.train(scenes, "crank", epochs=1, use_images=True, **tiny).save(folder / "crank")
    for name in ("kcca", "nearest"):
        limner.train(scenes, name, images="linear", features=_vectors(scenes), **_few_settings(name)).save(
            folder / name
        )
    return folder


def _vectors(world):
    rows = np.random.default_rng(0).random((len(world.images), 4), dtype=np.float32)
    return limner.Embeddings(world.images.ids, rows)


def _few_settings(name):
    return {"kappas": [0.1], "text_kappas": None, "powers": [1.0]} if name == "kcca" else {}


def spoiled(saved: Path, kind: str, tmp_path: Path, change) -> Path:
    folder = tmp_path / kind
    shutil.copytree(saved / kind, folder)
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def features_from(code, tmp_path):
    def change(config):
        config["features"] = {"encoder": code, **command(tmp_path)}

    return change


@pytest.mark.parametrize("kind", ["towers", "pvse", "pcme", "mcprop", "crank"])
@pytest.mark.parametrize("code", CODE)
def test_an_encoder_of_images_named_by_a_model(saved, kind, code, tmp_path, mark):
    folder = spoiled(saved, kind, tmp_path, features_from(code, tmp_path))
    with pytest.raises(Untrusted, match="encoder .* is named by a file"):
        systems.load(folder)
    assert not mark()


@pytest.mark.parametrize("kind", ["towers", "pvse", "pcme"])
def test_an_encoder_of_texts_named_by_a_model(saved, kind, tmp_path, mark):
    def change(config):
        config["texts"] = {"encoder": "os:system", **command(tmp_path)}
        config["sizes"]["texts"] = 8

    with pytest.raises(LimnerError):
        systems.load(spoiled(saved, kind, tmp_path, change))
    assert not mark()


@pytest.mark.parametrize("kind", ["towers", "pvse"])
@pytest.mark.parametrize("code", ["stranger:loss", "os:system"])
def test_a_loss_named_by_a_model(saved, kind, code, tmp_path, mark):
    def change(config):
        config["settings"]["margin"]["loss"] = code

    with pytest.raises(Untrusted, match="loss .* is named by a file"):
        systems.load(spoiled(saved, kind, tmp_path, change))
    assert not mark()


@pytest.mark.parametrize("kind", ["kcca", "nearest"])
@pytest.mark.parametrize("code", ["subprocess:call", "stranger:tag"])
def test_a_tagger_named_by_a_model(saved, kind, code, tmp_path, mark):
    def change(config):
        config["text_kernel"]["state"]["vocabulary"]["reader"]["tagger"] = code

    with pytest.raises(Untrusted, match="tagger .* is named by a file"):
        systems.load(spoiled(saved, kind, tmp_path, change))
    assert not mark()


@pytest.mark.parametrize("kind", ["kcca", "nearest"])
@pytest.mark.parametrize("side", ["image_kernel", "text_kernel"])
@pytest.mark.parametrize("code", ["os:system", "subprocess:Popen", "stranger:Encoder"])
def test_a_kernel_named_by_a_model(saved, kind, side, code, tmp_path, mark):
    def change(config):
        config[side]["class"] = code

    with pytest.raises(Untrusted, match="kernel .* is named by a file"):
        systems.load(spoiled(saved, kind, tmp_path, change))
    assert not mark()


def test_a_class_of_limner_that_is_no_kernel_is_none_for_a_model_either(saved, tmp_path):
    def change(config):
        config["text_kernel"]["class"] = "limner.cli.demo_chapters:chapters"

    with pytest.raises(Untrusted, match="kernel 'limner.cli.demo_chapters:chapters'"):
        systems.load(spoiled(saved, "kcca", tmp_path, change))


def test_a_model_of_ones_own_encoder_still_loads_with_trust(tmp_path, mark):
    pytest.importorskip("torch")
    from tower_toys import OPTIONS, world

    small, _ = world(12)
    chosen = {"encoder": "stranger:Encoder", "shade": 2}
    model = limner.train(small, "towers", features=chosen, **{**OPTIONS, "epochs": 1, "tensorboard": False})
    folder = model.save(tmp_path / "own")
    (tmp_path / MARK).unlink()
    sys.modules.pop("stranger")
    with pytest.raises(Untrusted, match=r"use --trust \(trust=True in Python\)"):
        systems.load(folder)
    assert not mark()
    reloaded = systems.load(folder, trust=True)
    assert reloaded.features.encoder.options == {"shade": 2}
    assert np.array_equal(reloaded.scores(small).matrix(), model.scores(small).matrix())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trust_remote_code": True}, "unknown option 'trust_remote_code' of encoder 'clip'"),
        ({"model": 3}, "model=3 is int: expected str or Path"),
        ({"model": "folder", "device": ["cpu"]}, "device=.*expected str"),
        ({}, "encoder 'clip' needs model"),
    ],
)
def test_options_in_a_model_fit_the_registered_encoder(saved, tmp_path, options, message):
    def change(config):
        config["features"] = {"encoder": "clip", **options}

    with pytest.raises(LimnerError, match=message):
        systems.load(spoiled(saved, "towers", tmp_path, change))


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "scenes", "-O", "images=20", "--model", "MODEL"),
        ("explain", "failures", "scenes", "-O", "images=20", "--model", "MODEL"),
        ("encode", "texts.txt", "--model", "MODEL", "-o", "out.npy"),
        ("index", "an.index", "scenes", "-O", "images=20", "--model", "MODEL"),
        ("annotate", "pool", "work.db", "scenes", "-O", "images=20", "--model", "MODEL"),
    ],
    ids=lambda words: words[0],
)
def test_the_shell_loads_a_strangers_model_as_data(saved, words, tmp_path, monkeypatch, mark):
    folder = spoiled(saved, "towers", tmp_path, features_from("os:system", tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("a dog\n")
    refused(shell(*[folder if w == "MODEL" else w for w in words]))
    assert not mark()


def test_a_strangers_scorer_is_data(saved, tmp_path, monkeypatch, mark):
    folder = spoiled(saved, "crank", tmp_path, features_from("os:system", tmp_path))
    monkeypatch.chdir(tmp_path)
    world = limner.load("scenes", images=20)
    limner.Scores.from_matrix(np.eye(20, 100), world.images.ids, world.texts.ids).top(3).save("a.run")
    refused(
        shell(
            "match", "rerank", "a.run", "scenes", "-O", "images=20", "--split", "all", "--scorer", folder, "-o", "b.run"
        )
    )
    assert not mark()


# --- folders of other libraries ---------------------------------------------------------------------------------


@pytest.fixture
def sentences(tmp_path):
    import tiny

    folder = tiny.backbone(tmp_path / "model")
    pooling = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


def test_a_module_class_named_by_a_folder(sentences, mark):
    pytest.importorskip("sentence_transformers")
    assert limner.encoders.encoder("sentence-transformers", model=sentences, device="cpu").dim == 32
    modules = json.loads((sentences / "modules.json").read_text())
    modules.append({"idx": 2, "name": "2", "path": "2", "type": "stranger.Encoder"})
    (sentences / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(LimnerError, match=r"asks for the class 'stranger.Encoder': limner does not run code"):
        limner.encoders.encoder("sentence-transformers", model=sentences)
    assert not mark()


def test_a_function_named_by_a_part_of_a_folder(sentences, mark):
    (sentences / "2_Dense").mkdir()
    (sentences / "2_Dense" / "config.json").write_text(json.dumps({"activation_function": "stranger.encode"}))
    with pytest.raises(LimnerError, match=r"asks for the function 'stranger.encode'"):
        limner.encoders.encoder("sentence-transformers", model=sentences)
    assert not mark()


@pytest.mark.parametrize("encoder", ["transformers", "clip"])
def test_code_beside_a_model_is_not_run_and_nobody_is_asked(encoder, tmp_path, mark):
    pytest.importorskip("transformers")
    import tiny

    folder = tiny.backbone(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "strange", "auto_map": {"AutoConfig": "code.C", "AutoModel": "code.M"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "code.py").write_text((tmp_path / "modules" / "stranger.py").read_text())
    with pytest.raises(LimnerError, match=r"config.json asks for code beside the model \(auto_map\)"):
        limner.encoders.encoder(encoder, model=folder)
    assert not mark()


def test_a_compiled_kernel_named_by_a_folder(tmp_path):
    pytest.importorskip("transformers")
    import tiny

    folder = tiny.backbone(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"attn_implementation": "stranger/kernel"}))
    with pytest.raises(LimnerError, match="asks for the compiled kernel 'stranger/kernel'"):
        limner.encoders.encoder("transformers", model=folder)


class Pickled:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return (Path.touch, (self.target,))


@pytest.mark.parametrize("wrapped", [False, True])
def test_weights_are_tensors_and_nothing_else(tmp_path, wrapped, mark):
    torch = pytest.importorskip("torch")
    pytest.importorskip("efficientnet_lite_pytorch")
    bad = Pickled(tmp_path / MARK)
    torch.save({"state_dict": {"a": torch.zeros(1)}, "more": bad} if wrapped else bad, tmp_path / "w.pth")
    with pytest.raises(LimnerError, match=r"w.pth holds more than tensors"):
        limner.encoders.encoder("efficientnet-lite", weights=tmp_path / "w.pth")
    assert not mark()


# --- indexes ----------------------------------------------------------------------------------------------------


def test_a_system_named_by_an_index(tmp_path, mark):
    pytest.importorskip("lancedb")
    from limner import search

    rows = limner.Embeddings(["a", "b"], np.eye(2, 4, dtype=np.float32))
    search.index(tmp_path / "i", rows, system_name="stranger:Encoder")
    refused(shell("search", tmp_path / "i", "a dog"))
    refused(shell("index", tmp_path / "i", "scenes", "-O", "images=10"))
    assert not mark()
    assert shell("search", tmp_path / "i", "a dog", "--trust").exit_code == 0
    assert shell("search", tmp_path / "i", "a dog", "--model", "stranger:Encoder").exit_code == 0


def test_a_model_kept_inside_an_index(saved, tmp_path, mark):
    pytest.importorskip("lancedb")
    from limner import search

    rows = limner.Embeddings(["a", "b"], np.eye(2, 16, dtype=np.float32))
    search.index(tmp_path / "i", rows, system_name="system")
    folder = spoiled(saved, "towers", tmp_path, features_from("os:system", tmp_path))
    shutil.copytree(folder, tmp_path / "i" / "system")
    refused(shell("search", tmp_path / "i", "a dog"))
    assert not mark()


# --- stores -----------------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    """A store that says how its pictures are loaded, and the command that serves it."""
    pytest.importorskip("sqlalchemy")
    from limner.annotate.store import open_store

    def make(spec: str, options: dict) -> Path:
        with open_store(tmp_path / "work.db", create=True) as db:
            db.set("collection", {"spec": spec, "name": "x"})
            db.set("loading", {"options": options, "split": None})
        return tmp_path / "work.db"

    return make


@pytest.fixture
def served(monkeypatch):
    """What would have been served."""
    import limner.web

    reports: list[dict] = []
    monkeypatch.setattr(limner.web, "serve", lambda spec, **options: reports.append({"spec": spec, **options}))
    return reports


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        ("stranger:load:x", {}),
        ("transformers:pipeline:text-generation", {"model": "evil/model", "trust_remote_code": True}),
        ("os:system:touch x", {}),
    ],
)
def test_a_loader_named_by_a_store(store, served, spec, options, mark):
    stored = store(spec, options)
    refused(shell("annotate", "serve", stored))
    assert not mark()
    assert served == []


def test_options_in_a_store_fit_the_registered_loader(store, served):
    stored = store("scenes", {"images": "abc"})
    done = shell("annotate", "serve", stored)
    assert (done.exit_code, served) == (Status.INPUT, [])
    assert "images='abc' is str: expected int" in done.stderr


def test_options_in_a_store_are_not_for_a_loader_of_ones_own(store, served, mark):
    stored = store("scenes", {"images": 10})
    refused(shell("annotate", "serve", stored, "stranger:load:x"))
    assert (served, mark()) == ([], False)
    assert shell("annotate", "serve", stored, "stranger:load:x", "-O", "images=10").exit_code == 0
    assert shell("annotate", "serve", stored).exit_code == 0
    assert [s["spec"] for s in served] == ["stranger:load:x", "scenes"]


def test_a_trusted_store_may_name_a_loader(store, served):
    assert shell("annotate", "serve", store("stranger:load:x", {}), "--trust").exit_code == 0
    assert shell("--trust", "annotate", "serve", store("stranger:load:x", {})).exit_code == 0
    assert [each["spec"] for each in served] == ["stranger:load:x"] * 2


# --- files of options -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    ['features = "stranger:encode"', 'loss = "stranger:loss"', '[features]\nencoder = "os:system"\ncommand = "true"'],
)
def test_code_named_by_a_file_of_options(tmp_path, text, mark):
    (tmp_path / "options.toml").write_text(text)
    refused(
        shell(
            "train", "towers", "scenes", "-O", "images=10", "--config", tmp_path / "options.toml", "-o", tmp_path / "m"
        )
    )
    assert not mark()


# --- nothing else in the package opens a door -------------------------------------------------------------------


def test_no_reader_of_pickles_yaml_or_remote_code():
    source = Path(limner.__file__).parent
    reports = []
    for file in source.rglob("*.py"):
        text = file.read_text()
        for word in ("allow_pickle=True", "weights_only=False", "trust_remote_code=True", "import yaml"):
            if word in text:
                reports.append(f"{file.relative_to(source)}: {word}")
        if re.search(r"(?<![.\w])(eval|exec)\(", text):  # not a network's method, not the end of a longer name
            reports.append(f"{file.relative_to(source)}: eval or exec")
        if "import pickle" in text and file.name not in ("transfer.py", "weights.py", "tensors.py"):
            reports.append(f"{file.relative_to(source)}: pickle")
        for line in text.splitlines():
            if "np.load(" in line and "allow_pickle=False" not in line:
                reports.append(f"{file.relative_to(source)}: {line.strip()}")
            if "torch.load(" in line and "weights_only=True" not in line:
                reports.append(f"{file.relative_to(source)}: {line.strip()}")
    assert reports == []


# --- sizes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "group", "name"),
    [
        ("towers", "shape", "hidden_dim"),
        ("pvse", "several", "heads"),
        ("pcme", "shape", "embedding_dim"),
        ("mcprop", "heads", "layers"),
        ("crank", "layers", "hidden_dim"),
    ],
)
def test_a_model_builds_nothing_that_its_weights_do_not_fill(saved, tmp_path, kind, group, name):
    """A few bytes could ask for a network of terabytes, or of a billion layers."""

    def change(config):
        config["settings"][group][name] = 2**31

    with pytest.raises(LimnerError, match=f"{name}=2,147,483,648 is larger than any of these weights"):
        systems.load(spoiled(saved, kind, tmp_path, change))


def test_a_transformer_builds_nothing_that_its_weights_do_not_fill(tmp_path):
    pytest.importorskip("transformers")
    import tiny

    folder = tiny.backbone(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 10**6}))
    with pytest.raises(LimnerError, match="num_hidden_layers=1,000,000 is larger than any of its weights"):
        limner.encoders.encoder("transformers", model=folder)
