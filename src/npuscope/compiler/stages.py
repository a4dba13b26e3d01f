"""Stages: the hardware operators a network is lowered to, before they are grouped into epochs.

A stage is the work of one unit (or of one pipe of convolution units). Stages speak of values;
a value becomes a buffer only if it crosses an epoch border.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
from msgspec import Struct, field

from npuscope.compiler.function_table import FunctionTable
from npuscope.geometry.pieces import MOST_TOGETHER
from npuscope.geometry.tiling import Tiling
from npuscope.graph.model import Quant, Tensor
from npuscope.program.model import Call, Refused
from npuscope.structs import Apart, replace

Array = np.ndarray


class Value(Struct, frozen=True):
    """A tensor between stages: (H, W, C), element width, and memory layout.

    `batch` is the number of channels stored together (C: channel-last, 1: channel-first).
    `signed` False with 8 bits means the stored byte is unsigned. A value with a `pitch` is a
    window of a wider one: `pitch` channels lie between its pixels, its own begin at `first`.
    One that was joined in place is read in frames of `part` channels, as the vendor stores it.
    One that follows others in a whole has `skip` elements of it in front.
    """

    name: str
    shape: tuple[int, int, int]
    nbits: int = 8
    signed: bool = True
    is_float: bool = False
    quant: Quant | None = None
    tensor: str = ""
    batch: int = 0
    pitch: int = 0
    first: int = 0
    part: int = 0
    skip: int = 0

    @property
    def channels(self) -> int:
        return self.shape[2]

    @property
    def stored_batch(self) -> int:
        """Channels that lie together in memory."""
        return self.pitch or self.batch or self.channels

    @property
    def elements(self) -> int:
        return self.shape[0] * self.shape[1] * self.shape[2]

    @property
    def size_bytes(self) -> int:
        return self.elements * self.nbits // 8

    @property
    def in_pairs(self) -> Value:
        """The same bytes as words of two channels."""
        height, width, channels = self.shape
        return replace(
            self,
            shape=(height, width, channels // 2),
            nbits=2 * self.nbits,
            batch=self.batch // 2,
            pitch=self.pitch // 2,
            first=self.first // 2,
            skip=self.skip // 2,
        )

    def named(self, name: str, **changes: object) -> Value:
        """Another value like this one; what it was joined from, and its place in another value, are
        this one's own."""
        return replace(self, name=name, **{"part": 0, "skip": 0, **changes})  # type: ignore[arg-type]


class PieceOrder(Enum):
    """How the pieces of a kernel follow each other."""

    WHOLE = "whole"  # one piece
    FEW = "few"  # as many an epoch as units and engines allow; 16-bit sums between epochs
    PAIRS = "pairs"  # the same, but never more than two an epoch
    SERIES = "series"  # the same, one an epoch: parts of the channels, cut by passes
    CHAIN = "chain"  # one an epoch, added to the sums so far (dilated kernels)
    SUMMED = "summed"  # as many an epoch as units allow, each added to the sums so far

    @classmethod
    def of(cls, pieces: int, dilated: bool, summed: bool = False) -> PieceOrder:
        """`summed`: of a kernel whose many pieces are added up as they are made."""
        if pieces == 1:
            return cls.WHOLE
        if dilated:
            return cls.CHAIN
        if pieces <= MOST_TOGETHER:
            return cls.FEW
        return cls.SUMMED if summed else cls.PAIRS


class Stage(Apart, frozen=True):
    """Base of all stages. `operator` is the name the vendor's reports use."""

    name: str
    operator: str
    inputs: tuple[Value, ...]
    output: Value
    origin: tuple[str, ...] = ()
    trail: tuple[Refused, ...] = ()

    @property
    def goes_on(self) -> bool:
        """It makes bytes in the middle of a chain, which goes on in their frames."""
        return False


class ConvStage(Stage, frozen=True, kw_only=True):
    """One convolution (or one row piece of it) on a pipe of CONVACC units."""

    apart = ("weights",)

    tiling: Tiling
    weights: Array  # packed bytes, in order
    weight_turns: int = 1  # times that all of them are read
    weight_bits: int = 8  # each takes in memory
    window: tuple[int, int]
    strides: tuple[int, int]
    pads: tuple[int, int, int, int]  # top, left, bottom, right
    crop: tuple[int, int, int, int] = (0, 0, 0, 0)  # left out
    order: PieceOrder = PieceOrder.WHOLE
    simd: int
    fsub: int = 0
    zfbias: int = 0  # what padded positions hold
    shift_o: int
    turned: bool = False  # rows and columns of the maps change places in the unit

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the features in the unit."""
        height, width, _ = self.inputs[0].shape
        return (width, height) if self.turned else (height, width)

    @property
    def seen(self) -> tuple[int, int]:
        """Rows and columns that the engine reads: all, or the first one where no other is kept.

        The driver takes a last row or column of 0 for none, so no register can crop to that.
        """
        height, width = self.size
        _, _, bottom, right = self.crop
        return 1 if height - bottom == 1 else height, 1 if width - right == 1 else width


class ArithStage(Stage, frozen=True, kw_only=True):
    """One ARITH unit: out = ((A*x >> Ax) + (B*y >> By) + (C << Cs)) >> shift, or x*y >> shift.

    A and C are scalars or one value per channel; with one input C has 32 bits ({B,C}).
    `table` holds 16-bit coefficients that an engine streams into port Y.
    """

    apart = ("a", "b", "c", "table")

    multiply: bool = False
    maximum: bool = False  # of x and C
    limits: bool = False  # x between A and C
    a: Array
    b: int | Array = 0
    c: Array
    shift: int
    ax_shift: int = 0
    by_shift: int = 0
    c_shift: int = 0
    clip: tuple[int, int] | None = None
    wrap: bool = False  # neither rounds nor saturates
    table: Array | None = None

    @property
    def goes_on(self) -> bool:
        return self.limits


class ActivStage(Stage, frozen=True, kw_only=True):
    """A function of one byte on an ACTIV unit: a table, else no value below `floor`. `from_memory`:
    never of what its epoch makes."""

    apart = ("table",)

    table: FunctionTable | None = None
    floor: int = 0
    from_memory: bool = False


class PoolKind(Enum):
    MAX = "MaxPool"
    AVERAGE = "AveragePool"
    GLOBAL_AVERAGE = "GlobalAveragePool"


class PoolStage(Stage, frozen=True, kw_only=True):
    kind: PoolKind
    window: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    mulval: int = 0
    shift: int = 0


class CopyStage(Stage, frozen=True, kw_only=True):
    """DMA without a processing unit: changes how channels lie in memory.

    With `repeats` the channels are written that many times side by side.
    """

    repeats: int = 1
    waits: tuple[str, ...] = ()  # values that are made before, though it does not read them

    @property
    def depth(self) -> int:
        """Channels moved together: all, unless one side stores single planes or parts."""
        parts = [value.batch for value in (self.inputs[0], self.output) if value.batch]
        return min([*parts, self.output.channels // self.repeats])

    @property
    def moves_pairs(self) -> bool:
        """Bytes that lie together are moved two at a time [code]."""
        values = (self.inputs[0], self.output)
        counts = [n for v in values for n in (v.stored_batch, v.first, v.channels)]
        return self.output.nbits == 8 and not any(n % 2 for n in (self.depth, *counts))


class CallStage(Stage, frozen=True, kw_only=True):
    """A kernel on the host CPU; `hybrid` when it only drives the NPU's DMA."""

    call: Call
    hybrid: bool = False


class Views(dict[str, Value]):
    """View name -> the value it lies in; `of` gives the names back by that value's."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[str, list[str]] = {}

    def __setitem__(self, name: str, value: Value) -> None:
        super().__setitem__(name, value)
        self.of.setdefault(value.name, []).append(name)


class Lowered(Struct):
    """Result of lowering: stages in order, the values of graph inputs and outputs, views."""

    stages: list[Stage]
    inputs: list[Value]
    outputs: list[Value]
    views: Views = field(default_factory=Views)
    blocks: list[tuple[str, ...]] = field(default_factory=list)  # values that lie side by side
    constants: dict[str, Tensor] = field(
        default_factory=dict
    )  # values that engines read from flash
    notes: list[str] = field(default_factory=list)
