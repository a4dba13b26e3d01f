"""What-if: a layer alone, compiled again with other counts."""

from __future__ import annotations

import pytest

from advice.runs import LATEST, build, clean_network, run
from compiler.nets import Net
from npuscope.advice import subject
from npuscope.advice.subject import Bench, LayerChange, layer_alone
from npuscope.graph.model import Graph
from npuscope.machine.set_keys import with_overrides
from npuscope.ops.verify import verify
from npuscope.profiling.run import estimate


def conv(inputs: int, outputs: int) -> Graph:
    net = Net()
    net.conv(net.input((1, 8, 8, inputs)), outputs, (1, 1))
    return net.graph()


@pytest.mark.parametrize(
    "change",
    [
        LayerChange(),
        LayerChange(outputs=7),
        LayerChange(outputs=40),
        LayerChange(inputs=5, outputs=9),
    ],
)
def test_a_changed_layer_is_a_network(change: LayerChange) -> None:
    graph = clean_network()
    for op in (op for op in graph.ops if op.kind in ("Conv2D", "FullyConnected")):
        weights = graph.tensor(op.inputs[1]).shape
        if op.kind == "Conv2D" and weights[-1] == 1:
            continue  # depthwise: its counts hang together
        alone = layer_alone(graph, op, change)
        verify(alone)
        assert alone.output_tensor(op).shape[-1] == (change.outputs or weights[0])


def test_a_changed_layer_takes_the_time_of_such_a_layer() -> None:
    graph = conv(64, 58)
    bench = Bench(LATEST)
    for change, other in ((LayerChange(), graph), (LayerChange(outputs=64), conv(64, 64))):
        made = build(other)
        expected = estimate(made.program, LATEST).total_ms
        assert bench.layer_ms(graph, graph.ops[0], change) == pytest.approx(expected)


def test_layers_are_compiled_once_for_all_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, layers = conv(64, 58), {}
    slow = with_overrides(LATEST, {"clocks.npu_mhz": 400})
    expected = Bench(slow).layer_ms(graph, graph.ops[0])
    fast = Bench(LATEST, layers).layer_ms(graph, graph.ops[0])
    monkeypatch.setattr(subject, "compile_graph", None)
    assert Bench(slow, layers).layer_ms(graph, graph.ops[0]) == expected != fast


def test_a_zero_point_changes_the_mode() -> None:
    net = Net()
    net.conv(net.input((1, 32, 32, 64), (0.02, 3)), 64)
    graph = net.graph()
    gain = Bench(LATEST).gain_ms(graph, graph.ops[0], LayerChange(zero_point=0))
    assert gain is not None
    assert gain > 0


def test_what_does_not_compile_has_no_time() -> None:
    graph = conv(8, 8)
    nowhere = LATEST.with_pools(())
    assert Bench(nowhere).layer_ms(graph, graph.ops[0]) is None
    assert Bench(nowhere).gain_ms(graph, graph.ops[0], LayerChange(outputs=4)) is None


def test_a_pass_is_about_what_an_elementwise_epoch_takes() -> None:
    net = Net()
    net.sigmoid(net.input((1, 64, 64, 16)))
    real = run(net.graph()).profile.total_ms
    assert Bench(LATEST).pass_ms(64 * 64 * 16) == pytest.approx(real, rel=0.1)
