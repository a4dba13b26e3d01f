"""The validation firmware of the emulated board: built from C once, then taken from the cache."""

from __future__ import annotations

import tempfile
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
            raise FileError("is not firmware for Arm", where=name)
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
    "-DNPUSCOPE_WITH_NPU",
    f"-DNPUSCOPE_CPU_PART={_PART}",
)
_LINK = ("-nostdlib", "-rtlib=compiler-rt", "-static", "-Wl,--gc-sections")


# Where the linker puts the firmware, and the NPU's registers, for code that is not secure.
_SECURE_RAM, _NON_SECURE_RAM = "0x34000000", "0x24000000"
_WORLDS = {
    True: ("-DNPUSCOPE_SECURE=1",),
    False: ("-DNPUSCOPE_SECURE=0", "-DNPU_BASE=0x480E0000u"),
}


def validation_firmware(dialect: int, secure: bool = True) -> bytes:
    """The ELF file for networks of a dialect (2, 21, 30 or 3), for one of the two worlds."""
    toolchain = find_toolchain(PackageOptions(cpu=CPU))
    folder = firmware_folder()
    sources = [path for part in _PARTS for path in sorted((folder / part).glob("*.c"))]
    command = [*_command(toolchain, folder, sources, dialect), *_WORLDS[secure]]
    script = (folder / _SCRIPT).read_text(encoding="utf-8")
    if not secure:
        script = script.replace(_SECURE_RAM, _NON_SECURE_RAM)
    read = [*sources, *all_headers(folder)]
    content = (path.read_bytes() for path in read)
    key = digest(toolchain.version, *command[1:], script, *content)
    make = partial(_build, toolchain, command, script)
    return cached(toolchain.cache, f"validation-{key[:20]}", ".elf", make).read_bytes()


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
        *map(str, sources),
    ]


def _build(toolchain: Toolchain, command: list[str], script: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="npuscope-link-") as folder:
        places = Path(folder) / "link.ld"
        places.write_text(script, encoding="utf-8")
        outcome = toolchain.run([*command, "-T", str(places), "-o", str(target)])
    if outcome.code:
        raise InternalError(f"the emulated board's firmware does not build: {outcome.first_error}")
