"""What a user may choose about an image."""

from __future__ import annotations

from dataclasses import dataclass

from npuscope.errors import UsageError
from npuscope.loadable.codes import Cpu


@dataclass(frozen=True, slots=True)
class CpuTarget:
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
DEFAULT_CPU = "cortex-m55"
DEFAULT_TOOLCHAIN = "zig"


@dataclass(frozen=True, slots=True)
class PackageOptions:
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
