"""Networks whose channel counts hurt: a denoiser of 257 bins, a small ShuffleNet."""

from __future__ import annotations

import numpy as np

from compiler.nets import MACHINES
from edits.border_case import graph_of, outside
from edits.channel_case import SCALE, Data, Net, QdqNet, constants
from npuscope.advice.explain import explain
from npuscope.advice.fix.numeric import effects
from npuscope.building import Build
from npuscope.compiler.pipeline import compile_graph
from npuscope.graph.model import Graph
from npuscope.profiling.run import estimate
from npuscope.rulebook.finding import Finding


def shuffle_net(net: Net, channels: int = 58, units: int = 2, size: int = 14) -> bytes:
    """A stage of ShuffleNetV2: a strided unit, then units that work on one half of the channels.

    Branches that are joined have one quantization: TFLite asks for it.
    """
    x = net.conv(net.input((1, 2 * size, 2 * size, 3)), 24, 3)
    left = net.conv(net.conv(x, 24, 3, 2, groups=24, zero_point=4), channels)
    y = net.shuffle(net.concat(left, _branch(net, x, channels, 2)), 2)
    for _ in range(units):
        kept, used = net.part(y, 0, channels), net.part(y, channels, 2 * channels)
        y = net.shuffle(net.concat(kept, _branch(net, used, channels, 1)), 2)
    return net.finish(net.dense(net.mean(net.conv(y, 64)), 10))


def _branch(net: Net, x: Data, channels: int, stride: int) -> Data:
    wide = net.conv(x, channels)
    deep = net.conv(wide, channels, 3, stride, groups=channels, zero_point=18)
    return net.conv(deep, channels)


def explained(
    graph: Graph, rule: str, fix: str, generation: str
) -> list[tuple[Finding, dict[str, object]]]:
    """Findings of a rule that offer a fix, with the fix's parameters."""
    machine = MACHINES[generation]
    build = Build(graph, machine, compile_graph(graph, machine))
    found = explain(build, estimate(build.program, machine, graph)).findings
    return [
        (finding, dict(offered.parameters))
        for finding in found
        for offered in finding.fixes
        if finding.rule == rule and offered.id == fix
    ]


def total_ms(graph: Graph, generation: str) -> float:
    machine = MACHINES[generation]
    return estimate(compile_graph(graph, machine), machine, graph).total_ms


def denoiser(bins: int = 257, hidden: int = 256, seed: int = 0) -> bytes:
    """A speech denoiser for one frame at a time, as QDQ .onnx: a pointwise convolution over the
    bins, an LSTM cell whose states come and go with the frame, a dense layer and a convolution
    that give the mask. Its layers with 257 inputs ran on the CPU at generation 2.2."""
    net = QdqNet(seed)
    frame = net.input((1, 1, bins), 2)
    state, cell = net.input((1, hidden), 5), net.input((1, hidden), 5)
    x = _pointwise(net, frame, bins)
    x = net.flat(x, (1, bins))
    gates = net.add(net.dense(x, 4 * hidden), net.dense(state, 4 * hidden))
    ways = [net.part(gates, n * hidden, (n + 1) * hidden) for n in range(4)]
    enter, forget, leave = (net.function("Sigmoid", way) for way in (ways[0], ways[1], ways[3]))
    new = net.function("Mul", enter, net.function("Tanh", ways[2]))
    cell = net.add(net.function("Mul", forget, cell), new)
    state = net.function("Mul", leave, net.function("Tanh", cell))
    y = _pointwise(net, net.flat(net.dense(state, bins), (1, 1, bins)), bins)
    return net.finish(net.sigmoid(y), state, cell)


def two_cell_denoiser(bins: int = 257, hidden: int = 256) -> bytes:
    """The network of the published question, as the author's public scripts make it of a public
    denoiser: a convolution with ReLU, two LSTM cells written out (one bias each, gates in the order
    i, o, f, c, the new cell state behind its Tanh), two convolutions, Sigmoid. Zero points are what
    his quantization gives for random data: -128 behind ReLU and Sigmoid, that of the operand behind
    Split, some other number elsewhere."""
    net = QdqNet()
    frame = net.input((1, 1, bins), 2)
    states = [net.input((1, hidden), 5) for _ in range(4)]
    x = net.flat(_pointwise(net, frame, bins, -128), (1, bins))
    outputs: list[Data] = []
    for state, cell in (states[:2], states[2:]):
        x, cell = _lstm_cell(net, x, state, cell)
        outputs += [cell, x]
    y = _pointwise(net, net.flat(x, (1, 1, hidden)), bins, -128)
    return net.finish(net.sigmoid(_pointwise(net, y, bins)), *outputs)


def _lstm_cell(net: QdqNet, x: Data, state: Data, cell: Data) -> tuple[Data, Data]:
    hidden, writer = state.channels, net.writer
    kernels = constants(net.random, (4 * hidden, hidden))
    held = writer.dequantized_constant(kernels.weights, kernels.scales)
    recurrent = net.op("Gemm", [state.id, held], (1, 4 * hidden), -5, transB=1)
    gates = net.op("Add", [recurrent.id, net.dense(x, 4 * hidden).id], (1, 4 * hidden), -4)
    sizes = writer.constant(np.full(4, hidden))
    ways = writer.nodes_with("Split", [gates.id, sizes], 4, axis=1)
    parts = [Data(writer.qdq(way, SCALE, -4), (1, hidden), -4) for way in ways]
    enter, leave, forget = (net.function("Sigmoid", part, zero=-128) for part in parts[:3])
    new = net.function("Tanh", parts[3], zero=3)
    kept = net.function("Mul", cell, forget, zero=-21)
    total = net.add(kept, net.function("Mul", enter, new, zero=5))
    cell = net.function("Tanh", total, zero=2)
    return net.function("Mul", cell, leave, zero=-9), cell


def _pointwise(net: QdqNet, x: Data, outputs: int, zero_point: int = -3) -> Data:
    """Along one axis, as speech networks have it."""
    made = constants(net.random, (outputs, 1, x.channels))
    inputs = [x.id, *net.stored(made.weights.transpose(0, 2, 1), made)]
    return net.op("Conv", inputs, (1, 1, outputs), zero_point, kernel_shape=[1])


def check_exact(before: bytes, after: bytes, seeds: int = 2) -> None:
    """It compiles, and gives the same bits: by our reference, by LiteRT's reference kernels (the
    fast ones may round another way for other counts) or by onnxruntime."""
    graph, changed = graph_of(before), graph_of(after)
    for machine in (MACHINES["2.2"], MACHINES["4.0"]):
        compile_graph(changed, machine)
    found = effects(graph, changed, seeds)
    assert found and all(effect.exact for effect in found), found
    one, other = outside(before), outside(after)
    assert one.keys() == other.keys()
    for name, values in one.items():
        np.testing.assert_allclose(values, other[name], rtol=0, atol=1e-3 * SCALE)
