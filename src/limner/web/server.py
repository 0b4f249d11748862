"""Starts a server: errors are reported before it starts, and its address once it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from limner.core.display_names import display_names
from limner.core.errors import LimnerError

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from uvicorn import Server

    from limner.core.collection import Collection
    from limner.search import Index
    from limner.web.connections import Gate
    from limner.web.served_index import ServedIndex
    from limner.web.site import Site

SYSTEMS = ("histograms", "colours")
STORE = "limner-answers.db"
PORT = 8765


@dataclass(frozen=True)
class Address:
    """The address of a running server.

    Args:
        url: The URL to open.
        store: Where answers are stored.
        invitation: The URL to create the first admin's account; None if there is an admin, or without a team.
    """

    url: str
    store: str
    invitation: str | None = None


class SiteSettings(TypedDict, total=False):
    """What a site shows and who may use it.

    Args:
        systems: Systems to train when a page first needs them, saved models, or "module:thing"; by name.
        matrices: Files of similarities, images by texts, by display name.
        features: Image vectors, or their file, for models that were trained on features.
        store: Where answers are stored: a file for SQLite, or postgresql://...
        team: Whether people log in, with accounts by invitation; otherwise everyone on this machine has access.
        url: The public URL, e.g. https://judge.example.org, used in links.
        proxies: Addresses of reverse proxies whose forwarded headers are trusted.
        options: Options of the collections' loader.
        corrections: Custom corrections for the pages, as "module:class".
        trust: Whether saved models may name custom code.
        indexes: Indexes to search whole collections, or their folders; by display name.
        cache: Where trained systems and vectors are kept; `make_app` keeps nothing by default.
    """

    systems: Mapping[str, str] | Sequence[str]
    matrices: Mapping[str, Path] | None
    features: object
    store: str | Path
    team: bool
    url: str | None
    proxies: Sequence[str]
    options: Mapping[str, object] | None
    corrections: Sequence[str]
    trust: bool
    indexes: Mapping[str, str | Index] | Sequence[str]
    cache: Path | None


def serve(
    collections: Sequence[str | Collection] | str = "scenes",
    *,
    host: str = "127.0.0.1",
    port: int = PORT,
    certificate: Path | None = None,
    key: Path | None = None,
    started: Callable[[Address], None] | None = None,
    **settings: Unpack[SiteSettings],
) -> None:
    """Serves pages for searching, looking at failures and judging, until it is interrupted.

    Args:
        collections: Arguments for `limner.load`, or collections.
        host: Address to listen on; other machines can reach it only with `team`.
        port: Port to listen on; 0 for any free port.
        certificate: TLS certificate for https; needs `key`.
        key: TLS key for https.
        started: Called with the address once everything is ready.
        **settings: See `SiteSettings`; trained systems are kept in the cache folder shared by all commands by default.
    """
    from limner.core.paths import cache_folder
    from limner.web.security import refuse_open

    refuse_open(host, team=settings.get("team", False))
    if (certificate is None) != (key is None):
        raise LimnerError("https needs a certificate and its key: give both or neither")
    settings["cache"] = settings.get("cache") or cache_folder("systems")
    app = make_app(collections, https=key is not None, hosts=(host,), **settings)
    from limner.web.connections import Connections, affordable, listen
    from limner.web.word_search import warm

    with closing(listen(host, port, Connections(affordable()))) as gate:
        server = server_of(app, gate, certificate=certificate, key=key)
        site = app.state.site
        site.prepare()
        site.library.warm()
        warm(site.library)
        if started is not None:
            started(_address(site, host, gate.getsockname()[1]))
        run(server, gate)


def make_app(
    collections: Sequence[str | Collection] | str = "scenes",
    *,
    https: bool = False,
    hosts: Sequence[str] = (),
    **settings: Unpack[SiteSettings],
) -> Starlette:
    """The ASGI application that `serve` runs.

    It accepts the names of this machine, the local address of the connection, `hosts`, and the name in the URL.

    Args:
        collections: Arguments for `limner.load`, or collections.
        https: Whether cookies may only be sent over https.
        hosts: Further host names to accept.
        **settings: See `SiteSettings`.
    """
    from limner.web.app import application
    from limner.web.library import Library
    from limner.web.security import public_url
    from limner.web.site import Site

    unknown = sorted(settings.keys() - SiteSettings.__annotations__.keys())
    if unknown:
        raise TypeError(f"unexpected argument {unknown[0]!r}; expected {', '.join(SiteSettings.__annotations__)}")
    listed = [collections] if isinstance(collections, str) else list(collections)
    systems = settings.get("systems", SYSTEMS)
    if not isinstance(systems, Mapping):
        systems = dict(zip(display_names(systems), systems, strict=True))
    options, trust = settings.get("options"), settings.get("trust", False)
    library = Library(
        _named(listed, dict(options or {})),
        systems,
        matrices=settings.get("matrices"),
        features=settings.get("features"),
        options=options,
        corrections=settings.get("corrections", ()),
        trust=trust,
        indexes=_opened(settings.get("indexes", ()), trust=trust),
        cache=settings.get("cache"),
    )
    store, url = str(settings.get("store", STORE)), public_url(settings.get("url"))
    site = Site(library, store, team=settings.get("team", False), https=https, url=url)
    return application(site, hosts=tuple(hosts), proxies=settings.get("proxies", ()))


def _opened(indexes: Mapping[str, str | Index] | Sequence[str], *, trust: bool) -> dict[str, ServedIndex]:
    """Open indexes by name; errors are reported before the server starts."""
    from limner.web.served_index import ServedIndex

    listed: Mapping[str, str | Index] = (
        indexes if isinstance(indexes, Mapping) else {Path(path.rstrip("/")).stem: path for path in indexes}
    )
    if len(listed) < len(indexes):
        raise LimnerError("two indexes have the same name: give each a name, NAME=DIR")
    return {name: ServedIndex.open(name, source, trust=trust) for name, source in listed.items()}


def _named(listed: Sequence[str | Collection], options: dict[str, Any]) -> dict[str, str | Collection]:
    """Collections by name. Those in files are read now, so that errors show early."""
    from limner.datasets import datasets, load

    drawn = {entry.name for entry in datasets() if not entry.needs_path}
    by_name: dict[str, str | Collection] = {}
    for each in listed:
        source = load(each, **options) if isinstance(each, str) and each not in drawn else each
        name = source if isinstance(source, str) else source.name
        if name in by_name:
            raise LimnerError(f"two collections are called {name!r}: serve them separately, or rename one")
        by_name[name] = source
    return by_name


def _address(site: Site, host: str, port: int) -> Address:
    from limner.annotate.store import without_password
    from limner.annotate.store.people import invite_first_admin

    name = f"[{host}]" if ":" in host else host
    url = site.url or f"http{'s' if site.https else ''}://{name}:{port}/"
    token = invite_first_admin(site.store) if site.team else None
    return Address(url, without_password(site.store_at), None if token is None else f"{url}invite/{token}")


def server_of(app: Starlette, gate: Gate, *, certificate: Path | None = None, key: Path | None = None) -> Server:
    """The server of an application, to `run`; an unusable certificate is refused here."""
    import ssl

    import uvicorn

    from limner.web.connections import BACKLOG
    from limner.web.rate_limits import bound_logs

    config = uvicorn.Config(
        gate.connections.watch(app),
        http="h11",
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        timeout_keep_alive=int(gate.connections.limits.idle),
        timeout_notify=0,
        callback_notify=gate.connections.sweep,
        timeout_graceful_shutdown=1,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        reason = f"{certificate} and {key}: {error.strerror or error}"
        raise LimnerError(f"cannot use the certificate and its key, {reason}; expected two PEM files") from error
    bound_logs()
    return uvicorn.Server(config)


def run(server: Server, gate: Gate) -> None:
    """Serves until it is interrupted, on an event loop that accepts connections from the gate on every system."""
    import asyncio

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(server.serve(sockets=[gate]))
