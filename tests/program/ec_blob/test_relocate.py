from __future__ import annotations

import pytest

from npuscope.errors import TargetError
from npuscope.program.ec_blob.binary import EcBinary, Relocation, relocated
from npuscope.program.ec_blob.instructions import Burst, Irq, Label, Write

CODE = (Label(1), Write(5, 2, 0x100), Burst(6, 2, (0xFFFFFFF0, 7), True), Irq(0))
BINARY = EcBinary(CODE, 0xECBF0050, (Relocation("in", (2,)), Relocation("out", (4,))))


def test_a_base_is_added_to_the_words_of_its_name() -> None:
    found = relocated(BINARY, {"in": 0x34000000})
    assert found.instructions == (Label(1), Write(5, 2, 0x34000100), *CODE[2:])
    assert found.relocations == BINARY.relocations


def test_addresses_wrap_as_a_loader_adds_them() -> None:
    found = relocated(BINARY, {"out": 0x20})
    assert found.instructions[2] == Burst(6, 2, (0x10, 7), True)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(TargetError, match="no relocation 'weights'") as caught:
        relocated(BINARY, {"weights": 1})
    assert caught.value.hint == "the blob has: in, out"
