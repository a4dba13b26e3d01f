"""Whole models whose numbers are others: those that multiply, and functions that call each other.

A file stays well-formed, so that its numbers reach the code that takes memory and time for them.
"""

from __future__ import annotations

from random import Random
from typing import Any

import onnx

from fuzz.mutate import BINARY
from fuzz.mutate_models import (
    INTS,
    OPS,
    border,
    decoded_onnx,
    decoded_tflite,
    message_in,
    odd_array,
    odd_field,
    onnx_nodes,
    packed,
    tflite_values,
)


def onnx_numbers(data: bytes, rng: Random) -> bytes:
    """Strides, pads, dilations and axes; shapes, repeats and sizes that are constants; inputs."""
    model = decoded_onnx(data)
    if model is None:
        return rng.choice(BINARY)(data, rng)
    for _ in range(rng.choice((1, 1, 2, 3))):
        rng.choice((_attribute, _attribute, _constant, border))(model.graph, rng)
    return bytes(model.SerializeToString())


def _attribute(graph: Any, rng: Random) -> None:
    fields = [a for node in graph.node for a in node.attribute if a.ints or a.HasField("i")]
    if not fields:
        return
    field = rng.choice(fields)
    if field.ints:
        field.ints[rng.randrange(len(field.ints))] = rng.choice(INTS)
    else:
        field.i = rng.choice(INTS)


def _constant(graph: Any, rng: Random) -> None:
    kinds = (onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.FLOAT)
    tensors = [tensor for tensor in graph.initializer if tensor.data_type in kinds]
    if tensors:
        odd_array(rng.choice(tensors), rng)


def onnx_functions(data: bytes, rng: Random) -> bytes:
    """The file's own functions: doubled, recursive, under a standard op's name, without a body."""
    model = decoded_onnx(data)
    if model is None or not model.functions:
        return onnx_nodes(data, rng)
    function = rng.choice(model.functions)
    edit = rng.randrange(6)
    if edit == 0:
        model.functions.add().CopyFrom(function)
    elif edit == 1:
        call = function.node.add()
        call.op_type, call.domain = function.name, function.domain
        call.input.extend(function.input)
        call.output.append("again")
    elif edit == 2:
        function.name = rng.choice(OPS)
        function.domain = rng.choice(("", "ai.onnx", function.domain))
    elif edit == 3:
        del function.node[:]
    elif edit == 4 and function.input:
        function.input.append(function.input[0])
    else:
        try:
            odd_field(message_in(function, rng), rng)
        except (ValueError, TypeError, OverflowError):
            return data  # a number that the field cannot hold
    return bytes(model.SerializeToString())


def tflite_numbers(data: bytes, rng: Random) -> bytes:
    """An option of an operator, values of a constant, a size of a tensor."""
    model = decoded_tflite(data)
    if model is None or not model.subgraphs or not model.subgraphs[0].operators:
        return rng.choice(BINARY)(data, rng)
    changes = (_option, _option, tflite_values, _size)
    try:
        for _ in range(rng.choice((1, 1, 2, 3))):
            rng.choice(changes)(model, model.subgraphs[0], rng)
        return packed(model)
    except Exception:  # whatever the schema's packer makes of numbers that do not fit
        return data


def _option(model: Any, graph: Any, rng: Random) -> None:
    rows = [
        (table, name)
        for table in (operator.builtinOptions for operator in graph.operators)
        for name, value in (vars(table).items() if table is not None else ())
        if isinstance(value, int) and not isinstance(value, bool)
    ]
    if rows:
        table, name = rng.choice(rows)
        setattr(table, name, rng.choice(INTS))


def _size(model: Any, graph: Any, rng: Random) -> None:
    tensor = rng.choice(graph.tensors)
    if tensor.shape is not None and len(tensor.shape):
        shape = list(tensor.shape)
        shape[rng.randrange(len(shape))] = rng.choice(INTS[:18])
        tensor.shape = shape
