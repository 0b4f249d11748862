"""Runs of a judge in the terminal: its options, the forecast of time and cost, the question before it goes on."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from limner.cli.console import progress, tell
from limner.cli.options import number, switch, text_option, whole_numbers
from limner.core.options import OptionValues

if TYPE_CHECKING:
    from limner.annotate.endpoint import EndpointJudge
    from limner.annotate.store import Store
    from limner.annotate.store.contents import Key
    from limner.core.collection import Collection

SAMPLE = 4
"""A run over more than this many times the first sample is forecast from the sample."""


def endpoint_judge(
    options: OptionValues, collection: Collection, store: Store, *, in_reverse_of: EndpointJudge | None = None
) -> EndpointJudge:
    """The judge behind an endpoint, from the options of the command line.

    Args:
        options: The options.
        collection: Source of the images and captions.
        store: The store, whose scale a graded prompt uses.
        in_reverse_of: The judge that this one repeats in reverse order, at the same budget.
    """
    from limner.annotate.endpoint import KEY, EndpointJudge
    from limner.annotate.endpoint_requests import ReplyCache
    from limner.annotate.guideline import scale_of
    from limner.annotate.judge_prompts import Prompt

    is_reversed = in_reverse_of is not None
    prompt = Prompt.named(text_option(options, "prompt") or "probability", scale_of(store), is_reversed=is_reversed)
    if in_reverse_of is not None:
        return replace(in_reverse_of, prompt=prompt, is_reversed=True)
    if not options.get("url") or not options.get("model"):
        raise typer.BadParameter("--judge endpoint needs -O url=URL and -O model=NAME")
    whole_numbers(options, concurrency=1, together=1)
    amounts = {name: number(options, name, 1.0) for name in ("per_minute", "price", "output_price", "budget")}
    return EndpointJudge(
        str(options["url"]),
        str(options["model"]),
        collection,
        key_from=text_option(options, "key_from") or KEY,
        prompt=prompt,
        logprobs=switch(options, "logprobs"),
        concurrency=number(options, "concurrency", 8),
        pairs_per_request=number(options, "together", 1),
        label=text_option(options, "name") or "",
        cache=ReplyCache(),
        **{name: amount for name, amount in amounts.items() if name in options},
    )


def judge_pairs(store: Store, judge: Any, pairs: Sequence[Key]) -> OptionValues:
    """Asks a judge for pairs; a long run of an endpoint is forecast from its first answers.

    In a terminal, a judge that costs money goes on only if the user agrees, or if there is a budget.
    """
    from limner.annotate.judge_runs import forecast, joined_runs
    from limner.annotate.store.designs import machine_answers

    answered = machine_answers(store, judge.name)
    unanswered = [pair for pair in pairs if pair not in answered]
    sample_size = getattr(judge, "concurrency", 0) * getattr(judge, "pairs_per_request", 1)
    if not sample_size or len(unanswered) <= SAMPLE * sample_size:
        return _run(store, judge, pairs)
    unanswered_sample = set(unanswered[:sample_size])
    sample = _run(store, judge, [pair for pair in pairs if pair in answered or pair in unanswered_sample])
    expected = forecast(judge, sample, len(unanswered) - sample_size)
    tell(expected)
    if _costs_unasked(judge) and not typer.confirm("Go on?", err=True):
        return sample
    return joined_runs(sample, _run(store, judge, pairs))


def _run(store: Store, judge: Any, pairs: Sequence[Key]) -> OptionValues:
    from limner.annotate.judge_runs import ask_all

    with progress(f"asking {judge.name} for {len(pairs):,} pairs", "pairs") as stage:
        return ask_all(store, judge, pairs, progress=stage)


def _costs_unasked(judge: Any) -> bool:
    """Whether the judge costs money, and there is a terminal to ask on and no budget."""
    in_terminal = sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty()
    return bool(in_terminal and judge.price is not None and judge.budget is None)


def summary(name: str, data: OptionValues) -> str:
    """The result of a run in words."""
    from limner.annotate.judge_runs import spending_words

    counted = f"{data['before']:,} existing, {data['failed']:,} pairs without an answer"
    lines = [f"{data['new']:,} new answers of {name}, {counted}"]
    if "requests" in data:
        rate = "" if data["per_minute"] is None else f" ({data['per_minute']:.0f} a minute)"
        spent = ", ".join(spending_words(data))
        lines.append(f"{data['requests']:,} requests in {data['seconds']:.0f} s{rate}, {spent}")
    if data.get("without_probabilities"):
        lines.append(
            f"{data['without_probabilities']:,} answers came without probabilities of tokens: their words count"
        )
    if data["failed"]:
        lines.append(f"the last failure: {data['why']}; run the same command to retry")
    return "\n".join(lines)
