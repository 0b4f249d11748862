"""PDF files as pages, drawn when they are opened."""

from __future__ import annotations

import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from pictures import png, put

from limner.core.errors import LimnerError, MissingExtra
from limner.datasets import detect, load
from limner.datasets.pdf_pages import InPdf, load_pdfs


def pdf(sizes) -> bytes:
    """A PDF file of empty pages of these sizes."""
    kids = " ".join(f"{3 + number} 0 R" for number in range(len(sizes)))
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(sizes)} >>"]
    objects += [f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {width} {height}] >>" for width, height in sizes]
    content, places = "%PDF-1.4\n", []
    for number, each in enumerate(objects, start=1):
        places.append(len(content))
        content += f"{number} 0 obj\n{each}\nendobj\n"
    entries = "".join(f"{place:010} 00000 n \n" for place in places)
    table = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{entries}"
    return (
        f"{content}{table}trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(content)}\n%%EOF".encode()
    )


def test_without_the_package_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    with pytest.raises(MissingExtra, match=r"pip install 'limner\[pdf\]'"):
        load_pdfs(put(tmp_path, a__pdf=pdf([(72, 72)])))


def test_a_folder_is_told_by_its_files(tmp_path):
    put(tmp_path / "papers" / "2019", a__PDF=b"")
    assert detect(tmp_path / "papers").name == "pdf"
    put(tmp_path / "papers", photo__png=png())
    assert detect(tmp_path / "papers").name == "images"


def test_pages_are_images_and_bad_files_are_listed(tmp_path):
    pytest.importorskip("pypdfium2")
    put(tmp_path / "papers", a__pdf=pdf([(100, 50), (50, 100)]), bad__pdf=b"%PDF-1.4 nothing")
    put(tmp_path / "papers" / "more", b__pdf=pdf([(14_400, 7_200), (10_000, 10)]))
    loaded = load(tmp_path / "papers")
    assert list(loaded.images.ids) == ["a.pdf#1", "a.pdf#2", "more/b.pdf#1"]
    assert loaded.images.field("page") == (1, 2, 1) and loaded.images.field("document")[2] == "more/b.pdf"
    assert [loaded.images.open(row).size for row in range(3)] == [(200, 100), (100, 200), (4000, 2000)]
    assert any("bad.pdf: does not open as a PDF" in warning for warning in loaded.warnings)
    assert any("more/b.pdf: 1 page without a usual shape" in warning for warning in loaded.warnings)


def test_pages_are_drawn_from_several_threads(tmp_path):
    pytest.importorskip("pypdfium2")
    file = put(tmp_path, a__pdf=pdf([(100 + number, 50) for number in range(8)])) / "a.pdf"
    pages = pickle.loads(pickle.dumps([InPdf(str(file), page, 72.0) for page in range(8)]))
    with ThreadPoolExecutor(4) as pool:
        sizes = list(pool.map(lambda page: page().size, pages * 3))
    assert sizes == [(100 + number, 50) for number in range(8)] * 3


@pytest.mark.parametrize(
    ("options", "message"), [({"resolution": 0}, "expected 1 to 1200"), ({"split": "test"}, "have no splits")]
)
def test_wrong_options_are_refused(tmp_path, options, message):
    with pytest.raises(LimnerError, match=message):
        load_pdfs(put(tmp_path, a__pdf=b""), **options)
