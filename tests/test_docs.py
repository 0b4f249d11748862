"""The pages: every example runs, the site builds, and it needs nothing from elsewhere."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import typer

import codeblocks
import pages
from limner.cli import app

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_examples_of_a_page_run(page, tmp_path):
    codeblocks.run_page(page, tmp_path)


# Turns of phrase that a reader has to translate, and what the field calls things.
PLAIN = {"graphics card": "GPU", "not to be had": "not available", "shall": "a plain verb"}
PLAIN |= {"stays at home": "is not sent", "so many percent": "a percentage", "in print": "published"}
GENERATED = {"changelog.md"}


@pytest.mark.parametrize("page", [p for p in PAGES if p.name not in GENERATED], ids=lambda page: page.name)
def test_pages_use_plain_words(page):
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert {old: new for old, new in PLAIN.items() if re.search(rf"\b{old}\b", text)} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_prompts_stand_in_console_blocks_only(page):
    """There the copy button leaves them out."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert [kind for kind, text in blocks if text.startswith("$ ") and kind != "console"] == []


def test_commands_of_the_papers_page_are_whole():
    """A reader can copy each one: its options are known, and nothing that it needs is missing."""
    root = typer.main.get_command(app)
    spans = re.findall(
        r"`(limner [^`]+|python proofs/[^`]+)`", (ROOT / "evidence" / "papers.md").read_text(encoding="utf-8")
    )
    assert len(spans) > 50
    assert [span for span in spans if (_faults(root, span) if span.startswith("limner") else _unknown(span))] == []


def _faults(root, span):
    """Options that a command does not have, and required ones that are not given."""
    command, words = root, shlex.split(span)[1:]
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    options = {word for word in words if re.match(r"--?[a-z]", word)}
    plain = sum(not word.startswith("-") and not before.startswith("-") for before, word in pairwise(["", *words]))
    needed = [each for each in command.params if each.required]
    missing = [each.opts for each in needed if each.param_type_name == "option" and not options & set(each.opts)]
    arguments = sum(each.param_type_name == "argument" for each in needed)
    unknown = options - {name for each in command.params for name in each.opts}
    return unknown or missing or hasattr(command, "commands") or plain < arguments


def _unknown(span):
    """Whether a script is not there, or an option stands in neither it nor a script that it shares options with."""
    script, *words = span.split()[1:]
    scripts = [
        ROOT / script,
        *(ROOT / "proofs" / name for name in ("ranking_bench.py", "file_names.py")),
    ]
    text = "".join(each.read_text(encoding="utf-8") for each in [*scripts, ROOT / "benchmarks" / "claims.py"])
    return not all(f'"{word}"' in text for word in words if word.startswith("--"))


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
    context.set_default_timeout(180_000)  # the site's search reads all pages, on a busy machine slowly
    page = context.new_page()
    urls = []
    page.on("request", lambda request: urls.append(request.url))
    page.goto((site / "index.html").as_uri())
    assert page.inner_text("h1").startswith("limner")
    page.click("input.md-search__input")
    page.keyboard.type("constraints", delay=20)
    page.wait_for_selector(".md-search-result__item a[href*='contributing.html']")
    assert [url for url in urls if not url.startswith(("file:", "data:", "blob:"))] == []
    context.close()


def test_every_public_name_is_in_the_reference(site):
    import limner

    pages = {path.name: path.read_text(encoding="utf-8") for path in (site / "reference").glob("*.html")}
    ids = {name for text in pages.values() for name in re.findall(r'id="limner\.([\w.]+)"', text)}
    assert set(limner.__all__) - {name.rpartition(".")[2] for name in ids} == set()
    assert [name for name, text in pages.items() if "<blockquote>" in text] == [], (
        "a doctest is shown as a quotation: see docs/extensions/doctest_blocks.py"
    )
    assert max(map(len, pages.values())) < 700_000, (
        "a page of the reference is too long: leave modules out, or split it"
    )


def test_every_package_has_a_page_of_reference():
    packages = {path.parent.name for path in (ROOT / "src" / "limner").glob("*/__init__.py")} - {"cli"}
    assert packages - {path.stem for path in (ROOT / "docs" / "reference").glob("*.md")} == set()


def test_a_reference_page_lists_what_a_module_defines():
    sys.path.insert(0, str(ROOT / "docs" / "extensions"))
    import reference_pages

    markdown = reference_pages.on_page_markdown("# A page\n\n<!-- modules: limner.match, only: fusion murty -->\n")
    assert (
        "::: limner.match.fusion" in markdown and "::: limner.match.murty" in markdown and "corrections" not in markdown
    )
    assert re.search(r"members: \[.*\bfuse\b.*\]", markdown) and "_" not in re.findall(r"members: \[(\w)", markdown)


def test_the_copy_button_copies_commands_only(site, browser):
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto((site / "evaluate.html").as_uri())
    block = page.locator(".language-console", has_text="limner evaluate scenes -O images=100 --images").first
    block.hover()
    block.locator("button").first.click()
    copied = block.locator("button").first.get_attribute("data-clipboard-text")
    assert copied.startswith("limner evaluate scenes -O images=100 --images") and copied.count("\n") == 1
    assert "R@10  " not in copied and "$" not in copied
    context.close()


def test_pages_have_a_previous_and_a_next(site):
    text = (site / "tutorials" / "labels.html").read_text(encoding="utf-8")
    assert "clip.html" in text.partition("md-footer__link--prev")[0][-600:] + text.partition("md-footer__link--prev")[2]
    assert "md-footer__link--next" in text


def test_evidence_and_the_total_show_what_is_saved():
    assert pages.stale() == [], "run python benchmarks/pages.py; a script is listed in benchmarks/themes.toml"
    for page in ("README.md", "docs/index.md"):
        assert pages.total() in (ROOT / page).read_text(encoding="utf-8"), page


def test_links_between_the_manual_and_the_evidence_lead_somewhere():
    """In the repository; the build of the site checks those of the site."""
    texts = {path: path.read_text(encoding="utf-8") for path in [*PAGES, *(ROOT / "evidence").glob("*.md")]}
    links = [(path, link) for path, text in texts.items() for link in re.findall(r"\]\(([^)#:]+)[^):]*\)", text)]
    assert [(path.name, link) for path, link in links if not (path.parent / link).exists()] == []


def test_the_site_has_the_evidence_and_all_claims(site):
    names = {path.stem for path in (ROOT / "evidence").glob("*.md")} - {"README"}
    built = {path.stem for path in (site / "evidence").glob("*.html")}
    assert built == names | {"index", "all_benchmarks", "all_proofs"}
    every_claim = (site / "evidence" / "all_proofs.html").read_text(encoding="utf-8")
    assert "proofs/cut_off.py" in every_claim and ">yes</td>" in every_claim


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
    ("change", "accepted"),
    [
        (("52.8", "51.4"), True),
        (("*  < 0.0001", "   0.0312"), True),
        (("...", "one more line 7"), True),
        (("52.8", "48.8"), False),
        (("mine", "theirs"), False),
        (("MedR", "MeanR"), False),
    ],
)
def test_numbers_that_are_near_and_words_that_are_not(change, accepted):
    assert codeblocks.nearly(SHOWN, SHOWN.replace(*change)) is accepted


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
