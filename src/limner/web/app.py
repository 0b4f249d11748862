"""The application: routes, roles, and middleware."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from limner.core.errors import LimnerError
from limner.web import (
    accounts,
    admin,
    answer_effect,
    api,
    assigning,
    estimating,
    failure_pages,
    guideline_page,
    item_page,
    judging,
    map_page,
    search_page,
    side_by_side,
    study_pages,
    system_wins,
)
from limner.web.jobs import Pending
from limner.web.security import Guard, checked_proxies, names_of
from limner.web.site import HERE, PAGES, Ask, Site, endpoint, failed, open_endpoint, page


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


def _believing(app: ASGIApp, proxies: list[str]) -> Any:
    """Takes the client address and scheme from `X-Forwarded-For` and `-Proto`, if a trusted proxy sent them."""
    from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

    inner: Any = app
    return ProxyHeadersMiddleware(inner, trusted_hosts=proxies)


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


def routes() -> list[BaseRoute]:
    """Every address."""
    looking = [
        Route("/", endpoint(home)),
        Route("/name", open_endpoint(accounts.name), methods=["POST"]),
        Route("/search", endpoint(search_page.search_page, role="reviewer"), methods=["GET"]),
        Route("/search", endpoint(search_page.send_image, role="reviewer"), methods=["POST"]),
        Route("/item", endpoint(item_page.item_page, role="reviewer")),
        Route("/compare", endpoint(side_by_side.compare, role="reviewer")),
        Route("/wins", endpoint(system_wins.wins_page, role="reviewer")),
        Route("/slices", endpoint(side_by_side.slices_page, role="reviewer")),
        Route("/failures", endpoint(failure_pages.failures_page, role="reviewer")),
        Route("/failure", endpoint(failure_pages.failure_page, role="reviewer")),
        Route("/map", endpoint(map_page.map_page, role="reviewer")),
        Route("/map/points", endpoint(map_page.map_points, role="reviewer")),
        Route("/map/label", endpoint(map_page.label_region, role="admin"), methods=["POST"]),
        Route("/map/{part}", open_endpoint(map_page.map_part)),
        Route("/image", endpoint(search_page.image)),
        Route("/upload/{key}", endpoint(search_page.sent_image, role="reviewer")),
    ]
    people = [
        Route("/login", open_endpoint(accounts.login_page), methods=["GET"]),
        Route("/login", open_endpoint(accounts.login, in_pool=True), methods=["POST"]),
        Route("/logout", open_endpoint(accounts.logout), methods=["POST"]),
        Route("/invite/{token}", open_endpoint(accounts.invitation), methods=["GET"]),
        Route("/invite/{token}", open_endpoint(accounts.accept, in_pool=True), methods=["POST"]),
        Route("/reset/{token}", open_endpoint(accounts.reset_page), methods=["GET"]),
        Route("/reset/{token}", open_endpoint(accounts.reset, in_pool=True), methods=["POST"]),
        Route("/account", endpoint(accounts.account_page), methods=["GET"]),
        Route("/account", endpoint(accounts.change_password, in_pool=True), methods=["POST"]),
    ]
    judged = [
        Route("/judge", endpoint(judging.judge_page), methods=["GET"]),
        Route("/judge", endpoint(judging.judge_form), methods=["POST"]),
        Route("/practice", endpoint(guideline_page.practice_page)),
        Route("/captions", endpoint(study_pages.captions_page), methods=["GET"]),
        Route("/captions", endpoint(study_pages.captions_form), methods=["POST"]),
        Route("/study", endpoint(study_pages.study_page), methods=["GET"]),
        Route("/study", endpoint(study_pages.study_form), methods=["POST"]),
        Route("/studies", endpoint(study_pages.studies_page, role="reviewer")),
    ]
    static = Mount("/static", StaticFiles(directory=HERE / "static"))
    return [*looking, *people, *judged, *_admins(), *_machines(), static]


def _admins() -> list[BaseRoute]:
    """The routes of admins and reviewers."""
    return [
        Route("/admin", endpoint(admin.admin_page, role="reviewer")),
        Route("/estimate", endpoint(estimating.estimate_page, role="reviewer")),
        Route("/admin/effect", endpoint(answer_effect.effect_page, role="reviewer")),
        Route("/admin/disagreements", endpoint(admin.disagreements_page, role="reviewer")),
        Route("/admin/export", endpoint(answer_effect.export_file, role="admin")),
        Route("/admin/tasks", endpoint(admin.with_form("make", admin.make_tasks), role="admin"), methods=["POST"]),
        Route("/admin/study", endpoint(admin.with_form("study", admin.make_study), role="admin"), methods=["POST"]),
        Route("/admin/invite", endpoint(accounts.make_invitation, role="admin"), methods=["POST"]),
        Route("/admin/revoke", endpoint(accounts.revoke_invitation, role="admin"), methods=["POST"]),
        Route("/admin/account", endpoint(accounts.open_or_close, role="admin"), methods=["POST"]),
        Route("/admin/role", endpoint(accounts.change_role, role="admin"), methods=["POST"]),
        Route("/admin/password", endpoint(accounts.replace_password, role="admin", in_pool=True), methods=["POST"]),
        Route("/admin/reset", endpoint(accounts.make_reset_link, role="admin"), methods=["POST"]),
        Route("/admin/assign", endpoint(admin.with_form("assigned", assigning.assign), role="admin"), methods=["POST"]),
        Route("/admin/scale", endpoint(admin.with_form("scale", admin.own_scale), role="admin"), methods=["POST"]),
        Route(
            "/admin/guideline",
            endpoint(admin.with_form("guideline", guideline_page.edit), role="admin"),
            methods=["POST"],
        ),
        Route("/admin/aside", endpoint(admin.aside, role="admin"), methods=["POST"]),
        Route("/admin/review", endpoint(admin.review_task, role="reviewer"), methods=["POST"]),
    ]


def _machines() -> list[BaseRoute]:
    """The routes of the JSON API."""
    return [
        Route("/api/openapi.json", endpoint(api.openapi)),
        Route("/api/collections", endpoint(api.collections, role="reviewer")),
        Route("/api/search", endpoint(api.search_json, role="reviewer")),
        Route("/api/failures", endpoint(api.failures_json, role="reviewer")),
        Route("/api/task", endpoint(judging.api_task), methods=["POST"]),
        Route("/api/task/return", endpoint(judging.api_return), methods=["POST"]),
        Route("/api/answers", endpoint(judging.api_answer), methods=["POST"]),
        Route("/api/answers/undo", endpoint(judging.api_undo), methods=["POST"]),
        Route("/api/mine", endpoint(judging.api_mine)),
        Route("/api/question", endpoint(study_pages.api_question)),
        Route("/api/study-answers", endpoint(study_pages.api_study_answer), methods=["POST"]),
        Route("/api/study", endpoint(estimating.api_study, role="reviewer")),
        Route("/api/status", endpoint(admin.api_status, role="reviewer")),
    ]
