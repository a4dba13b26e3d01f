"""A text is a list of commands, each followed by what it prints, as on a terminal:

    $ npuscope explain softmax.tflite --strict --quiet
    1 of 3 epochs leaves the NPU and takes 0.00689 of 0.0248 ms (28%); 1 warning
    exit 1

Beside `npuscope` there are `ls`, `mkdir`, `cat > FILE << END` and, behind `|`, `grep TEXT`,
`head -N` and `tail -N`. Files that a text names are made by `networks`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

from npuscope.cli.main import main
from texts.networks import NETWORKS

FOLDER = Path(__file__).parent
COMMAND = re.compile(r"^\$ .*\n(?:(?!\$ ).*\n)*", re.MULTILINE)
HERE_FILE = re.compile(r"\$ cat > (\S+) << END\n(.*?)^END\n", re.MULTILINE | re.DOTALL)
# Not installed by `make test`, so a text must not meet it where somebody has it.
HIDDEN = "ai_edge_quantizer"

Lines = list[str]
FILTERS: dict[str, Callable[[Lines, str], Lines]] = {
    "grep": lambda lines, text: [line for line in lines if text in line],
    "head": lambda lines, count: lines[: -int(count)],
    "tail": lambda lines, count: lines[int(count) :],
}


def texts() -> list[Path]:
    return sorted(FOLDER.rglob("*.txt"))


def renewed(text: str) -> str:
    """The text with what its commands print now, run in the working directory."""
    for name, network in NETWORKS.items():
        if re.search(rf"(?<!\w){re.escape(name)}", text):
            Path(name).write_bytes(network())
    return "\n".join(map(_renewed_command, COMMAND.findall(text)))


def _renewed_command(block: str) -> str:
    if file := HERE_FILE.match(block):
        Path(file[1]).write_text(file[2], encoding="utf-8")
        return file[0]
    command = block.partition("\n")[0]
    words, *filters = (shlex.split(part) for part in command.removeprefix("$ ").split(" | "))
    lines, code = _run(*words)
    for name, argument in filters:
        lines = FILTERS[name](lines, argument)
    ending = [f"exit {code}"] if code else []
    return "".join(f"{line}\n" for line in [command, *lines, *ending])


@contextlib.contextmanager
def _at_no_time() -> Iterator[None]:
    """Dates in reports are always the same one."""
    before = os.environ.get("SOURCE_DATE_EPOCH")
    os.environ["SOURCE_DATE_EPOCH"] = "0"
    try:
        yield
    finally:
        os.environ.pop("SOURCE_DATE_EPOCH")
        if before is not None:
            os.environ["SOURCE_DATE_EPOCH"] = before


def _run(program: str, *words: str) -> tuple[Lines, int]:
    if program == "mkdir":
        Path(*words).mkdir()
        return [], 0
    if program == "ls":
        return sorted(path.name for path in Path(*words).iterdir()), 0
    assert program == "npuscope", program
    screen = io.StringIO()
    with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen), _at_no_time():
        code = main(words)
    return [line.rstrip() for line in screen.getvalue().splitlines()], code
