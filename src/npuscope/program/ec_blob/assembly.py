"""Blobs as text and back: disassembler, assembler, and the listing as plain JSON values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from npuscope.errors import FileError, TargetError
from npuscope.program.ec_blob.binary import CONTAINERS, EcBinary, Patch, Relocation
from npuscope.program.ec_blob.instructions import (
    HEADER_WORDS,
    MAX_BURST,
    Burst,
    Instruction,
    Irq,
    Label,
    Poll,
    Write,
    WriteField,
    encode_one,
)
from npuscope.program.ec_blob.registers import (
    PAGE_BY_NAME,
    REGISTERS_PER_PAGE,
    UNIT_BY_PAGE,
    WORD_BITS,
    page_name,
    register_index,
    register_name,
)
from npuscope.text import safe_terminal

# --- Disassembler: blobs as text with names and fields ---
#
# One instruction per line; the values of a burst are on the lines after it. Everything after `;` is
# a comment. Places are UNIT.REGISTER or UNIT.@index, bits are [msb:lsb] or [bit]. Directives hold
# what a container has around the code.

_COMMENT_COLUMN = 40
_VALUES_PER_LINE = 8
_DEBUG_PER_LINE = 32


def disassemble(binary: EcBinary) -> str:
    """Text from which `assemble` makes the same binary again."""
    words = sum(instruction.words for instruction in binary.instructions)
    epochs = sum(isinstance(instruction, Label) for instruction in binary.instructions)
    summary = f"{words} words, {epochs} epoch{'' if epochs == 1 else 's'}"
    lines = [f"; epoch-controller blob: {summary}", *_directives(binary)]
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
        c if c.isascii() and c.isprintable() and c not in '"\\;' else f"\\x{ord(c):02x}"
        for c in name
    )
    return f'"{"".join(plain)}"'


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
    """One named register per line, several memory words per line."""
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
    values = [(field, field.get(value)) for field in register.fields]
    return " ".join(f"{field.name}={got}" for field, got in values if got != field.reset)


def _bit_name(page: int, register: int, bit: int) -> str:
    unit = UNIT_BY_PAGE.get(page)
    row = unit.by_index.get(register) if unit else None
    fields = row.fields if row else ()
    return next((field.name for field in fields if field.lsb == bit), "")


# --- Assembler: text of `disassemble`, of the vendor's recorder (debug__ec_blob_*.s), or written by
# hand, to a binary ---

_PLACE = re.compile(r"(\w+)\.(@\d{1,4}|\w+)(?:\[(\d{1,2})(?::(\d{1,2}))?\])?", re.ASCII)
_NUMBER = re.compile(r"-?(0[xX][0-9a-fA-F]{1,8}|[1-9]\d{0,9}|0)", re.ASCII)
_QUOTED = re.compile(r'\s*"((?:[ !#-\[\]-~]|\\x(?!00)[0-9a-f]{2})*)"(.*)', re.ASCII)
_BASED = re.compile(r"([A-Za-z_]\w{0,199})\((\w{1,10})\)", re.ASCII)
_HEX = re.compile(r"(?:[0-9a-f]{2})+")


class _Assembler(Struct):
    """State after the lines read so far."""

    instructions: list[Instruction] = field(default_factory=list)
    burst: tuple[int, int, bool] | None = None
    values: list[int] = field(default_factory=list)
    container: int | None = None
    relocations: list[Relocation] = field(default_factory=list)
    patches: list[Patch] = field(default_factory=list)
    debug: bytearray = field(default_factory=bytearray)
    words: int = 0  # of the code so far
    based: dict[str, list[int]] = field(default_factory=dict)  # places of addresses, by their base

    def line(self, text: str) -> None:
        words = text.split()
        if _NUMBER.fullmatch(words[0]):
            self._values(words)
            return
        self.close_burst()
        if words[0].startswith("."):
            name = words[0]
            rest = text.split(None, 1)[1] if len(words) > 1 else ""
            if name == ".container":
                self.container = _number(rest.strip())
            elif name == ".debug":
                if not _HEX.fullmatch(rest.strip()):
                    raise FileError("expected pairs of hexadecimal digits after .debug")
                self.debug += bytes.fromhex(rest.strip())
            elif name == ".relocate":
                identifier, numbers = _named(rest)
                self.relocations.append(Relocation(identifier, tuple(map(_number, numbers))))
            elif name == ".patch":
                self._patch(*_named(rest))
            else:
                raise FileError(f"unknown directive '{safe_terminal(name)}'")
        else:
            self._instruction(words[0], words[1:])

    def _values(self, words: list[str]) -> None:
        if self.burst is None:
            raise FileError("numbers belong after a burstwrite or burstwriteinc")
        at = self.words + 1 + len(self.values)  # the first word is the instruction
        self.values += [self._value(word, at + i) for i, word in enumerate(words)]
        if len(self.values) > MAX_BURST:
            raise FileError(f"a burst has at most {MAX_BURST} values")

    def _value(self, text: str, place: int) -> int:
        """A number; "_user_io_input_0(0x40)" is one relative to a base that is set later."""
        match = _BASED.fullmatch(text)
        if match is None:
            return _number(text)
        self.based.setdefault(match[1], []).append(place)
        return _number(match[2])

    def close_burst(self) -> None:
        if self.burst is not None:
            page, register, increment = self.burst
            self._add(Burst(page, register, tuple(self.values), increment))
            self.burst, self.values = None, []

    def _add(self, instruction: Instruction) -> None:
        try:
            encode_one(instruction)
        except TargetError as error:
            raise FileError(error.message) from None
        self.instructions.append(instruction)
        self.words += instruction.words

    def _instruction(self, name: str, words: list[str]) -> None:
        if name not in _OPERANDS:
            raise FileError(f"unknown instruction '{safe_terminal(name)}'", hint=f"known: {_KNOWN}")
        if name not in _UNPLACED and len(words) > 1 and words[0].isdecimal():
            words = _named_place(words)
        if name.startswith("burstwrite") and words:
            page, register, _, _ = _token_place(words[0])
            self.burst = page, register, name.endswith("inc")
            self._values(words[1:])
            return
        if len(words) != _OPERANDS[name]:
            raise FileError(f"{name} takes {_OPERANDS[name]} operands, found {len(words)}")
        if name == "write":
            words = [words[0], str(self._value(words[1], self.words + 1))]
        self._add(_simple(name, words))

    def _patch(self, identifier: str, numbers: list[str]) -> None:
        if len(numbers) < 2:
            raise FileError("expected a shift and a mask after the name")
        shift, mask, *places = map(_number, numbers)
        self.patches.append(Patch(identifier, mask, tuple(places), shift))


_OPERANDS = {
    "write": 2,
    "writefield": 2,
    "burstwrite": 1,
    "burstwriteinc": 1,
    "poll": 3,
    "irq": 1,
    "label": 1,
}
_KNOWN = ", ".join(_OPERANDS)
_UNPLACED = ("irq", "label")  # instructions without a register


def assemble(text: str) -> EcBinary:
    """A binary from text; an invalid line raises a FileError with its number."""
    assembler = _Assembler()
    for number, line in enumerate(text.split("\n"), 1):
        code = line.partition(";")[0].strip()
        if not code:
            continue
        try:
            assembler.line(code)
        except FileError as error:
            raise FileError(error.message, where=f"line {number}", hint=error.hint) from None
    assembler.close_burst()
    based = tuple(Relocation(name, tuple(at)) for name, at in assembler.based.items())
    container = assembler.container
    if based and container is None:
        container = CONTAINERS[-1]  # the text does not say which: the newest
    return EcBinary(
        tuple(assembler.instructions),
        container,
        (*assembler.relocations, *based),
        tuple(assembler.patches),
        bytes(assembler.debug),
    )


def _simple(name: str, words: list[str]) -> Instruction:
    if name == "label":
        return Label(_number(words[0]))
    if name == "irq":
        return Irq(_number(words[0]))
    page, register, lsb, msb = _token_place(words[0])
    value = _number(words[1])
    if name == "write":
        return Write(page, register, value, lsb, msb)
    if name == "poll":
        return Poll(page, register, lsb, msb, value, _number(words[2]))
    if lsb != msb:
        raise FileError("writefield takes one bit, as in CLKCTRL.BGATES[10]")
    return WriteField(page, register, lsb, value)


def _token_place(text: str) -> tuple[int, int, int, int]:
    """Page, register, lsb and msb of "CONVACC0.KFORMAT[7:0]"."""
    match = _PLACE.fullmatch(text)
    page = PAGE_BY_NAME.get(match.group(1)) if match else None
    if match is None or page is None:
        raise FileError(
            f"expected UNIT.REGISTER, found '{safe_terminal(text)}'",
            hint="such as STRENG0.ADDR, CLKCTRL.BGATES[10] or ARITH1.@256",
        )
    name = match.group(2)
    register = int(name[1:]) if name.startswith("@") else register_index(page, name)
    if register is None or register >= REGISTERS_PER_PAGE:
        raise FileError(f"{match.group(1)} has no register '{safe_terminal(name)}'")
    if match.group(3) is None:
        return page, register, 0, WORD_BITS - 1
    msb = int(match.group(3))
    return page, register, int(match.group(4) or msb), msb


def _named_place(words: list[str]) -> list[str]:
    """The vendor's "23 2 [4] 0x1" (page, register, bits) as our "ARITH0.@2[4] 0x1"."""
    page, register, *rest = words
    bits = rest.pop(0) if rest and rest[0].startswith("[") else ""
    unit = page_name(int(page)) if len(page) < 4 else page
    return [f"{unit}.@{register}{bits}", *rest]


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise FileError(f"expected a number, found '{safe_terminal(text)}'")
    return int(text, 0)


def _named(rest: str) -> tuple[str, list[str]]:
    match = _QUOTED.fullmatch(rest)
    if match is None:
        raise FileError("expected a name in quotes")
    name = re.sub(r"\\x(..)", lambda code: chr(int(code.group(1), 16)), match.group(1))
    return name, match.group(2).split()


# --- A binary as plain JSON values: every instruction with its place and names ---


def binary_json(binary: EcBinary) -> dict[str, Any]:
    at = HEADER_WORDS
    instructions = []
    for instruction in binary.instructions:
        instructions.append({"word": at, **_instruction(instruction)})
        at += instruction.words
    return {
        "words": at - HEADER_WORDS,
        "epochs": [i.number for i in binary.instructions if isinstance(i, Label)],
        "container": binary.container,
        "relocations": [asdict(row) for row in binary.relocations],
        "patches": [asdict(row) for row in binary.patches],
        "instructions": instructions,
    }


def _instruction(instruction: Instruction) -> dict[str, Any]:
    if isinstance(instruction, (Irq, Label)):
        return {"op": instruction.name, "number": instruction.number}
    fields = asdict(instruction)
    page, register = fields.pop("page"), fields.pop("register")
    fields.pop("increment", None)  # the operation's name says it
    return {
        "op": instruction.name,
        "unit": page_name(page),
        "register": register_name(page, register),
        **fields,
    }
