"""Calls that carry their copies."""

from __future__ import annotations

import pytest

from npuscope.errors import TargetError
from npuscope.program.addresses import Copy, as_arguments, copies_of
from npuscope.program.model import Call

COPY = Copy(1, 4, 8, 2, (2, 3), (6, 2), (2, 4))


def test_there_and_back() -> None:
    call = Call("Concat", ("a", "b"), ("c",), (("axis", 3), *as_arguments([COPY, COPY])))
    assert copies_of(call) == (COPY, COPY)
    assert COPY.elements == 6
    assert copies_of(Call("Softmax", ("a",), ("b",))) == ()


@pytest.mark.parametrize(
    "numbers",
    [
        (),
        (0, 0, 0, 1, 9),
        (*COPY.numbers(), 1),
        (5, *COPY.numbers()[1:]),
        (*COPY.numbers()[:3], 3, *COPY.numbers()[4:]),
        (-1, *COPY.numbers()[1:]),
    ],
)
def test_nonsense_is_refused(numbers: tuple[int, ...]) -> None:
    with pytest.raises(TargetError, match="has an invalid copy argument"):
        copies_of(Call("Concat", ("a", "b"), ("c",), (("copy0", numbers),)))
