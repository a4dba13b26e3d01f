"""Inputs and outputs: doorbells that cores wait for, semaphores that tell the host to go on."""

from __future__ import annotations

from dataclasses import replace

from npuscope.manycore.compiler.boxes import full
from npuscope.manycore.compiler.context import Context
from npuscope.manycore.compiler.draft import Access, Role, Step
from npuscope.manycore.compiler.kinds import COPY_OUT, INPUT_SEMAPHORE, OUTPUT_SEMAPHORE, Group
from npuscope.manycore.compiler.operands import operand
from npuscope.manycore.compiler.ports import (
    INPUT_PORT,
    INPUT_SEMAPHORE_NUMBER,
    OUTPUT_PORT,
    OUTPUT_SEMAPHORE_NUMBER,
)


def add_outputs(context: Context) -> None:
    """Every core writes its parts to DDR once the host has room, then tells the host."""
    draft = context.draft
    draft.next_unit()
    copies: dict[int, list[int]] = {}
    for name in context.graph.outputs:
        for core, reads in _parts(context, name).items():
            wait = None if core in copies else OUTPUT_PORT
            copies.setdefault(core, []).append(_copy_out(context, name, core, reads, wait))
    for core, steps in copies.items():
        step = _semaphore(core, OUTPUT_SEMAPHORE, OUTPUT_SEMAPHORE_NUMBER)
        draft.add_work(replace(step, after=tuple(steps)))


def _parts(context: Context, name: str) -> dict[int, tuple[Access, ...]]:
    value = context.draft.values.get(name)
    if value is None:  # an input or constant handed through
        box = full(context.graph.tensors[name].shape)
        return operand(context, name, {0: box}, (f"output:{name}",))
    return {core: (context.whole(buffer),) for core, (_, buffer) in value.pieces.items()}


def _copy_out(
    context: Context, name: str, core: int, reads: tuple[Access, ...], wait: int | None
) -> int:
    value = context.draft.values.get(name)
    box = value.pieces[core][0] if value else full(context.graph.tensors[name].shape)
    writes = (Access(context.in_ddr(name), context.bytes_of(name, box)),)
    step = context.move(core, COPY_OUT, (name, box), reads, writes, (f"output:{name}",))
    return context.draft.add_work(replace(step, port_wait=wait))


def mark_inputs(context: Context) -> None:
    """The first load of an input waits for the doorbell; behind the last the host may go on."""
    draft = context.draft
    loads: dict[int, list[int]] = {}
    last_unit: dict[int, int] = {}
    for number, unit in enumerate(draft.units):
        for step in filter(lambda step: _loads_input(context, step), unit.loads):
            core = draft.steps[step].core
            loads.setdefault(core, []).append(step)
            last_unit[core] = number
    for core, steps in loads.items():
        draft.steps[steps[0]] = replace(draft.steps[steps[0]], port_wait=INPUT_PORT)
        told = _semaphore(core, INPUT_SEMAPHORE, INPUT_SEMAPHORE_NUMBER)
        draft.steps.append(replace(told, after=tuple(steps)))
        draft.units[last_unit[core]].work.insert(0, len(draft.steps) - 1)


def _loads_input(context: Context, step: int) -> bool:
    written = context.draft.steps[step].writes
    return any(context.draft.buffers[a.buffer].role is Role.INPUT for a in written)


def _semaphore(core: int, kind: str, number: int) -> Step:
    return Step(core, Group.DMA, kind, kind, (), (), 0, (), (), (), semaphore=number)
