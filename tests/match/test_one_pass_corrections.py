"""Lists of corrected scores from the pass that gathers the statistics equal those of two passes to the bit."""

import numpy as np
import pytest
from forced_filter import never

from limner import Scores
from limner.match.corrections import Centred, Csls, InvertedSoftmax, Nnn
from limner.scores import VectorScores, one_pass_corrections
from limner.scores.lowprecision import share_verified
from limner.scores.shifted_scores import Shifted

KINDS = ["random", "clustered", "duplicated", "tied", "one low shift", "spread"]


def sides(kind, n=800, m=900, d=16):
    rng = np.random.default_rng(len(kind))
    rows, columns = rng.standard_normal((n, d)), rng.standard_normal((m, d))
    if kind == "clustered":
        centres = rng.standard_normal((5, d))
        rows, columns = rows + 5 * centres[np.arange(n) % 5], columns + 5 * centres[np.arange(m) % 5]
    if kind == "duplicated":
        rows, columns = rows[rng.integers(0, 50, n)], columns[rng.integers(0, 50, m)]
    if kind == "tied":
        rows, columns = rng.integers(-1, 2, (n, d)) + 0.0, rng.integers(-1, 2, (m, d)) + 0.0
        rows[:, 0] = columns[:, 0] = 1
    if kind == "one low shift":
        columns[7] = -5 * rows.mean(axis=0)
    if kind == "spread":
        rows, columns = rows * 10.0 ** rng.integers(-3, 3, (n, 1)), columns * 10.0 ** rng.integers(-3, 3, (m, 1))
    return rows, columns


@pytest.fixture(autouse=True)
def small(monkeypatch):
    never(monkeypatch)
    for name in ("LEAST_DIMENSIONS", "LEAST_WIDTH", "LEAST_ROWS"):
        monkeypatch.setattr(one_pass_corrections, name, 1)


def two_passes(scores, how, k=5):
    """The same lists with the statistics gathered first."""
    corrected = scores.correct(how)
    corrected.gather()
    return corrected.top(k)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [1, 16, 10**9])
@pytest.mark.parametrize(
    "how", [Csls(k=10), Csls(k=60), InvertedSoftmax(), InvertedSoftmax(beta=100), Nnn(), Centred()]
)
def test_lists_and_scores_are_those_of_two_passes(kind, similarity, share, how, monkeypatch):
    scores = Scores.from_embeddings(*sides(kind), similarity=similarity)
    monkeypatch.setattr(one_pass_corrections, "SHARE", share)
    monkeypatch.setattr(one_pass_corrections, "MOST", np.inf)
    monkeypatch.setattr(one_pass_corrections, "MOST_OF_BLOCK", np.inf if share == 1 else 0.75)
    used = recorded(monkeypatch)
    corrected = scores.correct(how)
    plain, found = two_passes(scores, how), corrected.top(5)
    assert used or similarity == "dot"  # scores that could overflow are checked first
    assert np.array_equal(plain.indices, found.indices)
    assert np.array_equal(plain.scores, found.scores)
    assert np.array_equal(corrected.top(5).indices, found.indices)  # with the statistics that were gathered


def recorded(monkeypatch):
    """Grows when lists are read from what was kept."""
    used, lists = [], one_pass_corrections.RecordedScores.lists
    monkeypatch.setattr(
        one_pass_corrections.RecordedScores,
        "lists",
        lambda self, *given, **named: used.append(1) or lists(self, *given, **named),
    )
    return used


@pytest.mark.parametrize("kept", [5, 8])
@pytest.mark.parametrize("how", [Csls(k=5), InvertedSoftmax()])
def test_short_lists_are_extended(kept, how, monkeypatch):
    scores = Scores.from_embeddings(*sides("random"))
    monkeypatch.setattr(one_pass_corrections, "KEPT", kept)
    monkeypatch.setattr(one_pass_corrections, "MOST", np.inf)
    added, extended = [], one_pass_corrections.RecordedScores._extended
    monkeypatch.setattr(
        one_pass_corrections.RecordedScores, "_extended", lambda self, *given: added.append(1) or extended(self, *given)
    )
    plain, found = two_passes(scores, how, 1), scores.correct(how).top(1)
    assert np.array_equal(plain.indices, found.indices)
    assert np.array_equal(plain.scores, found.scores)
    assert added or kept > 5


def test_a_sample_and_every_block_are_read_once(monkeypatch):
    read, scores = [], Scores.from_embeddings(*sides("random", n=1500))
    block, piece = VectorScores.block, VectorScores.piece

    def counted_block(self, low, high, *given):
        read.append((high - low) * self.shape[1])
        return block(self, low, high, *given)

    def counted_piece(self, start, stop, low, high):
        read.append((stop - start) * (high - low))
        return piece(self, start, stop, low, high)

    monkeypatch.setattr(VectorScores, "block", counted_block)
    monkeypatch.setattr(VectorScores, "piece", counted_piece)
    scores.correct("csls").top(5)
    assert sum(read) == (1500 + 3 * 256) * scores.shape[1]


@pytest.mark.parametrize("cores", [1, 3, 64])
@pytest.mark.parametrize("how", [Csls(), InvertedSoftmax(), Nnn(), Centred()])
def test_a_sample_read_in_ranges_gives_the_scores_and_the_shifts_of_the_whole(how, cores, monkeypatch):
    monkeypatch.setattr(one_pass_corrections, "usable_cores", lambda: cores)
    scores = Scores.from_embeddings(*sides("random", n=200, m=5000))

    def shift(bank):
        return how.shift(how.gather(bank))

    block, (scale, shifts, own) = one_pass_corrections._sampled(scores, shift, map)
    assert np.array_equal(block, scores.matrix())
    expected = shift(scores)
    assert (scale, own) == (expected[0], expected[2])
    assert np.allclose(shifts, expected[1], rtol=1e-6, atol=0)


def test_where_the_trial_fails_the_lists_come_from_two_passes(monkeypatch):
    scores, used = Scores.from_embeddings(*sides("random")), recorded(monkeypatch)
    monkeypatch.setattr(one_pass_corrections, "MOST", -1.0)
    assert np.array_equal(two_passes(scores, Csls()).indices, scores.correct(Csls()).top(5).indices)
    assert not used


@pytest.mark.parametrize("how", [Csls(), InvertedSoftmax(), Nnn()])
def test_no_candidate_that_was_not_kept_exceeds_the_bound(how):
    scores = Scores.from_embeddings(*sides("random"))
    kept = one_pass_corrections.RecordedScores.of(scores, 5, lambda bank: how.shift(how.gather(bank)))
    shifted = Shifted(*how.shift(how.gather(kept)), lambda *given: given[0])
    others, matrix = one_pass_corrections._Others.of(kept, shifted), scores.matrix().astype(np.float64)
    keys = shifted.scale * matrix - shifted.shift
    for start, held in kept.kept.items():
        counts = others.counts(held, 5)
        for row, (places, count) in enumerate(zip(held.places, counts, strict=True)):
            best = np.argsort(-keys[start + row], kind="stable")[:5]
            assert set(best) <= set(places) | set(others.order[:count])


@pytest.mark.parametrize(("k", "bytes_", "used"), [(5, 1 << 28, True), (100, 1 << 28, False), (5, 1000, False)])
def test_it_is_used_if_lists_are_short_and_memory_suffices(k, bytes_, used, monkeypatch):
    monkeypatch.setattr(one_pass_corrections, "MOST_BYTES", bytes_)
    how = Csls()
    found = one_pass_corrections.RecordedScores.of(
        Scores.from_embeddings(*sides("random")), k, lambda bank: how.shift(how.gather(bank))
    )
    assert (found is not None) == used


def test_lists_are_filtered_only_where_the_estimate_of_shifted_scores_allows_it(monkeypatch):
    """Where two passes would begin with the filter and end without it, one pass is faster than both."""
    asked = []

    def refuse(self, workers, consume):
        asked.append(consume.verified(6144, 256))

    monkeypatch.setattr(VectorScores, "filter", refuse)
    Scores.from_embeddings(*sides("random")).correct(Csls(k=10)).top(32)
    assert asked[0] == share_verified(32, 6144) > share_verified(32, 6144, 256)
