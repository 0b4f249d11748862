"""What stands before every page: whose host is asked, where the request comes from, how large it is, what it may load.

Three small layers, each a plain ASGI callable. They are on in every mode: a server on this machine alone can be
reached by any page that is open in the same browser.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from limner.errors import LimnerError

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
LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]", "::1")
BODY = 13_000_000
"""Bytes of the largest request: the largest upload and what a form puts around it."""


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only.

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
    """Refuses to be reached from other machines without accounts."""
    if not team and not is_loopback(host):
        raise LimnerError(
            f"--host {host} can be reached from other machines, and nobody would have to log in: add --team for "
            "accounts by invitation, or leave --host out"
        )


class Guard:
    """Refuses requests of other sites, to other hosts, and too large ones; adds the headers that browsers obey.

    Args:
        app: What comes after.
        hosts: Names under which the server may be asked; empty for any. On this machine alone this is what stops a
            site that makes its own name point here.
        private: Whether pages must not be kept by anything between the server and its reader.
    """

    def __init__(self, app: ASGIApp, *, hosts: tuple[str, ...] = (), private: bool = False) -> None:
        """Keeps the settings."""
        self.app, self.hosts, self.private = app, hosts, private

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Checks, then hands on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("Cache-Control", "no-store" if self.private else "no-cache")
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, with_headers)
            return
        await _Counted(self.app)(scope, receive, with_headers)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        headers = Headers(scope=scope)
        if self.hosts and _name(headers.get("host", "")) not in self.hosts:
            return PlainTextResponse("this server does not answer under that name", 421)
        if scope["method"] not in SAFE and not same_site(headers):
            return PlainTextResponse("refused: the request comes from another site", 403)
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > BODY:
            return PlainTextResponse(f"refused: more than {BODY:,} bytes", 413)
        return None


def same_site(headers: Headers) -> bool:
    """Whether a browser says that its own page sent this; what is no browser says nothing and holds no cookie.

    `Sec-Fetch-Site` is what browsers since 2020 send and no page can forge; `Origin` is older.

    >>> same_site(Headers({"sec-fetch-site": "cross-site"})), same_site(Headers({"sec-fetch-site": "same-origin"}))
    (False, True)
    >>> same_site(Headers({"origin": "https://elsewhere.example", "host": "localhost:8080"}))
    False
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host", "")


def _name(host: str) -> str:
    """The name without the port."""
    return host if host.endswith("]") else host.rpartition(":")[0] or host


class _TooLarge(Exception):
    pass


class _Counted:
    """Counts the bytes that come in, whatever the client said there would be."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        count, started = 0, False

        async def counted() -> Message:
            nonlocal count
            message = await receive()
            count += len(message.get("body", b""))
            if count > BODY:
                raise _TooLarge
            return message

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, counted, noted)
        except _TooLarge:
            if not started:
                await PlainTextResponse(f"refused: more than {BODY:,} bytes", 413)(scope, receive, send)


@dataclass
class _Bucket:
    left: float
    at: float


class Throttle:
    """Lets each key through `burst` times at once, and then once in every `every` seconds.

    Args:
        burst: How many at once.
        every: Seconds until one more is allowed.
        most: Keys that are remembered; the least lately seen is forgotten first.
        clock: Seconds that only grow.

    >>> now = [0.0]
    >>> slow = Throttle(2, 10.0, clock=lambda: now[0])
    >>> [slow.wait("a") for _ in range(3)], slow.wait("b")
    ([0.0, 0.0, 10.0], 0.0)
    >>> now[0] = 10.0; slow.wait("a")
    0.0
    """

    def __init__(
        self, burst: int, every: float, *, most: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Remembers nobody."""
        self.burst, self.every, self.most, self.clock = burst, every, most, clock
        self._held: OrderedDict[str, _Bucket] = OrderedDict()
        self._lock = threading.Lock()

    def wait(self, key: str) -> float:
        """Takes one turn and gives 0; or takes none and gives the seconds until there is one."""
        with self._lock:
            now = self.clock()
            bucket = self._held.setdefault(key, _Bucket(float(self.burst), now))
            self._held.move_to_end(key)
            bucket.left = min(float(self.burst), bucket.left + (now - bucket.at) / self.every)
            bucket.at = now
            while len(self._held) > self.most:
                self._held.popitem(last=False)
            if bucket.left < 1:
                return (1 - bucket.left) * self.every
            bucket.left -= 1
            return 0.0

    def forgive(self, key: str) -> None:
        """Gives back all turns, after a success."""
        with self._lock:
            self._held.pop(key, None)
