"""Bad input, each kind with its message: what is refused and what is listed."""

from __future__ import annotations

import gzip
import re

import pytest
from pictures import png, put

from limner.core.errors import LimnerError
from limner.datasets import load

HEAD = "image,caption"

REFUSED = {
    "missing file": (None, None, "no file or folder .*nothing.csv"),
    "empty file": ("t.csv", "", "t.csv: the file is empty; expected a header and rows"),
    "header alone": ("t.csv", HEAD + "\n", "t.csv: no rows; expected one caption per row"),
    "no column image": (
        "t.csv",
        "picture,caption\na,x\n",
        r"line 2: no column 'image' or .*; there are 'picture', 'caption'; name it with columns=\{'image'",
    ),
    "no column caption": ("t.csv", "image,words\na,x\n", "line 2: no column 'caption' or 'text'"),
    "a column named twice": ("t.csv", "image,caption,caption\na,x,y\n", "line 1: column 'caption' is named twice"),
    "a row too short": ("t.csv", HEAD + "\na,x\nb\n", "line 3: 1 columns, the header has 2"),
    "a row too long": (
        "t.csv",
        HEAD + "\na,x, and more\n",
        "line 2: 3 columns, the header has 2; quote cells that hold ','",
    ),
    "an unclosed quote": ("t.csv", HEAD + '\na,"x\nb,y\nc,z\n', "line 2: broken quoting .*close the quote"),
    "a byte that is not UTF-8": (
        "t.csv",
        f"{HEAD}\na,x\nb,caf".encode() + b"\xe9\n",
        "line 3: byte 0xe9 after 'b,caf' is not UTF-8",
    ),
    "UTF-16": ("t.csv", f"{HEAD}\na,x\n".encode("utf-16"), "line 1: the file is UTF-16; save it as UTF-8"),
    "a zero byte": ("t.csv", HEAD.encode() + b"\na,x\0y\n", "line 2: a zero byte: this is not a text file in UTF-8"),
    "a repeated caption id": (
        "t.csv",
        "image,caption,id\na,x,7\nb,y,7\n",
        "line 3: caption id '7' was already used at .*line 2",
    ),
    "a pair judged twice": (
        "t.csv",
        "image,caption,id,grade\na,x,7,1\na,x,7,0\n",
        "line 3: caption id '7' was already used",
    ),
    "two splits of one image": (
        "t.csv",
        "image,caption,split\na,x,train\na,y,test\n",
        "line 3: image 'a' is in split 'test' here and in 'train' at .*line 2",
    ),
    "a grade that is no number": ("t.csv", "image,caption,grade\na,x,good\n", "line 2: grade is 'good', expected a"),
    "a grade that is not finite": ("t.csv", "image,caption,grade\na,x,nan\n", "line 2: grade is 'nan', expected a"),
    "a negative grade": ("t.csv", "image,caption,grade\na,x,-1\n", "line 2: grade -1 is negative"),
    "a broken JSON line": (
        "t.jsonl",
        '{"image": "a", "caption": "x"}\n{"image": \n',
        "line 2 is not JSON: Expecting value",
    ),
    "a JSON line that is no object": ("t.jsonl", "[1, 2]\n", "line 1: a JSON list, expected an object"),
    "a caption that is no text": ("t.jsonl", '{"image": "a", "caption": 5}\n', "line 1: the caption is 5, expected"),
    "a file that is no parquet": ("t.parquet", "image,caption\n", "t.parquet is not a valid parquet table"),
    "a file that is no gzip": ("t.csv.gz", "image,caption\na,x\n", "t.csv.gz cannot be read: Not a gzipped file"),
    "a gzip cut short": (
        "t.csv.gz",
        gzip.compress(f"{HEAD}\na,x\n".encode() * 50)[:40],
        "t.csv.gz cannot be read: .*ended",
    ),
    "a form unknown": ("t.docx", "x", "not a format that limner recognises; give its format as NAME:"),
    "a qrels line too short": ("t.qrels", "q 0 d 1\nq 0 e\n", "line 2: 3 columns, expected 4 separated by blanks"),
}

LISTED = {
    "an empty caption": (HEAD + "\na,x\na,  \nb,y\nb,\n", "lines 3, 5: empty caption, left out", 2),
    "a caption without image": (HEAD + "\na,x\n,y\n", "line 3: no image in this row; caption left out", 1),
    "a picture that is not there": (
        HEAD + "\np.png,x\nq.png,y\n",
        "line 3: the image is not in .*; kept without pixels",
        2,
    ),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refused(tmp_path, kind):
    name, content, message = REFUSED[kind]
    if name is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(LimnerError, match=message) as caught:
        load(tmp_path / (name or "nothing.csv"))
    assert str(tmp_path) in str(caught.value), "the message names the file"


@pytest.mark.parametrize("kind", LISTED)
def test_listed_or_refused_when_strict(tmp_path, kind):
    content, message, kept_files = LISTED[kind]
    put(tmp_path, t__csv=content, p__png=png())
    loaded = load(tmp_path / "t.csv")
    (warning,) = loaded.warnings
    assert re.search(rf"t\.csv, {message}", warning)
    assert len(loaded.texts) == kept_files
    with pytest.raises(LimnerError, match=r"t\.csv, line 3: .*strict=True makes this an error"):
        load(tmp_path / "t.csv", strict=True)


def test_many_lines_are_one_warning(tmp_path):
    put(tmp_path, t__csv=HEAD + "\na,x\n" + "a,\n" * 1500)
    (warning,) = load(tmp_path / "t.csv").warnings
    assert "lines 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 and 1,490 more: empty caption" in warning


def test_there_are_at_least_twenty_kinds():
    assert len(REFUSED) + len(LISTED) >= 20
