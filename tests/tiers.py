"""Which tests are quick, and which need other processes, a cluster or a browser: by file and by fixture."""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

TESTS = Path(__file__).resolve().parent

# What `make check` leaves out and `make test` runs, by file below tests/. Docs: contributing.md.
TIERS = {
    "browser": ("browser/*",),
    "cluster": ("cluster/*",),
    "subprocess": (
        "security/*", "web/*", "test_cli*.py", "test_decoding.py", "test_demo.py", "test_docs.py",
        "test_extending_command.py", "test_files.py", "test_full_disk.py", "test_kill*.py", "test_project.py",
        "test_same_everywhere.py", "test_scripts.py", "test_whole_way.py",
    ),
    "slow": (
        "annotate/*", "classic/*", "encoders/*", "explain/*", "loading/test_load_coco.py", "loading/test_scenes*.py",
        "loading/test_load_flickr.py", "loading/test_writing.py", "match/*", "parity/*", "test_architecture.py",
        "test_bad_input.py", "test_callbacks.py", "test_claims.py", "test_comparison.py", "test_cut_off.py",
        "test_differential.py", "test_extending.py", "test_features.py", "test_figures.py", "test_judged.py",
        "test_opening.py", "test_overlap.py", "test_own_measures.py", "test_page.py", "test_ranks.py", "test_slices.py",
        "test_stats.py", "test_stats_bootstrap.py", "test_stats_sampling.py", "test_systems.py", "towers/*",
        "loading/test_load_multilingual.py", "test_languages.py", "test_model_store.py", "test_old_files.py",
        "test_scores_sources.py", "test_stats_intervals.py", "test_terminal_width.py",
    ),
}  # fmt: skip
FIXTURES = {"browser": "browser", "postgres": "subprocess"}


def tiers(path: Path, fixtures: Collection[str]) -> frozenset[str]:
    """The markers of a test, by its file and by the fixtures it uses."""
    return _by_file(path) | {marker for fixture, marker in FIXTURES.items() if fixture in fixtures}


@cache
def _by_file(path: Path) -> frozenset[str]:
    below = path.relative_to(TESTS).as_posix() if path.is_relative_to(TESTS) else ""
    return frozenset(name for name, patterns in TIERS.items() if any(fnmatch(below, each) for each in patterns))
