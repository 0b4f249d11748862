"""Ctrl-C during long calls of compiled code, and progress that moves from the start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import limner
from limner.systems.canonical import interruptible

ROOT = Path(__file__).parents[2]
LONG = 300  # seconds that the work would take; the test waits a tenth of it

SLOW = f"""
import ctypes, numpy as np, limner
real = np.linalg.eigh

def slow(matrix):
    "A decomposition that is busy in compiled code, which releases the interpreter lock as numpy's does."
    print("decomposing", flush=True)
    for _ in range({LONG}):
        ctypes.CDLL(None).sleep(1)
    return real(matrix)

np.linalg.eigh = slow
pairs = limner.load("scenes", images=30)
features = np.random.default_rng(0).normal(size=(30, 8)).astype(np.float32)
try:
    limner.train(pairs, SYSTEM)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    raise SystemExit(130)
"""
KCCA = '"kcca", images="linear", features=limner.Embeddings(pairs.images.ids, features)'


@pytest.mark.parametrize("system", [KCCA, '"histograms"', '"colours"'])
def test_training_hears_an_interrupt_during_a_decomposition(system):
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW.replace("SYSTEM", system)], stdout=subprocess.PIPE, text=True, env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    try:
        assert child.stdout.readline() == "decomposing\n"
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=LONG / 10)
    finally:
        child.kill()
    assert (out, child.returncode) == ("interrupted\n", 130)


DEAF = f"""
import ctypes, threading, limner.__main__ as command
from limner import cli

def app(prog_name):
    "A command whose main thread hears nothing, and a thread that the end of the process would wait for."
    threading.Thread(target=threading.Event().wait).start()
    print("working", flush=True)
    while True:
        try:
            ctypes.CDLL(None).sleep({LONG})
        except KeyboardInterrupt:
            pass

cli.app = app
command.main()
"""
WITHIN_TEXT = """
import limner.__main__ as command
from limner import cli

def app(prog_name):
    "An interrupt within an `exec` of text, as when a dataclass is made: Python remembers it as not handled."
    print("working", flush=True)
    exec("import time; time.sleep(300)")

cli.app = app
command.main()
"""
BUSY = """
import limner.__main__ as command, numpy as np
from limner import cli
from limner.systems.canonical import interruptible

def app(prog_name):
    "A decomposition that takes minutes: its threads hold up the end of the process."
    print("working", flush=True)
    square = np.random.default_rng(0).standard_normal((8000, 8000))
    interruptible(lambda: np.linalg.eigh(square @ square.T))

cli.app = app
command.main()
"""
LATE = """
import limner.__main__ as command, threading
from limner import cli

def app(prog_name):
    "A library that makes another error of an interrupt."
    print("working", flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        raise ImportError("cannot load")

cli.app = app
command.main()
"""
HELP = """
import limner.__main__ as command, sys, threading
from limner.cli.shell import Shell

def help(*given):
    "A library that makes another error of an interrupt while the command line is read: help is shown there."
    print("working", flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        raise ImportError("cannot load")

Shell.get_help = Shell.format_help = help
sys.argv[1:] = ["--help"]
command.main()
"""
HALF_MADE = """
import limner.__main__ as command, time
from limner import cli

class Half:
    "An interrupt while an object is made: its finaliser fails, and Python prints that it ignores the error."
    def __init__(self):
        print("working", flush=True)
        time.sleep(300)
        self.text = ""

    def __del__(self):
        self.text

def app(prog_name):
    try:
        Half()
    except KeyboardInterrupt:
        pass  # from here on nothing holds it
    raise SystemExit(130)

cli.app = app
command.main()
"""
THREAD = """
import limner.__main__ as command, threading, time
from limner import cli

def app(prog_name):
    "A thread that fails because the main thread has left."
    left = threading.Event()
    def work():
        left.wait()
        raise RuntimeError("nobody takes what is made")
    thread = threading.Thread(target=work)
    thread.start()
    print("working", flush=True)
    try:
        time.sleep(300)
    finally:
        left.set()
        thread.join()

cli.app = app
command.main()
"""
CASES = {
    "deaf": DEAF, "within text": WITHIN_TEXT, "another error": LATE, "another error in the help": HELP, "busy": BUSY,
    "half made": HALF_MADE, "thread": THREAD,
}  # fmt: skip


@pytest.mark.parametrize("code", CASES.values(), ids=CASES)
def test_a_command_ends_after_an_interrupt_whatever_it_does(code):
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    try:
        assert child.stdout.readline() == "working\n"
        time.sleep(3 * (code is BUSY))  # until the decomposition has begun
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=LONG / 10)
    finally:
        child.kill()
    assert child.returncode == 130
    assert errors == "limner: interrupted; files are written atomically, so nothing is left half done\n"


DONE = """
import limner.__main__ as command, signal
from limner import cli

def app(prog_name):
    "Ctrl-C when the command is done: while it is looked at how it ended."
    command.heard.is_set = lambda: signal.raise_signal(signal.SIGINT) or False
    raise SystemExit(3)

cli.app = app
command.main()
"""
AT_THE_END = """
import atexit, limner.__main__ as command, signal, threading, time
from limner import cli

def app(prog_name):
    "Ctrl-C when the command is done, at the end of Python itself."
    def last():
        signal.raise_signal(signal.SIGINT)
        print("written", flush=True)
    atexit.register(last)
    raise SystemExit(3)

cli.app = app
command.main()
"""
ENDLESS = """
import limner.__main__ as command, signal, threading
from limner import cli

def app(prog_name):
    "Ctrl-C when the command is done, and the end of Python waits for a thread."
    def work():
        signal.raise_signal(signal.SIGINT)
        threading.Event().wait()
    threading.Timer(0.1, work).start()
    raise SystemExit(3)

cli.app = app
command.main()
"""


@pytest.mark.parametrize(
    ("code", "ending"),
    [
        (DONE, (3, "", "")),
        (AT_THE_END, (3, "written\n", "")),
        (ENDLESS, (130, "", "limner: interrupted; files are written atomically, so nothing is left half done\n")),
    ],
    ids=["done", "at the end", "endless"],
)
def test_an_interrupt_of_a_command_that_is_done_raises_nothing(code, ending):
    child = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=LONG / 10, check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip
    assert (child.returncode, child.stdout, child.stderr) == ending


def test_results_and_errors_come_back_as_they_are():
    assert interruptible(lambda: threading.current_thread().name) == "limner work"

    def raise_error():
        raise ValueError("as it is")

    with pytest.raises(ValueError, match="as it is"):
        interruptible(raise_error)
    thread_names = []
    work = partial(interruptible, lambda: threading.current_thread().name)
    thread = threading.Thread(target=lambda: thread_names.append(work()), name="x")
    thread.start()
    thread.join()
    assert thread_names == ["x"]  # only the main thread hears signals; elsewhere nothing is gained


def test_progress_of_kcca_on_features_is_known_from_the_start():
    world = limner.load("scenes", images=60)
    rng, calls = np.random.default_rng(0), []
    features = limner.Embeddings(world.images.ids, rng.normal(size=(60, 6)).astype(np.float32))
    limner.train(world, "kcca", images="linear", features=features, progress=lambda done, of: calls.append((done, of)))
    assert calls[0][0] == 0 and len({of for _, of in calls}) == 1
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
    assert calls[-1][0] == calls[-1][1] and len(calls) > 10


def test_progress_of_kcca_moves_while_captions_are_read():
    """Reading them comes first, and takes long for many captions: the count does not wait for the first image."""
    calls = []
    world = limner.load("scenes", images=50)
    limner.train(world, "kcca", points=20, progress=lambda done, of: calls.append((done, of)))
    texts = len(world.train.images) // 5
    assert [done for done, _ in calls[: len(world.train.images) + 1]] == [0, *(round(n / 5) for n in range(1, 31))]
    assert texts == 6 and calls[30][0] == texts
    assert len({of for _, of in calls}) == 1 and calls[-1][0] == calls[-1][1]
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)
