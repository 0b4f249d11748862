"""Runs the examples of a Markdown page. The convention is written down in docs/contributing.md."""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from typer.testing import CliRunner

from limner.cli import app
from limner.core.registry import Registry

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FENCE = re.compile(r"^(?P<indent> *)(?P<mark>`{3,})(?P<language>[\w+-]*)[^`]*$")
SKIP = re.compile(r"^\s*<!--\s*skip\b:?(?P<reason>.*?)-->\s*$")
NEAR = re.compile(r"^\s*<!--\s*near\b.*-->\s*$")
FILE = re.compile(r"# (?P<name>\w+\.py)\n")
NUMBER = re.compile(r"[+-]?\d+(?:,\d{3})*(?:\.\d+)?")
# The command as installed, but from the interpreter that runs the tests.
LIMNER = 'limner() { "$PYTHON" -c "import sys; sys.argv[0] = \'limner\'; from limner.cli import app; app()" "$@"; }'

SOURCE = str(Path(__file__).resolve().parents[1] / "src")
ENVIRONMENT = {
    "PYTHON": sys.executable,
    "PYTHONPATH": SOURCE,
    "PYTHONIOENCODING": "utf-8",
    "COLUMNS": "120",
    "NO_COLOR": "1",
}


class ExampleFailed(AssertionError):
    """An example of the documentation does not do what it shows."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the line where it starts, and why it is skipped (None: it is not).

    The numbers of one that is `near` may differ a little: another processor rounds differently and turns close ties.
    """

    language: str
    text: str
    line: int
    skip: str | None
    near: bool = False


def blocks(markdown: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    fenced: list[Block] = []
    lines = iter(enumerate(markdown.splitlines(), start=1))
    before = ""
    for number, line in lines:
        if fence := FENCE.match(line):
            skip = SKIP.match(before)
            text = _until_closed(lines, fence["indent"], fence["mark"])
            reason = skip["reason"].strip() if skip else None
            fenced.append(Block(fence["language"], text, number, reason, bool(NEAR.match(before))))
        before = line if line.strip() else before
    return fenced


def _until_closed(lines, indent: str, mark: str) -> str:
    content = []
    for _, line in lines:
        if line.strip() == mark:
            break
        content.append(line.removeprefix(indent))
    return "\n".join(content) + "\n"


def run_page(page: Path, folder: Path) -> int:
    """Runs a page's examples in a folder and returns how many ran."""
    page_blocks = blocks(page.read_text(encoding="utf-8"))
    names: dict[str, object] = {"__name__": "__main__"}
    ran = 0
    with contextlib.chdir(folder), _importable(folder), _registries_kept():
        for block, after in zip(page_blocks, [*page_blocks[1:], None], strict=False):
            place = f"{page.name}:{block.line}"
            if block.skip is not None:
                _require(bool(block.skip), f"{place}: a skipped example needs its reason: <!-- skip: REASON -->")
            elif block.language == "python" and (file := FILE.match(block.text)):
                (folder / file["name"]).write_text(block.text, encoding="utf-8")
            elif block.language == "python":
                _run_python(block, after if after is not None and after.language == "text" else None, names, place)
                ran += 1
            elif block.language in ("console", "bash", "shell", "sh"):
                ran += _run_console(block, place)
    return ran


@contextlib.contextmanager
def _registries_kept() -> Iterator[None]:
    """What a page registers is gone after it: other tests of the process go through all names."""
    for package in ("annotate", "datasets", "encoders", "evaluation", "match", "systems"):
        import_module(f"limner.{package}")
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("limner.")]
    registries = {id(each): each for module in modules for each in vars(module).values() if type(each) is Registry}
    contents = [(each, dict(each._own)) for each in registries.values()]
    try:
        yield
    finally:
        for registry, entries in contents:
            registry._own.clear()
            registry._own.update(entries)


@contextlib.contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """The files that a page writes can be imported, as beside a script; they are forgotten afterwards."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for file in folder.glob("*.py"):
            sys.modules.pop(file.stem, None)


def _run_python(block: Block, output: Block | None, names: dict[str, object], place: str) -> None:
    printed = io.StringIO()
    code = compile("\n" * block.line + block.text, place, "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, names)
    if output is not None:
        _compare(output.text, printed.getvalue(), place, approximate=output.near)


def _run_console(block: Block, place: str) -> int:
    """Runs the lines that start with `$ limner`; compares what a `console` block shows below them."""
    commands = _commands(block.text)
    for command, output in commands:
        args = words(command)
        status, stdout, stderr = _in_a_shell(command) if args is None else _in_this_process(args[1:])
        _require(status == 0, f"{place}: {command}\nexit status {status}\n{stdout}{stderr}")
        if output.strip() and block.language == "console":
            _compare(output, stdout, f"{place}: {command}")
    return len(commands)


def words(command: str) -> list[str] | None:
    """The words of a command; None if it needs a shell: a pipe, a redirection, a variable, a pattern, a comment.

    >>> words("limner match fuse a.run --method 'my:minmax(k=2)'"), words("limner list datasets | head")
    (['limner', 'match', 'fuse', 'a.run', '--method', 'my:minmax(k=2)'], None)
    """
    bare = re.sub(r"'[^']*'|\"[^\"$`]*\"", "", command)
    return None if re.search(r"[|&;<>$`*?~\\()]|(^|\s)#", bare) else shlex.split(command)


def _in_this_process(args: list[str]) -> tuple[int, str, str]:
    """Runs limner here: a process of its own would first import everything, which takes longer than most examples."""
    done = CliRunner().invoke(app, args, env=ENVIRONMENT)
    return done.exit_code, done.stdout, done.stderr


def _in_a_shell(command: str) -> tuple[int, str, str]:
    script = ["bash", "-c", f"set -o pipefail; {LIMNER}\n{command}"]
    done = subprocess.run(script, capture_output=True, encoding="utf-8", env=os.environ | ENVIRONMENT)
    return done.returncode, done.stdout, done.stderr


def _commands(text: str) -> list[tuple[str, str]]:
    """The limner commands of a block, each with the output shown below it."""
    joined = re.sub(r"\\\n\s*(?:> )?", "", text)
    pieces = re.split(r"^\$ ", joined, flags=re.MULTILINE)[1:]
    split = [piece.partition("\n") for piece in pieces]
    return [(command, output) for command, _, output in split if command.split()[:1] == ["limner"]]


def _compare(expected: str, printed: str, place: str, *, approximate: bool = False) -> None:
    equal = doctest.OutputChecker().check_output(expected, printed, FLAGS)
    if not equal and not (approximate and nearly(expected, printed)):
        raise ExampleFailed(f"{place}: the page shows\n{expected}\nbut the example prints\n{printed}")


def nearly(expected: str, printed: str, *, points: float = 2.0) -> bool:
    """Whether the words are the same, and no number of a line is further off than some points.

    Every line with numbers must have a line of the same words; marks of significance and rules may differ.
    """
    if not doctest.OutputChecker().check_output(_words(expected), _words(printed), FLAGS):
        return False
    numbers: dict[str, list[list[float]]] = {}
    for line in printed.splitlines():
        numbers.setdefault(_words(line), []).append(_numbers(line))
    return all(
        any(_close(_numbers(line), actual, points) for actual in numbers.get(_words(line), []))
        for line in expected.splitlines()
        if line.strip() not in ("", "...")
    )


def _words(text: str) -> str:
    """A text with its numbers, marks and rules taken out."""
    bare = re.sub(r"-{3,}| \*+|< (?=\d)", " ", text)
    return "\n".join(" ".join(NUMBER.sub("#", line).split()) for line in bare.splitlines()).replace("#%", "#")


def _numbers(line: str) -> list[float]:
    return [float(number.replace(",", "")) for number in NUMBER.findall(re.sub(r"-{3,}", " ", line))]


def _close(expected: list[float], actual: list[float], points: float) -> bool:
    return len(expected) == len(actual) and all(abs(a - b) <= points for a, b in zip(expected, actual, strict=True))


def _require(true: bool, message: str) -> None:
    if not true:
        raise ExampleFailed(message)
