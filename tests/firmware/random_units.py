"""A network of random unit records: what no compiled network uses is compared as well."""

from __future__ import annotations

import re
from random import Random

import numpy as np
from msgspec.structs import fields

from firmware.host_npu import FIRMWARE, Net
from npuscope.demo_network import demo_graph
from npuscope.program.ec_blob.register_map import DESTINATIONS, SOURCES
from npuscope.program.ec_blob.registers import UNIT_BY_NAME
from npuscope.program.model import Buffer, Epoch, EpochKind, Group
from npuscope.program.modes import ActivOp, ArithOp, Bcast, PoolOp
from npuscope.program.network_c.layout import UNITS
from npuscope.program.units import UNIT_TYPES, Arith, Link, Port, Ref, Streng, Unit
from npuscope.structs import replace
from program.network_c.nets import build as compiled

GROUPS = 400
HEADER = (FIRMWARE / "include" / "ll_aton.h").read_text(encoding="utf-8")
VECTORS = Buffer("vectors", 4096, (4096,), 8, 4096, is_param=True)
SHORT = range(-0x8000, 0x8000)
RANGES: dict[str, range] = {
    **dict.fromkeys(("shift_x", "shift_y", "shift_f"), range(-16, 48)),
    **dict.fromkeys(("zfbias", "clipmin", "clipmax", "A_scalar", "B_scalar"), SHORT),
    **dict.fromkeys(("parameter", "parameter_2"), range(-0x8000, 0x10000)),
    **dict.fromkeys(("frame_offset", "loop_offset", "line_offset"), range(-(1 << 20), 1 << 20)),
    "C_scalar": range(-3, 3),
    "fsub": range(-9 << 20, 9 << 20),  # 24 bits hold 8 << 20
    "mulval": range(0x8000),
    "batch_offset": range(1 << 18),
    "offset_start": range(64),
    "offset_end": range(64, 5000),
    "offset_limit": range(1, 5000),
    "frame_count": range(2),
    "frame_tot_cnt": range(3),
    "nbits_in": range(1, 26),
    "nbits_out": range(1, 26),
    "ROM0_nbytes": range(33),
    "ROM1_nbytes": range(400),
    "afilt_mode": range(4),
    "bcast": range(len(Bcast)),
    "fChannels": range(1, 600),
    "pad_val": SHORT,
}
OPERATIONS = {"ARITH": len(ArithOp), "ACTIV": len(ActivOp), "POOL": len(PoolOp)}
OUTPUT = Streng(id=9, dir=1, addr_base=Ref(VECTORS.name), fwidth=1, fheight=1, batch_depth=1)
# Both windows onto the memory, one entry too many, sizes whose product wraps around in 32 bits.
VECTOR_SIZES = ((2, 384), (2, 385), (2, 512), (2, 513), (65537, 8))
SELDOM = {"pad_val_en", "avgnopad", "deepmode", "dss2mode"}


def bit_widths(unit: str) -> dict[str, int]:
    body = HEADER[: HEADER.index(f"}} {UNITS[unit].struct};")].rpartition("typedef struct {")[2]
    return {name: int(width) for name, width in re.findall(r"BITS\((\w+), (\d)\)", body)}


def random_value(random: Random, unit: str, name: str) -> object:
    if name == "operation":
        return random.randint(1, OPERATIONS[unit])
    if name == "addr_base":
        return Ref(VECTORS.name, random.randrange(100))
    if name.endswith("_vector"):
        return Ref(VECTORS.name, random.randrange(500)) if random.random() < 0.8 else None
    if name == "vec_precision":
        return tuple(random.choice((8, 16, 32)) for _ in range(3))
    if name in SELDOM:
        return int(random.random() < 0.1)
    if name in RANGES:
        return random.choice(RANGES[name])
    if name in bit_widths(unit):
        return random.randrange(1 << bit_widths(unit)[name])
    return random.randrange(1, 5) if random.random() < 0.98 else random.randrange(5, 120)


def random_unit(random: Random, unit: str) -> Unit:
    kind = UNIT_TYPES[unit]
    names = [field.name for field in fields(kind) if field.name != "id"]
    while True:
        values = {name: random_value(random, unit, name) for name in names}
        made = kind(id=random.randrange(min(UNIT_BY_NAME[unit].count, 9)), **values)
        # How an engine unpacks parts of bytes is in no public build: writers refuse it.
        if not (isinstance(made, Streng) and made.packed):
            return made


def random_link(random: Random) -> Link:
    unit, count = random.choice([entry for entry in SOURCES if entry[0] in UNITS])
    source = Port(unit, random.randrange(count))
    unit, count, ports = random.choice([entry for entry in DESTINATIONS if entry[0] in UNITS])
    destination = Port(unit, random.randrange(count), random.randrange(ports))
    if random.random() < 0.5:
        return Link(source, destination)
    flags = random.random() < 0.5, random.random() < 0.5
    return Link(source, destination, flags[0], random.randint(1, 9), flags[1], random.randrange(9))


def random_group(random: Random) -> Group:
    kinds = [kind for kind in UNIT_TYPES if kind != "DECUN"]  # no blob has one
    return Group((random_unit(random, random.choice(kinds)), OUTPUT), (random_link(random),))


def vector_group(width: int, channels: int) -> Group:
    """As many entries as channels; the fields that chance seldom meets."""
    place = Ref(VECTORS.name)
    unit = Arith(
        id=3,
        operation=int(ArithOp.AFFINE),
        fWidth=width,
        fHeight=width,
        fChannels=channels,
        batchDepth=1,
        bcast=int(Bcast.CHAN),
        A_vector=place,
        B_vector=place,
        C_vector=place,
    )
    return Group((unit, OUTPUT), ())


def random_net() -> Net:
    """The demo's memories with epochs of one random unit each."""
    random = Random(5)
    program, machine = compiled(demo_graph())
    vectors = replace(VECTORS, pool=program.pools[0].name)
    data = np.random.default_rng(5).integers(0, 256, VECTORS.size_bytes).astype(np.uint8)
    groups = [random_group(random) for _ in range(GROUPS)]
    groups += [vector_group(*sizes) for sizes in VECTOR_SIZES]
    epochs = [Epoch(n, n, EpochKind.HW, groups=(group,)) for n, group in enumerate(groups, 1)]
    program = replace(
        program,
        buffers=(*program.buffers, vectors),
        epochs=tuple(epochs),
        constants={**program.constants, VECTORS.name: data},
    )
    return Net("random_units", program, machine)
