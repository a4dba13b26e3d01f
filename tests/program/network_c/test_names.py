"""Foreign names in C and Graphviz: what each form lets through."""

from __future__ import annotations

import pytest

from npuscope.text import (
    as_utf8,
    c_comment,
    c_identifier,
    c_string,
    dot_string,
    file_name,
    from_c_string,
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("conv_1", "conv_1"),
        ("model/conv:0", "model_conv_0"),
        ("1st", "_1st"),
        ("", "_"),
        ("größe", "gr__e"),
        ("x" * 100, "x" * 40),
    ],
)
def test_c_identifier(name, expected):
    assert c_identifier(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("conv/a*b", "conv/a*b"),
        ("a*/b", r"a\x2a/b"),
        ("a/*b", r"a/\x2ab"),
        ("*/*", r"\x2a/\x2a"),
        ("/*/", r"/\x2a/"),
        ("a\nb", r"a\nb"),
        ("??/", r"?\x3f/"),
        ("ü", r"\xfc"),
    ],
)
def test_c_comment(name, expected):
    assert c_comment(name) == expected


@pytest.mark.parametrize("name", ["*/", "/*", "**//**//", "/*/*/", "*/*/", "//**"])
def test_a_comment_neither_ends_nor_opens(name):
    assert "*/" not in c_comment(name)
    assert "/*" not in c_comment(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("scores", '"scores"'),
        ('a"b', r'"a\"b"'),
        ("a\\", r'"a\\"'),
        ("??/", r'"\?\?/"'),
        ("a\n1", r'"a\0121"'),
        ("ü", r'"\303\274"'),
        ("\ud800", r'"\\ud800"'),
    ],
)
def test_c_string(name, expected):
    assert c_string(name) == expected


def test_dot_string():
    assert dot_string('a"b\\n\n') == r'"a\"b\\n\\n"'


@pytest.mark.parametrize(
    ("name", "expected"),
    [("xSPI2", "xSPI2"), ("../../etc", "_.._.._etc"), ("..", "_.."), ("", "_"), ("a b", "a_b")],
)
def test_file_name(name, expected):
    assert file_name(name) == expected


@pytest.mark.parametrize("name", ["scores", 'a"b', "a\\", "??/", "a\n1", "ü\x00 7", "\ud800", ""])
def test_a_string_reads_back(name):
    assert from_c_string(c_string(name)) == as_utf8(name)


def test_escapes_of_other_writers():
    assert from_c_string(r'"a\tb\x41\101\q"') == "a\tbAAq"
