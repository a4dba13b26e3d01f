"""Model file -> verified Graph. Dynamic sizes are pinned here, and unsupported ops are refused with
a hint at the nearest supported form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from npuscope.bounded_file import MODEL, read_bytes
from npuscope.errors import FileError, InternalError, ModelError, NpuscopeError, UsageError
from npuscope.files.other_files import refuse_folder, refuse_others
from npuscope.graph.model import Graph
from npuscope.ops.verify import verify
from npuscope.text import safe_terminal

# --- Dynamic sizes of graph inputs: the batch becomes 1, the user pins the others ---

Shape = tuple[int, ...]


class Pins:
    """Shapes that the user gave for inputs, and whether one of them was used.

    `batch` is the first size of inputs that leave only that open; `symbols` are sizes by name."""

    def __init__(
        self,
        shapes: Mapping[str, Sequence[int]] | None = None,
        batch: int | None = None,
        symbols: Mapping[str, int] | None = None,
    ) -> None:
        self.shapes = {name: tuple(dims) for name, dims in (shapes or {}).items()}
        self.batch, self.symbols = batch, dict(symbols or {})
        self.used = False

    def check_names(self, inputs: Sequence[str]) -> None:
        """Every pinned name must be an input of the model."""
        for name in self.shapes:
            if name not in inputs:
                known = ", ".join(safe_terminal(text) for text in inputs)
                raise UsageError(f"the model has no input '{name}'", hint=f"inputs: {known}")


def static_shape(
    name: str, dims: Sequence[int | str | None], pins: Pins, notes: list[str]
) -> Shape:
    """The fixed shape of an input; `dims` has a symbol or None where the size is dynamic."""
    label = safe_terminal(name)
    dims = [pins.symbols.get(dim, dim) if isinstance(dim, str) else dim for dim in dims]
    if name in pins.shapes:
        return _pinned(label, dims, pins, pins.shapes[name])
    open_axes = [axis for axis, dim in enumerate(dims) if not isinstance(dim, int)]
    if open_axes and open_axes != [0]:
        raise ModelError(
            f"input '{label}' has dynamic sizes: {_text(dims)}",
            where=f"input '{label}'",
            hint=f"pin them: --shape {label}={_example(dims)}",
        )
    batch = pins.batch or 1
    if open_axes:
        notes.append(f"input '{label}': the dynamic batch size was set to {batch}")
    return tuple(dim if isinstance(dim, int) else batch for dim in dims)


def _pinned(label: str, dims: Sequence[int | str | None], pins: Pins, wanted: Shape) -> Shape:
    fits = len(dims) == len(wanted) and all(
        size > 0 and (not isinstance(dim, int) or dim == size)
        for dim, size in zip(dims, wanted, strict=False)
    )
    if not fits:
        raise UsageError(
            f"shape {','.join(map(str, wanted))} does not fit input '{label}': {_text(dims)}"
        )
    pins.used = True
    return wanted


def _text(dims: Sequence[int | str | None]) -> str:
    return f"({', '.join('?' if dim is None else safe_terminal(str(dim)) for dim in dims)})"


def _example(dims: Sequence[int | str | None]) -> str:
    """An example for the command line: known sizes stay, the batch is 1, any other size is 224."""
    guess = [
        dim if isinstance(dim, int) else 1 if axis == 0 else 224 for axis, dim in enumerate(dims)
    ]
    return ",".join(map(str, guess))


# --- Unsupported ops: the nearest form that is supported ---

_CUT = "end the model before it and do the rest on the host"
_RECURRENT = "unroll it into Gemm, Sigmoid, Tanh, Mul, Add: one step per call, the state an input"
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


# Custom ops in which compilers for other NPUs hide the layers that they took.
_OTHER_NPUS = {
    "edgetpu-custom-op": ("the Coral Edge TPU", "the .tflite file that edgetpu_compiler was given"),
    "ethos-u": ("an Arm Ethos-U", "the .tflite file that Vela was given"),
    "DISPATCH_OP": ("a phone's NPU", "the .tflite file before LiteRT's ahead-of-time compiler"),
}


def refuse_other_npus(ops: Iterable[tuple[str, str]]) -> None:
    """A file whose layers are inside of another compiler's op says nothing about them."""
    for kind, origin in ops:
        if kind in _OTHER_NPUS:
            npu, wanted = _OTHER_NPUS[kind]
            raise ModelError(
                f"the model was compiled for {npu}: its layers are hidden in '{kind}'",
                where=origin,
                hint=f"give {wanted}",
            )


# --- Reading a model file ---

_TFLITE_MAGIC = b"TFL3"
_HINT = "give the path of a .tflite or .onnx model"


def load_model(
    path: str | Path,
    shapes: Mapping[str, Sequence[int]] | None = None,
    batch: int | None = None,
    symbols: Mapping[str, int] | None = None,
) -> Graph:
    """Read a .tflite or .onnx file; `shapes` pins dynamic sizes by input name.

    The content decides the format, the file name only helps with the error text.
    """
    return _located(Path(path), None, Pins(shapes, batch, symbols))


def read_model(path: Path, data: bytes, shapes: Mapping[str, Sequence[int]] | None = None) -> Graph:
    """The same for content that is not, or not yet, in the file."""
    return _located(path, data, Pins(shapes))


def is_tflite(data: bytes) -> bool:
    return data[4:8] == _TFLITE_MAGIC


def _located(path: Path, data: bytes | None, pins: Pins) -> Graph:
    """Add the file to the place of an error."""
    try:
        graph = _read(path, model_bytes(path) if data is None else data, pins)
        verify(graph, ModelError)
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


def _read(path: Path, data: bytes, pins: Pins) -> Graph:
    if is_tflite(data):
        from npuscope.files.tflite.reader import read_tflite

        return read_tflite(data, path.stem, pins)
    refuse_others(data)
    if path.suffix.lower() in (".tflite", ".lite"):
        raise FileError(
            f"not a TFLite file: bytes 4 to 8 are {data[4:8]!r}, expected {_TFLITE_MAGIC!r}",
            hint="the file is damaged or has the wrong extension",
        )
    from npuscope.files.onnx.reader import read_onnx

    return read_onnx(data, path, pins)


def model_bytes(path: Path) -> bytes:
    """The file's content, after its kind and size were checked."""
    try:
        if path.is_dir():
            refuse_folder(path)
        if not path.exists():
            raise FileError("no such file", hint=_HINT)
        data = read_bytes(path, MODEL, hint=_HINT)
    except ValueError:  # a null character in the path
        raise FileError("this is not a path") from None
    except FileError as error:
        error.where = ""  # the caller adds the file name
        raise
    if not data:
        raise FileError("the file is empty", hint="it may not have been copied completely")
    return data
