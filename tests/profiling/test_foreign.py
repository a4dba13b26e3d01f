"""A program that knows nothing of the network's names, matched with it."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.nets import MACHINES, Net, compiled, sample
from differential.overlaps import without_overlaps
from npuscope.demo_network import demo_graph
from npuscope.errors import ModelError
from npuscope.graph.model import DType, Graph
from npuscope.profiling.foreign import (
    BufferPair,
    ForeignBridge,
    Lineage,
    _Learner,
    _reused,
    foreign_bridge,
)
from npuscope.profiling.same_network import input_pairs, refuse_other_network
from npuscope.profiling.validate import validate
from npuscope.profiling.verdict import Verdict
from npuscope.program.model import Program
from npuscope.program.units import Streng
from npuscope.sim.memory import Memory, to_stored
from npuscope.structs import replace


def anonymous(program: Program) -> Program:
    """As another compiler would have named things."""
    names = {buffer.name: f"b{n}" for n, buffer in enumerate(program.buffers)}

    def unit(value: object) -> object:
        changes = {
            name: replace(ref, buffer=names[ref.buffer])
            for name in ("addr_base", "A_vector", "B_vector", "C_vector")
            if (ref := getattr(value, name, None)) is not None
        }
        return replace(value, **changes)  # type: ignore[type-var]

    epochs = []
    for epoch in program.epochs:
        groups = tuple(replace(g, units=tuple(map(unit, g.units))) for g in epoch.groups or ())
        call = epoch.call and replace(
            epoch.call,
            inputs=tuple(names.get(name, "") for name in epoch.call.inputs),
            outputs=tuple(names[name] for name in epoch.call.outputs),
        )
        epochs.append(replace(epoch, groups=groups, call=call))
    buffers = [
        replace(b, name=names[b.name], tensor="", view_of=names.get(b.view_of, ""), block="")
        for b in program.buffers
    ]
    return replace(
        program,
        source="network.c",
        buffers=tuple(buffers),
        epochs=tuple(epochs),
        inputs=tuple(names[name] for name in program.inputs),
        outputs=tuple(names[name] for name in program.outputs),
        constants={names[name]: data for name, data in program.constants.items()},
    )


@pytest.mark.parametrize("generation", ["2.2", "4.0"])
def test_the_same_verdict_as_with_names(generation: str) -> None:
    graph, machine = demo_graph(), MACHINES[generation]
    program = compiled(graph, generation)
    known = validate(program, graph, machine, seeds=2)
    found = validate(anonymous(program), graph, machine, seeds=2)
    assert [(o.exact_share, o.max_lsb) for o in found.outputs] == [
        (o.exact_share, o.max_lsb) for o in known.outputs
    ]
    layers = {layer.epoch: layer.exact_share for layer in found.layers}
    same = [
        layers[known.epoch] == known.exact_share for known in known.layers if known.epoch in layers
    ]
    assert len(same) >= len(known.layers) - 1 and sum(same) >= len(same) - 1


def unscaled(program: Program) -> Program:
    """As a network.c without c_info.json is read: only inputs and outputs state a scale."""
    border = {*program.inputs, *program.outputs}
    buffers = [b if b.name in border else replace(b, quant=None) for b in program.buffers]
    return replace(program, buffers=tuple(buffers))


def convs(count: int) -> Graph:
    net = Net(7)
    x = net.input((1, 8, 8, 16))
    for _ in range(count):
        x = net.conv(x, 16)
    return net.graph(x)


def test_layers_without_a_scale_are_paired_by_their_values_and_never_blamed() -> None:
    graph, machine = convs(5), MACHINES["4.0"]
    program = unscaled(anonymous(compiled(graph, "4.0")))
    right = validate(program, graph, machine)
    assert right.verdict.holds and right.layers_compared == right.layers_total == 5
    weights = {buffer.name for buffer in program.buffers if buffer.is_param}
    flipped = {name: ~data if name in weights else data for name, data in program.constants.items()}
    damaged = validate(replace(program, constants=flipped), graph, machine)
    assert damaged.verdict is Verdict.WRONG and "output" in damaged.sentence


def test_memory_that_serves_two_tensors_under_one_name_is_not_compared() -> None:
    graph, machine = convs(5), MACHINES["4.0"]
    program = without_overlaps(compiled(graph, "4.0"))
    inner = [epoch.units[-1].addr_base.buffer for epoch in program.executed][:-1]
    first, third = inner[0], inner[2]

    def unit(value: object) -> object:
        ref = getattr(value, "addr_base", None)
        if ref is None or ref.buffer != third:
            return value
        return replace(value, addr_base=replace(ref, buffer=first))  # type: ignore[type-var]

    epochs = [
        replace(
            epoch,
            groups=tuple(replace(g, units=tuple(map(unit, g.units))) for g in epoch.groups or ()),
        )
        for epoch in program.epochs
    ]
    shared = replace(program, epochs=tuple(epochs))
    assert _reused(shared) == {first}
    verdict = validate(unscaled(anonymous(shared)), graph, machine)
    assert verdict.verdict.holds and verdict.layers_compared == 3


def two_outputs() -> Graph:
    net = Net(2)
    x = net.conv(net.input((1, 8, 8, 4), (0.02, 128), DType.UINT8), 8)
    return net.graph(net.dequantize(net.conv(x, 8, (1, 1))), net.conv(x, 8, (1, 1)))


def test_outputs_are_found_by_value() -> None:
    graph = two_outputs()
    program = anonymous(compiled(graph, "4.0"))
    swapped = replace(program, outputs=program.outputs[::-1])
    values = sample(graph, 1)
    straight, crossed = (foreign_bridge(p, graph, values).results for p in (program, swapped))
    assert straight == crossed
    assert len(set(straight.values())) == 2


def test_the_wrong_model_is_refused() -> None:
    program = anonymous(compiled(demo_graph(), "4.0"))
    net = Net()
    net.conv(net.input((1, 8, 8, 4)), 8)
    other = net.graph()
    with pytest.raises(ModelError, match="it has inputs of 27,648 elements, the network inputs"):
        validate(program, other, MACHINES["4.0"])
    with pytest.raises(ModelError, match="the network inputs of 64 and 64 elements"):
        two = Net()
        two.add(two.input((1, 4, 4, 4)), two.input((1, 4, 4, 4)))
        validate(program, two.graph(), MACHINES["4.0"])


def test_an_input_of_another_scale_is_refused() -> None:
    def one_layer(scale: float, zero: int, dtype: DType = DType.INT8) -> Graph:
        net = Net()
        return net.graph(net.conv(net.input((1, 8, 8, 4), (scale, zero), dtype), 8))

    program = anonymous(compiled(one_layer(0.02, 3), "4.0"))
    with pytest.raises(
        ModelError, match=r"its input has scale 0\.02 and zero point 3, the network"
    ):
        validate(program, one_layer(0.05, 3), MACHINES["4.0"])
    with pytest.raises(ModelError, match=r"'input0' scale 0\.02 and zero point 4"):
        validate(program, one_layer(0.02, 4), MACHINES["4.0"])
    refuse_other_network(program, one_layer(0.02, 131, DType.UINT8))


def test_inputs_in_another_order() -> None:
    net = Net()
    small, large = net.input((1, 4, 4, 8)), net.input((1, 8, 8, 4))
    graph = net.graph(net.conv(small, 4), net.conv(large, 4))
    program = anonymous(compiled(graph, "4.0"))
    turned = replace(program, inputs=program.inputs[::-1])
    assert input_pairs(program, graph) == dict(zip(program.inputs, graph.inputs, strict=True))
    assert input_pairs(turned, graph) == input_pairs(program, graph)
    assert validate(turned, graph, MACHINES["4.0"]).passed


def test_inputs_of_one_size_are_told_apart_by_scale() -> None:
    net = Net()
    fine, coarse = net.input((1, 4, 4, 8), (0.02, 0)), net.input((1, 4, 4, 8), (0.5, 0))
    graph = net.graph(net.conv(fine, 4), net.conv(coarse, 4))
    program = anonymous(compiled(graph, "4.0"))
    turned = replace(program, inputs=program.inputs[::-1])
    assert input_pairs(turned, graph) == dict(zip(program.inputs, graph.inputs, strict=True))


def test_channels_that_were_moved_to_the_end_of_an_input() -> None:
    net = Net()
    graph = net.graph(net.conv(net.input((1, 3, 8, 6)), 4))
    program = anonymous(compiled(graph, "4.0"))
    (there,) = program.inputs
    # Of axes 1, 8, 6, 3 the file calls the second channels.
    moved = replace(program.buffer_map()[there], shape=(1, 6, 3, 8), batch=1)
    buffers = tuple(moved if b.name == there else b for b in program.buffers)
    bridge = ForeignBridge(replace(program, buffers=buffers), graph)
    values = sample(graph, 1)
    (here,) = values.values()
    stored = to_stored(moved, bridge.inputs(values)[there])
    assert np.array_equal(stored, here.transpose(0, 2, 3, 1).ravel())


def test_a_buffer_is_expected_to_carry_what_comes_first_after_what_was_read() -> None:
    net = Net()
    x = net.input((1, 8, 8, 4))
    tensors = [x]
    for _ in range(9):
        tensors.append(net.conv(tensors[-1], 4))
    lineage = Lineage(net.graph())
    assert lineage.first(set(tensors[2:]), {tensors[1]}) == {tensors[2]}
    assert lineage.first({tensors[2]}, {tensors[4]}) == set()
    assert lineage.first({tensors[9]}, {x}) == set()  # too far for one epoch


def test_values_keep_their_meaning_across_types() -> None:
    """A uint8 network input for an int8 buffer, and back."""
    graph = two_outputs()
    program = anonymous(compiled(graph, "4.0"))
    (there,) = program.inputs
    signed = replace(
        program,
        buffers=tuple(replace(b, signed=True) if b.name == there else b for b in program.buffers),
    )
    values = sample(graph, 1)
    (given,) = values.values()
    bridge = foreign_bridge(program, graph, values)
    bridge.program = signed
    assert np.array_equal(bridge.inputs(values)[there], given.astype(np.int16) - 128)


def joined() -> Graph:
    net = Net(1)
    x = net.input((1, 6, 6, 8))
    parts = (net.conv(x, 12, quant=(0.02, 4)), net.conv(x, 4, quant=(0.02, 4)))
    return net.graph(net.conv(net.concat(parts), 8))


def with_scattered_parts(program: Program) -> Program:
    """As the vendor's compiler names them: each part is a buffer of its own size, which begins at
    its first value inside of the joined one."""
    (whole,) = (buffer for buffer in program.buffers if buffer.tensor == "concat")
    parts = {
        first: replace(
            whole,
            name=f"part{first}",
            tensor="",
            shape=(*whole.shape[:3], channels),
            size_bytes=whole.size_bytes * channels // whole.channels,
            offset=whole.offset + first,
            batch=channels,
        )
        for first, channels in ((0, 12), (12, 4))
    }

    def unit(value: object) -> object:
        if not isinstance(value, Streng) or value.dir == 0 or value.addr_base.buffer != whole.name:
            return value
        place = replace(value.addr_base, buffer=parts[value.offset_start].name)
        return replace(value, addr_base=place, offset_start=0)

    epochs = []
    for epoch in program.epochs:
        groups = tuple(replace(g, units=tuple(map(unit, g.units))) for g in epoch.groups or ())
        epochs.append(replace(epoch, groups=groups))
    return replace(program, buffers=(*program.buffers, *parts.values()), epochs=tuple(epochs))


def test_parts_that_are_stored_between_others_are_not_read_as_a_whole() -> None:
    graph, machine = joined(), MACHINES["4.0"]
    program = anonymous(with_scattered_parts(compiled(graph, "4.0")))
    found = validate(program, graph, machine)
    assert found.verdict is Verdict.PASSED and not found.broken
    assert found.not_compared == ("EpochBlock_2",)


def test_values_in_another_order_are_not_compared_where_most_are_alike() -> None:
    """The vendor's nearest resize copies the channels four times, which is as large as the result,
    and then moves them. Most values are zero: the copies are near the result in the mean."""
    net = Net()
    graph = net.graph(net.conv(net.input((1, 8, 8, 4)), 4))
    (name,) = graph.outputs
    program = compiled(graph, "4.0")
    buffer = program.buffer_map()[name]
    values = np.zeros((1, 8, 8, 4), np.int8)
    values[0, 0, :, 0] = 20
    for stored, pairs in ((values, 1), (values.transpose(0, 2, 1, 3), 0)):
        learner = _Learner(program, graph, {name: values})
        memory = Memory(program)
        memory.write(name, np.ascontiguousarray(stored))
        learner._pair(memory, buffer, [BufferPair(name, (), 0)], set())
        assert len(learner.pairs) == pairs
