"""Foreign names in every form: what is shown, and that nothing breaks out."""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Callable
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from hostile_names import HOSTILE, assert_harmless
from npuscope import text
from npuscope.errors import FileError
from npuscope.text import safe_terminal

every_name = pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("model/conv_1:0 größe", "model/conv_1:0 größe"),
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("a\r\nb\tc\x00", r"a\r\nb\tc\x00"),
        ("right\u202eleft", r"right\u202eleft"),
        ("\ud800", r"\ud800"),
    ],
)
def test_safe_terminal(name: str, shown: str) -> None:
    assert safe_terminal(name) == shown


@every_name
def test_a_terminal_shows_one_line(name: str) -> None:
    assert safe_terminal(name).isprintable()
    assert safe_terminal(safe_terminal(name)) == safe_terminal(name)


def test_the_net_keeps_lines_and_tabs() -> None:
    assert text.safe_lines("a\tb\nc│ü\n") == "a\tb\nc│ü\n"
    assert text.safe_lines("a\tb\nc\x1b[2J\r\n") == "a\tb\nc\\x1b[2J\\r\n"


@every_name
def test_an_error_is_one_line_and_its_hint(name: str) -> None:
    error = FileError(f"found '{name}'", where=name, hint=f"try {name}")
    assert_harmless(str(error))
    assert str(error).count("\n") == 1
    assert (error.message, error.where) == (f"found '{name}'", name)


@pytest.mark.parametrize("part", ["message", "where", "hint"])
def test_a_long_error_loses_its_middle(part: str) -> None:
    """JSON has it whole."""
    parts = {"message": "is broken", "where": "a.c", "hint": "mend it", part: f"<{'x' * 5000}>"}
    error = FileError(parts["message"], where=parts["where"], hint=parts["hint"])
    parts[part] = f"<{'x' * 231}…{'x' * 231}>"
    assert str(error) == f"{parts['where']}: {parts['message']}\n  hint: {parts['hint']}"
    assert len(getattr(error, part)) == 5002


def test_an_error_of_usual_length_is_whole() -> None:
    assert str(FileError("x" * 1400)) == "x" * 1400


@every_name
def test_c_names(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,40}", text.c_identifier(name))


@every_name
def test_c_comments_end_where_we_end_them(name: str) -> None:
    comment = text.c_comment(name)
    assert comment.isascii() and comment.isprintable()
    assert not {"*/", "/*", "??"} & {comment[i : i + 2] for i in range(len(comment))}


@every_name
def test_c_strings_hold_the_names_bytes(name: str) -> None:
    literal = text.c_string(name)
    assert literal.isascii() and literal.isprintable() and "??" not in literal
    # Python reads the same escapes; only a question mark needs none there.
    value = ast.literal_eval("b" + literal.replace("\\?", "?"))
    assert value == name.encode("utf-8", "backslashreplace")


@every_name
def test_dot_strings_are_one_word(name: str) -> None:
    found = text.dot_string(name)
    assert re.fullmatch(r'"([^"\\]|\\.)*"', found)
    assert found.isprintable()
    assert re.sub(r"\\(.)", r"\1", found[1:-1]) == safe_terminal(name)


class Page(HTMLParser):
    """What a browser would make of it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, object]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.seen.append(("", data))

    def handle_comment(self, data: str) -> None:
        self.seen.append(("comment", data))


@every_name
def test_html_is_text(name: str) -> None:
    page, safe = Page(), text.html_text(name)
    page.feed(f"<p title=\"{safe}\" lang='{safe}'>{safe}</p>")
    page.close()
    shown = safe_terminal(name)
    assert page.seen[0] == ("p", [("title", shown), ("lang", shown)])
    assert "".join(str(data) for _, data in page.seen[1:]) == shown
    assert {kind for kind, _ in page.seen[1:]} <= {""}


@every_name
def test_xml_is_text(name: str) -> None:
    safe = text.xml_text(name)
    root = ElementTree.fromstring(f"<a b=\"{safe}\" c='{safe}'>{safe}</a>".encode())
    assert len(root) == 0
    assert (root.text or "") == root.attrib["b"] == root.attrib["c"] == safe_terminal(name)


@every_name
def test_csv_cells(name: str) -> None:
    cell = text.csv_cell(name)
    assert list(csv.reader([f"{cell},after", "next"])) == [[cell, "after"], ["next"]]
    assert cell.isprintable() and not cell.startswith(("=", "+", "-", "@"))


@every_name
def test_file_names(name: str) -> None:
    plain = text.file_name(name)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", plain)
    assert len(plain) <= 161


def test_ordinary_file_names_stay() -> None:
    for name in ("network.c", "mobile-net_v2.1", "a"):
        assert text.file_name(name) == name
    assert text.file_name("x" * 300 + ".json").endswith("x.json")


@every_name
def test_sarif_messages_hold_no_link_and_no_placeholder(name: str) -> None:
    shown = text.link_free(name)
    rest = shown.replace("{{", "").replace("}}", "")
    assert shown.isprintable() and "](" not in shown and "{" not in rest and "}" not in rest


@pytest.mark.parametrize(
    "form",
    [
        text.safe_terminal,
        text.html_text,
        text.xml_text,
        text.csv_cell,
        text.c_identifier,
        text.file_name,
    ],
)
def test_plain_names_stay_as_they_are(form: Callable[[str], str]) -> None:
    assert form("conv_1") == "conv_1"
