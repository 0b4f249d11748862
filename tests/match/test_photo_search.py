"""`limner search PHOTOS TEXT`: a folder and a sentence; thumbnails in a terminal, a gallery, words with an image."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from photo_toys import COLOURS, bad_files, photograph
from PIL import Image
from typer.testing import CliRunner

from limner.cli import app, photo_folders
from limner.cli.commands import search as search_results
from limner.cli.terminal_images import PROTOCOLS, TerminalImages, protocol_of, sixel

pytest.importorskip("lancedb")
MODEL = ("--model", "photo_toys:MeanColour")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LIMNER_CACHE", str(tmp_path / "cache"))
    for name in COLOURS:
        photograph(tmp_path / "photos" / "2019" / f"{name}.jpg", name)
    photograph(tmp_path / "photos" / "teal.png", (0, 128, 128), form="PNG", size=(300, 200))
    return tmp_path / "photos"


def run(*words, status=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == status, done.output
    return done


def found(done):
    """The ids of the hits, best first."""
    return [hit["id"] for hit in json.loads(done.stdout)["hits"]]


def test_a_folder_and_a_sentence(folder):
    done = run("search", folder, "red", *MODEL, "-k", 2)
    lines = done.stdout.splitlines()
    assert lines[0] == "red" and lines[1].split() == ["1", "1.0000", f"{folder}/2019/red.jpg"], done.stdout
    assert done.stderr.count("model: photo_toys:MeanColour") == 1
    assert sorted(path.name for path in folder.iterdir()) == ["2019", "teal.png"]
    (folder / "2019" / "red.jpg").unlink()
    assert "2019/red.jpg" not in found(run("search", folder, "red", *MODEL, "--json"))


def test_bad_files_are_listed_once_and_counted_afterwards(folder):
    bad = bad_files(folder)
    first = run("search", folder, "red", *MODEL, "--json")
    assert set(json.loads(first.stdout)["left out"]) == bad
    assert f"warning: {len(bad)} of {len(bad) + 4} images do not open" in first.stderr and "empty.jpg" in first.stderr
    second = run("search", folder, "red", *MODEL)
    assert f"note: {len(bad)} files of the folder left out" in second.stderr and "empty.jpg" not in second.stderr


def test_a_model_that_has_changed_encodes_again(folder, monkeypatch):
    import photo_toys

    run("search", folder, "red", *MODEL)
    monkeypatch.setattr(photo_toys.MeanColour, "fingerprint", "another one")
    done = run("search", folder, "red", *MODEL, "--json")
    assert "has changed since the photographs were encoded" in done.stderr and found(done)[0] == "2019/red.jpg"


def test_words_and_an_image_are_one_query(folder):
    image = folder / "2019" / "blue.jpg"
    done = run("search", folder, "green", "--image", image, *MODEL, "--json")
    hits = json.loads(done.stdout)["hits"]
    assert {hit["query"] for hit in hits} == {"green + blue.jpg"} and hits[0]["id"] == "teal.png"
    assert found(run("search", folder, "--image", image, *MODEL, "--json"))[0] == "2019/blue.jpg"
    filtered = run("search", folder, "green", "--image", image, *MODEL, "--json", "--where", "width<100")
    assert "teal.png" not in found(filtered)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give TEXT, --image FILE, both as one query, or --queries FILE"),
        (["red", "-O", "version=1"], "is for an index"),
        (["red", "--model", "histograms"], "histograms encodes images alone: search with --image FILE"),
        (["red", "--model", "word-vectors"], "word-vectors"),
        (["red", "--by", "words"], "no texts in the index"),
        (["red", "--model", "photo_toys:COLOURS"], "expected a name, a path"),
    ],
)
def test_what_cannot_be_is_refused(folder, words, message):
    done = CliRunner().invoke(app, ["search", str(folder), *words, *([] if "--model" in words else MODEL)])
    assert done.exit_code in (2, 3) and message in " ".join(done.output.replace("│", "").split()), done.output


def test_slow_loading_says_how_to_save_the_time(folder, monkeypatch):
    assert "limner serve" not in run("search", folder, "red", *MODEL).stderr
    monkeypatch.setattr(photo_folders, "NOTICED", -1.0)
    assert f"'limner serve {folder}' loads it once" in run("search", folder, "red", *MODEL).stderr


# --- the gallery --------------------------------------------------------------------------------------------------


def test_the_gallery_is_a_page_in_the_cache_that_links_to_the_files(folder, tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(search_results.typer, "launch", lambda address: opened.append(address))
    run("search", folder, "red", *MODEL, "--open")
    page = tmp_path / "cache" / "galleries" / "red.html"
    assert opened == [page.as_uri()]
    html = page.read_text()
    assert f'href="{(folder / "2019" / "red.jpg").as_uri()}"' in html and html.count("data:image/") == 4
    run("search", folder, "red", *MODEL, "-o", tmp_path / "hits.html")
    assert "file://" not in (tmp_path / "hits.html").read_text()


# --- thumbnails ---------------------------------------------------------------------------------------------------


def picture():
    """Two halves: red and transparent."""
    image = Image.new("RGBA", (50, 20))
    image.paste((255, 0, 0, 255), (0, 0, 25, 20))
    return image


def of_kitty(text):
    parts = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", text)
    assert [head.rpartition("m=")[2] for head, _ in parts] == ["1"] * (len(parts) - 1) + ["0"]
    return Image.open(io.BytesIO(base64.b64decode("".join(data for _, data in parts))))


def of_iterm2(text):
    head, data = re.fullmatch(r"\x1b\]1337;File=([^:]*):([^\x07]*)\x07", text).groups()
    assert f"size={len(base64.b64decode(data))};" in head
    return Image.open(io.BytesIO(base64.b64decode(data)))


def of_sixel(text):
    """A plain reader of sixel graphics."""
    width, height, body = re.fullmatch(r'\x1bP0;1q"1;1;(\d+);(\d+)(.*)\x1b\\', text, re.DOTALL).groups()
    pixels = np.zeros((6 * -(-int(height) // 6), int(width), 4), np.uint8)
    colours, colour, column, top = {}, 0, 0, 0
    for number, shares, repeat, character in re.findall(r"#(\d+)((?:;\d+){4})?|(?:!(\d+))?([?-~$-])", body):
        if shares:
            colours[int(number)] = [round(255 * int(share) / 100) for share in shares.split(";")[2:]]
        elif number:
            colour = int(number)
        elif character == "$":
            column = 0
        elif character == "-":
            column, top = 0, top + 6
        else:
            bits, length = ord(character) - 63, int(repeat or 1)
            for row in range(6):
                if bits >> row & 1:
                    pixels[top + row, column : column + length] = [*colours[colour], 255]
            column += length
    return Image.fromarray(pixels[: int(height)])


@pytest.mark.parametrize(("protocol", "read"), [("kitty", of_kitty), ("iterm2", of_iterm2), ("sixel", of_sixel)])
def test_an_image_arrives_in_the_terminal_as_it_is(protocol, read):
    arrived = np.asarray(read(PROTOCOLS[protocol](picture(), 5)).convert("RGBA"))
    expected = np.asarray(picture())
    assert arrived.shape == expected.shape and (arrived[..., 3] == expected[..., 3]).all()
    assert np.abs(arrived[:, :25].astype(int) - expected[:, :25]).max() <= 3


def test_a_photograph_as_sixel_keeps_its_colours():
    ramp = np.linspace(0, 255, 64, dtype=np.uint8)
    pixels = np.stack([np.tile(ramp, (33, 1)), np.tile(ramp[::-1], (33, 1)), np.full((33, 64), 80)], axis=2)
    image = Image.fromarray(pixels.astype(np.uint8)).convert("RGBA")
    difference = np.abs(np.asarray(of_sixel(sixel(image, 6)))[..., :3].astype(int) - pixels)
    assert difference.mean() < 6


def test_thumbnails_are_in_rows_with_labels():
    terminal = TerminalImages("iterm2", columns=64, cell=(4, 8))
    thumbnails = [(Image.new("RGB", (80, 80), name), f"{n}  {name}.jpg") for n, name in enumerate(COLOURS, 1)]
    text = terminal.grid([*thumbnails, (None, "4  a-name-that-is-much-too-long\x1b[2J.jpg")])
    rows = text.split("\x07\n")
    assert len(rows) == 3 and rows[1].splitlines()[0].split("  ")[:2] == ["1", "red.jpg            "[:7]]
    assert rows[2] == "4  a-name-that-is-m…" and "\x1b[2J" not in text
    first = np.asarray(of_iterm2(rows[0] + "\x07"))
    assert first.shape == (64, 62 * 4, 4) and (first[32, 40] == [255, 0, 0, 255]).all() and first[32, 82, 3] == 0


@pytest.mark.parametrize(
    ("environment", "protocol"),
    [
        ({"TERM": "xterm-kitty", "KITTY_WINDOW_ID": "1"}, "kitty"),
        ({"TERM": "xterm-ghostty", "TERM_PROGRAM": "ghostty"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "iterm2"),
        ({"TERM": "xterm-256color", "LC_TERMINAL": "iTerm2"}, "iterm2"),
        ({"TERM": "tmux-256color", "TMUX": "/tmp/tmux", "KITTY_WINDOW_ID": "1"}, None),
        ({"TERM": "xterm-256color"}, None),
        ({}, None),
    ],
)
def test_a_terminal_says_what_it_is(environment, protocol):
    assert protocol_of(environment) == protocol


@pytest.mark.parametrize(("reply", "shows"), [("\x1b[?62;4;22c", True), ("\x1b[?62;22c", False), ("", False)])
def test_a_terminal_is_asked_for_sixel(reply, shows):
    """In a terminal of its own, whose other end answers as the case says."""
    import pty

    child, terminal = pty.fork()
    if child == 0:  # pragma: no cover  # another process
        os.environ["TERM"] = "xterm"
        from limner.cli import terminal_images

        terminal_images.sys.stdin, terminal_images.sys.stdout = open(0), open(1, "w")  # noqa: SIM115
        os._exit(10 + terminal_images._shows_sixel())
    if reply and b"\x1b[c" in os.read(terminal, 20):
        os.write(terminal, reply.encode())
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 10 + shows
    os.close(terminal)


# --- an index of the folder ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", ["positional", "--items"])
def test_an_index_of_the_folder_leaves_out_bad_files_and_keeps_fields(folder, tmp_path, named):
    bad = bad_files(folder)
    place = [folder] if named == "positional" else ["--items", folder]
    words = ("index", tmp_path / "i", *place, *MODEL, "--json")
    done = run(*words)
    document = json.loads(done.stdout)
    assert (document["items"], set(document["left out"])) == (4, bad)
    assert f"warning: {len(bad)} of {len(bad) + 4} images do not open" in done.stderr
    again = json.loads(run(*words, "--resume").stdout)
    assert (again["added"], again["items"], set(again["left out"])) == (0, 4, bad)
    hits = run("search", tmp_path / "i", "red folder:2019 width<50", *MODEL, "--json")
    assert found(hits)[0] == "2019/red.jpg" and "teal.png" not in found(hits)


def test_serve_takes_folders_of_photographs_and_indexes(folder, tmp_path, monkeypatch):
    import limner.web

    pytest.importorskip("starlette")
    run("index", tmp_path / "own.index", folder, *MODEL)
    served = {}
    monkeypatch.setattr(limner.web, "serve", lambda collections, **settings: served.update(settings, first=collections))
    run("serve", folder, tmp_path / "own.index", *MODEL)
    assert served["first"] == [] and list(served["indexes"]) == ["photos", "own"]
    assert len(served["indexes"]["photos"]) == 4 and served["indexes"]["photos"].system is not None
    assert served["indexes"]["own"] == str(tmp_path / "own.index")
    assert run("serve", folder, "--index", f"photos={tmp_path / 'own.index'}", *MODEL, status=2)
    run("serve", "scenes")
    assert (served["first"], served["indexes"]) == (["scenes"], {})


def test_serve_takes_a_folder_with_captions_as_a_collection(folder):
    from limner.cli.commands.serve import _divided

    name = next(path.name for path in sorted(folder.iterdir()) if path.suffix == ".png")
    (folder / "captions.csv").write_text(f"image,caption\n{name},a drawing\n")
    assert _divided([str(folder)], {}, None, None, yes=False, trust=False) == ([str(folder)], {})


def test_the_pages_of_a_served_folder(folder, tmp_path):
    client = pytest.importorskip("starlette.testclient")
    from limner.cli.photo_folders import open_photo_folder
    from limner.web import make_app

    index = open_photo_folder(str(folder), MODEL[1]).index
    app = make_app([], indexes={"photos": index}, store=tmp_path / "answers.db")
    with client.TestClient(app, base_url="http://127.0.0.1") as browser:
        page = browser.get("/search?q=red")
        assert page.status_code == 200 and page.text.index("2019/red.jpg") < page.text.index("teal.png")
        assert browser.get("/image?c=photos&id=2019/red.jpg").headers["content-type"].startswith("image/")


# --- no model named -----------------------------------------------------------------------------------------------


@pytest.fixture
def offline():
    from limner.encoders.offline_model import PACKAGES

    for package in PACKAGES:
        pytest.importorskip(package)


def test_no_model_is_needed(folder, tmp_path, offline):
    """In a fresh process, as a user runs it: without a terminal to ask on, and without the hub."""
    environment = {**os.environ, "HF_HOME": str(tmp_path / "hub"), "HF_ENDPOINT": "http://127.0.0.1:9"}
    code = """
import sys
from limner.cli import app
try:
    app()
finally:
    print([name for name in ("torch", "lancedb", "pandas") if name in sys.modules], file=sys.stderr)
"""
    words = [sys.executable, "-c", code, "search", str(folder), "something red", "--json"]
    settings = {"capture_output": True, "text": True, "env": environment, "stdin": subprocess.DEVNULL, "timeout": 120}
    for imported in ("['lancedb', 'pandas']", "[]"):  # the second search needs no database
        done = subprocess.run(words, **settings)
        assert done.returncode == 0, done.stderr
        document = json.loads(done.stdout)
        assert (document["model"], len(document["hits"])) == ("offline", 4)
        [line] = [line for line in done.stderr.splitlines() if line.startswith("limner: model:")]
        assert done.stdout.count("it knows the 1,000 classes") == 1 and "it knows" not in done.stderr
        assert "offline" in line and "154 MB" in line and done.stderr.endswith(f"{imported}\n"), done.stderr


@pytest.fixture
def asked(monkeypatch):
    """How the default model was asked for: whether there was a way to ask, and what a user who agrees gets."""
    from limner.encoders import default_encoder

    calls = []

    def default_model(*, consent=None):
        calls.append(consent is not None and consent("download 154 MB?"))
        return default_encoder.DefaultModel("photo_toys:MeanColour", megabytes=154 if calls[-1] else 0)

    monkeypatch.setattr(default_encoder, "default_model", default_model)
    return calls


def test_yes_agrees_and_without_a_terminal_nobody_is_asked(folder, tmp_path, asked):
    assert "154 MB to download" not in run("search", folder, "red").stderr
    assert "154 MB to download" in run("search", folder, "red", "--yes").stderr
    document = json.loads(run("index", tmp_path / "i", folder, "--yes", "--json").stdout)
    assert (document["items"], document["made by"]) == (4, "photo_toys:MeanColour") and asked == [False, True, True]


def test_at_a_terminal_the_user_is_asked_unless_the_offline_model_was_used_before(folder, monkeypatch, asked):
    from limner.search.photo_index import PhotoIndex

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    answers = []
    monkeypatch.setattr(photo_folders.sys, "stdin", Terminal())
    monkeypatch.setattr(photo_folders.sys, "stderr", Terminal())
    monkeypatch.setattr(photo_folders.typer, "confirm", lambda question, err: answers.append(question) or False)
    photo_folders.photo_model(None, place=str(folder))
    assert answers == ["download 154 MB?"]
    monkeypatch.setattr(PhotoIndex, "exists", True)
    photo_folders.photo_model(None, place=str(folder))
    assert len(answers) == 1 and asked == [False, False]


# --- other commands -----------------------------------------------------------------------------------------------


def test_a_map_of_photographs_needs_no_captions(folder, tmp_path, asked):
    for number in range(8):
        photograph(folder / f"{2010 + number % 2}" / f"{number}.png", (30 * number, 90, 200 - 20 * number), form="PNG")
    bad_files(folder)
    done = run("explain", "map", folder, "--method", "pca", "-o", tmp_path / "map.html", "-o", tmp_path / "map.json")
    document = json.loads((tmp_path / "map.json").read_text())
    assert document["points"] == len(document["items"]) == 12 and "left out" in done.stderr
    assert {"folder", "width"} <= {colour["name"] for colour in document["colours"]}
    assert {item["folder"] for item in document["items"]} == {"2019", "2010", "2011", None}
    assert run("data", "audit", folder, "--json").exit_code == 0
