"""A network onto a real board: the recipe step by step, and its commands run where the
programmer's command line tool is installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from npuscope.bounded_file import LOADABLE, read_bytes
from npuscope.errors import DeviceError, FileError, UsageError
from npuscope.loadable.boards import Board, board_named, boards
from npuscope.loadable.fitting import refuse_misfit, refuse_missing_memory
from npuscope.loadable.image import read_image
from npuscope.loadable.layout import Header
from npuscope.options.rows import BUILDING
from npuscope.options.words import option_words
from npuscope.program.sources import read_program
from npuscope.shown import Several
from npuscope.text import safe_terminal

PROGRAMMER, SIGNER = "STM32_Programmer_CLI", "STM32_SigningTool_CLI"


class Other(Struct, frozen=True):
    """Another tool that programs a chip it knows: how to ask it which, and how to do it."""

    asked: tuple[str, ...]
    command: tuple[str, ...]
    form: str  # the option for the format of the file


OTHERS = {
    "probe-rs": Other(("chip", "list"), ("download", "--chip", "{chip}"), "--binary-format"),
    # Without --no-wait it waits for a probe for ever.
    "pyocd": Other(("list", "--targets"), ("load", "--no-wait", "--target", "{chip}"), "--format"),
}
TOOLS = (PROGRAMMER, *OTHERS)
_LIMIT_S = 600.0
_SIGNED = "_signed.bin"


class DeployStep(Struct, frozen=True):
    """What to do; by hand where there is no command."""

    what: str
    command: tuple[str, ...] = ()


def recipe(
    source: Path,
    board: str,
    *,
    fsbl: Path | None = None,
    application: Path | None = None,
    tool: str = PROGRAMMER,
    set_up: Mapping[str, object] | None = None,
) -> tuple[DeployStep, ...]:
    """All steps, in their order: boot loader, parameters or image, application, boot.

    `set_up`: what somebody says of the board, by option; it wins over the table.
    """
    set_up = set_up or {}
    entry = board_named(board)
    if tool in OTHERS and tool not in entry.tools:
        message = f"{tool} does not know the flash of {board}"
        raise UsageError(message, where="--tool", hint=f"use {PROGRAMMER}")
    steps = [DeployStep(f"set {entry.dev_mode}")]
    if fsbl is not None:
        steps += _firmware("first stage boot loader", fsbl, entry.fsbl_address, entry, tool)
    for path, address in _data(source, board, entry, bool(set_up.get("psram"))):
        where = "" if address is None else f" at {address:#x}"
        steps.append(
            DeployStep(f"program {path.name}{where}", _program(path, address, entry, tool))
        )
    if application is not None:
        steps += _firmware("application", application, entry.application_address, entry, tool)
    steps.append(DeployStep(f"set {entry.flash_boot}"))
    build = (
        (str(source), *option_words(BUILDING.values(), {"board": board, **set_up}))
        if source.is_dir()
        else ()
    )
    words = ("npuscope", "profile", "--connect", "serial", *build)
    steps.append(DeployStep("profile the board", words))
    return tuple(steps)


def _data(
    source: Path, name: str, board: Board, added_psram: bool
) -> Iterator[tuple[Path, int | None]]:
    """Parameters of a build, which carry their addresses, or an image with its parameters."""
    if source.is_dir():
        files = sorted(source.glob("*_data.*.hex"))
        if not files:
            raise FileError(
                "has no parameters as .hex",
                where=safe_terminal(str(source)),
                hint="`npuscope compile MODEL -o DIR` writes them",
            )
        # Parameters alone do not tell which RAM a network uses.
        if list(source.glob("*.c")):
            refuse_missing_memory(read_program(source), name, added_psram)
        yield from ((path, None) for path in files)
        return
    data = read_bytes(source, LOADABLE, hint="give a build folder or a NAME_rel.bin")
    refuse_misfit(read_image(data, None), name)
    yield source, board.image_address
    if not Header.unpack(data).params_offset:
        yield source.with_name(f"{source.stem}_params{source.suffix}"), board.params_address


def _firmware(what: str, path: Path, address: int, board: Board, tool: str) -> Iterator[DeployStep]:
    """A plain binary is signed first; a .hex file was, and carries its address."""
    if path.suffix == ".hex":
        yield DeployStep(f"program the {what} {path.name}", _program(path, None, board, tool))
        return
    signed = path.with_name(path.stem + _SIGNED)
    words = (SIGNER, "-bin", str(path), "-nk", "-t", "ssbl", "-hv", "2.3", "-o", str(signed))
    yield DeployStep(f"sign the {what} {path.name}", words)
    yield DeployStep(f"program it at {address:#x}", _program(signed, address, board, tool))


def _program(path: Path, address: int | None, board: Board, tool: str) -> tuple[str, ...]:
    if tool in OTHERS:
        return (tool, *_other(OTHERS[tool], path, address, board.chip))
    place = () if address is None else (f"{address:#x}",)
    loader = str(Path("ExternalLoader") / board.loader)
    connect = ("-c", "port=SWD", "mode=HOTPLUG", "ap=1")
    return (PROGRAMMER, *connect, "-el", loader, "-hardRst", "-w", str(path), *place)


def _other(other: Other, path: Path, address: int | None, chip: str) -> Iterator[str]:
    """A .hex file carries its addresses, a binary is told where to go."""
    yield from (word.format(chip=chip) for word in other.command)
    yield from (other.form, "hex" if address is None else "bin")
    if address is not None:
        yield from ("--base-address", f"{address:#x}")
    yield str(path)


class DeployedStep(Struct, frozen=True):
    step: DeployStep
    output: str
    written: str = ""  # the folder that it wrote


class Deployment(Several):
    __slots__ = ()
    noun = "step"
    columns = (("what", "step.what"), ("command", "step.command"), ("output", "output"))


def require_files(*parts: Path | None) -> None:
    """Before anything is programmed."""
    for path in parts:
        if path is not None and not path.is_file():
            raise FileError("file not found", where=safe_terminal(str(path)))


def run_steps(
    steps: tuple[DeployStep, ...],
    board: str,
    tool: str = PROGRAMMER,
    *,
    wait: Callable[[DeployStep], None] | None = None,
    measured: Callable[[], str] | None = None,
) -> Iterator[DeployedStep]:
    """The commands one after the other; the first that fails ends it. `wait` returns when a step
    by hand is done, `measured` gives what the profile at the end shows; without them both are
    only told."""
    place = shutil.which(tool)
    if place is None:
        raise DeviceError(
            f"{tool} is not installed",
            where="--tool",
            hint="put the tool's bin folder into PATH, or leave out --run to see the commands",
        )
    home = Path(place).resolve().parent
    chip = boards()[board].chip
    chip_name = _known_as(tool, chip)
    for step in steps:
        if not step.command:
            if wait is not None:
                wait(step)
            yield DeployedStep(step, "")
            continue
        if step.command[0] == "npuscope":
            yield DeployedStep(step, measured() if measured is not None else "")
            continue
        missing = [word for word in step.command if word.endswith(_SIGNED) and "-w" in step.command]
        if any(not Path(word).is_file() for word in missing):
            message = f"{SIGNER} left no {Path(missing[0]).name}"
            raise DeviceError(message, where=safe_terminal(missing[0]))
        words = tuple(chip_name if word == chip else word for word in step.command)
        # The flash loader lies beside the programmer.
        start = str(Path("ExternalLoader") / "")
        yield DeployedStep(
            step,
            _run(tuple(str(home / word) if word.startswith(start) else word for word in words)),
        )


def _known_as(tool: str, chip: str) -> str:
    """The chip as the tool calls it, which may name the package too."""
    if tool not in OTHERS:
        return chip
    words = _run((tool, *OTHERS[tool].asked)).split()
    names = [word for word in words if word.lower().startswith(chip.lower())]
    if not names:
        raise DeviceError(
            f"{tool} does not know the {chip}", where="--tool", hint=f"use {PROGRAMMER}"
        )
    return names[0]


def _run(command: tuple[str, ...]) -> str:
    try:
        outcome = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DeviceError(f"{command[0]} cannot be run: {error}") from None
    if outcome.returncode:
        last = (outcome.stdout + outcome.stderr).strip().splitlines()[-1:]
        reason = safe_terminal(last[0]) if last else "it printed nothing"
        raise DeviceError(
            f"{command[0]} ended with code {outcome.returncode}: {reason}",
            where=safe_terminal(" ".join(command)),
            hint="is the board in dev mode, and its ST-LINK connected?",
        )
    return outcome.stdout
