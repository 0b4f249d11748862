"""Known data sets by their bare names, from a hub on loopback in the layouts of their repositories."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import limner
import loopback_hub
from limner.cli import app
from limner.core.errors import LimnerError
from limner.datasets import dataset

hub_library = pytest.importorskip("huggingface_hub", reason="hub data sets need huggingface_hub")
pa = pytest.importorskip("pyarrow", reason="hub data sets are Parquet")
pq = pytest.importorskip("pyarrow.parquet")

XM3600, SUGARCREPE, FLICKR30K = (dataset(name).hub for name in ("crossmodal-3600", "sugarcrepe", "flickr30k"))


def cell(number: int) -> dict:
    buffer = io.BytesIO()
    Image.new("RGB", (8, 6), (number * 20, 100, 50)).save(buffer, "PNG")
    return {"bytes": buffer.getvalue(), "path": None}


def table(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


def crossmodal(folder):
    """A file for each language, all with the same images, as floschne/xm3600 has them."""
    for language in ("de", "en", "fil"):
        rows = [
            {"image_id": f"00{n}", "image_locale": "en", "captions": [f"{language} {n} {k}" for k in range(2)],
             "captions_tokenized": ["x", "x"], "captions_tokenized_lowercase": ["x", "x"], "image": cell(n)}
            for n in range(3)
        ]  # fmt: skip
        table(folder / f"data/{language}-00000-of-00001.parquet", rows)
    return folder


def sugarcrepe(folder):
    """Rows with an image, a right and a wrong caption; an image may come again."""
    rows = [{"images": cell(n // 2), "caption": f"right {n}", "negative_caption": f"wrong {n}"} for n in range(4)]
    table(folder / "data/train-00000-of-00001.parquet", rows)
    return folder


def captioned(folder, number):
    rows = [
        {"image": cell(n), "caption": [f"{n} {k}" for k in range(2)], "filename": f"{n}.jpg"} for n in range(number)
    ]
    table(folder / "data/test-00000-of-00001.parquet", rows)
    return folder


@pytest.fixture
def hub(tmp_path, monkeypatch):
    made = {
        XM3600: {"": crossmodal(tmp_path / "xm")},
        SUGARCREPE: {"": sugarcrepe(tmp_path / "crepe")},
        FLICKR30K: {"": captioned(tmp_path / "f30k", 3), "main": captioned(tmp_path / "changed", 2)},
    }
    repositories = {
        spec.partition("@")[0]: {revision or spec.partition("@")[2]: folder for revision, folder in folders.items()}
        for spec, folders in made.items()
    }
    with loopback_hub.hub_of(datasets=repositories) as each:
        each.point(monkeypatch, tmp_path / "cache")
        yield each


def test_crossmodal_by_its_name_is_that_of_its_own_files(hub, tmp_path, monkeypatch):
    loaded = limner.load("crossmodal-3600")
    rows = [
        {"image/key": f"00{n}", "image/locale": "en",
         **{each: {"caption": [f"{each} {n} {k}" for k in range(2)]} for each in ("de", "en", "fil")}}
        for n in range(3)
    ]  # fmt: skip
    (tmp_path / "captions.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    expected = limner.load(f"crossmodal-3600:{tmp_path}")
    assert loaded.images.ids == expected.images.ids and set(loaded.texts.ids) == set(expected.texts.ids)
    assert dict(zip(loaded.texts.ids, loaded.texts.values, strict=True)) == dict(
        zip(expected.texts.ids, expected.texts.values, strict=True)
    )
    assert len(loaded.judgements) == len(expected.judgements) == 18 and loaded.splits == expected.splits
    assert loaded.texts.field("language")[:2] == ("de", "de") and loaded.images.field("locale")[0] == "en"
    assert loaded.images.open(2).size == (8, 6) and loaded.origin.startswith("hf:floschne/xm3600@")
    assert "not a published size (3,600 and 261,375)" in loaded.warnings[0]
    monkeypatch.setattr(hub_library.constants, "HF_HUB_OFFLINE", True)
    assert limner.load("crossmodal-3600", split="test").texts.values == loaded.texts.values


def test_only_the_languages_that_are_named_are_fetched(hub, tmp_path):
    loaded = limner.load("crossmodal-3600", languages=["en"])
    assert hub.fetched == ["data/en-00000-of-00001.parquet"] and len(loaded.texts) == 6
    np.save(tmp_path / "S.npy", np.random.default_rng(0).normal(size=(3, 12)))
    words = ["evaluate", "languages:crossmodal-3600", "-O", "languages=de,en", "--scores", str(tmp_path / "S.npy")]
    done = CliRunner().invoke(app, [*words, "--json"])
    assert {line["language"] for line in json.loads(done.stdout)["lines"]} >= {"de", "en"}, done.output
    with pytest.raises(LimnerError, match="unknown language 'xx'"):
        limner.load("crossmodal-3600", languages=["xx"])
    with pytest.raises(LimnerError, match="unknown split 'train'"):
        limner.load("crossmodal-3600", split="train")


def test_sugarcrepe_by_its_name_has_wrong_captions_without_images(hub):
    loaded = limner.load("sugarcrepe")
    assert (len(loaded.images), len(loaded.texts), len(loaded.judgements)) == (2, 8, 4)
    matched = [loaded.judgements.T.relevant_to(key) for key in loaded.texts.ids]
    assert all(
        bool(images) == text.startswith("right") for images, text in zip(matched, loaded.texts.values, strict=True)
    )
    assert loaded.images.open(1).size == (8, 6)
    assert loaded.origin.startswith("hf:mteb/SUGARCREPE_fmt@") and list(loaded.splits) == ["test"]
    with pytest.raises(LimnerError, match="unknown split 'train'"):
        limner.load("sugarcrepe", split="train")


def test_sugarcrepe_by_its_name_is_a_probe(hub):
    done = CliRunner().invoke(app, ["explain", "probe", "sugarcrepe", "--json"])
    assert done.exit_code == 0, done.output
    assert {line["cases"] for line in json.loads(done.stdout)["lines"]} == {4}
    refused = CliRunner().invoke(app, ["explain", "probe", "sugarcrepe", "-O", "images=."])
    assert refused.exit_code == 2 and "leave it out" in refused.output


def test_another_commit_of_a_known_data_set_is_used_with_a_warning(hub):
    known = limner.load("flickr30k")
    assert len(known.images) == 3 and not any("known commit" in each for each in known.warnings)
    other = limner.load("flickr30k", revision="main")
    commit = FLICKR30K.partition("@")[2]
    assert len(other.images) == 2 and f"is not the known commit of flickr30k, {commit}" in other.warnings[-2]
    done = CliRunner().invoke(app, ["data", "describe", "flickr30k", "-O", "revision=main"])
    assert done.exit_code == 0 and "not the known commit" in done.output


@pytest.mark.parametrize(("name", "column"), [("crossmodal-3600", "captions"), ("sugarcrepe", "images")])
def test_a_repository_that_has_changed_is_refused_in_words(hub, name, column):
    for repository in hub.datasets.values():
        for folder in repository.values():
            for file in folder.rglob("*.parquet"):
                kept = pq.read_table(file)
                pq.write_table(kept.drop_columns([each for each in (column,) if each in kept.column_names]), file)
    with pytest.raises(LimnerError, match=f"unknown column '{column}'") as error:
        limner.load(name)
    assert f"Or from a folder, as '{name}:DIR'" in str(error.value)


def test_a_data_set_without_a_known_copy_on_the_hub_says_what_to_fetch(hub):
    with pytest.raises(LimnerError, match="knows no copy of it on the hub.*Cross-lingual-Test-Dataset-XTD10"):
        limner.load("xtd10")


@pytest.mark.parametrize("name", ["flickr30k", "xtd10", "crossmodal-3600", "sugarcrepe"])
def test_a_known_name_says_where_it_comes_from_and_under_which_terms(name):
    listed = CliRunner().invoke(app, ["list", "datasets", name]).output
    assert "Terms: " in listed and dataset(name).fetch[:40] in " ".join(listed.split())
