"""A small site for the tests of the page: hostile captions, two systems, a store with tasks."""

from __future__ import annotations

import io
import re
import threading
import time
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image
from starlette.testclient import TestClient

import limner
from limner.annotate.store import open_store
from limner.annotate.store.contents import add_collection
from limner.annotate.store.tasks import Draft, TaskPair, add_tasks
from limner.core.judgements import Judgements
from limner.datasets import scenes
from limner.web import make_app
from limner.web.connections import Connections, Limits, listen
from limner.web.library import Library
from limner.web.rate_limits import Throttle
from limner.web.server import run, server_of

EVIL = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
PASSWORD = "correct horse battery"
SIZES = ({"width": 390, "height": 844}, {"width": 1024, "height": 768}, {"width": 1440, "height": 900})
"""Viewports: a phone, a tablet, a desk."""


@cache
def world(images: int = 60) -> limner.Collection:
    """Scenes, every third caption of which tries to run a script."""
    drawn = scenes.load(images=images)
    captions = [f"{EVIL} {text}" if k % 3 == 0 else text for k, text in enumerate(drawn.texts.values)]
    texts = limner.Items(drawn.texts.ids, captions, drawn.texts.fields, kind="text")
    return limner.Collection("scenes", drawn.images, texts, drawn.judgements, drawn.splits, drawn.extra)


def filled(path: Path | str, *, tasks: int = 2, size: int = 5, replication: int = 2) -> Path | str:
    """A store with tasks of the world's test images and captions that are not theirs."""
    test_part = world().test
    images, texts = list(test_part.images.ids), list(test_part.texts.ids)
    with open_store(path) as store:
        add_collection(store, test_part, spec="scenes")
        pairs = [
            (images[n % len(images)], texts[(7 * n + n // len(texts) + 5) % len(texts)]) for n in range(tasks * size)
        ]
        drafts = [
            Draft(tuple(TaskPair(*pair) for pair in pairs[start : start + size]))
            for start in range(0, len(pairs), size)
        ]
        add_tasks(store, drafts, replication=replication)
    return path


@cache
def library(images: int = 60) -> Library:
    """What all sites of these tests show: loaded, trained and explained once."""
    return Library({"scenes": world(images)}, {"colours": "colours"})


def client(path: Path | str, *, images: int = 60, fresh: bool = False, **more) -> TestClient:
    """A browser without scripts, on a site of its own; a fresh one has loaded and trained nothing yet."""
    app = make_app([world(images)], systems=("colours",), store=path, **more)
    if not fresh:
        app.state.site.library = library(images)
    return TestClient(app, base_url="http://localhost", follow_redirects=False)


def sure_client(folder: Path) -> TestClient:
    """A site of 240 images with a caption each; its similarities are right for even captions and noise for odd ones."""
    image = folder / "image.png"
    Image.new("RGB", (64, 48), "teal").save(image)
    rng, count = np.random.default_rng(0), 240
    images = limner.Items([f"i{n}" for n in range(count)], [str(image)] * count)
    texts = limner.Items([f"t{n}" for n in range(count)], [f"caption {n}" for n in range(count)], kind="text")
    pairs = Judgements.from_pairs([(f"i{n}", f"t{n}") for n in range(count)], queries=images.ids, candidates=texts.ids)
    np.save(folder / "mine.npy", rng.random((count, count)) + 1.5 * np.diag(np.arange(count) % 2 == 0))
    app = make_app(
        [limner.Collection("shapes", images, texts, pairs)], systems=(), matrices={"mine": folder / "mine.npy"},
        store=folder / "answers.db",
    )  # fmt: skip
    return TestClient(app, base_url="http://localhost", follow_redirects=False)


def until(page, words: str, arg: object, *, seconds: float = 60) -> None:
    """Waits until a function in a page returns true.

    Not `wait_for_function`: after its first try it evaluates a string within the page, which the pages' content
    security policy refuses.
    """
    end = time.monotonic() + seconds
    while not page.evaluate(words, arg):
        assert time.monotonic() < end, f"{seconds} s have passed: {words}"
        page.wait_for_timeout(50)


def patient(visitor: TestClient, address: str, **more):
    """The page once it is made."""
    for _ in range(600):
        reply = visitor.get(address, **more)
        if reply.status_code != 202:
            return reply
        time.sleep(0.05)
    raise AssertionError(f"{address} was never made")


def settled(visitor: TestClient, address: str = "/admin"):
    """The admin's page once the answers are compared."""
    for _ in range(600):
        reply = visitor.get(address)
        if "being compared" not in reply.text:
            return reply
        time.sleep(0.05)
    raise AssertionError("the answers were never compared")


def browser(visitor: TestClient, *, address: str = "testclient", base: str = "http://localhost") -> TestClient:
    """A fresh browser on the same site, at an address of its own."""
    return TestClient(visitor.app, base_url=base, follow_redirects=False, client=(address, 50_000))


def enrolled(visitor: TestClient, name: str, role: str) -> TestClient:
    """A fresh browser of the same site with an account of its own."""
    from limner.annotate.store.people import annotators, make_invite

    store = visitor.app.state.site.store
    by = next((each.id for each in annotators(store) if each.role == "admin" and each.active), None)
    token = make_invite(store, role=role, by=by)
    enrolled_visitor = browser(visitor)
    reply = enrolled_visitor.post(f"/invite/{token}", data={"name": name, "password": PASSWORD, "again": PASSWORD})
    assert reply.status_code == 303, reply.text
    return enrolled_visitor


def judged(visitor: TestClient, name: str, grades: list[int], *, milliseconds: int = 900) -> dict:
    """Answers one task under a name."""
    visitor.cookies.set("limner_name", name)
    task = visitor.post("/api/task", json={}).json()["task"]
    for item, grade in zip(task["items"], grades, strict=True):
        body = {"item": item["id"], "key": f"{name}-{item['id']:08d}", "grade": grade, "milliseconds": milliseconds}
        assert visitor.post("/api/answers", json=body).status_code == 200
    return task


def account(visitor: TestClient, address: str = "/judge") -> str:
    """What a page sends back: the account that it was opened for."""
    return re.search(r'data-account="([^"]*)"', visitor.get(address).text)[1]


def read_guideline(name: str, version: str = "1") -> str:
    """A script for a browser whose person has read the guideline."""
    return f"""localStorage.setItem("limner-guideline:{name}", '"{version}"')"""


def endless() -> Throttle:
    """Turns without end, for a test that is about something else."""
    return Throttle(1_000_000, 1.0)


def picture(form: str = "PNG", size: tuple[int, int] = (60, 40)) -> bytes:
    """A picture file."""
    out = io.BytesIO()
    Image.new("RGB", size, (200, 30, 40)).save(out, form)
    return out.getvalue()


def words(reply) -> str:
    """What a person reads."""
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", reply.text))


@contextmanager
def running(app, *, limits: Limits | None = None, certificate: Path | None = None, key: Path | None = None):
    """A real server on a port of its own, as `limner serve` runs it; gives its address."""
    with closing(listen("127.0.0.1", 0, Connections(limits))) as gate:
        server = server_of(app, gate, certificate=certificate, key=key)
        thread = threading.Thread(target=run, args=(server, gate), daemon=True)
        app.state.connections = gate.connections
        scheme = "http" if key is None else "https"
        thread.start()
        try:
            yield f"{scheme}://127.0.0.1:{gate.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(10)


@contextmanager
def served(folder: Path, *, tasks: int):
    """The app of a running site whose store has tasks of four pairs, each for one person; `app.state.address`."""
    app = client(filled(folder / "answers.db", tasks=tasks, size=4, replication=1)).app
    with running(app) as address:
        app.state.address = address
        yield app


@contextmanager
def warm(folder: Path, path: str):
    """A running site with a page that was already computed once."""
    visitor = client(folder / "answers.db")
    patient(visitor, path)
    with running(visitor.app) as address:
        yield address


@contextmanager
def watched(browser, *, base_url: str | None = None, viewport: dict[str, int]):
    """A page of a real browser; errors of its scripts fail the test."""
    context = browser.new_context(viewport=viewport, base_url=base_url, reduced_motion="reduce")
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert errors == []


@contextmanager
def from_disk(browser, file: Path):
    """A saved page on a phone; it may neither ask for anything outside nor write to the console."""
    context = browser.new_context(viewport={"width": 360, "height": 740})
    page, requests, messages = context.new_page(), [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: messages.append(message.text))
    page.goto(file.as_uri())
    yield page
    assert messages == [] and [url for url in requests if not url.startswith(("file:", "data:"))] == []
    context.close()
