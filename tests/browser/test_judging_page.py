"""Judging in a real browser: never an image under another caption, one key per pair, and a history that survives."""

from __future__ import annotations

import json

import pytest

import websites
from limner.annotate.store.answers import answers, history
from limner.annotate.store.people import add_annotator
from websites import SIZES

LOOK = "#judge[data-ready]:not([data-locked])"
CHECKED = "[...document.querySelectorAll('input[name=grade]')].find((each) => each.checked)?.value ?? null"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A site with many tasks of four pairs, each for one person."""
    with websites.served(tmp_path_factory.mktemp("judging"), tasks=24) as app:
        yield app


@pytest.fixture
def judge(browser, site):
    """Opens the page for judging as somebody; errors of scripts fail the test."""
    contexts, errors = [], []

    def open_page(name, *, viewport=SIZES[1], path="/judge", wait=LOOK, read=True):
        context = browser.new_context(viewport=viewport, base_url=site.state.address, reduced_motion="reduce")
        context.add_cookies([{"name": "limner_name", "value": name, "url": site.state.address}])
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        if read:
            page.add_init_script(websites.read_guideline(name))
        page.goto(path)
        page.wait_for_selector(wait)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []


def items(page):
    return json.loads(page.get_attribute("#judge", "data-task"))["items"]


def stored(site, name):
    """Grade and reasons of what somebody answered, by pair."""
    own_answers = [each for each in answers(site.state.site.store) if each.annotator == name]
    return {each.item: (each.grade, each.reasons) for each in own_answers}


def waited(page, number):
    page.wait_for_selector(f"#place:text-is('Pair {number} of 4')")
    page.wait_for_selector(LOOK)


def reloaded(page, number):
    """Reloads when the server has every answer: before that, the browser asks whether to leave, and the page stays."""
    unsent = f"localStorage.getItem('limner-outbox:{page.get_attribute('body', 'data-account')}')"
    while page.evaluate(unsent) is not None:
        page.wait_for_timeout(20)
    page.reload()
    waited(page, number)


def test_no_image_is_ever_shown_under_another_caption(judge, site):
    """While the image of a caption is on its way: nothing is shown, no key grades, no clock runs."""
    page, waiting, sent = judge("slow"), [], []
    task = items(page)
    page.on("request", lambda request: sent.append(request.post_data_json) if "/api/answers" in request.url else None)
    page.route(
        "**/image?*",
        lambda route: route.continue_() if task[0]["picture"] in route.request.url else waiting.append(route),
    )
    page.clock.install()
    page.reload()
    waited(page, 1)
    page.keyboard.press("4")
    page.keyboard.press("Enter")
    page.wait_for_selector("#judge[data-locked]")
    for number in (2, 3):  # the one is asked for ahead, the other too: both are still on their way
        assert page.inner_text("#words") == task[number - 1]["text"]
        assert page.locator("#shown img").count() == 0
        assert page.inner_text("#loading") == "Loading the image …"
        for key in ("1", "i", "Enter"):
            page.keyboard.press(key)
        assert page.evaluate(CHECKED) is None
        assert page.is_disabled("input[name=grade] >> nth=0") and page.is_disabled("button[value=save]")
        page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.clock.fast_forward(60_000)
    for route in waiting:
        route.continue_()
    waited(page, 2)
    assert page.get_attribute("#shown img", "src") == task[1]["picture"]
    assert page.evaluate("document.querySelector('#shown img').complete")
    page.keyboard.press("4")
    page.keyboard.press("Enter")
    page.wait_for_selector("#state:text-is('Saved.')")
    assert [each["item"] for each in sent] == [each["id"] for each in task[:2]]
    assert sent[1]["milliseconds"] < 60_000


def test_an_image_that_cannot_be_loaded_is_said_and_can_be_asked_for_again(judge, site):
    page, lost = judge("lost"), [True]
    page.route("**/image?*", lambda route: route.abort() if lost else route.continue_())
    page.reload()
    page.wait_for_selector("#reload:not([hidden])")
    assert "could not be loaded" in page.inner_text("#loading")
    page.keyboard.press("4")
    assert page.evaluate(CHECKED) is None
    lost.clear()
    page.click("#reload")
    page.wait_for_selector(LOOK)
    assert page.is_hidden("#loading")


def test_a_browser_that_never_says_that_an_image_is_decoded_does_not_lock_the_page(judge):
    """Chromium decodes with the frames that it draws: in a tab behind others, on a busy machine, it may draw none."""
    page = judge("never decoded")
    page.add_init_script("HTMLImageElement.prototype.decode = () => new Promise(() => {});")
    page.reload()
    waited(page, 1)
    assert page.evaluate("document.querySelector('#shown img').complete")


def test_an_answer_to_which_the_server_never_replies_is_sent_again_with_its_key(judge, site):
    page, waiting, sent = judge("no reply"), [], []

    def late(route):
        sent.append(route.request.post_data_json)
        waiting.append(route) if len(sent) == 1 else route.continue_()

    page.route("**/api/answers", late)
    page.clock.install()
    page.reload()
    waited(page, 1)
    page.keyboard.press("4")
    page.keyboard.press("Enter")
    waited(page, 2)
    page.wait_for_selector("#state:text-is('Saving …')")
    for _ in range(60):
        if len(sent) > 1:
            break
        page.clock.fast_forward(2_000)
        page.wait_for_timeout(20)
    page.wait_for_selector("#state:text-is('Saved.')")
    assert sent[0] == sent[1] and len(stored(site, "no reply")) == 1


def test_a_tap_on_the_circle_of_a_grade_leaves_no_grade_on_the_next_pair(judge, site):
    """The browser restores what was chosen before, when a click is taken over: it must not be on another pair."""
    page = judge("circle")
    page.check("#one-key")
    page.keyboard.press("4")
    waited(page, 2)
    page.keyboard.press("ArrowLeft")
    waited(page, 1)
    page.click(".grades input >> nth=0")
    waited(page, 2)
    assert page.evaluate(CHECKED) is None


def test_one_key_saves_and_goes_on_and_letters_give_reasons(judge, site):
    page = judge("one key")
    task = items(page)
    page.check("#one-key")
    page.keyboard.press("4")
    waited(page, 2)
    page.keyboard.press("i")
    page.keyboard.press("c")
    page.keyboard.press("3")
    waited(page, 3)
    reloaded(page, 3)
    assert page.is_checked("#one-key")
    page.click(".grades label >> nth=0")  # a tap does the same
    waited(page, 4)
    page.keyboard.press("2")
    page.wait_for_selector("#finished:not([hidden])")
    assert stored(site, "one key") == {
        task[0]["id"]: (4, ()), task[1]["id"]: (3, ("not-in-image", "wrong-colour")),
        task[2]["id"]: (1, ()), task[3]["id"]: (2, ()),
    }  # fmt: skip


def test_the_button_to_save_stays_in_view_when_reasons_appear(judge):
    for size in SIZES[1:]:
        page = judge(f"in view {size['width']}", viewport=size)
        page.keyboard.press("3")
        page.wait_for_selector("#reasons:not([hidden])")
        box = page.locator("button[value=save]").bounding_box()
        assert box["y"] + box["height"] <= size["height"]


def test_grades_stand_in_the_order_of_their_keys(judge):
    page = judge("order")
    labels = [each.inner_text().split() for each in page.locator(".grades label").all()]
    assert labels == [["1", "100%", "no"], ["2", "mostly", "no"], ["3", "partially", "yes"], ["4", "100%", "yes"]]
    page.keyboard.press("?")
    rows = [each.inner_text().strip() for each in page.locator("#keymap label").all()]
    assert rows[:4] == ["100% no", "Mostly no", "Partially yes", "100% yes"]
    pressed = [page.input_value(f"#key-grade{number}") for number in (1, 2, 3, 4)]
    assert pressed == ["1", "2", "3", "4"]


@pytest.mark.parametrize("viewport", SIZES[::2], ids=lambda size: str(size["width"]))
def test_a_comment_is_written_with_a_key_saved_with_its_answer_and_shown_again(judge, site, viewport):
    page = judge(f"talker{viewport['width']}", viewport=viewport)
    assert page.is_hidden("#comment")
    page.keyboard.press("4")
    page.keyboard.press("k")
    page.keyboard.type("4k: <b>two</b> boats")  # no letter acts as a key in the field
    assert page.evaluate(CHECKED) == "4"
    page.keyboard.press("Enter")
    waited(page, 2)
    assert page.is_hidden("#comment")
    page.keyboard.press("k")
    page.keyboard.press("Escape")
    assert page.is_hidden("#comment")
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    waited(page, 3)
    page.wait_for_selector("#state:text-is('Saved.')")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    waited(page, 1)
    assert page.input_value("#comment") == "4k: <b>two</b> boats" and page.is_visible("#comment")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.reload()
    waited(page, 1)
    assert page.input_value("#comment") == "4k: <b>two</b> boats"
    comments = [a.comment for a in answers(site.state.site.store) if a.annotator == f"talker{viewport['width']}"]
    assert comments == ["4k: <b>two</b> boats", ""]


def test_place_skips_and_undo_survive_a_reload_and_the_end_of_a_task(judge, site):
    page, store = judge("again"), site.state.site.store
    task = items(page)
    page.keyboard.press("s")  # the first one is left for later
    waited(page, 2)
    for number, key in ((2, "4"), (3, "1")):
        waited(page, number)
        page.keyboard.press(key)
        page.keyboard.press("Enter")
    waited(page, 4)
    page.keyboard.press("ArrowLeft")
    waited(page, 3)
    reloaded(page, 3)
    assert page.evaluate(CHECKED) == "1"
    page.goto("/judge")  # not the one that was skipped
    waited(page, 4)
    page.keyboard.press("u")  # after two reloads: the answer that was given last
    waited(page, 3)
    page.wait_for_selector("#state:text-is('Undone.')")
    assert [row["grade"] for row in history(store, item_id=task[2]["id"])] == [1, None]
    for number in (3, 4, 1):
        waited(page, number)
        page.keyboard.press("2")
        page.keyboard.press("Enter")
    page.wait_for_selector("#finished:not([hidden])")
    page.keyboard.press("Enter")
    waited(page, 1)
    assert not {each["id"] for each in items(page)} & {each["id"] for each in task}
    page.keyboard.press("ArrowLeft")  # back into the task before
    page.wait_for_url("**at=3")
    waited(page, 4)
    assert page.inner_text("#words") == task[3]["text"] and page.evaluate(CHECKED) == "2"
    page.keyboard.press("ArrowRight")
    waited(page, 1)
    assert page.evaluate(CHECKED) is None
    page.keyboard.press("u")  # of the task before: its last answer was to the first pair
    page.wait_for_selector("#state:text-is('Undone.')")
    assert page.inner_text("#words") == task[0]["text"]
    assert [row["grade"] for row in history(store, item_id=task[0]["id"])] == [2, None]


COVERED = """() => [
  ...document.querySelectorAll('#answer input:not([type=hidden]), #answer button, #words, #shown')
].filter((each) => {
  if (!each.checkVisibility()) return false;
  each.scrollIntoView({block: 'center'});
  const box = each.getBoundingClientRect();
  const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
  return !(top === each || each.contains(top) || top?.contains(each));
}).map((each) => each.outerHTML)"""
BELOW = """() => Math.max(...Array.from(
  document.querySelectorAll('.grades label, button[value=save]'), (each) => each.getBoundingClientRect().bottom))"""
CENTRE = """() => {
  const frame = document.querySelector('#shown');
  const { scrollLeft, clientWidth, scrollWidth, scrollTop, clientHeight, scrollHeight } = frame;
  return [(scrollLeft + clientWidth / 2) / scrollWidth, (scrollTop + clientHeight / 2) / scrollHeight];
}"""


@pytest.mark.parametrize("viewport", SIZES, ids=lambda size: str(size["width"]))
def test_nothing_is_covered_and_the_grades_are_to_be_seen_without_scrolling(judge, viewport):
    page = judge("covered", viewport=viewport)
    assert page.evaluate(BELOW) <= viewport["height"]
    page.keyboard.press("3")
    assert page.is_visible("#reasons")
    assert page.evaluate(COVERED) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


def test_zoom_is_about_the_centre_and_the_image_is_moved_by_dragging(judge):
    page = judge("zoom")
    page.keyboard.press("z")
    page.wait_for_selector("#judge.zoomed #picture[src*=full]")
    x, y = page.evaluate(CENTRE)
    assert abs(x - 0.5) < 0.02 and abs(y - 0.5) < 0.02
    box = page.locator("#shown").bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 140, box["y"] + 150, steps=3)
    page.mouse.up()
    moved = page.evaluate(CENTRE)
    assert moved[0] > x and moved[1] > y
    assert page.get_attribute("#zoom", "aria-pressed") == "true"


def test_the_guideline_is_read_first_and_again_when_it_changes_and_no_time_is_counted(judge, site):
    from limner.annotate.guideline import GuidelineExample, revise

    store = site.state.site.store
    page, sent = judge("reader", wait="#guide[open]", read=False), []
    page.on("request", lambda request: sent.append(request.post_data_json) if "/api/answers" in request.url else None)
    assert "100% no" in page.inner_text("#guide")
    page.keyboard.press("4")  # keys rest while it is read
    assert page.evaluate(CHECKED) is None
    page.clock.install()
    page.clock.fast_forward(60_000)
    page.click("#guide button:has-text('Begin')")
    page.wait_for_selector(LOOK)
    page.keyboard.press("4")
    page.keyboard.press("Enter")
    waited(page, 2)
    assert sent[0]["milliseconds"] < 60_000 and sent[0]["guideline"] == "1"
    reloaded(page, 2)
    assert page.locator("#guide[open]").count() == 0
    page.keyboard.press("h")
    page.wait_for_selector("#guide[open]")
    page.keyboard.press("Escape")
    image = websites.world().test.images.ids[0]
    revised = revise(store, "Look twice.", [GuidelineExample(image, "two boats", 3, "One of them is a ship.")])
    page.reload()
    page.wait_for_selector("#guide[open]:has-text('Look twice.')")
    assert "3 partially yes. One of them is a ship." in page.inner_text("#guide")
    page.click("#guide button:has-text('Begin')")
    waited(page, 2)
    page.keyboard.press("1")
    page.keyboard.press("Enter")
    page.wait_for_selector("#state:text-is('Saved.')")
    by_guideline = {a.guideline: a.grade for a in answers(store) if a.annotator == "reader"}
    assert by_guideline == {"1": 4, revised.version: 1}


def test_enter_begins_after_the_guideline_and_other_keys_rest(judge):
    page = judge("enter", wait="#guide[open]", read=False)
    page.keyboard.press("4")
    page.keyboard.press("Enter")
    page.wait_for_selector("#guide:not([open])", state="attached")
    page.wait_for_selector(LOOK)
    assert page.evaluate(CHECKED) is None and page.inner_text("#place") == "Pair 1 of 4"
    assert page.inner_text("#state") == "" and page.evaluate("scrollY") == 0, "the key did nothing else"
    page.reload()
    waited(page, 1)
    assert page.locator("#guide[open]").count() == 0, "it was read"


@pytest.mark.parametrize("viewport", [(640, 384), (720, 450), (195, 422)], ids=str)
def test_at_200_percent_zoom_the_photograph_stays_large(judge, viewport):
    """A window at 200% has half as many pixels of the page, each way."""
    width, height = viewport
    page = judge(f"zoomed {width}", viewport={"width": width, "height": height})
    picture = page.locator("#shown").bounding_box()
    assert picture["height"] >= 250
    if width > 600:
        grade = page.locator(".grades label").first.bounding_box()
        assert grade["y"] + grade["height"] <= height and picture["y"] + 200 <= height, "both are to be seen at once"
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_practice_gives_feedback_and_stores_nothing(judge, site):
    before = len(history(site.state.site.store))
    page = judge("learner", path="/practice", wait=".grades")
    for number in (1, 2, 3):
        assert page.inner_text("h1") == f"Practice: pair {number} of 3"
        page.click(".grades button >> nth=3")
        page.wait_for_selector(".feedback")
        page.click("a.main")
    page.wait_for_selector(LOOK)
    assert len(history(site.state.site.store)) == before


OWN = """
grades = [
  {label = "same", counts_as = "yes"},
  {label = "variant", counts_as = "weak yes"},
  {label = "other", counts_as = "no", key = "x", reasons = true},
]
reasons = [{label = "another colour", key = "c"}, {label = "blurred", key = "b"}]
"""


@pytest.fixture(scope="module")
def own_site(tmp_path_factory):
    """A site whose store has its own grades and reasons."""
    with websites.served(tmp_path_factory.mktemp("own"), tasks=4) as app:
        yield app


def test_own_grades_and_reasons_are_set_in_the_browser_and_answered_with_their_keys(judge, site, own_site):
    """The lead writes them into the form; the annotator presses their keys; the usual ones do nothing."""
    address = own_site.state.address
    lead = judge("lead", path=f"{address}/admin#scale", wait="#own-scale", read=False)
    lead.fill("#own-scale", OWN)
    lead.click("text=Save the grades and reasons")
    lead.wait_for_selector("#scale ul >> text=counts as weak yes")
    page = judge("own", path=f"{address}/judge", wait="#guide[open]", read=False)
    page.click("#guide button.main")
    page.wait_for_selector(LOOK)
    assert [words.split() for words in page.locator("#grades label").all_inner_texts()] == [
        ["X", "other"], ["2", "variant"], ["3", "same"],
    ]  # fmt: skip
    page.keyboard.press("4")
    page.keyboard.press("1")
    assert page.evaluate(CHECKED) is None
    page.keyboard.press("x")
    page.keyboard.press("b")
    page.keyboard.press("i")  # a built-in reason, which this store does not have
    page.keyboard.press("Enter")
    waited(page, 2)
    page.keyboard.press("?")
    table = page.inner_text("#keymap")
    assert "Reason: another colour" in table and "Variant" in table and "quantity" not in table
    page.keyboard.press("Escape")
    waited(page, 2)
    page.keyboard.press("3")
    page.keyboard.press("Enter")
    waited(page, 3)
    page.wait_for_selector("#state:text-is('Saved.')")
    graded = list(stored(own_site, "own").values())
    assert graded == [(1, ("blurred",)), (4, ())]


@pytest.mark.parametrize("viewport", SIZES[::2], ids=lambda size: str(size["width"]))
def test_the_lead_assigns_tasks_and_moves_what_is_not_finished(judge, own_site, viewport):
    names = [f"{name}{viewport['width']}" for name in ("amy", "ben")]
    for name in names:
        add_annotator(own_site.state.site.store, name)
    address = own_site.state.address
    lead = judge("lead", path=f"{address}/admin#assigned", wait="#assign-to", read=False, viewport=viewport)
    lead.select_option("#assign-to", label=names[0])
    lead.click("button[value=assign]")
    row = lead.locator("tr", has=lead.locator(f"th:text-is('{names[0]}')"))
    row.wait_for()
    assert row.inner_text().split() == [names[0], "1", "0", "1"]
    page = judge(names[0], path=f"{address}/judge", wait="#guide[open]", read=False)
    assert "1 task assigned to you is left." in page.inner_text("#answer")
    lead.select_option("#unfinished", label=f"{names[0]} (1)")
    lead.select_option("#move-to", label=names[1])
    lead.click("button[value=move]")
    lead.wait_for_selector(f"th:text-is('{names[1]}')")
    assert lead.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert lead.evaluate("document.querySelector('#assigned .scroll').scrollWidth <= innerWidth")
    page = judge(names[1], path=f"{address}/judge", wait="#guide[open]", read=False)
    assert "1 task assigned to you is left." in page.inner_text("#answer")
