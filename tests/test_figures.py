"""Figures for papers, tables for notebooks, frames of other libraries."""

import re
import zlib
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from typer.testing import CliRunner

import limner
from limner import LimnerError, Report
from limner.cli import app
from limner.evaluation.reports.figures import REPORT_FIGURES, WIDTHS

MAGIC = {".pdf": b"%PDF", ".svg": b"<?xml", ".png": b"\x89PNG"}


@pytest.fixture(scope="module")
def world():
    return limner.load("scenes", images=60)


@pytest.fixture(scope="module")
def reports(world):
    models = (limner.train(world, name) for name in ("histograms", "colours"))
    return [limner.evaluate(model.scores(world.test), world.test) for model in models]


@pytest.mark.parametrize("ending", MAGIC)
@pytest.mark.parametrize("figure", ["recall", "measures", "hubs"])
def test_every_figure_in_every_format(reports, tmp_path, figure, ending):
    first, repeated = (
        reports[0].save(tmp_path / f"{n}{ending}", figure=figure, other_reports=reports[1:]) for n in "ab"
    )
    assert first.read_bytes().startswith(MAGIC[ending])
    assert first.read_bytes() == repeated.read_bytes(), "no date, no random names"
    assert set(REPORT_FIGURES) == {"recall", "measures", "hubs"}


@pytest.mark.parametrize(
    ("width", "inches"), [("column", WIDTHS["column"]), ("page", WIDTHS["page"]), (5, 5), ("4.5", 4.5)]
)
def test_the_width_is_the_one_asked_for(reports, tmp_path, width, inches):
    written = reports[0].save(tmp_path / "f.pdf", width=width).read_bytes()
    box = re.search(rb"/MediaBox \[ *0 0 ([\d.]+)", written)
    assert float(box[1]) == pytest.approx(72 * inches, abs=0.1)


def test_fonts_are_embedded(reports, tmp_path):
    written = reports[0].save(tmp_path / "f.pdf").read_bytes()
    parts = [zlib.decompress(p) for p in re.findall(rb"stream\r?\n(.*?)\r?\nendstream", written, re.S) if p[:1] == b"x"]
    assert b"/FontFile2" in written or any(b"/FontFile2" in part for part in parts)
    assert b"<text" not in reports[0].save(tmp_path / "f.svg").read_bytes()


def test_a_recall_curve_shows_the_numbers_of_the_report(reports):
    axes = reports[0].figure("recall").axes[0]
    drawn = dict(zip(*axes.lines[0].get_data(), strict=True))
    for k in (1, 5, 10):
        assert drawn[k] == pytest.approx(100 * reports[0].value(f"R@{k}", direction="i2t", view="pairs"))


def test_a_curve_that_reaches_100_percent_is_drawn_whole_and_its_last_k_is_labelled():
    """At the upper edge, half of the line was cut off; a curve up to k = 100 ended beyond the last label, 50."""
    ids = [f"i{n}" for n in range(120)]
    scores = limner.Scores.from_matrix(np.eye(120) + np.arange(120) / 1000, queries=ids, candidates=ids)
    pairs = limner.Judgements.from_pairs([(one, one) for one in ids])
    axes = limner.evaluate(scores, pairs).figure("recall").axes[0]
    assert axes.lines[0].get_xdata()[-1] == 100
    assert axes.get_xticks().tolist() == [1, 2, 5, 10, 25, 100]
    assert max(axes.lines[0].get_ydata()) == axes.get_ylim()[1] == 100
    assert not axes.lines[0].get_clip_on()


def test_marks_of_measures_are_the_numbers_of_the_report(reports):
    axes = reports[0].figure("measures").axes[0]
    positions = next(line for line in axes.lines if line.get_label() == "complete").get_xdata()
    results = [
        r for r in reports[0].results if r.view == "complete" and r.direction == "i2t" and r.measure.kind.percent
    ]
    assert np.allclose(positions, [100 * r.value for r in results])


def test_measures_that_only_another_view_has_get_no_empty_row(reports):
    """Judged@k of a view with partial judgements, beside systems that are drawn under another view."""
    first = next(r for r in reports[0].results if str(r.measure) == "R@1")
    extra = replace(first, view="judged", measure=limner.evaluation.measures.parse("R@3")[0])
    extended = [Report(r.system, r.collection, (*r.results, extra)) for r in reports]
    labels = [
        each.get_text() for each in extended[0].figure("measures", other_reports=extended[1:]).axes[0].get_yticklabels()
    ]
    assert "R@1" in labels and "R@3" not in labels


def test_differences_of_a_comparison(reports, tmp_path):
    compared = reports[0].compare(reports[1], samples=200)
    assert compared.save(tmp_path / "c.pdf", width="page").read_bytes().startswith(b"%PDF")
    axes = compared.figure().axes[0]
    line = compared.line("R@1", view="pairs", direction="i2t")
    assert 100 * line.differences[0].value == pytest.approx(axes.lines[0].get_xdata()[0])
    several = limner.compare([*reports, reports[0]], samples=200)
    assert several.figure().legends, "which mark is which pair"


NAMES = {
    12: ("histograms-1", "histograms-2", "histograms-3"),
    60: tuple(f"{letter}-model-with-a-name-of-sixty-characters-as-some-hubs-have-it" for letter in "abc"),
}


def boxes(figure):
    """Where the panels are drawn, with their labels, and the legend; and the paper."""
    figure.set_dpi(40)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    drawer = canvas.get_renderer()
    return (
        [axes.get_tightbbox(drawer) for axes in figure.axes],
        [axes.get_window_extent(drawer) for axes in figure.axes],
        [legend.get_window_extent(drawer) for legend in figure.legends],
        figure.bbox,
    )


@pytest.mark.parametrize("letters", NAMES)
@pytest.mark.parametrize("kind", ["recall", "measures", "hubs", "comparison"])
@pytest.mark.parametrize("width", ["column", "page"])
def test_names_of_any_length_fit_and_leave_room_for_the_panels(reports, kind, letters, width):
    named = [replace(report, system=name) for name, report in zip(NAMES[letters], [*reports, reports[0]], strict=False)]
    if kind == "comparison":
        figure = limner.compare(named, samples=100).figure(width=width)
    else:
        figure = named[0].figure(kind, width=width, other_reports=named[1:])
    with_labels, panels, (legend,), paper = boxes(figure)
    for box in (*with_labels, legend):
        assert paper.x0 <= box.x0 and box.x1 <= paper.x1 and paper.y0 - 1 <= box.y0 and box.y1 <= paper.y1 + 1, box
    columns = len({round(box.x0) for box in panels})
    assert all(box.width > 0.6 * paper.width / columns and box.height > 0.6 * figure.dpi for box in panels), (
        "no slivers"
    )
    assert all(not legend.overlaps(box) for box in with_labels)


def test_a_legend_names_systems_shortly_and_apart(reports):
    named = [
        replace(report, system=f"clip(model=/data/{part}/vit)") for part, report in zip("ab", reports, strict=True)
    ]
    (legend,) = named[0].figure("recall", other_reports=named[1:]).legends
    assert [text.get_text() for text in legend.get_texts()] == ["a/vit", "b/vit"]
    assert legend.get_title().get_text() == "pairs"


def test_what_cannot_be_drawn_is_refused(reports, tmp_path):
    with pytest.raises(LimnerError, match="recall"):
        reports[0].figure("recal")
    with pytest.raises(LimnerError, match=r"0\.2 inches wide: expected 1\.5 to 20"):
        reports[0].save(tmp_path / "f.pdf", width=0.2)
    with pytest.raises(LimnerError, match="column"):
        reports[0].figure(width="colum")
    with pytest.raises(LimnerError, match="MedR"):
        Report("s", "c", tuple(r for r in reports[0].results if not r.measure.kind.rank)).figure("recall")
    with pytest.raises(LimnerError, match="has no lists"):
        Report("s", "c", reports[0].results).figure("hubs")
    with pytest.raises(LimnerError, match="percent"):
        Report("s", "c", tuple(r for r in reports[0].results if r.measure.kind.rank)).figure("measures")
    with pytest.raises(LimnerError, match="colour"):
        reports[0].save(tmp_path / "f.pdf", colour="red")
    assert not list(tmp_path.iterdir())


def test_from_the_shell(reports, tmp_path):
    for name, report in zip("ab", reports, strict=True):
        report.save(tmp_path / f"{name}.json")
    a, b = tmp_path / "a.json", tmp_path / "b.json"

    def run(*words):
        return CliRunner().invoke(app, list(map(str, words)))

    done = run("report", a, b, "-o", tmp_path / "f.pdf", "-O", "figure=measures", "-O", "width=page")
    assert done.exit_code == 0 and (tmp_path / "f.pdf").read_bytes().startswith(b"%PDF")
    assert run("compare", a, b, "--samples", 200, "-o", tmp_path / "c.svg").exit_code == 0
    for words in (("-o", tmp_path / "x.md", "-O", "figure=hubs"), ("-o", tmp_path / "x.pdf", "--collection", "scenes")):
        refused = run("report", a, *words)
        assert refused.exit_code == 2 and "it is for" in refused.output
    unknown = run("report", a, "-o", tmp_path / "x.pdf", "-O", "figure=recal")
    assert unknown.exit_code != 0 and "recall" in unknown.output and not (tmp_path / "x.pdf").exists()


# --- frames and notebooks ---------------------------------------------------------------------------------------


def test_tables_of_other_libraries_hold_the_rows(reports, world):
    compared = reports[0].compare(reports[1], samples=200)
    for source in (reports[0], compared):
        assert source.to_arrow().to_pylist() == source.rows()
        assert pa.table(source).num_rows == len(source.rows())
    frame = reports[0].to_pandas()
    assert list(frame.columns) == list(reports[0].rows()[0]) and len(frame) == len(reports[0].rows())
    pairs = world.to_pandas()
    assert len(pairs) == len(world.judgements) and set(pairs["split"]) == set(world.splits)
    at = pairs.iloc[7]
    assert world.judgements.grade(at["image"], at["text"]) and at["caption"] in set(world.texts.values)


def test_a_ranking_as_a_table(reports):
    ranking = reports[0].top["i2t"]
    table = ranking.to_pandas()
    assert len(table) == ranking.lengths.sum()
    query = ranking.queries[3]
    assert list(table[table["query"] == query]["candidate"]) == ranking[query]
    assert list(table[table["query"] == query]["rank"]) == list(range(1, len(ranking[query]) + 1))


def test_polars(reports):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    assert reports[0].to_polars().to_dicts() == reports[0].rows()
    assert polars.DataFrame(reports[0]).shape == (len(reports[0].rows()), 12)


def test_notebooks_show_what_is_there_and_escape_it(reports, world):
    hostile = "<script>alert(1)</script>"
    renamed = Report(hostile, hostile, reports[0].results, notes=(hostile,))
    for markup in (renamed._repr_html_(), limner.compare([renamed, renamed], samples=200)._repr_html_()):
        assert "<script" not in markup and "&lt;script" in markup and "R@1" in markup
    page = world.test._repr_html_()
    assert page.count("<img") == 5 and "data:image/" in page and world.test.texts.values[0] in page
    assert reports[0].top["t2i"]._repr_html_().count("<tr>") == 6


def test_a_collection_without_pictures_is_shown_all_the_same():
    listed = limner.load({"image": ["no.jpg"], "caption": ["a <b>dog</b>"]})
    markup = listed._repr_html_()
    assert "<code>no.jpg</code>" in markup and "<b>" not in markup
