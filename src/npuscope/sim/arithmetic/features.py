"""Feature frames of a convolution: unpacking, crop, zero point, padding, patches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npuscope.program.modes import Simd
from npuscope.program.units import Convacc
from npuscope.sim.arithmetic.words import Words, extend, unpack

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Patches:
    """One row an output pixel: what lies under the kernel, channel fastest."""

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
        """With inbytes_f 3 pixels follow each other without gap and words straddle them."""
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
