"""The command of the container starts, is healthy, and stops when told."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def instruction(name: str) -> list[str]:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if line.startswith(f"{name} ")]
    return json.loads(line[line.index("[") :])


def test_the_container_is_healthy_and_stops(tmp_path):
    _, *words = [word.replace("/data", str(tmp_path)) for word in instruction("ENTRYPOINT") + instruction("CMD")]
    process = subprocess.Popen(
        [sys.executable, "-m", "limner", *words, "--port", "0", "--json"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT / "src")}, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        report = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")
        port = re.search(r":(\d+)/$", report["url"])[1]
        _, option, code = instruction("HEALTHCHECK")[-3:]
        assert subprocess.run([sys.executable, option, code.replace("8765", port)]).returncode == 0
        assert subprocess.run([sys.executable, option, code.replace("8765", "1")], stderr=subprocess.DEVNULL).returncode
        assert (tmp_path / "answers.db").is_file()
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode in (0, -15, 143)
