"""Software calls: the names of their operators here and in the vendor's files, and their attributes
as the record of the op."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from operator import index
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from npuscope.errors import TargetError
from npuscope.graph.model import Attrs, DType, Graph, Numerics, Op, Tensor
from npuscope.machine.npu_ops import SUPPORT, support
from npuscope.ops.table import OPS, having, spec
from npuscope.ops.traits import Trait
from npuscope.ops.unknown import UNKNOWN
from npuscope.program.model import Buffer, Call, Claims, Epoch, EpochKind, Program
from npuscope.structs import replace

Array = np.ndarray

# --- Names of operators: ours, and those in the vendor's files ---

# Those that move data and compute nothing.
MOVES = having(Trait.VIEW, Trait.PARTS) | {"Transpose"}
_KERNELS = {row.listed: kind for kind, row in SUPPORT.items() if row.listed}


def listed_name(kernel: str) -> str:
    return support(kernel).listed or kernel


def kernel_name(listed: str) -> str:
    return _KERNELS.get(listed, listed)


def unknown_ops(program: Program) -> tuple[str, ...]:
    """What has no cost here, in the order of execution: ops that nothing here computes, by name,
    and epochs of blobs that are not there or cannot be read."""
    return tuple(name for epoch in program.executed for name in _unknown(epoch))


def _unknown(epoch: Epoch) -> Iterator[str]:
    if epoch.call is not None and epoch.call.kernel == UNKNOWN:
        arguments = dict(epoch.call.args)
        if not arguments.get("part"):  # one op, however many outputs it has
            yield str(arguments["name"])
    if epoch.kind is EpochKind.HW and epoch.groups is None and epoch.claims == Claims():
        yield epoch.name


# The attributes of a software call, as the record of its op.


def attributes(call: Call) -> Attrs:
    """The op's attribute record, from the call's arguments by field name."""
    row = OPS.get(call.kernel)
    if row is None:
        raise TargetError(f"not executed: unknown software kernel '{call.kernel}'")
    arguments, types = dict(call.args), _field_types(row.attrs)
    values = {name: arguments[name] for name in row.attrs.__struct_fields__ if name in arguments}
    try:
        return row.attrs(**{name: _typed(value, types[name]) for name, value in values.items()})
    except (TypeError, ValueError) as error:
        raise TargetError(f"software kernel '{call.kernel}': {error}") from error


@cache
def _field_types(record: type[Attrs]) -> dict[str, Any]:
    return get_type_hints(record)


def _typed(value: object, target: Any) -> Any:
    """Enums are stored by value, pairs of pads as nested or flat tuples. TypeError where a file
    states something else."""
    if isinstance(target, type) and issubclass(target, Enum):
        return target(value)
    if target in (bool, float):
        return target(value)
    if target is int:
        return index(value)  # type: ignore[arg-type]
    if get_origin(target) is not tuple:
        return value
    if not isinstance(value, tuple):
        raise TypeError(f"expected a list, found {value!r:.60}")
    kinds = get_args(target)
    if target == tuple[tuple[int, int], ...]:
        flat = [int(entry) for entry in np.ravel(value)]
        return tuple(zip(flat[::2], flat[1::2], strict=True))
    if kinds[-1] is Ellipsis:
        return tuple(_typed(entry, kinds[0]) for entry in value)
    return tuple(_typed(entry, kind) for entry, kind in zip(value, kinds, strict=True))


# A call as a graph of one op, so that each kernel has one implementation.


def call_graph(call: Call, buffers: Mapping[str, Buffer], constants: Mapping[str, Array]) -> Graph:
    """Parameters are constants, which is what kernels expect of weights.

    A buffer has at least one axis: whether one value is a scalar shows in what the op makes of it.
    """
    shapes = tuple(buffers[name].shape for name in call.outputs)
    graph = _graph(call, buffers, constants, scalars=False)
    if _made(graph) != shapes:
        other = _graph(call, buffers, constants, scalars=True)
        graph = other if _made(other) == shapes else graph
    return graph


def _made(graph: Graph) -> tuple[tuple[int, ...], ...]:
    """What the op makes of its inputs, scalars with one axis; its outputs take the true shapes."""
    shapes = spec(graph.ops[0]).shape(graph, graph.ops[0])
    for name, shape in zip(graph.outputs, shapes, strict=True):
        if graph.tensor(name).shape == (shape or (1,)):
            graph.tensors[name] = replace(graph.tensor(name), shape=shape)
    return tuple(shape or (1,) for shape in shapes)


def _graph(
    call: Call, buffers: Mapping[str, Buffer], constants: Mapping[str, Array], scalars: bool
) -> Graph:
    names = dict.fromkeys(name for name in (*call.inputs, *call.outputs) if name)
    tensors = [
        _tensor(buffers[name], constants.get(name), scalars and name in call.inputs)
        for name in names
    ]
    op = Op(call.kernel, call.kernel, call.inputs, call.outputs, attributes(call))
    fed = [name for name in dict.fromkeys(call.inputs) if name and not buffers[name].is_param]
    numerics = Numerics(str(dict(call.args).get("numerics", Numerics.LITERT.value)))
    return Graph(call.kernel, tensors, [op], fed, call.outputs, numerics)


def _tensor(buffer: Buffer, data: Array | None, scalars: bool) -> Tensor:
    name = element_type(buffer).name
    try:
        kind = DType(name)
    except ValueError:
        raise TargetError(
            f"buffer '{buffer.name}' has type {name}, which no kernel reads"
        ) from None
    shape = () if scalars and buffer.shape == (1,) else buffer.shape
    stated = None if data is None else data.reshape(shape)
    return Tensor(buffer.name, shape, kind, buffer.quant, stated)


def element_type(buffer: Buffer) -> np.dtype[np.generic]:
    """The array type of a buffer's elements, little endian."""
    if buffer.nbits not in (8, 16, 32, 64):
        raise TargetError(f"buffer '{buffer.name}' has elements of {buffer.nbits} bits")
    kind = "f" if buffer.is_float else "i" if buffer.signed else "u"
    return np.dtype(f"<{kind}{buffer.nbits // 8}")
