"""The report as a web page: its numbers against slow counts, its markup against the rules, and nothing gets through."""

from __future__ import annotations

import base64
import hashlib
import io
import itertools
import json
import math
import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import limner
from limner.evaluation.reports.page import (
    examples,
    figures,
    gallery,
    headline,
    labels,
    rank_charts,
    render,
    system_comparison,
    words,
)
from limner.evaluation.reports.page.estimates import _agreement
from limner.evaluation.reports.page.system_comparison import slices_finding
from limner.evaluation.reports.page.truth import Truth, missing, relevant_in, spread
from limner.evaluation.reports.report import curve_depth, first_ranks, recall_curve
from limner.evaluation.slices import Slice, Slices

N = 24
EVIL = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'> \" ' & </title> {{ 7 * 7 }}"


def picture(number: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (40, 30), (10 * number % 256, 90, 200)).save(out, "PNG")
    return out.getvalue()


def collection(*, evil: bool = False, values=None) -> limner.Collection:
    """Images with two captions each; under "complete" every image also fits the captions of the next one."""
    images, texts = [f"i{k}" for k in range(N)], [f"t{k}" for k in range(2 * N)]
    pairs = [(images[k // 2], texts[k]) for k in range(2 * N)]
    further_pairs = [(images[k], texts[(2 * k + 2) % (2 * N)]) for k in range(N)]
    captions = [f"caption {k}" for k in range(2 * N)]
    if evil:
        captions = [f"{EVIL} {k}" for k in range(2 * N)]
    return limner.Collection(
        "toy" + EVIL * evil,
        limner.Items(images, values or [picture(k) for k in range(N)]),
        limner.Items(texts, captions, kind="text"),
        limner.Judgements.from_pairs(pairs),
        extra={"complete": limner.Judgements.from_pairs(pairs + further_pairs)},
    )


def system(
    truth: limner.Collection, seed: int, *, name: str = "toy system", noise: float = 1.2, **options
) -> limner.Report:
    rng = np.random.default_rng(seed)
    hidden = rng.standard_normal((N, 8))
    images = hidden + 0.7 * np.roll(hidden, -1, axis=0)
    texts = np.repeat(hidden, 2, axis=0) + noise * rng.standard_normal((2 * N, 8))
    scores = limner.Scores.from_matrix(images @ texts.T, truth.images.ids, truth.texts.ids)
    return limner.evaluate(scores, truth, name=name, **options)


@pytest.fixture(scope="module")
def world() -> limner.Collection:
    return collection()


@pytest.fixture(scope="module")
def report(world) -> limner.Report:
    return system(world, 0)


@pytest.fixture(scope="module")
def other_reports(world) -> list[limner.Report]:
    return [system(world, 1, name="noisy", noise=2.5), system(world, 2, name="other", noise=1.0)]


@pytest.fixture(scope="module")
def compared(report, other_reports) -> limner.Comparison:
    return limner.compare([report, *other_reports], samples=2000)


@pytest.fixture(scope="module")
def page(report, world, other_reports, compared) -> str:
    return render(report, collection=world, other_reports=other_reports, comparison=compared)


class Outline(HTMLParser):
    """What a page is made of: elements with their attributes, and the text of each kind of element."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in ("meta", "link", "input", "br"):
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        self.texts.append((self._open[-1] if self._open else "", data))

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


# --- the numbers ------------------------------------------------------------------------------------------------


def test_every_result_stands_in_the_table_with_its_interval(report, page):
    numbers = page[page.index('<section id="numbers"') : page.index('<section id="systems"')]
    for result in report.results:
        interval = result.interval
        span = f"{result.measure.show(interval.low)} to {result.measure.show(interval.high)}"
        assert f'<span class="value">{result.measure.show(result.value)}</span><small>{span}</small>' in numbers


def test_recall_curve_is_the_share_of_first_ranks(report):
    for result in first_ranks(report).values():
        curve = recall_curve(report, result, 20)
        for k in range(1, 21):
            assert curve[k].value == pytest.approx(sum(rank <= k for rank in result.values) / len(result.values))


def test_recall_curve_goes_as_deep_as_ranks_are_known(world, report):
    ranking = limner.Scores.from_matrix(np.eye(N, 2 * N), world.images.ids, world.texts.ids).top(3)
    cut = limner.evaluate(ranking, world, measures="R@1 MedR", unretrieved="never", ties="order")
    ranks = [r for (_, d), r in first_ranks(cut).items() if d == "i2t"]
    assert curve_depth(cut, "i2t", ranks) <= 3
    assert curve_depth(report, "t2i", [r for (_, d), r in first_ranks(report).items() if d == "t2i"]) == N


def test_rank_bins_hold_every_query_once():
    values = np.array([1, 1, 2, 3, 5, 6, 10, 11, 49, np.inf, 1.5])
    edges = rank_charts.rank_edges(49)
    assert edges == [1, 2, 5, 10, 20, 50]
    slow = [sum(low < v <= high for v in values) / len(values) for low, high in zip([0, *edges], edges, strict=False)]
    assert rank_charts.shares_by_bin(values, edges) == pytest.approx([*slow, 1 / 11])
    assert rank_charts.rank_edges(25_000)[-3:] == [10_000, 20_000, 50_000]


def test_lorenz_curve_encloses_the_gini_coefficient():
    counts = np.random.default_rng(0).poisson(2, 120) ** 2
    hubs = limner.Hubs(limner.Ids([f"c{k}" for k in range(120)]), counts, 10)
    x, y = zip(*rank_charts.lorenz_points(hubs, n_points=1000), strict=True)
    area = sum((x[i + 1] - x[i]) * (y[i] + y[i + 1]) / 2 for i in range(len(x) - 1))
    assert 1 - 2 * area == pytest.approx(hubs.gini)


def test_chance_is_the_binomial_distribution():
    hubs = limner.Hubs(limner.Ids(["a", "b", "c", "d"]), np.array([3, 1, 1, 1]), 1)
    slow = [math.comb(6, j) * 0.25**j * 0.75 ** (6 - j) for j in range(7)]
    assert rank_charts.chance([0, 1, 4], hubs, 6) == pytest.approx([sum(slow[:1]), sum(slow[:2]), sum(slow[:5])])


@pytest.mark.parametrize("seed", range(5))
def test_what_labels_miss_by_sets(seed):
    rng = np.random.default_rng(seed)
    queries, candidates = [f"q{k}" for k in range(9)], [f"c{k}" for k in range(14)]
    sparse, dense = ({(q, c) for q in queries for c in candidates if rng.random() < share} for share in (0.1, 0.3))
    base, fuller = (
        limner.Judgements.from_pairs(sorted(s), queries=queries, candidates=candidates) for s in (sparse, dense)
    )
    judged_queries = {q for q, _ in dense}
    expected = (len(judged_queries), sum(q in judged_queries for q, _ in sparse), len(dense), len(dense - sparse))
    assert missing(fuller, base) == expected
    order = {q: list(rng.permutation(candidates)[:5]) for q in queries}
    relevance = relevant_in(limner.Ranking.from_lists(order, candidates=candidates), fuller)
    assert relevance.tolist() == [[(q, c) in dense for c in order[q]] for q in queries]


def test_answers_counted_wrong_that_are_right_by_a_slow_loop(report, world):
    truth = Truth(world)
    assert (truth.base, truth.fuller) == ("pairs", ["complete"])
    for direction in ("i2t", "t2i"):
        wrong, right = labels.missed_positives(report, truth, "complete", direction)
        top, pairs, complete = (
            report.top[direction],
            world.judged("pairs", direction),
            world.judged("complete", direction),
        )
        cells = [(q, c) for q in top.queries for c in top[q]]
        missed = [(q, c) for q, c in cells if not pairs.grade(q, c)]
        assert int(wrong.sum()) == len(missed)
        assert int(right.sum()) == sum(bool(complete.grade(q, c)) for q, c in missed) > 0


def test_marks_tell_labelled_from_right_from_unknown(world):
    truth = Truth(world)
    assert truth.mark("i2t", "i0", "t1").style == "labelled"
    assert truth.mark("i2t", "i0", "t2").words == "right by complete, not labelled"
    assert truth.mark("t2i", "t2", "i0").sign == "+"
    assert truth.mark("i2t", "i0", "t5").style == "unknown"
    assert truth.mark("i2t", "i0", "not there").style == "unknown"
    assert Truth(None).mark("i2t", "i0", "t1") is None
    assert (truth.judgements_of("complete"), truth.judgements_of("coco-5k"), truth.judgements_of("eccv")) == (
        "complete",
        "pairs",
        None,
    )


def test_raw_scores_call_nothing_right(world):
    scores = [(i, t, 0.5 if k else 1.0) for k, i in enumerate(world.images.ids) for t in world.texts.ids]
    extra = {"scores": limner.Judgements.from_pairs(scores), **world.extra}
    scored_collection = limner.Collection("toy", world.images, world.texts, world.judgements, extra=extra)
    assert Truth(scored_collection).fuller == ["complete"]
    assert Truth(scored_collection).mark("i2t", "i5", "t30").style == "unknown"


def test_worst_and_best_are_the_ends_of_the_order(report, world):
    (group, _) = examples.examples(report, Truth(world), gallery.Gallery(world), total=12)
    first = report.find("MedR", direction="i2t", view="complete")
    by_id = dict(zip(first.queries, first.values, strict=True))
    worst, best = ([by_id[e.query.id] for e in side] for side in (group.worst, group.best))
    assert len(worst) == len(best) == 3
    assert worst == sorted(by_id.values(), reverse=True)[:3]
    assert best == sorted(by_id.values())[:3]
    assert "no query looks bad only because labels are missing" in group.by


def test_a_view_of_hits_and_misses_does_not_decide_which_query_is_worst(world):
    report = system(world, 0, measures="R@1 MedR")
    results = [r for r in report.results if not (r.view == "complete" and r.measure.name == "MedR")]
    assert examples.deciding_view(Truth(world), report.results) == "complete"
    assert examples.deciding_view(Truth(world), results) == "pairs"
    assert examples.deciding_view(Truth(world), [r for r in results if r.measure.name == "R"]) == "complete"
    assert examples.deciding_view(Truth(None), report.results) == "pairs"


def test_success_and_hit_at_k_are_one_number(world):
    r, s = (system(world, 0, measures=m) for m in ("R@1", "S@1"))
    mixed_report = limner.Report(
        "s", "c", (*(x for x in r.results if x.view == "pairs"), *(x for x in s.results if x.view == "complete"))
    )
    card = headline.cards(mixed_report, Truth(None))[0]
    assert [name for name, _, _ in card.views] == ["pairs", "complete, S@1"]


def test_among_equally_good_queries_an_even_sample():
    ids = limner.Ids([f"q{k}" for k in range(100)])
    rank = limner.evaluation.reports.report.Result(
        "pairs", "i2t", limner.Measure.parse("MedR"), ids, np.where(np.arange(100) < 10, 7.0, 1.0)
    )
    worst, best = examples.extremes([rank], 3)
    assert set(worst) <= set(range(10))
    assert best == [25, 55, 85]
    assert spread([4, 5], 3) == [4, 5]


def test_a_bad_query_shows_what_it_should_have_found(report, world):
    for group in examples.examples(report, Truth(world), gallery.Gallery(world), total=40):
        for e in (*group.best, *group.worst):
            labelled = [r for r in e.returned if r.mark.style == "labelled"]
            assert bool(labelled) != bool(e.expected)
            assert [r.rank for r in e.returned] == [1, 2, 3, 4, 5]


def test_comparison_says_who_wins(world):
    good, bad = (system(world, seed, name=f"{seed}", noise=1 + seed, measures="R@1 MRR") for seed in (0, 2))
    assert system_comparison.findings(good, limner.compare([good, good], samples=100)) == [
        f"No significant difference to “0 (2)” on any of {len(good.results)} numbers."
    ]
    comparison = limner.compare([bad, good], samples=2000, family="line")
    verdicts = Counter(row.verdict for contest in system_comparison.contests(comparison) for row in contest.rows)
    assert verdicts["worse"] == sum(bool(line.beaten(1)) for line in comparison.lines) > 0
    assert verdicts["better"] == 0
    of = f"{verdicts['worse']} of {len(good.results)} numbers"
    assert system_comparison.findings(bad, comparison) == [f"Significantly worse than “0” on {of}, better on none."]
    assert system_comparison.findings(good, comparison) == [f"Significantly better than “2” on {of}, worse on none."]


def test_numbers_that_were_not_tested_do_not_count_as_equal(world):
    ranking = limner.Scores.from_matrix(np.eye(N, 2 * N), world.images.ids, world.texts.ids).top(3)
    cut = limner.evaluate(ranking, world, measures="R@1 MedR", unretrieved="never", ties="order", name="a")
    comparison = limner.compare([cut, replace(cut, system="b")], samples=100)
    tested = sum(bool(line.differences) for line in comparison.lines)
    assert 0 < tested < len(comparison.lines)
    assert system_comparison.findings(cut, comparison) == [
        f"No significant difference to “b” on any of {tested} numbers."
    ]


def test_half_of_the_queries_are_not_said_to_find_what_most_never_find():
    truth = limner.Judgements.from_pairs([("q1", "a"), ("q2", "b"), ("q3", "c")])
    run = limner.Ranking.from_lists({"q1": ["a"], "q2": ["c"], "q3": ["a"]}, candidates="abc")
    html = render(limner.evaluate(run, truth, measures="R@1 MedR", unretrieved="never", name="a run"))
    assert "33.3% of the queries find a right answer." in html and "half of the queries" not in html


@pytest.mark.parametrize(
    ("measure", "against", "expected"),
    [
        (
            "R@1",
            "",
            "1 of 1 slices of the queries are weaker than the rest, most of all “by: dogs” (R@1 -20.0 points, ",
        ),
        ("MeanR", "", "(MeanR -0.2, "),
        ("R@1", "old", "are weaker for new beside old than the rest"),
    ],
)
def test_the_unit_and_the_systems_of_a_weak_slice_are_named(measure, against, expected):
    test = SimpleNamespace(p_value=0.001)
    chosen = limner.Measure.parse(measure)
    sign = -0.2 * chosen.kind.better
    one = Slice("by", "dogs", "pairs", "t2i", chosen, 50, 0.2 + sign, None, 0.2, None, test, 0.001, 0.05)
    sentence = slices_finding(Slices("new", against, "toy", (one,)))
    assert expected.replace("-0.2", chosen.show_change(sign)) in sentence


def test_undefined_agreement_is_said_in_words():
    undefined = {"alpha": "nan", "low": "nan", "high": "nan", "pairs": 5}
    assert _agreement(undefined) == ["people's agreement is undefined on 5 pairs: all grades are the same"]


def test_signs_are_written_out():
    assert [system_comparison.signed(s) for s in ("3.0", "-3.0", "0.0", "-0.0")] == ["+3.0", "−3.0", "0.0", "0.0"]
    assert (words.plain(limner.Measure("MedR"), math.inf), words.plain(limner.Measure("MedR"), math.nan)) == ("∞", "–")


def test_agreement_over_queries_is_spearman(report):
    from scipy.stats import spearmanr

    heat = system_comparison.agreement(report, None)[0]
    a, b = heat.names.index("pairs R@5"), heat.names.index("complete MRR")
    x = report.find("R@5", direction="i2t", view="pairs").values
    y = report.find("MRR", direction="i2t", view="complete").values
    assert heat.matrix[a][b] == pytest.approx(spearmanr(x, y).statistic)


def test_agreement_over_systems_is_the_comparisons(report, compared):
    names, matrix = compared.agreement
    for heat, direction in zip(system_comparison.agreement(report, compared), ("i2t", "t2i"), strict=True):
        at = [i for i, name in enumerate(names) if f" {direction} " in name]
        assert np.array_equal(np.array(heat.matrix), matrix[np.ix_(at, at)])


def test_steps_are_round_and_reach_the_limit():
    for limit in (0.013, 0.1, 0.34, 0.5, 0.77, 1.0):
        ticks = figures.steps(limit)
        assert ticks[-1] >= limit - 1e-9
        assert len(ticks) <= 7
        assert all(float(f"{t:.3g}") == t for t in ticks)


# --- the page ---------------------------------------------------------------------------------------------------


SECTIONS = {
    "all": [
        "glance",
        "numbers",
        "systems",
        "curves",
        "ranks",
        "labels",
        "examples",
        "hubs",
        "agreement",
        "queries",
        "method",
    ],
    "alone": ["glance", "numbers", "curves", "ranks", "labels", "examples", "hubs", "agreement", "queries", "method"],
    "one view": ["glance", "numbers", "curves", "ranks", "examples", "hubs", "agreement", "queries", "method"],
    "no lists": ["glance", "numbers", "curves", "ranks", "labels", "agreement", "queries", "method"],
}


def _cases(world, report, page):
    pairs = limner.Collection("toy", world.images, world.texts, world.judgements)
    yield "all", page
    yield "alone", render(report)
    yield "one view", render(system(pairs, 0))
    yield "no lists", render(system(world, 0, keep=0), collection=world)


def test_sections_follow_what_is_known(world, report, page):
    for name, html in _cases(world, report, page):
        outline = Outline(html)
        assert [s["id"] for s in outline.of("section")] == SECTIONS[name], name
        linked = [a["href"] for a in outline.of("a") if a["href"] != "#main"]
        assert set(linked) == {f"#{s}" for s in SECTIONS[name]}


def test_without_first_ranks_the_page_says_what_to_measure(world):
    html = render(system(world, 0, measures="R@1 nDCG@5"), collection=world)
    assert html.count("add <code>MedR</code> to the measures") == 2
    assert "<path" not in html[html.index('<section id="curves"') : html.index('<section id="labels"')]


def test_a_run_without_collection_makes_a_page():
    truth = limner.Judgements.from_pairs([("q1", "a"), ("q2", "b"), ("q3", "c")])
    run = limner.Ranking.from_lists({"q1": ["a", "b"], "q2": ["c", "a"], "q3": ["c", "a"]}, candidates="abc")
    html = render(limner.evaluate(run, truth, measures="R@1 MedR", unretrieved="never", name="a run"))
    assert "For 66.7% of 3 queries, the first candidate returned is right" in html
    assert "never found" in html


def test_a_report_read_from_a_file_makes_the_same_page(tmp_path, report, world):
    reloaded = limner.Report.load(report.save(tmp_path / "report.json"))
    assert render(reloaded, collection=world) == render(report, collection=world)
    assert (report.save(tmp_path / "report.html", collection=world)).read_text(encoding="utf-8") == render(
        report, collection=world
    )


def test_queries_that_do_not_count_are_named(world):
    judgements = limner.Judgements.from_pairs([("i0", "t0"), ("i0", "t5"), ("i3", "t9")])
    part = limner.Collection("toy", world.images, world.texts, world.judgements, extra={"few": judgements})
    html = render(system(part, 0), collection=part)
    assert "Queries without any relevant candidate, which do not count" in html
    assert '<th scope="row">few</th><td class="words">Image → text</td><td>2</td><td>22</td>' in html
    assert "66.7%</strong> of what few calls right is" in html


def test_notes_stand_on_the_first_screen(world):
    noted = limner.Report("s", "c", system(world, 0).results, notes=("mind the gap",))
    html = render(noted)
    assert html.index("mind the gap") < html.index('<section id="numbers"')


@pytest.mark.parametrize(("total", "count"), [(0, 0), (1, 4), (4, 4), (12, 12), (200, N + 2 * N)])
def test_number_of_examples(report, world, total, count):
    groups = examples.examples(report, Truth(world), gallery.Gallery(world), total=total)
    assert sum(len(group.best) + len(group.worst) for group in groups) == count


def test_markup_is_sound(page):
    outline = Outline(page)
    ids = [attributes["id"] for _, attributes in outline.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in outline.elements:
        for name in ("aria-labelledby", "href"):
            targets = (attributes.get(name) or "").split()
            assert all(w.lstrip("#") in ids for w in targets if not w.startswith("data:")), attributes
    levels = [int(tag[1]) for tag, _ in outline.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    assert len(outline.of("table")) == len(outline.of("caption")) > 10
    assert all("scope" in th for th in outline.of("th"))
    for landmark in ("header", "nav", "main", "footer"):
        assert len(outline.of(landmark)) == 1


def test_every_drawing_has_words(page):
    outline = Outline(page)
    for attributes in outline.of("svg"):
        assert (
            attributes.get("aria-hidden") == "true" or attributes.get("aria-label") or attributes.get("aria-labelledby")
        )
    assert sum(a.get("class") == "chart" for a in outline.of("svg")) == 8
    alt = {a["aria-label"] for a in outline.of("svg") if a.get("class") == "thumb"}
    assert any("labelled: caption" in words for words in alt)


def test_the_page_asks_for_nothing_and_allows_only_its_own_script(page):
    outline = Outline(page)
    assert not re.search(r"https?://|//[a-z]+\.|@import|url\((?!data:)", page)
    assert [tag for tag, a in outline.elements if a.get("src")] == []
    policy = next(m["content"] for m in outline.of("meta") if m.get("http-equiv") == "Content-Security-Policy")
    (script,) = [text for tag, text in outline.texts if tag == "script"]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy


def test_nothing_from_outside_becomes_markup():
    evil = collection(evil=True)
    measures = "R@1 MedR"
    reports = [system(evil, seed, name=f"system {EVIL}", measures=measures) for seed in (0, 1, 2)]
    hostile, *other_reports = (replace(each, settings={"ties": EVIL, EVIL: EVIL}, notes=(EVIL,)) for each in reports)
    outline = Outline(render(hostile, collection=evil, other_reports=other_reports))
    assert len(outline.of("script")) == 1
    assert outline.of("img") == []
    assert not [name for _, attributes in outline.elements for name in attributes if name.startswith("on")]
    assert sum(EVIL in text for _, text in outline.texts) > 50
    assert "49" not in "".join(text for tag, text in outline.texts if tag == "h1")


def test_hostile_ids_and_views_stay_text():
    ids = [f"{EVIL}{k}" for k in range(3)]
    truth = limner.Judgements.from_pairs(zip(ids, "abc", strict=True), name=EVIL)
    run = limner.Ranking.from_lists({i: ["a", "b", "c"] for i in ids}, candidates="abc")
    outline = Outline(render(limner.evaluate(run, truth, measures="R@1 MedR")))
    assert len(outline.of("script")) == 1
    assert outline.of("img") == []


def test_each_picture_is_embedded_once(report, world, page):
    uris = re.findall(r"data:image/\w+;base64,[A-Za-z0-9+/=]+", page)
    assert len(uris) == len(set(uris)) > 10
    assert page.count("<use ") > len(uris)


def test_pictures_keep_to_their_budget(world):
    pictures = gallery.Gallery(world, budget=700)
    items = [pictures.query("i2t", i) for i in world.images.ids]
    assert sum(len(p.uri) for p in pictures.thumbnails.values()) <= 700
    assert 0 < len(pictures.thumbnails) < N
    assert pictures.left_out == sum(s.thumbnail is None for s in items)
    assert pictures.notes() == [f"{pictures.left_out} images are left out to keep the file small"]


def test_a_page_full_of_photographs_stays_small():
    rng = np.random.default_rng(0)
    noise = [lambda: Image.fromarray(rng.integers(0, 255, (300, 400, 3), dtype=np.uint8))] * N
    busy = collection(values=noise)
    html = render(system(busy, 0), collection=busy, examples=100)
    assert html.count("<symbol") == N
    assert len(html.encode()) < 3_000_000


def test_thumbnails_are_small_copies_of_the_image(world):
    uri, width, height = gallery.thumbnail(world, "i3")
    copy = Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))
    assert copy.size == (width, height) == (40, 30)
    assert np.allclose(np.asarray(copy).mean(axis=(0, 1)), (30, 90, 200), atol=6)


def test_an_image_and_a_caption_may_have_the_same_id():
    ids = [str(k) for k in range(6)]
    images = limner.Items(ids, [picture(k) for k in range(6)])
    texts = limner.Items(ids, [f"caption {k}" for k in range(6)], kind="text")
    pairs = limner.Judgements.from_pairs(zip(ids, ids, strict=True))
    world = limner.Collection("toy", images, texts, pairs)
    scores = limner.Scores.from_matrix(np.eye(6), ids, ids)
    report = limner.evaluate(scores, world, measures="MedR", direction="i2t")
    forth, back = examples.examples(report, Truth(world), gallery.Gallery(world), total=4)
    assert (forth.best[0].query.kind, forth.best[0].returned[0].item.kind) == ("image", "text")
    assert (back.best[0].query.kind, back.best[0].returned[0].item.kind) == ("text", "image")


def test_images_that_do_not_open_are_told():
    broken = collection(values=[None, b"no picture", *(picture(k) for k in range(2, N))])
    html = render(system(broken, 0), collection=broken, examples=200)
    assert "images could not be shown; the first: image" in html
    assert '<span class="thumb missing">i1</span>' in html


def test_the_same_report_makes_the_same_page(report, world, other_reports, compared, page):
    assert render(report, collection=world, other_reports=other_reports, comparison=compared) == page


def test_others_are_compared_when_no_comparison_is_given(world):
    a, b = (system(world, seed, name=f"s{seed}", measures="R@1") for seed in (0, 1))
    html = render(a, other_reports=[b])
    line = limner.compare([a, b]).lines[0]
    assert (
        f'<span class="value">{system_comparison.signed(line.measure.show(line.differences[0].value))}</span>' in html
    )


def test_long_captions_are_cut_at_a_word():
    assert gallery.shortened("one two three", 9) == "one two…"
    assert gallery.shortened("a" * 200, 9) == "a" * 9 + "…"
    assert gallery.shortened("short") == "short"


# --- views in words, and chance ---------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 4])
def test_chance_is_what_all_orders_of_the_candidates_say(k):
    for relevant in (1, 2, 3):
        hits = [min(order[:relevant]) < k for order in itertools.permutations(range(5))]
        assert words.hit_chances([relevant], 5, k)[0] == pytest.approx(np.mean(hits))


def test_the_headline_has_chance_and_says_which_view_every_number_is_of(world):
    report = system(world, 0, measures="R@1 R@5 MedR mAP@R")
    card = next(card for card in headline.cards(report, Truth(world)) if card.title.startswith("Text"))
    assert card.chance == f"{100 / N:.1f}%" and card.view == "pairs"
    assert headline.cards(report, Truth(None))[0].chance == ""
    page = render(report, collection=world)
    phrase = f"the same answer to every query at best {100 / N:.1f}%"
    assert f"A random ranking has {100 / N:.1f}%, {phrase} (R@1, pairs)." in page
    assert "only the caption written for the image counts as relevant" in page
    assert "<dt>R@5, pairs</dt>" in page


def test_the_tables_of_queries_show_the_images(world):
    report = system(world, 0)
    tables = {t.name: t for t in examples.query_tables(report, Truth(world), gallery.Gallery(world))}
    assert all(item is not None and item.thumbnail for *_, item in tables["i2t"].rows)
    labelled = {q: Truth(world).labelled("t2i", q)[0] for q, *_ in tables["t2i"].rows}
    assert all(item is not None and item.id == labelled[q] for q, *_, item in tables["t2i"].rows)


def test_every_query_is_in_the_table_or_in_its_data(world):
    report = system(world, 0)
    short, every = (examples.query_tables(report, Truth(world), gallery.Gallery(world), n_rows=n)[1] for n in (5, 500))
    further = json.loads(str(short.further))
    assert [q for q, *_ in short.rows] + [q for q, *_ in further] == [q for q, *_ in every.rows]
    assert [cells for _, _, cells, _ in further] == [[text for text, _ in cells] for _, _, cells, _ in every.rows[5:]]
    evil = collection(evil=True)
    data = str(examples.query_tables(system(evil, 0), Truth(evil), gallery.Gallery(evil), n_rows=5)[1].further)
    assert "<" not in data and EVIL in json.loads(data)[0][1]


def test_the_same_answer_to_every_query_and_a_baseline_beside_the_headline(world):
    report = system(world, 0)
    truth = Truth(world)
    main = report.find("R@1", direction="i2t", view="complete")
    judged = world.judged("complete", "i2t")
    slow = max(np.mean([(judged.grade(q, c) or 0) > 0 for q in main.queries]) for c in judged.candidates)
    assert words.constant(report, truth, main) == pytest.approx(slow)
    assert words.constant(report, Truth(None), main) is None
    baseline = system(world, 1)
    card = headline.cards(report, truth, replace(baseline, system="simple"))[0]
    value = baseline.find(card.measure, direction="i2t", view=card.view).value
    assert card.baseline[:2] == ("simple", f"{100 * value:.1f}%") and "p " in card.baseline[3]
    with pytest.raises(limner.LimnerError, match="same measures"):
        headline.cards(report, truth, replace(baseline, results=()))
