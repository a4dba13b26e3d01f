"""The program from scheduled stages: epochs, buffers with lifetimes, calls. Not placed yet."""

from __future__ import annotations

from itertools import count, groupby

from npuscope.compiler.emit.buffers import BufferTable, EpochBuilder
from npuscope.compiler.emit.stages import emit_stage, store, store_copy
from npuscope.compiler.groups import StageGroup
from npuscope.compiler.joining import root
from npuscope.compiler.stages import (
    CallStage,
    ConvStage,
    CopyStage,
    Lowered,
    PieceOrder,
    PoolStage,
    Stage,
    Value,
)
from npuscope.graph.model import Graph, Op
from npuscope.machine.model import Machine
from npuscope.ops.table import having
from npuscope.ops.traits import Trait
from npuscope.program.model import Buffer, Call, Epoch, EpochKind, Group, Program
from npuscope.program.unit_words import DEEP_BYTES
from npuscope.structs import replace


def emit_program(
    graph: Graph, lowered: Lowered, groups: list[StageGroup], machine: Machine
) -> Program:
    """One epoch per group, numbered from 1; buffers live from their first to their last epoch."""
    buffers = BufferTable(lowered, graph, _frame_by_frame(groups, lowered))
    for value in lowered.inputs:
        buffers.activation(value, 0)
    epochs = _leading_epochs(graph, lowered, groups)
    consumers = graph.consumers()
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
        if _is_reshaped(graph, group, consumers):
            epochs.append(_idle(len(epochs) + 1, "Reshape"))
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


def _frame_by_frame(groups: list[StageGroup], lowered: Lowered) -> dict[str, int]:
    """Values that all readers take in the frames in which they were made lie one frame behind the
    other [code: 1,346 of 1,377 buffers in 14 builds of 2.1 to 4.0, five repositories], all others
    pixel by pixel [1,120 of 1,223, the rest are copies]. By name, with the channels of a frame.

    Not sums of a kernel that is cut both ways, whose pieces want other tiles each [assumed: DLA
    and XiNet wait for external RAM longer than frames in one piece would].
    """
    kept = {value.name for value in (*lowered.inputs, *lowered.outputs)}
    kept |= lowered.views.keys() | lowered.views.of.keys()
    kept |= {name for parts in lowered.blocks for name in parts}
    made: dict[str, int] = {}
    read: dict[str, set[int]] = {}
    for group in groups:
        for stage in group.stages:
            frame = group.frames.get(stage.output.name, 0)
            if stage.output.name not in kept and _is_made_in_frames(stage):
                made[stage.output.name] = frame
            for value in stage.inputs:
                if value.name not in group.makers:
                    read.setdefault(value.name, set()).add(_read_frame(stage, value, frame))
    return {name: frame for name, frame in made.items() if read.get(name) == {frame}}


def _is_made_in_frames(stage: Stage) -> bool:
    if isinstance(stage, CallStage | CopyStage):
        return False
    output = stage.output
    if output.nbits == _SUM_BITS:
        return isinstance(stage, ConvStage) and stage.order is PieceOrder.FEW
    return not (output.batch or output.pitch or output.first or output.skip)


def _read_frame(stage: Stage, value: Value, frame: int) -> int:
    """Channels of a frame that the stage reads from memory; 0 where it takes them otherwise."""
    if isinstance(stage, ConvStage):
        whole_words = not stage.tiling.deep or stage.tiling.depth % DEEP_BYTES == 0
        return stage.tiling.depth if whole_words else 0
    if isinstance(stage, CallStage | CopyStage):
        return 0
    return frame if isinstance(stage, PoolStage) or value.shape == stage.output.shape else 0


_SUM_BITS = 16


def _idle(number: int, operator: str) -> Epoch:
    """Of an operator that moves no byte. It joins the epoch that makes its operand on the NPU; at
    the start of a network and behind a call it has an epoch of its own, which nothing joins [code:
    BlazeFace and a YOLO of 2.0, CenterFace of 2.1 and 2.2, MoveNet, a time-series network of 4.0,
    and the published question about 257 channels]."""
    return Epoch(number, number, EpochKind.EMPTY, (operator,))


def _leading_epochs(graph: Graph, lowered: Lowered, groups: list[StageGroup]) -> list[Epoch]:
    """A channel-last image, or features along one axis that are read as an image, leave an empty
    first epoch: their layout change does nothing."""
    viewed = {value.tensor for value in lowered.views.values()}
    ranks = {name: len(graph.tensor(name).shape) for name in graph.inputs}
    images = any(rank == 4 or (rank == 3 and name in viewed) for name, rank in ranks.items())
    first = groups[0].stages[0] if groups else None
    relayout = isinstance(first, CopyStage) and first.inputs[0].name not in graph.inputs
    return [_idle(1, "Transpose")] if images and not relayout else []


def _is_reshaped(graph: Graph, group: StageGroup, consumers: dict[str, list[Op]]) -> bool:
    """A call's result that an operator without work turns into its shape in the file: a channel-
    last image that leaves the network, or what a layer along one axis gives to other ops."""
    stage = group.stages[0]
    if not isinstance(stage, CallStage) or not stage.output.tensor:
        return False
    tensor = graph.tensor(stage.output.tensor)
    if tensor.source_shape is None:
        return tensor.name in graph.outputs and len(tensor.shape) == 4
    return len(tensor.source_shape) == 3 and _leaves_layers(graph, tensor.name, consumers)


def _leaves_layers(graph: Graph, name: str, consumers: dict[str, list[Op]]) -> bool:
    """Some reader, behind views, is no layer: between two layers the views cancel each other."""
    if name in graph.outputs:
        return True
    for op in consumers[name]:
        if op.kind in _VIEWS:
            if _leaves_layers(graph, op.outputs[0], consumers):
                return True
        elif op.kind not in _LAYERS:
            return True
    return False


_VIEWS, _LAYERS = having(Trait.VIEW), having(Trait.LAYER)


def _emit_epoch(
    group: StageGroup, number: int, leaving: set[str], buffers: BufferTable, machine: Machine
) -> Epoch:
    stages = group.stages
    first = stages[0]
    call, groups, kind = None, tuple[Group, ...](), EpochKind.HW
    if isinstance(first, CallStage):
        call = _call(first, number, buffers)
        kind = EpochKind.HYBRID if first.hybrid else EpochKind.SW
    else:
        builder = EpochBuilder(machine, buffers, number)
        for stage in stages:
            frame = group.frames[stage.output.name]
            source = emit_stage(builder, stage, frame)
            builder.sources[stage.output.name] = source
            if stage.output.name not in leaving:
                continue
            if isinstance(stage, CopyStage):
                store_copy(builder, source, stage)
            else:
                store(builder, source, stage.output, frame)
        groups = (builder.group(),)
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
