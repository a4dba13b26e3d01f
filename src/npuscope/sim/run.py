"""Executes a Program with the hardware's arithmetic: inputs in, outputs out, epoch by epoch."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping

import numpy as np
from msgspec import Struct

from npuscope.errors import NpuscopeError, TargetError, UsageError
from npuscope.program.calls import element_type
from npuscope.program.model import Epoch, EpochKind, Program
from npuscope.program.units import Streng
from npuscope.sim.arithmetic.convacc import ClampTally
from npuscope.sim.arithmetic.whole import run_group
from npuscope.sim.memory import Memory
from npuscope.sim.program_work import run_call

Values = Mapping[str, np.ndarray]
Observer = Callable[[Epoch, Memory], None]


class Execution(Struct, frozen=True):
    """What one inference gave. Arrays are in logical order (N, H, W, C).

    `saturated_share`: by epoch number, the share of 16-bit sums, as units hand them on, that
    the clamp changed; epochs without any are absent. `buffers`: values of the buffers asked
    for, as their last writer left them.
    """

    outputs: dict[str, np.ndarray]
    saturated_share: dict[int, float]
    buffers: dict[str, np.ndarray]


def execute(
    program: Program,
    inputs: Values,
    observe: Observer | None = None,
    force: Values | None = None,
    keep: Iterable[str] = (),
) -> Execution:
    """Run one inference.

    `observe` is called after each epoch. `force` gives reference values by buffer name, put
    into an epoch's inputs before it runs, but for its `own_inputs`. `keep` names buffers to return.
    """
    _check_executable(program)
    memory = Memory(program)
    for name in program.inputs:
        if name not in inputs:
            raise UsageError(
                f"input '{name}' is missing", hint=f"given: {', '.join(inputs) or '-'}"
            )
        values, buffer = np.asarray(inputs[name]), memory.buffer(name)
        if values.shape != buffer.shape:
            raise UsageError(f"input '{name}' has shape {values.shape}, expected {buffer.shape}")
        stored = values.astype(element_type(buffer))
        if not buffer.is_float and not np.array_equal(stored, values):
            raise UsageError(f"input '{name}' has values that do not fit {stored.dtype}")
        memory.write(name, stored)
    names = {memory.buffer(name).name for name in keep}
    contents: dict[str, np.ndarray] = {}
    shares: dict[int, float] = {}
    own = own_inputs(program, force) if force else {}
    halves = {name: np.zeros(0) for names in own.values() for name in names}
    for epoch in program.executed:
        if force:
            mine = {name: halves[name] for name in own.get(epoch.number, ())}
            _force(memory, epoch, force, mine)
        tally = run_epoch(epoch, memory)
        halves.update({name: memory.read(name) for name in written(epoch) if name in halves})
        if tally.outputs:
            shares[epoch.number] = tally.share
        contents.update({name: memory.read(name) for name in written(epoch) if name in names})
        if observe:
            observe(epoch, memory)
    outputs = {name: memory.read(name) for name in program.outputs}
    return Execution(outputs, shares, contents)


def run_epoch(epoch: Epoch, memory: Memory) -> ClampTally:
    """One epoch: its software kernel, or its groups of units in order."""
    tally = ClampTally()
    try:
        _run_parts(epoch, memory, tally)
    except NpuscopeError as error:
        where = f"{epoch.name}, {error.where}" if error.where else epoch.name
        raise type(error)(error.message, where=where, hint=error.hint) from error
    except _BAD_GEOMETRY as error:
        raise TargetError(
            f"the unit configurations do not match: {error}", where=epoch.name
        ) from error
    return tally


# What NumPy raises when registers of a foreign program contradict each other.
_BAD_GEOMETRY = (ValueError, LookupError, ArithmeticError, MemoryError)


def _run_parts(epoch: Epoch, memory: Memory, tally: ClampTally) -> None:
    if epoch.call is not None:
        # A hybrid epoch's groups only move what the call's kernel already defines.
        run_call(epoch.call, memory)
        return
    for group in epoch.groups or ():
        run_group(group, memory, tally)


def reads(epoch: Epoch) -> tuple[str, ...]:
    """Buffers an epoch reads: through engines, or as arguments of its kernel."""
    return tuple(dict.fromkeys((*_engine_buffers(epoch, 0), *_call_names(epoch, "inputs"))))


def written(epoch: Epoch) -> tuple[str, ...]:
    """Buffers an epoch writes."""
    return tuple(dict.fromkeys((*_engine_buffers(epoch, 1), *_call_names(epoch, "outputs"))))


def own_inputs(program: Program, references: Container[str]) -> dict[int, set[str]]:
    """By epoch, the buffers that it reads as the program made them, although there are references.

    An epoch that stores a value may go on with it, and store half of the next result. The other
    half, which a later epoch computes, has to start from the same value.
    """
    buffers = program.buffer_map()
    made_from: dict[str, set[str]] = {}  # results without a reference
    own: dict[int, set[str]] = {}
    for epoch in program.executed:
        for flow in _flows(epoch):
            behind = {name for source in flow.inputs for name in made_from.get(source, ())}
            names = {n for name in flow.inputs for n in (name, buffers[name].view_of)}
            if behind & names:
                own.setdefault(epoch.number, set()).update(behind & names)
            if flow.output not in references:
                passed = {name for name in flow.passed if name in references}
                made_from.setdefault(flow.output, set()).update(behind | passed)
    return own


class _Flow(Struct, frozen=True):
    """A buffer that an epoch writes, what it is computed from, and what is stored on the way."""

    output: str
    inputs: set[str]
    passed: set[str] = set()


def _flows(epoch: Epoch) -> Iterator[_Flow]:
    if epoch.call is not None:
        for name in epoch.call.outputs:
            yield _Flow(name, set(epoch.call.inputs))
        return
    for group in epoch.groups or ():
        sources: dict[tuple[str, int], set[tuple[str, int]]] = {}
        for link in group.links:
            place = (link.destination.unit, link.destination.id)
            sources.setdefault(place, set()).add((link.source.unit, link.source.id))
        engines = {("STRENG", u.id): u for u in group.units if isinstance(u, Streng)}
        results = {place: u.addr_base.buffer for place, u in engines.items() if u.dir == 1}
        for place, name in results.items():
            above, waiting = set[tuple[str, int]](), [place]
            while waiting:
                fresh = sources.get(waiting.pop(), set()) - above
                above |= fresh
                waiting += fresh
            inputs = {engines[unit].addr_base.buffer for unit in above if unit in engines}
            yield _Flow(
                name, inputs, {n for p, n in results.items() if sources.get(p, set()) & above}
            )


def _engine_buffers(epoch: Epoch, direction: int) -> Iterator[str]:
    for unit in epoch.units:
        if isinstance(unit, Streng) and unit.dir == direction:
            yield unit.addr_base.buffer


def _call_names(epoch: Epoch, side: str) -> tuple[str, ...]:
    if epoch.call is None:
        return ()
    return epoch.call.inputs if side == "inputs" else epoch.call.outputs


def _check_executable(program: Program) -> None:
    # Without its weights a network computes something, and nothing tells that it is wrong.
    missing = program.missing_weights()
    if missing:
        names = " and ".join(f"*.{pool.file_name or pool.name}.raw" for pool in missing)
        raise TargetError(
            f"cannot be executed: the weights in {' and '.join(p.name for p in missing)} "
            "are missing",
            where=f"program '{program.name}'",
            hint=f"put the image that the compiler wrote ({names}; .bin, .hex, .c or the "
            "firmware's .elf do as well) beside network.c; times need no weights",
        )
    for epoch in program.executed:
        if epoch.call is not None:
            continue
        if epoch.groups is None:
            raise TargetError(
                f"program '{program.name}' cannot be executed: no unit registers",
                where=epoch.name,
                hint="read the compiler's network.c, or compile the model here",
            )
        if epoch.kind is not EpochKind.HW and not epoch.groups:
            raise TargetError("not executed: the software kernel is not known", where=epoch.name)


def _force(memory: Memory, epoch: Epoch, values: Values, own: Values) -> None:
    """What an epoch also writes is left: it reads what lies there before, or makes it itself."""
    results = set(written(epoch))
    for name in reads(epoch):
        root = memory.buffer(name).view_of
        source = root if root in own or name not in values else name
        if source in values and not results & {name, root}:
            memory.write(source, own.get(source, values[source]))
