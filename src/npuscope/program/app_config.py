"""app_config.h: what an application must know of a network to feed it and to read its results."""

from __future__ import annotations

from dataclasses import dataclass

from npuscope.graph.model import Graph
from npuscope.program.model import Buffer, Program
from npuscope.program.network_c.writer_scope import float_text
from npuscope.text import c_comment, c_identifier, c_string
from npuscope.version import __version__

# What a network's outputs look like: classes, heatmaps, boxes. A guess, from shapes alone.

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


Lines = list[str]
_C_TYPES = {8: "int8_t", 16: "int16_t", 32: "int32_t", 64: "int64_t"}


def app_config_text(program: Program, graph: Graph, name: str = "network") -> str:
    """A header of defines. The kind of a result is a guess from its shape, and says so."""
    network = c_identifier(name)
    buffers = program.buffer_map()
    shapes = {**_shapes(program.inputs, graph.inputs, graph)}
    shapes.update(_shapes(program.outputs, graph.outputs, graph))
    model = c_comment(program.model_file or program.name)
    lines = [
        f"/* {model}: written by npuscope {__version__}. */",
        "#ifndef APP_CONFIG_H",
        "#define APP_CONFIG_H",
        "",
        f"#define NN_NETWORK_NAME {c_string(network)}",
        f"#define NN_IN_NUM ({len(program.inputs)})",
        f"#define NN_OUT_NUM ({len(program.outputs)})",
        "",
        *_image(shapes[program.inputs[0]] if program.inputs else ()),
    ]
    for number, buffer_name in enumerate(program.inputs):
        lines += _tensor(f"NN_IN_{number}", buffers[buffer_name], shapes[buffer_name])
    for number, buffer_name in enumerate(program.outputs):
        lines += _tensor(f"NN_OUT_{number}", buffers[buffer_name], shapes[buffer_name])
    lines += _heads(guess_heads(graph))
    return "\n".join([*lines, "#endif", ""])


def _shapes(
    names: tuple[str, ...], tensors: tuple[str, ...], graph: Graph
) -> dict[str, tuple[int, ...]]:
    """Logical shapes of the graph's ends, under the names of their buffers."""
    return {b: graph.tensor(t).shape for b, t in zip(names, tensors, strict=True)}


def _image(shape: tuple[int, ...]) -> Lines:
    """The first input as an image: the camera is set up from these."""
    if len(shape) != 4:
        return []
    _, height, width, channels = shape
    return [
        f"#define NN_HEIGHT ({height})",
        f"#define NN_WIDTH ({width})",
        f"#define NN_CHANNELS ({channels})",
        "",
    ]


def _tensor(stem: str, buffer: Buffer, shape: tuple[int, ...]) -> Lines:
    dimensions = ", ".join(str(size) for size in shape or (1,))
    lines = [
        f"/* {c_comment(buffer.name)} */",
        f"#define {stem}_TYPE {_c_type(buffer)}",
        f"#define {stem}_IS_FLOAT ({int(buffer.is_float)})",
        f"#define {stem}_IS_SIGNED ({int(buffer.signed)})",
        f"#define {stem}_RANK ({len(shape or (1,))})",
        f"#define {stem}_SHAPE {{{dimensions}}}",
        f"#define {stem}_LAYOUT {c_string(_layout(buffer))}",
        f"#define {stem}_SIZE_BYTES ({buffer.size_bytes})",
    ]
    quant = buffer.quant
    if quant is not None and not buffer.is_float:
        lines += [
            f"#define {stem}_SCALE ({float_text(quant.scales[0])})",
            f"#define {stem}_ZERO_POINT ({int(quant.zero_points[0])})",
        ]
    return [*lines, ""]


def _c_type(buffer: Buffer) -> str:
    if buffer.is_float:
        return "float"
    signed = _C_TYPES.get(buffer.nbits, "int8_t")
    return signed if buffer.signed else f"u{signed}"


def _layout(buffer: Buffer) -> str:
    """How channels lie in memory."""
    if len(buffer.shape) < 3 or not 0 < buffer.batch < buffer.channels:
        return "channel_last"
    return "channel_first" if buffer.batch == 1 else f"blocks_of_{buffer.batch}_channels"


def _heads(heads: list[Head]) -> Lines:
    lines = [
        "/* What the results seem to be. This is a guess from shapes and last layers: check it",
        " * against the model's own description before relying on it. */",
    ]
    for number, head in enumerate(heads):
        lines.append(f"#define NN_OUT_{number}_GUESS {c_string(head.kind)}")
        lines += [f"#define NN_OUT_{number}_{key} ({value})" for key, value in head.numbers]
    return [*lines, ""]
