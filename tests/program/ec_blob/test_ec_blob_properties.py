"""Any code: as bytes and as text it comes back bit for bit."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from npuscope.errors import NpuscopeError
from npuscope.program.ec_blob.assembly import assemble, disassemble
from npuscope.program.ec_blob.binary import (
    EcBinary,
    Patch,
    Relocation,
    read_binary,
    read_header,
    write_binary,
    write_header,
)
from npuscope.program.ec_blob.instructions import Burst, Irq, Label, Poll, Write, WriteField

PAGE, REGISTER, WORD = st.integers(0, 63), st.integers(0, 1023), st.integers(0, (1 << 32) - 1)


@st.composite
def bits(draw: st.DrawFn) -> tuple[int, int, int]:
    """The bits lsb to msb and a value that fits."""
    lsb = draw(st.integers(0, 31))
    msb = draw(st.integers(lsb, 31))
    return lsb, msb, draw(st.integers(0, (1 << (msb - lsb + 1)) - 1))


INSTRUCTIONS = st.one_of(
    st.builds(lambda p, r, b: Write(p, r, b[2], b[0], b[1]), PAGE, REGISTER, bits()),
    st.builds(WriteField, PAGE, st.integers(0, 31), st.integers(0, 31), st.integers(0, 1)),
    st.builds(
        Burst, PAGE, REGISTER, st.lists(WORD, min_size=1, max_size=9).map(tuple), st.booleans()
    ),
    st.builds(
        lambda p, r, b, i: Poll(p, r, b[0], b[1], b[2], i),
        PAGE,
        REGISTER,
        bits(),
        st.integers(0, 255),
    ),
    st.builds(Irq, st.integers(0, 7)),
    st.builds(Label, st.integers(0, 0xFFFF)),
)
CODE = st.lists(INSTRUCTIONS, min_size=1, max_size=12).map(tuple)
NAMES = st.text(st.characters(min_codepoint=1, max_codepoint=255), max_size=12)  # bytes


@given(CODE)
def test_code_comes_back_from_bytes(code: tuple) -> None:
    binary = EcBinary(code)
    assert read_binary(write_binary(binary)) == binary


@given(CODE)
def test_code_comes_back_from_text(code: tuple) -> None:
    data = write_binary(EcBinary(code))
    assert write_binary(assemble(disassemble(read_binary(data)))) == data


@given(CODE, st.data())
def test_containers_come_back(code: tuple, data: st.DataObject) -> None:
    words = sum(instruction.words for instruction in code)
    places = st.lists(st.integers(0, words - 1), max_size=4).map(tuple)
    moved = data.draw(st.lists(st.builds(Relocation, NAMES, places), max_size=3))
    patches = data.draw(st.lists(st.builds(Patch, NAMES, WORD, places), max_size=2))
    binary = EcBinary(code, 0xECBF0050, tuple(moved), tuple(patches), b"debug me")
    assert read_binary(write_binary(binary)) == binary


@given(st.lists(CODE, min_size=1, max_size=3))
def test_a_header_holds_its_blobs(codes: list[tuple]) -> None:
    blobs = {f"_ec_blob_{i}": write_binary(EcBinary(code)) for i, code in enumerate(codes)}
    assert {name: read_binary(data) for name, data in read_header(write_header(blobs)).items()} == {
        name: read_binary(data) for name, data in blobs.items()
    }


@given(st.binary(max_size=80) | CODE.map(lambda code: write_binary(EcBinary(code))[:-3]))
def test_any_bytes_are_a_blob_or_an_error(data: bytes) -> None:
    with contextlib.suppress(NpuscopeError):
        read = read_binary(data)
        assert read_binary(write_binary(read)) == read


@given(st.text(max_size=80))
def test_any_text_is_a_blob_or_an_error(text: str) -> None:
    with contextlib.suppress(NpuscopeError):
        write_binary(assemble(text))
