"""The audit: each defect planted by hand, what is repaired and left out, and the command."""

from __future__ import annotations

import io
import itertools
import json

import numpy as np
import pytest
from PIL import Image, ImageOps
from typer.testing import CliRunner

import limner
from limner import LimnerError
from limner.cli import app
from limner.datasets.trec import read_qrels
from limner.evaluation.measures import DEFAULT
from limner.explain.audit import KINDS, audit
from limner.explain.audit.blind_answers import reached, threshold
from limner.explain.audit.label_doubts import Fit, fit
from limner.explain.audit.missing_matches import expected, missed
from limner.explain.audit.permuted_labels import _beliefs, _scaled, permuted
from limner.language.identification import main_language, other_language

N = 60


def encoded(picture, form="PNG", **options):
    out = io.BytesIO()
    picture.save(out, form, **options)
    return out.getvalue()


def drawn(number):
    """Blocks of colour, different for every number."""
    rng = np.random.default_rng(number)
    small = Image.fromarray(rng.integers(0, 255, (6, 6, 3), dtype=np.uint8))
    return small.resize((96, 72), Image.Resampling.BICUBIC)


def collection(values=None, texts=None, *, per_image=2, splits=None):
    images = [f"photo{n:03}.png" for n in range(N)]
    ids = [f"{image}#{m}" for image in images for m in range(per_image)]
    captions = texts or [f"a thing number {n} stands on the table" for n in range(len(ids))]
    pairs = limner.Judgements.from_pairs([(text.partition("#")[0], text) for text in ids])
    pictures = values or [encoded(drawn(n)) for n in range(N)]
    return limner.Collection(
        "toy", limner.Items(images, pictures), limner.Items(ids, captions, kind="text"), pairs, splits or {}
    )


def finding_items(kind, audited, **options):
    return [entry.items for entry in audit(audited, **options).of(kind)]


def test_a_sound_collection_has_no_findings():
    report = audit(collection())
    assert report.findings == () and report.sound and report.added == 0 and "nothing found" in str(report)


def test_images_that_are_broken_tiny_or_copies():
    values = [encoded(drawn(n)) for n in range(N)]
    values[3] = values[3][:100]
    values[4] = encoded(drawn(4).resize((20, 40)))
    values[5] = values[6]
    values[7] = encoded(drawn(8), compress_level=1)  # other bytes, the same pixels
    values[9] = encoded(drawn(10).resize((80, 60)), "JPEG", quality=70)
    values[11] = None
    report = audit(collection(values))
    by_kind = {kind: [f.items for f in report.of(kind)] for kind in KINDS if report.of(kind)}
    assert by_kind == {
        "broken-image": [("photo003.png",)],
        "tiny-image": [("photo004.png",)],
        "duplicate-image": [("photo005.png", "photo006.png"), ("photo007.png", "photo008.png")],
        "near-duplicate-image": [("photo009.png", "photo010.png")],
        "missing-matches": [("toy",)],
    }
    assert "1 images have no file" in report.notes[0] and not report.sound
    assert report.added == 3 * 4  # two captions each, both ways
    assert {"photo003.png", "photo006.png", "photo010.png"} <= set(report.leave_out)


PAGE = b"<html><body>404 not found</body></html>"


def test_files_that_do_not_open_are_no_copies_of_each_other():
    """A page of a server, saved under the names of three photographs."""
    images = [f"photo{n:03}.png" for n in range(N)]
    values = [encoded(drawn(n)) for n in range(N)]
    values[3] = values[7] = values[50] = PAGE
    report = audit(collection(values, splits={"train": images[:40], "test": images[40:]}))
    assert [f.items for f in report.of("broken-image")] == [("photo003.png",), ("photo007.png",), ("photo050.png",)]
    assert report.of("duplicate-image") == report.of("leakage") == [] and report.added == 0
    assert len(report.repaired) == 2 * N


def test_mirrored_copies_leak_but_their_captions_are_not_paired():
    images = [f"photo{n:03}.png" for n in range(N)]
    values = [encoded(drawn(n)) for n in range(N)]
    values[3] = encoded(ImageOps.mirror(drawn(50)))
    values[7] = encoded(ImageOps.mirror(drawn(8)).resize((80, 60)), "JPEG", quality=70)
    report = audit(collection(values, splits={"train": images[:40], "test": images[40:]}))
    pairs = [(f.items, f.detail) for f in report.of("near-duplicate-image")]
    assert pairs == [(("photo003.png", "photo050.png"), "mirrored"), (("photo007.png", "photo008.png"), "mirrored")]
    assert [f.items for f in report.of("leakage")] == [("photo050.png", "photo003.png")] and report.added == 0


@pytest.mark.parametrize("symmetric", [False, True])
def test_a_symmetric_image_and_others_are_no_mirrored_copies(symmetric):
    values = [drawn(n) for n in range(N)]
    if symmetric:
        for picture in values:
            picture.paste(ImageOps.mirror(picture.crop((0, 0, 48, 72))), (48, 0))
    assert audit(collection([encoded(picture) for picture in values])).findings == ()


def test_what_copies_are_not_found_is_said_with_the_number_of_those_found():
    report = audit(collection())
    assert any(
        "not if they were cropped by 5% or more, framed, turned or marked with a logo" in n for n in report.notes
    )
    assert not any("cropped" in note for note in audit(collection(), look=False).notes)


def framed(picture):
    return ImageOps.expand(picture, border=6, fill="white")


def cropped(picture):
    return picture.crop((5, 4, picture.width - 5, picture.height - 4))


def grey(picture):
    return picture.convert("L").convert("RGB")


@pytest.mark.parametrize(
    ("changed", "lowest", "highest"),
    [
        (lambda picture: picture, 1, 1),
        (lambda picture: picture.resize((48, 36)), 1, 1),
        (ImageOps.mirror, 1, 1),
        (cropped, 0, 0.2),
        (framed, 0, 0.2),
        (ImageOps.flip, 0, 0),
        (grey, 0, 0.9),
    ],
)
def test_the_copies_that_the_note_names(changed, lowest, highest):
    values = [encoded(drawn(n)) for n in range(N)]
    values[30:] = [encoded(changed(drawn(n)), "JPEG", quality=80) for n in range(30)]
    pairs = {f"photo{n:03}.png" for n in range(30)}
    copies = {f.items[0] for f in audit(collection(values)).of("near-duplicate-image")} & pairs
    assert lowest <= len(copies) / 30 <= highest


def test_an_object_that_moved_is_no_copy():
    base = drawn(0)
    moved = base.copy()
    moved.paste((255, 255, 255), (10, 10, 22, 22))
    values = [encoded(drawn(n)) for n in range(N)]
    values[1] = encoded(moved)
    assert finding_items("near-duplicate-image", collection(values)) == []


def test_leakage_is_a_copy_in_another_split():
    images = [f"photo{n:03}.png" for n in range(N)]
    values = [encoded(drawn(n)) for n in range(N)]
    values[0], values[1] = values[50], values[2]
    splits = {"train": images[:40], "test": images[40:]}
    assert finding_items("leakage", collection(values, splits=splits)) == [("photo050.png", "photo000.png")]
    assert list(audit(collection(values, splits=splits)).leave_out) == ["photo000.png", "photo002.png"]
    twice = {"train": images[:41], "test": images[40:]}
    assert ("photo040.png",) in finding_items("leakage", collection(splits=twice))


def test_captions():
    texts = [f"a thing number {n} stands on the table" for n in range(2 * N)]
    texts[10], texts[31] = "A dog!", "a  DOG"
    texts[40] = texts[41]
    texts[50] = " ... "
    texts[60] = "look at photo030 here"
    texts[70] = "Ein Hund rennt über die Wiese"
    texts[71] = "一只狗在草地上"
    report = audit(collection(texts=texts), look=False)
    by_kind = {kind: [f.items for f in report.of(kind)] for kind in KINDS if report.of(kind)}
    assert by_kind == {
        "repeated-caption": [("photo005.png#0", "photo015.png#1")],
        "caption-twice": [("photo020.png#0", "photo020.png#1")],
        "empty-caption": [("photo025.png#0",)],
        "self-match": [("photo030.png#0",)],
        "other-language": [("photo035.png#0",), ("photo035.png#1",)],
        "missing-matches": [("toy",)],
    }
    assert report.repaired.grade("photo005.png", "photo015.png#1") == 1.0 and report.added == 2
    assert set(report.leave_out) == {
        "photo020.png#1", "photo025.png#0", "photo030.png#0", "photo035.png#0", "photo035.png#1"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected", "language"),
    [
        ("Un chien court dans l'herbe", "en", "fr"),
        ("Zwei Männer stehen vor dem Haus", "en", "de"),
        ("Hnědý pes běží po trávě", "en", "cs"),
        ("two dogs", "en", ""),
        ("dog", "en", ""),
        ("A man in a café", "en", ""),
        ("a dog on the grass", "de", "en"),
        ("собака на траве", "en", "ru"),
        ("a dog", "ru", "a Latin script"),
        ("hund auf der wiese", "xx", ""),
    ],
)
def test_languages_are_told_only_if_plain(text, expected, language):
    found_language = other_language(text, expected)
    assert bool(found_language) == bool(language)
    assert found_language == language or language == "cs"  # or Polish: much is shared


def test_the_main_language_and_the_field_of_it():
    assert main_language(["der Hund ist da", "the dog", "die Katze auf dem Tisch"]) == "de"
    assert main_language([]) == ""
    toy = collection()
    texts = toy.texts.with_fields(language=["de"] * len(toy.texts))
    marked = limner.Collection("toy", toy.images, texts, toy.judgements)
    assert len(finding_items("other-language", marked, look=False)) == len(texts)


def own_scores(noise=0.3, moved=None):
    """Images by captions, high where they belong together; captions of image moved[i] are labelled as those of i."""
    rng = np.random.default_rng(0)
    order = np.arange(N) if moved is None else np.asarray(moved)
    belongs = np.repeat(np.argsort(order), 2)  # the image that each labelled caption really shows
    return (np.arange(N)[:, None] == belongs[None, :]) + noise * rng.standard_normal((N, 2 * N))


@pytest.mark.parametrize("noise", [0.1, 0.2])
def test_permuted_labels_by_scores(noise):
    moved = np.arange(N)
    some = np.array([2, 5, 11, 16, 20, 27, 33, 38, 44, 47, 52, 57])
    moved[some] = np.roll(some, 1)
    report = audit(collection(), look=False, scores=own_scores(noise, moved))
    belongs = np.argsort(moved)
    assert {f.items[0]: f.detail for f in report.of("permuted-labels")} == {
        f"photo{n:03}.png": f"its captions fit photo{belongs[n]:03}.png" for n in some
    }
    assert report.of("wrong-labels") == [] and report.leave_out.keys() >= {f"photo{n:03}.png" for n in some}
    assert finding_items("permuted-labels", collection(), look=False, scores=own_scores(noise)) == []


def test_permuted_labels_are_found_where_one_score_decides_nothing():
    """Some right captions score lower with their image than wrong ones do: they are told by where they belong."""
    moved = np.arange(N)
    some = np.array([3, 14, 25, 36, 47, 58])
    moved[some] = np.roll(some, 1)
    scores, vague = own_scores(0.25, moved), np.array([7, 19, 30, 41, 52])
    for row in vague:
        scores[row, [2 * row, 2 * row + 1]] -= 0.8
    label_scores = fit(collection(), scores).local(np.arange(N)).diagonal()
    assert label_scores[vague].min() < label_scores[some].max()  # no threshold on a label's own score tells them apart
    called = {f.items[0] for f in audit(collection(), look=False, scores=scores).of("permuted-labels")}
    assert called == {f"photo{n:03}.png" for n in some}


def test_only_the_images_that_fit_worst_are_compared_in_a_large_collection(monkeypatch):
    monkeypatch.setattr("limner.explain.audit.permuted_labels.MOST", 52)
    moved = np.arange(N)
    moved[[4, 40]] = 40, 4
    assert finding_items("permuted-labels", collection(), look=False, scores=own_scores(0.1, moved)) == [
        ("photo004.png",),
        ("photo040.png",),
    ]


def test_beliefs_are_near_the_sums_over_all_assignments(monkeypatch):
    odds = np.exp(np.random.default_rng(0).normal(0, 1, (6, 6)))
    sums = np.zeros((6, 6))
    for order in itertools.permutations(range(6)):
        sums[range(6), order] += np.prod(odds[range(6), order])
    assert np.abs(_beliefs(odds) - sums / sums[0].sum()).max() < 0.1
    monkeypatch.setattr("limner.explain.audit.permuted_labels.NEAREST", 4)
    assert np.abs(_beliefs(odds) - sums / sums[0].sum()).max() < 0.2


def test_with_few_labels_left_none_of_them_is_doubtful():
    moved, some = np.arange(N), np.arange(0, 2 * 12, 2)
    moved[some] = np.roll(some, 1)
    fitted = fit(collection(), own_scores(0.1, moved))
    findings, rows, doubtful = permuted(collection(), fitted, set())
    assert (len(findings), rows, doubtful) == (12, set(some.tolist()), set())


def test_shares_sum_up():
    shares = _scaled(np.exp(np.random.default_rng(0).normal(0, 2, (30, 30))))
    assert shares.sum(axis=0) == pytest.approx(1) and shares.sum(axis=1) == pytest.approx(1, abs=2e-3)


def test_wrong_labels_by_scores():
    """Captions of no image of the collection: their scores are those of other images' captions."""
    some = np.array([2, 5, 11, 16, 20, 27, 33, 38, 44, 47, 52, 57])
    scores = own_scores(0.2)
    for row in some:
        scores[row, [2 * row, 2 * row + 1]] -= 1
    report = audit(collection(), look=False, scores=scores)
    called = {f.items[0] for f in report.of("wrong-labels")}
    assert called <= {f"photo{n:03}.png" for n in some} and len(called) >= 4
    assert report.of("permuted-labels") == [] and "is a list to inspect" in report.notes[-1]
    assert finding_items("wrong-labels", collection(), look=False, scores=own_scores(0.2)) == []


def test_captions_of_no_image_are_found_with_good_scores():
    """They fit no image, so the nearest captions of their image are farther than those of other images."""
    rng, n = np.random.default_rng(0), 300
    pairs = limner.Collection.in_order([f"i{row}" for row in range(n)], [f"t{row}" for row in range(n)])
    scores, some = rng.standard_normal((n, n)) + 8 * np.eye(n), np.arange(0, n, 20)
    scores[some, some] -= 8
    called = {f.items[0] for f in audit(pairs, look=False, scores=scores).of("wrong-labels")}
    assert called == {f"i{row}" for row in some}
    doubled = audit(pairs, look=False, scores=2 * scores + 1).of("wrong-labels")
    assert all("standard deviations above the mean of all pairs" in each.detail for each in doubled)
    assert {each.detail for each in doubled} == {
        f.detail for f in audit(pairs, look=False, scores=scores).of("wrong-labels")
    }


def weakly_scored(noise, seed):
    """Right labels, and scores by which many captions fit another image better than their own."""
    rng, n = np.random.default_rng(seed), 300
    images = rng.standard_normal((n, 16))
    scores = images @ (images + 2 * rng.standard_normal((n, 16))).T
    scores += noise * scores.std() * rng.standard_normal((n, n))
    assert np.mean(scores.argmax(axis=1) == np.arange(n)) < 0.3
    pairs = limner.Collection.in_order([f"i{row}" for row in range(n)], [f"t{row}" for row in range(n)])
    return audit(pairs, look=False, scores=scores)


@pytest.mark.parametrize("noise", [0.5, 1.0])
def test_weak_scores_are_no_finding(noise):
    assert not [f for f in weakly_scored(noise, seed=1).findings if f.kind.endswith("labels")]


@pytest.mark.parametrize("noise", [1.5, 2.0, 8.0])
def test_labels_are_not_judged_by_scores_close_to_chance(noise):
    report = weakly_scored(noise, seed=2)
    assert not [f for f in report.findings if f.kind.endswith("labels")]
    assert any("labels were not judged" in note and "at least 90% are needed" in note for note in report.notes)


@pytest.mark.parametrize("seed", range(3))
def test_wrong_captions_seldom_fit_better_than_right_ones(seed):
    """Images in groups of unequal size, captions of unequal quality."""
    unit = lambda rows: rows / np.linalg.norm(rows, axis=1, keepdims=True)  # noqa: E731
    rng, n = np.random.default_rng(seed), 300
    group = np.minimum(rng.geometric(0.12, n) - 1, 29)
    images = rng.standard_normal((30, 32))[group] + 0.7 * rng.standard_normal((n, 32))
    worse = 0.6 * np.exp(0.5 * rng.standard_normal((n, 1)))
    pairs = limner.Collection.in_order([f"i{row}" for row in range(n)], [f"t{row}" for row in range(n)])
    fitted = fit(pairs, unit(images) @ unit(images + worse * rng.standard_normal((n, 32))).T)
    beaten = [
        np.mean(np.diag(table)[:, None] < table.ravel()[None, :])
        for table in (fitted.table, fitted.local(np.arange(n)))
    ]
    assert beaten[1] < 0.75 * beaten[0]


def test_what_is_near_is_taken_off_by_counting():
    table = np.random.default_rng(1).standard_normal((25, 25))
    rows = np.array([row for row in range(25) if row not in (3, 8)])
    local = Fit(table, np.diag(table)).local(rows)
    for a, i in enumerate(rows):
        for b, j in enumerate(rows):
            by_row = sorted(table[i, rows])[-10:]
            by_column = sorted(table[rows, j])[-10:]
            assert local[a, b] == pytest.approx(2 * table[i, j] - np.mean(by_row) - np.mean(by_column))


def test_shifted_labels_by_scores():
    moved = np.arange(N)
    moved[10:20] = np.roll(moved[10:20], 1)
    ((items),) = finding_items("shifted-labels", collection(), look=False, scores=own_scores(0.1, moved))
    assert set(items) <= {f"photo{n:03}.png" for n in range(10, 20)} and len(items) >= 9
    assert finding_items("shifted-labels", collection(), look=False, scores=own_scores(0.1)) == []


def test_permuted_neighbours_are_no_shift():
    """Captions of four neighbours went elsewhere, and fit the next image by chance better than their own."""
    moved, some = np.arange(N), np.array([10, 11, 12, 13, 30, 38, 46, 54])
    moved[some] = some[[4, 5, 6, 7, 0, 1, 2, 3]]
    scores = own_scores(0.1, moved)
    for row in range(10, 14):
        scores[row, [2 * row, 2 * row + 1]] -= 0.4
        scores[row + 1, [2 * row, 2 * row + 1]] += 0.1
    report = audit(collection(), look=False, scores=scores)
    assert report.of("shifted-labels") == []
    assert {f.items[0] for f in report.of("permuted-labels")} == {f"photo{n:03}.png" for n in some}


def test_vectors_that_are_close():
    vectors = np.random.default_rng(0).standard_normal((N, 16))
    vectors[7] = 2 * vectors[3]
    assert finding_items("close-vectors", collection(), look=False, vectors=vectors) == [
        ("photo003.png", "photo007.png")
    ]


@pytest.mark.parametrize(("right", "pool", "k"), [(1, 10, 5), (3, 12, 5), (5, 6, 1), (12, 12, 1)])
def test_chance_by_counting(right, pool, k):
    every = list(itertools.combinations(range(pool), min(k, pool)))
    one = limner.Judgements.from_pairs(
        [("q", f"t{n}") for n in range(right)], candidates=[f"t{n}" for n in range(pool)]
    )
    texts = limner.Items(list(one.candidates), [""] * pool, kind="text")
    levels = {str(r.measure): r for r in reached(limner.Collection("x", limner.Items(["q"], [None]), texts, one))
            if r.direction == "i2t"}  # fmt: skip
    assert levels[f"R@{k}"].by_chance == pytest.approx(np.mean([min(each) < right for each in every]))
    assert levels["R@1"].one_list == 1  # one query: its captions are the best list


def test_every_measure_is_compared_with_random_answers_equal_scores_and_one_list():
    """As evaluate() has them: equal scores, the mean of many random ones, and candidates by how many they match."""
    rng = np.random.default_rng(0)
    pairs = [(f"i{n}", f"t{n}") for n in range(12)] + [(f"i{n}", "t0") for n in range(1, 9)]
    judged = limner.Judgements.from_pairs(pairs)
    images, texts = limner.Items([f"i{n}" for n in range(12)], [None] * 12), [f"t{n}" for n in range(12)]
    toy = limner.Collection("x", images, limner.Items(texts, texts, kind="text"), judged)
    levels = {(str(r.measure), r.direction): r for r in reached(toy)}
    measures = " ".join({name for name, _ in levels})
    assert {*map(str, DEFAULT), "MeanR", "nDCG@10", "MAP@10", "P@5", "Recall@5"} <= set(measures.split())
    assert "PMRP" not in measures

    def values(matrix):
        scores = limner.Scores.from_matrix(matrix, toy.images.ids, toy.texts.ids)
        report = limner.evaluate(scores, toy, measures=measures)
        return {(str(r.measure), "" if str(r.measure) == "rsum" else r.direction): r.value for r in report.results}

    equal = values(np.zeros((12, 12)))
    drawn = [values(rng.standard_normal((12, 12))) for _ in range(400)]
    popular = np.bincount(judged.columns, minlength=12) - 0.01 * np.arange(12)
    for key, level in levels.items():
        assert level.by_chance == pytest.approx(equal[key])
        if key[0] != "MedR":
            assert level.by_chance == pytest.approx(np.mean([each[key] for each in drawn]), rel=0.1), key
    one = values(np.tile(popular, (12, 1)))
    for key, level in levels.items():
        if key[1] == "i2t":
            assert level.one_list == pytest.approx(one[key]), key
    assert ("R@1 i2t",) in finding_items("won-by-chance", toy)  # t0 alone matches nine of twelve
    assert levels["R@1", "i2t"].by_chance < 0.2 <= levels["R@1", "i2t"].one_list == pytest.approx(9 / 12)


# --- solvable blind ---------------------------------------------------------------------------------------------

WORDS = [each.split() for each in ("red blue green small old", "dog cat horse cup boat bird", "sits stands lies waits",
                                   "near behind under", "house tree river wall")]  # fmt: skip


def with_negatives(items, *, shuffled=(), grade=0.0, extra_captions=0):
    """Captions of one form, each with a negative of the same form, or with its own words in another order.

    Each image has one caption, and `extra_captions` others that no negative was made from.
    """
    rng = np.random.default_rng(5)

    def caption():
        colour, noun, does, preposition, place = (str(rng.choice(each)) for each in WORDS)
        return f"a {colour} {noun} {does} {preposition} the {place}"

    images = [f"i{n}" for n in range(items)]
    right = [caption() for _ in images]
    foils = [" ".join(rng.permutation(right[n].split())) if n in shuffled else caption() for n in range(items)]
    ids = [f"{image}{side}" for side in "+-" for image in images]
    pairs = [(i, f"{i}+", 1.0) for i in images] + [(i, f"{i}-", grade) for i in images]
    extra_pairs = [(image, f"{image}{n}", 1.0) for image in images for n in range(extra_captions)]
    ids += [text for _, text, _ in extra_pairs]
    judged = limner.Judgements.from_pairs(pairs + extra_pairs, queries=images, candidates=ids)
    texts = limner.Items(ids, [*right, *foils, *(caption() for _ in extra_pairs)], kind="text")
    return limner.Collection("hard", limner.Items(images, [None] * items), texts, judged)


@pytest.mark.parametrize("planted_count", [8, 30, 100])  # with 8, a threshold on margins finds none
def test_items_solvable_blind_are_those_that_were_planted(planted_count):
    planted = set(range(3, 3 + planted_count))
    toy = with_negatives(300, shuffled=planted, extra_captions=9)
    called = {items[0] for items in finding_items("solvable-blind", toy, look=False)}
    truth = {f"i{n}" for n in planted}
    assert len(called & truth) >= 0.95 * len(called) > 0 and len(called & truth) >= 0.95 * planted_count


def test_negatives_that_need_the_image_are_no_finding():
    assert finding_items("solvable-blind", with_negatives(300), look=False) == []
    assert finding_items("solvable-blind", with_negatives(300, shuffled=range(300), grade=1.0), look=False) == []
    report = audit(with_negatives(19, shuffled=range(19)), look=False)
    assert report.of("solvable-blind") == [] and "19 images with judged negatives, 20 are needed" in report.notes[-1]


def test_a_longer_negative_is_told_by_its_length():
    toy = with_negatives(60)
    longer = [
        text + " today" if key.endswith("-") else text for key, text in zip(toy.texts.ids, toy.texts, strict=True)
    ]
    texts = limner.Items(toy.texts.ids, longer, kind="text")
    details = [
        f.detail
        for f in audit(limner.Collection("x", toy.images, texts, toy.judgements), look=False).of("solvable-blind")
    ]
    assert len(details) == 60 and all("length +1.00" in each for each in details)


def test_the_threshold_by_counting():
    rng = np.random.default_rng(0)
    for _ in range(50):
        margins = np.round(rng.normal(rng.uniform(0, 2), 1, 80), 1)
        cuts = [t for t in sorted({abs(m) for m in margins} - {0.0})
                if 1 + sum(m <= -t for m in margins) <= 0.05 * sum(m >= t for m in margins)]  # fmt: skip
        assert threshold(margins) == (cuts[0] if cuts else np.inf)


def test_a_judged_negative_never_becomes_a_match():
    toy = with_negatives(30)
    texts = list(toy.texts.values)
    texts[30] = texts[1]  # the negative of the first image is the caption of the second
    repeated = limner.Collection("x", toy.images, limner.Items(toy.texts.ids, texts, kind="text"), toy.judgements)
    repaired = audit(repeated, look=False).repaired
    assert repaired.grade("i0", "i0-") == 0 and repaired.grade("i1", "i0-") == 1


def test_measures_that_chance_wins():
    tiny = limner.Collection.in_order(["a", "b", "c"], ["x", "y", "z"])
    items = finding_items("won-by-chance", tiny)
    assert ("R@1 i2t",) in items and ("R@10 t2i",) in items
    large = limner.Collection.in_order([f"i{n}" for n in range(1000)], [f"t{n}" for n in range(1000)])
    assert finding_items("won-by-chance", large) == []


def test_missing_matches_are_estimated_from_the_judgements_of_some_images():
    """The interval covers the true number, which `scenes` knows, if a part of the images is judged completely."""
    world = limner.load("scenes", images=300)
    complete = world.extra["complete"].relevant
    truth = len(complete) - len(world.judgements)
    covered = []
    for seed in range(40):
        some = np.random.default_rng(seed).choice(world.images.ids, 60, replace=False)
        values = missed(world, complete.restrict(queries=list(some)))
        covered.append(truth in expected(world, values))
    assert len(values) == 60 and np.mean(covered) >= 0.85
    every = missed(world, complete)
    assert every.sum() == truth and expected(world, every).estimate == pytest.approx(truth)
    (entry,) = audit(world, look=False).of("false-negatives")
    assert entry.items == ("complete",)
    assert (
        entry.detail == f"{truth:,} matches are missing (all images are judged), if these judgements have all matches"
    )


@pytest.mark.parametrize("judged", [50, 150, 280])
def test_only_the_images_without_judgements_are_uncertain(judged):
    """By drawing samples of a collection whose number of missing matches is known."""
    world = limner.load("scenes", images=300)
    complete = world.extra["complete"].relevant
    every = missed(world, complete)
    truth, hits, widths = every.sum(), [], []
    for seed in range(60):
        values = np.random.default_rng(seed).choice(every, judged, replace=False)
        interval = expected(world, values)
        assert values.sum() <= interval.low <= interval.estimate <= interval.high
        hits.append(truth in interval)
        widths.append(interval.high - interval.low)
    spread = 300 * every.std(ddof=1) / np.sqrt(judged) * np.sqrt(1 - judged / 300)
    assert np.mean(hits) >= 0.85 and 0.8 < np.mean(widths) / (2 * 1.96 * spread) < 1.2


def test_an_estimate_from_some_images_is_called_rough_and_none_missing_is_said():
    world = limner.load("scenes", images=300)
    some = list(world.images.ids[:60])
    parts = {"part": world.extra["complete"].restrict(queries=some), "labels": world.judgements.restrict(queries=some)}
    report = audit(limner.Collection("toy", world.images, world.texts, world.judgements, extra=parts), look=False)
    (entry,) = report.of("false-negatives")
    assert (
        entry.items == ("part",)
        and "(rough 95% interval " in entry.detail
        and "60 of 300 images judged" in entry.detail
    )
    assert "labels: no match is missing among the captions of 60 judged images" in report.notes


def test_a_lower_bound_asks_for_further_judgements_only_where_there_are_none():
    texts = [f"a thing number {n}" for n in range(2 * N)]
    texts[9] = texts[0]
    toy = collection(texts=texts)
    extra = {"people": toy.judgements}
    (entry,) = audit(limner.Collection("toy", toy.images, toy.texts, toy.judgements, extra=extra), look=False).of(
        "missing-matches"
    )
    assert entry.detail == "2 pairs of copies and repeats: a lower bound"


@pytest.mark.parametrize("share", [0.8996, 0.89999])
def test_a_share_below_what_is_needed_is_not_rounded_up_to_it(share, monkeypatch):
    monkeypatch.setattr("limner.explain.audit.label_doubts.separation", lambda *_: share)
    notes = audit(collection(), look=False, scores=own_scores(0.1, np.arange(N))).notes
    assert any("in 89.9% of comparisons, at least 90% are needed" in note for note in notes)


def test_without_further_judgements_missing_matches_are_a_lower_bound(tmp_path, monkeypatch):
    texts = [f"a thing number {n}" for n in range(2 * N)]
    texts[9] = texts[0]
    toy = collection(texts=texts)
    (entry,) = audit(toy, look=False).of("missing-matches")
    assert entry.detail == "2 pairs of copies and repeats: a lower bound, since an estimate needs further judgements"
    judged_pairs = [(image, text) for image in toy.images.ids[:3] for text in toy.texts.ids[:9]]
    judged_in_part = limner.Collection(
        "toy", toy.images, toy.texts, toy.judgements, extra={"people": limner.Judgements.from_pairs(judged_pairs)}
    )
    report = audit(judged_in_part, look=False)
    assert report.of("false-negatives") == [] and "3 images, 20 are needed" in report.notes[-1]


def test_further_judgements_from_the_shell(folder):
    rows = [f"p{n % 30}.png,a thing number {n},c{n}" for n in range(60)]
    (folder / "captions.csv").write_text("image,caption,id\n" + "\n".join(rows) + "\n")
    (folder / "people.qrels").write_text("".join(f"p{n}.png 0 c{(n + 1) % 30} 1\n" for n in range(30)))
    done = shell("data", "audit", "captions.csv", "-O", "check_images=false", "--judgements", "people.qrels", "--json")
    assert done.exit_code == 0, done.stderr
    (entry,) = [f for f in json.loads(done.stdout)["findings"] if f["kind"] == "false-negatives"]
    assert entry["items"] == ["people"] and entry["detail"].startswith("30 matches are missing (all images")


def test_wrong_shapes_are_refused():
    with pytest.raises(LimnerError, match="images by texts"):
        audit(collection(), look=False, scores=np.zeros((3, 3)))
    with pytest.raises(LimnerError, match="one for each"):
        audit(collection(), look=False, vectors=np.zeros((3, 3)))
    with pytest.raises(LimnerError, match="expected one of"):
        audit(collection(), look=False).of("ugly")


# --- the shell --------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for n in range(12):
        drawn(n if n != 5 else 4).save(tmp_path / f"p{n}.png")
    rows = [f"p{n}.png,{'A dog.' if n in (2, 3) else f'a thing number {n}'},c{n}" for n in range(12)]
    (tmp_path / "captions.csv").write_text("image,caption,id\n" + "\n".join(rows) + "\n")
    np.save(tmp_path / "S.npy", np.eye(12))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_command_finds_repairs_and_fails_in_ci(folder):
    words = ["data", "audit", "captions.csv", "-o", "f.csv", "-o", "f.json", "-o", "r.qrels"]
    done = shell(*words, "-o", "out.ids", "--strict")
    assert done.exit_code == 1, done.stderr
    assert "duplicate-image" in done.stdout and "p4.png p5.png" in done.stdout
    assert "p5.png" in (folder / "out.ids").read_text().split()
    repaired = read_qrels(folder / "r.qrels")
    assert {("p4.png", "c5"), ("p2.png", "c3")} <= {(q, c) for q, c, _ in repaired}
    content = json.loads((folder / "f.json").read_text())
    assert content["counts"]["duplicate-image"] == 1 and "severity,kind" in (folder / "f.csv").read_text()
    assert (
        shell("data", "audit", "captions.csv", "-O", "check_images=false", "--scores", "S.npy", "--json").exit_code == 0
    )


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("--images", "S.npy"), 2, "belong together"),
        (("--scores", "none.npy"), 3, "none.npy"),
        (("-o", "f.docx"), 3, ".docx"),
        (("--split", "test"), 3, "split"),
    ],
)
def test_what_is_refused(folder, words, status, says):
    done = shell("data", "audit", "captions.csv", *words)
    assert done.exit_code == status and says in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_the_page_shows_images_captions_and_severities_and_escapes_them(tmp_path):
    values = [encoded(drawn(n)) for n in range(N)]
    values[5], values[7] = values[4], values[7][:60]
    captions = [f"a thing number {n} stands on the table" for n in range(2 * N)]
    captions[20] = captions[31] = "<script>alert(1)</script> on the table"
    toy = collection(values, captions)
    page = audit(toy).save(tmp_path / "audit.html", collection=toy).read_text()
    assert page.count("<symbol id=") == 2  # the two copies; the broken one has none, and no image comes twice
    assert "photo007.png" in page and "no image" in page and "Skip to the findings" in page
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page
    for kind in ("duplicate-image", "broken-image", "repeated-caption"):
        assert f'id="{kind}"' in page and KINDS[kind].mend in page
    assert "http://" not in page.replace("http://www.w3.org", "") and "https://" not in page
    bare = audit(toy).save(tmp_path / "bare.html").read_text()
    assert "<symbol id=" not in bare and "photo004.png" in bare
    sound = audit(collection()).save(tmp_path / "sound.html").read_text()
    assert "Nothing was found." in sound


def test_the_page_from_the_shell_and_many_findings(tmp_path):
    limner.datasets.write(collection(texts=["the same"] * (2 * N)), tmp_path / "photos")
    done = CliRunner().invoke(app, ["data", "audit", str(tmp_path / "photos"), "-o", str(tmp_path / "audit.html")])
    assert done.exit_code == 0, done.output
    page = (tmp_path / "audit.html").read_text()
    assert "24 shown" in page and "more items" in page and len(page) < 3_000_000
