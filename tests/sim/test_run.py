"""Whole programs: order of epochs, forcing, observing, software kernels, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from npuscope.errors import TargetError, UsageError
from npuscope.graph.model import Quant
from npuscope.program.model import Call, Epoch, EpochKind, Group
from npuscope.program.modes import ArithOp
from npuscope.program.units import Arith
from npuscope.sim.run import execute, reads, written
from npuscope.structs import replace
from sim.bench import Bench, feature_reader, link, writer

LINKS = (link("STRENG0", "ARITH0"), link("ARITH0", "STRENG1"))
X = np.arange(-6, 6, dtype=np.int8).reshape(1, 2, 2, 3)


def add_constant(bench, source, target, constant, number):
    """An epoch: target = source + constant."""
    unit = Arith(
        id=0,
        operation=ArithOp.AFFINE,
        fWidth=2,
        fHeight=2,
        fChannels=3,
        batchDepth=3,
        scalar=1,
        A_scalar=1,
        C_scalar=constant,
        inbytes_x=1,
    )
    units = (feature_reader(0, source, 3), unit, writer(1, target, 3))
    return Epoch(number, number, EpochKind.HW, groups=(Group(units, LINKS),))


@pytest.fixture
def program():
    """x + 10 -> a, a + 20 -> b, then a + 1 again over x's place."""
    bench = Bench()
    x, a, b = (bench.buffer(name, (1, 2, 2, 3)) for name in "xab")
    epochs = (
        add_constant(bench, x, a, 10, 1),
        Epoch(2, 2, EpochKind.EMPTY, groups=None),
        add_constant(bench, a, b, 20, 3),
        add_constant(bench, a, x, 1, 4),
    )
    return replace(bench.program((), (), ("x",), ("b",)), epochs=epochs)


def test_epochs_run_in_order(program):
    found = execute(program, {"x": X})
    np.testing.assert_array_equal(found.outputs["b"], X + 30)
    assert found.saturated_share == {} and found.buffers == {}


def test_kept_buffers_are_as_their_last_writer_left_them(program):
    found = execute(program, {"x": X}, keep=("a", "x"))
    np.testing.assert_array_equal(found.buffers["a"], X + 10)
    np.testing.assert_array_equal(found.buffers["x"], X + 11)


def test_forced_inputs_replace_what_came_before(program):
    """Each epoch starts from the reference, its own result is still observed first."""
    seen = []
    reference = {"a": np.full_like(X, 50)}
    found = execute(
        program, {"x": X}, lambda epoch, memory: seen.append(memory.read("a")), reference
    )
    np.testing.assert_array_equal(seen[0], X + 10)
    np.testing.assert_array_equal(seen[1], reference["a"])
    np.testing.assert_array_equal(found.outputs["b"], np.full_like(X, 70))


def test_forcing_reaches_the_root_of_a_view(program):
    view = replace(program.buffer_map()["a"], name="v", view_of="a")
    second = add_constant(Bench(), view, program.buffer_map()["b"], 20, 3)
    program = replace(program, buffers=(*program.buffers, view), epochs=(program.epochs[0], second))
    found = execute(program, {"x": X}, force={"a": np.full_like(X, 50)})
    np.testing.assert_array_equal(found.outputs["b"], np.full_like(X, 70))


def test_what_an_epoch_changes_in_place_is_not_forced(program):
    a = program.buffer_map()["a"]
    program = replace(program, epochs=(program.epochs[0], add_constant(Bench(), a, a, 5, 2)))
    found = execute(program, {"x": X}, force={"a": X}, keep=("a",))
    np.testing.assert_array_equal(found.buffers["a"], X + 15)


@pytest.mark.parametrize("name", ["a", "v"])
def test_two_halves_of_a_result_start_from_the_same_value(name):
    """`a` goes on inside its epoch: half = a + 1; a later epoch reads both, another `a` alone."""
    bench = Bench()
    x, a, b, half, total = (bench.buffer(n, (1, 2, 2, 3)) for n in ("x", "a", "b", "half", "total"))
    bench.buffers.append(replace(a, name="v", view_of="a"))
    first = add_constant(bench, x, a, 10, 1).groups[0]
    more = replace(first.units[1], id=1, C_scalar=1)
    links = (*LINKS, link("ARITH0", "ARITH1"), link("ARITH1", "STRENG2"))
    first = Group((*first.units, more, writer(2, half, 3)), links)
    both = replace(first.units[1], dualinput=1, B_scalar=-1, C_scalar=0, inbytes_y=1)
    readers = (feature_reader(0, half, 3), feature_reader(2, replace(a, name=name), 3))
    second = Group((*readers, both, writer(1, total, 3)), (*LINKS, link("STRENG2", "ARITH0.1")))
    epochs = (
        Epoch(1, 1, EpochKind.HW, groups=(first,)),
        Epoch(2, 2, EpochKind.HW, groups=(second,)),
        add_constant(bench, a, b, 20, 3),
    )
    program = replace(bench.program((), (), ("x",), ("total", "b")), epochs=epochs)

    def replaced(epoch, memory):  # as those who compare layers do
        memory.write("a", np.full_like(X, 50))

    found = execute(program, {"x": X}, replaced, force={"a": np.full_like(X, 50)})
    np.testing.assert_array_equal(found.outputs["total"], np.ones_like(X))
    np.testing.assert_array_equal(found.outputs["b"], np.full_like(X, 70))


def test_what_an_epoch_reads_and_writes(program):
    assert (reads(program.epochs[0]), written(program.epochs[0])) == (("x",), ("a",))
    call = Epoch(1, 1, EpochKind.SW, call=Call("Add", ("x", "a"), ("b",)))
    assert (reads(call), written(call)) == (("x", "a"), ("b",))


def test_a_program_without_registers_is_refused(program):
    bare = replace(program, epochs=(Epoch(1, 1, EpochKind.HW, groups=None),))
    with pytest.raises(TargetError) as caught:
        execute(bare, {"x": X})
    assert caught.value.message == "program 'bench' cannot be executed: no unit registers"


def test_a_software_epoch_without_a_kernel_is_refused(program):
    bare = replace(program, epochs=(Epoch(1, 1, EpochKind.SW),))
    with pytest.raises(TargetError, match="EpochBlock_1: not executed: the software kernel"):
        execute(bare, {"x": X})


def test_contradicting_registers_are_told(program):
    """An operation code that the unit does not have."""
    epoch = program.epochs[0]
    units = epoch.groups[0].units
    broken = replace(units[1], operation=99)
    group = Group((units[0], broken, units[2]), LINKS)
    program = replace(program, epochs=(replace(epoch, groups=(group,)),))
    with pytest.raises(TargetError, match="EpochBlock_1: the unit configurations do not match"):
        execute(program, {"x": X})


def test_keeping_an_unknown_buffer_is_told(program):
    with pytest.raises(TargetError, match="buffer 'nothing' is named but not in the program"):
        execute(program, {"x": X}, keep=("nothing",))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input 'x' is missing"),
        ({"x": X[0]}, r"input 'x' has shape \(2, 2, 3\), expected \(1, 2, 2, 3\)"),
        ({"x": X.astype(int) + 200}, "input 'x' has values that do not fit int8"),
    ],
)
def test_wrong_inputs(program, inputs, message):
    with pytest.raises(UsageError, match=message):
        execute(program, inputs)


def software(kernel, args, shapes, inputs, quant=None, floats=()):
    """Run one software epoch from buffers named x... to y."""
    bench = Bench()
    for name, shape in shapes.items():
        real = name in floats
        bench.buffer(name, shape, 32 if real else 8, is_float=real, quant=None if real else quant)
    names = tuple(name for name in shapes if name != "y")
    epoch = Epoch(1, 1, EpochKind.SW, call=Call(kernel, names, ("y",), args))
    program = replace(bench.program((), (), names, ("y",)), epochs=(epoch,))
    return execute(program, inputs).outputs["y"]


QUANT = Quant((0.5,), (3,))


def test_dequantize():
    found = software(
        "Dequantize",
        (),
        {"x": (1, 6), "y": (1, 6)},
        {"x": np.arange(6, dtype=np.int8)[None]},
        QUANT,
        ("y",),
    )
    np.testing.assert_array_equal(found, (np.arange(6, dtype=np.float32)[None] - 3) * 0.5)


def test_quantize_reads_floats():
    found = software(
        "Quantize",
        (),
        {"x": (1, 3), "y": (1, 3)},
        {"x": np.array([[0.0, 1.0, -100.0]], np.float32)},
        QUANT,
        ("x",),
    )
    assert found.tolist() == [[3, 5, -128]]


def test_mean_takes_its_attributes_from_the_call():
    args = (("axes", (1, 2)), ("keep_dims", False))
    x = np.arange(-12, 12, dtype=np.int8).reshape(1, 2, 3, 4)
    found = software("Mean", args, {"x": x.shape, "y": (1, 4)}, {"x": x}, QUANT)
    assert found.dtype == np.int8 and found.shape == (1, 4)
    np.testing.assert_allclose(found, x.mean(axis=(1, 2)), atol=0.5)


@pytest.mark.parametrize("pads", [((0, 0), (1, 2), (0, 0), (0, 1)), (0, 0, 1, 2, 0, 0, 0, 1)])
def test_pads_come_nested_or_flat(pads):
    x = np.ones((1, 2, 2, 2), np.int8)
    shapes = {"x": x.shape, "y": (1, 5, 2, 3)}
    found = software("Pad", (("pads", pads), ("value", 0)), shapes, {"x": x}, QUANT)
    assert found.sum() == 8 + 3 * (found.size - 8)  # padded with the zero point


def test_enums_travel_by_value():
    args = (("activation", "relu"),)
    x = np.array([[-50, 10]], np.int8)
    shapes = {"x": (1, 2), "x2": (1, 2), "y": (1, 2)}
    found = software("Add", args, shapes, {"x": x, "x2": np.full_like(x, 3)}, QUANT)
    assert found.tolist() == [[3, 10]]


def test_an_unknown_kernel_is_refused():
    with pytest.raises(
        TargetError, match="EpochBlock_1: not executed: unknown software kernel 'Magic'"
    ):
        software("Magic", (), {"x": (1, 1), "y": (1, 1)}, {"x": np.zeros((1, 1), np.int8)})
