"""evaluate: both directions, every way in, protocols, folds, rsum; against plain loops."""

import numpy as np
import pytest

import toys
from limner import Collection, Items, Judgements, LimnerError, Measure, Ranking, Scores, evaluate
from limner.datasets.runs import read_run
from limner.evaluation.protocols import PROTOCOLS


@pytest.fixture(scope="module")
def toy():
    return toys.collection()


@pytest.fixture(scope="module")
def scored(toy):
    return toys.scores(toy)


def slow_first_ranks(matrix, positives, pools=None):
    ranks = []
    for q, row in enumerate(matrix):
        pool = range(len(row)) if pools is None else pools[q]
        best = max(row[p] for p in positives[q])
        ranks.append(1 + sum(row[c] > best for c in pool))
    return np.array(ranks)


def test_both_directions_against_plain_loops(toy, scored):
    report = evaluate(scored, toy)
    matrix = scored.matrix()
    image_ranks = slow_first_ranks(matrix, [range(5 * q, 5 * q + 5) for q in range(60)])
    text_ranks = slow_first_ranks(matrix.T, [[q // 5] for q in range(300)])
    for direction, ranks in (("i2t", image_ranks), ("t2i", text_ranks)):
        for k in (1, 5, 10):
            assert report.value(f"R@{k}", direction=direction) == pytest.approx((ranks <= k).mean())
        assert report.value("MedR", direction=direction) == np.median(ranks)
        assert report.value("MRR", direction=direction) == pytest.approx((1 / ranks).mean())
    sums = [100 * (ranks <= k).mean() for ranks in (image_ranks, text_ranks) for k in (1, 5, 10)]
    assert report.value("rsum") == pytest.approx(sum(sums))


def test_rsum_has_an_interval_around_it(toy, scored):
    rsum = evaluate(scored, toy, measures="rsum").find("rsum")
    assert rsum.interval.low < rsum.value < rsum.interval.high


def recalls(report, view):
    return [report.value(f"R@{k}", direction=d, view=view) for d in ("i2t", "t2i") for k in (1, 5, 10)]


def odd_collection(*, folds=None):
    """Five images, the last without a text; eight texts, the last three without an image but under "more"."""
    pairs = [("i0", "t0"), ("i0", "t1"), ("i1", "t2"), ("i2", "t3"), ("i3", "t4")]
    further_pairs = [*pairs, ("i0", "t5"), ("i1", "t6"), ("i4", "t7")]
    images, texts = [f"i{k}" for k in range(5)], [f"t{k}" for k in range(8)]
    fields = [{}, {}] if folds is None else [{"fold": folds[0]}, {"fold": folds[1]}]
    return Collection(
        "odd",
        Items(images, [None] * 5, fields[0]),
        Items(texts, list(texts), fields[1], "text"),
        Judgements.from_pairs(pairs),
        extra={"more": Judgements.from_pairs(further_pairs)},
    )


def perfect(collection, view):
    """A system that puts every right text and image first."""
    judged = collection.judged(view, "i2t")
    matrix = np.zeros((len(collection.images), len(judged.candidates)))
    matrix[judged.rows, judged.columns] = judged.grades
    return Scores.from_matrix(matrix, collection.images.ids, judged.candidates)


@pytest.mark.parametrize("view", ["pairs", "more"])
def test_rsum_is_the_sum_where_texts_have_no_image(view):
    odd = odd_collection()
    report = evaluate(perfect(odd, view), odd, measures="rsum")
    rsum = report.find("rsum", view=view)
    assert rsum.value == 600 == 100 * sum(recalls(report, view)) and rsum.values.mean() == pytest.approx(600)
    assert rsum.interval.low < 600 == rsum.interval.high
    noisy = Scores.from_matrix(np.random.default_rng(0).random((5, 8)), odd.images.ids, odd.texts.ids)
    report = evaluate(noisy, odd, measures="rsum")
    rsum = report.find("rsum", view=view)
    assert rsum.value == pytest.approx(100 * sum(recalls(report, view)), abs=1e-9)
    assert rsum.values.mean() == pytest.approx(rsum.value) and rsum.value in rsum.interval
    if view == "more":
        assert list(rsum.queries) == ["i0", "i1", "i2", "i3", "i4", "text t5", "text t6", "text t7"]


@pytest.mark.parametrize("start", [0, 1, 7])
@pytest.mark.parametrize("label", [int, str, lambda f: f"part {f}"])
def test_rsum_is_the_sum_whatever_the_folds_are_called(monkeypatch, start, label):
    monkeypatch.setattr("limner.evaluation.protocols.Protocol.notes", lambda self, collection: [])
    sizes = [3, 1, 2]  # unequal, too
    of_image = np.repeat(np.arange(3), sizes)
    toy = toys.collection(n=6, per_image=2)
    folds = [label(int(f) + start) for f in of_image], [label(int(f) + start) for f in np.repeat(of_image, 2)]
    images, texts = toy.images.with_fields(fold=folds[0]), toy.texts.with_fields(fold=folds[1])
    cut = Collection("cut", images, texts, toy.judgements)
    report = evaluate(toys.scores(toy, noise=2), cut, protocol="coco-1k")
    assert report.value("rsum") == pytest.approx(100 * sum(recalls(report, "coco-1k")), abs=1e-9)
    plain = evaluate(toys.scores(toy, noise=2), cut, protocol="coco-1k", measures="R@1")
    values = plain.find("R@1", direction="i2t").values
    assert plain.value("R@1", direction="i2t") == np.mean([values[of_image == f].mean() for f in range(3)])
    perfect_report = evaluate(toys.scores(toy, noise=0), cut, protocol="coco-1k")
    assert perfect_report.value("rsum") == 600 and perfect_report.find("rsum").interval.low < 590


def test_an_item_without_a_fold_is_in_none(monkeypatch):
    monkeypatch.setattr("limner.evaluation.protocols.Protocol.notes", lambda self, collection: [])
    odd = odd_collection(folds=([0, 0, 1, 1, None], [0, 0, 0, 1, 1, None, float("nan"), None]))
    report = evaluate(perfect(odd, "pairs"), odd, protocol="coco-1k")
    assert len(report.find("R@1", direction="i2t").queries) == 4 and report.value("rsum") == 600


def test_every_way_in_gives_the_same(toy, scored, tmp_path):
    expected = [r.value for r in evaluate(scored, toy).results]
    matrix = Scores.from_matrix(scored.matrix(), toy.images.ids, toy.texts.ids)
    lists = {"i2t": scored.ranking(), "t2i": scored.T.ranking()}
    runs = {d: read_run(r.save(tmp_path / f"{d}.run"), candidates=r.candidates) for d, r in lists.items()}
    for system in (scored.T, matrix, lists, runs):
        assert [r.value for r in evaluate(system, toy).results] == pytest.approx(expected, abs=1e-12)


def test_one_ranking_is_one_direction(toy, scored):
    report = evaluate(scored.T.ranking(), toy, measures="R@1")
    assert [r.direction for r in report.results] == ["t2i"]


def test_plain_judgements_and_a_run():
    run = Ranking.from_lists({"q1": ["a", "b"], "q2": ["b", "a"]}, candidates="ab")
    report = evaluate(run, Judgements.from_pairs([("q1", "b"), ("q2", "b")]), measures="MRR R@1 rsum")
    assert report.value("MRR") == 0.75 and [str(r.measure) for r in report.results] == ["MRR", "R@1"]


def test_folds_are_the_mean_of_evaluating_each_fold_alone(monkeypatch):
    toy = toys.collection(folds=5)
    scored = toys.scores(toy)
    monkeypatch.setattr("limner.evaluation.protocols.Protocol.notes", lambda self, collection: [])
    report = evaluate(scored, toy, protocol="coco-1k")
    alone = []
    for fold in range(5):
        part = toy.restrict([i for i, f in zip(toy.images.ids, toy.images.field("fold"), strict=True) if f == fold])
        inner = Scores.from_embeddings(
            scored.query_vectors.subset(part.images.ids), scored.candidate_vectors.subset(part.texts.ids)
        )
        alone.append(evaluate(inner, part, measures="R@1 R@5 R@10 MedR rsum"))
    for result in report.results:
        each = [a.value(result.measure, direction=result.direction) for a in alone]
        assert result.value == pytest.approx(np.mean(each)), result


def test_each_judgement_of_the_collection_is_a_view():
    toy = toys.collection(extra=True)
    report = evaluate(toys.scores(toy), toy, measures="R@1 Recall@10")
    assert {r.view for r in report.results} == {"pairs", "complete"}
    assert report.value("R@1", direction="t2i", view="complete") >= report.value("R@1", direction="t2i", view="pairs")


def test_captions_of_one_image_are_one_cluster(toy, scored):
    result = evaluate(scored, toy, measures="R@1").find("R@1", direction="t2i")
    assert result.clusters.tolist() == [k // 5 for k in range(300)] and result.interval.unit == "clusters"


def test_keep_makes_hubs_and_examples(toy, scored):
    assert evaluate(scored, toy, keep=0).hubs == {}
    report = evaluate(scored, toy, keep=3)
    assert report.hubs["i2t"].k == 3 and report.hubs["i2t"].counts.sum() == 60 * 3


def test_progress_is_told(toy, scored):
    calls = []
    evaluate(scored, toy, progress=lambda done, total: calls.append((done, total)))
    assert (60, 60) in calls and (300, 300) in calls


def test_a_protocol_says_when_the_test_set_is_another(toy, scored):
    report = evaluate(scored, toy, protocol="coco-5k")
    assert "coco-5k is defined on 5,000 images; this collection has 60" in report.notes[0]


def test_positives_outside_the_pool_are_noted(toy, scored):
    fewer = Scores.from_embeddings(scored.query_vectors, scored.candidate_vectors.subset(toy.texts.ids[:-1]))
    assert (
        "1 relevant candidates are not in the pool and are left out"
        in evaluate({"i2t": fewer}, toy, measures="R@1").notes[0]
    )


# --- whose ids are these? ---------------------------------------------------------------------------------------


def numbered(images=4, texts=4):
    """Images and texts that are both called 0, 1, 2, ...; text k belongs with image k."""
    return Collection(
        "numbered",
        Items(range(images), [None] * images),
        Items(range(texts), [""] * texts, kind="text"),
        Judgements.from_pairs([(k, k % images) for k in range(min(images, texts))]),
    )


def test_shared_ids_are_refused_unless_the_direction_is_said():
    world, matrix = numbered(), np.random.default_rng(1).random((4, 4))
    scores = Scores.from_matrix(matrix, range(4), range(4))
    for system in (scores, scores.ranking()):
        with pytest.raises(LimnerError, match="could be images or texts.*direction='i2t'"):
            evaluate(system, world)
    explicit = evaluate(scores, world, direction="i2t", measures="MeanR")
    mapped = evaluate({"i2t": scores, "t2i": scores.T}, world, measures="MeanR")
    turned = evaluate(scores.T, world, direction="t2i", measures="MeanR")
    ranks = (
        [1 + (row > row[q]).sum() for q, row in enumerate(matrix)],
        [1 + (row > row[q]).sum() for q, row in enumerate(matrix.T)],
    )
    for report in (explicit, mapped, turned):
        actual = [report.find("MeanR", direction=d).values.tolist() for d in ("i2t", "t2i")]
        assert actual == [list(map(float, each)) for each in ranks]
    assert [r.direction for r in evaluate(scores.ranking(), world, direction="t2i", measures="R@1").results] == ["t2i"]


def test_ids_that_fit_only_one_way_need_no_word():
    """Images 0 to 3, texts 0 to 7: eight candidates that are no images are texts."""
    world = numbered(4, 8)
    scores = Scores.from_matrix(np.random.default_rng(2).random((4, 8)), range(4), range(8))
    reports = [evaluate(system, world, measures="MRR") for system in (scores, scores.T)]
    assert [r.value for r in reports[0].results] == [r.value for r in reports[1].results]
    with pytest.raises(LimnerError, match="could be images or texts"):
        evaluate(Scores.from_matrix(np.ones((4, 4)), range(4), range(4)), world)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"direction": "i2i"}, "unknown direction 'i2i'"),
        ({"direction": "t2i"}, "direction 't2i' with queries .* that are not texts"),
    ],
)
def test_a_wrong_direction_is_refused(toy, scored, options, message):
    with pytest.raises(LimnerError, match=message):
        evaluate(scored, toy, **options)


def test_a_swapped_mapping_is_refused(toy, scored):
    with pytest.raises(LimnerError, match="'i2t' has queries .* that are texts of 'toy'.* swapped"):
        evaluate({"i2t": scored.T, "t2i": scored}, toy)
    world = numbered(4, 8)
    scores = Scores.from_matrix(np.random.default_rng(2).random((4, 8)), range(4), range(8))
    with pytest.raises(LimnerError, match="swapped"):
        evaluate({"i2t": scores.T, "t2i": scores}, world)


def test_a_direction_goes_with_one_system_on_a_collection(toy, scored):
    with pytest.raises(LimnerError, match="a mapping already has directions"):
        evaluate({"i2t": scored}, toy, direction="i2t")
    run = Ranking.from_lists({"q1": ["a", "b"]}, candidates="ab")
    truth = Judgements.from_pairs([("q1", "b")])
    for options, message in (
        ({"direction": "i2t"}, "direction needs a Collection"),
        ({"protocol": "coco-5k"}, "protocol needs a Collection"),
    ):
        with pytest.raises(LimnerError, match=message):
            evaluate(run, truth, **options)


# --- queries that belong together -------------------------------------------------------------------------------


def test_groups_of_plain_judgements():
    rng = np.random.default_rng(0)
    queries = [f"img{k // 5} {k % 5}" for k in range(50)]
    scores = Scores.from_matrix(rng.random((50, 50)), queries, range(50))
    truth = Judgements.from_pairs([(q, k) for k, q in enumerate(queries)])
    alone = evaluate(scores, truth, measures="R@5")
    grouped = evaluate(scores, truth, measures="R@5", groups={q: q.partition(" ")[0] for q in queries})
    assert alone.results[0].clusters is None and "pass groups (-O groups=FILE)" in alone.notes[-1]
    assert grouped.results[0].clusters.tolist() == [k // 5 for k in range(50)]
    assert grouped.results[0].interval.unit == "clusters" and grouped.results[0].interval.n == 10
    assert not any("independent" in note for note in grouped.notes)
    with pytest.raises(LimnerError, match=r"groups: 49 queries have no group \('img0 1'"):
        evaluate(scores, truth, groups={queries[0]: "img0"})
    toy = toys.collection(n=5)
    with pytest.raises(LimnerError, match="groups with a collection"):
        evaluate(toys.scores(toy), toy, groups={})


@pytest.mark.parametrize(("name", "right", "clusters"), [
    ("img{0}#{1}", lambda image, k: [f"{image} {k}"], 10),  # by id, whatever is relevant
    ("img{0}#{1}", lambda image, k: [image, k + 200], 10),
    ("{1}{0}", lambda image, k: [image], 10),  # five captions of one image
    ("{1}{0}", lambda image, k: [image, image + 100], 10),
    ("{1}{0}", lambda image, k: [image, k + 200], None),  # sets overlap in part
    ("{1}{0}", lambda image, k: [f"{image} {k}"], None),  # every query has its own
    ("{1}{0}", lambda image, k: [image % 2], None),  # two classes of 25
])  # fmt: skip
def test_captions_of_one_image_are_a_cluster_of_plain_judgements(name, right, clusters):
    pairs = [(name.format(n // 5, "abcde"[n % 5] if "#" not in name else n % 5), n // 5, n % 5) for n in range(50)]
    truth = Judgements.from_pairs([(q, each) for q, image, k in pairs for each in right(image, k)])
    scores = Scores.from_matrix(
        np.random.default_rng(0).random((50, len(truth.candidates))), truth.queries, truth.candidates
    )
    report = evaluate(scores, truth, measures="R@5")
    labels = report.results[0].clusters
    assert report.results[0].queries == truth.queries
    if clusters is None:
        assert labels is None and "pass groups (-O groups=FILE)" in report.notes[-1]
    else:
        assert [labels.tolist().index(c) // 5 for c in labels] == [image for _, image, _ in pairs]
        assert f"50 queries, {clusters} clusters" in report.notes[-1]


def test_few_false_differences_between_equal_systems_on_plain_judgements():
    """At 5 percent, with captions that share the luck of their image, and nothing passed."""
    truth = Judgements.from_pairs([(f"{k}", k // 5) for k in range(200)])
    false = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        luck = np.repeat(rng.standard_normal((2, 40)), 5, axis=1) + 0.5 * rng.standard_normal((2, 200))
        runs = [
            Ranking.from_lists({q: [c, "x"] if each > 0 else ["x", c] for q, c, each in zip(
                truth.queries, [k // 5 for k in range(200)], chances, strict=True)}, candidates=[*range(40), "x"])
            for chances in luck
        ]  # fmt: skip
        reports = [evaluate(run, truth, measures="R@1", name=str(n), keep=0) for n, run in enumerate(runs)]
        false += reports[0].compare(reports[1]).lines[0].differences[0].test.p_value < 0.05
    assert false <= 11  # P(more | 5 percent) = 0.4 percent


def test_graded_ndcg_says_which_gain():
    run = Ranking.from_lists({"q": "abc"}, candidates="abc")
    graded = Judgements.from_pairs([("q", "b", 2), ("q", "c", 1)])
    notes = evaluate(run, graded, measures="nDCG@3").notes
    assert any("nDCG takes the gain 2^grade - 1" in note and "trec_eval" in note for note in notes)
    binary = Judgements.from_pairs([("q", "b"), ("q", "c")])
    for truth, measures in ((binary, "nDCG@3"), (graded, "nDCG@3(linear)"), (graded, "MAP")):
        assert not any("gain" in note for note in evaluate(run, truth, measures=measures).notes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s, t: (s, t, {"protocol": "coco-6k"}), "unknown protocol 'coco-6k': did you mean"),
        (lambda s, t: (s, t, {"protocol": "cxc"}), "needs the judgements 'cxc'"),
        (lambda s, t: (s, t, {"protocol": "coco-1k"}), "splits the pool by the field 'fold'"),
        (lambda s, t: ("scores", t, {}), "unknown encoder .scores."),
        (lambda s, t: ({"images": s}, t, {}), "expected 'i2t'"),
        (lambda s, t: (Scores.from_matrix(np.ones((2, 2)), "ab", "cd"), t, {}), "neither the images .* nor the texts"),
        (lambda s, t: ({"i2t": s, "t2i": s.T}, t.judgements, {}), "expected one Scores or Ranking"),
        (lambda s, t: (s.top(3), t, {"measures": "R@10"}), "truncated"),
    ],
)
def test_refused(toy, scored, change, message):
    system, truth, options = change(scored, toy)
    with pytest.raises(LimnerError, match=message):
        evaluate(system, truth, **options)


def test_every_protocol_measures_what_it_names():
    for protocol in PROTOCOLS.values():
        assert protocol.views and protocol.about
        assert all(isinstance(m, Measure) for view in protocol.views for m in view.measures)


# --- measures that are defined on some judgements ----------------------------------------------------------------


def test_pmrp_is_measured_on_plausible_matches_alone():
    toy = toys.collection(n=6, per_image=2)
    scores = toys.scores(toy)
    with pytest.raises(LimnerError, match=r"PMRP is defined on plausible matches.*it has pairs.*or choose RP"):
        evaluate(scores, toy, measures="PMRP R@1")
    with pytest.raises(LimnerError, match="plausible matches"):
        evaluate(scores, toy, measures="PMRP", judgements={"people": toy.judgements})
    plausible = Judgements.from_pairs([("i0", "t0"), ("i0", "t5"), ("i3", "t1")])
    report = evaluate(scores, toy, measures="PMRP RP", judgements={"plausible-mine": plausible})
    assert {(r.view, str(r.measure)) for r in report.results} == {
        ("pairs", "RP"), ("plausible-mine", "RP"), ("plausible-mine", "PMRP")
    }  # fmt: skip


def test_plain_judgements_with_pmrp_are_noted():
    run, truth = Ranking.from_lists({"q": "ab"}, candidates="ab"), Judgements.from_pairs([("q", "b")])
    assert any("PMRP is defined on plausible matches" in note for note in evaluate(run, truth, measures="PMRP").notes)
    named = evaluate(run, truth.with_name("plausible-0"), measures="PMRP RP")
    assert not any("PMRP" in note for note in named.notes)


def test_scores_of_one_caption_an_image_name_the_option_that_loads_them():
    images = [f"{k}.jpg" for k in range(3)]
    pairs = Judgements.from_pairs([(image, f"{image}#{n}") for image in images for n in range(5)])
    matrix = np.eye(3)
    with pytest.raises(LimnerError, match=r"captions number 2: load these alone with captions=\[2\] \(-O captions=\[2"):
        evaluate(Scores.from_matrix(matrix, [f"{image}#2" for image in images], images), pairs.T)
    with pytest.raises(LimnerError, match=r"are not ranked \([^)]*\): rank them too"):
        evaluate(Scores.from_matrix(matrix, ["0.jpg#1", "1.jpg#2", "2.jpg#2"], images), pairs.T)
