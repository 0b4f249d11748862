"""Reads a great many spoilt files: nothing but a LimnerError may come out, in bounded memory and time.

    python tests/security/fuzzing.py --inputs 1000000 --workers 2

Each reader of `readers.py` gets its share. Other processes do the reading, with a limit on memory (their size when they
begin plus `--megabytes`) and on the processor time of one input (`--seconds`); one that crashes or hangs is replaced,
and the input is reported. An input is a number: `--reader NAME --number N` reads it again, here, with a traceback.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
PIECE = 5000
SILENCE = 300.0
"""Inputs of one job; seconds after which a worker that says nothing is taken for hung."""


class TooSlow(BaseException):
    """One input took longer than it may."""


def _alarm(*_: Any) -> None:
    raise TooSlow


# --- the child --------------------------------------------------------------------------------------------------


def work(*, seconds: float, megabytes: int) -> None:
    """Takes jobs from stdin, reads the inputs of their numbers, and says on stdout what came of them."""
    warnings.simplefilter("ignore")
    os.environ["NO_COLOR"] = "1"
    signal.signal(signal.SIGPROF, _alarm)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as scratch:
        for line in sys.stdin:
            name, start, stop = json.loads(line)
            came = _batch(name, range(start, stop), Path(scratch), seconds, megabytes)
            came["peak MB"] = _peak_megabytes()
            say(done=stop, came=came)


def _peak_megabytes() -> int:
    """The high-water mark of this process; `ru_maxrss` begins with that of the process that started it."""
    memory = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(memory["VmHWM"].split()[0]) // 1024


def say(**told: Any) -> None:
    """A line for the parent."""
    print(json.dumps(told), flush=True)


def _batch(name: str, numbers: range, folder: Path, seconds: float, megabytes: int) -> Counter[str]:
    import learned_readers as readers

    _limit_memory(None)
    for number in (-1, -2, -3):  # what is loaded or compiled once does not count
        with suppress(Exception):
            readers.read_one(name, number, folder)
    _limit_memory(megabytes)
    came: Counter[str] = Counter()
    last_line = time.monotonic()
    for number in numbers:
        began = time.monotonic()
        came[_one(name, number, folder, seconds)] += 1
        took = time.monotonic() - began
        came["slowest ms"] = max(came["slowest ms"], int(1000 * took))
        if time.monotonic() - last_line > 1:
            last_line = time.monotonic()
            say(at=number + 1, came=came)
            came = Counter()
    return came


def _one(name: str, number: int, folder: Path, seconds: float) -> str:
    """What becomes of one input: "read", "refused" or "found"."""
    import learned_readers as readers

    from limner.core.errors import LimnerError

    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        readers.read_one(name, number, folder)
        return "read"
    except LimnerError:
        return "refused"
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        signal.setitimer(signal.ITIMER_PROF, 0)
        say(
            found={
                "number": number,
                "error": f"{type(error).__name__}: {str(error)[:300]}",
                "where": _last_place(error),
            }
        )
        return "found"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _last_place(error: BaseException) -> str:
    """The last place in limner that the error passed."""
    ours = [f for f in traceback.extract_tb(error.__traceback__) if "/limner/" in f.filename]
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno} {ours[-1].line}" if ours else "outside limner"


def _limit_memory(megabytes: int | None) -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    limit = resource.RLIM_INFINITY if megabytes is None else size + megabytes * 1_000_000
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


# --- the parent -------------------------------------------------------------------------------------------------


@dataclass
class Job:
    """Inputs of one reader that are still to be read."""

    name: str
    at: int
    stop: int


@dataclass
class Worker:
    """A process that reads, and what it is busy with."""

    child: Any
    job: Job | None = None
    heard: float = 0.0
    rest: bytes = b""

    @classmethod
    def started(cls, seconds: float, megabytes: int) -> Worker:
        """A new process."""
        command = [sys.executable, __file__, "--child", str(seconds), str(megabytes)]
        return cls(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))

    def give(self, job: Job) -> None:
        """Has it read the rest of a job."""
        self.job, self.heard = job, time.monotonic()
        self.child.stdin.write(json.dumps([job.name, job.at, job.stop]).encode() + b"\n")
        self.child.stdin.flush()


@dataclass
class Run:
    """What came of all inputs."""

    seconds: float
    megabytes: int
    came: dict[str, Counter[str]] = field(default_factory=dict)
    found: list[dict[str, Any]] = field(default_factory=list)

    def take(self, job: Job, line: bytes) -> bool:
        """Takes in what a worker said; whether the job is done."""
        report = json.loads(line)
        if "at" in report:
            job.at = max(job.at, report["at"])
        if "found" in report:
            self.note(job, **report["found"])
        if "came" in report:
            counts = self.came.setdefault(job.name, Counter())
            for name, count in report["came"].items():
                counts[name] = max(counts[name], count) if name in ("slowest ms", "peak MB") else counts[name] + count
        return "done" in report

    def note(self, job: Job, **found: Any) -> None:
        """Keeps and shows what should not have come."""
        self.found.append({"reader": job.name, **found})
        print(json.dumps(self.found[-1]), flush=True)

    def lost(self, job: Job, why: str) -> None:
        """Notes that a process ended or hung, and goes on behind the input that did it, found one by one."""
        for number in range(job.at, job.stop):
            worker = Worker.started(self.seconds, self.megabytes)
            request = json.dumps([job.name, number, number + 1]).encode() + b"\n"
            try:
                for line in worker.child.communicate(request, timeout=20 * self.seconds)[0].splitlines():
                    self.take(Job(job.name, number, number + 1), line)
            except subprocess.TimeoutExpired:
                worker.child.kill()
            if worker.child.wait():
                self.came.setdefault(job.name, Counter())["found"] += 1
                self.note(job, number=number, error=why, where="the process")
                job.at = number + 1
                return
        self.note(job, number=None, error=why, where=f"the process, between {job.at} and {job.stop}")
        job.at = job.stop


def jobs(names: list[str], inputs: int, first: int) -> list[Job]:
    """Every reader's share, in pieces; the last one first."""
    import learned_readers as readers

    total_share = sum(readers.EVERY[name].share for name in names)
    shares = {name: max(1, round(inputs * readers.EVERY[name].share / total_share)) for name in names}
    cuts = [(start, name) for name, share in shares.items() for start in range(0, share, PIECE)]
    pieces = [Job(name, first + start, first + min(start + PIECE, shares[name])) for start, name in sorted(cuts)]
    return pieces[::-1]


def run(names: list[str], inputs: int, *, workers: int, seconds: float, megabytes: int, first: int = 0) -> Run:
    """Reads so many inputs over all readers, on several processes."""
    done, waiting, chosen = Run(seconds, megabytes), jobs(names, inputs, first), selectors.DefaultSelector()

    def next_job(worker: Worker | None) -> None:
        if waiting:
            worker = worker or Worker.started(seconds, megabytes)
            chosen.register(worker.child.stdout, selectors.EVENT_READ, worker)
            worker.give(waiting.pop())
        elif worker is not None:
            worker.child.stdin.close()
            worker.child.wait()

    for _ in range(workers):
        next_job(None)
    while chosen.get_map():
        for key, _ in chosen.select(timeout=5):
            _hear(key.data, done, waiting, chosen, next_job)
        for key in list(chosen.get_map().values()):
            if time.monotonic() - key.data.heard > SILENCE:
                key.data.child.kill()
    return done


def _hear(worker: Worker, done: Run, waiting: list[Job], chosen: Any, next_job: Any) -> None:
    """Takes in what a worker says; gives it another job, or replaces it where it is dead."""
    data = os.read(worker.child.stdout.fileno(), 65536)
    *lines, worker.rest = (worker.rest + data).split(b"\n")
    worker.heard = time.monotonic()
    job = worker.job
    if job is None:
        return
    ended = sum(done.take(job, line) for line in lines) > 0
    if ended or not data:
        chosen.unregister(worker.child.stdout)
    if ended:
        next_job(worker)
    elif not data:
        done.lost(job, f"the process ended with {worker.child.wait()}")
        if job.at < job.stop:
            waiting.append(job)
        next_job(None)


def read_again(name: str, number: int) -> None:
    """Reads one input here, and shows what it is and what comes of it."""
    import learned_readers as readers

    from limner.core.errors import LimnerError

    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        readers.EVERY[name].written(folder, number)
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                print(f"--- {file.relative_to(folder)}: {file.read_bytes()[:600]!r}")
        try:
            print(readers.EVERY[name].read(folder))
        except LimnerError as error:
            print(f"LimnerError: {error}")


def main() -> int:
    """Runs, and says how it went."""
    if sys.argv[1:2] == ["--child"]:
        work(seconds=float(sys.argv[2]), megabytes=int(sys.argv[3]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=10.0, help="of processor time that one input may take")
    parser.add_argument("--megabytes", type=int, default=1000, help="that a reader may take beside what it starts with")
    parser.add_argument("--first", type=int, default=0, help="the first number")
    parser.add_argument("--reader", action="append", help="only this one; repeatable")
    parser.add_argument("--number", type=int, help="read this input again, with --reader")
    chosen = parser.parse_args()
    import learned_readers as readers

    names = chosen.reader or list(readers.EVERY)
    if chosen.number is not None:
        read_again(names[0], chosen.number)
        return 0
    began = time.monotonic()
    limits = {
        "workers": chosen.workers,
        "seconds": chosen.seconds,
        "megabytes": chosen.megabytes,
        "first": chosen.first,
    }
    done = run(names, chosen.inputs, **limits)
    for name, came in done.came.items():
        print(f"{name:18} {json.dumps(came)}")
    total = sum(c["read"] + c["refused"] + c["found"] for c in done.came.values())
    print(f"{total:,} inputs, {len(done.came)} readers, {len(done.found)} found, {time.monotonic() - began:.0f} s")
    return 1 if done.found else 0


if __name__ == "__main__":
    sys.exit(main())
