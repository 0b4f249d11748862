"""limner match: re-rank, fuse or assign what systems returned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

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
from limner.core.options import OptionValues
from limner.core.paths import read_json, read_text
from limner.core.progress import counting, progress_for
from limner.core.tensors import read_array

if TYPE_CHECKING:
    from limner.core.collection import Collection
    from limner.core.ranking import Ranking
    from limner.match.assignment import Method


Out = Annotated[Path, out_word("Write the run: .run (TREC), or .json (lists).")]


def fuse(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Two or more runs of the same queries.")],
    out: Out,
    method: Annotated[
        str, word("A name of 'limner list fusions', 'reciprocal_rank(k=20)', or module:function.", metavar="HOW")
    ] = "borda",
    depth: Annotated[int | None, word("Number of ranks to keep.", metavar="N", min=1, show_default="all")] = None,
    as_json: Json = False,
) -> None:
    """Fuse the runs of several systems into one.

    Examples:
      $ limner match fuse a.run b.run c.run -o fused.run
      $ limner match fuse a.run b.run --method reciprocal_rank --depth 100 -o fused.run
    """
    from limner.datasets.runs import read_run
    from limner.match import fuse as fused_by
    from limner.match.fusion import FUSIONS

    if len(runs) < 2:
        raise typer.BadParameter(f"got {len(runs)} run: give two or more to fuse")
    with progress(f"reading {len(runs)} runs", "runs") as step:
        systems = [read_run(run) for run in counting(runs, step)]
    with progress(f"fusing with {method}", "queries") as step:
        progress_option: OptionValues = progress_for(FUSIONS.find(FUSIONS.parsed(method)[0]), step)
        fused = fused_by(systems, method, depth=depth, **progress_option)
    _written(fused, out, {"method": method, "systems": [str(r) for r in runs]}, as_json)


def assign(
    scores: Annotated[Path, typer.Argument(metavar="SCORES", help="A similarity matrix, queries by candidates: npy.")],
    out: Out,
    rounds: Annotated[
        int, word("Number of ranks to fill, with one assignment each.", "--depth", metavar="N", min=1)
    ] = 5,
    method: Annotated[str, word("auto, sparse or dense.", metavar="HOW")] = "auto",
    ids: Annotated[
        list[Path] | None, word("Ids of the rows, then of the columns, one per line. Repeatable.", metavar="FILE")
    ] = None,
    as_json: Json = False,
) -> None:
    """Match queries and candidates one to one, in rounds, so that the total score is maximal.

    Examples:
      $ limner match assign similarity.npy --depth 5 -o bijective.run
    """
    from limner.match import bijective
    from limner.scores import Scores

    rows, columns = _shape(scores)
    if len(ids or ()) > 2:
        raise typer.BadParameter(f"got {len(ids or ())} files of --ids: expected those of rows and of columns")
    query_ids, candidate_ids = (*(ids or ()), None, None)[:2]
    matrix = Scores.load(scores, _ids(query_ids, rows), _ids(candidate_ids, columns))
    with progress(f"assigning {rows:,} queries and {columns:,} candidates") as step:
        ranked = bijective(matrix, rounds=rounds, method=cast("Method", method), progress=step)
    facts = {"rounds": rounds, "totals": list(ranked.totals), "exact": ranked.exact}
    _written(ranked, out, facts, as_json)


def _shape(file: Path) -> tuple[int, int]:
    shape = read_array(file, what="similarity matrix").shape
    if len(shape) != 2:
        raise LimnerError(f"{file} has shape {shape}: expected a matrix, queries by candidates")
    return int(shape[0]), int(shape[1])


def _ids(file: Path | None, count: int) -> list[str]:
    if file is None:
        return [str(n) for n in range(count)]
    return read_text(file, what="file of ids").splitlines()


def _written(ranking: Ranking, out: Path, facts: dict[str, object], as_json: bool) -> None:
    ranking.save(out)
    saved([out])
    summary = {"queries": len(ranking), "depth": ranking.depth, "out": str(out), **facts}
    answer("\n".join(f"{name}: {value}" for name, value in summary.items()), summary, as_json=as_json)


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
    judge = opened_scorer(scorer, trust=trust)
    chosen = evaluated if list(proposed.queries) == list(evaluated.images.ids) else _images(evaluated, proposed)
    queries = scorer_queries(judge, chosen, features)
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
    saved(_runs_written(reranked, evaluated, output))
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


def _runs_written(ranking: Ranking, collection: Collection, files: list[Path]) -> list[Path]:
    from limner.datasets.wikipedia import write_submission

    return [
        write_submission(ranking, collection.texts, file) if file.suffix.lower() == ".csv" else ranking.save(file)
        for file in files
    ]


def _images(collection: Collection, proposed: Ranking) -> Collection:
    from dataclasses import replace

    restricted = collection.restrict(proposed.queries)
    return replace(restricted, images=collection.images.subset(proposed.queries))


def _depth(text: str) -> int | float:
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        raise typer.BadParameter(f"--depth {text}: expected a number such as 1000, or a share such as 0.2") from None


def opened_scorer(spec: str, *, trust: bool) -> Any:
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


def scorer_queries(judge: object, collection: Collection, features: Path | None) -> list[object]:
    """The scorer's queries for the images: from the scorer itself, or the words of the file names."""
    if hasattr(judge, "queries"):
        return list(judge.queries(collection, features=features))
    if features is not None:
        raise LimnerError("-O features is for a scorer that uses images; this one reads only names")
    from limner.datasets.wikipedia import image_names

    return list(image_names(collection.images))


app = typer.Typer(no_args_is_help=True, help="Re-rank, fuse or assign what systems returned.")
app.command("rerank")(rerank)
app.command("fuse")(fuse)
app.command("assign")(assign)
