"""A folder of images without captions: the commands that take collections and indexes say what to do, and it works."""

from __future__ import annotations

import re
import shlex

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient
from typer.testing import CliRunner

from limner.cli import app
from limner.web import make_app


class Greys:
    """An encoder of images and texts: how bright they are."""

    fingerprint, dim = "greys 1", 2

    def encode_images(self, items, /):
        bright = [np.asarray(items.open(row).convert("L")).mean() / 255 for row in range(len(items))]
        return np.array([[value, 1 - value] for value in bright])

    def encode_texts(self, items, /):
        return np.array([[1.0, 0.0] if "light" in text else [0.0, 1.0] for text in items.values])


@pytest.mark.parametrize("command", [["serve", "photos"], ["search", "photos", "a light image"]])
def test_a_folder_of_images_without_captions_says_what_to_do_and_that_works(tmp_path, monkeypatch, command):
    pytest.importorskip("lancedb")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos" / "older").mkdir(parents=True)
    for name, grey in (("light.png", 220), ("older/dark.png", 30)):
        Image.new("L", (32, 32), grey).save(tmp_path / "photos" / name)
    refused = CliRunner().invoke(app, command)
    said = " ".join(refused.output.split())
    assert refused.exit_code == 3 and "images" in said
    make = re.search("'limner (index photos.index --items [^']*photos --model ENCODER)'", said)[1]
    for words in make.replace("ENCODER", f"{__name__}:Greys"), "search photos.index 'a light image' --trust":
        done = CliRunner().invoke(app, shlex.split(words))
        assert done.exit_code == 0, done.output
    assert done.output.index("light.png") < done.output.index("older/dark.png")
    if command[0] == "search":
        return
    assert "'limner serve --index photos.index'" in said and "captions.csv" in said
    site = make_app([], systems={}, indexes=["photos.index"], store="answers.db", trust=True)
    visitor = TestClient(site, base_url="http://localhost", follow_redirects=False)
    (column,) = visitor.get("/api/search?q=a light image").json()["columns"]
    assert [answer["id"] for answer in column["answers"]] == ["light.png", "older/dark.png"]
    again = CliRunner().invoke(app, ["serve", "photos.index"])
    assert again.exit_code == 3 and "is an index, not a collection: 'limner serve --index photos.index'" in " ".join(
        again.output.split()
    )
