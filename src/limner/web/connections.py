"""Connections: limits on their number and on slow clients.

An idle connection costs an attacker nothing, so it must cost the server little as well. Every connection has a time
limit for the next step of its client: to complete the handshake and send a whole request, to send a body, to read the
response. If there are too many connections, the one that has kept the server waiting longest is dropped, first from the
address with the most connections. A connection whose request is being processed is never dropped.

Connections are counted where they are accepted (`Gate`), and their steps are noted around the application
(`Connections.watch`), so any ASGI server that accepts from a given socket will do.

The settings of uvicorn cover the time between two requests (`timeout_keep_alive`) and the size of a head
(`h11_max_incomplete_event_size`). They set no time for a handshake, a first request, a body, or the reading of a
response. `limit_concurrency` answers 503 to everybody as long as enough connections are open, so that silent clients
shut the others out.
"""

from __future__ import annotations

import errno
import heapq
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Literal

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from limner.core.errors import LimnerError

BACKLOG = 100
"""Listen backlog: under attack, new clients wait behind all of them."""
BURST = 16
"""Connections dropped at once, before the event loop serves others."""
RESERVED = 128
"""File descriptors for everything other than connections: the store, images, uploads."""
READ_AHEAD = 65_536
"""Bytes of a body that are read before the application is called."""
DESCRIPTORS = 4096
"""The file descriptor limit to request."""
SELECTABLE = 400
"""Maximum number of connections where the event loop can watch only 512 sockets."""
_BUSY = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

Step = Literal["first", "body", "next", "server"]
"""The next step: of the client, or of the server, which has no time limit."""


@dataclass(frozen=True)
class Limits:
    """The maximum number of connections, and time limits for clients in seconds.

    Args:
        most: Maximum number of simultaneous connections.
        first: Seconds for the first request with all its headers; includes the TLS handshake.
        body: Seconds for the body, and one more for every `rate` bytes received.
        rate: Minimum average rate of a body, in bytes per second.
        idle: Seconds without a byte between two requests.
        next: Seconds until a response has been read, and then until the next request with all its headers.
    """

    most: int = 1000
    first: float = 10.0
    body: float = 20.0
    rate: float = 10_000.0
    idle: float = 15.0
    next: float = 30.0


@dataclass(eq=False)
class Connection:
    """One connection: its client, the next step, and since when that is waited for."""

    sock: socket.socket
    address: str
    since: float
    step: Step = "first"
    received: int = 0
    request: _Request | None = None
    dropped: bool = False

    @property
    def gone(self) -> bool:
        """Whether it is closed or closing."""
        return self.dropped or self.sock.fileno() < 0

    def begun(self, limits: Limits) -> float:
        """When the current step started, adjusted for the bytes of a body received at the minimum rate."""
        return self.since + (self.received / limits.rate if self.step == "body" else 0.0)

    def deadline(self, limits: Limits) -> float:
        """When its time limit ends."""
        allowed = {"first": limits.first, "body": limits.body, "next": limits.next, "server": float("inf")}
        return self.begun(limits) + allowed[self.step]

    @contextmanager
    def waits_for(self, step: Step, since: float) -> Iterator[None]:
        """The client's step while the application waits for it."""
        self.step, self.since = step, since
        try:
            yield
        finally:
            self.step = "server"

    def drop(self) -> None:
        """Ends it: the event loop closes it when it sees the end."""
        self.dropped = True
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)


class Connections:
    """Every connection of a server."""

    def __init__(self, limits: Limits | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Starts without connections."""
        self.limits, self.clock = limits or Limits(), clock
        self._open: dict[tuple[str, int], Connection] = {}  # by the address and port of the client
        self._dropped: list[Connection] = []

    def __len__(self) -> int:
        """The number of open connections."""
        return len(self.open)

    @property
    def open(self) -> list[Connection]:
        """The open connections."""
        return [each for each in self._open.values() if not each.gone]

    @property
    def closing(self) -> int:
        """Number of dropped connections that still hold their file descriptor."""
        self._dropped = [each for each in self._dropped if each.sock.fileno() >= 0]
        return len(self._dropped)

    def accepted(self, sock: socket.socket, client: tuple[str, int]) -> Connection:
        """Registers an accepted connection."""
        connection = self._open[client] = Connection(sock, client[0], self.clock())
        return connection

    def watch(self, app: ASGIApp) -> ASGIApp:
        """An application that notes for every connection whose step is next."""

        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            connection = self._open.get(tuple(scope.get("client") or ()))
            if scope["type"] != "http" or connection is None:
                await app(scope, receive, send)
                return
            request = connection.request = _Request(connection, self.clock, receive, send)
            try:
                if await request.read_ahead():
                    await app(scope, request.receive, request.send)
            finally:
                if connection.request is request:  # a client may have sent the next one already
                    connection.step, connection.since = "next", self.clock()

        return watched

    def make_room(self) -> bool:
        """Drops connections if there is no room for one more; returns False if all are active."""
        if len(self._open) < self.limits.most:
            return True
        self._forget_gone()
        return len(self._open) < self.limits.most or self.drop_some()

    def drop_some(self) -> bool:
        """Drops the slowest clients of the address with the most connections; returns False if there are none.

        One in 32 is dropped at a time, since finding them takes longer than dropping them.
        """
        sizes = Counter(each.address for each in self._open.values())
        waiting = [each for each in self.open if each.step != "server"]
        slowest = heapq.nsmallest(
            max(1, min(BURST, self.limits.most // 32)),
            waiting,
            key=lambda each: (-sizes[each.address], each.begun(self.limits)),
        )
        for each in slowest:
            self._drop(each)
        return bool(waiting)

    async def sweep(self) -> None:
        """Drops connections that timed out."""
        self._forget_gone()
        time_now = self.clock()
        for each in self.open:
            if each.deadline(self.limits) <= time_now:
                self._drop(each)

    def _drop(self, connection: Connection) -> None:
        connection.drop()
        self._dropped.append(connection)

    def _forget_gone(self) -> None:
        self._open = {client: each for client, each in self._open.items() if not each.gone}


class _Request:
    """One request: what its application reads and sends passes here, so that the step of its connection is known."""

    def __init__(self, connection: Connection, clock: Callable[[], float], receive: Receive, send: Send) -> None:
        self.connection, self.clock, self._receive, self._send = connection, clock, receive, send
        self.begun, self.more_body, connection.received = clock(), True, 0
        self._ahead: deque[Message] = deque()

    async def read_ahead(self) -> bool:
        """Reads the body, or its start, so that no work is begun for a client that is slow; False if it left."""
        while self.more_body and self.connection.received < READ_AHEAD:
            self._ahead.append(await self._next())
        return bool(self._ahead[-1]["type"] != "http.disconnect")

    async def receive(self) -> Message:
        """The next part of the body."""
        if self._ahead:
            return self._ahead.popleft()
        return await (self._next() if self.more_body else self._receive())

    async def send(self, message: Message) -> None:
        """Sends a part of the response; the client has to read on if the server holds too much already."""
        with self.connection.waits_for("next", self.clock()):
            await self._send(message)

    async def _next(self) -> Message:
        with self.connection.waits_for("body", self.begun):
            message = await self._receive()
        self.connection.received += len(message.get("body", b""))
        self.more_body = message.get("more_body", False)
        return message


class Gate(socket.socket):
    """A listening socket that counts connections, and accepts only as many as there are file descriptors for."""

    connections: Connections

    def accept(self) -> tuple[socket.socket, object]:
        """The next connection; if it had to be refused, raises as if there were none."""
        if self.connections.closing >= BURST:
            raise BlockingIOError(errno.EAGAIN, "others have to be closed first")
        connection, address = super().accept()
        if not self.connections.make_room():
            _turn_away(connection)
            raise BlockingIOError(errno.EAGAIN, "every connection is active")
        self.connections.accepted(connection, (str(address[0]), int(address[1])))
        return connection, address


def _turn_away(connection: socket.socket) -> None:
    with suppress(OSError), connection:
        connection.setblocking(False)
        connection.send(_BUSY)


def listen(host: str, port: int, connections: Connections) -> Gate:
    """Opens a listening socket, or raises a clear error."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With an explicit protocol, the event loop sends small responses at once; otherwise each waits 40 ms.
    gate = Gate(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    gate.connections = connections
    gate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        gate.bind((host, port))
        gate.listen(BACKLOG)  # clients that connect before the server is ready wait instead of being refused
    except OSError as error:
        gate.close()
        raise LimnerError(
            f"cannot listen on {host}, port {port} ({error.strerror}): is a server running there? choose another --port"
        ) from error
    return gate


def affordable(descriptors: int = DESCRIPTORS) -> Limits:
    """Limits that fit the available file descriptors, after requesting more of them from the system."""
    try:
        import resource
    except ImportError:  # not a Unix: no such limit, but one of `select`
        return Limits(most=SELECTABLE)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < descriptors:
        soft = descriptors if hard == resource.RLIM_INFINITY else min(descriptors, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    limit = Limits.most if soft == resource.RLIM_INFINITY else min(Limits.most, max(16, soft - RESERVED))
    return Limits(most=limit)
