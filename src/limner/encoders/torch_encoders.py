"""The base class of torch encoders: device, precision, batches, and image prefetching."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from limner.core.arrays import Float32, IntArray
from limner.core.collection import Items
from limner.core.cut_texts import warned_once
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError, UnknownName, shown
from limner.core.extras import missing, missing_extra
from limner.core.paths import damage_told
from limner.core.progress import ProgressLike, as_progress
from limner.core.tensors import device_named, unpickled
from limner.encoders.batching import at_least_one, by_length, padded
from limner.scores.parallel_blocks import usable_cores

if missing("torch"):
    raise missing_extra("torch", what="this encoder")

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from PIL.Image import Image


def _keep_freed() -> None:
    """Makes the allocator of the C library, which torch uses on some CPUs, keep freed memory for reuse between layers.

    A convolution frees its input as soon as its output is ready. Allocators return such large blocks to the system at
    once, and touching each page again costs a page fault: for EfficientNet a third of the time
    (`benchmarks/encode.py`).
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library or operating system
        return
    for parameter, size in ((-1, 1 << 28), (-3, 1 << 25)):  # glibc's thresholds of trimming and of mmap
        mallopt(parameter, size)


_keep_freed()
PRECISIONS = {"float32": None, "float16": torch.float16, "bfloat16": torch.bfloat16}
Pixels = Tensor | dict[str, Tensor]
"""A preprocessed image: its pixels, or all outputs of the model's processor by name."""
_WRAPPERS = ("state_dict_ema", "model_ema", "state_dict", "model")
"""Keys under which training scripts store the weights; averaged (EMA) ones first, as in timm."""
_WEIGHT_FILES = "weights saved with torch.save(model.state_dict(), FILE), or a .safetensors file"
_AHEAD = 3  # batches of images that are decoded in advance


def number_type(precision: str, device: torch.device) -> torch.dtype | None:
    """The dtype for mixed precision; None for plain single precision. "auto" means half precision on a GPU.

    >>> number_type("auto", torch.device("cpu")), number_type("bfloat16", torch.device("cpu"))
    (None, torch.bfloat16)
    """
    if precision == "auto":
        return torch.float16 if device.type == "cuda" else None
    if precision not in PRECISIONS:
        raise UnknownName("precision", precision, ["auto", *PRECISIONS])
    return PRECISIONS[precision]


class Running(TypedDict, total=False):
    """The keyword arguments of `TorchEncoder`, accepted by every torch encoder."""

    device: str
    precision: str
    tokens_per_batch: int | None
    batch_size: int | None


class TorchEncoder(ABC):
    """An encoder that runs on torch.

    Args:
        device: "auto" (a GPU if there is one), "cpu", "cuda", "cuda:1", ...
        precision: "auto" (half precision on a GPU, single elsewhere), "float32", "float16" or "bfloat16".
        tokens_per_batch: Tokens in a batch of texts, padding included.
        batch_size: Images in a batch; by default 64 on a GPU, and 16 on a CPU, so that activations fit its cache.
    """

    dim: int
    shortest: int | None = None
    """The short side that images are scaled to; a large JPEG is decoded at a smaller scale, at least twice this."""
    kinds: tuple[str, ...] = ("text",)

    def __init__(
        self,
        *,
        device: str = "auto",
        precision: str = "auto",
        tokens_per_batch: int | None = None,
        batch_size: int | None = None,
    ) -> None:
        self.device = device_named(device)
        self.number_type = number_type(precision, self.device)
        tokens, images = (65_536, 64) if self.device.type == "cuda" else (2_048, 16)
        self.tokens_per_batch = at_least_one(tokens_per_batch, "tokens_per_batch", default=tokens)
        self.batch_size = at_least_one(batch_size, "batch_size", default=images)

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Everything that determines the vectors: the model files, the relevant options and, last, the precision."""

    @property
    def identity(self) -> str:
        """The fingerprint without the precision: an index made on a GPU can be searched on a CPU."""
        return self.fingerprint.removesuffix(f" {self.number_type}")

    @property
    def files(self) -> tuple[Path, ...]:
        """The model's folder or file of weights, whose content decides the vectors; empty if there is none."""
        named = (getattr(self, "folder", None), getattr(self, "weights", None))
        return tuple(Path(each) for each in named if each is not None and Path(each).exists())

    def encode(self, items: Items | Sequence[str], *, progress: ProgressLike = None) -> Float32:
        """Vectors of items, one row per item, in their order.

        Args:
            items: Images or texts: items, or anything `limner.Items.of` accepts. Strings are paths for an image
                encoder, texts otherwise.
            progress: Called with (items done, items in total).
        """
        progress = as_progress(progress)
        checked_items = Items.of(items, kind="image" if self.kinds == ("image",) else None)
        if checked_items.kind not in self.kinds:
            raise LimnerError(
                f"{type(self).__name__} encodes {' and '.join(self.kinds)}s, but was given {checked_items!r}"
            )
        out = np.empty((len(checked_items), self.dim), dtype=np.float32)
        work = self._texts(checked_items.values) if checked_items.kind == "text" else self._images(checked_items)
        done = 0
        with torch.inference_mode(), warned_once():
            for rows, vectors in work:
                out[rows] = vectors.float().cpu().numpy()
                done += len(rows)
                progress(done, len(checked_items))
        return out

    def _mixed(self) -> AbstractContextManager[object]:
        if self.number_type is None:
            return nullcontext()
        return torch.autocast(self.device.type, self.number_type)

    # --- texts ----------------------------------------------------------------------------------------------------

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Token indices of each text, including special tokens."""
        raise LimnerError(f"{type(self).__name__} does not encode texts")

    def text_vectors(self, tokens: Tensor, filled: Tensor) -> Tensor:
        """Vectors of a batch of texts, from padded tokens and their mask."""
        raise LimnerError(f"{type(self).__name__} does not encode texts")

    fill: int = 0

    def _texts(self, texts: Sequence[str]) -> Iterator[tuple[IntArray, Tensor]]:
        for low in range(0, len(texts), _TEXTS_AT_ONCE):
            tokens = self.tokens(list(texts[low : low + _TEXTS_AT_ONCE]))
            for rows in by_length([len(t) for t in tokens], budget=self.tokens_per_batch):
                matrix, filled = padded([tokens[r] for r in rows], fill=self.fill)
                sides = [torch.from_numpy(each).to(self.device) for each in (matrix, filled)]
                with self._mixed():
                    yield low + rows, self.text_vectors(*sides)

    # --- images ---------------------------------------------------------------------------------------------------

    def pixels(self, image: Image) -> Pixels:
        """One preprocessed image."""
        raise LimnerError(f"{type(self).__name__} does not encode images")

    def image_vectors(self, pixels: Any) -> Tensor:
        """Vectors of a batch of images, from stacked `Pixels`."""
        raise LimnerError(f"{type(self).__name__} does not encode images")

    def _images(self, items: Items) -> Iterator[tuple[IntArray, Tensor]]:
        for rows, pixels in ahead(items, self.pixels, batch=self.batch_size, shortest=self.shortest):
            with self._mixed():
                yield rows, self.image_vectors(on_device(pixels, self.device))


class JointEncoder(TorchEncoder):
    """A torch encoder with a joint embedding space for images and texts."""

    kinds = ("image", "text")

    def encode_images(self, items: Items, *, progress: ProgressLike = None) -> Embeddings:
        """Vectors of images in the joint space."""
        return Embeddings(items.ids, np.asarray(self.encode(items, progress=progress)))

    def encode_texts(self, items: Items, *, progress: ProgressLike = None) -> Embeddings:
        """Vectors of texts in the joint space."""
        return Embeddings(items.ids, np.asarray(self.encode(items, progress=progress)))


_TEXTS_AT_ONCE = 65_536  # texts per tokeniser call


def ahead(
    items: Items, read: Callable[[Image], object], *, batch: int, shortest: int | None = None
) -> Iterator[tuple[IntArray, Any]]:
    """Yields batches of images, decoded in threads while the model processes earlier ones.

    Args:
        items: The images.
        read: Called on each image, in a thread. Tensors, and tensors by name, are stacked; other results form a list.
        batch: Images in a batch.
        shortest: The short side that `read` scales to; a large JPEG is decoded at a smaller scale.

    Returns:
        The rows of each batch, and its results.
    """

    def one(row: int) -> object:
        with items.opened(row, shortest=shortest) as image:
            return read(image)

    with ThreadPoolExecutor(usable_cores()) as pool:
        waiting: deque[tuple[IntArray, list[Future[object]]]] = deque()
        for low in range(0, len(items), batch):
            rows = np.arange(low, min(low + batch, len(items)))
            waiting.append((rows, [pool.submit(one, int(row)) for row in rows]))
            if len(waiting) >= _AHEAD:
                yield _next(waiting)
        while waiting:
            yield _next(waiting)


def _next(waiting: deque[tuple[IntArray, list[Future[object]]]]) -> tuple[IntArray, object]:
    rows, futures = waiting.popleft()
    return rows, stacked([future.result() for future in futures])


def stacked(parts: list[Any]) -> object:
    """Stacks tensors, or tensors by name; anything else stays a list.

    numpy stacks them on one thread, because torch's threads would compete with the decoding threads for cores.

    >>> stacked([{"a": torch.zeros(2)}, {"a": torch.ones(2)}])["a"].tolist(), stacked(["x"])
    ([[0.0, 0.0], [1.0, 1.0]], ['x'])
    """
    if isinstance(parts[0], Tensor):
        return torch.from_numpy(np.stack([part.numpy() for part in parts]))
    if isinstance(parts[0], dict):
        return {name: stacked([part[name] for part in parts]) for name in parts[0]}
    return parts


def on_device(batch: Pixels, device: torch.device) -> Pixels:
    """Moves a tensor, or tensors by name, to a device."""
    if isinstance(batch, dict):
        return {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}
    return batch.to(device, non_blocking=True)


def mean_pooled(states: Tensor, filled: Tensor) -> Tensor:
    """The mean of the states over unmasked tokens.

    >>> states, filled = torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[True, True, False]])
    >>> mean_pooled(states, filled).tolist()
    [[2.0]]
    """
    weights = filled[..., None].to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1).clamp(min=1)


def read_weights(file: Path) -> dict[str, Tensor]:
    """Tensors by name from a .safetensors file, or from a .pth or .pt file that contains only data."""
    if not file.is_file():
        raise LimnerError(f"no weights {file}: expected a .safetensors, .pth or .pt file")
    with damage_told(file, what="file of weights"):
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(file)
        content = unpickled(file, expected=_WEIGHT_FILES)
        weights = next((content[key] for key in _WRAPPERS if isinstance(content.get(key), Mapping)), content)
        return {_plain_name(name): tensor for name, tensor in weights.items() if isinstance(tensor, Tensor)}


def _plain_name(name: object) -> str:
    """A parameter name without the prefix that multi-GPU training adds."""
    return str(name).removeprefix("module.")


def fill_weights(module: nn.Module, file: Path) -> None:
    """Loads weights into a module; refuses a file with missing weights, and ignores extra ones."""
    with damage_told(file, what="file of weights"):
        missing = module.load_state_dict(read_weights(file), strict=False).missing_keys
    if missing:
        raise LimnerError(f"{file} does not have {len(missing)} weights of this model: {shown(missing)}")
