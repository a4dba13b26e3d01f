"""The inputs and outputs of an .onnx file: their entries, types and open sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npuscope.edits.onnx.ops import OnnxOps
from npuscope.edits.records import LOWEST, NotFitting, QuantSteps
from npuscope.files.onnx.file_graph import DEQUANTIZE, QUANTIZE, Node
from npuscope.files.onnx.inference import inferred_graph
from npuscope.graph.model import Graph, Quant, Tensor
from npuscope.text import safe_terminal

FLOAT = 1  # number of an ONNX element type
_SAME_VALUE = (QUANTIZE, DEQUANTIZE, "Identity")
_STEP = 3  # a QLinearConcat lists tensor, scale and zero point of each part, after its own two


class OnnxBorder(OnnxOps):
    """Reading and writing of inputs and outputs."""

    def network_inputs(self) -> list[str]:
        return [str(entry.name) for entry in self.graph.input]

    def network_outputs(self) -> list[str]:
        return [str(entry.name) for entry in self.graph.output]

    def drop_inputs(self, tensors: Sequence[str]) -> None:
        for entry in [entry for entry in self.graph.input if entry.name in tensors]:
            self.graph.input.remove(entry)

    def close_batch(self) -> bool:
        """Outputs with an open first size too; they follow the inputs. False: nothing was open."""
        inputs = [dim for entry in self.graph.input if (dim := _open_batch(entry)) is not None]
        outputs = [dim for entry in self.graph.output if (dim := _open_batch(entry)) is not None]
        for dim in (*inputs, *outputs) if inputs else ():
            dim.dim_value = 1
        return bool(inputs)

    # types and entries

    def element_types(self) -> dict[str, int]:
        """Numbers of the types of all tensors that ONNX can infer."""
        graph = inferred_graph(self.current())
        entries = (*graph.input, *graph.output, *graph.value_info)
        known = {e.name: int(e.type.tensor_type.elem_type) for e in entries}
        return known | {e.name: int(e.data_type) for e in graph.initializer}

    def _entries(self, graph: Graph, tensors: Sequence[str]) -> list[Any]:
        """Entries of new outputs; where ONNX cannot infer them the Graph tells type and shape."""
        types = self.element_types()
        existing = {entry.name: entry for entry in self.graph.output}
        return [
            existing[name] if name in existing else self._entry(graph, name, types.get(name))
            for name in tensors
        ]

    def _entry(self, graph: Graph, tensor: str, kind: int | None) -> Any:
        from onnx import helper

        known = self.in_graph(graph, tensor)
        if not kind and self.dequantizer(tensor) is not None:
            kind = FLOAT
        elif not kind and known is not None:
            kind = helper.np_dtype_to_tensor_dtype(known.dtype.numpy)
        if not kind:
            raise NotFitting(f"the type of '{safe_terminal(tensor)}' is not known")
        shape: tuple[int | str | None, ...] | None = self.shape(tensor)
        if shape is None and known is not None:
            shape = known.source_shape or known.shape
        batch = next((dim for e in self.graph.input if (dim := _open_batch(e)) is not None), None)
        if shape and batch is not None and shape[0] == 1:
            shape = (str(batch.dim_param) or None, *shape[1:])
        return helper.make_tensor_value_info(tensor, kind, shape)

    def _set_entries(self, entries: Sequence[Any]) -> None:
        """Exactly these outputs; what only others needed goes when the file is written."""
        copies = []
        for entry in entries:
            copy = type(entry)()
            copy.CopyFrom(entry)
            copies.append(copy)
        del self.graph.output[:]
        self.graph.output.extend(copies)

    def set_outputs(self, tensors: Sequence[str], graph: Graph) -> None:
        self._set_entries(self._entries(graph, tensors))

    # tensors of the Graph and of the file

    def in_graph(self, graph: Graph, tensor: str) -> Tensor | None:
        """The tensor of the Graph that stands for one of the file: same op, same values."""
        maker = self.producer(tensor)
        while maker is not None and maker.op_type in _SAME_VALUE:
            maker = self.producer(maker.input[0])
        origin = self.origin(maker) if maker is not None else None
        ops = [op for op in graph.ops if origin and op.origin[-1:] == (origin,)]
        return graph.output_tensor(ops[-1]) if ops else graph.tensors.get(tensor)

    def in_file(self, graph: Graph, name: str) -> str | None:
        """The file's tensor that a tensor of the Graph stands for: integers where it has them."""
        tensor = graph.tensors.get(name)
        if tensor is None:
            return name if self.producer(name) is not None else None
        found = name if self.producer(name) is not None else self._made_by(graph, name)
        if found is None or tensor.dtype.is_float:
            return found
        return self._quantized(found, tensor) or found

    def _made_by(self, graph: Graph, name: str) -> str | None:
        """By the op that makes it, where the Graph has a name of its own for it."""
        maker = graph.producers().get(name)
        node = self.op(maker.origin[-1]) if maker is not None and maker.origin else None
        if maker is None or node is None:
            return None
        place = maker.outputs.index(name)
        return str(node.output[place]) if place < len(node.output) else None

    def _quantized(self, name: str, tensor: Tensor) -> str | None:
        """The integers behind a float tensor, if they are the ones of the Graph."""
        maker = self.dequantizer(name)
        if maker is not None:
            return str(maker.input[0])
        for node in self.quantizers(name):
            scales = self.quant(node).scale.reshape(-1).astype(float).tolist()
            if tensor.quant is not None and tuple(scales) == tensor.quant.scales:
                return str(node.output[0])
        return None

    # other things sent out

    def as_sent(self, tensor: str, way: Sequence[Node]) -> str:
        """Integers where the output is made of integers."""
        maker = self.dequantizer(tensor)
        ends_float = not way or way[-1].op_type == DEQUANTIZE
        return tensor if ends_float or maker is None else str(maker.input[0])

    def send(self, op: Node, way: Sequence[Node], tensor: str) -> None:
        output = (way[-1] if way else op).output[0]
        kind = self.element_types().get(tensor)
        self.rewire(output, tensor)
        entry = next(e for e in self.graph.output if e.name == output)
        if kind:
            entry.type.tensor_type.elem_type = kind

    def joined_parts(self, op: Node) -> list[str]:
        return [row[0] for row in _rows(op)]

    def send_parts(self, op: Node, way: Sequence[Node], parts: Sequence[str], graph: Graph) -> None:
        output = (way[-1] if way else op).output[0]
        new = self._entries(graph, [self.as_sent(part, way) for part in parts])
        if op.op_type == "QLinearConcat" and way and way[-1].op_type == DEQUANTIZE:
            for entry, row in zip(new, _rows(op), strict=True):
                self._send_real(entry, row)
        groups = [[entry] if entry.name != output else new for entry in self.graph.output]
        self._set_entries([entry for group in groups for entry in group])

    def _send_real(self, entry: Any, row: tuple[str, ...]) -> None:
        """The part goes out as real values, as the joint output did."""
        entry.name = self.fresh(f"{row[0]}_real")
        entry.type.tensor_type.elem_type = FLOAT
        self.add_node(DEQUANTIZE, row, entry.name)

    # integers at the border

    def convertible(self, tensors: Sequence[str]) -> list[str]:
        """Floats that are not constants."""
        constants = {entry.name for entry in self.graph.initializer}
        entries = (*self.graph.input, *self.graph.output)
        floats = {e.name for e in entries if e.type.tensor_type.elem_type == FLOAT} - constants
        return [tensor for tensor in tensors if tensor in floats]

    def made_steps(self, op: Node) -> QuantSteps:
        return self.node_steps(op)

    def take_integers(self, tensor: str, readers: Sequence[Node], steps: QuantSteps) -> None:
        for node in readers:
            self.remove(node)
            self.rewire(node.output[0], tensor)
        self._set_type(self.graph.input, tensor, steps.type)

    def take_shifted(self, tensor: str, steps: QuantSteps, wanted: str) -> None:
        """Bytes of the other sign: the QuantizeLinear behind stays and moves the zero point."""
        zero = steps.quant.zero_point + (-LOWEST if wanted == "uint8" else LOWEST)
        outer = QuantSteps(Quant(steps.quant.scales, (zero,)), wanted)
        readers = self.readers(tensor)
        real = self.fresh(f"{tensor}_real")
        constants = self.add_steps(f"{tensor}_{wanted}", outer)
        self.add_node(DEQUANTIZE, (tensor, *constants), real)
        self.rewire(tensor, real, readers)
        self._set_type(self.graph.input, tensor, wanted)

    def converted(self, op: Node) -> str | None:
        return str(op.input[0]) if op.op_type == DEQUANTIZE else None

    def give_integers(self, tensor: str, maker: Node, integers: str) -> None:
        steps, source = self.node_steps(maker), self.producer(integers)
        assert source is not None  # the edit looked
        readers = self.readers(tensor)
        inner = self.fresh(f"{tensor}_real")
        maker.output[0] = inner
        self.rewire(tensor, inner, readers)
        self.rewire(integers, tensor)
        source.output[list(source.output).index(integers)] = tensor
        self._set_type(self.graph.output, tensor, steps.type)

    def _set_type(self, entries: Any, tensor: str, type: str) -> None:
        import onnx

        entry = next(entry for entry in entries if entry.name == tensor)
        number = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(type))
        entry.type.tensor_type.elem_type = number


def _open_batch(entry: Any) -> Any | None:
    dims = entry.type.tensor_type.shape.dim
    return dims[0] if dims and not dims[0].HasField("dim_value") else None


def _rows(concat: Node) -> list[tuple[str, ...]]:
    """The parts; in a QLinearConcat each with its scale and zero point."""
    names = tuple(str(name) for name in concat.input)
    if concat.op_type == "Concat":
        return [(name,) for name in names]
    return [names[place : place + _STEP] for place in range(2, len(names), _STEP)]
