"""Convolution accelerator: features (port 0), kernels (port 1) and partial sums (port 2).

Products are summed by a floating-point matrix product; integers of this size are exact there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuscope.errors import TargetError
from npuscope.program.modes import AfiltMode, Simd
from npuscope.program.units import Convacc
from npuscope.sim.arithmetic.features import Features, Floats, Patches
from npuscope.sim.arithmetic.kernels import Kernels
from npuscope.sim.arithmetic.rounding import floor_shift, narrow, round_shift
from npuscope.sim.arithmetic.words import (
    Stream,
    Take,
    Wide,
    Words,
    extend,
    refuse_fields,
    refuse_operation,
)

# Sums below this are exact in float32, which multiplies twice as fast as float64.
_EXACT_FLOAT32 = 1 << 24


@dataclass(slots=True)
class Tally:
    """Outputs of 16 bits that left a convolution, and how many of them the clamp changed."""

    outputs: int = 0
    clamped: int = 0

    @property
    def share(self) -> float:
        return self.clamped / self.outputs if self.outputs else 0.0


def run(unit: Convacc, widths: dict[int, int], tally: Tally) -> Stream:
    """One output frame a kernel tile. `widths`: bytes per word of the link at each port."""
    _check(unit)
    features = Features(unit, widths.get(0, 1))
    kernels = Kernels(unit, widths.get(1, 1))
    # A stationary feature frame meets several kernel tiles before the next one is read.
    tiles = max(1, unit.fstatcnt) if unit.fstat else 1
    frame = 0
    while True:
        patches = features.patches((yield Take(0, features.words)))
        for _ in range(tiles):
            weights = kernels.matrix((yield Take(1, kernels.words)))
            total = _product(patches, weights)
            if _takes_sum(unit, frame):
                addend = yield Take(2, unit.out_elements)
                if _counts_sum(unit, frame):
                    total += extend(addend, widths.get(2, 2)).astype(np.int64) << unit.shift_a
            yield _finish(unit, total, tally)
            frame += 1


def _product(patches: Patches, weights: Floats) -> Wide:
    """Integer sums of products, in floating point wide enough to be exact."""
    bound = patches.peak * float(np.abs(weights).sum(axis=0).max(initial=0))
    if bound < _EXACT_FLOAT32:
        total: np.ndarray = patches.rows @ weights
    else:
        total = patches.rows.astype(np.float64) @ weights.astype(np.float64)
    return total.astype(np.int64).reshape(-1)


def _takes_sum(unit: Convacc, frame: int) -> bool:
    """Whether this output frame consumes a frame of port 2."""
    if not unit.accumulate:
        return False
    return frame > 0 or bool(unit.accumulate_first and not unit.accumulate_gen_first)


def _counts_sum(unit: Convacc, frame: int) -> bool:
    """FRAMEZERO: the port-2 frame is consumed, but counts only in first..last of each turn."""
    if unit.afilt_mode != AfiltMode.FRAMEZERO:
        return True
    return unit.afilt_first <= frame % max(1, unit.afilt_tot) <= unit.afilt_last


def _finish(unit: Convacc, total: Wide, tally: Tally) -> Words:
    shift = round_shift if unit.rounding_o else floor_shift
    shifted = shift(total, unit.shift_o)
    result = narrow(shifted, unit.outbytes_o, unit.saturation_o)
    if unit.outbytes_o == 2:
        tally.outputs += len(result)
        tally.clamped += int(np.count_nonzero(result != shifted))
    return result


def _check(unit: Convacc) -> None:
    refuse_fields(unit, "shift_f", "kt1_mode", "relu_mode_o")
    if unit.simd not in (Simd.S8X8, Simd.S16X8):
        raise refuse_operation(unit, "16x16 mode")
    if unit.afilt_mode not in (AfiltMode.NONE, AfiltMode.FRAMEZERO):
        raise refuse_operation(unit, f"afilt_mode {AfiltMode(unit.afilt_mode).name}")
    if unit.deepmode and (unit.kernelHeight, unit.kernelWidth) != (1, 1):
        raise TargetError(f"CONVACC {unit.id}: deepmode needs a 1x1 kernel")
    if min(unit.out_size) < 1:
        raise TargetError(f"CONVACC {unit.id}: the kernel does not fit into the padded frame")
