"""Cases of damaged files, run through the command line in this process and judged.

A case is a target and a seed, which fix the input file and the command that reads it. Bad input
may cost a sentence and an exit code, never a traceback, a Python warning, half a result, much time
or much memory: whatever breaks that is a finding, named by its cause so that the same bug counts
once.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import logging
import os
import resource
import shutil
import signal
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, NoReturn

import npuscope
from fuzz.mutate import Mutator, chained
from npuscope.cli import main as command_line
from npuscope.errors import NpuscopeError

ALLOWED_CODES = (0, 1, 2, 3, 4, 74)
FINISHED_CODES = (0, 1)  # the verb did its work; any other one leaves nothing behind
LIMIT_S = 20.0
WAITING = 6  # times the limit, for a process that waits for others
LIMIT_BYTES = 1 << 30
LONGEST_MESSAGE = 1500
_PARTLY = "no network.c was written"  # the other files of a build are
RESULT = "out"  # what commands write has a name that starts so
# The package itself: a clone, too, is a folder of this name.
_SOURCE = f"{Path(npuscope.__file__).parent}{os.sep}"

Lay = Callable[[Path, bytes], None]
Call = Callable[[Path, Path], object]


@dataclass(frozen=True, slots=True)
class Command:
    """A verb that reads the file, with {file}, {dir}, {out} and {side}; or a function instead."""

    words: str = ""
    weight: int = 10
    call: Call | None = None

    def argv(self, folder: Path, file: Path, side: Path) -> list[str]:
        places = {"file": file, "dir": folder, "out": folder / RESULT, "side": side}
        return [word.format(**places) for word in self.words.split()]


@dataclass(frozen=True, slots=True)
class Target:
    """A format: how whole files of it are made, damaged, laid down and read.

    `beside` is a folder of `side` whose files go around the file.
    """

    name: str
    seeds: Callable[[Path], Sequence[bytes]]
    mutators: tuple[Mutator, ...]
    commands: tuple[Command, ...]
    file: str = "file"
    beside: str = ""
    lay: Lay | None = None
    keeps: bool = False  # what could be read is written, although the code says what was lost


@dataclass(frozen=True, slots=True)
class Case:
    target: Target
    seed: int
    data: bytes
    command: Command


@dataclass(frozen=True, slots=True)
class Outcome:
    """`causes` are empty for a case that was read or refused as it should be."""

    target: str
    seed: int
    code: int
    seconds: float
    peak_bytes: int
    command: str
    causes: tuple[str, ...] = ()
    details: str = ""


class Overtime(BaseException):
    """The time of a case is over; nothing that catches `Exception` may stop it."""


@dataclass(slots=True)
class Witness:
    """What the command line does not tell: the error behind the sentence."""

    errors: list[NpuscopeError] = field(default_factory=list)
    crash: BaseException | None = None


class Workshop:
    """The side files that commands need, made once, and the whole files of each target."""

    def __init__(self, side: Path, prepare: Callable[[Path], None]) -> None:
        self.side = side
        self._seeds: dict[str, Sequence[bytes]] = {}
        if not side.exists():
            side.mkdir(parents=True)
            prepare(side)

    def seeds(self, target: Target) -> Sequence[bytes]:
        if target.name not in self._seeds:
            self._seeds[target.name] = target.seeds(self.side)
        return self._seeds[target.name]

    def case(self, target: Target, seed: int) -> Case:
        """The same for the same two, wherever and whenever it is made."""
        rng = Random(f"{target.name}:{seed}")
        whole = rng.choice(self.seeds(target))
        data = chained(target.mutators, whole, rng)
        weights = [command.weight for command in target.commands]
        return Case(target, seed, data, rng.choices(target.commands, weights)[0])

    def run(self, case: Case, limit_s: float = LIMIT_S) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
            folder = Path(name) / "case"
            file = lay_down(case, folder, self.side)
            return _judged(case, folder, file, self.side, limit_s)


def lay_down(case: Case, folder: Path, side: Path) -> Path:
    """The folder as the command finds it."""
    target = case.target
    if target.beside:
        shutil.copytree(side / target.beside, folder)
    else:
        folder.mkdir()
    file = folder / target.file
    if target.lay is not None:
        target.lay(folder, case.data)
    else:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(case.data)
    return file


def _judged(case: Case, folder: Path, file: Path, side: Path, limit_s: float) -> Outcome:
    before = _listing(folder)
    argv = case.command.argv(folder, file, side)
    witness = Witness()
    reset_peak()
    started = time.perf_counter()
    with _captured() as (out, err), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        code = _guarded(case, argv, folder, file, witness, limit_s)
    seconds = time.perf_counter() - started
    said = err.getvalue()
    causes = [
        *_crashes(code, witness),
        *_odd_sentences(code, witness, said),
        *_python_warnings(warned),
        *_left_behind(code, before, _listing(folder), case.target.keeps or _PARTLY in said),
        *_broken_json(code, argv, out.getvalue()),
    ]
    details = _details(witness, said) if causes else ""
    words = case.command.words or getattr(case.command.call, "__name__", "")
    unique = tuple(dict.fromkeys(causes))
    return Outcome(case.target.name, case.seed, code, seconds, peak_bytes(), words, unique, details)


def _guarded(
    case: Case, argv: list[str], folder: Path, file: Path, witness: Witness, limit_s: float
) -> int:
    with _witnessed(witness), _time_limit(limit_s):
        try:
            if case.command.call is None:
                return command_line.main(argv)
            return _called(case.command.call, folder, file, witness)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            witness.crash = error
            return -1


def _called(call: Call, folder: Path, file: Path, witness: Witness) -> int:
    try:
        call(folder, file)
    except NpuscopeError as error:
        witness.errors.append(error)
        return error.exit_code
    return 0


_parser = functools.cache(command_line.build_parser)


@contextlib.contextmanager
def _witnessed(witness: Witness) -> Iterator[None]:
    """Errors pass by here on their way to the sentence; parsers are built once, not each time."""
    report, build_parser = command_line._report, command_line.build_parser

    def noted(error: NpuscopeError, argv: list[str]) -> int:
        witness.errors.append(error)
        return report(error, argv)

    command_line._report, command_line.build_parser = noted, _parser
    try:
        yield
    finally:
        command_line._report, command_line.build_parser = report, build_parser


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Of this process's own time, so that a busy machine is no finding; waiting has a limit too.

    Needs the main thread; elsewhere whoever watches this process has to end it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier = [signal.signal(number, _over) for number in (signal.SIGALRM, signal.SIGPROF)]
    signal.setitimer(signal.ITIMER_REAL, seconds * WAITING)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        for timer in (signal.ITIMER_REAL, signal.ITIMER_PROF):
            signal.setitimer(timer, 0)
        for number, handler in zip((signal.SIGALRM, signal.SIGPROF), earlier, strict=True):
            signal.signal(number, handler)


def _over(*_: object) -> NoReturn:
    raise Overtime("the time of the case is over")


class _Text(io.TextIOWrapper):
    """A stream that encodes as a terminal does, so that what cannot be written fails here too."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8")

    def getvalue(self) -> str:
        self.flush()
        data: bytes = self.buffer.getvalue()  # type: ignore[attr-defined]
        return data.decode("utf-8", "replace")


@contextlib.contextmanager
def _captured() -> Iterator[tuple[_Text, _Text]]:
    out, err = _Text(), _Text()
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield out, err
    finally:
        root.handlers[:], root.level = handlers, level


# What is wrong with an outcome


def _crashes(code: int, witness: Witness) -> Iterator[str]:
    if witness.crash is not None:
        yield cause_of(witness.crash)
    elif code == 70 and witness.errors:
        yield cause_of(witness.errors[-1].__cause__ or witness.errors[-1])
    elif code not in ALLOWED_CODES:
        yield f"exit code {code}"
    for error in witness.errors:
        if code != 70 and any(isinstance(cause, MemoryError) for cause in _chain(error)):
            yield f"memory ran out at {_innermost(error.__traceback__)}"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _odd_sentences(code: int, witness: Witness, said: str) -> Iterator[str]:
    if "Traceback" in said:
        yield "a traceback on stderr"
    if code in FINISHED_CODES or code == 70 or not witness.errors:
        return
    error = witness.errors[-1]
    place = _innermost(error.__traceback__)
    if not error.message.strip():
        yield f"a message without words at {place}"
    elif len(str(error)) > LONGEST_MESSAGE:
        yield f"a message of more than {LONGEST_MESSAGE} characters at {place}"
    elif error.kind in ("file", "model", "target") and not error.where:
        yield f"a message without a place at {place}"


def _python_warnings(warned: Sequence[warnings.WarningMessage]) -> Iterator[str]:
    for one in warned:
        if _SOURCE in one.filename:
            yield f"{one.category.__name__} at {_short(one.filename)}:{one.lineno}"


def _left_behind(code: int, before: set[str], after: set[str], keeps: bool) -> Iterator[str]:
    """A result has the name that was asked for; a run that failed leaves none, or what it read."""
    new, whole = after - before, keeps or code in FINISHED_CODES
    half = {name for name in new if not whole or not name.startswith(RESULT)}
    if half and code != -1:
        yield "left behind: " + ", ".join(sorted(half)[:3])
    if before - after:
        yield "removed: " + ", ".join(sorted(before - after)[:3])


def _broken_json(code: int, argv: Sequence[str], text: str) -> Iterator[str]:
    if "--json" not in argv or code == -1:
        return
    try:
        json.loads(text, parse_constant=_no_constant)
    except ValueError as error:
        yield f"--json that is not JSON: {type(error).__name__}"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _details(witness: Witness, said: str) -> str:
    error = witness.crash or (witness.errors[-1] if witness.errors else None)
    if error is None:
        return said[-800:]
    lines = traceback.format_exception(error.__cause__ or error, limit=-4)
    return "".join(lines)[-1600:]


def cause_of(error: BaseException) -> str:
    """The exception and where in our code it came up: one bug, one cause."""
    return f"{type(error).__name__} at {_innermost(error.__traceback__)}"


def _innermost(trace: TracebackType | None) -> str:
    frames = [f for f in traceback.extract_tb(trace) if _SOURCE in f.filename]
    frames = [f for f in frames if not f.filename.endswith("cli/main.py")] or frames
    return f"{_short(frames[-1].filename)}:{frames[-1].name}" if frames else "outside of npuscope"


def _short(path: str) -> str:
    return path.rpartition(_SOURCE)[2]


def _listing(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


# Memory


def reset_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_bytes() -> int:
    """Of resident memory since the last reset, where the system counts that."""
    with contextlib.suppress(OSError, ValueError):
        return _status("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def limit_memory(more_bytes: int = LIMIT_BYTES) -> None:
    """Allow so much beyond what this process has now; past it, allocations fail."""
    with contextlib.suppress(OSError, ValueError):
        most = _status("VmSize") + more_bytes
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _status(key: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise ValueError(key)


# Smaller inputs of the same finding


def minimised(
    workshop: Workshop, case: Case, cause: str, most_runs: int = 400, most_s: float = 20.0
) -> Case:
    """Pieces taken away as long as the cause stays; halves first, single bytes last."""
    end = time.monotonic() + most_s
    runs, size = 0, max(1, len(case.data) // 2)
    while size >= 1 and runs < most_runs and time.monotonic() < end:
        at, shrunk = 0, False
        while at < len(case.data) and runs < most_runs and time.monotonic() < end:
            smaller = replace(case, data=case.data[:at] + case.data[at + size :])
            runs += 1
            if cause in workshop.run(smaller).causes:
                case, shrunk = smaller, True
            else:
                at += size
        size = size if shrunk and size > 1 and size <= len(case.data) // 2 else size // 2
    return case


def as_json(outcome: Outcome) -> dict[str, Any]:
    return {name: getattr(outcome, name) for name in Outcome.__slots__}
