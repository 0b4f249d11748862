"""An audit as one web page: findings by severity and kind, with thumbnails of the images they are about."""

from __future__ import annotations

from typing import Any

from limner.core.collection import Collection
from limner.core.version import VERSION
from limner.evaluation.page.pictures import Gallery, Shown
from limner.evaluation.page.writing import written
from limner.explain.audit.auditing import Audit, counted
from limner.explain.audit.findings import KINDS, SEVERITIES, Finding

SHOWN = 24
"""Findings of a kind that the page shows."""
ITEMS = 6
"""Items of a finding that the page shows."""


def render_audit(audit: Audit, collection: Collection | None = None) -> str:
    """Writes an audit as one self-contained HTML page.

    Args:
        audit: What was found.
        collection: The collection that was audited, for its images and captions; without it, ids are shown.

    Returns:
        The page as text.
    """
    gallery = Gallery(collection)
    kinds = [_kind(audit, name, gallery) for name in dict.fromkeys(finding.kind for finding in audit.findings)]
    counts = counted(audit.findings)
    return written(
        "audit.html",
        name=audit.collection,
        lead=f"{counts}." if counts else "Nothing was found.",
        repaired=_repaired(audit),
        kinds=kinds,
        notes=[*audit.notes, *gallery.notes()],
        pictures=list(gallery.pictures.values()),
        version=VERSION,
    )


def _repaired(audit: Audit) -> str:
    parts = [f"Pairs that the repaired judgements add: {audit.added:,}."] if audit.added else []
    parts += [f"Items to leave out: {len(audit.leave_out):,}."] if audit.leave_out else []
    return " ".join(parts)


def _kind(audit: Audit, name: str, gallery: Gallery) -> dict[str, Any]:
    kind, found = KINDS[name], audit.of(name)
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


def _finding(finding: Finding, gallery: Gallery) -> dict[str, Any]:
    shown = [_item(item, gallery) for item in finding.items[:ITEMS]]
    return {"shown": shown, "more": max(0, len(finding.items) - ITEMS), "detail": finding.detail}


def _item(item: str, gallery: Gallery) -> Shown:
    """An image by its thumbnail, a text by its words; a measure is neither."""
    known = gallery.collection
    return gallery.query("t2i" if known is not None and item not in known.images.ids else "i2t", item)
