"""Steps in a .tflite file, where they belong to a tensor, and LiteRT kernels that want them so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from npuscope.edits.numbers import symmetric_steps
from npuscope.edits.places import drop_unread
from npuscope.edits.records import DEPTHWISE, LAYERS, NotFitting, QuantSteps, Tied
from npuscope.files.tflite.file_graph import TfliteFileGraph
from npuscope.files.tflite.file_parts import FileOp, FileTensor
from npuscope.files.tflite.spelling import int8_version
from npuscope.graph.model import Quant

FLOAT, INT8 = "FLOAT32", "INT8"
# Both sides have the same steps.
_TIED = (
    *("PAD", "RESHAPE", "SQUEEZE", "EXPAND_DIMS", "TRANSPOSE", "MAX_POOL_2D", "AVERAGE_POOL_2D"),
    *("STRIDED_SLICE", "RESIZE_NEAREST_NEIGHBOR"),
)
# Kernels that bring any steps to any others.
_FREE = (
    *("CONV_2D", "FULLY_CONNECTED", "DEPTHWISE_CONV_2D", "ADD", "SUB", "MUL", "MEAN", "PRELU"),
    *("LEAKY_RELU", "HARD_SWISH", "RELU", "RELU6", "QUANTIZE", "DEQUANTIZE"),
)
_FREE_READERS = (*_FREE, "LOGISTIC", "TANH", "SOFTMAX")


class TfliteSteps(TfliteFileGraph):
    """Reading and writing of steps."""

    def steps(self, tensor: FileTensor) -> QuantSteps:
        if tensor.type != INT8 or tensor.quant is None or tensor.quant.per_channel:
            raise NotFitting(f"'{tensor.name}' is not int8 with one scale")
        return QuantSteps(tensor.quant)

    def made_steps(self, op: FileOp) -> QuantSteps:
        result = op.outputs[0]
        if result.quant is None:
            raise NotFitting(f"'{result.name}' is not quantized")
        return QuantSteps(result.quant, result.type.lower())

    def stepped(self, tensor: FileTensor, steps: QuantSteps) -> FileTensor:
        return tensor

    def bind(self, tensor: FileTensor, steps: QuantSteps) -> None:
        """It has its steps."""

    def tied(self, tensor: FileTensor) -> Tied:
        if tensor.quant is None or tensor.type != INT8:
            raise NotFitting("its input is not int8")
        group, waiting = [tensor], [tensor]
        while waiting:
            at = waiting.pop()
            ops = [op for op in self.nodes if at in (op.inputs[:1] + op.outputs[:1])]
            for op in (op for op in ops if op.word in _TIED):
                ends = [t for t in (op.inputs[0], op.outputs[0]) if t is not None]
                new = [t for t in ends if t not in group]
                group += new
                waiting += new
        for other in group:
            self._check_tied(other, tensor.quant)
        readers = [op for op in self.nodes if any(other in op.inputs for other in group)]
        layers = [op for op in readers if self.kind(op) in (*LAYERS, DEPTHWISE)]
        return Tied(tuple(group), self.steps(tensor), tuple(layers))

    def _check_tied(self, tensor: FileTensor, quant: Quant) -> None:
        if tensor in self.network_outputs:
            raise NotFitting(f"'{tensor.name}' is an output of the network")
        if tensor.quant != quant:
            raise NotFitting(f"'{tensor.name}' is quantized differently")
        maker = self.producer(tensor)
        if maker is not None and maker.word not in (*_FREE, *_TIED):
            raise NotFitting(
                f"'{tensor.name}' comes from {maker.word}, whose quantization is fixed"
            )
        for op in self.readers(tensor):
            if op.word not in (*_FREE_READERS, *_TIED):
                raise NotFitting(f"'{tensor.name}' is also used by {op.word}")

    def set_steps(self, tensors: Sequence[FileTensor], steps: QuantSteps) -> None:
        for tensor in tensors:
            tensor.quant = steps.quant

    # float ops made integer

    def quantize_constant(self, op: FileOp, place: int) -> None:
        tensor = op.inputs[place]
        assert tensor is not None and tensor.data is not None
        steps, scale = symmetric_steps(tensor.data)
        row = steps.reshape(steps.shape or (1,))
        op.inputs[place] = self.add_constant(f"{tensor.name}_quantized", row, Quant((scale,), (0,)))

    def quantize_results(
        self, ops: Sequence[FileOp], results: Mapping[FileTensor, QuantSteps]
    ) -> None:
        for op in ops:
            result = op.outputs[0]
            op.inputs = [self._integer(tensor) for tensor in op.inputs]
            op.version = max(op.version, int8_version(op.word))
            quant = results[result].quant
            integers = self.add_tensor(f"{result.name}_int8", INT8, result.shape, quant)
            op.outputs = [integers]
            for reader in self.readers(result):
                if reader.word == "QUANTIZE":
                    self._requantize(reader, integers)
            if self.readers(result) or result in self.network_outputs:
                self.add_op("Dequantize", [integers], result)
        for op in [op for op in self.nodes if op.word == "DEQUANTIZE"]:
            drop_unread(self, op)

    def _integer(self, tensor: FileTensor | None) -> FileTensor | None:
        """The int8 tensor that a float one was made of; weights and axes as they are."""
        if tensor is None or tensor.data is not None or tensor.type != FLOAT:
            return tensor
        maker = self.producer(tensor)
        return maker.inputs[0] if maker is not None else tensor

    def _requantize(self, reader: FileOp, integers: FileTensor) -> None:
        """A QUANTIZE of the float result reads integers now, or is not needed any more."""
        target = reader.outputs[0]
        if (target.type, target.quant) != (integers.type, integers.quant):
            reader.inputs = [integers]
            reader.version = max(reader.version, 2)
        elif target in self.network_outputs:
            maker = self.producer(integers)
            assert maker is not None
            self.remove(reader)
            maker.outputs = [target]
            self.rewire(integers, target)
        else:
            self.remove(reader)
            self.rewire(target, integers)
