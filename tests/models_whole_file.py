"""Model files with all that a file can hold beside a plain network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flatbuffers
import numpy as np
import onnx
from ai_edge_litert import schema_py_generated as schema
from onnx import TensorProto, helper, numpy_helper

from models import TfliteWriter

OUTSIDE = 1 << 13  # where data behind the flatbuffer begin


def packed(model: Any) -> bytes:
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def unpacked(data: bytes) -> Any:
    return schema.ModelT.InitFromPackedBuf(data, 0)


def changed(data: bytes, change: Callable[[Any], None]) -> bytes:
    """The file with a change to the objects of its schema."""
    model = unpacked(data)
    change(model)
    return packed(model)


def made(table: str, **fields: Any) -> Any:
    """A table of the schema with some of its fields."""
    found = getattr(schema, f"{table}T")()
    for name, value in fields.items():
        assert hasattr(found, name), name
        setattr(found, name, value)
    return found


def stateful_net() -> bytes:
    """Inputs 0 and 1; a variable that one inference hands to the next, set once by a subgraph; and
    a loop whose condition and body are subgraphs. All shapes are (1, 8), all float."""
    writer = TfliteWriter()
    shape = (1, 8)
    x = writer.tensor("x", shape, "float32")
    count = writer.tensor("count", (), "int32")
    handle = writer.tensor("handle", (), "resource")
    old, relu, total = (writer.tensor(n, shape, "float32") for n in ("old", "relu", "total"))
    y, more, end = (
        writer.tensor("y", shape, "float32"),
        writer.tensor("more", shape, "float32"),
        writer.tensor("end", (), "int32"),
    )
    writer.op("CALL_ONCE", [], [])
    writer.op("VAR_HANDLE", [], [handle], sharedName=b"state", container=b"")
    writer.op("READ_VARIABLE", [handle], [old])
    writer.op("RELU", [x], [relu])
    writer.op("ADD", [relu, old], [total])
    writer.op("ASSIGN_VARIABLE", [handle, total], [])
    writer.op("WHILE", [count, total], [end, more])
    writer.op("TANH", [more], [y])
    model = unpacked(writer.finish([x, count], [y, end]))
    main = model.subgraphs[0]
    _give_options(main.operators[0], "CallOnceOptions", initSubgraphIndex=3)
    loop = {"condSubgraphIndex": 1, "bodySubgraphIndex": 2}
    _give_options(main.operators[6], "WhileOptions", **loop)
    model.subgraphs += [_condition(model), _body(model), _init(model)]
    model.signatureDefs = [
        _signature(b"serve", 0, main),
        _signature(b"body", 2, model.subgraphs[2]),
    ]
    return packed(model)


def _give_options(operator: Any, table: str, **fields: Any) -> None:
    operator.builtinOptionsType = getattr(schema.BuiltinOptions, table)
    operator.builtinOptions = made(table, **fields)


def _tensor(name: bytes, shape: list[int], kind: str, buffer: int = 0) -> Any:
    number = getattr(schema.TensorType, kind)
    return made("Tensor", name=name, shape=shape, type=number, buffer=buffer)


def _code(model: Any, kind: str, version: int = 1) -> int:
    number = getattr(schema.BuiltinOperator, kind)
    old = min(number, 127)
    code = made("OperatorCode", builtinCode=number, deprecatedBuiltinCode=old, version=version)
    model.operatorCodes.append(code)
    return len(model.operatorCodes) - 1


def _buffer(model: Any, values: np.ndarray) -> int:
    model.buffers.append(made("Buffer", data=np.frombuffer(values.tobytes(), np.uint8)))
    return len(model.buffers) - 1


def _graph(name: bytes, tensors: list[Any], operators: list[Any], *ends: list[int]) -> Any:
    inputs, outputs = ends
    fields = {"tensors": tensors, "operators": operators, "inputs": inputs, "outputs": outputs}
    return made("SubGraph", name=name, **fields)


def _operator(code: int, inputs: list[int], outputs: list[int]) -> Any:
    return made("Operator", opcodeIndex=code, inputs=inputs, outputs=outputs)


def _condition(model: Any) -> Any:
    limit = _buffer(model, np.array(3, np.int32))
    tensors = [
        _tensor(b"n", [], "INT32"),
        _tensor(b"values", [1, 8], "FLOAT32"),
        _tensor(b"limit", [], "INT32", limit),
        _tensor(b"goes_on", [], "BOOL"),
    ]
    return _graph(b"cond", tensors, [_operator(_code(model, "LESS"), [0, 2], [3])], [0, 1], [3])


def _body(model: Any) -> Any:
    one = _buffer(model, np.array(1, np.int32))
    tensors = [
        _tensor(b"n", [], "INT32"),
        _tensor(b"values", [1, 8], "FLOAT32"),
        _tensor(b"one", [], "INT32", one),
        _tensor(b"next", [], "INT32"),
        _tensor(b"doubled", [1, 8], "FLOAT32"),
    ]
    add = _code(model, "ADD")
    operators = [_operator(add, [0, 2], [3]), _operator(add, [1, 1], [4])]
    for operator in operators:
        _give_options(operator, "AddOptions")
    return _graph(b"body", tensors, operators, [0, 1], [3, 4])


def _init(model: Any) -> Any:
    start = _buffer(model, np.arange(8, dtype=np.float32))
    tensors = [
        _tensor(b"handle", [], "RESOURCE"),
        _tensor(b"start", [1, 8], "FLOAT32", start),
    ]
    handle = _operator(_code(model, "VAR_HANDLE"), [], [0])
    _give_options(handle, "VarHandleOptions", sharedName=b"state", container=b"")
    assign = _operator(_code(model, "ASSIGN_VARIABLE"), [0, 1], [])
    return _graph(b"init", tensors, [handle, assign], [], [])


def _signature(key: bytes, number: int, graph: Any) -> Any:
    sides = [
        [
            made("TensorMap", name=b"%s_%d" % (side, place), tensorIndex=int(tensor))
            for place, tensor in enumerate(tensors)
        ]
        for side, tensors in ((b"in", graph.inputs), (b"out", graph.outputs))
    ]
    fields = {"signatureKey": key, "subgraphIndex": number}
    return made("SignatureDef", inputs=sides[0], outputs=sides[1], **fields)


# What a file may hold besides, by name. Each can be added to any file with a tensor and an op.


def _old_metadata(model: Any) -> None:
    """A list that nothing reads any more, with numbers of buffers that a tool has taken away."""
    model.metadataBuffer = np.array([999, -1], np.int32)


def _metadata(model: Any) -> None:
    number = _buffer(model, np.arange(20, dtype=np.uint8))
    model.metadata = [made("Metadata", name=b"notes", buffer=number)]
    model.metadataBuffer = np.array([number, 0], np.int32)


def _odd_buffers(model: Any) -> None:
    """One that nobody uses, one that is empty, and one that two tensors share."""
    model.buffers += [made("Buffer", data=np.arange(4, dtype=np.uint8)), made("Buffer")]
    shared = _buffer(model, np.arange(8, dtype=np.float32))
    tensors = [_tensor(name, [8], "FLOAT32", shared) for name in (b"one", b"same")]
    model.subgraphs[0].tensors += tensors


def _odd_codes(model: Any) -> None:
    """One that no operator has; one in the new field alone, one in the old field alone."""
    _code(model, "ABS", version=7)
    model.operatorCodes[0].deprecatedBuiltinCode = 0
    model.operatorCodes[-1].builtinCode = 0


def _recurrent(model: Any) -> None:
    """An operator that names tensors in three lists, one of them a variable."""
    graph, first = model.subgraphs[0], len(model.subgraphs[0].tensors)
    state = _tensor(b"state", [1, 4], "INT16")
    state.isVariable = True
    inner = [_tensor(b"inner_%d" % n, [0], "INT16") for n in range(3)]
    graph.tensors += [state, *inner, _tensor(b"lstm", [1, 4], "INT8")]
    inputs = [int(graph.inputs[0]), -1, first]
    operator = _operator(_code(model, "UNIDIRECTIONAL_SEQUENCE_LSTM", 3), inputs, [first + 4])
    operator.intermediates = [first + 1, -1, first + 2, first + 3]
    operator.mutatingVariableInputs = [False, False, True]
    options = {"cellClip": 10.0, "timeMajor": True}
    _give_options(operator, "UnidirectionalSequenceLSTMOptions", **options)
    graph.operators.append(operator)


def _custom(model: Any) -> None:
    number = schema.BuiltinOperator.CUSTOM
    code = made("OperatorCode", builtinCode=number, deprecatedBuiltinCode=number, version=2)
    code.customCode = b"Mine"
    model.operatorCodes.append(code)
    graph = model.subgraphs[0]
    graph.tensors.append(_tensor(b"mine", [3], "FLOAT32"))
    inputs, outputs = [int(graph.inputs[0])], [len(graph.tensors) - 1]
    operator = _operator(len(model.operatorCodes) - 1, inputs, outputs)
    operator.customOptions = np.arange(9, dtype=np.uint8)
    graph.operators.append(operator)


def _later_options(model: Any) -> None:
    """The second union of options, with a subgraph's number."""
    graph = model.subgraphs[0]
    graph.tensors.append(_tensor(b"composed", [3], "FLOAT32"))
    operator = _operator(
        _code(model, "STABLEHLO_COMPOSITE"), [int(graph.inputs[0])], [len(graph.tensors) - 1]
    )
    operator.builtinOptions2Type = schema.BuiltinOptions2.StableHLOCompositeOptions
    operator.builtinOptions2 = made(
        "StableHLOCompositeOptions",
        name=b"odml.rms",
        decompositionSubgraphIndex=len(model.subgraphs) - 1,
        compositeAttributes=np.arange(5, dtype=np.uint8),
        version=3,
    )
    operator.debugMetadataIndex = 4
    graph.operators.append(operator)


def _quantization(model: Any) -> None:
    """Ranges, details of a custom kind, and a scale that is not a number."""
    tensors = model.subgraphs[0].tensors
    details = made("CustomQuantization", custom=np.arange(3, dtype=np.uint8))
    tensors[0].quantization = made(
        "QuantizationParameters",
        min=[-1.5, 0.0],
        max=[2.5],
        scale=[float("nan")],
        detailsType=schema.QuantizationDetails.CustomQuantization,
        details=details,
        quantizedDimension=2,
    )
    tensors[-1].quantization = made("QuantizationParameters", zeroPoint=[1, 2, 3])


def _shapes(model: Any) -> None:
    tensor = _tensor(b"open", [1, 4], "VARIANT")
    tensor.shapeSignature, tensor.hasRank = [-1, 4], True
    tensor.variantTensors = [made("VariantSubType", shape=[2, 3], type=9, hasRank=True)]
    model.subgraphs[0].tensors += [tensor, _tensor(b"unranked", [], "FLOAT32")]
    model.subgraphs[0].tensors[-1].shape = None


def _sparsity(model: Any) -> None:
    values = _buffer(model, np.array([1, 2], np.float32))
    tensor = _tensor(b"sparse", [2, 2], "FLOAT32", values)
    dense = made("DimensionMetadata", format=0, denseSize=2)
    vector = {"arraySegmentsType": schema.SparseIndexVector.Int32Vector}
    vector["arraySegments"] = made("Int32Vector", values=[0, 1, 2])
    vector["arrayIndicesType"] = schema.SparseIndexVector.Uint8Vector
    vector["arrayIndices"] = made("Uint8Vector", values=[0, 1])
    packed_rows = made("DimensionMetadata", format=1, **vector)
    sparsity = {"traversalOrder": [0, 1], "dimMetadata": [dense, packed_rows]}
    tensor.sparsity = made("SparsityParameters", **sparsity)
    model.subgraphs[0].tensors.append(tensor)


def _newer_fields(model: Any) -> None:
    """Fields that the schema package behind our reader does not have."""
    model.externalBufferGroups = [made("ExternalBufferGroup", name=b"weights.bin")]
    entry = made("ExternalBuffer", id=1, group=0, offset=16, length=32, packing=b"none")
    model.externalBuffers = [entry]
    model.subgraphs[0].tensors[0].externalBuffer = 1
    details = made("BlockwiseQuantization", scales=1, zeroPoints=0, blockSize=32)
    number = schema.QuantizationDetails.BlockwiseQuantization
    quantization = made("QuantizationParameters", detailsType=number, details=details)
    model.subgraphs[0].tensors[-1].quantization = quantization


ADDITIONS: dict[str, Callable[[Any], None]] = {
    "metadata": _metadata,
    "old metadata": _old_metadata,
    "buffers": _odd_buffers,
    "codes": _odd_codes,
    "recurrent": _recurrent,
    "custom": _custom,
    "later options": _later_options,
    "quantization": _quantization,
    "shapes": _shapes,
    "sparsity": _sparsity,
    "newer fields": _newer_fields,
}


def moved_outside(data: bytes) -> bytes:
    """Constants and options of custom operators behind the flatbuffer, with zeros between."""
    model, parts, end = unpacked(data), [], OUTSIDE
    for buffer in model.buffers:
        if buffer.data is not None and len(buffer.data):
            parts.append(bytes(bytearray(buffer.data)))
            buffer.offset, buffer.size, buffer.data = end, len(parts[-1]), None
            end += len(parts[-1])
    for operator in model.subgraphs[0].operators:
        if operator.customOptions is not None:
            parts.append(bytes(bytearray(operator.customOptions)))
            operator.customOptions = None
            operator.largeCustomOptionsOffset = end
            operator.largeCustomOptionsSize = len(parts[-1])
            end += len(parts[-1])
    head = packed(model)
    assert len(head) <= OUTSIDE
    return head + bytes(OUTSIDE - len(head)) + b"".join(parts)


# --- ONNX ---


def whole_onnx(unknown: bytes = b"") -> onnx.ModelProto:
    """A branch that reads tensors around it, a function, training, remarks, constants that nobody
    reads, a node that nobody needs, a domain of its own."""
    values = np.arange(4, dtype=np.float32).reshape(1, 4)
    branches = {
        name: helper.make_graph(
            [helper.make_node(kind, ["inner", "weight"], [f"{name}_out"], name=f"{name}_op")],
            name,
            [],
            [helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, [1, 4])],
        )
        for name, kind in (("then_branch", "Add"), ("else_branch", "Mul"))
    }
    nodes = [
        helper.make_node("Relu", ["x"], ["inner"], name="relu", doc_string="made by hand"),
        helper.make_node("If", ["flag"], ["chosen"], name="if", **branches),
        helper.make_node("Twice", ["chosen"], ["doubled"], name="call", domain="mine"),
        helper.make_node("Tanh", ["doubled"], ["y"], name="tanh"),
        helper.make_node("Abs", ["inner"], ["unread"], name="dead"),
    ]
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("sparse", TensorProto.FLOAT, [1], [3.0]),
        helper.make_tensor("sparse_indices", TensorProto.INT64, [1], [2]),
        [4],
    )
    graph = helper.make_graph(
        nodes,
        "whole",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4]),
            helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(values, "weight"), numpy_helper.from_array(values, "unused")],
        doc_string="all in one",
        value_info=[
            helper.make_tensor_value_info("inner", TensorProto.FLOAT, ["batch", 4]),
            helper.make_tensor_value_info("doubled", TensorProto.FLOAT, ["batch", 4]),
        ],
        sparse_initializer=[sparse],
    )
    note = graph.quantization_annotation.add()
    note.tensor_name = "inner"
    entry = note.quant_parameter_tensor_names.add()
    entry.key, entry.value = "SCALE_TENSOR", "unused"
    twice = helper.make_function(
        "mine",
        "Twice",
        ["a"],
        ["b"],
        [helper.make_node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("mine", 3)],
        functions=[twice],
        ir_version=9,
        producer_name="a test",
    )
    helper.set_model_props(model, {"author": "nobody"})
    training = model.training_info.add()
    training.algorithm.name = "step"
    binding = training.update_binding.add()
    binding.key, binding.value = "weight", "weight"
    return onnx.ModelProto.FromString(model.SerializeToString() + unknown)
