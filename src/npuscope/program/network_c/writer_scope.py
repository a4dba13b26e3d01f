"""What all parts of the writer need: names, places and the dialect of one program."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from npuscope.errors import TargetError
from npuscope.machine.model import Machine
from npuscope.program.model import Buffer, Epoch, EpochKind, Pool, Program
from npuscope.program.network_c.layout import LIMIT_BYTES, Dialect, dialect
from npuscope.program.units import Ref
from npuscope.text import c_comment, c_identifier, safe_terminal

Lines = list[str]
FLOAT_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Scope:
    """One program under one C name."""

    program: Program
    machine: Machine
    network: str

    @classmethod
    def of(cls, program: Program, machine: Machine, name: str) -> Scope:
        if any(_without_registers(epoch) for epoch in program.epochs):
            raise TargetError(
                "the program has no unit registers, so no C source can be made of it",
                hint="compile the model with npuscope, or read a network.c instead",
            )
        return cls(program, machine, c_identifier(name))

    @cached_property
    def dialect(self) -> Dialect:
        return dialect(self.program.generation)

    @cached_property
    def buffers(self) -> dict[str, Buffer]:
        return self.program.buffer_map()

    @cached_property
    def pool_numbers(self) -> dict[str, int]:
        """Pool name -> its index in the comments."""
        return {pool.name: index for index, pool in enumerate(self.program.pools)}

    @cached_property
    def pools(self) -> dict[str, Pool]:
        return self.program.pool_map()

    def buffer(self, name: str) -> Buffer:
        found = self.buffers.get(name)
        if found is None or found.pool not in self.pools:
            raise TargetError(f"buffer '{safe_terminal(name)}' has no place in memory")
        return found

    def base(self, buffer: Buffer) -> str:
        """Base address of the buffer's pool, as an initialiser of a pointer union."""
        return f"{{(unsigned char *)({self.pools[buffer.pool].address:#x}UL)}}"

    def address(self, place: Ref) -> str:
        """The address of a place, as the CPU sees it."""
        buffer = self.buffer(place.buffer)
        sum_text = f"{self.pools[buffer.pool].address:#x}UL + {buffer.offset + place.offset}"
        return f"((unsigned char *)(ATON_LIB_PHYSICAL_TO_VIRTUAL_ADDR({sum_text})))"

    def limit(self, buffer: Buffer) -> int:
        return buffer.offset + buffer.size_bytes + LIMIT_BYTES


def _without_registers(epoch: Epoch) -> bool:
    return epoch.groups is None and epoch.kind is EpochKind.HW


def node_name(epoch: Epoch) -> str:
    """The source ops of an epoch, for comments."""
    return c_comment(",".join(epoch.origin) or epoch.name).replace(" ", "_")


def float_text(value: float) -> str:
    """A float32 literal that reads back as the same number; no literal stands for infinity."""
    number = np.float32(min(max(value, -FLOAT_MAX), FLOAT_MAX))
    text = f"{number:.9g}"
    return text + ("f" if "." in text or "e" in text else ".0f")


def array(type_name: str, name: str, values: list[str]) -> str:
    """A constant array of its own; C has no empty ones."""
    return f"  static const {type_name} {name}[] = {{ {', '.join(values or ['0'])} }};"
