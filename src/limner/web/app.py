"""The application: routes, roles, and middleware."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

from limner.core.errors import LimnerError
from limner.web import (
    accounts,
    admin,
    answer_effect,
    api,
    estimating,
    failures,
    judging,
    map_page,
    search_page,
    side_by_side,
    study_pages,
)
from limner.web.jobs import Pending
from limner.web.security import Guard, checked_proxies, names_of
from limner.web.site import EVERYONE, HERE, PAGES, Ask, Handler, Site, endpoint, failed, page


def application(site: Site, *, hosts: Sequence[str] = (), proxies: Sequence[str] = ()) -> Starlette:
    """The ASGI application of a site.

    Args:
        site: The site to serve.
        hosts: Allowed host names, in addition to those of this machine and the one in the site's URL.
        proxies: Addresses of reverse proxies whose forwarded headers are trusted.
    """
    named = names_of(hosts, site.url, team=site.team)
    layers = [Middleware(Guard, hosts=named, url=site.url, private=site.team)]
    if proxies:
        layers.insert(0, Middleware(_believing, proxies=checked_proxies(proxies)))
    app = Starlette(
        routes=routes(),
        middleware=layers,
        exception_handlers=dict.fromkeys((LimnerError, HTTPException, Pending), failed),
        lifespan=_lifespan,
    )
    app.state.site = site
    app.state.work = admin.Work()
    return app


def _believing(app: ASGIApp, proxies: list[str]) -> ASGIApp:
    """Takes the client address and scheme from `X-Forwarded-For` and `-Proto`, if a trusted proxy sent them."""
    from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

    return cast("ASGIApp", ProxyHeadersMiddleware(cast("ASGI3Application", app), trusted_hosts=proxies))


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    yield
    app.state.site.close()


def home(ask: Ask) -> Response:
    """The home page; it loads nothing."""
    library = ask.site.library
    about = {path: words for path, _, _, words in PAGES}
    looks = ask.visitor.may("reviewer")
    systems = library.names if library.collections else []  # an index is searched with its own model
    return page(ask, "home.html", about=about, collections=library.searchable, systems=systems, looks=looks)


def _get(path: str, handler: Handler, *, role: str = "annotator") -> Route:
    """A page for this role and higher ones (annotator, reviewer, admin); `EVERYONE` needs no account."""
    return Route(path, endpoint(handler, role=role), methods=["GET"])


def _post(path: str, handler: Handler, *, role: str = "annotator", in_pool: bool = False) -> Route:
    """The same for a form; `in_pool` if it hashes passwords, which has a pool of threads of its own."""
    return Route(path, endpoint(handler, role=role, in_pool=in_pool), methods=["POST"])


def routes() -> list[BaseRoute]:
    """Every address."""
    looking = [
        _get("/", home),
        _post("/name", accounts.name, role=EVERYONE),
        _get("/search", search_page.search_page, role="reviewer"),
        _post("/search", search_page.send_image, role="reviewer"),
        _get("/item", search_page.item_page, role="reviewer"),
        _get("/compare", side_by_side.compare, role="reviewer"),
        _get("/wins", side_by_side.wins_page, role="reviewer"),
        _get("/slices", side_by_side.slices_page, role="reviewer"),
        _get("/failures", failures.failures_page, role="reviewer"),
        _get("/failure", failures.failure_page, role="reviewer"),
        _get("/map", map_page.map_page, role="reviewer"),
        _get("/map/points", map_page.map_points, role="reviewer"),
        _post("/map/label", map_page.label_region, role="admin"),
        _get("/map/{part}", map_page.map_part, role=EVERYONE),
        _get("/image", search_page.image),
        _get("/upload/{key}", search_page.sent_image, role="reviewer"),
    ]
    people = [
        _get("/login", accounts.login_page, role=EVERYONE),
        _post("/login", accounts.login, role=EVERYONE, in_pool=True),
        _post("/logout", accounts.logout, role=EVERYONE),
        _get("/invite/{token}", accounts.invitation, role=EVERYONE),
        _post("/invite/{token}", accounts.accept, role=EVERYONE, in_pool=True),
        _get("/reset/{token}", accounts.reset_page, role=EVERYONE),
        _post("/reset/{token}", accounts.reset, role=EVERYONE, in_pool=True),
        _get("/account", accounts.account_page),
        _post("/account", accounts.change_password, in_pool=True),
    ]
    judged = [
        _get("/judge", judging.judge_page),
        _post("/judge", judging.judge_form),
        _get("/practice", judging.practice_page),
        _get("/captions", study_pages.captions_page),
        _post("/captions", study_pages.captions_form),
        _get("/study", study_pages.study_page),
        _post("/study", study_pages.study_form),
        _get("/studies", study_pages.studies_page, role="reviewer"),
    ]
    static = Mount("/static", StaticFiles(directory=HERE / "static"))
    return [*looking, *people, *judged, *_admins(), *_machines(), static]


def _admins() -> list[BaseRoute]:
    """The routes of admins and reviewers."""
    return [
        _get("/admin", admin.admin_page, role="reviewer"),
        _get("/estimate", estimating.estimate_page, role="reviewer"),
        _get("/admin/effect", answer_effect.effect_page, role="reviewer"),
        _get("/admin/disagreements", admin.disagreements_page, role="reviewer"),
        _get("/admin/export", answer_effect.export_file, role="admin"),
        _post("/admin/tasks", admin.with_form("make", admin.make_tasks), role="admin"),
        _post("/admin/study", admin.with_form("study", admin.make_study), role="admin"),
        _post("/admin/invite", accounts.make_invitation, role="admin"),
        _post("/admin/revoke", accounts.revoke_invitation, role="admin"),
        _post("/admin/account", accounts.open_or_close, role="admin"),
        _post("/admin/role", accounts.change_role, role="admin"),
        _post("/admin/password", accounts.replace_password, role="admin", in_pool=True),
        _post("/admin/reset", accounts.make_reset_link, role="admin"),
        _post("/admin/assign", admin.with_form("assigned", admin.assign), role="admin"),
        _post("/admin/scale", admin.with_form("scale", admin.own_scale), role="admin"),
        _post("/admin/guideline", admin.with_form("guideline", judging.edit), role="admin"),
        _post("/admin/aside", admin.aside, role="admin"),
        _post("/admin/review", admin.review_task, role="reviewer"),
    ]


def _machines() -> list[BaseRoute]:
    """The routes of the JSON API."""
    return [
        _get("/api/openapi.json", api.openapi),
        _get("/api/collections", api.collections, role="reviewer"),
        _get("/api/search", api.search_json, role="reviewer"),
        _get("/api/failures", api.failures_json, role="reviewer"),
        _post("/api/task", judging.api_task),
        _post("/api/task/return", judging.api_return),
        _post("/api/answers", judging.api_answer),
        _post("/api/answers/undo", judging.api_undo),
        _get("/api/mine", judging.api_mine),
        _get("/api/question", study_pages.api_question),
        _post("/api/study-answers", study_pages.api_study_answer),
        _get("/api/study", estimating.api_study, role="reviewer"),
        _get("/api/status", admin.api_status, role="reviewer"),
    ]
