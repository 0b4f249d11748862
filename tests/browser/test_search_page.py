"""Search in a real browser: photographs that fill their cells, high on the screen; details; waiting in place."""

from __future__ import annotations

import threading

import pytest

import websites
from websites import SIZES, running, warm, watched


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A site whose systems are ready."""
    with warm(tmp_path_factory.mktemp("searched"), "/search?q=dog&fix=csls") as address:
        yield address


@pytest.fixture
def page(browser, address):
    with watched(browser, base_url=address, viewport=SIZES[0]) as opened:
        yield opened


CELLS = """() => [...document.querySelectorAll('.found.images li')].map((cell) => {
  const image = cell.querySelector('img'), box = image.getBoundingClientRect(), own = cell.getBoundingClientRect();
  return [box.width / own.width, box.height / box.width, getComputedStyle(image).objectFit];
})"""


STAYS = """() => {
  addEventListener('submit', (event) => event.preventDefault());
  addEventListener('click', (event) => { if (event.target.closest('a')) event.preventDefault(); });
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_images_fill_their_cells_and_begin_in_the_first_third_of_the_screen(page, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page.emulate_media(color_scheme=scheme)
    for size in SIZES:
        page.set_viewport_size(size)
        page.goto("/search?q=a red balloon and a house")
        page.wait_for_selector(".found.images img")
        assert page.evaluate("document.querySelector('.found').getBoundingClientRect().top") <= size["height"] / 3
        for share, ratio, fit in page.evaluate(CELLS):
            assert share > 0.97 and abs(ratio - 0.75) < 0.02 and fit == "cover"
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert [each["id"] for each in axe.Axe().run(page).response["violations"]] == []


def test_a_click_opens_details_and_from_there_what_is_like_it(page):
    page.set_viewport_size(SIZES[2])
    page.goto("/search?q=a red balloon")
    page.click(".found.images li:nth-child(2) > a")
    page.wait_for_url("**/item?*")
    assert page.locator(".large img").bounding_box()["width"] > SIZES[2]["width"] / 3
    assert "Rank for “a red balloon”: colours 2" in page.inner_text("main")
    page.click("text=Images like this")
    page.wait_for_selector(".queried img")
    assert page.locator(".found.images li").count() == 11 or page.locator(".found.images li").count() == 12
    page.click(".found.images li > a >> nth=0")
    page.click("text=Captions for this image")
    page.wait_for_selector(".found.texts li")
    page.click(".found.texts li > a >> nth=0")
    page.wait_for_selector("text=Captions like this")


def test_back_and_forward_show_the_query_of_the_results(page):
    """The browser restored what was typed last on a page, so that the query and the results below did not match."""
    page.goto("/search?q=a red balloon")
    page.wait_for_selector(".found.images img")
    page.fill("#q", "a house")
    page.press("#q", "Enter")
    page.wait_for_url("**/search?q=a+house*")
    page.go_back()
    page.wait_for_selector(".found.images img")
    assert page.input_value("#q") == "a red balloon"
    page.go_forward()
    page.wait_for_selector(".found.images img")
    assert page.input_value("#q") == "a house"


def test_a_slow_search_says_so_and_keeps_the_query_and_the_page(page):
    """Before, nothing changed on the page until the answer came."""
    page.goto("/search?q=a red balloon")
    page.wait_for_selector(".found.images img")
    page.evaluate(STAYS)  # the answer does not come: Playwright would wait for a page that is on its way
    page.fill("#q", "a house")
    page.press("#q", "Enter")
    page.wait_for_selector("#searching[role=status]:has-text('Searching for “a house” …')")
    assert page.locator("#searching progress").count() == 1 and page.input_value("#q") == "a house"
    assert page.is_visible("nav >> text=Failures")
    assert page.locator("#results.earlier .found.images img").count() == 12
    page.reload()
    page.evaluate(STAYS)
    page.click("text=like this >> nth=0", modifiers=["Shift"])  # another window: this page waits for nothing
    page.click("text=like this >> nth=0")
    page.wait_for_selector("#searching:has-text('Searching …')")
    assert page.locator("#searching").count() == 1


def test_waiting_keeps_the_query_and_the_results_appear_in_place(browser, tmp_path, monkeypatch):
    from limner.web import library

    gate, opened = threading.Event(), library.ready_system
    monkeypatch.setattr(library, "ready_system", lambda *given, **told: gate.wait(60) and opened(*given, **told))
    app = websites.client(tmp_path / "answers.db", fresh=True).app
    with running(app) as address:
        page = browser.new_context(base_url=address).new_page()
        page.goto("/search?q=balloon")
        page.wait_for_selector("#results [role=status]:has-text('training colours')")
        page.fill("#q", "balloon and")  # what is typed meanwhile stays
        assert page.is_visible("nav >> text=Failures")
        gate.set()
        page.wait_for_selector(".found.images img", timeout=30_000)
        assert page.input_value("#q") == "balloon and"
        assert page.locator("#results [role=status]").count() == 0
        page.context.close()


def test_a_promise_hides_what_is_not_sure_and_says_that_nothing_matches(browser, tmp_path):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    client = websites.sure_client(tmp_path)
    websites.patient(client, "/search?q=caption 4&sure=90")
    with running(client.app) as address:
        page = browser.new_context(base_url=address, viewport=SIZES[0], reduced_motion="reduce").new_page()
        page.goto("/search?q=caption 4")
        assert page.locator(".found.images li").count() == 12
        page.click("#options summary")
        page.select_option("#sure", "90")
        page.click("button.main")
        page.wait_for_url("**sure=90**")
        assert page.locator(".found.images li").count() == 1
        assert "At least 90% of what is shown is right" in page.inner_text("#results")
        page.fill("#q", "caption 5")
        page.press("#q", "Enter")
        page.wait_for_selector(".nothing")
        assert "Nothing here matches “caption 5”" in page.inner_text("#results")
        assert page.input_value("#sure") == "90" and page.locator(".found.images li").count() == 0
        for size in SIZES:
            page.set_viewport_size(size)
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        assert [each["id"] for each in axe.Axe().run(page).response["violations"]] == []
        page.click("text=Show the nearest anyway")
        page.wait_for_selector(".found.images li")
        assert page.locator(".found.images li").count() == 12 and page.input_value("#sure") == ""
        page.context.close()


def test_words_minus_terms_and_filters_are_chosen_and_explained(page):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    for scheme, size in (("light", SIZES[0]), ("dark", SIZES[1]), ("light", SIZES[2])):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size(size)
        page.goto("/search?q=a red fish")
        page.click("#options summary")
        page.select_option("#by", "hybrid")
        page.select_option("select[name=where]", "background:meadow")
        page.fill("#q", "a red fish -truck")
        page.press("#q", "Enter")
        page.wait_for_url("**by=hybrid**")
        assert "Without “truck”: images whose own captions have it are removed" in page.inner_text("#results")
        assert page.locator(".found mark", has_text="fish").count()
        assert "rank 1 by words (" in page.inner_text("#results")
        assert page.input_value("#by") == "hybrid" and page.input_value("select[name=where]") == "background:meadow"
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    page.click("#options summary")
    assert [each["id"] for each in axe.Axe().run(page).response["violations"]] == []


MOVES = """() => [...document.querySelectorAll('.column')].map((column) =>
  [...column.querySelectorAll('li')].map((item) => [
    item.querySelector('a').href, item.querySelector('.under').innerText]))"""


def test_the_corrected_list_counts_its_moves_in_the_fused_list_beside_it(page):
    for size in SIZES:
        page.set_viewport_size(size)
        page.goto("/search?q=a red fish -house&by=hybrid&fix=csls&split=train&k=50")
        page.wait_for_selector(".column >> nth=1")
        plain, corrected = page.evaluate(MOVES)
        ranks = {link: number for number, (link, _) in enumerate(plain, start=1)}
        for number, (link, words) in enumerate(corrected, start=1):
            before = ranks[link]
            moved = "" if before == number else f"{'up' if before > number else 'down'} from {before}"
            assert moved in words and (moved or " from " not in words)
        assert any(" from " in words for _, words in corrected)
        assert "vectors corrected by csls" in page.inner_text("#column-2")
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_everything_is_searched_and_another_part_is_a_choice(page):
    for size in SIZES:
        page.set_viewport_size(size)
        page.goto("/search?q=a red balloon")
        page.wait_for_selector(".found.images img")
        assert "60 images searched, exactly" in page.inner_text("#column-1")
        page.click("#options summary")
        assert page.input_value("#split") == "" and page.locator("#split option").count() == 5
        page.select_option("#split", "held-out")
        page.click("button.main")
        page.wait_for_url("**split=held-out**")
        page.wait_for_selector(".found.images img")
        assert "12 images searched, exactly" in page.inner_text("#column-1")
        assert page.input_value("#split") == "held-out"
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def test_the_search_field_has_the_focus_until_there_are_results(page):
    page.goto("/search")
    page.keyboard.type("a red balloon")
    page.keyboard.press("Enter")
    page.wait_for_selector(".found.images img")
    assert page.input_value("#q") == "a red balloon"
    assert page.evaluate("document.activeElement === document.body"), "keys scroll the results"
    page.goto("/search?q=-fish")
    assert page.evaluate("document.activeElement.id") == "q"


def test_an_error_page_keeps_the_navigation(page):
    for size in SIZES:
        page.set_viewport_size(size)
        for address in ("/nosuch", "/item?id=nosuch", "/search?k=many", "/search?s=nosuch"):
            page.goto(address)
            assert page.locator(".error").count() == 1 and page.locator("nav a").count() > 5, address
            assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        page.click("nav >> text=Failures")
        page.wait_for_url("**/failures")
