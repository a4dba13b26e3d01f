"""Caps on what a model file may claim or ask for, so that no file costs unbounded time or memory.

All limits are checked before memory is allocated. Real networks stay far below them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from npuscope.bounded_file import MODEL
from npuscope.errors import FileError, ModelError

# Limits on the counts and sizes that a file states.
MAX_FILE_BYTES = MODEL.most_bytes
MAX_OPS = 100_000
MAX_TENSORS = 400_000
MAX_RANK = 16
MAX_OP_INPUTS = 4096
MAX_NAME_BYTES = 4096
MAX_ELEMENTS = 2**32  # elements of one tensor; far more than any NPU holds
MAX_LIST = 4096  # integers that an op takes as axes, sizes or pads

# Limits on the work a file asks for: a small file can describe a huge computation.
MAX_MACS = 2**56  # of one op; low enough that sums over a network fit 64 bits
MAX_COMPUTED_BYTES = 128 << 20  # constants computed from constants, in one network
MAX_KERNEL_PIECES = 1_024  # pieces of one convolution or pooling window
MAX_STAGES = 100_000  # stages that the ops of one network are lowered to
MAX_RUN_BYTES = 2 << 30  # memory of one inference in the reference executor
MAX_RUN_MACS = 2**40

# Tensors may share a buffer; a file whose tensors expand to many times its size is an attack.
_SHARING = 4  # times the size of the file
_SMALL_BYTES = 64 << 20


def check_count(count: int, limit: int, what: str) -> int:
    if count > limit:
        raise FileError(f"the file claims {count} {what}; the limit is {limit}")
    return count


class Budget:
    """Total memory that the values of one file may take."""

    def __init__(self, file_bytes: int) -> None:
        self.limit_bytes = max(_SMALL_BYTES, _SHARING * file_bytes)
        self.used_bytes = 0

    def take(self, size_bytes: int) -> None:
        self.used_bytes += size_bytes
        if self.used_bytes > self.limit_bytes:
            raise FileError(
                f"the values in the file expand to more than {self.limit_bytes} bytes",
                hint="the file is damaged, or many tensors share one buffer",
            )


class Computed:
    """Total memory that constants computed from other constants may take."""

    def __init__(self, given_bytes: int) -> None:
        self.limit_bytes = max(MAX_COMPUTED_BYTES, _SHARING * given_bytes)
        self.used_bytes = 0

    def check(self, shape: Sequence[int], item_bytes: int) -> None:
        """Before a constant of this shape is computed."""
        size_bytes = prod(shape) * item_bytes
        if self.used_bytes + size_bytes > self.limit_bytes:
            raise ModelError(
                f"computing a constant of shape {tuple(shape)} would bring computed constants to "
                f"{self.used_bytes + size_bytes:,} bytes; the limit is {self.limit_bytes:,}",
                hint="let the exporter compute it, or pass it as an input",
            )

    def take(self, size_bytes: int) -> None:
        self.used_bytes += size_bytes


def check_pieces(count: int, where: str) -> None:
    """Refuse a window that would be cut into too many pieces."""
    if count > MAX_KERNEL_PIECES:
        raise ModelError(
            f"its window, with the dilation, would be cut into {count:,} pieces; the limit is "
            f"{MAX_KERNEL_PIECES:,}",
            where=where,
            hint="use a smaller window or a smaller dilation",
        )


def check_stages(count: int, where: str) -> None:
    if count > MAX_STAGES:
        raise ModelError(
            f"the network needs more than {MAX_STAGES:,} steps on the NPU, which is the limit",
            where=where,
            hint="compile the network in parts",
        )


def check_run(size_bytes: int, macs: int, where: str) -> None:
    """Refuse a run that is too large, before the reference executor starts it."""
    hint = "estimate and explain work without running it; give a smaller input to run it"
    if size_bytes > MAX_RUN_BYTES:
        raise ModelError(
            f"running the network needs about {size_bytes:,} bytes of memory; the limit is "
            f"{MAX_RUN_BYTES:,}",
            where=where,
            hint=hint,
        )
    if macs > MAX_RUN_MACS:
        raise ModelError(
            f"running the network needs {macs:,} multiply-accumulates; the limit is "
            f"{MAX_RUN_MACS:,}",
            where=where,
            hint=hint,
        )
