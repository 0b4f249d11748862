"""Which tests are quick, and which need other processes, a cluster or a browser: by file and by fixture."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatch
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TypeVar

TESTS = Path(__file__).resolve().parent

# What `make check` leaves out and `make test` runs, by file below tests/. Docs: contributing.md.
TIERS = {
    "browser": ("browser/*",),
    "cluster": ("cluster/*",),
    "subprocess": (
        "security/*", "web/*", "test_agent_server.py", "test_cli*.py", "test_core_only.py", "test_decoding.py",
        "test_demo.py", "test_docs.py", "test_extending_command.py", "test_files.py", "test_full_disk.py",
        "test_kill*.py", "test_project.py", "test_same_everywhere.py", "test_scripts.py", "test_wheel.py",
        "test_whole_way.py",
    ),
    "slow": (
        "annotate/*", "classic/*", "encoders/*", "explain/*", "loading/test_load_coco.py", "loading/test_scenes*.py",
        "loading/test_load_flickr.py", "loading/test_writing.py", "match/*", "papers/*", "parity/*",
        "test_architecture.py",
        "test_aligned.py", "test_bad_input.py", "test_board.py", "test_callbacks.py", "test_caption_metrics.py",
        "test_claims.py", "test_composed.py", "test_few_scenes.py", "test_comparison.py", "test_cut_off.py",
        "test_differential.py", "test_extending.py", "test_features.py", "test_figures.py", "test_judged.py",
        "test_json_schemas.py", "test_opening.py", "test_overlap.py", "test_own_measures.py", "test_page.py",
        "test_ranks.py", "test_slices.py",
        "test_stats.py", "test_stats_bootstrap.py", "test_stats_sampling.py", "test_systems.py", "towers/*",
        "loading/test_load_multilingual.py", "test_languages.py", "test_model_store.py",
        "test_scores_sources.py", "test_stats_intervals.py", "test_terminal_width.py",
    ),
}  # fmt: skip
# Files whose tests take longest, so that no process is left alone with one of them at the end. Each row stays in one
# process: its tests share a server of forks, a site or a browser.
LONGEST = (
    ("test_kill_loops.py", "test_kills.py", "test_files.py", "test_full_disk.py"),
    ("test_docs.py",),
    ("browser/test_labelling_study.py", "browser/*"),
    ("test_whole_way.py", "security/test_without_a_home.py", "test_same_everywhere.py", "match/test_compiled_once.py"),
    ("test_core_only.py",),
)
FIXTURES = {"browser": "browser", "postgres": "subprocess"}


def tiers(path: Path, fixtures: Collection[str]) -> frozenset[str]:
    """The markers of a test, by its file and by the fixtures it uses."""
    return _by_file(path) | {marker for fixture, marker in FIXTURES.items() if fixture in fixtures}


T = TypeVar("T")


def longest_first(tests: Sequence[T], files: Sequence[Path], processes: int) -> list[T]:
    """The tests in the order for so many processes, of which each gets a stretch of equal length and starts with its
    first test: the files of `LONGEST` are at the starts, everything else stays in order."""
    first: list[list[T]] = [[] for _ in range(processes)]
    first_tests: dict[tuple[int, int], list[T]] = {}
    unplaced: list[T] = []
    for file, test in zip(files, tests, strict=True):
        turn = _turn(file)
        (unplaced if turn is None else first_tests.setdefault(turn, [])).append(test)
    for row, place in sorted(first_tests):
        first[row % processes] += first_tests[row, place]
    ordered, left = [], iter(unplaced)
    for number, start in enumerate(first):
        length = (len(tests) - len(ordered)) // (processes - number)
        ordered += [*start, *islice(left, max(0, length - len(start)))]
    return [*ordered, *left]


@cache
def _turn(path: Path) -> tuple[int, int] | None:
    """The row of `LONGEST` that names a file, and the place in it."""
    relative = path.relative_to(TESTS).as_posix() if path.is_relative_to(TESTS) else ""
    places = ((r, p) for r, row in enumerate(LONGEST) for p, each in enumerate(row) if fnmatch(relative, each))
    return next(places, None)


@cache
def _by_file(path: Path) -> frozenset[str]:
    relative = path.relative_to(TESTS).as_posix() if path.is_relative_to(TESTS) else ""
    return frozenset(name for name, patterns in TIERS.items() if any(fnmatch(relative, each) for each in patterns))
