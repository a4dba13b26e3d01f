"""Element types and zero points that the units take: int8 inside, symmetric weights, the user's
types at the border."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npuscope.compiler.passes.base import Edits
from npuscope.errors import ModelError, UsageError
from npuscope.graph.model import Attrs, DType, Graph, Op, Quant, Tensor
from npuscope.graph.symmetric import symmetric_weights
from npuscope.machine.model import Machine
from npuscope.machine.npu_ops import LAYERS
from npuscope.ops.table import having
from npuscope.ops.traits import Trait
from npuscope.shown import counted
from npuscope.structs import replace

# --- uint8 tensors inside the network become int8: the units' bytes are signed ---
#
# A graph input or output of type uint8 stays what the user has; a Quantize of the same scale
# stands between, which costs nothing where the units can read unsigned bytes.

OFFSET = 128


class SignedBytes(Struct, frozen=True):
    name: str = "signed-bytes"

    def run(self, graph: Graph, machine: Machine) -> bool:
        # Tensors computed or read by an op other than the Quantize at the network's border.
        ops = [op for op in graph.ops if op.kind != "Quantize"]
        inner = {name for op in ops for name in (*op.inputs, *op.outputs)}
        if not any(_is_byte(tensor) and tensor.name in inner for tensor in graph.tensors.values()):
            return False
        for name in graph.inputs:
            if _is_byte(graph.tensor(name)) and name in inner:
                detached = _detached(graph, name)
                graph.ops.insert(0, _bridge(name, detached))
        for name in graph.outputs:
            if _is_byte(graph.tensor(name)) and name in inner:
                detached = _detached(graph, name)
                graph.ops.append(_bridge(detached, name))
        borders = {*graph.inputs, *graph.outputs}
        for name, tensor in list(graph.tensors.items()):
            quant, data = tensor.quant, tensor.data
            if name in borders or not _is_byte(tensor) or quant is None:
                continue
            zeros = tuple(zero - OFFSET for zero in quant.zero_points)
            if data is not None:
                data = (data.astype(np.int16) - OFFSET).astype(np.int8)
            quant = replace(quant, zero_points=zeros)
            graph.tensors[name] = replace(tensor, dtype=DType.INT8, quant=quant, data=data)
        return True


def _is_byte(tensor: Tensor) -> bool:
    return tensor.dtype is DType.UINT8 and tensor.quant is not None


def _detached(graph: Graph, name: str) -> str:
    """The name under which all ops know a tensor of the border from now on."""
    inner = graph.add(replace(graph.tensor(name), name=graph.fresh_name(f"{name}.bytes")))
    swap = {name: inner.name}
    graph.ops = [
        op.replace(
            inputs=tuple(swap.get(one, one) for one in op.inputs),
            outputs=tuple(swap.get(one, one) for one in op.outputs),
        )
        for op in graph.ops
    ]
    return inner.name


def _bridge(source: str, target: str) -> Op:
    return Op("Quantize", f"{target}.sign", (source,), (target,), Attrs())


# --- Weights with a zero point become symmetric: the units multiply plain int8 ---
#
# Where they no longer fit a byte some are rounded to a coarser scale, and a note says so.


class SymmetricWeights(Struct, frozen=True):
    name: str = "symmetric-weights"

    def run(self, graph: Graph, machine: Machine) -> bool:
        layers = [op for op in graph.ops if op.kind in LAYERS]
        names = {op.inputs[1] for op in layers if _is_asymmetric(graph.tensor(op.inputs[1]))}
        coarser: dict[str, np.ndarray] = {}  # old scales over the new ones, by weights
        for name in names:
            before = graph.tensor(name)
            assert before.quant is not None and before.data is not None
            data, quant = symmetric_weights(before.data, before.quant, 0)
            graph.tensors[name] = replace(before, data=data, dtype=DType.INT8, quant=quant)
            without_zero = replace(before.quant, zero_points=(0,) * len(before.quant.zero_points))
            if quant != without_zero:
                coarser[name] = np.array(before.quant.scales) / np.array(quant.scales)
        for op in layers:
            if op.inputs[1] in coarser:
                _rescale_bias(graph, op, coarser[op.inputs[1]])
        if coarser:
            graph.notes.append(
                f"weights of {counted(len(coarser), 'layer')} have a zero point that does not fit "
                "int8: they are rounded to symmetric weights (quantize weights symmetrically to "
                "avoid it)"
            )
        return bool(names)


def _rescale_bias(graph: Graph, op: Op, ratio: np.ndarray) -> None:
    """The step of an integer bias is the product of the input's and the weights'."""
    bias = graph.tensors.get(op.inputs[2]) if len(op.inputs) > 2 else None
    if bias is None or bias.data is None or bias.dtype is DType.FLOAT32:
        return
    data = np.rint(bias.data * ratio).astype(bias.data.dtype)
    quant = bias.quant
    if quant is not None:
        scales = tuple((np.array(quant.scales) / ratio).tolist())
        quant = Quant(scales, (0,) * len(scales), 0 if len(scales) > 1 else None)
    name = graph.fresh_name(f"{bias.name}.coarser")
    graph.add(replace(bias, name=name, data=data, quant=quant))
    place = graph.ops.index(op)
    graph.ops[place] = op.replace(inputs=(*op.inputs[:2], name, *op.inputs[3:]))


def _is_asymmetric(tensor: Tensor) -> bool:
    eight_bits = tensor.dtype in (DType.INT8, DType.INT4)
    has_zero = tensor.quant is not None and any(tensor.quant.zero_points)
    return tensor.is_constant and eight_bits and has_zero


# --- The element type of graph inputs and outputs, as the user asked for ---

_TYPES = {"float32": DType.FLOAT32, "int8": DType.INT8, "uint8": DType.UINT8}
_OFFSET = 128


def with_io_types(graph: Graph, input_type: str | None, output_type: str | None) -> Graph:
    """A graph with a conversion between the wanted types and its own, where they differ."""
    if input_type is None and output_type is None:
        return graph
    graph = graph.copy()
    if input_type:
        dtype = _wanted(input_type, "--input-data-type")
        graph.inputs = tuple(_convert_input(graph, name, dtype) for name in graph.inputs)
    if output_type:
        dtype = _wanted(output_type, "--output-data-type")
        graph.outputs = tuple(_convert_output(graph, name, dtype) for name in graph.outputs)
    return graph


def _wanted(text: str, option: str) -> DType:
    if text not in _TYPES:
        raise UsageError(
            f"unknown data type '{text}'", where=option, hint=f"known: {', '.join(_TYPES)}"
        )
    return _TYPES[text]


def _convert_input(graph: Graph, name: str, dtype: DType) -> str:
    tensor = graph.tensor(name)
    if tensor.dtype is dtype:
        return name
    outer = graph.add(_retyped(graph, tensor, dtype, f"{name}.{dtype.value}"))
    readers = graph.consumers().get(name, [])
    if tensor.dtype.is_float and readers and all(op.kind == "Quantize" for op in readers):
        # The border beside its Quantize: integers become others, no float lies between [code: seven
        # builds of 2.2 to 4.0].
        for op in readers:
            place = graph.ops.index(op)
            graph.ops[place] = op.replace(inputs=(outer.name,))
        only = graph.output_tensor(readers[0])
        if len(readers) > 1 or (only.dtype, only.quant) != (outer.dtype, outer.quant):
            return outer.name
        del graph.ops[place]
        return only.name
    kind = "Dequantize" if tensor.dtype is DType.FLOAT32 else "Quantize"
    graph.ops.insert(0, Op(kind, f"{name}.convert", (outer.name,), (name,), Attrs()))
    return outer.name


def _convert_output(graph: Graph, name: str, dtype: DType) -> str:
    tensor = graph.tensor(name)
    if tensor.dtype is dtype:
        return name
    maker = graph.producers().get(name)
    if tensor.dtype.is_float and maker is not None and maker.kind == "Dequantize":
        if not graph.consumers().get(name) and graph.outputs.count(name) == 1:
            graph.ops.remove(maker)
        return _convert_output(graph, maker.inputs[0], dtype)
    outer = graph.add(_retyped(graph, tensor, dtype, f"{name}.{dtype.value}"))
    kind = "Dequantize" if dtype is DType.FLOAT32 else "Quantize"
    graph.ops.append(Op(kind, f"{name}.convert", (name,), (outer.name,), Attrs()))
    return outer.name


def _retyped(graph: Graph, tensor: Tensor, dtype: DType, name: str) -> Tensor:
    if dtype is DType.FLOAT32:
        quant = None
    else:
        source_quant = tensor.quant or _neighbour_quant(graph, tensor)
        zero = source_quant.zero_point
        source = tensor.dtype if tensor.quant else DType.INT8
        if source is not dtype:
            zero += _OFFSET if dtype is DType.UINT8 else -_OFFSET
        quant = Quant((source_quant.scale,), (zero,))
    return replace(tensor, name=graph.fresh_name(name), dtype=dtype, quant=quant)


def _neighbour_quant(graph: Graph, tensor: Tensor) -> Quant:
    """The quantization on the other side of the border's Quantize or Dequantize."""
    for op in graph.ops:
        if tensor.name in (*op.inputs, *op.outputs) and op.kind in having(Trait.RESCALING):
            other = graph.tensor(op.outputs[0] if tensor.name in op.inputs else op.inputs[0])
            if other.quant is not None and other.dtype is DType.INT8:
                return other.quant
    raise ModelError(
        f"'{tensor.name}' is float and has no known quantization",
        where=f"tensor '{tensor.name}'",
        hint="keep its data type",
    )


# --- Generation `open`: a float island that a Reshape separates from its Quantize becomes integer
# ---
#
# DQ -> Mean -> Reshape -> Q computes in float only because the Q does not touch the Mean. Moving
# the Q in front of the Reshape leaves DQ -> Mean -> Q, which is an integer Mean.

_INTEGER_FORMS = ("Mean", "AveragePool", "Clip")  # ops that can change the scale


class QuantizeAcrossReshape(Struct, frozen=True):
    name: str = "quantize-across-reshape"

    def run(self, graph: Graph, machine: Machine) -> bool:
        if not machine.generation.quantize_across_reshape:
            return False
        edits = Edits(graph)
        islands = [island for op in graph.ops if (island := _island(edits, op))]
        for dequantize, middle, reshape, quantize in islands:
            target, result = graph.output_tensor(quantize), graph.output_tensor(middle)
            graph.tensors[result.name] = replace(result, dtype=target.dtype, quant=target.quant)
            origin = (*dequantize.origin, *middle.origin, *quantize.origin)
            edits.replace(middle, middle.replace(inputs=dequantize.inputs, origin=origin))
            edits.replace(reshape, reshape.replace(outputs=quantize.outputs))
            edits.remove(dequantize)
            edits.remove(quantize)
        return edits.finish()


def _island(edits: Edits, op: Op) -> tuple[Op, Op, Op, Op] | None:
    """(Dequantize, float op, Reshape, Quantize) in a row, nobody else reading."""
    if op.kind != "Dequantize":
        return None
    middle = edits.only_reader(op.outputs[0])
    reshape = edits.only_reader(middle.outputs[0]) if middle else None
    quantize = edits.only_reader(reshape.outputs[0]) if reshape else None
    if middle is None or reshape is None or quantize is None:
        return None
    graph = edits.graph
    same = graph.first_input(op).quant == graph.output_tensor(quantize).quant
    integer = middle.kind in _INTEGER_FORMS or (middle.kind == "MaxPool" and same)
    right = integer and reshape.kind == "Reshape" and quantize.kind == "Quantize"
    return (op, middle, reshape, quantize) if right else None
