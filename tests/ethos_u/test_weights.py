"""Weight streams and the order of weights in them."""

from __future__ import annotations

import numpy as np
import pytest

from ethos_u.slow_weights import random_slices
from ethos_u.streams import compressed_weights, plain_weights
from npuscope.errors import FileError
from npuscope.families.ethos_u.weight_order import (
    WeightPlan,
    order_u55,
    order_u85,
    order_u85_fast,
    unordered,
)
from npuscope.families.ethos_u.weights import decode_fast_weights, decode_weights


def numbers(seed: int, count: int, spread: float, zeros: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = np.rint(rng.normal(0, spread, count)).clip(-255, 255)
    return (values * (rng.random(count) > zeros)).astype(np.int16)


def test_plain_weights_come_back() -> None:
    values = numbers(0, 40_000, 90, 0.1)
    assert np.array_equal(decode_weights(plain_weights(values)), values)


@pytest.mark.parametrize("divisor", range(6))
@pytest.mark.parametrize("run_divisor", range(4))
def test_compressed_weights_come_back(divisor: int, run_divisor: int) -> None:
    for seed, (count, zeros) in enumerate(((1, 0.0), (13, 0.5), (700, 0.05), (3000, 0.9))):
        values = numbers(seed, count, 2.0 ** (divisor + 1), zeros)
        values[-1] = 3  # a slice has a weight at least
        data = compressed_weights(values, divisor, run_divisor)
        assert np.array_equal(decode_weights(data), values)


def test_weights_that_were_cut_off_are_refused() -> None:
    data = compressed_weights(numbers(3, 400, 9, 0.3))
    lengths = set()
    for end in range(len(data)):
        try:
            lengths.add(len(decode_weights(data[:end])))
        except FileError:
            lengths.add(-1)
    assert -1 in lengths


def test_vela_s_own_codec_agrees() -> None:
    codec = pytest.importorskip("ethosu.mlw_codec", reason="ethos-u-vela is not installed")
    for seed in range(40):
        values = numbers(seed, 50 + 97 * seed, 0.5 + seed, (seed % 10) / 10)
        data = bytes(codec.encode(values.tolist()))
        assert np.array_equal(decode_weights(data), np.array(codec.decode(bytearray(data))))


def test_vela_s_own_codec_agrees_on_many_slices() -> None:
    codec = pytest.importorskip("ethosu.mlw_codec", reason="ethos-u-vela is not installed")
    for seed in range(6):
        spreads = np.random.default_rng(seed).choice([0.4, 2, 7, 40, 120], 12)
        parts = [numbers(seed, 4000, spread, 0.1 * seed) for spread in spreads]
        data = bytes(codec.encode(np.concatenate(parts).tolist()))
        assert np.array_equal(decode_weights(data), np.array(codec.decode(bytearray(data))))


@pytest.mark.parametrize("seed", range(20))
def test_many_slices_are_decoded_as_one_bit_after_the_other(seed: int) -> None:
    data, weights = random_slices(seed)
    assert decode_weights(data).tolist() == weights


def test_a_weight_of_more_than_9_bits_is_refused() -> None:
    head = [0, 1, 1, *[0] * 15, 0, 0, 0, 0, 1, *[0] * 13]  # one weight without a remainder
    bits = [*head, *[1] * 24 * 30, *[0] * 12, *[1] * 16]
    with pytest.raises(FileError, match="9 bits"):
        decode_weights(np.packbits(bits, bitorder="little").tobytes())


def test_the_fast_format_has_raw_bytes_or_a_table() -> None:
    raw = bytearray(32)
    raw[0], raw[13] = 1, 0xFE  # every byte is two lower than its weight
    body = np.array([-128, -3, 0, 125], np.int8)
    assert decode_fast_weights(bytes(raw) + body.tobytes()).tolist() == [-126, -1, 2, 127]
    table = sum(code << 112 + 9 * place for place, code in enumerate((0, 3, 8)))
    head = (table | 2).to_bytes(32, "little")
    assert decode_fast_weights(head + bytes((0b10_01_00_01,))).tolist() == [-1, 0, -1, 4]
    with pytest.raises(FileError):
        decode_fast_weights(bytes(31))


SHAPES = ((24, 3, 3, 20), (7, 1, 1, 70), (40, 9, 2, 5), (17, 5, 5, 33))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("part_kernel", [False, True])
@pytest.mark.parametrize("streams", [1, 2])
def test_an_order_of_u55_has_every_weight_once(shape, part_kernel: bool, streams: int) -> None:
    plan = WeightPlan(shape, 16, part_kernel=part_kernel, streams=streams)
    orders = [order_u55(plan, stream) for stream in range(streams)]
    _check(orders, shape)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("macs", [128, 256, 512, 1024, 2048])
@pytest.mark.parametrize("stride", [(1, 1), (2, 2), (3, 1)])
@pytest.mark.parametrize("kind", ["depth", "part", "depthwise"])
def test_an_order_of_u85_has_every_weight_once(shape, macs: int, stride, kind: str) -> None:
    depthwise = kind == "depthwise"
    shape = (*shape[:3], 1) if depthwise else shape
    streams, unit = max(1, min(4, macs // 256)), macs // 8 // (2 if macs <= 256 else 4)
    plan = WeightPlan(
        shape,
        64,
        depthwise=depthwise,
        part_kernel=kind == "part",
        stride=stride,
        streams=streams,
        output_unit=unit,
        input_block=16 if kind == "part" else 64,
        macs=macs,
    )
    _check([order_u85(plan, stream) for stream in range(streams)], shape)
    if not depthwise:
        _check([order_u85_fast(plan)], shape)


def _check(orders: list[np.ndarray], shape: tuple[int, ...]) -> None:
    places = np.concatenate(orders)
    assert np.array_equal(np.sort(places[places >= 0]), np.arange(np.prod(shape)))


def test_the_first_weights_of_a_layer_are_those_of_the_first_micro_block() -> None:
    plan = WeightPlan((16, 3, 3, 40), 16)
    order = order_u55(plan)
    o, y, x, i = np.unravel_index(order[:10], plan.shape)
    assert o.tolist() == [0] * 8 + [1, 1]
    assert i.tolist() == [*range(8), 0, 1]
    assert not y.any() and not x.any()
    # Elements of the kernel follow when 32 inputs of 8 outputs are through.
    assert np.unravel_index(order[8 * 32], plan.shape) == (0, 0, 1, 0)


def test_too_few_weights_are_refused() -> None:
    order = order_u55(WeightPlan((8, 1, 1, 8), 8))
    with pytest.raises(FileError):
        unordered(np.zeros(3, np.int16), order, (8, 1, 1, 8))
