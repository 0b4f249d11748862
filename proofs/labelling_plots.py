"""Draws the saved rows of `few_labels.py`: coverage by measure, half-width by labels with and without a judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
COLOURS = {"none": "#444444", "good": "#0072b2", "useless": "#e69f00", "adversarial": "#d55e00", "captions": "#009e73",
           "crowd": "#009e73"}  # fmt: skip


def rows() -> list[dict[str, Any]]:
    """The rows of all machines."""
    files = sorted(RESULTS.glob("few_labels.*.rows.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def draw(target: Path) -> None:
    """Both drawings, one above the other, as SVG."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "limner"
    from matplotlib import pyplot

    held = [
        r for r in rows() if "covered" in r and r["kind"] in ("fixed", "levels") and not r["world"].endswith("late")
    ]
    figure, (above, below) = pyplot.subplots(2, 1, figsize=(9, 8), layout="constrained")
    _coverage(above, held)
    _widths(below, [r for r in held if r["target"].startswith("R@1") and not r["target"].endswith("difference")])
    figure.savefig(target, metadata={"Date": None})


def _coverage(axes: Any, held: list[dict[str, Any]]) -> None:
    measures = list(dict.fromkeys(r["target"].split()[0] for r in held))
    for judge in dict.fromkeys(r["judge"] for r in held):
        mine = [r for r in held if r["judge"] == judge]
        places = [measures.index(r["target"].split()[0]) + 0.12 * (list(COLOURS).index(judge) - 2) for r in mine]
        axes.scatter(places, [100 * r["covered"] for r in mine], s=9, color=COLOURS[judge], label=judge)
    axes.axhspan(93.5, 96.5, color="#eeeeee", zorder=0)
    axes.set_xticks(range(len(measures)), measures, rotation=20)
    axes.set_ylabel("studies whose 95% interval holds the truth, %")
    axes.legend(title="judge", ncols=3, fontsize="small")


def _widths(axes: Any, held: list[dict[str, Any]]) -> None:
    for world in dict.fromkeys(r["world"] for r in held):
        for judge in dict.fromkeys(r["judge"] for r in held):
            mine = [r for r in held if (r["world"], r["judge"]) == (world, judge)]
            labels = sorted({r["labels"] for r in mine})
            half = [max(r["half"] for r in mine if r["labels"] == each) for each in labels]
            style = "-" if world.endswith("t2i") else "--"
            axes.plot(labels, half, style, color=COLOURS[judge], marker="o", ms=3, lw=1)
            if labels and judge == "none":
                axes.annotate(
                    world, (labels[-1], half[-1]), fontsize="x-small", xytext=(4, 0), textcoords="offset points"
                )
    axes.set(xscale="log", yscale="log", xlabel="labels", ylabel="half-width of R@1 of the wider system, points")
