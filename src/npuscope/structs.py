"""What our records add to Structs of msgspec: `replace` with types, and fields that stay apart."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct

if TYPE_CHECKING:  # type checkers know the fields of records only in the standard one
    from dataclasses import replace as replace
else:
    from msgspec.structs import replace as replace


class Apart(Struct, frozen=True):
    """A record some of whose fields, which `apart` names, take no part in equality, text and
    files: arrays, and what the record came from."""

    apart: ClassVar[tuple[str, ...]] = ()

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        compared = _compared(self.__class__)
        equal: bool = compared(self) == compared(other)
        return equal

    def __hash__(self) -> int:
        return hash(_compared(self.__class__)(self))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in kept(self.__class__))
        return f"{self.__class__.__name__}({values})"


def kept(kind: type[Struct]) -> tuple[str, ...]:
    """The fields of a record that do not stay apart."""
    apart = kind.apart if issubclass(kind, Apart) else ()
    return tuple(name for name in kind.__struct_fields__ if name not in apart)


@cache
def _compared(kind: type[Apart]) -> Callable[[Any], Any]:
    return attrgetter(*kept(kind))
