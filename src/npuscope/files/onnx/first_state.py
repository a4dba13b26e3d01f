"""An .onnx file as it was read: what of it still holds once nodes were changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from npuscope.errors import ModelError
from npuscope.files.onnx.bodies import captured, nodes_in_order, outer_names
from npuscope.files.onnx.constants import text
from npuscope.files.onnx.inference import inferred_graph
from npuscope.text import safe_terminal

Node = Any
Model = Any


def serialized(model: Any) -> bytes:
    from google.protobuf.message import EncodeError  # type: ignore[import-untyped]

    try:
        return bytes(model.SerializeToString(deterministic=True))
    except (EncodeError, ValueError):
        raise ModelError("the file would be larger than 2 GB: no reader would take it") from None


class FirstState:
    """`named` are tensors that training and quantization remarks name."""

    def __init__(self, model: Model, original: bytes) -> None:
        data = serialized(model)
        self._digest = blake2b(data).digest()
        self._data = original or data
        names = {
            item.value
            for entry in model.graph.quantization_annotation
            for item in entry.quant_parameter_tensor_names
        }
        for training in model.training_info:
            names |= outer_names(training.algorithm) | outer_names(training.initialization)
            bindings = (*training.initialization_binding, *training.update_binding)
            names |= {text for binding in bindings for text in (binding.key, binding.value)}
        self.named = names

    def is_like(self, data: bytes) -> bool:
        """Is this what the writer makes of the file as it was?"""
        return blake2b(data).digest() == self._digest

    def settle(
        self, model: Model, nodes: Sequence[Node], inside: Mapping[int, frozenset[str]]
    ) -> None:
        """Drop from a changed model what does not hold any more: stated shapes and remarks.

        `inside`: what the bodies of a node read, by its id. A tensor that they read cannot be
        changed, for nobody edits the bodies along.
        """
        import onnx

        holders = [node for node in nodes if id(node) in inside]
        if not (holders or model.graph.value_info or model.graph.quantization_annotation):
            return
        first = onnx.ModelProto.FromString(self._data)
        both = _Both(first, model)
        for node in holders:
            both.check(node, inside[id(node)])
        stale_names = both.first_makers.keys() - both.alike
        _keep(model.graph.value_info, lambda entry: entry.name not in stale_names)
        lost = both.first_makers.keys() - both.makers.keys()
        _keep(model.graph.quantization_annotation, lambda entry: entry.tensor_name not in lost)


def _keep(entries: Any, holds: Any) -> None:
    survivors = [entry for entry in entries if holds(entry)]
    if len(survivors) < len(entries):
        copies = [type(entry).FromString(entry.SerializeToString()) for entry in survivors]
        del entries[:]
        entries.extend(copies)


class _Both:
    """A model before and after edits. `alike` are tensors of the same type and shape as before,
    as far as anybody can tell."""

    def __init__(self, first: Model, model: Model) -> None:
        self.first_makers, self.makers = _makers(first), _makers(model)
        self._first_types, self._types = _types(first), _types(model)
        sources = _sources(first), _sources(model)
        source_names = (name for each in sources for name, kind in each)
        self._made = {*self.first_makers, *self.makers, *source_names}
        # What an Identity gives is what it takes: old names, each with the one that it stands for.
        self._stands_for = {name: name for name, kind in sources[0]}
        for node in nodes_in_order(first.graph.node):
            for name in node.output:
                self._stands_for[name] = self._stands_for.get(_passed_on(node), name)
        # New names, each with the old one that is like it.
        self._twins = {n: self._stands_for[n] for n, kind in sources[0] & sources[1]}
        self._settled = set(self._twins)  # what inputs, constants and the same ops make
        for node in nodes_in_order(model.graph.node):
            if _passed_on(node) in self._twins:
                self._twins |= dict.fromkeys(node.output, self._twins[_passed_on(node)])
            names = [name for name in node.output if self._are_twins(name, name)]
            if self._computes_the_same(node):
                names = [*node.output]
                self._settled.update(names)
            self._twins |= {name: self._stands_for.get(name, name) for name in names if name}
        self.alike = {n for n, old in self._twins.items() if old == self._stands_for.get(n)}

    def _computes_the_same(self, node: Node) -> bool:
        """The same op as before, on what is like before."""
        old = self.first_makers.get(node.output[0]) if node.output else None
        if old is None or len(old.input) != len(node.input):
            return False
        plain = type(node)()
        plain.CopyFrom(node)
        plain.input[:] = old.input
        reads = (*zip(old.input, node.input, strict=True), *((n, n) for n in captured(node)))
        return bool(plain == old) and all(self._are_twins(a, b) for a, b in reads)

    def _are_twins(self, before: str, after: str) -> bool:
        kind = self._first_types.get(before)
        same_type = kind is not None and kind == self._types.get(after)
        same_name = after in self._twins and self._twins[after] == self._stands_for.get(before)
        # An input that is left out, or that nobody makes: the file was like that.
        no_ones = before == after and after not in self._made
        return same_type or same_name or no_ones

    def check(self, node: Node, inside: frozenset[str]) -> None:
        """What a node with bodies hands to them must be what it was."""
        wrong = inside - self._settled
        makers = (self.first_makers[n] for n in node.output if n in self.first_makers)
        old = next(makers, node)
        wrong |= {
            b for a, b in zip(old.input, node.input, strict=False) if not self._are_twins(a, b)
        }
        if wrong or len(old.input) != len(node.input):
            names = ", ".join(f"'{name}'" for name in sorted(wrong)) or "an operand"
            raise ModelError(
                f"{safe_terminal(names)} is used inside {text(node.op_type)} "
                f"'{safe_terminal(text(node.name))}', which cannot be edited with it"
            )


def _passed_on(node: Node) -> str:
    """What an Identity reads; empty for other nodes."""
    return str(node.input[0]) if node.op_type == "Identity" and node.input else ""


def _makers(model: Model) -> dict[str, Node]:
    return {name: node for node in model.graph.node for name in node.output if name}


def _sources(model: Model) -> set[tuple[str, bytes]]:
    """Inputs and constants, each as its name with its type and shape."""
    graph = model.graph
    return {
        *((e.name, e.type.SerializeToString()) for e in graph.input),
        *((e.name, b"%d" % e.data_type + repr(e.dims).encode()) for e in graph.initializer),
        *((e.values.name, repr(e.dims).encode()) for e in graph.sparse_initializer),
    }


def _types(model: Model) -> dict[str, bytes]:
    """Type and shape of tensors, as far as they can be inferred."""
    graph = inferred_graph(model)
    entries = (*graph.input, *graph.value_info, *graph.output)
    return {entry.name: _typed(entry.type) for entry in entries if entry.type.ByteSize()}


def _typed(kind: Any) -> bytes:
    """Sizes that inference made names up for are just open."""
    for dim in kind.tensor_type.shape.dim:
        if dim.dim_param.startswith("unk__"):
            dim.ClearField("value")
    return bytes(kind.SerializeToString(deterministic=True))
