"""TFLite's LSTM over a sequence: in float, and on integers exactly as LiteRT computes it.

Integers: gates are int16 with 3 bits before the point, cells int16 with a power of two as their
scale. Sigmoid and tanh are gemmlowp's, in 16-bit fixed point, made here as tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from npuscope.graph.model import DType, Graph, Op
from npuscope.ops.kernels import real_math
from npuscope.ops.kernels.functions import sigmoid
from npuscope.ops.kernels.requantize import (
    Multipliers,
    quantized_multipliers,
    rounding_shift,
    saturate,
    scale_twice,
)
from npuscope.ops.kernels.step import Array, Step, quant_of
from npuscope.ops.recurrent import SequenceLstmAttrs

GATES = 4
_GATE_BITS = 3
_WORD = 15

# What the gates give at one step, and the cells: the cells after it, and what is handed out.
Cell = Callable[[list[Array], Array], tuple[Array, Array]]


def _by_step(values: Array, time_major: bool) -> Array:
    """(batch, steps, ...) and (steps, batch, ...) into each other, or as they are."""
    return values if time_major else values.swapaxes(0, 1)


def sequence_lstm(graph: Graph, op: Op) -> Step:
    attrs = op.attrs_as(SequenceLstmAttrs)

    def step(inputs: Sequence[Array]) -> Array:
        x = _by_step(inputs[0], attrs.time_major)
        weights, recurrent, biases = (inputs[1 + n : 5 + n] for n in (0, GATES, 2 * GATES))
        units = biases[0].shape[0]
        hidden = cells = np.zeros((x.shape[1], units), np.float32)
        results = np.empty((*x.shape[:2], units), np.float32)
        for number, row in enumerate(x):
            rows = zip(weights, recurrent, biases, strict=True)
            inlet, forget, fresh, outlet = [b + row @ w.T + hidden @ r.T for w, r, b in rows]
            cells = sigmoid(forget) * cells + sigmoid(inlet) * real_math.tanh(fresh)
            if attrs.cell_clip > 0:
                cells = np.clip(cells, -attrs.cell_clip, attrs.cell_clip).astype(np.float32)
            results[number] = hidden = sigmoid(outlet) * real_math.tanh(cells)
        return np.ascontiguousarray(_by_step(results, attrs.time_major))

    return step


def litert_sequence_lstm(graph: Graph, op: Op) -> Step:
    attrs, output = op.attrs_as(SequenceLstmAttrs), graph.output_tensor(op)
    x = graph.tensors[op.inputs[0]]
    zeros = [np.int64(quant_of(tensor).zero_point) for tensor in (x, output)]
    input_factors = _factors(graph, op, op.inputs[1 : 1 + GATES], quant_of(x).scale)
    state_factors = _factors(
        graph, op, op.inputs[1 + GATES : 1 + 2 * GATES], quant_of(output).scale
    )
    finish = _cells(attrs, quant_of(output).scale)

    def step(inputs: Sequence[Array]) -> Array:
        rows = _by_step(inputs[0], attrs.time_major).astype(np.int64) - zeros[0]
        wide = [array.astype(np.int64).T for array in inputs[1:]]
        fixed = [
            _gate(rows @ wide[n] + wide[2 * GATES + n], input_factors[n], 0) for n in range(GATES)
        ]
        units = wide[-1].shape[0]
        cells = hidden = np.zeros((rows.shape[1], units), np.int64)  # the zero point is taken out
        result = np.empty((*rows.shape[:2], units), np.int8)
        for number in range(len(rows)):
            sums = [hidden @ wide[GATES + n] for n in range(GATES)]
            gates = [_gate(sums[n], state_factors[n], fixed[n][number]) for n in range(GATES)]
            cells, fresh = finish(gates, cells)
            result[number] = saturate(fresh + zeros[1], DType.INT8)
            hidden = result[number].astype(np.int64) - zeros[1]
        return np.ascontiguousarray(_by_step(result, attrs.time_major))

    return step


def _factors(graph: Graph, op: Op, names: Sequence[str], scale: float) -> list[Multipliers]:
    """Sums of one operand to gates; LiteRT multiplies the scales in float32."""
    unit = np.float32(2.0 ** (_GATE_BITS - _WORD))
    weights = (np.float32(quant_of(graph.tensors[name]).scale) for name in names)
    return [quantized_multipliers(float(w * np.float32(scale) / unit)) for w in weights]


def _gate(sums: Array, factor: Multipliers, before: Array | int) -> Array:
    return saturate(scale_twice(sums, factor) + before, DType.INT16).astype(np.int64)


def _cells(attrs: SequenceLstmAttrs, output_scale: float) -> Cell:
    last = quantized_multipliers(float(np.float32(2.0**-_WORD / output_scale * 2.0**-_WORD)))
    cell_scale = 2.0 ** (attrs.cell_bits - _WORD)
    clip = int(np.clip(np.float32(attrs.cell_clip) / np.float32(cell_scale), 0, 2**_WORD - 1))

    def finish(gates: list[Array], cells: Array) -> tuple[Array, Array]:
        inlet, forget, outlet = (_looked_up(sigmoids(), gates[place]) for place in (0, 1, 3))
        fresh = _looked_up(tanhs(_GATE_BITS), gates[2])
        remembered = rounding_shift(forget * cells, _WORD)
        added = rounding_shift(inlet * fresh, _WORD + attrs.cell_bits)
        cells = saturate(remembered + added, DType.INT16).astype(np.int64)
        cells = np.clip(cells, -clip, clip) if clip else cells
        return cells, scale_twice(outlet * _looked_up(tanhs(attrs.cell_bits), cells), last)

    return finish


# --- gemmlowp's functions in 16-bit fixed point: values are raw / 2**(15 - bits) ---


def _looked_up(table: Array, values: Array) -> Array:
    words: Array = table[values + 2**_WORD]
    return words


def _all_words() -> Array:
    return np.arange(-(2**_WORD), 2**_WORD, dtype=np.int64)


@cache
def sigmoids() -> Array:
    """Of every int16 with 3 bits before the point."""
    x = _all_words()
    above = _doubled(_newton(_exponential(-np.abs(x), _GATE_BITS)), 1)
    result = np.where(x > 0, above, 2**_WORD - 1 - above)
    return np.where(x == 0, 2 ** (_WORD - 1), result)


@cache
def tanhs(bits: int) -> Array:
    """Of every int16 with so many bits before the point: (1 - e) / (1 + e), e = exp(-2 |x|)."""
    x = _all_words()
    one = 2 ** (_WORD - 2)
    above = _doubled(_newton(_exponential(-np.abs(x), bits + 1)) - one, 2)
    return np.sign(x) * above


def _product(a: Array, b: Array | int) -> Array:
    """Half rounds up; -1 times -1 does not occur."""
    product: Array = np.right_shift(a * b + (1 << (_WORD - 1)), _WORD)
    return product


def _doubled(values: Array, times: int) -> Array:
    return saturate(values << times, DType.INT16).astype(np.int64)


def _word(value: float, bits: int = 0) -> int:
    return round(value * 2.0 ** (_WORD - bits))


def _exponential(x: Array, bits: int) -> Array:
    """exp(x) for x <= 0: a polynomial below a quarter, then a factor for each bit above."""
    quarter = 1 << (_WORD - bits - 2)
    below = (x & (quarter - 1)) - quarter
    result = _exponential_of_quarter(below << bits)
    rest = below - x
    for exponent in range(-2, min(bits, 5)):
        factor = _product(result, _word(math.exp(-(2.0**exponent))))
        result = np.where(rest & (1 << (_WORD - bits + exponent)), factor, result)
    if bits > 5:
        result = np.where(x < -(1 << (_WORD - bits + 5)), 0, result)
    return np.where(x == 0, 2**_WORD - 1, result)


def _exponential_of_quarter(a: Array) -> Array:
    """exp(a) for -1/4 <= a < 0, by Taylor around -1/8."""
    middle = _word(math.exp(-1 / 8))
    x = a + (1 << (_WORD - 3))
    square = _product(x, x)
    third = _product(
        rounding_shift(_product(square, square), 2) + _product(square, x), _word(1 / 3)
    )
    rest = x + rounding_shift(third + square, 1)
    return saturate(middle + _product(rest, middle), DType.INT16).astype(np.int64)


def _newton(a: Array) -> Array:
    """2 / (1 + a) for 0 <= a < 1, with 2 bits before the point, by three steps of Newton."""
    half = (a + 2**_WORD - 1 + 1) >> 1  # the sum is positive: half of it rounds up
    x = _word(48 / 17, 2) + _product(half, _word(-32 / 17, 2))
    for _ in range(3):
        missing = 2 ** (_WORD - 2) - _product(half, x)
        x = x + _doubled(_product(x, missing), 2)
    return x
