"""Without the packages that are extras: what does not need them works, and the rest says what to install."""

import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from limner import Embeddings, Judgements, LimnerError, Scores, evaluate
from limner.cli import app
from limner.core import cache_dir
from limner.datasets.runs import read_run


@pytest.fixture
def hide_packages(monkeypatch):
    """Hides packages from the imports that follow."""

    def hide(*names):
        for loaded in [key for key in sys.modules if key.partition(".")[0] in names]:
            monkeypatch.delitem(sys.modules, loaded)
        for name in names:
            monkeypatch.setitem(sys.modules, name, None)
        cache_dir.settle_matplotlib.cache_clear()

    yield hide
    cache_dir.settle_matplotlib.cache_clear()


@pytest.fixture
def vectors():
    return Embeddings(["a", "b"], np.eye(2))


def test_parquet_files_name_their_extra(hide_packages, tmp_path, vectors):
    vectors.save(tmp_path / "kept.parquet")
    hide_packages("pyarrow")
    for work in (lambda: vectors.save(tmp_path / "new.parquet"), lambda: Embeddings.load(tmp_path / "kept.parquet")):
        with pytest.raises(
            LimnerError, match=r"a Parquet file needs the package 'pyarrow'.*pip install 'limner\[arrow\]'"
        ):
            work()
    assert not (tmp_path / "new.parquet").exists()
    vectors.save(tmp_path / "new.safetensors")


@pytest.fixture
def report():
    ids = ["a", "b", "c"]
    judged = Judgements.from_pairs(zip(ids, ids, strict=True))
    return evaluate(Scores.from_matrix(np.eye(3), ids, ids), judged, measures="R@1")


@pytest.mark.parametrize(("method", "extra"), [("to_arrow", "arrow"), ("to_pandas", "frames"), ("to_polars", "frames")])
def test_tables_name_their_extra(method, extra, hide_packages, report):
    hide_packages("pyarrow", "pandas", "polars")
    with pytest.raises(LimnerError, match=rf"a table as .*pip install 'limner\[{extra}\]'"):
        getattr(report, method)()


def test_run_files_are_read_without_pyarrow(hide_packages, tmp_path):
    path = tmp_path / "run.trec"
    path.write_text("q Q0 a 1 1.5e-3 x\nq Q0 b 2 0.0012345678901234567890123 x\nq Q0 c 3 1e-300 x\n")
    with_pyarrow = read_run(path)
    hide_packages("pyarrow")
    without_pyarrow = read_run(path)
    assert np.array_equal(with_pyarrow.scores, without_pyarrow.scores)
    assert list(with_pyarrow.candidates) == list(without_pyarrow.candidates)
    assert with_pyarrow.scores[0].tolist() == [1.5e-3, 0.0012345678901234567890123, 1e-300]


def test_a_figure_names_its_extra(hide_packages, tmp_path, report):
    report.save(tmp_path / "report.json")
    hide_packages("matplotlib")
    done = CliRunner().invoke(app, ["report", str(tmp_path / "report.json"), "-o", str(tmp_path / "figure.pdf")])
    output = " ".join(done.output.split())
    assert done.exit_code == 3 and "a figure needs the package 'matplotlib'" in output
    assert "pip install 'limner[figures]'" in output
    assert not (tmp_path / "figure.pdf").exists()


def test_attacks_need_no_matplotlib(hide_packages):
    from limner.explain import opposites

    hide_packages("matplotlib")
    opposites.css_colours.cache_clear()
    assert opposites.css_colours()["red"] == (1.0, 0.0, 0.0)
