"""A workbench for tests: hand-built Programs of one epoch, and plain loops to check them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from npuscope.program.model import Buffer, Epoch, EpochKind, Group, Pool, Program
from npuscope.program.units import Link, Port, Ref, Streng
from npuscope.sim.run import Execution, execute
from npuscope.structs import replace


@dataclass
class Bench:
    """Buffers placed one after the other in one pool."""

    buffers: list[Buffer] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    top: int = 0

    def buffer(self, name, shape, nbits=8, batch=None, **more) -> Buffer:
        size = int(np.prod(shape)) * nbits // 8
        made = Buffer(name, size, tuple(shape), nbits, batch or shape[-1], "ram", self.top, **more)
        self.top += -(-size // 16) * 16
        self.buffers.append(made)
        return made

    def constant(self, name, data) -> Ref:
        data = np.ascontiguousarray(data)
        self.buffer(name, (data.nbytes,), is_param=True)
        self.constants[name] = data
        return Ref(name)

    def program(self, units, links, inputs, outputs) -> Program:
        epoch = Epoch(1, 1, EpochKind.HW, groups=(Group(tuple(units), tuple(links)),))
        pool = Pool("ram", 0x34000000, max(4096, self.top), 8, 1.0)
        return Program(
            "bench",
            "stm32n6",
            "open",
            True,
            (pool,),
            tuple(self.buffers),
            (epoch,),
            tuple(inputs),
            tuple(outputs),
            self.constants,
        )

    def run(self, units, links, values, outputs=("y",)) -> Execution:
        return execute(self.program(units, links, values, outputs), values)


def feature_reader(id, buffer: Buffer, depth, frames=1, **more) -> Streng:
    """Raster engine over channels [0, depth), then the next block of channels."""
    height, width = buffer.shape[1:3]
    step = buffer.channels * buffer.nbits // 8
    settings = {
        "fheight": height,
        "fwidth": width,
        "batch_depth": depth,
        "batch_offset": step,
        "frame_offset": depth * buffer.nbits // 8,
        "frame_tot_cnt": frames,
        "nbits_in": buffer.nbits,
        "nbits_out": buffer.nbits,
    }
    return Streng(id=id, dir=0, addr_base=Ref(buffer.name), **(settings | more))


def writer(id, buffer: Buffer, depth, frames=1, **more) -> Streng:
    return replace(feature_reader(id, buffer, depth, frames), dir=1, **more)


def kernel_reader(id, place: Ref, frame_elements, frames=1, nbits=8) -> Streng:
    return Streng(
        id=id,
        dir=0,
        addr_base=place,
        raw=1,
        continuous=1,
        frame_count=frame_elements,
        frame_tot_cnt=frames,
        nbits_in=nbits,
        nbits_out=nbits,
    )


def link(source, destination, **contexts) -> Link:
    """link("CONVACC0", "STRENG2.0")"""
    return Link(_port(source), _port(destination), **contexts)


def _port(text: str) -> Port:
    name, _, port = text.partition(".")
    unit = name.rstrip("0123456789")
    return Port(unit, int(name[len(unit) :]), int(port or 0))


def bytes_of(rng, *shape):
    return rng.integers(-128, 128, shape, dtype=np.int8)


def deep_set(w):
    """Deep1x1 layout of kernels (K, C): sub-blocks of 8, channel > kernel, padded to words."""
    blocks = [w[first : first + 8].T.reshape(-1) for first in range(0, len(w), 8)]
    raw = np.concatenate(blocks)
    return np.pad(raw, (0, -len(raw) % 3))


def half_away(value, shift):
    """Rounding by definition, on Python integers."""
    half = (1 << shift) >> 1
    sign = -1 if value < 0 else 1
    return sign * ((abs(int(value)) + half) >> shift)


def clip(value, nbytes):
    half = 1 << (8 * nbytes - 1)
    return max(-half, min(half - 1, value))


def convolve(x, w, strides=(1, 1), pads=(0, 0, 0, 0), zero_point=0):
    """Sums of a convolution by loops: x (H, W, C), w (K, kh, kw, C), pads top left bottom right."""
    top, left, bottom, right = pads
    shifted = x.astype(np.int64) - zero_point
    padded = np.pad(shifted, ((top, bottom), (left, right), (0, 0)))
    kernels, kh, kw, _ = w.shape
    rows = (padded.shape[0] - kh) // strides[0] + 1
    columns = (padded.shape[1] - kw) // strides[1] + 1
    out = np.zeros((rows, columns, kernels), np.int64)
    for y in range(rows):
        for x0 in range(columns):
            patch = padded[y * strides[0] :, x0 * strides[1] :][:kh, :kw]
            for k in range(kernels):
                out[y, x0, k] = (patch * w[k]).sum()
    return out


def requantised(sums, shift, nbytes=2):
    return np.vectorize(lambda v: clip(half_away(v, shift), nbytes))(sums)
