"""Makes the pages of `evidence/` from the saved claims: one for each theme of `themes.toml`, and their index.

`all_claims` is the part of the site that is not committed: every claim of every script. With `--check` nothing is
written, and the script fails where a page does not show what is saved.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import hardware
import projection

ROOT = Path(__file__).resolve().parents[1]
TOTAL = re.compile(r"[\d,]+ of [\d,]+ goals")
"""What README.md and docs/index.md say of the total."""
INDEX = """# Evidence

What was checked: limner beside other programs and beside published figures. Every page is one question, with the goals
that were missed first. A goal is set on the ratio of our number to the reference, on their difference ("within"), or on
our number where there is no reference. A reference is a published figure (print), another program (peer), another
setting of limner (limner) or known beforehand, such as a nominal level (theory).

**{total} met.**

| question | met | missed |
|---|---:|---:|
{rows}

By hand: [the five papers, item by item](papers.md), [faults and their guards](guards.md). `make docs` also lists every
goal that was met. `make bench` and `make proofs` run everything again.
"""
FOOTER = "\n*Made by `benchmarks/pages.py` from saved results: do not edit.*\n"

Run = dict[str, Any]
Pair = tuple[Run, dict[str, Any]]
"""A run and one of its claims."""


def evidence() -> dict[str, str]:
    """The text of every committed page by its name below `evidence/`."""
    themes = tomllib.loads((ROOT / "benchmarks" / "themes.toml").read_text(encoding="utf-8"))
    pairs = {name: _pairs(saved_runs(theme["scripts"])) for name, theme in themes.items()}
    rows = [
        f"| [{theme['title']}]({name}.md): {theme['question']} | {_counts(pairs[name])} |"
        for name, theme in themes.items()
    ]
    index = INDEX.format(total=total(), rows="\n".join(rows)) + FOOTER
    return {"README.md": index} | {f"{name}.md": _theme(theme, pairs[name]) for name, theme in themes.items()}


def total() -> str:
    """How many goals are met, of how many."""
    return f"{_met(_pairs(saved_runs()))} goals"


def all_claims(folder: str) -> str:
    """Every claim of `benchmarks` or `proofs`, a section for every script."""
    runs = saved_runs()
    scripts = sorted({run["script"] for run in runs if run["script"].startswith(folder)})
    sections = [_section([run for run in runs if run["script"] == script]) for script in scripts]
    return "\n".join([f"# All claims of {folder}", "", *sections])


def saved_runs(scripts: list[str] | None = None) -> list[Run]:
    """The saved runs of some scripts, or of all, without claims that a later run on that kind of machine renewed."""
    paths = [path for folder in ("benchmarks", "proofs") for path in sorted((ROOT / folder / "results").glob("*.json"))]
    runs = [run for run in map(_read, paths) if scripts is None or run["script"] in scripts]
    runs.sort(key=lambda run: (run["script"], run["kind"]))
    latest = {_key(*pair): pair[0] for pair in _pairs(sorted(runs, key=lambda run: str(run["date"])))}
    return [{**run, "claims": [claim for claim in run["claims"] if latest[_key(run, claim)] is run]} for run in runs]


def _read(path: Path) -> Run:
    run = json.loads(path.read_text(encoding="utf-8"))
    machine = hardware.read(run["machine"])
    kind = hardware.kind(machine)
    part = path.name.removeprefix(Path(run["script"]).stem + ".").removesuffix(f"{kind}.json").rstrip(".")
    return {**run, "machine": machine, "kind": kind, "part": part}


def _key(run: Run, claim: dict[str, Any]) -> tuple[str, str, str]:
    return run["script"], run["kind"], claim["claim"]


def _pairs(runs: list[Run]) -> list[Pair]:
    return [(run, claim) for run in runs for claim in run["claims"]]


def _met(pairs: list[Pair]) -> str:
    return f"{sum(claim['met'] for _, claim in pairs):,} of {len(pairs):,}"


def _counts(pairs: list[Pair]) -> str:
    met = sum(claim["met"] for _, claim in pairs)
    return f"{met:,} | {len(pairs) - met:,}"


def _theme(theme: dict[str, Any], pairs: list[Pair]) -> str:
    missed = [pair for pair in pairs if not pair[1]["met"]]
    records = [(ROOT / name).read_text(encoding="utf-8") for name in theme.get("records", [])]
    parts = [
        f"# {theme['title']}\n\n{theme['question']}\n\n**{_met(pairs)} goals met.**",
        *([f"## Missed\n\n{_table(missed)}"] if missed else []),
        f"## Commands\n\n{_commands(theme['scripts'], pairs)}",
        *([f"## What it shows\n\n{theme['text'].strip()}"] if "text" in theme else []),
        *records,
        *([projection.table()] if theme.get("tables") == "projection" else []),
    ]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n" + FOOTER


def _commands(scripts: list[str], pairs: list[Pair]) -> str:
    rows = []
    for script in scripts:
        own_pairs = [pair for pair in pairs if pair[0]["script"] == script]
        about = own_pairs[-1][0]["about"] if own_pairs else "No result is saved."
        rows.append(f"| `python {script}` | {about} | {_met(own_pairs)} |")
    return "\n".join(["| command | what it asks | met |", "|---|---|---:|", *rows])


def _section(runs: list[Run]) -> str:
    latest = max(runs, key=lambda run: str(run["date"]))
    measured = "\n".join(map(_measured, runs))
    return f"## {latest['script']}\n\n{latest['about']}\n\n{_table(_pairs(runs))}\n\n{measured}\n"


def _table(pairs: list[Pair]) -> str:
    """The claims, those of one script and name together, and below them their notes, each once."""
    order = {place: number for number, place in enumerate(dict.fromkeys((r["script"], c["claim"]) for r, c in pairs))}
    pairs = sorted(pairs, key=lambda pair: order[pair[0]["script"], pair[1]["claim"]])
    notes = dict.fromkeys(claim["note"] for _, claim in pairs if claim.get("note"))
    numbers = {note: number for number, note in enumerate(notes, start=1)}
    rows = [_row(run, claim, numbers) for run, claim in pairs]
    head = ["| claim | machine | ours | reference | ratio | goal | met |", "|---|---|---:|---:|---:|---|---|"]
    return "\n".join([*head, *rows, "", *(f"{number}. {note}" for note, number in numbers.items())]).rstrip("\n")


def _row(run: Run, claim: dict[str, Any], numbers: dict[str, int]) -> str:
    source = f" ({claim['source']})" if claim.get("source") else ""
    note = f" [{numbers[claim['note']]}]" if claim.get("note") else ""
    reference = _number(claim["reference"]) + source
    cells = [
        claim["claim"] + note,
        run["kind"],
        _number(claim["ours"]),
        reference,
        _number(claim["ratio"]),
        claim["goal"],
    ]
    met = "yes" if claim["met"] else "**no**"
    return "| " + " | ".join([*(cell.replace("|", "\\|") for cell in cells), met]) + " |"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if isinstance(value, int) or abs(value) >= 1e4 else f"{value:.4g}"


def _measured(run: Run) -> str:
    quick = "**A quick run: smaller work, fewer rounds.** " if run["quick"] else ""
    part = f" (part *{run['part']}*)" if run["part"] else ""
    machine = hardware.description(run["machine"])
    return f"- {quick}`python {run['script']}`{part}, {run['date']}, commit {run['commit']}; {machine}."


def _texts() -> dict[Path, str]:
    """What every page should say: those of `evidence/`, and the two of the manual that give the total."""
    manual = [path for path in (ROOT / "README.md", ROOT / "docs" / "index.md") if path.exists()]
    with_total = {path: TOTAL.sub(total(), path.read_text(encoding="utf-8")) for path in manual}
    return with_total | {ROOT / "evidence" / name: text for name, text in evidence().items()}


def write() -> None:
    """Renews the pages."""
    (ROOT / "evidence").mkdir(exist_ok=True)
    for path, text in _texts().items():
        path.write_text(text, encoding="utf-8")


def stale() -> list[str]:
    """The pages that do not show what is saved, and the scripts with results that are in no theme."""
    themes = tomllib.loads((ROOT / "benchmarks" / "themes.toml").read_text(encoding="utf-8"))
    listed = {script for theme in themes.values() for script in theme["scripts"]}
    missing = {run["script"] for run in saved_runs()} - listed
    texts = _texts().items()
    old = [path for path, text in texts if not path.exists() or path.read_text(encoding="utf-8") != text]
    return [*(path.relative_to(ROOT).as_posix() for path in old), *sorted(missing)]


if __name__ == "__main__":
    if "--check" not in sys.argv[1:]:
        write()
    elif old := stale():
        sys.exit(f"{' and '.join(old)} not up to date: run python benchmarks/pages.py (themes: benchmarks/themes.toml)")
