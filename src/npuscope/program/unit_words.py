"""Words that units take and give, frame by frame: geometry alone, no values."""

from __future__ import annotations

from msgspec import Struct

from npuscope.errors import TargetError
from npuscope.program.modes import Bcast
from npuscope.program.units import Arith, Convacc, Decun, PoolUnit, Streng, Unit

DEEP_BYTES = 3  # of a word in Deep1x1 mode


def word_bytes(source: Unit) -> int:
    """Bytes that a unit puts into one word of its output link."""
    if isinstance(source, Streng):
        return source.nbits_out // 8 if source.packed else source.element_bytes
    return 1 if isinstance(source, Decun) else source.outbytes_o


# --- Convolution: kernels as they arrive over the link, and feature frames ---


class KernelPort(Struct, frozen=True):
    """The kernel port of one unit. Units in series may share one stream (kfilt)."""

    unit: Convacc
    width: int  # bytes in one word of the link

    @property
    def words(self) -> int:
        """Words consumed for one output frame, those for the other units of the pipe included."""
        if self.unit.deepmode:
            triples = -(-self.unit.nKernels * self.unit.batchDepth // DEEP_BYTES)
            return self.deep_sets * (triples if self.width == DEEP_BYTES else triples * DEEP_BYTES)
        return self.delivered * self.kernel_size

    @property
    def kernel_size(self) -> int:
        unit = self.unit
        return unit.kernelHeight * unit.kernelWidth * unit.batchDepth

    @property
    def delivered(self) -> int:
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
    def deep_sets(self) -> int:
        """Each unit's set is padded to whole words, so a shared stream is counted in sets."""
        sets, rest = divmod(self.delivered, self.unit.nKernels)
        if rest:
            raise TargetError(f"CONVACC {self.unit.id}: kfilt_tot cuts a Deep1x1 kernel set")
        return sets


class FeaturePort(Struct, frozen=True):
    """The feature port of one unit."""

    unit: Convacc
    width: int  # bytes in one word of the link

    @property
    def words(self) -> int:
        """Words of one frame."""
        pixels, depth = self.pixels, self.unit.batchDepth
        if self.pixel_starts_word:
            return pixels * -(-depth // self.packed)
        return -(-pixels * depth // self.packed)

    @property
    def pixels(self) -> int:
        return self.unit.fHeight * self.unit.fWidth

    @property
    def packed(self) -> int:
        """Channels in one word; more than one only if mode and link both carry them so."""
        packs = DEEP_BYTES if self.unit.deepmode else 2 if self.unit.dss2mode else 1
        return packs if self.width == packs else 1

    @property
    def pixel_starts_word(self) -> bool:
        """With inbytes_f 3 pixels follow each other without gaps, so words cross pixel borders."""
        return self.unit.inbytes_f != DEEP_BYTES


def tiles(unit: Convacc) -> int:
    """A stationary feature frame is used for several kernel tiles before the next one is read."""
    return max(1, unit.fstatcnt) if unit.fstat else 1


def takes_sum(unit: Convacc, frame: int) -> bool:
    """Whether this output frame consumes a frame of port 2."""
    if not unit.accumulate:
        return False
    return frame > 0 or bool(unit.accumulate_first and not unit.accumulate_gen_first)


def sums_taken(unit: Convacc, frames: int) -> int:
    """Frames of port 2 that so many output frames consume: all, all but the first, or none."""
    if not unit.accumulate:
        return 0
    return frames if takes_sum(unit, 0) else max(0, frames - 1)


def check_conv_size(unit: Convacc) -> None:
    """The crop leaves something, and the kernel fits into it with its padding."""
    if min(unit.cropped) < 1:
        raise TargetError(f"CONVACC {unit.id}: the crop leaves nothing of the frame")
    if min(unit.out_size) < 1:
        raise TargetError(f"CONVACC {unit.id}: the kernel does not fit into the padded frame")


# --- Element by element, and windows ---


def arith_words(unit: Arith) -> int:
    return unit.fWidth * unit.fHeight * unit.batchDepth


def takes_y(unit: Arith, has_y: bool) -> bool:
    return has_y and not unit.combinebc


def broadcasts(unit: Arith) -> bool:
    """Port Y brings one value per channel, which the unit keeps for the whole frame.

    Documented for up to 512 entries; how registers select a streamed vector is our interpretation.
    """
    return bool(unit.dualinput and unit.scalar and unit.bcast == Bcast.CHAN)


def pool_words(unit: PoolUnit) -> int:
    return unit.inputY * unit.inputX * unit.batchSize


def pool_kept(unit: PoolUnit) -> tuple[slice, slice]:
    """Rows and columns inside the crop. Bounds are inclusive; the driver's zero for bottom and
    right crops nothing."""
    bottom = unit.bottomCrop or unit.inputY - 1
    right = unit.rightCrop or unit.inputX - 1
    return slice(unit.topCrop, bottom + 1), slice(unit.leftCrop, right + 1)


def check_pool_size(unit: PoolUnit) -> None:
    """The windows of all outputs lie in the padded frame."""
    if unit.is_global:
        return
    kept_rows, kept_columns = pool_kept(unit)
    found_rows = len(range(unit.inputY)[kept_rows]) + unit.topPad + unit.bottomPad
    found_columns = len(range(unit.inputX)[kept_columns]) + unit.leftPad + unit.rightPad
    rows = (unit.outputY - 1) * unit.strideY + unit.poolWinY
    columns = (unit.outputX - 1) * unit.strideX + unit.poolWinX
    if rows > found_rows or columns > found_columns:
        raise TargetError(
            f"POOL {unit.id}: {unit.outputY}x{unit.outputX} outputs need {rows}x{columns} "
            f"inputs, found {found_rows}x{found_columns}"
        )
