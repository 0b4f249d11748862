"""The map in a real browser: drawn, zoomed, selected, coloured, sent to labelling; in a file without a server too."""

from __future__ import annotations

import pytest

import websites
from websites import SIZES, until, warm, watched


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    with warm(tmp_path_factory.mktemp("mapped"), "/map") as address:
        yield address


@pytest.fixture
def page(browser, address):
    with watched(browser, base_url=address, viewport=SIZES[2]) as opened:
        yield opened


def drawn(page):
    page.wait_for_selector("#map[data-ready]")
    page.wait_for_selector(".plot[data-drawn]:not([data-drawn='0'])")


INK = """() => { const canvas = document.querySelector('.plot canvas'), held = canvas.getContext('2d');
  const data = held.getImageData(0, 0, canvas.width, canvas.height).data; let ink = 0;
  for (let n = 3; n < data.length; n += 4) ink += data[n] > 0; return ink; }"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_map_is_drawn_at_every_width_and_clean(page, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page.emulate_media(color_scheme=scheme)
    for size in SIZES:
        page.set_viewport_size(size)
        page.goto("/map")
        drawn(page)
        assert page.evaluate(INK) > 200
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
        assert "in view" in page.inner_text("[data-said]") and page.locator(".listed li").count() > 20
    assert [each["id"] for each in axe.Axe().run(page).response["violations"]] == []


def test_zoom_select_colour_and_send_to_labelling(page):
    page.goto("/map")
    drawn(page)
    before = int(page.get_attribute(".plot", "data-drawn"))
    box = page.locator(".plot").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.wheel(0, -900)
    page.wait_for_selector(f".plot:not([data-drawn='{before}'])")
    page.focus(".plot")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("0")
    page.wait_for_selector(f".plot[data-drawn='{before}']")
    assert page.is_disabled("[data-send]")
    page.mouse.move(box["x"] + 5, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] - 5, steps=3)
    page.mouse.up()
    page.wait_for_selector("#map[data-chosen]:not([data-chosen=''])")
    chosen = int(page.get_attribute("#map", "data-chosen"))
    assert 0 < chosen < before and f"{chosen} selected" in page.inner_text("[data-said]")
    assert "fail as queries" in page.inner_text("[data-said]")
    page.select_option("#colour", label="hubness")
    assert "found by 0 queries" in page.inner_text(".swatches")
    page.keyboard.press("Escape")
    page.focus(".plot")
    page.keyboard.press("Escape")
    page.wait_for_selector("#map[data-chosen='']")
    page.keyboard.press("Enter")
    page.wait_for_selector(f"#map[data-chosen='{before}']")
    page.click("[data-send]")
    page.wait_for_url("**/admin")
    page.wait_for_selector("text=tasks created")


def test_zooming_in_enlarges_thumbnails_and_empty_space_says_so(page):
    page.goto("/map")
    drawn(page)
    small = int(page.get_attribute(".plot", "data-side"))
    page.focus(".plot")
    for _ in range(4):
        page.keyboard.press("+")
    until(page, "(least) => Number(document.querySelector('.plot').dataset.side) > least", 1.5 * small)
    for _ in range(60):
        page.keyboard.press("ArrowLeft")
    page.wait_for_selector("[data-said]:has-text('Nothing here: zoom out, or show all.')")
    page.click("[data-all]")
    page.wait_for_selector("[data-said]:has-text('in view')")
    assert int(page.get_attribute(".plot", "data-side")) == small


def test_a_saved_map_needs_no_server(page, tmp_path, monkeypatch):
    import limner
    from limner.explain.embedding_map import embedding_map

    monkeypatch.setenv("LIMNER_CACHE", str(tmp_path))
    test_split = websites.world().test
    texts = limner.Items(
        test_split.texts.ids, [f"{websites.EVIL} {text}" for text in test_split.texts.values], kind="text"
    )
    model = limner.train(websites.world(), "colours")
    scores = limner.Scores.from_embeddings(model.encode_images(test_split.images), model.encode_texts(test_split.texts))
    test_split = limner.Collection("evil</script>", test_split.images, texts, test_split.judgements)
    page.goto(embedding_map(scores, test_split, method="pca").save(tmp_path / "map.html").as_uri())
    drawn(page)
    assert page.evaluate("window.hacked") is None and page.locator(".listed li").count() > 20
    page.set_viewport_size(SIZES[0])
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[0]["width"]
