"""All frames at once against frame by frame: the same bytes in memory, the same tallies."""

from __future__ import annotations

import numpy as np
import pytest

from npuscope.building import build
from npuscope.demo_network import demo_graph
from npuscope.program.modes import ActivOp, AfiltMode, ArithOp, Bcast, PoolOp, Simd
from npuscope.program.units import Activ, Arith, Convacc, PoolUnit
from npuscope.sim.arithmetic.convacc import ClampTally
from npuscope.sim.arithmetic.group import run_by_frames
from npuscope.sim.arithmetic.whole import run_whole
from npuscope.sim.memory import Memory
from npuscope.sim.run import execute
from npuscope.structs import replace
from sim.bench import Bench, bytes_of, feature_reader, kernel_reader, link, writer

SAME_PLACE = {"frame_loop_cnt": 1, "loop_offset": 0, "frame_offset": 0}


def both(bench, units, links, values, whole_works=True):
    """Memory after each way of running, and what they counted."""
    program = bench.program(units, links, values, ())
    (group,) = program.epochs[0].groups
    found = []
    for run in (run_whole, run_by_frames):
        memory, tally = Memory(program), ClampTally()
        for name, array in values.items():
            memory.write(name, array)
        answer = run(group, memory, tally)
        assert run is run_by_frames or answer is whole_works
        found.append(([memory.read(b.name) for b in bench.buffers], tally))
    if whole_works:
        (first, tally), (second, expected) = found
        for one, other in zip(first, second, strict=True):
            np.testing.assert_array_equal(one, other)
        assert (tally.outputs, tally.clamped) == (expected.outputs, expected.clamped)
    return found


def drawn(rng, *choices):
    return [choice[rng.integers(len(choice))] for choice in choices]


def conv_settings(rng, size, kernel):
    """What a unit does with its frame and its result, drawn."""
    stride, pad, saturation, rounding = drawn(rng, (1, 2), (0, 1), (1, 1, 0), (1, 1, 0))
    return {
        "fHeight": size[0],
        "fWidth": size[1],
        "kernelHeight": kernel,
        "kernelWidth": kernel,
        "vstride": stride,
        "hstride": stride,
        "top_padding": pad,
        "left_padding": pad,
        "bot_padding": pad,
        "right_padding": 0,
        "zfbias": int(rng.integers(-5, 6)),
        "saturation_o": saturation,
        "rounding_o": rounding,
        "fsub": int(rng.integers(-128, 128)),
    }


@pytest.mark.parametrize("seed", range(40))
def test_series_tiles_and_passes(seed):
    """Units in series, tiles of kernels, passes through memory that round and saturate."""
    rng = np.random.default_rng(seed)
    series, passes, tiles, kernel = drawn(rng, (1, 2, 3), (1, 2, 3), (1, 3), (1, 3))
    size, depth, kernels = (5, 4), int(rng.integers(1, 5)), int(rng.integers(1, 5))
    shift, wide = int(rng.integers(0, 9)), bool(rng.integers(2))
    settings = conv_settings(rng, size, kernel)
    bench = Bench()
    channels = depth * series * passes
    bits = 16 if wide else 8
    source = bench.buffer("x", (1, *size, channels), bits)
    kernel_size = kernel * kernel * depth
    frames, delivered = tiles * passes, kernels * series
    weights = bench.constant("w", bytes_of(rng, frames * delivered * kernel_size))
    units, links = [], []
    for number in range(series):
        first, last = number == 0, number == series - 1
        unit = Convacc(
            id=number,
            nKernels=kernels,
            batchDepth=depth,
            simd=Simd.S16X8 if wide else Simd.S8X8,
            outbytes_o=2 if last else 3,
            shift_o=shift if last else 0,
            shift_a=shift if first else 0,
            accumulate=int(not first or passes > 1),
            accumulate_first=1,
            kfilt_tot=delivered if series > 1 else 0,
            kfilt_first=number * kernels if series > 1 else 0,
            kfilt_last=(number + 1) * kernels - 1 if series > 1 else 0,
            **settings,
        )
        if first and passes > 1:
            turn = {"afilt_tot": passes, "afilt_first": 1, "afilt_last": passes - 1}
            unit = replace(unit, afilt_mode=AfiltMode.FRAMEZERO, **turn)
        step = depth * bits // 8
        reader = feature_reader(
            10 + number,
            source,
            depth,
            frames,
            offset_start=number * step,
            frame_offset=series * step,
            frame_loop_cnt=passes,
        )
        units += [unit, reader]
        links.append(link(f"STRENG{10 + number}", f"CONVACC{number}"))
        links.append(link("STRENG0", f"CONVACC{number}.1"))
        if not first:
            links.append(link(f"CONVACC{number - 1}", f"CONVACC{number}.2"))
    rows, columns = units[0].out_size
    out = f"CONVACC{series - 1}"
    target = bench.buffer("y", (1, rows, columns, tiles * kernels), 16)
    units += [kernel_reader(0, weights, delivered * kernel_size, frames)]
    units += [writer(1, target, kernels, tiles)]
    if passes > 1:
        partial = bench.buffer("partial", (1, rows, columns, kernels), 16)
        units += [
            feature_reader(2, partial, kernels, frames, **SAME_PLACE),
            writer(3, partial, kernels, frames, **SAME_PLACE),
        ]
        dropped = {"enable0": False, "frames0": passes - 1, "enable1": True, "frames1": 1}
        links += [link("STRENG2", "CONVACC0.2"), link(out, "STRENG3")]
        links += [link(out, "STRENG1", **dropped)]
    else:
        links += [link(out, "STRENG1")]
    limit = 1 << (bits - 1)
    x = rng.integers(-limit, limit, (1, *size, channels)).astype(f"i{bits // 8}")
    both(bench, units, links, {"x": x})


@pytest.mark.parametrize("seed", range(24))
def test_groups_of_channels(seed):
    """Depthwise and dense groups, strided, packed in words of two, signed or not."""
    rng = np.random.default_rng(seed)
    group, kernel, dense, unsigned, packed = drawn(
        rng, (1, 2, 4), (1, 2, 3), (False, False, True), (0, 1), (False, True)
    )
    packed = packed and group > 1
    size, frames = (7, 6), int(rng.integers(1, 6))
    bench = Bench()
    source = bench.buffer("x", (1, *size, group * frames))
    kept = np.ones((group, group)) if dense else np.eye(group)
    w = bytes_of(rng, frames, group, kernel * kernel, group) * kept[:, None].astype(np.int8)
    weights = bench.constant("w", w)
    unit = Convacc(
        id=0,
        nKernels=group,
        batchDepth=group,
        shift_o=int(rng.integers(0, 5)),
        f_unsigned=unsigned,
        k_unsigned=int(rng.integers(2)),
        dss2mode=int(packed),
        inbytes_f=2 if packed else 1,
        **conv_settings(rng, size, kernel),
    )
    rows, columns = unit.out_size
    target = bench.buffer("y", (1, rows, columns, group * frames), 16)
    wide = {"nbits_in": 16, "nbits_out": 16, "frame_offset": group} if packed else {}
    units = (
        feature_reader(0, source, group // 2 if packed else group, frames, **wide),
        kernel_reader(1, weights, group * group * kernel * kernel, frames),
        unit,
        writer(2, target, group, frames),
    )
    links = (
        link("STRENG0", "CONVACC0"),
        link("STRENG1", "CONVACC0.1"),
        link("CONVACC0", "STRENG2"),
    )
    both(bench, units, links, {"x": bytes_of(rng, 1, *size, group * frames)})


@pytest.mark.parametrize("seed", range(24))
def test_arithmetic_with_tables(seed):
    """Vectors, a table whose rows are read again, thresholds, and pools behind them."""
    rng = np.random.default_rng(seed)
    operation, clip, pooling = drawn(
        rng,
        (ArithOp.AFFINE, ArithOp.MUL, ArithOp.MIN, ArithOp.MAX),
        (0, 1),
        (PoolOp.MAX, PoolOp.AVG, PoolOp.GAVG),
    )
    rows, columns, depth, frames = 4, 5, 3, 3
    bench = Bench()
    x = bench.buffer("x", (1, rows, columns, depth * frames), 16)
    table = bench.constant("t", rng.integers(-900, 900, (frames, columns, depth), dtype=np.int16))
    vector = bench.constant("a", rng.integers(-(1 << 15), 1 << 15, depth * frames, dtype=np.int16))
    shape = {"fWidth": columns, "fHeight": rows, "batchDepth": depth, "fChannels": depth * frames}
    shifts = {"Ax_shift": int(rng.integers(0, 6)), "By_shift": int(rng.integers(0, 3))}
    two = Arith(
        id=0,
        operation=operation,
        outbytes_o=2,
        shift_o=int(rng.integers(0, 10)),
        scalar=1,
        dualinput=1,
        inbytes_y=2,
        A_scalar=int(rng.integers(-999, 999)),
        B_scalar=int(rng.integers(-999, 999)),
        C_scalar=int(rng.integers(-999, 999)),
        C_shift=int(rng.integers(0, 20)),
        clipout=clip,
        clipmin=-700,
        clipmax=900,
        **shape,
        **shifts,
    )
    one = Arith(
        id=1,
        operation=ArithOp.AFFINE,
        A_vector=vector,
        bcast=Bcast.CHAN,
        shift_o=int(rng.integers(0, 18)),
        saturation_o=int(rng.integers(2)),
        **shape,
    )
    relu = Activ(id=0, operation=ActivOp.TRELU, parameter=-3, parameter_2=2)
    window = PoolUnit(
        id=0,
        operation=pooling,
        inputX=columns,
        inputY=rows,
        outputX=columns,
        outputY=rows,
        batchSize=depth,
        poolWinX=2,
        poolWinY=3,
        topPad=1,
        bottomPad=1,
        leftPad=1,
        mulval=7777 if pooling != PoolOp.MAX else 0,
        shift_o=12 if pooling != PoolOp.MAX else 0,
        rounding_o=1,
        saturation_o=1,
    )
    out = (1, 1) if window.is_global else (rows, columns)
    target = bench.buffer("y", (1, *out, depth * frames))
    again = {"fheight": 1, "frame_offset": 0, "loop_offset": 2 * columns * depth}
    rows_again = feature_reader(1, x, depth, rows * frames, **again)
    units = (
        feature_reader(0, x, depth, frames),
        replace(rows_again, addr_base=table, batch_offset=2 * depth, frame_loop_cnt=rows),
        two,
        one,
        relu,
        window,
        writer(2, target, depth, frames),
    )
    links = (
        link("STRENG0", "ARITH0"),
        link("STRENG1", "ARITH0.1"),
        link("ARITH0", "ARITH1"),
        link("ARITH1", "ACTIV0"),
        link("ACTIV0", "POOL0"),
        link("POOL0", "STRENG2"),
    )
    values = rng.integers(-(1 << 15), 1 << 15, (1, rows, columns, depth * frames), dtype=np.int16)
    both(bench, units, links, {"x": values})


def copying(**moved):
    """Two frames go from one half of a buffer to another place in it."""
    bench = Bench()
    buffer = bench.buffer("x", (1, 2, 3, 8))
    units = (feature_reader(0, buffer, 2, 2), replace(writer(1, buffer, 2, 2), **moved))
    return bench, units, (link("STRENG0", "STRENG1"),)


def test_other_channels_of_the_same_buffer_are_no_overlap():
    bench, units, links = copying(offset_start=4)
    values = np.arange(48, dtype=np.int8).reshape(1, 2, 3, 8)
    both(bench, units, links, {"x": values})


def test_what_is_stored_and_read_again_needs_single_frames():
    """The second frame reads what the first one stored."""
    bench, units, links = copying(offset_start=2)
    values = np.arange(48, dtype=np.int8).reshape(1, 2, 3, 8)
    both(bench, units, links, {"x": values}, whole_works=False)


def test_a_frame_over_the_one_before_keeps_the_last():
    bench = Bench()
    source, target = bench.buffer("x", (1, 2, 3, 8)), bench.buffer("y", (1, 2, 3, 8))
    units = (feature_reader(0, source, 2, 4), replace(writer(1, target, 2, 4), frame_offset=1))
    values = np.arange(48, dtype=np.int8).reshape(1, 2, 3, 8)
    both(bench, units, (link("STRENG0", "STRENG1"),), {"x": values})


def test_a_source_that_ends_early_stores_nothing_at_once():
    bench = Bench()
    source, target = bench.buffer("x", (1, 2, 2, 2)), bench.buffer("y", (1, 2, 2, 6))
    units = (feature_reader(0, source, 2), writer(1, target, 2, 3))
    program = bench.program(units, (link("STRENG0", "STRENG1"),), ("x",), ())
    memory = Memory(program)
    memory.write("x", np.ones((1, 2, 2, 2), np.int8))
    assert not run_whole(program.epochs[0].groups[0], memory, ClampTally())
    assert not memory.read("y").any()


@pytest.mark.parametrize("generation", ["2.2", "4.0", "open"])
def test_a_compiled_network_needs_no_single_frames(generation, monkeypatch):
    program = build(demo_graph(), {"generation": generation}).program
    image = np.random.default_rng(3).integers(-128, 128, (1, 96, 96, 3), dtype=np.int8)
    monkeypatch.setattr("npuscope.sim.arithmetic.whole.run_by_frames", None)
    found = execute(program, {"image": image})
    monkeypatch.setattr("npuscope.sim.run.run_group", run_by_frames)
    expected = execute(program, {"image": image})
    assert found.saturated_share == expected.saturated_share
    for name, array in expected.outputs.items():
        np.testing.assert_array_equal(found.outputs[name], array)
