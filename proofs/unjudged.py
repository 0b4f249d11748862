"""What answers that nobody judged can add to Tri5Sem's R-precision on Flickr8k: the upper bound and the expected value.

Hodosh, Young & Hockenmaier (2013), section 4.3.2. People judged what the paper's thirty systems returned; of our
Tri5Sem's first ten answers some pass the crowd's filter and were never judged (`pooling.py`). Here these are taken to
be right as often as judged pairs of the same band of BLEU-pre, and as often as judged answers of Tri5Sem itself in the
same band and group of ranks; originals are left out of both, because none of the never judged answers is one. The
expected R-precision is the mean over 200 draws. The last claim is the share of them that would have to be right for the
published value.

Kernels, KCCA and options are those of `ranking_paper.py`; with `--keep FOLDER` what that script has kept with the same
options is not computed again.

    python proofs/unjudged.py --data DIR --rank 1000 --histograms FILE --keep FOLDER
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))

from pooling import BANDS, RANKS, Floats, Pool, Rates, first_answers
from ranking_bench import TASKS, configure, opened
from ranking_paper import PUBLISHED, settings

from claims import Claim, log, main, result_file
from limner.systems.classic.paper_systems import system

NAME = "Tri5Sem"


def rates_table(pool: Pool, own: dict[str, Rates]) -> str:
    """A row per group of judged pairs: the share that is right, and of how many, by band of BLEU-pre."""
    ends = (*BANDS[1:], None)
    heads = [f"{low:g} to {high:g}" if high else f"from {low:g}" for low, high in zip(BANDS, ends, strict=True)]
    lines = [f"| judged pairs that are right, by BLEU-pre | {' | '.join(heads)} |", "|---" + "|---:" * len(BANDS) + "|"]
    rows = {"all that people judged": pool.rates()}
    until = (*(str(begin - 1) for begin in RANKS[1:]), "10")
    for task, rates in own.items():
        for at, (first, last) in enumerate(zip(RANKS, until, strict=True)):
            name = f"answers of {NAME}, {TASKS[task]}, ranks {first} to {last}"
            rows[name] = Rates(rates.judged[at], rates.right[at])
    for name, each in rows.items():
        cells = [f"{100 * right / judged:.1f}% of {judged:,}" if judged else "none"
                 for judged, right in zip(each.judged, each.right, strict=True)]  # fmt: skip
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def needed(pool: Pool, scores: Floats, never: Floats, printed: float) -> float:
    """The share of the never judged answers that would have to be right, in percent; 100 where not even all suffice."""
    steps = np.linspace(0, 1, 21)
    found = np.maximum.accumulate([pool.expected(scores, never * step, draws=40) for step in steps])
    return 100.0 if found[-1] < printed else 100 * float(np.interp(printed, found, steps))


def expectations(pool: Pool, scores: Floats, task: str) -> Iterator[Claim]:
    """R-precision of one task by what is assumed of the answers that were never judged."""
    title, printed, bias = TASKS[task], PUBLISHED[NAME, task, "RP"], pool.bias(scores)
    ways = {"of the same BLEU-pre": pool.rates(), "of the same system, BLEU-pre and rank": pool.rates_of(scores)}
    count, shares = 0, []
    for what, rates in ways.items():
        chances = pool.chances(scores, rates)
        never = ~pool.judged & pool.passes & first_answers(scores)
        count, share = int(never.sum()), 100 * float(chances[never].mean())
        shares.append(share)
        note = f"{bias.precision:.2f} if all are wrong, {bias.if_right:.2f} if all are right; {share:.1f}% of {count} "
        note += "are taken to be right; the first ten of 1,000 queries"
        claim = f"{NAME} R-precision, {title}, if never judged answers are right as often as judged ones {what}"
        yield Claim(claim, pool.expected(scores, chances), printed, ">= 1", note, source="print")
    if bias.precision < printed:
        share = needed(pool, scores, never.astype(float), printed)
        note = f"expected are {shares[0]:.1f}% by BLEU-pre and {shares[1]:.1f}% by system, BLEU-pre and rank"
        note += "; so never judged answers do not explain the difference" if share > max(shares) else ""
        claim = f"never judged answers of {NAME} that would have to be right for the published R-precision, {title}"
        yield Claim(f"{claim}, percent", share, max(shares), "<= 1", note, source="limner")


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Ranks with Tri5Sem, writes the table of shares, and compares."""
    bench = opened(options)
    scores, _ = bench.scores(system(NAME), "words")
    tables = {"i2t": (bench.pool, scores), "t2i": (bench.pool.T, scores.T)}
    held = {task: (pool, np.asarray(each.block(0, len(each.queries)))) for task, (pool, each) in tables.items()}
    text = rates_table(bench.pool, {task: pool.rates_of(each) for task, (pool, each) in held.items()})
    text = f"{text}\n\nOriginals are left out. {settings(options)}\n"
    log(text)
    if options.save and not options.quick:
        result_file(Path(__file__), options, ".md").write_text(text, encoding="utf-8")
    for task, (pool, each) in held.items():
        yield from expectations(pool, each, task)


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
