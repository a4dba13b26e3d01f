"""Streams executed to the bit, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import structs

from ethos_u.networks import CONFIGURATIONS, SHAPE_IN, SHAPE_OUT, SOURCE, TARGET, Convolution
from ethos_u.streams import U55_128, U85_256, Builder
from npuscope.errors import FileError
from npuscope.families.ethos_u.arithmetic.convolution import Layer, convolved
from npuscope.families.ethos_u.arithmetic.curves import sigmoid, tanh
from npuscope.families.ethos_u.arithmetic.scaling import rescaled
from npuscope.families.ethos_u.execute import execute, is_too_large
from npuscope.families.ethos_u.jobs import (
    FeatureMap,
    KernelWindow,
    MemorySpan,
    NpuRounding,
    NpuTransfer,
)
from npuscope.families.ethos_u.memory import Memories
from npuscope.families.ethos_u.registers import jobs_of


def arena(values: np.ndarray, size: int = 1024) -> np.ndarray:
    memory = np.zeros(size, np.uint8)
    memory[SOURCE : SOURCE + values.nbytes] = np.frombuffer(values.tobytes(), np.uint8)
    return memory


def output(memory: np.ndarray, shape: tuple[int, ...], place: int = TARGET) -> np.ndarray:
    return memory[place : place + int(np.prod(shape))].view(np.int8).reshape(shape)


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda one: one.machine)
@pytest.mark.parametrize("seed", range(3))
def test_a_convolution_is_what_plain_loops_compute(configuration, seed: int) -> None:
    layer = Convolution(configuration, seed)
    image = np.random.default_rng(9 + seed).integers(-128, 128, SHAPE_IN).astype(np.int8)
    memory = arena(image)
    execute(layer.stream(), Memories({0: layer.constants, 1: memory}))
    assert np.array_equal(output(memory, SHAPE_OUT), layer.expected(image))
    assert len(np.unique(output(memory, SHAPE_OUT))) > 20


def test_a_sum_has_the_rounding_of_litert() -> None:
    """The first input is scaled with 31 bits, the second only shifted."""
    rng = np.random.default_rng(2)
    shape = (1, 16, 16)
    a, b = (rng.integers(-128, 128, shape).astype(np.int8) for _ in range(2))
    memory = arena(np.concatenate((a, b)))
    builder = Builder().image("IFM", shape, 1, 0).image("IFM2", shape, 1, 256)
    builder.image("OFM", shape, 1, TARGET).set("IFM_ZERO_POINT", zero_point=5)
    builder.set("IFM_PRECISION", type=1, ifm_scale_mode=1).set(
        "OFM_PRECISION", type=1, scale_mode=1
    )
    builder.set("OPA_SCALE", shift=12, scale=1_847_115_110).set("OPB_SCALE")
    builder.set("OFM_SCALE", shift=50, scale=1_776_415_860)
    execute(builder.op("ELEMENTWISE", elementwise=1).op("STOP").stream(), Memories({1: memory}))
    expected = []
    for x, y in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True):
        first = _twice((x - 5) << 20, 1_847_115_110, 12 + 20)
        expected.append(_twice(first + (y << 19), 1_776_415_860, 50))
    assert output(memory, shape).ravel().tolist() == np.clip(expected, -128, 127).tolist()


def _twice(value: int, factor: int, shift: int) -> int:
    high = (value * factor + (1 << 30)) >> 31
    half = 1 << (shift - 31) >> 1
    return ((abs(high) + half) >> (shift - 31)) * (-1 if high < 0 else 1)


@pytest.mark.parametrize(
    ("rounding", "results"),
    [
        (NpuRounding.NATURAL, [-1, 0, 1, 2]),
        (NpuRounding.SYMMETRIC, [-2, -1, 1, 2]),
        (NpuRounding.TO_ZERO, [-1, 0, 0, 1]),
        (NpuRounding.TO_LOWER, [-2, -1, 0, 1]),
    ],
)
def test_halves_are_rounded_as_the_mode_says(rounding: NpuRounding, results: list[int]) -> None:
    halves = np.array([-3, -1, 1, 3])
    assert rescaled(halves, 1, 1, rounding).tolist() == results


def test_double_rounding_rounds_a_value_that_was_rounded() -> None:
    """0.4999 of a unit becomes a half first, and then a whole."""
    just_below = (1 << 31) - 1  # over 2**32
    assert rescaled(np.array([just_below]), 1, 32, NpuRounding.DOUBLE).tolist() == [1]
    assert rescaled(np.array([just_below]), 1, 32, NpuRounding.NATURAL).tolist() == [0]


def test_padded_averages_count_the_pixels_that_are_there() -> None:
    image = np.full((2, 2, 1), 9, np.int8)
    memory = arena(image)
    builder = Builder().image("IFM", (2, 2, 1), 1, 0).image("OFM", (2, 2, 1), 1, TARGET)
    for side in ("TOP", "LEFT"):
        builder.set(f"IFM_PAD_{side}", pad=1)
    builder.set("KERNEL_HEIGHT_M1", value=1).set("KERNEL_WIDTH_M1", value=1)
    builder.set("OFM_PRECISION", type=1, scale_mode=1, round_mode=2).set("OFM_SCALE", scale=1)
    execute(builder.op("POOL", pooling=1).op("STOP").stream(), Memories({1: memory}))
    assert output(memory, (2, 2, 1)).ravel().tolist() == [9, 9, 9, 9]


def test_a_maximum_does_not_look_at_a_scale_that_was_left_over() -> None:
    image = np.array([3, -7, 90, 4], np.int8).reshape(2, 2, 1)
    memory = arena(image)
    builder = Builder().image("IFM", (2, 2, 1), 1, 0).image("OFM", (1, 1, 1), 1, TARGET)
    builder.set("KERNEL_HEIGHT_M1", value=1).set("KERNEL_WIDTH_M1", value=1)
    builder.set("OFM_PRECISION", type=1, scale_mode=0).set("OFM_SCALE", scale=1 << 30, shift=40)
    execute(builder.op("POOL", pooling=0).op("STOP").stream(), Memories({1: memory}))
    assert output(memory, (1,)).tolist() == [90]


def test_a_table_of_8_bits_is_looked_up_and_loaded_by_a_transfer() -> None:
    table = np.arange(255, -1, -1, np.uint8)  # of -128 to 127
    image = np.array([-128, -1, 0, 127], np.int8).reshape(1, 1, 4)
    memory = arena(image)
    builder = Builder().set("DMA0_SRC_REGION").set("DMA0_SRC")
    builder.set("DMA0_DST_REGION", region_mode=1).set("DMA0_DST", address=22 * 1024 + 256)
    builder.set("DMA0_LEN", address=256).op("DMA_START").op("DMA_WAIT")
    builder.image("IFM", (1, 1, 4), 1, 0).image("OFM", (1, 1, 4), 1, TARGET)
    builder.set("OFM_PRECISION", type=1, scale_mode=1).set("OFM_SCALE", scale=1)
    builder.set("ACTIVATION", function=17)
    execute(builder.op("POOL", pooling=0).op("STOP").stream(), Memories({0: table, 1: memory}))
    assert output(memory, (4,)).tolist() == [-1, -128, 127, 0]


@pytest.mark.parametrize(("elementwise", "expected"), [(1, 300), (0, 800_000)])
def test_u85_scales_sums_of_32_bits_but_not_products(elementwise: int, expected: int) -> None:
    memory = arena(np.array([1_000_000], "<i4"))
    builder = Builder(U85_256).image("IFM", (1, 1, 1), 1, 0).image("OFM", (1, 1, 1), 1, TARGET)
    builder.set("IFM_PRECISION", type=1, precision=2).set("IFM2_PRECISION", type=1, storage=3)
    builder.set("IFM2_BROADCAST", broadcast=8).set("OP_SCALAR", scalar=200_000)
    if elementwise == 0:
        builder.set("OP_SCALAR", scalar=838_861)
    builder.set("IFM_SCALE", scale=1).set("IFM2_SCALE", scale=1)
    builder.set("OFM_SCALE", scale=262, shift=20, round_mode=1)
    builder.set("OFM_PRECISION", type=1, precision=2, scale_mode=1)
    builder.set("ACTIVATION", clip_range=1).op("ELEMENTWISE", elementwise=elementwise).op("STOP")
    execute(builder.stream(), Memories({1: memory}))
    assert memory[TARGET : TARGET + 4].view("<i4")[0] == expected


def test_chained_kernels_of_u85_hand_over_without_a_memory() -> None:
    image = np.arange(16, dtype=np.int8).reshape(1, 1, 16)
    memory = arena(image)
    builder = Builder(U85_256).image("IFM", (1, 1, 16), 1, 0).image("OFM", (1, 1, 16), 1, TARGET)
    builder.set("IFM_SCALE", scale=1).set("IFM2_SCALE", scale=1).set("OFM_SCALE", scale=1)
    builder.set("OFM_PRECISION", type=1, scale_mode=1, storage=2).set("OFM_REGION", region=3)
    builder.set("IFM2_PRECISION", type=1, storage=3).set("IFM2_BROADCAST", broadcast=8)
    builder.set("OP_SCALAR", scalar=2).op("ELEMENTWISE", elementwise=0)
    builder.set("IFM_PRECISION", type=1, storage=2).set("IFM_REGION", region=3)
    builder.set("OFM_PRECISION", type=1, scale_mode=1).set("OFM_REGION", region=1)
    builder.op("ELEMENTWISE", elementwise=1).op("STOP")
    execute(builder.stream(), Memories({1: memory}))
    assert output(memory, (16,)).tolist() == [2 * n + 2 for n in range(16)]


def test_bricks_and_tiles_are_found() -> None:
    memory = np.zeros(4096, np.uint8)
    values = np.arange(3 * 4 * 20, dtype=np.uint8).reshape(3, 4, 20)
    place = FeatureMap(
        1, (0, 2048, 1024, 3072), 256, 16, 64, 2, 2, 3, bricks=True, dtype="u1", zero_point=0
    )
    memories = Memories({1: memory})
    memories.write(place, values)
    assert np.array_equal(memories.read(place, values.shape), values)
    assert memory[0] == values[0, 0, 0]
    assert memory[64 + 16 + 3] == values[0, 1, 19]  # second brick, second pixel
    assert memory[2048] == values[0, 3, 0]  # right of the first tile
    assert memory[1024] == values[2, 0, 0]  # below it


def test_maps_can_be_written_backwards() -> None:
    memories = Memories({1: np.zeros(64, np.uint8)})
    values = np.arange(6, dtype=np.uint8).reshape(3, 2, 1)
    place = FeatureMap(1, (40, 0, 0, 0), -8, 1, 1, 3, 3, 2, bricks=False, dtype="u1", zero_point=0)
    memories.write(place, values)
    assert memories.regions[1][[40, 32, 24]].tolist() == [0, 2, 4]


def test_transfers_of_rows_and_by_index() -> None:
    source = np.arange(64, dtype=np.uint8)
    memories = Memories({0: source, 1: np.zeros(64, np.uint8)})
    rows = NpuTransfer(0, MemorySpan(0, 0, 2), MemorySpan(1, 0, 2), False, (3, 1), (8, 0), (2, 0))
    memories.transfer(rows)
    assert memories.regions[1][:6].tolist() == [0, 1, 8, 9, 16, 17]
    memories.regions[2] = np.array([3, 1], "<i4").view(np.uint8)
    gather = NpuTransfer(
        0,
        MemorySpan(0, 0, 4),
        MemorySpan(1, 32, 4),
        False,
        (2, 1),
        (4, 0),
        (4, 0),
        MemorySpan(2, 0, 9),
    )
    memories.transfer(gather)
    assert memories.regions[1][32:40].tolist() == [12, 13, 14, 15, 4, 5, 6, 7]


def test_what_reaches_beyond_a_memory_is_refused() -> None:
    layer = Convolution(U55_128)
    with pytest.raises(FileError) as error:
        execute(layer.stream(), Memories({0: layer.constants, 1: np.zeros(300, np.uint8)}))
    assert "beyond the 300 bytes of region 1" in error.value.message
    with pytest.raises(FileError):
        execute(layer.stream(), Memories({0: layer.constants[:200], 1: np.zeros(1024, np.uint8)}))
    with pytest.raises(FileError):
        execute(layer.stream(), Memories({1: np.zeros(1024, np.uint8)}))


def test_curves_are_near_their_functions() -> None:
    inputs = np.arange(-90_000, 90_000, 37)
    x = inputs / 12288
    assert np.abs(sigmoid(inputs) / 32768 - 1 / (1 + np.exp(-x))).max() < 2e-4
    assert np.abs(tanh(inputs) / 32768 - np.tanh(x)).max() < 4e-4
    assert sigmoid(np.array([0])).tolist() == [16384]
    assert tanh(np.array([0])).tolist() == [0]


@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (1, 3)])
@pytest.mark.parametrize("dilation", [(1, 1), (1, 2), (2, 1), (2, 2)])
def test_depthwise_windows_may_have_strides_and_dilation(
    stride: tuple[int, int], dilation: tuple[int, int]
) -> None:
    rng = np.random.default_rng(4)
    image = rng.integers(-128, 128, (9, 11, 2))
    weights = rng.integers(-128, 128, (2, 3, 3, 1))
    reach = tuple(2 * step + 1 for step in dilation)
    sizes = [(n - r) // s + 1 for n, r, s in zip(image.shape, reach, stride, strict=False)]
    window = KernelWindow((3, 3), stride, dilation, (0, 0, 0, 0), False)
    builder = Builder().image("IFM", image.shape, 1, 0).image("OFM", (*sizes, 2), 1, TARGET)
    job = next(iter(jobs_of(builder.op("DEPTHWISE").op("STOP").stream())))
    kernel = structs.replace(job, window=window, shape=(*sizes, 2))
    ones, zeros = np.ones(2, np.int64), np.zeros(2, np.int64)
    result = convolved(kernel, Layer(weights, zeros, ones, zeros), image.astype(np.int8))
    for y, x in np.ndindex(*sizes):
        part = image[y * stride[0] :, x * stride[1] :]
        part = part[: reach[0] : dilation[0], : reach[1] : dilation[1]]
        assert (result[y, x] == (part * weights[..., 0].transpose(1, 2, 0)).sum((0, 1))).all()


def test_a_resize_is_bounded_by_its_lines_not_by_the_pixels_of_its_input() -> None:
    """A depth network on U85 makes 320x320 of 160x160."""
    builder = Builder().image("IFM", (9, 11, 2), 1, 0).image("OFM", (7, 9, 2), 1, TARGET)
    job = next(iter(jobs_of(builder.op("DEPTHWISE").op("STOP").stream())))
    window = KernelWindow((160, 160), (1, 1), (1, 1), (0, 0, 0, 0), False)
    kernel = structs.replace(job, kind="RESIZE", shape=(320, 320, 16), window=window)
    assert not is_too_large(kernel)
    wide = structs.replace(window, size=(2, 1 << 22))
    assert is_too_large(structs.replace(kernel, shape=(320, 2, 16), window=wide))
