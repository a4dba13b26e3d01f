"""Any name at all: what it becomes is safe where it is written, and tells what it was."""

from __future__ import annotations

import csv
import io
import re
from ast import literal_eval
from html import unescape
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from npuscope.text import (
    c_comment,
    c_identifier,
    c_string,
    csv_cell,
    dot_string,
    file_name,
    html_text,
    safe_lines,
    safe_terminal,
    xml_text,
)

# Lone surrogates too: names of files and of models may hold them.
NAMES = st.text(st.characters(categories=None), max_size=60) | st.text(
    st.sampled_from('"\\*/?<>&=+-@,;.\n\r\t\0\x1b\u202e\ud800é a0_'), max_size=40
)


@given(NAMES)
def test_a_terminal_line_is_printable_and_made_safe_once(name: str) -> None:
    shown = safe_terminal(name)
    assert shown.isprintable()
    assert safe_terminal(shown) == shown
    assert (shown == name) == name.isprintable()


@given(NAMES)
def test_whole_answers_keep_only_their_line_ends(text: str) -> None:
    shown = safe_lines(text)
    assert all(char.isprintable() or char in "\n\t" for char in shown)
    assert shown.count("\n") == text.count("\n")


@given(NAMES)
def test_a_c_string_has_the_bytes_of_the_name(name: str) -> None:
    literal = c_string(name)
    assert re.fullmatch(r'"(?:[ !#-\[\]-~]|\\[0-7]{3}|\\["\\?])*"', literal)
    # Python reads octal escapes as C does; `\?` it does not know.
    read = literal_eval("b" + literal.replace("\\?", "?"))
    assert read == name.encode("utf-8", "backslashreplace")


@given(NAMES)
def test_a_c_comment_neither_ends_nor_opens_one(name: str) -> None:
    line = c_comment(name)
    assert line.isascii()
    assert line.isprintable()
    assert not re.search(r"\*/|/\*|\?\?", line)


@given(NAMES)
def test_names_in_c_and_of_files(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", c_identifier(name))
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,160}", file_name(name))
    assert file_name(f"a{name}") != file_name(f"b{name}")


@given(NAMES)
def test_a_dot_string_ends_where_it_should(name: str) -> None:
    body = dot_string(name)[1:-1]
    assert re.fullmatch(r'(?:[^"\\\n]|\\["\\])*', body)
    assert body.replace('\\"', '"').replace("\\\\", "\\") == safe_terminal(name)


@given(NAMES)
def test_markup_gives_the_shown_name_back(name: str) -> None:
    assert unescape(html_text(name)) == safe_terminal(name)
    element = ElementTree.fromstring(f'<a b="{xml_text(name)}">{xml_text(name)}</a>')
    assert (element.text or "") == safe_terminal(name)
    assert element.get("b") == safe_terminal(name)


@given(NAMES, NAMES)
def test_cells_stay_apart_and_are_no_formulas(one: str, other: str) -> None:
    row = next(csv.reader(io.StringIO(f"{csv_cell(one)},{csv_cell(other)},end\n")))
    assert row == [csv_cell(one), csv_cell(other), "end"]
    assert not row[0].startswith(("=", "+", "-", "@", '"'))
