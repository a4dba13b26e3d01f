"""A convolution as the units see it, its features ready."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from npuscope.compiler.lower.pieces import ConvKernel
from npuscope.compiler.numbers import LayerScaling, likely_sums, sums_that_matter
from npuscope.compiler.stages import Value
from npuscope.graph.model import Op
from npuscope.ops.layers import ConvAttrs
from npuscope.program.modes import Simd

Array = np.ndarray


class ConvLayer(Struct, frozen=True):
    op: Op
    features: Value
    simd: Simd
    fsub: int
    kernel: ConvKernel
    attrs: ConvAttrs
    output: Value
    scaling: LayerScaling
    max_kernels: int
    frame: int  # channels that can stream in from a convolution just before; 0: from memory
    alone: bool = False  # no units in series
    moved: bool = False  # dilated, and its pixels are moved so that it has no gaps
    turned: bool = (
        False  # kernel and attributes are those of the maps with rows and columns exchanged
    )

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the features as the units see them."""
        height, width, _ = self.features.shape
        return (width, height) if self.turned else (height, width)

    @property
    def out_size(self) -> tuple[int, int]:
        height, width, _ = self.output.shape
        return (width, height) if self.turned else (height, width)

    @property
    def form(self) -> tuple[object, ...]:
        """All of a layer that its tiling depends on, beside the piece of the kernel."""
        sizes = self.kernel.shape, self.size, self.out_size
        attrs = self.attrs.strides, self.attrs.groups
        return sizes, attrs, self.simd, self.max_kernels, self.frame, self.alone

    @property
    def grouped(self) -> bool:
        return self.attrs.groups > 1

    @property
    def depthwise(self) -> bool:
        return self.grouped and self.kernel.shape[3] == 1

    @property
    def inputs(self) -> tuple[int, int]:
        """The smallest and largest feature after the zero point is gone."""
        lowest, highest = (-128, 127) if self.features.signed else (0, 255)
        return lowest - self.fsub, highest - self.fsub

    @property
    def likely_sums(self) -> Array:
        """With all inputs at their largest."""
        level = max(abs(self.inputs[0]), abs(self.inputs[1]))
        return likely_sums(self.kernel.taps, self.inputs, level)

    @property
    def usual_sums(self) -> Array:
        """With inputs about the middle of their range."""
        return likely_sums(self.kernel.taps, self.inputs, abs(sum(self.inputs)) / 2)

    def largest_sums(self, passes: int, in_pieces: bool) -> Array:
        return sums_that_matter(self.kernel.taps, self.scaling, self.inputs, passes, in_pieces)
