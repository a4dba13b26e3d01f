"""The program from scheduled stages: epochs, buffers with lifetimes, calls. Not placed yet."""

from __future__ import annotations

from itertools import count, groupby

from npuscope.compiler.emit.buffers import BufferTable, EpochBuilder
from npuscope.compiler.emit.stages import emit_stage, store, store_copy
from npuscope.compiler.schedule import StageGroup, root
from npuscope.compiler.stages import (
    CallStage,
    ConvStage,
    CopyStage,
    Lowered,
    PieceOrder,
)
from npuscope.graph.model import Graph
from npuscope.machine.model import Machine
from npuscope.program.model import Buffer, Call, Epoch, EpochKind, Group, Program
from npuscope.structs import replace


def emit_program(
    graph: Graph, lowered: Lowered, groups: list[StageGroup], machine: Machine
) -> Program:
    """One epoch per group, numbered from 1; buffers live from their first to their last epoch."""
    buffers = BufferTable(lowered, graph, _frame_by_frame(groups))
    for value in lowered.inputs:
        buffers.activation(value, 0)
    epochs = _leading_epochs(graph, groups)
    # Value name -> stages that read it, or a view of it; the outside world reads outputs.
    readers: dict[str, set[str]] = {root(lowered, value).name: {""} for value in lowered.outputs}
    for stage in lowered.stages:
        for value in stage.inputs:
            origin = root(lowered, value).name
            # A view cannot be streamed: whoever reads one needs the bytes in memory.
            readers.setdefault(origin, set()).add(stage.name if origin == value.name else "")
    for group in groups:
        # Values of the group that must be written to memory.
        inside = {stage.name for stage in group.stages}
        results = [stage.output.name for stage in group.stages]
        # What is written into a window of another value is there for that value's readers.
        leaving = {
            name for name in results if name in lowered.views or readers.get(name, set()) - inside
        }
        epochs.append(_emit_epoch(group, len(epochs) + 1, leaving, buffers, machine))
    for value in lowered.outputs:
        buffers.activation(value, len(epochs))
    outputs_by_tensor = {value.tensor: value.name for value in lowered.outputs}
    outputs = tuple(outputs_by_tensor[name] for name in graph.outputs)
    return Program(
        name=graph.name,
        machine=machine.name,
        generation=machine.generation.name,
        epoch_controller=machine.epoch_controller,
        pools=(),
        buffers=tuple(_in_blocks(buffers.finished(), lowered)),
        epochs=tuple(_blobs(epochs) if machine.epoch_controller else epochs),
        inputs=tuple(value.name for value in lowered.inputs),
        outputs=outputs,
        constants=buffers.constants,
        notes=tuple(graph.notes),
    )


def _frame_by_frame(groups: list[StageGroup]) -> dict[str, int]:
    """16-bit sums of the pieces of a kernel that are read in the frames in which they were made lie
    one frame behind the other [code: the stem of OSNet, 3.0; time of SqueezeNext and SqueezeNet].

    Not those of a kernel that is cut both ways, whose pieces want other tiles each [assumed: DLA
    and XiNet wait for external RAM longer than frames in one piece would].
    """
    written_frames: dict[str, int] = {}
    read: dict[str, set[int]] = {}
    for group in groups:
        for stage in group.stages:
            frame = group.frames[stage.output.name]
            if isinstance(stage, ConvStage) and stage.order is PieceOrder.FEW:
                written_frames[stage.output.name] = frame
            for value in stage.inputs:
                if value.name in written_frames and value.name not in group.frames:
                    read.setdefault(value.name, set()).add(frame)
    return {name: frame for name, frame in written_frames.items() if read.get(name) == {frame}}


def _leading_epochs(graph: Graph, groups: list[StageGroup]) -> list[Epoch]:
    """A channel-last image input leaves an empty first epoch: its layout change does nothing."""
    images = any(len(graph.tensor(name).shape) == 4 for name in graph.inputs)
    first = groups[0].stages[0] if groups else None
    relayout = isinstance(first, CopyStage) and first.inputs[0].name not in graph.inputs
    if images and not relayout:
        return [Epoch(1, 1, EpochKind.EMPTY, ("Transpose",))]
    return []


def _emit_epoch(
    group: StageGroup, number: int, leaving: set[str], buffers: BufferTable, machine: Machine
) -> Epoch:
    stages = group.stages
    first = stages[0]
    call = _call(first, number, buffers) if isinstance(first, CallStage) else None
    groups = () if call else (_emit_group(group, number, leaving, buffers, machine),)
    kind = EpochKind.HW
    if isinstance(first, CallStage):
        kind = EpochKind.HYBRID if first.hybrid else EpochKind.SW
    return Epoch(
        number,
        number,
        kind,
        tuple(stage.operator for stage in stages),
        tuple(dict.fromkeys(name for stage in stages for name in stage.origin)),
        groups=groups,
        call=call,
        trail=tuple(refused for stage in stages for refused in stage.trail),
    )


def _emit_group(
    group: StageGroup, number: int, leaving: set[str], buffers: BufferTable, machine: Machine
) -> Group:
    builder = EpochBuilder(machine, buffers, number)
    for stage in group.stages:
        frame = group.frames[stage.output.name]
        source = emit_stage(builder, stage, frame)
        builder.sources[stage.output.name] = source
        if stage.output.name not in leaving:
            continue
        if isinstance(stage, CopyStage):
            store_copy(builder, source, stage)
        else:
            store(builder, source, stage.output, frame)
    return builder.group()


def _call(stage: CallStage, number: int, buffers: BufferTable) -> Call:
    """The kernel's arguments as buffers: activations by value, constants as parameters."""
    values = iter(stage.inputs)
    names = []
    for name in stage.call.inputs:
        tensor = buffers.graph.tensors.get(name)
        if not name:
            names.append("")
        elif tensor is not None and tensor.data is not None:
            names.append(buffers.parameter(f"{name}.constant", tensor.data, tensor).name)
        else:
            value = next(values)
            buffers.activation(value, number)
            names.append(value.name)
    buffers.activation(stage.output, number)
    return replace(stage.call, inputs=tuple(names), outputs=(stage.output.name,))


def _in_blocks(table: dict[str, Buffer], lowered: Lowered) -> list[Buffer]:
    """Parts of one concatenation are side by side; a buffer belongs to one block at most."""
    inputs = {value.name for value in lowered.inputs}
    for parts in lowered.blocks:
        names = [part for part in parts if part in table and part not in lowered.views]
        free = all(not table[name].block and name not in inputs for name in names)
        if free and len(set(names)) == len(parts):
            for name in names:
                table[name] = replace(table[name], block=names[0])
    return list(table.values())


def _blobs(epochs: list[Epoch]) -> list[Epoch]:
    """Neighbouring NPU epochs form one epoch-controller blob."""
    numbered: list[Epoch] = []
    blob = 0
    for kind, run in groupby(epochs, key=lambda epoch: epoch.kind):
        if kind is EpochKind.HW:
            blob += 1
            numbered.extend(replace(epoch, blob=blob) for epoch in run)
        else:
            numbered.extend(run)
    return numbered


def one_blob_an_epoch(program: Program) -> Program:
    """Every hardware epoch as a blob of its own, so that each can be measured."""
    numbers = count(1)
    epochs = (
        replace(epoch, blob=next(numbers)) if epoch.blob is not None else epoch
        for epoch in program.epochs
    )
    return replace(program, epochs=tuple(epochs))
