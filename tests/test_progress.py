"""Every long step counts: its last call says that all is done, and no count goes back."""

from __future__ import annotations

import ast
import io
import sys
from pathlib import Path

import numpy as np
import pytest

import limner
import toys
from limner.cli.console import Lines
from limner.core.progress import counting
from limner.evaluation.diagnostics.breakdown import evaluate_languages
from limner.evaluation.diagnostics.composed import evaluate_composed
from limner.evaluation.tuning import tune
from limner.explain.embedding_map import embedding_map, failure_classes
from limner.explain.failures import explain, failures
from limner.explain.probe_results import probe
from limner.scores.correction import CORRECTIONS

CLI = Path(limner.__file__).parent / "cli"
UNCOUNTED = ("loading", "joining", "writing", "scoring", "counting")
"""Steps whose work another library does, or that are short."""


class Recorder:
    """Keeps the counts of a progress."""

    def __init__(self):
        self.calls = []

    def __call__(self, done, total):
        self.calls.append((done, total))

    @property
    def ends(self):
        """Whether one count went from the beginning to the end."""
        done, totals = [each for each, _ in self.calls], {total for _, total in self.calls}
        return len(totals) == 1 and done == sorted(done) and done[-1] == totals.pop()


class SilentDisplay(Lines):
    """A display that is never shown, with its steps."""

    def __init__(self):
        super().__init__("work")
        self.steps = []

    def step(self, name, unit="", *, total=None, main=False):
        self.steps.append(name)
        return super().step(name, unit, total=total)


@pytest.fixture(scope="module")
def toy():
    return toys.collection()


@pytest.fixture(scope="module")
def world():
    collection = limner.load("scenes", images=80).test
    rng = np.random.default_rng(0)
    sides = [
        limner.Embeddings(items.ids, rng.standard_normal((len(items), 8)))
        for items in (collection.images, collection.texts)
    ]
    return collection, limner.Scores.from_embeddings(*sides)


def test_a_long_list_is_not_counted_one_by_one():
    recorder = Recorder()
    assert list(counting(range(100_000), recorder)) == list(range(100_000))
    assert recorder.ends and len(recorder.calls) == 500
    assert list(counting([], recorder)) == [] == list(counting([], None))


def test_comparing_and_tuning(toy):
    reports = [limner.evaluate(toys.scores(toy, noise=noise), toy) for noise in (0.6, 1.2)]
    recorder = Recorder()
    compared = limner.compare(reports, samples=100, progress=recorder)
    assert recorder.ends and recorder.calls[-1] == (len(compared.lines),) * 2
    recorder = Recorder()
    tune("csls", toys.scores(toy), toy, grid={"k": [1, 2, 5]}, progress=recorder)
    assert recorder.calls == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize("name", [*CORRECTIONS])
def test_gathering_the_statistics_of_a_correction(toy, name):
    recorder, scores = Recorder(), toys.scores(toy)
    corrected = scores.correct(name)
    statistics = corrected.gather(progress=recorder)
    assert recorder.ends
    recorder.calls.clear()
    assert corrected.gather(progress=recorder) is statistics is corrected.statistics and not recorder.calls
    display = SilentDisplay()
    limner.evaluate(scores.correct(name), toy, measures="R@1", progress=display)
    assert sum(step.startswith(f"gathering statistics for {name}(") for step in display.steps) == 2


def test_a_correction_that_does_not_count_works_as_before(toy):
    from user_extensions import MeanShift

    recorder = Recorder()
    toys.scores(toy).correct(MeanShift).gather(progress=recorder)
    assert recorder.calls == []


def test_explaining(world):
    collection, scores = world
    recorder = Recorder()
    failing_queries = failures(scores.T, collection, progress=recorder)
    assert recorder.ends and recorder.calls[-1] == (len(collection.texts),) * 2
    recorder = Recorder()
    explain(failing_queries, collection, progress=recorder)
    assert recorder.ends and recorder.calls[-1] == (len(failing_queries),) * 2
    display = SilentDisplay()
    no_pictures = limner.Items(collection.images.ids, [None] * len(collection.images))
    bare = limner.Collection(collection.name, no_pictures, collection.texts, collection.judgements)
    explain(failing_queries, bare, progress=display)
    assert display.steps == ["reading the captions", "reading the objects", "comparing images"]


def test_a_map(world, monkeypatch, tmp_path):
    collection, scores = world
    monkeypatch.setenv("LIMNER_CACHE", str(tmp_path))
    recorder, before = Recorder(), sys.stdout
    plain = embedding_map(scores, collection, seed=1)
    monkeypatch.setenv("LIMNER_CACHE", str(tmp_path / "again"))
    counted = embedding_map(scores, collection, seed=1, progress=recorder)
    assert sys.stdout is before and np.array_equal(plain.points, counted.points)
    assert recorder.calls[0] == (0, 1000) and len(recorder.calls) > 5 and recorder.calls == sorted(recorder.calls)
    display = SilentDisplay()
    failure_classes(scores, collection, progress=display)
    assert display.steps[0] == "looking for failures, t2i" and "classifying failures" in display.steps


def test_what_scikit_learn_prints_is_not_shown_and_other_threads_are_heard(capsys):
    from threading import Thread

    from limner.explain.map_projection import _iterations

    recorder = Recorder()
    with _iterations(recorder) as counted, _iterations(recorder) as second:
        assert counted and not second
        print("[t-SNE] Iteration 50: error = 1.0")
        thread = Thread(target=print, args=("another request",))
        thread.start()
        thread.join()
    assert recorder.calls == [(0, 1000), (50, 1000)] and capsys.readouterr().out == "another request\n"


def test_probes_languages_and_composed_queries():
    from limner.datasets.scenes.scene_probes import scenes_composed, scenes_probe

    recorder, task = Recorder(), scenes_probe(20)
    probe(task, progress=recorder)
    assert recorder.ends and recorder.calls[-1] == (40, 40)  # two baselines
    toy = toys.collection()
    texts = toy.texts.with_fields(language=["en" if n % 2 else "de" for n in range(len(toy.texts))])
    by_language = limner.Collection(toy.name, toy.images, texts, toy.judgements)
    recorder = Recorder()
    evaluate_languages(toys.scores(toy), by_language, progress=recorder)
    assert recorder.ends
    queries, rng = scenes_composed(12), np.random.default_rng(0)
    pool, words = (limner.Embeddings(items.ids, rng.standard_normal((len(items), 8)))
                   for items in (queries.images, queries.texts))  # fmt: skip
    recorder = Recorder()
    evaluate_composed(queries, (pool, words), progress=recorder)
    assert recorder.ends and recorder.calls[-1] == (36, 36)  # three compositions


def test_an_index_counts_the_queries_of_its_recall(tmp_path):
    pytest.importorskip("lancedb")
    from limner.search import index, keep_correction

    vectors = np.random.default_rng(0).standard_normal((300, 8))
    built, display, recorder = (
        index(tmp_path / "i", limner.Embeddings(range(300), vectors)),
        SilentDisplay(),
        Recorder(),
    )
    built.approximate("ivf_flat", progress=display)
    assert display.steps[:2] == [
        "building an approximate index (ivf_flat) of 300 items",
        "finding the exact neighbours of 100 queries",
    ]
    assert display.steps[2:] and all(step.startswith("measuring recall, ") for step in display.steps[2:])
    built.recall(progress=recorder)
    assert recorder.ends and recorder.calls[-1] == (100, 100)
    recorder = Recorder()
    keep_correction(built, "csls", limner.Embeddings(range(20), vectors[:20]), progress=recorder)
    assert recorder.ends and recorder.calls[-1] == (20, 20)


def test_a_count_that_stands_still_promises_no_time(monkeypatch):
    from limner.cli import console

    clock = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: clock[0])
    step = console.Step("solving", began=0.0, moved=0.0)
    for done in range(1, 11):
        clock[0] += 1
        step.count(done, 12)
    assert step.pace() == ["1.0/s", "about 5 s left"]
    clock[0] += 60
    assert step.pace() == ["at this one for 60 s"]
    step.count(10, 12)  # the same again is no step
    assert step.pace() == ["at this one for 60 s"]
    step.count(11, 12)
    assert step.pace() == ["6.4 s each", "about 5 s left"]


def test_a_bar_that_nobody_calls_still_tells_the_truth(monkeypatch):
    """A decomposition or another library works for minutes without a count: the clock moves, a promise is withdrawn."""
    from rich.console import Console
    from rich.progress import Progress as Bar

    from limner.cli import console

    clock = [0.0]
    monkeypatch.setattr(console.time, "monotonic", lambda: clock[0])
    bar = Bar(*console._columns(80), console=Console(file=io.StringIO(), width=80), get_time=lambda: clock[0])
    counter = console._TerminalBar.begun(bar, "solving", "solutions")
    counter.now.began = counter.now.moved = 0.0

    def rendered():
        with bar.console.capture() as capture:
            bar.console.print(bar.get_renderable())
        assert len(capture.get().strip().splitlines()) == 1
        return capture.get()

    clock[0] = 61
    assert "0:01:01" in rendered() and "%" not in rendered() and "/" not in rendered().replace("solving", "")
    for done in range(1, 11):
        clock[0] += 1
        counter(done, 12)
    assert "left" in rendered()
    clock[0] += 60
    assert "at this one for 60 s" in rendered() and "left" not in rendered() and "0:02:11" in rendered()
    counter(12, 12)
    assert "finishing" in rendered()


def test_compacting_names_its_steps(tmp_path):
    pytest.importorskip("lancedb")
    from limner.search import index

    vectors = np.random.default_rng(0).standard_normal((300, 8))
    built, display = index(tmp_path / "i", limner.Embeddings(range(300), vectors)), SilentDisplay()
    built.approximate("ivf_flat")
    built.compact(progress=display)
    assert display.steps[:2] == [
        "merging the pieces of 300 items", "building an approximate index (ivf_flat) of 300 items",
    ]  # fmt: skip


@pytest.mark.parametrize("file", sorted(CLI.rglob("*.py")), ids=lambda file: file.stem)
def test_every_step_of_a_command_that_can_be_counted_is(file):
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        for item in node.items if isinstance(node, ast.With) else ():
            call = item.context_expr
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "progress" and not item.optional_vars:
                text = ast.unparse(call.args[0]).removeprefix("f").strip("'\"")
                assert text.startswith(UNCOUNTED), f"{file.name}, line {node.lineno}: {text!r} shows no count"
