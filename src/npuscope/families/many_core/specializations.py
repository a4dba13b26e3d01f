"""Several programs of one network in one container: one for each set of sizes.

The first program is the container itself; each further one is a whole container in a segment of
its own, without its constants where they are those of the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from npuscope.bounded_file import VENDOR_JSON, parse_json, read_bytes
from npuscope.errors import FileError, UsageError
from npuscope.families.many_core.container import read_layout, read_program, write_program
from npuscope.families.many_core.layout import Layout
from npuscope.families.many_core.program import CoreProgram
from npuscope.families.many_core.qpc import CONSTANTS, read_qpc, write_qpc
from npuscope.families.many_core.sources import SEGMENT as SOURCE
from npuscope.text import safe_terminal

SEGMENT = "osb.spec."
_MOST = 64  # sets of sizes
_MOST_SIZE = 1 << 31
_GRAPH_NAME = "_graph_name"  # of a set, in flat files of some versions

Sizes = dict[str, int]  # by the names that the file has for them


# --- -network-specialization-config ---


def read_config(path: str | Path) -> tuple[Sizes, ...]:
    """{"specializations": [{"batch_size": "1", "seq_len": "128"}, ...]}, as the vendor's has it;
    later files name each set: {"name": "Prefill", "symbols": {"batch_size": "1", ...}}."""
    where = safe_terminal(str(path))
    try:
        table = parse_json(read_bytes(path, VENDOR_JSON))
    except ValueError as error:
        raise FileError(f"is not valid JSON: {error}", where=where) from None
    return sets_of_sizes(table, where)


def sets_of_sizes(table: object, where: str) -> tuple[Sizes, ...]:
    rows = table.get("specializations") if isinstance(table, dict) else None
    if not isinstance(rows, list) or not 0 < len(rows) <= _MOST:
        raise FileError(
            f"expected a list of 1 to {_MOST} objects",
            where=f"{where}: $.specializations",
            hint='{"specializations": [{"batch_size": "1", "seq_len": "128"}]}',
        )
    sets = []
    for number, row in enumerate(rows):
        place = f"{where}: $.specializations[{number}]"
        if isinstance(row, dict) and "symbols" in row:
            row, place = row["symbols"], f"{place}.symbols"
        if not isinstance(row, dict) or not row:
            raise FileError("expected an object of sizes by name", where=place)
        sizes = {name: value for name, value in row.items() if name != _GRAPH_NAME}
        for name, value in sizes.items():
            text = str(value) if type(value) in (int, str) else ""
            digits = text.isascii() and text.isdecimal() and len(text) < 11
            if not digits or not 0 < int(text) < _MOST_SIZE:
                raise FileError(
                    "expected a size of at least 1", where=f"{place}.{safe_terminal(name)}"
                )
        sets.append({name: int(size) for name, size in sizes.items()})
    return tuple(sets)


def network_name(network: str, number: int) -> str:
    """Buffers are called after it, so that they are found again."""
    return network if number == 0 else f"{network}_s{number}"


# --- The container ---


def write_programs(programs: Sequence[CoreProgram], source: bytes = b"") -> bytes:
    """`source` says what they were compiled from."""
    first, *others = (_segments(write_program(program)) for program in programs)
    for number, segments in enumerate(others, 1):
        if segments[CONSTANTS] == first[CONSTANTS]:
            segments[CONSTANTS] = b""
        first[f"{SEGMENT}{number}"] = write_qpc(segments)
    if source:
        first[SOURCE] = source
    return write_qpc(first)


def read_programs(data: bytes) -> tuple[CoreProgram, ...]:
    return tuple(read_program(part) for part in _containers(data))


def read_layouts(data: bytes) -> tuple[Layout, ...]:
    return tuple(read_layout(part) for part in _containers(data))


def chosen(programs: Sequence[CoreProgram], name: str) -> CoreProgram:
    """By its number or by the name of its network; the first where nothing is asked for."""
    if not name:
        return programs[0]
    for number, program in enumerate(programs):
        if name in (str(number), program.layout.network):
            return program
    names = ", ".join(f"{n} ({p.layout.network})" for n, p in enumerate(programs))
    raise UsageError(
        f"unknown specialization '{safe_terminal(name)}'",
        where="--specialization",
        hint=f"there are {safe_terminal(names)}",
    )


def _segments(data: bytes) -> dict[str, bytes]:
    qpc = read_qpc(data)
    return {name: qpc.need(name) for name in qpc.names}


def _containers(data: bytes) -> Iterator[bytes]:
    yield data
    qpc = read_qpc(data)
    for name in qpc.names:
        if name.startswith(SEGMENT):
            try:
                segments = _segments(qpc.need(name))
            except FileError as error:
                place = f"{name}, {error.where}" if error.where else name
                raise FileError(error.message, where=place, hint=error.hint) from None
            if not segments.get(CONSTANTS):
                segments[CONSTANTS] = qpc.get(CONSTANTS) or b""
            yield write_qpc(segments)
