"""What an image names by number (segments, processors, tool-chains, pools), and what a user may
choose about it."""

from __future__ import annotations

from enum import IntEnum

from msgspec import Struct

from npuscope.errors import UsageError

# --- Numbers in an image: segments, processors, tool-chains, pools ---

WORD_BYTES = 4
ALIGN_BYTES = 8
OFFSET_MASK = 0x0FFFFFFF
_SEGMENT_SHIFT = 28


class AddressBase(IntEnum):
    """What an address inside an image counts from."""

    FLASH = 2
    RAM = 4
    PARAM_0 = 8
    PARAM_1 = 9
    PARAM_2 = 10


class ToolchainCode(IntEnum):
    GCC = 8
    CLANG = 9
    ST_CLANG = 10


class FloatAbi(IntEnum):
    SOFT = 0
    SOFTFP = 1
    HARD = 2


class Cpu(IntEnum):
    """Part numbers as a core's CPUID register has them."""

    CORTEX_M0_PLUS = 0xC60
    CORTEX_M3 = 0xC23
    CORTEX_M4 = 0xC24
    CORTEX_M7 = 0xC27
    CORTEX_M33 = 0xD21
    CORTEX_M55 = 0xD22


class PoolAction(IntEnum):
    """What a loader does with a pool: give it a base, fill it, or only clear it."""

    UNUSED = 0
    RELOC = 1
    COPY = 2
    RESET = 3
    UNSUPPORTED = 0xFF


class PoolData(IntEnum):
    UNDEF = 0
    PARAM = 1
    ACTIV = 2
    MIXED = 3


class PoolAccess(IntEnum):
    """READ 1, WRITE 2 and CACHED 4 in the combinations that occur."""

    UNDEF = 0
    READ = 1
    WRITE = 2
    CACHED = 4
    RCACHED = 5
    WCACHED = 6


def segment_of(address: int) -> int:
    """The segment's number; not every number is a `Segment`."""
    return address >> _SEGMENT_SHIFT


def offset_of(address: int) -> int:
    return address & OFFSET_MASK


def address_in(segment: AddressBase, offset: int) -> int:
    return segment << _SEGMENT_SHIFT | offset


def aligned(size: int, step: int = ALIGN_BYTES) -> int:
    return -(-size // step) * step


def name_of(names: type[IntEnum], value: int) -> str:
    """A member's name; a number that has none is shown as it is."""
    return names(value).name if value in names.__members__.values() else f"{value:#x}"


# --- What a user may choose about an image ---


class CpuTarget(Struct, frozen=True):
    """A processor as the image's header and the two compilers call it."""

    name: str
    part: Cpu
    zig: str
    gcc: tuple[str, ...]


# The vector unit is on by default in neither compiler's sense of "cortex-m55": it is named.
CPUS = {
    target.name: target
    for target in (
        CpuTarget("cortex-m55", Cpu.CORTEX_M55, "cortex_m55+mve_fp", ("-mcpu=cortex-m55",)),
        CpuTarget(
            "cortex-m33",
            Cpu.CORTEX_M33,
            "cortex_m33+fp_armv8d16sp",
            ("-mcpu=cortex-m33", "-mfpu=fpv5-sp-d16"),
        ),
    )
}
TOOLCHAINS = ("zig", "gcc")
DEFAULT_CPU = "cortex-m33"  # that of the emulated board
DEFAULT_TOOLCHAIN = "zig"


class PackageOptions(Struct, frozen=True):
    """`name` is what the files are called, network.c's own name if empty."""

    name: str = ""
    cpu: str = DEFAULT_CPU
    toolchain: str = DEFAULT_TOOLCHAIN
    split: bool = False
    secure: bool = True
    c_file: bool = False

    @property
    def target(self) -> CpuTarget:
        if self.cpu not in CPUS:
            raise UsageError(f"unknown CPU '{self.cpu}'", hint=f"known: {', '.join(CPUS)}")
        return CPUS[self.cpu]


def cpu_name(part: int) -> str:
    """Such as Cortex-M55; an unknown part by its number."""
    name = name_of(Cpu, part)
    if name.startswith("0x"):
        return f"CPU part {name}"
    return name.replace("CORTEX_M", "Cortex-M").replace("_PLUS", "+")


def toolchain_name(number: int) -> str:
    names = {
        ToolchainCode.GCC: "GCC",
        ToolchainCode.CLANG: "clang",
        ToolchainCode.ST_CLANG: "ST clang",
    }
    return {int(k): v for k, v in names.items()}.get(number, f"tool-chain {number:#x}")
