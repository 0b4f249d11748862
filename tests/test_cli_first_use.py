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
from limner.cli.shell import Status
from limner.explain.adversarial import attack
from limner.explain.noun_heads import PLAIN, css_colours

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
def workdir(tmp_path, monkeypatch):
    """Twelve photographs, two captions each in two languages, their vectors, and a bank of other vectors."""
    monkeypatch.chdir(tmp_path)
    with open("captions.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["image", "caption", "lang", "alt"])
        for n in range(12):
            Image.new("RGB", (40, 30), COLOURS[n % 4]).save(f"{n}.png")
            rows.writerow([f"{n}.png", f"a boy and a {COLOURS[n % 4]} car", "en", f"alt {n}"])
            rows.writerow([f"{n}.png", f"ein Auto {n}", "de", f"alt {n} zwei"])
    collection = limner.load("captions.csv")
    centre = RNG.standard_normal((12, 6))
    images = Embeddings(collection.images.ids, centre + 0.8 * RNG.standard_normal((12, 6)))
    texts = Embeddings(collection.texts.ids, np.repeat(centre, 2, axis=0) + 0.8 * RNG.standard_normal((24, 6)))
    images.save("I.npy"), texts.save("T.npy")
    for name in ("BI", "BT"):
        Embeddings.of(RNG.standard_normal((40, 6)), prefix=name).save(f"{name}.npy")
    Embeddings.of(RNG.standard_normal((40, 9))).save("wide.npy")
    return tmp_path


SIDES = ("evaluate", "captions.csv", "--images", "I.npy", "--texts", "T.npy", "--measures", "R@1")
BANK = ("--correct", "csls", "-O", "bank=BI.npy,BT.npy")


def values(report):
    return {r["direction"]: r["value"] for r in report["results"]}


# --- banks ----------------------------------------------------------------------------------------------------------


def test_a_bank_of_two_files_and_one_file_for_both_directions(workdir):
    scores = Scores.from_embeddings(Embeddings.load("I.npy"), Embeddings.load("T.npy"))
    bank = Embeddings.load("BI.npy"), Embeddings.load("BT.npy")
    of = limner.load("captions.csv")
    expected = limner.evaluate(scores.correct("csls", bank=bank), of, measures="R@1")
    expected_values = {r.direction: r.value for r in expected.results}
    assert values(data(*SIDES, *BANK, "-o", "bank.npz")) == expected_values
    assert values(data(*SIDES, "--correct", "bank.npz")) == expected_values
    assert values(data(*SIDES, "--correct", "csls", "-O", "bank=bank.npz")) == expected_values
    np.savez("both.npz", images=bank[0].matrix, texts=bank[1].matrix)
    assert values(data(*SIDES, "--correct", "csls", "-O", "bank=both.npz")) == expected_values
    turned = limner.evaluate(scores.T.correct("bank.npz"), of, measures="R@1")
    assert {r.direction: r.value for r in turned.results} == expected_values


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-O", "bank=BI.npy"], "-O bank without a correction"),
        (["--correct", "csls", "-O", "bank=BI.npy"], "give two for both directions"),
        (["--correct", "csls", "-O", "bank=BI.npy,BT.npy,BT.npy"], "got 3 files for -O bank"),
        (
            ["--correct", "csls", "-O", "tune=dev"],
            "'captions' has no split 'dev' (its splits: none); add a column 'split'",
        ),
        (["--by", "colour"], "colour"),
        (["--correct", "csls", "-O", "bank=wide.npy,wide.npy"], "a bank of vectors of 9 dimensions"),
    ],
)
def test_what_does_not_fit_says_what_is_missing(workdir, words, message):
    assert message in refused(*SIDES, *words)


# --- tables ---------------------------------------------------------------------------------------------------------


def test_a_breakdown_by_a_field_of_the_queries(workdir):
    breakdown = data(*SIDES, "--by", "language")["by"]
    scores = Scores.from_embeddings(Embeddings.load("T.npy"), Embeddings.load("I.npy")).matrix()
    right = scores.argmax(axis=1) == np.arange(24) // 2
    actual = {(row["language"], row["direction"]): (row["value"], row["queries"]) for row in breakdown}
    assert actual == {("en", "t2i"): (right[::2].mean(), 12), ("de", "t2i"): (right[1::2].mean(), 12)}
    table = run(*SIDES, "--by", "language").stdout
    assert "text -> image, by language" in table and "\nde " in table


def test_directions_and_views_have_the_names_one_gives_them(workdir):
    run(*SIDES, "-o", "r.json")
    report = limner.Report.load("r.json").renamed({"i2t": "caption retrieval", "pairs": "my labels"})
    report.save("r.md")
    text = str(report)
    assert "caption retrieval (12)" in text and "my labels" in text and "image -> text" not in text
    assert "caption retrieval" in (workdir / "r.md").read_text()


# --- encode ---------------------------------------------------------------------------------------------------------


def test_encode_writes_ids_that_evaluate_knows(workdir):
    (workdir / "glove.txt").write_text("alt 1 0\nzwei 0 1\ncar 1 1\nred 2 1\n")
    words = ("--model", "word-vectors", "-O", "file=glove.txt")
    run("encode", "captions.csv", *words, "-o", "texts.npy")
    assert list(Embeddings.load("texts.npy").ids[:2]) == ["0.png#0", "0.png#1"]
    run("encode", "captions.csv", "--column", "caption=alt", *words, "-o", "alt.npy")
    assert Embeddings.load("alt.npy").matrix[:2].tolist() == [[1, 0], [0.5, 0.5]]
    run("encode", "captions.csv", "-O", "quoted=false", "--side", "texts", *words, "-o", "quoted.pt")
    assert list(Embeddings.load("quoted.pt").ids[:1]) == ["0.png#0"]
    assert "expected ROLE=NAME" in refused("encode", "captions.csv", "--column", "alt", *words, "-o", "none.npy")


# --- tensors --------------------------------------------------------------------------------------------------------


def test_files_of_plain_tensors(workdir):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    expected = values(data(*SIDES))
    for name in "IT":
        embeddings = Embeddings.load(f"{name}.npy")
        torch.save({"embeddings": torch.tensor(embeddings.matrix), "ids": list(embeddings.ids)}, f"{name}.pt")
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
    with Lines("encoding 10 images", "images", every=0.02) as lines:
        lines(3, 10)
        time.sleep(0.2)
    messages = capsys.readouterr().err.splitlines()
    assert messages and messages[0].startswith("limner: encoding 10 images: 0 s, 3 of 10")
    lines._now.began -= 10  # after some seconds there is a rate, and a time left
    assert lines.line().endswith(" s each, about 25 s left")
    with Lines("quick", every=60):
        pass
    assert capsys.readouterr().err == ""


def test_progress_tells_what_is_done_now():
    lines = Lines("evaluating a")
    assert lines.line() == "evaluating a: 0 s"
    lines(400, 400)  # more work follows: a full count must not look like the end
    assert lines.line().endswith("400 of 400, finishing")
    assert lines.step("computing intervals", "results", total=9) is lines
    assert lines.line() == "computing intervals: 0 s, 0 of 9"
    lines(6, 9)
    lines._now.began -= 12
    assert lines.line().endswith("6 of 9, 2.0 s each, about 5 s left")
    lines(1, 9)  # another pass over the same: its rate is its own
    assert lines.line().endswith("1 of 9")
    assert lines.step("writing") is lines and lines.line() == "writing: 0 s"


def test_a_bar_tells_what_is_done_now():
    from rich.console import Console
    from rich.progress import Progress

    terminal = Console(width=100, file=io.StringIO(), force_terminal=True, color_system=None)
    with Progress(*console._columns(100), console=terminal, disable=True) as bar:
        progress = console._TerminalBar.begun(bar, "evaluating a", "")
        progress(400, 400)
        assert [(t.fields["now"].described(), t.completed, t.total) for t in bar.tasks] == [
            ("evaluating a: finishing", 400, 400)
        ]
        progress.note("loss 0.5")
        progress.step("computing intervals", total=9)
        assert [(t.fields["now"].described(), t.completed, t.total) for t in bar.tasks] == [
            ("computing intervals", 0, 9)
        ]
        progress.step("writing")
        assert [(t.fields["now"].described(), t.completed, t.total) for t in bar.tasks] == [("writing", 0, None)]


def test_a_piped_command_tells_how_far_it_is(workdir):
    code = (
        "import limner.cli.console as c, time\nc.EVERY = 0.05\n"
        "with c.progress('work') as progress:\n    progress(1, 2)\n    time.sleep(0.5)\n"
    )
    code = code.replace("c.EVERY = 0.05\n", "c.Lines.__init__.__kwdefaults__['every'] = 0.05\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "limner: work: 0 s, 1 of 2" in done.stderr


# --- attack and explain ---------------------------------------------------------------------------------------------


def test_attack_takes_an_encoder_and_a_saved_model(workdir, monkeypatch):
    (workdir / "mine.py").write_text(
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
    monkeypatch.syspath_prepend(workdir)
    outcome = data("explain", "attack", "captions.csv", "--model", "mine:Two", "--kind", "colour-in")["attacks"][0]
    assert outcome["kind"] == "colour-in" and outcome["changed"] == 12
    collection = limner.load("captions.csv")
    limner.train(collection.restrict(collection.images.ids[:8]), "colours").save("model")
    outcome = data("explain", "attack", "captions.csv", "--model", "model", "--kind", "colour-in")["attacks"][0]
    assert outcome["changed"] == 4, "the images that the model was trained on are left out"
    assert "unknown system" in refused("explain", "attack", "captions.csv", "--model", "clop")


def test_edits_are_english():
    assert set(PLAIN) < set(css_colours())
    colours = {
        attack(f"A man in {c} clothes number {n}.", "colour-all").new for n in range(300) for c in ("red", "white")
    }
    assert len(colours) > 10 and colours <= set(PLAIN)
    assert (
        attack("A woman with a purple head covering.", "plural") is None
        or "heads" not in attack("A woman with a purple head covering.", "plural").after
    )
    for seed in range(20):
        edit = attack("a purple head covering", "plural", seed=seed)
        assert edit is None or "heads covering" not in edit.after
    assert attack("a dog running on grass", "plural").after == "several dogs running on grass"


def test_explain_falls_back_to_captions_in_their_own_words(workdir):
    output = run("explain", "failures", "captions.csv", "--images", "I.npy", "--texts", "T.npy", "--limit", "20").stdout
    assert "objects are taken from the captions" in output
    assert "boy" in output and "male child" not in output
    assert any({"boy", "car"} <= set(line.replace(",", "").split()) for line in output.splitlines() if "both" in line)
