"""Products of one direction serve the other: the numbers are those of float32, with half of the products."""

from types import SimpleNamespace

import numpy as np
import pytest

from limner import Collection, Embeddings, Ids, Items, Judgements, Scores, evaluate
from limner.core.count_kernels import LOWEST, transpose
from limner.scores import both_directions, filtering
from limner.scores import near as near_module
from limner.scores.bfloat16 import Bfloat16, emulated_products
from limner.scores.int8 import Int8


def world():
    """700 images with two texts each, some of them copies, and more judged pairs."""
    rng = np.random.default_rng(0)
    images, texts = Ids([f"i{n}" for n in range(700)]), Ids([f"t{n}" for n in range(1400)])
    points = rng.standard_normal((700, 24))
    points[:40] = points[40:80]
    vectors = points, np.repeat(points, 2, axis=0) + rng.standard_normal((1400, 24))
    pairs = Judgements.from_pairs([(f"i{n // 2}", f"t{n}") for n in range(1400)])
    collection = Collection("world", Items(images, [None] * 700), Items(texts, [""] * 1400, {}, "text"), pairs)
    drawn = {(int(i), int(t)) for i, t in zip(rng.integers(0, 700, 900), rng.integers(0, 1400, 900), strict=True)}
    more = Judgements.from_pairs([(f"i{i}", f"t{t}", float((i + t) % 2)) for i, t in sorted(drawn)], name="more")
    return Scores.from_embeddings(Embeddings(images, vectors[0]), Embeddings(texts, vectors[1])), collection, more


@pytest.mark.parametrize("form", [Bfloat16(emulated_products), Int8(emulated=True)], ids=lambda form: form.name)
@pytest.mark.parametrize("most", [0, 1 << 28])
@pytest.mark.parametrize("turned", [False, True])
def test_numbers_and_lists_are_those_of_float32(form, most, turned, monkeypatch):
    scores, collection, more = world()
    scores = scores.T if turned else scores

    def found():
        report = evaluate(scores, collection, judgements=more, measures="R@1 R@5 MedR mAP@R RP rsum MRR")
        lists = {d: (top.indices.tolist(), top.scores.tolist()) for d, top in report.top.items()}
        return [(r.key, r.values.tolist()) for r in report.results], lists

    monkeypatch.setenv(filtering.SETTING, "never")
    expected = found()
    monkeypatch.setenv(filtering.SETTING, "always")
    monkeypatch.setattr(filtering, "FORMATS", ())
    monkeypatch.setattr(filtering, "EMULATED", form)
    monkeypatch.setattr(near_module, "MANY", 1.0)
    monkeypatch.setattr(both_directions, "MOST", most)
    kept = both_directions.KeptProducts
    read, columns = [], kept.columns
    monkeypatch.setattr(kept, "columns", lambda *given: read.append(given[1:3]) or columns(*given))
    assert found() == expected
    starts = sorted(start for start, stop in read if stop - start != filtering.PROBED)
    assert starts == ([] if not most else [*range(0, 1400, 256)])


def test_products_that_are_not_complete_are_not_read(monkeypatch):
    """A block of the first direction that was left to float32: the second computes its own products."""
    scores, *_ = world()
    with both_directions.both_directions():
        own, other = both_directions.kept_for(scores.query_vectors, scores.candidate_vectors, filtering.EMULATED)
        assert other is None
        own.done.add(0)
        turned = scores.candidate_vectors, scores.query_vectors, filtering.EMULATED
        assert both_directions.kept_for(*turned) == (None, None)
        own.done |= {256, 512}
        assert both_directions.kept_for(*turned) == (None, own)
    assert both_directions.kept_for(scores.query_vectors, scores.candidate_vectors, filtering.EMULATED) == (None, None)


def test_the_second_direction_uses_the_format_of_the_products_that_it_reads(monkeypatch):
    """The bound of another format, or of vectors that were not rotated, does not hold for them."""
    scores, *_ = world()
    monkeypatch.setenv(filtering.SETTING, "always")
    monkeypatch.setattr(filtering, "FORMATS", ())
    count = SimpleNamespace(in_order=True, verified=lambda width: 0.0, from_near=None)
    with both_directions.both_directions():
        monkeypatch.setattr(filtering, "EMULATED", Int8(emulated=True, rotated=True))
        first = scores.filter(None, count)
        first.kept[0].done |= {0, 256, 512}
        for other in (Int8(emulated=True, rotated=False), Bfloat16(emulated_products)):
            monkeypatch.setattr(filtering, "EMULATED", other)
            second = scores.T.filter(None, count)
            assert second.kept == (None, first.kept[0])
            assert second.form is first.form


@pytest.mark.parametrize(("rows", "columns", "start", "count"), [(5, 7, 0, 7), (70, 100, 87, 13), (129, 300, 44, 256)])
def test_a_transpose_and_its_highest_numbers(rows, columns, start, count):
    keys = np.random.default_rng(0).integers(LOWEST + 1, 2**15, (rows, columns), dtype=np.int16)
    out, tops = np.empty((count, rows), np.int16), np.empty((count, -(-rows // 64)), np.int16)
    transpose(keys, start, out, tops)
    assert np.array_equal(out, keys[:, start : start + count].T)
    assert np.array_equal(tops, [[row[low : low + 64].max() for low in range(0, rows, 64)] for row in out])


@pytest.mark.parametrize(("share", "kept"), [(0.1, False), (0.9, True)])
def test_products_are_kept_only_if_computing_them_again_takes_longer(share, kept, monkeypatch):
    scores, *_ = world()
    near = filtering.Filter(scores, Int8(emulated=True))
    monkeypatch.setenv(filtering.SETTING, "auto")
    monkeypatch.setattr(filtering, "gain", lambda form, d: share)
    monkeypatch.setattr(filtering, "seconds_of_float32", lambda d: 2 * filtering.KEPT / d)
    assert near.is_kept == kept
    monkeypatch.setenv(filtering.SETTING, "always")
    assert near.is_kept
