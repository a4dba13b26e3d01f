"""TFLite files of one operator, built in memory, and LiteRT's reference kernels to run them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest

from npuscope.files.load import load_model
from npuscope.ops.run import run
from npuscope.profiling.runtimes import LitertKernels, litert_interpreter

schema = pytest.importorskip(
    "ai_edge_litert.schema_py_generated", reason="ai_edge_litert is not installed"
)

_TYPES = {
    "float32": schema.TensorType.FLOAT32,
    "int8": schema.TensorType.INT8,
    "uint8": schema.TensorType.UINT8,
    "int16": schema.TensorType.INT16,
    "int32": schema.TensorType.INT32,
    "int64": schema.TensorType.INT64,
    "bool": schema.TensorType.BOOL,
}


_VERSIONS = {"BROADCAST_TO": 2}  # the first one that is registered


@dataclass(frozen=True)
class Value:
    """A tensor of the file; `data` makes it a constant, no scales make it plain, `variable` keeps
    it from one inference to the next."""

    shape: tuple[int, ...]
    dtype: str = "int8"
    scales: tuple[float, ...] = ()
    zeros: tuple[int, ...] = (0,)
    axis: int = 0
    data: np.ndarray | None = field(default=None, compare=False)
    variable: bool = False


def q8(shape: tuple[int, ...], scale: float, zero: int, dtype: str = "int8") -> Value:
    return Value(shape, dtype, (scale,), (zero,))


def constant(
    data: np.ndarray, scales: Any = (), zeros: tuple[int, ...] = (0,), axis: int = 0
) -> Value:
    scales = tuple(float(s) for s in np.atleast_1d(scales)) if len(np.atleast_1d(scales)) else ()
    return Value(data.shape, str(data.dtype), scales, zeros * len(scales), axis, data)


ABSENT = Value((), "absent")  # an optional input that the operator does not have


def one_op(
    operator: str,
    options: Any,
    inputs: list[Value],
    output: Value | list[Value],
    inner: Sequence[Value] = (),
) -> bytes:
    """A model of a single operator; inputs without data are the model's inputs. `inner` are
    tensors that only tell the operator scales of what it computes inside."""
    outputs = output if isinstance(output, list) else [output]
    code = schema.OperatorCodeT()
    code.builtinCode = getattr(schema.BuiltinOperator, operator)
    code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    code.version = _VERSIONS.get(operator, 1)  # the kernels look at the types, not at this
    buffers = [schema.BufferT()]
    graph = schema.SubGraphT()
    read = [value for value in inputs if value is not ABSENT]
    values = [*read, *outputs, *inner]
    graph.tensors = [_tensor(value, f"t{i}", buffers) for i, value in enumerate(values)]
    graph.inputs = [i for i, v in enumerate(read) if v.data is None and not v.variable]
    graph.outputs = list(range(len(read), len(read) + len(outputs)))
    places = iter(range(len(read)))
    numbers = [-1 if value is ABSENT else next(places) for value in inputs]
    graph.operators = [_operator(options, numbers, graph.outputs)]
    graph.operators[0].intermediates = list(range(len(values) - len(inner), len(values)))
    model = schema.ModelT()
    model.version, model.operatorCodes = 3, [code]
    model.subgraphs, model.buffers = [graph], buffers
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _operator(options: Any, inputs: list[int], outputs: list[int]) -> Any:
    operator = schema.OperatorT()
    operator.opcodeIndex = 0
    operator.inputs, operator.outputs = inputs, outputs
    if options is not None:
        name = type(options).__name__.removesuffix("T")
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, name)
        operator.builtinOptions = options
    return operator


def _tensor(value: Value, name: str, buffers: list[Any]) -> Any:
    tensor = schema.TensorT()
    tensor.name, tensor.shape = name, list(value.shape)
    tensor.type, tensor.buffer = _TYPES[value.dtype], 0
    tensor.isVariable = value.variable
    if value.scales:
        tensor.quantization = schema.QuantizationParametersT()
        tensor.quantization.scale = list(value.scales)
        tensor.quantization.zeroPoint = list(value.zeros)
        tensor.quantization.quantizedDimension = value.axis
    if value.data is not None:
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(np.ascontiguousarray(value.data).tobytes(), np.uint8)
        tensor.buffer = len(buffers)
        buffers.append(buffer)
    return tensor


def options(table: str, **values: Any) -> Any:
    """An options table of the schema with some fields set."""
    made = getattr(schema, f"{table}T")()
    for name, value in values.items():
        setattr(made, name, value)
    return made


def reference(model: bytes, values: list[np.ndarray], number: int = 0) -> np.ndarray:
    """An output by LiteRT's reference kernels."""
    return references(model, values)[number]


def references(model: bytes, values: list[np.ndarray], plain: bool = False) -> list[np.ndarray]:
    """All outputs; `plain` takes the kernels that LiteRT runs by default, without delegates."""
    interpreter = litert_interpreter(
        model, LitertKernels.DEFAULT if plain else LitertKernels.REFERENCE
    )
    for detail, value in zip(interpreter.get_input_details(), values, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    details = interpreter.get_output_details()
    return [np.array(interpreter.get_tensor(detail["index"])) for detail in details]


def ours(folder: Path, model: bytes, values: list[np.ndarray]) -> np.ndarray:
    return all_ours(folder, model, values)[0]


def all_ours(folder: Path, model: bytes, values: list[np.ndarray]) -> list[np.ndarray]:
    path = folder / "one_op.tflite"
    path.write_bytes(model)
    graph = load_model(path)
    results = run(graph, dict(zip(graph.inputs, values, strict=True)))
    return [results[name] for name in graph.outputs]


def check(folder: Path, model: bytes, values: list[np.ndarray]) -> np.ndarray:
    """Both agree in every element; gives the output for further looks."""
    wanted, found = reference(model, values), ours(folder, model, values)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)
    return found


def check_all(folder: Path, model: bytes, values: list[np.ndarray]) -> None:
    """The same for operators with several outputs."""
    wanted, found = references(model, values), all_ours(folder, model, values)
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def check_near(folder: Path, model: bytes, values: list[np.ndarray], tolerance: float) -> None:
    """Real values agree up to the order of summation and the last bits of functions."""
    wanted = references(model, values, plain=True)[0]
    found = ours(folder, model, values)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def random_values(rng: np.random.Generator, value: Value) -> np.ndarray:
    """Any raw values of the tensor's type, the extremes more often."""
    limits = np.iinfo(value.dtype)
    values = rng.integers(limits.min, limits.max, value.shape, value.dtype, endpoint=True)
    extremes = rng.random(value.shape) < 0.05
    values[extremes] = rng.choice([limits.min, limits.max], int(extremes.sum()))
    return values
