"""The command: every way in gives the numbers of Python, every command speaks JSON, statuses mean something."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import limner
from limner.cli import app, console
from limner.cli.commands.compare.tables import placements
from limner.cli.commands.evaluate import one_system
from limner.cli.options import loading
from limner.cli.shell import STATUSES, Status
from limner.core.errors import LimnerError, UnknownName
from limner.datasets import DATASETS
from limner.datasets.runs import read_run
from limner.evaluation.measures import MEASURES as KINDS
from limner.evaluation.protocols import PROTOCOLS
from limner.systems import SYSTEMS

ROOT = Path(__file__).resolve().parents[1]
WORLD = ["scenes", "-O", "images=60"]
COMMANDS = ["demo", "list", "evaluate", "compare", "report", "train", "encode", "index", "search", "serve"]
DATA = ["describe", "convert", "audit"]
EXPLAIN = ["failures", "slices", "probe", "attack", "map", "gap", "uncertainty"]
MATCH = ["rerank", "fuse", "assign"]
ANNOTATE = [
    "pool",
    "plan",
    "judge",
    "tasks",
    "serve",
    "status",
    "estimate",
    "merge",
    "export",
    "import",
]
STUDY = ["add", "list", "results", "export", "import", "form", "scale", "bias", "tables"]
PEOPLE = ["list", "assign", "review"]
SUBCOMMANDS = {"data": DATA, "explain": EXPLAIN, "match": MATCH, "annotate": ANNOTATE}
GROUPS = [[group, name] for group, names in SUBCOMMANDS.items() for name in names]
GROUPS += [*(["annotate", "study", c] for c in STUDY), *(["annotate", "people", c] for c in PEOPLE)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What people have: embeddings with and without ids, a matrix, runs, qrels, reports."""
    folder = tmp_path_factory.mktemp("have")
    world = limner.load("scenes", images=60)
    model = limner.train(world, "colours")
    model.encode_images(world.images).save(folder / "all-I.npy")
    model.encode_texts(world.texts).save(folder / "all-T.safetensors")
    scores = model.scores(world.test)
    np.save(folder / "I.npy", scores.query_vectors.matrix)
    np.save(folder / "T.npy", scores.candidate_vectors.matrix)
    np.save(folder / "S.npy", scores.matrix())
    limner.datasets.write(world.test, folder / "pairs.qrels")
    (folder / "qrels.txt").write_bytes((folder / "pairs.qrels").read_bytes())
    (folder / "names.txt").write_text("\n".join(world.test.images.ids) + "\n")
    scores.ranking().save(folder / "i2t.run")
    scores.T.ranking().save(folder / "t2i.json")
    scores.top(5).save(folder / "short.run")
    limner.evaluate(scores, world.test, name="whole").save(folder / "whole.json")
    settings = {"measures": "R@1 mAP@R", "keep": 5}
    limner.evaluate(scores, world.test, name="colours", **settings).save(folder / "a.json")
    limner.evaluate(limner.train(world).scores(world.test), world.test, name="histograms", **settings).save(
        folder / "b.json"
    )
    return folder


@pytest.fixture
def workdir(folder, monkeypatch, tmp_path):
    """The folder, reached from an empty one."""
    for path in folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    return folder


def run(*args, status=0):
    done = CliRunner().invoke(app, list(args))
    assert done.exit_code == status, done.output
    return done


def data(*args):
    """The JSON a command prints; nothing else may be on stdout."""
    return json.loads(run(*args, "--json").stdout)


def values(report):
    return {(r["view"], r["direction"], r["measure"]): r["value"] for r in report["results"]}


@pytest.fixture(scope="module")
def expected(folder):
    report = limner.Report.load(folder / "whole.json")
    return {r.key: r.value for r in report.results}


# --- the ways in ------------------------------------------------------------------------------------------------

WAYS = {
    "embeddings of the split, in order": ["--images", "I.npy", "--texts", "T.npy"],
    "embeddings of everything, by id": ["--images", "all-I.npy", "--texts", "all-T.safetensors"],
    "embeddings with a file of ids": ["--images", "I.npy", "--ids", "names.txt", "--texts", "all-T.safetensors"],
    "similarity matrix": ["--scores", "S.npy"],
    "similarity matrix with ids": ["--scores", "S.npy", "--ids", "names.txt"],
    "system that is trained first": ["--model", "colours"],
}


@pytest.mark.parametrize("arguments", WAYS.values(), ids=WAYS)
def test_every_way_in_gives_the_numbers_of_python(workdir, expected, arguments):
    actual = values(data("evaluate", *WORLD, *arguments))
    assert actual == pytest.approx(expected, abs=1e-6)


def test_runs_find_their_direction_by_their_ids(workdir, expected):
    """Whole rankings of both directions, one as a TREC run and one as JSON, ties in the order of the list."""
    actual = values(data("evaluate", *WORLD, "--run", "t2i.json", "--run", "i2t.run"))
    world = limner.load("scenes", images=60).test
    scores = limner.Scores.load("S.npy", world.images.ids, world.texts.ids)
    report = limner.evaluate({"i2t": scores.ranking(), "t2i": scores.T.ranking()}, world)
    assert actual == {r.key: r.value for r in report.results}


@pytest.mark.parametrize("qrels", ["pairs.qrels", "qrels.txt", "qrels:pairs.qrels"])
def test_a_qrels_file_is_a_collection(workdir, qrels):
    actual = values(data("evaluate", qrels, "--run", "short.run", "--measures", "R@1 R@5"))
    world = limner.load("scenes", images=60).test
    report = limner.evaluate(read_run("short.run"), world.judgements, measures="R@1 R@5")
    assert list(actual.values()) == [r.value for r in report.results]
    assert {direction for _, direction, _ in actual} == {"run"}


def test_a_qrels_file_takes_one_run(workdir):
    assert "one by one" in run("evaluate", "pairs.qrels", "--run", "i2t.run", "--run", "short.run", status=2).stderr


def test_a_cut_run_can_count_the_rest_as_never_found(workdir):
    args = ("evaluate", *WORLD, "--run", "short.run", "--measures", "MAP")
    assert "truncated" in run(*args, status=Status.INPUT).stderr
    assert 0 < values(data(*args, "--missing", "never"))["pairs", "i2t", "MAP"] < 1


def test_embeddings_in_order_need_no_collection(workdir, expected):
    report = data("evaluate", "per-image:5", "--images", "I.npy", "--texts", "T.npy", "--measures", "R@1")
    assert report["collection"] == "I"
    assert values(report)["pairs", "t2i", "R@1"] == expected["pairs", "t2i", "R@1"]


def test_a_matrix_in_order_needs_no_collection(workdir, expected):
    actual = values(data("evaluate", "per-image:5", "--scores", "S.npy", "--measures", "R@1"))
    assert actual["pairs", "i2t", "R@1"] == expected["pairs", "i2t", "R@1"]


def test_embeddings_in_order_have_the_five_folds_of_coco(workdir, monkeypatch, tmp_path):
    rng = np.random.default_rng(0)
    np.save("I10.npy", rng.standard_normal((10, 4)))
    np.save("T20.npy", rng.standard_normal((20, 4)))
    args = (
        "per-image:2",
        "--images",
        "I10.npy",
        "--texts",
        "T20.npy",
        "--protocol",
        "coco-1k",
        "--measures",
        "R@2",
    )
    report = data("evaluate", *args)
    assert 0 < values(report)["coco-1k", "t2i", "R@2"] == 1, "each fold has two images"
    assert "not comparable with published numbers" in report["notes"][0]


def test_rows_without_ids_are_noted(workdir):
    report = data("evaluate", *WORLD, "--images", "I.npy", "--texts", "all-T.safetensors", "--measures", "R@1")
    assert report["notes"] == ["I.npy has no ids: its rows are used in the order of the collection"]


def test_a_folder_without_splits_is_split_with_a_fixed_seed(workdir):
    run("data", "convert", *WORLD, "world", "--split", "train")
    first, second = (data("evaluate", "world", "--model", "colours", "--measures", "R@10") for _ in range(2))
    assert first == second
    assert first["notes"] == ["world has no splits: trained on 29 images, measured on 7 others (seed 0)"]
    assert {r["queries"] for r in first["results"]} == {7, 35}


def test_a_split_is_trained_on_what_is_outside_it(workdir):
    report = data("evaluate", *WORLD, "--model", "colours", "--measures", "R@1", "--split", "train")
    assert report["notes"] == ["trained on every image outside the split 'train'"]
    assert (
        "would test on training items"
        in run("evaluate", *WORLD, "--model", "colours", "--split", "all", status=3).stderr
    )


def test_all_is_everything_and_val_is_dev(workdir):
    counts = {}
    for split in ("all", "val", "test"):
        args = ("--images", "all-I.npy", "--texts", "all-T.safetensors", "--measures", "R@1", "--split", split)
        counts[split] = data("evaluate", *WORLD, *args)["results"][0]["queries"]
    assert counts == {"all": 60, "val": 12, "test": 12}


def test_measures_protocol_ties_and_name_reach_the_report(workdir):
    report = data(
        "evaluate", *WORLD, "--scores", "S.npy", "--measures", "nDCG@5", "--ties", "pessimistic", "--name", "mine"
    )
    assert (report["system"], report["settings"]["ties"]) == ("mine", "pessimistic")
    assert {r["measure"] for r in report["results"]} == {"nDCG@5"}
    several = data("evaluate", *WORLD, "--scores", "S.npy", "--protocol", "flickr8k-1k", "--protocol", "coco-5k")
    assert {r["view"] for r in several["results"]} == {"flickr8k-1k", "coco-5k"}


def test_a_report_is_saved_in_every_form(workdir):
    endings = ("json", "csv", "md", "tex", "html")
    os.mkdir("out")
    done = run("evaluate", *WORLD, "--scores", "S.npy", *(f"--output=out/r.{ending}" for ending in endings))
    assert sorted(os.listdir("out")) == sorted(f"r.{ending}" for ending in endings)
    assert done.stderr.count("limner: wrote out/r.") == 5
    assert str(limner.Report.load("out/r.json")) == done.stdout.rstrip("\n")


# --- compare and report -----------------------------------------------------------------------------------------


def test_compare_prints_what_python_prints(workdir):
    reports = [limner.Report.load(f"{name}.json") for name in "ab"]
    assert (
        run("compare", "a.json", "b.json", "--samples", "1000").stdout == f"{limner.compare(reports, samples=1000)}\n"
    )


def test_compare_as_json_and_saved(workdir):
    comparison = data(
        "compare",
        "a.json",
        "b.json",
        "--samples",
        "500",
        "--test",
        "randomisation",
        "-o",
        "c.json",
        "-o",
        "c.tex",
    )
    assert comparison["systems"] == ["colours", "histograms"]
    assert comparison["rows"] == json.loads(Path("c.json").read_text())["rows"]
    assert Path("c.tex").read_text().startswith("% colours and histograms")


def test_agreement_of_measures(workdir):
    agreement = data("compare", "a.json", "b.json", "a.json", "--samples", "100", "--show", "agreement")["agreement"]
    assert np.allclose(np.diag(agreement["tau_b"]), 1)
    assert len(agreement["measures"]) == len(agreement["tau_b"])
    assert (
        "Kendall's tau-b"
        in run("compare", "a.json", "b.json", "a.json", "--samples", "100", "--show", "agreement").stdout
    )
    assert (
        "at least 3 systems"
        in run("compare", "a.json", "b.json", "--show", "agreement", "--samples", "9", status=3).stderr
    )


def _report(name, hits, measure="R@1", view="pairs"):
    from limner.evaluation.results import Result

    queries = limner.Ids((f"q{n}" for n in range(len(hits))), what="query")
    result = Result(view, "i2t", limner.Measure.parse(measure), queries, np.asarray(hits, dtype=np.float64))
    limner.Report(name, "c", (result,)).save(f"{name}.json")


def test_a_check_fails_when_the_first_system_is_surely_worse(workdir):
    _report("old", [1] * 40 + [0] * 10)
    _report("new", [0] * 20 + [1] * 20 + [0] * 10)
    _report("alike", [0] * 1 + [1] * 39 + [0] * 10)
    done = run("compare", "new.json", "old.json", "--fail-if-worse", status=Status.FAILED_CHECK)
    assert "check failed: new is significantly worse: pairs i2t R@1" in done.stderr
    assert "McNemar" in done.stdout, "the answer is printed all the same"
    run("compare", "old.json", "new.json", "--fail-if-worse")
    run("compare", "alike.json", "old.json", "--fail-if-worse")
    run("compare", "new.json", "old.json")


def test_lower_is_better_where_it_is(workdir):
    _report("near", [1.0] * 30, "MeanR")
    _report("far", [9.0 + n % 3 for n in range(30)], "MeanR")
    run("compare", "near.json", "far.json", "--fail-if-worse", "--samples", "1000")
    run("compare", "far.json", "near.json", "--fail-if-worse", "--samples", "1000", status=Status.FAILED_CHECK)


def test_a_place_among_published_systems(workdir):
    _report("ours", [0.4052] * 10, "mAP@R", "eccv")
    placements = data("compare", "ours.json", "--show", "published")["published"]["ours"]
    assert [(p["measure"], p["direction"]) for p in placements] == [("eccv mAP@R", "i2t")]
    assert placements[0]["value"] == pytest.approx(40.52)
    assert 1 <= placements[0]["rank"] <= placements[0]["of"] == 26
    assert "rank" in run("compare", "ours.json", "--show", "published").stdout


def test_the_mean_of_both_directions_is_placed_too(workdir):
    from limner.evaluation.results import Result

    queries = limner.Ids("ab", what="query")
    measure = limner.Measure.parse("mAP@R")
    halves = [Result("eccv", d, measure, queries, np.full(2, v)) for d, v in (("i2t", 0.3), ("t2i", 0.5))]
    rsum = Result("coco-1k", "both", limner.Measure.parse("rsum"), queries, np.full(2, 500.0))
    placed = placements(limner.Report("ours", "coco", (*halves, rsum)))
    assert {(p.measure, p.direction): round(p.value, 6) for p in placed} == {
        ("eccv mAP@R", "i2t"): 30, ("eccv mAP@R", "t2i"): 50, ("eccv mAP@R", "mean"): 40, ("coco-1k rsum", "mean"): 500,
    }  # fmt: skip


@pytest.mark.parametrize("option", ["--show=agreement", "--fail-if-worse", "--output=x.csv"])
def test_nothing_is_ignored_with_one_report(workdir, option):
    assert "give two or more" in run("compare", "a.json", "--show", "published", option, status=2).stderr


@pytest.mark.parametrize("ending", ["html", "md", "tex", "csv"])
def test_a_report_in_another_form(workdir, ending):
    answer = data("report", "a.json", "-o", f"r.{ending}")
    assert answer == {"wrote": f"r.{ending}", "bytes": Path(f"r.{ending}").stat().st_size}


def test_a_page_with_captions_and_other_systems(workdir):
    run("report", "a.json", "b.json", "--collection", WORLD[0], *WORLD[1:], "-o", "r.html")
    page = Path("r.html").read_text()
    assert limner.load("scenes", images=60).test.texts.values[0] in page
    assert "histograms" in page


def test_options_of_the_page_are_not_ignored(workdir):
    message = run("report", "a.json", "--slices", "length", "--collection", "scenes", "-o", "r.md", status=2).stderr
    assert "r.md cannot use" in " ".join(message.split()) and "--slices" in message


# --- data and lists ---------------------------------------------------------------------------------------------


def test_lists_name_everything():
    assert [d["dataset"] for d in data("list", "datasets")["datasets"]] == list(DATASETS)
    assert len(data("list", "measures")["measures"]) == len(KINDS)
    assert [p["protocol"] for p in data("list", "protocols")["protocols"]] == list(PROTOCOLS)
    assert [s["system"] for s in data("list", "systems")["systems"]] == list(SYSTEMS)
    for listing, entries in (
        (("list", "datasets"), DATASETS),
        (("list", "measures"), KINDS),
        (("list", "protocols"), PROTOCOLS),
    ):
        assert len(run(*listing).stdout.splitlines()) >= len(entries)
    assert len(run("list", "systems").stdout.splitlines()) == len(SYSTEMS)


@pytest.mark.parametrize("name", list(DATASETS))
def test_every_data_set_says_where_it_comes_from(name):
    assert run("list", "datasets", name).stdout.startswith(f"{name}: ")
    assert data("list", "datasets", name)["fetch"]


def test_describe_counts_and_shows(workdir):
    description = data("data", "describe", *WORLD)
    assert (description["images"], description["texts"], description["splits"]["test"]) == (60, 300, 12)
    assert len(description["example"]["texts"]) == 5
    assert "split 'test'" in run("data", "describe", *WORLD).stdout


def test_describe_lists_warnings_and_fails_when_asked(workdir, tmp_path):
    (tmp_path / "captions.csv").write_text("image,caption\na.png,\nb.png,a dog\n,a cat\n")
    description = data("data", "describe", "captions.csv")
    assert len(description["warnings"]) == 2
    assert "line 2: empty caption" in description["warnings"][0]
    done = run("data", "describe", "captions.csv", "--strict", status=Status.FAILED_CHECK)
    assert "warning: captions.csv, line 4" in done.stdout
    run("data", "describe", *WORLD, "--strict")


def test_describe_opens_every_picture_when_asked(workdir):
    run("data", "convert", *WORLD, "pictures")
    next(Path("pictures/images").iterdir()).write_bytes(b"no picture")
    assert "does not open" in data("data", "describe", "pictures", "-O", "check_images=true")["warnings"][0]
    assert data("data", "describe", "pictures")["warnings"] == []


def test_warnings_of_a_loader_are_told_but_not_all(capsys):
    console.warn([f"line {n}" for n in range(9)])
    messages = capsys.readouterr().err.splitlines()
    assert messages[0] == "limner: warning: line 0"
    assert messages[-1].startswith("limner: warning: and 4 more")


@pytest.mark.parametrize(
    ("out", "to"), [("x.csv", None), ("x", "jsonl"), ("x.parquet", "parquet"), ("x", "folder"), ("x", None)]
)
def test_convert_and_read_again(workdir, out, to):
    wrote = data("data", "convert", *WORLD, out, *(["--to", to] if to else []))["wrote"]
    read = limner.load(wrote)
    assert (len(read.images), len(read.texts), len(read.test.images)) == (60, 300, 12)


def test_convert_tells_what_is_lost(workdir):
    done = run("data", "convert", *WORLD, "x.qrels", "--split", "test")
    assert "limner: warning: qrels store only judgements" in done.stderr
    assert len(limner.load("x.qrels").images) == 12


def test_convert_refuses_two_forms_at_once(workdir):
    assert "leave one out" in run("data", "convert", *WORLD, "x.csv", "--to", "parquet", status=3).stderr


def test_loading_reads_words_as_json_where_they_are():
    assert loading(['columns={"image": "photo"}', "split=a=b", "n=1.5", "flag=true", "none=null"]) == {
        "columns": {"image": "photo"}, "split": "a=b", "n": 1.5, "flag": True, "none": None,
    }  # fmt: skip


# --- help, JSON, statuses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [*([c] for c in COMMANDS), *GROUPS], ids=" ".join)
def test_every_command_has_examples_and_json(command):
    help_text = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "120", "NO_COLOR": "1"}).stdout
    assert f"$ limner {' '.join(command)}" in help_text
    assert "--json" in help_text


@pytest.mark.parametrize("command", [*([c] for c in COMMANDS), *GROUPS], ids=" ".join)
def test_examples_of_the_help_parse(command):
    """The words of each example are known to the parser: an option that was renamed is found here."""
    from typer.main import get_command

    help_text = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "300", "NO_COLOR": "1"}).stdout
    joined = re.sub(r" \\ *\n +", " ", help_text)  # a long line goes on after a backslash
    examples = re.findall(r"\$ limner (.*)", joined)
    assert examples
    for example in examples:
        words = shlex.split(example)
        parser = get_command(app)
        program = typer.Context(parser)
        while hasattr(parser, "commands"):
            parser = parser.commands[words.pop(0)]
        try:
            parser.make_context("limner", words, parent=program)
        except UnknownName:
            pass  # a model that is not here
        except LimnerError as error:
            if "no file or folder" not in str(error):
                raise


def test_help_names_the_statuses():
    help_text = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "120", "NO_COLOR": "1"}).stdout
    for status, meaning in STATUSES.items():
        assert f"{status:d} {meaning}" in " ".join(help_text.split())


def test_version_and_no_command():
    assert run("--version").stdout == f"limner {limner.__version__}\n"
    assert "Usage" in run(status=Status.USAGE).output


def test_json_has_no_numbers_that_json_has_not(capsys):
    console.answer("", {"a": float("nan"), "b": [np.float64("inf"), 1.5], "c": Path("x")}, as_json=True)
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [None, 1.5], "c": "x"}


def _broken(*_, **__):
    raise RuntimeError("a part is broken")


def test_a_fault_of_limner_is_told_apart_from_bad_input(workdir, monkeypatch):
    monkeypatch.setattr(one_system, "_measured", _broken)
    args = ("evaluate", *WORLD, "--scores", "S.npy")
    done = run(*args, status=Status.FAULT)
    assert done.stderr.splitlines()[-1].startswith("limner: error: a bug in limner, not in your input (RuntimeError")
    assert "Traceback" not in done.stderr
    assert "Traceback" in run("--debug", *args, status=Status.FAULT).stderr
    monkeypatch.setenv("LIMNER_DEBUG", "1")
    assert "Traceback" in run(*args, status=Status.FAULT).stderr


def test_an_interruption_is_told_and_leaves_nothing(workdir, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(one_system, "_measured", interrupted)
    done = run("evaluate", *WORLD, "--scores", "S.npy", "-o", "out.json", status=Status.INTERRUPTED)
    assert "limner: interrupted" in done.stderr
    assert not Path("out.json").exists()


# --- the real thing, in a process of its own --------------------------------------------------------------------


def _process(*args, **options):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "100", "NO_COLOR": "1"}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    streams["preexec_fn"] = heard  # a shell in the background hands on that interrupts are not heard
    return subprocess.Popen([sys.executable, "-m", "limner", *args], env=environment, **(streams | options))


def heard():
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_the_process_ends_with_the_status(workdir):
    process = _process("evaluate", *WORLD, "--scores", "none.npy")
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 3
    assert stderr == "limner: error: no similarity matrix none.npy: expected an .npy file\n"


def test_an_interrupt_from_the_keyboard_ends_it_quietly(tmp_path):
    process = _process("demo", "-O", "images=1000", "-o", str(tmp_path / "out"))
    assert process.stdout.readline().startswith("1. ")  # the work has begun
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert stderr.splitlines()[-1].startswith("limner: interrupted")
    assert list((tmp_path / "out").iterdir()) == []


LOST = """
import signal, time
from limner.cli import interrupts

interrupts.PATIENCE = 60
interrupts.end_soon()

class Ends:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.01)

made = Ends()
try:
    del made
    while True:
        time.sleep(0.01)
except KeyboardInterrupt:
    print("heard")
"""


def test_an_interrupt_is_not_lost_in_a_finaliser():
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    options = {"capture_output": True, "text": True, "timeout": 30, "preexec_fn": heard}
    done = subprocess.run([sys.executable, "-c", LOST], env=environment, **options)
    assert (done.stdout, done.stderr) == ("heard\n", "")


def test_a_closed_pipe_is_no_error(workdir):
    process = _process("compare", "a.json", "b.json", "--samples", "10", "--json")
    process.stdout.close()
    stderr = process.stderr.read()
    assert (process.wait(timeout=120), stderr) == (Status.BROKEN_PIPE, "")


def test_help_is_quick_because_it_imports_little():
    heavy = ("numba", "scipy", "sklearn", "pyarrow", "matplotlib", "PIL")
    code = (
        "import sys; from limner.cli.command_table import Commands; print(len(dict(Commands())) > 10, "
        f"[m for m in {heavy} if m in sys.modules])"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout == "True []\n", done.stderr


def test_only_the_command_that_runs_is_imported():
    code = (
        "import sys; from limner.cli import app; app(['list', 'measures'], standalone_mode=False); "
        "print([m for m in sys.modules if m.startswith('limner.cli.commands.')])"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.splitlines()[-1] == "['limner.cli.commands.list']", done.stderr


@pytest.mark.parametrize("width", [80, 100, 200])
def test_a_progress_bar_never_cuts_its_counts(width):
    from rich.console import Console
    from rich.progress import Progress

    terminal = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    with Progress(*console._columns(width), console=terminal, disable=True) as bar:
        begun = time.monotonic() - 50
        step = console.Step("encoding the images of a data set with a long name", "images", began=begun)
        step.count(100_000, 200_000)
        bar.add_task(step.description, total=200_000, completed=100_000, now=step)
        terminal.print(bar.get_renderable())
    (line,) = [each for each in terminal.file.getvalue().splitlines() if each.strip()]
    assert re.search(r"[\d,.]+ images/s, about \d+ s left", line)
    assert "100000/200000" in line and "encod" in line and len(line) <= width


def test_progress_is_shown_on_a_terminal_and_on_stderr_only(monkeypatch, capsys):
    from rich.console import Console

    monkeypatch.setattr(Console, "is_terminal", True)
    with console.progress("counting sheep") as progress:
        progress(1, 2)
        time.sleep(0.2)
    captured = capsys.readouterr()
    assert "counting sheep" in captured.err
    assert captured.out == ""
