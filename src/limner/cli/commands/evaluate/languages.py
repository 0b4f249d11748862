"""Every language of a collection, in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from limner.cli.console import progress, warn
from limner.core.display_names import display_name

if TYPE_CHECKING:
    from limner.cli.inputs import SystemOptions
    from limner.core.collection import Collection


def languages(
    system: SystemOptions,
    collection: Collection,
    options: dict[str, Any],
    *,
    split: str | None,
    measures: str | None,
    name: str | None,
) -> Any:
    """A system on every language: languages by measures, with intervals and the macro mean.

    For each language the texts are those of that language alone; the images are the same for all.
    """
    from limner.evaluation.diagnostics.languages import MEASURES, evaluate_languages

    opened = system.open(collection, split)
    warn(opened.notes)
    label, field = name or display_name(system.label), str(options.get("field", "language"))
    with progress(f"evaluating {label} by {field}", "queries") as step:
        return evaluate_languages(
            opened.scores, opened.collection, measures=measures or MEASURES, name=label, field=field, progress=step
        )
