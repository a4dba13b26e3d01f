"""The validation firmware of the emulated board: built from C once, then taken from the cache."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from npuscope.errors import FileError, InternalError, TargetError
from npuscope.loadable.build_network import all_headers, firmware_folder, include_folders
from npuscope.loadable.codes import PackageOptions
from npuscope.loadable.toolchain import Toolchain, cached, digest, find_toolchain

# Firmware files: what lies where, and where names are.

INSTALL_HINT = "pip install 'npuscope[board]'"


@dataclass(frozen=True, slots=True)
class Firmware:
    """Bytes by address, and the addresses of global names."""

    segments: tuple[tuple[int, bytes], ...] = field(repr=False)
    symbols: dict[str, int] = field(repr=False)
    entry: int = 0

    @property
    def vectors(self) -> int:
        """The vector table lies at the firmware's start."""
        return min(address for address, _ in self.segments)


def read_firmware(data: bytes, name: str = "firmware") -> Firmware:
    """The loadable parts of an ELF file for Arm."""
    try:
        from elftools.common.exceptions import ELFError
        from elftools.elf.elffile import ELFFile
    except ImportError as error:
        message = "firmware files need pyelftools, which is not installed"
        raise TargetError(message, hint=INSTALL_HINT) from error
    try:
        file = ELFFile(BytesIO(data))
        if file["e_machine"] != "EM_ARM":
            raise FileError("is not a firmware for Arm", where=name)
        loads = [s for s in file.iter_segments() if s["p_type"] == "PT_LOAD" and s["p_filesz"]]
        segments = tuple((int(part["p_paddr"]), bytes(part.data())) for part in loads)
        table: Any = file.get_section_by_name(".symtab")
        symbols = {s.name: int(s["st_value"]) for s in table.iter_symbols()} if table else {}
        entry = int(file["e_entry"])
    # What the reader raises on damaged files depends on where the damage is.
    except (ELFError, ValueError, LookupError, TypeError, AttributeError, UnicodeError) as error:
        raise FileError(f"is not an ELF file: {error}", where=name) from error
    if not segments:
        raise FileError("has nothing to load", where=name)
    return Firmware(segments, symbols, entry)


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
