"""Finding the loader: names, paths, functions of your own."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pictures import png, put

from limner.core.errors import LimnerError, UnknownName
from limner.datasets import DATASETS, dataset, datasets, detect, load

CSV = "image,caption\na.png,x\n"


@pytest.mark.parametrize("entry", datasets(), ids=lambda entry: entry.name)
def test_every_entry_names_a_loader_of_the_one_shape(entry):
    module, _, name = entry.loader.partition(":")
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is not there yet")
    parameters = inspect.signature(getattr(importlib.import_module(module), name)).parameters
    assert parameters["split"].kind is inspect.Parameter.KEYWORD_ONLY
    options = list(parameters.values())[entry.needs_path :]
    assert all(p.kind is inspect.Parameter.KEYWORD_ONLY or p.default is not p.empty for p in options)
    assert entry.description
    assert entry.fetch.endswith(".")


def test_names_are_unique():
    assert len({entry.name for entry in datasets()}) == len(DATASETS)
    assert dataset("coco").loader.endswith("load_captions")


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({"text/Flickr8k.token.txt": ""}, "flickr8k"),
        ({"Flickr8k.token.txt": "", "captions.csv": ""}, "flickr8k"),
        ({"results_20130124.token": ""}, "flickr30k"),
        ({"dataset_flickr30k.json": ""}, "karpathy"),
        ({"test_caps.txt": "", "test_ids.txt": ""}, "precomp"),
        ({"karpathy_test_5k.tsv": "", "captions_val2017.json": ""}, "coco-5k"),
        ({"annotations/captions_val2017.json": ""}, "coco"),
        ({"wit_v1.train.all-00000-of-00010.tsv.gz": ""}, "wit"),
        ({"train/ZIP.unzipped_train/train-00000-of-00005.tsv": ""}, "wit"),
        ({"train.en": "", "train.txt": ""}, "multi30k"),
        ({"captions.csv": "", "a.jpg": ""}, "folder"),
        ({"chinese_human.txt": ""}, "flickr8k-cn"),
    ],
)
def test_a_folder_is_told_by_its_files(tmp_path, files, name):
    for file, content in files.items():
        put((tmp_path / file).parent)
        (tmp_path / file).write_text(content)
    assert detect(tmp_path).name == name


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("captions.csv", "table"),
        ("x.jsonl", "table"),
        ("x.parquet", "table"),
        ("captions.txt", "table"),
        ("x.tsv.gz", "table"),
        ("x.qrels", "qrels"),
        ("dataset_coco.json", "karpathy"),
        ("captions_val2017.json", "coco"),
        ("Flickr8k.token.txt", "flickr8k"),
        ("test_caps.txt", "precomp"),
    ],
)
def test_a_file_is_told_by_its_name(tmp_path, file, name):
    (tmp_path / file).write_text("")
    assert detect(tmp_path / file).name == name


def test_images_with_the_table_beside(tmp_path):
    put(tmp_path / "photos", a__png=png())
    put(tmp_path, captions__csv=CSV)
    assert detect(tmp_path / "photos").name == "folder"
    assert load(str(tmp_path / "photos")).images.open(0).size == (4, 3)


def test_a_name_and_a_path(tmp_path):
    put(tmp_path, odd__txt=CSV)
    assert load(f"table:{tmp_path / 'odd.txt'}").texts.values == ("x",)
    assert load(tmp_path / "odd.txt").texts.values == ("x",)


def test_a_bare_path_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(put(tmp_path, captions__csv=CSV))
    assert load("captions.csv").name == "captions"


OWN = """
from limner.datasets.caption_tables import load_table
def mine(path, *, split=None, shout=False):
    return load_table(path, split=split)
def free(*, split=None, **anything):
    return load_table("captions.csv", split=split)
def open_ended(path=None, *, split=None):
    return path
"""


@pytest.fixture
def own_loader(tmp_path, monkeypatch):
    put(tmp_path, my_sets__py=OWN, captions__csv=CSV)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("my_sets", None)


def test_a_loader_of_ones_own(own_loader):
    assert load("my_sets:mine:captions.csv", shout=True).texts.values == ("x",)
    assert load("my_sets:free:", whatever=1).texts.values == ("x",)
    assert load("my_sets:open_ended:") is None
    with pytest.raises(LimnerError, match="the loader 'my_sets:mine' needs a path: write 'my_sets:mine:PATH'"):
        load("my_sets:mine:")
    with pytest.raises(UnknownName, match="unknown option 'shouts' of 'my_sets:mine': did you mean 'shout'"):
        load("my_sets:mine:captions.csv", shouts=True)


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("flickr8", UnknownName, "unknown data set 'flickr8': did you mean 'flickr8k'"),
        ("flicker8k:DIR", UnknownName, "unknown data set 'flicker8k'"),
        ("multi30k", LimnerError, "'multi30k' needs a path: write 'multi30k:DIR'. The multi30k/dataset"),
        ("flickr8k:nowhere", LimnerError, "no folder with Flickr8k at nowhere"),
        (
            "no/such.csv",
            LimnerError,
            "no file or folder no/such.csv, and no data set of that name: expected one of scenes, flickr8k",
        ),
        ("no.such.module:f", LimnerError, "data set 'no.such.module:f': there is no module 'no.such.module'"),
        (
            "json.decoder:nothing:x",
            LimnerError,
            "data set 'json.decoder:nothing': module 'json.decoder' has no 'nothing'",
        ),
    ],
)
def test_what_cannot_be_found(spec, error, message):
    with pytest.raises(error, match=re.escape(message)):
        load(spec)


def test_a_folder_of_nothing_known(tmp_path):
    with pytest.raises(LimnerError, match="not a format that limner recognises; give its format as NAME:"):
        load(put(tmp_path, readme__md="x"))


def test_an_option_of_another_loader_is_refused(tmp_path):
    file = tmp_path / "dataset_x.json"
    file.write_text(json.dumps({"images": []}))
    with pytest.raises(UnknownName, match="unknown option 'captions_per_image' of 'karpathy'"):
        load(file, captions_per_image=5)


def test_the_real_folders(shared_data):
    named = {
        "flickr8k": "flickr8k",
        "coco": "coco-5k",
        "coco-mini": "coco",
        "wit-format/wit": "wit",
        "wit-format/wit_kaggle": "wit",
    }
    assert {path: detect(shared_data / path).name for path in named} == named


def test_the_page_lists_every_data_set():
    page = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text(encoding="utf-8")
    assert re.findall(
        r"^\| `([a-z0-9-]+)` \| [^|]+ \| [^|]+ \|$", page.split("## Columns of a table")[0], re.MULTILINE
    ) == list(DATASETS)


def test_names_stay_light():
    code = "import sys, limner.datasets; print([m for m in ('numpy', 'pyarrow', 'PIL', 'scipy') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2] / "src"
    )
    assert done.stdout.strip() == "[]"


def test_a_loader_that_leaves_the_split_to_load(tmp_path, monkeypatch):
    """A loader of your own that returns everything must not make the training images part of the test."""
    (tmp_path / "loaders_of_mine.py").write_text(
        "from limner import Collection, Items, Judgements\n"
        "def everything(path, *, split=None):\n"
        "    pairs = Judgements.from_pairs([('a', 't0'), ('b', 't1')])\n"
        "    texts = Items(['t0', 't1'], ['one', 'two'], kind='text')\n"
        "    return Collection('mine', Items(['a', 'b'], ['a', 'b']), texts, pairs, {'train': ['a'], 'test': ['b']})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert list(load("loaders_of_mine:everything:x", split="test").images.ids) == ["b"]
    assert list(load("loaders_of_mine:everything:x").images.ids) == ["a", "b"]
    with pytest.raises(UnknownName, match="unknown split 'dev' of 'mine'"):
        load("loaders_of_mine:everything:x", split="dev")
