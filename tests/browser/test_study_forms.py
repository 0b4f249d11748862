"""The forms of studies in a browser: crowd, preference and failure rating; large images, a key for each choice."""

from __future__ import annotations

import os

import pytest

import websites
from limner.annotate.failure_study import add_failures, failure_answers
from limner.annotate.form_files import read_form
from limner.annotate.preference import Rivals, add_comparisons, votes
from limner.annotate.store import open_store
from limner.annotate.store.answers import answers
from limner.annotate.store.contents import add_collection
from limner.annotate.store.tasks import Draft, TaskPair, add_tasks
from limner.explain.failures import Failure
from websites import SIZES

PREFER, CLASSIFY = "/study?study=preference", "/study?study=failures"
FORMS = ("/captions", PREFER, CLASSIFY)
sizes = pytest.mark.parametrize("viewport", SIZES, ids=lambda size: str(size["width"]))


def short(path):
    """The name of a form, from its address."""
    return path.rpartition("=")[2].strip("/")


def filled(path):
    """A store with crowd tasks of three images, comparisons of five places, and failures to rate."""
    test_split = websites.world().test
    images, texts = list(test_split.images.ids), list(test_split.texts.ids)
    captions = dict(zip(texts, test_split.texts.values, strict=True))
    with open_store(path) as store:
        add_collection(store, test_split, spec="scenes")
        pairs = [
            TaskPair(image, texts[(13 * n + k) % len(texts)]) for n, image in enumerate(images[:3]) for k in range(10)
        ]
        add_tasks(store, [Draft(tuple(pairs), kind="captions")], replication=40)
        rivals = [Rivals(text, "a", "b", tuple(images[:5]), tuple(images[4:9])) for text in texts[:3]]
        add_comparisons(store, rivals, people=40)
        failures = [Failure(text, captions[text], images[n], images[n + 1]) for n, text in enumerate(texts[:3])]
        add_failures(store, failures, people=40)
    return path


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A running site with work in every form."""
    app = websites.client(filled(tmp_path_factory.mktemp("forms") / "answers.db")).app
    with websites.running(app) as address:
        app.state.address = address
        yield app


@pytest.fixture
def opened(browser, site):
    """Opens a form as somebody; errors of scripts fail the test."""
    contexts, errors = [], []

    def open_page(name, path, *, viewport=SIZES[2]):
        context = browser.new_context(viewport=viewport, base_url=site.state.address, reduced_motion="reduce")
        context.add_cookies([{"name": "limner_name", "value": name, "url": site.state.address}])
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(path)
        ready(page)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []


def ready(page):
    """Waits until the images are there, and the browser has drawn them."""
    page.wait_for_selector("#form[data-ready]")
    websites.until(page, "() => [...document.images].every((each) => each.complete && each.naturalWidth)", None)


def pressed(page, key):
    """Presses a key that saves, and waits for the next page."""
    with page.expect_navigation():
        page.keyboard.press(key)
    ready(page)


def picture(page, name):
    """Keeps a screenshot where one is wanted."""
    if folder := os.environ.get("LIMNER_PICTURES"):
        page.screenshot(path=f"{folder}/{name}.png")


def box(page, selector, place=0):
    return page.locator(selector).nth(place).bounding_box()


def keys(page, selector):
    """The keys that are shown on choices."""
    return page.locator(f"{selector} kbd:visible").all_inner_texts()


@sizes
def test_each_form_fits_its_window_and_can_be_sent_without_scrolling(opened, viewport):
    for path in FORMS:
        page = opened(f"fits {viewport['width']}", path, viewport=viewport)
        picture(page, f"{path.rpartition('=')[2].strip('/')}-{viewport['width']}")
        assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"], path
        send = box(page, "#form .acts button")
        assert send["y"] + send["height"] <= viewport["height"], path


def test_failures_are_rated_by_keys_beside_large_images(opened, site):
    page = opened("rater", CLASSIFY)
    for place in (0, 1):
        image_box = box(page, "#form .pair img", place)
        assert image_box["width"] >= 560 and image_box["height"] >= 360
        assert image_box["y"] + image_box["height"] <= SIZES[2]["height"]
    assert (
        keys(page, ".classes") == ["O", "C", "N", "A", "S", "D", "X"]
        and len(read_form("failures").part("classes").options) == 7
    )
    assert keys(page, ".ratings") == ["1", "2", "3", "4", "5", "6", "7", "8", "9", "0"]
    page.keyboard.press("c")
    page.keyboard.press("o")
    page.keyboard.press("o")  # a second time takes the tick away
    page.keyboard.press("s")
    page.keyboard.press("0")
    pressed(page, "Enter")
    (rating,) = [each for each in failure_answers(site.state.site.store) if each.annotator == "rater"]
    assert (rating.classes, rating.rating) == ({"colour", "size"}, 10)


def test_a_rating_that_is_refused_stays_in_its_form(opened, site):
    page = opened("hasty", CLASSIFY)
    words = page.inner_text(".words")
    page.keyboard.press("7")
    pressed(page, "Enter")
    assert "no class is marked" in page.inner_text("#form .error")
    assert page.is_checked("input[name=rating][value='7']") and page.inner_text(".words") == words
    page.keyboard.press("d")
    pressed(page, "Enter")
    (rating,) = [each for each in failure_answers(site.state.site.store) if each.annotator == "hasty"]
    assert (rating.classes, rating.rating) == ({"detail"}, 7)


@sizes
def test_crowd_captions_are_ticked_by_keys_and_rules_are_folded_after_the_first_image(opened, site, viewport):
    name = f"crowd {viewport['width']}"
    page = opened(name, "/captions", viewport=viewport)
    assert page.locator(".rules li:visible").count() == 4
    page.keyboard.press("1")
    page.keyboard.press("0")
    page.keyboard.press("2")
    page.keyboard.press("2")
    pressed(page, "Enter")
    assert page.inner_text("label[for=bar]") == "Image 2 of 3"
    assert page.locator(".rules li:visible").count() == 0 and page.is_visible(".rules summary")
    picture(page, f"captions-second-{viewport['width']}")
    first = box(page, ".ticks label")
    assert first["y"] + first["height"] <= viewport["height"], "a caption is to be seen without scrolling"
    if viewport["width"] > 1000:
        assert keys(page, ".ticks") == ["1", "2", "3", "4", "5", "6", "7", "8", "9", "0"]
        fifth = box(page, ".ticks label", 4)
        assert fifth["y"] + fifth["height"] <= box(page, "#form > .acts")["y"], (
            "several captions are to be seen at once"
        )
    with page.expect_navigation():
        page.keyboard.press("ArrowLeft")
    ready(page)
    ticked = [each.is_checked() for each in page.locator(".ticks input").all()]
    assert ticked == [True, *[False] * 8, True]
    grades = [each.grade for each in answers(site.state.site.store) if each.annotator == name]
    assert grades == [4, *[1] * 8, 4]


@sizes
def test_rankings_are_large_and_side_by_side_or_stacked_on_a_phone(opened, viewport):
    page = opened(f"large {viewport['width']}", PREFER, viewport=viewport)
    left, right = (box(page, ".ranking", place) for place in (0, 1))
    small = min(each.bounding_box()["width"] for each in page.locator(".ranking img").all())
    if viewport["width"] > 1000:
        assert left["y"] == right["y"] and left["x"] + left["width"] <= right["x"]
        assert right["x"] + right["width"] >= page.evaluate("innerWidth * .85"), "no part of the page is empty"
        assert box(page, ".ranking img")["width"] >= 220
    else:
        assert left["y"] + left["height"] <= right["y"]
    assert small >= 140


def test_a_vote_is_given_by_the_key_on_its_button(opened, site):
    page = opened("voter", PREFER)
    assert keys(page, ".acts") == ["1", "2", "3"]
    pressed(page, "3")
    assert sum(each.choice == "right" for each in votes(site.state.site.store)) == 1


@pytest.mark.parametrize("path", FORMS)
def test_keys_can_be_switched_off_for_every_form_at_once(opened, path):
    page = opened(f"no keys {path.rpartition('=')[2].strip('/')}", path)
    page.uncheck("#use-keys")
    assert page.locator("#form kbd:visible:not(.number)").count() == 0
    before = page.content()
    page.locator("h1").click()
    page.keyboard.press("1")
    assert page.content() == before and page.locator("#form input:checked").count() == 0
    page.goto(CLASSIFY)
    ready(page)
    assert not page.is_checked("#use-keys")


@pytest.mark.parametrize("path", FORMS)
def test_forms_have_no_fault_that_axe_finds(opened, path):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for viewport in (SIZES[0], SIZES[2]):
        page = opened("axe", path, viewport=viewport)
        outcome = axe.run(page).response
        assert outcome["passes"] and [(v["id"], [n["html"] for n in v["nodes"]]) for v in outcome["violations"]] == []


def test_failure_rating_is_reached_from_the_navigation_and_from_the_leads_page(opened, site):
    page = opened("way", PREFER)
    page.click("main >> text=failures")
    assert page.inner_text("h1") == "What did the answer get wrong?"
    page.goto("/admin")
    page.click("main >> text=What people answered")
    assert page.inner_text("h1") == "What people answered"
