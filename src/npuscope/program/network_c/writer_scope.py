"""What all parts of the writer need: names, places and the dialect of one program."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from msgspec import Struct

from npuscope.errors import TargetError
from npuscope.machine.model import Machine
from npuscope.program.addresses import pool_symbol, relative_pools
from npuscope.program.ec_blob.binary import EcBinary, write_binary
from npuscope.program.ec_blob.lower import binary_of
from npuscope.program.model import Buffer, Epoch, EpochKind, Pool, Program
from npuscope.program.network_c.layout import LIMIT_BYTES, Dialect, dialect
from npuscope.program.units import Ref
from npuscope.text import c_comment, c_identifier, safe_terminal

Lines = list[str]
# `used` keeps the compiler from finding out that nothing writes them.
_TABLES_IN_RAM = (
    "#if defined(NPUSCOPE_RELOCATABLE)",
    "#define const __attribute__((used))",
    "#endif",
)
_LINE_BYTES = 64
FLOAT_MAX = float(np.finfo(np.float32).max)


class Scope(Struct, frozen=True, dict=True):
    """One program under one C name."""

    program: Program
    machine: Machine | None  # whose pools state their power; None where only epochs are written
    network: str

    @classmethod
    def of(cls, program: Program, machine: Machine | None, name: str) -> Scope:
        if any(epoch.groups is None and epoch.kind is EpochKind.HW for epoch in program.epochs):
            raise TargetError(
                "the program has no unit registers, so it cannot be written as C source",
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
        buffer = self.buffers.get(name)
        if buffer is None or buffer.pool not in self.pools:
            raise TargetError(f"buffer '{safe_terminal(name)}' has no place in memory")
        return buffer

    @cached_property
    def relocatable(self) -> bool:
        """Some pool gets its address when the image is loaded."""
        return bool(relative_pools(self.program))

    def base(self, buffer: Buffer) -> str:
        """Base address of the buffer's pool, as an initialiser of a pointer union."""
        pool = self.pools[buffer.pool]
        if pool.relative:
            return f"{{(unsigned char *)((uintptr_t){self.symbol(pool)})}}"
        return f"{{(unsigned char *)({pool.address:#x}UL)}}"

    def address(self, place: Ref) -> str:
        """The address of a place, as the CPU sees it; an initialiser of static data."""
        buffer = self.buffer(place.buffer)
        pool, offset = self.pools[buffer.pool], buffer.offset + place.offset
        if pool.relative:
            return f"((unsigned char *)((uintptr_t){self.symbol(pool)} + {offset}))"
        sum_text = f"{pool.address:#x}UL + {offset}"
        return f"((unsigned char *)({self.dialect.address_macro}({sum_text})))"

    def code_address(self, pool: Pool, offset: int) -> str:
        """The address of a place as code may state it: code reaches a pool by its pointer."""
        base = f"(uintptr_t){self.pointer(pool)}" if pool.relative else f"{pool.address:#x}UL"
        return f"(uintptr_t)({self.dialect.address_macro}({base} + {offset}))"

    def symbol(self, pool: Pool) -> str:
        return pool_symbol(pool, self.network)

    def pointer(self, pool: Pool) -> str:
        """The variable that holds a relative pool's address."""
        return f"base_of{self.symbol(pool)}"

    def in_ram(self, lines: Lines) -> Lines:
        """Tables that hold addresses: in flash nobody could set them after the image is loaded."""
        if not self.relocatable:
            return lines
        return [*_TABLES_IN_RAM, *lines, "#undef const"]

    def relocated(self, lines: Lines) -> Lines:
        """The same for a struct that may name a relative pool or not."""
        symbols = [self.symbol(pool) for pool in relative_pools(self.program)]
        has_symbol = any(symbol in line for line in lines for symbol in symbols)
        return self.in_ram(lines) if has_symbol else lines

    @cached_property
    def containers(self) -> dict[int, int]:
        """Blobs that are relocated before they run, with the 64-bit words of their copies."""
        if not self.relocatable or not self.program.epoch_controller:
            return {}
        numbers = {epoch.blob for epoch in self.program.executed if epoch.blob is not None}
        binaries = {n: binary_of(self.program, n, self.network) for n in sorted(numbers)}
        return {n: _double_words(binary) for n, binary in binaries.items() if binary.relocations}

    def limit(self, buffer: Buffer) -> int:
        return buffer.offset + buffer.size_bytes + LIMIT_BYTES


def _double_words(binary: EcBinary) -> int:
    """Whole cache lines of the plain blob."""
    plain = write_binary(EcBinary(binary.instructions))
    return -(-len(plain) // _LINE_BYTES) * _LINE_BYTES // 8


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
