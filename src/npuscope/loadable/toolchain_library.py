"""The compiler's own helpers (64-bit division, doubles in software), position independent."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from npuscope.errors import TargetError
from npuscope.loadable.toolchain import Toolchain, zig_folder
from npuscope.loadable.toolchain_cache import cached, digest

# Each function in a section of its own, so that only what is called gets into an image; and
# position independent, as a literal with an absolute address would forbid to run in place.
_BUILD = (
    "-target",
    "thumb-freestanding-eabihf",
    "-OReleaseSmall",
    "-fPIC",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-unwind-tables",
    "-fstrip",
    "-fsingle-threaded",
)


def runtime_library(toolchain: Toolchain) -> Path:
    return _of_zig(toolchain) if toolchain.name == "zig" else _of_gcc(toolchain)


def _of_zig(toolchain: Toolchain) -> Path:
    """Built once from zig's sources; `zig ld.lld` brings none by itself."""
    key = digest(toolchain.version, toolchain.target.zig, *_BUILD)
    name = f"compiler_rt-{toolchain.target.name}-{key[:16]}"
    return cached(toolchain.cache, name, ".a", partial(_build_of_zig, toolchain))


def _build_of_zig(toolchain: Toolchain, made: Path) -> None:
    source = zig_folder() / "lib" / "compiler_rt.zig"
    machine = f"-mcpu={toolchain.target.zig}"
    command = [toolchain.compiler[0], "build-lib", str(source), machine, *_BUILD]
    outcome = toolchain.run([*command, f"-femit-bin={made}"])
    if outcome.code or not made.is_file():
        raise TargetError(f"zig's helper library cannot be built: {outcome.first_error}")


def _of_gcc(toolchain: Toolchain) -> Path:
    outcome = toolchain.run([*toolchain.compiler, "-print-libgcc-file-name"])
    library = Path(outcome.text.strip())
    if outcome.code or not library.is_file():
        raise TargetError("arm-none-eabi-gcc has no libgcc for this CPU")
    return library
