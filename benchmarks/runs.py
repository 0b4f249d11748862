"""A run of 25,000 queries with 1,000 results each, seven measures: limner beside `ranx` and `pytrec_eval`.

From arrays, ranx is measured on its second call, when its loops are compiled, and limner with all its checks. From a
TREC file, everything counts: reading, building, evaluating. Judgements are in memory for all of them. Every library
uses as many threads as it likes.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from claims import Claim, Cost, Task, interleaved, log, main
from limner import Ids, Judgements, Ranking, Report
from limner import evaluate as evaluate_with_limner
from limner.datasets.runs import read_run

DEPTH, POOL, RELEVANT, FOUND = 1000, 100_000, 5, 3
BYTES_PER_LINE = 40
NAMES = {  # ranx's name, limner's, pytrec_eval's
    "hit_rate@10": ("R@10", "success_10"),
    "recall@100": ("Recall@100", "recall_100"),
    "precision@10": ("P@10", "P_10"),
    "mrr": ("MRR", "recip_rank"),
    "map": ("MAP", "map"),
    "map@100": ("MAP@100", "map_cut_100"),
    "ndcg@10": ("nDCG@10(linear)", "ndcg_cut_10"),
}
Means = dict[str, float]


def run(options: argparse.Namespace) -> Iterator[Claim]:
    queries = 2500 if options.quick else 25_000
    size = f"{queries:,} x {DEPTH:,}"
    yield from from_arrays(queries, size, rounds=3 if options.quick else 7)
    with tempfile.TemporaryDirectory() as folder:
        path = written(queries, Path(folder))
        yield from from_file(queries, path, size, rounds=1 if options.quick else 3)


def from_arrays(queries: int, size: str, rounds: int) -> Iterator[Claim]:
    costs = interleaved({"limner": Task(limner_arrays, queries), "ranx": Task(ranx_arrays, queries)}, rounds=rounds)
    ours, theirs = costs["limner"], costs["ranx"]
    yield Claim(f"from arrays, {size}, vs ranx's second call, s", ours.wall, theirs.wall, "<= 1", "ranx on all cores")
    yield Claim(f"from arrays, {size}, vs ranx's second call, CPU s", ours.cpu, theirs.cpu, "<= 1")
    yield Claim(f"largest difference to ranx, {size}", difference(ours, theirs), goal="<= 1e-14")


def from_file(queries: int, path: Path, size: str, rounds: int) -> Iterator[Claim]:
    installed = importlib.util.find_spec("pytrec_eval") is not None
    tasks = {"limner": Task(limner_file, queries, path), "ranx": Task(ranx_file, queries, path)}
    tasks["pytrec_eval"] = Task(pytrec_file if installed else pytrec_reading, queries, path)
    costs = interleaved(tasks, rounds=rounds)
    ours, ranx, pytrec = costs["limner"], costs["ranx"], costs["pytrec_eval"]
    case = f"from a TREC file, {size}"
    yield Claim(f"{case}, vs ranx, s (a fifth or less)", ours.wall, ranx.wall, "<= 0.2", rates_note(ours, ranx))
    missing_note = "" if installed else "no wheel for this machine: its reading of the file alone, nothing evaluated; "
    note = missing_note + rates_note(ours, pytrec)
    yield Claim(f"{case}, vs pytrec_eval, s (a fifth or less)", ours.wall, pytrec.wall, "<= 0.2", note)
    for name in ("ranx", "pytrec_eval") if installed else ("ranx",):
        yield Claim(f"{case}, largest difference to {name}", difference(ours, costs[name]), goal="<= 1e-14")


def rates_note(ours: Cost, theirs: Cost) -> str:
    """What the ratio of seconds does not say."""
    return f"{ours.cpu:.1f} and {theirs.cpu:.1f} CPU s; peaks of {ours.peak:,.0f} and {theirs.peak:,.0f} MB"


def difference(ours: Cost, theirs: Cost) -> float:
    return max(abs(ours.value[name] - theirs.value[name]) for name in NAMES)


# --- the problem --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """Numbers of candidates and falling scores, (queries, 1,000); numbers and grades of the relevant, (queries, 5)."""

    lists: np.ndarray
    scores: np.ndarray
    relevant: np.ndarray
    grades: np.ndarray


def problem(queries: int) -> Problem:
    """Each list draws one candidate from each of 1,000 drawers; three of five relevant ones are in the list."""
    rng = np.random.default_rng(0)
    drawer = POOL // DEPTH
    drawn = np.arange(DEPTH, dtype=np.int32) * drawer + rng.integers(0, drawer, (queries, DEPTH), dtype=np.int32)
    lists = rng.permuted(drawn, axis=1)
    scores = np.round(DEPTH - np.arange(DEPTH) + 0.9 * rng.random((queries, DEPTH)), 4)
    drawers = np.array([rng.choice(DEPTH, RELEVANT, replace=False) for _ in range(queries)])
    relevant = np.take_along_axis(drawn, drawers, axis=1)
    relevant[:, FOUND:] = relevant[:, FOUND:] // drawer * drawer + (relevant[:, FOUND:] + 1) % drawer
    grades = -np.sort(-rng.integers(1, 4, relevant.shape), axis=1)  # ranx wants the highest grade first
    return Problem(lists, scores, relevant, grades)


def names(queries: int) -> tuple[list[str], list[str]]:
    return [f"q{n:05}" for n in range(queries)], [f"d{n:06}" for n in range(POOL)]


def written(queries: int, folder: Path) -> Path:
    """The run as a TREC file."""
    free, needed = shutil.disk_usage(folder).free, queries * DEPTH * BYTES_PER_LINE
    if free < 1.2 * needed:
        raise RuntimeError(f"{free / 1e9:.1f} GB free in {folder}, {1.2 * needed / 1e9:.1f} GB needed: set TMPDIR")
    path, drawn, (query_ids, ids) = folder / "run.trec", problem(queries), names(queries)
    log(f"writing {path}")
    with path.open("w") as file:
        for query, row, scores in zip(query_ids, drawn.lists.tolist(), drawn.scores.tolist(), strict=True):
            lines = zip(row, scores, range(1, DEPTH + 1), strict=True)
            file.write("".join([f"{query} Q0 {ids[c]} {rank} {score} tag\n" for c, score, rank in lines]))
    return path


def qrels(queries: int) -> dict[str, dict[str, int]]:
    drawn, (query_ids, ids) = problem(queries), names(queries)
    rows = zip(query_ids, drawn.relevant.tolist(), drawn.grades.tolist(), strict=True)
    return {q: {ids[c]: grade for c, grade in zip(relevant, grades, strict=True)} for q, relevant, grades in rows}


# --- limner -------------------------------------------------------------------------------------------------------


def limner_arrays(queries: int) -> Callable[[], Means]:
    drawn, (query_ids, ids) = problem(queries), names(queries)
    queries_, pool = Ids(query_ids, what="query"), Ids(ids, what="candidate")
    rows = np.repeat(np.arange(queries), RELEVANT)
    truth = Judgements(queries_, pool, rows, drawn.relevant.ravel(), drawn.grades.ravel().astype(np.float64))

    def work() -> Means:
        return means(Ranking(queries_, pool, drawn.lists, drawn.scores), truth)

    work()
    return work


def limner_file(queries: int, path: Path) -> Callable[[], Means]:
    judged = qrels(queries)
    truth = Judgements.from_pairs((q, c, grade) for q, grades in judged.items() for c, grade in grades.items())
    with tempfile.TemporaryDirectory() as folder:  # loads the compiled loops
        tiny = Path(folder, "tiny")
        tiny.write_text("q00000 Q0 d000000 1 2.0 tag\nq00000 Q0 d000001 2 1.0 tag\n")
        means(read_run(tiny), truth.restrict(queries=["q00000"]))
    return lambda: means(read_run(path), truth)


def means(ranking: Ranking, truth: Judgements) -> Means:
    measures = [ours for ours, _ in NAMES.values()]
    report: Report = evaluate_with_limner(ranking, truth, measures=measures, unretrieved="never", keep=0)
    return {name: report.value(ours) for name, (ours, _) in NAMES.items()}


# --- peers --------------------------------------------------------------------------------------------------------


def ranx_arrays(queries: int) -> Callable[[], Means]:
    from ranx import evaluate

    drawn = problem(queries)
    judged, listed = (np.stack(p, axis=2) * 1.0 for p in ((drawn.relevant, drawn.grades), (drawn.lists, drawn.scores)))

    def work() -> Means:
        return {name: float(value) for name, value in evaluate(judged, listed, list(NAMES)).items()}

    work()
    return work


def ranx_file(queries: int, path: Path) -> Callable[[], Means]:
    from ranx import Qrels, Run, evaluate

    judged = qrels(queries)
    first_queries = {q: judged[q] for q in list(judged)[:20]}
    evaluate(Qrels(first_queries), Run({q: {"d000000": 1.0} for q in first_queries}), list(NAMES))  # compiles its loops
    truth = Qrels(judged)
    return lambda: {
        name: float(value)
        for name, value in evaluate(truth, Run.from_file(str(path), kind="trec"), list(NAMES)).items()
    }


def pytrec_file(queries: int, path: Path) -> Callable[[], Means]:
    import pytrec_eval

    evaluator = pytrec_eval.RelevanceEvaluator(qrels(queries), {theirs for _, theirs in NAMES.values()})

    def work() -> Means:
        with path.open() as file:
            per_query = list(evaluator.evaluate(pytrec_eval.parse_run(file)).values())
        return {name: float(np.mean([each[theirs] for each in per_query])) for name, (_, theirs) in NAMES.items()}

    return work


def pytrec_reading(queries: int, path: Path) -> Callable[[], int]:
    """The loop of `pytrec_eval.parse_run`, which is plain Python, for machines that cannot install it."""

    def work() -> int:
        run: dict[str, dict[str, float]] = {}
        with path.open() as file:
            for line in file:
                query, _, candidate, _, score, _ = line.strip().split()
                run.setdefault(query, {})[candidate] = float(score)
        return len(run)

    return work


if __name__ == "__main__":
    main(run, __doc__)
