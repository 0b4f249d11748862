"""Search on the page: what is alike, splits, an index, unknown words, details, and waiting."""

from __future__ import annotations

import html
import re
import threading

import numpy as np
import pytest
from starlette.testclient import TestClient

import limner
import websites
from limner.search.item_texts import with_captions
from limner.web import make_app
from websites import patient, words

IMAGE = re.compile(r'alt="Image ([^",]+), rank (\d+)')


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return websites.client(tmp_path_factory.mktemp("search") / "answers.db")


@pytest.fixture(scope="module")
def model():
    return limner.train(websites.world().train, "colours")


@pytest.fixture(scope="module")
def indexed(tmp_path_factory, model):
    """A site that serves an index of all images and one of all texts, and no collection."""
    world, folder = websites.world(), tmp_path_factory.mktemp("indexes")
    model.save(folder / "model")
    for name, items in (("photos", world.images), ("captions", world.texts)):
        made = model.encode_images(items) if name == "photos" else model.encode_texts(items)
        limner.search.index(
            folder / f"{name}.index",
            made,
            items,
            system=model,
            system_name=str(folder / "model"),
            model_label="colours",
        )
    paths = [str(folder / f"{name}.index") for name in ("photos", "captions")]
    app = make_app([], systems=(), store=folder / "answers.db", indexes=paths)
    return TestClient(app, base_url="http://localhost", follow_redirects=False)


def answers_of(visitor, **query):
    """Ids of the answers of the one column, best first."""
    reply = patient(visitor, "/api/search", params=query)
    assert reply.status_code == 200, reply.text
    (column,) = reply.json()["columns"]
    return [answer["id"] for answer in column["answers"]]


def test_a_word_that_the_system_does_not_know_is_named(site, model):
    known = model.bag.vocabulary[-1]
    page = words(patient(site, f"/search?q=xyzzy {known}"))
    assert "xyzzy : not in the vocabulary" in page
    assert f"{known} : not in" not in page
    assert "not in the vocabulary" not in words(patient(site, f"/search?q={known}"))
    for by in ("words", "hybrid"):  # words are looked up in the captions, not in the vocabulary of the system
        assert "not in the vocabulary" not in words(patient(site, f"/search?q=xyzzy {known}&by={by}"))


@pytest.mark.parametrize("kind", ["images", "texts"])
def test_what_is_alike_is_what_the_vectors_say_without_itself(site, model, kind):
    world = websites.world()
    items = world.images if kind == "images" else world.texts
    made = model.encode_images(items) if kind == "images" else model.encode_texts(items)
    vectors = np.asarray(made.normalised().matrix)
    query = {"image": items.ids[2]} if kind == "images" else {"q": items.values[2]}
    ranked = [items.ids[int(n)] for n in np.argsort(-(vectors @ vectors[2]), kind="stable")]
    assert answers_of(site, find=kind, k=8, **query) == [key for key in ranked if key != items.ids[2]][:8]


def test_a_split_and_the_whole_collection_can_be_searched(site, model):
    world = websites.world()
    for split, part in (("", world), ("all", world), ("train", world.train), ("held-out", world.test)):
        expected = model.scores(part).T.top(8)[part.texts.ids[4]]
        assert answers_of(site, q=part.texts.values[4], split=split, k=8) == expected
    sizes = {
        "": "everything, 60",
        "held-out": "held out, 12",
        "train": "train, 36",
        "dev": "dev, 12",
        "test": "test, 12",
    }
    for split, label in (("all", "everything, 60"), *sizes.items()):
        page = patient(site, f"/search?q=dog&split={split}")
        listed = re.findall(r'<option value="([^"]*)"( selected)?>([^<]*) images</option>', page.text)
        assert {name: each for name, _, each in listed} == sizes
        assert [each for _, chosen, each in listed if chosen] == [label]
        assert f"{label.split(', ')[1]} images searched, exactly" in words(page)
    assert site.get("/search?q=dog&split=nosuch").status_code == 200
    assert "split" in words(site.get("/search?q=dog&split=nosuch"))


def test_an_image_outside_what_is_searched_can_be_asked_with(site):
    """An image of the training split, searched for among what is held out."""
    outside = websites.world().train.images.ids[0]
    ids = answers_of(site, image=outside, find="images", k=5)
    assert len(ids) == 5 and outside not in ids


def test_a_model_that_cannot_read_a_new_image_says_so_without_a_path(site, monkeypatch):
    from limner.systems.histograms import HistogramModel

    def refused(*_, **__):
        raise limner.LimnerError("/srv/secret/features.npz: no vector of 'query'")

    patient(site, "/search?q=dog")
    monkeypatch.setattr(HistogramModel, "encode_images", refused)
    location = site.post("/search", files={"file": ("x.png", websites.picture(), "image/png")}).headers["location"]
    page = words(patient(site, location))
    assert "colours cannot encode a new image" in page and "/srv" not in page


def test_a_model_of_a_file_of_features_refuses_a_new_image_in_words_in_a_collection_and_in_an_index(tmp_path):
    """No path of the server, and no option of a shell that the visitor does not have."""
    pytest.importorskip("lancedb")
    from limner.search import index

    world = websites.world()
    vectors = np.random.default_rng(0).random((len(world.images), 16), dtype=np.float32)
    limner.Embeddings(world.images.ids, vectors).save(tmp_path / "features.npz")
    model = limner.train(world, "kcca", features=str(tmp_path / "features.npz"), images="linear")
    model.save(tmp_path / "model")
    index(
        tmp_path / "mine",
        model.encode_images(world.images),
        world.images,
        system=model,
        system_name=str(tmp_path / "model"),
    )
    whole = make_app([world], systems={"mine": str(tmp_path / "model")}, store=tmp_path / "a.db")
    indexed = make_app([], systems={}, indexes=[str(tmp_path / "mine")], store=tmp_path / "b.db")
    for app in (whole, indexed):
        visitor = TestClient(app, base_url="http://localhost", follow_redirects=False)
        assert IMAGE.findall(patient(visitor, "/search?q=dog").text)
        sent = visitor.post(
            "/search", files={"file": ("x.png", websites.picture(), "image/png")}, data={"find": "images"}
        )
        page = patient(visitor, sent.headers["location"])
        assert "mine cannot encode a new image: it was trained on features from a file" in words(page)
        assert str(tmp_path) not in page.text and "--features" not in page.text and "features=" not in page.text


def test_a_saved_model_is_loaded_and_not_called_training(tmp_path, model, monkeypatch):
    from limner.web import library

    model.save(tmp_path / "model")
    app = make_app([websites.world()], systems={"mine": str(tmp_path / "model")}, store=tmp_path / "answers.db")
    visitor = TestClient(app, base_url="http://localhost")
    gate, opened = threading.Event(), library.ready_system
    monkeypatch.setattr(library, "ready_system", lambda *given, **told: gate.wait(30) and opened(*given, **told))
    app.state.site.library.warm()  # as the server does when it starts
    waiting = visitor.get("/search?q=a+red+balloon")
    assert waiting.status_code == 202 and "loading mine" in waiting.text and "training" not in words(waiting)
    assert 'value="a red balloon"' in waiting.text
    gate.set()
    assert IMAGE.findall(patient(visitor, "/search?q=a+red+balloon").text)


# --- details ----------------------------------------------------------------------------------------------------


def test_details_give_the_ranks_that_the_scores_give(site, model):
    test_part = websites.world().test
    image = test_part.images.ids[3]
    scores = model.scores(test_part)
    patient(site, "/search?q=dog&split=held-out")  # the details show what is ready
    page = patient(site, "/item", params={"id": image, "q": test_part.texts.values[0], "split": "held-out"})
    captions = test_part.judged(test_part.judgements.name, "i2t").relevant
    place = captions.queries.index(image)
    own = [captions.candidates[int(c)] for c in captions.columns[captions.indptr[place] : captions.indptr[place + 1]]]
    expected = [str(scores.T.top(len(test_part.images))[text].index(image) + 1) for text in own]
    assert re.findall(r'<td class="n">(\d+)</td>', page.text)[: len(own)] == expected
    expected_rank = scores.T.top(len(test_part.images))[test_part.texts.ids[0]].index(image) + 1
    assert f"colours {expected_rank} ." in words(page)
    assert len(re.findall("neighbour \\d", page.text)) == 8
    assert "complete" in words(page)  # a further set of judgements


def test_details_of_a_text_and_of_nothing(site):
    test_part = websites.world().test
    page = patient(site, "/item", params={"text": test_part.texts.ids[1]})
    assert "Its labelled images" in words(page) and "Captions like this" in words(page)
    assert site.get("/item?id=nosuch").status_code == 404
    assert site.get("/item?text=nosuch").status_code == 404


# --- an index ---------------------------------------------------------------------------------------------------


def test_an_index_is_searched_whole(indexed, model):
    world = websites.world()
    expected = model.scores(world).T.top(8)[world.texts.ids[4]]
    assert answers_of(indexed, q=world.texts.values[4], k=8) == expected
    page = patient(indexed, "/search?q=xyzzy balloon")
    assert "60 images searched, exact" in words(page) and "xyzzy : not in the vocabulary" in words(page)
    shown = indexed.get(re.search(r'src="(/image[^"]+)"', page.text)[1].replace("&amp;", "&"))
    assert shown.status_code == 200 and shown.headers["content-type"].startswith("image/")


def test_what_is_alike_in_an_index_and_across_two_of_one_model(indexed, model):
    world = websites.world()
    key = world.images.ids[5]
    vectors = np.asarray(model.encode_images(world.images).normalised().matrix)
    ranked = [world.images.ids[int(n)] for n in np.argsort(-(vectors @ vectors[5]), kind="stable")]
    assert answers_of(indexed, c="photos", image=key, find="images", k=9) == ranked[1:10]
    assert answers_of(indexed, c="photos", image=key, k=9) == model.scores(world).top(9)[key]
    assert answers_of(indexed, c="captions", q="a red balloon", find="texts", k=3)
    detail = patient(indexed, "/item", params={"c": "photos", "id": key})
    assert len(re.findall("neighbour \\d", detail.text)) == 8


def test_an_index_alone_offers_the_search_alone(indexed):
    page = indexed.get("/").text
    assert 'href="/search"' in page and 'href="/compare"' not in page and 'href="/judge"' not in page
    assert "only an index is served" in words(indexed.get("/compare"))
    assert indexed.get("/image?c=photos&id=nosuch").status_code == 404
    assert indexed.get("/image?c=photos&id=' OR 1=1 --").status_code == 404


def test_an_index_of_vectors_without_an_encoder_offers_its_images_to_start_from(tmp_path, model):
    """The page said "use one of its images as the query", and showed none."""
    world = websites.world()
    limner.search.index(tmp_path / "photos.index", model.encode_images(world.images), world.images)
    app = make_app([], systems=("histograms",), store=tmp_path / "answers.db", indexes=[str(tmp_path / "photos.index")])
    site = TestClient(app, base_url="http://localhost", follow_redirects=False)
    start = re.compile(
        r'href="/search\?([^"]*)"[^>]*><img src="(/image[^"]+)" alt="Image ([^":]+): find images like it"'
    )
    for place in ("/search", "/search?q=a red dog"):
        page_text = [[part.replace("&amp;", "&") for part in each] for each in start.findall(patient(site, place).text)]
        assert len(page_text) == len({key for *_, key in page_text}) == 12
    assert "names no encoder" in words(patient(site, "/search?q=a red dog"))
    query, picture, key = page_text[1]
    assert site.get(picture).headers["content-type"].startswith("image/")
    assert len(IMAGE.findall(patient(site, f"/search?{query}").text)) == 12
    assert key in world.images.ids
    assert "Systems" not in words(site.get("/")), "an index is searched with its own vectors"


def test_details_of_an_image_of_an_index_show_its_captions_and_fields(tmp_path, model):
    world = websites.world()
    items = with_captions(world)
    limner.search.index(tmp_path / "photos.index", model.encode_images(items), items)
    app = make_app([], systems=(), store=tmp_path / "answers.db", indexes=[str(tmp_path / "photos.index")])
    site = TestClient(app, base_url="http://localhost", follow_redirects=False)
    key = items.ids[4]
    own_captions = [text for image, text, _ in world.judgements.relevant if image == key]
    page = patient(site, "/item", params={"c": "photos", "id": key})
    page_text = html.unescape(page.text)
    assert len(own_captions) == 5 and all(
        f">{world.texts.values[world.texts.ids.index(text)]}</a>" in page_text for text in own_captions
    )
    assert "<script>window.hacked" not in page.text
    assert "Who is judging?" not in site.get("/").text, "there is nothing to judge"


def test_an_index_is_refused_by_name_before_the_server_starts(tmp_path):
    with pytest.raises(limner.LimnerError, match="no index at"):
        make_app([], systems=(), store=tmp_path / "answers.db", indexes=[str(tmp_path / "nosuch")])


def test_answers_with_a_promised_precision(tmp_path, indexed):
    site = websites.sure_client(tmp_path)
    assert answers_of(site, q="caption 8", sure="90", k=5) == ["i8"]
    assert answers_of(site, q="caption 9", sure="90", k=5) == []
    assert answers_of(site, image="i8", sure="90", k=5) == ["t8"]
    assert len(answers_of(site, q="caption 9", k=5)) == 5
    assert "expected one of 50" in patient(site, "/search?q=caption 8&sure=nonsense").text
    page = words(patient(indexed, "/search?q=dog&sure=90"))
    assert "is not calibrated, so no precision can be guaranteed" in page and "--calibrate" in page


def columns_of(visitor, **query):
    """The one column of a search."""
    reply = patient(visitor, "/api/search", params=query)
    assert reply.status_code == 200, reply.text
    (column,) = reply.json()["columns"]
    return column


def captions(world, image):
    return [text for key, text in zip(world.texts.ids, world.texts.values, strict=True) if key.startswith(f"{image}#")]


@pytest.mark.parametrize("kind", ["collection", "index"])
def test_words_and_vectors_minus_terms_and_filters_with_reasons(site, described, kind):
    visitor, world = (site, websites.world().test) if kind == "collection" else (described, websites.world())
    hybrid = columns_of(visitor, q="a red fish", by="hybrid", k=50)
    assert "by words and vectors, fused by reciprocal rank" in hybrid["searched"]
    first = next(answer for answer in hybrid["answers"] if answer["why"].startswith("rank 1 by words "))
    assert re.match(r"rank 1 by words \(.*fish.*\), \d+ by vectors", first["why"])
    assert any(marked and piece.lower().startswith("fish") for piece, marked in first["caption"])
    without_fish = columns_of(visitor, q="a red fish -fish", by="hybrid", k=50)
    assert "without “fish”: images whose own captions have it are removed" in without_fish["note"]
    assert not [a for a in without_fish["answers"] if any("fish" in text for text in captions(world, a["id"]))]
    only = columns_of(visitor, q="a red fish", where="background:meadow", k=50)
    backgrounds = dict(zip(websites.world().images.ids, websites.world().images.field("background"), strict=True))
    assert {backgrounds[a["id"]] for a in only["answers"]} == {"meadow"} and only["note"] == "only background:meadow"
    assert columns_of(visitor, q="a red fish background:meadow", k=50)["answers"] == only["answers"]
    assert columns_of(visitor, q="fish", by="words", k=3)["answers"][0]["why"].startswith("rank 1 by words (fish)")


@pytest.fixture(scope="module")
def described(tmp_path_factory, model):
    """A site with an index that keeps captions and fields."""
    folder = tmp_path_factory.mktemp("described")
    model.save(folder / "model")
    items = limner.search.with_captions(websites.world())
    limner.search.index(
        folder / "photos.index", model.encode_images(items), items, system=model, system_name=str(folder / "model")
    )
    app = make_app([], systems=(), store=folder / "answers.db", indexes=[str(folder / "photos.index")])
    return TestClient(app, base_url="http://localhost", follow_redirects=False)


def test_the_form_offers_fields_and_what_cannot_be_is_refused(site, described):
    for visitor in (site, described):
        page_text = patient(visitor, "/search?q=fish&by=hybrid&where=background:meadow").text
        assert '<option value="background:meadow" selected>meadow</option>' in page_text and "<mark>fish" in page_text
        assert '<option value="hybrid" selected>' in page_text
        assert visitor.get("/api/search?q=fish&by=magic").status_code == 400
        assert patient(visitor, "/api/search?q=fish&where=colours:red").status_code == 404
        assert patient(visitor, "/api/search?q=fish&where=red").status_code == 400
        assert "add words to search for" in patient(visitor, "/api/search?q=-fish").json()["error"]
        assert "promised precision" in visitor.get("/api/search?q=fish -house&sure=90").json()["error"]
        page_text = words(patient(visitor, "/search?q=xyzzy&by=words"))
        assert "Nothing is left" in page_text
    corrected = patient(site, "/api/search?q=fish -house&fix=csls&k=50&split=held-out").json()["columns"]
    plain, fixed = ({answer["id"] for answer in column["answers"]} for column in corrected)
    assert plain == fixed
    image = websites.world().test.images.ids[0]
    backgrounds = dict(zip(websites.world().images.ids, websites.world().images.field("background"), strict=True))
    alike = columns_of(site, image=image, find="images", where="background:meadow", k=50)["answers"]
    assert alike and {backgrounds[a["id"]] for a in alike} == {"meadow"} and image not in {a["id"] for a in alike}


def test_words_and_corrected_vectors_are_fused_and_moves_are_within_that_list(site, model):
    """The corrected list is fused as its label says, and "up from" counts in the fused list beside it."""
    world, words_asked = websites.world(), "a red fish -house"
    query = {"q": words_asked, "by": "hybrid", "fix": "csls", "split": "train"}
    plain, corrected = patient(site, "/api/search", params={**query, "k": 50}).json()["columns"]
    pool, text = world.train, limner.Items(["query"], ["a red fish"], kind="text")
    scores = limner.Scores.from_embeddings(model.encode_texts(text), model.encode_images(pool.images))
    fixed = scores.correct("csls", bank=model.encode_texts(world.train.texts))
    texts = limner.search.item_texts.ItemTexts.of_items(with_captions(pool))
    allowed = texts.allowed(limner.search.query_terms.read_terms(words_asked, texts.names))
    bm25 = np.where(allowed, texts.bm25.scores("a red fish"), 0.0)
    by_words = [pool.images.ids[int(n)] for n in np.argsort(-bm25, kind="stable") if bm25[n] > 0]
    for column, by_vectors in ((plain, scores), (corrected, fixed)):
        row = np.asarray(by_vectors.block(0, 1))[0]
        vectors = [pool.images.ids[int(n)] for n in np.argsort(-row, kind="stable") if allowed[n]]
        sums = {
            key: sum(1 / (60 + each.index(key) + 1) for each in (by_words, vectors) if key in each) for key in vectors
        }
        best = sorted(sums.values(), reverse=True)[:50]
        assert [answer["score"] for answer in column["answers"]] == pytest.approx(best)
        for answer in column["answers"]:
            assert f"{vectors.index(answer['id']) + 1} by vectors" in answer["why"]
    ranks = {answer["id"]: answer["rank"] for answer in plain["answers"]}
    assert [answer["before"] for answer in corrected["answers"]] == [ranks[a["id"]] for a in corrected["answers"]]
    assert any(answer["before"] != answer["rank"] for answer in corrected["answers"])
    page = words(patient(site, "/search", params=query))
    searched = f"{len(pool.images)} images searched by words and vectors, fused by reciprocal rank, exactly"
    assert f"with csls {searched}, vectors corrected by csls" in page
    details = words(patient(site, "/item", params={**query, "id": plain["answers"][0]["id"]}))
    rank = scores.top(len(pool.images))["query"].index(plain["answers"][0]["id"]) + 1
    ranked_by = "Rank by vectors among all images, without minus terms and filters, for “a red fish”"
    assert f"{ranked_by}: colours {rank}" in details


def test_an_option_that_is_not_applied_is_named(site, described):
    """A second list that looks corrected, or a promise that is not kept, misleads."""
    image = websites.world().test.images.ids[0]
    for visitor, query, said in (
        (site, "q=a red fish&by=words&fix=csls", "the correction csls is not applied: it corrects vectors"),
        (
            site,
            f"image={image}&find=images&fix=csls",
            "the correction csls is not applied: it corrects searches for images by text",
        ),
        (site, f"image={image}&find=images&sure=90", "nothing is promised about what is alike"),
        (described, "q=a red fish -house&fix=csls", "the correction csls is not applied: an index corrects plain"),
        (described, f"image={image}&find=images&sure=90", "nothing is promised about what is alike"),
    ):
        (column,) = patient(visitor, f"/api/search?{query}").json()["columns"]
        assert said in column["note"], query
        assert said[1:] in words(patient(visitor, f"/search?{query}"))


def test_texts_that_the_system_does_not_read_to_their_end_are_told(tmp_path):
    limner.train(websites.world().train, "towers", epochs=1, max_tokens=4, device="cpu").save(tmp_path / "model")
    query, path = "a red circle above a blue square", str(tmp_path / "model")
    for _ in range(2):  # the second time, the vectors are kept
        app = make_app([websites.world()], systems={"mine": path}, store=tmp_path / "answers.db", cache=tmp_path)
        site = TestClient(app, base_url="http://localhost")
        (column,) = patient(site, "/api/search", params={"q": query}).json()["columns"]
        captions, query_note = column["note"].split("; ")
        assert "distinct texts are longer than the 4 words that the model reads" in captions
        assert query_note.startswith(
            "1 of 1 distinct texts is longer than the 4 words that the model reads (the longest"
        )
        assert query_note in words(patient(site, f"/search?q={query}"))
