"""Scales to integers: the vendor compiler's choice by hand, and what the open rules promise."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from npuscope.compiler.numbers import (
    AddNumbers,
    Affine,
    LayerScaling,
    average_multiplier,
    norm,
    requantize_one_stage,
    requantize_per_channel,
    requantize_two_stage,
    requantize_value,
    residual_add,
    safe_conv_shift,
    sums_that_matter,
)
from npuscope.geometry.sums import conv_shift

Array = np.ndarray
LOW_GAIN = "(b/s_o + z_o) * 2**n is clipped to 32 bits once n > 23; the vendor uses C_shift there"


def kernels(*sums: int) -> Array:
    """One 1x1 kernel a sum, over 64 channels."""
    rows = [np.full(64, total // 64) for total in sums]
    for row, total in zip(rows, sums, strict=True):
        row[: total % 64] += 1
    return np.array(rows, np.int8).reshape(len(sums), 1, 1, 64)


@pytest.mark.parametrize(
    ("sums", "shift"),
    [
        ((300,), 2),  # 2**9 holds 300
        ((176,), 1),  # the last layer of the public 4.0 time-series network
        ((129,), 1),
        ((127,), 0),
        ((0,), 0),
        ((-1000,), 3),
        ((5, -1000, 400), 3),  # the largest magnitude of all channels decides
        ((8000,), 6),
    ],
)
def test_conv_shift_bounds_the_gain_of_a_constant_input(sums: tuple[int, ...], shift: int) -> None:
    assert kernels(*sums).astype(int).sum(axis=(1, 2, 3)).tolist() == list(sums)
    assert conv_shift(kernels(*sums)) == shift


def test_balanced_weights_have_no_shift() -> None:
    """The rule looks at the sum, not at the magnitudes: that is its known weakness."""
    weights = np.array([[127, -127] * 32], np.int8).reshape(1, 1, 1, 64)
    assert conv_shift(weights) == 0


@pytest.mark.parametrize(
    ("value", "power"), [(8e-5, 28), (20.0, 10), (0.75, 15), (0.45, 16), (1.0, 15), (40000.0, -1)]
)
def test_norm(value: float, power: int) -> None:
    """floor(log2(32768 / v)), e.g. 32768 / 20 = 1638.4 = 2**10.68."""
    assert norm(value) == power
    assert norm(np.array([value, value / 7])) == power


# One layer for all rules: products 8e-5 and 2e-5, gains 0.0016 and 0.0004.
LAYER = LayerScaling(0.02, np.array([0.004, 0.001]), 0.05, -10, np.array([1.0, 0.123]))


def test_two_stages() -> None:
    """2.x: nA = 28, nB = 10; the 16-bit value between them has 20 - 10 fraction bits."""
    mul, add = requantize_two_stage(LAYER, shift_o=3)
    assert mul.a.tolist() == [21475, 5369]  # 8e-5 * 2**28 = 21474.84, 2e-5 * 2**28 = 5368.71
    assert (mul.c.tolist(), mul.shift) == ([0], 28 - 3 - 10)
    assert add.a.tolist() == [20480]  # 2**10 / 0.05
    # (20 - 10) * 2**20 and (2.46 - 10) * 2**20 = -7906263.04, rounded down
    assert (add.c.tolist(), add.shift) == ([10485760, -7906264], 20)


@pytest.mark.parametrize(
    ("largest_lsb", "shift"),
    # Of layers of vendor builds whose factor is 21760: 828.5 steps are more than 16 bits hold with
    # 20 fraction bits in all (680), 358.6 are not.
    [(358.6, 20), (679.9, 20), (828.5, 19), (-828.5, 19), (1400.0, 18)],
)
def test_sixteen_bits_between_two_stages_hold_the_bias(largest_lsb: float, shift: int) -> None:
    scale = 2**9 / 21760
    layer = LayerScaling(
        0.02, np.array([0.004, 0.001]), scale, -128, np.array([1, largest_lsb]) * scale
    )
    mul, add = requantize_two_stage(layer, shift_o=3)
    assert (add.a.tolist(), add.shift) == ([21760], shift)
    assert mul.shift == 28 - 3 - 11 + (20 - shift)


def test_one_stage() -> None:
    """4.0: n = norm(0.0016 * 2**3) = 21."""
    affine = requantize_one_stage(LAYER, shift_o=3)
    assert affine.a.tolist() == [26844, 6711]  # 26843.55, 6710.89
    assert affine.c.tolist() == [20971520, -15812527]  # 10 * 2**21, -15812526.08 down
    assert affine.shift == 21


def test_residual_add() -> None:
    """r1 = 0.75, n1 = 15; r2 = 0.45, n2 = 16; the offset -3.6 * 2**15 needs two bits more."""
    found = residual_add((0.03, 5), (0.018, -7), (0.04, -3))
    wanted = AddNumbers(a=24576, b=29491, c=-29491, shift=15, ax_shift=0, by_shift=1, c_shift=2)
    assert found == wanted


def test_subtraction_negates_the_second_operand() -> None:
    """The offset becomes -3 - 3.75 - 3.15 = -9.9; -9.9 * 2**15 / 2**4 = -20275.2."""
    found = residual_add((0.03, 5), (0.018, -7), (0.04, -3), sign=-1)
    assert (found.a, found.b, found.c, found.c_shift) == (24576, -29491, -20275, 4)


@pytest.mark.parametrize(
    ("count", "mulval", "shift"),
    [(49, 21400, 12), (64, 16384, 12), (21, 24966, 11), (1, 16384, 6), (9, 29127, 10)],
)
def test_average_multiplier(count: int, mulval: int, shift: int) -> None:
    """2**k / N in 16384..32767, and k - 8: the mean keeps 8 fraction bits."""
    assert average_multiplier(count) == (mulval, shift)


@pytest.mark.parametrize("count", [2, 3, 5, 7, 11, 16, 25, 125, 196, 1024, 3136])
def test_average_multiplier_uses_all_its_bits(count: int) -> None:
    mulval, shift = average_multiplier(count)
    assert 16384 <= mulval <= 32767
    assert mulval / 2 ** (shift + 8) * count == pytest.approx(1, abs=2**-15)


def test_requantization_of_a_mean() -> None:
    """s_i / s_o = 5/3, n = 14; offset (-3 + 2 * 5/3) * 2**14 = 5461.33."""
    affine = requantize_value((0.05, -2), (0.03, -3), fraction_bits=8)
    assert (affine.a.tolist(), affine.c.tolist()) == ([27307], [5461])
    assert (affine.shift, affine.ax_shift) == (14, 8)


# The units' arithmetic: round half away from zero, saturate.


def shifted(value: Array, shift: Array | int) -> Array:
    value = np.asarray(value, np.int64)
    half = (1 << np.asarray(shift, np.int64)) >> 1
    return np.sign(value) * ((np.abs(value) + half) >> shift)


def unit(x: Array, stage: Affine, bits: int) -> Array:
    """One ARITH unit on x; channels run along the last axis."""
    limit = 1 << (bits - 1)
    wide = shifted(x * stage.a, stage.ax_shift) + (stage.c << stage.c_shift)
    return np.clip(shifted(wide, stage.shift), -limit, limit - 1)


def fits(values: Array, bits: int) -> bool:
    return bool(np.all(np.abs(values.astype(np.float64) + 0.5) < 2 ** (bits - 1)))


def random_layer(
    random: np.random.Generator, channels: int = 32, spread_bits: float = 2
) -> LayerScaling:
    weight_scales = 0.004 * 2.0 ** -random.uniform(0, spread_bits, channels)
    output_scale = float(random.uniform(0.02, 0.1))
    bias = random.normal(0, 30 * output_scale, channels)
    return LayerScaling(0.02, weight_scales, output_scale, int(random.integers(-128, 30)), bias)


def gain(layer: LayerScaling) -> Array:
    return layer.input_scale * layer.weight_scales / layer.output_scale


def real_output(layer: LayerScaling, sums: Array) -> Array:
    exact = sums * gain(layer) + layer.bias / layer.output_scale + layer.output_zero
    return np.clip(exact, -128, 127)


@pytest.mark.parametrize("shift_o", [2, 4, 6])
@pytest.mark.parametrize("stages", ["two", "one", "open"])
def test_all_rules_reach_the_real_output(stages: str, shift_o: int) -> None:
    """Scales within a factor of four: every rule is within one step, mostly exact."""
    random = np.random.default_rng(shift_o)
    for _ in range(20):
        layer = random_layer(random)
        largest = np.full(32, 30000.0 * 2**shift_o)
        sums = random.integers(-30000, 30000, (500, 32))
        if stages == "two":
            mul, add = requantize_two_stage(layer, shift_o)
            found = unit(unit(sums, mul, 16), add, 8)
        elif stages == "one":
            found = unit(sums, requantize_one_stage(layer, shift_o), 8)
        else:
            mul, add = requantize_per_channel(layer, shift_o, largest)
            found = unit(unit(sums, mul, 16), add, 8)
        wanted = real_output(layer, sums * 2**shift_o)
        assert np.abs(found - wanted).max() <= 1.0
        assert (np.abs(found - wanted) <= 0.52).mean() > 0.9


@pytest.mark.parametrize("spread_bits", [0, 3, 6, 9, 12, 14])
def test_open_keeps_thirteen_bits_for_every_channel(spread_bits: int) -> None:
    random = np.random.default_rng(spread_bits)
    layer = random_layer(random, spread_bits=spread_bits)
    layer.weight_scales[:2] = 0.004, 0.004 * 2.0**-spread_bits  # the whole spread
    mul, add = requantize_per_channel(layer, 2, np.full(32, 2.0**16))
    made = mul.a * add.a / 2.0 ** (mul.shift + add.shift)
    assert np.all(mul.a >= 2**13)
    assert np.abs(made / (gain(layer) * 4) - 1).max() <= 2.0**-14


@pytest.mark.parametrize("spread_bits", [16, 20, 26, 40])
def test_open_loses_nothing_that_shows_at_any_spread(spread_bits: int) -> None:
    """Channels that are 2**14 times weaker cannot reach a step; their error must not either."""
    random = np.random.default_rng(spread_bits)
    layer = random_layer(random, spread_bits=spread_bits)
    layer.weight_scales[:2] = 0.004, 0.004 * 2.0**-spread_bits
    largest = np.full(32, 2.0**17)
    mul, add = requantize_per_channel(layer, 2, largest)
    assert fits(mul.a, 16) and fits(add.a, 16) and fits(add.c, 32)
    sums = random.integers(-(2**15), 2**15, (500, 32))
    found = unit(unit(sums, mul, 16), add, 8)
    assert np.abs(found - real_output(layer, sums * 4)).max() <= 0.52


def test_the_shared_exponent_loses_bits_where_open_does_not() -> None:
    """The reason for the open rule: 2**-12 of the largest scale has 3 bits left at 4.0."""
    layer = LayerScaling(0.02, np.array([0.004, 0.004 / 4096]), 0.05, 0, np.zeros(2))
    assert requantize_one_stage(layer, 0).a[1] < 8
    assert requantize_per_channel(layer, 0, np.full(2, 32767.0))[0].a[1] >= 2**13


def test_coefficients_fit_their_registers() -> None:
    random = np.random.default_rng(11)
    for _ in range(200):
        layer = random_layer(random, 8, spread_bits=8)
        shift_o = int(random.integers(0, 7))
        mul, add = requantize_two_stage(layer, shift_o)
        one = requantize_one_stage(layer, shift_o)
        assert fits(mul.a, 16) and fits(add.a, 16) and fits(add.c, 32) and fits(one.a, 16)
        assert mul.shift >= 0
        x, y, out = (float(scale) for scale in 2.0 ** random.uniform(-9, 3, 3))
        joined = residual_add((x, -128), (y, 3), (out, 127))
        assert fits(np.array([joined.a, joined.b, joined.c]), 16)
        assert min(joined.ax_shift, joined.by_shift, joined.c_shift) >= 0


@pytest.mark.parametrize("scale", [0.25, 0.5, 1.0, 2.0])
def test_powers_of_two_do_not_wrap(scale: float) -> None:
    """A ratio of exactly 2**k gives 32768, one more than the register holds."""
    found = residual_add((scale, 0), (scale, 0), (1.0, 0))
    assert found.a == found.b == 32767


def test_shifts_of_almost_dead_layers_fit_the_registers() -> None:
    """Six bits for the result, five for operands; scales of dead channels are as small as this."""
    tiny = LayerScaling(5e-37, np.array([7e-6, 3e-6]), 1.0, -39, np.array([0.0, 2.5]))
    for affine in (requantize_one_stage(tiny, 0), *requantize_two_stage(tiny, 0)):
        assert 0 <= affine.shift < 64
        assert 0 <= affine.c_shift < 32
    one = requantize_one_stage(tiny, 0)
    constant = np.floor(one.c * 2.0 ** (one.c_shift - one.shift) + 0.5)
    np.testing.assert_array_equal(constant, [-39, -36])
    assert np.all(np.abs(one.a) * 2.0**15 < 2.0 ** (one.shift - 1))  # no sum moves the output
    add = residual_add((1e-30, 3), (0.5, 0), (0.5, 0))
    assert 0 <= add.ax_shift < 32
    assert 0 <= add.by_shift < 32


def test_residual_add_is_within_half_a_step() -> None:
    random = np.random.default_rng(3)
    for _ in range(100):
        s1, s2 = (float(s) for s in random.uniform(0.01, 0.2, 2))
        z1, z2, zero = (int(z) for z in random.integers(-128, 128, 3))
        scale = max(s1, s2) * float(random.uniform(0.5, 3))
        n = residual_add((s1, z1), (s2, z2), (scale, zero))
        x, y = random.integers(-128, 128, (2, 400))
        wide = shifted(n.a * x, n.ax_shift) + shifted(n.b * y, n.by_shift) + (n.c << n.c_shift)
        exact = (s1 * (x - z1) + s2 * (y - z2)) / scale + zero
        assert np.abs(shifted(wide, n.shift) - exact).max() <= 0.55


def test_one_stage_with_a_low_gain() -> None:
    """Balanced weights have shift 0, so the gain of a wide layer is small: 4e-4, zero -128."""
    layer = LayerScaling(0.02, np.array([0.001]), 0.05, -128, np.array([-1.0]))
    sums = np.arange(-32768, 32768, 64).reshape(-1, 1)
    found = unit(sums, requantize_one_stage(layer, 0), 8)
    assert np.abs(found - real_output(layer, sums)).max() <= 1.0


def test_open_with_a_low_gain() -> None:
    layer = LayerScaling(0.02, np.array([0.001]), 0.05, -128, np.array([-1.0]))
    sums = np.arange(-32768, 32768, 64).reshape(-1, 1)
    mul, add = requantize_per_channel(layer, 0, np.full(1, 32768.0))
    found = unit(unit(sums, mul, 16), add, 8)
    assert np.abs(found - real_output(layer, sums)).max() <= 1.0


# The open shift: whatever the input, saturation of the 16-bit sum is never seen.


def every_corner(weights: Array, inputs: tuple[int, int]) -> Array:
    """Sums of each kernel for every input whose values are all at a limit, and around it."""
    taps = weights.reshape(len(weights), -1).astype(np.int64)
    corners = np.array(list(product((inputs[0], 0, inputs[1]), repeat=taps.shape[1])))
    return corners @ taps.T


@pytest.mark.parametrize("inputs", [(-128, 127), (0, 255), (-131, 124)])
@pytest.mark.parametrize("reach", [0.05, 0.3, 1.0, pytest.param(4.0)])
def test_saturation_never_shows_with_the_safe_shift(inputs: tuple[int, int], reach: float) -> None:
    """Brute force: `reach` is the share of the sums' range that the output's byte covers."""
    for seed in range(5):
        random = np.random.default_rng(seed)
        weights = random.integers(-127, 128, (4, 1, 1, 6)).astype(np.int8)
        sums = every_corner(weights, inputs)
        unit_scale = 0.02 * np.array([0.004, 0.003, 0.002, 0.001])
        output_scale = float(np.abs(sums).max() * reach * unit_scale.max() / 128)
        bias = random.normal(0, 20 * output_scale, 4)
        zero = int(random.integers(-128, 128))
        layer = LayerScaling(0.02, unit_scale / 0.02, output_scale, zero, bias)
        largest = sums_that_matter(weights, layer, inputs)
        shift_o = safe_conv_shift(largest)
        kept = shifted(sums, shift_o)
        stored = np.clip(kept, -32768, 32767)
        wanted = np.rint(real_output(layer, kept * 2.0**shift_o))
        assert np.array_equal(np.rint(real_output(layer, stored * 2.0**shift_o)), wanted)
        mul, add = requantize_per_channel(layer, shift_o, largest)
        # Each of the three stages rounds once: 2**shift_o sums, then its own word.
        slack = 1.0 + float(gain(layer).max()) * 2**shift_o
        found = unit(unit(stored, mul, 16), add, 8)
        assert np.abs(found - real_output(layer, sums)).max() <= slack


@pytest.mark.parametrize("passes", [2, 3, 6])
@pytest.mark.parametrize("reach", [0.05, 0.3, 1.0])
def test_saturation_never_shows_between_passes(passes: int, reach: float) -> None:
    """Sums go through 16-bit memory after each share of the channels."""
    inputs = (-128, 127)
    for seed in range(5):
        random = np.random.default_rng(seed)
        weights = random.integers(-127, 128, (4, 1, 1, 6)).astype(np.int8)
        shares = [every_corner_of(weights, inputs, part) for part in np.split(np.arange(6), passes)]
        exact = np.sum(shares, axis=0)
        output_scale = float(np.abs(exact).max() * reach * 8e-5 / 128)
        layer = LayerScaling(0.02, np.full(4, 0.004), output_scale, 5, np.zeros(4))
        shift_o = safe_conv_shift(sums_that_matter(weights, layer, inputs, passes))
        stored = np.zeros_like(exact)
        for share in shares:
            wide = (stored << shift_o) + share
            stored = np.clip(shifted(wide, shift_o), -32768, 32767)
        found = np.rint(real_output(layer, stored * 2.0**shift_o))
        slack = 0.5 + passes * float(gain(layer).max()) * 2**shift_o
        assert np.abs(found - real_output(layer, exact)).max() <= slack


def every_corner_of(weights: Array, inputs: tuple[int, int], channels: Array) -> Array:
    """The part of every corner's sums that some channels contribute."""
    masked = np.zeros_like(weights)
    masked[..., channels] = weights[..., channels]
    return every_corner(masked, inputs)


def test_the_safe_shift_wastes_no_bit() -> None:
    """Where sums fill the range the shift is the smallest that holds them."""
    assert safe_conv_shift(np.array([32767.0])) == 0
    assert safe_conv_shift(np.array([32768.0])) == 1
    assert safe_conv_shift(np.array([100.0, 65534.0])) == 1
    assert safe_conv_shift(np.array([65535.0])) == 2
    assert safe_conv_shift(np.array([0.5])) == 0


def test_the_vendors_shift_does_saturate_where_it_shows() -> None:
    """The same brute force finds what the DC rule misses, so it can fail."""
    weights = np.array([127, -127, 127, -127, 127, -126]).reshape(1, 1, 1, 6).astype(np.int8)
    sums = every_corner(weights, (-128, 127))
    layer = LayerScaling(0.02, np.array([0.001]), 0.02 * 0.001 * 97000 / 128, 0, np.zeros(1))
    assert conv_shift(weights) == 0
    stored = np.clip(sums, -32768, 32767)
    assert np.abs(real_output(layer, stored) - real_output(layer, sums)).max() > 50
