"""The first search of a person: `limner serve --index` over all 8,091 photographs of Flickr8k, until images are there.

The server is started and answers its home page; nobody has searched yet. The time is from the request of a search to
the last byte of the page and of its first six images, one after the other, as a slow browser would load them. Then
further captions, each a new query with new images, and the first search by words and vectors, for which captions are
read and counted. The index holds captions and fields; its model is limner's small one, trained on 1,000 of the
photographs.
"""

from __future__ import annotations

import re
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from claims import Claim, log, main
from serve_index import served

IMAGES, ASKED, TRAINED = 6, 40, 1000
_IMAGE = re.compile(r'<img src="(/image\?[^"]+)"')


def made(folder: Path, data: Path | None) -> list[str]:
    """An index of a whole collection; captions to ask with."""
    import limner
    from limner.search import index, with_captions

    pairs = limner.load("scenes", images=200) if data is None else limner.load(f"flickr8k:{data / 'flickr8k'}")
    log(f"making an index of {len(pairs.images):,} images")
    some = pairs.train
    model = limner.train(some.restrict(some.images.ids[:TRAINED]), "histograms")
    model.save(folder / "model")
    vectors = model.encode_images(pairs.images)
    index(folder / "photos.index", vectors, with_captions(pairs), system=model, system_name=str(folder / "model"))
    return list(pairs.test.texts.values[:: max(1, len(pairs.test.texts) // ASKED)][:ASKED])


def seconds(address: str, words: str, more: str = "") -> float:
    """From the request to the last byte of the page and its first images."""
    began = time.perf_counter()
    with urllib.request.urlopen(f"{address}/search?q={quote(words)}{more}", timeout=120) as reply:
        page = reply.read().decode()
    images = [unescape(each) for each in _IMAGE.findall(page)[:IMAGES]]
    if len(images) < IMAGES:
        raise SystemExit(f"{len(images)} images on the page of {words!r}: expected {IMAGES}")
    for each in images:
        with urllib.request.urlopen(address + each, timeout=120) as reply:
            reply.read()
    return time.perf_counter() - began


def run(options: Any) -> Iterator[Claim]:
    """Measures the first search and further ones."""
    data = None if options.quick else options.data
    with tempfile.TemporaryDirectory() as there:
        folder = Path(there)
        captions = made(folder, data)
        what = "8,091 photographs" if data is not None else "200 drawn images"
        with served(folder) as (address, _):
            first = seconds(address, captions[0])
            further = [seconds(address, words) for words in captions[1:]]
            hybrid = seconds(address, f"{captions[1]} -xyzzy", "&by=hybrid")
    yield Claim(f"first search over {what}, with its first {IMAGES} images, s", first, goal="<= 2")
    p95 = float(np.quantile(further, 0.95))
    yield Claim(f"p95 of {len(further)} further searches over {what}, with images, s", p95, goal="<= 2")
    yield Claim(f"first search by words and vectors over {what}, with images, s", hybrid, goal="<= 2")


if __name__ == "__main__":
    main(run, __doc__)
