"""Two people at one browser: what one has answered is kept for that one, and never sent or stored as another's."""

from __future__ import annotations

import pytest

import websites
from limner.annotate.store.answers import history
from websites import PASSWORD, SIZES

READY = "#judge[data-ready]:not([data-locked])"
UNSENT = "(account) => JSON.parse(localStorage.getItem(`limner-outbox:${account}`) ?? '[]')"
SHOWN = """() => [...document.querySelectorAll("main > :not(.banner)")]
  .filter((each) => each.checkVisibility()).map((each) => each.id)"""


@pytest.fixture
def site(tmp_path):
    """A running team's site with tasks of four pairs, each for two people; ann and bob have accounts."""
    client = websites.client(websites.filled(tmp_path / "answers.db", tasks=2, size=4), team=True)
    for name in ("ann", "bob"):
        websites.enrolled(client, name, "annotator")
    with websites.running(client.app) as address:
        client.app.state.address = address
        yield client.app


@pytest.fixture
def window(browser, site):
    """A browser with any number of tabs; errors of scripts fail the test."""
    context = browser.new_context(base_url=site.state.address, viewport=SIZES[1], reduced_motion="reduce")
    errors = []
    context.on("page", lambda page: page.on("pageerror", lambda error: errors.append(str(error))))
    reading = ";".join(websites.read_guideline(name) for name in ("ann", "bob"))
    context.add_init_script(f"if (location.protocol === 'http:') {{ {reading} }}")
    yield context
    context.close()
    assert errors == []


def logged_in(page, name, *, next_path="/judge"):
    page.goto(f"/login?next={next_path}")
    page.fill("#name", name)
    page.fill("#password", PASSWORD)
    page.click("button.main")
    if next_path == "/judge":
        page.wait_for_selector(READY)


def graded(page, key, *, last=False):
    number = page.inner_text("#place")
    page.keyboard.press(key)
    page.keyboard.press("Enter")
    if not last:
        page.wait_for_selector(f"#place:not(:text-is('{number}'))")
        page.wait_for_selector(READY)


def account(page):
    return page.get_attribute("body", "data-account")


def stored(site):
    rows = history(site.state.site.store)
    return {name: [row["grade"] for row in rows if row["annotator"] == name] for name in ("ann", "bob")}


def session_ends(window):
    """The session ends on the server while pages of it are open, as it does after seven days."""
    window.clear_cookies(name="limner_session")


def test_answers_after_a_session_has_ended_are_kept_for_their_account(window, site):
    """The case of the audit: ann answers on when she is logged out, bob logs in, ann comes back."""
    anns = window.new_page()
    logged_in(anns, "ann")
    session_ends(window)
    graded(anns, "4")
    graded(anns, "4")
    graded(anns, "1", last=True)  # the image of the fourth pair cannot be loaded any more
    anns.wait_for_selector("#banner:has-text('3 answers are kept in this browser. You are logged out')")

    bobs, sent = window.new_page(), []
    bobs.on("request", lambda request: sent.append(request.url) if "/api/answers" in request.url else None)
    logged_in(bobs, "bob")
    anns.wait_for_selector("#banner:has-text('for the account of this page alone')")
    assert anns.is_hidden("#judge") and anns.is_visible("#banner"), "bob does not see what ann judges"
    for key in ("1", "Enter", "u", "ArrowRight"):
        anns.keyboard.press(key)
    assert len(anns.evaluate(UNSENT, account(anns))) == 3, "bob answers nothing in ann's page"
    assert bobs.evaluate(UNSENT, account(bobs)) == [] and bobs.is_hidden("#banner")
    graded(bobs, "1")
    bobs.wait_for_selector("#state:text-is('Saved.')")
    assert len(sent) == 1
    assert stored(site) == {"ann": [], "bob": [1]}

    bobs.click("text=Log out")
    bobs.wait_for_selector("h1:text-is('Log in')")
    logged_in(bobs, "ann", next_path="/")
    anns.wait_for_selector("#judge:visible")
    websites.until(anns, f"(account) => !({UNSENT})(account).length", account(anns))
    anns.wait_for_selector("#banner", state="hidden")
    assert stored(site) == {"ann": [4, 4, 1], "bob": [1]}


def test_answers_wait_in_the_browser_when_the_page_is_closed_and_are_sent_from_any_page(window, site):
    anns = window.new_page()
    logged_in(anns, "ann")
    session_ends(window)
    graded(anns, "3")
    anns.wait_for_selector("#banner:has-text('1 answer is kept')")
    owner = account(anns)
    anns.close(run_before_unload=False)

    page = window.new_page()
    logged_in(page, "bob")
    graded(page, "1")
    page.wait_for_selector("#state:text-is('Saved.')")
    assert len(page.evaluate(UNSENT, owner)) == 1
    page.click("text=Log out")
    page.wait_for_selector("h1:text-is('Log in')")
    assert len(page.evaluate(UNSENT, owner)) == 1
    logged_in(page, "ann", next_path="/")
    websites.until(page, f"(account) => !({UNSENT})(account).length", owner)
    assert stored(site) == {"ann": [3], "bob": [1]}


def test_a_page_is_hidden_as_soon_as_another_account_is_logged_in(window, site):
    """Before anything is answered in it: whoever is there now might take it for their own."""
    anns, bobs = window.new_page(), window.new_page()
    logged_in(anns, "ann")
    logged_in(bobs, "bob")
    anns.wait_for_selector("#banner:has-text('this page is hidden')")
    anns.keyboard.press("4")
    anns.keyboard.press("Enter")
    assert anns.is_hidden("#judge") and anns.evaluate(UNSENT, account(anns)) == []
    logged_in(bobs, "ann")
    anns.wait_for_selector("#judge:visible")
    assert anns.is_hidden("#banner")
    assert stored(site) == {"ann": [], "bob": []}


def test_two_pages_of_one_account_lose_no_answer_of_each_other(window, site):
    """Both keep what they could not send; one is closed before the server is back."""
    first, second = window.new_page(), window.new_page()
    logged_in(first, "ann")
    second.goto("/judge?at=1")
    second.wait_for_selector(READY)
    for page in (first, second):
        page.route("**/api/answers", lambda route: route.abort())
    graded(first, "4")
    first.wait_for_selector("#banner:visible")
    graded(second, "2")
    second.wait_for_selector("#banner:visible")
    second.close(run_before_unload=False)
    first.unroute("**/api/answers")
    websites.until(first, f"(account) => !({UNSENT})(account).length", account(first))
    assert stored(site)["ann"] == [4, 2]


def test_without_scripts_a_form_of_another_account_is_refused_in_words(browser, site):
    context = browser.new_context(base_url=site.state.address, java_script_enabled=False)
    anns, bobs = context.new_page(), context.new_page()
    for page, name in ((anns, "ann"), (bobs, "bob")):
        page.goto("/login?next=/judge")
        page.fill("#name", name)
        page.fill("#password", PASSWORD)
        page.click("button.main")
    anns.check("input[name=grade][value='4']")
    anns.click("button[value=save]")
    assert "opened for another account, and bob is logged in now: nothing was saved" in anns.inner_text("main")
    bobs.check("input[name=grade][value='1']")
    bobs.click("button[value=save]")
    bobs.wait_for_selector("#place:text-is('Pair 2 of 4')")
    context.close()
    assert stored(site) == {"ann": [], "bob": [1]}


@pytest.mark.parametrize("viewport", SIZES, ids=lambda size: str(size["width"]))
def test_the_words_about_kept_answers_fit_the_screen(window, site, viewport):
    anns, bobs = window.new_page(), window.new_page()
    anns.set_viewport_size(viewport)
    logged_in(anns, "ann")
    session_ends(window)
    graded(anns, "4")
    anns.wait_for_selector("#banner:has-text('You are logged out')")
    assert anns.evaluate("document.documentElement.scrollWidth <= innerWidth")
    logged_in(bobs, "bob")
    anns.wait_for_selector("#banner:has-text('Another account is logged in now')")
    box = anns.locator("#banner").bounding_box()
    assert box["y"] >= 0 and box["y"] + box["height"] <= viewport["height"]
    assert anns.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert anns.evaluate(SHOWN) == []
