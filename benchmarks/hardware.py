"""The machine that something was measured on: what a number depends on, and nothing that names the machine.

The results of one script on several kinds of machine lie side by side, as `results/NAME.KIND.json`: the kind is the
CPU family (`aarch64`, `x86_64`), or the GPU where one was measured (`nvidia-h200`). `x86_64` has bfloat16 units, like
the machine of the first results; `x86_64-vnni` has int8 units only, `x86_64-float32` neither.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

_WRITTEN = re.compile(  # results saved before the kind was in the file's name have the machine as one line
    r"(?:(?P<card>[^;]+), torch (?P<torch>[\w.]+); )?(?P<processor>.+), (?P<cores>\d+) cores, (?P<memory>\d+) GiB, "
    r"(?P<system>\w+) (?P<family>\w+), Python (?P<python>[\w.]+)"
)


def machine(*, card: str | None = None) -> dict[str, Any]:
    """The machine that this runs on.

    Args:
        card: The device of torch that is measured, such as "cuda"; None for the CPU.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    facts = _units() | {
        "processor": _processor(),
        "family": platform.machine(),
        "cores": cores,
        "memory": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": platform.system(),
        "python": platform.python_version(),
    }
    return facts if card is None else facts | _card(card)


def kind(of: dict[str, Any]) -> str:
    """The kind of a machine, as in the name of a file.

    >>> kind({"family": "x86_64"}), kind({"family": "x86_64", "card": "NVIDIA H200"})
    ('x86_64', 'nvidia-h200')
    >>> kind({"family": "x86_64", "units": "vnni"}), kind({"family": "x86_64", "units": "bfloat16"})
    ('x86_64-vnni', 'x86_64')
    """
    units = "" if of.get("units", "bfloat16") == "bfloat16" else f"-{of['units']}"
    return re.sub(r"\W+", "-", str(of.get("card") or of["family"] + units).lower())


def description(of: dict[str, Any]) -> str:
    """A machine in words.

    >>> description({"processor": "Neoverse-N1", "family": "aarch64", "cores": 2, "memory": 24, "system": "Linux",
    ...       "python": "3.11.7"})
    'Neoverse-N1, 2 cores, 24 GiB, Linux aarch64, Python 3.11.7'
    """
    card = f"{of['card']}, torch {of['torch']}; " if of.get("card") else ""
    return (
        f"{card}{of['processor']}, {of['cores']} cores, {of['memory']} GiB, {of['system']} {of['family']}, "
        f"Python {of['python']}"
    )


def read(written: str | dict[str, Any]) -> dict[str, Any]:
    """The machine as a result has it, also where it is one line.

    >>> read("Neoverse-N1, 2 cores, 24 GiB, Linux aarch64, Python 3.11.7")["cores"]
    2
    """
    if isinstance(written, dict):
        return written
    match = _WRITTEN.fullmatch(written)
    if match is None:
        raise ValueError(f"a machine {written!r}: expected 'PROCESSOR, N cores, N GiB, SYSTEM FAMILY, Python VERSION'")
    parts: dict[str, Any] = {name: value for name, value in match.groupdict().items() if value is not None}
    return parts | {"cores": int(parts["cores"]), "memory": int(parts["memory"])}


def separate_cores(count: int) -> set[int]:
    """As many logical cores of this process, on different physical cores as far as there are enough."""
    free = sorted(os.sched_getaffinity(0))
    firsts = {_siblings(core): core for core in reversed(free)}
    chosen = sorted(firsts.values())
    return set((chosen + [core for core in free if core not in chosen])[:count])


def _siblings(core: int) -> str:
    """The logical cores that share a physical one with this core."""
    listed = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
    return listed.read_text() if listed.exists() else str(core)


def commit(root: Path) -> str:
    """The commit that was measured, with a `+` where the code differs from it.

    `LIMNER_COMMIT` says it where the code lies without its history.
    """
    git = ("git", "-C", str(root))
    head = _output(*git, "rev-parse", "--short=10", "HEAD")
    changed = _output(*git, "status", "--porcelain", "--", "src", "benchmarks/*.py", "proofs/*.py")
    return os.environ.get("LIMNER_COMMIT", "unknown") if head is None else head + ("+" if changed else "")


def _card(device: str) -> dict[str, Any]:
    import torch

    return {"card": torch.cuda.get_device_name(device), "torch": torch.__version__.partition("+")[0]}


def _units() -> dict[str, str]:
    """The fastest units for products of an x86-64 CPU, as far as Linux lists them."""
    listed = Path("/proc/cpuinfo")
    if platform.machine() != "x86_64" or not listed.exists():
        return {}
    flags = set(listed.read_text().split())
    if flags & {"amx_bf16", "avx512_bf16"}:
        return {"units": "bfloat16"}
    return {"units": "vnni" if "avx512_vnni" in flags else "float32"}


def _processor() -> str:
    if platform.system() == "Darwin":
        return _output("sysctl", "-n", "machdep.cpu.brand_string") or platform.machine()
    named = re.search(r"^Model name:\s*(.+)$", _output("lscpu") or "", re.MULTILINE)
    return named[1].strip() if named else platform.machine()


def _output(*command: str) -> str | None:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
