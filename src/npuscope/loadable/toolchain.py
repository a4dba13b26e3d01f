"""The cross compiler: zig from the Python package, or an arm-none-eabi-gcc that is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import sha256
from importlib import metadata, util
from pathlib import Path

from msgspec import Struct

from npuscope.bounded_file import OWN, read_bytes
from npuscope.cache import WHOLE_FOLDERS, cache_folder, used
from npuscope.errors import InternalError, TargetError, UsageError
from npuscope.loadable import codes
from npuscope.loadable.build_network import (
    ImageSource,
    all_headers,
    firmware_folder,
    include_folders,
)
from npuscope.loadable.codes import TOOLCHAINS, CpuTarget, PackageOptions
from npuscope.progress import progress
from npuscope.text import safe_terminal
from npuscope.whole_file import work_folder

# --- Compiled objects in the cache ---

_DIGITS = 16


def digest(*parts: bytes | str) -> str:
    """One name for all parts; where one ends and the next begins matters too."""
    total = sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little") + data)
    return total.hexdigest()


def cached(folder: Path, key: str, ending: str, make: Callable[[Path], None]) -> Path:
    """What `make` wrote for this key, now or earlier.

    Its name carries its digest: a file that a crash or a full disk has torn is made again.
    """
    for path in folder.glob(f"{key}.*{ending}"):
        if path.name == _named(key, path, ending):
            used(path)
            return path
        path.unlink(missing_ok=True)
    with work_folder(folder) as work:
        result = work / f"made{ending}"
        make(result)
        return result.replace(folder / _named(key, result, ending))


def _named(key: str, result: Path, ending: str) -> str:
    return f"{key}.{sha256(read_bytes(result, OWN)).hexdigest()[:_DIGITS]}{ending}"


INSTALL_HINT = "pip install 'npuscope[board]'"
# Compilations take seconds; a damaged source must not hang a build server.
TIMEOUT_S = 300.0
# CFLAGS, CPATH and the like would change what is compiled without a trace in the image.
_KEPT_VARIABLES = ("PATH", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR")
# Code and constants count from the program counter, data from R9.
_ZIG_POSITION = ("-fropi", "-frwpi")
_GCC_POSITION = (
    "-fPIC",
    "-msingle-pic-base",
    "-mpic-register=r9",
    "-mno-pic-data-is-text-relative",
)
# Short enums are part of the interface to the firmware. Products and sums are never fused, and
# nothing is reordered: results are the same on every CPU.
_COMMON = (
    "-std=gnu11",
    "-ffreestanding",
    "-nostdinc",
    "-fshort-enums",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-unwind-tables",
    "-fno-asynchronous-unwind-tables",
)


class ToolResult(Struct, frozen=True):
    """Exit code and output of a tool."""

    code: int
    text: str

    @property
    def first_error(self) -> str:
        lines = [line for line in self.text.splitlines() if "error" in line.lower()]
        return safe_terminal((lines or self.text.splitlines() or ["no message"])[0])


class Toolchain(Struct, frozen=True):
    """Commands with the target's flags; `tag` and `code` are how an image names its compiler."""

    name: str
    tag: str
    code: codes.ToolchainCode
    version: str
    compiler: tuple[str, ...]
    linker: tuple[str, ...]
    target: CpuTarget
    cache: Path

    def compile(self, source: Path, output: Path, flags: Sequence[str]) -> ToolResult:
        return self.run([*self.compiler, *flags, "-c", str(source), "-o", str(output)])

    def preprocess(self, source: Path, output: Path, flags: Sequence[str]) -> ToolResult:
        return self.run([*self.compiler, *flags, "-E", str(source), "-o", str(output)])

    def run(self, command: Sequence[str]) -> ToolResult:
        """No shell, none of the user's compiler variables, and a time limit."""
        environment = {key: os.environ[key] for key in _KEPT_VARIABLES if key in os.environ}
        zig = [self.cache / name for name in WHOLE_FOLDERS]
        environment |= {
            "LC_ALL": "C",
            "ZIG_GLOBAL_CACHE_DIR": str(zig[0]),
            "ZIG_LOCAL_CACHE_DIR": str(zig[1]),
        }
        for folder in zig:
            used(folder)
        try:
            outcome = subprocess.run(
                list(command),
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TargetError(
                f"the {self.name} compiler did not finish in {TIMEOUT_S:g} s"
            ) from None
        except OSError as error:
            raise TargetError(
                f"the {self.name} compiler cannot be started: {error.strerror}"
            ) from None
        return ToolResult(
            outcome.returncode, (outcome.stderr + outcome.stdout).decode(errors="replace")
        )


def find_toolchain(options: PackageOptions) -> Toolchain:
    """The compiler that the options name; a hint how to get it where it is missing."""
    if options.toolchain not in TOOLCHAINS:
        raise UsageError(
            f"unknown compiler '{options.toolchain}'", hint=f"known: {', '.join(TOOLCHAINS)}"
        )
    find = _zig if options.toolchain == "zig" else _gcc
    return find(options.target, cache_folder())


def _zig(target: CpuTarget, cache: Path) -> Toolchain:
    folder = zig_folder()
    program = str(folder / ("zig.exe" if os.name == "nt" else "zig"))
    machine = ("-target", "thumb-freestanding-eabihf", f"-mcpu={target.zig}")
    return Toolchain(
        name="zig",
        tag="CLANG",
        code=codes.ToolchainCode.CLANG,
        version=f"ziglang {metadata.version('ziglang')}",
        compiler=(program, "cc", *machine, "-fno-sanitize=all", *_ZIG_POSITION, *_COMMON),
        linker=(program, "ld.lld"),
        target=target,
        cache=cache,
    )


def zig_folder() -> Path:
    spec = util.find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        raise TargetError("the C compiler, ziglang, is not installed", hint=INSTALL_HINT)
    return Path(next(iter(spec.submodule_search_locations)))


def _gcc(target: CpuTarget, cache: Path) -> Toolchain:
    program, linker = shutil.which("arm-none-eabi-gcc"), shutil.which("arm-none-eabi-ld")
    if program is None or linker is None:
        raise TargetError(
            "arm-none-eabi-gcc is not installed",
            hint="install the GNU Arm Embedded toolchain, or use --toolchain zig",
        )
    machine = (*target.gcc, "-mthumb", "-mfloat-abi=hard")
    toolchain = Toolchain(
        name="gcc",
        tag="GCC",
        code=codes.ToolchainCode.GCC,
        version="",
        compiler=(program, *machine, *_GCC_POSITION, *_COMMON),
        linker=(linker,),
        target=target,
        cache=cache,
    )
    from npuscope.structs import replace

    outcome = toolchain.run([program, "--version"])
    if outcome.code:
        raise TargetError(f"arm-none-eabi-gcc does not work: {outcome.first_error}")
    return replace(toolchain, version=outcome.text.partition("\n")[0])


def own_flags(dialect: int, definitions: Sequence[str] = ()) -> tuple[str, ...]:
    """Definitions and folders that all code of an image is compiled with."""
    folders = include_folders(firmware_folder())
    return (
        f"-DNPUSCOPE_DIALECT={dialect}",
        "-DNPUSCOPE_KERNELS",
        "-DNPUSCOPE_RELOCATABLE",
        "-DLL_ATON_EB_DBG_INFO",
        "-DLL_ATON_DBG_BUFFER_INFO_EXCLUDED=1",
        *definitions,
        *(f"-I{folder}" for folder in folders),
    )


def compile_own(
    toolchain: Toolchain, sources: Sequence[ImageSource], flags: Sequence[str]
) -> list[Path]:
    """Objects of our own sources, from the cache where nothing changed."""
    headers = [read_bytes(path, OWN) for path in all_headers(firmware_folder())]
    common = digest(toolchain.version, *toolchain.compiler, *flags, *headers)
    folder = toolchain.cache / "objects"
    folder.mkdir(mode=0o700, exist_ok=True)

    def one(source: ImageSource) -> Path:
        key = digest(common, *source.flags, source.path.name, read_bytes(source.path, OWN))
        return cached(folder, key, ".o", partial(_compile_to, toolchain, source, flags))

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        objects = []
        for number, path in enumerate(pool.map(one, sources), 1):
            progress("runtime: %d of %d files compiled", number, len(sources))
            objects.append(path)
        return objects


def _compile_to(
    toolchain: Toolchain, source: ImageSource, flags: Sequence[str], target: Path
) -> None:
    outcome = toolchain.compile(source.path, target, [*flags, *source.flags])
    if outcome.code:
        raise InternalError(f"{source.path.name} does not compile: {outcome.first_error}")


# --- The compiler's helper library (64-bit division, doubles in software) ---

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
    if toolchain.name == "zig":
        # Built once from zig's sources; `zig ld.lld` does not bring one.
        key = digest(toolchain.version, toolchain.target.zig, *_BUILD)
        name = f"compiler_rt-{toolchain.target.name}-{key[:16]}"
        return cached(toolchain.cache, name, ".a", partial(_build_of_zig, toolchain))
    outcome = toolchain.run([*toolchain.compiler, "-print-libgcc-file-name"])
    library = Path(outcome.text.strip())
    if outcome.code or not library.is_file():
        raise TargetError("arm-none-eabi-gcc has no libgcc for this CPU")
    return library


def _build_of_zig(toolchain: Toolchain, result: Path) -> None:
    source = zig_folder() / "lib" / "compiler_rt.zig"
    progress("building the compiler's helper library, once")
    machine = f"-mcpu={toolchain.target.zig}"
    command = [toolchain.compiler[0], "build-lib", str(source), machine, *_BUILD]
    outcome = toolchain.run([*command, f"-femit-bin={result}"])
    if outcome.code or not result.is_file():
        raise TargetError(f"zig's helper library cannot be built: {outcome.first_error}")
