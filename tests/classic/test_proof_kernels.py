"""A GPU decomposes for the proofs of the ranking paper: everything that takes long goes there, and finds the same."""

import importlib
import sys
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.linalg

from limner.systems.classic import kcca

pytest.importorskip("torch", reason="decomposes with torch")
PROOFS = Path(__file__).resolve().parents[2] / "proofs"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(PROOFS))
    for place, name in ((scipy.linalg, "eigh"), (kcca, "_eigh"), (kcca, "_singular")):
        monkeypatch.setattr(place, name, getattr(place, name))  # put back afterwards
    yield importlib.import_module("ranking_bench")
    for name in ("ranking_bench", "pooling"):
        sys.modules.pop(name, None)


def test_spectra_and_solutions_are_those_of_the_cpu_and_none_is_left_to_it(bench, monkeypatch):
    rng = np.random.default_rng(0)
    one, second = (rng.standard_normal((40, 60)) for _ in range(2))
    kernels = [np.corrcoef(one), np.corrcoef(one + second)]

    def solved():
        pair = kcca.KernelPair(*map(kcca.spectrum, kernels))
        return pair, pair.solve(0.5)

    cpu_pair, cpu_solution = solved()
    bench.on_gpu("cpu")

    def refused(*_):
        raise AssertionError("the CPU decomposes")

    monkeypatch.setattr(np.linalg, "eigh", refused)
    pair, solution = solved()
    assert pair.x.values == pytest.approx(cpu_pair.x.values)
    assert solution.correlations == pytest.approx(cpu_solution.correlations, abs=1e-6)
    assert np.abs(solution.x[:, 0]) == pytest.approx(np.abs(cpu_solution.x[:, 0]), abs=1e-6)


@pytest.mark.parametrize(("rank", "used"), [(None, None), (9, 9), (10, None), (1000, None)])
def test_a_kernel_is_cut_only_where_something_is_left_to_cut(rank, used, bench):
    data = SimpleNamespace(train=SimpleNamespace(images=range(10)))
    assert bench.Bench(data, Namespace(rank=rank)).options.rank == used
