"""The validation firmware of the emulated board: built from C once, then taken from the cache."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from npuscope.errors import InternalError
from npuscope.loadable.options import PackageOptions
from npuscope.loadable.sources import all_headers, firmware_folder, include_folders
from npuscope.loadable.toolchain import Toolchain, find_toolchain
from npuscope.loadable.toolchain_cache import cached, digest

CPU = "cortex-m33"
_PART = "0xD21"  # of the Cortex-M33, as images name it
_PARTS = ("loader", "runtime", "npu", "kernels", "validation", "board/emulated")
_SCRIPT = "board/emulated/link.ld"
# The same structures as images have: see npuscope.loadable.toolchain.
_FLAGS = (
    "-std=gnu11",
    "-Os",
    "-ffreestanding",
    "-fno-sanitize=all",
    "-fshort-enums",
    "-ffp-contract=off",
    "-ffunction-sections",
    "-fdata-sections",
    "-DLL_ATON_EB_DBG_INFO",
    "-DNPUSCOPE_SECURE=1",
    "-DNPUSCOPE_WITH_NPU",
    f"-DNPUSCOPE_CPU_PART={_PART}",
)
_LINK = ("-nostdlib", "-rtlib=compiler-rt", "-static", "-Wl,--gc-sections")


def validation_firmware(dialect: int) -> bytes:
    """The ELF file for networks of a runtime dialect (2 or 3)."""
    toolchain = find_toolchain(PackageOptions(cpu=CPU))
    folder = firmware_folder()
    sources = [path for part in _PARTS for path in sorted((folder / part).glob("*.c"))]
    command = _command(toolchain, folder, sources, dialect)
    read = [*sources, *all_headers(folder), folder / _SCRIPT]
    key = digest(toolchain.version, *command[1:], *(path.read_bytes() for path in read))
    name = f"validation-{key[:20]}"
    return cached(toolchain.cache, name, ".elf", partial(_build, toolchain, command)).read_bytes()


def _command(toolchain: Toolchain, folder: Path, sources: list[Path], dialect: int) -> list[str]:
    includes = [*include_folders(folder), *(folder / part for part in (*_PARTS, "image"))]
    return [
        *toolchain.compiler[:2],
        "-target",
        "thumb-freestanding-eabihf",
        f"-mcpu={toolchain.target.zig}",
        *_FLAGS,
        f"-DNPUSCOPE_DIALECT={dialect}",
        *(f"-I{include}" for include in includes),
        *_LINK,
        "-T",
        str(folder / _SCRIPT),
        *map(str, sources),
    ]


def _build(toolchain: Toolchain, command: list[str], target: Path) -> None:
    outcome = toolchain.run([*command, "-o", str(target)])
    if outcome.code:
        raise InternalError(f"the emulated board's firmware does not build: {outcome.first_error}")
