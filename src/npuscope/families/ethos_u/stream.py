"""A command stream: the driver's actions, the words of the NPU, and commands; there and back.

Bytes begin with "COP1". An action is a word with its code in bits 0 to 7 and a parameter above;
the configuration says which machine the stream is for, and so which encoding its commands have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

import numpy as np
from msgspec import Struct

from npuscope.errors import FileError
from npuscope.families.ethos_u.commands import (
    CODE_BITS,
    PARAMETER_BITS,
    U55,
    U85,
    WORD_BITS,
    CommandForm,
    Encoding,
)

MAGIC = b"COP1"
_MAGIC_WORD = int.from_bytes(MAGIC, "little")
_CONTROL_BIT, _RESERVED = 14, 0xBC00  # bits 10 to 13 and 15 of a command are zero
_CODE_MASK = (1 << CODE_BITS) - 1
_PRODUCT_BIT = 28
_STREAM_ALIGNMENT = 4  # words; the driver wants the first command at a multiple of 16 bytes


class ActionCode(IntEnum):
    RESERVED = 0
    CONFIGURATION = 1
    COMMANDS = 2
    READ_REGISTERS = 3
    DUMP_SHRAM = 4
    PADDING = 5


class Action(Struct, frozen=True):
    """One action of the driver, with the words that follow it."""

    code: int
    parameter: int = 0  # 24 bits
    words: tuple[int, ...] = ()


class NpuProduct(IntEnum):
    U55 = 0
    U65 = 1
    U85 = 2


class NpuConfiguration(Struct, frozen=True):
    """What a stream was compiled for, as the NPU's own registers CONFIG and ID state it."""

    config: int
    identity: int

    @property
    def product(self) -> NpuProduct | None:
        number = self.config >> _PRODUCT_BIT
        return NpuProduct(number) if number in NpuProduct.__members__.values() else None

    @property
    def macs_per_cycle(self) -> int:
        return 1 << (self.config & 0xF)

    @property
    def machine(self) -> str:
        name = self.product.name.lower() if self.product is not None else "u?"
        return f"ethos-{name}-{self.macs_per_cycle}"

    @property
    def encoding(self) -> Encoding:
        return U85 if self.product is NpuProduct.U85 else U55

    @property
    def architecture(self) -> str:
        """Version of the architecture: major.minor.patch."""
        return f"{self.identity >> 28}.{self.identity >> 20 & 0xFF}.{self.identity >> 16 & 0xF}"


class NpuCommand(Struct, frozen=True):
    """`form` is None for a code that the encoding does not have. The payload holds the parameter
    in bits 0 to 15 and the second word above."""

    code: int
    words: int
    payload: int
    form: CommandForm | None

    @property
    def name(self) -> str:
        return self.form.name if self.form else f"UNKNOWN_{self.words}_{self.code}"

    def get(self, field: str) -> int:
        fields = self.form.fields if self.form else ()
        return next((one.get(self.payload) for one in fields if one.name == field), 0)


class CommandStream(Struct, frozen=True):
    actions: tuple[Action, ...]

    @property
    def configuration(self) -> NpuConfiguration | None:
        for action in self.actions:
            if action.code == ActionCode.CONFIGURATION:
                return NpuConfiguration(*action.words)
        return None

    @property
    def encoding(self) -> Encoding:
        return self.configuration.encoding if self.configuration else U55

    @property
    def words(self) -> tuple[int, ...]:
        """Words of all its commands."""
        parts = (one.words for one in self.actions if one.code == ActionCode.COMMANDS)
        return tuple(word for part in parts for word in part)

    def commands(self) -> tuple[NpuCommand, ...]:
        return decode_words(self.words, self.encoding)


# --- Bytes and actions ---


def read_stream(data: bytes) -> CommandStream:
    if data[:4] != MAGIC:
        raise FileError("a command stream begins with COP1", where="byte 0")
    if len(data) % 4:
        raise FileError(f"{len(data)} bytes are no whole number of words", where="command stream")
    words = np.frombuffer(data, "<u4").tolist()
    actions, place = [], 1
    while place < len(words):
        word = words[place]
        code, count = word & 0xFF, 0
        if code == ActionCode.CONFIGURATION:
            count = 2
        elif code == ActionCode.COMMANDS:
            count = word >> 16 | (word >> 8 & 0xFF) << 16
        elif code not in ActionCode.__members__.values():
            raise FileError(f"the driver has no action {code}", where=f"byte {4 * place}")
        if place + count >= len(words):
            raise FileError(
                f"an action of {count} words reaches beyond the end of the stream",
                where=f"byte {4 * place}",
            )
        actions.append(Action(code, word >> 8, tuple(words[place + 1 : place + 1 + count])))
        place += 1 + count
    if not any(action.code == ActionCode.COMMANDS for action in actions):
        raise FileError("the stream has no commands", where=f"byte {4 * place}")
    return CommandStream(tuple(actions))


def stream_bytes(stream: CommandStream) -> bytes:
    words = [_MAGIC_WORD]
    for action in stream.actions:
        words += [action.code | action.parameter << 8, *action.words]
    return np.array(words, "<u4").tobytes()


def build_stream(configuration: NpuConfiguration, words: Sequence[int]) -> CommandStream:
    """A stream as the driver wants it: configuration, padding, commands."""
    config = Action(
        ActionCode.CONFIGURATION, 1 << 12, (configuration.config, configuration.identity)
    )
    before = 1 + 3 + 1  # magic, configuration, and the word that begins the commands
    padding = (Action(ActionCode.PADDING),) * (-before % _STREAM_ALIGNMENT)
    parameter = (len(words) & 0xFFFF) << 8 | len(words) >> 16
    return CommandStream((config, *padding, Action(ActionCode.COMMANDS, parameter, tuple(words))))


# --- Words and commands ---


def decode_words(words: Sequence[int], encoding: Encoding) -> tuple[NpuCommand, ...]:
    forms = encoding.by_code()
    commands, place = [], 0
    while place < len(words):
        word = words[place]
        size = 1 + (word >> _CONTROL_BIT & 1)
        if word & _RESERVED or place + size > len(words):
            raise FileError(f"0x{word:08x} is not a command", where=f"word {place} of the stream")
        code, payload = word & _CODE_MASK, word >> PARAMETER_BITS
        if size == 2:
            payload |= words[place + 1] << PARAMETER_BITS
        commands.append(NpuCommand(code, size, payload, forms.get((size, code))))
        place += size
    return tuple(commands)


def encode_commands(commands: Iterable[NpuCommand]) -> tuple[int, ...]:
    words: list[int] = []
    for command in commands:
        control = command.words - 1 << _CONTROL_BIT
        parameter = command.payload & (1 << PARAMETER_BITS) - 1
        words.append(command.code | control | parameter << PARAMETER_BITS)
        if command.words == 2:
            words.append(command.payload >> PARAMETER_BITS & (1 << WORD_BITS) - 1)
    return tuple(words)


def command(encoding: Encoding, name: str, **fields: int) -> NpuCommand:
    """A command by its name and fields; absent fields are zero."""
    form = encoding.by_name()[name]
    payload = 0
    for field in form.fields:
        value = fields.pop(field.name, 0)
        least = -(1 << field.width - 1) if field.signed else 0
        if not least <= value < 1 << field.width:
            raise FileError(f"{field.name} of {name} has {field.width} bits, not {value}")
        payload |= (value & (1 << field.width) - 1) << field.low
    if fields:
        raise FileError(f"{name} has no field '{next(iter(fields))}'")
    return NpuCommand(form.code, form.words, payload, form)
