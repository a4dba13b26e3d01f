"""Which files of a folder are stats buffers, and which belong together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from msgspec import Struct

from npuscope.bounded_file import CORE_BUFFER, read_bytes, read_head
from npuscope.errors import FileError
from npuscope.families.many_core.buffer import read_buffer
from npuscope.families.many_core.buffer_format import (
    ENDIAN_PROBE,
    HEADER,
    MAGIC,
    Stats,
    read_header,
)
from npuscope.families.many_core.layout import Layout
from npuscope.families.many_core.opstats.index import OpIndex, op_index
from npuscope.families.many_core.runner_files import safe_name
from npuscope.text import safe_terminal

SCHEME = "aic-profiling-program-<P>-activation-<A>-inf-<I>-<Network>-aiccyclecounts.bin"
_NUMBER = r"(\d{1,18})"
_PROBE = 12  # where the byte-order mark is
# Runs on several devices have something behind aiccyclecounts with the vendor's runtime, and its
# newer versions name no activation: each is a program with a number of its own.
_NAME = re.compile(
    rf"aic-profiling-program-{_NUMBER}(?:-activation-{_NUMBER})?-inf-{_NUMBER}"
    r"-(?P<network>.+)-aiccyclecounts(?P<rest>_[^/]*)?\.bin"
)


class BufferFile(Struct, frozen=True):
    """A file that is called as a stats buffer is."""

    path: Path
    program: int
    activation: int
    inference: int
    network: str

    @property
    def run(self) -> tuple[int, int, int]:
        """Devices that ran the same inference share it."""
        return self.program, self.activation, self.inference

    @property
    def stem(self) -> str:
        """What output files are called after."""
        return self.path.stem.replace("-aiccyclecounts", "")

    @property
    def place(self) -> str:
        return safe_terminal(str(self.path))


def find_buffers(files: Iterable[Path]) -> list[BufferFile]:
    """Those that follow the naming scheme, in the order of program, activation and inference."""
    buffers = []
    for path in files:
        match = _NAME.fullmatch(path.name)
        if match is not None:
            program, activation, inference = (int(match[i] or 0) for i in (1, 2, 3))
            buffers.append(BufferFile(path, program, activation, inference, match["network"]))
    return sorted(buffers, key=lambda file: (*file.run, file.path.name))


def is_own(file: BufferFile) -> bool:
    """Whether it is of our format, be it damaged; the vendor's are called the same."""
    head = read_head(file.path, HEADER.size)
    probe = head[_PROBE : _PROBE + 4]
    begun = bool(head) and MAGIC.startswith(head)  # cut off inside the first word
    return begun or head[: len(MAGIC)] == MAGIC or probe == ENDIAN_PROBE.to_bytes(4, "little")


def of_program(
    files: list[BufferFile], layout: Layout
) -> tuple[list[BufferFile], list[BufferFile]]:
    """Those of the program's networks, and the others."""
    names = {safe_name(part.name) for part in layout.specializations} | {safe_name(layout.network)}
    mine = [file for file in files if file.network in names]
    return mine, [file for file in files if file.network not in names]


def device_of(file: BufferFile) -> int:
    head = read_head(file.path, HEADER.size)
    try:
        return read_header(head).device
    except FileError as error:
        raise _in(file, error) from None


def by_run(files: list[BufferFile]) -> Iterator[list[BufferFile]]:
    for _, group in groupby(files, key=lambda file: file.run):
        yield list(group)


class BufferReader(Struct):
    """Reads buffers of one program; what is the same for all is worked out once."""

    layout: Layout
    ignore_uuid: bool = False
    _indices: dict[int, OpIndex] | None = None

    def read(self, file: BufferFile) -> Stats:
        data = read_bytes(file.path, CORE_BUFFER)
        try:
            return read_buffer(data, self.layout, file.path.stem, ignore_uuid=self.ignore_uuid)
        except FileError as error:
            raise _in(file, error) from None

    def index(self, stats: Stats) -> OpIndex:
        self._indices = self._indices or {}
        if stats.specialization not in self._indices:
            self._indices[stats.specialization] = op_index(self.layout, stats.specialization)
        return self._indices[stats.specialization]


def _in(file: BufferFile, error: FileError) -> FileError:
    where = f"{file.place}, {error.where}" if error.where else file.place
    return FileError(error.message, where=where, hint=error.hint)
