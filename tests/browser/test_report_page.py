"""The report page in a real browser: from disk, on a desk and a phone, in light and dark, with and without scripts."""

from __future__ import annotations

import numpy as np
import pytest

import limner
from limner.datasets import scenes

EVIL = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'><svg onload='window.hacked = 1'>"
PHONE, DESK = {"width": 360, "height": 740}, {"width": 1280, "height": 900}

# The contrast of every visible text with what lies behind it, by the formula of WCAG 2.1.
CONTRAST = """() => {
  const parse = (c) => { const [r, g, b, a = 1] = c.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
  const over = (top, below) => top.slice(0, 3).map((v, i) => v * top[3] + below[i] * (1 - top[3]));
  const behind = (e) => {
    const layers = [];
    for (; e; e = e.parentElement) layers.push(parse(getComputedStyle(e).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
  };
  const light = (c) => c.map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const low = [];
  let checked = 0;
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    const box = e.getBoundingClientRect();
    if (!own || box.width < 2 || e.closest(".skip, title, desc, script")) continue;
    const style = getComputedStyle(e);
    const ink = e.closest("svg.chart") ? style.fill : style.color;
    const paper = behind(e.closest("svg") ? e.closest("svg").parentElement : e);
    const [a, b] = [light(over(parse(ink), paper)), light(paper)].sort((x, y) => y - x);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    checked += 1;
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < (large ? 3 : 4.5)) low.push(`${e.outerHTML.slice(0, 80)}: ${contrast.toFixed(2)}`);
  }
  return { checked, low };
}"""


def _system(world: limner.Collection, seed: int, name: str) -> limner.Report:
    rng = np.random.default_rng(seed)
    hidden = rng.standard_normal((len(world.images), 12))
    texts = np.repeat(hidden, 5, axis=0) + 1.5 * rng.standard_normal((len(world.texts), 12))
    scores = limner.Scores.from_matrix(hidden @ texts.T, world.images.ids, world.texts.ids)
    return limner.evaluate(scores, world, name=name, measures="R@1 R@5 R@10 MedR mAP@R rsum")


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    """A page with everything on it, one caption of which tries to run a script."""
    world = scenes.load(images=120).test
    captions = [f"{EVIL} {text}" if k % 3 == 0 else text for k, text in enumerate(world.texts.values)]
    texts = limner.Items(world.texts.ids, captions, kind="text")
    hostile = limner.Collection(f"scenes {EVIL}", world.images, texts, world.judgements, extra=world.extra)
    report, *other_reports = [_system(hostile, seed, name) for seed, name in enumerate(("first", EVIL, "third"))]
    path = tmp_path_factory.mktemp("page") / "report.html"
    report.save(
        path,
        collection=hostile,
        other_reports=other_reports,
        comparison=limner.compare([report, *other_reports], samples=500),
    )
    return path.as_uri()


@pytest.fixture
def opened(browser, address):
    """Opens the page as asked, and says what went wrong on it when the test is over."""
    contexts, requested, complaints = [], [], []

    def open_page(*, viewport=DESK, scheme="light", script=True):
        context = browser.new_context(
            viewport=viewport, color_scheme=scheme, java_script_enabled=script, reduced_motion="reduce"
        )
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: requested.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [url for url in requested if not url.startswith(("file:", "data:"))] == []
    assert complaints == []


@pytest.mark.parametrize("viewport", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_readable_without_scrolling_sideways(opened, viewport, scheme):
    page = opened(viewport=viewport, scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    contrast = page.evaluate(CONTRAST)
    assert contrast["checked"] > 500
    assert contrast["low"] == []


def test_dark_is_dark_and_paper_is_light(opened):
    page = opened(scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(20, 23, 26)"
    page.emulate_media(media="print")
    assert page.evaluate(background) == "rgb(255, 255, 255)"
    assert not page.is_visible("nav")


def test_a_script_in_a_caption_stays_text(opened):
    page = opened()
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.querySelectorAll('script, img').length") == 1
    assert page.inner_text("h1").startswith("first on scenes <script>window.hacked")
    assert page.evaluate("[...document.querySelectorAll('q')].some((q) => q.textContent.includes('onerror='))")


@pytest.mark.parametrize(("bypass", "ran"), [(False, None), (True, 1)])
def test_the_policy_stops_a_script_that_got_through(address, browser, bypass, ran):
    context = browser.new_context(bypass_csp=bypass)
    page = context.new_page()
    page.goto(address)
    page.evaluate("document.body.append(Object.assign(document.createElement('script'), {text: 'window.hacked = 1'}))")
    assert page.evaluate("window.hacked") == ran
    context.close()


def test_every_thumbnail_is_drawn(opened):
    page = opened()
    assert page.locator("svg.thumb").count() > 20
    assert page.locator("span.thumb.missing").count() == 0
    sizes = "[...document.querySelectorAll('svg.thumb')].map((s) => s.getBoundingClientRect().width)"
    assert min(page.evaluate(sizes)) > 40
    shot = page.locator(".strip svg.thumb").first.screenshot()
    assert len(shot) > 3000  # an empty box of this size compresses to a few hundred bytes


def test_contents_lead_to_their_sections(opened):
    page = opened()
    for link in page.locator("nav a").all():
        link.click()
        target = link.get_attribute("href")
        assert page.evaluate("location.hash") == target
        top = page.evaluate("(target) => document.querySelector(target).getBoundingClientRect().top", target)
        assert 0 <= top < DESK["height"]


def test_queries_can_be_narrowed_and_sorted(opened):
    page = opened()
    box = page.locator("[data-queries]").nth(1)
    box.locator("summary").click()
    rows = box.locator("tbody tr:visible")
    total = rows.count()
    box.locator("input").fill("#3")
    assert box.locator("output").inner_text() == f"{total // 5} of {total}"
    assert rows.count() == total // 5
    box.locator("input").fill("")
    head = box.locator("thead th").nth(1)
    numbers = "(rows) => rows.map((r) => Number(r.cells[1].dataset.value))"
    for order in ("ascending", "descending"):
        head.locator("button").click()
        assert head.get_attribute("aria-sort") == order
        values = rows.evaluate_all(numbers)
        assert values == sorted(values, reverse=order == "descending")
        assert len(set(values)) > 3


def test_without_scripts_everything_is_there(opened):
    page = opened(script=False)
    assert page.locator("[data-queries] tbody tr").count() > 100
    assert page.locator(".filter:visible").count() == 0
    assert page.locator("svg.chart").count() == 8


def test_the_keyboard_shows_where_it_is(opened):
    page = opened()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('nav') !== null")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_every_query_can_be_reached_page_by_page(browser, tmp_path):
    """More queries than the page has rows: further ones come from data, sorted, narrowed and paged with the others."""
    world = scenes.load(images=130)
    captions = [f"{EVIL} {text}" if k % 50 == 0 else text for k, text in enumerate(world.texts.values)]
    images = limner.Items(world.images.ids, [None] * len(world.images))
    texts = limner.Items(world.texts.ids, captions, kind="text")
    collection = limner.Collection("scenes", images, texts, world.judgements)
    report, baseline = (_system(collection, seed, name) for seed, name in enumerate(("mine", "simple")))
    report.save(tmp_path / "page.html", collection=collection, baseline=baseline, examples=0)
    page = browser.new_page(viewport=PHONE)
    page.goto((tmp_path / "page.html").as_uri())
    assert "Baseline simple" in page.locator(".card").first.inner_text()
    box = page.locator("[data-queries]").nth(1)
    box.locator("summary").click()
    ids = set()
    for start in (1, 201, 401, 601):
        visible = box.locator("tbody tr code").all_inner_texts()
        assert box.locator("output").inner_text() == f"{start} to {start + len(visible) - 1} of 650"
        ids |= set(visible)
        if start < 601:
            box.locator("button:has-text('Next')").click()
    assert ids == set(world.texts.ids)
    assert box.locator("button:has-text('Next')").is_disabled()
    head = box.locator("thead th button").nth(1)
    head.click()
    ranks = [int(cell.replace(",", "")) for cell in box.locator("tbody tr td:first-of-type").all_inner_texts()]
    expected = sorted(report.find("MedR", direction="t2i", view="pairs").values)[:200]
    assert ranks == [int(value) for value in expected]
    last = world.texts.ids[649]
    box.locator("input").fill(last)
    assert box.locator("tbody tr code").all_inner_texts() == [last]
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    page.close()


def test_the_table_of_slices_fits_a_phone_with_the_number_of_queries(browser, tmp_path):
    from limner.evaluation.slices import slices

    world = scenes.load(images=120).test
    report = _system(world, 0, "first")
    sliced = slices(report, world, by=("length", "background"), measure="R@1", min_size=15, samples=200)
    report.save(tmp_path / "page.html", collection=world, sliced=sliced)
    for viewport in (PHONE, DESK):
        context = browser.new_context(viewport=viewport)
        page = context.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        for table in page.locator("#slices .scroll").all():
            assert table.evaluate("(e) => e.scrollWidth <= e.clientWidth")
        assert page.locator("#slices .many").first.is_visible() == (viewport is PHONE)
        page.locator("#slices").screenshot(path=tmp_path / f"slices-{viewport['width']}.png")
        context.close()
