"""Side by side in a real browser: nothing scrolls sideways, axe is content, a click leads from table to images."""

from __future__ import annotations

import numpy as np
import pytest

import limner
import websites
from limner.explain.failure_classes import CAPTION_CLASSES
from limner.web import make_app
from websites import SIZES, running, watched


def two_systems(folder, world):
    """A site with two systems that are only scores."""
    test_split = world.test
    truth = np.array(
        [[(test_split.judgements.grade(i, t) or 0) > 0 for t in test_split.texts.ids] for i in test_split.images.ids]
    )
    for seed, (name, weight) in enumerate((("good", 3.0), ("bad", 0.5))):
        np.save(folder / f"{name}.npy", weight * truth + np.random.default_rng(seed).normal(size=truth.shape))
    files = {name: folder / f"{name}.npy" for name in ("good", "bad")}
    return make_app([world], systems={}, matrices=files, store=folder / "answers.db")


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with running(two_systems(tmp_path_factory.mktemp("compared"), websites.world())) as address:
        yield address


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The same site, for images without annotated objects."""
    world = websites.world()
    images = limner.Items(world.images.ids, world.images.values)
    bare = limner.Collection("plain", images, world.texts, world.judgements, world.splits)
    with running(two_systems(tmp_path_factory.mktemp("plain"), bare)) as address:
        yield address


def test_from_the_table_to_the_images_at_every_size(browser, address):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    for size, scheme in zip(SIZES, ("dark", "light", "light"), strict=True):
        context = browser.new_context(base_url=address, viewport=size, color_scheme=scheme, reduced_motion="reduce")
        page = context.new_page()
        page.goto("/compare")
        page.wait_for_selector(".compared strong", timeout=60_000)
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        assert [each["id"] for each in axe.Axe().run(page).response["violations"]] == []
        assert page.locator(".charts svg").first.bounding_box()["width"] > 250
        table = page.url
        page.click("text=Slices: good minus bad")
        page.wait_for_selector(
            ".error"
        )  # twelve images are too few for slices of 30: the page says so and keeps its form
        page.fill("#n", "10")
        page.click("button.main:has-text('Show')")
        page.wait_for_selector(".sliced tbody tr", timeout=30_000)
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        assert [each["id"] for each in axe.Axe().run(page).response["violations"]] == []
        page.goto(table)
        page.click("text=good wins, bad loses")
        page.wait_for_selector(".both.three img")
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        assert [each["id"] for each in axe.Axe().run(page).response["violations"]] == []
        view_url = page.url
        page.goto("/")
        page.goto(view_url)  # a link leads back to the same state
        page.wait_for_selector(".both.three img")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_selector("h2:has-text('Its labelled images')")
        context.close()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: str(size["width"]))
def test_failures_and_wins_are_filtered_by_class_where_no_object_is_annotated(browser, plain, size):
    """The classes come from captions; they are counted, chosen, and part of the link."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    with watched(browser, base_url=plain, viewport=size) as page:
        page.goto("/failures?s=bad&q=a")
        page.wait_for_selector("#classes nav", timeout=60_000)  # they appear by themselves
        counted = dict(each.rsplit(" ", 1) for each in page.locator("#classes a").all_inner_texts())
        assert {*counted} - {"all"} <= {*CAPTION_CLASSES, "alternative"}
        assert sum(int(count) for name, count in counted.items() if name != "all") == int(counted["all"])
        name = next(each for each in CAPTION_CLASSES if each in counted)
        page.click(f"#classes a:has-text('{name}')")
        page.wait_for_selector(f"#classes a[aria-current]:has-text('{name}')")
        assert page.input_value("#q") == "a"
        assert page.locator(".failures li").count() == page.locator(f".failures li .under:has-text('{name}')").count()
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        assert [each["id"] for each in axe.Axe().run(page).response["violations"]] == []
        page.goto("/wins?a=good&b=bad")
        page.wait_for_selector(".both.three img", timeout=60_000)
        every = page.locator("p[role=status] strong").inner_text()
        page.click(".more summary")
        page.select_option("#class", name)
        page.click("button.main:has-text('Show')")
        page.wait_for_selector(f".pills a:has-text('bad: {name}')")
        some = page.locator("p[role=status] strong").inner_text()
        assert 0 < int(some) < int(every) and page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        assert [each["id"] for each in axe.Axe().run(page).response["violations"]] == []
        view_url = page.url
        page.goto("/")
        page.goto(view_url)
        page.wait_for_selector(f".pills a:has-text('bad: {name}')")
        assert page.locator("p[role=status] strong").inner_text() == some
