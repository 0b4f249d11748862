"""The pages: every example runs, the site builds, and it needs nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import codeblocks
import pages

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_examples_of_a_page_run(page, tmp_path):
    codeblocks.run_page(page, tmp_path)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_builds_and_needs_no_network(site):
    loads = re.compile(
        r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["'](?:https?:)?//[^"']+|"""
        r"""<link\b(?=[^>]*rel=["']?(?:stylesheet|preload|preconnect|icon))[^>]*href=["'](?:https?:)?//[^"']+|"""
        r"""@import\s+(?:url\()?["']?https?://[^"')]+"""
    )
    built = [*site.rglob("*.html"), *site.rglob("*.css")]
    assert (site / "index.html") in built
    outside = {f"{path.relative_to(site)}: {match[0]}" for path in built for match in loads.finditer(path.read_text())}
    assert outside == set()


def test_the_site_and_its_search_work_from_disk(site, browser):
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri())
    assert page.inner_text("h1").startswith("limner")
    page.click("input.md-search__input")
    page.keyboard.type("constraints", delay=20)
    page.wait_for_selector(".md-search-result__item a[href*='contributing.html']")
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    context.close()


def test_every_public_name_is_in_the_reference(site):
    import limner

    text = (site / "reference.html").read_text()
    shown = {name.rpartition(".")[2] for name in re.findall(r'id="limner\.([\w.]+)"', text)}
    assert set(limner.__all__) - shown == set()
    assert "<blockquote>" not in text, "a doctest is shown as a quotation: see docs/extensions/doctest_blocks.py"


def test_pages_of_claims_show_what_is_saved():
    assert pages.stale() == [], "run python benchmarks/pages.py"


PAGE = """\
# A page

```python
x = 20
```

Then:

```python
print(x + 1, "of", x * 1000)
```

```text
21   of ...
```

<!-- skip: needs a licence -->
```python
raise SystemExit
```

```console
$ pip install limner
$ limner --help
...Usage...
```
"""


def _page(folder: Path, text: str) -> Path:
    path = folder / "page.md"
    path.write_text(text)
    return path


def test_blocks_share_a_namespace_and_are_compared(tmp_path):
    assert codeblocks.run_page(_page(tmp_path, PAGE), tmp_path) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("21   of", "22 of"), "page.md:9: the page shows"),
        (("skip: needs a licence", "skip:"), "needs its reason"),
        (("limner --help", "limner --no-such-option"), "exit status 2"),
        (("...Usage...", "Nothing like it"), "limner --help: the page shows"),
    ],
)
def test_a_wrong_example_is_told(tmp_path, change, message):
    with pytest.raises(codeblocks.ExampleFailed, match=message):
        codeblocks.run_page(_page(tmp_path, PAGE.replace(*change)), tmp_path)


SHOWN = "name  R@1\n-----------\nmine  52.8 [50.1, 55.0] *  < 0.0001\n...\nMedR  2.0\n"


@pytest.mark.parametrize(
    ("change", "near"),
    [
        (("52.8", "51.4"), True),
        (("*  < 0.0001", "   0.0312"), True),
        (("...", "one more line 7"), True),
        (("52.8", "48.8"), False),
        (("mine", "theirs"), False),
        (("MedR", "MeanR"), False),
    ],
)
def test_numbers_that_are_near_and_words_that_are_not(change, near):
    assert codeblocks.nearly(SHOWN, SHOWN.replace(*change)) is near


def test_an_error_in_an_example_names_page_and_line(tmp_path):
    with pytest.raises(ZeroDivisionError) as caught:
        codeblocks.run_page(_page(tmp_path, "text\n\n```python\n1 / 0\n```\n"), tmp_path)
    last = caught.traceback[-1]
    assert (str(last.path).endswith("page.md:3"), last.lineno + 1) == (True, 4)


def test_continued_and_piped_commands_are_one_command():
    text = "$ limner evaluate a \\\n    --json > out.json\n$ ls\n$ limner data | head -n 1\nscenes\n"
    assert codeblocks._commands(text) == [
        ("limner evaluate a --json > out.json", ""),
        ("limner data | head -n 1", "scenes\n"),
    ]
