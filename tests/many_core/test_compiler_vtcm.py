"""Places in VTCM: nobody writes over what is in use, whatever the timing; the rest spills."""

from __future__ import annotations

import random
from bisect import insort
from itertools import pairwise

import pytest

from many_core.compiler_checks import check_parts, check_places, check_reads, check_received
from many_core.nets import EncoderShape, convolutions, encoder, graph_of, integer_net, wide_product
from npuscope.families.many_core.compiler import vtcm
from npuscope.families.many_core.compiler.draft import Draft
from npuscope.families.many_core.compiler.options import CoreCompileOptions
from npuscope.families.many_core.compiler.pipeline import compile_graph, lower
from npuscope.families.many_core.compiler.simplify import simplified
from npuscope.families.many_core.compiler.vtcm import issue_order, lifetimes, place
from npuscope.families.many_core.layout import MemorySpace
from npuscope.families.many_core.machine import load_core_machine
from npuscope.structs import replace

MACHINE = load_core_machine()
SMALL = load_core_machine(overrides={"memory.vtcm_bytes": 32768, "memory.weight_chunk_bytes": 8192})
NETS = {
    "encoder": encoder(EncoderShape(layers=2)),
    "odd": encoder(EncoderShape(1, hidden=96, heads=3, sequence=23, feed_forward=160, batch=2)),
    "convolutions": convolutions(size=19, channels=40),
    "integer": integer_net(),
    "product": wide_product(512, 1024, 3),
}
GRAPHS = {name: simplified(graph_of(data)) for name, data in NETS.items()}


@pytest.mark.parametrize("machine", [MACHINE, SMALL], ids=["8 MiB", "32 KiB"])
@pytest.mark.parametrize(("cores", "devices"), [(1, 1), (2, 1), (5, 1), (16, 1), (2, 2), (3, 3)])
@pytest.mark.parametrize("net", NETS)
def test_no_byte_has_two_users(net: str, cores: int, devices: int, machine: object) -> None:
    graph = GRAPHS[net]
    draft = lower(graph, machine, cores, devices)
    placement = place(draft, machine)
    check_parts(graph, draft)
    check_received(draft)
    check_places(draft, placement, machine.memory.vtcm_bytes)
    check_reads(draft, placement)


def _draft(net: str = "encoder", cores: int = 2) -> Draft:
    return lower(GRAPHS[net], SMALL, cores, 1)


def test_the_check_sees_a_wait_that_is_missing() -> None:
    draft = _draft()
    placement = place(draft, SMALL)
    assert any(placement.replaces.values())
    with pytest.raises(AssertionError):
        check_places(draft, replace(placement, replaces={}), SMALL.memory.vtcm_bytes)


def test_loads_run_ahead_of_the_work_before_theirs() -> None:
    draft = _draft("product", 1)
    assert len(draft.units) > 3
    order = issue_order(draft, 2)
    assert sorted(order) == sorted(issue_order(draft, 0)) == list(range(len(draft.steps)))
    work, load = draft.units[1].work[0], draft.units[3].loads[0]
    assert order.index(load) < order.index(work)
    assert issue_order(draft, 0).index(load) > order.index(work)


def test_a_buffer_lives_from_its_first_write_to_its_last_read() -> None:
    draft = _draft()
    order = issue_order(draft, 1)
    for buffer, life in lifetimes(draft, order).items():
        users = [
            position
            for position, number in enumerate(order)
            for access in (*draft.steps[number].reads, *draft.steps[number].writes)
            if access.buffer == buffer
        ]
        assert (life.first, life.last) == (min(users), max(users))


def test_what_does_not_fit_goes_to_ddr_and_is_told() -> None:
    graph = graph_of(NETS["convolutions"])
    program = compile_graph(graph, SMALL, CoreCompileOptions(cores=1))
    spilled = [text for text in program.warnings if "do not fit VTCM" in text]
    assert spilled
    outside = [op for op in program.devices[0].all_ops() if op.info.memory is MemorySpace.CACHED]
    assert outside and all(op.info.wr_bytes for op in outside if not op.info.asynchronous)
    assert all(op.vtcm_offset is None for op in outside)
    assert program.devices[0].vtcm_bytes[0] <= SMALL.memory.vtcm_bytes
    plenty = compile_graph(graph, MACHINE, CoreCompileOptions(cores=1))
    assert not [text for text in plenty.warnings if "do not fit" in text]


def test_a_network_is_compiled_even_where_nothing_fits() -> None:
    tiny = load_core_machine(overrides={"memory.vtcm_bytes": 2048})
    program = compile_graph(graph_of(NETS["encoder"]), tiny, CoreCompileOptions(cores=2))
    assert max(program.devices[0].vtcm_bytes) <= 2048


def test_former_places_are_found_in_their_order():
    """As when all of them are looked at: apart, cut at random, each with its rest."""
    rng = random.Random(5)
    places: list[tuple[int, int, int]] = []
    for owner in range(300):
        start = rng.randrange(0, 400)
        stop = start + rng.randrange(1, 30)
        here = vtcm._ordered_touching(places, start, stop)
        assert places[here] == [one for one in places if one[0] < stop and start < one[1]]
        places[here] = [rest for old in places[here] for rest in vtcm._without(old, start, stop)]
        insort(places, (start, stop, owner))
    assert all(one[1] <= other[0] for one, other in pairwise(places))
