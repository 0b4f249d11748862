"""Claims, their goals, and what is measured in a fresh process."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

import claims
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
    held = np.ones(300 * 131_072)
    assert claims.measured(Task(_allocate, 1)).peak < 250
    assert held.size


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
    found = claims.interleaved({"a": Task(_threads), "b": Task(_threads)}, rounds=2, threads=1)
    assert [found["a"].value, found["b"].value] == ["1", "1"]
    assert claims.os.environ["OMP_NUM_THREADS"] == "7"
    assert [line.split()[2] for line in capsys.readouterr().err.splitlines()] == ["a:", "b:", "a:", "b:"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """An empty project, into which claims are saved."""
    for folder in ("benchmarks", "proofs", "docs"):
        (tmp_path / folder).mkdir()
    monkeypatch.setattr(claims, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.delenv("LIMNER_DATA", raising=False)
    return tmp_path


def test_saved_claims_come_out_on_the_page(project, monkeypatch, capsys):
    script = project / "proofs" / "human_agreement.py"
    monkeypatch.setattr("sys.argv", [str(script), "--save"])
    found = [
        Claim("kappa", 0.5, 0.6, goal="within 0.01", note="another | tokeniser"),
        Claim("pairs", 5822, 5822, goal="== 1"),
    ]
    claims.main(lambda options: found, "Figures of the paper.\n\nMore words.")
    printed = capsys.readouterr()
    assert [json.loads(line)["met"] for line in printed.out.splitlines()] == [False, True]
    assert "1 of 2 claims met" in printed.err
    text = (project / "docs" / "proofs.md").read_text()
    for piece in (
        "## Human agreement",
        "Figures of the paper.",
        "| **no** |",
        "| 5,822 | 5,822 | 1 |",
        "1 of 2 goals met",
        "another | tok",
    ):
        assert piece in text
    assert "More words" not in text
    assert claims.platform.node() not in text or not claims.platform.node()
    assert pages.stale() == []
    (project / "docs" / "proofs.md").write_text("by hand")
    assert pages.stale() == ["docs/proofs.md"]


def test_what_a_card_measured_is_kept_apart(project, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", [str(project / "proofs" / "losses.py"), "--save", "--device", "cuda"])
    monkeypatch.setattr(claims, "_named", lambda card: f"some {card}; ")
    monkeypatch.setenv("LIMNER_COMMIT", "0123456789")
    claims.main(lambda options: [], "Losses.", configure=lambda parser: parser.add_argument("--device"))
    kept = json.loads((project / "proofs" / "results" / "losses_gpu.json").read_text())
    assert kept["machine"].startswith("some cuda; ")
    assert kept["commit"] == "0123456789"
    assert "## Losses, on a graphics card" in (project / "docs" / "proofs.md").read_text()


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
