"""The bare firmware, built by zig: once for each content of its sources and flags."""

from __future__ import annotations

import atexit
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from processes import LIMIT_S

FIRMWARE = Path(__file__).parents[2] / "firmware"
PARTS = ("include", "loader", "runtime", "kernels", "board/bare")
# Enums as the vendor's compiler has them; the structures of images and firmware are then alike.
TARGET = (
    "-target",
    "thumb-freestanding-eabihf",
    "-ffreestanding",
    "-fno-sanitize=all",
    "-fshort-enums",
)
RUNTIME = ("LL_ATON_EB_DBG_INFO", "NPUSCOPE_SECURE=1")  # as the packager builds images
WARNINGS = ("-std=c11", "-Wall", "-Wextra", "-Werror")


class BareError(Exception):
    """The firmware did not come to the end of a command."""


@dataclass(frozen=True, slots=True)
class Core:
    cpu: str
    part: int
    host: str
    script: str


M33 = Core("cortex_m33+fp_armv8d16sp", 0xD21, "host_wfi.c", "m33.ld")
M55 = Core("cortex_m55+mve_fp", 0xD22, "host_semihosting.c", "m55.ld")


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="npuscope-firmware-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def zig(*arguments: str | Path) -> None:
    pytest.importorskip("ziglang", reason="ziglang is not installed: no compiler for firmware")
    command = [sys.executable, "-m", "ziglang", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    if done.returncode:
        raise BareError(f"{' '.join(command)}\n{done.stderr}")


def built(suffix: str, key: Iterable[str | Path], make: Callable[[Path], None]) -> Path:
    """A file that `make` writes, once for each key; paths in the key stand for their content."""
    digest = hashlib.sha256()
    for part in key:
        text = part.read_bytes() if isinstance(part, Path) else part.encode()
        digest.update(hashlib.sha256(text).digest())
    target = _folder() / (digest.hexdigest()[:20] + suffix)
    if not target.exists():
        make(target)
    return target


def _sources(core: Core) -> list[Path]:
    shared = sorted([*FIRMWARE.glob("loader/*.c"), *FIRMWARE.glob("runtime/*.c")])
    own = ("start.c", "commands.c", core.host)
    return shared + [FIRMWARE / "board/bare" / name for name in own]


def _read_by_compiler() -> list[Path]:
    return sorted(path for part in PARTS for path in (FIRMWARE / part).glob("*.[hl]*"))


def build_firmware(
    core: Core,
    sources: Sequence[Path] = (),
    includes: Sequence[Path] = (),
    defines: Sequence[str] = (),
) -> Path:
    """The ELF file of the firmware, with further sources (kernels of a test) linked in."""
    files = [*_sources(core), *sources]
    flags = [*TARGET, *WARNINGS, "-Os", f"-mcpu={core.cpu}", f"-DNPUSCOPE_CPU_PART={core.part:#x}"]
    flags += [f"-D{name}" for name in (*RUNTIME, *defines)]
    flags += [f"-I{folder}" for folder in (*(FIRMWARE / part for part in PARTS), *includes)]
    flags += ["-nostdlib", "-rtlib=compiler-rt", "-static", "-g", "-Wl,--entry=npuscope_reset"]
    flags += ["-T", str(FIRMWARE / "board/bare" / core.script)]
    headers = [path for folder in includes for path in sorted(folder.glob("*.h"))]
    key = [*flags, *files, *headers, *_read_by_compiler()]
    return built(".elf", key, lambda target: zig("cc", *flags, *files, "-o", target))


def segments_and_symbols(elf: Path) -> tuple[list[tuple[int, bytes]], dict[str, int]]:
    """What lies where, and the addresses of names."""
    elffile = pytest.importorskip("elftools.elf.elffile", reason="pyelftools is not installed")
    with elf.open("rb") as stream:
        file = elffile.ELFFile(stream)
        loads = [part for part in file.iter_segments() if part["p_type"] == "PT_LOAD"]
        symbols = file.get_section_by_name(".symtab").iter_symbols()
        names = {symbol.name: symbol["st_value"] for symbol in symbols}
        return [(part["p_vaddr"], part.data()) for part in loads], names
