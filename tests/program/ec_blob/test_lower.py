"""Groups to a blob and back: the same units, links and bytes in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from compiler.nets import (
    Net,
    compiled,
    dilated,
    random_network,
    sample,
    small_groups,
    uint8_network,
)
from npuscope.demo_network import demo_graph
from npuscope.errors import TargetError
from npuscope.graph.model import Graph
from npuscope.program.ec_blob.instructions import Irq, Label, Poll, WriteField
from npuscope.program.ec_blob.lower import lower
from npuscope.program.model import Epoch, EpochKind, Group, Program
from npuscope.program.modes import ArithOp, Bcast
from npuscope.program.units import Arith, Link, Port, Ref, Streng
from npuscope.sim.memory import Memory
from npuscope.sim.run import execute
from npuscope.structs import replace
from program.ec_blob.lifted import blob_indices, held, through_blobs


def activations() -> Graph:
    """Units that the random networks do not use."""
    net = Net(3)
    x = net.conv(net.input((1, 12, 10, 8)), 24, (3, 3))
    x = net.max_pool(net.sigmoid(x), (2, 2), (2, 2))
    return net.graph(net.dense(net.mean(x), 5))


def wide() -> Graph:
    """More channels than the first window of a coefficient memory reaches."""
    net = Net(5)
    return net.graph(net.conv(net.input((1, 3, 3, 16)), 448, (1, 1)))


NETWORKS = {
    "demo": demo_graph,
    "uint8": uint8_network,
    "groups": small_groups,
    "dilated": dilated,
    "activations": activations,
    "wide": wide,
    **{f"random{seed}": lambda seed=seed: random_network(seed) for seed in range(6)},
}


@pytest.fixture(scope="module", params=NETWORKS)
def graph(request: pytest.FixtureRequest) -> Graph:
    return NETWORKS[request.param]()


@pytest.mark.parametrize("generation", ["2.2", "4.0", "open"])
def test_a_blob_holds_what_the_units_were_given(graph: Graph, generation: str) -> None:
    program = compiled(graph, generation)
    changed, _ = through_blobs(program)
    assert blob_indices(program)
    for before, after in zip(program.epochs, changed.epochs, strict=True):
        for ours, lifted in zip(before.groups or (), after.groups or (), strict=True):
            assert settings(changed, lifted) == settings(program, ours)
            assert sorted(lifted.links, key=str) == sorted(ours.links, key=str)


@pytest.mark.parametrize("generation", ["2.2", "4.0", "open"])
def test_lifted_groups_leave_the_same_memory(graph: Graph, generation: str) -> None:
    program = compiled(graph, generation)
    changed, _ = through_blobs(program)
    inputs = sample(graph)
    assert images(changed, program, inputs) == images(program, program, inputs)


def settings(program: Program, group: Group) -> dict[tuple[str, int], dict[str, Any]]:
    return {(unit.unit, unit.id): held(program, unit) for unit in group.units}


def images(program: Program, named: Program, inputs: dict[str, np.ndarray]) -> list[bytes]:
    """After each epoch the bytes of every buffer that both programs have."""
    found: list[bytes] = []

    def observe(epoch: Epoch, memory: Memory) -> None:
        spans = [memory.span(memory.address(Ref(b.name)), b.size_bytes) for b in named.buffers]
        found.append(b"".join(span.tobytes() for span in spans))

    values = dict(zip(program.inputs, inputs.values(), strict=True))
    execute(program, values, observe)
    return found


def test_an_epoch_is_opened_waited_for_and_closed() -> None:
    program = compiled(demo_graph())
    index = blob_indices(program)[0]
    blob = lower(program, index)
    epochs = [epoch for epoch in program.executed if epoch.blob == index]
    assert [i.number for i in blob if isinstance(i, Label)] == [e.number for e in epochs]
    assert isinstance(blob[-1], Irq)
    gates = [(i.bit, i.value) for i in blob if isinstance(i, WriteField) and i.page == 0]
    assert sorted(bit for bit, on in gates if on) == sorted(bit for bit, on in gates if not on)
    waits = [i for i in blob if isinstance(i, Poll) and i.lsb == 31]
    outputs = [u for e in epochs for u in e.units if isinstance(u, Streng) and u.dir]
    assert [wait.page - 5 for wait in waits] == [unit.id for unit in outputs]


def affine(operation: int = int(ArithOp.AFFINE), **fields: Any) -> Program:
    """An engine, one arithmetic unit, an engine: 4 x 6 pixels of 8 channels."""
    random = np.random.default_rng(0)
    walk = {"fwidth": 6, "fheight": 4, "batch_depth": 8, "batch_offset": 8, "frame_tot_cnt": 1}
    units = (
        Streng(id=0, dir=0, addr_base=Ref("x"), **walk),
        Arith(
            id=0,
            operation=operation,
            fWidth=6,
            fHeight=4,
            fChannels=8,
            batchDepth=8,
            inbytes_x=1,
            shift_o=6,
            **fields,
        ),
        Streng(id=9, dir=1, addr_base=Ref("y"), **walk),
    )
    links = (
        Link(Port("STRENG", 0), Port("ARITH", 0, 0)),
        Link(Port("ARITH", 0), Port("STRENG", 9)),
    )
    constants = {
        "x": random.integers(-128, 128, 192).astype(np.int8),
        "v": random.integers(-99, 100, 64).astype("<i2"),
    }
    base = compiled(demo_graph())
    sizes = {"x": 192, "y": 192, "v": 128}
    shown = base.buffers[0]
    buffers = tuple(
        replace(
            shown,
            name=name,
            size_bytes=size,
            shape=(1, size),
            nbits=8,
            batch=size,
            pool="npuRAM5",
            offset=1024 * i,
            view_of="",
        )
        for i, (name, size) in enumerate(sizes.items())
    )
    epoch = Epoch(1, 1, EpochKind.HW, blob=0, groups=(Group(units, links),))
    return replace(
        base,
        buffers=buffers,
        epochs=(epoch,),
        inputs=(),
        outputs=("y",),
        constants=constants,
    )


@pytest.mark.parametrize(
    "bcast", [Bcast.CHAN, Bcast.HEIGHT, Bcast.WIDTH, Bcast.HEIGHT_WIDTH, Bcast.SCALAR]
)
@pytest.mark.parametrize("combinebc", [0, 1])
def test_every_broadcast_gives_the_same_values(bcast: Bcast, combinebc: int) -> None:
    vectors = {"A_vector": Ref("v"), "B_scalar": 3, "C_scalar": -70}
    program = affine(bcast=int(bcast), combinebc=combinebc, **vectors)
    changed, _ = through_blobs(program)
    assert images(changed, program, {}) == images(program, program, {})


def test_a_negated_vector_is_negated_once() -> None:
    program = affine(bcast=int(Bcast.CHAN), C_vector=Ref("v"), C_scalar=-1, A_scalar=40)
    changed, _ = through_blobs(program)
    assert images(changed, program, {}) == images(program, program, {})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"scalar": 1, "A_scalar": 1 << 17}, "A_scalar 131072 does not fit 16 bits"),
        ({"scalar": 1, "Ax_shift": 32}, "register SHIFT.AX holds 0 to 31, not 32"),
        ({"scalar": 1, "dualinput": 1, "bcast": 1}, "arriving at port 1 are unknown"),
        ({"bcast": 1, "A_vector": Ref("none")}, "coefficients 'none' do not have 16 bytes at 0"),
        ({"bcast": 0}, "vectors with bcast 0"),
        ({"scalar": 1, "operation": 99}, "unknown operation 99"),
    ],
)
def test_what_has_no_register_is_refused(fields: dict[str, Any], message: str) -> None:
    program = affine(**fields)
    with pytest.raises(TargetError) as caught:
        lower(program, 0)
    assert message in caught.value.message
    assert caught.value.where == "EpochBlock_1"


def test_a_blob_that_is_not_there() -> None:
    with pytest.raises(TargetError, match="no epochs in blob 7"):
        lower(affine(scalar=1), 7)
