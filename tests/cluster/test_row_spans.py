"""How rows are cut and states merged: whoever merges what, the tree is the same. No cluster needed."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from limner.cluster.task_queue import RowSpans
from limner.scores.parallel_blocks import merged


def join(earlier, later):
    return f"({earlier}{later})"


@given(st.integers(1, 40), st.integers(0, 6), st.integers(0, 255))
def test_every_cut_gives_the_tree_of_single_blocks(blocks, level, short):
    rows = blocks * 256 - short
    plain = merged(((0, f"{b},") for b in range(blocks)), join)
    spans = RowSpans(rows, level)
    done = [merged(((0, f"{low // 256},") for low in range(start, stop, 256)), join) for start, stop in spans]
    assert merged(zip((spans.level_of(start) for start, _ in spans), done, strict=True), join) == plain


@given(st.integers(1, 10**7), st.integers(1, 10**7), st.integers(1, 1000))
def test_spans_cover_every_row_once_in_whole_blocks(rows, width, workers):
    spans = list(RowSpans.of(rows, width, workers))
    assert spans[0][0] == 0 and spans[-1][1] == rows
    assert all(before[1] == after[0] for before, after in pairwise(spans))
    assert all(start % 256 == 0 for start, _ in spans)


def test_a_last_span_that_is_only_a_part_of_a_block_is_merged_last():
    """300 rows are two blocks, the second not full: it must not be taken for a full span of one block."""
    assert [RowSpans(300, 0).level_of(start) for start, _ in RowSpans(300, 0)] == [0, -1]
