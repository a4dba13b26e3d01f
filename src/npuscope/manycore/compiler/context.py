"""What every part of the lowering works on, with the few things that all of them make."""

from __future__ import annotations

from dataclasses import dataclass

from npuscope.graph.model import Graph
from npuscope.manycore.compiler.boxes import Box, elements, full, shape_of
from npuscope.manycore.compiler.draft import Access, Draft, Role, Step
from npuscope.manycore.compiler.kinds import COPY_IN, Group, device_dtype, size_bytes
from npuscope.manycore.machine import CoreMachine

Origin = tuple[str, ...]
Operands = dict[int, tuple[Access, ...]]  # by core what it reads


@dataclass(frozen=True, slots=True)
class Context:
    graph: Graph
    draft: Draft
    machine: CoreMachine

    def bytes_of(self, name: str, box: Box | None) -> int:
        return 0 if box is None else size_bytes(self.graph.tensors[name], elements(box))

    def dtype(self, name: str) -> str:
        return device_dtype(self.graph.tensors[name])

    def buffer(self, core: int, name: str, box: Box, role: Role, size: int | None = None) -> Access:
        """A new buffer for a part of a tensor."""
        size = self.bytes_of(name, box) if size is None else size
        family = f"{name} ({role.value.lower()})"
        made = self.draft.add_buffer(core, name, box, size, self.dtype(name), role, family)
        return Access(made.id, size)

    def whole(self, buffer: int) -> Access:
        return Access(buffer, self.draft.buffers[buffer].bytes)

    def in_ddr(self, name: str) -> int:
        """The buffer in DDR of a constant, an input or an output."""
        known = self.draft.in_ddr
        if name not in known:
            box = full(self.graph.tensors[name].shape)
            known[name] = self.buffer(-1, name, box, Role.IN_DDR).buffer
        return known[name]

    def move(
        self,
        core: int,
        kind: str,
        part: tuple[str, Box],
        reads: tuple[Access, ...],
        writes: tuple[Access, ...],
        origin: Origin,
    ) -> Step:
        """A transfer of a part of a tensor."""
        name, box = part
        size, dtypes = self.bytes_of(name, box), (self.dtype(name),)
        shape = shape_of(box)
        return Step(core, Group.DMA, kind, name, shape, dtypes, size, reads, writes, origin)

    def copy_in(self, core: int, name: str, box: Box, target: int, origin: Origin) -> Step:
        """A part of what lies in DDR into a buffer."""
        size = self.bytes_of(name, box)
        reads = (Access(self.in_ddr(name), size),)
        return self.move(core, COPY_IN, (name, box), reads, (Access(target, size),), origin)

    def work(
        self,
        core: int,
        kind: str,
        title: str,
        part: tuple[str, Box],
        reads: tuple[Access, ...],
        made: Access,
        origin: Origin,
    ) -> Step:
        """An op of the HVX threads that makes a part of a tensor."""
        name, box = part
        sources = (self.draft.buffers[access.buffer].dtype for access in reads[:1])
        dtypes = tuple(dict.fromkeys((*sources, self.dtype(name))))
        shape, size = shape_of(box), self.bytes_of(name, box)
        return Step(core, Group.HVX, kind, title, shape, dtypes, size, reads, (made,), origin)
