"""Steps in an .onnx file: QuantizeLinear and DequantizeLinear around floats, and the inputs of
QLinear ops. Here they become what a tensor of integers has: one scale and one zero point."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence

import numpy as np
from msgspec import Struct

from npuscope.edits.records import LAYERS, NotFitting, Op, QuantSteps, Tied
from npuscope.edits.steps import MOVES, add_steps, dequantizer, quantizers, steps_of
from npuscope.files.onnx.expand import QLINEAR
from npuscope.files.onnx.file_graph import OnnxFileGraph


class OnnxQuant(Struct, frozen=True):
    """real = scale * (q - zero_point); arrays of one element, or of one per channel of `axis`."""

    scale: np.ndarray
    zero_point: np.ndarray
    axis: int = 1

    @property
    def per_channel(self) -> bool:
        return self.scale.ndim > 0 and self.scale.size > 1


class Site(Struct, frozen=True):
    """A node that states the quantization of one of its tensors; `makes` it or reads it."""

    node: Op
    tensor: str
    scale: int
    zero_point: int
    makes: bool


class OnnxSteps(OnnxFileGraph):
    """Reading and writing of steps."""

    # one value

    def node_quant(self, op: Op) -> OnnxQuant:
        """Of a Quantize or Dequantize; NotFitting where its scale is computed."""
        inputs = self.inputs(op)
        scale = self.values(inputs[1])
        if scale is None:
            raise NotFitting(f"the scale of '{self.own_name(op)}' is computed")
        zero = self.values(inputs[2]) if len(inputs) > 2 and inputs[2] else None
        zero = np.zeros_like(scale, np.uint8) if zero is None else zero
        return OnnxQuant(scale, zero, int(self.attribute(op, "axis", 1)))

    def made_steps(self, op: Op) -> QuantSteps:
        quant = self.node_quant(op)
        if quant.per_channel:
            raise NotFitting(f"'{self.inputs(op)[0]}' has one scale per channel")
        return steps_of(quant.scale, quant.zero_point)

    def steps(self, tensor: str) -> QuantSteps:
        maker = dequantizer(self, tensor)
        if maker is None:
            raise NotFitting(f"'{tensor}' is not quantized")
        return self.made_steps(maker)

    # pairs of nodes

    def stepped(self, tensor: str, steps: QuantSteps) -> str:
        """Behind a Quantize and a Dequantize, unless it comes from one."""
        if dequantizer(self, tensor) is not None:
            return tensor
        constants = add_steps(self, tensor, steps)
        integers = self.fresh(f"{tensor}_quantized")
        self.add_op("Quantize", (tensor, *constants), integers)
        result = self.fresh(f"{tensor}_dequantized")
        self.add_op("Dequantize", (integers, *constants), result)
        return result

    def insert_pair(self, tensor: str, steps: QuantSteps) -> None:
        """Readers of a float tensor, and the network's output, get it quantized and dequantized.

        A Quantize that is there already serves all of them.
        """
        maker = self.producer(tensor)
        assert maker is not None  # inputs of the network were refused
        before = self.fresh(f"{tensor}_float")
        present = quantizers(self, tensor)
        others = [op for op in self.readers(tensor) if op is not (present or [None])[0]]
        self.set_output(maker, tensor, before)
        if present:
            self.set_input(present[0], 0, before)
            integers, constants = self.outputs(present[0])[0], self.inputs(present[0])[1:3]
        else:
            integers = self.fresh(f"{tensor}_quantized")
            constants = [*add_steps(self, tensor, steps)]
            self.add_op("Quantize", (before, *constants), integers)
        if others or tensor in self.network_outputs:
            self.add_op("Dequantize", (integers, *constants), tensor)

    def bind(self, tensor: str, steps: QuantSteps) -> None:
        """A layer computes on integers only when all its readers are quantizers."""
        readers = self.readers(tensor)
        if tensor in self.network_outputs or len(quantizers(self, tensor)) < len(readers):
            self.insert_pair(tensor, steps)

    # all places that state the steps of a tensor

    def sites(self) -> Iterator[Site]:
        """Of all integer tensors, activations and constants."""
        for op in self.nodes:
            kind, inputs, outputs = self.kind(op), self.inputs(op), self.outputs(op)
            if kind == "Quantize":
                yield Site(op, outputs[0], 1, 2, True)
            elif kind == "Dequantize":
                yield Site(op, inputs[0], 1, 2, False)
            elif kind == "QLinearConcat":
                yield Site(op, outputs[0], 0, 1, True)
                for place in range(2, len(inputs), 3):
                    yield Site(op, inputs[place], place + 1, place + 2, False)
            elif (row := QLINEAR.get(self.full_kind(op))) is not None:
                for tensor, scale, zero in row.operands:
                    yield Site(op, inputs[tensor], scale, zero, False)
                if len(inputs) > row.result[0] and inputs[row.result[0]]:
                    yield Site(op, outputs[0], *row.result, True)

    def zero_points(self, site: Site) -> np.ndarray | None:
        """None where the node leaves them out."""
        inputs = self.inputs(site.node)
        if len(inputs) <= site.zero_point or not inputs[site.zero_point]:
            return None
        values = self.values(inputs[site.zero_point])
        if values is None:
            raise NotFitting(f"the zero point of '{site.tensor}' is computed")
        return values

    def _site_steps(self, site: Site) -> QuantSteps:
        """One scale and a zero point that is written down."""
        scale, zero = self.values(self.inputs(site.node)[site.scale]), self.zero_points(site)
        if scale is None or zero is None or scale.size > 1:
            raise NotFitting(f"'{site.tensor}' does not have one scale and zero point")
        return steps_of(scale, zero)

    def _sites_in(self, tensors: Iterable[str]) -> list[Site]:
        return [site for site in self.sites() if site.tensor in tensors]

    def foreign(self, tensor: str, sites: list[Site], moves: Container[str]) -> Iterator[Op]:
        """Nodes that touch a tensor and neither state its steps nor only move it."""
        maker = self.producer(tensor)
        for op in [*self.readers(tensor), *([maker] if maker is not None else [])]:
            if self.kind(op) not in moves and not any(op is site.node for site in sites):
                yield op

    # tensors that share their steps

    def tied(self, tensor: str) -> Tied:
        maker = dequantizer(self, tensor)
        if maker is None and not any(site.tensor == tensor for site in self.sites()):
            raise NotFitting(f"'{tensor}' is not quantized")
        start = tensor if maker is None else self.inputs(maker)[0]
        group, waiting = {start: None}, [start]
        while waiting:
            new = [other for other in self._neighbours(waiting.pop()) if other not in group]
            group |= dict.fromkeys(new)
            waiting += dict.fromkeys(new)
        sites = self._sites_in(group)
        for other in group:
            if other in self.network_outputs:
                raise NotFitting(f"'{other}' is an output of the network")
            for op in self.foreign(other, sites, MOVES):
                raise NotFitting(f"'{other}' is also used by {self.word(op)}")
        steps = [self._site_steps(site) for site in sites]
        if len({one.quant for one in steps}) > 1:
            raise NotFitting(f"'{sites[0].tensor}' is quantized in more than one way")
        return Tied(tuple(group), steps[0], tuple(self._layers_at(sites)))

    def _neighbours(self, tensor: str) -> Iterator[str]:
        """Over a move of integers, or over Dequantize, a move of floats, Quantize."""
        for op in self.readers(tensor):
            if self.kind(op) in MOVES and self.inputs(op)[0] == tensor:
                yield from self.outputs(op)
            elif self.kind(op) == "Dequantize":
                readers = self.readers(self.outputs(op)[0])
                floats = [t for r in readers if self.kind(r) in MOVES for t in self.outputs(r)]
                yield from (self.outputs(q)[0] for name in floats for q in quantizers(self, name))
        maker = self.producer(tensor)
        if maker is None:
            return
        if self.kind(maker) in MOVES:
            yield self.inputs(maker)[0]
            yield from self.outputs(maker)
        elif self.kind(maker) == "Quantize":
            move = self.producer(self.inputs(maker)[0])
            if move is not None and self.kind(move) in MOVES:
                source = dequantizer(self, self.inputs(move)[0])
                yield from self.inputs(source)[:1] if source is not None else ()

    def _layers_at(self, sites: Iterable[Site]) -> Iterator[Op]:
        """Layers that read the tensors, as integers or dequantized."""
        for site in (site for site in sites if not site.makes):
            dequantized = self.kind(site.node) == "Dequantize"
            ops = self.readers(self.outputs(site.node)[0]) if dequantized else [site.node]
            yield from (op for op in ops if self.kind(op) in LAYERS)

    def set_steps(self, tensors: Sequence[str], steps: QuantSteps) -> None:
        """One new pair of constants at all sites."""
        sites = self._sites_in(tensors)
        scale, zero = add_steps(self, f"{sites[0].tensor}_new", steps)
        for site in sites:
            self.set_input(site.node, site.scale, scale)
            self.set_input(site.node, site.zero_point, zero)
