"""The leaderboard page in a real browser: from disk, sorted and filtered, on a phone too."""

from __future__ import annotations

from limner.evaluation import leaderboard
from websites import from_disk


def test_the_page_sorts_and_filters_and_asks_for_nothing(browser, tmp_path):
    path = leaderboard(["published:eccv-d3"], measures="R@1", view="eccv").save(tmp_path / "board.html")
    with from_disk(browser, path) as page:
        box = page.locator("[data-queries]").first
        box.locator("input").fill("clip")
        assert box.locator("output").inner_text() == "3 of 25" and box.locator("tbody tr:visible").count() == 3
        box.locator("input").fill("")
        value = box.locator("thead button").nth(2)
        value.click()
        assert box.locator("tbody th").first.inner_text() == "VinVL (zero-shot)"
        value.click()
        assert box.locator("tbody th").first.inner_text() == "BLIP"
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
