"""Compiled loops give the same bits when they are compiled now and when they are read from the cache.

What is quick in numpy is not compiled at all.
"""

import os
import subprocess
import sys

PROGRAM = """
import hashlib
import numpy as np
from limner.match import _correction_kernels

random = np.random.default_rng(0)
for kind in (np.float32, np.float64):
    block = (0.3 * random.standard_normal((40, 1100))).astype(kind)
    rows = np.empty(40)
    _correction_kernels.add_rows(block, kind(20), rows)
    columns = [np.empty(1100), np.empty(1100, np.int32), np.empty(1100), np.empty(1100)]
    _correction_kernels.add_columns(block, kind(20), *columns)
    print(*(hashlib.sha256(each.tobytes()).hexdigest() for each in (rows, *columns)))
"""


def test_sums_of_the_first_run_are_those_of_every_later_one(tmp_path):
    cache = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "compiled")}
    outputs = [
        subprocess.run([sys.executable, "-c", PROGRAM], env=cache, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert any((tmp_path / "compiled").rglob("*add_rows*.nbc")), "nothing was cached"
    assert outputs[0] == outputs[1] and len(outputs[0].split()) == 10


EVALUATION = """
import sys
import numpy as np
import limner
from limner.core.paths import is_compiled
from limner.scores.parallel_blocks import COMPILED

random = np.random.default_rng(0)
images, texts = (random.standard_normal((n, 16)) for n in (300, 1500))
first = limner.evaluate(images, texts, per_image=5, keep=7)
assert "numba" not in sys.modules and not is_compiled(COMPILED)
import limner.scores.block_kernels
again = limner.evaluate(images, texts, per_image=5, keep=7)
assert is_compiled(COMPILED)
values = [[(r.direction, str(r.measure), r.value, r.interval) for r in report.results] for report in (first, again)]
assert values[0] == values[1] and len(values[0]) > 10
for direction, top in first.top.items():
    assert top.indices.tobytes() == again.top[direction].indices.tobytes()
    assert top.scores.tobytes() == again.top[direction].scores.tobytes()
"""


def test_an_evaluation_compiles_nothing_and_compiled_loops_give_the_same(tmp_path):
    cache = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "compiled")}
    subprocess.run([sys.executable, "-c", EVALUATION], env=cache, check=True, timeout=300)
