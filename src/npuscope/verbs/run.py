"""`npuscope run IMAGE`: load an image on a board and run it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuscope.errors import UsageError
from npuscope.options.kinds import (
    Argument,
    OptionGroup,
    OptionKind,
    VendorEffect,
    Verb,
    file,
    option,
    real,
    text,
    whole,
)
from npuscope.options.rows import BOARDS, DEFAULT_ADDRESS, vendor_output
from npuscope.text import safe_terminal
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    import numpy as np

    from npuscope.boards.emulated.boot import Placed
    from npuscope.building import Options
    from npuscope.profiling.load_and_run import LoadAndRun
    from npuscope.report.load_and_run import BoardRun, KitCommands

_DEFAULT_IMAGE = "build/network_rel.bin"

# One option per row is easier to read than the formatter's layout.
# fmt: off
VERB = Verb(
    "load an image on a board (emulated by default) and run it",
    (Argument("source", "IMAGE", f"NAME_rel.bin or a build folder ({_DEFAULT_IMAGE})", "?"),),
    (
        OptionGroup("", (
            file("input", "same as IMAGE", flags=("-i", "--input"), python=False),
            text("board", "where to run; for a real board the commands are printed", "",
                default="emulated", choices=("emulated", *BOARDS),
                python=False),
            text("address", f"addresses in flash ({DEFAULT_ADDRESS})", "NET[,PARAMS]",
                default=DEFAULT_ADDRESS),
            text("mode", "comma list: copy or xip (execute in place), no-run (load only), "
                "max-speed (a faster serial line), no-flash (for real boards) (copy)", "WORDS",
                default="copy"),
            text("generation", "generation whose control times are used (that of the image)",
                default=""),
            real("mcu_mhz", "clock of the processor (800)", "MHZ"),
            real("npu_mhz", "clock of the NPU (1000)", "MHZ"),
            whole("batch", "number of inferences; times are means (1)", default=1),
            option("inputs", OptionKind.LIST, "input arrays (default: random)", shell=False),
            file("cube_ide_dir", "not needed: the emulated board needs no debugger", "DIR",
                python=False, effect=VendorEffect.NONE),
        )),
        vendor_output("run.log"),
    ),
    run="on_board",
    text="npuscope.report.load_and_run:board_run_text",
    json="npuscope.report.load_and_run:board_run_json",
    log="npuscope.report.load_and_run:board_run_log",
    busy="running",
    reads=("source", "input"),
)
# fmt: on


@checked(VERB)
def run(
    source: str | Path | Placed = _DEFAULT_IMAGE,
    *,
    mode: str = "copy",
    address: str = DEFAULT_ADDRESS,
    generation: str = "",
    batch: int = 1,
    inputs: Sequence[np.ndarray] | None = None,
    mcu_mhz: float | None = None,
    npu_mhz: float | None = None,
) -> LoadAndRun:
    """Load an image on the emulated board and run it.

    In: NAME_rel.bin of `package` for the cortex-m33, the folder that holds it, or a build folder,
    which is packaged on the way; `mode` and `address` as on the command line. Out: the inferences
    with cycles by epoch, and in `total_ms` what `estimate` predicts for the same build (None where
    it is not beside the image).

    >>> npuscope.run("build/network_rel.bin", batch=3).total_ms
    """
    from npuscope.machine.load import load_machine
    from npuscope.profiling.load_and_run import (
        image_in,
        load_and_run,
        named,
        parse_addresses,
        parse_modes,
        place,
        program_of,
    )
    from npuscope.structs import replace
    from npuscope.verbs.estimate import estimate

    clocks = {"clocks.mcu_mhz": mcu_mhz, "clocks.npu_mhz": npu_mhz}
    overrides = {name: value for name, value in clocks.items() if value is not None}
    modes, addresses = parse_modes(mode), parse_addresses(address)
    if batch < 1:
        raise UsageError(f"expected at least 1 inference, found {batch}", where="--batch")
    if "no-flash" in modes:
        raise UsageError(
            "the emulated board starts with empty flash",
            where="--mode no-flash",
            hint="on a real board it starts what is in flash already: --board stm32n6570-dk",
        )
    start = partial(
        load_and_run,
        clocks=load_machine(overrides=overrides).clocks,
        generation=generation,
        batch=0 if "no-run" in modes else batch,
        inputs=inputs,
        fast_line="max-speed" in modes,
    )
    if not isinstance(source, (str, Path)):
        return start(source)
    source = image_in(Path(source))
    placed = place(source, modes, addresses)
    with named(source):
        result = start(placed)
    program = program_of(source, placed.image) if result.inferences else None
    if program is None:
        return result
    options: Options = {"generation": generation or None, "mcu_mhz": mcu_mhz, "npu_mhz": npu_mhz}
    return replace(result, prediction=estimate(program, **options))


def on_board(
    source: str | None = None,
    *,
    input: str | None = None,
    board: str,
    mode: str,
    address: str,
    **options: Any,
) -> BoardRun | KitCommands:
    """The vendor's script takes the image with an option; for a real board it says how."""
    if source is not None and input is not None:
        raise UsageError("the image is given twice", where=f"--input {safe_terminal(input)}")
    from npuscope.profiling.load_and_run import image_in, parse_addresses, parse_modes
    from npuscope.report.load_and_run import BoardRun, kit_commands

    path = image_in(Path(source or input or _DEFAULT_IMAGE))
    modes = parse_modes(mode)
    if board != "emulated":
        return kit_commands(board, path, modes, parse_addresses(address))
    result = run(path, mode=mode, address=address, **options)
    return BoardRun(path, result, "no-run" in modes)
