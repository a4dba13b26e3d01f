"""Elementwise kernels, of one or two inputs without their zero points."""

from __future__ import annotations

from typing import Any

import numpy as np

from npuscope.errors import FileError
from npuscope.families.ethos_u.arithmetic.scaling import half_away, rescaled, scaled
from npuscope.families.ethos_u.jobs import NpuKernel, NpuRounding, Scale

Array = np.ndarray[Any, np.dtype[Any]]
_LEFT_SHIFTS = {1: 20, 2: 15}  # by bytes of an input: how far sums are shifted to keep precision
_INT32 = (-(1 << 31), (1 << 31) - 1)

UNARY = frozenset({"LRELU", "ABS", "CLZ", "NOT"})


def combined(kernel: NpuKernel, a: Array, b: Array) -> Any:
    """Scaled results; `b` is not looked at by kernels of one input."""
    mode = kernel.mode
    if mode in ("ADD", "SUB"):
        a, b = _operands(kernel, a, b)
        return _rescaled(kernel, a + b if mode == "ADD" else a - b)
    if mode == "MUL":
        return _rescaled(kernel, a * b)
    if mode in ("MIN", "MAX"):
        return _rescaled(kernel, np.minimum(a, b) if mode == "MIN" else np.maximum(a, b))
    if mode == "ABS":
        return _rescaled(kernel, np.abs(a))
    if mode == "LRELU":
        return _leaky(kernel, a)
    if mode == "CLZ":
        return _leading_zeros(a)
    if mode == "SHL":
        return _wrapped(a << np.clip(b, 0, 32))
    if mode == "SHR":
        return _shifted_right(kernel, a, np.clip(b, 0, 63))
    if mode in _COMPARISONS:  # all bits of what is true are set
        return -_COMPARISONS[mode](*_operands(kernel, a, b)).astype(np.int64)
    if mode in _BITWISE:
        return _BITWISE[mode](a, b)
    if mode == "LSR":
        return (a & 0xFFFFFFFF) >> np.clip(b, 0, 32)
    if mode == "DIV":
        return np.where(b == 0, 0, np.trunc(a / np.where(b == 0, 1, b))).astype(np.int64)
    raise FileError(f"elementwise mode {mode} is not supported")


_COMPARISONS: dict[str, Any] = {
    "CMP_EQ": np.equal,
    "CMP_NE": np.not_equal,
    "CMP_GE": np.greater_equal,
    "CMP_GT": np.greater,
}
_BITWISE: dict[str, Any] = {
    "AND": np.bitwise_and,
    "OR": np.bitwise_or,
    "XOR": np.bitwise_xor,
    "AND_NOT": lambda a, b: a & ~b,
    "NOT": lambda a, b: ~a,
}


def _rescaled(kernel: NpuKernel, values: Array) -> Array:
    """On 32-bit inputs the factor of the output is not applied, its shift is; U85 applies it to
    sums, but not to products."""
    scale = kernel.output_scale
    if kernel.ifm.item_bytes == 4 and (kernel.mode == "MUL" or not kernel.is_u85):
        scale = Scale(1, scale.shift, scale.rounding, scale.double_shift)
    return scaled(values, scale)


def _operands(kernel: NpuKernel, a: Array, b: Array) -> tuple[Array, Array]:
    """Both at one scale, for sums and differences."""
    if kernel.ifm.item_bytes == 4:
        return a, b
    if kernel.is_u85:
        return scaled(a, kernel.ifm_scale), scaled(b, kernel.ifm2_scale)
    if kernel.ifm_scale_mode == "OPA_OPB_16":
        return a * kernel.ifm_scale.scale, b * kernel.ifm2_scale.scale
    # One is scaled precisely, the other only shifted: its factor is a half.
    left, scale = _LEFT_SHIFTS[kernel.ifm.item_bytes], kernel.ifm_scale
    precise = Scale(scale.scale, scale.shift, scale.rounding, left)
    if kernel.ifm_scale_mode == "OPA_32":
        return scaled(a, precise), b << left - 1
    return a << left - 1, scaled(b, precise)


def _leaky(kernel: NpuKernel, a: Array) -> Array:
    if kernel.is_u85:
        return np.where(a < 0, scaled(a, kernel.ifm2_scale), scaled(a, kernel.ifm_scale))
    return np.where(a < 0, scaled(a, kernel.ofm_scale), a)


def _leading_zeros(a: Array) -> Array:
    """Of 32 bits; negative numbers have none."""
    bits = np.frexp((a & 0xFFFFFFFF).astype(np.float64))[1]
    return 32 - bits.astype(np.int64)


def _shifted_right(kernel: NpuKernel, a: Array, b: Array) -> Array:
    if kernel.ofm_scale.rounding is NpuRounding.NATURAL:
        return rescaled(a, 1, b, NpuRounding.NATURAL)
    return a >> b if kernel.ofm_scale.rounding is NpuRounding.TO_LOWER else half_away(a, b)


def _wrapped(values: Array) -> Array:
    return (values & 0xFFFFFFFF).astype(np.uint32).view(np.int32).astype(np.int64)
