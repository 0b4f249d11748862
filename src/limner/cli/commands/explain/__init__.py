"""limner explain: why a system fails: wrong answers, weak slices, hard negatives, contradicted queries, its space."""

from __future__ import annotations

import typer

from limner.cli.commands.explain import embedding_space, failures, hard_negatives, slices

app = typer.Typer(no_args_is_help=True, help="Explain why a system fails.")
app.command("failures")(failures.failures)
app.command("slices")(slices.slices)
app.command("probe")(hard_negatives.probe)
app.command("attack")(hard_negatives.attack)
app.command("map")(embedding_space.map_embeddings)
app.command("gap")(embedding_space.gap)
app.command("uncertainty")(embedding_space.uncertainty)
