"""limner list: the measures, protocols, models, corrections, losses, data sets, ... that there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.console import answer, table
from limner.cli.options import Json
from limner.core.errors import UnknownName
from limner.core.options import OptionValues

if TYPE_CHECKING:
    from limner.core.registry import Option, Registry

Answer = tuple[str, dict[str, object]]

REGISTRIES = {
    "systems": ("system", "limner.systems:SYSTEMS"),
    "encoders": ("encoder", "limner.encoders:ENCODERS"),
    "corrections": ("correction", "limner.match:CORRECTIONS"),
    "fusions": ("fusion", "limner.match:FUSIONS"),
    "scorers": ("scorer", "limner.match:SCORERS"),
    "losses": ("loss", "limner.systems:LOSSES"),
}
"""Kinds that are a registry: the name of one, and where the registry is."""


def list_(
    kind: Annotated[str | None, typer.Argument(metavar="[KIND]", help="A kind of thing; all kinds without it.")] = None,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One of them, or module:thing.")] = None,
    as_json: Json = False,
) -> None:
    """List the measures, protocols, systems, encoders, corrections, fusions, scorers, losses or datasets.

    With a NAME, describe one: its options, the formula of a measure, or where to get a data set.

    Examples:
      $ limner list
      $ limner list measures
      $ limner list measures nDCG
      $ limner list encoders clip
      $ limner list corrections csls
      $ limner list datasets flickr8k
    """
    if kind is None:
        lines = [(each, about) for each, (about, _) in KINDS.items()]
        return answer(table(lines), {"kinds": [dict(zip(("kind", "about"), line, strict=True)) for line in lines]},
                      as_json=as_json)  # fmt: skip
    if kind not in KINDS:
        raise UnknownName("kind", kind, KINDS)
    return answer(*KINDS[kind][1](name), as_json=as_json)


def _measures(name: str | None) -> Answer:
    from limner.evaluation.measures import DEFAULT, MEASURES
    from limner.evaluation.measures.measure import kind_named

    rows: list[OptionValues] = [
        {"measure": kind.written, "options": list(kind.options), "formula": kind.formula, "source": kind.source}
        for kind in ([kind_named(name)] if name else MEASURES.values())
    ]
    lines = [(r["measure"], r["formula"], f"[{r['source']}]" if r["source"] else "") for r in rows]
    usual = " ".join(map(str, DEFAULT))
    footnote = f'\n\nOptions go in parentheses: "R@1(graded)", "MAP(min_grade=2)". Without --measures: {usual}'
    footnote += "\nA custom measure: module:NAME, where NAME is a MeasureKind (documentation: Add a measure)"
    return table(lines) + footnote, {"measures": rows, "default": usual.split()}


def _protocols(name: str | None) -> Answer:
    from limner.evaluation.protocols import PROTOCOLS

    if name is not None and name not in PROTOCOLS:
        raise UnknownName("protocol", name, PROTOCOLS)
    chosen = [p for p in PROTOCOLS.values() if name in (None, p.name)]
    rows = [
        {"protocol": p.name, "about": p.about, "measures": {v.name: [str(m) for m in v.measures] for v in p.views}}
        for p in chosen
    ]
    return table((p.name, p.about) for p in chosen), {"protocols": rows}


def _datasets(name: str | None) -> Answer:
    from limner.datasets import DATASETS, dataset, datasets

    if name is None:
        rows = [{"dataset": d.name, "about": d.description, "needs_path": d.needs_path} for d in datasets()]
        lines = [(d.name + (":PATH" if d.needs_path else ""), d.description) for d in datasets()]
        footnote = "\n\nA path alone is enough if the format can be detected; a custom loader is module:function:PATH."
        return table(lines) + footnote, {"datasets": rows}
    text, data = _entry("dataset", DATASETS, name)
    if name not in DATASETS:  # module:thing
        return text, data
    entry = dataset(name)
    files = f"\nFiles: {', '.join(entry.files)}" if entry.files else ""
    usage = f"limner data describe {entry.name}" + (":DIR" if entry.needs_path else "")
    option_part = text.partition("\n\nOptions:\n")
    hub = f"\nOr by its name alone: {entry.hub.partition('@')[0]} of the Hugging Face hub." if entry.hub else ""
    licence = f"\nTerms: {entry.licence}" if entry.licence else ""
    source = f"{entry.fetch}{hub}{licence}{files}"
    text = f"{entry.name}: {entry.description}\n\n{source}\nThen: {usage}{''.join(option_part[1:])}"
    about = {"description": entry.description, "fetch": entry.fetch, "licence": entry.licence, "hub": entry.hub}
    return text, {**data, **about, "files": entry.files, "then": usage}


def _registered(plural: str) -> Callable[[str | None], Answer]:
    """What lists a registry, or describes one entry."""
    one, place = REGISTRIES[plural]

    def listing(name: str | None) -> Answer:
        from limner.core.registry import Registry

        registry: Registry[object] = Registry[Any]("list", {}).find(place)
        if name is not None:
            return _entry(one, registry, name)
        rows = [{one: each, "about": about} for each, about in registry.summaries().items()]
        return table(tuple(r.values()) for r in rows), {plural: rows}

    return listing


def _entry(one: str, registry: Registry[Any], name: str) -> Answer:
    """The description of one entry of a registry."""
    entry = registry.about(name)
    options = {option.name: option.described() for option in entry.options}
    text = entry.doc.partition("\n>>> ")[0].rstrip() or name
    if options:
        text += "\n\nOptions:\n" + table(map(_line, entry.options), indent="  ")
    return text, {one: name, "about": entry.summary, "options": options}


def _line(option: Option) -> tuple[str, str, str]:
    default = "" if option.default is ... else f"default {option.default}"
    return option.name, option.type, "required" if option.required else default


KINDS: Mapping[str, tuple[str, Callable[[str | None], Answer]]] = {
    "measures": ("what --measures computes, with formulas", _measures),
    "protocols": ("the pool, judgements and measures behind a published number", _protocols),
    "systems": ("what 'limner train' trains", _registered("systems")),
    "encoders": ("models of images and texts", _registered("encoders")),
    "corrections": ("what --correct does about hubs", _registered("corrections")),
    "fusions": ("how 'limner match fuse' fuses", _registered("fusions")),
    "scorers": ("what 'limner match rerank' scores pairs with", _registered("scorers")),
    "losses": ("what towers are trained with", _registered("losses")),
    "datasets": ("what is read as a COLLECTION, and where to get it", _datasets),
}
"""What can be listed: a kind, what it is, and what lists it."""

COMMANDS = {"list": list_}
