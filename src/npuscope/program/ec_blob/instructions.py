"""Instructions of the epoch controller: words to values and back, bit for bit.

A head word has the operation in bits 4..0 and a page in bits 31..26. The register index sits in
bits 25..16, for WriteField in 25..21. Bits without a meaning must be zero, so nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from msgspec import Struct

from npuscope.errors import FileError, TargetError

MAGIC = 0xCA057A7A
HEADER_WORDS = 2  # magic, number of words that follow
MAX_BURST = 0x7FF


class Write(Struct, frozen=True):
    """Replace bits msb..lsb of a register."""

    name: ClassVar[str] = "write"
    page: int
    register: int
    value: int
    lsb: int = 0
    msb: int = 31

    @property
    def words(self) -> int:
        return 2


class WriteField(Struct, frozen=True):
    """Set one bit of one of a page's first 32 registers."""

    name: ClassVar[str] = "writefield"
    page: int
    register: int
    bit: int
    value: int

    @property
    def words(self) -> int:
        return 1


class Burst(Struct, frozen=True):
    """Write several words, to the same register or to consecutive ones."""

    page: int
    register: int
    values: tuple[int, ...]
    increment: bool

    @property
    def name(self) -> str:
        return "burstwriteinc" if self.increment else "burstwrite"

    @property
    def words(self) -> int:
        return 1 + len(self.values)


class Poll(Struct, frozen=True):
    """Wait until bits msb..lsb of a register equal the value."""

    name: ClassVar[str] = "poll"
    page: int
    register: int
    lsb: int
    msb: int
    value: int
    interval: int

    @property
    def words(self) -> int:
        return 3


class Irq(Struct, frozen=True):
    """Raise the controller's interrupt: the end of a blob."""

    name: ClassVar[str] = "irq"
    number: int

    @property
    def words(self) -> int:
        return 1


class Label(Struct, frozen=True):
    """The number of the epoch that follows; the controller shows it in its LABEL register."""

    name: ClassVar[str] = "label"
    number: int

    @property
    def words(self) -> int:
        return 1


Instruction = Write | WriteField | Burst | Poll | Irq | Label

_WRITE, _WRITE_FIELD, _BURST, _BURST_INCREMENT, _POLL, _IRQ, _LABEL = 0, 1, 2, 3, 4, 12, 29
_NUMBER_BITS = 27


def decode(words: Sequence[int], first_word: int = 0) -> tuple[Instruction, ...]:
    """All instructions of a code section; `first_word` is where it starts, for messages."""
    instructions: list[Instruction] = []
    at = 0
    while at < len(words):
        try:
            instruction = _decode_one(words, at)
        except IndexError:
            raise _damaged("the code ends inside an instruction", first_word + at) from None
        if instruction is None:
            raise _damaged(f"unknown operation {words[at] & 0x1F}", first_word + at)
        if encode_one(instruction)[0] != words[at]:
            raise _damaged(f"unknown bits in the head {words[at]:#010x}", first_word + at)
        instructions.append(instruction)
        at += instruction.words
    return tuple(instructions)


def _damaged(message: str, word: int) -> FileError:
    return FileError(
        message, where=f"word {word}", hint="the blob is damaged, or newer than npuscope"
    )


def _decode_one(words: Sequence[int], at: int) -> Instruction | None:
    """The inverse of `encode_one`; None for an operation that is not known."""
    head = words[at]
    operation, page, register = head & 0x1F, head >> 26, head >> 16 & 0x3FF
    lsb, msb = head >> 5 & 0x1F, head >> 10 & 0x1F
    if operation == _WRITE:
        return Write(page, register, words[at + 1], lsb, msb)
    if operation == _WRITE_FIELD:
        return WriteField(page, head >> 21 & 0x1F, lsb, head >> 13 & 0xFF)
    if operation in (_BURST, _BURST_INCREMENT):
        values = tuple(words[at + 1 : at + 1 + (head >> 5 & MAX_BURST)])
        if len(values) < head >> 5 & MAX_BURST:
            raise IndexError
        return Burst(page, register, values, operation == _BURST_INCREMENT)
    if operation == _POLL:
        return Poll(page, register, lsb, msb, words[at + 2], words[at + 1])
    if operation == _IRQ:
        return Irq(head >> 5)
    return Label(head >> 5) if operation == _LABEL else None


def encode(instructions: Iterable[Instruction]) -> list[int]:
    return [word for instruction in instructions for word in encode_one(instruction)]


def encode_one(instruction: Instruction) -> tuple[int, ...]:
    """The words of one instruction; a number that does not fit is a TargetError."""
    match instruction:
        case Write(page, register, value, lsb, msb):
            head = _head(_WRITE, page, register) | _bits(lsb, msb)
            return head, _fits(value, 32, "value")
        case WriteField(page, register, bit, value):
            place = _fits(page, 6, "page") << 26 | _fits(register, 5, "register") << 21
            return (
                place | _fits(value, 8, "value") << 13 | _fits(bit, 5, "bit") << 5 | _WRITE_FIELD,
            )
        case Burst(page, register, values, increment):
            operation = _BURST_INCREMENT if increment else _BURST
            head = _head(operation, page, register) | _fits(len(values), 11, "burst length") << 5
            return head, *(_fits(value, 32, "value") for value in values)
        case Poll(page, register, lsb, msb, value, interval):
            head = _head(_POLL, page, register) | _bits(lsb, msb)
            return head, _fits(interval, 32, "interval"), _fits(value, 32, "value")
        case Irq(number):
            return (_fits(number, _NUMBER_BITS, "irq number") << 5 | _IRQ,)
        case Label(number):
            return (_fits(number, _NUMBER_BITS, "label") << 5 | _LABEL,)


def _head(operation: int, page: int, register: int) -> int:
    return _fits(page, 6, "page") << 26 | _fits(register, 10, "register") << 16 | operation


def _bits(lsb: int, msb: int) -> int:
    return _fits(msb, 5, "bit") << 10 | _fits(lsb, 5, "bit") << 5


def _fits(value: int, width: int, what: str) -> int:
    if not 0 <= value < 1 << width:
        raise TargetError(f"{what} {value} does not fit the {width} bits of the instruction")
    return value
