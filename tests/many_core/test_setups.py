"""Set-ups: the work of a network, what its time is made of, and the search for the best one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import npuscope
from many_core.nets import EncoderShape, encoder, graph_of
from npuscope.cli.main import main
from npuscope.errors import FileError, ModelError, UsageError
from npuscope.families.many_core.machine import load_core_machine
from npuscope.families.many_core.setups.model import CardSetup, SetupLimit, predict
from npuscope.families.many_core.setups.search import Objective, Wanted, search
from npuscope.families.many_core.setups.work import NetworkWork, network_work
from npuscope.structs import replace

MACHINE = load_core_machine()
SMALL = EncoderShape(layers=2, hidden=64, heads=2, sequence=16, feed_forward=128)


def absent(name: str, *shape: int) -> TensorProto:
    """A tensor in a file that does not exist."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="absent.bin")
    return tensor


def wide_product(path: Path, rows: int, size: int) -> Path:
    """One product whose weights are absent."""
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, size]) for name in ("x", "y")
    ]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "wide", ends[:1], ends[1:], [absent("w", size, size)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    path.write_bytes(model.SerializeToString())
    return path


# --- Work ---


def test_a_batch_is_so_many_times_the_work_of_one() -> None:
    one = network_work(graph_of(encoder(SMALL)), MACHINE)
    four = network_work(graph_of(encoder(replace_batch(4))), MACHINE, 4)
    assert four.macs == one.macs
    assert four.input_bytes == one.input_bytes
    assert four.weight_bytes == one.weight_bytes
    assert four.cycles.sum() == pytest.approx(one.cycles.sum())
    for batch in (1, 4):
        a, b = (predict(work, MACHINE, CardSetup(2, batch=batch)) for work in (one, four))
        assert a.period_ms == pytest.approx(b.period_ms, rel=0.02)


def replace_batch(batch: int) -> EncoderShape:
    return EncoderShape(2, 64, 2, 16, 128, batch)


def test_floats_cross_pcie_with_32_bits() -> None:
    work = network_work(graph_of(encoder(SMALL)), MACHINE)
    graph = graph_of(encoder(SMALL))
    floats = [graph.tensors[name] for name in graph.outputs]
    assert work.output_bytes == sum(4 * tensor.elements for tensor in floats)


def test_absent_weights_are_timed_and_noted(tmp_path: Path) -> None:
    """16 GB of weights that are nowhere: no memory is taken for them."""
    path = wide_product(tmp_path / "wide.onnx", 1, 1 << 16)
    found = npuscope.manycore_setups(path, objective="latency", cores=14)
    assert found.notes[-1] == "weights were not read: times do not depend on their values"
    # 8.6 GB of half floats at 125 GB/s.
    assert found.best.limit is SetupLimit.DDR
    assert found.best.latency_ms == pytest.approx(2 * 2**32 / 125e9 * 1e3, rel=0.1)


def test_a_file_whose_weights_are_absent_is_compiled_and_timed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, note = wide_product(tmp_path / "wide.onnx", 1, 8192), "weights were not read"
    profile = npuscope.estimate(path, machine="cloudai100", overrides={"cores.count": 4})
    best = npuscope.manycore_setups(path, cores=4, copies=1, batch=1, in_flight=1).best
    assert profile.total_ms == best.latency_ms
    assert any(note in text for text in profile.notes)
    assert profile.payload.build.program.constant_bytes == 2 * 8192**2
    assert main(["explain", str(path), "--machine", "cloudai100", "--set", "cores.count=4"]) == 0
    assert note in capsys.readouterr().out
    npuscope.manycore_compile(path, directory=tmp_path / "bin", cores=4)
    assert (tmp_path / "bin" / "programqpc.bin").stat().st_size < 8 << 20
    assert npuscope.manycore_run(tmp_path / "bin", num_iter=3).inferences == 3
    with pytest.raises(ModelError, match="weights were not read, so nothing can be computed"):
        npuscope.validate(path, machine="cloudai100")
    missing = tmp_path / "missing.onnx"
    with pytest.raises(FileError, match=r"not found|does not exist|no such"):
        npuscope.manycore_compile(missing)


# --- Time ---


def test_more_of_a_road_makes_what_waits_for_it_faster() -> None:
    work = network_work(graph_of(encoder(SMALL)), MACHINE)
    slow = replace(MACHINE, host=replace(MACHINE.host, fixed_us=1000.0))
    usual, late = (predict(work, m, CardSetup(1, 14)) for m in (MACHINE, slow))
    more = (1000.0 - MACHINE.host.fixed_us) / 1e3
    assert late.latency_ms == pytest.approx(usual.latency_ms + more, rel=0.05)
    # With several in flight the host is at work beside the device.
    assert predict(work, slow, CardSetup(1, 14, in_flight=4)).period_ms < 0.5 * late.period_ms


def test_blocks_of_six_bits_load_faster_and_cost_conversions(tmp_path: Path) -> None:
    from npuscope.families.many_core.setups.network import timed_network

    path = wide_product(tmp_path / "wide.onnx", 1, 8192)
    work = timed_network(path, MACHINE).work
    plain, packed = (predict(work, MACHINE, CardSetup(14, mxfp6=six)) for six in (False, True))
    assert packed.ddr_bytes == pytest.approx(plain.ddr_bytes * 0.390625, rel=0.01)
    assert packed.parts_ms[SetupLimit.HVX] > plain.parts_ms[SetupLimit.HVX]
    assert packed.device_ms < plain.device_ms


def test_energy_is_given_only_where_it_was_published() -> None:
    work = network_work(graph_of(encoder(SMALL)), MACHINE)
    assert (predict(work, MACHINE, CardSetup(1)).watts or 0) > 10
    unknown = replace(MACHINE, power=None)
    assert predict(work, unknown, CardSetup(1)).watts is None
    assert predict(work, unknown, CardSetup(1)).inferences_per_j is None


def skip_over(path: Path, skips: bool) -> Path:
    """Four convolutions; the sum behind them reads the first one's output or the last one's."""
    shape, names = [1, 64, 64, 64], [f"v{number}" for number in range(5)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("v0", "y")]
    weights = [absent(f"w{number}", 64, 64, 3, 3) for number in range(4)]
    nodes = [
        helper.make_node("Conv", [names[i], f"w{i}"], [names[i + 1]], pads=[1] * 4)
        for i in range(4)
    ]
    nodes.append(helper.make_node("Add", ["v4", "v1" if skips else "v4"], ["y"]))
    graph = helper.make_graph(nodes, "skip", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    path.write_bytes(model.SerializeToString())
    return path


def test_what_waits_for_a_later_op_takes_room_meanwhile(tmp_path: Path) -> None:
    """512 KB a tensor: two per layer, and a third one beneath while a sum waits for it."""
    from npuscope.families.many_core.setups.network import timed_network

    plain, skipping = (
        timed_network(skip_over(tmp_path / f"{skips}.onnx", skips), MACHINE).work
        for skips in (False, True)
    )
    size = 2 * 64 * 64 * 64
    layers = plain.held[plain.products] / size
    assert list(layers) == [2, 2, 2, 2]
    assert list(skipping.held[skipping.products] / size) == [2, 2, 3, 3]
    # So a batch of 5 needs more than the room of a core, and the weights of two layers come again.
    setup = CardSetup(1, batch=5)
    room = replace(MACHINE, setups=replace(MACHINE.setups, room_bytes=12 * size, resident_bytes=0))
    once, again = (predict(work, room, setup).ddr_bytes for work in (plain, skipping))
    assert again - once == pytest.approx(2 * skipping.weights[skipping.products][0], rel=0.01)


def test_each_further_core_adds_less_to_what_cores_wait_for() -> None:
    """A core gets all but its own part from the others: 1/2, 2/3, ... 13/14 of it."""
    work = network_work(graph_of(encoder(SMALL)), MACHINE)
    waits = [
        predict(work, MACHINE, CardSetup(cores)).parts_ms[SetupLimit.SYNC] for cores in range(1, 15)
    ]
    steps = np.diff(waits[1:])
    assert waits[1] > waits[0]
    assert all(steps > 0) and all(np.diff(steps) < 0)
    assert waits[13] - waits[11] < 0.05 * (waits[11] - waits[0])


# --- Search ---


def test_the_best_is_first_and_every_number_of_cores_is_tried() -> None:
    work = network_work(graph_of(encoder(SMALL)), MACHINE)
    fast = search(work, MACHINE, Objective.LATENCY)
    assert [row.latency_ms for row in fast.rows] == sorted(row.latency_ms for row in fast.rows)
    assert {row.setup.cores for row in fast.rows} == set(range(1, 15))
    assert all(row.setup.batch == 1 and row.setup.in_flight == 1 for row in fast.rows)
    most = search(work, MACHINE, Objective.THROUGHPUT)
    rates = [row.inferences_per_s for row in most.rows]
    assert rates == sorted(rates, reverse=True) and len(rates) == 14 * 16
    assert most.rank(most.rows[3].setup) == 4
    calm = search(work, MACHINE, Objective.BALANCED)
    assert {row.setup.in_flight for row in calm.rows} == {1}
    assert calm.best.inferences_per_s <= most.best.inferences_per_s


def test_what_the_user_decided_is_kept() -> None:
    work = network_work(graph_of(encoder(SMALL)), MACHINE)
    ranking = search(work, MACHINE, Objective.THROUGHPUT, Wanted(8, 2, 7, 3))
    assert [row.setup for row in ranking.rows] == [CardSetup(2, 7, 8, 3)]


def test_a_set_up_without_room_says_why() -> None:
    work = network_work(graph_of(encoder(SMALL)), MACHINE)
    wide = replace(work, weights=work.weights + 1e9 / len(work.weights))
    ranking = search(wide, replace(MACHINE, ddr=replace(MACHINE.ddr, capacity_gb=8.0)),
        Objective.LATENCY)  # fmt: skip
    assert {one.setup.copies for one in ranking.unfit} == {14}
    assert ranking.unfit[0].reason == "14.0 GB of weights and states, DDR has 8"
    with pytest.raises(ModelError, match="no set-up fits: "):
        search(wide, replace(MACHINE, ddr=replace(MACHINE.ddr, capacity_gb=0.5)),
            Objective.LATENCY)  # fmt: skip


# --- The verb ---


def test_the_verb_prints_the_best_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(encoder(SMALL))
    assert main(["manycore", "setups", str(path), "--objective", "latency"]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert ", batch 1, 1 in flight: " in first and " inferences/s, " in first
    assert "search   latency, 14 set-ups compared" in rest
    assert any(line.startswith("energy   ") for line in rest)
    assert main(["manycore", "setups", str(path), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == "npuscope/setups/1" and len(answer["setups"]) == 224
    low, high = answer["setups"][0]["interval_ms"]
    assert low < answer["setups"][0]["latency_ms"] < high


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"batch": 0}, "expected at least 1, found 0"),
        ({"cores": 8, "copies": 2}, "2 x 8 cores: a card has 14"),
    ],
)
def test_impossible_wishes_are_refused(tmp_path: Path, options: dict[str, int], text: str) -> None:
    with pytest.raises(UsageError) as caught:
        npuscope.manycore_setups(tmp_path / "net.onnx", **options)
    assert caught.value.message == text


def test_rows_of_a_picture_cannot_pass_a_mean_that_scales_it() -> None:
    """Squeeze and excite: marked up to the product behind the scaled picture."""
    from models_onnx import OnnxWriter

    net = OnnxWriter()
    x = net.input("x", (1, 32, 8, 8))
    wide = net.constant(np.ones((32, 32, 1, 1), np.float32))
    y = net.node("Conv", x, wide)
    scale = net.node("Sigmoid", net.node("GlobalAveragePool", y))
    z = net.node("Conv", net.node("Mul", y, scale), wide)
    last = net.node("Conv", z, wide)
    work = network_work(graph_of(net.finish({last: (1, 32, 8, 8)})), MACHINE)
    kinds = list(work.products)
    assert work.pictures.any() and not work.pictures[-2:].all()
    assert len(kinds) == len(work.pictures)


def test_estimate_takes_an_objective(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(encoder(SMALL))
    profile = npuscope.estimate(path, machine="cloudai100", objective="latency")
    best = npuscope.manycore_setups(path, objective="latency").best
    assert profile.total_ms == best.latency_ms
    assert profile.inferences_per_s == pytest.approx(best.inferences_per_s)
    words = ["--machine", "cloudai100", "--objective", "throughput"]
    assert main(["estimate", str(path), *words, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["schema"] == "npuscope/setups/1" and answer["objective"] == "throughput"
    assert main(["explain", str(path), *words]) == 0
    assert ", bound by " in capsys.readouterr().out.splitlines()[0]
    assert main(["estimate", str(path), "--objective", "latency"]) == 2  # of another family
    assert "does not apply" in capsys.readouterr().err


# --- What cores share of a picture ---


def joined_halves(tmp_path: Path, channels: int) -> NetworkWork:
    """Two convolutions of one picture, side by side in their channels."""
    from npuscope.families.many_core.setups.network import timed_network

    shape = [1, 64, 32, 32]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, shape),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2 * channels, 32, 32]),
    ]
    weights = [absent(name, channels, 64, 1, 1) for name in ("a", "b")]
    nodes = [helper.make_node("Conv", ["x", name], [f"{name}_out"]) for name in ("a", "b")]
    nodes.append(helper.make_node("Concat", ["a_out", "b_out"], ["y"], axis=1))
    graph = helper.make_graph(nodes, "halves", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    path = tmp_path / f"halves_{channels}.onnx"
    path.write_bytes(model.SerializeToString())
    return timed_network(path, MACHINE).work


def test_channels_that_leave_their_blocks_cross_between_cores(tmp_path: Path) -> None:
    """48 channels end in the middle of a block of 32, 64 do not."""
    odd, even = (joined_halves(tmp_path, channels) for channels in (48, 64))
    four, alone = CardSetup(4), CardSetup(1)
    assert predict(odd, MACHINE, four).parts_ms[SetupLimit.EXCHANGE] > 0
    assert predict(even, MACHINE, four).parts_ms[SetupLimit.EXCHANGE] == 0
    assert predict(odd, MACHINE, alone).parts_ms[SetupLimit.EXCHANGE] == 0


def test_a_core_waits_only_for_what_others_may_have_made(tmp_path: Path) -> None:
    from npuscope.families.many_core.setups.network import timed_network

    work = timed_network(skip_over(tmp_path / "skip.onnx", True), MACHINE).work
    # Four convolutions and the turn of the picture; a sum takes the same part of both.
    assert list(work.gathers[work.products]) == [True] * 4
    assert not work.gathers[-2:].all()


def test_the_edges_of_a_picture_are_filled_up_to_blocks() -> None:
    """Of 8 columns and, in half floats, 4 rows: 17 x 17 places take as long as 20 x 24."""
    from models_onnx import OnnxWriter

    rows = {}
    for side in (16, 17):
        net = OnnxWriter()
        wide = net.constant(np.ones((32, 32, 1, 1), np.float32))
        y = net.node("Conv", net.input("x", (1, 32, side, side)), wide)
        work = network_work(graph_of(net.finish({y: (1, 32, side, side)})), MACHINE)
        rows[side] = int(work.rows[work.products].sum())
    assert rows == {16: 16 * 16, 17: 20 * 24}


def test_the_range_of_convolutions_is_wider_than_that_of_encoders(tmp_path: Path) -> None:
    images, words = joined_halves(tmp_path, 64), network_work(graph_of(encoder(SMALL)), MACHINE)
    assert predict(images, MACHINE, CardSetup(1)).interval == MACHINE.setups.convolving_interval
    assert predict(words, MACHINE, CardSetup(1)).interval == MACHINE.setups.interval
