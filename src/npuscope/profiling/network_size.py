"""Products and parameters of a network of which only the program is at hand."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from npuscope.program.links import Wiring
from npuscope.program.model import Buffer, Call, Epoch, Program
from npuscope.program.stated import StatedUnits
from npuscope.program.units import Convacc, Streng
from npuscope.sim.program_work import call_macs

# What the vendor's compiler calls kernels that it makes itself: those of a pad hold no weights of
# the network, inflated ones hold each weight of a depthwise layer among zeros.
_PAD, _INFLATED = "pad_kern", "inflated"
_ARITH_STAGES = 2  # behind a convolution, counted among its operations: a product and a sum


def network_size(program: Program) -> tuple[int, int]:
    """Multiply-accumulates, and weights with a bias for every output channel. The zeros of inflated
    kernels and the kernels of pads are not counted."""
    if program.macs:
        return program.macs, program.params
    buffers = program.buffer_map()
    stated = {row.epoch: row for row in program.stated_units}
    macs, kernels = 0, dict[str, int]()  # weights by buffer
    for epoch in program.executed:
        if epoch.call is not None:
            macs += call_macs(epoch.call, buffers)
            kernels |= {name: _elements(buffers[name]) for name in _weights(epoch.call, buffers)}
        elif epoch.groups is not None:
            for name, products, zeros in _convolutions(epoch, buffers):
                macs += products
                kernels[name] = buffers[name].size_bytes * 8 // buffers[name].nbits // zeros
        elif epoch.number in stated:
            row = stated[epoch.number]
            macs += _stated_macs(epoch, row, buffers)
            kernels |= {name: _elements(buffers[name]) for name in _own_kernels(row, buffers)}
    total = sum(weights + _outputs(buffers[name]) for name, weights in kernels.items())
    return macs, program.params or total


def _convolutions(epoch: Epoch, buffers: dict[str, Buffer]) -> Iterator[tuple[str, int, int]]:
    """Every convolution: the buffer of its kernels, its products, and stored weights per weight."""
    for group in epoch.groups or ():
        wiring = Wiring(group)
        engines = {
            kernels.id: (kernels, unit)
            for unit in wiring.processors
            if isinstance(unit, Convacc) and isinstance(kernels := wiring.source(unit, 1), Streng)
        }
        for kernels, conv in engines.values():
            name = kernels.addr_base.buffer
            if name not in buffers or _PAD in name:
                continue
            zeros = _group(buffers[name]) or (conv.batchDepth if _is_grouped(conv, wiring) else 1)
            # In bytes: a word of a deep kernel holds three weights.
            bits = 8 * kernels.frame_bytes * kernels.distinct_frames
            weights = min(bits, 8 * buffers[name].size_bytes) // buffers[name].nbits
            yield name, weights * prod(conv.out_size) // zeros, zeros


def _is_grouped(conv: Convacc, wiring: Wiring) -> bool:
    """Each set of kernels reads features of its own, as many as it makes."""
    features = wiring.source(conv, 0)
    advances = isinstance(features, Streng) and features.distinct_frames == features.frames > 1
    return advances and wiring.frames(conv) > 1 and conv.nKernels == conv.batchDepth


def _stated_macs(epoch: Epoch, row: StatedUnits, buffers: dict[str, Buffer]) -> int:
    """A source without registers states operations: two per product, those of pads and zeros too,
    and one per output for each stage behind."""
    stored = [buffers[name] for name in row.kernels]
    work = sum(2 * prod(kernel.shape) + _ARITH_STAGES * _outputs(kernel) for kernel in stored)
    positions = epoch.claims.ops / work if work else 0.0
    return round(positions * sum(_elements(buffers[name]) for name in _own_kernels(row, buffers)))


def _own_kernels(row: StatedUnits, buffers: dict[str, Buffer]) -> list[str]:
    return [name for name in row.kernels if _PAD not in name and name in buffers]


def _weights(call: Call, buffers: dict[str, Buffer]) -> set[str]:
    """The largest parameter of a layer that runs in software."""
    params = [name for name in call.inputs if name and buffers[name].is_param]
    if not params or not call_macs(call, buffers):
        return set()
    return {max(params, key=lambda name: buffers[name].size_bytes)}


def _group(kernel: Buffer) -> int:
    """Channels that an inflated kernel has for each one of the network; 0 for others."""
    return kernel.shape[-1] if _INFLATED in kernel.name and len(kernel.shape) == 4 else 0


def _elements(kernel: Buffer) -> int:
    return kernel.size_bytes * 8 // kernel.nbits // (_group(kernel) or 1)


def _outputs(kernel: Buffer) -> int:
    return kernel.shape[0] if len(kernel.shape) == 4 else 0
