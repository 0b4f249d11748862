"""Request checks before every page: host, origin, size, content security policy, and the body.

The guard is a plain ASGI middleware. It is active in every mode: even a local server can be reached by any page that is
open in the same browser. A body is a form, JSON or an image, and nothing else.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from email.message import Message as MailMessage
from urllib.parse import urlsplit

from starlette.datastructures import FormData, Headers, MutableHeaders, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from limner.core.errors import LimnerError
from limner.core.paths import parse_json
from limner.web.served_images import BYTES

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
SAFE = ("GET", "HEAD", "OPTIONS")
LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)\.?(?::([1-9][0-9]{0,4}))?")
HSTS = 180 * 86_400
"""HSTS duration in seconds."""
BODY = 13_000_000
"""Maximum size of a request in bytes: the largest upload plus the overhead of a form."""


def is_loopback(host: str) -> bool:
    """Whether an address can only be reached from this machine.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "192.168.0.7", "example.org")]
    [True, True, True, False, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def refuse_open(host: str, *, team: bool) -> None:
    """Refuses an address that other machines can reach if there are no accounts."""
    if not team and not is_loopback(host):
        raise LimnerError(
            f"--host {host} can be reached from other machines without a login: add --team for accounts by "
            f"invitation, or leave --host out"
        )


def public_url(url: str | None) -> str:
    """The public URL of a server, ending in a slash; empty if none is given.

    >>> public_url("https://judge.example.org"), public_url(None)
    ('https://judge.example.org/', '')
    """
    if url is None:
        return ""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(_name(parts.netloc))
    except ValueError:
        good = False
    if not good or "@" in url or parts.path.strip("/") or parts.query or parts.fragment:
        raise LimnerError(f"--url {url}: expected http(s)://NAME or http(s)://NAME:PORT without a path")
    return f"{parts.scheme}://{parts.netloc.lower()}/"


def checked_proxies(proxies: Sequence[str]) -> list[str]:
    """Addresses of trusted proxies; a host name is refused, because its address may change.

    >>> checked_proxies(["127.0.0.1", "10.0.0.0/8"])
    ['127.0.0.1', '10.0.0.0/8']
    """
    for each in proxies:
        try:
            ipaddress.ip_network(each)
        except ValueError:
            raise LimnerError(f"--proxy {each}: expected an address like 127.0.0.1, or a network, 10.0.0.0/8") from None
    return list(proxies)


def names_of(hosts: Sequence[str], url: str, *, team: bool) -> frozenset[str]:
    """The host names of a server."""
    named = [*LOCAL_HOSTS, *(f"[{host}]" if ":" in host else host for host in hosts)]
    named += [socket.gethostname()] if team else []
    named += [urlsplit(url).netloc] if url else []
    return frozenset(map(_name, named)) - {""}


class Guard:
    """Refuses requests from other sites, for other hosts, and requests that are too large; adds security headers.

    Args:
        app: The wrapped application.
        hosts: Allowed host names. This prevents DNS rebinding and links with forged hosts.
        url: The public URL of the server, if given.
        private: Whether caches between the server and the browser must not store pages.
    """

    def __init__(
        self, app: ASGIApp, *, hosts: frozenset[str] = frozenset(), url: str = "", private: bool = False
    ) -> None:
        """Stores the settings."""
        self.app, self.hosts, self.private = app, hosts, private
        self.secure, self.site = url.startswith("https:"), urlsplit(url).netloc

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Checks the request, then calls the application."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store" if self.private else "no-cache")
                if self._always_https(scope):
                    headers["Strict-Transport-Security"] = f"max-age={HSTS}"
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, with_headers)
            return
        await self.app(scope, _counted(receive), with_headers)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        headers = Headers(scope=scope)
        if _name(_only(headers, "host")) not in self.hosts | _local_address(scope):
            message = "this server does not accept that host name: use the address it shows, or start it with --url"
            return PlainTextResponse(message, 421)
        if scope["method"] not in SAFE and not same_site(headers, self.site):
            return PlainTextResponse("refused: the request comes from another site", 403)
        length = headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit() and len(length) < 20 and int(length) <= BODY):
            return PlainTextResponse(f"refused: more than {BODY:,} bytes", 413)
        return None

    def _always_https(self, scope: Scope) -> bool:
        """Whether to send HSTS; never for localhost."""
        if not self.secure and scope.get("scheme") != "https":
            return False
        return _name(_only(Headers(scope=scope), "host")) not in LOCAL_HOSTS


def _local_address(scope: Scope) -> frozenset[str]:
    """The local address of the connection: a `Host` header with this address cannot come from DNS rebinding."""
    server = scope.get("server")
    try:
        address = ipaddress.ip_address(str(server[0]) if server else "")
    except ValueError:
        return frozenset()
    address = getattr(address, "ipv4_mapped", None) or address
    return frozenset({f"[{address}]" if address.version == 6 else str(address)})


def same_site(headers: Headers, public: str = "") -> bool:
    """Whether the request comes from a page of this site; non-browser clients send neither header nor cookie.

    Browsers since 2020 send `Sec-Fetch-Site`, which no page can forge; `Origin` is older. Behind a proxy, the host name
    may differ from the one that visitors use, which is `public`.

    >>> same_site(Headers({"sec-fetch-site": "cross-site"})), same_site(Headers({"sec-fetch-site": "same-origin"}))
    (False, True)
    >>> same_site(Headers({"origin": "https://elsewhere.example", "host": "localhost:8080"}))
    False
    """
    if "sec-fetch-site" in headers:
        return _only(headers, "sec-fetch-site") in ("same-origin", "none")
    if "origin" not in headers:
        return True
    scheme, _, origin = _only(headers, "origin").partition("://")
    host = _only(headers, "host").lower()
    return scheme in ("http", "https") and bool(origin) and origin in (host, public or host)


def _only(headers: Headers, name: str) -> str:
    """The value of a header that is sent once; otherwise empty."""
    values = headers.getlist(name)
    return values[0] if len(values) == 1 else ""


def _name(host: str) -> str:
    """The name in a `Host` header, NAME or NAME:PORT; empty for anything else."""
    parts = _HOST.fullmatch(host.lower())
    return parts[1] if parts and int(parts[2] or 0) < 65_536 else ""


def _counted(receive: Receive) -> Receive:
    """Counts the received bytes, regardless of the declared length."""
    count = 0

    async def counted() -> Message:
        nonlocal count
        message = await receive()
        count += len(message.get("body", b""))
        if count > BODY:
            raise HTTPException(413, f"refused: more than {BODY:,} bytes")
        return message

    return counted


SMALL = 65_536
"""Maximum bytes of JSON, of a form without an image, and of anonymous requests."""
FIELDS = 60
MULTIPART = "multipart/form-data"
_CHARSETS = ("utf-8", "utf8", "us-ascii", "")


@dataclass(frozen=True, eq=False)
class Sent:
    """The body of a request."""

    form: FormData = field(default_factory=FormData)
    json: object = None
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
    message = MailMessage()
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


def refuse_unstorable(words: Iterable[tuple[str, str]]) -> None:
    """Refuses text that databases cannot store: NUL in PostgreSQL, and lone surrogates."""
    for name, text in words:
        if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
            raise HTTPException(400, f"{name[:40]!r} contains a character that cannot be stored")
