"""Emulated runs on an idle and on a busy host: are they equal to the last counter?

    python benchmarks/emulated_repeat.py ../shared/data/models --only kws --only osnet

Each model of the folder is compiled and packaged once, without the epoch controller: every epoch
then has counters of its own. `npuscope run --json` runs the image, first with nothing else to do
and then beside processes that only count, and the two answers are compared as whole texts. Seconds
are the host's. The exit code is 1 when two answers differ or a run fails.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import npuscope
from npuscope import building
from npuscope.boards.emulated.firmware import CPU
from npuscope.loadable.codes import PackageOptions
from npuscope.report.build_files import write_network

NPUSCOPE = "import sys; from npuscope.cli.main import main; sys.exit(main(sys.argv[1:]))"
# The loops end with this process, also when it is killed: their input closes.
BUSY = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
while True:
    pass
"""
OPTIONS: building.Options = {"relocatable": True, "epoch_controller": False}
HEAD = ("model", "numbers", "idle s", "busy s", "equal")


@dataclass(frozen=True, slots=True)
class Answer:
    """What one run printed, and the time that the host took for it."""

    text: str
    host_s: float

    @property
    def numbers(self) -> int:
        return _numbers(json.loads(self.text))


@dataclass(frozen=True, slots=True)
class Row:
    model: str
    idle: Answer
    busy: Answer

    @property
    def is_equal(self) -> bool:
        return self.idle.text == self.busy.text

    @property
    def cells(self) -> tuple[str, ...]:
        times = (f"{answer.host_s:.1f}" for answer in (self.idle, self.busy))
        if not self.idle.text:
            return (self.model, "-", *times, "fails")
        return (self.model, str(self.idle.numbers), *times, "yes" if self.is_equal else "NO")


def main(words: Sequence[str] | None = None) -> int:
    options = _arguments(words)
    different = 0
    print(_line(HEAD))
    for model in _models(options.folder, options.only):
        row = compared(model, options.loops)
        different += not (row.is_equal and row.idle.text)
        print(_line(row.cells), flush=True)
    return 1 if different else 0


def compared(model: Path, loops: int) -> Row:
    with tempfile.TemporaryDirectory(prefix="npuscope-repeat-") as name:
        image = _packaged(model, Path(name))
        idle = _run(image)
        with _busy(loops):
            busy = _run(image)
    return Row(model.stem, idle, busy)


def _packaged(model: Path, folder: Path) -> Path:
    write_network(building.build(model, OPTIONS), folder / "built")
    npuscope.package(folder / "built", folder / "image", PackageOptions(cpu=CPU))
    (image,) = (folder / "image").glob("*_rel.bin")
    return image


def _run(image: Path) -> Answer:
    begin = time.perf_counter()
    command = [sys.executable, "-c", NPUSCOPE, "run", image.name, "--json"]
    done = subprocess.run(command, cwd=image.parent, stdout=subprocess.PIPE, text=True, check=False)
    return Answer("" if done.returncode else done.stdout, time.perf_counter() - begin)


@contextmanager
def _busy(loops: int) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(loops):
            command = [sys.executable, "-c", BUSY]
            loop = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE))
            stack.callback(loop.kill)
        yield


def _numbers(value: object) -> int:
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return sum(map(_numbers, parts))
    return isinstance(value, int | float) and not isinstance(value, bool)


def _models(folder: Path, only: Sequence[str]) -> list[Path]:
    found = sorted([*folder.glob("*.tflite"), *folder.glob("*.onnx")])
    return [path for path in found if not only or any(part in path.name for part in only)]


def _line(cells: Sequence[str]) -> str:
    name, *rest = cells
    return f"{name:<44}" + "".join(f"{cell:>10}" for cell in rest)


def _arguments(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="TFLite and ONNX models")
    parser.add_argument(
        "--only", action="append", default=[], metavar="PART", help="models with this in the name"
    )
    parser.add_argument("--loops", type=int, default=4, help="busy processes beside the second run")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main())
