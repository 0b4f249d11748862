"""Makes `docs/benchmarks.md` and `docs/proofs.md` from the saved claims.

Results of one script on several kinds of machine stand side by side. With `--check` it writes nothing and fails where a
page does not show what is saved.
"""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import hardware

ROOT = Path(__file__).resolve().parents[1]
INTRODUCTIONS = {
    "benchmarks": """# Benchmarks

limner and its peers on the same work: fresh processes, the same number of threads, taking turns, medians of several
rounds. CPU-seconds count all threads. A goal stands on the ratio of ours to the reference, on our number where there is
no reference, or on the difference ("within"). What was missed stays in the table.
""",
    "proofs": """# Proofs

Published figures, recomputed: limner's value beside a reference. The reference is a figure in print (print), measured
here with another program (peer), measured here with another setting of limner (limner), or known beforehand, such as a
nominal level (theory). The goal says how near it has to come. What was missed stays in the table, with the reason where
we know it.
""",
}
FOOTER = "\n*Made by `benchmarks/pages.py` from `{folder}/results/`: do not edit.*\n"


def page(folder: str) -> str:
    """The Markdown of one page: a section for every script, in which all machines stand side by side."""
    runs = map(_read, sorted((ROOT / folder / "results").glob("*.json")))
    runs = _newest(sorted(runs, key=lambda run: (run["script"], run["kind"])))
    scripts = [list(each) for _, each in groupby(runs, key=lambda run: run["script"])]
    sections = [_summary(runs), *map(_section, scripts)]
    return "\n".join([INTRODUCTIONS[folder], *sections, FOOTER.format(folder=folder).lstrip("\n")])


def _read(path: Path) -> dict[str, Any]:
    run = json.loads(path.read_text(encoding="utf-8"))
    machine = hardware.read(run["machine"])
    kind = hardware.kind(machine)
    part = path.name.removeprefix(Path(run["script"]).stem + ".").removesuffix(f"{kind}.json").rstrip(".")
    return {**run, "machine": machine, "kind": kind, "part": part}


def _newest(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The runs without claims that a later run of the same script on the same kind of machine has measured again."""

    def key(run: dict[str, Any], claim: dict[str, Any]) -> tuple[str, str, str]:
        return run["script"], run["kind"], claim["claim"]

    later = {key(run, claim): run for run in sorted(runs, key=lambda run: str(run["date"])) for claim in run["claims"]}
    return [{**run, "claims": [c for c in run["claims"] if later[key(run, c)] is run]} for run in runs]


def _summary(runs: list[dict[str, Any]]) -> str:
    claims = [claim for run in runs for claim in run["claims"]]
    if not claims:
        return "No run is saved yet.\n"
    return f"**{sum(claim['met'] for claim in claims)} of {len(claims)} goals met.**\n"


def _section(runs: list[dict[str, Any]]) -> str:
    """One script on one or several kinds of machine."""
    latest, several = max(runs, key=lambda run: str(run["date"])), len(runs) > 1
    stem = Path(latest["script"]).stem
    card = ", on a GPU" if stem.endswith("_gpu") else ""
    head = ["claim", *(["machine"] if several else []), "ours", "reference", "ratio", "goal", "met"]
    return "\n".join(
        [
            f"## {stem.removesuffix('_gpu').replace('_', ' ').capitalize()}{card}",
            "",
            latest["about"],
            "",
            f"| {' | '.join(head)} |",
            "|---|" + "---|" * several + "---:|---:|---:|---|---|",
            *(_row(claim, run["kind"] if several else None) for run, claim in _side_by_side(runs)),
            "",
            *_notes(runs),
            *(line for run in runs for line in (_measured(run), "")),
        ]
    )


def _side_by_side(runs: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Every claim of every run, those of the same name together, in the order in which names come up."""
    pairs = [(run, claim) for run in runs for claim in run["claims"]]
    places: dict[str, int] = {}
    for _, claim in pairs:
        places.setdefault(claim["claim"], len(places))
    return sorted(pairs, key=lambda pair: places[pair[1]["claim"]])


def _measured(run: dict[str, Any]) -> str:
    quick = "**A quick run: smaller work, fewer rounds.** " if run["quick"] else ""
    part = f" (part *{run['part']}*)" if run["part"] else ""
    run_note = f"commit {run['commit']}; {hardware.description(run['machine'])}"
    return f"{quick}`python {run['script']}`{part}, {run['date']}, {run_note}."


def _row(claim: dict[str, Any], machine: str | None) -> str:
    named = [claim["claim"], *([machine] if machine else [])]
    source = f" ({claim['source']})" if claim.get("source") else ""
    cells = [
        *named,
        _number(claim["ours"]),
        _number(claim["reference"]) + source,
        _number(claim["ratio"]),
        claim["goal"],
    ]
    return (
        "| " + " | ".join([*(cell.replace("|", "\\|") for cell in cells), "yes" if claim["met"] else "**no**"]) + " |"
    )


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1e4 else f"{value:.4g}"


def _notes(runs: list[dict[str, Any]]) -> list[str]:
    machine_note = {run["kind"]: f" ({run['kind']})" if len(runs) > 1 else "" for run in runs}
    noted = [
        f"- {claim['claim']}{machine_note[run['kind']]}: {claim['note']}"
        for run, claim in _side_by_side(runs)
        if claim.get("note")
    ]
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
