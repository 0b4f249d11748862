"""A study in a real browser: plan, two people label, the interval narrows, stop, report; the server dies between."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import closing
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest

import limner
import websites
from limner.annotate.results import studies
from limner.annotate.store import open_store
from limner.annotate.store.answers import answers
from websites import SIZES, until

GOAL = 7.5


@pytest.fixture(scope="module")
def world():
    """The test part of a small world, and two systems, one of which knows more."""
    test_split = limner.load("scenes", images=100).test
    complete = test_split.extra["complete"]
    truth = np.array([[(complete.grade(i, t) or 0) > 0 for t in test_split.texts.ids] for i in test_split.images.ids])
    random = np.random.default_rng(0)
    return test_split, {
        name: weight * truth + random.normal(size=truth.shape) for name, weight in (("good", 2), ("bad", 0.5))
    }


class Server:
    """`limner annotate serve` in a process of its own, which can be killed and started again at the same address."""

    def __init__(self, folder):
        """Finds a port."""
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.folder, self.url = folder, f"http://127.0.0.1:{self.port}"

    def start(self):
        words = [sys.executable, "-m", "limner", "annotate", "serve", "work.db", "--port", str(self.port)]
        self.process = subprocess.Popen(words, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"{self.url}/", timeout=5):
                    return self
            except OSError:
                assert self.process.poll() is None, "the server ended by itself"
                time.sleep(0.1)
        raise AssertionError("the server does not answer")

    def kill(self):
        """As a power cut would end it."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def server(tmp_path, world):
    """A planned study, served."""
    for name, matrix in world[1].items():
        np.save(tmp_path / f"{name}.npy", matrix)
    run(tmp_path, "annotate", "plan", "work.db", "scenes", "-O", "images=100", "--scores", "good=good.npy", "--scores",
        "bad=bad.npy", "--direction", "t2i", "--measure", "R@1", "--half-width", GOAL)  # fmt: skip
    started = Server(tmp_path).start()
    yield started
    if started.process.poll() is None:
        started.kill()


def run(folder, *words):
    """A command at the shell."""
    done = subprocess.run(
        [sys.executable, "-m", "limner", *map(str, words)], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def person(browser, server, name):
    context = browser.new_context(base_url=server.url, viewport=SIZES[1], reduced_motion="reduce")
    context.add_cookies([{"name": "limner_name", "value": name, "url": server.url}])
    context.set_default_timeout(120_000)  # the page of estimates is computed while it loads
    context.add_init_script(websites.read_guideline(name))
    return context.new_page()


def ready(page, path):
    """Opens a page that may first have to be made."""
    page.goto(path)
    page.wait_for_selector('h1:not(:has-text("One moment"))', state="attached", timeout=60_000)


def judged_right(item, collection):
    image = parse_qs(urlsplit(item["picture"]).query)["id"][0]
    texts = [
        key for key, text in zip(collection.texts.ids, collection.texts.values, strict=True) if text == item["text"]
    ]
    return any((collection.extra["complete"].grade(image, text) or 0) > 0 for text in texts)


def judge_task(page, collection, *, between=None):
    """Answers a whole task; `between` happens after the fifth answer."""
    ready(page, "/judge")
    page.wait_for_selector("#judge[data-ready]", state="attached")
    items = json.loads(page.get_attribute("#judge", "data-task"))["items"]
    for number, item in enumerate(items):
        assert page.inner_text("#words") == item["text"]
        page.check(f"input[name=grade][value='{4 if judged_right(item, collection) else 1}']")
        page.click("button:has-text('Save and go on')")
        if number == 4 and between is not None:
            between(page)
    page.wait_for_selector("#finished:not([hidden])", timeout=60_000)


def width(page):
    """The widest half-width that the page shows."""
    cells = page.locator("table").first.locator("tbody tr td:nth-of-type(3)").all_inner_texts()
    return max(map(float, cells))


def counted(page, minimum):
    """Waits until an open page counts so many labels, by itself."""
    words = "(least) => Number(document.querySelector('#study-t2i-body p')?.textContent.match(/^[0-9]+/)[0]) >= least"
    until(page, words, minimum)


def sound(page, name):
    """Nothing scrolls sideways at three widths, light and dark; axe finds nothing; keeps pictures where wanted."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    looks = {(SIZES[0]["width"], "light"): {}, (SIZES[-1]["width"], "dark"): {"runOnly": ["color-contrast"]}}
    for size, scheme in itertools.product(SIZES, ("light", "dark")):
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        if (options := looks.get((size["width"], scheme))) is not None:
            outcome = axe.run(page, options=options or None).response
            assert (
                outcome["passes"] and [(v["id"], [n["html"] for n in v["nodes"]]) for v in outcome["violations"]] == []
            )
        if folder := os.environ.get("LIMNER_PICTURES"):
            page.screenshot(path=f"{folder}/{name}-{size['width']}-{scheme}.png", full_page=True)


def test_plan_label_narrow_stop_report_with_the_server_killed_between(browser, server, world, tmp_path):
    collection, _ = world
    lead, ada, bob = (person(browser, server, name) for name in ("lead", "ada", "bob"))
    ready(lead, "/estimate")
    assert "No answer counts yet" in lead.inner_text("#study-t2i-verdict")

    judge_task(ada, collection)
    counted(lead, 18)
    first = width(lead)
    sound(lead, "estimate-early")

    def dies(page):
        """The server is killed; an answer is given meanwhile; it comes back."""
        page.wait_for_selector("#state:text-is('Saved.')")
        server.kill()
        page.check("input[name=grade][value='1']")  # changed again below, once the server is back
        page.click("button:has-text('Save and go on')")
        page.wait_for_selector("#banner:has-text('NOT SAVED')")
        server.start()
        page.wait_for_selector("#state:text-is('Saved.')", timeout=60_000)
        page.click("button:has-text('Back')")

    judge_task(bob, collection, between=dies)
    counted(lead, 36)  # the lead's page lived through it
    second = width(lead)
    assert second < first and "Not narrow enough yet" in lead.inner_text("#study-t2i-verdict")

    judge_task(ada, collection)
    counted(lead, 54)
    assert width(lead) < second
    assert "Narrow enough: you can stop." in lead.inner_text("#study-t2i-verdict")
    sound(lead, "estimate-enough")
    ready(bob, "/judge")
    bob.reload()
    assert "Narrow enough: you can stop." in bob.inner_text("main"), "one task is left, and nobody has to do it"
    sound(bob, "judge-enough")

    with open_store(tmp_path / "work.db") as store:
        (study,) = studies(store)
        labels = [a for a in answers(store) if a.role == "real"]
    assert study.labels == 54 == len(labels) and len({(a.image, a.caption) for a in labels}) == 54, (
        "nothing lost or doubled"
    )
    check_report(browser, tmp_path, study, collection)
    for page in (lead, ada, bob):
        page.context.close()


def check_report(browser, folder, study, collection):
    """The report says what the page said, and the truth is inside."""
    for name in ("good", "bad"):
        files = ("--scores", f"{name}.npy", "-o", f"{name}.json", "-o", f"{name}.html")
        options = ("--split", "test", "--estimate", "work.db", "-O", "mode=anytime", "--name", name)
        run(folder, "evaluate", "scenes", "-O", "images=100", *files, *options)
    shown_estimates = {row.system: row.found.estimate for row in study.rows}
    for name, estimate in shown_estimates.items():
        (interval_row,) = limner.Report.load(folder / f"{name}.json").estimates
        assert (interval_row.estimate.low, interval_row.estimate.high) == (estimate.low, estimate.high)
        matrix = np.load(folder / f"{name}.npy")
        best = [collection.images.ids[int(column.argmax())] for column in matrix.T]
        true = np.mean(
            [
                (collection.extra["complete"].grade(i, t) or 0) > 0
                for i, t in zip(best, collection.texts.ids, strict=True)
            ]
        )
        assert estimate.low <= true <= estimate.high
    output = run(
        folder, "compare", "good.json", "bad.json", "--estimate", "work.db", "-O", "mode=anytime", "--samples", 500
    )
    assert re.search(r"estimated, text -> image\s+one\s+other\s+difference", output)
    page = browser.new_page()
    page.goto((folder / "good.html").as_uri())
    assert page.locator("#estimated svg[role=img]").count() == 1
    assert "54 labels by people; anytime intervals" in page.inner_text("#estimated")
    sound(page, "report")
    page.close()
