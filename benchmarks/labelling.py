"""Labelling a pair in a browser: keystrokes and machine time, before and after one-key mode, beside Label Studio.

The same images, captions and four grades in all. A script presses the keys in Chromium and never thinks: it answers as
soon as a pair can be answered. A pair's machine time runs from its first key until the next pair can be answered: its
caption is shown, its image is decoded, and keys count. limner is measured with Enter after the grade and with its
one-key mode, and both again after half a second to look, as a person would; with `--before FOLDER` also the page of an
older checkout, such as `git worktree add --detach FOLDER 42dc5d72`, the commit before the one-key mode: its code makes
its store and serves its page. The pages of limner take turns. Label Studio has hotkeys for its choices and Ctrl+Enter
to submit; it gets the images inside its tasks, so it asks for no file. At the end, every answer must be in the store of
each tool.

Chromium is needed on PATH. Label Studio is installed into a fresh environment, or taken from one with
`--label-studio FOLDER`. With `--quick`, limner alone and few pairs.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import os
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hardware
from claims import ROOT, Claim, log, main
from serve import PASSWORD, Server
from serve_install import asked, installed, serving

FLAGS = "--no-sandbox --disable-gpu --disable-background-networking --disable-component-update --disable-sync"
READY = "#judge[data-ready]:not([data-locked])"
SLOW = "median milliseconds from the first key until the next pair can be answered"
Pair = tuple[str, bytes]
WARM_UP = 2  # pairs that are answered before the clock starts
LOOK = 0.5
"""Seconds in which a person looks at a pair, at the least; the page reads ahead in the meantime."""
SHOWN = """(caption) => {
  const text = [...document.querySelectorAll(".lsf-richtext__line")].some((line) => line.textContent === caption);
  const image = document.querySelector("img[alt=image]");
  return text && image && image.complete && image.naturalWidth > 0 && document.querySelector(".lsf-choice");
}"""
SEEN = """async ([caption, source]) => {
  const image = document.querySelector("#picture");
  if (document.querySelector("#words").textContent !== caption || image?.getAttribute("src") !== source) return false;
  await image.decode();
  return true;
}"""
FILL = """import pathlib, serve, sys
serve.fill(pathlib.Path(sys.argv[1]), annotators=0, tasks=1, size=int(sys.argv[2]), replication=1, images=200)"""
CHECKED = "() => document.querySelector('.lsf-choices input:checked') !== null"


@dataclass(frozen=True)
class Labelled:
    """Keystrokes per pair, and the seconds of each pair."""

    keys: int
    seconds: list[float]

    @property
    def median(self) -> float:
        """Seconds of the machine for a pair."""
        return statistics.median(self.seconds)


@contextmanager
def browser_page() -> Iterator[Any]:
    """A page of a fresh Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tools:
        program = shutil.which("chromium")
        browser = tools.chromium.launch(executable_path=program, args=[*FLAGS.split(), "--no-first-run"])
        yield browser.new_page(viewport={"width": 1440, "height": 900})
        browser.close()


def timed(many: int, answer: Callable[[int], None], look: float = 0.0) -> list[float]:
    """Answers all pairs but the last, whose successor is a page of thanks; seconds of each after the warm-up."""
    seconds = []
    for number in range(many - 1):
        time.sleep(look)
        begun = time.perf_counter()
        answer(number)
        seconds.append(time.perf_counter() - begun)
    return seconds[WARM_UP:]


def with_limner(
    folder: Path, many: int, *, one_key: bool, code: Path = ROOT, look: float = 0.0
) -> tuple[Labelled, list[Pair]]:
    """Labels with limner, today's or that of another checkout; also gives the captions and images of the pairs."""
    _fill(folder / "answers.db", many, code)
    server = Server(folder, team=False, images=200, code=code)
    server.start()
    try:
        with browser_page() as page:
            items = _first_pair(page, server, one_key=one_key)
            keys = ["4"] if one_key else ["4", "Enter"]

            def answer(number: int) -> None:
                for key in keys:
                    page.keyboard.press(key)
                page.wait_for_selector(f"#place:text-is('Pair {number + 2} of {many}')")
                page.wait_for_selector(READY)
                following = items[number + 1]
                if not page.evaluate(SEEN, [following["text"], following["picture"]]):
                    raise RuntimeError(f"pair {number + 2}: another caption or image is shown")

            seconds = timed(many, answer, look)
            pairs = [(each["text"], server.ask("GET", each["picture"], cookie=_cookie(page)).data) for each in items]
            page.wait_for_selector("#state:text-is('Saved.')")
        _expect(_answers(folder / "answers.db"), many - 1, "limner")
        return Labelled(len(keys), seconds), pairs
    finally:
        server.kill()


def _fill(store: Path, many: int, code: Path) -> None:
    """A store with one task, made by the code that serves it: older code does not open a newer store."""
    command = [sys.executable, "-c", FILL, str(store), str(many)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(code / each) for each in ("src", "benchmarks"))}
    subprocess.run(command, env=environment, cwd=code, check=True)


def _first_pair(page: Any, server: Server, *, one_key: bool) -> list[dict[str, Any]]:
    page.goto(f"http://127.0.0.1:{server.port}/judge")
    page.wait_for_selector(f"{READY}, dialog[open], #guideline:not([hidden])")
    if (server.code == ROOT) != (page.locator("#one-key").count() == 1):
        raise RuntimeError(f"{server.code} serves another page: --before needs a checkout without one-key mode")
    page.evaluate("key => localStorage.setItem('limner-one-key', JSON.stringify(key))", one_key)
    for dialog in page.locator("dialog[open]").all():
        page.keyboard.press("Escape")
        dialog.wait_for(state="hidden")
    page.reload()
    page.wait_for_selector(READY)
    return list(json.loads(page.get_attribute("#judge", "data-task"))["items"])


def _cookie(page: Any) -> str:
    return "; ".join(f"{each['name']}={each['value']}" for each in page.context.cookies())


def _answers(path: Path) -> int:
    from limner.annotate.store import open_store
    from limner.annotate.store.answers import answers

    with open_store(path) as store:
        return len(list(answers(store)))


def _expect(found: int, expected: int, who: str) -> None:
    if found != expected:
        raise RuntimeError(f"{who} stored {found} answers of {expected}")


def with_label_studio(environment: Path, folder: Path, pairs: list[Pair]) -> Labelled:
    """Labels the same pairs with Label Studio."""
    token = secrets.token_hex(20)
    with serving(environment, folder, token) as (port, _):
        project = _project(port, token, pairs)
        with browser_page() as page:
            page.goto(f"http://127.0.0.1:{port}/user/login/")
            page.fill("input[name=email]", "a@example.org")
            page.fill("input[name=password]", PASSWORD)
            page.keyboard.press("Enter")
            page.wait_for_load_state("networkidle")
            page.goto(f"http://127.0.0.1:{port}/projects/{project}/data?labeling=1")
            page.wait_for_function(SHOWN, arg=pairs[0][0])

            def answer(number: int) -> None:
                page.keyboard.press("4")
                page.wait_for_function(CHECKED)
                page.keyboard.press("Control+Enter")
                page.wait_for_function(SHOWN, arg=pairs[number + 1][0])

            seconds = timed(len(pairs), answer)
        stored = asked(port, token, f"/api/projects/{project}", None)["num_tasks_with_annotations"]
        _expect(stored, len(pairs) - 1, "Label Studio")
        return Labelled(3, seconds)


def _project(port: int, token: str, pairs: list[Pair]) -> int:
    grades = ("100% no", "mostly no", "partially yes", "100% yes")
    choices = "".join(f'<Choice value="{grade}" hotkey="{key}"/>' for key, grade in enumerate(grades, 1))
    form = '<View><Image name="i" value="$image"/><Text name="t" value="$text"/>'
    form += f'<Choices name="c" toName="t" choice="single" required="true">{choices}</Choices></View>'
    project: int = asked(port, token, "/api/projects", {"title": "pairs", "label_config": form})["id"]
    asked(
        port,
        token,
        f"/api/projects/{project}/import",
        [{"text": text, "image": _inline(image)} for text, image in pairs],
    )
    return project


def _inline(image: bytes) -> str:
    from PIL import Image

    kind = Image.MIME[Image.open(io.BytesIO(image)).format or ""]
    return f"data:{kind};base64,{base64.b64encode(image).decode()}"


def with_pages(
    many: int, rounds: int, before: Path | None, look: float = 0.0
) -> tuple[dict[str, Labelled], list[Pair]]:
    """Labels with the pages of limner in turn: one key, two keys and, if there is one, an older checkout's."""
    ways = {"one-key mode": (True, ROOT), "grade and Enter": (False, ROOT)}
    if before is not None:
        ways["before"] = (False, before.resolve())
    found: dict[str, list[Labelled]] = {name: [] for name in ways}
    for number in range(rounds):
        for name, (one_key, code) in ways.items():
            with tempfile.TemporaryDirectory() as folder:
                each, pairs = with_limner(Path(folder), many, one_key=one_key, code=code, look=look)
            found[name].append(each)
            told = f"{name}, {look:g} s to look" if look else name
            log(f"round {number + 1}/{rounds}, {told}: {each.keys} keys, {1000 * each.median:.0f} ms a pair")
    joined = {name: [s for each in rows for s in each.seconds] for name, rows in found.items()}
    return {name: Labelled(found[name][0].keys, seconds) for name, seconds in joined.items()}, pairs


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """limner with one key, with two, and before it had one-key mode; then Label Studio."""
    many, rounds = (6, 1) if options.quick else (42, 3)
    found, pairs = with_pages(many, rounds, options.before)
    one, two = found["one-key mode"], found["grade and Enter"]
    if "before" in found:
        commit, number = hardware.commit(options.before.resolve()), rounds * (many - 1 - WARM_UP)
        yield from _beside_before(found, commit, number)
        looked, _ = with_pages(many, rounds, options.before, LOOK)
        yield from _times_beside_before(
            looked, f"after {LOOK:g} s to look; before: commit {commit[:8]}; {number} pairs each"
        )
    if options.quick:
        yield Claim("keystrokes for a pair, one-key mode", one.keys, goal="<= 1")
        return
    with tempfile.TemporaryDirectory() as folder:
        environment = options.label_studio or installed(Path(folder))
        theirs = with_label_studio(environment, Path(folder) / "data", pairs)
    log(f"Label Studio: {theirs.keys} keys {1000 * theirs.median:.0f} ms a pair")
    note = f"{many - 1 - WARM_UP} pairs; Label Studio: hotkey, then Ctrl+Enter (two keys at once)"
    yield Claim("keystrokes for a pair, one-key mode, beside Label Studio", one.keys, theirs.keys, "<= 0.5", note)
    yield Claim("keystrokes for a pair, grade and Enter, beside Label Studio", two.keys, theirs.keys, "<= 1", note)
    for name, ours in (("one-key mode", one), ("grade and Enter", two)):
        claim = f"machine time for a pair, {name}, beside Label Studio"
        yield Claim(claim, 1000 * ours.median, 1000 * theirs.median, "<= 0.5", SLOW)


def _beside_before(found: dict[str, Labelled], commit: str, pairs: int) -> Iterator[Claim]:
    """Today's page beside an older one, which took grade and Enter."""
    before = found["before"]
    note = f"before: commit {commit[:8]}, grade and Enter; {pairs} pairs each"
    one = found["one-key mode"]
    yield Claim("keystrokes for a pair, one-key mode, beside the page before", one.keys, before.keys, "<= 0.5", note)
    yield from _times_beside_before(found, note)


def _times_beside_before(found: dict[str, Labelled], note: str) -> Iterator[Claim]:
    looked = ", after a look" if note.startswith("after") else ""
    for name in ("one-key mode", "grade and Enter"):
        claim = f"machine time for a pair{looked}, {name}, beside the page before"
        yield Claim(claim, 1000 * found[name].median, 1000 * found["before"].median, "<= 1", f"{SLOW}; {note}")


def configure(parser: argparse.ArgumentParser) -> None:
    """An environment that has Label Studio already, and an older checkout."""
    parser.add_argument("--label-studio", type=Path, help="environment with label-studio; a fresh one by default")
    parser.add_argument("--before", type=Path, help="an older checkout of limner, whose page is measured too")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
