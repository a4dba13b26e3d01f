"""`npuscope deploy DIR --board B`: put a network on a real board, or print the commands for it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from npuscope.errors import DeviceError, UsageError
from npuscope.options.kinds import Argument, OptionGroup, Verb, file, flag, text
from npuscope.options.rows import BOARDS, BUILDING, IMAGE, OUTPUT, READING, TARGET
from npuscope.options.words import option_words
from npuscope.structs import replace
from npuscope.text import safe_terminal
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.building import Options
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
        replace(
            TARGET, title="if a model is given: machine",
            options=tuple(row for row in TARGET.options if row.name != "board")),
        READING,
        OptionGroup("", IMAGE),
        OUTPUT,
    ),
    run="at_terminal",
    text="npuscope.report.deploy:deploy_text",
    json="npuscope.report.deploy:deploy_json",
    busy="deploying",
)
# fmt: on


@checked(VERB)
def deploy(  # type: ignore[misc]  # `board` has a default of its own here
    source: str | Path,
    *,
    board: str = BOARDS[0],
    fsbl: str | Path | None = None,
    application: str | Path | None = None,
    tool: str = "STM32_Programmer_CLI",
    run: bool = False,
    **options: Unpack[Options],
) -> tuple[DeployedStep, ...]:
    """Put a network on a real board, with the programmer's command line tool.

    In: a model, which is compiled to st_ai_output for the memories of the board, with all options
    of `compile` that say how; or a build folder or a NAME_rel.bin, with clocks and memories of the
    board; boot loader and application are programmed if given. Out: the steps, each with what its
    command printed; without `run` nothing is done on the board.

    >>> npuscope.deploy("net", application="app_signed.hex")
    """
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


def _refuse_of_models(source: str | Path, stated: Mapping[str, Any]) -> None:
    row = next((BUILDING[name] for name in stated if name not in (*_SET_UP, "machine")), None)
    if row is not None:
        raise UsageError(
            f"{safe_terminal(str(source))} is compiled already",
            where=row.long,
            hint="give the model, which is then compiled with it",
        )


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
    options: Mapping[str, Any],
    wait: Callable[[DeployStep], None] | None = None,
) -> tuple[DeployedStep, ...]:
    from npuscope.loadable.deploy import (
        DeployedStep,
        Deployment,
        DeployStep,
        recipe,
        require_files,
        run_steps,
    )

    parts = {"fsbl": fsbl, "application": application}
    paths = {name: Path(path) if path else None for name, path in parts.items()}
    before: tuple[DeployedStep, ...] = ()
    stated = {name: value for name, value in options.items() if BUILDING[name].is_given(value)}
    set_up = {name: value for name, value in stated.items() if name in _SET_UP}
    if run:
        require_files(*paths.values())
    if Path(source).suffix.lower() not in (".tflite", ".onnx"):
        _refuse_of_models(source, stated)
    else:
        from npuscope.verbs.checklist import checklist
        from npuscope.verbs.compile import compilation
        from npuscope.verbs.estimate import estimate

        request: dict[str, Any] = {"board": board, **stated}
        compiled = compilation(str(source), _BUILD, **request)
        words = option_words(BUILDING.values(), request)
        command = ("npuscope", "compile", str(source), "-o", _BUILD, *words)
        step = DeployStep(f"compile {Path(source).name}", command)
        image = [row.name for row in IMAGE]
        predicted = estimate(
            source, **{name: value for name, value in request.items() if name not in image}
        ).total_ms
        epochs = sum(compiled.program.tally.values())
        text = f"{epochs} epochs in {_BUILD}, {predicted:.4g} ms predicted"
        checks = DeployStep("check the build", ("npuscope", "checklist", _BUILD))
        before = (DeployedStep(step, text, _BUILD), DeployedStep(checks, checklist(_BUILD).told()))
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
