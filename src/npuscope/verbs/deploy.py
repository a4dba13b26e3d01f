"""`npuscope deploy DIR --board B`: put a network on a real board, or print the commands for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from npuscope.options.kinds import Argument, OptionGroup, Verb, file, flag, text
from npuscope.options.rows import OUTPUT
from npuscope.verbs.check import checked

if TYPE_CHECKING:
    from npuscope.loadable.deploy import DeployedStep

# fmt: off
VERB = Verb(
    "put a network on a real board: signing, addresses, order, boot switches",
    (Argument("source", "DIR", "a build folder, or NAME_rel.bin of `package`"),),
    (
        OptionGroup("", (
            text("board", "the board (stm32n6570-dk)", "", default="stm32n6570-dk",
                choices=("stm32n6570-dk", "nucleo-n657x0-q")),
            file("fsbl", "first stage boot loader: a signed .hex, or a .bin to be signed"),
            file("application", "the application: a signed .hex, or a .bin to be signed"),
            text("tool", "what programs the board", "", default="STM32_Programmer_CLI",
                choices=("STM32_Programmer_CLI", "probe-rs", "pyocd")),
            flag("run", "run the commands (default: only print them)"),
        )),
        OUTPUT,
    ),
    text="npuscope.report.deploy:deploy_text",
    json="npuscope.report.deploy:deploy_json",
    busy="deploying",
)
# fmt: on


@checked(VERB)
def deploy(
    source: str | Path,
    *,
    board: str = "stm32n6570-dk",
    fsbl: str | Path | None = None,
    application: str | Path | None = None,
    tool: str = "STM32_Programmer_CLI",
    run: bool = False,
) -> tuple[DeployedStep, ...]:
    """Put a network on a real board, with the programmer's command line tool.

    In: a build folder or a NAME_rel.bin; boot loader and application are programmed if given.
    Out: the steps, each with what its command printed; without `run` nothing is done.

    >>> npuscope.deploy("net", application="app_signed.hex")
    """
    from npuscope.loadable.deploy import DeployedStep, recipe, run_steps

    parts = {"fsbl": fsbl, "application": application}
    paths = {name: Path(path) if path else None for name, path in parts.items()}
    steps = recipe(Path(source), board, tool=tool, **paths)
    if not run:
        return tuple(DeployedStep(step, "") for step in steps)
    return tuple(run_steps(steps, board, tool))
