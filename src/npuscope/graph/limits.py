"""Caps on what a model file may claim, so that no file costs unbounded time or memory."""

from __future__ import annotations

from npuscope.bounded_file import MODEL
from npuscope.errors import FileError

MAX_FILE_BYTES = MODEL.most_bytes
MAX_OPS = 100_000
MAX_TENSORS = 400_000
MAX_RANK = 16
MAX_OP_INPUTS = 4096
MAX_NAME_BYTES = 4096
MAX_ELEMENTS = 2**32  # of one tensor; far beyond what any NPU holds

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
