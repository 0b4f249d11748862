"""A run of a judge over many pairs: several requests at once, each answer in the store as soon as it arrives.

A killed run can be started again: pairs with an answer are not asked again, and no answer is counted twice.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from limner.annotate.judge_prompts import NoAnswer, NoPicture
from limner.annotate.store import Store
from limner.annotate.store.contents import Key
from limner.annotate.store.designs import add_machine_answers, machine_answers
from limner.core.errors import LimnerError
from limner.core.progress import ProgressLike, as_progress

GIVE_UP = 10
"""A run stops after this many consecutive pairs without an answer."""


@dataclass(frozen=True)
class Outcome:
    """What became of one request.

    Args:
        pairs: Its pairs.
        scores: The scores of the answered ones.
        reason: Why the others have no answer.
        error: An error that ends the run.
        is_unreadable: Whether the image is at fault, and not the judge.
    """

    pairs: Sequence[Key]
    scores: Mapping[Key, float] = field(default_factory=dict)
    reason: str = ""
    error: BaseException | None = None
    is_unreadable: bool = False


def ask_all(
    store: Store, judge: Any, pairs: Sequence[Key], *, batch: int = 20, progress: ProgressLike = None
) -> dict[str, Any]:
    """Asks a judge for all unanswered pairs, and saves the answers as they arrive.

    An interrupted run can be resumed; answers given before an error or Ctrl-C are kept. A pair without an answer is
    retried the next time; many of them in a row end the run.

    Args:
        store: The store; answers are kept separate from human answers.
        judge: An object with `name`, and `ask(pair)` or `probabilities(pairs)`; with `requests(pairs)`,
            `ask_together(pairs)` and `concurrency`, several requests run at once.
        pairs: (image, caption).
        batch: Pairs of a call of `probabilities`.
        progress: Called with the number of pairs done.

    Returns:
        The numbers of existing, new and failed answers, the reason for the last failure, and the judge's cost.
    """
    display = as_progress(progress)
    _record(store, judge)
    answered = machine_answers(store, judge.name)
    unanswered = [pair for pair in dict.fromkeys(pairs) if pair not in answered]
    tally, began, done, start = _Tally(), time.monotonic(), 0, _counts(judge)
    for outcomes in _outcomes(judge, unanswered, batch):
        scores = {pair: score for each in outcomes for pair, score in each.scores.items()}
        tally.new += add_machine_answers(store, judge.name, scores) if scores else 0
        tally.count(outcomes)
        done += sum(len(each.pairs) for each in outcomes)
        display(done, len(unanswered))
        display.note(", ".join(spending(judge)))
        for each in outcomes:
            if each.error is not None:
                raise each.error
        if tally.in_a_row >= GIVE_UP:
            raise LimnerError(
                f"{judge.name}: {tally.in_a_row} pairs in a row without an answer, so it stops ({tally.why}); "
                f"{tally.new:,} new answers are kept; when the judge answers again, start once more to go on"
            )
    counts = {"before": len(answered), "new": tally.new, "failed": tally.failed, "why": tally.why}
    return counts | _cost(judge, start, time.monotonic() - began)


def _record(store: Store, judge: Any) -> None:
    """Stores the prompt and the settings of a judge that has them; answers to another prompt need another name."""
    about = getattr(judge, "about", None)
    if about is None:
        return
    recorded = store.set(f"judge {judge.name}", about, replace=False)
    changed = [name for name in about if recorded.get(name) != about[name] and name != "url"]
    if changed:
        raise LimnerError(
            f"the store has answers of {judge.name!r} with another {' and '.join(changed)}: expected one prompt for "
            "all answers of a judge; give this one a name of its own (-O name=NAME)"
        )


def recorded(store: Store, name: str) -> dict[str, Any]:
    """The endpoint, model, prompt and settings behind the stored answers of a judge; empty if it has none."""
    return dict(store.setting(f"judge {name}") or {})


@dataclass
class _Tally:
    """The result of a run so far."""

    new: int = 0
    failed: int = 0
    in_a_row: int = 0
    why: str = ""

    def count(self, outcomes: Iterable[Outcome]) -> None:
        """Counts pairs without an answer, in all and in a row."""
        for each in outcomes:
            missing = len(each.pairs) - len(each.scores) if each.error is None else 0
            self.failed += missing
            self.in_a_row = 0 if each.scores else self.in_a_row + missing * (not each.is_unreadable)
            self.why = each.reason or self.why


def spending(judge: object) -> list[str]:
    """Tokens, cost and answers from the cache in words, for a judge that counts them."""
    return spending_words(_counts(judge))


def spending_words(counts: Mapping[str, Any]) -> list[str]:
    """The same for the result of a run."""
    if "tokens" not in counts:
        return []
    words = [f"{counts['tokens']:,} tokens"] + ([f"cost {counts['cost']:.4g}"] if "cost" in counts else [])
    return words + ([f"{counts['cached']:,} from the cache"] if counts["cached"] else [])


def forecast(judge: Any, sample: Mapping[str, Any], pairs: int) -> str:
    """What further pairs will need at most, from the answers of a first sample: requests, time, tokens and cost.

    Args:
        judge: The judge, with `concurrency` and `pairs_per_request`.
        sample: The result of `ask_all` for the sample.
        pairs: The number of further pairs.
    """
    requests = -(-pairs // judge.pairs_per_request)
    if not sample["requests"]:
        return f"{pairs:,} further pairs: at most {requests:,} requests"
    share = requests / sample["requests"]
    seconds = sample["busy_seconds"] * share / judge.concurrency
    cost = f", cost {sample['cost'] * share:.3g}" if "cost" in sample else ""
    return (
        f"{pairs:,} further pairs: about {requests:,} requests, {max(seconds, 1):,.0f} s, "
        f"{sample['tokens'] * share:,.0f} tokens{cost}"
    )


def joined_runs(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """The result of two runs of a judge, one after the other."""
    added = {name: first[name] + second[name] for name in first if name not in ("before", "why", "per_minute")}
    rates = {"per_minute": _per_minute(added["requests"], added["seconds"])} if "requests" in added else {}
    return {"before": first["before"], **added, "why": second["why"] or first["why"], **rates}


def _counts(judge: object) -> dict[str, float]:
    """What a judge has counted so far; empty for one that does not count."""
    spent, cost = getattr(judge, "spent", None), getattr(judge, "cost", None)
    if spent is None:
        return {}
    names = ("requests", "tokens", "cached", "without_probabilities", "busy_seconds")
    return {name: getattr(spent, name) for name in names} | ({} if cost is None else {"cost": cost})


def _cost(judge: object, start: Mapping[str, float], seconds: float) -> dict[str, object]:
    """Requests, tokens, seconds, requests per minute and cost of a run, for a judge that counts them."""
    counts = {name: value - start[name] for name, value in _counts(judge).items()}
    return {**counts, "seconds": seconds, "per_minute": _per_minute(counts["requests"], seconds)} if counts else {}


def _per_minute(requests: float, seconds: float) -> float | None:
    return 60 * requests / seconds if seconds > 0 and requests else None


# --- requests ---------------------------------------------------------------------------------------------------


def _outcomes(judge: Any, pairs: Sequence[Key], batch: int) -> Iterator[list[Outcome]]:
    """The outcomes of all requests, as they arrive."""
    if not hasattr(judge, "ask"):
        for start in range(0, len(pairs), batch):
            group = pairs[start : start + batch]
            scores = np.clip(judge.probabilities(group), 0, 1).tolist()
            yield [Outcome(group, dict(zip(group, scores, strict=True)))]
        return
    groups = judge.requests(pairs) if hasattr(judge, "requests") else [[pair] for pair in pairs]
    concurrency = min(getattr(judge, "concurrency", 1), len(groups))
    if concurrency > 1:
        yield from _concurrent(judge, groups, concurrency)
    else:
        yield from ([_outcome(judge, group)] for group in groups)


def _outcome(judge: Any, pairs: Sequence[Key]) -> Outcome:
    try:
        scores = judge.ask_together(pairs) if hasattr(judge, "ask_together") else {pairs[0]: judge.ask(pairs[0])}
    except NoAnswer as error:
        return Outcome(pairs, reason=str(error), is_unreadable=isinstance(error, NoPicture))
    except Exception as error:
        return Outcome(pairs, error=error)
    return Outcome(pairs, scores, "" if len(scores) == len(pairs) else "no answer to some pairs of a request")


def _concurrent(judge: Any, groups: Sequence[Sequence[Key]], concurrency: int) -> Iterator[list[Outcome]]:
    """The outcomes of requests in several threads: all that have arrived, whenever there are any."""
    arrived: queue.SimpleQueue[Outcome | None] = queue.SimpleQueue()
    stop, lock, todo = threading.Event(), threading.Lock(), iter(groups)

    def work() -> None:
        while not stop.is_set():
            with lock:
                group = next(todo, None)
            if group is None:
                break
            arrived.put(_outcome(judge, group))
        arrived.put(None)

    for number in range(concurrency):
        threading.Thread(target=work, name=f"limner-judge-{number}", daemon=True).start()
    running = concurrency
    try:
        while running:
            together = [arrived.get(), *(arrived.get() for _ in range(arrived.qsize()))]
            running -= together.count(None)
            yield [outcome for outcome in together if outcome is not None]
    finally:
        stop.set()
