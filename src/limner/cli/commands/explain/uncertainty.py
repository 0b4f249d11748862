"""limner explain uncertainty: is a model less certain about queries with more relevant candidates?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from limner.cli.commands.evaluate import COLLECTION
from limner.cli.console import answer, progress
from limner.cli.options import Json, Loading, Split, Trust, command_options, load, part, whole_numbers, word
from limner.core.errors import LimnerError, UnknownName
from limner.core.progress import progress_for

DIRECTIONS = ("i2t", "t2i")


def uncertainty(
    collection: Annotated[str, typer.Argument(metavar="COLLECTION", help=COLLECTION)],
    model: Annotated[Path, word("A saved model that predicts its uncertainty: pcme.", metavar="DIR")],
    judgements: Annotated[
        str | None, word("Judgements of the collection, by name.", show_default="those with the most relevant pairs")
    ] = None,
    direction: Annotated[str, word("i2t (image queries) or t2i.")] = "i2t",
    split: Split = None,
    option: Loading = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Compare the uncertainty of a model with the number of relevant candidates per query (figure 3b of ECCV Caption).

    -O bins=10 is the number of groups in the table.

    Examples:
      $ limner explain uncertainty scenes --model pcme/
      $ limner explain uncertainty coco-5k --model pcme/ --judgements eccv --direction i2t --json
    """
    from limner.papers.uncertainty import multiplicity
    from limner.systems import load as load_model

    if direction not in DIRECTIONS:
        raise UnknownName("direction", direction, DIRECTIONS)
    settings, loader = command_options(option, "uncertainty")
    whole_numbers(settings, bins=1)
    chosen = part(load(collection, loader), split)
    loaded_model: object = load_model(model, trust=trust)
    if not hasattr(loaded_model, "uncertainty"):
        raise LimnerError(f"{model}: this kind of model does not predict uncertainty; train 'pcme'")
    items = chosen.images if direction == "i2t" else chosen.texts
    richest = max(chosen.all_judgements.items(), key=lambda each: len(each[1]))[0]
    name = judgements or richest
    with progress(f"predicting the uncertainty of {len(items):,} queries", f"{items.kind}s") as step:
        progress_option = progress_for(loaded_model.uncertainty, step)
        values = dict(zip(items.ids, map(float, loaded_model.uncertainty(items, **progress_option)), strict=True))
        result = multiplicity(values, chosen.judged(name, direction), bins=settings.get("bins", 10))
    data = {
        "judgements": name, "direction": direction, "queries": len(result.queries), "rho": result.rho,
        "interval": None if result.interval is None else [result.interval.low, result.interval.high],
        "bins": [vars(b) for b in result.bins],
    }  # fmt: skip
    answer(f"{direction}, judgements {name!r}, {len(result.queries):,} queries\n{result}", data, as_json=as_json)
