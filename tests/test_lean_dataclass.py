"""Our `dataclass` and `replace` against the standard library's, on the same classes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar, Generic, TypeVar

import orjson
import pytest

from npuscope import lean_dataclass

Made = dict[str, Any]


def classes(library: Any) -> Made:
    """The same classes by either library."""
    dataclass = library.dataclass

    @dataclass(frozen=True, slots=True)
    class Small:
        """Two fields."""

        a: int
        b: str = "b"
        KIND: ClassVar[str] = "small"

    @dataclass(frozen=True, slots=True)
    class Large(Small):
        c: float = 0.5
        d: tuple[int, ...] = ()
        e: list[int] = field(default_factory=list, compare=False)
        f: str = field(default="hidden", repr=False)
        g: int = field(default=7, kw_only=True)
        h: int = field(init=False, default=8)

        @property
        def twice(self) -> int:
            return 2 * self.a

    @dataclass(frozen=True, slots=True)
    class Wide:
        a: int
        b: int
        c: int
        d: int
        e: int
        f: int = 6
        g: int = 7

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Named:
        a: int
        b: int = 2

    @dataclass(slots=True)
    class Open:
        a: int
        b: list[int] = field(default_factory=list)

    @dataclass(frozen=True, slots=True, eq=False)
    class Alone:
        a: int

    @dataclass(frozen=True, slots=True, repr=False)
    class Told:
        a: int

        def __repr__(self) -> str:
            return "told"

    @dataclass(frozen=True)
    class Unslotted:
        a: int
        b: int = 1

    @dataclass
    class After:
        a: int

        def __post_init__(self) -> None:
            self.a += 1

    @dataclass(frozen=True, slots=True)
    class Empty:
        pass

    @dataclass(order=True)
    class Ordered:
        a: int

    made = (Small, Large, Wide, Named, Open, Alone, Told, Unslotted, After, Empty, Ordered)
    return {kind.__name__: kind for kind in made}


OURS, THEIRS = classes(lean_dataclass), classes(dataclasses)

# Each makes a value of the classes; what it shows has to be the same on both sides.
RECORDS: dict[str, Callable[[Made], Any]] = {
    "small": lambda made: made["Small"](1),
    "named arguments": lambda made: made["Small"](b="x", a=2),
    "large": lambda made: made["Large"](1, "x", 2.5, (3,), [4], "no", g=5),
    "large by defaults": lambda made: made["Large"](1),
    "wide": lambda made: made["Wide"](1, 2, 3, 4, 5),
    "wide, all": lambda made: made["Wide"](*range(7)),
    "keywords only": lambda made: made["Named"](a=1),
    "open": lambda made: made["Open"](1),
    "own text": lambda made: made["Told"](1),
    "without slots": lambda made: made["Unslotted"](1),
    "after": lambda made: made["After"](1),
    "empty": lambda made: made["Empty"](),
    "ordered": lambda made: made["Ordered"](1),
}
WRONG: dict[str, Callable[[Made], Any]] = {
    "missing": lambda made: made["Small"](),
    "too many": lambda made: made["Small"](1, 2, 3),
    "unknown": lambda made: made["Wide"](1, 2, 3, 4, 5, z=1),
    "positional": lambda made: made["Named"](1),
    "not for init": lambda made: made["Large"](1, h=3),
}


@pytest.mark.parametrize("name", RECORDS)
def test_records_are_alike(name: str) -> None:
    ours, theirs = (RECORDS[name](made) for made in (OURS, THEIRS))
    assert repr(ours) == repr(theirs)
    assert dataclasses.asdict(ours) == dataclasses.asdict(theirs)
    assert dataclasses.astuple(ours) == dataclasses.astuple(theirs)
    assert [_told(f) for f in dataclasses.fields(ours)] == [
        _told(f) for f in dataclasses.fields(theirs)
    ]
    assert ours == RECORDS[name](OURS)
    assert ours != theirs
    assert type(ours).__match_args__ == type(theirs).__match_args__
    assert orjson.dumps(ours) == orjson.dumps(theirs)
    assert copy.copy(ours) == ours == copy.deepcopy(ours)
    assert _hash(ours) == _hash(theirs)
    assert hasattr(ours, "__dict__") == hasattr(theirs, "__dict__")
    assert getattr(ours, "__slots__", None) == getattr(theirs, "__slots__", None)
    parameters = [
        [(p.name, p.kind, p.default is p.empty, p.annotation) for p in _signature(record)]
        for record in (ours, theirs)
    ]
    assert parameters[0] == parameters[1]


def _told(one: dataclasses.Field[Any]) -> tuple[object, ...]:
    return (one.name, one.type, one.default, one.init, one.repr, one.compare, one.kw_only)


def _hash(record: object) -> int | str:
    try:
        return hash(record)
    except TypeError:
        return "unhashable"


def _signature(record: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(type(record)).parameters.values())


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_refused_alike(name: str) -> None:
    told = []
    for made in (OURS, THEIRS):
        with pytest.raises(TypeError) as caught:
            WRONG[name](made)
        told.append(str(caught.value))
    assert told[0] == told[1]


@pytest.mark.parametrize("name", ["small", "large", "wide", "without slots", "empty"])
def test_frozen_records_stay(name: str) -> None:
    record = RECORDS[name](OURS)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'a'"):
        record.a = 5
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'a'"):
        del record.a
    assert record == RECORDS[name](OURS)


def test_records_without_equality_are_themselves() -> None:
    one, other = OURS["Alone"](1), OURS["Alone"](1)
    assert one == one
    assert one != other
    assert len({one, other}) == 2


def test_classes_that_derive_without_the_decorator() -> None:
    class Derived(OURS["Wide"]):  # type: ignore[misc]
        def total(self) -> int:
            return int(self.a + self.g)

    record = Derived(1, 2, 3, 4, 5)
    record.note = "kept"
    assert (record.total(), record.note) == (8, "kept")
    assert type(lean_dataclass.replace(record, a=2)) is Derived
    with pytest.raises(FrozenInstanceError):
        record.a = 3


@pytest.mark.parametrize("name", RECORDS)
def test_replacing_is_alike(name: str) -> None:
    ours, theirs = (RECORDS[name](made) for made in (OURS, THEIRS))
    assert repr(lean_dataclass.replace(ours)) == repr(dataclasses.replace(theirs))
    if name != "empty":
        changed = lean_dataclass.replace(ours, a=41)
        assert repr(changed) == repr(dataclasses.replace(theirs, a=41))
        assert type(changed) is type(ours)
        assert ours == RECORDS[name](OURS)
    for wrong in ("nothing", "twice"):
        with pytest.raises(TypeError, match=wrong):
            lean_dataclass.replace(ours, **{wrong: 1})


T = TypeVar("T")


@lean_dataclass.dataclass(frozen=True, slots=True)
class Filled(Generic[T]):
    a: T
    b: int = 2
    c: int = 3
    d: int = 4
    e: int = 5
    f: int = 6


def test_generic_records() -> None:
    record = Filled[str]("a")
    assert repr(record) == "Filled(a='a', b=2, c=3, d=4, e=5, f=6)"
    assert lean_dataclass.replace(record, b=9) == Filled("a", 9)
    with pytest.raises(FrozenInstanceError):
        record.b = 3  # type: ignore[misc]


def test_standard_records_are_replaced_too() -> None:
    changed = lean_dataclass.replace(THEIRS["Wide"](*range(7)), b=9)
    assert changed == THEIRS["Wide"](0, 9, 2, 3, 4, 5, 6)


def test_mutable_defaults_are_refused() -> None:
    with pytest.raises(ValueError, match="mutable default"):

        @lean_dataclass.dataclass
        class Wrong:
            a: list[int] = []  # noqa: RUF012


def test_own_hash_and_equality_are_kept() -> None:
    @lean_dataclass.dataclass(frozen=True, slots=True)
    class Own:
        a: int

        def __hash__(self) -> int:
            return 3

        def __eq__(self, other: object) -> bool:
            return True

    assert hash(Own(1)) == 3
    assert Own(1) == Own(2)


@lean_dataclass.dataclass(frozen=True, slots=True)
class Pickled:
    a: int
    b: str = "b"


def test_pickles() -> None:
    assert pickle.loads(pickle.dumps(Pickled(3))) == Pickled(3)


def test_a_record_that_holds_itself_has_a_text() -> None:
    record = OURS["Open"](1)
    record.b.append(record)
    assert repr(record).endswith(".Open(a=1, b=[...])")


T = TypeVar("T")


@lean_dataclass.dataclass(frozen=True, slots=True)
class Boxed(Generic[T]):
    """Enough fields for a twin, which a plain Generic cannot have."""

    a: T
    b: int = 1
    c: int = 2
    d: int = 3
    e: int = 4
    f: int = 5


def test_a_generic_record_of_many_fields() -> None:
    assert Boxed[int](7) == Boxed(7, 1, 2)
    assert Boxed("x").a == "x"
    with pytest.raises(FrozenInstanceError):
        Boxed(7).a = 8  # type: ignore[misc]
