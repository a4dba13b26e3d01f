"""Execute a CoreProgram: its ops on the bytes of VTCM and DDR, in any order that its waits allow.

Values lie where the compiler has put them, in half floats or integers. An order drawn by `seed`
shows that the waits are enough: an op that starts too early reads what is not there yet."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import numpy as np
from msgspec import Struct

from npuscope.errors import ModelError, TargetError, UsageError
from npuscope.families.many_core.compiler.boxes import Box, common, shape_of
from npuscope.families.many_core.compiler.kinds import device_dtype, is_splat, is_unread
from npuscope.families.many_core.program import Code, CoreOp, CoreProgram, Held, StepWork
from npuscope.families.many_core.tile_kernels import compute, part_of
from npuscope.text import safe_terminal

_GARBAGE = 0xFF  # not a number as half floats, and -1 as integers


def execute(
    program: CoreProgram, inputs: Mapping[str, np.ndarray], seed: int = 0
) -> dict[str, np.ndarray]:
    """One inference: the outputs, floats in the precision of the network."""
    if program.code is None:
        raise UsageError(
            "this program has no arithmetic: it was read from a container",
            hint="execute the program that the compiler returns",
        )
    for place in program.code.buffers:
        tensor = program.code.graph.tensors.get(place.tensor)
        if tensor is not None and is_unread(tensor):
            raise ModelError(
                "the weights were not read, so nothing can be computed",
                where=f"constant '{safe_terminal(place.tensor)}'",
                hint="weights must be there, and take at most 1 GiB",
            )
    memory = _Memory(program, program.code, inputs)
    for device, op in _order(program, program.code, seed):
        work = program.code.work.get((device, *op.key))
        if work is not None:
            memory.do(work)
    return memory.outputs()


# --- Order: each thread group in line, groups and cores as they please ---


class _Queue(Struct):
    device: int
    ops: tuple[CoreOp, ...]
    next: int = 0


def _order(program: CoreProgram, code: Code, seed: int) -> list[tuple[int, CoreOp]]:
    random = Random(seed)
    queues = [
        _Queue(device, ops)
        for device, part in enumerate(program.devices)
        for groups in part.ops
        for ops in groups
        if ops
    ]
    ended: set[tuple[int, int, int]] = set()
    under_way: set[int] = set()
    order: list[tuple[int, CoreOp]] = []
    while queues:
        ready = [queue for queue in queues if _ready(queue, code, ended, under_way)]
        if not ready:
            raise TargetError("the program waits forever", where=queues[0].ops[0].info.name)
        for queue in random.sample(ready, len(ready)):
            for _ in range(random.randint(1, 8)):
                if queue.next == len(queue.ops) or not _ready(queue, code, ended, under_way):
                    break
                op = queue.ops[queue.next]
                work = code.work.get((queue.device, *op.key))
                if work is not None and work.sends is not None:
                    under_way.add(work.sends)
                ended.add((queue.device, *op.key))
                order.append((queue.device, op))
                queue.next += 1
        queues = [queue for queue in queues if queue.next < len(queue.ops)]
    return order


def _ready(
    queue: _Queue, code: Code, ended: set[tuple[int, int, int]], under_way: set[int]
) -> bool:
    op = queue.ops[queue.next]
    work = code.work.get((queue.device, *op.key))
    if work is not None and work.receives is not None and work.receives not in under_way:
        return False
    return all((queue.device, *key) in ended for key in op.waits_for)


# --- Memory: the bytes of every core, and DDR ---


class _Memory:
    def __init__(self, program: CoreProgram, code: Code, inputs: Mapping[str, np.ndarray]) -> None:
        self.program, self.code = program, code
        self._vtcm: dict[int, np.ndarray] = {}
        self._ddr: dict[str, np.ndarray] = {}
        self._spilled: dict[int, np.ndarray] = {}
        self._sent: dict[int, np.ndarray] = {}
        for name, data in program.constants.items():
            self._ddr[name] = data
        for binding in program.inputs:
            name, tensor = binding.name, self.code.graph.tensors[binding.name]
            if name not in inputs or inputs[name].shape != tensor.shape:
                raise ModelError(
                    f"expected values of shape {tensor.shape}", where=f"input '{name}'"
                )
            dtype = np.float16 if tensor.dtype.is_float else tensor.dtype.numpy
            with np.errstate(over="ignore"):
                self._ddr[name] = inputs[name].astype(dtype)

    def outputs(self) -> dict[str, np.ndarray]:
        values = {}
        for binding in self.program.outputs:
            tensor = self.code.graph.tensors[binding.name]
            values[binding.name] = self._ddr[binding.name].astype(tensor.dtype.numpy)
        return values

    def do(self, work: StepWork) -> None:
        product = work.made
        if work.receives is not None:
            self._write_all(work, self._sent.pop(work.receives))
        elif product.op is None:
            value = self._gather(work, work.tensor, product.box)
            if work.sends is not None:
                self._sent[work.sends] = value
            else:
                self._write_all(work, value)
        else:
            graph = self.code.graph
            part = part_of(graph, graph.ops[product.op], product)
            parts = {
                name: self._gather(work, name, need)
                for name, need in zip(part.op.inputs, part.needs, strict=True)
                if need is not None and name and not is_splat(graph.tensors[name])
            }
            (target,) = work.writes
            inside = _inside(self.code.buffers[target].box, product.box)
            before = self._view(target)[inside] if not product.first else None
            self._write_all(work, compute(self.code, product, parts, before))

    def _gather(self, work: StepWork, name: str, box: Box) -> np.ndarray:
        """A part of a tensor from all buffers that the op reads; what is missing is garbage."""
        dtype = _dtype(device_dtype(self.code.graph.tensors[name]))
        size = int(np.prod(shape_of(box), dtype=np.int64)) * dtype.itemsize
        values = np.full(size, _GARBAGE, np.uint8).view(dtype).reshape(shape_of(box))
        for buffer, tensor, view in work.reads:
            if tensor != name:
                continue
            shared = common(view, box)
            if shared is not None:
                data = self._view(buffer).reshape(shape_of(view))
                values[_inside(box, shared)] = data[_inside(view, shared)]
        return values

    def _write_all(self, work: StepWork, value: np.ndarray) -> None:
        for buffer in work.writes:
            place = self.code.buffers[buffer]
            view = self._view(buffer)
            with np.errstate(over="ignore"):
                view[_inside(place.box, work.made.box)] = value

    def _view(self, number: int) -> np.ndarray:
        """The values of a buffer, where they lie."""
        place = self.code.buffers[number]
        if place.offset is None:
            if place.core < 0:
                if place.tensor not in self._ddr:
                    self._ddr[place.tensor] = _garbage(place)
                return self._ddr[place.tensor]
            if number not in self._spilled:
                self._spilled[number] = _garbage(place)
            return self._spilled[number]
        core = self._vtcm.get(place.core)
        if core is None:
            core = np.full(self.code.vtcm_bytes, _GARBAGE, np.uint8)
            self._vtcm[place.core] = core
        dtype = _dtype(place.dtype)
        shape = shape_of(place.box)
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return core[place.offset : place.offset + size].view(dtype).reshape(shape)


def _garbage(place: Held) -> np.ndarray:
    dtype, shape = _dtype(place.dtype), shape_of(place.box)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    return np.full(size, _GARBAGE, np.uint8).view(dtype).reshape(shape)


def _dtype(name: str) -> np.dtype[np.generic]:
    return np.dtype(np.bool_ if name == "bool" else name)


def _inside(outer: Box, inner: Box) -> tuple[slice, ...]:
    """A part of a box, counted from where the box starts."""
    pairs = zip(outer, inner, strict=True)
    return tuple(slice(low - start, high - start) for (start, _), (low, high) in pairs)
