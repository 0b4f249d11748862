"""Metrics of captions against pycocoevalcap, torchmetrics and slow oracles; systems compared; agreement with people."""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau, spearmanr
from typer.testing import CliRunner

import limner
from limner.cli import app
from limner.core.collection import Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.datasets.candidate_captions import (
    OWN_CAPTIONS,
    CandidateCaptions,
    JudgedCaptions,
    read_candidates,
    read_judged,
    without_own_captions,
)
from limner.evaluation.captions.caption_metrics import (
    CAPTION_METRICS,
    MetricInputs,
    caption_metrics,
    clip_score,
    encoder_cosines,
    ref_clip_score,
)
from limner.evaluation.captions.caption_report import evaluate_captions
from limner.evaluation.captions.rating_agreement import AGGREGATIONS, metric_agreement
from limner.explain.caption_concepts import concept_f
from limner.language.caption_overlap import bleu, cider, cider_d, corpus_bleu, rouge_l, treebank_words
from limner.stats.jackknife import COEFFICIENTS, Jackknife, clustered_correlation

PEERS = json.loads((Path(__file__).parent / "caption_peers.json").read_text())
CAPTIONS, REFERENCES = PEERS["captions"], PEERS["references"]


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


# --- the metrics ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", PEERS["words"])
def test_words_are_those_of_stanfords_tokenizer(text):
    assert " ".join(treebank_words(text)) == PEERS["words"][text]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_bleu_is_that_of_pycocoevalcap_and_of_torchmetrics(order):
    assert bleu(CAPTIONS, REFERENCES, order=order) == pytest.approx(PEERS["bleu"][order - 1], rel=1e-9, abs=1e-15)
    value = corpus_bleu(CAPTIONS, REFERENCES, order=order)
    assert value == pytest.approx(PEERS["corpus_bleu"][order - 1], rel=1e-9)
    assert value == pytest.approx(PEERS["torchmetrics_bleu"][order - 1], abs=1e-6)


def test_rouge_l_and_cider_d_are_those_of_pycocoevalcap():
    assert rouge_l(CAPTIONS, REFERENCES) == pytest.approx(PEERS["rouge_l"], rel=1e-12)
    assert cider_d(CAPTIONS, REFERENCES) == pytest.approx(PEERS["cider_d"], rel=1e-9)


def slow_cider(captions, references):
    """CIDEr as the paper writes it, a dictionary for each vector."""

    def grams(text, n):
        words = treebank_words(text)
        return Counter(words[at : at + n] for at in range(len(words) - n + 1))

    scores = np.zeros(len(captions))
    for n in (1, 2, 3, 4):
        seen = Counter(gram for texts in references for gram in set().union(*(grams(text, n) for text in texts)))

        def vector(text, n=n, seen=seen):
            return {g: c * math.log(len(references) / max(1, seen[g])) for g, c in grams(text, n).items()}

        def cosine(a, b):
            size = math.sqrt(sum(v * v for v in a.values()) * sum(v * v for v in b.values()))
            return sum(a[g] * b[g] for g in a.keys() & b.keys()) / size if size else 0.0

        for row, (caption, texts) in enumerate(zip(captions, references, strict=True)):
            scores[row] += np.mean([cosine(vector(caption), vector(text)) for text in texts]) * 10 / 4
    return scores


def test_cider_is_the_mean_cosine_of_tf_idf_vectors():
    assert cider(CAPTIONS, REFERENCES) == pytest.approx(slow_cider(CAPTIONS, REFERENCES), rel=1e-9, abs=1e-12)
    documents = [["a dog"], ["a cat"], *REFERENCES]
    assert cider(CAPTIONS, REFERENCES, documents=documents) != pytest.approx(cider(CAPTIONS, REFERENCES))


@pytest.mark.parametrize("metric", [bleu, rouge_l, cider, cider_d, concept_f])
def test_the_order_of_references_does_not_matter_and_the_best_caption_is_the_reference(metric):
    backwards = [texts[::-1] for texts in REFERENCES]
    assert metric(CAPTIONS, REFERENCES) == pytest.approx(metric(CAPTIONS, backwards))
    single = [[texts[0]] for texts in REFERENCES]
    own = metric([texts[0] for texts in single], single)
    assert (own >= metric(CAPTIONS, single) - 1e-9).all() and own.mean() > metric(CAPTIONS, single).mean()


def test_captions_without_words_and_references_without_words_score_nothing():
    for metric in (bleu, rouge_l, cider, cider_d, concept_f):
        assert metric(["", "a dog runs"], [["a dog"], ["."]]) == pytest.approx([0, 0], abs=1e-3)


@pytest.mark.parametrize(("captions", "references", "fault"), [
    ("a dog", [["a"]], "a text"), (["a dog"], ["a dog"], r"references\[0\]"), (["a dog"], [[]], r"references\[0\]"),
    (["a dog", "b"], [["a"]], "2 captions and 1"),
])  # fmt: skip
def test_texts_in_place_of_lists_are_refused(captions, references, fault):
    for metric in (bleu, rouge_l, cider, cider_d):
        with pytest.raises(LimnerError, match=fault):
            metric(captions, references)
    with pytest.raises(LimnerError, match="order=5"):
        bleu(["a"], [["a"]], order=5)


def test_concepts_are_objects_and_what_is_said_of_them():
    right = concept_f(["two brown dogs and a cat"], [["a brown dog", "some cats"]])
    wrong = concept_f(["two green birds and a car"], [["a brown dog", "some cats"]])
    assert right[0] > 0.5 and wrong[0] == 0
    # dog, dog brown, dog 2, cat against dog, dog brown, cat, cat 2
    assert right[0] == pytest.approx(2 * 3 / (4 + 4))


def flat_encoder(items):
    """Vectors by the first letter of the text, or of the image's id."""
    letters = [
        str(text).removeprefix("A photo depicts ")[0] for text in (items.values if items.kind == "text" else items.ids)
    ]
    return Embeddings(items.ids, np.array([[1.0, ord(letter) - 96] for letter in letters], dtype=np.float32))


def test_clip_scores_are_cosines_of_the_encoder():
    candidates = CandidateCaptions("c", ("a1", "b1", "a1"), ("a x", "c y", "d"), (("a b", "b b"), ("b",), ()))
    images = Items(["b1", "a1", "unused"], ["b.png", "a.png", "u.png"])
    cosines = encoder_cosines(candidates, images, flat_encoder)

    def cosine(x, y):
        return (1 + x * y) / math.sqrt((1 + x * x) * (1 + y * y))

    assert cosines.image == pytest.approx([1, cosine(2, 3), cosine(1, 4)], rel=1e-6)
    assert cosines.reference[:2] == pytest.approx([1, cosine(3, 2)], rel=1e-6) and np.isnan(cosines.reference[2])
    score = 2.5 * cosine(2, 3)
    assert clip_score(cosines)[1] == pytest.approx(score, rel=1e-6)
    assert ref_clip_score(cosines)[1] == pytest.approx(2 / (1 / score + 1 / cosine(2, 3)), rel=1e-6)


def test_a_metric_says_what_it_needs():
    inputs = MetricInputs(CandidateCaptions("c", ("a",), ("a x",), ((),)))
    for name, need in (("BLEU-4", "references"), ("CLIPScore", "--model"), ("pair-score", "-O scorer")):
        with pytest.raises(LimnerError, match=need):
            CAPTION_METRICS[name].of(inputs)
    with pytest.raises(LimnerError, match="no metric can be computed"):
        caption_metrics(None, inputs.sources)
    with pytest.raises(LimnerError, match="BLEU-4"):
        caption_metrics("BLEU-5", inputs.sources)
    rows = [(metric.name, metric.formula, metric.source) for metric in CAPTION_METRICS.values()]
    assert all(all(row) for row in rows)


def own_metric(captions, references):
    """The length of captions."""
    return [len(caption) for caption in captions]


def bad_metric(captions, references):
    """One number for all."""
    return 1.0


def test_ones_own_metric_by_its_name():
    inputs = MetricInputs(CandidateCaptions("c", ("a", "b"), ("a x", "b"), (("a",), ("b",))))
    (metric,) = caption_metrics("test_caption_metrics:own_metric", inputs.sources)
    assert metric.of(inputs).tolist() == [3, 1]
    with pytest.raises(LimnerError, match="shape"):
        caption_metrics("test_caption_metrics:bad_metric", inputs.sources)[0].of(inputs)


# --- statistics ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
@pytest.mark.parametrize("levels", [3, 40])
def test_a_correlation_without_each_cluster_is_that_of_the_others(coefficient, levels):
    rng = np.random.default_rng(levels)
    x, clusters = rng.integers(0, levels, 60), rng.integers(0, 7, 60)
    y = rng.integers(0, 4, 60) + (x > levels / 2)
    result = clustered_correlation(x, y, clusters=clusters, coefficient=coefficient)
    grades = min(len(set(x)), len(set(y)))
    for cluster, value in enumerate(result.deleted):
        stays = clusters != cluster
        if coefficient == "spearman":
            slow = spearmanr(x[stays], y[stays]).statistic
        else:
            slow = kendalltau(x[stays], y[stays], variant=coefficient[-1]).statistic
        left = min(len(set(x[stays])), len(set(y[stays])))
        scale = (1 - 1 / left) / (1 - 1 / grades) if coefficient == "tau-c" else 1
        assert value == pytest.approx(slow * scale, abs=1e-12)


def test_an_interval_by_cluster_covers_and_one_by_item_does_not():
    """Items of a cluster share both values up to noise, so that they are hardly independent."""
    rng = np.random.default_rng(1)
    covered = {"clusters": 0, "items": 0}
    for _ in range(200):
        x, y = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], size=40).T
        items = np.repeat(x, 4) + 1e-6 * rng.normal(size=160), np.repeat(y, 4) + 1e-6 * rng.normal(size=160)
        truth = 2 / np.pi * np.arcsin(0.5) * 156 / 159 + 0 * 3 / 159  # pairs within a cluster are in random order
        for unit, labels in (("clusters", np.repeat(np.arange(40), 4)), ("items", np.arange(160))):
            covered[unit] += truth in clustered_correlation(*items, clusters=labels).interval()
    assert 180 <= covered["clusters"] <= 199
    assert covered["items"] < 150


def test_the_jackknife_of_a_mean_is_the_standard_error():
    values = np.random.default_rng(0).normal(size=50)
    jackknife = Jackknife.of_mean(values, clusters=np.arange(50))
    assert jackknife.standard_error == pytest.approx(values.std(ddof=1) / np.sqrt(50))
    assert jackknife.interval(low=0.0).low >= 0 and (jackknife - jackknife).p_value == 1
    with pytest.raises(LimnerError, match="one cluster"):
        Jackknife.of_mean(values, clusters=np.zeros(50))
    with pytest.raises(LimnerError, match="same clusters"):
        jackknife - Jackknife.of_mean(values[:9], clusters=np.arange(9))
    with pytest.raises(LimnerError, match="without cluster"):
        clustered_correlation([1, 1, 2], [1, 2, 3], clusters=["a", "b", "c"])


# --- systems -------------------------------------------------------------------------------------------------------


def candidates(name, captions=CAPTIONS):
    images = tuple(f"i{row // 2}" for row in range(len(CAPTIONS)))
    return MetricInputs(CandidateCaptions(name, images, tuple(captions), tuple(map(tuple, REFERENCES))))


def test_a_report_has_the_corpus_values_and_what_is_left_without_an_image():
    metrics = caption_metrics("BLEU-4 CIDEr-D", frozenset({"references"}))
    report = evaluate_captions([candidates("a"), candidates("b", CAPTIONS[::-1])], metrics)
    assert report.value("a", "BLEU-4").estimate == pytest.approx(PEERS["corpus_bleu"][3])
    assert report.value("a", "CIDEr-D").estimate == pytest.approx(np.mean(PEERS["cider_d"]))
    without = [
        corpus_bleu(CAPTIONS[:row] + CAPTIONS[row + 2 :], REFERENCES[:row] + REFERENCES[row + 2 :])
        for row in range(0, len(CAPTIONS), 2)
    ]
    spread = Jackknife(report.value("a", "BLEU-4").estimate, np.array(without)).interval()
    assert str(report.value("a", "BLEU-4")) == str(spread)
    assert report.images == len(CAPTIONS) // 2 and len(report.differences) == 2
    assert report.differences[0].difference.estimate == pytest.approx(
        report.value("a", "BLEU-4").estimate - report.value("b", "BLEU-4").estimate
    )


def test_systems_of_other_images_and_of_the_same_name_are_refused():
    metrics = caption_metrics("BLEU-1", frozenset({"references"}))
    with pytest.raises(LimnerError, match="same name"):
        evaluate_captions([candidates("a"), candidates("a")], metrics)
    shorter = MetricInputs(CandidateCaptions("b", ("i0",), ("a",), (("a",),)))
    with pytest.raises(LimnerError, match="different images"):
        evaluate_captions([candidates("a"), shorter], metrics)
    with pytest.raises(LimnerError, match="no captions"):
        evaluate_captions([], metrics)
    with pytest.raises(LimnerError, match="expected one of each"):
        CandidateCaptions("none", (), (), ())


@pytest.fixture
def table(tmp_path):
    """A collection of six images with two captions each, and the captions of two systems."""
    words = ["dog", "cat", "bird", "horse", "boat", "car"]
    rows = [("image", "caption"), *((f"{w}.jpg", f"a {s} {w} on a {s} road") for w in words for s in ("red", "big"))]
    with (tmp_path / "captions.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    good = [{"image_id": f"{word}.jpg", "caption": f"a red {word} on a road"} for word in words]
    (tmp_path / "good.json").write_text(json.dumps(good))
    bad = {f"{word}.jpg": f"the {word}" for word in words}
    (tmp_path / "bad.json").write_text(json.dumps(bad))
    return tmp_path


def test_systems_at_the_command_line(table, monkeypatch):
    monkeypatch.chdir(table)
    done = run("evaluate", "captions:captions.csv", "--run", "good.json", "--run", "poor=bad.json", "--json",
               "--measures", "BLEU-1 ROUGE-L", "-o", "out.csv")  # fmt: skip
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    values = {(line["system"], line["metric"]): line["value"] for line in data["lines"]}
    assert values["good", "BLEU-1"] > values["poor", "BLEU-1"] and data["images"] == 6
    assert [line["system"] for line in data["differences"]] == ["good - poor"] * 2
    assert all(0 <= line["p"] <= 1 for line in data["differences"])
    assert (table / "out.csv").read_text().count("\n") == 7
    printed = run("evaluate", "captions:captions.csv", "--run", "good.json").output
    assert "CIDEr-D" in printed and "jackknife by image" in printed and "CLIPScore" not in printed


@pytest.mark.parametrize(("name", "content", "fault"), [
    ("c.json", '[{"image_id": "dog.jpg", "caption": "a dog"}]', "no caption of 5 of 6"),
    ("c.json", '[{"image_id": "cow.jpg", "caption": "a cow"}]', "does not have"),
    ("c.json", '[{"image_id": "dog.jpg"}]', "'caption'"),
    ("c.json", '[{"image_id": "dog.jpg", "caption": 3}]', "expected text"),
    ("c.json", '[{"image_id": "dog.jpg", "caption": " "}]', "is empty"),
    ("c.json", '["a dog"]', "expected 'image'"), ("c.json", "3", "expected a list"), ("c.json", "[]", "no captions"),
    ("c.csv", "image,caption\ndog.jpg,a\ndog.jpg,b\n", "second caption"), ("c.csv", "a,b\n1,2\n", "expected 'image'"),
    ("c.txt", "a dog", "expected captions as"), ("c.json", "{", "c.json"),
])  # fmt: skip
def test_bad_captions_are_refused_by_name(table, name, content, fault):
    (table / name).write_text(content)
    with pytest.raises(LimnerError, match=fault):
        read_candidates(table / name, limner.load(str(table / "captions.csv")))
    done = run("evaluate", f"captions:{table / 'captions.csv'}", "--run", table / name)
    assert done.exit_code in (2, 3) and "bug" not in done.output


def test_ids_of_coco_are_one_image_in_every_form(tmp_path):
    (tmp_path / "captions.csv").write_text(
        "image,caption\nCOCO_val2014_000000000042.jpg,a dog\n000000000007.jpg,a cat\n"
    )
    collection = limner.load(str(tmp_path / "captions.csv"))
    rows = [{"image_id": 7, "caption": "cat"}, {"image_id": 42, "caption": "dog"}]
    (tmp_path / "results.json").write_text(json.dumps(rows))
    assert read_candidates(tmp_path / "results.json", collection).captions == ("dog", "cat")


@pytest.mark.parametrize(("words", "fault"), [
    (("captions:{t}/captions.csv",), "--run"), (("captions:{t}/captions.csv", "--run", "{t}/no.json"), "no.json"),
    (("captions:{t}/captions.csv", "--run", "{t}/good.json", "--measures", "BLEU-9"), "BLEU-4"),
    (("captions:{t}/captions.csv", "--run", "{t}/good.json", "--correct", "csls"), "not used there"),
    (("captions:{t}/captions.csv", "--run", "{t}/good.json", "--model", "clip(model=DIR)"), "read the images"),
    (("captions:{t}/captions.csv", "--run", "{t}/good.json", "-o", "a.xlsx"), "a.xlsx"),
    (("captions:{t}/captions.csv", "--run", "{t}/good.json", "-O", "scoer=x"), "scoer"),
    (("caption-metrics:{t}/none.csv",), "none.csv"),
    (("caption-metrics:flickr8k-expert:{t}",), "Flickr8k"),
    (("caption-metrics:{t}/captions.csv",), "no rating"),
    (("caption-metrics:{t}/captions.csv", "-O", "own=drop"), "leave-out"),
    (("caption-metrics:{t}/captions.csv", "-O", "seed=3"), "seed"),
])  # fmt: skip
def test_wrong_words_are_refused(table, words, fault):
    done = run("evaluate", *(word.format(t=table) for word in words))
    assert done.exit_code in (2, 3) and fault in done.output and "bug" not in done.output, done.output


# --- people --------------------------------------------------------------------------------------------------------


@pytest.fixture
def judged():
    rng = np.random.default_rng(3)
    images = tuple(f"i{row // 5}" for row in range(60))
    ratings = tuple(tuple(float(r) for r in rng.integers(1, 5, size=1 + row % 3)) for row in range(60))
    return JudgedCaptions("toy", images, ("a dog",) * 60, ((),) * 60, ratings=ratings)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("coefficient", COEFFICIENTS)
def test_agreement_is_the_rank_correlation_of_every_combination(judged, coefficient, aggregation):
    scores = np.random.default_rng(4).normal(size=60)
    report = metric_agreement(judged, {"random": scores}, coefficient=coefficient, aggregation=aggregation)
    if aggregation == "each":
        x, y = zip(*((s, r) for s, ratings in zip(scores, judged.ratings, strict=True) for r in ratings), strict=True)
    else:
        x, y = scores, [getattr(np, aggregation)(ratings) for ratings in judged.ratings]
    slow = spearmanr(x, y) if coefficient == "spearman" else kendalltau(x, y, variant=coefficient[-1])
    value = report.value("random")
    assert value.estimate == pytest.approx(slow.statistic) and value.low < value.estimate < value.high
    assert len(report.lines) == 9 and not report.differences


def test_differences_of_metrics_are_of_the_same_captions(judged):
    means = np.array([np.mean(ratings) for ratings in judged.ratings])
    noise = np.random.default_rng(5).normal(size=60)
    scores = {"good": means + 0.1 * noise, "nearly": means + 0.11 * noise, "random": noise}
    report = metric_agreement(judged, scores, every=False)
    assert [(d.first, d.second) for d in report.differences] == list(combinations(("good", "nearly", "random"), 2))
    assert ("good", "nearly") in report.not_separable() and ("good", "random") not in report.not_separable()
    assert "good" in str(report) and report.describe()["captions"] == 60
    assert "1 of 1 captions are judged with several images" in report.notes[0]
    with pytest.raises(LimnerError, match="tau-d"):
        metric_agreement(judged, scores, coefficient="tau-d")
    with pytest.raises(LimnerError, match="mode"):
        metric_agreement(judged, scores, aggregation="mode")


def test_own_captions_in_every_way():
    references = (("a dog", "dogs"), ("a dog", "dogs"), ("a car", "cars"))
    judged = JudgedCaptions("own", ("d", "d", "c"), ("a dog", "a cat", "a dog"), references, ratings=((4,), (1,), (1,)))
    ways = {own: without_own_captions(judged, own) for own in OWN_CAPTIONS}
    assert ways["keep"] is judged and ways["leave-out"].captions == ("a cat", "a dog")
    assert ways["other-references"].references == (("dogs",), ("a dog", "dogs"), ("a car", "cars"))
    assert ways["image-references"].references == (("dogs",), ("dogs",), ("a car", "cars"))
    assert all("1 of 3" in ways[own].notes[0] for own in OWN_CAPTIONS if own != "keep")


def test_a_table_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [
        "image,caption,reference_1,reference_2,rating_a,rating_b",
        "1,a dog runs,a dog is running,the dog,4,3", "1,a cat,a dog is running,,1,", "2,a car,a red car,,3,3",
        "2,two dogs,a red car,the car,1,2", "3,a boat,the boat,a boat on a lake,4,4", "3,a tree,the boat,,2,1",
    ]  # fmt: skip
    Path("judged.csv").write_text("\n".join(rows) + "\n")
    table = read_judged("judged.csv")
    assert table.references[1] == ("a dog is running",) and table.ratings[:2] == ((4.0, 3.0), (1.0,))
    lines = [
        {"image": i, "caption": c, "references": list(r), "ratings": list(s)}
        for i, c, r, s in zip(table.images, table.captions, table.references, table.ratings, strict=True)
    ]
    Path("judged.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    same = read_judged("judged.jsonl")
    assert (same.captions, same.references, same.ratings) == (table.captions, table.references, table.ratings)
    words = ("caption-metrics:judged.csv", "--measures", "rouge-l concept-F", "-O", "coefficient=tau-b", "--json")
    done = run("evaluate", *words, "-O", "aggregation=mean", "-o", "out.md")
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert data["coefficient"] == "tau-b" and data["ratings"] == "mean" and len(data["lines"]) == 18
    assert "ROUGE-L" in Path("out.md").read_text()
    Path("bad.csv").write_text("image,caption,reference,rating\n1,a dog,dogs,good\n")
    assert "rating is 'good'" in run("evaluate", "caption-metrics:bad.csv").output


class LongestScorer:
    """Scores a pair by the lengths of the image's id and of the caption."""

    def queries(self, collection, *, features=None):
        """The ids of the images."""
        return list(collection.images.ids)

    def score_pairs(self, queries, captions):
        """Higher for longer captions."""
        return [len(caption) + len(image) / 100 for image, caption in zip(queries, captions, strict=True)]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Drawn images with captions, a saved model, and captions of two systems."""
    folder = tmp_path_factory.mktemp("captions")
    collection = limner.load("scenes", images=60)
    limner.train(collection, "histograms").save(folder / "model")
    test = collection.split("test")
    first = {}
    for image, text, _ in test.judgements:
        first.setdefault(image, test.texts.values[test.texts.ids.index(text)])
    (folder / "a.json").write_text(json.dumps(first))
    (folder / "b.json").write_text(json.dumps(dict(zip(first, list(first.values())[::-1], strict=True))))
    return folder


def test_an_encoder_and_a_scorer_at_the_command_line(world, monkeypatch):
    """Each image's own caption beats that of another image, for the model that has learned them."""
    monkeypatch.chdir(world)
    done = run("evaluate", "captions:scenes", "-O", "images=60", "--run", "a.json", "--run", "b.json",
               "--model", "model", "-O", "scorer=test_caption_metrics:LongestScorer", "--json")  # fmt: skip
    assert done.exit_code == 0, done.output
    lines = {(line["system"], line["metric"]): line["value"] for line in json.loads(done.stdout)["lines"]}
    assert {metric for _, metric in lines} == set(CAPTION_METRICS)
    assert lines["a", "CLIPScore"] > lines["b", "CLIPScore"] and lines["a", "BLEU-4"] == pytest.approx(1)
    captions = json.loads(Path("a.json").read_text())
    mean = np.mean([len(caption) + len(image) / 100 for image, caption in captions.items()])
    assert lines["a", "pair-score"] == pytest.approx(mean)


def test_judged_images_are_read_from_their_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    drawn = limner.load("scenes", images=12).images
    for row, name in enumerate(drawn.ids):
        drawn.open(row).save(f"{name}.png")
    rows = [f"{name}.png,a green field{'s' * (row % 5)},{1 + row % 4}" for row, name in enumerate(drawn.ids)]
    Path("judged.csv").write_text("image,caption,rating\n" + "\n".join(rows) + "\n")
    words = (
        "caption-metrics:judged.csv",
        "-O",
        "scorer=test_caption_metrics:LongestScorer",
        "--measures",
        "pair-score",
    )
    assert "-O images=DIR" in run("evaluate", *words).output
    assert "12 images" in run("evaluate", *words, "-O", "images=nowhere").output
    done = run("evaluate", *words, "-O", "images=.", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["captions"] == 12
