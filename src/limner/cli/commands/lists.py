"""limner measures, protocols, systems: what there is, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from limner.cli.console import answer, table
from limner.cli.options import Json


def measures(as_json: Json = False) -> None:
    """List every measure, with its formula.

    Examples:
      $ limner measures
      $ limner evaluate scenes --system colours --measures "R@1 nDCG@5 MedR(floor)"
    """
    from limner.evaluation.measures import DEFAULT, KINDS

    rows = [
        {
            "measure": kind.name + {"required": "@k", "optional": "[@k]", "none": ""}[kind.cut],
            "options": list(kind.options),
            "formula": kind.formula,
            "source": kind.source,
        }
        for kind in KINDS.values()
    ]
    lines = [(r["measure"], r["formula"], f"[{r['source']}]") for r in rows]
    usual = " ".join(map(str, DEFAULT))
    more = f'\n\nOptions go in parentheses: "R@1(graded)", "MAP(min_grade=2)". Without --measures: {usual}'
    answer(table(lines) + more, {"measures": rows, "default": usual.split()}, as_json=as_json)


def protocols(as_json: Json = False) -> None:
    """List the protocols: which pool, judgements and measures a published number means.

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


def systems(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One system: its options.")] = None,
    as_json: Json = False,
) -> None:
    """List the systems that limner can train itself, or the options of one.

    Examples:
      $ limner systems
      $ limner systems histograms
      $ limner evaluate photos/ --system histograms
    """
    from limner.core.registry import resolve
    from limner.systems import SYSTEMS

    if name is not None:
        trainer = resolve(name, SYSTEMS, what="system")
        data = {"system": name, "about": _about(trainer), "options": _options(trainer)}
        return answer(inspect.getdoc(trainer) or name, data, as_json=as_json)
    rows = [{"system": name, "about": _about(resolve(name, SYSTEMS, what="system"))} for name in SYSTEMS]
    return answer(table((r["system"], r["about"]) for r in rows), {"systems": rows}, as_json=as_json)


def _about(trainer: object) -> str:
    return (inspect.getdoc(trainer) or "").partition("\n")[0]


def _options(trainer: Callable[..., Any]) -> dict[str, Any]:
    """The options and what they are when nothing is said; those that only a program can give are left out."""
    parameters = inspect.signature(trainer).parameters.values()
    keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in ("progress", "dev")]
    return {p.name: None if p.default is p.empty else p.default for p in keywords}


COMMANDS = {"measures": measures, "protocols": protocols, "systems": systems}
