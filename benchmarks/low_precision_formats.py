"""Which number format could filter: how many candidates bfloat16, int8 and FP8 leave to verify, and how fast FP8 is.

Vectors are rounded to each format, with a scale per vector, and every score is bounded as in
`limner.core.lowprecision`. A candidate has to be verified if its bound reaches the k-th best: as the bounds alone tell
it ("by bounds"), or, the least that any way of verifying can do, as its float32 score tells it ("known"). int8 is as in
limner, with vectors rotated where that helps, and beside it without. Rounding is emulated, so this needs no GPU.

`--only card` measures products on a GPU with FP8 units (compute capability 8.9 or more) and what the candidates may
cost; without one this part is left out. Needs torch, and nothing else for the card:
`PYTHONPATH=src python benchmarks/low_precision_formats.py --only card`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from claims import Claim, log, main, result_file
from limner.core.lowprecision import READ, Bounds, Rounded, accumulation, upward
from limner.scores.device_products import low_products
from limner.scores.int8 import Int8
from limner.scores.near import LEAST_ROOM, SHARE

K, QUERIES, CANDIDATES = 10, 128, 100_000
FORMATS = ("bfloat16", "int8", "int8, not rotated", "e4m3", "e5m2")
OFFERED, FP8 = FORMATS[:2], FORMATS[3]
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0}
ROWS, PADDED = 8192, 100_352
"""The shape of products on a card; the sizes that FP8 units like are multiples of 256."""
Tensor = Any


@dataclass(frozen=True, eq=False)
class Near:
    """Vectors in a format: codes times scale.

    Args:
        codes: Numbers that the format can represent.
        scale: One number per vector.
        lengths: The lengths that bound the effect of rounding.
    """

    codes: Tensor
    scale: Tensor
    lengths: Rounded

    @classmethod
    def of(cls, vectors: Tensor, form: str) -> Near:
        """Rounds vectors to the nearest codes."""
        import torch

        codes, scale = _codes(vectors, form)
        near = codes.double() * scale.double()[:, None]
        wide = vectors.double(), near, vectors.double() - near
        exact = 1 + (vectors.shape[1] + 4) * 2.0**-52
        lengths = [torch.linalg.vector_norm(each, dim=1).cpu().numpy() * exact for each in wide]
        return cls(codes, scale, Rounded(np.empty((0, vectors.shape[1]), np.uint16), *map(upward, lengths)))

    @classmethod
    def both(cls, queries: Tensor, candidates: Tensor, form: str) -> tuple[Near, Near]:
        """Both sides of products; int8 as limner rounds them."""
        import torch

        if not form.startswith("int8"):
            return cls.of(queries, form), cls.of(candidates, form)
        given = [each.cpu().numpy() for each in (queries, candidates)]
        own = Int8(emulated=True, rotated=None if form == "int8" else False).suited(*given)
        rows, columns = (own.round(each) for each in given)
        sides = [cls(*(torch.from_numpy(part).to(queries) for part in (each.codes, each.scale)), each)
                 for each in (rows, columns)]  # fmt: skip
        return sides[0], sides[1]


def _codes(vectors: Tensor, form: str) -> tuple[Tensor, Tensor]:
    """The codes as float32, and the scales: of int8 as in limner, of FP8 powers of two that use the whole range."""
    import torch

    if form == "bfloat16":
        return vectors.bfloat16().float(), torch.ones(len(vectors), device=vectors.device)
    highest = vectors.abs().amax(dim=1)
    if form == "int8":
        scale = highest / 127
        return (vectors * (1 / scale)[:, None]).round().clamp(-127, 127), scale
    scale = torch.exp2(torch.ceil(torch.log2(highest / LARGEST[form])))
    return (vectors / scale[:, None]).to(_kind(form)).float(), scale


def _kind(form: str) -> Any:
    import torch

    return {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[form]


@dataclass(frozen=True)
class Left:
    """What a format leaves to verify.

    Args:
        by_bounds: Candidates per query whose bound reaches the k-th best lower bound.
        known: Candidates per query whose bound reaches the k-th best score.
        outside: Scores that are not within their bound: must be 0.
    """

    by_bounds: float
    known: float
    outside: int


def left(queries: Tensor, candidates: Tensor, form: str, k: int = K) -> Left:
    """Counts the candidates that this format cannot rule out."""
    import torch

    from limner.scores.device import full_precision

    rows, columns = Near.both(queries, candidates, form)
    bounds = Bounds.of(rows.lengths, columns.lengths)
    query, candidate = (torch.as_tensor(each, device=queries.device) for each in (bounds.query, bounds.candidate))
    with full_precision():
        score = queries @ candidates.T
        read = ((rows.codes @ columns.codes.T) * columns.scale * rows.scale[:, None]).bfloat16().float()
    reach = query[:, :1] * candidate[0] + query[:, 1:2] * candidate[1] + query[:, 2:] + READ * read.abs()
    outside = int(((score - read).abs() > reach).sum())
    k = min(k, len(candidates))
    floors = ((read - reach).topk(k, dim=1).values[:, -1:], score.topk(k, dim=1).values[:, -1:])
    counts = [float((read + reach >= floor).sum(dim=1).double().mean()) for floor in floors]
    return Left(*counts, outside)


# --- vectors -----------------------------------------------------------------------------------------------------


def unit(vectors: Any) -> Tensor:
    """As float32 tensors of length 1."""
    import torch

    made = np.ascontiguousarray(vectors, dtype=np.float32)
    return torch.from_numpy(made / np.linalg.norm(made, axis=1, keepdims=True))


def random(dimensions: int, n: int) -> tuple[Tensor, Tensor]:
    """Independent normal numbers."""
    rng = np.random.default_rng(0)
    queries, candidates = (rng.standard_normal((rows, dimensions), dtype=np.float32) for rows in (QUERIES, n))
    return unit(queries), unit(candidates)


def clustered(dimensions: int, n: int) -> tuple[Tensor, Tensor]:
    """Candidates and queries around a hundredth as many centres: about a hundred neighbours with a cosine of 0.8."""
    rng = np.random.default_rng(1)
    centres = rng.standard_normal((n // 100, dimensions), dtype=np.float32)
    around = (
        centres[rng.integers(len(centres), size=rows)] + 0.5 * rng.standard_normal((rows, dimensions), dtype=np.float32)
        for rows in (QUERIES, n)
    )
    queries, candidates = map(unit, around)
    return queries, candidates


def clip(data: Path) -> tuple[Any, Any]:
    """500 texts and images of CLIP ViT-B/32."""
    return tuple(np.load(data / f"clip-unsplash500/{side}_embeddings.npy") for side in ("text", "image"))  # type: ignore[return-value]


def like_clip(data: Path, n: int) -> tuple[Tensor, Tensor]:
    """CLIP's texts, and candidates drawn with the mean and the covariance of its images."""
    texts, images = clip(data)
    rng, mean = np.random.default_rng(2), images.mean(axis=0)
    mixed = rng.standard_normal((n, len(images)), dtype=np.float32) @ (images - mean) / np.sqrt(len(images) - 1)
    return unit(texts[:QUERIES]), unit(mean + mixed)


def photographs(data: Path) -> tuple[Tensor, Tensor]:
    """Flickr8k's photographs among each other, features of EfficientNet-Lite0."""
    features = unit(np.load(data / "flickr8k/features/efficientnet_lite0_pool1280_fp16.npy"))
    return features[:QUERIES], features[QUERIES:]


def coco(data: Path) -> tuple[Tensor, Tensor]:
    """COCO's images and 25,000 captions, drawn like a published model: see `coco_vectors`."""
    from coco_vectors import like_a_model
    from evaluate import truth

    images, texts = like_a_model(truth(5_000, data))
    return unit(images[:QUERIES]), unit(texts)


def worlds(data: Path | None, n: int, quick: bool) -> Iterator[tuple[str, Tensor, Tensor]]:
    """(name, queries, candidates) of everything at hand."""
    for dimensions in (512,) if quick else (512, 768):
        yield f"random, {n:,} of d {dimensions}", *random(dimensions, n)
        yield f"clustered, {n:,} of d {dimensions}", *clustered(dimensions, n)
    if data is not None and (data / "clip-unsplash500").is_dir():
        texts, images = map(unit, clip(data))
        yield "CLIP, texts to 500 images of d 512", texts, images
        yield "CLIP, images to 500 texts of d 512", images, texts
        yield f"drawn like CLIP's images, {n:,} of d 512", *like_clip(data, n)
    if data is not None and (data / "flickr8k" / "features").is_dir():
        yield "photographs, 7,963 of d 1280", *photographs(data)
    if data is not None and (data / "coco").is_dir() and not quick:
        yield "COCO captions like a model's, 25,000 of d 256", *coco(data)


def counts(data: Path | None, quick: bool, rows: list[str]) -> Iterator[Claim]:
    """What every format leaves of every kind of vectors; `rows` gets a line of a table for each."""
    outside = 0
    for name, queries, candidates in worlds(data, CANDIDATES // 10 if quick else CANDIDATES, quick):
        found = {form: left(queries, candidates, form) for form in FORMATS}
        outside += sum(each.outside for each in found.values())
        cells = [f"{each.by_bounds:,.0f} ({each.known:,.0f})" for each in found.values()]
        rows.append(f"| {name} | {' | '.join(cells)} |")
        log(rows[-1])
        room = max(len(candidates) // SHARE, LEAST_ROOM)
        for form in OFFERED:
            what = f"{name}: candidates per query to verify after {form} vs the most that limner verifies"
            yield Claim(what, found[form].by_bounds, room, goal="<= 1")
        note = f"above 1 limner would compute in float32: this is why {FP8} is not offered"
        yield Claim(f"{name}: the same after {FP8} (FP8)", found[FP8].by_bounds, room, goal="> 1", note=note)
    yield Claim("scores outside their bound, all formats and vectors", outside, goal="== 0")


# --- the card ----------------------------------------------------------------------------------------------------


def has_units() -> bool:
    """Whether there is a GPU with FP8 units."""
    import torch

    return torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 9)


def fp8_products(rows: Near, columns: Near, *, fast: bool = False) -> Tensor:
    """e4m3 products in bfloat16, by FP8 units where there are any."""
    import torch

    a, b = (each.codes.to(torch.float8_e4m3fn) for each in (rows, columns))
    scales = rows.scale[:, None].contiguous(), columns.scale[None].contiguous()
    return torch._scaled_mm(a, b.t(), *scales, out_dtype=torch.bfloat16, use_fast_accum=fast)


def share_of_bound(products: Tensor, rows: Near, columns: Near) -> float:
    """The largest error of sums on the card, in what the bound allows for them; above 1 it does not hold."""
    a, b = (each.codes.double() * each.scale.double()[:, None] for each in (rows, columns))
    read = products.double()
    allowed = accumulation(a.shape[1]) * (a.abs() @ b.abs().T) + READ * read.abs() + 2.0**-120
    return float(((read - a @ b.T).abs() / allowed).max())


def card(dimensions: int, quick: bool) -> Iterator[Claim]:
    """The time of the products, whether their sums keep the bound, and how many candidates the saved time pays for."""
    import torch

    n = PADDED // 4 if quick else PADDED
    made = (torch.randn(count, dimensions, device="cuda", generator=_seeded()) for count in (ROWS, n))
    queries, candidates = (each / each.norm(dim=1, keepdim=True) for each in made)
    size = f"{ROWS:,} x {n:,}, d {dimensions}"
    seconds = product_seconds(queries, candidates)
    for form, other in (("bfloat16", "float32"), ("e4m3", "bfloat16"), ("e4m3, fast sums", "bfloat16"),
                        ("int8", "bfloat16")):  # fmt: skip
        if form in seconds:
            yield Claim(
                f"card: {form} product vs {other}, seconds ({size})", seconds[form], seconds[other], goal="<= 1"
            )
    few, many = Near.of(queries[:256], "bfloat16"), Near.of(candidates[:4096], "bfloat16")
    worst = share_of_bound(low_products(few.codes.bfloat16(), many.codes.bfloat16()), few, many)
    what = f"card: largest error of sums of bfloat16, in what the bound allows (d {dimensions})"
    yield Claim(what, worst, goal="<= 1", note="limner tests it before it uses them")
    few, many = Near.of(queries[:256], "e4m3"), Near.of(candidates[:4096], "e4m3")
    for fast, name in ((False, "sums"), (True, "fast sums")):
        worst = share_of_bound(fp8_products(few, many, fast=fast), few, many)
        what = f"card: largest error of {name} of e4m3, in what the bound allows (d {dimensions})"
        yield Claim(what, worst, goal="<= 1")
    pair = pair_seconds(queries, candidates)
    found = {form: left(queries[:QUERIES], candidates, form) for form in FORMATS}
    more = found["e4m3"].known - found["bfloat16"].known
    paid = max(seconds["bfloat16"] - min(seconds["e4m3"], seconds["e4m3, fast sums"]), 0.0) / ROWS / pair
    yield Claim(
        f"card: candidates per query that e4m3 leaves beyond bfloat16 vs those that its product pays for ({size})",
        more, paid, goal="> 1", note=f"above 1, FP8 costs more than it saves; a pair takes {pair * 1e9:.2f} ns",
    )  # fmt: skip


def _seeded() -> Any:
    import torch

    return torch.Generator("cuda").manual_seed(0)


def product_seconds(queries: Tensor, candidates: Tensor) -> dict[str, float]:
    """Seconds of the bare products in every format, vectors already rounded."""
    import torch

    from limner.scores.device import full_precision

    low = [each.bfloat16() for each in (queries, candidates)]
    rows, columns = (Near.of(each, "e4m3") for each in (queries, candidates))
    codes = [each.codes.to(torch.float8_e4m3fn) for each in (rows, columns)]
    scales = rows.scale[:, None].contiguous(), columns.scale[None].contiguous()
    whole = [_codes(each, "int8")[0].to(torch.int8) for each in (queries, candidates)]

    def fp8(fast: bool) -> Tensor:
        return torch._scaled_mm(codes[0], codes[1].t(), *scales, out_dtype=torch.bfloat16, use_fast_accum=fast)

    works: dict[str, Callable[[], Tensor]] = {
        "float32": lambda: queries @ candidates.T,
        "bfloat16": lambda: low[0] @ low[1].T,
        "e4m3": lambda: fp8(False),
        "e4m3, fast sums": lambda: fp8(True),
        "int8": lambda: torch._int_mm(whole[0], whole[1].t()),
    }
    with full_precision():
        return {name: on_card(work) for name, work in works.items()}


def pair_seconds(queries: Tensor, candidates: Tensor) -> float:
    """Seconds for one pair, of many that are computed again as in `limner.scores.device_filtering`."""
    import torch

    number = 1 << 16
    rows = torch.randint(len(queries), (number,), device="cuda", generator=_seeded()).sort().values
    columns = torch.randint(len(candidates), (number,), device="cuda", generator=_seeded())
    return on_card(lambda: (queries[rows] * candidates[columns]).sum(dim=1)) / number


def on_card(work: Callable[[], object], rounds: int = 7) -> float:
    """Median seconds, after two runs that do not count."""
    import torch

    seconds = []
    for _ in range(rounds + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[2:])


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Counts, and times on a card if there is one."""
    if options.only in (None, "counts"):
        rows = [f"| top-10 | {' | '.join(FORMATS)} |", "|---" + "|---:" * len(FORMATS) + "|"]
        yield from counts(options.data, options.quick, rows)
        if options.save and not options.quick:
            result_file(Path(__file__), options, ".md").write_text("\n".join(rows) + "\n", encoding="utf-8")
    if options.only in (None, "card"):
        if not has_units():
            log("no GPU with FP8 units (compute capability 8.9 or more) here: its products are not timed")
            return
        options.device = "cuda"
        for dimensions in (512, 768):
            yield from card(dimensions, options.quick)


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds `--only`."""
    parser.add_argument("--only", choices=("counts", "card"), help="candidates to verify, or products on a GPU")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
