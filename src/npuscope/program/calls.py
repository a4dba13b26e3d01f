"""Software calls: the names of their operators here and in the vendor's files, and their attributes
as the record of the op."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from enum import Enum
from operator import index
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from npuscope.errors import TargetError
from npuscope.graph.model import Attrs
from npuscope.ops.table import OPS
from npuscope.ops.unknown import UNKNOWN
from npuscope.program.model import Call, Claims, Epoch, EpochKind, Program

# --- Names of operators: ours, and those in the vendor's files ---

_LISTED_AS = {
    "Quantize": "QuantizeLinear",
    "Dequantize": "DequantizeLinear",
    "Mean": "GlobalAveragePool",
    "Conv2D": "Conv",
    "FullyConnected": "Gemm",
}
_KERNELS = {listed: kernel for kernel, listed in _LISTED_AS.items()}


def listed_name(kernel: str) -> str:
    return _LISTED_AS.get(kernel, kernel)


def kernel_name(listed: str) -> str:
    return _KERNELS.get(listed, listed)


def unknown_ops(program: Program) -> tuple[str, ...]:
    """What has no cost here, in the order of execution: ops that nothing here computes, by name,
    and epochs of blobs that are not there or cannot be read."""
    return tuple(name for epoch in program.executed for name in _unknown(epoch))


def _unknown(epoch: Epoch) -> Iterator[str]:
    if epoch.call is not None and epoch.call.kernel == UNKNOWN:
        given = dict(epoch.call.args)
        if not given.get("part"):  # one op, however many outputs it has
            yield str(given["name"])
    if epoch.kind is EpochKind.HW and epoch.groups is None and epoch.claims == Claims():
        yield epoch.name


# The attributes of a software call, as the record of its op.


def attributes(call: Call) -> Attrs:
    """The op's attribute record, from the call's arguments by field name."""
    row = OPS.get(call.kernel)
    if row is None:
        raise TargetError(f"not executed: software kernel '{call.kernel}' is not known")
    given, types = dict(call.args), get_type_hints(row.attrs)
    known = {field.name: given[field.name] for field in fields(row.attrs) if field.name in given}
    try:
        return row.attrs(**{name: _typed(value, types[name]) for name, value in known.items()})
    except (TypeError, ValueError) as error:
        raise TargetError(f"software kernel '{call.kernel}': {error}") from error


def _typed(value: object, wanted: Any) -> Any:
    """Enums are stored by value, pairs of pads as nested or flat tuples. TypeError where a file
    states something else."""
    if isinstance(wanted, type) and issubclass(wanted, Enum):
        return wanted(value)
    if wanted in (bool, float):
        return wanted(value)
    if wanted is int:
        return index(value)  # type: ignore[arg-type]
    if get_origin(wanted) is not tuple:
        return value
    if not isinstance(value, tuple):
        raise TypeError(f"expected a list, found {value!r:.60}")
    kinds = get_args(wanted)
    if wanted == tuple[tuple[int, int], ...]:
        flat = [int(entry) for entry in np.ravel(value)]
        return tuple(zip(flat[::2], flat[1::2], strict=True))
    if kinds[-1] is Ellipsis:
        return tuple(_typed(entry, kinds[0]) for entry in value)
    return tuple(_typed(entry, kind) for entry, kind in zip(value, kinds, strict=True))
