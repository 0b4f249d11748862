"""From embeddings to every COCO, CxC and ECCV Caption number: limner, the bare work, and the package `eccv_caption`.

5,000 images, 25,000 captions, 256 dimensions, the real ground truth; COCO 5K, COCO 1K, CxC and ECCV Caption in both
directions. The vectors are drawn so that the numbers come near those of a published model, VSE∞ (BUTD region):
`coco_vectors` says how near. A second world, the worst case for low precision, gives the pairs that CxC and ECCV
Caption add no signal at all. The bare work is products and counting with numpy and nothing else; the package is handed
full rankings. One thread for every library; limner may use all cores (or `--cores N`), and CPU-seconds count them all.
"Low precision" is limner as it decides, where the CPU has int8 units; it is measured with the 1,024
dimensions of that model too. `--no-package` leaves out the package, which takes minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from claims import Claim, Cost, Task, interleaved, main
from coco_vectors import DIMENSIONS, OWN_SIZE, Vectors, like_a_model, without_signal
from filter_choice import filter_passes, has_units
from limner import Collection, Embeddings, Ids, Items, Judgements, Scores
from limner import evaluate as evaluate_with_limner
from limner.datasets.coco import load_karpathy_5k

PROTOCOLS = ("coco-5k", "coco-1k", "cxc", "eccv")
MEASURES = "R@1 R@5 R@10 MedR mAP@R RP rsum"
FEW = 4
BLOCK = 256
DIRECTIONS = ("i2t", "t2i")
FEWER = 15

Values = dict[tuple[str, str, str], float]
World = Callable[..., Vectors]


def run(options: argparse.Namespace) -> Iterator[Claim]:
    images, rounds = (2500, 2) if options.quick else (5000, 5)
    inputs = (images, options.data)
    tasks = {"bound": Task(counting, *inputs), "limner": Task(limner, *inputs), "product": Task(product, *inputs)}
    tasks["rest"] = Task(limner, *inputs, FEW)
    tasks["worst"] = Task(limner, *inputs, DIMENSIONS, without_signal)
    if has_units(DIMENSIONS):
        tasks |= {"low precision": Task(low_precision, *inputs)}
        tasks |= {"worst, low": Task(low_precision, *inputs, DIMENSIONS, without_signal)}
        tasks |= {f"{name}, own size": Task(work, *inputs, OWN_SIZE) for name, work in OWN_SIZED.items()}
    costs = interleaved(tasks, rounds=options.rounds or rounds, threads=1, cores=options.cores)
    refuse_different_work(costs)
    size = f"{images:,} x {5 * images:,}" + (f", cores: {options.cores}" if options.cores else "")
    ours, bound = costs["limner"], costs["bound"]
    cores_note = f"limner on {options.cores or 'all'} cores, numpy on one"
    clock = f"by the clock {ours.wall:.1f} and {bound.wall:.1f} s; {cores_note}"
    yield Claim(f"embeddings to all numbers, {size}, vs the bare work, CPU s", ours.cpu, bound.cpu, "<= 1.3", clock)
    few_dimensions = costs["rest"]
    case = f"all numbers, {size}, from vectors of {FEW} dimensions (nearly all but the products)"
    yield Claim(
        f"{case}, vs the products of {DIMENSIONS}, CPU s", few_dimensions.cpu, costs["product"].cpu, goal="<= 0.6"
    )
    yield Claim(f"peak memory, {size}, MB", ours.peak, goal="< 700", note=f"the bare work takes {bound.peak:.0f}")
    if "low precision" in costs:
        case, sides = f"embeddings to all numbers, {size}, low precision", (images, 5 * images)
        yield from beside_float32(costs["low precision"], costs["limner"], costs["product"], case, sides)
        weak = f"{case}, worst case: pairs added by CxC and ECCV Caption without signal"
        yield from beside_float32(costs["worst, low"], costs["worst"], costs["product"], weak, sides)
        large = f"{case}, {OWN_SIZE:,} dimensions, VSE∞'s own size"
        yield from beside_float32(*(costs[f"{name}, own size"] for name in OWN_SIZED), large, sides)
    if options.package:
        package_costs = interleaved(
            {"limner": Task(limner, *inputs), "eccv_caption": Task(package, *inputs)},
            rounds=1,
            threads=1,
            cores=options.cores,
        )
        yield from beside_package(package_costs, size)


def beside_float32(ours: Cost, plain: Cost, product: Cost, case: str, sides: tuple[int, int]) -> Iterator[Claim]:
    """The same numbers from low-precision products, beside the float32 products of both directions and nothing else."""
    note = "" if has_units(DIMENSIONS) else "no int8 units here, so that limner does not use them"
    yield Claim(f"{case}, vs the bare float32 products, CPU s", ours.cpu, product.cpu, goal="<= 0.6", note=note)
    yield Claim(f"{case}, vs the float32 way, CPU s", ours.cpu, plain.cpu, goal="<= 1.05", note=note)
    read, expected_blocks = ours.value["blocks", "both", "float32"], sum(-(-side // BLOCK) for side in sides)
    yield Claim(f"{case}: share of blocks that are counted in float32", read, expected_blocks, goal="<= 0.1")
    yield Claim(
        f"{case}: numbers that differ from the float32 way",
        sum(ours.value[key] != value for key, value in plain.value.items()),
        goal="== 0",
    )


def beside_package(package_costs: dict[str, Cost], size: str) -> Iterator[Claim]:
    theirs, ours = package_costs["eccv_caption"], package_costs["limner"]
    times = f"{theirs.cpu / ours.cpu:.0f} times fewer; the package's process takes {theirs.peak:,.0f} MB"
    case = f"embeddings to all numbers, {size}, vs full rankings and eccv_caption, CPU s (a fifteenth or less)"
    yield Claim(case, ours.cpu, theirs.cpu, f"<= {1 / FEWER:.4f}", times)
    yield identical(ours.value, theirs.value, size)


def identical(ours: Values, theirs: Values, size: str) -> Claim:
    largest = max(abs(ours[key] - value) for key, value in theirs.items())
    note = "PMRP, for which the package ships no ground truth, is compared in tests/parity"
    return Claim(
        f"largest difference to eccv_caption's {len(theirs)} numbers, {size}", largest, goal="<= 1e-15", note=note
    )


def refuse_different_work(costs: dict[str, Cost]) -> None:
    """The bare work must have found the same: products in another order move a rank now and then, no more."""
    for direction in DIRECTIONS:
        ours, bare = costs["limner"].value["coco-5k", direction, "R@1"], costs["bound"].value[direction]
        if abs(ours - bare) > 2e-3:
            raise RuntimeError(f"R@1 {direction} is {ours} with limner and {bare} by bare counting: not the same work")


# --- the problem --------------------------------------------------------------------------------------------------


def truth(images: int, data: Path | None) -> Collection:
    """The test split with its folds, CxC and ECCV Caption; a quick run takes as many images of every fold."""
    folder = data / "coco" if data is not None and (data / "coco").is_dir() else None
    full_collection = load_karpathy_5k(folder)
    if images == len(full_collection.images):
        return full_collection
    image_rows = [n for fold in range(5) for n in range(fold * 1000, fold * 1000 + images // 5)]
    return full_collection.restrict(full_collection.images.ids[image_rows])


# --- limner -------------------------------------------------------------------------------------------------------


def limner(
    images: int, data: Path | None, dimensions: int = DIMENSIONS, world: World = like_a_model, precision: str = "never"
) -> Callable[[], Values]:
    filter_passes(precision)
    collection = truth(images, data)
    image_vectors, text_vectors = world(collection, dimensions)
    warm_up()
    return lambda: answers(collection, image_vectors, text_vectors)


def low_precision(
    images: int, data: Path | None, dimensions: int = DIMENSIONS, world: World = like_a_model
) -> Callable[[], Values]:
    """limner with int8 products where the CPU has units for them."""
    from limner.scores.exact_products import sum_ends
    from limner.scores.vectors import VectorScores

    filter_passes("always")
    warm_up()
    has_units(dimensions)  # measured once in a process, as is the order of sums
    sum_ends(dimensions)
    work, read, block = limner(images, data, dimensions, world, "auto"), 0, VectorScores.block

    def counted(*given: Any) -> Any:
        nonlocal read
        read += 1
        return block(*given)

    def values() -> Values:
        VectorScores.block = counted  # type: ignore[method-assign, assignment]
        return work() | {("blocks", "both", "float32"): read}

    return values


def answers(collection: Collection, images: np.ndarray, texts: np.ndarray) -> Values:
    scores = Scores.from_embeddings(Embeddings(collection.images.ids, images), Embeddings(collection.texts.ids, texts))
    report = evaluate_with_limner(scores, collection, protocol=PROTOCOLS, measures=MEASURES)
    return {r.key: r.value for r in report.results}


def warm_up() -> None:
    """Loads the compiled loops, from the cache on disk where they are there."""
    images, texts = (Ids([f"{side}{n}" for n in range(10)]) for side in ("image", "text"))
    fold = {"fold": [n // 2 for n in range(10)]}
    pairs = Judgements.from_pairs(zip(images, texts, strict=True))
    tiny = Collection("tiny", Items(images, [None] * 10, fold), Items(texts, [""] * 10, fold, "text"), pairs)
    points = np.random.default_rng(0).standard_normal((10, 4), dtype=np.float32)
    scores = Scores.from_embeddings(Embeddings(images, points), Embeddings(texts, points))
    evaluate_with_limner(scores, tiny, protocol=("coco-5k", "coco-1k"))


# --- the bare work ------------------------------------------------------------------------------------------------


def counting(images: int, data: Path | None) -> Callable[[], dict[str, float]]:
    """Blocks of products, and for every positive how many candidates are above it: in the pool, and in its fold."""
    collection = truth(images, data)
    unit = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in like_a_model(collection)]
    folds = [np.asarray(items.field("fold")) for items in (collection.images, collection.texts)]
    positives = {d: [columns(collection, name, d) for name in ("pairs", "cxc", "eccv")] for d in DIRECTIONS}
    return lambda: {
        "i2t": count(unit[0], unit[1], positives["i2t"], folds[0], folds[1]),
        "t2i": count(unit[1], unit[0], positives["t2i"], folds[1], folds[0]),
    }


def product(images: int, data: Path | None, dimensions: int = DIMENSIONS) -> Callable[[], None]:
    """The products of `counting` alone."""
    drawn = like_a_model(truth(images, data), dimensions)
    one, texts_side = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in drawn)

    def work() -> None:
        for queries, pool in ((one, texts_side), (texts_side, one)):
            for low in range(0, len(queries), BLOCK):
                queries[low : low + BLOCK] @ pool.T

    return work


OWN_SIZED = {"low precision": low_precision, "limner": limner, "product": product}


def columns(collection: Collection, name: str, direction: str) -> list[np.ndarray]:
    """The positions of each query's positives."""
    judged = collection.judged(name, direction).relevant
    pool = collection.texts if direction == "i2t" else collection.images
    inside = judged.columns < len(pool)
    return np.split(judged.columns[inside], np.searchsorted(judged.rows[inside], np.arange(1, len(judged.queries))))


def count(
    queries: np.ndarray,
    pool: np.ndarray,
    all_positives: list[list[np.ndarray]],
    query_fold: np.ndarray,
    pool_fold: np.ndarray,
) -> float:
    """R@1 of the pairs; the ranks of all other positives are counted too."""
    members = [np.flatnonzero(pool_fold == fold) for fold in range(5)]
    ranks: list[list[int]] = []
    hits = 0
    for low in range(0, len(queries), BLOCK):
        for query, row in enumerate(queries[low : low + BLOCK] @ pool.T, start=low):
            rank_counts = [[np.count_nonzero(row > row[c]) for c in positives[query]] for positives in all_positives]
            in_fold = row[members[query_fold[query]]]
            rank_counts.append([np.count_nonzero(in_fold > row[c]) for c in all_positives[0][query]])
            hits += 0 in rank_counts[0]
            ranks += rank_counts
    return hits / len(queries)


# --- the package --------------------------------------------------------------------------------------------------


def package(images: int, data: Path | None) -> Callable[[], Values]:
    """Full rankings of both directions, as lists of ids, and every metric of the package on them."""
    from eccv_caption import Metrics

    collection = truth(images, data)
    peer = Metrics()
    if images < 5000:
        keep_only(peer, collection)
    image_vectors, text_vectors = (
        Embeddings(items.ids, v)
        for items, v in zip((collection.images, collection.texts), like_a_model(collection), strict=True)
    )
    return lambda: values_of(peer, Scores.from_embeddings(image_vectors, text_vectors))


def values_of(peer: Any, scores: Scores) -> Values:
    """The products are limner's, so that both see the very same scores; they are a small part of the work."""
    lists = rankings(scores), rankings(scores.T)
    names = {"coco_1k": "coco-1k", "coco_5k": "coco-5k", "cxc": "cxc", "eccv": "eccv"}
    recalls = peer.compute_all_metrics(*lists, [f"{name}_recalls" for name in names], Ks=(1, 5, 10))
    aggregate = peer.compute_all_metrics(*lists, ["eccv_map_at_r", "eccv_rprecision"])
    values = {
        (view, d, f"R@{k}"): recalls[f"{name}_r{k}"][d]
        for name, view in names.items()
        for k in (1, 5, 10)
        for d in DIRECTIONS
    }
    measures = {"eccv_map_at_r": "mAP@R", "eccv_rprecision": "RP"}
    return values | {("eccv", d, ours): aggregate[name][d] for name, ours in measures.items() for d in DIRECTIONS}


def rankings(scores: Scores) -> dict[int, list[int]]:
    """{query id: [candidate ids, best first]}; the numbers themselves are shared between lists, to spare memory."""
    numbers = np.array([int(c) for c in scores.candidates], dtype=object)
    relevant: dict[int, list[int]] = {}
    for low in range(0, len(scores.queries), BLOCK):
        high = min(low + BLOCK, len(scores.queries))
        order = np.argsort(-scores.block(low, high), axis=1, kind="stable")
        relevant |= {int(q): numbers[row].tolist() for q, row in zip(scores.queries[low:high], order, strict=True)}
    return relevant


def keep_only(peer: Any, collection: Collection) -> None:
    """Cuts the package's ground truth down to a quick run's images."""
    ids = {"i2t": {int(i) for i in collection.images.ids}, "t2i": {int(t) for t in collection.texts.ids}}
    for truths in (peer.coco_gts, peer.cxc_gts, peer.eccv_gts):
        for direction, opposite in (("i2t", "t2i"), ("t2i", "i2t")):
            truth_lists = {
                q: [c for c in relevant if c in ids[opposite]]
                for q, relevant in truths[direction].items()
                if q in ids[direction]
            }
            truths[direction] = {q: ids for q, ids in truth_lists.items() if ids}
    peer.coco_ids = np.array([t for t in peer.coco_ids if int(t) in ids["t2i"]])


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, help="how often limner and the bare work are measured (default: 5)")
    parser.add_argument("--cores", type=int, help="how many cores limner may use (default: all)")
    parser.add_argument("--no-package", dest="package", action="store_false", help="leave out eccv_caption")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
