"""A .tflite file as a document: its inputs and outputs, float ops made integer, chains of moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from npuscope.edits.document import Document
from npuscope.edits.numbers import symmetric_steps
from npuscope.edits.records import DEPTHWISE, LOWEST, NotFitting, QuantSteps
from npuscope.edits.tflite.layers import VALID
from npuscope.edits.tflite.ops import TfliteOps
from npuscope.files.tflite.file_parts import FileOp, FileTensor
from npuscope.files.tflite.records import Record
from npuscope.graph.model import Graph, Quant
from npuscope.lean_dataclass import replace

_FLOAT, _INT8 = "FLOAT32", "INT8"
_CONVERTED = (_FLOAT, "UINT8")
# LiteRT's integer kernels of these copy or average steps: both sides must have the same.
_KEEPS = (
    *("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE", "PAD", "SLICE", "STRIDED_SLICE"),
    *("MAX_POOL_2D", "AVERAGE_POOL_2D"),
)
_FIXED = ("LOGISTIC", "TANH")  # and these have one form of result only
_INTEGER_KERNELS = (
    *(*_KEEPS, *_FIXED, "MEAN", "RELU", "RELU6", "HARD_SWISH", "LEAKY_RELU", "PRELU"),
    *("ADD", "SUB", "MUL"),
)
# Of kernels that take int8 from the first version on; the others do from 2.
_FIRST = ("RESHAPE", "SQUEEZE", "EXPAND_DIMS", "PRELU", "HARD_SWISH")
Around = tuple[FileOp, FileOp]


class TfliteDocument(TfliteOps, Document):
    """All primitives of a document."""

    depthwise = (DEPTHWISE,)
    mixes_signs = False
    binds_clamps = False

    # inputs and outputs

    def network_inputs(self) -> list[FileTensor]:
        return self.graph_inputs

    def network_outputs(self) -> list[FileTensor]:
        return self.graph_outputs

    def drop_dead(self) -> None:
        """Ops stay until they are removed."""

    def drop_inputs(self, tensors: Sequence[FileTensor]) -> None:
        self.graph_inputs = [tensor for tensor in self.graph_inputs if tensor not in tensors]

    def close_batch(self) -> bool:
        """Sizes are 1 already; only the signatures say that they may change."""
        found = [tensor for tensor in self.tensors if _is_open(tensor.source)]
        for tensor in found:
            signature = tensor.source.fields["ShapeSignature"].copy()
            signature[0] = 1
            tensor.source.fields["ShapeSignature"] = signature
        return bool(found)

    def set_outputs(self, tensors: Sequence[FileTensor], graph: Graph) -> None:
        """Ops that only other outputs needed go."""
        if self.keeps_state:
            raise NotFitting("the network keeps values for the next inference: it cannot be cut")
        self.graph_outputs = [*tensors]
        needed, kept, waiting = set(tensors), set[FileOp](), [*tensors]
        makers = {tensor: op for op in self.ops for tensor in op.outputs}
        while waiting:
            op = makers.get(waiting.pop())
            if op is None or op in kept:
                continue
            kept.add(op)
            new = [t for t in op.inputs if t is not None and t not in needed]
            needed.update(new)
            waiting += new
        self.main.ops = [op for op in self.ops if op in kept]

    def in_file(self, graph: Graph, name: str) -> FileTensor | None:
        maker = graph.producers().get(name)
        op = self.op(maker.origin[-1]) if maker is not None and maker.origin else None
        if maker is None or op is None:
            made = [t for t in self.tensors if t.name == name]
            return made[0] if len(made) == 1 and self.producer(made[0]) else None
        place = maker.outputs.index(name)
        return op.outputs[place] if place < len(op.outputs) else None

    def as_sent(self, tensor: FileTensor, way: Sequence[FileOp]) -> FileTensor:
        return tensor

    def send(self, op: FileOp, way: Sequence[FileOp], tensor: FileTensor) -> None:
        """A QUANTIZE between signed and unsigned bytes writes the same steps, shifted."""
        self.rewire(op.outputs[0], tensor)
        self.remove(op)
        shift = {(_INT8, "UINT8"): -LOWEST, ("UINT8", _INT8): LOWEST}
        for step in way:
            target = step.outputs[0]
            if step.kind == "QUANTIZE" and tensor.quant is not None and target.quant is not None:
                zero = tensor.quant.zero_point + shift.get((tensor.type, target.type), 0)
                target.quant = replace(tensor.quant, zero_points=(zero,))

    def joined_parts(self, op: FileOp) -> list[FileTensor]:
        return [tensor for tensor in op.inputs if tensor is not None]

    def send_parts(
        self, op: FileOp, way: Sequence[FileOp], parts: Sequence[FileTensor], graph: Graph
    ) -> None:
        """Each part gets the conversions that stood behind the whole."""
        output = (way[-1] if way else op).outputs[0]
        new = [self._sent(part, way) for part in parts]
        groups = [[tensor] if tensor is not output else new for tensor in self.graph_outputs]
        self.set_outputs([tensor for group in groups for tensor in group], graph)

    def _sent(self, part: FileTensor, way: Sequence[FileOp]) -> FileTensor:
        for op in way:
            like = op.outputs[0]
            made = self.add_tensor(f"{part.name}_out", like.type, part.shape, like.quant)
            self.add_op(op.kind, [part], [made], op.options, op.version)
            part = made
        return part

    def convertible(self, tensors: Sequence[FileTensor]) -> list[FileTensor]:
        return [tensor for tensor in tensors if tensor.type in _CONVERTED]

    def made_steps(self, op: FileOp) -> QuantSteps:
        made = op.outputs[0]
        if made.quant is None:
            raise NotFitting(f"'{made.name}' is not quantized")
        return QuantSteps(made.quant, made.type.lower())

    def take_integers(
        self, tensor: FileTensor, readers: Sequence[FileOp], steps: QuantSteps
    ) -> None:
        made = [op.outputs[0] for op in readers]
        place = self.graph_inputs.index(tensor)
        for op in readers:
            self.remove(op)
        for other in made[1:]:
            self.rewire(other, made[0])
        self.graph_inputs[place] = made[0]
        made[0].name = tensor.name

    def take_shifted(self, tensor: FileTensor, steps: QuantSteps, wanted: str) -> None:
        if tensor.type == "UINT8":
            raise NotFitting(f"input '{tensor.name}' is already uint8")
        zero = steps.quant.zero_point + (-LOWEST if wanted == "uint8" else LOWEST)
        tensor.type, tensor.quant = wanted.upper(), Quant(steps.quant.scales, (zero,))

    def converted(self, op: FileOp) -> FileTensor | None:
        source = op.inputs[0] if op.kind in ("DEQUANTIZE", "QUANTIZE") else None
        return source if source is not None and source.type == _INT8 else None

    def give_integers(self, tensor: FileTensor, maker: FileOp, integers: FileTensor) -> None:
        self.graph_outputs = [integers if t is tensor else t for t in self.graph_outputs]
        integers.name, tensor.name = tensor.name, f"{tensor.name}_real"
        self.drop_unread(maker)

    # chains of moves

    def bypass(
        self, first: FileOp, last: FileOp, source: FileTensor, chain: Sequence[FileOp]
    ) -> None:
        """What stands between two moves works on what the first one reads; the moves go."""
        result = last.outputs[0]
        if not chain:
            self.replace(result, source)
        else:
            self.rewire(first.outputs[0], source, [chain[0]])
            for op in chain:
                op.outputs[0].shape = source.shape
            self.replace(result, chain[-1].outputs[0])
        self.remove(last)
        if first is not last:
            self.drop_unread(first)

    def reshapes_around(self, op: FileOp) -> Around | None:
        """What lies between has no other reader."""
        data, result = op.inputs[0], op.outputs[0]
        if data is None or self.is_output(result) or self.is_output(data):
            return None
        first, last = self.producer(data), self.readers(result)
        if len(self.readers(data)) != 1 or len(last) != 1 or first is None:
            return None
        return (first, last[0]) if first.kind == last[0].kind == "RESHAPE" else None

    def shuffled_steps(self, op: FileOp, around: Around) -> QuantSteps:
        source, result = around[0].inputs[0], around[1].outputs[0]
        if source is None or source.type != _INT8 or not source.quant == result.quant:
            raise NotFitting(f"{op.origin} and its Reshapes do not have one int8 quantization")
        return self.steps(source)

    def shuffle_instead(
        self, op: FileOp, around: Around, kernel: np.ndarray, scale: float
    ) -> FileOp:
        source, result = around[0].inputs[0], around[1].outputs[0]
        assert source is not None
        count, points = len(kernel), (0,) * len(kernel)
        sums = (float(np.float32(self.steps(source).quant.scale * scale)),) * count
        stem, weights = f"{result.name}_shuffle", kernel.reshape(count, 1, 1, count)
        quant, bias = Quant((scale,) * count, points, 0), np.zeros(count, np.int32)
        held = [
            self.add_tensor(stem, _INT8, weights.shape, quant, weights),
            self.add_tensor(f"{stem}_bias", "INT32", (count,), Quant(sums, points, 0), bias),
        ]
        for old in (around[0], op, around[1]):
            self.remove(old)
        options = Record("Conv2DOptions", {"Padding": VALID, "StrideW": 1, "StrideH": 1})
        return self.add_op("CONV_2D", [source, *held], [result], options, 3)

    # float ops made integer

    def float_ops(self, ops: Sequence[FileOp]) -> list[FileOp]:
        found = [op for op in self.ops if op in ops and op.outputs[0].type == _FLOAT]
        if not found:
            raise NotFitting("the op already computes on integers")
        return found

    def can_be_integer(self, op: FileOp, kinds: Sequence[str]) -> bool:
        return op.kind in _INTEGER_KERNELS

    def check_slopes(self, op: FileOp) -> None:
        """Any operand of a float op may come from integers."""

    def kernel_fixes_steps(self, op: FileOp) -> bool:
        return op.kind in (*_KEEPS, *_FIXED)

    def float_steps(self, tensor: FileTensor) -> QuantSteps | None:
        """Of an operand: LiteRT has no op that computes on integers and floats."""
        maker = self.producer(tensor)
        if maker is None:
            name = tensor.name
            raise NotFitting(f"'{name}' is a float input of the network: its range is not known")
        source = maker.inputs[0]
        if maker.kind != "DEQUANTIZE" or source is None or source.type != _INT8:
            raise NotFitting(f"'{tensor.name}' comes from a float {maker.kind}")
        if source.quant is None or source.quant.per_channel:
            raise NotFitting(f"'{source.name}' does not have one scale")
        return QuantSteps(source.quant)

    def is_stepped(self, tensor: FileTensor) -> bool:
        return False

    def quantize_constant(self, op: FileOp, place: int) -> None:
        tensor = op.inputs[place]
        assert tensor is not None and tensor.data is not None
        steps, scale = symmetric_steps(tensor.data)
        op.inputs[place] = self.int8_constant(f"{tensor.name}_quantized", steps, scale)

    def quantize_results(
        self, ops: Sequence[FileOp], results: Mapping[FileTensor, QuantSteps]
    ) -> None:
        for op in ops:
            self._make_integer(op, results[op.outputs[0]].quant)
        for op in [op for op in self.ops if op.kind == "DEQUANTIZE"]:
            self.drop_unread(op)

    def _make_integer(self, op: FileOp, quant: Quant) -> None:
        result = op.outputs[0]
        op.inputs = [self._integer(tensor) for tensor in op.inputs]
        op.version = max(op.version, 1 if op.kind in _FIRST else 2)
        made = self.add_tensor(f"{result.name}_int8", _INT8, result.shape, quant)
        op.outputs = [made]
        for reader in self.readers(result):
            if reader.kind == "QUANTIZE":
                self._requantize(reader, made)
        if self.readers(result) or self.is_output(result):
            self.add_op("DEQUANTIZE", [made], [result], version=2)

    def _integer(self, tensor: FileTensor | None) -> FileTensor | None:
        """The int8 tensor that a float one was made of; weights and axes as they are."""
        if tensor is None or tensor.data is not None or tensor.type != _FLOAT:
            return tensor
        maker = self.producer(tensor)
        return maker.inputs[0] if maker is not None else tensor

    def _requantize(self, reader: FileOp, made: FileTensor) -> None:
        """A QUANTIZE of the float result reads integers now, or is not needed any more."""
        target = reader.outputs[0]
        if (target.type, target.quant) != (made.type, made.quant):
            reader.inputs = [made]
            reader.version = max(reader.version, 2)
        elif self.is_output(target):
            maker = self.producer(made)
            assert maker is not None
            self.remove(reader)
            maker.outputs = [target]
            self.rewire(made, target)
        else:
            self.remove(reader)
            self.rewire(target, made)


def _is_open(record: Record) -> bool:
    """Open in the signature, and 1 where the sizes stand."""
    signature, shape = record.get("ShapeSignature"), record.get("Shape")
    if signature is None or not len(signature):
        return False
    return bool(signature[0] == -1 and shape[0] == 1)
