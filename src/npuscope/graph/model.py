"""Graph: the quantized network as typed values.

Tensors are channel-last (N, spatial..., C) at any rank. An op names its tensors; the graph owns
them. Ops are frozen: a pass replaces an op, it never edits one.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TypeVar

import numpy as np
from msgspec import Struct

from npuscope.errors import InternalError, ModelError
from npuscope.shown import Rows, Shown, counted
from npuscope.structs import Apart, replace


class Activation(Enum):
    """A clamp fused into the op that precedes it."""

    NONE = "none"
    RELU = "relu"
    RELU6 = "relu6"
    RELU_N1_TO_1 = "relu_n1_to_1"


class Attrs(Struct, frozen=True):
    """Base of all attribute records; also the record of ops without attributes."""


A = TypeVar("A", bound=Attrs)


class DType(Enum):
    """Element type; the value is the name used in text and JSON."""

    INT4 = "int4"
    INT8 = "int8"
    UINT8 = "uint8"
    INT16 = "int16"
    UINT16 = "uint16"
    INT32 = "int32"
    INT64 = "int64"
    BOOL = "bool"
    FLOAT32 = "float32"

    __hash__ = object.__hash__  # a member is one object; the usual one is written in Python

    @property
    def bits(self) -> int:
        return _BITS[self]

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy type of its arrays; int4 values are held in int8 arrays."""
        return _NUMPY[self]

    @property
    def is_float(self) -> bool:
        return self is DType.FLOAT32

    @property
    def limits(self) -> tuple[int, int]:
        """Smallest and largest value of an integer type."""
        if self in (DType.FLOAT32, DType.BOOL):
            raise InternalError(f"{self.value} has no integer limits")
        if self in (DType.UINT8, DType.UINT16):
            return 0, 2**self.bits - 1
        return -(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1


_NUMPY = {kind: np.dtype("int8" if kind is DType.INT4 else kind.value) for kind in DType}
_BITS = {
    DType.INT4: 4,
    DType.INT8: 8,
    DType.UINT8: 8,
    DType.INT16: 16,
    DType.UINT16: 16,
    DType.INT32: 32,
    DType.INT64: 64,
    DType.BOOL: 8,
    DType.FLOAT32: 32,
}


class Numerics(Enum):
    """Whose rounding the reference executor follows."""

    LITERT = "litert"  # integer kernels with their own requantisation rules
    QDQ = "qdq"  # float32 between DequantizeLinear and QuantizeLinear (onnxruntime)


class Quant(Struct, frozen=True):
    """real = scale * (q - zero_point); `axis` is None for one scale per tensor.

    Scales are float32 values held as Python floats, so equality is exact.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None

    @property
    def scale(self) -> float:
        if len(self.scales) != 1:
            raise ModelError(f"{len(self.scales)} scales, one per channel, where one is expected")
        return self.scales[0]

    @property
    def zero_point(self) -> int:
        if len(set(self.zero_points)) != 1:
            raise ModelError("zero points that differ by channel, where one is expected")
        return self.zero_points[0]

    @property
    def per_channel(self) -> bool:
        return self.axis is not None


class Tensor(Apart, frozen=True):
    """A value in the graph. `data` is set for constants only."""

    apart = ("data", "source_shape")

    name: str
    shape: tuple[int, ...]
    dtype: DType
    quant: Quant | None = None
    data: np.ndarray | None = None
    source_shape: tuple[int, ...] | None = None

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    @property
    def elements(self) -> int:
        count = 1
        for dim in self.shape:
            count *= dim
        return count

    @property
    def size_bytes(self) -> int:
        return (self.elements * self.dtype.bits + 7) // 8


class Op(Apart, frozen=True):
    """One operation. `kind` names a row in ops/, `attrs` is of the type stated there.

    An optional input that is absent is the empty string. `origin` lists the source ops it
    came from, as "TYPE:name-or-index" in file order.
    """

    apart = ("origin",)

    kind: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Attrs
    origin: tuple[str, ...] = ()

    def attrs_as(self, record: type[A]) -> A:
        """The attributes as the record the caller expects for this kind of op."""
        if not isinstance(self.attrs, record):
            attrs_type = type(self.attrs).__name__
            raise InternalError(f"{self.kind} carries {attrs_type}, not {record.__name__}")
        return self.attrs

    def replace(self, **changes: object) -> Op:
        return replace(self, **changes)  # type: ignore[arg-type]


# What stays to do with a float network, in hints.
AS_INT8 = "`npuscope estimate MODEL --as-int8` shows what its figures would be"

# Notes of readers, which a refusal of float networks repeats.
WEIGHTS_ALONE = "its weights are quantized, its activations are not (dynamic range)"
DYNAMIC_RANGE = "activations are quantized while it runs (dynamic range): read as a float network"
FRONT_END_NAME = "_OE_"  # in the names of files that the vendor's front end writes
FRONT_END = (
    f"the vendor's front end wrote this file ({FRONT_END_NAME} in its name) from a quantized "
    "model; its scales are in a file of the same name that ends in _Q.json, which is not beside it"
)


class Graph(Shown):
    """Ops in execution order, their tensors, and the graph's inputs and outputs.

    A Graph has no file format of its own: keep the model that it was read from.
    """

    def __init__(
        self,
        name: str,
        tensors: Iterable[Tensor],
        ops: Iterable[Op],
        inputs: Iterable[str],
        outputs: Iterable[str],
        numerics: Numerics = Numerics.LITERT,
        notes: Iterable[str] = (),
    ) -> None:
        self.name = name
        self.tensors: dict[str, Tensor] = {tensor.name: tensor for tensor in tensors}
        self.ops: list[Op] = list(ops)
        self.inputs: tuple[str, ...] = tuple(inputs)
        self.outputs: tuple[str, ...] = tuple(outputs)
        self.numerics = numerics
        self.notes: list[str] = list(notes)
        self.assumed: tuple[str, ...] = ()  # what the file leaves open and the figures rest on

    def told(self) -> str:
        return (
            f"{self.name}: {counted(len(self.ops), 'op')}, {counted(len(self.tensors), 'tensor')}"
        )

    def table(self) -> Rows:
        """One row per op."""
        return [
            {
                "op": op.name,
                "kind": op.kind,
                "inputs": list(op.inputs),
                "outputs": list(op.outputs),
                "shape": list(self.output_tensor(op).shape),
            }
            for op in self.ops
        ]

    def tensor(self, name: str) -> Tensor:
        return self.tensors[name]

    def input_tensors(self, op: Op) -> tuple[Tensor | None, ...]:
        """The op's inputs in order; None where an optional input is absent."""
        return tuple(self.tensors[name] if name else None for name in op.inputs)

    def first_input(self, op: Op) -> Tensor:
        return self.tensors[op.inputs[0]]

    def output_tensor(self, op: Op) -> Tensor:
        return self.tensors[op.outputs[0]]

    def producers(self) -> dict[str, Op]:
        """Tensor name -> the op that makes it."""
        return {name: op for op in self.ops for name in op.outputs}

    def consumers(self) -> dict[str, list[Op]]:
        """Tensor name -> the ops that read it, in execution order."""
        readers: dict[str, list[Op]] = {name: [] for name in self.tensors}
        for op in self.ops:
            for name in dict.fromkeys(op.inputs):
                if name:
                    readers[name].append(op)
        return readers

    def add(self, tensor: Tensor) -> Tensor:
        if tensor.name in self.tensors:
            raise InternalError(f"tensor '{tensor.name}' already exists")
        self.tensors[tensor.name] = tensor
        return tensor

    def fresh_name(self, stem: str) -> str:
        """A tensor name that is not in use yet."""
        if stem not in self.tensors:
            return stem
        number = 1
        while f"{stem}_{number}" in self.tensors:
            number += 1
        return f"{stem}_{number}"

    def drop_unused(self) -> None:
        """Remove tensors that no op, graph input or graph output names."""
        used = {name for op in self.ops for name in (*op.inputs, *op.outputs)}
        used.update(self.inputs, self.outputs)
        self.tensors = {name: t for name, t in self.tensors.items() if name in used}

    def copy(self) -> Graph:
        """A graph that passes may edit; the frozen ops and tensors are shared."""
        return Graph(
            self.name,
            self.tensors.values(),
            self.ops,
            self.inputs,
            self.outputs,
            self.numerics,
            self.notes,
        )

    def parameters(self) -> int:
        """Elements of all constants that ops use as weights or biases."""
        names = {name for op in self.ops for name in op.inputs if name}
        return sum(t.elements for t in self.tensors.values() if t.is_constant and t.name in names)

    def __eq__(self, other: object) -> bool:
        """Same network: structure, shapes, quantization and constants; names are ignored."""
        if not isinstance(other, Graph):
            return NotImplemented
        return same_network(self, other)

    __hash__ = None  # type: ignore[assignment]


# --- Whether two networks are the same: structure, types, scales and constants, not names ---


def same_network(a: Graph, b: Graph) -> bool:
    """True if both graphs compute the same, op by op in the same order.

    Names, origins, source shapes, notes and `numerics` are ignored.
    """
    return first_difference(a, b) == ""


def first_difference(a: Graph, b: Graph) -> str:
    """What differs first, as a sentence for tests and logs; empty for the same network."""
    return _Comparison(a, b).run()


class _Comparison:
    """Walks both graphs and pairs their tensors: one of `a` stands for exactly one of `b`."""

    def __init__(self, a: Graph, b: Graph) -> None:
        self.a, self.b = a, b
        self.pairs: dict[str, str] = {"": ""}
        self.taken: set[str] = {""}

    def run(self) -> str:
        counts = [(len(g.ops), len(g.inputs), len(g.outputs)) for g in (self.a, self.b)]
        if counts[0] != counts[1]:
            return f"{counts[0]} and {counts[1]} ops, inputs and outputs"
        difference = self._tensors("graph inputs", self.a.inputs, self.b.inputs)
        for index in range(len(self.a.ops)):
            difference = difference or self._op(index)
        return difference or self._tensors("graph outputs", self.a.outputs, self.b.outputs)

    def _op(self, index: int) -> str:
        left, right = self.a.ops[index], self.b.ops[index]
        place = f"op {index} ({left.kind} '{left.name}')"
        if left.kind != right.kind:
            return f"{place}: {left.kind} and {right.kind}"
        if left.attrs != right.attrs:
            return f"{place}: {left.attrs} and {right.attrs}"
        return self._tensors(f"{place} inputs", left.inputs, right.inputs) or self._tensors(
            f"{place} outputs", left.outputs, right.outputs
        )

    def _tensors(self, place: str, left: tuple[str, ...], right: tuple[str, ...]) -> str:
        if len(left) != len(right):
            return f"{place}: {len(left)} and {len(right)} tensors"
        for mine, other in zip(left, right, strict=True):
            difference = self._pair(mine, other)
            if difference:
                return f"{place}: {difference}"
        return ""

    def _pair(self, mine: str, other: str) -> str:
        if mine in self.pairs:
            return "" if self.pairs[mine] == other else f"'{mine}' is connected differently"
        if other in self.taken:
            return f"'{mine}' is connected differently"
        self.pairs[mine] = other
        self.taken.add(other)
        a = self.a.tensors[mine]
        b = self.b.tensors[other]
        for name in ("shape", "dtype", "quant", "is_constant"):
            left, right = getattr(a, name), getattr(b, name)
            if left != right:
                return f"{name} of '{a.name}' is {left} and {right}"
        if a.data is not None and b.data is not None and not np.array_equal(a.data, b.data):
            return f"values of '{a.name}' differ"
        return ""
