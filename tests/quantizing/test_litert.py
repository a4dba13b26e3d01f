"""TFLite files through ai-edge-quantizer, where the extra `quantize` is installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

import npuscope
from models_tflite import SAME, VALID, TfliteWriter
from npuscope.errors import ModelError, UsageError
from npuscope.files.load import load_model
from npuscope.graph.model import DType
from npuscope.quantizing.run import Quantized
from quantizing.float_nets import weights

SIZE = 12


def sparse_constant(w: TfliteWriter, name: str, values: np.ndarray) -> int:
    """All axes dense but the last, of which every place is stored."""
    made = w.tensors[index := w.constant(name, values)]
    made.sparsity = schema.SparsityParametersT()
    made.sparsity.traversalOrder = list(range(values.ndim))
    made.sparsity.dimMetadata = []
    for size in values.shape[:-1]:
        axis = schema.DimensionMetadataT()
        axis.format, axis.denseSize = schema.DimensionType.DENSE, size
        made.sparsity.dimMetadata.append(axis)
    axis, rows, columns = schema.DimensionMetadataT(), *values.reshape(-1, values.shape[-1]).shape
    axis.format = schema.DimensionType.SPARSE_CSR
    lists = (np.arange(rows + 1) * columns, np.tile(np.arange(columns), rows))
    for part, numbers in zip(("arraySegments", "arrayIndices"), lists, strict=True):
        vector = schema.Int32VectorT()
        vector.values = numbers.astype(np.int32)
        setattr(axis, part, vector)
        setattr(axis, f"{part}Type", schema.SparseIndexVector.Int32Vector)
    made.sparsity.dimMetadata.append(axis)
    return index


def float_net(
    folder: Path, half: bool = False, old_codes: bool = False, sparse: bool = False
) -> Path:
    """A convolution with PRELU, a depthwise one, a residual ADD, a mean and a dense layer."""
    w = TfliteWriter()

    def held(name: str, values: np.ndarray) -> int:
        if sparse:
            whole = w.tensor(f"{name}_whole", values.shape, "float32")
            w.op("DENSIFY", [sparse_constant(w, name, values)], [whole])
            return whole
        if not half:
            return w.constant(name, values)
        made = w.tensor(f"{name}_real", values.shape, "float32")
        w.op("DEQUANTIZE", [w.constant(name, values.astype(np.float16))], [made])
        return made

    def made(name: str, *shape: int) -> int:
        return w.tensor(name, (1, *shape), "float32")

    x = w.tensor("image", (1, SIZE, SIZE, 3), "float32")
    first, slanted = made("first", SIZE, SIZE, 8), made("slanted", SIZE, SIZE, 8)
    kernel, bias = held("k1", weights(8, 3, 3, 3)), w.constant("b1", weights(8, seed=1))
    w.op("CONV_2D", [x, kernel, bias], [first], padding=SAME)
    slopes = np.linspace(0.1, 0.4, 8, dtype=np.float32).reshape(1, 1, 8)
    w.op("PRELU", [first, w.constant("slopes", slopes)], [slanted])
    deep, total = made("deep", SIZE, SIZE, 8), made("total", SIZE, SIZE, 8)
    kernel, bias = held("k2", weights(1, 3, 3, 8, seed=2)), w.constant("b2", weights(8, seed=3))
    w.op("DEPTHWISE_CONV_2D", [slanted, kernel, bias], [deep], padding=SAME)
    w.op("ADD", [slanted, deep], [total])
    mean, scores, result = made("mean", 8), made("scores", 5), made("result", 5)
    w.op("MEAN", [total, w.constant("axes", np.array([1, 2], np.int32))], [mean])
    kernel, bias = held("k3", weights(5, 8, seed=4)), w.constant("b3", weights(5, seed=5))
    w.op("FULLY_CONNECTED", [mean, kernel, bias], [scores])
    w.op("SOFTMAX", [scores], [result])
    for code in w.codes if old_codes else ():
        code.deprecatedBuiltinCode, code.builtinCode = code.builtinCode, 0
    path = folder / "net.tflite"
    path.write_bytes(w.finish([x], [result]))
    return path


def data(folder: Path) -> Path:
    values = np.random.default_rng(0).normal(0, 1, (16, SIZE, SIZE, 3)).astype(np.float32)
    np.save(folder / "x.npy", values)
    return folder / "x.npy"


def quantized(folder: Path, **form: bool) -> Quantized:
    pytest.importorskip("ai_edge_quantizer")
    return npuscope.quantize(float_net(folder, **form), folder / "int8.tflite", data=data(folder))


@pytest.mark.parametrize("form", [{}, {"half": True}, {"old_codes": True}, {"sparse": True}])
def test_every_form_of_a_float_file_becomes_int8(tmp_path: Path, form: dict[str, bool]) -> None:
    made = quantized(tmp_path, **form)
    graph = load_model(tmp_path / "int8.tflite")
    computed = [t for t in graph.tensors.values() if t.data is None]
    assert {tensor.dtype for tensor in computed} == {DType.INT8}
    assert made.plain is not None and made.plain.worst_db > 40
    # The tool leaves the PRELU in float: exact, and on the CPU.
    assert min(made.sqnr_db.values()) > made.plain.worst_db - 1
    assert made.after.total_ms < made.plain.profile.total_ms / 2
    assert (graph.inputs, graph.outputs) == (("image",), ("result",))
    assert ("16-bit floats became 32-bit ones" in made.notes) is ("half" in form)
    assert npuscope.validate(tmp_path / "int8.tflite").passed


def test_a_divisor_that_becomes_zero_in_int8_stays_float(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_quantizer")
    w = TfliteWriter()
    shape = (1, 8)
    x = w.tensor("x", shape, "float32")
    dense, square, y = (w.tensor(n, shape, "float32") for n in ("dense", "square", "y"))
    kernel, bias = w.constant("k", weights(8, 8)), w.constant("b", weights(8))
    w.op("FULLY_CONNECTED", [x, kernel, bias], [dense])
    w.op("MUL", [dense, dense], [square])  # most values are far below the largest
    w.op("DIV", [dense, square], [y])
    path = tmp_path / "net.tflite"
    path.write_bytes(w.finish([x], [y]))
    npuscope.quantize(path, tmp_path / "int8.tflite", data="random", calibration="minmax")
    graph = load_model(tmp_path / "int8.tflite")
    (division,) = (op for op in graph.ops if op.kind == "Div")
    assert {graph.tensor(name).dtype for name in division.inputs} == {DType.FLOAT32}
    product = next(op for op in graph.ops if op.outputs[0].startswith("dense"))
    assert graph.tensor(product.inputs[0]).dtype is DType.INT8


def open_net(folder: Path) -> Path:
    """The file states one sample for an input of any length: too few for its kernel."""
    w = TfliteWriter()
    x = w.tensor("sound", (1, 1, 1, 4), "float32", signature=(1, -1, 1, 4))
    y = w.tensor("y", (1, 1, 1, 8), "float32", signature=(1, -1, 1, 8))
    kernel, bias = w.constant("k", weights(8, 4, 1, 4)), w.constant("b", weights(8, seed=1))
    w.op("CONV_2D", [x, kernel, bias], [y], padding=VALID)
    path = folder / "open.tflite"
    path.write_bytes(w.finish([x], [y]))
    return path


def test_sizes_that_the_file_leaves_open_are_stated(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_quantizer")
    model = open_net(tmp_path)
    made = npuscope.quantize(
        model, tmp_path / "int8.tflite", data="random", shapes={"sound": (1, 20, 1, 4)}
    )
    assert made.inputs[0].shape == (1, 20, 1, 4)
    assert "input 'sound': the sizes were set to 1 x 20 x 1 x 4" in made.notes
    graph = load_model(tmp_path / "int8.tflite")  # without --shape
    assert graph.tensor("sound").shape == (1, 20, 1, 4)
    assert graph.tensor(graph.outputs[0]).shape == (1, 17, 1, 8)


def test_float_at_the_border_on_request(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_quantizer")
    made = npuscope.quantize(
        float_net(tmp_path),
        data=data(tmp_path),
        calibration="minmax",
        input_data_type="float32",
        output_data_type="float32",
    )
    assert made.inputs[0].dtype is DType.FLOAT32 and made.outputs[0].dtype is DType.FLOAT32
    assert min(made.sqnr_db.values()) > 20


def test_layers_are_measured(tmp_path: Path) -> None:
    losses = {loss.tensor: loss for loss in quantized(tmp_path).layers}
    assert {"first", "slanted", "deep", "total", "scores"} <= losses.keys()
    assert losses["first"].weights_db is not None and losses["first"].weights_db > 35


def test_a_quantized_file_is_refused(tmp_path: Path) -> None:
    quantized(tmp_path)
    with pytest.raises(ModelError, match="quantized already"):
        npuscope.quantize(tmp_path / "int8.tflite", data="random")


def test_without_the_quantizer_the_command_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError) as raised:
        npuscope.quantize(float_net(tmp_path), data="random")
    assert raised.value.message == "ai-edge-quantizer is not installed"
    assert raised.value.hint == "pip install 'npuscope[quantize]'"
