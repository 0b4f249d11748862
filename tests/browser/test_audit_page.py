"""The page of an audit in a real browser: from disk, with thumbnails, on a phone too."""

from __future__ import annotations

import limner
from limner.explain.audit import audit
from websites import from_disk


def test_the_page_shows_thumbnails_and_asks_for_nothing(browser, tmp_path):
    world = limner.load("scenes", images=12)
    values = [world.images.open(row if row != 7 else 3) for row in range(12)]
    texts = [*world.texts.values[:5], world.texts.values[0], *world.texts.values[6:]]
    changed = limner.Collection(
        "photos",
        limner.Items(world.images.ids, values),
        limner.Items(world.texts.ids, texts, kind="text"),
        world.judgements,
    )
    path = audit(changed).save(tmp_path / "audit.html", collection=changed)
    with from_disk(browser, path) as page:
        thumbs = page.locator("#duplicate-image svg.thumb")
        assert thumbs.count() == 2 and thumbs.first.bounding_box()["width"] > 40
        assert page.locator("#repeated-caption q").count() >= 2
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        page.set_viewport_size({"width": 1100, "height": 1400})
        page.screenshot(path=tmp_path / "audit.png")
