"""Images that were loaded and run, or the commands that would do it on a real board."""

from __future__ import annotations

import shlex
from pathlib import Path
from time import ctime
from typing import Any

from msgspec import Struct

from npuscope.boards.emulated.boot import Mode, Placed
from npuscope.loadable.boards import board_named
from npuscope.loadable.fitting import refuse_misfit
from npuscope.loadable.image import read_image
from npuscope.profiling.load_and_run import (
    DEFAULT_IMAGE,
    MODES,
    LoadAndRun,
    open_image,
    parameters_beside,
)
from npuscope.report.loadable import run_json, run_lines
from npuscope.text import safe_terminal
from npuscope.version import __version__

_VENDOR_SCRIPT = "$STEDGEAI_CORE_DIR/scripts/N6_reloc/st_load_and_run.py"
_FLASH_LOADERS = "$STM32_CUBE_PROGRAMMER/bin/ExternalLoader"


class BoardRun(Struct, frozen=True):
    """A run on the emulated board, of an image that was loaded only if so asked."""

    source: Path
    run: LoadAndRun
    loaded_only: bool


def board_run_text(board_run: BoardRun, *, verbosity: int, unused: tuple[str, ...]) -> str:
    """The steps, and what options had no effect, stand behind the answer."""
    lines = run_lines(board_run.run, verbosity)
    steps = (
        ["", *_steps(board_run.source, board_run.run.placed, board_run.loaded_only)]
        if verbosity
        else []
    )
    return "\n".join([lines[0], *steps, *(f"note     {note}" for note in unused), *lines[1:]])


def board_run_json(board_run: BoardRun) -> dict[str, Any]:
    return run_json(board_run.run)


def board_run_log(board_run: BoardRun, *, verbosity: int) -> str:
    """The report as the vendor's script writes it."""
    banner = [f"npuscope {__version__} - load and run", f"Creating date : {ctime()}", ""]
    steps = _steps(board_run.source, board_run.run.placed, board_run.loaded_only)
    return "\n".join([*banner, *steps, *run_lines(board_run.run, verbosity)])


def _steps(source: Path, placed: Placed, loaded_only: bool) -> list[str]:
    """What is done, in the order and the words of the vendor's script."""
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


# --- Real boards ---


class KitCommands(Struct, frozen=True):
    """Real boards are flashed by the vendor's tools: the commands to do it."""

    TEXT = LOG = "npuscope.report.load_and_run:kit_text"
    JSON = "npuscope.report.load_and_run:kit_json"

    board: str
    commands: tuple[str, ...]


def kit_commands(
    name: str, source: Path, modes: set[str], addresses: tuple[int, int]
) -> KitCommands:
    board = board_named(name)
    files, commands = [source], []
    if source.is_dir() or source.suffix == ".c":
        files = [Path(DEFAULT_IMAGE)]
        commands.append(f"npuscope package {_word(source)} -n network --board {name}")
    else:
        image, params = open_image(source)
        refuse_misfit(read_image(image, params), name)
        files += [parameters_beside(source)] if params is not None else []
    if "no-flash" not in modes:
        loader = f"-el {_FLASH_LOADERS}/{board.loader}"
        tool = f"STM32_Programmer_CLI -c port=SWD mode=HOTPLUG ap=1 {loader}"
        pairs = zip(files, addresses, strict=False)
        commands += [f"{tool} -w {_word(file)} {address:#x}" for file, address in pairs]
    # The commands before this one flash the files, so the script must not do it again.
    words = [word for word in MODES if word in modes | {"no-flash"}]
    places = ",".join(f"{address:#x}" for address in addresses)
    options = f"--address {places} --mode {','.join(words)}"
    commands += [
        f"python {_VENDOR_SCRIPT} -i {_word(files[0])} {options}",
        "npuscope profile --connect serial",
    ]
    return KitCommands(name, tuple(commands))


def kit_text(kit: KitCommands) -> str:
    answer = "npuscope does not flash real boards; these commands of the vendor's tools do:"
    return "\n".join([answer, *(f"  {command}" for command in kit.commands)])


def kit_json(kit: KitCommands) -> dict[str, Any]:
    return {"schema": "npuscope/run/1", "board": kit.board, "commands": list(kit.commands)}


def _word(path: Path) -> str:
    """A path, quoted as one word of a command."""
    return shlex.quote(safe_terminal(str(path)))
