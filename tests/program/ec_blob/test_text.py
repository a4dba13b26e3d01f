"""Disassembly and assembly: exact text, and the same bytes again."""

from __future__ import annotations

import pytest

from compiler.nets import compiled, random_network
from npuscope.errors import FileError
from npuscope.program.ec_blob.assembly import assemble, disassemble
from npuscope.program.ec_blob.binary import EcBinary, Patch, Relocation
from npuscope.program.ec_blob.instructions import (
    Burst,
    Irq,
    Label,
    Poll,
    Write,
    WriteField,
)
from npuscope.program.ec_blob.lower import lower
from program.ec_blob.lifted import blob_indices
from program.ec_blob.test_instructions import made

SMALL = EcBinary(
    (
        Label(3),
        WriteField(0, 4, 10, 1),
        Write(15, 0, 0x34),
        Burst(15, 2, (0x8030303, 0x2211), True),
        Burst(24, 256, tuple(range(9)), True),
        Burst(23, 0, (0x8000000, 0x9000060), False),
        Write(4, 8, 0x27, lsb=0, msb=15),
        Poll(11, 0, 31, 31, 0, 100),
        Write(63, 999, 1),
        Irq(0),
    )
)
TEXT = """\
; epoch-controller blob: 28 words, 1 epoch

label 3                                  ; epoch 3, word 2
writefield CLKCTRL.BGATES[10] 1          ; CONVACC0
write CONVACC0.CTRL 0x34                 ; NOSUM=1 NO1SUM=1 SIMD=1
burstwriteinc CONVACC0.KFORMAT
  0x8030303                              ; KFORMAT BTCDEPTH=3 NR=8
  0x2211                                 ; SAMPLE LPAD=1 TPAD=1 HSTRD=2 VSTRD=2
burstwriteinc ARITH1.@256
  0x0 0x1 0x2 0x3 0x4 0x5 0x6 0x7
  0x8
burstwrite ARITH0.CTRL
  0x8000000                              ; CTRL
  0x9000060                              ; CTRL ROUND=1 SAT=1 ORNDMODE=1
write STRSWITCH.DSTSTRENG6[15:0] 0x27
poll STRENG6.CTRL[31] 0x0 100            ; RUNNING
write PAGE63.@999 0x1
irq 0
"""


def test_text() -> None:
    assert disassemble(SMALL) == TEXT
    assert assemble(TEXT) == SMALL


@pytest.mark.parametrize("seed", range(20))
def test_any_instructions_come_back(seed: int) -> None:
    binary = EcBinary(tuple(made(seed)))
    assert assemble(disassemble(binary)) == binary


@pytest.mark.parametrize("seed", range(4))
def test_compiled_blobs_come_back(seed: int) -> None:
    program = compiled(random_network(seed))
    for index in blob_indices(program):
        binary = EcBinary(lower(program, index))
        assert assemble(disassemble(binary)) == binary


def test_a_container_comes_back() -> None:
    binary = EcBinary(
        (Label(1), Write(5, 2, 7), Irq(0)),
        0xECBF0050,
        (Relocation('a "name"; \\ \xe9\n', (2,)), Relocation("", ())),
        (Patch("p", 0xFF00, (0, 2), -3),),
        bytes(range(70)),
    )
    text = disassemble(binary)
    assert text.isascii()
    assert assemble(text) == binary


def test_values_may_stand_behind_a_burst_and_numbers_may_be_decimal() -> None:
    found = assemble("burstwrite STRENG1.ADDR 1 0x2\n 3 ; three\nlabel 0x10\n")
    assert found.instructions == (Burst(6, 2, (1, 2, 3), False), Label(16))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("jump 3", "unknown instruction 'jump'"),
        ("write STRENG0.ADDR", "write takes 2 operands, found 1"),
        ("write STRENG10.ADDR 1", "expected UNIT.REGISTER, found 'STRENG10.ADDR'"),
        ("write STRENG0.KFORMAT 1", "STRENG0 has no register 'KFORMAT'"),
        ("write STRENG0.@1024 1", "STRENG0 has no register '@1024'"),
        ("write STRENG0.ADDR five", "expected a number, found 'five'"),
        ("write STRENG0.ADDR 4294967296", "value 4294967296 does not fit the 32 bits"),
        ("write STRENG0.ADDR -1", "value -1 does not fit the 32 bits"),
        ("writefield STRENG0.CTRL 1", "writefield takes one bit"),
        ("writefield STRENG0.@99[1] 1", "register 99 does not fit the 5 bits"),
        ("poll STRENG0.CTRL[40] 0 1", "bit 40 does not fit the 5 bits"),
        ("burstwrite", "burstwrite takes 1 operands, found 0"),
        ("0x5", "numbers belong after a burstwrite"),
        (".relocate name 1", "expected a name in quotes"),
        ('.patch "x" 1', "expected a shift and a mask after the name"),
        (".debug xyz", "expected pairs of hexadecimal digits after .debug"),
        (".container", "expected a number, found ''"),
        (".who", "unknown directive '.who'"),
        ("label \x1b[31m", "expected a number, found '\\x1b[31m'"),
    ],
)
def test_a_wrong_line_is_named(line: str, message: str) -> None:
    with pytest.raises(FileError) as caught:
        assemble(f"; a comment\n{line}\nirq 0\n")
    assert message in caught.value.message
    assert caught.value.where == "line 2"


def test_a_burst_has_an_end() -> None:
    with pytest.raises(FileError, match="at most 2047 values"):
        assemble("burstwrite STRENG0.ADDR\n" + "1 2 3 4\n" * 512)
