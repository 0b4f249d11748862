"""The site: its content, its users, and how a request becomes a page, JSON, or an error."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from limner.annotate.store import Store, open_store, refuse_unwritable
from limner.annotate.store.people import Annotator, add_annotator, by_name, secret_of, session_of
from limner.annotate.store.schema import ROLES
from limner.core.errors import LimnerError, NotWritten, UnknownId, UnknownName, count
from limner.web.jobs import Pending, WorkerPool
from limner.web.library import Library
from limner.web.rate_limits import LoginTurns
from limner.web.security import sent
from limner.web.served_images import Refused, ServedImages, Uploads

HERE = Path(__file__).parent
EVERYONE = "everyone"
PAGES = (
    ("/search", "Search", "reviewer", "Find images by text and texts by image, with or without corrections."),
    ("/compare", "Side by side", "reviewer", "Compare systems on collections, under every set of judgements."),
    ("/failures", "Failures", "reviewer", "What the wrong answers got wrong, drawn on the images."),
    ("/map", "Map", "reviewer", "Images and texts as points: what lies together, and where the failures are."),
    ("/judge", "Judge", "annotator", "Does this caption describe this image? Works with the keyboard alone."),
    ("/study", "Studies", "annotator", "Which of two lists is better, what an answer got wrong, or your own question."),
    ("/estimate", "Estimate", "reviewer", "Estimates while people label, and when there are enough labels."),
    ("/admin", "Progress", "reviewer", "Progress, agreement of annotators, and export of the answers."),
)
"""Path, name, required role, and purpose."""

_log = logging.getLogger("limner.web")

SESSION = "limner_session"
DEVICE = "limner_device"
NAME = "limner_name"
ACCOUNT_LENGTH = 32
_ACCOUNT = re.compile(f"[0-9a-f]{{{ACCOUNT_LENGTH}}}")


@dataclass(frozen=True)
class Visitor:
    """The visitor: an account in a team, or a name on a local page."""

    name: str
    role: str
    account: Annotator | None = None

    def may(self, role: str) -> bool:
        """Whether the visitor has this role or a higher one."""
        return ROLES.index(self.role) >= ROLES.index(role)


@dataclass(eq=False)
class Site:
    """State shared by all requests.

    Args:
        library: Collections and systems.
        store_at: Where answers are stored: a file, or a database URL.
        team: Whether people log in.
        https: Whether cookies may only be sent over https.
        url: The public URL, ending in a slash; empty if none was given.
    """

    library: Library
    store_at: str
    team: bool = False
    https: bool = False
    url: str = ""
    images: ServedImages = field(default_factory=ServedImages)
    uploads: Uploads = field(default_factory=Uploads)
    turns: LoginTurns = field(default_factory=LoginTurns)
    apart: WorkerPool = field(default_factory=WorkerPool)
    _store: Store | None = None
    _opening: threading.Lock = field(default_factory=threading.Lock)

    @property
    def store(self) -> Store:
        """The store of answers, opened on first use."""
        with self._opening:
            if self._store is None:
                self._store = open_store(self.store_at)
            return self._store

    def prepare(self) -> None:
        """Opens the store and writes to it, so that errors are reported before anyone answers a pair."""
        refuse_unwritable(self.store)

    @cached_property
    def secret(self) -> bytes:
        """The secret that signs the cookies of known browsers, and the accounts that pages send back."""
        return secret_of(self.store)

    def close(self) -> None:
        """Releases all resources."""
        with self._opening:
            if self._store is not None:
                self._store.close()
                self._store = None

    def visitor(self, request: Request) -> Visitor | None:
        """The current user; None if a login is required first."""
        if not self.team:
            return Visitor(_clean(request.cookies.get(NAME, "")) or "local", "admin")
        token = request.cookies.get(SESSION, "")
        if not token or len(token) > 200:
            return None
        account = session_of(self.store, token)
        return None if account is None else Visitor(account.name, account.role, account)

    def account(self, visitor: Visitor) -> str:
        """What a page sends back to say for whom it was opened; it stands for nobody else, here or in another store."""
        identity = f"name {visitor.name}" if visitor.account is None else f"account {visitor.account.id}"
        return hmac.new(self.secret, identity.encode(), hashlib.sha256).hexdigest()[:ACCOUNT_LENGTH]

    def annotator(self, visitor: Visitor) -> int:
        """The id of the current user in the store."""
        if visitor.account is not None:
            return visitor.account.id
        person = by_name(self.store, visitor.name)  # read first: only a new name has to wait for writers
        return (person or add_annotator(self.store, visitor.name, existing=True)).id


def _clean(name: str) -> str:
    from urllib.parse import unquote

    plain = unquote(name)[:80].strip()
    return plain if plain.isprintable() else ""


@dataclass(frozen=True, eq=False)
class Ask:
    """A parsed request: its user and its data."""

    request: Request
    site: Site
    visitor: Visitor
    form: FormData = field(default_factory=FormData)
    json: object = None
    file: bytes | None = None

    @property
    def address(self) -> str:
        """The client address."""
        client = self.request.client
        return client.host if client else ""

    @property
    def base(self) -> str:
        """The public URL of the site, ending in a slash."""
        return self.site.url or str(self.request.base_url)

    def cookie(self, response: Response, name: str, value: str, *, days: float) -> None:
        """Sets a cookie that scripts cannot read and other sites cannot send along with a form."""
        secure = self.site.https or self.base.startswith("https:")
        age = int(days * 86_400)
        response.set_cookie(name, value, max_age=age, path="/", httponly=True, samesite="lax", secure=secure)

    def get(self, name: str, default: str = "") -> str:
        """A query parameter."""
        return self.request.query_params.get(name, default)

    def all(self, name: str) -> list[str]:
        """All values of a query parameter, without duplicates."""
        return list(dict.fromkeys(self.request.query_params.getlist(name)))

    def number(self, name: str, default: int, *, low: int = 0, high: int = 1_000_000) -> int:
        """An integer query parameter."""
        text = self.request.query_params.get(name)
        if text is None or (not text and not wants_json(self.request)):  # a form sends its empty fields too
            return default
        try:
            value = int(text)
        except ValueError:
            raise LimnerError(f"{name} = {text[:20]!r}: expected a whole number") from None
        if not low <= value <= high:
            raise LimnerError(f"{name} = {value}: expected {low} to {high}")
        return value

    def field(self, name: str, default: str = "") -> str:
        """A form field."""
        value = self.form.get(name, default)
        return value if isinstance(value, str) else default


Handler = Callable[[Ask], Response]


def endpoint(
    handler: Handler, *, role: str = "annotator", in_pool: bool = False
) -> Callable[[Request], Awaitable[Response]]:
    """An ASGI endpoint: reads the request, identifies the user, and runs the handler in a thread.

    Args:
        handler: Creates the response.
        role: The role that is required; `EVERYONE` if none is, and nobody has to log in.
        in_pool: Whether it hashes passwords and therefore runs in the separate pool.
    """

    async def answer(request: Request) -> Response:
        site: Site = request.app.state.site
        if role == EVERYONE:
            return await _handled(handler, request, site, Visitor("", "annotator"), in_pool)
        visitor = await run_in_threadpool(site.visitor, request)
        if visitor is None:
            return _log_in(request)
        if not visitor.may(role):
            raise HTTPException(403, f"this is for the role {role}; you are {visitor.role}")
        return await _handled(handler, request, site, visitor, in_pool)

    return answer


async def _handled(handler: Handler, request: Request, site: Site, visitor: Visitor, in_pool: bool) -> Response:
    """The response; a bug is logged and reported as such, with the same headers as any other page."""
    try:
        came = await sent(request, machine=wants_json(request), stranger=not visitor.name)
        ask = Ask(request, site, visitor, came.form, came.json, came.file)
        if visitor.name and request.method == "POST":
            await run_in_threadpool(_refuse_other_account, ask)
        return await (site.apart.run(handler, ask) if in_pool else run_in_threadpool(handler, ask))
    except (LimnerError, HTTPException, Pending):
        raise
    except ClientDisconnect:
        return Response(status_code=400)  # no one receives it
    except Exception as error:
        route = request.scope.get("route")  # the name of the handler, not the URL, which may contain an invitation
        _log.exception("%s %s", request.method, getattr(route, "path", "?"))
        return await run_in_threadpool(failed, request, error)


class OtherAccount(LimnerError):
    """A page that was opened for one account sent something while another is logged in: the browser keeps it."""


def _refuse_other_account(ask: Ask) -> None:
    """Refuses what a page sends for another account than the one that is logged in, or for nobody.

    Two people may share a browser: its tabs have one session, that of whoever logged in last. A program has a session
    of its own, so it need not name its account; browsers say that a request comes from a page.
    """
    fields = ask.json if isinstance(ask.json, dict) else dict(ask.form)
    from_page = any(name in ask.request.headers for name in ("sec-fetch-site", "origin"))
    if "account" not in fields and not from_page:
        return
    account = fields.pop("account", None)
    if not isinstance(account, str) or not _ACCOUNT.fullmatch(account):
        raise LimnerError("account: expected the one that the page was opened for: reload the page")
    if not hmac.compare_digest(account, ask.site.account(ask.visitor)):
        raise OtherAccount(
            f"this page was opened for another account, and {ask.visitor.name} is logged in now: nothing was saved. "
            f"Log in with the other account again, or reload the page"
        )


def _log_in(request: Request) -> Response:
    if wants_json(request):
        return JSONResponse({"error": "log in first"}, 401)
    page_address = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return RedirectResponse(f"/login?next={quote(page_address, safe='')}", 303)


def wants_json(request: Request) -> bool:
    """Whether the client wants JSON."""
    return request.url.path.startswith("/api/")


def safe_next(address: str) -> str:
    r"""The page to go to after login: always a page of this site.

    >>> safe_next("/judge?x=1"), safe_next("//evil.example"), safe_next("https://evil.example"), safe_next("/\\evil")
    ('/judge?x=1', '/', '/', '/')
    """
    inside = address.startswith("/") and not address.startswith(("//", "/\\")) and address.isprintable()
    return address if inside and "\\" not in address else "/"


# --- pages ------------------------------------------------------------------------------------------------------

_pages = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_pages.filters["counted"] = count


def page(
    ask: Ask, template: str, *, status: int = 200, headers: Mapping[str, str] | None = None, **known: object
) -> HTMLResponse:
    """A page from a template; all values are escaped."""
    visitor = ask.visitor if ask.visitor.name else None
    return HTMLResponse(_render(ask.site, ask.request, visitor, template, known), status, headers)


def _render(site: Site, request: Request, visitor: Visitor | None, template: str, content: Mapping[str, object]) -> str:

    def account() -> str:
        return site.account(visitor) if visitor else ""

    visible = [(path, name) for path, name, role, _ in PAGES if visitor and visitor.may(role) and _served(site, path)]
    frame = {"visitor": visitor, "team": site.team, "here": request.url.path, "pages": visible, "account": account}
    frame["account_field"] = lambda: Markup('<input type="hidden" name="account" value="{}">').format(account())
    return _pages.get_template(template).render({**frame, **content})


def _served(site: Site, path: str) -> bool:
    """Whether a page has something to show: with only an index, only the search page does."""
    return bool(site.library.collections) or path == "/search"


def query(**words: object) -> str:
    """A URL query string without empty parameters; lists are repeated."""
    listed = [(name, value) for name, values in words.items() for value in _several(values)]
    return urlencode([(name, value) for name, value in listed if value not in ("", None)])


def _several(value: object) -> list[object]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


# --- errors -----------------------------------------------------------------------------------------------------


def failed(request: Request, error: Exception) -> Response:
    """Turns any error into a page or JSON with a message; never a traceback."""
    if isinstance(error, Pending):
        return _waiting(request, error)
    status, message = status_of(error)
    if wants_json(request):
        reason = {"reason": "account"} if isinstance(error, OtherAccount) else {}
        return JSONResponse({"error": message, **reason}, status)
    titles = {403: "Not for you", 404: "Not here", 413: "Too large", 429: "Too often", 500: "A fault in limner"}
    titles[503] = "Try again later"
    content = {"title": titles.get(status, "That did not work"), "message": message, "status": status, "job": None}
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else None
    site: Site = request.app.state.site
    try:
        text = _render(site, request, site.visitor(request), "message.html", content)
    except Exception:  # the store that knows the visitor may be what failed
        text = _render(site, request, None, "message.html", content)
    return HTMLResponse(text, status, headers)


def status_of(error: Exception) -> tuple[int, str]:
    """The status and the message of an error."""
    if isinstance(error, HTTPException):
        return error.status_code, error.detail or "not here"
    if isinstance(error, (UnknownId, UnknownName)):
        return 404, str(error)
    if isinstance(error, Refused):
        return 422, str(error)
    kind = type(error).__name__
    if kind in ("LeaseLost", "AlreadyFull", "Conflict", "IntegrityError", "OtherAccount"):
        return 409, str(error)
    if kind == "Unreachable":  # without its address, which is for the operator
        return 503, "the server's database cannot be reached, so nothing can be saved now: tell an admin if this lasts"
    if kind == "NotAllowed":
        return 403, str(error)
    if isinstance(error, NotWritten):  # the browser keeps the answer and sends it again
        return 507, "the server's disk is full, and nothing was saved: tell an admin"
    if isinstance(error, LimnerError):
        return 400, str(error)
    return 500, f"{kind}: see the server's log"


def _waiting(request: Request, error: Pending) -> Response:
    job = error.job
    if wants_json(request):
        return JSONResponse(
            {"pending": job.what, "done": job.done, "total": job.total}, 202, headers={"Retry-After": "1"}
        )
    site: Site = request.app.state.site
    content = {"title": "One moment", "message": f"{job.what} ...", "status": 202, "job": job}
    return HTMLResponse(_render(site, request, site.visitor(request), "message.html", content), 202)
