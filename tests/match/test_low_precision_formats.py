"""The experiment on number formats counts with limner's own rounding and bounds."""

from __future__ import annotations

import numpy as np
import pytest

from limner.core.lowprecision import Rounded

torch = pytest.importorskip("torch", reason="rounds with torch")
formats = pytest.importorskip("low_precision_formats")


@pytest.fixture(scope="module")
def sides():
    rng = np.random.default_rng(0)
    rows, columns = (rng.standard_normal((n, 64)).astype(np.float32) for n in (40, 3000))
    columns[:, 3] *= 9  # as in real embeddings, one number is far larger than the others
    return formats.unit(rows), formats.unit(columns)


def test_vectors_are_rounded_as_limner_rounds_them(sides):
    vectors = sides[1]
    near, own = formats.Near.of(vectors, "bfloat16"), Rounded.bfloat16(vectors.numpy())
    assert np.array_equal((near.codes * near.scale[:, None]).numpy(), own.values)
    for name in ("length", "rounded", "residual"):
        assert getattr(near.lengths, name) == pytest.approx(getattr(own, name), rel=1e-6)


@pytest.mark.parametrize(("form", "share"), [("e4m3", 2.0**-4), ("e5m2", 2.0**-3)])
def test_fp8_uses_its_range_and_rounds_to_the_nearest(sides, form, share):
    vectors = sides[1]
    near = formats.Near.of(vectors, form)
    highest = near.codes.abs().amax(dim=1)
    assert highest.max() <= formats.LARGEST[form] and highest.min() >= formats.LARGEST[form] / 2.5
    value = near.codes * near.scale[:, None]
    large = vectors.abs() > vectors.abs().amax(dim=1, keepdim=True) / 1000  # no subnormal number of e4m3
    assert ((value - vectors).abs()[large] <= share * vectors.abs()[large]).all()


@pytest.mark.parametrize("form", formats.FORMATS)
def test_no_score_leaves_its_bound_and_the_best_are_never_ruled_out(sides, form):
    found = formats.left(*sides, form)
    assert found.outside == 0
    assert formats.K <= found.known <= found.by_bounds <= len(sides[1])


def test_fewer_bits_leave_more(sides):
    known = [formats.left(*sides, form).known for form in ("bfloat16", "e4m3", "e5m2")]
    assert known == sorted(known) and known[0] < known[-1]


def test_the_product_of_a_card_is_the_emulated_one(sides):
    """The same call on the processor, where torch has it: rows and columns keep their own scales."""
    rows, columns = (formats.Near.of(side[:32], "e4m3") for side in sides)
    try:
        products = formats.fp8_products(rows, columns)
    except (RuntimeError, NotImplementedError) as error:
        pytest.skip(f"no FP8 products on this processor: {error}")
    assert products.dtype == torch.bfloat16
    assert formats.share_of_bound(products, rows, columns) <= 1


def test_wrong_sums_are_seen(sides):
    rows, columns = (formats.Near.of(side[:32], "e4m3") for side in sides)
    exact = (rows.codes * rows.scale[:, None]) @ (columns.codes * columns.scale[:, None]).T
    assert (
        formats.share_of_bound(exact.bfloat16(), rows, columns)
        <= 1
        < formats.share_of_bound(exact * 1.01 + 0.01, rows, columns)
    )


def test_without_a_card_that_part_is_left_out(monkeypatch, capsys):
    monkeypatch.setattr(formats, "has_units", lambda: False)
    options = type("Options", (), {"only": "card", "data": None, "quick": True})()
    assert list(formats.run(options)) == []
    assert "no GPU with FP8 units" in capsys.readouterr().err


def test_rotation_helps_int8(sides):
    assert formats.left(*sides, "int8").by_bounds < formats.left(*sides, "int8, not rotated").by_bounds
