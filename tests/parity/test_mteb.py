"""MTEB's predictions, written by mteb itself: limner reads them and computes mteb's numbers."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner.cli import app
from limner.datasets.runs import read_run, run_name
from limner.datasets.trec import read_qrels

CUTS = (1, 5, 10, 100)
NAMES = {
    "ndcg_at_{}": "nDCG@{}(linear)", "map_at_{}": "MAP@{}", "recall_at_{}": "Recall@{}", "precision_at_{}": "P@{}",
    "mrr_at_{}": "MRR@{}", "hit_rate_at_{}": "R@{}",
}  # fmt: skip
TASKS = 20


@pytest.fixture(scope="module")
def mteb():
    sys.path.append(str(Path(sys.prefix) / "mteb"))  # where `make test` puts it
    try:
        pytest.importorskip("pytrec_eval", reason="mteb computes with pytrec_eval, which has no wheel for aarch64")
        yield pytest.importorskip("mteb", reason="no mteb: 'make test' installs it", exc_type=ImportError)
    finally:
        sys.path.remove(str(Path(sys.prefix) / "mteb"))


def image_tasks(mteb):
    """Retrieval tasks between images and texts, with small data in the place of their own."""
    tasks = [t for t in mteb.get_tasks(task_types=["Any2AnyRetrieval"]) if not t.metadata.is_multilingual]
    return [t for t in tasks if set(t.metadata.modalities) == {"image", "text"}][:TASKS]


def fill(task, seed):
    """Some queries with several relevant candidates, some graded 2, in a pool of another size for every task."""
    from datasets import Dataset

    rng = np.random.default_rng(seed)
    docs, queries = [f"d{n}" for n in range(30 + 7 * seed)], [f"q{n}" for n in range(10 + seed)]
    grades = {q: {str(d): int(rng.integers(1, 3)) for d in rng.choice(docs, rng.integers(1, 5))} for q in queries}
    sides = {
        name: Dataset.from_dict({"id": ids, "text": ids}) for name, ids in (("corpus", docs), ("queries", queries))
    }
    task.dataset = {"default": {s: {**sides, "relevant_docs": grades, "top_ranked": None} for s in task.eval_splits}}
    task.data_loaded = True
    return grades


class Scorer:
    """A model as mteb searches with it: random scores without ties, or the same score for all."""

    def __init__(self, seed, *, is_constant=False):
        self.rng, self.is_constant = np.random.default_rng(seed), is_constant
        self.mteb_model_meta = type("Meta", (), {"name": "limner/scorer", "revision": "1"})

    def index(self, corpus, **_):
        self.docs = list(corpus["id"])

    def search(self, queries, *, top_k, **_):
        orders = {q: self.rng.permutation(len(self.docs)) / 64 for q in queries["id"]}
        return {
            q: {d: 0.5 if self.is_constant else float(s) for d, s in zip(self.docs, order, strict=True)}
            for q, order in orders.items()
        }


def predicted(task, model, folder):
    scores = task.evaluate(model, split=task.eval_splits[0], encode_kwargs={}, prediction_folder=folder)
    return scores["default"], folder / task.prediction_file_name


def report_of(file, qrels, **how):
    measures = [name.format(k) for name in NAMES.values() for k in CUTS]
    return limner.evaluate(read_run(file), read_qrels(qrels), measures=measures, unretrieved="never", **how)


def test_the_numbers_are_those_of_mteb(mteb, tmp_path):
    tasks = image_tasks(mteb)
    assert len(tasks) == TASKS
    for seed, task in enumerate(tasks):
        qrels = tmp_path / f"{task.metadata.name}.json"
        qrels.write_text(json.dumps(fill(task, seed)))
        expected, file = predicted(task, Scorer(seed), tmp_path)
        report = report_of(file, qrels)
        for theirs, ours in NAMES.items():
            for k in CUTS:
                assert report.value(ours.format(k)) == pytest.approx(expected[theirs.format(k)], abs=1e-5), theirs


def test_a_constant_scorer_gets_chance(mteb, tmp_path):
    for seed, task in enumerate(image_tasks(mteb)):
        grades = fill(task, seed)
        qrels = tmp_path / f"{task.metadata.name}.json"
        qrels.write_text(json.dumps(grades))
        _, file = predicted(task, Scorer(seed, is_constant=True), tmp_path)
        pool = 30 + 7 * seed
        chance = np.mean([len(row) / pool for row in grades.values()])
        report = report_of(file, qrels)
        for measure in ("R@1", "P@1", "P@5", "P@10"):
            assert report.value(measure) == pytest.approx(chance, abs=1e-9), task.metadata.name
        assert report.value("Recall@10") == pytest.approx(10 / pool, abs=1e-9)


def test_predictions_at_the_shell_carry_the_name_of_the_model(mteb, tmp_path):
    task = image_tasks(mteb)[0]
    (tmp_path / "qrels.json").write_text(json.dumps(fill(task, 3)))
    expected, file = predicted(task, Scorer(3), tmp_path)
    words = ("evaluate", tmp_path / "qrels.json", "--run", file, "--measures", "nDCG@10(linear)", "--json")
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["system"] == run_name(file) == "limner/scorer"
    assert summary["results"][0]["value"] == pytest.approx(expected["ndcg_at_10"], abs=1e-5)
