"""The crowd form of Flickr8k (Hodosh et al. 2013, section 4.3.2): six images, ten captions each, controls from dev."""

from __future__ import annotations

import html
import json
import re
from itertools import groupby

import pytest
from typer.testing import CliRunner

import limner
from limner.annotate.store import open_store
from limner.annotate.store.answers import answers
from limner.annotate.store.contents import add_collection, pairs
from limner.annotate.store.people import add_annotator
from limner.annotate.store.tasks import add_tasks, lease
from limner.annotate.tasks import NO, YES, blocks, crowd_form, make_caption_tasks, submit_block
from limner.cli import app
from limner.core.errors import LimnerError

WORLD = ("scenes", "-O", "images=60")


def run(*args, status=0):
    done = CliRunner().invoke(app, ["annotate", *map(str, args)])
    assert done.exit_code == status, done.output
    return done.stdout if status == 0 else done.output


@pytest.fixture(scope="module")
def world():
    return limner.load("scenes", images=60)


@pytest.fixture
def store(tmp_path, world):
    """Two tasks of the test images, with controls of the dev images."""
    test, dev = world.test, world.dev
    pool = [(image, text) for image in test.images.ids[:10] for text in test.texts.ids[:7]]
    with open_store(tmp_path / "work.db") as opened:
        add_collection(opened, test, spec="scenes")
        add_collection(opened, dev, spec="scenes")
        add_tasks(opened, make_caption_tasks(pool, test.judgements, controls=dev.judgements, seed=3))
        yield opened


def test_six_images_with_ten_captions_one_of_them_a_control_of_dev(world, store):
    assignment = lease(store, add_annotator(store, "ada").id)
    task_blocks = blocks(assignment.items)
    assert [len(block) for block in task_blocks] == [10] * 6
    controls = [block for block in task_blocks if block[0].image in world.dev.images.ids]
    assert len(controls) == 1
    right = [world.dev.judgements.grade(i.image, i.caption) for i in controls[0]]
    assert 1 <= sum(bool(grade) for grade in right) <= 3
    assert all(item.caption in world.dev.texts.ids for item in controls[0])
    for block in task_blocks:
        if block is not controls[0]:
            assert all(item.caption in world.test.texts.ids for item in block)


def test_ticks_are_yes_and_the_rest_no_under_a_guideline_of_their_own(store):
    annotator = add_annotator(store, "ada").id
    assignment = lease(store, annotator)
    finished = []
    for number, block in enumerate(blocks(assignment.items)):
        ticked = [item.id for item in block[:number]]
        for _ in range(2):  # sent again, nothing changes
            finished.append(submit_block(store, annotator, block, ticked, key=f"block-{number:04}", milliseconds=1000))
    stored = answers(store)
    assert len(stored) == 60
    assert {a.guideline for a in stored} == {crowd_form().guideline} and {a.milliseconds for a in stored} == {100}
    assert [a.grade for a in stored].count(YES) == 0 + 1 + 2 + 3 + 4 + 5
    assert {a.grade for a in stored} == {YES, NO}
    assert finished == [False] * 10 + [True] * 2
    with pytest.raises(LimnerError, match="does not belong to this image"):
        submit_block(store, annotator, blocks(assignment.items)[0], [blocks(assignment.items)[1][0].id], key="block-x")


def test_an_image_with_many_captions_is_once_in_a_task(world):
    """Six different images, as in the paper; the page shows the ten captions of each."""
    test, dev = world.test, world.dev
    pool = [(image, text) for image in test.images.ids[:4] for text in test.texts.ids[:33]]
    pool += [(image, text) for image in test.images.ids[4:8] for text in test.texts.ids[:7]]
    drafts = make_caption_tasks(pool, test.judgements, controls=dev.judgements, seed=3)
    block_sizes = [
        [len(list(block)) for _, block in groupby(draft.items, key=lambda pair: pair.image)] for draft in drafts
    ]
    assert all(each == [10] * len(each) for each in block_sizes)
    assert all(
        len({pair.image for pair in draft.items}) == len(each) for draft, each in zip(drafts, block_sizes, strict=True)
    )
    assert sum(len(each) - 1 for each in block_sizes) == 4 * 4 + 4 and max(map(len, block_sizes)) == 6


def test_controls_can_be_of_the_pool_too_and_too_few_are_refused(world):
    test = world.test
    pool = [(image, test.texts.ids[0]) for image in test.images.ids[:5]]
    (draft,) = make_caption_tasks(pool, test.judgements, images=6)
    by_image = [image for image, _ in groupby(draft.items, key=lambda item: item.image)]
    assert len(by_image) == len(set(by_image)) == 6
    for sizes in ({"images": 1}, {"captions": 1}):
        with pytest.raises(LimnerError, match="expected at least 2"):
            make_caption_tasks(pool, test.judgements, **sizes)
    none = test.judgements.restrict(queries=test.images.ids, candidates=[])
    with pytest.raises(LimnerError, match="to use as controls"):
        make_caption_tasks(pool, test.judgements, controls=none)


# --- the shell --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pooled(tmp_path_factory):
    """A store with a pool, as a file to copy."""
    path = tmp_path_factory.mktemp("pooled") / "work.db"
    run("pool", path, *WORLD, "--model", "colours", "--depth", 2, "-O", "keep=4")
    with open_store(path) as opened:  # so that all of it is in one file
        opened.rows(__import__("sqlalchemy").text("PRAGMA wal_checkpoint(TRUNCATE)"))
    return path.read_bytes()


def test_tasks_of_the_form_from_the_shell_with_controls_from_dev(tmp_path, pooled, world):
    path = tmp_path / "work.db"
    path.write_bytes(pooled)
    added = json.loads(run("tasks", path, "--form", "captions", "-O", "controls=dev", "--people", 3, "--json"))
    assert added["form"] == "captions" and added["replication"] == 3
    with open_store(path) as store:
        golden = {p.image for p in pairs(store) if p.origin == "control"}
        assert golden and golden <= set(world.dev.images.ids)
        assert store.setting("collection")["name"] == "scenes/test"
        assert {len(block) for block in blocks(lease(store, add_annotator(store, "ada").id).items)} == {10}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--form", "captions", "-O", "pooled=5"), "-O pooled is for --form pairs"),
        (("--form", "captions", "-O", "positives=1"), "-O positives is for --form pairs"),
        (("--form", "captions", "-O", "negatives=0"), "-O negatives is for --form pairs"),
        (("-O", "images=6"), "-O images is for --form captions"),
        (("-O", "captions=10"), "-O captions is for --form captions"),
        (("-O", "controls=dev"), "-O controls is for --form captions"),
        (("--form", "boxes"), "unknown form of tasks"),
        (("--form", "captions", "-O", "controls=nosuch"), "unknown split"),
    ],
)
def test_options_of_the_other_form_are_refused(tmp_path, pooled, options, words):
    path = tmp_path / "work.db"
    path.write_bytes(pooled)
    done = CliRunner().invoke(app, ["annotate", "tasks", str(path), *map(str, options)])
    assert done.exit_code in (2, 3) and words in " ".join(done.output.split()).replace("│ ", "")


# --- the page ---------------------------------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path, store, world):
    from starlette.testclient import TestClient

    from limner.web import make_app

    app = make_app([world], systems=(), store=tmp_path / "work.db")
    return TestClient(app, base_url="http://localhost", follow_redirects=False)


def _fields(page):
    return dict(re.findall(r'name="(assignment|image|key)" value="([^"]+)"', page))


def test_one_image_with_ten_boxes_and_the_guideline_is_shown_and_saved(site, store):
    images = []
    for number in range(6):
        page = site.get("/judge", follow_redirects=True).text
        boxes = re.findall(r'name="fits" value="(\d+)"', page)
        assert len(boxes) == 10 and "Minor mistakes are allowed" in page and f"Image {number + 1} of 6" in page
        images.append(html.unescape(_fields(page)["image"]))
        sent = {**_fields(page), "fits": boxes[:2]}
        for _ in range(2):
            assert site.post("/captions", data=sent).status_code == 303
    stored = answers(store)
    assert len(stored) == 60 and sum(a.grade == YES for a in stored) == 12
    assert len(set(images)) == 6
    assert [a.image for a in stored[::10]] == images
    assert "Image 1 of" in site.get("/judge", follow_redirects=True).text  # the next task
    assert "checked" not in site.get("/judge", follow_redirects=True).text


def test_one_may_go_back_and_the_ticks_are_shown(site, store):
    page = site.get("/judge", follow_redirects=True).text
    boxes = re.findall(r'name="fits" value="(\d+)"', page)
    assert site.post("/captions", data={**_fields(page), "fits": boxes[:3]}).status_code == 303
    assert 'href="/captions?at=0"' in site.get("/captions").text
    back = site.get("/captions?at=0").text
    assert re.findall(r'value="(\d+)" checked', back) == boxes[:3]
    assert site.get("/judge?at=0").headers["location"] == "/captions?at=0"


def test_bad_forms_are_refused_and_leave_nothing(site, store):
    good = _fields(site.get("/judge", follow_redirects=True).text)
    bad = [
        {},
        {**good, "assignment": "999"},
        {**good, "assignment": "1; DROP TABLE judgement"},
        {**good, "image": "<script>"},
        {**good, "key": "x"},
        {**good, "fits": ["999999"]},
        {**good, "fits": ["-1"]},
        {**good, "fits": ["' OR 1=1"]},
    ]
    for fields in bad:
        assert site.post("/captions", data=fields).status_code in (400, 403, 404, 409, 422), fields
    assert answers(store) == []
