"""What a network's outputs look like: classes, heatmaps, boxes. A guess, from shapes alone."""

from __future__ import annotations

from dataclasses import dataclass

from npuscope.graph.model import Graph

# Fewer rows than this are hardly a list of candidate boxes.
_MIN_BOXES = 20
_BOX_VALUES = 4
_MAX_CLASSES_OF_A_MAP = 256
_SCORES = ("Softmax", "LogSoftmax", "Sigmoid")


@dataclass(frozen=True, slots=True)
class Head:
    """The kind in one word, and the sizes that decoding needs."""

    kind: str
    numbers: tuple[tuple[str, int], ...] = ()


def guess_heads(graph: Graph) -> list[Head]:
    """One guess an output, in order."""
    several = len(graph.outputs) > 1
    return [_guess(graph, name, several) for name in graph.outputs]


def _guess(graph: Graph, name: str, several: bool) -> Head:
    shape = graph.tensor(name).shape
    sizes = tuple(size for size in shape[1:] if size > 1)
    if len(sizes) <= 1:
        return _vector(graph, name, sizes[0] if sizes else 1)
    if len(shape) == 4:
        return _map(graph, shape, several)
    return _rows(shape)


def _vector(graph: Graph, name: str, length: int) -> Head:
    """Scores of classes end in a softmax; without one it may be an embedding too."""
    if length == 1:
        return Head("single_value", (("VALUES", 1),))
    if _last_kind(graph, name) in _SCORES:
        return Head("classification", (("CLASSES", length),))
    return Head("classification_or_embedding", (("VALUES", length),))


def _map(graph: Graph, shape: tuple[int, ...], several: bool) -> Head:
    _, height, width, channels = shape
    numbers = (("HEIGHT", height), ("WIDTH", width), ("CHANNELS", channels))
    inputs = [graph.tensor(name).shape for name in graph.inputs]
    if several and channels >= _BOX_VALUES:
        return Head("boxes_on_a_grid", numbers)
    if any(image[1:3] == shape[1:3] for image in inputs if len(image) == 4):
        return Head("segmentation", numbers)
    if channels <= _MAX_CLASSES_OF_A_MAP:
        return Head("heatmaps", numbers)
    return Head("features", numbers)


def _rows(shape: tuple[int, ...]) -> Head:
    """A list of candidates, each with a box and maybe scores; either axis may be the list."""
    count, values = max(shape[1:]), min(shape[1:])
    if count >= _MIN_BOXES and values == _BOX_VALUES:
        return Head("boxes", (("BOXES", count), ("VALUES", values)))
    if count >= _MIN_BOXES and values > _BOX_VALUES:
        return Head("boxes_with_scores", (("BOXES", count), ("VALUES", values)))
    return Head("table", (("ROWS", shape[1]), ("VALUES", shape[-1])))


def _last_kind(graph: Graph, name: str) -> str:
    """The op that makes an output, behind conversions and reshapes."""
    makers = {output: op for op in graph.ops for output in op.outputs}
    op = makers.get(name)
    while op is not None and op.kind in ("Quantize", "Dequantize", "Reshape", "Identity"):
        op = makers.get(op.inputs[0])
    return op.kind if op is not None else ""
