"""A random network of a seed: one to three inputs, then nodes of all kinds until it is large.

`PROFILES` are what networks are made of. A kind without a maker is listed with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from differential.draft import MOST_ELEMENTS, Draft, Maker, Unsuitable
from differential.makers import (
    onnx_layers,
    onnx_moves,
    onnx_values,
    tflite_layers,
    tflite_moves,
    tflite_values,
)
from differential.network import Network, Shape, pruned

FORMATS = ("tflite", "onnx")
MAKERS: dict[str, dict[str, Maker]] = {
    "tflite": {**tflite_layers.MAKERS, **tflite_values.MAKERS, **tflite_moves.MAKERS},
    "onnx": {**onnx_layers.MAKERS, **onnx_values.MAKERS, **onnx_moves.MAKERS},
}
NO_MAKER = {
    "Upsample": "ends with opset 9, QuantizeLinear begins with opset 10",
    "Scatter": "ends with opset 10, where onnxruntime quantizes nothing per channel",
    "SVDF": "keeps a state from one inference to the next",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "keeps a state from one inference to the next",
}
# What units of an NPU compute comes more often than the rest.
_LAYERS = {
    "tflite": ("CONV_2D", "DEPTHWISE_CONV_2D", "ADD", "MUL", "MAX_POOL_2D", "AVERAGE_POOL_2D"),
    "onnx": ("Conv", "Conv", "Add", "Mul", "MaxPool", "AveragePool"),
}
_MOST_TRIES = 60


def mixed(draft: Draft) -> None:
    """5 to 40 ops of all that the tables have."""
    for _ in range(draft.rng.choice((1, 1, 1, 2, 3))):
        draft.input(_input_shape(draft))
    wanted = draft.rng.randint(5, 40)
    for _ in range(wanted + _MOST_TRIES):
        if len(draft.nodes) >= wanted:
            return
        layers = draft.chance(0.3)
        kind = draft.rng.choice(_LAYERS[draft.format] if layers else list(MAKERS[draft.format]))
        _try(draft, kind)


def convolution(draft: Draft) -> None:
    """One convolution: all strides, dilations, pads and kernels, larger than the image too."""
    kinds = {
        "tflite": ("CONV_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"),
        "onnx": ("Conv",) * 4 + ("ConvTranspose",),
    }
    while not draft.nodes:
        draft.inputs.clear(), draft.live.clear()
        shape = (1, draft.size(), draft.size(), draft.size())
        draft.input(shape[:3] if draft.format == "onnx" and draft.chance(0.25) else shape)
        _try(draft, draft.rng.choice(kinds[draft.format]))


def single(draft: Draft) -> None:
    """One op of any kind, of two values of a shape or of several."""
    kinds = list(MAKERS[draft.format])
    while not draft.nodes:
        draft.inputs.clear(), draft.live.clear()
        shape = _input_shape(draft)
        for _ in range(draft.choose(1, 2)):
            draft.input(shape)
        draft.input(_input_shape(draft))
        _try(draft, draft.rng.choice(kinds))


def _try(draft: Draft, kind: str) -> None:
    """A maker that gives up halfway leaves no node behind."""
    nodes, live, unread = list(draft.nodes), list(draft.live), set(draft.unread)
    try:
        MAKERS[draft.format][kind](draft, kind)
    except Unsuitable:
        draft.nodes, draft.live, draft.unread = nodes, live, unread


def _input_shape(draft: Draft) -> Shape:
    """Batch 1 mostly; an image, a sequence, a vector."""
    size = draft.size
    batch = 2 if draft.chance(0.05) else 1
    image = (batch, size(), size(), size())
    while prod(image) > MOST_ELEMENTS:
        image = (batch, size(), size(), size())
    return draft.rng.choice((image, image, image, image, image[:3], image[:2]))


PROFILES: dict[str, Callable[[Draft], None]] = {
    "mixed": mixed,
    "conv": convolution,
    "single": single,
}


def network_of(seed: int, profile: str = "mixed") -> Network:
    """The same for the same seed; formats take turns."""
    draft = Draft(FORMATS[seed % 2], seed)
    PROFILES[profile](draft)
    return pruned(
        draft.network(float_border=draft.chance(0.3 if draft.format == "tflite" else 0.7))
    )
