"""Images that do not open: left out of an index with a list, named by an evaluation. Texts that are all empty."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import limner
from limner import Embeddings, LimnerError
from limner.cli import app
from limner.encoders import encoded
from limner.encoders.cache import Cached
from limner.encoders.contract import refuse_blank
from limner.search import open_index
from limner.search.items import encoded_readable, unreadable

WORLD = ("scenes", "-O", "images=60")


def run(*words, status=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == status, done.output
    return done


def photo(seed: int, form: str = "JPEG") -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (40, 60, 3), dtype=np.uint8)).save(out, form)
    return out.getvalue()


def too_long() -> bytes:
    out = io.BytesIO()
    Image.new("L", (20_000, 1)).save(out, "PNG")
    return out.getvalue()


BROKEN = {
    "empty.jpg": b"",
    "truncated.jpg": photo(1)[:900],
    "._photo-1.jpg": b"\0\5\26\7\0\2\0\0Mac OS X        " + bytes(80),
    "page.jpg": b"<html><body>404 not found</body></html>",
    "line.png": too_long(),
}
"""Files as they are found among photographs."""


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(6):
        (folder / f"photo-{number}.jpg").write_bytes(photo(number))
    for name, data in BROKEN.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.npz"
    limner.train(limner.load("scenes", images=60), dimensions=8).save(path)
    return path


# --- an index -----------------------------------------------------------------------------------------------------


def test_an_index_leaves_out_images_that_do_not_open(tmp_path, photos, model):
    pytest.importorskip("lancedb")
    words = ("index", tmp_path / "i", "--items", photos, "--model", model, "--json")
    done = run(*words)
    document = json.loads(done.stdout)
    assert (document["added"], document["items"], set(document["left out"])) == (6, 6, set(BROKEN))
    assert "warning: 5 of 11 images do not open and are left out" in done.stderr
    assert all(name in done.stderr for name in BROKEN)
    resumed = json.loads(run(*words, "--resume").stdout)
    assert (resumed["added"], resumed["items"], set(resumed["left out"])) == (0, 6, set(BROKEN))
    (photos / "page.jpg").write_bytes(photo(77))
    assert json.loads(run(*words, "--resume").stdout)["added"] == 1
    assert sorted(open_index(tmp_path / "i").ids) == ["page.jpg", *(f"photo-{n}.jpg" for n in range(6))]


def test_without_an_image_that_opens_there_is_no_index(tmp_path, photos, model):
    pytest.importorskip("lancedb")
    for number in range(6):
        (photos / f"photo-{number}.jpg").unlink()
    done = run("index", tmp_path / "i", "--items", photos, "--model", model, status=3)
    assert "none of the 5 images opens: nothing is indexed" in done.stderr


def test_vectors_of_a_folder_keep_the_ids_of_what_opened(tmp_path, photos, model):
    words = ("encode", photos, "--model", "histograms", "--json")
    for ending in ("npz", "npy"):
        done = run(*words, "-o", tmp_path / f"v.{ending}")
        document = json.loads(done.stdout)
        assert (document["items"], set(document["left out"])) == (6, set(BROKEN)) and "5 of 11 images" in done.stderr
        assert list(Embeddings.load(tmp_path / f"v.{ending}").ids) == [f"photo-{n}.jpg" for n in range(6)]


def test_every_reason_is_listed_and_other_errors_pass(photos):
    items = limner.Items(sorted(BROKEN), [photos / name for name in sorted(BROKEN)])
    assert set(unreadable(items)) == set(BROKEN)
    gone = limner.Items(["gone", "id"], [photos / "gone.jpg", None])
    assert set(unreadable(gone)) == {"gone", "id"}
    readable = limner.Items(["a"], [photos / "photo-1.jpg"])

    def fails(items):
        raise LimnerError("no model")

    with pytest.raises(LimnerError, match="no model"):
        encoded_readable(fails, readable)


# --- an evaluation ------------------------------------------------------------------------------------------------


@pytest.fixture
def collection(tmp_path, photos):
    rows = [f"photo-{n}.jpg,a photo of number {n}" for n in range(6)]
    (photos / "captions.csv").write_text("image,caption\n" + "\n".join(rows) + "\n")
    return photos / "captions.csv"


class Means:
    """An encoder of both kinds that opens the images."""

    dim, fingerprint = 2, "means 1"

    def encode(self, items):
        if items.kind == "text":
            return np.array([[len(text), 1.0] for text in items.values])
        return np.array([[np.asarray(items.open(row)).mean(), 1.0] for row in range(len(items))])


@pytest.mark.parametrize("cache", [False, True])
def test_an_evaluation_names_all_missing_images(tmp_path, photos, collection, cache):
    loaded = limner.load(collection)
    for number in (2, 4):
        (photos / f"photo-{number}.jpg").unlink()
    encoder = Cached(Means(), tmp_path / "cache") if cache else Means()
    with pytest.raises(LimnerError, match=r"2 of 6 images have no file \('photo-2.jpg', 'photo-4.jpg'\); the first: "):
        limner.evaluate(encoder, loaded)
    missing = limner.Items(["a", "b"], [None, None])
    with pytest.raises(LimnerError, match=r"2 of 2 images have no file .* only an id, no pixels"):
        encoded(encoder, missing)


def test_an_evaluation_needs_every_image(tmp_path, photos, collection, model):
    (photos / "photo-3.jpg").write_bytes(BROKEN["page.jpg"])
    for words in (
        ("evaluate", collection, "--model", model),
        ("encode", collection, "--side", "images", "--model", "histograms", "-o", tmp_path / "v.npz"),
    ):
        assert "photo-3.jpg" in run(*words, status=3).stderr
    assert not (tmp_path / "v.npz").exists()


# --- texts --------------------------------------------------------------------------------------------------------


def ids_only():
    """A data set of which only ids and images are known."""
    world = limner.load("scenes", images=60)
    texts = limner.Items(world.texts.ids, [""] * len(world.texts), kind="text")
    return limner.Collection("ids", world.images, texts, world.judgements)


def test_texts_that_are_all_empty_are_not_evaluated():
    with pytest.raises(LimnerError, match=r"all 300 texts are empty, such as .*: load the data set with its captions"):
        limner.evaluate(Means(), ids_only())
    refuse_blank(limner.Items(["a", "b"], ["", "a dog"], kind="text"))
    refuse_blank(limner.Items([], [], kind="text"))


def test_commands_refuse_texts_that_are_all_empty(tmp_path, monkeypatch, model):
    pytest.importorskip("lancedb")
    bare = ids_only()
    monkeypatch.setattr("limner.load", lambda *spec, **options: bare)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_means.py").write_text(
        "import numpy as np\nclass Means:\n    dim, fingerprint = 2, 'm'\n    def encode(self, items):\n"
        "        return np.array([[len(i), 1.0] for i in items.ids])\n"
    )
    commands = [
        ("evaluate", "ids", "--model", "own_means:Means"),
        ("evaluate", "ids", "--model", "own_means:Means"),
        ("explain", "gap", "ids", "--model", "own_means:Means"),
        ("encode", "ids", "--side", "texts", "--model", "own_means:Means", "-o", tmp_path / "t.npz"),
        ("index", tmp_path / "i", "ids", "--side", "texts", "--model", "own_means:Means"),
    ]
    for words in commands:
        assert "texts are empty" in run(*words, status=3).stderr, words
    assert not (tmp_path / "t.npz").exists()
