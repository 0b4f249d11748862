"""Run files against a reader of five lines of Python: any white space, any float, any order, any cut into pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner import LimnerError, Ranking
from limner.datasets import runs as _runs
from limner.datasets.runs import read_run

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1, max_size=12)
BETWEEN = st.text(" \t\x0b\x0c", min_size=1, max_size=3)
SCORES = st.one_of(
    st.floats(allow_nan=False).map(repr),
    st.floats(allow_nan=False, width=32).map("{:.3e}".format),
    st.integers(-(10**25), 10**25).map(str),
    st.sampled_from(
        ["+1", "1_000", "-0", "inf", "-Infinity", "1e400", "5e-324", ".5", "1.", "007", "0.1000000000000000055"]
    ),
)


@st.composite
def run_texts(draw):
    """Lines of a run in any order, no candidate twice in a list, with blank lines and both ends of line."""
    pairs = draw(st.lists(st.tuples(st.sampled_from(["q1", "q2", "q3"]), WORDS), max_size=12, unique=True))
    lines = []
    for query, candidate in pairs:
        b = [draw(BETWEEN) for _ in range(5)]
        line = f"{query}{b[0]}Q0{b[1]}{candidate}{b[2]}1{b[3]}{draw(SCORES)}{b[4]}tag"
        lines += [line, *draw(st.lists(st.just("  "), max_size=1))]
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return end.join(lines) + draw(st.sampled_from(["", end]))


def by_python(text: str) -> dict[str, dict[str, float]]:
    run: dict[str, dict[str, float]] = {}
    for line in text.encode().split(b"\n"):
        if line.strip():
            query, _, candidate, _, score, _ = (part.decode() for part in line.split())
            run.setdefault(query, {})[candidate] = float(score)
    return run


@given(text=run_texts(), piece=st.sampled_from([1, 7, 64, 1 << 20]))
def test_reads_what_python_reads(tmp_path_factory, text, piece):
    path = tmp_path_factory.getbasetemp() / "any.run"
    path.write_bytes(text.encode())
    before, _runs._PIECE = _runs._PIECE, piece
    try:
        run = read_run(path)
    finally:
        _runs._PIECE = before
    expected = by_python(text)
    assert list(run.queries) == list(expected)
    for row, (query, scores) in enumerate(expected.items()):
        best_first = sorted(scores, key=lambda c: -scores[c])
        assert run[query] == best_first
        assert run.scores[row, : len(scores)].tolist() == [scores[c] for c in best_first]


def test_many_words_in_many_pieces(tmp_path, monkeypatch):
    """More words than a table begins with, so that it has to grow, and pieces that end inside lines."""
    monkeypatch.setattr(_runs, "_PIECE", 10_000)
    rng = np.random.default_rng(0)
    names = [f"{'x' * int(rng.integers(0, 30))}{n}" for n in range(5000)]
    lists = {f"q{q}": [names[c] for c in rng.permutation(5000)[:700]] for q in range(30)}
    lines = [f"{q} Q0 {c} 0 {1 / (rank + 1)!r} t" for q, row in lists.items() for rank, c in enumerate(row)]
    path = tmp_path / "r"
    path.write_text("\n".join(rng.permutation(lines)))
    run = read_run(path)
    assert {q: run[q] for q in run.queries} == lists


def test_every_float_survives_writing_and_reading(tmp_path):
    scores = -np.sort(
        -np.random.default_rng(0).standard_normal((1, 1000)) * 10.0 ** np.arange(-500, 500).clip(-300, 300)
    )
    run = Ranking(["q"], range(1000), np.arange(1000)[None], scores)
    reloaded = read_run(run.save(tmp_path / "r.txt"))
    assert reloaded.scores.tolist() == scores.tolist() and reloaded["q"] == run["q"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"q Q0 c 1 2", "5 columns; expected 6"),
        (b"q Q0 c 1 2 tag more", "7 columns; expected 6"),
        (b"q Q0 c 1 1,5 t", "the score is '1,5'; expected a number"),
        (b"q Q0 c 1 NaN t", "the score is NaN"),
        (b"q Q0 \xe9 1 2 t", "not UTF-8"),
    ],
)
def test_a_bad_line_is_named_wherever_it_stands(tmp_path, monkeypatch, line, message):
    monkeypatch.setattr(_runs, "_PIECE", 50)
    good = b"".join(b"q Q0 d%d 1 %d t\n" % (n, -n) for n in range(40))
    (tmp_path / "r").write_bytes(b"\n" + good + b"\n" + line + b"\n" + good.replace(b"d", b"e"))
    with pytest.raises(LimnerError, match=f"r, line 43: {message}"):
        read_run(tmp_path / "r")


@pytest.mark.parametrize("content", [b"", b"\n\n", b"   \n"])
def test_an_empty_file_is_an_empty_run(tmp_path, content):
    (tmp_path / "r").write_bytes(content)
    assert len(read_run(tmp_path / "r")) == 0


def test_a_gap_inside_a_list_is_refused():
    """Lengths are counted, so that what follows a gap would stand at another rank than it says."""
    with pytest.raises(LimnerError, match="query 'q' at rank 2 holds -1, which may only pad the end of a list"):
        Ranking(["q"], "abc", np.array([[0, -1, 2]]))
