"""From `pip install` to the first stored answer in a fresh environment: the page, and Label Studio beside it.

Both are installed by pip into an empty environment, started, and given one answer through their programming interface.
With `--quick` nothing is installed: limner's page is measured where it is, alone. `--sizes` lists what the packages of
`limner[web]` weigh in this environment, who asks for them, and what is left without those that the page could do
without.
"""

from __future__ import annotations

import argparse
import http.client
import importlib.metadata
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from claims import ROOT, Claim, log, main
from serve import PASSWORD, first_page, free_port, process_cost


def fresh_install(folder: Path) -> tuple[float, float, int]:
    """Seconds from `pip install` to the first stored answer in a fresh environment, its megabytes and packages."""
    begun = time.perf_counter()
    place = folder / "environment"
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    log("installing limner[web] into a fresh environment")
    subprocess.run([python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", f"{ROOT}[web]"], check=True)
    script = folder / "first.py"
    script.write_text(FIRST, encoding="utf-8")
    subprocess.run(
        [python, script], check=True, cwd=folder, env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    )
    seconds = time.perf_counter() - begun
    return seconds, size_of(place), packages_of(python)


def size_of(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()) / 1e6


WITHOUT = {"scikit-learn": ("scikit-learn", "joblib", "narwhals", "cloudpickle")}
"""Packages that the page could do without if what needs them became an extra, each with what it alone brings."""


def weights(extra: str) -> dict[str, tuple[float, str]]:
    """Megabytes of each package that `limner[EXTRA]` needs here, without byte code, and who asks for it."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [(Requirement(each), "limner") for each in project["dependencies"]]
    asked += [(Requirement(each), f"limner[{extra}]") for each in project["optional-dependencies"][extra]]
    found: dict[str, tuple[float, str]] = {}
    while asked:
        wanted, by = asked.pop(0)
        name = canonicalize_name(wanted.name)
        named = [{"extra": each} for each in ("", *wanted.extras)]
        if name in found or (wanted.marker and not any(map(wanted.marker.evaluate, named))):
            continue
        held = importlib.metadata.distribution(name)
        files = [Path(str(each.locate())) for each in held.files or ()]
        size = sum(each.stat().st_size for each in files if each.is_file() and each.suffix != ".pyc") / 1e6
        found[name] = size, by
        asked += [(needed, name) for needed in map(Requirement, held.requires or ()) if _asks(needed, named)]
    return found


def show_sizes(found: dict[str, tuple[float, str]]) -> None:
    """Prints what each package weighs, and what is left without those that the page could do without."""
    for name, (size, by) in sorted(found.items(), key=lambda item: -item[1][0]):
        print(f"{size:8.1f} MB  {name}  ({by})")
    left = {name: size for name, (size, _) in found.items()}
    print(f"{sum(left.values()):8.1f} MB  all {len(found)} packages")
    for what, brought in WITHOUT.items():
        left = {name: size for name, size in left.items() if name not in brought}
        print(f"{sum(left.values()):8.1f} MB  and without {what}")


def _asks(needed: Any, extras: list[dict[str, str]]) -> bool:
    return needed.marker is None or any(map(needed.marker.evaluate, extras))


def packages_of(python: Path) -> int:
    listed = subprocess.run([python, "-m", "pip", "list", "--format=json"], capture_output=True, text=True, check=True)
    return len(json.loads(listed.stdout))


# What a person does first, in the fresh environment: tasks from the two built-in systems, one answer.
FIRST = """
import json, subprocess, sys, time, urllib.parse, urllib.request
from pathlib import Path

limner = str(Path(sys.executable).with_name("limner"))
command = [limner, "serve", "scenes", "-O", "images=200", "--json", "--port", "0"]
server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
url = json.loads("".join(iter(server.stdout.readline, "}\\n")) + "}")["url"]
def ask(path, data=None, kind="application/json"):
    asked = urllib.request.Request(url + path, data and data.encode(), {"Content-Type": kind})
    return urllib.request.urlopen(asked).read().decode()
for _ in range(100):
    try:
        ask("")
        break
    except OSError:
        time.sleep(0.1)
ask("admin/tasks", urllib.parse.urlencode({"pairs": 18, "people": 1}), "application/x-www-form-urlencoded")
while "tasks created" not in (page := ask("admin")):
    assert 'class="error"' not in page, page
    time.sleep(0.2)
item = json.loads(ask("api/task", "{}"))["task"]["items"][0]["id"]
print(ask("api/answers", json.dumps({"item": item, "key": "first-answer", "grade": 4})))
server.kill()
"""


@dataclass(frozen=True)
class Peer:
    """What Label Studio costs."""

    seconds: float
    cpu: float
    memory: float
    size: float
    packages: int


def label_studio(folder: Path) -> Peer:
    """Label Studio in a fresh environment: seconds to the first stored annotation, and the cost of its first page."""
    begun, token = time.perf_counter(), secrets.token_hex(20)
    place = installed(folder)
    log("starting it")
    with serving(place, folder, token) as (port, process):
        cpu, memory = process_cost(process.pid)
        _first_annotation(port, token)
    seconds = time.perf_counter() - begun
    return Peer(seconds, cpu, memory, size_of(place), packages_of(place / "bin" / "python"))


def installed(folder: Path) -> Path:
    """A fresh environment with Label Studio."""
    place = folder / "environment"
    venv.create(place, with_pip=True)
    log("installing label-studio into a fresh environment")
    subprocess.run([place / "bin" / "pip", "install", "-q", "label-studio"], check=True)
    return place


@contextmanager
def serving(place: Path, folder: Path, token: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Label Studio, from the moment its first page came: its port and process."""
    folder.mkdir(exist_ok=True)
    port = free_port()
    settings = {"BASE_DATA_DIR": str(folder), "USERNAME": "a@example.org", "PASSWORD": PASSWORD, "USER_TOKEN": token}
    environment = os.environ | {f"LABEL_STUDIO_{name}": value for name, value in settings.items()}
    environment |= {"COLLECT_ANALYTICS": "False", "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true"}
    environment.pop("PYTHONPATH", None)
    command = [place / "bin" / "label-studio", "start", "--no-browser", "--port", str(port)]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _await_page(port, process)
        yield port, process
    finally:
        process.kill()
        process.wait()


def _first_annotation(port: int, token: str) -> None:
    """A project, a task and an answer, through the programming interface, as `FIRST` does for limner."""
    choices = '<View><Text name="t" value="$t"/><Choices name="c" toName="t"><Choice value="yes"/></Choices></View>'
    project = asked(port, token, "/api/projects", {"title": "first", "label_config": choices})["id"]
    asked(port, token, f"/api/projects/{project}/import?return_task_ids=1", [{"t": "a red balloon"}])
    task = asked(port, token, f"/api/projects/{project}/next", None)["id"]
    answer = {"from_name": "c", "to_name": "t", "type": "choices", "value": {"choices": ["yes"]}}
    assert asked(port, token, f"/api/tasks/{task}/annotations/", {"result": [answer]})["id"]


def asked(port: int, token: str, path: str, body: object) -> Any:
    """One request to the programming interface of Label Studio."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"Authorization": f"Token {token}", "Content-Type": "application/json"}
    connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers)
    reply = connection.getresponse()
    data = reply.read()
    if reply.status >= 300:
        raise RuntimeError(f"Label Studio answered {path} with {reply.status}: {data[:200]!r}")
    return json.loads(data)


def _await_page(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(1200):
        if process.poll() is not None:
            raise RuntimeError(f"Label Studio ended with status {process.returncode}")
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/user/login/")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.5)
    raise RuntimeError("Label Studio never answered")


def run(options: argparse.Namespace) -> Iterator[Claim]:
    if options.sizes:
        show_sizes(weights("web"))
        sys.exit()
    with tempfile.TemporaryDirectory() as folder:
        cpu, memory, *_ = first_page(Path(folder))
    if options.quick:
        yield Claim("first page, CPU-seconds of the server", cpu, goal="< 3")
        yield Claim("first page, resident MB of the server", memory, goal="< 120")
        return
    with tempfile.TemporaryDirectory() as folder:
        seconds, size, packages = fresh_install(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        theirs = label_studio(Path(folder))
    note = f"wheels come from the nearest index; limner[web] {packages} packages, Label Studio {theirs.packages}"
    yield Claim(
        "pip install to first stored answer, seconds, beside Label Studio", seconds, theirs.seconds, "<= 1", note
    )
    heavy = "what weighs is the core of numbers (llvmlite, scipy, numpy, scikit-learn), not the page: see docs/serve.md"
    yield Claim("environment, MB, beside Label Studio", size, theirs.size, goal="<= 0.5", note=heavy)
    yield Claim("first page, CPU-seconds of the server, beside Label Studio", cpu, theirs.cpu, goal="<= 0.1")
    yield Claim("first page, resident MB of the server, beside Label Studio", memory, theirs.memory, goal="<= 0.5")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sizes", action="store_true", help="list what the packages weigh and measure nothing")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
