"""An audit as one web page: findings by severity and kind, with thumbnails of the images they are about."""

from __future__ import annotations

from collections.abc import Sequence, Sized

from limner.core.collection import Collection
from limner.core.version import VERSION
from limner.evaluation.reports.page.gallery import Gallery, Shown
from limner.evaluation.reports.page.writing import NOTES, written
from limner.explain.audit.findings import KINDS, SEVERITIES, Finding, counted

SHOWN = 24
"""Findings of a kind that the page shows."""
ITEMS = 6
"""Items of a finding that the page shows."""


def render_audit(
    name: str,
    findings: Sequence[Finding],
    collection: Collection | None = None,
    *,
    added: int = 0,
    leave_out: Sized = (),
    notes: Sequence[str] = (),
) -> str:
    """Writes an audit as one self-contained HTML page.

    Args:
        name: Name of the collection.
        findings: What was found, in order of severity and kind.
        collection: The collection that was audited, for its images and captions; without it, ids are shown.
        added: Pairs that the repaired judgements add.
        leave_out: Items to leave out.
        notes: What was not checked, and why.

    Returns:
        The page as text.
    """
    gallery = Gallery(collection)
    grouped = {kind: [f for f in findings if f.kind == kind] for kind in dict.fromkeys(f.kind for f in findings)}
    kinds = [_kind(kind, found, gallery) for kind, found in grouped.items()]
    counts, remarks = counted(findings), [*notes, *gallery.notes()]
    return written(
        "audit.html",
        name=name,
        lead=f"{counts}." if counts else "Nothing was found.",
        repaired=_repaired(added, len(leave_out)),
        kinds=kinds,
        notes=remarks,
        contents=[("overview", "Overview"), *((kind, kind) for kind in grouped), *([NOTES] if remarks else [])],
        thumbnails=list(gallery.thumbnails.values()),
        version=VERSION,
    )


def _repaired(added: int, left_out: int) -> str:
    parts = [f"Pairs that the repaired judgements add: {added:,}."] if added else []
    parts += [f"Items to leave out: {left_out:,}."] if left_out else []
    return " ".join(parts)


def _kind(name: str, found: Sequence[Finding], gallery: Gallery) -> dict[str, object]:
    kind = KINDS[name]
    return {
        "name": name,
        "severity": kind.severity,
        "order": SEVERITIES.index(kind.severity),
        "about": kind.about,
        "mend": kind.mend,
        "count": len(found),
        "shown_count": f"{len(found):,}",
        "findings": [_finding(each, gallery) for each in found[:SHOWN]],
    }


def _finding(finding: Finding, gallery: Gallery) -> dict[str, object]:
    shown = [_item(item, gallery) for item in finding.items[:ITEMS]]
    return {"shown": shown, "more": max(0, len(finding.items) - ITEMS), "detail": finding.detail}


def _item(item: str, gallery: Gallery) -> Shown:
    """An image by its thumbnail, a text by its words; a measure is neither."""
    known = gallery.collection
    return gallery.query("t2i" if known is not None and item not in known.images.ids else "i2t", item)
