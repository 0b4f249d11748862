"""Names say what their values are: the share of functions with a vague name does not grow."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import names  # noqa: E402

# The most that is allowed, in percent of the functions of a folder. A number here only ever becomes smaller.
LIMITS = {"src/limner": 1.2, "tests": 1.5, "proofs": 1.0, "benchmarks": 1.0, "tools": 2.0}


@pytest.mark.parametrize("folder", LIMITS)
def test_functions_name_their_values(folder):
    assert names.share(ROOT / folder) <= LIMITS[folder], f"python tools/names.py {folder} lists them"


def test_what_counts(tmp_path):
    """Vague modules, classes, functions, parameters and variables count; the operand of an operator does not."""
    (tmp_path / "held.py").write_text(
        "class Found:\n    def __eq__(self, other): return True\n\n"
        "def told(given, rows):\n    kept = [n for n in rows]\n"
    )
    assert sorted(names.vague_names(tmp_path / "held.py")) == [
        (1, "class", "Found"),
        (1, "module", "held"),
        (4, "function", "told"),
        (4, "parameter", "given"),
        (5, "variable", "kept"),
    ]
    assert names.share(tmp_path) == 50
