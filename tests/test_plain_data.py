"""Single values of plain data: ranges, how they are shown, and nodes that know their place."""

from __future__ import annotations

import pytest

from npuscope.errors import FileError
from npuscope.plain_data import Node, Range, shown, step

ROOT = Node({"list": [1, "x", None], "text": "t", "on": True}, "part")


@pytest.mark.parametrize(
    ("limits", "value", "message"),
    [
        (Range(0, 9), 9, ""),
        (Range(1, 9), 0, "must be above 0, found 0"),
        (Range(0, 9), -1, "must not be negative, found -1"),
        (Range(-1, 9), -2, "must be at least -1, found -2"),
        (Range(0, 9_999), 10_000, "must be at most 9,999, found 10,000"),
        (Range(0, 9), 10**400, "must be at most 9, found a number of more than 300 digits"),
    ],
)
def test_ranges(limits: Range, value: int, message: str) -> None:
    assert limits.fault(value) == message


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        ([1], "a list"),
        ({}, "an object"),
        ("a\x1b", "'a\\x1b'"),
        ("y" * 99, f"'{'y' * 36}..."),
        pytest.param(10**5000, "a number with too many digits", id="endless"),
    ],
)
def test_values_are_shown_short_and_safe(value: object, text: str) -> None:
    assert shown(value) == text


def test_odd_keys_are_quoted_in_paths() -> None:
    assert (step("plain"), step("a.b"), step("\n")) == (".plain", ".'a.b'", ".'\\n'")


def test_values_that_are_as_expected() -> None:
    first, second, third = ROOT.get("list").exactly(3)
    assert (first.integer(), second.text(), third.optional()) == (1, "x", None)
    assert (ROOT.get("other", "text").text(), ROOT.find("none")) == ("t", None)
    assert ROOT.get("on").flag() is True


@pytest.mark.parametrize(
    ("ask", "where", "message"),
    [
        (lambda: ROOT.get("none"), "part.none", "this key is missing"),
        (lambda: ROOT.get("list").get("x"), "part.list", "expected an object, found a list"),
        (lambda: ROOT.get("list").items(2), "part.list", "has 3 entries, at most 2"),
        (lambda: ROOT.get("list").exactly(2), "part.list", "expected 2 entries, found 3"),
        (lambda: ROOT.get("list").texts(), "part.list[0]", "expected text, found 1"),
        (lambda: ROOT.get("text").flag(), "part.text", "expected true or false, found 't'"),
        (lambda: ROOT.get("on").integer(5), "part.on", "expected a number from 0 to 5, found true"),
    ],
)
def test_values_that_are_not(ask: object, where: str, message: str) -> None:
    with pytest.raises(FileError) as caught:
        ask()  # type: ignore[operator]
    assert (caught.value.where, caught.value.message) == (where, message)


def test_a_node_of_a_file_names_the_file_apart() -> None:
    with pytest.raises(FileError) as caught:
        Node({}, file="a.json").get("x")
    assert (caught.value.where, caught.value.message) == ("a.json", "$.x: this key is missing")
