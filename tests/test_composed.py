"""Composed queries: forms of files, the world where all answers are known, and measures against slow oracles."""

from __future__ import annotations

import json
from itertools import permutations

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
import limner.cli.commands.explain  # commands keep the `load` that there is when they are imported
from limner.cli import app
from limner.core.collection import Items
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.datasets.composed_queries import ComposedQueries, ComposedQuery, read_composed
from limner.datasets.scenes.scene_probes import CHANGES, Content, scenes_composed
from limner.evaluation.diagnostics.composed import COMPOSITIONS, _expected_hit, composed, evaluate_composed

CIRR = [
    {"pairid": 7, "reference": "dev-1", "target_hard": "dev-2", "target_soft": {"dev-2": 1.0}, "caption": "two dogs",
     "img_set": {"id": 1, "members": ["dev-1", "dev-2", "dev-3", "dev-4"], "reference_rank": 0, "target_rank": 1}},
    {"pairid": 8, "reference": "dev-3", "target_hard": "dev-4", "target_soft": {}, "caption": "on grass",
     "img_set": {"id": 1, "members": ["dev-1", "dev-2", "dev-3", "dev-4"], "reference_rank": 2, "target_rank": 3}},
]  # fmt: skip
CIRCO = [
    {"id": 0, "reference_img_id": 11, "target_img_id": 12, "gt_img_ids": [12, 13], "relative_caption": "is red"},
    {"id": 1, "reference_img_id": 13, "target_img_id": 11, "gt_img_ids": [11], "relative_caption": "has a hat"},
]
FASHION = [{"candidate": "B1", "target": "B2", "captions": ["is blue ", "has sleeves"]}]


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_cirr_with_its_split_file_and_subset(tmp_path):
    (tmp_path / "captions").mkdir()
    (tmp_path / "image_splits").mkdir()
    file = tmp_path / "captions" / "cap.rc2.val.json"
    file.write_text(json.dumps(CIRR))
    pool = {f"dev-{n}": f"./dev/dev-{n}.png" for n in range(1, 7)}
    (tmp_path / "image_splits" / "split.rc2.val.json").write_text(json.dumps(pool))
    query_set = read_composed(file, images=tmp_path)
    assert query_set.queries[0] == ComposedQuery("7", "dev-1", "two dogs", ("dev-2",), ("dev-2", "dev-3", "dev-4"))
    assert list(query_set.images.ids) == list(pool) and not query_set.warnings
    assert query_set.images.values[0] == str(tmp_path / "dev" / "dev-1.png")


def test_circo_has_several_answers_and_fashion_iq_two_captions(tmp_path):
    (tmp_path / "val.json").write_text(json.dumps(CIRCO))
    info = {"images": [{"id": n, "file_name": f"{n:012d}.jpg"} for n in range(10, 20)]}
    (tmp_path / "info.json").write_text(json.dumps(info))
    query_set = read_composed(tmp_path / "val.json", pool=tmp_path / "info.json", images=tmp_path)
    assert query_set.queries[0].answers == ("12", "13") and len(query_set.images) == 10
    assert str(query_set.images.values[1]).endswith("000000000011.jpg")
    (tmp_path / "cap.dress.val.json").write_text(json.dumps(FASHION))
    (tmp_path / "split.dress.val.json").write_text(json.dumps(["B1", "B2", "B3"]))
    dress = read_composed(tmp_path / "cap.dress.val.json")
    assert dress.queries[0].text == "is blue and has sleeves" and len(dress.images) == 3


def test_json_lines_without_a_pool_say_so(tmp_path):
    rows = [{"reference": "a", "text": "red", "answers": ["b", "c"]}, {"reference": "b", "text": "x", "answers": ["b"]}]
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    query_set = read_composed(file)
    assert len(query_set.queries) == 1 and list(query_set.images.ids) == ["a", "b", "c"]
    assert any("reference image is among the answers" in note for note in query_set.warnings)
    assert any("no list of candidates" in note for note in query_set.warnings)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"a": 1}, "expected a list of queries"),
        ([1], "expected an object for each query"),
        ([{"pairid": 1, "reference": "a", "caption": "x"}], "expected the keys of CIRR"),
        ([{"candidate": "a", "target": "", "captions": ["x"]}], "lacks an image"),
        ([{"reference": "a", "text": "x", "answers": []}], "lacks an image, its text or its answers"),
        ([{"reference": "a", "text": "x", "answers": "b"}], "are lists of images"),
        ([CIRR[0], CIRR[0]], "is there twice"),
        ([], "has no queries"),
        ([{"candidate": "a", "target": "b", "captions": 3}], "not a valid"),
    ],
)
def test_bad_files_are_refused_in_one_line(tmp_path, content, message):
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(content))
    with pytest.raises(LimnerError, match=message):
        read_composed(file)
    done = run("evaluate", f"composed:{file}", "--model", "clip(model=DIR)")
    assert done.exit_code == 3 and "Traceback" not in done.output


def test_in_scenes_all_answers_are_known_and_no_others_are_right():
    query_set = scenes_composed(60, seed=3)
    contents = [Content.of(scene) for scene in query_set.images.field("scene")]
    place = {name: row for row, name in enumerate(query_set.images.ids)}
    assert {query.subset for query in query_set.queries} == set(CHANGES) and query_set.complete
    for query in query_set.queries:
        before = contents[place[query.reference]]
        after = {contents[place[answer]] for answer in query.answers}
        assert len(after) == 1 and query.reference not in query.answers
        (content,) = after
        assert query.answers == tuple(name for name, row in place.items() if contents[row] == content)
        changed = (before.background != content.background) + len(before.things - content.things)
        assert changed == 1, query.text
    assert query_set.images.open(0).size[0] > 0


def toy(count=6, dim=4, *, seed=0, queries=5):
    rng = np.random.default_rng(seed)
    names = [f"i{n}" for n in range(count)]
    rows = []
    for n in range(queries):
        reference, *candidates = rng.permutation(names)
        rows.append(
            ComposedQuery(f"q{n}", reference, "x", tuple(candidates[:2]), tuple(candidates[:4]), subset="ab"[n % 2])
        )
    query_set = ComposedQueries("toy", tuple(rows), Items(names, [None] * count))
    images = Embeddings(names, rng.standard_normal((count, dim)).astype(np.float32))
    return query_set, images, Embeddings(query_set.texts.ids, rng.standard_normal((queries, dim)).astype(np.float32))


def slow(query_set, images, vectors, measure, cut, *, in_subset=False):
    """Plain loops over plain lists."""
    values = []
    for row, query in enumerate(query_set.queries):
        pool = [name for name in (query.group if in_subset else images.ids) if name != query.reference]
        cosine = {}
        for name in pool:
            one, two = vectors.matrix[row], images.matrix[images.ids.index(name)]
            cosine[name] = float(one @ two / np.linalg.norm(one) / np.linalg.norm(two))
        ranked = sorted(pool, key=lambda name: -cosine[name])
        right = [name in query.answers for name in ranked]
        if measure == "R":
            values.append(float(any(right[:cut])))
        else:
            total = sum(sum(right[: n + 1]) / (n + 1) for n in range(min(cut, len(right))) if right[n])
            values.append(total / min(cut, len(query.answers)))
    return float(np.mean(values))


@pytest.mark.parametrize("seed", range(5))
def test_every_measure_equals_a_slow_loop(seed):
    query_set, images, texts = toy(9, seed=seed, queries=8)
    report = evaluate_composed(query_set, (images, texts), measures="R@1 R@3 MAP@1(capped) MAP@3(capped)", weight=0.3)
    for composition in COMPOSITIONS:
        vectors = composed(query_set, images, texts, composition=composition, weight=0.3)
        for cut in (1, 3):
            assert report.value(composition, f"R@{cut}").estimate == pytest.approx(
                slow(query_set, images, vectors, "R", cut)
            )
            expected = slow(query_set, images, vectors, "MAP", cut)
            assert report.value(composition, f"MAP@{cut}(capped)").estimate == pytest.approx(expected)
            expected = slow(query_set, images, vectors, "R", cut, in_subset=True)
            assert report.value(composition, f"subset R@{cut}").estimate == pytest.approx(expected)


def test_the_reference_is_never_found_however_alike_it_is():
    query_set, images, texts = toy()
    report = evaluate_composed(query_set, (images, texts), measures="R@5")
    assert report.value("image", "R@5").estimate == 1.0  # five other images: each list holds all of them
    scores = limner.Scores.from_matrix(np.full((5, 6), 0.5), query_set.texts.ids, query_set.images.ids)
    report_of_scores = evaluate_composed(query_set, scores, name="flat", measures="R@1")
    assert report_of_scores.value("flat", "R@1").estimate == pytest.approx(2 / 5)  # ties among the five others


@pytest.mark.parametrize(("scores", "right"), [([1, 1, 0], 1), ([1, 1, 1, 2], 2), ([0, 0, 0, 0, 3], 3), ([2, 1, 1], 2)])
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_ties_within_a_subset_count_as_their_expectation(scores, right, cut):
    orders = [sorted(order, key=lambda n: -scores[n]) for order in permutations(range(len(scores)))]
    expected = np.mean([any(n < right for n in order[:cut]) for order in orders])
    assert _expected_hit(np.array(scores, dtype=float), right, cut) == pytest.approx(expected)


def test_a_system_that_knows_the_answer_scores_one_and_the_single_sides_do_not():
    """Vectors that hold the content: the words move the reference to exactly what is asked for."""
    query_set = scenes_composed(30)
    contents = [Content.of(scene) for scene in query_set.images.field("scene")]
    number = {content: n for n, content in enumerate(dict.fromkeys(contents))}
    place = {name: row for row, name in enumerate(query_set.images.ids)}
    images = Embeddings(query_set.images.ids, np.eye(len(number), dtype=np.float32)[[number[c] for c in contents]])
    answers = [number[contents[place[query.answers[0]]]] for query in query_set.queries]
    texts = Embeddings(query_set.texts.ids, np.eye(len(number), dtype=np.float32)[answers])
    report = evaluate_composed(query_set, (images, texts), weight=0.9)
    assert report.value("sum", "R@1").estimate == 1.0 and report.value("sum", "MAP@10(capped)").estimate == 1.0
    assert report.value("image", "R@1").estimate < 0.1
    assert {line.subset for line in report.lines} == {"all", *CHANGES}


def test_from_the_shell(tmp_path):
    query_set, images, texts = toy()
    lines = [{"id": q.id, "reference": q.reference, "text": q.text, "answers": q.answers} for q in query_set.queries]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    images.save(tmp_path / "i.npz")
    texts.save(tmp_path / "t.npz")
    words = (
        "evaluate",
        f"composed:{tmp_path / 'q.jsonl'}",
        "--images",
        tmp_path / "i.npz",
        "--texts",
        tmp_path / "t.npz",
    )
    done = run(*words, "--json", "-o", tmp_path / "out.csv")
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert {row["system"] for row in answer["lines"]} == set(COMPOSITIONS)
    assert (tmp_path / "out.csv").read_text().startswith("system,subset,measure")
    np.save(tmp_path / "s.npy", np.zeros((5, 6), dtype=np.float32))
    assert run("evaluate", f"composed:{tmp_path / 'q.jsonl'}", "--scores", tmp_path / "s.npy").exit_code == 0
    assert run("evaluate", f"composed:{tmp_path / 'q.jsonl'}").exit_code == 2
    assert run(*words[:4]).exit_code == 2
    assert run("evaluate", "composed:scenes", "-O", "pool=q.jsonl", "--model", "histograms").exit_code == 2
    assert run("evaluate", f"composed:{tmp_path / 'q.jsonl'}", "--model", "clip(model=DIR)").exit_code == 2


@pytest.mark.parametrize("command", ["evaluate composed:scenes -O queries=6", "explain probe scenes -O cases=6"])
def test_a_system_that_is_not_trained_yet_is_trained(tmp_path, monkeypatch, command):
    world, loaded = limner.load("scenes", images=40), []
    monkeypatch.setattr("limner.cli.options.load", lambda spec, _: loaded.append(spec) or world)
    done = run(*command.split(), "--model", "histograms", "--json")
    assert done.exit_code == 0 and loaded == ["scenes"], done.output
    done = run(*command.split(), "--model", "histograms", "-O", "train_on=photos", "--json")
    assert done.exit_code == 0 and loaded == ["scenes", "photos"], done.output
    limner.train(world, "histograms").save(tmp_path / "model")
    done = run(*command.split(), "--model", tmp_path / "model", "-O", "train_on=photos")
    assert done.exit_code == 3 and "is not trained now: leave it out" in done.stderr
    assert run(*command.split(), "--scores", "s.npy", "-O", "train_on=photos").exit_code == 2


def test_a_file_of_queries_needs_a_collection_to_train_on(tmp_path):
    query_set = scenes_composed(3)
    limner.datasets.write(limner.load("scenes", images=30), tmp_path / "photos")
    (tmp_path / "images").mkdir()
    for row, name in enumerate(query_set.images.ids):
        query_set.images.open(row).save(tmp_path / "images" / f"{name}.png")
    lines = [{"id": q.id, "reference": f"{q.reference}.png", "text": q.text, "answers": [f"{a}.png" for a in q.answers]}
             for q in query_set.queries]  # fmt: skip
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    words = (
        "evaluate",
        f"composed:{tmp_path / 'q.jsonl'}",
        "-O",
        f"images={tmp_path / 'images'}",
        "--model",
        "histograms",
    )
    done = run(*words)
    assert done.exit_code == 3 and "give -O train_on=COLLECTION" in done.stderr
    done = run(*words, "-O", f"train_on={tmp_path / 'photos'}", "--json")
    assert done.exit_code == 0 and json.loads(done.stdout)["lines"], done.output


def test_joint_spaces_of_systems_that_are_trained_now():
    done = run("explain", "gap", "scenes", "-O", "images=60", "--model", "histograms", "--json")
    assert done.exit_code == 0, done.output


def test_what_does_not_fit_is_refused():
    query_set, images, texts = toy()
    with pytest.raises(LimnerError, match="composition 'product'"):
        composed(query_set, images, texts, composition="product")
    with pytest.raises(LimnerError, match="weight=2"):
        composed(query_set, images, texts, weight=2)
    with pytest.raises(LimnerError, match="not in the pool"):
        ComposedQueries("x", (ComposedQuery("q", "z", "t", ("i0",)),), query_set.images)
    with pytest.raises(LimnerError, match="at least one"):
        scenes_composed(0)
