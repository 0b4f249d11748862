"""Side by side in a real browser: nothing scrolls sideways, axe is content, a click leads from table to images."""

from __future__ import annotations

import numpy as np
import pytest

import websites
from limner.web import make_app
from websites import SIZES, running


@pytest.fixture(scope="module")
def where(tmp_path_factory):
    """A site with two systems that are only scores."""
    folder, held = tmp_path_factory.mktemp("compared"), websites.world().test
    truth = np.array([[(held.judgements.grade(i, t) or 0) > 0 for t in held.texts.ids] for i in held.images.ids])
    for seed, (name, weight) in enumerate((("good", 3.0), ("bad", 0.5))):
        np.save(folder / f"{name}.npy", weight * truth + np.random.default_rng(seed).normal(size=truth.shape))
    files = {name: folder / f"{name}.npy" for name in ("good", "bad")}
    app = make_app([websites.world()], systems={}, matrices=files, store=folder / "answers.db")
    with running(app) as address:
        yield address


def test_from_the_table_to_the_images_at_every_size(browser, where):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    for size, scheme in zip(SIZES, ("dark", "light", "light"), strict=True):
        context = browser.new_context(base_url=where, viewport=size, color_scheme=scheme, reduced_motion="reduce")
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
        address = page.url
        page.goto("/")
        page.goto(address)  # a link leads back to the same state
        page.wait_for_selector(".both.three img")
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        page.wait_for_selector("h2:has-text('Its labelled images')")
        context.close()
