"""Words to instructions and back, whatever the words are."""

from __future__ import annotations

import random

import pytest

from npuscope.errors import FileError, TargetError
from npuscope.program.ec_blob.instructions import (
    Burst,
    Instruction,
    Irq,
    Label,
    Poll,
    Write,
    WriteField,
    decode,
    encode,
    encode_one,
)

# Heads worked out by hand from the table in docs/formats/ec_blob.md.
ENCODED: list[tuple[Instruction, tuple[int, ...]]] = [
    (Write(15, 0, 0x34), (0x3C007C00, 0x34)),
    (Write(4, 9, 5, lsb=1, msb=5), (0x10091420, 5)),
    (WriteField(0, 4, 10, 1), (0x00802141,)),
    (Burst(23, 0, (1, 2), False), (0x5C000042, 1, 2)),
    (Burst(5, 2, (7, 8, 9), True), (0x14020063, 7, 8, 9)),
    (Poll(11, 0, 31, 31, 0, 100), (0x2C007FE4, 100, 0)),
    (Irq(0), (12,)),
    (Label(3), (0x7D,)),
]


@pytest.mark.parametrize(("instruction", "words"), ENCODED)
def test_encoding(instruction: Instruction, words: tuple[int, ...]) -> None:
    assert encode_one(instruction) == words
    assert decode(words) == (instruction,)
    assert instruction.words == len(words)


def made(seed: int) -> list[Instruction]:
    pick = random.Random(seed).randrange
    makers = (
        lambda: Write(pick(64), pick(1024), pick(1 << 32), pick(32), pick(32)),
        lambda: WriteField(pick(64), pick(32), pick(32), pick(256)),
        lambda: Burst(pick(64), pick(1024), tuple(map(pick, [1 << 32] * pick(9))), bool(pick(2))),
        lambda: Poll(pick(64), pick(1024), pick(32), pick(32), pick(1 << 32), pick(1 << 32)),
        lambda: Irq(pick(1 << 27)),
        lambda: Label(pick(1 << 27)),
    )
    return [makers[pick(len(makers))]() for _ in range(40)]


@pytest.mark.parametrize("seed", range(20))
def test_round_trip(seed: int) -> None:
    instructions = made(seed)
    assert decode(encode(instructions)) == tuple(instructions)


@pytest.mark.parametrize(
    ("words", "message", "where"),
    [
        ([0x7D, 7], "unknown operation 7", "word 3"),
        ([0x7D, 0x3C007C00], "the code ends inside an instruction", "word 3"),
        ([0x2C007FE4, 100], "the code ends inside an instruction", "word 2"),
        ([0x14020063, 1, 2], "the code ends inside an instruction", "word 2"),
        ([0x3C00FC00, 0], "unknown bits in the head 0x3c00fc00", "word 2"),
        ([0x00802541], "unknown bits in the head 0x00802541", "word 2"),
    ],
)
def test_damage_is_named_by_its_word(words: list[int], message: str, where: str) -> None:
    with pytest.raises(FileError) as caught:
        decode(words, 2)
    assert (caught.value.message, caught.value.where) == (message, where)


@pytest.mark.parametrize("seed", range(200))
def test_noise_is_decoded_exactly_or_refused(seed: int) -> None:
    source = random.Random(seed)
    words = [source.getrandbits(32) & ~0x1F | source.choice((0, 1, 2, 3, 4, 12, 29)) for _ in "abc"]
    try:
        found = decode(words)
    except FileError as error:
        assert error.where.startswith("word ")
    else:
        assert encode(found) == words


@pytest.mark.parametrize(
    "instruction",
    [
        Write(64, 0, 0),
        Write(0, 1024, 0),
        Write(0, 0, 1 << 32),
        Write(0, 0, -1),
        WriteField(0, 32, 0, 1),
        Burst(0, 0, (0,) * 2048, True),
        Label(1 << 27),
    ],
)
def test_what_has_no_room_is_refused(instruction: Instruction) -> None:
    with pytest.raises(TargetError, match="does not fit the"):
        encode_one(instruction)
