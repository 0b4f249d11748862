"""Cut-offs with a promised precision: the promise is kept, nothing is shown where nothing matches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import limner
from limner.core.errors import LimnerError
from limner.core.judgements import Judgements
from limner.search import calibrate_index, index, search_sure
from limner.search.cut_off import Calibration, calibrate, confidence_of_sets
from limner.search.index_statistics import calibration_of
from limner.stats import precision_threshold
from limner.stats.selective import Answers, _cluster_gains, _drawn, precision_within_reach


def slow_precision(answers, threshold, absent):
    """The precision, and the share of queries answered as they are, query by query."""
    right, shown, answered = 0.0, 0.0, 0
    for row in range(len(answers.confidence)):
        hits = [bool(r) for c, r in zip(answers.confidence[row], answers.right[row], strict=True) if c >= threshold]
        answered += bool(hits)
        right += (1 - absent) * np.mean(hits) if hits else 0.0
        shown += (1 - absent) * bool(hits) + absent * any(c >= threshold for c in answers.without[row])
    return right / shown if shown else np.nan, answered / len(answers.confidence)


def drawn(rng, images, *, queries=3, k=4, skill=1.5):
    """Answers of a system that gives right answers higher confidences, on the whole."""
    n = images * queries
    right = rng.random((n, k)) < 0.3
    luck = np.repeat(rng.standard_normal((images, 1)), queries, axis=0)
    confidence = skill * right + rng.standard_normal((n, k)) * 0.6 + 0.4 * luck
    unmatched = rng.standard_normal((n, k)) * 0.6 + 0.4 * luck
    return Answers(confidence, right, unmatched, np.repeat(np.arange(images), queries))


def test_what_is_shown_is_that_of_the_definition():
    answers = drawn(np.random.default_rng(1), 20)
    thresholds = np.linspace(-1, 3, 9)
    responses = answers.responses(thresholds)
    for column, threshold in enumerate(thresholds):
        precision, answered = slow_precision(answers, threshold, 0.3)
        assert answers.measured(threshold, absent=0.3) == pytest.approx((precision, answered), nan_ok=True)
        assert responses.precision(0.3)[column] == pytest.approx(precision, nan_ok=True)
        if not np.isnan(precision):
            assert responses.gains(precision, 0.3)[:, column].mean() == pytest.approx(0, abs=1e-12)
    assert np.isnan(answers.measured(99.0)[0])


def test_a_drawn_answer_is_right_with_the_probability_of_the_precision():
    """The test counts one answer of one query of an image; over many draws that is the precision over queries."""
    answers, grid = uneven(np.random.default_rng(13), 60, vague=4), np.array([1.6, 1.2])
    draws = [_drawn(answers, grid, 0.3, 4, seed) for seed in range(4000)]
    answered, right = (np.sum(each, axis=0) for each in zip(*draws, strict=True))
    for column, threshold in enumerate(grid):
        precision = answers.measured(threshold, absent=0.3)[0]
        assert right[column] / answered[column] == pytest.approx(precision, abs=0.01)


def test_the_test_is_the_exact_binomial_test():
    """Singletons, all present and answered: a threshold needs as many right answers as Clopper and Pearson say."""
    from scipy.stats import beta

    for wrong in range(1, 9):
        right = np.arange(100) >= wrong
        proposing = np.repeat([True, False], 100)
        both = np.concatenate([np.ones(100, bool), right])[:, None]
        answers = Answers(np.ones((200, 1)), both, np.zeros((200, 1)), np.arange(200), proposing)
        least = beta.ppf(0.05, 100 - wrong, wrong + 1)
        found = [precision_threshold(answers, precision=least + by, absent=1e-9).value for by in (-1e-3, 1e-3)]
        assert found == [1.0, None]


def test_the_gains_of_an_image_are_those_of_its_queries():
    answers = uneven(np.random.default_rng(15), 30, vague=4)
    grid, labels = np.array([1.6, 1.2]), np.asarray(answers.clusters)
    gains = answers.responses(grid[::-1]).gains(0.7, 0.3)[:, ::-1]
    expected = [gains[labels == label].sum(axis=0) / 4 for label in np.unique(labels)]
    assert _cluster_gains(answers, grid, 0.7, 0.3, 4) == pytest.approx(np.array(expected))


def uneven(rng, images, *, vague):
    """Images with one clear query, which the first hit answers, or with several vague ones, which it rarely does.

    The confidence says nothing about which: with images weighed alike, more than 0.7 of the first hits are right.
    """
    clear = rng.random(images) < 0.75
    clusters = np.repeat(np.arange(images), np.where(clear, 1, vague))
    n = len(clusters)
    right = rng.random(n) < np.where(clear[clusters], 0.99, 0.3)
    return Answers(1 + rng.random((n, 1)), right[:, None], np.zeros((n, 1)), clusters)


@pytest.mark.parametrize("vague", [5, 9])
def test_a_promise_is_for_a_random_query_however_many_an_image_has(vague):
    rng = np.random.default_rng(7)
    world = uneven(rng, 20_000, vague=vague)
    accepted = world.confidence[:, 0] >= 1
    assert world.right[accepted, 0].mean() < 0.65, "over queries, at any threshold"
    broken = []
    for seed in range(60):
        threshold = precision_threshold(uneven(rng, 400, vague=vague), precision=0.7, absent=0.01, seed=seed)
        broken.append(threshold.value is not None)
    assert np.mean(broken) <= 0.05


def test_a_promise_with_uneven_images_is_still_found():
    rng = np.random.default_rng(8)
    sample = uneven(rng, 400, vague=5)
    threshold = precision_threshold(sample, precision=0.4, absent=0.01)
    assert threshold.value is not None and threshold.largest == 5 and threshold.answered > 0.5


def test_measured_precision_is_over_queries():
    """By a slow count."""
    world = uneven(np.random.default_rng(9), 300, vague=4)
    threshold = 1.4
    accepted = [
        bool(right) for c, right in zip(world.confidence[:, 0], world.right[:, 0], strict=True) if c >= threshold
    ]
    assert world.measured(threshold, absent=0.01) == pytest.approx(
        (np.mean(accepted), len(accepted) / len(world.confidence))
    )


def test_an_image_with_more_queries_than_promised_for_does_not_count():
    """The draw needs a bound on an image's queries that is set before the test."""
    rng = np.random.default_rng(10)
    sample = drawn(rng, 40, queries=2)
    clusters = np.asarray(sample.clusters).copy()
    clusters[:12] = 0  # one image with 12 queries
    large = Answers(sample.confidence, sample.right, sample.without, clusters)
    thresholds = [precision_threshold(large, precision=0.5, seed=seed) for seed in range(8)]
    assert {each.largest for each in thresholds} == {2, 12}
    assert {each.clusters for each in thresholds} == {23, 24}, "35 images, of which 11 propose"


def test_one_image_with_nearly_all_queries_is_named_or_left_out():
    """Its size is the bound if it is in the part that proposes."""
    pair = Answers(np.ones((16, 1)), np.ones((16, 1), bool), np.zeros((16, 1)), [0, 1, *[2] * 7, *[3] * 7])
    thresholds = [precision_threshold(pair, precision=0.5, seed=seed) for seed in range(20)]
    assert {(each.largest, each.clusters) for each in thresholds} == {(1, 1), (7, 3)}
    assert all(each.value is None for each in thresholds)
    rng = np.random.default_rng(11)
    owner = np.arange(900) // 300  # 300 queries of one image, all other images have one
    labels = np.where(owner == 0, 0, np.arange(900))
    right, noise = rng.standard_normal((2, 900, 16))
    scores = limner.Scores.from_embeddings(right + 0.5 * noise, right)
    pairs = Judgements.from_pairs((n, n) for n in range(900))
    calibrations = [calibrate(scores, pairs, images=labels, seed=seed) for seed in range(8)]
    calibration = next(each for each in calibrations if each.answers.sizes.max() > 1)
    with pytest.raises(LimnerError, match="and up to 300: leave out the largest"):
        calibration.cut_off(0.99)


def test_the_queries_of_an_image_stay_together_where_some_are_sampled(monkeypatch):
    monkeypatch.setattr("limner.search.cut_off.MOST", 100)
    rng = np.random.default_rng(12)
    right, noise = rng.standard_normal((2, 600, 16))
    scores = limner.Scores.from_embeddings(right + 0.5 * noise, right)
    calibration = calibrate(scores, Judgements.from_pairs((n, n) for n in range(600)), images=np.arange(600) // 6)
    assert set(calibration.answers.sizes) == {6} and len(calibration.answers.sizes) == 34


def test_a_promise_is_broken_at_most_as_often_as_said_and_finds_answers():
    rng = np.random.default_rng(2)
    world = drawn(rng, 1500)
    broken, answered = [], []
    for seed in range(30):
        chosen = rng.integers(0, 1500, 200)
        sample = world.take(np.concatenate([np.arange(3 * image, 3 * image + 3) for image in chosen]))
        sample = Answers(sample.confidence, sample.right, sample.without, np.repeat(np.arange(200), 3))
        threshold = precision_threshold(sample, precision=0.8, absent=0.2, level=0.9, seed=seed)
        answered.append(threshold.answered)
        broken.append(threshold.value is not None and world.measured(threshold.value, absent=0.2)[0] < 0.8)
    assert np.mean(broken) <= 0.1 and np.mean(answered) > 0.05


def test_a_system_that_knows_nothing_gets_no_promise():
    answers = drawn(np.random.default_rng(3), 300, skill=0.0)
    assert precision_threshold(answers, precision=0.9).value is None
    assert precision_within_reach(answers) < 0.5
    with pytest.raises(LimnerError, match="expected at least 4"):
        precision_threshold(answers.take(np.arange(6)))
    with pytest.raises(LimnerError, match="one row per query"):
        Answers(np.zeros((2, 1)), np.zeros((2, 1), bool), np.zeros((3, 1)), [0, 1])


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """An index of vectors, queries near them, and their pairs."""
    pytest.importorskip("lancedb")
    rng = np.random.default_rng(4)
    right = rng.standard_normal((600, 24))
    items = limner.Embeddings([f"i{n}" for n in range(600)], right)
    queries = limner.Embeddings([f"q{n}" for n in range(600)], right + 0.5 * rng.standard_normal(right.shape))
    items_index = index(tmp_path_factory.mktemp("cut") / "items.index", items)
    pairs = Judgements.from_pairs((f"q{n}", f"i{n}") for n in range(600))
    calibrate_index(items_index, queries, pairs)
    return items_index, queries, pairs


def test_an_index_answers_what_matches_and_nothing_else(searched):
    items_index, queries, _ = searched
    hits = search_sure(items_index, queries.subset(queries.ids[:40]), k=5, precision=0.9)
    answers = [hits[query] for query in hits.queries.ids]
    right = [
        hit.id == f"i{query[1:]}" for query, listed in zip(hits.queries.ids, answers, strict=True) for hit in listed
    ]
    assert np.mean(right) >= 0.9 and sum(map(bool, answers)) > 10
    noise = np.random.default_rng(5).standard_normal((20, 24))
    no_answers = search_sure(items_index, noise, k=5, precision=0.9)
    assert sum(bool(no_answers[query]) for query in no_answers.queries.ids) <= 2
    assert "nothing here matches" in str(no_answers) and "at least 90%" in no_answers.summary
    assert no_answers.as_dict()["cut_off"]["precision"] == 0.9 and "Nothing here matches" in no_answers.html()


def slow_confidences(kind, scores, nearness, spread):
    """The confidences of one list, best first, by their formulas."""
    if kind == "csls":
        return 2 * scores - nearness - scores[:10].mean()
    x = (2 * scores - nearness) / spread
    return x - np.log(np.exp(x[:10]).sum())


def test_confidences_are_those_of_the_formulas(searched):
    items_index, queries, pairs = searched
    calibration = calibrate(items_index.scores(queries), pairs)
    saved = calibration_of(items_index)
    assert np.array_equal(saved.answers.confidence, calibration.answers.confidence)
    assert np.array_equal(saved.answers.without, calibration.answers.without)
    assert np.array_equal(saved.answers.proposing, calibration.answers.proposing)
    assert (saved.confidence, saved.spread) == (calibration.confidence, calibration.spread)
    ids, scores = ["i3", "i1", "i2"], np.array([0.9, 0.5, 0.4])
    for kind in ("csls", "share"):
        expected = slow_confidences(kind, scores, calibration.near(ids), 0.7)
        chosen = replace(saved, confidence=kind, spread=0.7)
        assert chosen.confidences(ids, scores) == pytest.approx(expected)
        assert len(chosen.confidences([], np.empty(0))) == 0


def test_the_confidence_that_answers_more_is_chosen():
    """One right item each: the share. One, or five that score alike: the share of five is small, and CSLS is chosen."""
    rng = np.random.default_rng(14)
    base = rng.standard_normal((400, 24))
    queries = limner.Embeddings([f"q{n}" for n in range(400)], base + 0.9 * rng.standard_normal(base.shape))
    chosen = []
    for copies in (1, 5):
        of = np.concatenate([np.arange(400), np.repeat(np.arange(200), copies - 1)])
        items = limner.Embeddings(
            [f"i{n}" for n in range(len(of))], base[of] + 0.1 * rng.standard_normal((len(of), 24))
        )
        pairs = Judgements.from_pairs((f"q{query}", f"i{item}") for item, query in enumerate(of))
        chosen.append(calibrate(limner.Scores.from_embeddings(queries, items), pairs).confidence)
    assert chosen == ["share", "csls"]


def test_removing_the_answers_equals_searching_without_them(searched):
    """And a query that proposes is left out of the bank that its own confidences are computed with."""
    items_index, queries, pairs = searched
    sample = queries.subset(queries.ids[:80])
    scores = items_index.scores(sample)
    calibration = calibrate(scores, pairs.restrict(queries=sample.ids))
    answers, matrix = calibration.answers, np.asarray(scores, dtype=np.float64)
    labels = np.asarray(answers.clusters)
    bank = set(labels[answers.proposing].tolist())
    assert len(bank) == 26 and not bank & set(labels[~answers.proposing].tolist())
    for place in [*np.flatnonzero(answers.proposing)[:5], *np.flatnonzero(~answers.proposing)[:5]]:
        query = int(labels[place])
        nearest = np.sort(matrix[sorted(bank - {query})], axis=0)[-10:].mean(axis=0)
        order = np.argsort(-matrix[query], kind="stable")
        left = order[[scores.candidates[int(item)] != f"i{query}" for item in order]][:20]
        for listed, got in ((order[:20], answers.confidence), (left, answers.without)):
            expected = slow_confidences(
                calibration.confidence, matrix[query][listed], nearest[listed], calibration.spread
            )
            assert got[place, :20] == pytest.approx(expected, abs=1e-4)


def slow_set_confidence(kind, confidences):
    return max(confidences) if kind == "best" else float(np.log(sum(np.exp(confidences))))


@pytest.mark.parametrize("kind", ["best", "sum"])
def test_a_set_is_right_if_one_of_its_hits_is(searched, kind):
    items_index, queries, pairs = searched
    answers = calibrate(items_index.scores(queries), pairs).answers
    sets = answers.sets(3, lambda confidences: confidence_of_sets(kind, confidences))
    for row in range(0, len(answers.confidence), 7):
        assert sets.confidence[row] == pytest.approx([slow_set_confidence(kind, answers.confidence[row, :3])])
        assert sets.without[row] == pytest.approx([slow_set_confidence(kind, answers.without[row, :3])])
        assert bool(sets.right[row, 0]) == any(answers.right[row, :3])
    assert np.array_equal(sets.clusters, answers.clusters) and np.array_equal(sets.proposing, answers.proposing)


def test_sets_are_shown_whole_or_not_at_all_and_answer_more(searched):
    items_index, queries, _ = searched
    calibration = calibration_of(items_index)
    single, sets = calibration.cut_off(0.9, k=3), calibration.cut_off(0.9, k=3, one_right=True)
    assert sets.threshold.answered >= single.threshold.answered and sets.as_dict()["sets"] in ("best", "sum")
    assert "have a right one among the 3 shown" in str(sets) and single.as_dict()["sets"] is None
    some = queries.subset(queries.ids[:80])
    hits = search_sure(items_index, some, k=3, precision=0.9, one_right=True)
    listed = [[hit.id for hit in hits[query]] for query in hits.queries.ids]
    assert {len(ids) for ids in listed} <= {0, 3}
    shown = [f"i{query[1:]}" in ids for query, ids in zip(hits.queries.ids, listed, strict=True) if ids]
    assert len(shown) > 20 and np.mean(shown) >= 0.9
    plain = items_index.search(some, 10, exact=True)
    for query, ids in zip(hits.queries.ids, listed, strict=True):
        confidences = calibration.confidences([h.id for h in plain[query]], [h.score for h in plain[query]])
        above = slow_set_confidence(sets.sets, confidences[:3]) >= sets.threshold.value
        assert ids == ([hit.id for hit in plain[query]][:3] if above else [])


def test_a_changed_or_uncalibrated_index_says_so(tmp_path):
    pytest.importorskip("lancedb")
    rng = np.random.default_rng(6)
    vectors = rng.standard_normal((80, 8))
    items_index = index(tmp_path / "i", limner.Embeddings(range(80), vectors))
    with pytest.raises(LimnerError, match="not calibrated: give judged queries"):
        search_sure(items_index, vectors[:1], precision=0.5)
    pairs = Judgements.from_pairs((n, n) for n in range(80))
    calibrate_index(items_index, limner.Embeddings(range(80), vectors), pairs)
    calibrate_index(items_index, limner.Embeddings(range(80), vectors), pairs)  # again takes its place
    assert search_sure(items_index, vectors[:1], precision=0.5)["0"]
    with pytest.raises(LimnerError, match="expected 1 to 50"):
        search_sure(items_index, vectors[:1], k=60, precision=0.5)
    items_index.add(limner.Embeddings(["new"], vectors[:1]))
    with pytest.raises(LimnerError, match="80 items then, 81 now"):
        search_sure(items_index, vectors[:1], precision=0.5)


def test_a_promise_is_not_rounded_up():
    answers = Answers(np.ones((8000, 1)), np.ones((8000, 1), bool), np.zeros((8000, 1)), np.arange(8000))
    calibration = Calibration(answers, near=lambda ids: np.zeros(len(ids)), absent=0.001)
    promise = str(calibration.cut_off(0.996, k=1, level=0.999))
    assert promise.startswith("at least 99.6% of what is shown is right") and "confidence 99.9%" in promise
    assert "at most 0.1% have no match" in promise


def test_a_promise_out_of_reach_is_refused_with_what_is_within(searched):
    items_index, queries, pairs = searched
    wrong = Judgements.from_pairs((f"q{n}", f"i{(n + 7) % 600}") for n in range(600))
    with pytest.raises(LimnerError, match=r"no cut-off guarantees a precision of 90% .* within reach"):
        calibrate(items_index.scores(queries), wrong).cut_off(0.9)
    with pytest.raises(LimnerError, match=r"about \d+% is within reach; ask for less, judge more"):
        calibrate(items_index.scores(queries), pairs).cut_off(0.999)
    with pytest.raises(LimnerError, match="within reach; judge more queries, or") as low:
        calibrate(items_index.scores(queries), pairs).cut_off(0.999, lowest=0.999)
    assert "ask for less" not in str(low.value), "nothing lower can be asked for"
    assert "judged queries to test it" in str(low.value), "each query is alone, whatever its image"
    with pytest.raises(LimnerError, match="labels of 600 queries"):
        calibrate(items_index.scores(queries), pairs, images=["a"])


ENCODER = '''
import re
import numpy as np

class Numbers:
    """Knows what even captions mean; odd ones are noise to it."""

    def encode(self, items):
        rows = []
        for value in items.values if items.kind == "text" else items.ids:
            number = int(re.findall("[0-9]+", str(value))[-1])
            if "unknown" in str(value):
                rows.append(np.zeros(32))
                continue
            odd = items.kind == "text" and number % 2
            rows.append(np.random.default_rng(number + 10_000 * odd).standard_normal(32))
        return np.array(rows)
'''


def test_at_the_shell(tmp_path, monkeypatch):
    import json

    from typer.testing import CliRunner

    from limner.cli import app

    pytest.importorskip("lancedb")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "numbering.py").write_text(ENCODER)
    (tmp_path / "c.csv").write_text("image,caption\n" + "".join(f"{n}.png,caption {n}\n" for n in range(300)))

    def run(*args, status=0):
        done = CliRunner().invoke(app, list(args))
        assert done.exit_code == status, done.output
        return done

    built = run("index", "i", "c.csv", "--model", "numbering:Numbers", "--json")
    assert json.loads(built.stdout)["items"] == 300
    words = ("search", "i", "caption 4", "caption 5", "--model", "numbering:Numbers", "-k", "3")
    assert "not calibrated" in run(*words, "--precision", "0.9", status=3).output
    calibrated = run("index", "i", "--model", "numbering:Numbers", "--calibrate", "c.csv", "--json")
    assert json.loads(calibrated.stdout)["calibrated"]["0.9"].endswith("% answered")
    hits = json.loads(run(*words, "--precision", "0.9", "--json").stdout)
    assert [(hit["query_value"], hit["id"]) for hit in hits["hits"]] == [("caption 4", "4.png")]
    assert "nothing here matches" in run(*words, "--precision", "0.9").stdout
    together = run(*words, "--precision", "0.9", "-O", "one_right=true", "--json")
    assert [hit["query_value"] for hit in json.loads(together.stdout)["hits"]] == ["caption 4"] * 3
    assert "give --precision too" in run(*words, "-O", "one_right=true", status=2).output
    assert "expected true or false" in run(*words, "--precision", "0.9", "-O", "one_right=3", status=2).output
    assert "leave out --correct" in run(*words, "--precision", "0.9", "--approximate", status=2).output


def test_captions_without_a_known_word_stop_neither_an_index_nor_a_calibration(tmp_path, monkeypatch):
    """Before, --calibrate took the texts of all splits, and one vector of zeros stopped it."""
    import json

    from typer.testing import CliRunner

    from limner.cli import app

    pytest.importorskip("lancedb")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "numbering0.py").write_text(ENCODER)
    rows = [f"{n}.png,{'unknown' if n in (7, 8) else 'caption'} {n},{'test' if n < 20 else 'dev'}" for n in range(320)]
    (tmp_path / "c.csv").write_text("\n".join(["image,caption,split", *rows]) + "\n")

    def run(*args, status=0):
        done = CliRunner().invoke(app, [*args, "--model", "numbering0:Numbers"])
        assert done.exit_code == status, done.output
        return done

    run("index", "i", "c.csv")
    assert "calibrated with 300 queries" in run("index", "i", "--calibrate", "c.csv", "--split", "dev").stderr
    messages = run("index", "i", "--calibrate", "c.csv").stderr
    assert "2 of 320 texts have no word that the system knows, such as 'unknown 7': they are left out" in messages
    assert "calibrated with 318 queries" in messages
    built = run("index", "t", "c.csv", "--side", "texts", "--json")
    assert json.loads(built.stdout)["items"] == 318 and "2 of 320 texts" in built.stderr
    assert "knows no word of 'unknown 7'" in run("search", "i", "unknown 7", status=3).output
    (tmp_path / "none.csv").write_text("image,caption\n1.png,unknown 1\n2.png,unknown 2\n")
    assert "nothing is indexed" in run("index", "n", "none.csv", "--side", "texts", status=3).output
    assert "calibrate with other queries" in run("index", "i", "--calibrate", "none.csv", status=3).output
