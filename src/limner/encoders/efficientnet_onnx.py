"""EfficientNet-Lite as an ONNX network, made from the weights that torch saved, without torch.

Batch normalisations are folded into the convolutions before them. The network is fully convolutional: it takes images
whose height and width are multiples of 32, and gives the last feature map.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from limner.core.arrays import Array, Float32
from limner.core.errors import LimnerError
from limner.core.extras import needed
from limner.core.tensor_files import read_legacy_weights

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
        self.helper: Any = library.helper
        self.numpy_helper: Any = library.numpy_helper
        self.weights = weights
        self.nodes: list[Any] = []
        self.constants = [self._constant(np.float32(value), name) for name, value in (("zero", 0.0), ("six", 6.0))]

    def _constant(self, value: Any, name: str) -> Any:
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
