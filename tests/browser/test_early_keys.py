"""Keys pressed on a page before its scripts have come: heard once, in order, when they have."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from starlette.testclient import TestClient

import websites
from limner.annotate.preference import Rivals, add_comparisons, votes

SCRIPTS = "**/static/{page,browse,judge,form,late}.js"
ALL_DONE = "new Promise((done) => setTimeout(() => requestAnimationFrame(() => setTimeout(done, 100)), 100))"
HIDDEN = """(hidden) => {
  Object.defineProperty(document, "visibilityState", {value: hidden ? "hidden" : "visible", configurable: true});
  document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A site whose failures are already explained, with tasks to judge."""
    with websites.served(tmp_path_factory.mktemp("early"), tasks=8) as app:
        websites.patient(TestClient(app, base_url="http://localhost", follow_redirects=False), "/failures")
        yield app


@pytest.fixture
def page(browser, site):
    address = site.state.address
    with websites.watched(browser, base_url=address, viewport=websites.SIZES[2]) as opened:
        opened.context.add_cookies([{"name": "limner_name", "value": "early", "url": address}])
        opened.add_init_script(websites.read_guideline("early"))
        yield opened


@contextmanager
def before_its_scripts(page, path: str, selector: str, *, leads: str = ""):
    """A page that is shown while its scripts are still on their way; they come at the end of the block.

    `leads`: what is to be seen on the page that the keys lead to; otherwise they stay on this one.
    """
    waiting, come = [], []
    page.route(SCRIPTS, lambda route: route.continue_() if come else waiting.append(route))
    page.goto(path, wait_until="commit")
    page.wait_for_selector(selector)
    yield
    come.append(True)
    for route in waiting:
        route.continue_()
    if leads:
        page.wait_for_selector(leads)
    settle(page)


def settle(page):
    """Waits until the page's scripts have run, and the keys held back until then were heard."""
    page.wait_for_load_state("load")
    page.evaluate(ALL_DONE)


def focused(page) -> int:
    """The place of the card that has the focus."""
    return page.evaluate("[...document.querySelectorAll('[data-card]')].indexOf(document.activeElement)")


def test_a_key_on_a_failures_page_leads_to_the_next_once(page):
    page.goto("/failures")
    first = page.get_attribute("[data-card]", "href")
    with before_its_scripts(page, first, ".drawn rect", leads="main > p:has-text('2 of')"):
        page.keyboard.press("j")
        page.wait_for_timeout(200)
        assert "1 of" in page.inner_text("main > p >> nth=0")
    assert "2 of" in page.inner_text("main > p >> nth=0")
    page.keyboard.press("j")  # from here on the page itself hears them
    page.wait_for_selector("main > p:has-text('3 of')")


@pytest.mark.parametrize(
    ("keys", "place"), [("j", 0), ("jj", 1), ("jjjk", 1), ("jjkk", 0), ("J", 0), ("x", -1)], ids=str
)
def test_keys_are_heard_in_their_order(page, keys, place):
    with before_its_scripts(page, "/failures", "[data-card]"):
        for key in keys:
            page.keyboard.press(key)
        assert focused(page) == -1
    assert focused(page) == place


def test_a_key_between_two_scripts_is_heard_once_and_after_those_before_it(page):
    """The script that hears keys has run, another of the same page has not come yet."""
    late = '<script type="module" src="/static/late.js"></script></head>'

    def longer(route):
        reply = route.fetch()
        route.fulfill(response=reply, body=reply.text().replace("</head>", late))

    page.route("**/failures", longer)
    waiting = []
    page.route("**/static/late.js", lambda route: waiting.append(route))
    page.goto("/failures", wait_until="commit")
    page.wait_for_selector("[data-card]")
    page.wait_for_timeout(500)
    while not waiting:
        page.wait_for_timeout(50)
    page.keyboard.press("j")
    page.keyboard.press("j")
    waiting[0].fulfill(content_type="text/javascript", body="")
    settle(page)
    assert focused(page) == 1


def test_what_is_typed_is_no_shortcut(page):
    with before_its_scripts(page, "/failures", "[data-card]"):
        page.focus("#q")
        page.keyboard.type("jjk")
        page.evaluate("document.activeElement.blur()")
    assert page.input_value("#q") == "jjk" and focused(page) == -1


def test_keys_from_before_a_field_was_entered_do_not_disturb_what_is_typed(page):
    with before_its_scripts(page, "/failures", "[data-card]"):
        page.keyboard.press("j")
        page.focus("#q")
        page.keyboard.type("dog")
    assert page.input_value("#q") == "dog" and page.evaluate("document.activeElement.id") == "q"


@pytest.mark.parametrize("modifier", ["Control", "Alt", "Meta"])
def test_keys_with_a_modifier_are_no_shortcuts(page, modifier):
    with before_its_scripts(page, "/failures", "[data-card]"):
        page.keyboard.press(f"{modifier}+j")
    assert focused(page) == -1


def test_a_key_held_down_counts_once(page):
    with before_its_scripts(page, "/failures", "[data-card]"):
        for _ in range(5):
            page.keyboard.down("j")
        page.keyboard.up("j")
    assert focused(page) == 0


def test_keys_are_forgotten_when_the_page_is_hidden(page):
    with before_its_scripts(page, "/failures", "[data-card]"):
        page.keyboard.press("j")
        page.evaluate(HIDDEN, True)
        page.evaluate(HIDDEN, False)
    assert focused(page) == -1


def test_keys_are_not_taken_to_the_next_page(page):
    with before_its_scripts(page, "/failures", "[data-card]"):
        page.keyboard.press("j")
        page.goto("/failures?q=a", wait_until="commit")
        page.wait_for_selector("[data-card]")
    assert focused(page) == -1


def test_keys_of_long_ago_are_forgotten(page):
    with before_its_scripts(page, "/failures", "[data-card]"):
        page.keyboard.press("j")
        page.evaluate("performance.now = () => Performance.prototype.now.call(performance) + 40_000")
    assert focused(page) == -1


def test_keys_while_judging(page):
    with before_its_scripts(page, "/judge", "#words"):
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("?")
    assert page.inner_text("#place") == "Pair 2 of 4" and page.is_visible("#help")


def test_a_vote_by_a_key_pressed_twice_is_one_vote(page, site):
    test_split, store = websites.world().test, site.state.site.store
    images = list(test_split.images.ids)
    rivals = [Rivals(text, "a", "b", tuple(images[:5]), tuple(images[5:10])) for text in list(test_split.texts.ids)[:2]]
    add_comparisons(store, rivals, study="preference")
    with before_its_scripts(page, "/study", "#form button >> nth=2", leads="p:has-text('1 of 2 answers')"):
        page.keyboard.press("1")
        page.keyboard.press("1")
        assert votes(store) == []
    assert [vote.choice for vote in votes(store)] == ["left"]
