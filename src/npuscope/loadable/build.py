"""A build folder to a runtime-loadable image: read, check, compile, link, pack, read back."""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from npuscope.bounded_file import OWN, SOURCE, read_bytes, read_text
from npuscope.errors import FileError, TargetError
from npuscope.loadable import codes
from npuscope.loadable.build_network import (
    SourceNetwork,
    firmware_folder,
    image_sources,
    read_network,
)
from npuscope.loadable.codes import PackageOptions
from npuscope.loadable.foreign_program import is_fixed, loadable_form
from npuscope.loadable.foreign_source import check_preprocessed
from npuscope.loadable.image import read_image
from npuscope.loadable.image_model import Image
from npuscope.loadable.link import image_c, link, linker_script
from npuscope.loadable.pack import pack_image, read_elf, xip_obstacle
from npuscope.loadable.pack_pools import RELOCATABLE_HINT, PoolPlan, plan_pools
from npuscope.loadable.toolchain import (
    Toolchain,
    ToolResult,
    compile_own,
    find_toolchain,
    own_flags,
    runtime_library,
)
from npuscope.machine.load import load_machine
from npuscope.machine.model import Machine
from npuscope.program.code_files import code_files, pool_images
from npuscope.program.ec_blob.lower import refuse_unheld
from npuscope.program.model import Program, to_json
from npuscope.program.network_c.layout import DIALECT_3, dialect
from npuscope.progress import progress
from npuscope.shown import Rows, ShownRecord
from npuscope.structs import replace
from npuscope.text import c_identifier
from npuscope.whole_file import work_folder

# --- An image as C arrays, for a debugger or a firmware without files ---

_BYTES_A_LINE = 16
_ALIGNMENT = 32


def c_files(name: str, image: bytes, params: bytes | None) -> dict[str, bytes]:
    """NAME_img_rel.c and NAME_img_rel.h."""
    stem = c_identifier(name)
    arrays = {f"{stem}_img_rel": image}
    if params is not None:
        arrays[f"{stem}_img_rel_params"] = params
    header = f"{name}_img_rel.h"
    guard = f"{stem.upper()}_IMG_REL_H"
    lines = [
        f"{array}\n"
        for name, data in arrays.items()
        for array in (
            f"#define {name.upper()}_SIZE ({len(data)})",
            f"extern const unsigned char {name}[{name.upper()}_SIZE];",
        )
    ]
    return {
        header: f"#ifndef {guard}\n#define {guard}\n\n{''.join(lines)}\n#endif\n".encode(),
        f"{name}_img_rel.c": _source(header, arrays).encode(),
    }


def _source(header: str, arrays: dict[str, bytes]) -> str:
    parts = [f'#include "{header}"\n']
    for name, data in arrays.items():
        size = f"{name.upper()}_SIZE"
        parts.append(
            f"const unsigned char __attribute__((aligned({_ALIGNMENT}))) {name}[{size}] = {{"
        )
        lines = (data[at : at + _BYTES_A_LINE] for at in range(0, len(data), _BYTES_A_LINE))
        numbers = ("  " + ",".join(f"{byte:#04x}" for byte in line) for line in lines)
        parts.append(",\n".join(numbers))
        parts.append("};\n")
    return "\n".join(parts)


_LOG = logging.getLogger(__name__)
# The NPU's registers as code that is not secure sees them.
_NOT_SECURE = ("-DNPU_BASE=0x480E0000u",)


class Package(ShownRecord, frozen=True):
    """An image and everything known about it; `files` are the results by name.

    `obstacle` says why the code cannot be executed in place, and is empty where it can.
    `intermediate` are the files between source and image, for those who want to look.
    """

    name: str
    image: Image
    files: dict[str, bytes]
    intermediate: dict[str, bytes]
    toolchain: str
    obstacle: str = ""
    notes: tuple[str, ...] = ()

    def told(self) -> str:
        files = ", ".join(f"{name} ({len(data):,} bytes)" for name, data in self.files.items())
        return f"{self.name}: {files}"

    def table(self) -> Rows:
        return [{"file": name, "bytes": len(data)} for name, data in self.files.items()]


_UNHELD = (
    "network.c runs with the vendor's runtime; an image needs a network without products of a "
    "feature map and a computed vector, and lines that fit the units"
)


def parse(source: Path, options: PackageOptions) -> tuple[SourceNetwork, PoolPlan]:
    """What would be packaged: the network and its pools, without compiling anything."""
    return _planned(read_network(source, options.name), options)


def _planned(network: SourceNetwork, options: PackageOptions) -> tuple[SourceNetwork, PoolPlan]:
    # The image brings its own drivers: with what they cannot set up it would load and then wait
    # forever.
    for epoch in network.program.executed:
        for unit in (unit for group in epoch.groups or () for unit in group.units):
            try:
                refuse_unheld(unit)
            except TargetError as error:
                raise TargetError(
                    f"epoch {epoch.number} cannot be started by the image's drivers: "
                    f"{error.message}",
                    where=network.source.name,
                    hint=_UNHELD,
                ) from None
    return network, plan_pools(network.program, network.images, secure=options.secure)


def package(source: Path, options: PackageOptions) -> Package:
    progress("reading %s", str(source))
    network = read_network(source, options.name)
    if is_fixed(network.program):
        machine = load_machine(generation=network.program.generation)
        return package_program(network.program, machine, replace(options, name=network.name))
    return _packaged(network, options, network.program)


def _packaged(network: SourceNetwork, options: PackageOptions, program: Program) -> Package:
    """`program` is the build as it was read, whose time is predicted; the network may be another
    form of it."""
    network, plan = _planned(network, options)
    request, options = options, replace(options, secure=options.secure and not plan.non_secure)
    toolchain = find_toolchain(options)
    _LOG.info("compiling %s with %s", network.source.name, toolchain.version)
    # Inside the private cache: no other user can change a source between check and compilation.
    with work_folder(toolchain.cache) as work:
        elf = _built(network, plan, toolchain, options, work)
        intermediate = {file.name: read_bytes(file, OWN) for file in sorted(work.iterdir())}
    linked = read_elf(elf)
    packed = pack_image(
        linked,
        plan.parameters,
        network.suffix,
        toolchain,
        secure=options.secure,
        split=options.split,
    )
    name = network.name
    files = {f"{name}_rel.bin": packed.image}
    if packed.params is not None:
        files[f"{name}_rel_params.bin"] = packed.params
    if options.c_file:
        files |= c_files(name, packed.image, packed.params)
    digest = hashlib.sha256(packed.image).hexdigest()
    files[f"{name}_rel.program.json"] = to_json(replace(program, constants={}), digest)
    return Package(
        name=network.name,
        # Read back by the reader of foreign images, so that every check applies to our own as well.
        image=read_image(packed.image, packed.params),
        files=files,
        intermediate=intermediate,
        toolchain=toolchain.version,
        obstacle=xip_obstacle(linked, packed.places),
        notes=(
            *network.program.notes,
            *packed.notes,
            *_target_notes(request, options),
            *_vendor_notes(toolchain),
        ),
    )


def _target_notes(request: PackageOptions, options: PackageOptions) -> Iterator[str]:
    """For which processor and world the image is, where that was not said."""
    if options.target.part is codes.Cpu.CORTEX_M33:
        yield (
            "for a Cortex-M33, which the emulated board has; for the Cortex-M55 of an STM32N6 "
            "package with --cpu cortex-m55"
        )
    if request.secure and not options.secure:
        yield "the pools are at non-secure addresses: packaged for the non-secure world"


def _vendor_notes(toolchain: Toolchain) -> tuple[str, ...]:
    if toolchain.code is codes.ToolchainCode.GCC:
        return ()
    return ("the vendor's load-and-run accepts images built with clang in COPY mode only",)


def _built(
    network: SourceNetwork,
    plan: PoolPlan,
    toolchain: Toolchain,
    options: PackageOptions,
    work: Path,
) -> bytes:
    """The linked ELF file."""
    # The source itself says it best: the type of epochs has another name in each dialect.
    if DIALECT_3.item_type in network.source.text:
        spoken = DIALECT_3
    else:
        spoken = dialect(network.program.generation)
    flags = own_flags(spoken.number, () if options.secure else _NOT_SECURE)
    firmware = firmware_folder()
    ours = (*flags, f"-I{firmware / 'image'}")
    progress("compiling %s", network.source.name)
    source, result = work / "image.c", work / "image.o"
    name = network.name.lower()
    source.write_text(image_c(name, network.suffix, plan, spoken.runtime, toolchain.tag))
    outcome = toolchain.compile(source, result, [*ours, "-Os"])
    if outcome.code:
        raise _rejected(network, outcome, work)
    objects = [
        _network_object(network, toolchain, flags, work),
        result,
        *compile_own(toolchain, image_sources(firmware), ours),
    ]
    script = work / "image.ld"
    script.write_text(linker_script(network.symbols))
    elf = work / f"{network.name}.elf"
    library = runtime_library(toolchain)
    progress("linking %s", elf.name)
    link(toolchain, objects, library, script, network.suffix, elf, network.source.text)
    return read_bytes(elf, OWN)


def _network_object(
    network: SourceNetwork, toolchain: Toolchain, flags: Sequence[str], work: Path
) -> Path:
    """The source alone, preprocessed and looked at again, then compiled."""
    folder = work / "source"
    folder.mkdir()
    source = network.source.write(folder)
    plain = work / "network_plain.c"
    # Warnings about a compiler's code do not help the user of the image.
    outcome = toolchain.preprocess(source, plain, [*flags, "-w"])
    if outcome.code:
        raise _rejected(network, outcome, work)
    # From here on only the preprocessed text exists, so nothing unchecked can be included.
    shutil.rmtree(folder)
    check_preprocessed(read_text(plain, SOURCE, errors="replace"), network.source.name)
    result = work / "network.o"
    outcome = toolchain.compile(plain, result, ["-Os", "-w"])
    if outcome.code:
        raise _rejected(network, outcome, work)
    return result


def _rejected(network: SourceNetwork, outcome: ToolResult, work: Path) -> FileError:
    """The compiler's own message, without the temporary folder."""
    message = outcome.first_error.replace(f"{work / 'source'}{os.sep}", "")
    return FileError(
        f"does not compile: {message}",
        where=network.source.name,
        hint="was it written for another generation of the runtime?",
    )


# --- A Program straight to an image, in a temporary build folder ---

_NAME = "network"


def package_program(program: Program, machine: Machine, options: PackageOptions) -> Package:
    """The image of a program that was compiled with relative external pools, or of another
    compiler's that can be written so."""
    described = program
    if program.source != "npuscope":
        program = loadable_form(program)
    notes, files = code_files(program, machine, _NAME)
    if not files:
        raise TargetError(notes[0], hint=f"nothing to package: {RELOCATABLE_HINT}")
    with work_folder(Path(tempfile.gettempdir())) as folder:
        for file, content in (files | pool_images(program)).items():
            data = content.encode() if isinstance(content, str) else content
            (folder / file).write_bytes(data)
        network = read_network(folder, options.name, program)
        return _packaged(replace(network, program=program), options, described)
