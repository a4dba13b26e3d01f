"""Blobs as text: a disassembler with names and fields, and the assembler that takes it back.

One instruction a line; a burst's values stand on the lines after it. Everything after `;` is a
comment. Places are UNIT.REGISTER or UNIT.@index, bits are [msb:lsb] or [bit]. Directives hold
what a container has around the code.
"""

from __future__ import annotations

from collections.abc import Iterator

from npuscope.program.ec_blob.binary import EcBinary
from npuscope.program.ec_blob.instructions import (
    HEADER_WORDS,
    Burst,
    Instruction,
    Irq,
    Label,
    Poll,
    Write,
    WriteField,
)
from npuscope.program.ec_blob.registers import (
    UNIT_BY_PAGE,
    WORD_BITS,
    page_name,
    register_name,
)

_COMMENT_COLUMN = 40
_VALUES_PER_LINE = 8
_DEBUG_PER_LINE = 32


def disassemble(binary: EcBinary) -> str:
    """Text from which `assemble` makes the same binary again."""
    words = sum(instruction.words for instruction in binary.instructions)
    epochs = sum(isinstance(instruction, Label) for instruction in binary.instructions)
    counted = f"{words} words, {epochs} epoch{'' if epochs == 1 else 's'}"
    lines = [f"; epoch-controller blob: {counted}", *_directives(binary)]
    at = HEADER_WORDS
    for instruction in binary.instructions:
        lines += _lines(instruction, at)
        at += instruction.words
    return "\n".join(lines) + "\n"


def _directives(binary: EcBinary) -> Iterator[str]:
    if binary.container is not None:
        yield f".container {binary.container:#010x}"
    for row in binary.relocations:
        yield f".relocate {_quoted(row.identifier)} {_numbers(row.places)}"
    for patch in binary.patches:
        yield (
            f".patch {_quoted(patch.identifier)} {patch.shift} {patch.mask:#x} "
            f"{_numbers(patch.places)}"
        )
    for start in range(0, len(binary.debug), _DEBUG_PER_LINE):
        yield f".debug {binary.debug[start : start + _DEBUG_PER_LINE].hex()}"


def _quoted(name: str) -> str:
    """A name in quotes: latin-1 characters that are not plain letters and marks as \\xNN."""
    plain = (
        c if c.isascii() and c.isprintable() and c not in '"\\;' else _escaped(c) for c in name
    )
    return f'"{"".join(plain)}"'


def _escaped(char: str) -> str:
    return f"\\x{ord(char):02x}"


def _numbers(values: tuple[int, ...]) -> str:
    return " ".join(f"{value:#x}" for value in values)


def _lines(instruction: Instruction, at: int) -> list[str]:
    match instruction:
        case Label(number):
            return ["", _commented(f"label {number}", f"epoch {number}, word {at}")]
        case Irq(number):
            return [f"irq {number}"]
        case Write(page, register, value, lsb, msb):
            place = _place(page, register, lsb, msb)
            whole = (lsb, msb) == (0, WORD_BITS - 1)
            note = fields_text(page, register, value) if whole else ""
            return [_commented(f"write {place} {value:#x}", note)]
        case WriteField(page, register, bit, value):
            text = f"writefield {_place(page, register, bit, bit)} {value}"
            return [_commented(text, _bit_name(page, register, bit))]
        case Poll(page, register, lsb, msb, value, interval):
            text = f"poll {_place(page, register, lsb, msb)} {value:#x} {interval}"
            return [_commented(text, _bit_name(page, register, lsb) if lsb == msb else "")]
        case Burst():
            place = _place(instruction.page, instruction.register)
            return [f"{instruction.name} {place}", *_burst_lines(instruction)]


def _burst_lines(burst: Burst) -> Iterator[str]:
    """Named registers one a line, memories several words a line."""
    row: list[str] = []
    for i, value in enumerate(burst.values):
        index = burst.register + i * burst.increment
        name = register_name(burst.page, index)
        if name.startswith("@"):
            row.append(f"{value:#x}")
        else:
            yield _commented(f"  {value:#x}", f"{name} {fields_text(burst.page, index, value)}")
        if len(row) == _VALUES_PER_LINE:
            yield "  " + " ".join(row)
            row = []
    if row:
        yield "  " + " ".join(row)


def _place(page: int, register: int, lsb: int = 0, msb: int = WORD_BITS - 1) -> str:
    bits = (
        "" if (lsb, msb) == (0, WORD_BITS - 1) else f"[{lsb}]" if lsb == msb else f"[{msb}:{lsb}]"
    )
    return f"{page_name(page)}.{register_name(page, register)}{bits}"


def _commented(text: str, note: str) -> str:
    note = note.strip()
    return f"{text:<{_COMMENT_COLUMN}} ; {note}" if note else text


def fields_text(page: int, index: int, value: int) -> str:
    """The fields of a register's value that differ from their reset values."""
    unit = UNIT_BY_PAGE.get(page)
    register = unit.by_index.get(index) if unit else None
    if register is None or len(register.fields) < 2:
        return ""
    found = [(field, field.get(value)) for field in register.fields]
    return " ".join(f"{field.name}={got}" for field, got in found if got != field.reset)


def _bit_name(page: int, register: int, bit: int) -> str:
    unit = UNIT_BY_PAGE.get(page)
    known = unit.by_index.get(register) if unit else None
    fields = known.fields if known else ()
    return next((field.name for field in fields if field.lsb == bit), "")
