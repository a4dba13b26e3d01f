"""Convolution accelerator: features (port 0), kernels (port 1) and partial sums (port 2)."""

from __future__ import annotations

from functools import partial

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from npuscope.errors import TargetError
from npuscope.program.modes import AfiltMode, Simd
from npuscope.program.unit_words import (
    DEEP_BYTES,
    FeaturePort,
    KernelPort,
    check_conv_size,
    takes_sum,
    tiles,
)
from npuscope.program.units import Convacc
from npuscope.sim.arithmetic.products import Products, operands, products
from npuscope.sim.arithmetic.streams import (
    Stream,
    Take,
    Wide,
    Words,
    extend,
    floor_shift,
    in_blocks,
    limits,
    narrow,
    refuse_fields,
    refuse_operation,
    room,
    round_shift,
    shift_peak,
    unpack,
    word_peak,
    word_type,
)

# --- Kernels as they arrive over the link: which ones a unit keeps, and their order ---

# Deep1x1 interleaves the kernels of a sub-block under each channel.
_DEEP_SUB_BLOCK = 8


class UnitKernels(KernelPort, frozen=True):
    """The kernels of a unit, in their order."""

    def matrices(self, frames: Words) -> np.ndarray:
        """(frames, kernels, window and channels) of frames (frames, words)."""
        unit = self.unit
        if unit.deepmode:
            return self._deep_matrices(frames)
        first = unit.kfilt_first if unit.kfilt_tot > 1 else 0
        delivered = frames.reshape(len(frames), self.delivered, self.kernel_size)
        own = delivered[:, first : first + unit.nKernels]
        if unit.kseten:  # selects which byte of a wide kernel word is the weight
            own = own.astype(np.int32) >> 8 * unit.kseten
        nbytes = 2 if unit.simd == Simd.S16X16 else 1
        return extend(own, nbytes, bool(unit.k_unsigned))

    def _deep_matrices(self, frames: Words) -> np.ndarray:
        unit = self.unit
        index = unit.kfilt_first // unit.nKernels if self.deep_sets > 1 else 0
        own = frames.reshape(len(frames), self.deep_sets, -1)[:, index]
        raw = unpack(own, DEEP_BYTES if self.width == DEEP_BYTES else 1)
        values = raw if unit.k_unsigned else raw.view(np.int8)
        # Sub-blocks of up to 8 kernels, each (channel, kernel), as (frames, kernels, channels).
        channels = unit.batchDepth
        blocks = []
        for first in range(0, unit.nKernels, _DEEP_SUB_BLOCK):
            count = min(_DEEP_SUB_BLOCK, unit.nKernels - first)
            start = first * channels
            block = values[:, start : start + channels * count].reshape(-1, channels, count)
            blocks.append(block.transpose(0, 2, 1))
        return np.concatenate(blocks, axis=1)


# --- Feature frames of a convolution: unpacking and crop ---


class Features(FeaturePort, frozen=True):
    """The images of a unit's frames."""

    def images(self, frames: Words) -> np.ndarray:
        """(frames, rows, columns, channels) inside the crop, of frames (frames, ...)."""
        unit = self.unit
        rows, columns = unit.cropped
        top, left = unit.top_crop, unit.left_crop
        return self._channels(frames)[:, top : top + rows, left : left + columns]

    def _channels(self, frames: Words) -> np.ndarray:
        """(frames, fHeight, fWidth, batchDepth) as they arrive."""
        unit, unsigned = self.unit, bool(self.unit.f_unsigned)
        shape = len(frames), unit.fHeight, unit.fWidth
        if self.packed == 1:
            values = extend(frames, 1 if unit.simd == Simd.S8X8 else 2, unsigned)
            return values.reshape(*shape, unit.batchDepth)
        if self.pixel_starts_word:
            raw = _bytes_of(frames.reshape(*shape, -1), self.packed)[..., : unit.batchDepth]
        else:
            raw = _bytes_of(frames.reshape(len(frames), -1), self.packed)
            raw = raw[:, : self.pixels * unit.batchDepth].reshape(*shape, unit.batchDepth)
        return raw if unsigned else raw.view(np.int8)


def _bytes_of(words: Words, packed: int) -> NDArray[np.uint8]:
    """The bytes of words that carry two or three channels each."""
    if packed == 2 and words.itemsize == 2 and words.strides[-1] == 2:
        return words.view(np.uint8)  # in place, whatever the order of the map
    return unpack(words, packed)


# --- The unit: features (port 0), kernels (port 1) and partial sums (port 2) ---


class ClampTally(Struct):
    """Outputs of 16 bits that left a convolution, and how many of them the clamp changed; those of
    sums of two operands too."""

    outputs: int = 0
    clamped: int = 0

    @property
    def share(self) -> float:
        return self.clamped / self.outputs if self.outputs else 0.0


def run(unit: Convacc, widths: dict[int, int], tally: ClampTally) -> Stream:
    """One output frame per kernel tile. `widths`: bytes per word of the link at each port."""
    check(unit)
    features = Features(unit, widths.get(0, 1))
    kernels = UnitKernels(unit, widths.get(1, 1))
    frame = 0
    while True:
        images = features.images((yield Take(0, features.words))[None])
        for _ in range(tiles(unit)):
            weights = kernels.matrices((yield Take(1, kernels.words))[None])
            totals = products([operands(unit, images, weights)], None)
            addend = None
            if takes_sum(unit, frame):
                words = (yield Take(2, unit.out_elements))[None]
                counts = counted(unit, range(frame, frame + 1))
                addend = Addend(words, widths.get(2, 2), unit.shift_a, counts)
            yield finish(unit, totals, addend, tally).reshape(-1)
            frame += 1


def counted(unit: Convacc, frames: range) -> NDArray[np.bool_]:
    """Which frames add what they take. FRAMEZERO: only those in first..last of each turn."""
    numbers = np.arange(frames.start, frames.stop, frames.step)
    adds = numbers >= (0 if takes_sum(unit, 0) else 1)
    if not unit.accumulate or unit.afilt_mode != AfiltMode.FRAMEZERO:
        return adds & bool(unit.accumulate)
    place = numbers % max(1, unit.afilt_tot)
    return adds & (unit.afilt_first <= place) & (place <= unit.afilt_last)


class Addend(Struct, frozen=True):
    """Partial sums of `width` bytes, added where counted."""

    words: Words
    width: int
    shift: int
    counted: NDArray[np.bool_]

    @property
    def peak(self) -> int:
        return word_peak(self.width) << self.shift if self.counted.any() else 0


def finish(unit: Convacc, sums: Products, addend: Addend | None, tally: ClampTally) -> Words:
    """Frames of output from sums of products and partial sums."""
    kind = word_type(unit.outbytes_o, bool(unit.saturation_o) and is_unsigned(unit))
    if addend is None or not addend.peak:
        function = partial(_finished, unit, None, sums.peak, tally)
        return in_blocks(function, kind, sums.totals)
    words = addend.words.reshape(sums.totals.shape)
    if not addend.counted.all():
        words = np.where(addend.counted[:, None, None, None], extend(words, 4), 0)
    function = partial(_finished, unit, addend, sums.peak + addend.peak, tally)
    return in_blocks(function, kind, sums.totals, words)


def _finished(
    unit: Convacc,
    addend: Addend | None,
    peak: int,
    tally: ClampTally,
    totals: np.ndarray,
    words: Words | None = None,
) -> Words:
    kind = room(shift_peak(peak, unit.shift_o))
    total: Wide = totals.astype(kind)
    if addend is not None and words is not None:
        total += extend(words, addend.width).astype(kind) << addend.shift
    shift = round_shift if unit.rounding_o else floor_shift
    shifted = shift(total, unit.shift_o)
    if _fits(unit, shifted, peak):
        result: Words = shifted.astype(word_type(unit.outbytes_o))
        clamped = 0
    else:
        result = narrow(shifted, unit.outbytes_o, unit.saturation_o, is_unsigned(unit))
        clamped = int(np.count_nonzero(result != shifted))
    if unit.outbytes_o == 2:
        tally.outputs += result.size
        tally.clamped += clamped
    return result


def _fits(unit: Convacc, shifted: Wide, peak: int) -> bool:
    """All are words of the output: known beforehand, or seen, which is faster than to clamp."""
    low, high = limits(unit.outbytes_o)
    if is_unsigned(unit):
        return False
    # Largest magnitude after a shift, rounded up.
    if ((peak >> unit.shift_o) + 1 if unit.shift_o > 0 else peak << -unit.shift_o) <= high:
        return True
    return bool(shifted.size and low <= shifted.min() and shifted.max() <= high)


def is_unsigned(unit: Convacc) -> bool:
    """Builds pad unsigned maps with unsigned kernels of 1, so such a byte must not stop at 127."""
    return bool(unit.f_unsigned and unit.k_unsigned)


def check(unit: Convacc) -> None:
    refuse_fields(unit, "shift_f", "kt1_mode", "relu_mode_o")
    if unit.afilt_mode not in (AfiltMode.NONE, AfiltMode.FRAMEZERO):
        raise refuse_operation(unit, f"afilt_mode {AfiltMode(unit.afilt_mode).name}")
    if unit.deepmode and (unit.kernelHeight, unit.kernelWidth) != (1, 1):
        raise TargetError(f"CONVACC {unit.id}: deepmode needs a 1x1 kernel")
    check_conv_size(unit)
