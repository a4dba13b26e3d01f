"""The container: both conventions of addresses, and files that lie."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from npuscope.errors import FileError
from npuscope.families.many_core.qpc import read_qpc, read_qpc_file, write_qpc

SEGMENTS = {"networkdesc.bin": b"desc", "constants.bin": bytes(range(10)), "empty": b""}
STREAMED = write_qpc(SEGMENTS)


def in_memory(segments: dict[str, bytes], base: int) -> bytes:
    """As a writer makes it that builds the container at an address and pads parts to 8."""

    def padded(data: bytes) -> bytes:
        return data + bytes(-len(data) % 8)

    names = [padded(name.encode() + b"\0") for name in segments]
    at = 40 + 32 * len(segments)
    body_at = at + sum(map(len, names))
    rows, bodies = b"", b""
    for name, data in zip(names, segments.values(), strict=True):
        rows += struct.pack("<4Q", len(data), 0, base + at, base + body_at)
        at += len(name)
        body_at += len(padded(data))
        bodies += padded(data)
    head = (0x00A1CD7C, 0, 1, 1, body_at, base, len(segments), base + 40)
    return struct.pack("<IBBHQQQQ", *head) + rows + b"".join(names) + bodies


def with_u64(data: bytes, at: int, value: int) -> bytes:
    return data[:at] + struct.pack("<Q", value) + data[at + 8 :]


def refused(data: bytes) -> str:
    with pytest.raises(FileError) as caught:
        read_qpc(data)
    return str(caught.value)


def test_known_bytes() -> None:
    assert write_qpc({"a": b"xyz"}).hex(" ", -8) == (
        "7ccda10000010100 4d00000000000000 0000000000000000 0100000000000000 2800000000000000 "
        "0300000000000000 0000000000000000 4800000000000000 4a00000000000000 610078797a"
    )


def test_segments_read_back_in_order() -> None:
    qpc = read_qpc(STREAMED)
    assert {name: qpc.get(name) for name in qpc.names} == SEGMENTS
    assert list(qpc.names) == list(SEGMENTS)
    assert (qpc.major, qpc.minor, qpc.base, qpc.notes) == (0, 1, 0, ())


def test_only_constants_are_parted() -> None:
    assert [part.offset for part in read_qpc(STREAMED).segments] == [0, 10, 0]


@pytest.mark.parametrize("base", [0, 0x7F00_1234_5000, (1 << 64) - (1 << 20)])
def test_the_padded_form_at_any_base(base: int) -> None:
    qpc = read_qpc(in_memory(SEGMENTS, base))
    assert {name: qpc.get(name) for name in qpc.names} == SEGMENTS
    assert qpc.base == base


def test_a_missing_segment_is_named_with_those_that_are_there() -> None:
    assert read_qpc(STREAMED).get("osb.layout") is None
    with pytest.raises(FileError, match=r"(?s)no segment osb.layout.*networkdesc.bin, constants"):
        read_qpc(STREAMED).need("osb.layout")


@pytest.mark.parametrize("end", range(len(STREAMED)))
def test_cut_off_anywhere(end: int) -> None:
    refused(STREAMED[:end])


def test_bytes_behind_the_container_are_told() -> None:
    assert read_qpc(STREAMED + b"more").notes == ("4 bytes follow the container",)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"NBIN" + STREAMED[4:], "starts with 0x4e49424e"),
        (STREAMED[:4] + b"\1" + STREAMED[5:], "version 1.1, expected 0.x"),
        (STREAMED[:6] + b"\0" + STREAMED[7:], "FASTPATH"),
        (with_u64(STREAMED, 8, 10**6), "says 1,000,000 bytes"),
        (with_u64(STREAMED, 16, 41), "address 0x28 (base 0x29) lies outside the file"),
        (with_u64(STREAMED, 24, 1 << 60), "segments, more than the file may have"),
        (with_u64(STREAMED, 32, 10**6), "byte 32: address 0xf4240"),
        (with_u64(STREAMED, 40, 1 << 63), "a segment of 9,223,372,036,854,775,808 bytes"),
        (with_u64(STREAMED, 48, 5), "is split at byte 5"),
        (with_u64(STREAMED, 56, len(STREAMED)), "name is empty or does not end"),
        (with_u64(STREAMED, 64, len(STREAMED) + 1), "lies outside the file"),
    ],
)
def test_lies_are_refused(data: bytes, words: str) -> None:
    assert words in refused(data)


def test_two_segments_of_one_name() -> None:
    name = struct.unpack_from("<Q", STREAMED, 56)[0]
    assert "two segments are named networkdesc.bin" in refused(with_u64(STREAMED, 88, name))


def test_more_segments_than_any_compiler_writes() -> None:
    many = write_qpc({str(i): b"" for i in range(5000)})
    assert "says 5,000 segments" in refused(many)


def test_errors_of_files_name_them(tmp_path: Path) -> None:
    path = tmp_path / "programqpc.bin"
    with pytest.raises(FileError, match="cannot be read"):
        read_qpc_file(path)
    path.write_bytes(STREAMED[:20])
    with pytest.raises(FileError, match=r"programqpc\.bin, byte 20"):
        read_qpc_file(path)
    path.write_bytes(STREAMED)
    assert read_qpc_file(path).names == tuple(SEGMENTS)
