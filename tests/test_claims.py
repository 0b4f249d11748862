"""Claims, their goals, and what is measured in a fresh process."""

from __future__ import annotations

import ast
import datetime
import importlib
import json
import os
import platform
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import claims
import hardware
import pages
from claims import Claim, Task


@pytest.mark.parametrize(
    ("ours", "reference", "goal", "met"),
    [
        (12.9, 12.1, "<= 1.15", True),
        (14.0, 12.1, "<= 1.15", False),
        (30.0, 2.0, ">= 15", True),
        (29.9, 2.0, ">= 15", False),
        (0.815, 0.81, "within 0.005", True),
        (0.816, 0.81, "within 0.005", False),
        (-0.2, -0.1, "within 0.05", False),
        (699.0, None, "< 700", True),
        (700.0, None, "< 700", False),
        (0.0, None, "== 0", True),
        (1e-12, None, "== 0", False),
        (3.0, 0.0, "<= 1", False),
        (float("nan"), 1.0, "<= 1", False),
        (float("nan"), 1.0, "within 1", False),
    ],
)
def test_a_goal_is_met_or_not(ours, reference, goal, met):
    assert Claim("a", ours, reference, goal=goal).met is met


@pytest.mark.parametrize(("reference", "goal"), [(1.0, ""), (1.0, "fast"), (1.0, "<= x"), (None, "within 0.1")])
def test_a_goal_that_cannot_be_read_is_refused(reference, goal):
    with pytest.raises(ValueError, match="goal"):
        Claim("a", 1.0, reference, goal=goal)


def test_the_line_of_a_claim():
    line = Claim("top-10 25k x 100k vs bare product", 12.9, 12.1, goal="<= 1.15").line()
    fields = {"claim": "top-10 25k x 100k vs bare product", "ours": 12.9, "reference": 12.1, "ratio": 1.066}
    assert json.loads(line) == fields | {"goal": "<= 1.15", "met": True}
    assert json.loads(Claim("a", 1.0, goal="< 2").line())["reference"] is None
    assert json.loads(Claim("a", np.float64(1.0), 1.0, goal="within 1").line())["met"] is True
    assert json.loads(Claim("a", float("nan"), 0.0, goal="within 1").line())["met"] is False


def _allocate(megabytes, *, before=0):
    _ = np.ones(before * 131_072)
    return lambda: float(np.ones(megabytes * 131_072).sum())


def _burn(seconds):
    def work():
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    return work


def _sleep(seconds):
    return lambda: time.sleep(seconds)


def _fail():
    raise LookupError("no such thing")


def _die():
    import os

    os._exit(3)


def test_peak_memory_is_that_of_the_work():
    small, large = claims.measured(Task(_allocate, 1)), claims.measured(Task(_allocate, 200))
    assert large.value == 200 * 131_072
    assert large.peak - small.peak == pytest.approx(199, abs=20)


def test_peak_memory_does_not_count_the_process_that_measures():
    large_array = np.ones(300 * 131_072)
    assert claims.measured(Task(_allocate, 1)).peak < 250
    assert large_array.size


def test_sleeping_costs_no_cpu_and_working_does():
    slept, burnt = claims.measured(Task(_sleep, 0.2)), claims.measured(Task(_burn, 0.2))
    assert slept.wall >= 0.2
    assert burnt.cpu >= 0.2
    assert slept.cpu < burnt.cpu


@pytest.mark.parametrize(("prepare", "message"), [(_fail, "no such thing"), (_die, "exit status 3")])
def test_a_task_that_fails_says_why(prepare, message):
    with pytest.raises(RuntimeError, match=message):
        claims.measured(Task(prepare))


def _threads():
    import os

    return lambda: os.environ.get("OMP_NUM_THREADS")


def test_tasks_take_turns_with_the_same_threads(monkeypatch, capsys):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    measurements = claims.interleaved({"a": Task(_threads), "b": Task(_threads)}, rounds=2, threads=1)
    assert [measurements["a"].value, measurements["b"].value] == ["1", "1"]
    assert claims.os.environ["OMP_NUM_THREADS"] == "7"
    assert [line.split()[2] for line in capsys.readouterr().err.splitlines()] == ["a:", "b:", "a:", "b:"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """An empty project, into which claims are saved."""
    for folder in ("benchmarks", "proofs", "docs"):
        (tmp_path / folder).mkdir()
    theme = '[losses]\ntitle = "Losses"\nquestion = "Which?"\nscripts = ["proofs/losses.py"]\n'
    (tmp_path / "benchmarks" / "themes.toml").write_text(theme)
    (tmp_path / "README.md").write_text("Beside others: 0 of 0 goals met.")
    monkeypatch.setattr(claims, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.delenv("LIMNER_DATA", raising=False)
    monkeypatch.setenv("LIMNER_COMMIT", "0123456789")
    return tmp_path


def test_saved_claims_come_out_on_the_page(project, monkeypatch, capsys):
    script = project / "proofs" / "losses.py"
    monkeypatch.setattr("sys.argv", [str(script), "--save"])
    claim_list = [
        Claim("kappa", 0.5, 0.6, goal="within 0.01", note="another | tokeniser"),
        Claim("pairs", 5822, 5822, goal="== 1"),
    ]
    claims.main(lambda options: claim_list, "Figures of the paper.\n\nMore words.")
    printed = capsys.readouterr()
    assert [json.loads(line)["met"] for line in printed.out.splitlines()] == [False, True]
    assert "1 of 2 claims met" in printed.err
    text = (project / "evidence" / "losses.md").read_text()
    for piece in ("# Losses", "Figures of the paper.", "| **no** |", "1 of 2 goals met", "another | tok"):
        assert piece in text
    assert "| 5,822 | 5,822 | 1 |" not in text  # a goal that was met is on the page of all claims
    assert "| 5,822 | 5,822 | 1 |" in pages.all_claims("proofs")
    assert "More words" not in text + pages.all_claims("proofs")
    assert platform.node() not in text or not platform.node()
    assert "| [Losses](losses.md): Which? | 1 | 1 |" in (project / "evidence" / "README.md").read_text()
    assert (project / "README.md").read_text() == "Beside others: 1 of 2 goals met."
    assert pages.stale() == []
    (project / "evidence" / "losses.md").write_text("by hand")
    (project / "README.md").write_text("Beside others: 2 of 2 goals met.")
    assert pages.stale() == ["README.md", "evidence/losses.md"]


def test_a_script_that_is_on_no_page_is_named(project, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", [str(project / "proofs" / "new.py"), "--save"])
    claims.main(lambda options: [Claim("pairs", 1, goal="== 1")], "New.")
    assert pages.stale() == ["proofs/new.py"]


ARM = {"processor": "N1", "family": "aarch64", "cores": 2, "memory": 24, "system": "Linux", "python": "3.11.7"}
INTEL = ARM | {"processor": "Xeon", "family": "x86_64", "cores": 16}
CARD = INTEL | {"card": "NVIDIA H200", "torch": "2.11.0"}


def saved(project, monkeypatch, machine, claim_list, *arguments):
    """Saves claims as if they were measured on a machine."""
    monkeypatch.setattr("sys.argv", [str(project / "proofs" / "losses.py"), "--save", *arguments])
    monkeypatch.setattr(hardware, "machine", lambda card=None: machine if card is None else CARD)
    claims.main(lambda options: claim_list, "Losses.", configure=lambda parser: parser.add_argument("--device"))
    return json.loads(max((project / "proofs" / "results").glob("*"), key=lambda p: p.stat().st_mtime_ns).read_text())


def test_machines_of_several_kinds_stand_side_by_side(project, monkeypatch, capsys):
    saved(project, monkeypatch, ARM, [Claim("loss", 2, 1, goal="<= 1"), Claim("time", 3, goal="< 9", note="slow")])
    saved(project, monkeypatch, INTEL, [Claim("loss", 1, 1, goal="<= 1")])
    record = saved(
        project, monkeypatch, INTEL, [Claim("time", 1, goal="< 9"), Claim("more", 5, goal="== 5")], "--device=cuda"
    )
    assert (record["machine"], record["commit"]) == (CARD, "0123456789")
    names = sorted(p.name for p in (project / "proofs" / "results").iterdir())
    assert names == ["losses.aarch64.json", "losses.nvidia-h200.json", "losses.x86_64.json"]
    page = pages.all_claims("proofs")
    assert [line for line in page.splitlines() if line.startswith("|")] == [
        "| claim | machine | ours | reference | ratio | goal | met |",
        "|---|---|---:|---:|---:|---|---|",
        "| loss | aarch64 | 2 | 1 | 2 | <= 1 | **no** |",
        "| loss | x86_64 | 1 | 1 | 1 | <= 1 | yes |",
        "| time [1] | aarch64 | 3 |  |  | < 9 | yes |",
        "| time | nvidia-h200 | 1 |  |  | < 9 | yes |",
        "| more | nvidia-h200 | 5 |  |  | == 5 | yes |",
    ]
    assert page.count("## ") == 1 and pages.total() == "4 of 5 goals"
    assert "\n1. slow\n" in page
    for piece in (
        "; N1, 2 cores",
        "; NVIDIA H200, torch 2.11.0; Xeon, 16 cores",
        "; Xeon, 16 cores, 24 GiB, Linux x86_64",
    ):
        assert f"commit 0123456789{piece}" in page


def test_work_of_another_size_has_a_file_of_its_own(project, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", [str(project / "proofs" / "losses.py"), "--save"])
    monkeypatch.setattr(hardware, "machine", lambda card=None: ARM)

    def run(options, size):
        claims.set_part(options, size)
        yield Claim(f"loss, {size}", 1, goal="== 1")

    for size in (None, "1000-images"):
        claims.main(partial(run, size=size), "Losses.")
    names = sorted(p.name for p in (project / "proofs" / "results").iterdir())
    assert names == ["losses.1000-images.aarch64.json", "losses.aarch64.json"]
    monkeypatch.setattr("sys.argv", [str(project / "proofs" / "losses.py"), "--save", "--part", "few"])
    claims.main(lambda options: [Claim("loss, few", 1, goal="== 1")], "Losses.")
    assert (project / "proofs" / "results" / "losses.few.aarch64.json").exists()
    claims.main(partial(run, size="1000-images"), "Losses.")
    assert (project / "proofs" / "results" / "losses.1000-images-few.aarch64.json").exists()
    page = pages.all_claims("proofs")
    assert "| loss, few |" in page
    assert "| loss, None |" in page and "| loss, 1000-images |" in page and page.count("## ") == 1


def test_a_name_of_a_part_that_cannot_be_in_a_file_name_is_refused(project, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", [str(project / "proofs" / "losses.py"), "--save", "--part", "few/more"])
    with pytest.raises(SystemExit):
        claims.main(lambda options: [Claim("loss", 1, goal="== 1")], "Losses.")
    assert "--part 'few/more': expected letters" in capsys.readouterr().err


def test_a_claim_that_a_later_run_of_the_same_machine_has_measured_again_counts_once(project, monkeypatch, capsys):
    saved(project, monkeypatch, ARM, [Claim("loss", 2, goal="== 1"), Claim("time", 3, goal="< 9")])
    first = project / "proofs" / "results" / "losses.aarch64.json"
    first.write_text(first.read_text().replace(datetime.datetime.now(datetime.UTC).date().isoformat(), "2026-01-02"))
    saved(project, monkeypatch, INTEL, [Claim("loss", 4, goal="== 1")])
    saved(project, monkeypatch, ARM, [Claim("loss", 1, goal="== 1")], "--part=few")
    page = pages.all_claims("proofs")
    rows = [line.split(" | ")[:3] for line in page.splitlines() if line.startswith(("| loss", "| time"))]
    assert sorted(rows) == [["| loss", "aarch64", "1"], ["| loss", "x86_64", "4"], ["| time", "aarch64", "3"]]
    assert pages.total() == "2 of 3 goals" and "`python proofs/losses.py` (part *few*)" in page


def test_a_machine_that_was_saved_as_one_line_is_read():
    lines = [hardware.description(each) for each in (ARM, CARD)]
    assert [hardware.read(line) for line in lines] == [ARM, CARD] == [hardware.read(each) for each in (ARM, CARD)]
    with pytest.raises(ValueError, match="a machine 'a toaster'"):
        hardware.read("a toaster")


def test_this_machine_is_told():
    machine = hardware.machine()
    family = machine["family"].lower().replace(" ", "-")
    assert hardware.kind(machine) in (family, f"{family}-vnni", f"{family}-float32")
    machine.pop("units", None)  # of the kind, not of the words
    assert hardware.kind(machine) == family
    assert hardware.read(hardware.description(machine)) == machine


def test_every_saved_result_says_which_machine_and_which_commit():
    for path in [*claims.ROOT.glob("benchmarks/results/*.json"), *claims.ROOT.glob("proofs/results/*.json")]:
        run = json.loads(path.read_text(encoding="utf-8"))
        stem, *part, kind = path.name.removesuffix(".json").split(".")
        assert (stem, kind) == (Path(run["script"]).stem, hardware.kind(run["machine"])) and len(part) <= 1
        assert {"processor", "family", "cores", "memory", "system", "python"} <= set(run["machine"])
        assert run["commit"] and run["date"]


def test_no_saved_proof_is_from_code_that_was_not_committed():
    for path in claims.ROOT.glob("proofs/results/*.json"):
        assert not json.loads(path.read_text(encoding="utf-8"))["commit"].endswith("+"), path.name


@pytest.mark.parametrize(
    ("commit", "message"), [("0123456789+", "differ from commit 0123456789"), ("unknown", "history")]
)
def test_nothing_is_saved_from_code_that_is_not_committed(project, monkeypatch, commit, message):
    monkeypatch.setattr("sys.argv", [str(project / "proofs" / "x.py"), "--save"])
    monkeypatch.setattr(hardware, "commit", lambda root: commit)
    with pytest.raises(SystemExit, match=message):
        claims.main(lambda options: pytest.fail("the work was begun"), None)
    assert not (project / "proofs" / "results").exists()


def test_a_reference_says_what_it_is():
    claim = Claim("kappa", 0.5, 0.6, goal="within 0.2", source="print")
    assert claim.record()["source"] == "print" and "source" not in Claim("a", 1.0, goal="< 2").record()
    with pytest.raises(ValueError, match="expected one of print, peer, limner, theory"):
        Claim("a", 1.0, 2.0, goal="< 2", source="hearsay")
    with pytest.raises(ValueError, match="and a reference"):
        Claim("a", 1.0, goal="< 2", source="print")


def _calls_of_claim():
    for path in sorted(claims.ROOT.glob("proofs/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Claim":
                yield f"{path.name}:{node.lineno}", node


def test_every_reference_of_a_proof_says_what_it_is():
    for location, node in _calls_of_claim():
        named = {word.arg: word.value for word in node.keywords}
        has_reference = (
            len(node.args) > 2 or any(isinstance(each, ast.Starred) for each in node.args) or "reference" in named
        )
        reference = node.args[2] if len(node.args) > 2 else named.get("reference")
        empty = isinstance(reference, ast.Constant) and reference.value is None
        assert not has_reference or empty or "source" in named, f"{location}: a reference without source="


def test_no_goal_of_a_proof_is_merely_more_than_nothing_or_than_its_reference():
    for location, node in _calls_of_claim():
        values = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
        strings = [each for each in values if isinstance(each, str)]
        bounded = any("lower end" in each for each in strings)  # of an interval: that is what must be above 0
        assert bounded or not {"> 0", ">= 0", "> 1"} & set(strings), location


def _imported_names():
    """Every name that a script imports from limner or from another script, also inside functions."""
    for path in sorted([*claims.ROOT.glob("benchmarks/*.py"), *claims.ROOT.glob("proofs/*.py")]):
        scripts = {each.stem for each in path.parent.glob("*.py")}
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            if module.partition(".")[0] == "limner" or module in scripts:
                yield from ((path, module, each.name) for each in node.names)


def test_every_name_that_a_script_imports_is_there():
    """A script is run rarely; what it needs may have moved in the meantime."""
    pytest.importorskip("torch", reason="the scripts that train import torch")
    missing = []
    for path, module, name in _imported_names():
        if module.startswith("limner"):
            imported, source = importlib.import_module(module), claims.ROOT / "src" / Path(*module.split("."))
            if not hasattr(imported, name) and not (source / f"{name}.py").is_file():
                missing.append(f"{path.name}: {name} of {module}")
        elif name not in _defined(path.parent / f"{module}.py"):
            missing.append(f"{path.name}: {name} of {module}.py")
    assert not missing


def _defined(path):
    tree = ast.parse(path.read_text(encoding="utf-8")).body
    named = {each.name for each in tree if isinstance(each, ast.FunctionDef | ast.ClassDef)}
    targets = [t for each in tree if isinstance(each, ast.Assign) for t in each.targets]
    targets += [each.target for each in tree if isinstance(each, ast.AnnAssign)]
    return named | {leaf.id for t in targets for leaf in ast.walk(t) if isinstance(leaf, ast.Name)}


def test_parts_that_run_one_by_one_are_joined(project, monkeypatch, capsys):
    monkeypatch.setattr(hardware, "commit", lambda root: "0123456789")
    script = project / "benchmarks" / "match.py"
    for claim_list, words in (
        ([Claim("a", 1, goal="== 1"), Claim("b", 1, goal="== 1")], ["--save"]),
        ([Claim("b", 2, goal="== 1"), Claim("c", 3, goal="== 3")], ["--save", "--add"]),
    ):
        monkeypatch.setattr("sys.argv", [str(script), *words])
        claims.main(lambda options, claim_list=claim_list: claim_list, "About.")
    (file,) = (project / "benchmarks" / "results").glob("match.*.json")
    values = {each["claim"]: each["ours"] for each in json.loads(file.read_text())["claims"]}
    assert values == {"a": 1, "b": 2, "c": 3}
    monkeypatch.setattr(hardware, "commit", lambda root: "abcdefabcd")
    claims.main(lambda options: [Claim("d", 4, goal="== 4")], "About.")
    assert [each["claim"] for each in json.loads(file.read_text())["claims"]] == ["d"], "another commit is not joined"


def _cores():
    return lambda: len(os.sched_getaffinity(0))


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system cannot limit a process to some cores")
def test_work_runs_on_as_many_cores_as_asked_for():
    before = os.sched_getaffinity(0)
    assert claims.interleaved({"a": Task(_cores)}, rounds=1, cores=1)["a"].value == 1
    assert os.sched_getaffinity(0) == before
    assert hardware.separate_cores(len(before)) == before


def test_nothing_is_saved_unasked(project, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", [str(project / "benchmarks" / "x.py"), "--quick"])
    claims.main(lambda options: [Claim("a", 1, goal="== 1" if options.quick else "== 2")], None)
    assert json.loads(capsys.readouterr().out)["met"] is True
    assert not (project / "benchmarks" / "results").exists()


def test_a_missing_data_folder_is_told(project, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["x.py", "--data", str(project / "nowhere")])
    with pytest.raises(SystemExit):
        claims.main(lambda options: [], None)
    assert "nowhere: no such folder" in capsys.readouterr().err
