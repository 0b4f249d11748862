"""The pages in a real browser: a person's whole path, keys, a server that fails, scripts off, phones, and axe."""

from __future__ import annotations

import itertools
import json
import time
from urllib.parse import parse_qs, urlsplit

import pytest

import websites
from limner.annotate.store.answers import answers, history
from websites import running, until

PHONE, DESK = {"width": 360, "height": 740}, {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A site with a store of many tasks, each for one person."""
    with websites.served(tmp_path_factory.mktemp("browser"), tasks=20) as app:
        yield app


@pytest.fixture
def opened(browser, address):
    """Opens pages; nothing may be asked of elsewhere, and nothing may complain."""
    contexts, requested, complaints = [], [], []

    def open_page(path, *, viewport=DESK, scheme="light", script=True, name="local"):
        context = browser.new_context(
            viewport=viewport, color_scheme=scheme, java_script_enabled=script, reduced_motion="reduce",
            base_url=address.state.address,
        )  # fmt: skip
        contexts.append(context)
        context.add_init_script(websites.read_guideline(name))
        context.add_cookies([{"name": "limner_name", "value": name, "url": address.state.address}])
        page = context.new_page()
        page.on("request", lambda request: requested.append(request.url))
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        arrive(page, path)
        if script:
            drawn(page)
        return page

    open_page.complaints = complaints
    yield open_page
    for context in contexts:
        context.close()
    assert [url for url in requested if not url.startswith((address.state.address, "data:", "blob:"))] == []
    assert complaints == []


def arrive(page, path):
    page.goto(path)
    page.wait_for_selector('h1:not(:has-text("One moment"))', state="attached", timeout=60_000)
    page.wait_for_load_state("networkidle")


def drawn(page):
    """Waits until the browser has drawn the page: before that it may drop keys."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


CHECKED = "[...document.querySelectorAll('input[name=grade]')].find((each) => each.checked)?.value ?? null"


def choose(page, grade):
    """Chooses by key, again where a slow browser dropped it."""
    page.wait_for_selector("#judge[data-ready]", state="attached")
    for _ in range(40):
        page.keyboard.press(str(grade))
        if page.evaluate(CHECKED) == str(grade):
            return
        page.wait_for_timeout(250)
    raise AssertionError(f"the key {grade} chose nothing in ten seconds")


def answer(page, grade):
    choose(page, grade)
    page.keyboard.press("Enter")


def items(page):
    """The task as the page holds it."""
    return json.loads(page.get_attribute("#judge", "data-task"))["items"]


def saved(page):
    page.wait_for_selector("#state:text-is('Saved.'), #finished:not([hidden])", timeout=10_000)


# --- a person's path --------------------------------------------------------------------------------------------


def truth(item, world):
    """4 where the complete judgements call the pair right, 1 elsewhere."""
    image = parse_qs(urlsplit(item["picture"]).query)["id"][0]
    texts = [key for key, text in zip(world.texts.ids, world.texts.values, strict=True) if text == item["text"]]
    return 4 if any((world.extra["complete"].grade(image, text) or 0) > 0 for text in texts) else 1


def judge_all(page, world, *, slip=None):
    """Answers a whole task by keys; with a slip, takes one answer back on the way."""
    task = items(page)
    for number, item in enumerate(task):
        assert page.inner_text("#words") == item["text"]
        answer(page, truth(item, world))
        if number == slip:
            page.wait_for_selector("#state:text-is('Saved.')")
            page.keyboard.press("u")
            page.wait_for_selector("#state:has-text('Undone')")
            assert page.inner_text("#words") == item["text"]
            answer(page, truth(item, world))
    page.wait_for_selector("#finished:not([hidden])")
    assert page.evaluate("document.activeElement.id") == "finished-title"
    return task


def test_a_persons_path_from_search_to_a_metric_that_moved(browser, tmp_path):
    """Search, open a failure, label a task by keys, undo, finish, agreement, export, measure again."""
    world = websites.world(100)  # large enough that the labels miss a pair which the system ranks high
    app = websites.client(tmp_path / "answers.db", images=100).app
    with running(app) as address:
        first, second = (browser.new_context(base_url=address, viewport=DESK) for _ in range(2))
        page = first.new_page()
        arrive(page, "/")
        page.fill("#name", "first")
        page.click("text=Use this name")
        page.click("nav >> text=Search")
        page.fill("#q", "a red balloon")
        page.click("summary:has-text('Options')")
        page.select_option("#fix", "csls")
        page.click("#find button")
        page.wait_for_selector(".found img", timeout=60_000)
        assert page.locator(".column").count() == 2
        assert parse_qs(urlsplit(page.url).query)["fix"] == ["csls"]

        page.click("nav >> text=Failures")
        page.wait_for_selector("[data-card]", timeout=60_000)
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("k")
        until(page, "document.activeElement === document.querySelector('[data-card]')", None)
        page.keyboard.press("Enter")
        page.wait_for_selector(".drawn rect")
        assert page.locator(".drawn").count() == 2
        assert "only the truth shows" in page.inner_text(".told")
        assert "1 of" in page.inner_text("main > p >> nth=0")
        page.keyboard.press("j")
        page.wait_for_selector("main > p:has-text('2 of')")

        arrive(page, "/admin")
        page.fill("#depth", "1")
        page.fill("#pairs", "54")
        page.click("button:has-text('Make tasks')")
        page.wait_for_selector("text=tasks created", timeout=60_000)
        for context, name in ((first, "first"), (second, "second")):
            context.add_cookies([{"name": "limner_name", "value": name, "url": address}])
            context.add_init_script(websites.read_guideline(name))
            own_page = context.new_page()
            arrive(own_page, "/judge")
            for number in range(3):
                judge_all(own_page, world, slip=2 if number == 0 else None)
                own_page.keyboard.press("Enter")
                own_page.wait_for_selector("#judge[data-ready]:visible, h1:has-text('Nothing left')")
            assert "Nothing left to judge" in own_page.inner_text("h1")

        arrive(page, "/admin")
        page.wait_for_selector("text=alpha 1.00", timeout=60_000)  # worked out beside the page, which asks again
        assert "108 of 108" in page.inner_text("main")
        with page.expect_download() as download:
            page.click("#export ~ p >> text=qrels")
        rows = download.value.path().read_text().splitlines()
        assert len(rows) == 54
        page.click("text=What the answers do to the measures")
        page.wait_for_selector("[data-change]", timeout=60_000)
        changes = [float(cell.get_attribute("data-change")) for cell in page.locator("[data-change]").all()]
        assert any(abs(change) >= 0.1 for change in changes)
        store = app.state.site.store
        assert len(history(store)) == len(answers(store)) + 4  # two slips, each withdrawn and given again
        for context in (first, second):
            context.close()


# --- saving -----------------------------------------------------------------------------------------------------


def test_an_answer_is_kept_while_the_server_fails_and_stored_once(opened, address):
    page = opened("/judge", name="patient")
    first = items(page)[0]["id"]
    tries = []

    def unlucky(route):
        tries.append(json.loads(route.request.post_data)["key"])
        if len(tries) == 1:
            route.abort()
        elif len(tries) == 2:
            route.fetch()  # stored, but the reply is lost
            route.abort()
        else:
            route.continue_()

    page.route("**/api/answers", unlucky)
    answer(page, 4)
    page.wait_for_selector("#banner:has-text('NOT SAVED')")
    assert "Saved" not in page.inner_text("#state")
    unsent = "localStorage.getItem(`limner-outbox:${document.body.dataset.account}`)"
    outbox = json.loads(page.evaluate(unsent))
    assert [each["body"]["item"] for each in outbox] == [first]
    page.wait_for_selector("#state:text-is('Saved.')", timeout=15_000)
    assert page.is_hidden("#banner")
    assert len(tries) == 3 and len(set(tries)) == 1
    assert page.evaluate(unsent) is None
    store = address.state.site.store
    assert [row["revision"] for row in history(store, item_id=first)] == [1]
    opened.complaints[:] = [each for each in opened.complaints if "Failed to load resource" not in each]


def test_answers_left_in_the_browser_are_sent_on_the_next_visit(opened, address):
    page = opened("/judge", name="returning")
    first = items(page)[0]["id"]
    page.route("**/api/answers", lambda route: route.abort())
    answer(page, 2)
    page.wait_for_selector("#banner:has-text('NOT SAVED')")
    page.unroute("**/api/answers")
    page.on("dialog", lambda dialog: dialog.accept())
    page.reload()
    page.wait_for_selector("#state:text-is('Saved.')", timeout=15_000)
    assert [row["grade"] for row in history(address.state.site.store, item_id=first)] == [2]
    opened.complaints[:] = [each for each in opened.complaints if "Failed to load resource" not in each]


def test_a_refused_answer_is_not_called_saved(opened):
    page = opened("/judge", name="refused")
    page.route("**/api/answers", lambda route: route.fulfill(status=409, json={"error": "somebody else has it now"}))
    answer(page, 1)
    page.wait_for_selector("#banner:has-text('somebody else has it now')")
    assert page.inner_text("#state") == "Not saved."
    assert page.get_attribute("#bar", "value") == "0"
    opened.complaints[:] = [each for each in opened.complaints if "Failed to load resource" not in each]


def test_the_next_pictures_are_fetched_before_they_are_needed(opened):
    page = opened("/judge", name="quick")
    pictures = [item["picture"] for item in items(page)[1:3]]
    fetched = page.evaluate("performance.getEntriesByType('resource').map((each) => each.name)")
    assert all(any(url.endswith(picture) for url in fetched) for picture in pictures)


# --- keys -------------------------------------------------------------------------------------------------------

PRESS = "(more) => document.body.dispatchEvent(new KeyboardEvent('keydown', {key: '4', bubbles: true, ...more}))"


def test_keys_choose_go_back_skip_zoom_and_help(opened):
    page = opened("/judge", name="keys")
    task = items(page)
    choose(page, 3)
    page.keyboard.press("r")
    assert page.evaluate("document.activeElement.name") == "reason"
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    saved(page)
    assert page.inner_text("#place") == "Pair 2 of 4"
    assert page.evaluate("document.activeElement.id") == "words"
    page.keyboard.press("s")
    assert page.inner_text("#words") == task[2]["text"]
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Backspace")
    assert page.inner_text("#place") == "Pair 1 of 4"
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#place") == "Pair 2 of 4"
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("#judge:not([data-locked])")
    assert page.evaluate(CHECKED) == "3"
    assert page.is_checked("input[value=not-in-image]")
    page.keyboard.press("z")
    assert page.get_attribute("#zoom", "aria-pressed") == "true"
    full = task[0]["picture"].replace("view", "full")
    until(page, "(url) => document.querySelector('#picture').getAttribute('src') === url", full)
    page.keyboard.press("?")
    assert page.is_visible("#help")


def test_keys_rest_with_modifiers_on_repeat_and_while_composing(opened):
    page = opened("/judge", name="resting")
    page.wait_for_selector("#judge:not([data-locked])")
    for modifier in ({"repeat": True}, {"isComposing": True}, {"ctrlKey": True}, {"altKey": True}, {"metaKey": True}):
        page.evaluate(PRESS, modifier)
        assert page.evaluate(CHECKED) is None, modifier
    page.evaluate("document.querySelector('#answer').append(document.createElement('textarea'))")
    page.focus("textarea")
    page.keyboard.type("4")
    assert page.evaluate(CHECKED) is None
    page.evaluate(PRESS, {})
    assert page.evaluate(CHECKED) == "4"


def test_keys_can_be_changed_and_switched_off(opened):
    page = opened("/judge", name="own keys")
    page.keyboard.press("?")
    page.focus("#key-grade4")
    page.keyboard.press("x")
    page.click("#help button:has-text('Close')")
    page.keyboard.press("4")
    assert page.evaluate(CHECKED) is None
    page.keyboard.press("x")
    assert page.evaluate(CHECKED) == "4"
    page.reload()
    drawn(page)
    page.wait_for_selector("#judge:not([data-locked])")
    page.keyboard.press("x")
    assert page.evaluate(CHECKED) == "4"
    page.keyboard.press("?")
    page.uncheck("#use-keys")
    page.click("#help button:has-text('Close')")
    page.keyboard.press("1")
    assert page.evaluate(CHECKED) == "4"
    assert page.locator("kbd[data-key]:visible").count() == 0


# --- everywhere -------------------------------------------------------------------------------------------------


def test_judging_works_without_scripts(opened, address):
    page = opened("/judge", script=False, name="plain")
    page.check("input[name=grade][value='4']")
    page.click("button:has-text('Save')")
    assert page.inner_text("#place") == "Pair 2 of 4"
    assert [a.grade for a in answers(address.state.site.store) if a.annotator == "plain"] == [4]
    page.click("button:has-text('Back')")
    page.click("button:has-text('Undo')")
    assert [a for a in answers(address.state.site.store) if a.annotator == "plain"] == []


PAGES = [
    "/", "/search", "/search?q=balloon&fix=csls&k=6", "/compare", "/failures", "/judge", "/study", "/admin", "/nosuch",
    f"/item?id={websites.world().test.images.ids[0]}", "/practice?grade=2", "/admin/disagreements",
    "/estimate", "/studies",
]  # fmt: skip


def violations(page, **options):
    """What axe finds on a page; nothing is found by looking at nothing."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    outcome = axe.Axe().run(page, options=options or None).response
    assert outcome["passes"]
    return [(each["id"], [node["html"] for node in each["nodes"]]) for each in outcome["violations"]]


@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing_and_nothing_scrolls_sideways(opened, path):
    page = opened(path, viewport=PHONE, name="axe")
    for viewport, scheme in itertools.product(websites.SIZES, ("light", "dark")):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size(viewport)
        only = {"runOnly": ["color-contrast"]} if scheme == "dark" else {}  # all else is the same in the dark
        assert violations(page, **only) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    if path == "/judge":
        page.keyboard.press("?")
        assert violations(page) == []
    opened.complaints[:] = [each for each in opened.complaints if "404" not in each]


def test_axe_finds_nothing_where_a_team_logs_in(browser, tmp_path):
    """Invitation, account, the admin's page with accounts, and the login of somebody who was logged out."""
    from limner.annotate.store.people import invite_first_admin

    app = websites.client(tmp_path / "answers.db", team=True).app
    token = invite_first_admin(app.state.site.store)
    with running(app) as url:
        page = browser.new_context(base_url=url, viewport=PHONE, reduced_motion="reduce").new_page()
        page.goto(f"/invite/{token}")
        assert violations(page) == []
        for name, value in (("name", "admin"), ("password", websites.PASSWORD), ("again", websites.PASSWORD)):
            page.fill(f"#{name}", value)
        page.click("text=Make my account")
        page.goto("/admin")
        assert violations(page) == []
        page.click("text=Make an invitation")
        assert "/invite/" in page.input_value("#link")
        assert violations(page) == []
        websites.enrolled(websites.client(tmp_path / "answers.db", team=True), "ann", "annotator")
        page.goto("/admin")
        assert violations(page) == [], "with an account and an invitation in the tables"
        page.select_option("select[id^='role-']", "reviewer")
        page.get_by_role("button", name="Change the role of ann").click()
        assert page.input_value("select[id^='role-']") == "reviewer"
        page.get_by_role("button", name="Revoke invitation").click()
        assert page.get_by_role("button", name="Revoke invitation").count() == 0
        page.get_by_role("button", name="Make a new password for ann").click()
        assert len(page.input_value("#made")) == 24
        assert violations(page) == []
        page.goto("/")
        page.click("main >> text=Your account")
        assert page.inner_text("h1") == "Your account"
        assert violations(page) == []
        for name, value in (("old", websites.PASSWORD), ("password", "three odd words"), ("again", "three odd words")):
            page.fill(f"#{name}", value)
        page.click("text=Change it")
        assert "Your password has been changed" in page.inner_text("main")
        assert violations(page) == []
        page.set_viewport_size(DESK)
        page.click("text=Log out")
        page.goto("/judge")
        assert page.inner_text("h1") == "Log in"
        assert violations(page) == []
        page.context.close()


FILE = """(data) => {
  const carried = new DataTransfer();
  carried.items.add(new File([Uint8Array.from(data)], "x.png", {type: "image/png"}));
  return carried;
}"""


@pytest.mark.parametrize("dropped", [True, False], ids=["dropped", "chosen"])
def test_a_picture_finds_words(opened, dropped):
    page = opened("/search")
    if dropped:
        carried = page.evaluate_handle(FILE, list(websites.picture()))
        page.dispatch_event("form[data-drop]", "drop", {"dataTransfer": carried})
    else:
        page.set_input_files("#file", files=[{"name": "x.png", "mimeType": "image/png", "buffer": websites.picture()}])
    page.wait_for_selector(".found.texts li", timeout=30_000)
    assert "upload=" in page.url


def test_votes_by_key_are_stored_once(opened, address):
    from limner.annotate.preference import Rivals, add_comparisons, votes

    test_split = websites.world().test
    images = list(test_split.images.ids)
    rivals = [Rivals(text, "a", "b", tuple(images[:5]), tuple(images[5:10])) for text in list(test_split.texts.ids)[:2]]
    add_comparisons(address.state.site.store, rivals, study="preference")
    page = opened("/study", name="voter")
    assert page.locator(".ranking img").count() == 10
    for key in ("1", "2"):
        page.keyboard.press("Control+3")
        with page.expect_navigation():
            page.keyboard.press(key)
        drawn(page)
    assert "Nothing left to answer" in page.inner_text("h1")
    assert sorted(vote.choice for vote in votes(address.state.site.store)) == ["left", "tie"]


def test_a_person_who_is_logged_out_loses_no_answer(opened):
    page = opened("/judge", name="logged out")
    tries = []

    def once(route):
        tries.append(json.loads(route.request.post_data)["key"])
        if len(tries) == 1:
            route.fulfill(status=401, json={"error": "log in first"})
        else:
            route.continue_()

    page.route("**/api/answers", once)
    answer(page, 4)
    page.wait_for_selector("#banner:has-text('log in again')")
    page.wait_for_selector("#state:text-is('Saved.')", timeout=15_000)
    assert len(set(tries)) == 1
    opened.complaints[:] = [each for each in opened.complaints if "Failed to load resource" not in each]


def test_a_script_that_got_into_the_page_does_not_run(opened):
    page = opened("/judge", name="script")
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'window.hacked = 1'}))")
    with page.expect_console_message(lambda message: "404" in message.text):  # the image that is not there
        page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hacked = 1\">')")
    time.sleep(0.2)
    assert page.evaluate("window.hacked") is None
    opened.complaints.clear()
