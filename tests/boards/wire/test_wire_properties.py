"""Any message in any cutting: what is sent is what arrives."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields

from npuscope.boards.wire import messages
from npuscope.boards.wire.framing import (
    LARGEST_PAYLOAD_BYTES,
    Revision,
    device_packets,
    host_packets,
    receive_from_device,
    receive_from_host,
)
from npuscope.boards.wire.messages import decode, encode
from npuscope.errors import DeviceError
from npuscope.protobuf import FieldKind

U32, U64 = st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 64) - 1)
VALUES: dict[FieldKind, st.SearchStrategy[Any]] = {
    FieldKind.UINT32: U32,
    FieldKind.UINT64: U64,
    FieldKind.INT32: st.integers(-(1 << 31), (1 << 31) - 1),
    FieldKind.FLOAT: st.floats(width=32, allow_nan=False),
    FieldKind.STRING: st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    FieldKind.BYTES: st.binary(max_size=40),
}
PLAIN = (messages.Req, messages.Sync, messages.Ack, messages.Log, messages.SysInfo, messages.Data)


class Bytes:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.asked = 0

    def read(self, n: int) -> bytes:
        if n > len(self.data):
            raise DeviceError("nothing more")
        piece, self.data = self.data[:n], self.data[n:]
        return piece

    def write(self, data: bytes) -> None:
        self.asked += len(data)


def values(row: Any) -> st.SearchStrategy[Any]:
    one = VALUES[row.kind] if row.type is None else message(row.type)
    return st.lists(one, max_size=4).map(tuple) if row.repeated else one


def message(cls: Any) -> st.SearchStrategy[Any]:
    assert not any(field.required for field in fields(cls))
    return st.builds(cls, **{row.name: values(row) for row in cls.FIELDS})


@given(st.sampled_from(PLAIN).flatmap(message))
def test_a_message_comes_back(sent: Any) -> None:
    assert decode(type(sent), encode(sent)) == sent


@given(st.sampled_from(PLAIN), st.binary(max_size=60))
def test_any_bytes_are_a_message_or_a_device_error(cls: Any, data: bytes) -> None:
    with contextlib.suppress(DeviceError):
        found = decode(cls, data)
        assert decode(cls, encode(found)) is not None


@given(
    st.binary(max_size=300),
    st.sampled_from(list(Revision)),
    st.sampled_from((1, 5, 32, 100, LARGEST_PAYLOAD_BYTES)),
)
def test_packets_of_a_board_join_again(data: bytes, revision: Revision, payload: int) -> None:
    # A header of one byte counts to 127.
    payload = min(payload, revision.end_flag - 1)
    line = Bytes(device_packets(data, revision, payload))
    assert receive_from_device(line.read, revision, 1000, payload) == data
    assert line.data == b""


@given(st.binary(max_size=300), st.sampled_from(list(Revision)))
def test_packets_of_a_host_join_again(data: bytes, revision: Revision) -> None:
    packets = host_packets(data, revision)
    line = Bytes(b"".join(packets))
    assert receive_from_host(line.read, line.write, revision, 1000) == data
    assert (line.data, line.asked) == (b"", len(packets) - 1)


@given(st.binary(max_size=200), st.sampled_from(list(Revision)))
def test_any_bytes_end_in_a_message_or_a_device_error(data: bytes, revision: Revision) -> None:
    line = Bytes(data)
    with contextlib.suppress(DeviceError):
        assert len(receive_from_host(line.read, line.write, revision, 100)) <= 100
