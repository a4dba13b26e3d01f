"""Moves of data that the firmware does for images, on this machine."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from firmware.validation_library import WORD, Library, Pad, build, table, values

NOT_VALID = -5


@pytest.fixture(scope="module", params=[2, 3])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Library:
    return build(tmp_path_factory.mktemp("library"), request.param)


# Axes as the caller counts them (N, C, H, W), and where they are in memory.
AXES = {1: 3, 2: 1, 3: 2}


@pytest.mark.parametrize("dtype", ["int8", "int16", "float32"])
@pytest.mark.parametrize("axis", AXES)
def test_concat(library: Library, axis: int, dtype: str) -> None:
    shapes = [[1, 3, 5, 4], [1, 3, 5, 4], [1, 3, 5, 4]]
    for shape, size in zip(shapes, (2, 1, 7), strict=True):
        shape[AXES[axis]] = size
    parts = [values(tuple(shape), dtype, seed) for seed, shape in enumerate(shapes)]
    wanted = np.concatenate(parts, AXES[axis])
    made = np.zeros_like(wanted)
    inputs = table(*map(library.info, parts))
    assert library("Concat", inputs, 3, ctypes.byref(library.info(made)), axis) == 0
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("axis", AXES)
def test_concat_of_other_layouts(library: Library, axis: int) -> None:
    """The parts lie channel after channel, the result pixel after pixel."""
    parts = [values((1, 3, 5, 4), seed=seed) for seed in (1, 2)]
    planes = [np.ascontiguousarray(part.transpose(0, 3, 1, 2)) for part in parts]
    wanted = np.concatenate(parts, AXES[axis])
    made = np.zeros_like(wanted)
    inputs = table(*(library.info(plane, (1, 3, 5, 4), batch=1) for plane in planes))
    assert library("Concat", inputs, 2, ctypes.byref(library.info(made)), axis) == 0
    np.testing.assert_array_equal(made, wanted)


def test_concat_that_does_not_fit(library: Library) -> None:
    inputs = table(library.info(values((1, 3, 5, 4))), library.info(values((1, 3, 5, 3))))
    made = np.zeros((1, 3, 5, 6), np.int8)
    assert library("Concat", inputs, 2, ctypes.byref(library.info(made)), 1) == NOT_VALID
    blocks = table(library.info(values((1, 3, 5, 6)), batch=2))
    assert library("Concat", blocks, 1, ctypes.byref(library.info(made)), 1) == NOT_VALID


@pytest.mark.parametrize("perm", [(0, 2, 1, 3), (0, 3, 1, 2), (3, 2, 1, 0)])
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32"])
def test_transpose(library: Library, perm: tuple[int, ...], dtype: str) -> None:
    source = values((2, 3, 5, 4), dtype)
    wanted = np.ascontiguousarray(source.transpose(perm))
    made = np.zeros_like(wanted)
    steps = [(WORD * 4)(*array.strides) for array in (source, made)]
    target = (ctypes.c_uint8 * 4)(*(perm.index(axis) for axis in range(4)))
    order = (ctypes.c_uint8 * 4)(*perm)
    infos = [ctypes.byref(library.info(array)) for array in (source, made)]
    arguments = (infos[0], steps[0], infos[1], steps[1], target, order)
    assert library("DMA_Transpose", *arguments) == 0
    np.testing.assert_array_equal(made, wanted)


def deep_of(image: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Channels: row in the block, column in the block, channel."""
    n, height, width, channels = image.shape
    parts = image.reshape(n, height // rows, rows, width // columns, columns, channels)
    shape = (n, height // rows, width // columns, rows * columns * channels)
    return np.ascontiguousarray(parts.transpose(0, 1, 3, 2, 4, 5).reshape(shape))


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("block", [(2, 2), (3, 2), (1, 5)])
def test_depth_and_space(library: Library, block: tuple[int, int], dtype: str) -> None:
    image = values((1, 6, 10, 3), dtype)
    deep = deep_of(image, *block)
    made_deep, made_image = np.zeros_like(deep), np.zeros_like(image)
    output = ctypes.byref(library.info(made_deep))
    assert library("DMA_SpaceToDepth", table(library.info(image)), 1, output, *block) == 0
    np.testing.assert_array_equal(made_deep, deep)
    output = ctypes.byref(library.info(made_image))
    assert library("DMA_DepthToSpace", table(library.info(deep)), 1, output, *block) == 0
    np.testing.assert_array_equal(made_image, image)


def test_depth_to_space_from_blocks_of_channels(library: Library) -> None:
    """The channels of each place in a block lie together."""
    image = values((1, 6, 10, 3))
    deep = deep_of(image, 2, 2)
    stored = np.ascontiguousarray(deep.reshape(3, 5, 4, 3).transpose(2, 0, 1, 3))
    made = np.zeros_like(image)
    inputs = table(library.info(stored, deep.shape, batch=3))
    output = ctypes.byref(library.info(made))
    assert library("DMA_DepthToSpace", inputs, 1, output, 2, 2) == 0
    np.testing.assert_array_equal(made, image)
    wrong = table(library.info(stored, deep.shape, batch=2))
    assert library("DMA_DepthToSpace", wrong, 1, output, 2, 2) == NOT_VALID


def test_windows_that_overlap(library: Library) -> None:
    image = values((1, 7, 9, 2))
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), (1, 2))[:, ::2, ::3]
    deep = np.ascontiguousarray(windows.transpose(0, 1, 2, 4, 5, 3).reshape(1, 3, 3, 18))
    made, back = np.zeros_like(deep), np.zeros_like(image)
    output = ctypes.byref(library.info(made))
    inputs = table(library.info(image))
    assert library("DMA_ImageToRow", inputs, 1, output, 3, 3, 2, 3) == 0
    np.testing.assert_array_equal(made, deep)
    image_out = ctypes.byref(library.info(back))
    assert library("DMA_RowToImage", table(library.info(deep)), 1, image_out, 3, 3, 2, 3) == 0
    np.testing.assert_array_equal(back, image)
    assert library("DMA_ImageToRow", inputs, 1, output, 3, 3, 3, 3) == NOT_VALID


def test_one_tensor_into_several(library: Library) -> None:
    source = values((1, 4, 5, 6), "int16")
    made = [np.zeros(shape, np.int16) for shape in ((40,), (50,), (30,))]
    outputs = table(*(library.info(array) for array in made))
    assert library("DMA_Outputs_Flat_Copy", ctypes.byref(library.info(source)), outputs, 3) == 0
    np.testing.assert_array_equal(np.concatenate(made), source.reshape(-1))
    short = ctypes.byref(library.info(values((1, 119), "int16")))
    assert library("DMA_Outputs_Flat_Copy", short, outputs, 3) == NOT_VALID


def test_channels_into_several(library: Library) -> None:
    source = values((1, 4, 5, 10))
    wanted = np.split(source, [4], 3)
    made = [np.zeros(part.shape, np.int8) for part in wanted]
    # The shapes are the caller's here: N, C, H, W.
    outputs = table(*(library.info(array, (1, array.shape[3], 4, 5)) for array in made))
    given = ctypes.byref(library.info(source))
    assert library("DMA_Outputs_Channel_Split_Aton", given, outputs, 2, 1) == 0
    for array, part in zip(made, wanted, strict=True):
        np.testing.assert_array_equal(array, part)


def test_channels_into_blocks(library: Library) -> None:
    source = values((1, 4, 5, 10))
    wanted = np.split(source, [4], 3)
    made = [np.zeros(part.size, np.int8) for part in wanted]
    outputs = table(
        library.info(made[0], (1, 4, 4, 5), batch=2), library.info(made[1], (1, 6, 4, 5), batch=3)
    )
    given = ctypes.byref(library.info(source))
    assert library("DMA_Outputs_Channel_Split_Batched", given, outputs, 2) == 0
    for array, part, batch in zip(made, wanted, (2, 3), strict=True):
        blocks = part.reshape(20, -1, batch).transpose(1, 0, 2)
        np.testing.assert_array_equal(array, blocks.reshape(-1))


def test_lines_of_a_tensor(library: Library) -> None:
    source, made = values((6, 20)), np.zeros((6, 7), np.int8)
    infos = [ctypes.byref(library.info(array)) for array in (source, made)]
    assert library("DMA_Outputs_Slice_SplitLike", *infos, made.nbytes, 7, 6, 20, 8) == 0
    np.testing.assert_array_equal(made, source[:, :7])
    assert library("DMA_Outputs_Slice_SplitLike", *infos, 41, 7, 6, 20, 8) == NOT_VALID


@pytest.mark.parametrize(("source", "target"), [("float32", "int8"), ("int32", "int8")])
def test_cast(library: Library, source: str, target: str) -> None:
    given = np.array([0, 1.9, -1.9, 127.6, 300, -500, 77], source)
    made = np.zeros(7, target)
    infos = [ctypes.byref(library.info(array)) for array in (given, made)]
    assert library("Cast", *infos) == 0
    cut = np.clip(np.trunc(given), -128, 127) if source == "float32" else given
    np.testing.assert_array_equal(made, cut.astype(target))


@pytest.mark.parametrize("legacy", [0, 1])
def test_softmax(library: Library, legacy: int) -> None:
    given = np.random.default_rng(3).normal(0, 2, (2, 9)).astype(np.float32)
    made = np.zeros_like(given)
    infos = [ctypes.byref(library.info(array)) for array in (given, made)]
    assert library("Softmax", *infos, 1, legacy, engines=False) == 0
    powers = np.exp(given - given.max(1, keepdims=True))
    np.testing.assert_allclose(made, powers / powers.sum(1, keepdims=True), rtol=1e-5)


def test_softmax_of_whole_numbers(library: Library) -> None:
    given = values((1, 11), "int8")
    made = np.zeros_like(given)
    infos = (library.info(given, scale=0.05, zero=3), library.info(made, scale=1 / 256, zero=-128))
    assert library("Softmax", *map(ctypes.byref, infos), 1, 0, engines=False) == 0
    real = 0.05 * (given.astype(np.float64) - 3)
    powers = np.exp(real - real.max())
    wanted = np.clip(np.round(powers / powers.sum() * 256) - 128, -128, 127)
    np.testing.assert_allclose(made, wanted, atol=1)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_padding(library: Library, dtype: str) -> None:
    """Two rows above and one below, one column left and three right; channels in one piece."""
    source = values((4, 5, 3), dtype)
    wanted = np.pad(source, ((2, 1), (1, 3), (0, 0)), constant_values=-9)
    made = np.zeros_like(wanted)
    row, pixel = made.strides[:2]
    arrays = {
        "repeats": (4, 5, 1),
        "in_before": (0, 0, 0),
        "in_after": (0, 0, 0),
        "out_before": (2 * row, pixel, 0),
        "out_after": (row, 3 * pixel, 0),
    }
    kept = {name: (ctypes.c_int32 * 3)(*numbers) for name, numbers in arrays.items()}
    places = {name: ctypes.addressof(numbers) for name, numbers in kept.items()}
    pad = Pad(
        source=source.ctypes.data,
        target=made.ctypes.data,
        axis=2,
        bytes=3 * source.itemsize,
        element=source.itemsize,
        rank=3,
        then=1,
        **places,
    )
    output = ctypes.c_void_p(made.ctypes.data)
    size = ctypes.c_size_t(made.nbytes)
    arguments = (output, -9, size, ctypes.byref(pad))
    assert library("DMA_Pad_Memset", *arguments, engines=False) == 0
    np.testing.assert_array_equal(made, wanted)
    pad.mode = 1  # reflections are not known
    assert library("DMA_Pad_Filling", ctypes.byref(pad), engines=False) == NOT_VALID
