"""Damage to models by their decoded fields: what is left is a whole file of another network."""

from __future__ import annotations

from random import Random
from typing import Any

import flatbuffers
import numpy as np
import onnx
from ai_edge_litert import schema_py_generated as schema
from google.protobuf.message import DecodeError, Message

from fuzz.mutate import BINARY, BYTES, ODD_NUMBERS, ODD_TEXTS, Mutator

# Ints of a model are mostly shapes, axes, indices and type codes: small ones matter most.
INTS = (0, 1, -1, 2, 3, 4, 5, 7, 8, 10, 16, 17, 32, 127, -128, 255, 4096, 1 << 20, (1 << 31) - 1,
         -(1 << 31), 1 << 40, (1 << 63) - 1, -(1 << 63))  # fmt: skip
_FLOATS = tuple(float(value) for value in ODD_NUMBERS)
OPS = (
    "Conv", "ConvTranspose", "Gemm", "MatMul", "Add", "Sub", "Mul", "Div", "Relu", "Clip", "Concat",
    "Split", "Slice", "Pad", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Gather",
    "MaxPool", "AveragePool", "GlobalAveragePool", "ReduceMean", "Softmax", "Resize", "Expand",
    "Tile", "Shape", "Cast", "Constant", "QuantizeLinear", "DequantizeLinear", "Sigmoid", "PRelu",
    "BatchNormalization", "LayerNormalization", "Einsum", "Where", "Pow", "If", "Loop", "NoSuchOp",
    "DepthToSpace", "SpaceToDepth", "ReduceSum", "ArgMax", "HardSwish", "Identity", "QLinearConv",
)  # fmt: skip
_TRIES = 8


# ONNX


def onnx_fields(data: bytes, rng: Random) -> bytes:
    """One field of one message: a node's attribute, a tensor's type, a dimension, a version."""
    model = decoded_onnx(data)
    if model is None:
        return rng.choice(BINARY)(data, rng)
    for _ in range(_TRIES):
        message = message_in(model, rng)
        try:
            odd_field(message, rng)
            return bytes(model.SerializeToString())
        except (ValueError, TypeError, OverflowError):
            continue  # a number that the field cannot hold
    return data


def onnx_nodes(data: bytes, rng: Random) -> bytes:
    """Nodes dropped, doubled, moved, wired otherwise; constants of other type, shape, values."""
    model = decoded_onnx(data)
    if model is None or not model.graph.node:
        return rng.choice(BINARY)(data, rng)
    graph = model.graph
    rng.choice((_rewire, _other_op, _node_order, _constant, _constant, border))(graph, rng)
    return bytes(model.SerializeToString())


def decoded_onnx(data: bytes) -> onnx.ModelProto | None:
    try:
        return onnx.load_from_string(data)
    except DecodeError:
        return None


def message_in(root: Message, rng: Random) -> Message:
    """Any message inside; each step down takes one that is set."""
    while True:
        inner = [
            (field, value)
            for field, value in root.ListFields()
            if field.type == field.TYPE_MESSAGE and (not _many(field, value) or len(value))
        ]
        if not inner or rng.random() < 0.12:
            return root
        field, value = rng.choice(inner)
        root = value[rng.randrange(len(value))] if _many(field, value) else value


def _many(field: Any, value: Any) -> bool:
    return not isinstance(value, (int, float, str, bytes, Message))


def odd_field(message: Message, rng: Random) -> None:
    """A field that is set gets another value or goes; at times one that was not set comes."""
    found = message.ListFields()
    if not found or rng.random() < 0.1:
        field = rng.choice(message.DESCRIPTOR.fields)
        value = getattr(message, field.name)
    else:
        field, value = rng.choice(found)
    if rng.random() < 0.15:
        message.ClearField(field.name)
    elif _many(field, value):
        _odd_list(field, value, rng)
    elif field.type != field.TYPE_MESSAGE:
        setattr(message, field.name, _odd_scalar(value, rng))


def _odd_list(field: Any, value: Any, rng: Random) -> None:
    edit = rng.randrange(4)
    if edit == 0 and len(value):
        del value[rng.randrange(len(value))]
    elif edit == 1 and len(value) > 1:
        del value[rng.randrange(1, len(value)) :]
    elif field.type == field.TYPE_MESSAGE:
        if len(value):
            value.add().CopyFrom(value[rng.randrange(len(value))])
    elif edit == 2 or not len(value):
        kind = {field.TYPE_STRING: "", field.TYPE_BYTES: b"", field.TYPE_FLOAT: 0.5}
        value.append(_odd_scalar(kind.get(field.type, 1), rng))
    else:
        at = rng.randrange(len(value))
        value[at] = _odd_scalar(value[at], rng)


def _odd_scalar(value: Any, rng: Random) -> Any:
    if isinstance(value, bytes):
        return rng.choice(BYTES)(value, rng)
    if isinstance(value, str):
        return rng.choice(ODD_TEXTS)
    if isinstance(value, float):
        return rng.choice((*_FLOATS, -value, value * 1e6))
    return rng.choice((*INTS, value + 1, value - 1, value * 2))


def _rewire(graph: Any, rng: Random) -> None:
    """An input or output of a node becomes another tensor, or none."""
    node = rng.choice(graph.node)
    names = [name for other in graph.node for name in (*other.input, *other.output)]
    ends = node.input if node.input and rng.random() < 0.8 else node.output
    edit = rng.randrange(4)
    if edit == 0 and ends:
        del ends[rng.randrange(len(ends))]
    elif edit == 1 or not ends:
        ends.append(rng.choice((*names, "", "unknown")))
    elif edit == 2 and len(ends) > 1:
        first, second = rng.sample(range(len(ends)), 2)
        ends[first], ends[second] = ends[second], ends[first]
    else:
        ends[rng.randrange(len(ends))] = rng.choice((*names, "", "unknown"))


def _other_op(graph: Any, rng: Random) -> None:
    node = rng.choice(graph.node)
    if rng.random() < 0.7:
        node.op_type = rng.choice(OPS)
    else:
        node.domain = rng.choice(("com.microsoft", "ai.onnx", "ai.onnx.ml", "unknown"))


def _node_order(graph: Any, rng: Random) -> None:
    nodes = list(graph.node)
    at = rng.randrange(len(nodes))
    edit = rng.randrange(3)
    if edit == 0:
        del nodes[at]
    elif edit == 1:
        nodes.insert(rng.randrange(len(nodes) + 1), nodes[at])
    else:
        rng.shuffle(nodes)
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def _constant(graph: Any, rng: Random) -> None:
    """Values that are extreme, and types and shapes that may or may not fit them."""
    if not graph.initializer:
        return
    tensor = rng.choice(graph.initializer)
    edit = rng.randrange(5)
    if edit == 0:
        tensor.data_type = rng.randrange(24)
    elif edit == 1:
        shape = [rng.choice((*INTS[:14], *tensor.dims)) for _ in range(rng.randrange(6))]
        tensor.dims[:] = shape
    elif edit == 2:
        tensor.raw_data = rng.choice((*BYTES, *BINARY))(tensor.raw_data, rng)
    elif edit == 3:
        odd_array(tensor, rng)
    else:
        other = rng.choice(graph.initializer)
        name = tensor.name
        tensor.CopyFrom(other)
        tensor.name = name


def odd_array(tensor: Any, rng: Random) -> None:
    """The same shape, whole, with other values."""
    try:
        values = onnx.numpy_helper.to_array(tensor).copy()
    except (ValueError, TypeError, AttributeError):
        return
    made = _odd_values(values, rng)
    if made is not None:
        tensor.CopyFrom(onnx.numpy_helper.from_array(made, tensor.name))


def _odd_values(values: np.ndarray, rng: Random) -> np.ndarray | None:
    if not values.size or values.dtype.kind not in "iuf":
        return None
    flat = values.reshape(-1).copy()
    at = rng.randrange(flat.size) if rng.random() < 0.7 else slice(None)
    with np.errstate(all="ignore"):
        if flat.dtype.kind == "f":
            flat[at] = np.array(rng.choice(_FLOATS)).astype(flat.dtype)
        else:
            flat[at] = np.array(rng.choice(INTS)).astype(np.int64).astype(flat.dtype)
    return flat.reshape(values.shape)


def border(graph: Any, rng: Random) -> None:
    """An input or output of the network: its name, type or one of its sizes."""
    infos = rng.choice((graph.input, graph.output, graph.value_info)) or graph.input
    if not infos:
        return
    info = rng.choice(infos)
    tensor = info.type.tensor_type
    edit = rng.randrange(4)
    if edit == 0:
        info.name = rng.choice((*ODD_TEXTS[:12], graph.node[0].output[0] if graph.node else ""))
    elif edit == 1:
        tensor.elem_type = rng.randrange(24)
    elif edit == 2 and tensor.shape.dim:
        dim = rng.choice(tensor.shape.dim)
        dim.dim_value = rng.choice(INTS)
    elif rng.random() < 0.5 and tensor.shape.dim:
        rng.choice(tensor.shape.dim).dim_param = "N"
    else:
        tensor.shape.dim.add().dim_value = rng.choice(INTS[:16])


# TFLite


def tflite_fields(data: bytes, rng: Random) -> bytes:
    """One field of one table of the file, by the schema: any index, size, code, scale, list."""
    for _ in range(_TRIES):
        model = decoded_tflite(data)
        if model is None:
            return rng.choice(BINARY)(data, rng)
        _odd_table(_table(model, rng), rng)
        try:
            return packed(model)
        except Exception:  # whatever the schema's packer makes of numbers that do not fit
            continue
    return data


def tflite_network(data: bytes, rng: Random) -> bytes:
    """Operators dropped, doubled, moved, wired otherwise; constants with extreme values."""
    model = decoded_tflite(data)
    if model is None or not model.subgraphs or not model.subgraphs[0].operators:
        return rng.choice(BINARY)(data, rng)
    graph = model.subgraphs[0]
    changes = (_tflite_wires, _tflite_order, tflite_values, tflite_values, _tflite_quant)
    try:
        rng.choice(changes)(model, graph, rng)
        return packed(model)
    except Exception:  # as above; and an earlier change may have left out a whole list
        return data


def decoded_tflite(data: bytes) -> Any:
    """The file as objects; None where it cannot be read, however that shows."""
    try:
        return schema.ModelT.InitFromPackedBuf(bytearray(data))
    except Exception:  # struct, index and type errors of the generated reader
        return None


def packed(model: Any) -> bytes:
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _table(root: Any, rng: Random) -> Any:
    while True:
        inner = [value for value in vars(root).values() if _is_table(value)]
        lists = [v for v in vars(root).values() if isinstance(v, list) and v and _is_table(v[0])]
        if not (inner or lists) or rng.random() < 0.08:
            return root
        chosen = rng.choice([*inner, *lists])
        root = rng.choice(chosen) if isinstance(chosen, list) else chosen


def _is_table(value: Any) -> bool:
    return type(value).__name__.endswith("T") and hasattr(value, "Pack")


def _odd_table(table: Any, rng: Random) -> None:
    names = [name for name, value in vars(table).items() if value is not None]
    if not names:
        return
    name = rng.choice(names)
    value = getattr(table, name)
    if isinstance(value, (list, np.ndarray)):
        setattr(table, name, _odd_vector(list(value), rng))
    elif isinstance(value, bool):
        setattr(table, name, not value)
    elif isinstance(value, (bytes, str)):
        setattr(table, name, rng.choice(ODD_TEXTS).encode("utf-8", "surrogatepass"))
    elif isinstance(value, (int, float, np.number)):
        setattr(table, name, _odd_scalar(float(value) if value % 1 else int(value), rng))
    elif rng.random() < 0.3:
        setattr(table, name, None)


def _odd_vector(items: list[Any], rng: Random) -> list[Any]:
    edit = rng.randrange(5)
    at = rng.randrange(len(items)) if items else 0
    if edit == 0 and items:
        del items[at]
    elif edit == 1 and items:
        items.insert(rng.randrange(len(items) + 1), items[at])
    elif edit == 2:
        rng.shuffle(items)
    elif edit == 3 and items:
        del items[at:]
    elif items and isinstance(items[0], (int, float, np.number)):
        real = isinstance(items[0], (float, np.floating))
        items[at] = _odd_scalar(float(items[at]) if real else int(items[at]), rng)
    return items


def _tflite_wires(model: Any, graph: Any, rng: Random) -> None:
    operator = rng.choice(graph.operators)
    ends = list(operator.inputs if rng.random() < 0.8 else operator.outputs)
    ends = _odd_vector(ends, rng) if rng.random() < 0.4 else ends
    if ends:
        ends[rng.randrange(len(ends))] = rng.randrange(-1, len(graph.tensors))
    if rng.random() < 0.8:
        operator.inputs = ends
    else:
        operator.outputs = ends


def _tflite_order(model: Any, graph: Any, rng: Random) -> None:
    graph.operators = _odd_vector(list(graph.operators), rng)
    if rng.random() < 0.3:
        code = rng.choice(model.operatorCodes)
        code.builtinCode = rng.randrange(160)
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)


def tflite_values(model: Any, graph: Any, rng: Random) -> None:
    """A constant's bytes: extreme numbers of its own type, or fewer of them."""
    buffers = [buffer for buffer in model.buffers if buffer.data is not None and len(buffer.data)]
    if not buffers:
        return
    buffer = rng.choice(buffers)
    raw = np.asarray(buffer.data, np.uint8).tobytes()
    if rng.random() < 0.3:
        buffer.data = np.frombuffer(rng.choice(BYTES)(raw, rng), np.uint8)
        return
    kind = rng.choice(("i1", "i4", "i4", "f4", "i8"))
    whole = raw[: len(raw) // np.dtype(kind).itemsize * np.dtype(kind).itemsize]
    made = _odd_values(np.frombuffer(whole, kind), rng)
    if made is not None:
        buffer.data = np.frombuffer(made.tobytes() + raw[len(whole) :], np.uint8)


def _tflite_quant(model: Any, graph: Any, rng: Random) -> None:
    """Scales, zero points and types of a tensor: where numbers meet lengths and axes."""
    tensor = rng.choice(graph.tensors)
    quant = tensor.quantization
    edit = rng.randrange(5)
    if edit == 0:
        tensor.type = rng.randrange(18)
    elif edit == 1:
        tensor.shape = [rng.choice(INTS[:14]) for _ in range(rng.randrange(6))]
    elif quant is None or quant.scale is None:
        tensor.quantization = rng.choice(graph.tensors).quantization
    elif edit == 2:
        count = rng.choice((1, 2, len(quant.scale), len(quant.scale) + 1))
        quant.scale = [rng.choice((*_FLOATS, 0.01, 0.1)) for _ in range(count)]
    elif edit == 3:
        quant.zeroPoint = [rng.choice(INTS) for _ in range(rng.choice((0, 1, len(quant.scale))))]
    else:
        tensor.quantization = None


ONNX: tuple[Mutator, ...] = (*BYTES, *(onnx_fields,) * 9, *(onnx_nodes,) * 12)
TFLITE: tuple[Mutator, ...] = (*BYTES, *(tflite_fields,) * 9, *(tflite_network,) * 12)
