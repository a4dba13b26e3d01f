"""Moves of data by the runtime's library, which drives two stream engines or copies on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from npuscope.program.model import Buffer, Call
from npuscope.program.network_c.layout import ChannelPosition
from npuscope.program.network_c.writer_buffers import (
    buffer_arrays,
    buffer_entry,
    channel_position,
)
from npuscope.program.network_c.writer_scope import Lines, Scope, array
from npuscope.program.network_c.writer_software import NoKernel, onnx_axis

# Any two engines will do: the library has the NPU for itself.
_ENGINES = "0, 1"
_RANK = 4


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """Declarations and the call; `drives_npu` where stream engines move the data."""

    lines: Lines
    drives_npu: bool = True


def library_call(scope: Scope, call: Call, prefix: str) -> LibraryCall:
    """The library's function for a move. NoKernel where none fits."""
    build = _BUILDS.get(call.kernel)
    if build is None or len(call.outputs) != 1:
        raise NoKernel(call.kernel)
    if dict(call.args).get("activation", "none") != "none":
        raise NoKernel("activation")
    return build(scope, call, prefix)


def tables(scope: Scope, prefix: str, inputs: list[Buffer], outputs: list[Buffer]) -> Lines:
    """The tensors of a call as two tables: <prefix>_in and <prefix>_out."""
    lines: Lines = []
    for side, buffers in (("in", inputs), ("out", outputs)):
        names = [f"{prefix}_{side}{number}" for number in range(len(buffers))]
        pairs = list(zip(names, buffers, strict=True))
        lines += [line for name, buffer in pairs for line in buffer_arrays(name, buffer)]
        entries = [line for name, buffer in pairs for line in buffer_entry(scope, name, buffer)]
        lines += scope.in_ram(_table(f"{prefix}_{side}", [*entries, "    { .name = NULL },"]))
    return lines


def _table(name: str, entries: Lines) -> Lines:
    return [f"  static const LL_Buffer_InfoTypeDef {name}[] = {{", *entries, "  };"]


def _tail(scope: Scope) -> str:
    return f", {scope.dialect.library_tail}" if scope.dialect.library_tail else ""


def _concat(scope: Scope, call: Call, prefix: str) -> LibraryCall:
    inputs = [_plain(scope, name) for name in call.inputs]
    output = _plain(scope, call.outputs[0])
    axis = onnx_axis(_whole(call, "axis"), output)
    if len({buffer.nbits for buffer in (*inputs, output)}) > 1:
        raise NoKernel("widths")
    function = (
        f"  LL_ATON_LIB_Concat({prefix}_in, {len(inputs)}, {prefix}_out, {axis}, "
        f"{_ENGINES}{_tail(scope)});"
    )
    return LibraryCall([*tables(scope, prefix, inputs, [output]), function])


def _blocks(scope: Scope, call: Call, prefix: str) -> LibraryCall:
    if dict(call.args).get("order", "dcr") != "dcr":
        raise NoKernel("order")
    block = _whole(call, "block")
    source, output = _plain(scope, call.inputs[0]), _plain(scope, call.outputs[0])
    function = (
        f"  LL_ATON_LIB_DMA_{call.kernel}({prefix}_in, 1, {prefix}_out, {block}, {block}, "
        f"{_ENGINES}{_tail(scope)});"
    )
    return LibraryCall([*tables(scope, prefix, [source], [output]), function])


def _transpose(scope: Scope, call: Call, prefix: str) -> LibraryCall:
    """Axes are those of memory; each input axis is told its place in the output too."""
    source, output = _plain(scope, call.inputs[0]), _plain(scope, call.outputs[0])
    permutation = _tuple(call, "permutation")
    missing = _RANK - len(permutation)
    if missing < 0:
        raise NoKernel("rank")
    order = [*range(missing), *(axis + missing for axis in permutation)]
    places = [order.index(axis) for axis in range(_RANK)]
    lines = [
        *_shapes(scope, prefix, source, output, rank=_RANK),
        array("uint8_t", f"{prefix}_target", [str(place) for place in places]),
        array("uint8_t", f"{prefix}_perm", [str(axis) for axis in order]),
        f"  LL_ATON_LIB_DMA_Transpose({prefix}_in, {prefix}_in_steps, {prefix}_out, "
        f"{prefix}_out_steps, {prefix}_target, {prefix}_perm, {_ENGINES}{_tail(scope)});",
    ]
    return LibraryCall(lines)


def _slice(scope: Scope, call: Call, prefix: str) -> LibraryCall:
    """Copied by the CPU."""
    source, output = _plain(scope, call.inputs[0]), _plain(scope, call.outputs[0])
    starts, sizes, steps = (_tuple(call, name) for name in ("starts", "sizes", "steps"))
    if any(step < 1 for step in steps) or len(starts) != len(source.shape):
        raise NoKernel("steps")
    ends = [a + (n - 1) * s + 1 for a, n, s in zip(starts, sizes, steps, strict=True)]
    lines = [
        *_shapes(scope, prefix, source, output, rank=len(source.shape)),
        array("int32_t", f"{prefix}_starts", [str(n) for n in starts]),
        array("int32_t", f"{prefix}_ends", [str(n) for n in ends]),
        array("int32_t", f"{prefix}_every", [str(n) for n in steps]),
        f"  LL_ATON_LIB_Slice({prefix}_in, {prefix}_in_steps, {prefix}_out, {prefix}_out_steps, "
        f"{len(starts)}, {prefix}_starts, {prefix}_ends, {prefix}_every);",
    ]
    return LibraryCall(lines, drives_npu=False)


def _shapes(scope: Scope, prefix: str, source: Buffer, output: Buffer, rank: int) -> Lines:
    """Bare tensors of a given rank, ones in front, and the bytes between neighbours per axis."""
    lines: Lines = []
    for side, buffer in (("in", source), ("out", output)):
        shape = (*([1] * (rank - len(buffer.shape))), *buffer.shape)
        name = f"{prefix}_{side}"
        lines += [
            array("uint32_t", f"{name}_shape", [str(n) for n in shape]),
            array("uint32_t", f"{name}_steps", [str(n) for n in _steps(shape, buffer)]),
            *scope.in_ram(_table(name, _bare(scope, name, buffer, shape))),
        ]
    return lines


def _bare(scope: Scope, name: str, buffer: Buffer, shape: tuple[int, ...]) -> Lines:
    return [
        "    {",
        f"      .addr_base = {scope.base(buffer)},",
        f"      .offset_start = {buffer.offset},",
        f"      .offset_end = {buffer.offset + buffer.size_bytes},",
        f"      .offset_limit = {scope.limit(buffer)},",
        f"      .ndims = {len(shape)},",
        f"      .nbits = {buffer.nbits},",
        f"      .shape = {name}_shape,",
        f"      .batch = {shape[-1]},",
        "    },",
    ]


def _steps(shape: tuple[int, ...], buffer: Buffer) -> list[int]:
    steps = [buffer.nbits // 8]
    for size in reversed(shape[1:]):
        steps.append(steps[-1] * size)
    return steps[::-1]


def _plain(scope: Scope, name: str) -> Buffer:
    """A buffer whose bytes lie in the order of its shape."""
    buffer = scope.buffer(name)
    if channel_position(buffer) in (ChannelPosition.First, ChannelPosition.Mixed):
        raise NoKernel("layout")
    return buffer


def _whole(call: Call, name: str) -> int:
    value = dict(call.args).get(name)
    if not isinstance(value, int):
        raise NoKernel(name)
    return value


def _tuple(call: Call, name: str) -> tuple[int, ...]:
    value = dict(call.args).get(name)
    if not isinstance(value, tuple):
        raise NoKernel(name)
    return value


_BUILDS: dict[str, Callable[[Scope, Call, str], LibraryCall]] = {
    "Concat": _concat,
    "DepthToSpace": _blocks,
    "SpaceToDepth": _blocks,
    "Transpose": _transpose,
    "Slice": _slice,
}
