"""The hub on this machine answers the hub's own library as the real one does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import loopback_hub

hub_library = pytest.importorskip("huggingface_hub")

MODEL, DATA = "somebody/tiny", "somebody/flowers"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A model with two revisions, and a data set."""
    for name, content in {
        "new/config.json": b"{}", "new/model.safetensors": bytes(range(256)) * 40, "old/config.json": b"[]",
        "data/README.md": b"flowers", "data/data/train-0.parquet": b"x" * 5_000, "data/data/test-0.parquet": b"y",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    models = {MODEL: {"main": tmp_path / "new", "v1": tmp_path / "old"}, "somebody/closed": tmp_path / "new"}
    with loopback_hub.hub_of(models, datasets={DATA: tmp_path / "data"}) as each:
        each.point(monkeypatch, tmp_path / "cache")
        yield each


def test_a_snapshot_of_a_model(hub, tmp_path):
    folder = hub_library.snapshot_download(MODEL)
    assert hub.cached(tmp_path / "cache", MODEL).samefile(folder)
    assert sorted(hub.fetched) == ["config.json", "model.safetensors"]
    assert Path(folder, "model.safetensors").read_bytes() == (tmp_path / "new" / "model.safetensors").read_bytes()


def test_revisions_are_names_and_commits(hub):
    for revision in ("v1", hub.commit(MODEL, "v1")):
        assert hub_library.hf_hub_download(MODEL, "config.json", revision=revision).endswith(
            f"{hub.commit(MODEL, 'v1')}/config.json"
        )
    with pytest.raises(hub_library.errors.RevisionNotFoundError):
        hub_library.snapshot_download(MODEL, revision="v2")


def test_sizes_and_hashes_of_files(hub):
    files = {each.rfilename: each for each in hub_library.model_info(MODEL, files_metadata=True).siblings}
    assert files["model.safetensors"].size == 10_240 and files["model.safetensors"].lfs.sha256
    assert files["config.json"].size == 2 and files["config.json"].lfs is None
    paths = hub_library.HfApi().get_paths_info(MODEL, ["config.json", "none.json"])
    assert [each.path for each in paths] == ["config.json"]


def test_a_data_set(hub):
    assert hub_library.dataset_info(DATA).sha == hub.commit(DATA, kind="datasets")
    tree = hub_library.HfApi().list_repo_tree(DATA, "data", repo_type="dataset")
    assert [(each.path, each.size) for each in tree] == [("data/test-0.parquet", 1), ("data/train-0.parquet", 5_000)]
    folder = hub_library.snapshot_download(DATA, repo_type="dataset", allow_patterns="data/test*")
    assert hub.fetched == ["data/test-0.parquet"] and DATA.replace("/", "--") in folder


def test_parts_of_a_file(hub):
    with hub_library.HfFileSystem().open(f"datasets/{DATA}/data/train-0.parquet", block_size=100) as file:
        file.seek(4_900)
        assert file.read() == b"x" * 100
    assert hub.starts and min(hub.starts) >= 4_000


def test_gated_private_and_missing(hub):
    hub.gated.add("somebody/closed")
    with pytest.raises(hub_library.errors.GatedRepoError, match="401"):
        hub_library.hf_hub_download("somebody/closed", "config.json")
    with pytest.raises(hub_library.errors.GatedRepoError, match="403"):
        hub_library.hf_hub_download("somebody/closed", "config.json", token="hf_other")
    assert hub_library.hf_hub_download("somebody/closed", "config.json", token=loopback_hub.TOKEN)
    with pytest.raises(hub_library.errors.RepositoryNotFoundError):
        hub_library.model_info("somebody/none")
    hub.private.add(MODEL)
    with pytest.raises(hub_library.errors.RepositoryNotFoundError):
        hub_library.model_info(MODEL)
    assert hub_library.model_info(MODEL, token=loopback_hub.TOKEN).id == MODEL


def test_a_file_that_breaks_off_is_continued(hub):
    hub.breaks, hub.break_after = 1, 4_096
    hub_library.hf_hub_download(MODEL, "model.safetensors")
    assert hub.fetched == ["model.safetensors"] * 2 and len(hub.starts) == 2


def test_a_search_by_name(hub):
    assert [each.id for each in hub_library.list_models(search="Tiny")] == [MODEL]


def test_another_process(hub, tmp_path):
    code = f"import huggingface_hub; print(huggingface_hub.snapshot_download({MODEL!r}))"
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, env=hub.environment(tmp_path / "home"), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(hub.cached(tmp_path / "home" / "hf" / "hub", MODEL))
