"""The inputs and outputs of an .onnx file: what is sent and taken there, in which form."""

from __future__ import annotations

from collections.abc import Sequence

from npuscope.edits.onnx.ops import OnnxOps
from npuscope.edits.places import joined_parts
from npuscope.edits.records import LOWEST, Op, QuantSteps
from npuscope.edits.steps import add_steps, as_sent, dequantizer, quantizers
from npuscope.graph.model import Graph, Quant, Tensor


class OnnxBorder(OnnxOps):
    """Reading and writing of inputs and outputs."""

    def in_file(self, graph: Graph, name: str) -> str | None:
        """The file's tensor that a tensor of the Graph stands for: integers where it has them."""
        tensor = graph.tensors.get(name)
        if tensor is None:
            return name if self.producer(name) is not None else None
        own = name if self.producer(name) is not None else self._made_by(graph, name)
        if own is None or tensor.dtype.is_float:
            return own
        return self._quantized(own, tensor) or own

    def _made_by(self, graph: Graph, name: str) -> str | None:
        """By the op that makes it, where the Graph has a name of its own for it."""
        maker = graph.producers().get(name)
        op = self.op(maker.origin[-1]) if maker is not None and maker.origin else None
        if maker is None or op is None:
            return None
        outputs, place = self.outputs(op), maker.outputs.index(name)
        return outputs[place] if place < len(outputs) else None

    def _quantized(self, name: str, tensor: Tensor) -> str | None:
        """The integers behind a float tensor, if they are the ones of the Graph."""
        maker = dequantizer(self, name)
        if maker is not None:
            return str(self.inputs(maker)[0])
        for op in quantizers(self, name):
            scales = self.node_quant(op).scale.reshape(-1).astype(float).tolist()
            if tensor.quant is not None and tuple(scales) == tensor.quant.scales:
                return self.outputs(op)[0]
        return None

    # other things sent out

    def send(self, op: Op, way: Sequence[Op], tensor: str) -> None:
        output = self.outputs(way[-1] if way else op)[0]
        type = self.type(tensor)
        self.rewire(output, tensor)
        self.state(output, type=type)

    def send_parts(self, op: Op, way: Sequence[Op], parts: Sequence[str], graph: Graph) -> None:
        output = self.outputs(way[-1] if way else op)[0]
        joint = self.network_outputs
        new = [as_sent(self, part, way) for part in parts]
        if self.kind(op) == "QLinearConcat" and way and self.kind(way[-1]) == "Dequantize":
            # Real values, as the joint output was. In a QLinearConcat scale and zero point stand
            # beside each part, after its own two.
            inputs = self.inputs(op)
            rows = [inputs[place : place + 3] for place in range(2, len(inputs), 3)]
            new = [self.fresh(f"{part}_real") for part in joined_parts(self, op)]
            for name, row in zip(new, rows, strict=True):
                self.add_op("Dequantize", row, name)
        groups = [[name] if name != output else new for name in joint]
        self.set_network_outputs([name for group in groups for name in group], graph)

    # integers at the border

    def take_integers(
        self, tensor: str, readers: Sequence[Op], steps: QuantSteps, type: str
    ) -> None:
        self.state(tensor, type=type)
        if type == steps.type:
            for op in readers:
                self.remove(op)
                self.rewire(self.outputs(op)[0], tensor)
            return
        # The Quantize behind stays and moves the zero point.
        zero = steps.quant.zero_point + (-LOWEST if type == "uint8" else LOWEST)
        real = self.fresh(f"{tensor}_real")
        outer = QuantSteps(Quant(steps.quant.scales, (zero,)), type)
        self.rewire(tensor, real, self.readers(tensor))
        self.add_op("Dequantize", (tensor, *add_steps(self, f"{tensor}_{type}", outer)), real)

    def give_integers(self, tensor: str, maker: Op, integers: str) -> None:
        steps, source = self.made_steps(maker), self.producer(integers)
        assert source is not None  # the edit looked
        readers = self.readers(tensor)
        inner = self.fresh(f"{tensor}_real")
        self.set_output(maker, tensor, inner)
        self.rewire(tensor, inner, readers)
        self.rewire(integers, tensor)
        self.set_output(source, integers, tensor)
        self.state(tensor, type=steps.type)
