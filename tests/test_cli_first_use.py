"""The shell as a newcomer uses it: banks, tables with columns of their own, breakdowns, names, tensors, progress."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import limner
from limner import Embeddings, Scores
from limner.cli import app, console
from limner.cli.console import Lines
from limner.cli.errors import Status
from limner.explain.adversarial import attack
from limner.explain.opposites import PLAIN, css_colours

RNG = np.random.default_rng(3)
COLOURS = ["red", "green", "blue", "white"]


def run(*args):
    done = CliRunner().invoke(app, [str(a) for a in args])
    assert done.exit_code == 0, done.output
    return done


def refused(*args):
    """What is said of a wrong command or input, in one line."""
    done = CliRunner().invoke(app, [str(a) for a in args])
    assert done.exit_code in (Status.USAGE, Status.INPUT), done.output
    return " ".join(done.output.replace("│", " ").split())


def data(*args):
    return json.loads(run(*args, "--json").stdout)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Twelve photographs, two captions each in two languages, their vectors, and a bank of other vectors."""
    monkeypatch.chdir(tmp_path)
    with open("captions.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["image", "caption", "lang", "alt"])
        for n in range(12):
            Image.new("RGB", (40, 30), COLOURS[n % 4]).save(f"{n}.png")
            rows.writerow([f"{n}.png", f"a boy and a {COLOURS[n % 4]} car", "en", f"alt {n}"])
            rows.writerow([f"{n}.png", f"ein Auto {n}", "de", f"alt {n} zwei"])
    whole = limner.load("captions.csv")
    centre = RNG.standard_normal((12, 6))
    images = Embeddings(whole.images.ids, centre + 0.8 * RNG.standard_normal((12, 6)))
    texts = Embeddings(whole.texts.ids, np.repeat(centre, 2, axis=0) + 0.8 * RNG.standard_normal((24, 6)))
    images.save("I.npy"), texts.save("T.npy")
    for name in ("BI", "BT"):
        Embeddings.of(RNG.standard_normal((40, 6)), prefix=name).save(f"{name}.npy")
    Embeddings.of(RNG.standard_normal((40, 9))).save("wide.npy")
    return tmp_path


SIDES = ("evaluate", "captions.csv", "--images", "I.npy", "--texts", "T.npy", "--measures", "R@1")
BANK = ("--correct", "csls", "--bank", "BI.npy", "--bank", "BT.npy")


def values(found):
    return {r["direction"]: r["value"] for r in found["results"]}


# --- banks ----------------------------------------------------------------------------------------------------------


def test_a_bank_of_two_files_and_one_file_for_both_directions(here):
    scores = Scores.from_embeddings(Embeddings.load("I.npy"), Embeddings.load("T.npy"))
    bank = Embeddings.load("BI.npy"), Embeddings.load("BT.npy")
    of = limner.load("captions.csv")
    expected = limner.evaluate(scores.correct("csls", bank=bank), of, measures="R@1")
    wanted = {r.direction: r.value for r in expected.results}
    assert values(data(*SIDES, *BANK, "-o", "bank.npz")) == wanted
    assert values(data(*SIDES, "--correct", "bank.npz")) == wanted
    assert values(data(*SIDES, "--correct", "csls", "--bank", "bank.npz")) == wanted
    np.savez("both.npz", images=bank[0].matrix, texts=bank[1].matrix)
    assert values(data(*SIDES, "--correct", "csls", "--bank", "both.npz")) == wanted
    turned = limner.evaluate(scores.T.correct("bank.npz"), of, measures="R@1")
    assert {r.direction: r.value for r in turned.results} == wanted


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--bank", "BI.npy"], "--bank without a correction"),
        (["--correct", "csls", "--bank", "BI.npy"], "give two for both directions"),
        (["--correct", "csls", "--bank", "BI.npy", "--bank", "BT.npy", "--bank", "BT.npy"], "got 3 files for --bank"),
        (
            ["--correct", "csls", "-O", "tune=dev"],
            "'captions' has no split 'dev' (its splits: none); add a column 'split'",
        ),
        (["--by", "colour"], "colour"),
        (["--correct", "csls", "--bank", "wide.npy", "--bank", "wide.npy"], "a bank of vectors of 9 dimensions"),
    ],
)
def test_what_does_not_fit_says_what_is_missing(here, words, message):
    assert message in refused(*SIDES, *words)


# --- tables ---------------------------------------------------------------------------------------------------------


def test_a_breakdown_by_a_field_of_the_queries(here):
    found = data(*SIDES, "--by", "language")["by"]
    scores = Scores.from_embeddings(Embeddings.load("T.npy"), Embeddings.load("I.npy")).matrix()
    right = scores.argmax(axis=1) == np.arange(24) // 2
    told = {(row["language"], row["direction"]): (row["value"], row["queries"]) for row in found}
    assert told == {("en", "t2i"): (right[::2].mean(), 12), ("de", "t2i"): (right[1::2].mean(), 12)}
    shown = run(*SIDES, "--by", "language").stdout
    assert "text -> image, by language" in shown and "\nde " in shown


def test_directions_and_views_have_the_names_one_gives_them(here):
    run(*SIDES, "-o", "r.json")
    report = limner.Report.load("r.json").renamed({"i2t": "caption retrieval", "pairs": "my labels"})
    report.save("r.md")
    shown = str(report)
    assert "caption retrieval (12)" in shown and "my labels" in shown and "image -> text" not in shown
    assert "caption retrieval" in (here / "r.md").read_text()


# --- encode ---------------------------------------------------------------------------------------------------------


def test_encode_writes_ids_that_evaluate_knows(here):
    (here / "glove.txt").write_text("alt 1 0\nzwei 0 1\ncar 1 1\nred 2 1\n")
    words = ("--model", "word-vectors", "-O", "file=glove.txt")
    run("encode", "captions.csv", *words, "-o", "texts.npy")
    assert list(Embeddings.load("texts.npy").ids[:2]) == ["0.png#0", "0.png#1"]
    run("encode", "captions.csv", "--column", "caption=alt", *words, "-o", "alt.npy")
    assert Embeddings.load("alt.npy").matrix[:2].tolist() == [[1, 0], [0.5, 0.5]]
    run("encode", "captions.csv", "-O", "quoted=false", "--side", "texts", *words, "-o", "quoted.pt")
    assert list(Embeddings.load("quoted.pt").ids[:1]) == ["0.png#0"]
    assert "expected ROLE=NAME" in refused("encode", "captions.csv", "--column", "alt", *words, "-o", "none.npy")


# --- tensors --------------------------------------------------------------------------------------------------------


def test_files_of_plain_tensors(here):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    expected = values(data(*SIDES))
    for name in "IT":
        held = Embeddings.load(f"{name}.npy")
        torch.save({"embeddings": torch.tensor(held.matrix), "ids": list(held.ids)}, f"{name}.pt")
    files = ("evaluate", "captions.csv", "--images", "I.pt", "--texts", "T.pt", "--measures", "R@1")
    assert values(data(*files)) == expected
    matrix = Scores.from_embeddings(Embeddings.load("I.npy"), Embeddings.load("T.npy")).matrix()
    torch.save(torch.tensor(matrix, dtype=torch.float64), "S.pt")
    assert values(data("evaluate", "captions.csv", "--scores", "S.pt", "--measures", "R@1")) == expected
    torch.save(torch.nn.Linear(2, 2), "model.pt")
    files = ("evaluate", "captions.csv", "--images", "model.pt", "--texts", "T.pt")
    assert "model.pt holds more than tensors" in refused(*files)
    torch.save({"a": torch.ones(2, 2), "b": torch.ones(2, 2)}, "two.pt")
    with pytest.raises(limner.LimnerError, match="two.pt holds 'a', 'b': expected one tensor"):
        Embeddings.load("two.pt")


# --- progress -------------------------------------------------------------------------------------------------------


def test_progress_without_a_terminal_is_a_line_now_and_then(capsys):
    with Lines("encoding 10 images", "images", every=0.02) as told:
        told(3, 10)
        time.sleep(0.2)
    said = capsys.readouterr().err.splitlines()
    assert said and said[0].startswith("limner: encoding 10 images: 0 s, 3 of 10")
    told._now.began -= 10  # after some seconds there is a rate, and a time left
    assert told.line().endswith(" s each, about 25 s left")
    with Lines("quick", every=60):
        pass
    assert capsys.readouterr().err == ""


def test_progress_tells_what_is_done_now():
    told = Lines("evaluating a")
    assert told.line() == "evaluating a: 0 s"
    told(400, 400)  # more work follows: a full count must not look like the end
    assert told.line().endswith("400 of 400, finishing")
    assert told.step("computing intervals", "results", total=9) is told
    assert told.line() == "computing intervals: 0 s, 0 of 9"
    told(6, 9)
    told._now.began -= 12
    assert told.line().endswith("6 of 9, 2.0 s each, about 5 s left")
    told(1, 9)  # another pass over the same: its rate is its own
    assert told.line().endswith("1 of 9")
    assert told.step("writing") is told and told.line() == "writing: 0 s"


def test_a_bar_tells_what_is_done_now():
    from rich.console import Console
    from rich.progress import Progress

    terminal = Console(width=100, file=io.StringIO(), force_terminal=True, color_system=None)
    with Progress(*console._columns(100), console=terminal, disable=True) as bar:
        told = console._Told.begun(bar, "evaluating a", "")
        told(400, 400)
        assert [(t.fields["now"].described(), t.completed, t.total) for t in bar.tasks] == [
            ("evaluating a: finishing", 400, 400)
        ]
        told.note("loss 0.5")
        told.step("computing intervals", total=9)
        assert [(t.fields["now"].described(), t.completed, t.total) for t in bar.tasks] == [
            ("computing intervals", 0, 9)
        ]
        told.step("writing")
        assert [(t.fields["now"].described(), t.completed, t.total) for t in bar.tasks] == [("writing", 0, None)]


def test_a_piped_command_tells_how_far_it_is(here):
    code = (
        "import limner.cli.console as c, time\nc.EVERY = 0.05\n"
        "with c.progress('work') as told:\n    told(1, 2)\n    time.sleep(0.5)\n"
    )
    code = code.replace("c.EVERY = 0.05\n", "c.Lines.__init__.__kwdefaults__['every'] = 0.05\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "limner: work: 0 s, 1 of 2" in done.stderr


# --- attack and explain ---------------------------------------------------------------------------------------------


def test_attack_takes_an_encoder_and_a_saved_model(here, monkeypatch):
    (here / "mine.py").write_text(
        "import numpy as np\n\nclass Two:\n"
        "    def encode_images(self, items):\n"
        "        from limner import Embeddings\n"
        "        means = [np.asarray(items.open(n)).mean((0, 1)) + 1 for n in range(len(items))]\n"
        "        return Embeddings(items.ids, np.array(means))\n"
        "    def encode_texts(self, items):\n"
        "        from limner import Embeddings\n"
        "        names = ('red', 'green', 'blue')\n"
        "        return Embeddings(items.ids, np.array([[1.0 + 9 * (c in t) for c in names] for t in items]))\n"
    )
    monkeypatch.syspath_prepend(here)
    found = data("explain", "attack", "captions.csv", "--model", "mine:Two", "--kind", "colour-in")["attacks"][0]
    assert found["kind"] == "colour-in" and found["changed"] == 12
    whole = limner.load("captions.csv")
    limner.train(whole.restrict(whole.images.ids[:8]), "colours").save("model")
    found = data("explain", "attack", "captions.csv", "--model", "model", "--kind", "colour-in")["attacks"][0]
    assert found["changed"] == 4, "the images that the model was trained on are left out"
    assert "unknown system" in refused("explain", "attack", "captions.csv", "--model", "clop")


def test_edits_are_english():
    assert set(PLAIN) < set(css_colours())
    made = {attack(f"A man in {c} clothes number {n}.", "colour-all").new for n in range(300) for c in ("red", "white")}
    assert len(made) > 10 and made <= set(PLAIN)
    assert (
        attack("A woman with a purple head covering.", "plural") is None
        or "heads" not in attack("A woman with a purple head covering.", "plural").after
    )
    for seed in range(20):
        edit = attack("a purple head covering", "plural", seed=seed)
        assert edit is None or "heads covering" not in edit.after
    assert attack("a dog running on grass", "plural").after == "several dogs running on grass"


def test_explain_falls_back_to_captions_in_their_own_words(here):
    shown = run("explain", "failures", "captions.csv", "--images", "I.npy", "--texts", "T.npy", "--limit", "20").stdout
    assert "objects are taken from the captions" in shown
    assert "boy" in shown and "male child" not in shown
    assert any({"boy", "car"} <= set(line.replace(",", "").split()) for line in shown.splitlines() if "both" in line)
