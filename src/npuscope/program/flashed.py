"""What a board gets of a build's folder, and whether program.json describes it.

A board never sees program.json: it executes network.c and its blobs on the images of the weights.
Written again from program.json these files have to be those of the folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from npuscope.bounded_file import SOURCE, read_text
from npuscope.errors import FileError
from npuscope.machine.model import Machine
from npuscope.program.code_files import code_files
from npuscope.program.model import Buffer, Program, images
from npuscope.program.network_c.read_head import is_network_c
from npuscope.program.sources import files_of, read_source
from npuscope.program.weights import WeightSearch
from npuscope.structs import replace
from npuscope.text import safe_terminal
from npuscope.version import __version__

_UNSEEN = re.compile(r'("(?:[^"\\\n]|\\.)*")|/\*.*?\*/|//[^\n]*', re.S)
_WRITER = re.compile(r"Written by npuscope ([\w.+-]{1,40})\. ")


def as_flashed(path: Path, program: Program, machine: Machine, weights: Sequence[str]) -> Program:
    """The program of program.json where the files to be flashed say the same. Else the program
    that these files hold, with the places where they contradict program.json."""
    folder = path if path.is_dir() else path.parent
    files = files_of(folder)
    sources = [f for f in files if f.suffix == ".c" and is_network_c(f)]
    source = next((f for f in sources if f.name == "network.c"), sources[0] if sources else None)
    if source is None:
        return program
    search = WeightSearch(source, tuple(files), tuple(weights))
    found = [*_code(source, program, machine)]
    found += [] if weights else _images(search, program)
    if not found and not weights:
        return program
    flashed = read_source(source, files, tuple(weights))
    return replace(
        flashed,
        model_file=program.model_file,
        model_md5=program.model_md5,
        contradictions=(*flashed.contradictions, *found),
    )


def of_files(path: Path, program: Program) -> Program:
    """The program that the files of a folder hold, with the names of program.json. Coefficients lie
    where the board has them: in the blob, not in the image of the weights."""
    folder = path if path.is_dir() else path.parent
    files = files_of(folder)
    sources = [f for f in files if f.suffix == ".c" and is_network_c(f)]
    source = next((f for f in sources if f.name == "network.c"), sources[0] if sources else None)
    if source is None:
        return program
    flashed = read_source(source, files, ())
    tensors = {buffer.name: buffer.tensor for buffer in program.buffers}
    origins = {epoch.number: epoch.origin for epoch in program.epochs}
    return replace(
        flashed,
        model_file=program.model_file,
        model_md5=program.model_md5,
        buffers=tuple(replace(b, tensor=tensors.get(b.name, "")) for b in flashed.buffers),
        epochs=tuple(
            replace(epoch, origin=origins.get(epoch.number, epoch.origin))
            for epoch in flashed.epochs
        ),
    )


def _code(source: Path, program: Program, machine: Machine) -> Iterator[str]:
    """Source files that are not those that program.json gives."""
    _, expected = code_files(program, machine, source.stem)
    for name, content in expected.items():
        path = source.with_name(name)
        if not path.is_file():
            if name.endswith((".c", "_ecblobs.h")):
                yield f"{safe_terminal(name)} is not in the folder"
            continue
        assert isinstance(content, str)
        text = read_text(path, SOURCE, errors="replace")
        here, there = _statements(text), _statements(content)
        if _joined(here) == _joined(there):
            continue
        pairs = zip([*here, (text.count("\n") + 1, "")], [*there, (0, "")], strict=False)
        line = next((one[0] for one, other in pairs if one[1] != other[1]), len(here))
        writer = _WRITER.search(text[:2000])
        other = f" (npuscope {writer[1]} wrote it)" if writer and writer[1] != __version__ else ""
        yield f"{safe_terminal(name)}:{line} is not what program.json says{other}"


def _statements(text: str) -> list[tuple[int, str]]:
    """Lines with their numbers as a C compiler sees them: without comments and space."""
    plain = _UNSEEN.sub(lambda part: part[1] or "\n" * part[0].count("\n"), text)
    rows = ((number, "".join(line.split())) for number, line in enumerate(plain.split("\n"), 1))
    return [row for row in rows if row[1]]


def _joined(rows: list[tuple[int, str]]) -> str:
    return "".join(text for _, text in rows)


def _images(search: WeightSearch, program: Program) -> Iterator[str]:
    """Images of weights that are not those of program.json."""
    expected, buffers = images(program), program.buffer_map()
    for pool in program.pools:
        constants = [buffers[name] for name in program.constants if buffers[name].pool == pool.name]
        if not constants or pool.virtual:
            continue
        right = np.frombuffer(expected[pool.name], np.uint8)
        used = np.zeros(right.size, bool)
        for buffer in constants:
            used[buffer.offset : buffer.offset + buffer.size_bytes] = True
        for file, data in search.holding(pool):
            if isinstance(data, FileError):
                yield f"{safe_terminal(data.where or file.name)}: {data.message}"
                continue
            image = np.frombuffer(data[: right.size], np.uint8)
            differs = used.copy()
            differs[: image.size] &= image != right[: image.size]
            if differs.any():
                first = int(differs.argmax())
                yield (
                    f"{safe_terminal(file.name)} differs from program.json in "
                    f"{int(differs.sum()):,} of {int(used.sum()):,} bytes of weights, first at "
                    f"byte {first:#x}{_owner(constants, first)}"
                )


def _owner(constants: list[Buffer], place: int) -> str:
    inside = (b for b in constants if b.offset <= place < b.offset + b.size_bytes)
    return next((f" ('{safe_terminal(b.name)}')" for b in inside), "")
