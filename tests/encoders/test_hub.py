"""Models of the hub: which files are fetched, what completes a cache, and what a failure is called."""

from __future__ import annotations

import errno
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from limner.core import hub, hub_downloads
from limner.core.errors import LimnerError
from limner.encoders import encoder
from limner.encoders.model_files import missing_files

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
for place in ("security", "encoders"):
    sys.path.insert(0, str(Path(__file__).parents[1] / place))

import hostile_folders as hostile  # noqa: E402
import tiny  # noqa: E402

import loopback_hub  # noqa: E402

MODEL = "somebody/tiny"


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A good folder of each kind."""
    place = tmp_path_factory.mktemp("good")
    tiny.backbone(place / "bert")
    tiny.clip(place / "clip")
    return place


@pytest.fixture
def served(good, tmp_path, monkeypatch):
    """A hub whose only repository is a copy of a good folder."""
    shutil.copytree(good / "bert", tmp_path / "repository")
    with loopback_hub.hub_of({MODEL: tmp_path / "repository"}) as each:
        each.point(monkeypatch, tmp_path / "cache")
        yield each


def old_weights(folder: Path) -> None:
    """Writes the weights in the format of torch, as older repositories have them."""
    from safetensors.torch import load_file

    for file in folder.rglob("model.safetensors"):
        torch.save(load_file(file), file.with_name("pytorch_model.bin"))
        file.unlink()


def encode_two():
    return encoder("transformers", model=MODEL, device="cpu").encode(["a dog", "two children"])


# --- which files ------------------------------------------------------------------------------------------------


def test_weights_of_torch_are_fetched_where_there_are_no_others(served, good):
    old_weights(served.models[MODEL])
    for name in ("training_args.bin", "optimizer.pt", "tf_model.h5", "open_clip_pytorch_model.bin"):
        hostile.weights(served.models[MODEL] / name)
    expected = encoder("transformers", model=good / "bert", device="cpu").encode(["a dog", "two children"])
    np.testing.assert_array_equal(encode_two(), expected)
    assert "pytorch_model.bin" in served.fetched
    assert not {"training_args.bin", "optimizer.pt", "tf_model.h5", "open_clip_pytorch_model.bin"} & set(served.fetched)


def test_weights_of_torch_are_left_where_there_are_others(served):
    hostile.weights(served.models[MODEL] / "pytorch_model.bin")
    encode_two()
    assert "model.safetensors" in served.fetched and "pytorch_model.bin" not in served.fetched


def test_clip_with_weights_of_torch_alone(served, good, tmp_path):
    shutil.rmtree(served.models[MODEL])
    shutil.copytree(good / "clip", served.models[MODEL])
    old_weights(served.models[MODEL])
    expected = encoder("clip", model=good / "clip", device="cpu").encode(["a dog"])
    np.testing.assert_array_equal(encoder("clip", model=MODEL, device="cpu").encode(["a dog"]), expected)


def test_weights_in_parts(served):
    folder = served.models[MODEL]
    old_weights(folder)
    part = "pytorch_model-00001-of-00001.bin"
    names = torch.load(folder / "pytorch_model.bin", weights_only=True)
    (folder / "pytorch_model.bin").rename(folder / part)
    index = {"metadata": {}, "weight_map": dict.fromkeys(names, part)}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    assert encode_two().shape == (2, 32)
    assert part in served.fetched


def test_weights_that_are_code_are_fetched_and_refused(served, tmp_path, monkeypatch):
    (tmp_path / "canary.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'w')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    hostile.pickle("pytorch_model.bin")(served.models[MODEL])
    with pytest.raises(LimnerError, match=r"pytorch_model.bin holds more than tensors, or is damaged"):
        encode_two()
    assert not (tmp_path / "mark").exists() and "canary" not in sys.modules


def test_a_repository_without_readable_weights(served):
    folder = served.models[MODEL]
    (folder / "model.safetensors").rename(folder / "tf_model.h5")
    with pytest.raises(LimnerError, match=r"no weights that can be read on the hub: expected model.safetensors or"):
        encode_two()
    assert not served.fetched


# --- what the cache has in part ---------------------------------------------------------------------------------


def cached(tmp_path: Path) -> Path:
    return next((tmp_path / "cache" / "models--somebody--tiny" / "snapshots").iterdir())


PARTIAL = ["model.safetensors", "tokenizer.json", "config.json"]


@pytest.mark.parametrize("name", PARTIAL)
def test_an_incomplete_snapshot_is_completed(name, served, tmp_path):
    before = encode_two()
    (cached(tmp_path) / name).unlink()
    served.fetched.clear()
    np.testing.assert_array_equal(encode_two(), before)
    assert set(served.fetched) <= {name}


def test_a_snapshot_of_another_library_is_completed(served, tmp_path):
    """Only a tokenizer was opened, so only its files are there."""
    import huggingface_hub

    huggingface_hub.snapshot_download(MODEL, allow_patterns=["tokenizer*", "special*"])
    assert not (cached(tmp_path) / "model.safetensors").exists()
    assert encode_two().shape == (2, 32)


def test_a_snapshot_without_the_processor_is_completed(served, good, tmp_path):
    shutil.rmtree(served.models[MODEL])
    shutil.copytree(good / "clip", served.models[MODEL])
    before = encoder("clip", model=MODEL, device="cpu").encode(["a dog"])
    (cached(tmp_path) / "preprocessor_config.json").unlink()
    np.testing.assert_array_equal(encoder("clip", model=MODEL, device="cpu").encode(["a dog"]), before)


@pytest.mark.parametrize("name", PARTIAL)
def test_an_incomplete_snapshot_without_network_names_the_files(name, served, tmp_path, monkeypatch):
    from huggingface_hub import constants

    encode_two()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert encode_two().shape == (2, 32)
    (cached(tmp_path) / name).unlink()
    with pytest.raises(LimnerError) as caught:
        encode_two()
    message = str(caught.value)
    assert f"is not complete on this machine (missing: {name}) and its hub cannot be reached" in message
    assert "models--somebody--tiny" in message and "HF_HOME" in message


def test_a_complete_snapshot_needs_no_hub(served):
    encode_two()
    served.api = served.files = (500, {})
    assert encode_two().shape == (2, 32)


def test_missing_shards_and_parts_are_named(good, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(good / "bert", folder)
    assert missing_files(folder) == []
    (folder / "model.safetensors").unlink()
    shards = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": dict(zip("ab", shards, strict=True))})
    )
    (folder / shards[0]).touch()
    assert missing_files(folder) == [shards[1]]
    types = {"": "Transformer", "1_Pooling": "Pooling", "2_Dense": "Dense", "3_Normalize": "Normalize"}
    modules = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in types.items()]
    (folder / "modules.json").write_text(json.dumps(modules))
    expected = ["1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors"]
    assert missing_files(folder) == [shards[1], *expected]


# --- what went wrong --------------------------------------------------------------------------------------------

ANSWERS = {
    "no such model": ((404, {"X-Error-Code": "RepoNotFound"}), r"has no such model \(404\)\. Check the name"),
    "not logged in": ((401, {}), r"has no such model \(401\)\. Check the name; if the model is private, log in"),
    "gated": (
        (403, {"X-Error-Code": "GatedRepo"}),
        r"gives it only to accounts that .* Accept them at http.*/somebody/tiny, then",
    ),
    "forbidden": ((403, {}), r"refuses access to it \(403\)\. Ask its owner .* HF_TOKEN"),
    "too many": ((429, {}), r"refuses further requests for a while \(429\)"),
    "failed": ((500, {}), r"has failed \(500\)\. Try again later"),
    "overloaded": ((503, {}), r"has failed \(503\)\. Try again later"),
    "strange": ((418, {}), r"refuses the request \(418\)"),
}


@pytest.mark.parametrize(("answer", "message"), ANSWERS.values(), ids=ANSWERS)
def test_each_failure_has_its_own_message(answer, message, served):
    served.api = answer
    with pytest.raises(LimnerError, match=f"model 'somebody/tiny' is not on this machine and its hub {message}"):
        encode_two()


@pytest.mark.parametrize("status", [401, 403])
def test_a_gated_model_whose_list_is_public(status, served):
    """As the hub does it: anyone may see the list of files."""
    served.files = (status, {"X-Error-Code": "GatedRepo"})
    with pytest.raises(LimnerError, match=r"Accept them at http.*/somebody/tiny, then log in with 'hf auth login', or"):
        encode_two()


def test_a_token_that_is_not_accepted(served, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_old")
    served.api = (401, {"X-Error-Message": "Invalid credentials in Authorization header"})
    with pytest.raises(LimnerError, match=r"does not accept your access token \(401\)\. Renew the token") as caught:
        encode_two()
    assert "hf_old" not in str(caught.value)


def test_a_hub_that_does_not_answer(served, monkeypatch):
    served.wait = 1.5
    monkeypatch.setattr(hub, "SECONDS", 0.2)
    with pytest.raises(LimnerError, match="takes too long to answer. Try again later"):
        encode_two()


def test_no_network(served, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(LimnerError, match="is not on this machine and its hub cannot be reached. To work offline"):
        encode_two()


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "the disk of .*cache is full. Free some space, or set HF_HOME"),
        (errno.EDQUOT, "the disk of .*cache is full. Free some space, or set HF_HOME"),
        (errno.EROFS, "cache cannot be written. Set HF_HOME"),
        (errno.EACCES, "cache cannot be written. Set HF_HOME"),
    ],
)
def test_a_disk_that_takes_no_files(number, message, served, monkeypatch):
    def full(*_: object, **__: object) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(hub_downloads, "_append", full)
    with pytest.raises(LimnerError, match=message):
        encode_two()


def test_a_name_that_is_none():
    with pytest.raises(LimnerError, match="is neither a folder nor a name on the hub"):
        encoder("transformers", model="a/b/c")
