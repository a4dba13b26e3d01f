"""Plain data as records: round trips, strict and foreign reading, and errors that name the path."""

from __future__ import annotations

import math
from enum import Enum
from typing import Annotated, Any, ClassVar

import pytest
from msgspec import Struct, field

from npuscope.errors import FileError
from npuscope.plain_data import Range
from npuscope.records import FOREIGN, JSON, TOML, OneOrMore, Style, decode, encode
from npuscope.structs import Apart


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Engine(Struct, frozen=True):
    unit: ClassVar[str] = "ENGINE"
    id: int
    rate: float = 1.0


class Filter(Struct, frozen=True):
    unit: ClassVar[str] = "FILTER"
    taps: tuple[int, int, int] = (1, 2, 1)


class House(Apart, frozen=True):
    apart = ("cached",)

    name: str
    colour: Colour = Colour.RED
    rooms: Annotated[int, Range(1, 99)] = 1
    units: tuple[Engine | Filter, ...] = ()
    args: tuple[bool | int | float | str | tuple[int, ...], ...] = ()
    sizes: dict[str, float] = field(default_factory=dict)
    owner: str | None = None
    class_: str = ""
    cached: int = 0


class Visitor(Struct, frozen=True):
    name: str
    age: Annotated[float, Range(0, math.inf)] | None = None
    friends: tuple[Visitor, ...] | None = None
    class_: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)


class Choices(Struct, frozen=True):
    names: OneOrMore[str] = ()
    speed: int | float | None = None


HOUSE = House(
    "h", Colour.BLUE, 3, (Engine(1, math.inf), Filter((1, 1, 2))), (True, 1.5, "x", ((1, 2),)),
    {"a b": 2.0}, "me", "stone", cached=7,
)  # fmt: skip


def test_what_is_written_reads_the_same() -> None:
    found = encode(HOUSE)
    assert found == {
        "name": "h",
        "colour": "blue",
        "rooms": 3,
        "units": [
            {"unit": "ENGINE", "id": 1, "rate": {"float": "inf"}},
            {"unit": "FILTER", "taps": [1, 1, 2]},
        ],
        "args": [True, 1.5, "x", [[1, 2]]],
        "sizes": {"a b": 2.0},
        "owner": "me",
        "class": "stone",
    }
    assert decode(found, House) == HOUSE


def test_defaults_are_left_out_unless_the_whole_is_asked_for() -> None:
    assert encode(House("h")) == {"name": "h"}
    whole = encode(House("h", units=(Engine(1),)), whole=True)
    assert whole["units"] == [{"unit": "ENGINE", "id": 1, "rate": 1.0}]
    assert (whole["owner"], whole["rooms"], "cached" in whole) == (None, 1, False)


WRONG: list[tuple[Any, str, str, str]] = [
    ([], "$", "expected an object, found a list", ""),
    ({}, "$.name", "this key is missing", ""),
    ({"name": "h", "room": 1}, "$.room", "unknown key", "did you mean rooms?"),
    ({"name": "h", "a\nb": 1}, "$.'a\\nb'", "unknown key", "known: name, colour, "),
    ({"name": True}, "$.name", "expected text, found true", ""),
    ({"name": "h", "rooms": True}, "$.rooms", "expected a whole number, found true", ""),
    ({"name": "h", "rooms": 0}, "$.rooms", "must be above 0, found 0", ""),
    ({"name": "h", "colour": "gr"}, "$.colour", "expected one of red, blue, found 'gr'", ""),
    ({"name": "h", "units": [{}]}, "$.units[0]", "expected 'unit' to be one of ENGINE, FI", ""),
    ({"name": "h", "units": [{"unit": "ENGINE", "id": 1}, 3]}, "$.units[1]", "expected an ob", ""),
    ({"name": "h", "sizes": {"a b": "9" * 99}}, "$.sizes.'a b'", "expected a number, found '9", ""),
    ({"name": "h", "sizes": {"a": 10**400}}, "$.sizes.a", "1000000000", ""),
    ({"name": "h", "args": [1, [[[1]]]]}, "$.args[1][0][0]", "expected a number or text, fo", ""),
    ({"name": "h", "units": [{"unit": "FILTER", "taps": [1]}]}, "$.units[0].taps", "expected ", ""),
]  # fmt: skip


@pytest.mark.parametrize(("value", "where", "message", "hint"), WRONG)
def test_what_is_wrong_is_named(value: Any, where: str, message: str, hint: str) -> None:
    with pytest.raises(FileError) as caught:
        decode(value, House)
    assert caught.value.where == where
    assert caught.value.message.startswith(message)
    assert caught.value.hint.startswith(hint) and bool(caught.value.hint) == bool(hint)


def test_a_foreign_file_comes_back_as_it_was() -> None:
    told = {"name": "v", "age": 3, "class": "x", "friends": [{"name": "w", "age": 1.0}], "new": [1]}
    found = decode({**told, "odd": None}, Visitor, style=FOREIGN)
    assert found.extra == {"new": [1], "odd": None}
    assert type(found.age) is int
    assert encode(found) == {**told, "odd": None}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"name": None}, "$.name: this key is missing"),
        ({"name": "v", "age": -1}, "$.age: must not be negative, found -1"),
        ({"name": "v", "age": math.nan}, "$.age: nan is not a finite number"),
        ({"name": "v", "age": 1 << 64}, "$.age: the number needs more than 64 bits"),
        ({"name": "v", "age": {"float": "inf"}}, "$.age: expected a number, found an object"),
    ],
)
def test_foreign_values_have_types_and_ranges(value: Any, message: str) -> None:
    with pytest.raises(FileError) as caught:
        decode(value, Visitor, style=FOREIGN)
    assert str(caught.value) == message


def test_records_in_records_end_somewhere() -> None:
    value: dict[str, Any] = {"name": "v"}
    for _ in range(17):
        value = {"name": "v", "friends": [value]}
    with pytest.raises(FileError, match="nested more than 16 levels"):
        decode(value, Visitor, style=FOREIGN)


def test_a_value_alone_is_a_list_of_one() -> None:
    assert decode({"names": "a"}, Choices, "", TOML) == Choices(("a",))
    assert decode({"names": ["a", "b"], "speed": 2}, Choices, "", TOML) == Choices(("a", "b"), 2)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"names": []}, "names: the list is empty\n  hint: leave the key out for the default"),
        ({"names": 3}, "names: expected text, found 3"),
        ({"names": ["a", 3]}, "names[1]: expected text, found 3"),
        ({"speed": True}, "speed: expected a number, found true"),
        ([], "expected a table, found a list"),
    ],
)
def test_toml_has_tables_and_no_root_in_its_paths(value: Any, message: str) -> None:
    with pytest.raises(FileError) as caught:
        decode(value, Choices, "", TOML)
    assert str(caught.value) == message


def test_ranges_may_be_left_to_others() -> None:
    assert decode({"name": "h", "rooms": 0}, House, style=Style(ranges=False)).rooms == 0
    with pytest.raises(FileError, match="must be above 0"):
        decode({"name": "h", "rooms": 0}, House, style=JSON)
