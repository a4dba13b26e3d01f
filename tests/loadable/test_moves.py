"""Slices and transpositions that the CPU does inside an image, against NumPy, on the host."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import numpy as np
import pytest

from npuscope.loadable.build_network import firmware_folder
from processes import LIMIT_S

pytest.importorskip("ziglang")
_DRIVER = """
#include "ll_aton_lib_sw_operators.h"
#include "moves.c"

static LL_Buffer_InfoTypeDef tensor(uint8_t *data, const uint32_t *shape, int rank, int nbits) {
  LL_Buffer_InfoTypeDef made = {
      .addr_base = {data - 3}, .offset_start = 3, .ndims = rank, .nbits = nbits, .shape = shape};
  return made;
}

int slice(uint8_t *from, const uint32_t *from_shape, const uint32_t *from_steps, uint8_t *to,
          const uint32_t *to_shape, const uint32_t *to_steps, int rank, int nbits,
          const int32_t *starts, const int32_t *ends, const int32_t *steps) {
  LL_Buffer_InfoTypeDef input = tensor(from, from_shape, rank, nbits);
  LL_Buffer_InfoTypeDef output = tensor(to, to_shape, rank, nbits);
  return LL_ATON_LIB_Slice(&input, from_steps, &output, to_steps, rank, starts, ends, steps);
}

int transpose(uint8_t *from, const uint32_t *from_shape, const uint32_t *from_steps, uint8_t *to,
              const uint32_t *to_shape, const uint32_t *to_steps, int rank, int nbits,
              const uint8_t *perm) {
  LL_Buffer_InfoTypeDef input = tensor(from, from_shape, rank, nbits);
  LL_Buffer_InfoTypeDef output = tensor(to, to_shape, rank, nbits);
  return LL_ATON_LIB_Transpose(&input, from_steps, &output, to_steps, perm);
}
"""
NOT_VALID = -5


@pytest.fixture(scope="module")
def moves(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moves")
    (folder / "driver.c").write_text(_DRIVER)
    firmware = firmware_folder()
    includes = [f"-I{firmware / part}" for part in ("include", "image")]
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", *includes]
    command = [sys.executable, "-m", "ziglang", "cc", *flags, "driver.c", "-o", "moves.so"]
    subprocess.run(command, cwd=folder, check=True, timeout=LIMIT_S)
    return ctypes.CDLL(str(folder / "moves.so"))


def words(values, kind=np.uint32):
    return np.array(values, kind)


def pointers(*arrays):
    return [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]


def tensor_words(tensor):
    """Data, shape, and bytes between neighbours along each axis."""
    return [tensor, words(tensor.shape), words(tensor.strides)]


def call(function, source, target, *more):
    arguments = [*tensor_words(source), *tensor_words(target)]
    numbers = (source.ndim, source.itemsize * 8)
    return function(*pointers(*arguments), *numbers, *pointers(*more))


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.float32])
@pytest.mark.parametrize("seed", range(8))
def test_slices(moves, seed, kind):
    chance = np.random.default_rng(seed)
    shape = chance.integers(1, 8, size=chance.integers(1, 6))
    source = chance.integers(-100, 100, size=shape).astype(kind)
    starts = [int(chance.integers(0, size)) for size in shape]
    ends = [
        int(chance.integers(start, size)) + 1 for start, size in zip(starts, shape, strict=True)
    ]
    steps = [int(chance.integers(1, 4)) for _ in shape]
    cut = tuple(slice(*three) for three in zip(starts, ends, steps, strict=True))
    expected = np.ascontiguousarray(source[cut])
    target = np.zeros_like(expected)
    limits = [words(values, np.int32) for values in (starts, ends, steps)]
    assert call(moves.slice, source, target, *limits) == 0
    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int32])
@pytest.mark.parametrize("seed", range(8))
def test_transpositions(moves, seed, kind):
    chance = np.random.default_rng(seed)
    shape = chance.integers(1, 7, size=chance.integers(2, 5))
    source = chance.integers(0, 100, size=shape).astype(kind)
    order = chance.permutation(len(shape))
    expected = np.ascontiguousarray(source.transpose(order))
    target = np.zeros_like(expected)
    assert call(moves.transpose, source, target, words(order, np.uint8)) == 0
    np.testing.assert_array_equal(target, expected)


def test_an_empty_slice_writes_nothing(moves):
    source, target = np.ones((2, 3), np.int8), np.zeros((2, 3), np.int8)
    limits = [words(values, np.int32) for values in ((0, 2), (2, 2), (1, 1))]
    assert call(moves.slice, source, target, *limits) == 0
    assert not target.any()


@pytest.mark.parametrize(("starts", "steps"), [((-1, 0), (1, 1)), ((0, 0), (1, 0))])
def test_limits_that_are_not_valid(moves, starts, steps):
    source, target = np.ones((2, 3), np.int8), np.zeros((2, 3), np.int8)
    limits = [words(values, np.int32) for values in (starts, (2, 2), steps)]
    assert call(moves.slice, source, target, *limits) == NOT_VALID


def test_an_axis_that_is_not_there(moves):
    source, target = np.ones((2, 3), np.int8), np.zeros((2, 3), np.int8)
    assert call(moves.transpose, source, target, words((0, 2), np.uint8)) == NOT_VALID
