"""Each rule of a Program, broken once."""

from __future__ import annotations

import pytest

from npuscope.errors import FileError, InternalError
from npuscope.graph.model import Quant
from npuscope.program.model import Buffer, Call, Epoch, EpochKind, Group
from npuscope.program.units import Link, Port, Ref, Streng
from npuscope.program.verify import check_foreign, problems, verify
from npuscope.structs import replace
from program.sample import copy_group, reader, sample, writer

COUNTS = {"STRENG": 10, "CONVACC": 4, "ARITH": 4, "ACTIV": 2, "POOL": 2, "DECUN": 2}


@pytest.fixture
def program():
    return sample()


def with_group(program, group):
    return replace(program, epochs=(Epoch(1, 1, EpochKind.HW, groups=(group,)),))


def with_buffer(program, name, **changes):
    edit = [replace(b, **changes) if b.name == name else b for b in program.buffers]
    return replace(program, buffers=tuple(edit))


def found(program, counts=None):
    return [(rule, where, what) for rule, where, what in problems(program, counts)]


def test_a_good_program(program):
    assert found(program, COUNTS) == []
    verify(program, COUNTS)


def test_the_caller_chooses_who_is_at_fault(program):
    broken = replace(program, inputs=("nothing",))
    text = r"sample: buffer 'nothing' is named but does not exist \(rule 'interface'\)"
    with pytest.raises(InternalError, match=text):
        verify(broken)
    with pytest.raises(FileError, match=text):
        verify(broken, error=FileError)


def test_unit_numbers(program):
    assert found(program, COUNTS | {"ARITH": 3}) == [
        ("unit-numbers", "EpochBlock_1 -> 2, ARITH 3", "the machine has 3 units of this type")
    ]


@pytest.mark.parametrize(
    ("numbers", "what"),
    [
        (((1, 1), (1, 1)), "the number does not follow 1"),
        (((1, 3), (3, 4)), "the number does not follow 3"),
        (((2, 1), (3, 3)), "the epoch ends before it starts"),
    ],
)
def test_epoch_order(program, numbers, what):
    epochs = tuple(Epoch(first, last, EpochKind.EMPTY) for first, last in numbers)
    assert [(r, w) for r, _, w in found(replace(program, epochs=epochs))] == [("epoch-order", what)]


def test_names_are_unique(program):
    twice = replace(program, pools=(*program.pools, program.pools[0]))
    assert ("unique-names", "sample", "two pools are named 'ram'") in found(twice)


def test_units_are_unique(program):
    group = Group((reader(), reader(), writer()), ())
    assert found(with_group(program, group)) == [
        ("unique-units", "EpochBlock_1", "STRENG 0 is configured twice in one group")
    ]


@pytest.mark.parametrize(
    ("source", "destination", "what"),
    [
        (
            Port("STRENG", 7),
            Port("STRENG", 1),
            "a link starts at STRENG 7 port 0, which is not in the group",
        ),
        (
            Port("STRENG", 0),
            Port("CONVACC", 0),
            "a link ends at CONVACC 0 port 0, which is not in the group",
        ),
        (
            Port("STRENG", 0),
            Port("STRENG", 1, 1),
            "a link ends at STRENG 1 port 1, which has no input",
        ),
        (
            Port("STRENG", 1),
            Port("STRENG", 1),
            "a link starts at STRENG 1 port 0, which has no output",
        ),
        (
            Port("STRENG", 0),
            Port("STRENG", 0),
            "a link ends at STRENG 0 port 0, which has no input",
        ),
    ],
)
def test_dangling_links(program, source, destination, what):
    group = replace(copy_group(), links=(Link(source, destination),))
    assert found(with_group(program, group)) == [("links", "EpochBlock_1", what)]


def test_a_port_is_fed_once(program):
    group = copy_group()
    group = replace(group, links=group.links * 2)
    assert found(with_group(program, group)) == [
        ("links", "EpochBlock_1", "STRENG 1 port 0 is fed twice")
    ]


@pytest.mark.parametrize(
    ("changes", "extent"),
    [
        ({"fheight": 5}, "0 to 159"),
        ({"offset_start": -1}, "-1 to 126"),
        ({"addr_base": Ref("x", 1)}, "1 to 128"),
        ({"frame_tot_cnt": 2, "frame_offset": 8}, "0 to 135"),
        ({"frame_tot_cnt": 3, "frame_loop_cnt": 2, "loop_offset": 4}, "0 to 131"),
        ({"nbits_in": 24, "nbits_out": 24, "batch_depth": 4}, "0 to 131"),
    ],
)
def test_engines_stay_in_their_buffer(program, changes, extent):
    group = replace(copy_group(), units=(reader(**changes), writer()))
    assert found(with_group(program, group)) == [
        (
            "engine-range",
            "EpochBlock_1, STRENG 0",
            f"touches bytes {extent} of buffer 'x', which has 128",
        )
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"frame_tot_cnt": 9, "frame_loop_cnt": 1},  # re-reads one frame
        {"nbits_in": 24, "nbits_out": 24, "batch_depth": 3},  # one byte past the last pixel
    ],
)
def test_engines_that_look_large_but_fit(program, changes):
    group = replace(copy_group(), units=(reader(**changes), writer()))
    assert found(with_group(program, group)) == []


def test_references_name_buffers(program):
    group = replace(copy_group(), units=(reader(addr_base=Ref("gone")), writer()))
    assert found(with_group(program, group)) == [
        ("engine-range", "EpochBlock_1, STRENG 0", "buffer 'gone' does not exist")
    ]
    call = Epoch(1, 1, EpochKind.SW, call=Call("Softmax", ("x", ""), ("gone",)))
    assert found(replace(program, epochs=(call,))) == [
        ("call-buffers", "EpochBlock_1", "the call names buffer 'gone', which does not exist")
    ]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"offset": 4000}, "bytes 4000 to 4511 do not fit pool 'ram' of 4096"),
        ({"offset": -4}, "bytes -4 to 507 do not fit pool 'ram' of 4096"),
        ({"pool": "rom"}, "pool 'rom' does not exist"),
    ],
)
def test_buffers_lie_in_pools(program, changes, what):
    assert ("buffer-in-pool", "buffer 'z'", what) in found(with_buffer(program, "z", **changes))


@pytest.mark.parametrize(
    ("offset", "first", "clash"), [(255, 3, True), (256, 3, False), (255, 4, False)]
)
def test_live_buffers_do_not_overlap(program, offset, first, clash):
    """y lives in epochs 1 to 3 at bytes 128 to 255."""
    edited = with_buffer(program, "z", offset=offset, first=first, last=9)
    rules = [rule for rule, _, what in found(edited) if "'y'" in what]
    assert rules == (["no-overlap"] if clash else [])


def test_pools_at_the_same_address_share_bytes(program):
    low = replace(program.pools[0], name="sub", size_bytes=256)
    other = Buffer("other", 16, (16,), 8, 16, "sub", 0, 2, 2)
    edited = replace(program, pools=(*program.pools, low), buffers=(*program.buffers, other))
    assert found(edited) == [
        ("no-overlap", "buffer 'other'", "shares bytes at 0x34200000 with 'x', both live")
    ]


def test_parameters_live_always_but_may_share(program):
    twin = replace(program.buffers[3], name="twin")
    assert found(replace(program, buffers=(*program.buffers, twin))) == []
    in_ram = replace(twin, pool="ram", offset=0)
    rules = [rule for rule, _, _ in found(replace(program, buffers=(*program.buffers, in_ram)))]
    assert "no-overlap" in rules


def test_views_of_one_buffer_may_overlap(program):
    second = Buffer("second", 16, (16,), 8, 16, "ram", 130, 1, 3, view_of="flat")
    assert found(replace(program, buffers=(*program.buffers, second))) == []


def test_a_circle_of_views_ends(program):
    edited = with_buffer(with_buffer(program, "y", view_of="flat"), "flat", view_of="y")
    assert isinstance(found(edited), list)


def test_terminal_escapes_do_not_pass(program):
    engine = Streng(id=0, dir=0, addr_base=Ref("\x1b[2J"))
    (_, _, what), *_ = found(with_group(program, Group((engine,), ())))
    assert "\x1b" not in what


def with_pool(program, **changes):
    return replace(program, pools=(replace(program.pools[0], **changes), *program.pools[1:]))


@pytest.mark.parametrize(
    "changes",
    [{"byte_width": 0}, {"freq_ratio": 0.0}, {"freq_ratio": float("inf")}],
)
def test_figures_that_times_are_divided_by(program, changes):
    pool = replace(program.pools[0], **changes)
    with pytest.raises(FileError) as caught:
        check_foreign(with_pool(program, **changes), "network.c")
    assert caught.value.message == (
        f"{pool.byte_width} bytes per cycle and a clock ratio of {pool.freq_ratio} (rule 'figures')"
    )
    assert caught.value.where == f"network.c: pool '{pool.name}'"
    assert caught.value.hint == (
        "the file is damaged, or comes from a compiler that npuscope does not know"
    )


def test_foreign_programs_may_break_what_only_execution_needs(program):
    first = program.buffers[0]
    broken = with_buffer(program, first.name, offset=10**9)
    assert found(broken)
    check_foreign(broken, "network.c")


def test_buffers_in_use_name_a_pool(program):
    engine = next(u for u in program.epochs[0].groups[0].units if isinstance(u, Streng))
    name = engine.addr_base.buffer
    with pytest.raises(FileError, match=r"pool '' does not exist \(rule 'named-pools'\)"):
        check_foreign(with_buffer(program, name, pool=""), "network.c")
    idle = replace(program.buffers[0], name="idle", pool="")
    check_foreign(replace(program, buffers=(*program.buffers, idle)), "network.c")


def with_unit(program, kind, **changes):
    """The first epoch with other settings of the units of one type."""
    epoch = program.epochs[0]
    group = epoch.groups[0]
    units = tuple(replace(u, **changes) if u.unit == kind else u for u in group.units)
    changed = replace(epoch, groups=(replace(group, units=units), *epoch.groups[1:]))
    return replace(program, epochs=(changed, *program.epochs[1:]))


@pytest.mark.parametrize(
    ("kind", "field", "value", "place"),
    [
        ("CONVACC", "hstride", 0, "CONVACC 0"),
        ("CONVACC", "vstride", -1, "CONVACC 0"),
        ("POOL", "inputX", 0, "POOL 1"),
        ("POOL", "inputY", 0, "POOL 1"),
        ("POOL", "batchSize", 0, "POOL 1"),
    ],
)
def test_settings_that_amounts_are_divided_by(program, kind, field, value, place):
    broken = with_unit(program, kind, **{field: value})
    where = f"{program.epochs[0].name}, {place}"
    assert ("figures", where, f"{field} is {value}") in found(broken)
    with pytest.raises(FileError) as caught:
        check_foreign(broken, "network.c")
    assert caught.value.message == f"{field} is {value} (rule 'figures')"
    assert caught.value.where == f"network.c: {where}"


def test_links_do_not_take_frames_back(program):
    epoch = program.epochs[0]
    group = epoch.groups[0]
    links = (replace(group.links[0], frames0=1, frames1=-1), *group.links[1:])
    changed = replace(epoch, groups=(replace(group, links=links),))
    broken = replace(program, epochs=(changed, *program.epochs[1:]))
    assert ("figures", epoch.name, "a link passes 1 and -1 frames") in found(broken)


@pytest.mark.parametrize(
    ("quant", "what"),
    [
        (Quant((0.5, 0.25), (0,)), "2 scales and 1 zero points without an axis"),
        (Quant((), ()), "0 scales and 0 zero points without an axis"),
        (Quant((0.5,), (0, 1)), "1 scales and 2 zero points without an axis"),
    ],
)
def test_one_scale_a_tensor_unless_there_is_an_axis(program, quant, what):
    assert ("quantization", "buffer 'x'", what) in found(with_buffer(program, "x", quant=quant))
    channels = Quant((0.5, 0.25), (0, 0), axis=3)
    assert found(with_buffer(program, "x", quant=channels)) == []


def test_numbers_of_foreign_programs_have_64_bits(program):
    with pytest.raises(FileError) as caught:
        check_foreign(with_unit(program, "CONVACC", fsub=1 << 64), "network.c")
    assert str(caught.value) == (
        f"network.c: {program.epochs[0].name}: a value that cannot be stored: "
        "Integer exceeds 64-bit range (rule 'storable')\n"
        "  hint: the file is damaged, or comes from a compiler that npuscope does not know"
    )
    check_foreign(with_unit(program, "CONVACC", fsub=(1 << 64) - 1), "network.c")
    with pytest.raises(FileError, match=r"network.c: buffer 'x': a value that cannot be stored"):
        check_foreign(with_buffer(program, "x", offset=1 << 64), "network.c")
