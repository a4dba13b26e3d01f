"""How many words pass between units."""

from __future__ import annotations

import pytest

from npuscope.advice.refused import roots
from npuscope.program.links import Wiring, without_surplus
from npuscope.program.model import Buffer, Group, Program
from npuscope.program.units import Arith, Convacc, Decun, Link, Port, Ref, Streng, Unit
from npuscope.structs import replace

HERE = Ref("here")
WHOLE = Streng(id=0, dir=0, addr_base=HERE, raw=1, frame_count=48, frame_offset=48)
AGAIN = Streng(id=1, dir=0, addr_base=HERE, raw=1, frame_count=6, loop_offset=6, frame_loop_cnt=8)
RESULT = Streng(id=2, dir=1, addr_base=HERE, fwidth=4, fheight=2, batch_depth=6, frame_tot_cnt=1)


FIRST = Arith(id=0, operation=1, fWidth=4, fHeight=2, fChannels=6, batchDepth=6, dualinput=1)


def product(frames: int, behind: Unit) -> Group:
    """A vector of 6 that is spread over 48 elements, and a unit behind."""
    units = (WHOLE, replace(AGAIN, frame_tot_cnt=frames), FIRST, behind, RESULT)
    ends = ((WHOLE, FIRST, 0), (AGAIN, FIRST, 1), (FIRST, behind, 0), (behind, RESULT, 0))
    links = tuple(
        Link(Port(one.unit, one.id, 0), Port(other.unit, other.id, port), True, 0, False, 0)
        for one, other, port in ends
    )
    return Group(units, links)


@pytest.mark.parametrize(("frames", "taken"), [(8 * 6, 8), (9, 8), (8, 8), (3, 3)])
def test_nobody_takes_more_than_the_results_have(frames: int, taken: int) -> None:
    group = without_surplus(product(frames, replace(FIRST, id=1)))
    assert group.units[1] == replace(AGAIN, frame_tot_cnt=taken)
    assert group.units[0] == WHOLE and group.links == product(frames, replace(FIRST, id=1)).links


def test_a_group_without_a_surplus_is_left_alone() -> None:
    group = product(8, replace(FIRST, id=1))
    assert without_surplus(group) is group


def test_a_unit_that_changes_the_count_hides_it() -> None:
    group = product(48, Decun(id=0, nCV=1, nCWperCV=1, nFormatBytes=1, nBatches=1))
    assert without_surplus(group) is group


def in_series(kernels: Streng, **filters: int) -> tuple[Group, Convacc]:
    """Four units with four kernels of eight channels each, fed by one engine."""
    size = {"fWidth": 4, "fHeight": 4, "kernelWidth": 1, "kernelHeight": 1}
    units = [Convacc(id=n, nKernels=4, batchDepth=8, **size, **filters) for n in range(4)]
    links = tuple(
        Link(Port(kernels.unit, kernels.id, 0), Port("CONVACC", n, 1), True, 0, False, 0)
        for n in range(4)
    )
    return Group((kernels, *units), links), units[0]


def kernel_frames(elements: int, count: int) -> Streng:
    return Streng(
        id=0, dir=0, addr_base=HERE, raw=1, frame_count=elements, frame_tot_cnt=count, continuous=1
    )


@pytest.mark.parametrize(
    ("elements", "count", "filters", "frames"),
    [
        (32, 24, {"kfilt_tot": 16}, 6),  # the part of each unit is a frame of its own
        (128, 6, {"kfilt_tot": 16}, 6),  # a frame holds the kernels of all units
        (32, 24, {}, 24),  # all units take every frame
        (32, 23, {"kfilt_tot": 16}, 23),  # not a whole number of sets: as it stands
    ],
)
def test_a_convolution_computes_one_frame_a_set_of_kernels(elements, count, filters, frames):
    group, first = in_series(kernel_frames(elements, count), **filters)
    assert Wiring(group).frames(first) == frames


@pytest.mark.parametrize(("bits", "elements"), [(24, 6 * 4 * 11), (8, 6 * 4 * 32)])
def test_deep_kernels_in_one_long_frame_are_counted_in_whole_words(bits, elements):
    kernels = replace(kernel_frames(elements, 1), nbits_in=bits, nbits_out=bits)
    group, first = in_series(kernels, deepmode=1, kfilt_tot=16)
    assert Wiring(group).frames(first) == 6


def test_a_pool_as_a_whole_lies_in_itself() -> None:
    pool = Buffer("@npuRAM5", 8, (8,), 8, 8, pool="npuRAM5", view_of="@npuRAM5")
    view = Buffer("view", 4, (4,), 8, 4, pool="npuRAM5", view_of="@npuRAM5")
    program = Program("net", "stm32n6", "4.0", True, (), (pool, view), (), (), ())
    assert roots(("view", "@npuRAM5", "other"), program) == {"@npuRAM5", "other"}
