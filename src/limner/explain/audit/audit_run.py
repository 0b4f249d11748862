"""audit: runs all checks on a collection; `Audit` holds the findings, repaired judgements and items to leave out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from limner.core.arrays import FloatArray
from limner.core.collection import Collection
from limner.core.errors import LimnerError
from limner.core.judgements import Judgements
from limner.core.progress import Progress, ProgressLike, as_progress
from limner.core.registry import Registry
from limner.core.version import VERSION
from limner.evaluation.reports.page import NOTES, written
from limner.evaluation.reports.page.gallery import Gallery, PageItem
from limner.evaluation.tables import FORMATS, Document, Grid, TableReport, to_csv
from limner.explain.audit import blind_answers, item_checks, label_doubts
from limner.explain.audit.findings import INFO, KINDS, SEVERITIES, Defect, counted
from limner.explain.audit.missing_matches import missing
from limner.explain.audit.permuted_labels import permuted

EXAMPLES = 3
MIN_SIDE = 32
CLOSE = 0.98
"""Image embeddings with at least this cosine similarity count as close."""
MOST_SCORED = 20_000
"""Labels are checked by scores only for collections of at most this many images."""


AUDIT_FORMATS: Registry[Callable[..., str | bytes]] = Registry(
    "audit file ending",
    {
        **FORMATS,
        ".csv": "limner.explain.audit.audit_run:audit_csv",
        ".html": "limner.explain.audit.audit_run:audit_html",
    },
)
"""File formats of an audit, by file ending; ".txt" is what `print` shows."""


@dataclass(frozen=True, eq=False)
class Audit(TableReport):
    """The findings for a collection. Prints as a table.

    Args:
        collection: Its name.
        findings: Sorted by severity and kind.
        repaired: The judgements with the pairs that duplicates and repeated captions add.
        added: How many pairs were added.
        leave_out: Images and texts to leave out, by id, each with the reason.
        notes: Which checks were skipped, and why.
    """

    kind = "audit"
    formats = AUDIT_FORMATS
    collection: str
    findings: tuple[Defect, ...]
    repaired: Judgements
    added: int
    leave_out: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def of(self, kind: str) -> list[Defect]:
        """The findings of one kind."""
        if kind not in KINDS:
            raise LimnerError(f"no kind of finding {kind!r}: expected one of {', '.join(KINDS)}")
        return [defect for defect in self.findings if defect.kind == kind]

    @property
    def sound(self) -> bool:
        """Whether there is neither an error nor a warning."""
        return all(defect.severity == INFO for defect in self.findings)

    def rows(self) -> list[dict[str, object]]:
        """One flat record per finding, as in the CSV file."""
        return [
            {"severity": f.severity, "kind": f.kind, "items": " ".join(f.items), "detail": f.detail}
            for f in self.findings
        ]

    def describe(self) -> dict[str, object]:
        """The whole audit as plain values."""
        return {
            "collection": self.collection,
            "counts": dict(Counter(defect.kind for defect in self.findings)),
            "findings": [{**row, "items": list(f.items)} for row, f in zip(self.rows(), self.findings, strict=True)],
            "pairs_added": self.added,
            "leave_out": dict(self.leave_out),
            "notes": list(self.notes),
        }

    def save(self, path: str | Path, **options: object) -> Path:
        """Writes the findings in the format of the file ending, one of `AUDIT_FORMATS`.

        Args:
            path: The file.
            options: For a page, `collection`: the audited collection, to show its images and captions, not only ids.
        """
        return super().save(path, **(options if Path(path).suffix.lower() == ".html" else {}))

    def document(self) -> Document:
        """What the audit shows: a row for each kind of finding."""
        title = f"{self.collection}: " + (counted(self.findings) or "nothing found")
        rows = [("severity", "kind", "found", "what to do", "examples")]
        for kind in dict.fromkeys(defect.kind for defect in self.findings):
            findings = self.of(kind)
            examples = "; ".join(" ".join(each.items[:2]) for each in findings[:EXAMPLES])
            rows.append((KINDS[kind].severity, kind, f"{len(findings):,}", KINDS[kind].mend, examples))
        repaired = f"repaired judgements: {self.added:,} pairs more; {len(self.leave_out):,} items to leave out"
        grids = [Grid("audit", tuple(rows))] if self.findings else []
        return Document(title, grids, self.notes, (repaired,) if self.added else ())


def audit_csv(report: Audit) -> str:
    """The findings as CSV; an empty record if there are none."""
    return to_csv(report.rows() or [{"severity": "", "kind": "", "items": "", "detail": ""}])


def audit_html(report: Audit, *, collection: Collection | None = None) -> str:
    """The findings as one web page; with the collection it shows images and captions."""
    return render_audit(
        report.collection,
        report.findings,
        collection,
        added=report.added,
        leave_out=report.leave_out,
        notes=report.notes,
    )


def audit(
    collection: Collection,
    *,
    scores: FloatArray | None = None,
    vectors: FloatArray | None = None,
    min_side: int = MIN_SIDE,
    look: bool = True,
    progress: ProgressLike = None,
) -> Audit:
    """Looks for defects in a collection.

    Args:
        collection: The collection to check, with all its splits. Its further judgements give an estimate of the missing
            matches.
        scores: Images by texts, of a system that was not trained on these pairs: finds wrong and shifted labels.
        vectors: One embedding per image: finds images that are similar without being copies.
        min_side: Images with a shorter side than this many pixels are tiny.
        look: Whether images are opened; False for the texts and labels alone.
        progress: Called with (images done, images in total).

    Returns:
        The findings.

    >>> from limner.core.collection import Items
    >>> texts = Items(["t0", "t1"], ["A dog.", "a dog"], kind="text")
    >>> pairs = Judgements.from_pairs([("i0", "t0"), ("i1", "t1")])
    >>> report = audit(Collection("toy", Items(["i0", "i1"], [None, None]), texts, pairs))
    >>> [defect.items for defect in report.of("repeated-caption")], report.added
    ([('t0', 't1')], 2)
    """
    progress = as_progress(progress)
    findings, notes, duplicates = (
        _looked(collection, min_side, progress) if look else ([], ["images were not opened"], [])
    )
    for check in (
        item_checks.repeated,
        item_checks.empty,
        item_checks.self_matches,
        item_checks.other_languages,
    ):
        findings += check(collection)
    solved, gaps = blind_answers.solvable(collection)
    findings += solved
    notes += gaps
    if vectors is not None:
        findings += _close(collection, vectors, duplicates)
    if scores is not None:
        label_defects, label_notes = _labels(collection, scores)
        findings += label_defects
        notes += label_notes
    findings += blind_answers.by_chance(collection)
    repaired, added = _repaired(collection, duplicates)
    unjudged, gaps = missing(collection, collection.extra, added)
    findings += unjudged
    notes += gaps
    ordered = sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), list(KINDS).index(f.kind)))
    return Audit(collection.name, tuple(ordered), repaired, added, _leave_out(ordered), tuple(notes))


def _looked(
    collection: Collection, min_side: int, progress: Progress
) -> tuple[list[Defect], list[str], item_checks.Pairs]:
    """Findings in the images themselves, and all pairs of duplicates whose captions fit both images."""
    images = collection.images
    fingerprints = item_checks.prints(images, progress)
    findings = [*item_checks.unopened(images, fingerprints), *item_checks.tiny(images, fingerprints, min_side)]
    exact = item_checks.same_pixels(fingerprints)
    look_alikes = item_checks.look_alikes(fingerprints, exact)
    mirrored = item_checks.mirrored(fingerprints, [*exact, *look_alikes])
    kinds = (("duplicate-image", exact, ""), ("near-duplicate-image", look_alikes, ""))
    for kind, pairs, detail in (*kinds, ("near-duplicate-image", mirrored, "mirrored")):
        findings += [Defect(kind, (images.ids[a], images.ids[b]), detail) for a, b in pairs]
    findings += _leaks(collection, [*exact, *look_alikes, *mirrored])
    absent = sum(value is None for value in images.values)
    notes = [f"{absent:,} images have no file and were not opened"] if absent else []
    notes += [item_checks.LIMITS] if absent < len(images) else []
    return (
        findings,
        notes,
        [*exact, *look_alikes],
    )  # a mirrored image has left and right, and writing, the other way round


def _leaks(collection: Collection, pairs: item_checks.Pairs) -> list[Defect]:
    """Copies in two splits, and images listed in two splits; the one in the training split comes last."""
    ids = collection.images.ids
    split = {image: name for name, members in collection.splits.items() for image in members}
    twice = Counter(image for members in collection.splits.values() for image in members)
    leaks = [Defect("leakage", (image,), "in two splits") for image, n in twice.items() if n > 1]
    for a, b in pairs:
        one, two = sorted((ids[a], ids[b]), key=lambda image: split.get(image) == "train")
        if one in split and two in split and split[one] != split[two]:
            leaks.append(Defect("leakage", (one, two), f"{split[one]} and {split[two]}"))
    return leaks


def _close(collection: Collection, vectors: FloatArray, duplicates: item_checks.Pairs) -> list[Defect]:
    if len(vectors) != len(collection.images):
        raise LimnerError(f"got {len(vectors)} vectors for {len(collection.images)} images, expected one for each")
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    exact, defects, ids = set(duplicates), [], collection.images.ids
    for start in range(0, len(unit), 1024):
        cosines = unit[start : start + 1024] @ unit.T
        for at, b in np.argwhere(cosines >= CLOSE):
            a = int(start + at)
            if a < b and (a, int(b)) not in exact:
                defects.append(Defect("close-vectors", (ids[a], ids[int(b)]), f"cosine {cosines[at, b]:.3f}"))
    return defects


def _labels(collection: Collection, scores: FloatArray) -> tuple[list[Defect], list[str]]:
    shape = len(collection.images), len(collection.texts)
    if np.shape(scores) != shape:
        raise LimnerError(f"scores: got shape {np.shape(scores)}, expected {shape}, images by texts")
    if shape[0] > MOST_SCORED:
        return [], [f"labels were not checked, since there are more than {MOST_SCORED:,} images: audit a split"]
    label_fit = label_doubts.fit(collection, np.asarray(scores, dtype=np.float64))
    runs, shifted_rows = label_doubts.shifted(collection, label_fit)
    swapped, moved, doubtful = permuted(collection, label_fit, shifted_rows)
    lone, note = label_doubts.wrong(collection, label_fit, shifted_rows | moved, doubtful)
    reported = {collection.images.ids.index(item) for defect in lone for item in defect.items}
    if (share := label_doubts.separation(label_fit, shifted_rows | moved | reported)) < label_doubts.LEAST_SEPARATION:
        needed = f"at least {100 * label_doubts.LEAST_SEPARATION:.0f}% are needed"
        weak = f"in {np.floor(1000 * share) / 10:g}% of comparisons, {needed}"
        return [], [f"labels were not judged: these scores tell own captions from those of another image {weak}"]
    return [*runs, *swapped, *lone], [note] if note else []


def _repaired(collection: Collection, duplicates: item_checks.Pairs) -> tuple[Judgements, int]:
    """The judgements plus implied pairs: captions of a copied image, and images of a repeated caption."""
    owners = item_checks.images_of(collection)
    ids, texts = collection.images.ids, collection.texts
    pairs = {(ids[image], texts.ids[row]) for row, images in enumerate(owners) for image in images}
    before = len(pairs)
    groups: dict[str, list[int]] = {}
    for row, text in enumerate(texts.values):
        if key := item_checks.plain(text):
            groups.setdefault(key, []).append(row)
    for rows in groups.values():
        images = {image for row in rows for image in owners[row]}
        pairs |= {(ids[image], texts.ids[row]) for row in rows for image in images}
    of_image: dict[int, list[int]] = {}
    for row, images_ in enumerate(owners):
        for image in images_:
            of_image.setdefault(image, []).append(row)
    for a, b in duplicates:
        captions = [*of_image.get(a, []), *of_image.get(b, [])]
        pairs |= {(ids[image], texts.ids[row]) for row in captions for image in (a, b)}
    graded = {(q, c): g for q, c, g in collection.judgements if c in texts.ids}
    right = {pair: graded.get(pair) or 1.0 for pair in pairs}
    listed = sorted((q, c, g) for (q, c), g in (dict.fromkeys(graded, 0.0) | right).items())
    judgements = Judgements.from_pairs(listed, queries=ids, candidates=texts.ids, name="repaired")
    return judgements, len(pairs) - before


def _leave_out(findings: Iterable[Defect]) -> dict[str, str]:
    """The last item of each finding that asks for removal; for leaked copies, the one in the training split."""
    reasons: dict[str, str] = {}
    for defect in sorted(findings, key=lambda f: f.kind != "leakage"):
        if KINDS[defect.kind].leave_out and not any(item in reasons for item in defect.items):
            items = defect.items if defect.kind == "shifted-labels" else defect.items[-1:]
            reasons |= dict.fromkeys(items, defect.kind)
    return reasons


SHOWN = 24
"""Findings of a kind that the page shows."""
ITEMS = 6
"""Items of a finding that the page shows."""


def render_audit(
    name: str,
    findings: Sequence[Defect],
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
    kinds = [_kind(kind, defects, gallery) for kind, defects in grouped.items()]
    counts, remarks = counted(findings), [*notes, *gallery.notes()]
    return written(
        "audit.html",
        name=name,
        lead=f"{counts}." if counts else "Nothing was found.",
        repaired=_repaired_section(added, len(leave_out)),
        kinds=kinds,
        notes=remarks,
        contents=[("overview", "Overview"), *((kind, kind) for kind in grouped), *([NOTES] if remarks else [])],
        thumbnails=list(gallery.thumbnails.values()),
        version=VERSION,
    )


def _repaired_section(added: int, left_out: int) -> str:
    parts = [f"Pairs that the repaired judgements add: {added:,}."] if added else []
    parts += [f"Items to leave out: {left_out:,}."] if left_out else []
    return " ".join(parts)


def _kind(name: str, defects: Sequence[Defect], gallery: Gallery) -> dict[str, object]:
    kind = KINDS[name]
    return {
        "name": name,
        "severity": kind.severity,
        "order": SEVERITIES.index(kind.severity),
        "about": kind.about,
        "mend": kind.mend,
        "count": len(defects),
        "shown_count": f"{len(defects):,}",
        "findings": [_described(each, gallery) for each in defects[:SHOWN]],
    }


def _described(defect: Defect, gallery: Gallery) -> dict[str, object]:
    items = [_item(item, gallery) for item in defect.items[:ITEMS]]
    return {"shown": items, "more": max(0, len(defect.items) - ITEMS), "detail": defect.detail}


def _item(item: str, gallery: Gallery) -> PageItem:
    """An image by its thumbnail, a text by its words; a measure is neither."""
    collection = gallery.collection
    return gallery.query("t2i" if collection is not None and item not in collection.images.ids else "i2t", item)
