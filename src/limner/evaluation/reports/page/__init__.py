"""The report as a single HTML file that needs no network and works on phones, in light and dark mode, and in print.

`render` collects the content of the sections, and a template formats it. The template escapes all external text
(captions, ids, names), and its content security policy allows only its own script and no requests.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from typing import TYPE_CHECKING

from markupsafe import Markup

from limner.core.collection import Collection
from limner.core.markup import template
from limner.core.options import OptionValues
from limner.evaluation.comparison import system_names
from limner.evaluation.reports.page import estimates, headline, labels, rank_charts, system_comparison, words
from limner.evaluation.reports.page import examples as queries
from limner.evaluation.reports.page.gallery import Failures, Gallery, section
from limner.evaluation.reports.page.truth import Truth
from limner.evaluation.reports.page.words import direction_title
from limner.evaluation.reports.report import Report

if TYPE_CHECKING:
    from limner.evaluation.comparison import Comparison
    from limner.evaluation.slices import Slices

SECTIONS = (
    ("glance", "At a glance"),
    ("numbers", "All numbers"),
    ("estimated", "Under the complete truth"),
    ("systems", "Against other systems"),
    ("slices", "Slices of the queries"),
    ("curves", "Recall curves"),
    ("ranks", "Ranks of right answers"),
    ("labels", "What the labels miss"),
    ("examples", "Best and worst queries"),
    ("failures", "What went wrong"),
    ("hubs", "Hubs"),
    ("agreement", "Do the measures agree?"),
    ("queries", "Query by query"),
    ("method", "How it was measured"),
)


def render(
    report: Report,
    *,
    collection: Collection | None = None,
    other_reports: Sequence[Report] = (),
    comparison: Comparison | None = None,
    examples: int = 12,
    failures: Failures | None = None,
    sliced: Slices | None = None,
    baseline: Report | None = None,
) -> str:
    """Renders a report as one self-contained HTML page.

    Args:
        report: The report.
        collection: The evaluated collection, for captions, thumbnails and missing labels.
        other_reports: Reports of other systems on the same collection, to compare with.
        comparison: An existing comparison; by default one is computed if there are other_reports.
        examples: Number of queries to show with their results, best and worst together; 0 for none.
        failures: The output of `limner.explain.failure_classes.shown_failures`: failures by class, with boxes and
            explanations.
        sliced: The output of `limner.evaluation.slices`: groups of queries compared with the rest.
        baseline: Report of a baseline on the same queries, shown next to the headline.

    Returns:
        The page as text.
    """
    full_name = report.system
    report, *other_reports = _shortly_named([report, *other_reports])
    baseline = None if baseline is None else _shortly_named([report, baseline])[1]
    truth, gallery = Truth(collection), Gallery(collection)
    compared = system_comparison.comparison_of(report, other_reports, comparison)
    content = {
        **_measured(report, other_reports, compared, truth),
        "cards": headline.cards(report, truth, baseline),
        **_from_lists(report, truth, gallery, examples),
        **method(report),
        "failures": section(failures, collection, gallery),
        "sliced": sliced,
        "slices": system_comparison.slice_tables(sliced),
    }
    content["settings"] = [*([("System", full_name)] if full_name != report.system else []), *_settings(report)]
    content["findings"] = _findings(report, compared, content)
    content["notes"] = [*report.notes, *(compared.notes if compared else ()), *gallery.notes()]
    content["thumbnails"] = list(gallery.thumbnails.values())
    content["contents"] = [(name, title) for name, title in SECTIONS if _present(name, content)]
    version = report.settings.get("version", "")
    return written("report.html", report=report, collection=collection, version=version, **content)


def _shortly_named(reports: Sequence[Report]) -> list[Report]:
    """The reports with short names of their systems."""
    return [replace(each, system=name) for each, name in zip(reports, system_names(reports), strict=True)]


def _measured(
    report: Report, other_reports: Sequence[Report], compared: Comparison | None, truth: Truth
) -> dict[str, object]:
    """The sections that need only numbers."""
    return {
        "lead": headline.lead(report),
        "views": words.explained(report),
        "tables": headline.tables(report),
        "estimates": estimates.estimate_panels(report),
        "estimate_legend": estimates.legend(),
        "curves": rank_charts.curve_panels(report, other_reports),
        "curve_legend": rank_charts.legend(report, other_reports, kind="line"),
        "ranks": rank_charts.rank_panels(report),
        "rank_legend": rank_charts.legend(report, (), kind="bar"),
        "comparison": compared,
        "contests": system_comparison.contests(compared) if compared else [],
        "crowding": system_comparison.crowding([report, *other_reports]) if other_reports else [],
        "heats": system_comparison.agreement(report, compared),
    }


def _from_lists(report: Report, truth: Truth, gallery: Gallery, total: int) -> dict[str, object]:
    """The sections that need the stored lists and the collection."""
    return {
        "truth": truth,
        "examples": queries.examples(report, truth, gallery, total=total),
        "gaps": labels.gaps(report, truth),
        "changes": labels.changes(report, truth),
        "missed_positives": labels.missed_positive_examples(report, truth, gallery, each=max(0, min(3, total // 4))),
        "hubs": rank_charts.hub_panels(report, gallery),
        "queries": queries.query_tables(report, truth, gallery),
    }


def _findings(report: Report, compared: Comparison | None, content: OptionValues) -> list[tuple[str, str]]:
    """The highlights, as (section, sentence)."""
    first = content["gaps"][0].name if content["gaps"] else ""
    findings = [("systems", sentence) for sentence in system_comparison.findings(report, compared)] if compared else []
    findings += [("slices", system_comparison.slices_finding(content["sliced"]))]
    findings += [("labels", gap.finding) for gap in content["gaps"] if gap.name == first]
    findings += [("hubs", panel.finding) for panel in content["hubs"]]
    return [(section, sentence) for section, sentence in findings if sentence]


def _present(name: str, content: dict[str, object]) -> bool:
    """Whether a section has content; curves and ranks handle missing content themselves."""
    needs = {
        "estimated": "estimates",
        "systems": "contests",
        "slices": "slices",
        "labels": "gaps",
        "examples": "examples",
        "hubs": "hubs",
        "failures": "failures",
        "agreement": "heats",
        "queries": "queries",
    }
    return bool(content[needs[name]] or (name == "labels" and content["changes"])) if name in needs else True


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
    remaining = {name: value for name, value in report.settings.items() if name not in TOLD}
    sentences = [
        ("Ties", TIES.get(ties, ties)),
        ("Short lists", UNRETRIEVED.get(unretrieved, unretrieved)),
        ("Intervals", _intervals(report)),
        *((str(name).capitalize(), str(value)) for name, value in remaining.items()),
        ("Made with", f"limner {report.settings.get('version', '')}".strip()),
    ]
    return [(setting, sentence) for setting, sentence in sentences if sentence]


def _intervals(report: Report) -> str:
    intervals = [r.interval for r in report.results if r.interval is not None]
    if not intervals:
        return ""
    drawn = next((i for i in intervals if i.samples), None)
    sentences = [f"{100 * intervals[0].level:g}%."]
    if any(not i.samples for i in intervals):
        sentences.append(
            "Shares, sums of them and mean ranks: Wilson's, by how many independent queries would vary as much."
        )
    if drawn is not None:
        sentences.append(f"Medians: by the bootstrap, {drawn.samples:,} resamples.")
    if any(i.unit == "clusters" for i in intervals):
        sentences.append("Queries that belong together, such as the captions of one image, form one cluster.")
    return " ".join(sentences)


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


NOTES = ("notes", "Notes")
"""Anchor and title of the section in `notes.html`."""


def written(file: str, /, **content: object) -> str:
    """Renders a page. All external text is escaped, and only the page's own script may run.

    Args:
        file: A file in `templates`.
        content: The values for the template; `page.html` needs `version` and `contents`, the (anchor, title)
            of each section.
    """
    sources = files("limner.evaluation.reports.page") / "templates"
    style, script = ((sources / f"report.{ending}").read_text(encoding="utf-8") for ending in ("css", "js"))
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = template("limner.evaluation.reports.page", file, folder="templates")
    return page.render(style=Markup(style), script=Markup(script), allowed=allowed, **content)
