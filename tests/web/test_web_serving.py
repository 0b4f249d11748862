"""A real server process: it says where it is, refuses what it must, and loses nothing when it is killed."""

from __future__ import annotations

import functools
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

import serve as benchmark
from limner.cli import app
from limner.core.errors import LimnerError, MissingExtra
from limner.core.extras import PACKAGES
from limner.web import make_app, serve

ROOT = Path(__file__).resolve().parents[2]


def test_every_acknowledged_answer_survives_a_kill(tmp_path):
    """The small form of benchmarks/serve.py: several people at once, the server killed with SIGKILL on the way."""
    outcome = benchmark.storm(tmp_path, annotators=4, tasks=4, size=6, replication=2, kills=2, images=50)
    assert outcome.kills == 2
    assert outcome.again > 0, "no request met the dead server: the test has tested nothing"
    assert outcome.acknowledged == 48
    assert (outcome.lost, outcome.doubled, outcome.over, outcome.errors) == (0, 0, 0, [])


def test_the_comparison_sees_a_lost_and_a_doubled_answer(tmp_path):
    path = tmp_path / "answers.db"
    benchmark.fill(path, annotators=1, tasks=1, size=2, replication=1, images=50)
    tally = benchmark.Tally(acknowledged={"never stored": ("annotator 0", 1, 4)}, seconds=[0.1])
    assert benchmark.compared(path, tally, 1, 0).lost == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--host", "0.0.0.0"], "add --team"),
        (["nosuch.csv"], "no file or folder nosuch.csv"),
        (["--scores", "mine=nosuch.npy"], "no similarity matrix"),
        (["--certificate", "cert.pem"], "https needs a certificate and its key"),
        (["scenes", "scenes"], "two collections are called 'scenes'"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_what_is_wrong_is_said_before_it_starts(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["serve", *words])
    assert done.exit_code == 3
    assert message in done.stderr.replace("\n", " ")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_argument_is_refused(tmp_path):
    with pytest.raises(TypeError, match="unexpected argument 'sytems'; expected systems, "):
        make_app(store=tmp_path / "a.db", sytems=["colours"])


def test_a_port_that_is_taken_is_said(tmp_path):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with pytest.raises(LimnerError, match="choose another --port"):
            serve(store=tmp_path / "a.db", port=listener.getsockname()[1])


def started(folder: Path, *options: str) -> tuple[subprocess.Popen[str], dict[str, str]]:
    """The command in a process of its own, and what it says of itself."""
    command = [sys.executable, "-m", "limner", "serve", "scenes", *options, "--port", "0", "--json", "-O", "images=50"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    heard = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell in the background may ignore it
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
        preexec_fn=heard,
    )  # fmt: skip
    return process, json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")


def test_the_command_says_where_it_is_and_ends_when_told(tmp_path):
    process, report = started(tmp_path, "--team")
    assert report["url"].startswith("http://127.0.0.1:")
    assert report["invitation"].startswith(f"{report['url']}invite/")
    assert report["store"] == "limner-answers.db"
    with urllib.request.urlopen(f"{report['url']}login", timeout=60) as answered:  # at once: nobody is refused
        assert answered.status == 200
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode in (0, 130)


def test_a_request_that_the_end_cuts_off_is_counted_without_a_traceback(tmp_path):
    process, report = started(tmp_path)
    host = report["url"].removeprefix("http://").rstrip("/")
    head = ("POST /api/answers HTTP/1.1", f"Host: {host}", "Content-Type: application/json", "Content-Length: 1000")
    name, port = host.split(":")
    with socket.create_connection((name, int(port))) as client:
        client.sendall("\r\n".join([*head, "", "{"]).encode())  # the rest never comes
        with urllib.request.urlopen(report["url"], timeout=60) as answered:  # later, so the other one is being read
            assert answered.status == 200
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert process.returncode in (0, 130)
    assert "Cancel 1 running task" in errors
    assert "Traceback" not in errors


def test_a_second_interrupt_of_the_server_leaves_no_traceback(tmp_path):
    process, report = started(tmp_path)
    with urllib.request.urlopen(report["url"], timeout=60) as answered:
        assert answered.status == 200
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    _, errors = process.communicate(timeout=20)
    assert process.returncode in (0, 130)
    assert "Traceback" not in errors


def test_the_first_admin_is_invited_until_there_is_one(tmp_path):
    from starlette.testclient import TestClient

    from limner.annotate.store.people import invite_first_admin

    site = make_app(store=tmp_path / "a.db", team=True)
    token = invite_first_admin(site.state.site.store)
    visitor = TestClient(site, base_url="http://localhost", follow_redirects=False)
    form = {"name": "first", "password": "long enough now", "again": "long enough now"}
    assert visitor.post(f"/invite/{token}", data=form).status_code == 303
    assert invite_first_admin(site.state.site.store) is None
    assert visitor.get("/admin").status_code == 200
    link = visitor.post("/admin/invite", data={"role": "annotator"}).text
    assert "http://localhost/invite/" in link


@pytest.mark.parametrize("package", ["starlette", "uvicorn", "alembic", "argon2"])
def test_a_missing_package_names_the_extra(package, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("limner.web")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtra, match=rf"'{PACKAGES.get(package, package)}'.*limner\[web\]"):
        importlib.import_module("limner.web")


def test_importing_the_page_is_light():
    code = "import limner.web, sys; print([m for m in ('starlette', 'sqlalchemy', 'PIL', 'numba') if m in sys.modules])"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "[]"


def test_the_address_of_a_store_is_shown_without_its_password():
    from limner.annotate.store import without_password

    assert without_password("postgresql://one:secret@host/name") == "postgresql://one:***@host/name"
    assert without_password("answers.db") == "answers.db"


def test_progress_is_shown_until_the_server_has_started(monkeypatch):
    """Reading a large collection takes seconds: until the address is printed, the terminal is not silent."""
    from limner import web

    def shown():
        return any(thread.name == "limner progress" for thread in threading.enumerate())

    during = []

    def slow(*_, started, **__):
        during.append(shown())
        started(web.Address("http://localhost:1/", "answers.db"))
        during.append(shown())

    monkeypatch.setattr(web, "serve", slow)
    done = CliRunner().invoke(app, ["serve", "scenes"])
    assert done.exit_code == 0 and "serving at http://localhost:1/" in done.stderr
    assert during == [True, False]
