"""TFLite's layers with a memory: UNIDIRECTIONAL_SEQUENCE_LSTM and SVDF."""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING

from npuscope.errors import NotComputed
from npuscope.files.tflite.convert_values import activation
from npuscope.files.tflite.file import SourceOp
from npuscope.files.tflite.tensors import element_type
from npuscope.graph.model import Activation, Attrs, DType, Quant, Tensor
from npuscope.ops.recurrent import SequenceLstmAttrs, SvdfOutputAttrs

if TYPE_CHECKING:
    from npuscope.files.tflite.reader import TfliteReader

# Places of inputs, as the operator numbers them.
_GATES = range(1, 9)  # weights of inputs, then of the state; gates input, forget, cell, output
_PEEPHOLES, _BIASES, _PROJECTION = range(9, 12), range(12, 16), range(16, 18)
_HIDDEN, _CELLS, _NORMS = 18, 19, range(20, 24)
_TANH = 4
_WORD_BITS = 15  # of an int16, without its sign
_MOST_CELL_BITS = 6
# Of input, filters, weights of the memory, memory.
_SVDF_TYPES = (
    [DType.FLOAT32] * 4,
    [DType.INT8, DType.INT8, DType.INT16, DType.INT16],
    [DType.INT8] * 4,
)


def sequence_lstm(reader: TfliteReader, op: SourceOp) -> None:
    """The layer in its plain form. Its state is zero before the first step."""
    if any(_has(op, place) for place in (*_PEEPHOLES, *_PROJECTION, *_NORMS)):
        raise NotComputed("peepholes, projections and norms are not supported", where=op.origin)
    if op.number("FusedActivationFunction") != _TANH or op.number("DiagonalRecurrentTensors"):
        raise NotComputed("only full weights and tanh are supported", where=op.origin)
    if not all(_has(op, place) for place in _GATES):
        raise NotComputed("coupled input and forget gates are not supported", where=op.origin)
    x = reader.tensor(op, 0)
    parts = [reader.tensor(op, place) for place in (*_GATES, *_BIASES)]
    # All float32, or int8 with biases of int32; other mixtures compute their scales.
    dtypes = [tensor.dtype for tensor in (x, *parts)]
    weights = len(_GATES) + 1
    whole = [DType.INT8] * weights + [DType.INT32] * len(_BIASES)
    if dtypes != whole and set(dtypes) != {DType.FLOAT32}:
        kinds = " and ".join(sorted({dtype.value for dtype in dtypes}))
        raise NotComputed(f"weights and input of {kinds} are not supported", where=op.origin)
    quants = [tensor.quant for tensor in (x, *parts[: len(_GATES)])]
    if dtypes == whole and not all(map(_is_single, quants)):
        raise NotComputed("one scale per channel is not supported", where=op.origin)
    clip, major = op.real("CellClip"), bool(op.number("TimeMajor"))
    attrs = SequenceLstmAttrs(major, clip, _cell_bits(reader, op) if x.quant else 0)
    reader.emit(op, "SequenceLSTM", (x.name, *(part.name for part in parts)), attrs)
    note = "recurrent layers start every inference with a state of zero"
    if note not in reader.builder.graph.notes:
        reader.builder.graph.notes.append(note)


def _has(op: SourceOp, place: int) -> bool:
    return place < len(op.inputs) and op.inputs[place] >= 0


def _is_single(quant: Quant | None) -> bool:
    return quant is not None and len(quant.scales) == 1


def _cell_bits(reader: TfliteReader, op: SourceOp) -> int:
    """The cells are int16 whose scale is a power of two; the state has the output's scale."""
    tensors = reader.source.tensors
    cells = tensors[op.inputs[_CELLS]].quant if _has(op, _CELLS) else None
    hidden = tensors[op.inputs[_HIDDEN]].quant if _has(op, _HIDDEN) else None
    results = tensors[op.outputs[0]].quant if op.outputs else None
    if cells is None or hidden is None or results is None:
        raise NotComputed("its state has no scale", where=op.origin)
    bits = _WORD_BITS + log2(cells.scale)
    if not bits.is_integer() or not 0 <= bits <= _MOST_CELL_BITS:
        raise NotComputed(f"cells of scale {cells.scale:g} are not supported", where=op.origin)
    if hidden != results:
        raise NotComputed("state and output have different scales", where=op.origin)
    return int(bits)


def svdf(reader: TfliteReader, op: SourceOp) -> None:
    """Two ops: the memory after this step, and what it gives. The memory is an input and an
    output of the network."""
    x, filters, weights = (reader.tensor(op, place) for place in range(3))
    bias = (reader.optional(op, 3),) if reader.optional(op, 3) else ()
    source = reader.source.tensors[op.inputs[4]] if _has(op, 4) else None
    if source is None:
        raise NotComputed("it has no memory", where=op.origin)
    types = [x.dtype, filters.dtype, weights.dtype, element_type(source)]
    if types not in _SVDF_TYPES:
        kinds = " and ".join(sorted({dtype.value for dtype in types}))
        raise NotComputed(f"weights and memory of {kinds} are not supported", where=op.origin)
    attrs = SvdfOutputAttrs(op.number("Rank"), activation(op))
    if x.quant and attrs.activation is not Activation.RELU:
        raise NotComputed("integers without RELU are not supported", where=op.origin)
    memory = reader.memory(source)
    after = reader.builder.add(
        Tensor(f"{memory.name}_after", memory.shape, memory.dtype, memory.quant)
    )
    parts = (memory.name, x.name, filters.name)
    reader.builder.emit("SvdfState", parts, Attrs(), after, (op.origin,))
    reader.kept.append(after.name)
    reader.emit(op, "SvdfOutput", (after.name, weights.name, *bias), attrs)
