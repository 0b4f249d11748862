"""The JSON API against its own description: schemathesis sends what fits and what does not."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings

import websites
from limner.web.api import description

schemathesis = pytest.importorskip("schemathesis")


@pytest.fixture(scope="module")
def visitor(tmp_path_factory):
    """A site whose system is ready, so that no example meets a page that is still being made."""
    path = websites.filled(tmp_path_factory.mktemp("api") / "answers.db", tasks=3, size=4)
    visitor = websites.client(path)
    for address in ("/api/search?q=dog", "/api/failures", "/api/failures?d=i2t"):
        websites.patient(visitor, address)
    return visitor


@pytest.fixture(scope="module")
def described(visitor):
    return schemathesis.openapi.from_asgi("/api/openapi.json", visitor.app, headers={"Host": "localhost"})


OPERATIONS = [
    (path, method, mode)
    for path, methods in description()["paths"].items()
    for method, operation in methods.items()
    for mode in schemathesis.GenerationMode
    if not mode.is_negative or operation["parameters"] or "requestBody" in operation  # else nothing can be sent wrongly
]
# The same examples every time; LIMNER_EXAMPLES asks for more of them, drawn anew.
EXAMPLES = int(os.environ.get("LIMNER_EXAMPLES", "0"))
QUICK = settings(
    max_examples=EXAMPLES or 15,
    derandomize=not EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
    database=None,
)


@pytest.mark.parametrize(("path", "method", "mode"), OPERATIONS, ids=lambda word: getattr(word, "value", word))
def test_every_reply_is_one_that_is_described(described, path, method, mode):
    operation = described[path][method.upper()]

    @QUICK
    @given(case=operation.as_strategy(generation_mode=mode))
    def sent(case):
        case.call_and_validate(headers={"Host": "localhost"})

    sent()


def test_every_address_of_the_api_is_described(visitor):
    from starlette.routing import Route

    from limner.web.app import routes

    paths = {r.path for r in routes() if isinstance(r, Route) and r.path.startswith("/api/")} - {"/api/openapi.json"}
    assert paths == set(visitor.get("/api/openapi.json").json()["paths"])


def test_errors_are_json_in_words(visitor):
    for reply in (
        visitor.get("/api/nosuch"),
        visitor.post("/api/answers", json={"item": 1}),
        visitor.post("/api/answers", content=b"{", headers={"content-type": "application/json"}),
        visitor.post("/api/answers", content=b"[" * 60_000, headers={"content-type": "application/json"}),
        visitor.get("/api/search", params={"fix": "nonsense"}),
        visitor.delete("/api/answers"),
    ):
        assert 400 <= reply.status_code < 500
        assert isinstance(reply.json()["error"], str)
