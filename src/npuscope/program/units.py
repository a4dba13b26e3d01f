"""Unit configurations, under the hardware's own field names.

One record per unit type, with the fields of the device's driver, so that a network from a vendor's
`network.c`, from an epoch-controller blob and from our compiler are the same values. Addresses
are references to buffers: (buffer, byte offset). Fields that a source leaves out keep the
driver's zero.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Struct

from npuscope.plain_data import Range
from npuscope.program.modes import AfiltMode, Bcast, PoolOp, Simd

# A crop field that crops nothing: the register's reset value.
NO_CROP = 0xFFFF


class Ref(Struct, frozen=True):
    """A place in memory: a buffer's name and a byte offset into it."""

    buffer: str
    offset: int = 0


class Streng(Struct, frozen=True, kw_only=True):
    """Stream engine: half a DMA, memory to link (dir 0) or link to memory (dir 1)."""

    unit: ClassVar[str] = "STRENG"
    ports_in: ClassVar[int] = 1

    id: int
    dir: Annotated[int, Range(0, 1)]
    addr_base: Ref
    raw: int = 0
    raw_out: int = 0
    continuous: int = 0
    noblk: int = 0
    noinc: int = 0
    align_right: int = 0
    mem_lsb: int = 0
    sync_with_other: int = 0
    nbits_unsigned: int = 0
    bus_cid: int = 0
    cacheable: int = 0
    cache_allocate: int = 0
    bus_pfetch: int = 0
    cache_linesize: int = 0
    cipher_en: int = 0
    key_sel: int = 0
    sync_dma: int = 0
    offset_start: int = 0
    offset_end: int = 0
    offset_limit: int = 0
    frame_count: int = 0
    fwidth: int = 0
    fheight: int = 0
    batch_depth: int = 0
    batch_offset: int = 0
    frame_offset: int = 0
    line_offset: int = 0
    loop_offset: int = 0
    frame_loop_cnt: int = 0
    frame_tot_cnt: int = 0
    nbits_in: int = 8
    nbits_out: int = 8

    @property
    def nbits_memory(self) -> int:
        """Width of one element in memory."""
        return self.nbits_out if self.dir else self.nbits_in

    @property
    def frame_elements(self) -> int:
        """Elements of one frame (words on the link, unless a mode packs them)."""
        if self.raw:
            span_bits = (self.offset_end - self.offset_start) * 8
            return self.frame_count or span_bits // self.nbits_memory
        return self.fwidth * self.fheight * self.batch_depth

    @property
    def frames(self) -> int:
        return self.frame_tot_cnt if self.frame_tot_cnt > 1 else 1

    @property
    def distinct_frames(self) -> int:
        """Frames at different places: what an engine reads again counts once."""
        loop, frames = self.frame_loop_cnt, self.frames
        advances = bool(self.continuous or self.frame_offset)
        if not loop:
            return frames if advances else 1
        turns = -(-frames // loop)
        inner = min(loop, frames) if advances else 1
        return inner * (turns if self.loop_offset else 1)

    @property
    def total_elements(self) -> int:
        frame = self.frame_elements
        return frame * self.frame_tot_cnt if self.frame_tot_cnt > 1 else frame

    @property
    def total_bytes(self) -> int:
        """Bytes moved over the bus, re-reads included."""
        frame = self.frame_bytes
        return frame * self.frame_tot_cnt if self.frame_tot_cnt > 1 else frame

    @property
    def packed(self) -> bool:
        """Several elements share a byte, as weights of 4 bits do; a frame begins in its own."""
        return self.nbits_memory % 8 != 0

    @property
    def frame_bytes(self) -> int:
        bits = self.nbits_out if self.dir else self.nbits_in  # as in `element_bytes`
        return -(-self.frame_elements * bits // 8)

    @property
    def element_bytes(self) -> int:
        bits = self.nbits_out if self.dir else self.nbits_in  # written out: asked most of all
        return bits // 8 if bits >= 8 else 1

    @property
    def run_bytes(self) -> int:
        """Adjacent bytes of a raster engine: the channels of one pixel that a frame takes."""
        return max(1, self.batch_depth * self.element_bytes)

    @property
    def adjacent(self) -> bool:
        """One run begins where the one before ends."""
        return bool(self.raw) or self.batch_offset <= self.run_bytes


class Convacc(Struct, frozen=True, kw_only=True):
    """Convolution accelerator. Ports: 0 features, 1 kernels, 2 accumulator."""

    unit: ClassVar[str] = "CONVACC"
    ports_in: ClassVar[int] = 3

    id: int
    fWidth: int
    fHeight: int
    kernelWidth: int
    kernelHeight: int
    nKernels: int
    batchDepth: int
    simd: int = int(Simd.S8X8)
    hstride: int = 1
    vstride: int = 1
    left_padding: int = 0
    right_padding: int = 0
    top_padding: int = 0
    bot_padding: int = 0
    left_crop: int = 0
    right_crop: int = NO_CROP
    top_crop: int = 0
    bot_crop: int = NO_CROP
    rounding_f: int = 0
    saturation_f: int = 0
    round_mode_f: int = 0
    inbytes_f: int = 1
    rounding_o: int = 1
    saturation_o: int = 1
    round_mode_o: int = 1
    relu_mode_o: int = 0
    outbytes_o: int = 2
    accumulate: int = 0
    accumulate_first: int = 0
    accumulate_gen_first: int = 0
    fstat: int = 0
    fstatcnt: int = 0
    raw_o: int = 0
    kt1_mode: int = 0
    deepmode: int = 0
    dss2mode: int = 0
    f_unsigned: int = 0
    k_unsigned: int = 0
    kseten: int = 0
    shift_f: int = 0
    shift_a: int = 0
    shift_o: int = 0
    afilt_mode: int = int(AfiltMode.NONE)
    afilt_tot: int = 0
    afilt_first: int = 0
    afilt_last: int = 0
    kfilt_tot: int = 0
    kfilt_first: int = 0
    kfilt_last: int = 0
    fsub: int = 0
    zfbias: int = 0

    @property
    def cropped(self) -> tuple[int, int]:
        """Rows and columns that remain after the crop (bounds are inclusive).

        The driver leaves the register alone when bottom or right is 0, so 0 crops nothing.
        """
        bottom = self.bot_crop if 0 < self.bot_crop < self.fHeight else self.fHeight - 1
        right = self.right_crop if 0 < self.right_crop < self.fWidth else self.fWidth - 1
        return bottom - self.top_crop + 1, right - self.left_crop + 1

    @property
    def out_size(self) -> tuple[int, int]:
        """Rows and columns of one output frame."""
        rows, columns = self.cropped
        rows += self.top_padding + self.bot_padding - self.kernelHeight
        columns += self.left_padding + self.right_padding - self.kernelWidth
        return rows // self.vstride + 1, columns // self.hstride + 1

    @property
    def kernel_elements(self) -> int:
        """Weights that this unit holds for one frame."""
        return self.nKernels * self.batchDepth * self.kernelHeight * self.kernelWidth

    @property
    def out_elements(self) -> int:
        rows, columns = self.out_size
        return rows * columns * self.nKernels


class Arith(Struct, frozen=True, kw_only=True):
    """Arithmetic unit. Ports: 0 X, 1 Y. Coefficients are 16 bits, {B,C} may form 32."""

    unit: ClassVar[str] = "ARITH"
    ports_in: ClassVar[int] = 2

    id: int
    operation: int
    fWidth: int
    fHeight: int
    fChannels: int
    batchDepth: int
    rounding_x: int = 0
    saturation_x: int = 0
    round_mode_x: int = 0
    inbytes_x: int = 2
    outbytes_x: int = 2
    shift_x: int = 0
    rounding_y: int = 0
    saturation_y: int = 0
    round_mode_y: int = 0
    inbytes_y: int = 0
    outbytes_y: int = 0
    shift_y: int = 0
    combinebc: int = 0
    clipout: int = 0
    rounding_o: int = 1
    saturation_o: int = 1
    round_mode_o: int = 1
    relu_mode_o: int = 0
    outbytes_o: int = 1
    shift_o: int = 0
    scalar: int = 0
    dualinput: int = 0
    bcast: int = int(Bcast.SCALAR)
    Ax_shift: int = 0
    By_shift: int = 0
    C_shift: int = 0
    clipmin: int = 0
    clipmax: int = 0
    A_scalar: int = 0
    B_scalar: int = 0
    C_scalar: int = 0
    A_vector: Ref | None = None
    B_vector: Ref | None = None
    C_vector: Ref | None = None
    vec_precision: tuple[int, int, int] = (16, 16, 16)


class Activ(Struct, frozen=True, kw_only=True):
    """Activation unit: ReLU kinds, or a piecewise quadratic function from two tables."""

    unit: ClassVar[str] = "ACTIV"
    ports_in: ClassVar[int] = 1

    id: int
    operation: int
    rounding_f: int = 0
    saturation_f: int = 0
    round_mode_f: int = 0
    inbytes_f: int = 1
    outbytes_f: int = 1
    rounding_o: int = 1
    saturation_o: int = 1
    round_mode_o: int = 1
    relu_mode_o: int = 0
    outbytes_o: int = 1
    signedop: int = 1
    shift_f: int = 0
    shift_o: int = 0
    parameter: int = 0
    parameter_2: int = 0
    nbytes: int = 1
    ROM0_vector: Ref | None = None
    ROM1_vector: Ref | None = None
    LUT_vector: Ref | None = None
    ROM0_nbytes: int = 0
    ROM1_nbytes: int = 0
    shift_b: int = 0
    shift_c: int = 0
    shift_norm: int = 0
    bwidth: int = 0
    fsub: int = 0


class PoolUnit(Struct, frozen=True, kw_only=True):
    """Pooling unit: a window (max, min, average) or the whole frame (G...)."""

    unit: ClassVar[str] = "POOL"
    ports_in: ClassVar[int] = 1

    id: int
    operation: int
    inputX: int
    inputY: int
    outputX: int
    outputY: int
    batchSize: int
    poolWinX: int = 1
    poolWinY: int = 1
    strideX: int = 1
    strideY: int = 1
    avgnopad: int = 0
    topCrop: int = 0
    bottomCrop: int = 0
    leftCrop: int = 0
    rightCrop: int = 0
    topPad: int = 0
    bottomPad: int = 0
    leftPad: int = 0
    rightPad: int = 0
    shift_f: int = 0
    shift_o: int = 0
    dualLine: int = 0
    nbytes: int = 1
    rounding_f: int = 0
    saturation_f: int = 0
    round_mode_f: int = 0
    inbytes_f: int = 1
    outbytes_f: int = 1
    rounding_o: int = 0
    saturation_o: int = 0
    round_mode_o: int = 0
    relu_mode_o: int = 0
    outbytes_o: int = 1
    mulval: int = 0
    pad_val_en: int = 0
    pad_val: int = 0

    @property
    def is_global(self) -> bool:
        return self.operation in (PoolOp.GMAX, PoolOp.GMIN, PoolOp.GAVG)

    @property
    def out_elements(self) -> int:
        """Elements of one output frame; the hardware ignores outputX/Y of a global pool."""
        return self.batchSize * (1 if self.is_global else self.outputX * self.outputY)


class Decun(Struct, frozen=True, kw_only=True):
    """Decompression unit: vector-quantised kernels. Ports: 0 codes, 1 codebook."""

    unit: ClassVar[str] = "DECUN"
    ports_in: ClassVar[int] = 2

    id: int
    nCWperCV: int = 0
    nCV: int = 0
    nRepeats: int = 0
    nBatches: int = 0
    nFormatBytes: int = 1
    noHeader: int = 0


Unit = Streng | Convacc | Arith | Activ | PoolUnit | Decun
UNIT_TYPES: dict[str, type[Unit]] = {
    kind.unit: kind for kind in (Streng, Convacc, Arith, Activ, PoolUnit, Decun)
}


class Port(Struct, frozen=True):
    """One end of a switch link: unit type, unit number, port number."""

    unit: str
    id: int
    port: int = 0


class Link(Struct, frozen=True):
    """A stream-switch connection to one destination port.

    Two contexts alternate: the first lets `frames0` frames pass (or drops them when
    not enabled), then the second `frames1`. frames0 == 0 means a plain, unlimited connection.
    """

    source: Port
    destination: Port
    enable0: bool = True
    frames0: int = 0
    enable1: bool = False
    frames1: int = 0
