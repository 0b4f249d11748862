"""Names, "module:thing", and what is said when neither fits."""

import json

import pytest

from limner import LimnerError
from limner.core.registry import resolve

KNOWN = {"reader": "json:loads"}


def test_by_name_and_by_place():
    assert resolve("reader", KNOWN, what="thing") is json.loads
    assert resolve("json:dumps", KNOWN, what="thing") is json.dumps


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("raeder", "did you mean 'reader'"),
        ("nowhere_at_all:x", "no module 'nowhere_at_all'"),
        ("json:nothing", "has no 'nothing'"),
    ],
)
def test_refused(name, message):
    with pytest.raises(LimnerError, match=message):
        resolve(name, KNOWN, what="thing")
