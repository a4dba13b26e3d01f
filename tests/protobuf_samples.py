"""Protobuf messages and descriptions of messages, built by hand."""

from __future__ import annotations

from npuscope.protobuf import bytes_field, number_field


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return number_field(number, value)
    return bytes_field(number, value.encode() if isinstance(value, str) else value)


def described(name: str, *fields: tuple[int, str, str]) -> bytes:
    """A DescriptorProto; kinds are `i` number, `s` text, a type's name, `*` before repeated."""
    rows = b""
    for number, label, kind in fields:
        plain = kind.removeprefix("*")
        code = {"i": 5, "s": 9, "z": 17}.get(plain, 11)
        row = field(1, label) + field(3, number) + field(4, 3 if kind[0] == "*" else 1)
        row += field(5, code) + (field(6, f".aicopstatsdesc.{plain}") if code == 11 else b"")
        rows += field(2, row)
    return field(1, name) + rows
