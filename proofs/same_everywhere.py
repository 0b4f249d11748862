"""Every machine gives the same: pixels, captions, judgements, features, rankings, a comparison, the demo.

Each machine writes a record of exact values and fingerprints (SHA-256 of the bytes), and two records are compared:

    python proofs/same_everywhere.py --save one.json       # on one machine
    python proofs/same_everywhere.py --save other.json     # on another
    python proofs/same_everywhere.py --compare one.json other.json

`--save` without a file keeps the record of this kind of machine in `records/`, and claims that it equals those of the
other kinds. `--quick` takes 40 pictures and leaves out the demo. No data is needed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import hardware
import limner
from claims import Claim, log, main
from limner.cli.demo_chapters import chapters
from limner.encoders.image_descriptors import Histograms
from limner.systems.classic.descriptors import DESCRIPTORS

RECORDS = ROOT / "proofs" / "records"
FROZEN = ROOT / "tests" / "same_everywhere.json"
FEW = 40
MEASURED = ("numpy", "scipy", "numba", "pillow", "scikit-learn")

DIGITS = 1e-12
"""Scores, rankings and measures are compared by fingerprints, to the bit. Numbers that are written out may differ by
this share: the p-values of McNemar's test come from functions of the system's C library, whose last digits depend on
the CPU (at most 4e-15 between aarch64 and x86-64). No table shows so many digits."""

Values = dict[str, Any]


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Takes the record of this machine and compares it with those of other kinds."""
    own_record = record(quick=options.quick)
    family = own_record["machine"]["family"].lower()
    frozen = json.loads(FROZEN.read_text(encoding="utf-8"))
    changed = different(own_record if options.quick else record(quick=True), frozen)
    note = f"{len(frozen['values'])} values, frozen on {frozen['machine']['family']} at commit {frozen['commit']}"
    yield Claim("values of the small record that differ from the frozen one", len(changed), goal="== 0", note=note)
    for path in sorted(RECORDS.glob("*.json")):
        if path.stem != family:
            saved_record = json.loads(path.read_text(encoding="utf-8"))
            yield Claim(
                f"values that differ from those of {path.stem}", len(different(own_record, saved_record)), goal="== 0"
            )
    if options.save and not options.quick:
        RECORDS.mkdir(exist_ok=True)
        write(own_record, RECORDS / f"{family}.json")


def record(*, quick: bool) -> dict[str, Any]:
    """All values of this machine, and what it is."""
    values: Values = {}
    for part in (world_values, comparison_values, system_values, demo_values):
        log(f"same_everywhere: {part.__name__.replace('_', ' ')}")
        values |= part(quick)
    versions = {name: version(name) for name in MEASURED}
    return {"machine": hardware.machine(), "commit": hardware.commit(ROOT), "versions": versions, "values": values}


def world_values(quick: bool) -> Values:
    """The world as it is drawn, told and judged, and the features of its first pictures."""
    world = limner.load("scenes", images=FEW if quick else 2000, graded=True)
    first = [np.asarray(world.images.open(row)) for row in range(FEW)]
    captions = zip(world.texts.ids, world.texts.values, world.texts.field("meaning"), strict=True)
    judged = {name: (j.rows, j.columns, j.grades) for name, j in world.extra.items()}
    return {
        f"pixels of the first {FEW} pictures": fingerprint(*first),
        "captions and meanings": fingerprint("\n".join(f"{i}\t{text}\t{meaning}" for i, text, meaning in captions)),
        **{f"judgements {name}": fingerprint(*arrays) for name, arrays in judged.items()},
        **{f"descriptors {name}": fingerprint(*(of(p).values for p in first)) for name, of in DESCRIPTORS.items()},
        "descriptions": fingerprint(Histograms().encode(world.images[:FEW])),
    }


def comparison_values(quick: bool) -> Values:
    """A comparison of a trained system with and without a correction, and what it computes on the way."""
    pairs = limner.load("scenes", images=FEW if quick else 800)
    model: Any = limner.train(pairs, "kcca")
    scores = model.scores(pairs.test)
    plain = limner.evaluate(scores, pairs.test, measures="R@1 mAP@R", name="plain")
    csls = limner.evaluate(scores.correct("csls"), pairs.test, measures="R@1 mAP@R", name="csls")
    return {
        "comparison": str(csls.compare(plain)).rstrip().splitlines(),
        "kcca settings": [str(setting) for setting in model.settings["i2t"]],
        "kcca visual words": fingerprint(*model.image_kernel.vocabulary.words.values()),
        "kcca counts": fingerprint(*model.images.counts.values()),
        **rankings("kcca", scores),
        **rankings("kcca csls", scores.correct("csls")),
    }


def system_values(quick: bool) -> Values:
    """The rankings of the other built-in systems."""
    world = limner.load("scenes", images=FEW if quick else 2000)
    values: Values = {}
    for name in ("histograms", "colours"):
        model: Any = limner.train(world, name)
        values |= rankings(name, model.scores(world.test))
    return values


def demo_values(quick: bool) -> Values:
    """The numbers of every chapter of the demo; none where time is short."""
    if quick:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        sections = list(chapters(folder))
    numbers = ({k: v for k, v in c.data.items() if k not in ("files", "seconds")} for c in sections)
    return {f"demo, chapter {place}": data for place, data in enumerate(numbers, 1)}  # titles may be reworded


def rankings(name: str, scores: limner.Scores) -> Values:
    """Scores and rankings in both directions."""
    return {
        f"{name} scores": fingerprint(scores.matrix()),
        f"{name} ranking of texts": fingerprint(scores.ranking().indices),
        f"{name} ranking of images": fingerprint(scores.T.ranking().indices),
    }


def fingerprint(*parts: str | np.ndarray[Any, Any]) -> str:
    """The start of the SHA-256 of texts and of arrays with their types and shapes, in the byte order of small ends."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            digest.update(part.encode())
        else:
            plain = np.ascontiguousarray(part, dtype=part.dtype.newbyteorder("<"))
            digest.update(f"{plain.dtype.str}{plain.shape}".encode() + plain.tobytes())
    return digest.hexdigest()[:16]


def different(one: dict[str, Any], second: dict[str, Any]) -> list[str]:
    """The names of values that two records do not share."""
    a, b = (json.loads(json.dumps(each["values"])) for each in (one, second))
    return sorted(
        name for name in a.keys() | b.keys() if name not in a or name not in b or not is_equal(a[name], b[name])
    )


def is_equal(one: Any, second: Any) -> bool:
    """Whether two values are equal, parts of parts included; numbers to `DIGITS`, everything else exactly."""
    if isinstance(one, dict) and isinstance(second, dict):
        return one.keys() == second.keys() and all(is_equal(one[name], second[name]) for name in one)
    if isinstance(one, list) and isinstance(second, list):
        return len(one) == len(second) and all(map(is_equal, one, second))
    if isinstance(one, float) and isinstance(second, float):
        return one == second or math.isclose(one, second, rel_tol=DIGITS)
    return bool(one == second)


def compare(paths: list[Path]) -> str:
    """What two or more records say of each other; empty if they are the same."""
    records = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in paths}
    (first, base_record), *other_records = records.items()
    differences = []
    for name, compared_record in other_records:
        for value in different(base_record, compared_record):
            base_value, theirs = (
                json.dumps(each["values"].get(value), indent=1) for each in (base_record, compared_record)
            )
            differences.append(f"{value}\n  {first}: {base_value}\n  {name}: {theirs}")
    log(f"{len(base_record['values'])} values of {', '.join(records)}: {len(differences)} differ")
    return "\n".join(differences)


def write(contents: dict[str, Any], path: Path) -> None:
    """Writes a record."""
    path.write_text(json.dumps(contents, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    log(f"saved {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{FEW} pictures, and no demo")
    parser.add_argument("--save", nargs="?", type=Path, const=True, metavar="FILE", help="keep the record, and where")
    parser.add_argument("--compare", nargs="+", type=Path, metavar="FILE", help="records to compare")
    given = parser.parse_known_args()[0]
    if given.compare:
        sys.exit(compare(given.compare))
    if isinstance(given.save, Path):
        write(record(quick=given.quick), given.save)
    else:
        main(run, __doc__)
