"""Human annotation: pooling, tasks, answers, quality, merging, bias, preference studies, rounds, designed samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limner.annotate import (
        aggregate,
        allocation,
        answer_files,
        bias,
        crowd,
        design,
        endpoint,
        estimate,
        estimate_notes,
        export,
        failing,
        form,
        form_files,
        frames,
        given,
        guideline,
        judges,
        label_studio,
        levels,
        merge,
        narrowing,
        overview,
        planned,
        pool,
        predicted,
        preference,
        preferred,
        quality,
        reliability,
        results,
        sample,
        scale,
        side_tables,
        store,
        studies,
        study_files,
        study_results,
        tasks,
        turns,
    )
    from limner.annotate.design import plan
    from limner.annotate.store import open_store
else:
    from limner.core.lazy import submodules

    _submodule = submodules(__name__)

    def __getattr__(name: str) -> object:
        """Imports modules that need a database on first use."""
        homes = {"plan": "design", "open_store": "store"}
        return getattr(_submodule(homes[name]), name) if name in homes else _submodule(name)


__all__ = [
    "aggregate",
    "allocation",
    "answer_files",
    "bias",
    "crowd",
    "design",
    "endpoint",
    "estimate",
    "estimate_notes",
    "export",
    "failing",
    "form",
    "form_files",
    "frames",
    "given",
    "guideline",
    "judges",
    "label_studio",
    "levels",
    "merge",
    "narrowing",
    "open_store",
    "overview",
    "plan",
    "planned",
    "pool",
    "predicted",
    "preference",
    "preferred",
    "quality",
    "reliability",
    "results",
    "sample",
    "scale",
    "side_tables",
    "store",
    "studies",
    "study_files",
    "study_results",
    "tasks",
    "turns",
]
