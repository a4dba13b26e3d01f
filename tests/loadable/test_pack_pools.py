"""Pools of a program as an image describes them."""

from __future__ import annotations

import numpy as np
import pytest

from npuscope.errors import FileError, TargetError
from npuscope.loadable.codes import PoolAction, PoolData
from npuscope.loadable.link import image_c
from npuscope.loadable.pack_pools import plan_pools
from npuscope.program.model import Buffer, Pool, Program


def pool(name, address, *, writable=True, relative=False, cacheable=False, subpools=()):
    return Pool(
        name,
        address,
        0x1000,
        8,
        1.0,
        writable=writable,
        cacheable=cacheable,
        subpools=subpools,
        file_name=f"F{name}",
        relative=relative,
    )


def buffer(name, where, offset, size, is_param=False, view_of=""):
    return Buffer(name, size, (1, size), 8, size, where, offset, is_param=is_param, view_of=view_of)


def program(pools, buffers):
    return Program(
        "net",
        "stm32n6",
        "4.0",
        False,
        tuple(pools),
        tuple(buffers),
        (),
        (),
        (),
        {b.name: np.zeros(b.size_bytes, np.uint8) for b in buffers if b.is_param},
    )


FLASH_POOL = pool("flash", 0x71000000, writable=False, relative=True, cacheable=True)
OUTER_RAM = pool("outer", 0x90000000, relative=True, cacheable=True)
INNER = pool("inner", 0x34200000)


@pytest.mark.parametrize(
    ("where", "params", "acts", "text"),
    [
        (FLASH_POOL, True, False, "01010500 RELOC.PARAM.0.RCACHED"),
        (OUTER_RAM, False, True, "01020601 RELOC.ACTIV.1.WCACHED"),
        (OUTER_RAM, True, True, "01030601 RELOC.MIXED.1.WCACHED"),
        (INNER, True, True, "02030200 COPY.MIXED.WRITE"),
        (INNER, True, False, "02030200 COPY.MIXED.WRITE"),
        (pool("rom", 0x34000000, writable=False), True, False, "02010100 COPY.PARAM.READ"),
        (INNER, False, True, "03020200 RESET.ACTIV.WRITE"),
    ],
)
def test_flags_by_use(where, params, acts, text):
    buffers = [buffer("p", where.name, 0, 10, True)] if params else []
    buffers += [buffer("a", where.name, 16, 20)] if acts else []
    plan = plan_pools(program([where], buffers), {where.name: b"\1" * 10})
    (planned,) = plan.pools
    assert f"{planned.flags.pack():08x} {planned.flags.text}" == text
    assert planned.dst == (0 if where.relative else where.address)
    assert planned.size_bytes == (36 if acts else 10)
    assert planned.params_bytes == (10 if params else 0)
    assert len(planned.data) == (0 if not params else 40 if acts else 16)


def test_initialisers_follow_one_another_aligned():
    pools = [INNER, FLASH_POOL, pool("unused", 0x34300000)]
    buffers = [
        buffer("a", "inner", 0, 5, True),
        buffer("b", "flash", 3, 9, True),
        buffer("view", "flash", 0, 4000, True, view_of="b"),
    ]
    plan = plan_pools(program(pools, buffers), {"inner": b"\1" * 5, "flash": b"\2" * 12})
    assert [(p.name, p.foff, p.size_bytes) for p in plan.pools] == [
        ("Fflash", 0, 12),
        ("Finner", 16, 5),
    ]
    assert plan.parameters == b"\2" * 12 + bytes(4) + b"\1" * 5 + bytes(3)
    assert (plan.params_bytes, plan.acts_bytes, plan.external_ram_bytes) == (14, 3, 0)


def test_a_virtual_pool_is_its_parts():
    low, high = pool("low", 0x34200000), pool("high", 0x34201000)
    both = pool("both", 0x34200000, subpools=("low", "high"))
    plan = plan_pools(program([low, high, both], [buffer("a", "both", 0xF00, 0x200)]), {})
    assert [(p.name, p.size_bytes, p.dst) for p in plan.pools] == [
        ("Fhigh", 0x100, 0x34201000),
        ("Flow", 0x1000, 0x34200000),
    ]


def test_external_ram_is_the_writable_relative_pool():
    plan = plan_pools(program([OUTER_RAM], [buffer("a", "outer", 0, 100)]), {})
    assert plan.external_ram_bytes == 100
    assert plan.relocated(1) is plan.pools[0]
    assert plan.relocated(0) is None


def refused(pools, buffers, images=None, **options):
    with pytest.raises((TargetError, FileError)) as error:
        plan_pools(program(pools, buffers), images or {}, **options)
    return str(error.value)


def test_parameters_at_a_fixed_address_of_external_ram_are_copied_there():
    """As the vendor's pools for tests have it: one writable hyperRAM, no flash."""
    ram = pool("hyperRAM", 0x90000000, writable=True)
    buffers = [buffer("p", "hyperRAM", 0, 8, True), buffer("a", "hyperRAM", 8, 8, False)]
    (planned,) = plan_pools(program([ram], buffers), {"hyperRAM": b"\1" * 8}).pools
    assert (planned.flags.kind, planned.flags.data) == (PoolAction.COPY, PoolData.MIXED)
    assert (planned.dst, planned.size_bytes, planned.data) == (
        0x90000000,
        16,
        b"\1" * 8 + bytes(8),
    )


def test_parameters_at_a_fixed_external_address():
    fixed = pool("flash", 0x71000000, writable=False)
    assert refused([fixed], [buffer("p", "flash", 0, 8, True)], {"flash": b"\1" * 8}) == (
        "flash: parameters are at the fixed address 0x71000000: this is not the relocatable form "
        "of a network\n  hint: npuscope compile MODEL --relocatable -o DIR"
    )


def test_secure_addresses_in_a_non_secure_image():
    message = refused([INNER], [buffer("a", "inner", 0, 8)], secure=False)
    assert message.startswith("inner: 0x34200000 is a secure address")
    assert "0x24000000" in message
    inside = pool("inner", 0x24200000)
    assert plan_pools(program([inside], [buffer("a", "inner", 0, 8)]), {}, secure=False).pools


def test_missing_initialiser():
    message = refused([FLASH_POOL], [buffer("p", "flash", 0, 8, True)])
    assert message.startswith("flash: no initialiser *.Fflash.raw beside the source")


def test_two_relative_pools_of_a_kind():
    pools = [OUTER_RAM, pool("more", 0x92000000, relative=True)]
    message = refused(pools, [buffer("a", "outer", 0, 8), buffer("b", "more", 0, 8)])
    assert message.startswith("Fmore and Fouter are relative writable pools, an image has one")


def test_too_many_pools():
    pools = [pool(f"p{n}", 0x34000000 + n * 0x1000) for n in range(11)]
    message = refused(pools, [buffer(f"b{n}", f"p{n}", 0, 8) for n in range(11)])
    assert message == "11 pools are used, an image describes 10 at most"


def test_writes_to_a_read_only_pool():
    message = refused([FLASH_POOL], [buffer("a", "flash", 0, 8)])
    assert message == "flash: buffers that are written are in a read-only pool"


def test_descriptors_as_source():
    plan = plan_pools(
        program(
            [INNER, FLASH_POOL], [buffer("a", "inner", 0, 8), buffer("p", "flash", 0, 9, True)]
        ),
        {"flash": b"\1" * 9},
    )
    text = image_c('n"x', "net", plan, (1, 1, 3, 262), "CLANG")
    assert '.c_name = "n\\"x",' in text
    assert '.rt_version_desc = "atonn-v1.1.3-262 (RELOC.CLANG)",' in text
    assert ".rt_version = 0x1010300u," in text
    assert ".params_bin_sz = 16u," in text
    assert (
        '{ .name = "Finner", .flags = 0x03020200u, .foff = 0u, .dst = 0x34200000u, .size = 8u },'
        in text
    )
    assert [p.flags.kind for p in plan.pools] == [PoolAction.RELOC, PoolAction.RESET]
