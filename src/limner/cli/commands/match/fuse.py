"""limner match fuse and limner match assign: fuse several systems, and assign one to one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from limner.cli.console import answer, progress
from limner.cli.options import Json, out_word, saved, word
from limner.core.errors import LimnerError
from limner.core.paths import read_text
from limner.core.progress import counting, progress_for
from limner.core.tensor_files import read_array

if TYPE_CHECKING:
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
        progress_option: dict[str, Any] = progress_for(FUSIONS.find(FUSIONS.parsed(method)[0]), step)
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
