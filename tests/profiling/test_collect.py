"""Profiles through a device: passes add up to the simulator's own totals, to the cycle."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from msgspec.structs import astuple

from npuscope.boards.device import CounterOption, Inference, Request
from npuscope.boards.simulated import SimulatedBoard
from npuscope.building import build
from npuscope.demo_network import demo_graph
from npuscope.errors import DeviceError, UsageError
from npuscope.profiling.collect import collect
from npuscope.profiling.model import Provenance
from npuscope.profiling.passes import CounterMetric, CounterPass, CounterPlan, counter_plan
from npuscope.profiling.run import profile
from npuscope.program.model import EpochKind
from npuscope.report.json_report import profile_json
from npuscope.report.profile import profile_text
from npuscope.sim.counters import Bound
from npuscope.structs import replace


def made(epoch_controller=False, **options):
    return build(demo_graph(), {"epoch_controller": epoch_controller, **options})


def totals(found):
    """Whole cycles by phase, engines, bursts, cache."""
    rows = [epoch.counters for epoch in found.epochs]
    engines, bursts = Counter(), Counter()
    for row in rows:
        for engine in row.engines:
            engines[engine.id, engine.dir] += engine.active_cycles
        for bus in row.busif:
            for direction, counts in (("r", bus.read_bursts), ("w", bus.write_bursts)):
                bursts.update({(bus.id, direction, i): n for i, n in enumerate(counts)})
    cycles = [
        sum(round(getattr(row, f"{phase}_cycles")) for row in rows)
        for phase in ("pre", "core", "post")
    ]
    cache = [sum(column) for column in zip(*(astuple(row.cache) for row in rows), strict=True)]
    return cycles, +engines, +bursts, cache


@pytest.mark.parametrize("vendor_plan", [False, True])
@pytest.mark.parametrize(
    "options",
    [{}, {"epoch_controller": True}, {"epoch_controller": True, "ec_single_epoch": True}],
)
def test_passes_add_up_to_the_simulators_own_totals(options, vendor_plan):
    net = made(**options)
    plan = counter_plan(program=net.program, vendor_plan=vendor_plan)
    board = SimulatedBoard(net.program, net.machine)
    found = collect(board, net.program.name, plan, program=net.program, machine=net.machine)
    expected = profile(net.program, net.machine)
    assert totals(found) == totals(expected)
    assert found.program_hash == expected.program_hash
    assert found.memory == expected.memory and found.counts == expected.counts
    # Whole cycles: a cycle a phase may be lost.
    assert found.total_ms == pytest.approx(expected.total_ms, rel=1e-4)
    assert sum(value for _, value in found.time.by_work) == pytest.approx(found.total_ms)
    assert found.time.npu_core_ms == pytest.approx(expected.time.npu_core_ms, rel=1e-4)
    assert found.interval_ms == pytest.approx(expected.interval_ms, rel=1e-4)


def test_a_mobilenet_adds_up(shared_models):
    source = shared_models / "mobilenet_v2_1.0_224_int8.tflite"
    for controller in (True, False):
        net = build(source, {"epoch_controller": controller})
        plan = counter_plan(program=net.program)
        board = SimulatedBoard(net.program, net.machine)
        found = collect(board, net.program.name, plan, None, 1, net.program, net.machine)
        assert totals(found) == totals(profile(net.program, net.machine))


def test_epochs_carry_what_the_program_says():
    net = made()
    found = collected(net)
    expected = profile(net.program, net.machine)
    for one, other in zip(found.epochs, expected.epochs, strict=True):
        assert (one.name, one.claims, one.origin) == (other.name, other.claims, other.origin)
        assert (one.operators, one.units) == (other.operators, other.units)
        assert one.counters.bound is other.counters.bound
        assert one.counters.traffic == other.counters.traffic
        pools = {(e.id, e.dir): (e.pool, e.bytes, e.busif) for e in other.counters.engines}
        for engine in one.counters.engines:
            assert pools[engine.id, engine.dir] == (engine.pool, engine.bytes, engine.busif)


def test_a_blob_is_one_epoch_with_summed_claims():
    net = made(epoch_controller=True)
    found, expected = collected(net), profile(net.program, net.machine)
    blob, softmax = found.epochs
    covered = [epoch for epoch in expected.epochs if epoch.blob is not None]
    assert (blob.first, blob.last) == (covered[0].first, covered[-1].last)
    assert blob.claims.ops == sum(epoch.claims.ops for epoch in covered)
    assert blob.claims.max_cycles == sum(epoch.claims.max_cycles for epoch in covered)
    accesses = sum(a.reads + a.writes for epoch in covered for a in epoch.claims.accesses)
    assert sum(a.reads + a.writes for a in blob.claims.accesses) == accesses
    assert blob.units["STRENG"] == sum(epoch.units["STRENG"] for epoch in covered)
    assert blob.counters.bound is max(covered, key=lambda epoch: epoch.ms).counters.bound
    assert softmax.kind is EpochKind.SW


def test_a_simulated_board_is_never_called_measured():
    net = made()
    found = collected(net)
    assert found.runs[0].source is Provenance.SIMULATION
    assert found.model_error == profile(net.program, net.machine).model_error


# Other devices, played by a list of answers.


class Recorded:
    """Answers one run after the other; like a board it knows no program."""

    source = "board"

    def __init__(self, board, change=lambda run, nodes: nodes, text=""):
        self.board, self.change, self.text, self.runs = board, change, text, 0

    def info(self):
        known = self.board.info()
        nets = tuple(replace(net, runtime="LL_ATON" + self.text) for net in known.networks)
        return replace(known, description="STM32N6xx", protocol="serial", networks=nets)

    def run(self, request):
        answer = self.board.run(request)
        self.runs += 1
        nodes = tuple(self.change(self.runs, answer.nodes))
        return Inference(nodes, answer.outputs, answer.mcu_cycles, answer.duration_ms)

    def close(self):
        pass


def collected(net, plan=None, batch=1):
    board = SimulatedBoard(net.program, net.machine)
    plan = plan or counter_plan(program=net.program)
    return collect(board, net.program.name, plan, None, batch, net.program, net.machine)


def played(change=lambda run, nodes: nodes, text="", **arguments):
    net = made()
    device = Recorded(SimulatedBoard(net.program, net.machine), change, text)
    plan = counter_plan(program=net.program)
    return collect(device, net.program.name, plan, **arguments)


def test_a_device_behind_a_wire_is_known_by_its_word():
    assert played().runs[0].source is Provenance.BOARD
    assert played(text=" simulated").runs[0].source is Provenance.SIMULATION


def test_without_a_program_the_device_alone_speaks():
    net = made()
    found = played()
    assert totals(found) == totals(profile(net.program, net.machine))
    assert {epoch.counters.bound for epoch in found.epochs} == {Bound.UNKNOWN}
    assert found.counts["SW"] == 1 and found.counts["blobs"] == 0
    assert [t.name for t in found.model.inputs] == ["image"]
    text = profile_text(found, full=True)
    assert text.startswith("runs on the device; ") and "measured on a board" in text
    parsed = json.loads(json.dumps(profile_json(found)))
    assert parsed["fit"] is None and parsed["memory"] is None


def test_a_batch_gives_mean_and_spread():
    def slower(run, nodes):
        """The first pass takes 0, 80000 and 240000 MCU cycles more in the first epoch."""
        pre, core, post = nodes[0].mcu_cycles
        late = {2: 80_000, 3: 240_000}.get(run, 0)
        return (replace(nodes[0], mcu_cycles=(pre, core, post + late)), *nodes[1:])

    once, found = played(), played(slower, batch=3)
    first, spread = found.epochs[0], found.epochs[0].spread
    low = once.epochs[0].ms
    assert (spread.min, spread.median, spread.max, spread.n) == pytest.approx(
        (low, low + 0.1, low + 0.3, 3)
    )
    assert first.ms == pytest.approx(low + 0.4 / 3)
    assert found.interval_ms == pytest.approx((once.total_ms, once.total_ms + 0.3))
    assert found.runs[0].n == 3


def test_extra_nodes_go_into_the_hybrid_before_them():
    def with_hybrid(run, nodes):
        hybrid = replace(nodes[0], kind=EpochKind.HYBRID)
        extra = replace(nodes[1], name="EpochBlock_-1", number=-1, last=-1, extra=True)
        return (hybrid, extra, *nodes[1:])

    plain, found = played(), played(with_hybrid)
    assert [epoch.name for epoch in found.epochs] == [epoch.name for epoch in plain.epochs]
    merged, (first, second) = found.epochs[0].counters, plain.epochs[:2]
    assert merged.core_cycles == first.counters.core_cycles + second.counters.core_cycles
    assert merged.post_cycles == first.counters.post_cycles + second.counters.post_cycles
    reads = [bus.read_bytes for e in (first, second) for bus in e.counters.busif]
    assert sum(bus.read_bytes for bus in merged.busif) == sum(reads)
    misses = first.counters.cache.read_miss + second.counters.cache.read_miss
    assert merged.cache.read_miss == misses


def test_an_extra_node_needs_its_hybrid():
    with pytest.raises(DeviceError, match="internal block without a hybrid"):
        played(lambda run, nodes: (replace(nodes[0], extra=True), *nodes[1:]))


def test_passes_must_show_the_same_epochs():
    def other(run, nodes):
        return nodes if run == 1 else (replace(nodes[0], name="EpochBlock_77"), *nodes[1:])

    with pytest.raises(DeviceError) as caught:
        played(other)
    assert "inferences 1 and 2 do not have the same epochs: 'EpochBlock_" in str(caught.value)
    with pytest.raises(DeviceError, match="same epochs: their number"):
        played(lambda run, nodes: nodes[: 22 - run])


def test_a_device_without_epochs_is_refused():
    with pytest.raises(DeviceError, match="no epochs were counted"):
        played(lambda run, nodes: ())


def test_without_npu_cycles_the_mcus_are_converted():
    plan = CounterPlan((CounterPass(CounterOption.BUSIF_RW_DATA, "bursts"),))
    net = made()
    found = collected(net, plan)
    node = (
        SimulatedBoard(net.program, net.machine)
        .run(Request(net.program.name, options=CounterOption.BUSIF_RW_DATA))
        .nodes[0]
    )
    ratio = net.machine.clocks.npu_mhz / net.machine.clocks.mcu_mhz
    assert found.epochs[0].counters.core_cycles == node.mcu_cycles[1] * ratio


def test_only_what_was_asked_for_is_counted():
    net = made()
    found = collected(net, counter_plan([CounterMetric.CYCLES]))
    assert not any(e.counters.engines or e.counters.busif for e in found.epochs)


def test_a_program_of_another_build_is_noted():
    net = made()
    other = replace(net.program, epochs=net.program.epochs[:5])
    assert played(program=other).notes == (
        "18 of 22 blocks are not in the program, the first is EpochBlock_6",
    )
    assert not played(program=net.program).notes


def test_bad_requests_say_what_is_there():
    net = made()
    board = SimulatedBoard(net.program, net.machine)
    with pytest.raises(DeviceError) as caught:
        collect(board, "nothing", counter_plan())
    assert str(caught.value).endswith(f"hint: it has: {net.program.name}")
    with pytest.raises(UsageError, match="expected at least 1 sample, found 0"):
        collect(board, net.program.name, counter_plan(), batch=0)


def test_a_measured_time_stands_beside_the_prediction():
    net = made()
    found = played(program=net.program, machine=net.machine)
    assert found.runs[0].source is Provenance.BOARD
    simulated = profile(net.program, net.machine)
    for measured, predicted in zip(found.epochs, simulated.epochs, strict=True):
        assert measured.predicted_ms == predicted.ms
    assert "predicted" in profile_text(found)
    assert all(epoch.predicted_ms is None for epoch in collected(net).epochs)


def test_a_cache_line_that_a_log_lacks_counts_in_no_mean():
    """Reads have both inferences of a pass, writes only the first: each mean is its own."""

    def without_writes(run, nodes):
        lost = {} if run % 2 else {"cache_write": None}
        counted = {"cache_read": (run, 2, 3, 4), "cache_write": (5, 6, 7, 8)} | lost
        return [replace(node, **(counted if node.cache_read else {})) for node in nodes]

    cached = [e.counters.cache for e in played(without_writes, batch=2).epochs]
    assert any(astuple(cache)[1:] == (2, 3, 4, 5, 6, 7, 8) for cache in cached)
