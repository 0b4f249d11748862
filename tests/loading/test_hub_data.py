"""Data sets of a hub by name, in the common layouts: columns, splits, files fetched, and without the hub."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import limner
import loopback_hub
from limner.core.errors import LimnerError, UnknownName
from limner.core.hub import HubFile, Repository
from limner.datasets import dataset
from limner.datasets.hub_repository import HubData, InParquet, hub_layout

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
hub_library = pytest.importorskip("huggingface_hub")

LISTS, COLUMNS, RETRIEVAL, SHARDS, ZIPPED = (
    f"somebody/{name}" for name in ("lists", "columns", "retrieval", "shards", "zipped")
)


def drawn(number: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 6), (number * 20, 100, 50)).save(buffer, "PNG")
    return buffer.getvalue()


def cell(number: int) -> dict:
    return {"bytes": drawn(number), "path": None}


def table(path: Path, rows: list[dict], **settings) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path, **settings)


def lists(folder: Path) -> None:
    """An image per row with a list of captions and their ids; splits by file, two shards."""
    rows = [
        {"image": cell(n), "caption": [f"caption {n}.{k}" for k in range(2)], "sentids": [f"{n}{k}" for k in range(2)],
         "filename": f"{n}.jpg", "source": "drawn"}
        for n in range(6)
    ]  # fmt: skip
    table(folder / "data" / "test-00000-of-00002.parquet", rows[:2])
    table(folder / "data" / "test-00001-of-00002.parquet", rows[2:4])
    table(folder / "data" / "train-00000-of-00001.parquet", rows[4:])
    card = "configs:\n- config_name: default\n  data_files:\n  - split: train\n    path: data/train-*\n"
    (folder / "README.md").write_text(
        f"---\nlicense: mit\n{card}  - split: test\n    path: data/test-*\n---\n# Drawn\n"
    )


def columns(folder: Path) -> None:
    """A column for each caption, bytes without a struct, configurations by folder, no ids and no card."""
    for config in ("de", "en"):
        rows = [{"img": drawn(n), "caption_0": f"{config} {n}", "caption_1": f"{config} {n} again"} for n in range(3)]
        table(folder / config / "validation-00000-of-00001.parquet", rows)


def retrieval(folder: Path) -> None:
    """Corpus, queries and qrels: images are the corpus, and one query has two matches."""
    table(folder / "corpus" / "test-0.parquet", [{"corpus-id": n, "image": cell(n)} for n in range(4)])
    table(folder / "queries" / "test-0.parquet", [{"query-id": n, "query": f"query {n}"} for n in range(3)])
    pairs = [{"query-id": q, "corpus-id": c, "score": 1} for q, c in ((0, 0), (1, 1), (2, 2), (2, 3))]
    table(folder / "qrels" / "test-0.parquet", pairs)


def shards(folder: Path) -> None:
    """WebDataset, as CLIP_benchmark writes it: a caption per line."""
    for split, shard in (("test", 0), ("test", 1), ("train", 0)):
        (folder / split).mkdir(parents=True, exist_ok=True)
        (folder / split / "nshards.txt").write_text("2")
        with tarfile.open(folder / split / f"{shard}.tar", "w") as tar:
            for name, content in ((f"s{shard}.png", drawn(shard)), (f"s{shard}.txt", b"one\ntwo\n")):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))


def zipped(folder: Path) -> None:
    """A table with lists as JSON, and the images in a zip file."""
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "photos.zip", "w") as archive:
        for n in range(3):
            archive.writestr(f"photos/{n}.png", drawn(n))
    lines = [
        f'"{json.dumps([f"a {n}", f"b {n}"])}","[{2 * n}, {2 * n + 1}]",{split},{n}.png,{n}'.replace('["', '[""')
        .replace('", "', '"", ""')
        .replace('"]"', '""]"')
        for n, split in enumerate(("train", "val", "test"))
    ]
    (folder / "annotations.csv").write_text("raw,sentids,split,filename,img_id\n" + "\n".join(lines) + "\n")


@pytest.fixture
def hub(tmp_path, monkeypatch):
    folders = {}
    for make in (lists, columns, retrieval, shards, zipped):
        folders[f"somebody/{make.__name__}"] = folder = tmp_path / "hub" / make.__name__
        make(folder)
    with loopback_hub.hub_of(datasets=folders) as each:
        each.point(monkeypatch, tmp_path / "cache")
        yield each


LAYOUTS = {
    LISTS: ({}, 6, 12, {"train": 2, "test": 4}),
    COLUMNS: ({"config": "de"}, 3, 6, {"dev": 3}),
    RETRIEVAL: ({}, 4, 3, {}),
    SHARDS: ({}, 3, 6, {"train": 1, "test": 2}),
    ZIPPED: ({}, 3, 6, {"train": 1, "dev": 1, "test": 1}),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_is_found_by_its_name_and_read_again_without_the_hub(hub, name, monkeypatch, capsys):
    options, images, texts, splits = LAYOUTS[name]
    loaded = limner.load(f"hf:{name}", **options)
    assert (len(loaded.images), len(loaded.texts)) == (images, texts)
    assert {split: len(ids) for split, ids in loaded.splits.items()} == splits
    assert loaded.origin == f"hf:{name}@{hub.commit(name, kind='datasets')}"
    assert all(loaded.images.open(row).size == (8, 6) for row in reversed(range(images)))
    assert "downloading" in capsys.readouterr().err
    fetched = len(hub.fetched)
    monkeypatch.setattr(hub_library.constants, "HF_HUB_OFFLINE", True)
    again = limner.load(f"hf:{name}", **options)
    assert again.images.ids == loaded.images.ids and again.texts.values == loaded.texts.values
    assert again.judgements == loaded.judgements and again.origin == loaded.origin
    assert len(hub.fetched) == fetched


def test_captions_ids_and_fields_are_those_of_the_table(hub):
    loaded = limner.load(f"hf:{LISTS}", split="test")
    assert list(loaded.images.ids) == ["0.jpg", "1.jpg", "2.jpg", "3.jpg"]
    assert (list(loaded.texts.ids)[:3], loaded.texts.values[2]) == (["00", "01", "10"], "caption 1.0")
    assert loaded.texts.field("source")[0] == "drawn"
    assert sorted(hub.fetched) == [
        "README.md", "data/test-00000-of-00002.parquet", "data/test-00001-of-00002.parquet",
    ]  # fmt: skip


def test_a_table_with_lists_as_json(hub):
    loaded = limner.load(f"hf:{ZIPPED}")
    assert loaded.texts.values[:2] == ("a 0", "b 0") and list(loaded.texts.ids)[2:4] == ["2", "3"]
    assert loaded.images.ids[0] == "0.png"


def test_corpus_and_queries_have_their_pairs(hub):
    loaded = limner.load(f"hf:{RETRIEVAL}")
    assert loaded.judgements.grade("3", "2") == 1 and len(loaded.judgements) == 4
    assert loaded.texts.values == ("query 0", "query 1", "query 2")


def test_an_image_that_comes_once_per_caption_is_one_image(hub, tmp_path):
    hub.datasets = {"somebody/repeated": tmp_path / "repeated"}
    rows = [{"image": cell(n // 2), "text": f"text {n}"} for n in range(4)]
    table(tmp_path / "repeated" / "train.parquet", rows)
    loaded = limner.load("hf:somebody/repeated")
    assert (len(loaded.images), len(loaded.texts), len(loaded.judgements)) == (2, 4, 4)


def test_a_revision_is_read_and_recorded(hub, tmp_path):
    table(tmp_path / "old" / "train.parquet", [{"image": cell(1), "text": "old", "file_name": "1.png"}])
    hub.datasets = {LISTS: {"main": tmp_path / "hub" / "lists", "v1": tmp_path / "old"}}
    for spec, options in ((f"hf:{LISTS}@v1", {}), (f"hf:{LISTS}", {"revision": "v1"})):
        assert limner.load(spec, **options).texts.values == ("old",)
    with pytest.raises(LimnerError, match="expected one revision"):
        limner.load(f"hf:{LISTS}@v1", revision="main")
    with pytest.raises(LimnerError, match="no revision 'v2'"):
        limner.load(f"hf:{LISTS}@v2")


def test_what_the_hub_converted_is_read_where_there_is_only_code(hub, tmp_path, monkeypatch):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "drawn.py").write_text("raise SystemExit")
    table(tmp_path / "converted" / "TEST" / "test" / "0000.parquet", [{"image": cell(1), "text": "x"}])
    hub.datasets = {"somebody/code": {"main": tmp_path / "code", "refs/convert/parquet": tmp_path / "converted"}}
    for offline in (False, True):
        monkeypatch.setattr(hub_library.constants, "HF_HUB_OFFLINE", offline)
        assert limner.load("hf:somebody/code").splits.keys() == {"test"}
    monkeypatch.setattr(hub_library.constants, "HF_HUB_OFFLINE", False)
    hub.datasets = {"somebody/bare": tmp_path / "code"}
    with pytest.raises(LimnerError, match=r"no files that limner reads: expected Parquet.*drawn.py"):
        limner.load("hf:somebody/bare")


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("hf:somebody/list", {}, "its hub has no such data set .* 'somebody/lists'|no such data set"),
        ("hf:lists", {}, "expected hf:OWNER/NAME"),
        (f"hf:{COLUMNS}", {}, r"has 2 configurations \('de', 'en'\): choose one with config=NAME"),
        (f"hf:{COLUMNS}", {"config": "fr"}, "unknown configuration 'fr'"),
        (f"hf:{LISTS}", {"split": "tset"}, "unknown split 'tset' of 'somebody/lists': did you mean 'test'"),
        (f"hf:{LISTS}", {"columns": {"caption": "captoin"}}, "unknown column 'captoin' .* did you mean 'caption'"),
        ("hf", {}, "'hf' needs a path"),
    ],
)
def test_what_is_wrong_is_said(hub, spec, options, message):
    with pytest.raises(LimnerError, match=message):
        limner.load(spec, **options)


def test_without_the_hub_and_without_a_copy(hub, monkeypatch):
    monkeypatch.setattr(hub_library.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(LimnerError, match="is not on this machine and its hub cannot be reached. Fetch it once"):
        limner.load(f"hf:{LISTS}")


def test_a_known_name_without_the_hub_says_where_else_to_get_it(hub, monkeypatch):
    monkeypatch.setattr(hub_library.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(LimnerError, match=r"its hub cannot be reached.*Or from a folder, as 'flickr8k:DIR': Ask for"):
        limner.load("flickr8k")


def test_without_the_hub_a_part_is_not_taken_for_the_whole(hub, monkeypatch):
    limner.load(f"hf:{LISTS}", split="test")
    monkeypatch.setattr(hub_library.constants, "HF_HUB_OFFLINE", True)
    assert len(limner.load(f"hf:{LISTS}", split="test").images) == 4
    with pytest.raises(LimnerError, match="is only in part on this machine"):
        limner.load(f"hf:{LISTS}")


def test_a_known_name_is_fetched_and_its_size_compared(hub, tmp_path):
    known = dataset("flickr8k").hub
    hub.datasets = {known: tmp_path / "hub" / "shards"}
    loaded = limner.load("flickr8k")
    assert (loaded.name, list(loaded.images.ids)) == ("flickr8k", ["test/s0", "test/s1"])
    assert loaded.splits == {"test": ("test/s0", "test/s1")} and len(loaded.test.texts) == 4
    assert sorted(hub.fetched) == ["test/0.tar", "test/1.tar"]
    assert "flickr8k has 2 images and 4 texts here, not a published size (8,091 and 40,455" in loaded.warnings[-1]
    assert len(limner.load("flickr8k", split="train").images) == 1


def test_a_report_records_the_commit(hub):
    loaded = limner.load(f"hf:{LISTS}", split="test")
    scores = limner.Scores.from_matrix(np.zeros((4, 8)), loaded.images.ids, loaded.texts.ids)
    report = limner.evaluate(scores, loaded, measures="R@1")
    assert report.settings["data"] == f"hf:{LISTS}@{hub.commit(LISTS, kind='datasets')}"


def test_rows_are_read_in_any_order_and_by_other_processes(tmp_path):
    table(tmp_path / "x.parquet", [{"image": cell(n % 12)} for n in range(100)], row_group_size=40)
    images = [InParquet(str(tmp_path / "x.parquet"), row, "image", str(row)) for row in range(100)]
    for row in (99, 0, 41, 39, 40, 3, 98):
        assert pickle.loads(pickle.dumps(images[row])).content() == drawn(row % 12)


def test_layouts_by_names_alone():
    layout = hub_layout(["README.md", "en/test/0000.parquet", "de/test/0000.parquet"], {})
    assert layout.configs == {"de": {"test": ("de/test/0000.parquet",)}, "en": {"test": ("en/test/0000.parquet",)}}
    assert hub_layout(["train-00000-of-00001.parquet", "valid.parquet"], {}).configs == {
        "default": {"train": ("train-00000-of-00001.parquet",), "dev": ("valid.parquet",)}
    }
    assert hub_layout(["a.txt"], {}) is None
    with pytest.raises(UnknownName):
        layout.chosen("fr", name="x/y")


def test_a_command_of_its_own_process_fetches_and_reads_again_without_the_hub(hub, tmp_path):
    command = [sys.executable, "-m", "limner", "--json", "data", "describe", f"hf:{LISTS}", "-O", "split=test"]
    for offline in ("", "1"):
        environment = hub.environment(tmp_path / "home", HF_HUB_OFFLINE=offline)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        about = json.loads(done.stdout)
        assert (about["images"], about["texts"]) == (4, 8)
        assert about["origin"] == f"hf:{LISTS}@{hub.commit(LISTS, kind='datasets')}"
    wrong = subprocess.run(
        [*command[:-3], "hf:some body/x"], env=environment, capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 3 and "is not a name on the hub" in wrong.stderr


def test_class_labels_become_a_text_for_each_class(hub, tmp_path):
    features = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": ["red_ball", "cube"]}}
    described = {"huggingface": json.dumps({"info": {"features": features}})}
    rows = pa.Table.from_pylist([{"image": cell(n), "label": n % 2} for n in range(4)]).replace_schema_metadata(
        described
    )
    (tmp_path / "classes").mkdir()
    pq.write_table(rows, tmp_path / "classes" / "test-00000-of-00001.parquet")
    hub.datasets = {"somebody/classes": tmp_path / "classes"}
    loaded = limner.load("hf:somebody/classes", templates=["a photo of a {}.", "a {}."])
    assert (list(loaded.texts.ids), loaded.texts.values[0]) == (["red_ball", "cube"], "a photo of a red ball.")
    assert loaded.texts.field("prompts")[1] == ("a photo of a cube.", "a cube.")
    assert (len(loaded.judgements), loaded.images.open(3).size) == (4, (8, 6))


def test_shards_with_class_names_become_a_text_for_each_class(hub, tmp_path):
    folder = tmp_path / "named"
    (folder / "test").mkdir(parents=True)
    (folder / "classnames.txt").write_text("dog\ncat\n")
    (folder / "zeroshot_classification_templates.txt").write_text("a photo of a {c}.\n")
    with tarfile.open(folder / "test" / "0.tar", "w") as tar:
        for number in range(3):
            for name, content in ((f"s{number}.png", drawn(number)), (f"s{number}.cls", str(number % 2).encode())):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    hub.datasets = {"somebody/named": folder}
    loaded = limner.load("hf:somebody/named")
    assert loaded.texts.values == ("a photo of a dog.", "a photo of a cat.")
    assert loaded.judgements.grade("s2", "dog") == 1 and len(loaded.images) == 3


def test_no_file_outside_of_the_repository_is_read():
    files = tuple(HubFile(path, 1, "x") for path in ("a.parquet", "../b.parquet", "/c.parquet", "d/../../e.parquet"))
    assert HubData(Repository("somebody/odd", "main", "0" * 40, files, "dataset")).paths == ["a.parquet"]
