"""The application: every address, who may ask for it, and what stands before them all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from limner.errors import LimnerError
from limner.web import accounts, admin, api, effect, judging, pages, preferring
from limner.web.jobs import Pending
from limner.web.security import LOCAL_HOSTS, Guard
from limner.web.site import HERE, Site, endpoint, failed, open_endpoint


def application(site: Site, *, hosts: tuple[str, ...] = ()) -> Starlette:
    """The ASGI application of a site.

    Args:
        site: What is served.
        hosts: Names it answers under; on this machine alone, only this machine's names.
    """
    known = hosts if site.team else (*LOCAL_HOSTS, *hosts)
    app = Starlette(
        routes=routes(),
        middleware=[Middleware(Guard, hosts=known, private=site.team)],
        exception_handlers=dict.fromkeys((LimnerError, HTTPException, Pending), failed),
        lifespan=_lifespan,
    )
    app.state.site = site
    app.state.work = admin.Work()
    return app


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    yield
    app.state.site.close()


def routes() -> list[BaseRoute]:
    """Every address."""
    looking = [
        Route("/", endpoint(pages.home)),
        Route("/name", endpoint(pages.name), methods=["POST"]),
        Route("/search", endpoint(pages.search_page, role="reviewer"), methods=["GET"]),
        Route("/search", endpoint(pages.send_picture, role="reviewer"), methods=["POST"]),
        Route("/compare", endpoint(pages.compare, role="reviewer")),
        Route("/failures", endpoint(pages.failures_page, role="reviewer")),
        Route("/failure", endpoint(pages.failure_page, role="reviewer")),
        Route("/image", endpoint(pages.image)),
        Route("/upload/{key}", endpoint(pages.sent_picture, role="reviewer")),
    ]
    people = [
        Route("/login", open_endpoint(accounts.login_page), methods=["GET"]),
        Route("/login", open_endpoint(accounts.login), methods=["POST"]),
        Route("/logout", open_endpoint(accounts.logout), methods=["POST"]),
        Route("/invite/{token}", open_endpoint(accounts.invitation), methods=["GET"]),
        Route("/invite/{token}", open_endpoint(accounts.accept), methods=["POST"]),
    ]
    judged = [
        Route("/judge", endpoint(judging.judge_page), methods=["GET"]),
        Route("/judge", endpoint(judging.judge_form), methods=["POST"]),
        Route("/prefer", endpoint(preferring.prefer_page), methods=["GET"]),
        Route("/prefer", endpoint(preferring.prefer_form), methods=["POST"]),
    ]
    static = Mount("/static", StaticFiles(directory=HERE / "static"))
    return [*looking, *people, *judged, *_admins(), *_machines(), static]


def _admins() -> list[BaseRoute]:
    """The addresses of those who look after the judging."""
    return [
        Route("/admin", endpoint(admin.admin_page, role="reviewer")),
        Route("/admin/effect", endpoint(effect.effect_page, role="reviewer")),
        Route("/admin/export", endpoint(effect.export_file, role="admin")),
        Route("/admin/tasks", endpoint(admin.make_tasks, role="admin"), methods=["POST"]),
        Route("/admin/study", endpoint(admin.make_study, role="admin"), methods=["POST"]),
        Route("/admin/invite", endpoint(admin.invite, role="admin"), methods=["POST"]),
        Route("/admin/account", endpoint(admin.account, role="admin"), methods=["POST"]),
        Route("/admin/aside", endpoint(admin.aside, role="admin"), methods=["POST"]),
        Route("/admin/review", endpoint(admin.review_task, role="reviewer"), methods=["POST"]),
    ]


def _machines() -> list[BaseRoute]:
    """The addresses of the JSON API."""
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
        Route("/api/comparison", endpoint(preferring.api_comparison)),
        Route("/api/votes", endpoint(preferring.api_vote), methods=["POST"]),
        Route("/api/status", endpoint(admin.api_status, role="reviewer")),
    ]
