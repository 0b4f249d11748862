"""The JSON API and its OpenAPI description."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from starlette.responses import JSONResponse, Response

from limner.annotate.guideline import guidelines, scale_of
from limner.annotate.scale import SCALE, Scale
from limner.scores.correction import CORRECTIONS
from limner.web.failures import DIRECTIONS, ORDERS, with_classes
from limner.web.search_page import parse_request
from limner.web.search_request import BY, FOUND, MOST, MOST_FILTERS, QUERY
from limner.web.searching import search
from limner.web.site import Ask


def collections(ask: Ask) -> Response:
    """What is served."""
    library = ask.site.library
    listed = {"collections": list(library.collections), "indexes": list(library.indexes), "systems": library.names}
    return JSONResponse(listed)


def search_json(ask: Ask) -> Response:
    """The content of the search page."""
    request = parse_request(ask)
    columns = search(ask.site.library, request)
    return JSONResponse({"direction": request.direction, "columns": [asdict(column) for column in columns]})


def failures_json(ask: Ask) -> Response:
    """The content of the failures page."""
    library = ask.site.library
    collection, system = library.known_collection(ask.get("c")), ask.get("s") or library.names[0]
    failures = with_classes(library, collection, system, ask.get("d") or "t2i")
    start, k = ask.number("start", 0), ask.number("k", 20, low=1, high=200)
    numbers = failures.listed(ask.get("class"), ask.get("q")[:200], ask.get("order") or "query")
    listed = [
        {
            **asdict(failures.found[n]),
            "classes": sorted(failures.labels.get(failures.found[n].query, ())),
            "distance": {name: getattr(failures.distances[n], name) for name in ("rank", "truth", "returned")},
        }
        for n in numbers[start : start + k]
    ]
    return JSONResponse(
        {"queries": failures.queries, "failures": len(numbers), "classes": failures.rates, "listed": listed}
    )


# --- the description --------------------------------------------------------------------------------------------


def _words(max_length: int = 2000, **more: object) -> dict[str, object]:
    return {"type": "string", "maxLength": max_length, "pattern": "^[^\\u0000]*$", **more}


def _integer(low: int, high: int) -> dict[str, object]:
    return {"type": "integer", "minimum": low, "maximum": high}


def _in_address(name: str, schema: dict[str, object], about: str) -> dict[str, object]:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": about}


_NUMBER = _integer(1, 2**31 - 1)
_KEY = {"type": "string", "pattern": "^[A-Za-z0-9_-]{8,64}$"}
_ACCOUNT = {"type": "string", "pattern": "^[0-9a-f]{32}$", "description": "the account that /api/mine gives"}
_COLLECTION = _in_address("c", _words(), "collection; the first by default")
_MILLISECONDS = _integer(0, 86_400_000)
_ERROR = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
_SAVED = {
    "type": "object",
    "required": ["saved", "revision", "repeated", "finished"],
    "properties": {
        "saved": {"type": "integer"},
        "revision": {"type": "integer"},
        "repeated": {
            "type": "boolean",
            "description": "an answer with the same key was already stored; nothing was added",
        },
        "finished": {"type": "boolean", "description": "the task has all its answers"},
    },
}


def _sent(needed: tuple[str, ...], **fields: object) -> dict[str, object]:
    """The body of a request; it may name the account that it is for, and is refused if another one is logged in."""
    return _object(needed, **fields, account=_ACCOUNT)


def _object(needed: tuple[str, ...], **fields: object) -> dict[str, object]:
    return {"type": "object", "required": list(needed), "properties": fields, "additionalProperties": False}


def _operation(
    about: str, *, role: str, address: tuple[object, ...] = (), sent: object = None, gives: object = None
) -> object:
    success = {"200": ("done", gives or {"type": "object"}), "202": ("not ready yet: try again", {"type": "object"})}
    wrong = ("400", "401", "403", "404", "409", "413", "415", "422")
    operation: dict[str, object] = {
        "summary": about,
        "description": f"for the role {role}",
        "parameters": list(address),
        "responses": {
            status: {"description": words, "content": {"application/json": {"schema": schema}}}
            for status, (words, schema) in {
                **success,
                **dict.fromkeys(wrong, ("refused, with a message", _ERROR)),
            }.items()
        },
    }
    if sent is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": sent}}}
    return operation


def _parts() -> dict[str, object]:
    """An answer to a question of a study: a name, words, a number or a list of names for each part of the form."""
    value = {"anyOf": [_words(500), _integer(0, 100), {"type": "array", "items": _words(100), "maxItems": 100}]}
    names = {"pattern": "^[a-z][a-z0-9_]{0,39}$"}
    return {"type": "object", "propertyNames": names, "additionalProperties": value, "maxProperties": 20}


def _search_words(corrections: Iterable[str]) -> tuple[object, ...]:
    """The query parameters of a search URL."""
    systems: dict[str, object] = {"type": "array", "items": _words(), "maxItems": 8}
    filters: dict[str, object] = {"type": "array", "items": _words(QUERY), "maxItems": MOST_FILTERS}
    fixes: dict[str, object] = {"type": "string", "enum": ["", *corrections]}
    return (
        _COLLECTION,
        _in_address("q", _words(QUERY), "text query"),
        _in_address("image", _words(), "or the id of an image to search with"),
        _in_address(
            "find",
            {"type": "string", "enum": ["", *FOUND]},
            "what to find; images for a text query and texts for an image query by default",
        ),
        _in_address(
            "split", _words(100), "the part to search: a split, or 'held-out'; the whole collection by default"
        ),
        _in_address("s", systems, "systems; the first by default"),
        _in_address("fix", fixes, "a correction, in addition to the plain scores"),
        _in_address("by", {"type": "string", "enum": ["", *BY]}, "what to rank by: vectors, words (BM25) or hybrid"),
        _in_address("where", filters, "filters, field:value; -field:value for others"),
        _in_address("k", _integer(1, MOST), "how many"),
    )


def _failure_words() -> tuple[object, ...]:
    """The query parameters of a URL that lists failures."""
    return (
        _COLLECTION,
        _in_address("s", _words(), "system; the first by default"),
        _in_address("d", {"type": "string", "enum": ["", *DIRECTIONS]}, "direction"),
        _in_address("class", _words(100), "only failures of this class"),
        _in_address("q", _words(200), "only captions with these words"),
        _in_address(
            "order", {"type": "string", "enum": ["", *ORDERS]}, "far: the worst rank of the relevant item first"
        ),
        _in_address("start", _integer(0, 1_000_000), "number of results to skip"),
        _in_address("k", _integer(1, 200), "how many"),
    )


def _answer(scale: Scale, versions: Iterable[str]) -> dict[str, object]:
    """An answer to a pair: a grade and reasons of the store's scale."""
    names: dict[str, object] = {"type": "string", "enum": [reason.name for reason in scale.reasons]}
    reasons = {"type": "array", "items": names, "maxItems": 20} if scale.reasons else {"type": "array", "maxItems": 0}
    answer = _sent(
        ("item", "key", "grade"), item=_NUMBER, key=_KEY, grade={"type": "integer", "enum": sorted(scale.by_value)},
        reasons=reasons, comment=_words(500), milliseconds=_MILLISECONDS,
        guideline={"type": "string", "enum": ["", *versions]}, assignment=_NUMBER,
    )  # fmt: skip
    certain = {"properties": {"grade": {"enum": [value for value in scale.by_value if not scale.asks(value)]}}}
    return answer | {"if": certain, "then": {"properties": {"reasons": {"maxItems": 0}}}}


def description(
    corrections: Iterable[str] = CORRECTIONS, versions: Iterable[str] = (), scale: Scale | None = None
) -> dict[str, object]:
    """The OpenAPI document, with the available corrections, the versions of the guideline, and the scale."""
    answer = _answer(scale or SCALE, versions)
    study_answer = _sent(
        ("question", "key", "answer"), question=_NUMBER, key=_KEY, answer=_parts(), milliseconds=_MILLISECONDS
    )
    paths = {
        "/api/collections": {"get": _operation("What is served", role="reviewer")},
        "/api/search": {"get": _operation("Search", role="reviewer", address=_search_words(corrections))},
        "/api/failures": {"get": _operation("Failures by class", role="reviewer", address=_failure_words())},
        "/api/task": {"post": _operation("Lease a task", role="annotator", sent=_sent(()))},
        "/api/task/return": {
            "post": _operation("Give a task back", role="annotator", sent=_sent(("assignment",), assignment=_NUMBER))
        },
        "/api/answers": {"post": _operation("Answer", role="annotator", sent=answer, gives=_SAVED)},
        "/api/answers/undo": {
            "post": _operation(
                "Withdraw an answer",
                role="annotator",
                sent=_sent(("item", "key"), item=_NUMBER, key=_KEY, assignment=_NUMBER),
                gives=_SAVED,
            )
        },
        "/api/mine": {"get": _operation("What I have done", role="annotator")},
        "/api/question": {"get": _operation("The next question of a study", role="annotator")},
        "/api/study-answers": {"post": _operation("Answer a question", role="annotator", sent=study_answer)},
        "/api/study": {"get": _operation("Estimates so far, and whether labelling can stop", role="reviewer")},
        "/api/status": {"get": _operation("Progress, agreement, annotators", role="reviewer")},
    }
    about = "Judging pairs of images and texts. Send Content-Type: application/json; in a team, the session's cookie."
    return {"openapi": "3.1.0", "info": {"title": "limner", "version": "1", "description": about}, "paths": paths}


def openapi(ask: Ask) -> Response:
    """The OpenAPI description of the API."""
    versions = [each.version for each in guidelines(ask.site.store)]
    return JSONResponse(description(ask.site.library.corrections, versions, scale_of(ask.site.store)))
