"""Instructions of the epoch controller: words to values and back, bit for bit.

A head word has the operation in bits 4..0 and a page in bits 31..26. The register index sits in
bits 25..16, for WriteField in 25..21. Bits without a meaning must be zero, so nothing is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from npuscope.errors import FileError, TargetError
from npuscope.lean_dataclass import dataclass

MAGIC = 0xCA057A7A
HEADER_WORDS = 2  # magic, number of words that follow
MAX_BURST = 0x7FF


@dataclass(frozen=True, slots=True)
class Write:
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


@dataclass(frozen=True, slots=True)
class WriteField:
    """Set one bit of one of a page's first 32 registers."""

    name: ClassVar[str] = "writefield"
    page: int
    register: int
    bit: int
    value: int

    @property
    def words(self) -> int:
        return 1


@dataclass(frozen=True, slots=True)
class Burst:
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


@dataclass(frozen=True, slots=True)
class Poll:
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


@dataclass(frozen=True, slots=True)
class Irq:
    """Raise the controller's interrupt: the end of a blob."""

    name: ClassVar[str] = "irq"
    number: int

    @property
    def words(self) -> int:
        return 1


@dataclass(frozen=True, slots=True)
class Label:
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
    found: list[Instruction] = []
    at = 0
    while at < len(words):
        reader = _READERS.get(words[at] & 0x1F)
        if reader is None:
            raise _damaged(f"unknown operation {words[at] & 0x1F}", first_word + at)
        try:
            instruction = reader(words[at], words, at + 1)
        except IndexError:
            raise _damaged("the code ends inside an instruction", first_word + at) from None
        if encode_one(instruction)[0] != words[at]:
            raise _damaged(f"unknown bits in the head {words[at]:#010x}", first_word + at)
        found.append(instruction)
        at += instruction.words
    return tuple(found)


def _damaged(message: str, word: int) -> FileError:
    return FileError(message, where=f"word {word}", hint="the blob is damaged or of a newer kind")


def _page(head: int) -> int:
    return head >> 26


def _register(head: int) -> int:
    return head >> 16 & 0x3FF


def _read_write(head: int, words: Sequence[int], at: int) -> Instruction:
    return Write(_page(head), _register(head), words[at], head >> 5 & 0x1F, head >> 10 & 0x1F)


def _read_field(head: int, words: Sequence[int], at: int) -> Instruction:
    return WriteField(_page(head), head >> 21 & 0x1F, head >> 5 & 0x1F, head >> 13 & 0xFF)


def _read_burst(head: int, words: Sequence[int], at: int) -> Instruction:
    count = head >> 5 & MAX_BURST
    if at + count > len(words):
        raise IndexError
    increment = head & 0x1F == _BURST_INCREMENT
    return Burst(_page(head), _register(head), tuple(words[at : at + count]), increment)


def _read_poll(head: int, words: Sequence[int], at: int) -> Instruction:
    lsb, msb = head >> 5 & 0x1F, head >> 10 & 0x1F
    return Poll(_page(head), _register(head), lsb, msb, words[at + 1], words[at])


def _read_irq(head: int, words: Sequence[int], at: int) -> Instruction:
    return Irq(head >> 5)


def _read_label(head: int, words: Sequence[int], at: int) -> Instruction:
    return Label(head >> 5)


_READERS: dict[int, Callable[[int, Sequence[int], int], Instruction]] = {
    _WRITE: _read_write,
    _WRITE_FIELD: _read_field,
    _BURST: _read_burst,
    _BURST_INCREMENT: _read_burst,
    _POLL: _read_poll,
    _IRQ: _read_irq,
    _LABEL: _read_label,
}


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
