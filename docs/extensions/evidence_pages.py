"""Adds `evidence/` to the site, and two pages that are not committed: every claim of the benchmarks and of the proofs.

Links between `docs/` and `evidence/` are written as they work in the repository; here they become those of the site.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))
import pages  # noqa: E402


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Called by mkdocs when it has listed the files of `docs/`."""
    for path in sorted((ROOT / "evidence").glob("*.md")):
        files.append(File.generated(config, f"evidence/{path.name}", abs_src_path=str(path)))
    for folder in ("benchmarks", "proofs"):
        files.append(File.generated(config, f"evidence/all_{folder}.md", content=pages.all_claims(folder)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    return markdown.replace("../evidence/", "evidence/").replace("../docs/", "../")
