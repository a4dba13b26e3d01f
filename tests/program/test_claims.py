"""The vendor compiler's own estimate: the slowest of link and pools on every public build, and
both terms by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from npuscope.machine.load import load_machine
from npuscope.program.claims import compute_cycles, max_cycles, operations, with_claims
from npuscope.program.links import Wiring
from npuscope.program.model import Access, Epoch, EpochKind, Group, Pool
from npuscope.program.modes import ArithOp, PoolOp, Simd
from npuscope.program.units import Activ, Arith, Convacc, Link, PoolUnit, Port, Ref, Streng
from npuscope.structs import replace
from program.sample import copy_group, reader, sample, writer

ARTEFACTS = (Path(__file__).parents[2] / ".." / "shared" / "data" / "artefacts").resolve()
RAM = Pool("ram", 0, 1 << 20, 8, 1.25)
FLASH = Pool("flash", 1 << 24, 1 << 20, 1, 6.0, writable=False)
POOLS = {"ram": RAM, "flash": FLASH}
MACHINE = load_machine(generation="2.2")


# The slowest term, on the files of real builds.


def stated_epochs(file: Path) -> Iterator[tuple[float, float, float]]:
    """(stated, reproduced, compute) of every epoch that a c_info.json gives cycles for."""
    info = json.loads(file.read_text())
    pools = {str(p["id"]): vendor_pool(p) for p in info["memory_pools"]}
    accesses: dict[int, list[Access]] = {}
    for row in info["memory_accesses"]:
        access = vendor_access(row)
        if access.pool not in pools:  # id 0 stands for no pool; such rows move nothing
            assert (access.reads, access.writes) == (0, 0)
            continue
        accesses.setdefault(row["node_id"], []).append(access)
    for row in info["power_estimates"]:
        if row["max_cycles"]:
            own = accesses.get(row["node_id"], [])
            compute = row["compute_cycles"]
            yield row["max_cycles"], max_cycles(compute, own, pools), compute


def vendor_pool(row: dict) -> Pool:
    speed = row["attributes"]
    return Pool(str(row["id"]), 0, 0, speed["byte_width"], speed["freq_ratio"])


def vendor_access(row: dict) -> Access:
    cycles = row["read_cycles"], row["write_cycles"]
    return Access(str(row["mpool_id"]), row["reads"], row["writes"], *cycles)


def test_every_public_build(capsys):
    files = sorted(ARTEFACTS.rglob("*c_info.json"))
    if not files:
        pytest.skip("the public builds are not on this machine")
    rows = [(file.name, *row) for file in files for row in stated_epochs(file)]
    bad = [row for row in rows if abs(row[1] - row[2]) > 2]
    by_memory = sum(stated > compute for _, stated, _, compute in rows)
    with capsys.disabled():
        print(f" [max_cycles: {len(rows) - len(bad)} of {len(rows)} epochs of {len(files)} builds]")
    assert bad == []
    # Nothing would be shown if computation alone explained the files.
    assert len(rows) > 400 and by_memory > 200


# The slowest term by hand: no pool is faster than its width and clock ratio.


@pytest.mark.parametrize(
    ("compute", "accesses", "expected"),
    [
        (100, [], 100),
        (100, [Access("ram", 320, 319)], 100),  # 639 * 1.25 / 8 = 99.8
        (100, [Access("ram", 640, 640)], 200),  # reads and writes share the pool
        (0, [Access("flash", 4608)], 27648),  # 6 cycles a byte
        (100, [Access("ram", 800, 0), Access("flash", 10)], 125),  # pools work side by side
        (100, [Access("ram", 8, 8, read_cycles=300.0)], 300),
        (100, [Access("ram", 8, 8, write_cycles=301.5)], 301.5),
        (100, [Access("ram", 8, 8, read_cycles=80.0, write_cycles=90.0)], 100),
    ],
)
def test_the_slowest_term_counts(compute, accesses, expected):
    assert max_cycles(compute, accesses, POOLS) == expected


# Words on the longest link by hand: one word a cycle.

FRAME = {"fwidth": 8, "fheight": 4, "batch_depth": 16, "batch_offset": 16}


def convolution(frames=3, loop=1, kernels=8, **changes) -> Group:
    """8 x 4 pixels of 16 channels, read again for every set of kernels; 1x1."""
    settings = {"fWidth": 8, "fHeight": 4, "kernelWidth": 1, "kernelHeight": 1} | changes
    conv = Convacc(id=0, nKernels=kernels, batchDepth=16, **settings)
    units = (
        reader(0, **FRAME, frame_tot_cnt=frames, frame_loop_cnt=loop),
        Streng(
            id=1,
            dir=0,
            addr_base=Ref("w"),
            raw=1,
            continuous=1,
            frame_count=conv.kernel_elements,
            frame_tot_cnt=frames,
        ),
        conv,
        writer(2, fwidth=8, fheight=4, batch_depth=kernels, frame_tot_cnt=frames),
    )
    links = (
        Link(Port("STRENG", 0), Port("CONVACC", 0)),
        Link(Port("STRENG", 1), Port("CONVACC", 0, 1)),
        Link(Port("CONVACC", 0), Port("STRENG", 2)),
    )
    return Group(units, links)


def test_a_copy_computes_nothing():
    assert compute_cycles(Wiring(copy_group()), MACHINE) == 0
    assert operations(Wiring(copy_group())) == 0


def test_a_small_frame_that_repeats_is_counted_once():
    """512 bytes fit the feature buffer, so the output (256 words, three times) is longest."""
    assert compute_cycles(Wiring(convolution()), MACHINE) == 3 * 256


@pytest.mark.parametrize(
    ("changes", "frame_bytes"),
    [({}, 512), ({"simd": Simd.S16X8}, 1024), ({"deepmode": 1}, 1536)],
)
def test_a_frame_above_the_feature_buffer_is_counted_every_time(changes, frame_bytes):
    group = convolution(**changes)
    for room, words in ((frame_bytes, 3 * 256), (frame_bytes - 1, 3 * 512)):
        stream = replace(MACHINE.stream, feature_buffer_bytes=room)
        assert compute_cycles(Wiring(group), replace(MACHINE, stream=stream)) == words


def test_frames_that_advance_are_all_counted():
    assert compute_cycles(Wiring(convolution(loop=0)), MACHINE) == 3 * 512


def test_the_output_may_be_longest():
    assert compute_cycles(Wiring(convolution(kernels=24)), MACHINE) == 3 * 32 * 24


def test_kernels_may_be_longest():
    """A 3x3 kernel on few pixels: 24 * 16 * 9 weights in each of three sets."""
    group = convolution(kernels=24, kernelWidth=3, kernelHeight=3)
    assert compute_cycles(Wiring(group), MACHINE) == 3 * 24 * 16 * 9


def test_operations_count_two_a_product_and_one_a_stage():
    """Conv, then MUL, then ReLU, then a 2x2 maximum: function and pool do not count, as in public
    builds (CenterFace of 2.1: a sum, ReLU and a subtraction are two operations an element)."""
    base = convolution(frames=1)
    frame = {"fWidth": 8, "fHeight": 4, "fChannels": 8, "batchDepth": 8}
    pool = PoolUnit(
        id=0, operation=PoolOp.MAX, inputX=8, inputY=4, outputX=4, outputY=2, batchSize=8
    )
    stages = (Arith(id=0, operation=ArithOp.AFFINE, **frame), Activ(id=0, operation=1), pool)
    links = (
        *base.links[:2],
        Link(Port("CONVACC", 0), Port("ARITH", 0)),
        Link(Port("ARITH", 0), Port("ACTIV", 0)),
        Link(Port("ACTIV", 0), Port("POOL", 0)),
        Link(Port("POOL", 0), Port("STRENG", 2)),
    )
    group = Group((*base.units, *stages), links)
    assert operations(Wiring(group)) == 2 * 256 * 16 + 256


def test_dropped_frames_reach_no_stage():
    """Two of three accumulation frames are dropped before the arithmetic unit."""
    base = convolution(frames=3)
    arith = Arith(id=0, operation=ArithOp.AFFINE, fWidth=8, fHeight=4, fChannels=8, batchDepth=8)
    drop = Link(Port("CONVACC", 0), Port("ARITH", 0), False, 2, True, 1)
    group = Group((*base.units, arith), (*base.links[:2], drop))
    assert operations(Wiring(group)) == 2 * 3 * 256 * 16 + 256


# Claims of whole programs.


def claims_of(group: Group, generation: str):
    """The group as an epoch of the sample program: "x" and "y" in ram, "w" in flash."""
    epoch = Epoch(1, 1, EpochKind.HW, groups=(group,))
    program = replace(sample(), epochs=(epoch,))
    return with_claims(program, load_machine(generation=generation)).epochs[0].claims


def test_claims_of_a_copy():
    claims = claims_of(copy_group(), "2.2")
    assert (claims.ops, claims.compute_cycles) == (0, 0)
    assert claims.accesses == (Access("ram", 128, 128),)
    assert claims.max_cycles == 256 / 8


@pytest.mark.parametrize(
    ("generation", "cycles"),
    [("2.2", 0.0), ("3.0", 128.0), ("4.0", 128.0)],
)
def test_later_generations_charge_single_bytes_by_the_access(generation, cycles):
    """128 bytes eight apart: one access each, one access a cycle."""
    apart = reader(batch_depth=1, batch_offset=8, fwidth=16, fheight=8)
    links = (Link(Port("STRENG", 0), Port("STRENG", 1)),)
    claims = claims_of(Group((apart, writer()), links), generation)
    (access,) = claims.accesses
    assert access.reads == 128 and access.read_cycles == cycles
    assert claims.max_cycles == max(256 / 8, cycles)


def test_adjoining_bytes_are_charged_by_the_width():
    (access,) = claims_of(copy_group(), "4.0").accesses
    assert (access.read_cycles, access.write_cycles) == (128 / 8, 128 / 8)


def test_an_epoch_without_registers_keeps_its_claims():
    stated = sample().epochs[3]
    (epoch,) = with_claims(replace(sample(), epochs=(stated,)), MACHINE).epochs
    assert epoch is stated
