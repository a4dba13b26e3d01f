"""Another programme than the one that is looked at: builds, generations, operators."""

from __future__ import annotations

from collections.abc import Iterator

from npuscope.diagnosis.causes.registry import FaultPlace, cause
from npuscope.diagnosis.fault import BoardFault, Step
from npuscope.diagnosis.scene import BoardScene
from npuscope.ops.table import onnx_names
from npuscope.ops.traits import Trait
from npuscope.program.model import Epoch, Program, images
from npuscope.program.units import Ref
from npuscope.sim.memory import Memory
from npuscope.sim.run import written
from npuscope.structs import replace

_MOST_OPS, _USUAL_OPS = 24, 8


@cause(
    "other-network",
    FaultPlace.PROGRAM,
    "clean the D-cache and invalidate the I-cache over a model that replaces another one; check "
    "which network the firmware was built with",
    often=4,
)
def other_network(scene: BoardScene) -> Iterator[BoardFault]:
    """Another network runs: stale firmware, or a cache that kept the model before."""
    other = scene.other
    if other is None or not _same_border(scene.program, other):
        return
    if other.epochs != scene.program.epochs:  # else only the weights are another build's
        yield BoardFault(f"{other.model_file or other.name} runs instead", program=other)


@cause(
    "stale-programme",
    FaultPlace.PROGRAM,
    "build network.c, its blobs and the firmware from one and the same generation",
    often=2,
)
def stale_programme(scene: BoardScene) -> Iterator[BoardFault]:
    """The programme of another build (an old epoch-controller blob) runs on these weights."""
    other = scene.other
    if other is None or not _same_border(scene.program, other):
        return
    ours = images(scene.program)
    constants = {}
    buffers = other.buffer_map()
    for name, data in other.constants.items():
        buffer = buffers[name]
        cut = scene.images.get(buffer.pool)
        if cut is None or buffer.pool not in ours:
            return
        part = cut[buffer.offset : buffer.offset + data.nbytes]
        if part.size < data.nbytes:
            return
        constants[name] = part
    words = f"the programme of {other.model_file or other.name} on these weights"
    yield BoardFault(words, program=replace(other, constants=constants))


def _same_border(ours: Program, theirs: Program) -> bool:
    """Both have the same inputs and outputs by name and size."""
    a, b = ours.buffer_map(), theirs.buffer_map()
    pairs = [*zip(ours.inputs, theirs.inputs, strict=False)]
    pairs += zip(ours.outputs, theirs.outputs, strict=False)
    return (
        ours.inputs == theirs.inputs
        and ours.outputs == theirs.outputs
        and all(a[x].size_bytes == b[y].size_bytes for x, y in pairs)
    )


@cause(
    "operator-defect",
    FaultPlace.PROGRAM,
    "write the op in another form (`npuscope fix` lists some), or equalise the scales of its "
    "operands; compare the tensor with `npuscope validate`",
    often=4,
)
def operator_defect(scene: BoardScene) -> Iterator[BoardFault]:
    """An operator is lowered wrongly by the vendor's compiler: it saturates or gives a constant."""
    # Sums of products are what every network is made of, and moved values are not computed.
    products, moves = onnx_names(Trait.PRODUCT), onnx_names(Trait.MOVES)
    suspects = [
        epoch
        for epoch in scene.program.executed
        if not products.intersection(epoch.operators) and set(epoch.operators) - moves
    ]
    for number, epoch in enumerate(suspects[:_MOST_OPS]):
        for value in (127, 0x80):
            words = f"{', '.join(epoch.operators)} in {epoch.name} gives {value} only"
            step = _constant(epoch, value)
            yield BoardFault(words, step=step, deadens=True, rare=number >= _USUAL_OPS)


def _constant(epoch: Epoch, value: int) -> Step:
    number = epoch.number

    def step(running: Epoch, memory: Memory) -> None:
        if running.number == number:
            for name in written(running):
                buffer = memory.buffer(name)
                memory.span(memory.address(Ref(name)), buffer.size_bytes)[:] = value

    return step
