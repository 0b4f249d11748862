"""limner match rerank: re-rank the top of a run pair by pair."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from limner.cli.console import answer, progress
from limner.cli.options import (
    Json,
    Loading,
    Split,
    Trust,
    cache_word,
    command_options,
    load,
    number,
    out_word,
    part,
    saved,
    switch,
    word,
)
from limner.core.errors import LimnerError
from limner.core.paths import read_json

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.core.ranking import Ranking


def rerank(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Ranking of the first stage: a TREC run or JSON lists.")],
    collection: Annotated[str, typer.Argument(metavar="COLLECTION", help="The collection of the ids in the run.")],
    output: Annotated[
        list[Path], out_word("Write the run: .run (TREC), .json; .csv for Kaggle (id, five captions). Repeatable.")
    ],
    scorer: Annotated[
        str,
        word("A name of 'limner list scorers', a saved CRank or CrossEncoder, or module:thing.", metavar="HOW"),
    ],
    depth: Annotated[str, word("Number of candidates to re-rank, or a share such as 0.2.", metavar="N")] = "1000",
    cache: Annotated[Path | None, cache_word("Cache folder for scores; an interrupted run can resume.")] = None,
    split: Split = None,
    option: Loading = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Re-rank the best candidates of each image with a pair scorer, which reads image or file name, and caption.

    -O features=FILE are vectors of the images, for a scorer that uses them. -O keep_rest=true appends the other
    candidates of the first stage. -O weight=1 is the weight of the scorer against the first stage: 1 for the scorer
    alone, 0.5 for equal weights.

    Examples:
      $ limner match rerank proposed.run scenes --scorer levenshtein --depth 0.2 -o cascade.run
      $ limner match rerank clip.run flickr8k:DIR --scorer 'blip-itm(model=DIR)' --depth 32 -o blip.run
      $ limner match rerank proposed.run wit:kaggle/ --scorer crank/ --cache scores/ -o sub.csv -o final.run
    """
    from limner.match import cascade

    settings, loader = command_options(option, "rerank")
    keep_rest, weight = switch(settings, "keep_rest"), float(number(settings, "weight", 1.0))
    features = Path(str(settings["features"])) if "features" in settings else None
    evaluated = part(load(collection, loader), split)
    proposed = _proposed(run, evaluated)
    judge = _scorer(scorer, trust=trust)
    chosen = evaluated if list(proposed.queries) == list(evaluated.images.ids) else _images(evaluated, proposed)
    queries = _queries(judge, chosen, features)
    with progress(f"re-ranking {len(proposed):,} lists", "pairs") as step:
        reranked = cascade(
            proposed,
            judge,
            queries=dict(zip(chosen.images.ids, queries, strict=True)),
            candidates=evaluated.texts,
            depth=_depth(depth),
            weight=weight,
            keep_rest=keep_rest,
            cache=cache,
            name=None if hasattr(judge, "fingerprint") else scorer,
            progress=step,
        )
    saved(_written(reranked, evaluated, output))
    facts = {"queries": len(reranked), "depth": depth, "pairs": reranked.pairs, "from the cache": reranked.reused}
    facts |= {"pairs per second": round(reranked.throughput, 1), "scorer": scorer, "out": " ".join(map(str, output))}
    answer("\n".join(f"{name}: {value}" for name, value in facts.items()), facts, as_json=as_json)


def _proposed(run: Path, collection: Collection) -> Ranking:
    """The first-stage run; its queries must be images of the collection."""
    from limner.datasets.runs import read_run

    proposed = read_run(run, candidates=collection.texts.ids)
    missing = [key for key in proposed.queries if key not in collection.images.ids]
    if missing:
        raise LimnerError(
            f"{run}: query {missing[0]!r} is not an image of {collection.name!r}: use its ids, or another --split"
        )
    return proposed


def _written(ranking: Ranking, collection: Collection, files: list[Path]) -> list[Path]:
    from limner.datasets.wikipedia import write_submission

    return [
        write_submission(ranking, collection.texts, file) if file.suffix.lower() == ".csv" else ranking.save(file)
        for file in files
    ]


def _images(collection: Collection, proposed: Any) -> Any:
    from dataclasses import replace

    restricted = collection.restrict(proposed.queries)
    return replace(restricted, images=collection.images.subset(proposed.queries))


def _depth(text: str) -> int | float:
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise typer.BadParameter(f"--depth {text}: expected a number such as 1000, or a share such as 0.2") from None


def _scorer(spec: str, *, trust: bool) -> Any:
    """A scorer by name."""
    from limner.match import scorer

    folder = Path(spec)
    if not folder.is_dir():
        return scorer(spec)
    if "limner" not in _config(folder):
        return scorer("cross-encoder", model=str(folder))
    from limner.systems import load as saved_model

    model = saved_model(folder, trust=trust)
    if not hasattr(model, "score_pairs"):
        raise LimnerError(f"{spec} is a {type(model).__name__}, which cannot score pairs: expected score_pairs")
    return model


def _config(folder: Path) -> dict[str, object]:
    try:
        config: dict[str, object] = read_json(folder / "config.json", what="config")
    except LimnerError as error:
        raise LimnerError(f"{folder} is not a saved scorer: expected a config.json in it ({error})") from error
    return config


def _queries(judge: object, collection: Collection, features: Path | None) -> list[object]:
    """The scorer's queries for the images: from the scorer itself, or the words of the file names."""
    if hasattr(judge, "queries"):
        return list(judge.queries(collection, features=features))
    if features is not None:
        raise LimnerError("-O features is for a scorer that uses images; this one reads only names")
    from limner.datasets.wikipedia import image_names

    return list(image_names(collection.images))
