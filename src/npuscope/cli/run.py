"""`npuscope run IMAGE`: load an image on a board and run it."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from time import ctime
from typing import TYPE_CHECKING

from npuscope.cli.options import add_options, without_effect
from npuscope.cli.output import deliver, logged, refuse_overwrite, working
from npuscope.errors import UsageError
from npuscope.text import safe_terminal
from npuscope.version import __version__

if TYPE_CHECKING:
    from npuscope.boards.emulated.boot import Placed

_KIT = "stm32n6570-dk"
_VENDOR_SCRIPT = "$STEDGEAI_CORE_DIR/scripts/N6_reloc/st_load_and_run.py"
_FLASH_LOADER = "$STM32_CUBE_PROGRAMMER/bin/ExternalLoader/MX66UW1G45G_STM32N6570-DK.stldr"


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, "run")


def run(args: argparse.Namespace) -> int:
    if args.source is not None and args.input is not None:
        raise UsageError("the image is given twice", where=f"--input {safe_terminal(args.input)}")
    from npuscope.profiling.load_and_run import DEFAULT_IMAGE, parse_addresses, parse_modes

    source = Path(args.source or args.input or DEFAULT_IMAGE)
    refuse_overwrite(args, str(source))
    modes, addresses = parse_modes(args.mode), parse_addresses(args.address)
    if args.batch < 1:
        raise UsageError(f"expected at least 1 inference, found {args.batch}", where="--batch")
    if args.board == _KIT:
        return _explain_kit(args, source, modes, addresses)
    return _emulated(args, source, modes)


def _emulated(args: argparse.Namespace, source: Path, modes: set[str]) -> int:
    from npuscope import api
    from npuscope.report.loadable import run_json, run_lines

    with logged(args) as log, working(args, "running"):
        found = api.run(
            source,
            mode=args.mode,
            address=args.address,
            generation=args.generation,
            batch=args.batch,
            mcu_mhz=args.mcu_mhz,
            npu_mhz=args.npu_mhz,
        )
        lines = _steps(source, found.placed, "no-run" in modes)
        told = run_lines(found, args.verbosity)
        # Inside `logged`, so that the log file holds the report as the vendor's script writes it.
        banner = [f"npuscope {__version__} - load and run", f"Creating date : {ctime()}", ""]
        log.write("\n".join([*banner, *lines, *told]) + "\n")
    text = [told[0], *_between(args, lines, modes), *told[1:]]
    deliver(args, "\n".join(text), run_json(found))
    return 0


def _between(args: argparse.Namespace, lines: list[str], modes: set[str]) -> list[str]:
    """The steps, and what options had no effect, behind the answer."""
    notes = [f"note     {note}" for note in without_effect(args, "run")]
    return [*(["", *lines] if args.verbosity else []), *notes]


def _steps(source: Path, placed: Placed, loaded_only: bool) -> list[str]:
    """What is done, in the order and the words of the vendor's script."""
    from npuscope.boards.emulated.boot import Mode

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
    mode = "xip" if Mode.XIP in placed.mode else "copy"
    lines += [
        f"Loading & start the validation application 'emulated-validation-reloc-{mode}'..",
        "Deployed model is started and ready to be used.",
    ]
    return lines if loaded_only else [*lines, "Executing the deployed model (desc=emulated).."]


def _explain_kit(
    args: argparse.Namespace, source: Path, modes: set[str], addresses: tuple[int, int]
) -> int:
    """Real boards are flashed by the vendor's tools: the commands to do it."""
    from npuscope.profiling.load_and_run import DEFAULT_IMAGE, MODES, open_image, parameters_beside

    files, commands = [source], []
    if source.is_dir():
        files = [Path(DEFAULT_IMAGE)]
        commands.append(f"npuscope package {_word(source)} -n network --cpu cortex-m55")
    elif open_image(source)[1] is not None:
        files.append(parameters_beside(source))
    if "no-flash" not in modes:
        commands += [_write(*pair) for pair in zip(files, addresses, strict=False)]
    # The commands before this one flash the files, so the script must not do it again.
    words = [word for word in MODES if word in modes | {"no-flash"}]
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
    """A path, quoted as one word of a command."""
    return shlex.quote(safe_terminal(str(path)))
