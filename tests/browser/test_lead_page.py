"""The lead's page in a real browser: forms in tables at every size, and a store that outlives the browser."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import closing, contextmanager

import pytest

import websites
from limner.annotate.store import open_store
from limner.annotate.store.answers import answers
from limner.annotate.store.contents import add_collection
from limner.annotate.store.tasks import Draft, TaskPair, add_tasks
from websites import SIZES

ONE_LINE = """(forms) => forms.every((form) => {
  const tops = [...form.querySelectorAll("select, button")].map((each) => each.getBoundingClientRect());
  return tops.every((each) => Math.abs(each.top - tops[0].top) < 1)
    && tops.slice(1).every((each, n) => each.left - tops[n].right >= 4);
})"""
"""Whether the parts of each form are side by side, with a gap."""


PIXELS = "async (source) => [...new Uint8Array(await (await fetch(source)).arrayBuffer())].join()"


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    """A running site with an admin and two annotators: its address and the admin's cookies."""
    client = websites.client(tmp_path_factory.mktemp("lead") / "answers.db", team=True)
    lead = websites.enrolled(client, "lead", "admin")
    for name in ("ann", "bob"):
        websites.enrolled(client, name, "annotator")
    with websites.running(client.app) as address:
        yield address, [{"name": each.name, "value": each.value, "url": address} for each in lead.cookies.jar]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", SIZES, ids=lambda size: str(size["width"]))
def test_forms_in_tables_stay_on_one_line_and_the_page_does_not_scroll_sideways(browser, team, viewport, scheme):
    address, cookies = team
    context = browser.new_context(viewport=viewport, base_url=address, color_scheme=scheme, reduced_motion="reduce")
    context.add_cookies(cookies)
    page = context.new_page()
    page.goto("/admin")
    page.wait_for_selector("text=No task yet. Make tasks, and invite people to judge them.")
    assert page.locator("form[action='/admin/role']").count() == 2
    assert page.eval_on_selector_all("form[action='/admin/role'], td .acts", ONE_LINE)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()


@pytest.mark.parametrize("viewport", SIZES, ids=lambda size: str(size["width"]))
def test_what_waits_comes_first_and_sections_without_content_are_not_there(browser, team, viewport):
    """A new team has two jobs: tasks to make, and people to invite."""
    address, cookies = team
    context = browser.new_context(viewport=viewport, base_url=address, reduced_motion="reduce")
    context.add_cookies(cookies)
    page = context.new_page()
    page.goto("/admin")
    picture(page, f"lead-new-{viewport['width']}")
    assert page.locator("h2:visible").all_inner_texts()[:2] == ["Make tasks", "Accounts"]
    for job in ("Make tasks", "Make an invitation"):
        button = page.get_by_role("button", name=job, exact=True).bounding_box()
        assert button["y"] + button["height"] <= 1.6 * viewport["height"], job
    assert page.evaluate("document.documentElement.scrollHeight") <= 2000
    assert page.locator("#agreement, #annotators, #review, #comments, #export").count() == 0
    page.goto("/admin#guideline")
    assert page.is_visible("#text"), "an address opens its section"
    context.close()


@pytest.fixture
def job_may_go(monkeypatch):
    """A job that makes tasks waits until it may go on."""
    from limner.web import admin

    may_go, pooled = threading.Event(), admin._pooled

    def slow(*args):
        assert may_go.wait(60)
        return pooled(*args)

    monkeypatch.setattr(admin, "_pooled", slow)
    yield may_go
    may_go.set()


def test_a_form_that_is_refused_while_a_job_runs_keeps_its_values_and_says_why(browser, tmp_path, job_may_go):
    app = websites.client(tmp_path / "answers.db").app
    with websites.running(app) as address, websites.watched(browser, base_url=address, viewport=SIZES[1]) as page:
        page.goto("/admin")
        page.fill("#pairs", "18")
        page.get_by_role("button", name="Make tasks").click()
        page.wait_for_selector("#state progress")
        page.click("summary:has-text('Make a preference study')")
        page.fill("#queries", "7")
        page.select_option("#kind", "rankings")
        page.wait_for_timeout(2_500)  # the page has looked again meanwhile
        assert page.input_value("#queries") == "7"
        page.get_by_role("button", name="Make a study").click()
        page.wait_for_selector("#study .error:has-text('another job is running: send this again when it is done')")
        picture(page, "lead-refused")
        assert page.locator("nav a").count() > 5 and page.input_value("#queries") == "7"
        assert page.input_value("#kind") == "rankings"
        assert page.evaluate("document.activeElement.className") == "error"
        job_may_go.set()
        page.wait_for_selector("#state:has-text('1 task created of 18 pairs')", timeout=60_000)
        assert page.input_value("#queries") == "7", "and the page did not lose it when the job was done"


def test_the_lead_reads_what_each_number_counts(browser, tmp_path):
    """Answers to controls are no part of what is asked for, and the first day forecasts nothing."""
    client = websites.client(tmp_path / "answers.db")
    images, texts = (list(side.ids) for side in (websites.world().test.images, websites.world().test.texts))
    with open_store(tmp_path / "answers.db") as store:
        add_collection(store, websites.world().test, spec="scenes")
        pairs = [TaskPair(images[n % len(images)], texts[n]) for n in range(3)]
        add_tasks(store, [Draft((*pairs, TaskPair(images[0], texts[9], "gold_neg")))], replication=2)
    websites.judged(client, "ann", [4, 4, 4, 4])
    with (
        websites.running(client.app) as address,
        websites.watched(browser, base_url=address, viewport=SIZES[1]) as page,
    ):
        page.goto("/admin")
        page.wait_for_selector("#annotators")
        picture(page, "lead-answers")
        assert "3 of 6 answers that are asked for, and 1 to controls" in page.inner_text(".cards")
        assert page.locator(".cards .card", has_text="Left").inner_text().split("\n")[-1] == "3 answers."
        assert page.locator("#annotators + .scroll td").first.inner_text() == "3"
        assert "3" in page.locator(".pace text:not(.when)").all_text_contents()


@pytest.mark.parametrize(
    ("button", "field"),
    [
        ("Make an invitation", "#link"),
        ("Make a new password for ann", "#made"),
        ("Make a link with which bob", "#link"),
    ],
)
def test_what_is_shown_only_once_is_copied_by_a_button(browser, team, button, field):
    address, cookies = team
    context = browser.new_context(viewport=SIZES[0], base_url=address, reduced_motion="reduce")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    context.add_cookies(cookies)
    page = context.new_page()
    page.goto("/admin")
    page.get_by_role("button", name=button).click()
    page.get_by_role("button", name="Copy").click()
    page.wait_for_selector("#copied:text-is('Copied.')")
    picture(page, "lead-once")
    assert page.evaluate("navigator.clipboard.readText()") == page.input_value(field) != ""
    context.close()


def picture(page, name):
    """Keeps a screenshot where one is wanted."""
    if folder := os.environ.get("LIMNER_PICTURES"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


@contextmanager
def command(folder, *words):
    """`limner ...` in a process of its own, until it answers; its address."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "limner", *words, "--port", str(port)],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(1200):
            assert process.poll() is None, process.stderr.read()
            try:
                urllib.request.urlopen(address, timeout=5).close()
                break
            except OSError:
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_a_store_made_in_the_browser_opens_again_by_the_documented_command(browser, tmp_path):
    """`limner serve`, tasks and an answer in the browser; then `limner annotate serve STORE` goes on from there.

    The collection is loaded with options, which the store has to remember: without them, other images would appear. And
    the first image is asked for while the collection is still being loaded.
    """
    context = browser.new_context(viewport=SIZES[1], reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(120_000)
    with command(tmp_path, "serve", "scenes", "-O", "images=60", "-O", "seed=3", "--model", "colours") as address:
        context.add_cookies([{"name": "limner_name", "value": "ada", "url": address}])
        page.add_init_script(websites.read_guideline("ada"))
        page.goto(f"{address}/admin")
        page.get_by_role("button", name="Make tasks").click()
        for _ in range(600):
            page.goto(f"{address}/judge")
            if page.locator("#place").count():
                break
            time.sleep(0.2)
        page.wait_for_selector("#judge[data-ready]:not([data-locked])")
        page.keyboard.press("4")
        page.keyboard.press("Enter")
        page.wait_for_selector("#place:text-matches('Pair 2 of')")
        page.wait_for_selector("#state:text-is('Saved.')")
        source = page.get_attribute("#picture", "src")
        before = page.evaluate(PIXELS, source)
    with open_store(tmp_path / "limner-answers.db") as store:
        assert [(each.annotator, each.grade) for each in answers(store)] == [("ada", 4)]
    with command(tmp_path, "annotate", "serve", "limner-answers.db") as address:
        context.add_cookies([{"name": "limner_name", "value": "ada", "url": address}])
        page.goto(f"{address}/judge")
        page.wait_for_selector("#judge[data-ready]:not([data-locked])")
        assert re.match("Pair 2 of", page.inner_text("#place"))
        assert page.evaluate(PIXELS, source) == before, "the same image under the same id"
        page.goto(f"{address}/admin")
        assert "1 of" in page.inner_text("main")
    context.close()
