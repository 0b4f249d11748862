"""What a server keeps: a second start trains nothing, changed data trains again, and a damaged file is made again."""

from __future__ import annotations

import logging

import pytest
from starlette.testclient import TestClient

import limner
import websites
from limner.systems import histograms
from limner.web import make_app
from websites import patient


@pytest.fixture
def trained(monkeypatch):
    """How often a system was trained, a part scored, and a correction gathered."""
    from limner.systems.system_spec import SystemSpec
    from limner.web import ready_system, searching

    counts = {"trained": 0, "scored": 0, "gathered": 0}

    def counting(owner, method, name):
        original = getattr(owner, method)

        def counted(*given, **options):
            counts[name] += 1
            return original(*given, **options)

        monkeypatch.setattr(owner, method, counted)

    counting(SystemSpec, "trained", "trained")
    counting(ready_system, "scores_of_model", "scored")
    counting(searching, "_bank", "gathered")
    return counts


ADDRESS = "/api/search?q=a red fish&fix=csls&k=20"


def started(cache, store, collection=None, systems=("colours",)):
    """The answers of a server that has just started."""
    app = make_app([collection or websites.world()], systems=systems, store=store / "answers.db", cache=cache)
    visitor = TestClient(app, base_url="http://localhost", follow_redirects=False)
    return patient(visitor, ADDRESS).json()


def test_a_second_start_trains_nothing_and_gives_the_same_answers(tmp_path, trained):
    first = started(tmp_path / "cache", tmp_path)
    assert trained == {"trained": 1, "scored": 1, "gathered": 1}
    assert started(tmp_path / "cache", tmp_path) == first
    assert trained == {"trained": 1, "scored": 1, "gathered": 1}
    assert started(None, tmp_path) == first
    assert trained["trained"] == 2, "nothing is kept without a cache folder"


def changed(world, part):
    """The same collection with one thing changed."""
    texts, splits, judgements = world.texts, world.splits, world.judgements
    images = world.images
    if part == "a caption":
        texts = limner.Items(texts.ids, ["another caption", *texts.values[1:]], texts.fields, kind="text")
    elif part == "an image":
        images = limner.Items(images.ids, [websites.picture(), *images.values[1:]], images.fields)
    elif part == "the splits":
        splits = {**splits, "train": splits["train"][1:]}
    return limner.Collection(world.name, images, texts, judgements, splits, world.extra)


@pytest.mark.parametrize("part", ["a caption", "an image", "the splits"])
def test_changed_data_is_trained_on_again(tmp_path, trained, part):
    started(tmp_path / "cache", tmp_path)
    started(tmp_path / "cache", tmp_path, changed(websites.world(), part))
    assert trained == {"trained": 2, "scored": 2, "gathered": 2}


def test_other_options_and_another_version_are_trained_again(tmp_path, trained, monkeypatch):
    from limner.web import kept_systems

    started(tmp_path / "cache", tmp_path)
    started(tmp_path / "cache", tmp_path, systems={"colours": "colours(dimensions=4)"})
    assert trained["trained"] == 2
    monkeypatch.setattr(kept_systems, "VERSION", "99")
    started(tmp_path / "cache", tmp_path)
    assert trained["trained"] == 3


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "vectors.npz", "statistics.npz"])
@pytest.mark.parametrize("damage", ["a changed byte", "cut short", "empty"])
def test_a_damaged_file_is_made_again_and_the_log_says_so(tmp_path, trained, caplog, monkeypatch, name, damage):
    monkeypatch.setattr(logging.getLogger("limner.web"), "filters", [])  # a server of another test limits the log
    first = started(tmp_path / "cache", tmp_path)
    (file,) = (tmp_path / "cache").rglob(name)
    data = bytearray(file.read_bytes())
    middle = len(data) // 2
    data[middle] ^= 0xFF
    file.write_bytes({"a changed byte": bytes(data), "cut short": bytes(data[:middle]), "empty": b""}[damage])
    before = dict(trained)
    with caplog.at_level(logging.WARNING, "limner.web"):
        assert started(tmp_path / "cache", tmp_path) == first
    step = {"vectors.npz": "scored", "statistics.npz": "gathered"}.get(name, "trained")
    assert trained == {**before, step: before[step] + 1}
    assert "is damaged and is made again" in caplog.text and str(file.parent) in caplog.text
    caplog.clear()
    assert started(tmp_path / "cache", tmp_path) == first and "damaged" not in caplog.text


def test_own_code_is_not_kept_and_a_saved_model_keeps_its_vectors(tmp_path, trained):
    for _ in range(2):
        started(tmp_path / "cache", tmp_path, systems={"mine": f"{__name__}:own_system"})
    assert trained["trained"] == 2 and not (tmp_path / "cache").exists()
    limner.train(websites.world(), "colours").save(tmp_path / "model")
    first = started(tmp_path / "cache", tmp_path, systems={"mine": str(tmp_path / "model")})
    scored = trained["scored"]
    assert started(tmp_path / "cache", tmp_path, systems={"mine": str(tmp_path / "model")}) == first
    assert trained["scored"] == scored


def own_system(collection, **options):
    """A system of one's own."""
    return histograms.train_colours(collection, **options)


def test_a_folder_that_cannot_be_written_only_keeps_nothing(tmp_path, trained):
    (tmp_path / "cache").write_text("a file where a folder is expected")
    assert started(tmp_path / "cache", tmp_path)["columns"]


def test_the_steps_of_training_are_named_with_their_counts(tmp_path, monkeypatch):
    """A page shows what the server does: the closed form takes most of the time on a large collection."""
    from limner.web.jobs import Job

    steps = []
    original = Job.step
    monkeypatch.setattr(
        Job, "step", lambda job, *given, **more: steps.append(given[0]) or original(job, *given, **more)
    )
    started(tmp_path / "cache", tmp_path)
    assert steps == [
        "reading the images of scenes", "training colours on 36 images", "solving for the joint space",
        "scoring 60 images with colours",
    ]  # fmt: skip


def test_the_parts_of_a_collection_are_counted_and_cut_once(tmp_path, monkeypatch):
    visitor = websites.client(tmp_path / "answers.db")
    patient(visitor, "/search?q=dog&split=train")
    calls = []
    original = limner.Collection.restrict
    monkeypatch.setattr(
        limner.Collection,
        "restrict",
        lambda self, *given, **more: calls.append(given) or original(self, *given, **more),
    )
    for address in ("/search", "/search?q=dog", "/search?q=dog&split=train", "/search?q=dog -red&split=train"):
        assert patient(visitor, address).status_code == 200
    assert calls == []
