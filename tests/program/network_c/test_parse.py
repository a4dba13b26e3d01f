"""Generated C as values: numbers, casts, addresses, structs, switch rows, comments."""

from __future__ import annotations

import pytest

from npuscope.errors import FileError
from npuscope.program.network_c.parse_source import CallLine, Comment, Declaration, parse_source
from npuscope.program.network_c.parse_values import Macro, Struct, Sum, Value


def value_of(text: str) -> Value:
    source = parse_source(f"void f(void) {{ static const int x = {text}; }}", "here")
    (statement,) = source.functions["f"].statements
    assert isinstance(statement, Declaration)
    return statement.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-3", -3),
        ("0x342e0000UL", 0x342E0000),
        ("1.5f", 1.5),
        ("1e-3", 0.001),
        ("(short)56332", -9204),
        ("(signed char)200", -56),
        ("(unsigned char)200", 200),
        ("0x71000000UL + 366544", 0x710597D0),
        ("((unsigned char *)(TRANSLATED(0x71000000UL + 16)))", 0x71000010),
        ("{(unsigned char *)(0x10UL) /* the same */}", [16]),
        ("{8, 16, 32}", [8, 16, 32]),
        ("{ }", []),
        ("NULL", "NULL"),
        ('"a name"', "a name"),
        ("&tensors[0]", "tensors"),
        ("A_flag | B_flag", Sum(("A_flag", "B_flag"))),
        ("base + 64", Sum(("base",), 64)),
        ("PORT(S, 0, STRENG, 1, 0)", Macro("PORT", ("S", 0, "STRENG", 1, 0))),
    ],
)
def test_values(text: str, value: Value) -> None:
    assert value_of(text) == value


def test_structs_keep_the_comment_behind_a_field() -> None:
    found = value_of("{ .a = 1, .b.c = {2} /* inside */, /* behind */ .d = 3, MACRO(0) = 4, }")
    assert found == Struct({"a": 1, "b.c": [2], "d": 3, "MACRO(0)": 4}, {"b.c": "behind"})


def test_functions_in_order() -> None:
    text = """
    /* pools */
    #define X 1
    static void first(int a) {
      /* kind=Conv node=n */
      static const T one = { .x = 1 };
      go(3, &one);
      if (a) { other(); }
    }
    int second(void) { return 1; }
    """
    source = parse_source(text, "here")
    assert source.comments == ["pools"]
    assert list(source.functions) == ["first", "second"]
    assert source.functions["first"].statements == [
        Comment("kind=Conv node=n"),
        Declaration("static const T", "one", Struct({"x": 1})),
        CallLine("go", (3, "one")),
        CallLine("other", ()),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "void f(void) {",
        "}",
        "void f(void) { int x = ; }",
        "void f(void) { int x = {1, ",
        "void f(void) { g(1",
        "/* open",
        '"open',
        "void f(void) { int x = " + "{" * 200 + "1" + "}" * 200 + "; }",
        "void f(void) { int x = 1 + ; }",
        "void f(void) { int x = " + "9" * 60 + "; }",
        "\\ @ `",
    ],
)
def test_broken_text_says_where(text: str) -> None:
    with pytest.raises(FileError, match=r"here:\d+:\d+: .* at offset \d+"):
        parse_source(text, "here")
