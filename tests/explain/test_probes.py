"""Probes: known answers on hand-made sets, every form of file, the built-in pairs, and baselines that see no image."""

from __future__ import annotations

import itertools
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import limner
from limner import LimnerError
from limner.cli import app
from limner.datasets.probe_files import Probe, ProbeCase, read_probe
from limner.datasets.scenes.scene_probes import STREAM, meanings, scenes_probe
from limner.datasets.scenes.world import Dice
from limner.explain.probe_results import GROUP, IMAGE, PAIR, TEXT, _chance, probe, value
from limner.language.bigram import BigramModel

FILES = {
    "sugarcrepe.json": {"0": {"filename": "a.jpg", "caption": "a dog and a cat", "negative_caption": "a car"}},
    "plus.json": [
        {"id": 3, "filename": "a.jpg", "caption": "a dog", "caption2": "one dog", "negative_caption": "a cat"},
    ],
    "aro.json": [{"image_path": "a.jpg", "true_caption": "the dog eats", "false_caption": "eats the dog", "bbox_x": 1}],
    "valse.json": {
        "x_1": {"image_file": "a.jpg", "caption": "two dogs", "foil": "three dogs", "linguistic_phenomena": "counting"}
    },
    "negbench.csv": "image_path,correct_answer,caption_0,caption_1,caption_2,caption_3,correct_answer_template\n"
    "a.jpg,1,no dog,a dog,no cat,two cars,positive\n",
    "winoground.jsonl": {
        "id": 7, "image_0": "a.jpg", "image_1": "b.jpg", "caption_0": "x eats y", "caption_1": "y eats x",
        "collapsed_tag": "Object",
    },
}  # fmt: skip


def written(folder, *names):
    for name in names or FILES:
        content = FILES[name]
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("sugarcrepe.json", ProbeCase("0", "sugarcrepe", ("a.jpg",), ("a dog and a cat",), ("a car",))),
        ("plus.json", ProbeCase("0", "plus", ("a.jpg",), ("a dog", "one dog"), ("a cat",))),
        ("aro.json", ProbeCase("0", "aro", ("a.jpg",), ("the dog eats",), ("eats the dog",))),
        ("valse.json", ProbeCase("x_1", "counting", ("a.jpg",), ("two dogs",), ("three dogs",))),
        ("negbench.csv", ProbeCase("0", "positive", ("a.jpg",), ("a dog",), ("no dog", "no cat", "two cars"))),
        ("winoground.jsonl", ProbeCase("7", "Object", ("a.jpg", "b.jpg"), ("x eats y", "y eats x"))),
    ],
)
def test_every_form_is_read(tmp_path, name, case):
    assert read_probe(written(tmp_path, name) / name, images=tmp_path).cases == (case,)
    assert read_probe(tmp_path / name, images=tmp_path).pictures["a.jpg"] == str(tmp_path / "a.jpg")


def test_a_folder_is_a_probe_of_subsets(tmp_path):
    loaded = read_probe(written(tmp_path))
    assert len(loaded.cases) == 6 and len({case.id for case in loaded.cases}) == 6
    pairs = loaded.collection()
    assert len(pairs.images) == 2 and len(pairs.texts) == len(set(pairs.texts.values))
    assert pairs.judgements.grade("b.jpg", pairs.texts.ids[pairs.texts.values.index("y eats x")]) == 1.0


def test_a_caption_that_is_right_and_wrong_is_left_out_and_told(tmp_path):
    records = {"0": {"filename": "a", "caption": "x", "negative_caption": "x"}, "1": {"filename": "a", "caption": "x",
            "negative_caption": "y"}}  # fmt: skip
    (tmp_path / "p.json").write_text(json.dumps(records))
    loaded = read_probe(tmp_path / "p.json")
    assert [case.id for case in loaded.cases] == ["1"] and "right and wrong" in loaded.warnings[0]


# --- measures ---------------------------------------------------------------------------------------------------

TWO = ProbeCase("0", "s", ("a", "b"), ("x", "y"))


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([[2, 1], [1, 2]], (1, 1, 1, 1)),
        ([[1, 2], [2, 1]], (0, 0, 0, 0)),
        ([[2, 1], [3, 4]], (1, 1, 0, 0)),  # the second image is closer to everything
        ([[2, 3], [1, 4]], (0.5, 0, 1, 0)),
        ([[1, 1], [1, 1]], (0.5, 0, 0, 0)),  # equal scores are a guess for pairs, and no answer as published
    ],
)
def test_two_images_and_two_captions(scores, expected):
    table = np.array(scores, dtype=float)
    assert tuple(value(TWO, table, m) for m in (PAIR, TEXT, IMAGE, GROUP)) == expected


@pytest.mark.parametrize(
    ("right", "scores", "expected"),
    [
        (1, [3, 1, 2], 1.0),
        (1, [2, 3, 1], 0.0),
        (1, [2, 2, 1], 1 / 2),
        (1, [2, 2, 2], 1 / 3),
        (2, [3, 2, 1], 1.0),
        (2, [3, 1, 2], 0.0),
    ],
)
def test_captions_beside_foils(right, scores, expected):
    case = ProbeCase("0", "s", ("a",), tuple("xy"[:right]), tuple("pqr"[: len(scores) - right]))
    assert value(case, np.array([scores], dtype=float), PAIR) == pytest.approx(expected)


@pytest.mark.parametrize("right", [1, 2, 3])
@pytest.mark.parametrize("foils", [1, 2])
def test_ties_count_the_share_of_orders_in_which_the_right_captions_come_first(right, foils):
    """Against every order of the captions that keeps higher scores first; a constant system scores chance."""
    case = ProbeCase("0", "s", ("a",), tuple("xyz"[:right]), tuple("pq"[:foils]))
    for scores in itertools.product(range(3), repeat=right + foils):
        orders = [
            order
            for order in itertools.permutations(range(right + foils))
            if all(scores[a] >= scores[b] for a, b in itertools.pairwise(order))
        ]
        share = np.mean([set(order[:right]) == set(range(right)) for order in orders])
        assert value(case, np.array([scores], dtype=float), PAIR) == pytest.approx(share)
    assert value(case, np.zeros((1, right + foils)), PAIR) == pytest.approx(_chance(case, PAIR))


@pytest.mark.parametrize(("right", "foils"), [(1, 1), (1, 3), (2, 1), (2, 2)])
def test_chance_is_the_mean_over_all_orders(right, foils):
    case = ProbeCase("0", "s", ("a",), tuple("xy"[:right]), tuple("pqr"[:foils]))
    orders = list(itertools.permutations(range(right + foils)))
    assert _chance(case, PAIR) == pytest.approx(
        np.mean([value(case, np.array([order], dtype=float), PAIR) for order in orders])
    )


@pytest.mark.parametrize("measure", [TEXT, IMAGE, GROUP])
def test_chance_of_two_images_is_the_mean_over_all_orders(measure):
    orders = [np.array(o, dtype=float).reshape(2, 2) for o in itertools.permutations(range(4))]
    assert _chance(TWO, measure) == pytest.approx(np.mean([value(TWO, order, measure) for order in orders]))


def test_a_system_by_hand():
    cases = tuple(
        ProbeCase(str(n), "even" if n % 2 == 0 else "odd", (f"i{n}",), (f"right {n}",), (f"wrong {n}",))
        for n in range(8)
    )
    hand_probe = Probe("hand", cases, {})
    pairs = hand_probe.collection()
    matrix = np.zeros((8, 16))
    for n in range(8):
        column = pairs.texts.values.index(f"right {n}" if n % 2 == 0 or n == 1 else f"wrong {n}")
        matrix[n, column] = 1
    scores = limner.Scores.from_matrix(matrix, pairs.images.ids, pairs.texts.ids)
    report = probe(hand_probe, scores, name="hand")
    assert report.line(subset="even").system.estimate == 1.0
    assert report.line(subset="odd").system.estimate == 0.25
    assert report.line().system.estimate == 0.625 and report.line().cases == 8
    assert "hand on hand" in str(report) and report.rows()[0]["system"] == 0.625
    with pytest.raises(LimnerError, match="no line"):
        report.line(GROUP)
    with pytest.raises(LimnerError, match="lack"):
        probe(hand_probe, limner.Scores.from_matrix(matrix[:3], pairs.images.ids[:3], pairs.texts.ids))


# --- baselines --------------------------------------------------------------------------------------------------


def test_the_bigram_model_by_hand():
    model = BigramModel(["a dog", "a cat", "the dog"])
    for before in ("a", "the", "dog", "unseen", "<s>"):
        vocabulary = {"a", "dog", "cat", "the", "</s>"}
        left_over = 1 - sum(model.probability(word, before) for word in vocabulary)
        # All that is left is for one more word.
        assert left_over == pytest.approx(model.probability("never seen", before))
    lower = (2 + 1) / (7 + 5 + 1)  # "dog" follows two of the words, out of seven kinds of pairs; five kinds of words
    assert model.probability("dog", "a") == pytest.approx((1 - 0.75) / 2 + 0.75 * 2 / 2 * lower)
    pairs = [("a", "<s>"), ("dog", "a"), ("</s>", "dog")]
    by_hand = sum(math.log(model.probability(word, before)) for word, before in pairs) / 3
    assert model.score("A dog.") == pytest.approx(by_hand)


def test_blind_baselines_solve_what_can_be_solved_without_looking():
    right = [f"a man rides the horse number {n}" for n in range(60)]
    cases = tuple(
        ProbeCase(str(n), "order", (f"i{n}",), (text,), (" ".join(text.split()[::-1]),)) for n, text in enumerate(right)
    )
    line = probe(Probe("order", cases, {})).line()
    assert line.blind["bigrams"].estimate > 0.95 and line.solved_blind and line.blind["length"].estimate == 0.5
    longer = tuple(ProbeCase(str(n), "length", (f"i{n}",), (t,), (f"{t} indeed",)) for n, t in enumerate(right))
    assert probe(Probe("length", longer, {})).line().blind["length"].estimate == 1.0


def test_the_language_model_never_sees_the_case_it_scores():
    """Captions of nonsense words that occur once: a model that had seen them would know them."""
    rng = np.random.default_rng(0)
    word = lambda: "".join(rng.choice(list("bcdfghjk"), 8))  # noqa: E731
    cases = tuple(
        ProbeCase(str(n), "s", (f"i{n}",), (f"{word()} {word()}",), (f"{word()} {word()}",)) for n in range(40)
    )
    assert probe(Probe("nonsense", cases, {})).line().blind["bigrams"].estimate == 0.5


@pytest.mark.parametrize("captions_per_image", [1, 3])
def test_a_foil_that_is_the_caption_of_another_case_is_not_known_either(captions_per_image):
    """Right captions and foils are drawn alike, so a baseline that sees no image has to guess."""
    rng = np.random.default_rng(3)
    sentence = lambda topic: f"a {rng.choice(list('pqrstu'))}{topic} {rng.choice(list('vwxyz'))}{topic} there"  # noqa: E731
    # Captions of one image share words.
    captions = [[sentence(n) for _ in range(captions_per_image)] for n in range(300)]
    cases = []
    for n, texts in enumerate(captions):
        foil = captions[(n + 1 + int(rng.integers(298))) % 300][0]
        cases += [ProbeCase(f"{n}-{k}", "s", (f"i{n}",), (text,), (foil,)) for k, text in enumerate(texts)]
    line = probe(Probe("drawn", tuple(cases), {})).line()
    assert line.blind["bigrams"].low < 0.5 < line.blind["bigrams"].high and not line.solved_blind


def test_captions_are_left_out_and_come_back():
    texts = ["a dog runs", "a dog runs", "the dog sits", "a cat", "a a a", ""]
    model, queries = BigramModel(texts), ["a dog", "runs the cat", "a a", "bird"]
    before = [model.score(text) for text in queries]
    with model.leaving_out(["a dog runs", "a a a"]):
        remaining = BigramModel(["a dog runs", "the dog sits", "a cat", ""])
        assert [model.score(text) for text in queries] == [remaining.score(text) for text in queries]
        assert [model.order_score(text) for text in queries] == [remaining.order_score(text) for text in queries]
    assert [model.score(text) for text in queries] == before


# --- the built-in pairs -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def drawn():
    return scenes_probe(60)


def test_the_captions_of_a_pair_have_the_same_words_and_are_true_of_one_picture_each(drawn):
    for number, case in enumerate(drawn.cases):
        first, second = case.right
        assert first != second and sorted(first.split()) == sorted(second.split())
        *_, readings = meanings(Dice(0, number, STREAM), case.subset)
        scenes = [drawn.pictures[image].scene for image in case.images]
        assert [[meaning.true_of(scene) for meaning in readings] for scene in scenes] == [[True, False], [False, True]]
    by_background = {drawing.scene.background: drawing for drawing in drawn.pictures.values()}
    assert len(by_background) == 6 and {drawing().size for drawing in by_background.values()} == {(160, 160)}
    assert scenes_probe(3).cases == drawn.cases[:3] and scenes_probe(3, seed=1).cases != drawn.cases[:3]


def scored(probe_set, score):
    pairs = probe_set.collection()
    matrix = np.array(
        [[score(probe_set.pictures[i].scene, text) for text in pairs.texts.values] for i in pairs.images.ids]
    )
    return limner.Scores.from_matrix(matrix, pairs.images.ids, pairs.texts.ids)


def bag_of_words(scene, text):
    """How many words of the caption name something in the picture."""
    named_words = {word for item in scene.objects for word in (item.kind, item.colour)}
    return float(sum(word in named_words for word in text.split()))


def reader(scene, text):
    """Reads the order of words: the left object, and the colour before a noun."""
    left, right = sorted(scene.objects, key=lambda item: item.box[0])
    if "left" in text:
        first, _, second = text.partition(" to the left of ")
        return float((left.kind in first) + (right.kind in second))
    return float(sum(f"{item.colour} {item.kind}" in text for item in scene.objects))


def test_a_bag_of_words_scores_chance_and_a_reader_does_not(drawn):
    blind, reading = (probe(drawn, scored(drawn, score)) for score in (bag_of_words, reader))
    for subset in ("all", "colours", "places"):
        assert blind.line(subset=subset).system.estimate == 0.5 == blind.line(subset=subset).chance
        assert blind.line(GROUP, subset=subset).system.estimate == 0.0
        assert reading.line(subset=subset).system.estimate == 1.0
        assert reading.line(GROUP, subset=subset).system.estimate == 1.0
        assert not reading.line(subset=subset).solved_blind


# --- real data and the shell ------------------------------------------------------------------------------------


def test_valse():
    folder = Path(os.environ.get("LIMNER_DATA", "/nowhere")) / "valse"
    if not folder.is_dir():
        pytest.skip("needs $LIMNER_DATA/valse")
    loaded = read_probe(folder)
    report = probe(loaded)
    assert len(loaded.cases) > 5000 and report.line(subset="actions").solved_blind


def shell(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    probe_set = scenes_probe(10)
    np.save("S.npy", scored(probe_set, reader).matrix())
    done = shell(
        "explain",
        "probe",
        "scenes",
        "-O",
        "cases=10",
        "--scores",
        "S.npy",
        "-o",
        "r.json",
        "-o",
        "r.csv",
        "--json",
    )
    assert done.exit_code == 0, done.stderr
    lines = json.loads(done.stdout)["lines"]
    assert lines[0]["system"] == 1.0 and json.loads(Path("r.json").read_text())["probe"] == "scenes"
    written(tmp_path, "sugarcrepe.json")
    plain = shell("explain", "probe", "sugarcrepe.json", "-o", "t.jsonl")
    assert (
        plain.exit_code == 0
        and "bigrams" in plain.stdout
        and '{"id": "t0", "text": "a dog and a cat"}' in Path("t.jsonl").read_text()
    )


SUBSETS = ("add_att", "add_obj", "replace_att", "replace_obj", "replace_rel", "swap_att", "swap_obj")


@pytest.mark.parametrize("form", ["folder", "file"])
def test_every_subset_of_the_form_of_sugarcrepe_has_blind_baselines(tmp_path, monkeypatch, form):
    """In one subset the wrong captions are no sentences, in one they are longer; in the others nothing tells them."""
    monkeypatch.chdir(tmp_path)
    nouns, places = ("dog", "cat", "horse", "bird", "cow"), ("house", "river", "wall", "tree")
    cases = {}
    for subset in SUBSETS:
        for number, (noun, place) in enumerate(itertools.product(nouns, places)):
            wrong_noun = nouns[(nouns.index(noun) + 1 + number % 4) % 5]
            right, wrong = f"the {noun} is near the {place}", f"the {wrong_noun} is near the {place}"
            wrong = " ".join(reversed(right.split())) if subset == "swap_obj" else wrong
            wrong += " again today" if subset == "add_att" else ""
            record = {"filename": f"{noun}-{place}.jpg", "caption": right, "negative_caption": wrong}
            cases.setdefault(subset, {})[str(number)] = record
    if form == "folder":
        Path("probe").mkdir()
        for subset, records in cases.items():
            Path(f"probe/{subset}.json").write_text(json.dumps(records))
    else:
        merged = {f"{s}-{n}": {**r, "subset": s} for s, records in cases.items() for n, r in records.items()}
        Path("probe.json").write_text(json.dumps(merged))
    path = "probe" if form == "folder" else "probe.json"
    done = shell("explain", "probe", path, "--json")
    assert done.exit_code == 0, done.stderr
    lines = {line["subset"]: line for line in json.loads(done.stdout)["lines"] if line["measure"] == PAIR}
    assert set(lines) == {"all", *SUBSETS} and all(lines[s]["cases"] == 20 for s in SUBSETS)
    assert all({"bigrams", "length"} <= set(lines[s]) for s in SUBSETS)
    assert lines["swap_obj"]["bigrams"] == 1.0 and lines["add_att"]["length"] == 1.0
    assert all(0.2 < lines[s]["bigrams"] < 0.8 and lines[s]["length"] == 0.5 for s in SUBSETS[2:6])
    table = [row.split() for row in shell("explain", "probe", path).stdout.splitlines()]
    assert {row[0] for row in table if row[-1:] == ["yes"]} == {"all", "add_att", "swap_obj"}  # solved blind


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("none.json",), 3, "none.json"),
        (("p.json", "--scores", "S.npy"), 3, "(2, 2)"),
        (("p.json", "-o", "x.html"), 3, ".html"),
        (("scenes", "-O", "images=."), 2, "generated"),
        (("p.json", "-O", "images=nowhere"), 3, "nowhere"),
    ],
)
def test_what_is_refused(tmp_path, monkeypatch, words, status, says):
    monkeypatch.chdir(tmp_path)
    Path("p.json").write_text(json.dumps(FILES["sugarcrepe.json"]))
    np.save("S.npy", np.zeros((2, 2)))
    done = shell("explain", "probe", *words)
    assert done.exit_code == status and says in done.stderr and "Traceback" not in done.stderr, done.stderr
