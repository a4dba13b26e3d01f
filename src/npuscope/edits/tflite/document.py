"""A .tflite file as a document, and what is sent and taken at its inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence

from npuscope.edits.places import drop_unread
from npuscope.edits.records import DEPTHWISE, LOWEST, NotFitting, QuantSteps
from npuscope.edits.tflite.ops import TfliteOps
from npuscope.files.tflite.file_parts import FileOp, FileTensor
from npuscope.graph.model import Graph, Quant
from npuscope.structs import replace


class TfliteDocument(TfliteOps):
    """The file graph with all answers of its dialect."""

    depthwise: tuple[str, ...] = (DEPTHWISE,)
    mixes_signs = False

    def in_file(self, graph: Graph, name: str) -> FileTensor | None:
        maker = graph.producers().get(name)
        op = self.op(maker.origin[-1]) if maker is not None and maker.origin else None
        if maker is None or op is None:
            own = [t for t in self.tensors if t.name == name]
            return own[0] if len(own) == 1 and self.producer(own[0]) else None
        place = maker.outputs.index(name)
        return op.outputs[place] if place < len(op.outputs) else None

    def send(self, op: FileOp, way: Sequence[FileOp], tensor: FileTensor) -> None:
        """A QUANTIZE between signed and unsigned bytes writes the same steps, shifted."""
        self.rewire(op.outputs[0], tensor)
        self.remove(op)
        shift = {("INT8", "UINT8"): -LOWEST, ("UINT8", "INT8"): LOWEST}
        for step in way:
            target = step.outputs[0]
            if step.word == "QUANTIZE" and tensor.quant is not None and target.quant is not None:
                zero = tensor.quant.zero_point + shift.get((tensor.type, target.type), 0)
                target.quant = replace(tensor.quant, zero_points=(zero,))

    def send_parts(
        self, op: FileOp, way: Sequence[FileOp], parts: Sequence[FileTensor], graph: Graph
    ) -> None:
        """Each part gets the conversions that stood behind the whole."""
        output = (way[-1] if way else op).outputs[0]
        results = []
        for part in parts:
            for step in way:
                result = self.new_tensor(f"{part.name}_out", part.shape, step.outputs[0])
                self.again(step, [part], result)
                part = result
            results.append(part)
        groups = [[tensor] if tensor is not output else results for tensor in self.network_outputs]
        self.set_network_outputs([tensor for group in groups for tensor in group], graph)

    def take_integers(
        self, tensor: FileTensor, readers: Sequence[FileOp], steps: QuantSteps, type: str
    ) -> None:
        if type == steps.type:
            results = [op.outputs[0] for op in readers]
            place = self.network_inputs.index(tensor)
            for op in readers:
                self.remove(op)
            for other in results[1:]:
                self.rewire(other, results[0])
            self.network_inputs[place] = results[0]
            results[0].name = tensor.name
            return
        if tensor.type == "UINT8":
            raise NotFitting(f"input '{tensor.name}' is already uint8")
        zero = steps.quant.zero_point + (-LOWEST if type == "uint8" else LOWEST)
        self.state(tensor, type=type, quant=Quant(steps.quant.scales, (zero,)))

    def give_integers(self, tensor: FileTensor, maker: FileOp, integers: FileTensor) -> None:
        self.network_outputs = [integers if t is tensor else t for t in self.network_outputs]
        integers.name, tensor.name = tensor.name, f"{tensor.name}_real"
        drop_unread(self, maker)
