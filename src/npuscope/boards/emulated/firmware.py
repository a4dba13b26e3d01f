"""The validation firmware of the emulated board: built from C once, then taken from the cache."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from npuscope.boards.wire.describe import version_word
from npuscope.clock import compile_time
from npuscope.errors import InternalError
from npuscope.loadable.build_network import all_headers, firmware_folder, include_folders
from npuscope.loadable.codes import PackageOptions
from npuscope.loadable.toolchain import Toolchain, cached, digest, find_toolchain
from npuscope.version import __version__

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
    # When it was built does not make it another firmware.
    dated = [*command, f'-DNPUSCOPE_BUILT="{compile_time()}"']
    make = partial(_build, toolchain, dated, script)
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
        f"-DNPUSCOPE_TOOL_VERSION={version_word(__version__):#x}u",
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
