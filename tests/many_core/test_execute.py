"""Programs that are executed compute their network, however they are cut, placed and ordered."""

from __future__ import annotations

import numpy as np
import pytest

from many_core.nets import (
    EncoderShape,
    convolutions,
    encoder,
    graph_of,
    integer_net,
    wide_product,
    zoo,
)
from many_core.public_nets import bert, gpt2, mobilenet_v2
from npuscope.errors import ModelError, TargetError, UsageError
from npuscope.families.many_core.compiler.options import CoreCompileOptions
from npuscope.families.many_core.compiler.pipeline import compile_graph
from npuscope.families.many_core.container import read_program, write_program
from npuscope.families.many_core.execute import execute
from npuscope.families.many_core.machine import CoreMachine, load_core_machine
from npuscope.families.many_core.program import CoreProgram
from npuscope.graph.model import Graph
from npuscope.ops.run import run
from npuscope.structs import replace

MACHINE = load_core_machine()
# So little memory that everything is cut, and something spills.
SMALL = load_core_machine(
    overrides={
        "memory.vtcm_bytes": 65536,
        "memory.weight_chunk_bytes": 8192,
        "memory.tile_bytes": 8192,
        "memory.keep_constant_bytes": 4096,
    }
)
NETS = {
    "encoder": encoder(EncoderShape(layers=2)),
    "odd": encoder(EncoderShape(1, hidden=96, heads=3, sequence=23, feed_forward=160, batch=2)),
    "convolutions": convolutions(size=19, channels=40),
    "pictures": convolutions(size=19, channels=40, batch=5),
    "product": wide_product(600, 1000, 5),
    "zoo": zoo(),
    "integer": integer_net(),
}
# Real sizes but for tokens and pixels; their full sizes are run by benchmarks/manycore_accuracy.py.
LARGE = {"bert": bert(1, 2, 16), "gpt2": gpt2(1, 2, 16), "mobilenet": mobilenet_v2(2, 32)}
GRAPHS = {name: graph_of(data) for name, data in {**NETS, **LARGE}.items()}


def values_for(graph: Graph, seed: int = 1) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    found = {}
    for name in graph.inputs:
        tensor = graph.tensors[name]
        if tensor.dtype.is_float:
            found[name] = random.standard_normal(tensor.shape, np.float32)
        elif tensor.quant is not None:
            found[name] = random.integers(-100, 100, tensor.shape).astype(tensor.dtype.numpy)
        else:
            found[name] = random.integers(0, 2, tensor.shape).astype(tensor.dtype.numpy)
    return found


def compiled(net: str, machine: CoreMachine, cores: int, devices: int = 1) -> CoreProgram:
    return compile_graph(GRAPHS[net], machine, CoreCompileOptions(cores=cores, devices=devices))


def check_equal(net: str, program: CoreProgram, seed: int = 0) -> None:
    """Integers to the bit; floats within what half floats lose on their way."""
    graph = GRAPHS[net]
    given = values_for(graph)
    expected, found = run(graph, given), execute(program, given, seed)
    assert set(found) == set(graph.outputs)
    for name in graph.outputs:
        want = expected[name]
        assert found[name].dtype == want.dtype and found[name].shape == want.shape
        if graph.tensors[name].dtype.is_float:
            assert np.abs(found[name] - want).max() <= 0.005 * np.abs(want).max(), name
        else:
            assert np.array_equal(found[name], want), name


@pytest.mark.parametrize("machine", [MACHINE, SMALL], ids=["8 MiB", "64 KiB"])
@pytest.mark.parametrize(("cores", "devices"), [(1, 1), (2, 1), (5, 1), (16, 1), (3, 2)])
@pytest.mark.parametrize("net", NETS)
def test_a_program_computes_its_network(
    net: str, cores: int, devices: int, machine: CoreMachine
) -> None:
    check_equal(net, compiled(net, machine, cores, devices), seed=cores)


@pytest.mark.parametrize("cores", [2, 16])
@pytest.mark.parametrize("net", LARGE)
def test_networks_as_exporters_write_them_are_computed(net: str, cores: int) -> None:
    check_equal(net, compiled(net, MACHINE, cores))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("cores", [1, 2, 5])
@pytest.mark.parametrize("net", ["pictures", "odd"])
def test_a_batch_in_parts_computes_the_same(net: str, cores: int, seed: int) -> None:
    options = CoreCompileOptions(cores=cores, depth_first=True)
    check_equal(net, compile_graph(GRAPHS[net], SMALL, options), seed)


@pytest.mark.parametrize("seed", range(8))
def test_every_order_that_the_waits_allow_gives_the_same(seed: int) -> None:
    program = compiled("odd", SMALL, 3)
    given = values_for(GRAPHS["odd"])
    first, other = execute(program, given, 0), execute(program, given, seed)
    assert np.array_equal(first["out"], other["out"])


def test_without_its_waits_a_program_computes_something_else() -> None:
    program = compiled("odd", SMALL, 3)
    given = values_for(GRAPHS["odd"])
    right = execute(program, given)["out"]
    parts = [
        replace(
            part,
            ops=tuple(
                tuple(tuple(replace(op, waits_for=()) for op in group) for group in groups)
                for groups in part.ops
            ),
        )
        for part in program.devices
    ]
    wrong = execute(replace(program, devices=tuple(parts)), given)["out"]
    assert not np.array_equal(wrong, right)


def test_one_byte_of_overlap_in_vtcm_shows() -> None:
    """Two buffers that are in use at once get the same place."""
    program = compiled("encoder", MACHINE, 1)
    code = program.code
    assert code is not None
    inside = [n for n, held in enumerate(code.buffers) if held.offset is not None]
    moved = [
        replace(held, offset=code.buffers[inside[0]].offset) if number == inside[1] else held
        for number, held in enumerate(code.buffers)
    ]
    given = values_for(GRAPHS["encoder"])
    broken = replace(program, code=replace(code, buffers=tuple(moved)))
    assert not np.array_equal(execute(broken, given)["out"], execute(program, given)["out"])


def test_sums_are_rounded_to_half_floats_part_by_part() -> None:
    """Three parts of a sum: what each leaves in the output is a half float."""
    graph = graph_of(wide_product(600, 64, 2))
    program = compile_graph(graph, MACHINE, CoreCompileOptions(cores=1))
    x = np.random.default_rng(3).standard_normal((2, 600), np.float32)
    weights = graph.tensors[graph.ops[0].inputs[1]].data.astype(np.float16).astype(np.float32)
    halves = x.astype(np.float16).astype(np.float32)
    total = np.zeros((2, 64), np.float16)
    for low, high in ((0, 160), (160, 320), (320, 480), (480, 600)):
        part = halves[:, low:high] @ weights[:, low:high].T
        total = (total.astype(np.float32) + part).astype(np.float16)
    found = execute(program, {"x": x})["out"]
    assert np.abs(found - total).max() <= np.abs(total).max() * 2**-10
    exact = x.astype(np.float64) @ graph.tensors[graph.ops[0].inputs[1]].data.T
    assert np.abs(found - exact).max() > 0


def test_what_cannot_be_executed_is_told() -> None:
    program = compiled("product", MACHINE, 2)
    with pytest.raises(UsageError, match="no arithmetic"):
        execute(read_program(write_program(program)), values_for(GRAPHS["product"]))
    with pytest.raises(ModelError, match="expected values of shape"):
        execute(program, {})


def test_a_program_that_waits_for_itself_is_told() -> None:
    program = compiled("product", MACHINE, 1)
    part = program.devices[0]
    groups = [list(group) for group in part.ops[0]]
    groups[2][0] = replace(groups[2][0], waits_for=(groups[2][-1].key,))
    ops = ((tuple(tuple(group) for group in groups)),)
    stuck = replace(program, devices=(replace(part, ops=ops),))
    with pytest.raises(TargetError, match="waits forever"):
        execute(stuck, values_for(GRAPHS["product"]))


def _float_island(seed: int = 0) -> bytes:
    """Integers, a PRelu with float slopes between conversions, integers: as some quantizers leave
    it. Values lie near the middle between two integers on purpose."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(seed)
    slopes = random.uniform(0.1, 0.4, (16, 1, 1)).astype(np.float32)
    constants = {
        "s": np.float32(1 / 64),
        "t": np.float32(1 / 127),
        "z": np.int8(0),
        "slope": slopes,
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("PRelu", ["d", "slope"], ["p"]),
        helper.make_node("QuantizeLinear", ["p", "t", "z"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "t", "z"], ["y"]),
    ]
    shape = [1, 16, 24, 24]
    graph = helper.make_graph(
        nodes,
        "island",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(onnx.ModelProto.SerializeToString(model))


def test_a_float_op_between_integers_is_exact() -> None:
    graph = graph_of(_float_island())
    program = compile_graph(graph, load_core_machine(), CoreCompileOptions(cores=2))
    assert not {op.kind for op in program.code.graph.ops} & {"Quantize"}
    name = graph.inputs[0]
    tensor = graph.tensors[name]
    values = np.random.default_rng(1).integers(-128, 128, tensor.shape).astype(tensor.dtype.numpy)
    expected, results = run(graph, {name: values}), execute(program, {name: values})
    for output in graph.outputs:
        assert np.array_equal(results[output], expected[output])
