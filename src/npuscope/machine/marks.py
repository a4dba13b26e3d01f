"""What changing a key of the machine asks for: every settable field of the records says it."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, TypeVar

T = TypeVar("T")


class Effect(Enum):
    """A key that the compiler and the simulator both read counts as mapping."""

    TIMING = "timing"  # a compiled Program stays as it is and is timed anew
    MAPPING = "mapping"  # the compiler reads it: another value asks for another Program


Timed = Annotated[T, Effect.TIMING]
Mapped = Annotated[T, Effect.MAPPING]
