"""Kernels as they come over the link: which of them a unit keeps, and their order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuscope.errors import TargetError
from npuscope.program.units import Convacc
from npuscope.sim.arithmetic.words import Words, extend, unpack

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
        # kseten tells which byte of a wide kernel word is the weight.
        return extend(kept >> 8 * unit.kseten, 1, bool(unit.k_unsigned)).T.astype(np.float32)

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
