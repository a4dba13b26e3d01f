"""Caps on what a model file may claim or ask for, so that no file costs unbounded time or memory.

Everything here is looked at before memory is taken. Networks that people run stay far below.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from npuscope.bounded_file import MODEL
from npuscope.errors import FileError, ModelError

# What a file may claim.
MAX_FILE_BYTES = MODEL.most_bytes
MAX_OPS = 100_000
MAX_TENSORS = 400_000
MAX_RANK = 16
MAX_OP_INPUTS = 4096
MAX_NAME_BYTES = 4096
MAX_ELEMENTS = 2**32  # of one tensor; far beyond what any NPU holds
MAX_LIST = 4096  # whole numbers that an op takes as axes, sizes or pads

# What it may ask for: small files can name large work.
MAX_MACS = 2**56  # of one op; sums over a network stay in 64 bits
MAX_COMPUTED_BYTES = 128 << 20  # constants computed from constants, in one network
MAX_KERNEL_PIECES = 4_096  # of one convolution or pool
MAX_STAGES = 400_000  # that the ops of one network are lowered to
MAX_RUN_BYTES = 1 << 30  # of one inference in the reference executor
MAX_RUN_MACS = 2**40

# Tensors may share a buffer; a file whose tensors unfold to many times its size is an attack.
_SHARING = 4
_SMALL_BYTES = 64 << 20


def check_count(count: int, limit: int, what: str) -> int:
    if count > limit:
        raise FileError(f"the file claims {count} {what}, more than the {limit} we accept")
    return count


class Budget:
    """Memory that the values of one file may take in all."""

    def __init__(self, file_bytes: int) -> None:
        self.limit_bytes = max(_SMALL_BYTES, _SHARING * file_bytes)
        self.used_bytes = 0

    def take(self, size_bytes: int) -> None:
        self.used_bytes += size_bytes
        if self.used_bytes > self.limit_bytes:
            raise FileError(
                f"the values in the file unfold to more than {self.limit_bytes} bytes",
                hint="the file is damaged, or many tensors share one buffer",
            )


class Computed:
    """Memory that constants computed from constants may take in all."""

    def __init__(self, given_bytes: int) -> None:
        self.limit_bytes = max(MAX_COMPUTED_BYTES, _SHARING * given_bytes)
        self.used_bytes = 0

    def check(self, shape: Sequence[int], item_bytes: int) -> None:
        """Before a constant of this shape is computed."""
        size_bytes = prod(shape) * item_bytes
        if self.used_bytes + size_bytes > self.limit_bytes:
            raise ModelError(
                f"a constant of shape {tuple(shape)} would be computed: with the ones before it "
                f"{self.used_bytes + size_bytes:,} bytes, more than the {self.limit_bytes:,} that "
                "we accept",
                hint="let the exporter compute it, or feed it as an input",
            )

    def take(self, size_bytes: int) -> None:
        self.used_bytes += size_bytes


def check_pieces(count: int, where: str) -> None:
    """Of a window that is larger than the unit's."""
    if count > MAX_KERNEL_PIECES:
        raise ModelError(
            f"its window, with the dilation, would be cut into {count:,} pieces, more than the "
            f"{MAX_KERNEL_PIECES:,} that we accept",
            where=where,
            hint="use a smaller window or a smaller dilation",
        )


def check_stages(count: int, where: str) -> None:
    if count > MAX_STAGES:
        raise ModelError(
            f"the network needs more than {MAX_STAGES:,} steps on the NPU, which is the most that "
            "we accept",
            where=where,
            hint="compile the network in parts",
        )


def check_run(size_bytes: int, macs: int, where: str) -> None:
    """Before an op of the reference executor runs."""
    hint = "estimate and explain work without running it; give a smaller input to run it"
    if size_bytes > MAX_RUN_BYTES:
        raise ModelError(
            f"running the network takes about {size_bytes:,} bytes of memory, more than the "
            f"{MAX_RUN_BYTES:,} that we accept",
            where=where,
            hint=hint,
        )
    if macs > MAX_RUN_MACS:
        raise ModelError(
            f"running the network takes {macs:,} multiply-accumulates, more than the "
            f"{MAX_RUN_MACS:,} that we accept",
            where=where,
            hint=hint,
        )
