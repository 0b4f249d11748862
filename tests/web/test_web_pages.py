"""What the pages say is what the library says: search, corrections, side by side, failures, the effect of answers."""

from __future__ import annotations

import io
import re
import zipfile

import numpy as np
import pytest
from starlette.testclient import TestClient

import limner
import websites
from limner.annotate.store.answers import answers
from limner.annotate.store.exclusions import exclude
from limner.explain.failures import failures
from websites import judged, patient, words

IMAGE = re.compile(r'alt="Image ([^",]+), rank (\d+)')


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return websites.client(websites.filled(tmp_path_factory.mktemp("pages") / "answers.db"))


@pytest.fixture(scope="module")
def scores():
    world = websites.world()
    return limner.train(world, "colours").scores(world.test)


def listed(reply):
    """The images of each column in order."""
    columns = reply.text.split('<section class="column"')[1:]
    return [[key for key, _ in IMAGE.findall(column)] for column in columns]


def test_the_first_page_loads_no_collection(tmp_path):
    visitor = websites.client(tmp_path / "answers.db", fresh=True)
    assert visitor.get("/").status_code == 200
    assert not visitor.app.state.site.library.jobs.ready(("collection", "scenes"))
    assert not (tmp_path / "answers.db").exists()


def parts(collection):
    from limner.systems.opening import find_system
    from limner.web.library import Loaded

    loaded = Loaded(collection, [find_system("colours")])
    return [set(each.images.ids) for each in (loaded.training, loaded.evaluated)]


@pytest.mark.parametrize(
    "splits",
    [
        ("train", "dev", "test"),
        ("test",),
        ("train",),
        ("train", "dev"),
        (),
    ],
)
def test_what_is_learned_from_is_never_searched_or_measured(splits):
    world = websites.world()
    kept = {name: world.splits[name] for name in splits}
    part = limner.Collection("part", world.images, world.texts, world.judgements, kept, world.extra)
    training, evaluated = parts(part)
    assert training and evaluated and not training & evaluated
    if "train" in splits:
        assert training == set(world.splits["train"])


def test_a_train_split_of_everything_is_divided():
    """Nothing is left outside of it, so a part of it is held out, and not learned from."""
    world = websites.world()
    splits = {"train": list(world.images.ids)}
    training, evaluated = parts(limner.Collection("all", world.images, world.texts, world.judgements, splits))
    assert training and evaluated and not training & evaluated


def test_a_test_split_of_everything_leaves_nothing_to_train_on():
    world = websites.world()
    splits = {"test": list(world.images.ids)}
    with pytest.raises(limner.LimnerError, match="is in the split 'test': expected some that are not, to train on"):
        parts(limner.Collection("all", world.images, world.texts, world.judgements, splits))


def test_a_few_images_are_refused_as_the_shell_does(tmp_path):
    """Trained and measured on the same nine images, a page would show numbers that mean nothing."""
    from limner.web import make_app

    world = websites.world().restrict(websites.world().images.ids[:9])
    app = make_app([world], systems=("colours",), store=tmp_path / "a.db")
    visitor = TestClient(app, base_url="http://localhost", follow_redirects=False)
    for page in (f"/compare?c={world.name}", f"/failures?c={world.name}"):
        reply = patient(visitor, page)
        assert "9 images and no splits: expected at least 10" in words(reply), page


def test_words_find_the_images_that_the_scores_put_first(site, scores):
    texts = websites.world().test.texts
    for row in (1, 7, 31):
        reply = patient(site, "/search", params={"q": texts.values[row], "k": 8, "split": "held-out"})
        expected = scores.T.top(8)[texts.ids[row]]
        assert listed(reply) == [expected]
        assert "labelled pairs are framed" in reply.text


def test_an_image_finds_the_words_that_the_scores_put_first(site, scores):
    world = websites.world().test
    image = world.images.ids[3]
    found = patient(site, "/api/search", params={"image": image, "k": 6, "split": "held-out"}).json()
    assert [answer["id"] for answer in found["columns"][0]["answers"]] == scores.top(6)[image]
    assert found["direction"] == "i2t"


def test_a_picture_of_ones_own_is_encoded(site, scores):
    """The picture of an image of the collection finds nearly the words of that image: JPEG changes it a little."""
    world = websites.world().test
    out = io.BytesIO()
    world.images.open(2).save(out, "PNG")
    reply = site.post("/search", files={"file": ("x.png", out.getvalue())}, data={"k": "10", "split": "held-out"})
    page = patient(site, reply.headers["location"])
    nearest = scores.top(10)[world.images.ids[2]]
    page_text = [text for key in nearest if (text := world.texts.values[world.texts.ids.index(key)]) in words(page)]
    assert len(page_text) >= 5


def test_a_correction_stands_beside_the_plain_scores(site, scores):
    """The bank is the captions that were learned from, as `scores.correct(bank=...)` takes it."""
    world = websites.world()
    text = world.test.texts.ids[4]
    model = limner.train(world, "colours")
    bank = model.encode_texts(world.train.texts)
    query = {"q": world.test.texts.values[4], "fix": "csls", "k": 12, "split": "held-out"}
    found = patient(site, "/api/search", params=query).json()
    plain, corrected = ([answer["id"] for answer in column["answers"]] for column in found["columns"])
    assert plain == scores.T.top(12)[text]
    assert corrected == scores.T.correct("csls", bank=bank).top(12)[text]
    before = [answer["before"] for answer in found["columns"][1]["answers"]]
    assert [plain[place - 1] for place in before] == corrected


def test_the_address_carries_the_whole_question(site):
    address = "/search?q=two+dogs&s=colours&fix=nnn&k=5"
    page = patient(site, address).text
    assert 'value="two dogs"' in page
    assert "<option selected>nnn</option>" in page
    assert re.search('value="colours"[^>]* checked', page)
    assert listed(patient(site, address)) == listed(patient(site, address))


def test_side_by_side_shows_the_numbers_of_evaluate(site, scores):
    page = words(patient(site, "/compare"))
    report = limner.evaluate(scores, websites.world().test, measures="R@1 R@5 R@10 mAP@R")
    ways = {"i2t": "image → text", "t2i": "text → image"}
    for result in report.results:
        row_text = f"{result.view} {ways[result.direction]} {result.measure} {result.measure.show(result.value)}"
        assert row_text in page, row_text


def test_collections_stand_side_by_side(tmp_path):
    from starlette.testclient import TestClient

    from limner.web import make_app

    world = websites.world()
    half = limner.Collection("half", world.images, world.texts, world.judgements, world.splits)
    app = make_app([world, half], systems=("colours",), store=tmp_path / "a.db")
    visitor = TestClient(app, base_url="http://localhost")
    page = patient(visitor, "/compare?c=scenes&c=half")
    assert page.text.count("<caption") == 2
    assert (
        page.text.count('<span class="under">complete ') == 8
    )  # four measures in two directions, of the one that has them
    with pytest.raises(limner.LimnerError, match="two collections are called"):
        make_app([world, world], store=tmp_path / "a.db")


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_every_failure_is_there_and_drawn(site, scores, direction):
    test_part = websites.world().test
    expected = failures(scores.T if direction == "t2i" else scores, test_part)
    answer = patient(site, "/api/failures", params={"d": direction, "k": 200}).json()
    assert [each["query"] for each in answer["listed"]] == [failure.query for failure in expected]
    first = patient(site, "/failure", params={"query": expected[0].query, "d": direction})
    assert first.text.count('<svg class="drawn"') == 2
    drawn = first.text.count("<rect ")
    boxes = [
        len(test_part.images.field("objects")[test_part.images.ids.index(i)])
        for i in (expected[0].truth, expected[0].returned)
    ]
    assert drawn == sum(boxes)


def test_failures_of_a_class_are_those_counted(site):
    answer = patient(site, "/api/failures").json()
    for name, count in answer["classes"].items():
        assert patient(site, "/api/failures", params={"class": name}).json()["failures"] == count


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_failures_have_the_rank_of_the_truth_and_the_farthest_come_first(site, scores, direction):
    """Against a slow count: how many candidates score higher than the best relevant one."""
    test_part = websites.world().test
    scored = scores.T if direction == "t2i" else scores
    right = test_part.judged(test_part.judgements.name, direction)
    matrix = np.asarray(scored.matrix())
    ranks = {}
    for query, row in zip(scored.queries, matrix, strict=True):
        relevant = [n for n, key in enumerate(scored.candidates) if (right.grade(query, key) or 0) > 0]
        ranks[query] = 1 + sum(value > max(row[n] for n in relevant) for value in row)
    answer = patient(site, "/api/failures", params={"d": direction, "k": 200, "order": "far"}).json()["listed"]
    assert [each["distance"]["rank"] for each in answer] == [ranks[each["query"]] for each in answer]
    shown = [each["distance"]["rank"] for each in answer]
    assert shown == sorted(shown, reverse=True) and min(shown) > 1
    assert all(each["distance"]["truth"] <= each["distance"]["returned"] for each in answer)
    page = patient(site, "/failures", params={"d": direction})
    assert f"truth at rank <strong>{shown[0]}</strong>" in page.text
    word = answer[0]["text"].split()[-1]
    some = patient(site, "/api/failures", params={"d": direction, "q": word, "k": 200}).json()["listed"]
    assert [each["query"] for each in some] == [
        each["query"]
        for each in patient(site, "/api/failures", params={"d": direction, "k": 200}).json()["listed"]
        if word.lower() in each["text"].lower()
    ]


def test_a_collection_without_objects_explains_failures_from_captions(tmp_path):
    world = websites.world()
    bare = limner.Items(world.images.ids, world.images.values)
    plain = limner.Collection("plain", bare, world.texts, world.judgements, world.splits)
    from starlette.testclient import TestClient

    from limner.web import make_app

    visitor = TestClient(make_app([plain], systems=("colours",), store=tmp_path / "a.db"), base_url="http://localhost")
    first = patient(visitor, "/api/failures?order=far&k=1").json()["listed"][0]
    page = words(patient(visitor, "/failure", params={"query": first["query"]}))
    assert "from the captions of both images" in page and "only the truth shows" in page
    counted = patient(visitor, "/api/failures").json()["classes"]
    for name, count in counted.items():
        assert patient(visitor, "/api/failures", params={"class": name}).json()["failures"] == count
    assert sum(counted.values()) == patient(visitor, "/api/failures").json()["failures"]
    assert patient(visitor, "/failures", params={"class": "colour"}).status_code == 404  # a class of annotated objects
    own_captions = [t for i, t, grade in world.judgements if i == first["returned"] and grade > 0]
    caption = world.texts.values[world.texts.ids.index(own_captions[1])]
    assert " ".join(re.sub("<[^>]+>", " ", caption).split()[-3:]) in page


def test_scores_of_ones_own_answer_captions_of_the_collection(tmp_path, scores):
    from starlette.testclient import TestClient

    from limner.web import make_app

    np.save(tmp_path / "mine.npy", scores.matrix())
    test_part = websites.world().test
    app = make_app([websites.world()], systems={}, matrices={"mine": tmp_path / "mine.npy"}, store=tmp_path / "a.db")
    visitor = TestClient(app, base_url="http://localhost")
    answer = patient(visitor, "/api/search", params={"q": test_part.texts.values[9], "k": 5, "fix": "csls"}).json()
    assert [a["id"] for a in answer["columns"][0]["answers"]] == scores.T.top(5)[test_part.texts.ids[9]]
    assert patient(visitor, "/api/search", params={"q": "words that nobody wrote"}).status_code == 400
    page = patient(visitor, "/search", params={"q": test_part.texts.values[9]})
    assert f"{len(test_part.images)} images searched, exactly" in words(page)
    refused = words(patient(visitor, "/search", params={"q": test_part.texts.values[9], "split": "train"}))
    assert f"mine has scores of {len(test_part.images)} images only" in refused and str(tmp_path) not in refused


def test_scores_of_the_whole_collection_are_searched_whole(tmp_path):
    from starlette.testclient import TestClient

    from limner.web import make_app

    world = websites.world()
    all_scores = limner.train(world, "colours").scores(world)
    np.save(tmp_path / "mine.npy", all_scores.matrix())
    app = make_app([world], systems={}, matrices={"mine": tmp_path / "mine.npy"}, store=tmp_path / "a.db")
    visitor = TestClient(app, base_url="http://localhost")
    (column,) = patient(visitor, "/api/search", params={"q": world.texts.values[9], "k": 5}).json()["columns"]
    assert [answer["id"] for answer in column["answers"]] == all_scores.T.top(5)[world.texts.ids[9]]
    assert column["searched"] == f"{len(world.images)} images searched, exactly"


def test_a_promise_is_calibrated_with_queries_about_images_that_are_new_to_the_system(tmp_path, monkeypatch):
    """Captions that a system was trained on are found too easily: they promise what new ones do not keep."""
    from limner.search import cut_off as search

    calibrated = []
    calibrate = search.calibrate
    monkeypatch.setattr(
        search,
        "calibrate",
        lambda scores, *given, **more: calibrated.append(scores) or calibrate(scores, *given, **more),
    )
    visitor = websites.client(tmp_path / "a.db", images=240)
    patient(visitor, "/search?q=dog&sure=50")
    collection = websites.world(240)
    new = set(collection.texts.ids) - set(collection.train.texts.ids)
    (scores,) = calibrated
    assert set(scores.queries) == new and set(scores.candidates) == set(collection.images.ids)
    refused = words(patient(visitor, "/search?q=dog&sure=50&split=train"))
    assert "colours was trained on all of these images" in refused


def test_pictures_are_remembered_and_not_sent_twice(site):
    address = f"/image?id={websites.world().images.ids[0]}&size=thumb"
    first = patient(site, address)
    assert first.headers["content-type"] in ("image/webp", "image/jpeg")
    assert site.get(address, headers={"if-none-match": first.headers["etag"]}).status_code == 304


def test_what_takes_long_says_how_far_it_is(tmp_path, monkeypatch):
    import threading

    from limner.web import library

    visitor = websites.client(tmp_path / "answers.db", fresh=True)
    gate = threading.Event()
    trained = library.ready_system
    monkeypatch.setattr(library, "ready_system", lambda *given, **told: gate.wait(30) and trained(*given, **told))
    waiting = visitor.get("/search?q=dog")
    assert waiting.status_code == 202
    assert "training colours" in waiting.text
    assert 'value="dog"' in waiting.text and "data-live" in waiting.text and 'href="/compare"' in waiting.text
    assert visitor.get("/compare").status_code == 202
    assert visitor.get("/api/search?q=dog").json()["pending"].startswith("training colours")
    gate.set()
    assert patient(visitor, "/search?q=dog").status_code == 200


def test_a_failure_to_load_is_said_and_can_be_mended(tmp_path, monkeypatch):
    from limner.web import library

    visitor = websites.client(tmp_path / "answers.db", fresh=True)

    def broken(*_, **__):
        raise limner.LimnerError("the model is damaged: save it again")

    with monkeypatch.context() as patch:
        patch.setattr(library, "ready_system", broken)
        assert "the model is damaged" in patient(visitor, "/search?q=dog").text
    assert "the model is damaged" not in patient(visitor, "/search?q=dog").text


# --- judging ----------------------------------------------------------------------------------------------------


def test_agreement_review_export_and_effect(tmp_path):
    """Two people judge the same pairs; the admin's page shows alpha as the library computes it."""
    visitor = websites.client(websites.filled(tmp_path / "answers.db", tasks=1, size=6))
    judged(visitor, "one", [4, 4, 1, 2, 3, 1])
    judged(visitor, "two", [4, 3, 1, 2, 3, 2])
    store = visitor.app.state.site.store
    from limner.annotate.quality import agreement

    expected = agreement(answers(store), samples=300)
    page = words(websites.settled(visitor))
    assert f"alpha {expected.alpha:.2f} ( {expected.low:.2f}".replace("( ", "(") in page.replace("( ", "(")
    assert "12 of 12" in page
    effect = words(patient(visitor, "/admin/effect"))
    assert "Of 6 judged pairs" in effect
    for form, lines in (("csv", 13), ("jsonl", 12), ("qrels", 6), ("crowd", 6)):
        file = visitor.get(f"/admin/export?form={form}")
        assert len(file.text.splitlines()) == lines, form
        assert "attachment" in file.headers["content-disposition"]
    packed = zipfile.ZipFile(io.BytesIO(visitor.get("/admin/export?form=eccv").content))
    assert len(packed.namelist()) == 2
    assert visitor.get("/admin/export?form=../x").status_code == 404


def test_the_effect_of_answers_is_what_evaluate_says_of_the_merged_judgements(tmp_path, scores):
    visitor = websites.client(websites.filled(tmp_path / "answers.db", tasks=1, size=6, replication=1))
    judged(visitor, "one", [4] * 6)
    test_part = websites.world().test
    from limner.annotate.merge import by_majority, merge

    joined = merge(by_majority(answers(visitor.app.state.site.store)), test_part.judgements).judgements
    new = limner.Collection("new", test_part.images, test_part.texts, joined)
    report = limner.evaluate(scores, new, measures="R@10")
    page = words(patient(visitor, "/admin/effect"))
    old = limner.evaluate(scores, test_part, measures="R@10")
    for before, after in zip([r for r in old.results if r.view == "pairs"], report.results, strict=True):
        show = before.measure.show
        changed = before.measure.show_change(after.value - before.value)
        assert f"R@10 {show(before.value)} {show(after.value)} {changed}" in page


def test_a_change_is_that_of_the_numbers_not_of_their_rounded_text():
    """33.34 and 33.46 print as 33.3 and 33.5; they differ by 0.1."""
    from limner.evaluation.measures import Measure
    from limner.evaluation.results import Result
    from limner.web.answer_effect import change

    ids = limner.Ids("ab", what="query")
    before, after = (Result("v", "i2t", Measure("R", 1), ids, np.full(2, v)) for v in (0.3334, 0.3346))
    row = change("ours", before, after)
    assert (row.before, row.after, row.change) == ("33.3", "33.5", "+0.1")
    lost, never_right = (Result("v", "i2t", Measure("MeanR"), ids, np.full(2, v)) for v in (np.inf, np.inf))
    assert change("ours", lost, never_right).change == "–"


def test_an_annotator_is_set_aside_with_a_reason_and_put_back(tmp_path):
    visitor = websites.client(websites.filled(tmp_path / "answers.db", tasks=1, size=4))
    judged(visitor, "one", [1, 1, 1, 1])
    store = visitor.app.state.site.store
    from limner.annotate.store.people import by_name

    number = str(by_name(store, "one").id)
    assert visitor.post("/admin/aside", data={"annotator": number, "reason": ""}).status_code == 400
    assert visitor.post("/admin/aside", data={"annotator": number, "reason": "too quick"}).status_code == 303
    assert answers(store) == []
    page = visitor.get("/admin").text
    assert "too quick" in page
    lift = re.search(r'name="lift" value="(\d+)"', page)[1]
    assert visitor.post("/admin/aside", data={"lift": lift}).status_code == 303
    assert len(answers(store)) == 4


def test_progress_does_not_wait_for_the_answers_to_be_compared(tmp_path, monkeypatch):
    """With many answers that takes seconds: the page comes without it, and later with what is known so far."""
    import threading

    from limner.annotate import overview
    from limner.web import admin

    visitor = websites.client(websites.filled(tmp_path / "answers.db", tasks=1, size=4))
    may_go, compared = threading.Event(), []

    def slow(given, **more):
        may_go.wait(60)
        compared.append(len(given))
        return real(given, **more)

    real = overview.agreement
    monkeypatch.setattr(overview, "agreement", slow)
    monkeypatch.setattr(admin, "NOTICED", 0.05)
    judged(visitor, "one", [4, 4, 1, 2])
    judged(visitor, "two", [4, 3, 1, 2])
    first = visitor.get("/admin")
    assert "being compared" in first.text
    assert 'data-live="2"' in first.text
    assert "8 of 8" in words(first), "how far it is is known at once"
    visitor.get("/admin")
    may_go.set()
    assert "Krippendorff's alpha" in words(websites.settled(visitor))
    visitor.get("/admin")
    assert compared == [8], "nothing is compared twice"
    may_go.clear()
    exclude(visitor.app.state.site.store, "image", answers(visitor.app.state.site.store)[0].image, reason="blurred")
    older = visitor.get("/admin")
    assert "This is of 8 answers, with controls; newer ones are being compared" in words(older)
    assert "data-live" not in older.text
    may_go.set()
    websites.settled(visitor)
    assert compared == [8, 6]


def test_a_task_in_progress_cannot_be_rejected(tmp_path):
    visitor = websites.client(websites.filled(tmp_path / "answers.db", tasks=1, size=4, replication=1))
    visitor.cookies.set("limner_name", "one")
    task = visitor.post("/api/task", json={}).json()["task"]
    form = {"assignment": task["assignment"], "decision": "reject", "reason": "x"}
    assert visitor.post("/admin/review", data=form).status_code == 400
    for item in task["items"]:
        body = {"item": item["id"], "key": f"key-{item['id']:08d}", "grade": 4}
        assert visitor.post("/api/answers", json=body).status_code == 200
    assert visitor.post("/admin/review", data=form).status_code == 303


def test_tasks_and_a_study_are_made_on_the_page_and_voted_on(tmp_path):
    from starlette.testclient import TestClient

    from limner.annotate.preference import votes
    from limner.annotate.store.contents import pairs as pairs_of
    from limner.web import make_app

    app = make_app([websites.world()], systems=("colours", "histograms"), store=tmp_path / "a.db")
    visitor = TestClient(app, base_url="http://localhost", follow_redirects=False)
    assert visitor.post("/admin/tasks", data={"pairs": "18", "people": "1"}).status_code == 303
    finished(visitor, "1 task created of 18 pairs")
    assert len(visitor.post("/api/task", json={}).json()["task"]["items"]) == 20
    assert len(pairs_of(app.state.site.store)) == 20, "18 pairs that were asked for, and two controls"
    for pairs, message in (
        ("18", "1 task created of 18 pairs"),
        ("1000", "tasks created of "),
        ("18", "no pair is left"),
    ):
        assert visitor.post("/admin/tasks", data={"pairs": pairs, "people": "1"}).status_code == 303
        finished(visitor, message)
    assert visitor.post("/admin/study", data={"queries": "3"}).status_code == 303
    finished(visitor, "comparisons made")
    page = visitor.get("/study").text
    assert "histograms" not in page.partition("<main")[2], "names of systems must not be shown"
    fields = dict(re.findall(r'name="(question|key)" value="([^"]+)"', page))
    for _ in range(2):
        assert visitor.post("/study", data={**fields, "choice": "left"}).status_code == 303
    assert len(votes(app.state.site.store)) == 1


def finished(visitor, text):
    import time

    for _ in range(400):
        page = visitor.get("/admin").text
        assert 'class="error"' not in page
        if text in page:
            return
        time.sleep(0.05)
    raise AssertionError(text)


def test_what_a_person_may_be_told_of_a_lost_lease(tmp_path):
    """A task that went to somebody else answers 409, which the page shows and does not call saved."""
    visitor = websites.client(websites.filled(tmp_path / "answers.db", tasks=1, size=4, replication=1))
    store = visitor.app.state.site.store
    visitor.cookies.set("limner_name", "slow")
    item = visitor.post("/api/task", json={}).json()["task"]["items"][0]["id"]
    clock = store.clock
    store.clock = lambda: clock() + 7200
    visitor.cookies.clear()
    judged(visitor, "quick", [4, 4, 4, 4])
    visitor.cookies.clear()
    visitor.cookies.set("limner_name", "slow")
    reply = visitor.post("/api/answers", json={"item": item, "key": "too-late-1", "grade": 1})
    assert reply.status_code == 409
    assert "someone else" in reply.json()["error"]


def test_without_scripts_back_and_next_cross_the_tasks_of_a_person(tmp_path):
    visitor = websites.client(websites.filled(tmp_path / "answers.db", size=2, replication=1))
    judged(visitor, "mine", [4, 1])
    last = visitor.get("/judge?at=1")
    assert "Pair 2 of 2" in last.text
    local = {name: re.search(f'name="{name}" value="([^"]*)"', last.text)[1] for name in ("item", "at", "assignment")}
    first = {**local, "at": "0", "act": "back"}
    location = visitor.post("/judge", data=first).headers["location"]
    earlier = visitor.get(location)
    assert "Pair 2 of 2" in earlier.text and re.search(r'value="1" checked', earlier.text)
    number = re.search('name="assignment" value="([^"]*)"', earlier.text)[1]
    assert number != local["assignment"]
    again = visitor.post("/judge", data={**local, "at": "1", "assignment": number, "act": "next"}).headers["location"]
    assert again == f"/judge?assignment={local['assignment']}&at=0"
    stranger = websites.browser(visitor)
    stranger.cookies.set("limner_name", "other")
    assert stranger.get(f"/judge?assignment={number}").status_code == 403
