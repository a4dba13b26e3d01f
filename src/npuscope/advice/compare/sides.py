"""What may be compared: models, builds, saved profiles, results in JSON, logs of a board."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from npuscope.advice.compare.model import Side
from npuscope.advice.compare.result_file import (
    PROFILE_SCHEMAS,
    read_result_profile,
    result_schema,
)
from npuscope.advice.reasons import with_model
from npuscope.building import Options, Source, build
from npuscope.graph.model import Graph
from npuscope.machine.model import Machine
from npuscope.profile.model import EpochProfile, Profile
from npuscope.profile.run import estimate
from npuscope.profile.saved import is_saved_profile, read_profile
from npuscope.program.model import Epoch, Program
from npuscope.text import safe_terminal

_LOG = "log:"


def open_sides(a: Source, b: Source, a_options: Options, b_options: Options) -> tuple[Side, Side]:
    """A log tells epochs by number only; the other side's program says what they are."""
    if is_log(a) and not is_log(b):
        other = open_side(b, b_options)
        return open_log(a, a_options, other), other
    side = open_side(a, a_options)
    return side, open_log(b, b_options, side) if is_log(b) else open_side(b, b_options)


def open_side(source: Source, options: Options) -> Side:
    """A run of the source: read where it was kept, else predicted."""
    if isinstance(source, Graph):
        return _predicted(source, source.name, options)
    name = safe_terminal(Path(source).name or str(source))
    if is_log(source):
        return open_log(source, options)
    if is_saved_profile(source):
        return Side(name, read_profile(source))
    if result_schema(source) in PROFILE_SCHEMAS:
        return Side(name, read_result_profile(source))
    return _predicted(source, name, options)


def _predicted(source: Source, name: str, options: Options) -> Side:
    made = build(source, options)
    profile = estimate(made.program, made.machine, made.graph)
    # Reasons come from the model; they are no part of what was timed.
    program = with_model(made, source, None, options).program
    return Side(name, profile, program, made.machine)


def is_log(source: Source) -> bool:
    """`log:FILE`, or a file that is called a log."""
    if isinstance(source, Graph):
        return False
    return str(source).startswith(_LOG) or Path(source).suffix.lower() == ".log"


def open_log(source: Source, options: Options, other: Side | None = None) -> Side:
    """With the program of the other side, if the blocks of the log are the epochs of it."""
    path = str(source).removeprefix(_LOG)
    name = safe_terminal(Path(path).name)
    bare = _measured(path, None, None)
    if other is None or other.program is None:
        return Side(name, bare)
    if not _fits(bare, other.program):
        note = "the log is of another program: its blocks are not the epochs of the other side"
        return Side(name, replace(bare, notes=(*bare.notes, note)))
    return Side(name, _measured(path, other.program, other.machine), other.program, other.machine)


def _measured(path: str, program: Program | None, machine: Machine | None) -> Profile:
    from npuscope.board.descriptor import parse_descriptor
    from npuscope.profile.measure import Subject, measure, opened

    subject = Subject(program, machine)
    with opened(parse_descriptor(f"{_LOG}{path}"), subject) as device:
        return measure(device, subject).profile


def _fits(log: Profile, program: Program) -> bool:
    """Every epoch lies in one block, of its own kind; a block of several is one blob."""
    blocks = [_covered(block, program) for block in log.epochs]
    held = [epoch.number for epochs in blocks for epoch in epochs]
    kinds = all(e.kind is b.kind for b, run in zip(log.epochs, blocks, strict=True) for e in run)
    blobs = all(len({_started(epoch) for epoch in epochs}) < 2 for epochs in blocks)
    return kinds and blobs and held == [epoch.number for epoch in program.executed]


def _covered(block: EpochProfile, program: Program) -> list[Epoch]:
    return [e for e in program.executed if block.first <= e.number and e.last_number <= block.last]


def _started(epoch: Epoch) -> tuple[str, int]:
    """What is started at once: a blob, or an epoch by itself."""
    return ("epoch", epoch.number) if epoch.blob is None else ("blob", epoch.blob)
