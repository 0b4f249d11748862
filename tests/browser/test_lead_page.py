"""The lead's page in a real browser: forms in tables at every size, and a store that outlives the browser."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import closing, contextmanager

import pytest

import websites
from limner.annotate.store import open_store
from limner.annotate.store.answers import answers
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
    asked = websites.client(tmp_path_factory.mktemp("lead") / "answers.db", team=True)
    lead = websites.enrolled(asked, "lead", "admin")
    for name in ("ann", "bob"):
        websites.enrolled(asked, name, "annotator")
    with websites.running(asked.app) as where:
        yield where, [{"name": each.name, "value": each.value, "url": where} for each in lead.cookies.jar]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", SIZES, ids=lambda size: str(size["width"]))
def test_forms_in_tables_stay_on_one_line_and_the_page_does_not_scroll_sideways(browser, team, viewport, scheme):
    where, cookies = team
    context = browser.new_context(viewport=viewport, base_url=where, color_scheme=scheme, reduced_motion="reduce")
    context.add_cookies(cookies)
    page = context.new_page()
    page.goto("/admin")
    page.wait_for_selector("text=Nobody has answered yet.")
    assert page.locator("form[action='/admin/role']").count() == 2
    assert page.eval_on_selector_all("form[action='/admin/role'], td .acts", ONE_LINE)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    context.close()


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
    with command(tmp_path, "serve", "scenes", "-O", "images=60", "-O", "seed=3", "--system", "colours") as address:
        context.add_cookies([{"name": "limner_name", "value": "ada", "url": address}])
        page.add_init_script(websites.read_guideline("ada"))
        page.goto(f"{address}/admin")
        page.click("button:text-is('Make tasks')")
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
        seen = page.get_attribute("#picture", "src")
        before = page.evaluate(PIXELS, seen)
    with open_store(tmp_path / "limner-answers.db") as store:
        assert [(each.annotator, each.grade) for each in answers(store)] == [("ada", 4)]
    with command(tmp_path, "annotate", "serve", "limner-answers.db") as address:
        context.add_cookies([{"name": "limner_name", "value": "ada", "url": address}])
        page.goto(f"{address}/judge")
        page.wait_for_selector("#judge[data-ready]:not([data-locked])")
        assert re.match("Pair 2 of", page.inner_text("#place"))
        assert page.evaluate(PIXELS, seen) == before, "the same image under the same id"
        page.goto(f"{address}/admin")
        assert "1 of" in page.inner_text("main")
    context.close()
