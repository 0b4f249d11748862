"""Makes `docs/benchmarks.md` and `docs/proofs.md` from the saved claims.

With `--check` it writes nothing and fails where a page does not show what is saved.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
INTRODUCTIONS = {
    "benchmarks": """# Benchmarks

limner and its peers on the same work: fresh processes, the same number of threads, taking turns, medians of several
rounds. CPU-seconds count all threads. A goal stands on the ratio of ours to the reference, on our number where there is
no reference, or on the difference ("within"). What was missed stays in the table.
""",
    "proofs": """# Proofs

Published figures, recomputed: limner's value beside the one in print. The goal says how near it has to come. What was
missed stays in the table, with the reason where we know it.
""",
}
FOOTER = "\n*Made by `benchmarks/pages.py` from `{folder}/results/`: do not edit.*\n"


def page(folder: str) -> str:
    """The Markdown of one page."""
    paths = sorted((ROOT / folder / "results").glob("*.json"))
    runs = [{**json.loads(path.read_text(encoding="utf-8")), "name": path.stem} for path in paths]
    sections = [_summary(runs), *map(_section, runs)]
    return "\n".join([INTRODUCTIONS[folder], *sections, FOOTER.format(folder=folder).lstrip("\n")])


def _summary(runs: list[dict[str, Any]]) -> str:
    claims = [claim for run in runs for claim in run["claims"]]
    if not claims:
        return "No run is saved yet.\n"
    return f"**{sum(claim['met'] for claim in claims)} of {len(claims)} goals met.**\n"


def _section(run: dict[str, Any]) -> str:
    quick = ["", "**A quick run: smaller work, fewer rounds.**"] if run["quick"] else []
    card = ", on a graphics card" if run["name"].endswith("_gpu") else ""
    title = Path(run["script"]).stem.removesuffix("_gpu").replace("_", " ").capitalize() + card
    return "\n".join(
        [
            f"## {title}",
            "",
            run["about"],
            *quick,
            "",
            "| claim | ours | reference | ratio | goal | met |",
            "|---|---:|---:|---:|---|---|",
            *map(_row, run["claims"]),
            "",
            *_notes(run["claims"]),
            f"`python {run['script']}`, {run['date']}, commit {run['commit']}; {run['machine']}.",
            "",
        ]
    )


def _row(claim: dict[str, Any]) -> str:
    cells = [claim["claim"], *(_number(claim[key]) for key in ("ours", "reference", "ratio")), claim["goal"]]
    return (
        "| " + " | ".join([*(cell.replace("|", "\\|") for cell in cells), "yes" if claim["met"] else "**no**"]) + " |"
    )


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1e4 else f"{value:.4g}"


def _notes(claims: list[dict[str, Any]]) -> list[str]:
    noted = [f"- {claim['claim']}: {claim['note']}" for claim in claims if claim.get("note")]
    return [*noted, ""] if noted else []


def write() -> None:
    """Renews both pages."""
    for folder in INTRODUCTIONS:
        _target(folder).write_text(page(folder), encoding="utf-8")


def stale() -> list[str]:
    """The pages that do not show what is saved."""
    targets = {folder: _target(folder) for folder in INTRODUCTIONS}
    return [
        target.relative_to(ROOT).as_posix()
        for folder, target in targets.items()
        if not target.exists() or target.read_text(encoding="utf-8") != page(folder)
    ]


def _target(folder: str) -> Path:
    return ROOT / "docs" / f"{folder}.md"


if __name__ == "__main__":
    if "--check" not in sys.argv[1:]:
        write()
    elif old := stale():
        sys.exit(f"{' and '.join(old)} not up to date: run python benchmarks/pages.py")
