"""An .onnx file as a file graph (`files/file_graph.py`): look-ups and small changes of its nodes,
constants, inputs and outputs."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain, count
from typing import Any

import numpy as np

from npuscope.files.onnx.constants import text
from npuscope.files.onnx.entries import (
    FLOAT,
    Entry,
    batch,
    copied,
    new_entry,
    type_name,
    type_number,
)
from npuscope.files.onnx.stored_file import Node, StoredOnnx
from npuscope.graph.model import Graph, Quant, Tensor
from npuscope.text import safe_terminal

WORDS = {"Quantize": "QuantizeLinear", "Dequantize": "DequantizeLinear"}
_KINDS = {word: kind for kind, word in WORDS.items()}
_SAME_VALUE = ("Quantize", "Dequantize", "Identity")


class OnnxFileGraph(StoredOnnx):
    """Tensors are known by name. Nodes are found by what they make and read."""

    format, channels_first, steps_are_nodes = "onnx", True, True

    # nodes

    def op(self, origin: str) -> Node | None:
        """By the name that findings use, as long as it was not removed."""
        match = self._origins.get(origin)
        return match if match is not None and any(node is match for node in self.nodes) else None

    def kind(self, op: Node) -> str:
        return _KINDS.get(op.op_type, str(op.op_type))

    def word(self, op: Node) -> str:
        return str(op.op_type)

    def full_kind(self, op: Node) -> str:
        """With its domain, where that is not ONNX's own."""
        return f"{op.domain}.{op.op_type}" if op.domain else str(op.op_type)

    def own_name(self, op: Node) -> str:
        return text(op.name)

    def title(self, op: Node) -> str:
        name = text(op.name) or f"'{text(op.output[0])}'"
        return safe_terminal(f"{text(op.op_type)}:{name}")

    def inputs(self, op: Node) -> list[Any]:
        return [str(name) if name else None for name in op.input]

    def outputs(self, op: Node) -> list[str]:
        return [str(name) for name in op.output]

    def attribute(self, op: Node, name: str, default: Any = None) -> Any:
        import onnx

        for item in op.attribute:
            if item.name == name:
                return onnx.helper.get_attribute_value(item)
        return default

    def alike(self, one: Node, other: Node) -> bool:
        kinds = (one.op_type, one.domain) == (other.op_type, other.domain)
        return kinds and _written(one) == _written(other)

    def producer(self, tensor: str) -> Node | None:
        return next((node for node in self.nodes if tensor in node.output), None)

    def readers(self, tensor: str) -> list[Node]:
        """With those that read it in a body."""
        return [node for node in self.nodes if tensor in self._reads(node)]

    # tensors

    def name(self, tensor: str | None) -> str:
        return tensor or ""

    def shape(self, tensor: str) -> tuple[int, ...] | None:
        """As ONNX infers it, with open sizes as 1 (the batch); None where it cannot."""
        return self.inferred().shapes.get(tensor)

    def type(self, tensor: str) -> str:
        """Of inputs and outputs as the file states it, of others as ONNX infers it."""
        stated = {e.name: int(e.type.tensor_type.elem_type) for e in self._border()}
        number = stated.get(tensor) or self.inferred().types.get(tensor, 0)
        return type_name(number) if number else ""

    def quant(self, tensor: str) -> Quant | None:
        """In nodes around the tensor, if anywhere."""
        return None

    def values(self, tensor: str) -> np.ndarray | None:
        """Of an initializer or a Constant node."""
        for entry in self.graph.initializer:
            if entry.name == tensor:
                return self._reader.read(entry).data
        node = self.producer(tensor) if tensor else None
        if node is None or node.op_type != "Constant":
            return None
        value = next((item for item in node.attribute if item.name == "value"), None)
        return None if value is None else self._reader.read(value.t).data

    def state(
        self,
        tensor: str,
        shape: Sequence[int] | None = None,
        type: str = "",
        quant: Quant | None = None,
    ) -> None:
        for entry in (e for e in self._border() if e.name == tensor and type):
            entry.type.tensor_type.elem_type = type_number(type)

    def state_sizes(self, sizes: Mapping[str, Sequence[int]]) -> None:
        """Of inputs and outputs; what was noted of tensors inside is forgotten."""
        for entry in (e for e in self._border() if e.name in sizes):
            shape = entry.type.tensor_type.shape
            del shape.dim[:]
            for size in sizes[entry.name]:
                shape.dim.add().dim_value = int(size)
        del self.graph.value_info[:]
        self._inferred = None

    # new ones

    def fresh(self, stem: str) -> str:
        """A tensor name that is not in use yet."""
        used = {name for node in self.nodes for name in (*node.input, *node.output)}
        used |= {entry.name for entry in (*self.graph.initializer, *self.graph.input)}
        return _unused(stem, used | self._names_inside)

    def new_tensor(self, stem: str, shape: Sequence[int] = (), like: Any = None) -> str:
        return self.fresh(stem)

    def add_constant(self, stem: str, values: np.ndarray, quant: Quant | None = None) -> str:
        import onnx

        name = self.fresh(stem)
        array = np.ascontiguousarray(values) if values.ndim else values
        self.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        self._inferred = None
        return name

    def add_op(
        self,
        kind: str,
        inputs: Iterable[Any],
        output: Any,
        name: str = "",
        domain: str = "",
        **attributes: Any,
    ) -> Node:
        """Its place is found when the file is written."""
        import onnx

        outputs = [output] if isinstance(output, str) else [*output]
        name = _unused(name or outputs[0], {node.name for node in self.nodes})
        names = [tensor or "" for tensor in inputs]
        node = onnx.helper.make_node(WORDS.get(kind, kind), names, outputs, name, domain=domain)
        node.attribute.extend(onnx.helper.make_attribute(k, v) for k, v in attributes.items())
        self.nodes.append(node)
        self._inferred = None
        return node

    def again(self, op: Node, inputs: Iterable[Any], output: str, **changes: Any) -> Node:
        attributes = {item.name: self.attribute(op, item.name) for item in op.attribute} | changes
        stated = {name: value for name, value in attributes.items() if value is not None}
        return self.add_op(op.op_type, inputs, output, domain=op.domain, **stated)

    # changes

    def set_values(self, tensor: str, values: np.ndarray) -> None:
        """Of an initializer, which keeps its name."""
        import onnx

        entry = next(entry for entry in self.graph.initializer if entry.name == tensor)
        entry.CopyFrom(onnx.numpy_helper.from_array(values, tensor))
        self._inferred = None

    def set_attribute(self, op: Node, name: str, value: Any) -> None:
        import onnx

        others = [item for item in op.attribute if item.name != name]
        del op.attribute[:]
        new = [] if value is None else [onnx.helper.make_attribute(name, value)]
        op.attribute.extend([*others, *new])
        self._inferred = None

    def set_input(self, op: Node, place: int, tensor: str | None) -> None:
        """Absent ones in front of it become empty names."""
        while len(op.input) <= place:
            op.input.append("")
        op.input[place] = tensor or ""
        self._inferred = None

    def drop_inputs(self, op: Node, first: int) -> None:
        """The inputs from a place on."""
        del op.input[first:]
        self._inferred = None

    def set_output(self, op: Node, old: str, new: str) -> None:
        op.output[[*op.output].index(old)] = new
        self._inferred = None

    def set_kind(self, op: Node, kind: str) -> None:
        op.op_type = kind
        self._inferred = None

    def remove(self, op: Node) -> None:
        self.nodes = [other for other in self.nodes if other is not op]
        self._inferred = None

    def rewire(self, old: str, new: str, readers: Iterable[Node] | None = None) -> None:
        """Readers of `old` read `new`: all but the maker of `new`, unless they are named.

        Where `old` is an output of the graph and all readers move, the maker of `new` writes it
        under the old name from now on.
        """
        maker = self.producer(new)
        others = [node for node in self.readers(old) if node is not maker]
        for node in others if readers is None else readers:
            _rename(node.input, old, new)
        if readers is None and old in self.network_outputs:
            self._take_name(new, old)
        self._inferred = None

    def _take_name(self, tensor: str, name: str) -> None:
        if self.producer(tensor) is None:
            raise ValueError(f"'{tensor}' is not computed by a node that could write '{name}'")
        before = self.fresh(f"{name}_before")
        for node in self.nodes:
            for names in (node.input, node.output):
                _rename(names, name, before)
                _rename(names, tensor, name)

    # the network

    @property
    def network_inputs(self) -> list[str]:
        return [str(entry.name) for entry in self.graph.input]

    @network_inputs.setter
    def network_inputs(self, tensors: Sequence[str]) -> None:
        for entry in [entry for entry in self.graph.input if entry.name not in tensors]:
            self.graph.input.remove(entry)

    @property
    def network_outputs(self) -> list[str]:
        return [str(entry.name) for entry in self.graph.output]

    def set_network_outputs(self, tensors: Sequence[str], network: Graph) -> None:
        """What only others needed goes when the file is written."""
        existing = {entry.name: entry for entry in self.graph.output}
        entries = [
            copied(existing[name]) if name in existing else self._entry(network, name)
            for name in tensors
        ]
        del self.graph.output[:]
        self.graph.output.extend(entries)

    def _entry(self, network: Graph, tensor: str) -> Entry:
        """Where ONNX cannot infer type and shape the Graph tells them."""
        maker, in_network = self.producer(tensor), self.in_graph(network, tensor)
        kind = self.inferred().types.get(tensor, 0)
        if not kind and maker is not None and self.kind(maker) == "Dequantize":
            kind = FLOAT
        elif not kind and in_network is not None:
            kind = type_number(in_network.dtype.numpy)
        if not kind:
            raise ValueError(f"the type of '{safe_terminal(tensor)}' is unknown")
        shape: tuple[int | str | None, ...] | None = self.shape(tensor)
        if shape is None and in_network is not None:
            shape = in_network.source_shape or in_network.shape
        open_batch = next((dim for e in self.graph.input if (dim := batch(e)) is not None), None)
        if shape and open_batch is not None and shape[0] == 1:
            shape = (str(open_batch.dim_param) or None, *shape[1:])
        return new_entry(tensor, kind, shape)

    def in_graph(self, network: Graph, tensor: str) -> Tensor | None:
        """The tensor of the Graph that stands for one of the file: same op, same values."""
        maker = self.producer(tensor)
        while maker is not None and self.kind(maker) in _SAME_VALUE:
            maker = self.producer(maker.input[0])
        origins = (origin for origin, node in self._origins.items() if node is maker)
        origin = None if maker is None else next(origins, None)
        ops = [op for op in network.ops if origin and op.origin[-1:] == (origin,)]
        return network.output_tensor(ops[-1]) if ops else network.tensors.get(tensor)

    def _border(self) -> tuple[Entry, ...]:
        return (*self.graph.input, *self.graph.output)

    def close_batch(self) -> bool:
        """Outputs with an open first size too; they follow the inputs."""
        inputs = [size for entry in self.graph.input if (size := batch(entry)) is not None]
        outputs = [size for entry in self.graph.output if (size := batch(entry)) is not None]
        for size in (*inputs, *outputs) if inputs else ():
            size.dim_value = 1
        return bool(inputs)


def _rename(names: Any, old: str, new: str) -> None:
    for place, name in enumerate(names):
        if name == old:
            names[place] = new


def _unused(stem: str, used: Container[str]) -> str:
    numbered = (f"{stem}_{n}" for n in count(1))
    return next(name for name in chain([stem], numbered) if name not in used)


def _written(node: Node) -> list[bytes]:
    return sorted(item.SerializeToString(deterministic=True) for item in node.attribute)
