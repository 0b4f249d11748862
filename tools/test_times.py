"""CPU seconds and wall seconds of each test: its own process and the child processes it waited for.

    PYTHONPATH=src:tools pytest -p test_times tests          # prints the slowest at the end
    PYTHONPATH=src:tools pytest -p test_times --times FILE   # and writes every one to FILE as JSON lines

Wall time depends on what else the machine does; CPU time (user and system) much less. On an idle machine, the
difference is time that a test waits. A fixture of a session or module counts towards the first test that uses it.
"""

from __future__ import annotations

import json
import resource
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

SHOWN = 30


def spent() -> float:
    """CPU seconds of this process and of its children that have ended."""
    usage = (resource.getrusage(process) for process in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in usage)


class Times:
    """Adds up the phases of every test."""

    def __init__(self, path: Path | None):
        self.path = path
        self.seconds: dict[str, float] = defaultdict(float)
        self.wall: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Measures set-up, call and tear-down of one test together."""
        before, began = spent(), time.monotonic()
        result = yield
        self.seconds[item.nodeid] += spent() - before
        self.wall[item.nodeid] += time.monotonic() - began
        if self.path:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(self._row(item.nodeid)) + "\n")
        return result

    def _row(self, name: str) -> dict[str, object]:
        return {"test": name, "cpu_s": round(self.seconds[name], 2), "wall_s": round(self.wall[name], 2)}

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Prints the slowest tests and the sum of all."""
        terminalreporter.section("CPU seconds, wall seconds")
        for name, seconds in sorted(self.seconds.items(), key=lambda each: -each[1])[:SHOWN]:
            terminalreporter.write_line(f"{seconds:8.1f} {self.wall[name]:8.1f}  {name}")
        totals = f"{sum(self.seconds.values()):8.1f} {sum(self.wall.values()):8.1f}"
        terminalreporter.write_line(f"{totals}  all {len(self.seconds)} tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where to write the times."""
    parser.addoption("--times", type=Path, help="append the CPU seconds of every test to this file as JSON lines")


def pytest_configure(config: pytest.Config) -> None:
    """Puts the clock in place."""
    config.pluginmanager.register(Times(config.getoption("times")))
