"""What a benchmark or a proof says it has shown: one JSON line for each claim.

A script of `benchmarks/` or `proofs/` yields claims and hands itself to `main`:

    def run(options):
        found = interleaved({"limner": Task(ours, n), "ranx": Task(theirs, n)}, rounds=3 if options.quick else 7)
        yield Claim("MAP of 25k x 1k vs ranx, seconds", found["limner"].wall, found["ranx"].wall, goal="<= 1")

    if __name__ == "__main__":
        main(run, __doc__)

`main` gives it `--quick`, `--data DIR` and `--save`, and prints the claims at the end. `--save` needs committed code
and keeps the claims with date, machine and commit in `results/` beside the script, from which `pages.py` makes the
pages of `evidence/`. Every kind of machine has a file of its own, `NAME.KIND.json` (see `hardware.py`), and so
has work of another size or a part of it: with `--part PART`, or where a script calls `set_part`, it is
`NAME.PART.KIND.json`. With `--add` the claims join those of an earlier run of the same commit, so that the parts of a
script can run one by one.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import operator
import os
import re
import resource
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import hardware

ROOT = Path(__file__).resolve().parents[1]
COMPARISONS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "==": operator.eq}
SOURCES = {
    "print": "a figure in print",
    "peer": "measured here with another program",
    "limner": "measured here with another setting of limner",
    "theory": "known beforehand, such as a nominal level or a count",
}
"""What a reference can be."""
PART = re.compile(r"[\w-]+", re.ASCII)
"""A name for a part of a script's work."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS")


@dataclass(frozen=True)
class Claim:
    """A number of ours beside a reference, and what we set out to reach.

    The goal is on the ratio ours / reference (`"<= 1.15"`, `">= 15"`), on the difference (`"within 0.005"`), or,
    without a reference, on our number itself (`"< 700"`). A published value is a reference too.

    >>> Claim("top-10 vs product", 12.9, 12.1, goal="<= 1.15").line()
    '{"claim": "top-10 vs product", "ours": 12.9, "reference": 12.1, "ratio": 1.066, "goal": "<= 1.15", "met": true}'
    >>> Claim("alpha of the expert scores", 0.812, 0.81, goal="within 0.005").met
    True
    >>> Claim("peak memory, MB", 812.0, goal="< 700").met
    False

    Attributes:
        claim: What was measured, with its unit.
        ours: limner's number.
        reference: The other one, if there is one.
        goal: A comparison and a number.
        note: Why a miss is a miss, or what a reader has to know; shown on the page.
        source: What the reference is, a key of `SOURCES`; proofs always say it.
    """

    claim: str
    ours: float
    reference: float | None = None
    goal: str = ""
    note: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        """Refuses a goal that cannot be read, and a source that there is not, before hours of measuring."""
        self._parsed_goal()
        if self.source and (self.source not in SOURCES or self.reference is None):
            raise ValueError(
                f"source {self.source!r} of claim {self.claim!r}: expected one of {', '.join(SOURCES)}, and a reference"
            )

    def _parsed_goal(self) -> tuple[str, float]:
        match = re.fullmatch(r"(<=|>=|<|>|==|within)\s*(\d+(?:\.\d+)?(?:e-?\d+)?)", self.goal.strip())
        if match is None:
            raise ValueError(f"goal {self.goal!r}: expected one of <= >= < > == within, then a number, as in '<= 1.15'")
        if match[1] == "within" and self.reference is None:
            raise ValueError(
                f"goal {self.goal!r} needs a reference to be within reach of; claim {self.claim!r} has none"
            )
        return match[1], float(match[2])

    @property
    def ratio(self) -> float | None:
        """Ours divided by the reference; None without a reference or with a zero one."""
        return self.ours / self.reference if self.reference else None

    @property
    def met(self) -> bool:
        """Whether the goal is reached; not a number never reaches one."""
        word, bound = self._parsed_goal()
        if word == "within" and self.reference is not None:
            # The last bits of a decimal fraction must not decide: 0.815 is within 0.005 of 0.81.
            return bool(abs(self.ours - self.reference) <= bound * (1 + 1e-9) + 1e-12)
        if self.reference is None:
            return bool(COMPARISONS[word](self.ours, bound))
        return self.ratio is not None and bool(COMPARISONS[word](self.ratio, bound))

    def record(self) -> dict[str, Any]:
        """The claim as plain values, rounded to what a reader can use."""
        fields = {"claim": self.claim, "ours": _short(self.ours), "reference": _short(self.reference)}
        fields |= {"ratio": _short(self.ratio), "goal": self.goal, "met": self.met}
        fields |= {"source": self.source} if self.source else {}
        return fields | ({"note": self.note} if self.note else {})

    def line(self) -> str:
        """The claim as one line of JSON."""
        return json.dumps(self.record(), ensure_ascii=False)


def _short(number: float | None) -> float | int | None:
    """Four significant digits, and whole numbers whole."""
    if number is None:
        return None
    return int(number) if float(number).is_integer() else float(f"{number:.4g}")


@dataclass(frozen=True)
class Task:
    """Work to be measured: `prepare(*arguments)` does what does not count and returns the callable that does.

    `prepare` must be a function of a module's top level, because it runs in a fresh process. What should be warm when
    the clock starts (compiled kernels, a read file) is warmed in `prepare`.
    """

    prepare: Callable[..., Callable[[], object]]
    arguments: tuple[Any, ...]

    def __init__(self, prepare: Callable[..., Callable[[], object]], *arguments: Any) -> None:
        object.__setattr__(self, "prepare", prepare)
        object.__setattr__(self, "arguments", arguments)


@dataclass(frozen=True)
class Cost:
    """What work cost: seconds by the clock, CPU-seconds (user and system, waited-for children too), peak memory in MB.

    The peak is that of the measured process, from the start of the work, with all that `prepare` left behind in it.
    """

    wall: float
    cpu: float
    peak: float
    value: Any = None


def measured(task: Task) -> Cost:
    """Runs a task once in a fresh process, so that nothing measured before helps or hinders it."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_in_child, args=(sender, task.prepare, task.arguments))
    process.start()
    sender.close()
    try:
        answer = receiver.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"{task.prepare.__name__} ended with exit status {process.exitcode} and no result") from None
    process.join()
    if isinstance(answer, str):
        raise RuntimeError(f"{task.prepare.__name__} failed in its process:\n{answer}")
    return answer  # type: ignore[no-any-return]  # the other end of the pipe is _in_child


def _in_child(sender: Connection, prepare: Callable[..., Callable[[], object]], arguments: tuple[Any, ...]) -> None:
    try:
        work = prepare(*arguments)
        _forget_peak()
        cpu, wall = _cpu_seconds(), time.perf_counter()
        value = work()
        wall, cpu = time.perf_counter() - wall, _cpu_seconds() - cpu
        sender.send(Cost(wall, cpu, _peak_megabytes(), value))
    except BaseException:
        sender.send(traceback.format_exc())


def _cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _forget_peak() -> None:
    """Sets the high-water mark to the memory in use now, where the system can (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_megabytes() -> float:
    """The high-water mark. Not `ru_maxrss` on Linux: it begins with the peak of the process that started this one."""
    status = Path("/proc/self/status")
    if status.exists() and (mark := re.search(r"VmHWM:\s+(\d+) kB", status.read_text())):
        return int(mark[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024**2 if sys.platform == "darwin" else 1024)


def interleaved(
    tasks: Mapping[str, Task], *, rounds: int = 5, threads: int | None = None, cores: int | None = None
) -> dict[str, Cost]:
    """Measures tasks in turn, round by round, and gives each one's medians (and the value of its last run).

    Args:
        tasks: The work by name. Taking turns lets a slow spell of the machine hit all of them.
        rounds: How often each one is measured.
        threads: The number of threads of their libraries; as many as cores when None, or as the libraries choose.
        cores: The number of physical cores that they run on; all when None.
    """
    costs: dict[str, list[Cost]] = {name: [] for name in tasks}
    with _threads(cores if threads is None else threads), _cores(cores):
        for number in range(rounds):
            for name, task in tasks.items():
                cost = measured(task)
                costs[name].append(cost)
                log(f"round {number + 1}/{rounds} {name}: {cost.wall:.3f} s, {cost.cpu:.3f} CPU s, {cost.peak:.0f} MB")
    return {name: _median(each) for name, each in costs.items()}


def _median(costs: list[Cost]) -> Cost:
    wall, cpu, peak = (statistics.median(getattr(cost, field) for cost in costs) for field in ("wall", "cpu", "peak"))
    return Cost(wall, cpu, peak, costs[-1].value)


@contextmanager
def _threads(number: int | None) -> Iterator[None]:
    """Fixes the number of threads in the environment that fresh processes inherit."""
    before = dict(os.environ)
    if number is not None:
        os.environ.update(dict.fromkeys(THREADS, str(number)))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _cores(number: int | None) -> Iterator[None]:
    """Limits this process, and so the processes that it starts, to some cores, where the system can (Linux)."""
    if number is None or not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, hardware.separate_cores(number))
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def log(message: str) -> None:
    """Progress for the person waiting; standard output belongs to the claims."""
    print(message, file=sys.stderr, flush=True)


def main(
    run: Callable[[argparse.Namespace], Iterable[Claim]],
    about: str | None,
    *,
    configure: Callable[[argparse.ArgumentParser], object] = lambda parser: None,
) -> None:
    """Runs a script: reads its options, prints its claims as the last lines, saves them when asked.

    Args:
        run: Takes the options, yields claims. `options.data` is a `Path` or None.
        about: The script's docstring; its first paragraph introduces the claims on the page.
        configure: Adds options of the script's own to the parser.
    """
    options = _options(about or "", configure)
    if options.save:
        _refuse_unclean(hardware.commit(ROOT))
    claims = list(run(options))
    for claim in claims:
        print(claim.line(), flush=True)
    log(f"{sum(claim.met for claim in claims)} of {len(claims)} claims met")
    if options.save:
        _save(Path(sys.argv[0]).resolve(), about or "", claims, options)


def _refuse_unclean(commit: str) -> None:
    """Results that nobody could make again are not saved: refuses before the work, not after it."""
    if commit == "unknown":
        raise SystemExit("--save: the code lies here without its history; name its commit in LIMNER_COMMIT")
    if commit.endswith("+"):
        raise SystemExit(
            f"--save: src/, benchmarks/ or proofs/ differ from commit {commit[:-1]}; commit the changes first"
        )


def _options(about: str, configure: Callable[[argparse.ArgumentParser], object]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("LIMNER_DATA")
    parser.add_argument("--quick", action="store_true", help="a minute's version: smaller work, fewer rounds")
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(data) if data else None,
        help="the folder of real data sets (default: $LIMNER_DATA)",
    )
    parser.add_argument("--save", action="store_true", help="keep the claims in results/ and renew evidence/")
    parser.add_argument(
        "--add", action="store_true", help="with --save: keep what an earlier run of this commit has saved beside it"
    )
    parser.add_argument("--part", help="with --save: a name for this run, kept in a file of its own beside the others")
    configure(parser)
    options = parser.parse_args()
    if options.data is not None and not options.data.is_dir():
        parser.error(f"--data {options.data}: no such folder")
    if options.part is not None and not PART.fullmatch(options.part):
        parser.error(
            f"--part {options.part!r}: expected letters, digits, '-' and '_', since it is part of a file's name"
        )
    return options


def set_part(options: argparse.Namespace, part: str | None) -> None:
    """Names the part of its work that a script runs; a name given with `--part` stands behind it."""
    options.part = "-".join(filter(None, (part, options.part))) or None


def _save(script: Path, about: str, claims: list[Claim], options: argparse.Namespace) -> None:
    """Writes `results/NAME.KIND.json` beside the script, and the pages that show it."""
    import pages

    saved_run = {
        "script": script.relative_to(ROOT).as_posix(),
        "about": about.strip().split("\n\n")[0].replace("\n", " "),
        "quick": options.quick,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "commit": hardware.commit(ROOT),
        "machine": _machine(options),
        "claims": [claim.record() for claim in claims],
    }
    target = result_file(script, options, ".json")
    if options.add and target.exists():
        saved_run["claims"] = _joined(json.loads(target.read_text(encoding="utf-8")), saved_run)
    target.write_text(json.dumps(saved_run, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    pages.write()
    log(f"saved {target.relative_to(ROOT)}")


def _joined(before: dict[str, Any], new_run: dict[str, Any]) -> list[dict[str, Any]]:
    """The claims of two runs of one commit; those of the later run count where both have one."""
    renewed = {claim["claim"] for claim in new_run["claims"]}
    same_run = all(before[field] == new_run[field] for field in ("commit", "machine", "quick"))
    return [claim for claim in before["claims"] if same_run and claim["claim"] not in renewed] + list(new_run["claims"])


def result_file(script: Path, options: argparse.Namespace, ending: str) -> Path:
    """Where the results of a script, or of a part, on this kind of machine are kept; makes the folder if need be."""
    folder = script.resolve().parent / "results"
    folder.mkdir(exist_ok=True)
    part = getattr(options, "part", None)
    return folder / f"{script.stem}.{f'{part}.' if part else ''}{hardware.kind(_machine(options))}{ending}"


def _machine(options: argparse.Namespace) -> dict[str, Any]:
    device = str(getattr(options, "device", ""))
    return hardware.machine(card=device if device.startswith("cuda") else None)
