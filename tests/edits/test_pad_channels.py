"""Channels of zeros through a whole region: the same results, in better parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compiler.nets import MACHINES
from edits.border_case import applied, edited, graph_of, misfit
from edits.channel_case import FORMATS, SCALE, LiteNet, Net, QdqNet, constants
from edits.channel_nets import check_exact, denoiser, explained, shuffle_net, total_ms
from edits.moves_case import kinds, off_npu
from npuscope.advice.fix.numeric import effects
from npuscope.advice.fix.workbench import BenchNetwork
from npuscope.edits import EditRequest, NotFitting, apply_edit, open_document
from npuscope.files.load import read_model
from npuscope.rulebook.counts import shared_count

GENERATIONS = ("2.2", "4.0")


def layers(data: bytes) -> list[tuple[int, int]]:
    """Inputs and outputs of the convolutions and dense layers of a network, in order."""
    graph = graph_of(data)
    ops = [op for op in graph.ops if op.kind in ("Conv2D", "FullyConnected")]
    shapes = [graph.tensor(op.inputs[1]).shape for op in ops]
    return [(shape[-1], shape[0]) for shape in shapes]


def origin(data: bytes, number: int) -> tuple[str, ...]:
    ops = [op for op in graph_of(data).ops if op.kind in ("Conv2D", "FullyConnected")]
    return ops[number].origin


def padded(data: bytes, number: int, side: str, channels: int, wanted: int) -> bytes:
    given = {"channels": channels, "padded": wanted, "side": side}
    return edited(data, "pad-channels", *origin(data, number), **given)


def every_finding(data: bytes, rule: str, generation: str) -> bytes:
    """The file padded at all places that a rule names, once."""
    graph = graph_of(data)
    document = open_document("net", data)
    for finding, given in explained(graph, rule, "pad-channels", generation):
        network = BenchNetwork(graph, MACHINES[generation])
        apply_edit(document, "pad-channels", EditRequest(finding.ops, given, network))
    return document.to_bytes()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("side", ["inputs", "outputs"])
def test_a_branch_is_padded_between_its_layers(form: type[Net], side: str) -> None:
    """One layer makes the channels, a depthwise one keeps them apart, another one takes them."""
    net = form()
    x = net.conv(net.input((1, 8, 8, 8)), 58)
    data = net.finish(net.conv(net.conv(x, 58, 3, groups=58, zero_point=18), 24))
    number = 2 if side == "inputs" else 0
    after = padded(data, number, side, 58, 64)
    check_exact(data, after)
    assert layers(after) == [(8, 64), (1, 64), (64, 24)]
    assert len(kinds(after)) == len(kinds(data))


@pytest.mark.parametrize("form", FORMATS)
def test_what_keeps_channels_apart_is_padded_along(form: type[Net]) -> None:
    net = form()
    x = net.conv(net.input((1, 8, 8, 4)), 29)
    y = net.conv(x, 29, zero_point=4)
    factors = net.random.integers(-100, 100, 29).astype(np.int8)
    y = net.add(net.pool(net.multiply(y, factors)), net.pool(x))
    data = net.finish(net.dense(net.mean(y), 10))
    after = padded(data, 0, "outputs", 29, 32)
    check_exact(data, after)
    # The second layer reads and makes channels of one region, joined by the Add.
    assert layers(after) == [(4, 32), (32, 32), (32, 10)]
    again = {"channels": 29, "padded": 32, "side": "outputs"}
    done = applied(after, "pad-channels", *origin(after, 0), **again)
    assert done == open_document("net", after).to_bytes()


def with_function(kind: str, **attributes: object) -> bytes:
    """Two layers with a function of one value between them."""
    net = QdqNet()
    x = net.conv(net.input((1, 6, 6, 4)), 29)
    y = net.writer.qdq(net.writer.node(kind, x.id, **attributes), SCALE, -128)
    return net.finish(net.conv(replace(x, id=y), 8))


@pytest.mark.parametrize("kind", ["Erf", "Exp", "Cos", "Softplus", "Celu", "Sqrt", "Round"])
def test_the_rule_and_the_edit_take_channels_through_a_function(kind: str) -> None:
    data = with_function(kind)
    graph = graph_of(data)
    last = [op for op in graph.ops if op.kind == "Conv2D"][-1]
    shared = shared_count(graph, last, "inputs")
    assert shared is not None and not shared.repeats
    after = padded(data, 1, "inputs", 29, 32)
    check_exact(data, after)
    assert layers(after) == [(4, 32), (32, 8)]


@pytest.mark.parametrize("kind", ["Log", "Reciprocal", "Acosh"])
def test_neither_makes_channels_that_are_not_finite(kind: str) -> None:
    """The first layer keeps its channels; the last one may read some a second time."""
    data = with_function(kind)
    graph = graph_of(data)
    last = [op for op in graph.ops if op.kind == "Conv2D"][-1]
    shared = shared_count(graph, last, "inputs")
    assert shared is not None and shared.repeats
    assert layers(padded(data, 1, "inputs", 29, 32)) == [(4, 29), (32, 8)]


@pytest.mark.parametrize("form", FORMATS)
def test_other_readers_get_the_old_channels(form: type[Net]) -> None:
    """An output of the network, and an op that mixes channels, read the padded tensor too."""
    net = form()
    x = net.conv(net.input((1, 6, 6, 4)), 29)
    data = net.finish(net.conv(x, 8), net.shuffle(x, 29), x)
    after = padded(data, 0, "outputs", 29, 32)
    check_exact(data, after)
    assert layers(after) == [(4, 32), (32, 8)]
    assert [t.shape for t in _outputs(after)] == [t.shape for t in _outputs(data)]


def _outputs(data: bytes) -> list:  # type: ignore[type-arg]
    graph = graph_of(data)
    return [graph.tensor(name) for name in graph.outputs]


@pytest.mark.parametrize("form", FORMATS)
def test_joins_and_slices_take_new_channels_along(form: type[Net]) -> None:
    net = form()
    x = net.input((1, 6, 6, 4))
    whole = net.concat(net.conv(x, 29), net.conv(x, 13))
    left, right = net.part(whole, 0, 29), net.part(whole, 29, 42)
    data = net.finish(net.conv(left, 8), net.conv(right, 8), net.conv(whole, 8))
    first = padded(data, 0, "outputs", 29, 32)
    check_exact(data, first)
    assert layers(first) == [(4, 32), (4, 13), (32, 8), (13, 8), (45, 8)]
    both = padded(first, 1, "outputs", 13, 16)
    check_exact(data, both)
    assert layers(both) == [(4, 32), (4, 16), (32, 8), (16, 8), (48, 8)]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(("first", "last"), [(0, 29), (29, 58)])
def test_a_slice_takes_its_neighbours_along(form: type[Net], first: int, last: int) -> None:
    """What new channels hold does not matter: those behind or in front of the slice will do."""
    net = form()
    x = net.part(net.shuffle(net.input((1, 6, 6, 58)), 2), first, last)
    data = net.finish(net.conv(x, 8))
    with_reader = net.finish(net.conv(x, 8), net.shuffle(x, 29))
    check_exact(with_reader, padded(with_reader, 0, "inputs", 29, 32))
    after = padded(data, 0, "inputs", 29, 32)
    check_exact(data, after)
    assert layers(after) == [(32, 8)]
    assert kinds(after) == kinds(data)


@pytest.mark.parametrize("form", FORMATS)
def test_data_from_elsewhere_come_twice_in_part(form: type[Net]) -> None:
    """The network's input cannot have more channels: its first and last ones overlap."""
    net = form()
    x = net.input((1, 6, 6, 29))
    data = net.finish(net.conv(x, 8), net.conv(x, 6, 3), net.pool(x))
    after = padded(data, 0, "inputs", 29, 32)
    check_exact(data, after)
    assert layers(after) == [(32, 8), (32, 6)]
    assert off_npu(after) == []
    # 16 and 16 channels: compilers of 2.x join equal parts alone.
    assert off_npu(after, "2.2") == []


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_shuffle_net_is_faster(form: type[Net], generation: str) -> None:
    """Units of 58 channels, as ShuffleNetV2 has them: half of the time goes."""
    data = shuffle_net(form())
    before = total_ms(graph_of(data), generation)
    after = every_finding(data, "ADV-CHANNELS", generation)
    check_exact(data, after, seeds=1)
    assert total_ms(graph_of(after), generation) < before / 2


def test_a_gain_is_predicted() -> None:
    """What a finding promises for all places of one region is about what padding gives."""
    net = QdqNet()
    x = net.conv(net.input((1, 28, 28, 24)), 58)
    data = net.finish(net.conv(net.conv(x, 58, 3, groups=58, zero_point=18), 58))
    graph = graph_of(data)
    found = explained(graph, "ADV-CHANNELS", "pad-channels", "4.0")
    given = [parameters for _, parameters in found]
    assert {"channels": 58, "padded": 64, "side": "inputs"} in given
    place, wanted = found[given.index({"channels": 58, "padded": 64, "side": "inputs"})]
    (gain,) = [fix.gain_ms for fix in place.fixes if fix.id == "pad-channels"]
    after = edited(data, "pad-channels", *place.ops, **wanted)  # type: ignore[arg-type]
    saved = total_ms(graph, "4.0") - total_ms(graph_of(after), "4.0")
    assert gain == pytest.approx(saved, rel=0.15)


def test_the_denoiser_of_257_bins_needs_no_cpu() -> None:
    data = denoiser()
    for rule in ("ADV-CHANNELS", "NA-CONV-PRIME"):
        data = every_finding(data, rule, "2.2")
    assert off_npu(data, "2.2") == []
    check_exact(denoiser(), data)


def test_weights_with_a_zero_point_are_padded_with_it() -> None:
    net = QdqNet()
    x, writer = net.conv(net.input((1, 4, 4, 4)), 29), net.writer
    weights = net.random.integers(-127, 127, (8, 29, 1, 1), np.int8)
    held = writer.dequantize(writer.constant(weights), 0.003, 7)
    y = writer.node("Conv", x.id, held, name="shifted")
    data = writer.finish({writer.qdq(y, SCALE, -3): None})
    check_exact(data, padded(data, 1, "inputs", 29, 32))


def test_copies_meet_weights_of_zero() -> None:
    """Copies hold values: weights with a zero point must hold that for them."""
    net = QdqNet()
    x, writer = net.input((1, 4, 4, 29)), net.writer
    weights = net.random.integers(-127, 127, (8, 29, 1, 1), np.int8)
    held = writer.dequantize(writer.constant(weights), 0.003, 7)
    y = writer.node("Conv", x.id, held, name="shifted")
    data = writer.finish({writer.qdq(y, SCALE, -3): None})
    after = padded(data, 0, "inputs", 29, 32)
    assert layers(after) == [(32, 8)]
    check_exact(data, after)


@pytest.mark.parametrize("form", FORMATS)
def test_a_join_that_cannot_grow_gets_the_old_channels(form: type[Net]) -> None:
    """A shuffle behind it needs each channel at its place."""
    net = form()
    x = net.input((1, 6, 6, 4))
    data = net.finish(net.shuffle(net.concat(net.conv(x, 29), net.conv(x, 29)), 2))
    after = padded(data, 0, "outputs", 29, 32)
    check_exact(data, after)
    assert layers(after) == [(4, 32), (4, 29)]


@pytest.mark.parametrize("form", FORMATS)
def test_a_join_with_data_from_elsewhere_comes_twice_in_part(form: type[Net]) -> None:
    """Coordinates beside features: neither end of what is joined can have new channels."""
    net = form()
    x, places = net.input((1, 6, 6, 4)), net.input((1, 6, 6, 2))
    data = net.finish(
        net.conv(net.concat(net.conv(x, 27, zero_point=places.zero_point), places), 8)
    )
    after = padded(data, 1, "inputs", 29, 32)
    check_exact(data, after)
    assert layers(after) == [(4, 27), (32, 8)]


@pytest.mark.parametrize(("first", "last"), [(0, 29), (29, 58)])
def test_masks_of_a_slice_give_way_to_its_bounds(first: int, last: int) -> None:
    net = LiteNet()
    x = net.shuffle(net.input((1, 6, 6, 58)), 2)
    bounds = [net._numbers(*values) for values in ([0, 0, 0, first], [0, 0, 0, last], [1] * 4)]
    part = net._tensor("part", (1, 6, 6, 29), x.zero_point)
    masks = {"beginMask": 7 + 8 * (first == 0), "endMask": 7 + 8 * (last == 58)}
    net.writer.op("STRIDED_SLICE", [x.id, *bounds], [part.id], **masks)
    start = net._tensor("start", (1, 6, 6, 10), x.zero_point)
    bounds = [net._numbers(*values) for values in ([0] * 4, [0, 0, 0, 10], [1] * 4)]
    net.writer.op("STRIDED_SLICE", [part.id, *bounds], [start.id], beginMask=15, endMask=7)
    data = net.finish(net.conv(part, 8), net.conv(start, 4))
    after = padded(data, 0, "inputs", 29, 32)
    check_exact(data, after)
    assert kinds(after) == kinds(data)


def test_a_split_stays_even() -> None:
    """Halves of a SPLIT have one size: both are padded."""
    net = LiteNet()
    x = net.conv(net.input((1, 6, 6, 4)), 58)
    axis = net.writer.constant("axis", np.array(3, np.int32))
    halves = [net._tensor(f"half{n}", (1, 6, 6, 29), x.zero_point) for n in range(2)]
    net.writer.op("SPLIT", [axis, x.id], [half.id for half in halves], numSplits=2)
    data = net.finish(net.conv(halves[0], 8), net.pool(halves[1]))
    after = padded(data, 1, "inputs", 29, 32)
    check_exact(data, after)
    assert layers(after) == [(4, 64), (32, 8)]


@pytest.mark.parametrize("form", FORMATS)
def test_counts_that_changed_are_told(form: type[Net]) -> None:
    net = form()
    data = net.finish(net.conv(net.conv(net.input((1, 4, 4, 4)), 29), 8))
    given = {"channels": 30, "padded": 32, "side": "outputs"}
    told = misfit(data, "pad-channels", *origin(data, 0), **given)
    assert told.endswith("has 29 channels, not 30")


@pytest.mark.parametrize("form", FORMATS)
def test_channels_that_others_make_are_told(form: type[Net]) -> None:
    """The Add needs as many channels from the network's input."""
    net = form()
    x = net.input((1, 4, 4, 29))
    data = net.finish(net.conv(net.add(net.conv(x, 29), x), 8))
    given = {"channels": 29, "padded": 32, "side": "outputs"}
    told = misfit(data, "pad-channels", *origin(data, 0), **given)
    assert told.startswith("the channels of 'input0")
    assert told.endswith("come from outside the network")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("form", FORMATS)
def test_any_padding_anywhere_keeps_the_results(form: type[Net], seed: int) -> None:
    """Random places and counts in a net with joins, slices, branches and sums, one on another."""
    random = np.random.default_rng(seed)
    net = form(seed)
    x = net.conv(net.input((1, 6, 6, 5)), 7, 3)
    y = net.concat(x, net.conv(x, 5, 3, groups=1))
    z = net.conv(net.part(y, 2, 9), 7, zero_point=3)
    z = net.add(net.conv(z, 7, 3, groups=7), net.part(y, 5, 12))
    data = net.finish(net.conv(net.concat(z, net.add(x, x)), 3), net.dense(net.mean(z), 4))
    changed = data
    for _ in range(5):
        number, side = int(random.integers(6)), str(random.choice(["inputs", "outputs"]))
        if number == 4:
            continue  # the depthwise layer is not a place of its own
        inputs, outputs = layers(changed)[number]
        count = inputs if side == "inputs" else outputs
        try:
            changed = padded(changed, number, side, count, count + int(random.integers(1, 5)))
        except NotFitting:
            continue
    assert changed != data
    check_exact(data, changed)


def test_a_real_network_gives_the_same(shared_models: Path) -> None:
    """One stage of ShuffleNetV2: 58 channels become 64, in all of its units."""
    path = shared_models / "shufflenetv2_x100_pt_224_rand_qdq_int8.onnx"
    data = path.read_bytes()
    graph = read_model(path, data)
    document = open_document(path, data)
    for finding, given in explained(graph, "ADV-CHANNELS", "pad-channels", "4.0"):
        request = EditRequest(finding.ops, given, BenchNetwork(graph, MACHINES["4.0"]))
        apply_edit(document, "pad-channels", request)
    after = read_model(path, document.to_bytes())
    assert all(effect.exact for effect in effects(graph, after, 1))
    assert total_ms(after, "4.0") < 0.7 * total_ms(graph, "4.0")


def integer_layer(net: QdqNet, x: str, outputs: int, inputs: int, groups: int = 1) -> str:
    """A QLinearConv, whose data are integers."""
    writer = net.writer
    made = constants(net.random, (outputs, 1, 1, inputs // groups))
    steps, zero = writer.constant(np.float32(SCALE)), writer.constant(np.array(3, np.int8))
    held = [writer.constant(made.weights.transpose(0, 3, 1, 2)), writer.constant(made.scales)]
    held += [writer.constant(np.zeros(outputs, np.int8)), steps, zero, writer.constant(made.bias)]
    return writer.node("QLinearConv", x, steps, zero, *held, group=groups)


def test_layers_of_integers_are_padded() -> None:
    net = QdqNet()
    writer = net.writer
    x = writer.quantize(writer.input("x", (1, 5, 4, 4)), SCALE, 3)
    y = integer_layer(net, x, 29, 5)
    z = integer_layer(net, y, 29, 29, groups=29)
    ends = [integer_layer(net, z, 8, 29), y]
    data = writer.finish({writer.dequantize(end, SCALE, 3): None for end in ends})
    after = padded(data, 0, "outputs", 29, 32)
    check_exact(data, after)
    assert layers(after) == [(5, 32), (1, 32), (32, 8)]
    again = padded(after, 0, "inputs", 5, 8)
    check_exact(data, again)
    assert layers(again) == [(8, 32), (1, 32), (32, 8)]


def test_axes_that_come_and_go_keep_channels_apart() -> None:
    """A TFLite network that squeezes axes out and puts them back between two layers."""
    net = LiteNet()
    x = net.conv(net.input((1, 1, 6, 4)), 29)
    flat = net._op("SQUEEZE", [x.id], (6, 29), x.zero_point)
    back = net._op("EXPAND_DIMS", [flat.id, net._numbers(0)], (1, 6, 29), x.zero_point)
    back = net._op("EXPAND_DIMS", [back.id, net._numbers(0)], (1, 1, 6, 29), x.zero_point)
    data = net.finish(net.conv(back, 8))
    after = padded(data, 0, "outputs", 29, 32)
    check_exact(data, after)
    assert layers(after) == [(4, 32), (32, 8)]
    assert kinds(after) == kinds(data)
