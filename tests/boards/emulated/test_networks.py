"""Networks by the unit drivers on the emulated board: values, time and counters are those of the
simulated one."""

from __future__ import annotations

import numpy as np
import pytest

from boards.emulated.networks import Network
from compiler.nets import MACHINES, Net, random_network, sample
from npuscope.boards.device import CounterOption, NodeCounters
from npuscope.boards.runtime import Instrument, Runtime
from npuscope.compiler.pipeline import CompileOptions, compile_graph
from npuscope.graph.model import Activation, Graph
from npuscope.sim.run import execute
from npuscope.structs import replace

# Handler, stamps and polls around an epoch, in processor cycles.
_OVERHEAD = 100
# One look at all engines that an epoch waits for. Where branches share an epoch these are several:
# when it ends between two of them, the next round of looks is the first that finds all at rest.
_ROUND = 125


def mixed() -> Graph:
    """Convolutions of all kinds, a product, pools, a function table, a dense layer."""
    net = Net(7)
    x = net.conv(net.input((1, 16, 16, 8)), 24, activation=Activation.RELU6)
    product = net.add(x, net.sigmoid(net.conv(x, 24, (1, 1))), "Mul")
    wide = net.conv(net.max_pool(product), 96)
    return net.graph(net.dense(net.mean(net.conv(wide, 0)), 10), net.average_pool(wide))


def counted(network: Network, options: CounterOption) -> list[NodeCounters]:
    """What the simulated board counts for the same blocks."""
    instrument = Instrument(options | CounterOption.NPU_CACHE)
    known = (network.program, network.machine)
    with Runtime(*known, on_epoch=instrument, blob_fetch=True) as runtime:
        runtime.infer()
    return instrument.nodes


def made(graph: Graph, generation: str, controller: bool) -> Network:
    machine = replace(MACHINES[generation], epoch_controller=controller)
    return Network(compile_graph(graph, machine, CompileOptions(3)), machine)


@pytest.mark.parametrize("controller", [False, True], ids=["processor", "controller"])
@pytest.mark.parametrize(
    ("name", "generation"), [("mixed", "4.0"), ("random", "4.0"), ("random", "2.2")]
)
def test_values_and_counters_are_the_simulated_ones(
    name: str, generation: str, controller: bool
) -> None:
    graph = mixed() if name == "mixed" else random_network(4)
    network = made(graph, generation, controller)
    values = sample(graph)
    expected = execute(network.program, values).outputs
    for how, options in (
        (b"i", CounterOption.STRG_I_ACTIVE),
        (b"o", CounterOption.STRG_O_ACTIVE),
        (b"b", CounterOption.BUSIF_RW_DATA),
    ):
        busy = network.bench.computer.npu.time.busy_cycles
        outputs = network.infer(values, how)
        for output, wanted in expected.items():
            np.testing.assert_array_equal(outputs[output], wanted)
        nodes = counted(network, options)
        check_counters(network, nodes, how)
        busy = network.bench.computer.npu.time.busy_cycles - busy
        assert busy == core_cycles(network)


def core_cycles(network: Network) -> int:
    """NPU cycles of all core phases."""
    nodes = counted(network, CounterOption.EPOCH_LEN)
    return sum(node.npu_cycles[1] for node in nodes if node.npu_cycles)


def check_counters(
    network: Network, nodes: list[NodeCounters], how: bytes, overhead: int = _OVERHEAD
) -> None:
    for block, node in zip(network.blocks, nodes, strict=True):
        assert node.cache_read is not None and node.cache_write is not None
        assert block.monitors == (*node.cache_read, *node.cache_write)
        if how == b"b":
            order = ((0, "w"), (0, "r"), (1, "w"), (1, "r"))
            assert block.counters == tuple(c for key in order for c in node.bursts[key])
            continue
        engines = tuple(node.engines.get((i, how.decode()), 0) for i in range(10))
        assert block.counters[1:11] == engines
        assert node.npu_cycles is not None
        assert block.npu_phases[1] == node.npu_cycles[1]
        assert 0 <= block.mcu_phases[1] - node.mcu_cycles[1] < overhead


@pytest.mark.parametrize("controller", [False, True], ids=["processor", "controller"])
def test_polling_and_spinning_take_as_long_as_sleeping(controller: bool) -> None:
    graph = random_network(2)
    network = made(graph, "4.0", controller)
    values = sample(graph)
    expected = execute(network.program, values).outputs
    nodes = counted(network, CounterOption.STRG_I_ACTIVE)
    for how in (b"p", b"s", b"i"):
        outputs = network.infer(values, how)
        for output, wanted in expected.items():
            np.testing.assert_array_equal(outputs[output], wanted)
        overhead = _OVERHEAD + (_ROUND if how == b"p" else 0)
        check_counters(network, nodes, b"i", overhead)


def test_other_inputs_give_other_outputs_with_the_same_registers() -> None:
    graph = random_network(2)
    network = made(graph, "4.0", True)
    for seed in (1, 2, 3):
        values = sample(graph, seed)
        outputs = network.infer(values)
        for output, wanted in execute(network.program, values).outputs.items():
            np.testing.assert_array_equal(outputs[output], wanted)


def test_what_is_kept_between_inferences_may_be_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("npuscope.boards.emulated.npu_groups._MOST_GROUPS", 2)
    graph = random_network(2)
    network = made(graph, "4.0", False)
    values = sample(graph)
    expected = execute(network.program, values).outputs
    for _ in range(2):
        outputs = network.infer(values)
        for output, wanted in expected.items():
            np.testing.assert_array_equal(outputs[output], wanted)
        check_counters(network, counted(network, CounterOption.STRG_I_ACTIVE), b"i")
