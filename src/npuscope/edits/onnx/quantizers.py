"""Steps in an .onnx file: QuantizeLinear and DequantizeLinear around floats, and the inputs of
QLinear ops. Here they become what a tensor of integers has: one scale and one zero point."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from npuscope.edits.records import LAYERS, LOWEST, NotFitting, QuantSteps
from npuscope.files.onnx.expand import QLINEAR
from npuscope.files.onnx.file_graph import DEQUANTIZE, QUANTIZE, Node, OnnxFileGraph
from npuscope.graph.model import Quant
from npuscope.lean_dataclass import dataclass

PAIR = (QUANTIZE, DEQUANTIZE)
# Ops that hand integers on: the tensors on both sides share scale and zero point.
MOVES = (
    *("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "MaxPool", "Identity", "Slice"),
    *("Split", "DepthToSpace", "SpaceToDepth"),
)
_MOVES_OF_TYPES = (*MOVES, "Concat", "Gather", "Tile", "Expand")  # a Pad fills in its own zeros
_MOVERS = (*MOVES, "Pad", "Gather", "Relu", "Clip")  # what they make lies on the same steps
# Scale and zero point of their results are inputs 6 and 7.
_INTEGER_OPS = ("QLinearConv", "QLinearMatMul", "QLinearAdd", "QLinearMul")


@dataclass(frozen=True, slots=True)
class Site:
    """A node that states the quantization of one of its tensors; `makes` it or reads it."""

    node: Node
    tensor: str
    scale: int
    zero_point: int
    makes: bool


class OnnxQuantizers(OnnxFileGraph):
    """Reading and writing of steps."""

    # one value

    def dequantizer(self, tensor: str) -> Node | None:
        """The DequantizeLinear that makes a tensor, if one does."""
        maker = self.producer(tensor)
        return maker if maker is not None and maker.op_type == DEQUANTIZE else None

    def quantizers(self, tensor: str) -> list[Node]:
        """The QuantizeLinear nodes that read a tensor."""
        return [node for node in self.readers(tensor) if node.op_type == QUANTIZE]

    def node_steps(self, node: Node) -> QuantSteps:
        """Of a Q or DQ on an activation; NotFitting where it has many scales or computed ones."""
        try:
            quant = self.quant(node)
        except ValueError as error:
            raise NotFitting(str(error)) from error
        if quant.per_channel:
            raise NotFitting(f"'{node.input[0]}' has one scale per channel")
        return _steps(quant.scale, quant.zero_point)

    def steps(self, tensor: str) -> QuantSteps:
        maker = self.dequantizer(tensor)
        if maker is None:
            raise NotFitting(f"'{tensor}' is not quantized")
        return self.node_steps(maker)

    def moved_steps(self, tensor: str) -> QuantSteps:
        node = self._first_maker(tensor)
        if node is not None and node.op_type in PAIR:
            return self.node_steps(node)
        if node is not None and node.op_type in _INTEGER_OPS:
            scale, zero = (self.array(node.input[place]) for place in (6, 7))
            if scale is not None and zero is not None:
                return _steps(scale, zero)
        raise NotFitting(f"'{tensor}' is not quantized")

    def is_integer(self, tensor: str) -> bool:
        node = self._first_maker(tensor)
        return node is not None and node.op_type in (QUANTIZE, *_INTEGER_OPS)

    def _first_maker(self, tensor: str) -> Node | None:
        """The node that made the values, before any moves."""
        node = self.producer(tensor)
        while node is not None and node.op_type in _MOVERS:
            node = self.producer(node.input[0])
        return node

    def steps_behind(self, tensor: str) -> QuantSteps | None:
        found = self.quantizers(tensor)
        return self.node_steps(found[0]) if found else None

    def users(self, tensor: str) -> list[Node]:
        readers = self.readers(tensor)
        while len(readers) == 1 and readers[0].op_type in PAIR:
            readers = self.readers(readers[0].output[0])
        return readers

    def plain(self, tensor: str) -> str:
        node = self.producer(tensor)
        while node is not None and node.op_type in PAIR:
            tensor = node.input[0]
            node = self.producer(tensor)
        return tensor

    def step_nodes(self, tensor: str) -> list[Node]:
        return [node for node in self.readers(tensor) if node.op_type in PAIR]

    # pairs of nodes

    def add_steps(self, stem: str, steps: QuantSteps) -> tuple[str, str]:
        """Names of a scale and a zero point."""
        scale = self.add_constant(f"{stem}_scale", np.array(steps.quant.scale, np.float32))
        zero = np.array(steps.quant.zero_point, steps.type)
        return scale, self.add_constant(f"{stem}_zero_point", zero)

    def stepped(self, tensor: str, steps: QuantSteps) -> str:
        """Behind a QuantizeLinear and a DequantizeLinear, unless it comes from one."""
        if self.dequantizer(tensor) is not None:
            return tensor
        constants = self.add_steps(tensor, steps)
        integers = self.fresh(f"{tensor}_quantized")
        self.add_node(QUANTIZE, (tensor, *constants), integers)
        result = self.fresh(f"{tensor}_dequantized")
        self.add_node(DEQUANTIZE, (integers, *constants), result)
        return result

    def in_steps_of(self, maker: Node, tensor: str, result: str, whole: str) -> None:
        """`result` is `tensor` in the steps of a DequantizeLinear that is there already."""
        integers = self.fresh(whole)
        self.add_node(QUANTIZE, [tensor, *maker.input[1:]], integers)
        self.add_node(DEQUANTIZE, [integers, *maker.input[1:]], result)

    def insert_pair(self, tensor: str, steps: QuantSteps) -> None:
        """Readers of a float tensor, and the network's output, get it quantized and dequantized.

        A QuantizeLinear that is there already serves all of them.
        """
        maker = self.producer(tensor)
        assert maker is not None  # inputs of the network were refused
        before = self.fresh(f"{tensor}_float")
        present = self.quantizers(tensor)
        others = [node for node in self.readers(tensor) if node is not (present or [None])[0]]
        maker.output[list(maker.output).index(tensor)] = before
        if present:
            self.set_input(present[0], 0, before)
            integers, constants = present[0].output[0], present[0].input[1:3]
        else:
            integers = self.fresh(f"{tensor}_quantized")
            constants = self.add_steps(tensor, steps)
            self.add_node(QUANTIZE, (before, *constants), integers)
        if others or self.is_output(tensor):
            self.add_node(DEQUANTIZE, (integers, *constants), tensor)

    def bind(self, tensor: str, steps: QuantSteps) -> None:
        """A layer computes on integers only when all its readers are quantizers."""
        readers = self.readers(tensor)
        if self.is_output(tensor) or any(node.op_type != QUANTIZE for node in readers):
            self.insert_pair(tensor, steps)

    # all places that state the steps of a tensor

    def sites(self) -> Iterator[Site]:
        """Of all integer tensors, activations and constants."""
        for node in self.nodes:
            yield from _sites_of(node)

    def _zero_points(self, site: Site) -> np.ndarray | None:
        """None where the node leaves them out."""
        present = len(site.node.input) > site.zero_point and site.node.input[site.zero_point]
        if not present:
            return None
        values = self.array(site.node.input[site.zero_point])
        if values is None:
            raise NotFitting(f"the zero point of '{site.tensor}' is computed")
        return values

    def _site_steps(self, site: Site) -> QuantSteps:
        """One scale and a zero point that is written down."""
        scale, zero = self.array(site.node.input[site.scale]), self._zero_points(site)
        if scale is None or zero is None or scale.size > 1:
            raise NotFitting(f"'{site.tensor}' does not have one scale and zero point")
        return _steps(scale, zero)

    def tied(self, tensor: str) -> list[str]:
        maker = self.dequantizer(tensor)
        if maker is None and not any(site.tensor == tensor for site in self.sites()):
            raise NotFitting(f"'{tensor}' is not quantized")
        start = tensor if maker is None else str(maker.input[0])
        group, waiting = {start: None}, [start]
        while waiting:
            new = [other for other in self._neighbours(waiting.pop()) if other not in group]
            group |= dict.fromkeys(new)
            waiting += dict.fromkeys(new)
        self._check_tied([*group])
        return [*group]

    def _neighbours(self, tensor: str) -> Iterator[str]:
        """Over a move of integers, or over DequantizeLinear, a move of floats, QuantizeLinear."""
        for node in self.readers(tensor):
            if node.op_type in MOVES and node.input[0] == tensor:
                yield from node.output
            elif node.op_type == DEQUANTIZE:
                moved = [n for n in self.readers(node.output[0]) if n.op_type in MOVES]
                floats = [name for n in moved for name in n.output]
                yield from (q.output[0] for name in floats for q in self.quantizers(name))
        maker = self.producer(tensor)
        if maker is None:
            return
        if maker.op_type in MOVES:
            yield maker.input[0]
            yield from maker.output
        elif maker.op_type == QUANTIZE:
            move = self.producer(maker.input[0])
            if move is not None and move.op_type in MOVES:
                source = self.producer(move.input[0])
                yield from source.input[:1] if source and source.op_type == DEQUANTIZE else ()

    def _check_tied(self, group: list[str]) -> None:
        """Every node that touches the tensors must follow the change."""
        found = self._sites_in(group)
        for tensor in group:
            if self.is_output(tensor):
                raise NotFitting(f"'{tensor}' is an output of the network")
            for node in self._foreign(tensor, found, MOVES):
                raise NotFitting(f"'{tensor}' is also used by {node.op_type}")
        if len({self._site_steps(site).quant for site in found}) > 1:
            raise NotFitting(f"'{found[0].tensor}' is quantized in more than one way")

    def _sites_in(self, group: Iterable[str]) -> list[Site]:
        return [site for site in self.sites() if site.tensor in group]

    def _foreign(self, tensor: str, found: list[Site], moves: Sequence[str]) -> Iterator[Node]:
        """Nodes that touch a tensor and neither state its steps nor only move it."""
        maker = self.producer(tensor)
        known = [site.node for site in found]
        for node in [*self.readers(tensor), *([maker] if maker is not None else [])]:
            if node.op_type not in moves and not any(node is other for other in known):
                yield node

    def tied_steps(self, group: Sequence[str]) -> QuantSteps:
        return self._site_steps(self._sites_in(group)[0])

    def tied_layers(self, group: Sequence[str]) -> list[Node]:
        """Layers that read the tensors, as integers or dequantized."""
        nodes: list[Node] = []
        for site in self._sites_in(group):
            if site.makes:
                continue
            direct = site.node.op_type != DEQUANTIZE
            nodes += [site.node] if direct else self.readers(site.node.output[0])
        return [node for node in nodes if node.op_type in LAYERS]

    def set_steps(self, group: Sequence[str], steps: QuantSteps) -> None:
        """One new pair of constants at all sites."""
        found = self._sites_in(group)
        scale, zero = self.add_steps(f"{found[0].tensor}_new", steps)
        for site in found:
            self.set_input(site.node, site.scale, scale)
            self.set_input(site.node, site.zero_point, zero)

    # types

    def unsigned(self) -> list[str]:
        found = self._unsigned_sites()
        if not found:
            raise NotFitting("no tensor is uint8")
        tensors = sorted(self._with_moved({site.tensor for site in found}))
        for tensor in tensors:
            if self.is_input(tensor) or self.is_output(tensor):
                raise NotFitting(
                    f"the uint8 tensor '{tensor}' is an input or output of the network"
                )
            for node in self._foreign(tensor, found, _MOVES_OF_TYPES):
                raise NotFitting(f"a {node.op_type} computes on the uint8 tensor '{tensor}'")
        return tensors

    def _unsigned_sites(self) -> list[Site]:
        return [site for site in self.sites() if self._is_unsigned(site)]

    def _is_unsigned(self, site: Site) -> bool:
        zero = self._zero_points(site)
        if zero is not None:
            return zero.dtype == np.uint8
        values = self.array(site.tensor)
        return site.makes or (values is not None and values.dtype == np.uint8)

    def _with_moved(self, tensors: set[str]) -> set[str]:
        """And what moves bring to them or make of them, where nobody states a zero point."""
        waiting, found = [*tensors], set(tensors)
        while waiting:
            tensor = waiting.pop()
            maker = self.producer(tensor)
            nodes = [*self.readers(tensor), *([maker] if maker is not None else [])]
            for node in (node for node in nodes if node.op_type in _MOVES_OF_TYPES):
                sources = node.input if node.op_type == "Concat" else node.input[:1]
                new = {*sources, *node.output} - found - {""}
                found |= new
                waiting += new
        return found

    def make_signed(self, group: Sequence[str]) -> None:
        found = self._unsigned_sites()
        for tensor in group:
            self._shift_constant(tensor)
        for site in found:
            zero = self._zero_points(site)
            old = np.zeros((), np.int16) if zero is None else zero.astype(np.int16)
            name = self.add_constant(f"{site.tensor}_zero", (old + LOWEST).astype(np.int8))
            self.set_input(site.node, site.zero_point, name)

    def _shift_constant(self, tensor: str) -> None:
        """Weights stored as uint8; all who read them are among the sites."""
        values = self.array(tensor)
        if values is not None:
            shifted = (values.astype(np.int16) + LOWEST).astype(np.int8)
            self.rewire(tensor, self.add_constant(f"{tensor}_int8", shifted))


def _steps(scale: np.ndarray, zero: np.ndarray) -> QuantSteps:
    quant = Quant((float(scale.reshape(-1)[0]),), (int(zero.reshape(-1)[0]),))
    return QuantSteps(quant, str(zero.dtype))


def _sites_of(node: Node) -> Iterator[Site]:
    if node.op_type == QUANTIZE:
        yield Site(node, node.output[0], 1, 2, True)
    elif node.op_type == DEQUANTIZE:
        yield Site(node, node.input[0], 1, 2, False)
    elif node.op_type == "QLinearConcat":
        yield Site(node, node.output[0], 0, 1, True)
        for place in range(2, len(node.input), 3):
            yield Site(node, node.input[place], place + 1, place + 2, False)
    else:
        row = QLINEAR.get(f"{node.domain}.{node.op_type}" if node.domain else node.op_type)
        if row is None:
            return
        for tensor, scale, zero in row.operands:
            yield Site(node, node.input[tensor], scale, zero, False)
        if len(node.input) > row.result[0] and node.input[row.result[0]]:
            yield Site(node, node.output[0], *row.result, True)


def attributes_of(document: OnnxFileGraph, node: Node) -> dict[str, Any]:
    return {item.name: document.attribute(node, item.name) for item in node.attribute}
