"""`npuscope run IMAGE`: load an image on a board and run it."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from npuscope.bounded_file import LOADABLE, read_bytes
from npuscope.cli.output import deliver, refuse_overwrite, working
from npuscope.cli.vendor_output import add_vendor_output, logged
from npuscope.errors import FileError, UsageError
from npuscope.text import safe_terminal

if TYPE_CHECKING:
    from npuscope.board.emulated.boot import Placed

_DEFAULT_IMAGE = "build/network_rel.bin"
_DEFAULT_ADDRESS = "0x71000000,0x71800000"
_DEFAULT_LOG = "run.log"
_EMULATED, _KIT = "emulated", "stm32n6570-dk"
_MODES = ("copy", "xip", "no-flash", "no-run", "max-speed")
_VENDOR_SCRIPT = "$STEDGEAI_CORE_DIR/scripts/N6_reloc/st_load_and_run.py"
_FLASH_LOADER = "$STM32_CUBE_PROGRAMMER/bin/ExternalLoader/MX66UW1G45G_STM32N6570-DK.stldr"
_CUBE = "--cube-ide-dir is not needed: the emulated board needs no debugger"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        nargs="?",
        metavar="IMAGE",
        help=f"NAME_rel.bin or a build folder ({_DEFAULT_IMAGE})",
    )
    parser.add_argument("-i", "--input", metavar="FILE", help="the same")
    parser.add_argument(
        "--board", choices=(_EMULATED, _KIT), default=_EMULATED, help="where to run"
    )
    parser.add_argument(
        "--address",
        default=_DEFAULT_ADDRESS,
        metavar="NET[,PARAMS]",
        help=f"places in flash ({_DEFAULT_ADDRESS})",
    )
    parser.add_argument(
        "--mode", default="copy", metavar="WORDS", help=f"comma list of {', '.join(_MODES)} (copy)"
    )
    parser.add_argument("--generation", default="", help="of the compiler, for control times")
    parser.add_argument("--mcu-mhz", type=float, metavar="MHZ", help="clock of the processor (800)")
    parser.add_argument("--npu-mhz", type=float, metavar="MHZ", help="clock of the NPU (1000)")
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="inferences (1)")
    parser.add_argument("--cube-ide-dir", metavar="DIR", help="accepted, not needed")
    add_vendor_output(parser, _DEFAULT_LOG)


def run(args: argparse.Namespace) -> int:
    if args.source is not None and args.input is not None:
        raise UsageError("the image is given twice", where=f"--input {safe_terminal(args.input)}")
    source = Path(args.source or args.input or _DEFAULT_IMAGE)
    refuse_overwrite(args, str(source))
    modes, addresses = _modes(args.mode), _addresses(args.address)
    if args.batch < 1:
        raise UsageError(f"expected at least 1 inference, found {args.batch}", where="--batch")
    if args.board == _KIT:
        return _explain_kit(args, source, modes, addresses)
    if "no-flash" in modes:
        raise UsageError(
            "the emulated board's flash is empty whenever it starts", where="--mode no-flash"
        )
    return _emulated(args, source, modes, addresses)


def _modes(text: str) -> set[str]:
    words = {word.strip() for word in text.split(",") if word.strip()}
    unknown = sorted(words - set(_MODES))
    if unknown:
        raise UsageError(
            f"unknown mode '{safe_terminal(unknown[0])}'",
            where="--mode",
            hint=f"known: {', '.join(_MODES)}",
        )
    if {"copy", "xip"} <= words:
        raise UsageError("an image is copied or executed in place, not both", where="--mode")
    return words


def _addresses(text: str) -> tuple[int, int]:
    parts = [part.strip() for part in text.split(",")]
    defaults = _DEFAULT_ADDRESS.split(",")
    try:
        found = [int(part, 0) for part in (*parts, *defaults[len(parts) :])]
    except ValueError:
        found = []
    if len(found) != 2 or not all(0 <= value < 1 << 32 for value in found):
        raise UsageError(
            f"expected NET[,PARAMS], found '{safe_terminal(text)}'",
            where="--address",
            hint=f"such as {_DEFAULT_ADDRESS}",
        )
    return found[0], found[1]


def _emulated(
    args: argparse.Namespace, source: Path, modes: set[str], addresses: tuple[int, int]
) -> int:
    from npuscope import api
    from npuscope.report.run_text import run_json, run_lines

    with logged(args) as log, working(args, "running"):
        placed = _placed(source, modes, addresses)
        lines = _steps(source, placed)
        with _named(source):
            found = api.run(
                placed,
                generation=args.generation,
                batch=0 if "no-run" in modes else args.batch,
                mcu_mhz=args.mcu_mhz,
                npu_mhz=args.npu_mhz,
            )
        told = run_lines(found, args.verbosity)
        log.write("\n".join([*lines, *told]) + "\n")
    text = [told[0], *_between(args, lines, modes), *told[1:]]
    deliver(args, "\n".join(text), run_json(found))
    return 0


@contextmanager
def _named(source: Path) -> Iterator[None]:
    """What is wrong in a file is told with the file's name."""
    try:
        yield
    except FileError as error:
        name = safe_terminal(str(source))
        where = f"{name}, {error.where}" if error.where else name
        raise FileError(error.message, where=where, hint=error.hint) from None


def _between(args: argparse.Namespace, lines: list[str], modes: set[str]) -> list[str]:
    """The steps, and what options had no effect, behind the answer."""
    notes = []
    if args.cube_ide_dir:
        notes.append(f"note     {_CUBE}")
    if "max-speed" in modes:
        notes.append("note     max-speed changes nothing: the emulated line has no baud rate")
    return [*(["", *lines] if args.verbosity else []), *notes]


def _placed(source: Path, modes: set[str], addresses: tuple[int, int]) -> Placed:
    from npuscope.board.emulated.boot import Mode, Placed

    image, params = _image(source)
    mode = (Mode.XIP if "xip" in modes else Mode.COPY) | Mode.CLEAR
    return Placed(image, params, *addresses, mode)


def _image(source: Path) -> tuple[bytes, bytes | None]:
    """An image with its parameters beside it, or a build folder, packaged for the board."""
    if source.is_dir():
        return _packaged(source)
    from npuscope.loadable.layout import Header

    image, beside = _bytes(source), _beside(source)
    # Beside a whole image the file is an older one.
    is_split = len(image) >= Header.BYTES and not Header.unpack(image).params_offset
    return image, _bytes(beside) if is_split and beside.is_file() else None


def _beside(source: Path) -> Path:
    return source.with_name(f"{source.stem}_params{source.suffix}")


def _bytes(path: Path) -> bytes:
    from npuscope.board.emulated.memory_map import FLASH_BYTES

    hint = "`npuscope package DIR` makes it (for the emulated board with --cpu cortex-m33)"
    data = read_bytes(path, LOADABLE, hint=hint)
    if len(data) > FLASH_BYTES:
        raise FileError(
            f"has {len(data):,} bytes, the board's flash {FLASH_BYTES:,}",
            where=safe_terminal(str(path)),
        )
    return data


def _packaged(folder: Path) -> tuple[bytes, bytes | None]:
    from npuscope.loadable.build import package
    from npuscope.loadable.options import PackageOptions

    files = list(package(folder, PackageOptions(cpu="cortex-m33")).files.values())
    return files[0], files[1] if len(files) > 1 else None


def _steps(source: Path, placed: Placed) -> list[str]:
    """What is done, in the order of the vendor's script."""
    lines = [
        f"Entry point    : '{safe_terminal(str(source))}'",
        "Board          : 'emulated', Cortex-M33, memories of the STM32N6570-DK",
        "split model" if placed.params is not None else "no split model",
        "",
        "Resetting the board.",
        f"Flashing the image at address {placed.address:#x} (size={len(placed.image)})..",
    ]
    if placed.params is not None:
        size = len(placed.params)
        lines.append(f"Flashing parameters at address {placed.params_address:#x} (size={size})..")
    return [*lines, "Loading and starting the validation application.."]


def _explain_kit(
    args: argparse.Namespace, source: Path, modes: set[str], addresses: tuple[int, int]
) -> int:
    """Real boards are flashed by the vendor's tools: the commands to do it."""
    files, commands = [source], []
    if source.is_dir():
        files = [Path(_DEFAULT_IMAGE)]
        commands.append(f"npuscope package {_word(source)} -n network")
    elif _image(source)[1] is not None:
        files.append(_beside(source))
    if "no-flash" not in modes:
        commands += [_write(*pair) for pair in zip(files, addresses, strict=False)]
    words = [word for word in _MODES if word in modes | {"no-flash"}]
    places = ",".join(f"{address:#x}" for address in addresses)
    options = f"--address {places} --mode {','.join(words)}"
    commands += [
        f"python {_VENDOR_SCRIPT} -i {_word(files[0])} {options}",
        "npuscope profile --connect serial",
    ]
    notes = [
        "npuscope does not flash real boards; these commands of the vendor's tools do:",
        *(f"  {command}" for command in commands),
    ]
    result = {"schema": "npuscope/run/1", "board": _KIT, "commands": commands}
    deliver(args, "\n".join(notes), result)
    return 0


def _write(file: Path, address: int) -> str:
    tool = "STM32_Programmer_CLI -c port=SWD mode=HOTPLUG ap=1"
    return f"{tool} -el {_FLASH_LOADER} -w {_word(file)} {address:#x}"


def _word(path: Path) -> str:
    """A path as one word of a command."""
    return shlex.quote(safe_terminal(str(path)))
