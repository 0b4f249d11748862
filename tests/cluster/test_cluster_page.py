"""The arithmetic of the page of the cluster."""

from __future__ import annotations

import pytest

import projection


@pytest.mark.parametrize(
    ("value", "text"), [(1e9, "1,000,000,000"), (1.423, "1.4"), (0.00857, "0.0086"), (16.87, "17"), (0.05, "0.050")]
)
def test_numbers_have_two_digits(value, text):
    assert projection.number(value) == text


def test_the_projection_adds_what_a_pass_needs_beside_its_products():
    costs = projection.Costs(product=1e9, share=1.1, task=0.001, start=0.5, put=2e9, copy=1e9)
    alone, two, eight = (projection.projected(8192, 8192, 4, nodes, costs) for nodes in (1, 2, 8))
    sent = 2 * 8192 * projection.DIM * 4
    assert alone == pytest.approx(0.5 + 8192**2 * projection.DIM / 4e9 * 1.1 + sent / 2e9)
    assert (two - alone, eight - alone) == pytest.approx((sent / 1e9, 3 * sent / 1e9))
