"""What the reader needs of an ONNX file, as plain records."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from npuscope.errors import ModelError
from npuscope.graph.onnx.constants import Const
from npuscope.text import safe_terminal

Attribute = int | float | str | tuple[int, ...] | tuple[float, ...] | Const | None


@dataclass(frozen=True, slots=True)
class Node:
    """One node. `kind` has a domain prefix unless the domain is ONNX's own.

    `origin` names the node of the file; nodes that expand.py makes share it. `merged` names the
    nodes that were folded into it.
    """

    kind: str
    origin: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Attribute] = field(default_factory=dict)
    merged: tuple[str, ...] = ()

    @property
    def origins(self) -> tuple[str, ...]:
        return (self.origin, *self.merged)

    @property
    def output(self) -> str:
        return self.outputs[0]

    def input(self, index: int) -> str:
        """Name of an input, the empty string when it is absent."""
        return self.inputs[index] if index < len(self.inputs) else ""

    def integer(self, name: str, default: int) -> int:
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            raise ModelError(f"attribute '{name}' must be a whole number", where=self.origin)
        return value

    def number(self, name: str, default: float) -> float:
        value = self.attributes.get(name, default)
        if not isinstance(value, (int, float)):
            raise ModelError(f"attribute '{name}' must be a number", where=self.origin)
        return float(value)

    def text(self, name: str, default: str) -> str:
        value = self.attributes.get(name, default)
        if not isinstance(value, str):
            raise ModelError(f"attribute '{name}' must be a text", where=self.origin)
        return value

    def integers(self, name: str) -> tuple[int, ...] | None:
        """A list of whole numbers, None when it is not given."""
        value = self.attributes.get(name)
        if value is None:
            return None
        if not isinstance(value, tuple) or not all(isinstance(item, int) for item in value):
            raise ModelError(f"attribute '{name}' must list whole numbers", where=self.origin)
        return tuple(int(item) for item in value)


@dataclass(frozen=True, slots=True)
class Input:
    """A graph input; `dims` has a symbol or None where the size is open."""

    name: str
    type: str
    dims: tuple[int | str | None, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """`constants` maps every initializer to its values."""

    opset: int
    nodes: tuple[Node, ...]
    constants: dict[str, Const]
    inputs: tuple[Input, ...]
    outputs: tuple[str, ...]


def check_single_assignment(source: Source) -> None:
    """Every tensor has one maker; the graph outputs are different tensors."""
    made = Counter(name for node in source.nodes for name in node.outputs if name)
    made.update(source.constants.keys())
    made.update(entry.name for entry in source.inputs)
    name, times = made.most_common(1)[0]
    if times > 1:
        raise ModelError(f"tensor '{safe_terminal(name)}' is made {times} times")
    if len(set(source.outputs)) != len(source.outputs) or not source.outputs:
        raise ModelError("the graph outputs must be one or more different tensors")
