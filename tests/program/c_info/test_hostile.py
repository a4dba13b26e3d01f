"""Damaged files: an error that names the file, or a good read; never a crash or a hang."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from npuscope.errors import FileError
from npuscope.machine.load import load_machine
from npuscope.program.c_info import c_info_json, c_info_of, program_from_c_info, read_c_info
from program.c_info.small import document, front_end, written

MACHINE = load_machine()


def survives(path: Path) -> bool:
    """Read, make a program, write it again; False if the file was refused."""
    try:
        info = read_c_info(path)
        program = program_from_c_info(info)
    except FileError as error:
        assert str(error)
        return False
    c_info_json(info)
    c_info_of(program, MACHINE)
    return True


def test_truncation_at_many_offsets(tmp_path: Path) -> None:
    data = json.dumps(front_end()).encode()
    path = tmp_path / "c_info.json"
    for end in [*range(0, len(data), 37), *range(len(data) - 20, len(data))]:
        path.write_bytes(data[:end])
        assert not survives(path)


@pytest.mark.parametrize("version", ["2.1.0", "4.0.0"])
def test_random_byte_flips(version: str, tmp_path: Path) -> None:
    data = json.dumps(document(version, controlled=True)).encode()
    random = np.random.default_rng(5)
    path = tmp_path / "c_info.json"
    outcomes = set()
    for _ in range(400):
        broken = bytearray(data)
        for place in random.integers(0, len(data), int(random.integers(1, 4))):
            broken[place] ^= 1 << int(random.integers(0, 8))
        path.write_bytes(broken)
        outcomes.add(survives(path))
    assert outcomes == {True, False}


def test_values_of_other_types_everywhere(tmp_path: Path) -> None:
    """Every value of the file in turn becomes something else."""
    strange = [None, True, -1, 1.5, "NULL", [], {}, [[]], 1 << 62]
    root = document()
    for holder, key in list(places(root)):
        kept = holder[key]
        for value in strange:
            holder[key] = value
            survives(written(tmp_path, root))
        holder[key] = kept


def places(value):
    """(holder, key) of one place of every kind: the first two rows of each list."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value[:2])
    for key, inner in pairs:
        yield value, key
        if isinstance(inner, dict | list):
            yield from places(inner)


@pytest.mark.parametrize("depth", [20, 300, 900, 100_000])
def test_deep_nesting(depth: int, tmp_path: Path) -> None:
    path = tmp_path / "c_info.json"
    for opening, closing in (("[", "]"), ('{"a":', "}"), ('{"graphs":[', "]}")):
        inner = "1" if opening == '{"a":' else ""
        path.write_text(opening * depth + inner + closing * depth)
        survives(path)
    node = '{"name":"n","id":1,"mapping":"NODE_HW","subgraph_nodes":['
    graph = '{"graphs":[{"name":"g","nodes":[' + node * depth + "]}" * depth + "]}]}"
    path.write_text(graph)
    assert not survives(path)


def test_numbers_of_thousands_of_digits(tmp_path: Path) -> None:
    path = tmp_path / "c_info.json"
    path.write_text('{"buffers": [{"id": ' + "9" * 5000 + "}]}")
    with pytest.raises(FileError, match="a number has too many digits"):
        read_c_info(path)


@pytest.mark.parametrize("text", ["", " ", "null", "7", '"text"', "{", "\x00", "[1, 2", "NaN"])
def test_not_a_document(text: str, tmp_path: Path) -> None:
    path = tmp_path / "c_info.json"
    path.write_text(text)
    with pytest.raises(FileError):
        read_c_info(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be read"):
        read_c_info(tmp_path / "none.json")
