"""Convolution accelerator: features (port 0), kernels (port 1) and partial sums (port 2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from npuscope.errors import TargetError
from npuscope.lean_dataclass import dataclass
from npuscope.program.modes import AfiltMode, Simd
from npuscope.program.units import Convacc
from npuscope.sim.arithmetic.streams import (
    Stream,
    Take,
    Wide,
    Words,
    extend,
    floor_shift,
    narrow,
    refuse_fields,
    refuse_operation,
    round_shift,
    unpack,
)

# --- Kernels as they arrive over the link: which ones a unit keeps, and their order ---

# Deep1x1 interleaves the kernels of a sub-block under each channel.
_DEEP_SUB_BLOCK = 8
_DEEP_BYTES = 3


@dataclass(frozen=True, slots=True)
class Kernels:
    """The kernel port of one unit. Units in series may share one stream (kfilt)."""

    unit: Convacc
    width: int  # bytes in one word of the link

    @property
    def words(self) -> int:
        """Words consumed for one output frame, those for the other units of the pipe included."""
        if self.unit.deepmode:
            return self._deep_sets * self._deep_set_words
        return self._delivered * self._kernel_size

    def matrix(self, words: Words) -> np.ndarray:
        """(window and channels, kernels): ready to be multiplied by patches."""
        unit = self.unit
        if unit.deepmode:
            return self._deep_matrix(words)
        first = unit.kfilt_first if unit.kfilt_tot > 1 else 0
        kept = words.reshape(self._delivered, self._kernel_size)[first : first + unit.nKernels]
        # kseten selects which byte of a wide kernel word is the weight.
        nbytes = 2 if unit.simd == Simd.S16X16 else 1
        return extend(kept >> 8 * unit.kseten, nbytes, bool(unit.k_unsigned)).T.astype(np.float32)

    @property
    def _kernel_size(self) -> int:
        unit = self.unit
        return unit.kernelHeight * unit.kernelWidth * unit.batchDepth

    @property
    def _delivered(self) -> int:
        unit = self.unit
        if unit.kfilt_tot <= 1:
            return unit.nKernels
        if unit.kfilt_last - unit.kfilt_first + 1 != unit.nKernels:
            raise TargetError(
                f"CONVACC {unit.id}: kfilt keeps kernels {unit.kfilt_first} to "
                f"{unit.kfilt_last}, nKernels is {unit.nKernels}"
            )
        return unit.kfilt_tot

    @property
    def _deep_sets(self) -> int:
        """Each unit's set is padded to whole words, so a shared stream is counted in sets."""
        sets, rest = divmod(self._delivered, self.unit.nKernels)
        if rest:
            raise TargetError(f"CONVACC {self.unit.id}: kfilt_tot cuts a Deep1x1 kernel set")
        return sets

    @property
    def _deep_set_words(self) -> int:
        triples = -(-self.unit.nKernels * self.unit.batchDepth // _DEEP_BYTES)
        return triples if self.width == _DEEP_BYTES else triples * _DEEP_BYTES

    def _deep_matrix(self, words: Words) -> np.ndarray:
        unit = self.unit
        index = unit.kfilt_first // unit.nKernels if self._deep_sets > 1 else 0
        own = words.reshape(self._deep_sets, -1)[index]
        packed = _DEEP_BYTES if self.width == _DEEP_BYTES else 1
        raw = np.ascontiguousarray(unpack(own, packed)).reshape(-1)
        values = raw if unit.k_unsigned else raw.view(np.int8)
        return _join_sub_blocks(values, unit.batchDepth, unit.nKernels).astype(np.float32)


def _join_sub_blocks(values: np.ndarray, channels: int, kernels: int) -> np.ndarray:
    """Sub-blocks of up to 8 kernels, each (channel, kernel), side by side."""
    blocks = []
    for first in range(0, kernels, _DEEP_SUB_BLOCK):
        count = min(_DEEP_SUB_BLOCK, kernels - first)
        start = first * channels
        blocks.append(values[start : start + channels * count].reshape(channels, count))
    return np.concatenate(blocks, axis=1)


# --- Feature frames of a convolution: unpacking, crop, zero point, padding, patches ---

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Patches:
    """One row per output pixel: the inputs under the kernel, channel fastest."""

    rows: Floats
    peak: float  # largest magnitude


@dataclass(frozen=True, slots=True)
class Features:
    """The feature port of one unit."""

    unit: Convacc
    width: int  # bytes in one word of the link

    @property
    def words(self) -> int:
        """Words of one frame."""
        pixels, depth = self._pixels, self.unit.batchDepth
        if self._pixel_starts_word:
            return pixels * -(-depth // self._packed)
        return -(-pixels * depth // self._packed)

    def patches(self, words: Words) -> Patches:
        image = self._pad(self._crop(self._channels(words)))
        return Patches(self._unfold(image), float(np.abs(image).max(initial=0)))

    @property
    def _pixels(self) -> int:
        return self.unit.fHeight * self.unit.fWidth

    @property
    def _packed(self) -> int:
        """Channels in one word; more than one only if mode and link both carry them so."""
        packs = 3 if self.unit.deepmode else 2 if self.unit.dss2mode else 1
        return packs if self.width == packs else 1

    @property
    def _pixel_starts_word(self) -> bool:
        """With inbytes_f 3 pixels follow each other without gaps, so words cross pixel borders."""
        return self.unit.inbytes_f != 3

    def _channels(self, words: Words) -> np.ndarray:
        unit, unsigned = self.unit, bool(self.unit.f_unsigned)
        if self._packed == 1:
            return extend(words, 1 if unit.simd == Simd.S8X8 else 2, unsigned)
        raw = np.ascontiguousarray(unpack(words, self._packed)).reshape(-1)
        values = raw if unsigned else raw.view(np.int8)
        if self._pixel_starts_word:
            return values.reshape(self._pixels, -1)[:, : unit.batchDepth]
        return values[: self._pixels * unit.batchDepth]

    def _crop(self, channels: np.ndarray) -> Floats:
        """(rows, columns, channels) inside the crop, zero point subtracted."""
        unit = self.unit
        rows, columns = unit.cropped
        top, left = unit.top_crop, unit.left_crop
        image = channels.reshape(unit.fHeight, unit.fWidth, unit.batchDepth)
        image = image[top : top + rows, left : left + columns]
        return image.astype(np.float32, order="C") - np.float32(unit.fsub)

    def _pad(self, image: Floats) -> Floats:
        """Padding comes after the subtraction: zero, or zfbias where it is set."""
        unit = self.unit
        top, left = unit.top_padding, unit.left_padding
        if not (top or left or unit.bot_padding or unit.right_padding):
            return image
        rows, columns, depth = image.shape
        shape = rows + top + unit.bot_padding, columns + left + unit.right_padding, depth
        padded = np.full(shape, unit.zfbias, np.float32)
        padded[top : top + rows, left : left + columns] = image
        return padded

    def _unfold(self, image: Floats) -> Floats:
        unit = self.unit
        rows, columns = unit.out_size
        if (unit.kernelHeight, unit.kernelWidth, unit.vstride, unit.hstride) == (1, 1, 1, 1):
            return image.reshape(rows * columns, -1)
        line, pixel, channel = image.strides
        # One kernel row lies in one piece: kernelWidth pixels of all channels.
        shape = rows, columns, unit.kernelHeight, unit.kernelWidth * unit.batchDepth
        steps = unit.vstride * line, unit.hstride * pixel, line, channel
        windows: Floats = np.ndarray(shape, np.float32, image, 0, steps)
        return windows.reshape(rows * columns, -1)


# --- The unit: features (port 0), kernels (port 1) and partial sums (port 2) ---
#
# Products are summed by a floating-point matrix product; integers of this size are exact there.

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
    """One output frame per kernel tile. `widths`: bytes per word of the link at each port."""
    _check(unit)
    features = Features(unit, widths.get(0, 1))
    kernels = Kernels(unit, widths.get(1, 1))
    # A stationary feature frame is used for several kernel tiles before the next one is read.
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
    # Builds pad unsigned maps with unsigned kernels of 1, so such a byte must not stop at 127.
    unsigned = bool(unit.f_unsigned and unit.k_unsigned)
    result = narrow(shifted, unit.outbytes_o, unit.saturation_o, unsigned)
    if unit.outbytes_o == 2:
        tally.outputs += len(result)
        tally.clamped += int(np.count_nonzero(result != shifted))
    return result


def _check(unit: Convacc) -> None:
    refuse_fields(unit, "shift_f", "kt1_mode", "relu_mode_o")
    if unit.afilt_mode not in (AfiltMode.NONE, AfiltMode.FRAMEZERO):
        raise refuse_operation(unit, f"afilt_mode {AfiltMode(unit.afilt_mode).name}")
    if unit.deepmode and (unit.kernelHeight, unit.kernelWidth) != (1, 1):
        raise TargetError(f"CONVACC {unit.id}: deepmode needs a 1x1 kernel")
    if min(unit.out_size) < 1:
        raise TargetError(f"CONVACC {unit.id}: the kernel does not fit into the padded frame")
