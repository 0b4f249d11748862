"""Ids and Judgements: what they keep, what they refuse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from limner import Ids, Judgements, LimnerError
from limner.core.errors import UnknownId

pairs_strategy = st.dictionaries(
    st.tuples(st.sampled_from("abcd"), st.sampled_from("wxyz")), st.sampled_from([0.0, 0.5, 1.0, 3.0]), max_size=12
)


def judgements_of(pairs):
    return Judgements.from_pairs([(q, c, g) for (q, c), g in pairs.items()], queries="abcd", candidates="wxyz")


@given(pairs_strategy)
def test_holds_exactly_what_was_given(pairs):
    judgements = judgements_of(pairs)
    for q in "abcd":
        for c in "wxyz":
            assert judgements.grade(q, c) == pairs.get((q, c))
    assert len(judgements) == sum(g > 0 for g in pairs.values())
    assert {(q, c): g for q, c, g in judgements} == pairs


@given(pairs_strategy)
def test_transposed_twice_is_the_same(pairs):
    judgements = judgements_of(pairs)
    assert judgements == judgements.T.T
    assert all(judgements.T.grade(c, q) == g for (q, c), g in pairs.items())


@given(pairs_strategy, pairs_strategy)
def test_union_takes_the_higher_grade(first, second):
    union = judgements_of(first) | judgements_of(second)
    expected = {key: max(first.get(key, 0.0), second.get(key, 0.0)) for key in first.keys() | second.keys()}
    assert {(q, c): g for q, c, g in union} == expected


def test_union_of_different_ids_keeps_all_of_them():
    union = Judgements.from_pairs([("a", "x")]) | Judgements.from_pairs([("b", "y", 2)])
    assert list(union.queries) == ["a", "b"] and union.grade("b", "y") == 2 and union.grade("a", "y") is None


@given(pairs_strategy, st.lists(st.sampled_from("abcd"), unique=True), st.lists(st.sampled_from("wxyz"), unique=True))
def test_restrict_keeps_the_order_asked_for(pairs, queries, candidates):
    restricted = judgements_of(pairs).restrict(queries=queries, candidates=candidates)
    assert list(restricted.queries) == queries and list(restricted.candidates) == candidates
    assert {(q, c): g for q, c, g in restricted} == {
        (q, c): g for (q, c), g in pairs.items() if q in queries and c in candidates
    }


def test_at_least_keeps_judged_no():
    graded = Judgements.from_pairs([("q", "a", 4), ("q", "b", 2)])
    binary = graded.at_least(3)
    assert len(binary) == 1 and binary.grade("q", "b") == 0.0


def test_the_callers_arrays_stay_writeable():
    grades = np.array([1.0, 2.0])
    Judgements(Ids("q"), Ids("ab"), np.array([0, 0]), np.array([0, 1]), grades)
    grades[0] = 5  # would raise if the judgements had frozen the caller's own array


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Judgements.from_pairs([("q", "a"), ("q", "a")]), "judged more than once"),
        (lambda: Judgements.from_pairs([("q", "a", float("nan"))]), "finite number"),
        (lambda: Judgements.from_pairs([("q", "a", -1)]), "0 or above"),
        (lambda: Judgements(Ids("q"), Ids("a"), np.array([0]), np.array([3]), np.array([1.0])), "expected 0 to 0"),
        (lambda: Judgements(Ids("q"), Ids("a"), np.array([0]), np.array([0, 0]), np.array([1.0])), "one length"),
        (lambda: Ids(["a", "b", "a"], what="image"), "duplicate image id 'a' in rows 0 and 2"),
        (lambda: Ids(["a", ""]), "empty"),
    ],
)
def test_refused(make, message):
    with pytest.raises(LimnerError, match=message):
        make()


def test_unknown_ids_are_named():
    with pytest.raises(UnknownId, match=r"2 of 3 .* \('x', 'y'\)"):
        Ids("abc").positions(["a", "x", "y"])


def test_ids_take_numbers_and_slices():
    ids = Ids([10, 20, 30])
    assert ids.index(20) == 1 and list(ids[1:]) == ["20", "30"] and ids == Ids(["10", "20", "30"])
    assert {ids: 1}[Ids(["10", "20", "30"])] == 1


@pytest.mark.parametrize("key", [slice(1, 3), [1, 2], np.array([1, 2]), np.array([False, True, True, False])])
def test_some_ids_of_many(key):
    ids = Ids("abcd", what="image")
    some = ids[key]
    assert list(some) == ["b", "c"] and some.index("c") == 1 and "a" not in some and some.what == "image"
    with pytest.raises(ValueError, match="read-only"):
        some.array[0] = "x"


@pytest.mark.parametrize("key", [[1, 1], np.array([1, 1]), np.array([0, -4]), np.array([3, -1])])
def test_the_same_id_twice_is_refused_in_a_selection_too(key):
    with pytest.raises(LimnerError, match="duplicate image id"):
        Ids("abcd", what="image")[key]


def test_ids_in_another_order():
    assert list(Ids("abcd")[np.array([3, 0])]) == ["d", "a"] and list(Ids("abcd")[::-1]) == ["d", "c", "b", "a"]
