"""limner measures, protocols, systems, encoders, ...: list what is available."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import typer

from limner.cli.console import answer, table
from limner.cli.options import Json
from limner.core.registry import Option, Registry


def measures(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One of them, or module:NAME.")] = None,
    as_json: Json = False,
) -> None:
    """List every measure, or one, with its formula.

    Examples:
      $ limner measures
      $ limner measures nDCG
      $ limner evaluate scenes --system colours --measures "R@1 nDCG@5 MedR(floor)"
    """
    from limner.evaluation.measures import DEFAULT, MEASURES
    from limner.evaluation.measures.measure import kind_named

    rows = [
        {
            "measure": kind.written,
            "options": list(kind.options),
            "formula": kind.formula,
            "source": kind.source,
        }
        for kind in ([kind_named(name)] if name else MEASURES.values())
    ]
    lines = [(r["measure"], r["formula"], f"[{r['source']}]" if r["source"] else "") for r in rows]
    usual = " ".join(map(str, DEFAULT))
    more = f'\n\nOptions go in parentheses: "R@1(graded)", "MAP(min_grade=2)". Without --measures: {usual}'
    more += "\nA custom measure: module:NAME, where NAME is a MeasureKind (documentation: Add a measure)"
    answer(table(lines) + more, {"measures": rows, "default": usual.split()}, as_json=as_json)


def protocols(as_json: Json = False) -> None:
    """List the protocols: the pool, judgements and measures behind a published number.

    Examples:
      $ limner protocols
      $ limner evaluate coco-5k --images I.npy --texts T.npy --protocol coco-5k --protocol eccv
    """
    from limner.evaluation.protocols import PROTOCOLS

    rows = [
        {"protocol": p.name, "about": p.about, "measures": {v.name: [str(m) for m in v.measures] for v in p.views}}
        for p in PROTOCOLS.values()
    ]
    answer(table((p.name, p.about) for p in PROTOCOLS.values()), {"protocols": rows}, as_json=as_json)


@dataclass(frozen=True)
class Listing:
    """A registry that the command line lists.

    Args:
        one: Singular name of its entries.
        place: Location of the registry, as "module:name".
        about: The help text.
        examples: Example commands.
    """

    one: str
    place: str
    about: str
    examples: tuple[str, ...]

    @property
    def registry(self) -> Registry[object]:
        """The registry, imported on first use."""
        found: Registry[object] = Registry("list", {}).find(self.place)
        return found


KINDS = {
    "systems": Listing(
        "system",
        "limner.systems:SYSTEMS",
        "List the systems that limner can train itself, or the options of one.",
        ("limner systems", "limner systems histograms", "limner evaluate photos/ --system histograms"),
    ),
    "encoders": Listing(
        "encoder",
        "limner.encoders:ENCODERS",
        "List the encoders of images and texts, or the options of one.",
        ("limner encoders", "limner encoders clip", "limner encode photos/ --encoder clip -O model=DIR -o photos.npy"),
    ),
    "corrections": Listing(
        "correction",
        "limner.scores:CORRECTIONS",
        "List the corrections for hubs, or the options of one.",
        ("limner corrections", "limner evaluate scenes --system histograms --correct 'csls(k=5)'"),
    ),
    "fusions": Listing(
        "fusion",
        "limner.match:FUSIONS",
        "List the methods to fuse the rankings of several systems, or the options of one.",
        ("limner fusions", "limner fuse a.run b.run --method 'reciprocal_rank(k=20)' -o fused.run"),
    ),
    "scorers": Listing(
        "scorer",
        "limner.match:SCORERS",
        "List the scorers of pairs for re-ranking, or the options of one.",
        ("limner scorers", "limner rerank proposed.run scenes --scorer levenshtein -o cascade.run"),
    ),
    "losses": Listing(
        "loss",
        "limner.systems:LOSSES",
        "List the losses that towers are trained with, or the options of one.",
        ("limner losses", "limner train towers scenes --set loss=max -o model"),
    ),
    "datasets": Listing(
        "dataset",
        "limner.datasets:DATASETS",
        "List the loaders of data sets, or the options of one; 'limner data list' shows what they load.",
        ("limner datasets", "limner datasets scenes", "limner data describe scenes -O images=100"),
    ),
}


def _lister(plural: str) -> Callable[..., None]:
    """Creates the command that lists a registry, or describes one entry."""
    kind = KINDS[plural]

    def command(
        name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One of them, or module:thing.")] = None,
        as_json: Json = False,
    ) -> None:
        if name is None:
            rows = [{kind.one: each, "about": about} for each, about in kind.registry.summaries().items()]
            return answer(table(tuple(r.values()) for r in rows), {plural: rows}, as_json=as_json)
        told = kind.registry.about(name)
        options = {option.name: option.described() for option in told.options}
        text = told.doc.partition("\n>>> ")[0].rstrip() or name
        if options:
            text += "\n\nOptions:\n" + table(map(_line, told.options), indent="  ")
        return answer(text, {kind.one: name, "about": told.summary, "options": options}, as_json=as_json)

    examples = "\n".join(f"  $ {line}" for line in kind.examples)
    command.__doc__ = f"{kind.about}\n\nExamples:\n{examples}\n"
    return command


def _line(option: Option) -> tuple[str, str, str]:
    default = "" if option.default is ... else f"default {option.default}"
    return option.name, option.type, "required" if option.required else default


COMMANDS: dict[str, Callable[..., None]] = {
    "measures": measures,
    "protocols": protocols,
    **{plural: _lister(plural) for plural in KINDS},
}
