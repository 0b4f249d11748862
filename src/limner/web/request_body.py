"""Request bodies: a form, JSON or an image, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import Message
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from limner.core.paths import parse_json
from limner.web.served_images import BYTES

SMALL = 65_536
"""Maximum bytes of JSON, of a form without an image, and of anonymous requests."""
FIELDS = 60
MULTIPART = "multipart/form-data"
_CHARSETS = ("utf-8", "utf8", "us-ascii", "")


@dataclass(frozen=True, eq=False)
class Sent:
    """The body of a request."""

    form: FormData = field(default_factory=FormData)
    json: Any = None
    file: bytes | None = None


async def sent(request: Request, *, machine: bool, stranger: bool) -> Sent:
    """Reads a request.

    Args:
        request: The request.
        machine: Whether JSON is expected.
        stranger: Whether the request is anonymous; it must then be small and declare its size.
    """
    refuse_unstorable(request.query_params.multi_items())
    if request.method in ("GET", "HEAD"):
        return Sent()
    kind, charset = _kind(request.headers.get("content-type", ""))
    if charset not in _CHARSETS:
        raise HTTPException(415, f"charset {charset[:20]!r}: expected utf-8")
    if kind == "application/json":
        return Sent(json=await _json(request))
    if machine:
        raise HTTPException(415, "expected Content-Type: application/json")
    if stranger or kind != MULTIPART:
        _refuse_large(request)
    return await _form(request)


def _kind(header: str) -> tuple[str, str]:
    """The content type of a request, and its charset."""
    message = Message()
    message["content-type"] = header.replace("\r", " ").replace("\n", " ")
    try:
        return message.get_content_type(), str(message.get_param("charset", "")).strip().lower()
    except (ValueError, TypeError, LookupError):  # a parameter in another syntax
        return "", "?"


def _refuse_large(request: Request) -> None:
    length = request.headers.get("content-length")
    if length is None and "transfer-encoding" in request.headers:
        raise HTTPException(411, "expected Content-Length")
    if int(length or 0) > SMALL:
        raise HTTPException(413, f"refused: more than {SMALL:,} bytes")


async def _form(request: Request) -> Sent:
    form = await request.form(max_files=1, max_fields=FIELDS, max_part_size=SMALL)
    refuse_unstorable((name, value) for name, value in form.multi_items() if isinstance(value, str))
    file = next((value for value in form.values() if isinstance(value, UploadFile)), None)
    data = None if file is None else await file.read(BYTES + 1)
    await form.close()
    return Sent(form, file=data)


async def _json(request: Request) -> object:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > SMALL:
            raise HTTPException(413, f"refused: more than {SMALL:,} bytes of JSON")
    try:
        value = parse_json(body.decode(), where="the body")
        refuse_unstorable(("the body", text) for text in _texts(value))
    except ValueError:
        raise HTTPException(400, "the body is not JSON") from None
    return value


def _texts(value: object) -> Iterator[str]:
    """Every string in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield key
            yield from _texts(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from _texts(entry)


def refuse_unstorable(words: Any) -> None:
    """Refuses text that databases cannot store: NUL in PostgreSQL, and lone surrogates."""
    for name, text in words:
        if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
            raise HTTPException(400, f"{name[:40]!r} contains a character that cannot be stored")
