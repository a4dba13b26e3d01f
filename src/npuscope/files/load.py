"""Model file -> verified Graph; what is no model of ours is refused with what to give instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from npuscope.bounded_file import MODEL, read_bytes, read_head
from npuscope.errors import FileError, InternalError, ModelError, NpuscopeError
from npuscope.files.other_files import refuse_folder, refuse_others
from npuscope.files.sizes import USUAL, Given, Pins, named_guesses
from npuscope.graph.model import Graph
from npuscope.ops.verify import verify
from npuscope.text import safe_terminal

# --- Unsupported ops: the nearest form that is supported ---

_CUT = "end the model before it and do the rest on the host"
_RECURRENT = (
    "unroll it into Gemm, Sigmoid, Tanh, Mul, Add: one step per call, with the state as an input"
)
_CONTROL = "export one static graph without control flow; run loops on the host"
_STATIC = "quantize the model statically: onnxruntime.quantization.quantize_static, format QDQ"
_CONV2D = "one or two spatial axes are supported: fold the third into the batch or the channels"

# Parts of op names, in lower case without underscores -> the nearest supported form.
_NEAREST = (
    (("lstm", "gru", "rnn", "svdf"), _RECURRENT),
    (("nonmaxsuppression", "topk", "postprocess", "nms", "unique", "nonzero"), _CUT),
    (("if", "loop", "scan", "while", "call", "callonce"), _CONTROL),
    (("gathernd", "gatherelements", "scatter"), "use Gather along one axis, or " + _CUT),
    (("spacetobatch", "batchtospace"), "write it as a convolution with dilations"),
    (("conv3d", "conv3dtranspose"), _CONV2D),
    (("dynamicquantizelinear", "dynamicquantize"), _STATIC),
    (("lppool", "l2pool2d"), "use AveragePool"),
    (("localresponsenormalization", "lrn"), "use BatchNormalization"),
    (("rmsnorm", "simplifiedlayernorm"), "write it as Mul, ReduceMean, Add, Sqrt, Div"),
    (("skiplayernorm",), "write it as Add and LayerNormalization"),
    (("attention",), "write it as MatMul, Softmax, MatMul"),
    (("fusedconv",), "save the model with onnxruntime's basic optimizations only"),
    (("fusedmatmul", "fusedgemm"), "save the model with onnxruntime's basic optimizations only"),
    (("cumsum", "onehot", "reverse", "einsum"), "write it as a MatMul with a constant"),
    (("selu", "celu", "thresholdedrelu", "shrink", "softsign"), "use Relu, LeakyRelu or Elu"),
    (("embeddinglookup",), "use Gather"),
    (("varhandle", "readvariable", "assignvariable"), "make the state an input and an output"),
    (("stablehlo",), "convert the model with TensorFlow Lite's own operators"),
)
_EXACT = {"if", "call"}  # short names that are also parts of other words


def nearest_form(kind: str) -> str:
    """The hint for an op that is not supported."""
    plain = kind.lower().replace("_", "")
    for words, hint in _NEAREST:
        if any(plain == word if word in _EXACT else word in plain for word in words):
            return hint
    return _CUT


# --- Reading a model file ---

_TFLITE_MAGIC = b"TFL3"
_HINT = "give the path of a .tflite or .onnx model"


def load_model(
    path: str | Path,
    shapes: Mapping[str, Sequence[int]] | None = None,
    batch: int | None = None,
    symbols: Mapping[str, int] | None = None,
    *,
    to_quantize: bool = False,
) -> Graph:
    """Read a .tflite or .onnx file; `shapes` pins dynamic sizes by input name.

    The content decides the format, the file name only helps with the error text. With
    `to_quantize` a float network comes in the form that quantizers take.
    """
    symbol_sizes = {name: (size,) for name, size in (symbols or {}).items()}
    sizes = Given({**(shapes or {}), **symbol_sizes}, batch)
    return _located(Path(path), None, sizes, to_quantize)


def read_model(path: Path, data: bytes, shapes: Mapping[str, Sequence[int]] | None = None) -> Graph:
    """The same for content that is not, or not yet, in the file."""
    return _located(path, data, Given(shapes or {}))


def is_tflite(data: bytes) -> bool:
    return data[4:8] == _TFLITE_MAGIC


def _located(path: Path, data: bytes | None, sizes: Given, to_quantize: bool = False) -> Graph:
    """Add the file to the place of an error."""
    try:
        data = model_bytes(path) if data is None else data
        graph = _sized(path, data, sizes, to_quantize)
    except NpuscopeError as error:
        error.where = f"{path}: {error.where}" if error.where else str(path)
        raise
    except Exception as error:
        raise InternalError(
            f"reading stopped with {type(error).__name__}: {error}",
            where=str(path),
            hint="this is a bug in npuscope: please report it with the file",
        ) from error
    return graph


def _sized(path: Path, data: bytes, sizes: Given, to_quantize: bool) -> Graph:
    """The graph with the usual sizes where the file leaves them open, the first that fit."""
    first: ModelError | None = None
    for usual in USUAL:
        pins = Pins(sizes.shapes, usual, sizes.batch)
        try:
            graph = _read(path, data, pins, to_quantize)
            return _bearing(graph) if pins.resized else graph
        except ModelError as error:
            if first is None:
                named_guesses(error, pins)
                first = error
            if not pins.open:
                break
    raise first or InternalError("no sizes were tried")


def _bearing(graph: Graph) -> Graph:
    """A picture of another size must still be one picture: a flattening of fixed length makes
    several of it."""
    images = {graph.tensor(name).shape[0] for name in graph.inputs if graph.tensor(name).shape}
    for name in graph.outputs:
        shape = graph.tensor(name).shape
        if shape and shape[0] not in images:
            raise ModelError(
                f"does not bear this input size: its output '{safe_terminal(name)}' would be "
                f"{shape}",
                hint="a layer behind the convolutions takes a picture of one size only",
            )
    return graph


def _read(path: Path, data: bytes, pins: Pins, to_quantize: bool) -> Graph:
    """A verified graph."""
    if is_tflite(data):
        from npuscope.files.tflite.reader import read_tflite

        graph = read_tflite(data, path.stem, pins)
        graph.assumed = tuple(pins.guessed)
        return graph
    refuse_others(data, safe_terminal(path.name))
    if path.suffix.lower() in (".tflite", ".lite"):
        raise FileError(
            f"not a TFLite file: bytes 4 to 8 are {data[4:8]!r}, expected {_TFLITE_MAGIC!r}",
            hint="the file is damaged or has the wrong extension",
        )
    from npuscope.files.onnx.reader import read_onnx

    graph = read_onnx(data, path, pins, to_quantize)
    verify(graph, ModelError)
    graph.assumed = tuple(pins.guessed)
    return graph


def _skimmed(path: Path) -> bytes:
    """A model that is too large to be read, without its weights, for who needs none."""
    from npuscope.files.onnx.constants import reads_no_weights
    from npuscope.files.onnx.skim import skimmed

    if reads_no_weights() and not is_tflite(read_head(path, 8)):
        return skimmed(path)
    raise FileError(
        f"has {path.stat().st_size:,} bytes, but a model has at most {MODEL.most_bytes:,}",
        hint="`manycore setups` and `estimate --machine cloudai100 --objective latency` time it "
        "without reading weights",
    )


def model_bytes(path: Path) -> bytes:
    """The file's content, after its kind and size were checked."""
    try:
        if path.is_dir():
            refuse_folder(path)
        if not path.exists():
            raise FileError("no such file", hint=_HINT)
        if path.is_file() and path.stat().st_size > MODEL.most_bytes:
            return _skimmed(path)
        data = read_bytes(path, MODEL, hint=_HINT)
    except ValueError:  # a null character in the path
        raise FileError("this is not a path") from None
    except FileError as error:
        error.where = ""  # the caller adds the file name
        raise
    if not data:
        raise FileError("the file is empty", hint="it may not have been copied completely")
    return data
