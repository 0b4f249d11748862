"""Draws the saved rows of `few_labels.py`: coverage by measure, half-width by labels with and without a judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
COLOURS = {"none": "#444444", "good": "#0072b2", "useless": "#e69f00", "adversarial": "#d55e00", "captions": "#009e73",
           "crowd": "#cc79a7"}  # fmt: skip
COVERING = ("useless", "adversarial", "captions")
"""Judges whose lines lie on others."""
LOOKS = {"fixed": "one look", "anytime": "any time"}


def rows() -> list[dict[str, Any]]:
    """The rows of all machines; of a row that several have, that of the latest day."""
    saved = sorted(RESULTS.glob("few_labels.*.json"), key=lambda file: json.loads(file.read_text())["date"])
    by_label = {}
    for file in saved:
        for row in map(json.loads, file.with_suffix(".rows.jsonl").read_text().splitlines()):
            by_label[tuple(row.get(name) for name in ("world", "kind", "judge", "labels", "target"))] = row
    return list(by_label.values())


def draw(target: Path) -> None:
    """Coverage above; half-widths of R@1 below, one drawing for each world."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "limner"
    from matplotlib import pyplot

    plotted = [r for r in rows() if "covered" in r and not r["world"].endswith("late")]
    fixed = [r for r in plotted if r["kind"] in ("fixed", "levels")]
    named = sorted({r["world"] for r in plotted if r["target"].startswith("R@1")}, reverse=True)
    figure = pyplot.figure(figsize=(10, 7.5), layout="constrained")
    upper_figure, lower_figure = figure.subfigures(2, 1, height_ratios=(1, 1))
    _coverage(upper_figure.subplots(), fixed)
    for axes, world in zip(
        lower_figure.subplots(1, max(len(named), 1), sharey=True, squeeze=False)[0], named, strict=False
    ):
        _widths(axes, [r for r in plotted if r["world"] == world and _is_drawn(r)])
        axes.set_title(world, fontsize="medium")
        axes.set_xlabel("labels")
    lower_figure.axes[0].set_ylabel("half-width of R@1, points")
    lines = {line.get_label(): line for axes in lower_figure.axes for line in axes.get_lines()}
    lower_figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=4, fontsize="small")
    figure.savefig(target, metadata={"Date": None})


def _is_drawn(row: dict[str, Any]) -> bool:
    """The first system's R@1, looked at once or at any time."""
    return row["kind"] in ("fixed", "anytime") and row["target"] in ("R@1 histograms", "R@1 words")


def _coverage(axes: Any, plotted: list[dict[str, Any]]) -> None:
    measures = list(dict.fromkeys(r["target"].split()[0] for r in plotted))
    for judge in dict.fromkeys(r["judge"] for r in plotted):
        of_judge = [r for r in plotted if r["judge"] == judge]
        places = [measures.index(r["target"].split()[0]) + 0.13 * (list(COLOURS).index(judge) - 2) for r in of_judge]
        axes.scatter(places, [100 * r["covered"] for r in of_judge], s=9, color=COLOURS[judge], label=judge)
    axes.axhspan(93.5, 96.5, color="#eeeeee", zorder=0)
    axes.axhline(95, color="#bbbbbb", lw=1, zorder=0)
    axes.set_xticks(range(len(measures)), ["experts' yes" if m == "share" else m for m in measures])
    axes.set_ylabel("studies whose 95% interval\nholds the truth, %")
    axes.legend(title="judge", ncols=6, fontsize="small", loc="upper right")


def _widths(axes: Any, plotted: list[dict[str, Any]]) -> None:
    """Half-width by labels: solid for one look, dashed for any time."""
    for kind, style in (("fixed", "-"), ("anytime", "--")):
        for judge in dict.fromkeys(r["judge"] for r in plotted):
            points = sorted((r["labels"], r["half"]) for r in plotted if (r["kind"], r["judge"]) == (kind, judge))
            if points and (kind == "fixed" or judge in ("none", "good")):
                look = {"color": COLOURS[judge], "marker": "o", "ms": 3, "lw": 1.2 if judge in COVERING else 3}
                axes.plot(*zip(*points, strict=True), style, label=f"{judge}, {LOOKS[kind]}", **look)
    axes.set(xscale="log", yscale="log")
    axes.set_xticks([100, 300, 1000], ["100", "300", "1,000"])
    axes.set_yticks([1, 2, 5, 10], ["1", "2", "5", "10"])
    axes.minorticks_off()
    axes.grid(color="#eeeeee")
