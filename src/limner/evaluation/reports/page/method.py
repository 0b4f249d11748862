"""The method section: settings, queries left out, and the definition and source of each measure."""

from __future__ import annotations

from limner.evaluation.reports.page.words import direction_title
from limner.evaluation.reports.report import Report

TIES = {
    "expected": "Candidates with equal scores count by expectation over all their orders.",
    "order": "Candidates with equal scores keep the order they were given in.",
    "pessimistic": "Among candidates with equal scores, relevant ones come last.",
}
UNRETRIEVED = {
    "refuse": "A measure that needs a longer list is refused.",
    "never": "Relevant candidates missing from a list count as never found.",
}


TOLD = ("ties", "unretrieved", "version", "truth", "pool", "judged_pool")
"""Settings with their own sentence, or used only in comparisons."""


def method(report: Report) -> dict[str, object]:
    """The content of the last section of the page."""
    return {"settings": _settings(report), "left_out": _left_out(report), "glossary": _glossary(report)}


def _settings(report: Report) -> list[tuple[str, str]]:
    """All settings, as (setting, value)."""
    ties, unretrieved = (str(report.settings.get(name, "")) for name in ("ties", "unretrieved"))
    rest = {name: value for name, value in report.settings.items() if name not in TOLD}
    said = [
        ("Ties", TIES.get(ties, ties)),
        ("Short lists", UNRETRIEVED.get(unretrieved, unretrieved)),
        ("Intervals", _intervals(report)),
        *((str(name).capitalize(), str(value)) for name, value in rest.items()),
        ("Made with", f"limner {report.settings.get('version', '')}".strip()),
    ]
    return [(what, how) for what, how in said if how]


def _intervals(report: Report) -> str:
    found = [r.interval for r in report.results if r.interval is not None]
    if not found:
        return ""
    drawn = next((i for i in found if i.samples), None)
    said = [f"{100 * found[0].level:g}%."]
    if any(not i.samples for i in found):
        said.append(
            "Shares, sums of them and mean ranks: Wilson's, by how many independent queries would vary as much."
        )
    if drawn is not None:
        said.append(f"Medians: by the bootstrap, {drawn.samples:,} resamples.")
    if any(i.unit == "clusters" for i in found):
        said.append("Queries that belong together, such as the captions of one image, form one cluster.")
    return " ".join(said)


def _left_out(report: Report) -> list[tuple[str, str, str, str]]:
    """(view, direction, queries that count, queries left out), if any were left out."""
    rows = []
    for view, direction, results in report.groups():
        if results[0].left_out:
            rows.append((view, direction_title(direction), f"{len(results[0].queries):,}", f"{results[0].left_out:,}"))
    return rows


def _glossary(report: Report) -> list[tuple[str, str, str, str]]:
    """(measure, definition, whether higher is better, source) of every kind of measure in the report."""
    used = {r.measure.name: r.measure.kind for r in report.results}
    return [
        (
            f"{name}@k" if kind.cut == "required" else name,
            kind.formula or "defined outside limner",
            "higher" if kind.better > 0 else "lower",
            kind.source,
        )
        for name, kind in used.items()
    ]
