"""Networks that ask for more pieces, steps or numbers than fit are refused in one sentence; odd
ones that were once taken for impossible compile."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from compiler.nets import MACHINES, Net, compiled
from npuscope.compiler.lower.pieces import ConvKernel, cut
from npuscope.compiler.lower.scaling import quantized_range
from npuscope.compiler.passes.base import FoldConstants
from npuscope.compiler.pipeline import compile_graph
from npuscope.compiler.place import place
from npuscope.compiler.stages import Value
from npuscope.errors import ModelError
from npuscope.geometry.pieces import piece_count
from npuscope.graph import limits
from npuscope.graph.model import Attrs, DType, Graph, Quant, Tensor
from npuscope.ops.moves import PadAttrs, TileAttrs
from npuscope.ops.reduce import PoolAttrs
from npuscope.ops.verify import verify
from npuscope.program.addresses import AddressMap
from npuscope.program.model import Buffer, Program
from npuscope.structs import replace

MACHINE = MACHINES["4.0"]


def refusal(graph: Graph) -> ModelError:
    with pytest.raises(ModelError) as caught:
        compile_graph(graph, MACHINE)
    return caught.value


def dilated(distance: int, size: int = 4) -> Graph:
    net = Net()
    net.conv(net.input((1, size, size, 8)), 8, dilations=(distance, distance))
    return net.graph()


def test_a_kernel_of_too_many_pieces() -> None:
    error = refusal(dilated(20_000))
    assert error.message == (
        "its window, with the dilation, would be cut into 88,897,778 pieces; the limit is 1,024"
    )
    assert error.where
    assert error.hint == "use a smaller window or a smaller dilation"


def test_a_depthwise_kernel_of_too_many_pieces() -> None:
    net = Net()
    net.conv(net.input((1, 4, 4, 8)), 0, dilations=(30_000, 30_000))
    assert "would be cut into 200,030,001 pieces" in refusal(net.graph()).message


def test_a_pool_of_too_many_pieces() -> None:
    net = Net()
    x = net.input((1, 9, 9, 8))
    half = 5 * 10**8
    attrs = PoolAttrs((2 * half + 1, 2 * half + 1), (1, 1), (half, half, half, half))
    net.op("MaxPool", (x,), attrs, (1, 9, 9, 8), net.quant(x))
    assert "would be cut into 500,000,000 pieces" in refusal(net.graph()).message


def test_ordinary_dilations_compile() -> None:
    assert len(compiled(dilated(18, 20), "4.0").executed) > 60


def test_too_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_STAGES", 10)
    error = refusal(dilated(18, 20))
    assert error.message == "the network needs more than 10 steps on the NPU, which is the limit"
    assert error.hint == "compile the network in parts"


@pytest.mark.parametrize("dilations", [(1, 1), (2, 3), (7, 1)])
def test_pieces_of_a_kernel_are_those_of_the_filled_one(dilations: tuple[int, int]) -> None:
    taps = np.random.default_rng(1).integers(-9, 10, (3, 3, 4, 2)).astype(np.int8)
    kernel = ConvKernel(taps, dilations)
    full = np.zeros(kernel.shape, np.int8)
    full[:, :: dilations[0], :: dilations[1]] = taps
    pieces = cut(kernel.shape[1:3], (1, 1), (0, 0, 0, 0), MACHINE)
    assert len(pieces) == piece_count(kernel.shape[1:3], (1, 1), MACHINE)
    for piece in pieces:
        wanted = full[:, slice(*piece.rows), slice(*piece.columns)]
        assert np.array_equal(piece.of(kernel), wanted)


def test_computed_constants_have_a_budget() -> None:
    graph = Graph("net", (), (), (), ())
    data = np.ones((1, 64), np.int8)
    graph.add(Tensor("c", (1, 64), DType.INT8, Quant((0.1,), (0,)), data))
    net = Net()
    net.built = graph
    net.op("Tile", ("c",), TileAttrs((4_000_000, 1)), (4_000_000, 64), net.quant("c"))
    with pytest.raises(ModelError) as caught:
        FoldConstants().run(graph, MACHINE)
    assert caught.value.message == (
        "computing a constant of shape (4000000, 64) would bring computed constants to "
        "256,000,000 bytes; the limit is 134,217,728"
    )
    assert caught.value.where == graph.ops[0].name


def scalar(kind: str) -> Graph:
    net = Net()
    x = net.input((), (0.02, 0))
    net.op(kind, (x,), Attrs(), (), net.quant(x))
    return net.graph()


@pytest.mark.parametrize("generation", MACHINES)
def test_a_tensor_without_axes(generation: str) -> None:
    program = compiled(scalar("HardSwish"), generation)
    assert {buffer.shape for buffer in program.buffers if buffer.tensor} == {(1,)}


def padded(value: float) -> Graph:
    net = Net()
    x = net.input((1, 5, 5, 8))
    attrs = PadAttrs(((0, 0), (1, 1), (1, 1), (0, 0)), value)
    net.op("Pad", (x,), attrs, (1, 7, 7, 8), net.quant(x))
    return net.built


@pytest.mark.parametrize("value", [inf, -inf, 1e30])
def test_padding_beyond_the_byte_is_a_library_call(value: float) -> None:
    graph = padded(value)
    graph.outputs = (graph.ops[-1].outputs[0],)
    assert [e.kind.value for e in compile_graph(graph, MACHINE).executed] == ["HYBRID"]


def test_padding_with_nan() -> None:
    graph = padded(float("nan"))
    graph.outputs = (graph.ops[-1].outputs[0],)
    with pytest.raises(ModelError, match=r"'value' is nan \(rule 'attribute values'\)"):
        verify(graph, ModelError)


@pytest.mark.parametrize(
    ("limits", "steps"),
    [
        ((0.0, 6.0), (0, 60)),
        ((1e30, 6.0), (127, 60)),
        ((inf, inf), (127, 127)),
        ((-inf, -inf), (-128, -128)),
        ((-inf, inf), None),
    ],
)
def test_limits_of_a_clamp_stay_in_the_byte(
    limits: tuple[float, float], steps: tuple[int, int] | None
) -> None:
    value = Value("y", (1, 1, 8), 8, True, False, Quant((0.1,), (0,)), "y")
    assert quantized_range(limits, value) == steps


def test_a_pool_as_a_whole_keeps_its_place() -> None:
    """Files may refer to bytes that no buffer of theirs covers."""
    program = compiled(dilated(1), "4.0")
    addresses = AddressMap(program.pools, program.buffers)
    pool = next(p for p in program.pools if p.name == "hyperRAM")
    addresses.ref(pool.address + pool.size_bytes - 1)
    whole = addresses.whole_pools
    foreign: Program = replace(program, buffers=(*program.buffers, *whole))
    kept: Buffer = place(foreign, MACHINE).buffers[-1]
    assert (kept.name, kept.pool, kept.offset) == ("@hyperRAM", "hyperRAM", 0)


def test_long_chains_are_cleaned_in_one_go() -> None:
    """Idle ops and clamps by the thousand: every pass looks at each op a few times."""
    net = Net()
    x = net.input((1, 4, 4, 8))
    for _ in range(3000):
        x = net.op("Identity", (x,), Attrs(), (1, 4, 4, 8), net.quant(x))
    net.conv(x, 8)
    assert len(compiled(net.graph(), "4.0").executed) == len(compiled(dilated(1), "4.0").executed)
