"""limner explain: why a system fails: wrong answers, weak slices, hard negatives, contradicted queries, its space."""

from __future__ import annotations

import typer

from limner.cli.commands.explain import attack, failures, gap, map, probe, slices, uncertainty

app = typer.Typer(no_args_is_help=True, help="Explain why a system fails.")
app.command("failures")(failures.failures)
app.command("slices")(slices.slices)
app.command("probe")(probe.probe)
app.command("attack")(attack.attack)
app.command("map")(map.map_embeddings)
app.command("gap")(gap.gap)
app.command("uncertainty")(uncertainty.uncertainty)
