"""`npuscope deploy DIR --board B`: put a network on a real board, or print the commands for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npuscope.errors import DeviceError
from npuscope.options.kinds import Argument, OptionGroup, Verb, file, flag, text
from npuscope.options.rows import BOARDS, BUILDING, OUTPUT
from npuscope.structs import replace
from npuscope.text import safe_terminal
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.loadable.deploy import DeployedStep, DeployStep

_BUILD = "st_ai_output"
_SET_UP = ("mcu_mhz", "npu_mhz", "flash", "psram")  # options that describe the board

# fmt: off
VERB = Verb(
    "put a network on a real board: signing, addresses, order, boot switches",
    (Argument("source", "DIR", "a model, a build folder, or NAME_rel.bin of `package`"),),
    (
        OptionGroup("", (
            text("board", "the board: a model is compiled for its memories and timed with its "
                "clocks (stm32n6570-dk)", "", default=BOARDS[0], choices=BOARDS),
            file("fsbl", "first stage boot loader: a signed .hex, or a .bin to be signed"),
            file("application", "the application: a signed .hex, or a .bin to be signed"),
            text("tool", "what programs the board", "", default="STM32_Programmer_CLI",
                choices=("STM32_Programmer_CLI", "probe-rs", "pyocd")),
            flag("run", "run the commands, wait at the boot switches and profile the board "
                "(default: only print them)", flags=("--run", "--go")),
        )),
        OptionGroup("if a model is given", tuple(
            replace(BUILDING[name], of_family=False)
            for name in ("generation", "mcu_mhz", "npu_mhz", "flash", "psram", "mpool")
        )),
        OUTPUT,
    ),
    run="at_terminal",
    text="npuscope.report.deploy:deploy_text",
    json="npuscope.report.deploy:deploy_json",
    busy="deploying",
)
# fmt: on


@checked(VERB)
def deploy(
    source: str | Path,
    *,
    board: str = BOARDS[0],
    fsbl: str | Path | None = None,
    application: str | Path | None = None,
    tool: str = "STM32_Programmer_CLI",
    run: bool = False,
    generation: str | None = None,
    mcu_mhz: float | None = None,
    npu_mhz: float | None = None,
    flash: str | None = None,
    psram: str | None = None,
    mpool: str | Path | None = None,
) -> tuple[DeployedStep, ...]:
    """Put a network on a real board, with the programmer's command line tool.

    In: a model, which is compiled to st_ai_output for the memories of the board, a build folder or
    a NAME_rel.bin; boot loader and application are programmed if given. Out: the steps, each with
    what its command printed; without `run` nothing is done on the board.

    >>> npuscope.deploy("net", application="app_signed.hex")
    """
    options = {
        "generation": generation,
        "mcu_mhz": mcu_mhz,
        "npu_mhz": npu_mhz,
        "flash": flash,
        "psram": psram,
        "mpool": mpool,
    }
    return _deployed(source, board, fsbl, application, tool, run, options)


def at_terminal(
    source: str,
    *,
    board: str,
    tool: str,
    run: bool,
    fsbl: str | None = None,
    application: str | None = None,
    **options: Any,
) -> tuple[DeployedStep, ...]:
    """The same with somebody there who sets the switches."""
    return _deployed(source, board, fsbl, application, tool, run, options, wait_for_enter)


def wait_for_enter(step: DeployStep) -> None:
    print(f"npuscope: {safe_terminal(step.what)}, then press Enter", file=sys.stderr, flush=True)
    if not sys.stdin.readline():
        raise DeviceError(
            "nobody pressed Enter", where=step.what, hint="run it at a terminal, or pipe `yes ''`"
        )


def _deployed(
    source: str | Path,
    board: str,
    fsbl: str | Path | None,
    application: str | Path | None,
    tool: str,
    run: bool,
    options: dict[str, Any],
    wait: Callable[[DeployStep], None] | None = None,
) -> tuple[DeployedStep, ...]:
    from npuscope.loadable.deploy import (
        DeployedStep,
        Deployment,
        DeployStep,
        as_words,
        recipe,
        require_files,
        run_steps,
    )

    parts = {"fsbl": fsbl, "application": application}
    paths = {name: Path(path) if path else None for name, path in parts.items()}
    before: tuple[DeployedStep, ...] = ()
    stated = {name: value for name, value in options.items() if value is not None}
    set_up = {name: value for name, value in stated.items() if name in _SET_UP}
    if run:
        require_files(*paths.values())
    if Path(source).suffix.lower() in (".tflite", ".onnx"):
        from npuscope.verbs.checklist import checklist
        from npuscope.verbs.compile import compilation
        from npuscope.verbs.estimate import estimate

        request = {"board": board, **stated}
        compiled = compilation(str(source), _BUILD, **request)
        words = ("npuscope", "compile", str(source), "-o", _BUILD, *as_words(request))
        step = DeployStep(f"compile {Path(source).name}", words)
        predicted = estimate(_BUILD, **request).total_ms
        epochs = sum(compiled.program.tally.values())
        text = f"{epochs} epochs in {_BUILD}, {predicted:.4g} ms predicted"
        checks = DeployStep("check the build", ("npuscope", "checklist", _BUILD))
        before = (DeployedStep(step, text), DeployedStep(checks, checklist(_BUILD).told()))
        source = _BUILD
    steps = recipe(Path(source), board, tool=tool, set_up=set_up, **paths)
    if not run:
        return Deployment((*before, *(DeployedStep(step, "") for step in steps)))

    def measured() -> str:
        from npuscope.report.profile import profile_text
        from npuscope.verbs.measure import measure

        build = source if Path(source).is_dir() else None
        try:
            return profile_text(measure(build, connect="serial", board=board, **set_up).profile)
        except DeviceError as error:  # the network is on the board all the same
            return f"not profiled: {error.message}"

    ending = measured if wait is not None else None
    return Deployment((*before, *run_steps(steps, board, tool, wait=wait, measured=ending)))
